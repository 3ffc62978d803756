"""The worked examples of "Interval Abstractions for Robust Counterfactual Explanations", through the public face.

The paper keeps the biases at zero in its examples (no interval is drawn for them), so Δ has `biases=False` here.
Where a printed number is rounded or wrong, the test says what is right and shows it by a fraction or a counter-model.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import holdfast as hf
from oracle import least_margins_exact
from reference import exact_logits

ROBUST, NOT_ROBUST = hf.Verdict.ROBUST, hf.Verdict.NOT_ROBUST

LOGISTIC = hf.Network([[[-1.0, 1.0]]], [[0.0]])
TWO_LAYERS = hf.Network([[[1.0, 0.0], [0.0, 1.0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]])
THREE_CLASSES = hf.Network(
    [[[1.0, 0.0], [0.0, 1.0]], [[1.0, -1.0], [0.0, 0.5], [-1.0, 1.0]]],
    [[0.0, 0.0], [0.0, 0.0, 0.0]],
    classes=["c1", "c2", "c3"],
)
TENTH = hf.PlausibleChanges(0.1, biases=False)
TWENTIETH = hf.PlausibleChanges(0.05, biases=False)


def _sigmoid(z: float) -> float:
    return 1.0 / (1.0 + np.exp(-z))


def _softmax(logits: list[float]) -> np.ndarray:
    powers = np.exp(logits)
    return powers / powers.sum()


def test_examples_1_and_2_the_models():
    """A logistic regression is a network without hidden layer, a feed-forward network one with hidden layers."""
    assert LOGISTIC.hidden == ()
    assert TWO_LAYERS.hidden == (2,)
    assert LOGISTIC.logits([[0.3, 0.4]])[0, 0] == pytest.approx(0.1)
    x = np.array([[-1.0, 2.0], [3.0, -4.0]])
    np.testing.assert_array_equal(
        TWO_LAYERS.logits(x)[:, 0], np.maximum(x[:, 0], 0.0) - np.maximum(x[:, 1], 0.0)
    )


def test_example_3_logistic_regression():
    assert LOGISTIC.predict([[0.7, 0.5], [0.7, 0.7]]).tolist() == [0, 1]


def test_example_4_feed_forward():
    assert TWO_LAYERS.predict([[1.0, 2.0], [2.1, 2.0]]).tolist() == [0, 1]


def test_example_5_distance():
    assert hf.parameter_distance(LOGISTIC, hf.Network([[[0.8, 1.0]]], [[0.0]])) == 1.8


@pytest.mark.parametrize("method", ["exact", "interval"])
def test_example_6_interval_abstraction_of_a_logistic_regression(method: str):
    """[-1.1, -0.9] x_1 + [0.9, 1.1] x_2, and the same with its ends exchanged where x is negative."""
    X = np.array([[0.7, 0.5], [-0.7, 0.5], [0.7, -0.5]])
    bounds = hf.output_bounds(LOGISTIC, X, TENTH, method=method)
    np.testing.assert_allclose(
        bounds.lower[:, 0], [-1.1 * 0.7 + 0.9 * 0.5, 0.9 * 0.7 + 0.9 * 0.5, -1.1 * 1.2]
    )
    np.testing.assert_allclose(
        bounds.upper[:, 0], [-0.9 * 0.7 + 1.1 * 0.5, 1.1 * 0.7 + 1.1 * 0.5, -0.9 * 1.2]
    )


@pytest.mark.parametrize("method", ["exact", "interval"])
def test_example_7_interval_abstraction_of_a_network(method: str):
    """The symbolic interval of the text at x = (1, 2) and x' = (2.1, 2).

    The figure prints [-1.05, -.095] on one edge; the text has the right [-1.05, -0.95].
    """
    bounds = hf.output_bounds(TWO_LAYERS, [[1.0, 2.0], [2.1, 2.0]], TWENTIETH, method=method)
    low, high = bounds.lower[:, 0], bounds.upper[:, 0]
    np.testing.assert_allclose(low, [0.95 * 0.85 - 1.05 * 2.15, 0.95 * 1.895 - 1.05 * 2.205])
    np.testing.assert_allclose(high, [1.05 * 1.15 - 0.95 * 1.85, 1.05 * 2.305 - 0.95 * 1.795])


def test_example_7_the_counterfactual_of_example_4_is_not_robust():
    certs = hf.certify(TWO_LAYERS, [[2.1, 2.0]], 1, TWENTIETH)
    assert certs.verdict.tolist() == [NOT_ROBUST]
    assert certs.witness(0).predict([[2.1, 2.0]]).tolist() == [0]


# --- Example 8 --------------------------------------------------------------------------------------------------------

FACTUAL, FIRST, SECOND = [0.7, 0.5], [0.7, 0.7], [0.7, 0.86]


def test_example_8_output_intervals():
    """Logits -0.2 ± 0.12, 0 ± 0.14, 0.16 ± 0.156.

    Printed: [0.42, 0.48], right to two digits (0.4207, 0.4800);
    [0.45, 0.53], whose lower end is wrong: it is 0.465 (and 0.535 is cut to 0.53, not rounded);
    [0.5, 0.58], right to two digits (0.5010, 0.5784).
    """
    low, high = hf.output_bounds(LOGISTIC, [FACTUAL, FIRST, SECOND], TENTH).probabilities()
    expected_low = [_sigmoid(z) for z in (-0.32, -0.14, 0.004)]
    expected_high = [_sigmoid(z) for z in (-0.08, 0.14, 0.316)]
    np.testing.assert_allclose(low[:, -1], expected_low, atol=1e-12)
    np.testing.assert_allclose(high[:, -1], expected_high, atol=1e-12)
    np.testing.assert_allclose(low[[0, 2], -1], [0.42, 0.50], atol=0.005)
    np.testing.assert_allclose(high[[0, 2], -1], [0.48, 0.58], atol=0.005)
    assert low[1, -1] == pytest.approx(0.465, abs=5e-4)
    assert high[1, -1] == pytest.approx(0.535, abs=5e-4)


def test_example_8_robustness_and_soundness():
    """Δ is sound for x; x' is not Δ-robust; x'' is, strictly.

    The paper says that the abstraction gives x' class 0; by its own Definition 9 the class is undefined, because the
    interval holds 0.5. "Not robust" is right either way.
    """
    certs = hf.certify(LOGISTIC, [FIRST, SECOND], 1, TENTH, factuals=[FACTUAL, FACTUAL])
    assert certs.verdict.tolist() == [NOT_ROBUST, ROBUST]
    assert certs.sound.tolist() == [True, True]
    low, high = hf.output_bounds(LOGISTIC, [FIRST], TENTH).probabilities()
    assert low[0, -1] < 0.5 <= high[0, -1]


def test_example_8_in_fractions():
    """The least logit of x'' is 0.004 up to the rounding of 0.7, 0.86 and 0.1 to floating point."""
    exact = least_margins_exact(LOGISTIC, np.array(SECOND), 1, TENTH)[None]
    assert abs(exact - Fraction(4, 1000)) < Fraction(1, 10**15)


def test_example_8_with_biases_in_the_changes_too():
    """Definition 8 moves every parameter. Once the bias moves as well, Δ is not sound for x and x'' is not robust."""
    certs = hf.certify(LOGISTIC, [SECOND], 1, hf.PlausibleChanges(0.1), factuals=[FACTUAL])
    assert certs.verdict.tolist() == [NOT_ROBUST]
    assert certs.sound.tolist() == [False]


# --- Examples 9 and 10 ------------------------------------------------------------------------------------------------

BALANCED, TARGETED = [2.0, 2.0], [3.0, 1.0]


def test_example_9_three_classes():
    assert THREE_CLASSES.predict([BALANCED, TARGETED]).tolist() == ["c2", "c1"]


@pytest.mark.parametrize("method", ["exact", "interval"])
def test_example_10_logit_intervals(method: str):
    bounds = hf.output_bounds(THREE_CLASSES, [BALANCED, TARGETED], TWENTIETH, method=method)
    np.testing.assert_allclose(bounds.lower, [[-0.6, 0.7, -0.6], [1.4, 0.2, -2.6]], atol=1e-12)
    np.testing.assert_allclose(bounds.upper, [[0.6, 1.32, 0.6], [2.6, 0.82, -1.4]], atol=1e-12)


def test_example_10_verdicts():
    """What the paper concludes is right: Δ is sound for x with c_2, and x' is strictly Δ-robust for c_1."""
    for method in ("joint", "separate"):
        certs = hf.certify(
            THREE_CLASSES, [TARGETED], "c1", TWENTIETH, factuals=[BALANCED], method=method
        )
        assert certs.verdict.tolist() == [ROBUST]
        assert certs.sound.tolist() == [True]
        assert hf.certify(
            THREE_CLASSES, [BALANCED], "c2", TWENTIETH, method=method
        ).verdict.tolist() == [ROBUST]


def test_example_10_margins_in_fractions():
    """The joint margin of x' is 0.6, where separate ranges leave 0.58; for x both are 0.1."""
    balanced = least_margins_exact(THREE_CLASSES, np.array(BALANCED), 1, TWENTIETH)
    targeted = least_margins_exact(THREE_CLASSES, np.array(TARGETED), 0, TWENTIETH)
    assert float(min(balanced.values())) == pytest.approx(0.1)
    assert float(min(targeted.values())) == pytest.approx(0.6)
    certs = hf.certify(THREE_CLASSES, [TARGETED], "c1", TWENTIETH)
    assert Fraction(float(certs.margin_lower[0])) <= min(targeted.values())


# Printed in the paper, class by class, for x = (2, 2) and x' = (3, 1).
PRINTED = np.array(
    [[[0.114, 0.322], [0.356, 0.51], [0.114, 0.322]], [[0.617, 0.91], [0.08, 0.345], [0.01, 0.038]]]
)


def test_example_10_probability_intervals():
    """Sound softmax intervals: each class's own end against the opposite ends of the others.

    Printed right, as ends of such intervals: 0.356 (the lower end of c_2 at x), 0.617, 0.91 and 0.08 (at x'). 0.345 is
    what networks really reach for c_2 at x'; the interval ends at 0.355. The other seven are wrong, and networks of Δ
    lie outside: at x, c_1 reaches [0.091, 0.416] and c_3 [0.102, 0.377], not [0.114, 0.322], and c_2 reaches 0.70, not
    0.51; at x', c_3 reaches [0.005, 0.043], not [0.01, 0.038]. The ends of two classes were moved together, where a
    bound has to move them against each other.
    """
    low, high = hf.output_bounds(THREE_CLASSES, [BALANCED, TARGETED], TWENTIETH).probabilities()
    ends = [([-0.6, 0.7, -0.6], [0.6, 1.32, 0.6]), ([1.4, 0.2, -2.6], [2.6, 0.82, -1.4])]
    for row, (least, most) in enumerate(ends):
        for c in range(3):
            worst = [least[k] if k == c else most[k] for k in range(3)]
            best = [most[k] if k == c else least[k] for k in range(3)]
            assert _softmax(worst)[c] - 1e-9 <= low[row, c] <= _reachable(row, c, -1)
            assert _reachable(row, c, 1) <= high[row, c] <= _softmax(best)[c] + 1e-9
    np.testing.assert_allclose(low[0, 1], 0.356, atol=5e-4)
    np.testing.assert_allclose([low[1, 0], high[1, 0], low[1, 1]], [0.617, 0.912, 0.082], atol=5e-4)


def _reachable(row: int, output: int, side: int) -> float:
    """The class's probability under the network of Δ below: no sound upper (lower) end may be less (more)."""
    network, x = _favouring(row, output, side), np.array([BALANCED, TARGETED][row])
    return float(_softmax([float(z) for z in exact_logits(network, x)])[output])


def _favouring(row: int, output: int, side: int) -> hf.Network:
    """A network of Δ that raises (side 1) or lowers (side -1) one class against the two others."""
    step = 0.05 * (1 - 1e-12)
    first, last = THREE_CLASSES.weights
    sides = np.full(3, -side)
    sides[output] = side
    choices = []
    for hidden in ([1, 1], [1, -1], [-1, 1], [-1, -1]):
        weights = [first + step * np.array(hidden)[:, None], last + step * sides[:, None]]
        changed = hf.Network(weights, THREE_CLASSES.biases, THREE_CLASSES.classes)
        logits = changed.logits([[BALANCED, TARGETED][row]])[0]
        choices.append((side * _softmax(logits.tolist())[output], changed))
    return max(choices, key=lambda choice: choice[0])[1]


@pytest.mark.parametrize(
    ("row", "output", "reached"), [(0, 0, 0.415), (0, 1, 0.69), (0, 2, 0.377), (1, 2, 0.042)]
)
def test_example_10_counter_models_outside_the_printed_intervals(
    row: int, output: int, reached: float
):
    """Networks within 0.05 whose probability lies above the printed upper end: those four ends are no bounds."""
    network, x = _favouring(row, output, 1), [BALANCED, TARGETED][row]
    assert TWENTIETH.contains(THREE_CLASSES, network)
    probability = _reachable(row, output, 1)
    assert probability >= reached > PRINTED[row, output, 1]
    _, high = hf.output_bounds(THREE_CLASSES, [x], TWENTIETH).probabilities()
    assert probability <= high[0, output]


def test_example_10_comparing_probability_intervals_would_lose_the_proof():
    """At x the intervals of c_2 and c_1 overlap (0.356 < 0.416), though the logits prove c_2: compare logits."""
    low, high = hf.output_bounds(THREE_CLASSES, [BALANCED], TWENTIETH).probabilities()
    assert low[0, 1] < _reachable(0, 0, 1) <= high[0, 0]
    assert hf.certify(THREE_CLASSES, [BALANCED], "c2", TWENTIETH).robust.tolist() == [True]
