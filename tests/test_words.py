"""What people read, for every kind of change and any model: a chance is no proof, and a margin is no delta."""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import holdfast as hf
from holdfast.changes import Chance, Changes
from holdfast.changes._kind import one_in
from holdfast.cli import app
from holdfast.errors import InvalidInputError
from holdfast.generators._stated import recourse_from
from holdfast.presentation.report._gather import gather
from holdfast.presentation.report._page import render
from holdfast.verify._margins import least_margins

# Most letters here are about columns without words in German.
pytestmark = pytest.mark.filterwarnings("ignore:language '.*no words for the columns")

DAY = "2026-11-16"
CHANCES = {
    "none": None,
    "expected": Chance(0.1, 20, people=30, loss=0.0601),
    "probable": Chance(0.125, 30, 0.9, "new seeds", people=12, loss=0.02, worse=2),
    "odd": Chance(0.07, 40, people=1200, loss=0.0),
}
PEOPLE = pd.DataFrame(
    {"debt": [9000.0, 8000.0, 7500.0], "savings": [0.0, 500.0, 900.0]}, index=["A", "B", "C"]
)
# Margins of 7 / 9, 1 / 9 and none: one that holds, one that breaks, and someone without an answer.
TOLD = pd.DataFrame(
    {"debt": [2000.0, 4500.0, None], "savings": [4500.0, 2750.0, None]}, index=PEOPLE.index
)
SPACE = hf.FeatureSpace.from_frame(pd.DataFrame({"debt": [0.0, 9000.0], "savings": [0.0, 5000.0]}))
NETWORK = hf.Network([[[-1.0, 1.0]]], [[0.1]])
KINDS: dict[str, Changes] = {
    "parameters": hf.PlausibleChanges(0.1),
    "ellipsoid": hf.Ellipsoid(np.eye(3), 0.2),
    "shift": hf.PlausibleShift(0.25),
    "ensemble": hf.EnsembleShift([NETWORK, hf.Network([[[-1.0, 1.0]]], [[0.2]])], 0.25),
}
SHIFTS = ("shift", "ensemble")
# What only a proof may say, and what a chance must not say at all.
PROOF = {
    "en": re.compile("We have proven|mathemat|What we promise|every later version|sure to last"),
    "de": re.compile("bewiesen|mathemat|Was wir versprechen|jede spätere Fassung|sicher übersteht"),
}
CERTAIN = {
    "en": re.compile("prov[ei]|proof|promise|guarant|certain|every|always|will say yes", re.I),
    "de": re.compile(
        "beweis|bewies|versprech|garant|sicher|jede spätere|immer|sagt unser Modell Ja", re.I
    ),
}
MEASURED = {
    ("en", "expected"): "We tried such advice for 30 people on 20 retrained models. On average, these models said no "
    "to at most 7 in 100 of these people. A model that is made in another way may decide otherwise.",
    ("en", "probable"): "at most 2 in 100 of these people. A model that is made",
    ("en", "odd"): "for 1,200 people on 40 retrained models. On average, these models said no to at most 1 in 100",
    ("de", "expected"): "für 30 Menschen mit 20 neu trainierten Modellen geprüft. Im Mittel sagten diese Modelle zu "
    "höchstens 7 von 100 dieser Menschen Nein.",
    ("de", "probable"): "höchstens 2 von 100 dieser Menschen Nein. Ein Modell",
    ("de", "odd"): "Im Mittel sagten diese Modelle zu höchstens 1 von 100",
}  # fmt: skip


def scores(table: pd.DataFrame) -> Any:
    """The same model as the network, as a function of the caller's table; nobody else knows what is in it."""
    return (table["savings"] / 5000.0 - table["debt"] / 9000.0 + 0.1).to_numpy()


def advice(changes: Changes | None, model: Any = NETWORK) -> hf.Recourse:
    told = recourse_from(
        model, PEOPLE, TOLD, target=1, space=SPACE, changes=changes and changes.bare,
        reasons=["", "", "proven: no point within the constraints is accepted by every model in Δ"],
    )  # fmt: skip
    if changes is not None:
        assert told.verdict.tolist() == [hf.Verdict.ROBUST, hf.Verdict.NOT_ROBUST, None]
        # As `explain` states it, where the chance was measured for this question.
        told = replace(told, changes=changes, measured=told.found if changes.chance else None)
    return told


# What is known by its scores alone has no parameters to move.
every_kind = pytest.mark.parametrize(
    ("kind", "model"),
    [pytest.param(kind, NETWORK, id=kind) for kind in KINDS]
    + [
        pytest.param(kind, hf.scored(scores, output="margin"), id=f"{kind}, scored")
        for kind in SHIFTS
    ],
)


def told_under(kind: str, chance: str, model: Any) -> hf.Recourse:
    return advice(KINDS[kind].calibrated(CHANCES[chance]), model)


@pytest.fixture(autouse=True)
def closed_pictures() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


# ---------------------------------------------------------------------- letters


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("chance", CHANCES)
@every_kind
def test_a_letter_never_words_a_chance_as_a_proof(
    kind: str, chance: str, language: str, model: Any
) -> None:
    told = told_under(kind, chance, model)
    letters = [
        told.letter(row, language=language, date=DAY, until="2031-05-07", certified=False)
        for row in range(3)
    ]
    outcomes = [letter.contents.outcome for letter in letters]
    best = (
        "guaranteed" if kind not in SHIFTS else "not_guaranteed" if chance == "none" else "chance"
    )
    assert outcomes == [best, "not_guaranteed", "no_answer"]
    for letter, outcome in zip(letters, outcomes, strict=True):
        for text in (letter.text, re.sub("<style>.*</style>", "", letter.html, flags=re.S)):
            flat = " ".join(text.split())
            if kind in SHIFTS:
                assert not PROOF[language].search(flat)
            if outcome == "chance":
                assert not CERTAIN[language].search(flat)
            assert ("2031" in flat) is letter.guaranteed is (outcome == "guaranteed")
            measured = outcome in ("guaranteed", "chance") and chance != "none"
            assert (MEASURED.get((language, chance), "retrained models") in flat) is measured
            assert bool(re.search("these models|diese Modelle", flat)) is measured


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_proof_and_a_chance_stand_side_by_side(language: str) -> None:
    proven, both = (
        " ".join(
            advice(KINDS["parameters"].calibrated(one))
            .letter(0, language=language, certified=False)
            .text.split()
        )
        for one in (None, CHANCES["expected"])
    )
    only = {"en": "we only have a measurement", "de": "haben wir nur eine Messung"}[language]
    assert PROOF[language].search(proven)
    assert PROOF[language].search(both)
    assert only not in proven
    assert both.index(only) > PROOF[language].search(both).start()  # type: ignore[union-attr]


@pytest.mark.parametrize("language", ["en", "de"])
def test_what_is_undecided_is_not_said_to_be_unclear(language: str) -> None:
    told = advice(KINDS["shift"])
    unknown = replace(told, verdict=np.array([hf.Verdict.UNKNOWN, None, None], dtype=object))
    text = " ".join(unknown.letter(0, language=language).text.split())
    assert {"en": "We could not find out", "de": "Wir konnten nicht klären"}[language] in text
    assert {"en": "clear as we ask", "de": "so deutlich"}[language] not in text


def test_the_limits_of_a_letter_name_their_unit() -> None:
    limits = {
        kind: advice(changes).letter(0, certified=False).contents.limits
        for kind, changes in KINDS.items()
    }
    assert {
        kind: (limit.unit, limit.radius, limit.norm) for kind, limit in limits.items() if limit
    } == {
        "parameters": ("delta", "0.1", "inf"),
        "ellipsoid": ("radius", "0.2", ""),
        "shift": ("margin", "0.25", ""),
        "ensemble": ("margin", "0.25", ""),
    }
    assert "shape of an ellipsoid" in " ".join(
        advice(KINDS["ellipsoid"]).letter(0, certified=False).text.split()
    )


# ---------------------------------------------------------------------- the report


@pytest.mark.parametrize("chance", ["none", "expected"])
@every_kind
def test_the_report_says_what_is_proven_and_what_was_measured(
    kind: str, chance: str, model: Any
) -> None:
    told = told_under(kind, chance, model)
    contents = gather(told, date=DAY, others={"uncertified": advice(None, model)})
    changes = told.changes
    assert changes is not None
    assert contents.promise[1].endswith(f"proven for {contents.models}.")
    # Proof and chance are sentences of their own, and auditors read every condition.
    measured = [sentence for sentence in contents.promise if "not proven" in sentence]
    assert len(measured) == (chance != "none")
    assert not any("proven for" in sentence for sentence in measured)
    assert ("Measured, not proven" in dict(contents.facts)) is (chance != "none")
    if changes.chance is not None:
        assert f"at most {one_in(changes.chance.broken)} of such promises" in measured[0]
        assert str(changes.chance) in dict(contents.facts)["Measured, not proven"]
    assert any("was not measured" in sentence for sentence in contents.promise) is (
        kind in SHIFTS and not measured
    )
    assert (contents.unit, contents.delta) == (changes.unit, changes.size)
    assert [method.robust for method in contents.methods] == [1, 1]
    page = render(contents)
    assert ("δ" in page) is (kind == "parameters")
    assert (
        f"{'δ' if kind == 'parameters' else contents.symbol.capitalize()} of Δ: {changes.size:g}."
        in page
    )
    assert ("Model's SHA-256" in dict(contents.facts)) is (model is NETWORK)


@every_kind
def test_counter_models_are_told_in_the_unit_of_the_changes(kind: str, model: Any) -> None:
    told = told_under(kind, "none", model)
    radii = told.certified_radius(np.array([0, 1]))
    people = gather(told, date=DAY).people
    assert people[2].counter is None
    today = least_margins(told.classifier, 1, told.points[:2])
    for row, size in enumerate((radii.upper[0], radii.upper[1])):
        counter = people[row].counter
        assert counter is not None
        assert counter.distance == pytest.approx(size, rel=1e-5)
        assert counter.inside is (told.verdict[row] is hf.Verdict.NOT_ROBUST)
        assert counter.margin_counter < 0.0 < counter.margin_today
        assert counter.margin_today == pytest.approx(today[row])
        assert bool(counter.changes) is (kind not in SHIFTS)
        assert people[row].radius == pytest.approx(radii.lower[row], abs=1e-5)


def test_a_model_without_parameters_has_no_radius_without_changes() -> None:
    contents = gather(advice(None, hf.scored(scores, output="margin")), date=DAY)
    assert contents.delta is None
    assert any("known by its scores alone" in limit for limit in contents.technical)
    assert "Nothing was certified" in render(contents)


def test_a_delta_is_not_marked_among_margins() -> None:
    with pytest.raises(
        InvalidInputError,
        match=r"leaf radii with TreeChanges, got one with PlausibleShift",
    ):
        gather(advice(KINDS["shift"]), calibrated=0.01)


# ---------------------------------------------------------------------- pictures


@every_kind
def test_pictures_name_the_unit(kind: str, model: Any) -> None:
    pytest.importorskip("matplotlib")
    told = told_under(kind, "none", model)
    changes, certificates = told.changes, told.certificates
    assert changes is not None
    assert certificates is not None
    may = "the margin may fall" if kind in SHIFTS else "the parameters may move"
    survival = told.plot("survival")
    assert survival.get_xlabel() == f"{changes.unit}: how far {may}"
    assert may in survival.get_title(loc="left")
    assert may in told.plot("cost").get_xlabel()
    radius = told.certified_radius(np.array([0, 1]))
    assert radius.plot(delta=changes).get_xlabel() == survival.get_xlabel()
    ax = certificates.plot()
    assert (
        " ".join(ax.get_title(loc="left").split())
        == f"1 of 2 points are proven for {changes.every_model}"
    )
    assert ax.get_ylabel().startswith("probability" if model is NETWORK else "score")


def test_sizes_of_another_kind_are_not_drawn_together() -> None:
    pytest.importorskip("matplotlib")
    shift = advice(KINDS["shift"])
    radius = shift.certified_radius(np.array([0, 1]))
    with pytest.raises(InvalidInputError, match="delta: expected a margin, as the radii are"):
        radius.plot(delta=hf.PlausibleChanges(0.1))
    with pytest.raises(
        InvalidInputError, match="radius: expected a delta for each piece of advice, got a margin"
    ):
        advice(KINDS["parameters"]).plot("cost", radius=radius)

    class Moved:
        def distances(self) -> list[float]:
            return [0.1]

    with pytest.raises(InvalidInputError, match="moved: expected numbers with a margin"):
        radius.plot(moved=Moved())


# ---------------------------------------------------------------------- commands


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(80, 2)), columns=["a", "b"]).rename_axis("id")
    label = (table["b"] > table["a"]).astype(int)
    hf.load_network(LogisticRegression(C=100.0).fit(table.to_numpy(), label)).save(
        tmp_path / "model.npz"
    )
    tree = DecisionTreeClassifier(max_depth=3, min_samples_leaf=5, random_state=0).fit(table, label)
    (tmp_path / "tree.pkl").write_bytes(pickle.dumps(tree))
    table.to_csv(tmp_path / "all.csv")
    table[(label == 0) & (tree.predict(table) == 0)].head(5).to_csv(tmp_path / "people.csv")
    return tmp_path


def run(folder: Path, command: str, model: str = "model.npz") -> Any:
    words = [
        str(folder / word) if word.endswith(("csv", "html", "letters")) else word
        for word in command.split()[1:]
    ]
    given = ["--model", str(folder / model), "--index", "id", "--target", "1", "--trust-pickle"]
    return CliRunner().invoke(app, [command.split()[0], *words, *given])


@pytest.mark.parametrize("model", ["model.npz", "tree.pkl"])
def test_commands_take_a_margin(files: Path, model: str) -> None:
    sentence = "model whose margin at the promised point is at most 0.5 below"
    explained = run(
        files,
        "explain --data people.csv --candidates all.csv --method rnce --margin 0.5 --out advice.csv",
        model,
    )
    assert explained.exit_code == 0, explained.output
    assert sentence in " ".join(explained.output.split())
    certified = run(files, "certify --data all.csv --margin 0.5", model)
    assert certified.exit_code == 0, certified.output
    assert sentence in " ".join(certified.output.split())
    radius = run(files, "radius --data all.csv --margin 0.5", model)
    assert "How far the margin may fall before each row loses class 1" in radius.output
    assert "of 80 rows allow 0.5" in radius.output
    reported = run(files, "report advice.csv --data people.csv --margin 0.5 --out page.html", model)
    assert reported.exit_code == 0, reported.output
    assert "at most 0.5 below today" in (files / "page.html").read_text()
    written = run(files, "letters advice.csv --data people.csv --margin 0.5 --out letters", model)
    assert written.exit_code == 0, written.output
    assert " 0 with a guarantee" in written.output


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("certify --data all.csv", "this command needs --delta, --margin or --changes"),
        (
            "certify --data all.csv --margin 1 --delta 0.1",
            "--delta and --margin exclude each other",
        ),
        (
            "explain --data people.csv --margin 1 --no-biases",
            "--no-biases and --margin exclude each other",
        ),
        ("radius --data all.csv --margin 1 --norm 2", "--norm and --margin exclude each other"),
        ("certify --data all.csv --margin -1", "margin: expected a number >= 0"),
    ],
)
def test_a_margin_stands_in_place_of_delta(files: Path, command: str, message: str) -> None:
    result = run(files, command)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("certify --data all.csv --delta 0.1", "--delta is for networks; this is an ensemble of trees: use --margin M"),
        ("radius --data all.csv", "(`holdfast risk` finds one) or --changes FILE"),
        ("explain --data people.csv --candidates all.csv --delta 0.1", "--delta is for networks;"),
        ("explain --data people.csv --margin 0.1 --method roar", "use closest, mce, rnce, nnce or stce"),
    ],
)  # fmt: skip
def test_a_network_is_asked_for_where_one_is_needed(
    files: Path, command: str, message: str
) -> None:
    result = run(files, command, "tree.pkl")
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    assert message in said
    assert not re.search(r"Plausible|Shift|RNCE|Changes", said)
