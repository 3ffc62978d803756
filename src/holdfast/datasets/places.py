"""Where tables are looked for: the folder of $HOLDFAST_DATA, then the user's cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from holdfast.datasets.catalogue import Facts
from holdfast.features.schema import Schema

DATA = "HOLDFAST_DATA"
CACHE = "HOLDFAST_CACHE"


def data_folder() -> Path | None:
    """The folder that $HOLDFAST_DATA names."""
    folder = os.environ.get(DATA)
    return Path(folder).expanduser() if folder else None


def cache_folder() -> Path:
    """Where downloads are kept: $HOLDFAST_CACHE, or a folder of ours where this platform keeps caches."""
    own = os.environ.get(CACHE)
    if own:
        return Path(own).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "holdfast"


def file_names(facts: Facts) -> list[str]:
    """The names that a table's file may have: the first one found is taken."""
    own = [] if facts.download is None else [facts.download.file]
    return list(dict.fromkeys([f"{facts.name}.csv.gz", f"{facts.name}.csv", *own]))


def find_given(facts: Facts) -> Path | None:
    """The file of a table in $HOLDFAST_DATA."""
    folder = data_folder()
    if folder is None or facts.download is None:
        return None
    return next((path for name in file_names(facts) if (path := folder / name).is_file()), None)


def find(facts: Facts) -> Path | None:
    """The file of a table in $HOLDFAST_DATA or in the cache; None if it has to be downloaded, or needs no file."""
    if facts.download is None:
        return None
    cached = cache_folder() / facts.download.file
    return find_given(facts) or (cached if cached.is_file() else None)


def own_schema(facts: Facts, given: Path | None) -> Path | None:
    """The schema beside a file of the user's own, if it says anything else than ours."""
    path = None if given is None else given.with_name(f"{facts.name}.schema.json")
    if path is None or not path.is_file():
        return None
    return None if _agrees(Schema.load(path), facts.schema) else path


def _agrees(own: Schema, ours: Schema) -> bool:
    """Whether a schema says what ours says; it may say less about CARLA, and have no notes."""
    if own.notes and own.notes != ours.notes:
        return False
    if (own.target, own.features(), own.rules) != (ours.target, ours.features(), ours.rules):
        return False
    known = {column["name"]: column for column in ours.columns}
    said = [(column, key) for column in own.columns for key in ("carla_type", "carla_immutable") if key in column]
    return all(column[key] == known[column["name"]].get(key) for column, key in said)


def searched(facts: Facts) -> str:
    """For a message: the places where `find` looked."""
    given = data_folder()
    own = f"${DATA} (not set)" if given is None else f"{given} (${DATA}; {', '.join(file_names(facts))})"
    return f"{own}, then {cache_folder()}"
