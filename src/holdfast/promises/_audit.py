"""`audit`: which of the promises made so far does a new model keep?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checker
from holdfast._files import Place
from holdfast._given import whole_number
from holdfast._network import Floats, Ints
from holdfast._parallel import jobs, spread, workers
from holdfast._progress import progress_bar
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.promises._audit_result import STATUSES, Audit, AuditTotals, Group
from holdfast.promises._auditor import Auditor, Newcomer
from holdfast.promises._ledger import Ledger
from holdfast.promises._ledger_file import LedgerFile
from holdfast.promises._ledger_read import overviews
from holdfast.promises._pages import as_objects
from holdfast.verify._fingerprint import fingerprint

# With fewer promises an audit is over before a bar could be read.
_LONG = 200_000
# Points of so many promises are still in a core's cache when the model is run on them.
_BATCH = 4096
# Batches that a worker judges at once.
_PART = 16


def audit(
    ledger: Ledger | Place,
    model: object,
    *,
    space: FeatureSpace | None = None,
    threshold: Any = None,
    radius: bool = False,
    batch: int = _BATCH,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Audit:
    """Does a new model keep the promises in a ledger?

    A promise whose certificate covers the new model is kept for certain, and the model is not even run on it. The
    others, and all that were made under a shift of the margin, are decided by running it on the promised row, in raw
    units, through its own preprocessing.

    Parameters
    ----------
    ledger
        The ledger or its file. Promises that are added meanwhile are left out.
    model
        The new model: anything that `load_model` takes.
    space
        How it reads raw values, where that has changed: a scaler or an encoder fitted anew. By default that of the
        model's own preprocessing, with which a space given has to agree, else that of each promise.
    threshold
        The probability from which on its user says class 1; by default the model's own, else that of the promises.
    radius
        Also compute, for the promises that are kept, how far the model may move from here before they can break, in
        the unit of each promise: delta in the promise's norm, with or without biases as there, the margin, or the
        radius of an ellipsoid. It costs more than everything else: up to two seconds a promise in a norm other than ∞
        with two or more hidden layers.
    batch
        How many promises are read at once.
    n_jobs
        How many parts of the ledger at once, as in joblib; None: one, or what `joblib.parallel_config` says. Every
        worker opens the ledger's file, which must be where the worker can read it. The result is the same.
    progress
        Show a progress bar on stderr; by default for long ledgers if stderr is a terminal.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from holdfast import Network, PlausibleChanges
    >>> def classifier(weight):
    ...     return Network([[[-1.0, weight]]], [[0.0]])
    >>> x, promised = pd.DataFrame({"debt": [0.7], "income": [0.5]}), pd.DataFrame({"debt": [0.7], "income": [0.9]})
    >>> with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/promises.ledger") as ledger:
    ...     _ = ledger.add_frame(classifier(1.0), x, promised, target=1, changes=PlausibleChanges(0.05), keys=["Ann"])
    ...     [str(audit(ledger, classifier(weight)).status[0]) for weight in (1.01, 1.5, 0.5)]
    ['KEPT_FOR_CERTAIN', 'KEPT', 'BROKEN']
    """
    own = nullcontext(ledger) if isinstance(ledger, Ledger) else Ledger(ledger, create=False)
    done = []
    with own as book:
        plan = AuditPlan.of(
            book, model, space=space, threshold=threshold, radius=radius, batch=batch
        )
        bar = progress_bar("audit", plan.last, wanted=progress, long=_LONG)
        with jobs(n_jobs), bar as advance:
            alone = len(plan.parts) < 2 or workers() == 1
            judge = partial(plan.judge, file=book.file) if alone else plan.judge
            for part in map(judge, plan.parts) if alone else spread(judge, plan.parts):
                done.append(part)
                advance(len(part))
    left = [part.radius_left for part in done if part.radius_left is not None]
    return Audit(
        **vars(plan.totals([part.groups for part in done])),
        pages=tuple([page for part in done for page in part.pages]),
        codes=np.concatenate([part.codes for part in done]),
        targets=np.concatenate([part.targets for part in done]),
        margin=np.concatenate([part.margin for part in done]),
        radius_left=np.concatenate(left) if left else None,
    )


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """An audit before it is done: who judges the promises under each of the terms, and parts of the ledger to judge.

    A part is the promises from one number on to another; parts are judged by themselves, in any order and by any
    process that can read the ledger's file, and what is said of all is put together from what is said of each. `last`
    is the number of the last promise.
    """

    file: Path
    auditors: tuple[Auditor, ...]
    parts: tuple[tuple[int, int], ...]
    last: int
    nothing: AuditTotals
    radius: bool

    @classmethod
    def of(
        cls,
        ledger: Ledger,
        model: object,
        *,
        space: FeatureSpace | None,
        threshold: Any,
        radius: bool,
        batch: int = _BATCH,
    ) -> AuditPlan:
        """What depends on all promises: how the new model compares with the models of their day."""
        batch = whole_number(batch, "batch", least=1)
        if space is not None and not isinstance(space, FeatureSpace):
            raise InvalidInputError(f"space: expected a FeatureSpace, got {type(space).__name__}")
        last, head = ledger.end
        promised = ledger.terms
        spans = [ledger.file.spans(terms.hash, last) for terms in promised]
        newcomer = Newcomer.of(model, space, threshold, promised)
        firsts = _check_complete(spans, last)
        totals = AuditTotals(
            (),
            fingerprint(newcomer.loaded.classifier),
            None if space is None else checker.sha256(space.to_dict()),
            newcomer.threshold,
            head,
        )
        auditors = [
            Auditor(newcomer, terms, ledger, mine, batch)
            for terms, mine in zip(promised, spans, strict=True)
        ]
        cuts = firsts[np.flatnonzero(np.diff((firsts - 1) // (_PART * batch))) + 1].tolist()
        parts = tuple(pairwise([1, *cuts, last + 1]))
        return cls(ledger.file.path, tuple(auditors), parts, last, totals, radius)

    def judge(self, part: tuple[int, int], file: LedgerFile | None = None) -> Audit:
        """What becomes of the promises from one number on to another."""
        if file is None:
            opened = LedgerFile(self.file, create=False)
            try:
                return self.judge(part, opened)
            finally:
                opened.connection.close()
        first, n = part[0], part[1] - part[0]
        codes = np.zeros(n, np.int8)
        margin, left = np.full(n, np.nan), np.full(n, np.nan)
        targets = np.empty(n, dtype=object)
        pages = []
        for auditor, spans in self._spans(part):
            labels = as_objects([*auditor.terms.classifier.classes.tolist(), None])
            for rows in overviews(file, auditor.terms, spans, auditor.batch):
                judged, places = auditor.judge(rows, self.radius), rows.places(first)
                codes[places], margin[places], left[places] = judged
                # What was erased has a class beyond all others.
                targets[places] = labels[np.minimum(rows.targets, len(labels) - 1)]
                pages += [(one.first, one.size, one.date.strip(), one.keys) for one in rows.pages]
        return Audit(
            **vars(self.totals([self.groups(part, codes, margin)])),
            pages=tuple(sorted(pages)),
            codes=codes,
            targets=targets,
            margin=margin,
            radius_left=left if self.radius else None,
            first=first,
        )

    def _spans(self, part: tuple[int, int]) -> Iterator[tuple[Auditor, Ints]]:
        """The pages of a part, by who judges them."""
        for auditor in self.auditors:
            yield auditor, auditor.spans[slice(*np.searchsorted(auditor.spans[:, 0], part))]

    def groups(
        self, part: tuple[int, int], codes: NDArray[np.int8], margin: Floats
    ) -> tuple[Group, ...]:
        """What is said of a part's promises by the terms they were made under."""
        groups = []
        for auditor, spans in self._spans(part):
            starts, sizes = spans.T
            # The places of all promises in these pages, page after page.
            places = np.arange(sizes.sum()) + np.repeat(
                starts - part[0] - np.cumsum(sizes) + sizes, sizes
            )
            counts = np.bincount(codes[places], minlength=len(STATUSES))
            used = auditor.by_fold(self.radius) and (np.abs(margin[places]) > auditor.slack).any()
            groups.append(
                Group(
                    terms=auditor.terms,
                    how=auditor.comparison.how,
                    why_not=auditor.comparison.why_not,
                    distance=auditor.distance,
                    inside=auditor.inside,
                    totals=dict(zip(STATUSES, counts.tolist(), strict=True)),
                    margin_error=auditor.slack if used else 0.0,
                )
            )
        return tuple(groups)

    def totals(self, parts: Iterable[tuple[Group, ...]]) -> AuditTotals:
        """What is said of all promises, from what is said of each part."""
        return replace(
            self.nothing,
            groups=tuple(reduce(Group.merged, own) for own in zip(*parts, strict=True)),
        )


def _check_complete(spans: list[Ints], last: int) -> Ints:
    """Where pages begin; refuses to speak for a ledger whose pages do not have every promise, each once."""
    seen = np.concatenate([np.empty((0, 2), np.int64), *spans])
    seen = seen[np.argsort(seen[:, 0], kind="stable")]
    ends = seen[:, 0] + seen[:, 1] - 1
    if (ends[-1] if len(seen) else 0) != last or (seen[:, 0] != np.append(0, ends)[:-1] + 1).any():
        raise FileFormatError(
            f"ledger: expected the promises 1 to {last}, each once, got {int(seen[:, 1].sum())} in {len(seen)} pages, "
            f"{len(np.unique(seen[:, 0]))} of them different: the file is damaged or was tampered with; `verify` says "
            "where"
        )
    return seen[:, 0]
