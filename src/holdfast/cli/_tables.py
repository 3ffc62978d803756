"""The tables that commands read: people, points, advice, by key or row by row."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from holdfast._files import Document, check_place, is_parquet, read_csv, read_json
from holdfast.errors import FileFormatError, HoldfastError, InvalidInputError
from holdfast.features import FeatureSpace, Schema
from holdfast.features._serial import FORMAT
from holdfast.generators._recourse import ADDED_COLUMNS
from holdfast.importers import Model

# Rows that are read at once.
_ROWS = 2**16
# The columns that `explain` and `alternatives` add to those of people.
ADDED = (*ADDED_COLUMNS, "advice", "answer", "left_alone")


def read_table(
    path: Path,
    *,
    index: str | None = None,
    drop: Sequence[str] = (),
    space: FeatureSpace | None = None,
) -> pd.DataFrame:
    """The table in a file, keyed by the column `index`, without the columns `drop`.

    A key is text in every kind of file: 007 is not 7, and NA may be a person's initials. A label in a CSV file is text,
    too, if all labels of its column in the space are text.
    """
    return pd.concat(TableFile(path, index, tuple(drop), space).batches(None))


@dataclass(frozen=True)
class TableFile:
    """A table in a file, or in a folder of Parquet files, to be read a batch at a time; see `read_table`."""

    path: Path
    index: str | None = None
    drop: tuple[str, ...] = ()
    space: FeatureSpace | None = None
    # Columns to leave out that another table has, and that may be missing here.
    elsewhere: Collection[str] = ()

    def __len__(self) -> int:
        with _readable(self.path):
            return int(self._dataset.count_rows()) if is_parquet(self.path) else self._types[1]

    def batches(self, size: int | None) -> Iterator[pd.DataFrame]:
        """The rows in batches of this size, with the types of the whole table; None: all at once."""
        count = 0
        with _readable(self.path):
            frames = self._parquet(size) if is_parquet(self.path) else self._csv(size)
            for frame in frames:
                if isinstance(frame.index, pd.RangeIndex):
                    frame.index = pd.RangeIndex(count, count + len(frame))
                count += len(frame)
                yield self._keyed(frame)
        if not count:
            raise InvalidInputError(f"{self.path}: expected at least one row, got none")

    def _keyed(self, frame: pd.DataFrame) -> pd.DataFrame:
        if self.index is not None and frame.index.name == self.index:
            frame = frame.reset_index()
        # Of Parquet files they are not even read.
        others = [] if is_parquet(self.path) else self._others
        needed = [name for name in others if name not in self.elsewhere]
        for column in needed if self.index is None else [self.index, *needed]:
            if column not in frame.columns:
                hint = ""
                if len(frame.columns) == 1 and ";" in str(frame.columns[0]):
                    hint = "; is it separated by semicolons? Save it with commas, and with points in its numbers"
                raise InvalidInputError(
                    f"{self.path}: expected a column {column!r}, got {list(frame.columns)}{hint}"
                )
        frame = frame.rename_axis("row") if self.index is None else frame.set_index(self.index)
        return frame.drop(columns=others, errors="ignore") if others else frame

    @property
    def _others(self) -> list[str]:
        """The columns to leave out."""
        return [name for name in self.drop if name != self.index]

    @property
    def _texts(self) -> list[str]:
        """The key, and the columns whose labels are all text."""
        labelled = [
            str(feature.name)
            for feature in (() if self.space is None else self.space.features)
            if feature.labelled and all(isinstance(label, str) for label in feature.categories)
        ]
        return [name for name in dict.fromkeys([*labelled, self.index]) if name is not None]

    @cached_property
    def _dataset(self) -> Any:
        return _dataset_of(self)

    def _parquet(self, size: int | None) -> Iterator[pd.DataFrame]:
        """Row groups as they come, cut into batches that do not depend on how large they are."""
        waiting: list[Any] = []
        n = 0
        for batch in _row_groups(self._dataset):
            while batch.num_rows:
                waiting.append(batch if size is None else batch.slice(0, size - n))
                batch = batch.slice(waiting[-1].num_rows)
                n += waiting[-1].num_rows
                if n == size:
                    yield self._frame(waiting, size)
                    waiting, n = [], 0
        if waiting:
            yield self._frame(waiting, size)

    def _frame(self, batches: list[Any], size: int | None) -> pd.DataFrame:
        import pyarrow  # type: ignore[import-untyped]

        table = pyarrow.Table.from_batches(batches)
        place = table.schema.get_field_index(self.index or "")
        if place >= 0:
            table = table.set_column(place, self.index, table.column(place).cast("string"))
        table = table.replace_schema_metadata(self._dataset.schema.metadata)
        # Columns of a batch stay where they were decoded: the other core, which judges them, has to join them anyway.
        batch = size is not None
        frame: pd.DataFrame = table.to_pandas(split_blocks=batch, use_threads=not batch)
        return frame

    def _csv(self, size: int | None) -> Iterator[pd.DataFrame]:
        header = read_csv(self.path, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
        twice = header[header.duplicated() & (header != "")]
        if len(twice):
            raise FileFormatError(
                f"{self.path}: expected each column once, got {twice.iloc[0]!r} twice"
            )
        first = next(self._chunks(size, {}), None)
        if first is None:
            return
        if size is None or len(first) < size:
            yield first
        else:
            # A column may have other types further down than at its beginning.
            yield from self._chunks(size, self._types[0])

    def _chunks(self, size: int | None, types: Document) -> Iterator[pd.DataFrame]:
        """Chunks with the key, and labels that are text, as they are written; an empty cell is a missing label."""
        names = read_csv(self.path, nrows=0).columns
        texts = [name for name in self._texts if name in names]
        plain = _csv_parts(self.path, size, dtype=types)
        options = {"usecols": texts, "dtype": str, "keep_default_na": False}
        written = _csv_parts(self.path, size, **options) if texts else None
        for frame in plain:
            text = frame.iloc[:, :0] if written is None else next(written)
            for name in texts:
                own = text[name]
                frame[name] = own if name == self.index else own.where(own != "", other=None)
            yield frame

    @cached_property
    def _types(self) -> tuple[Document, int]:
        """The types of the whole columns of a CSV file, and its number of rows."""
        types: dict[str, set[Any]] = {}
        rows = 0
        for chunk in _csv_parts(self.path, _ROWS):
            rows += len(chunk)
            for name, dtype in chunk.dtypes.items():
                types.setdefault(str(name), set()).add(dtype)
        return {name: _common(found) for name, found in types.items()}, rows


def _common(types: set[Any]) -> Any:
    """The type of a column whose parts have these: a number among texts is one of them."""
    if len(types) == 1:
        return next(iter(types))
    numbers = all(is_numeric_dtype(one) and not is_bool_dtype(one) for one in types)
    return np.dtype(np.float64) if numbers else str


def _dataset_of(table: TableFile) -> Any:
    """A Parquet file, a folder of them, or one that is partitioned by the names of its folders, without some columns.

    Files have the same columns, each of one type or of types that go into a common one; folders' names are whole
    numbers where all of them are, but in the columns that are `texts`.
    """
    import pyarrow
    from pyarrow import dataset as arrow

    path, drop = table.path, table._others
    files = _parquet_files(path)
    # Of one file, the folders that lead to it.
    folders = [(file.relative_to(path) if path.is_dir() else file).parent.parts for file in files]
    said: dict[str, set[str]] = {}
    for name, _, value in (
        part.partition("=") for parts in folders for part in parts if "=" in part
    ):
        said.setdefault(name, set()).add(value)
    named = {
        name: pyarrow.string() if name in table._texts or not _numbers(values) else pyarrow.int32()
        for name, values in said.items()
    }
    source = arrow.dataset(
        path, format="parquet", partitioning=arrow.partitioning(pyarrow.schema(named.items()), flavor="hive"),
        schema=pyarrow.schema([]),
    )  # fmt: skip
    whole: dict[str, Any] = {}
    metadata = None
    changed = set[str]()
    unknown = set(drop) - set(table.elsewhere)
    for fragment in source.get_fragments():
        physical = fragment.physical_schema
        keys = arrow.get_partition_keys(fragment.partition_expression)
        if twice := [
            name for name in physical.names if name in keys or physical.names.count(name) > 1
        ]:
            where = "a folder's name and the file" if twice[0] in keys else "the file twice"
            raise FileFormatError(
                f"{fragment.path}: expected the column {twice[0]!r} in one place, got it in {where}"
            )
        unknown -= {*physical.names, *keys}
        own = {name: physical.field(name).type for name in physical.names if name not in drop}
        own |= {name: named[name] for name in keys if name not in drop}
        metadata = physical.metadata if metadata is None else metadata
        whole = whole or own
        for name, found in own.items():
            if name not in whole:
                raise FileFormatError(
                    f"{fragment.path}: expected no column {name!r}, as in the first file of {path}, got one; "
                    f"--drop {name} leaves it out"
                )
            common = _common_type(whole[name], found)
            if common is None:
                raise FileFormatError(
                    f"{fragment.path}: expected {whole[name]} in the column {name!r}, as in the first file of {path}, "
                    f"got {found}"
                )
            changed |= {name} if common != whole[name] else set()
            whole[name] = common
        if missing := set(whole) - set(own):
            raise FileFormatError(
                f"{fragment.path}: expected the column {min(missing)!r}, as in the first file of {path}, got "
                f"{[*own]}"
            )
    if unknown:
        raise InvalidInputError(f"{path}: expected a column {min(unknown)!r}, got {[*whole]}")
    return source.replace_schema(
        pyarrow.schema(whole.items(), metadata=_without(metadata or {}, changed))
    )


def _without(metadata: dict[bytes, bytes], changed: set[str]) -> dict[bytes, bytes]:
    """The metadata of pandas, except for columns with new types."""
    if b"pandas" not in metadata or not changed:
        return metadata
    said = json.loads(metadata[b"pandas"])
    said["columns"] = [column for column in said["columns"] if column["name"] not in changed]
    return metadata | {b"pandas": json.dumps(said).encode()}


def _numbers(texts: Collection[str]) -> bool:
    """Whether the names of folders are whole numbers of 32 bits."""
    known = [text for text in texts if text != "__HIVE_DEFAULT_PARTITION__"]
    return all(re.fullmatch(r"-?\d+", text) and abs(int(text)) < 2**31 for text in known)


def _common_type(one: Any, other: Any) -> Any:
    """The type that keeps every value of both; None: there is none."""
    from pyarrow import large_string, types

    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    for alike in (types.is_signed_integer, types.is_unsigned_integer, types.is_floating):
        if alike(one) and alike(other):
            return max(one, other, key=lambda kind: kind.bit_width)
    plain = [kind.value_type if types.is_dictionary(kind) else kind for kind in (one, other)]
    text = all(types.is_string(kind) or types.is_large_string(kind) for kind in plain)
    return large_string() if text else None


def _parquet_files(path: Path) -> list[Path]:
    """The Parquet files of a folder; files whose names begin with _ or . are not read, other kinds are errors."""
    files = []
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        own = file.relative_to(path).parts
        if any(part.startswith(("_", ".")) for part in own) or not file.is_file():
            continue
        files.append(file)
        with file.open("rb") as opened:
            start = opened.read(4)
        if not start:
            raise FileFormatError(f"{file}: expected a Parquet file, got an empty file")
        if start != b"PAR1" and path.is_dir():
            raise FileFormatError(
                f"{file}: expected only Parquet files in {path}, got a file of another kind; move it, or "
                "let its name begin with _"
            )
    if not files:
        raise FileFormatError(f"{path}: expected a Parquet file in this folder, got none")
    return files


def _row_groups(source: Any) -> Iterator[Any]:
    """Its record batches, a row group after the other: they may be large."""
    import pyarrow
    from pyarrow import dataset as arrow

    options = {
        "schema": source.schema,
        # The other core judges rows.
        "use_threads": False,
        # A copy of the file's bytes in memory pays off only where they come from far away.
        "fragment_scan_options": arrow.ParquetFragmentScanOptions(pre_buffer=False),
        # Memory that the next row group uses again; Arrow's own pool would return it to the system.
        "memory_pool": pyarrow.system_memory_pool(),
    }
    for fragment in source.get_fragments():
        for group in fragment.split_by_row_group():
            yield from group.to_table(**options).to_batches()


def _csv_parts(path: Path, size: int | None, **options: Any) -> Iterator[pd.DataFrame]:
    if size is None:
        yield read_csv(path, **options)
        return
    parts: Any = read_csv(path, chunksize=size, **options)
    with parts:
        yield from parts


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except HoldfastError:
        raise
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path}: expected a table in UTF-8, got another encoding: {error}"
        ) from error
    except (ValueError, OSError) as error:
        raise FileFormatError(
            f"{path}: expected a table, got a file that cannot be read: {error}"
        ) from error


def read_schema(path: Path | None) -> tuple[FeatureSpace | None, Hashable]:
    """The feature space in a file of `FeatureSpace.to_dict` or of `holdfast schema`, and its label column."""
    if path is None:
        return None, None
    data = read_json(path)
    if isinstance(data, dict) and data.get("format") == FORMAT:
        return FeatureSpace.from_dict(data), None
    return FeatureSpace.from_schema(path), Schema.from_dict(data, str(path)).target


def own_columns(
    frame: pd.DataFrame, model: Model, path: Path, space: FeatureSpace | None = None
) -> pd.DataFrame:
    """The columns that the model reads: by name if it knows names, else all except those that `explain` added.

    Without names the number of columns must match, unless a space picks them.
    """
    names = list(model.feature_names or ())
    if names or space is not None:
        return frame[names] if names and set(names) <= set(frame.columns) else frame
    added = [name for name in map(partial(advice_name, frame), ADDED) if name is not None]
    frame = frame.drop(columns=added) if added else frame
    expected = model.classifier.n_features
    if model.preprocess is None and len(frame.columns) != expected:
        raise InvalidInputError(
            f"{path}: expected {expected} columns, one for each variable of the model, got {len(frame.columns)}: "
            f"{', '.join(map(str, frame.columns))} (--index makes one the key, --drop leaves one out)"
        )
    return frame


def advice_name(frame: pd.DataFrame, name: str) -> str | None:
    """The name of a column that `explain` added; None in other tables."""
    if not {"optimality_gap", "recourse_optimality_gap"} & set(frame.columns):
        return None
    return next((own for own in (f"recourse_{name}", name) if own in frame.columns), None)


def answered(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with advice in a file of `explain`; all rows of other tables."""
    found = advice_name(frame, "found")
    return frame if found is None else frame[frame[found].to_numpy(dtype=np.bool_)]


def rows_by_key(table: pd.DataFrame, wanted: pd.DataFrame, path: Path, whose: str) -> pd.DataFrame:
    """The rows of a table with the keys of another, in its order; keys are compared as text."""
    keys = wanted.index.map(str)
    known = table.index.map(str)
    index = table.index.name
    if not known.is_unique:
        raise InvalidInputError(f"{path}: expected each {index!r} once, got repeated ones")
    missing = keys.difference(known)
    if len(missing):
        raise InvalidInputError(
            f"{path}: expected every {index!r} of {whose}, got none for {missing[0]!r}"
        )
    return table.iloc[known.get_indexer(keys)]


def column_of(people: pd.DataFrame, name: str, data: Path, option: str) -> pd.Series:
    """The column that an option names."""
    if name not in people.columns:
        raise InvalidInputError(
            f"{data}: expected a column {name!r} for {option}, got {list(people.columns)}"
        )
    return people[name]


def check_output(path: Path | None, *, table: bool = True) -> None:
    """Refuse an output that cannot be written, before any work."""
    if path is None:
        return
    check_place(path)
    if table:
        is_parquet(path)
