"""What is erased from a ledger is gone from its file, and the chain proves what remains; pseudonyms."""

import json
import os
import signal
import sqlite3
import struct
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import holdfast as hf
from holdfast.cli import app
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.generators._stated import recourse_from
from holdfast.promises import Ledger, Status, audit, promise_expiry
from ledger_cases import make_lender, random_network, record

runner = CliRunner()
SECRET = "a secret of more than 16 bytes"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "promises.ledger"


@pytest.fixture(scope="module")
def lender():
    return make_lender()


def traces(path, lender, place):
    """What a file has left of the promise to someone: the key, x, x', the point and its parts, the radius."""
    content = path.read_bytes()
    key = lender.promised.index[place]
    x, promised = (table.iloc[place] for table in (lender.people, lender.promised))
    point = lender.space.encode(lender.promised.iloc[[place]])[0]
    wanted = {
        "key": f'"{key}"'.encode(),
        "x": repr(float(x["income"])).encode(),
        "x'": repr(float(promised["income"])).encode(),
        "point": point.astype("<f8").tobytes(),
        "income in the point": struct.pack("<d", point[0]),
    }
    return [name for name, one in wanted.items() if one in content]


# ---------------------------------------------------------------- erased


@pytest.mark.parametrize("at_once", [1, 7, 40])
def test_of_what_is_erased_nothing_is_left_in_the_file(path, lender, at_once):
    keys, rng = lender.promised.index, np.random.default_rng(at_once)
    with Ledger(path) as ledger:
        for start in range(0, 40, at_once):
            part = slice(start, start + at_once)
            ledger.add_frame(
                lender.network, lender.people[part], lender.promised[part], target=1, changes=lender.changes,
                space=lender.space, radius=False, date="2026-11-16",
            )  # fmt: skip
        assert all(len(traces(path, lender, place)) == 5 for place in range(40))
        gone = set()
        for place in rng.permutation(40).tolist():
            assert ledger.erase(keys[place]) == (place + 1,)
            gone.add(place)
            if len(gone) % 8 == 0:
                for other in range(40):
                    assert (not traces(path, lender, other)) == (other in gone), other
                result = ledger.verify()
                assert result.intact, str(result)
                assert (result.entries, result.erased, len(ledger)) == (40, len(gone), 40)
        assert "2026-11-16" not in {page[0] for page in ledger.file.query("SELECT date FROM pages")}
    assert list(path.parent.iterdir()) == [path]


def test_an_erasure_is_an_entry_of_its_own_and_others_keep_theirs(path, lender):
    key = lender.promised.index[3]
    with Ledger(path) as ledger:
        early = record(ledger, lender)
        record(ledger, lender, date="2026-12-01", changes=None)
        before = [batch.to_frame() for batch in ledger.promises()]
        late = ledger.head
        assert ledger.erase(key, why="Art. 17") == (4, 44)
        for nobody in (key, "nobody", [key], None):
            with pytest.raises(InvalidInputError, match="key"):
                ledger.erase(nobody)
        result = ledger.verify(head=late)
        assert (result.intact, result.known_head, result.erased) == (True, 80, 2)
        assert ledger.verify(head=early.head).known_head == 40
        assert ledger.head not in (late, early.head)
        assert ledger.verify(head=ledger.head).known_head == 80
        assert len(ledger.find(key)) == 0
        assert ledger.find(lender.promised.index[4])["number"].tolist() == [5, 45]
        for old, batch in zip(before, ledger.promises(), strict=True):
            assert len(batch) == 39
            frame = batch.to_frame()
            pd.testing.assert_frame_equal(
                frame.drop(index=3), old.drop(index=3), check_exact=True, check_dtype=False
            )  # fmt: skip
            assert (
                frame.loc[3, ["key", "date", "target", "radius", "factual", "counterfactual"]]
                .isna()
                .all()
            )
            assert frame.loc[3, ["verdict", "statement"]].tolist() == ["ERASED", "erased"]
        # Nobody comes back by an `add` that is repeated, today or later.
        for again in ({}, {"date": "2027-01-01"}, {"keys": [key, *range(39)]}):
            with pytest.raises(
                InvalidInputError, match="1 of 40 rows are about people who were erased"
            ):
                record(ledger, lender, **again)
        assert (len(ledger), len(ledger.find(key))) == (80, 0)
        rest = [f"{key}-b" if own == key else own for own in lender.promised.index]
        assert record(ledger, lender, keys=rest).added == 1
        assert ledger.verify().intact
    note = json.loads(
        sqlite3.connect(path).execute("SELECT note FROM pages WHERE size = 0").fetchone()[0]
    )
    assert (note["erased"], note["why"]) == ([4, 44], "Art. 17")


def test_audits_expiry_and_exports_say_what_was_erased(path, lender, tmp_path):
    key = lender.promised.index[3]
    later = random_network(lender.space.n_variables, seed=5, hidden=(4, 3))
    with Ledger(path) as ledger:
        record(ledger, lender)
        whole, certain = audit(ledger, later), audit(ledger, lender.network, radius=True)
        ledger.erase(key)
        for model, before in ((later, whole), (lender.network, certain)):
            result = audit(ledger, model, radius=before is certain)
            rest = np.arange(40) != 3
            assert result.status[3] == Status.ERASED
            assert (result.status[rest] == before.status[rest]).all()
            assert (result.keys[3], result.dates[3], result.targets[3]) == (None, None, None)
            assert result.keys[rest].tolist() == lender.promised.index[rest].tolist()
            assert not result.broken[3]
            assert result.totals[Status.ERASED] == result.groups[0].totals[Status.ERASED] == 1
            assert 4 not in result.contact_list().index
            assert len(result.to_frame()) == 40
            assert "erased" in result._repr_html_()
        assert result.kept
        np.testing.assert_array_equal(result.radius_left[rest], certain.radius_left[rest])
        assert np.isnan(result.radius_left[3])
        assert promise_expiry(ledger, [lender.network] * 3, horizon=1).promises == 39
        for name in ("all.csv", "all.parquet"):
            assert ledger.export(tmp_path / name) == 40
    for table in (pd.read_csv(tmp_path / "all.csv"), pd.read_parquet(tmp_path / "all.parquet")):
        assert table["verdict"].eq("ERASED").tolist() == (np.arange(40) == 3).tolist()
        assert pd.isna(table["key"][3])
    with Ledger(path) as ledger:
        for name in lender.promised.index.drop(key):
            ledger.erase(name)
    assert audit(path, later).totals[Status.ERASED] == 40
    assert audit(path, later).kept


def test_the_command_erases_and_the_others_say_so(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender)
        head = ledger.head
    key = lender.promised.index[3]
    done = runner.invoke(app, ["ledger", "erase", key, "--ledger", str(path), "--why", "asked for"])
    assert done.exit_code == 0, done.output
    assert "1 promise erased" in done.output
    again = runner.invoke(app, ["ledger", "erase", key, "--ledger", str(path)])
    assert (again.exit_code, "expected a key with promises" in again.output) == (2, True)
    path.with_name("head").write_text(head, encoding="utf-8")
    shown = runner.invoke(
        app, ["ledger", "verify", "--ledger", str(path), "--head", str(path.with_name("head"))]
    )
    assert "40 promises, 1 of them erased, chain intact" in shown.output
    shown = runner.invoke(app, ["ledger", "show", "--ledger", str(path)], env={"COLUMNS": "200"})
    assert [cell.strip() for cell in shown.output.splitlines()[4].split("│")][4:7:2] == ["40", "1"]
    assert (
        f"0 promises to {key}"
        in runner.invoke(app, ["ledger", "show", "--ledger", str(path), "--key", key]).output
    )


FORGED = {
    "an erasure that was not": "INSERT INTO pages SELECT 2, 41, 0, '', '{\"erased\":[7]}', hash, "
    "'', x'', x'', x'', x'', '', x'', '', '', x'', x'' FROM pages",
    "an erasure of something else": "UPDATE pages SET note = replace(note, '4', '5') WHERE size = 0",
    "an erasure taken back": "DELETE FROM pages WHERE size = 0",
    "an erasure with another reason": "UPDATE pages SET note = replace(note, 'asked', 'told') WHERE size = 0",
    "something in the place of what was erased": "UPDATE pages SET salts = zeroblob(length(salts)) WHERE size > 0",
    "a promise in an erasure": "UPDATE pages SET keys = 'x' WHERE size = 0",
    "a date": "UPDATE pages SET date = '2026-01-01' WHERE size = 0",
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_erasures_show(path, lender, name):
    with Ledger(path) as ledger:
        record(ledger, lender)
        if name != "an erasure that was not":
            ledger.erase(lender.promised.index[3], why="asked")
    with sqlite3.connect(path) as connection:
        connection.execute(FORGED[name])
    with Ledger(path) as ledger:
        assert not ledger.verify().intact


def test_a_promise_that_is_erased_while_it_is_audited_is_no_false_statement(
    path, lender, monkeypatch
):
    from holdfast.promises._ledger_read import Overview

    with Ledger(path) as ledger:
        record(ledger, lender)
        read = Overview.points

        def meanwhile(self, places):
            with Ledger(path) as other:
                other.erase(lender.promised.index[3])
            return read(self, places)

        monkeypatch.setattr(Overview, "points", meanwhile)
        with pytest.raises(FileFormatError, match="a promise was erased meanwhile"):
            audit(ledger, random_network(lender.space.n_variables, seed=5, hidden=(4, 3)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_kills_in_the_middle_of_an_erasure_leave_all_or_nothing(path, lender):
    keys = [f"person {i % 10}" for i in range(40)]
    with Ledger(path) as ledger:
        for day in range(30):
            record(ledger, lender, keys=keys, radius=False, date=f"2026-11-{day + 1:02}")
    rng = np.random.default_rng(0)
    for person in range(10):
        child = os.fork()
        if child == 0:
            with Ledger(path) as ledger:
                ledger.erase(f"person {person}")
            os._exit(0)
        time.sleep(rng.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with Ledger(path) as ledger:
            assert len(ledger.find(f"person {person}")) in (0, 120)
            result = ledger.verify()
            assert result.intact, str(result)
            assert result.erased % 120 == 0


def test_find_and_erase_do_not_rely_on_the_index(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender)
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM people")
        assert len(ledger.find(lender.promised.index[3])) == 1
        assert ledger.erase(lender.promised.index[3]) == (4,)
        assert ledger.verify().intact


# ---------------------------------------------------------------- pseudonyms


def test_with_a_secret_keys_are_pseudonyms(path, lender):
    key = lender.promised.index[3]
    with Ledger(path, secret=SECRET) as ledger:
        record(ledger, lender)
        assert (record(ledger, lender).added, len(ledger.pseudonym(key))) == (0, 64)
        assert ledger.find(key)["key"].tolist() == [ledger.pseudonym(key)]
        (batch,) = ledger.promises()
        assert batch.keys.tolist() == [ledger.pseudonym(own) for own in lender.promised.index]
        assert ledger.verify().intact
        hidden = ledger.pseudonym(key)
    assert b'"' + str(key).encode() + b'"' not in path.read_bytes()
    with Ledger(path) as ledger:
        assert len(ledger.find(key)) == 0
        assert len(ledger.find(hidden)) == 1
        assert audit(ledger, lender.network).keys[3] == hidden
        with pytest.raises(InvalidInputError, match="secret: expected the secret of this ledger"):
            record(ledger, lender)
        assert ledger.erase(hidden) == (4,)
    with Ledger(path, secret=SECRET.encode()) as ledger:
        assert len(ledger.find(lender.promised.index[4])) == 1
    with pytest.raises(
        InvalidInputError, match="secret: expected the one that this ledger was begun with"
    ):
        Ledger(path, secret="another secret of 16 bytes")


@pytest.mark.parametrize("secret", ["short", 7, b"", ["x"] * 20])
def test_a_secret_is_long_enough(path, secret):
    with pytest.raises(
        InvalidInputError, match="secret: expected text or bytes with at least 16 bytes"
    ):
        Ledger(path, secret=secret)


def test_a_ledger_without_pseudonyms_gets_none_later(path, lender):
    with Ledger(path) as ledger:
        record(ledger, lender)
    with pytest.raises(InvalidInputError, match="secret: expected none, got another"):
        Ledger(path, secret=SECRET)


def test_commands_read_the_secret_from_a_file_or_the_environment(path, lender, tmp_path):
    key = lender.promised.index[3]
    with Ledger(path, secret=SECRET) as ledger:
        record(ledger, lender)
    (tmp_path / "secret").write_text(SECRET + "\n", encoding="utf-8")
    show = ["ledger", "show", "--ledger", str(path), "--key", str(key)]
    assert (
        f"1 promise to {key}"
        in runner.invoke(app, [*show, "--secret-file", str(tmp_path / "secret")]).output
    )
    assert (
        f"1 promise to {key}"
        in runner.invoke(app, show, env={"HOLDFAST_LEDGER_SECRET": SECRET}).output
    )
    assert f"0 promises to {key}" in runner.invoke(app, show).output
    done = runner.invoke(
        app,
        ["ledger", "erase", str(key), "--ledger", str(path)],
        env={"HOLDFAST_LEDGER_SECRET": SECRET},
    )
    assert "1 promise erased" in done.output


def test_the_chance_is_shown(path, lender):
    chance = hf.changes.Chance(0.1, 20)
    shift = hf.PlausibleShift(0.1)
    told = recourse_from(
        lender.network, lender.people, lender.promised, target=1, space=lender.space, changes=shift
    )
    # As `explain` states it, where the chance was measured for this question.
    told = replace(told, changes=shift.calibrated(chance), measured=told.found)
    with Ledger(path) as ledger:
        ledger.add(told)
    shown = runner.invoke(app, ["ledger", "show", "--ledger", str(path)])
    assert "measured, not proven: at most 1 in 10 of such promises" in " ".join(
        shown.output.split()
    )
