"""The synthetic loan applicants: the same from the same seed, plausible, and learnable."""

import numpy as np
import pandas as pd
import pytest

from holdfast.datasets import make_loans
from holdfast.datasets._loans import EMPLOYMENT, HOUSING
from holdfast.errors import InvalidInputError

RANGES = {
    "income": (6_000, 180_000),
    "debt": (0, 90_000),
    "card_utilisation": (0, 100),
    "missed_payments": (0, 9),
    "months_of_history": (0, 480),
    "age": (19, 80),
    "dependants": (0, 5),
    "savings": (0, 150_000),
}


@pytest.fixture(scope="module")
def loans():
    return make_loans(5000, seed=3)


def test_same_seed_same_table():
    pd.testing.assert_frame_equal(make_loans(50, seed=1), make_loans(50, seed=1))
    assert not make_loans(50, seed=1).equals(make_loans(50, seed=2))


def test_one_row_per_applicant(loans):
    assert loans.index.tolist() == list(range(1, 5001))
    assert loans.index.name == "applicant"
    assert not loans.isna().any(axis=None)


@pytest.mark.parametrize(("column", "bounds"), RANGES.items())
def test_numbers_are_whole_and_in_range(loans, column, bounds):
    assert loans[column].dtype == np.int64
    assert loans[column].between(*bounds).all()
    assert loans[column].nunique() > 3


def test_categories_are_the_named_ones(loans):
    assert set(loans["employment"]) == set(EMPLOYMENT)
    assert set(loans["housing"]) == set(HOUSING)


def test_nobody_has_a_history_from_before_eighteen(loans):
    assert (loans["months_of_history"] <= 12 * (loans["age"] - 18)).all()


def test_about_half_are_accepted(loans):
    assert 0.45 < loans["accepted"].mean() < 0.55


def test_the_decision_goes_the_way_one_expects(loans):
    correlations = loans.corr(numeric_only=True)["accepted"]
    assert (correlations[["income", "savings", "months_of_history"]] > 0.1).all()
    assert (correlations[["debt", "card_utilisation", "missed_payments"]] < -0.1).all()
    by_employment = loans.groupby("employment")["accepted"].mean()
    assert by_employment["permanent"] > by_employment["temporary"] > by_employment["unemployed"]


def test_an_empty_table_is_refused():
    with pytest.raises(InvalidInputError, match="n: expected at least 1 applicant, got 0"):
        make_loans(0)
