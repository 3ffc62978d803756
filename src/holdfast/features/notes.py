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
from holdfast.features.kinds import Name
from holdfast.features.variables import VariableView


@dataclass(frozen=True)
class Reason:
    """An adverse-action reason: the code that a lender reports, and what it says."""

    code: str
    text: str


Said = TypeVar("Said")
Reasons = Mapping[Name, Reason | Mapping[str, Any] | Sequence[Any]]


@dataclass(frozen=True)
class Notes:
    """What is said about columns, features or not.

    Examples
    --------
    >>> notes = Notes.of(protected="sex", labels={"util": "card use"}, reasons={"util": ("38", "Cards used too much")})
    >>> notes.protected, notes.label("util"), notes.label("age"), notes.reason("util")
    (('sex',), 'card use', 'age', Reason(code='38', text='Cards used too much'))
    >>> Notes.from_list(notes.to_list()) == notes
    True
    """

    protected: tuple[Name, ...] = ()
    labels: tuple[tuple[Name, str], ...] = ()
    reasons: tuple[tuple[Name, Reason], ...] = ()

    @classmethod
    def of(
        cls, protected: Names = (), labels: Mapping[Name, str] | None = None, reasons: Reasons | None = None
    ) -> Notes:
        """Notes from what the caller says, checked."""
        for argument, given in (("labels", labels), ("reasons", reasons)):
            if given is not None and not isinstance(given, Mapping):
                raise InvalidInputError(f"{argument}: expected a mapping from column to value, got {given!r}")
        named = tuple(dict.fromkeys(as_names(protected, "protected")))
        for name in named:
            if isinstance(name, bool) or not isinstance(name, str | int):
                raise InvalidInputError(f"protected: expected column names, got {name!r}")
        called = {name: _text(label, f"labels[{name!r}]") for name, label in (labels or {}).items()}
        _refuse_twice(called)
        why = {name: _reason(given, f"reasons[{name!r}]") for name, given in (reasons or {}).items()}
        return cls(named, _in_order(called), _in_order(why))

    @classmethod
    def from_list(cls, entries: Iterable[Mapping[str, Any]]) -> Notes:
        """Notes from entries with a "name" and perhaps "protected", "label" and "reason"."""
        protected: list[Name] = []
        labels: dict[Name, Any] = {}
        reasons: dict[Name, Any] = {}
        for entry in entries:
            name = entry["name"]
            flag = entry.get("protected", False)
            if not isinstance(flag, bool):
                raise InvalidInputError(f"column {name!r}: expected true or false for 'protected', got {flag!r}")
            protected += [name] if flag else []
            labels |= {name: entry["label"]} if "label" in entry else {}
            reasons |= {name: entry["reason"]} if "reason" in entry else {}
        return cls.of(protected, labels, reasons)

    def to_list(self) -> list[dict[str, Any]]:
        """One JSON-able entry for each column that something is said about."""
        entries: dict[Name, dict[str, Any]] = {}
        for name in self.protected:
            entries.setdefault(name, {"name": name})["protected"] = True
        for name, label in self.labels:
            entries.setdefault(name, {"name": name})["label"] = label
        for name, reason in self.reasons:
            entries.setdefault(name, {"name": name})["reason"] = {"code": reason.code, "text": reason.text}
        return list(entries.values())

    def updated(self, other: Notes) -> Notes:
        """These notes, and the other's on top of them."""
        labels = dict(self.labels) | dict(other.labels)
        return Notes.of((*self.protected, *other.protected), labels, dict(self.reasons) | dict(other.reasons))

    def about(self, known: Iterable[Name]) -> Notes:
        """The same notes; refuses a label or a reason for a column that is neither known nor protected.

        A label that is the name of another column is refused too: nobody could tell the two apart.
        """
        columns = [*known, *self.protected]
        labels = dict(self.labels)
        refuse_unknown(list(labels), columns, "labels")
        refuse_unknown([name for name, _ in self.reasons], columns, "reasons")
        meant = set(labels.values())
        _refuse_twice(labels | {name: str(name) for name in columns if name not in labels and str(name) in meant})
        return self

    def label(self, name: Name) -> str:
        """What people call the column: its own name where nothing else is said."""
        return dict(self.labels).get(name, str(name))

    def reason(self, name: Name) -> Reason | None:
        """The column's adverse-action reason."""
        return dict(self.reasons).get(name)

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

    def label(self, name: Name) -> str:
        """What people call the column: its own name where nothing else is said."""
        return self.notes.label(name)

    def reason(self, name: Name) -> Reason | None:
        """The column's adverse-action reason, or None."""
        return self.notes.reason(name)


def _in_order(said: Mapping[Name, Said]) -> tuple[tuple[Name, Said], ...]:
    """By column, so that the order in which things were said makes no difference."""
    return tuple(sorted(said.items(), key=lambda entry: (str(entry[0]), isinstance(entry[0], str))))


def _refuse_twice(labels: Mapping[Name, str]) -> None:
    owner: dict[str, Name] = {}
    for name, label in labels.items():
        if owner.setdefault(label, name) != name:
            raise InvalidInputError(f"labels: expected a label of its own for each column, got {label!r} for two")


def _reason(given: Any, argument: str) -> Reason:
    if isinstance(given, Reason):
        given = (given.code, given.text)
    if isinstance(given, Mapping) and set(given) == {"code", "text"}:
        given = (given["code"], given["text"])
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise InvalidInputError(f"{argument}: expected a code and a text, got {given!r}")
    code = str(given[0]) if isinstance(given[0], int) and not isinstance(given[0], bool) else given[0]
    return Reason(_text(code, f"{argument}, code"), _text(given[1], f"{argument}, text"))


def _text(value: Any, argument: str) -> str:
    """One line of text: it ends up in letters and tables."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidInputError(f"{argument}: expected one line of text, got {value!r}")
    return value
