"""Independent means of checking `certify`. `Network` and `PlausibleChanges` are read as data; no other code is shared.

Three kinds of evidence, none of which trusts another:

    least_margins_milp       a plain mixed-integer programme, one binary for every neuron, for the box (norm inf)
    least_margins_exact      the least margin in fractions, without rounding: see `reference`
    search_counter_model     a hunt for a changed network that breaks a point, over the actual parameters

Targets are class *indices* here. A margin is a logit difference that must stay >= 0, or > 0 where a tie is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from holdfast import Network, PlausibleChanges
from reference import exact_class, least_margins, rivals_of, robust
from reference import inside as inside_exactly

# What the MILP's answer is good to, for nets whose numbers are of order one to ten.
MILP_TOLERANCE = 1e-6


# --- what both sides agree on: the margin, the radii, who wins a tie -------------------------------------------------


class Radii(NamedTuple):
    """How far each layer's weights and biases may move, in the box."""

    weights: tuple[float, ...]
    biases: tuple[float, ...]


class OutputRow(NamedTuple):
    """A margin as one linear function of the last hidden layer, in which `moving` rows of parameters may change."""

    weights: list[Fraction]
    bias: Fraction
    moving: int


def radii_of(network: Network, changes: PlausibleChanges) -> Radii:
    """The radii of `changes` for every layer of `network`."""
    layers = len(network.weights)
    weights = changes.delta if isinstance(changes.delta, tuple) else (changes.delta,) * layers
    assert len(weights) == layers
    return Radii(weights, weights if changes.biases else (0.0,) * layers)


def margin_row(network: Network, target: int, rival: int | None) -> OutputRow:
    """The row of the last layer that is the margin of `target` over `rival`."""
    rows = [[Fraction(w) for w in row] for row in network.weights[-1].tolist()]
    biases = [Fraction(b) for b in network.biases[-1].tolist()]
    if rival is None:
        sign = 1 if target == 1 else -1
        return OutputRow([sign * w for w in rows[0]], sign * biases[0], 1)
    difference = [t - c for t, c in zip(rows[target], rows[rival], strict=True)]
    return OutputRow(difference, biases[target] - biases[rival], 2)


def logit_row(network: Network, output: int, sign: int) -> OutputRow:
    """One logit (sign 1) or its negative (sign -1)."""
    row = [sign * Fraction(w) for w in network.weights[-1][output].tolist()]
    return OutputRow(row, sign * Fraction(float(network.biases[-1][output])), 1)


# --- the plain MILP --------------------------------------------------------------------------------------------------


def least_margin_milp(
    network: Network, x: np.ndarray, target: int, rival: int | None, radii: Radii
) -> float:
    """The least of z_target - z_rival (or of ±z) over the box; both rows of the output layer move."""
    return _minimise(network, x, margin_row(network, target, rival), radii)


def least_margins_milp(
    network: Network, x: np.ndarray, target: int, changes: PlausibleChanges
) -> float:
    """The least margin of `target` over all its rivals."""
    radii = radii_of(network, changes)
    return min(
        least_margin_milp(network, x, target, rival, radii) for rival in rivals_of(network, target)
    )


def separate_margin_milp(
    network: Network, x: np.ndarray, target: int, changes: PlausibleChanges
) -> float:
    """The paper's test for several classes: the target's least logit minus the greatest of each rival's."""
    radii = radii_of(network, changes)
    least = _minimise(network, x, logit_row(network, target, 1), radii)
    return min(
        least + _minimise(network, x, logit_row(network, c, -1), radii)
        for c in rivals_of(network, target)
    )


def logit_range_milp(
    network: Network, x: np.ndarray, output: int, changes: PlausibleChanges
) -> tuple[float, float]:
    """The least and the greatest value of one logit."""
    radii = radii_of(network, changes)
    least = _minimise(network, x, logit_row(network, output, 1), radii)
    return least, -_minimise(network, x, logit_row(network, output, -1), radii)


def _minimise(network: Network, x: np.ndarray, row: OutputRow, radii: Radii) -> float:
    """min row(v) over the box: for every hidden neuron a preactivation z, a value v = max(z, 0), a binary a.

    W v - dw sum(v) + b - db <= z <= W v + dw sum(v) + b + db        (first layer: constants, with |x|)
    v >= 0,   v >= z,   v <= z - lower (1 - a),   v <= upper a
    """
    weights = np.array([float(w) for w in row.weights])
    if not network.hidden:
        spread = row.moving * (radii.weights[-1] * np.abs(x).sum() + radii.biases[-1])
        return float(weights @ x + float(row.bias) - spread)
    hidden = sum(network.hidden)
    lower, upper = (
        np.concatenate(side)
        for side in zip(*_preactivation_intervals(network, x, radii), strict=True)
    )
    slack = 1e-3
    one = np.eye(hidden)

    def rows(z_part: np.ndarray, v_part: np.ndarray, a_part: np.ndarray) -> np.ndarray:
        return np.hstack([z_part, v_part, a_part])

    nothing = np.zeros((hidden, hidden))
    big_m_off = np.minimum(lower, 0.0) - slack
    big_m_on = np.maximum(upper, 0.0) + slack
    constraints = [
        LinearConstraint(rows(-one, one, nothing), 0.0, np.inf),
        LinearConstraint(rows(-one, one, -np.diag(big_m_off)), -np.inf, -big_m_off),
        LinearConstraint(rows(nothing, one, -np.diag(big_m_on)), -np.inf, 0.0),
    ]
    start = 0
    for i in range(1, len(network.hidden)):
        before = slice(start, start + network.hidden[i - 1])
        start += network.hidden[i - 1]
        here = slice(start, start + network.hidden[i])
        weight, bias = network.weights[i], network.biases[i]
        for side, low, high in (
            (1.0, -np.inf, bias + radii.biases[i]),
            (-1.0, bias - radii.biases[i], np.inf),
        ):
            v_part = np.zeros((network.hidden[i], hidden))
            v_part[:, before] = -(weight + side * radii.weights[i])
            constraints.append(LinearConstraint(rows(one[here], v_part, nothing[here]), low, high))
    cost = np.zeros(3 * hidden)
    cost[hidden + start : 2 * hidden] = weights - row.moving * radii.weights[-1]
    first = network.hidden[0]
    low = np.concatenate([lower - slack, np.zeros(2 * hidden)])
    high = np.concatenate([upper + slack, np.full(hidden, np.inf), np.ones(hidden)])
    low[:first], high[:first] = lower[:first], upper[:first]
    # HiGHS has called points optimal that were not (by up to 0.09, about once in 4,000 of these programmes), with its
    # presolve or without it, but not with both at once: the better of the two points is the optimum.
    least = np.inf
    for presolve in (True, False):
        answer = milp(
            cost,
            constraints=constraints,
            bounds=Bounds(low, high),
            integrality=np.concatenate([np.zeros(2 * hidden), np.ones(hidden)]),
            options={"mip_rel_gap": 0.0, "presolve": presolve},
        )
        assert answer.status == 0, answer.message
        least = min(least, float(answer.fun))
    return least + float(row.bias) - row.moving * radii.biases[-1]


def _preactivation_intervals(
    network: Network, x: np.ndarray, radii: Radii
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Interval bounds of every hidden layer's preactivation, for the big-M only."""
    spread = radii.weights[0] * np.abs(x).sum() + radii.biases[0]
    center = network.weights[0] @ x + network.biases[0]
    intervals = [(center - spread, center + spread)]
    for i in range(1, len(network.hidden)):
        low, high = (np.maximum(side, 0.0) for side in intervals[-1])
        least, most = network.weights[i] - radii.weights[i], network.weights[i] + radii.weights[i]
        intervals.append(
            (
                np.where(least > 0, least * low, least * high).sum(axis=1)
                + network.biases[i]
                - radii.biases[i],
                np.where(most > 0, most * high, most * low).sum(axis=1)
                + network.biases[i]
                + radii.biases[i],
            )
        )
    return intervals


# --- exact fractions: `reference`, as this file's readers know it -----------------------------------------------------


def least_margins_exact(
    network: Network, x: np.ndarray, target: int, changes: PlausibleChanges
) -> dict[int | None, Fraction]:
    """For each rival the least margin over the box, in fractions."""
    return {rival: low for rival, (low, _) in least_margins(network, x, target, changes).items()}


def robust_exactly(margins: dict[int | None, Fraction], target: int) -> bool:
    """Whether these least margins keep the target, ties included."""
    return bool(robust({rival: (margin, margin) for rival, margin in margins.items()}, target))


def robust_linear_exactly(
    network: Network, x: np.ndarray, target: int, changes: PlausibleChanges
) -> bool:
    """Robustness of a model without hidden layer in any norm."""
    return robust(least_margins(network, x, target, changes), target) is True


# --- many changed networks at once, and the hunt ---------------------------------------------------------------------


class ChangedNetworks(NamedTuple):
    """Many networks of one shape: weights (n, out, in) and biases (n, out) for each layer."""

    weights: list[np.ndarray]
    biases: list[np.ndarray]
    activations: tuple[str, ...]

    def pick(self, i: int, classes: np.ndarray) -> Network:
        return Network(
            [w[i] for w in self.weights], [b[i] for b in self.biases], classes, self.activations
        )

    def logits(self, X: np.ndarray) -> np.ndarray:
        """(n, points, outputs)."""
        values = np.broadcast_to(X, (len(self.weights[0]), *X.shape))
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = values @ weight.transpose(0, 2, 1) + bias[:, None, :]
            if i < len(self.activations) and self.activations[i] == "relu":
                values = np.maximum(values, 0.0)
        return values

    def classify(self, X: np.ndarray) -> np.ndarray:
        """Class indices, (n, points)."""
        logits = self.logits(X)
        return (
            (logits[..., 0] >= 0).astype(int) if logits.shape[-1] == 1 else logits.argmax(axis=-1)
        )


def sample_changed(
    network: Network, changes: PlausibleChanges, n: int, rng: np.random.Generator, *, corners: bool
) -> ChangedNetworks:
    """`n` changed networks from the box: its corners, or its inside; a hair inside so that rounding cannot leave it."""
    assert changes.norm == math.inf
    radii = radii_of(network, changes)

    def moved(values: np.ndarray, radius: float) -> np.ndarray:
        shape = (n, *values.shape)
        steps = rng.integers(0, 2, shape) * 2.0 - 1.0 if corners else rng.uniform(-1.0, 1.0, shape)
        return values + radius * (1.0 - 1e-12) * steps

    return ChangedNetworks(
        [moved(w, r) for w, r in zip(network.weights, radii.weights, strict=True)],
        [moved(b, r) for b, r in zip(network.biases, radii.biases, strict=True)],
        network.activations,
    )


def adversarial_changed(
    network: Network,
    changes: PlausibleChanges,
    x: np.ndarray,
    target: int,
    *,
    restarts: int,
    steps: int,
    rng: np.random.Generator,
) -> Iterator[ChangedNetworks]:
    """Batches of changed networks that walk downhill on the margin of x; every batch lies inside the set of changes.

    Frank-Wolfe over the actual parameters: each step goes towards the point of the ball that the gradient likes best,
    so a convex combination of members of Δ, whatever the norm. Neurons that are off have no gradient; random signs
    there wake them up.
    """
    rivals = rivals_of(network, target)
    chosen = np.array([-1 if r is None else r for r in rivals])[
        rng.integers(0, len(rivals), restarts)
    ]
    shift = [np.zeros((restarts, *p.shape)) for p in (*network.weights, *network.biases)]
    layers = len(network.weights)
    origin = [*network.weights, *network.biases]
    for step in range(steps + 1):
        current = [p + s for p, s in zip(origin, shift, strict=True)]
        changed = ChangedNetworks(current[:layers], current[layers:], network.activations)
        yield changed
        gradients = _margin_gradients(changed, x, target, chosen)
        gradients = [
            g + rng.normal(0.0, 1e-3 if step else 1.0, g.shape) * _scale(g) for g in gradients
        ]
        best = _best_response(gradients, network, changes)
        rate = 1.0 if step % 4 < 2 else 2.0 / (step + 2.0)
        shift = [(1 - rate) * s + rate * b * (1.0 - 1e-9) for s, b in zip(shift, best, strict=True)]


def _scale(gradient: np.ndarray) -> np.ndarray:
    return np.abs(gradient).max(axis=tuple(range(1, gradient.ndim)), keepdims=True) + 1e-12


def _margin_gradients(
    changed: ChangedNetworks, x: np.ndarray, target: int, rivals: np.ndarray
) -> list[np.ndarray]:
    """Gradient of each network's margin with respect to its own parameters, weights first and then biases."""
    n, layers = len(rivals), len(changed.weights)
    values = [np.broadcast_to(x, (n, len(x)))]
    passed = [np.ones_like(values[0], dtype=bool)]
    for weight, bias, kind in zip(
        changed.weights[:-1], changed.biases[:-1], changed.activations, strict=True
    ):
        preactivation = np.einsum("noi,ni->no", weight, values[-1]) + bias
        passed.append((preactivation > 0) | (kind == "identity"))
        values.append(preactivation * passed[-1])
    outputs = changed.biases[-1].shape[1]
    back = np.zeros((n, outputs))
    if outputs == 1:
        back[:, 0] = 1.0 if target == 1 else -1.0
    else:
        back[:, target] = 1.0
        back[np.arange(n), rivals] = -1.0
    weight_gradients, bias_gradients = [], []
    for i in reversed(range(layers)):
        weight_gradients.append(back[:, :, None] * values[i][:, None, :])
        bias_gradients.append(back)
        if i:
            back = np.einsum("no,noi->ni", back, changed.weights[i]) * passed[i]
    return weight_gradients[::-1] + bias_gradients[::-1]


def _best_response(
    gradients: list[np.ndarray], network: Network, changes: PlausibleChanges
) -> list[np.ndarray]:
    """The point of the ball (around zero) that lowers <gradient, point> most, for each network of the batch."""
    layers = len(network.weights)
    radii = radii_of(network, changes)
    if not changes.biases:
        gradients = gradients[:layers] + [np.zeros_like(g) for g in gradients[layers:]]
    flat = [g.reshape(len(g), -1) for g in gradients]
    if changes.norm == math.inf:
        each = [*radii.weights, *radii.biases]
        return [-radius * np.sign(g) for g, radius in zip(gradients, each, strict=True)]
    groups = (
        [([i, layers + i], radii.weights[i]) for i in range(layers)]
        if isinstance(changes.delta, tuple)
        else [(list(range(2 * layers)), radii.weights[0])]
    )
    answer: list[np.ndarray] = [np.empty(0)] * (2 * layers)
    for members, radius in groups:
        whole = np.hstack([flat[i] for i in members])
        if changes.norm > 1.0:
            # Where Hölder's inequality is an equality; in units of the largest entry, so that no power overflows.
            ratio = np.abs(whole) / (np.abs(whole).max(axis=1, keepdims=True) + 1e-300)
            size = ratio ** (1.0 / (changes.norm - 1.0))
            length = (size**changes.norm).sum(axis=1, keepdims=True) ** (1.0 / changes.norm)
            best = -radius * np.sign(whole) * size / (length + 1e-300)
        else:
            best = np.zeros_like(whole)
            rows, columns = np.arange(len(whole)), np.abs(whole).argmax(axis=1)
            best[rows, columns] = -radius * np.sign(whole[rows, columns])
        parts = np.split(best, np.cumsum([flat[i].shape[1] for i in members])[:-1], axis=1)
        for i, part in zip(members, parts, strict=True):
            answer[i] = part.reshape(gradients[i].shape)
    return answer


def search_counter_model(
    network: Network,
    changes: PlausibleChanges,
    x: np.ndarray,
    target: int,
    *,
    restarts: int = 32,
    steps: int = 12,
    seed: int = 0,
) -> tuple[Network | None, int]:
    """A changed network that takes the target away from x, or None; and how many changed networks were tried."""
    rng = np.random.default_rng(seed)
    tried = 0
    for changed in adversarial_changed(
        network, changes, x, target, restarts=restarts, steps=steps, rng=rng
    ):
        tried += restarts
        broken = changed.classify(x[None, :])[:, 0] != target
        for i in np.flatnonzero(broken):
            counter_model = changed.pick(int(i), network.classes)
            if exact_class(counter_model, x) != target and inside_exactly(
                network, changes, counter_model
            ):
                return counter_model, tried
    return None, tried
