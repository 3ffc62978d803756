"""A made-up table of loan applicants: ours, seeded, and free to ship.

Nobody in it exists. The recipe is the docstring of `make_loans`; the numbers in it are chosen to look like a lender's
table, not fitted to one, so nothing can be learned from it about real people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.errors import InvalidInputError

Floats = NDArray[np.float64]
Strings = NDArray[np.str_]

EMPLOYMENT = ("permanent", "temporary", "self-employed", "unemployed", "retired")
HOUSING = ("owner", "mortgage", "rent", "with family")
LABEL = "accepted"
CATEGORICAL = ("employment", "housing")

_INCOME_OF_EMPLOYMENT = {"permanent": 0.0, "temporary": -0.3, "self-employed": 0.1, "unemployed": -1.0, "retired": -0.4}
_SCORE_OF_EMPLOYMENT = {"permanent": 0.5, "temporary": -0.3, "self-employed": 0.0, "unemployed": -1.2, "retired": 0.2}
_SCORE_OF_HOUSING = {"owner": 0.5, "mortgage": 0.3, "rent": -0.2, "with family": 0.0}


def make_loans(n: int = 4000, seed: int = 0) -> pd.DataFrame:
    """A table of `n` loan applicants with the lender's decision.

    Parameters
    ----------
    n
        How many applicants.
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
    The recipe, in order: *age* is a stretched beta variable on 19-80, and each applicant has a hidden *prudence*,
    standard normal. *employment* is drawn by age (retirement from the sixties on, more temporary work below thirty).
    *income* is log-normal around a level that rises to the age of fifty and depends on employment. *housing* is drawn
    by age and income. *dependants* is Poisson, most in the thirties and forties. *debt* and *savings* are log-normal
    multiples of income, pulled apart by prudence; one in seven has no savings at all. *card_utilisation* is a logistic
    function of debt over income and prudence, *missed_payments* is Poisson with a rate that grows with utilisation,
    and *months_of_history* is a random share of the months since the age of eighteen. The decision compares a score
    of all of these (debt burden, utilisation, missed payments, history, savings, income per head, employment, housing;
    **not** age) plus logistic noise with its median, so that about half are accepted.

    Examples
    --------
    >>> loans = make_loans(1000, seed=0)
    >>> loans.shape
    (1000, 11)
    >>> sorted(loans["housing"].unique())
    ['mortgage', 'owner', 'rent', 'with family']
    """
    if n < 1:
        raise InvalidInputError(f"expected n >= 1 applicants, got {n}")
    rng = np.random.default_rng(seed)
    people = _people(n, rng)
    money = _money(people, rng)
    credit = _credit(people, money, rng)
    score = _score(people, money, credit) + rng.logistic(0.0, 0.45, n)
    columns = {
        "income": money.income,
        "debt": money.debt,
        "card_utilisation": credit.utilisation,
        "missed_payments": credit.missed,
        "months_of_history": credit.history,
        "age": people.age,
        "dependants": people.dependants,
        "savings": money.savings,
    }
    loans = pd.DataFrame({name: values.astype(np.int64) for name, values in columns.items()})
    loans["employment"] = people.employment
    loans["housing"] = money.housing
    loans[LABEL] = (score > 0.0).astype(np.int64)
    loans.index = pd.RangeIndex(1, n + 1, name="applicant")
    return loans


@dataclass(frozen=True)
class _People:
    age: Floats
    prudence: Floats
    employment: Strings
    dependants: Floats


@dataclass(frozen=True)
class _Money:
    income: Floats
    debt: Floats
    savings: Floats
    housing: Strings


@dataclass(frozen=True)
class _Credit:
    utilisation: Floats
    missed: Floats
    history: Floats


def _people(n: int, rng: np.random.Generator) -> _People:
    age = np.floor(19 + 61 * rng.beta(1.9, 2.6, n))
    prudence = rng.normal(size=n)
    young, old = age < 30, age >= 64
    odds = np.column_stack(
        [
            np.where(old, 0.15, 0.64),
            np.where(young, 0.30, np.where(old, 0.02, 0.12)),
            np.where(young, 0.06, 0.14),
            np.where(old, 0.02, 0.08),
            np.where(old, 0.75, 0.01),
        ]
    )
    dependants = np.minimum(rng.poisson(0.25 + 1.3 * np.exp(-(((age - 41) / 10) ** 2))), 5)
    return _People(age, prudence, _draw(EMPLOYMENT, odds, rng), dependants)


def _money(people: _People, rng: np.random.Generator) -> _Money:
    n = people.age.shape[0]
    level = 10.35 + 0.30 * (1 - ((np.minimum(people.age, 65) - 50) / 30) ** 2) + 0.06 * people.prudence
    income = np.exp(level + _lookup(_INCOME_OF_EMPLOYMENT, people.employment) + rng.normal(0.0, 0.32, n))
    income = 100 * np.round(np.clip(income, 6_000, 180_000) / 100)
    debt = 100 * np.round(income * np.exp(-1.5 - 0.45 * people.prudence + rng.normal(0.0, 0.8, n)) / 100)
    savings = income * np.exp(-1.6 + 0.55 * people.prudence + 0.012 * (people.age - 45) + rng.normal(0.0, 0.9, n))
    savings = 50 * np.round(np.where(rng.random(n) < 1 / 7, 0.0, savings) / 50)
    wealth = (people.age - 45) / 15 + np.log(income / 35_000)
    odds = np.exp(np.column_stack([0.9 * wealth - 0.6, 0.5 * wealth + 0.3, 0.3 - 0.3 * wealth, -0.7 - 1.1 * wealth]))
    return _Money(income, np.minimum(debt, 90_000), np.minimum(savings, 150_000), _draw(HOUSING, odds, rng))


def _credit(people: _People, money: _Money, rng: np.random.Generator) -> _Credit:
    n = people.age.shape[0]
    burden = np.log((money.debt + 500) / money.income)
    utilisation = 100 / (1 + np.exp(-(0.9 + 0.8 * burden - 0.6 * people.prudence + rng.normal(0.0, 0.7, n))))
    missed = np.minimum(rng.poisson(np.exp(-1.9 + 0.028 * utilisation - 0.35 * people.prudence)), 9)
    history = np.floor(12 * (people.age - 18) * rng.beta(2.2, 1.8, n))
    return _Credit(np.round(utilisation), missed, np.minimum(history, 480))


def _score(people: _People, money: _Money, credit: _Credit) -> Floats:
    per_head = money.income / (1 + 0.4 * people.dependants)
    raw = (
        -0.9 * np.log((money.debt + 500) / money.income)
        - 0.020 * credit.utilisation
        - 0.55 * credit.missed
        + 0.0035 * credit.history
        + 0.16 * np.log1p(money.savings / 1_000)
        + 0.9 * np.log(per_head / 30_000)
        + _lookup(_SCORE_OF_EMPLOYMENT, people.employment)
        + _lookup(_SCORE_OF_HOUSING, money.housing)
    )
    return np.asarray(raw - _TYPICAL_SCORE)


# The median of the score over a large table: about half of the applicants are accepted.
_TYPICAL_SCORE = 1.2


def _lookup(table: dict[str, float], keys: Strings) -> Floats:
    return np.array([table[key] for key in keys.tolist()])


def _draw(labels: tuple[str, ...], odds: Floats, rng: np.random.Generator) -> Strings:
    """One label per row, with probabilities proportional to the row's odds."""
    cumulative = np.cumsum(odds, axis=1)
    ticket = rng.random((odds.shape[0], 1)) * cumulative[:, -1:]
    return np.asarray(np.array(labels)[(ticket >= cumulative).sum(axis=1)])
