"""The demo's lender: its model, the months since, the schema that it signs, and who asks for advice."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

import holdfast as hf
from holdfast._network import Floats
from holdfast.calibration import CalibratedDelta
from holdfast.datasets import make_loans
from holdfast.datasets._loans import CATEGORICAL, FIXED, LABEL
from holdfast.errors import InvalidInputError
from holdfast.retraining._trainers import quietly

# Each month, one more pass of training over the month's applicants.
NEW_APPLICANTS = 500
MONTHS = 20
COVERAGE = 0.9
MOST_SAVINGS = 40_000
MOST_RAISE = 0.4


@dataclass(frozen=True)
class Lender:
    """A fitted pipeline, the table it learned from, and the applicants of the months since."""

    pipeline: Pipeline
    applicants: pd.DataFrame
    new: pd.DataFrame

    @property
    def network(self) -> hf.Network:
        """The part of the pipeline that Δ moves."""
        return hf.load_network(self.pipeline)

    @property
    def accuracy(self) -> float:
        """The share of right decisions about new applicants."""
        return float(self.pipeline.score(self.new.drop(columns=LABEL), self.new[LABEL]))

    def variables(self, people: pd.DataFrame) -> Floats:
        """The network's input for these people."""
        return np.asarray(self.pipeline[:-1].transform(people), dtype=np.float64)

    def variable_names(self) -> list[str]:
        """The names of those variables, such as ``income`` or ``housing_rent``."""
        return [str(name) for name in self.pipeline[:-1].get_feature_names_out()]

    def space(self) -> hf.FeatureSpace:
        """The schema that the lender signs: past, age, household and employment stay as they are."""
        return hf.FeatureSpace.from_pipeline(
            self.pipeline,
            self.applicants,
            immutable=FIXED,
            increasing=["income", "savings"],
            decreasing=["debt", "card_utilisation"],
            max_change={"income": MOST_RAISE},
            steps={"income": 250, "debt": 100, "savings": 50},
            ranges={"savings": (0, MOST_SAVINGS)},
            costs={"income": 10.0, "savings": 5.0},
            units={
                "income": "€ a year", "debt": "€", "savings": "€", "card_utilisation": "percent", "age": "years",
                "months_of_history": "months",
            },
            labels={
                "card_utilisation": "card utilisation", "missed_payments": "missed payments",
                "months_of_history": "months of credit history",
            },
            protected=["age"],
        )  # fmt: skip

    def rejected(self, n: int) -> pd.DataFrame:
        """The first `n` applicants whom today's model rejects."""
        denied: pd.DataFrame = self.applicants[self.pipeline.predict(self.applicants) == 0]
        if denied.empty:
            raise InvalidInputError("the model rejects no applicant; try another --seed")
        return denied.head(n)


def train_lender(n: int, seed: int) -> Lender:
    """A two-layer network on scaled numbers and one-hot categories, as `MLPClassifier` fits it."""
    table = make_loans(n, seed)
    applicants = table.drop(columns=LABEL)
    numbers = [column for column in applicants if column not in CATEGORICAL]
    encoder = ColumnTransformer(
        [
            ("numbers", MinMaxScaler(), numbers),
            ("categories", OneHotEncoder(sparse_output=False), list(CATEGORICAL)),
        ],
        verbose_feature_names_out=False,
    )
    classifier = MLPClassifier((12, 6), max_iter=300, random_state=0)
    pipeline = Pipeline([("encode", encoder), ("classify", classifier)])
    # On a small table the fit may stop before it converges.
    with quietly():
        pipeline.fit(applicants, table[LABEL])
    return Lender(pipeline, applicants, make_loans(MONTHS * NEW_APPLICANTS, seed + 1))


def watch_updates(lender: Lender, seed: int) -> CalibratedDelta:
    """Update today's model with each month's applicants, and calibrate delta by how far it moves.

    Each applicant is in one month only, so next month's update is exchangeable with these.
    """
    updated = hf.retrain(
        lender.pipeline, lender.new.drop(columns=LABEL), lender.new[LABEL], how="incremental", share=1 / MONTHS,
        n=MONTHS, disjoint=True, seed=seed,
    )  # fmt: skip
    return hf.delta_calibrated(updated, coverage=COVERAGE)


def rounded_up(delta: float) -> float:
    """Two digits, rounded up."""
    step = 10.0 ** (math.floor(math.log10(delta)) - 1)
    return float(f"{math.ceil(delta / step - 1e-9) * step:.2g}")


def pick_broken(advice: hf.Recourse) -> int | None:
    """A broken row to show: the one with the fewest changes, then the largest margin today."""
    assert advice.certificates is not None
    rows = advice.answered
    broken = [
        (place, row)
        for place, row in enumerate(rows.tolist())
        if advice.certificates.witness(place) is not None
    ]
    margin = advice.network.logits(advice.points[rows])[:, 0]
    changes = advice.space.changed(advice.points[rows], advice.people.take(rows))
    best = min(broken, key=lambda one: (changes[one[0]], -margin[one[0]]), default=None)
    return None if best is None else best[1]
