"""What is true of a point under Δ, without rounding. `Network` and `PlausibleChanges` are read as data; no other code
is shared.

Every float64 is an integer times a power of two, so a layer is scaled to integers and all arithmetic is exact:

    least_margins     the least margin over Δ: for a box of any shape, at any depth; for a ball without hidden layers
    least_logit       the same for one logit, or for its negative
    exact_class       the class that a network gives a point
    inside            whether a network lies in Δ

In the box a neuron reaches exactly the preactivations between L(v) and U(v), v the layer before. Of a ReLU the values
above relu(L) form a convex set and those below relu(U) do not, once U changes its sign; of an identity layer the sign
of v says which end of the next weights is the worst. Those are the only choices: for each of them the rest is a linear
program, solved by the dual simplex method on integers.

Targets are class *indices* here. A number that may be irrational is a pair of fractions around it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from holdfast import Network, PlausibleChanges

Enclosure = tuple[Fraction, Fraction]
Margins = dict[int | None, Enclosure]

# Sixty digits, of which ten are given away to rounding.
_DIGITS = Context(prec=60, Emin=-(10**12), Emax=10**12)
_SLACK = Fraction(1, 10**50)


# --- margins and ties ------------------------------------------------------------------------------------------------


def rivals_of(network: Network, target: int) -> list[int | None]:
    """The classes to compare with; [None] for a single logit."""
    return (
        [None] if network.n_outputs == 1 else [c for c in range(network.n_outputs) if c != target]
    )


def tie_is_kept(target: int, rival: int | None) -> bool:
    """Whether a margin of exactly zero keeps the target: z >= 0 is class 1, and the lower index wins among several."""
    return target == 1 if rival is None else target < rival


def robust(margins: Margins, target: int) -> bool | None:
    """Whether these least margins keep the target; None where an irrational number is too near to zero to say."""
    answers = [_kept(*ends, tie_is_kept(target, rival)) for rival, ends in margins.items()]
    return False if False in answers else None if None in answers else True


def _kept(low: Fraction, high: Fraction, tie: bool) -> bool | None:
    if low > 0 or (tie and low == 0):
        return True
    return False if high < 0 or low == high else None


# --- Δ as data -------------------------------------------------------------------------------------------------------


class Radii(NamedTuple):
    """How far the parameters of one layer may go down and up, each an array like the parameters."""

    weight: tuple[np.ndarray, np.ndarray]
    bias: tuple[np.ndarray, np.ndarray]


def radii_of(network: Network, changes: PlausibleChanges) -> list[Radii]:
    """One radius, one for each layer, one for each parameter, or one down and one up for each."""
    layers = len(network.weights)
    each: Sequence[Any] = (
        changes.delta if isinstance(changes.delta, tuple) else (changes.delta,) * layers
    )
    moving: Any = changes.biases
    bias: Sequence[Any] = (
        moving if isinstance(moving, tuple) else each if moving else (0.0,) * layers
    )
    assert len(each) == len(bias) == layers
    return [
        Radii(_down_up(each[i], network.weights[i]), _down_up(bias[i], network.biases[i]))
        for i in range(layers)
    ]


def _down_up(radius: Any, like: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    array = np.asarray(radius, dtype=float)
    down, up = array if array.ndim == like.ndim + 1 else (array, array)
    return np.broadcast_to(down, like.shape), np.broadcast_to(up, like.shape)


def inside(network: Network, changes: PlausibleChanges, other: Network) -> bool:
    """Whether `other` lies in Δ; where sixty digits cannot tell, it does."""
    if other.activations != network.activations:
        return False
    layers = []
    for i, radii in enumerate(radii_of(network, changes)):
        steps = []
        for ours, theirs, (down, up) in (
            (network.weights[i], other.weights[i], radii.weight),
            (network.biases[i], other.biases[i], radii.bias),
        ):
            for a, b, least, most in zip(ours.flat, theirs.flat, down.flat, up.flat, strict=True):
                step = Fraction(float(b)) - Fraction(float(a))
                # In every norm each single parameter moves by at most the radius.
                if not -Fraction(float(least)) <= step <= Fraction(float(most)):
                    return False
                steps.append(abs(step))
        layers.append(steps)
    if changes.norm == math.inf:
        return True
    if not isinstance(changes.delta, tuple):
        return _in_ball(
            [step for steps in layers for step in steps], Fraction(changes.delta), changes.norm
        )
    return all(
        _in_ball(s, Fraction(r), changes.norm) for s, r in zip(layers, changes.delta, strict=True)
    )


def _in_ball(steps: list[Fraction], radius: Fraction, norm: float) -> bool:
    if not any(steps):
        return True
    if norm in (1.0, 2.0):
        return sum((step ** int(norm) for step in steps), Fraction(0)) <= radius ** int(norm)
    powers = [_DIGITS.power(_decimal(step / radius), Decimal(norm)) for step in steps if step]
    return Fraction(sum(powers, Decimal(0))) <= 1 + _SLACK


# --- integers --------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What one neuron adds up: each weight and the bias at its lowest and at its highest."""

    low: list[int]
    high: list[int]
    low_bias: int
    high_bias: int

    def negative(self) -> Row:
        return Row([-w for w in self.high], [-w for w in self.low], -self.high_bias, -self.low_bias)

    def plus(self, other: Row) -> Row:
        return Row(
            [a + b for a, b in zip(self.low, other.low, strict=True)],
            [a + b for a, b in zip(self.high, other.high, strict=True)],
            self.low_bias + other.low_bias,
            self.high_bias + other.high_bias,
        )


@dataclass(frozen=True)
class Scaled:
    """A point and all networks of the box, in integers: the logits are multiples of 2 ** -shift."""

    point: list[int]
    layers: list[list[Row]]
    activations: tuple[str, ...]
    shift: int

    @classmethod
    def of(cls, network: Network, x: np.ndarray, radii: list[Radii] | None) -> Scaled:
        """Each layer's weights times the power of two that makes them integers, and its biases as well."""
        radii = radii or [
            Radii(*(_down_up(0.0, part) for part in layer))
            for layer in zip(network.weights, network.biases, strict=True)
        ]
        shift = _power(x.tolist())
        point, layers = [_integer(value, shift) for value in x.tolist()], []
        for weight, bias, radius in zip(network.weights, network.biases, radii, strict=True):
            numbers = [weight, *radius.weight]
            more = max(
                _power(value for array in numbers for value in array.flat),
                _power(value for array in (bias, *radius.bias) for value in array.flat) - shift,
            )
            shift += more
            rows = []
            for j in range(len(bias)):
                center, down, up = (
                    [_integer(value, more) for value in array[j].tolist()] for array in numbers
                )
                middle, less, plus = (
                    _integer(float(array[j]), shift) for array in (bias, *radius.bias)
                )
                rows.append(
                    Row(
                        [c - d for c, d in zip(center, down, strict=True)],
                        [c + u for c, u in zip(center, up, strict=True)],
                        middle - less,
                        middle + plus,
                    )
                )
            layers.append(rows)
        return cls(point, layers, network.activations, shift)

    def margin(self, target: int, rival: int | None) -> Row:
        """The row whose value is the margin of `target` over `rival`."""
        rows = self.layers[-1]
        if rival is None:
            return rows[0] if target == 1 else rows[0].negative()
        return rows[target].plus(rows[rival].negative())

    def fraction(self, value: Fraction) -> Fraction:
        return value / 2**self.shift if self.shift >= 0 else value * 2**-self.shift


def _power(values: Iterable[float]) -> int:
    """The least k for which every value times 2**k is an integer."""
    powers = []
    for value in values:
        numerator, denominator = float(value).as_integer_ratio()
        if numerator:
            powers.append(denominator.bit_length() - (numerator & -numerator).bit_length())
    return max(powers, default=0)


def _integer(value: float, power: int) -> int:
    numerator, denominator = float(value).as_integer_ratio()
    places = power - denominator.bit_length() + 1
    return numerator << places if places >= 0 else numerator >> -places


def _decimal(value: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))


def exact_logits(network: Network, x: np.ndarray) -> list[Fraction]:
    """The logits of the network in fractions."""
    still = [
        Radii((w * 0.0, w * 0.0), (b * 0.0, b * 0.0))
        for w, b in zip(network.weights, network.biases, strict=True)
    ]
    scaled = Scaled.of(network, np.asarray(x, dtype=float), still)
    values = scaled.point
    for i, rows in enumerate(scaled.layers):
        values = [sum(map(int.__mul__, row.low, values)) + row.low_bias for row in rows]
        if i < len(scaled.activations) and scaled.activations[i] == "relu":
            values = [max(value, 0) for value in values]
    return [scaled.fraction(Fraction(value)) for value in values]


def exact_class(network: Network, x: np.ndarray) -> int:
    """The index of the class that the network gives x."""
    logits = exact_logits(network, x)
    return int(logits[0] >= 0) if len(logits) == 1 else logits.index(max(logits))


# --- the least value of a row ----------------------------------------------------------------------------------------


def least_margins(
    network: Network, x: np.ndarray, target: int, changes: PlausibleChanges
) -> Margins:
    """For each rival the least margin over Δ."""
    x = np.asarray(x, dtype=float)
    rivals = rivals_of(network, target)
    if changes.norm != math.inf:
        return {rival: _least_linear(network, x, target, rival, changes) for rival in rivals}
    scaled = Scaled.of(network, x, radii_of(network, changes))
    values = {
        rival: scaled.fraction(least_row(scaled, scaled.margin(target, rival))) for rival in rivals
    }
    return {rival: (value, value) for rival, value in values.items()}


def least_logit(
    network: Network, x: np.ndarray, output: int, sign: int, changes: PlausibleChanges
) -> Enclosure:
    """The least value of one logit (sign 1) or of its negative (sign -1)."""
    x = np.asarray(x, dtype=float)
    if changes.norm != math.inf:
        alone = Network(
            [network.weights[-1][output : output + 1]], [network.biases[-1][output : output + 1]]
        )
        assert not network.hidden
        return _least_linear(alone, x, 1 if sign == 1 else 0, None, changes)
    scaled = Scaled.of(network, x, radii_of(network, changes))
    row = scaled.layers[-1][output]
    value = scaled.fraction(least_row(scaled, row if sign == 1 else row.negative()))
    return value, value


def _least_linear(
    network: Network, x: np.ndarray, target: int, rival: int | None, changes: PlausibleChanges
) -> Enclosure:
    """margin - delta ||(x, 1)||_q; with two rows that move, their inputs stand side by side."""
    assert not network.hidden, (
        "in a p-norm only models without hidden layers have a closed form here"
    )
    logits = exact_logits(network, x)
    margin = (
        (logits[0] if target == 1 else -logits[0])
        if rival is None
        else logits[target] - logits[rival]
    )
    inputs = [abs(Fraction(value)) for value in x.tolist()] + [Fraction(1)] * bool(changes.biases)
    delta = Fraction(changes.delta[0] if isinstance(changes.delta, tuple) else changes.delta)
    low, high = _dual_norm(
        [value for value in inputs if value] * (1 if rival is None else 2), changes.norm
    )
    return margin - delta * high, margin - delta * low


def _dual_norm(values: list[Fraction], norm: float) -> Enclosure:
    """||values||_q with 1/p + 1/q = 1."""
    largest = max(values, default=Fraction(0))
    if norm == 1.0 or not largest:
        return largest, largest
    ratios = [value / largest for value in values]
    if norm == 2.0:
        square = sum((ratio**2 for ratio in ratios), Fraction(0))
        # a / b = a b / b**2, so that only one root is left to take.
        product = square.numerator * square.denominator << 400
        root = math.isqrt(product)
        denominator = square.denominator << 200
        return largest * Fraction(root, denominator), largest * Fraction(
            root + (root**2 != product), denominator
        )
    p = Decimal(norm)
    q = _DIGITS.divide(p, p - 1)
    total = sum((_DIGITS.power(_decimal(ratio), q) for ratio in ratios), Decimal(0))
    root = Fraction(_DIGITS.power(total, _DIGITS.divide(Decimal(1), q)))
    return largest * root * (1 - _SLACK), largest * root * (1 + _SLACK)


def least_row(scaled: Scaled, row: Row) -> Fraction:
    """The least value of `row`, read from the last hidden layer, over the box."""
    hidden = scaled.layers[:-1]
    box = [(value, value) for value in scaled.point]
    if len(hidden) <= 1:
        # The neurons of one hidden layer are free of each other, and a concave function is least at an end.
        for rows, activation in zip(hidden, scaled.activations, strict=True):
            ends = [(_ranges(neuron, box)[0], _ranges(neuron, box)[3]) for neuron in rows]
            box = [_activated(*end, activation) for end in ends]
        return Fraction(_ranges(row, box)[0])
    program = _Program()
    parts: list[Parts] = [(_constant(max(v, 0)), _constant(max(-v, 0))) for v in scaled.point]
    for i, (rows, activation) in enumerate(zip(hidden, scaled.activations, strict=True)):
        ranges = [_ranges(neuron, box) for neuron in rows]
        sums = [_sums(neuron, parts) for neuron in rows]
        costs = (
            zip(row.low, row.high, strict=True) if i == len(hidden) - 1 else [(0, 0)] * len(rows)
        )
        add = program.relu if activation == "relu" else program.identity
        parts = [add(*s, r, cost) for s, r, cost in zip(sums, ranges, costs, strict=True)]
        box = [_activated(r[0], r[3], activation) for r in ranges]
    return program.least(_sums(row, parts)[0])


Range = tuple[int, int, int, int]


def _ranges(row: Row, box: list[tuple[int, int]]) -> Range:
    """The least and the greatest value of L, then of U, over a box of values of any sign."""
    least_l = most_l = row.low_bias
    least_u = most_u = row.high_bias
    for w, up, (a, b) in zip(row.low, row.high, box, strict=True):
        lows = (w if a >= 0 else up) * a, (w if b >= 0 else up) * b
        highs = (up if a >= 0 else w) * a, (up if b >= 0 else w) * b
        kink = (0,) if a < 0 < b else ()
        least_l, most_l = least_l + min(lows), most_l + max(*lows, *kink)
        least_u, most_u = least_u + min(*highs, *kink), most_u + max(highs)
    return least_l, most_l, least_u, most_u


def _activated(low: int, high: int, activation: str) -> tuple[int, int]:
    return (max(low, 0), max(high, 0)) if activation == "relu" else (low, high)


# --- linear programs -------------------------------------------------------------------------------------------------


class Affine(NamedTuple):
    """constant + sum of coefficient times variable; the variables are >= 0."""

    constant: int
    terms: dict[int, int]


Parts = tuple[Affine, Affine]
"""A neuron's value as positive part minus negative part."""


def _constant(value: int) -> Affine:
    return Affine(value, {})


def _sum(weighted: Iterable[tuple[int, Affine]], constant: int = 0) -> Affine:
    terms: dict[int, int] = {}
    for weight, affine in weighted:
        if weight:
            constant += weight * affine.constant
            for variable, coefficient in affine.terms.items():
                terms[variable] = terms.get(variable, 0) + weight * coefficient
    return Affine(constant, {variable: c for variable, c in terms.items() if c})


def _sums(row: Row, parts: list[Parts]) -> Parts:
    """L and U of a neuron: a negative part meets the other end of its weight."""
    pairs = list(zip(row.low, row.high, parts, strict=True))
    low = [term for w, up, (plus, minus) in pairs for term in ((w, plus), (-up, minus))]
    high = [term for w, up, (plus, minus) in pairs for term in ((up, plus), (-w, minus))]
    return _sum(low, row.low_bias), _sum(high, row.high_bias)


_ONE = 1 << 32


def _slope(rise: int, run: int) -> int:
    """The slope of a chord in units of 1 / _ONE: a steeper line does as well, and keeps the numbers short."""
    return -(-rise * _ONE // run)


@dataclass
class _Program:
    """Rows that must be <= 0, and choices: of each, all the rows of one side or of the other must be <= 0."""

    rows: list[Affine] = field(default_factory=list)
    choices: list[tuple[list[Affine], list[Affine]]] = field(default_factory=list)
    variables: int = 0

    def _variable(self, base: int, top: int, cost: int) -> Affine:
        """base <= value <= top, counted from the end that is the cheaper one; rows of the caller say <= top too."""
        if base == top:
            return _constant(base)
        self.variables += 1
        if cost >= 0:
            return Affine(base, {self.variables - 1: 1})
        self.rows.append(Affine(base - top, {self.variables - 1: 1}))
        return Affine(top, {self.variables - 1: -1})

    def relu(self, low: Affine, high: Affine, ranges: Range, cost: tuple[int, int]) -> Parts:
        """relu(low) <= v <= relu(high): v >= low and v >= 0, and a chord over the upper end until it is chosen."""
        least_l, most_l, least_u, most_u = ranges
        base, top = max(least_l, 0), max(most_u, 0)
        value = self._variable(base, top, cost[0])
        if value.terms:
            below, above = _sum([(1, low), (-1, value)]), _sum([(1, value), (-1, high)])
            if most_l > base:
                self.rows.append(below)
            if least_u >= 0:
                self.rows.append(above)
            else:
                slope = _slope(most_u, most_u - least_u)
                self.rows.append(_sum([(_ONE, value), (-slope, high)], slope * least_u))
                self.rows.append(_sum([(1, value)], -top))
                self.choices.append(([value, high], [above]))
        return value, _constant(0)

    def identity(self, low: Affine, high: Affine, ranges: Range, cost: tuple[int, int]) -> Parts:
        """low <= plus - minus <= high, and one of the two is 0: a chord until it is chosen which."""
        least, most = ranges[0], ranges[3]
        plus = self._variable(max(least, 0), max(most, 0), cost[0])
        minus = self._variable(max(-most, 0), max(-least, 0), -cost[1])
        if plus.terms or minus.terms:
            self.rows.append(_sum([(1, low), (-1, plus), (1, minus)]))
            self.rows.append(_sum([(-1, high), (1, plus), (-1, minus)]))
        if least < 0 < most:
            # The chord twice, each exact at the end where its part is 0.
            for part, other, most_part, end in (
                (plus, minus, most, -least),
                (minus, plus, -least, most),
            ):
                slope = _slope(most_part, most - least)
                self.rows.append(_sum([(_ONE - slope, part), (slope, other)], -slope * end))
            self.choices.append(([plus], [minus]))
        return plus, minus

    def least(self, objective: Affine) -> Fraction:
        """Branch and bound: a vertex at which every choice holds is a real value of the network."""
        root = _Tableau([objective.terms.get(variable, 0) for variable in range(self.variables)])
        for row in self.rows:
            root.add(row)
        best: Fraction | None = None
        open_nodes = [root]
        while open_nodes:
            node = open_nodes.pop()
            if not node.solve():
                continue
            value = Fraction(node.value(objective), node.denominator)
            if best is not None and value >= best:
                continue
            unmet = next((sides for sides in self.choices if not any(map(node.holds, sides))), None)
            if unmet is None:
                best = value
                continue
            for side in unmet:
                child = node.copy()
                for row in side:
                    child.add(row)
                open_nodes.append(child)
        assert best is not None, "today's network is always feasible"
        return best


class _Tableau:
    """The dual simplex method on integers: every entry is over one common denominator (Edmonds 1967).

    A row says: basic variable + sum of entry * nonbasic variable = last entry. Costs are >= 0 from the start, so every
    basis is dual feasible.
    """

    def __init__(self, costs: list[int]) -> None:
        self.denominator = 1
        self.columns = list(range(len(costs)))
        self.basis: list[int] = []
        self.rows: list[list[int]] = []
        self.costs = costs
        self.next = len(costs)

    def copy(self) -> _Tableau:
        other = _Tableau(self.costs[:])
        other.denominator, other.next = self.denominator, self.next
        other.columns, other.basis, other.rows = (
            self.columns[:],
            self.basis[:],
            [row[:] for row in self.rows],
        )
        return other

    def add(self, affine: Affine) -> None:
        """One more row, affine <= 0."""
        divisor = math.gcd(affine.constant, *affine.terms.values()) or 1
        places = {variable: j for j, variable in enumerate(self.columns)}
        row = [0] * len(self.columns) + [-affine.constant // divisor * self.denominator]
        for variable, coefficient in affine.terms.items():
            coefficient //= divisor
            if variable in places:
                row[places[variable]] += coefficient * self.denominator
            else:
                basic = self.rows[self.basis.index(variable)]
                row = [entry - coefficient * other for entry, other in zip(row, basic, strict=True)]
        self.rows.append(row)
        self.basis.append(self.next)
        self.next += 1

    def value(self, affine: Affine) -> int:
        """The value at this vertex, times the denominator."""
        total = affine.constant * self.denominator
        for variable, coefficient in affine.terms.items():
            if variable in self.basis:
                total += coefficient * self.rows[self.basis.index(variable)][-1]
        return total

    def holds(self, side: list[Affine]) -> bool:
        return all(self.value(affine) <= 0 for affine in side)

    def solve(self) -> bool:
        """Pivot until no basic variable is negative; False if some row cannot be met."""
        steps = 0
        while True:
            negative = [i for i, row in enumerate(self.rows) if row[-1] < 0]
            if not negative:
                return True
            # The most violated row first; after many steps the lowest index, which cannot cycle.
            steps += 1
            r = min(negative, key=lambda i: self.rows[i][-1] if steps < 60 else self.basis[i])
            row = self.rows[r]
            entering = [j for j in range(len(self.columns)) if row[j] < 0]
            if not entering:
                return False
            c = entering[0]
            for j in entering[1:]:
                # Least cost / -entry, then the lowest index.
                ours, theirs = self.costs[j] * row[c], self.costs[c] * row[j]
                if ours > theirs or (ours == theirs and self.columns[j] < self.columns[c]):
                    c = j
            self._pivot(r, c)

    def _pivot(self, r: int, c: int) -> None:
        row, old = self.rows[r], self.denominator
        pivot = -row[c]
        # With the row's signs turned the pivot is positive, and so is the next denominator.
        turned = [-entry for entry in row]
        for i, other in enumerate(self.rows):
            if i != r:
                self.rows[i] = _eliminate(other, turned, pivot, c, old)
        self.costs = _eliminate([*self.costs, 0], turned, pivot, c, old)[:-1]
        turned[c] = -old
        self.rows[r] = turned
        self.denominator = pivot
        self.basis[r], self.columns[c] = self.columns[c], self.basis[r]


def _eliminate(row: list[int], pivot_row: list[int], pivot: int, c: int, old: int) -> list[int]:
    factor = row[c]
    if not factor:
        return [entry * pivot // old for entry in row]
    result = [
        (entry * pivot - factor * other) // old for entry, other in zip(row, pivot_row, strict=True)
    ]
    result[c] = factor
    return result
