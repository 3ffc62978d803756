"""What the site computes when it is built.

The reference of the commands, the table of public names, formulas in docstrings as written, and pages that screen
readers and keyboards can use.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from holdfast.cli import app as holdfast_commands

CLI_PAGE, INDEX_PAGE = "reference/cli", "reference/index"
# Replaces a colon while napoleon looks, which takes the text before a property's first colon for its type.
COLON = "\ue000"
# Members that only the packages of holdfast call, by the class that has them; "" is any class.
INNER = {
    "": "overview facts of_facts every_model in_words propose harder example_table check_numbers",
    "PlausibleChanges": "balls dual_norm least layer_radii scaled",
    "Ellipsoid": "exponents balanced least_eigenvalue square check moved",
    "TreeChanges": "leaf_radii threshold_radii",
    "Changes": "digest policy moving bare measured words",
    "Certificates": "stages",
    "FeatureSpace": "numbers encode_numbers restore check_points rows points rows_beside settle settled_points "
    "project nearest_numbers bound_rules lower upper groups partial_groups grids weights rule_rows bounds_for "
    "unprotected as_frame changed reason",
    "RNCE": "prepare",
    "Rule": "normal names explain",
    "Schema": "notes features encoded",
    "Network": "tie rectified",
    "TreeEnsemble": "forest sums matrix row reads_like with_forest behind at moved",
    "RetrainedModels": "made caveats today",
    "Recourse": "judged answered answer first people against verdict_names classifier",
    "Ledger": "end add_answered",
    "Terms": "objects read",
    "Promises": "of",
    "Group": "merged",
    "Expiry": "known limited through",
    "CertifiedCandidates": "check",
    "RecourseReason": "read bare",
    "BatchFunction": "coded",
    "Survival": "joined",
}
SHOWN = {"Generator": "propose harder example_table check_numbers"}


# Typer brings a copy of click in some versions and uses the package in others, so its commands go untyped here.
def command_pages(command: Any, words: tuple[str, ...], level: int = 2) -> Iterator[str]:
    """The command and those below it, as Markdown."""
    yield f"{'#' * level} {' '.join(words)}\n"
    yield from paragraphs(command.help or "")
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from command_pages(below, (*words, name), level + 1)
        return
    context = command.make_context(" ".join(words), [], resilient_parsing=True)
    yield f"```text\n{' '.join([*words, *command.collect_usage_pieces(context)])}\n```\n"
    groups: dict[str, list[str]] = {}
    for parameter in command.get_params(context):
        if record := parameter.get_help_record(context):
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            heading = "Required" if parameter.required else panel
            groups.setdefault(heading, []).append(
                f"| `{cell(record[0])}` | {options(cell(record[1]))} |\n"
            )
    for heading in sorted(groups, key=lambda name: name != "Required"):
        yield f"| {heading} | |\n|---|---|\n" + "".join(groups[heading])


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a command's help; one that begins with "$ " is an example."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.lstrip().startswith("$ "):
            yield f"```sh\n{paragraph.strip().removeprefix('$ ')}\n```\n"
        else:
            yield options(paragraph) + "\n"


def cell(text: str) -> str:
    """Text that stays in its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def options(text: str) -> str:
    """Names of options as code, except where the text has code already."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"(?<![\w-])--[a-z][a-z-]*", r"`\g<0>`", part) for part in parts[::2]]
    joined = "`".join(parts)
    # Two codes that touch would be read as one with two marks.
    return joined.replace("``", "` `")


def public_names(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Each documented name with the first sentence of its docstring, and its page, in the order of the index."""
    pages = re.findall(
        r"^[a-z-]+$", (folder / "index.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    for page in pages:
        text = (folder / f"{page}.md").read_text(encoding="utf-8")
        for kind, name in re.findall(r"^\.\. auto(\w+):: ([\w.]+)$", text, re.MULTILINE):
            if kind == "module":
                module = importlib.import_module(name)
                yield name, summary(module), page
                yield from (
                    (f"{name}.{one}", summary(getattr(module, one)), page) for one in module.__all__
                )
            else:
                module_name, _, own = name.rpartition(".")
                yield name, summary(getattr(importlib.import_module(module_name), own)), page


def summary(described: object) -> str:
    """The first sentence of a docstring."""
    if not (callable(described) or inspect.ismodule(described)):
        return ""
    first = inspect.cleandoc(described.__doc__ or "").split("\n\n")[0]
    return cell(re.split(r"(?<=\.)\s+(?=[A-Z`])", first)[0].replace("``", "`"))


def index_table(folder: Path) -> str:
    """The table of all public names."""
    titles = {
        page.stem: page.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
        for page in folder.glob("*.md")
    }
    rows = [
        f"| {{py:obj}}`{name.removeprefix('holdfast.')} <{name}>` | {text} | [{titles[page]}]({page}.md) |\n"
        for name, text, page in public_names(folder)
    ]
    return "\n| name | what it is | page |\n|---|---|---|\n" + "".join(rows)


def fill_page(site: Sphinx, docname: str, source: list[str]) -> None:
    """Add the commands and the table of names to their pages."""
    if docname == CLI_PAGE:
        commands: Any = typer.main.get_command(holdfast_commands)
        source[0] += "\n| command | what it does |\n|---|---|\n"
        for name, command in commands.commands.items():
            first = paragraphs(command.help or "").__next__()
            source[0] += f"| [`holdfast {name}`](#holdfast-{name}) | {cell(first)} |\n"
        for name, command in commands.commands.items():
            source[0] += "\n" + "\n".join(command_pages(command, ("holdfast", name)))
    if docname == INDEX_PAGE:
        source[0] += index_table(Path(site.srcdir) / "reference")


def skip_inner(
    _: Sphinx, kind: str, name: str, member: Any, _skip: bool, _options: object
) -> bool | None:
    """Leave out members that only the packages of holdfast call."""
    if kind != "class":
        return None
    function = getattr(member, "fget", None) or getattr(member, "func", None) or member
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    hidden = f"{INNER['']} {INNER.get(owner, '')}".split()
    return True if name in hidden and name not in SHOWN.get(owner, "").split() else None


def make_accessible(site: Sphinx, error: Exception | None) -> None:
    """Put into the written pages what screen readers and keyboards need and the theme leaves out."""
    if error is None and site.builder.format == "html":
        for page in Path(site.outdir).rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            if (changed := accessible(text)) != text:
                page.write_text(changed, encoding="utf-8")


def accessible(page: str) -> str:
    """The page with levels of headings, names of landmarks, and code and tables that a keyboard can scroll."""
    for old, new in (
        ('role="heading">', 'role="heading" aria-level="2">'),
        ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Pages">'),
        ('<aside class="toc-drawer">', '<aside class="toc-drawer" aria-label="On this page">'),
        ("<pre>", '<pre tabindex="0">'),
        ('<div id="search-results"></div>', '<h1>Search</h1>\n<div id="search-results"></div>'),
    ):
        if new not in page:
            page = page.replace(old, new)
    page = re.sub(r'<div class="(table-wrapper[^"]*)">', r'<div class="\1" tabindex="0">', page)
    page = re.sub(r"<th( class=\"[^\"]*\")?><p></p></th>", r"<td\1></td>", page)
    # A signature of several lines is no list of definitions.
    return re.sub(r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>", _signature, page)


def _signature(found: re.Match[str]) -> str:
    lines = found[1].replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")
    return f'<span class="sig-lines">\n{lines}</span>'


def keep_formulas(
    _: Sphinx, _kind: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """An indented paragraph before a docstring's first section is a formula or a table: its lines stay as they are."""
    underline = next(
        (i for i, line in enumerate(lines) if line and not line.strip("-")), len(lines) + 1
    )
    text, rest = lines[: underline - 1], lines[underline - 1 :]
    kept: list[str] = []
    for line in text:
        if line.startswith("    ") and (not kept or not kept[-1]) and not _inside_formula(kept):
            kept += ["::", ""]
        kept.append(line)
    lines[:] = kept + rest


def hide_colons(
    _: Sphinx, kind: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """A property's first sentence may have a colon in it."""
    if kind in ("property", "attribute", "data"):
        lines[:] = [line.replace(":", COLON) for line in lines]


def show_colons(
    _: Sphinx, _kind: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Put the colons back, and a dash for the two hyphens that napoleon writes."""
    lines[:] = [line.replace(COLON, ":").replace(" -- ", " – ") for line in lines]


def shorten_types(
    _: Sphinx,
    _kind: str,
    _name: str,
    _object: object,
    _options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Arrays and our own names for types as a reader would write them."""
    return tuple(None if text is None else _short(text) for text in (signature, returns))


def shorten_properties(_: Sphinx, doctree: nodes.document) -> None:
    """The same for the types of properties, which no event of autodoc gets to see."""
    for node in doctree.findall(addnodes.desc_annotation):
        if (short := _short(node.astext())) != node.astext():
            node.children = [nodes.Text(short)]


def _short(text: str) -> str:
    text = text.replace("= NOTHING", "= {}")
    text = re.sub(r"TypeAliasForwardRef\('([^']+)'\)", r"\1", text)
    array = r"~?(?:numpy\.)?ndarray\[tuple\[~?(?:typing\.)?Any, \.\.\.\], ~?(?:numpy\.)?dtype\[~?(?:[a-z]+\.)?(\w+)\]\]"
    return re.sub(array, r"ndarray[\1]", text)


def _inside_formula(lines: list[str]) -> bool:
    """Whether the last line with something on it is indented already."""
    last = next((line for line in reversed(lines) if line), "")
    return last.startswith("    ")


def setup(app: Sphinx) -> dict[str, bool]:
    """Hook in."""
    app.connect("source-read", fill_page)
    app.connect("autodoc-skip-member", skip_inner)
    app.connect("build-finished", make_accessible)
    # Before napoleon turns sections into field lists, which are indented as well.
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("doctree-read", shorten_properties)
    app.connect("autodoc-process-docstring", keep_formulas, priority=400)
    app.connect("autodoc-process-docstring", hide_colons, priority=410)
    app.connect("autodoc-process-docstring", show_colons, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
