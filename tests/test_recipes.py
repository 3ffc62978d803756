"""Kinds of change: what each recipe does, what survives by other means, whatever can happen to a study on the way."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import holdfast as hf
import tiny_study
from holdfast.cli._benchmark import app as commands
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.retraining._retrain import run_seeds
from holdfast.study import RECIPES, Recipe
from holdfast.study import _changes_page as changes_page
from holdfast.study import _recipes as recipes
from holdfast.study._recipes import read_recipes
from holdfast.study._situation import Halves
from holdfast.study._survival import Survival
from holdfast.study._tables import Learned

KINDS = {recipe.name: recipe for recipe in RECIPES}
RNG = np.random.default_rng(0)
X, X_NEW = RNG.random((200, 3)), RNG.random((120, 3)) + 0.1
Y, Y_NEW = (
    (rows.sum(axis=1) + RNG.normal(0, 0.2, len(rows)) > 1.5).astype(int) for rows in (X, X_NEW)
)
DATA = Learned(X, Y, X_NEW, Y_NEW)
MODELS = {
    "network": MLPClassifier((6, 5), max_iter=30, random_state=0, learning_rate_init=0.02, tol=1.0),
    "logistic": LogisticRegression(),
    "boosted": HistGradientBoostingClassifier(max_iter=5, random_state=0),
    "forest": RandomForestClassifier(n_estimators=5, random_state=0),
}
# What cannot be done to which model, and what it is told.
REFUSED = {
    ("architecture", "logistic"): "hidden_layer_sizes",
    ("architecture", "boosted"): "hidden_layer_sizes",
    ("architecture", "forest"): "hidden_layer_sizes",
    ("noise", "boosted"): "expected LogisticRegression",
    ("noise", "forest"): "expected LogisticRegression",
    ("fine-tuning", "boosted"): "cannot be fine-tuned",
    ("fine-tuning", "forest"): "cannot be fine-tuned",
}


class Recorder(ClassifierMixin, BaseEstimator):
    """Remembers what it was fitted on."""

    def __init__(self, alpha=1.0, max_iter=8, random_state=None):
        self.alpha, self.max_iter, self.random_state = alpha, max_iter, random_state

    def fit(self, X, y):
        self.X_, self.y_, self.classes_ = X, y, np.unique(y)
        return self


def rows_of(X):
    return {row.tobytes() for row in np.ascontiguousarray(X)}


# ---------------------------------------------------------------------- the recipes


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_every_kind_changes_every_model_or_says_why_not(model, name):
    today = MODELS[model].fit(X, Y)
    before = hf.load_model(today).logits(X)
    change = KINDS[name].change
    if (name, model) in REFUSED:
        with pytest.raises(HoldfastError, match=REFUSED[name, model]):
            change(today, DATA, 1)
        return
    one, same, other = (hf.load_model(change(today, DATA, seed)).logits(X) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert np.array_equal(hf.load_model(today).logits(X), before)
    # Training without randomness comes to the same end from every seed.
    alike = name == "initialisation" and model in ("logistic", "boosted")
    assert np.array_equal(one, other) == alike


def test_which_rows_and_labels_a_model_is_trained_again_on():
    today = Recorder(random_state=5).fit(X, Y)
    made = {name: KINDS[name].change(today, DATA, 3) for name in list(KINDS)[:6]}
    assert all(model.random_state == 3 for model in made.values())
    for name in ("initialisation", "label flips", "configuration"):
        assert np.array_equal(made[name].X_, X)
    assert np.array_equal(made["initialisation"].y_, Y)
    assert (made["label flips"].y_ != Y).sum() == 10
    assert len(made["bootstrap"].X_) == 200
    assert 100 < len(rows_of(made["bootstrap"].X_)) < 160
    assert rows_of(made["bootstrap"].X_) < rows_of(X)
    assert len(rows_of(made["deletion"].X_)) == 180
    assert rows_of(made["addition"].X_) > rows_of(X)
    assert len(rows_of(made["addition"].X_) & rows_of(X_NEW)) == 60
    assert 0.1 < made["configuration"].alpha < 10.0
    assert made["configuration"].alpha != 1.0
    assert 4 <= made["configuration"].max_iter <= 16
    assert isinstance(made["configuration"].max_iter, int)


def test_labels_are_flipped_to_every_other_class():
    y = np.repeat(["a", "b", "c"], 400)
    data = Learned(RNG.random((1200, 2)), y, X_NEW, Y_NEW)
    flipped = recipes.label_flips(Recorder().fit(data.X, y), data, 0, share=0.5).y_
    pairs = {(old, new) for old, new in zip(y, flipped, strict=True) if old != new}
    assert pairs == {(a, b) for a in "abc" for b in "abc" if a != b}
    assert (flipped != y).sum() == 600


def test_noise_stays_inside_and_fine_tuning_goes_on():
    today = MODELS["network"].fit(X, Y)
    network = hf.load_network(today)
    assert hf.PlausibleChanges(0.01).contains(network, recipes.noise(today, DATA, 4))
    tuned = hf.load_network(recipes.fine_tuning(today, DATA, 4))
    assert 0.0 < hf.parameter_distance(network, tuned) < 0.1


def test_architectures():
    today = MODELS["network"].fit(X, Y)
    made = {recipes.architecture(today, DATA, seed).hidden_layer_sizes for seed in range(12)}
    assert made == {(3, 2), (12, 10), (6,), (6, 5, 5)}


def test_a_scaler_that_is_fitted_to_the_same_rows_changes_nothing():
    today = hf.load_model(MODELS["network"].fit(X, Y))
    same = recipes.refitted_scaler(today, Learned(X, Y, X, Y), 0, share=1.0)
    assert same.logits(X_NEW) == pytest.approx(today.logits(X_NEW))
    doubled = recipes.refitted_scaler(today, Learned(X, Y, 2.0 * X, Y), 0, share=1.0)
    assert doubled.logits(2.0 * X_NEW) == pytest.approx(today.logits(X_NEW))


def test_a_moved_threshold_asks_for_another_probability():
    today = LogisticRegression().fit(X, Y)
    moved = recipes.moved_threshold(today, DATA, 0)
    threshold = 0.5 + np.random.default_rng(0).uniform(-0.15, 0.15)
    assert np.array_equal(moved.predict(X) == 1, today.predict_proba(X)[:, 1] > threshold)
    three = LogisticRegression().fit(X, np.arange(200) % 3)
    with pytest.raises(HoldfastError, match="expected two classes"):
        recipes.moved_threshold(three, DATA, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["bootstrap", "rounding"], "names among initialisation, .*got 'rounding'"),
        (["noise", "noise"], "each kind once"),
        (3, "recipes or their names, got 3"),
        ([len], "expected recipes.*got <built-in"),
        ({"mine": 3}, "expected recipes.*got 3"),
    ],
)
def test_what_is_no_recipe_is_refused(given, said):
    with pytest.raises(InvalidInputError, match=said):
        read_recipes(given)


def test_recipes_by_name_as_values_and_as_functions():
    mine = Recipe("mine", "something else", recipes.noise)
    assert read_recipes(None) == ()
    assert read_recipes("noise") == (KINDS["noise"],)
    assert read_recipes([*RECIPES, mine])[-1] is mine
    own = read_recipes({"small": recipes.bootstrap, "noise": "noise"})
    assert [recipe.name for recipe in own] == ["small", "noise"]
    assert own[0].sentence == "Retrained from scratch on as many rows, drawn with replacement"


# ---------------------------------------------------------------------- the study


SMALL = {
    "seeds": 1,
    "inputs": 5,
    "retrained": {},
    "deltas": {"δ": 0.01, "p": hf.PlausibleShift(0.5)},
}


def steep(model, data, seed):
    """The opposite of today's model."""
    network = hf.load_network(model)
    weights = [*network.weights[:-1], -network.weights[-1]]
    return network.with_parameters(weights, [*network.biases[:-1], -network.biases[-1]])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study under four kinds of change, one of them our own."""
    kinds = {
        "bootstrap": "bootstrap",
        "noise": "noise",
        "moved threshold": "moved threshold",
        "opposite": steep,
    }
    return tiny_study.run(tmp_path_factory.mktemp("kinds"), **SMALL, changes_of=kinds, variants=3)


def test_what_survives_by_other_means(finished):
    """Answers and models put together again by hand."""
    X, y, space = tiny_study.loans()
    survival = finished.survival
    halves = Halves.of(y.to_numpy(), 0, 0.2)
    points = space.encode(X)
    data = Learned(
        points[halves.train],
        y.to_numpy()[halves.train],
        points[halves.new_train],
        y.to_numpy()[halves.new_train],
    )
    today = tiny_study.NET.__class__(**tiny_study.NET.get_params() | {"random_state": 0})
    with pytest.warns(match="Maximum iterations"):
        today.fit(data.X, data.y)
    for method, label in (("nnce", ""), ("rnce", "δ"), ("rnce", "p")):
        generator = {"nnce": hf.NNCE, "rnce": hf.RNCE}[method](X.iloc[halves.train])
        rows = survival.people.query("method == @method and delta_label == @label")
        people = X.loc[rows[rows["kind"] == "bootstrap"]["input"]]
        changes = SMALL["deltas"].get(label)
        changes = hf.PlausibleChanges(changes) if isinstance(changes, float) else changes
        advice = hf.explain(
            hf.load_network(today),
            people,
            target=1,
            changes=changes,
            generator=generator,
            space=space,
        )
        for kind, change in [(name, KINDS[name].change) for name in ("bootstrap", "noise")] + [
            ("opposite", steep)
        ]:
            made = [hf.load_network(change(today, data, seed)) for seed in run_seeds(0, 3)]
            kept = np.mean([net.predict(advice.points[advice.found]) == 1 for net in made], axis=0)
            those = rows[rows["kind"] == kind]
            assert those["found"].tolist() == advice.found.tolist()
            assert those["kept"][those["found"]].to_numpy() == pytest.approx(kept)
            assert those["cost_l1"].to_numpy() == pytest.approx(advice.cost_l1, nan_ok=True)
            far = survival.models[survival.models["kind"] == kind]["distance"]
            now = hf.load_network(today)
            assert far.to_numpy() == pytest.approx(
                [hf.parameter_distance(now, net) for net in made]
            )


def test_the_measures(finished):
    survival = finished.survival
    frame, summary = survival.to_frame(), survival.summary().set_index(["method", "delta_label"])
    people = survival.people
    assert set(frame["kind"]) == {"bootstrap", "noise", "moved threshold", "opposite"}
    assert len(survival.models) == 12
    one = people.query("method == 'rnce' and delta_label == 'p'")
    row = summary.loc["rnce", "p"]
    found = one[one["found"]]
    assert row["survival"] == pytest.approx(found["kept"].mean())
    assert (
        row["every_variant"]
        == pytest.approx((found.groupby("row")["kept"].min() == 1).mean())
        == 0.0
    )
    assert row["worst_kind"] == "opposite"
    assert row["worst_survival"] == 0.0
    assert row["cost_relative"] == pytest.approx(
        found["cost_l1"].sum() / found["cost_nearest"].sum()
    )
    assert summary.loc["nnce", ""]["cost_relative"] == 1.0
    assert (summary["found"] == one["found"].mean()).all()


def test_what_is_proven_is_kept_by_every_changed_model_inside(finished):
    people = finished.survival.people
    inside = people[people["inside"] > 0]
    assert set(inside["kind"]) == {"noise"}
    assert set(inside["delta_label"]) == {"δ"}
    assert (inside["kept_inside"][inside["found"]] == 1.0).all()


def test_tables_pictures_and_files(finished, tmp_path):
    text = finished.survival.to_markdown()
    assert "## loans, net" in text
    assert "| opposite | 0.0% |" in text
    figure = finished.survival.plot(tmp_path / "survival.png")
    assert (tmp_path / "survival.png").stat().st_size > 10_000
    assert figure.axes[0].get_title(loc="left") == "loans, net"
    assert (finished.out / "survival.md").read_text(encoding="utf-8") == text
    assert (
        len((finished.out / "survival.csv").read_text(encoding="utf-8").splitlines()) == 1 + 4 * 4
    )
    assert repr(finished.survival) == "Survival(4 kinds of change, 12 models)"
    assert "methods under change" in finished.survival._repr_html_()
    with pytest.raises(InvalidInputError, match="expected at least one method that answered"):
        Survival(finished.survival.people.assign(kept=math.nan)).plot(tmp_path / "none.png")


def test_a_study_without_kinds_has_no_survival():
    assert tiny_study.run(methods=["nnce"], seeds=1, inputs=2, retrained={}).survival is None


def test_a_killed_run_goes_on_and_more_methods_ask_for_less(tmp_path):
    """Killed in the middle of a file, then finished: as if nothing had happened."""
    code = (
        "import sys\nsys.path.insert(0, sys.argv[1])\nimport tiny_study\n"
        "if len(sys.argv) > 3: tiny_study.kill_in_the_middle_of_file(int(sys.argv[3]))\n"
        "tiny_study.run(sys.argv[2], seeds=1, inputs=3, retrained={}, deltas=[0.01], methods=['nnce', 'rnce'],"
        " changes_of=['noise', 'deletion', 'fine-tuning'], variants=2)"
    )

    def process(folder, *more):
        command = [
            sys.executable,
            "-c",
            code,
            str(Path(tiny_study.__file__).parent),
            str(folder),
            *more,
        ]
        return subprocess.run(command, capture_output=True).returncode

    assert process(tmp_path / "whole") == 0
    assert process(tmp_path / "killed", "12") == -9
    done = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "killed" / "kinds").glob("[!.]*.json")
    }
    assert 0 < len(done) < 6
    again = tiny_study.run(
        tmp_path / "killed", seeds=1, inputs=3, retrained={}, deltas=[0.01], methods=["nnce", "rnce"],
        changes_of=["noise", "deletion", "fine-tuning"], variants=2,
    )  # fmt: skip
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert again.computed["kinds"] == 3 - len(done) // 2
    assert again.reused["kinds"] == len(done) // 2
    for name in ("survival.csv", "survival.md", "results.csv"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_other_processes_find_the_same(finished):
    kinds = ["bootstrap", "noise"]
    alone, several = (
        tiny_study.run(**SMALL | {"seeds": 2, "inputs": 3}, changes_of=kinds, variants=2, n_jobs=n)
        for n in (1, 2)
    )
    assert alone.survival.people.equals(several.survival.people)


def test_trees_take_part_and_what_needs_parameters_says_so():
    study = tiny_study.run(
        models={"trees": MODELS["boosted"]}, methods={"nnce": "nnce", "rnce": "rnce"}, changes_of=RECIPES, variants=2,
        **SMALL | {"retrained": {"complete": 2}},
    )  # fmt: skip
    assert (
        study.results.query("verified_label == 'p'")["validity_retrained"].between(0.5, 1.0).all()
    )
    survival = study.survival
    assert set(survival.skipped["kind"]) == {"architecture", "noise", "fine-tuning"}
    assert survival.models["distance"].isna().all()
    frame = survival.to_frame()
    assert set(zip(frame["method"], frame["delta_label"], strict=True)) == {
        ("nnce", ""),
        ("rnce", "p"),
    }
    assert frame["kind"].nunique() == 8
    assert "PlausibleChanges is for networks" in "".join(study.failures["error"])
    assert study.results.query("verified_label == 'p' and method == 'rnce'")[
        "delta_validity"
    ].tolist() == [1.0]


def test_a_recipe_that_fails_is_left_out_and_tried_again(tmp_path):
    def broken(model, data, seed):
        raise ValueError("no rows today")

    options = {"methods": ["nnce"], **SMALL, "variants": 1, "out": tmp_path}
    study = tiny_study.run(**options, changes_of={"mine": broken, "noise": "noise"})
    assert study.survival.skipped[["kind", "error"]].to_numpy().tolist() == [
        ["mine", "no rows today"]
    ]
    assert "net, no mine: no rows today" in study.survival.to_markdown()
    nothing = tiny_study.run(**options, changes_of={"mine": broken}).survival
    assert (len(nothing.to_frame()), len(nothing.summary()), len(nothing.people)) == (0, 0, 0)
    assert repr(nothing) == "Survival(0 kinds of change, 0 models, 1 left out)"
    assert tiny_study.run(**options, changes_of={"mine": steep}).survival.to_frame()[
        "survival"
    ].tolist() == [0.0]


def test_a_network_behind_a_scaler_of_its_own_is_never_taken_for_one_inside():
    def scaled(model, data, seed):
        return make_pipeline(StandardScaler().fit(data.X), model)

    def backwards(model, data, seed):
        network = hf.load_network(model)
        return hf.Network(network.weights, network.biases, network.classes[::-1])

    study = tiny_study.run(
        **SMALL, methods=["rnce"], changes_of={"scaled": scaled, "backwards": backwards}, variants=1
    )
    people = study.survival.people.set_index("kind")
    assert study.survival.models["distance"].isna().all()
    assert (people["inside"] == 0).all()
    assert (people.loc["backwards", "kept"].dropna() == 0.0).all()


def test_a_delta_that_is_a_function_to_a_kind_of_change_is_measured_once(tmp_path):
    def margin(situation):
        with (tmp_path / "asked").open("a") as file:
            file.write(f"{situation.seed} ")
        return hf.PlausibleShift(0.25)

    for _ in range(2):
        study = tiny_study.run(
            tmp_path, methods=["rnce"], deltas={"m": margin}, seeds=1, inputs=3, retrained={}
        )
        assert study.results["delta"].tolist() == study.results["verified_delta"].tolist() == [0.25]
        assert study.results["delta_validity"].tolist() == [1.0]
    assert (tmp_path / "asked").read_text() == "0 "


def test_variants_are_a_whole_number():
    with pytest.raises(InvalidInputError, match="variants: expected a whole number >= 1, got 0"):
        tiny_study.run(changes_of="noise", variants=0)


# ---------------------------------------------------------------------- the command and its page


def test_the_command_writes_its_page(tmp_path, monkeypatch):
    extent = changes_page.ChangesExtent(rows=300, inputs=2, seeds=1, variants=1, time_limit=0.3)
    monkeypatch.setattr(changes_page, "QUICK", extent)
    options = [
        "changes",
        "--quick",
        "--datasets",
        "breast_cancer",
        "--out",
        str(tmp_path),
    ]
    done = CliRunner().invoke(commands, options)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "changes.md").read_text(encoding="utf-8")
    assert page.startswith(
        "# What survives which change\n\n**A proof covers the models inside Δ and no others**: in "
    )
    assert "holdfast benchmark changes --out out/changes --quick --datasets breast_cancer" in page
    assert all(f"**{recipe.name}**: {recipe.sentence}" in page for recipe in RECIPES)
    for model in ("network", "boosted-trees"):
        assert f"](images/changes-{model}.png)" in page
        assert (tmp_path / "images" / f"changes-{model}.png").is_file()
    assert "none of them were broken" in page
    again = CliRunner().invoke(commands, options)
    assert again.exit_code == 0
    assert " 0 reused" not in again.output
    assert (tmp_path / "changes.md").read_text(encoding="utf-8") == page


def test_the_command_knows_its_tables(tmp_path):
    done = CliRunner().invoke(commands, ["changes", "--datasets", "german", "--out", str(tmp_path)])
    assert done.exit_code != 0
    assert "expected some of heloc" in " ".join(done.output.split())


def test_the_page_in_the_documents_is_of_this_command(root):
    page = (root / "docs" / "changes.md").read_text(encoding="utf-8")
    assert "\nholdfast benchmark changes --out out/changes --page docs/changes.md\n" in page
    assert all(f"**{recipe.name}**: {recipe.sentence}" in page for recipe in RECIPES)
    for model, (*_, tables) in changes_page.MODELS.items():
        assert [name for name in changes_page.TABLES if f"\n### {name}, {model}\n" in page] == list(
            tables
        )
