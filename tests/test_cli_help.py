"""The help of every command: what is needed first, whole words, types in words, an example that parses."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import holdfast as hf
from holdfast.cli import _help as help_of
from holdfast.cli import app
from holdfast.cli._options import GROUPS
from holdfast.cli._screens import show_table

DAILY = ["schema", "explain", "letters", "report", "ledger", "audit", "check"]


def every_command(command, words=()):
    if not hasattr(command, "commands"):
        return {" ".join(words): command}
    below = command.commands.items()
    return {k: c for name, one in below for k, c in every_command(one, (*words, name)).items()}


COMMANDS = every_command(typer.main.get_command(app))


def shown(line, width=80):
    result = CliRunner().invoke(app, line.split(), env={"COLUMNS": str(width)})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_is_broken_and_no_line_too_long(name, width):
    text = shown(f"{name} --help", width)
    assert max(map(len, text.splitlines())) <= min(width, 100)
    joined = " ".join(text.split())
    for one in COMMANDS[name].params:
        words = " ".join((one.help or "").split())
        assert words
        assert words in joined
    assert not re.search(r"<[a-z]", text), "types are words"


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_required_comes_first_and_the_rest_in_groups(name):
    text = shown(f"{name} --help")
    headings = re.findall(r"^(\S.*)\n  \S", text, re.MULTILINE)
    known = [heading for heading, _ in GROUPS]
    needed = [one for one in COMMANDS[name].params if one.required]
    if needed:
        first = text.index("\nRequired")
        assert all(text.index(f"\n{one}\n") > first for one in known if f"\n{one}\n" in text)
    for one in COMMANDS[name].params:
        assert one.required or one.rich_help_panel in known
        assert one.is_flag if one.param_type_name == "option" and one.metavar is None else True
    assert headings or not COMMANDS[name].params


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_parses(name):
    text = shown(f"{name} --help")
    (example,) = re.findall(r"^  \$ ((?:.*\\\n)*.*)", text, re.MULTILINE)
    words = shlex.split(example.replace("\\\n", " ").partition(" >")[0])
    assert words[: 1 + len(name.split())] == ["holdfast", *name.split()]
    command = COMMANDS[name]
    with typer.Context(command, info_name=name) as context:
        given, rest, _ = command.make_parser(context).parse_args(
            args=words[1 + len(name.split()) :]
        )
    assert rest == []
    missing = [one.name for one in command.params if one.required and not given.get(one.name)]
    assert missing == []


def test_help_begins_with_the_daily_commands():
    listed = re.findall(r"^  ([a-z]+)  ", shown("--help"), re.MULTILINE)
    assert listed[:7] == DAILY
    names = [name for names in help_of.COMMANDS.values() for name in names]
    assert sorted(names) == sorted({name.split()[0] for name in COMMANDS})
    assert listed == names


def test_the_help_of_explain_is_short():
    lines = shown("explain --help").splitlines()
    assert len(lines) <= 60
    top = "\n".join(lines[:12])
    assert all(option in top for option in ("--model FILE", "--data FILE", "--target TEXT"))


def test_methods_are_a_short_list():
    text = shown("methods")
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("width", [40, 80, 100, 120])
def test_tables_break_no_word(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [("NumBank2NatlTradesWHighUtilization", "0 to 18 accounts", "either way")] * 2
    show_table(("column", "values", "may move"), rows)
    out = capsys.readouterr().out
    words = set(re.findall(r"\w+", out))
    assert {"NumBank2NatlTradesWHighUtilization", "accounts", "either", "values"} <= words
    if width >= 80:
        assert max(map(len, out.splitlines())) <= width


@pytest.mark.parametrize("changes", ["--delta 0.3", "--margin 1.5", "--changes moved.json"])
@pytest.mark.parametrize("kind", ["network", "trees"])
def test_certify_tells_rejected_today_from_can_be_broken(tmp_path, monkeypatch, kind, changes):
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.uniform(-1, 1, (60, 2)), columns=["a", "b"])
    table.to_csv(tmp_path / "points.csv", index=False)
    monkeypatch.chdir(tmp_path)
    if kind == "trees":
        if "delta" in changes:
            pytest.skip("a delta is for networks")
        import joblib

        model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(
            table.to_numpy(), (table["a"] + rng.normal(0, 0.4, 60) > 0).astype(int)
        )
        joblib.dump(model, "model.pkl")
        name = "model.pkl --trust-pickle"
        change = hf.PlausibleShift(1.5)
    else:
        model = hf.Network([rng.normal(size=(4, 2)), rng.normal(size=(1, 4))], [[0.0] * 4, [0.2]])
        model.save("model.npz")
        name = "model.npz"
        change = hf.PlausibleChanges(0.3) if "delta" in changes else hf.PlausibleShift(1.5)
    if "moved" in changes:
        # A range of thresholds is in the file, not in an option.
        change = change if kind == "trees" else hf.PlausibleChanges(0.05)
        change = change.moving((0.4, 0.6))
        Path("moved.json").write_text(json.dumps(change.to_dict()), encoding="utf-8")
    text = shown(f"certify --model {name} --data points.csv --target 1 {changes}")
    counts = {
        line.split("│")[1].strip(): int(line.split("│")[2].replace(",", ""))
        for line in text.splitlines()
        if line.count("│") == 4
    }
    expected = hf.certify(model, table.to_numpy(), 1, change)
    rejected = int((model.predict(table.to_numpy()) != 1).sum())
    robust = int(expected.robust.sum())
    unknown = sum(verdict is hf.Verdict.UNKNOWN for verdict in expected.verdict)
    assert 0 < rejected < 60
    assert counts["rejected today"] == rejected
    assert counts["proven (ROBUST)"] == robust
    assert counts["undecided (UNKNOWN)"] == unknown
    assert counts["can be broken by a model in Δ"] == 60 - rejected - robust - unknown > 0


def test_the_package_lists_public_names_only():
    assert [name for name in dir(hf) if not name.startswith("__")] == sorted(hf.__all__)
