"""The commands below ``benchmark``: compare methods on tables, as in the paper, or under kinds of change."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.markup import escape

import holdfast as hf
from holdfast.cli import _tables as tables
from holdfast.cli._benchmark_pages import AtATime, changes, paper
from holdfast.cli._help import Command, CommandGroup
from holdfast.cli._options import COUNT, FILE, Texts, command, spelled
from holdfast.cli._screens import complain, say, show_table
from holdfast.datasets._catalogue import Facts
from holdfast.errors import InvalidInputError
from holdfast.study import BenchmarkResult
from holdfast.study import benchmark as compare

app = typer.Typer(
    help="Compare methods on tables, as in the paper, or under kinds of change.",
    cls=CommandGroup,
    no_args_is_help=True,
)
app.command(cls=Command)(paper)
app.command(cls=Command)(changes)


# The exit code if every method failed.
NOTHING_WORKED = 1


class Trained(StrEnum):
    """The kinds of models."""

    nn = "nn"
    lr = "lr"


@app.command(cls=Command)
@command
def run(
    out: Annotated[
        Path,
        {"file_okay": False},
        "The folder for results; an interrupted run continues there.",
    ],
    delta: Annotated[
        list[str],
        "NUMBER|inc|val",
        "How far each parameter may move; inc and val measure it.",
    ],
    datasets: Annotated[Texts, "NAME", "A public table, see `holdfast datasets`."] = None,
    data: Annotated[Path | None, FILE, "Your own table: .csv, .csv.gz or .parquet."] = None,
    target_column: Annotated[str | None, "COLUMN", "The column of --data with the classes."] = None,
    schema: Annotated[Path | None, FILE, "What a person can change in --data."] = None,
    immutable: Annotated[Texts, "COLUMN", "A column of --data that cannot change."] = None,
    target: Annotated[str | None, "The class that people want. [default: the last one]"] = None,
    methods: Annotated[
        Texts,
        "NAME",
        "A method, see `holdfast methods`. [default: nnce, rnce, closest]",
    ] = None,
    model: Annotated[
        list[Trained] | None, "nn|lr", "A network or logistic regression. [default: nn]"
    ] = None,
    hidden: Annotated[str, "SIZES", "The network's hidden layers."] = "10,10",
    epochs: Annotated[int, COUNT, "Passes over the training rows."] = 100,
    seeds: Annotated[int, COUNT, "Number of repetitions."] = 5,
    inputs: Annotated[int, COUNT, "Rejected people for each table, model and seed."] = 20,
    time_limit: Annotated[float | None, "SECONDS", "The limit for each person."] = None,
    n_jobs: AtATime = 1,
) -> None:
    """Train and retrain models, run each method, and compare cost and survival of the advice.

    $ holdfast benchmark run --datasets compas --methods rnce --delta 0.02 --out study
    """
    if bool(datasets) == (data is not None):
        raise InvalidInputError(
            "--datasets and --data exclude each other; keep one of them"
            if datasets
            else "this command needs --datasets (a public table) or --data (your own)"
        )
    wanted: Any = datasets
    labels: list[Any] = []
    if data is not None:
        people = _own_table(data, target_column, schema, immutable or [])
        wanted = {data.name.split(".")[0]: people}
        labels = people[1].unique().tolist()
    elif datasets:
        labels = list(Facts.of(datasets[0]).classes)
    result = compare(
        wanted,
        models=_estimators(model or [Trained.nn], hidden, epochs),
        methods=methods or ["nnce", "rnce", "closest"],
        deltas=[_delta(text) for text in delta],
        seeds=seeds,
        inputs=inputs,
        target=None if target is None else spelled(target, labels),
        out=out,
        n_jobs=n_jobs,
        time_limit=time_limit,
    )
    if importlib.util.find_spec("matplotlib") is not None and len(result.summary()):
        result.plot(out / "results.png")
    _show(result, out)
    if len(result.failures) == len(result.results):
        raise typer.Exit(NOTHING_WORKED)


def _own_table(
    path: Path, target_column: str | None, schema: Path | None, immutable: list[str]
) -> tuple[pd.DataFrame, pd.Series, hf.FeatureSpace]:
    """The caller's file as people, labels and a space."""
    space, label_column = tables.read_schema(schema)
    column = target_column or label_column
    if column is None:
        raise InvalidInputError("--data also needs --target-column (the column with the classes)")
    frame = tables.read_table(path)
    y = tables.column_of(frame, str(column), path, "--target-column")
    X = frame.drop(columns=column)
    space = hf.FeatureSpace.from_frame(X) if space is None else space
    return X, y, space.constrained(immutable=immutable)


def _delta(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _estimators(kinds: list[Trained], hidden: str, epochs: int) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    try:
        sizes = tuple(int(size) for size in hidden.split(","))
    except ValueError as error:
        raise InvalidInputError(
            f"--hidden: expected sizes such as 10,10, got {hidden!r}"
        ) from error
    # The paper's step; scikit-learn's own, a tenth of it, leaves a network of this size undecided after so few passes.
    network = MLPClassifier(sizes, max_iter=epochs, learning_rate_init=0.01)
    known = {"nn": network, "lr": LogisticRegression(max_iter=1000)}
    return {kind.value: known[kind] for kind in kinds}


def _show(result: BenchmarkResult, out: Path) -> None:
    """The averages, what failed, and where the rest is."""
    shares = {"Δ-valid": "delta_validity", "retrained": "validity_retrained", "found": "coverage"}
    figures = ("held to", *shares, "cost_l1", "lof", "s")
    for (dataset, model), part in result.summary().groupby(["dataset", "model"], sort=False):
        rows = (
            (
                row["method"], row["delta_label"], row["verified_label"],
                *(f"{row[name]:.0%}" for name in shares.values()),
                f"{row['cost_l1']:.4f}", f"{row['lof']:.2f}", f"{row['seconds']:.2f}",
            )
            for row in part.to_dict("records")
        )  # fmt: skip
        title = escape(f"{dataset}, {model}")
        show_table(
            ("method", "delta", *figures), rows, right=figures, title=title, padding=(0, 0, 0, 1)
        )
    cells, reused = (part.get("cells", 0) for part in (result.computed, result.reused))
    say(f"{cells} results computed, {reused} reused from an earlier run.")
    for row in result.failures.drop_duplicates(["dataset", "model", "method", "error"]).to_dict(
        "records"
    ):
        complain(f"{row['dataset']}, {row['model']}, {row['method']}: {row['error']}")
    say(f"full result: {out / 'results.csv'} and the other files in {out}")
