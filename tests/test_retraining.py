"""Retrained models: from the right rows, with the right seeds, by the trainer that each model needs."""

import itertools
import pickle
from dataclasses import dataclass

import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import holdfast as hf
from holdfast.changes import parameter_distance
from holdfast.errors import InvalidInputError
from holdfast.retraining import layer_distances, retrain
from holdfast.retraining._trainers import BATCH, LEARNING_RATE


def table(n, seed=0, d=4):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, (X[:, 0] + X[:, 1] + rng.normal(0.0, 0.2, n) > 1.0).astype(int)


@pytest.fixture(scope="module")
def perceptron():
    return MLPClassifier(
        (5, 3), max_iter=500, batch_size=32, learning_rate_init=0.01, random_state=0
    ).fit(*table(300))


@dataclass(frozen=True)
class Remember:
    """A trainer that leaves a trace of what it was given: the mean of its rows, and the seed, as parameters."""

    def __call__(self, model, X, y, seed):
        return hf.Network([[np.asarray(X, dtype=float).mean(axis=0)]], [[float(seed)]])


LINE = hf.Network([np.zeros((1, 4))], [[0.0]])


@pytest.mark.parametrize(
    ("how", "rows"), [("incremental", 20), ("complete", 250), ("leave_one_out", 297)]
)
def test_each_way_learns_from_its_rows(how, rows):
    (X, y), (X_new, y_new) = table(300), table(200, seed=1)
    result = retrain(LINE, X, y, how=how, X_new=X_new + 10.0, y_new=y_new, n=3, retrain=Remember())
    assert (len(result), result.n_rows, result.how) == (3, rows, how)
    assert [network.biases[0][0] for network in result.networks] == list(result.seeds)
    assert len(set(result.seeds)) == 3
    old_share = {"incremental": 0.0, "complete": 300 / 500, "leave_one_out": 1.0}[how]
    for network in result.networks:
        expected = 0.5 + 10.0 * (1 - old_share)
        # Rows that are drawn with replacement are not half and half.
        near = 1.0 if how == "complete" else 0.25
        np.testing.assert_allclose(network.weights[0], expected, atol=near)


def test_the_rows_of_a_run_are_drawn_without_repeats_and_a_larger_share_adds_to_them():
    seen = {}

    def note(model, X, y, seed):
        seen.setdefault(seed, []).append([tuple(row) for row in X])
        return model

    X, y = table(100)
    for share in (0.1, 0.4, 1.0):
        retrain(LINE, X, y, how="incremental", share=share, n=2, retrain=note)
    assert len(seen) == 2
    for small, large, whole in seen.values():
        assert [len(set(rows)) for rows in (small, large, whole)] == [10, 40, 100]
        assert set(small) < set(large) < set(whole)
    first, second = seen.values()
    assert set(first[0]) != set(second[0])


def test_disjoint_runs_share_no_row():
    seen = []

    def note(model, X, y, seed):
        seen.append({tuple(row) for row in X})
        return model

    result = retrain(
        LINE, *table(99), how="incremental", share=0.1, n=10, disjoint=True, retrain=note
    )
    assert (len(seen), result.n_rows, {len(rows) for rows in seen}) == (10, 9, {9})
    assert len(set.union(*seen)) == 90
    assert len(set(result.seeds)) == 10


def test_more_runs_leave_the_first_as_they_are(perceptron):
    X, y = table(100, seed=2)
    few, many = (retrain(perceptron, X, y, how="incremental", n=n, seed=7) for n in (2, 4))
    assert many.networks[:2] == few.networks
    assert many.networks != retrain(perceptron, X, y, how="incremental", n=4, seed=8).networks


@pytest.mark.parametrize("how", ["incremental", "leave_one_out"])
def test_the_number_of_processes_does_not_matter(perceptron, how):
    X, y = table(100, seed=2)
    one, two = (
        retrain(perceptron, X, y, how=how, n=4, epochs=3, n_jobs=n_jobs) for n_jobs in (None, 2)
    )
    assert one.networks == two.networks
    assert one.seeds == two.seeds


def test_incremental_is_partial_fit_from_todays_parameters(perceptron):
    X, y = table(40, seed=3)
    result = retrain(perceptron, X, y, how="incremental", share=1.0, n=1)
    by_hand = pickle.loads(pickle.dumps(perceptron)).set_params(random_state=result.seeds[0])
    order = np.random.default_rng(result.seeds[0]).permutation(40)
    by_hand.partial_fit(X[order], y[order])
    assert result.networks[0] == hf.load_network(by_hand)
    assert result.models[0].get_params() == perceptron.get_params()


def test_today_is_left_alone(perceptron):
    before = pickle.dumps(perceptron)
    X, y = table(40, seed=3)
    for how in ("incremental", "complete", "leave_one_out"):
        retrain(perceptron, X, y, how=how, n=1, epochs=1)
    assert pickle.dumps(perceptron) == before


def test_from_scratch_is_a_fit_with_the_same_settings_and_another_seed(perceptron):
    X, y = table(120, seed=4)
    result = retrain(perceptron, X, y, how="complete", n=2, bootstrap=False)
    for seed, network in zip(result.seeds, result.networks, strict=True):
        by_hand = MLPClassifier(
            (5, 3), max_iter=500, batch_size=32, learning_rate_init=0.01, random_state=seed
        )
        assert network == hf.load_network(by_hand.fit(X, y))
    assert result.networks[0] != result.networks[1]


BOOSTED = {
    "LightGBM": lambda: lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1),
    "XGBoost": lambda: xgboost.XGBClassifier(n_estimators=5, n_jobs=1),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=5),
}


@pytest.mark.parametrize("name", BOOSTED)
def test_from_scratch_draws_rows_anew_so_that_models_are_no_copies(name):
    X, y = table(200)
    model = BOOSTED[name]().fit(X, y)
    drawn = retrain(model, X, y, how="complete", n=4)
    scores = [one.predict_proba(X)[:, 1].tolist() for one in drawn]
    assert all(a != b for a, b in itertools.combinations(scores, 2))
    assert (drawn.n_rows, drawn.share) == (100, 0.5)
    assert "distinct" not in repr(drawn)
    copies = retrain(model, X, y, how="complete", n=4, bootstrap=False)
    assert copies.n_rows == 200
    assert "only 1 of these 4 models are distinct" in repr(copies)
    assert retrain(model, X, y, how="complete", n=2, share=1.0).n_rows == 200


def test_half_as_many_rows_drawn_with_replacement_imitate_as_many_new_rows():
    """The variance of a mean of new rows around today's is 2 / n, and so is that of these draws; of all rows, 1 / n."""
    moves = {0.5: [], 1.0: [], "new": []}
    for seed in range(40):
        rows = np.random.default_rng(seed).normal(size=(200, 1))
        model = hf.Network([[[rows[:100].mean()]]], [[0.0]])
        mean = Mean()
        for share in (0.5, 1.0):
            made = retrain(
                model,
                rows[:100],
                np.arange(100) % 2,
                how="complete",
                n=10,
                share=share,
                retrain=mean,
            )
            moves[share] += [parameter_distance(made.today, one) ** 2 for one in made.networks]
        moves["new"].append((rows[:100].mean() - rows[100:].mean()) ** 2)
    new, half, whole = (100 * np.mean(moves[way]) for way in ("new", 0.5, 1.0))
    assert half == pytest.approx(2.0, abs=0.4)
    assert whole == pytest.approx(1.0, abs=0.2)
    assert new == pytest.approx(2.0, abs=1.0)


class Mean:
    """A trainer whose one weight is the mean of its rows."""

    def __call__(self, model, X, y, seed):
        return hf.Network([[[float(X.mean())]]], [[0.0]])


def test_distances_are_parameter_distances(perceptron):
    X, y = table(60, seed=5)
    result = retrain(perceptron, X, y, how="incremental", n=3, epochs=2)
    today = hf.load_network(perceptron)
    for norm in (1.0, 2.0, np.inf):
        expected = [hf.parameter_distance(today, network, norm) for network in result.networks]
        np.testing.assert_array_equal(result.distances(norm), expected)
        layers = result.distances(norm, per_layer=True)
        assert layers.shape == (3, 3)
        np.testing.assert_allclose(np.linalg.norm(layers, norm, axis=1), expected, rtol=1e-12)


def test_first_step_of_logistic_regression_is_the_learning_rate_along_the_sign_of_the_gradient():
    X, y = table(BATCH)
    model = LogisticRegression(C=0.7).fit(*table(300, seed=1))
    tuned = retrain(model, X, y, how="incremental", share=1.0, n=1).models[0]
    error = model.predict_proba(X)[:, 1] - y
    slope = error @ X / BATCH + model.coef_[0] / (0.7 * BATCH)
    np.testing.assert_allclose(
        tuned.coef_[0], model.coef_[0] - LEARNING_RATE * np.sign(slope), atol=1e-6
    )
    np.testing.assert_allclose(
        tuned.intercept_, model.intercept_ - LEARNING_RATE * np.sign(error.mean()), atol=1e-6
    )


@pytest.mark.parametrize("labels", [2, 3])
def test_logistic_regression_fine_tuned_for_long_comes_to_its_own_optimum(labels):
    X, _ = table(200)
    y = (
        X[:, :labels].argmax(axis=1)
        + np.random.default_rng(0).integers(0, labels, 200) // (labels - 1)
    ) % labels
    start = LogisticRegression(C=5.0).fit(*(X[:60], y[:60]))
    optimum = LogisticRegression(C=5.0, tol=1e-10, max_iter=10_000).fit(X, y)
    tuned = retrain(start, X, y, how="incremental", share=1.0, n=1, epochs=5000).models[0]
    np.testing.assert_allclose(tuned.coef_, optimum.coef_, atol=2e-3)


def test_logistic_regression_keeps_a_missing_intercept_and_counts_class_weights():
    X, y = table(BATCH)
    flat = LogisticRegression(fit_intercept=False).fit(X, y)
    assert retrain(flat, X, y, how="incremental", n=1).models[0].intercept_ == 0.0
    weighted = LogisticRegression(class_weight={0: 1.0, 1: 50.0}).fit(X, y)
    plain = LogisticRegression().fit(X, y)
    plain.coef_, plain.intercept_ = weighted.coef_.copy(), weighted.intercept_.copy()
    settings = {"how": "incremental", "share": 1.0, "n": 1, "epochs": 5}
    kept, lost = (
        retrain(model, X, y, **settings).models[0].intercept_ for model in (weighted, plain)
    )
    assert lost < kept


def test_a_pipeline_keeps_its_preprocessing_and_takes_raw_tables():
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {"income": rng.integers(10, 90, 400) * 1000, "home": rng.choice(["own", "rent"], 400)}
    )
    y = np.where(people["income"] > 50_000, "yes", "no")
    encode = ColumnTransformer(
        [("n", MinMaxScaler(), ["income"]), ("c", OneHotEncoder(), ["home"])]
    )
    model = Pipeline(
        [("encode", encode), ("classify", MLPClassifier((4,), max_iter=30, random_state=0))]
    )
    with pytest.warns(match="hasn't converged"):
        model.fit(people[:200], y[:200])
    for how in ("incremental", "complete"):
        result = retrain(
            model, people[:200], y[:200], X_new=people[200:], y_new=y[200:], how=how, n=2
        )
        assert all(
            retrained.named_steps["encode"] is model.named_steps["encode"] for retrained in result
        )
        np.testing.assert_array_equal(
            result[0].predict(people), result.networks[0].predict(encode.transform(people))
        )
        assert (result.distances() > 0).all()


def test_a_search_gives_way_to_the_model_it_found():
    X, y = table(100)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"logisticregression__C": [1.0]},
        cv=2,
    )
    result = retrain(search.fit(X, y), X, y, how="complete", n=1, bootstrap=False)
    assert isinstance(result[0], Pipeline)
    assert result.distances()[0] < 1e-3


def test_named_columns_and_a_space_come_through_without_warnings():
    X, y = table(100)
    frame = pd.DataFrame(X, columns=list("abcd"))
    space = hf.FeatureSpace.from_frame(frame, scale="none")
    model = MLPClassifier(
        (3,), max_iter=400, batch_size=50, random_state=0, learning_rate_init=0.05
    )
    model.fit(frame, y)
    for how in ("incremental", "complete", "leave_one_out"):
        retrain(model, frame, y, how=how, n=1, space=space)
    seen = []
    retrain(
        model,
        frame,
        y,
        how="complete",
        n=1,
        bootstrap=False,
        space=space,
        retrain=lambda m, X, y, seed: seen.append(X) or m,
    )
    np.testing.assert_array_equal(seen[0], space.encode(frame))


def test_early_stopping_does_not_stand_in_the_way():
    X, y = table(300)
    model = MLPClassifier(
        (4,), early_stopping=True, max_iter=300, random_state=0, learning_rate_init=0.01
    ).fit(X, y)
    result = retrain(model, X, y, how="incremental", n=1, epochs=2)
    assert result.distances()[0] > 0
    assert result[0].early_stopping


def test_a_share_without_one_of_the_classes_is_no_trouble(perceptron):
    X, _ = table(50)
    assert (
        retrain(perceptron, X, np.ones(50, dtype=int), how="incremental", n=2).distances().min() > 0
    )


def test_a_torch_module_is_retrained_by_a_function():
    X, y = table(80)
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)
    ).eval()

    def fine_tune(model, X, y, seed):
        torch.manual_seed(seed)
        tuned = pickle.loads(pickle.dumps(model))
        optimiser = torch.optim.SGD(tuned.parameters(), lr=0.1)
        inputs, labels = (
            torch.tensor(X, dtype=torch.float32),
            torch.tensor(y, dtype=torch.float32)[:, None],
        )
        torch.nn.functional.binary_cross_entropy_with_logits(tuned(inputs), labels).backward()
        optimiser.step()
        return tuned

    result = retrain(module, X, y, how="incremental", n=2, share=0.5, retrain=fine_tune)
    assert all(isinstance(model, torch.nn.Module) for model in result)
    assert (result.distances() > 0).all()
    assert result.networks[0] != result.networks[1]


def test_the_result_is_a_sequence_and_pickles(perceptron):
    X, y = table(60)
    result = retrain(perceptron, X, y, how="incremental", n=3)
    assert len(result[1:]) == 2
    assert list(result) == list(result.models)
    assert result[0] in result
    again = pickle.loads(pickle.dumps(result))
    assert (again.networks, again.seeds, again.today) == (
        result.networks,
        result.seeds,
        result.today,
    )
    assert "3 x incremental on 6 rows" in repr(result)


def test_layer_distances_need_the_same_shape():
    with pytest.raises(InvalidInputError, match="same shape"):
        layer_distances(LINE, hf.Network([np.zeros((1, 3))], [[0.0]]))


X, Y = table(60)
BAD = {
    "how": ({"how": "weekly"}, "how: expected one of"),
    "share above one": ({"share": 1.5}, "share: expected a share"),
    "share of nothing": ({"share": 0.0}, "share: expected a share"),
    "removed": ({"how": "leave_one_out", "removed": -0.1}, "removed: expected a share"),
    "n": ({"n": 0}, "n: expected a whole number >= 1"),
    "epochs": ({"epochs": 0}, "epochs: expected a whole number >= 1"),
    "labels of another length": ({"y": Y[:10]}, "y: expected a label for each of the 60 rows of X"),
    "no labels": ({"y": None}, "y: expected data to train on"),
    "unknown label": ({"y": np.full(60, 7)}, r"y: expected the model's classes \[0, 1\], got 7"),
    "columns": ({"X": X[:, :2]}, "X: expected a table with 4 columns"),
    "new columns": ({"X_new": X[:, :2], "y_new": Y}, "X_new: expected a table with 4 columns"),
    "disjoint": (
        {"disjoint": True, "n": 3, "share": 0.4},
        "disjoint: expected incremental runs with n \\* share <= 1",
    ),
    "disjoint from scratch": (
        {"disjoint": True, "how": "complete"},
        "disjoint: expected incremental runs",
    ),
    "a network without a function": ({"model": LINE}, "retrain: a Network needs a function"),
    "another shape": (
        {"retrain": lambda model, X, y, seed: hf.Network([np.zeros((1, 3))], [[0.0]])},
        "retrain: expected a model with the shape",
    ),
    "a function that returns nothing": (
        {"retrain": lambda model, X, y, seed: None},
        "^retrain: the function must return the retrained model; it returned NoneType",
    ),
    "a share of no draw": (
        {"how": "leave_one_out", "share": 0.5},
        "share: leave it out for how='leave_one_out'",
    ),
    "nothing to draw": ({"bootstrap": True}, "bootstrap: leave it out for how='incremental'"),
    "lbfgs": (
        {"model": MLPClassifier((2,), solver="lbfgs", max_iter=1000, random_state=0).fit(X, Y)},
        "solver='lbfgs' cannot be fine-tuned; pass retrain=",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(perceptron, name):
    changed, message = BAD[name]
    arguments = {"model": perceptron, "X": X, "y": Y, "how": "incremental", "n": 1} | changed
    with pytest.raises(InvalidInputError, match=message):
        retrain(arguments.pop("model"), arguments.pop("X"), arguments.pop("y"), **arguments)
