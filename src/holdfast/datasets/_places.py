"""Where tables are looked for: the folder of $HOLDFAST_DATA, then the user's cache, then the network."""

from __future__ import annotations

import hashlib
import os
import sys
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from holdfast._files import whole_file
from holdfast._progress import progress_bar
from holdfast.datasets._catalogue import Download, Facts
from holdfast.errors import DownloadError, FileFormatError
from holdfast.features import Schema

DATA = "HOLDFAST_DATA"
CACHE = "HOLDFAST_CACHE"
_CHUNK = 1 << 16
_BAR_FROM = 1 << 20
_SECONDS = 30.0


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


def schema_for(facts: Facts, given: Path | None) -> Schema:
    """The schema next to a file of the user's own if it differs from ours; else ours."""
    path = None if given is None else given.with_name(f"{facts.name}.schema.json")
    own = facts.schema if path is None or not path.is_file() else Schema.load(path)
    return facts.schema if _agrees(own, facts.schema) else own


def _agrees(own: Schema, ours: Schema) -> bool:
    """Whether a schema says what ours says; it may say less about CARLA, and have no notes."""
    if own.notes and own.notes != ours.notes:
        return False
    if (own.target, own.features(), own.rules) != (ours.target, ours.features(), ours.rules):
        return False
    known = {column["name"]: column for column in ours.columns}
    said = [
        (column, key)
        for column in own.columns
        for key in ("carla_type", "carla_immutable")
        if key in column
    ]
    return all(column[key] == known[column["name"]].get(key) for column, key in said)


def searched(facts: Facts) -> str:
    """For a message: the places where `find` looked."""
    given = data_folder()
    own = (
        f"${DATA} (not set)"
        if given is None
        else f"{given} (${DATA}; {', '.join(file_names(facts))})"
    )
    return f"{own}, then {cache_folder()}"


def fetch(
    download: Download, folder: Path, *, allowed: bool = True, progress: bool | None = None
) -> Path:
    """The file in `folder`, downloaded if it is not there or is not what it should be, to the last bit.

    Under its name there is never anything but the whole file: a wrong one is refused.
    """
    path = folder / download.file
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == download.sha256:
        return path
    if not allowed:
        raise DownloadError("download=False")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(
            f"{folder}: expected a folder that can be written, got: {error}"
        ) from error
    content = _download(download, progress)
    came = hashlib.sha256(content).hexdigest()
    if came != download.sha256:
        raise FileFormatError(
            f"{download.url}: expected a file with SHA-256 {download.sha256}, got {came}; it was not kept"
        )
    with whole_file(path) as beside:
        beside.write_bytes(content)
    return path


def _download(download: Download, progress: bool | None) -> bytes:
    content = bytearray()
    request = Request(download.url, headers={"User-Agent": "holdfast"})
    try:
        with urlopen(request, timeout=_SECONDS) as answer:
            total = int(answer.headers.get("Content-Length", 0))
            with progress_bar(download.file, total, wanted=progress, long=_BAR_FROM) as advance:
                while chunk := answer.read(_CHUNK):
                    content += chunk
                    advance(len(chunk))
    except HTTPError as error:
        error.close()
        raise DownloadError(
            f"{download.url}: the server said {error.code} {error.reason}"
        ) from None
    except (OSError, HTTPException, ValueError) as error:
        raise DownloadError(f"{download.url}: {getattr(error, 'reason', error)}") from error
    if len(content) < total:
        raise DownloadError(
            f"{download.url}: the connection broke after {len(content):,} of {total:,} bytes"
        )
    return bytes(content)
