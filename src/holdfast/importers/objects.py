"""Which reader takes which object: by the library that the object's class, or a base class of it, comes from."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from holdfast.errors import UnsupportedModelError
from holdfast.importers.anything import by_its_scores
from holdfast.importers.model import Model
from holdfast.importers.thresholds import check_threshold, logit
from holdfast.network import Network
from holdfast.scored import Scored, scored

# A row is a library and the module that reads its models with `import_model`; it is imported when the first one comes.
_READERS = {
    "sklearn": "holdfast.importers.sklearn",
    "torch": "holdfast.importers.torch",
    "onnx": "holdfast.importers.onnx",
}
EXPECTED = (
    "expected a fitted scikit-learn, torch or ONNX classifier, a holdfast Network, the path of a model file, "
    "or anything with predict_proba"
)


def import_object(model: Any) -> Model:
    """The model of any object that is not a path."""
    if isinstance(model, Model):
        return model
    if isinstance(model, Network):
        return Model(model)
    if isinstance(model, Scored):
        return Model(model, feature_names=model.columns)
    for base in type(model).__mro__:
        reader = _READERS.get(base.__module__.partition(".")[0])
        if reader is not None:
            try:
                imported: Model = import_module(reader).import_model(model)
            except UnsupportedModelError as why:
                own = getattr(import_module(reader), "own_threshold", None)
                inner, threshold, first = (model, None, False) if own is None else own(model)
                return _by_its_scores(inner, why, threshold, first)
            return imported
    if inspect.isroutine(model):
        return Model(scored(model))
    came = f"the class {model.__name__}, not an object of it" if isinstance(model, type) else qualified_name(model)
    return _by_its_scores(model, UnsupportedModelError(f"{EXPECTED}; got {came}"))


def _by_its_scores(
    model: Any, why: UnsupportedModelError, threshold: float | None = None, first: bool = False
) -> Model:
    """A model that is no network, with all its preprocessing, as a function of the table.

    Its own threshold is one for the probability of its first or of its second class, which decides to the last bit.
    """
    classifier = by_its_scores(model, why)
    if threshold is None:
        return Model(classifier, feature_names=classifier.columns)
    second = 1.0 - threshold if first else threshold
    check_threshold(second)
    moved = classifier.at([logit(second)], threshold, first)
    return Model(moved, feature_names=classifier.columns, threshold=second, as_trained=classifier)


def qualified_name(model: object) -> str:
    """The class of an object as a reader of an error message would look it up."""
    return f"{type(model).__module__}.{type(model).__qualname__}"
