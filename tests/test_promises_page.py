"""docs/promises.md from top to bottom, as a new user would: Python and shell in their order, on the heloc table."""

import pandas as pd

from holdfast.promises import Ledger, audit
from pages import Page, blocks


def test_the_page_on_promises_runs_from_training_to_audit(root, data_dir, tmp_path, monkeypatch):
    text = (root / "docs" / "promises.md").read_text(encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_DATA", str(data_dir))
    monkeypatch.chdir(tmp_path)
    page = Page("docs/promises.md", tmp_path)
    shown = []
    for block in blocks(text):
        page.run([block])
        shown.append(page.printed)
    # What the page says in words.
    with Ledger("promises.ledger") as ledger:
        assert len(ledger) == 200
        assert ledger.verify().intact
        found = [audit(ledger, f"month-{i}.npz") for i in range(1, 6)]
        scratch = audit(ledger, "scratch.npz")
    assert [found[0].totals[status] for status in ("KEPT_FOR_CERTAIN", "ERASED")] == [199, 1]
    assert found[0].groups[0].inside
    certain = [result.totals["KEPT_FOR_CERTAIN"] for result in found]
    assert certain == sorted(certain, reverse=True)
    assert certain[-1] < certain[0]
    assert scratch.totals["KEPT_FOR_CERTAIN"] == 0
    assert scratch.totals["BROKEN"] > 0
    # The list was written before someone was erased.
    contacts = pd.read_csv("to-contact.csv")["key"].astype(str)
    assert contacts[contacts != "3"].tolist() == scratch.contact_list()["key"].tolist()
    assert len(pd.read_csv("promises.csv")) == 200
    assert any("chain intact" in text for text in shown)
    assert any("1 of them erased, chain intact" in text for text in shown)
