"""Write a counter-model in the format of the original model, to show the broken promise in the user's own software.

    scikit-learn   a copy of the estimator or pipeline with the witness's parameters, as .skops
    torch          a state dict, as .pt, for the same module to load
    ONNX           a copy of the graph with the witness's numbers in it, as .onnx
    XGBoost        the changed trees, as .json or .ubj; LightGBM: as .txt

The file is loaded again and must reproduce the class before the function returns. A format in float32 cannot represent
a witness in float64: its parameters are rounded towards today's, so they stay in Δ. If the class then no longer
changes, nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from holdfast._classifier import Classifier, Floats
from holdfast._files import Place, whole_file
from holdfast._given import given_floats
from holdfast._network import Network
from holdfast._trees import TreeEnsemble
from holdfast.changes import Changes
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.importers import load_model, load_network
from holdfast.importers._tree_files import suffixes, write_trees
from holdfast.promises._witness_formats import Format, Parts, format_of
from holdfast.verify._deciders import decider_for
from holdfast.verify._shift import Shift


class WitnessFileError(HoldfastError):
    """A witness in the requested format would not break the promise; the message gives the reason."""


@dataclass(frozen=True)
class SavedWitness:
    """The path of the witness, the network in the file, and the class that the file's own library gives the point.

    `rounded` is True if the file's network differs from the witness by rounding; it is in Δ too, and also gives another
    class than the target.
    """

    path: Path
    network: Classifier
    predicted: Any
    rounded: bool


def save_witness(
    witness: Classifier,
    like: Any,
    path: Place,
    *,
    point: ArrayLike | pd.DataFrame,
    target: Any,
    changes: Changes,
) -> SavedWitness:
    """Write `witness` as a model of the same library as `like`, and check that it breaks the promise there.

    Parameters
    ----------
    witness
        The result of `Certificates.witness`.
    like
        The model that was certified: a scikit-learn estimator or pipeline, a torch module, or an ONNX model (the object
        or the path of its file); trees of XGBoost or LightGBM.
    path
        The file's path: .skops for scikit-learn, .pt for torch (a state dict), .onnx for ONNX; .json or .ubj for
        XGBoost, .txt for LightGBM. Trees of other libraries cannot be written; use `TreeEnsemble.predict` for their
        classes.
    point, target, changes
        The point in the model's variables, or for trees fitted on a table the caller's row, `X.iloc[[i]]`; the promised
        class; and Δ, which the file's model must be in.

    Raises
    ------
    WitnessFileError
        Rounding to the precision of the format leaves no network in Δ that gives the point another class.
    """
    path = Path(path)
    if isinstance(witness, TreeEnsemble):
        return _saved_trees(witness, path, point, target)
    if not isinstance(witness, Network):
        raise InvalidInputError(
            f"witness: expected a network, got {witness!r}: a model that is known by its scores alone has no "
            "parameters to write"
        )
    form = format_of(like)
    if path.suffix.lower() != form.suffix:
        raise InvalidInputError(
            f"path: expected a name that ends in {form.suffix} for this model, got {path.name!r}"
        )
    loaded = load_model(form.model)
    today = loaded.network
    if [w.shape for w in today.weights] != [w.shape for w in witness.weights]:
        raise InvalidInputError(
            f"witness: expected a network of the model's shape, {today!r}, got {witness!r}"
        )
    x = today.check_points(given_floats(point, "point").reshape(1, -1))
    index = today.class_index(target)
    label = today.classes[index].item()
    decider = decider_for(loaded, changes)
    with whole_file(path) as partial:
        for parts in _candidates(form, today, witness):
            network, predicted = form.replay(parts, partial, x)
            shift = decider if isinstance(decider, Shift) else None
            if predicted != label and (
                changes.contains(today, network)
                if shift is None
                else shift.allows(network, x[0], index)
            ):
                return SavedWitness(path, network, predicted, rounded=network != witness)
        raise WitnessFileError(
            f"{path}: rounded to this format, the witness is outside Δ or no longer changes the point's class; "
            "it is a counter-model in float64 only (Network.save stores it)"
        )


def _saved_trees(witness: TreeEnsemble, path: Path, point: Any, target: Any) -> SavedWitness:
    """Write trees in a file of their library, bit for bit, and check their class as the library writes them."""
    names = " or ".join(suffixes(witness))
    if path.suffix.lower() not in suffixes(witness):
        raise InvalidInputError(
            f"path: expected a name that ends in {names} for a file of trees, got {path.name!r}"
        )
    index = witness.class_index(target)
    matrix = _read_row(witness, point)
    with whole_file(path) as partial:
        write_trees(witness, partial)
        again = load_model(partial).classifier
        assert isinstance(again, TreeEnsemble)
        logits = replace(witness.score, forest=again.forest).logits(again.forest.sums(matrix))
        predicted = int(witness.winners(logits)[0])
        if predicted == index:
            raise WitnessFileError(
                f"{path}: the trees in this file do not change the point's class"
            )
    return SavedWitness(path, witness, witness.classes[predicted].item(), rounded=False)


def _read_row(witness: TreeEnsemble, point: Any) -> Floats:
    """The values that trees read of a row: of a table with one row in the caller's units, or of a point."""
    if isinstance(point, pd.DataFrame):
        if len(point) != 1 or not witness.raw:
            raise InvalidInputError(
                "point: expected a table with one row for a model that was fitted on a table with column names, or the "
                f"numbers that the model reads, such as space.encode(row), got a table of {len(point)} rows"
            )
        return witness.score.matrix(point)
    return witness.matrix(given_floats(point, "point").reshape(1, -1))


def _candidates(form: Format, today: Network, witness: Network) -> Iterator[Parts]:
    """Yield the model's arrays with the witness's numbers: rounded towards today's, then to the nearest."""
    places = _places(form)
    ours = _flat(today)
    theirs = _flat(witness)
    for inwards in (True, False):
        parts = {name: array.copy() for name, array in form.parts().items()}
        for name, array in parts.items():
            slots = places[name]
            stored = np.flatnonzero(slots >= 0)
            wanted = theirs[slots[stored]]
            before = ours[slots[stored]]
            rounded = wanted.astype(array.dtype)
            if inwards:
                too_far = np.abs(rounded.astype(np.float64) - before) > np.abs(wanted - before)
                rounded = np.where(
                    too_far, np.nextafter(rounded, before.astype(array.dtype)), rounded
                )
            array.reshape(-1)[stored] = rounded
        yield parts


def _places(form: Format) -> dict[str, Any]:
    """The position of each stored number in the network (counted through all layers), or -1.

    Every number is replaced by a unique one, and the importer shows where each of them appears. So this module does not
    depend on how a library stores, transposes or names its weights.
    """
    parts = form.parts()
    total = sum(array.size for array in parts.values())
    if total >= 2**24:
        raise InvalidInputError(
            f"like: expected a model of fewer than {2**24} parameters, got {total}"
        )
    marks, start = {}, 1
    for name, array in parts.items():
        marks[name] = np.arange(start, start + array.size).astype(array.dtype).reshape(array.shape)
        start += array.size
    where = np.full(total + 1, -1)
    seen = _flat(load_network(form.with_parts(marks)))
    known = np.flatnonzero((seen >= 1) & (seen <= total) & (seen == np.floor(seen)))
    where[seen[known].astype(np.intp)] = known
    return {name: where[array.astype(np.intp).reshape(-1)] for name, array in marks.items()}


def _flat(network: Network) -> Any:
    return np.concatenate([part.ravel() for part in (*network.weights, *network.biases)])
