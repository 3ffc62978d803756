"""Meet the candidates in order of distance until one is accepted, for many people at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holdfast._deadline import Deadline
from holdfast._network import Bools, Floats, Ints
from holdfast.generators._base import Task
from holdfast.generators._candidates import Candidates

# Most people find an answer among their first neighbours; the others look through everyone, ever more at a time.
_FIRST = 32
_GROWTH = 4
_WIDEST = 8192
# To sort the nearest few hundred takes hardly longer than the nearest 32, and all distances need not be computed again.
_KEPT = 512
# How many pairs of a person and a candidate are looked at together.
_PAIRS = 8_192

# Of the points that today's model accepts for these rows, those that are accepted for good. The last argument says for
# each point where those of its row begin; what comes after a row's first such point need not be asked.
Test = Callable[[Task, Bools, Ints, Floats, Ints], Bools]


def walk(
    task: Task,
    rows: Ints,
    candidates: Candidates,
    deadline: Deadline,
    *,
    test: Test | None = None,
    skip: int = 0,
    most: float = np.inf,
    last: int | None = None,
) -> dict[int, Floats]:
    """For each of these rows the first candidate that is accepted, projected; rows without one are left out.

    The rows that are found move the progress bar.

    Parameters
    ----------
    deadline
        Up to when to look further than at the first few.
    test
        What else an accepted candidate has to pass, such as `robust_until_first`.
    skip
        How many accepted candidates to pass over; without a test.
    most
        How many pairs of a person and a candidate to look at before giving up.
    last
        How many candidates to meet at most for each person.
    """
    found: dict[int, Floats] = {}
    left = dict.fromkeys(rows.tolist(), skip)
    late = rows
    met = 0
    last = min(last or len(candidates), len(candidates))
    meet = min(_FIRST + skip, last)
    seen = 0
    kept: dict[int, Ints] = {}
    ahead = 0 if test is None or candidates.by_tree else _KEPT
    while late.size and met < meet and not (met and deadline.over):
        seen += late.size * (meet - met)
        if seen > most:
            break
        people = max(1, _PAIRS // (meet - met))
        for start in range(0, late.size, people):
            if met and deadline.over:
                break
            part = late[start : start + people]
            # A sign of life, where there may be no answer for long.
            task.advance(0)
            if any(len(kept.get(row, ())) < meet for row in part.tolist()):
                orders = candidates.first(task.factuals[part], max(meet, ahead))
                kept |= zip(part.tolist(), orders, strict=True)
            _meet(
                task,
                candidates,
                {row: kept[row][met:meet] for row in part.tolist()},
                left,
                test,
                found,
            )
        waiting = np.setdiff1d(late, [*found])
        task.advance(late.size - waiting.size)
        late = waiting
        kept = {row: kept[row] for row in late.tolist() if row in kept}
        met = meet
        meet = min(meet * _GROWTH, meet + _WIDEST, last)
    return found


def _meet(
    task: Task,
    candidates: Candidates,
    orders: dict[int, Ints],
    left: dict[int, int],
    test: Test | None,
    found: dict[int, Floats],
) -> None:
    """Project these candidates onto what each person can do; the first accepted one, after `left` others, is found."""
    lengths = [len(order) for order in orders.values()]
    rows = np.repeat(np.array(list(orders), dtype=np.intp), lengths)
    if rows.size == 0:
        return
    points = task.project(rows, candidates.points(np.concatenate(list(orders.values()))))
    fine = task.allowed(np.ones(rows.size, dtype=bool), rows, points)
    ends = np.cumsum(lengths)
    if test is not None:
        fine = test(task, fine, rows, points, np.repeat(ends - lengths, lengths))
    for row, begin, end in zip(orders, ends - lengths, ends, strict=True):
        hits = begin + np.flatnonzero(fine[begin:end])
        if hits.size > left[row]:
            # A copy: a view would keep all of the points.
            found[row] = points[hits[left[row]]].copy()
        left[row] -= hits.size


def robust_until_first(
    task: Task,
    fine: Bools,
    rows: Ints,
    points: Floats,
    begin: Ints,
    deadline: Deadline,
) -> Bools:
    """Which of the fine points are Δ-robust, for each row at least up to its first: what comes after it is not asked.

    Interval bounds prove some at once; only what a person meets before the first of these needs the exact test.
    """
    proven = task.robust(fine, rows, points, Deadline.after(None), method="interval")
    before = np.concatenate([[0], np.cumsum(proven)])
    first_open = before[1:] == before[begin]
    return proven | task.robust(
        for_the_first_time(fine & first_open, rows, points), rows, points, deadline
    )


def for_the_first_time(fine: Bools, rows: Ints, points: Floats) -> Bools:
    """Of the fine points, those that their row has not met before: several candidates often lead to the same one."""
    fine = fine.copy()
    asked = np.flatnonzero(fine)
    # Compared as bytes, with zeros unsigned.
    met = np.column_stack([rows[asked], points[asked]]) + 0.0
    keys = met.view(np.dtype((np.void, met.strides[0]))).ravel().tolist()
    seen = set()
    for place, key in zip(asked.tolist(), keys, strict=True):
        fine[place] = key not in seen
        seen.add(key)
    return fine
