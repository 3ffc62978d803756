"""The command ``delta``: how far retraining moves a model, from its history or by retraining it, as a changes file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import holdfast as hf
from holdfast._files import write_json
from holdfast.calibration import least_history
from holdfast.cli import _tables as tables
from holdfast.cli._options import FILE, Norm, Reading, Schema, command, existing_file
from holdfast.cli._screens import say
from holdfast.cli._tables import read_schema
from holdfast.errors import InvalidInputError
from holdfast.importers._files import read_object
from holdfast.importers._objects import import_object


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
        existing_file("The model that all of those in the history were retrained from."),
    ] = None,
    model: Annotated[
        Path | None,
        existing_file(
            "Without a history: today's scikit-learn model, to be retrained: .skops or a pickle."
        ),
    ] = None,
    data: Annotated[
        Path | None, existing_file("With --model: the table that it is retrained on.")
    ] = None,
    label: Annotated[
        str | None, Option(metavar="COLUMN", help="With --model: the column with the classes.")
    ] = None,
    schema: Schema = None,
    how: Annotated[
        str,
        Option(
            metavar="incremental|complete|leave_one_out",
            help="With --model: a few more gradient steps, from scratch, or from scratch without a few of the rows.",
        ),
    ] = "incremental",
    runs: Annotated[
        int | None,
        Option(min=1, help="With --model: how many retrainings; by default as few as will do."),
    ] = None,
    epochs: Annotated[
        int | None, Option(min=1, help="With --model: passes over the rows; one if incremental.")
    ] = None,
    coverage: Annotated[float, "How probable it is to be that the next model stays within."] = 0.95,
    confidence: Annotated[
        float | None,
        "How sure to be that this very history gives that coverage: it takes more.",
    ] = None,
    shape: Annotated[
        str,
        Option(
            metavar="uniform|layer|parameter",
            help="One radius for all parameters, or each layer or parameter.",
        ),
    ] = "uniform",
    norm: Norm = math.inf,
    seed: Annotated[int, "For the rows that each retraining draws, and its start."] = 0,
    out: Annotated[Path | None, "Where Δ goes, as JSON: what --changes reads."] = None,
) -> None:
    """How far does retraining move the model? A delta that the next one stays within, with a stated probability."""
    tables.check_output(out, table=False)
    if bool(history) == (model is not None):
        came = "both" if history else "neither"
        raise InvalidInputError(
            f"expected model files, or --model with --data and --label, got {came}"
        )
    models: Any = list(map(reading.model_in, history or ()))
    if model is not None:
        if data is None or label is None:
            missing = "--data" if data is None else "--label"
            raise InvalidInputError(f"{missing}: expected it beside --model, got none")
        space = None if schema is None else read_schema(schema)[0]
        table = reading.table_in(data, space)
        classes = tables.column_of(table, label, data, "--label")
        estimator = read_object(model, trust_pickle=reading.trust_pickle)
        rows = tables.own_columns(table.drop(columns=label), import_object(estimator), data, space)
        n = runs or least_history(coverage, confidence) + (shape != "uniform")
        kind: Any = how
        incremental = how == "incremental"
        models = hf.retrain(
            estimator, rows, classes.to_numpy(), how=kind, n=n, share=1.0 / n if incremental else 1.0,
            disjoint=incremental, epochs=epochs, seed=seed, space=space,
        )  # fmt: skip
    start = None if origin is None else reading.model_in(origin)
    calibrated = hf.delta_calibrated(
        models, coverage=coverage, confidence=confidence, shape=shape, norm=norm, origin=start
    )
    say(str(calibrated))
    if out is not None:
        write_json(calibrated.changes.to_dict(), out)
        say(f"changes: {out}; give it to --changes of explain, certify, report, ...")
