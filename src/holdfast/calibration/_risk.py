"""`risk_calibrated`: the least setting at which the next model breaks few enough promises.

Promises are made at every setting λ of a family of changes; a larger λ makes promises stricter. L_i(λ) is the
largest share of promises that retrained model i breaks at λ or at any larger setting, so it falls as λ rises. The
result is the least λ with

    (L_1(λ) + ... + L_n(λ) + 1) / (n + 1) <= broken.

Then E[L(λ)] <= broken for the next model, if it is exchangeable with these n. Proof: let λ* be the least λ at which
the mean of all n + 1 losses, the next one included, is at most `broken`. λ* is at most the chosen λ, because the
next loss is at most 1. Given the n + 1 models, the next one is equally likely to be any of them (conformal risk
control: Angelopoulos, Bates, Fisch, Lei and Schuster 2022). The same rule with the loss "more than `broken` of the
promises" and the bound 1 - `probability` gives a probability.

If no setting passes, no promise is made, so none is broken. The expectation is over all calibrations, these
included. Calibrations that pass may break more: with pi, the probability of passing, at most `broken` / pi, so at
most twice `broken` if at least every second passes. No rule that looks at the models can promise more: models that
break all promises now and then, and none otherwise, would pass only in calm times.

The proof needs everything except the losses to be fixed before the first retrained model is used: people, promises,
settings, and the settings that leave too many people without advice. All depend only on today's model and the
people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from holdfast._classifier import Classifier
from holdfast._given import given_list, given_number, given_share
from holdfast._network import Bools, Floats, Values
from holdfast._numbers import share
from holdfast._progress import Advance, progress_bar
from holdfast._scored import Scored
from holdfast._shown import Summary
from holdfast.calibration._conformal import least_history
from holdfast.calibration._result import Calibration
from holdfast.calibration._validation import rejected_people
from holdfast.changes import Chance, Changes, EnsembleShift, PlausibleShift
from holdfast.changes._shift import model_digest
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators import Generator, Recourse, Task
from holdfast.generators._measured import people_record, record_of
from holdfast.importers import load_model
from holdfast.retraining import RetrainedModels
from holdfast.retraining._result import each_model
from holdfast.verify._fingerprint import fingerprint
from holdfast.verify._inputs import check_reading
from holdfast.verify._radius import radius_of_points

# How often the scale of the settings is doubled, or halved, until someone loses their advice, and then narrowed down.
_DOUBLINGS, _HALVINGS, _BISECTIONS = 6, 10, 3
# So many settings up to there, denser towards 0; so many people give the scale.
_SETTINGS, _SOME = 24, 100
# Of the scale: the least setting of a kind that has no 0.
_NEARLY_NONE = 1e-6
# A bound is a sum of shares, and may lie a hair above what was asked.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class CalibratedRisk(Calibration):
    """The result of `risk_calibrated`: a setting and the chance that promises are broken.

    Attributes
    ----------
    evidence
        One row for each setting, with the columns setting, promises (people with advice), loss (the mean share of
        promises that a retrained model breaks), bound (the rule's bound; nan if too many people lose their advice),
        cost_l1, times (the cost relative to the same people's advice at the least setting), coverage (the share of
        the people with advice at the least setting who still have advice) and passes. With groups also
        ``loss_<group>`` and ``coverage_<group>``.
    losses
        (models, settings): the share of promises at each setting that each model breaks.
    chosen
        The chosen changes; None if no setting passes.
    size
        The chosen setting; nan if none passes.
    chance
        The requested share or probability, and the number of models.
    coverage
        The requested least coverage.
    unit
        The name of the setting, such as "margin".
    caveat
        A note on the retrained models, or "".
    """

    evidence: pd.DataFrame
    losses: Floats
    chosen: Changes | None
    size: float
    chance: Chance
    coverage: float
    unit: str
    caveat: str = ""

    @property
    def broken(self) -> float:
        """The requested share of promises that may be broken."""
        return self.chance.broken

    @property
    def reached(self) -> bool:
        """Whether a setting passed."""
        return self.chosen is not None

    @property
    def changes(self) -> Changes:
        """The chosen changes with their chance, for `explain` with the same generator and space."""
        if self.chosen is None:
            raise InvalidInputError(str(self))
        return self.chosen

    def __str__(self) -> str:
        rows = self.evidence
        if not self.reached:
            return f"no {self.unit}: {self._shortfall()}"
        row = rows[rows["setting"] == self.size].iloc[0]
        first = rows.iloc[0]
        kept = "all" if row["coverage"] == 1.0 else share(row["coverage"])
        measured = (
            f"measured: {share(row['loss'])} broken on average; of {first['promises']} people with advice at "
            f"{self.unit} {first['setting']:.3g}, {kept} still have advice, at {row['times']:.3g} times its cost"
        )
        sentence = f"{self.unit} = {self.size:.3g}: {self.chance}; {measured}"
        inside = self.chosen and self.chosen.inside
        return "; ".join([sentence, *map(str, filter(None, (inside, self.caveat)))])

    def _shortfall(self) -> str:
        """The result of the best setting, and possible remedies, in words."""
        rows = self.evidence
        sure = self.chance.probability
        usable = rows[rows["bound"].notna()]
        best = usable.iloc[int(usable["bound"].argmin())]
        allowed = (
            f"{self.broken:.3g}"
            if sure is None
            else f"{1.0 - sure:.3g} (that more than {self.broken:.3g} break)"
        )
        return (
            f"none of {len(rows)} settings from {rows['setting'].min():.3g} to {rows['setting'].max():.3g} passes. "
            f"{len(usable)} of them leave enough people with advice; the best, {best['setting']:.3g}, reaches a bound "
            f"of {best['bound']:.3g} ({share(best['loss'])} broken on average), and {allowed} was asked for. More "
            f"retrained models lower the bound by up to 1 / {self.chance.models + 1}. Another broken=, coverage=, "
            "generator= or family= can help too, but then calibrate on other retrained models, because these are known"
        )

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        statement, _, known = str(self).partition(". ")
        return Summary(statement, [("details", known)], self.evidence, rows="settings", most=40)


def risk_calibrated(
    model: Any,
    people: Any,
    *,
    target: Any,
    retrained: Iterable[Any],
    generator: Generator,
    family: Changes | Callable[[float], Changes] = PlausibleShift,
    broken: float = 0.1,
    probability: float | None = None,
    coverage: float = 1.0,
    space: FeatureSpace | None = None,
    settings: Iterable[float] | None = None,
    groups: Any = None,
    seed: int = 0,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    threshold: Any = None,
    progress: bool | None = None,
    how: str = "",
) -> CalibratedRisk:
    """Find the least setting at which the next model is expected to break at most `broken` of the promises.

    Use it for models that no proof covers: models trained from scratch, boosted trees, any model with scores. The
    result is a chance, not a proof. Its one condition: the next model is *exchangeable* with those in `retrained`,
    made in the same way from data drawn in the same way. The chance is about promises to these people, made by this
    generator; it holds for other people as far as these people represent them.

    The expectation is over calibrations like this one; a calibration that ends without a setting counts as kept.
    Among the others the expected share is at most twice as large, if they are at least every second. The chance
    records the case that it was measured for. `explain` leaves it out, with a warning, if the generator, its rows,
    the model, the space, the threshold, the target or the changes differ, and for people who are clearly different.

    Parameters
    ----------
    model
        Today's model: any model that `load_model` takes.
    people
        People as for `explain`; people who already have the target class are left out.
    target, space, seed, time_limit, n_jobs, threshold
        As for `explain`; retrained models use the same threshold.
    retrained
        Retrained models: the result of `retrain`, a list, or a Python generator, whose models are used once and not
        kept. At least 1 / broken - 1 of them are needed, or 1 / (1 - probability) - 1; twice that number gives
        nearly the best setting. Copies of each other or of today's model are no evidence and raise an error. All
        models of a list are checked before the search; of a Python generator only the first.
    generator
        The generator that makes the promises. The result is valid only for this generator: the promises of another
        one may break far more often.
    family
        The family of changes: a kind with one number (`PlausibleShift`, `PlausibleChanges`), a value whose size is
        varied (``EnsembleShift(models, 0)``, ``Ellipsoid.of(model, X)``), or a function from a number to changes.
        The models of an `EnsembleShift` must not be in `retrained`. For the changes of `delta_calibrated` only
        sizes from their own on are tried, so that the probability of the next retraining stays valid.
    broken
        The share of promises that may be broken.
    probability
        If given, at most the share `broken` is broken with this probability, instead of on average.
    coverage
        The share of the people with advice at the least setting who must still have advice; by default all. It
        prevents settings so large that few people keep advice.
    settings
        The settings to try; by default from 0, or nearly 0, to about where coverage fails. Choose them before you
        look at the retrained models.
    groups
        A column of `people`, or a label for each of them; the evidence then has columns for each group.
    progress
        Show the progress on stderr: a bar in a terminal, otherwise a line now and then.
    how
        How the retrained models and the next one are made, in words; it becomes part of the statement.

    Examples
    --------
    >>> from holdfast.generators import RNCE
    >>> from holdfast._network import Network
    >>> today = Network([[[1.0]]], [[-0.5]])
    >>> later = (Network([[[1.0]]], [[-0.5 - k / 200]]) for k in range(1, 21))
    >>> rows = [[0.5 + k / 100] for k in range(40)]
    >>> chosen = risk_calibrated(today, [[0.1], [0.3]], target=1, retrained=later, generator=RNCE(rows))
    >>> print(chosen)  # doctest: +ELLIPSIS
    margin = 0.0...: at most 1 in 10 of such promises is expected to be broken by the next model, over calibrations \
like this one. A calibration that ends without a setting counts as kept. ...
    >>> chosen.changes.chance.models, chosen.changes.chance.given
    (20, 0.2)
    """
    Chance(broken, 0, probability)
    given_share(coverage, "coverage", or_one=True)
    allowed = float(broken) if probability is None else 1.0 - float(probability)
    names = _labels(groups, people)
    models = each_model(retrained)
    needed = least_history(1.0 - allowed)
    # A generator is not counted beforehand: that would use it up.
    sized = isinstance(retrained, RetrainedModels | list | tuple)
    count = sum(1 for _ in each_model(retrained)) if sized else None
    _check_count(needed if count is None else count, needed, allowed)
    grid = _given(settings)
    example = _changes(family, grid[0] if grid else 1.0)
    loaded = load_model(model, threshold)
    if isinstance(loaded.classifier, Scored):
        # At every setting the same candidates are met again.
        known: Any = (loaded.classifier.score, {})
        loaded = replace(loaded, classifier=replace(loaded.classifier, known=known))
    task, asked, ask = rejected_people(
        loaded, people, name="people", target=target, generator=generator, space=space, seed=seed, n_jobs=n_jobs,
        time_limit=time_limit, threshold=threshold,
    )  # fmt: skip
    judges = _judges(models, task, example, needed)
    # All of a list are read before the search; of models that are made one by one the first, which an iterator lets go.
    judges = chain(iter([next(judges)]), judges) if count is None else iter(list(judges))
    steps = len(asked) * (len(grid) or _SETTINGS + _BISECTIONS + _HALVINGS)
    with progress_bar("risk_calibrated, advice", steps, wanted=progress, long=1000) as advance:
        promises = _promises(family, ask, coverage, grid, task, advance)
    n = count or 0
    with progress_bar("risk_calibrated, models", n, wanted=progress, long=1000) as advance:
        kept = _kept(list(promises.made.values()), judges, advance)
    losses = np.array([[_broken(by_one) for by_one in by_model] for by_model in kept]).T
    _check_count(len(losses), needed, allowed)
    usable = np.array([promises.covers(setting) for setting in promises.made])
    bounds = np.where(usable, risk_bounds(losses, broken, probability, usable), np.nan)
    passes = bounds <= allowed + _ROUNDING
    evidence = promises.evidence(kept, losses, None if names is None else names[asked])
    evidence.insert(3, "bound", bounds)
    evidence.insert(7, "passes", passes)
    alike = caveat = ""
    if isinstance(retrained, RetrainedModels):
        alike, caveat = retrained.made, "; ".join(retrained.caveats)
    chance = Chance(float(broken), len(losses), probability, how or alike)
    chosen, size = None, math.nan
    if passes.any():
        place = int(passes.argmax())
        size = float(evidence["setting"][place])
        told, worst = promises.made[size], _falling(losses, usable)[:, place]
        changes = promises.make(size)
        record = record_of(generator, changes, told.model, told.space, told.targets)
        record["people"] = people_record(told)
        chance = replace(
            chance, people=int(told.found.sum()), loss=float(worst.mean()), worse=int((worst > broken).sum()),
            record=record,
        )  # fmt: skip
        chosen = changes.calibrated(chance)
    unit = promises.make(promises.least).unit
    return CalibratedRisk(evidence, losses, chosen, size, chance, float(coverage), unit, caveat)


def risk_bounds(
    losses: Floats,
    broken: float,
    probability: float | None = None,
    usable: Bools | None = None,
) -> Floats:
    """The bound (L_1 + ... + L_n + 1) / (n + 1) at each setting, from (models, settings) shares of broken promises.

    Parameters
    ----------
    losses
        The measured shares, settings in rising order. A model's loss is the largest share at this or a larger
        setting.
    broken, probability
        With a probability the loss is 1 if more than `broken` is broken, else 0.
    usable
        The settings that may be chosen; all by default. The others do not count.

    Examples
    --------
    >>> risk_bounds(np.array([[0.5, 0.0, 0.1], [0.2, 0.1, 0.0]]), 0.1).round(3)
    array([0.567, 0.4  , 0.367])
    """
    worst = _falling(losses, usable)
    falling = worst if probability is None else (worst > broken).astype(np.float64)
    return np.asarray((falling.sum(axis=0) + 1.0) / (len(losses) + 1.0))


def _falling(losses: Floats, usable: Bools | None) -> Floats:
    """The largest loss at each setting or a larger one."""
    counted = losses if usable is None else np.where(usable, losses, 0.0)
    return np.maximum.accumulate(counted[:, ::-1], axis=1)[:, ::-1]


@dataclass(frozen=True)
class _Promises:
    """The promises at each setting, made once."""

    make: Callable[[float], Changes]
    ask: Callable[..., Recourse]
    least: float
    asked_coverage: float
    advance: Advance
    made: dict[float, Recourse] = field(default_factory=dict)

    def at(self, setting: float) -> Recourse:
        if setting not in self.made:
            self.made[setting] = self.ask(changes=self.make(setting), progress=False)
            self.advance(len(self.made[setting]))
        return self.made[setting]

    def beyond(self, step: float) -> float:
        """The setting at this distance above the least, in a few digits."""
        return max(self.least, _short(self.least + step))

    def coverage(self, setting: float, rows: Bools | bool = True) -> float:
        """The share of the people with advice at the least setting, or of some of them, who have advice here."""
        before = self.at(self.least).found & rows
        return float(self.at(setting).found[before].mean()) if before.any() else math.nan

    def covers(self, setting: float) -> bool:
        return bool(
            self.at(setting).found.any()
            and self.coverage(setting) >= self.asked_coverage - _ROUNDING
        )

    def evidence(self, kept: list[Bools], losses: Floats, names: Values | None) -> pd.DataFrame:
        """One row for each setting, from the promises that each model keeps."""
        rows, first = [], self.at(self.least)
        for (setting, recourse), by_model, loss in zip(
            self.made.items(), kept, losses.T, strict=True
        ):
            found = recourse.found
            both = found & first.found
            # Advice is as a rule some way off; where it costs nothing there is no ratio.
            before = float(first.cost_l1[both].sum())
            row: dict[str, Any] = {
                "setting": setting,
                "promises": int(found.sum()),
                "loss": float(loss.mean()),
                "cost_l1": float(recourse.cost_l1[found].mean()) if found.any() else math.nan,
                "times": float(recourse.cost_l1[both].sum()) / before if before else math.nan,
                "coverage": self.coverage(setting),
            }
            for name in [] if names is None else pd.unique(names):
                ours = np.asarray(names == name)
                row[f"loss_{name}"] = _broken(by_model[:, ours[found]])
                row[f"coverage_{name}"] = self.coverage(setting, ours)
            rows.append(row)
        return pd.DataFrame(rows)


def _broken(kept: Bools) -> float:
    """The share of broken promises over all pairs of a model and a promise; nan without promises."""
    return 1.0 - float(kept.mean()) if kept.size else math.nan


def _judges(
    models: Iterable[Any], task: Task, example: Changes, needed: int
) -> Iterator[Classifier]:
    """Each model as a classifier of today's points; raises at the end if some are copies."""
    names = [fingerprint(task.model.trained) + model_digest(task.model.preprocess)]
    ensemble = example.digests if isinstance(example, EnsembleShift) else ()
    measured = ((example.inside and example.inside.record) or {}).get("retrained", ())
    ours = task.classifier.classes.tolist()
    for number, one in enumerate(models, 1):
        if ensemble and model_digest(one) in ensemble:
            raise InvalidInputError(
                f"retrained: model {number} is also in the EnsembleShift of family=; use other models there"
            )
        try:
            loaded = load_model(one, task.model.by_label)
            theirs = loaded.classifier.classes.tolist()
            if set(ours) != set(theirs):
                raise InvalidInputError(f"expected the classes {ours}, got {theirs}")
            check_reading(loaded, task.space)
            judge = loaded.beside(task.model)
            judge.check_points(task.factuals[:1])
        except HoldfastError as error:
            raise InvalidInputError(
                f"retrained: model {number} does not fit today's model: {error}"
            ) from error
        name = fingerprint(loaded.trained)
        if name[:16] in measured:
            raise InvalidInputError(
                f"retrained: model {number} was already used by delta_calibrated for family=; use other models here"
            )
        # What cannot be told by its content is no copy.
        own = str(number) if name == "unknown" else model_digest(loaded.preprocess)
        names.append(name + own)
        yield judge
    different, n = len(set(names)) - 1, len(names) - 1
    if different < n >= needed:
        raise InvalidInputError(
            f"retrained: only {different} of {n} models differ from each other and from today's; copies are no "
            "evidence of how the next model will differ. Train each model on its own random rows, as retrain does"
        )


def _kept(recourses: list[Recourse], judges: Iterable[Classifier], advance: Advance) -> list[Bools]:
    """For each recourse, (models, promises): whether each model keeps the promise; evaluates each point once."""
    ends = np.cumsum([int(recourse.found.sum()) for recourse in recourses])[:-1]
    pairs = np.vstack([np.column_stack([r.points, r.targets])[r.found] for r in recourses])
    different, inverse = np.unique(pairs, axis=0, return_inverse=True)
    wanted = recourses[0].classifier.classes[different[:, -1].astype(np.intp)]
    points, kept = different[:, :-1], []
    for judge in judges:
        kept.append(judge.predict(points) == wanted)
        advance(1)
    every = np.array(kept, dtype=bool).reshape(len(kept), len(points))
    return [every[:, place] for place in np.split(inverse.ravel(), ends)]


def _given(settings: Iterable[float] | None) -> list[float]:
    """The settings to try as numbers in rising order; empty if `risk_calibrated` chooses them."""
    if settings is None:
        return []
    given = [given_number(setting) for setting in given_list(settings, "settings")]
    grid = [setting for setting in given if setting is not None]
    if not grid or given != sorted(set(grid)):
        raise InvalidInputError(f"settings: expected some numbers, in rising order, got {given}")
    return grid


def _promises(
    family: Any,
    ask: Callable[..., Recourse],
    coverage: float,
    grid: list[float],
    task: Task,
    advance: Advance,
) -> _Promises:
    """Promises at every setting, made without the retrained models."""
    make = partial(_changes, family)
    # What is known of the next retraining holds of the family's own size, and of larger ones.
    floor = family.size if isinstance(family, Changes) and family.inside else None
    if grid and floor is not None and grid[0] < floor:
        raise InvalidInputError(
            f"settings: expected settings from {floor:g} on, the size found by delta_calibrated, got {grid[0]:g}"
        )
    scale = 1.0 if grid else _scale(task, make(1.0))
    least = grid[0] if grid else _least(make, scale) if floor is None else floor
    promises = _Promises(make, ask, least, coverage, advance)
    first = promises.at(promises.least)
    if not first.found.any():
        raise InvalidInputError(
            f"people: none of {len(first)} people has advice at the least setting, {promises.least:g}: "
            f"{first.reason[0]}"
        )
    for setting in grid or _grid(promises, scale):
        promises.at(setting)
    return replace(promises, made=dict(sorted(promises.made.items())))


def _grid(promises: _Promises, scale: float) -> list[float]:
    """Settings up to the largest that leaves enough people with advice, denser towards the least."""

    def covers(step: float) -> bool:
        return promises.covers(promises.beyond(step))

    grows = covers(scale)
    reach = scale
    for _ in range(_DOUBLINGS if grows else _HALVINGS):
        reach = 2.0 * reach if grows else reach / 2.0
        if covers(reach) != grows:
            break
    if covers(reach):
        low = reach
        high = reach if grows else 2.0 * reach
    elif grows:
        low, high = reach / 2.0, reach
    else:
        return []
    for _ in range(_BISECTIONS):
        middle = _short(math.sqrt(low * high))
        low, high = (middle, high) if covers(middle) else (low, middle)
    return [promises.beyond(low * (k / _SETTINGS) ** 2) for k in range(1, _SETTINGS + 1)]


def _scale(task: Task, changes: Changes) -> float:
    """The median radius of today's rejections: a scale for the sizes that promises need."""
    points = task.factuals[:_SOME]
    radii = radius_of_points(
        task.model, points, task.classifier.predict_index(points), changes
    ).lower
    radii = radii[np.isfinite(radii) & (radii > 0.0)]
    return _short(float(np.median(radii))) if radii.size else 1.0


def _least(make: Callable[[float], Changes], scale: float) -> float:
    """0, or nearly 0 for kinds that need a positive size."""
    try:
        make(0.0)
    except InvalidInputError:
        return _NEARLY_NONE * scale
    return 0.0


def _short(number: float) -> float:
    return float(f"{number:.3g}")


def _changes(family: Any, size: float) -> Changes:
    """The changes of the family with this size."""
    make = family.resized if isinstance(family, Changes) else family
    try:
        changes = make(size)
    except TypeError as error:
        changes = error
    if not isinstance(changes, Changes):
        raise InvalidInputError(
            "family: expected PlausibleShift or PlausibleChanges, changes whose size is varied such as "
            f"EnsembleShift(models, 0), or a function from a number to changes, got {family!r:.80}: {changes}"
        )
    return changes.calibrated(None)


def _check_count(n: int, needed: int, allowed: float) -> None:
    if n < needed:
        raise InvalidInputError(
            f"retrained: expected at least {needed} models, got {n}: with n models the bound is at least 1 / (n + 1), "
            f"and {allowed:.3g} was asked for"
        )


def _labels(groups: Any, people: Any) -> Values | None:
    """A label for each person."""
    if groups is None:
        return None
    if (
        isinstance(people, pd.DataFrame)
        and isinstance(groups, Hashable)
        and groups in people.columns
    ):
        groups = people[groups]
    labels = np.asarray(groups, dtype=object)
    if labels.shape != (len(people),):
        raise InvalidInputError(
            f"groups: expected a column of people, or a label for each of {len(people)} people, got {groups!r}"
        )
    return labels
