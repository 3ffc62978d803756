"""Read and write files: the format follows from the name, numbers are exact, no file is left half written."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import IO, Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from holdfast.errors import FileFormatError, InvalidInputError, MissingExtraError

# Where a file is, and an object of JSON, to be written or only to be read.
Place = str | os.PathLike[str]
Document = dict[str, Any]
Facts = Mapping[str, Any]

# Before a text that a spreadsheet takes for a formula, which a plain number is not; and the apostrophe before such.
_FORMULA = re.compile(r"\A(?='*[=+\-@\t\r])(?![+-]?[\d.]+(?:[eE][+-]?\d+)?\Z)")
_MARKED = re.compile(r"\A'(?='*[=+\-@\t\r])")

TABLES = (".csv", ".csv.gz", ".parquet")

# What is certified is the number in the file. Before 3.1 pandas read floats exactly only when asked to; since then it
# always does, and asking is deprecated.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _PANDAS < (3, 1) else {}


def read_csv(source: Path | IO[bytes], **options: Any) -> pd.DataFrame:
    """Read a CSV file, plain or compressed, with every number as it is written."""
    frame: pd.DataFrame = pd.read_csv(source, **_EXACT, **options)
    return frame


def is_parquet(path: Path) -> bool:
    """True if a table is Parquet, False if it is CSV, by its name; any other name is an error."""
    name = f"{path.name}.parquet" if path.is_dir() else path.name.lower()
    if not name.endswith(TABLES):
        raise InvalidInputError(
            f"{path}: expected a name that ends in {', '.join(TABLES)}, got {path.name!r}"
        )
    if name.endswith(".parquet") and importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("pyarrow", "parquet", "a Parquet file")
    return name.endswith(".parquet")


def write_csv(frame: pd.DataFrame, path: Path, **options: Any) -> None:
    """Write a table as CSV with an apostrophe before texts that begin with = + - @: a spreadsheet would run those.

    `without_apostrophes` removes the apostrophes; numbers stay as they are.
    """
    _texts_changed(frame, _FORMULA, "'").to_csv(path, lineterminator="\n", **options)


def without_apostrophes(frame: pd.DataFrame) -> pd.DataFrame:
    """Restore the texts that `write_csv` was given.

    Examples
    --------
    >>> without_apostrophes(pd.DataFrame({"key": ["'=1+1", "'s-Gravenhage"]}))["key"].tolist()
    ['=1+1', "'s-Gravenhage"]
    """
    return _texts_changed(frame, _MARKED, "")


def _texts_changed(frame: pd.DataFrame, old: re.Pattern[str], new: str) -> pd.DataFrame:
    """Replace the beginning of the table's texts; numbers and missing values stay as they are."""

    def changed(value: Any) -> Any:
        return old.sub(new, value, count=1) if isinstance(value, str) else value

    frame = frame.copy(deep=False)
    if not is_numeric_dtype(frame.index.dtype):
        frame.index = frame.index.map(changed)
    for place, dtype in enumerate(frame.dtypes):
        if not is_numeric_dtype(dtype):
            frame.isetitem(place, frame.iloc[:, place].map(changed).array)
    return frame


def write_table(frame: pd.DataFrame, path: Path, *, index: bool = True) -> None:
    """Write the table in the format of the file's name, with or without its index; same bytes on every system."""
    parquet = is_parquet(path)
    with whole_file(path) as beside:
        if parquet:
            frame.to_parquet(beside, index=None if index else False)
        else:
            write_csv(frame, beside, index=index)


def read_json(path: Path | Traversable, what: str = "JSON") -> Any:
    """Read a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path}: expected {what}, got: {error}") from error


def write_json(document: Any, path: Path) -> None:
    """Write plain data as JSON."""
    write_text(json.dumps(document, indent=1) + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Write text in UTF-8, the same bytes on every system."""
    with whole_file(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Write to a place next to `path` and rename it at the end: readers see the old file or the whole new one.

    The name of that place cannot be foreseen. A link that already has the name is an error and is not followed.
    """
    beside = path.with_name(f".{secrets.token_hex(8)}.partial.{path.name}")
    try:
        # O_EXCL follows no link.
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL, 0o666))
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
    """The path of a file, or an error that names the argument."""
    if not isinstance(place, str | os.PathLike):
        raise InvalidInputError(f"{name}: expected the name of a file or folder, got {place!r:.80}")
    return Path(place)


def check_place(path: Path) -> None:
    """Refuse a path that cannot be written, before any work is done."""
    if path.is_dir():
        raise InvalidInputError(f"{path}: expected the name of a file, got a folder")
    if not path.absolute().parent.is_dir():
        raise InvalidInputError(
            f"{path}: expected a file in an existing folder, got {path.parent}, which is not there"
        )
