"""Finished work in a folder: written whole or not at all, named by its inputs, checked when it is read.

The inputs of a piece of work are described as plain data, so that the same work has the same name in every run.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import joblib
import numpy as np
import pandas as pd

from holdfast._files import Document, Place, write_text
from holdfast._network import Network
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import FeatureSpace


def digest(value: Any) -> str:
    """A name for a value: 32 hexadecimal digits of the hash of its description."""
    text = json.dumps(describe(value), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def describe(value: Any) -> Any:
    """Describe a value completely as data for JSON; tables and arrays by a hash of their content.

    Examples
    --------
    >>> from holdfast.generators import MCE, Robust
    >>> describe(Robust(MCE(margin=0.5)))["base"]["margin"]
    0.5
    >>> digest({"a": 1, "b": (1.0, "x")}) == digest({"b": [1.0, "x"], "a": 1})
    True
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float | np.generic):
        return _number(value)
    if isinstance(value, pd.DataFrame | pd.Series | pd.Index):
        return _table(value)
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, Mapping):
        return {str(key): describe(part) for key, part in value.items()}
    if isinstance(value, Set):
        return sorted((describe(part) for part in value), key=repr)
    if isinstance(value, Sequence | bytes):
        return value.hex() if isinstance(value, bytes) else [describe(part) for part in value]
    if isinstance(value, FunctionType | CodeType | type):
        return _code(value)
    return {"type": f"{type(value).__module__}.{type(value).__qualname__}"} | _parts(value)


def _parts(value: Any) -> Document:
    """The parts of an object."""
    if isinstance(value, FeatureSpace):
        return {"content": digest(value.to_dict(notes=False))}
    if isinstance(value, Network):
        # Classes as a file of the network has them, whatever kind of array they came in.
        return {
            "content": digest(
                [value.weights, value.biases, value.classes.tolist(), value.activations]
            )
        }
    if is_dataclass(value):
        return {field.name: describe(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "get_params"):
        return {"parameters": describe(value.get_params(deep=False))}
    try:
        return {"content": joblib.hash(value)}
    # Whatever an object's own pickling raises, it is the object that cannot be told from others.
    except Exception as error:
        raise InvalidInputError(
            f"a {type(value).__name__} has no content that can be hashed to name its results: {error}"
        ) from error


def _number(value: Any) -> Any:
    number = value.item() if isinstance(value, np.generic) else value
    return number if isinstance(number, int | str) or math.isfinite(number) else repr(number)


def _array(values: Any) -> Document:
    if values.dtype.hasobject:
        return {"shape": list(values.shape), "values": digest(values.tolist())}
    content = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:32]
    return {"shape": list(values.shape), "dtype": str(values.dtype), "content": content}


def _table(table: Any) -> Document:
    """Values, columns and types of a table, without its index."""
    hashes = np.asarray(pd.util.hash_pandas_object(table, index=False))
    if isinstance(table, pd.DataFrame):
        columns: Any = [[str(name), str(kind)] for name, kind in table.dtypes.items()]
    else:
        columns = str(table.dtype)
    return {
        "rows": len(table),
        "columns": columns,
        "content": hashlib.sha256(hashes.tobytes()).hexdigest()[:32],
    }


def _code(value: Any) -> Any:
    """A class by its name; a function by its code, so that an edited function has another name."""
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, CodeType):
        return [
            value.co_code.hex(),
            list(value.co_names),
            [describe(constant) for constant in value.co_consts],
        ]
    cells = [describe(cell.cell_contents) for cell in value.__closure__ or ()]
    return {
        "function": value.__qualname__,
        "code": digest([value.__code__, value.__defaults__, cells]),
    }


_FORMAT = "holdfast-study-2"
# Nobody writes a single file for this long: what is older was left by a run that was killed.
_ABANDONED_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class StudyStore:
    """A folder of finished work; without a folder, the store keeps and finds nothing.

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
    def open(cls, folder: Place | None) -> StudyStore:
        """Open the store in this folder; creates the folder if needed."""
        if folder is None:
            return cls()
        path = Path(folder).absolute()
        try:
            path.mkdir(parents=True, exist_ok=True)
            for left in path.rglob(".*.partial.*"):
                if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                    left.unlink(missing_ok=True)
        except OSError as error:
            raise InvalidInputError(f"out: cannot write to the folder {path}: {error}") from error
        return cls(path)

    def remember(
        self, kind: str, specification: Document, compute: Callable[[], Document]
    ) -> tuple[Document, bool]:
        """The result of a piece of work, read from the store or computed and stored, and whether it was read."""
        described = describe(specification)
        key = digest(described)
        content = self.read(kind, key)
        if content is not None:
            return content, True
        content = {"specification": described, **compute()}
        self.write(kind, key, content)
        return content, False

    def read(self, kind: str, key: str) -> Document | None:
        """The document with this name; None if it is missing or damaged."""
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

    def write(self, kind: str, key: str, content: Document) -> None:
        """Store a document under a name."""
        document = {"format": _FORMAT, "sha256": _checksum(kind, key, content), "content": content}
        text = json.dumps(document, allow_nan=False)
        self.write_file(f"{kind}/{key}.json", partial(write_text, text))

    def read_networks(self, names: Sequence[str]) -> list[Network] | None:
        """The networks with these names; None unless all are there and undamaged."""
        if self.folder is None:
            return None
        try:
            networks = [Network.load(self.folder / "networks" / f"{name}.npz") for name in names]
        except (OSError, FileFormatError):
            return None
        return networks if list(map(digest, networks)) == list(names) else None

    def write_networks(self, networks: Sequence[Network]) -> list[str]:
        """Store networks, each named by its content."""
        names = list(map(digest, networks))
        for name, network in zip(names, networks, strict=True):
            self.write_file(f"networks/{name}.npz", network.save)
        return names

    def write_file(self, name: str, write: Callable[[Path], object]) -> None:
        """Let `write` create a file in the folder, whole or not at all."""
        if self.folder is not None:
            (self.folder / name).parent.mkdir(exist_ok=True)
            write(self.folder / name)


# Keeps nothing.
NO_STORE = StudyStore()


def _checksum(kind: str, key: str, content: Any) -> str:
    """A checksum of the content and its place, so that a renamed file is rejected too."""
    text = json.dumps([kind, key, content], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
