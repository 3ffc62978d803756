"""Linear rules between columns, in the caller's units: "months_in_job <= months_of_history", "a + 2*b <= 10".

    side, "<=" or ">=", side;   a side is made of numbers, column names, + - * / and parentheses, and is linear

A name that is not a plain word goes in backticks: "`capital-gain` <= 5000". The text is parsed here and never run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from holdfast.errors import InvalidInputError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|`(?P<quoted>[^`]+)`|(?P<name>[^\W\d]\w*)"
    r"|(?P<sign><=|>=|==|<|>|=|[-+*/()]))"
)
_DEEPEST = 50


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
        """Read a rule, or raise an error that says where it stops making sense."""
        return _Parser(text).rule()

    @property
    def normal(self) -> Linear:
        """The form that has to be <= 0."""
        difference = self.left.plus(self.right, Fraction(-1))
        return difference if self.at_most else difference.times(Fraction(-1))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns it is about."""
        return tuple(name for name, _ in self.normal.terms)

    def explain(self, row: Mapping[str, float]) -> str:
        """Why a row breaks it."""
        left, right = (_short(side.value(row)) for side in (self.left, self.right))
        return f"{self.text}: {left} {'>' if self.at_most else '<'} {right}"


def _short(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else repr(float(value))


class _Parser:
    """Recursive descent: side (<= | >=) side;  side = term {+- term};  term = factor {*/ factor}."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise InvalidInputError(f"expected a rule as text, got {text!r}")
        self.text, self.position, self.depth = text.strip(), 0, 0

    def fail(self, expected: str) -> InvalidInputError:
        rest = self.text[self.position :] or "the end"
        return InvalidInputError(f"rule {self.text!r}: expected {expected}, got {rest!r}")

    def peek(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.position)
        if match is None or match.lastgroup is None:
            return "", ""
        return match.lastgroup, match[match.lastgroup]

    def take(self) -> tuple[str, str]:
        token = self.peek()
        match = _TOKEN.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return token

    def rule(self) -> Rule:
        left = self.side()
        if self.peek()[1] not in ("<=", ">="):
            raise self.fail("<= or >=")
        sense = self.take()[1]
        right = self.side()
        if self.text[self.position :].strip():
            raise self.fail("one rule with a single <= or >=")
        rule = Rule(self.text, left, right, sense == "<=")
        if not rule.names:
            raise InvalidInputError(f"rule {self.text!r}: expected a rule about at least one column, got none")
        return rule

    def side(self) -> Linear:
        total = self.term()
        while self.peek()[1] in ("+", "-"):
            factor = Fraction(1 if self.take()[1] == "+" else -1)
            total = total.plus(self.term(), factor)
        return total

    def term(self) -> Linear:
        product = self.factor()
        while self.peek()[1] in ("*", "/"):
            divides = self.peek()[1] == "/"
            here = self.position
            self.take()
            other = self.factor()
            if other.terms and (divides or product.terms):
                self.position = here
                raise self.fail("a linear rule")
            if divides and other.constant == 0:
                raise self.fail("a divisor that is not 0")
            if divides:
                product = product.times(1 / other.constant)
            elif other.terms:
                product = other.times(product.constant)
            else:
                product = product.times(other.constant)
        return product

    def factor(self) -> Linear:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.fail(f"at most {_DEEPEST} signs and parentheses inside each other")
        result = self.signed()
        self.depth -= 1
        return result

    def signed(self) -> Linear:
        group, token = self.peek()
        if group == "sign" and token in ("+", "-"):
            self.take()
            return self.factor().times(Fraction(1 if token == "+" else -1))
        if token == "(":
            self.take()
            inside = self.side()
            if self.take()[1] != ")":
                raise self.fail("a closing parenthesis")
            return inside
        if group not in ("number", "name", "quoted"):
            raise self.fail("a number or a column")
        self.take()
        if group == "number":
            return Linear(constant=Fraction(float(token)))
        return Linear(terms=((token, Fraction(1)),))
