"""A study: the protocol, every number by other means, and whatever can happen to a folder on the way."""

import json
import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import holdfast as hf
import tiny_study
from holdfast.calibration import delta_incremental
from holdfast.cli._benchmark import app as commands
from holdfast.errors import InvalidInputError
from holdfast.generators import NNCE, Generator, Proposals
from holdfast.study import Protocol, Situation, StudyMethod, benchmark
from holdfast.study._asked import read_deltas, read_methods
from holdfast.study._run import Plan, run_situation
from holdfast.study._situation import Halves
from holdfast.study._store import StudyStore, digest
from holdfast.study._tables import read_tables

SCRIPT = Path(tiny_study.__file__)
SAME_EVERY_TIME = ("results.csv", "details.csv", "models.csv", "results.md")
TOTAL = {"models": 2, "cells": 8, "verdicts": 16}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The study, run once without interruption."""
    return tiny_study.run(tmp_path_factory.mktemp("study") / "whole")


def process(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
    )


def kept_files(folder):
    """What is finished: each file with what would change if it were written again."""
    kinds = ("models", "cells", "verdicts", "networks")
    files = [path for kind in kinds for path in (Path(folder) / kind).glob("[!.]*")]
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def untouched(done, folder):
    """Whether what was finished is there still, and has not been written again."""
    now = kept_files(folder)
    return {path: now.get(path) for path in done} == done


def count(files, kind):
    return sum(path.parent.name == kind for path in files)


def assert_same(folder, finished):
    for name in SAME_EVERY_TIME:
        assert (Path(folder) / name).read_bytes() == (finished.out / name).read_bytes(), name


# ---------------------------------------------------------------------- what it computes


def test_one_row_for_each_delta_asked_for_and_certified_at(finished):
    assert finished.computed == TOTAL
    assert finished.reused == {}
    frame = finished.results
    rows = frame.groupby("method", sort=False)[["delta", "verified_delta"]].apply(
        lambda part: part.value_counts(dropna=False)
    )
    assert set(rows) == {2}
    assert frame[frame["method"] == "nnce"]["delta"].isna().all()
    asked = frame[frame["method"] == "rnce"][["delta", "verified_delta"]]
    assert set(map(tuple, asked.to_numpy())) == {
        (a, b) for a in tiny_study.DELTAS for b in tiny_study.DELTAS
    }
    assert (frame["error"] == "").all()
    assert list(frame["seed"].unique()) == [0, 1]


def test_every_number_from_what_is_kept(finished):
    """The points and the networks in the folder, put together again by hand."""
    X, _, space = tiny_study.loans()
    for keys, people in finished.details.groupby(["seed", "method", "delta_label"], sort=False):
        seed = keys[0]
        content = json.loads(
            (finished.out / "cells" / f"{people['cell'].iloc[0]}.json").read_text()
        )["content"]
        models = [
            json.loads(path.read_text())["content"]
            for path in (finished.out / "models").glob("*.json")
        ]
        names = next(m["networks"] for m in models if m["specification"]["seed"] == seed)
        today, *later = (
            hf.Network.load(finished.out / "networks" / f"{name}.npz") for name in names
        )
        before = X.loc[people["input"]]
        points = np.array(
            [[math.nan] * space.n_variables if p is None else p for p in content["points"]]
        )
        found = ~np.isnan(points[:, 0])
        points, factuals = points[found], space.encode(before)[found]
        assert (today.predict(space.encode(before)) == 0).all()
        row = (
            finished.results.set_index(["seed", "method", "delta_label"])
            .sort_index()
            .loc[keys]
            .iloc[0]
        )
        assert row["inputs"] == len(people) == 4
        assert row["coverage"] == found.mean()
        assert row["validity"] == np.mean(today.predict(points) == 1)
        assert row["validity_retrained"] == pytest.approx(
            np.mean([net.predict(points) == 1 for net in later])
        )
        assert row["cost_l1"] == pytest.approx(np.abs(points - factuals).mean())
        assert row["sparsity"] == pytest.approx((~np.isclose(points, factuals)).sum(axis=1).mean())
        for delta in tiny_study.DELTAS:
            verdicts = people[f"verdict_{delta:g}"][found]
            again = hf.certify(today, points, 1, hf.PlausibleChanges(delta))
            assert verdicts.tolist() == [verdict.name for verdict in again.verdict]


def test_the_paper_says_how(finished):
    """Halves without overlap, classes in proportion, training from the first half, people from its test part."""
    table = read_tables({"loans": tiny_study.loans()})[0]
    halves = Halves.of(table.y, 1, 0.2)
    parts = [halves.train, halves.test, halves.new_train, halves.new_test]
    assert sorted(np.concatenate(parts).tolist()) == list(range(300))
    assert [len(part) for part in parts] == [120, 30, 120, 30]
    assert max(abs(table.y[part].mean() - table.y.mean()) for part in parts) < 0.03
    asked = finished.details.query("seed == 1")["input"]
    assert set(asked) <= set(table.X.index[halves.test])
    estimator = tiny_study.NET
    situation = Situation(table, "net", estimator, 1, Protocol(inputs=4))
    names = json.loads(next((finished.out / "models").glob("*.json")).read_text())["content"]
    if names["specification"]["seed"] == 1:
        kept = hf.Network.load(finished.out / "networks" / f"{names['networks'][0]}.npz")
        assert kept == hf.load_network(situation.fitted)
    assert situation.fitted.random_state == 1
    assert situation.density.rows.shape[0] <= (table.y[halves.train] == 1).sum()


def test_several_classes_have_an_origin():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(240, 2)), columns=["a", "b"])
    y = (X["a"] > -0.4).astype(int) + (X["a"] > 0.4).astype(int)
    tables = {"three": (X, y, hf.FeatureSpace.from_frame(X))}
    study = benchmark(
        tables, models=LogisticRegression(), methods=["rnce"], deltas=[0.01], seeds=1, inputs=5, retrained={},
        protocol=Protocol(origin=0, drawn_from="all"),
    )  # fmt: skip
    assert (X.loc[study.details["input"], "a"] < 0.2).all()
    assert study.results["delta_validity"].tolist() == [1.0]
    assert study.results["validity_retrained"].isna().all()


def test_methods_that_ignore_delta_answer_once():
    @dataclass(frozen=True)
    class Counted(Generator):
        name: ClassVar[str] = "counted"
        calls: ClassVar[list] = []
        minds: bool = True

        def propose(self, task):
            self.calls.append(task.changes)
            return Proposals.of(np.full(task.factuals.shape, np.nan), ["no"] * len(task))

    class Ignores(Counted):
        uses_changes: ClassVar[bool] = False
        calls: ClassVar[list] = []

    study = tiny_study.run(
        methods={
            "minds": Counted(),
            "ignores": Ignores(),
            "one": StudyMethod("", Counted(False), ("0.05",)),
        },
        seeds=1,
    )
    assert [changes and changes.delta for changes in Counted.calls] == [0.01, 0.05, 0.05]
    assert Ignores.calls == [None]
    assert study.results.groupby("method").size().to_dict() == {"minds": 4, "ignores": 2, "one": 2}
    assert (study.results["coverage"] == 0.0).all()
    assert study.results["delta_validity"].isna().all()


def test_deltas_measured_or_by_table():
    study = tiny_study.run(
        deltas={
            "table": {"loans": 0.02},
            "pair": {("loans", "net"): 0.03},
            "inc": "inc",
            "mine": lambda s: 0.01 * (s.seed + 1),
        },
        methods=["rnce"],
    )
    found = study.results.drop_duplicates(["seed", "verified_label"]).set_index(
        ["verified_label", "seed"]
    )["verified_delta"]
    assert found["table"].tolist() == [0.02, 0.02]
    assert found["pair"].tolist() == [0.03, 0.03]
    assert found["mine"].tolist() == [0.01, 0.02]
    table = read_tables({"loans": tiny_study.loans()})[0]
    for seed in (0, 1):
        situation = Situation(table, "net", tiny_study.NET, seed, Protocol())
        rows = situation.halves.new_train
        expected = delta_incremental(
            situation.fitted, table.points[rows], table.y[rows], share=0.1, seed=seed
        )
        assert found["inc"][seed] == float(expected)
        assert found["inc"][seed] > 0.0


# ---------------------------------------------------------------------- what is kept


def test_killed_it_goes_on_where_it_was(finished, tmp_path):
    """SIGKILL twice, in the middle of writing a file and then at whatever moment, and nothing is lost or done twice."""
    killed = process(tmp_path, 9)
    assert (killed.communicate(timeout=100)[1], killed.returncode) == ("", -signal.SIGKILL)
    done = kept_files(tmp_path)
    assert len(done) == 8
    assert 0 < count(done, "cells") < 3
    running = process(tmp_path)
    while count(kept_files(tmp_path), "cells") < 3:
        assert running.poll() is None
        time.sleep(0.001)
    running.kill()
    assert (running.communicate(timeout=100)[1], running.returncode) == ("", -signal.SIGKILL)
    assert untouched(done, tmp_path)
    done = kept_files(tmp_path)
    assert count(done, "cells") >= 3
    result = tiny_study.run(tmp_path)
    assert untouched(done, tmp_path)
    for kind, total in TOTAL.items():
        assert result.reused.get(kind, 0) == count(done, kind)
        assert result.computed.get(kind, 0) == total - count(done, kind)
    assert_same(tmp_path, finished)


def test_stopped_at_every_file(finished, tmp_path, monkeypatch):
    """Each run finishes one file and is stopped in the middle of the next, until there is no next."""
    options = {"seeds": [0], "methods": ["nnce", "rnce"]}
    rename, allowed = os.replace, 0

    def replace(partial, target):
        nonlocal allowed
        if not allowed:
            Path(partial).write_bytes(b"{")
            raise KeyboardInterrupt
        allowed -= 1
        rename(partial, target)

    monkeypatch.setattr("holdfast._files.os.replace", replace)
    # Four networks and their set; three cells with two verdicts each.
    for n_files, allowed in [(5, 5), *((n, 1) for n in range(6, 5 + 3 + 6 + 1))]:  # noqa: B007
        done = kept_files(tmp_path)
        with pytest.raises(KeyboardInterrupt):
            tiny_study.run(tmp_path, **options)
        assert untouched(done, tmp_path)
        assert len(kept_files(tmp_path)) == n_files
    monkeypatch.undo()
    result = tiny_study.run(tmp_path, **options)
    assert result.computed == {}
    whole = finished.results.query("seed == 0 and method != 'mce'").reset_index(drop=True)
    pd.testing.assert_frame_equal(
        result.results.drop(columns="seconds"), whole.drop(columns="seconds")
    )


def test_two_processes_in_one_folder(finished, tmp_path):
    both = [process(tmp_path), process(tmp_path)]
    for one in both:
        assert (one.communicate(timeout=100)[1], one.returncode) == ("", 0)
    assert_same(tmp_path, finished)
    result = tiny_study.run(tmp_path)
    assert (result.computed, result.reused) == ({}, TOTAL)
    assert list(tmp_path.rglob(".*")) == []


def test_finished_is_not_computed_again(finished):
    again = tiny_study.run(finished.out)
    assert (again.computed, again.reused) == ({}, TOTAL)
    pd.testing.assert_frame_equal(again.results, finished.results)
    pd.testing.assert_frame_equal(again.details, finished.details)


@pytest.mark.parametrize("what", ["cut", "one byte", "other text", "another cell", "not json"])
def test_damaged_files_are_computed_again(finished, tmp_path, what):
    shutil.copytree(finished.out, tmp_path, dirs_exist_ok=True)
    victim, other = sorted((tmp_path / "cells").glob("*.json"))[:2]
    content = victim.read_bytes()
    digit = content.index(b"0.", content.index(b'"points"')) + 2
    damaged = {
        "cut": content[: len(content) // 2],
        "one byte": content[:digit]
        + (b"1" if content[digit : digit + 1] != b"1" else b"2")
        + content[digit + 1 :],
        "other text": json.dumps({"format": "holdfast-study", "content": {}}).encode(),
        "another cell": other.read_bytes(),
        "not json": b"\x00" * 50,
    }[what]
    victim.write_bytes(damaged)
    again = tiny_study.run(tmp_path)
    assert again.computed == {"cells": 1}
    assert_same(tmp_path, finished)


@pytest.mark.parametrize("what", ["cut", "missing", "another network"])
def test_damaged_networks_are_trained_again(finished, tmp_path, what):
    shutil.copytree(finished.out, tmp_path, dirs_exist_ok=True)
    first, second = sorted((tmp_path / "networks").glob("*.npz"))[:2]
    if what == "cut":
        first.write_bytes(first.read_bytes()[:200])
    elif what == "missing":
        first.unlink()
    else:
        first.write_bytes(second.read_bytes())
    again = tiny_study.run(tmp_path)
    assert again.computed == {"models": 1}
    assert_same(tmp_path, finished)


def test_more_of_anything_reuses_what_is_there(tmp_path):
    first = tiny_study.run(tmp_path, seeds=[0], deltas=[0.01], methods=["nnce"])
    assert first.computed == {"models": 1, "cells": 1, "verdicts": 1}
    more = tiny_study.run(tmp_path, seeds=[0], deltas=[0.01, 0.02], methods=["nnce"])
    assert (more.computed, more.reused) == (
        {"verdicts": 1},
        {"models": 1, "cells": 1, "verdicts": 1},
    )
    renamed = tiny_study.run(
        tmp_path,
        seeds=[0],
        deltas={"small": 0.01},
        methods={"nearest": "nnce"},
        datasets={"people": tiny_study.loans()},
    )
    assert renamed.computed == {}
    assert renamed.results["dataset"].tolist() == ["people"]


def test_other_work_is_not_mistaken_for_what_is_there(tmp_path):
    options = {"seeds": [0], "deltas": [0.05], "methods": ["nnce"]}
    tiny_study.run(tmp_path, **options)
    X, y, space = tiny_study.loans()
    changed = X.copy()
    changed.iloc[0, 0] += 100
    others = [
        {"datasets": {"loans": (changed, y, space)}},
        {"datasets": {"loans": (X, 1 - y, space)}},
        {"datasets": {"loans": (X, y, space.constrained(free=["age"]))}},
        {"models": {"net": MLPClassifier((8,), max_iter=41, learning_rate_init=0.02)}},
        {"methods": {"nnce": lambda people: NNCE(people, skip=1)}},
        {"methods": {"nnce": lambda people: NNCE(people.iloc[1:])}},
        {"inputs": 3},
        {"seeds": [1]},
        {"target": 0},
        {"retrained": {"complete": 2}},
        {"time_limit": 100.0},
    ]
    for other in others:
        assert tiny_study.run(tmp_path, **options | other).computed.get("cells") == 1, other


def test_folders_hold_plain_data_only(finished):
    kinds = {path.suffix for path in finished.out.rglob("*") if path.is_file()}
    assert kinds <= {".json", ".npz", ".csv", ".md", ".parquet"}
    for path in finished.out.rglob("*.npz"):
        with np.load(path, allow_pickle=False) as parts:
            assert all(parts[name].dtype != object for name in parts.files)
    read = pd.read_csv(finished.out / "results.csv", keep_default_na=False, na_values=[""])
    assert "seconds" not in read.columns
    assert len(read) == len(finished.results)
    timings = pd.read_csv(finished.out / "timings.csv")
    np.testing.assert_array_equal(timings["seconds"], finished.results["seconds"])


# Threads share the filters of warnings, so that what one of them ignores may reach another.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_jobs_do_not_change_results(finished, tmp_path):
    with joblib.parallel_config(backend="threading"):
        tiny_study.run(tmp_path, n_jobs=2)
    assert_same(tmp_path, finished)


def test_work_for_another_process_pickles():
    table = read_tables({"loans": tiny_study.loans()})[0]
    protocol = Protocol(inputs=3, retrained={"complete": 1})
    situation = Situation(table, "net", tiny_study.NET, 0, protocol)
    plan = Plan(read_methods(["rnce"], ["d"]), read_deltas({"d": "inc"}), None)
    here = run_situation(situation, plan)
    there = run_situation(*pickle.loads(pickle.dumps((situation, plan))))
    assert [row | {"seconds": 0} for row in there.rows] == [
        row | {"seconds": 0} for row in here.rows
    ]


def test_names_of_functions_tell_edited_ones_apart():
    ours, same, edited = (
        eval(text) for text in ("lambda s: s + 1", "lambda s: s + 1", "lambda s: s + 2")
    )
    assert digest(ours) == digest(same) != digest(edited)
    assert digest({"a": math.nan}) == digest({"a": float("nan")}) != digest({"a": math.inf})
    assert digest(np.arange(3)) != digest(np.arange(3.0)) != digest(np.arange(3.0)[None])


# ---------------------------------------------------------------------- what goes wrong, and what people see


@dataclass(frozen=True)
class Broken(Generator):
    """Raises an error nobody foresaw."""

    name: ClassVar[str] = "broken"
    fixed: ClassVar[bool] = False

    def propose(self, task):
        if self.fixed:
            return Proposals.of(np.full(task.factuals.shape, np.nan), ["no"] * len(task))
        raise ZeroDivisionError("no | way")


def test_a_failing_method_does_not_stop_the_study(tmp_path, monkeypatch):
    def unmade(people):
        raise KeyError("nothing")

    methods = {"nnce": "nnce", "broken": Broken(), "unmade": unmade, "wrong": lambda people: 3}
    study = tiny_study.run(tmp_path, methods=methods, seeds=1)
    errors = study.failures.groupby("method", sort=False)["error"].first()
    assert errors["broken"] == "ZeroDivisionError: no | way"
    assert errors["unmade"] == "KeyError: 'nothing'"
    assert "the function must return a generator; it returned 3" in errors["wrong"]
    assert (study.results.query("method == 'nnce'")["error"] == "").all()
    assert "rows with errors" in repr(study)
    assert "no \\| way" in (tmp_path / "results.md").read_text()
    monkeypatch.setattr(Broken, "fixed", True)
    again = tiny_study.run(tmp_path, methods=methods, seeds=1)
    assert set(again.failures["method"]) == {"unmade", "wrong"}


def test_a_failing_model_does_not_stop_the_others():
    models = {"deaf": make_pipeline(StandardScaler(), tiny_study.NET), "net": tiny_study.NET}
    study = tiny_study.run(models=models, seeds=1, methods=["nnce"])
    assert "expected a network without preprocessing" in study.failures["error"].item()
    assert study.results.query("model == 'net'")["coverage"].tolist() == [1.0, 1.0]


def test_a_delta_that_does_not_exist_loses_its_own_rows_only():
    def only_for_seed_1(situation):
        if situation.seed == 0:
            raise InvalidInputError("deltas: expected 'mine' to exist, got nothing")
        return 0.03

    study = tiny_study.run(deltas={"mine": only_for_seed_1, "0.01": 0.01}, methods=["nnce", "rnce"])
    alone = tiny_study.run(deltas=[0.01], methods=["nnce", "rnce"])
    failed = study.failures
    assert set(failed["seed"]) == {0}
    assert (
        failed["error"] == "InvalidInputError: deltas: expected 'mine' to exist, got nothing"
    ).all()
    assert failed[["method", "delta_label", "verified_label"]].to_numpy().tolist() == [
        ["nnce", "", "mine"],
        ["rnce", "mine", ""],
        ["rnce", "0.01", "mine"],
    ]
    kept = study.results.query("error == '' and delta_label != 'mine' and verified_label == '0.01'")
    columns = ["method", "seed", "delta", "coverage", "delta_validity", "cost_l1"]
    pd.testing.assert_frame_equal(kept[columns].reset_index(drop=True), alone.results[columns])
    # The averages of a line are over all seeds, also where a column has fewer.
    line = next(row for row in study.to_markdown().splitlines() if row.startswith("| nnce"))
    mean = alone.results.query("method == 'nnce'")["cost_l1"].mean()
    assert f"{mean:.4f}" in line
    assert "expected 'mine' to exist" in study.to_markdown()


def test_summary_is_mean_and_deviation_over_seeds(finished):
    summary = finished.summary().query("method == 'nnce' and verified_label == '0.05'").squeeze()
    costs = finished.results.query("method == 'nnce' and verified_label == '0.05'")[
        "cost_l1"
    ].to_numpy()
    assert summary["seeds"] == 2
    assert summary["cost_l1"] == pytest.approx(costs.mean())
    assert summary["cost_l1_std"] == pytest.approx(abs(costs[0] - costs[1]) / math.sqrt(2))


def test_tables_and_pictures_for_people(finished, tmp_path):
    text = finished.to_markdown(seconds=True)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 4
    assert len({line.count("|") for line in table}) == 1
    assert "Δ-valid at 0.05" in table[0]
    pytest.importorskip("matplotlib")
    finished.plot(tmp_path / "study.png")
    assert (tmp_path / "study.png").stat().st_size > 10_000
    shown = finished._repr_html_()
    assert shown.count('<th scope="row"') == len(finished.summary())
    assert f"{finished.results['method'].nunique()} methods on" in shown


X, Y, SPACE = tiny_study.loans(60)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"datasets": 3}, "datasets: expected names"),
        ({"datasets": {}}, "datasets: expected at least one"),
        ({"datasets": (X, Y, SPACE)}, r"^datasets: give the table a name, .*\(DataFrame, Series, Feat\w+\)$"),
        ({"datasets": {"a": (X, Y)}}, r"datasets\['a'\]: expected \(X, y, space\)"),
        ({"datasets": {"a": (X.to_numpy(), Y, SPACE)}}, "with a DataFrame and a FeatureSpace"),
        ({"datasets": {"a": (X, Y[1:], SPACE)}}, "a label for each of 60 rows"),
        ({"datasets": {"a": (X, 0 * Y, SPACE)}}, "at least two classes"),
        ({"target": 7}, r"target: expected one of \[0, 1\]"),
        ({"models": {"a": 1}}, r"models\['a'\]: expected a scikit-learn classifier"),
        ({"models": {}}, "models: expected at least one"),
        ({"methods": ["nearest"]}, "methods: expected names among .*rnce"),
        ({"methods": []}, "methods: expected at least one"),
        ({"methods": ["nnce", "nnce"]}, "each once"),
        ({"methods": {"a": 3}}, r"methods\['a'\]: expected a generator"),
        ({"methods": {"a": StudyMethod("a", "nnce", ("inc",))}}, "expected deltas among"),
        ({"deltas": []}, "deltas: expected at least one"),
        ({"deltas": [0.0]}, "^deltas: expected delta > 0"),
        ({"deltas": [-1]}, "^deltas: expected .*, got -1"),
        ({"deltas": ["large"]}, r"deltas\['large'\]: expected a number > 0"),
        ({"seeds": 0}, "seeds: expected"),
        ({"seeds": [1, 1]}, "seeds: expected"),
        ({"inputs": 0}, "inputs: expected a whole number >= 1"),
        ({"retrained": {"weekly": 5}}, "retrained: expected numbers of models"),
        ({"time_limit": 0}, "time_limit: expected a number > 0"),
        ({"out": SCRIPT}, "out: cannot write to the folder"),
    ],
)  # fmt: skip
def test_bad_input_is_named_before_any_work(options, message):
    with pytest.raises(InvalidInputError, match=message):
        tiny_study.run(**options)


def test_abandoned_files_are_swept(tmp_path):
    StudyStore.open(tmp_path)
    (tmp_path / "cells").mkdir()
    old, young = (tmp_path / "cells" / f".1-{n}.partial.0f.json" for n in (1, 2))
    old.write_text("")
    young.write_text("")
    os.utime(old, (0, 0))
    StudyStore.open(tmp_path)
    assert not old.exists()
    assert young.exists()


# ---------------------------------------------------------------------- the command


def command(folder, *arguments):
    X, y, space = tiny_study.loans()
    X.assign(accepted=y).to_csv(folder / "loans.csv", index=False)
    (folder / "schema.json").write_text(json.dumps(space.to_dict()))
    fixed = ["--seeds", "1", "--inputs", "3", "--epochs", "40", "--out", str(folder / "out")]
    return CliRunner().invoke(commands, ["run", *fixed, *map(str, arguments)])


def test_the_command_runs_a_table_of_ones_own(tmp_path):
    own = [
        "--data",
        tmp_path / "loans.csv",
        "--target-column",
        "accepted",
        "--schema",
        tmp_path / "schema.json",
    ]
    methods = [
        "--methods",
        "nnce",
        "--methods",
        "rnce",
        "--model",
        "lr",
        "--delta",
        "0.01",
        "--delta",
        "inc",
    ]
    done = command(tmp_path, *own, *methods)
    assert done.exit_code == 0, done.output
    assert "3 results computed, 0 reused" in done.output
    written = pd.read_csv(tmp_path / "out" / "results.csv")
    assert written["verified_label"].tolist() == ["0.01", "inc"] * 3
    assert written["dataset"].unique().tolist() == ["loans"]
    assert "0 results computed, 3 reused" in command(tmp_path, *own, *methods).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "this command needs --datasets"),
        (["--data", "loans.csv"], "--data also needs --target-column"),
        (["--data", "loans.csv", "--target-column", "no"], "expected a column 'no'"),
        (["--datasets", "nowhere"], "nowhere"),
        (
            ["--data", "loans.csv", "--target-column", "accepted", "--hidden", "a"],
            "--hidden: expected sizes",
        ),
        (
            ["--data", "loans.csv", "--target-column", "accepted", "--methods", "a"],
            "methods: expected names among",
        ),
        (
            ["--data", "loans.csv", "--target-column", "accepted", "--target", "7"],
            "target: expected one of",
        ),
    ],
)
def test_the_command_names_bad_input(tmp_path, arguments, message):
    done = command(
        tmp_path, "--delta", "0.01", *(tmp_path / a if a == "loans.csv" else a for a in arguments)
    )
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "out" / "results.csv").exists()


def test_the_command_fails_where_nothing_worked(tmp_path):
    accept_everybody = pd.DataFrame({"a": [0.0, 1.0] * 20, "y": [0] * 4 + [1] * 36})
    accept_everybody.to_csv(tmp_path / "all.csv", index=False)
    done = command(
        tmp_path,
        "--data",
        tmp_path / "all.csv",
        "--target-column",
        "y",
        "--model",
        "lr",
        "--delta",
        "0.01",
    )
    assert done.exit_code == 1
    assert "the model rejects none of the 4 rows in the test part of the first half" in " ".join(
        done.stderr.split()
    )
