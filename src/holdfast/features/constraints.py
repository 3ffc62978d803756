"""What a person can change, laid over the columns: directions, ranges, steps, cost weights, units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from holdfast.errors import InvalidInputError
from holdfast.features.feature import Feature
from holdfast.features.kinds import Direction, Kind, Label, Name
from holdfast.features.scaling import hold_inward
from holdfast.given import given_number

Names = Iterable[Name] | str
Range = tuple[float | None, float | None]
# The moves that are possible between labels, (from, to) each.
Moves = Iterable[tuple[Label, Label]] | None
NOTHING: Mapping[Any, Any] = MappingProxyType({})


def as_names(names: Names, argument: str) -> tuple[Name, ...]:
    """One name or several as a tuple."""
    if isinstance(names, str | int):
        return (names,)
    try:
        return tuple(names)
    except TypeError:
        raise InvalidInputError(f"{argument}: expected column names, got {names!r}") from None


def refuse_unknown(named: Iterable[Name], known: Sequence[Name], argument: str) -> None:
    """An error for a column that is named but is not there."""
    for name in named:
        if name not in known:
            raise InvalidInputError(f"{argument}: expected columns of the table, got {name!r}; it has {list(known)}")


def refuse_overlap(groups: Mapping[str, Iterable[Name]]) -> None:
    """An error for a column that is named in two arguments that contradict each other."""
    claimed: dict[Name, str] = {}
    for argument, named in groups.items():
        for name in named:
            if claimed.setdefault(name, argument) != argument:
                raise InvalidInputError(f"expected each column in one of {list(groups)}, got {name!r} in two")


def constrain(
    features: Sequence[Feature],
    *,
    immutable: Names = (),
    increasing: Names = (),
    decreasing: Names = (),
    free: Names = (),
    ranges: Mapping[Name, Range] = NOTHING,
    steps: Mapping[Name, float] = NOTHING,
    costs: Mapping[Name, float] = NOTHING,
    units: Mapping[Name, str] = NOTHING,
    allowed: Mapping[Name, Moves] = NOTHING,
    fillable: Names = (),
    ordinal: Mapping[Name, Sequence[Label]] = NOTHING,
) -> tuple[Feature, ...]:
    """The same features with these constraints; whatever is not named stays as it is."""
    known = [feature.name for feature in features]
    groups = {
        "immutable": as_names(immutable, "immutable"),
        "increasing": as_names(increasing, "increasing"),
        "decreasing": as_names(decreasing, "decreasing"),
        "free": as_names(free, "free"),
    }
    mappings: dict[str, Mapping[Name, Any]] = {
        "ranges": ranges, "steps": steps, "costs": costs, "units": units, "allowed": allowed, "ordinal": ordinal,
    }  # fmt: skip
    for argument, named in (groups | mappings).items():
        if argument in mappings and not isinstance(named, Mapping):
            raise InvalidInputError(f"{argument}: expected a mapping from column to value, got {named!r}")
        refuse_unknown(named, known, argument)
    refuse_overlap(groups)
    filled = as_names(fillable, "fillable")
    refuse_unknown(filled, [feature.name for feature in features if feature.missing], "fillable (that may be missing)")
    features = [replace(feature, fillable=True) if feature.name in filled else feature for feature in features]
    features = [
        in_order(feature, ordinal[feature.name]) if feature.name in ordinal else feature for feature in features
    ]
    directions = {name: Direction(argument) for argument, named in groups.items() for name in named}
    return tuple(_constrained(feature, directions, mappings) for feature in features)


def _constrained(
    feature: Feature, directions: Mapping[Name, Direction], mappings: Mapping[str, Mapping[Name, Any]]
) -> Feature:
    name = feature.name
    changes: dict[str, Any] = {}
    if name in directions:
        changes["direction"] = directions[name]
    for argument in ("ranges", "steps"):
        if feature.labelled and name in mappings[argument]:
            raise InvalidInputError(f"{argument}: expected numeric columns, got the {feature.kind} column {name!r}")
    if name in mappings["ranges"]:
        changes["lower"], changes["upper"] = _range(feature, mappings["ranges"][name])
    if name in mappings["steps"]:
        changes["step"] = _number(mappings["steps"][name], f"steps[{name!r}]")
    if name in mappings["costs"]:
        changes["cost"] = _number(mappings["costs"][name], f"costs[{name!r}]")
    if name in mappings["units"]:
        changes["unit"] = str(mappings["units"][name])
    if name in mappings["allowed"]:
        changes["allowed"] = _moves(feature, mappings["allowed"][name])
    return replace(feature, **changes) if changes else feature


def in_order(feature: Feature, order: Sequence[Label]) -> Feature:
    """A labelled column with its labels from low to high, encoded as it was if it has its variables already."""
    listed = [] if isinstance(order, str) or not isinstance(order, Sequence) else list(order)
    if sorted(map(repr, listed)) != sorted(map(repr, feature.categories)):
        raise InvalidInputError(
            f"ordinal[{feature.name!r}]: expected the labels {list(feature.categories)} from low to high, got {order!r}"
        )
    places = [feature.categories.index(label) for label in listed]
    changes: dict[str, Any] = {"kind": Kind.ORDINAL, "categories": tuple(listed)}
    if feature.one_hot:
        changes["cells"] = tuple(feature.cells[place] for place in places)
    elif feature.variables:
        values = tuple((feature.values or tuple(map(float, range(len(places)))))[place] for place in places)
        changes["values"] = () if values == tuple(range(len(places))) else values
    if feature.allowed is not None:
        changes["allowed"] = tuple(sorted((places.index(a), places.index(b)) for a, b in feature.allowed))
    return replace(feature, **changes)


def _moves(feature: Feature, given: object) -> tuple[tuple[int, int], ...] | None:
    """Pairs of labels as pairs of positions; None allows every move."""
    argument = f"allowed[{feature.name!r}]"
    if given is None:
        return None
    if not feature.labelled:
        raise InvalidInputError(f"{argument}: expected a column with labels, got the {feature.kind} one")
    places = {label: position for position, label in enumerate(feature.categories)}
    found = []
    for pair in given if isinstance(given, Iterable) and not isinstance(given, str) else [given]:
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise InvalidInputError(f"{argument}: expected pairs of labels (from, to), got {pair!r}")
        for label in pair:
            if label not in places:
                raise InvalidInputError(f"{argument}: expected labels of {list(feature.categories)}, got {label!r}")
        found.append((places[pair[0]], places[pair[1]]))
    return tuple(sorted(set(found)))


def _range(feature: Feature, given: object) -> tuple[float, float]:
    """The declared ends, rounded inward to what the column can hold; None keeps the present end."""
    argument = f"ranges[{feature.name!r}]"
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise InvalidInputError(f"{argument}: expected (lower, upper), got {given!r}")
    lower = feature.lower if given[0] is None else _number(given[0], argument)
    upper = feature.upper if given[1] is None else _number(given[1], argument)
    if not lower <= upper:
        raise InvalidInputError(f"{argument}: expected lower <= upper, got {given!r}")
    least, largest = feature.storage.limits()
    lower = max(lower, least) if math.isfinite(lower) else lower
    upper = min(upper, largest) if math.isfinite(upper) else upper
    return hold_inward(lower, upper, feature.precision)


def _number(value: object, argument: str) -> float:
    number = given_number(value)
    if number is None or math.isnan(number):
        raise InvalidInputError(f"{argument}: expected a number, got {value!r}")
    return number
