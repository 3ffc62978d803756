"""`audit`: which of the promises made so far does a new model keep?"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast import checker
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators.reading import model_points, own_columns
from holdfast.importers import Model, load_model
from holdfast.network import Floats, Network
from holdfast.progress import progress_bar
from holdfast.promises.audit_compare import Comparison, compare, same_encoding
from holdfast.promises.audit_reading import accepted_rows, readable_rows, reading_of
from holdfast.promises.audit_result import BROKEN, CERTAIN, KEPT, UNREADABLE, Audit, Group, totals_of
from holdfast.promises.certificate import checker_model
from holdfast.promises.ledger import Ledger
from holdfast.promises.ledger_rows import Overview
from holdfast.promises.ledger_terms import Terms, at_threshold, check_threshold
from holdfast.verify import certified_radius
from holdfast.verify.margins import least_margins

# With fewer promises an audit is over before a bar could be read.
_LONG = 200_000
_BATCH = 20_000


def audit(
    ledger: Ledger | str | os.PathLike[str],
    model: object,
    *,
    space: FeatureSpace | None = None,
    threshold: float = 0.5,
    radius: bool = False,
    batch: int = _BATCH,
    progress: bool | None = None,
) -> Audit:
    """Does a new model keep the promises in a ledger?

    A promise whose certificate covers the new model is kept for certain, and the model is not even run on it. The
    others are decided by running it on the promised row, in raw units, through its own preprocessing.

    Parameters
    ----------
    ledger
        The ledger or its file. Promises that are added meanwhile are left out.
    model
        The new model: anything that `load_network` takes.
    space
        How it reads raw values, where that has changed: a scaler or an encoder fitted anew. By default that of the
        model's own preprocessing, with which a space given has to agree, else that of each promise.
    threshold
        The probability from which on its user says class 1.
    radius
        Also compute, for the promises that are kept, how far the model may move from here before they can break. It
        costs more than everything else.
    batch
        How many promises are read at once.
    progress
        Show a progress bar on stderr; by default for long ledgers if stderr is a terminal.

    Examples
    --------
    >>> import tempfile
    >>> from holdfast import PlausibleChanges
    >>> def classifier(weight):
    ...     return Network([[[-1.0, weight]]], [[0.0]])
    >>> x, promised = pd.DataFrame({"debt": [0.7], "income": [0.5]}), pd.DataFrame({"debt": [0.7], "income": [0.9]})
    >>> with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/promises.ledger") as ledger:
    ...     _ = ledger.add_frame(classifier(1.0), x, promised, target=1, changes=PlausibleChanges(0.05), keys=["Ann"])
    ...     [str(audit(ledger, classifier(weight)).status[0]) for weight in (1.01, 1.5, 0.5)]
    ['KEPT_FOR_CERTAIN', 'KEPT', 'BROKEN']
    """
    if not isinstance(ledger, Ledger):
        with Ledger(ledger, create=False) as opened:
            return audit(
                opened, model, space=space, threshold=threshold, radius=radius, batch=batch, progress=progress
            )  # fmt: skip
    if space is not None and not isinstance(space, FeatureSpace):
        raise InvalidInputError(f"space: expected a FeatureSpace, got {space!r}")
    newcomer = _Newcomer(load_model(model), space, check_threshold(threshold))
    last, head = ledger.end
    found, groups = _Findings(radius), []
    with progress_bar("audit", last, wanted=progress, long=_LONG) as advance:
        for terms in ledger.terms:
            judge = _Judge(newcomer, terms, ledger, last, batch)
            start = len(found.codes)
            for rows in ledger.overview(terms, last=last, batch=batch):
                certain = judge.certain(rows)
                codes, margin, left = np.full(len(rows), CERTAIN, np.int8), np.full(len(rows), np.nan), None
                if radius or not certain.all():
                    codes, margin, left = judge.run(rows, certain, radius)
                found.add(rows, codes, margin, left)
                if advance is not None:
                    advance(len(rows))
            groups.append(judge.group(found.codes[start:]))
    found.check_complete(last)
    return found.audit(tuple(groups), newcomer, head)


@dataclass(frozen=True, eq=False)
class _Newcomer:
    """The new model."""

    loaded: Model
    space: FeatureSpace | None
    threshold: float

    @cached_property
    def decision(self) -> Network:
        return at_threshold(self.loaded.network, self.threshold)


class _Judge:
    """The new model before the promises made under the same terms."""

    def __init__(self, newcomer: _Newcomer, terms: Terms, ledger: Ledger, last: int, batch: int) -> None:
        self.newcomer, self.terms, self.ledger, self.last, self.batch = newcomer, terms, ledger, last, batch
        self.space = reading_of(newcomer.loaded, newcomer.space, terms.space, self._example)
        if newcomer.space is not None and newcomer.loaded.preprocess is not None:
            self._check_same_reading(newcomer.space)
        self.same = self.space is not None and same_encoding(terms.space, self.space)
        network = newcomer.loaded.network
        self.comparison: Comparison = compare(terms, network, newcomer.threshold, self.space, self._reach)
        self.distance = self.comparison.distance(terms.norm, terms.biases)
        self.inside = terms.changes is not None and self.comparison.within(terms.changes)

    def _example(self) -> pd.DataFrame:
        """Some of the promised rows."""
        promises = next(self.ledger.promises(batch=1000, terms=self.terms, last=self.last), None)
        return pd.DataFrame(columns=list(self.terms.space.names)) if promises is None else promises.counterfactuals

    def _check_same_reading(self, space: FeatureSpace) -> None:
        """Hold the caller's space against the model's own preprocessing, on every promised row."""
        for promises in self.ledger.promises(batch=self.batch, terms=self.terms, last=self.last):
            readable = readable_rows(space, promises.counterfactuals)
            if readable.any():
                model_points(self.newcomer.loaded, promises.counterfactuals[readable], space)

    def _reach(self) -> Floats:
        """The largest |u| of each variable over the promises."""
        largest = np.zeros(self.terms.space.n_variables)
        for rows in self.ledger.overview(self.terms, last=self.last, batch=self.batch):
            points = self.ledger.points(self.terms, int(rows.numbers[0]), int(rows.numbers[-1]))
            np.maximum(largest, np.abs(points).max(axis=0), out=largest)
        return largest

    def certain(self, rows: Overview) -> NDArray[np.bool_]:
        """Which promises their own certificate, or their radius, covers."""
        return np.asarray((rows.radius > self.distance) | (rows.robust & self.inside))

    def run(
        self, rows: Overview, certain: NDArray[np.bool_], radius: bool
    ) -> tuple[NDArray[np.int8], Floats, Floats | None]:
        """Run the model on the promises in `rows` that are not certain."""
        points, readable = self._points(rows.numbers, ~certain | radius)
        codes = np.where(certain, CERTAIN, UNREADABLE).astype(np.int8)
        margin = np.full(len(rows), np.nan)
        left = np.full(len(rows), np.nan) if radius else None
        network = self.newcomer.decision
        for label in dict.fromkeys(rows.targets.tolist()):
            target = _class_index(network, label)
            mine = (rows.targets == label) & readable
            asked = np.flatnonzero(mine & ~certain)
            if asked.size:
                margin[asked] = least_margins(network, target, points[asked])
                codes[asked] = np.where(margin[asked] > 0.0, KEPT, BROKEN)
                ties = asked[margin[asked] == 0.0]
                if ties.size:
                    codes[ties] = np.where(network.predict_index(points[ties]) == target, KEPT, BROKEN)
            kept = np.flatnonzero(mine & (codes <= KEPT))
            if left is not None and network.rectified and kept.size:
                left[kept] = certified_radius(network, points[kept], label).lower
        return codes, margin, left

    def _points(self, numbers: NDArray[np.int64], wanted: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
        """The promised rows as the new model reads them, those that are wanted, and which of them it can read."""
        if self.same:
            return self.ledger.points(self.terms, int(numbers[0]), int(numbers[-1])), wanted
        frame = self.ledger.counterfactual_rows(self.terms, numbers[wanted])
        points, readable = np.zeros((len(numbers), self.newcomer.decision.n_features)), wanted.copy()
        if self.space is None:
            promised = self.terms.space.restore(self.terms.space.numbers(frame))
            loaded, can = self.newcomer.loaded, accepted_rows(self.newcomer.loaded, promised, self.terms.space)
            readable[wanted] = can
            if can.any():
                points[readable] = loaded.variables(own_columns(loaded, promised[can]))
            return points, readable
        try:
            points[wanted] = self.space.encode(frame)
        except InvalidInputError:
            can = readable_rows(self.space, frame)
            readable[wanted] = can
            if can.any():
                points[readable] = self.space.encode(frame[can])
        return points, readable

    def group(self, parts: list[NDArray[np.int8]]) -> Group:
        """What is said of these promises together."""
        found, codes = self.comparison, np.concatenate([np.empty(0, np.int8), *parts])
        return Group(self.terms, found.how, found.why_not, self.distance, self.inside, totals_of(codes))


def _class_index(network: Network, label: Any) -> int:
    try:
        return network.class_index(label)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"model: expected one with the class {label!r}, which was promised, got the classes "
            f"{network.classes.tolist()}"
        ) from error


@dataclass(frozen=True, eq=False)
class _Findings:
    """What has been found so far, batch by batch."""

    radius: bool
    numbers: list[NDArray[np.int64]] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    dates: list[Any] = field(default_factory=list)
    targets: list[Any] = field(default_factory=list)
    codes: list[NDArray[np.int8]] = field(default_factory=list)
    margin: list[Floats] = field(default_factory=list)
    left: list[Floats] = field(default_factory=list)

    def add(self, rows: Overview, codes: NDArray[np.int8], margin: Floats, left: Floats | None) -> None:
        self.numbers.append(rows.numbers)
        self.keys.append(rows.keys)
        self.dates.append(rows.dates)
        self.targets.append(rows.targets)
        self.codes.append(codes)
        self.margin.append(margin)
        if self.radius:
            self.left.append(np.full(len(rows), np.nan) if left is None else left)

    def check_complete(self, last: int) -> None:
        """Refuse to speak for a ledger of which not every promise was seen, each once."""
        seen = np.sort(np.concatenate([np.empty(0, np.int64), *self.numbers]))
        if not np.array_equal(seen, np.arange(1, last + 1)):
            raise FileFormatError(
                f"ledger: expected the promises 1 to {last}, each once, got {len(seen)} of which "
                f"{len(np.unique(seen))} differ: the file is damaged or was tampered with; `verify` says where"
            )

    def audit(self, groups: tuple[Group, ...], newcomer: _Newcomer, head: str) -> Audit:
        def together(parts: list[Any], dtype: Any) -> Any:
            return np.concatenate(parts) if parts else np.empty(0, dtype)

        numbers = together(self.numbers, np.int64)
        order = np.argsort(numbers, kind="stable")
        return Audit(
            numbers=numbers[order],
            keys=together(self.keys, object)[order],
            dates=together(self.dates, object)[order],
            targets=together(self.targets, object)[order],
            codes=together(self.codes, np.int8)[order],
            margin=together(self.margin, np.float64)[order],
            radius_left=together(self.left, np.float64)[order] if self.radius else None,
            groups=groups,
            model=checker_model(newcomer.loaded.network).sha256,
            space=None if newcomer.space is None else checker.space_sha256(newcomer.space.to_dict()),
            threshold=newcomer.threshold,
            head=head,
        )
