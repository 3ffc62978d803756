"""An ellipsoid of parameters around a linear model.

    { θ' : (θ' - θ)ᵀ H (θ' - θ) <= radius² },    worst margin at x:  θᵀg - radius sqrt(gᵀ H⁻¹ g),  g = (x, 1)

With H the curvature of the loss at today's fit, refits of a regression on similar rows spread like this ellipsoid.
They spread unevenly, so an ellipsoid that contains a given share of them is much smaller than a box.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from holdfast._given import given_floats
from holdfast._network import Floats, Network
from holdfast._numbers import at_most
from holdfast.changes._kind import Chance, Changes, Inside, Interval
from holdfast.changes._parameters import check_alike, flat, rebuilt, whole_numbers
from holdfast.errors import InvalidInputError
from holdfast.importers import load_model

# A share of its diagonal that keeps the curvature positive definite where rows leave a direction open; and what stands
# for a diagonal of which nothing is left.
_RIDGE, _LEAST = 1e-9, 1e-200
_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False, repr=False)
class Ellipsoid(Changes):
    """Every linear model whose parameters lie in an ellipsoid around today's.

    Parameters
    ----------
    shape
        The matrix H, symmetric and positive definite, with a row and a column for each parameter: the weights,
        output by output, then the biases. Take the inverse of a covariance of refitted parameters, or use
        `Ellipsoid.of`.
    radius
        The radius, in the norm of H.
    chance
        The measured chance of broken promises; `risk_calibrated` fills it in.
    threshold
        The range of probabilities within which the decision threshold may move, such as ``(0.6, 0.8)``. The proof
        then also covers a change of policy. None keeps the threshold.
    inside
        The probability that the next retraining lies in Δ; `delta_calibrated` fills it in.

    Examples
    --------
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> Ellipsoid(np.diag([1.0, 4.0, 4.0]), 0.5).contains(net, Network([[[-0.5, 1.0]]], [[0.0]]))
    True
    """

    kind: ClassVar[str] = "ellipsoid"
    unit: ClassVar[str] = "radius"

    shape: Floats
    radius: float
    chance: Chance | None = None
    threshold: Interval | None = None
    inside: Inside | None = None

    def __post_init__(self) -> None:
        given = np.array(given_floats(self.shape, "shape"))
        if given.ndim != 2 or given.shape[0] != given.shape[1] or not given.size:
            raise InvalidInputError(f"shape: expected a square matrix, got shape {given.shape}")
        # What is symmetric stays as it is, to the last bit.
        shape = np.where(given == given.T, given, 0.5 * given + 0.5 * given.T)
        if not np.isfinite(shape).all():
            raise InvalidInputError(
                f"shape: expected finite numbers, got {shape[~np.isfinite(shape)][0]}"
            )
        sizes = np.sqrt(np.abs(np.diag(shape)))
        off = np.abs(given / 2.0 - given.T / 2.0)
        if (off > 1e-9 * sizes[:, None] * sizes).any():
            raise InvalidInputError(
                f"shape: expected a symmetric matrix; this one differs from its transpose by {2.0 * off.max():.3g}"
            )
        shape.setflags(write=False)
        vars(self)["shape"] = shape
        super().__post_init__()
        if not ((np.diag(shape) > 0.0).all() and self.least_eigenvalue > 0.0):
            ends = np.linalg.eigvalsh(shape)
            raise InvalidInputError(
                "shape: expected a positive definite matrix, got eigenvalues from "
                f"{ends[0]:.3g} to {ends[-1]:.3g}. A covariance of fewer refits than parameters is singular: use "
                "Ellipsoid.of(model, X) instead"
            )

    @classmethod
    def of(cls, model: object, X: Any, radius: float = 1.0, *, space: Any = None) -> Self:
        """Build the ellipsoid whose shape is the curvature of the logistic loss, summed over the rows of a table.

        Parameters
        ----------
        model
            A linear model: a logistic regression of scikit-learn, a pipeline that ends in one, or a `Network`
            without hidden layers.
        X
            The rows that the model was fitted on, or similar rows.
        radius
            The radius; 1 is about one standard deviation of refits on as many other rows. `risk_calibrated` finds
            the radius for a stated share of broken promises.
        space
            The feature space that encodes the table, for a model without its own preprocessing.
        """
        loaded = load_model(model)
        network = loaded.network
        _check_linear(network)
        points = loaded.variables(X) if space is None else network.check_points(space.encode(X))
        if not len(points):
            raise InvalidInputError("X: expected at least one row, got an empty table")
        logits = network.logits(points)
        logits = np.hstack([np.zeros_like(logits), logits]) if network.n_outputs == 1 else logits
        shares = softmax(logits, axis=1)[:, -network.n_outputs :]
        rows = np.hstack([points, np.ones((len(points), 1))])
        outputs = range(network.n_outputs)
        blocks = [
            [(rows * (shares[:, a] * ((a == b) - shares[:, b]))[:, None]).T @ rows for b in outputs]
            for a in outputs
        ]
        # From (x, 1) for each output to all weights, then all biases.
        places = np.arange(len(outputs) * rows.shape[1]).reshape(len(outputs), -1)
        order = np.append(places[:, :-1], places[:, -1])
        shape = np.block(blocks)[np.ix_(order, order)]
        own = np.diag(shape)
        return cls(shape + np.diag(_RIDGE * np.where(own > 0.0, own, own.mean() + _LEAST)), radius)

    @cached_property
    def exponents(self) -> NDArray[np.intc]:
        """Powers of two for rows and columns that scale the diagonal of H to between 1/2 and 2."""
        return -(np.frexp(np.diag(self.shape))[1] // 2)

    @cached_property
    def balanced(self) -> Floats:
        """H with its rows and columns times these powers, so that the units of the columns matter little."""
        return np.asarray(np.ldexp(self.shape, self.exponents[:, None] + self.exponents))

    @cached_property
    def least_eigenvalue(self) -> float:
        """A lower bound c of the least eigenvalue of the balanced H, proven by a factorisation of H - c I.

        If a Cholesky factorisation of an n x n matrix A in floats succeeds, every eigenvalue of A is at least -(n +
        2) units of rounding times its trace (Rump 2006).
        """
        n = len(self.shape)
        guess = float(np.linalg.eigvalsh(self.balanced)[0]) / 2.0
        try:
            np.linalg.cholesky(self.balanced - guess * np.eye(n))
        except np.linalg.LinAlgError:
            return 0.0
        return guess - 4.0 * (n + 4) * _UNIT * n * (2.0 + abs(guess))

    def in_words(self, number: Callable[[float], str] = at_most) -> str:
        """The radius and the threshold range, in words."""
        return f"radius = {number(self.radius)} in the shape of an ellipsoid{self.policy}"

    @property
    def every_model(self) -> str:
        """The models inside the ellipsoid, as the subject of a sentence."""
        return f"every model whose parameters lie around today's within {self.words}"

    def contains(self, today: Network, other: Network) -> bool:
        """Whether `other` is in the ellipsoid around `today`, in exact arithmetic."""
        return self._square_between(today, other) <= Fraction(self.radius) ** 2

    def distance(self, today: object, other: object) -> float:
        """The least radius at which `other` is inside. Rank refits by it to choose a radius.

        Examples
        --------
        >>> refits = [Network([[[-1.0, 1.0 + 0.1 * i]]], [[0.0]]) for i in range(1, 10)]
        >>> shape = Ellipsoid(np.diag([1.0, 4.0, 4.0]), 1.0)
        >>> [round(shape.distance(Network([[[-1.0, 1.0]]], [[0.0]]), refit), 3) for refit in refits[:3]]
        [0.2, 0.4, 0.6]
        """
        square = self._square_between(load_model(today).network, load_model(other).network)
        length = math.sqrt(square)
        return length if Fraction(length) ** 2 >= square else math.nextafter(length, math.inf)

    def _square_between(self, today: Network, other: Network) -> Fraction:
        self.check(today)
        check_alike(today, other)
        (ours, theirs), power = whole_numbers(np.array([flat(today), flat(other)]))
        return self.square(theirs - ours, power)

    def square(self, step: NDArray[np.object_], power: int) -> Fraction:
        """The exact value of  sᵀ H s  for a step in whole numbers times a power of two."""
        shape, own = whole_numbers(self.shape)
        return Fraction(step @ shape @ step) * Fraction(2) ** (own + 2 * power)

    def check(self, network: Network) -> None:
        """Raise unless the model is linear and has one parameter for each row of H."""
        _check_linear(network)
        if network.n_parameters != len(self.shape):
            raise InvalidInputError(
                f"shape: expected a row for each of the model's {network.n_parameters} parameters, "
                f"weights and biases, got {len(self.shape)}"
            )

    def sample(
        self, network: Network, n: int, seed: int | np.random.Generator | None = None
    ) -> list[Network]:
        """Draw `n` networks uniformly from the ellipsoid; each is inside it up to rounding."""
        self.check(network)
        rng = np.random.default_rng(seed)
        size = len(self.shape)
        factor = np.linalg.cholesky(self.shape)
        directions = rng.normal(size=(n, size))
        lengths = self.radius * rng.uniform(size=(n, 1)) ** (1.0 / size) * (1.0 - 1e-12)
        steps = np.linalg.solve(
            factor.T, (lengths * directions / np.linalg.norm(directions, axis=1)[:, None]).T
        ).T
        return [self.moved(network, step) for step in steps]

    @staticmethod
    def moved(network: Network, step: Floats) -> Network:
        """The network with its parameters, weights and then biases, moved by `step`."""
        return rebuilt(network, flat(network) + step)


def _check_linear(network: object) -> None:
    if getattr(network, "hidden", None) != ():
        raise InvalidInputError(
            f"Ellipsoid: expected a linear model such as a logistic regression, got {network!r:.80}"
        )
