"""The result of every method that chooses delta: the number, its Δ, and the evidence."""

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
    """A value chosen from evidence; ``print`` shows the value and its conditions."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the evidence and the chosen value."""
        picture: Axes = draw(self, ax)
        return picture

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


@dataclass(frozen=True, eq=False, repr=False)
class ChosenDelta(Calibration, ABC):
    """A delta and its evidence.

    Attributes
    ----------
    delta
        The radius, one for each layer, or one for each weight, [down, up]; nan if none was found.
    norm
        The p of the norm.
    evidence
        The measurements, one row each.
    biases
        True, or the radii of the biases if each weight has its own radius.
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
                f"delta: retraining did not move the model, so delta is 0 ({self}); "
                "retrain with more data or epochs"
            )
        return PlausibleChanges(self.delta, self.norm, self.biases)

    @property
    @abstractmethod
    def name(self) -> str:
        """The label in plots."""

    def __float__(self) -> float:
        """The radius; of several the largest, whose box contains all others."""
        radii: tuple[float | Floats, ...] = (
            self.delta if isinstance(self.delta, tuple) else (self.delta,)
        )
        biases = self.biases if isinstance(self.biases, tuple) else ()
        return max(float(np.max(part)) for part in (*radii, *biases))

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        chosen, _, known = str(self).partition("; ")
        # Seeds are names, not quantities.
        table = self.evidence.astype(
            {name: str for name in self.evidence.columns if name == "seed"}
        )
        return Summary(
            chosen, [("details", known), ("norm", self.norm)], table, rows="measurements"
        )

    @property
    def shown(self) -> str:
        """The radius in words."""
        if isinstance(self.biases, tuple):
            return f"up to {float(self):.3g}, by parameter"
        if isinstance(self.delta, tuple):
            return "(" + ", ".join(f"{radius:.3g}" for radius in self.delta) + ")"
        return f"{self.delta:.3g}"


def outward(distance: Any, norm: float) -> Any:
    """A number slightly above a computed distance, so that its model is inside Δ in exact arithmetic too."""
    return distance * (1.0 + (1e-15 if norm == math.inf else 1e-12))
