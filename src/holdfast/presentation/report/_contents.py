"""What a report says, as plain values: everything is computed before, and the page only lays it out.

Numbers are in the caller's units, texts are plain (not yet HTML), and shares lie between 0 and 1.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

# A number, a category, or None where there is none: JSON-able.
Value = float | int | str | bool | None


@dataclass(frozen=True)
class Curve:
    """A step function that falls: from `x[i]` on (and below `x[i + 1]`) it is `y[i]`."""

    x: tuple[float, ...]
    y: tuple[float, ...]

    def at(self, where: float) -> float:
        """Its value there; before the first step the value at that step, which is no more than the truth."""
        return self.y[max(bisect_right(self.x, where) - 1, 0)]


@dataclass(frozen=True)
class Figures:
    """What one method did for the people, or for a group of them.

    Attributes
    ----------
    people, found, robust, unknown
        How many people there are; how many have advice; how many pieces of advice are proven for all of Δ; how many
        are undecided.
    changes
        The mean number of columns that a person with advice changes.
    survival
        For every size of Δ the share of people *with advice* whose advice is proven; None where no radius is known.
    """

    name: str
    people: int
    found: int
    robust: int
    unknown: int
    mean_cost: float | None
    median_cost: float | None
    median_radius: float | None
    survival: Curve | None = None
    changes: float | None = None


@dataclass(frozen=True)
class Column:
    """A column of the caller's table.

    `moves` says what a person can do with it, in words ("only up", "fixed", ...); `code` and `reason` are those of its
    adverse-action reason, "" where it has none. `with_time` says whether it changes by itself as time passes.
    """

    name: str
    label: str
    unit: str
    numeric: bool
    moves: str
    code: str = ""
    reason: str = ""
    with_time: bool = False


@dataclass(frozen=True)
class Moves:
    """How the advice moves one column.

    Attributes
    ----------
    changed, up, down
        How many people are told to change it; of these how many up and how many down (0 without an order).
    median, low, high
        Of the signed changes, in the caller's units: the median, and the 10% and 90% quantiles; None for categories.
    swaps
        For categories the commonest changes, (from, to, how many), the commonest first.
    """

    column: Column
    changed: int
    up: int = 0
    down: int = 0
    median: float | None = None
    low: float | None = None
    high: float | None = None
    swaps: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class Slices:
    """The groups of one protected attribute, with what is to be said about small or absent ones."""

    attribute: str
    label: str
    groups: tuple[Figures, ...]
    note: str = ""


@dataclass(frozen=True)
class Missing:
    """A reason why people have no advice; `proven` where none can exist, not `needed` where they have the class."""

    reason: str
    people: int
    proven: bool
    needed: bool = True


@dataclass(frozen=True)
class ParameterChange:
    """One of the changes of a counter-model that cost the person most: which parameter, from what to what."""

    where: str
    today: float
    changed: float
    effect: float


@dataclass(frozen=True)
class CounterModel:
    """The model that comes closest to breaking a promise: it is `distance` away, and gives another class.

    The distance is in Δ's own unit; where that is a margin, how far it falls, and no `changes` of parameters are told.
    `inside` says whether that is within Δ, so that the promise is broken by a plausible model. Margins are of the
    promised class over the best other one: positive is accepted. `closest` says whether it lies at the certified
    radius, so that there is none closer; elsewhere it is one that was found.
    """

    distance: float
    inside: bool
    margin_today: float
    margin_counter: float
    changes: tuple[ParameterChange, ...]
    closest: bool = True


@dataclass(frozen=True)
class Counted:
    """A reason for a refusal: a column's place, the letter's sentence, and the margin that it would win.

    `stays` is the letter's line about a detail that the advice leaves as it is, else "".
    """

    column: int
    sentence: str
    margin: float
    stays: str = ""


@dataclass(frozen=True)
class OtherWay:
    """Another proven way for the same person: the name of the method or of the columns left alone, and the changes."""

    name: str
    advice: tuple[str, ...]


@dataclass(frozen=True)
class Person:
    """One row of the table, and the first method's advice.

    Attributes
    ----------
    before, after
        One value for each of `Contents.columns`; `after` is empty where there is no advice.
    accepted
        Today's model gives the promised class already.
    verdict
        "ROBUST", "NOT_ROBUST", "UNKNOWN", or "" where there is no advice or no Δ.
    lasts
        How far the proof reaches, in the units of the page's gauge ("19 of 20 updates"); "" where it is not known.
    worst_margin
        The least margin over Δ that is proven; None where there is none.
    gap
        How far the cost may lie above the least possible; None where the method proves nothing.
    counter
        None where there is no advice, or where no counter-model was computed.
    probability
        That the model gives the promised class, before and after; None where its scores are no probabilities.
    against
        The main reasons for the refusal, the weightiest first.
    others
        Other proven ways: of other methods, and alternatives.
    certificate, letter
        The id of the certificate, and where the letter is, as the page links to it; "" where there is none.
    kept
        How many of the retrained models that were tried gave the promised class; None where none were.
    """

    key: str
    before: tuple[Value, ...]
    after: tuple[Value, ...]
    advice: tuple[str, ...]
    verdict: str
    cost: float | None
    radius: float | None
    gap: float | None
    worst_margin: float | None
    reason: str
    counter: CounterModel | None
    probability: tuple[float | None, float | None] = (None, None)
    against: tuple[Counted, ...] = ()
    others: tuple[OtherWay, ...] = ()
    certificate: str = ""
    letter: str = ""
    kept: int | None = None
    accepted: bool = False
    lasts: str = ""


@dataclass(frozen=True)
class Gauge:
    """The scale on which the page shows how far a proof reaches.

    Attributes
    ----------
    end
        Where the bar ends; a radius beyond it fills the bar.
    marks
        (size, words): the typical update and the largest, or the edge of Δ where no history is known.
    unit
        The size of the typical update; None where no history is known.
    updates
        How far each update of the history moved the model, in rising order.
    """

    end: float
    marks: tuple[tuple[float, str], ...]
    unit: float | None = None
    updates: tuple[float, ...] = ()


@dataclass(frozen=True)
class Refits:
    """The number of models that were really retrained, and the shares of the promises that they kept."""

    models: int
    mean: float
    worst: float
    by_all: int


@dataclass(frozen=True)
class Calibrated:
    """A delta measured on updates of the model, and its evidence in one sentence.

    Attributes
    ----------
    delta, several
        The radius; of several the largest, which `several` describes in words.
    covered
        Δ holds every model within it.
    updates
        The sizes of the measured updates, in the unit of the radii and in rising order; empty where none are known.
    rank
        At least this many of the updates lie within it.
    compares
        A certified radius tells whether a proof holds for every model within it: both have the same shape
        and are about the same model.
    """

    delta: float
    sentence: str
    covered: bool = False
    several: str = ""
    updates: tuple[float, ...] = ()
    rank: int = 0
    compares: bool = True


@dataclass(frozen=True)
class Contents:
    """Everything on the page.

    Attributes
    ----------
    facts
        (name, value) pairs about the method, the model, Δ, the target class and the date, for auditors.
    promise
        What was promised and how sure it is, in a few plain sentences.
    figures
        At most three (number, words) pairs for people.
    models
        The models that the proof is about, as the end of a sentence: "every model that ..."; "" without a Δ.
    wanted, gives
        The promised class in words, and what the model does with it: "a loan" and "gives a loan"; "class 1" and "says
        yes" where the outcome has no name.
    unlisted, unlisted_with_time
        The number of protected columns, which people's pages do not list, and whether one of these changes by itself as
        time passes.
    delta
        The size of Δ (of several radii the largest); None where nothing was certified.
    least_delta
        The least radius where there are several, else None.
    unit
        The name of that size and of the radii: "delta", "margin", "radius", "factor".
    fall
        Where they are margins or factors, the counter-model in words: "a margin {} below today's"; "" elsewhere.
    gauge
        None where no radius is known.
    methods
        The first is the one whose advice the people were given.
    limits, technical
        What the page does not say: for everyone, and for auditors.
    cost
        The definition of a cost, in a sentence.
    refits
        None where no retrained models were given.
    threshold
        The probability from which on the decision is a yes; None where that is not one number.
    """

    title: str
    date: str
    facts: tuple[tuple[str, str], ...]
    promise: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]
    models: str
    wanted: str
    delta: float | None
    calibrated: Calibrated | None
    methods: tuple[Figures, ...]
    columns: tuple[Column, ...]
    moves: tuple[Moves, ...]
    slices: tuple[Slices, ...]
    missing: tuple[Missing, ...]
    people: tuple[Person, ...]
    limits: tuple[str, ...] = ()
    technical: tuple[str, ...] = ()
    gauge: Gauge | None = None
    least_delta: float | None = None
    unit: str = "delta"
    fall: str = ""
    cost: str = ""
    refits: Refits | None = None
    threshold: float | None = None
    gives: str = "says yes"
    unlisted: int = 0
    unlisted_with_time: bool = False

    @property
    def symbol(self) -> str:
        """The unit as the page writes it."""
        return "δ" if self.unit == "delta" else self.unit
