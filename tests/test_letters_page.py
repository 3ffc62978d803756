"""Letters in a browser: accessible, one page on paper, and no number broken in two on a telephone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import holdfast as hf
from browser import browser, visit  # noqa: F401
from holdfast.generators._stated import recourse_from
from holdfast.presentation.letters._language import Language

# Most letters here are about columns without words in German.
pytestmark = pytest.mark.filterwarnings("ignore:language '.*no words for the columns")

NAMES = [f"detail number {i}" for i in range(20)]
SENDER = "Example Bank\n1 High Street\nExampletown"


@pytest.fixture(scope="module", params=["en", "de"])
def pages(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Ten changes and ten other details: more than most people are asked for."""
    people = pd.DataFrame([[123456.0] * 20, [654321.0] * 20], columns=NAMES)
    space = hf.FeatureSpace.from_frame(people, units=dict.fromkeys(NAMES, "EUR a year"))
    network = hf.Network([[[1.0] * 20]], [[-1.0]])
    told = people.iloc[[0]].copy()
    told[NAMES[:10]] = 654320.25
    advice = recourse_from(
        network, people.iloc[[0]], told, target=1, space=space, changes=hf.PlausibleChanges(0.01)
    )
    letter = advice.letter(
        0, language=request.param, sender=SENDER, name="Ada Example", until="2099-01-31"
    )
    assert letter.guaranteed
    assert len(letter.contents.changes) == 10
    folder = tmp_path_factory.mktemp("letters")
    written = {"guaranteed": letter.html}
    templates = Language.find(request.param)
    for outcome in ("not_guaranteed", "no_answer"):
        said: dict[str, Any] = {"outcome": outcome, "verdict": "NOT_ROBUST", "why_none": "proven"}
        written[outcome] = templates.render("html", replace(letter.contents, **said))
    for name, html in written.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in written}


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_a_letter_is_one_page_of_paper(visit, pages, paper):  # noqa: F811
    printed = visit(pages["guaranteed"], java_script_enabled=False).pdf(format=paper)
    assert len(re.findall(rb"/Type\s*/Page[^s]", printed)) == 1


def test_letters_are_accessible(browser, pages):  # noqa: F811
    from axe_playwright_python.sync_playwright import Axe

    for path in pages.values():
        page = browser.new_page(bypass_csp=True)
        page.goto(path.resolve().as_uri())
        found = Axe().run(page).response["violations"]
        assert [violation["id"] for violation in found] == []


def test_a_number_stays_in_one_piece_on_a_telephone(visit, pages):  # noqa: F811
    page = visit(
        pages["guaranteed"], java_script_enabled=False, viewport={"width": 360, "height": 800}
    )
    assert page.locator("td.after").count() == 10
    lines = (
        "cell => { const range = document.createRange(); range.selectNodeContents(cell);"
        " return range.getClientRects().length }"
    )
    assert {cell.evaluate(lines) for cell in page.locator("td.value").all()} == {1}
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
