"""The report in a real browser: it fetches nothing, sorts, filters, opens people, prints, and keeps nobody out."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import ROUND_UP
from pathlib import Path

import pytest

import report_cases as cases
from browser import browser, visit  # noqa: F401  # fixtures
from holdfast import _numbers as numbers
from holdfast.presentation.report._contents import Contents, Value
from holdfast.presentation.report._page import render

PHONE = {"viewport": {"width": 390, "height": 800}}


@pytest.fixture(scope="module")
def contents() -> Contents:
    return cases.contents(120, methods=3)


@pytest.fixture(scope="module")
def path(contents: Contents, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(contents, tmp_path_factory.mktemp("report"))


@pytest.fixture
def report(visit, path):  # noqa: F811
    """The report at desktop width."""
    return visit(path)


def written(contents: Contents, folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(render(contents), encoding="utf-8", newline="\n")
    return path


def column(page, number: int) -> list[str]:
    return page.locator(f"#everyone tbody tr > :nth-child({number})").all_inner_texts()


def violations(page) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    rules = {
        "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
        "resultTypes": ["violations"],
    }
    found = Axe().run(page, options=rules).response["violations"]
    return [
        f"{one['impact']} {one['id']}: {[node['html'][:120] for node in one['nodes'][:3]]}"
        for one in found
    ]


def test_the_page_loads_alone(report, contents):
    assert report.title() == contents.title
    assert report.locator("#everyone tbody tr").count() == 50


def sheets(page) -> int:
    """The sheets of A4 on which the page prints."""
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True)))


def folds_open(page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


@pytest.mark.parametrize(("way", "presses"), [("ascending", 1), ("descending", 2)])
@pytest.mark.parametrize(("head", "number"), [("Proof reaches", 3), ("Changes", 4)])
def test_people_are_sorted_and_those_without_a_value_come_last(
    report, contents, head, number, way, presses
):
    button = report.locator("#everyone").get_by_role("button", name=head)
    for _ in range(presses):
        button.click()
    assert report.locator("#everyone th[aria-sort]").get_attribute("aria-sort") == way
    told = [person for person in contents.people if person.after]
    values = sorted(
        (
            (person.radius, person.lasts)
            if number == 3
            else (len(person.advice), str(len(person.advice)))
        )
        for person in told
    )
    shown = [text for _, text in (values[::-1] if presses == 2 else values)]
    assert column(report, number) == shown[:50]
    while report.locator("#later").is_enabled():
        report.locator("#later").click()
    missing = len(contents.people) - len(told)
    assert missing
    assert column(report, number)[-missing:] == ["–"] * missing


def test_keys_are_sorted_as_people_count(visit, tmp_path):  # noqa: F811
    plain = cases.contents(12)
    people = tuple(replace(person, key=f"P{12 - i}") for i, person in enumerate(plain.people))
    page = visit(written(replace(plain, people=people), tmp_path))
    page.locator("#everyone").get_by_role("button", name="Person").click()
    assert column(page, 1) == [f"P{i}" for i in range(1, 13)]


def test_people_are_filtered_by_text_and_verdict_and_counted_aloud(report, contents):
    page = report
    page.locator("#find").fill("HOUSING")
    housing = [
        person
        for person in contents.people
        if any("housing" in sentence for sentence in person.advice)
    ]
    assert 0 < len(housing) < len(contents.people)
    assert page.locator("#counted").inner_text() == f"{len(housing)} of 120 people"
    page.locator("#only").select_option(label="can be broken")
    both = [person for person in housing if person.verdict == "NOT_ROBUST"]
    assert both
    assert page.locator("#counted").inner_text() == f"{len(both)} of 120 people"
    assert column(page, 1) == [person.key for person in both]
    assert set(column(page, 2)) == {"○ can be broken"}
    page.locator("#find").fill("nobody is called this")
    assert page.locator("#everyone tbody").inner_text() == "No person matches."
    assert page.locator("#counted").get_attribute("role") == "status"


def test_other_tables_sort_too(report, contents):
    table = report.locator("table.moves")
    table.get_by_role("button", name="Up").click()
    shown = [
        int(text)
        for text in table.locator("tbody tr > :nth-child(3):not([colspan])").all_inner_texts()
    ]
    assert shown == sorted(
        (move.up for move in contents.moves if move.column.numeric), reverse=True
    )


def amount(value: Value, unit: str) -> str:
    """A value of the table as a reader expects it."""
    if value is None or isinstance(value, str):
        return value or "–"
    text = f"{value:,.6f}".rstrip("0").rstrip(".").replace("-", "−")
    return text + (unit if unit == "%" else f" {unit}".rstrip())


def first(contents: Contents, verdict: str) -> int:
    return next(
        i
        for i, person in enumerate(contents.people)
        if person.verdict == verdict and len(person.advice) > 1
    )


def test_a_person_opens_with_a_click_and_says_everything(report, contents):
    page = report
    i = first(contents, "ROBUST")
    person = contents.people[i]
    page.locator("#everyone a", has_text=person.key).click()
    article = page.locator("#person")
    article.wait_for()
    assert not page.locator("#report").is_visible()
    assert page.evaluate("document.activeElement.id") == "person-heading"
    assert page.evaluate("location.hash") == f"#person={i}"
    text = article.inner_text()
    assert f"Person {person.key}" in text
    assert person.key in page.title()
    for words in ("Decision today: no", "20%", "70%", person.against[0].sentence, person.lasts):
        assert words in text
    listed = article.locator("ol.steps li").all_inner_texts()
    assert [one.split() for one in listed] == [
        f"{one.sentence} {one.stays}".split() for one in person.against
    ]
    order = ("Decision today", "Why", "What to do", "The promise", "For auditors")
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    # Costs, radii, margins and counter-models are in the fold.
    assert person.counter is not None
    for shown in (numbers.figure(person.cost), numbers.radius(person.radius), "margin", "δ"):
        assert shown not in text
    folds_open(page)
    text = article.inner_text()
    for shown in (numbers.figure(person.cost), numbers.radius(person.radius)):
        assert shown in text
    # It lies outside Δ, and is not said to be closer than it is.
    assert not person.counter.inside
    assert numbers.figure(person.counter.distance, rounding=ROUND_UP) in text
    for number in (person.counter.margin_today, person.counter.margin_counter):
        assert numbers.figure(number) in text
    for change in person.counter.changes:
        assert change.where in text
        assert numbers.figure(change.effect) in text
    table = article.locator("table").first
    changed = [a != b for a, b in zip(person.before, person.after, strict=True)]
    assert table.locator("tbody tr").count() == sum(changed)
    still = article.locator(".still").inner_text().replace("\u00a0", " ")
    for column, old, new in zip(contents.columns, person.before, person.after, strict=True):
        if old == new:
            assert f"{column.label} {amount(old, column.unit)}" in still
            continue
        row = table.locator("tbody tr", has_text=column.label).inner_text().replace("\u00a0", " ")
        assert amount(old, column.unit) in row
        assert amount(new, column.unit) in row


def test_a_person_opens_with_the_keyboard_and_closes_with_escape_and_back(report, contents):
    page = report
    link = page.locator("#everyone a").nth(3)
    link.focus()
    page.keyboard.press("Enter")
    page.locator("#person-heading").wait_for()
    assert page.evaluate("document.activeElement.id") == "person-heading"
    page.keyboard.press("Escape")
    page.locator("#report").wait_for()
    assert page.locator("#person").is_hidden()
    assert (
        page.evaluate("document.activeElement.textContent")
        == link.inner_text()
        == contents.people[3].key
    )
    page.keyboard.press("Enter")
    page.locator("#person-heading").wait_for()
    page.go_back()
    page.locator("#report").wait_for()
    assert page.locator("#person").is_hidden()
    page.go_forward()
    page.locator("#person-heading").wait_for()
    page.locator("#back").click()
    page.locator("#report").wait_for()
    assert page.title() == contents.title


def test_a_link_leads_to_a_person_and_on_to_the_next(visit, path, contents):  # noqa: F811
    page = visit(path, "#person=7")
    assert page.locator("#person-heading").inner_text() == f"Person {contents.people[7].key}"
    page.get_by_role("link", name="Next person").click()
    page.locator("#person-heading", has_text=contents.people[8].key).wait_for()
    assert visit(path, "#person=999999").locator("#report").is_visible()


def test_someone_without_advice_is_told_why(report, contents):
    i = next(i for i, person in enumerate(contents.people) if not person.after)
    report.evaluate(f"location.hash = 'person={i}'")
    report.locator("#person-heading").wait_for()
    assert contents.people[i].reason in report.locator("#person .statement").inner_text()


def test_a_radius_just_beyond_delta_is_told_from_it(visit, tmp_path):  # noqa: F811
    plain = cases.contents(5)
    person = next(person for person in plain.people if person.counter)
    counter = replace(person.counter, distance=cases.DELTA + 4.4e-7, inside=False)
    near = replace(person, verdict="ROBUST", radius=cases.DELTA + 3.5e-7, counter=counter)
    page = visit(written(replace(plain, people=(near,)), tmp_path), "#person=0")
    folds_open(page)
    text = page.locator("#person").inner_text()
    assert "0.0052003" in text
    assert "0.0052005" in text


@pytest.mark.parametrize("delta", [0.0052369, 0.00523, 0.0052309])
@pytest.mark.parametrize("beyond", [-1e-3, -1e-9, 0.0, 1e-9, 1e-3])
def test_what_lies_in_delta_is_not_said_to_lie_beyond_it(visit, tmp_path, delta, beyond):  # noqa: F811
    plain = cases.contents(5)
    person = next(person for person in plain.people if person.counter)
    distance = delta * (1 + beyond)
    counter = replace(person.counter, distance=distance, inside=distance <= delta, closest=False)
    broken = replace(
        person, verdict="NOT_ROBUST" if counter.inside else "ROBUST", radius=0.0, counter=counter,
        worst_margin=0.0123789, gap=0.0012311,
    )  # fmt: skip
    page = visit(
        written(replace(plain, people=(broken,), delta=delta, calibrated=None), tmp_path),
        "#person=0",
    )
    folds_open(page)
    text = " ".join(page.locator("#person").inner_text().replace("\u00a0", " ").split())
    shown = float(re.search(r"Δ \(δ = ([\d.]+)\)", text)[1])
    there = float(re.search(r"A model at a distance of ([\d.]+) from", text)[1])
    assert shown <= delta
    assert (there <= shown) if counter.inside else (there > shown)
    assert "A model that breaks it" in text
    assert "comes closest" not in text
    # A least margin is rounded downwards, a greatest gap upwards.
    assert "0.0123 (over all of Δ" in text
    assert "at most 0.00124 above" in text


def test_the_gauge_compares_the_proof_with_the_updates(visit, path, contents):  # noqa: F811
    i = first(contents, "ROBUST")
    person = contents.people[i]
    page = visit(path, f"#person={i}")
    ruler = page.locator(".ruler svg")
    assert ruler.get_attribute("aria-label") == f"proven to here: {person.lasts}"
    assert ruler.locator("text").all_text_contents()[:2] == ["typical update", "largest of 20"]
    width = float(ruler.locator(".proven").get_attribute("width").removesuffix("%"))
    assert width == pytest.approx(100 * min(person.radius / contents.gauge.end, 1.0), abs=0.01)


def test_what_changes_with_time_and_what_is_not_listed(visit, tmp_path):  # noqa: F811
    plain = cases.contents(40)
    i = first(plain, "ROBUST")
    person = plain.people[i]
    still = [a == b for a, b in zip(person.before, person.after, strict=True)]
    columns = tuple(replace(column, with_time=True) for column in plain.columns)
    timed = replace(plain, columns=columns, unlisted=1, unlisted_with_time=True)
    names = [column.label for column, stays in zip(columns, still, strict=True) if stays]
    assert visit(written(timed, tmp_path), f"#person={i}").locator(".notes").inner_text() == (
        "Details that are not listed stay as they are too. These change by themselves as time passes: "
        f"{', '.join(names)}, some that are not listed. The proof covers the values shown: check again when one has "
        "changed."
    )
    assert visit(written(plain, tmp_path), f"#person={i}").locator(".notes").count() == 0


def test_only_proven_ways_are_offered(visit, tmp_path):  # noqa: F811
    page = visit(written(cases.awkward(), tmp_path), "#person=0")
    assert page.locator("#person h2", has_text="Other proven ways").is_visible()
    assert page.locator("#person .ways-listed li").count() == 1


@pytest.mark.parametrize("after", ["", "#person=2"])
@pytest.mark.parametrize("make", [cases.awkward, lambda: cases.contents(60, numeric=21, methods=9)])
def test_nothing_sticks_out_on_a_phone(visit, tmp_path, make, after):  # noqa: F811
    page = visit(written(make(), tmp_path), after, **PHONE)
    widths = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert widths[0] == widths[1] == 390


def test_awkward_texts_do_nothing_in_a_browser(visit, tmp_path):  # noqa: F811
    page = visit(written(cases.awkward(), tmp_path), "#person=0")
    assert page.locator("#person-heading").inner_text() == f"Person {cases.AWKWARD[0]} 0"
    assert cases.AWKWARD[1] in page.locator("#person table").first.inner_text()
    assert page.locator("#person b").count() == 0


def test_print_leaves_out_what_is_for_screens(report):
    page = report
    page.emulate_media(media="print")
    assert page.locator("#report").is_visible()
    for selector in ("nav.contents", "#filters", ".skip", "#pager button >> nth=0", "footer"):
        assert not page.locator(selector).is_visible()
    page.evaluate("location.hash = 'person=4'")
    page.locator("#person-heading").wait_for()
    for selector in (".masthead", "#report", "#person .ways"):
        assert not page.locator(selector).is_visible()
    assert page.locator("#person table").first.is_visible()


WATCH = """addEventListener('beforeprint', () => {
    window.printed = [...document.querySelectorAll('#everyone tbody th')].map((cell) => cell.textContent);
    window.extract = document.getElementById('extract').textContent;
    window.closed = document.querySelectorAll('details:not([open])').length;
})"""


@pytest.mark.parametrize(
    ("find", "said"),
    [("", "This printout has all 120 people."), ("housing", "selected people of 120.")],
)
def test_everyone_who_is_selected_is_printed(report, contents, find, said):
    page = report
    page.evaluate(WATCH)
    page.locator("#find").fill(find)
    assert sheets(page) >= 3
    chosen = [
        person.key
        for person in contents.people
        if find in " ".join((*person.advice, person.reason)).lower()
    ]
    assert page.evaluate("window.printed") == chosen
    assert page.evaluate("window.extract").endswith(said)
    assert page.evaluate("window.closed") == 0
    # Back on the screen there is a page of the list again, and the folds are closed.
    assert page.locator("#everyone tbody tr").count() == min(50, len(chosen))
    assert page.locator("#extract").is_hidden()
    assert page.locator("details:not([open])").count() == 3


def test_a_long_printout_names_its_extract(visit, tmp_path):  # noqa: F811
    page = visit(written(cases.contents(1100, numeric=2), tmp_path))
    page.evaluate(WATCH)
    assert sheets(page) > 10
    assert len(page.evaluate("window.printed")) == 1000
    assert page.evaluate("window.extract").startswith("This printout has the first 1,000 of 1,100")


def test_legends_stay_with_their_chart_on_paper(report):
    report.emulate_media(media="print")
    figure = report.locator("figure", has=report.locator(".legend"))
    assert figure.locator(".drawing.wide").is_visible()
    assert figure.evaluate("(node) => getComputedStyle(node).breakInside") == "avoid"
    # It is no higher than a sheet, so that the browser can do so.
    assert figure.evaluate("(node) => node.getBoundingClientRect().height") < 950


@pytest.mark.parametrize("numeric", [6, 21])
@pytest.mark.parametrize("verdict", ["ROBUST", "NOT_ROBUST", ""])
def test_a_person_is_one_sheet(visit, tmp_path, numeric, verdict):  # noqa: F811
    contents = cases.contents(60, numeric=numeric, mixed=2)
    i = next(i for i, person in enumerate(contents.people) if person.verdict == verdict)
    page = visit(written(contents, tmp_path), f"#person={i}")
    page.evaluate(
        "addEventListener('beforeprint', () => { window.shown = [...document.querySelectorAll('#person details')]"
        ".map((fold) => getComputedStyle(fold).display); })"
    )
    # The part for auditors is on the sheet only if the reader opened it.
    folds = page.locator("#person details").count()
    assert folds == (verdict != "")
    for display in ("none", "block"):
        assert sheets(page) == 1
        assert page.evaluate("window.shown") == [display] * folds
        folds_open(page)


def test_without_its_script_the_page_still_says_the_same(visit, path, report):  # noqa: F811
    plain = visit(path, java_script_enabled=False)
    assert plain.locator(".drawing.wide").is_visible()
    assert plain.locator("#filters").is_hidden()
    assert "need JavaScript" in plain.locator("#people").inner_text()
    for number in range(1, 6):
        assert column(plain, number) == column(report, number)


def test_many_people_are_unpacked(visit, tmp_path):  # noqa: F811
    contents = cases.contents(3000, numeric=21, mixed=0)
    page = visit(written(contents, tmp_path))
    assert page.locator("#data").get_attribute("data-encoding") == "gzip"
    assert page.locator("#counted").inner_text() == "3,000 people"
    page.locator("#find").fill(contents.people[-1].key)
    assert column(page, 1) == [contents.people[-1].key]


VIEWS = {"desktop": {}, "phone": PHONE, "dark": {"color_scheme": "dark"}}


@pytest.mark.parametrize("view", VIEWS)
def test_nobody_is_kept_out(visit, tmp_path, view):  # noqa: F811
    contents = cases.contents(24, methods=2)
    page = visit(written(contents, tmp_path), **VIEWS[view])
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert violations(page) == []
    page.evaluate(f"location.hash = 'person={first(contents, 'NOT_ROBUST')}'")
    page.locator("#person-heading").wait_for()
    assert violations(page) == []


@pytest.mark.parametrize("make", [cases.without_answers, lambda: cases.without_delta(12)])
def test_odd_reports_keep_nobody_out_either(visit, tmp_path, make):  # noqa: F811
    assert violations(visit(written(make(), tmp_path))) == []
