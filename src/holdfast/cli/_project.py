"""The project file `holdfast.toml`: what commands take when an option is not typed.

It is read from the working directory. Paths in it are relative to the file, and options override it. It cannot allow
pickles: --trust-pickle remains an option of each command.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.cli._screens import complain
from holdfast.errors import FileFormatError, InvalidInputError

NAME = "holdfast.toml"


@dataclass(frozen=True)
class Key:
    """A key of the file: the kind of its value, what it means, an example and the command that writes its file."""

    kind: str
    comment: str
    example: Any
    written_by: str = ""


# In the order of the file that `holdfast init` writes.
KEYS: dict[str, Key] = {
    "model": Key("file", "The classifier in use.", "model.npz"),
    "data": Key("file", "The people: .csv, .csv.gz or .parquet.", "people.csv"),
    "index": Key("text", "The column of data with the people's keys.", "id"),
    "target": Key("label", "The class that people want.", 1),
    "label": Key("text", "The column of data with the classes, if it has one.", "accepted"),
    "drop": Key("texts", "Columns of data that are neither read nor kept.", ["name"]),
    "threshold": Key(
        "texts", "The decision threshold; several classes: [\"yes=0.3\", ...].", 0.3
    ),
    "candidates": Key("file", "Other people, such as the training table.", "train.csv"),
    "method": Key("text", "How advice is found; `holdfast methods` lists the names.", "closest"),
    "delta": Key("numbers", "How far each parameter of the model may move.", 0.02),
    "margin": Key("number", "Instead of delta, for any model: how far the margin may fall.", 0.5),
    "changes": Key(
        "file", "Instead of delta: the file that delta or risk writes.", "changes.json",
        "holdfast delta",
    ),
    "norm": Key("number", "The norm in which delta is measured: inf, 1 or 2.", math.inf),
    "sender": Key("text", "The sender of the letters.", "Example Bank\nMain Street 1"),
    "subject": Key("text", "The subject of the letters.", "your loan application"),
    "language": Key("text", "The language of the letters: en or de.", "en"),
    "schema": Key(
        "file", "What a person can change. `holdfast schema` writes it; edit it.", "schema.json",
        "holdfast schema",
    ),
    "recourse": Key("file", "`holdfast explain` writes the advice.", "recourse.csv", "holdfast explain"),
    "certificates": Key(
        "file", "`holdfast explain` writes the proofs; `holdfast check` checks them.",
        "certificates.jsonl", "holdfast explain",
    ),
    "letters": Key("file", "The folder of `holdfast letters`.", "letters", "holdfast letters"),
    "ledger": Key(
        "file", "`holdfast ledger add` records the promises; `holdfast audit` reads them.",
        "promises.ledger", "holdfast ledger add",
    ),
    "report": Key("file", "The page of `holdfast report`.", "report.html", "holdfast report"),
}  # fmt: skip
# Keys that `init` always sets, because later commands read what earlier ones wrote.
CHAIN = ("schema", "recourse", "certificates", "letters", "ledger", "report")

_PEOPLE = (
    "model", "data", "index", "target", "drop", "threshold", "schema", "delta", "margin", "changes", "norm",
)  # fmt: skip
_FINDING = (*_PEOPLE, "candidates", "method")


def _same(*keys: str, **others: str) -> dict[str, str]:
    return {key: key for key in keys} | others


# Of each command, which key fills which option or argument. ">" before a key: the command writes that file. "?": the
# option is filled only if the file exists.
USES: dict[str, dict[str, str]] = {
    "schema": _same("model", "data", "index", "drop", "label", out=">schema"),
    "explain": _same(*_FINDING, out=">recourse", certificates=">certificates"),
    "letters": _same(*_PEOPLE, "recourse", "sender", "subject", "language", out=">letters"),
    "report": _same(
        *_PEOPLE, "recourse", out=">report", certificates="?certificates", ledger="?ledger",
        letters="?letters",
    ),
    "ledger add": _same(*_PEOPLE, "recourse", ledger=">ledger"),
    **dict.fromkeys(
        ("ledger show", "ledger head", "ledger verify", "ledger export", "ledger erase"),
        _same("ledger"),
    ),
    "audit": _same("ledger", "threshold"),
    "check": _same("model", "certificates", space="?schema"),
    "certificates": _same(*_PEOPLE, "recourse", out=">certificates"),
    "certify": _same(*_PEOPLE),
    "radius": _same(*_PEOPLE),
    "alternatives": _same(*_FINDING),
    "delta": _same("model", "data", "index", "drop", "label", "norm", schema="?schema", out=">changes"),
    "risk": _same(
        "model", "data", "index", "target", "drop", "threshold", "schema", "candidates", "method", "label",
        out=">changes",
    ),
    "serve": _same(
        "model", "target", "threshold", "schema", "candidates", "method", "delta", "margin", "changes", "norm",
    ),
}  # fmt: skip
# A key is left aside where one of these options was typed.
_GIVES_WAY: dict[str, Collection[str]] = {
    "delta": ("margin", "changes"),
    "margin": ("delta", "changes", "norm", "no_biases"),
    "changes": ("delta", "margin", "norm", "no_biases"),
    "norm": ("margin", "changes"),
}
_HISTORY = {"model": ("history",), "data": ("history",), "label": ("history",)}
_FILLED = "holdfast.project"


@dataclass(frozen=True)
class Project:
    """The values of a project file."""

    path: Path
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Project:
        """The file, each key known and each value of its kind."""
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise FileFormatError(
                f"{path}: expected TOML, got: {error}. `holdfast init --force` writes a new file"
            ) from error
        for key, value in values.items():
            _check(path, key, value)
        kinds = [key for key in ("delta", "margin", "changes") if key in values]
        if len(kinds) > 1:
            raise InvalidInputError(f"{path}: {' and '.join(kinds)} are both set; keep one of them")
        return cls(path, values)

    def place(self, key: str) -> Path:
        """The path that a key names."""
        return self.path.parent / str(self.values[key])

    def names(self, key: str, path: object) -> bool:
        """Whether a key names this path, however it was typed."""
        return (
            isinstance(path, str)
            and key in self.values
            and self.place(key).resolve() == Path(path).resolve()
        )


def _check(path: Path, key: str, value: Any) -> None:
    if key == "trust_pickle":
        raise InvalidInputError(
            f"{path}: trust_pickle cannot be set here, because opening a pickle can run any code in it; delete the "
            "line, and type --trust-pickle with each command"
        )
    if key not in KEYS:
        raise InvalidInputError(
            f"{path}: the key {key!r} is not known; use {', '.join(KEYS)}, or delete the line"
        )
    number = isinstance(value, int | float) and not isinstance(value, bool)
    listed = value if isinstance(value, list) else [value]
    words = all(isinstance(one, str) for one in listed)
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in listed)
    right = {
        "file": isinstance(value, str) and value != "",
        "text": isinstance(value, str) and value != "",
        "label": isinstance(value, str | int | float),
        "texts": listed != [] and (words or number),
        "number": number,
        "numbers": listed != [] and numbers,
    }[KEYS[key].kind]
    if not right:
        raise InvalidInputError(
            f"{path}: {key} must be {_KINDS[KEYS[key].kind]}, such as {key} = {as_toml(KEYS[key].example)}; "
            f"it is {as_toml(value)}"
        )


_KINDS = {
    "file": "a path in quotes",
    "text": "a text in quotes",
    "label": "a text in quotes or a number",
    "texts": "a text in quotes or a list of them",
    "number": "a number",
    "numbers": "a number, or a list with one for each layer",
}


def as_toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if value in (math.inf, -math.inf) else str(value)


def text_of(values: Mapping[str, Any]) -> str:
    """The file with these values; keys without one are comments."""
    lines = [
        "# The project file of holdfast: commands in this folder read it for every option that is not typed.",
        "# Paths are relative to this file. Remove the # before a key to set it.",
    ]
    for name, key in KEYS.items():
        value = values.get(name)
        entry = f"{name} = {as_toml(key.example if value is None else value)}"
        lines += ["", f"# {key.comment}", f"# {entry}" if value is None else entry]
    return "\n".join(lines) + "\n"


def find(ctx: Any) -> Path | None:
    """The project file: what --config names, or the one in the working directory, if there is one."""
    options = ctx.find_root().params
    if options.get("no_config"):
        return None
    path: Path | None = options.get("config")
    if path is None and Path(NAME).is_file():
        path = Path(NAME)
    return path


def _words(ctx: Any) -> str:
    """The command's name below `holdfast`."""
    names = []
    while ctx.parent is not None:
        names.append(ctx.info_name)
        ctx = ctx.parent
    return " ".join(reversed(names))


def knows(ctx: Any, parameter: Any) -> bool:
    """Whether the project file can give this option or argument."""
    return parameter.name in USES.get(_words(ctx), {})


def fill(command: Any, ctx: Any, args: list[str]) -> None:
    """Give the command the file's values as its defaults; what was typed overrides them."""
    uses = USES.get(_words(ctx))
    path = find(ctx) if uses else None
    if path is None or uses is None:
        return
    own = Project.read(path)
    typed = _typed(command, ctx, args)
    gives_way = _GIVES_WAY | (_HISTORY if command.name == "delta" else {})
    if command.name == "explain" and not own.names("recourse", typed.get("out")):
        # `explain --out elsewhere` leaves the project's certificates alone.
        gives_way = gives_way | {"certificates": ("out",)}
    multiple = {
        one.name for one in command.params if getattr(one, "multiple", False) or one.nargs == -1
    }
    defaults = {}
    for name, use in uses.items():
        key = use.lstrip(">?")
        if key not in own.values or name in typed or typed.keys() & set(gives_way.get(key, ())):
            continue
        value = own.values[key]
        if KEYS[key].kind == "file":
            place = own.place(key)
            if not use.startswith(">") and not place.exists():
                if use.startswith("?"):
                    continue
                raise InvalidInputError(_missing(own.path, key, place))
            value = str(place)
        elif KEYS[key].kind in ("label", "texts"):
            value = list(map(str, value)) if isinstance(value, list) else str(value)
        if name in multiple and not isinstance(value, list):
            value = [value]
        defaults[name] = value
    ctx.default_map = defaults
    ctx.meta[_FILLED] = own.path, [uses[name].lstrip(">?") for name in defaults]


def _typed(command: Any, ctx: Any, args: list[str]) -> dict[str, Any]:
    """The parameters that the command line itself gives, and their values."""
    values = command.make_parser(ctx).parse_args(args=list(args))[0]
    kinds = (str, bool, int, list, tuple)
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, kinds) and value not in ([], ())
    }


def _missing(path: Path, key: str, place: Path) -> str:
    first = KEYS[key].written_by
    remedy = f"run `{first}` first" if first else "correct the path"
    return (
        f"{path}: {key} = {as_toml(place.as_posix())} does not exist; {remedy}, or change the line"
    )


def announce(ctx: Any) -> None:
    """One line on stderr: which keys the command took."""
    path, keys = ctx.meta.get(_FILLED, (None, []))
    if keys:
        complain(", ".join(keys), f"from {path}")
