"""`audit`: find the promises in a ledger that a new model keeps."""

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
    """Find the promises in a ledger that a new model keeps.

    If a promise's certificate covers the new model, the promise is proven to be kept, and the model is not run on it.
    The others, and all promises under a shift of the margin, are decided by running the new model on the promised row,
    in raw units, through its own preprocessing.

    Parameters
    ----------
    ledger
        The ledger or its file. Promises added during the audit are left out.
    model
        The new model: any model that `load_model` takes.
    space
        The new model's feature space, if it changed, for example by a refitted scaler or encoder. Default: the space of
        the model's own preprocessing, which must agree with a given space, or else the space of each promise.
    threshold
        The probability from which the new model decides for class 1. Default: the model's own, else that of the
        promises.
    radius
        True also computes the radius left of each kept promise: the change of the new model before the promise can
        break, in the promise's unit. That unit is delta in the promise's norm, with or without biases as in the
        promise, the margin, or the radius of an ellipsoid. It is the most expensive part: up to two seconds a promise
        in a norm other than ∞ with two or more hidden layers.
    batch
        Number of promises read at once.
    n_jobs
        Number of parts of the ledger processed in parallel, as in joblib. None: one, or the setting of
        `joblib.parallel_config`. Every worker opens the ledger's file, so the file must be readable there. The result
        is the same.
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
    """A prepared audit: a judge for the promises of each of the terms, and the parts of the ledger to judge.

    A part is a range of promises by number. Parts are judged separately, in any order and by any process that can read
    the ledger's file; the result for all promises is merged from the results of the parts. `last` is the number of the
    last promise.
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
        """Prepare the comparison of the new model with the recorded models, which all parts share."""
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
        """Judge the promises in a range of numbers."""
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
        """The pages of a part, with the auditor of each."""
        for auditor in self.auditors:
            yield auditor, auditor.spans[slice(*np.searchsorted(auditor.spans[:, 0], part))]

    def groups(
        self, part: tuple[int, int], codes: NDArray[np.int8], margin: Floats
    ) -> tuple[Group, ...]:
        """Summarise a part's promises by their terms."""
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
        """Merge the summaries of the parts to one of all promises."""
        return replace(
            self.nothing,
            groups=tuple(reduce(Group.merged, own) for own in zip(*parts, strict=True)),
        )


def _check_complete(spans: list[Ints], last: int) -> Ints:
    """The first promise of each page; raises unless the pages have every promise exactly once."""
    seen = np.concatenate([np.empty((0, 2), np.int64), *spans])
    seen = seen[np.argsort(seen[:, 0], kind="stable")]
    ends = seen[:, 0] + seen[:, 1] - 1
    if (ends[-1] if len(seen) else 0) != last or (seen[:, 0] != np.append(0, ends)[:-1] + 1).any():
        raise FileFormatError(
            f"ledger: expected the promises 1 to {last}, each once, got {int(seen[:, 1].sum())} in {len(seen)} pages, "
            f"{len(np.unique(seen[:, 0]))} of them different: the file is damaged or was tampered with; "
            "`Ledger.verify` finds the place"
        )
    return seen[:, 0]
