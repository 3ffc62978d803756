"""The base class of plausible changes, and the measured chances of their promises."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from holdfast._files import Document, Facts
from holdfast._given import given_number, given_share
from holdfast._numbers import at_most
from holdfast._shown import Shown, Summary
from holdfast.errors import InvalidInputError

# The lowest and the highest probability that a threshold may be.
Interval = tuple[float, float]
# What values of every kind have.
_SHARED = ("chance", "inside", "threshold")
# A mean of shares may lie a hair above what it is in decimals.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Chance:
    """A measured chance, not a proof: the share of promises that the next model is expected to break.

    For n models with mean loss L the rule is (n L + 1) / (n + 1) <= broken. With a probability, the loss of a model
    is 1 if it breaks more than `broken`, else 0, and the bound is 1 - probability. The rule holds on average over
    all calibrations. A calibration that ends without a setting promises nothing and counts as kept. So calibrations
    that end with a setting may break more; `given` is the share for them, if at least every second ends with one.

    Parameters
    ----------
    broken
        Largest share of promises that the next model breaks: in expectation, or with `probability`.
    models
        The number of retrained models of the calibration.
    probability
        The probability that at most the share `broken` is broken. None: `broken` is an expectation.
    how
        How the retrained models were made, in words; the next model must be made alike.
    people
        The number of people whose promises were measured.
    loss
        The mean share of these promises that a model breaks, at the chosen setting or at a larger one.
    worse
        The number of models that break more than `broken` of them.
    record
        The case that was measured: generator, model, space, threshold, target, changes and people. A chance without
        a record can be printed, but no advice carries it.

    Examples
    --------
    >>> print(Chance(0.1, 20))
    at most 1 in 10 of such promises is expected to be broken by the next model, over calibrations like this one. \
A calibration that ends without a setting counts as kept. Among the others it is at most 1 in 5, if they are at least \
every second. Condition: the next model is drawn as these 20 were
    """

    broken: float
    models: int
    probability: float | None = None
    how: str = ""
    people: int = 0
    loss: float | None = None
    worse: int | None = None
    record: Facts | None = field(default=None, repr=False, hash=False)

    def __post_init__(self) -> None:
        given_share(self.broken, "broken")
        if self.probability is not None:
            given_share(self.probability, "probability")

    @property
    def given(self) -> float | None:
        """The share or the probability for calibrations that end with a setting, if at least every second does.

        None if it would be trivial (a share of 1, or a probability of 0).
        """
        twice = 2.0 * (self.broken if self.probability is None else 1.0 - self.probability)
        if twice >= 1.0:
            return None
        return twice if self.probability is None else 1.0 - twice

    def __str__(self) -> str:
        most, held = f"at most {one_in(self.broken)} of such promises", self.given
        if self.probability is None:
            known = f"{most} is expected to be broken by the next model"
            twice = held and f"it is at most {one_in(held)}"
        else:
            sure = "with probability at least"
            known = f"{sure} {self.probability:.10g} the next model breaks {most}"
            twice = held and f"the probability is at least {held:.10g}"
        given = f"Among the others {twice}, if they are at least every second. "
        how = f" ({self.how})" * bool(self.how)
        people = f", and people are like these {self.people}" * bool(self.people)
        return (
            f"{known}, over calibrations like this one. A calibration that ends without a setting counts as kept. "
            f"{given * bool(held)}Condition: the next model is drawn as these {self.models} were{how}{people}"
        )


@dataclass(frozen=True)
class Inside:
    """The probability that the next retraining lies in Δ, from ranks. It does not depend on a promise.

    Parameters
    ----------
    rank, models
        At least `rank` of the `models` ranked retrainings lie in Δ.
    coverage, confidence
        If given: with this confidence, at least the share `coverage` of the next retrainings lies in Δ.
    record
        Δ, and the model that Δ is around; only Δ if distances were given, because they name no model. Without a
        record it can be printed, but no changes state it: `Changes.calibrated` records them.

    Examples
    --------
    >>> print(Inside(19, 20))
    the next retraining stays within Δ with probability at least 0.904, if it is exchangeable with these 20
    """

    rank: int
    models: int
    coverage: float | None = None
    confidence: float | None = None
    record: Facts | None = field(default=None, repr=False, hash=False)

    def of(self, changes: Changes) -> Inside:
        """A copy with a record of the model and the changes that it was measured for."""
        return replace(self, record={**(self.record or {}), "changes": changes.digest})

    def about(self, changes: Changes) -> bool:
        """Whether it was measured for these changes."""
        return self.record is not None and self.record.get("changes") == changes.digest

    @property
    def probability(self) -> float:
        """The probability that the next retraining lies in Δ; histories vary too."""
        return self.rank / (self.models + 1)

    def __str__(self) -> str:
        return self.sentence("Δ", f"these {self.models}")

    def sentence(self, changes: str, others: str) -> str:
        """The probability that the next model lies within these changes, with its condition, as a sentence."""
        if self.confidence is None:
            # Rounded down: it is a promise.
            sure = math.floor(1e3 * self.probability + _ROUNDING) / 1e3
            return (
                f"the next retraining stays within {changes} with probability at least {sure:g}, if it is exchangeable "
                f"with {others}"
            )
        return (
            f"with confidence {self.confidence:g} at least {self.coverage:g} of the retrainings to come stay within "
            f"{changes}, if they and {others} are independent and made alike"
        )


def one_in(share: float) -> str:
    """A share in words for people: 1 in 10, or in percent."""
    exact = Fraction(share).limit_denominator(1000)
    said = exact.numerator == 1 and math.isclose(exact, share, rel_tol=_ROUNDING)
    return f"1 in {exact.denominator}" if said else f"{100 * share:.10g}%"


class Changes(Shown):
    """A set Δ of plausible changes of today's model: a frozen value for every argument `changes=`."""

    kind: ClassVar[str]
    # What `size` is called: "delta", "margin", "radius".
    unit: ClassVar[str]
    chance: Chance | None
    # Of kinds whose size can be ranked.
    inside: Inside | None = None
    # Between which probabilities the decision threshold may move; None where it stays.
    threshold: Interval | None

    def __post_init__(self) -> None:
        """Check the size and the threshold, for kinds with one size."""
        size = check_size(getattr(self, self.unit), self.unit)
        vars(self).update({self.unit: size, "threshold": check_policy(self.threshold)})

    @property
    def size(self) -> float:
        """The size of Δ: delta, the margin, or the radius; of several radii the largest."""
        size: float = getattr(self, self.unit)
        return size

    def resized(self, size: float) -> Self:
        """The same kind and shape with another size, without the chance; `inside` stays for larger sizes."""
        return self._measured_at(size, **{self.unit: size})

    def _measured_at(self, size: float, **parts: Any) -> Self:
        """The same with other parts, and with the measured values that hold for this size."""
        known = self.inside
        if known is None:
            return replace(self, chance=None, **parts)  # type: ignore[type-var]
        made: Self = replace(self, chance=None, inside=None, **parts)  # type: ignore[type-var]
        return made.calibrated(known.of(made)) if size >= self.size and known.about(self) else made

    @abstractmethod
    def in_words(self, number: Callable[[float], str] = at_most) -> str:
        """The allowed changes in words, with sizes rounded down."""

    @property
    def words(self) -> str:
        """The allowed changes in words, with a few digits."""
        return self.in_words()

    @property
    @abstractmethod
    def every_model(self) -> str:
        """The models that a proof covers, as the subject of a sentence."""

    def contains(self, today: Any, other: Any) -> bool:
        """Whether `other` is in Δ around `today` for every point; False if that depends on the point."""
        return False

    @classmethod
    def _names(cls) -> list[str]:
        """The attributes that identify a value of its kind, without the chance and the threshold."""
        parts = fields(cls)  # type: ignore[arg-type]
        return [part.name for part in parts if part.compare and part.name not in _SHARED]

    def facts(self) -> Document:
        """The values that identify Δ, as plain data for JSON with every digit."""
        return {name: _plain(getattr(self, name)) for name in self._names()}

    @classmethod
    def of_facts(cls, facts: Facts) -> Self:
        """Read the values that `facts` wrote."""
        return cls(**{name: facts[name] for name in cls._names()})

    @property
    def digest(self) -> str:
        """The hash of Δ without the threshold."""
        from holdfast import checker

        return checker.sha256([self.kind, self.facts()])

    @property
    def policy(self) -> str:
        """The range of the threshold, to end a sentence."""
        if self.threshold is None:
            return ""
        low, high = self.threshold
        return f", whichever threshold from {low:g} to {high:g} is used"

    def moving(self, threshold: object) -> Self:
        """The same without its chance, with a threshold that may move in this range; None keeps the threshold."""
        return replace(self, chance=None, threshold=threshold)  # type: ignore[type-var]

    def calibrated(self, measured: Chance | Inside | None) -> Self:
        """The same with measured chances; None removes the chance. An `Inside` without a record is about these."""
        if isinstance(measured, Inside):
            return self._with("inside", measured if measured.record else measured.of(self))
        return self._with("chance", measured)

    def _with(self, name: str, measured: Chance | Inside | None) -> Self:
        if name not in {part.name for part in fields(self)}:  # type: ignore[arg-type]
            raise InvalidInputError(
                f"inside: expected changes of a model's own parameters or leaves, got {type(self).__name__}"
            )
        return replace(self, **{name: measured})  # type: ignore[type-var]

    @property
    def bare(self) -> Self:
        """The same without measured chances."""
        gone = {"chance": None, **({"inside": None} if self.inside else {})}
        return replace(self, **gone)  # type: ignore[type-var]

    @property
    def stated_inside(self) -> Inside | None:
        """The probability that the next model lies in Δ, if it was measured for this Δ."""
        return self.inside if self.inside is not None and self.inside.about(self) else None

    @property
    def measured(self) -> tuple[Chance | Inside, ...]:
        """The measured, unproven chances, each a sentence."""
        return tuple(filter(None, (self.stated_inside, self.chance)))

    def to_dict(self) -> Document:
        """The value as plain data for JSON, with every digit."""
        measured = {"chance": self.chance, "inside": self.inside}
        policy = {"threshold": list(self.threshold)} if self.threshold else {}
        known = {name: asdict(one) for name, one in measured.items() if one}
        return {"kind": self.kind, **self.facts(), **policy, **known}

    @classmethod
    def from_dict(cls, document: Facts) -> Self:
        """Read a value that `to_dict` wrote."""
        value = cls.of_facts(document).moving(document.get("threshold"))
        for name, kind in (("chance", Chance), ("inside", Inside)):
            if document.get(name):
                # As it was written: no record is added.
                value = value._with(name, kind(**document[name]))
        return value

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.kind, self.size))

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew: arrays are read-only again, and what was worked out from them is left behind.
        return type(self), tuple(getattr(self, part.name) for part in fields(self))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.words})"

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        return Summary(f"Plausible changes: {self.words}", self._table())

    def _table(self) -> list[tuple[str, object]]:
        return [
            (self.unit, self.size),
            ("measured, not proven", ". ".join(map(str, self.measured)) or None),
        ]


def _plain(value: Any) -> Any:
    """One radius or several, as in JSON."""
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return value.tolist() if isinstance(value, np.ndarray) else value


def check_size(value: object, name: str) -> float:
    """A checked size: >= 0 and finite."""
    number = given_number(value)
    if number is None or not 0.0 <= number < float("inf"):
        raise InvalidInputError(f"{name}: expected a number >= 0 and finite, got {value!r}")
    return number


def check_policy(value: object) -> Interval | None:
    """A checked interval of probabilities, or None."""
    if value is None:
        return None
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = map(given_number, value)
        if low is not None and high is not None and 0.0 < low <= high < 1.0:
            return low, high
    raise InvalidInputError(
        f"threshold: expected (lowest, highest), two probabilities between 0 and 1, got {value!r}"
    )
