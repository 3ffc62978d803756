"""The content of a letter as plain values: the variables of the templates, in `letter`.

Texts are plain (not yet HTML) and numbers are written in the letter's language already, so that a template only lays
them out. `docs/letters.md` lists them for authors of templates.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.features._kinds import Label

GUARANTEED = "guaranteed"
CHANCE = "chance"
NOT_GUARANTEED = "not_guaranteed"
NO_ANSWER = "no_answer"


@dataclass(frozen=True)
class Change:
    """A detail to change.

    Attributes
    ----------
    name, label, unit
        The column, the name that people use for it, and its unit ("" if the label or a percent sign says it).
    move
        "raise", "lower", "change" for categories, or "state" if no value was known.
    before, after
        The values in words. `after` has every digit: read back, it is the number that was certified.
    value
        The number or the category itself.
    share
        Its share of the advice's cost, between 0 and 1.
    at_least, at_most
        The ends of a proven range, or "" for an end that is not there. The proof covers all values of all details
        between their ends at once. Both "": the proof covers `after` only.
    """

    name: str
    label: str
    unit: str
    move: str
    before: str
    after: str
    value: Label
    share: float
    at_least: str = ""
    at_most: str = ""

    @property
    def within(self) -> bool:
        """Whether the proof covers a range of values."""
        return bool(self.at_least or self.at_most)


@dataclass(frozen=True)
class Detail:
    """A detail that the advice leaves as it is; in `Limits`, how far something may move.

    Attributes
    ----------
    name, label, unit, value
        The column, its label, its unit, and the person's value in words.
    at_least, at_most, anything
        The ends of a proven range, "" for an end that is not there; `anything`: the proof covers every value. All
        empty: the proof covers `value` only.
    with_time
        Whether it changes by itself as time passes.
    """

    name: str
    label: str
    unit: str
    value: str
    at_least: str = ""
    at_most: str = ""
    anything: bool = False
    with_time: bool = False

    @property
    def within(self) -> bool:
        """Whether the proof covers more than `value`."""
        return bool(self.at_least or self.at_most or self.anything)


@dataclass(frozen=True)
class MainReason:
    """A reason for the decision, in parts; the macro `reason` makes a sentence of them.

    Attributes
    ----------
    code, text
        The column's adverse-action reason; without one "" and the label.
    share
        Its share of the weight of all reasons.
    name, label, unit, value
        The column, its label, its unit, and the person's value in words.
    usual
        The value that it is compared with.
    side
        Numbers: "high" or "low"; labels: "word", of an ordered column "level", of yes or no and of codes "entry";
        "missing" if the person has no value.
    compared
        The source of `usual`: "accepted" people, the "middle" of the possible values, or the "advice".
    within_reach
        Whether the person can change it.
    stays
        "" if the advice changes it or there is no advice; "choice" if the advice leaves it as it is; "fixed" if the
        person cannot change it.
    """

    code: str
    text: str
    share: float
    name: str = ""
    label: str = ""
    unit: str = ""
    value: str = ""
    usual: str = ""
    side: str = "word"
    compared: str = "accepted"
    within_reach: bool = True
    stays: str = ""


@dataclass(frozen=True)
class Limits:
    """Δ: how far a later model may lie from today's.

    Attributes
    ----------
    radius
        How far, rounded down to three digits, so that what is said is not more than what is proven.
    largest
        The largest radius where layers or parameters have their own, else "".
    norm
        "inf" where each number moves by itself; "1", "2", ... where `radius` is for all of them together; "" where
        `unit` is not "delta".
    biases
        Whether the biases move too.
    by_parameter
        Whether each parameter has a radius of its own, and not only each layer.
    unit
        What the radius is: "delta"; "radius", of an ellipsoid of parameters; "margin", how far the score may fall;
        "factor" for trees: `radius` and `largest` are of their leaves.
    thresholds, dropped, shift
        For trees: how far their thresholds may move, by columns (one without a label: all of them); how many trees may
        go; how much added ones may take off the score ("": nothing).
    """

    radius: str
    largest: str
    norm: str
    biases: bool
    by_parameter: bool = False
    unit: str = "delta"
    thresholds: tuple[Detail, ...] = ()
    dropped: int = 0
    shift: str = ""


@dataclass(frozen=True)
class StatedChance:
    """A measurement of such advice, as counts: how often other models rejected it. Never a proof.

    Attributes
    ----------
    people, models
        The number of people for whom such advice was tried, and of retrained models.
    refused
        Of 100 of these people, the models rejected at most this number, on average.
    how
        How these models were made, in the words of the person who measured.
    """

    people: str
    models: str
    refused: str
    how: str = ""


@dataclass(frozen=True)
class StatedInside:
    """At least `within` of the last `models` model updates stayed within `limits`."""

    within: str
    models: str


@dataclass(frozen=True)
class Time:
    """The time of a guarantee: nothing, a date that the sender commits to, or a number of retrainings.

    Attributes
    ----------
    until
        The date that the sender commits to, or "".
    retrainings, period, confidence, through
        The number of retrainings through which it is kept (0: not stated), one a "day", "week", "month", "quarter" or
        "year", with this confidence ("95%"), the last of them on this date (or "").
    """

    until: str = ""
    retrainings: int = 0
    period: str = ""
    confidence: str = ""
    through: str = ""


@dataclass(frozen=True)
class LetterContents:
    """Everything that a template can say.

    Attributes
    ----------
    language
        "en", "de", ...
    date, sender, name, subject
        The date, the sender, the person and the subject, as the caller gave them; else "".
    key, certificate
        The reference for enquiries: the person's key, and the id of the certificate ("" if there is none).
    target
        The class that the advice leads to, as the model calls it.
    outcome
        "guaranteed" only if the advice is proven for every model near today's; "chance" if only the margin may fall and
        `odds` say how often such advice lasts; "not_guaranteed" for other advice; "no_answer".
    verdict
        "ROBUST", "NOT_ROBUST", "UNKNOWN", or "" without advice or certification.
    reasons
        The main reasons, the weightiest first.
    derived
        How they were found: "usual", by the margin that a column would win with the usual value of accepted people, of
        details that the person can change; "beyond", the same of details that the person cannot change, if no other
        counts alone; "advice", the details that the advice changes, if no detail counts alone; "" without reasons.
    changes
        The details to change, the costliest first.
    unchanged
        The details that must stay as they are.
    may_vary
        The details that may change meanwhile, each within its proven range and all at once.
    unlisted
        The number of protected attributes that must stay too; they are not named.
    limits
        None without certification.
    odds
        None without a measurement, and unless the outcome is "guaranteed" or "chance".
    inside
        How many model updates stayed within `limits`, if measured and the outcome is "guaranteed"; else None.
    time
        Empty unless the outcome is "guaranteed".
    why_none
        Without advice: "fixed" if no detail can change, "proven" if no advice can exist, "not_found".
    """

    language: str
    date: str
    sender: str
    name: str
    subject: str
    key: str
    certificate: str
    target: str
    outcome: str
    verdict: str
    reasons: tuple[MainReason, ...]
    changes: tuple[Change, ...]
    unchanged: tuple[Detail, ...]
    limits: Limits | None
    time: Time
    why_none: str
    odds: StatedChance | None = None
    inside: StatedInside | None = None
    derived: str = ""
    unlisted: int = 0
    may_vary: tuple[Detail, ...] = ()

    @property
    def widened(self) -> bool:
        """Whether the proof covers a range of values of some change."""
        return any(change.within for change in self.changes)

    @property
    def passing(self) -> tuple[Detail, ...]:
        """The details that must stay as they are, and change by themselves as time passes."""
        return tuple(detail for detail in self.unchanged if detail.with_time)
