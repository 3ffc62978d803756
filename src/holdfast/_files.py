"""Files in and out: tables by the ending of their name, every number as it is written, nothing half written."""

from __future__ import annotations

import importlib.util
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import IO, Any

import pandas as pd

from holdfast.errors import FileFormatError, InvalidInputError, MissingExtraError

# Where a file is, and an object of JSON, to be written or only to be read.
Place = str | os.PathLike[str]
Document = dict[str, Any]
Facts = Mapping[str, Any]

TABLES = (".csv", ".csv.gz", ".parquet")

# What is certified is the number in the file. Before 3.1 pandas read floats exactly only when asked to; since then it
# always does, and asking is deprecated.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _PANDAS < (3, 1) else {}


def read_csv(source: Path | IO[bytes], **options: Any) -> pd.DataFrame:
    """A CSV file, plain or compressed, with every number as it is written."""
    frame: pd.DataFrame = pd.read_csv(source, **_EXACT, **options)
    return frame


def is_parquet(path: Path) -> bool:
    """Whether a table is Parquet rather than CSV, by its name; any other name is refused."""
    name = f"{path.name}.parquet" if path.is_dir() else path.name.lower()
    if not name.endswith(TABLES):
        raise InvalidInputError(
            f"{path}: expected a name that ends in {', '.join(TABLES)}, got {path.name!r}"
        )
    if name.endswith(".parquet") and importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("pyarrow", "parquet", "a Parquet file")
    return name.endswith(".parquet")


def write_table(frame: pd.DataFrame, path: Path, *, index: bool = True) -> None:
    """The table as the file's name says, with its index or without, the same bytes on every system."""
    parquet = is_parquet(path)
    with whole_file(path) as beside:
        if parquet:
            frame.to_parquet(beside, index=None if index else False)
        else:
            frame.to_csv(beside, index=index, lineterminator="\n")


def read_json(path: Path | Traversable, what: str = "JSON") -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path}: expected {what}, got: {error}") from error


def write_json(document: Any, path: Path) -> None:
    """Plain data as JSON."""
    write_text(json.dumps(document, indent=1) + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Text in UTF-8, the same bytes on every system."""
    with whole_file(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to, renamed at the end: whoever looks sees the old file or the whole new one."""
    beside = path.with_name(f".{os.getpid()}-{threading.get_ident()}.partial.{path.name}")
    try:
        yield beside
        os.replace(beside, path)
    except OSError as error:
        raise InvalidInputError(
            f"{path}: expected a file that can be written, got: {error}"
        ) from error
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{path}: expected texts that UTF-8 can write, got: {error}"
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def given_path(place: Any, name: str) -> Path:
    """The place of a file, or an error that names it."""
    if not isinstance(place, str | os.PathLike):
        raise InvalidInputError(f"{name}: expected the name of a file or folder, got {place!r:.80}")
    return Path(place)


def check_place(path: Path) -> None:
    """Refuse what cannot be written before any work is done."""
    if path.is_dir():
        raise InvalidInputError(f"{path}: expected the name of a file, got a folder")
    if not path.absolute().parent.is_dir():
        raise InvalidInputError(
            f"{path}: expected a file in an existing folder, got {path.parent}, which is not there"
        )
