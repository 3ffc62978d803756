"""What was measured is stated where it was measured for the question asked, and nowhere else."""

import dataclasses
import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import holdfast as hf
from holdfast.changes import Chance, Inside, changes_from_dict
from holdfast.errors import HoldfastWarning, InvalidInputError
from holdfast.generators import alternatives
from holdfast.generators._stated import recourse_from
from holdfast.promises import Ledger, certificate, check_certificate
from holdfast.promises._terms import Terms
from holdfast.scale import over_batches
from holdfast.service import Service
from holdfast.verify._fingerprint import fingerprint

RNG = np.random.default_rng(0)
HOMES = np.array(["rent", "own", "boat"])


def table(n, seed, homes=2):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.uniform(10.0, 90.0, n).round(1),
            "debt": rng.uniform(0.0, 50.0, n).round(1),
            "home": HOMES[rng.integers(0, homes, n)],
        }
    )


ROWS = table(150, 1, homes=3)
SPACE = hf.FeatureSpace.from_frame(ROWS, categorical=["home"], ranges={"income": (-200.0, 200.0)})
LABELS = (ROWS["income"] - ROWS["debt"] + RNG.normal(0.0, 8.0, len(ROWS)) > 25.0).astype(int)


def fitted(rows):
    return hf.load_network(
        LogisticRegression().fit(SPACE.encode(ROWS.iloc[rows]), LABELS.iloc[rows])
    )


TODAY = fitted(np.arange(len(ROWS)))
LATER = [fitted(np.random.default_rng(s).integers(0, 150, 150)) for s in range(20)]
ASKED = table(40, 2)
PEOPLE = ASKED[TODAY.predict(SPACE.encode(ASKED)) == 0]
ASKING = {"target": 1, "generator": hf.RNCE(ROWS), "space": SPACE}


@pytest.fixture(scope="module")
def risk():
    return hf.risk_calibrated(
        TODAY, PEOPLE, retrained=LATER, coverage=0.5, settings=[0.0, 0.3, 0.6, 1.0], **ASKING
    )


@pytest.fixture(scope="module")
def told(risk):
    return hf.explain(TODAY, PEOPLE, changes=risk.changes, **ASKING)


def test_a_chance_is_stated_where_it_was_measured(risk, told):
    assert told.changes == risk.changes
    assert (told.measured == told.found).all()
    chance = told.chance(int(told.answered[0]))
    assert chance == risk.chance
    assert (chance.models, chance.given, chance.people) == (20, 0.2, int(told.found.sum()))
    # The rule can be done again from what is written.
    row = risk.evidence[risk.evidence["setting"] == risk.size].iloc[0]
    assert (20 * chance.loss + 1) / 21 == pytest.approx(row["bound"])


def test_it_comes_back_from_a_file(risk, told):
    again = changes_from_dict(json.loads(json.dumps(risk.changes.to_dict())))
    assert again == risk.changes
    assert hf.explain(TODAY, PEOPLE, changes=again, **ASKING).measured.sum() == told.found.sum()


OTHERS = {
    "generator": ({"generator": hf.Closest()}, r"for the generator RNCE with .*, not Closest"),
    "settings": ({"generator": hf.RNCE(ROWS, line_search=True)}, "not RNCE with .*line search on"),
    "rows": ({"generator": hf.RNCE(ROWS.iloc[::-1])}, "another table that the generator looks in"),
    "threshold": ({"threshold": 0.6}, "for the threshold 0.5, not 0.6"),
    "space": ({"space": SPACE.constrained(immutable=["home"])}, "another feature space"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_elsewhere_it_is_left_out_with_a_warning_that_names_what_differs(name, risk):
    given, message = OTHERS[name]
    with pytest.warns(HoldfastWarning, match=f"the chance is left out: .*{message}"):
        told = hf.explain(TODAY, PEOPLE, changes=risk.changes, **(ASKING | given))
    assert told.changes == risk.changes.calibrated(None)
    assert told.measured is None
    assert told.letter(int(told.answered[0]), certified=False).contents.outcome == "not_guaranteed"


def test_it_is_left_out_for_another_model_target_or_change(risk):
    people = PEOPLE.head(3)
    with pytest.warns(HoldfastWarning, match="for another model"):
        hf.explain(LATER[0], people, changes=risk.changes, **ASKING)
    with pytest.warns(HoldfastWarning, match=r"for the target \[1\], not \[0\]"):
        hf.explain(TODAY, ROWS.head(40), changes=risk.changes, **(ASKING | {"target": 0}))
    # A chance that is put on other changes by hand says of which it was measured.
    for other in (
        hf.PlausibleShift(0.01),
        hf.PlausibleChanges(1e-6),
        risk.changes.moving((0.4, 0.5)),
    ):
        with pytest.warns(HoldfastWarning, match="another kind, size or shape of change"):
            hf.explain(TODAY, people, changes=other.calibrated(risk.chance), **ASKING)
    assert risk.changes.resized(9.0).chance is risk.changes.moving((0.4, 0.5)).chance is None
    with pytest.warns(HoldfastWarning, match="does not say what it was measured for"):
        hf.explain(TODAY, people, changes=hf.PlausibleShift(0.1, Chance(0.1, 20)), **ASKING)


def test_people_who_are_plainly_unlike_go_without_it(risk, tmp_path):
    people = PEOPLE.head(4).copy()
    people.index = ["a", "b", "c", "d"]
    people.loc["b", "home"] = "boat"
    people.loc["d", "income"] = -120.0
    with pytest.warns(
        HoldfastWarning,
        match=r"chance of 2 of 4 people, such as row 1 \('b'\), is left out: they are",
    ):
        told = hf.explain(TODAY, people, changes=risk.changes, **ASKING)
    assert told.measured.tolist() == [True, False, True, False]
    outcomes = [told.letter(row, certified=False).contents.outcome for row in range(4)]
    assert outcomes == ["chance", "not_guaranteed", "chance", "not_guaranteed"]
    assert ["chance" in certificate(told, row)["changes"] for row in range(4)] == [
        True,
        False,
        True,
        False,
    ]
    with Ledger(tmp_path / "promises.ledger") as ledger:
        ledger.add(told, radius=False)
        stated = [terms.changes.chance is not None for terms in ledger.terms]
        found = [ledger.find(key)["statement"].iloc[0] for key in "abcd"]
    assert sorted(stated) == [False, True]
    assert ["not proven" in text for text in found] == [True, False, True, False]


def test_points_and_tables_of_unknown_origin_go_without_it(risk, told):
    points, changes = told.points[told.found], risk.changes
    with pytest.warns(HoldfastWarning, match="these points come from the caller"):
        certs = hf.certify(TODAY, points, 1, changes)
    assert "chance" not in certificate(certs, 0)["changes"]
    with pytest.warns(HoldfastWarning, match="found under other changes"):
        assert (
            hf.Recourse.of(TODAY, told.points, PEOPLE, target=1, space=SPACE)
            .under(changes)
            .changes.chance
            is None
        )
    table = told.counterfactuals
    with pytest.warns(HoldfastWarning, match="the table does not say"):
        recourse_from(TODAY, PEOPLE, table, target=1, changes=changes, space=SPACE)


def test_a_table_says_of_which_rows_it_was_stated(risk, told):
    batch = over_batches("explain", TODAY, PEOPLE, changes=risk.changes, **ASKING)(PEOPLE)
    assert (batch["chance"] != "").tolist() == told.found.tolist()
    asked = {"target": 1, "changes": risk.changes, "space": SPACE}
    again = recourse_from(TODAY, PEOPLE, batch, marks=batch["chance"], **asked)
    assert (again.measured == told.measured).all()
    # Somebody else's mark is none.
    marks = np.roll(batch["chance"], 1)
    with pytest.warns(HoldfastWarning, match="the table does not say"):
        recourse_from(TODAY, PEOPLE, batch, marks=marks, **asked)


def test_the_service_says_at_its_start_that_it_leaves_it_out(risk):
    given = {"space": SPACE, "changes": risk.changes, "target": 1}
    people = json.loads(PEOPLE.head(2).to_json(orient="records"))
    with pytest.warns(HoldfastWarning, match="not Closest"):
        other = Service(TODAY, generator=hf.Closest(), **given)
    assert other.explain({"people": people})["measured_not_proven"] is None
    own = Service(TODAY, generator=hf.RNCE(ROWS), **given)
    assert own.certify({"people": people})["measured_not_proven"] is None
    answer = own.explain({"people": [*people, people[0] | {"home": "boat"}]})
    assert answer["measured_not_proven"] == str(risk.chance)
    assert [one["chance"] for one in answer["people"]] == [True, True, False]
    assert "plainly unlike" in answer["warnings"][0]


# ------------------------------------------------------------------ how probably the next model lies in Δ


@pytest.fixture(scope="module")
def inside():
    # Refits that move each weight a little, the 19th of 20 is in.
    moves = np.random.default_rng(3).normal(0.0, 1e-3, 20)
    refits = [hf.Network([TODAY.weights[0] + move], TODAY.biases) for move in moves]
    return hf.delta_calibrated(refits, origin=TODAY, coverage=0.9)


def test_what_delta_calibrated_found_carries_its_probability(inside):
    changes = inside.changes
    assert (changes.inside.rank, changes.inside.models) == (19, 20)
    assert changes.inside.probability == inside.guaranteed
    assert (
        "stays within Δ with probability at least 0.904, if it is exchangeable with these 20"
        in str(changes.inside)
    )
    again = changes_from_dict(json.loads(json.dumps(changes.to_dict())))
    assert again == changes
    assert again.inside == changes.inside
    size = changes.size
    assert str(changes.resized(2.0 * size).inside) == str(changes.inside)
    assert changes.resized(size).inside == changes.inside
    assert changes.resized(0.99 * size).inside is None
    assert changes.moving((0.4, 0.6)).inside == changes.inside
    # Leaf radii, and a confidence.
    trees = hf.TreeChanges(leaves=[0.1, 0.2]).calibrated(Inside(9, 10, 0.8, 0.9))
    assert changes_from_dict(trees.to_dict()).inside == trees.inside
    assert str(trees.resized(1.5).inside) == str(trees.inside)
    assert trees.resized(1.5).inside.about(trees.resized(1.5))
    assert trees.resized(0.5).inside is None
    assert "with confidence 0.9 at least 0.8 of the retrainings" in str(trees.inside)
    with pytest.raises(
        InvalidInputError, match="inside: expected changes of a model's own parameters"
    ):
        hf.PlausibleShift(0.1).calibrated(trees.inside)


@pytest.mark.filterwarnings("ignore:language '.*no words for the columns")
def test_it_is_stated_wherever_the_proof_is(inside, tmp_path):
    changes = inside.changes
    told = hf.explain(TODAY, PEOPLE, changes=changes, **ASKING)
    row = int(np.flatnonzero(told.robust)[0])
    text = " ".join(told.letter(row, certified=False).text.split())
    assert (
        "19 of the last 20 model updates that we measured stayed within what we have proven. "
        "The next update may go further." in text
    )
    german = " ".join(told.letter(row, certified=False, language="de").text.split())
    assert (
        "19 der letzten 20 Modell-Anpassungen, die wir gemessen haben, blieben in den Grenzen dessen, "
        "was wir bewiesen haben." in german
    )
    page = told.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "with probability at least 0.904" in page
    assert "assumption about how you retrain" not in page
    assert str(changes.inside) in Terms(TODAY, SPACE, told.changes).statement("ROBUST")
    report = check_certificate(certificate(told, row), TODAY)
    assert report.accepted
    assert report.not_checked[-1] == "the inside, which is measured"
    service = Service(TODAY, space=SPACE, changes=changes, target=1)
    people = json.loads(PEOPLE.head(1).to_json(orient="records"))
    assert service.certify({"people": people})["measured_not_proven"] == str(changes.inside)
    assert hf.certify(TODAY, told.points[told.found], 1, changes).changes.inside == changes.inside
    for other in (
        hf.certify,
        lambda *given: hf.explain(given[0], PEOPLE, changes=given[-1], **ASKING),
    ):
        with pytest.warns(HoldfastWarning, match="probability of the next retraining is left out"):
            assert other(LATER[0], told.points[told.found], 1, changes).changes.inside is None


def test_it_belongs_to_the_changes_it_was_measured_of(inside):
    grown = inside.changes.resized(2.0 * inside.changes.size)
    assert str(hf.certify(TODAY, SPACE.encode(PEOPLE), 1, grown).changes.inside) == str(
        grown.inside
    )
    for changes in (inside.changes, grown):
        smaller = dataclasses.replace(changes, delta=1e-9)
        document = {**changes.to_dict(), "delta": 1e-9}
        for other in (smaller, changes_from_dict(document)):
            with pytest.warns(HoldfastWarning, match="was measured for other changes"):
                told = hf.explain(TODAY, PEOPLE, changes=other, **ASKING)
            assert told.changes.inside is None
        assert smaller.resized(1e-8).inside is None


def test_the_first_answers_of_advice_with_one_each_keep_its_chance(told):
    assert told.chance(int(told.answered[0])) is not None
    assert told.first is told


DISTANCES = [0.03, 0.05, 0.02, 0.04, 0.06, 0.01, 0.03, 0.02, 0.05]


def test_numbers_know_no_model():
    chosen = hf.delta_calibrated(DISTANCES, coverage=0.8)
    points = SPACE.encode(PEOPLE)
    stated = hf.certify(TODAY, points, 1, chosen.changes).changes.inside
    assert str(stated) == str(chosen.inside)
    shape = hf.Ellipsoid.of(TODAY, SPACE.encode(ROWS)).resized(float(chosen))
    own = shape.calibrated(chosen.inside)
    assert str(hf.certify(TODAY, points, 1, own).changes.inside) == str(chosen.inside)


@pytest.mark.parametrize(
    "other", [{"delta": 1e-4}, {"biases": False}, {"norm": 2.0}, {"delta": 1e-4, "norm": 1.0}]
)
def test_what_distances_gave_belongs_to_its_changes(other, tmp_path):
    changes = hf.delta_calibrated([one / 1e3 for one in DISTANCES], coverage=0.8).changes
    own = changes_from_dict(json.loads(json.dumps(changes.to_dict())))
    told = hf.explain(TODAY, PEOPLE, changes=own, **ASKING)
    row = int(np.flatnonzero(told.robust)[0])
    counted = "8 of the last 9 model updates that we measured"
    assert own == changes
    assert counted in " ".join(told.letter(row, certified=False).text.split())
    assert "with probability" in told.report(tmp_path / "own.html").read_text(encoding="utf-8")
    assert check_certificate(certificate(told, row), TODAY).accepted
    edited = changes_from_dict(json.loads(json.dumps({**changes.to_dict(), **other})))
    for wrong in (dataclasses.replace(changes, **other), edited):
        assert wrong.measured == ()
        with pytest.warns(HoldfastWarning, match="was measured for other changes"):
            left_out = hf.explain(TODAY, PEOPLE, changes=wrong, **ASKING)
        assert left_out.changes.inside is None
        # Where the changes were put into advice by hand, its texts look again.
        for one in (left_out, dataclasses.replace(told, changes=wrong)):
            text = one.letter(row, certified=False).text
            page = one.report(tmp_path / "page.html").read_text(encoding="utf-8")
            assert "that we measured" not in " ".join(text.split())
            assert "with probability" not in page
            assert "of 9 updates" not in page


def test_a_chance_for_all_else_leaves_the_radii_and_their_probability(inside):
    both = hf.risk_calibrated(
        TODAY, PEOPLE, retrained=LATER, family=inside.changes, coverage=0.1, broken=0.3, **ASKING
    )
    assert both.evidence["setting"].iloc[0] == inside.changes.size
    assert (both.evidence["setting"] >= inside.changes.size).all()
    assert str(both.changes.inside) == str(inside.changes.inside)
    assert str(inside.changes.inside) in str(both)
    assert "of such promises is expected" in str(both)
    told = hf.explain(TODAY, PEOPLE, changes=both.changes, **ASKING)
    assert told.changes.measured == (both.changes.inside, both.chance)
    with pytest.raises(InvalidInputError, match="settings: expected settings from"):
        hf.risk_calibrated(
            TODAY, PEOPLE, retrained=LATER, family=inside.changes, settings=[1e-9, 0.1], **ASKING
        )


# ------------------------------------------------------------------ copies, and what is checked before the search


def test_copies_are_no_evidence(risk):
    for models, n in (
        ([TODAY] * 20, 0),
        ([LATER[0]] * 20, 1),
        ([*LATER[:18], LATER[0], TODAY], 18),
    ):
        for given in (models, iter(models)):
            with pytest.raises(InvalidInputError, match=f"only {n} of 20 models differ .*; copies"):
                hf.risk_calibrated(TODAY, PEOPLE, retrained=given, settings=[0.0], **ASKING)


class Never(hf.RNCE):
    def propose(self, task):
        raise AssertionError("nothing is to be searched")


@pytest.mark.parametrize("bad", [3, hf.Network([[[1.0]]], [[0.0]]), LATER[0]])
def test_bad_models_are_known_before_the_search(bad):
    asked = ASKING | {"generator": Never(ROWS)}
    with pytest.raises(
        InvalidInputError,
        match=r"retrained: (model \d+ does not fit|only \d+ of \d+ models differ)",
    ):
        hf.risk_calibrated(TODAY, PEOPLE, retrained=[*LATER, bad], **asked)
    if bad is not LATER[0]:
        with pytest.raises(InvalidInputError, match="model 1 does not fit today's model"):
            hf.risk_calibrated(TODAY, PEOPLE, retrained=iter([bad, *LATER]), **asked)


def test_a_candidate_is_scored_once_for_all_settings():
    asked = []

    def scores(frame):
        asked.append(len(frame))
        return (frame["income"] - frame["debt"] - 25.0).to_numpy()

    later = [hf.scored(lambda frame, s=s: scores(frame) - s, output="margin") for s in range(1, 10)]
    hf.risk_calibrated(
        hf.scored(scores, output="margin"),
        PEOPLE,
        retrained=later,
        coverage=0.5,
        broken=0.5,
        **ASKING,
    )
    # 28 settings, each with all rows and many people.
    assert sum(asked[:-9]) < 3 * (len(ROWS) + len(PEOPLE)) + len(PEOPLE) * len(ROWS)
    assert sum(asked) < 10 * len(PEOPLE) * len(ROWS)


def test_progress_is_written_to_a_log(capsys, monkeypatch):
    monkeypatch.setattr("holdfast._progress._EVERY", 0.0)
    hf.risk_calibrated(TODAY, PEOPLE, retrained=LATER, progress=True, **ASKING)
    said = capsys.readouterr().err
    assert "risk_calibrated, advice: " in said
    assert "risk_calibrated, models: 10 of 20 (50%)" in said


def test_candidates_certified_beforehand_are_not_what_was_measured(risk):
    kept = hf.RNCE(ROWS).prepare(TODAY, target=1, changes=risk.changes, space=SPACE)
    with pytest.warns(HoldfastWarning, match="another table that the generator looks in"):
        told = hf.explain(
            TODAY, PEOPLE, changes=risk.changes, **(ASKING | {"generator": hf.RNCE(kept)})
        )
    assert told.found.any()


def test_alternatives_are_not_what_was_measured(risk):
    with pytest.warns(HoldfastWarning, match="the chance is left out: .*alternatives"):
        alternatives(TODAY, PEOPLE.head(2), changes=risk.changes, n_answers=2, **ASKING)


def test_a_result_that_is_put_together_by_hand_states_nothing(risk, told):
    bare = hf.explain(TODAY, PEOPLE, changes=risk.changes.calibrated(None), **ASKING)
    forged = dataclasses.replace(bare, changes=risk.changes)
    assert forged.letter(int(told.answered[0]), certified=False).contents.odds is None


def test_copies_give_radii_no_probability():
    found = hf.delta_calibrated([LATER[0]] * 12, origin=TODAY, coverage=0.8)
    assert "only 1 of these 12 models are distinct" in str(found)
    assert found.changes.inside is None
    assert hf.delta_calibrated(LATER, origin=TODAY, coverage=0.8).changes.inside is not None


def test_models_that_gave_radii_are_no_judges_of_them():
    family = hf.delta_calibrated(LATER[:9], origin=TODAY, coverage=0.8).changes
    with pytest.raises(InvalidInputError, match="model 1 was already used by delta_calibrated"):
        hf.risk_calibrated(TODAY, PEOPLE, retrained=LATER, family=family, **ASKING)


def test_a_function_is_told_by_its_code(monkeypatch):
    def named(share):
        names = {"__name__": __name__, "np": np}
        exec(f"def odds(rows): return np.tile([1 - {share}, {share}], (len(rows), 1))", names)
        monkeypatch.setattr(sys.modules[__name__], "odds", names["odds"], raising=False)
        return fingerprint(hf.load_model(hf.scored(names["odds"])).classifier)

    assert named(0.4) == named(0.4)
    assert named(0.4) != named(0.6)


def test_a_letter_says_how_the_models_were_made():
    risk = hf.risk_calibrated(
        TODAY, PEOPLE, retrained=LATER, coverage=0.5, settings=[0.0, 0.3, 0.6, 1.0],
        how="trained from scratch on other rows", **ASKING,
    )  # fmt: skip
    advice = hf.explain(TODAY, PEOPLE, changes=risk.changes, **ASKING)
    row = int(np.flatnonzero(advice.measured)[0])
    assert "on 20 retrained models (trained from scratch on other rows)" in " ".join(
        advice.letter(row).text.split()
    )
