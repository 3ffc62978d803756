"""A language of letters: its templates, ours or the caller's over ours, and how it writes numbers and dates.

Templates run where they can read the letter and nothing else. Numbers and dates are as Babel says, exact where it
matters, and always to be read back.
"""

from __future__ import annotations

import datetime
import re
import shutil
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Context, Decimal, localcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

from babel import Locale, UnknownLocaleError
from babel.dates import format_date
from babel.numbers import format_decimal, format_percent, get_minus_sign_symbol, parse_decimal
from jinja2 import FileSystemLoader, StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from holdfast._files import Place
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.presentation.letters._contents import LetterContents

OURS = Path(__file__).parent / "templates"
FORMATS = ("html", "txt")
WORDS = "words.j2"
# Where English is said without a country, dates are as most of the world writes them: 16 November 2026.
_LOCALES = {"en": "en-001"}
# The words that stand in for values, which every language has to have.
_VALUES = ("about", "yes", "no", "missing")
_CODE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
# What a template's own expressions may raise beside jinja's errors.
_TEMPLATE_FAULTS = (
    TemplateError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
)
_MOST_DECIMALS = 2
_SHORT = Context(prec=3, rounding=ROUND_DOWN)
# The largest float64 has 309 digits before the point.
_EVERY_DIGIT = Context(prec=400)


@dataclass(frozen=True)
class Language:
    """The templates of a language. A file is looked for in the caller's folder, then among ours.

    In each of the two first in the folder of the language, then next to it: ``words.j2`` (every sentence) belongs to a
    language, ``letter.html.j2`` and ``letter.txt.j2`` serve for all.

    Attributes
    ----------
    words
        The macros of its ``words.j2``, of which these stand in for values: `about`, `yes`, `no`, `missing`.

    Examples
    --------
    >>> german = Language.find("de")
    >>> german.number(1750.0), german.number(0.1 + 0.2), german.short(0.1 + 0.2), german.rounded_down(0.0052349)
    ('1.750', '0,30000000000000004', 'etwa 0,3', '0,00523')
    >>> german.read("1.750,5"), german.day(datetime.date(2027, 1, 31))
    (1750.5, '31. Januar 2027')
    """

    code: str
    locale: Locale
    words: Any = field(repr=False, compare=False)
    _environments: dict[str, ImmutableSandboxedEnvironment] = field(repr=False, compare=False)

    @classmethod
    def find(cls, language: str, folder: Place | None = None) -> Language:
        """The templates of a language; those in the caller's folder come before ours."""
        if not isinstance(language, str) or not _CODE.fullmatch(language):
            raise InvalidInputError(f"language: expected a code such as 'en', got {language!r}")
        roots = [OURS]
        if folder is not None:
            own = Path(folder)
            if not any(own.glob("*.j2")) and not any(own.glob("*/*.j2")):
                raise InvalidInputError(
                    f"templates: expected a folder with templates, got {str(own)!r} without any"
                )
            roots.insert(0, own)
        if not any((root / language / WORDS).is_file() for root in roots):
            known = sorted({file.parent.name for root in roots for file in root.glob(f"*/{WORDS}")})
            raise InvalidInputError(
                f"language: expected one of {known}, or a folder {language} with {WORDS} in templates, got {language!r}"
            )
        try:
            locale = Locale.parse(_LOCALES.get(language, language), sep="-")
        except (UnknownLocaleError, ValueError) as error:
            raise InvalidInputError(
                f"language: expected one that Babel knows, got {language!r}: {error}"
            ) from error
        places = tuple(place for root in roots for place in (root / language, root))
        make = _environment if folder is None else _environment.__wrapped__
        environments = {kind: make(places, kind) for kind in FORMATS}
        return cls(language, locale, _words(environments["txt"]), environments)

    def render(self, kind: str, contents: LetterContents) -> str:
        """The letter as "html" or "txt"."""
        name = f"letter.{kind}.j2"
        try:
            return self._environments[kind].get_template(name).render(letter=contents)
        except _TEMPLATE_FAULTS as error:
            raise FileFormatError(
                f"{_where(error, name)}: expected a template that can be filled in, got: {error}"
            ) from error

    def number(self, value: float, *, percent: bool = False) -> str:
        """The number with as many digits as it takes to read back the same float64; or in percent."""
        # Without the sign of a zero.
        exact = Decimal(repr(float(value) + 0.0))
        with localcontext(_EVERY_DIGIT):
            if percent:
                return format_percent(
                    exact.scaleb(-2), locale=self.locale, decimal_quantization=False
                )
            return format_decimal(exact, locale=self.locale, decimal_quantization=False)

    def read(self, text: str) -> float:
        """The number that `number` wrote."""
        plain = text.replace(get_minus_sign_symbol(self.locale), "-").rstrip("%\xa0\u202f ")
        return float(parse_decimal(plain, locale=self.locale))

    def short(self, value: float, *, percent: bool = False) -> str:
        """The number for people: long fractions are shortened, and marked as such."""
        shortened = (
            round(value, _MOST_DECIMALS)
            if abs(value) >= 0.1
            else float(f"{value:.{_MOST_DECIMALS}g}")
        )
        text = self.number(shortened, percent=percent)
        return text if shortened == value else str(self.words.about(text))

    def rounded_down(self, value: float, *, percent: bool = False) -> str:
        """At most three digits, never more than the number itself."""
        return self.number(float(_SHORT.create_decimal(repr(value))), percent=percent)

    def day(self, date: datetime.date) -> str:
        """A date in words."""
        return format_date(date, "long", locale=self.locale)


def write_templates(folder: Place) -> list[Path]:
    """Copy our templates into a folder, to be edited and given as ``templates=``; nothing is overwritten.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in write_templates(folder))
    ['letter.html.j2', 'letter.txt.j2', 'words.j2', 'words.j2']
    """
    target = Path(folder)
    files = sorted(path.relative_to(OURS) for path in OURS.rglob("*") if path.suffix == ".j2")
    there = [str(target / file) for file in files if (target / file).exists()]
    if there:
        raise InvalidInputError(
            f"templates: expected a folder without them, got {there[0]!r}, which is there already"
        )
    try:
        for file in files:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(OURS / file, target / file)
    except OSError as error:
        raise InvalidInputError(
            f"templates: expected a folder that can be written, got: {error}"
        ) from error
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


def _words(environment: ImmutableSandboxedEnvironment) -> object:
    """The macros of the language."""
    try:
        words = environment.get_template(WORDS).module
    except _TEMPLATE_FAULTS as error:
        raise FileFormatError(
            f"{_where(error, WORDS)}: expected the words of a letter, got: {error}"
        ) from error
    unsaid = [name for name in _VALUES if not hasattr(words, name)]
    if unsaid:
        raise FileFormatError(
            f"{WORDS}: expected a macro for each of {', '.join(_VALUES)}, got none for {unsaid[0]}"
        )
    return words


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
