"""Notes about columns: protected attributes, names for people, reason codes, undecided columns, change with time.

Notes change no point, no constraint and no cost. They are part of a space and of its file, but not of the hash that
certificates and ledgers name it by (`holdfast.checker.space_sha256`): a label added later makes nothing incomparable.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from holdfast._files import Document, Facts
from holdfast.errors import InvalidInputError
from holdfast.features._constraints import NOTHING, Names, as_mapping, as_names
from holdfast.features._feature import Feature
from holdfast.features._kinds import Label, Name

# One text, or one for each language: {"en": "card use", "de": "Kartennutzung"}.
Text = str | Mapping[str, str]


class ReasonCode(NamedTuple):
    """An adverse-action reason: the code that a lender reports, and its text."""

    code: str
    text: str


@dataclass(frozen=True)
class Notes:
    """Notes about columns; they may be no features.

    Parameters
    ----------
    protected
        The protected columns.
    said
        By column, as a file has it: "label", "words" (of its values and of its unit), "reason" and "with_time".
    undecided
        The columns for which the caller stated no direction: they are free, or have the direction of their name.

    Examples
    --------
    >>> labels = {"util": {"en": "card use", "de": "Kartennutzung"}, ("home", "A151"): "rented"}
    >>> notes = Notes.of(protected="sex", labels=labels, reasons={"util": ("38", "Cards used too much")})
    >>> notes.protected, notes.label("util"), notes.label("util", "de"), notes.label("age")
    (('sex',), 'card use', 'Kartennutzung', 'age')
    >>> notes.word("home", "A151"), notes.reason("util")
    ('rented', ReasonCode(code='38', text='Cards used too much'))
    >>> Notes.from_list(notes.to_list()) == notes
    True
    """

    protected: tuple[Name, ...] = ()
    said: Mapping[Name, Facts] = field(default_factory=dict, hash=False)
    undecided: tuple[Name, ...] = field(default=(), compare=False)

    @classmethod
    def of(
        cls,
        protected: Names = (),
        labels: Mapping[Any, Text] = NOTHING,
        reasons: Mapping[Name, Any] = NOTHING,
        with_time: Names = (),
    ) -> Notes:
        """Notes from the keywords of a space, checked."""
        entries: dict[Name, Document] = defaultdict(dict)
        for name in as_names(protected, "protected"):
            entries[name]["protected"] = True
        for called, text in as_mapping(labels, "labels").items():
            if not isinstance(called, tuple):
                entries[called]["label"] = text
            elif len(called) == 2:
                # A value goes by its text: so it stands in a file.
                entries[called[0]].setdefault("words", {})[str(called[1])] = text
            else:
                raise InvalidInputError(
                    f"labels: expected a column, or a column and a value of it, got {called!r}"
                )
        for name, reason in as_mapping(reasons, "reasons").items():
            entries[name]["reason"] = reason
        for name in as_names(with_time, "with_time"):
            entries[name]["with_time"] = True
        return cls.from_list({"name": name, **entry} for name, entry in entries.items())

    @classmethod
    def from_list(cls, entries: Iterable[Facts]) -> Notes:
        """Notes from entries with a "name", and perhaps other keys: "protected", "undecided", those of `said`."""
        protected: list[Name] = []
        undecided: list[Name] = []
        said: dict[Name, Document] = {}
        for entry in entries:
            name = entry["name"]
            for key in ("protected", "with_time"):
                if not isinstance(entry.get(key, False), bool):
                    raise InvalidInputError(
                        f"column {name!r}: expected true or false for {key!r}, got {entry[key]!r}"
                    )
            flag = entry.get("protected", False)
            if flag and (isinstance(name, bool) or not isinstance(name, str | int)):
                raise InvalidInputError(f"protected: expected column names, got {name!r}")
            protected += [name] if flag else []
            undecided += [name] if entry.get("undecided") is True else []
            about: Document = {}
            if "label" in entry:
                about["label"] = _text(entry["label"], f"labels[{name!r}]")
            if entry.get("words"):
                words = dict(entry["words"]).items()
                about["words"] = {
                    value: _text(text, f"labels[{(name, value)!r}]") for value, text in words
                }
            if "reason" in entry:
                about["reason"] = _reason(entry["reason"], f"reasons[{name!r}]")
            if "with_time" in entry:
                about["with_time"] = entry["with_time"]
            said |= {name: about} if about else {}
        return cls(tuple(protected), said, tuple(undecided))

    def to_list(self) -> list[Document]:
        """One JSON-able entry for each column with a note."""
        entries: dict[Name, Document] = {
            name: {"name": name, "protected": True} for name in self.protected
        }
        for name, about in self.said.items():
            entries[name] = {"name": name, **entries.get(name, {}), **about}
        for name in self.undecided:
            entries[name] = {"name": name, **entries.get(name, {}), "undecided": True}
        return list(entries.values())

    def updated(self, other: Notes) -> Notes:
        """These notes, and the other's on top of them."""
        said = {name: dict(about) for name, about in self.said.items()}
        for name, about in other.said.items():
            own = said.setdefault(name, {})
            words = {**own.get("words", {}), **about.get("words", {})}
            own |= {**about, **({"words": words} if words else {})}
        protected = tuple(dict.fromkeys((*self.protected, *other.protected)))
        return Notes(protected, said, self.undecided)

    def decided(self, names: Collection[Name]) -> Notes:
        """These notes, once a direction was stated for these columns."""
        left = tuple(name for name in self.undecided if name not in names)
        return replace(self, undecided=left)

    def check(self, features: Iterable[Feature]) -> None:
        """Refuse words for values that a column does not have, and the same words for two columns or two values."""
        owners = {feature.name: feature for feature in features}
        labels = {name: about["label"] for name, about in self.said.items() if "label" in about}
        if labels:
            columns = {name: str(name) for name in (*owners, *self.protected, *self.said)}
            _refuse_twice(columns | labels, "column")
        for name, about in self.said.items():
            words = about.get("words", {})
            if not words or name not in owners:
                continue
            feature = owners[name]
            values = [*map(str, feature.categories), *([feature.unit] if feature.unit else [])]
            for value in words:
                if value not in values:
                    raise InvalidInputError(
                        f"labels[{(name, value)!r}]: expected a value of the column or its unit, one of {values}, "
                        f"got {value!r}"
                    )
            _refuse_twice(
                {value: words.get(value, value) for value in values}, f"value of {name!r}"
            )

    def label(self, name: Name, language: str = "en") -> str:
        """The name that people use for the column; by default its own name."""
        return _spoken(self.said.get(name, {}).get("label", str(name)), language)

    def word(self, name: Name, value: Label, language: str = "en") -> str:
        """The words that people use for a value of the column, or for its unit; by default itself."""
        return _spoken(
            self.said.get(name, {}).get("words", {}).get(str(value), str(value)), language
        )

    def reason(self, name: Name, language: str = "en") -> ReasonCode | None:
        """The column's adverse-action reason."""
        given = self.said.get(name, {}).get("reason")
        return (
            None if given is None else ReasonCode(given["code"], _spoken(given["text"], language))
        )

    def with_time(self, name: Name) -> bool | None:
        """Whether the column changes by itself as time passes; None: not stated."""
        flag: bool | None = self.said.get(name, {}).get("with_time")
        return flag

    def unspoken(self, name: Name, values: Iterable[Label], language: str) -> list[str]:
        """What a column has no text for in this language: "label", "reason", and these of its values or its unit."""
        about = self.said.get(name, {})
        words = about.get("words", {})
        texts = {"label": about.get("label")} | {
            str(value): words.get(str(value)) for value in values
        }
        if "reason" in about:
            texts["reason"] = about["reason"]["text"]
        codes = {language, language.split("-")[0]}
        return [
            what
            for what, text in texts.items()
            if not isinstance(text, Mapping) or codes.isdisjoint(text)
        ]

    def __bool__(self) -> bool:
        return bool(self.protected or self.said or self.undecided)


def _spoken(text: Text, language: str) -> str:
    """The text in this language, "de" for "de-AT"; else in English, else in any language."""
    if isinstance(text, str):
        return text
    return next(
        text[code]
        for code in (language, language.split("-")[0], "en", *sorted(text))
        if code in text
    )


def _refuse_twice(texts: Mapping[Any, Text], what: str) -> None:
    """In no language may two columns, or two values of one column, go by the same words."""
    languages = {
        language for text in texts.values() if not isinstance(text, str) for language in text
    }
    for language in languages | {"en"}:
        [(text, times)] = Counter(_spoken(text, language) for text in texts.values()).most_common(1)
        if times > 1:
            raise InvalidInputError(
                f"labels: {text!r} is the label of two; give each {what} a label of its own"
            )


def _reason(given: Any, argument: str) -> Document:
    """A code and a text, as a pair or as a mapping."""
    if isinstance(given, Mapping) and set(given) == {"code", "text"}:
        given = (given["code"], given["text"])
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise InvalidInputError(f"{argument}: expected a code and a text, got {given!r}")
    code = (
        str(given[0]) if isinstance(given[0], int) and not isinstance(given[0], bool) else given[0]
    )
    return {"code": _line(code, f"{argument}, code"), "text": _text(given[1], f"{argument}, text")}


def _text(given: Any, argument: str) -> Text:
    """One text, or one for each language."""
    if not isinstance(given, Mapping):
        return _line(given, argument)
    if not given or not all(isinstance(language, str) and language.strip() for language in given):
        raise InvalidInputError(
            f"{argument}: expected a text for each language, such as 'en', got {dict(given)!r}"
        )
    return {language: _line(text, f"{argument}, {language}") for language, text in given.items()}


def _line(value: Any, argument: str) -> str:
    """One line of text: it ends up in letters and tables."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidInputError(f"{argument}: expected one line of text, got {value!r}")
    return value
