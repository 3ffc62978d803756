"""The site builds without a warning, hangs together, has every public name, and needs no network to be read."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
import typer

import holdfast as hf
from browser import browser  # noqa: F401  # fixture
from holdfast.cli import app
from pages import blocks
from words import GENERATED, hand_written

# What a browser fetches by itself when it shows a page.
FETCHED = {
    "img": "src",
    "script": "src",
    "link": "href",
    "source": "src",
    "iframe": "src",
    "video": "src",
}


class Reader(HTMLParser):
    """The ids of a page, its links, and what it fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.alone: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.ids |= {values[key] for key in ("id", "name") if key in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in FETCHED and FETCHED[tag] in values:
            self.fetched.append(values[FETCHED[tag]])
        if tag == "img" and not values.get("alt"):
            self.alone.append(values["src"])


@pytest.fixture(scope="module")
def site(root, tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "-d",
        out / "doctrees",
    ]
    done = subprocess.run([*command, root / "docs", out / "html"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return out / "html"


@pytest.fixture(scope="module")
def read(site):
    return {page: Reader(page.read_text(encoding="utf-8")) for page in sorted(site.rglob("*.html"))}


def test_every_page_is_in_the_site(root, site):
    sources = {
        path.relative_to(root / "docs").with_suffix("") for path in (root / "docs").rglob("*.md")
    }
    built = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    assert sources <= built


def test_the_side_bar_has_the_pages_that_people_wrote(root, site):
    """Pages that a command writes are linked from the page on measurements; the paper's study is read for itself."""
    text = (site / "index.html").read_text(encoding="utf-8")
    bar = text[text.index('class="sidebar-tree"') : text.index("</aside>")]
    listed = {link.removesuffix(".html") for link in re.findall(r'href="([^"#]+\.html)', bar)}
    written = {
        path.relative_to(root / "docs").with_suffix("").as_posix()
        for path in hand_written(root)
        if path.is_relative_to(root / "docs")
    }
    assert listed == (written - {"index"}) | {"paper"}


@pytest.mark.parametrize(
    ("page", "scheme", "width"),
    [
        ("tutorial", "light", 390),
        ("tutorial", "dark", 1280),
        ("reference/features", "light", 1280),
        ("reference/features", "dark", 390),
        ("benchmarks", "light", 390),
    ],
)
def test_axe_finds_nothing(site, browser, page, scheme, width):  # noqa: F811
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    view = context.new_page()
    view.goto((site / f"{page}.html").as_uri())
    found = Axe().run(view).response["violations"]
    context.close()
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


def test_links_lead_to_a_page_and_to_a_place_on_it(read):
    lost = []
    for page, reader in read.items():
        for link in reader.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            goal = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            ids = read[goal].ids if goal in read else None
            if not goal.exists() or (
                parts.fragment and ids is not None and unquote(parts.fragment) not in ids
            ):
                lost.append((page.name, link))
    assert lost == []


def test_nothing_is_fetched_from_elsewhere(site, read):
    fetched = [(page.name, url) for page, reader in read.items() for url in reader.fetched]
    assert fetched
    assert [
        (page, url)
        for page, url in fetched
        if urlsplit(url).scheme not in ("", "data") or url.startswith("//")
    ] == []
    imports = re.compile(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//")
    assert [
        path.name
        for path in site.rglob("*.css")
        if imports.search(path.read_text(encoding="utf-8"))
    ] == []


def test_what_is_fetched_is_there(read):
    missing = [
        (page.name, url)
        for page, reader in read.items()
        for url in reader.fetched
        if not urlsplit(url).scheme and not (page.parent / unquote(urlsplit(url).path)).exists()
    ]
    assert missing == []


def test_pictures_say_what_they_show(read):
    assert [(page.name, source) for page, reader in read.items() for source in reader.alone] == []


def test_every_public_name_is_in_the_reference(read):
    ids = set().union(
        *(reader.ids for page, reader in read.items() if page.parent.name == "reference")
    )
    assert [
        name for name in hf.__all__ if not {f"holdfast.{name}", f"module-holdfast.{name}"} & ids
    ] == []


def test_the_index_of_the_reference_has_a_row_for_every_public_name(site):
    text = (site / "reference" / "index.html").read_text(encoding="utf-8")
    rows = dict(
        re.findall(
            r'href="\w[\w-]*\.html#(?:module-)?holdfast\.([\w.]+)".*?</td>\n<td><p>(.*?)</p>', text
        )
    )
    assert [name for name in hf.__all__ if not rows.get(name)] == []


def test_what_only_contributors_call_is_not_in_the_reference(read):
    ids = set().union(*(reader.ids for reader in read.values()))
    assert {"holdfast.PlausibleChanges.contains", "holdfast.generators.Generator.propose"} <= ids
    inner = (
        "PlausibleChanges.balls",
        "EnsembleShift.facts",
        "TreeChanges.every_model",
        "RNCE.propose",
    )
    assert [name for name in inner if f"holdfast.{name}" in ids] == []


def test_every_command_is_in_the_reference(site):
    text = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    names = set(typer.main.get_command(app).commands)
    assert {"certify", "explain", "ledger", "audit"} <= names
    assert [name for name in names if f">holdfast {name}" not in text] == []


def test_options_are_typeset_as_typed(site):
    pages = {page.name: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    assert "--delta" in pages["cli.html"]
    dashes = re.compile(r"[\u2013\u2014][a-z]+")
    assert {name: found for name, text in pages.items() if (found := dashes.findall(text))} == {}


def test_code_and_printed_results_fit_the_column(root):
    wide = [
        f"{page.relative_to(root)}:{block.line + number}: {len(line)} characters"
        for page in hand_written(root)
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language in ("python", "sh", "console")
        for number, line in enumerate(block.text.splitlines(), 1)
        if len(line) > 88
    ]
    assert wide == []


def test_pages_that_a_command_writes_are_on_the_page_of_measurements(root, read):
    generated = {
        path.stem
        for path in (root / "docs").glob("*.md")
        if GENERATED.fullmatch(f"docs/{path.name}")
    }
    links = {page.stem: reader.links for page, reader in read.items()}
    assert "benchmarks" in generated
    assert generated <= {link.removesuffix(".html") for link in links["measurements"]}


def test_headlines_are_figures_of_the_pages_they_are_about(root):
    page = (root / "docs" / "measurements.md").read_text(encoding="utf-8")
    rows = [row for row in table_rows(page) if len(row) == 4 and row[0].startswith("[")]
    assert len(rows) > 8
    lost = []
    for link, _, headline, command in rows:
        name = re.search(r"\((.*?)\)", link)[1]
        figures = set(
            re.findall(r"\d[\d,.]*\d|\d", (root / "docs" / name).read_text(encoding="utf-8"))
        )
        quoted = set(re.findall(r"\d[\d,.]*\d|\d", headline))
        lost += [(name, figure) for figure in quoted - figures]
        assert name in command or "scale" in command
    assert lost == []


def test_figures_of_the_cascade_are_those_of_the_benchmark(root):
    page, measured = (
        table_rows((root / "docs" / name).read_text("utf-8"))
        for name in ("cascade.md", "benchmarks.md")
    )
    quoted = [row for row in page if re.match(r"\dx\d", row[1])]
    # table, net, rows, delta, five shares, two counts, two shares; so long is only the table of times beside it.
    decided = [
        row for row in measured if len(row) == 13 and "class 1" in row[2] and "/" not in row[-1]
    ]
    known = {(table, net, delta): [*rest[:5], rest[6]] for table, net, _, delta, *rest in decided}
    assert quoted
    assert [row for row in quoted if known[row[0], row[1], row[2]] != row[3:]] == []


def table_rows(text: str) -> list[list[str]]:
    """The cells of every line of every table."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_tables_of_the_page_on_delta_fit_a_phone(site, browser):  # noqa: F811
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto((site / "delta.html").as_uri())
    beyond = (
        "tables => tables.map(t => t.getBoundingClientRect().right "
        "- t.parentElement.getBoundingClientRect().right)"
    )
    over = page.locator("table").evaluate_all(beyond)
    page.close()
    assert len(over) >= 2
    assert max(over) <= 0
