"""Directions that names suggest, and the one warning about columns without a stated direction."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast import datasets
from holdfast.datasets import make_loans
from holdfast.errors import HoldfastWarning, UndecidedColumnWarning
from holdfast.features import Schema
from holdfast.features._proposals import direction_of, words_of
from holdfast.features._schema import schema_document

IMMUTABLE = """
    age Age AGE applicant_age ageYears date_of_birth dob sex gender race ethnicity native-country nationality
    foreign_worker marital-status relationship personal_status_sex DAYS_BIRTH
    missed_payments NumberOfTime30-59DaysPastDueNotWorse NumberOfTimes90DaysLate late_debt_payments delinq_2yrs
    priors_count two_year_recid juv_fel_count c_charge_degree length_of_stay NumInqLast6M MSinceMostRecentDelq
    NumTrades60Ever2DerogPubRec cb_person_default_on_file bankruptcies credit_history
    months_of_history MSinceOldestTradeOpen AverageMInFile tenure
    dependants NumberOfDependents CNT_CHILDREN household_size housing present_residence zipCode
    employment employment_duration occupation workclass job
"""
DECREASING = """
    debt total_debt DebtRatio debt_to_income dti card_utilisation revol_util
    RevolvingUtilizationOfUnsecuredLines NetFractionRevolvingBurden loan_amount card_balance arrears
    NumBank2NatlTradesWHighUtilization credit_card_debt outstanding_amount loan_balance_remaining
"""
INCREASING = "income MonthlyIncome household_income salary annual.wage savings education-num \
    net_monthly_income_in_eur income_2 total_savings_amount savings_account"
NOTHING = """
    mortgage usage percentage voltage stage page averages wager average_rate prioritised hours-per-week capital-gain
    purpose telephone NumTotalTrades balance x0 x1 V12 feature_3 plate related
    debt_service_coverage_ratio debt_free_months debt_repaid income_to_debt_ratio utilization_headroom
    debt_relief overdraft_limit amount_owed_to_applicant savings_to_debt debt_income
    income_volatility income_loss income_tax expense_to_income wage_garnishments income_per_head
    savings_goal_gap incomeDecrease salary_arrears savings_rate
"""


@pytest.mark.parametrize(
    ("names", "direction"),
    [
        (IMMUTABLE, "immutable"),
        (DECREASING, "decreasing"),
        (INCREASING, "increasing"),
        (NOTHING, None),
    ],
)
def test_directions_of_names(names, direction):
    assert {name: direction_of(name) for name in names.split()} == dict.fromkeys(
        names.split(), direction
    )


def test_names_are_compared_by_whole_words():
    assert words_of("HTTPServer_ageAtLoan-2") == ["http", "server", "age", "at", "loan", "2"]
    assert words_of("Ménage_en_Prozent") == ["ménage", "en", "prozent"]


@pytest.fixture
def people():
    return make_loans(400, seed=2).drop(columns="accepted")


def test_proposals_make_the_schema_that_a_lender_would_sign(people):
    space = hf.FeatureSpace.from_frame(people, propose=True)
    assert space.unstated == ()
    assert space.to_frame()["direction"].to_dict() == {
        "income": "increasing",
        "debt": "decreasing",
        "card_utilisation": "decreasing",
        "missed_payments": "immutable",
        "months_of_history": "immutable",
        "age": "immutable",
        "dependants": "immutable",
        "savings": "increasing",
        "employment": "immutable",
        "housing": "immutable",
    }


def test_a_space_says_what_it_took_from_names(people):
    stated = {"immutable": ["age"], "free": ["savings"]}
    space = hf.FeatureSpace.from_frame(people, propose=True, **stated)
    suggested = hf.FeatureSpace.from_frame(people, **stated)
    assert space.proposed == suggested.proposed
    assert {"age", "savings"}.isdisjoint(space.proposed)
    line = (
        "Directions from names: increasing income; decreasing debt, card_utilisation; "
        "immutable missed_payments, months_of_history, dependants, employment, housing"
    )
    assert repr(space).endswith(line)
    assert "directions from names" in dict(space.overview().facts)
    assert "from names" not in repr(suggested)
    assert repr(hf.FeatureSpace.from_dict(space.to_dict())) == repr(space)
    # A direction from the caller, or from a schema that was checked, is no longer taken from a name.
    assert "debt" not in space.constrained(free=["debt"]).proposed
    assert space.constrained(free=["debt"]).unstated == ()
    assert space.constrained(max_change={"debt": (0.5, 0.0)}).proposed == space.proposed


def test_names_that_are_not_understood_are_left_to_the_caller():
    table = pd.DataFrame({"income_volatility": [0.1, 0.3], "debt_repaid": [10.0, 20.0]})
    space = hf.FeatureSpace.from_frame(table, propose=True)
    assert (space.proposed, space.unstated) == ({}, ("income_volatility", "debt_repaid"))
    assert set(space.to_frame()["direction"]) == {"free"}


def test_a_stated_direction_comes_before_a_proposal(people):
    space = hf.FeatureSpace.from_frame(
        people,
        propose=True,
        free=["savings"],
        decreasing=["missed_payments"],
        allowed={"housing": [("rent", "owner")]},
        max_change={"income": 0.4, "debt": (0.5, 0.0)},
    )
    found = space.to_frame()["direction"]
    assert found[["savings", "missed_payments", "housing", "income", "debt"]].tolist() == [
        "free",
        "decreasing",
        "free",
        # A limit alone is no direction; one of 0 is.
        "increasing",
        "free",
    ]
    assert space.unstated == ()


def test_without_proposals_nothing_changes_but_the_space_knows(people):
    space = hf.FeatureSpace.from_frame(people, immutable=["age"], free="debt")
    assert set(space.to_frame()["direction"]) == {"free", "immutable"}
    assert space.unstated == tuple(name for name in people if name not in ("age", "debt"))
    assert "age" not in space.proposed
    assert space.proposed["missed_payments"] == "immutable"
    assert space.constrained(increasing=["income"]).unstated == tuple(
        name for name in space.unstated if name != "income"
    )


def test_protected_columns_are_proposed_immutable():
    table = pd.DataFrame(
        {"colour": ["red", "blue"], "score": [1.0, 2.0], "income_type": ["a", "b"]}
    )
    space = hf.FeatureSpace.from_frame(table, protected=["colour"])
    # Labels without an order cannot go up.
    assert space.proposed == {"colour": "immutable"}
    assert hf.FeatureSpace.from_frame(table, protected=["colour"], propose=True).unstated == (
        "score",
        "income_type",
    )


def test_undecided_columns_are_in_files_and_in_no_hash(people, tmp_path):
    space = hf.FeatureSpace.from_frame(people, immutable=["age"])
    stated = space.constrained(free=space.unstated)
    assert stated.unstated == ()
    assert hf.FeatureSpace.from_dict(space.to_dict()).unstated == space.unstated
    assert space == stated
    assert space.to_dict(notes=False) == stated.to_dict(notes=False)


def test_a_schema_file_says_undecided(people):
    space = hf.FeatureSpace.from_frame(people, immutable=["age"], free=["debt"])
    document = schema_document(
        space.features, space.rules, space.notes, name="loans", target=None, auxiliary=()
    )
    said = {column["name"]: column["actionability"] for column in document["columns"]}
    assert (said["age"], said["debt"], said["income"]) == ("immutable", "mutable", "undecided")
    assert not any("undecided" in column for column in document["columns"])
    again = hf.FeatureSpace.from_schema(Schema.from_dict(document))
    assert again.unstated == space.unstated
    assert again == space
    free = hf.FeatureSpace.from_schema(Schema.from_dict(document), actionability="free")
    assert free.unstated == ()


def test_no_shipped_schema_is_undecided():
    for path in Path(datasets.__file__).parent.glob("facts/*.json"):
        assert hf.FeatureSpace.from_schema(Schema.load(path)).unstated == ()


def test_arrays_without_names_are_never_undecided():
    assert hf.FeatureSpace.from_frame(pd.DataFrame(np.eye(3))).unstated == ()


# ---------------------------------------------------------------------- the warning

NET = hf.Network([[[1.0, -1.0, 0.0]]], [[-0.6]])
TABLE = pd.DataFrame(
    {"income": [0.2, 0.1, 0.9, 1.0], "age": [0.5, 1.0, 0.1, 0.0], "hours": [0.0, 1.0, 0.5, 0.2]}
)


def ask(space, how=hf.explain):
    return how(NET, TABLE.head(2), target=1, generator=hf.MCE(), space=space, progress=False)


def test_advice_that_changes_an_undecided_column_warns_once():
    space = hf.FeatureSpace.from_frame(TABLE)
    with pytest.warns(UndecidedColumnWarning) as caught:
        ask(space)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    assert "'income'" in text or "'age'" in text
    assert "'hours'" not in text
    assert "for 2 of 2 people" in text
    assert "Their names suggest" in text
    assert "free=[" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask(space)
    with pytest.warns(UndecidedColumnWarning):
        ask(hf.FeatureSpace.from_frame(TABLE))


def test_alternatives_warn_once():
    with pytest.warns(UndecidedColumnWarning) as caught:
        ask(hf.FeatureSpace.from_frame(TABLE), hf.alternatives)
    assert len(caught) == 1


@pytest.mark.parametrize(
    "stated",
    [
        {"free": ["income", "age"]},
        {"increasing": ["income"], "immutable": ["age"]},
        {"max_change": {"income": (0, 2.0), "age": (0.9, 0)}},
        {"propose": True},
    ],
)
def test_stated_columns_do_not_warn(stated):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask(hf.FeatureSpace.from_frame(TABLE, **stated))
        ask(hf.FeatureSpace.from_frame(TABLE).constrained(free=["income", "age"]))


def test_arrays_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error", HoldfastWarning)
        hf.explain(NET, TABLE.to_numpy()[:2], target=1, generator=hf.NNCE(TABLE.to_numpy()))
