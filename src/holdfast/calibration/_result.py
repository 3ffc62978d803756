"""What every way of choosing delta returns: the number, the Δ it stands for, and the evidence."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from holdfast._network import Floats
from holdfast._shown import Shown, Summary, draw
from holdfast.changes import Changes, PlausibleChanges
from holdfast.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Delta = float | tuple[float, ...] | tuple[Floats, ...]

# What to know about runs that saw fewer rows than a batch has.
SINGLE_STEP = (
    "each was a single step of the optimiser, so the distance says more about its learning rate "
    "than about the data"
)


class Calibration(Shown):
    """What was chosen from evidence; as a text it says what, and what that rests on."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the evidence, and what was chosen from it."""
        picture: Axes = draw(self, ax)
        return picture

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


@dataclass(frozen=True, eq=False, repr=False)
class ChosenDelta(Calibration, ABC):
    """A delta and where it comes from.

    Attributes
    ----------
    delta
        The radius, one for each layer, or one for each weight, [down, up]; nan if none was found.
    norm
        The norm that it is a radius in.
    evidence
        What was measured, one row for each measurement.
    biases
        True, or the radii of the biases where each weight has its own.
    """

    delta: Delta
    norm: float
    evidence: pd.DataFrame
    biases: bool | tuple[Floats, ...] = field(default=True, kw_only=True)

    @property
    def changes(self) -> Changes:
        """Δ with this delta, for `certify` and `explain`."""
        if math.isnan(float(self)):
            raise InvalidInputError(str(self))
        if float(self) == 0.0:
            raise InvalidInputError(
                f"delta: expected retraining to move the model, got distance 0 ({self})"
            )
        return PlausibleChanges(self.delta, self.norm, self.biases)

    @property
    @abstractmethod
    def name(self) -> str:
        """What a picture calls it."""

    def __float__(self) -> float:
        """The radius; of several the largest, whose box holds them all."""
        radii: tuple[float | Floats, ...] = (
            self.delta if isinstance(self.delta, tuple) else (self.delta,)
        )
        biases = self.biases if isinstance(self.biases, tuple) else ()
        return max(float(np.max(part)) for part in (*radii, *biases))

    def overview(self) -> Summary:
        """What a notebook shows."""
        chosen, _, known = str(self).partition("; ")
        # Seeds are names, not quantities.
        table = self.evidence.astype(
            {name: str for name in self.evidence.columns if name == "seed"}
        )
        return Summary(
            chosen, [("what is known", known), ("norm", self.norm)], table, rows="measurements"
        )

    @property
    def shown(self) -> str:
        """The radius as people read it."""
        if isinstance(self.biases, tuple):
            return f"up to {float(self):.3g}, by parameter"
        if isinstance(self.delta, tuple):
            return "(" + ", ".join(f"{radius:.3g}" for radius in self.delta) + ")"
        return f"{self.delta:.3g}"


def outward(distance: Any, norm: float) -> Any:
    """A hair above a computed distance, so that the model at that distance lies inside Δ in exact arithmetic too."""
    return distance * (1.0 + (1e-15 if norm == math.inf else 1e-12))
