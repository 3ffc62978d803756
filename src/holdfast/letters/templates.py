"""Templates: ours, the caller's over ours, run where they can read the letter and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.letters.contents import Contents
from holdfast.letters.language import Language

OURS = Path(__file__).parent / "templates"
FORMATS = ("html", "txt")
_FORMAT_FILE = "format.json"
_CODE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
# What a template's own expressions may raise beside jinja's errors.
_TEMPLATE_FAULTS = (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Templates:
    """The templates of a language. A file is looked for in the caller's folder, then among ours.

    In each of the two first in the folder of the language, then beside it: ``words.j2`` (every sentence) and
    ``format.json`` (numbers and dates) belong to a language, ``letter.html.j2`` and ``letter.txt.j2`` serve for all.

    Examples
    --------
    >>> Templates.find("de").language.number(1750.5)
    '1.750,5'
    """

    code: str
    language: Language
    _environments: dict[str, ImmutableSandboxedEnvironment] = field(repr=False, compare=False)

    @classmethod
    def find(cls, language: str, folder: str | os.PathLike[str] | None = None) -> Templates:
        """The templates of a language, with those in the caller's folder in the place of ours."""
        if not isinstance(language, str) or not _CODE.fullmatch(language):
            raise InvalidInputError(f"language: expected a code such as 'en', got {language!r}")
        roots = [OURS]
        if folder is not None:
            own = Path(folder)
            if not any(own.glob("*.j2")) and not any(own.glob("*/*.j2")) and not any(own.glob(f"*/{_FORMAT_FILE}")):
                raise InvalidInputError(f"templates: expected a folder with templates, got {str(own)!r} without any")
            roots.insert(0, own)
        places = [place for root in roots for place in (root / language, root)]
        make = _environment if folder is None else _environment.__wrapped__
        environments = {kind: make(tuple(places), kind) for kind in FORMATS}
        return cls(language, _read_format(language, places), environments)

    def render(self, kind: str, contents: Contents) -> str:
        """The letter as "html" or "txt"."""
        name = f"letter.{kind}.j2"
        try:
            return self._environments[kind].get_template(name).render(letter=contents)
        except _TEMPLATE_FAULTS as error:
            raise FileFormatError(
                f"{_where(error, name)}: expected a template that can be filled in, got: {error}"
            ) from error


def write_templates(folder: str | os.PathLike[str]) -> list[Path]:
    """Copy our templates into a folder, to be edited and given as ``templates=``; nothing is overwritten.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in write_templates(folder))
    ['format.json', 'format.json', 'letter.html.j2', 'letter.txt.j2', 'words.j2', 'words.j2']
    """
    target = Path(folder)
    files = sorted(path.relative_to(OURS) for path in OURS.rglob("*") if path.suffix in (".j2", ".json"))
    there = [str(target / file) for file in files if (target / file).exists()]
    if there:
        raise InvalidInputError(f"templates: expected a folder without them, got {there[0]!r}, which is there already")
    try:
        for file in files:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(OURS / file, target / file)
    except OSError as error:
        raise InvalidInputError(f"templates: expected a folder that can be written, got: {error}") from error
    return [target / file for file in files]


@lru_cache
def _environment(places: tuple[Path, ...], kind: str) -> ImmutableSandboxedEnvironment:
    """Where templates of a format run; ours are kept, as compiling them takes longer than filling them in."""
    return ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(places),
        undefined=StrictUndefined,
        # By format, not by file name: what words.j2 makes for the page is escaped, for the text it is not.
        autoescape=kind == "html",
        keep_trailing_newline=True,
    )


def _read_format(language: str, places: list[Path]) -> Language:
    path = next((place / _FORMAT_FILE for place in places if (place / _FORMAT_FILE).is_file()), None)
    if path is None:
        known = sorted({file.parent.name for place in places for file in place.glob(f"*/{_FORMAT_FILE}")})
        raise InvalidInputError(
            f"language: expected one of {known}, or a folder {language} with words.j2 and {_FORMAT_FILE} in templates, "
            f"got {language!r}"
        )
    try:
        said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        texts = {key: said[key] for key in ("decimal", "thousands", "percent", "about", "yes", "no", "date")}
        texts |= {"missing": said["missing"]} if "missing" in said else {}
        if not all(isinstance(text, str) for text in (*texts.values(), *said["months"])):
            raise ValueError("expected texts")
        return Language(months=tuple(said["months"]), **texts)
    except (OSError, KeyError, TypeError, ValueError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise FileFormatError(f"{path}: expected the format of numbers and dates, got: {what}") from error


def _where(error: BaseException, name: str) -> str:
    """The file and the line of a template that an error came from."""
    if isinstance(error, TemplateSyntaxError):
        return f"{error.filename or error.name or name}, line {error.lineno}"
    place, trace = name, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        place = f"{file}, line {trace.tb_lineno}" if file.endswith(".j2") else place
        trace = trace.tb_next
    return place
