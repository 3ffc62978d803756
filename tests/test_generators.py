"""Every generator on every kind of network and space: one table, one row for each generator."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast.generators import (
    GCE,
    MCE,
    NNCE,
    PROTO,
    RBR,
    RNCE,
    ROAR,
    STCE,
    Closest,
    Generator,
    ReasonKind,
    Robust,
    explain,
)
from holdfast.generators import _walk as walking
from recourse_cases import NETWORKS, SPACES, Case, make_case

# name: how to make it from a case, and whether what it finds is always robust
GENERATORS = {
    "NNCE": (lambda case: NNCE(case.candidates), False),
    "RNCE": (lambda case: RNCE(case.candidates), True),
    "RNCE certified": (lambda case: RNCE(case.candidates, certified_candidates=True), True),
    "RNCE line": (lambda case: RNCE(case.candidates, line_search=True), True),
    "RNCE certified line": (
        lambda case: RNCE(case.candidates, certified_candidates=True, line_search=True),
        True,
    ),
    "Robust(NNCE)": (lambda case: Robust(NNCE(case.candidates), max_rounds=5), False),
    "MCE": (lambda case: MCE(), False),
    "Robust(MCE)": (lambda case: Robust(MCE(raise_by=0.3), max_rounds=6), False),
    "Closest": (lambda case: Closest(), True),
    "GCE": (lambda case: GCE(), False),
    "Robust(GCE)": (lambda case: Robust(GCE(raise_by=0.3), max_rounds=6), False),
    "PROTO": (lambda case: PROTO(case.candidates), False),
    "Robust(PROTO)": (
        lambda case: Robust(PROTO(case.candidates, raise_by=0.3), max_rounds=6),
        False,
    ),
    "ROAR": (lambda case: ROAR(), False),
    "STCE": (lambda case: STCE(case.candidates, k=64, tau=0.3), False),
    "RBR": (lambda case: RBR(case.candidates, steps=30), False),
}


@pytest.fixture(
    scope="module",
    params=[(network, space) for network in NETWORKS for space in SPACES],
    ids=" ".join,
)
def case(request) -> Case:
    return make_case(*request.param, n_people=5)


@pytest.fixture(params=GENERATORS)
def generator(request, case) -> Generator:
    return GENERATORS[request.param][0](case)


def ask(case, generator, **options):
    return explain(
        case.network, case.people, target=case.target, changes=case.changes, generator=generator, space=case.space,
        **options,
    )  # fmt: skip


def test_what_is_handed_out_is_true(case, generator, request):
    result = ask(case, generator)
    assert len(result) == len(case.people)
    assert result.counterfactuals.index.equals(case.people.index)
    assert list(result.counterfactuals.columns) == list(case.people.columns)
    # The third row has the class already: it keeps its place and says so.
    assert not result.found[2]
    assert result.reason[2] == f"already classified as {case.target}"
    assert result.counterfactuals[~result.found].isna().all(axis=None)
    assert all(result.reason[~result.found])
    answers, people = result.counterfactuals[result.found], case.people[result.found]
    answers = answers.astype(case.people.dtypes)
    assert len(answers) > 0
    assert case.space.violations(answers, people) == [[]] * len(answers)
    points = case.space.encode(answers)
    np.testing.assert_array_equal(points, result.points[result.found])
    np.testing.assert_array_equal(case.network.predict(points), case.target)
    np.testing.assert_array_equal(result.cost_l1[result.found], case.space.cost_l1(answers, people))
    again = hf.certify(case.network, points, case.target, case.changes)
    assert again.verdict.tolist() == result.verdict[result.found].tolist()
    assert [verdict is None for verdict in result.verdict] == (~result.found).tolist()
    if GENERATORS[request.node.callspec.params["generator"]][1]:
        assert again.robust.all()


def test_the_same_seed_finds_the_same_and_pickles(case, generator):
    few = replace(case, people=case.people.head(3))
    first, second = (
        ask(few, copy, seed=3) for copy in (generator, pickle.loads(pickle.dumps(generator)))
    )
    frames = [result.to_frame().drop(columns="reason") for result in (first, second)]
    pd.testing.assert_frame_equal(*frames, check_exact=True)
    # What else would have to give, after the first sentence, is looked for as long as there is time.
    reasons = [[reason.split(";")[0] for reason in result.reason] for result in (first, second)]
    assert reasons[0] == reasons[1]


def test_without_changes_there_are_no_verdicts(case, generator):
    if isinstance(generator, Robust | Closest):
        with pytest.raises(hf.HoldfastError, match="expected PlausibleChanges"):
            explain(
                case.network, case.people, target=case.target, generator=generator, space=case.space
            )
        return
    result = explain(
        case.network, case.people, target=case.target, generator=generator, space=case.space
    )
    assert result.certificates is None
    assert result.verdict.tolist() == [None] * len(result)
    assert result.found.any()


def test_nothing_is_found_where_nothing_may_move(case, generator):
    fixed = case.space.constrained(immutable=case.space.names)
    result = explain(
        case.network,
        case.people,
        target=case.target,
        changes=case.changes,
        generator=generator,
        space=fixed,
    )
    assert not result.found.any()
    assert all(
        reason.startswith("proven: nothing may change") for reason in np.delete(result.reason, 2)
    )


@pytest.mark.parametrize("name", GENERATORS)
def test_a_time_limit_that_runs_out_is_said(name, monkeypatch):
    """Without advice the reason never says of candidates that were not tried that none would do."""
    case = make_case("two layers", "continuous", n_people=12)
    table = pd.concat([case.candidates] * 40, ignore_index=True)
    generator = GENERATORS[name][0](replace(case, candidates=table))
    # No candidate at hand is a way out: the search has to go on when the time is up.
    monkeypatch.setattr(walking, "_FIRST", 1)
    task = {"changes": case.changes, "target": case.target, "space": case.space}
    late = explain(case.network, case.people, generator=generator, time_limit=1e-9, **task)
    missing = ~late.found & [reason.kind is ReasonKind.OTHER for reason in late.reason]
    for reason in late.reason[missing]:
        assert "in time" in reason or reason.startswith("the time ran out before ")
        assert "none of" not in reason
        assert "can be asked for no more" not in reason
    if "NCE" in name.removesuffix(" line") or name in ("STCE", "MCE", "Closest"):
        assert missing.any()
