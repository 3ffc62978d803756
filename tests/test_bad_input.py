"""Bad input is a HoldfastError that says what was expected and what came, and nothing is computed from it."""

from __future__ import annotations

import contextlib
import math
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import holdfast as hf

NETWORK = hf.Network(
    [[[1.0, -1.0], [0.5, 2.0]], [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]],
    [[0.0, 0.1], [0.0, 0.0, 0.0]],
    ["a", "b", "c"],
)
BINARY = hf.Network([[[-1.0, 1.0]]], [[0.0]])
POINTS = np.array([[0.5, 0.25], [1.0, -1.0]])
CHANGES = hf.PlausibleChanges(0.01)

CALLS = {
    "certify": lambda X, target="a": hf.certify(NETWORK, X, target, CHANGES),
    "output_bounds": lambda X: hf.output_bounds(NETWORK, X, CHANGES),
    "output_bounds_interval": lambda X: hf.output_bounds(NETWORK, X, CHANGES, method="interval"),
    "certified_radius": lambda X, target="a": hf.certified_radius(NETWORK, X, target),
}
WITH_TARGET = ["certify", "certified_radius"]

BAD_POINTS = {
    "nan": (np.array([[0.5, 0.25], [np.nan, 0.0]]), ["finite", "nan", "row 1", "column 0"]),
    "infinite": (np.array([[0.5, np.inf]]), ["finite", "inf", "row 0", "column 1"]),
    "minus infinite": (np.array([[-np.inf, 0.5]]), ["finite", "-inf", "row 0", "column 0"]),
    "too many columns": (np.ones((2, 3)), ["2 columns", r"\(2, 3\)"]),
    "too few columns": (np.ones((2, 1)), ["2 columns", r"\(2, 1\)"]),
    "one dimension": (np.ones(2), ["2 columns", r"\(2,\)"]),
    "three dimensions": (np.ones((1, 2, 1)), ["2 columns", r"\(1, 2, 1\)"]),
    "words": (np.array([["yes", "no"]]), ["expected numbers"]),
    "frame of words": (pd.DataFrame({"u": ["yes"], "v": ["no"]}), ["expected numbers"]),
    "frame with a gap": (
        pd.DataFrame({"u": [1.0, None], "v": [0.0, 1.0]}),
        ["finite", "nan", "row 1", "column 'u'"],
    ),
    "masked": (np.ma.array(np.ones((2, 2)), mask=[[0, 0], [1, 0]]), ["masked array"]),
    "masked rows": ([np.ma.array([1.0, 2.0], mask=[0, 1])], ["masked array"]),
    "complex": (np.array([[0.5 + 0j, 0.25 - 1j]]), ["(?i)complex"]),
    "numbers as text": (np.array([["1", "2"]]), ["expected numbers"]),
    "wide integers": (np.array([[2**53 + 1, 0]]), ["float64 can hold", "9007199254740993"]),
    "wide unsigned integers": (
        np.array([[2**64 - 1, 0]], dtype=np.uint64),
        ["float64 can hold", str(2**64 - 1)],
    ),
    "wide integers beside fractions": (
        [[-(2**53) - 1, 0.5]],
        ["float64 can hold", "-9007199254740993"],
    ),
    "a frame with wide integers": (
        pd.DataFrame({"u": [2**53 + 1], "v": [0.5]}),
        ["float64 can hold"],
    ),
    "nothing": (None, ["expected"]),
    "empty table": (np.empty((0, 2)), ["expected", "row", r"\b0\b|empty"]),
    "empty frame": (pd.DataFrame({"u": [], "v": []}), ["expected", "row", r"\b0\b|empty"]),
}


def _assert_says(error: pytest.ExceptionInfo[BaseException], fragments: list[str]) -> None:
    message = str(error.value)
    assert [fragment for fragment in fragments if not re.search(fragment, message)] == [], message


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("bad", BAD_POINTS)
def test_bad_points(call: str, bad: str):
    X, fragments = BAD_POINTS[bad]
    with pytest.raises(hf.HoldfastError) as error:
        CALLS[call](X)
    _assert_says(error, fragments)


def test_what_float64_can_hold_and_masks_without_gaps_are_taken():
    exact = [[2**53 + 2, -(2**60)], [1, 0.5]]
    for X in (exact, pd.DataFrame(exact), np.ma.array(np.array(exact), mask=False)):
        np.testing.assert_array_equal(NETWORK.check_points(X), np.array(exact))


@pytest.mark.parametrize(
    "bad", ["masked", "masked rows", "complex", "wide integers", "wide integers beside fractions"]
)
def test_parameters_and_raw_rows_that_would_be_read_as_others_are_refused(bad: str):
    values, fragments = BAD_POINTS[bad]
    space = hf.FeatureSpace.from_frame(pd.DataFrame({"u": [0.0, 1.0], "v": [0.0, 1.0]}))
    with_space = {"target": 1, "changes": CHANGES, "space": space}
    scaled = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        [[0.0, 1.0], [1.0, 0.0]], [0, 1]
    )
    for call in (
        lambda: hf.Network([values], [np.zeros(len(values))]),
        lambda: hf.Network([np.ones((2, 1))], [values[-1]]),
        lambda: hf.explain(BINARY, values, generator=hf.NNCE([[0.0, 1.0]]), **with_space),
        lambda: hf.explain(BINARY, [[1.0, 0.0]], generator=hf.NNCE(values), **with_space),
        lambda: hf.certify(BINARY, values, **with_space),
        lambda: hf.certify(scaled, values, 1, CHANGES),
        lambda: space.violations(values, [[0.0, 1.0]]),
    ):
        with pytest.raises(hf.HoldfastError) as error:
            call()
        _assert_says(error, fragments)


@pytest.mark.parametrize(
    "number", [True, np.True_, np.array(True), 1 + 0j, np.complex128(1.0), np.ma.masked], ids=repr
)
def test_what_is_no_number_is_not_taken_for_one(number: object):
    for call in (
        lambda: hf.PlausibleChanges([number]),
        lambda: hf.PlausibleChanges(0.1, norm=number),
        lambda: hf.parameter_distance(NETWORK, NETWORK, norm=number),
        lambda: hf.certified_radius(NETWORK, POINTS, "a", tol=number),
        lambda: hf.certify(NETWORK, POINTS, "a", CHANGES, time_limit=number),
        lambda: hf.explain(NETWORK, POINTS, target="a", generator=hf.GCE(), time_limit=number),
    ):
        with pytest.raises(hf.errors.InvalidInputError, match="expected"):
            call()


@pytest.mark.parametrize("call", WITH_TARGET)
@pytest.mark.parametrize(
    ("target", "fragments"),
    [
        ("d", [r"\['a', 'b', 'c'\]", "'d'"]),
        (0, [r"\['a', 'b', 'c'\]", "0"]),
        (None, [r"\['a', 'b', 'c'\]", "None"]),
        (["a", "d"], [r"\['a', 'b', 'c'\]", "'d'"]),
        (["a", "b", "c"], ["2", "3"]),
        (["a"], ["2", "1"]),
        ([], ["2", "0"]),
    ],
    ids=str,
)
def test_bad_targets(call: str, target: object, fragments: list[str]):
    with pytest.raises(hf.HoldfastError) as error:
        CALLS[call](POINTS, target)
    _assert_says(error, ["expected", *fragments])


@pytest.mark.parametrize("target", [2, -1, 0.5, "1", math.nan])
def test_targets_that_a_binary_model_does_not_have(target: object):
    network = hf.Network([[[1.0, 1.0]]], [[0.0]])
    with pytest.raises(hf.HoldfastError, match=r"expected one of \[0, 1\], got"):
        hf.certify(network, POINTS, target, CHANGES)


@pytest.mark.parametrize(
    ("delta", "came"),
    [
        (True, "True"),
        (0, "0"),
        (0.0, "0.0"),
        (-0.1, "-0.1"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        ("wide", "wide"),
        (None, "None"),
    ],
    ids=str,
)
def test_bad_delta(delta: object, came: str):
    with pytest.raises(hf.HoldfastError, match=r"expected delta .*> 0") as error:
        hf.PlausibleChanges(delta)
    _assert_says(error, [re.escape(came)])


@pytest.mark.parametrize(
    "radii", [(), (0.0, 0.0), (0.1, -0.1), (0.1, math.nan), [0.1, "wide"]], ids=str
)
def test_bad_radii(radii: object):
    with pytest.raises(hf.HoldfastError, match=r"expected .*> 0.*, got"):
        hf.PlausibleChanges(radii)


@pytest.mark.parametrize(
    ("norm", "came"), [(0, "0"), (0.5, "0.5"), (-1, "-1"), (math.nan, "nan"), ("two", "two")]
)
def test_bad_norm(norm: object, came: str):
    for call in (
        lambda: hf.PlausibleChanges(0.1, norm=norm),
        lambda: hf.parameter_distance(NETWORK, NETWORK, norm=norm),
        lambda: hf.certified_radius(NETWORK, POINTS, "a", norm=norm),
    ):
        with pytest.raises(hf.HoldfastError, match=r"norm: expected p >= 1") as error:
            call()
        _assert_says(error, [re.escape(came)])


def test_norm_zero_says_why():
    with pytest.raises(hf.HoldfastError, match="does not bound their moves"):
        hf.PlausibleChanges(0.1, norm=0)


@pytest.mark.parametrize("radii", [(0.1,), (0.1, 0.1, 0.1)], ids=str)
def test_wrong_number_of_radii(radii: tuple[float, ...]):
    changes = hf.PlausibleChanges(radii)
    for call in (
        lambda: hf.certify(NETWORK, POINTS, "a", changes),
        lambda: hf.output_bounds(NETWORK, POINTS, changes),
    ):
        with pytest.raises(hf.HoldfastError, match=f"2 layers, got {len(radii)}"):
            call()


@pytest.mark.parametrize("method", ["exactly", "", None, 3, "exact"])
def test_unknown_method_of_certify(method: object):
    with pytest.raises(hf.HoldfastError, match="joint") as error:
        hf.certify(NETWORK, POINTS, "a", CHANGES, method=method)
    _assert_says(error, ["separate", "interval", re.escape(repr(method))])


@pytest.mark.parametrize("method", ["joint", "", None, 3])
def test_unknown_method_of_output_bounds(method: object):
    with pytest.raises(hf.HoldfastError, match="exact") as error:
        hf.output_bounds(NETWORK, POINTS, CHANGES, method=method)
    _assert_says(error, ["interval", re.escape(repr(method))])


@pytest.mark.parametrize("tol", [0.0, -1e-6, math.nan, math.inf, "fine"], ids=str)
def test_bad_tolerance(tol: object):
    with pytest.raises(hf.HoldfastError, match=r"tol: expected .*> 0") as error:
        hf.certified_radius(NETWORK, POINTS, "a", tol=tol)
    _assert_says(error, [re.escape(str(tol))])


@pytest.mark.parametrize("time_limit", [-1.0, math.nan, "soon"], ids=str)
def test_bad_time_limit(time_limit: object):
    with pytest.raises(hf.HoldfastError, match="time_limit: expected") as error:
        hf.certify(NETWORK, POINTS, "a", CHANGES, time_limit=time_limit)
    _assert_says(error, [re.escape(str(time_limit))])


@pytest.mark.parametrize("changes", [0.1, None, "0.1"], ids=str)
def test_changes_of_another_kind(changes: object):
    for call in (
        lambda: hf.certify(NETWORK, POINTS, "a", changes),
        lambda: hf.output_bounds(NETWORK, POINTS, changes),
    ):
        with pytest.raises(hf.HoldfastError, match="changes: expected PlausibleChanges") as error:
            call()
        _assert_says(error, [f"got {re.escape(repr(changes))}"])


@pytest.mark.parametrize(
    ("model", "came"),
    [(None, "NoneType"), (3, "int"), ("missing.onnx", "missing.onnx"), (object(), "object")],
    ids=["none", "number", "missing file", "object"],
)
def test_models_of_another_kind(model: object, came: str):
    for call in (
        lambda: hf.certify(model, POINTS, 1, CHANGES),
        lambda: hf.output_bounds(model, POINTS, CHANGES),
        lambda: hf.certified_radius(model, POINTS, 1),
    ):
        with pytest.raises(hf.HoldfastError) as error:
            call()
        _assert_says(error, ["expected", came])


@pytest.mark.parametrize(
    ("factuals", "fragments"),
    [
        (np.ones((1, 2)), ["2", "1"]),
        (np.ones((2, 3)), ["2 columns", r"\(2, 3\)"]),
        (np.array([[0.0, np.nan], [0.0, 0.0]]), ["finite", "nan", "row 0", "column 1"]),
    ],
    ids=["rows", "columns", "nan"],
)
def test_bad_factuals(factuals: np.ndarray, fragments: list[str]):
    with pytest.raises(hf.HoldfastError) as error:
        hf.certify(NETWORK, POINTS, "a", CHANGES, factuals=factuals)
    _assert_says(error, ["factuals", *fragments])


def test_input_is_not_changed():
    X = POINTS.copy()
    for call in CALLS.values():
        call(X)
    np.testing.assert_array_equal(X, POINTS)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("hidden", [False, True])
def test_logits_beyond_the_range_of_floating_point(hidden: bool, sign: float):
    """Finite parameters and points, infinite products: an error of ours, or a verdict that is not false."""
    huge = [[1e200, -1e200]]
    network = (
        hf.Network([huge, [[1.0]]], [[0.0], [-1.0]]) if hidden else hf.Network([huge], [[0.0]])
    )
    x = sign * np.array([[1e200, -1e200]])
    for target in (0, 1):
        with contextlib.suppress(hf.HoldfastError):
            certs = hf.certify(network, x, target, CHANGES)
            keeps = target == int(sign > 0)
            assert certs.verdict[0] in (
                hf.Verdict.UNKNOWN,
                hf.Verdict.ROBUST if keeps else hf.Verdict.NOT_ROBUST,
            )
            assert not np.isnan([certs.margin_lower[0], certs.margin_upper[0]]).any()


@pytest.mark.parametrize("seed", [-1, 0.5, "a", None, True])
def test_a_bad_seed_is_named(seed):
    calls = [
        lambda: hf.explain(NETWORK, POINTS, target="a", generator=hf.GCE(), seed=seed),
        lambda: hf.retrain(
            NETWORK, POINTS, ["a", "b"], how="incremental", retrain=lambda m, X, y, s: m, seed=seed
        ),
    ]
    for call in calls:
        with pytest.raises(hf.errors.InvalidInputError, match=r"^seed: expected"):
            call()


@pytest.mark.parametrize("n_jobs", [0, "two", 1.5, True], ids=repr)
def test_jobs_that_are_no_number_of_jobs(n_jobs: object):
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2
    table = {"t": (pd.DataFrame(X, columns=["u", "v"]), pd.Series(y))}
    for call in (
        lambda: hf.explain(
            BINARY, [[1.0, 0.0], [2.0, 0.0]], target=1, generator=hf.MCE(), n_jobs=n_jobs
        ),
        lambda: hf.retrain(
            LogisticRegression().fit(X, y), X, y, how="incremental", n=2, n_jobs=n_jobs
        ),
        lambda: hf.benchmark(
            table, models={"m": LogisticRegression()}, methods=["gce"], deltas=[0.1], n_jobs=n_jobs
        ),
    ):
        with pytest.raises(
            hf.errors.InvalidInputError, match="n_jobs: expected a whole number other than 0"
        ):
            call()


@pytest.mark.parametrize("row", [10**6, -3, 0.5, True, "first"], ids=repr)
def test_rows_that_are_not_there(row: object):
    certificates = hf.certify(BINARY, POINTS, 1, CHANGES)
    advice = hf.explain(BINARY, POINTS, target=1, changes=CHANGES, generator=hf.NNCE([[0.0, 1.0]]))
    for call in (
        lambda: certificates.witness(row),
        lambda: certificates.proof(row),
        lambda: advice.describe(row),
        lambda: advice.letter(row),
        lambda: hf.certificate(certificates, row),
    ):
        with pytest.raises(
            hf.errors.InvalidInputError,
            match="row: expected one of the 2 rows, counted from 0, got",
        ):
            call()
    assert certificates.witness(-1) is not None


def test_letters_into_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> str:
        raise PermissionError(13, "Permission denied")

    advice = hf.explain(
        BINARY, POINTS[1:], target=1, changes=CHANGES, generator=hf.NNCE([[0.0, 1.0]])
    )
    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(
        hf.errors.InvalidInputError,
        match=r"letters: expected a folder that can be made, got: .*denied",
    ):
        hf.letters(advice, tmp_path / "letters", sender="The Lender")


def test_a_table_of_another_library_is_named_with_the_way_out():
    class DataFrame:
        __module__ = "polars.dataframe.frame"

        def to_pandas(self) -> None: ...

    with pytest.raises(
        hf.HoldfastError,
        match=r"a pandas DataFrame, got polars.DataFrame; pass frame.to_pandas\(\)",
    ):
        hf.FeatureSpace.from_frame(DataFrame())
    with pytest.raises(hf.HoldfastError, match="a pandas DataFrame, got list"):
        hf.FeatureSpace.from_frame([[1.0]])


def test_people_in_float32_are_taken():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"u": rng.normal(3.0, 2.0, 80), "v": rng.normal(-7.0, 0.3, 80)})
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(table, table["u"] > 3.0)
    space = hf.FeatureSpace.from_pipeline(model, table)
    for people in (table.head(10).astype(np.float32), table.head(10).astype(np.float32).to_numpy()):
        certificates = hf.certify(model, people, True, CHANGES, space=space)
        np.testing.assert_array_equal(
            certificates.points, space.encode(np.asarray(people, dtype=np.float64))
        )
        advice = hf.explain(
            model, people, target=True, changes=CHANGES, generator=hf.RNCE(table), space=space
        )
        assert (advice.found == ~model.predict(table.head(10))).all()
        assert model.predict(advice.counterfactuals[advice.found]).all()


def test_a_gap_is_named_by_column_and_person():
    table = pd.DataFrame(
        {"word": list("abca"), "number": [1.0, 2.0, 3.0, 4.0]}, index=["Ann", "Bob", "Cy", "Di"]
    )
    encoder = make_column_transformer((OneHotEncoder(), ["word"]), remainder="passthrough")
    model = make_pipeline(encoder, LogisticRegression()).fit(table, [0, 1, 0, 1])
    gap = table.assign(number=[1.0, 2.0, np.nan, 4.0])
    space = hf.FeatureSpace.from_pipeline(model, table)
    for call in (
        lambda: hf.certify(model, gap, 1, CHANGES),
        lambda: hf.certified_radius(model, gap, 1),
        lambda: hf.explain(model, gap, target=1, generator=hf.NNCE(table), space=space),
    ):
        with pytest.raises(hf.HoldfastError) as error:
            call()
        _assert_says(error, ["column 'number'", r"got nan in row 2 \('Cy'\)"])


@pytest.mark.parametrize("norm", [math.inf, 2.0])
def test_bars_on_radii_and_certificates_change_no_answer(
    norm: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    points = np.random.default_rng(0).normal(size=(300 if norm == math.inf else 3, 2))
    targets = NETWORK.predict(points)
    quiet = hf.certified_radius(NETWORK, points, targets, norm=norm, progress=False)
    assert capsys.readouterr().err == ""
    watched = hf.certified_radius(NETWORK, points, targets, norm=norm, progress=True)
    assert f"{len(points)} of {len(points)} (100%)" in capsys.readouterr().err
    np.testing.assert_array_equal([watched.lower, watched.upper], [quiet.lower, quiet.upper])
    certificates = hf.certify(NETWORK, points[:3], targets[:3], CHANGES)
    hf.write_certificates(certificates, tmp_path / "all.jsonl", progress=True)
    assert "3 of 3 (100%)" in capsys.readouterr().err
