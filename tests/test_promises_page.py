"""docs/promises.md from top to bottom, as a new user would: Python and shell in their order, on the heloc table."""

import re
import shlex
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.promises import Ledger, audit


def run_line(line):
    """A command of the page; it exits with what its comment says, else with 0."""
    command, _, comment = line.partition(" #")
    command = re.sub(r'"\$\(cat (\S+)\)"', lambda found: Path(found[1]).read_text(encoding="utf-8"), command)
    words = shlex.split(command)
    assert words[0] == "holdfast"
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == (3 if "exits with 3" in comment else 0), done.output
    return done


def test_the_page_on_promises_runs_from_training_to_audit(root, data_dir, tmp_path, monkeypatch):
    page = (root / "docs" / "promises.md").read_text(encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_DATA", str(data_dir))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    shown = []
    for language, block in re.findall(r"^```(python|sh)\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, "docs/promises.md", "exec"), names)
        else:
            shown += [run_line(line).output for line in re.sub(r"\\\n\s*", " ", block).strip().splitlines()]
    # What the page says in words.
    with Ledger("promises.ledger") as ledger:
        assert len(ledger) == 200
        assert ledger.verify().intact
        found = [audit(ledger, f"month-{i}.npz") for i in range(1, 6)]
        scratch = audit(ledger, "scratch.npz")
    assert (found[0].status == "KEPT_FOR_CERTAIN").all()
    assert found[0].groups[0].inside
    certain = [result.totals["KEPT_FOR_CERTAIN"] for result in found]
    assert certain == sorted(certain, reverse=True)
    assert certain[-1] < certain[0]
    assert scratch.totals["KEPT_FOR_CERTAIN"] == 0
    assert scratch.totals["BROKEN"] > 0
    contacts = pd.read_csv("to-contact.csv")
    assert contacts["key"].astype(str).tolist() == scratch.contact_list()["key"].tolist()
    assert len(pd.read_csv("promises.csv")) == 200
    assert any("chain intact" in text for text in shown)
