"""Texts for users are plain: no banned words anywhere, few long sentences in pages, and a scanner that finds both."""

from functools import cache
from pathlib import Path

import pytest

import words

ROOT = Path(__file__).parents[1]
# The largest share of sentences over `words.LONGEST` words in hand-written pages.
LONG_SHARE = 0.02


def area_of(path: Path) -> str:
    """The folder of a text: a top-level file by its name, a package of the source with all its folders."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:-1][:3]) or parts[0]


AREAS = sorted({area_of(path) for path in words.user_files(ROOT)})


@cache
def hits() -> list[words.Hit]:
    return words.banned(ROOT)


def test_the_areas_cover_every_kind_of_text():
    assert {"README.md", "docs", "docs/guides", "src/holdfast", "src/holdfast/cli"} <= set(AREAS)
    assert {path.suffix for path in words.user_files(ROOT)} == {".md", ".py", ".j2", ".js"}


@pytest.mark.parametrize("area", AREAS)
def test_no_banned_word_in(area):
    found = [str(hit) for hit in hits() if area_of(ROOT / hit.path) == area]
    assert not found, "\n".join(found)


def test_few_sentences_of_hand_written_pages_are_long():
    pages = {path: path.read_text(encoding="utf-8") for path in words.hand_written(ROOT)}
    total = sum(len(words.sentences(page)) for page in pages.values())
    long = {path: len(words.long_sentences(page)) for path, page in pages.items()}
    most = sorted(long, key=long.__getitem__, reverse=True)[:5]
    assert total > 500
    assert sum(long.values()) <= LONG_SHARE * total, (
        f"{sum(long.values())} of {total} sentences have over {words.LONGEST} words; most of them in "
        + ", ".join(f"{path.relative_to(ROOT)} ({long[path]})" for path in most)
    )


# ---------------------------------------------------------------------- the scanner finds what is planted


TEXTS = {
    "README.md": "# A page\n\nFine text.\n\n{0} reads this.\n",
    "docs/guide.md": "- A list item\n- A table row\n\n| a | b |\n|---|---|\n| {0} | 1 |\n",
    "src/one/docstring.py": 'def f():\n    """Return a value.\n\n    For {0} who asks.\n    """\n',
    "src/one/error.py": 'raise ValueError(\n    f"{{1}}: expected a file, "\n    f"got it from {0}"\n)\n',
    "src/one/help.py": 'OPTION = dict(help="A word for {0} here.")\n',
    "src/one/page.html.j2": "<p>Hello</p>\n<p>{0} gets this letter.</p>\n",
    "src/one/page.js": "// Page\nconst text = '{0} gets this letter.'\n",
}
PLAIN = "every person"


def plant(root: Path, place: str, word: str) -> None:
    """Write every text without a banned word, and with one in this place."""
    for name, text in TEXTS.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(word if name == place else PLAIN), encoding="utf-8")


@pytest.mark.parametrize("place", TEXTS)
def test_a_planted_word_is_found_where_it_is(tmp_path, place):
    plant(tmp_path, place, "Whoever")
    (hit,) = words.banned(tmp_path)
    line = 1 + TEXTS[place].format("Whoever").split("Whoever")[0].count("\n")
    # A string of several parts begins on the line of its first part.
    assert (hit.path, hit.word) == (place, "whoever")
    assert hit.line in ({line} if not place.endswith("error.py") else {2, line})
    assert "Whoever" in hit.text


def test_plain_texts_have_no_hit(tmp_path):
    plant(tmp_path, "", "")
    assert words.banned(tmp_path) == []


@pytest.mark.parametrize(
    "phrase",
    [
        "whoever", "Whatever", "so many", "so much", "so\n    many", "nobody", "somebody", "anew", "beside",
        "as many again", "for want of", "save for", "but for", "in place of", "need not", "comes to nothing",
    ],
)  # fmt: skip
def test_each_banned_phrase_is_found_even_across_lines(tmp_path, phrase):
    plant(tmp_path, "src/one/docstring.py", phrase)
    (hit,) = words.banned(tmp_path)
    assert hit.word.split() == phrase.lower().split()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", "Text.\n\n```python\nwhoever = nobody\n```\n"),
        ("README.md", "Text.\n\n    beside = anew\n"),
        ("src/one/code.py", "# whoever reads comments\nbeside = 'beside'\n"),
        ("src/one/code.py", 'TEXT = "The besides-free word is somebodyness, sooner many."\n'.replace("besides-", "")),
    ],
)  # fmt: skip
def test_code_and_comments_and_other_words_are_left_alone(tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    assert words.banned(tmp_path) == []


# ---------------------------------------------------------------------- the splitter counts right


@pytest.mark.parametrize(
    ("page", "count"),
    [
        ("One. Two words! Is it three?", 3),
        ("One sentence\nover two lines.", 1),
        ("A short form, e.g. This one, ends nothing. Second.", 2),
        ("A version 1.5 and a file a.b are no ends. Second.", 2),
        ("It ends with code: `a. B. C`. Second **bold.** Third.", 3),
        ("# A heading. With two.\n\nText.", 1),
        ("- One\n- Two\n- Three. Four.", 4),
        ("| A. B | C |\n|---|---|\n| D. E | F. G |\n\nText.", 1),
        ("```\nCode. More. Code.\n```\n\nText.", 1),
        ("> Quoted. Text.", 2),
        ("", 0),
    ],
)
def test_sentences_are_counted(page, count):
    assert len(words.sentences(page)) == count, words.sentences(page)


def test_only_sentences_over_the_limit_are_long():
    within, over = (
        ("word " * words.LONGEST).strip() + ".",
        ("word " * (words.LONGEST + 1)).strip() + ".",
    )
    assert words.long_sentences(f"{within}\n\n{within}") == []
    assert words.long_sentences(f"{within}\n\n{over}") == [over]
    # A span of code is a word, whatever is in it.
    assert words.long_sentences(f"`{over}` {within.removeprefix('word ')}") == []
    assert len(words.long_sentences(f"`{over}` {within}")) == 1


def test_pages_that_commands_write_are_not_counted(tmp_path):
    for name in (
        "README.md",
        "docs/guide.md",
        "docs/paper.md",
        "docs/benchmarks-x.md",
        "docs/a/b.md",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Text.", encoding="utf-8")
    pages = [path.relative_to(tmp_path).as_posix() for path in words.hand_written(tmp_path)]
    assert sorted(pages) == ["README.md", "docs/a/b.md", "docs/guide.md"]
