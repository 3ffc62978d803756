"""The people by group: a protected attribute's categories, or readable bands of its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from holdfast._given import given_list
from holdfast._network import Bools, Floats, Ints
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features._describe import NOT_STATED
from holdfast.generators import Recourse
from holdfast.presentation.report._contents import Figures, Slices
from holdfast.verify import Verdict

Groups = str | Sequence[Hashable] | Mapping[Any, Any]

# Numbers with more different values than this are cut into bands; labels beyond the commonest are put together.
_FEW_NUMBERS = 6
_MOST_LABELS = 12
_FEW_PEOPLE = 30
_OTHERS = "all others"


def slices_of(
    recourse: Recourse, groups: Groups, *, needed: Bools, radii: Floats
) -> tuple[Slices, ...]:
    """One for each protected attribute of the space and each further group.

    Parameters
    ----------
    groups
        Columns of the factuals, or labels for each row by the name of what they say.
    needed
        Who asked for advice: people who have the class already count in no group.
    radii
        The certified radii, nan where there is none.
    """
    result = []
    for attribute, values in _attributes(recourse, groups).items():
        labels, note = _labels(values, recourse.space, attribute)
        members = {name: (labels == name).to_numpy() & needed for name in labels.cat.categories}
        empty = [name for name, own in members.items() if not own.any()]
        figures = [
            figures_of(name, recourse, own, radii) for name, own in members.items() if own.any()
        ]
        small = [group.name for group in figures if group.people < _FEW_PEOPLE]
        notes = [note] if note else []
        if empty:
            notes.append(f"No people in: {', '.join(empty)}.")
        if small:
            notes.append(
                f"Fewer than {_FEW_PEOPLE} people, so their figures are rough: {', '.join(small)}."
            )
        if not needed.all():
            notes.append(
                f"{int((~needed).sum()):,} people who have the class already are counted in no group."
            )
        label = recourse.space.label(attribute)
        result.append(Slices(str(attribute), label, tuple(figures), " ".join(notes)))
    return tuple(result)


def _attributes(recourse: Recourse, groups: Groups) -> dict[Any, pd.Series]:
    """Each attribute's column; a protected attribute that the caller's table does not have is left to `groups`."""
    table = recourse.factuals
    protected = recourse.space.notes.protected
    columns: dict[Any, pd.Series] = {
        name: table[name] for name in protected if name in table.columns
    }
    if isinstance(groups, Mapping):
        return columns | {
            name: _aligned(values, table.index, name) for name, values in groups.items()
        }
    for name in [groups] if isinstance(groups, str) else given_list(groups, "groups"):
        if name not in table.columns:
            raise InvalidInputError(f"groups: expected columns of the people's table, got {name!r}")
        columns[name] = table[name]
    return columns


def _aligned(values: Any, index: pd.Index, name: Any) -> pd.Series:
    if not isinstance(values, pd.Series):
        try:
            series = pd.Series(values)
        except ValueError as error:
            raise InvalidInputError(
                f"groups[{name!r}]: expected one label for each person, got: {error}"
            ) from error
        if len(series) != len(index):
            raise InvalidInputError(
                f"groups[{name!r}]: expected a label for each of {len(index)} people, got {len(series)}"
            )
        return series.set_axis(index)
    if values.index.equals(index):
        return values
    if not (values.index.is_unique and index.is_unique):
        raise InvalidInputError(
            f"groups[{name!r}]: expected the people's own index, since keys are repeated"
        )
    absent = index.difference(values.index)
    if len(absent):
        raise InvalidInputError(
            f"groups[{name!r}]: expected a label for each person, got none for {absent[0]!r}"
        )
    return values.reindex(index)


def _labels(values: pd.Series, space: FeatureSpace, attribute: Any) -> tuple[pd.Series, str]:
    """Each person's group as an ordered category, and what is to be said about how it was made."""
    numeric = pd.api.types.is_numeric_dtype(values.dtype) and values.dtype.kind not in "bc"
    known = values[values.notna()]
    if not all(isinstance(value, Hashable) for value in known):
        raise InvalidInputError(
            f"groups[{attribute!r}]: expected labels or numbers, got {known.iloc[0]!r}"
        )
    if numeric and np.unique(np.nan_to_num(known.to_numpy(dtype=np.float64))).size > _FEW_NUMBERS:
        codes, names = bands(known.to_numpy(dtype=np.float64))
        texts = pd.Series([names[code] for code in codes], dtype=object)
    else:
        names = [space.notes.word(attribute, text) for text in _in_order(known, space, attribute)]
        texts = known.map(lambda value: space.notes.word(attribute, _text(value))).astype(object)
    note = ""
    if len(names) > _MOST_LABELS:
        kept = set(texts.value_counts().index[: _MOST_LABELS - 1])
        note = f"The {len(kept)} commonest of {len(names)} groups; the others are put together."
        texts = texts.where(texts.isin(kept), _OTHERS)
        names = [*(name for name in names if name in kept), _OTHERS]
    everyone = pd.Series(NOT_STATED, index=range(len(values)), dtype=object)
    everyone[values.notna().to_numpy()] = texts.to_numpy()
    if len(known) < len(values):
        names = [*names, NOT_STATED]
    # Different values may be written the same: 1 and "1", or a label "not stated" beside those that are not.
    return everyone.astype(pd.CategoricalDtype(list(dict.fromkeys(names)), ordered=True)), note


def _in_order(known: pd.Series, space: FeatureSpace, attribute: Any) -> list[str]:
    """The labels in the order of the column's own categories, of the space's, or of the alphabet."""
    if isinstance(known.dtype, pd.CategoricalDtype):
        return [_text(label) for label in known.dtype.categories]
    if attribute in space.names and space[attribute].labelled:
        return [_text(label) for label in space[attribute].categories]
    values = known.unique().tolist()
    try:
        return [_text(value) for value in sorted(values)]
    except TypeError:
        return sorted({_text(value) for value in values})


def _text(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return f"{int(value):,}"
    return str(value)


def bands(values: Floats) -> tuple[Ints, list[str]]:
    """Numbers cut at a few round ones, and what each band is called.

    Examples
    --------
    >>> bands(np.array([19.0, 33.0, 34.0, 41.0, 48.0, 55.0, 62.0, 70.0]))[1]
    ['under 30', '30 to 39', '40 to 49', '50 to 59', '60 and over']
    >>> codes, names = bands(np.array([0.11, 0.42, 0.57, 0.63, 0.91]))
    >>> [names[code] for code in codes]
    ['under 0.4', '0.4 to under 0.6', '0.4 to under 0.6', '0.6 and over', '0.6 and over']
    """
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, [0.1, 0.9])
    if high <= low:
        low = float(finite.min())
        high = float(finite.max())
    # The least of 1, 2, 5, 10, ... that makes four steps at most.
    width = (high - low) / 4.0
    power = 10.0 ** math.floor(math.log10(width))
    step = power * next(one for one in (1.0, 2.0, 5.0, 10.0) if one * power >= width * (1.0 - 1e-9))
    first = math.floor(low / step) + 1
    last = math.ceil(high / step) - 1
    edges = np.arange(first, max(last, first) + 1) * step
    edges = np.round(edges, max(0, -math.floor(math.log10(step)) + 1))
    whole = bool((finite == np.round(finite)).all() and step >= 1.0)
    codes = np.searchsorted(edges, values, side="right")
    digits = next(
        (n for n in range(6, 17) if len({f"{edge:.{n}g}" for edge in edges}) == len(edges)), 17
    )
    shown = [f"{edge:,.0f}" if whole else f"{edge:,.{digits}g}" for edge in edges]
    names = [f"under {shown[0]}"]
    for lower, upper, edge in zip(shown[:-1], shown[1:], edges[1:], strict=True):
        names.append(f"{lower} to {edge - 1:,.0f}" if whole else f"{lower} to under {upper}")
    names.append(f"{shown[-1]} and over")
    return codes, names


def figures_of(name: str, recourse: Recourse, members: Bools, radii: Floats) -> Figures:
    """How these people fare; `radii` are everyone's."""
    answered = members & recourse.found
    costs = recourse.cost_l1[answered]
    lower = radii[answered]
    changed = np.array(
        [len(own) for own, told in zip(recourse.advice, answered, strict=True) if told]
    )
    return Figures(
        name=name,
        people=int(members.sum()),
        found=costs.size,
        robust=int(recourse.robust[answered].sum()),
        unknown=int((recourse.verdict[answered] == Verdict.UNKNOWN).sum()),
        mean_cost=_statistic(np.mean, costs),
        median_cost=_statistic(np.median, costs),
        median_radius=_statistic(np.median, lower),
        changes=_statistic(np.mean, changed),
    )


def _statistic(of: Callable[[Floats], Any], values: Floats) -> float | None:
    """The mean or the median, None where there is none."""
    return float(of(values)) if values.size and np.isfinite(values).all() else None
