"""`audit`: which of the promises made so far does a new model keep?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast import checker
from holdfast._classifier import Ints
from holdfast._files import Place
from holdfast._given import whole_number
from holdfast._parallel import jobs, spread, workers
from holdfast._progress import progress_bar
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.promises._audit_result import STATUSES, Audit, Group
from holdfast.promises._auditor import Auditor, Judged, Newcomer
from holdfast.promises._ledger import Ledger
from holdfast.promises._ledger_file import LedgerFile
from holdfast.promises._ledger_read import overviews
from holdfast.promises._pages import as_objects
from holdfast.promises._terms import fingerprint

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
        the unit of each promise: delta, the margin, or the radius of an ellipsoid. It costs more than everything else.
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
    batch = whole_number(batch, "batch", least=1)
    if not isinstance(ledger, Ledger):
        with Ledger(ledger, create=False) as opened:
            return audit(
                opened, model, space=space, threshold=threshold, radius=radius, batch=batch, n_jobs=n_jobs,
                progress=progress,
            )  # fmt: skip
    if space is not None and not isinstance(space, FeatureSpace):
        raise InvalidInputError(f"space: expected a FeatureSpace, got {space!r}")
    last, head = ledger.end
    promised = ledger.terms
    pages = []
    groups = []
    spans = [ledger.file.spans(terms.hash, last) for terms in promised]
    newcomer = Newcomer.of(model, space, threshold, promised)
    _check_complete(spans, last)
    codes = np.zeros(last, np.int8)
    margin = np.full(last, np.nan)
    targets = np.empty(last, dtype=object)
    left = np.full(last, np.nan) if radius else None
    bar = progress_bar("audit", last, wanted=progress, long=_LONG)
    with jobs(n_jobs), bar as advance:
        for terms, mine in zip(promised, spans, strict=True):
            auditor = Auditor(newcomer, terms, ledger, mine, batch)
            totals = np.zeros(len(STATUSES), dtype=np.int64)
            labels = as_objects([*terms.classifier.classes.tolist(), None])
            for some in _in_parts(auditor, ledger, mine, batch, radius):
                for places, judged, promised_classes, own in some.rows:
                    codes[places] = judged.codes
                    margin[places] = judged.margin
                    # What was erased has a class beyond all others.
                    targets[places] = labels[np.minimum(promised_classes, len(labels) - 1)]
                    if left is not None:
                        left[places] = judged.left
                    totals += np.bincount(judged.codes, minlength=len(STATUSES))
                    pages += own
                    advance(len(judged.codes))
                auditor.used_fold |= some.used_fold
            groups.append(
                Group(
                    terms=terms,
                    how=auditor.comparison.how,
                    why_not=auditor.comparison.why_not,
                    distance=auditor.distance,
                    inside=auditor.inside,
                    totals=dict(zip(STATUSES, totals.tolist(), strict=True)),
                    margin_error=auditor.slack if auditor.used_fold else 0.0,
                )
            )
    return Audit(
        pages=tuple(sorted(pages)),
        codes=codes,
        targets=targets,
        margin=margin,
        radius_left=left,
        groups=tuple(groups),
        model=fingerprint(newcomer.loaded.classifier),
        space=None if space is None else checker.sha256(space.to_dict()),
        threshold=newcomer.threshold,
        head=head,
    )


class _Part(NamedTuple):
    """What came of some pages: for each overview its places, what became of them, their classes and their pages."""

    rows: list[tuple[Any, Judged, NDArray[np.uint16], list[tuple[int, int, str, str]]]]
    used_fold: bool


def _in_parts(
    auditor: Auditor, ledger: Ledger, spans: Ints, batch: int, radius: bool
) -> Iterator[_Part]:
    """The pages with these (first, size) by parts of as many promises, whoever judges them; in their order."""
    ends = np.cumsum(spans[:, 1])
    cuts = np.flatnonzero(np.diff((ends - 1) // (_PART * batch))) + 1
    parts = np.split(spans, cuts) if len(spans) else []
    if len(parts) < 2 or workers() == 1:
        return (_judge_part(auditor, ledger.file, batch, radius, part) for part in parts)
    return spread(partial(_judge_part, auditor, ledger.file.path, batch, radius), parts)


def _judge_part(
    auditor: Auditor, file: LedgerFile | Path, batch: int, radius: bool, spans: Ints
) -> _Part:
    if isinstance(file, Path):
        opened = LedgerFile(file, create=False)
        try:
            return _judge_part(auditor, opened, batch, radius, spans)
        finally:
            opened.connection.close()
    done = [
        (
            rows.places,
            auditor.judge(rows, radius),
            rows.targets,
            [(page.first, page.size, page.date.strip(), page.keys) for page in rows.pages],
        )
        for rows in overviews(file, auditor.terms, spans, batch)
    ]
    return _Part(done, auditor.used_fold)


def _check_complete(spans: list[Ints], last: int) -> None:
    """Refuse to speak for a ledger whose pages do not have every promise, each once."""
    seen = np.concatenate([np.empty((0, 2), np.int64), *spans])
    seen = seen[np.argsort(seen[:, 0], kind="stable")]
    ends = seen[:, 0] + seen[:, 1] - 1
    if (ends[-1] if len(seen) else 0) != last or (seen[:, 0] != np.append(0, ends)[:-1] + 1).any():
        raise FileFormatError(
            f"ledger: expected the promises 1 to {last}, each once, got {int(seen[:, 1].sum())} in {len(seen)} pages, "
            f"{len(np.unique(seen[:, 0]))} of them different: the file is damaged or was tampered with; `verify` says "
            "where"
        )
