"""The words that users read: a list of banned words and the length of sentences.

    python tests/words.py [ROOT [PATH ...]]     # every hit below ROOT (this repository), or in the files named

Read are Markdown pages, docstrings, string literals of more than one word (errors, help, warnings), templates and
scripts of pages. Python is read without its comments, pages without their code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

BANNED = re.compile(
    r"\b(?:whoever|whosoever|whatever|so (?:many|much|few)|nobody|somebody|anew|beside|besides|as many again"
    r"|for want of|save for|but for|in place of|made again|(?:trained|grown|fitted) again|boosted on|learns on"
    r"|the (?:told|asked)|need not|its own affair|may not be what was meant|what may become"
    r"|held against|stands in|stands for itself|comes? to nothing)\b".replace(" ", r"\s+"),
    re.IGNORECASE,
)
# Pages that a command of the repository writes: their words are those of its template, their sentences hold figures.
GENERATED = re.compile(r"docs/(?:benchmarks.*|paper|changes)\.md")
LONGEST = 40
_MORE_THAN_A_WORD = re.compile(r"\S\s+\S")
# A full stop ends a sentence where a space and a capital, a digit or a quotation follow it.
_END = re.compile(r"(?<=[.!?])[\"”'*_)]*\s+(?=holdfast|[A-ZΔ\"“*_`(\d])")
_SHORT = re.compile(r"\b(?:e\.g|i\.e|cf|vs|approx|Fig|Eq|No)\.$")


@dataclass(frozen=True)
class Hit:
    """A place where a user reads a banned word."""

    path: str
    line: int
    word: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r} in: {self.text}"


def user_files(root: Path) -> list[Path]:
    """Every file below `root` with text that users read, except figures of the paper and facts of public tables."""
    pages = [root / "README.md", root / "CONTRIBUTING.md", root / "CHANGELOG.md"]
    pages += sorted((root / "docs").rglob("*.md"))
    source = root / "src"
    for suffix in (".py", ".j2", ".js"):
        pages += sorted(source.rglob(f"*{suffix}"))
    return [page for page in pages if page.exists()]


def banned(root: Path, paths: list[Path] | None = None) -> list[Hit]:
    """The banned words in these files, by default in all that users read."""
    hits = []
    for path in user_files(root) if paths is None else paths:
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
        for line, text in _texts(path):
            hits += [
                Hit(name, line + text.count("\n", 0, found.start()), found[0].lower(), _near(text, found))
                for found in BANNED.finditer(text)
            ]  # fmt: skip
    return hits


def sentences(page: str) -> list[str]:
    """The sentences of a page: of paragraphs, list items and quotations, without headings, tables and code."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    found, kept = [], 0
    for place, token in enumerate(tokens):
        if token.type in ("table_open", "heading_open"):
            kept += 1
        elif token.type in ("table_close", "heading_close"):
            kept -= 1
        elif token.type == "inline" and not kept:
            text = "".join(
                "Code" if child.type == "code_inline" else " " if "break" in child.type else child.content
                for child in tokens[place].children or ()
                if child.type != "image"
            )  # fmt: skip
            found += _sentences(text)
    return found


def long_sentences(page: str, longest: int = LONGEST) -> list[str]:
    """The sentences of a page with more than `longest` words."""
    return [one for one in sentences(page) if len(one.split()) > longest]


def hand_written(root: Path) -> list[Path]:
    """README and the pages of the documentation that no command writes."""
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [page for page in pages if not GENERATED.fullmatch(page.relative_to(root).as_posix())]


def _sentences(text: str) -> Iterator[str]:
    begun = ""
    for part in _END.split(text):
        begun = f"{begun} {part}".strip()
        if not _SHORT.search(begun):
            yield begun
            begun = ""
    if begun:
        yield begun


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file, each with the line on which it begins."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, _without_code(text) if path.suffix == ".md" else text
        return
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and _MORE_THAN_A_WORD.search(node.value)
        ):
            yield node.lineno, node.value


def _without_code(page: str) -> str:
    """The page with the lines of its code blocks empty, so that lines keep their numbers."""
    lines = page.split("\n")
    for token in MarkdownIt("commonmark").parse(page):
        if token.type in ("fence", "code_block") and token.map:
            first, end = token.map
            lines[first:end] = [""] * (end - first)
    return "\n".join(lines)


def _near(text: str, found: re.Match[str]) -> str:
    """The words around a hit."""
    return " ".join(text[max(0, found.start() - 40) : found.end() + 40].split())


def main(arguments: list[str]) -> None:
    root = Path(arguments[0]).resolve() if arguments else Path(__file__).resolve().parents[1]
    paths = [path for given in arguments[1:] for path in _below(root / given)] or None
    hits = banned(root, paths)
    for hit in hits:
        print(hit)
    print(f"{len(hits)} banned words")
    for page in hand_written(root) if paths is None else [p for p in paths if p.suffix == ".md"]:
        text = page.read_text(encoding="utf-8")
        found, long = sentences(text), long_sentences(text)
        print(
            f"{page.relative_to(root)}: {len(text.split())} words, {len(found)} sentences, {len(long)} of over "
            f"{LONGEST} words"
        )
        for one in long if paths is not None else ():
            print(f"    {one[:110]} ...")


def _below(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return [file for file in sorted(path.rglob("*")) if file.suffix in (".md", ".py", ".j2", ".js")]


if __name__ == "__main__":
    main(sys.argv[1:])
