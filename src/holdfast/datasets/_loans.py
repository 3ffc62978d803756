"""A made-up table of loan applicants: ours, seeded, and free to ship.

Every person in it is made up. The numbers of the recipe are chosen to look like a lender's table. They are fitted to no
real table, so they say nothing about real people.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast._network import Floats
from holdfast.errors import InvalidInputError

Strings = NDArray[np.str_]

EMPLOYMENT = ("permanent", "temporary", "self-employed", "unemployed", "retired")
HOUSING = ("owner", "mortgage", "rent", "with family")
LABEL = "accepted"
CATEGORICAL = ("employment", "housing")
# Columns that no advice should change: the past, age, household and employment.
FIXED = ("age", "dependants", "missed_payments", "months_of_history", "employment", "housing")

_INCOME_OF_EMPLOYMENT = {
    "permanent": 0.0,
    "temporary": -0.3,
    "self-employed": 0.1,
    "unemployed": -1.0,
    "retired": -0.4,
}
_SCORE_OF_EMPLOYMENT = {
    "permanent": 0.5,
    "temporary": -0.3,
    "self-employed": 0.0,
    "unemployed": -1.2,
    "retired": 0.2,
}
_SCORE_OF_HOUSING = {"owner": 0.5, "mortgage": 0.3, "rent": -0.2, "with family": 0.0}


def make_loans(n: int = 4000, seed: int = 0) -> pd.DataFrame:
    """A table of `n` loan applicants with the lender's decision.

    Parameters
    ----------
    n
        Number of applicants.
    seed
        The same seed gives the same table.

    Returns
    -------
    pandas.DataFrame
        One row per applicant, indexed by ``applicant`` (1, 2, ...):

        ===================  =====================================================================
        income               gross, euros a year
        debt                 outstanding, euros, without the mortgage
        card_utilisation     per cent of the card limit in use
        missed_payments      in the last 24 months
        months_of_history    since the first credit on record
        age                  years
        dependants           people who live on this income
        savings              euros
        employment           permanent, temporary, self-employed, unemployed or retired
        housing              owner, mortgage, rent or with family
        accepted             1 if the loan was granted
        ===================  =====================================================================

    Notes
    -----
    A schema that a lender can sign fixes the past, age, household and employment::

        space = holdfast.FeatureSpace.from_frame(
            X,
            immutable=["age", "dependants", "missed_payments", "months_of_history", "employment", "housing"],
            increasing=["income", "savings"],
            decreasing=["debt", "card_utilisation"],
            max_change={"income": 0.4},
            steps={"income": 250, "debt": 100, "savings": 50},
        )

    The recipe, in order:

    - *age* is a stretched beta variable on 19-80. Each applicant has a hidden *prudence*, standard normal.
    - *employment* is drawn by age: retirement from the sixties on, more temporary work below thirty.
    - *income* is log-normal. Its level rises to the age of fifty and depends on employment.
    - *housing* is drawn by age and income.
    - *dependants* is Poisson, most in the thirties and forties.
    - *debt* and *savings* are log-normal multiples of income, pulled apart by prudence; one in seven has no savings.
    - *card_utilisation* is a logistic function of prudence and of debt over income.
    - *missed_payments* is Poisson; its rate grows with card utilisation.
    - *months_of_history* is a random share of the months since the age of eighteen.

    The decision adds logistic noise to a score of debt burden, card utilisation, missed payments, history, savings,
    income per head, employment and housing, **not** of age. It compares the sum with the median score, so that about
    half of the applicants are accepted.

    Examples
    --------
    >>> loans = make_loans(1000, seed=0)
    >>> loans.shape
    (1000, 11)
    >>> sorted(loans["housing"].unique())
    ['mortgage', 'owner', 'rent', 'with family']
    """
    if n < 1:
        raise InvalidInputError(f"n: expected at least 1 applicant, got {n}")
    loans = _applicants(n, np.random.default_rng(seed))
    loans.index = pd.RangeIndex(1, n + 1, name="applicant")
    return loans


def _applicants(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """The recipe of `make_loans`, step by step."""
    age = np.floor(19 + 61 * rng.beta(1.9, 2.6, n))
    prudence = rng.normal(size=n)
    young, old = age < 30, age >= 64
    odds = [
        np.where(old, 0.15, 0.64),
        np.where(young, 0.30, np.where(old, 0.02, 0.12)),
        np.where(young, 0.06, 0.14),
        np.where(old, 0.02, 0.08),
        np.where(old, 0.75, 0.01),
    ]
    dependants = np.minimum(rng.poisson(0.25 + 1.3 * np.exp(-(((age - 41) / 10) ** 2))), 5)
    employment = _draw(EMPLOYMENT, np.column_stack(odds), rng)

    level = 10.35 + 0.30 * (1 - ((np.minimum(age, 65) - 50) / 30) ** 2) + 0.06 * prudence
    income = np.exp(level + _lookup(_INCOME_OF_EMPLOYMENT, employment) + rng.normal(0.0, 0.32, n))
    income = 100 * np.round(np.clip(income, 6_000, 180_000) / 100)
    debt = 100 * np.round(income * np.exp(-1.5 - 0.45 * prudence + rng.normal(0.0, 0.8, n)) / 100)
    savings = income * np.exp(-1.6 + 0.55 * prudence + 0.012 * (age - 45) + rng.normal(0.0, 0.9, n))
    savings = 50 * np.round(np.where(rng.random(n) < 1 / 7, 0.0, savings) / 50)
    wealth = (age - 45) / 15 + np.log(income / 35_000)
    odds = [0.9 * wealth - 0.6, 0.5 * wealth + 0.3, 0.3 - 0.3 * wealth, -0.7 - 1.1 * wealth]
    housing = _draw(HOUSING, np.exp(np.column_stack(odds)), rng)
    debt = np.minimum(debt, 90_000)
    savings = np.minimum(savings, 150_000)

    burden = np.log((debt + 500) / income)
    utilisation = 100 / (
        1 + np.exp(-(0.9 + 0.8 * burden - 0.6 * prudence + rng.normal(0.0, 0.7, n)))
    )
    missed = np.minimum(rng.poisson(np.exp(-1.9 + 0.028 * utilisation - 0.35 * prudence)), 9)
    history = np.minimum(np.floor(12 * (age - 18) * rng.beta(2.2, 1.8, n)), 480)
    utilisation = np.round(utilisation)

    score = (
        -0.9 * burden
        - 0.020 * utilisation
        - 0.55 * missed
        + 0.0035 * history
        + 0.16 * np.log1p(savings / 1_000)
        + 0.9 * np.log(income / (1 + 0.4 * dependants) / 30_000)
        + _lookup(_SCORE_OF_EMPLOYMENT, employment)
        + _lookup(_SCORE_OF_HOUSING, housing)
    )
    accepted = score - _TYPICAL_SCORE + rng.logistic(0.0, 0.45, n) > 0.0
    numbers = {
        "income": income,
        "debt": debt,
        "card_utilisation": utilisation,
        "missed_payments": missed,
        "months_of_history": history,
        "age": age,
        "dependants": dependants,
        "savings": savings,
    }
    whole = {name: values.astype(np.int64) for name, values in numbers.items()}
    return pd.DataFrame(
        whole | {"employment": employment, "housing": housing, LABEL: accepted.astype(np.int64)}
    )


# The median of the score over a large table: about half of the applicants are accepted.
_TYPICAL_SCORE = 1.2


def _lookup(table: dict[str, float], keys: Strings) -> Floats:
    return np.array([table[key] for key in keys.tolist()])


def _draw(labels: tuple[str, ...], odds: Floats, rng: np.random.Generator) -> Strings:
    """One label per row, with probabilities proportional to the row's odds."""
    cumulative = np.cumsum(odds, axis=1)
    ticket = rng.random((odds.shape[0], 1)) * cumulative[:, -1:]
    return np.asarray(np.array(labels)[(ticket >= cumulative).sum(axis=1)])
