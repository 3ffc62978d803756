"""What a ROBUST verdict stands on, in a form that others can check.

For each margin either interval bounds suffice, or a case distinction does: every leaf fixes some neurons' upper sides
(LINEAR or ZERO, FREE for the rest), together the leaves cover all cases, and each carries the multipliers with which
the backward walk of `bounds.linear` ends above zero. `RationalNetwork.bound` redoes that walk in fractions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.bounds.abstraction import IntervalNetwork, Margin, margins_for
from holdfast.changes import PlausibleChanges
from holdfast.errors import InvalidInputError
from holdfast.network import Floats, Network
from holdfast.verify.branch import Leaf, branch_and_bound
from holdfast.verify.exact import settle_exactly
from holdfast.verify.outputs import least_values
from holdfast.verify.problem import Problem


@dataclass(frozen=True)
class MarginProof:
    """Why one margin stays on the right side; no leaves where the interval bound alone shows it."""

    margin: Margin
    bound: float
    leaves: tuple[Leaf, ...]


def prove(network: Network, changes: PlausibleChanges, x: Floats, target: int) -> tuple[MarginProof, ...]:
    """The proof that x keeps the class at index `target` under the box `changes`, one part for each rival."""
    return tuple(_prove_margin(network, changes, x, margin) for margin in margins_for(network, target))


def _prove_margin(network: Network, changes: PlausibleChanges, x: Floats, margin: Margin) -> MarginProof:
    lower = float(least_values(network, changes, x[None, :], [margin], exact=False, tol=1.0)[0, 0])
    if lower > 0.0 or not network.rectified:
        return MarginProof(margin, lower, ())
    problem = Problem.of(network, IntervalNetwork.of(network, changes), margin, x[None, :])
    if problem.net.depth > 1:
        found = branch_and_bound(problem, np.array([np.inf]), keep_leaves=True)
        if not found.open[0] and found.lower[0] > 0.0:
            return MarginProof(margin, float(found.lower[0]), tuple(found.leaves[0]))
    answer = settle_exactly(problem, changes.layer_radii(network))
    if not answer.robust:
        raise InvalidInputError("proof: expected a point that is robust, got one that is not proven to be")
    return MarginProof(margin, answer.lower, answer.leaves)
