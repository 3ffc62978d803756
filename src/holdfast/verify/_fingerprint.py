"""Fingerprints of models; the file or object that a model was read from does not matter.

The checker is imported when it is called, so that it also runs as a module of its own.
"""

from __future__ import annotations

import warnings

import joblib

from holdfast._classifier import Classifier
from holdfast._files import Document
from holdfast._network import Network
from holdfast._scored import Scored
from holdfast._tree_document import tree_document
from holdfast._trees import TreeEnsemble, steps_digest
from holdfast.changes import Changes
from holdfast.errors import HoldfastWarning, UnsupportedModelError
from holdfast.importers import Model


def fingerprint(classifier: Classifier) -> str:
    """The hash of a model: of a network or trees as in a certificate file, of any other model by its content.

    The content of a function is its name and its code, without the functions that it calls. An object without pickle
    is "unknown".
    """
    if isinstance(classifier, Network):
        from holdfast.checker import PlainModel
        from holdfast.verify._exact import parameters

        known = parameters(classifier)
        return PlainModel(
            known["weights"], known["biases"], known["activations"], known["classes"]
        ).sha256
    if (trees := recorded_trees(classifier)) is not None:
        return sha256(trees)
    assert isinstance(classifier, Scored)
    code = getattr(getattr(classifier.score, "function", None), "__code__", None)
    body = code and (code.co_code, code.co_names, repr(code.co_consts))
    try:
        content = joblib.hash([classifier.score, body, classifier.columns], hash_name="sha1")
    # Anyone's code may be in it, and raise anything.
    except Exception:
        return "unknown"
    return sha256({"classes": classifier.classes.tolist(), "content": content})


def sha256(value: object) -> str:
    """The hash of plain data, as in a certificate file."""
    from holdfast import checker

    return checker.sha256(value)


def known_of(model: Model, changes: Changes, why: str) -> Changes:
    """The changes without their chance, and without the probability of the next model if Δ is around another model.

    A warning names each part that is left out; `why` is the reason given for the chance.
    """
    if changes.chance is not None:
        leave_out("chance", why)
    inside = changes.inside
    if inside is not None:
        # Distances name no model.
        named = (inside.record or {}).get("model")
        other = named is not None and named != fingerprint(model.trained)
        if other or not inside.about(changes):
            leave_out(
                "probability of the next retraining",
                f"it was measured for {'another model' if other else 'other changes'}",
                "delta_calibrated",
            )
            return changes.bare
    return changes.calibrated(None)


def leave_out(what: str, why: str, again: str = "risk_calibrated") -> None:
    """Warn that a measured chance is left out."""
    warnings.warn(
        f"the {what} is left out: {why}; {again} measures it for this case",
        HoldfastWarning,
        stacklevel=4,
    )


def recorded_trees(classifier: Classifier) -> Document | None:
    """Trees in full, with the hash of the steps before them; None for other models, or if the steps have no hash."""
    from holdfast import checker

    if not isinstance(classifier, TreeEnsemble):
        return None
    before = classifier.score.before
    if before is not None and steps_digest(before) is None:
        return None
    try:
        document = tree_document(classifier)
        checker.canonical(document)
    except (UnsupportedModelError, checker.CheckError):
        return None
    return document
