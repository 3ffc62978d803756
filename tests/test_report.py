"""What the report says is what an independent computation says: shares, radii, costs, moves, groups, counter-models."""

import dataclasses
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import holdfast as hf
from holdfast.cli import app
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.features import Feature, Kind
from holdfast.generators._base import RecourseReason
from holdfast.generators._radii import Radii
from holdfast.generators._stated import recourse_from
from holdfast.presentation.report._counter import costliest_changes
from holdfast.presentation.report._gather import gather
from holdfast.presentation.report._page import render
from holdfast.presentation.report._words import cost_of, for_people, without_advice
from recourse_cases import make_case

DATE = "2026-11-16"
CASES = [
    ("logistic regression", "mixed"),
    ("two layers", "mixed"),
    ("two layers", "categorical"),
    ("three classes", "mixed"),
]


def advice(case, generator=None, changes="case", people=None):
    changes = case.changes if changes == "case" else changes
    generator = hf.NNCE(case.candidates) if generator is None else generator
    people = case.people if people is None else people
    return hf.explain(
        case.network,
        people,
        target=case.target,
        changes=changes,
        generator=generator,
        space=case.space,
        progress=False,
    )


@pytest.fixture(scope="module")
def case():
    return make_case("two layers", "mixed", n_people=40)


@pytest.fixture(scope="module")
def naive(case):
    return advice(case)


@pytest.fixture(scope="module")
def robust(case):
    return advice(case, hf.RNCE(case.candidates))


@pytest.fixture(scope="module")
def contents(robust, naive):
    return gather(robust, name="robust", others={"naive": naive}, date=DATE)


def value_at(curve, delta):
    """A step function read off by hand."""
    return [y for x, y in zip(curve.x, curve.y, strict=True) if x <= delta][-1]


# ---------------------------------------------------------------------- methods and their curves


@pytest.mark.parametrize(("network", "space"), CASES)
@pytest.mark.parametrize("which", [hf.NNCE, hf.RNCE])
def test_the_curve_is_the_share_that_certify_proves(network, space, which):
    case = make_case(network, space, n_people=16)
    told = advice(case, which(case.candidates))
    method = gather(told, date=DATE).methods[0]
    points, label = told.points[told.found], case.network.classes[case.target]
    for delta in (0.001, 0.004, 0.01, 0.03):
        certs = hf.certify(case.network, points, label, hf.PlausibleChanges(delta))
        assert value_at(method.survival, delta) == pytest.approx(certs.robust.mean())
    at_delta = value_at(method.survival, case.changes.delta)
    assert at_delta * method.found == pytest.approx(method.robust)


def test_methods_count_what_was_found_and_proven(contents, robust, naive):
    assert [method.name for method in contents.methods] == ["robust", "naive"]
    for method, told in zip(contents.methods, (robust, naive), strict=True):
        frame = told.to_frame()
        assert method.found == frame["found"].sum()
        assert method.robust == (frame["verdict"] == "ROBUST").sum()
        assert method.unknown == (frame["verdict"] == "UNKNOWN").sum()
        assert method.mean_cost == pytest.approx(frame["cost_l1"].mean())
        assert method.median_cost == pytest.approx(frame["cost_l1"].median())
        radius = hf.certified_radius(told.network, told.points[told.found], 1)
        given = told.radii.lower[told.found]
        assert (given <= radius.upper + 1e-12).all()
        assert (given >= radius.lower - 1e-12).all()
        assert method.median_radius == pytest.approx(np.median(radius.lower), abs=2e-6)
        assert (np.isnan(told.radii.lower) == ~told.found).all()
        assert set(method.survival.x) <= {0.0, *given.tolist()}
    shown = np.array([person.radius for person in contents.people], dtype=np.float64)
    np.testing.assert_array_equal(shown, robust.radii.lower)


def test_radii_and_verdicts_agree(case):
    told = advice(case, hf.RNCE(case.candidates, line_search=True))
    for person in gather(told, date=DATE).people:
        if person.verdict == "ROBUST":
            assert person.radius > case.changes.delta
        elif person.verdict:
            assert person.radius <= case.changes.delta


def test_a_method_made_under_another_delta_is_certified_under_this_one(case, robust, naive):
    same = gather(robust, others={"naive": naive}, date=DATE).methods[1]
    for other in (advice(case, changes=None), advice(case, changes=hf.PlausibleChanges(0.05))):
        assert gather(robust, others={"naive": other}, date=DATE).methods[1] == same


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda case, told: dataclasses.replace(told, targets=1 - told.targets), "target"),
        (
            lambda case, told: dataclasses.replace(
                told, factuals=told.factuals.set_axis(range(40))
            ),
            "other keys",
        ),
        (
            lambda case, told: dataclasses.replace(told, factuals=told.factuals.assign(age=18)),
            "other values",
        ),
        (lambda case, told: advice(case, people=case.people.head(7)), "40 people, got 7"),
        (lambda case, told: 5, "what explain returns"),
    ],
)
def test_other_people_cannot_be_compared(case, robust, naive, spoil, message):
    with pytest.raises(InvalidInputError, match=message):
        gather(robust, others={"naive": spoil(case, naive)})


def test_another_model_cannot_be_compared(case, robust, naive):
    network = hf.Network([2.0 * w for w in case.network.weights], case.network.biases)
    with pytest.raises(InvalidInputError, match="another model"):
        gather(robust, others={"x": dataclasses.replace(naive, model=hf.load_model(network))})
    with pytest.raises(InvalidInputError, match="name of its own"):
        gather(robust, name="x", others={"x": naive})


# ---------------------------------------------------------------------- people and columns


def test_people_say_what_the_tables_say(contents, robust, case):
    names = [column.name for column in contents.columns]
    assert names == list(case.space.names)
    for row, person in enumerate(contents.people):
        assert list(person.before) == case.people[names].iloc[row].tolist()
        assert person.cost == (robust.cost_l1[row] if robust.found[row] else None)
        if not robust.found[row]:
            assert (person.after, person.advice, person.verdict, person.counter) == (
                (),
                (),
                "",
                None,
            )
            assert person.reason == for_people(robust.reason[row], robust.space) != ""
            continue
        assert list(person.after) == robust.counterfactuals[names].iloc[row].tolist()
        assert "; ".join(person.advice) == robust.describe(row)
        assert person.verdict == robust.verdict[row].name
        place = int(robust.found[:row].sum())
        assert person.worst_margin == robust.certificates.margin_lower[place]


def test_whole_numbers_stay_whole_although_someone_has_no_answer(contents, robust):
    assert not robust.found.all()
    kinds = {
        column.name: type(contents.people[0].before[i]) for i, column in enumerate(contents.columns)
    }
    assert kinds == {
        "age": int, "income": int, "savings": float, "months_of_history": int, "months_in_job": int,
        "job": str, "home": str, "guarantor": bool,
    }  # fmt: skip
    after = next(person.after for person in contents.people if person.after)
    assert [type(value) for value in after] == list(kinds.values())


def test_columns_say_what_a_person_can_do(contents):
    moves = {column.name: column.moves for column in contents.columns}
    assert moves["age"] == "fixed"
    assert moves["months_of_history"] == "only up"
    assert moves["income"] == "up or down, in steps of 250"
    assert moves["home"] == "any category"
    assert moves["job"] == "only up"


def test_moves_by_hand(contents, robust):
    before, after = robust.factuals[robust.found], robust.counterfactuals[robust.found]
    found = {moves.column.name: moves for moves in contents.moves}
    assert "age" not in found
    assert [moves.changed for moves in contents.moves] == sorted(
        (m.changed for m in contents.moves), reverse=True
    )
    for name in ("income", "savings", "months_of_history", "months_in_job"):
        step = after[name].astype(float).to_numpy() - before[name].to_numpy()
        step = step[step != 0]
        moves = found[name]
        assert (moves.changed, moves.up, moves.down) == (
            len(step),
            (step > 0).sum(),
            (step < 0).sum(),
        )
        # Of whole units and steps, changes that somebody was told.
        how = "linear" if robust.space[name].grid is None else "nearest"
        assert (moves.low, moves.median, moves.high) == pytest.approx(
            np.quantile(step, [0.1, 0.5, 0.9], method=how)
        )
    for name in ("job", "home"):
        pairs = pd.DataFrame({"old": before[name].to_numpy(), "new": after[name].to_numpy()})
        pairs = pairs[pairs["old"] != pairs["new"]]
        assert found[name].changed == len(pairs)
        counted = pairs.value_counts().to_dict()
        assert {
            (old, new): count for old, new, count in found[name].swaps
        }.items() <= counted.items()
        assert found[name].swaps[0][2] == max(counted.values())


def test_columns_go_by_their_labels(case):
    space = case.space.constrained(labels={"income": "yearly income"}, units={"income": "USD"})
    told = hf.explain(
        case.network,
        case.people,
        target=1,
        changes=case.changes,
        generator=hf.NNCE(case.candidates),
        space=space,
    )
    contents = gather(told, date=DATE)
    column = next(column for column in contents.columns if column.name == "income")
    assert (column.label, column.unit) == ("yearly income", "USD")
    assert any(
        text.startswith("raise yearly income from ")
        for person in contents.people
        for text in person.advice
    )


# ---------------------------------------------------------------------- groups


def test_groups_are_what_pandas_says(case, robust):
    sex = pd.Series(np.where(np.arange(40) % 3 == 0, "f", "m"), index=case.people.index)
    slices = gather(robust, groups={"sex": sex}, date=DATE).slices
    needed = ~pd.Series(robust.reason).str.startswith("already").to_numpy()
    frame = pd.DataFrame(
        {
            "sex": sex.to_numpy(),
            "cost": robust.cost_l1,
            "found": robust.found,
            "robust": robust.robust,
        }
    )[needed]
    expected = frame.groupby("sex").agg(
        people=("found", "size"),
        found=("found", "sum"),
        robust=("robust", "sum"),
        mean=("cost", "mean"),
        median=("cost", "median"),
    )
    assert [one.attribute for one in slices] == ["sex"]
    assert [group.name for group in slices[0].groups] == ["f", "m"]
    for group in slices[0].groups:
        row = expected.loc[group.name]
        assert (group.people, group.found, group.robust) == (
            row["people"],
            row["found"],
            row["robust"],
        )
        assert (group.mean_cost, group.median_cost) == pytest.approx((row["mean"], row["median"]))
    assert "Fewer than 30 people" in slices[0].note
    assert "already" in slices[0].note


def test_a_protected_attribute_that_is_nowhere_is_named(naive):
    told = dataclasses.replace(naive, space=naive.space.constrained(protected=["age", "gendre"]))
    contents = gather(told, date=DATE)
    assert [one.attribute for one in contents.slices] == ["age"]
    assert [limit for limit in contents.limits if "protected" in limit] == [
        "“gendre” is protected, but not in the people's table: they are not compared by it."
    ]
    given = gather(told, groups={"gendre": ["f", "m"] * 20}, date=DATE)
    assert not any("protected" in limit for limit in given.limits)


def test_protected_attributes_of_the_space_come_first_and_ages_in_bands(case):
    people = case.people.assign(sex=["f", "m"] * 20)
    told = hf.explain(
        case.network, people, target=1, changes=case.changes, generator=hf.NNCE(case.candidates),
        space=case.space.constrained(protected=["age", "sex"]),
    )  # fmt: skip
    age, sex, home = gather(told, groups=["home"], date=DATE).slices
    assert [age.attribute, sex.attribute, home.attribute] == ["age", "sex", "home"]
    assert 3 <= len(age.groups) <= 7
    assert age.groups[0].name.startswith("under ")
    assert age.groups[-1].name.endswith(" and over")
    edges = [int(group.name.removesuffix(" and over").split(" to ")[0]) for group in age.groups[1:]]
    needed = np.array([not text.startswith("already") for text in told.reason])
    counts = np.histogram(people["age"][needed], [-np.inf, *edges, np.inf])[0]
    assert [group.people for group in age.groups] == counts.tolist()
    assert (
        sum(group.people for group in sex.groups)
        == sum(group.people for group in home.groups)
        == needed.sum()
    )


def test_groups_with_gaps_and_with_many_labels(case, robust):
    labels = pd.Series(
        [None, *(f"l{i:02}" for i in range(20)), *["common"] * 19], index=case.people.index
    )
    groups = gather(robust, groups={"x": labels}, date=DATE).slices[0]
    assert "11 commonest of 21 groups" in groups.note
    names = [group.name for group in groups.groups]
    assert names[-1] == "not stated"
    assert "all others" in names
    needed = int((~pd.Series(robust.reason).str.startswith("already")).sum())
    assert sum(group.people for group in groups.groups) == needed


def test_groups_go_by_key_where_keys_are_unique(case):
    people = case.people.set_axis([f"p{i}" for i in range(40)])
    told = advice(case, people=people)
    sex = pd.Series(["f", "m"] * 20, index=people.index)
    mixed = sex.sample(frac=1.0, random_state=0)
    assert (
        gather(told, groups={"sex": mixed}, date=DATE).slices
        == gather(told, groups={"sex": sex}, date=DATE).slices
    )
    with pytest.raises(InvalidInputError, match="got none for 'p0'"):
        gather(told, groups={"sex": sex.drop("p0")})
    with pytest.raises(InvalidInputError, match="columns of the people's table, got 'sex'"):
        gather(told, groups="sex")
    with pytest.raises(InvalidInputError, match="each of 40 people, got 3"):
        gather(told, groups={"sex": ["f", "m", "f"]})


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["not stated", None] * 20, {"not stated"}),
        (["all others", *map(str, range(39))], None),
        (pd.Categorical([1, "1"] * 20), {"1"}),
        (np.where(np.arange(40) % 7 == 0, np.inf, np.arange(40)), None),
        (np.where(np.arange(40) % 2, -np.inf, np.inf), {"inf", "-inf"}),
        (1.7e9 + np.arange(40) / 8, None),
        (np.arange(40) * 1j, None),
        (pd.date_range("2026", periods=40), None),
    ],
)
def test_groups_of_every_sort(robust, labels, names):
    groups = gather(robust, groups={"g": labels}, date=DATE).slices[0].groups
    needed = int((robust.network.predict(robust.space.encode(robust.factuals)) != 1).sum())
    assert sum(group.people for group in groups) == needed
    assert len({group.name for group in groups}) == len(groups)
    if names is not None:
        assert {group.name for group in groups} == names


@pytest.mark.parametrize("labels", [[[1]] * 40, np.zeros((40, 2))])
def test_what_is_no_group_is_refused(robust, labels):
    with pytest.raises(InvalidInputError, match=r"groups\['g'\]: expected"):
        gather(robust, groups={"g": labels})


def test_repeated_keys_need_the_peoples_own_index(robust):
    assert not robust.factuals.index.is_unique
    with pytest.raises(InvalidInputError, match="keys are repeated"):
        gather(robust, groups={"sex": pd.Series(["f"] * 40)})


# ---------------------------------------------------------------------- what could not be found


def test_missing_rows_keep_their_reasons():
    case = make_case("logistic regression", "mixed", n_people=14)
    fixed = case.space.constrained(immutable=[name for name in case.space.names if name != "home"])
    told = hf.explain(
        case.network,
        case.people,
        target=1,
        changes=case.changes,
        generator=hf.Closest(),
        space=fixed,
        progress=False,
    )
    contents = gather(told, date=DATE)
    absent = pd.Series(
        [for_people(reason, told.space) for reason in told.reason[~told.found]]
    ).value_counts()
    said = {one.reason: one.people for one in contents.missing}
    assert said == {text.replace(" (proven)", ""): n for text, n in absent.items()}
    assert all(
        one.proven == (f"{one.reason.split('.')[0]} (proven)" in " ".join(absent.index))
        for one in contents.missing
    )
    assert any(one.proven for one in contents.missing)
    assert [one.people for one in contents.missing] == sorted(absent, reverse=True)
    for person, reason in zip(contents.people, told.reason, strict=True):
        assert person.reason == for_people(reason, told.space)
        assert not re.search("Δ|max_change|immutable|proven:", person.reason)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", ""),
        (
            "; there is one if late_fees, home (immutable) may change",
            " It would take a change of late fees and home.",
        ),
        (
            "; there is one if income may move both ways, or without the rules 'min(a, b) > 1', or with more than 2 "
            "columns changed",
            " It would take a change of income in the other direction; or a change against the rules 'min(a, b) > 1'; "
            "or changes of more than 2 details.",
        ),
        (
            "; leaving out any one kind of constraint does not help",
            " Leaving out any one kind of constraint does not help.",
        ),
    ],
)
def test_a_reason_without_formulas(more, said):
    space = hf.FeatureSpace.from_frame(pd.DataFrame({"late_fees": [0, 9], "income": [1, 2]}))
    for who, whose in (("every model in Δ", " for every plausible model"), ("today's model", "")):
        reason = RecourseReason.read(
            f"proven: no point within the constraints is accepted by {who}{more}"
        )
        assert for_people(reason, space) == f"No allowed change is enough{whose} (proven).{said}"
    assert for_people(RecourseReason.read("already classified as 1"), space, "a loan") == (
        "The model gives a loan already."
    )


@pytest.mark.parametrize(
    ("proven", "unknown", "said"),
    [
        (3, 0, ["For them, no allowed change is enough for every plausible model (proven)."]),
        (0, 3, ["For them, no advice was found."]),
        (
            3,
            1,
            [
                "For 3 of them, no allowed change is enough for every plausible model (proven).",
                "For the remaining person, no advice was found.",
            ],
        ),
    ],
)
def test_a_proof_that_no_advice_exists_is_told_from_none_found(naive, proven, unknown, said):
    reasons = ["proven: no point is accepted"] * proven + ["out of time"] * unknown
    n = len(naive) - len(reasons)
    told = nobody_found(naive, np.array([*reasons, *["already classified as 1"] * n], dtype=object))
    needed = np.arange(len(naive)) < len(reasons)
    assert list(without_advice(told, needed, "them")) == said


def test_many_reasons_are_put_together(naive):
    reasons = np.array(
        [f"{'proven: ' if i % 2 else ''}reason {i}" for i in range(40)], dtype=object
    )
    told = nobody_found(naive, reasons)
    missing = gather(told, date=DATE).missing
    # In the order of the alphabet, since each is there once; "proven: reason 1" comes before "reason 0".
    assert [one.reason for one in missing[:20]] == sorted(f"Reason {i}" for i in range(1, 40, 2))
    assert all(one.proven and one.people == 1 for one in missing[:20])
    assert [(one.people, one.proven) for one in missing[20:]] == [(20, False)]


def nobody_found(told, reasons):
    n = len(told)
    reasons = np.array([RecourseReason.read(text) for text in reasons], dtype=object)
    return dataclasses.replace(
        told, found=np.zeros(n, dtype=bool), reason=reasons, cost_l1=np.full(n, np.nan), certificates=None,
        verdict=np.full(n, None, dtype=object), points=np.full(told.points.shape, np.nan),
    )  # fmt: skip


def test_nobody_found(naive):
    contents = gather(nobody_found(naive, np.full(40, "out of reach", dtype=object)), date=DATE)
    method = contents.methods[0]
    assert (method.found, method.robust, method.mean_cost, method.median_radius) == (
        0,
        0,
        None,
        None,
    )
    assert contents.missing[0].people == 40
    assert contents.promise == (
        "For all 39 people who do not have class 1 today, no advice was found. Nothing was promised, so no promise can "
        "break.",
    )
    assert contents.figures == (("0 of 39", "people have proven advice"),)
    assert all(moves.changed == 0 for moves in contents.moves)


def test_nobody_in_need(case):
    accepted = case.candidates[case.network.predict(case.space.encode(case.candidates)) == 1].head(
        7
    )
    contents = gather(advice(case, people=accepted), groups="home")
    assert contents.promise == ("All 7 people have class 1 already, so this report has no advice.",)
    assert contents.figures == ()
    assert all(person.accepted for person in contents.people)
    assert [(one.people, one.proven, one.needed) for one in contents.missing] == [(7, False, False)]
    assert contents.slices[0].groups == ()


def test_who_has_the_class_is_for_the_model_to_say(case):
    """A file may give no reason for people without advice, or advise those who have the class already."""
    accepted = case.candidates[case.network.predict(case.space.encode(case.candidates)) == 1].head(
        2
    )
    people = pd.concat([case.people.head(3), accepted])
    told = advice(case, people=people)
    given = told.counterfactuals.astype(object).where(
        np.broadcast_to(told.found[:, None], told.counterfactuals.shape)
    )
    stated = recourse_from(case.network, people, given, target=1, space=case.space)
    needed = int((case.network.predict(case.space.encode(people)) != 1).sum())
    contents = gather(stated, groups="home")
    assert f"{needed} people who do not have class 1" in contents.promise[0]
    assert sum(group.people for group in contents.slices[0].groups) == needed
    stated = recourse_from(case.network, accepted, accepted, target=1, space=case.space)
    assert any(
        "2 people had class 1 already, and got advice" in limit for limit in gather(stated).limits
    )


def test_no_rows(naive):
    empty = dataclasses.replace(naive, found=naive.found[:0], factuals=naive.factuals.head(0))
    with pytest.raises(InvalidInputError, match="at least one person"):
        gather(empty)
    with pytest.raises(InvalidInputError, match="what explain returns"):
        gather([1, 2])


# ---------------------------------------------------------------------- counter-models


@pytest.mark.parametrize(("network", "space"), CASES)
def test_counter_models_are_as_close_as_the_radius_and_inside_only_where_broken(network, space):
    case = make_case(network, space, n_people=12)
    told = advice(case)
    seen = set()
    for row, person in enumerate(gather(told, date=DATE).people):
        if not told.found[row]:
            assert person.counter is None
            continue
        counter = person.counter
        seen.add(counter.inside)
        assert counter.inside == (person.verdict == "NOT_ROBUST")
        assert counter.distance == pytest.approx(person.radius, abs=2e-6)
        assert counter.margin_today >= 0
        assert counter.margin_counter <= 0
        logits = case.network.logits(told.points[[row]])[0]
        margin = (
            logits[0]
            if len(logits) == 1
            else logits[case.target] - np.delete(logits, case.target).max()
        )
        assert counter.margin_today == pytest.approx(margin)
        assert all(change.effect < 0 for change in counter.changes)
        assert all(
            abs(change.changed - change.today) <= counter.distance * (1 + 1e-9)
            for change in counter.changes
        )
        assert len(counter.changes) == 4
    assert seen


def test_the_changes_that_cost_most_are_those_of_a_finite_difference():
    case = make_case("three classes", "continuous", n_people=6)
    told = advice(case)
    row = int(np.flatnonzero(told.found)[0])
    point = told.points[row]
    radius = hf.certified_radius(case.network, point[None], case.target).upper[0]
    witness = hf.certify(
        case.network, point[None], case.target, hf.PlausibleChanges(1.1 * radius)
    ).witness(0)
    rival = next(k for k in np.argsort(-witness.logits(point[None])[0]) if k != case.target)
    direction = np.zeros(3)
    direction[case.target], direction[rival] = 1.0, -1.0
    effects = []
    for layer in range(len(case.network.weights)):
        for cell in np.ndindex(*case.network.weights[layer].shape):
            weights = [weight.copy() for weight in case.network.weights]
            weights[layer][cell] += 1e-7 * (witness.weights[layer][cell] - weights[layer][cell])
            effects.append(
                _slope(case.network, hf.Network(weights, case.network.biases), point, direction)
            )
        for cell in range(len(case.network.biases[layer])):
            biases = [bias.copy() for bias in case.network.biases]
            biases[layer][cell] += 1e-7 * (witness.biases[layer][cell] - biases[layer][cell])
            effects.append(
                _slope(case.network, hf.Network(case.network.weights, biases), point, direction)
            )
    found = costliest_changes(case.network, witness, point, case.target, 6)
    assert [change.effect for change in found] == pytest.approx(sorted(effects)[:6], abs=1e-6)


def _slope(network, moved, point, direction):
    return ((moved.logits(point[None]) - network.logits(point[None]))[0] @ direction) / 1e-7


def test_counter_models_of_the_most_fragile_only(naive):
    everyone, few = gather(naive, date=DATE), gather(naive, counter_models=5, date=DATE)
    told = [person for person in few.people if person.counter is not None]
    assert len(told) == 5
    radii = sorted(person.radius for person in everyone.people if person.radius is not None)
    assert max(person.radius for person in told) <= radii[5] + 1e-6
    assert any("5 most fragile" in limit for limit in few.technical)
    none = gather(naive, counter_models=False, date=DATE)
    assert all(person.counter is None for person in none.people)


# ---------------------------------------------------------------------- other Δ, and none


def test_without_changes_nothing_is_called_proven(case):
    contents = gather(advice(case, changes=None), date=DATE)
    assert contents.delta is None
    assert contents.methods[0].robust == contents.methods[0].unknown == 0
    assert contents.methods[0].survival is not None
    assert {person.verdict for person in contents.people} == {""}
    assert any("nothing is proven" in sentence for sentence in contents.promise)
    counters = [person.counter for person in contents.people if person.counter is not None]
    assert counters
    assert not any(counter.inside for counter in counters)


def test_a_radius_for_each_layer(case):
    changes = hf.PlausibleChanges((0.0, 0.004, 0.012))
    told = advice(case, changes=changes)
    contents = gather(told, date=DATE)
    assert contents.delta == 0.012
    assert contents.methods[0].robust == told.robust.sum()
    assert any("each layer" in limit for limit in contents.technical)
    # No place on the curve's axis is the edge of Δ, and the page names both ends of its radii.
    page = render(contents)
    assert "δ of Δ: 0 to 0.012, by part of the model" in page
    assert '"deltas":"0 to 0.012, by part of the model"' in page
    assert ">promised</text>" not in page
    for person in contents.people:
        if person.counter is not None:
            assert person.counter.inside == (person.verdict == "NOT_ROBUST")


def test_a_radius_for_each_parameter(case):
    told, rng = advice(case, changes=hf.PlausibleChanges(0.012)), np.random.default_rng(0)
    sides = [
        0.012 * rng.random((2, *part.shape))
        for part in (*case.network.weights, *case.network.biases)
    ]
    sides[0][0, 0, 0] = 0.012
    changes = hf.PlausibleChanges(
        sides[: len(case.network.weights)], biases=sides[len(case.network.weights) :]
    )
    # Whoever is safe in the larger box is so in this one; of the others nothing is known.
    verdicts = np.array(
        [hf.Verdict.UNKNOWN if v is hf.Verdict.NOT_ROBUST else v for v in told.verdict],
        dtype=object,
    )
    told = dataclasses.replace(told, changes=changes, verdict=verdicts)
    measured = hf.delta_calibrated([0.001 * i for i in range(1, 10)], coverage=0.8)
    # As delta_calibrated(shape="parameter") measures: the largest move relative to its radius.
    evidence = measured.evidence.assign(ratio=measured.evidence["distance"] / float(measured))
    chosen = dataclasses.replace(
        measured, delta=changes.delta, biases=changes.biases, evidence=evidence
    )
    contents = gather(told, calibrated=chosen, date=DATE, counter_models=False)
    assert (contents.delta, contents.least_delta) == (0.012, changes.least)
    assert contents.calibrated.covered
    assert contents.promise[1].endswith(
        "every model that moves no further than 8 of the 9 measured updates did."
    )
    alone = gather(told, date=DATE, counter_models=False)
    assert alone.promise[1].endswith(
        "every model within a radius for each parameter, at most 0.012."
    )
    assert any("a radius for each parameter" in limit for limit in contents.technical)
    # No place on the curve's axis is the edge of Δ, and the page names both ends of its radii.
    page = render(contents)
    assert "δ&nbsp;=&nbsp;0.012" not in page
    assert "to 0.012, by part of the model" in page
    assert ">promised</text>" not in page
    # A radius that is proven for the whole box is no larger than the least of it.
    for person in contents.people:
        assert person.verdict != "UNKNOWN" or person.radius <= 0.012
    for smaller in (0.999 * sides[0], sides[0] * (np.arange(2) == 0)[:, None, None]):
        less = hf.PlausibleChanges([smaller, *changes.delta[1:]], biases=changes.biases)
        part = dataclasses.replace(told, changes=less)
        assert not gather(
            part, calibrated=chosen, date=DATE, counter_models=False
        ).calibrated.covered


def test_only_weights_move(case):
    changes = hf.PlausibleChanges(0.005, biases=False)
    told = advice(case, changes=changes)
    method = gather(told, date=DATE).methods[0]
    for delta in (0.002, 0.005, 0.02):
        certs = hf.certify(
            case.network, told.points[told.found], 1, hf.PlausibleChanges(delta, biases=False)
        )
        assert value_at(method.survival, delta) == pytest.approx(certs.robust.mean())


@pytest.mark.parametrize("calibrated", [0.001, 0.005, 0.3])
def test_where_the_biases_stay_retraining_is_not_covered(case, calibrated):
    """A calibrated delta is how far weights and biases moved: Δ without the biases does not hold such a model."""
    told = advice(case, changes=hf.PlausibleChanges(0.005, biases=False))
    contents = gather(told, calibrated=calibrated, date=DATE)
    assert not contents.calibrated.covered
    assert contents.promise[-1] == (
        "The proof leaves the biases of the model as they are. Updates move them too, so the measured updates are not "
        "covered."
    )
    assert not any("moves no further" in sentence for sentence in contents.promise)
    assert "in which no weight moves by more than 0.005 and each bias stays" in contents.models
    assert any(limit.startswith("The biases stay as they are") for limit in contents.technical)


def test_a_calibrated_delta_for_each_layer(case):
    measured = hf.delta_calibrated([0.001 * i for i in range(1, 10)], coverage=0.8)
    chosen = dataclasses.replace(measured, delta=(0.004, 0.008, 0.002))
    told = advice(case, changes=chosen.changes)
    assert gather(told, calibrated=chosen, date=DATE).calibrated.covered
    smaller = advice(case, changes=hf.PlausibleChanges((0.0039, 0.008, 0.002)))
    assert not gather(smaller, calibrated=chosen, date=DATE).calibrated.covered
    assert gather(
        advice(case, changes=hf.PlausibleChanges(0.008)), calibrated=chosen, date=DATE
    ).calibrated.covered


def test_a_history_of_another_shape_is_compared_update_by_update(case):
    """An update lies within Δ if the distance of each of its layers lies within the radius of that layer."""
    n_layers = len(case.network.weights)
    spread = np.linspace(1.0, 4.0, n_layers)
    rows = 0.001 * np.random.default_rng(5).uniform(0.5, 1.5, (12, n_layers)) * spread
    rows[3] = rows[3, ::-1]
    histories = [
        hf.delta_calibrated(rows, coverage=0.8, shape=shape) for shape in ("uniform", "layer")
    ]
    largest = float(histories[1])
    middle = float(np.median(rows.max(axis=1)))
    sets = [
        hf.PlausibleChanges(0.9 * largest),
        hf.PlausibleChanges(middle),
        hf.PlausibleChanges(tuple(0.9 * np.array(histories[1].delta))),
        hf.PlausibleChanges((2.0 * largest, *rows.max(axis=0)[1:-1], middle)),
    ]
    counts = set()
    for changes in sets:
        told = advice(case, changes=changes)
        within = int((rows <= np.array(changes.delta)).all(axis=1).sum())
        counts.add(within)
        for history in histories:
            contents = gather(told, calibrated=history, date=DATE)
            said = [one for one in contents.promise if "moves no further" in one]
            assert f"moves no further than {within} of the 12 measured updates did." in said[0]
            alike = isinstance(history.delta, float) and isinstance(changes.delta, float)
            assert len(said) == 1 or (alike and not contents.calibrated.covered)
            for person in contents.people:
                if person.radius is not None:
                    sizes = changes.size * (rows / np.array(changes.delta)).max(axis=1)
                    held = max(
                        int((sizes < person.radius).sum()), within * (person.verdict == "ROBUST")
                    )
                    words = f"{held} of 12 updates" if held < 12 else "all 12 updates"
                    assert person.lasts in (words, "any model")
    assert len(counts) > 2
    assert not counts & {0, 12}


def test_updates_of_another_model_are_not_counted(case):
    network = case.network

    def moved(by):
        return hf.Network([part + by for part in network.weights], network.biases)

    moves = 1e-3 * np.arange(1, 10)
    for changes in (hf.PlausibleChanges(0.02), hf.PlausibleChanges(0.0045)):
        told = advice(case, changes=changes)
        for today, own in ((network, True), (moved(0.1), False)):
            refits = [moved(move + 0.1 * (not own)) for move in moves]
            history = hf.delta_calibrated(refits, origin=today, coverage=0.8)
            contents = gather(told, calibrated=history, date=DATE)
            said = " ".join([*contents.promise, contents.models])
            assert bool(contents.calibrated.updates) is own
            assert ("measured updates" in said) is own
            assert any("updates" in person.lasts for person in contents.people) is own


def test_delta_is_never_said_to_be_more_than_it_is(case):
    delta = 0.00519996
    told = advice(case, changes=hf.PlausibleChanges(delta))
    contents = gather(told, calibrated=np.nextafter(delta, 1), date=DATE)
    assert contents.promise[1].endswith(
        "every model in which no number moves by more than 0.00519."
    )
    assert dict(contents.facts)["Plausible models (Δ)"] == "Delta = 0.00519996"
    page = render(contents)
    assert "δ = 0.0052" not in page
    assert "δ of Δ: 0.005199." in page
    assert ">calibrated</text>" in page
    assert ">calibrated</text>" not in render(gather(told, calibrated=delta, date=DATE))


def test_another_norm_with_two_hidden_layers_has_radii_on_request_only(case):
    told = advice(case, changes=hf.PlausibleChanges(0.02, norm=2))
    contents = gather(told, date=DATE)
    assert contents.methods[0].survival is None
    assert {person.radius for person in contents.people} == {None}
    assert any("two seconds a row with two or more hidden" in limit for limit in contents.technical)
    # Without radii there is no gauge; what is proven is still said so.
    assert contents.gauge is None
    assert {person.lasts for person in contents.people if person.verdict == "ROBUST"} <= {
        "as promised"
    }
    for person in contents.people:
        assert (person.counter is not None) == (person.verdict == "NOT_ROBUST")
    assert contents.methods[0].robust == told.robust.sum()


def test_another_norm_without_hidden_layers():
    case = make_case("logistic regression", "mixed", n_people=12)
    changes = hf.PlausibleChanges(0.02, norm=2)
    told = advice(case, changes=changes)
    contents = gather(told, date=DATE)
    for delta in (0.01, 0.02, 0.05):
        certs = hf.certify(
            case.network, told.points[told.found], 1, hf.PlausibleChanges(delta, norm=2)
        )
        assert value_at(contents.methods[0].survival, delta) == pytest.approx(certs.robust.mean())
    for person in contents.people:
        if person.counter is not None:
            assert person.counter.inside == (person.verdict == "NOT_ROBUST")


def test_hidden_layers_without_activation_have_radii(case):
    network = hf.Network(
        case.network.weights, case.network.biases, activations=("identity", "relu")
    )
    told = hf.explain(
        network,
        case.people,
        target=1,
        changes=case.changes,
        generator=hf.NNCE(case.candidates),
        space=case.space,
    )
    contents = gather(told, date=DATE)
    for delta in (0.001, 0.005):
        certs = hf.certify(network, told.points[told.found], 1, hf.PlausibleChanges(delta))
        assert value_at(contents.methods[0].survival, delta) == pytest.approx(certs.robust.mean())
    assert not any("activation" in limit for limit in contents.technical)


def test_unknown_is_never_safe(naive):
    """All verdicts taken back: the radii may still be known, but none of them is said to exceed Δ's."""
    outcome = dataclasses.replace(
        naive.certificates.outcome, verdict=np.zeros(len(naive.certificates), dtype=np.int8)
    )
    certificates = dataclasses.replace(naive.certificates, outcome=outcome)
    verdict = naive.verdict.copy()
    verdict[naive.found] = hf.Verdict.UNKNOWN
    told = dataclasses.replace(naive, certificates=certificates, verdict=verdict)
    assert gather(naive, date=DATE).methods[0].robust > 0
    contents = gather(told, date=DATE)
    method = contents.methods[0]
    assert (method.robust, method.unknown) == (0, method.found)
    assert value_at(method.survival, contents.delta) == 0
    assert any("undecided" in sentence for sentence in contents.promise)
    assert any("undecided" in limit for limit in contents.limits)


def test_a_radius_that_contradicts_a_verdict_is_a_bug(robust):
    verdict = robust.verdict.copy()
    verdict[robust.found] = hf.Verdict.NOT_ROBUST
    with pytest.raises(HoldfastError, match="contradicts"):
        gather(dataclasses.replace(robust, verdict=verdict), date=DATE)


def test_the_fine_print_says_how_wide_the_widest_radius_is(naive):
    assert any("at most 0.000001 larger" in limit for limit in gather(naive, date=DATE).technical)
    lower, upper = np.array([0.01, 0.02, np.nan, 1.0]), np.array([0.01, 0.0213, np.nan, np.inf])
    assert Radii(lower, upper, lower, naive.changes).slack == pytest.approx(0.0013)


def test_radii_not_wanted(naive):
    contents = gather(naive, radii=False, date=DATE)
    assert contents.methods[0].survival is None
    assert {
        person.counter is not None for person in contents.people if person.verdict == "NOT_ROBUST"
    } == {True}
    # Without a radius nobody knows how close a model can come.
    assert {person.counter.closest for person in contents.people if person.counter} == {False}
    known = gather(naive, date=DATE).people
    assert {person.counter.closest for person in known if person.counter} == {True}
    for same, person in zip(known, contents.people, strict=True):
        if person.counter:
            assert same.counter.distance <= person.counter.distance * (1 + 1e-9)


def test_advice_that_no_model_breaks():
    network, people = (
        hf.Network([[[1.0, 1.0]]], [[1.0]]),
        pd.DataFrame({"u": [-5.0, 0.0], "v": [0.0, 0.0]}),
    )
    told = hf.explain(
        network,
        people,
        target=1,
        changes=hf.PlausibleChanges(0.1, biases=False),
        generator=hf.NNCE(people),
    )
    contents = gather(told, date=DATE)
    assert contents.people[0].radius == 1e6
    assert contents.people[0].counter is None
    assert contents.people[0].lasts == "any model"
    assert any("at most 0.000001 larger" in limit for limit in contents.technical)


def test_a_column_may_be_called_bias():
    network, people = (
        hf.Network([[[-1.0, 1.0]]], [[0.0]]),
        pd.DataFrame({"bias": [0.9, 0.3], "income": [0.5, 0.9]}),
    )
    told = hf.explain(
        network, people, target=1, changes=hf.PlausibleChanges(0.01), generator=hf.NNCE(people)
    )
    where = {change.where for change in gather(told, date=DATE).people[0].counter.changes}
    assert where == {
        "weight of bias in the score",
        "weight of income in the score",
        "bias of the score",
    }


# ---------------------------------------------------------------------- the calibrated delta, sentences, keys


def test_a_calibrated_delta(naive):
    chosen = hf.delta_calibrated([0.001 * i for i in range(1, 10)], coverage=0.8)
    contents = gather(naive, calibrated=chosen, date=DATE)
    assert contents.calibrated.delta == float(chosen)
    assert contents.calibrated.sentence.startswith("Number 8 of 9 distances in rising order; ")
    assert contents.calibrated.sentence.endswith(".")
    assert contents.calibrated.updates == tuple(0.001 * i for i in range(1, 10))
    assert (
        contents.models == "every model that moves no further than 5 of the 9 measured updates did"
    )
    # The promise is about a smaller Δ than the calibrated one, so no chance is stated of it.
    assert not any(sentence.startswith("Measured") for sentence in contents.promise)
    survive = int((naive.radii.lower > 0.008).sum())
    assert contents.promise[-1].startswith(f"{survive} of ")
    assert contents.promise[-1].endswith("no further than 8 of the 9 measured updates did.")
    # The largest update lies beyond this one, which Δ covers: the chance is that of its rank.
    small = hf.delta_calibrated([0.0008 * i for i in range(1, 10)], coverage=0.6)
    assert float(small) == pytest.approx(0.0048)
    told = gather(naive, calibrated=small)
    assert told.models == "every model that moves no further than 6 of the 9 measured updates did"
    assert (
        "Measured, not proven: the next update stays within this limit with a probability of at least 60%, if it is "
        "made like the 9 measured ones." in told.promise
    )
    assert told.figures[1][0] == "60%"
    # Of a Δ far beyond the history it says how far.
    tiny = hf.delta_calibrated([0.0001 * i for i in range(1, 10)], coverage=0.8)
    assert gather(naive, calibrated=tiny).models == (
        "every model that moves at most 5.55 times as far as the largest of the 9 measured updates did"
    )
    with pytest.raises(InvalidInputError, match="norm inf, got one in norm 2"):
        gather(naive, calibrated=dataclasses.replace(chosen, norm=2.0))


def test_every_update_that_a_proof_reaches_keeps_the_promise(case, naive):
    """A person with "3 of 9 updates" is accepted by the three models that moved least."""
    rng, network = np.random.default_rng(4), case.network

    def moved(size):
        parts = (
            [part + size * rng.uniform(-1.0, 1.0, part.shape) for part in parts]
            for parts in (network.weights, network.biases)
        )
        return network.with_parameters(*parts)

    updates = [moved(0.003 * k) for k in range(1, 10)]
    chosen = hf.delta_calibrated(updates, coverage=0.8, origin=network)
    order = np.argsort(chosen.evidence["distance"].to_numpy())
    told = naive.under(chosen.changes)
    contents = gather(told, calibrated=chosen, date=DATE)
    assert contents.gauge.updates == tuple(np.sort(chosen.evidence["distance"]))
    assert (
        contents.models == "every model that moves no further than 8 of the 9 measured updates did"
    )
    seen = set()
    for row, person in enumerate(contents.people):
        if not told.found[row]:
            assert person.lasts == ""
            continue
        words = person.lasts.split()
        reached = 9 if words[0] == "all" else int(words[0])
        seen.add(reached)
        assert reached >= 8 or person.verdict != "ROBUST"
        for place in order[:reached]:
            (label,) = updates[place].predict(told.points[row : row + 1])
            assert label == network.classes[told.targets[row]]
    assert len(seen) > 2


def test_a_chance_is_never_stated_where_no_promise_is_proven(case, naive):
    chosen = hf.delta_calibrated([0.1 * i for i in range(1, 10)], coverage=0.8)
    contents = gather(naive.under(chosen.changes), calibrated=chosen, date=DATE)
    assert contents.methods[0].robust == 0
    assert not any("probability" in sentence for sentence in contents.promise)
    assert contents.figures[0][1] == "people have proven advice"
    assert not any("probability" in words for _, words in contents.figures)


def test_other_advice_helps_today_only_if_todays_model_accepts_it(robust, naive):
    found, proven = int(naive.found.sum()), int(naive.robust.sum())
    assert 0 < proven < int(robust.robust.sum())
    last = f"; {proven} of these pieces of advice are proven to last."

    def said(other):
        return gather(robust, others={"naive": other}, date=DATE).promise[-1]

    assert said(naive) == f"By comparison, “naive” would help {found} people today{last}"
    points = naive.points.copy()
    row = np.flatnonzero(naive.found & ~naive.robust)[0]
    points[row] = naive.people.points[row]
    moved = dataclasses.replace(naive, points=points)
    assert said(moved) == f"By comparison, “naive” has advice for {found} people{last}"


def test_the_outcome_in_words(naive):
    plain, worded = gather(naive, date=DATE), gather(naive, outcome="a loan", date=DATE)
    assert "class 1" in plain.promise[0]
    assert worded.promise[0] == plain.promise[0].replace("class 1", "a loan")
    assert ("Promised", "A loan (class 1)") in worded.facts


def test_a_delta_of_ones_own(case, naive):
    contents = gather(naive, calibrated=0.0123, date=DATE)
    assert contents.calibrated.delta == 0.0123
    survive = int(
        (hf.certified_radius(case.network, naive.points[naive.found], 1).lower > 0.0123).sum()
    )
    found = int(naive.found.sum())
    assert any(
        s.startswith(f"{survive} of {found} promises")
        and s.endswith("than the measured updates did.")
        for s in contents.promise
    )
    assert dict(contents.facts)["Calibrated δ"].startswith("0.0123. ")
    for wrong in (0.0, math.nan, -1, True, "0.1"):
        with pytest.raises(InvalidInputError, match="calibrated: expected a delta"):
            gather(naive, calibrated=wrong)


def test_sentences_count(naive):
    contents = gather(naive, date=DATE)
    frame = naive.to_frame()
    found, safe = int(frame["found"].sum()), int((frame["verdict"] == "ROBUST").sum())
    needed = int((~frame["reason"].str.startswith("already")).sum())
    assert needed < 40
    assert str(found) in contents.promise[0]
    assert str(needed) in contents.promise[0]
    assert contents.promise[1].startswith(f"{safe} of {found} promises")
    assert contents.promise[2].startswith(
        f"{found - safe} promises can be broken by a plausible model"
    )
    assert contents.figures[0] == (f"{safe} of {needed}", "people have proven advice")
    assert dict(contents.facts)["People"] == "40"
    assert any(
        limit.startswith(f"{40 - needed} ") and "had class 1 already" in limit
        for limit in contents.limits
    )


def test_keys_and_titles_are_the_callers(naive):
    odd = [
        '<script>alert("x")</script>',
        'O\'Neil & "sons"',
        "Zoë 王 \u202e",
        *[f"k{i}" for i in range(37)],
    ]
    contents = gather(naive, keys=odd, title="<b>T</b>", name="m & n", date=DATE)
    assert [person.key for person in contents.people] == odd
    assert (contents.title, contents.methods[0].name) == ("<b>T</b>", "m & n")
    assert [person.key for person in gather(naive, date=DATE).people][:3] == [
        "person 0",
        "person 0",
        "person 1",
    ]
    with pytest.raises(InvalidInputError, match="each of the 40 people, got 2"):
        gather(naive, keys=["a", "b"])
    with pytest.raises(InvalidInputError, match="date"):
        gather(naive, date="soon")


def test_everything_is_plain(contents):
    """Only str, numbers, bool and None: what JSON can say."""
    text = json.dumps(dataclasses.asdict(contents), allow_nan=False)
    assert len(text) > 1000


# ---------------------------------------------------------------------- the page as a file


def test_texts_that_no_file_can_hold_are_refused(tmp_path, robust):
    with pytest.raises(InvalidInputError, match="expected texts that UTF-8 can write"):
        hf.report(robust, tmp_path / "report.html", title="\ud800", date=DATE)
    assert list(tmp_path.iterdir()) == []


def test_the_page_is_written_whole_and_says_the_same_again(tmp_path, robust, naive):
    odd = ['<script>alert("x")</script>', *[f"k{i}" for i in range(39)]]
    options = {
        "others": {"naïve & plain": naive},
        "keys": odd,
        "date": DATE,
        "groups": ["home"],
        "title": "<b>T</b>",
    }
    path = robust.report(tmp_path / "report.html", **options)
    page = path.read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "<script>alert" not in page
    assert "<b>T</b>" not in page
    assert hf.report(robust, tmp_path / "again.html", **options).read_bytes() == path.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.html", "report.html"]
    with pytest.raises(InvalidInputError, match="existing folder"):
        robust.report(tmp_path / "no" / "report.html")
    with pytest.raises(InvalidInputError, match="got a folder"):
        robust.report(tmp_path)
    for path in ("r.pdf", "report", None, 5):
        with pytest.raises(InvalidInputError, match=f"path: .*expected .*, got {path}"):
            robust.report(path)
    with pytest.raises(
        InvalidInputError, match="baseline: report has no such option; it has alternatives"
    ):
        robust.report(tmp_path / "report.html", baseline=naive)


@pytest.mark.parametrize(("network", "space"), CASES)
def test_a_page_for_every_kind_of_model(tmp_path, network, space):
    case = make_case(network, space)
    for changes in (case.changes, None):
        advice(case, changes=changes).report(tmp_path / "report.html", date=DATE)
        assert (tmp_path / "report.html").stat().st_size > 10_000


# ---------------------------------------------------------------------- advice from a table


def test_stated_advice_is_what_explain_said(case, robust):
    told = recourse_from(
        case.network, case.people, robust.counterfactuals, target=1, changes=case.changes, space=case.space,
        reasons=robust.reason,
    )  # fmt: skip
    told = dataclasses.replace(told, data=case.candidates)
    pd.testing.assert_frame_equal(
        told.to_frame().drop(columns=["optimality_gap", "lower_bound"]),
        robust.to_frame().drop(columns=["optimality_gap", "lower_bound"]),
    )
    np.testing.assert_array_equal(told.points, robust.points)
    same = dataclasses.replace(robust, generator=None, data=case.candidates)
    assert gather(told, date=DATE) == gather(same, date=DATE)


def test_stated_advice_of_another_class_is_refused(case, robust):
    with pytest.raises(InvalidInputError, match="another class under this model for"):
        recourse_from(case.network, case.people, robust.counterfactuals, target=0, space=case.space)
    with pytest.raises(InvalidInputError, match="each of the 40 counterfactuals, got 3"):
        recourse_from(
            case.network, case.people.head(3), robust.counterfactuals, target=1, space=case.space
        )
    with pytest.raises(InvalidInputError, match="expected the column 'age'"):
        recourse_from(
            case.network,
            case.people,
            robust.counterfactuals.drop(columns="age"),
            target=1,
            space=case.space,
        )


def test_stated_advice_that_breaks_a_constraint_says_so(case, robust):
    narrow = case.space.constrained(immutable=["income", "savings", "home"])
    told = recourse_from(
        case.network,
        case.people,
        robust.counterfactuals,
        target=1,
        changes=case.changes,
        space=narrow,
    )
    np.testing.assert_array_equal(told.found, robust.found)
    remarked = [row for row in np.flatnonzero(told.found) if told.reason[row]]
    assert remarked
    for row in np.flatnonzero(told.found):
        changed = any(
            told.counterfactuals[name].iloc[row] != told.factuals[name].iloc[row]
            for name in ("income", "savings", "home")
        )
        assert bool(told.reason[row]) == changed
    assert any("come with a remark" in limit for limit in gather(told, date=DATE).limits)


# ---------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def files(tmp_path_factory, case):
    tmp_path = tmp_path_factory.mktemp("report")
    case.network.save(tmp_path / "model.npz")
    (tmp_path / "space.json").write_text(json.dumps(case.space.to_dict()), encoding="utf-8")
    people = case.people.assign(id=[f"0{i}" for i in range(40)], sex=["f", "m"] * 20)
    people.to_csv(tmp_path / "people.csv", index=False)
    case.candidates.to_csv(tmp_path / "train.csv", index=False)
    for method in ("rnce", "nnce"):
        done = CliRunner().invoke(
            app,
            ["explain", *options(tmp_path), "--delta", "0.005", "--method", method,
             "--candidates", str(tmp_path / "train.csv"), "--out", str(tmp_path / f"{method}.csv")],
        )  # fmt: skip
        assert done.exit_code == 0, done.output
    return tmp_path


def options(folder):
    return [
        "--model", str(folder / "model.npz"), "--data", str(folder / "people.csv"), "--target", "1",
        "--schema", str(folder / "space.json"), "--index", "id",
    ]  # fmt: skip


def report(folder, *more):
    command = [
        "report",
        str(folder / "rnce.csv"),
        *options(folder),
        "--out",
        str(folder / "report.html"),
        *more,
    ]
    return CliRunner().invoke(app, command)


def test_the_command_writes_what_the_library_writes(files, case):
    done = report(
        files, "--delta", "0.005", "--name", "rnce", "--compare", f"nnce={files / 'nnce.csv'}", "--calibrated", "0.004",
        "--group", "sex", "--title", "Loans", "--date", DATE,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    people = case.people.assign(sex=["f", "m"] * 20).set_axis(
        pd.Index([f"0{i}" for i in range(40)], name="id")
    )
    told, other = (
        advice(case, generator(case.candidates), people=people) for generator in (hf.RNCE, hf.NNCE)
    )
    assert f"40 people, {told.found.sum()} with advice." in done.output
    assert f"{told.robust.sum()} of these promises are proven for every model within" in done.output
    written = dataclasses.replace(told, generator=None, data=case.candidates).report(
        files / "library.html", name="rnce", others={"nnce": other}, calibrated=0.004, groups=["sex"], title="Loans",
        date=DATE,
    )  # fmt: skip
    assert (files / "report.html").read_text(encoding="utf-8") == written.read_text(
        encoding="utf-8"
    )


def test_the_command_without_a_schema_and_without_delta(tmp_path):
    network = hf.Network(
        [[[-1.0, 1.0], [0.0, 0.2], [1.0, -1.0]]], [[0.0, 0.0, 0.0]], classes=["yes", "maybe", "no"]
    )
    people = pd.DataFrame({"debt": [0.7, 0.9, 0.2, 0.8], "income": [0.5, 0.1, 0.1, 0.2]})
    told = hf.explain(network, people, target="yes", generator=hf.NNCE([[0.7, 0.95], [0.3, 0.4]]))
    network.save(tmp_path / "model.npz")
    people.assign(group=list("abca")).to_csv(tmp_path / "people.csv", index=False)
    told.to_frame().rename_axis("row").to_csv(tmp_path / "advice.csv")
    done = CliRunner().invoke(
        app,
        ["report", str(tmp_path / "advice.csv"), "--model", str(tmp_path / "model.npz"), "--data",
         str(tmp_path / "people.csv"), "--target", "yes", "--group", "group", "--date", DATE,
         "--out", str(tmp_path / "report.html")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    unknown = dataclasses.replace(told, generator=None, data=told.generator.example_table())
    unknown.report(tmp_path / "library.html", groups={"group": list("abca")}, date=DATE)
    assert (tmp_path / "report.html").read_bytes() == (tmp_path / "library.html").read_bytes()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--compare", "nnce"], "NAME=FILE"),
        (["--compare", "x=nowhere.csv"], "the file 'nowhere.csv' does not exist"),
        (["--group", "shoe size"], "'shoe size'"),
        (["--out", "no/where/report.html"], "existing folder"),
        (["--target", "7"], "target"),
        (["--calibrated", "0"], "calibrated: expected a delta > 0"),
    ],
)
def test_the_command_names_what_is_wrong(files, more, message):
    done = report(files, *more)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_the_command_leaves_radii_out(files, robust):
    done = report(files, "--delta", "0.005", "--no-radius")
    assert done.exit_code == 0, done.output
    assert "not asked for" in (files / "report.html").read_text(encoding="utf-8")


def test_the_command_refuses_advice_for_other_people(files):
    table = pd.read_csv(files / "nnce.csv", dtype={"id": str})
    table.head(39).to_csv(files / "fewer.csv", index=False)
    done = report(files, "--compare", f"nnce={files / 'fewer.csv'}")
    assert done.exit_code == 2
    assert "same 40 people, got 39" in " ".join(done.output.split())


# ---------------------------------------------------------------------- a public table


def test_a_report_on_a_public_table(tmp_path, data_dir, monkeypatch):
    monkeypatch.setenv("HOLDFAST_DATA", str(data_dir))
    X, space, y = hf.datasets.load("heloc")
    classifier = LogisticRegression().fit(space.encode(X), y)
    denied = X[classifier.predict(space.encode(X)) != 1].head(150)
    changes = hf.PlausibleChanges(0.02)
    robust, naive = (
        hf.explain(
            classifier,
            denied,
            target=1,
            changes=changes,
            generator=generator(X),
            space=space,
            progress=False,
        )
        for generator in (hf.RNCE, hf.NNCE)
    )
    path = robust.report(tmp_path / "report.html", others={"nearest neighbour": naive}, date=DATE)
    assert 50_000 < path.stat().st_size < 600_000
    contents = gather(robust, others={"nearest neighbour": naive}, date=DATE)
    # Without hidden layers the radius has a closed form: the logit over the sum of the inputs' sizes, the bias's 1 too.
    for told, method in zip((robust, naive), contents.methods, strict=True):
        points = told.points[told.found]
        logits = points @ classifier.coef_[0] + classifier.intercept_[0]
        exact = logits / (np.abs(points).sum(axis=1) + 1.0)
        np.testing.assert_allclose(told.radii.lower[told.found], exact, rtol=0, atol=1e-9)
        assert method.robust == (exact >= 0.02).sum()
    for person in contents.people:
        assert person.counter is not None
        assert person.counter.distance == pytest.approx(person.radius, rel=1e-6)


@pytest.mark.parametrize("date", [pd.NaT, "16.11.2026", 20261116])
def test_a_date_that_is_none_is_refused(naive, date):
    with pytest.raises(InvalidInputError, match="date: expected a date such as"):
        gather(naive, date=date)


def test_the_unit_of_cost_is_stated() -> None:
    table = pd.DataFrame({"a": [0.0, 5.0], "b": [0.0, 9000.0]})
    space = hf.FeatureSpace.from_frame(table, scale="none")
    said = "The mean change over the 2 variables of the model, in units of each column's range"
    assert cost_of(space).startswith(f"{said}: at 0.03 each variable moves by 3% of its range")
    assert cost_of(space.constrained(costs={"a": 2.0})).startswith(f"{said}, weighted by column: ")
    features = (space["a"], Feature("c", Kind.CONTINUOUS, -np.inf, np.inf, (1,)))
    assert cost_of(hf.FeatureSpace(features)).endswith("the unit of c is 1, as no range is known")
