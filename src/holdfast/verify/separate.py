"""The paper's test for several classes: the target's least logit against each rival's greatest.

Both share the hidden layers, so the two need not be reached by one model: the test is sound, and weaker than the joint
margin. It is kept for comparison.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from holdfast.changes import PlausibleChanges
from holdfast.network import Floats, Network
from holdfast.verify.cascade import run_cascade
from holdfast.verify.outputs import logit_ranges
from holdfast.verify.verdict import NOT_ROBUST, ROBUST, Outcome, Stage

_BLOCK = 4096
_TOL = 1e-7


def run_separate(
    network: Network, changes: PlausibleChanges, points: Floats, targets: NDArray[np.intp], *, deadline: float | None
) -> Outcome:
    """ROBUST where the paper's test passes; elsewhere NOT_ROBUST if there is a counter-model, otherwise UNKNOWN."""
    outcome = Outcome.empty(points.shape[0])
    for start in range(0, points.shape[0], _BLOCK):
        if deadline is not None and time.monotonic() > deadline:
            break
        rows = np.arange(start, min(start + _BLOCK, points.shape[0]))
        ranges = logit_ranges(network, changes, points[rows], exact=True, tol=_TOL)
        own = np.take_along_axis(ranges.lower, targets[rows, None], axis=1)
        differences = own - ranges.upper
        np.put_along_axis(differences, targets[rows, None], np.inf, axis=1)
        outcome.lower[rows] = differences.min(axis=1)
        outcome.settle(rows[outcome.lower[rows] > 0.0], ROBUST, Stage.SEPARATE)
    failed = np.flatnonzero(outcome.verdict == 0)
    if failed.size:
        joint = run_cascade(network, changes, points[failed], targets[failed], deadline=deadline)
        outcome.upper[failed] = joint.upper
        broken = joint.verdict == NOT_ROBUST
        outcome.verdict[failed[broken]], outcome.stage[failed[broken]] = NOT_ROBUST, joint.stage[broken]
        for found, margin, sides in joint.adversaries.blocks:
            outcome.adversaries.add(failed[found], margin, sides)
    return outcome
