"""Risk control: the rule against simulation, the promises and losses against a count by hand, and what is refused."""

import pickle
import re
import weakref
from fractions import Fraction

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.calibration import risk_bounds
from holdfast.errors import InvalidInputError

mpl.use("Agg")

BROKEN, N = 0.1, 20


def line(bias):
    """Accepts x >= -bias."""
    return hf.Network([[[1.0]]], [[bias]])


TODAY = line(-0.5)
PEOPLE = np.linspace(0.0, 0.45, 10)[:, None]
ROWS = np.linspace(0.5, 1.0, 51)[:, None]


def later(n=N, seed=0, spread=0.05, past=0.5):
    return [line(-past - move) for move in np.random.default_rng(seed).normal(0.0, spread, n)]


def found_with(**options):
    given = {"target": 1, "retrained": later(), "generator": hf.RNCE(ROWS)}
    return hf.risk_calibrated(TODAY, PEOPLE, **(given | options))


# ------------------------------------------------------------------ the guarantee


def chosen(losses, broken, probability=None):
    allowed = broken if probability is None else 1.0 - probability
    passes = np.flatnonzero(risk_bounds(losses, broken, probability) <= allowed + 1e-9)
    return passes[0] if passes.size else None


def exchangeable(rng, n, *, wobble, people=30, settings=12):
    """Models that move the threshold of everyone alike, some far; promises at a setting have that margin or more."""
    spare = np.linspace(0.0, 3.0, settings) + rng.exponential(0.3, (people, 1))
    moves = rng.standard_t(3, (n, 1, 1)) * rng.choice([0.3, 1.0])
    # With a wobble losses do not fall: a promise may be broken at a setting and kept at a smaller one.
    return (moves + rng.normal(0.0, wobble, (n, people, settings)) > spare).mean(axis=1)


@pytest.mark.parametrize("wobble", [0.0, 0.5])
@pytest.mark.parametrize("n", [9, 20])
@pytest.mark.parametrize("probability", [None, 0.9])
def test_the_next_model_breaks_no_more_than_was_asked_on_average(probability, n, wobble):
    rng, repeats = np.random.default_rng(1), 1500
    worlds = (exchangeable(rng, n + 1, wobble=wobble) for _ in range(repeats))
    lost = np.zeros(repeats)
    for i, losses in enumerate(worlds):
        place = chosen(losses[:n], BROKEN, probability)
        if place is not None:
            lost[i] = losses[n, place] if probability is None else losses[n, place] > BROKEN
    error = lost.std() / np.sqrt(repeats)
    assert lost.mean() <= BROKEN + 3 * error
    # Nor is it won by promising nothing, where there are more models than it takes.
    assert n == 9 or lost.mean() >= BROKEN / 5


def test_without_the_running_maximum_the_guarantee_would_be_lost():
    # Every model breaks all at one of many settings and nothing elsewhere: the least loss is found by luck.
    rng, n, settings, repeats = np.random.default_rng(0), 9, 20, 400
    lost, lost_by_luck = [], []
    for _ in range(repeats):
        losses = np.zeros((n + 1, settings))
        losses[np.arange(n + 1), rng.integers(0, settings - 1, n + 1)] = 1.0
        place = chosen(losses[:n], BROKEN)
        lost.append(losses[n, place] if place is not None else 0.0)
        bounds = (losses[:n].sum(axis=0) + 1) / (n + 1)
        lost_by_luck.append(losses[n, bounds.argmin()])
    assert np.mean(lost) <= BROKEN
    assert np.mean(lost_by_luck) > 0.0


def test_bounds_fall_and_lie_above_every_mean():
    losses = np.random.default_rng(0).random((15, 30))
    usable = np.arange(30) % 3 > 0
    for probability in (None, 0.8):
        bounds = risk_bounds(losses, 0.4, probability, usable)
        assert (np.diff(bounds[usable]) <= 0).all()
        own = losses if probability is None else losses > 0.4
        assert (bounds[usable] > own[:, usable].mean(axis=0)).all()
    # A setting that is out says nothing about the others.
    spoilt = losses.copy()
    spoilt[:, ~usable] = np.nan
    np.testing.assert_array_equal(
        risk_bounds(spoilt, 0.4, None, usable)[usable],
        risk_bounds(losses, 0.4, None, usable)[usable],
    )


def test_models_that_were_not_seen_break_no_more_than_was_asked():
    lost = []
    settings = np.linspace(0.0, 0.3, 16)
    models = later(2000, seed=5)
    found = found_with(retrained=iter(models), settings=settings)
    for split in range(300):
        order = np.random.default_rng(split).permutation(len(models))
        place = chosen(found.losses[order[:N]], BROKEN)
        lost.append(found.losses[order[N:], place].mean())
    assert np.mean(lost) <= BROKEN


# ------------------------------------------------------------------ against a count by hand


@pytest.mark.parametrize("probability", [None, 0.9])
@pytest.mark.parametrize("seed", range(4))
def test_the_setting_is_the_least_that_passes_counted_in_fractions(seed, probability):
    models = later(24, seed)
    found = found_with(retrained=iter(models), probability=probability)
    settings = found.evidence["setting"].tolist()
    answers = {
        setting: hf.explain(
            TODAY, PEOPLE, target=1, changes=hf.PlausibleShift(setting), generator=hf.RNCE(ROWS)
        ) for setting in settings
    }  # fmt: skip
    shares = [[_share(model, answers[setting]) for setting in settings] for model in models]
    np.testing.assert_allclose(found.losses, np.array(shares, dtype=float), rtol=1e-14, atol=1e-14)
    everyone = [setting for setting in settings if answers[setting].found.all()]
    passing = []
    for setting in everyone:
        worst = [max(row[settings.index(s)] for s in everyone if s >= setting) for row in shares]
        if probability is not None:
            worst = [Fraction(int(share > Fraction("0.1"))) for share in worst]
        if (sum(worst) + 1) / (len(models) + 1) <= Fraction("0.1"):
            passing.append(setting)
    assert found.size == min(passing)
    assert found.evidence.query("passes")["setting"].tolist() == passing
    assert found.changes == hf.PlausibleShift(found.size).calibrated(found.chance)
    assert (found.chance.broken, found.chance.models, found.chance.probability) == (
        0.1,
        24,
        probability,
    )


def _share(model, recourse):
    points = recourse.points[recourse.found]
    return Fraction(int((model.predict(points) != 1).sum()), len(points)) if len(points) else np.nan


def test_the_least_setting_is_the_nearest_row():
    nearest = hf.explain(TODAY, PEOPLE, target=1, generator=hf.NNCE(ROWS))
    first = found_with().evidence.iloc[0]
    assert (first["setting"], first["cost_l1"]) == (0.0, nearest.cost_l1.mean())


def test_settings_know_nothing_of_the_retrained_models():
    calm, wild = (
        found_with(retrained=later(spread=0.001)),
        found_with(retrained=later(spread=0.2), coverage=1.0),
    )
    columns = ["setting", "promises", "cost_l1", "coverage"]
    pd.testing.assert_frame_equal(calm.evidence[columns], wild.evidence[columns])
    assert calm.size < 0.02
    assert not wild.reached or wild.size > calm.size


def test_every_model_is_asked_once_and_none_is_kept():
    alive, most = weakref.WeakSet(), [0]

    class Some:
        classes_ = np.array([0, 1])
        n_features_in_ = 1

        def predict_proba(self, X):
            asked.append(self.number)
            p = 1.0 / (1.0 + np.exp(-100.0 * (np.asarray(X)[:, :1] - 0.52)))
            return np.hstack([1.0 - p, p])

    asked = []

    def models():
        for number in range(N):
            one = Some()
            one.number = number
            alive.add(one)
            most[0] = max(most[0], len(alive))
            yield one
            del one

    found = found_with(retrained=models())
    assert asked == list(range(N))
    assert most[0] <= 2
    assert found.chance.models == N


# ------------------------------------------------------------------ kinds of change, kinds of models


FAMILIES = {
    "a shift": (hf.PlausibleShift, hf.PlausibleShift, 0.0),
    "parameters": (hf.PlausibleChanges, hf.PlausibleChanges, None),
    "a value of another size": (hf.PlausibleShift(7.0), hf.PlausibleShift, 0.0),
    "layers": (hf.PlausibleChanges((0.5,), biases=False), hf.PlausibleChanges, None),
    "an ensemble": (hf.EnsembleShift(later(5, seed=9), 0.0), hf.EnsembleShift, 0.0),
    "an ellipsoid": (hf.Ellipsoid.of(TODAY, ROWS), hf.Ellipsoid, 0.0),
    "a function": (lambda size: hf.PlausibleShift(2.0 * size), hf.PlausibleShift, 0.0),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_any_family_can_be_varied(name):
    family, kind, least = FAMILIES[name]
    found = found_with(family=family, coverage=0.9)
    assert found.reached
    assert isinstance(found.changes, kind)
    assert found.changes.chance == found.chance
    first = found.evidence["setting"].iloc[0]
    assert first == least if least is not None else 0.0 < first < 1e-5
    assert found.changes.size == pytest.approx(
        found.size * (2.0 if name == "a function" else 1.0), rel=1e-12
    )
    again = hf.explain(TODAY, PEOPLE, target=1, changes=found.changes, generator=hf.RNCE(ROWS))
    row = found.evidence[found.evidence["setting"] == found.size].iloc[0]
    assert again.cost_l1[again.found].mean() == row["cost_l1"]
    assert not np.isnan(found.losses[:, :-1]).all()


def test_a_generator_that_goes_to_the_boundary_needs_a_scale_that_is_not_its_own():
    found = found_with(generator=hf.Closest(), settings=None)
    assert found.reached
    assert 0.0 < found.size < 0.5


@pytest.fixture(scope="module")
def loans():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"income": rng.uniform(0, 100, 400), "debt": rng.uniform(0, 50, 400)})
    y = np.where(X["income"] - X["debt"] + rng.normal(0, 10, 400) > 30, "yes", "no")
    return X, y


def retrained_pipelines(X, y, make, n=12):
    for seed in range(n):
        rows = np.random.default_rng(seed).integers(0, len(X), len(X))
        yield make().fit(X.iloc[rows], y[rows])


@pytest.mark.parametrize("make", [
    lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    lambda: HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=6),
])  # fmt: skip
def test_whole_pipelines_and_trees_read_the_raw_table(loans, make):
    X, y = loans
    today = make().fit(X, y)
    space = (
        hf.FeatureSpace.from_pipeline(today, X)
        if hasattr(today, "steps")
        else hf.FeatureSpace.from_frame(X)
    )
    people = X[today.predict(X) == "no"].head(40)
    found = hf.risk_calibrated(
        today, X, target="yes", retrained=retrained_pipelines(X, y, make), generator=hf.RNCE(X), space=space,
        coverage=0.9, settings=[0.0, 0.5, 1.0],
    )  # fmt: skip
    for place, setting in enumerate((0.0, 0.5, 1.0)):
        answers = hf.explain(
            today,
            X,
            target="yes",
            changes=hf.PlausibleShift(setting),
            generator=hf.RNCE(X),
            space=space,
        )
        told = answers.counterfactuals[answers.found].astype(float)
        shares = [
            (model.predict(told) != "yes").mean() for model in retrained_pipelines(X, y, make)
        ]
        np.testing.assert_allclose(found.losses[:, place], shares, atol=1e-12)
    assert found.evidence["promises"].iloc[0] == (today.predict(X) == "no").sum() >= len(people)


def test_several_classes_and_a_target_for_each_person():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = np.array(["a", "b", "c"])[np.argmax(X @ [[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]], axis=1)]
    today = LogisticRegression().fit(X, y)
    models = [
        LogisticRegression().fit(X[rows], y[rows])
        for rows in (rng.integers(0, 150, 150) for _ in range(N))
    ]
    targets = np.where(y[:30] == "a", "b", "a")
    found = hf.risk_calibrated(
        today, X[:30], target=targets, retrained=models, generator=hf.RNCE(X), coverage=0.5
    )
    answers = hf.explain(today, X[:30], target=targets, changes=found.changes, generator=hf.RNCE(X))
    told, wanted = answers.points[answers.found], targets[answers.found]
    place = found.evidence["setting"].tolist().index(found.size)
    np.testing.assert_allclose(
        found.losses[:, place], [(m.predict(told) != wanted).mean() for m in models]
    )


# ------------------------------------------------------------------ coverage, groups, what is said


def test_a_setting_at_which_people_lose_their_advice_is_out_unless_it_is_allowed():
    # Nobody but the first may rise above their cap.
    people = pd.DataFrame(
        {
            "x": [0.0, 0.1, 0.2, 0.3],
            "cap": [1.0, 0.6, 0.6, 0.6],
            "who": ["none", "low", "low", "low"],
        }
    )
    space = hf.FeatureSpace.from_frame(
        people[["x", "cap"]], immutable=["cap"], ranges={"x": (0.0, 1.0), "cap": (0.0, 1.0)}, rules=["x <= cap"]
    )  # fmt: skip
    today, models = (
        hf.Network([[[1.0, 0.0]]], [[-0.5]]),
        [hf.Network([[[1.0, 0.0]]], [[-0.75 + k / 1e4]]) for k in range(20)],
    )
    rows = pd.DataFrame({"x": np.linspace(0.5, 1.0, 51), "cap": 1.0})
    given = {
        "target": 1,
        "retrained": models,
        "generator": hf.RNCE(rows),
        "space": space,
        "settings": [0.0, 0.05, 0.3],
    }
    strict = hf.risk_calibrated(today, people, **given)
    assert strict.evidence["coverage"].tolist() == [1.0, 1.0, 0.25]
    assert not strict.reached
    assert np.isnan(strict.evidence["bound"].iloc[-1])
    with pytest.raises(InvalidInputError, match=r"none of 3 settings from 0 to 0\.3 passes"):
        strict.changes  # noqa: B018
    allowed = hf.risk_calibrated(today, people, coverage=0.25, groups="who", **given)
    assert allowed.size == 0.3
    assert "of 4 people" in str(allowed)
    assert "25% still have advice" in str(allowed)
    last = allowed.evidence.iloc[-1]
    assert (last["coverage_none"], last["coverage_low"], last["loss_none"]) == (1.0, 0.0, 0.0)
    assert np.isnan(last["loss_low"])
    assert allowed.evidence["loss_low"].iloc[0] == 1.0


def test_groups_add_up():
    labels = np.array(["a", "b"] * 5)
    found = found_with(groups=labels).evidence
    together = (found["loss_a"] + found["loss_b"]) / 2
    np.testing.assert_allclose(
        together[found["coverage"] == 1.0], found["loss"][found["coverage"] == 1.0]
    )
    # People whom today's model accepts are left out of their group too.
    more = np.vstack([PEOPLE, [[0.9]]])
    longer = hf.risk_calibrated(
        TODAY, more, target=1, retrained=later(), generator=hf.RNCE(ROWS), groups=[*labels, "accepted"]
    ).evidence  # fmt: skip
    pd.testing.assert_frame_equal(longer, found)


def test_what_is_said_has_its_condition():
    found = found_with(how="refitted every month")
    text = str(found)
    assert text.startswith(
        f"margin = {found.size:.3g}: at most 1 in 10 of such promises is expected to be broken by the next model, over "
        "calibrations like this one. A calibration that ends without a setting counts as kept. Among the others it is "
        "at most 1 in 5, if they are at least every second. Condition: the next model is drawn as "
        "these 20 were (refitted every month), and people are like these 10; measured: "
    )
    assert "of 10 people" in text
    assert "all still have advice" in text
    assert "proven" not in text
    sure = str(found_with(probability=0.9))
    assert (
        "with probability at least 0.9 the next model breaks at most 1 in 10 of such promises"
        in sure
    )
    assert "the probability is at least 0.8, if they are at least every second" in sure


def test_what_retrain_made_says_how_and_from_which_rows(loans):
    X, y = loans
    space = hf.FeatureSpace.from_frame(X)
    today = LogisticRegression().fit(space.encode(X), y)
    later = hf.retrain(today, space.encode(X), y, how="complete", n=12, seed=1)
    found = hf.risk_calibrated(
        today, X[:40], target="yes", retrained=later, generator=hf.RNCE(X), space=space, coverage=0.5,
        settings=[0.0, 1.0],
    )  # fmt: skip
    assert "trained from scratch on rows drawn with replacement, half as many" in str(found)
    assert "imitate as many new rows" in str(found)
    other = hf.retrain(today, space.encode(X), y, how="complete", n=2, share=1.0)
    assert "other draws of the same rows" in other.caveats[0]
    assert "100% as many" in other.made


def test_losses_that_never_fall_are_an_outcome_that_says_what_was_reached():
    hopeless = found_with(retrained=later(30, spread=0.01, past=2.0))
    assert not hopeless.reached
    assert np.isnan(hopeless.size)
    best = re.search(
        r"reaches a bound of (\S+) \(100% broken on average\), and 0.1 was asked for", str(hopeless)
    )
    assert float(best[1]) == 1.0
    with pytest.raises(InvalidInputError, match="no margin: none of"):
        hopeless.changes  # noqa: B018
    # What ignores the changes makes the same promises at every setting.
    ignored = found_with(generator=hf.NNCE(ROWS))
    assert ignored.evidence["loss"].nunique() == 1


def test_picture_page_and_pickle():
    for found in (found_with(), found_with(retrained=later(30, spread=0.01, past=2.0))):
        axes = found.plot()
        assert axes.child_axes[0].get_xlabel() == "margin that promises are made for"
        mpl.pyplot.close(axes.figure)
        assert "of such promises" in found._repr_html_() or "no margin" in found._repr_html_()
        again = pickle.loads(pickle.dumps(found))
        assert str(again) == str(found)
        assert repr(found) == f"CalibratedRisk({found})"


# ------------------------------------------------------------------ bad input

THREE = hf.Network([[[1.0], [0.0], [-1.0]]], [[0.0, 0.0, 0.0]])
WIDE = hf.Network([[[1.0, 1.0]]], [[-0.5]])
ENSEMBLE = later(3, seed=9)

BAD = {
    "too few models": (
        {"retrained": later(8)},
        "expected at least 9 models, got 8: .* and 0.1 was asked for",
    ),
    "too few in a generator": (
        {"retrained": iter(later(3))},
        "expected at least 9 models, got 3",
    ),
    "too few in two lists": (
        {"retrained": [later(4), later(4)]},
        "expected at least 9 models, got 8",
    ),
    "too few for a probability": ({"probability": 0.99}, "expected at least 99 models, got 20"),
    "one model": ({"retrained": TODAY}, "retrained: expected a list of models .* got Network"),
    "a pipeline": (
        {"retrained": make_pipeline(StandardScaler(), LogisticRegression())},
        "expected a list of models",
    ),
    "other classes": (
        {"retrained": [*later(), THREE]},
        r"model 21 .*: expected the classes \[0, 1\], got \[0, 1, 2\]",
    ),
    "other columns": (
        {"retrained": [WIDE, *later()]},
        "model 1 does not fit today's model: X: .* 2",
    ),
    "no model": (
        {"retrained": [3] * 20},
        "retrained: model 1 does not fit today's model",
    ),
    "those that propose": (
        {"family": hf.EnsembleShift(ENSEMBLE, 0.0), "retrained": [*later(), ENSEMBLE[1]]},
        "model 21 is also in the EnsembleShift",
    ),
    "no share": ({"broken": 0.0}, "broken: expected a share above 0 and below 1, got 0.0"),
    "no probability": (
        {"probability": 1.0},
        "probability: expected a share above 0 and below 1, got 1.0",
    ),
    "no coverage": ({"coverage": 0.0}, "coverage: expected a share above 0 and at most 1, got 0.0"),
    "a family of nothing": (
        {"family": "shift"},
        "family: expected PlausibleShift or PlausibleChanges",
    ),
    "a family of numbers": ({"family": float}, "family: expected .* got <class 'float'>"),
    "a kind without its models": (
        {"family": hf.EnsembleShift},
        r"family: expected .*EnsembleShift\(models, 0\)",
    ),
    "no settings": ({"settings": []}, "settings: expected some numbers, in rising order"),
    "falling settings": (
        {"settings": [0.2, 0.1]},
        "settings: expected some numbers, in rising order",
    ),
    "settings of words": ({"settings": ["a"]}, "settings: expected some numbers, in rising order"),
    "a negative setting": ({"settings": [-0.1, 0.1]}, "margin: expected a number >= 0"),
    "groups of others": (
        {"groups": ["a", "b"]},
        "groups: expected a column of people, or a label for each of 10 people",
    ),
    "nobody has advice": (
        {"generator": hf.RNCE([[0.1], [0.2]])},
        "people: none of 10 people has advice",
    ),
    "no generator": ({"generator": "rnce"}, "generator: expected one such as RNCE"),
    "a class nobody knows": ({"target": 7}, r"target: expected one of \[0, 1\], got 7"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_a_sentence(name):
    options, message = BAD[name]
    with pytest.raises(InvalidInputError, match=message):
        found_with(**options)


def test_people_nobody_rejected_are_refused():
    with pytest.raises(InvalidInputError, match="people: the model gives everyone 1 already"):
        hf.risk_calibrated(TODAY, [[0.9]], target=1, retrained=later(), generator=hf.RNCE(ROWS))


def test_too_few_models_in_a_list_are_known_before_anything_is_searched():
    class Never(hf.RNCE):
        def propose(self, task):
            raise AssertionError("nothing need be searched")

    with pytest.raises(InvalidInputError, match="at least 9"):
        found_with(retrained=later(3), generator=Never(ROWS))
