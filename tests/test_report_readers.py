"""The report for its two readers: what a case worker and an auditor look for is there, and is what it says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from typer.testing import CliRunner

import holdfast as hf
from browser import browser, visit  # noqa: F401  # fixtures
from holdfast.cli import app
from holdfast.errors import InvalidInputError
from holdfast.presentation.report._gather import gather
from holdfast.presentation.report._words import settings_of
from test_report_browser import PHONE, violations

DATE = "2026-11-16"
CHANGES = hf.PlausibleChanges(0.05)
LABELS = {
    "income": {"en": "net income", "de": "Nettoeinkommen"},
    ("income", "EUR a month"): {"en": "EUR monthly", "de": "EUR im Monat"},
    "late": {"en": "late", "de": "verspätete Zahlungen"},
    "home": {"en": "home", "de": "Wohnung"},
    "savings": {"en": "savings", "de": "Ersparnisse"},
    ("home", "A151"): {"en": "rented", "de": "gemietet"},
    ("home", "A152"): {"en": "owned", "de": "Eigentum"},
    ("home", "A153"): {"en": "rent-free", "de": "mietfrei"},
    ("sex", "f"): "women",
    ("sex", "m"): "men",
}


def people(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "income": 50.0 * rng.integers(16, 100, n),
            "late": rng.integers(0, 7, n),
            "home": rng.choice(["A151", "A152", "A153"], n),
            "sex": rng.choice(["f", "m"], n),
            "savings": np.where(rng.random(n) < 0.3, np.nan, 50.0 * rng.integers(0, 180, n)),
        },
        index=[f"K-{i}" for i in range(n)],
    )


X = people()
SPACE = hf.FeatureSpace.from_frame(
    X, immutable=["sex"], protected=["sex"], missing=["savings"], fillable=["savings"],
    steps={"income": 50, "savings": 50}, units={"income": "EUR a month"}, labels=LABELS,
    reasons={"late": ("38", {"en": "Serious delinquency", "de": "Zahlungsverzug"})},
)  # fmt: skip
Y = (
    X["income"] / 1000 - X["late"] * 0.6 + (X["home"] == "A152") + X["savings"].fillna(1000) / 3000
    > 2
).astype(int)
POINTS = SPACE.encode(X)
MODEL = LogisticRegression(C=10).fit(POINTS, Y)
DENIED = X[MODEL.predict(POINTS) == 0].head(25)


def advise(generator: hf.RNCE | hf.NNCE, space: hf.FeatureSpace = SPACE) -> hf.Recourse:
    return hf.explain(MODEL, DENIED, target=1, changes=CHANGES, generator=generator, space=space)


@pytest.fixture(scope="module")
def advice() -> hf.Recourse:
    return advise(hf.RNCE(X, line_search=True))


@pytest.fixture(scope="module")
def further() -> hf.Recourse:
    return hf.alternatives(
        MODEL, DENIED, target=1, changes=CHANGES, generator=hf.RNCE(X), space=SPACE
    )


@pytest.fixture(scope="module")
def page(
    advice: hf.Recourse, further: hf.Recourse, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A report with everything that there is."""
    folder = tmp_path_factory.mktemp("readers")
    hf.letters(advice, folder / "all letters", date=DATE)
    hf.write_certificates(advice, folder / "certificates.jsonl")
    return advice.report(
        folder / "report.html",
        date=DATE,
        outcome="a loan",
        others={"nearest": advise(hf.NNCE(X))},
        alternatives=further,
        retrained=(LogisticRegression(C=10).fit(POINTS[i::3], Y[i::3]) for i in range(3)),
        certificates=folder / "certificates.jsonl",
        ledger="ab" * 32,
        letters=folder / "all letters",
    )


def test_probabilities_are_the_models_own(advice: hf.Recourse) -> None:
    found = gather(advice, date=DATE).people
    assert [person.probability[1] is not None for person in found] == advice.found.tolist()
    for table, place in ((DENIED, 0), (advice.counterfactuals, 1)):
        rows = np.flatnonzero(advice.found)
        expected = MODEL.predict_proba(SPACE.encode(table.iloc[rows]))[:, 1]
        np.testing.assert_allclose(
            [found[row].probability[place] for row in rows], expected, rtol=1e-9
        )


@pytest.mark.parametrize("calibrated", [False, True])
def test_probabilities_are_not_moved_by_a_threshold(calibrated: bool, tmp_path: Path) -> None:
    model = (
        CalibratedClassifierCV(FrozenEstimator(MODEL), method="sigmoid").fit(POINTS, Y)
        if calibrated
        else MODEL
    )
    refused = X[model.predict_proba(POINTS)[:, 1] < 0.7].head(4)
    told = hf.explain(
        model, refused, target=1, changes=CHANGES, generator=hf.RNCE(X), space=SPACE, threshold=0.7
    )
    hf.write_certificates(told, tmp_path / "certificates.jsonl")
    contents = gather(told, date=DATE, certificates=tmp_path / "certificates.jsonl")
    expected = model.predict_proba(SPACE.encode(refused))[:, 1]
    np.testing.assert_allclose(
        [person.probability[0] for person in contents.people], expected, rtol=1e-9
    )
    assert all(person.probability[1] >= 0.7 for person in contents.people if person.after)
    assert contents.threshold == 0.7
    assert dict(contents.facts)["Decision threshold"] == "A probability of 0.7"
    assert told.found.any()
    assert [bool(person.certificate) for person in contents.people] == told.robust.tolist()


def test_scores_that_are_no_probabilities_are_not_called_so() -> None:
    table = X[["income", "late"]]
    space = hf.FeatureSpace.from_frame(table)
    for model, known in ((LinearSVC(), False), (RandomForestClassifier(5, random_state=0), True)):
        forest = isinstance(model, RandomForestClassifier)
        model.fit(table if forest else space.encode(table), Y)
        refused = table[model.predict(table if forest else space.encode(table)) == 0].head(3)
        told = hf.explain(
            model,
            refused,
            target=1,
            changes=hf.PlausibleShift(0.01),
            generator=hf.RNCE(table),
            space=space,
        )
        chances = [person.probability[0] for person in gather(told, date=DATE).people]
        if known:
            np.testing.assert_allclose(chances, model.predict_proba(refused)[:, 1], atol=1e-9)
        else:
            assert chances == [None] * 3


def test_protected_attributes_are_compared_and_nowhere_else(
    advice: hf.Recourse, page: Path
) -> None:
    contents = gather(advice, date=DATE)
    assert "sex" not in {column.name for column in contents.columns}
    assert [group.name for group in contents.slices[0].groups] == ["women", "men"]
    where = {
        change.where
        for person in contents.people
        for change in (person.counter.changes if person.counter else ())
    }
    assert any("a protected attribute" in text for text in where)
    assert not any("sex" in text or "women" in text for text in where)
    data = re.search(
        r'<script type="application/json".*?</script>', page.read_text(encoding="utf-8"), re.DOTALL
    )
    assert data is not None
    assert not re.search(r"\bsex\b|women", data[0])


def test_advice_that_touches_a_protected_attribute_is_said_so() -> None:
    told = advise(hf.NNCE(X.assign(sex="f")), SPACE.constrained(free=["sex"]))
    contents = gather(told, date=DATE)
    touched = int((told.factuals["sex"] != told.counterfactuals["sex"])[told.found].sum())
    assert touched
    assert any(
        f"{touched} pieces of advice change a protected attribute" in limit
        for limit in contents.limits
    )
    assert "sex" in {column.name for column in contents.columns}


def test_words_and_whole_units_and_missing_values(advice: hf.Recourse) -> None:
    contents = gather(advice, date=DATE)
    columns = {column.name: column for column in contents.columns}
    assert (columns["income"].label, columns["income"].unit) == ("net income", "EUR monthly")
    assert (columns["late"].code, columns["late"].reason) == ("38", "Serious delinquency")
    values = {value for person in contents.people for value in person.before}
    assert {"rented", "not stated"} <= values
    assert "A151" not in values
    assert any(
        text.startswith("state savings: ") for person in contents.people for text in person.advice
    )
    for moves in contents.moves:
        if moves.column.name in ("income", "savings") and moves.median is not None:
            assert {moves.low % 50, moves.median % 50, moves.high % 50} == {0.0}
    gone = next(i for i, person in enumerate(contents.people) if "not stated" in person.before)
    assert np.isnan(DENIED["savings"].iloc[gone])


def test_what_counts_against_people_is_what_main_reasons_says(advice: hf.Recourse) -> None:
    contents, reasons = gather(advice, date=DATE), hf.main_reasons(advice, most=4)
    for person in contents.people:
        mine = reasons.loc[[person.key]]
        assert [contents.columns[one.column].name for one in person.against] == mine[
            "column"
        ].tolist()
        assert [one.margin for one in person.against] == mine["margin"].tolist()


def test_refits_certificates_ledger_and_method_are_stated(
    advice: hf.Recourse, tmp_path: Path
) -> None:
    refits = [LogisticRegression(C=10).fit(POINTS[i::3], Y[i::3]) for i in range(3)]
    table = hf.write_certificates(advice, tmp_path / "certificates")
    with hf.Ledger(tmp_path / "promises.ledger") as ledger:
        contents = gather(
            advice,
            date=DATE,
            retrained=iter(refits),
            certificates=tmp_path / "certificates",
            ledger=ledger,
        )
        head = ledger.head
    kept = np.array([model.predict(advice.points[advice.found]) == 1 for model in refits])
    assert contents.refits is not None
    assert (contents.refits.models, contents.refits.by_all) == (3, int(kept.all(axis=0).sum()))
    assert contents.refits.mean == pytest.approx(hf.metrics.validity_retrained(advice, refits))
    assert contents.refits.worst == pytest.approx(kept.mean(axis=1).min())
    assert [person.kept for person in contents.people if person.after] == kept.sum(axis=0).tolist()
    assert any("Measured, not proven: 3 updated models kept" in text for text in contents.promise)
    assert [person.certificate for person in contents.people] == table["certificate"].fillna(
        ""
    ).tolist()
    facts = dict(contents.facts)
    assert facts["Ledger's head"] == " ".join(head.split())
    assert facts["Certificates"].startswith(f"{advice.found.sum()}; each")
    assert facts["Advice by"] == "RNCE with candidates of 400 rows, line search on"
    assert gather(advice, date=DATE).refits is None


def test_certificates_of_another_delta_or_model_are_not_quoted(
    advice: hf.Recourse, tmp_path: Path
) -> None:
    other = hf.explain(
        MODEL,
        DENIED,
        target=1,
        changes=hf.PlausibleChanges(0.01),
        generator=hf.RNCE(X, line_search=True),
        space=SPACE,
    )
    hf.write_certificates(other, tmp_path / "certificates.jsonl")
    contents = gather(advice, date=DATE, certificates=tmp_path / "certificates.jsonl")
    assert {person.certificate for person in contents.people} == {""}
    with pytest.raises(InvalidInputError, match="certificates: expected a file or a folder"):
        gather(advice, certificates=tmp_path / "nowhere")


def test_settings_of_a_method_inside_another() -> None:
    assert (
        settings_of(hf.Closest(max_features_changed=2))
        == "Closest with neighbours 10, max features changed 2"
    )
    assert settings_of(hf.Robust(hf.MCE())).startswith("Robust with base (MCE")


def test_other_ways_that_are_for_others_are_refused(advice: hf.Recourse, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match="alternatives: expected what `alternatives` returns"
    ):
        gather(advice, alternatives=X)
    found = hf.alternatives(
        MODEL, DENIED, target=1, changes=CHANGES, generator=hf.NNCE(X), space=SPACE
    )
    with pytest.raises(InvalidInputError, match="other or repeated keys"):
        gather(
            advice,
            alternatives=replace(
                found, factuals=found.factuals.set_axis(found.factuals.index + "x")
            ),
        )
    with pytest.raises(InvalidInputError, match="letters: expected a folder that letters wrote"):
        advice.report(tmp_path / "report.html", letters=tmp_path)


@pytest.mark.parametrize("context", [{}, PHONE], ids=["desk", "phone"])
def test_a_person_for_a_case_worker(
    visit,  # noqa: F811
    page: Path,
    advice: hf.Recourse,
    further: hf.Recourse,
    context,
) -> None:
    several = DENIED.index.isin(further.factuals.index[further.answer > 1])
    row = int(np.flatnonzero(DENIED["savings"].isna() & (DENIED["late"] > 3) & several)[0])
    shown = visit(page, f"#person={row}", **context)
    text = shown.locator("#person").inner_text()
    for words in (
        "Decision today: no. The model gives a probability of",
        "a yes takes 50%",
        "Why",
        "What to do",
        "Other proven ways",
        "not stated",
        "Leaving ",
        "For auditors",
    ):
        assert words in text
    for words in ("Certified radius", "updated models", "can be broken"):
        assert words not in text
    shown.locator("#person summary").click()
    text = shown.locator("#person").inner_text()
    for words in ("Certified radius", "code 38", "of 3 updated models"):
        assert words in text
    assert str(hf.certificate(advice, row)["id"]) in text
    assert "A15" not in text
    assert violations(shown) == []
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    link = shown.locator("#person a", has_text="The letter to this person").get_attribute("href")
    assert link == f"all%20letters/letter-{DENIED.index[row]}.html"
    assert (page.parent / "all letters" / f"letter-{DENIED.index[row]}.html").is_file()


@pytest.mark.parametrize("context", [{}, PHONE], ids=["desk", "phone"])
def test_the_page_for_an_auditor(visit, page: Path, context) -> None:  # noqa: F811
    shown = visit(page, **context)
    hidden = ("ab" * 32, "RNCE with candidates of 400 rows", "The mean change over")
    text = shown.locator("body").inner_text()
    assert "updated models kept" in text
    assert not any(words in text for words in hidden)
    shown.evaluate("location.hash = 'auditors'")
    shown.locator("#auditors dl").wait_for()
    text = shown.locator("body").inner_text()
    assert all(words in text for words in hidden)
    assert violations(shown) == []
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.filterwarnings("ignore:language '.*no words for the columns")
def test_the_shell_from_files_alone(advice: hf.Recourse, tmp_path: Path) -> None:
    hf.load_network(MODEL).save(tmp_path / "model.npz")
    hf.Network([np.array(MODEL.coef_) + 0.01], [MODEL.intercept_], classes=[0, 1]).save(
        tmp_path / "refit.npz"
    )
    (tmp_path / "space.json").write_text(json.dumps(SPACE.to_dict()))
    X.rename_axis("id").to_csv(tmp_path / "people.csv")
    advice.to_frame().rename_axis("id").to_csv(tmp_path / "advice.csv")
    hf.write_certificates(advice, tmp_path / "certificates.jsonl")
    with hf.Ledger(tmp_path / "promises.ledger") as ledger:
        ledger.add(
            hf.explain(
                MODEL, DENIED.dropna().head(2), target=1, generator=hf.NNCE(X.dropna()), space=SPACE
            )
        )
        head = ledger.head

    def run(command: str, *more: str) -> None:
        files = {
            "model": "model.npz",
            "data": "people.csv",
            "schema": "space.json",
        }
        options = [
            text for name, file in files.items() for text in (f"--{name}", str(tmp_path / file))
        ]
        told = [
            command,
            str(tmp_path / "advice.csv"),
            *options,
            "--index",
            "id",
            "--target",
            "1",
            "--delta",
            "0.05",
        ]
        done = CliRunner().invoke(app, [*told, "--date", DATE, *more])
        assert done.exit_code == 0, done.output

    run(
        "letters",
        "--out",
        str(tmp_path / "letters"),
        "--language",
        "de",
        "--subject",
        "Ihren Kreditantrag",
    )
    given = {
        "retrained": "refit.npz",
        "certificates": "certificates.jsonl",
        "ledger": "promises.ledger",
    }
    files = [text for name, file in given.items() for text in (f"--{name}", str(tmp_path / file))]
    run(
        "report",
        "--out",
        str(tmp_path / "report.html"),
        "--letters",
        str(tmp_path / "letters"),
        *files,
    )
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    link = f"letters/letter-{DENIED.index[0]}.html"
    for words in (
        " ".join(head.split()),
        "1 updated model kept",
        link,
        "not stated",
    ):
        assert words in page
    manifest = pd.read_csv(tmp_path / "letters" / "manifest.csv", dtype=str, keep_default_na=False)
    assert manifest["outcome"].tolist() == [
        "guaranteed" if found else "no_answer" for found in advice.found
    ]
    assert (manifest["reasons"] == "38").any()
    for file in manifest["text_file"]:
        letter = (tmp_path / "letters" / file).read_text(encoding="utf-8")
        assert "Die wichtigsten Gründe" in letter
        assert "1. " in letter
        assert "Ihren Kreditantrag" in letter
