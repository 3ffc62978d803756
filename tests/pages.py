"""Pages of the documentation as things to run: their code blocks in order, in one folder, with one namespace.

    ```python          run, in the page's namespace
    ```sh              run, line by line; a line that exits with another code than 0 says so: "# exits with 3"
    ```sh once         installs something: not run here, and nothing else may be in it
    ```console         what the block before it prints; numbers may differ by 2%, "..." stands for anything
    ```text, ```json   not code: diagrams, files

`holdfast` runs in this process, which saves importing it each time; everything else runs in bash, with this Python's
folder at the front of PATH. A `make` line is only looked up in the Makefile, and what `PARSED_ONLY` names only goes
through the command's own parser: other tests run those.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import typer
from markdown_it import MarkdownIt
from typer.testing import CliRunner

import holdfast as hf
from holdfast.cli import app
from holdfast.datasets import make_loans
from holdfast.datasets._loans import FIXED, LABEL
from holdfast.features._codec import differs

RUN, SHOWN, DIRECTIVES = (
    {"python", "sh"},
    {"console", "text", "json"},
    {"{toctree}", "{eval-rst}", "{include}"},
)
# Minutes to hours; tests/test_paper_study.py, test_recipes.py and test_benchmark.py run them on tiny tables.
# A service runs for ever; tests/test_service.py runs it.
PARSED_ONLY = (
    "holdfast benchmark paper",
    "holdfast benchmark changes",
    "holdfast benchmark run --datasets",
    "holdfast serve",
)
INSTALLS = (
    "git clone",
    "export HOLDFAST=",
    "python3 -m venv",
    ". .venv/bin/activate",
    "pip install",
    "mkdir",
    "cd ",
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the rest of the info string, its text, and the line it starts on."""

    language: str
    mark: str
    text: str
    line: int


def pages(root: Path) -> list[str]:
    """Every page, as a path from the root."""
    found = [
        path
        for path in (root / "docs").rglob("*.md")
        if "_" not in path.relative_to(root).parts[1][:1]
    ]
    return ["README.md", *sorted(path.relative_to(root).as_posix() for path in found)]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page; code that is only indented has the language "indented"."""
    found = []
    for token in MarkdownIt().parse(text):
        if token.type in ("fence", "code_block"):
            language, _, mark = token.info.strip().partition(" ")
            line = token.map[0] + 1 if token.map else 0
            found.append(
                Block(language if token.type == "fence" else "indented", mark, token.content, line)
            )
    return found


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The lines of a shell block, continuations joined: (command, comment)."""
    for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
        command, comment = _split_comment(line)
        if command:
            yield command, comment


def _split_comment(line: str) -> tuple[str, str]:
    found = re.search(r"(?:^|\s)#\s(?=(?:[^\"']|\"[^\"]*\"|'[^']*')*$)", line)
    return (
        (line.strip(), "")
        if found is None
        else (line[: found.start()].strip(), line[found.end() :])
    )


@dataclass
class Page:
    """A page that is being run in a folder: what has been printed so far, block by block."""

    name: str
    folder: Path
    names: dict[str, Any] = field(default_factory=dict)
    printed: str = ""

    def run(self, found: list[Block]) -> None:
        """Run the blocks in order."""
        for block in found:
            if block.language == "console":
                where = f"{self.name}:{block.line}"
                assert same_output(block.text, self.printed), (
                    f"{where}: expected\n{block.text}\ngot\n{self.printed}"
                )
            elif block.language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    # The line numbers of an error are then those of the page.
                    exec(compile("\n" * block.line + block.text, self.name, "exec"), self.names)
                self.printed = out.getvalue()
            elif block.language == "sh" and block.mark != "once":
                self.printed = "".join(self.run_line(*line) for line in commands(block))

    def run_line(self, command: str, comment: str) -> str:
        """One command, which exits with what its comment says, else with 0; what it printed."""
        stated = re.search(r"exits with (\d)", comment)
        expected = int(stated[1]) if stated else 0
        if command.startswith("make "):
            return self.find_target(command.split()[1])
        plain = command.startswith("holdfast ") and not set(
            shlex.shlex(command, punctuation_chars=True)
        ) & set("|&;<>")
        code, output = self.run_holdfast(command) if plain else self.run_bash(command)
        assert code == expected, (
            f"{self.name}: {command}: expected exit code {expected}, got {code}\n{output}"
        )
        return output

    def run_holdfast(self, command: str) -> tuple[int, str]:
        """In this process; bash reads the words, so that quotes and substitutions are its own."""
        _, words = self.run_bash(rf"printf '%s\0' {command.removeprefix('holdfast ')}")
        arguments = words.split("\0")[:-1]
        if command.startswith(PARSED_ONLY):
            return _parse_only(arguments)
        done = CliRunner().invoke(app, arguments)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.output

    def run_bash(self, command: str) -> tuple[int, str]:
        """In a shell of its own, with this Python first in PATH."""
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr

    def find_target(self, target: str) -> str:
        """`make TARGET` is for the root of the repository, where the target has to be."""
        makefile = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), (
            f"{self.name}: expected a target {target} in Makefile"
        )
        return ""


LOANS = {*make_loans(5)} - {LABEL}


def unsigned(names: Mapping[str, Any], folder: Path) -> list[str]:
    """What a lender would not sign on a page about `make_loans`: spaces, schemas and advice that move the past."""
    found = []
    for name, value in names.items():
        spaces = [value] if isinstance(value, hf.FeatureSpace) else []
        if isinstance(value, hf.Recourse) and set(value.space.names) == LOANS:
            spaces.append(value.space)
            before = value.people.numbers[value.answered]
            moved = np.flatnonzero(differs(value.answers, before).any(axis=0))
            columns = [value.space.names[i] for i in moved if value.space.names[i] in FIXED]
            found += [f"{name}: advice changes {column}" for column in columns]
        for space in spaces:
            if set(space.names) == LOANS:
                free = [column for column in FIXED if space[column].direction != "immutable"]
                found += [f"{name}: {column} is not immutable" for column in free]
    for path in sorted(folder.rglob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        # A schema for people, or a space as `to_dict` writes it.
        known = document if isinstance(document, dict) else {}
        columns = [*known.get("columns", []), *known.get("features", [])]
        said = {
            c["name"]: c.get("actionability", c.get("direction"))
            for c in columns
            if isinstance(c, dict) and "name" in c
        }
        if set(said) >= LOANS:
            free = [column for column in FIXED if said[column] != "immutable"]
            found += [f"{path.name}: {column} is not immutable" for column in free]
    return sorted(set(found))


def _parse_only(arguments: list[str]) -> tuple[int, str]:
    """Take a command's options apart as the command would, and stop there."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    command.make_context("holdfast", arguments)
    return 0, ""


def same_output(expected: str, got: str) -> bool:
    """Word by word: numbers within 2% or one in the last digit, "..." for any words, white space as it comes."""
    return _same_words(expected.split(), got.split())


def _same_words(expected: list[str], got: list[str]) -> bool:
    for i, word in enumerate(expected):
        if word == "...":
            rest = expected[i + 1 :]
            return not rest or any(_same_words(rest, got[k:]) for k in range(i, len(got)))
        if i >= len(got) or not _same_word(word, got[i]):
            return False
    return len(expected) == len(got)


_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?")


def _same_word(expected: str, got: str) -> bool:
    if _NUMBER.sub("#", expected) != _NUMBER.sub("#", got):
        return False
    pairs = zip(_NUMBER.findall(expected), _NUMBER.findall(got), strict=True)
    return all(_close(*(Decimal(text.replace(",", "")) for text in pair)) for pair in pairs)


def _close(expected: Decimal, got: Decimal) -> bool:
    last_digit = Decimal(10) ** int(expected.as_tuple().exponent)
    return abs(expected - got) <= max(abs(expected) / 50, last_digit)
