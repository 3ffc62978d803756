"""`explain`: ask a generator, then check its points: units, constraints, the class, and Δ."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast._network import Ints
from holdfast._parallel import jobs, spread, workers
from holdfast._progress import no_bar, progress_bar
from holdfast._scored import Scored, Tally
from holdfast.changes import Changes
from holdfast.errors import HoldfastError, HoldfastWarning, UndecidedColumnWarning
from holdfast.features import Direction, FeatureSpace
from holdfast.features._codec import differs
from holdfast.features._proposals import by_direction
from holdfast.generators._base import Generator, Proposals, ReasonKind, RecourseReason, Task
from holdfast.generators._candidates import check_candidates, read_candidates
from holdfast.generators._density import density_of
from holdfast.generators._measured import stated
from holdfast.generators._reading import read_question
from holdfast.generators._recourse import Recourse, sentence_list

# With fewer rows most generators are done before a bar could be read.
_LONG_TABLE = 20
# People that a worker is asked about at once.
_PART = 256


def explain(
    model: object,
    X: Any,
    *,
    target: Any,
    changes: Changes | None = None,
    generator: Generator,
    space: FeatureSpace | None = None,
    data: Any = None,
    seed: int = 0,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    threshold: Any = None,
) -> Recourse:
    """Find for each person what to change to get the target class, and certify it under Δ.

    Parameters
    ----------
    model
        Anything `load_network` takes.
    X
        The people: a DataFrame in the caller's units, or an array with one column for each feature of the space, or
        without a space one for each variable of the model.
    target
        The class wanted: one label, or one for each row.
    changes
        Δ. Every counterfactual is certified under it; without Δ there are no verdicts. A chance in Δ stays with the
        result if it was measured for this question. Otherwise a `HoldfastWarning` names the difference, or the number
        of people who are unlike those of the measurement.
    generator
        The method that finds advice; ``holdfast methods`` lists all of them.
    space
        Columns, units and what a person can change. Default: the space of the model's preprocessing, if the generator
        has candidates to take ranges from; else the model's own variables, free and unbounded.
    data
        A table of people to compare the advice with, raw like X, such as the training table. Default: the generator's
        table, unless its points are rows of it. A `HoldfastWarning` counts advice far from these people: its local
        outlier factor is more than 1.25 times that of the person and of 99% of the table's rows. The main reasons
        compare with the people that the model accepts; see `main_reasons`.
    seed
        The seed of the generator's random numbers.
    time_limit
        Seconds for each row: for the search, and the same for the certificate. The CPU time of the thread or process
        that works on the row counts, so that a busy machine or `n_jobs` changes no result. Generators that work on
        many rows at once share the seconds of all rows.
    n_jobs
        The number of people at once, as in joblib; None: one, or as `joblib.parallel_config` says. The result is the
        same. Generators that work on many people at once get 256 at a time. A score-only model runs in the calling
        process and may start its own threads.
    progress
        Show a progress bar on stderr; by default on long tables if stderr is a terminal.
    threshold
        The probability at which the decision becomes class 1, or one for each of several classes; see `load_model`.
        Default: the model's own prediction.

    Returns
    -------
    Recourse
        One entry for each row of X, in its order and with its index. Rows without advice have a reason, also rows that
        have the target class already.

    Examples
    --------
    >>> from holdfast.generators import NNCE, RNCE
    >>> from holdfast import Network, PlausibleChanges
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> people = [[0.7, 0.5], [0.2, 0.6]]
    >>> others = [[0.7, 0.7], [0.6, 0.9], [0.3, 0.3]]
    >>> changes = PlausibleChanges(0.1, biases=False)
    >>> nearest = explain(net, people, target=1, changes=changes, generator=NNCE(others))
    >>> nearest.to_frame()[["x0", "x1", "found", "verdict"]]
        x0   x1  found     verdict
    0  0.7  0.7   True  NOT_ROBUST
    1  NaN  NaN  False        None
    >>> nearest.reason[1]
    'already classified as 1'
    >>> robust = explain(net, people, target=1, changes=changes, generator=RNCE(others))
    >>> robust.to_frame()[["x0", "x1", "verdict"]].head(1)
        x0   x1 verdict
    0  0.6  0.9  ROBUST
    """
    task = read_question(
        model, X, target=target, changes=changes, generator=generator, space=space, seed=seed, time_limit=time_limit,
        threshold=threshold,
    )  # fmt: skip
    if data is not None:
        # What cannot be read is refused before the search.
        data = check_candidates(data)
        read_candidates(data, task.space, task.classifier)
    tally = getattr(task.classifier, "tally", Tally())
    before = replace(tally)
    proposals = _known_beforehand(task)
    rows = np.flatnonzero(np.array(proposals.reason) == "")
    bar = progress_bar("explain", rows.size, wanted=progress, long=_LONG_TABLE)
    with jobs(n_jobs), bar as advance:
        if rows.size:
            _ask(generator, replace(task, advance=advance), rows, proposals)
        result = finish(task, proposals)
    _warn_of_far_answers(task, result, generator, data)
    result = replace(result, calls=tally.since(before), generator=generator, data=data)
    result = stated(result, changes)
    # They are read already.
    vars(result)["people"] = task.people
    _warn_of_undecided(result)
    return result


def _ask(generator: Generator, task: Task, rows: Ints, proposals: Proposals) -> None:
    """Put the generator's proposals for these rows in their places."""
    alone = generator.row_by_row or isinstance(task.classifier, Scored) or workers() == 1
    # The blocks that generators work in fit into a part: its proposals are those that all rows together would get.
    parts = [rows] if alone else np.split(rows, range(_PART, rows.size, _PART))
    together = len(parts) == 1
    given = map((task if together else replace(task, advance=no_bar)).take, parts)
    answers = map(generator.propose, given) if together else spread(generator.propose, given)
    for part, asked in zip(parts, answers, strict=True):
        lengths = {len(asked.reason), len(asked.optimality_gap), len(asked.lower_bound), part.size}
        if asked.points.shape != proposals.points[part].shape or len(lengths) > 1:
            raise HoldfastError(
                f"{type(generator).__name__}: expected a proposal for each of {part.size} rows, "
                f"got points of shape {asked.points.shape}"
            )
        proposals.put(part, asked)
        task.advance(0 if together else part.size)


def _warn_of_far_answers(task: Task, result: Recourse, generator: Generator, data: Any) -> None:
    """Say how many answers lie where there are hardly any data, if there is a table to tell."""
    table = data
    if data is None and not getattr(generator, "base", generator).keeps_to_rows:
        table = generator.example_table()
    if table is None or isinstance(table, FeatureSpace) or not result.found.any():
        return
    rows = result.answered
    density = density_of(read_candidates(table, task.space, task.classifier))
    far = (
        0
        if density is None
        else int(density.far_off(result.points[rows], task.factuals[rows]).sum())
    )
    if far:
        warnings.warn(
            f"{far} of {rows.size} pieces of advice are far off the data: their local outlier factor is more than "
            "1.25 times that of the person and of 99% of the table's rows. Such advice breaks more often when models "
            "are retrained; RNCE(X) and Closest(plausible=X) keep to rows",
            HoldfastWarning,
            stacklevel=3,
        )


def _warn_of_undecided(result: Recourse) -> None:
    """Name the columns without a stated direction that advice changes; once for each space."""
    space, rows = result.space, result.answered
    unstated = np.array([name in space.unstated for name in space.names])
    if not rows.size or not unstated.any() or space.warned:
        return
    changed = differs(result.answers, result.people.numbers[rows]) & unstated
    names = [name for name, any_ in zip(space.names, changed.any(axis=0), strict=True) if any_]
    if names:
        space.warned.append(UndecidedColumnWarning)
        ways = by_direction(space.proposed, names)
        listed = ", ".join(f"{way}={columns}" for way, columns in ways.items())
        suggested = f" Their names suggest {listed}." if listed else ""
        warnings.warn(
            f"The space states no direction for {', '.join(map(repr, names))}, which the advice for "
            f"{changed.any(axis=1).sum():,} of {rows.size:,} people changes.{suggested} Pass a direction for each "
            f"column to the space; free={names} confirms that any change is possible",
            UndecidedColumnWarning,
            stacklevel=3,
        )


def _known_beforehand(task: Task) -> Proposals:
    """Why rows need no search: they have the target class already, or nothing about them can change."""
    proposals = task.nothing()
    lower, upper = task.space.bounds_for(task.people)
    for row in np.flatnonzero((lower == upper).all(axis=1)):
        fixed = [
            task.space.label(f.name)
            for f in task.space.unprotected
            if f.direction is Direction.IMMUTABLE
        ]
        of_them = f" ({', '.join(fixed)} immutable)" if fixed else ""
        proposals.reason[row] = RecourseReason(
            ReasonKind.FIXED, f"{of_them}, and today's class is another"
        )
    for row in np.flatnonzero(task.classifier.predict_index(task.factuals) == task.targets):
        label = str(task.classifier.classes[task.targets[row]])
        proposals.reason[row] = RecourseReason(ReasonKind.ACCEPTED, label)
    return proposals


def finish(task: Task, proposals: Proposals) -> Recourse:
    """Convert points to the caller's units, drop those that break a constraint or have another class, certify."""
    reason = list(proposals.reason)
    for row in np.flatnonzero(~proposals.found).tolist():
        reason[row] = reason[row] or "the method found no counterfactual"
    rows = np.flatnonzero(proposals.found)
    people = task.people.take(rows)
    points, frame = task.space.settle(proposals.points[rows], people, index=task.frame.index[rows])
    scored = task.classifier if isinstance(task.classifier, Scored) else None
    if scored is not None and scored.decode is not None and rows.size:
        # Of the rows that share an encoding, the one that a model which reads rows was asked about, where allowed.
        asked = scored.decode(points).set_axis(frame.index, axis=0)
        fine = task.space.satisfied(asked, people)
        frame = asked if fine.all() else asked.where(pd.Series(fine, index=frame.index), frame)
    kept = task.space.satisfied(frame, people)
    for i in np.flatnonzero(~kept).tolist():
        broken = task.space.violations(frame.iloc[[i]], people.take(np.array([i])))[0]
        reason[rows[i]] = f"the point found breaks a constraint: {sentence_list(broken)}"
    classes = task.classifier.predict_index(points)
    other = kept & (classes != task.targets[rows])
    for i in np.flatnonzero(other).tolist():
        label = task.classifier.classes[classes[i]]
        reason[rows[i]] = (
            f"the point found is classified as {label} once it is expressed in the caller's units"
        )
    doubts = [""] * rows.size if scored is None else scored.doubts(points, frame, classes)
    for i, doubt in enumerate(doubts):
        reason[rows[i]] = reason[rows[i]] or doubt
    good = np.flatnonzero(kept & ~other & (np.array(doubts) == ""))
    answers = np.full(proposals.points.shape, np.nan)
    answers[rows[good]] = points[good]
    return Recourse.judged(
        task, answers, frame.iloc[good], reason, task.deadline(good.size),
        proposals.lower_bound, proposals.optimality_gap,
    )  # fmt: skip
