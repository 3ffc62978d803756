"""The command ``risk``: what to promise against, so that the next model breaks few enough promises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from typer import Argument, Option

import holdfast as hf
from holdfast._files import write_json, write_table
from holdfast._network import Network
from holdfast.cli import _tables as tables
from holdfast.cli._options import FILE, command
from holdfast.cli._recourse import Asked
from holdfast.cli._screens import say
from holdfast.errors import InvalidInputError
from holdfast.importers import Model
from holdfast.importers._files import read_object
from holdfast.retraining._retrain import run_seeds
from holdfast.retraining._trainers import train_whole


@command
def risk(
    asked: Asked,
    retrained: Annotated[
        list[Path] | None,
        Argument(
            help="Models retrained as the next one will be, none of them used for anything else.",
            **FILE,
        ),
    ] = None,
    *,
    label: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Without such models: the column of --candidates with the classes. The model, a scikit-learn one, is "
            "then refitted to rows of that table drawn with replacement.",
        ),
    ] = None,
    runs: Annotated[int, Option(min=1, help="With --label: how often.")] = 20,
    broken: Annotated[float, "The share of promises that the next model may break."] = 0.1,
    probability: Annotated[
        float | None,
        "With this probability at most that share, in place of on average.",
    ] = None,
    coverage: Annotated[
        float,
        "Of the people who have advice at the least setting, the share who must keep some.",
    ] = 1.0,
    out: Annotated[Path | None, "Where the changes go, as JSON: what --changes reads."] = None,
    evidence: Annotated[Path | None, "Where what was measured goes, as a table."] = None,
) -> None:
    """How much margin does a promise need, so that the next model breaks at most a share of them? For any model.

    A chance, measured on retrained models, and never a proof. The margin is varied; with --delta, --margin or --changes
    the size of that kind of change is. What is found belongs to the method and to people like these.
    """
    tables.check_output(out, table=False)
    tables.check_output(evidence)
    question = asked.question()
    family, _ = question.pop("changes"), question.pop("data")
    models: Iterable[Any] = map(asked.model_in, retrained or ())
    how = ""
    if not retrained:
        how = "refitted to rows drawn with replacement"
        models = _refitted(asked, question["model"], question["space"], label, runs)
    calibrated = hf.risk_calibrated(
        question.pop("model"), question.pop("X"), **question, retrained=models, broken=broken,
        family=hf.PlausibleShift if family is None else family, probability=probability, coverage=coverage, how=how,
    )  # fmt: skip
    say(str(calibrated))
    if evidence is not None:
        write_table(calibrated.evidence.rename_axis("row"), evidence)
        say(f"evidence: {evidence}")
    if out is not None:
        write_json(calibrated.changes.to_dict(), out)
        say(f"changes: {out}; give it to --changes of explain, with the same --method.")


def _refitted(
    asked: Asked, model: Model, space: hf.FeatureSpace, label: str | None, runs: int
) -> Iterator[Any]:
    """The model as it would have been with other rows of the same kind."""
    if asked.candidates is None or label is None:
        raise InvalidInputError(
            "expected retrained models, or --candidates and --label to refit the model, got neither"
        )
    table = tables.read_table(asked.candidates, space=space)
    classes = tables.column_of(table, label, asked.candidates, "--label").to_numpy()
    rows: Any = tables.own_columns(table.drop(columns=label), model, asked.candidates, space)
    if isinstance(model.classifier, Network) and model.preprocess is None:
        rows = space.encode(rows)
    estimator = read_object(asked.model, trust_pickle=asked.trust_pickle)
    if not hasattr(estimator, "get_params"):
        raise InvalidInputError(
            f"--model: expected a scikit-learn model (.skops or a pickle) to refit, got {type(estimator).__name__}; "
            "retrain it yourself and give the models"
        )

    def refitted(seed: int) -> Any:
        picked = np.random.default_rng(seed).integers(0, len(classes), len(classes))
        drawn = rows.iloc[picked] if isinstance(rows, pd.DataFrame) else rows[picked]
        return train_whole(estimator, drawn, classes[picked], seed)

    return map(refitted, run_seeds(asked.seed, runs))
