"""The commands explain and methods, and the demo's last part: what they show and write is what the library says."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import holdfast as hf
from holdfast.cli import app
from holdfast.cli._tables import read_table
from holdfast.cli.demo._lender import train_lender
from holdfast.generators._registry import METHODS, make_generator
from recourse_cases import make_case

runner = CliRunner()
DELTA = 0.005
SCHEMA = {
    "name": "people",
    "target": {"column": "granted", "desirable": 1},
    "columns": [
        {
            "name": "a",
            "role": "feature",
            "kind": "continuous",
            "min": -1,
            "max": 1,
            "actionability": "increase_only",
        },
        {"name": "b", "role": "feature", "kind": "continuous", "min": -100, "max": 100},
        {
            "name": "c",
            "role": "feature",
            "kind": "continuous",
            "min": -5e4,
            "max": 5e4,
            "step": 10,
            "unit": "USD",
        },
        {
            "name": "d",
            "role": "feature",
            "kind": "continuous",
            "min": -1e-3,
            "max": 1e-3,
            "actionability": "immutable",
        },
        {"name": "granted", "role": "target", "kind": "binary"},
    ],
}


@pytest.fixture(scope="module")
def case():
    return make_case("two layers", "continuous", n_people=6)


@pytest.fixture
def files(tmp_path, case):
    case.network.save(tmp_path / "model.npz")
    for column in SCHEMA["columns"]:
        column.setdefault("actionability", "mutable")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    people = case.people.assign(person=[f"p{i}" for i in range(6)], granted=0)
    people.to_csv(tmp_path / "people.csv", index=False)
    case.candidates.assign(granted=1).to_csv(tmp_path / "train.csv", index=False)
    return tmp_path


def run(files, *arguments, schema=True, command="explain"):
    options = ["--model", "model.npz", "--data", "people.csv", "--target", "1", "--index", "person"]
    options += ["--candidates", "train.csv"] + (["--schema", "schema.json"] if schema else [])
    paths = [str(files / option) if "." in option else option for option in options]
    return runner.invoke(app, [command, *paths, *map(str, arguments)])


def people_of(files):
    return read_table(files / "people.csv", index="person", drop=["granted"])


@pytest.mark.parametrize("method", [method.name for method in METHODS])
def test_explain_agrees_with_the_library(files, case, method):
    result = run(files, "--delta", DELTA, "--method", method, "--out", files / "recourse.csv")
    assert result.exit_code == 0, result.output
    space = hf.FeatureSpace.from_schema(files / "schema.json")
    expected = hf.explain(
        case.network,
        people_of(files),
        target=1,
        changes=hf.PlausibleChanges(DELTA),
        generator=make_generator(method, case.candidates),
        space=space,
    )
    written = read_table(files / "recourse.csv", index="person")
    pd.testing.assert_frame_equal(
        written[list("abcd")],
        expected.counterfactuals[list("abcd")],
        check_exact=True,
        check_dtype=False,
    )
    assert written["found"].tolist() == expected.found.tolist()
    assert written["reason"].fillna("").tolist() == expected.reason.tolist()
    assert written["verdict"].dropna().tolist() == [
        v.name for v in expected.verdict if v is not None
    ]
    assert f"{expected.found.sum()} of 6 people can reach class 1 ({method})" in result.output
    assert f"{expected.robust.sum()} of these promises are proven" in " ".join(
        result.output.split()
    )
    assert "already classified as 1" in result.output
    # Nobody's row need be as stable as st-ce asks for.
    assert expected.found.any() or method == "st-ce"
    for row in np.flatnonzero(expected.found)[:1].tolist():
        assert f"p{row}: {expected.describe(row)} [{expected.verdict[row]}]" in result.output
        assert written["advice"].iloc[row] == expected.describe(row)


def test_immutable_columns_on_top_of_the_schema(files):
    result = run(files, "--delta", DELTA, "--immutable", "c", "--out", files / "recourse.csv")
    assert result.exit_code == 0, result.output
    written, people = read_table(files / "recourse.csv", index="person"), people_of(files)
    found = written["found"]
    assert (written.loc[found, ["c", "d"]] == people.loc[found, ["c", "d"]]).all(axis=None)


def test_rows_asks_for_the_first_who_need_it(files, case):
    result = run(files, "--rows", 3, "--method", "rnce", "--out", files / "recourse.csv")
    assert result.exit_code == 0, result.output
    written = read_table(files / "recourse.csv", index="person")
    # The third has the class already.
    assert written.index.tolist() == ["p0", "p1", "p3"]
    assert written["verdict"].isna().all()
    assert "promises are proven" not in result.output


@pytest.mark.filterwarnings("always::holdfast.errors.HoldfastWarning")
def test_without_a_schema_the_models_own_variables_move(files, case):
    result = run(
        files,
        "--drop",
        "granted",
        "--delta",
        DELTA,
        "--method",
        "rnce",
        "--out",
        files / "recourse.csv",
        schema=False,
    )
    assert result.exit_code == 0, result.output
    assert "--schema: the range of 'c' is" in " ".join(result.output.split())
    assert "`holdfast schema` writes one" in " ".join(result.output.split())
    written = read_table(files / "recourse.csv", index="person")
    expected = hf.explain(
        case.network,
        people_of(files),
        target=1,
        changes=hf.PlausibleChanges(DELTA),
        generator=hf.RNCE(case.candidates),
    )
    np.testing.assert_array_equal(written[list("abcd")], expected.counterfactuals)


BAD = {
    "unknown method": (["--method", "guess"], "expected one of closest, rnce"),
    "unknown target": (["--target", "7"], "expected one of [0, 1]"),
    "unknown immutable": (["--immutable", "height"], "expected columns of the table, got 'height'"),
    "delta is zero": (["--delta", "0"], "expected delta > 0"),
    "missing column": (["--drop", "b"], "expected the column 'b'"),
    "closest without delta": (
        ["--method", "closest"],
        "--method closest also needs --delta, --margin or --changes",
    ),
    "nowhere to write": (["--out", "nowhere/recourse.csv"], "existing folder"),
    "no such schema": (["--schema", "nowhere.json"], "does not exist"),
    "no such candidates": (["--candidates", "nowhere.csv"], "does not exist"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_code_2(files, name):
    arguments, message = BAD[name]
    result = run(files, *arguments)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", ["explain", "alternatives"])
def test_a_key_that_comes_twice_is_named(files, command):
    people = pd.read_csv(files / "people.csv")
    pd.concat([people, people.iloc[[2]]]).to_csv(files / "people.csv", index=False)
    result = run(files, "--delta", DELTA, command=command)
    assert result.exit_code == 2
    assert "expected each 'person' once, got 'p2' twice" in " ".join(result.output.split())


def test_a_value_that_no_table_shows_is_refused_in_the_words_of_the_shell(files):
    people = pd.read_csv(files / "people.csv")
    people.assign(b=[1e12, *people["b"][1:]]).to_csv(files / "people.csv", index=False)
    result = run(files, "--delta", DELTA)
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    assert "column 'b' is 1000000000000 in row 0 ('p0'), outside its range [-100, 100]" in said
    assert "--range 'b=LOW:HIGH'" in said


def test_without_changes_it_says_that_nothing_is_certified(files):
    result = run(files, "--method", "mce")
    assert result.exit_code == 0, result.output
    assert "Nothing is certified" in result.output


def test_methods_that_need_candidates_say_so(files):
    paths = [
        "--model",
        str(files / "model.npz"),
        "--data",
        str(files / "people.csv"),
        "--target",
        "1",
    ]
    result = runner.invoke(app, ["explain", *paths, "--method", "nnce"])
    assert result.exit_code == 2
    assert "--method nnce also needs --candidates (a table of other people)" in result.output


def test_methods_are_listed_with_what_they_are_good_for():
    shown = runner.invoke(app, ["methods"])
    assert shown.exit_code == 0
    assert all(f"{method.name} " in shown.output for method in METHODS)
    assert {method.name for method in METHODS} >= {"closest", "mce", "mce-r", "nnce", "rnce"}
    assert all(method.good_for and method.paper for method in METHODS)


def test_the_demos_advice_holds():
    lender = train_lender(800, seed=7)
    people, space, changes = (
        lender.rejected(4),
        lender.space(),
        hf.PlausibleChanges(0.005),
    )
    closest, neighbour = (
        hf.explain(
            lender.pipeline,
            people,
            target=1,
            changes=changes,
            space=space,
            generator=generator,
            time_limit=5.0,
        )
        for generator in (hf.Closest(), hf.RNCE(lender.applicants, line_search=True))
    )
    for recourse in (closest, neighbour):
        assert recourse.found.any()
        answers = recourse.counterfactuals[recourse.found]
        assert space.violations(answers, people[recourse.found]) == [[]] * len(answers)
        certificates = hf.certify(lender.pipeline, answers, 1, changes)
        assert certificates.robust.all()
    both = closest.found & neighbour.found
    assert (closest.cost_l1[both] <= neighbour.cost_l1[both] * (1 + 1e-9)).all()


def test_the_schema_may_be_a_feature_space_of_ones_own(tmp_path):
    """What `FeatureSpace.to_dict` gives, written as JSON, is enough for the command line."""
    people = pd.DataFrame({"income": [20.0, 60.0, 40.0, 10.0], "debt": [30.0, 10.0, 0.0, 20.0]})
    people["children"] = [0, 2, 1, 0]
    space = hf.FeatureSpace.from_frame(people, immutable=["debt", "children"])
    hf.Network([[[2.0, -0.5, 0.0]]], [[-0.5]]).save(tmp_path / "net.npz")
    people.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "space.json").write_text(json.dumps(space.to_dict()), encoding="utf-8")
    arguments = ["explain", "--target", "1", "--delta", "0.01", "--method", "closest"]
    for option, name in {
        "model": "net.npz",
        "data": "people.csv",
        "schema": "space.json",
        "out": "out.csv",
    }.items():
        arguments += [f"--{option}", str(tmp_path / name)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "out.csv", dtype={"children": "string"})
    changed = found[found["found"]]
    assert set(changed["children"]) <= {"0", "1", "2"}
    assert len(changed) >= 1
    assert (changed["debt"].to_numpy() == people["debt"].to_numpy()[changed.index]).all()
    assert (changed["verdict"] == "ROBUST").all()


def test_labels_that_look_like_numbers_or_gaps_are_text(tmp_path):
    """01 is not 1, and NA may be a label: where the schema says text, the file's text counts, from advice to ledger."""
    people = pd.DataFrame({"income": [20.0, 60.0, 40.0, 10.0], "branch": ["01", "02", "10", "01"]})
    people["home"] = ["NA", "None", "rent", "NA"]
    space = hf.FeatureSpace.from_frame(people, immutable=["branch", "home"])
    hf.Network([[[2.0, *([0.0] * (space.n_variables - 1))]]], [[-0.8]]).save(tmp_path / "net.npz")
    people.rename_axis("id").to_csv(tmp_path / "people.csv")
    (tmp_path / "space.json").write_text(json.dumps(space.to_dict()), encoding="utf-8")
    common = ["--target", "1", "--delta", "0.01", "--index", "id"]
    for option, name in {"model": "net.npz", "data": "people.csv", "schema": "space.json"}.items():
        common += [f"--{option}", str(tmp_path / name)]
    out = str(tmp_path / "out.csv")
    candidates = ["--candidates", str(tmp_path / "people.csv")]
    for command in (
        ["explain", "--method", "rnce", *candidates, "--out", out],
        ["letters", out, "--out", str(tmp_path / "letters")],
        ["report", out, "--out", str(tmp_path / "report.html")],
        ["ledger", "add", out, "--ledger", str(tmp_path / "promises.ledger")],
    ):
        result = CliRunner().invoke(app, [*command, *common])
        assert result.exit_code == 0, result.output
    found = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert set(found.loc[found["found"] == "True", "branch"]) == {"01"}
    assert "home: NA" in next((tmp_path / "letters").glob("*.txt")).read_text(encoding="utf-8")


def test_certify_and_radius_read_raw_units_by_the_schema(files):
    advice, verdicts, radii = (files / name for name in ("advice.csv", "verdicts.csv", "radii.csv"))
    assert run(files, "--method", "nnce", "--delta", DELTA, "--out", advice).exit_code == 0
    answered = read_table(advice, index="person").query("found")
    answered.to_csv(advice)
    assert len(answered) > 0
    shared = [
        "--model",
        files / "model.npz",
        "--schema",
        files / "schema.json",
        "--data",
        advice,
        "--index",
        "person",
    ]
    for command, more in (
        ("certify", ["--delta", DELTA, "--factuals", files / "people.csv", "--out", verdicts]),
        ("radius", ["--out", radii]),
    ):
        done = runner.invoke(app, [command, *map(str, [*shared, "--target", "1", *more])])
        assert done.exit_code == 0, done.output
    space, told = (
        hf.FeatureSpace.from_schema(files / "schema.json"),
        read_table(advice, index="person"),
    )
    network = hf.Network.load(files / "model.npz")
    expected = hf.certify(network, space.encode(told), 1, hf.PlausibleChanges(DELTA))
    found = read_table(verdicts, index="person")
    assert found["verdict"].tolist() == [str(verdict) for verdict in expected.verdict]
    assert "sound" in found.columns
    lower = read_table(radii, index="person")["radius_lower"]
    np.testing.assert_allclose(lower, hf.certified_radius(network, space.encode(told), 1).lower)
    assert (found["robust"] == (lower > DELTA)).all()
