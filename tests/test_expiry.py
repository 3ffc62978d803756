"""How long a promise lasts: counted windows, and the stated probability on simulated histories."""

import datetime
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.errors import InvalidInputError
from holdfast.importers import Model
from holdfast.promises import promise_expiry


def walk(n, seed, step=0.01, size=30):
    """Models that move by an independent step at each retraining."""
    rng = np.random.default_rng(seed)
    path = np.cumsum(rng.normal(0.0, step, (n + 1, size + 1)), axis=0)
    return [hf.Network([row[None, :-1]], [row[-1:]]) for row in path], path


def test_windows_are_disjoint_end_at_the_newest_model_and_count_every_step_on_the_way():
    models, path = walk(11, seed=0)
    found = promise_expiry([0.1], models, horizon=4, confidence=0.5)
    for k in range(1, 5):
        starts = list(range(11 - k, -1, -k))
        scores = sorted(
            max(np.abs(path[i + j] - path[i]).max() for j in range(1, k + 1)) for i in starts
        )
        assert found.windows[k - 1] == len(starts)
        rank = -(-(len(starts) + 1) // 2)
        assert found.drift[k - 1] == pytest.approx(
            max(scores[rank - 1], *found.drift[: k - 1], 0.0)
        )


def test_distances_alone_add_up():
    found = promise_expiry([1.0], [1.0, 2.0, 4.0, 8.0, 16.0], horizon=3, confidence=0.5)
    # One step: the third of five. Two: the larger of 2 + 4 and 8 + 16. Three: one window is enough for a half.
    np.testing.assert_allclose(found.drift, [4.0, 24.0, 28.0])
    runs = promise_expiry([1.0], [[1.0, 3.0], [2.0, 1.0], [3.0, 5.0]], horizon=3, confidence=0.5)
    np.testing.assert_allclose(runs.drift, [2.0, 3.0, np.nan])
    assert runs.needed.tolist() == [1, 1, 1]


def test_a_short_history_says_how_long_it_would_have_to_be():
    found = promise_expiry([0.5, 0.001], [0.01] * 20, horizon=3, confidence=0.95)
    assert found.needed.tolist() == [19, 38, 57]
    assert found.known == 1
    assert found.retrainings.tolist() == [1, 0]
    assert found.limited.tolist() == [True, False]
    assert found.describe(0) == (
        "kept through the next monthly retraining, if the model moves by less than 0.5: with "
        "probability 95% it moves by up to 0.01 in a number of retrainings fixed beforehand; "
        "38 retrainings are needed to look further ahead"
    )
    assert "may break at the next monthly retraining" in found.describe(1)
    nothing = promise_expiry([0.5], [0.01] * 18, confidence=0.95)
    assert (nothing.known, nothing.retrainings.tolist()) == (0, [0])
    assert nothing.describe(0) == (
        "19 retrainings are needed for a statement with probability 95%, the history has 18"
    )


def test_a_radius_becomes_a_date():
    found = promise_expiry(
        [0.05, 0.5, 0.01],
        [0.02] * 30,
        horizon=3,
        confidence=0.9,
        start="2026-11-30",
        period="month",
    )
    assert found.retrainings.tolist() == [2, 3, 0]
    assert found.through == [
        datetime.date(2027, 1, 30),
        datetime.date(2027, 2, 28),
        datetime.date(2026, 11, 30),
    ]
    assert found.describe(1) == (
        "kept through the next 3 monthly retrainings, to 2027-02-28, if the model moves by less than 0.5: with "
        "probability 90% it moves by up to 0.06 in a number of retrainings fixed beforehand"
    )
    assert found.to_frame()["through"].tolist() == found.through


@pytest.mark.parametrize("k", [1, 3])
def test_the_stated_probability_holds_for_retrainings_like_those_before(k):
    rng = np.random.default_rng(0)
    confidence, n, held, runs = 0.8, 4 * k, 0, 600
    for _ in range(runs):
        path = np.cumsum(rng.standard_t(3, (n + k + 1, 8)) * 0.01, axis=0)
        models = [hf.Network([row[None, :-1]], [row[-1:]]) for row in path[: n + 1]]
        found = promise_expiry([1.0], models, horizon=k, confidence=confidence)
        held += (
            max(np.abs(path[n + j] - path[n]).max() for j in range(1, k + 1)) <= found.drift[k - 1]
        )
    # At least 0.8, up to three standard errors of what is counted.
    assert held / runs >= confidence - 3 * np.sqrt(0.16 / runs)
    assert k > 1 or held / runs <= confidence + 3 * np.sqrt(0.16 / runs)


# ---------------------------------------------------------------- which column is which


def named(n, seed, orders):
    """Retrainings of one model, each with its columns in an order of its own."""
    networks, path = walk(n, seed, size=3)
    names = ("age", "debt", "income")
    models = []
    for network, order in zip(networks, orders, strict=True):
        weights = [network.weights[0][:, list(order)]]
        models.append(
            Model(
                network.with_parameters(weights, network.biases),
                feature_names=tuple(names[i] for i in order),
            )
        )
    return models, networks, path


def test_columns_in_another_order_are_put_right():
    orders = [(0, 1, 2), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)]
    models, networks, _ = named(5, 0, orders)
    right, found = (
        promise_expiry([0.1], history, horizon=2, confidence=0.5) for history in (networks, models)
    )
    np.testing.assert_array_equal(found.drift, right.drift)
    bare = promise_expiry([0.1], [model.network for model in models], horizon=2, confidence=0.5)
    assert (bare.drift > 1.3 * right.drift).all()
    # A network that knows no names is taken to read what the others read.
    mixed = promise_expiry([0.1], [*models[:-1], networks[0]], horizon=2, confidence=0.5)
    assert np.isfinite(mixed.drift).all()


def test_models_of_other_classes_are_refused():
    one, other = (
        hf.Network([[[1.0]]], [[0.0]], classes=labels) for labels in (["no", "yes"], ["yes", "no"])
    )
    with pytest.raises(InvalidInputError, match="history: expected models with the classes"):
        promise_expiry([0.1], [one, other, one], horizon=1, confidence=0.5)


def test_models_that_read_something_else_are_refused():
    models, _, _ = named(2, 0, [(0, 1, 2)] * 3)
    stranger = replace(models[1], feature_names=("age", "debt", "rent"))
    with pytest.raises(
        InvalidInputError, match=r"the same columns, got \['age', 'debt', 'rent'\] in number 2 and"
    ):
        promise_expiry([0.1], [models[0], stranger, models[2]])
    rng = np.random.default_rng(0)
    tables = [
        pd.DataFrame(rng.normal(size=(40, 2)) * scale, columns=["debt", "income"])
        for scale in (1, 1, 3)
    ]
    fitted = [
        make_pipeline(StandardScaler(), LogisticRegression()).fit(X, X["income"] > 0)
        for X in tables
    ]
    with pytest.raises(InvalidInputError, match="the same preprocessing, got another in number 1"):
        promise_expiry([0.1], fitted)
    scaler = fitted[0][0]
    shared = [
        make_pipeline(scaler, LogisticRegression().fit(scaler.transform(X), X["income"] > 0))
        for X in tables
    ]
    assert promise_expiry([0.1], shared, confidence=0.5).known == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": []}, "history: expected models or distances, got none"),
        ({"history": [0.1, -0.1]}, "expected finite distances >= 0"),
        ({"history": [hf.Network([[[1.0]]], [[0.0]])]}, "at least two models"),
        ({"confidence": 1.0}, "confidence: expected a share above 0 and below 1"),
        ({"horizon": 0}, "horizon: expected a whole number"),
        ({"period": "fortnight"}, "period: expected one of"),
        ({"radius": [-1.0]}, "radius: expected numbers >= 0"),
        ({"radius": object()}, "radius: expected numbers >= 0, one for each promise, got float"),
        ({"start": "soon"}, "start: expected a date"),
    ],
)
def test_bad_input_is_refused(options, message):
    settings = {"radius": [0.1], "history": [0.1] * 5} | options
    with pytest.raises(InvalidInputError, match=message):
        promise_expiry(settings.pop("radius"), settings.pop("history"), **settings)


@pytest.mark.parametrize("start", ["05.01.2026", "01/05/2026", "soon"])
def test_a_start_that_could_be_two_days_is_refused(start):
    with pytest.raises(InvalidInputError, match="start: expected a date such as"):
        promise_expiry([0.1], [0.01] * 40, start=start)
