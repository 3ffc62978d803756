"""The commands below ``benchmark``: methods compared on your own tables, as in the paper, or under kinds of change."""

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
from holdfast.cli._benchmark_pages import AtATime, Bar, changes, paper
from holdfast.cli._options import COUNT, FILE, Texts, command, spelled
from holdfast.cli._screens import complain, say, show_table
from holdfast.datasets._catalogue import Facts
from holdfast.errors import InvalidInputError
from holdfast.study import BenchmarkResult
from holdfast.study import benchmark as compare

app = typer.Typer(
    help="Compare methods: on tables of your own or public ones, as in the paper, or under kinds of change.",
    no_args_is_help=True,
)
app.command()(paper)
app.command()(changes)


# The exit code where not a single method answered.
NOTHING_WORKED = 1


class Trained(StrEnum):
    """What is trained."""

    nn = "nn"
    lr = "lr"


@app.command()
@command
def run(
    out: Annotated[
        Path,
        {"file_okay": False},
        "The folder for results; a run that was killed goes on there.",
    ],
    delta: Annotated[
        list[str],
        "How far each parameter may move: a number, or inc or val to measure it; may be repeated.",
    ],
    datasets: Annotated[Texts, "A public table, see `holdfast datasets`; may be repeated."] = None,
    data: Annotated[Path | None, FILE, "A table of your own: .csv, .csv.gz or .parquet."] = None,
    target_column: Annotated[str | None, "COLUMN", "The labels in --data."] = None,
    schema: Annotated[
        Path | None, FILE, "What can change in --data: FeatureSpace.to_dict() as JSON."
    ] = None,
    immutable: Annotated[
        Texts, "COLUMN", "A column of --data that cannot change; repeat it."
    ] = None,
    target: Annotated[
        str | None, "The class that the people want; by default the last one."
    ] = None,
    methods: Annotated[
        Texts,
        "A method, see `holdfast methods`; may be repeated. [nnce, rnce, closest]",
    ] = None,
    model: Annotated[list[Trained] | None, "A network, logistic regression, or both. [nn]"] = None,
    hidden: Annotated[str, "SIZES", "The network's hidden layers."] = "10,10",
    epochs: Annotated[int, COUNT, "Passes over the training rows."] = 100,
    seeds: Annotated[int, COUNT, "How often everything is repeated."] = 5,
    inputs: Annotated[int, COUNT, "Rejected people for each table, model and seed."] = 20,
    time_limit: Annotated[float | None, "SECONDS", "For each person."] = None,
    n_jobs: AtATime = 1,
    progress: Bar = None,
) -> None:
    """Train, retrain, ask each method for recourse, and see what it costs and what of it survives."""
    if bool(datasets) == (data is not None):
        raise InvalidInputError("expected --datasets or --data, one of the two")
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
        progress=progress,
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
        raise InvalidInputError("expected --target-column with the labels in --data, got none")
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
    say(f"{cells} answers of a method computed, {reused} found finished.")
    for row in result.failures.drop_duplicates(["dataset", "model", "method", "error"]).to_dict(
        "records"
    ):
        complain(f"{row['dataset']}, {row['model']}, {row['method']}: {row['error']}")
    say(f"full result: {out / 'results.csv'} and beside it")
