"""What is known about each table before it is looked at: columns, classes, licence, caveats, where to get it.

The facts are files of their own, ``facts/NAME.json``: a schema as `holdfast.features` reads it, and around it what a
person has to know. They are ours to ship; most of the tables are not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources

from holdfast._files import read_json
from holdfast.errors import InvalidInputError
from holdfast.features import Schema

NAMES = ("adult", "compas", "gmc", "heloc", "california_housing", "iris", "loans")
MIRROR = "HOLDFAST_MIRROR"


@dataclass(frozen=True)
class Download:
    """One file on the network, and what it has to be to the last bit."""

    address: str
    file: str
    sha256: str

    @property
    def url(self) -> str:
        """Where the file is fetched from: the place it comes from, or $HOLDFAST_MIRROR."""
        mirror = os.environ.get(MIRROR)
        return f"{mirror.rstrip('/')}/{self.file}" if mirror else self.address


@dataclass(frozen=True)
class Facts:
    """What is known about a table before it is looked at.

    Examples
    --------
    >>> facts = Facts.of("compas")
    >>> facts.rows, len(facts.schema.feature_names), facts.classes
    (6172, 7, {0: 'COMPAS score_text High', 1: 'COMPAS score_text Low or Medium'})
    """

    name: str
    title: str
    rows: int
    schema: Schema
    source: str
    licence: str
    derivation: str
    paper: str
    caveats: tuple[str, ...]
    download: Download | None

    @classmethod
    def of(cls, name: str) -> Facts:
        """The facts about the table of that name."""
        if name not in NAMES:
            raise InvalidInputError(f"name: expected one of {list(NAMES)}, got {name!r}")
        data = read_json(resources.files("holdfast.datasets") / "facts" / f"{name}.json")
        download = data.get("download")
        return cls(
            name=name,
            title=data["title"],
            rows=data["rows"],
            schema=Schema.from_dict(data, f"facts about {name}"),
            source=data["upstream"],
            licence=data["licence"],
            derivation=data["derivation"],
            paper=data["paper"],
            caveats=tuple(data["caveats"]),
            download=download and Download(download["url"], download["file"], download["sha256"]),
        )

    @property
    def wanted(self) -> int:
        """The class that a person wants."""
        return int(self.schema.desirable)

    @property
    def classes(self) -> dict[int, str]:
        """What each label means."""
        return {int(label): meaning for label, meaning in self.schema.classes}


def names() -> tuple[str, ...]:
    """The tables that `load` knows.

    Examples
    --------
    >>> names()
    ('adult', 'compas', 'gmc', 'heloc', 'california_housing', 'iris', 'loans')
    """
    return NAMES
