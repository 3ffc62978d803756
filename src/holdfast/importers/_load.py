"""The two verbs: a model, wherever it comes from, as a `Network` or as a `Model`."""

from __future__ import annotations

from os import PathLike
from typing import Any

from holdfast._network import Network
from holdfast.importers._files import read_model
from holdfast.importers._model import Model
from holdfast.importers._objects import import_object


def load_model(model: Any, threshold: Any = None) -> Model:
    """A classifier as its network and its preprocessing.

    Parameters
    ----------
    model
        A fitted scikit-learn ``LogisticRegression``, ``LogisticRegressionCV``, ``MLPClassifier``, a ``Pipeline`` that
        ends in one of them or a search over one; a ``torch.nn.Module`` of Linear and ReLU layers; an
        ``onnx.ModelProto``; trees of scikit-learn, XGBoost, LightGBM, CatBoost or ``interpret`` (EBMs); a `Network`;
        the path of a file (see `read_model`); or anything with ``predict_proba`` or a decision function, known by its
        scores alone. A `Model` comes back as it is.
    threshold
        The probability from which on the model's user says class 1; of several classes one for each, in order or by
        label: the class with the greatest probability over its threshold wins. None: as the model itself predicts.

    Raises
    ------
    UnsupportedModelError
        The model cannot be represented exactly; the message names the layer or operator.
    InvalidInputError
        The model is not fitted, or not in eval mode.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit([[10.0], [20.0], [30.0]], [0, 0, 1])
    >>> model = load_model(pipeline)
    >>> model.variables([[20.0]])
    array([[0.]])
    >>> model.network
    Network(1 -> 1, 2 parameters)
    """
    loaded = read_model(model) if isinstance(model, str | PathLike) else import_object(model)
    return loaded.at(threshold)


def load_network(model: Any) -> Network:
    """The network of a classifier, in the variables that the classifier itself reads.

    For a pipeline these are the variables *after* its earlier steps; `load_model` keeps those steps.

    Parameters
    ----------
    model
        Whatever `load_model` takes.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> classifier = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
    >>> load_network(classifier).predict([[0.0], [2.0]]).tolist()
    ['no', 'yes']
    """
    return load_model(model).network
