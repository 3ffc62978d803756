"""What an audit reads of a ledger: pages, without their entries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import FileFormatError
from holdfast.network import Floats
from holdfast.promises.ledger_entries import VERDICT_CODES
from holdfast.promises.ledger_rows import as_objects


@dataclass(frozen=True, eq=False)
class Labels:
    """Whose promises these are, when they were made and which class was promised, page by page.

    A million keys are a moment to read as text and much longer to take apart, so that happens when they are asked for.

    Attributes
    ----------
    firsts, sizes
        The number of each page's first promise, and how many it has.
    dates, targets
        Each page's own.
    key_texts
        Each page's keys, as JSON.
    """

    firsts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    dates: tuple[str, ...]
    targets: tuple[Any, ...]
    key_texts: tuple[str, ...]

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @classmethod
    def together(cls, parts: Iterable[Labels]) -> Labels:
        """The pages of all the parts, in the order of the ledger."""
        known = list(parts)
        firsts = np.concatenate([np.empty(0, np.int64), *(part.firsts for part in known)])
        sizes = np.concatenate([np.empty(0, np.int64), *(part.sizes for part in known)])
        order = np.argsort(firsts, kind="stable")
        dates, targets, texts = (
            tuple(as_objects([value for part in known for value in getattr(part, name)])[order].tolist())
            for name in ("dates", "targets", "key_texts")
        )
        return cls(firsts[order], sizes[order], dates, targets, texts)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Where each promise stands in the ledger."""
        starts = np.cumsum(self.sizes) - self.sizes
        return np.repeat(self.firsts - starts, self.sizes) + np.arange(len(self))

    def of(self, rows: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The keys, dates and targets of some promises, given in rising order by their position among all of these."""
        ends = np.cumsum(self.sizes)
        pages = np.searchsorted(ends, rows, side="right")
        keys = np.empty(len(rows), dtype=object)
        for page in np.unique(pages).tolist():
            mine = slice(*np.searchsorted(pages, [page, page + 1]))
            names = self._keys(page)
            keys[mine] = [names[i] for i in (rows[mine] - ends[page] + self.sizes[page]).tolist()]
        return keys, as_objects(self.dates)[pages], as_objects(self.targets)[pages]

    def _keys(self, page: int) -> list[str]:
        try:
            names = json.loads(self.key_texts[page])
        except ValueError as error:
            raise FileFormatError(f"page {self.firsts[page]}: expected keys as JSON, got: {error}") from error
        if not isinstance(names, list) or len(names) != self.sizes[page]:
            raise FileFormatError(f"page {self.firsts[page]}: expected {self.sizes[page]} keys, got others")
        return names


@dataclass(frozen=True, eq=False)
class Overview:
    """What a ledger says of some promises under the same terms without opening them."""

    labels: Labels
    robust: NDArray[np.bool_]
    radius: Floats

    def __len__(self) -> int:
        return int(self.radius.shape[0])

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """Where each promise stands in the ledger."""
        return self.labels.numbers

    def by_target(self) -> list[tuple[Any, NDArray[np.bool_]]]:
        """Each class that was promised, and which of these promises did."""
        # 1, 1.0 and True are equal, and not the same; each is one object for all pages that were read together.
        kinds = {id(label): label for label in self.labels.targets}
        return [
            (label, np.repeat([other is label for other in self.labels.targets], self.labels.sizes))
            for label in kinds.values()
        ]

    @classmethod
    def of(cls, pages: Sequence[tuple[Any, ...]]) -> Overview:
        """From pages of (first, size, date, target as JSON, verdicts, radii, keys as JSON)."""
        firsts, sizes, dates, targets, verdicts, radii, keys = zip(*pages, strict=True)
        try:
            labels = {text: json.loads(text) for text in set(targets)}
            days = {date: date for date in dates}
            robust = np.frombuffer(b"".join(verdicts), dtype=np.uint8) == VERDICT_CODES["ROBUST"]
            radius = np.frombuffer(b"".join(radii), dtype="<f8")
            said = Labels(
                np.array(firsts, dtype=np.int64),
                np.array(sizes, dtype=np.int64),
                tuple(days[date] for date in dates),
                tuple(labels[text] for text in targets),
                keys,
            )
            fits = [*map(len, verdicts)] == [*sizes] and [*map(len, radii)] == [8 * size for size in sizes]
        except (TypeError, ValueError) as error:
            raise FileFormatError(
                f"pages {firsts[0]} to {firsts[-1]}: expected what a ledger writes: {error}"
            ) from error
        if not fits:
            raise FileFormatError(f"pages {firsts[0]} to {firsts[-1]}: expected as many radii as promises")
        return cls(said, robust, radius)
