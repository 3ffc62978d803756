"""Linear rules between columns, in the caller's units: "months_in_job <= months_of_history", "a + 2*b <= 10".

    side, "<=" or ">=", side;   a side is made of numbers, column names, + - * / and parentheses, and is linear

A name that is not a plain word goes in backticks: "`capital-gain` <= 5000". The text is parsed and never run. Whether a
row obeys is decided in exact arithmetic on the float64 values as they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

from holdfast._network import Bools, Floats
from holdfast.errors import InvalidInputError
from holdfast.features._feature import Feature

_NAME = re.compile(r"`([^`]+)`|(?<!\w)([^\W\d]\w*)")
# What `scipy.optimize.linprog` says where no point obeys.
_INFEASIBLE = 2
_NESTED = re.compile(r"([-+(]\s*){50}")


@dataclass(frozen=True)
class Linear:
    """constant + sum of coefficient * column, with exact coefficients."""

    terms: tuple[tuple[str, Fraction], ...] = ()
    constant: Fraction = Fraction(0)

    def plus(self, other: Linear, factor: Fraction = Fraction(1)) -> Linear:
        """self + factor * other."""
        terms = dict(self.terms)
        for name, coefficient in other.terms:
            terms[name] = terms.get(name, Fraction(0)) + factor * coefficient
        kept = tuple((name, coefficient) for name, coefficient in terms.items() if coefficient != 0)
        return Linear(kept, self.constant + factor * other.constant)

    def times(self, factor: Fraction) -> Linear:
        """factor * self."""
        return Linear().plus(self, factor)

    def value(self, row: Mapping[str, float]) -> Fraction:
        """Its exact value for one row."""
        return sum((c * Fraction(row[name]) for name, c in self.terms), self.constant)


@dataclass(frozen=True)
class Rule:
    """left <= right (or >=), as written in `text`.

    Examples
    --------
    >>> rule = Rule.parse("months_in_job <= months_of_history")
    >>> rule.names
    ('months_in_job', 'months_of_history')
    >>> rule.explain({"months_in_job": 50.0, "months_of_history": 36.0})
    'months_in_job <= months_of_history: 50 > 36'
    """

    text: str
    left: Linear
    right: Linear
    at_most: bool

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read a rule, or raise an error that names the fault."""
        if not isinstance(text, str):
            raise InvalidInputError(f"expected a rule as text, got {text!r}")
        text, columns = text.strip(), []

        def place(name: re.Match[str]) -> str:
            columns.append(name[1] or name[2])
            return f"_{len(columns) - 1}"

        try:
            if _NESTED.search(text):
                raise ValueError("at most 50 signs and parentheses inside each other")
            match ast.parse(" ".join(_NAME.sub(place, text).split()), mode="eval").body:
                case ast.Compare(
                    left=left, ops=[ast.LtE() | ast.GtE() as sense], comparators=[right]
                ):
                    sides = _linear(left, columns), _linear(right, columns)
                case _:
                    raise ValueError("one <= or >= between two sides")
        except (ValueError, ArithmeticError, SyntaxError, RecursionError, MemoryError) as error:
            expected = (
                error if isinstance(error, ValueError) else "a linear rule, such as 'a + 2*b <= 10'"
            )
            raise InvalidInputError(f"rule: expected {expected}, got {text!r}") from error
        rule = cls(text, *sides, isinstance(sense, ast.LtE))
        if not rule.names:
            raise InvalidInputError(
                f"rule {text!r}: expected a rule about at least one column, got none"
            )
        return rule

    @property
    def normal(self) -> Linear:
        """The linear form that is <= 0 where the rule is obeyed."""
        difference = self.left.plus(self.right, Fraction(-1))
        return difference if self.at_most else difference.times(Fraction(-1))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the rule."""
        return tuple(name for name, _ in self.normal.terms)

    def explain(self, row: Mapping[str, float]) -> str:
        """The values of a row that break the rule."""
        values = (side.value(row) for side in (self.left, self.right))
        left, right = (str(v.numerator) if v.denominator == 1 else repr(float(v)) for v in values)
        return f"{self.text}: {left} {'>' if self.at_most else '<'} {right}"


def parse_rules(rules: Iterable[str | Rule] | str) -> tuple[Rule, ...]:
    """One rule or several, as text or parsed."""
    listed = [rules] if isinstance(rules, str | Rule) else list(rules)
    return tuple(rule if isinstance(rule, Rule) else Rule.parse(rule) for rule in listed)


def _linear(node: ast.expr, columns: Sequence[str]) -> Linear:
    """One side of a rule; `columns` are the names that the placeholders _0, _1, ... stand for."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return Linear(constant=Fraction(float(number)))
        case ast.Name(id=name):
            return Linear(((columns[int(name[1:])], Fraction(1)),))
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=inner):
            return _linear(inner, columns).times(Fraction(-1 if isinstance(sign, ast.USub) else 1))
        case ast.BinOp(left=left, op=operation, right=right):
            one = _linear(left, columns)
            other = _linear(right, columns)
            match operation:
                case ast.Add() | ast.Sub():
                    return one.plus(other, Fraction(-1 if isinstance(operation, ast.Sub) else 1))
                case ast.Mult() if not (one.terms and other.terms):
                    return other.times(one.constant) if other.terms else one.times(other.constant)
                case ast.Div() if not other.terms:
                    return one.times(1 / other.constant)
    raise ValueError("numbers, columns, + - * / and parentheses, and no product of columns")


class RuleTerms:
    """A rule bound to the columns of a space: which feature has which coefficient. The sum has to be <= bound."""

    def __init__(self, rule: Rule, features: Sequence[Feature]) -> None:
        positions = {str(feature.name): i for i, feature in enumerate(features)}
        normal = rule.normal
        for name in rule.names:
            if name not in positions:
                raise InvalidInputError(
                    f"rule {rule.text!r}: the table has no column {name!r}; it has {list(positions)}"
                )
            feature = features[positions[name]]
            if not feature.numeric:
                raise InvalidInputError(
                    f"rule {rule.text!r}: expected numeric columns, got {feature.kind} {name!r}"
                )
        self.rule = rule
        self.columns = [positions[name] for name in rule.names]
        self.exact = [coefficient for _, coefficient in normal.terms]
        self.coefficients = np.array([float(c) for c in self.exact])
        self.bound = float(-normal.constant)
        self._exact_bound = -normal.constant
        # The sign of a single float subtraction is exact: "a <= b", "a >= 0.3".
        addends = len(self.exact) + (self._exact_bound != 0)
        self._subtraction = addends <= 2 and all(abs(c) == 1 for c in self.exact)
        self._subtraction &= Fraction(self.bound) == self._exact_bound

    def excess(self, numbers: Floats) -> Floats:
        """How far each row is beyond the rule, up to rounding; <= 0 where it holds."""
        return np.asarray(numbers[:, self.columns] @ self.coefficients - self.bound)

    def holds(self, numbers: Floats) -> Bools:
        """Whether each row obeys the rule, in exact arithmetic."""
        values = numbers[:, self.columns]
        products = values * self.coefficients
        excess = products.sum(axis=1) - self.bound
        # Of what is missing nobody can say that it breaks a rule.
        result = np.asarray((excess <= 0.0) | np.isnan(excess))
        if not self._subtraction:
            size = np.abs(products).sum(axis=1) + abs(self.bound)
            for row in np.flatnonzero(np.abs(excess) <= 1e-15 * (2 + len(self.columns)) * size):
                total = sum(
                    (c * Fraction(float(v)) for c, v in zip(self.exact, values[row], strict=True)),
                    Fraction(0),
                )
                result[row] = total <= self._exact_bound
        return result


def bind_rules(rules: Sequence[Rule], features: Sequence[Feature]) -> tuple[RuleTerms, ...]:
    """The rules bound to the columns; refuses those that no point in the ranges can obey."""
    if not rules:
        return ()
    bound = tuple(RuleTerms(rule, features) for rule in rules)
    ranges = [(feature.lower, feature.upper) for feature in features]
    matrix = np.zeros((len(bound), len(features)))
    bounds = np.empty(len(bound))
    for i, terms in enumerate(bound):
        matrix[i, terms.columns] = terms.coefficients
        # Rounding must not refuse a rule that only just can be obeyed.
        ends = np.array([ranges[column] for column in terms.columns])
        size = np.abs(np.where(np.isfinite(ends), ends, 0.0)).max(axis=1) @ np.abs(
            terms.coefficients
        )
        bounds[i] = terms.bound + 1e-9 * (1.0 + size + abs(terms.bound))
    if linprog(np.zeros(len(features)), matrix, bounds, bounds=ranges).status == _INFEASIBLE:
        texts = [rule.text for rule in rules]
        raise InvalidInputError(
            f"rules: within the ranges no row obeys all of {texts}; change a rule or a range"
        )
    return bound
