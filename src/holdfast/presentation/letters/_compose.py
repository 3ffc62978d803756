"""From a row of a `Recourse` to what its letter says.

Every number in the advice is read back from its text and encoded again: it has to be, bit for bit, the certified point.
Otherwise the letter is refused, with the person's key.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from holdfast.generators import ReasonKind, Recourse
from holdfast.generators._reasons import ADVICE, Against
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
from holdfast.presentation.letters._wording import Wording, on_one_line
from holdfast.promises import Expiry, NoCertificateError, certificate
from holdfast.promises._ledger_record import read_keys
from holdfast.verify import Verdict

# More than four reasons are of little help to anyone.
_MOST_REASONS = 4


# Between which numbers every row is accepted, by column.
Box = Mapping[str, tuple[Any, Any]]
_WHY_NONE = {ReasonKind.FIXED: "fixed", ReasonKind.IMPOSSIBLE: "proven"}


class LetterOptions(TypedDict, total=False):
    """The options of `letters` and of `write_letter`, which explains them."""

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
        The date of the letters, and the date until which the sender commits to promises; None: no such date.
    expiry
        How long each promise lasts, one for each row of the recourse; None: not stated.
    certified
        Whether each promise gets a certificate, whose id is quoted.
    after
        The people after the advice, a number for each column; without advice as they are.
    accepted
        Who has the class already, so that there is no rejection to write about.
    broken
        The constraints that each piece of advice breaks.
    against
        What counts against each person, the weightiest first.
    boxes
        For each promise that covers more than the row itself, the ranges within which every row is accepted.
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
                f"expiry: expected the result of promise_expiry, got {type(expiry).__name__}"
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
        _Words(space, spoken).warn_of_gaps()
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
    """The content of the letter to the person at this place of a batch."""
    recourse = batch.recourse
    row = int(batch.rows[place])
    space = recourse.space
    if batch.accepted[place]:
        raise InvalidInputError(
            f"{key}: the person has {_class(recourse, row)} already, so there is no rejection "
            "to write about; leave out the row"
        )
    found = bool(recourse.found[row])
    verdict = recourse.verdict[row]
    outcome = _outcome(recourse, row)
    changes: tuple[Change, ...] = ()
    unchanged: tuple[Detail, ...] = ()
    may_vary: tuple[Detail, ...] = ()
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
        box = batch.boxes.get(row)
        changes = tuple(words.change(i, before[i], after[i], shares[i], box or {}) for i in order)
        for i in np.flatnonzero(~moved).tolist():
            detail = words.staying(i, before[i], box)
            # A protected attribute is never named. It must stay, unless it may be anything.
            if space.features[i].name in space.protected:
                unlisted += not detail.anything
            elif detail.within:
                may_vary += (detail,)
            else:
                unchanged += (detail,)
        _read_back(recourse.points[row], key, changes, before, words)
    reasons, derived = _reasons(
        words, batch.against[place], {change.name for change in changes}, found
    )
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
        may_vary=may_vary,
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
    """Refuse advice that breaks a constraint, changes a protected attribute, or changes nothing."""
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
            f"{key}: the values in the letter, {[c.after for c in changes]}, differ from the certified point"
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
    boxes: dict[int, dict[str, tuple[Any, Any]]] = {}
    for row, column, _, *ends in regions.to_numpy().tolist():
        boxes.setdefault(row, {})[str(column)] = (ends[0], ends[1])
    return boxes


@dataclass(frozen=True)
class _Words(Wording):
    """Changes, and details that stay, as people say them."""

    def change(self, i: int, old: float, new: float, share: float, box: Box) -> Change:
        """What to do with a column, and between which ends if the proof covers more than one value."""
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

    def staying(self, i: int, own: float, box: Box | None) -> Detail:
        """A column that the advice leaves alone, and how far it may change meanwhile: nowhere without a box."""
        feature = self.space.features[i]
        known = self.detail(i, own)
        if box is None or math.isnan(own):
            return known
        ends = box.get(str(feature.name))
        if ends is None:
            # No tree reads the column, so no version of the trees in the proof does.
            return replace(known, anything=True)
        if any(isinstance(end, str | bool) for end in ends):
            return known
        low, high = _open(ends)
        if feature.labelled:
            last = len(feature.categories) - 1
            low, high = math.ceil(max(0.0, low)), math.floor(min(high, last))
            if not low <= own <= high or low == high:
                return known
            if (low, high) == (0, last):
                return replace(known, anything=True)
            ends = (self.value(feature, low), self.value(feature, high))
            return replace(known, at_least=ends[0], at_most=ends[1])
        if math.isinf(low) and math.isinf(high):
            return replace(known, anything=True)
        if max(low, min(feature.lower, own)) == min(high, max(feature.upper, own)):
            # "Up to 0" of what is never below 0 is no room.
            return known
        said = self._written(feature, low, high, own, stays=True)
        return replace(known, at_least=said.get("at_least", ""), at_most=said.get("at_most", ""))

    def _ends(self, feature: Feature, old: float, new: float, box: Box) -> dict[str, str]:
        """The ends of the box, as they are written, if it holds more than the value."""
        if feature.labelled or str(feature.name) not in box:
            return {}
        low, high = _open(box[str(feature.name)])
        if low <= old <= high:
            # Nobody is told to raise something to less than it is.
            low, high = (new, high) if new > old else (low, new)
        return self._written(feature, low, high, new)

    def _written(
        self, feature: Feature, low: float, high: float, value: float, *, stays: bool = False
    ) -> dict[str, str]:
        """The ends in words, never further out than they are; empty if they hold the value alone.

        A value that `stays` is inside the ends as they are written.
        """
        if low == high or not low <= value <= high:
            return {}
        if feature.grid is None:
            # Inside the box, so that what is asked for is a number that people write.
            within = short(low, up=True), short(high, up=False)
            fine = within[0] <= value <= within[1] if stays else within[0] <= within[1]
            low, high = within if fine else (low, high)
        ends = {"at_least": low, "at_most": high}
        said = {name: self.value(feature, end) for name, end in ends.items() if math.isfinite(end)}
        exact = all(self.language.read(text) == ends[name] for name, text in said.items())
        return said if exact else {}


def _open(ends: tuple[float, float]) -> tuple[float, float]:
    """The ends of a range of numbers, infinite where nan says that there is none."""
    low, high = map(float, ends)
    return -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high


def reasons_in_words(recourse: Recourse, language: str = "en") -> list[list[tuple[str, str]]]:
    """Each person's reasons as the letter says them: a sentence, and the line below it ("" without one)."""
    words = _Words(recourse.space, Language.find(language))
    said = words.language.words
    names = [str(name) for name in recourse.space.names]
    own = recourse.people.numbers
    after = own.copy()
    after[recourse.answered] = recourse.answers
    result = []
    for row, moved in enumerate(differs(own, after)):
        told = {name for name, changed in zip(names, moved, strict=True) if changed}
        found, letter = bool(recourse.found[row]), {"outcome": _outcome(recourse, row)}
        reasons, _ = _reasons(words, recourse.against[row], told, found)
        result.append(
            [
                (str(said.reason(one)), str(said.stays(one, letter)) if one.stays else "")
                for one in reasons
            ]
        )
    return result


def _reasons(
    words: _Words, counted: Sequence[Against], told: Collection[str], found: bool
) -> tuple[tuple[MainReason, ...], str]:
    """The weightiest reasons, each with what the advice does about it, and how they were found.

    `told` are the columns that the advice changes.
    """
    whole = sum(one.margin for one in counted)
    reasons = []
    for one in counted[:_MOST_REASONS]:
        name = str(one.feature.name)
        stays = "" if not found or name in told else "choice" if one.within_reach else "fixed"
        share = one.margin / whole if whole else 1.0 / len(counted)
        reasons.append(replace(words.reason(one, share), stays=stays))
    if not counted:
        return (), ""
    first = counted[0]
    return tuple(reasons), (
        ADVICE if first.compared == ADVICE else "usual" if first.within_reach else "beyond"
    )


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
    known = None if changes is None else changes.stated_inside
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
