"""The report as people see it: of the demo and of heloc, on a desk and on a phone, and one person of each.

    python docs/figures/report.py         writes docs/images/report-*.png and people.png; needs Chromium, or
                                          HOLDFAST_CHROMIUM=...

Heloc has to be where `hf.datasets.load` finds it.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from sklearn.neural_network import MLPClassifier

import holdfast as hf
from holdfast.cli.demo import run_demo

OUT = Path(__file__).resolve().parent.parent / "images"
WIDTHS = {"desktop": 1280, "phone": 390}
# More than this of a page is not in a picture.
HEIGHTS = {"desktop": 1500, "phone": 1700}


def demo_report(folder: Path) -> Path:
    """The report that `make demo` writes."""
    run_demo(folder, applicants=4000, promises=200, delta=None, seed=7)
    return folder / "report.html"


def heloc_report(folder: Path, people: int = 200) -> Path:
    """Home-equity borrowers who were refused: the nearest robust borrower in the table, against the nearest of all."""
    data = hf.datasets.load("heloc")
    points, since = data.space.encode(data.X), slice(5000, None)
    classifier = MLPClassifier((10, 5), alpha=0.01, tol=1e-3, max_iter=500, random_state=0)
    classifier.fit(points[:5000], data.y[:5000])
    updates = hf.retrain(
        classifier,
        data.X[since],
        data.y[since],
        how="incremental",
        share=0.05,
        n=20,
        disjoint=True,
        space=data.space,
    )
    delta = hf.delta_calibrated(updates, coverage=0.9)
    refused = data.X[classifier.predict(points) == 0].head(people)
    told, nearest = (
        hf.explain(
            classifier,
            refused,
            target=1,
            changes=delta.changes,
            generator=generator,
            space=data.space,
        )
        for generator in (hf.RNCE(data.X[:5000], line_search=True), hf.NNCE(data.X[:5000]))
    )
    return hf.report(
        told,
        folder / "heloc.html",
        title="Advice to refused home-equity borrowers",
        name="robust",
        outcome="a credit line",
        others={"nearest": nearest},
        calibrated=delta,
        groups={"months since the first trade": refused["MSinceOldestTradeOpen"]},
    )


def take(browser: Browser, report: Path, name: str, after: str = "") -> None:
    """A picture at each width."""
    for view, width in WIDTHS.items():
        page = browser.new_page(viewport={"width": width, "height": 900}, device_scale_factor=1)
        page.goto(report.resolve().as_uri() + after)
        page.wait_for_selector("html[data-ready]", state="attached")
        height = min(HEIGHTS[view], int(page.evaluate("document.documentElement.scrollHeight")))
        page.set_viewport_size({"width": width, "height": height})
        page.screenshot(path=OUT / f"report-{name}-{view}.png")
        page.close()


def strip(browser: Browser, report: Path, letter: Path) -> None:
    """The picture of README.md: the start of a report, and a letter."""
    shots = []
    for path, width in ((report, 720), (letter, 600)):
        page = browser.new_page(viewport={"width": width, "height": 700})
        page.goto(path.resolve().as_uri())
        shots.append((base64.b64encode(page.screenshot()).decode(), width))
        page.close()
    page = browser.new_page(viewport={"width": 720 + 600 + 60, "height": 740})
    images = "".join(
        f'<img src="data:image/png;base64,{data}" width="{width}" style="box-shadow:0 0 0 1px #bbb">'
        for data, width in shots
    )
    page.set_content(
        f'<body style="margin:20px;display:flex;gap:20px;background:#fff">{images}</body>'
    )
    page.screenshot(path=OUT / "people.png")
    page.close()


def report_and_letter(folder: Path) -> tuple[Path, Path]:
    """The report and the letter of README.md."""
    text = (OUT.parents[1] / "README.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(None):
        exec(code, names)
    letter = names["advice"].letter(8, sender="The Lender")
    (folder / "letter.html").write_text(letter.html, encoding="utf-8")
    return hf.report(names["advice"], folder / "readme.html"), folder / "letter.html"


def main() -> None:
    """Make both reports, open them, and take the pictures."""
    chromium = (
        os.environ.get("HOLDFAST_CHROMIUM")
        or shutil.which("chromium")
        or shutil.which("google-chrome")
    )
    if chromium is None:
        raise SystemExit("expected Chromium: install it, or set HOLDFAST_CHROMIUM to where it is")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        reports = {"demo": demo_report(Path(folder)), "heloc": heloc_report(Path(folder))}
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for name, report in reports.items():
            take(browser, report, name)
        take(browser, reports["demo"], "person", "#person=3")
        strip(browser, *report_and_letter(Path(folder)))
        browser.close()
    Console().print(f"pictures: {OUT}/report-*.png, people.png")


if __name__ == "__main__":
    main()
