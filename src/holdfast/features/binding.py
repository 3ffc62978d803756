"""Rules bound to the columns of a space: which feature has which coefficient, and whether a row obeys.

    sum of coefficient_i * number_i <= bound

Whether a rule holds is decided in exact arithmetic on the float64 values as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidInputError
from holdfast.features.feature import Feature
from holdfast.features.rules import Rule
from holdfast.network import Floats


class RuleTerms:
    """A rule bound to the columns of a space: which feature has which coefficient. The sum has to be <= bound."""

    def __init__(self, rule: Rule, features: Sequence[Feature]) -> None:
        positions = {str(feature.name): i for i, feature in enumerate(features)}
        normal = rule.normal
        for name in rule.names:
            if name not in positions:
                raise InvalidInputError(f"rule {rule.text!r}: expected columns of the table, got {name!r}")
            feature = features[positions[name]]
            if not feature.numeric:
                raise InvalidInputError(f"rule {rule.text!r}: expected numeric columns, got {feature.kind} {name!r}")
        self.rule = rule
        self.columns = [positions[name] for name in rule.names]
        self.exact = [coefficient for _, coefficient in normal.terms]
        self.coefficients = np.array([float(c) for c in self.exact])
        self.bound = float(-normal.constant)
        self._exact_bound = -normal.constant
        self._whole = all(c.denominator == 1 for c in (*self.exact, self._exact_bound))
        # The sign of a single float subtraction is exact: "a <= b", "a >= 0.3".
        addends = len(self.exact) + (self._exact_bound != 0)
        self._subtraction = addends <= 2 and all(abs(c) == 1 for c in self.exact)
        self._subtraction &= Fraction(self.bound) == self._exact_bound

    def excess(self, numbers: Floats) -> Floats:
        """How far each row is beyond the rule, up to rounding; <= 0 where it holds."""
        return np.asarray(numbers[:, self.columns] @ self.coefficients - self.bound)

    def holds(self, numbers: Floats) -> NDArray[np.bool_]:
        """Whether each row obeys the rule, in exact arithmetic."""
        values = numbers[:, self.columns]
        products = values * self.coefficients
        excess = products.sum(axis=1) - self.bound
        size = np.abs(products).sum(axis=1) + abs(self.bound)
        # Of what is missing nobody can say that it breaks a rule.
        result = (excess <= 0.0) | np.isnan(excess)
        if self._subtraction:
            return np.asarray(result)
        close = np.abs(excess) <= 1e-15 * (2 + len(self.columns)) * size
        if self._whole:
            close &= ~((size < 2.0**53) & (np.rint(values) == values).all(axis=1))
        for row in np.flatnonzero(close):
            total = sum((c * Fraction(float(v)) for c, v in zip(self.exact, values[row], strict=True)), Fraction(0))
            result[row] = total <= self._exact_bound
        return np.asarray(result)


def bind_rules(rules: Iterable[Rule], features: Sequence[Feature]) -> tuple[RuleTerms, ...]:
    """The rules bound to the columns; refuses those that no point in the ranges can obey."""
    bound = tuple(RuleTerms(rule, features) for rule in rules)
    lower = np.array([feature.lower for feature in features])
    upper = np.array([feature.upper for feature in features])
    # Each rule narrows the ranges for the others; contradictions that need many rounds to show are left to the search.
    for _ in range(50 if bound else 0):
        before = (lower.copy(), upper.copy())
        for terms in bound:
            _narrow(terms, lower, upper)
        if np.array_equal(before[0], lower) and np.array_equal(before[1], upper):
            break
    return bound


def _narrow(terms: RuleTerms, lower: Floats, upper: Floats) -> None:
    """Shrink the ranges to what the rule leaves possible: a_i x_i <= bound - sum of the least other terms."""
    coefficients = terms.coefficients
    low, high = lower[terms.columns], upper[terms.columns]
    least = np.where(coefficients > 0, coefficients * low, coefficients * high)
    tolerance = 1e-9 * (1.0 + np.abs(least[np.isfinite(least)]).sum() + abs(terms.bound))
    if least.sum() > terms.bound + tolerance:
        ranges = ", ".join(f"{name} in [{a:g}, {b:g}]" for name, a, b in zip(terms.rule.names, low, high, strict=True))
        raise InvalidInputError(f"rule {terms.rule.text!r}: expected a rule that some row can obey, got {ranges}")
    for i, column in enumerate(terms.columns):
        others = np.delete(least, i).sum()
        if not np.isfinite(others):
            continue
        limit = (terms.bound - others) / coefficients[i]
        if coefficients[i] > 0:
            upper[column] = max(min(upper[column], limit), lower[column])
        else:
            lower[column] = min(max(lower[column], limit), upper[column])
