"""`audit` over batches of promises, as `Ledger.export` writes them: by whoever can read a table, and not the ledger.

What depends on all promises, how the new model compares with the model of their day, is found out beforehand from the
ledger; a batch is then judged by itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from holdfast._network import Floats
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.promises import Ledger, Status, Terms
from holdfast.promises._audit import AuditPlan
from holdfast.promises._auditor import Auditor
from holdfast.promises._pages import restored_rows, rows_from_json


def audit_batch(
    model: Any,
    X: pd.DataFrame,
    *,
    ledger: Ledger | str | os.PathLike[str],
    space: FeatureSpace | None = None,
    threshold: Any = None,
    radius: bool = False,
) -> pd.DataFrame:
    """What becomes of some promises of a ledger under a new model; the arguments are those of `audit`."""
    return judge_with(read_auditors(model, ledger, space, threshold), radius)(X)


def read_auditors(
    model: Any,
    ledger: Ledger | str | os.PathLike[str],
    space: FeatureSpace | None = None,
    threshold: Any = None,
) -> dict[str, Auditor]:
    """For all terms of a ledger by their hash, whoever judges the promises made under them."""
    if not isinstance(ledger, Ledger):
        with Ledger(ledger, create=False) as opened:
            return read_auditors(model, opened, space, threshold)
    plan = AuditPlan.of(ledger, model, space=space, threshold=threshold, radius=False)
    return {own.terms.hash: own for own in plan.auditors}


def judge_with(
    auditors: dict[str, Auditor], radius: bool
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A function of tables of promises."""

    def judged(frame: pd.DataFrame) -> pd.DataFrame:
        result = pd.DataFrame({"status": "", "margin": np.nan}, index=frame.index)
        result["radius_left"] = np.nan
        names = np.array([str(status) for status in Status], dtype=object)
        terms = frame["terms"].to_numpy(object)
        for name in pd.unique(terms):
            if name not in auditors:
                raise InvalidInputError(
                    f"batch: expected promises of the ledger, got terms {name!r:.20}"
                )
            rows = np.flatnonzero(terms == name)
            own = auditors[name].judge(
                ExportedPromises(frame.iloc[rows], auditors[name].terms), radius
            )
            result.iloc[rows, 0] = names[own.codes]
            result.iloc[rows, 1], result.iloc[rows, 2] = own.margin, own.left
        return result if radius else result.drop(columns="radius_left")

    return judged


class ExportedPromises:
    """Promises under the same terms, as a table says them: what an auditor asks of a ledger's pages."""

    def __init__(self, frame: pd.DataFrame, terms: Terms) -> None:
        self._space, self._texts = terms.space, frame["counterfactual"].to_numpy(object)
        verdict = frame["verdict"].to_numpy(object)
        self.robust, self.erased = verdict == "ROBUST", verdict == "ERASED"
        self.radius: Floats = frame["radius"].to_numpy(np.float64)
        labels = {str(label): code for code, label in enumerate(terms.classifier.classes.tolist())}
        codes = frame["target"].astype(str).map(labels)
        wrong = np.flatnonzero(codes.isna() & ~self.erased)
        if wrong.size:
            raise InvalidInputError(
                f"batch: expected one of the classes {list(labels)} as target, got "
                f"{frame['target'].iloc[wrong[0]]!r}"
            )
        self.targets = np.asarray(codes.fillna(0), dtype=np.uint16)

    def __len__(self) -> int:
        return len(self._texts)

    def counterfactuals(self, places: Any) -> pd.DataFrame:
        """x' of some of these promises in raw units."""
        rows = [list(json.loads(text).values()) for text in self._texts[places]]
        return rows_from_json(self._space, [json.dumps(row) for row in rows])

    def points(self, places: Any) -> Floats:
        """x' of some of these promises, as the model of that day read them."""
        return self._space.encode(restored_rows(self._space, self.counterfactuals(places)))
