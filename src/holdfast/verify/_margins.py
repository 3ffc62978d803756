"""The margin at a point, in logits: the target class minus its strongest rival, and its gradient."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from holdfast._classifier import Classifier
from holdfast._network import Floats, Ints, Network, Pair


def least_margins(network: Classifier, targets: ArrayLike, points: Floats) -> Floats:
    """The margin of each row, (n,): its target's logit minus its strongest rival's.

    `targets` is one class for all rows, or one a row.

    Examples
    --------
    >>> net = Network([[[1.0], [0.0], [-1.0]]], [[0.0, 0.0, 0.0]])
    >>> least_margins(net, 0, np.array([[0.5], [2.0]])), least_margins(net, [0, 2], np.array([[0.5], [2.0]]))
    (array([0.5, 2. ]), array([ 0.5, -4. ]))
    """
    return _rivals(network, targets, points)[0]


def margin_slopes(network: Network, targets: ArrayLike, points: Floats) -> Pair:
    """The margins, (n,), and their gradients with respect to the points, (n, d)."""
    values, rivals = _rivals(network, targets, points)
    if network.n_outputs == 1:
        signs = np.where(np.asarray(targets) == 1, 1.0, -1.0)
        return values, network.input_gradient(points) * signs.reshape(-1, 1)
    return values, network.input_gradient(points, targets, minus=rivals)


def rounding_of_margins(network: Network, points: Floats) -> Floats:
    """A bound of how much the order of sums changes a margin, as in a table of another length, (n,)."""
    sizes, terms = np.abs(points), 2
    for weight, bias in zip(network.weights, network.biases, strict=True):
        sizes = sizes @ np.abs(weight).T + np.abs(bias)
        terms = terms + weight.shape[1] + 1
    return np.asarray(2.0 * terms * np.finfo(np.float64).eps * sizes.max(axis=1))


def _rivals(network: Classifier, targets: ArrayLike, points: Floats) -> tuple[Floats, Ints]:
    logits, wanted = network.logits(points), np.asarray(targets, dtype=np.intp)
    if network.n_outputs == 1:
        return np.where(wanted == 1, logits[:, 0], -logits[:, 0]), 1 - wanted
    rows = np.arange(len(points))
    own = logits[rows, wanted]
    logits[rows, wanted] = -np.inf
    rivals = logits.argmax(axis=1)
    return own - logits[rows, rivals], rivals
