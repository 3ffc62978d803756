"""The ledger: what is written comes back, what is tampered with shows, and kill -9 or a second writer does no harm."""

import base64
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import holdfast as hf
from holdfast import checker
from holdfast.cli import app
from holdfast.errors import FileFormatError, HoldfastError, InvalidInputError
from holdfast.promises import Ledger, audit
from holdfast.promises._certificate import plain_model
from holdfast.promises._ledger_file import LedgerFile
from holdfast.promises._pages import Columns, Page
from ledger_cases import DELTA, make_lender, random_network, record

runner = CliRunner()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "promises.ledger"


@pytest.fixture(scope="module")
def lender():
    return make_lender()


# ---------------------------------------------------------------- what is written comes back


def test_every_promise_comes_back_as_it_was_made(path, lender):
    with Ledger(path) as ledger:
        receipt = record(ledger, lender)
        (batch,) = ledger.promises()
    n = len(lender.promised)
    assert (receipt.added, receipt.skipped, receipt.total) == (n, 0, n)
    assert batch.numbers.tolist() == list(range(1, n + 1))
    assert batch.keys.tolist() == lender.promised.index.tolist()
    assert set(batch.dates) == {"2026-11-16"}
    assert set(batch.targets) == {1}
    for came, went in ((batch.counterfactuals, lender.promised), (batch.factuals, lender.people)):
        pd.testing.assert_frame_equal(came.rename_axis(None), went, check_exact=True)
    assert batch.points.tobytes() == lender.space.encode(lender.promised).tobytes()
    assert batch.terms.network == lender.network
    assert batch.terms.space == lender.space
    assert batch.terms.changes == lender.changes
    assert batch.terms.model_hash == plain_model(lender.network).sha256
    expected = hf.certify(lender.network, lender.promised, 1, lender.changes, space=lender.space)
    assert batch.verdicts.tolist() == [str(verdict) for verdict in expected.verdict]
    assert {"ROBUST", "NOT_ROBUST"} <= set(batch.verdicts)
    radius = hf.certified_radius(lender.network, lender.promised, 1, space=lender.space)
    np.testing.assert_array_equal(batch.radius, radius.lower)


def test_what_explain_returned_is_recorded_without_the_rows_that_have_no_answer(path, lender):
    people = pd.concat([lender.people.head(5), lender.promised.head(2).set_axis(["a", "b"])])
    advice = hf.explain(
        lender.network,
        people,
        target=1,
        changes=lender.changes,
        generator=hf.RNCE(lender.promised),
        space=lender.space,
    )
    assert not advice.found.all()
    with Ledger(path) as ledger:
        receipt = ledger.add(advice)
        batches = list(ledger.promises(batch=2))
    assert (receipt.added, receipt.skipped) == (
        advice.found.sum(),
        len(people) - advice.found.sum(),
    )
    assert all(len(batch) <= 2 for batch in batches)
    keys = np.concatenate([batch.keys for batch in batches])
    assert keys.tolist() == people.index[advice.found].tolist()
    came = np.concatenate([batch.points for batch in batches])
    assert came.tobytes() == advice.points[advice.found].tobytes()
    verdicts = np.concatenate([batch.verdicts for batch in batches])
    assert verdicts.tolist() == [str(verdict) for verdict in advice.verdict[advice.found]]


def test_a_model_is_stored_once_and_several_models_and_deltas_live_side_by_side(path, lender):
    other = make_lender(seed=3, hidden=(5, 4))
    with Ledger(path) as ledger:
        for _ in range(3):
            record(ledger, lender, radius=False)
            record(ledger, other, radius=False)
        record(ledger, lender, changes=hf.PlausibleChanges((0.01, 0.02), 2.0, biases=False))
        record(ledger, lender, changes=None)
        terms = ledger.terms
        assert ledger.verify().intact
    assert [known.changes for known in terms] == [
        lender.changes, other.changes, hf.PlausibleChanges((0.01, 0.02), 2.0, biases=False), None,
    ]  # fmt: skip
    with sqlite3.connect(path) as connection:
        # Two networks, two spaces, four terms.
        assert connection.execute("SELECT count(*) FROM objects").fetchone() == (8,)


def test_a_promise_that_todays_model_breaks_is_refused_and_nothing_is_written(path, lender):
    wrong = lender.promised.copy()
    wrong.iloc[3] = lender.people.iloc[3]
    with Ledger(path) as ledger:
        with pytest.raises(
            InvalidInputError, match=f"under this model for 1 of .* key {wrong.index[3]!r}"
        ):
            ledger.add_frame(lender.network, lender.people, wrong, target=1, space=lender.space)
        assert len(ledger) == 0
        assert ledger.verify().intact


def test_the_threshold_counts_when_a_promise_is_made(path, lender):
    logits = lender.network.logits(lender.space.encode(lender.promised))[:, 0]
    threshold = float(1 / (1 + np.exp(-np.median(logits))))
    with Ledger(path) as ledger:
        with pytest.raises(InvalidInputError, match="another class under this model"):
            record(ledger, lender, threshold=threshold)
        sure = lender.promised[logits > np.median(logits)]
        ledger.add_frame(
            lender.network, lender.people.loc[sure.index], sure, target=1, space=lender.space, changes=lender.changes,
            threshold=threshold,
        )  # fmt: skip
        (batch,) = ledger.promises()
    shifted = lender.network.with_parameters(
        lender.network.weights,
        [lender.network.biases[0], lender.network.biases[1] - np.median(logits)],
    )
    expected = hf.certified_radius(shifted, sure, 1, space=lender.space).lower
    np.testing.assert_allclose(batch.radius, expected, atol=2e-6)
    assert (
        batch.radius < hf.certified_radius(lender.network, sure, 1, space=lender.space).lower
    ).all()


def test_export_is_the_whole_ledger_in_raw_units(path, lender, tmp_path):
    with Ledger(path) as ledger:
        record(ledger, lender)
        record(ledger, lender, changes=None)
        for name in ("out.csv", "out.csv.gz", "out.parquet"):
            assert ledger.export(tmp_path / name) == len(ledger)
        with pytest.raises(InvalidInputError, match="expected a name that ends in"):
            ledger.export(tmp_path / "out.xlsx")
    tables = [pd.read_csv(tmp_path / "out.csv"), pd.read_csv(tmp_path / "out.csv.gz")]
    tables.append(pd.read_parquet(tmp_path / "out.parquet"))
    for table in tables:
        assert table["number"].tolist() == list(range(1, 2 * len(lender.promised) + 1))
        row = json.loads(table["counterfactual"].iloc[2])
        assert row == {name: _plain(value) for name, value in lender.promised.iloc[2].items()}
    assert not list(tmp_path.glob("*.partial*"))


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value


# ---------------------------------------------------------------- what is tampered with shows


def tamper(path, statement, *arguments):
    """As someone would who has the file."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(statement, arguments)
    connection.commit()
    connection.close()


def rewritten_pages(path, change):
    """Every page as `change` makes it of what it was."""
    with sqlite3.connect(path) as connection:
        pages = [Page(*row) for row in connection.execute("SELECT * FROM pages ORDER BY number")]
    tamper(path, "DELETE FROM pages")
    for page in map(change, pages):
        tamper(path, f"INSERT INTO pages VALUES ({', '.join('?' * len(page))})", *page)


def line(column, text, place=6):
    """Another line for a promise in a column of text."""

    def change(page):
        lines = getattr(page, column).split("\n")
        return page._replace(**{column: "\n".join([*lines[:place], text, *lines[place + 1 :]])})

    return change


def byte(column, place, value):
    """Another byte in a column of numbers."""

    def change(page):
        content = bytearray(getattr(page, column))
        content[place] = value if content[place] != value else value ^ 1
        return page._replace(**{column: bytes(content)})

    return change


COPIED = ", ".join(Page._fields[1:])
TAMPERING = {
    "key": (line("keys", '"someone"'), "promise 7"),
    "raw row": (line("counterfactuals", '[9000.0,0,"full",0.5]'), "promise 7"),
    "factual": (line("factuals", '[9000.0,0,"full",0.5]'), "promise 7"),
    "a row that is none": (line("factuals", "[1]"), "promise 7"),
    "date": ("UPDATE pages SET date = '2020-01-01'", "promise 7"),
    "target": (byte("targets", 12, 0), "promise 7"),
    "verdict": (byte("verdicts", 6, 3), "promise 7"),
    "radius": (byte("radii", 50, 85), "promise 7"),
    "salt": (byte("salts", 200, 85), "promise 7"),
    "point": (byte("points", 6 * 48 + 6, 85), "promise 7"),
    "points": ("UPDATE pages SET points = zeroblob(length(points))", "promise 1:"),
    "reach": ("UPDATE pages SET reach = zeroblob(length(reach))", "its reach is wrong"),
    "commitments": ("UPDATE pages SET commitments = zeroblob(length(commitments))", "page 1"),
    "points that are too short": ("UPDATE pages SET points = x'00'", "page 1"),
    "radii that are too short": ("UPDATE pages SET radii = x'00'", "page 1"),
    "a byte from one column to the next": (
        "UPDATE pages SET salts = substr(salts, 2), targets = CAST(x'00' || targets AS BLOB)",
        "page 1",
    ),
    "a key too many": (lambda page: page._replace(keys=page.keys + '\n"q"'), "page 1"),
    "size": ("UPDATE pages SET size = size - 1", "page 1"),
    "number": ("UPDATE pages SET number = 2", "page 2"),
    "first": ("UPDATE pages SET first = 2", "page 1"),
    "hash": ("UPDATE pages SET hash = zeroblob(32)", "page 1"),
    "terms of the page": (
        "UPDATE pages SET terms = (SELECT hash FROM objects WHERE hash != terms)",
        "page 1",
    ),
    "note": ("UPDATE pages SET note = 'x'", "page 1"),
    **{
        f"a page {number}": (
            f"INSERT INTO pages SELECT {number}, {COPIED} FROM pages",
            f"page {number}",
        )
        for number in (-(2**63), -(2**62) - 1, -1, 0, 2, 1000, 2**63 - 1)
    },
    "a verdict as if erased": (
        byte("verdicts", 6, 255),
        "data of an erased promise is left",
    ),
    "a promise blanked": (
        lambda page: page.blanked(np.array([6])),
        "promise 7: it is missing, and no entry says",
    ),
    "id": ("UPDATE about SET value = 'x' WHERE name = 'id'", "page 1"),
    "pseudonyms": ("UPDATE about SET value = 'x' WHERE name = 'pseudonyms'", "page 1"),
    "model": ("UPDATE objects SET content = CAST(replace(content, '0.', '1.') AS BLOB)", "object"),
    "a blank in the model": ("UPDATE objects SET content = CAST(content || ' ' AS BLOB)", "object"),
    "terms": ("DELETE FROM objects", "expected an object"),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_what_was_tampered_with_is_named(path, lender, name):
    change, message = TAMPERING[name]
    with Ledger(path) as ledger:
        record(ledger, lender)
    if callable(change):
        rewritten_pages(path, change)
    else:
        tamper(path, change)
    with Ledger(path) as ledger:
        result = ledger.verify()
    assert not result.intact
    assert message in str(result)
    shown = runner.invoke(app, ["ledger", "verify", "--ledger", str(path)])
    assert shown.exit_code == 3
    assert "NOT intact" in shown.output


@pytest.mark.parametrize("column", ["keys = CAST(keys AS BLOB)", "size = 'many'", "hash = 7"])
def test_a_value_of_another_type_is_refused_by_the_file(path, lender, column):
    with Ledger(path) as ledger:
        record(ledger, lender)
    with pytest.raises(sqlite3.IntegrityError, match="cannot store"):
        tamper(path, f"UPDATE pages SET {column}")


def swapped(page, i, j):
    """A page in which two promises have changed places, salts and all."""
    order = np.arange(page.size)
    order[[i, j]] = j, i
    texts = {
        name: "\n".join(page.lines(name)[order]) for name in ("keys", "counterfactuals", "factuals")
    }
    columns = ("targets", "verdicts", "radii", "points", "salts")
    return page._replace(
        **texts, **{name: moved(getattr(page, name), page.size, order) for name in columns}
    )


def moved(content, size, order):
    return np.frombuffer(content, "u1").reshape(size, -1)[order].tobytes()


def test_promises_that_changed_places_show(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender)
    rewritten_pages(path, lambda page: swapped(page, 2, 7))
    with Ledger(path) as ledger:
        assert "promise 3: it was changed; promise 8: it was changed" in str(ledger.verify())


def test_a_promise_moved_to_another_page_shows(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender)
        record(ledger, lender, keys=[f"q{i}" for i in range(40)])
        pages = ledger.file.pages(1, 2)
    said = [page.columns(lender.space.n_variables) for page in pages]
    places = np.arange(40)

    def change(page):
        mine, other = (page.number - 1), 2 - page.number
        exchanged = Columns(*(np.where(
            (places == 4).reshape(-1, *[1] * (own.ndim - 1)), theirs, own
        ) for own, theirs in zip(said[mine], said[other], strict=True)))  # fmt: skip
        made = Page.of(page.terms, page.date, exchanged)
        salts = [np.frombuffer(one.salts, "u1").reshape(40, -1) for one in (page, pages[other])]
        salts[0] = np.where((places == 4)[:, None], salts[1], salts[0])
        return made._replace(
            number=page.number, first=page.first, hash=page.hash, commitments=page.commitments,
            salts=salts[0].tobytes(),
        )  # fmt: skip

    rewritten_pages(path, change)
    with Ledger(path) as ledger:
        assert "promise 5: it was changed; promise 45: it was changed" in str(ledger.verify())


def test_pages_that_changed_places_show(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender)
        record(ledger, lender, date="2026-12-01")
    rewritten_pages(path, lambda page: page._replace(number=3 - page.number))
    with Ledger(path) as ledger:
        assert "page 1: it, or the page before it, was changed" in str(ledger.verify())


def test_entries_cut_off_at_the_end_show_against_a_head_that_was_noted_down(path, lender):
    with Ledger(path) as ledger:
        early = record(ledger, lender)
        late = record(ledger, lender, date="2026-12-01")
        result = ledger.verify(head=early.head)
        assert (result.intact, result.known_head) == (True, early.total)
    tamper(path, "DELETE FROM pages WHERE first > ?", early.total)
    with Ledger(path) as ledger:
        # The chain alone cannot see it, as the documents say.
        assert ledger.verify().intact
        assert ledger.verify(head=early.head).intact
        result = ledger.verify(head=late.head)
    assert "no entry has the head that was noted down" in str(result)


def test_what_is_no_ledger_is_refused(path, tmp_path):
    path.write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises((FileFormatError, InvalidInputError)):
        Ledger(path)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(FileFormatError, match="another SQLite database"):
        Ledger(other)
    with pytest.raises(InvalidInputError, match="no such file"):
        Ledger(tmp_path / "nowhere", create=False)
    with pytest.raises(InvalidInputError, match="existing folder"):
        Ledger(tmp_path / "nowhere" / "ledger")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": ["one"]}, "keys: expected one for each"),
        ({"keys": ["\ud800"] * 40}, "keys: expected text that a file can hold"),
        ({"keys": [None, *range(39)]}, "keys: expected a name or number for every row, got None"),
        ({"keys": [*range(39), np.nan]}, "keys: expected a name or number for every row, got nan"),
        ({"keys": ["", *range(39)]}, "keys: expected a name or number for every row, got ''"),
        (
            {"keys": pd.Index([*range(39), pd.NaT])},
            "keys: expected a name or number for every row, got NaT",
        ),
        ({"date": "yesterday"}, "date: expected a date such as"),
        ({"date": pd.NaT}, "date: expected a date"),
        ({"threshold": 1.0}, "threshold: expected a probability"),
        ({"radius": [1e9] * 40}, "radius: expected True or False"),
        ({"target": 7}, "target: expected one of"),
    ],
)
def test_bad_input_is_refused(path, lender, options, message):
    with Ledger(path) as ledger, pytest.raises(InvalidInputError, match=message):
        record(ledger, lender, **options)


# ---------------------------------------------------------------- several writers, and kill -9

WRITER = """
import json, os, sys
sys.path.insert(0, {tests!r})
from ledger_cases import make_lender, record
from holdfast.promises import Ledger, audit
lender = make_lender(10)
# Each line on stdin asks for writers: they add in a loop, and say so after each commit.
for line in sys.stdin:
    order, children = json.loads(line), []
    for _ in range(order["writers"]):
        children.append(os.fork())
        if children[-1] == 0:
            with Ledger(order["path"]) as ledger:
                for turn in range(order["turns"]):
                    keys = [f"{{os.getpid()}}-{{turn}}-{{i}}" for i in range(len(lender.people))]
                    receipt = record(ledger, lender, radius=False, keys=keys)
                    os.write(1, b"%d\\n" % receipt.total)
            os._exit(0)
    os.write(1, b"pid %d\\n" % children[0])
    codes = [os.waitpid(child, 0)[1] for child in children]
    os.write(1, b"end %d\\n" % max(codes))
"""
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


@pytest.fixture(scope="module")
def launcher(root):
    """A process that has imported everything and forks writers as it is told."""
    script = WRITER.format(tests=str(root / "tests"))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.stdin.close()


def order(launcher, path, writers, turns):
    """Start writers; returns the first one's pid and what was said before it was known."""
    launcher.stdin.write(json.dumps({"path": str(path), "writers": writers, "turns": turns}) + "\n")
    launcher.stdin.flush()
    said = []
    while not (line := launcher.stdout.readline()).startswith("pid"):
        said.append(int(line))
    return int(line.split()[1]), said


def until_end(launcher):
    """The totals said after each commit, and the writers' worst exit status."""
    said = []
    while not (line := launcher.stdout.readline()).startswith("end"):
        said.append(int(line))
    return said, int(line.split()[1])


@needs_fork
def test_kill_minus_nine_loses_no_committed_entry_and_leaves_no_half_one(path, launcher):
    wait = random.Random(0)
    batch = len(make_lender(10).promised)
    committed = 0
    for turn in range(20):
        pid, said = order(launcher, path, 1, 10**6)
        if turn % 2:
            # Among its commits, not before the first of them.
            said.append(int(launcher.stdout.readline()))
        time.sleep(wait.uniform(0.0, 0.06))
        os.kill(pid, signal.SIGKILL)
        committed = max([committed, *said, *until_end(launcher)[0]])
        with Ledger(path) as ledger:
            count = len(ledger)
        assert count >= committed
        assert count % batch == 0
        assert count - committed <= batch
        committed = count
    with Ledger(path) as ledger:
        assert committed >= 10 * batch
        assert ledger.verify().intact


@needs_fork
def test_two_writers_at_once_both_complete(path, launcher):
    turns, batch = 10, len(make_lender(10).promised)
    _, early = order(launcher, path, 2, turns)
    said, status = until_end(launcher)
    assert status == 0
    assert sorted(early + said) == [batch * i for i in range(1, 2 * turns + 1)]
    with Ledger(path) as ledger:
        assert len(ledger) == 2 * turns * batch
        assert ledger.verify().intact


def test_a_copy_of_the_file_is_the_whole_ledger(path, lender, tmp_path):
    with Ledger(path) as ledger:
        record(ledger, lender)
        shutil.copy(path, tmp_path / "copy")
        with Ledger(tmp_path / "copy") as copy:
            assert (len(copy), copy.head) == (len(ledger), ledger.head)


# ---------------------------------------------------------------- the command line


@pytest.fixture
def files(tmp_path, lender):
    lender.network.save(tmp_path / "model.npz")
    (tmp_path / "space.json").write_text(json.dumps(lender.space.to_dict()), encoding="utf-8")
    people = pd.concat([lender.people.head(12), lender.promised.head(2).set_axis(["a", "b"])])
    people.rename_axis("person").to_csv(tmp_path / "people.csv")
    lender.promised.to_csv(tmp_path / "others.csv", index=False)
    return tmp_path


def run(files, *arguments):
    names = {"--model": "model.npz", "--schema": "space.json", "--data": "people.csv"}
    options = [
        str(part)
        for name, value in names.items()
        if name not in arguments
        for part in (name, files / value)
    ]
    return runner.invoke(
        app, [*map(str, arguments), *options, "--target", "1", "--delta", str(DELTA)]
    )


@pytest.mark.parametrize("index", [["--index", "person"], ["--drop", "person"]])
def test_ledger_add_records_what_explain_wrote(files, lender, index):
    explained = run(
        files,
        "explain",
        "--candidates",
        files / "others.csv",
        "--out",
        files / "recourse.csv",
        *index,
    )
    assert explained.exit_code == 0, explained.output
    done = run(
        files,
        "ledger",
        "add",
        files / "recourse.csv",
        "--ledger",
        files / "L",
        "--date",
        "2026-11-16",
        *index,
    )
    assert done.exit_code == 0, done.output
    advice = pd.read_csv(files / "recourse.csv")
    with Ledger(files / "L") as ledger:
        (batch,) = ledger.promises()
        assert (
            f"{len(batch)} promises recorded, {len(advice) - len(batch)} rows without advice"
            in done.output
        )
        shown = runner.invoke(app, ["ledger", "head", "--ledger", str(files / "L")])
        assert shown.output == ledger.head
        (files / "head").write_text(f"{ledger.head}\n— example.org AAAA\n", encoding="utf-8")
    found = advice[advice["found"]]
    assert (
        batch.keys.tolist()
        == found["person" if index[0] == "--index" else "row"].astype(str).tolist()
    )
    assert batch.verdicts.tolist() == found["verdict"].tolist()
    came = batch.counterfactuals.reset_index(drop=True)
    pd.testing.assert_frame_equal(
        came, found[list(came)].reset_index(drop=True), check_dtype=False, check_exact=True
    )
    verify = ["ledger", "verify", "--ledger", str(files / "L"), "--recheck"]
    for sample, count in (("all", len(batch)), ("3", 3)):
        done = runner.invoke(app, [*verify, sample, "--head", str(files / "head")])
        assert done.exit_code == 0, done.output
        assert f"{count} certified again" in done.output
        assert f"that of entry {len(batch)}" in " ".join(done.output.split())
    assert runner.invoke(app, [*verify, "some"]).exit_code == 2
    shown = runner.invoke(app, ["ledger", "show", "--ledger", str(files / "L")])
    assert f"{len(batch)} promises" in shown.output
    out = runner.invoke(
        app, ["ledger", "export", "--ledger", str(files / "L"), "--out", str(files / "all.csv")]
    )
    assert out.exit_code == 0
    assert len(pd.read_csv(files / "all.csv")) == len(batch)


def test_ledger_add_of_other_peoples_advice_is_one_line_and_exit_code_2(files):
    explained = run(
        files,
        "explain",
        "--candidates",
        files / "others.csv",
        "--out",
        files / "r.csv",
        "--index",
        "person",
    )
    assert explained.exit_code == 0
    pd.read_csv(files / "people.csv").iloc[5:].to_csv(files / "people.csv", index=False)
    done = run(
        files, "ledger", "add", files / "r.csv", "--ledger", files / "L", "--index", "person"
    )
    assert done.exit_code == 2
    assert "expected every 'person' of the recourse" in " ".join(done.output.split())
    random_network(6, seed=9).save(files / "model.npz")
    done = run(
        files, "ledger", "add", files / "r.csv", "--ledger", files / "L", "--index", "person"
    )
    assert done.exit_code == 2


def test_the_space_hash_is_the_one_in_certificate_files(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender)
        assert ledger.terms[0].space_hash == checker.space_sha256(lender.space.to_dict())


# ---------------------------------------------------------------- nothing is believed


def test_a_recourse_put_together_by_hand_is_certified_again(path, lender):
    advice = hf.explain(
        lender.network, lender.people, target=1, changes=lender.changes, generator=hf.RNCE(lender.promised),
        space=lender.space,
    )  # fmt: skip
    wide = hf.PlausibleChanges(10.0)
    with Ledger(path) as ledger:
        ledger.add(replace(advice, changes=wide))
        ledger.add(
            replace(advice, verdict=np.full(len(advice), "ROBUST", dtype=object), changes=wide)
        )
        batches = list(ledger.promises())
    assert advice.robust.any()
    for batch in batches:
        assert "ROBUST" not in set(batch.verdicts)
        assert (batch.radius < 10.0).all()


# ---------------------------------------------------------------- a file that is no whole ledger


def test_a_first_add_that_fails_leaves_no_ledger(path, lender):
    with Ledger(path) as ledger:
        with pytest.raises(InvalidInputError, match="another class under this model"):
            ledger.add_frame(
                lender.network, lender.people, lender.people, target=1, space=lender.space
            )
        empty = ledger.head
        assert (len(ledger), ledger.terms, list(ledger.promises()), ledger.verify().intact) == (
            0,
            (),
            [],
            True,
        )
    with pytest.raises((FileFormatError, InvalidInputError), match="expected a ledger"):
        Ledger(path, create=False)
    with Ledger(path) as ledger, Ledger(path) as other:
        assert ledger.head != empty
        record(ledger, lender, radius=False)
        # The other one was opened before there was anything.
        assert (len(other), other.head) == (len(lender.promised), ledger.head)
        record(other, lender, radius=False)
        assert ledger.verify().intact


@pytest.mark.parametrize("size", [0, 50, 4096, 20_000])
def test_a_file_that_was_cut_off_is_refused(path, lender, size):
    with Ledger(path) as ledger:
        record(ledger, lender, radius=False)
    content = path.read_bytes()
    assert len(content) > size
    path.write_bytes(content[:size])
    with pytest.raises((FileFormatError, InvalidInputError)), Ledger(path, create=False) as ledger:
        audit(ledger, lender.network)


@pytest.mark.parametrize("where", [b"CREATE TABLE pages", b"CREATE INDEX pages_by_terms"])
def test_definitions_that_are_no_text_are_refused(path, lender, where):
    with Ledger(path) as ledger:
        record(ledger, lender, radius=False)
    content = path.read_bytes()
    assert content.count(where) == 1
    path.write_bytes(content.replace(where, where[:2] + b"\xcc" + where[3:]))
    shown = runner.invoke(app, ["ledger", "verify", "--ledger", str(path)])
    assert shown.exit_code in (2, 3), shown.output
    assert not isinstance(shown.exception, UnicodeError)


def rewritten(path, *statements):
    """Someone with the file and a knowledge of SQLite."""
    tamper(path, "SELECT 1")
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("PRAGMA legacy_alter_table = ON")
        for statement in statements:
            connection.execute(statement)
    connection.close()


FOREIGN = {
    "a view": [
        "ALTER TABLE pages RENAME TO hidden",
        "CREATE VIEW pages AS SELECT * FROM hidden WHERE datetime('now') < '2020-01-01'",
    ],
    "a trigger": ["CREATE TRIGGER t AFTER INSERT ON pages BEGIN DELETE FROM people; END"],
    "a trigger by the name of statistics": [
        "CREATE TRIGGER sqlitexstat1 BEFORE INSERT ON people BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TRIGGER sqlitexstat2 BEFORE INSERT ON pages BEGIN SELECT RAISE(IGNORE); END",
    ],
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_with_other_tables_than_a_ledgers_is_refused(path, lender, name):
    with Ledger(path) as ledger:
        record(ledger, lender, radius=False)
        rewritten(path, *FOREIGN[name])
        with pytest.raises(FileFormatError, match=r"to which .* was added"):
            Ledger(path)


def test_what_analyze_leaves_is_no_fault(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender, radius=False)
    rewritten(path, "ANALYZE")
    with Ledger(path) as ledger:
        assert ledger.verify().intact


@pytest.mark.parametrize("erased", [False, True])
def test_a_ledger_that_changes_while_it_is_verified_is_intact(path, lender, monkeypatch, erased):
    with Ledger(path) as ledger:
        record(ledger, lender, radius=False)
        size, head = len(ledger), ledger.head
        ask = LedgerFile.query

        def busy(self, statement, *arguments):
            if self is ledger.file and "ORDER BY number LIMIT" in statement:
                with monkeypatch.context() as patch, Ledger(path) as other:
                    patch.setattr(LedgerFile, "query", ask)
                    record(other, lender, radius=False, date="2026-12-01")
                    if erased:
                        other.erase(lender.promised.index[3])
            return ask(self, statement, *arguments)

        monkeypatch.setattr(LedgerFile, "query", busy)
        result = ledger.verify()
        assert result.intact, str(result)
        assert (result.entries, result.head) == (size, head)
        assert len(ledger) > size


def test_an_audit_notices_pages_that_are_missing(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender, radius=False)
        record(ledger, lender, radius=False, date="2026-12-01")
    tamper(path, "DELETE FROM pages WHERE number = 1")
    with pytest.raises(FileFormatError, match="each once, got 40 in 1 pages"):
        audit(path, lender.network)


def test_a_first_write_that_fails_half_way_leaves_a_blank_file(path, lender, monkeypatch):
    def fails(self, page):
        raise OSError("the disk is full")

    with Ledger(path) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(LedgerFile, "_write", fails)
            with pytest.raises(OSError, match="full"):
                record(ledger, lender, radius=False)
        assert (len(ledger), ledger.verify().intact) == (0, True)
        record(ledger, lender, radius=False)
        assert ledger.verify().intact


@pytest.mark.parametrize("data", ["people.csv", "people.parquet"])
def test_keys_are_recorded_as_they_are_written(files, lender, data):
    keys = ["007", "7", "NA", "1e3", "0012", "=1+1", "'=1+1", "-2-3"]
    people = lender.people.head(8).set_axis(pd.Index(keys, name="person"))
    people.to_csv(files / "people.csv")
    people.reset_index().to_parquet(files / "people.parquet")
    options = ["--index", "person", "--data", files / data]
    done = run(
        files, "explain", "--candidates", files / "others.csv", "--out", files / "r.csv", *options
    )
    assert done.exit_code == 0, done.output
    done = run(files, "ledger", "add", files / "r.csv", "--ledger", files / "L", *options)
    assert done.exit_code == 0, done.output
    with Ledger(files / "L") as ledger:
        (batch,) = ledger.promises()
    assert batch.keys.tolist() == keys
    np.testing.assert_array_equal(batch.factuals["income"], people["income"])


def test_a_page_that_overlaps_another_shows(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender, radius=False)
        record(ledger, lender, radius=False, date="2026-12-01")
    tamper(path, "UPDATE pages SET first = 40 WHERE number = 2")
    with Ledger(path) as ledger:
        assert "page 2: expected page 2, from promise 41 on" in str(ledger.verify())
        with pytest.raises(FileFormatError, match="each once"):
            audit(ledger, lender.network)


@pytest.mark.parametrize(
    "change", ["size = size - 1", "size = size + 1", "points = x'00'", "radii = x'00'"]
)
def test_an_audit_of_pages_that_do_not_fit_says_so(path, lender, change):
    with Ledger(path) as ledger:
        record(ledger, lender, radius=False)
    tamper(path, f"UPDATE pages SET {change}")
    with pytest.raises(FileFormatError, match="expected"):
        audit(path, random_network(6, seed=5, hidden=(3, 3)))


# ---------------------------------------------------------------- heads, and what they do not prove


def test_a_head_is_the_body_of_a_checkpoint(path, lender):
    with Ledger(path) as ledger:
        origin, size, root = ledger.head.splitlines()
        assert (origin, size) == (f"holdfast.ledger/{ledger.file.about['id']}", "0")
        receipt = record(ledger, lender)
        assert ledger.head == receipt.head == f"{origin}\n1\n{receipt.head.splitlines()[2]}\n"
        assert ledger.head.endswith("=\n")
        (page,) = ledger.file.pages(1)
        assert base64.b64decode(receipt.head.splitlines()[2]) == page.hash
        ledger.erase(lender.promised.index[3])
        # Two heads of the same size have the same hash: an erasure is a page too.
        assert ledger.head.splitlines()[1] == "2"
        signed = receipt.head + "\n— example.org/witness AAAA\n"
        assert ledger.verify(head=signed).known_head == 40
        other = receipt.head.replace(origin, "holdfast.ledger/another")
        assert "it belongs to another ledger" in str(ledger.verify(head=other))
        for head in ("", "7f3a", f"{origin}\none\n{root}\n", f"{origin}\n1\n?\n"):
            with pytest.raises(
                InvalidInputError, match=r"head: expected the three lines of `Ledger\.head`"
            ):
                ledger.verify(head=head)


def forged(path, lender, **changed):
    """A promise that was never certified, linked to the end of the chain by the public recipe."""
    with Ledger(path) as ledger:
        (page,) = ledger.file.pages(1)
        said = page.columns(lender.space.n_variables).take(slice(4, 5))
        with ledger.file._writing():
            ledger.file._write(Page.of(page.terms, page.date, said._replace(**changed)))
        return ledger.verify(), ledger.verify(recheck=True)


FORGERIES = {
    "class": ({"targets": np.array([0])}, "promises 41 to 41: counterfactuals: expected rows with"),
    "verdict": ({"verdicts": np.array([1], dtype=np.uint8)}, "promise 41: its verdict or radius"),
    "radius": ({"radii": np.array([9.0])}, "promise 41: its verdict or radius"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_promise_that_was_never_certified_shows_when_it_is_certified_again(path, lender, name):
    changed, words = FORGERIES[name]
    with Ledger(path) as ledger:
        head = record(ledger, lender, changes=hf.PlausibleChanges(0.5)).head
        assert ledger.verify(recheck=True, head=head).rechecked == 40
        assert ledger.verify(recheck=7).rechecked == 7
    chain, again = forged(path, lender, keys=np.array(['"eve"'], dtype=object), **changed)
    assert (chain.intact, chain.rechecked) == (True, 0)
    assert words in str(again)
    with Ledger(path) as ledger:
        assert ledger.verify(head=head).intact
        for bad in (-1, 2.5, "all"):
            with pytest.raises(InvalidInputError, match="recheck: expected"):
                ledger.verify(recheck=bad)


def test_what_the_ledger_knows_by_name_alone_is_not_certified_again(path, lender):
    def ask(rows):
        return 1 / (1 + np.exp(-lender.network.logits(lender.space.encode(rows))[:, 0]))

    with Ledger(path) as ledger:
        ledger.add_frame(
            ask, lender.people, lender.promised, target=1, changes=hf.PlausibleShift(0.0), space=lender.space,
        )  # fmt: skip
        result = ledger.verify(recheck=True)
    assert (result.intact, result.rechecked) == (True, 0)
    assert "were not certified again" in str(result)


def test_what_was_unknown_is_recorded_as_unknown(path, lender):
    wide = hf.PlausibleChanges(0.1)
    advice = hf.explain(
        lender.network, lender.people, target=1, changes=wide, generator=hf.NNCE(lender.promised),
        space=lender.space,
    )  # fmt: skip
    told = advice.verdict.copy()
    told[:5] = hf.Verdict.UNKNOWN
    with Ledger(path) as ledger:
        ledger.add(replace(advice, verdict=told))
        (batch,) = ledger.promises()
    assert batch.verdicts.tolist() == [str(verdict) for verdict in told]


# ---------------------------------------------------------------- damage


def test_whatever_is_damaged_ends_in_an_error_of_holdfast(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender, radius=False)
        ledger.erase(lender.promised.index[3])
    content = path.read_bytes()
    asked = (
        lambda ledger: ledger.verify(), lambda ledger: audit(ledger, lender.network, progress=False),
        lambda ledger: ledger.find("p4"), lambda ledger: ledger.export(path.with_name("out.csv")),
        lambda ledger: record(ledger, lender, radius=False), lambda ledger: ledger.erase("p5"),
    )  # fmt: skip
    for seed in range(60):
        rng = random.Random(seed)
        damaged = bytearray(content)
        start, size = rng.randrange(len(content)), rng.choice([1, 30, 500, 5000])
        place = slice(start, start + size)
        damaged[place] = rng.choice([bytes, rng.randbytes])(len(damaged[place]))
        for ask in asked:
            path.write_bytes(damaged)
            with suppress(HoldfastError), Ledger(path, create=False) as ledger:
                ask(ledger)


def test_a_ledger_in_wal_mode_is_switched_back_or_refused(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender, radius=False)
        with sqlite3.connect(path) as other:
            other.execute("PRAGMA journal_mode = WAL")
            other.execute("SELECT * FROM about").fetchall()
            for ask in (lambda: Ledger(path), lambda: ledger.erase(lender.promised.index[3])):
                with pytest.raises(InvalidInputError, match="in WAL mode, whose -wal file keeps"):
                    ask()
        other.close()
        assert len(ledger.erase(lender.promised.index[3])) == 1
        assert ledger.verify().intact
    with Ledger(path):
        assert list(path.parent.iterdir()) == [path]


def test_a_ledger_that_drops_what_is_written_is_refused(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender, radius=False)
    with sqlite3.connect(path) as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'pages'").fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        odd = sql.replace("terms TEXT NOT NULL", "terms TEXT UNIQUE ON CONFLICT IGNORE")
        connection.execute("ALTER TABLE pages RENAME TO old")
        connection.execute(odd)
        connection.execute("INSERT INTO pages SELECT * FROM old")
        connection.execute("DROP TABLE old")
    connection.close()
    with Ledger(path) as ledger, pytest.raises(FileFormatError, match="does not keep new pages"):
        record(ledger, lender, radius=False, date="2026-12-01")


@pytest.mark.parametrize("key", ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1", "'=1"])
def test_no_key_is_a_formula_in_a_table(path, lender, tmp_path, key):
    with Ledger(path) as ledger:
        record(ledger, lender, keys=[key, "-5", "it's", *map(str, range(37))], radius=False)
        ledger.export(tmp_path / "all.csv")
    keys = pd.read_csv(tmp_path / "all.csv", dtype=str)["key"].tolist()
    assert keys[:3] == [f"'{key}", "-5", "it's"]


# ---------------------------------------------------------------- twice, and for whom


def test_an_add_that_is_repeated_records_nothing_twice(path, lender):
    with Ledger(path) as ledger:
        first = record(ledger, lender, radius=False)
        again = record(ledger, lender, radius=False)
        assert (first.added, first.repeated) == (40, 0)
        assert (again.added, again.repeated, again.total, again.head) == (0, 40, 40, first.head)
        # Whatever is said differently is another promise.
        other = hf.PlausibleChanges(2 * DELTA)
        for options in (
            {"date": "2026-11-17"},
            {"changes": other},
            {"keys": [f"q{i}" for i in range(40)]},
        ):
            assert record(ledger, lender, radius=False, **options).added == 40
        swapped = lender.promised.iloc[::-1].set_axis(lender.promised.index)
        ledger.add_frame(
            lender.network, lender.people, swapped, target=1, changes=lender.changes, space=lender.space,
            date="2026-11-16", radius=False,
        )  # fmt: skip
        same = (swapped.to_numpy() == lender.promised.to_numpy()).all(axis=1).sum()
        assert len(ledger) == 5 * 40 - same
        assert ledger.verify().intact


def test_a_row_that_comes_twice_is_recorded_once_and_adds_the_rest(path, lender):
    twice = [*range(10), *range(5)]
    options = {
        "target": 1, "changes": lender.changes, "space": lender.space, "date": "2026-11-16", "radius": False,
    }  # fmt: skip
    with Ledger(path) as ledger:
        receipt = ledger.add_frame(
            lender.network,
            lender.people.iloc[twice],
            lender.promised.iloc[twice],
            **options,
        )
        assert (receipt.added, receipt.repeated, len(ledger)) == (10, 5, 10)
        receipt = ledger.add_frame(lender.network, lender.people, lender.promised, **options)
        assert (receipt.added, receipt.repeated, len(ledger)) == (30, 10, 40)
        assert sorted(key for batch in ledger.promises() for key in batch.keys) == sorted(
            lender.promised.index
        )
        assert ledger.verify().intact


def test_someones_promises_are_found_by_key(path, lender):
    other = make_lender(seed=3, hidden=(5, 4))
    with Ledger(path) as ledger:
        record(ledger, lender)
        record(ledger, other, keys=list(range(len(other.promised))), radius=False, changes=None)
        record(ledger, lender, date="2026-12-01")
        person = lender.promised.index[3]
        found = ledger.find(person)
        assert found["number"].tolist() == [4, len(ledger) - 40 + 4]
        assert found["date"].tolist() == ["2026-11-16", "2026-12-01"]
        whole = pd.concat([batch.to_frame() for batch in ledger.promises()], ignore_index=True)
        pd.testing.assert_frame_equal(
            found, whole[whole["key"] == person].reset_index(drop=True), check_dtype=False
        )
        assert ledger.find(7)["model"].tolist() == [plain_model(other.network).sha256]
        nobody = ledger.find("p'; DROP TABLE pages")
        assert (len(nobody), list(nobody)) == (0, list(found))


def test_the_commands_record_once_and_show_a_person(files, lender):
    index = ["--index", "person"]
    assert (
        run(
            files, "explain", "--candidates", files / "others.csv", "--out", files / "r.csv", *index
        ).exit_code
        == 0
    )
    add = [
        "ledger",
        "add",
        files / "r.csv",
        "--ledger",
        files / "L",
        "--date",
        "2026-11-16",
        *index,
    ]
    first, again = run(files, *add), run(files, *add)
    assert "12 promises recorded" in first.output
    assert "0 promises recorded" in again.output
    assert "12 were recorded already" in again.output
    key = lender.people.index[2]
    shown = runner.invoke(app, ["ledger", "show", "--ledger", str(files / "L"), "--key", key])
    assert shown.exit_code == 0, shown.output
    with Ledger(files / "L") as ledger:
        (row,) = ledger.find(key).to_dict("records")
    assert f"1 promise to {key}" in shown.output
    text = " ".join(shown.output.split())
    before, after = json.loads(row["factual"]), json.loads(row["counterfactual"])
    assert any(before[name] != after[name] for name in after)
    for name in after:
        assert (f"{name} {before[name]} -> {after[name]}" in text) == (before[name] != after[name])
    assert "0 promises to nobody" in runner.invoke(
        app, ["ledger", "show", "--ledger", str(files / "L"), "--key", "nobody"]
    ).output  # fmt: skip
