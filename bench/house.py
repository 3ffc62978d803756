"""The house, counted: how much there is of it, which names stand twice, how far one call walks through it.

    python bench/house.py            # tokens and lines of every room, public names, class names twice, four walks
    python bench/house.py --tokens   # the count alone, without importing the package

Tokens are those of Python's `tokenize` without comments, docstrings and layout; a line of code is one that carries a
token. A walk is what a profiler sees of the package in one call: functions, files and rooms.
"""

from __future__ import annotations

import argparse
import ast
import collections
import io
import sys
import tempfile
import tokenize
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1] / "src" / "holdfast"
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def room_of(path: Path) -> str:
    """The package below the root in which a file lies, or the file itself."""
    return path.relative_to(ROOT).parts[0]


def docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Where the docstrings of a module begin."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            yield node.body[0].lineno, node.body[0].col_offset


def counted(path: Path) -> tuple[int, int]:
    """Tokens and lines of code of one file."""
    source = path.read_text(encoding="utf-8")
    documented = set(docstrings(ast.parse(source)))
    said = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in LAYOUT
        and not (token.type == tokenize.STRING and token.start in documented)
    ]
    return len(said), len({token.start[0] for token in said})


def print_size() -> None:
    """Tokens and lines, room by room."""
    tokens: collections.Counter[str] = collections.Counter()
    lines: collections.Counter[str] = collections.Counter()
    files: collections.Counter[str] = collections.Counter()
    for path in sorted(ROOT.rglob("*.py")):
        room = room_of(path)
        said, written = counted(path)
        tokens[room] += said
        lines[room] += written
        files[room] += 1
    print(f"{'room':20}{'files':>7}{'lines':>8}{'tokens':>9}{'a line':>8}")
    for room, said in [*tokens.most_common(), ("together", sum(tokens.values()))]:
        n_files, n_lines = (
            (files[room], lines[room]) if room in files else (files.total(), lines.total())
        )
        print(f"{room:20}{n_files:7,}{n_lines:8,}{said:9,}{said / max(1, n_lines):8.1f}")


def names_twice() -> dict[str, list[str]]:
    """Class names that more than one module defines."""
    where: dict[str, list[str]] = collections.defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                where[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return {name: places for name, places in sorted(where.items()) if len(places) > 1}


def walked(call: Callable[[], object]) -> tuple[int, int, int]:
    """Functions, files and rooms of the package that one call meets."""
    met: set[tuple[str, str]] = set()

    def notice(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            met.add((code.co_filename, code.co_qualname))

    sys.setprofile(notice)
    try:
        call()
    finally:
        sys.setprofile(None)
    files = {Path(file) for file, _ in met}
    return len(met), len(files), len({room_of(file) for file in files})


def own_package() -> ModuleType:
    """The package next to this file, even where another copy of it is installed."""
    sys.path.insert(0, str(ROOT.parent))
    import holdfast

    if Path(holdfast.__file__).parent != ROOT:
        raise SystemExit(f"holdfast: expected the copy in {ROOT}, imported {holdfast.__file__}")
    return holdfast


def print_walks() -> None:
    """The four calls of which most users make one."""
    from sklearn.neural_network import MLPClassifier

    hf = own_package()
    loans = hf.datasets.load("loans")
    X = loans.space.encode(loans.frame)
    model = MLPClassifier((15, 15), random_state=0, max_iter=60).fit(X, loans.target)
    later = MLPClassifier((15, 15), random_state=0, max_iter=61).fit(X, loans.target)
    changes = hf.PlausibleChanges(0.02)
    denied = loans.frame[model.predict(X) == 0]

    def explain(people: int, generator: Any) -> Any:
        return hf.explain(
            model,
            denied[:people],
            target=1,
            changes=changes,
            generator=generator,
            space=loans.space,
            progress=False,
        )

    advice = explain(12, hf.RNCE(loans.frame))
    with tempfile.TemporaryDirectory() as folder, hf.Ledger(Path(folder) / "ledger.db") as ledger:
        ledger.add(advice)
        walks = {
            "certify, 600 rows": lambda: hf.certify(model, X[:600], 1, changes),
            "explain(Closest()), 2 people": lambda: explain(2, hf.Closest()),
            "audit, 12 promises": lambda: hf.audit(ledger, later),
            "report, 12 people": lambda: advice.report(Path(folder) / "report.html"),
        }
        print(f"\n{'one call':32}{'functions':>10}{'files':>7}{'rooms':>7}")
        for name, call in walks.items():
            print("{:32}{:10}{:7}{:7}".format(name, *walked(call)))
    print(f"\npublic names: {len(hf.__all__)}")


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", action="store_true", help="the count alone")
    only_tokens = parser.parse_args().tokens
    warnings.simplefilter("ignore")
    print_size()
    twice = names_twice()
    print(f"\nclass names twice: {len(twice)}")
    for name, places in twice.items():
        print(f"  {name}: {', '.join(places)}")
    if not only_tokens:
        print_walks()


if __name__ == "__main__":
    main()
