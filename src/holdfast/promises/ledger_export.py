"""The whole ledger as a table in a file, written a batch at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.files import is_parquet, whole_file
from holdfast.promises.ledger_rows import FRAME_COLUMNS, Promises


def export(batches: Iterable[Promises], path: str | os.PathLike[str]) -> int:
    """Write the table as the file's name says; returns the number of promises."""
    place = Path(path)
    write = _write_parquet if is_parquet(place) else _write_csv
    with whole_file(place) as partial:
        return write((_as_text(batch.to_frame()) for batch in batches), partial)


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
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow import parquet

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
