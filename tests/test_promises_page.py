"""docs/guides/audit.md from top to bottom, as a new user would, and what the page says in words."""

import pandas as pd

from holdfast.promises import Ledger, Status, audit
from pages import Page, blocks


def test_the_guide_to_the_audit_runs_from_training_to_erasure(root, tmp_path, monkeypatch):
    text = (root / "docs" / "guides" / "audit.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    page = Page("docs/guides/audit.md", tmp_path)
    shown = []
    for block in blocks(text):
        page.run([block])
        shown.append(page.printed)
    # What the page says in words.
    with Ledger("promises.ledger") as ledger:
        promises = len(ledger)
        assert ledger.verify().intact
        months = [audit(ledger, model) for model in page.names["months"]]
        scratch = audit(ledger, "scratch.npz")
    assert months[0].totals[Status.KEPT_FOR_CERTAIN] == promises > 90
    assert months[0].groups[0].inside
    certain = [result.totals[Status.KEPT_FOR_CERTAIN] for result in months]
    assert certain == sorted(certain, reverse=True)
    assert certain[-1] < certain[0]
    assert not any(result.broken.any() for result in months)
    assert scratch.totals[Status.KEPT_FOR_CERTAIN] == 0
    assert scratch.totals[Status.BROKEN] > 0
    contacts = pd.read_csv("to-contact.csv")["key"].astype(str)
    assert contacts.tolist() == scratch.contact_list()["key"].astype(str).tolist()
    assert any("50 certified again" in text for text in shown)
    assert any("1 of them erased, chain intact" in text for text in shown)
