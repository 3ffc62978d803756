"""Gaussian kernels whose mean and covariance are only roughly known: the greatest and the least likelihood of a point.

Around a sample s the kernel is N(s, σ² I) in p dimensions. Within reach of it are all N(m, S²) with S ⪰ σ I and

    |m - s|² + |S - σ I|_F²  <=  ε²,

the Wasserstein distance of Gaussians whose covariances commute. The extremes put one axis of S on the line from s to
the point, so that they depend on the distance c between the two alone. With log N up to its constant -p/2 log 2π:

    greatest(c) = max  -log(σ + a) - (c - b)² / (2 (σ + a)²) - (p - 1) log σ             over a² + b² <= ε²,
    least(c)    = min  -log(σ + a) - (c + b)² / (2 (σ + a)²) - (p - 1) log(σ + r)        over a² + b² + (p - 1) r² <= ε²

with a, b, r >= 0: b moves the mean along the line, a widens the kernel along it and r in all other directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from holdfast._network import Bools, Floats, Pair

# The inner problems have one or two angles: a grid over them, then ever finer grids around the best.
_GRID = 17
_ZOOMS = 8
_KNOTS = 257


class Extreme(NamedTuple):
    """A log-likelihood at some distances, and its slope there: by the envelope theorem that at the best b and a."""

    value: Floats
    slope: Floats


def greatest(distance: Floats, sigma: float, epsilon: float, dimension: int) -> Extreme:
    """The greatest log-likelihood of points at these distances from a kernel's sample.

    Examples
    --------
    >>> greatest(np.array([1.0, 2.0]), 1.0, 0.0, 3).value
    array([-0.5, -2. ])
    """

    def negative(angle: Floats, _: Floats) -> Floats:
        wider = sigma + epsilon * np.sin(angle)
        return np.log(wider) + 0.5 * ((distance[:, None] - epsilon * np.cos(angle)) / wider) ** 2

    angle, _ = _least_angles(negative, distance.size, one=True)
    # A mean that can reach the point is put there, and nothing is gained by a wider kernel.
    reached = distance <= epsilon
    mean = np.where(reached, distance, epsilon * np.cos(angle))
    wider = np.where(reached, sigma, sigma + epsilon * np.sin(angle))
    z = (distance - mean) / wider
    return Extreme(-np.log(wider) - 0.5 * z**2 - (dimension - 1) * np.log(sigma), -z / wider)


def least(distance: Floats, sigma: float, epsilon: float, dimension: int) -> Extreme:
    """The least log-likelihood of points at these distances from a kernel's sample.

    Examples
    --------
    >>> least(np.array([1.0, 2.0]), 1.0, 0.0, 3).value
    array([-0.5, -2. ])
    """
    others = dimension - 1

    def likelihood(first: Floats, second: Floats) -> Pair:
        on_the_line = epsilon * np.sin(first) if others else epsilon
        wider = sigma + on_the_line * np.sin(second)
        z = (distance[:, None] + on_the_line * np.cos(second)) / wider
        across = sigma + epsilon * np.cos(first) / np.sqrt(max(others, 1))
        return -np.log(wider) - 0.5 * z**2 - others * np.log(across), -z / wider

    first, second = _least_angles(
        lambda *angles: likelihood(*angles)[0], distance.size, one=not others
    )
    value, slope = likelihood(first[:, None], second[:, None])
    return Extreme(value[:, 0], slope[:, 0])


def _least_angles(value: Callable[[Floats, Floats], Floats], n: int, *, one: bool) -> Pair:
    """For each of n problems the angles in [0, π/2] at which the value is least; with `one` both are the same."""
    steps = np.linspace(-0.5, 0.5, _GRID)
    offsets = np.stack(
        [steps, steps] if one else [axis.ravel() for axis in np.meshgrid(steps, steps)]
    )
    centre = np.full((2, n), np.pi / 4)
    width = np.pi / 2
    for _ in range(_ZOOMS):
        tried = np.clip(centre[:, :, None] + width * offsets[:, None, :], 0.0, np.pi / 2)
        best = value(tried[0], tried[1]).argmin(axis=1)
        centre = np.take_along_axis(tried, np.broadcast_to(best[None, :, None], (2, n, 1)), axis=2)[
            :, :, 0
        ]
        width *= 4.0 / (_GRID - 1)
    return centre[0], centre[1]


@dataclass(frozen=True)
class Odds:
    """The worst posterior odds against a point: unfavourable kernels at their greatest, favourable ones at their least.

    Parameters
    ----------
    unfavourable, favourable
        The two extremes as functions of the distance, tabulated once: they are needed for every pair of a point and a
        sample, in every step.
    """

    unfavourable: CubicHermiteSpline
    favourable: CubicHermiteSpline

    @classmethod
    def of(cls, sigma: float, epsilon: tuple[float, float], dimension: int, reach: float) -> Odds:
        """For kernels of width sigma and distances up to `reach`; epsilon of the unfavourable and of the favourable."""
        # Closer together where distances are small: that is where the kernels weigh.
        knots = reach * np.linspace(0.0, 1.0, _KNOTS) ** 2
        return cls(
            CubicHermiteSpline(knots, *greatest(knots, sigma, epsilon[0], dimension)),
            CubicHermiteSpline(knots, *least(knots, sigma, epsilon[1], dimension)),
        )

    def log_odds(self, distance: Floats, favourable: Bools) -> Pair:
        """log of sum greatest / sum least for each row, and its slope in each distance; (n, m) distances and marks.

        The shares of the two classes among the samples are their prior, which cancels with the kernels' weights.
        """
        against, slope_against = _log_sum(self.unfavourable, distance, ~favourable)
        in_favour, slope_in_favour = _log_sum(self.favourable, distance, favourable)
        return against - in_favour, slope_against - slope_in_favour


def _log_sum(kernel: CubicHermiteSpline, distance: Floats, counted: Bools) -> Pair:
    value = np.where(counted, kernel(distance), -np.inf)
    top = value.max(axis=1, keepdims=True)
    share = np.exp(value - top)
    total = share.sum(axis=1, keepdims=True)
    return (top + np.log(total))[:, 0], share / total * kernel(distance, 1)
