"""What people know about columns and the model does not: which are protected, what they are called, reason codes.

Notes change no point, no constraint and no cost. They are part of a space and of its file, but not of the hash that
certificates and ledgers name it by (`holdfast.checker.space_sha256`): a label added later makes nothing incomparable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.errors import InvalidInputError
from holdfast.features.constraints import Names, as_names, refuse_unknown
from holdfast.features.feature import Feature
from holdfast.features.kinds import Label, Name
from holdfast.features.variables import VariableView

# One text, or one for each language: {"en": "card use", "de": "Kartennutzung"}.
Text = str | Mapping[str, str]
# The same to be kept: (language, text) pairs; a text for every language is that of "".
Words = tuple[tuple[str, str], ...]
# A column, or a value of one as it stands in the table: ("housing", "A152"). A column's unit counts as a value.
Called = Name | tuple[Name, Label]


@dataclass(frozen=True)
class Reason:
    """An adverse-action reason: the code that a lender reports, and what it says."""

    code: str
    text: str


Said = TypeVar("Said")
# From `Called`; the keys of a mapping cannot be typed more narrowly without refusing {"util": "card use"}.
Labels = Mapping[Any, Text]
Reasons = Mapping[Name, Reason | Mapping[str, Any] | Sequence[Any]]


@dataclass(frozen=True)
class Notes:
    """What is said about columns, features or not.

    Examples
    --------
    >>> labels = {"util": {"en": "card use", "de": "Kartennutzung"}, ("home", "A151"): "rented"}
    >>> notes = Notes.of(protected="sex", labels=labels, reasons={"util": ("38", "Cards used too much")})
    >>> notes.protected, notes.label("util"), notes.label("util", "de"), notes.label("age")
    (('sex',), 'card use', 'Kartennutzung', 'age')
    >>> notes.word("home", "A151"), notes.reason("util")
    ('rented', Reason(code='38', text='Cards used too much'))
    >>> Notes.from_list(notes.to_list()) == notes
    True
    """

    protected: tuple[Name, ...] = ()
    labels: tuple[tuple[Called, Words], ...] = ()
    reasons: tuple[tuple[Name, tuple[str, Words]], ...] = ()

    @classmethod
    def of(cls, protected: Names = (), labels: Labels | None = None, reasons: Reasons | None = None) -> Notes:
        """Notes from what the caller says, checked."""
        for argument, given in (("labels", labels), ("reasons", reasons)):
            if given is not None and not isinstance(given, Mapping):
                raise InvalidInputError(f"{argument}: expected a mapping from column to value, got {given!r}")
        named = tuple(dict.fromkeys(as_names(protected, "protected")))
        for name in named:
            if isinstance(name, bool) or not isinstance(name, str | int):
                raise InvalidInputError(f"protected: expected column names, got {name!r}")
        called = {_key(name): _words(label, f"labels[{name!r}]") for name, label in (labels or {}).items()}
        _refuse_twice(called)
        why = {name: _reason(given, f"reasons[{name!r}]") for name, given in (reasons or {}).items()}
        return cls(named, _in_order(called), _in_order(why))

    @classmethod
    def from_list(cls, entries: Iterable[Mapping[str, Any]]) -> Notes:
        """Notes from entries with a "name" and perhaps "protected", "label", "words" (of values) and "reason"."""
        protected: list[Name] = []
        labels: dict[Called, Any] = {}
        reasons: dict[Name, Any] = {}
        for entry in entries:
            name = entry["name"]
            flag = entry.get("protected", False)
            if not isinstance(flag, bool):
                raise InvalidInputError(f"column {name!r}: expected true or false for 'protected', got {flag!r}")
            protected += [name] if flag else []
            labels |= {name: entry["label"]} if "label" in entry else {}
            labels |= {(name, value): said for value, said in dict(entry.get("words", {})).items()}
            reasons |= {name: entry["reason"]} if "reason" in entry else {}
        return cls.of(protected, labels, reasons)

    def to_list(self) -> list[dict[str, Any]]:
        """One JSON-able entry for each column that something is said about."""
        entries: dict[Name, dict[str, Any]] = {}
        for name in self.protected:
            entries.setdefault(name, {"name": name})["protected"] = True
        for called, words in self.labels:
            name = called[0] if isinstance(called, tuple) else called
            entry = entries.setdefault(name, {"name": name})
            if isinstance(called, tuple):
                entry.setdefault("words", {})[called[1]] = _plain(words)
            else:
                entry["label"] = _plain(words)
        for name, (code, words) in self.reasons:
            entries.setdefault(name, {"name": name})["reason"] = {"code": code, "text": _plain(words)}
        return list(entries.values())

    def updated(self, other: Notes) -> Notes:
        """These notes, and the other's on top of them."""
        labels = dict(self.labels) | dict(other.labels)
        reasons = dict(self.reasons) | dict(other.reasons)
        protected = dict.fromkeys((*self.protected, *other.protected))
        _refuse_twice(labels)
        return Notes(tuple(protected), _in_order(labels), _in_order(reasons))

    def about(self, known: Iterable[Name]) -> Notes:
        """The same notes; refuses a label or a reason for a column that is neither known nor protected.

        A label that is the name of another column is refused too: nobody could tell the two apart.
        """
        columns = [*known, *self.protected]
        refuse_unknown(
            [called[0] if isinstance(called, tuple) else called for called, _ in self.labels], columns, "labels"
        )
        refuse_unknown([name for name, _ in self.reasons], columns, "reasons")
        labels = dict(self.labels)
        meant = {text for words in labels.values() for _, text in words}
        unsaid: dict[Called, Words] = {name: (("", str(name)),) for name in columns if str(name) in meant}
        _refuse_twice(unsaid | labels)
        return self

    def check(self, feature: Feature) -> None:
        """Refuse words for values that the column does not have, and the same words for two that it has."""
        values = dict.fromkeys([*map(str, feature.categories), *([feature.unit] if feature.unit else [])])
        said = {
            called: words for called, words in self.labels if isinstance(called, tuple) and called[0] == feature.name
        }
        for called in said:
            if called[1] not in values:
                raise InvalidInputError(
                    f"labels[{called!r}]: expected a value of the column or its unit, one of {list(values)}, "
                    f"got {called[1]!r}"
                )
        unsaid: dict[Called, Words] = {(feature.name, value): (("", value),) for value in values}
        _refuse_twice(unsaid | said if said else {})

    def label(self, name: Name, language: str = "en") -> str:
        """What people call the column: its own name where nothing else is said."""
        return _spoken(dict(self.labels).get(name, (("", str(name)),)), language)

    def word(self, name: Name, value: Label, language: str = "en") -> str:
        """What people call a value of the column, or its unit: itself where nothing else is said."""
        return _spoken(dict(self.labels).get((name, str(value)), (("", str(value)),)), language)

    def reason(self, name: Name, language: str = "en") -> Reason | None:
        """The column's adverse-action reason."""
        given = dict(self.reasons).get(name)
        return None if given is None else Reason(given[0], _spoken(given[1], language))

    def __bool__(self) -> bool:
        return bool(self.protected or self.labels or self.reasons)


@dataclass(frozen=True)
class NotedView(VariableView):
    """Columns with notes."""

    notes: Notes = Notes()

    @property
    def protected(self) -> tuple[Name, ...]:
        """The protected attributes: features, or other columns of the caller's table that the model does not read."""
        return self.notes.protected

    @property
    def unprotected(self) -> tuple[Feature, ...]:
        """The features that may be spoken of to whoever they belong to."""
        return tuple(feature for feature in self.features if feature.name not in self.protected)

    def label(self, name: Name, language: str = "en") -> str:
        """What people call the column: its own name where nothing else is said."""
        return self.notes.label(name, language)

    def reason(self, name: Name, language: str = "en") -> Reason | None:
        """The column's adverse-action reason, or None."""
        return self.notes.reason(name, language)


def _in_order(said: Mapping[Any, Said]) -> tuple[tuple[Any, Said], ...]:
    """By column, so that the order in which things were said makes no difference."""
    return tuple(sorted(said.items(), key=lambda entry: (str(entry[0]), isinstance(entry[0], str))))


def _key(called: Any) -> Called:
    """A column, or a column and a value of it, which goes by its text: so it stands in a file."""
    if not isinstance(called, tuple):
        return called  # type: ignore[no-any-return]  # unknown columns are refused where columns are known
    if len(called) != 2:
        raise InvalidInputError(f"labels: expected a column, or a column and a value of it, got {called!r}")
    return called[0], str(called[1])


def _spoken(words: Words, language: str) -> str:
    """The text in this language, "de" for "de-AT"; else in English, else whatever there is."""
    texts = dict(words)
    return next(texts[code] for code in (language, language.split("-")[0], "en", *texts) if code in texts)


def _plain(words: Words) -> str | dict[str, str]:
    texts = dict(words)
    return texts.get("", texts)


def _refuse_twice(labels: Mapping[Called, Words]) -> None:
    """In no language may two columns, or two values of one column, go by the same words."""
    for language in {language for words in labels.values() for language, _ in words}:
        owner: dict[tuple[object, str], Called] = {}
        for called, words in labels.items():
            of = called[0] if isinstance(called, tuple) else None
            text = _spoken(words, language)
            if owner.setdefault((of, text), called) != called:
                what = "column" if of is None else f"value of {of!r}"
                raise InvalidInputError(f"labels: expected a label of its own for each {what}, got {text!r} for two")


def _reason(given: Any, argument: str) -> tuple[str, Words]:
    if isinstance(given, Reason):
        given = (given.code, given.text)
    if isinstance(given, Mapping) and set(given) == {"code", "text"}:
        given = (given["code"], given["text"])
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise InvalidInputError(f"{argument}: expected a code and a text, got {given!r}")
    code = str(given[0]) if isinstance(given[0], int) and not isinstance(given[0], bool) else given[0]
    return _text(code, f"{argument}, code"), _words(given[1], f"{argument}, text")


def _words(given: Any, argument: str) -> Words:
    """One text, or one for each language."""
    if not isinstance(given, Mapping):
        return (("", _text(given, argument)),)
    if not given or not all(isinstance(language, str) and language.strip() for language in given):
        raise InvalidInputError(f"{argument}: expected a text for each language, such as 'en', got {dict(given)!r}")
    return tuple(sorted((language, _text(text, f"{argument}, {language}")) for language, text in given.items()))


def _text(value: Any, argument: str) -> str:
    """One line of text: it ends up in letters and tables."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidInputError(f"{argument}: expected one line of text, got {value!r}")
    return value
