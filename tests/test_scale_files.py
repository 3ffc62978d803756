"""Tables in files, a batch at a time: one way for small and large ones, killed and resumed to the same bytes."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import holdfast as hf
from holdfast import _progress
from holdfast.cli import _certify, _parts, _recourse, _tables, app
from holdfast.cli._tables import TableFile, read_table
from holdfast.errors import InvalidInputError
from holdfast.verify import _radius


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, and 1,000 points as CSV, as one Parquet file, as a folder and as a partitioned one."""
    path = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    network = hf.Network(
        [rng.normal(size=(6, 3)), rng.normal(size=(5, 6)), rng.normal(size=(1, 5))],
        [[0.1] * 6, [0.1] * 5, [0.5]],
    )
    network.save(path / "model.npz")
    frame = pd.DataFrame(rng.uniform(-1, 1, (1000, 3)), columns=list("abc"))
    frame.insert(0, "id", [f"{i:04d}" for i in range(1000)])
    frame.to_csv(path / "points.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame), path / "points.parquet", row_group_size=130)
    for name in ("several", "parted"):
        (path / name).mkdir()
    for i in range(4):
        part = frame[250 * i : 250 * (i + 1)]
        part.to_parquet(path / "several" / f"{i}.parquet", index=False)
        (path / "parted" / f"year={i}").mkdir()
        part.to_parquet(path / "parted" / f"year={i}" / "0.parquet", index=False)
    return path


@pytest.fixture
def small_batches(monkeypatch):
    """Batches so small that the tables here have many."""
    for module, name in (
        (_certify, "_ROWS"),
        (_certify, "_FEWER_ROWS"),
        (_recourse, "_PEOPLE"),
        (_tables, "_ROWS"),
    ):
        monkeypatch.setattr(module, name, 300)


def run(folder, command, data, out, *more, code=0):
    files = ["--model", folder / "model.npz", "--data", folder / data, "--out", folder / out]
    words = [command, *files, "--target", "1", "--index", "id", *more]
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result.output


def expected(folder, verb="certify"):
    model, points = (
        hf.Network.load(folder / "model.npz"),
        read_table(folder / "points.csv", index="id"),
    )
    if verb == "certify":
        return hf.certify(model, points, 1, hf.PlausibleChanges(0.05)).to_frame()
    return hf.certified_radius(model, points, 1).to_frame()


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("data", ["points.csv", "points.parquet", "several", "parted"])
@pytest.mark.parametrize("out", ["out.parquet", "out.csv", "out.csv.gz"])
def test_every_kind_of_table_gives_the_same_answers(folder, data, out):
    drop = ["--drop", "year"] if data == "parted" else []
    said = run(folder, "certify", data, out, "--delta", 0.05, *drop)
    result, whole = (
        read_table(folder / out, index=None if "parquet" in out else "id"),
        expected(folder),
    )
    assert result.index.tolist() == whole.index.tolist()
    assert (result["verdict"] == whole["verdict"]).all()
    np.testing.assert_allclose(result["margin_lower"], whole["margin_lower"], rtol=0, atol=1e-9)
    assert f"{whole['robust'].sum():,} of 1,000 rows provably keep class 1" in said
    assert not list(folder.glob(".*"))


@pytest.mark.usefixtures("small_batches")
def test_words_are_codes_on_their_way_and_text_in_the_result(folder):
    run(folder, "certify", "points.parquet", "words.parquet", "--delta", 0.05)
    whole = expected(folder)
    result = pd.read_parquet(folder / "words.parquet")
    assert result.dtypes.equals(whole.dtypes)
    assert pq.read_schema(folder / "words.parquet").equals(pa.Schema.from_pandas(result), True)
    model, points = (
        hf.Network.load(folder / "model.npz"),
        read_table(folder / "points.csv", index="id"),
    )
    function = hf.over_batches(
        "certify", model, points, target=1, changes=hf.PlausibleChanges(0.05)
    )
    coded = function.coded(points)
    assert {str(coded[name].dtype) for name in ("verdict", "decided_by")} == {"category"}
    pd.testing.assert_frame_equal(coded.astype(whole.dtypes.to_dict()), whole)
    pd.testing.assert_frame_equal(function(points), whole)


@pytest.mark.usefixtures("small_batches")
def test_radii_and_advice_are_streamed_too(folder):
    said = run(folder, "radius", "points.parquet", "radii.parquet")
    radii, whole = pd.read_parquet(folder / "radii.parquet"), expected(folder, "radius")
    np.testing.assert_allclose(radii["radius_lower"], whole["radius_lower"], rtol=0, atol=1e-6)
    half = float(next(line for line in said.splitlines() if "50%" in line).split()[3])
    exact = whole["radius_lower"].quantile(0.5, interpolation="lower")
    assert exact * (1 - 1e-3) <= half <= exact
    method = ["--method", "rnce", "--candidates", folder / "points.csv", "--delta", 0.01]
    run(folder, "explain", "points.parquet", "advice.parquet", *method)
    model, points = (
        hf.Network.load(folder / "model.npz"),
        read_table(folder / "points.csv", index="id"),
    )
    others = read_table(folder / "points.csv")
    whole = hf.explain(
        model, points, target=1, changes=hf.PlausibleChanges(0.01), generator=hf.RNCE(others[list("abc")])
    )  # fmt: skip
    advice = pd.read_parquet(folder / "advice.parquet")
    assert (advice["found"].to_numpy() == whole.found).all()
    np.testing.assert_array_equal(advice[list("abc")], whole.counterfactuals[list("abc")])


def test_a_csv_file_has_the_types_that_its_columns_have_together(tmp_path):
    frame = pd.DataFrame({"n": [1] * 9 + [2.5], "t": ["1"] * 9 + ["x"], "m": [1] * 5 + [None] * 5})
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = TableFile(tmp_path / "t.csv")
    parts = list(table.batches(4))
    assert len(table) == 10
    assert [len(part) for part in parts] == [4, 4, 2]
    assert {tuple(map(str, part.dtypes)) for part in parts} == {("float64", "str", "float64")}
    assert pd.concat(parts).index.tolist() == list(range(10))


SCRIPT = """
import sys, time
from holdfast.cli import _certify, _parts, _tables, app
_certify._ROWS = _tables._ROWS = 50
write = _parts.Parts.write
def slowly(self, number, frame):
    write(self, number, frame)
    time.sleep(0.05)
_parts.Parts.write = slowly
app(sys.argv[1:])
"""


def started(folder, out, *more):
    """A run that takes its time."""
    words = ["certify", "--model", folder / "model.npz", "--data", folder / "points.parquet"]
    words += ["--target", "1", "--index", "id", "--delta", "0.05", "--out", folder / out, *more]
    command = [sys.executable, "-c", SCRIPT, *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None and not list(folder.glob(f".{out}*/0*")):
        time.sleep(0.005)
    return process


def test_the_same_run_twice_at_once_is_told_of_the_other(folder, monkeypatch):
    for module in (_certify, _tables):
        monkeypatch.setattr(module, "_ROWS", 50)
    with started(folder, "twice.parquet") as process:
        said = run(folder, "certify", "points.parquet", "twice.parquet", "--delta", 0.05, code=2)
        process.kill()
    assert f"another run writes this file: process {process.pid}" in (
        " ".join(said.split())
    )  # fmt: skip
    run(folder, "certify", "points.parquet", "twice.parquet", "--delta", 0.05)
    assert not list(folder.glob(".*"))


@pytest.mark.skipif(not Path("/proc").exists(), reason="children are found in /proc")
def test_workers_do_not_outlive_a_run_that_is_killed(folder):
    with started(folder, "workers.parquet", "--n-jobs", 2) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    assert len(children) >= 2
    for _ in range(100):
        left = [child for child in children if Path(f"/proc/{child}/cmdline").exists()]
        # One that has ended stays in the table until whoever inherits it looks.
        left = [child for child in left if Path(f"/proc/{child}/cmdline").read_text()]
        if not left:
            break
        time.sleep(0.1)
    assert not left
    shutil.rmtree(next(folder.glob(".workers*")))


def test_a_key_is_the_same_from_every_kind_of_file(folder, tmp_path):
    table = pd.read_csv(folder / "points.csv", dtype={"id": int})
    table.to_csv(tmp_path / "p.csv", index=False)
    table.to_parquet(tmp_path / "p.parquet", index=False)
    method = ["--method", "rnce", "--candidates", folder / "points.csv", "--delta", 0.01]
    for kind in ("csv", "parquet"):
        run(folder, "explain", tmp_path / f"p.{kind}", tmp_path / f"of_{kind}.parquet", *method)
    first = tmp_path / "of_csv.parquet"
    assert first.read_bytes() == (tmp_path / "of_parquet.parquet").read_bytes()
    # What was written is read again by the same key.
    run(folder, "certify", first, tmp_path / "again.csv", "--delta", 0.01, "--drop", "id")
    again = read_table(tmp_path / "again.csv", index="id")
    assert set(again.index) <= set(map(str, table["id"]))


@pytest.mark.usefixtures("small_batches")
def test_where_there_is_no_terminal_a_line_says_how_far_it_is(folder, monkeypatch):
    monkeypatch.setattr(_progress, "_EVERY", 0.0)
    said = run(folder, "certify", "points.parquet", "lines.csv", "--delta", 0.05)
    assert "certify: 300 of 1,000 (30%), 0 s; about" in said


@pytest.mark.parametrize(
    ("command", "more", "total"),
    [
        ("certify", ["--delta", 0.05], "1,000"),
        ("radius", ["--norm", 2], "3"),
        ("explain", ["--method", "closest", "--delta", 0.01, "--rows", 8], "8"),
    ],
)
def test_a_line_says_how_far_it_is_within_a_batch(folder, monkeypatch, command, more, total):
    monkeypatch.setattr(_progress, "_EVERY", 0.0)
    monkeypatch.setattr(_radius, "_BALL_PATIENCE", 0.1)
    few = pd.read_parquet(folder / "points.parquet").head(3 if command == "radius" else 1000)
    few.to_parquet(folder / "few.parquet", index=False)
    said = run(folder, command, "few.parquet", "within.csv", *more)
    counts = [line.split()[1] for line in said.splitlines() if f"of {total} (" in line]
    assert counts
    assert counts == sorted(set(counts), key=int)
    assert total not in counts


def test_the_smallest_radii_are_those_of_rows_that_have_the_class(folder):
    said = run(folder, "radius", "points.parquet", "r.csv")
    radii = pd.read_csv(folder / "r.csv")["radius_lower"]
    assert f"{(radii == 0).sum():,} of 1,000 rows do not have the class today, or barely" in said
    assert f"{radii[radii > 0].min():.6g}" in said.split("smallest radii above 0")[1]


def test_a_stray_file_among_parquet_files_is_named(folder, tmp_path):
    (tmp_path / "a.parquet").write_bytes((folder / "points.parquet").read_bytes())
    (tmp_path / "_SUCCESS").touch()
    run(folder, "certify", tmp_path, "fine.csv", "--delta", 0.05)
    (tmp_path / "notes.txt").write_text("hello")
    said = run(folder, "certify", tmp_path, "bad.csv", "--delta", 0.05, code=2)
    assert "notes.txt: expected only Parquet files in" in " ".join(said.split())


def test_a_part_is_read_as_it_was_written_though_a_column_has_the_name_of_the_key(tmp_path):
    frame = pd.DataFrame(
        {
            "row": pd.array([1, None, 3], dtype="Int64"),
            "verdict": pd.Categorical(["x", "y", "x"]),
            "advice": pd.Series(["a", None, "ü"], dtype="str"),
            "cost": [1.5, np.nan, -np.inf],
        },
        index=pd.Index([7, 8, 9], name="row"),
    )
    like = frame.iloc[:0].astype({"verdict": "str"})
    out = tmp_path / "out.parquet"
    parts = _parts.Parts.of(out, "0" * 16, like)
    with parts.growing() as keep:
        keep(0, frame)
        keep(1, frame[::-1])
        pd.testing.assert_frame_equal(parts.read(0), frame)
    schema = pq.read_schema(out)
    assert schema.names == [*frame.columns, "__index_level_0__"]
    assert "string" in str(schema.field("verdict").type)
    assert pq.read_table(out)["__index_level_0__"].to_pylist() == [7, 8, 9, 9, 8, 7]


def test_killed_and_resumed_it_writes_the_same_bytes(folder, monkeypatch):
    with started(folder, "killed.parquet") as process:
        while process.poll() is None and len(list(folder.glob(".killed*/0*"))) < 7:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not (folder / "killed.parquet").exists()
    kept = sorted(folder.glob(".killed*/0*"))
    assert 7 <= len(kept) < 20
    for module in (_certify, _tables):
        monkeypatch.setattr(module, "_ROWS", 50)
    real, written = _parts.Parts.write, []
    monkeypatch.setattr(
        _parts.Parts, "write", lambda *given: (written.append(given[1]), real(*given))
    )
    for name in ("killed.parquet", "whole.parquet"):
        run(folder, "certify", "points.parquet", name, "--delta", 0.05)
    assert written == [*range(len(kept), 20), *range(20)]
    assert (folder / "killed.parquet").read_bytes() == (folder / "whole.parquet").read_bytes()
    assert not list(folder.glob(".*"))


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("out", ["o.csv", "o.csv.gz", "o.parquet"])
def test_parts_of_another_question_are_not_taken(folder, monkeypatch, out):
    real, left = _parts.Parts.write, [2]

    def fail(self, number, frame):
        left[0] -= 1
        if left[0] < 0:
            raise hf.errors.InvalidInputError("no more room")
        real(self, number, frame)

    run(folder, "certify", "points.parquet", out, "--delta", 0.05)
    whole = (folder / out).read_bytes()
    monkeypatch.setattr(_parts.Parts, "write", fail)
    assert "no more room" in run(folder, "certify", "points.parquet", out, "--delta", 0.05, code=2)
    (kept,) = folder.glob(f".{out}.*")
    assert len(list(kept.glob("0*"))) == 2
    monkeypatch.setattr(_parts.Parts, "write", real)
    run(folder, "certify", "points.parquet", out, "--delta", 0.04)
    assert kept.exists()
    assert (folder / out).read_bytes() != whole
    run(folder, "certify", "points.parquet", out, "--delta", 0.05)
    assert not kept.exists()
    assert (folder / out).read_bytes() == whole


def test_a_folder_of_two_schemas_is_refused_by_the_name_of_the_file(folder, tmp_path):
    for i in range(2):
        frame = pd.read_parquet(folder / "several" / f"{i}.parquet")
        (frame.assign(b="x") if i else frame).to_parquet(tmp_path / f"{i}.parquet", index=False)
    said = run(folder, "certify", tmp_path, "bad.csv", "--delta", 0.05, code=2)
    assert "1.parquet: expected double in the column 'b'" in " ".join(said.split())
    pd.read_parquet(tmp_path / "0.parquet").drop(columns="c").to_parquet(tmp_path / "1.parquet")
    said = run(folder, "certify", tmp_path, "bad.csv", "--delta", 0.05, code=2)
    assert "1.parquet: expected the column 'c'" in " ".join(said.split())


def parts_in(place, *parts):
    """A folder of Parquet files: tables, or bytes, by their paths."""
    for path, part in parts:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(part, bytes):
            (place / path).write_bytes(part)
        else:
            pq.write_table(part, place / path)
    return place


ONE = {"id": pa.array([1, 2]), "a": pa.array([1, 2]), "t": pa.array(["x", "y"])}


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        (
            [("t=z/0.parquet", pa.table(ONE))],
            "column 't' in one place, got it in a folder's name and",
        ),
        (
            [("t=z/0.parquet", pa.table(ONE | {"t": pa.array(["x", "y"], pa.large_string())}))],
            "column 't' in one place, got it in a folder's name and the file",
        ),
        ([("a=7/0.parquet", pa.table(ONE))], "column 'a' in one place"),
        (
            [("0.parquet", pa.table([[1], [2]], ["a", "a"]))],
            "column 'a' in one place, got it in the file twice",
        ),
        (
            [("0.parquet", pa.table(ONE)), ("1.parquet", b"")],
            "1.parquet: expected a Parquet file, got an empty",
        ),
        ([("_SUCCESS", b"")], "expected a Parquet file in this folder, got none"),
        (
            [
                ("0.parquet", pa.table(ONE)),
                ("1.parquet", pa.table(ONE | {"note": pa.array([1, 2])})),
            ],
            "1.parquet: expected no column 'note', as in the first file of .*; --drop note leaves it out",
        ),
        (
            [
                ("0.parquet", pa.table(ONE)),
                ("1.parquet", pa.table(ONE | {"a": pa.array([1.5, 2])})),
            ],
            "1.parquet: expected int64 in the column 'a', as in the first file of .*, got double",
        ),
    ],
)
def test_a_folder_that_is_no_one_table_is_refused(tmp_path, parts, complaint):
    with pytest.raises(hf.errors.FileFormatError, match=complaint):
        read_table(parts_in(tmp_path, *parts))


@pytest.mark.parametrize("turned", [1, -1])
@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize(
    ("narrow", "wide", "dtype"),
    [
        (pa.array([1, 2], pa.int8()), pa.array([300, 2**60]), "int64"),
        (pa.array([1, 2], pa.uint8()), pa.array([300, 2**60], pa.uint64()), "uint64"),
        (pa.array([0.5, 2], pa.float32()), pa.array([0.1, 1e300]), "float64"),
        (pa.array(["x", "y"]), pa.array(["z", "x"], pa.large_string()), "str"),
        (pa.array(["x", "y"]), pa.array(["z", "x"]).dictionary_encode(), "str"),
        (pa.array([], pa.null()), pa.array([300, 2**60]), "int64"),
    ],
)
def test_files_of_a_folder_may_differ_in_how_wide_a_column_is(
    tmp_path, narrow, wide, dtype, size, turned
):
    tables = [pa.table({"a": values}) for values in (narrow, wide)][::turned]
    if narrow.type == pa.int8() and turned == 1:
        # pandas' own word for the type is no longer true.
        tables[0] = pa.Table.from_pandas(tables[0].to_pandas().astype("Int8"))
    folder = parts_in(tmp_path, *((f"{i}.parquet", table) for i, table in enumerate(tables)))
    whole = pd.concat(TableFile(folder).batches(size))["a"]
    assert whole.tolist() == [value for table in tables for value in table["a"].to_pylist()]
    assert whole.dtype == dtype


def test_a_column_that_some_files_lack_can_be_left_out(tmp_path):
    other = pa.table(ONE | {"note": pa.array([1, 2])})
    more = pa.table(ONE | {"note": pa.array(["x", None])})
    for parts in ((pa.table(ONE), other, more), (other, more, pa.table(ONE))):
        parts_in(tmp_path, *((f"{i}.parquet", part) for i, part in enumerate(parts)))
        assert list(read_table(tmp_path, drop=["note"]).columns) == ["id", "a", "t"]
    with pytest.raises(InvalidInputError, match="expected a column 'nota', got"):
        read_table(tmp_path, drop=["nota", "note"])


def test_a_key_in_the_name_of_a_folder_is_text(tmp_path):
    rest = pa.table({"a": pa.array([1.5])})
    folder = parts_in(tmp_path, *((f"id=0{i}/0.parquet", rest) for i in range(3)))
    assert read_table(folder, index="id").index.tolist() == ["00", "01", "02"]
    assert read_table(folder)["id"].tolist() == [0, 1, 2]
    # So are labels that the space knows as text; and one file of a partitioned table is read as it is in there.
    space = hf.FeatureSpace.from_frame(pd.DataFrame({"a": [1.5, 2.5], "id": ["00", "01"]}))
    assert read_table(folder / "id=01" / "0.parquet", space=space)["id"].tolist() == ["01"]


def test_a_csv_column_named_twice_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(hf.errors.FileFormatError, match="expected each column once, got 'a' twice"):
        read_table(tmp_path / "t.csv")
