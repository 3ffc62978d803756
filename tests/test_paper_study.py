"""The study of the paper: printed figures, comparisons, claims, page and pictures, and the pipeline from end to end."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from holdfast.changes import parameter_distance
from holdfast.cli._app import app
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.importers import load_network
from holdfast.presentation.pictures._paper import draw
from holdfast.retraining._trainers import quietly
from holdfast.study.paper._claims import check_claims
from holdfast.study.paper._compare import NOTES, compare, explained, side_of
from holdfast.study.paper._measure import FineTune, PaperModel, classifier
from holdfast.study.paper._page import render
from holdfast.study.paper._printed import Figure, Printed
from holdfast.study.paper._results import METRICS, Results
from holdfast.study.paper._run import run_paper
from holdfast.study.paper._settings import (
    BASELINE,
    DELTA_INC,
    DELTA_VAL,
    FULL,
    LR,
    METHODS,
    MULTI,
    NN,
    QUICK,
    TABLES,
    TARGETS,
    Training,
)
from holdfast.study.paper._worse import worse_cells

RUN = {
    "command": "holdfast benchmark paper --out out", "seeds": 2, "inputs": 4, "machine": "a machine",
    "images": "images",
}  # fmt: skip
SEEDS, INPUTS = 2, 4


@pytest.fixture(scope="module")
def printed() -> Printed:
    """The package's own copy of the paper's figures."""
    return Printed.load()


BASELINES = ("GCE", "PROTO", "MCE", "NNCE", "ROAR", "RBR", "ST-CE")


def records(**changed) -> dict[str, list[dict]]:
    """Results that obey the paper's pattern to the letter: each input has the paper's own figures.

    `changed` maps a part of the results to a function that returns a changed record, or None to leave it out.
    """
    printed = Printed.load()
    parts = {
        "inputs": [],
        "seconds": [],
        "accuracy": [],
        "distances": [],
        "calibrated": [],
        "robust_init": [],
    }
    for table in TABLES:
        for model in table.training:
            place = {"model": model, "dataset": table.name, "rows": 10, "attributes": 3}
            accuracy = printed.accuracy(table.name, model)
            parts["accuracy"] += [
                place | {"fold": fold, "accuracy": accuracy.mean} for fold in range(2)
            ]
            for method in METHODS:
                if model in method.models:
                    for block in (BASELINE,) if method.name in BASELINES else TARGETS:
                        _add_cell(parts, printed, table.name, model, block, method.name)
    for part, change in changed.items():
        new = [change(dict(record)) for record in parts[part]]
        parts[part] = [record for record in new if record is not None]
    return parts


def _add_cell(parts, printed, dataset, model, block, method) -> None:
    delta = printed.delta_used(model, dataset, block if block != BASELINE else DELTA_VAL)
    if delta is None:
        return
    cell = {"model": model, "dataset": dataset, "block": block, "method": method}
    figures = {metric: printed.quality(model, dataset, block, method, metric) for metric in METRICS}
    value = {
        metric: 1.0 if math.isnan(figure.mean) else figure.mean
        for metric, figure in figures.items()
    }
    if method == "Closest":
        value["cost_l1"] = 0.0
    share = {label: value[f"delta_validity_{label}"] for label in ("val", "inc")}
    seconds = printed.seconds(model, dataset, block, method)
    for seed in range(SEEDS):
        parts["seconds"].append(
            cell
            | {
                "seed": seed,
                "inputs": INPUTS,
                "seconds": 0.0 if math.isnan(seconds.mean) else seconds.mean / 1000 / 5,
            }
        )
        for row in range(INPUTS):
            robust = {
                f"verdict_{label}": "ROBUST" if row < share[label] * INPUTS else "NOT_ROBUST"
                for label in share
            }
            if model == MULTI:
                robust["verdict_inc"] = None
            parts["inputs"].append(
                cell
                | robust
                | {
                    "seed": seed,
                    "input": row,
                    "delta": delta,
                    "found": True,
                    "valid": 1.0,
                    "cost_l1": value["cost_l1"],
                }
                | {
                    "valid_retrained": value["validity_retrained"],
                    "lof": value["lof"],
                    "radius": 0.01 * (row + 1),
                }
            )


def test_the_copy_of_the_figures_agrees_with_the_papers_own_tables(root: Path) -> None:
    """Where the paper's tables lie beside the repository, every figure in them is in the copy, unchanged."""
    source = root.parent / "shared" / "paper" / "tables.json"
    if not source.is_file():
        pytest.skip("the paper's tables are not here")

    def check(ours, theirs, path=()):
        if isinstance(theirs, dict):
            for key, value in theirs.items():
                assert key in ours, (*path, key)
                check(ours[key], value, (*path, key))
        else:
            assert ours == theirs, path

    check(Printed.load().tables, json.loads(source.read_text(encoding="utf-8")))
    assert Printed.load(source).quality(NN, "adult", BASELINE, "GCE", "lof") == Figure(1.29, 0.036)


def test_printed_figures_are_found_by_model_block_and_method(printed: Printed) -> None:
    assert printed.quality(MULTI, "housing", DELTA_VAL, "RNCE-FT", "lof") == Figure(1.31, 0.035)
    assert printed.quality(MULTI, "housing", DELTA_INC, "RNCE-FT", "lof") == Figure()
    assert printed.quality(MULTI, "housing", BASELINE, "RNCE-FT", "lof") == Figure()
    assert printed.quality(LR, "compas", DELTA_INC, "RNCE-FF", "validity_retrained") == Figure(
        0.861, 0.015
    )
    assert printed.quality(NN, "adult", BASELINE, "Closest", "lof") == Figure()
    assert printed.seconds(NN, "heloc", DELTA_INC, "RNCE-FF") == Figure(670.6)
    assert printed.robust_init("all_inputs", "RNCE-FF", "adult", LR) == Figure(59.55)
    assert printed.accuracy("gmc", NN) == Figure(0.86, 0.001)
    assert printed.accuracy("iris", MULTI) == Figure(0.93)
    assert (printed.delta(NN, "gmc", DELTA_VAL), printed.delta_used(NN, "gmc", DELTA_VAL)) == (
        0.02,
        0.045,
    )
    assert printed.delta_used(MULTI, "iris", DELTA_INC) is None


@pytest.mark.parametrize("text", ["not json", "[]", '{"quality_NN": {}}'])
def test_another_file_has_to_be_the_papers_tables(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tables.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileFormatError, match="expected the paper's tables"):
        Printed.load(path)


def test_within_the_spread_or_not() -> None:
    """Two standard deviations of both together, plus half a printed digit."""
    paper = Figure(0.1, 0.003)
    edge = 2 * math.hypot(0.004, 0.003) + 0.0005
    assert side_of(Figure(0.1 + edge, 0.004), paper, "cost_l1") == "within"
    assert side_of(Figure(0.1 + edge + 1e-6, 0.004), paper, "cost_l1") == "higher"
    assert side_of(Figure(0.1 - edge - 1e-6, 0.004), paper, "cost_l1") == "lower"
    assert side_of(Figure(0.5), Figure(0.5), "cost_l1") == "within"
    assert side_of(Figure(0.105, math.nan), paper, "cost_l1") == "within"
    assert side_of(Figure(0.107, math.nan), paper, "cost_l1") == "higher"
    assert side_of(Figure(0.1), Figure(), "cost_l1") == ""
    columns = ["model", "dataset", "block", "method", "metric", "ours", "paper", "side"]
    rows = [
        [NN, "adult", BASELINE, "GCE", metric, Figure(0.2), Figure(0.1), "higher"]
        for metric in ("cost_l1", "validity_retrained", "lof")
    ]
    said = explained(pd.DataFrame(rows, columns=columns))
    assert (said["compared"], said["different"], said["better"]) == (3, 3, 1)


def test_metrics_of_a_cell_are_over_answers_and_unknown_is_not_robust() -> None:
    """By hand: four inputs, one without an answer, one UNKNOWN."""
    verdicts = ["ROBUST", "UNKNOWN", "NOT_ROBUST", None]
    rows = [
        {
            "model": NN, "dataset": "adult", "block": DELTA_VAL, "method": "MCE-R", "seed": 0, "input": i,
            "delta": 0.02, "found": verdict is not None, "valid": 1.0,
            "valid_retrained": None if verdict is None else 0.25 * i,
            "verdict_val": verdict, "verdict_inc": None, "cost_l1": None if verdict is None else 0.1 * (i + 1),
            "lof": None, "radius": None,
        }
        for i, verdict in enumerate(verdicts)
    ]  # fmt: skip
    seconds = [
        {k: rows[0][k] for k in ("model", "dataset", "block", "method", "seed")}
        | {"inputs": 4, "seconds": 0.5}
    ]
    cell = Results.of({"inputs": rows, "seconds": seconds}).mean_and_spread().iloc[0]
    assert cell["coverage"] == 0.75
    assert cell["delta_validity_val"] == pytest.approx(1 / 3)
    assert cell["delta_unknown_val"] == pytest.approx(1 / 3)
    assert cell["validity_retrained"] == pytest.approx(0.25)
    assert cell["cost_l1"] == pytest.approx(0.2)
    assert math.isnan(cell["cost_l1_std"])
    assert math.isnan(cell["delta_validity_inc"])
    assert cell["seconds"] == pytest.approx(0.5 * 20 / 4)


def test_every_claim_holds_where_figures_are_the_papers_but_for_its_own_exception(
    printed: Printed,
) -> None:
    """With the paper's figures as results only its own exceptions remain: on compas MCE-R costs more than RNCE."""
    claims = check_claims(Results.of(records()), printed)
    assert all(claim.checked for claim in claims)
    broken = {claim.text.split(" (")[0][:40]: claim.broken for claim in claims if claim.broken}
    assert list(broken) == ["Neural networks: cost rises from MCE-R t"]
    (cells,) = broken.values()
    assert cells == ("NN compas MCE-R at δ_inc (0.096, and RNCE-FT 0.088)",)
    assert [claim.verdict for claim in claims].count("holds") == len(claims) - 1


def _break(**wanted):
    """Change the records that match: `wanted` is the cell, `to` the new values."""
    to = wanted.pop("to")

    def change(record):
        return (
            record | to if all(record[name] == value for name, value in wanted.items()) else record
        )

    return change


@pytest.mark.parametrize(
    ("part", "change", "text", "cell"),
    [
        ("accuracy", _break(dataset="adult", model=NN, to={"accuracy": 0.83}), "Accuracies", "NN adult"),
        (
            "inputs",
            _break(dataset="gmc", model=NN, method="RNCE-FF", block=DELTA_INC, input=1, to={"verdict_inc": "UNKNOWN"}),
            "100% Δ-valid",
            "NN gmc RNCE-FF at δ_inc (75.0%)",
        ),
        (
            "inputs",
            _break(dataset="adult", model=NN, method="MCE-R", block=DELTA_VAL, input=0, to={"valid_retrained": 0.9}),
            "99% valid",
            "NN adult MCE-R at δ_val (97.5%)",
        ),
        (
            "inputs",
            _break(dataset="heloc", model=NN, method="PROTO", to={"verdict_val": "ROBUST"}),
            "50 points",
            "NN heloc PROTO (100% at δ_val)",
        ),
        (
            "inputs",
            _break(dataset="adult", model=NN, method="ROAR", to={"cost_l1": 0.05}),
            "cost rises",
            "NN adult RNCE-FF at δ_val (0.057, and ROAR 0.050)",
        ),
        (
            "inputs",
            _break(dataset="gmc", model=NN, method="Closest", block=DELTA_VAL, seed=1, input=2, to={"cost_l1": 0.03}),
            "`Closest`",
            "NN gmc MCE-R at δ_val (1 of 8 inputs)",
        ),
        (
            "seconds",
            _break(dataset="compas", model=NN, method="GCE", to={"seconds": 1.0}),
            "10 times",
            "NN compas GCE (5.8 times: 5 s, 29.06 s)",
        ),
        (
            "seconds",
            _break(dataset="adult", model=LR, method="RNCE-FT", block=DELTA_VAL, to={"seconds": 0.01}),
            "RNCE is at least 100",
            "LR adult RNCE-FT at δ_val (31.1 times: 0.05 s, 1.554 s)",
        ),
    ],
)  # fmt: skip
def test_a_claim_that_does_not_hold_names_the_cell(
    printed: Printed, part, change, text, cell
) -> None:
    claims = check_claims(Results.of(records(**{part: change})), printed)
    (claim,) = [claim for claim in claims if text in claim.text]
    assert claim.verdict == "does not hold"
    assert any(broken.startswith(cell) for broken in claim.broken), claim.broken
    others = [
        one for one in claims if one.broken and one is not claim and "cost rises" not in one.text
    ]
    assert not others


def test_a_closest_that_is_not_robust_breaks_its_claim(printed: Printed) -> None:
    """A cheap answer that promises less is no answer."""
    change = _break(
        dataset="adult",
        model=LR,
        method="Closest",
        block=DELTA_VAL,
        input=0,
        to={"verdict_val": "UNKNOWN"},
    )
    (claim,) = [
        c
        for c in check_claims(Results.of(records(inputs=change)), printed)
        if "`Closest`" in c.text
    ]
    assert "LR adult RNCE-FF at δ_val (2 of 8 inputs)" in claim.broken


@pytest.mark.parametrize(
    ("part", "change", "said"),
    [
        (
            "inputs",
            _break(dataset="gmc", model=NN, method="RNCE-FF", block=DELTA_INC, input=1, to={"verdict_inc": "UNKNOWN"}),
            ["**NN gmc RNCE-FF at δ_inc**, Δ-valid at δ_inc: 75.0", "2 of 8 counterfactuals are UNKNOWN"],
        ),
        (
            "inputs",
            _break(dataset="gmc", model=NN, method="MCE-R", block=DELTA_INC, seed=1, input=1,
                   to={"verdict_inc": "NOT_ROBUST"}),
            ["1 of 8 counterfactuals are NOT_ROBUST", "All are from 1 of 2 seeds",
             "`Closest` finds a robust point for all of these inputs", "(W ± δ) x"],
        ),
        (
            "inputs",
            _break(dataset="adult", model=NN, method="MCE-R", block=DELTA_VAL, input=0, to={"valid_retrained": 0.9}),
            ["**NN adult MCE-R at δ_val**, valid after retraining: 97.5", "2 of 8 counterfactuals are rejected",
             "All of them are proven for δ_val = 0.02, so these retrained models are outside Δ"],
        ),
        (
            "seconds",
            _break(dataset="compas", model=NN, method="MCE", to={"seconds": 1.0}),
            ["**NN compas MCE**, seconds: 5 s, and the paper's 0.34 s", "HiGHS"],
        ),
        (
            "accuracy",
            _break(dataset="adult", model=NN, to={"accuracy": 0.83}),
            ["**NN adult**, accuracy: 0.830"],
        ),
    ],
)  # fmt: skip
def test_a_cell_that_is_worse_than_the_papers_has_its_figures_and_reasons(
    printed: Printed, part, change, said
) -> None:
    results = Results.of(records(**{part: change}))
    lines, others = worse_cells(results, printed, check_claims(results, printed))
    (line,) = [line for line in lines if said[0] in line]
    assert [words for words in said if words not in line] == []
    # The paper's own exception to its order of costs has the paper's own figure.
    assert others == 1
    page = render(results, printed, **RUN)
    assert f"- {line}" in page
    assert f"Of the {len(lines) + 1} cells that miss a statement" in page


def test_without_worse_cells_the_page_has_no_such_section(printed: Printed) -> None:
    results = Results.of(records())
    assert worse_cells(results, printed, check_claims(results, printed)) == ([], 1)
    assert "Cells that are worse" not in render(results, printed, **RUN)


def test_a_slower_or_better_cell_that_misses_a_statement_is_only_counted(printed: Printed) -> None:
    """Twice as fast as the paper's is no ten times, and not worse either."""
    change = _break(dataset="compas", model=NN, method="GCE", to={"seconds": 1.0})
    results = Results.of(records(seconds=change))
    lines, others = worse_cells(results, printed, check_claims(results, printed))
    assert (lines, others) == ([], 2)


def test_nothing_to_check_is_neither_true_nor_false(printed: Printed) -> None:
    claims = check_claims(Results.of({}), printed)
    assert {claim.verdict for claim in claims} == {"not checked"}


def test_comparisons_of_the_papers_own_figures_are_within_the_spread(printed: Printed) -> None:
    """But for shares that four inputs cannot express."""
    compared = compare(Results.of(records()), printed)
    assert len(compared) > 300
    exact = compared[compared["metric"].isin(["cost_l1", "lof", "validity_retrained"])]
    assert set(exact["side"]) == {"within"}


def test_a_reason_is_shown_only_where_its_difference_holds(printed: Printed) -> None:
    costly = _break(dataset="adult", model=NN, method="PROTO", to={"cost_l1": 0.05})
    quiet, loud = Results.of(records()), Results.of(records(inputs=costly))
    (note,) = [text for text, _ in NOTES if "θ = 0" in text]
    assert note not in explained(compare(quiet, printed))["reasons"]
    assert explained(compare(loud, printed))["reasons"][note] == "PROTO cost (NN: adult)"
    assert note in render(loud, printed, **RUN)
    assert note not in render(quiet, printed, **RUN)
    assert "NN, PROTO: cost is higher on adult (0.050 ± 0.000 against 0.011 ± 0.002)." in render(
        loud, printed, **RUN
    )


def test_a_difference_without_a_reason_is_said_to_have_none(printed: Printed) -> None:
    change = _break(dataset="adult", model=NN, method="NNCE", to={"valid_retrained": 0.1})
    text = render(Results.of(records(inputs=change)), printed, **RUN)
    assert "We have no reason for" in text
    assert "NNCE valid after retraining (NN: adult)" in text.split("We have no reason for")[1]


def test_the_page_has_every_table_with_the_papers_figures_beside_ours(printed: Printed) -> None:
    parts = records()
    parts["calibrated"] = [
        {
            "model": NN,
            "dataset": "gmc",
            "seed": 0,
            "block": block,
            "delta": delta,
            "reached": block == DELTA_INC,
        }
        for block, delta in ((DELTA_VAL, 0.03), (DELTA_INC, 0.05))
    ]
    parts["robust_init"] = [
        {
            "model": LR,
            "dataset": "adult",
            "table": "100_inputs",
            "row": "RNCE-FF",
            "inputs": 100,
            "seconds": 0.01,
        }
    ]
    page = render(
        Results.of(parts), printed, **RUN, missing=["adult NN XYZ: Error: no such method"]
    )
    for heading in (
        "Does the paper's pattern hold?",
        "Table 1",
        "Figure 4",
        "Figure 5",
        "neural networks",
        "robustInit",
    ):
        assert heading in page
    assert RUN["command"] in page
    assert "- adult NN XYZ: Error: no such method" in page
    assert (
        "| MCE-R | 100.0 ± 0.0 (100.0 ± 0.0) | 100.0 ± 0.0 (100.0 ± 0.0) | 0.0 ± 0.0 (0.0 ± 0.0) | 0.021 ± 0.000"
        in page
    )
    assert "*target δ_val = 0.045*" in page
    assert "| NN gmc | 0.02 | 0.045 | 0.030 (1 of 1 not reached) | 0.091 | 0.091 | 0.050 |" in page
    assert "| RNCE-FF | 0.01 (0.47), 47× |" in page
    assert "![" in page
    assert "![" not in render(Results.of(parts), printed, **RUN | {"images": None})
    widths = {
        line.count("|")
        for line in page.split("## Table 1")[1].splitlines()
        if line.startswith("| adult")
    }
    assert len(widths) == 1


def test_pictures_are_drawn_for_what_was_measured(printed: Printed, tmp_path: Path) -> None:
    parts = records()
    parts["distances"] = [
        {"model": NN, "dataset": name, "seed": 0, "share": share, "distance": share * 0.5}
        for name in ("adult", "compas", "gmc")
        for share in (0.02, 0.1, 1.0)
    ]
    paths = draw(Results.of(parts), printed, tmp_path)
    assert [path.name for path in paths] == ["paper-deltas.png", "paper-survival.png"]
    assert all(path.stat().st_size > 10_000 for path in paths)
    assert draw(Results.of({}), printed, tmp_path) == []


def test_training_is_the_authors() -> None:
    """A fresh Adam moves each parameter by the learning rate in its first step: one batch, a distance of 0.01."""
    iris = load_iris()
    points, labels = iris.data / 8.0, iris.target
    with quietly():
        model = (
            classifier(Training((6, 6), 30, batch=32), len(points))
            .set_params(random_state=0)
            .fit(points, labels)
        )
    assert model.n_iter_ == 30
    assert model.alpha == pytest.approx(2e-4 * 32)
    before = load_network(model)
    rows = np.arange(0, 150, 8)
    one_step = load_network(FineTune(32)(model, points[rows], labels[rows], 1))
    assert parameter_distance(before, one_step) == pytest.approx(0.01, rel=1e-3)
    many_steps = load_network(FineTune(4)(model, points[rows], labels[rows], 1))
    assert parameter_distance(before, many_steps) > 0.02
    assert parameter_distance(before, load_network(model)) == 0.0


def test_every_situation_has_the_authors_successors() -> None:
    """Fifteen on iris; what was trained on with its seven new rows took one step of a new Adam."""
    (iris,) = [table for table in TABLES if table.name == "iris"]
    here = PaperModel(iris, MULTI, 0, FULL).situation
    today, successors = here.models.network, here.models.retrained
    assert len(successors) == 15
    far = [parameter_distance(today, network) for network in successors]
    assert min(far[:10]) > 0.1
    assert far[10:] == pytest.approx([0.01] * 5, rel=1e-2)
    assert len({network.weights[0].tobytes() for network in successors}) == 15


@pytest.fixture(scope="module")
def small_run(data_dir: Path, tmp_path_factory: pytest.TempPathFactory):
    """The whole pipeline on small parts of two tables, with the methods that take no time."""
    folder = tmp_path_factory.mktemp("paper")
    extent = replace(
        QUICK, inputs=2, retrained=1, folds=2, many_inputs=3, shares=(0.1, 1.0), calibration_inputs=3, rows=5000,
        calibration_deltas=(0.01, 0.05),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_DATA", str(data_dir))
        arguments = {
            "extent": extent, "printed": Printed.load(), "datasets": ["compas", "iris"],
            "methods": ["NNCE", "RNCE-FF", "RNCE-FT", "ROAR"], "progress": False,
        }  # fmt: skip
        first = run_paper(folder, **arguments)
        files = {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")}
        again = run_paper(folder, **arguments)
    return folder, files, first, again


def test_the_pipeline_measures_everything(small_run) -> None:
    _, _, (results, missing), _ = small_run
    assert missing == []
    cells = results.mean_and_spread().set_index(["model", "dataset", "block", "method"])
    assert cells.loc[(NN, "compas", DELTA_VAL, "RNCE-FF"), "delta_validity_val"] == 1.0
    assert cells.loc[(MULTI, "iris", DELTA_VAL, "RNCE-FT"), "delta_validity_val"] == 1.0
    assert (LR, "compas", BASELINE, "ROAR") in cells.index
    assert (NN, "compas", DELTA_INC, "RNCE-FT") in cells.index
    assert np.isfinite(cells[["cost_l1", "lof", "seconds"]].to_numpy(dtype=float)).all()
    radii = results.cell(NN, "compas", DELTA_INC, "RNCE-FF")["radius"].astype(float)
    assert (radii[results.cell(NN, "compas", DELTA_INC, "RNCE-FF")["found"]] >= 0.079).all()
    assert set(results.accuracy["dataset"]) == {"compas", "iris"}
    assert set(results.calibrated["block"]) == {DELTA_VAL, DELTA_INC}
    assert results.distances.groupby("share")["distance"].mean().is_monotonic_increasing
    assert set(results.robust_init["table"]) == {"100_inputs", "all_inputs"}


def test_a_second_run_computes_nothing_and_finds_the_same(small_run) -> None:
    folder, files, (first, _), (again, _) = small_run
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")} == files
    for part in ("accuracy", "inputs", "seconds", "distances", "calibrated", "robust_init"):
        pd.testing.assert_frame_equal(getattr(first, part), getattr(again, part))


def test_the_page_of_a_real_run_can_be_written(small_run, printed: Printed, tmp_path: Path) -> None:
    _, _, (results, missing), _ = small_run
    results.write(tmp_path)
    assert len(pd.read_csv(tmp_path / "inputs.csv")) == len(results.inputs)
    page = render(results, printed, **RUN, missing=missing)
    assert "### compas" in page
    assert "nan" not in page


def test_unknown_names_are_refused(printed: Printed) -> None:
    with pytest.raises(InvalidInputError, match="datasets: expected some of adult, compas, gmc"):
        run_paper(None, extent=QUICK, printed=printed, datasets=["loans"])
    with pytest.raises(InvalidInputError, match="methods: expected some of GCE"):
        run_paper(None, extent=QUICK, printed=printed, methods=["gce"])


def test_a_table_goes_by_both_its_names(printed: Printed) -> None:
    for name in ("housing", "california_housing"):
        # The tables pass, and it is the methods that are refused.
        with pytest.raises(InvalidInputError, match="methods: expected some of GCE"):
            run_paper(None, extent=QUICK, printed=printed, datasets=[name], methods=["gce"])


def test_the_command_writes_page_and_tables(tmp_path: Path) -> None:
    """On iris, which needs no data but scikit-learn's own."""
    page = tmp_path / "docs" / "paper.md"
    arguments = [
        "benchmark",
        "paper",
        "--out",
        str(tmp_path / "out"),
        "--page",
        str(page),
        "--quick",
    ]
    some = ["--datasets", "iris", "--methods", "NNCE", "--methods", "RNCE-FF", "--seeds", "2"]
    result = CliRunner().invoke(app, [*arguments, *some])
    assert result.exit_code == 0, result.output
    assert "Does the paper's pattern hold?" in result.output
    text = page.read_text(encoding="utf-8")
    assert "### iris" in text
    assert "--seeds 2 --datasets iris --methods NNCE --methods RNCE-FF" in text
    assert len(pd.read_csv(tmp_path / "out" / "inputs.csv")) == 2 * 2 * QUICK.inputs
    wrong = CliRunner().invoke(app, [*arguments, "--datasets", "loans"])
    assert wrong.exit_code == 2
    assert "expected some of adult" in wrong.output
