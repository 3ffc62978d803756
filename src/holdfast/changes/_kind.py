"""What every kind of plausible change is, and the chance that its promises are broken."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from holdfast._files import Document, Facts
from holdfast._given import given_number, given_share
from holdfast._numbers import at_most
from holdfast._shown import Shown, Summary
from holdfast.errors import InvalidInputError

# What values of every kind have.
_SHARED = ("chance", "threshold")


@dataclass(frozen=True)
class Chance:
    """How many promises the next model is expected to break, as measured on retrained models. Never a proof.

    Parameters
    ----------
    broken
        The share of such promises that the next model breaks at most: in expectation, or with `probability`.
    models
        How many retrained models it was calibrated on.
    probability
        None: `broken` is an expectation. Otherwise at most that share is broken, with this probability.
    how
        What the retrained models have in common with the next one, in words.

    Examples
    --------
    >>> print(Chance(0.1, 20))
    of such promises at most 1 in 10 is expected to be broken by the next model (calibrated on 20 retrained models)
    """

    broken: float
    models: int
    probability: float | None = None
    how: str = ""

    def __post_init__(self) -> None:
        given_share(self.broken, "broken")
        if self.probability is not None:
            given_share(self.probability, "probability")

    @property
    def one_in(self) -> int | None:
        """n where the share is 1 in n."""
        exact = Fraction(self.broken).limit_denominator(1000)
        return exact.denominator if exact.numerator == 1 else None

    @property
    def share(self) -> str:
        """The share as people say it."""
        return f"{100 * self.broken:.3g}%" if self.one_in is None else f"1 in {self.one_in}"

    def __str__(self) -> str:
        evidence = (
            f"(calibrated on {self.models} retrained models{', ' + self.how if self.how else ''})"
        )
        if self.probability is None:
            return f"of such promises at most {self.share} is expected to be broken by the next model {evidence}"
        sure = f"with probability {self.probability:.3g}"
        return f"{sure} the next model breaks at most {self.share} of such promises {evidence}"


class Changes(Shown):
    """What may become of today's model: a frozen value that goes wherever `changes=` is asked for."""

    kind: ClassVar[str]
    # What `size` is called: "delta", "margin", "radius".
    unit: ClassVar[str]
    chance: Chance | None
    # Between which probabilities the decision threshold may move; None where it stays.
    threshold: tuple[float, float] | None

    def __post_init__(self) -> None:
        """The size and the threshold, checked; of kinds with one size."""
        size = check_size(getattr(self, self.unit), self.unit)
        vars(self).update({self.unit: size, "threshold": check_policy(self.threshold)})

    @property
    def size(self) -> float:
        """How far models may go: delta, the margin, or the radius; of several radii the largest."""
        size: float = getattr(self, self.unit)
        return size

    def resized(self, size: float) -> Self:
        """The same kind and shape with another size, and without a chance, which belonged to this one."""
        return replace(self, chance=None, **{self.unit: size})  # type: ignore[type-var]

    @abstractmethod
    def in_words(self, number: Callable[[float], str] = at_most) -> str:
        """What is allowed to happen, as people read it, never more than it is."""

    @property
    def words(self) -> str:
        """`in_words`, with a few digits."""
        return self.in_words()

    @property
    @abstractmethod
    def every_model(self) -> str:
        """Of which models something is proven, as the subject of a sentence."""

    def contains(self, today: Any, other: Any) -> bool:
        """Whether `other` is what `today` may become, whatever the point; False where that depends on the point."""
        return False

    @classmethod
    def _names(cls) -> list[str]:
        """What tells a value from others of its kind, beside the chance and the threshold."""
        parts = fields(cls)  # type: ignore[arg-type]
        return [part.name for part in parts if part.compare and part.name not in _SHARED]

    def facts(self) -> Document:
        """What tells this value from others of its kind, as plain JSON-able data with every digit."""
        return {name: _plain(getattr(self, name)) for name in self._names()}

    @classmethod
    def of_facts(cls, facts: Facts) -> Self:
        """What `facts` wrote."""
        return cls(**{name: facts[name] for name in cls._names()})

    @property
    def policy(self) -> str:
        """What may become of the threshold, to end a sentence."""
        if self.threshold is None:
            return ""
        low, high = self.threshold
        return f", whichever threshold from {low:g} to {high:g} is used"

    def moving(self, threshold: object) -> Self:
        """The same, with a threshold that may move between two probabilities; None: one that stays."""
        return replace(self, threshold=threshold)  # type: ignore[type-var]

    def calibrated(self, chance: Chance | None) -> Self:
        """The same with a chance attached."""
        return replace(self, chance=chance)  # type: ignore[type-var]

    def to_dict(self) -> Document:
        """The value as plain JSON-able data, with every digit."""
        chance = {"chance": asdict(self.chance)} if self.chance else {}
        policy = {"threshold": list(self.threshold)} if self.threshold else {}
        return {"kind": self.kind, **self.facts(), **policy, **chance}

    @classmethod
    def from_dict(cls, document: Facts) -> Self:
        """What `to_dict` wrote."""
        chance = document.get("chance")
        value = cls.of_facts(document).moving(document.get("threshold"))
        return value.calibrated(chance and Chance(**chance))

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
        """What a notebook shows."""
        return Summary(f"Plausible changes: {self.words}", self._table())

    def _table(self) -> list[tuple[str, object]]:
        return [
            (self.unit, self.size),
            ("chance", None if self.chance is None else str(self.chance)),
        ]


def _plain(value: Any) -> Any:
    """Radii, however many, as JSON has them."""
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return value.tolist() if isinstance(value, np.ndarray) else value


def check_size(value: object, name: str) -> float:
    """A size >= 0 and finite."""
    number = given_number(value)
    if number is None or not 0.0 <= number < float("inf"):
        raise InvalidInputError(f"{name}: expected a number >= 0 and finite, got {value!r}")
    return number


def check_policy(value: object) -> tuple[float, float] | None:
    """An interval of probabilities, or None."""
    if value is None:
        return None
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = map(given_number, value)
        if low is not None and high is not None and 0.0 < low <= high < 1.0:
            return low, high
    raise InvalidInputError(
        f"threshold: expected (lowest, highest), probabilities between 0 and 1, got {value!r}"
    )
