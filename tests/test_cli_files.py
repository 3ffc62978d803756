"""The shell from files alone: schema, delta, risk, recourse, alternatives, certificates."""

import json
import re
import warnings

import joblib
import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import holdfast as hf
from holdfast.cli import app
from holdfast.cli._options import plain_errors
from holdfast.cli._tables import read_table
from holdfast.cli._wording import in_options
from holdfast.datasets import make_loans

JOBS = ["none", "basic", "skilled", "head"]
COMMON = "--model model.pkl --trust-pickle --index id --schema schema.json"
ADVICE = f"{COMMON} --data people.csv --target good"


def run(folder, line, code=0):
    """One command; names with a dot are files of the folder."""
    words = [
        str(folder / word) if "." in word and not word.replace(".", "").isdigit() else word
        for word in line.split()
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def lender():
    """A table with words, gaps, a protected column and a key, and a pipeline that reads some of it."""
    rng = np.random.default_rng(0)
    n = 600
    table = pd.DataFrame(
        {
            "id": [f"p{i:03d}" for i in range(n)],
            "income": rng.normal(3000, 800, n).round(0),
            "age": rng.integers(18, 80, n),
            "job": rng.choice(JOBS, n),
            "contract": rng.choice(["temporary", "permanent"], n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    score = (
        table["income"] / 3000
        + 0.3 * table["job"].map(JOBS.index)
        + 0.4 * (table["contract"] == "permanent")
    )
    table["paid"] = np.where(score + rng.normal(0, 0.3, n) > 1.6, "good", "bad")
    for column in ("income", "job"):
        table.loc[rng.random(n) < 0.05, column] = np.nan
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    columns = make_column_transformer((numbers, ["income", "age"]), (words, ["job", "contract"]))
    pipeline = make_pipeline(columns, LogisticRegression()).fit(
        table.drop(columns=["id", "sex", "paid"]), table["paid"]
    )
    return table, pipeline


@pytest.fixture
def files(tmp_path, lender):
    table, pipeline = lender
    table.to_csv(tmp_path / "train.csv", index=False)
    table.tail(40).to_csv(tmp_path / "people.csv", index=False)
    joblib.dump(pipeline, tmp_path / "model.pkl")
    made = run(
        tmp_path,
        "schema --model model.pkl --trust-pickle --data train.csv --label paid --index id --out schema.json "
        "--protected sex --immutable age --order job=none,basic,skilled,head --increasing job --range income=:6000 "
        "--step income=50 --allowed contract=temporary:permanent --rule income<=7000",
    )
    assert "The model does not read: sex." in made
    assert "Proposed increasing, from the names: income." in made
    assert "decide" not in made
    (tmp_path / "changes.json").write_text(
        json.dumps(hf.PlausibleChanges(0.02, 2).to_dict()), encoding="utf-8"
    )
    return tmp_path


def test_a_schema_is_what_the_pipeline_does_and_what_a_person_can(files, lender):
    table, pipeline = lender
    space = hf.FeatureSpace.from_schema(files / "schema.json")
    expected = hf.FeatureSpace.from_pipeline(
        pipeline, table[["income", "age", "job", "contract"]], immutable=["age"], ordinal={"job": JOBS},
        increasing=["job", "income"], steps={"income": 50}, allowed={"contract": [("temporary", "permanent")]},
    ).constrained(ranges={"income": (None, 6000)}, rules=["income<=7000"])  # fmt: skip
    np.testing.assert_array_equal(space.encode(table), expected.encode(table))
    assert space.constrained(protected=[]).to_dict(notes=False) == expected.to_dict(notes=False)
    assert space.protected == ("sex",)


def test_a_schema_is_edited_by_hand(files, lender):
    table, _ = lender
    before = hf.FeatureSpace.from_schema(files / "schema.json").encode(table)
    document = json.loads((files / "schema.json").read_text(encoding="utf-8"))
    columns = {column["name"]: column for column in document["columns"]}
    columns["job"] |= {
        "categories": [{"value": job} for job in reversed(JOBS)],
        "actionability": "decrease_only",
    }
    columns["income"] |= {
        "min": 500,
        "max": 4000,
        "fillable": True,
        "unit": "EUR",
        "label": {"en": "monthly income", "de": "Monatseinkommen"},
    }
    columns["job"]["words"] = {"head": "in charge"}
    columns["contract"] |= {
        "ordered": True,
        "actionability": "increase_only",
        "allowed": [["permanent", "temporary"]],
    }
    (files / "schema.json").write_text(json.dumps(document), encoding="utf-8")
    space = hf.FeatureSpace.from_schema(files / "schema.json")
    np.testing.assert_array_equal(space.encode(table), before)
    assert space["job"].categories == tuple(reversed(JOBS))
    assert (space["income"].lower, space["income"].upper, space["income"].fillable) == (
        500.0,
        4000.0,
        True,
    )
    assert (space.label("income"), space.label("income", "de")) == (
        "monthly income",
        "Monatseinkommen",
    )
    assert space.notes.word("job", "head") == "in charge"
    assert not space["contract"].moves[1, 0]


@pytest.mark.parametrize(
    ("column", "edit", "complaint"),
    [
        ("job", {"categories": [{"value": "none"}]}, "expected the labels"),
        ("job", {"actionability": "sometimes"}, "got 'sometimes'"),
        ("contract", {"allowed": [["temporary", "gone"]]}, "got 'gone'"),
        ("contract", {"actionability": "increase_only"}, "expected an order"),
        ("income", {"encoding": {}}, "column 'income': the encoding was edited"),
        ("income", {"missing": False}, "expected 'missing' as it was written"),
        ("income", {"min": 9000}, "expected a range with lower <= upper"),
    ],
)
def test_what_is_edited_wrongly_is_named(files, column, edit, complaint):
    document = json.loads((files / "schema.json").read_text(encoding="utf-8"))
    next(entry for entry in document["columns"] if entry["name"] == column).update(edit)
    (files / "schema.json").write_text(json.dumps(document), encoding="utf-8")
    assert complaint in run(files, f"explain {ADVICE} --delta 0.01 --method mce", code=2)


def test_a_schema_without_encodings_knows_orders_moves_and_gaps(tmp_path):
    columns = [
        {"name": "income", "kind": "continuous", "min": 0, "max": 100, "missing": 40, "fillable": True, "cost": 2},
        {"name": "job", "kind": "categorical", "categories": [{"value": job} for job in JOBS], "ordered": True,
         "actionability": "increase_only", "allowed": [["none", "basic"]], "missing": True},
    ]  # fmt: skip
    entries = [{"role": "feature", "actionability": "mutable", **column} for column in columns]
    (tmp_path / "s.json").write_text(
        json.dumps({"name": "t", "columns": entries}), encoding="utf-8"
    )
    space = hf.FeatureSpace.from_schema(tmp_path / "s.json", encoding="onehot")
    people = pd.DataFrame({"income": [50.0, np.nan], "job": ["basic", None]})
    np.testing.assert_array_equal(
        space.encode(people), [[0.5, 0, 1, 0, 0, 0, 0], [0.4, 0, 0, 0, 0, 1, 1]]
    )
    assert (space["income"].cost, space["income"].fillable, space["job"].fillable) == (
        2.0,
        True,
        False,
    )
    assert space["job"].moves[0].tolist() == [True, True, False, False]
    entries[0]["missing"] = True
    (tmp_path / "s.json").write_text(
        json.dumps({"name": "t", "columns": entries}), encoding="utf-8"
    )
    with pytest.raises(hf.HoldfastError, match="no known value to stand for a missing one"):
        hf.FeatureSpace.from_schema(tmp_path / "s.json")


def test_a_table_alone_gives_a_schema(files):
    run(files, "schema --data train.csv --index id --label paid --out plain.json")
    space = hf.FeatureSpace.from_schema(files / "plain.json")
    assert space.names == ("income", "age", "job", "contract", "sex")
    assert space["income"].scaling.affine() == (1.0, 0.0)


@pytest.fixture
def scaled(tmp_path):
    """A network of the values from 0 to 1, and a table of raw values with its labels; 60% are accepted."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": rng.uniform(0, 9000, 200), "debt": rng.uniform(0, 9000, 200)})
    table.iloc[0], table.iloc[1] = 0, 9000
    network = hf.Network([[[4.0, -4.0]]], [[0.7]])
    table["accepted"] = network.predict((table / 9000).to_numpy())
    table.to_csv(tmp_path / "people.csv", index=False)
    network.save(tmp_path / "model.npz")
    return tmp_path


@pytest.mark.filterwarnings("always::holdfast.errors.HoldfastWarning")
def test_a_schema_that_does_not_fit_the_model_is_said(scaled):
    line = "schema --model model.npz --data people.csv --label accepted --overwrite --out s.json"
    said = run(scaled, f"{line} --scale minmax")
    assert "The model gives 100% of the rows their label." in said
    assert "check the encoding" not in said
    people = pd.read_csv(scaled / "people.csv")
    most = people["accepted"].value_counts(normalize=True).max()
    people["accepted"] = np.where(people.index < 200 * most, 1, 0)
    people.to_csv(scaled / "people.csv", index=False)
    share = np.mean(
        (people["income"] - people["debt"] + 0.7 / 4 > 0).astype(int) == people["accepted"]
    )
    said = run(scaled, line)
    assert share < most
    assert f"The model gives {share:.0%} of the rows their label." in said
    assert (
        f"warning: {most:.0%} of the rows have the most frequent label, and the model gives only {share:.0%} their "
        "label; check the encoding: --scale minmax, or --model with the pipeline file"
    ) in said


def test_the_labels_of_holdfast_toml_are_compared_too(scaled, monkeypatch):
    monkeypatch.chdir(scaled)
    run(scaled, "init --model model.npz --data people.csv --target 1 --label accepted")
    assert "The model gives 100% of the rows their label." in run(scaled, "schema --scale minmax")


def test_a_schema_of_a_table_with_the_label_asks_for_its_name(scaled):
    said = run(scaled, "schema --model model.npz --data people.csv --out s.json", code=2)
    assert "expected the model's 2 variables, got 3" in said
    assert "if a column is the label, name it, such as --label accepted" in said


@pytest.mark.filterwarnings("always::holdfast.errors.HoldfastWarning")
def test_a_schema_is_not_overwritten_unasked(files):
    line = "schema --data train.csv --index id --label paid --out plain.json"
    run(files, line)
    (files / "plain.json").write_text("edited", encoding="utf-8")
    assert "add --overwrite to replace it" in run(files, line, 2)
    assert (files / "plain.json").read_text(encoding="utf-8") == "edited"
    assert "of 600 rows of the table break it" in run(files, f"{line} --overwrite --rule age<=70")
    space = hf.FeatureSpace.from_schema(files / "plain.json")
    # From one end of its range to the other a column costs 1, though nothing is scaled.
    income = space["income"]
    assert income.weights[0] * (income.upper - income.lower) == pytest.approx(1.0)


def test_order_given_later_leaves_the_encoding_as_it_is(lender):
    table, pipeline = lender
    space = hf.FeatureSpace.from_pipeline(pipeline, table[["income", "age", "job", "contract"]])
    later = space.constrained(ordinal={"job": JOBS[::-1]}, decreasing=["job"])
    np.testing.assert_array_equal(later.encode(table), space.encode(table))
    plain = hf.FeatureSpace.from_frame(pd.DataFrame({"job": JOBS}), ordinal={"job": JOBS})
    turned = plain.constrained(allowed={"job": [("none", "head")]}).constrained(
        ordinal={"job": JOBS[::-1]}
    )
    np.testing.assert_array_equal(
        turned.encode(pd.DataFrame({"job": JOBS})), plain.encode(pd.DataFrame({"job": JOBS}))
    )
    assert turned["job"].moves.tolist()[-1] == [True, False, False, True]


def test_from_advice_to_certificates_and_back(files, lender):
    _, pipeline = lender
    run(files, f"explain {ADVICE} --changes changes.json --candidates train.csv --out advice.csv")
    advice = read_table(files / "advice.csv", index="id")
    found = advice[advice["found"]]
    assert found[["income", "job"]].isna().any(axis=None), "someone with a missing value has advice"
    assert (pipeline.predict(found[["income", "age", "job", "contract"]]) == "good").all()
    assert f"{len(found)} certificates for 40 people." in run(
        files,
        f"certificates advice.csv {ADVICE} --changes changes.json --out all.jsonl --table ids.csv",
    )
    assert f"{len(found)} of {len(found)} certificates hold" in run(
        files, "check all.jsonl --model model.pkl --trust-pickle"
    )
    assert "not checked: row (pass --row); about is free text" in run(
        files, "check all.jsonl --model model.pkl --trust-pickle --space schema.json"
    )
    assert read_table(files / "ids.csv", index="id")["certificate"].notna().sum() == len(found)
    judged = f"{COMMON} --data advice.csv --target good"
    for line in (judged, judged.replace("--schema schema.json", "")):
        shown = run(
            files, f"certify {line} --changes changes.json --factuals people.csv --fail-if-broken"
        )
        assert f"{len(found)} of {len(found)} rows provably keep class good" in shown
        assert f"{len(found)} of {len(found)} rows allow 0.02" in run(
            files, f"radius {line} --changes changes.json"
        )
    recorded = run(
        files, f"ledger add advice.csv --ledger p.ledger {ADVICE} --changes changes.json"
    )
    assert f"{len(found)} promises recorded" in recorded
    assert "chain intact" in run(files, "ledger verify --ledger p.ledger")
    run(files, "audit --ledger p.ledger model.pkl --trust-pickle")


def test_advice_that_was_not_found_is_no_point(tmp_path):
    """A model that knows no names takes all columns but those that explain added, and rows with an answer."""
    hf.Network([[[2.0, -0.5]]], [[-0.5]]).save(tmp_path / "net.npz")
    pd.DataFrame({"id": ["a", "b"], "x": [0.0, 9.0], "y": [0.0, 0.0]}).to_csv(
        tmp_path / "people.csv", index=False
    )
    model = "--model net.npz --index id --target 1"
    run(
        tmp_path,
        f"explain {model} --data people.csv --delta 0.01 --method closest --out advice.csv",
    )
    assert "1 of 1 rows provably keep class 1" in run(
        tmp_path, f"certify {model} --data advice.csv --delta 0.01"
    )


def test_constraints_of_explain_are_kept(files):
    line = (
        f"explain {ADVICE} --changes changes.json --candidates train.csv --out advice.csv "
        "--immutable contract --order job=none,basic,skilled,head --increasing job --increasing income "
        "--step income=100 --fillable income --method rnce"
    )
    run(files, line)
    advice = read_table(files / "advice.csv", index="id")
    people = read_table(files / "people.csv", index="id").loc[advice.index]
    found = advice["found"].to_numpy()
    after, before = advice[found], people[found]
    assert (after["contract"] == before["contract"]).all()
    moved = after["income"] != before["income"]
    assert (after["income"][moved & after["income"].notna()] % 100 == 0).all()
    assert (after["income"] >= before["income"]).mask(before["income"].isna(), True).all()


def test_alternatives_agree_with_the_library(files, lender):
    table, pipeline = lender
    run(
        files,
        f"alternatives {ADVICE} --changes changes.json --candidates train.csv --method rnce --rows 6 --answers 2 "
        "--out a.csv",
    )
    written = read_table(files / "a.csv", index="id")
    space = hf.FeatureSpace.from_schema(files / "schema.json")
    people = read_table(files / "people.csv", index="id", space=space).loc[written.index.unique()]
    expected = hf.alternatives(
        pipeline, people[list(space.names)], target="good", changes=hf.PlausibleChanges(0.02, 2),
        generator=hf.RNCE(table), space=space, n_answers=2,
    ).to_frame()  # fmt: skip
    assert written["answer"].tolist() == expected["answer"].tolist()
    np.testing.assert_array_equal(written["cost_l1"], expected["cost_l1"])
    assert written["advice"].str.len().gt(0).tolist() == expected["found"].tolist()
    told = "--model model.pkl --trust-pickle --schema schema.json --data people.csv --index id --target good"
    n = int(expected["found"].sum())
    run(files, f"letters a.csv {told} --changes changes.json --out several.d")
    assert len(pd.read_csv(files / "several.d" / "manifest.csv")) == len(expected)
    assert f"{n} promises" in run(files, f"ledger add a.csv {told} --ledger several.ledger")
    assert "6 people" in run(
        files, f"report a.csv {told} --changes changes.json --out several.html"
    )


def test_delta_by_retraining_and_from_a_history(files, lender):
    table, pipeline = lender
    retrained = "delta --model model.pkl --trust-pickle --data train.csv --index id --label paid"
    said = run(files, f"{retrained} --coverage 0.8 --norm 2 --out d.json")
    X, y = table[["income", "age", "job", "contract"]], table["paid"]
    runs = hf.retrain(pipeline, X, y, how="incremental", n=4, share=0.25, disjoint=True)
    assert str(hf.delta_calibrated(runs, coverage=0.8, norm=2)).split(";")[0] in said
    assert (
        json.loads((files / "d.json").read_text())
        == hf.delta_calibrated(runs, coverage=0.8, norm=2).changes.to_dict()
    )
    for i, model in enumerate(runs.models):
        joblib.dump(model, files / f"m{i}.pkl")
    later = " ".join(f"m{i}.pkl" for i in range(4))
    run(
        files,
        f"delta {later} --origin model.pkl --trust-pickle --coverage 0.8 --norm 2 --out h.json",
    )
    assert json.loads((files / "h.json").read_text()) == json.loads((files / "d.json").read_text())


def test_refits_of_trees_give_leaf_radii_in_the_shell(files, lender):
    table, _ = lender
    X, y = table[["income", "age"]], (table["paid"] == "good").astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=4, num_leaves=5, verbose=-1, n_jobs=1).fit(X, y)
    joblib.dump(model, files / "trees.pkl")
    model.booster_.save_model(files / "lgb.txt")
    months = [model.booster_.refit(X[i::6], y[i::6]) for i in range(6)]
    for i, month in enumerate(months):
        month.save_model(files / f"refit{i}.txt")
    X.assign(good=y).to_csv(files / "trees.csv", index=False)
    later = " ".join(f"refit{i}.txt" for i in range(6))
    asked = f"delta --origin lgb.txt {later} --coverage 0.8 --out leaves.json --data trees.csv --label good"
    expected = hf.delta_calibrated(months, origin=model, coverage=0.8, X=X)
    assert str(expected) in run(files, asked)
    assert json.loads((files / "leaves.json").read_text()) == expected.changes.to_dict()
    by_us = "delta --model trees.pkl --trust-pickle --data trees.csv --label good --coverage 0.8"
    assert "by leaf: number 4 of 4 ratios" in run(files, f"{by_us} --how refit --out r.json")
    assert "expected 'refit', 'continue'" in run(files, by_us, code=2)
    assert "leave them out for trees" in run(
        files, f"delta --origin lgb.txt {later} --norm 2", code=2
    )


def test_risk_gives_a_chance_that_goes_through_the_shell(files):
    asked = f"{ADVICE} --candidates train.csv --method rnce"
    said = run(
        files, f"risk {asked} --label paid --runs 9 --coverage 0.5 --out risk.json --evidence e.csv"
    )
    assert "at most 1 in 10 of such promises is expected to be broken by the next model" in said
    assert json.loads((files / "risk.json").read_text())["chance"]["models"] == 9
    stated = "Measured, not proven: at most 1 in 10 of such promises"
    explain = f"explain {asked} --changes risk.json --out advice.csv"
    assert stated in run(files, explain)
    # The table that was written says of which rows; another method's says nothing.
    letters = f"letters advice.csv {ADVICE} --changes risk.json"
    assert re.search("[1-9][0-9]* with a chance", run(files, f"{letters} --out chance.d"))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        other = run(files, f"{explain.replace('advice', 'other')} --method rnce-line")
        said = run(files, f"{letters.replace('advice', 'other')} --out none.d")
    assert stated not in other
    assert "the chance is left out: it was measured for the generator RNCE" in other
    assert "the table does not say that it was stated of these rows" in said
    assert " 0 with a chance" in said
    assert "to retrain --model; --label is missing" in run(files, f"risk {asked}", code=2)
    assert "--candidates is missing" in run(
        files, f"risk {ADVICE} --method closest --margin 0.1 --label paid", code=2
    )
    assert "at least 9 models" in run(files, f"risk {asked} model.pkl", code=2)


BAD = {
    "explain --range income=5": "--range: expected COLUMN=LOW:HIGH, got '5'",
    "explain --range income": "--range: expected COLUMN=LOW:HIGH, got 'income'",
    "explain --range job=1:2": "--range job: expected a numeric column",
    "explain --range income=a:2": "--range: expected a number, got 'a'",
    "explain --step income=x": "--step: expected a number, got 'x'",
    "explain --allowed contract=temporary": "--allowed: expected COLUMN=FROM:TO",
    "explain --allowed contract=temporary:x": "--allowed contract: expected labels of",
    "explain --order contract=temporary": "--order contract: expected the labels",
    "explain --increasing contract": "with --order, or say",
    "explain --immutable height": "--immutable: expected columns of the table, got 'height'",
    "explain --target nice": "--target: expected one of ['bad', 'good'], got 'nice'",
    "explain --time-limit 0": "--time-limit: expected a number > 0",
    "explain --changes changes.json --margin 1": "--margin and --changes exclude each other",
    "explain --changes schema.json": "this is not a changes file: it has no 'delta'",
    "explain --changes train.csv": "expected JSON",
    "explain --method closest": "--method closest also needs --delta, --margin or --changes",
    "certificates people.csv --out x.jsonl": "this command needs --delta, --margin or --changes",
}


@pytest.mark.parametrize("line", BAD)
def test_errors_name_options(files, line):
    command, *rest = line.split()
    candidates = "--candidates train.csv" if command == "explain" else ""
    assert BAD[line] in run(files, f"{command} {ADVICE} {candidates} {' '.join(rest)}", code=2)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "delta",
            "this command needs HISTORY (two or more model files), or --model with --data and --label",
        ),
        ("delta model.pkl --trust-pickle", "the history: expected at least two models"),
        (
            "delta --model model.pkl --trust-pickle --data train.csv",
            "--model also needs --label (the column of --data with the classes)",
        ),
        ("delta --model model.pkl --data train.csv --label paid", "add --trust-pickle"),
        ("delta --model net.npz --data train.csv --label paid", "expected 1 columns"),
        (
            "schema --data train.csv --label gone --out s.json",
            "expected a column 'gone' for --label",
        ),
        (
            "schema --data train.csv --index id --protected gone --out s.json",
            "--protected: the table has no column 'gone'",
        ),
        ("schema --data train.csv --scale big --out s.json", "--scale: expected one of"),
    ],
)
def test_new_commands_say_what_they_need(files, line, complaint):
    hf.Network([[[1.0]]], [[0.0]], ["bad", "good"]).save(files / "net.npz")
    assert complaint in run(files, line, code=2)


def test_a_key_is_no_column_of_the_model(files):
    asked = COMMON.replace("--index id", "--index income")
    line = f"certify {asked} --data people.csv --target good --delta 0.01"
    assert "--index: the model reads the column 'income', so it cannot be the key" in run(
        files, line, 2
    )


def test_a_space_that_is_missing_is_a_schema(files):
    line = ADVICE.replace("--schema schema.json", "")
    assert "`holdfast schema` writes one" in run(
        files, f"explain {line} --delta 0.1 --method closest", code=2
    )


def test_a_column_that_only_candidates_have_can_be_left_out(files, lender):
    table, _ = lender
    asked = f"explain {ADVICE} --delta 0.01 --rows 3 --out few.csv"
    table.drop(columns="paid").to_csv(files / "unpaid.csv", index=False)
    line = asked.replace("people.csv", "unpaid.csv")
    assert "3 people" in run(files, f"{line} --candidates train.csv --drop paid")
    table.to_parquet(files / "train.parquet", index=False)
    table.drop(columns="paid").to_parquet(files / "unpaid.parquet", index=False)
    line = asked.replace("people.csv", "unpaid.parquet")
    assert "3 people" in run(files, f"{line} --candidates train.parquet --drop paid")
    assert "expected a column 'gone'" in run(
        files, f"{line} --candidates train.csv --drop gone", code=2
    )
    table.assign(key="k").to_csv(files / "keyed.csv", index=False)
    line = f"{asked} --index key --candidates keyed.csv --drop paid"
    assert "expected a column 'key'" in run(files, line, code=2)


def test_a_table_with_labels_needs_a_schema(files):
    trees = DecisionTreeClassifier(max_depth=2).fit([[0.0], [1.0]], ["bad", "good"])
    joblib.dump(trees, files / "tree.pkl")
    pd.DataFrame({"id": ["a", "b"], "status": ["x", "y"]}).to_csv(files / "words.csv", index=False)
    said = run(
        files,
        "certify --model tree.pkl --trust-pickle --data words.csv --index id --target good --margin 0.1",
        code=2,
    )
    assert "the column 'status' has labels: run `holdfast schema" in said


def test_what_is_no_argument_stays_as_it_is():
    assert in_options("people.csv: expected a table") == "people.csv: expected a table"
    assert in_options("column 'x': expected numbers") == "column 'x': expected numbers"


def test_a_pipeline_as_onnx_is_refused_with_a_way_out_that_works(files, lender):
    skl2onnx = pytest.importorskip("skl2onnx")
    table, pipeline = lender
    names = ["age", "contract"]
    columns = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["contract"]))
    small = make_pipeline(columns, LogisticRegression()).fit(table[names], table["paid"])
    kinds = skl2onnx.common.data_types
    inputs = [
        ("age", kinds.FloatTensorType([None, 1])),
        ("contract", kinds.StringTensorType([None, 1])),
    ]
    numbers = table[["age"]].to_numpy(np.float32)
    scaled = make_pipeline(StandardScaler(), LogisticRegression()).fit(numbers, table["paid"])
    variables = pipeline[:-1].transform(table[pipeline.feature_names_in_])[:1].astype(np.float32)
    for name, model in {
        "several.onnx": skl2onnx.to_onnx(small, initial_types=inputs),
        "scaled.onnx": skl2onnx.to_onnx(scaled, numbers[:1]),
        "last.onnx": skl2onnx.to_onnx(pipeline[-1], variables),
    }.items():
        (files / name).write_bytes(model.SerializeToString())
    asked = (
        f"explain {ADVICE} --changes changes.json --candidates train.csv --out advice.csv --rows 5"
    )
    for name in ("several.onnx", "scaled.onnx"):
        assert "give the scikit-learn pipeline itself" in run(
            files, asked.replace("model.pkl", name), code=2
        )
    run(files, asked.replace("model.pkl", "last.onnx"))
    found = read_table(files / "advice.csv", index="id").query("found")
    assert (pipeline.predict(found[pipeline.feature_names_in_]) == "good").all()


def test_a_warning_is_one_line_in_the_words_of_the_shell(capsys):
    with plain_errors(debug=False):
        warnings.simplefilter("always")
        warnings.warn("RNCE(X) and Closest(plausible=X) keep to rows", stacklevel=1)
    assert capsys.readouterr().err == "warning: --method rnce keeps to rows\n"


@pytest.mark.parametrize(
    "command", ["schema", "delta", "risk", "explain", "alternatives", "certificates", "certify"]
)
def test_help_says_what_each_option_is(command):
    shown = CliRunner().invoke(app, [command, "--help"]).output
    assert "Usage" in shown
    assert "--trust-pickle" in shown


@pytest.fixture
def numbers(tmp_path):
    """A table of numbers in a folder, and a command about it."""
    people = make_loans(40).select_dtypes("number").drop(columns="accepted")
    hf.Network([np.ones((1, people.shape[1]))], [[0.0]]).save(tmp_path / "model.npz")
    return tmp_path, people, "certify --model model.npz --target 1 --delta 0.01"


def test_a_result_is_not_written_over_what_it_is_about(numbers):
    folder, people, question = numbers
    people.to_csv(folder / "people.csv", index=False)
    before = (folder / "people.csv").read_bytes()
    assert "is the same file as --data" in run(
        folder, f"{question} --data people.csv --out people.csv", 2
    )
    words = [
        *question.replace("model.npz", str(folder / "model.npz")).split(),
        "--data",
        str(folder),
    ]
    inside = CliRunner().invoke(app, [*words, "--out", str(folder / "out.csv")])
    assert inside.exit_code == 2
    assert "is inside --data" in " ".join(inside.output.split())
    assert (folder / "people.csv").read_bytes() == before


@pytest.mark.parametrize(
    "line",
    [
        "audit b.npz --ledger a.csv --contacts a.csv",
        "audit b.npz --ledger a.csv --out a.csv",
        "audit b.npz --ledger a.ledger --json a.ledger",
        "audit b.npz --ledger a.ledger --json b.npz",
        "audit b.npz --ledger a.ledger --schema c.json --json c.json",
        "audit b.npz --ledger a.ledger --history c.npz --history d.npz --json d.npz",
        "audit b.npz --ledger a.ledger --out new.csv --contacts new.csv",
        "ledger export --ledger a.csv --out a.csv",
        "ledger export --ledger a.csv --out link.csv",
        "explain --model b.npz --data p.csv --target 1 --candidates a.csv --out a.csv",
        "certify --model b.npz --data p.csv --target 1 --factuals a.csv --out a.csv",
        "certificates a.csv --model b.npz --data p.csv --target 1 --out new.csv --table a.csv",
        "report a.csv --model b.npz --data p.csv --target 1 --out c.csv --compare other=c.csv",
        "schema --data p.csv --out p.csv",
        "certify --model b.npz --data folder.d --target 1 --out folder.d/p.csv",
    ],
)
def test_no_output_is_an_input_or_another_output(tmp_path, monkeypatch, line):
    (tmp_path / "folder.d").mkdir()
    names = [
        "a.csv",
        "a.ledger",
        "b.npz",
        "c.json",
        "c.npz",
        "d.npz",
        "c.csv",
        "p.csv",
        "folder.d/p.csv",
    ]
    for name in names:
        (tmp_path / name).write_text(name)
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    monkeypatch.chdir(tmp_path)
    said = run(tmp_path, line, 2)
    assert "choose another place for the output" in said
    assert [(tmp_path / name).read_text() for name in names] == names
    assert len(list(tmp_path.iterdir())) == len(names) + 1


def test_neither_errors_nor_results_leave_parts(numbers):
    folder, people, question = numbers
    first = people.columns[0]
    spoilt = people.assign(**{first: ["12"] * 30 + ["abc"] + ["13"] * 9})
    spoilt.to_csv(folder / "people.csv", index=False)
    said = run(folder, f"{question} --data people.csv --out out.csv", 2)
    assert "'abc'" in said
    assert not list(folder.glob(".*.parts"))
    people.to_csv(folder / "people.csv", index=False)
    run(folder, f"{question} --data people.csv --out out.csv")
    assert (folder / "out.csv").exists()
    assert not list(folder.glob(".*.parts"))
