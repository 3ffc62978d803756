"""Directions that the names of columns suggest: age is immutable, debt goes down, income goes up.

A name is split into words, "NumberOfTime30-59DaysPastDue" into number, of, time, 30, 59, days, past, due; whole words
are compared, so "mortgage" and "usage" are not "age". "Up" and "down" are suggested only if each word of the name is
known: "income" goes up, "income_volatility" has no suggestion. A suggestion is for a person to confirm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from holdfast.features._feature import Feature
from holdfast.features._kinds import Direction, Kind, Name

_RUNS = re.compile(r"[^\W\d_]+|\d+")
# Between "Time" and "Days", and between "HTTP" and "Server".
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_PERSON = """
    age ages birth birthday birthdate birthyear dob born sex gender race ethnicity ethnic religion nationality national
    native citizen citizenship foreign foreigner immigrant immigration veteran disability disabled pregnant pregnancy
    marital married marriage relationship skin fnlwgt
"""
_PAST = """
    missed late delinquency delinquencies delinquent delinq delq dlq derogatory derog default defaults defaulted
    bankruptcy bankruptcies bankrupt foreclosure foreclosures repossession repossessions judgment judgments lien liens
    chargeoff chargeoffs collections past+due charge+off charge+degree inquiry inquiries enquiry enquiries inq
    arrest arrests conviction convictions prior priors juv juvenile felony felonies misdemeanor misdemeanors
    recid recidivism length+stay credit+history
"""
_DEBT = """
    debt debts dti ltv utilisation utilization util burden arrears overdue overdraft owed outstanding
    loan+balance card+balance loan+amount credit+amount
"""
_MEANS = """
    income incomes salary salaries wage wages earnings savings education+num education+years education+level
"""
# The words that leave the meaning of a debt or of an income as it is.
_EITHER = """
    total overall sum annual yearly monthly weekly quarterly year month week net gross current present latest
    average avg mean median amount amt balance value level number num count n in of the own personal applicant
    household family eur euro euros usd dollar dollars gbp pound pounds chf k thousand thousands
"""
_OF_DEBT = """
    ratio fraction percent percentage pct credit card cards loan loans line lines bank natl trades w with high
    revolving revol install installment instalment unsecured secured consumer student car auto mortgage unpaid remaining
"""
_OF_MEANS = "account accounts bank job employment disposable taxable base regular"
# The ratios that are debts by name; in another order the words are another ratio.
_RATIOS = {"debt to income": "dti", "loan to value": "ltv"}
_TIME = "history tenure since ever never last recent oldest in+file"
_HOUSEHOLD = """
    dependants dependents dependant dependent children child kids kid family household spouse partner liable
    housing residence residential homeowner homeownership home+ownership home+owner home+status address
    zip zipcode postcode postal latitude longitude
"""
_WORK = "employment employed employer job jobs occupation profession workclass work+class worker"

# The first line that applies counts: a missed payment of debt is a past event. The third entry has the only other words
# that a name may have; None: any.
_RULES = [
    (Direction.IMMUTABLE, _PERSON, None),
    (Direction.IMMUTABLE, _PAST, None),
    (Direction.DECREASING, _DEBT, _EITHER + _OF_DEBT),
    (Direction.INCREASING, _MEANS, _EITHER + _OF_MEANS),
    (Direction.IMMUTABLE, _TIME, None),
    (Direction.IMMUTABLE, _HOUSEHOLD, None),
    (Direction.IMMUTABLE, _WORK, None),
]


def words_of(name: Name) -> list[str]:
    """The words of a column's name, in lower case.

    Examples
    --------
    >>> words_of("NumberOfTime30-59DaysPastDueNotWorse")
    ['number', 'of', 'time', '30', '59', 'days', 'past', 'due', 'not', 'worse']
    >>> words_of("MSinceOldestTradeOpen"), words_of("priors_count")
    (['m', 'since', 'oldest', 'trade', 'open'], ['priors', 'count'])
    """
    runs = _RUNS.findall(str(name))
    return [word.lower() for run in runs for word in _HUMPS.split(run)]


def direction_of(name: Name) -> Direction | None:
    """The direction that a name suggests, or None.

    Examples
    --------
    >>> [str(direction_of(name)) for name in ("age", "mortgage", "debt_ratio", "MonthlyIncome", "missed_debt_payments")]
    ['immutable', 'None', 'decreasing', 'increasing', 'immutable']
    >>> [direction_of(name) for name in ("debt_coverage_ratio", "income_volatility", "income_to_debt")]
    [None, None, None]
    """
    text = " ".join(words_of(name))
    for ratio, short in _RATIOS.items():
        text = re.sub(rf"\b{ratio}\b", short, text)
    words = {word for word in text.split() if not word.isdigit()}
    for direction, listed, others in _RULES:
        heads = [set(one.split("+")) for one in listed.split()]
        found = set().union(*(head for head in heads if head <= words))
        if found and (others is None or words - found <= set(others.split())):
            return direction
    return None


def proposal_for(feature: Feature) -> Direction | None:
    """The direction that the column's name suggests, where its values have an order to go up or down in."""
    direction = direction_of(feature.name)
    ordered = feature.kind is not Kind.CATEGORICAL
    return direction if ordered or direction is Direction.IMMUTABLE else None


def by_direction(proposed: Mapping[Name, str], names: Iterable[Name]) -> dict[str, list[Name]]:
    """These of the columns that have a proposal, by their direction."""
    ways: dict[str, list[Name]] = {}
    for name in names:
        if name in proposed:
            ways.setdefault(proposed[name], []).append(name)
    return ways
