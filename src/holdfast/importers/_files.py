"""Read a model from an object or a file, as a `Model` or a `Network`.

Only formats that cannot run code are opened, unless the caller trusts the file.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from holdfast._files import Place
from holdfast._given import shown
from holdfast._network import Network
from holdfast.errors import (
    FileFormatError,
    HoldfastError,
    InvalidInputError,
    MissingExtraError,
    UnsupportedModelError,
    UntrustedFileError,
)
from holdfast.importers._model import Model
from holdfast.importers._objects import import_object


def load_model(model: Any, threshold: Any = None) -> Model:
    """Read a classifier as its network and its preprocessing.

    Parameters
    ----------
    model
        A fitted scikit-learn ``LogisticRegression``, ``LogisticRegressionCV``, ``MLPClassifier``, a ``Pipeline`` that
        ends in one of them or a search over one; a ``torch.nn.Module`` of Linear and ReLU layers; an
        ``onnx.ModelProto``; trees of scikit-learn, XGBoost, LightGBM, CatBoost or ``interpret`` (EBMs); a `Network`;
        the path of a file (see `read_model`); or anything with ``predict_proba`` or a decision function, known by its
        scores alone. A `Model` comes back as it is.
    threshold
        The probability from which the model decides for class 1. For several classes one probability each, in order or
        by label: the class with the greatest ratio of probability to threshold wins. None: the model's own decision.

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
    loaded = read_model(model) if isinstance(model, str | os.PathLike) else import_object(model)
    return loaded.at(threshold)


def load_network(model: Any) -> Network:
    """Read the network of a classifier, in the variables that the classifier itself reads.

    For a pipeline these are the variables *after* its earlier steps; `load_model` keeps those steps.

    Parameters
    ----------
    model
        Any model that `load_model` takes.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> classifier = LogisticRegression().fit([[0.0], [1.0]], ["no", "yes"])
    >>> load_network(classifier).predict([[0.0], [2.0]]).tolist()
    ['no', 'yes']
    """
    return load_model(model).network


def read_model(path: Place, *, trust_pickle: bool = False) -> Model:
    """Read the model in a file.

    Parameters
    ----------
    path
        ``.onnx`` (dense layers or trees); ``.json`` or ``.ubj`` (XGBoost); ``.txt`` (LightGBM); ``.cbm`` or ``.json``
        (CatBoost); ``.npz`` or ``.hfn`` (a `Network` saved with `Network.save`, recognised by its content under any
        name); ``.skops`` (scikit-learn); and the pickles ``.pkl``, ``.pickle``, ``.joblib`` (scikit-learn), ``.pt`` and
        ``.pth`` (a whole torch module).
    trust_pickle
        True opens pickles too. Opening a pickle runs the code in it: use it only for files from people you trust.

    Raises
    ------
    UntrustedFileError
        A pickle without `trust_pickle`, or a .skops file with types other than scikit-learn's.
    FileFormatError
        The file is corrupted or of another format.
    InvalidInputError
        There is no such file.
    """
    return import_object(read_object(path, trust_pickle=trust_pickle))


def read_object(path: Place, *, trust_pickle: bool = False) -> Any:
    """Read the object in a model file: the estimator or module itself, if the file holds one; see `read_model`."""
    file = Path(os.fspath(path))
    if not file.is_file():
        came = "a folder" if file.is_dir() else "no such file"
        raise InvalidInputError(f"{path}: expected the path of a model file, got {came}")
    suffix = file.suffix.lower()
    reader = _READERS.get(suffix)
    try:
        if _is_saved_network(file):
            return Network.load(file)
        if reader is None:
            raise FileFormatError(
                f"{path}: expected a file named {', '.join(_READERS)}, got {suffix!r}"
            )
        if reader in (_read_pickle, _read_torch) and not trust_pickle:
            raise UntrustedFileError(
                f"{path} is a pickle, and opening a pickle runs the code in it. If you trust its author, "
                "pass trust_pickle=True (--trust-pickle on the command line); safer: save the model as .onnx, "
                "as .skops (scikit-learn), or with holdfast's Network.save (.npz)"
            )
        return reader(file)
    except OSError as error:
        raise FileFormatError(
            f"{path}: expected a file that can be read, got {error.strerror or error}"
        ) from error


def _is_saved_network(path: Path) -> bool:
    """True if the file is a zip with the parts that `Network.save` writes."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {"header.npy", "weight_0.npy", "bias_0.npy"} <= set(archive.namelist())
    # A damaged directory surfaces as BadZipFile, NotImplementedError, UnicodeDecodeError and others.
    except Exception:
        return False


def _not_a_network(path: Path) -> Any:
    raise FileFormatError(
        f"{path}: expected a network saved by holdfast, got a file without a network's parts"
    )


def _read_json(path: Path) -> Any:
    """Read JSON of CatBoost, which begins with the features, or of XGBoost, which begins with the learner."""
    with path.open("rb") as file:
        start = file.read(200)
    if b'"features_info"' in start:
        return _read_by("catboost", path)
    if start.startswith(b'{"learner"'):
        return _read_by("xgboost", path)
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        came = f"a file that is not JSON: {error}"
    else:
        came = f"a {type(document).__name__}"
        if isinstance(document, dict):
            for name, library in _LIBRARIES.items():
                if name in document:
                    return _read_by(library, path)
            some = (
                ", ".join(map(shown, [*document][:3])) + ", ..." * (len(document) > 3) or "nothing"
            )
            came = shown(document["format"]) if "format" in document else f"an object with {some}"
    raise FileFormatError(f"{path}: expected a model of XGBoost or CatBoost, got {came}")


def _read_by(name: str, path: Path) -> Any:
    """Read a file with the reader of a library."""
    extra(name, f"reading a {path.suffix} file")
    return import_module(f"holdfast.importers._{name}").read_file(path)


def extra(module: str, purpose: str) -> Any:
    """Import a module of a library that the extra of the same name installs."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise MissingExtraError(name, name, purpose) from error


def _read_skops(path: Path) -> Any:
    skops = extra("skops.io", "reading a .skops file")
    try:
        flagged = list(skops.get_untrusted_types(file=path))
    # A damaged archive surfaces as whatever its first broken part raises.
    except Exception as error:
        raise FileFormatError(
            f"{path}: expected a .skops file, got one that cannot be read: {error}"
        ) from error
    strangers = sorted(name for name in flagged if not _is_harmless_type(name))
    if strangers:
        raise UntrustedFileError(
            f"{path}: expected a .skops file with scikit-learn and numpy types only, got {', '.join(strangers)}, "
            "which may run code of their own when loaded"
        )
    return _opened(path, lambda: skops.load(path, trusted=flagged), "a scikit-learn model")


def _is_harmless_type(name: str) -> bool:
    """True for a class of scikit-learn, or a number type of numpy; nothing that the file names is imported."""
    module, _, attribute = name.rpartition(".")
    found = getattr(sys.modules.get(module), attribute, None)
    return isinstance(found, type) and (
        module.startswith("sklearn.") or issubclass(found, np.generic | np.dtype)
    )


def _read_pickle(path: Path) -> Any:
    return _opened(path, lambda: joblib.load(path), "a pickled scikit-learn model")


def _read_torch(path: Path) -> Any:
    torch = extra("torch", "reading a torch model")

    def load() -> Any:
        loaded = torch.load(path, map_location="cpu", weights_only=False)
        if isinstance(loaded, Mapping):
            some = ", ".join(map(repr, [*loaded][:3])) + ", ..." * (len(loaded) > 3)
            raise UnsupportedModelError(
                f"{path}: expected a whole torch module, got a dictionary ({some}): parameters alone do not "
                "say which activations are between the layers; save the module, or export it to ONNX"
            )
        return loaded

    return _opened(path, load, "a whole torch module")


def _opened(path: Path, load: Callable[[], Any], expected: str) -> Any:
    """The object that `load` returns; an error inside another library is reported as a fault of the file."""
    try:
        return load()
    except HoldfastError:
        raise
    except Exception as error:
        raise FileFormatError(
            f"{path}: expected {expected}, got a file that cannot be loaded: {type(error).__name__}: {error}"
        ) from error


# By what is at the top of a model in JSON, the library that wrote it.
_LIBRARIES = {"learner": "xgboost", "oblivious_trees": "catboost", "trees": "catboost"}
_READERS: dict[str, Callable[[Path], Any]] = {
    ".onnx": partial(_read_by, "onnx"),
    ".npz": _not_a_network,
    ".hfn": _not_a_network,
    ".skops": _read_skops,
    ".json": _read_json,
    ".ubj": partial(_read_by, "xgboost"),
    ".txt": partial(_read_by, "lightgbm"),
    ".cbm": partial(_read_by, "catboost"),
    ".pkl": _read_pickle,
    ".pickle": _read_pickle,
    ".joblib": _read_pickle,
    ".pt": _read_torch,
    ".pth": _read_torch,
}
