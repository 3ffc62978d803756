"""The methods of a study by name, and the deltas that each is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from holdfast.errors import InvalidInputError
from holdfast.generators import Generator
from holdfast.generators._registry import METHODS, make_generator
from holdfast.study._situation import Situation
from holdfast.study._tables import by_name, check_names


@dataclass(frozen=True)
class StudyMethod:
    """A method under the name it has in a study.

    Parameters
    ----------
    name
        For people.
    make
        A generator, the name of one (`holdfast methods`), or a function from the table that the model learned from to
        a generator.
    deltas
        The labels of the deltas that it is asked for, one after the other. None: every delta of the study if its
        answers depend on Δ (`Generator.uses_changes`), else it is asked once, without Δ.
    whole_table
        Hand it the whole table instead of the part that the model learned from.
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
                f"methods[{self.name!r}]: expected a function to a generator, got {made!r}"
            )
        return made

    def asked(self, generator: Generator, labels: Iterable[str]) -> tuple[str | None, ...]:
        """The deltas to ask for; None stands for no Δ."""
        if self.deltas is not None:
            return self.deltas
        return tuple(labels) if generator.uses_changes else (None,)


def read_methods(methods: Any, labels: Iterable[str]) -> tuple[StudyMethod, ...]:
    """Names, or a mapping from names to generators, to functions that make one, or to `StudyMethod`s."""
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
    """A method that is called by a name of the caller's, or by its own."""
    if isinstance(value, StudyMethod):
        return value if name is None else replace(value, name=name)
    known = [method.name for method in METHODS]
    if isinstance(value, str) and value in known:
        return StudyMethod(name or value, value)
    if name is None or isinstance(value, str):
        raise InvalidInputError(
            f"methods: expected names among {', '.join(known)}, or a mapping, got {value!r}"
        )
    if not (isinstance(value, Generator) or callable(value)):
        raise InvalidInputError(
            f"methods[{name!r}]: expected a generator, or a function from a table to one, got {value!r}"
        )
    return StudyMethod(name, value)
