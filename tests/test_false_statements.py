"""Statements that were false once. Each case is asked everything, and `reference` says what is true of it."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    StandardScaler,
)

import holdfast as hf
from fuzz import Case, Tally, at_most, check_optimum, check_radii, check_ranges, check_verdicts
from holdfast.promises import Ledger
from holdfast.verify._outputs import OutputBounds
from reference import exact_class, inside, least_margins, robust


def _case(
    network: hf.Network, points: list[list[float]], target: int, changes: hf.PlausibleChanges
) -> Case:
    return Case("known", network, changes, np.array(points), np.full(len(points), target), 1e-6)


def _false(case: Case, *checks: Callable[[Case, Tally], None]) -> list[str]:
    tally = Tally()
    for check in checks or (check_verdicts, check_radii, check_ranges):
        check(case, tally)
    assert tally.statements
    return tally.false


def _line(*weights: float, bias: float) -> hf.Network:
    return hf.Network([[list(weights)]], [[bias]])


# --- p-norms near 1: powers that underflow or overflow ---------------------------------------------------------------

NEAR_ONE = {
    "the dual norm of a small point is not 0": (
        _line(1.0, 1.0, bias=0.5), [[1e-4, 2e-4]], hf.PlausibleChanges(1e5, norm=1.01, biases=False)
    ),
    "nor is that of a point just below 1": (
        _line(1.0, 1.0, bias=0.5), [[0.9, 0.5]], hf.PlausibleChanges(10.0, norm=1.0001, biases=False)
    ),
    "that of a large point is not infinite": (
        _line(1.0, 1.0, bias=0.5), [[1e4, 1.0]], hf.PlausibleChanges(0.3, norm=1.01)
    ),
    "nor is it beside other points": (
        _line(4.316783027097739e-07, bias=-6.947539552198387e-17), [[1.6e-10], [2.9e23]],
        hf.PlausibleChanges(9e-13, norm=1.001, biases=False),
    ),
    "a bound is a number": (
        hf.Network(
            [[[-1.25], [0.25], [-1.25]], [[-2.0, -0.25, 1.25]], [[0.0], [-1.5]]],
            [[-0.375, 0.125, 0.0], [0.125], [0.0, 0.0]],
            activations=["identity", "relu"],
        ),
        [[1.5], [-2.0]],
        hf.PlausibleChanges(0.03125, norm=1.001),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR_ONE)
def test_norms_near_one(name: str) -> None:
    network, points, changes = NEAR_ONE[name]
    target = exact_class(network, np.array(points[0]))
    checks = (check_verdicts,) if network.hidden else ()
    assert _false(_case(network, points, target, changes), *checks) == []


def test_the_radius_in_a_norm_near_one_is_that_of_the_verdicts() -> None:
    network, X = _line(1.0, 1.0, bias=0.5), [[1e4, 1.0]]
    assert hf.certify(network, X, 1, hf.PlausibleChanges(0.3, norm=1.01)).robust[0]
    assert hf.certified_radius(network, X, 1, norm=1.01).lower[0] > 0.3


@pytest.mark.parametrize(("norm", "size"), [(1.001, 1.0), (1.005, 0.05), (1.01, 1e-3)])
def test_small_networks_in_norms_near_one(norm: float, size: float) -> None:
    """A search over the ball breaks what the bounds of an underflowing dual norm called robust."""
    false = []
    for seed in range(25):
        rng = np.random.default_rng([9, seed])
        sizes = [2, int(rng.integers(2, 4)), 1]
        network = hf.Network(
            [rng.normal(size=(b, a)) for a, b in pairwise(sizes)],
            [rng.normal(size=b) * 0.3 for b in sizes[1:]],
        )
        points = size * rng.uniform(0.05, 0.95, (4, 2))
        changes = hf.PlausibleChanges(2.0 / size, norm=norm, biases=False)
        case = _case(network, points.tolist(), int(rng.integers(0, 2)), changes)
        false += _false(case, check_verdicts)
    assert false == []


def test_an_audit_is_not_certain_of_a_promise_that_the_new_model_breaks(tmp_path) -> None:
    network, changes = _line(1.0, 1.0, bias=0.5), hf.PlausibleChanges(1e5, norm=1.01, biases=False)
    promised = pd.DataFrame({"a": [1e-4], "b": [2e-4]})
    space = hf.FeatureSpace.from_frame(
        pd.DataFrame({"a": [-1.0, 1.0], "b": [-1.0, 1.0]}), scale="none"
    )
    new = _line(-4e4, -4e4, bias=0.5)
    assert changes.contains(network, new)
    assert new.predict(promised.to_numpy())[0] == 0
    with Ledger(tmp_path / "promises.ledger") as ledger:
        ledger.add_frame(network, promised - 1.0, promised, target=1, changes=changes, space=space)
        assert hf.audit(ledger, new).status.tolist() == ["BROKEN"]


# --- "not robust" without a counter-model ----------------------------------------------------------------------------

DEEP = (
    [[1.6637239913911968, 0.659147749832255], [-1.6413972945846467, -0.005203264171931977],
     [-0.6234637409883934, 0.14863152325202633]],
    [[-1.608187784186389, 0.2417718768768513, 0.23538091873745476],
     [1.5756260314314627, 0.3166450164719021, 0.5105466616976417],
     [-1.4931166849642326, 2.2527291247240275, -1.9156455579583005]],
    [[1.1018018558224842, -0.3299040738738497, -0.8806465179277968]],
)  # fmt: skip
DEEP_BIASES = ([-0.19688550327870934, -0.20160440419759676, 0.11405672767469751], [-0.33, 0.1, 0.2])


def _at_the_edge(weights, biases, x: list[float], changes: hf.PlausibleChanges, off: float) -> Case:
    """A network whose least margin at x is `off` of its last bias, so that rounding is all that is left to say no."""
    network = hf.Network(weights, biases)
    target = exact_class(network, np.array(x))
    sign = 1 if target == 1 else -1
    ((least, _),) = least_margins(network, np.array(x), target, changes).values()
    last = float(Fraction(float(network.biases[-1][0])) - sign * least)
    last += sign * off * abs(last)
    return _case(hf.Network(weights, [*biases[:-1], [last]]), [x], target, changes)


NOT_ROBUST = {
    "the tie that class 1 keeps": (
        _line(1.0, bias=0.015625), [[0.0], [1.0], [-1.5], [1.5]], 1, hf.PlausibleChanges(0.015625)
    ),
    "the tie that the lower index keeps": (
        hf.Network([[[-0.25], [1.75]]], [[0.0625, 0.0]]), [[0.0], [0.5], [-0.5]], 0, hf.PlausibleChanges(0.03125)
    ),
    "the tie that the lowest of three keeps": (
        hf.Network([[[-1.75], [-2.0], [0.0]]], [[0.53125, 0.5, -0.375]]), [[0.0], [-1.5], [-2.0]], 0,
        hf.PlausibleChanges(0.015625),
    ),
    "a margin of exactly 0 after two hidden layers": (
        hf.Network(
            [[[-1.25, -2.0], [1.25, 1.25], [-0.5, 2.0]],
             [[0.75, 0.5, -0.25], [0.75, -1.75, 0.25], [0.0, 1.0, 1.75]],
             [[0.75, -0.25, -2.0]]],
            [[-0.5, 0.25, 0.5], [0.5, 0.5, 0.375], [21.34375]],
        ),
        [[2.0, 2.0]], 0, hf.PlausibleChanges((0.0, 0.0, 0.03125)),
    ),
    "rounding is not part of an upper bound": (
        _line(-0.03167523450332024, bias=0.044816055758384966), [[0.12091689152334649], [4.159785184734809]], 1,
        hf.PlausibleChanges(0.0447216370152948),
    ),
    "what a large point rounds is not its neighbour's": (
        _line(438.9408783670583, 194.05606032526254, 14.66616974304733, bias=-1.9104790717263829),
        [[0.0, 0.008348302519876998, 0.019567934793094873], [0.9, 50.0, 0.0]], 0,
        hf.PlausibleChanges(0.003359924791361373),
    ),
    "nor is that of a point beyond 1e20": (
        _line(3.601418224932521e27, -576923.8812570381, bias=-4.186244859666888e17),
        [[-9.634214882945223e-27, -7.603601721176374e-20], [-1.3638654922335343e21, 3.012881708641144e26]], 0,
        hf.PlausibleChanges(4.85171246581411e-06),
    ),
    "nor in another row of weights": (
        hf.Network(
            [[[9.823102431083498e20], [7.674540130689211e-20], [-8.716119645441702e16]]],
            [[-580.6950804456061, 1.91747331944233e-22, -6.579576494905134e-06]],
        ),
        [[5.911524230960979e-19], [79.03853659599105]], 0, hf.PlausibleChanges(2393898.7915817373, biases=False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_ROBUST)
def test_not_robust_comes_with_a_counter_model(name: str) -> None:
    network, points, target, changes = NOT_ROBUST[name]
    assert _false(_case(network, points, target, changes)) == []


@pytest.mark.parametrize("off", [0.0, 1e-13, 1e-12, 1e-11, -1e-12])
@pytest.mark.parametrize(
    ("inputs", "first", "last"),
    [(1.0, 1e-8, 1e8), (1e-8, 1.0, 1e8), (1e10, 1e10, 1e10), (1e25, 1.0, 1.0), (1e-20, 1.0, 1.0)],
)
def test_hidden_values_of_any_size(inputs: float, first: float, last: float, off: float) -> None:
    """Hidden values of 1e-8 under last weights of 1e8, values beyond 1e20: what is small is not nothing."""
    hidden = inputs * first
    weights = [np.array(DEEP[0]) * first, np.array(DEEP[1]), np.array(DEEP[2]) * last]
    biases = [np.array(DEEP_BIASES[0]) * hidden, np.array(DEEP_BIASES[1]) * hidden, [0.0]]
    changes = hf.PlausibleChanges((1e-3 * first, 1e-3, 1e-3 * last), biases=False)
    x = [-0.892055788321591 * inputs, 0.7758718474580595 * inputs]
    assert (
        _false(_at_the_edge(weights, biases, x, changes, off), check_verdicts, check_ranges) == []
    )


# --- optima of networks with layers without activation ---------------------------------------------------------------


@pytest.mark.parametrize("world", [3, 10, 13, 15])
def test_the_cheapest_answer_of_a_network_with_identity_layers(world: int) -> None:
    """Taken for ReLU, such a layer made answers dearer than need be, "proven: none" of what exists, and no end."""
    tally = Tally()
    check_optimum(world, tally)
    assert tally.statements >= 2
    assert tally.false == []


# --- "robust" by underflow -------------------------------------------------------------------------------------------


def test_what_underflows_is_not_zero() -> None:
    """A weight of 7e-124 at a point of 1e-200 is 0 in floating point, and 1e300 times it is not."""
    network = hf.Network([[[7e-124]], [[1e300]]], [[0.0], [-5.928e-24]])
    changes = hf.PlausibleChanges((0.0, 1e-300), biases=False)
    case = _case(network, [[1e-200]], 0, changes)
    assert robust(least_margins(network, case.points[0], 0, changes), 0) is False
    assert _false(case, check_verdicts, check_ranges) == []


def test_sums_below_the_normal_range_prove_nothing() -> None:
    """Margins of 1e-320 lie below what any product here is good to."""
    network = hf.Network(
        [
            [[-1.208541282192522e18], [-5.775002067319593e17]],
            [
                [-1.478896181883562e-47, -6.030136855772351e-47],
                [-7.230806432063548e-47, 2.5057052861061395e-48],
                [6.1229061969996085e-49, -7.427280664860304e-47],
            ],
            [
                [3.382506439051366e-85, -1.5494585740417326e-85, -7.30328185296763e-85],
                [-4.841459113734272e-85, 1.173991677704193e-84, 1.168346909656544e-85],
                [8.91175168728521e-85, 3.9014812926874444e-86, 1.8653470160455494e-84],
            ],
            [
                [-4.847462144115438e-104, 0.0, 6.972150355866486e-104],
                [-1.5058374982551182e-104, -2.276907205271224e-104, 1.6348848733463088e-104],
                [-1.4938835562167942e-104, -4.550734590042567e-104, -2.9219488114748504e-104],
            ],
        ],
        [
            [1.3626402914792486e-86, 5.7749898666884865e-87],
            [-3.738106029092626e-133, 9.465302443066671e-134, -1.7333734664944937e-133],
            [3.551431244244116e-217, -1.5156956174718775e-217, 1.3416096463575852e-217],
            [-4.6907e-320, 5.8423e-320, 7.694e-320],
        ],
        activations=["relu", "relu", "relu"],
    )
    changes = hf.PlausibleChanges(
        [
            5.442544818788489e16,
            1.3546353321475135e-49,
            9.871756757336673e-86,
            1.6067618409468007e-105,
        ],
        norm=math.inf,
        biases=False,
    )
    points, targets, _ = (
        [
            [4.128615852222112e-104],
            [6.09218620169916e-104],
            [5.520063610595119e-104],
            [4.812075072072751e-104],
        ],
        [2, 2, 2, 2],
        1e-07,
    )
    assert _false(_case(network, points, targets[0], changes), check_verdicts, check_ranges) == []


def test_small_multipliers_have_as_many_bits_as_large_ones() -> None:
    """The last weights are 1e-16 where hidden values are 1e33: proofs in units of 2**-48 would be 0."""
    network = hf.Network(
        [
            [[-518823963591756.3, -868937692786053.9], [1239090543507275.2, 805784031683491.5]],
            [
                [-32220143.522895906, 403571770.47774357],
                [0.0, -229285420.81499282],
                [0.0, 75491188.90317033],
            ],
            [
                [-5.1261006435339484e23, 7.642389728985398e21, 3.6154142615687864e23],
                [-4.652572472597628e23, -1.091521845980941e23, -8.770140548382243e21],
            ],
            [[-4.181245897291666e-16, 1.2418188090887933e-17]],
        ],
        [
            [-49.944342736760305, -34.02344697044493],
            [-1900047343.5148785, -24871730674.45908, 6329114557.395137],
            [1.2796997233596095e32, 2.268637167899415e33],
            [-1.6200475987244057e29],
        ],
        activations=["identity", "identity", "identity"],
    )
    changes = hf.PlausibleChanges(
        [1836176358443.8696, 0.0, 2.373101271713564e22, 4.0406043755550664e-19],
        norm=math.inf,
        biases=True,
    )
    points, targets, _ = (
        [
            [0.0, 0.0],
            [-3.573138459137882e-14, -1.3766761393975064e-13],
            [9.566133526931301e-14, -5.0460405407821054e-14],
            [-2.9363080440086217e-13, -1.6307073150735306e-13],
        ],
        [0, 0, 0, 0],
        9.999999999999999e-06,
    )
    assert _false(_case(network, points, targets[0], changes), check_verdicts, check_ranges) == []


# --- radii and ranges ------------------------------------------------------------------------------------------------


def _random(seed: int, hidden: tuple[int, ...], rows: int = 3) -> tuple[hf.Network, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = [4, *hidden, 1]
    weights = [rng.normal(size=(b, a)) / math.sqrt(a) for a, b in pairwise(sizes)]
    network = hf.Network(weights, [rng.normal(size=b) * 0.3 for b in sizes[1:]])
    return network, rng.random((rows, 4))


@pytest.mark.parametrize(
    ("hidden", "seed", "rows", "row"),
    [((4,) * 8, 8, 3, 1), ((8,) * 3, 8, 4, 3), ((8,) * 3, 105, 4, 2)],
    ids=str,
)
def test_the_radius_of_a_deep_network_is_not_zero(
    hidden: tuple[int, ...], seed: int, rows: int, row: int
) -> None:
    """What `certify` proves at 0.9 upper, the radius should know."""
    network, X = _random(seed, hidden, rows)
    x, target = X[row : row + 1], network.predict(X)[row]
    radius = hf.certified_radius(network, x, target)
    inner = hf.PlausibleChanges(0.9 * radius.upper[0])
    assert hf.certify(network, x, target, inner).robust[0]
    assert radius.lower[0] >= inner.delta
    assert bool(radius.met[0]) == (radius.upper[0] - radius.lower[0] <= 1e-6)


@pytest.mark.parametrize("size", [1e7, 1e12, 1e30])
@pytest.mark.parametrize("hidden", [1, 2])
def test_large_weights_have_a_radius(size: float, hidden: int) -> None:
    """Weights of `size` and a point of 1: the radius is of that order too, and finite."""
    network = hf.Network([[[size]]] * (hidden + 1), [[0.0]] * (hidden + 1))
    with at_most(10.0):
        radius = hf.certified_radius(network, [[1.0]], 1, tol=1e-6 * size, biases=False)
    assert bool(radius.met[0])
    assert radius.lower[0] <= size <= radius.upper[0] <= size * (1.0 + 2e-6)


@pytest.mark.parametrize("hidden", [(), (3,), (3, 3)])
def test_a_tolerance_below_the_last_bit_ends(hidden: tuple[int, ...]) -> None:
    network, X = _random(3, hidden)
    target = network.predict(X)
    with at_most(10.0):
        radius = hf.certified_radius(network, X, target, tol=1e-25)
        bounds = hf.output_bounds(network, X, hf.PlausibleChanges(0.01), tol=1e-25)
    assert radius.met.tolist() == (radius.upper - radius.lower <= 1e-25).tolist()
    assert (radius.upper - radius.lower <= 1e-6).all()
    for i, x in enumerate(X):
        below, at = (
            hf.PlausibleChanges(float(delta))
            for delta in (np.nextafter(radius.lower[i], 0), radius.upper[i])
        )
        assert robust(least_margins(network, x, target[i], below), target[i])
        assert not robust(least_margins(network, x, target[i], at), target[i])
    assert bounds.met.shape == bounds.lower.shape


@pytest.mark.parametrize("size", [1.0, 1e4, 1e6, 1e9])
@pytest.mark.parametrize("hidden", [(3,), (3, 3), (3, 2, 3)])
def test_ranges_of_large_inputs_say_where_they_miss_their_tolerance(
    size: float, hidden: tuple[int, ...]
) -> None:
    network, X = _random(5, hidden)
    case = _case(network, (size * X).tolist(), 1, hf.PlausibleChanges(0.02))
    for tol in (1e-6, 1e-7 / np.abs(network.logits(case.points)).max()):
        assert _false(replace(case, tol=tol), check_ranges) == []
    assert size > 1.0 or hf.output_bounds(network, X, case.changes).met.all()


def test_no_number_takes_the_process_down() -> None:
    """A solver that was handed values of 1e60 wrote past the end of its own memory."""
    question = """
import holdfast as hf
network = hf.Network(
    [[[3.77886544967883e16, 0.0], [1.0326890519595775e24, -5.139596271126224e21]],
     [[108.86353961263585, -32.31086461408432], [-1.659808410247783e-23, 0.0],
      [-84491534.91241144, 2832327.1247635363]],
     [[0.0, -3.861813462155298e-09, 2.603905720614803e-26]]],
    [[-21292296.80585004, 8.145824629997929e-28], [8.6301408516805e-28, 1.021532894664426e-06, 0.740958160289173],
     [3.333209569021401e65]],
)
changes = hf.PlausibleChanges((8.203496042956214e-09, 0.0, 9.132300517805897e18))
points = [[-11736284.078803377, -2.507321409296865e18], [-166734498.53257853, 3.570548962217749e29],
          [282583686564.8429, 1.0549588569887e25], [1.3703751779608808e-07, -16.859794760326604]]
for _ in range(5):
    hf.certify(network, points, [1, 0, 1, 1], changes)
"""
    done = subprocess.run(
        [sys.executable, "-c", question], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_row_of_a_table_has_its_own_rounding() -> None:
    """The verdict on a point does not depend on who stands beside it in the table."""
    network, changes = _line(1.0, bias=0.015625), hf.PlausibleChanges(0.015625)
    alone = hf.certify(network, [[0.0]], 1, changes)
    beside = hf.certify(network, [[0.0], [1e6]], 1, changes)
    assert alone.verdict[0] is beside.verdict[0] is hf.Verdict.ROBUST


@pytest.mark.parametrize("large", [1e9, -1e9])
def test_a_row_is_settled_alike_beside_rows_that_are_accepted_or_lost(large: float) -> None:
    """Which of the two passes over a table comes first shows neither in a row's stage nor in its bounds."""
    network = _line(1.0, bias=0.0)
    changes = hf.PlausibleChanges(1.0 - 1e-7, biases=False)
    alone = hf.certify(network, [[1.0]], 1, changes)
    beside = hf.certify(network, [[1.0], *[[large]] * 9], 1, changes)
    assert alone.decided_by[0] == beside.decided_by[0] == "closed form"
    assert alone.margin_lower[0] == beside.margin_lower[0]


def test_a_counter_model_of_a_margin_at_the_last_bit_is_inside() -> None:
    """One ulp beyond the tie: a counter-model exists, lies in Δ and flips the class."""
    network = _line(1.0, bias=0.015625)
    changes = hf.PlausibleChanges(float(np.nextafter(0.015625, 1.0)))
    certs = hf.certify(network, [[0.0]], 1, changes)
    witness = certs.witness(0)
    assert certs.verdict[0] is hf.Verdict.NOT_ROBUST
    assert witness is not None
    assert inside(network, changes, witness)
    assert exact_class(witness, np.array([0.0])) == 0


# --- encodings that a table of people brings -----------------------------------------------------------------------


def _people() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"income": rng.gamma(3.0, 1000.0, 300).round(), "job": rng.choice(list("abc"), 300)}
    )
    return table, (
        table["income"] / 2000 + (table["job"] == "c") + rng.normal(0.0, 0.5, 300) > 2.0
    ).to_numpy(copy=True)


def _pipeline(income: Any, job: Any, table: pd.DataFrame, labels: np.ndarray) -> Pipeline:
    columns = ColumnTransformer([("income", income, ["income"]), ("job", job, ["job"])])
    return make_pipeline(columns, LogisticRegression(C=10.0)).fit(table, labels)


@pytest.mark.parametrize("encode", ["onehot-dense", "ordinal"])
@pytest.mark.parametrize("scaled", [False, True])
def test_other_bins_are_another_reading(tmp_path: Path, encode: str, scaled: bool) -> None:
    """An audit took the promised points for what a model with other bins reads: KEPT_FOR_CERTAIN, and broken."""
    table, labels = _people()
    table["debt"] = np.random.default_rng(1).normal(size=300)
    some = np.arange(300) % 5 == 0
    parts = []
    for rows in (np.ones(300, dtype=bool), some & (table["income"] > 2000)):
        bins = KBinsDiscretizer(3, encode=encode, quantile_method="averaged_inverted_cdf")
        debt = StandardScaler() if scaled else "passthrough"
        hot = OneHotEncoder(sparse_output=False)
        steps = [("income", bins, ["income"]), ("job", hot, ["job"]), ("debt", debt, ["debt"])]
        parts.append(ColumnTransformer(steps).fit(table[rows]))
    classifier = LogisticRegression(C=10.0).fit(parts[0].transform(table), labels)
    today, later = (make_pipeline(part, classifier) for part in parts)
    denied = table[~today.predict(table)].head(40)
    space = hf.FeatureSpace.from_pipeline(today, table)
    changes = hf.PlausibleChanges(0.01)
    result = hf.explain(
        today, denied, target=True, changes=changes, generator=hf.NNCE(table), space=space
    )
    ledger = Ledger(tmp_path / "ledger")
    ledger.add(result)
    status = hf.audit(ledger, later).to_frame()["status"].astype(str)
    kept = later.predict(result.counterfactuals[result.found])
    assert not kept.all()
    assert (status.str.startswith("KEPT").to_numpy() == kept).all()


@pytest.mark.parametrize("dtype", ["Int64", "float64"])
def test_what_is_missing_is_recorded_as_missing(tmp_path: Path, dtype: str) -> None:
    """A missing whole number came back as -2**63; a ledger took none at all."""
    table, labels = _people()
    table["income"] = table["income"].astype(dtype)
    table.loc[::4, "income"], table.loc[1::4, "job"] = np.nan, None
    # Keys may come twice.
    table.index = pd.Index(np.arange(300) // 2)
    fill = SimpleImputer(strategy="most_frequent")
    hot = make_pipeline(fill, OneHotEncoder(sparse_output=False))
    model = _pipeline(make_pipeline(SimpleImputer(), StandardScaler()), hot, table, labels)
    space = hf.FeatureSpace.from_pipeline(model, table)
    denied = table[~model.predict(table)].iloc[:20].reset_index(drop=True)
    gone = denied["income"].isna().to_numpy()
    changes = hf.PlausibleShift(0.0)
    result = hf.explain(
        model, denied, target=True, changes=changes, generator=hf.NNCE(table), space=space
    )
    assert gone[result.found].any()
    ledger = Ledger(tmp_path / "ledger")
    ledger.add(result)
    (batch,) = ledger.promises()
    for rows in (result.counterfactuals[result.found], batch.counterfactuals):
        assert str(rows["income"].dtype) == dtype
        assert (rows["income"].isna().to_numpy() == gone[result.found]).all()
    assert hf.audit(ledger, model).to_frame()["status"].astype(str).str.startswith("KEPT").all()


@pytest.mark.parametrize("drop", [None, "first"])
def test_nobody_is_told_to_become_what_stands_for_missing(drop: str | None) -> None:
    table, labels = _people()
    table.loc[::4, "job"] = np.nan
    labels[::4] = True
    stand_in = SimpleImputer(strategy="constant", fill_value="nothing")
    hot = make_pipeline(stand_in, OneHotEncoder(sparse_output=False, drop=drop))
    model = _pipeline(StandardScaler(), hot, table, labels)
    space = hf.FeatureSpace.from_pipeline(model, table)
    assert space["job"].categories == ("a", "b", "c")
    denied = table[~model.predict(table)].head(20)
    for generator in (hf.RNCE(table), hf.Closest()):
        result = hf.explain(
            model,
            denied,
            target=True,
            changes=hf.PlausibleShift(0.1),
            generator=generator,
            space=space,
        )
        assert set(result.counterfactuals["job"][result.found]) <= {"a", "b", "c"}
        assert model.predict(result.counterfactuals[result.found]).all()


def test_what_no_one_can_reach_behind_a_logarithm_is_said() -> None:
    table, labels = _people()
    income = make_pipeline(FunctionTransformer(np.log1p), StandardScaler())
    model = _pipeline(income, OneHotEncoder(sparse_output=False), table, labels)
    space = hf.FeatureSpace.from_pipeline(model, table, immutable=["job"])
    denied = table[~model.predict(table)].head(3)
    result = hf.explain(
        model,
        denied,
        target=True,
        changes=hf.PlausibleShift(50.0),
        generator=hf.Closest(),
        space=space,
    )
    assert not result.found.any()
    assert not any("any one kind of constraint" in reason for reason in result.reason)


def test_a_split_of_a_neuron_that_the_margin_wants_low() -> None:
    """A program asks for it, and the line below such a neuron is L on either side of 0."""
    weights = [
        [[141.0, -5.3e-4, -3.7e-3], [1.7e-4, -9.7e-7, 3.2e7], [-1.5e-8, -4319.0, 0.029]],
        [[-3670.1012806597487, 0.041, 1715.8274965020703], [-27068.3, -685859.0566, -5.2e-10]],
        [[-8.3e-7, 24220.21488095947]],
    ]
    biases = [[-0.19, -2.3e-12, -0.19], [1862067290.75, 17094.6], [-5111656063830600.0]]
    network, changes = hf.Network(weights, biases), hf.PlausibleChanges(609.2582553795793)
    case = _case(network, [[507012.57974817284, 0.0, 2.2e-7]], 0, changes)
    assert _false(case, check_ranges) == []


def test_a_program_s_point_is_held_against_its_box():
    weights = [
        [[-1.8165770747544176e-09], [-35913752.47387145], [2.178256458851785e-10]],
        [[70288015.64664158, -1434390079.7429047, -0.0003731070824587236]],
        [[-0.00011144060074962561], [-50117314.170587845]],
    ]
    biases = [
        [-1.1600213534160523e-08, 0.0005040269000802374, -3.5926938608286665e-11],
        [1.3238344732982204e-05],
        [-4.177637094111104e31, 31007.790258661436],
    ]
    network = hf.Network(weights, biases, activations=["identity", "identity"])
    changes = hf.PlausibleChanges(13370321200.881958)
    certificates = hf.certify(network, [[-1.804234550374297]], 1, changes)
    assert certificates.margin_lower[0] <= certificates.margin_upper[0]
    if certificates.verdict[0] == "NOT_ROBUST":
        assert certificates.witness(0).predict([[-1.804234550374297]])[0] == 0


def test_a_search_breaks_rows_by_what_it_met_itself():
    """Beside a huge row the attack leaves open what is broken by more than its own rounding, and has met no sides."""
    network = hf.Network([[[0.0]], [[2.0]], [[1.0]]], [[2.0], [-1.0], [0.0]])
    alone, beside = (
        hf.certify(network, points, 1, hf.PlausibleChanges(0.5))
        for points in ([[1.0]], [[1.0], [1e12]])
    )
    assert alone.decided_by[0] == beside.decided_by[0]
    for certificates in (alone, beside):
        assert certificates.verdict[0] == "NOT_ROBUST"
        assert certificates.witness(0).predict([[1.0]])[0] == 0


def test_multipliers_of_identity_layers_have_the_signs_that_the_checker_asks_for():
    """One row's multiplier of the wrong sign ended the whole call with an error."""
    weights = [
        [[6.933090647897149e-11, -1.2401198402041482e-07]],
        [[2.9539782911194374e-10]],
        [[-2.941800899281988e-05], [38557.05310088926], [-742317.6594617037]],
        [
            [1.0413898960934702e-07, -0.010136477436023738, 0.0],
            [7.397393472375106, 6645413.773860508, -0.0047308226984426474],
            [0.0030624026883171495, -36494386.83182312, -716.3602112080243],
        ],
    ]
    biases = [
        [18863694.068544928],
        [3252.716325017246],
        [7.79806166297666e-10, -5.487371925690074e-11, -4774666.453409786],
        [21037.82076366225, 3428200086.272506, 2.3677403157799896e-12],
    ]
    network = hf.Network(weights, biases, activations=["identity", "relu", "identity"])
    points = [[56066.70660058265, 4.769100900374868e-05], [3.6896955081193876e-10, 0.0]]
    case = _case(network, points, 1, hf.PlausibleChanges(0.14882569941160473))
    assert _false(case, check_verdicts, check_radii) == []


def test_probabilities_hold_at_the_ends_of_the_range_and_for_many_classes():
    def of(*logits: float) -> tuple[np.ndarray, np.ndarray]:
        ends = np.array([logits])
        return OutputBounds(ends, ends, np.ones_like(ends, dtype=bool)).probabilities()

    for low, high in (of(-720.0), of(0.0, 720.0)):
        share = math.exp(-720.0)
        assert low.min() <= share <= np.sort(high[0])[0]
    low, high = of(*[1.0001 * 2.0**47] * 100)
    assert (low <= 0.01).all()
    assert (high >= 0.01).all()


@pytest.mark.parametrize("norm", [math.inf, 2.0])
@pytest.mark.parametrize("hidden", [0, 1, 2])
@pytest.mark.parametrize(("bias", "delta"), [(1.0, 1e-3), (0.0, 2.0)])
def test_not_robust_is_said_where_a_witness_replays(
    norm: float, hidden: int, bias: float, delta: float
) -> None:
    """Logits of 1e20 that differ by less than their last bit: no network in floats shows another class."""
    weights = [np.full((1, 1), 1.0)] * hidden + [np.full((2, 1), 1e20)]
    biases = [np.zeros(1)] * hidden + [np.array([0.0, bias])]
    network = hf.Network(weights, biases)
    changes = hf.PlausibleChanges([0.0] * hidden + [delta], norm=norm)
    certs = hf.certify(network, [[1.0]], 0, changes)
    assert certs.verdict[0] == "UNKNOWN"
    assert certs.witness(0) is None


@pytest.mark.parametrize("seed", range(12))
def test_every_witness_replays_at_any_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(12):
        hidden = [(), (3,), (3, 2)][rng.integers(3)]
        weights, biases = [], []
        for a, b in pairwise([2, *hidden, 3]):
            size = 10.0 ** rng.uniform(-20.0, 20.0)
            weights.append(rng.normal(size=(b, a)) * size)
            biases.append(rng.normal(size=b) * size)
        # Logits that are nearly the same.
        near = 1.0 + 10.0 ** rng.uniform(-18.0, -10.0) * rng.normal(size=(3, 1))
        weights[-1], biases[-1] = weights[-1][0] * near, biases[-1][0] * near[:, 0]
        network = hf.Network(weights, biases)
        points = rng.normal(size=(6, 2)) * 10.0 ** rng.uniform(-6.0, 6.0)
        delta = [max(1e-300, np.abs(w).max() * 10.0 ** rng.uniform(-20.0, 0.0)) for w in weights]
        changes = hf.PlausibleChanges(delta)
        targets = rng.integers(0, 3, 6)
        certs = hf.certify(network, points, targets, changes)
        for row in np.flatnonzero(certs.verdict == "NOT_ROBUST").tolist():
            witness = certs.witness(row)
            assert changes.contains(network, witness)
            assert witness.predict_index(points[row : row + 1])[0] != targets[row]
