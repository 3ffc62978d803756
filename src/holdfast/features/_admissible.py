"""Which values a column may take for one person, and the nearest of them to what a search would like.

    { the factual's own value }  ∪  (grid ∩ range ∩ the allowed direction ∩ the largest change)

A value that does not change is always allowed, also one outside the range or off the grid. A value that changes has to
be in the range, on the grid and within the largest change.
"""

from __future__ import annotations

import numpy as np

from holdfast._network import Bools, Floats, Ints, Pair
from holdfast.features._feature import Feature
from holdfast.features._kinds import Direction
from holdfast.features._limits import share_limits
from holdfast.features._scaling import hold, hold_down

_EPSILON = float(np.finfo(np.float64).eps)
_NUDGES = 14


def reach(feature: Feature, own: Floats | None, n_rows: int) -> Pair:
    """The least and the largest value a change can lead to; low > high where there is none.

    Without an own value, as where a missing one is filled in, neither direction nor largest change limits it.
    """
    low = np.full(n_rows, feature.lower)
    high = np.full(n_rows, feature.upper)
    if own is not None:
        if feature.direction is Direction.IMMUTABLE:
            return np.full(n_rows, np.inf), np.full(n_rows, -np.inf)
        if feature.direction is Direction.INCREASING:
            low = np.maximum(low, own)
        elif feature.direction is Direction.DECREASING:
            high = np.minimum(high, own)
        if feature.max_change:
            least, most = _within_limits(feature, own)
            low, high = np.maximum(low, least), np.minimum(high, most)
    if feature.grid is not None:
        low = feature.grid.value(feature.grid.ceil(low))
        high = feature.grid.value(feature.grid.floor(high))
    return low, high


def _within_limits(feature: Feature, own: Floats) -> Pair:
    """The least and the largest number within the largest change, as the column holds them.

    A number off the grid comes back from the model's variable as the shortest decimal with the same encoding. So each
    end is moved inward until it comes back as itself: then every number whose encoding lies between those of the ends
    comes back within the limits.
    """
    values, places = np.unique(own, return_inverse=True)
    places = places.reshape(own.shape)
    ends = []
    for side, limit in zip((-1.0, 1.0), share_limits(feature.max_change, values), strict=True):
        end = side * hold_down(side * limit, feature.precision)
        inside = np.flatnonzero((end >= feature.lower) & (end <= feature.upper) & np.isfinite(end))
        if inside.size and feature.grid is None and not feature.listed:
            end[inside] = _settled_end(feature, end[inside], side)
        ends.append(end[places])
    return ends[0], ends[1]


def _settled_end(feature: Feature, limit: Floats, side: float) -> Floats:
    """For each limit, the furthest number up to it that decodes to itself; infinitely far inward where none is near."""
    end = limit.copy()
    ulp = _EPSILON * feature.scaling.magnitude(feature.scaling.apply(limit))
    for nudge in range(_NUDGES):
        back = feature.decode_known(feature.encode(end)[:, : len(feature.variables)])
        beyond = side * back > side * limit
        end = np.where(beyond, end, back)
        if not beyond.any():
            return end
        further = side * hold_down(side * (limit - side * ulp * 2.0**nudge), feature.precision)
        end = np.where(beyond, further, end)
    return np.where(beyond, -side * np.inf, end)


def nearest(feature: Feature, block: Floats, own: Floats | None) -> Floats:
    """The admissible number nearest to what each point asks for; the own value on a tie.

    What is missing stays so, unless it may be and is filled in.

    Parameters
    ----------
    block
        The variables of each point at the feature's places.
    own
        The factuals' values, which are always admissible.
    """
    if not feature.missing:
        return _nearest_known(feature, block, own)
    said = feature.says_missing(block)
    if own is None:
        return np.where(said, np.nan, _nearest_known(feature, block, None))
    numbers = np.full(own.shape, np.nan)
    gone = np.isnan(own)
    numbers[~gone] = _nearest_known(feature, block[~gone], own[~gone])
    # A variable that says so is believed: what is filled in may be the very number that stands for a missing one.
    same = said if feature.flags else (block == feature.encode(own)).all(axis=1)
    filled = gone & ~same & feature.fills
    if filled.any():
        numbers[filled] = _nearest_known(feature, block[filled], None)
    return numbers


def _nearest_known(feature: Feature, block: Floats, own: Floats | None) -> Floats:
    if own is not None and feature.direction is Direction.IMMUTABLE:
        return own
    if feature.listed:
        return _listed(feature, block, own)
    # What the point asks for, before any constraint: exactly the own value where nothing changed.
    asked = (
        np.ones(block.shape[0], dtype=np.bool_)
        if own is None
        else block[:, 0] != feature.scaling.apply(own)
    )
    wanted = np.zeros(block.shape[0]) if own is None else own.copy()
    if feature.grid is not None:
        wanted[asked] = feature.scaling.estimate(feature.on_curve(block[asked, 0]))
    elif asked.any():
        # Off the grid only an exact inverse keeps a settled point where it is.
        wanted[asked] = feature.decode_known(block[asked])
    low, high = reach(feature, own, wanted.shape[0])
    moved = np.minimum(np.maximum(wanted, low), high)
    if feature.grid is not None:
        grid = feature.grid
        moved = np.where(
            low <= high, np.clip(grid.value(grid.nearest(moved)), low, np.maximum(low, high)), moved
        )
    else:
        moved = hold(moved, feature.precision)
    if own is not None:
        closer = (low <= high) & (np.abs(moved - wanted) < np.abs(own - wanted))
        moved = np.where(closer, moved, own)
    return canonical(feature, moved, own, decoded=(block, wanted))


def canonical(
    feature: Feature,
    numbers: Floats,
    own: Floats | None,
    decoded: Pair | None = None,
) -> Floats:
    """The one number that advice names of all that share its encoding; the own value if it is among them.

    `decoded` holds points with their numbers, or the own value where they encode it; it saves decoding them again.
    """
    if (feature.grid is not None and own is None) or feature.edges:
        return numbers
    encoded = feature.encode(numbers)
    same = np.zeros(numbers.shape[0], dtype=np.bool_)
    if own is not None:
        same = (encoded == feature.encode(own)).all(axis=1)
        numbers = np.where(same, own, numbers)
    if feature.grid is None:
        if decoded is not None:
            values = slice(len(feature.variables))
            known = ~same & (encoded[:, values] == decoded[0][:, values]).all(axis=1)
            numbers = np.where(known, decoded[1], numbers)
            same |= known
        if not same.all():
            numbers[~same] = feature.decode(encoded[~same])
    return numbers


def _listed(feature: Feature, block: Floats, own: Floats | None) -> Floats:
    """The label or bin that fits best among those that each person can get to; the own one on a tie."""
    scores = feature.scores(block)
    if own is not None and (feature.restricted or feature.edges):
        scores = np.where(possible_codes(feature, own), scores, -np.inf)
    codes = scores.argmax(axis=1)
    if own is not None:
        rows = np.arange(len(own))
        mine = feature.codes(own)
        codes = np.where(scores[rows, mine] == scores[rows, codes], mine, codes)
    return codes.astype(np.float64) if feature.labelled else number_in(feature, codes, own)


def possible_codes(feature: Feature, own: Floats) -> Bools:
    """Which labels or bins each person can get to, (n, n_codes); the own one always."""
    possible = feature.moves[feature.codes(own)]
    if feature.edges:
        every = np.broadcast_to(np.arange(feature.n_codes), possible.shape)
        numbers = number_in(feature, every.ravel(), np.repeat(own, feature.n_codes))
        possible = possible & ~np.isnan(numbers).reshape(possible.shape)
    return possible


def number_in(feature: Feature, codes: Ints, own: Floats | None) -> Floats:
    """The admissible number in each bin that is nearest to the own one; nan where there is none."""
    if own is None:
        return feature.starts[codes]
    low, high = reach(feature, own, codes.shape[0])
    begins = np.array([-np.inf, *feature.edges])[codes]
    ends = np.array([*feature.edges, np.inf])[codes]
    grid = feature.grid
    if grid is not None:
        last = grid.floor(np.minimum(ends, high))
        last = grid.value(last - (grid.value(last) >= ends))
        first = grid.value(grid.ceil(np.maximum(begins, low)))
    else:
        first = np.maximum(begins, low)
        last = np.minimum(_below(ends, feature.precision), high)
    moved = np.clip(own, first, np.maximum(first, last))
    inside = (own >= begins) & (own < ends)
    return np.where(inside, own, np.where(first <= last, moved, np.nan))


def _below(ends: Floats, precision: str) -> Floats:
    """A number just below the end of a bin: with few decimals, as people would say it."""
    result = hold_down(np.nextafter(ends, -np.inf), precision)
    for decimals in range(8, -1, -1):
        step = 10.0**-decimals
        shorter = np.round(ends - step, decimals)
        near = np.isfinite(ends) & (step <= 1e-3 * np.maximum(np.abs(ends), 1.0)) & (shorter < ends)
        result = np.where(near & (hold(shorter, precision) == shorter), shorter, result)
    return result
