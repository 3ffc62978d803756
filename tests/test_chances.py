"""The judge of `bench/chances.py`: it reads each sentence literally, and finds the false ones."""

import importlib
from types import ModuleType

import numpy as np
import pytest

import holdfast as hf
from holdfast.changes import Chance, Inside


@pytest.fixture(scope="module")
def chances(root) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "bench"))
        return importlib.import_module("chances")


OLD = "of such promises at most 1 in 10 is expected to be broken by the next model"


def runs(chances, sentence, answered, failed, n=2000):
    """The same sentence in some of the runs, which fails in a share of these."""
    some = np.random.default_rng(0).random(int(answered * n)) < failed
    told = [chances.Run(sentence, {"promises": float(one), "inside": float(one)}) for one in some]
    return [*told, *[chances.Run()] * (n - len(told))]


@pytest.mark.parametrize(
    ("sentence", "answered", "failed", "verdicts"),
    [
        # Without a condition it is judged given an answer, however rare.
        (OLD, 1.0, 0.09, ["kept"]),
        (OLD, 1.0, 0.13, ["VIOLATED"]),
        (OLD, 0.1, 0.25, ["VIOLATED"]),
        # Over all runs, and given a setting where every second has one.
        (str(Chance(0.1, 20)), 0.1, 0.25, ["kept", "says nothing"]),
        (str(Chance(0.1, 20)), 0.6, 0.14, ["kept", "kept"]),
        (str(Chance(0.1, 20)), 0.6, 0.25, ["VIOLATED", "VIOLATED"]),
        (str(Chance(0.2, 20, 0.9)), 0.9, 0.15, ["VIOLATED", "kept"]),
        (str(Inside(8, 9)), 1.0, 0.19, ["kept"]),
        (str(Inside(8, 9)), 1.0, 0.24, ["VIOLATED"]),
        (str(hf.delta_calibrated([0.1] * 9, coverage=0.8)), 1.0, 0.24, ["VIOLATED"]),
        (str(Inside(8, 9, 0.5, 0.9)), 1.0, 0.14, ["VIOLATED"]),
    ],
)
def test_a_false_sentence_is_found(chances, sentence, answered, failed, verdicts):
    judged = chances.judge(runs(chances, sentence, answered, failed))
    assert [one.verdict for one in judged] == verdicts


def test_a_sentence_that_cannot_be_read_is_refused(chances):
    with pytest.raises(ValueError, match="expected a chance in the sentence"):
        chances.claims("all will be well")


@pytest.mark.parametrize("word", ["risk: RNCE", "delta: layer", "expiry: runs", "kept share: 1"])
def test_every_part_says_something_that_is_judged(chances, word):
    name = next(name for name in chances.WORLDS if name.startswith(word))
    (judged, *_) = chances.judge(chances.some_runs((name, 0, 2)))
    assert judged.runs == judged.answered == 2
