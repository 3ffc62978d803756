"""The help of every command: what it needs first, then options in groups, at most 100 characters wide.

Options are in the groups, and in the order, of the table `GROUPS`; a line breaks between words.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from holdfast.cli import _project as project
from holdfast.cli._options import GROUPS, plain_errors

REQUIRED = "Required"
# The beginning of an example in a command's docstring.
EXAMPLE = "$ "
# The groups of commands in `holdfast --help`.
COMMANDS = {
    "Every day": ("schema", "explain", "letters", "report", "ledger", "audit", "check"),
    "At the start": ("init", "delta", "risk"),
    "Also": ("alternatives", "certify", "radius", "certificates", "methods", "serve"),
    "Research": ("benchmark", "datasets", "demo"),
}
_HEADING = {name: heading for heading, names in COMMANDS.items() for name in names}
_WIDEST = 100
# Options up to this wide have their help next to them.
_LEFT = 27


class Command(TyperCommand):
    """A command that reads the project file, reports errors in one line and shows its help in groups."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take from the project file what was not typed."""
        if not (ctx.resilient_parsing or set(args) & set(ctx.help_option_names)):
            with plain_errors(_debug(ctx)):
                project.fill(self, ctx, args)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run it; a user's error is one line."""
        with plain_errors(_debug(ctx), {str(one.name) for one in self.params}):
            project.announce(ctx)
            return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments as help names them."""
        arguments = [one for one in self.params if one.param_type_name == "argument"]
        options = any(one.param_type_name == "option" for one in self.params)
        names = [_left(one) if one.required else f"[{_left(one)}]" for one in arguments]
        return [*(["[OPTIONS]"] if options else []), *names]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Usage, purpose, example, options."""
        formatter.write("\n".join(_command_lines(self, ctx, _width())) + "\n")


class CommandGroup(TyperGroup):
    """Commands by purpose."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the table `COMMANDS`."""
        order = list(_HEADING)
        names: list[str] = super().list_commands(ctx)
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Usage, purpose, commands, options."""
        formatter.write("\n".join(_group_lines(self, ctx, _width())) + "\n")


def _debug(ctx: Any) -> bool:
    return bool(ctx.find_root().params.get("debug"))


def _width() -> int:
    return min(shutil.get_terminal_size().columns, _WIDEST)


def _command_lines(command: Any, ctx: Any, width: int) -> Iterator[str]:
    yield from _opening(command, ctx, width)
    groups: dict[str, list[Any]] = {}
    repeated = False
    for one in command.get_params(ctx):
        if one.name == "help":
            continue
        heading = REQUIRED if one.required else one.rich_help_panel or GROUPS[-1][0]
        groups.setdefault(heading, []).append(one)
        repeated |= _repeats(one)
    names = [REQUIRED, *(name for name, _ in GROUPS)]
    for name in sorted(groups, key=lambda name: names.index(name) if name in names else -1):
        known = [one for one in groups[name] if name == REQUIRED and project.knows(ctx, one)]
        whole = len(known) == len(groups[name])
        yield ""
        yield typer.style(f"{name}, here or in holdfast.toml" if whole else name, bold=True)
        for one in groups[name]:
            elsewhere = " [or in holdfast.toml]" if one in known and not whole else ""
            yield from _entry(_left(one), _right(one) + elsewhere, width)
    if repeated:
        yield ""
        yield "An option with ... can be repeated."


def _group_lines(group: Any, ctx: Any, width: int) -> Iterator[str]:
    yield from _opening(group, ctx, width)
    panels: dict[str, list[Any]] = {}
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        heading = _HEADING.get(name, "Commands") if ctx.parent is None else "Commands"
        panels.setdefault(heading, []).append((name, command))
    longest = max(len(name) for entries in panels.values() for name, _ in entries)
    for heading, entries in panels.items():
        yield ""
        yield typer.style(heading, bold=True)
        for name, command in entries:
            summary = (command.help or "").split("\n\n")[0]
            yield from _entry(name, " ".join(summary.split()), width, longest)
    yield ""
    yield typer.style("Options", bold=True)
    for one in group.get_params(ctx):
        yield from _entry(_left(one), _right(one), width, max(longest, _LEFT - 8))


def _opening(command: Any, ctx: Any, width: int) -> Iterator[str]:
    """The usage, and the paragraphs of the command's help; the lines of an example stay as they are."""
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    yield from _wrapped(f"Usage: {usage}", width, "", "    ")
    for paragraph in (command.help or "").split("\n\n"):
        yield ""
        if paragraph.lstrip().startswith(EXAMPLE):
            yield from _example(paragraph, width)
        else:
            yield from _wrapped(paragraph, width)


def _example(text: str, width: int) -> Iterator[str]:
    """A command to copy: its lines break before options."""
    first, *options = " ".join(text.replace("\\\n", " ").split()).split(" --")
    line = f"  {first}"
    for option in options:
        if len(line) + len(option) + 5 > width:
            yield f"{line} \\"
            line = "     "
        line += f" --{option}"
    yield line


def _entry(left: str, right: str, width: int, column: int = _LEFT) -> Iterator[str]:
    start = " " * (column + 4)
    lines = list(_wrapped(right, width, start, start))
    if len(left) > column or not lines:
        yield f"  {left}"
    else:
        yield f"  {left:{column}}  {lines.pop(0).strip()}"
    yield from lines


def _wrapped(text: str, width: int, first: str = "", later: str = "") -> Iterable[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=later, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _repeats(one: Any) -> bool:
    return bool(getattr(one, "multiple", False) or one.nargs == -1)


def _left(one: Any) -> str:
    dots = "..." if _repeats(one) else ""
    if one.param_type_name == "argument":
        return f"{one.metavar or str(one.name).upper()}{dots}"
    words = ", ".join(one.opts)
    return words if one.is_flag else f"{words} {one.metavar or 'TEXT'}{dots}"


def _right(one: Any) -> str:
    """The help of an option, with its default."""
    text = " ".join((getattr(one, "help", None) or "").split())
    default = one.default
    shown = isinstance(default, str | int | float | Path) and default not in (False, "")
    if one.required or not shown or not one.show_default:
        return text
    return f"{text} [default: {f'{default:g}' if isinstance(default, float) else default}]"
