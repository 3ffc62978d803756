"""The methods and the deltas of a study.

A delta is a number or another kind of change, for all tables or by table, or it is measured on the models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.calibration import delta_incremental, delta_validation
from holdfast.changes import Changes, EnsembleShift, PlausibleChanges, changes_from_dict
from holdfast.errors import InvalidInputError
from holdfast.generators import Generator
from holdfast.generators._registry import METHODS, make_generator
from holdfast.study._situation import Situation
from holdfast.study._store import digest
from holdfast.study._tables import by_name, check_names


@dataclass(frozen=True)
class StudyMethod:
    """A method with its name in a study.

    Parameters
    ----------
    name
        The name in the tables of the study. make A generator, its name (`holdfast methods`), or a function that
        takes the training table and returns a generator.
    deltas
        The labels of its deltas. None means every delta of the study if its advice depends on Δ
        (`Generator.uses_changes`), else a single run without Δ.
    whole_table
        Give it the whole table instead of the training table.
    """

    name: str
    make: Generator | str | Callable[[Any], Generator]
    deltas: tuple[str, ...] | None = None
    whole_table: bool = False

    def generator(self, situation: Situation) -> Generator:
        """The generator for this table and seed."""
        people = situation.table.X if self.whole_table else situation.training_table
        if isinstance(self.make, Generator):
            return self.make
        made = (
            make_generator(self.make, people) if isinstance(self.make, str) else self.make(people)
        )
        if not isinstance(made, Generator):
            raise InvalidInputError(
                f"methods[{self.name!r}]: the function must return a generator; it returned {made!r:.80}"
            )
        return made

    def asked(self, generator: Generator, labels: Iterable[str]) -> tuple[str | None, ...]:
        """The deltas of the method; None means without Δ."""
        if self.deltas is not None:
            return self.deltas
        return tuple(labels) if generator.uses_changes else (None,)


def read_methods(methods: Any, labels: Iterable[str]) -> tuple[StudyMethod, ...]:
    """Read names, or a mapping from names to generators, functions that make one, or `StudyMethod`s."""
    named = by_name(methods, "methods", "names, or a mapping from names to generators")
    several = tuple(_method(value, name) for name, value in named)
    check_names([method.name for method in several], "methods")
    for method in several:
        unknown = set(method.deltas or ()) - set(labels)
        if unknown:
            raise InvalidInputError(
                f"methods[{method.name!r}]: expected deltas among {list(labels)}, got {sorted(unknown)}"
            )
    return several


def _method(value: Any, name: str | None) -> StudyMethod:
    """A method with the caller's name, or its own."""
    if isinstance(value, StudyMethod):
        return value if name is None else replace(value, name=name)
    known = [method.name for method in METHODS]
    if isinstance(value, str) and value in known:
        return StudyMethod(name or value, value)
    if name is None or isinstance(value, str):
        raise InvalidInputError(
            f"methods: expected names among {', '.join(known)}, or a mapping, got {value!r:.80}"
        )
    if not (isinstance(value, Generator) or callable(value)):
        raise InvalidInputError(
            f"methods[{name!r}]: expected a generator, or a function that makes one, got {value!r:.80}"
        )
    return StudyMethod(name, value)


# A number or a kind of change for every table, one for each table (or table and model), or a function of the situation.
One = float | Changes
Delta = One | Mapping[Any, One] | Callable[[Situation], One]
# People on whom delta_val is chosen.
_VALIDATION_PEOPLE = 50


def measured_incremental(situation: Situation) -> float:
    """The paper's delta_inc: the mean distance by which fine-tuning on a share of the new data moves the model."""
    data = situation.learned
    return float(
        delta_incremental(
            situation.fitted,
            data.X_new,
            data.y_new,
            share=situation.protocol.share,
            seed=situation.seed,
            progress=False,
        )
    )


def measured_validation(situation: Situation) -> float:
    """The paper's delta_val: the least delta at which models retrained from scratch accept all recourse.

    It is validated on rejected people of the new half's test part, who are not in the study itself.
    """
    protocol = situation.protocol
    table = situation.table
    n_anew = protocol.retrained.get("complete", 0) + protocol.retrained.get("leave_one_out", 0)
    if not n_anew:
        raise InvalidInputError(
            "deltas: 'val' needs models retrained from scratch; add 'complete' to retrained="
        )
    rejected = situation.rejects(np.setdiff1d(situation.halves.new_test, situation.drawn))
    people = np.random.default_rng([situation.seed, 1]).permutation(rejected)[:_VALIDATION_PEOPLE]
    if not people.size:
        raise InvalidInputError("deltas: 'val' needs rejected people, and the model rejects none")
    chosen = delta_validation(
        situation.models.network, table.X.iloc[people], retrained=situation.models.retrained[:n_anew],
        candidates=situation.training_table, target=table.target, space=table.space, seed=situation.seed,
        progress=False,
    )  # fmt: skip
    if not chosen.reached:
        raise InvalidInputError(f"deltas: no value for 'val' was found: {chosen}")
    return float(chosen)


MEASURED: dict[str, Callable[[Situation], float]] = {
    "inc": measured_incremental,
    "val": measured_validation,
}


def read_deltas(deltas: Any) -> dict[str, Delta]:
    """Read deltas by label; the label of a number is the number itself.

    Examples
    --------
    >>> list(read_deltas([0.01, 0.05]))
    ['0.01', '0.05']
    >>> list(read_deltas({"ours": 0.02, "the paper's": "inc"}))
    ['ours', "the paper's"]
    """
    if isinstance(deltas, Mapping):
        labelled = {str(label): value for label, value in deltas.items()}
    else:
        several = (
            deltas if isinstance(deltas, Iterable) and not isinstance(deltas, str) else [deltas]
        )
        labelled = {f"{value:g}" if _is_number(value) else str(value): value for value in several}
    if not labelled or "" in labelled:
        raise InvalidInputError(
            f"deltas: expected at least one, each with a label, got {deltas!r:.80}"
        )
    return {label: _read_delta(label, value) for label, value in labelled.items()}


def _read_delta(label: str, value: Any) -> Delta:
    if _is_number(value) or isinstance(value, Changes):
        return _checked(value)
    if isinstance(value, str) and value in MEASURED:
        return MEASURED[value]
    if isinstance(value, Mapping) or callable(value):
        delta: Delta = value
        return delta
    raise InvalidInputError(
        f"deltas[{label!r}]: expected a number > 0, a kind of change, one of {list(MEASURED)}, a number for each "
        f"table, or a function of the situation, got {value!r:.80}"
    )


def resolve(delta: Delta, situation: Situation) -> Changes:
    """The changes of a delta in this situation; measured deltas are measured once and kept."""
    if isinstance(delta, Mapping):
        name = situation.table.name
        pair = (situation.table.name, situation.model_name)
        if name not in delta and pair not in delta:
            raise InvalidInputError(
                f"deltas: expected a number for {name!r} or {pair!r}, got numbers for {list(delta)}"
            )
        return _checked(delta[pair] if pair in delta else delta[name])
    if not callable(delta):
        return _checked(delta)
    key = digest([situation.identity, delta, situation.drawn])
    kept = situation.store.read("changes", key)
    if kept is not None:
        return changes_from_dict(kept)
    changes = _checked(delta(situation))
    # Of an ensemble a file keeps the names alone, so it is asked for again.
    if not isinstance(changes, EnsembleShift):
        situation.store.write("changes", key, changes.to_dict())
    return changes


def _checked(value: Any) -> Changes:
    if isinstance(value, Changes):
        return value
    try:
        changes = PlausibleChanges(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"deltas: {error}") from error
    if isinstance(changes.delta, tuple):
        raise InvalidInputError(f"deltas: expected one number for all layers, got {changes.words}")
    return changes


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
