"""Constraints on a table's columns: directions, ranges, steps, largest changes, moves, cost weights; and notes.

Every way to a `FeatureSpace` and `FeatureSpace.constrained` take these keywords, and all of them end here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypedDict

from holdfast._given import given_number
from holdfast.errors import InvalidInputError
from holdfast.features._feature import Feature
from holdfast.features._kinds import Direction, Kind, Label, Name, Ranks
from holdfast.features._limits import Shares, limit_words, read_shares
from holdfast.features._rules import Rule
from holdfast.features._scaling import hold_inward

Names = Iterable[Name] | str
NOTHING: Mapping[Any, Any] = MappingProxyType({})


class FeatureConstraints(TypedDict, total=False):
    """What a person can change, and what people call things: the keywords of all that makes a `FeatureSpace`."""

    immutable: Names
    increasing: Names
    decreasing: Names
    free: Names
    fillable: Names
    allowed: Mapping[Name, Iterable[tuple[Label, Label]] | None]
    ranges: Mapping[Name, tuple[float | None, float | None]]
    steps: Mapping[Name, float]
    max_change: Mapping[Name, float | tuple[float | None, float | None] | None]
    costs: Mapping[Name, float]
    units: Mapping[Name, str]
    rules: Iterable[str | Rule] | str | None
    protected: Names
    # From a column, or from (column, value); the keys of a mapping cannot be typed more narrowly.
    labels: Mapping[Any, str | Mapping[str, str]]
    reasons: Mapping[Name, Any]
    with_time: Names


def as_names(names: Names, argument: str) -> tuple[Name, ...]:
    """One name or several as a tuple."""
    if isinstance(names, str | int):
        return (names,)
    try:
        return tuple(names)
    except TypeError:
        raise InvalidInputError(f"{argument}: expected column names, got {names!r}") from None


def as_mapping(given: Any, argument: str) -> Mapping[Any, Any]:
    """A mapping from column to value."""
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"{argument}: expected a mapping from column to value, got {given!r}"
        )
    return given


def refuse_unknown(named: Iterable[Name], known: Sequence[Name], argument: str) -> None:
    """An error for a column that is named but is not there."""
    for name in named:
        if name not in known:
            raise InvalidInputError(
                f"{argument}: expected columns of the table, got {name!r}; it has {list(known)}"
            )


def named_once(groups: Mapping[str, Names], known: Sequence[Name]) -> dict[Name, str]:
    """The argument that names each column; a column in two of them is refused."""
    claimed: dict[Name, str] = {}
    for argument, given in groups.items():
        named = as_names(given, argument)
        refuse_unknown(named, known, argument)
        for name in named:
            if claimed.setdefault(name, argument) != argument:
                first = claimed[name]
                raise InvalidInputError(
                    f"{name!r} is in both {first}= and {argument}=; keep it in one"
                )
    return claimed


def constrain(
    features: Sequence[Feature],
    given: FeatureConstraints,
    ordinal: Ranks = NOTHING,
) -> tuple[Feature, ...]:
    """The same features with these constraints; columns that are not named stay as they are."""
    unknown = given.keys() - FeatureConstraints.__annotations__.keys()
    if unknown:
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    known = [feature.name for feature in features]
    ways: dict[str, Names] = {way: given.get(way, ()) for way in Direction}  # type: ignore[misc]
    directions = named_once(ways, known)
    values = {argument: as_mapping(given.get(argument, NOTHING), argument) for argument in _CHANGES}
    for argument, mapping in (values | {"ordinal": as_mapping(ordinal, "ordinal")}).items():
        refuse_unknown(mapping, known, argument)
    filled = as_names(given.get("fillable", ()), "fillable")
    refuse_unknown(
        filled,
        [feature.name for feature in features if feature.missing],
        "fillable (that may be missing)",
    )
    result = []
    for feature in features:
        name = feature.name
        if name in ordinal:
            feature = in_order(feature, ordinal[name])
        changes: dict[str, Any] = {"fillable": True} if name in filled else {}
        if name in directions:
            changes["direction"] = Direction(directions[name])
        for argument, mapping in values.items():
            if name in mapping:
                changes |= _CHANGES[argument](feature, mapping[name], f"{argument}[{name!r}]")
        feature = replace(feature, **changes)
        refuse_standstill(feature)
        result.append(feature)
    return tuple(result)


def refuse_standstill(feature: Feature) -> None:
    """An error for a largest change that leaves a column's only direction no room: most likely (up, down)."""
    ways = {Direction.DECREASING: 0, Direction.INCREASING: 1}
    if feature.max_change and feature.direction in ways:
        way = ways[feature.direction]
        if feature.max_change[way] == 0.0 and feature.max_change[1 - way] != 0.0:
            raise InvalidInputError(
                f"max_change[{feature.name!r}]: {limit_words(feature.max_change)} leaves a column that is "
                f"{feature.direction} no room; the pair is (down, up)"
            )


def stated_columns(given: FeatureConstraints) -> set[Name]:
    """The columns for which these keywords state a direction, or the possible moves."""
    ways: dict[str, Names] = {way: given.get(way, ()) for way in Direction}  # type: ignore[misc]
    names = {name for argument, way in ways.items() for name in as_names(way, argument)}
    return names | {*given.get("allowed", NOTHING)}


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
        values = tuple(
            (feature.values or tuple(map(float, range(len(places)))))[place] for place in places
        )
        changes["values"] = () if values == tuple(range(len(places))) else values
    if feature.allowed is not None:
        changes["allowed"] = tuple(
            sorted((places.index(a), places.index(b)) for a, b in feature.allowed)
        )
    return replace(feature, **changes)


def _range(feature: Feature, given: Any, argument: str) -> dict[str, Any]:
    """The declared ends, rounded inward to what the column can hold; None keeps the present end."""
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise InvalidInputError(f"{argument}: expected (lower, upper), got {given!r}")
    _of_numbers(feature, argument)
    lower = feature.lower if given[0] is None else _number(given[0], argument)
    upper = feature.upper if given[1] is None else _number(given[1], argument)
    if not lower <= upper:
        raise InvalidInputError(f"{argument}: expected lower <= upper, got {given!r}")
    least, largest = feature.storage.limits()
    lower = max(lower, least) if math.isfinite(lower) else lower
    upper = min(upper, largest) if math.isfinite(upper) else upper
    return dict(zip(("lower", "upper"), hold_inward(lower, upper, feature.precision), strict=True))


def _allowed(feature: Feature, given: Any, argument: str) -> dict[str, Any]:
    """Pairs of labels as pairs of positions; None allows every move."""
    if given is None:
        return {"allowed": None}
    if not feature.labelled:
        raise InvalidInputError(
            f"{argument}: expected a column with labels, got the {feature.kind} one"
        )
    places = {label: position for position, label in enumerate(feature.categories)}
    moves = set()
    for pair in given if isinstance(given, Iterable) and not isinstance(given, str) else [given]:
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise InvalidInputError(
                f"{argument}: expected pairs of labels (from, to), got {pair!r}"
            )
        for label in pair:
            if label not in places:
                raise InvalidInputError(
                    f"{argument}: expected labels of {list(feature.categories)}, got {label!r}"
                )
        moves.add((places[pair[0]], places[pair[1]]))
    return {"allowed": tuple(sorted(moves))}


_CHANGES: dict[str, Callable[[Feature, Any, str], dict[str, Any]]] = {
    "ranges": _range,
    "steps": lambda feature, given, argument: {
        "step": _number(given, _of_numbers(feature, argument))
    },
    "max_change": lambda feature, given, argument: {
        "max_change": _shares(feature, given, argument)
    },
    "costs": lambda feature, given, argument: {"cost": _number(given, argument)},
    "units": lambda feature, given, argument: {"unit": str(given)},
    "allowed": _allowed,
}


def _shares(feature: Feature, given: Any, argument: str) -> Shares:
    if feature.labelled or feature.kind is Kind.ORDINAL:
        way = f"allowed={{{feature.name!r}: ...}}" if feature.labelled else "ranges= or steps="
        raise InvalidInputError(
            f"{argument}: the column is {feature.kind}, and only a number has shares; limit it with {way}"
        )
    return read_shares(given, argument)


def _of_numbers(feature: Feature, argument: str) -> str:
    if feature.labelled:
        raise InvalidInputError(f"{argument}: expected a numeric column, got a {feature.kind} one")
    return argument


def _number(value: object, argument: str) -> float:
    number = given_number(value)
    if number is None or math.isnan(number):
        raise InvalidInputError(f"{argument}: expected a number, got {value!r}")
    return number
