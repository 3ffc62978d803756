"""From a row of a `Recourse` to what its letter says.

Every number that a person is told to reach is read back from its text and encoded again: it has to be, bit for bit, the
point that was certified. What cannot be stood behind is refused, by the person's key.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np

from holdfast._dates import read_day
from holdfast._files import Place
from holdfast._given import given_list, given_row
from holdfast._network import Bools, Floats, Ints
from holdfast._numbers import short
from holdfast._trees import TreeEnsemble
from holdfast.changes import Chance, Changes, PlausibleChanges, TreeChanges
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.features import Feature, FeatureSpace, Kind
from holdfast.features._codec import differs
from holdfast.features._describe import PERCENT
from holdfast.generators import ReasonKind, Recourse
from holdfast.generators._reasons import Against
from holdfast.generators._recourse import check_recourse, sentence_list
from holdfast.generators._regions import regions_of
from holdfast.presentation.letters._contents import (
    CHANCE,
    GUARANTEED,
    NO_ANSWER,
    NOT_GUARANTEED,
    Change,
    Detail,
    LetterContents,
    Limits,
    MainReason,
    StatedChance,
    StatedInside,
    Time,
)
from holdfast.presentation.letters._language import Language
from holdfast.promises import Expiry, NoCertificateError, certificate
from holdfast.promises._ledger_record import read_keys
from holdfast.verify import Verdict

# Control characters and those that turn the order of reading around.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SIGNS = re.compile(r"[(),.;:/\[\]_-]")
# More than four reasons are of little help to anyone.
_MOST_REASONS = 4


# Between which numbers every row is accepted, by column.
Box = Mapping[str, tuple[float, float]]
_WHY_NONE = {ReasonKind.FIXED: "fixed", ReasonKind.IMPOSSIBLE: "proven"}


class LetterOptions(TypedDict, total=False):
    """What can be said to `write_letter`, which explains it, and to `letters`."""

    sender: str | None
    subject: str | None
    date: datetime.date | str | None
    until: datetime.date | str | None
    expiry: Expiry | None
    language: str
    templates: Place | None
    certified: bool


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a recourse, read at once: row `rows[i]` is at place i; and what their letters have in common.

    Attributes
    ----------
    date, until
        When the letters are written, and until when the sender commits to what is guaranteed; None: no such date.
    expiry
        How long each promise lasts, one for each row of the recourse; None: nothing is said.
    certified
        Whether each guarantee is to have a certificate, whose id is quoted.
    after
        The people as they are told to become, a number for each column; without an answer as they are.
    accepted
        Who has the class already, so that there is no refusal to write about.
    broken
        The constraints that each piece of advice breaks.
    against
        What counts against each person, the weightiest first.
    boxes
        For each guarantee that is of more than the row itself, between which values every row is accepted.
    """

    recourse: Recourse
    rows: Ints
    language: Language
    date: datetime.date
    sender: str
    subject: str
    until: datetime.date | None
    expiry: Expiry | None
    certified: bool
    after: Floats
    accepted: Bools
    broken: list[list[str]]
    against: list[list[Against]]
    boxes: Mapping[int, Box]

    @classmethod
    def read(
        cls,
        recourse: Recourse,
        rows: Iterable[int] | None,
        *,
        sender: str | None = None,
        subject: str | None = None,
        date: datetime.date | str | None = None,
        until: datetime.date | str | None = None,
        expiry: Expiry | None = None,
        language: str = "en",
        templates: Place | None = None,
        certified: bool = True,
    ) -> Batch:
        """The batch of these rows, counted from 0, or of all, with what the caller says of all letters, checked."""
        n = len(check_recourse(recourse, "recourse"))
        wanted = list(range(n)) if rows is None else given_list(rows, "rows")
        spoken = Language.find(language, templates)
        written = datetime.date.today() if date is None else read_day(date, "date")
        last = None if until is None else read_day(until, "until")
        if last is not None and last < written:
            raise InvalidInputError(
                f"until: expected a day not before the letter's, {written}, got {last}"
            )
        if last is not None and expiry is not None:
            raise InvalidInputError("until: expected a date or an expiry, got both")
        if not isinstance(expiry, Expiry | None):
            raise InvalidInputError(
                f"expiry: expected what promise_expiry returned, got {expiry!r}"
            )
        if expiry is not None and len(expiry.radius) != n:
            raise InvalidInputError(
                f"expiry: expected one promise for each of the {n} rows, got {len(expiry.radius)}"
            )
        chosen = np.array([given_row(row, n) for row in wanted], dtype=np.intp)
        if np.any(chosen != np.array(wanted)):
            raise InvalidInputError(
                f"row: expected one of the {n} rows, counted from 0, got {min(wanted)}"
            )
        space = recourse.space
        lines = (
            []
            if sender is None
            else [one_line(line, "sender") for line in str(sender).splitlines() if line]
        )
        own = recourse.people.take(chosen)
        after = own.numbers.copy()
        answered = np.flatnonzero(recourse.found[chosen])
        broken: list[list[str]] = [[] for _ in chosen]
        if answered.size:
            told = space.rows(recourse.counterfactuals.iloc[chosen[answered]])
            after[answered] = told.numbers
            for place, sentences in zip(
                answered.tolist(), space.violations(told, own.take(answered)), strict=True
            ):
                broken[place] = sentences
        return cls(
            recourse=recourse,
            rows=chosen,
            language=spoken,
            date=written,
            sender="\n".join(lines),
            subject="" if subject is None else one_line(subject, "subject"),
            until=last,
            expiry=expiry,
            certified=certified,
            after=after,
            accepted=np.asarray(
                recourse.classifier.predict_index(own.points) == recourse.targets[chosen]
            ),
            broken=broken,
            against=[recourse.against[row] for row in chosen.tolist()],
            boxes=_boxes(recourse, chosen.tolist()),
        )


def key_of(recourse: Recourse, row: int, key: Any, argument: str) -> str:
    """What the person in this row quotes in enquiries; of several answers also which."""
    answer = recourse.answer[row]
    (key,) = read_keys([key], 1)
    return one_line(key, argument) + (f" ({answer})" if answer > 1 else "")


def one_line(value: Any, argument: str) -> str:
    """A value as one line of text that can be seen."""
    text = str(value).strip()
    if not text or not text.isprintable():
        raise InvalidInputError(f"{argument}: expected a line of text, got {value!r}")
    return text


def compose(batch: Batch, place: int, key: str, name: str) -> LetterContents:
    """What the person at this place of a batch is told."""
    recourse = batch.recourse
    row = int(batch.rows[place])
    space = recourse.space
    if batch.accepted[place]:
        raise InvalidInputError(
            f"{key}: expected someone who was refused, got one with {_class(recourse, row)} already"
        )
    found = bool(recourse.found[row])
    verdict = recourse.verdict[row]
    outcome = _outcome(recourse, row)
    changes: tuple[Change, ...] = ()
    unchanged: tuple[Detail, ...] = ()
    unlisted = 0
    language = batch.language
    words = _Words(space, language)
    if found:
        before = recourse.people.numbers[row]
        after = batch.after[place]
        _refuse_bad_advice(space, key, before, after, batch.broken[place])
        shares = _shares(space, recourse.people.points[row], recourse.points[row])
        moved = differs(before, after)
        order = [i for i in np.argsort(-shares, kind="stable").tolist() if moved[i]]
        box = batch.boxes.get(row, {})
        changes = tuple(words.change(i, before[i], after[i], shares[i], box) for i in order)
        shown = [
            i
            for i in np.flatnonzero(~moved).tolist()
            if space.features[i].name not in space.protected
        ]
        unchanged = tuple(words.detail(i, before[i]) for i in shown)
        unlisted = int((~moved).sum()) - len(shown)
        _read_back(recourse.points[row], key, changes, before, words)
    reasons, derived = _reasons(words, batch.against[place], changes)
    return LetterContents(
        language=language.code,
        date=language.day(batch.date),
        sender=batch.sender,
        name=name,
        subject=batch.subject,
        key=key,
        certificate=_certificate_id(recourse, row)
        if outcome == GUARANTEED and batch.certified
        else "",
        target=_class(recourse, row),
        outcome=outcome,
        verdict="" if verdict is None else verdict.name,
        reasons=reasons,
        derived=derived,
        changes=changes,
        unchanged=unchanged,
        unlisted=unlisted,
        limits=None if recourse.changes is None else _limits(recourse.changes, words),
        time=_time(batch, row) if outcome == GUARANTEED else Time(),
        why_none="" if found else _WHY_NONE.get(recourse.reason[row].kind, "not_found"),
        odds=_odds(recourse.chance(row), language) if outcome in (GUARANTEED, CHANCE) else None,
        inside=_inside(recourse.changes, language) if outcome == GUARANTEED else None,
    )


def _outcome(recourse: Recourse, row: int) -> str:
    """A margin that may fall says nothing about which models come: what was measured of them is no guarantee."""
    changes = recourse.changes
    if not recourse.found[row]:
        return NO_ANSWER
    if changes is None or recourse.verdict[row] is not Verdict.ROBUST:
        return NOT_GUARANTEED
    if changes.unit != "margin":
        return GUARANTEED
    return NOT_GUARANTEED if recourse.chance(row) is None else CHANCE


def _class(recourse: Recourse, row: int) -> str:
    return str(recourse.classifier.classes[int(recourse.targets[row])])


def _refuse_bad_advice(
    space: FeatureSpace, key: str, before: Floats, after: Floats, broken: list[str]
) -> None:
    """Advice that nobody may be given: against the constraints, about a protected attribute, or none at all."""
    if broken:
        raise InvalidInputError(
            f"{key}: expected advice within the constraints, got: {sentence_list(broken)}"
        )
    for feature, old, new in zip(space.features, before, after, strict=True):
        if feature.name in space.protected and differs(old, new):
            raise InvalidInputError(
                f"{key}: expected advice that leaves protected attributes alone, got a change of {feature.name!r}; "
                "make it immutable"
            )
    if not differs(before, after).any():
        raise InvalidInputError(
            f"{key}: expected advice that changes something, got the row as it was"
        )


def _read_back(
    point: Floats, key: str, changes: Sequence[Change], before: Floats, words: _Words
) -> None:
    """Refuse a letter whose values, as they are written, are not the point that was certified."""
    numbers = before.copy()
    places = {str(feature.name): i for i, feature in enumerate(words.space.features)}
    for change in changes:
        i = places[change.name]
        feature = words.space.features[i]
        if feature.labelled:
            codes = range(len(feature.categories))
            numbers[i] = [words.value(feature, code) for code in codes].index(change.after)
        else:
            numbers[i] = words.language.read(change.after)
    if not np.array_equal(words.space.encode_numbers(numbers[None])[0], point):
        raise HoldfastError(
            f"{key}: expected the letter to say what was certified, got {[c.after for c in changes]}"
        )


def _shares(space: FeatureSpace, own: Floats, point: Floats) -> Floats:
    """Each column's share of the cost; equal shares where the changes cost nothing."""
    parts = space.weights * np.abs(point - own)
    costs = np.array([parts[list(feature.variables)].sum() for feature in space.features])
    if not costs.sum() > 0.0:
        costs = np.array(
            [float((point != own)[list(feature.variables)].any()) for feature in space.features]
        )
    return np.asarray(costs / max(costs.sum(), np.finfo(float).tiny))


def _boxes(recourse: Recourse, rows: Sequence[int]) -> Mapping[int, Box]:
    """The boxes of what is guaranteed; only trees have any."""
    proven = [row for row in rows if _outcome(recourse, row) == GUARANTEED]
    if not isinstance(recourse.classifier, TreeEnsemble):
        return {}
    try:
        regions = regions_of(recourse, proven)
    except InvalidInputError:
        # Preprocessing through which no box can be read: the row itself is guaranteed, and no more.
        return {}
    boxes: dict[int, dict[str, tuple[float, float]]] = {}
    for row, column, _, *ends in regions.to_numpy().tolist():
        boxes.setdefault(row, {})[str(column)] = (ends[0], ends[1])
    return boxes


@dataclass(frozen=True)
class _Words:
    """Columns, values and changes as people say them."""

    space: FeatureSpace
    language: Language

    def change(self, i: int, old: float, new: float, share: float, box: Box) -> Change:
        """What to do with a column, and between which ends where the proof is of more than one value."""
        feature = self.space.features[i]
        known = self.detail(i, old)
        ordered = feature.kind not in (Kind.CATEGORICAL, Kind.BINARY)
        move = ("raise" if new > old else "lower") if ordered else "change"
        return Change(
            name=known.name,
            label=known.label,
            unit=known.unit,
            move="state" if math.isnan(old) else move,
            before=known.value,
            after=self.value(feature, new),
            value=feature.categories[int(new)] if feature.labelled else float(new),
            share=float(share),
            **self._ends(feature, old, new, box),
        )

    def _ends(self, feature: Feature, old: float, new: float, box: Box) -> dict[str, str]:
        """The ends of the box, as they are written, where it holds more than the value."""
        if feature.labelled or str(feature.name) not in box:
            return {}
        low, high = box[str(feature.name)]
        low = -math.inf if math.isnan(low) else low
        high = math.inf if math.isnan(high) else high
        if low <= old <= high:
            # Nobody is told to raise something to less than it is.
            low, high = (new, high) if new > old else (low, new)
        if low == high or not low <= new <= high:
            return {}
        if feature.grid is None:
            # Inside the box, so that what is asked for is a number that people write.
            within = short(low, up=True), short(high, up=False)
            low, high = within if within[0] <= within[1] else (low, high)
        ends = {"at_least": low, "at_most": high}
        said = {name: self.value(feature, end) for name, end in ends.items() if math.isfinite(end)}
        exact = all(self.language.read(text) == ends[name] for name, text in said.items())
        return said if exact else {}

    def detail(self, i: int, number: float) -> Detail:
        """A column by what people call it, with its unit where neither the label nor a percent sign says it."""
        feature = self.space.features[i]
        label = self.label(feature)
        unit = on_one_line(self.space.notes.word(feature.name, feature.unit, self.language.code))
        # As a word of its own: the k of 5 k is not said by "bank".
        said = (
            feature.labelled
            or feature.unit in PERCENT
            or f" {unit} ".lower() in f" {_SIGNS.sub(' ', label)} ".lower()
        )
        value = self.value(feature, number, self.language.short)
        return Detail(str(feature.name), label, "" if said else unit, value)

    def label(self, feature: Feature) -> str:
        """What people call a column."""
        given = self.space.label(feature.name, self.language.code)
        return on_one_line(given.replace("_", " ") if given == str(feature.name) else given)

    def value(
        self, feature: Feature, number: float, write: Callable[..., str] | None = None
    ) -> str:
        """A label, or a number with every digit unless it is written otherwise."""
        words = self.language.words
        if math.isnan(number):
            return str(words.missing())
        if feature.labelled:
            label = feature.categories[int(number)]
            word = self.space.notes.word(feature.name, label, self.language.code)
            unsaid = isinstance(label, bool) and word == str(label)
            own = words.yes if label else words.no
            return str(own()) if unsaid else on_one_line(word)
        return (write or self.language.number)(float(number), percent=feature.unit in PERCENT)


def on_one_line(text: str) -> str:
    """A text of the caller's table that cannot pass for another line of the letter, or be read in another order."""
    return " ".join(_UNSEEN.sub("", " ".join(text.split())).split())


def _reasons(
    words: _Words, counted: Sequence[Against], changes: Sequence[Change]
) -> tuple[tuple[MainReason, ...], str]:
    """What counts against the person, those of one code together, largest first, and where that is known from.

    Where nothing counts by itself that the person can change, the columns that the advice changes have to do.
    """
    space = words.space
    weights = {one.feature.name: one.margin for one in counted}
    derived = "usual" if counted and counted[0].within_reach else "advice" if changes else "beyond"
    if derived == "advice":
        told = {change.name: change.share for change in changes}
        weights = {name: told[str(name)] for name in space.names if str(name) in told}
    shares: dict[tuple[str, str], float] = {}
    for name, weight in weights.items():
        given = space.reason(name, words.language.code)
        said = ("", words.label(space[name])) if given is None else (given.code, given.text)
        shares[said] = shares.get(said, 0.0) + weight / sum(weights.values())
    ordered = sorted(shares.items(), key=lambda entry: -entry[1])
    reasons = tuple(
        MainReason(code, text, share) for (code, text), share in ordered[:_MOST_REASONS]
    )
    return reasons, derived if reasons else ""


def _limits(changes: Changes, words: _Words) -> Limits:
    write = words.language.rounded_down
    if isinstance(changes, TreeChanges):
        return _tree_limits(changes, words)
    if not isinstance(changes, PlausibleChanges):
        return Limits(write(changes.size), "", "", True, unit=changes.unit)
    least = write(changes.least)
    largest = write(changes.size)
    norm = "inf" if math.isinf(changes.norm) else f"{changes.norm:g}"
    return Limits(
        least,
        "" if largest == least else largest,
        norm,
        bool(changes.biases),
        changes.per_parameter,
    )


def _tree_limits(changes: TreeChanges, words: _Words) -> Limits:
    by, write = changes.factor, words.language.rounded_down
    least, largest = (write(float(end(changes.leaves)) * by) for end in (np.min, np.max))
    given = changes.thresholds
    thresholds = []
    for name, radius in (given if isinstance(given, Mapping) else {"": given}).items():
        known = Detail(str(name), on_one_line(str(name)), "", "")
        if name in words.space.names:
            known = words.detail(words.space.names.index(name), math.nan)
        if radius or name != "":
            thresholds.append(replace(known, value=write(radius * by)))
    return Limits(
        least,
        "" if largest == least else largest,
        "",
        True,
        bool(np.ndim(changes.leaves)),
        changes.unit,
        tuple(thresholds),
        changes.dropped,
        write(changes.shift * by) if changes.shift else "",
    )


def _odds(chance: Chance | None, language: Language) -> StatedChance | None:
    """Counts of what was measured, rounded up: facts, which are true of any reader."""
    if chance is None or chance.loss is None:
        return None
    refused = max(1, math.ceil(100.0 * chance.loss * (1.0 - 1e-12)))
    return StatedChance(
        people=language.number(chance.people),
        models=language.number(chance.models),
        refused=language.number(refused),
        how=chance.how,
    )


def _inside(changes: Changes | None, language: Language) -> StatedInside | None:
    known = None if changes is None else changes.inside
    if known is None:
        return None
    return StatedInside(language.number(known.rank), language.number(known.models))


def _time(batch: Batch, row: int) -> Time:
    language = batch.language
    expiry = batch.expiry
    if batch.until is not None:
        return Time(until=language.day(batch.until))
    if expiry is None or expiry.retrainings[row] == 0:
        return Time()
    through = expiry.through[row]
    if through is not None and through < batch.date:
        return Time()
    return Time(
        retrainings=int(expiry.retrainings[row]),
        period=expiry.period,
        confidence=language.rounded_down(100.0 * expiry.confidence, percent=True),
        through="" if through is None else language.day(through),
    )


def _certificate_id(recourse: Recourse, row: int) -> str:
    """The id of the row's certificate; "" where its proof has no form that the checker takes."""
    try:
        return str(certificate(recourse, row)["id"])
    except NoCertificateError:
        return ""
