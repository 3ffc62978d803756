"""A table through a verb, part by part: finished parts are kept next to the result, and an interrupted run continues.

A hash of version, verb, options and input files names the parts. So a part never belongs to another question, and the
result has the same bytes after any number of interruptions. Tables are read, judged and written in parallel.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from threadpoolctl import threadpool_limits

import holdfast as hf
from holdfast._files import is_parquet, whole_file, without_apostrophes, write_csv
from holdfast._parallel import ahead, beside, jobs
from holdfast._progress import progress_bar
from holdfast.errors import InvalidInputError

if sys.platform != "win32":  # where there is no such lock, two runs at once are not noticed
    import fcntl

T = TypeVar("T")
# A part's number and its frame; None: it was kept.
Keep = Callable[[int, pd.DataFrame | None], None]
# Larger files are identified by their size and the time of their last change.
_HASHED = 2**26
# Rows from which a progress bar is shown.
_LONG = 200_000


@dataclass(frozen=True)
class Parts:
    """The parts of a result, with the columns of `like`, and how they are joined."""

    out: Path
    folder: Path
    parquet: bool
    like: pd.DataFrame

    @classmethod
    def of(cls, out: Path, question: str, like: pd.DataFrame) -> Parts:
        """The parts of the result of this question."""
        return cls(out, out.with_name(f".{out.name}.{question[:16]}.parts"), is_parquet(out), like)

    def path(self, number: int) -> Path:
        """The file of a part."""
        return self.folder / f"{number:08d}.{'arrow' if self.parquet else 'csv'}"

    def write(self, number: int, frame: pd.DataFrame) -> None:
        """Write a part, completely or not at all."""
        with whole_file(self.path(number)) as beside:
            if self.parquet:
                _write_arrow(frame, beside)
            else:
                write_csv(frame, beside, header=number == 0)

    def read(self, number: int) -> Any:
        """A part that was kept."""
        if self.parquet:
            return _keyed(_read_arrow(self.path(number)), self.like)
        names = [str(self.like.index.name), *self.like.columns]
        types = {name: dtype for name, dtype in self.like.dtypes.items() if dtype != "str"}
        options: dict[str, Any] = {"names": names, "index_col": 0, "dtype": types, "header": None}
        part = pd.read_csv(self.path(number), skiprows=int(number == 0), **options)
        return without_apostrophes(part)

    @contextmanager
    def growing(self) -> Iterator[Keep]:
        """Keep parts, in their order, and add each to the result; at the end only the result is left."""
        with self._held():
            beside = self.folder / "whole"
            compressed = self.out.name.lower().endswith(".gz")
            whole: _Parquet | _Csv = (
                _Parquet(beside, self.like) if self.parquet else _Csv(beside, compressed)
            )

            def keep(number: int, frame: pd.DataFrame | None) -> None:
                if frame is not None:
                    self.write(number, frame)
                with self._writable():
                    whole.add(self.path(number))

            try:
                yield keep
            finally:
                with self._writable():
                    whole.close()
            with self._writable():
                os.replace(beside, self.out)
            for path in self.folder.glob("0*"):
                path.unlink()

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Lock the folder for this run; remove it afterwards if it has no parts."""
        with self._writable():
            self.folder.mkdir(exist_ok=True)
            run = (self.folder / "run").open("a+", encoding="utf-8")
        with run:
            self._lock(run)
            try:
                yield
            finally:
                if not any(self.folder.glob("0*")):
                    shutil.rmtree(self.folder)

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidInputError(f"{self.out}: the file cannot be written: {error}") from error

    def _lock(self, run: Any) -> None:
        if sys.platform == "win32":
            return
        try:
            # The lock of a killed process ends.
            fcntl.flock(run, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            run.seek(0)
            raise InvalidInputError(
                f"{self.out}: another run writes this file: process {run.read()}. "
                "Wait for it, or end it; this command then continues its work"
            ) from None
        run.truncate(0)
        run.write(str(os.getpid()))
        run.flush()


def _write_arrow(frame: pd.DataFrame, path: Path) -> None:
    """Write a part quickly; only the result has to be small. Categories stay categories."""
    import pyarrow  # type: ignore[import-untyped]

    # The key is converted alone: with it, every converted column would search its name among the keys. No threads: the
    # other core judges rows.
    table = pyarrow.Table.from_pandas(
        frame.reset_index(drop=True), preserve_index=False, nthreads=1
    )
    table = table.append_column("", pyarrow.array(frame.index))
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as ipc:
        ipc.write_table(table)


def _read_arrow(path: Path) -> Any:
    import pyarrow

    with pyarrow.memory_map(str(path)) as file:
        return pyarrow.ipc.open_file(file).read_all()


def _keyed(table: Any, like: pd.DataFrame) -> pd.DataFrame:
    """The written frame, with its key, which is the last column."""
    last = table.num_columns - 1
    frame: pd.DataFrame = table.remove_column(last).to_pandas()
    return frame.set_index(table.column(last).to_pandas().rename(like.index.name))


class _Parquet:
    """The result as it grows."""

    def __init__(self, path: Path, like: pd.DataFrame) -> None:
        self.path, self.like = path, like
        self.writer: Any = None
        self.names: list[str] = []

    def add(self, part: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        table = _read_arrow(part)
        if self.writer is None:
            # The schema names the key column, and turns categories into text.
            first = _keyed(table.slice(0, 1), self.like).astype(self.like.dtypes.to_dict())
            schema = pyarrow.Schema.from_pandas(first)
            said = {**schema.metadata, "ARROW:schema": base64.b64encode(schema.serialize())}
            self.names = schema.names
            own = table.rename_columns(self.names).schema
            # Repeated texts are written once, except keys. Extremes are for numbers.
            texts = [one.name for one in own if "string" in str(one.type)]
            self.writer = parquet.ParquetWriter(
                self.path,
                own,
                use_dictionary=[name for name in texts if name != self.names[-1]],
                write_statistics=[name for name in self.names if name not in texts],
                store_schema=False,
            )
            self.writer.add_key_value_metadata(said)
        self.writer.write_table(table.rename_columns(self.names))

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


class _Csv:
    """The result as CSV, as it grows."""

    def __init__(self, path: Path, compressed: bool) -> None:
        self.plain = path.open("wb")
        # Without the name and the time, which would differ every time.
        self.file: Any = self.plain
        if compressed:
            self.file = gzip.GzipFile("", "wb", fileobj=self.plain, mtime=0)

    def add(self, part: Path) -> None:
        with part.open("rb") as file:
            shutil.copyfileobj(file, self.file)

    def close(self) -> None:
        self.file.close()
        self.plain.close()


def answers(
    function: Callable[[T], pd.DataFrame],
    batches: Iterable[T],
    *,
    verb: str,
    like: pd.DataFrame,
    total: int,
    out: Path | None,
    question: str,
    n_jobs: int,
) -> Iterator[pd.DataFrame]:
    """The results, batch by batch in order, with the columns of `like`; with `out`, kept and joined there."""
    bar = progress_bar(verb, total, wanted=None, long=_LONG, lines=True)
    # Other cores read and write meanwhile; threads inside small matrix products would only slow them.
    with jobs(n_jobs), threadpool_limits(1), bar as advance:
        if out is None:
            for frame in beside(function, ahead(batches)):
                advance(len(frame))
                yield frame
            return
        parts = Parts.of(out, question, like)
        with parts.growing() as keep:
            work = (
                (number, None if parts.path(number).exists() else batch)
                for number, batch in enumerate(ahead(batches))
            )
            for number, answer in beside(partial(_answer, function), work):
                keep(number, answer)
                frame = parts.read(number) if answer is None else answer
                advance(len(frame))
                yield frame


def _answer(
    function: Callable[[T], pd.DataFrame], part: tuple[int, T | None]
) -> tuple[int, pd.DataFrame | None]:
    number, batch = part
    if batch is None:
        return number, None
    frame = function(batch)
    if isinstance(frame.index, pd.RangeIndex):
        # Row numbers are written like any key: a file in parts cannot continue a range.
        frame = frame.set_axis(pd.Index(frame.index.to_numpy(), name=frame.index.name))
    return number, frame


def question_of(verb: str, options: object, **others: object) -> str:
    """A hash of everything that the result depends on, with the contents of files."""
    said = {field.name: getattr(options, field.name) for field in fields(options)} | others  # type: ignore[arg-type]
    lines = [hf.__version__, verb]
    for name, value in sorted(said.items()):
        listed = value if isinstance(value, list) else [value]
        parts = [_identity(one) if isinstance(one, Path) else repr(one) for one in listed]
        lines.append(f"{name}={','.join(parts)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _identity(path: Path) -> str:
    """The contents of a file or folder; of a large file, its size and last change."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    said = []
    for file in files:
        state = file.stat()
        if state.st_size > _HASHED:
            said.append(f"{file.relative_to(path)}:{state.st_size}:{state.st_mtime_ns}")
        else:
            said.append(f"{file.relative_to(path)}:{hashlib.sha256(file.read_bytes()).hexdigest()}")
    return ";".join(said)


def peeked(batches: Iterator[pd.DataFrame]) -> tuple[pd.DataFrame, Iterator[pd.DataFrame]]:
    """The first batch, and all of them."""
    first = next(batches)
    return first, chain([first], batches)
