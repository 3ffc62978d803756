"""The main reasons: by the margin that a column alone would win, within what a person can change, never protected."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import holdfast as hf
from holdfast.errors import InvalidInputError
from holdfast.generators import ReasonKind
from holdfast.generators._stated import recourse_from
from holdfast.presentation.report._gather import gather
from recourse_cases import make_case

# Most letters here are about columns without words in German.
pytestmark = pytest.mark.filterwarnings("ignore:language '.*no words for the columns")


def margin(network: hf.Network, target: int, point: np.ndarray) -> float:
    """Written out once more: the target's logit above its strongest rival."""
    logits = network.logits(point[None])[0]
    if len(logits) == 1:
        return float(logits[0] if target else -logits[0])
    return float(logits[target] - np.delete(logits, target).max())


@pytest.mark.parametrize("shape", ["logistic regression", "one layer", "three classes"])
@pytest.mark.parametrize("columns", ["mixed", "continuous", "categorical"])
def test_every_reason_is_what_the_column_alone_would_win(shape: str, columns: str) -> None:
    case = make_case(shape, columns, n_people=8)
    people = case.people.reset_index(drop=True)
    advice = hf.explain(
        case.network,
        people,
        target=case.target,
        generator=hf.NNCE(case.candidates),
        space=case.space,
    )
    table = case.candidates[case.network.predict(case.space.encode(case.candidates)) == case.target]
    reasons = hf.main_reasons(advice)
    target = case.network.class_index(case.target)
    refused = case.network.predict(case.space.encode(people)) != case.target
    assert set(reasons.index) <= set(people.index[refused])
    assert len(reasons)
    for row, key in enumerate(people.index):
        mine = reasons.loc[[key]] if key in reasons.index else reasons.iloc[:0]
        assert list(mine["margin"]) == sorted(mine["margin"], reverse=True)
        own = people.iloc[[row]]
        wins = {}
        for name in case.space.names if refused[row] else ():
            feature, moved = case.space[name], own.copy()
            if feature.step is not None or feature.kind in ("integer", "ordinal"):
                continue
            moved[name] = table[name].mode()[0] if feature.labelled else table[name].median()
            if case.space.violations(moved, own)[0]:
                continue
            points = [case.space.encode(rows)[0] for rows in (moved, own)]
            wins[name] = margin(case.network, target, points[0]) - margin(
                case.network, target, points[1]
            )
        for name, win in wins.items():
            found = mine.loc[mine["column"] == name, "margin"].tolist()
            assert found == ([pytest.approx(win)] if win > 1e-12 else [])


PEOPLE = pd.DataFrame(
    {
        "debt": [9000, 1000, 2000, 1500],
        "savings": [0.0, 5000.0, 3000.0, np.nan],
        "age": [20, 50, 40, 45],
        "late": [0, 1, 2, 1],
        "sex": ["f", "m", "m", "m"],
    }
)
NETWORK = hf.Network([[[-2.0, 1.0, 0.5, 1.0, -3.0, 0.0, -0.5]]], [[0.0]])


def space(**options: object) -> hf.FeatureSpace:
    return hf.FeatureSpace.from_frame(
        PEOPLE,
        missing={"savings": 0.0},
        protected=["sex", "age"],
        decreasing=["debt", "late"],
        **options,
    )


def test_protected_attributes_and_what_nobody_can_do_are_no_reasons() -> None:
    advice = hf.explain(
        NETWORK, PEOPLE.head(1), target=1, generator=hf.NNCE(PEOPLE.head(1)), space=space(), data=PEOPLE,
    )  # fmt: skip
    assert not advice.found.any()
    reasons = hf.main_reasons(advice, most=4)
    # Sex weighs most and age a little; late payments could only fall, and none is usual.
    assert reasons["column"].tolist() == ["debt", "savings"]
    assert reasons[["value", "usual"]].to_numpy().tolist() == [["9,000", "1,500"], ["0", "4,000"]]
    assert hf.main_reasons(advice, most=1)["column"].tolist() == ["debt"]


def test_where_nothing_can_be_changed_the_reasons_are_what_counts_all_the_same() -> None:
    advice = hf.explain(
        NETWORK, PEOPLE.head(1), target=1, generator=hf.NNCE(PEOPLE.head(1)), space=space(immutable=["savings"])
        .constrained(immutable=["debt"]), data=PEOPLE,
    )  # fmt: skip
    reasons = hf.main_reasons(advice)
    assert reasons["column"].tolist() == ["debt", "savings", "late"]
    assert not reasons["within_reach"].any()
    for language, words in (
        ("en", "no detail that you can change"),
        ("de", "Keine Angabe, die Sie ändern können"),
    ):
        letter = advice.letter(0, language=language)
        assert letter.contents.derived == "beyond"
        assert words in " ".join(letter.text.split())
        assert {"en": "1. Your debt of 9,000 is high", "de": "1. debt: Ihr Wert von 9.000"}[
            language
        ] in letter.text


def test_without_a_table_the_middle_of_the_ranges_is_usual() -> None:
    advice = hf.explain(
        NETWORK, PEOPLE.head(1), target=1, generator=hf.NNCE(PEOPLE.head(1)), space=space()
    )
    assert hf.main_reasons(advice)[["column", "usual"]].to_numpy().tolist() == [
        ["debt", "5,000"],
        ["savings", "2,500"],
    ]


def test_a_missing_value_counts_only_where_it_can_be_stated() -> None:
    people = PEOPLE.assign(savings=np.nan).head(1)
    for fillable, expected in (((), ["debt"]), (("savings",), ["debt", "savings"])):
        advice = hf.explain(
            NETWORK, people, target=1, generator=hf.NNCE(people), space=space(fillable=fillable), data=PEOPLE,
        )  # fmt: skip
        reasons = hf.main_reasons(advice)
        assert reasons["column"].tolist() == expected
    assert reasons["value"].tolist() == ["9,000", "not stated"]


def test_any_model_has_reasons() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(200, 3)), columns=["a", "b", "c"])
    forest = RandomForestClassifier(20, random_state=0).fit(table, table["a"] + table["b"] > 1)
    own = hf.FeatureSpace.from_frame(table)
    denied = table[~forest.predict(table)].head(3)
    advice = hf.explain(
        forest,
        denied,
        target=True,
        changes=hf.PlausibleShift(0.1),
        generator=hf.RNCE(table),
        space=own,
    )
    assert set(hf.main_reasons(advice).index) == set(denied.index)
    with pytest.raises(InvalidInputError, match="most: expected a whole number >= 1, got -1"):
        hf.main_reasons(advice, most=-1)
    with pytest.raises(InvalidInputError, match="recourse: expected what explain returns"):
        hf.main_reasons(table)


def test_every_output_names_the_same_reasons(tmp_path: Path) -> None:
    """Letters one by one and all at once, the report, the table, and letters from the table."""
    people = pd.concat([PEOPLE.head(1)] * 4).set_axis(list("abcd"))
    people = people.assign(
        debt=[9000, 7000, 6000, 0], savings=[0.0, 100, 2000, 5000], sex=["f", "f", "f", "m"]
    )
    options = {
        "target": 1,
        "space": space(immutable=["sex", "age"]),
        "changes": hf.PlausibleChanges(0.001),
    }
    asked = {**options, "generator": hf.MCE(), "data": PEOPLE}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hf.HoldfastWarning)
        advice = hf.explain(NETWORK, people, **asked)
        alone = [hf.explain(NETWORK, people.iloc[[row]], **asked) for row in range(4)]
    told = [row for row in range(4) if advice.reason[row].kind is not ReasonKind.ACCEPTED]
    assert len(told) == 3
    hf.letters(advice, tmp_path / "letters", date="2026-11-16")
    contents = gather(advice, date="2026-11-16")
    written = advice.to_frame()
    again = recourse_from(NETWORK, people, written, reasons=advice.reason, **options)
    again = replace(again, main_reasons=written["main_reasons"].to_numpy())
    table = hf.main_reasons(advice)
    assert table.equals(hf.main_reasons(again))
    assert table.equals(hf.main_reasons(advice.under(None)))
    for row in told:
        mine = table.loc[[advice.factuals.index[row]]]
        letter = advice.letter(row, date="2026-11-16")
        assert [reason.text for reason in letter.contents.reasons] == mine["text"].tolist()
        assert letter.contents == again.letter(row, date="2026-11-16").contents
        file = tmp_path / "letters" / f"letter-{letter.key}.txt"
        assert file.read_text(encoding="utf-8") == letter.text
        told_there = contents.people[row].against
        assert [contents.columns[one.column].name for one in told_there] == mine["column"].tolist()
        # Reasons are a person's own, whoever else is asked about.
        assert hf.main_reasons(alone[row])["column"].tolist() == mine["column"].tolist()
    with pytest.raises(InvalidInputError, match="main_reasons: expected what to_frame wrote"):
        hf.main_reasons(replace(again, main_reasons=["no JSON", ""]))


def test_nobody_is_told_that_a_protected_attribute_should_be_another() -> None:
    people = pd.DataFrame({"sex": [0.0, 1.0], "age": [0.0, 1.0], "debt": [0.0, 1.0]})
    net = hf.Network([[[5.0, 5.0, 0.5]]], [[-3.0]])
    reasons = []
    for protected in ((), ("sex", "age")):
        own = hf.FeatureSpace.from_frame(
            people,
            immutable=["sex", "debt"],
            protected=protected,
            increasing=["age"],
            rules=["age <= debt"],
        )
        advice = hf.explain(net, people.head(1), target=1, generator=hf.MCE(), space=own)
        reasons.append(str(advice.reason[0]))
    assert "sex" in reasons[0]
    assert "age" in reasons[0]
    assert reasons[1].startswith("proven: ")
    assert "sex" not in reasons[1]
    assert "age" not in reasons[1]
    everything = hf.FeatureSpace.from_frame(
        people, immutable=["sex", "age", "debt"], protected=["sex"]
    )
    advice = hf.explain(net, people.head(1), target=1, generator=hf.MCE(), space=everything)
    assert (
        advice.reason[0]
        == "proven: nothing may change (age, debt immutable), and today's class is another"
    )
