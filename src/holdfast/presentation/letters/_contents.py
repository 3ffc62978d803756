"""What a letter says, as plain values: these are the variables of the templates, in `letter`, and they stay.

Texts are plain (not yet HTML) and numbers are written in the letter's language already, so that a template only lays
them out. `docs/letters.md` lists them for those who write templates.
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
    """One thing to change.

    Attributes
    ----------
    name, label, unit
        The column, what people call it, and its unit ("" where there is none, or where the label or a percent sign
        says it).
    move
        "raise", "lower", "change" for categories, or "state" where no value was known.
    before, after
        The values in words. `after` has every digit: read back, it is the number that was certified.
    value
        The number or the category itself.
    share
        Its share of the advice's cost, between 0 and 1.
    at_least, at_most
        Where the proof is of more than `value`: the ends, or "" where there is none. It holds for all values of all
        changes between their ends at once. Both "": the value has to be exactly `after`.
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
        """Whether it may be any value between two ends."""
        return bool(self.at_least or self.at_most)


@dataclass(frozen=True)
class Detail:
    """Something that has to stay as it is; in `Limits`, how far something may move."""

    name: str
    label: str
    unit: str
    value: str


@dataclass(frozen=True)
class MainReason:
    """A reason for the decision: the schema's code and text, or no code and the column's label.

    `share` is its share of what all of them weigh.
    """

    code: str
    text: str
    share: float


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
    """What was measured of such advice, as counts: how often other models refused it. Never a proof.

    Attributes
    ----------
    people, models
        To how many people such advice was tried, and on how many retrained models.
    refused
        So many in 100 of these people the models refused at most, on average.
    how
        How these models were made, as whoever measured it wrote it down, in their language.
    """

    people: str
    models: str
    refused: str
    how: str = ""


@dataclass(frozen=True)
class StatedInside:
    """How many of the retrainings that were measured stayed within `limits`: at least `within` of `models`."""

    within: str
    models: str


@dataclass(frozen=True)
class Time:
    """How long a guarantee lasts: nothing, a date the sender commits to, or a number of retrainings.

    Attributes
    ----------
    until
        The date that the sender commits to, or "".
    retrainings, period, confidence, through
        Kept through so many retrainings (0: nothing is said), one a "day", "week", "month", "quarter" or "year", with
        this confidence ("95%"), the last of them on this date (or "").
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
        When, from whom, to whom and about what, as the caller says; "" where nothing was said.
    key, certificate
        What to quote in enquiries: the person's key, and the id of the certificate ("" where there is none).
    target
        The class that was asked for, as the model calls it.
    outcome
        "guaranteed" only where the advice is proven for every model near today's; "chance" where only the margin may
        fall by so much, and `odds` say how often such advice lasts; "not_guaranteed" for any other advice; "no_answer".
    verdict
        "ROBUST", "NOT_ROBUST", "UNKNOWN", or "" where there is no advice, or where nothing was certified.
    reasons
        The main reasons, the largest share first: what counts against the person.
    derived
        How they were found: "usual", by what the margin would win with what accepted people usually have, of details
        that the person can change; where none of these counts by itself, "advice", as what the advice changes, and
        without advice "beyond", as "usual" of details that the person cannot change; "" where there are none.
    changes, unchanged
        What to change, the largest share first, and what has to stay.
    unlisted
        How many protected attributes have to stay as well; they are not named.
    limits
        None where nothing was certified.
    odds
        None where nothing was measured, and unless the outcome is "guaranteed" or "chance".
    inside
        How many retrainings stayed within `limits`, where that was measured and the outcome is "guaranteed"; else None.
    time
        Empty unless the outcome is "guaranteed".
    why_none
        Without an answer: "fixed" where nothing can be changed, "proven" where no answer can exist, "not_found".
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

    @property
    def widened(self) -> bool:
        """Whether some change may be any value between two ends."""
        return any(change.within for change in self.changes)
