"""What is finished, in a folder: written at once or not at all, named by what it depends on, checked when it is read.

A file appears under its name only when it is whole (a temporary file, then a rename), so a killed run leaves nothing
half written under a name that is read, and two runs in one folder at worst do the same work twice. Whatever does not
match its checksum is as good as absent. Plain JSON, and networks as arrays: nothing in the folder can run code.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.network import Network

_FORMAT = "holdfast-study"
# Nobody writes a single file for this long: what is older was left by a run that was killed.
_ABANDONED_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Store:
    """A folder of finished pieces of work; without a folder nothing is kept and nothing is found.

    Examples
    --------
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store.open(folder.name)
    >>> store.write("cells", "0f", {"cost_l1": [0.25]})
    >>> store.read("cells", "0f"), store.read("cells", "1e")
    ({'cost_l1': [0.25]}, None)
    >>> folder.cleanup()
    """

    folder: Path | None

    @classmethod
    def open(cls, folder: str | os.PathLike[str] | None) -> Store:
        """The store in this folder, which is made if it is not there."""
        if folder is None:
            return cls(None)
        path = Path(folder).absolute()
        try:
            _partial_folder(path).mkdir(parents=True, exist_ok=True)
            for left in _partial_folder(path).iterdir():
                if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                    left.unlink(missing_ok=True)
        except OSError as error:
            raise InvalidInputError(f"out: expected a folder that can be written, got {path}: {error}") from error
        return cls(path)

    def read(self, kind: str, key: str) -> dict[str, Any] | None:
        """What was written under this name, or None if it was not, or is damaged."""
        if self.folder is None:
            return None
        try:
            document = json.loads(self.path(kind, key).read_bytes())
            content = document["content"]
            genuine = document["format"] == _FORMAT and document["sha256"] == _checksum(kind, key, content)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return content if genuine and isinstance(content, dict) else None

    def write(self, kind: str, key: str, content: dict[str, Any]) -> None:
        """Keep something under a name."""
        document = {"format": _FORMAT, "sha256": _checksum(kind, key, content), "content": content}
        text = json.dumps(document, allow_nan=False)
        if self.folder is not None:
            write_whole(self.path(kind, key), lambda path: path.write_text(text, encoding="utf-8"), self.folder)

    def read_networks(self, names: Sequence[str]) -> list[Network] | None:
        """The networks of these names, or None unless all of them are there and whole."""
        if self.folder is None:
            return None
        networks = []
        for name in names:
            path = self.folder / "networks" / f"{name}.npz"
            try:
                if _hash_of(path) != name:
                    return None
                networks.append(Network.load(path))
            except (OSError, FileFormatError):
                return None
        return networks

    def write_networks(self, networks: Sequence[Network]) -> list[str]:
        """Keep networks, each named by the hash of its file."""
        return [] if self.folder is None else [self._write_network(network, self.folder) for network in networks]

    def _write_network(self, network: Network, folder: Path) -> str:
        name = ""

        def write(path: Path) -> None:
            nonlocal name
            network.save(path)
            name = _hash_of(path)

        write_whole(lambda: folder / "networks" / f"{name}.npz", write, folder)
        return name

    def path(self, kind: str, key: str) -> Path:
        """Where it is kept."""
        assert self.folder is not None
        return self.folder / kind / f"{key}.json"


def write_whole(place: Path | Callable[[], Path], write: Callable[[Path], object], folder: Path) -> None:
    """Let `write` fill a temporary file, then give it its name: others see the old file or the whole new one.

    The temporary file lies in `folder`, on the same file system; a place that depends on what was written is asked for
    afterwards.
    """
    handle, name = tempfile.mkstemp(dir=_partial_folder(folder))
    os.close(handle)
    partial = Path(name)
    try:
        write(partial)
        target = place if isinstance(place, Path) else place()
        target.parent.mkdir(parents=True, exist_ok=True)
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _partial_folder(folder: Path) -> Path:
    return folder / ".partial"


def _umask() -> int:
    """What the user's other files are like; mkstemp makes a private one."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _checksum(kind: str, key: str, content: Any) -> str:
    """Of the content and of its place, so that a file under another's name is refused too."""
    text = json.dumps([kind, key, content], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
