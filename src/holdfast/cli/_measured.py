"""The commands ``delta`` and ``risk``: what to promise against, measured on models that were retrained.

How far retraining moves a model, and how much margin a promise needs so that the next model breaks few enough of them;
both as a changes file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

import holdfast as hf
from holdfast._files import write_json, write_table
from holdfast.calibration import least_history
from holdfast.cli import _tables as tables
from holdfast.cli._options import COUNT, FILE, Norm, Reading, Schema, command
from holdfast.cli._recourse import Asked
from holdfast.cli._screens import say
from holdfast.errors import InvalidInputError
from holdfast.importers import Model
from holdfast.importers._files import read_object
from holdfast.importers._objects import import_object
from holdfast.retraining._trainers import train_whole


@command
def delta(
    reading: Reading,
    history: Annotated[
        list[Path] | None,
        Argument(
            help="Models in the order of their use, each retrained from the one before.", **FILE
        ),
    ] = None,
    *,
    origin: Annotated[
        Path | None,
        FILE,
        "The model that all of those in the history were retrained from.",
    ] = None,
    model: Annotated[
        Path | None,
        FILE,
        "Without a history: today's scikit-learn model, to be retrained: .skops or a pickle.",
    ] = None,
    data: Annotated[
        Path | None,
        FILE,
        "With --model: the table that it is retrained on. With a history of trees: how many of its "
        "rows bear the radii is said.",
    ] = None,
    label: Annotated[str | None, "COLUMN", "With --data: the column with the classes."] = None,
    schema: Schema = None,
    how: Annotated[
        str,
        "incremental|complete|leave_one_out|refit",
        "With --model: a few more gradient steps, from scratch on half as many rows drawn with "
        "replacement, from scratch without a few of the rows, or the same trees with new leaves.",
    ] = "incremental",
    runs: Annotated[
        int | None,
        COUNT,
        "With --model: how many retrainings; by default as few as will do.",
    ] = None,
    epochs: Annotated[
        int | None, COUNT, "With --model: passes over the rows; one if incremental."
    ] = None,
    coverage: Annotated[float, "How probable it is to be that the next model stays within."] = 0.95,
    confidence: Annotated[
        float | None,
        "How sure to be that this very history gives that coverage: it takes more.",
    ] = None,
    shape: Annotated[
        str | None,
        "uniform|layer|parameter",
        "One radius for all parameters (the default), or each layer or parameter. Trees have one for "
        "each leaf.",
    ] = None,
    norm: Norm = math.inf,
    seed: Annotated[int, "For the rows that each retraining draws, and its start."] = 0,
    out: Annotated[Path | None, "Where Δ goes, as JSON: what --changes reads."] = None,
) -> None:
    """How far does retraining move the model? A delta that the next one stays within, with a stated probability."""
    tables.check_output(out, table=False)
    if bool(history) == (model is not None):
        raise InvalidInputError(
            "expected model files, or --model with --data and --label, got "
            f"{'both' if history else 'neither'}"
        )
    models: Any = list(map(reading.model_in, history or ()))
    if model is not None and (data is None or label is None):
        raise InvalidInputError(
            f"{'--data' if data is None else '--label'}: expected it beside --model, got none"
        )
    rows: Any = None
    if data is not None:
        space = tables.read_schema(schema)[0]
        table = reading.table_in(data, space)
        if label is not None:
            classes = tables.column_of(table, label, data, "--label").to_numpy()
            table = table.drop(columns=label)
        if model is None:
            rows = tables.own_columns(table, models[0], data, space)
        else:
            estimator = read_object(model, trust_pickle=reading.trust_pickle)
            own = tables.own_columns(table, import_object(estimator), data, space)
            shaped = shape not in (None, "uniform") or how == "refit"
            n = runs or least_history(coverage, confidence) + shaped
            kind: Any = how
            on = how in ("incremental", "refit")
            models = hf.retrain(
                estimator, own, classes, how=kind, n=n, share=1.0 / n if on else None, disjoint=on,
                epochs=epochs, seed=seed, space=space,
            )  # fmt: skip
    start = None if origin is None else reading.model_in(origin)
    calibrated = hf.delta_calibrated(
        models, coverage=coverage, confidence=confidence, shape=shape, norm=norm, origin=start,
        X=rows,
    )  # fmt: skip
    say(str(calibrated))
    if out is not None:
        write_json(calibrated.changes.to_dict(), out)
        say(f"changes: {out}; give it to --changes of explain, certify, report, ...")


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
        "COLUMN",
        "Without such models: the column of --candidates with the classes. The model, a scikit-learn one, is "
        "then refitted to half as many rows of that table, drawn with replacement.",
    ] = None,
    runs: Annotated[int, COUNT, "With --label: how often."] = 20,
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
    family = question.pop("changes")
    _ = question.pop("data")
    models: Iterable[Any] = map(asked.model_in, retrained or ())
    if not retrained:
        models = _refitted(asked, question["model"], question["space"], label, runs)
    calibrated = hf.risk_calibrated(
        question.pop("model"), question.pop("X"), **question, retrained=models, broken=broken,
        family=hf.PlausibleShift if family is None else family, probability=probability, coverage=coverage,
        progress=True,
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
) -> hf.retraining.RetrainedModels:
    """The model as it would have been with other rows of the same kind, its preprocessing included."""
    if asked.candidates is None or label is None:
        raise InvalidInputError(
            "expected retrained models, or --candidates and --label to refit the model, got no "
            f"{'--label' if label is None else '--candidates'}"
        )
    table = tables.read_table(asked.candidates, space=space)
    classes = tables.column_of(table, label, asked.candidates, "--label").to_numpy()
    rows = tables.own_columns(table.drop(columns=label), model, asked.candidates, space)
    estimator = read_object(asked.model, trust_pickle=asked.trust_pickle)
    if not hasattr(estimator, "get_params"):
        raise InvalidInputError(
            f"--model: expected a scikit-learn model (.skops or a pickle) to refit, got {type(estimator).__name__}; "
            "retrain it yourself and give the models"
        )
    return hf.retrain(
        estimator,
        rows,
        classes,
        how="complete",
        n=runs,
        seed=asked.seed,
        space=space,
        retrain=train_whole,
    )
