"""The whole ledger as a table in a file, written a batch at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.errors import InvalidInputError, MissingExtraError
from holdfast.promises.ledger_rows import FRAME_COLUMNS, Promises

_ENDINGS = (".csv", ".csv.gz", ".parquet")


def export(batches: Iterable[Promises], path: str | os.PathLike[str]) -> int:
    """Write beside `path`, then rename; returns the number of promises."""
    place = Path(os.fspath(path))
    ending = next((known for known in _ENDINGS if place.name.lower().endswith(known)), None)
    if ending is None:
        raise InvalidInputError(f"{path}: expected a name that ends in {', '.join(_ENDINGS)}")
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial{ending}")
    frames = (_as_text(batch.to_frame()) for batch in batches)
    try:
        written = _write_parquet(frames, partial) if ending == ".parquet" else _write_csv(frames, partial)
        os.replace(partial, place)
    except OSError as error:
        raise InvalidInputError(f"{path}: expected a file that can be written, got: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return written


def _as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Labels of different models may have different types, which one column of a file cannot hold."""
    return frame.assign(target=[str(label) for label in frame["target"]])


def _write_csv(frames: Iterable[pd.DataFrame], path: Path) -> int:
    pd.DataFrame(columns=list(FRAME_COLUMNS)).to_csv(path, index=False)
    count = 0
    for frame in frames:
        frame.to_csv(path, index=False, header=False, mode="a")
        count += len(frame)
    return count


def _write_parquet(frames: Iterable[pd.DataFrame], path: Path) -> int:
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet", "a Parquet file") from error
    numbers: dict[str, Any] = {
        "number": pyarrow.int64(), "threshold": pyarrow.float64(), "radius": pyarrow.float64()
    }  # fmt: skip
    schema = pyarrow.schema([(name, numbers.get(name, pyarrow.string())) for name in FRAME_COLUMNS])
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for frame in frames:
            writer.write_table(pyarrow.Table.from_pandas(frame, schema=schema, preserve_index=False))
            count += len(frame)
    return count
