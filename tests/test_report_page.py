"""The report's page without a browser: structure, escaping, size, completeness, and that it is always the same."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

import report_cases as cases
from holdfast import _numbers as numbers
from holdfast.presentation.report._charts import spread
from holdfast.presentation.report._contents import Curve
from holdfast.presentation.report._page import render

MEGABYTE = 1_000_000
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Outline(HTMLParser):
    """Elements that are opened and closed in order, ids, headings, links, and what a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    def all(self, attribute: str) -> list[str]:
        return [
            attributes[attribute] or "" for _, attributes in self.tags if attribute in attributes
        ]

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def data_of(page: str) -> dict[str, object]:
    found = re.search(
        r'<script type="application/json" id="data" data-encoding="(\w+)">(.*?)</script>',
        page,
        re.DOTALL,
    )
    assert found
    text = found[2] if found[1] == "json" else gzip.decompress(base64.b64decode(found[2])).decode()
    return json.loads(text)


CASES = {
    "small": lambda: cases.contents(40),
    "methods": lambda: cases.contents(40, methods=10),
    "awkward": cases.awkward,
    "without answers": cases.without_answers,
    "without delta": cases.without_delta,
    "one person": lambda: cases.contents(1),
    "nobody": lambda: cases.contents(0),
    "no methods": lambda: replace(cases.contents(5), methods=()),
}


@pytest.mark.parametrize("name", CASES)
def test_every_page_is_well_formed_and_fetches_nothing(name):
    page = render(CASES[name]())
    outline = Outline(page)
    assert outline.open == []
    assert page.startswith("<!DOCTYPE html>\n<html lang=")
    ids = outline.all("id")
    assert len(ids) == len(set(ids))
    for reference in ("aria-labelledby", "aria-describedby", "for"):
        assert {word for value in outline.all(reference) for word in value.split()} - {
            "person-heading"
        } <= set(ids)
    assert {link.removeprefix("#") for link in outline.all("href")} <= set(ids)
    assert outline.all("src") == []
    assert {tag for tag, _ in outline.tags} >= {"header", "nav", "main", "footer", "h1", "h2"}
    assert sum(tag == "h1" for tag, _ in outline.tags) == 1
    assert (
        re.findall(r"url\((?!#)|@import|https?:", page.replace("http://www.w3.org/2000/svg", ""))
        == []
    )
    assert outline.all("style") == []


@pytest.mark.parametrize("name", CASES)
def test_headings_never_skip_a_level(name):
    levels = [
        int(tag[1]) for tag, _ in Outline(render(CASES[name]())).tags if re.fullmatch("h[1-6]", tag)
    ]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", ["small", "methods", "awkward"])
def test_plots_are_well_formed_and_named(name):
    page = render(CASES[name]())
    drawings = re.findall(r'<svg viewBox[^>]*class="drawing.*?</svg>', page, re.DOTALL)
    assert len(drawings) == 2
    for drawing in drawings:
        root = ET.fromstring(
            drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        )
        assert root.get("role") == "img"
        title, description = root[0], root[1]
        assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert title.text
        assert description.text
        assert all(
            "nan" not in (value or "")
            for node in root.iter()
            for value in node.attrib.values()
            if "tip" not in value
        )


def test_awkward_texts_are_shown_and_never_run():
    contents = cases.awkward()
    page = render(contents)
    outline = Outline(page)
    assert "<script>alert" not in page
    assert "</script><script>" not in page
    assert len(outline.scripts) == 2
    assert "<b>" not in page
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", page)
    for text in cases.AWKWARD:
        assert re.sub(r"\s+", " ", text) in outline.text
    assert not set("<>&\u2028\u2029") & set(outline.scripts[0])
    data = data_of(page)
    assert data["keys"] == [person.key for person in contents.people]


def test_the_policy_names_the_style_and_the_script_that_are_there():
    page = render(cases.contents(3))
    policy = next(
        attributes["content"] for _, attributes in Outline(page).tags if "http-equiv" in attributes
    )
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    assert style
    assert script
    for text, rule in ((style[1], "style-src"), (script[1], "script-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


@pytest.mark.parametrize(("numeric", "mixed"), [(21, 0), (9, 4)])
def test_ten_thousand_people_fit_into_three_megabytes(numeric, mixed):
    contents = cases.contents(10_000, numeric=numeric, mixed=mixed)
    page = render(contents)
    assert len(page.encode()) < 3 * MEGABYTE
    data = data_of(page)
    assert len(data["keys"]) == len(data["after"]) == 10_000
    assert len(data["before"]) == numeric + mixed


def test_the_same_contents_give_the_same_page():
    assert render(cases.contents(60, methods=3)) == render(cases.contents(60, methods=3))


def test_every_number_of_the_contents_is_on_the_page():
    contents = cases.contents(60, methods=4)
    text = Outline(render(contents)).text
    for method in contents.methods:
        assert method.name in text
        for shown in (f"{method.found:,}", f"{method.robust:,}", f"{method.unknown:,}"):
            assert shown in text
        assert numbers.figure(method.mean_cost) in text
        assert numbers.figure(method.median_cost) in text
        assert numbers.radius(method.median_radius) in text
        assert method.survival is not None
        assert numbers.share(method.survival.at(cases.DELTA)) in text
    for move in contents.moves:
        assert move.column.label in text
        assert f"{move.changed} {numbers.part_of(move.changed, contents.methods[0].found)}" in text
        for change in (move.median, move.low, move.high):
            assert change is None or numbers.change(change) in text
        for old, new, many in move.swaps:
            assert f"{old} → {new} {many}" in text
    for group in contents.slices[0].groups:
        assert group.name in text
        for shown in (group.found, group.robust, group.people):
            assert str(shown) in text
        for cost in (group.mean_cost, group.median_cost):
            assert numbers.figure(cost) in text
        assert numbers.radius(group.median_radius) in text
    for one in contents.missing:
        assert f"{one.reason} {one.people}" in text
    for sentence in (
        *contents.promise,
        *(word for figure in contents.figures for word in figure),
        *contents.limits,
        *contents.technical,
        *(word for fact in contents.facts for word in fact),
    ):
        assert sentence in text
    assert contents.slices[0].note in text


def test_every_number_of_a_person_is_in_the_data():
    contents = cases.contents(80)
    data = data_of(render(contents))
    for i, person in enumerate(contents.people):
        before = [
            column[i] if isinstance(column, list) else column["texts"][column["codes"][i]]
            for column in data["before"]
        ]
        assert before == list(person.before)
        changed = data["after"][i]
        if not person.after:
            assert changed is None
            assert data["texts"]["reasons"][data["reasons"][i]] == person.reason
            continue
        after = list(before)
        for column, value in zip(changed[::2], changed[1::2], strict=True):
            after[column] = value
        assert after == list(person.after)
        assert tuple(data["texts"]["advice"][code] for code in data["advice"][i]) == person.advice
        assert data["verdicts"][i] == person.verdict
        for shown, value in (
            ("costs", person.cost),
            ("radii", person.radius),
            ("gaps", person.gap),
        ):
            assert data[shown][i] == pytest.approx(value, rel=1e-5)
        assert data["worst"][i] == pytest.approx(person.worst_margin, rel=1e-5)
        counter = data["counters"]["rows"][i]
        assert person.counter is not None
        distance, inside, *margins = counter[:4]
        assert bool(inside) is person.counter.inside
        assert distance == pytest.approx(person.counter.distance, rel=1e-5)
        assert margins == pytest.approx(
            [person.counter.margin_today, person.counter.margin_counter], rel=1e-5
        )
        for k, change in enumerate(person.counter.changes):
            code, there, effect = counter[5][3 * k : 3 * k + 3]
            where, today = data["counters"]["parameters"][code]
            assert where == change.where
            assert [today, there, effect] == pytest.approx(
                [change.today, change.changed, change.effect], rel=1e-5
            )


def test_a_radius_is_never_shown_larger_than_it_is():
    rng = np.random.default_rng(0)
    for value in rng.gamma(2.0, 0.01, size=200).tolist():
        assert float(numbers.radius(value)) <= value
    contents = cases.contents(300)
    people = tuple(replace(person, radius=0.0051999999) for person in contents.people)
    assert set(data_of(render(replace(contents, people=people)))["radii"]) == {0.00519999}


def test_what_is_proven_is_rounded_so_that_it_says_no_more():
    contents = cases.contents(10)
    person = next(person for person in contents.people if person.counter)
    counter = replace(person.counter, distance=0.00523456789, inside=True)
    sharp = replace(person, gap=0.123456111, worst_margin=0.123456999, counter=counter)
    broken = replace(sharp, worst_margin=-0.123456111, counter=replace(counter, inside=False))
    data = data_of(render(replace(contents, people=(sharp, broken))))
    assert data["gaps"] == [0.123457] * 2
    assert data["worst"] == [0.123456, -0.123457]
    assert [row[0] for row in data["counters"]["rows"]] == [0.00523456, 0.00523457]


def test_no_row_of_the_curve_names_more_than_was_proven():
    contents = cases.contents(200)
    assert contents.gauge is not None
    radii = np.array([person.radius for person in contents.people if person.radius is not None])
    table = render(contents).split('<details class="numbers">')[1].split("</details>")[0]
    rows = re.findall(r'<th scope="row">([\d.]+)</th><td class="number">(\d+)%</td>', table)
    assert len(rows) > 5
    for size, share in rows:
        # The sizes are typical updates, rounded down; a curve falls, so what is said there is no more than the truth.
        proven = 100 * np.mean(radii > contents.gauge.unit * float(size))
        assert float(share) <= proven + 0.5 + 1e-9


def test_people_read_no_number_of_the_model_outside_the_folds():
    """Neither δ nor a radius, a margin, a cost or a hash: these are for auditors."""
    contents = cases.contents(40, methods=3)
    page = render(contents)
    folded = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    text = Outline(re.sub(r"<script.*?</script>", "", folded, flags=re.DOTALL)).text
    for word in ("δ", "Δ", "cost", "margin", "Margin", "Certified", "×10", str(cases.DELTA)):
        assert word not in text, word
    everything = Outline(page).text
    assert all(word in everything for word in ("Mean cost", "Median radius", "δ of Δ: 0.0052."))


@pytest.mark.parametrize("methods", [1, 3])
def test_the_list_comes_before_every_picture(methods):
    page = render(cases.contents(20, methods=methods))
    places = [
        page.index(f'id="{name}"') for name in ("find", "everyone", "moves", "survival", "auditors")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("large", [1e15, 1e29, 1e300])
def test_the_largest_numbers_have_a_text(large):
    assert int(numbers.figure(large).replace(",", "")) == pytest.approx(large)
    assert numbers.figure(-large) == f"−{numbers.figure(large)}"


def test_a_change_too_small_to_show_is_kept_apart():
    contents = cases.contents(10)
    person = next(person for person in contents.people if person.after)
    moved = replace(
        person, before=(0.1, *person.before[1:]), after=(0.1 + 1e-15, *person.after[1:])
    )
    data = data_of(render(replace(contents, people=(moved,))))
    assert data["after"][0][:2] == [0, 0.1 + 1e-15]


@pytest.mark.parametrize("where", [0.0, 0.5, 1.0, 1.5, 2.0, 9.0])
def test_a_curve_is_read_as_it_is_defined(where):
    curve = Curve((0.0, 1.0, 2.0), (1.0, 0.4, 0.1))
    expected = max(
        (y for x, y in zip(curve.x, curve.y, strict=True) if x <= where), key=lambda y: -y
    )
    assert curve.at(where) == expected


def test_labels_keep_their_distance_and_stay_inside():
    rng = np.random.default_rng(1)
    for _ in range(50):
        wanted = rng.uniform(0, 100, size=6).tolist()
        places = np.sort(spread(wanted, 15, 0, 100))
        assert (np.diff(places) >= 15 - 1e-9).all()
        assert places[0] >= 0
        assert places[-1] <= 100


def test_without_answers_the_page_says_so():
    text = Outline(render(cases.without_answers())).text
    assert "No person has advice" in text
    assert "12 of 12 people (100%) have no advice." in text


def test_without_delta_nothing_is_called_proven():
    text = Outline(render(cases.without_delta())).text
    assert "Nothing was certified" in text
    assert "● proven" not in text
    assert "Proof reaches" not in text
    assert "not certified" in text
