"""The commands ``delta`` and ``risk``: Δ for promises, measured on models that were retrained.

`delta` measures how far retraining moves a model; `risk` how much margin a promise needs so that few are broken. Both
write a changes file.
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
        Argument(help="Models, the oldest first, each retrained from the one before.", **FILE),
    ] = None,
    *,
    origin: Annotated[
        Path | None,
        FILE,
        "The one model from which all HISTORY models were retrained.",
    ] = None,
    model: Annotated[
        Path | None,
        FILE,
        "Without HISTORY: a scikit-learn model to retrain (.skops or a pickle).",
    ] = None,
    data: Annotated[
        Path | None,
        FILE,
        "The table to retrain on. With HISTORY of trees: rows to test the radii on.",
    ] = None,
    label: Annotated[str | None, "COLUMN", "The column of --data with the classes."] = None,
    schema: Schema = None,
    how: Annotated[
        str,
        "incremental|complete|leave_one_out|refit",
        "Retraining: more gradient steps, from scratch on a sample, from scratch without a few rows, or "
        "new leaves for the same trees.",
    ] = "incremental",
    runs: Annotated[
        int | None,
        COUNT,
        "Number of retrainings. [default: as few as --coverage needs]",
    ] = None,
    epochs: Annotated[int | None, COUNT, "Passes over the rows of each retraining."] = None,
    coverage: Annotated[float, "Probability that the next model stays within delta."] = 0.95,
    confidence: Annotated[
        float | None,
        "Also a confidence that this history gives that coverage; needs more models.",
    ] = None,
    shape: Annotated[
        str | None,
        "uniform|layer|parameter",
        "One delta for all parameters, each layer or each parameter. Trees: each leaf. [default: uniform]",
    ] = None,
    norm: Norm = math.inf,
    seed: Annotated[int, "Seed of the retrainings."] = 0,
    out: Annotated[Path | None, "Write Δ here, as JSON, for --changes."] = None,
) -> None:
    """Measure how far retraining moves the model: a delta that the next model stays within, with a probability.

    It needs the models of the past (HISTORY), or --model, --data and --label to retrain one.

        $ holdfast delta january.npz february.npz march.npz --out changes.json
    """
    tables.check_output(out, table=False)
    if bool(history) == (model is not None):
        raise InvalidInputError(
            "HISTORY and --model exclude each other; keep one of them"
            if history
            else "this command needs HISTORY (two or more model files), or --model with --data and --label"
        )
    models: Any = list(map(reading.model_in, history or ()))
    if model is not None and (data is None or label is None):
        raise InvalidInputError(
            "--model also needs --data (a table to retrain on)"
            if data is None
            else "--model also needs --label (the column of --data with the classes)"
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
            help="Models retrained as the next one will be, and used for nothing else.",
            **FILE,
        ),
    ] = None,
    *,
    label: Annotated[
        str | None,
        "COLUMN",
        "Without RETRAINED: the column of --candidates with the classes, to retrain a scikit-learn --model.",
    ] = None,
    runs: Annotated[int, COUNT, "With --label: number of retrainings."] = 20,
    broken: Annotated[float, "The share of promises that the next model may break."] = 0.1,
    probability: Annotated[
        float | None,
        "At most that share with this probability, instead of on average.",
    ] = None,
    coverage: Annotated[
        float,
        "Of the people with advice at the least margin: the share who must keep advice.",
    ] = 1.0,
    out: Annotated[Path | None, "Write Δ here, as JSON, for --changes."] = None,
    evidence: Annotated[Path | None, "Write the measurements here, as a table."] = None,
) -> None:
    """Measure how much margin promises need so that the next model breaks at most a share of them.

    It works for any model. The result is a measured chance, not a proof, and belongs to this method and to people like
    these. It needs RETRAINED models, or --candidates and --label to retrain the model.

        $ holdfast risk month-*.pkl --trust-pickle --model model.pkl --data people.csv --schema schema.json \\
            --index id --target 1 --method rnce --candidates train.csv --out risk.json
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
    """The model, with its preprocessing, retrained on samples of the rows."""
    if asked.candidates is None or label is None:
        raise InvalidInputError(
            "this command needs RETRAINED model files, or --candidates and --label to retrain --model; "
            f"{'--label' if label is None else '--candidates'} is missing"
        )
    table = tables.read_table(asked.candidates, space=space)
    classes = tables.column_of(table, label, asked.candidates, "--label").to_numpy()
    rows = tables.own_columns(table.drop(columns=label), model, asked.candidates, space)
    estimator = read_object(asked.model, trust_pickle=asked.trust_pickle)
    if not hasattr(estimator, "get_params"):
        raise InvalidInputError(
            f"--model: only a scikit-learn model (.skops or a pickle) can be retrained here, this is "
            f"{type(estimator).__name__}; retrain it yourself and pass the models as RETRAINED"
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
