"""Linear rules between columns: read safely, checked exactly, repaired where a search broke them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace, Rule
from holdfast.features._rules import RuleTerms


def jobs(n: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    history = rng.integers(0, 240, n)
    return pd.DataFrame(
        {
            "months_in_job": (history * rng.random(n)).astype(int),
            "months_of_history": history,
            "savings": np.round(rng.random(n) * 5000, 2),
            "card debt": np.round(rng.random(n) * 3000, 2),
            "owner": rng.random(n) < 0.5,
        }
    )


@pytest.mark.parametrize(
    ("text", "terms", "bound"),
    [
        ("a <= b", {"a": 1, "b": -1}, 0),
        ("a >= b", {"a": -1, "b": 1}, 0),
        ("a + 2*b <= 10", {"a": 1, "b": 2}, 10),
        ("2*(a - b)/4 >= -1.5 + a", {"a": Fraction(1, 2), "b": Fraction(1, 2)}, Fraction(3, 2)),
        ("`capital-gain` <= 5e3", {"capital-gain": 1}, 5000),
        ("a - -a <= .5", {"a": 2}, Fraction(1, 2)),
        ("größe*3 <= 1", {"größe": 3}, 1),
    ],
)
def test_reading_a_rule(text: str, terms: dict[str, Fraction], bound: Fraction) -> None:
    normal = Rule.parse(text).normal
    assert dict(normal.terms) == terms
    assert -normal.constant == bound


@pytest.mark.parametrize(
    "text",
    [
        "a", "a < b", "a == b", "a <= b <= c", "a*b <= 1", "1/a <= 2", "a <= ", "<= a", "1 <= 2", "a <= a",
        "a / 0 <= 1", "a <= (b", "a b <= 1", "__import__('os') <= 1", "a.b <= 1", "a[0] <= 1", "a ** 2 <= 1",
        "(" * 500 + "a <= 1", "-" * 500 + "a <= 1", "", "a <= 1; b <= 2", "`a <= 1",
    ],
)  # fmt: skip
def test_what_is_not_a_linear_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="rule"):
        Rule.parse(text)


def test_violations_say_what_is_wrong() -> None:
    frame = jobs()
    space = FeatureSpace.from_frame(frame, rules=["months_in_job <= months_of_history"])
    row = frame.head(1).assign(months_in_job=50, months_of_history=36)
    assert space.violations(row, row) == [["months_in_job <= months_of_history: 50 > 36"]]
    assert space.satisfied(row, row).tolist() == [False]


@pytest.mark.parametrize("scale", ["minmax", "standard", "none"])
@pytest.mark.parametrize("noise", [0.05, 1.0, 30.0])
def test_rows_are_repaired_exactly(scale: str, noise: float) -> None:
    frame = jobs()
    rules = [
        "months_in_job <= months_of_history",
        "savings + 0.3*`card debt` >= 0.1",
        "`card debt` <= savings + 3000 - 1000*owner",
    ]
    frame = frame[frame["card debt"] <= frame["savings"] + 2000]
    space = FeatureSpace.from_frame(
        frame, rules=rules, scale=scale, steps={"savings": 0.05}, increasing=["savings"]
    )
    rng = np.random.default_rng(1)
    spread = space.encode(frame).std(axis=0)
    points = space.encode(frame) + noise * spread * rng.normal(size=(len(frame), space.n_variables))
    projected = space.project(points, frame)
    assert space.violations(projected, frame) == [[] for _ in range(len(frame))]
    handed_out = space.decode(projected, factuals=frame)
    assert space.satisfied(handed_out, frame).all()
    assert (handed_out["months_in_job"] <= handed_out["months_of_history"]).all()
    matrix, bounds = space.rule_rows()
    assert (projected @ matrix.T <= bounds + 1e-6 * np.abs(bounds).max()).all()


def test_repair_prefers_the_cheapest_change() -> None:
    frame = pd.DataFrame({"a": [0.0, 10.0], "b": [0.0, 10.0]})
    wish, factual = pd.DataFrame({"a": [8.0], "b": [4.0]}), pd.DataFrame({"a": [1.0], "b": [2.0]})
    for costs, expected in (({"a": 1, "b": 9}, [4.0, 4.0]), ({"a": 9, "b": 1}, [8.0, 8.0])):
        space = FeatureSpace.from_frame(frame, rules="a <= b", costs=costs)
        repaired = space.decode(space.project(space.encode(wish), factual))
        assert repaired.to_numpy().tolist() == [expected]


def test_a_factual_that_breaks_a_rule_is_brought_to_it_where_possible() -> None:
    frame = pd.DataFrame({"a": [0, 10], "b": [0, 10]})
    factual = pd.DataFrame({"a": [9], "b": [3]})
    space = FeatureSpace.from_frame(frame, rules="a <= b")
    assert space.satisfied(space.project(space.encode(factual), factual), factual).all()
    stuck = space.constrained(immutable=["a", "b"])
    assert stuck.violations(stuck.project(stuck.encode(factual), factual), factual) == [
        ["a <= b: 9 > 3"]
    ]


@given(
    st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 3), min_size=1, max_size=20), st.integers(0, 10**6)
)
@settings(deadline=None, max_examples=100)
def test_rules_hold_in_exact_arithmetic(rows: list[tuple[float, ...]], seed: int) -> None:
    """Against fractions, at the last bit: rows are moved onto the rule's edge and one float to either side."""
    space = FeatureSpace.from_frame(
        pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0], "c": [0.0, 1.0]})
    )
    rule = Rule.parse("a + 0.1*b <= 3*c + 0.7")
    terms = RuleTerms(rule, space.features)
    values = np.array(rows)
    values[:, 0] = 3 * values[:, 2] + 0.7 - 0.1 * values[:, 1]
    rng = np.random.default_rng(seed)
    values[:, 0] = np.nextafter(values[:, 0], rng.choice([-np.inf, np.inf], len(rows)))
    exact = [
        Fraction(a) + Fraction(0.1) * Fraction(b) <= 3 * Fraction(c) + Fraction(0.7)
        for a, b, c in values.tolist()
    ]
    assert terms.holds(values).tolist() == exact
    pairs = np.column_stack([values[:, 0], values[:, 0], np.nextafter(values[:, 0], np.inf)])
    below = RuleTerms(Rule.parse("c <= a"), space.features)
    assert not below.holds(pairs).any()
    assert RuleTerms(Rule.parse("b >= a"), space.features).holds(pairs).all()


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (["months_in_job >= 1000"], "within the ranges no row obeys all of"),
        (
            ["months_in_job <= months_of_history", "months_in_job >= months_of_history + 1000"],
            "within the ranges no row obeys all of",
        ),
        (["nothing <= 3"], "nothing"),
        (["sex <= 1"], "numeric"),
        (["job <= 1"], "numeric"),
    ],
)
def test_rules_that_cannot_be_used(rules: list[str], message: str) -> None:
    frame = jobs().assign(sex="f", job="none")
    with pytest.raises(InvalidInputError, match=message):
        FeatureSpace.from_frame(frame, rules=rules, ordinal={"job": ["none", "some"]})


def test_rule_rows_in_raw_units() -> None:
    frame = jobs()
    space = FeatureSpace.from_frame(
        frame, rules=["2*months_in_job - savings <= 7", "owner >= 0"], scale="none"
    )
    matrix, bounds = space.rule_rows()
    assert matrix.tolist() == [[2, 0, -1, 0, 0], [0, 0, 0, 0, -1]]
    assert bounds.tolist() == [7, 0]


def test_repaired_rows_end_on_the_edge_of_the_rule() -> None:
    """The smallest move that meets a rule whose factors are no binary fractions, not a retreat to the factual."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((2000, 3)), columns=["a", "b", "c"]) * [3.0, 70.0, 11.0]
    space = FeatureSpace.from_frame(frame, scale="standard").constrained(
        rules="0.1*a + 0.7*b <= 3*c + 0.3"
    )
    factual = pd.DataFrame({"a": [1.0], "b": [1.0], "c": [9.0]})
    handed_out = space.decode(space.project(space.encode(frame), factual))
    broken = ~space.satisfied(frame, factual)
    left, right = 0.1 * handed_out["a"] + 0.7 * handed_out["b"], 3 * handed_out["c"] + 0.3
    assert broken.sum() > 500
    assert space.satisfied(handed_out, factual).all()
    np.testing.assert_allclose(left[broken], right[broken], rtol=1e-12)
    np.testing.assert_allclose(handed_out[~broken], frame[~broken], atol=1e-12)
