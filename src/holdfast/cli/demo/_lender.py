"""The demo's lender: its model, the months since, the advice it gives, and what applicants can change."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.neighbors import NearestNeighbors
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

import holdfast as hf
from holdfast._network import Floats
from holdfast.calibration import CalibratedDelta
from holdfast.datasets import make_loans
from holdfast.datasets._loans import CATEGORICAL, LABEL
from holdfast.errors import InvalidInputError
from holdfast.retraining._trainers import quietly

# What advice cannot ask for: nobody grows younger, sends a dependant away or lengthens a credit history at will.
FIXED = ("age", "dependants", "months_of_history")
RISING = ("income", "savings")
FALLING = ("debt", "card_utilisation", "missed_payments")
NEIGHBOURS = 100
# A month: the model is brought up to date with one more pass of training, over the month's applicants.
NEW_APPLICANTS = 500
MONTHS = 20
COVERAGE = 0.9
# Nobody is told to save up what few applicants have.
MOST_SAVINGS = 40_000


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
        """On applicants that it has not learned from."""
        return float(self.pipeline.score(self.new.drop(columns=LABEL), self.new[LABEL]))

    def variables(self, people: pd.DataFrame) -> Floats:
        """What the network sees of these people."""
        return np.asarray(self.pipeline[:-1].transform(people), dtype=np.float64)

    def variable_names(self) -> list[str]:
        """The names of those variables, such as ``income`` or ``housing_rent``."""
        return [str(name) for name in self.pipeline[:-1].get_feature_names_out()]

    def space(self) -> hf.FeatureSpace:
        """What an applicant can change: nobody grows younger, sends a dependant away or shortens a credit history."""
        return hf.FeatureSpace.from_pipeline(
            self.pipeline,
            self.applicants,
            immutable=["age", "dependants"],
            increasing=[*RISING, "months_of_history"],
            decreasing=FALLING,
            steps={"income": 250, "debt": 100, "savings": 50},
            ranges={"savings": (0, MOST_SAVINGS)},
            costs={"income": 10.0, "months_of_history": 10.0, "savings": 5.0},
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
    # A table much smaller than the demo's own takes more passes to converge than the story is worth.
    with quietly():
        pipeline.fit(applicants, table[LABEL])
    return Lender(pipeline, applicants, make_loans(MONTHS * NEW_APPLICANTS, seed + 1))


def watch_updates(lender: Lender, seed: int) -> CalibratedDelta:
    """Update today's model with each month's applicants, and calibrate delta by how far it moves.

    No applicant is in two months, so next month's update is exchangeable with these.
    """
    updated = hf.retrain(
        lender.pipeline, lender.new.drop(columns=LABEL), lender.new[LABEL], how="incremental", share=1 / MONTHS,
        n=MONTHS, disjoint=True, seed=seed,
    )  # fmt: skip
    return hf.delta_calibrated(updated, coverage=COVERAGE)


def rounded_up(delta: float) -> float:
    """To two digits, upwards: a number that one can say, and still far enough."""
    step = 10.0 ** (math.floor(math.log10(delta)) - 1)
    return float(f"{math.ceil(delta / step - 1e-9) * step:.2g}")


def make_promises(lender: Lender, n: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rejected applicants and what they are told to become, row by row: the plainest recourse there is.

    That is the nearest accepted applicant's row, with one's own unchangeable facts kept. Of the `NEIGHBOURS` nearest,
    the first whose row is still accepted with those facts put in; an applicant with none gets no promise.
    """
    people = lender.applicants
    accepted = lender.pipeline.predict(people) == 1
    denied = people[~accepted]
    models = people[accepted]
    n_neighbours = min(NEIGHBOURS, len(models))
    search = NearestNeighbors(n_neighbors=n_neighbours).fit(lender.variables(models))
    order = search.kneighbors(lender.variables(denied), return_distance=False)
    candidates = models.iloc[order.ravel()].set_axis(np.repeat(denied.index, n_neighbours), axis=0)
    candidates.loc[:, list(FIXED)] = denied.loc[candidates.index, list(FIXED)].to_numpy()
    valid = candidates[lender.pipeline.predict(candidates) == 1]
    after = valid[~valid.index.duplicated()].head(n).rename_axis(denied.index.name)
    if after.empty:
        raise InvalidInputError(
            "expected applicants that some advice helps, found none; try another seed"
        )
    return denied.loc[after.index], after


def pick_broken(promises: hf.Recourse) -> int | None:
    """A broken promise to show: one that asks for efforts only, for few of them, and that looked safe.

    A neighbour may well earn less and still be accepted: that is no effort.
    """
    before = promises.factuals
    after = promises.counterfactuals
    efforts = (before[[*CATEGORICAL]] == after[[*CATEGORICAL]]).all(axis=1)
    efforts &= (before[[*RISING]] <= after[[*RISING]]).all(axis=1)
    efforts &= (before[[*FALLING]] >= after[[*FALLING]]).all(axis=1)
    margin = promises.network.logits(promises.points)[:, 0]
    n_changes = (before != after).sum(axis=1).to_numpy()
    assert promises.certificates is not None
    broken = [row for row in range(len(promises)) if promises.certificates.witness(row) is not None]
    # True sorts after False.
    return min(
        broken, key=lambda row: (not efforts.iloc[row], n_changes[row], -margin[row]), default=None
    )
