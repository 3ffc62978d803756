"""The main reasons: by the margin that a column alone would win, within what a person can change, never protected."""

from __future__ import annotations

import json
import re
import warnings
from contextlib import chdir
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import holdfast as hf
from holdfast.cli import app
from holdfast.datasets import make_loans
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
    with pytest.raises(InvalidInputError, match=r"main_reasons: row 0 has .no JSON."):
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


# ---------------------------------------------------------------------- sentences


def sentences(**options: object) -> list[str]:
    """The reasons of the person with the debt and no savings."""
    advice = hf.explain(
        NETWORK, PEOPLE.head(1), target=1, generator=hf.NNCE(PEOPLE.head(1)), data=PEOPLE,
        space=space().constrained(**options),
    )  # fmt: skip
    return hf.main_reasons(advice)["sentence"].tolist()


def test_a_reason_is_a_sentence_with_its_value_and_the_lenders_own_code() -> None:
    debt = "accepted applicants usually have 1,500"
    assert sentences() == [
        f"Your debt of 9,000 is high; {debt}.",
        "You have 0 savings, which is low; accepted applicants usually have 4,000.",
    ]
    assert sentences(
        units={"debt": "€", "savings": "€"},
        labels={"savings": "savings at all banks", "debt": "amount of debt"},
        reasons={"debt": ("19", "Too much debt")},
    ) == [
        f"Too much debt (code 19). Your amount of debt (9,000 €) is high; {debt} €.",
        "Your savings at all banks of 0 € are low; accepted applicants usually have 4,000 €.",
    ]


def worded(name: str, values: list[object], label: str = "", **options: object) -> dict[str, str]:
    """The sentence about the first of these people, in two languages: the others are accepted."""
    people = pd.DataFrame({name: values, "rest": 0.0})
    own = hf.FeatureSpace.from_frame(
        people,
        labels={name: {"en": label or name, "de": label or name}},
        **options,  # type: ignore[arg-type]
    )
    points = own.encode(people)
    away = points[1] - points[0]
    net = hf.Network([away[None]], [[-0.5 * float(away @ (points[0] + points[1]))]])
    advice = hf.explain(net, people.head(1), target=1, generator=hf.NNCE(people), space=own)
    said = {}
    for code in ("en", "de"):
        (said[code],) = hf.main_reasons(advice, language=code)["sentence"]
    return said


@pytest.mark.parametrize(
    ("asked", "english", "german"),
    [
        (
            worded("employment", ["temporary", "permanent", "permanent"]),
            "Your employment is temporary; accepted applicants mostly have permanent.",
            "employment: Ihre Angabe ist temporary; bei Menschen mit einer Zusage ist sie meist permanent.",
        ),
        (
            worded("use", [90.0, 25.5, 25.5], "card use", units={"use": "%"}),
            "Your card use of 90% is high; accepted applicants usually have 25.5%.",
            "card use: Ihr Wert von 90\u202f% ist hoch; Menschen mit einer Zusage haben meist 25,5\u202f%.",
        ),
        (
            worded("history", [12, 150, 150], "months of history", units={"history": "months"}),
            "You have 12 months of history, which is low; accepted applicants usually have 150.",
            "months of history: Ihr Wert von 12 ist niedrig; Menschen mit einer Zusage haben meist 150.",
        ),
        (
            worded("owner", [False, True, True], "home owner"),
            "Your entry for home owner is no; accepted applicants mostly have yes.",
            "home owner: Ihre Angabe ist nein; bei Menschen mit einer Zusage ist sie meist ja.",
        ),
        (
            worded("grade", ["low", "high", "high"], ordinal={"grade": ["low", "high"]}),
            "Your grade is low; accepted applicants usually have high.",
            "grade: Ihre Angabe ist low; bei Menschen mit einer Zusage ist sie meist high.",
        ),
        (
            worded("ratio", [0.123456, 0.123789, 0.123789]),
            "Your ratio of 0.123456 is low; accepted applicants usually have 0.123789.",
            "ratio: Ihr Wert von 0,123456 ist niedrig; Menschen mit einer Zusage haben meist 0,123789.",
        ),
        (
            worded("savings", [np.nan, 10.0, 10.0], missing={"savings": 0.0}, fillable="savings"),
            "We have no value for your savings; accepted applicants usually have 10.",
            "savings: Ihre Angabe fehlt; Menschen mit einer Zusage haben meist 10.",
        ),
    ],
)  # fmt: skip
def test_sentences_of_every_kind_of_column(
    asked: dict[str, str], english: str, german: str
) -> None:
    assert asked["en"] == english
    assert asked["de"].replace("\xa0", "\u202f") == german


def test_a_sentence_says_what_accepted_people_have_however_far_the_person_can_get() -> None:
    """Only the margin is about the part of the way that the person can go."""
    people = pd.DataFrame({"income": [20.0, 40.0, 44.0], "debt": [5.0, 5.0, 5.0]})
    net = hf.Network([[[1.0, -0.1]]], [[-25.0]])
    options = {"target": 1, "generator": hf.NNCE(people.head(1)), "data": people}
    margins = []
    for most in (44.0, 30.0):
        own = hf.FeatureSpace.from_frame(people, ranges={"income": (20.0, most)}, scale="none")
        reasons = hf.main_reasons(hf.explain(net, people.head(1), space=own, **options))
        assert reasons["sentence"].tolist() == [
            "Your income of 20 is low; accepted applicants usually have 42."
        ]
        margins += reasons["margin"].tolist()
    assert margins == [pytest.approx(22.0), pytest.approx(10.0)]


def test_without_accepted_people_a_sentence_does_not_speak_of_them() -> None:
    advice = hf.explain(
        NETWORK, PEOPLE.head(1), target=1, generator=hf.NNCE(PEOPLE.head(1)), space=space()
    )
    reasons = hf.main_reasons(advice)
    assert reasons["compared"].unique().tolist() == ["middle"]
    assert reasons["sentence"].tolist() == [
        "Your debt of 9,000 is high; the middle of the possible values is 5,000.",
        "You have 0 savings, which is low; the middle of the possible values is 2,500.",
    ]


def test_where_no_column_counts_alone_every_output_names_what_the_advice_changes() -> None:
    people = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    both = hf.Network([[[1.0, 1.0]], [[1.0]]], [[-1.0], [-0.5]])
    advice = hf.explain(
        both, people.head(1), target=1, generator=hf.NNCE(people), space=hf.FeatureSpace.from_frame(people)
    )  # fmt: skip
    reasons = hf.main_reasons(advice)
    assert reasons["compared"].tolist() == ["advice", "advice"]
    assert reasons["sentence"].iloc[0] == "Your a of 0 is low; the advice changes it to 1."
    told = [
        advice.letter(0).contents.reasons,
        replace(advice, main_reasons=advice.to_frame()["main_reasons"].to_numpy())
        .letter(0)
        .contents.reasons,
    ]
    assert [reason.name for reason in told[0]] == reasons["column"].tolist()
    assert told[0] == told[1]


# ---------------------------------------------------------------------- one person, one list of reasons


class Items(HTMLParser):
    """The texts of the numbered items in a page: a letter's reasons."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("ol", "li"):
            self.tags.append(tag)
            self.found += [""] * (self.tags == ["ol", "li"])

    def handle_endtag(self, tag: str) -> None:
        if tag in self.tags:
            self.tags.remove(tag)

    def handle_data(self, data: str) -> None:
        if self.tags == ["ol", "li"]:
            self.found[-1] += data


def in_the_page_of_a_letter(html: str) -> list[str]:
    return [" ".join(text.split()) for text in Items(html).found]


def in_the_text_of_a_letter(text: str) -> list[str]:
    part = text.split("The main reasons\n----------------\n\n")[1].split("\n\n")[0]
    items = re.split(r"(?m)^\d\. ", part)[1:]
    return [re.split(r" Your [^.;]* can stay as ", " ".join(item.split()))[0] for item in items]


def in_the_report(page: Path, row: int) -> list[tuple[str, str]]:
    """The reasons on a person's page, each with the line below it."""
    text = page.read_text(encoding="utf-8")
    (data,) = re.findall(r'<script [^>]*id="data"[^>]*>(.*?)</script>', text, re.S)
    table = json.loads(data)
    texts = [" ".join(text.split()) for text in table["texts"]["against"]]
    return [(texts[said], texts[stays]) for _, said, _, stays in table["against"][row]]


@pytest.mark.parametrize("compared", [True, False])
def test_letter_letters_command_and_report_name_the_same_reasons(
    compared: bool, tmp_path: Path
) -> None:
    table = make_loans(400).rename_axis("id")
    X = table.drop(columns="accepted")
    own = hf.FeatureSpace.from_frame(
        X, immutable=["age", "dependants", "employment"], protected=["age"], decreasing=["debt"],
        steps={"income": 250}, units={"income": "€ a year", "debt": "€", "card_utilisation": "%"},
        reasons={"debt": ("19", "Too much debt")},
    )  # fmt: skip
    model = LogisticRegression(max_iter=500).fit(own.encode(X), table["accepted"])
    denied = X[model.predict(own.encode(X)) == 0].head(7)
    advice = hf.explain(
        model, denied, target=1, changes=hf.PlausibleChanges(0.01), space=own, generator=hf.Closest(),
        **({"data": X} if compared else {}),
    )  # fmt: skip
    table = hf.main_reasons(advice, most=4)
    assert set(table["compared"]) == ({"accepted"} if compared else {"middle"})
    expected = {key: table.loc[[key], "sentence"].tolist() for key in denied.index}
    assert all(expected.values())
    assert len({tuple(one) for one in expected.values()}) == 7

    hf.letters(advice, tmp_path / "letters")
    advice.report(tmp_path / "report.html")
    hf.load_network(model).save(tmp_path / "model.npz")
    (tmp_path / "space.json").write_text(json.dumps(own.to_dict()), encoding="utf-8")
    X.to_csv(tmp_path / "people.csv")
    written = advice.to_frame().rename_axis("id")
    written.to_csv(tmp_path / "advice.csv")
    written.drop(columns="main_reasons").to_csv(tmp_path / "bare.csv")
    files = [
        "--model",
        "model.npz",
        "--data",
        "people.csv",
        "--schema",
        "space.json",
        "--index",
        "id",
    ]
    asked = [*files, "--target", "1", "--delta", "0.01"]
    runs = [("advice.csv", [])]
    if compared:
        runs.append(("bare.csv", ["--accepted", "people.csv"]))
    for file, more in runs:
        arguments = ["letters", file, *asked, *more, "--out", f"from {file}"]
        with chdir(tmp_path):
            result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    seen: set[bool] = set()
    for row, key in enumerate(denied.index):
        letter = advice.letter(row)
        assert [reason.name for reason in letter.contents.reasons] == table.loc[
            [key], "column"
        ].tolist()
        texts = [letter.text, (tmp_path / "letters" / f"letter-{key}.txt").read_text("utf-8")]
        pages = [letter.html, (tmp_path / "letters" / f"letter-{key}.html").read_text("utf-8")]
        for file, _ in runs:
            texts.append((tmp_path / f"from {file}" / f"letter-{key}.txt").read_text("utf-8"))
            pages.append((tmp_path / f"from {file}" / f"letter-{key}.html").read_text("utf-8"))
        for text in texts:
            assert in_the_text_of_a_letter(text) == expected[key]
        for page in pages:
            found = in_the_page_of_a_letter(page)
            assert len(found) == len(expected[key])
            for said, sentence in zip(found, expected[key], strict=True):
                assert said.startswith(sentence)
        there = in_the_report(tmp_path / "report.html", row)
        assert [said for said, _ in there] == expected[key]
        below = [below for _, below in there]
        assert [bool(text) for text in below] == [
            bool(one.stays) for one in letter.contents.reasons
        ]
        for page in pages:
            assert in_the_page_of_a_letter(page) == [
                " ".join(" ".join(one).split()) for one in there
            ]
        seen |= set(map(bool, below))
    assert seen == {True, False}
