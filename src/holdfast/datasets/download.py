"""Fetch a file once, to the last bit: resumed where it broke off, checked by its hash, renamed when it is whole."""

from __future__ import annotations

import hashlib
import http
import http.client
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from holdfast.datasets.catalogue import Download
from holdfast.errors import DownloadError, FileFormatError
from holdfast.progress import progress_bar

if sys.platform != "win32":
    import fcntl

_CHUNK = 1 << 16
_BAR_FROM = 1 << 20
_SECONDS = 30.0


def fetch(download: Download, folder: Path, *, progress: bool | None = None) -> Path:
    """The file in `folder`, downloaded if it is not there or is not what it should be.

    What has arrived when a connection breaks stays as ``NAME.part``, and the next call goes on from there if the
    server can. Under its own name there is never anything but the whole file: a wrong one is removed and refused.
    """
    path = folder / download.file
    part = path.with_name(f"{path.name}.part")
    if is_whole(path, download):
        return path
    with _alone(path.with_name(f"{path.name}.lock")):
        if is_whole(path, download):
            return path
        resumed = part.exists()
        _complete(download, part, progress)
        if resumed and not is_whole(part, download):
            # The beginning was of another file, or spoilt: that is no reason to distrust the server yet.
            part.unlink()
            _complete(download, part, progress)
        _check(download, part)
        os.replace(part, path)
    return path


def _complete(download: Download, part: Path, progress: bool | None) -> None:
    """Go on where `part` ends, or start over if the server knows no ranges."""
    have = part.stat().st_size if part.exists() else 0
    if have and have == download.size:
        return
    try:
        with _ask(download.url, have) as answer:
            if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
                have = 0
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length else download.size or 0
            with (
                part.open("ab" if have else "wb") as file,
                progress_bar(download.file, total, wanted=progress, long=_BAR_FROM) as advance,
            ):
                _copy(answer, file, advance, have)
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"{download.url}: the server said {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DownloadError(f"{download.url}: {getattr(error, 'reason', error)}") from error
    arrived = part.stat().st_size
    if arrived < total:
        raise DownloadError(f"{download.url}: the connection broke after {arrived:,} of {total:,} bytes; try again")


def _ask(url: str, have: int) -> Any:
    headers = {"User-Agent": "holdfast", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if have and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            error.close()
            return _ask(url, 0)
        raise


def _copy(answer: Any, file: IO[bytes], advance: Callable[[int], object] | None, have: int) -> None:
    moved = have
    while True:
        if advance is not None:
            advance(moved)
        chunk = answer.read(_CHUNK)
        if not chunk:
            return
        file.write(chunk)
        moved = len(chunk)


def _check(download: Download, part: Path) -> None:
    came = _sha256(part)
    if came != download.sha256:
        part.unlink()
        raise FileFormatError(
            f"{download.url}: expected a file with SHA-256 {download.sha256}, got {came}; it was not kept"
        )


def is_whole(path: Path, download: Download) -> bool:
    """Whether the file is there and is what it should be."""
    return path.is_file() and _sha256(path) == download.sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time, where the system can tell; elsewhere the hash finds what two of them spoil."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise DownloadError(f"{path.parent}: expected a folder that can be written, got: {error}") from error
    with file:
        with suppress(OSError):
            _lock(file)
        yield


def _lock(file: IO[bytes]) -> None:
    if sys.platform != "win32":
        fcntl.flock(file, fcntl.LOCK_EX)
