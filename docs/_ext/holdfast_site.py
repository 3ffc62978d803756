"""What the site computes when it is built: the commands' reference, formulas as written, accessible pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from holdfast.cli import app as holdfast_commands

CLI_PAGE = "reference/cli"
# Stands for a colon while napoleon looks, which takes what is before a property's first colon for its type.
COLON = "\ue000"
# What the theme and Sphinx write, and the same for people who read with a keyboard or a screen reader.
ACCESSIBLE = {
    r'role="heading">': 'role="heading" aria-level="2">',
    r'<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    r'<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    r"<pre>": '<pre tabindex="0">',
    r'<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    # The parameters of a signature, one a line, are no list of definitions.
    r'<dd>(<em class="sig-param">.*)</dd>$': r'<span class="line">\1</span>',
    r'<dl>(\n(?:<span class="line"><em class="sig-param">.*\n)+)</dl>': r'<span class="lines">\1</span>',
}


# Typer brings a copy of click in some versions and uses the package in others, so its commands go untyped here.
def command_pages(command: Any, words: tuple[str, ...], level: int = 2) -> Iterator[str]:
    """The command and those below it, as Markdown."""
    yield f"{'#' * level} {' '.join(words)}\n\n{(command.help or '').strip()}\n"
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from command_pages(below, (*words, name), level + 1)
        return
    context = command.make_context(" ".join(words), [], resilient_parsing=True)
    yield f"```text\n{' '.join([*words, *command.collect_usage_pieces(context)])}\n```\n"
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [f"| `{cell(name)}` | {cell(text)} |\n" for name, text in filter(None, records)]
    yield "| option | what |\n|---|---|\n" + "".join(rows)


def cell(text: str) -> str:
    """Text that stays in its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def fill_page(_: Sphinx, docname: str, source: list[str]) -> None:
    """Put the commands below what the page says."""
    if docname == CLI_PAGE:
        commands: Any = typer.main.get_command(holdfast_commands)
        for name, command in commands.commands.items():
            source[0] += "\n" + "\n".join(command_pages(command, ("holdfast", name)))


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
    """And here it is again."""
    lines[:] = [line.replace(COLON, ":") for line in lines]


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


def draw_dashes(_: Sphinx, doctree: nodes.document) -> None:
    """A dash between a parameter's name and its description; all other hyphens stay as typed."""
    for node in list(doctree.findall(nodes.Text)):
        if node.startswith(" -- "):
            node.parent.replace(node, nodes.Text(" –" + node[3:]))


def _short(text: str) -> str:
    text = text.replace("= NOTHING", "= {}")
    text = re.sub(r"TypeAliasForwardRef\('([^']+)'\)", r"\1", text)
    array = r"~?(?:numpy\.)?ndarray\[tuple\[~?(?:typing\.)?Any, \.\.\.\], ~?(?:numpy\.)?dtype\[~?(?:[a-z]+\.)?(\w+)\]\]"
    return re.sub(array, r"ndarray[\1]", text)


def _inside_formula(lines: list[str]) -> bool:
    """Whether the last line with something on it is indented already."""
    last = next((line for line in reversed(lines) if line), "")
    return last.startswith("    ")


def make_accessible(app: Sphinx, failure: Exception | None) -> None:
    """Mend the pages that were written."""
    if failure is not None or app.builder.format != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        mended = text
        for written, better in ACCESSIBLE.items():
            mended = re.sub(written, better, mended, flags=re.MULTILINE)
        if mended != text:
            page.write_text(mended, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Hook in."""
    app.connect("source-read", fill_page)
    # Before napoleon turns sections into field lists, which are indented as well.
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("doctree-read", shorten_properties)
    app.connect("doctree-read", draw_dashes)
    app.connect("autodoc-process-docstring", keep_formulas, priority=400)
    app.connect("autodoc-process-docstring", hide_colons, priority=410)
    app.connect("autodoc-process-docstring", show_colons, priority=600)
    app.connect("build-finished", make_accessible)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
