"""Every page of the documentation runs as it stands, from top to bottom, and prints what it says it prints."""

import contextlib
import json
import os
import re
import signal
import sys
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

import holdfast as hf
from holdfast.datasets import make_loans
from holdfast.datasets._loans import FIXED
from holdfast.verify._engine import TABLE
from holdfast.verify._verdict import STAGES
from pages import (
    DIRECTIVES,
    INSTALLS,
    RUN,
    SHOWN,
    Block,
    Page,
    blocks,
    commands,
    pages,
    same_output,
    unsigned,
)

ROOT = Path(__file__).parents[1]
PAGES = pages(ROOT)
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
WITH_CODE = [
    page for page, text in TEXTS.items() if RUN & {block.language for block in blocks(text)}
]
# docs/guides/audit.md has a test of its own, which also checks what the page says in words.
ELSEWHERE = {"docs/guides/audit.md"}
# Tables that are not ours to ship: without them the test of the page is skipped.
PUBLIC = re.compile(r"(?<!--)datasets(?:\.load\(\"| )(?:adult|compas|gmc|heloc)")


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_is_no_code(page):
    found = blocks(TEXTS[page])
    known = RUN | SHOWN | DIRECTIVES
    assert [(block.line, block.language) for block in found if block.language not in known] == []
    marked = [block for block in found if block.mark and block.language not in DIRECTIVES]
    assert [block.line for block in marked if (block.language, block.mark) != ("sh", "once")] == []


def test_what_is_not_run_only_installs():
    once = {
        page: [block for block in blocks(text) if block.mark == "once"]
        for page, text in TEXTS.items()
    }
    assert [page for page, found in once.items() if found] == ["docs/tutorial.md"]
    lines = [command for block in once["docs/tutorial.md"] for command, _ in commands(block)]
    assert lines
    assert [line for line in lines if not line.startswith(INSTALLS)] == []


@pytest.mark.parametrize("page", [page for page in WITH_CODE if page not in ELSEWHERE])
def test_page_runs(page, tmp_path, monkeypatch, request):
    found = blocks(TEXTS[page])
    if any(PUBLIC.search(block.text) for block in found if block.language in RUN):
        monkeypatch.setenv("HOLDFAST_DATA", str(request.getfixturevalue("data_dir")))
    monkeypatch.chdir(tmp_path)
    if page in GIVEN:
        GIVEN[page]()
    else:
        assert list(tmp_path.iterdir()) == []
    run = Page(page, tmp_path)
    try:
        run.run(found)
    finally:
        for left in tmp_path.glob(
            "*.pid"
        ):  # a service that the page started, and did not come to stop
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(left.read_text()), signal.SIGTERM)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    # No guide advises changing the past, age, household or employment.
    assert unsigned(run.names, tmp_path) == []


def files_of_the_benchmark():
    """A table of people with its schema."""
    people = make_loans(300)
    people.to_csv("people.csv", index=False)
    space = hf.FeatureSpace.from_frame(people.drop(columns="accepted"), immutable=FIXED)
    Path("schema.json").write_text(json.dumps(space.to_dict()), encoding="utf-8")


# Pages that speak of files which the reader has.
GIVEN = {"docs/benchmarking.md": files_of_the_benchmark}


def test_the_cascade_page_has_the_table_of_stages():
    lines = TEXTS["docs/cascade.md"].splitlines()
    first = lines.index("| stage | Δ | proves | breaks | may spend on a row | what it does |") + 2
    found = list(takewhile(lambda line: line.startswith("|"), lines[first:]))
    which, said = {None: "any", True: "p-norm", False: "box"}, {True: "yes", False: "no"}
    assert [tuple(line.strip("| ").split(" | ")) for line in found] == [
        (
            STAGES[step.stage],
            which[step.ball],
            said[step.proves],
            said[step.breaks],
            step.budget,
            step.does,
        )
        for step in TABLE
    ]


def test_the_messages_of_the_questions_are_messages_of_the_source():
    table = TEXTS["docs/faq.md"].split("| the message has |")[1]
    quoted = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "src" / "holdfast").rglob("*.py")
    )
    assert len(quoted) >= 10
    assert [message for message in quoted if message not in source] == []


# ---------------------------------------------------------------------- the runner itself


def test_a_wrong_figure_is_seen(tmp_path):
    page = "```python\nprint('cost', 0.5)\n```\n\n```console\ncost 0.7\n```\n"
    with pytest.raises(AssertionError, match=r"expected\ncost 0\.7\n\ngot\ncost 0\.5"):
        Page("page", tmp_path).run(blocks(page))


def test_a_command_that_fails_is_seen(tmp_path):
    for line in (
        "holdfast certify --model nowhere.npz",
        "false",
        "holdfast --version   # exits with 3",
    ):
        with pytest.raises(AssertionError, match="expected exit code"):
            Page("page", tmp_path).run([Block("sh", "", line, 1)])
    with pytest.raises(AssertionError, match="expected a target nothing"):
        Page("page", tmp_path).run([Block("sh", "", "make nothing", 1)])


def test_words_and_numbers_of_an_output():
    assert (
        same_output("12 rows ... head ...", "12 rows, some of them in a longer\ntext head 0af3")
        is False
    )
    assert same_output("12 rows, ... head ...", "12 rows, some of them in a longer\ntext head 0af3")
    assert same_output("delta = 0.00874: 1,200", "delta =  0.0088: 1,210\n")
    assert not same_output("delta = 0.00874", "delta = 0.0092")
    assert not same_output("20 robust", "20 broken")
    assert not same_output("20 robust", "20 robust, 1 broken")


def test_a_schema_that_no_lender_signs_is_seen(tmp_path):
    people = make_loans(200, seed=1).drop(columns="accepted")
    fixed = {"immutable": FIXED}
    assert unsigned({"space": hf.FeatureSpace.from_frame(people, **fixed)}, tmp_path) == []
    found = unsigned({"space": hf.FeatureSpace.from_frame(people)}, tmp_path)
    assert found == sorted(f"space: {column} is not immutable" for column in FIXED)
    said = [{"name": column, "actionability": "mutable"} for column in people]
    (tmp_path / "schema.json").write_text(json.dumps({"columns": said}), encoding="utf-8")
    assert len(unsigned({}, tmp_path)) == len(FIXED)
    # Advice is looked at too.
    space = hf.FeatureSpace.from_frame(people, decreasing=["missed_payments"])
    slopes = np.zeros(space.n_variables)
    slopes[space.variables.index("missed_payments")] = -1.0
    net = hf.Network([[slopes]], [[0.1]])
    worse = people[people["missed_payments"] > 1].head(2)
    advice = hf.explain(net, worse, target=1, generator=hf.MCE(), space=space)
    assert "advice: advice changes missed_payments" in unsigned({"advice": advice}, tmp_path)


def test_indented_code_and_unknown_languages_are_found():
    found = blocks(
        "text\n\n    indented = 1\n\n~~~ruby\nputs 1\n~~~\n\n1. a list\n\n   ```python\n   x = 1\n   ```\n"
    )
    assert [block.language for block in found] == ["indented", "ruby", "python"]
    assert found[2].text == "x = 1\n"
