"""What is finished, in a folder: written at once or not at all, named by what it depends on, checked when it is read.

A file appears under its name only when it is whole (a temporary file, then a rename), so a killed run leaves nothing
half written under a name that is read, and two runs in one folder at worst do the same work twice. Whatever does not
match its checksum is as good as absent. Plain JSON, and networks as arrays: nothing in the folder can run code.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast._files import whole_file
from holdfast._network import Network
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.study._specification import describe, digest

_FORMAT = "holdfast-study-2"
# Nobody writes a single file for this long: what is older was left by a run that was killed.
_ABANDONED_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class StudyStore:
    """A folder of finished pieces of work; without a folder nothing is kept and nothing is found.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = StudyStore.open(folder.name)
    >>> store.write("cells", "0f", {"cost_l1": [0.25]})
    >>> store.read("cells", "0f"), store.read("cells", "1e")
    ({'cost_l1': [0.25]}, None)
    >>> folder.cleanup()
    """

    folder: Path | None = None

    @classmethod
    def open(cls, folder: str | os.PathLike[str] | None) -> StudyStore:
        """The store in this folder, which is made if it is not there."""
        if folder is None:
            return cls()
        path = Path(folder).absolute()
        try:
            path.mkdir(parents=True, exist_ok=True)
            for left in path.rglob(".*.partial.*"):
                if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                    left.unlink(missing_ok=True)
        except OSError as error:
            raise InvalidInputError(
                f"out: expected a folder that can be written, got {path}: {error}"
            ) from error
        return cls(path)

    def remember(
        self, kind: str, specification: dict[str, Any], compute: Callable[[], dict[str, Any]]
    ) -> tuple[dict[str, Any], bool]:
        """A piece of work by all that it depends on: what was kept of it, or computed and kept; and whether it was."""
        described = describe(specification)
        key = digest(described)
        content = self.read(kind, key)
        if content is not None:
            return content, True
        content = {"specification": described, **compute()}
        self.write(kind, key, content)
        return content, False

    def read(self, kind: str, key: str) -> dict[str, Any] | None:
        """What was written under this name, or None if it was not, or is damaged."""
        if self.folder is None:
            return None
        try:
            document = json.loads((self.folder / kind / f"{key}.json").read_bytes())
            content = document["content"]
            genuine = document["format"] == _FORMAT and document["sha256"] == _checksum(
                kind, key, content
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return content if genuine and isinstance(content, dict) else None

    def write(self, kind: str, key: str, content: dict[str, Any]) -> None:
        """Keep something under a name."""
        document = {"format": _FORMAT, "sha256": _checksum(kind, key, content), "content": content}
        text = json.dumps(document, allow_nan=False)
        self.write_file(f"{kind}/{key}.json", lambda path: path.write_text(text, encoding="utf-8"))

    def read_networks(self, names: Sequence[str]) -> list[Network] | None:
        """The networks of these names, or None unless all of them are there and whole."""
        if self.folder is None:
            return None
        try:
            networks = [Network.load(self.folder / "networks" / f"{name}.npz") for name in names]
        except (OSError, FileFormatError):
            return None
        return networks if list(map(digest, networks)) == list(names) else None

    def write_networks(self, networks: Sequence[Network]) -> list[str]:
        """Keep networks, each named by its content."""
        names = list(map(digest, networks))
        for name, network in zip(names, networks, strict=True):
            self.write_file(f"networks/{name}.npz", network.save)
        return names

    def write_file(self, name: str, write: Callable[[Path], object]) -> None:
        """Let `write` fill a file of the folder: others see the old file or the whole new one."""
        if self.folder is not None:
            (self.folder / name).parent.mkdir(exist_ok=True)
            with whole_file(self.folder / name) as beside:
                write(beside)


# Keeps nothing.
NO_STORE = StudyStore()


def _checksum(kind: str, key: str, content: Any) -> str:
    """Of the content and of its place, so that a file under another's name is refused too."""
    text = json.dumps([kind, key, content], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
