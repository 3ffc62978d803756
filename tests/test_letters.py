"""Letters: what they say is what was certified, nothing else is promised, and no template or key can do harm."""

from __future__ import annotations

import datetime
import json
import os
import pickle
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from babel import Locale
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import holdfast as hf
from holdfast.changes import Inside
from holdfast.cli import _letters as letters_command
from holdfast.cli._help import Command
from holdfast.datasets import make_loans
from holdfast.errors import FileFormatError, HoldfastError, InvalidInputError
from holdfast.features._kinds import Kind
from holdfast.generators._stated import recourse_from
from holdfast.presentation.letters import Letter, write_letter, write_templates
from holdfast.presentation.letters._contents import Limits
from holdfast.presentation.letters._files import file_stems
from holdfast.presentation.letters._language import Language
from recourse_cases import make_case
from tree_changes import sampled
from tree_grids import drawn

# Most letters here are about columns without words in another language; one test is about the warning.
pytestmark = pytest.mark.filterwarnings("ignore:language '.*no words for the columns")
DAY = "2026-11-16"
LINE = {
    "en": re.compile(
        r"^\* (?P<label>.+?)(?: \([^)]*\))?: (?:raise|lower|change) it from .+? to (?P<value>.+)$",
        re.M,
    ),
    "de": re.compile(
        r"^\* (?P<label>.+?)(?: \([^)]*\))?: von .+? auf (?P<value>.+) (?:erhöhen|senken|ändern)$",
        re.M,
    ),
}
# What only a guarantee may say.
GUARANTEE = {"en": "What we promise", "de": "Was wir versprechen"}
PROVEN = {"en": "proven this with mathematics", "de": "mathematisch bewiesen"}
NO_PROMISE = {"en": "this is not a promise", "de": "kein Versprechen"}


@pytest.fixture(scope="module", params=["mixed", "continuous", "categorical"])
def advised(request: pytest.FixtureRequest) -> hf.Recourse:
    """Robust and broken advice in one table, and someone who needs none."""
    case = make_case("one layer", request.param, n_people=12)
    people = case.people.set_axis([f"P-{i}" for i in range(len(case.people))])
    advice = hf.explain(
        case.network, people, target=case.target, changes=hf.PlausibleChanges(0.02),
        generator=hf.NNCE(case.candidates), space=case.space,
    )  # fmt: skip
    assert {hf.Verdict.ROBUST, hf.Verdict.NOT_ROBUST, None} == set(advice.verdict)
    return advice


LOANS = pd.DataFrame(
    {
        "income": [1800.0, 2500.0, 4100.0],
        "late": [6, 0, 2],
        "use": [90.0, 12.5, 40.0],
        "score": [0.1, 0.7, 1.0 / 3.0],
        "sex": ["f", "m", "f"],
    },
    index=["A-1", "A-2", "A-3"],
)
NETWORK = hf.Network([np.array([[3.0, -2.0, -1.0, 0.5, 0.0]])], [np.array([0.2])])


def loans_space(**notes: Any) -> hf.FeatureSpace:
    return hf.FeatureSpace.from_frame(
        LOANS,
        steps={"income": 50},
        immutable=["sex"],
        units={"income": "EUR a month", "use": "%", "late": "payments"},
        encoding="binary",
        **notes,
    )


def loans(
    delta: float | None = 0.05, verdicts: list[Any] | None = None, **notes: Any
) -> hf.Recourse:
    """A-1 is refused and told to become A-2 but for the income; the others are accepted."""
    space = loans_space(**notes)
    told = LOANS.copy()
    told.loc["A-1"] = [3950.0, 0, 12.5, 1.0 / 3.0, "f"]
    advice = recourse_from(
        NETWORK, LOANS.iloc[[0]], told.iloc[[0]], target=1, space=space,
        changes=None if delta is None else hf.PlausibleChanges(delta),
    )  # fmt: skip
    advice = replace(advice, data=told.iloc[[0]])
    return advice if verdicts is None else replace(advice, verdict=np.array(verdicts, dtype=object))


def refused(advice: hf.Recourse) -> list[int]:
    points = advice.space.encode(advice.factuals)
    return np.flatnonzero(advice.network.predict_index(points) != advice.targets).tolist()


# ---------------------------------------------------------------------- what is said is what was certified


def read_back(letter: Letter, advice: hf.Recourse, row: int, language: str) -> pd.DataFrame:
    """The row that a reader of the text would make of it, by other means than the library's own."""
    thousands, decimal = (",", ".") if language == "en" else (".", ",")
    table = advice.factuals.iloc[[row]].astype(object).copy()
    said = {match["label"]: match["value"] for match in LINE[language].finditer(letter.text)}
    for feature in advice.space.features:
        text = said.pop(str(feature.name).replace("_", " "), None)
        if text is None:
            continue
        if feature.labelled:
            words = (
                {"yes": True, "no": False, "ja": True, "nein": False}
                if True in feature.categories
                else {}
            )
            value: Any = words.get(text, text)
        else:
            plain = text.removesuffix("%").strip().replace(thousands, "").replace(decimal, ".")
            value = float(plain) if feature.kind is Kind.CONTINUOUS else int(plain)
        table[feature.name] = [value]
    assert not said
    return table


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_numbers_of_a_letter_read_back_are_the_row_that_was_certified(
    advised: hf.Recourse, language: str
) -> None:
    rows = [row for row in refused(advised) if advised.found[row]]
    assert len(rows) >= 5
    for row in rows:
        letter = advised.letter(row, language=language, date=DAY)
        table = read_back(letter, advised, row, language)
        assert np.array_equal(advised.space.encode(table)[0], advised.points[row])
        again = hf.certify(
            advised.network, table, advised.network.classes[advised.targets[row]], advised.changes,
            space=advised.space,
        )  # fmt: skip
        assert again.verdict[0] is advised.verdict[row]
        assert letter.guaranteed is (again.verdict[0] is hf.Verdict.ROBUST)


def test_a_value_with_a_long_fraction_is_written_out() -> None:
    letter = loans().letter(0, date=DAY)
    assert "score: raise it from 0.1 to 0.3333333333333333\n" in letter.text
    assert "use: lower it from 90% to 12.5%\n" in letter.text
    assert "income (EUR a month): raise it from 1,800 to 3,950\n" in letter.text
    assert "0,3333333333333333" in loans().letter(0, language="de").text
    assert "3.950" in loans().letter(0, language="de").html


def test_a_letter_that_would_say_something_else_is_not_written(tmp_path: Path) -> None:
    advice = loans()
    other = replace(advice, points=np.nextafter(advice.points, 2.0))
    with pytest.raises(
        HoldfastError, match=r"A-1: the values in the letter, .* differ from the certified point"
    ):
        other.letter(0)


LANGUAGES = [Language.find(code) for code in ("en", "de")]
LANGUAGES += [
    replace(LANGUAGES[0], locale=Locale.parse(code)) for code in ("fr", "sv", "pl", "hi", "de_CH")
]


@given(st.sampled_from(LANGUAGES), st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back(language: Language, value: float) -> None:
    assert language.read(language.number(value)) == value
    assert language.read(language.number(value, percent=True)) == value


@given(st.floats(1e-12, 1e6))
def test_a_radius_is_never_rounded_up(value: float) -> None:
    shown = LANGUAGES[0].read(LANGUAGES[0].rounded_down(value))
    assert 0.99 * value <= shown <= value


# ---------------------------------------------------------------------- nothing else is promised


@pytest.mark.parametrize("language", ["en", "de"])
def test_only_robust_advice_is_a_guarantee(advised: hf.Recourse, language: str) -> None:
    for row in refused(advised):
        letter = advised.letter(row, language=language, date=DAY, until="2031-05-07")
        for text in (letter.text, letter.html):
            flat = " ".join(text.split())
            robust = advised.verdict[row] is hf.Verdict.ROBUST
            assert (GUARANTEE[language] in flat) is robust
            assert (PROVEN[language] in flat) is robust
            assert ("2031" in flat) is robust
            assert (NO_PROMISE[language] in flat) is (bool(advised.found[row]) and not robust)


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("verdict", [hf.Verdict.UNKNOWN, hf.Verdict.NOT_ROBUST, None])
def test_advice_that_is_broken_or_unknown_promises_nothing(verdict: Any, language: str) -> None:
    expiry = hf.promise_expiry([5.0], [0.001] * 60, confidence=0.95)
    letter = loans(verdicts=[verdict]).letter(0, language=language, expiry=expiry)
    assert letter.contents.outcome == "not_guaranteed"
    assert letter.contents.certificate == ""
    assert letter.contents.time.retrainings == 0
    for text in (" ".join(letter.text.split()), " ".join(letter.html.split())):
        assert NO_PROMISE[language] in text
        assert "retraining" not in text
        assert "monatlich" not in text
        assert GUARANTEE[language] not in text


def test_without_delta_nothing_is_promised() -> None:
    letter = loans(delta=None).letter(0)
    assert not letter.guaranteed
    assert "We have not checked if the yes would last" in " ".join(letter.text.split())
    assert letter.contents.limits is None


@pytest.mark.parametrize(
    ("reason", "kind", "words"),
    [
        (
            "proven: nothing may change (a immutable), and today's class is another",
            "fixed",
            "None of the details",
        ),
        (
            "proven: no point within the constraints is accepted by every model in Δ",
            "proven",
            "sure to last when we",
        ),
        (
            "no point accepted was found in time",
            "not_found",
            "This does not prove that there are none",
        ),
    ],
)
def test_a_row_without_an_answer_is_told_so(reason: str, kind: str, words: str) -> None:
    space = loans_space()
    gap = LOANS.iloc[[0]].astype(object)
    gap["income"] = [None]
    advice = recourse_from(
        NETWORK,
        LOANS.iloc[[0]],
        gap,
        target=1,
        space=space,
        changes=hf.PlausibleChanges(0.05),
        reasons=[reason],
    )
    letter = advice.letter(0, until="2031-05-07")
    assert letter.contents.why_none == kind
    assert letter.contents.changes == ()
    # In the middle of its range each of them would bring a yes closer, by its weight and its distance from there.
    assert [reason.text for reason in letter.contents.reasons] == ["income", "late", "use", "score"]
    for text in (letter.text, letter.html):
        flat = " ".join(text.split())
        assert words in flat
        assert "2031" not in flat
        assert "What you can do" not in flat
        assert "romise" not in flat
        assert "Δ" not in flat


def test_advice_that_nobody_may_be_given_is_refused() -> None:
    with pytest.raises(
        InvalidInputError,
        match=r"A-1: expected advice that leaves protected attributes alone.*'late'",
    ):
        loans(protected=["late"]).letter(0)
    fixed = loans()
    with pytest.raises(
        InvalidInputError,
        match="A-1: expected advice within the constraints, got: late is immutable",
    ):
        replace(fixed, space=fixed.space.constrained(immutable=["late", "sex"])).letter(0)
    accepted = recourse_from(
        NETWORK, LOANS.iloc[[1]], LOANS.iloc[[1]], target=1, space=loans_space()
    )
    with pytest.raises(
        InvalidInputError, match="A-2: the person has 1 already, so there is no rejection"
    ):
        accepted.letter(0)


# ---------------------------------------------------------------------- trees: a box, not a point


@pytest.fixture(scope="module")
def grown() -> tuple[Any, pd.DataFrame, hf.FeatureSpace]:
    """Boosted trees on columns of numbers, and whom they refuse."""
    table = make_loans(600).select_dtypes("number")
    X = table.drop(columns="accepted").astype(float)
    model = xgboost.XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1)
    model.fit(X, table["accepted"].astype(int))
    space = hf.FeatureSpace.from_frame(X, immutable=["age"], units={"card_utilisation": "%"})
    return model, X, space


ENDS = {
    "en": re.compile(
        r"(?:between (?P<low>\S+) and (?P<high>\S+)|at least (?P<least>\S+)|at most (?P<most>\S+))$"
    ),
    "de": re.compile(
        r"(?:einen Wert von (?P<low>\S+) bis (?P<high>\S+)|mindestens (?P<least>\S+)|höchstens (?P<most>\S+))$"
    ),
}


def box_of(
    letter: Letter, advice: hf.Recourse, language: str, names: set[str] | None = None
) -> dict[str, tuple[float, float]]:
    """The box that a reader of the text would make of it, of these columns."""
    thousands, decimal = (",", ".") if language == "en" else (".", ",")
    box = {}
    for match in LINE[language].finditer(letter.text.replace("\xa0%", "%")):
        name = match["label"].replace(" ", "_")
        if names is not None and name not in names:
            continue
        ends = ENDS[language].match(match["value"])
        said = (
            (match["value"], match["value"])
            if ends is None
            else (ends["low"] or ends["least"], ends["high"] or ends["most"])
        )
        low, high = (
            None
            if text is None
            else float(text.rstrip("%").replace(thousands, "").replace(decimal, "."))
            for text in said
        )
        box[name] = (-np.inf if low is None else low, np.inf if high is None else high)
    return box


ROOM = {
    "en": r"^\* (.+?)(?: \([^)]*\))?: may be anything(?: from (\S+))?(?: (?:up )?to (\S+))?(?: up)? \(now ",
    "de": r"^\* (.+?)(?: \([^)]*\))?: beliebig(?: (?:von|ab) (\S+))?(?: bis (\S+))? \(jetzt ",
}


def varying(letter: Letter) -> dict[str, tuple[float, float]]:
    """What a reader of the text takes for the ranges of the details that may change meanwhile."""
    language = letter.contents.language
    thousands, decimal = (",", ".") if language == "en" else (".", ",")
    found = {}
    for label, *ends in re.findall(ROOM[language], letter.text.replace("\xa0%", "%"), re.M):
        low, high = (
            float(end.rstrip("%").replace(thousands, "").replace(decimal, ".")) if end else sign
            for end, sign in zip(ends, (-np.inf, np.inf), strict=True)
        )
        found[label.replace(" ", "_")] = (low, high)
    return found


@pytest.mark.filterwarnings("ignore:rule '.*rows of the table break it")
@pytest.mark.parametrize("seed", [1, 5, 15, 21, 22, 23, 25, 26])
def test_whatever_a_letter_about_trees_lets_people_do_is_proven(seed: int) -> None:
    """Small worlds of every library, with labels, gaps and preprocessing: all details anywhere in their ranges."""
    world = drawn(seed)
    assert world is not None
    advice = world.explained(True)
    rng, seen = np.random.default_rng(seed), 0
    for row in np.flatnonzero(advice.robust).tolist():
        letter = advice.letter(row, certified=False)
        numbers = np.repeat(advice.space.numbers(advice.counterfactuals.iloc[[row]]), 300, axis=0)
        wide = {change.name for change in letter.contents.changes if change.within}
        ranges = varying(letter) | box_of(letter, advice, "en", wide)
        for name, (low, high) in ranges.items():
            i = advice.space.names.index(name)
            feature = advice.space.features[i]
            if feature.labelled:
                assert (low, high) == (-np.inf, np.inf)
                low, high = 0.0, len(feature.categories) - 1.0
            low, high = max(low, -1e6), min(high, 1e6)
            values = rng.choice([low, high, numbers[0, i], *rng.uniform(low, high, 20)], 300)
            numbers[:, i] = np.floor(values) if feature.precision == "integer" else values
            seen += 1
        rows = advice.space.restore(numbers)
        points, loaded = advice.space.encode(rows), world.loaded.in_space(advice.space, rows)
        proven = hf.certify(loaded, points, target=world.target, changes=world.changes)
        assert proven.robust.all()
    assert seen >= 3


@pytest.mark.parametrize("generator", ["closest", "rnce"])
def test_a_letter_about_trees_names_limits_and_every_row_within_is_accepted(
    grown: tuple[Any, pd.DataFrame, hf.FeatureSpace], generator: str
) -> None:
    model, X, space = grown
    changes = hf.TreeChanges(leaves=0.01, dropped=1)
    advice = hf.explain(
        model, X[model.predict(X) == 0].head(4), target=1, changes=changes, space=space,
        generator=hf.Closest() if generator == "closest" else hf.RNCE(X),
    )  # fmt: skip
    assert advice.robust.sum() >= 3
    rng, wide, roomy = np.random.default_rng(0), 0, 0
    for row in np.flatnonzero(advice.robust).tolist():
        letters = {code: advice.letter(row, language=code) for code in ("en", "de")}
        boxes = {code: box_of(letters[code], advice, code) for code in letters}
        assert boxes["en"] == boxes["de"]
        own, told = advice.factuals.iloc[row], advice.counterfactuals.iloc[row]
        assert set(boxes["en"]) == {name for name in X if own[name] != told[name]}
        rows = pd.DataFrame([own] * 200)
        loose = varying(letters["en"])
        assert loose == varying(letters["de"])
        assert set(loose) == {detail.name for detail in letters["en"].contents.may_vary}
        roomy += len(loose)
        for name, (low, high) in loose.items():
            assert low <= own[name] <= high
            ends = [max(low, -9.0 - 9.0 * abs(own[name])), min(high, 9.0 + 9.0 * abs(own[name]))]
            rows[name] = rng.choice([*ends, own[name], *rng.uniform(*ends, 20)], 200)
        for change in letters["en"].contents.changes:
            low, high = boxes["en"][change.name]
            wide += low < high
            # An end of many digits is rounded inwards, by no more than a thousandth.
            assert low <= told[change.name] * 1.001
            assert told[change.name] * 0.999 <= high
            # Whoever stays as they are has not done it.
            assert not low <= own[change.name] <= high
            far = max(abs(low) if np.isfinite(low) else 0.0, abs(told[change.name])) * 9.0 + 9.0
            ends = [max(low, -far), min(high, far), told[change.name]]
            rows[change.name] = rng.choice([*ends, *rng.uniform(ends[0], ends[1], 20)], 200)
            text = " ".join(Page(letters["en"].html).data.split())
            assert all(end in text for end in (change.at_least, change.at_most))
        # All details at once, and under models at the ends of what is proven.
        assert (model.predict(rows) == 1).all()
        assert hf.certify(model, rows, target=1, changes=changes).robust.all()
        today = hf.load_model(model).classifier
        for _ in range(5):
            later = sampled(today, changes, rng)
            assert (later.predict_index(rows.to_numpy()) == 1).all()
        flat = " ".join(letters["en"].text.split())
        assert ("Every value within the limits" in flat) is letters["en"].contents.widened
        assert ("Jeder Wert in den genannten" in letters["de"].text) is letters[
            "en"
        ].contents.widened
    assert wide >= 3
    assert roomy >= 9


def test_what_is_not_proven_of_trees_has_no_limits_and_a_range_ends_where_it_is_known(
    grown: tuple[Any, pd.DataFrame, hf.FeatureSpace],
) -> None:
    model, X, space = grown
    denied = X[model.predict(X) == 0].head(3)
    options: dict[str, Any] = {"target": 1, "generator": hf.RNCE(X), "space": space}
    for changes in (None, hf.PlausibleShift(0.01)):
        letter = hf.explain(model, denied, changes=changes, **options).letter(0)
        assert not letter.guaranteed
        assert not letter.contents.widened
    # Trees that read a space's own units: beyond its ranges nothing was looked at.
    scaled = xgboost.XGBClassifier(n_estimators=12, max_depth=3, n_jobs=1)
    scaled.fit(space.encode(X), model.predict(X))
    advice = hf.explain(scaled, denied, changes=hf.TreeChanges(leaves=0.01), **options)
    lines = advice.regions.query("column != 'age'")
    for name, part in lines.groupby("column"):
        assert (part["at_least"] >= X[name].min()).all()
        assert (part["at_most"] <= X[name].max()).all()


def test_limits_of_trees_in_words(grown: tuple[Any, pd.DataFrame, hf.FeatureSpace]) -> None:
    model, X, space = grown
    changes = hf.TreeChanges(
        leaves=0.0012349, thresholds={"income": 0.5}, dropped=1, shift=0.001, factor=2.0
    )
    denied = X[model.predict(X) == 0].head(5)
    advice = hf.explain(model, denied, target=1, changes=changes, generator=hf.RNCE(X), space=space)
    row = int(np.flatnonzero(advice.robust)[0])
    said = " ".join(advice.letter(row).text.split())
    assert (
        "if it has the same decision trees; the value at each end of a tree moves by at most 0.00246; the limits that "
        "trees set for income move by at most 1; at most one tree is left out; added trees lower the score by at most "
        "0.002. How long"
    ) in said
    assert "sich die Grenzen, die Bäume für income setzen, um höchstens 1 verschieben" in " ".join(
        advice.letter(row, language="de").text.split()
    )


# ---------------------------------------------------------------------- reasons, time, limits


def test_each_reason_has_its_own_sentence_also_where_two_share_a_code(tmp_path: Path) -> None:
    advice = loans(
        reasons={
            "late": ("38", "Serious delinquency"),
            "use": ("10", "Card use"),
            "income": ("10", "Card use"),
        }
    )
    letter = advice.letter(0)
    # Nobody but A-1 is known: what is usual is what A-1 is told.
    moved = np.abs(advice.points[0] - advice.space.encode(advice.factuals)[0])
    names = ["income", "late", "use", "score"]
    won = dict(zip(names, moved * np.abs(NETWORK.weights[0][0]), strict=False))
    order = sorted(won, key=won.__getitem__, reverse=True)
    reasons = letter.contents.reasons
    assert [reason.name for reason in reasons] == order
    shares = [won[name] / sum(won.values()) for name in order]
    assert [reason.share for reason in reasons] == pytest.approx(shares, rel=1e-5)
    assert [reason.code for reason in reasons] == [
        {"late": "38", "use": "10", "income": "10"}.get(name, "") for name in order
    ]
    costs = sorted((moved / moved.sum())[:4], reverse=True)
    assert [change.share for change in letter.contents.changes] == pytest.approx(costs)
    said = " ".join(letter.text.split())
    assert "Card use (code 10). Your use of 90% is high; accepted applicants usually have" in said
    assert "Card use (code 10). Your income of 1,800 EUR a month is low; accepted" in said
    (codes,) = hf.letters(advice, tmp_path / "letters")["reasons"]
    assert sorted(codes.split()) == ["10", "38"]


def test_where_nothing_counts_by_itself_the_reasons_are_what_the_advice_changes() -> None:
    people = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    space = hf.FeatureSpace.from_frame(people)
    # Only both together bring a yes.
    both = hf.Network([[[1.0, 1.0]], [[1.0]]], [[-1.0], [-0.5]])
    advice = hf.explain(both, people.head(1), target=1, generator=hf.NNCE(people), space=space)
    letter = advice.letter(0)
    assert (letter.contents.derived, [reason.text for reason in letter.contents.reasons]) == (
        "advice",
        ["a", "b"],
    )
    assert "does not say how much each detail counted" in " ".join(letter.text.split())
    nobody = hf.explain(
        both, people.head(1), target=1, generator=hf.NNCE(people.head(1)), space=space, data=people,
    )  # fmt: skip
    letter = nobody.letter(0)
    assert (letter.contents.derived, letter.contents.reasons) == ("", ())
    for language, words in (
        ("en", "a person will look at the decision"),
        ("de", "sieht sich ein Mensch"),
    ):
        assert words in " ".join(nobody.letter(0, language=language).text.split())


@pytest.mark.parametrize(
    ("delta", "end"), [(0.001, "are enough{}."), (None, "are enough{} for today's model.")]
)
def test_a_reason_that_the_advice_leaves_alone_is_explained(delta: float | None, end: str) -> None:
    # Only a and b together count, or c alone.
    people = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0], "c": [0.0, 1.0]})
    net = hf.Network([[[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [[1.0, 0.4]]], [[-1.0, 0.0], [-0.5]])
    for fixed, stays, words, german in (
        ([], "choice", "Your c can stay as it is: the steps below", "Das müssen Sie nicht ändern:"),
        ("c", "fixed", "You cannot change this: the steps below", "Das können Sie nicht ändern:"),
    ):
        told = people.iloc[[0]].assign(a=1.0, b=1.0)
        advice = recourse_from(
            net, people.iloc[[0]], told, target=1, space=hf.FeatureSpace.from_frame(people, immutable=fixed),
            changes=None if delta is None else hf.PlausibleChanges(delta),
        )  # fmt: skip
        advice = replace(advice, data=people)
        letter = advice.letter(0, certified=False)
        assert letter.guaranteed is (delta is not None)
        (reason,) = letter.contents.reasons
        assert (reason.name, reason.stays) == ("c", stays)
        end_here = end.format(" without it" if fixed else "")
        for text in (letter.text, Page(letter.html).data):
            assert f"{words} {end_here}" in " ".join(text.split())
        text = " ".join(advice.letter(0, language="de", certified=False).text.split())
        assert german in text
    # What the advice changes needs no such sentence, and a letter without advice has no steps.
    assert {reason.stays for reason in loans().letter(0).contents.reasons} == {""}
    none = hf.explain(net, people.head(1), target=1, generator=hf.NNCE(people.head(1)), data=people)
    assert {reason.stays for reason in none.letter(0).contents.reasons} == {""}


def test_details_that_change_with_time_are_named(grown: tuple[Any, pd.DataFrame, Any]) -> None:
    people = pd.DataFrame(
        {"months_of_history": [10.0, 90.0], "debt": [9.0, 1.0], "YearsInJob": [2.0, 5.0], "duration": [12.0, 24.0]}
    )  # fmt: skip
    net = hf.Network([[[0.1, -4.0, 0.1, 0.0]]], [[2.0]])

    def said(language: str = "en", **notes: Any) -> tuple[list[str], str]:
        own = hf.FeatureSpace.from_frame(people, **notes)
        advice = recourse_from(
            net, people.iloc[[0]], people.iloc[[0]].assign(debt=1.0), target=1, space=own,
            changes=hf.PlausibleChanges(0.001),
        )  # fmt: skip
        letter = advice.letter(0, until="2027-01-31", date=DAY, language=language)
        return [one.name for one in letter.contents.passing], " ".join(letter.text.split())

    names, text = said()
    assert names == ["months_of_history", "YearsInJob"]
    assert (
        "Some change by themselves as time passes: months of history, YearsInJob. Our promise covers the values shown. "
        "When one has changed, ask us: you get a new check."
    ) in text
    assert "ändern sich von selbst mit der Zeit: months of history, YearsInJob." in said("de")[1]
    # What the space says comes first.
    names, text = said(with_time="duration")
    assert names == ["months_of_history", "YearsInJob", "duration"]
    entries = hf.FeatureSpace.from_frame(people, with_time="duration").to_dict()
    assert hf.FeatureSpace.from_dict(entries).notes.with_time("duration") is True
    with pytest.raises(InvalidInputError, match="with_time: expected columns of the table"):
        said(with_time="tenure")
    # A box of trees covers the time to come, and says how far.
    model, X, space = grown
    advice = hf.explain(
        model, X[model.predict(X) == 0].head(4), target=1, changes=hf.TreeChanges(leaves=0.01), space=space,
        generator=hf.Closest(),
    )  # fmt: skip
    for row in np.flatnonzero(advice.robust).tolist():
        contents = advice.letter(row).contents
        assert {"age", "months_of_history"} <= {
            one.name for one in (*contents.may_vary, *contents.passing)
        }


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_promise_says_what_happens_at_an_update(language: str) -> None:
    write = {
        "en": "If a model update breaks this promise, we will write to you.",
        "de": "Wenn eine Anpassung des Modells dieses Versprechen bricht, schreiben wir Ihnen.",
    }[language]
    expiry = hf.promise_expiry([5.0], [0.001] * 60, confidence=0.95, horizon=3, start=DAY)
    for options in ({}, {"until": "2027-01-31"}, {"expiry": expiry}):
        letter = loans().letter(0, language=language, date=DAY, **options)  # type: ignore[arg-type]
        assert letter.guaranteed
        for text in (letter.text, letter.html):
            assert write in " ".join(text.split())
    for other in (loans(None), loans(verdicts=[hf.Verdict.NOT_ROBUST])):
        assert write not in " ".join(other.letter(0, language=language).text.split())


def test_measured_updates_are_counted_in_words() -> None:
    measured = replace(loans(), changes=hf.PlausibleChanges(0.05).calibrated(Inside(19, 20)))
    said = " ".join(measured.letter(0, certified=False).text.split())
    assert (
        "19 of the last 20 model updates that we measured stayed within what we have proven. "
        "The next update may go further."
    ) in said
    german = " ".join(measured.letter(0, certified=False, language="de").text.split())
    assert (
        "19 der letzten 20 Modell-Anpassungen, die wir gemessen haben, blieben in den Grenzen dessen"
        in german
    )
    every = replace(loans(), changes=hf.PlausibleChanges(0.05).calibrated(Inside(20, 20)))
    assert "All of the last 20 model updates that we measured" in " ".join(
        every.letter(0, certified=False).text.split()
    )


@pytest.mark.filterwarnings("error")
def test_a_letter_that_would_mix_languages_warns_and_says_what_to_do() -> None:
    german = {"de": "Text"}
    said: dict[Any, Any] = {
        name: {"de": f"Wort für {name}"} for name in ("income", "late", "use", "score")
    }
    said |= {("income", "EUR a month"): german, ("late", "payments"): german}
    words = {("sex", "f"): {"de": "weiblich"}, ("sex", "m"): {"de": "männlich"}}
    with pytest.warns(
        hf.HoldfastWarning, match=r"'de': no words for the columns 'sex' \(label, f, m\), so"
    ):
        loans(labels=said).letter(0, language="de")
    with pytest.warns(hf.HoldfastWarning, match=r"'income' \(EUR a month\)"):
        loans(
            labels={
                **said,
                "sex": {"de": "Geschlecht"},
                **words,
                ("income", "EUR a month"): "EUR a month",
            }
        ).letter(0, language="de")
    whole = {**said, "sex": {"de": "Geschlecht"}, **words}
    with pytest.warns(hf.HoldfastWarning, match=r"'late' \(reason\)"):
        loans(labels=whole, reasons={"late": ("38", "Delinquency")}).letter(0, language="de")
    loans(labels=whole, reasons={"late": ("38", {"de": "Zahlungsverzug"})}).letter(0, language="de")
    # Protected attributes are not named, so they need no words.
    loans(labels=said, protected=["sex"]).letter(0, language="de")
    loans().letter(0)


def test_protected_attributes_are_not_named_to_anyone() -> None:
    letter = loans(protected=["sex"], labels={"sex": "sex as registered"}).letter(0, date=DAY)
    assert (letter.contents.unchanged, letter.contents.unlisted) == ((), 1)
    for text in (letter.text, letter.html):
        assert "registered" not in text
        assert "All other details must be as they were" in " ".join(text.split())


def test_a_german_letter_is_german() -> None:
    labels: dict[Any, Any] = {
        "income": {"en": "net income", "de": "Nettoeinkommen"},
        ("income", "EUR a month"): {"en": "EUR a month", "de": "EUR im Monat"},
        "late": {"en": "missed payments", "de": "verpasste Raten"},
        ("late", "payments"): {"de": "Raten", "en": "payments"},
        "sex": {"en": "sex", "de": "Geschlecht"},
        ("sex", "f"): {"en": "female", "de": "weiblich"},
    }
    advice = loans(
        labels=labels,
        reasons={"late": ("38", {"en": "Serious delinquency", "de": "Zahlungsverzug"})},
    )
    german = advice.letter(0, language="de", date=DAY).text
    for words in (
        "* Nettoeinkommen (EUR im Monat): von 1.800 auf 3.950 erhöhen", "* verpasste Raten: von 6 auf 0 senken",
        "Zahlungsverzug (Code 38)", "* Geschlecht: weiblich",
    ):  # fmt: skip
        assert words in german
    english = advice.letter(0, date=DAY).text
    for words in (
        "* net income (EUR a month): raise it",
        "* sex: female",
        "Serious delinquency (code 38)",
    ):
        assert words in english


@pytest.mark.parametrize(
    ("language", "stays", "states"),
    [
        ("en", "savings: not stated", "state it: 5,000"),
        ("de", "savings: nicht angegeben", "5.000 angeben"),
    ],
)
def test_a_missing_value_is_said_in_words(language: str, stays: str, states: str) -> None:
    people = pd.DataFrame({"income": [1000.0, 5000.0], "savings": [np.nan, 5000.0]})
    net = hf.Network([[[3.0, 2.0, 0.0]]], [[-2.5]])
    for fillable, words in (([], stays), (["savings"], states)):
        space = hf.FeatureSpace.from_frame(
            people, missing={"savings": 0.0}, ranges={"savings": (0, 5000)}, fillable=fillable
        )
        advice = hf.explain(net, people.head(1), target=1, generator=hf.NNCE(people), space=space)
        assert advice.found.all()
        assert words in advice.letter(0, language=language, date=DAY).text


def test_labels_units_and_what_must_stay() -> None:
    letter = loans(labels={"late": "number of missed payments", "sex": "sex as registered"}).letter(
        0, date=DAY
    )
    assert "* number of missed payments: lower it from 6 to 0" in letter.text
    assert "* sex as registered: f" in letter.text
    assert [detail.name for detail in letter.contents.unchanged] == ["sex"]
    assert "16 November 2026" in letter.text


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "en",
            [
                "Change this one detail.",
                "Change both details below.",
                "Change all 3 details below.",
            ],
        ),
        (
            "de",
            [
                "Ändern Sie diese eine Angabe.",
                "Ändern Sie beide Angaben.",
                "Ändern Sie alle 3 Angaben.",
            ],
        ),
    ],
)
def test_how_much_is_to_be_changed(language: str, words: list[str]) -> None:
    people = pd.DataFrame(np.vstack([np.zeros(3), np.tri(3)]), columns=["a", "b", "c"])
    net = hf.Network([[[1.0, 1.0, 1.0]]], [[-0.5]])
    space = hf.FeatureSpace.from_frame(people)
    for n, said in enumerate(words, 1):
        example = people.iloc[[n]]
        advice = hf.explain(net, people.head(1), target=1, generator=hf.NNCE(example), space=space)
        assert said in advice.letter(0, date=DAY, language=language).text


def test_a_unit_is_said_by_a_word_not_by_its_letters() -> None:
    people = pd.DataFrame({"savings in banks": [0.0, 9.0], "debt (k)": [1.0, 0.0]})
    space = hf.FeatureSpace.from_frame(people, units={"savings in banks": "k", "debt (k)": "k"})
    net = hf.Network([[[1.0, -1.0]]], [[0.0]])
    advice = hf.explain(net, people, target=1, generator=hf.NNCE(people), space=space)
    units = {change.label: change.unit for change in advice.letter(0, date=DAY).contents.changes}
    assert units == {"savings in banks": "k", "debt (k)": ""}


def test_no_name_and_no_category_passes_for_another_line() -> None:
    forged = "paid\n\nWhat we promise\n---------------\nEverything"
    people = pd.DataFrame(
        {"debt\n* debt: lower it from 1 to 9": [9.0, 1.0], "state": [forged, "\u202eerutuf\u202c"]},
        index=["A", "B"],
    )
    space = hf.FeatureSpace.from_frame(people)
    net = hf.Network([[[-1.0] + [0.0] * (space.n_variables - 1)]], [[0.5]])
    advice = hf.explain(net, people, target=1, generator=hf.NNCE(people), space=space)
    letter = advice.letter(0, date=DAY)
    assert "\nWhat we promise\n" not in letter.text
    assert "\n* debt: lower it from 1 to 9" not in letter.text
    assert "\u202e" not in letter.text + letter.html
    assert sum(line.startswith("* ") for line in letter.text.splitlines()) == 2


def test_an_expiry_that_has_passed_says_nothing() -> None:
    old = hf.promise_expiry([5.0], [0.001] * 60, confidence=0.95, horizon=3, start="2025-01-01")
    text = " ".join(loans().letter(0, date=DAY, expiry=old).text.split())
    assert "So we name no date" in text
    assert "2025" not in text


def test_how_long_it_holds() -> None:
    advice = loans()
    three = hf.promise_expiry([5.0], [0.001] * 60, confidence=0.95, horizon=3, start=DAY)
    one = hf.promise_expiry([5.0], [0.001] * 20, confidence=0.95, horizon=1, period="week")
    never = hf.promise_expiry([0.0], [0.001] * 60, confidence=0.95)

    def said(**options: Any) -> str:
        return " ".join(advice.letter(0, date=DAY, **options).text.split())

    # The confidence is about the model, not about a promise that was picked because it lasts.
    estimate = (
        "This is an estimate, from how far the model moved in the past. For a number of retrainings that is fixed "
        "beforehand, the model moves no further than we estimate with a confidence of 95%."
    )
    assert (
        "We expect that the promise is kept through the next 3 monthly retrainings of the model (to 16 February 2027). "
        f"{estimate}" in said(expiry=three)
    )
    assert f"through the next weekly retraining of the model. {estimate}" in said(expiry=one)
    assert "die nächsten 3 monatlichen Anpassungen" in said(expiry=three, language="de")
    assert "die nächste wöchentliche Anpassung" in said(expiry=one, language="de")
    assert "So we name no date" in said(expiry=never)
    assert "So we name no date" in said()
    assert "We keep this promise until 31 January 2027, for every model version" in said(
        until="2027-01-31"
    )
    assert "bis zum 31. Januar 2027, für jede Fassung" in said(
        until=datetime.date(2027, 1, 31), language="de"
    )
    for options, message in (
        ({"until": "2026-11-15"}, "until: expected a day not before"),
        ({"until": "soon"}, "until: expected a date such as"),
        ({"date": 20261116}, "date: expected a date such as"),
        (
            {"until": "05.12.2026"},
            "until: expected a date such as",
        ),  # the 5th of December or the 12th of May?
        ({"until": "2027-01-31", "expiry": three}, "got both"),
        ({"expiry": "3 months"}, "expiry: expected the result of promise_expiry, got str"),
        (
            {"expiry": hf.promise_expiry([5.0, 5.0], [0.001] * 60)},
            "expiry: expected one promise for each of the 1 rows",
        ),
    ):
        with pytest.raises(InvalidInputError, match=message):
            advice.letter(0, **({"date": DAY} | options))


@pytest.mark.parametrize(
    ("changes", "limits", "words"),
    [
        (
            hf.PlausibleChanges(0.0123456),
            ("0.0123", "", "inf", True),
            "each number inside the model moves by at most 0.0123.",
        ),
        (
            hf.PlausibleChanges(0.02, 2),
            ("0.02", "", "2", True),
            "all numbers inside the model together move by at most 0.02, measured in",
        ),
        (
            hf.PlausibleChanges(0.02, biases=False),
            ("0.02", "", "inf", False),
            "each weight inside the model moves by at most 0.02; the biases stay",
        ),
        (
            hf.PlausibleChanges((0.01, 0.03)),
            ("0.01", "0.03", "inf", True),
            "by at most 0.01 to 0.03, depending on the layer.",
        ),
        (
            hf.PlausibleChanges([[[0.01, 0.02, 0.03]]], biases=[[[0.0], [0.0399]]]),
            ("0", "0.0399", "inf", True, True),
            "each number inside the model moves by at most 0 to 0.0399, depending on the number.",
        ),
    ],
)
def test_limits_in_words(changes: hf.PlausibleChanges, limits: tuple[Any, ...], words: str) -> None:
    letter = replace(loans(), changes=changes).letter(0, certified=False)
    assert letter.contents.limits == Limits(*limits)
    assert words in " ".join(letter.text.split())


def test_the_certificate_quoted_is_the_one_that_is_written(tmp_path: Path) -> None:
    advice = loans()
    written = hf.write_certificates(advice, tmp_path / "certificates.jsonl")
    letter = advice.letter(0)
    assert letter.contents.certificate == written["certificate"].iloc[0]
    assert letter.contents.certificate in letter.text
    assert advice.letter(0, certified=False).contents.certificate == ""


# ---------------------------------------------------------------------- the page, and templates


class Page(HTMLParser):
    """Tags, attributes and visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.data += data


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_page_is_one_file_with_headings_and_a_language(language: str) -> None:
    letter = loans().letter(0, language=language)
    page = Page(letter.html)
    names = [tag for tag, _ in page.tags]
    assert dict(page.tags)["html"] == {"lang": language}
    assert (names.count("h1"), names.count("main"), names.count("title")) == (1, 1, 1)
    assert names.count("h2") == 6
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
    assert not {"script", "link", "img", "iframe"} & set(names)
    assert not any({"src", "href"} & set(attributes) for _, attributes in page.tags)
    for change in letter.contents.changes:
        assert change.after in page.data
    # Both formats say the same sentences.
    for sentence in (letter.contents.certificate, GUARANTEE[language]):
        assert sentence in page.data
        assert sentence in letter.text


def test_nothing_that_people_are_called_becomes_markup() -> None:
    bad = "<script>alert(1)</script> & \"'"
    people = LOANS.assign(sex=["<b>f</b>", "m", "<b>f</b>"])
    space = hf.FeatureSpace.from_frame(
        people, labels={"late": f"late {bad}"}, reasons={"use": (bad, bad)}, encoding="binary"
    )
    told = people.iloc[[0]].assign(income=4100.0, late=0, use=12.5, sex="m")
    advice = recourse_from(
        NETWORK, people.iloc[[0]], told, target=1, space=space, changes=hf.PlausibleChanges(0.01)
    )
    letter = advice.letter(0, key=bad, name=bad, sender=f"{bad}\n{bad}", subject=bad)
    page = Page(letter.html)
    assert not {"script", "b"} & {tag for tag, _ in page.tags}
    assert page.data.count("<script>alert(1)</script> & \"'") >= 8
    assert "&lt;" not in page.data
    assert bad in letter.text
    assert "<b>f</b>" in letter.text
    assert "<script" not in letter._repr_html_()


def test_own_templates_take_the_place_of_ours(tmp_path: Path) -> None:
    advice = loans()
    files = write_templates(tmp_path / "own")
    assert {path.name for path in files} == {"letter.html.j2", "letter.txt.j2", "words.j2"}
    assert advice.letter(0, date=DAY, templates=tmp_path / "own") == advice.letter(0, date=DAY)
    with pytest.raises(InvalidInputError, match="which is there already"):
        write_templates(tmp_path / "own")
    words = tmp_path / "own" / "en" / "words.j2"
    words.write_text(
        words.read_text(encoding="utf-8").replace("The main reasons", "Why & how"), encoding="utf-8"
    )
    changed = advice.letter(0, templates=tmp_path / "own")
    assert "Why & how\n---------" in changed.text
    # A file that is not there is ours.
    only = tmp_path / "only"
    only.mkdir()
    (only / "letter.txt.j2").write_text(
        "{{ letter.key }}: {{ letter.changes[0].after }}", encoding="utf-8"
    )
    assert advice.letter(0, templates=only).text == "A-1: 0"
    assert advice.letter(0, templates=only, date=DAY).html == advice.letter(0, date=DAY).html


def test_another_language_is_a_folder_with_its_words(tmp_path: Path) -> None:
    words, ours = (
        tmp_path / "fr-CH" / "words.j2",
        Path(write_templates.__code__.co_filename).parent / "templates",
    )
    words.parent.mkdir()
    said = (ours / "en" / "words.j2").read_text(encoding="utf-8")
    words.write_text(said.replace("The answer was no", "La réponse est non"), encoding="utf-8")
    letter = loans().letter(0, language="fr-CH", templates=tmp_path, date=DAY)
    assert "from 1\u202f800 to 3\u202f950" in letter.text
    assert "12,5%" in letter.text
    assert "0,3333333333333333" in letter.text
    assert "16 novembre 2026" in letter.text
    assert "La réponse est non." in letter.text
    assert '<html lang="fr-CH">' in letter.html
    words.write_text(said.replace("macro yes()", "macro oui()"), encoding="utf-8")
    with pytest.raises(
        FileFormatError,
        match="expected a macro for each of about, yes, no, missing, got none for yes",
    ):
        loans().letter(0, language="fr-CH", templates=tmp_path)
    words.rename(words.parent.parent / "words.j2")
    (tmp_path / "xx").mkdir()
    (tmp_path / "words.j2").rename(tmp_path / "xx" / "words.j2")
    with pytest.raises(
        InvalidInputError, match="language: expected one that Babel knows, got 'xx'"
    ):
        loans().letter(0, language="xx", templates=tmp_path)
    for code in ("fr", "../en", "", "x" * 99):
        with pytest.raises(InvalidInputError, match="language: expected"):
            loans().letter(0, language=code, templates=tmp_path)
    with pytest.raises(InvalidInputError, match="templates: expected a folder with templates"):
        loans().letter(0, templates=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("\n{{ letter.nonsense }}", r"letter.txt.j2, line 2: .*no attribute 'nonsense'"),
        ("{{ nonsense }}", "'nonsense' is undefined"),
        ("\n\n{% if %}", r"letter.txt.j2, line 3: "),
        ("{{ letter.__class__.__mro__ }}", "unsafe|undefined"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ letter.changes[99].after }}", "expected a template that can be filled in"),
        ("{{ 1 // 0 }}", "zero"),
        (
            '{% include "../../../../../../etc/passwd" %}',
            "expected a template that can be filled in",
        ),
        ("{{ range(10 ** 9) | list }}", "range"),
    ],
)
def test_a_bad_template_is_an_error_that_says_where(
    tmp_path: Path, template: str, message: str
) -> None:
    (tmp_path / "letter.txt.j2").write_text(template, encoding="utf-8")
    with pytest.raises(FileFormatError, match=message):
        loans().letter(0, templates=tmp_path)
    with pytest.raises(FileFormatError, match=r"^A-1: "):
        hf.letters(loans(), tmp_path / "letters", templates=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letter.txt.j2"]


def test_letters_pickle_and_compare() -> None:
    letter = write_letter(loans(), 0, date=DAY)
    assert pickle.loads(pickle.dumps(letter)) == letter
    assert str(letter) == letter.text
    for row in (1, -1, -2, 0.0, True, "0"):
        with pytest.raises(InvalidInputError, match="row: expected one of the 1 rows"):
            write_letter(loans(), row)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="recourse: expected"):
        write_letter("advice", 0)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"row: expected one of the 1 rows.*got -1"):
        hf.letters(loans(), "never", rows=[-1])
    with pytest.raises(
        InvalidInputError, match=r"signature: letter has no such option; it has .*sender"
    ):
        loans().letter(0, signature="Bank")  # type: ignore[call-arg]
    with pytest.raises(InvalidInputError, match="signature: letters has no such option"):
        hf.letters(loans(), "never", signature="Bank")  # type: ignore[call-arg]


# ---------------------------------------------------------------------- folders of them


def test_a_folder_of_letters_and_its_manifest(advised: hf.Recourse, tmp_path: Path) -> None:
    manifest = hf.letters(
        advised,
        tmp_path / "a" / "letters",
        date=DAY,
        names={k: f"N {k}" for k in advised.factuals.index},
    )
    written = pd.read_csv(tmp_path / "a" / "letters" / "manifest.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(written, manifest, check_dtype=False)
    assert manifest["key"].tolist() == list(advised.factuals.index)
    for row, entry in enumerate(manifest.itertuples()):
        if row not in refused(advised):
            assert (entry.outcome, entry.file) == ("already_accepted", "")
            continue
        letter = advised.letter(row, date=DAY, name=f"N {entry.key}")
        assert (tmp_path / "a" / "letters" / entry.file).read_text(encoding="utf-8") == letter.html
        assert (tmp_path / "a" / "letters" / entry.text_file).read_text(
            encoding="utf-8"
        ) == letter.text
        assert (entry.outcome == "guaranteed") is bool(advised.robust[row])
    names = {path.name for path in (tmp_path / "a" / "letters").iterdir()}
    assert names == {*manifest["file"], *manifest["text_file"], "manifest.csv"} - {""}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["letters"]
    with pytest.raises(InvalidInputError, match="expected a new or empty folder"):
        hf.letters(advised, tmp_path / "a" / "letters")
    few = hf.letters(
        advised,
        tmp_path / "few",
        rows=refused(advised)[:2],
        keys=[f"k{i}" for i in range(len(advised))],
    )
    assert few["key"].tolist() == [f"k{i}" for i in refused(advised)[:2]]


def test_all_letters_or_none_and_the_row_is_named(tmp_path: Path) -> None:
    people = pd.concat([LOANS.iloc[[0]]] * 3).set_axis(["x", "y", "z"])
    told = people.assign(income=3950.0, late=0, use=12.5)
    told.loc["y", "sex"] = "m"
    advice = recourse_from(
        NETWORK, people, told, target=1, space=loans_space(), changes=hf.PlausibleChanges(0.01)
    )
    with pytest.raises(
        InvalidInputError,
        match=r"^y: expected advice within the constraints, got: sex is immutable",
    ):
        hf.letters(advice, tmp_path / "letters")
    assert list(tmp_path.iterdir()) == []
    assert hf.letters(advice, tmp_path / "letters", rows=[0, 2])["key"].tolist() == ["x", "z"]
    for options, message in (
        ({"keys": ["a", "a", "b"]}, "keys: expected each key once, got 'a' 2 times"),
        ({"keys": ["a", "b"]}, "keys: expected one for each of the 3 rows, got 2"),
        ({"keys": "who"}, "keys: expected one of the columns"),
        ({"keys": ["a", "b", "c\x00"]}, "keys: expected a line of text"),
        *(
            ({"keys": ["a", "b", key]}, "keys: expected")
            for key in (None, np.nan, pd.NA, "\n", "\ud800")
        ),
        ({"names": {"x": "X"}}, "names: expected one for every key, got none for 'y'"),
        ({"rows": []}, "rows: expected at least one row"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            hf.letters(advice, tmp_path / "other", **options)
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(os.name == "nt", reason="needs a umask")
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_a_folder_of_letters_honours_the_umask(
    advised: hf.Recourse, tmp_path: Path, mask: int
) -> None:
    before = os.umask(mask)
    try:
        hf.letters(advised, tmp_path / "letters", date=DAY)
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "letters").iterdir()}
    assert (tmp_path / "letters").stat().st_mode & 0o777 == 0o777 & ~mask
    assert modes == {0o666 & ~mask}


def test_no_key_in_a_manifest_is_a_formula(advised: hf.Recourse, tmp_path: Path) -> None:
    keys = ["=cmd|' /C calc'!A0", *(f"P-{i}" for i in range(1, len(advised)))]
    hf.letters(advised, tmp_path / "letters", date=DAY, keys=keys)
    assert pd.read_csv(tmp_path / "letters" / "manifest.csv")["key"][0] == f"'{keys[0]}"


def test_a_missing_name_is_left_out(tmp_path: Path) -> None:
    people = pd.concat([LOANS.iloc[[0]]] * 2).set_axis(["x", "y"]).assign(who=["Ada", None])
    told = people.assign(income=3950.0, late=0, use=12.5)
    advice = recourse_from(
        NETWORK, people, told, target=1, space=loans_space(), changes=hf.PlausibleChanges(0.01)
    )
    hf.letters(advice, tmp_path / "letters", names="who")
    assert "Dear Ada," in (tmp_path / "letters" / "letter-x.txt").read_text(encoding="utf-8")
    assert "Hello," in (tmp_path / "letters" / "letter-y.txt").read_text(encoding="utf-8")


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1), unique=True, max_size=20
    )
)
def test_file_names_are_safe_and_different(keys: list[str]) -> None:
    stems = file_stems(keys)
    assert len({stem.lower() for stem in stems}) == len(keys)
    assert all(re.fullmatch(r"letter-[A-Za-z0-9_-]{1,75}", stem) for stem in stems)


def test_a_key_made_to_look_like_another_file_name_gets_its_own() -> None:
    taken = file_stems(["a/b"])[0].removeprefix("letter-")
    stems = file_stems(["a/b", taken])
    assert len(set(stems)) == 2
    assert file_stems(["A-17", "007"]) == ["letter-A-17", "letter-007"]


# ---------------------------------------------------------------------- the command


@pytest.fixture
def files(tmp_path: Path) -> Path:
    NETWORK.save(tmp_path / "model.npz")
    space = loans_space(reasons={"late": ("38", "Serious delinquency")})
    (tmp_path / "space.json").write_text(json.dumps(space.to_dict()), encoding="utf-8")
    people = LOANS.assign(who=["Ada", "Ben", "Cy"]).rename_axis("id")
    people.to_csv(tmp_path / "people.csv")
    advice = hf.explain(
        NETWORK,
        LOANS,
        target=1,
        changes=hf.PlausibleChanges(0.01),
        generator=hf.Closest(),
        space=space,
    )
    advice.to_frame().rename_axis("id").to_csv(tmp_path / "recourse.csv")
    return tmp_path


def run(files: Path, *arguments: object) -> Any:
    import typer

    app = typer.Typer()
    app.command(cls=Command)(letters_command.letters)
    paths = [
        "--model",
        files / "model.npz",
        "--data",
        files / "people.csv",
        "--schema",
        files / "space.json",
    ]
    options = [files / "recourse.csv", *paths, "--index", "id", "--target", "1", *arguments]
    return CliRunner().invoke(app, [str(option) for option in options])


def test_the_command_writes_what_the_library_says(files: Path) -> None:
    result = run(
        files, "--delta", 0.01, "--out", files / "letters", "--until", "2027-01-31", "--date", DAY, "--name", "who",
        "--sender", "Bank\\nTown", "--language", "de",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "1 letters: 1 with a guarantee" in result.output
    assert "2 people have the class already" in result.output
    space = hf.FeatureSpace.from_dict(json.loads((files / "space.json").read_text()))
    advice = hf.explain(
        NETWORK,
        LOANS,
        target=1,
        changes=hf.PlausibleChanges(0.01),
        generator=hf.Closest(),
        space=space,
    )
    own = advice.letter(
        0, until="2027-01-31", date=DAY, name="Ada", sender="Bank\nTown", language="de"
    )
    text = (files / "letters" / "letter-A-1.txt").read_text(encoding="utf-8")
    # The file's certificate is of a row with the column of names in it.
    assert text.splitlines()[:-1] == own.text.splitlines()[:-1]
    manifest = pd.read_csv(files / "letters" / "manifest.csv", keep_default_na=False)
    assert manifest["outcome"].tolist() == ["guaranteed", "already_accepted", "already_accepted"]


def test_the_command_turns_a_history_into_retrainings(files: Path) -> None:
    for i in range(9):
        hf.PlausibleChanges(1e-4).sample(NETWORK, 1, seed=i)[0].save(files / f"old{i}.npz")
    history = [part for i in range(9) for part in ("--history", files / f"old{i}.npz")]
    arguments = (
        "--delta",
        0.01,
        "--out",
        files / "letters",
        *history,
        "--confidence",
        0.9,
        "--period",
        "week",
    )
    assert run(files, *arguments).exit_code == 0
    text = (files / "letters" / "letter-A-1.txt").read_text(encoding="utf-8")
    said = " ".join(text.split())
    assert "through the next weekly retraining of the model. This is an estimate" in said
    assert "with a confidence of 90%." in said
    both = run(files, *arguments[:2], "--out", files / "more", *history, "--until", "2027-01-31")
    assert both.exit_code == 2
    assert "exclude each other" in both.output


@pytest.mark.parametrize("moved", [False, True])
def test_the_command_measures_how_far_biases_may_move_only_where_they_move(
    files: Path, moved: bool, monkeypatch
) -> None:
    """A radius without biases says nothing about retrainings that move them."""
    for i in range(9):
        hf.PlausibleChanges(1e-4, biases=moved).sample(NETWORK, 1, seed=i)[0].save(
            files / f"old{i}.npz"
        )
    history = [part for i in range(9) for part in ("--history", files / f"old{i}.npz")]
    asked, expiry = [], hf.promise_expiry
    monkeypatch.setattr(
        hf,
        "promise_expiry",
        lambda radii, *args, **options: asked.append(radii) or expiry(radii, *args, **options),
    )
    result = run(
        files,
        "--delta",
        0.01,
        "--no-biases",
        "--out",
        files / "letters",
        *history,
        "--confidence",
        0.9,
    )
    assert result.exit_code == 0, result.output
    space = hf.FeatureSpace.from_dict(json.loads((files / "space.json").read_text()))
    told = pd.read_csv(files / "recourse.csv", index_col="id").iloc[[0]]
    expected = [
        hf.certified_radius(NETWORK, told, 1, space=space, biases=biases).lower[0]
        for biases in (moved, not moved)
    ]
    assert asked[0][0] == expected[0] != expected[1]


def test_the_command_copies_templates_out_and_says_what_is_wrong(files: Path) -> None:
    result = run(files, "--write-templates", files / "own")
    assert result.exit_code == 0
    assert (files / "own" / "de" / "words.j2").is_file()
    assert run(files, "--write-templates", files / "own").exit_code == 2
    assert run(files, "--out", files / "letters").exit_code == 0
    assert "this is not a promise" in " ".join(
        (files / "letters" / "letter-A-1.txt").read_text().split()
    )
    for arguments, message in (
        (("--out", files / "letters"), "expected a new or empty folder"),
        (("--out", files / "x", "--language", "fr"), "language: expected one of ['de', 'en']"),
        (("--out", files / "x", "--name", "nobody"), "expected a column 'nobody' for --name"),
        (("--out", files / "x", "--until", "soon"), "until: expected a date"),
    ):
        result = run(files, *arguments)
        assert (result.exit_code, message in " ".join(result.output.split())) == (2, True), (
            result.output
        )
    assert not (files / "x").exists()
