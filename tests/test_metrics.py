"""Metrics against closed forms, scikit-learn itself and counting by hand; a missing row never shifts another."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import LocalOutlierFactor

import holdfast as hf
from holdfast import metrics
from holdfast.errors import InvalidInputError
from holdfast.generators import RNCE
from recourse_cases import make_case

LINE = hf.Network([[[-1.0, 1.0]]], [[0.0]])
NONE = [math.nan, math.nan]


def answers(points, factuals=None, **options):
    """Answers of the line x1 >= x0."""
    before = [[0.9, 0.1]] * len(points) if factuals is None else factuals
    return hf.Recourse.of(LINE, points, before, target=1, **options)


@pytest.fixture(scope="module")
def recourse():
    """People of every kind of column; the third has the class already, so its row has no answer."""
    case = make_case("two layers", "mixed", n_people=10)
    generator = RNCE(case.candidates)
    result = hf.explain(
        case.network,
        case.people,
        target=case.target,
        changes=case.changes,
        generator=generator,
        space=case.space,
    )
    assert 0 < result.found.sum() < len(result)
    return result


def test_shares_by_hand():
    # Margins x1 - x0: 0.5, 0.05, -0.1; the second row has no answer.
    these = answers([[0.25, 0.75], NONE, [0.5, 0.55], [0.5, 0.4]])
    assert metrics.coverage(these) == 3 / 4
    assert metrics.validity(these) == 2 / 3
    # The least logit over Δ is the margin minus delta (x0 + x1 + 1), here 0.5 - 0.2, 0.05 - 0.205 and -0.1 - 0.19.
    assert metrics.delta_validity(these, hf.PlausibleChanges(0.1)) == 1 / 3
    assert metrics.delta_unknown(these, hf.PlausibleChanges(0.1)) == 0.0
    assert metrics.delta_validity(these, hf.PlausibleChanges(0.01)) == 2 / 3


def test_validity_retrained_counts_pairs():
    these = answers([[0.25, 0.75], NONE, [0.5, 0.55]])
    retrained = [hf.Network([[[-1.0, 1.0]]], [[bias]]) for bias in (0.0, -0.2, -0.7)]
    assert metrics.validity_retrained(these, retrained) == pytest.approx((2 + 1) / 6)
    share = metrics.per_row(these, retrained=retrained)["valid_retrained"].to_numpy()
    np.testing.assert_allclose(share, [2 / 3, math.nan, 1 / 3])


def test_retrained_models_are_asked_by_label():
    """A model that lists its classes the other way round means the same labels."""
    these = hf.Recourse.of(
        hf.Network(
            [
                [[1.0]],
            ],
            [[0.0]],
            classes=["no", "yes"],
        ),
        [[2.0]],
        [[-1.0]],
        target="yes",
    )
    turned = hf.Network([[[-1.0]]], [[0.0]], classes=["yes", "no"])
    assert metrics.validity_retrained(these, [turned]) == 1.0


def test_unknown_is_counted_apart():
    """With no time to search, what the cheap bounds leave open is UNKNOWN, and not robust."""
    case = make_case("three layers", "continuous")
    points = case.space.encode(case.candidates)
    accepted = points[case.network.predict(points) == case.target]
    these = hf.Recourse.of(case.network, accepted, accepted, target=case.target, space=case.space)
    changes = hf.PlausibleChanges(0.05)
    verdicts = metrics.per_row(these, changes=changes, time_limit=1e-9)["verdict"]
    assert (verdicts == "UNKNOWN").any()
    assert metrics.delta_unknown(these, changes, time_limit=1e-9) == pytest.approx(
        (verdicts == "UNKNOWN").mean()
    )
    assert metrics.delta_validity(these, changes, time_limit=1e-9) == pytest.approx(
        (verdicts == "ROBUST").mean()
    )


def test_cost_is_that_of_the_paper():
    these = answers([[0.25, 0.75], NONE, [0.9, 0.2]], [[0.5, 0.5], [0.9, 0.1], [0.9, 0.1]])
    np.testing.assert_allclose(
        metrics.per_row(these)["cost_l1"], [(0.25 + 0.25) / 2, math.nan, 0.1 / 2]
    )
    assert metrics.cost_l1(these) == pytest.approx((0.25 + 0.05) / 2)
    assert metrics.sparsity(these) == (2 + 1) / 2


@pytest.mark.parametrize("missing", [None, 0, 7])
def test_lof_is_scikit_learns(missing):
    rng = np.random.default_rng(3)
    rows, points = rng.normal(size=(200, 2)), 2.0 * rng.normal(size=(9, 2))
    reference = LocalOutlierFactor(n_neighbors=10, novelty=True).fit(rows)
    expected = -np.array([reference.score_samples(point[None])[0] for point in points])
    if missing is not None:
        points[missing], expected[missing] = NONE, math.nan
    these, density = answers(points), metrics.Density(rows)
    np.testing.assert_allclose(metrics.per_row(these, density=density)["lof"], expected, rtol=1e-12)
    assert metrics.lof(these, density) == pytest.approx(np.nanmean(expected))


def test_lof_by_its_definition():
    """Two neighbours on a line, counted out: reach is at least the neighbour's own k-distance, density is 1 / reach."""
    line, k = np.array([0.0, 1.0, 3.0, 7.0]), 2

    def nearest(value, own=None):
        others = [i for i in range(len(line)) if i != own]
        return sorted(others, key=lambda i: abs(line[i] - value))[:k]

    k_distance = [abs(line[nearest(value, i)[-1]] - value) for i, value in enumerate(line)]

    def density(value, own=None):
        return 1.0 / np.mean(
            [max(abs(line[i] - value), k_distance[i]) for i in nearest(value, own)]
        )

    expected = np.mean([density(line[i], i) for i in nearest(2.5)]) / density(2.5)
    assert metrics.Density(line[:, None], neighbours=k).outlier_factor([[2.5]])[0] == pytest.approx(
        expected
    )


def test_rows_that_repeat_count_once():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    repeated = np.concatenate([rows, np.repeat(rows[:1], 40, axis=0)])
    point = rows[:1] + 0.01
    once = metrics.Density(rows).outlier_factor(point)
    np.testing.assert_array_equal(metrics.Density(repeated).outlier_factor(point), once)


def test_constraints_that_an_answer_breaks_are_counted():
    people = pd.DataFrame({"age": [30, 40, 50], "income": [10.0, 20.0, 30.0]})
    space = hf.FeatureSpace.from_frame(people, immutable=["age"], increasing=["income"])
    points = space.encode(pd.DataFrame({"age": [31, 40, 50], "income": [5.0, 25.0, 30.0]}))
    points[2] = NONE
    net = hf.Network([[[0.0, 1.0]]], [[1.0]])
    these = hf.Recourse.of(net, points, people, target=1, space=space)
    # Row 0: age moves, income falls, and falls out of its range.
    frame = metrics.per_row(these)
    assert frame["violations"].tolist()[1] == 0
    assert frame["violations"].tolist()[0] >= 2
    assert math.isnan(frame["violations"][2])
    assert metrics.violations(these) == frame["violations"][0] / 2


def test_recourse_and_its_points_measure_the_same(recourse):
    names = list(recourse.space.names)
    bare = hf.Recourse.of(
        recourse.network, recourse.points, recourse.factuals[names], target=1, space=recourse.space
    )
    pd.testing.assert_frame_equal(
        metrics.per_row(recourse, changes=recourse.changes),
        metrics.per_row(bare, changes=recourse.changes),
    )


def test_rows_agree_with_explain(recourse):
    frame = metrics.per_row(recourse, changes=recourse.changes)
    assert frame.index.equals(recourse.factuals.index)
    np.testing.assert_array_equal(frame["found"], recourse.found)
    np.testing.assert_array_equal(frame["cost_l1"], recourse.cost_l1)
    np.testing.assert_array_equal(frame["verdict"], recourse.verdict)
    assert (frame.loc[recourse.found, "valid"] == 1.0).all()
    assert (frame.loc[recourse.found, "violations"] == 0.0).all()
    assert (
        metrics.delta_validity(recourse, recourse.changes)
        == recourse.robust.sum() / recourse.found.sum()
    )


def test_each_row_is_what_it_would_be_alone(recourse):
    """Nothing a neighbour lacks moves a value."""
    rng = np.random.default_rng(1)
    density = metrics.Density(rng.uniform(size=(50, recourse.space.n_variables)))
    options = {
        "changes": {"near": hf.PlausibleChanges(0.001), "far": hf.PlausibleChanges(0.1)},
        "density": density,
    }
    whole = metrics.per_row(recourse, retrained=[recourse.network], **options)
    people = recourse.factuals[list(recourse.space.names)]
    for row in range(len(recourse)):
        alone = hf.Recourse.of(
            recourse.network,
            recourse.points[[row]],
            people.iloc[[row]],
            target=1,
            space=recourse.space,
        )
        pd.testing.assert_frame_equal(
            metrics.per_row(alone, retrained=[recourse.network], **options),
            whole.iloc[[row]],
            rtol=1e-12,
        )


def test_nobody_answered():
    these, density = answers([NONE, NONE]), metrics.Density([[0.0, 0.0], [1.0, 1.0]])
    changes = hf.PlausibleChanges(0.1)
    assert metrics.coverage(these) == 0.0
    values = [
        metrics.validity(these),
        metrics.validity_retrained(these, [LINE]),
        metrics.delta_validity(these, changes),
        metrics.delta_unknown(these, changes),
        metrics.cost_l1(these),
        metrics.lof(these, density),
        metrics.sparsity(these),
        metrics.violations(these),
    ]
    assert np.isnan(values).all()
    assert metrics.per_row(these, changes=changes)["verdict"].tolist() == [None, None]


def test_answers_and_density_pickle():
    these, density = answers([[0.25, 0.75]]), metrics.Density(np.eye(2))
    again = pickle.loads(pickle.dumps((these, density)))
    assert metrics.lof(*again) == metrics.lof(these, density)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: answers([[0.1, math.nan]]),
            "row 0 has a missing or infinite number; .* a whole row of nan",
        ),
        (lambda: answers([[0.1, 0.2], [math.inf, 0.2]]), "row 1 has a missing or infinite number"),
        (lambda: answers([[0.1, 0.2, 0.3]]), "expected a table with 2 columns"),
        (
            lambda: answers([[0.1, 0.2]], [[0.1, 0.2]] * 2),
            "factuals: expected one for each of the 1 rows, got 2",
        ),
        (lambda: metrics.validity([[0.1, 0.2]]), "expected what explain returns, or Recourse.of"),
        (
            lambda: metrics.validity_retrained(answers([[0.1, 0.2]]), []),
            "retrained: expected at least one model",
        ),
        (lambda: metrics.Density([[1.0, 1.0], [1.0, 1.0]]), "at least two different rows"),
        (lambda: metrics.lof(answers([[0.1, 0.2]]), np.eye(2)), "density: expected Density(rows"),
        (lambda: metrics.Density([[1.0, math.nan]]), "table of finite numbers"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InvalidInputError, match=message.replace("(", r"\(")):
        call()
