"""Three ways to choose delta, each against what is known about it by other means."""

import math
import pickle
from fractions import Fraction
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import holdfast as hf
from holdfast.calibration import delta_calibrated, delta_incremental, delta_validation
from holdfast.errors import InvalidInputError
from holdfast.generators import MCE, NNCE, RNCE, Robust
from holdfast.retraining import layer_distances, retrain

mpl.use("Agg")


def table(n, seed=0, d=4):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, (X[:, 0] + X[:, 1] + rng.normal(0.0, 0.2, n) > 1.0).astype(int)


@pytest.fixture(scope="module")
def perceptron():
    return MLPClassifier(
        (5, 3), max_iter=300, batch_size=64, learning_rate_init=0.02, random_state=0
    ).fit(*table(300))


@pytest.fixture(scope="module")
def new():
    return table(400, seed=1)


# ------------------------------------------------------------------ incremental


def test_incremental_is_a_statistic_of_parameter_distances(perceptron, new):
    retrained = retrain(perceptron, *new, how="incremental", share=0.1, n=6, seed=3)
    today = hf.load_network(perceptron)
    distances = [hf.parameter_distance(today, network) for network in retrained.networks]
    for statistic, expected in (
        ("mean", np.mean(distances)),
        ("max", max(distances)),
        (0.5, sorted(distances)[3]),
    ):
        found = delta_incremental(perceptron, *new, n=6, seed=3, statistic=statistic)
        assert float(found) == pytest.approx(expected, rel=1e-14)
        np.testing.assert_array_equal(found.evidence["distance"], distances)
        assert found.inside == sum(distance <= float(found) for distance in distances)
        assert found.changes == hf.PlausibleChanges(found.delta)


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_the_largest_distance_has_every_model_inside_in_exact_arithmetic(perceptron, new, norm):
    found = delta_incremental(perceptron, *new, n=4, statistic="max", norm=norm)
    assert found.inside == 4
    layers = found.evidence.filter(like="layer_").to_numpy()
    expected = np.linalg.norm(layers, norm, axis=1).max()
    np.testing.assert_allclose(found.delta, expected, rtol=1e-11)


def test_several_shares_give_a_curve_and_delta_is_that_of_one(perceptron, new):
    found = delta_incremental(perceptron, *new, share=[0.5, 0.1, 0.2], n=3, at=0.2)
    assert found.evidence.groupby("share")["rows"].first().to_dict() == {0.1: 40, 0.2: 80, 0.5: 200}
    assert (
        found.curve()[0.2] == found.delta == found.evidence.query("share == 0.2")["distance"].mean()
    )
    assert delta_incremental(perceptron, *new, share=[0.1, 0.2], n=3).share == 0.2
    assert delta_incremental(perceptron, *new, share=0.2, n=3).delta == found.delta


def test_a_pipeline_takes_a_raw_table_and_a_space_an_encoded_model(new):
    X, y = table(300)
    raw, raw_new = (pd.DataFrame(1000.0 * values, columns=list("abcd")) for values in (X, new[0]))
    pipeline = make_pipeline(MinMaxScaler(), LogisticRegression()).fit(raw, y)
    by_pipeline = delta_incremental(pipeline, raw_new, new[1])
    space = hf.FeatureSpace.from_pipeline(pipeline, raw)
    assert delta_incremental(pipeline, raw_new, new[1], space=space).delta == by_pipeline.delta
    bare = delta_incremental(pipeline[-1], pipeline[:-1].transform(raw_new), new[1])
    assert bare.delta == pytest.approx(by_pipeline.delta)


def test_torch_with_a_function():
    X, y = table(60)
    module = torch.nn.Sequential(torch.nn.Linear(4, 1)).eval()

    def shift(model, X, y, seed):
        moved = pickle.loads(pickle.dumps(model))
        with torch.no_grad():
            moved[0].bias += 0.25 * (1 + seed % 2)
        return moved

    found = delta_incremental(module, X, y, n=8, retrain=shift, statistic="max")
    assert set(found.evidence["distance"].round(6)) == {0.25, 0.5}


def test_sentences(perceptron, new):
    found = delta_incremental(perceptron, *new, n=4, statistic="max")
    assert f"delta = {float(found):.3g}: the largest distance from today's of 4 models" in str(
        found
    )
    assert "4 of them lie within it" in repr(found)


@pytest.mark.parametrize(("rows", "single"), [(256, True), (257, False)])
def test_a_single_step_of_the_optimiser_is_said_so(rows, single):
    X, y = table(rows)
    found = delta_incremental(LogisticRegression().fit(*table(300, seed=1)), X, y, share=1.0, n=2)
    assert ("single step" in str(found)) is single
    assert ("single step" in str(delta_calibrated(found, coverage=0.5))) is single
    # What it warns of: Adam's first step is the learning rate, whatever the data.
    assert np.allclose(found.evidence["distance"], 0.01, rtol=1e-3) is single


def test_one_model_is_spoken_of_in_the_singular(perceptron, new):
    said = str(delta_incremental(perceptron, *new, n=1, statistic="max"))
    assert "of 1 model fine-tuned" in said
    assert "1 of them lies within it" in said


def months(scalers):
    """A pipeline for each month, all on the same classifier up to a little noise."""
    X, y = table(300)
    last = LogisticRegression().fit(scalers[0].transform(X), y)
    history = []
    for i, scaler in enumerate(scalers):
        moved = pickle.loads(pickle.dumps(last))
        moved.coef_ = moved.coef_ + 0.01 * i
        history.append(make_pipeline(scaler, moved))
    return history


def test_a_scaler_that_is_fitted_anew_is_noticed_and_a_copy_of_it_is_not():
    X, _ = table(300)
    same = months([StandardScaler().fit(X) for _ in range(11)])
    assert delta_calibrated(same, coverage=0.9).delta == pytest.approx(0.01)
    anew = months([StandardScaler().fit(X[i : i + 250]) for i in range(11)])
    for refused in (
        lambda: delta_calibrated(anew),
        lambda: delta_calibrated(anew[1:], origin=anew[0]),
    ):
        with pytest.raises(
            InvalidInputError, match=r"^history: .*same preprocessing.*delta_validation"
        ):
            refused()
    # A scaler that was fitted on other rows is another, even if its range is the same.
    ends = np.array([[0.0] * 4, [1.0] * 4])
    ranges = months([MinMaxScaler().fit(np.vstack([ends, X[: 10 + i]])) for i in range(11)])
    with pytest.raises(InvalidInputError, match="same preprocessing"):
        delta_calibrated(ranges, coverage=0.9)


def test_a_function_that_fits_the_scaler_anew_gives_models_without_a_distance(new):
    (X, y), (X_new, y_new) = table(300), new
    X, X_new = (pd.DataFrame(values, columns=list("abcd")) for values in (X, X_new))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)

    def refit(model, X, y, seed):
        return clone(model).fit(X, y)

    with pytest.raises(
        InvalidInputError, match=r"^retrain: .*same preprocessing.*delta_validation"
    ):
        delta_incremental(pipeline, X_new, y_new, n=2, retrain=refit)
    models = retrain(pipeline, X_new, y_new, how="incremental", share=0.5, n=9, retrain=refit)
    assert "preprocessing of their own" in repr(models)
    with pytest.raises(InvalidInputError, match="same preprocessing"):
        delta_calibrated(models, coverage=0.5)
    assert (
        delta_validation(
            pipeline, X_new[:20], retrained=models, candidates=X, coverage=0.1
        ).n_models
        == 9
    )


# ------------------------------------------------------------------ conformal


def test_draws_that_share_rows_are_said_to(perceptron, new):
    apart = retrain(perceptron, *new, how="incremental", share=0.1, n=9, disjoint=True)
    drawn = retrain(perceptron, *new, how="incremental", share=0.1, n=9)
    for confidence in (None, 0.5):
        said = [
            str(delta_calibrated(one, coverage=0.8, confidence=confidence))
            for one in (apart, drawn)
        ]
        assert ["other draws of the same rows only" in one for one in said] == [False, True]
    assert "share rows" not in str(delta_calibrated(apart.distances(), coverage=0.8))


def test_copies_are_said_to_be_no_evidence():
    today, later = (hf.Network([[[1.0]]], [[bias]]) for bias in (0.0, 0.5))
    said = str(delta_calibrated([later] * 9, origin=today, coverage=0.9))
    assert said.endswith("only 1 of these 9 models are distinct")


@pytest.mark.parametrize("n", [1, 2, 7, 9, 10, 19, 20, 99, 100, 333])
@pytest.mark.parametrize("coverage", ["0.07", "0.5", "0.8", "0.9", "0.95", "0.99"])
def test_the_rank_is_the_least_that_suffices_in_exact_fractions(n, coverage):
    p = Fraction(coverage)
    ranks = [k for k in range(1, n + 1) if Fraction(k, n + 1) >= p]
    distances = np.random.default_rng(n).permutation(np.arange(1, n + 1)) / 8
    if ranks:
        found = delta_calibrated(distances, coverage=float(coverage))
        assert found.delta == min(ranks) / 8
        assert found.guaranteed == pytest.approx(min(ranks) / (n + 1))
    else:
        least = next(m for m in range(1, 1000) if Fraction(m, m + 1) >= p)
        with pytest.raises(
            InvalidInputError,
            match=f"at least {least} retrainings for coverage {coverage}, got {n}",
        ):
            delta_calibrated(distances, coverage=float(coverage))


@pytest.mark.parametrize(
    ("coverage", "confidence"), [("0.5", "0.9"), ("0.9", "0.95"), ("0.8", "0.5")]
)
def test_the_rank_with_confidence_is_the_least_that_suffices_in_exact_fractions(
    coverage, confidence
):
    p, c = Fraction(coverage), Fraction(confidence)
    options = {"coverage": float(coverage), "confidence": float(confidence)}
    for n in range(1, 60):
        distances = np.arange(1.0, n + 1)
        # How likely fewer than k of n retrainings lie within the share p that is to be covered.
        terms = [math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(n)]
        enough = [k for k in range(1, n + 1) if sum(terms[:k]) >= c]
        if enough:
            found = delta_calibrated(distances, **options)
            assert found.rank == enough[0] == found.delta
        else:
            with pytest.raises(InvalidInputError, match=f"with confidence {confidence}, got {n}"):
                delta_calibrated(distances, **options)


def test_confidence_in_a_simulation():
    rng = np.random.default_rng(0)
    # The share of all exponential distances that lie below delta is 1 - exp(-delta).
    shares = [-np.expm1(-delta_calibrated(rng.exponential(size=40), coverage=0.9, confidence=0.9).delta)
              for _ in range(500)]  # fmt: skip
    assert 0.88 <= np.mean(np.array(shares) >= 0.9) <= 0.96


@pytest.mark.parametrize("shape", ["uniform", "layer"])
def test_coverage_in_a_simulation(shape):
    # Heavy tails, layers on different scales and dependent: only exchangeability is used.
    rng = np.random.default_rng(0)
    n, repeats, covered = 24, 1500, 0
    common = rng.lognormal(0.0, 0.7, (repeats, n + 1, 1))
    layers = common * rng.lognormal(0.0, 0.7, (repeats, n + 1, 3)) * np.array([1.0, 0.1, 20.0])
    guaranteed = 0.0
    for history in layers:
        found = delta_calibrated(history[:-1], coverage=0.8, shape=shape)
        covered += bool((history[-1] <= found.delta).all())
        guaranteed = found.guaranteed
    # The exact probability is rank / (n + 1), up to the simulation's own error.
    assert guaranteed >= 0.8
    assert covered / repeats == pytest.approx(guaranteed, abs=4 * math.sqrt(0.8 * 0.2 / repeats))


def test_per_layer_radii_are_the_shape_times_a_ranked_ratio():
    layers = np.random.default_rng(1).exponential([1.0, 5.0], (40, 2))
    found = delta_calibrated(layers, coverage=0.9, shape="layer")
    assert found.evidence["role"].tolist() == ["shape"] * 10 + ["rank"] * 30
    shape = layers[:10].mean(axis=0)
    ratios = sorted((layers[10:] / shape).max(axis=1))
    np.testing.assert_allclose(found.delta, shape * ratios[27])
    assert (found.rank, found.n_ranked) == (28, 30)
    # As much of a short history as coverage needs is ranked.
    assert delta_calibrated(layers[:10], coverage=0.9, shape="layer").n_ranked == 9
    with pytest.raises(
        InvalidInputError,
        match=r"at least 10 retrainings for coverage 0.9, got 9; 9 support at most",
    ):
        delta_calibrated(layers[:9], coverage=0.9, shape="layer")


def test_a_layer_that_never_moves_has_a_quarter_of_the_largest_radius():
    layers = np.column_stack([np.arange(1.0, 13.0), np.zeros(12)])
    large, small = delta_calibrated(layers, coverage=0.5, shape="layer").delta
    assert small == pytest.approx(large / 4)
    # What starts to move in the ranked retrainings is in their ratios.
    layers[-6:, 1] = 100.0
    assert delta_calibrated(layers, coverage=0.8, shape="layer").delta[1] == pytest.approx(100.0)
    # Nothing moved in those that give the shape: one radius for all.
    layers[:3] = 0.0
    assert len(set(delta_calibrated(layers, coverage=0.8, shape="layer").delta)) == 1


@pytest.mark.parametrize("confidence", [None, 0.6])
@pytest.mark.parametrize(("n", "moving"), [(5, 0.3), (12, 0.1)])
def test_a_part_that_rarely_moves_is_covered_as_often_as_stated_among_those_that_get_radii(
    n, moving, confidence
):
    rng, runs, n = np.random.default_rng(1), 1200, n if confidence is None else n + 12
    moves = rng.exponential(size=(runs, n + 1, 3))
    moves[:, :, 2] *= rng.random((runs, n + 1)) < moving
    asked = {"coverage": 0.8, "confidence": confidence, "shape": "layer"}
    found = [delta_calibrated(history[:-1], **asked) for history in moves]
    inside = [(one[-1] <= made.delta).all() for one, made in zip(moves, found, strict=True)]
    stated = found[0].guaranteed
    assert np.mean(inside) >= stated - 3 * math.sqrt(stated * (1 - stated) / runs)


def moved_networks(rng, n):
    """A network and `n` others: heavy tails, dependent moves, drift upwards, a bias that never moves."""
    today = hf.Network(
        [rng.normal(size=(2, 3)), rng.normal(size=(1, 2))], [rng.normal(size=2), np.zeros(1)]
    )
    networks = []
    for _ in range(n):
        common = rng.lognormal(0.0, 0.7)
        steps = [common * rng.normal(0.3, 1.0, part.shape) * 10.0 ** -np.arange(part.size).reshape(part.shape)
                 for part in (*today.weights, today.biases[0])]  # fmt: skip
        networks.append(hf.Network([today.weights[0] + steps[0], today.weights[1] + steps[1]],
                                   [today.biases[0] + steps[2], today.biases[1]]))  # fmt: skip
    return today, networks


def test_coverage_of_a_radius_for_each_parameter_in_a_simulation():
    rng, covered, repeats = np.random.default_rng(0), 0, 600
    for _ in range(repeats):
        today, networks = moved_networks(rng, 21)
        found = delta_calibrated(networks[:-1], coverage=0.8, shape="parameter", origin=today)
        covered += found.changes.contains(today, networks[-1])
    # 15 of 20 are ranked: the exact probability is 13 / 16, up to the simulation's own error.
    assert (found.rank, found.n_ranked) == (13, 15)
    assert covered / repeats == pytest.approx(13 / 16, abs=4 * math.sqrt(0.8 * 0.2 / repeats))


def test_a_radius_for_each_parameter_is_a_shape_times_a_ranked_ratio():
    today, networks = moved_networks(np.random.default_rng(1), 24)
    found = delta_calibrated(networks, coverage=0.8, shape="parameter", origin=today)
    changes, ratios = found.changes, found.evidence["ratio"].to_numpy()
    assert changes.per_parameter
    assert found.evidence["role"].tolist() == ["shape"] * 6 + ["rank"] * 18
    inside = [changes.contains(today, network) for network in networks]
    assert inside == (ratios <= 1.0).tolist()
    assert sum(inside[6:]) == found.rank
    assert sorted(ratios[6:])[found.rank - 1] == pytest.approx(1.0)
    # The last bias never moved and has the floor; whatever may move may move both ways, further where it did.
    assert (found.biases[1] == min(part.min() for part in (*found.delta, *found.biases))).all()
    assert found.biases[1].min() > 0.0
    for part, weight in zip(found.delta, today.weights, strict=True):
        assert part.shape == (2, *weight.shape)
        assert (part > 0.0).all()
    moves = np.array([network.weights[0] - today.weights[0] for network in networks[:6]])
    down, up = found.delta[0]
    free = np.minimum(up, down) > found.biases[1].min()
    assert free.any()
    assert ((up > down) == (moves.max(axis=0) > -moves.min(axis=0)))[free].all()
    # Parameters that hardly move do not get the radius of those that do.
    assert down.max() / down.min() > 5.0
    assert found.shown in str(found)
    assert "ratios to the parameters' usual moves" in str(found)
    assert pickle.loads(pickle.dumps(found)).changes == changes
    assert found.plot().get_xlabel().startswith("largest move")


def test_a_radius_for_each_parameter_on_real_refits():
    """Logistic regressions refitted on fresh rows: the next one stays within as often as was said."""
    covered, asked = 0, 60
    for repeat in range(asked):
        X, y = table(25 * 60, seed=repeat)
        models = [LogisticRegression().fit(X[i::25], y[i::25]) for i in range(25)]
        found = delta_calibrated(models[1:-1], coverage=0.8, shape="parameter", origin=models[0])
        # The first model is today's for all of them, so they are exchangeable given it.
        covered += found.changes.contains(hf.load_network(models[0]), hf.load_network(models[-1]))
    assert found.guaranteed >= 0.8
    assert covered / asked == pytest.approx(found.guaranteed, abs=4 * math.sqrt(0.8 * 0.2 / asked))


def test_every_kind_of_history(perceptron, new):
    retrained = retrain(perceptron, *new, how="incremental", n=5)
    today = hf.load_network(perceptron)
    distances = retrained.distances()
    expected = pytest.approx(sorted(distances)[3])
    for history, origin in (
        (retrained, None),
        (list(retrained), perceptron),
        (list(retrained.networks), today),
        (distances, None),
        (distances.tolist(), None),
        (pd.Series(distances), None),
        (retrained.distances(per_layer=True), None),
        (delta_incremental(perceptron, *new, n=5), None),
    ):
        assert delta_calibrated(history, coverage=0.6, origin=origin).delta == expected
    chain = [today, *retrained.networks]
    steps = [hf.parameter_distance(a, b) for a, b in pairwise(chain)]
    assert delta_calibrated(chain, coverage=0.6).delta == pytest.approx(sorted(steps)[3])
    by_layer = delta_calibrated(chain, coverage=0.6, shape="layer")
    np.testing.assert_array_equal(
        by_layer.evidence.filter(like="layer_").iloc[1], layer_distances(*chain[1:3])
    )


def test_the_ranked_model_is_inside(perceptron, new):
    retrained = retrain(perceptron, *new, how="incremental", n=9)
    for shape in ("uniform", "layer", "parameter"):
        found = delta_calibrated(retrained, coverage=0.8, shape=shape)
        inside = [
            found.changes.contains(retrained.today, network) for network in retrained.networks
        ]
        # The shape comes from two of the nine, which need not lie inside.
        assert sum(inside[len(inside) - found.n_ranked :]) == found.rank


# ------------------------------------------------------------------ validation


def threshold(at):
    """Accepts x >= at. Within delta of today's (at 0.5): x is robust iff x - 0.5 >= delta (x + 1) for x >= 0."""
    return hf.Network([[[1.0]]], [[-at]])


CANDIDATES = [[0.5 + k / 100] for k in range(1, 51)]


def test_the_least_delta_is_known_in_one_dimension():
    # Recourse is the first candidate with x >= (0.5 + delta) / (1 - delta); tomorrow's model wants x >= 0.7.
    grid = [k / 100 for k in range(1, 30)]
    expected = next(
        delta
        for delta in grid
        if min(x for [x] in CANDIDATES if x - 0.5 >= delta * (x + 1.0) + 1e-12) >= 0.7
    )
    for extra in ({"deltas": grid}, {"start": 0.01, "step": 0.01, "stop": 0.29}):
        found = delta_validation(
            threshold(0.5),
            [[0.0], [0.2], [0.9]],
            retrained=[threshold(0.7)],
            candidates=CANDIDATES,
            **extra,
        )
        assert found.reached
        assert float(found) == pytest.approx(expected)
    assert found.evidence["asked"].tolist() == [2] * len(found.evidence)
    assert found.evidence["enough"].tolist() == [False] * (len(found.evidence) - 1) + [True]
    assert found.changes == hf.PlausibleChanges(float(found))
    looser = delta_validation(
        threshold(0.5),
        [[0.0]],
        retrained=[threshold(0.6), threshold(0.7)],
        candidates=CANDIDATES,
        step=0.01,
    )
    assert looser.evidence["validity_mean"].iloc[-2] == 0.5


def test_other_generators_and_the_opposite_target():
    found = delta_validation(
        threshold(0.5), [[0.9]], retrained=[threshold(0.4)], target=0, generator=Robust(MCE())
    )
    assert found.reached
    plain = delta_validation(
        threshold(0.5), [[0.1]], retrained=[threshold(0.7)], generator=NNCE(CANDIDATES)
    )
    assert not plain.reached
    assert (plain.evidence["validity"] == 0.0).all()


def test_no_delta_is_said_so_and_cannot_be_used():
    found = delta_validation(
        threshold(0.5), [[0.0]], retrained=[threshold(2.0)], candidates=CANDIDATES
    )
    assert not found.reached
    assert math.isnan(float(found))
    assert str(found).startswith("no delta: none of ")
    with pytest.raises(InvalidInputError, match="no delta: none of"):
        _ = found.changes
    # Past the delta at which no candidate is robust there is nothing left to try.
    assert found.evidence["found"].iloc[-1] == 0


def test_a_delta_that_leaves_people_without_recourse_does_not_pass():
    # The second person may not go beyond 0.6: once delta asks for more they have no recourse, which is not "all valid".
    frame = pd.DataFrame({"x": [0.0, 0.0], "cap": [1.0, 0.0]})
    today, tomorrow = (hf.Network([[[1.0, 0.0]]], [[-at]]) for at in (0.5, 0.7))
    space = hf.FeatureSpace.from_frame(
        pd.DataFrame({"x": [0.0, 1.0], "cap": [0.0, 1.0]}),
        immutable=["cap"],
        rules=["x <= 0.6 + cap"],
    )
    settings = {
        "retrained": [tomorrow],
        "space": space,
        "generator": RNCE(pd.DataFrame({"x": [x for [x] in CANDIDATES], "cap": 1.0})),
        "start": 0.01,
        "step": 0.01,
    }
    strict = delta_validation(today, frame, **settings)
    assert not strict.reached
    assert strict.evidence["found"].iloc[0] == 2
    assert (strict.evidence.query("found == 1 and surviving == 1")["enough"] == 0).all()
    relaxed = delta_validation(today, frame, coverage=0.5, **settings)
    assert relaxed.reached
    assert "recourse was found for 1 of 2 people" in str(relaxed)


def test_retrained_pipelines_are_asked_in_raw_units():
    # Tomorrow's scaler differs; in its own variables today's point would be another person.
    X, y = table(200)
    today, tomorrow = (
        make_pipeline(MinMaxScaler(), LogisticRegression()).fit(k * X, y) for k in (1.0, 3.0)
    )
    frame = pd.DataFrame(X, columns=list("abcd"))
    today.fit(frame, y)
    tomorrow.fit(3.0 * frame, y)
    found = delta_validation(today, frame, retrained=[today], deltas=[0.001])
    assert found.reached
    other = delta_validation(today, frame, retrained=[tomorrow], deltas=[0.001])
    recourse = hf.explain(today, frame[today.predict(frame) == 0], target=1, generator=RNCE(frame),
                          changes=hf.PlausibleChanges(0.001))  # fmt: skip
    assert other.evidence["surviving"][0] == (tomorrow.predict(recourse.counterfactuals) == 1).sum()
    assert not other.reached


def test_the_papers_mixture_of_retrained_models(perceptron, new):
    X, y = table(300)
    several = [
        retrain(perceptron, X, y, how="complete", X_new=new[0], y_new=new[1], n=2, epochs=30),
        retrain(perceptron, X, y, how="leave_one_out", n=2, epochs=30),
    ]
    found = delta_validation(
        perceptron, X[:40], retrained=several, candidates=X, required=0.9, stop=0.3
    )
    assert found.n_models == 4
    again = delta_validation(
        perceptron, X[:40], retrained=several, candidates=X, required=0.9, stop=0.3
    )
    pd.testing.assert_frame_equal(found.evidence, again.evidence)


# ------------------------------------------------------------------ all three


def test_pictures(perceptron, new):
    from matplotlib import pyplot

    incremental = delta_incremental(perceptron, *new, share=[0.1, 0.5], n=3)
    validation = delta_validation(
        threshold(0.5), [[0.0]], retrained=[threshold(0.6)], candidates=CANDIDATES
    )
    calibrated = delta_calibrated(incremental, coverage=0.6)
    layered = delta_calibrated(incremental, coverage=0.5, shape="layer")
    assert (
        len(
            delta_calibrated(incremental, coverage=0.5, shape="parameter")
            .plot()
            .get_legend()
            .get_texts()
        )
        == 1
    )
    axes = incremental.plot(also=[validation, calibrated])
    assert any(np.allclose(line.get_ydata(), float(incremental)) for line in axes.lines)
    assert len(axes.get_legend().get_texts()) == 4
    for found in (validation, calibrated):
        drawn = found.plot(pyplot.figure().subplots())
        assert any(np.allclose(line.get_xdata(), float(found)) for line in drawn.lines)
    assert len(layered.plot().get_legend().get_texts()) == 3
    pyplot.close("all")


def test_results_pickle(perceptron, new):
    for found in (
        delta_incremental(perceptron, *new, n=2),
        delta_calibrated([1.0, 2.0], coverage=0.5),
        delta_validation(
            threshold(0.5), [[0.0]], retrained=[threshold(0.6)], candidates=CANDIDATES
        ),
    ):
        again = pickle.loads(pickle.dumps(found))
        assert (again.delta, str(again)) == (found.delta, str(found))


X, Y = table(50)
MODEL = LogisticRegression().fit(X, Y)
BAD = {
    "statistic": (
        lambda: delta_incremental(MODEL, X, Y, statistic="median"),
        "statistic: expected 'mean', 'max'",
    ),
    "quantile": (
        lambda: delta_incremental(MODEL, X, Y, statistic=1.5),
        "statistic: expected 'mean', 'max'",
    ),
    "at": (
        lambda: delta_incremental(MODEL, X, Y, at=0.3),
        r"at: expected one of the shares \[0.1\], got 0.3",
    ),
    "share": (lambda: delta_incremental(MODEL, X, Y, share=[0.1, 2.0]), "share: expected a share"),
    "no share": (
        lambda: delta_incremental(MODEL, X, Y, share=[]),
        "at: expected one of the shares",
    ),
    "coverage": (lambda: delta_calibrated([1.0], coverage=1.0), "coverage: expected a share"),
    "confidence": (
        lambda: delta_calibrated([1.0], coverage=0.5, confidence=1),
        "confidence: expected a share",
    ),
    "negative": (
        lambda: delta_calibrated([1.0, -2.0], coverage=0.5),
        "history: expected distances >= 0, got -2",
    ),
    "nan": (
        lambda: delta_calibrated([1.0, math.nan], coverage=0.5),
        "history: expected distances >= 0, got nan",
    ),
    "one model": (
        lambda: delta_calibrated([MODEL], coverage=0.5),
        "history: expected at least two models",
    ),
    "not a history": (lambda: delta_calibrated(MODEL), "history: expected a sequence"),
    "layers of numbers": (
        lambda: delta_calibrated([1.0] * 20, shape="layer"),
        "history: shape='layer' needs models, or",
    ),
    "parameters of numbers": (
        lambda: delta_calibrated([[1.0]] * 20, coverage=0.5, shape="parameter"),
        "history: shape='parameter' needs models, got one distance",
    ),
    "shape": (
        lambda: delta_calibrated([1.0], shape="round"),
        "shape: expected 'uniform', 'layer', or 'parameter'",
    ),
    "shape and norm": (
        lambda: delta_calibrated([MODEL, MODEL], shape="parameter", norm=2),
        "shape: expected .* with norm=inf, got 'parameter' with norm=2",
    ),
    "too few for a shape": (
        lambda: delta_calibrated([MODEL] * 10, coverage=0.9, shape="parameter"),
        "history: expected at least 10 retrainings for coverage 0.9, got 9; 9 support at most 0.889",
    ),
    "ragged": (
        lambda: delta_calibrated([[1.0], [1.0, 2.0]], coverage=0.5),
        "history: expected distances",
    ),
    "no models": (
        lambda: delta_validation(MODEL, X, retrained=[]),
        "retrained: expected at least one",
    ),
    "a model alone": (
        lambda: delta_validation(MODEL, X, retrained=MODEL),
        "retrained: expected a list of models",
    ),
    "required": (
        lambda: delta_validation(MODEL, X, retrained=[MODEL], required=0),
        "required: expected a share",
    ),
    "found": (
        lambda: delta_validation(MODEL, X, retrained=[MODEL], coverage=2),
        "coverage: expected a share",
    ),
    "order": (
        lambda: delta_validation(MODEL, X, retrained=[MODEL], deltas=[2, 1]),
        "deltas: expected some, in rising",
    ),
    "stop": (
        lambda: delta_validation(MODEL, X, retrained=[MODEL], start=1),
        "stop: expected at least start",
    ),
    "step": (
        lambda: delta_validation(MODEL, X, retrained=[MODEL], step=0),
        "step: expected a number > 0",
    ),
    "nobody": (
        lambda: delta_validation(MODEL, X[MODEL.predict(X) == 1], retrained=[MODEL]),
        "X_validation: the model gives everyone 1 already",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    call, message = BAD[name]
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_a_model_that_retraining_leaves_alone_has_no_changes():
    found = delta_incremental(MODEL, X, Y, retrain=lambda model, X, y, seed: model)
    assert float(found) == 0.0
    with pytest.raises(InvalidInputError, match="retraining did not move the model"):
        _ = found.changes
