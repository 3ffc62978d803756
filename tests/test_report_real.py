"""The reports of the demo and of a public table, made from scratch and used as a person would, in a real browser."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from browser import browser, visit  # noqa: F401  # fixtures
from holdfast.cli.demo import run_demo
from test_report_browser import PHONE, column, sheets, violations


def pictures(root: Path) -> ModuleType:
    """docs/figures/report.py, which makes the reports in the documents."""
    found = importlib.util.spec_from_file_location(
        "report_pictures", root / "docs" / "figures" / "report.py"
    )
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=["demo", "heloc"])
def real_report(request, root, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "demo":
        run_demo(folder, applicants=1000, promises=60, delta=None, seed=7)
        return folder / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_DATA", str(request.getfixturevalue("data_dir")))
        return pictures(root).heloc_report(folder, people=60)


def numbers(texts: list[str]) -> list[float]:
    return [float(text.replace(",", "")) for text in texts if text != "–"]


def test_sort_filter_and_open_someone(visit, real_report):  # noqa: F811
    page = visit(real_report)
    changes = page.locator("#everyone").get_by_role("button", name="Changes")
    changes.click()
    rising = numbers(column(page, 4))
    assert len(rising) > 10
    assert rising == sorted(rising)
    changes.click()
    falling = numbers(column(page, 4))
    assert falling == sorted(falling, reverse=True)
    assert falling[0] > falling[-1]
    key = column(page, 1)[0]
    page.locator("#find").fill(key)
    assert key in column(page, 1)
    assert page.locator("#counted").inner_text().endswith("of 60 people")
    page.locator("#everyone a").get_by_text(key, exact=True).click()
    assert page.locator("#person-heading").inner_text() == f"Person {key}"
    person = page.locator("#person")
    assert person.get_by_role("heading", name="What to do").is_visible()
    nearest = person.get_by_role("heading", name="The model that comes closest")
    assert not nearest.is_visible()
    person.locator("summary").click()
    assert nearest.is_visible()
    page.keyboard.press("Escape")
    # The browser tells the page of its new address in its own time.
    page.locator("#everyone").wait_for(timeout=5000)


@pytest.mark.parametrize("view", [{}, PHONE], ids=["desktop", "phone"])
def test_nobody_is_kept_out(visit, real_report, view):  # noqa: F811
    page = visit(real_report, **view)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert violations(page) == []
    page.evaluate("location.hash = 'person=0'")
    page.locator("#person-heading").wait_for()
    assert violations(page) == []


def test_each_person_prints_on_one_sheet(visit, real_report):  # noqa: F811
    page = visit(real_report)
    for i in range(0, 60, 12):
        page.evaluate(f"location.hash = 'person={i}'")
        page.locator("#person-heading").wait_for()
        assert sheets(page) == 1
