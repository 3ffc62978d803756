"""The command line: what it shows and writes agrees with the library, and bad input is one line and exit code 2."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import holdfast as hf
from holdfast.cli import app
from holdfast.cli._tables import read_table

runner = CliRunner()
DELTA = 0.05


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(0)
    return hf.Network(
        [rng.normal(size=(6, 3)), rng.normal(size=(5, 6)), rng.normal(size=(1, 5))],
        [[0.1] * 6, [0.1] * 5, [0.5]],
    )


@pytest.fixture
def files(tmp_path, network):
    """A saved network, and 40 points that it calls class 1 with a key and a label column."""
    rng = np.random.default_rng(1)
    points = rng.uniform(-1, 1, size=(400, 3))
    points = points[network.predict(points) == 1][:40]
    frame = pd.DataFrame(points, columns=["a", "b", "c"])
    frame.insert(0, "person", [f"p{i}" for i in range(len(frame))])
    frame["label"] = 1
    network.save(tmp_path / "model.npz")
    frame.to_csv(tmp_path / "points.csv", index=False)
    return tmp_path


def run(files, command, *arguments, data="points.csv", model="model.npz", target="1"):
    paths = ["--model", str(files / model), "--data", str(files / data), "--target", target]
    return runner.invoke(app, [command, *paths, *map(str, arguments)])


KEYS = ("--index", "person", "--drop", "label")


def points_of(files):
    return read_table(files / "points.csv", index="person", drop=["label"])


def test_certify_agrees_with_the_library(files, network):
    result = run(files, "certify", "--delta", DELTA, *KEYS, "--out", files / "verdicts.csv")
    assert result.exit_code == 0, result.output
    expected = hf.certify(network, points_of(files), 1, hf.PlausibleChanges(DELTA)).to_frame()
    written = read_table(files / "verdicts.csv", index="person")
    assert 0 < written["robust"].sum() < len(written)
    pd.testing.assert_frame_equal(written, expected, check_exact=True, check_dtype=False)


def test_certify_shows_how_many_hold_and_who_decided(files):
    result = run(files, "certify", "--delta", DELTA, *KEYS, "--out", files / "verdicts.csv")
    written = pd.read_csv(files / "verdicts.csv")
    assert f"{written['robust'].sum()} of 40 rows provably keep class 1" in result.output
    for name, count in [*written["decided_by"].value_counts().items(), ("UNKNOWN", 0)]:
        assert any(name in line and f" {count} " in line for line in result.output.splitlines())
    narrowest = written[written["robust"]].nsmallest(1, "margin_lower")["person"].item()
    assert any(narrowest in line for line in result.output.splitlines())


@pytest.mark.parametrize("name", ["verdicts.csv.gz", "verdicts.parquet"])
def test_other_formats_hold_the_same(files, name):
    run(files, "certify", "--delta", DELTA, *KEYS, "--out", files / "verdicts.csv")
    result = run(files, "certify", "--delta", DELTA, *KEYS, "--out", files / name)
    assert result.exit_code == 0, result.output
    as_csv = read_table(files / "verdicts.csv", index="person")
    parquet = name.endswith("parquet")
    other = pd.read_parquet(files / name) if parquet else read_table(files / name, index="person")
    pd.testing.assert_frame_equal(as_csv, other, check_dtype=False, check_exact=True)


@pytest.mark.parametrize("name", ["points.csv.gz", "points.parquet"])
def test_other_formats_are_read(files, name):
    frame = read_table(files / "points.csv")
    frame.to_parquet(files / name) if name.endswith("parquet") else frame.to_csv(
        files / name, index=False
    )
    first = run(files, "certify", "--delta", DELTA, *KEYS)
    second = run(files, "certify", "--delta", DELTA, *KEYS, data=name)
    assert first.output.splitlines()[:10] == second.output.splitlines()[:10]


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        (["--delta", "0.05", "--norm", "2"], hf.PlausibleChanges(0.05, 2)),
        (["--delta", "0.05", "--norm", "1"], hf.PlausibleChanges(0.05, 1)),
        (["--delta", "0.05", "--no-biases"], hf.PlausibleChanges(0.05, biases=False)),
        (
            ["--delta", "0.05", "--delta", "0.1", "--delta", "0"],
            hf.PlausibleChanges((0.05, 0.1, 0.0)),
        ),
    ],
)
def test_the_options_describe_delta(files, network, arguments, changes):
    result = run(files, "certify", *arguments, *KEYS, "--out", files / "verdicts.csv")
    assert result.exit_code == 0, result.output
    expected = hf.certify(network, points_of(files), 1, changes)
    assert pd.read_csv(files / "verdicts.csv")["robust"].tolist() == expected.robust.tolist()


def test_rows_are_numbered_without_an_index(files):
    run(
        files,
        "certify",
        "--delta",
        DELTA,
        "--drop",
        "person",
        "--drop",
        "label",
        "--out",
        files / "verdicts.csv",
    )
    assert pd.read_csv(files / "verdicts.csv")["row"].tolist() == list(range(40))


def test_the_number_in_the_file_is_the_number_certified(files):
    digits = ["0.30000000000000004", "1e-320", "123456.78901234567"]
    (files / "one.csv").write_text("a,b,c\n" + ",".join(digits) + "\n", encoding="utf-8")
    assert read_table(files / "one.csv").iloc[0].tolist() == [float(text) for text in digits]


def test_fail_if_broken(files):
    broken = run(files, "certify", "--delta", DELTA, *KEYS, "--fail-if-broken")
    assert broken.exit_code == 3
    assert "rows are not ROBUST" in broken.output
    assert run(files, "certify", "--delta", "1e-12", *KEYS, "--fail-if-broken").exit_code == 0


def test_radius_agrees_with_the_library(files, network):
    read_table(files / "points.csv").head(8).to_csv(files / "few.csv", index=False)
    result = run(files, "radius", *KEYS, "--out", files / "radii.csv", data="few.csv")
    assert result.exit_code == 0, result.output
    expected = hf.certified_radius(network, points_of(files).head(8), 1)
    written = read_table(files / "radii.csv", index="person")
    assert written["radius_lower"].tolist() == expected.lower.tolist()
    assert written["radius_upper"].tolist() == expected.upper.tolist()
    assert f"{expected.lower.min():.6g}" in result.output


def test_factuals_are_matched_by_key(files, network):
    frame = read_table(files / "points.csv")
    frame.sample(frac=1, random_state=0).to_csv(files / "factuals.csv", index=False)
    result = run(
        files,
        "certify",
        "--delta",
        DELTA,
        *KEYS,
        "--factuals",
        files / "factuals.csv",
        "--out",
        files / "v.csv",
    )
    assert result.exit_code == 0, result.output
    points = points_of(files)
    expected = hf.certify(network, points, 1, hf.PlausibleChanges(DELTA), factuals=points)
    written = pd.read_csv(files / "v.csv")
    assert written["robust"].tolist() == expected.robust.tolist()
    assert written["sound"].tolist() == expected.sound.tolist()
    assert f"keeps the class of {expected.sound.sum()} of the factuals" in result.output


@pytest.mark.parametrize(
    ("classes", "target"),
    [
        ([0, 1], "1"),
        ([0, 1], "1.0"),
        (["no", "yes"], "yes"),
        ([0.0, 1.0], "1"),
        ([False, True], "True"),
    ],
)
def test_the_target_is_spelled_as_the_model_spells_it(files, network, classes, target):
    hf.Network(network.weights, network.biases, classes).save(files / "named.npz")
    result = run(files, "certify", "--delta", DELTA, *KEYS, model="named.npz", target=target)
    assert result.exit_code == 0, result.output


UNREADABLE = {
    "nan.csv": "a,b,c\n1,,2\n",
    "words.csv": "a,b,c\n1,x,2\n",
    "no_rows.csv": "a,b,c\n",
    "empty.csv": "",
    "not_parquet.parquet": "a,b,c\n",
    "one.csv": "a,b,c\n1,2,3\n",
    "one_person.csv": "person,a,b,c\np0,1,2,3\n",
    "semicolons.csv": "person;a;b;c;label\np0;1,5;2;3;0\n",
    "latin.csv": b"person,a,b,c,label\nJos\xe9,1,2,3,0\n",
    "corrupted.npz": "no",
    "pickle.pkl": "no",
}
PLAIN = ("--delta", "0.05")
NAMELESS = (*PLAIN, "--drop", "person", "--drop", "label")

# What is wrong: the options, other files or another target than the good ones, what the complaint must say.
BAD = {
    "unknown target": ([*PLAIN, *KEYS], {"target": "7"}, "expected one of [0, 1]"),
    "delta is zero": (["--delta", "0", *KEYS], {}, "expected delta > 0"),
    "delta is nan": (["--delta", "nan", *KEYS], {}, "got nan"),
    "norm is zero": ([*PLAIN, "--norm", "0", *KEYS], {}, "norm: expected p >= 1"),
    "two radii, three layers": ([*PLAIN, *PLAIN, *KEYS], {}, "3 layers, got 2"),
    "negative time limit": ([*PLAIN, "--time-limit", "-1", *KEYS], {}, "-1"),
    "unknown method": ([*PLAIN, "--method", "guess", *KEYS], {}, "guess"),
    "label left in": ([*PLAIN, "--index", "person"], {}, "got 4: a, b, c, label"),
    "no such index": ([*PLAIN, "--index", "who"], {}, "expected a column 'who'"),
    "no such drop": ([*PLAIN, "--drop", "who"], {}, "expected a column 'who'"),
    "nan in the data": (PLAIN, {"data": "nan.csv"}, "expected finite numbers, got nan"),
    "words in the data": (PLAIN, {"data": "words.csv"}, "expected numbers"),
    "no rows": (PLAIN, {"data": "no_rows.csv"}, "at least one row"),
    "semicolons": ([*PLAIN, *KEYS], {"data": "semicolons.csv"}, "separated by semicolons?"),
    "not UTF-8": ([*PLAIN, *KEYS], {"data": "latin.csv"}, "expected a table in UTF-8"),
    "empty file": (PLAIN, {"data": "empty.csv"}, "cannot be read"),
    "not a table": (PLAIN, {"data": "model.npz"}, "expected a name that ends in"),
    "not Parquet": (PLAIN, {"data": "not_parquet.parquet"}, "cannot be read"),
    "model is missing": ([*PLAIN, *KEYS], {"model": "nowhere.npz"}, "does not exist"),
    "corrupted model": ([*PLAIN, *KEYS], {"model": "corrupted.npz"}, "corrupted.npz"),
    "pickle without trust": ([*PLAIN, *KEYS], {"model": "pickle.pkl"}, "trust"),
    "folder is missing": (
        [*PLAIN, *KEYS, "--out", "{files}/nowhere/v.csv"],
        {},
        "expected a file in an existing folder",
    ),
    "fewer factuals": (
        [*NAMELESS, "--factuals", "{files}/one.csv"],
        {},
        "expected 40 rows or more",
    ),
    "factual without a key": (
        [*PLAIN, *KEYS, "--factuals", "{files}/one_person.csv"],
        {},
        "got none for",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(files, case):
    for name, text in UNREADABLE.items():
        (files / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    arguments, others, message = BAD[case]
    result = run(
        files, "certify", *(argument.format(files=files) for argument in arguments), **others
    )
    assert result.exit_code == 2, result.output
    # A usage error comes in a frame, wrapped wherever the path's length has it.
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output
    if result.output.startswith("error:"):
        assert len(result.output.splitlines()) == 1


def test_an_unknown_extension_is_refused_before_any_work(files):
    (files / "corrupted.npz").write_text("no", encoding="utf-8")
    result = run(files, "certify", *PLAIN, "--out", files / "verdicts.xlsx", model="corrupted.npz")
    assert result.exit_code == 2
    assert "verdicts.xlsx" in result.output
    assert "corrupted.npz" not in result.output


def test_debug_shows_where_an_error_came_from(files):
    paths = ["--model", files / "model.npz", "--data", files / "points.csv", "--target", "1"]
    result = runner.invoke(app, ["--debug", "certify", *map(str, paths), "--delta", "0"])
    assert isinstance(result.exception, hf.HoldfastError)


def test_a_failed_write_leaves_the_old_file(files, monkeypatch):
    def break_off(frame, path, **options):
        Path(path).write_text("half", encoding="utf-8")
        raise OSError("disk full")

    old = files / "verdicts.csv"
    old.write_text("old", encoding="utf-8")
    monkeypatch.setattr(pd.DataFrame, "to_csv", break_off)
    result = run(files, "certify", "--delta", DELTA, *KEYS, "--out", old)
    assert result.exit_code == 2
    assert "disk full" in result.output
    assert old.read_text(encoding="utf-8") == "old"
    assert [path.name for path in files.iterdir() if "partial" in path.name] == []


def test_version_and_help():
    assert runner.invoke(app, ["--version"]).output.strip() == f"holdfast {hf.__version__}"
    shown = runner.invoke(app, ["--help"]).output
    assert all(command in shown for command in ("certify", "radius", "demo"))


def test_the_installed_command(files):
    script = Path(sys.executable).with_name("holdfast")
    arguments = [
        "certify",
        "--model",
        "model.npz",
        "--data",
        "points.csv",
        "--target",
        "1",
        "--delta",
        "0.05",
        *KEYS,
    ]
    done = subprocess.run(
        [script, *arguments, "--fail-if-broken"], cwd=files, capture_output=True, text=True
    )
    assert done.returncode == 3
    assert "rows provably keep class 1" in done.stdout
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1


def test_python_m_holdfast():
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"holdfast {hf.__version__}"
