"""A table through a verb, part by part: what is finished is kept beside the result, and a run that was killed goes on.

Parts are told apart by what went in: version, verb, options and the files that they name. So a part is never taken for
the answer to another question, and the result has the same bytes however often the run was interrupted.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

import holdfast as hf
from holdfast._files import is_parquet, whole_file
from holdfast._parallel import jobs, spread
from holdfast._progress import progress_bar
from holdfast.errors import InvalidInputError
from holdfast.scale import BatchFunction

# Files larger than this are told by their size and the time of their last change.
_HASHED = 2**26
# Rows after which one waits.
_LONG = 200_000


@dataclass(frozen=True)
class Parts:
    """Where the parts of a result are, and how they become it."""

    out: Path
    folder: Path
    parquet: bool

    @classmethod
    def of(cls, out: Path, question: str) -> Parts:
        """The parts of the answer to this question."""
        return cls(out, out.with_name(f".{out.name}.{question[:16]}.parts"), is_parquet(out))

    def path(self, number: int) -> Path:
        """The file of a part."""
        return self.folder / f"{number:08d}.{'parquet' if self.parquet else 'csv'}"

    def write(self, number: int, frame: pd.DataFrame) -> None:
        """Keep a part, whole or not at all."""
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidInputError(
                f"{self.out}: expected a file that can be written, got: {error}"
            ) from error
        with whole_file(self.path(number)) as beside:
            if self.parquet:
                # Quick to write and to read again: the result is what has to be small.
                frame.to_parquet(beside, compression=None, use_dictionary=_texts(frame))
            else:
                frame.to_csv(beside, header=False, lineterminator="\n")

    def read(self, number: int, like: pd.DataFrame) -> pd.DataFrame:
        """A part that was kept."""
        if self.parquet:
            return pd.read_parquet(self.path(number))
        names = [str(like.index.name), *like.columns]
        types = {name: dtype for name, dtype in like.dtypes.items() if dtype != "str"}
        options: dict[str, Any] = {"names": names, "index_col": 0, "dtype": types, "header": None}
        frame: pd.DataFrame = pd.read_csv(self.path(number), **options)
        return frame

    def join(self, count: int, first: pd.DataFrame) -> None:
        """All parts in one file, and nothing else left of them."""
        paths = [self.path(number) for number in range(count)]
        with whole_file(self.out) as beside:
            if self.parquet:
                _join_parquet(paths, beside)
            else:
                header = first.iloc[:0].to_csv(lineterminator="\n").encode()
                _join_csv(paths, beside, header, compressed=self.out.name.lower().endswith(".gz"))
        shutil.rmtree(self.folder)


def _texts(frame: pd.DataFrame) -> list[str]:
    return [str(name) for name, dtype in frame.dtypes.items() if not is_numeric_dtype(dtype)]


def _join_parquet(paths: list[Path], beside: Path) -> None:
    from pyarrow import parquet  # type: ignore[import-untyped]

    schema = parquet.read_schema(paths[0])
    texts = [name for name in schema.names if str(schema.field(name).type).endswith("string")]
    with parquet.ParquetWriter(beside, schema, use_dictionary=texts) as writer:
        for path in paths:
            writer.write_table(parquet.read_table(path))


def _join_csv(paths: list[Path], beside: Path, header: bytes, *, compressed: bool) -> None:
    with beside.open("wb") as plain:
        # Without the name and the time, which would be others every time.
        file: Any = gzip.GzipFile("", "wb", fileobj=plain, mtime=0) if compressed else plain
        file.write(header)
        for path in paths:
            with path.open("rb") as part:
                shutil.copyfileobj(part, file)
        if compressed:
            file.close()


def answers(
    function: BatchFunction,
    batches: Iterable[pd.DataFrame],
    *,
    total: int,
    out: Path | None,
    question: str,
    n_jobs: int,
) -> Iterator[pd.DataFrame]:
    """The answers, batch by batch in order; with `out`, kept as they come and joined there at the end."""
    parts = None if out is None else Parts.of(out, question)
    work = (
        (number, None if parts is not None and parts.path(number).exists() else batch)
        for number, batch in enumerate(batches)
    )
    first: pd.DataFrame | None = None
    bar = progress_bar(function.verb, total, wanted=None, long=_LONG)
    with jobs(n_jobs), bar as advance:
        count = 0
        for number, answer in spread(partial(_answer, function), work):
            if parts is not None and answer is not None:
                parts.write(number, answer)
            frame = parts.read(number, function.meta) if answer is None and parts else answer
            assert frame is not None
            first = frame if first is None else first
            count = number + 1
            advance(len(frame))
            yield frame
    if parts is not None and first is not None:
        parts.join(count, first)


def _answer(
    function: BatchFunction, part: tuple[int, pd.DataFrame | None]
) -> tuple[int, pd.DataFrame | None]:
    number, batch = part
    return number, None if batch is None else _numbered(function(batch))


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """Row numbers written down like any key: a file in parts cannot say that they go on."""
    index = frame.index
    return (
        frame.set_axis(pd.Index(index.to_numpy(), name=index.name))
        if isinstance(index, pd.RangeIndex)
        else frame
    )


def question_of(verb: str, options: object, **others: object) -> str:
    """A hash of everything that an answer depends on; of files, what is in them."""
    said = {field.name: getattr(options, field.name) for field in fields(options)} | others  # type: ignore[arg-type]
    lines = [hf.__version__, verb]
    for name, value in sorted(said.items()):
        lines.append(f"{name}={_identity(value) if isinstance(value, Path) else repr(value)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _identity(path: Path) -> str:
    """What a file holds, or the files of a folder; of a large one, its size and when it was last changed."""
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
