"""The result for each row: a verdict, its bounds, and its proof or counter-model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import pandas as pd

from holdfast._network import Floats, Ints, Network, Values
from holdfast.verify._search import Leaves


class Verdict(StrEnum):
    """The three verdicts: ROBUST, NOT_ROBUST and UNKNOWN. Each compares equal to its name."""

    ROBUST = "ROBUST"
    NOT_ROBUST = "NOT_ROBUST"
    UNKNOWN = "UNKNOWN"

    @property
    def meaning(self) -> str:
        """The meaning of the verdict as a sentence."""
        return {
            Verdict.ROBUST: "every model in Δ keeps the class (proven)",
            Verdict.NOT_ROBUST: "a model in Δ gives another class (a counter-model was found)",
            Verdict.UNKNOWN: "neither a proof nor a counter-model was found",
        }[self]

    @property
    def words(self) -> str:
        """The verdict in a few words, for tables and pictures."""
        return {
            Verdict.ROBUST: "proven",
            Verdict.NOT_ROBUST: "can be broken",
            Verdict.UNKNOWN: "undecided",
        }[self]


class Stage(IntEnum):
    """The stage that settled a row, from the cheapest on; `engine.TABLE` describes each stage."""

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
    """The working table with one entry for each row, and the evidence for the verdicts.

    Sides or networks break a row; closed branches or trees prove it. A margin is known by its place among its class's
    margins.
    """

    verdict: Values
    lower: Floats
    upper: Floats
    stage: Values
    sides: list[tuple[Ints, int, Values]] = field(default_factory=list)
    networks: dict[int, Network] = field(default_factory=dict)
    leaves: list[tuple[int, Leaves]] = field(default_factory=list)
    trees: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    room: int = _KEPT

    @classmethod
    def empty(cls, n: int) -> Outcome:
        """An outcome without any knowledge."""
        ends = np.full(n, -np.inf), np.full(n, np.inf)
        return cls(np.zeros(n, np.int8), *ends, np.zeros(n, np.int8))

    def mark(self, rows: Any, verdict: int, stage: Stage) -> None:
        """Record the verdict and the stage of some rows."""
        self.verdict[rows] = verdict
        self.stage[rows] = stage

    def add_leaves(self, rows: Ints, k: int, leaves: Leaves) -> None:
        """Keep closed branches of these rows while there is room."""
        self.room -= leaves.lower.nbytes + leaves.upper.nbytes + leaves.decided.nbytes
        if self.room > 0:
            self.leaves.append((k, replace(leaves, row=rows[leaves.row])))

    def put(self, rows: Ints, part: Outcome) -> None:
        """Take over the outcome of some rows."""
        self.verdict[rows] = part.verdict
        self.stage[rows] = part.stage
        self.lower[rows] = np.maximum(self.lower[rows], part.lower)
        self.upper[rows] = np.minimum(self.upper[rows], part.upper)
        self.sides += [(rows[own], k, sides) for own, k, sides in part.sides]
        self.networks |= {int(rows[row]): network for row, network in part.networks.items()}
        self.trees |= {(int(rows[row]), k): tree for (row, k), tree in part.trees.items()}
        for k, leaves in part.leaves:
            self.add_leaves(rows, k, leaves)

    def branches(self, row: int, k: int) -> list[Values]:
        """The closed branches of a row: the decisions, the multipliers of L and of U."""
        found = [
            [part[leaves.row == row] for part in (leaves.decided, leaves.lower, leaves.upper)]
            for other, leaves in self.leaves
            if other == k
        ]
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    def to_frame(self, index: pd.Index, rows: slice = slice(None)) -> pd.DataFrame:
        """The table for people, or the rows `rows` of it with this index; words are categories, one byte a row."""
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
    """The same table with verdicts and stages as text; ten times as fast as pandas' own conversion."""
    words = {name: frame[name].array for name in ("verdict", "decided_by")}
    return frame.assign(
        **{
            name: own.categories.take(own.codes)
            for name, own in words.items()
            if isinstance(own, pd.Categorical)
        }
    )
