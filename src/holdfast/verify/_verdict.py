"""What the test answers: a verdict for each row, the bounds behind it, its proof, or a counter-model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast._network import Floats, Ints, Network, Values
from holdfast.bounds._layers import Margin
from holdfast.verify._search import Leaves


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


class Stage(IntEnum):
    """Which step decided a row, from the cheapest on; `engine.TABLE` says what each of them does."""

    NONE = 0
    FORWARD = 1
    CLOSED_FORM = 2
    INTERVAL = 3
    BALL = 4
    ATTACK = 5
    LINEAR = 6
    BRANCH = 7
    EXACT = 8
    SEPARATE = 9


STAGES = (
    "undecided",
    "forward pass",
    "closed form",
    "interval",
    "ball bound",
    "attack",
    "linear bound",
    "branch and bound",
    "exact",
    "separate ranges",
)
UNKNOWN, ROBUST, NOT_ROBUST = 0, 1, 2
VERDICTS = (Verdict.UNKNOWN, Verdict.ROBUST, Verdict.NOT_ROBUST)
# Closed branches that a table keeps for its certificates, in bytes; beyond it they are searched for again.
_KEPT = 2**28


@dataclass
class Outcome:
    """The working table, one entry for each row, and what stands behind the verdicts.

    Sides or networks break a row, closed branches or trees prove it.
    """

    verdict: NDArray[np.int8]
    lower: Floats
    upper: Floats
    stage: NDArray[np.int8]
    sides: list[tuple[Ints, Margin, Values]] = field(default_factory=list)
    networks: dict[int, tuple[Margin, Network]] = field(default_factory=dict)
    leaves: list[tuple[Margin, Leaves]] = field(default_factory=list)
    trees: dict[tuple[int, int, int], dict[str, Any]] = field(default_factory=dict)
    room: int = _KEPT

    @classmethod
    def empty(cls, n: int) -> Outcome:
        """Nothing known yet."""
        lower = np.empty(n)
        upper = np.empty(n)
        lower[:], upper[:] = -np.inf, np.inf
        return cls(np.zeros(n, np.int8), lower, upper, np.zeros(n, np.int8))

    def mark(self, rows: Any, verdict: int, stage: Stage) -> None:
        """Write down who decided some rows, and how."""
        self.verdict[rows] = verdict
        self.stage[rows] = stage

    def add_sides(self, rows: Ints, margin: Margin, sides: Values) -> None:
        """Keep the sides that break `margin` in these rows, a byte for each neuron where all are corners."""
        if rows.size:
            corners = sides.dtype != np.int8 and (np.abs(sides) == 1.0).all()
            self.sides.append((rows, margin, sides.astype(np.int8) if corners else sides))

    def add_leaves(self, margin: Margin, leaves: Leaves) -> None:
        """Keep closed branches while there is room."""
        self.room -= leaves.lower.nbytes + leaves.upper.nbytes + leaves.decided.nbytes
        if self.room > 0:
            self.leaves.append((margin, leaves))

    def put(self, rows: Ints, part: Outcome) -> None:
        """Take over what is known of some rows."""
        self.verdict[rows] = part.verdict
        self.stage[rows] = part.stage
        self.lower[rows] = part.lower
        self.upper[rows] = part.upper
        self.sides += [(rows[own], margin, sides) for own, margin, sides in part.sides]
        self.networks |= {int(rows[row]): broken for row, broken in part.networks.items()}
        self.trees |= {
            (int(rows[row]), above, below): tree for (row, above, below), tree in part.trees.items()
        }
        for margin, leaves in part.leaves:
            self.add_leaves(margin, replace(leaves, row=rows[leaves.row]))

    def breaker(self, row: int) -> tuple[Margin, Floats | Network] | None:
        """The margin that breaks in this row, and what breaks it: a network, or the sides of one."""
        if row in self.networks:
            return self.networks[row]
        for rows, margin, sides in self.sides:
            if row in rows:
                return margin, sides[rows == row][0].astype(np.float64)
        return None

    def branches(self, row: int, margin: Margin) -> list[tuple[Values, Values, Values]]:
        """The closed branches of a row: what was decided, the multipliers of L and of U."""
        return [
            (leaves.decided[i], leaves.lower[i], leaves.upper[i])
            for other, leaves in self.leaves
            if (other.above, other.below) == (margin.above, margin.below)
            for i in np.flatnonzero(leaves.row == row)
        ]

    def to_frame(self, index: pd.Index, rows: slice = slice(None)) -> pd.DataFrame:
        """The table for people, or some rows of it, whose index that is; words are categories, a byte a row."""
        names, stages = pd.Index([verdict.name for verdict in VERDICTS]), pd.Index(STAGES)
        return pd.DataFrame(
            {
                "verdict": pd.Categorical.from_codes(self.verdict[rows], names, validate=False),
                "robust": self.verdict[rows] == ROBUST,
                "margin_lower": self.lower[rows],
                "margin_upper": self.upper[rows],
                "decided_by": pd.Categorical.from_codes(self.stage[rows], stages, validate=False),
            },
            index=index,
        )


def spelled_out(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table with verdicts and stages as text; pandas' own way to it takes ten times as long."""
    words = {name: frame[name].array for name in ("verdict", "decided_by")}
    return frame.assign(
        **{
            name: own.categories.take(own.codes)
            for name, own in words.items()
            if isinstance(own, pd.Categorical)
        }
    )
