"""The house itself: what is public is documented, imports stay light, versions agree, the README tells the truth."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import holdfast as hf
from pages import pages

OPTIONAL = ["torch", "onnx", "onnxruntime", "matplotlib", "skops", "gurobipy", "typer"]


@pytest.mark.parametrize("name", hf.__all__)
def test_every_public_name_exists_and_says_what_it_is(name):
    thing = getattr(hf, name)
    documentation = inspect.getdoc(thing)
    assert documentation, f"{name} has no docstring"
    assert len(documentation.splitlines()[0]) > 10


@pytest.mark.parametrize(
    "name", [name for name in hf.__all__ if inspect.isclass(getattr(hf, name))]
)
def test_every_public_method_says_what_it_does(name):
    cls = getattr(hf, name)
    methods = [
        key for key, value in vars(cls).items() if not key.startswith("_") and callable(value)
    ]
    assert [key for key in methods if not inspect.getdoc(getattr(cls, key))] == []


def test_import_brings_no_optional_package():
    script = f"import sys, holdfast; print([name for name in {OPTIONAL} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_import_warns_about_nothing():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import holdfast"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_versions_agree(root):
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    newest = re.search(
        r"^## \[(\d[^\]]*)\]", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert newest is not None
    assert hf.__version__ == project["version"] == newest[1]


def test_library_prints_nothing(root):
    calls = [
        f"{path.name}:{node.lineno}"
        for path in (root / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert calls == []


PAGES = ["CHANGELOG.md", "CONTRIBUTING.md", *pages(Path(__file__).parents[1])]


@pytest.mark.parametrize("page", PAGES)
def test_links_between_the_documents_lead_somewhere(root, page):
    text = (root / page).read_text(encoding="utf-8")
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert [
        link for link in links if link and not (root / page).parent.joinpath(link).exists()
    ] == []


def test_make_help_lists_the_targets_that_the_readme_names(root):
    done = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, check=True)
    named = set(
        re.findall(
            r"^make ([a-z]+)", (root / "README.md").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert named
    assert [target for target in named if f"make {target} " not in done.stdout] == []


def test_the_checker_runs_as_a_module_without_a_warning():
    command = [sys.executable, "-W", "error", "-m", "holdfast.checker", "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_verbs_are_functions_whatever_was_imported_before():
    script = (
        "import holdfast.presentation.letters, holdfast.presentation.report, holdfast.cli._report\n"
        "import holdfast as hf\nprint(hf.report.__name__, hf.letters.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["report", "letters"]


def test_the_reference_documents_what_is_public_and_nothing_else(root):
    """What `holdfast` and its rooms export; the commands of `holdfast.cli` have a page of their own."""
    rooms = [f"holdfast.{name}" for name in ("checker", "errors")]
    rooms += [
        m.name
        for m in pkgutil.walk_packages(hf.__path__, "holdfast.")
        if m.ispkg and "cli" not in m.name
    ]
    public = {
        id(getattr(importlib.import_module(room), name)): f"{room}.{name}"
        for room in [*rooms, "holdfast"]
        for name in getattr(importlib.import_module(room), "__all__", ())
        if not inspect.ismodule(getattr(importlib.import_module(room), name))
    }
    pages = "\n".join(
        page.read_text(encoding="utf-8") for page in (root / "docs" / "reference").glob("*.md")
    )
    documented = re.findall(
        r"auto(?:class|function|data|exception):: (holdfast[\w.]*)\.(\w+)", pages
    )
    for room in re.findall(r"automodule:: (holdfast[\w.]*)", pages):
        documented += [(room, name) for name in importlib.import_module(room).__all__]
    described = {
        id(getattr(importlib.import_module(room), name)): f"{room}.{name}"
        for room, name in documented
    }
    assert sorted(public[one] for one in public.keys() - described.keys()) == []
    assert sorted(described[one] for one in described.keys() - public.keys()) == []


def test_an_inner_module_is_told_by_its_name():
    """Modules that are no room and not public begin with an underscore."""
    modules = [m.name for m in pkgutil.walk_packages(hf.__path__, "holdfast.") if not m.ispkg]
    inner = [name for name in modules if not name.rpartition(".")[2].startswith("_")]
    assert inner == ["holdfast.checker", "holdfast.errors"]


def test_no_two_classes_share_a_name(root):
    names = [
        node.name
        for path in (root / "src" / "holdfast").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_the_walks_measure_the_package_next_to_the_script(root, tmp_path):
    """Another copy that is installed is not measured, and a walk is never counted as 0 functions."""
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "__init__.py").write_text("raise SystemExit('the other copy')")
    script = (
        f"import runpy; walk = runpy.run_path({str(root / 'bench' / 'house.py')!r})\n"
        "import sys; package = walk['own_package']()\n"
        "print(walk['walked'](lambda: package.Network([[[1.0]]], [[0.0]]))[0] > 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
    )
    assert (done.stdout.strip(), done.stderr) == ("True", "")
    imported = (
        "import sys, types; sys.modules['holdfast'] = types.SimpleNamespace(__file__='/x/y.py')\n"
    )
    done = subprocess.run([sys.executable, "-c", imported + script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "imported /x/y.py" in done.stderr
