"""What the test answers: a verdict for each row, the bounds behind it, and a counter-model for each broken one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.bounds.abstraction import Margin
from holdfast.network import Floats, Network


class Verdict(StrEnum):
    """The three answers; they compare equal to their names, and `meaning` is a sentence for people."""

    ROBUST = "ROBUST"
    NOT_ROBUST = "NOT_ROBUST"
    UNKNOWN = "UNKNOWN"

    @property
    def meaning(self) -> str:
        """What the verdict says."""
        return {
            Verdict.ROBUST: "every plausible model keeps the class",
            Verdict.NOT_ROBUST: "a plausible model changes the class, and here it is",
            Verdict.UNKNOWN: "neither a proof nor a counter-model was found",
        }[self]

    @property
    def words(self) -> str:
        """The verdict in two words, for tables and pictures."""
        return {
            Verdict.ROBUST: "provably survives",
            Verdict.NOT_ROBUST: "can be broken",
            Verdict.UNKNOWN: "undecided",
        }[self]


class Stage(Enum):
    """Which step of the cascade settled a row, from the cheapest to the dearest."""

    NONE = "undecided"
    FORWARD = "forward pass"
    CLOSED_FORM = "closed form"
    INTERVAL = "interval"
    ATTACK = "attack"
    LINEAR = "linear bound"
    BRANCH = "branch and bound"
    MILP = "milp"
    EXACT = "exact"
    SEPARATE = "separate ranges"


STAGES = list(Stage)
UNKNOWN, ROBUST, NOT_ROBUST = 0, 1, 2
VERDICTS = (Verdict.UNKNOWN, Verdict.ROBUST, Verdict.NOT_ROBUST)


@dataclass
class Adversaries:
    """The choices behind every counter-model, a byte for each neuron where the choice is a corner."""

    blocks: list[tuple[NDArray[np.intp], Margin, NDArray[Any]]] = field(default_factory=list)
    networks: dict[int, tuple[Margin, Network]] = field(default_factory=dict)

    def add(self, rows: NDArray[np.intp], margin: Margin, sides: NDArray[Any]) -> None:
        """Keep the sides that break `margin` in these rows."""
        if rows.size:
            corners = sides.dtype == np.int8 or bool((np.abs(sides) == 1.0).all())
            self.blocks.append((rows, margin, sides.astype(np.int8) if corners else sides))

    def add_network(self, row: int, margin: Margin, witness: Network) -> None:
        """Keep a counter-model that sides do not describe."""
        self.networks[row] = (margin, witness)

    def find(self, row: int) -> tuple[Margin, Floats | Network] | None:
        """The margin that breaks in this row, and what breaks it: a network, or the sides of one."""
        if row in self.networks:
            return self.networks[row]
        for rows, margin, sides in self.blocks:
            place = np.flatnonzero(rows == row)
            if place.size:
                return margin, sides[place[0]].astype(np.float64)
        return None


@dataclass
class Outcome:
    """The cascade's working table: one entry for each row."""

    verdict: NDArray[np.int8]
    lower: Floats
    upper: Floats
    stage: NDArray[np.int8]
    adversaries: Adversaries

    @classmethod
    def empty(cls, n: int) -> Outcome:
        """Nothing known yet."""
        return cls(
            np.zeros(n, dtype=np.int8),
            np.full(n, -np.inf),
            np.full(n, np.inf),
            np.zeros(n, dtype=np.int8),
            Adversaries(),
        )

    def settle(self, rows: NDArray[np.intp], verdict: int, stage: Stage) -> None:
        """Write a verdict into some rows."""
        self.verdict[rows] = verdict
        self.stage[rows] = STAGES.index(stage)

    def to_frame(self, index: pd.Index, rows: slice = slice(None)) -> pd.DataFrame:
        """The table for people, or some rows of it, whose index that is."""
        names = np.array([verdict.name for verdict in VERDICTS], dtype=object)
        return pd.DataFrame(
            {
                "verdict": names[self.verdict[rows]],
                "robust": self.verdict[rows] == ROBUST,
                "margin_lower": self.lower[rows],
                "margin_upper": self.upper[rows],
                "decided_by": np.array([stage.value for stage in STAGES], dtype=object)[self.stage[rows]],
            },
            index=index,
        )
