"""Notes on columns: which are protected, what people call them, reason codes; and that they change no hash."""

from __future__ import annotations

import json
import pickle
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import MinMaxScaler

import holdfast as hf
from holdfast import checker
from holdfast.datasets._catalogue import Facts
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features._notes import ReasonCode
from holdfast.promises._audit_compare import same_encoding
from holdfast.promises._certificate import plain_model

PEOPLE = pd.DataFrame({"age": [25.0, 40.0, 61.0], "late": [3.0, 0.0, 1.0], "use": [0.5, 0.1, 0.9]})
NOTES: dict[str, Any] = {
    "protected": ["sex", "age"],
    "labels": {"late": "number of missed payments", "sex": "sex as registered"},
    "reasons": {
        "late": {"code": "38", "text": "Serious delinquency"},
        "use": ("10", "Cards used too much"),
    },
}
# Of FeatureSpace.from_frame(PEOPLE), as it was before there were notes: what is in old certificates and ledgers.
OLD_HASH = "917af77ca828cb8152acca4497237cafd5a06f5deabdfd2c4585bb40a0317c7b"


def check_notes(space: FeatureSpace) -> None:
    assert space.protected == ("sex", "age")
    assert [space.label(name) for name in ("late", "sex", "use")] == [
        "number of missed payments",
        "sex as registered",
        "use",
    ]
    assert space.reason("late") == ReasonCode("38", "Serious delinquency")
    assert space.reason("use") == ReasonCode("10", "Cards used too much")
    assert space.reason("age") is None


def test_every_constructor_and_copy_carries_notes() -> None:
    noted = FeatureSpace.from_frame(PEOPLE, **NOTES)
    for space in (
        noted,
        FeatureSpace.from_pipeline(MinMaxScaler().fit(PEOPLE), PEOPLE, **NOTES),
        FeatureSpace.from_frame(PEOPLE).constrained(**NOTES),
        noted.constrained(immutable=["age"], rules=["late <= age"]),
        FeatureSpace.from_dict(json.loads(json.dumps(noted.to_dict()))),
        pickle.loads(pickle.dumps(noted)),
    ):
        check_notes(space)
    assert FeatureSpace.from_dict(noted.to_dict()) == noted == pickle.loads(pickle.dumps(noted))
    assert hash(FeatureSpace.from_dict(noted.to_dict())) == hash(noted)


def test_what_is_not_named_again_stays_and_what_is_named_changes() -> None:
    space = FeatureSpace.from_frame(PEOPLE, **NOTES)
    again = space.constrained(
        protected="use", labels={"late": "payments missed"}, reasons={"age": ReasonCode("1", "Age")}
    )
    assert again.protected == ("sex", "age", "use")
    assert (again.label("late"), again.label("sex")) == ("payments missed", "sex as registered")
    assert again.reason("age") == ReasonCode("1", "Age")
    assert again.reason("late") == space.reason("late")


def test_a_column_named_by_a_number_keeps_its_notes_in_json() -> None:
    space = FeatureSpace.from_frame(
        pd.DataFrame({0: [1.0, 2.0], 1: [3.0, 4.0]}), protected=0, labels={1: "income"}
    )
    again = FeatureSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again.protected == (0,)
    assert (again.label(0), again.label(1)) == ("0", "income")


def test_advice_uses_labels() -> None:
    space = FeatureSpace.from_frame(PEOPLE, **NOTES)
    after = PEOPLE.iloc[0].to_dict() | {"late": 1.0}
    assert space.describe_change(PEOPLE.iloc[0], after) == [
        "lower number of missed payments from 3 to 1"
    ]


def test_a_space_without_notes_is_what_it_was() -> None:
    # An undecided column is a note; here every column is decided.
    space = FeatureSpace.from_frame(PEOPLE, free=list(PEOPLE))
    assert set(space.to_dict()) == {"format", "version", "features", "rules"}
    assert checker.sha256(space.to_dict()) == checker.space_sha256(space.to_dict()) == OLD_HASH


def test_notes_do_not_enter_the_hash_of_certificates_and_ledgers(tmp_path: Path) -> None:
    plain = FeatureSpace.from_frame(PEOPLE)
    noted = plain.constrained(**NOTES)
    assert noted != plain
    assert same_encoding(noted, plain)
    assert noted.to_dict(notes=False) == plain.to_dict(notes=False)
    assert checker.space_sha256(noted.to_dict()) == OLD_HASH
    network = hf.Network([np.array([[1.0, -1.0, -1.0]])], [np.array([0.5])])
    changes = hf.PlausibleChanges(0.01)
    certs = hf.certify(network, plain.encode(PEOPLE), target=1, changes=changes)
    row = int(np.flatnonzero(certs.robust)[0])
    before = hf.certificate(certs, row, space=plain)
    after = hf.certificate(certs, row, space=noted)
    assert before["hashes"] == after["hashes"]
    for space in (plain, noted):
        assert hf.check_certificate(before, network, space=space).accepted
    moved = noted.constrained(ranges={"late": (0, 2)})
    assert not hf.check_certificate(before, network, space=moved).accepted
    assert checker.check(before, plain_model(network), space=noted.to_dict()).accepted
    advice = PEOPLE.iloc[[row]]
    with hf.Ledger(tmp_path / "promises.ledger") as ledger:
        for key, space in (("a", plain), ("b", noted)):
            ledger.add_frame(
                network, advice.set_index(pd.Index([key])), advice.set_index(pd.Index([key])),
                target=1, changes=changes, space=space, date="2026-11-16",
            )  # fmt: skip
        assert len(ledger.terms) == 1
        assert ledger.verify().intact
        result = hf.audit(ledger, network, space=noted.constrained(labels={"use": "card use"}))
        assert [group.how for group in result.groups] == ["parameters"]
        assert not result.broken.any()


SCHEMA: dict[str, Any] = {
    "name": "loans",
    "target": {"column": "paid", "desirable": 1},
    "columns": [
        {
            "name": "late", "role": "feature", "kind": "integer", "min": 0, "max": 9, "actionability": "decrease_only",
            "label": "number of missed payments", "reason": {"code": 38, "text": "Serious delinquency"},
        },
        {"name": "sex", "role": "auxiliary", "kind": "binary", "protected": True, "label": "sex as registered"},
        {"name": "paid", "role": "target", "kind": "binary", "min": 0, "max": 1, "label": "paid back"},
    ],
}  # fmt: skip


def test_a_schema_file_says_it_column_by_column(tmp_path: Path) -> None:
    path = tmp_path / "loans.schema.json"
    path.write_text(json.dumps(SCHEMA), encoding="utf-8")
    space = FeatureSpace.from_schema(path, protected=["late"], labels={"sex": "gender"})
    assert space.protected == ("sex", "late")
    assert (space.label("late"), space.label("sex"), space.label("paid")) == (
        "number of missed payments",
        "gender",
        "paid back",
    )
    assert space.reason("late") == ReasonCode("38", "Serious delinquency")
    assert FeatureSpace.from_dict(space.to_dict()) == space


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"protected": "yes"}, "expected true or false for 'protected', got 'yes'"),
        ({"label": ""}, "expected one line of text"),
        ({"label": "two\nlines"}, "expected one line of text"),
        ({"reason": "late"}, "expected a code and a text"),
        ({"reason": {"code": "38"}}, "expected a code and a text"),
        ({"label": "sex as registered"}, "a label of its own"),
    ],
)
def test_a_schema_with_bad_notes_is_refused(
    tmp_path: Path, entry: dict[str, Any], message: str
) -> None:
    columns = [SCHEMA["columns"][0] | entry, *SCHEMA["columns"][1:]]
    path = tmp_path / "loans.schema.json"
    path.write_text(json.dumps(SCHEMA | {"columns": columns}), encoding="utf-8")
    with pytest.raises(FileFormatError, match=message):
        FeatureSpace.from_schema(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"labels": {"lat": "missed payments"}},
            "labels: expected columns of the table, got 'lat'",
        ),
        ({"reasons": {"lat": ("1", "x")}}, "reasons: expected columns of the table, got 'lat'"),
        (
            {"labels": {"late": "use"}},
            "labels: 'use' is the label of two; give each column a label of its own",
        ),
        ({"labels": ["late"]}, "labels: expected a mapping"),
        (
            {"reasons": {"late": ("1", 2)}},
            r"reasons\['late'\], text: expected one line of text, got 2",
        ),
        ({"protected": [1.5]}, "protected: expected column names, got 1.5"),
        ({"protected": 1.5}, "protected: expected column names, got 1.5"),
    ],
)
def test_bad_notes_are_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        FeatureSpace.from_frame(PEOPLE, **arguments)
    with pytest.raises(InvalidInputError, match=message):
        FeatureSpace.from_frame(PEOPLE).constrained(**arguments)


def test_a_space_file_with_bad_notes_is_refused() -> None:
    document = FeatureSpace.from_frame(PEOPLE).to_dict()
    for notes in ([{"protected": True}], [{"name": "late", "label": 3}], "late", 5):
        with pytest.raises(FileFormatError):
            FeatureSpace.from_dict(document | {"notes": notes})


def test_a_schema_of_ones_own_passes_its_notes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = hf.datasets.load("loans").space
    assert FeatureSpace.from_dict(packaged.to_dict()) == packaged
    facts = Facts.of("heloc")
    packaged_facts = resources.files("holdfast.datasets") / "facts" / "heloc.json"
    document = json.loads(packaged_facts.read_text(encoding="utf-8"))
    document["columns"][0]["label"] = "credit score"
    (tmp_path / "heloc.schema.json").write_text(json.dumps(document), encoding="utf-8")
    table = pd.DataFrame(
        [{c["name"]: c.get("median", c.get("min", 0)) for c in document["columns"]}] * facts.rows
    )
    table.to_csv(tmp_path / "heloc.csv", index=False)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    space = hf.datasets.load("heloc", download=False).space
    assert space.label(document["columns"][0]["name"]) == "credit score"


def test_two_columns_may_swap_their_names() -> None:
    space = FeatureSpace.from_frame(PEOPLE, labels={"late": "use", "use": "late"})
    assert (space.label("late"), space.label("use")) == ("use", "late")


WORDS: dict[Any, Any] = {
    "home": {"en": "housing", "de": "Wohnen"},
    ("home", "A151"): {"en": "rented", "de": "gemietet"},
    ("rooms", 2): "two",
    ("rent", "EUR"): {"de": "Euro", "fr": "euros"},
}
HOMES = pd.DataFrame({"home": ["A151", "A152"], "rooms": [1, 2], "rent": [500.0, 900.0]})


def homes(labels: dict[Any, Any]) -> FeatureSpace:
    return FeatureSpace.from_frame(
        HOMES, categorical=["home", "rooms"], units={"rent": "EUR"}, labels=labels
    )


def test_words_for_values_and_units_in_each_language() -> None:
    space = homes(WORDS)
    again = FeatureSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    for notes in (space.notes, again.notes):
        assert [notes.label("home", code) for code in ("en", "de", "de-AT", "fr")] == [
            "housing",
            "Wohnen",
            "Wohnen",
            "housing",
        ]
        assert (notes.word("home", "A151", "de"), notes.word("home", "A152", "de")) == (
            "gemietet",
            "A152",
        )
        assert (notes.word("rooms", 2), notes.word("rooms", 1)) == ("two", "1")
        assert [notes.word("rent", "EUR", code) for code in ("de", "fr", "en")] == [
            "Euro",
            "euros",
            "Euro",
        ]
    moved = {"home": "A152", "rooms": 2, "rent": 900.0}
    assert space.describe_change(HOMES.iloc[0], moved) == [
        "change housing from rented to A152", "change rooms from 1 to two", "raise rent from 500 to 900 Euro",
    ]  # fmt: skip
    assert space.to_dict(notes=False) == homes({}).to_dict(notes=False)


def test_a_schema_says_words_for_values(tmp_path: Path) -> None:
    columns = [
        {
            "name": "home", "role": "feature", "kind": "categorical", "actionability": "mutable",
            "categories": [{"value": "A151"}, {"value": "A152"}], "words": {"A151": {"en": "rented", "de": "gemietet"}},
        },
        {"name": "paid", "role": "target", "kind": "binary", "min": 0, "max": 1},
    ]  # fmt: skip
    path = tmp_path / "loans.schema.json"
    path.write_text(json.dumps({"name": "loans", "target": {"column": "paid"}, "columns": columns}))
    assert FeatureSpace.from_schema(path).notes.word("home", "A151", "de") == "gemietet"


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        ({("home", "A999"): "castle"}, "expected a value of the column or its unit"),
        ({("home", "A151"): "A152"}, "give each value of 'home' a label of its own"),
        (
            {
                ("home", "A151"): {"en": "rented", "de": "x"},
                ("home", "A152"): {"en": "owned", "de": "x"},
            },
            "'x' is the label of two",
        ),
        ({"home": {"de": "Miete"}, "rent": {"de": "Miete"}}, "'Miete' is the label of two"),
        ({"home": {"de": "rent"}}, "'rent' is the label of two"),
        ({("home",): "rented"}, "expected a column, or a column and a value of it"),
        ({"home": {}}, "expected a text for each language"),
        ({"home": {"en": 3}}, "expected one line of text"),
        ({("castle", "A151"): "rented"}, "castle"),
    ],
)  # fmt: skip
def test_words_that_nobody_could_tell_apart_are_refused(
    labels: dict[Any, Any], complaint: str
) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        homes(labels)
