"""What the paper prints for its neural networks, to put beside what is measured here.

"Interval Abstractions for Robust Counterfactual Explanations" (Jiang, Leofante, Rago, Toni), the tables of quality and
of runtime for 20 inputs; the methods that take a delta at delta_val, which is 0.02 for all four tables.
"""

from __future__ import annotations

from typing import NamedTuple

DELTA_VAL = 0.02


class Printed(NamedTuple):
    """Seconds for 20 inputs, the share that is Δ-valid at delta_val, and cost_l1."""

    seconds: float
    delta_validity: float
    cost_l1: float


PAPER: dict[str, dict[str, Printed]] = {
    "NNCE": {
        "compas": Printed(0.018, 0.08, 0.028),
        "heloc": Printed(0.039, 0, 0.053),
        "adult": Printed(0.095, 0.02, 0.032),
        "gmc": Printed(0.514, 0.22, 0.029),
    },
    "GCE": {
        "compas": Printed(29.06, 0, 0.039),
        "heloc": Printed(25.08, 0, 0.019),
        "adult": Printed(27.23, 0, 0.016),
        "gmc": Printed(25.15, 0, 0.022),
    },
    "PROTO": {
        "compas": Printed(555.8, 0.066, 0.144),
        "heloc": Printed(607.6, 0, 0.024),
        "adult": Printed(604.3, 0.01, 0.011),
        "gmc": Printed(542.2, 0.01, 0.023),
    },
    "MCE": {
        "compas": Printed(0.34, 0, 0.019),
        "heloc": Printed(1.221, 0, 0.014),
        "adult": Printed(0.934, 0, 0.009),
        "gmc": Printed(0.163, 0, 0.016),
    },
    "ST-CE": {
        "compas": Printed(1.29, 0.74, 0.039),
        "heloc": Printed(1.419, 0.4, 0.078),
        "adult": Printed(0.579, 0.2, 0.046),
        "gmc": Printed(0.347, 0.92, 0.041),
    },
    "RBR": {
        "compas": Printed(118.4, 0.38, 0.038),
        "heloc": Printed(110.5, 0, 0.038),
        "adult": Printed(187.2, 0, 0.025),
        "gmc": Printed(112.2, 0.62, 0.034),
    },
    "ROAR": {
        "compas": Printed(2.535, 1, 0.388),
        "heloc": Printed(2.007, 1, 0.454),
        "adult": Printed(20.03, 1, 0.877),
        "gmc": Printed(1.74, 0.98, 0.199),
    },
    "GCE-R": {
        "compas": Printed(56.97, 0.87, 0.055),
        "heloc": Printed(67.33, 1, 0.049),
        "adult": Printed(101.7, 1, 0.048),
        "gmc": Printed(86.32, 1, 0.032),
    },
    "PROTO-R": {
        "compas": Printed(756.9, 0.91, 0.049),
        "heloc": Printed(965.2, 1, 0.079),
        "adult": Printed(1602, 0.69, 0.042),
        "gmc": Printed(690.5, 1, 0.036),
    },
    "MCE-R": {
        "compas": Printed(2.364, 1, 0.035),
        "heloc": Printed(13.05, 1, 0.031),
        "adult": Printed(18.77, 1, 0.021),
        "gmc": Printed(1.281, 1, 0.022),
    },
    "RNCE-FF": {
        "compas": Printed(4.125, 1, 0.039),
        "heloc": Printed(32.76, 1, 0.083),
        "adult": Printed(15.64, 1, 0.057),
        "gmc": Printed(3.447, 1, 0.04),
    },
    "RNCE-FT": {
        "compas": Printed(6.744, 1, 0.037),
        "heloc": Printed(43.5, 1, 0.08),
        "adult": Printed(27.96, 1, 0.049),
        "gmc": Printed(5.307, 1, 0.035),
    },
}


def printed(method: str, table: str, delta: float) -> Printed | None:
    """The paper's figures for this method; None where it prints none for this delta."""
    return PAPER.get(method, {}).get(table) if delta == DELTA_VAL else None
