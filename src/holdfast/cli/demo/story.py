"""The demo's computations: a lender's model, the advice it gives, and what the advice is worth after retraining."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

import holdfast as hf
from holdfast.calibration import CalibratedDelta, delta_calibrated
from holdfast.datasets.loans import CATEGORICAL, LABEL, make_loans
from holdfast.errors import InvalidInputError
from holdfast.network import Floats
from holdfast.retraining import retrain

# What advice cannot ask for: nobody grows younger, sends a dependant away or lengthens a credit history at will.
FIXED = ("age", "dependants", "months_of_history")
NEIGHBOURS = 100
# A month: the model is brought up to date with one more pass of training, over the month's applicants.
NEW_APPLICANTS = 500
MONTHS = 20
COVERAGE = 0.9


@dataclass(frozen=True)
class Lender:
    """A fitted pipeline, the table it learned from, and the applicants of the months since."""

    pipeline: Pipeline
    applicants: pd.DataFrame
    new: pd.DataFrame
    accuracy: float

    @property
    def network(self) -> hf.Network:
        """The part of the pipeline that Δ moves."""
        return hf.load_network(self.pipeline)

    def variables(self, people: pd.DataFrame) -> Floats:
        """What the network sees of these people."""
        return np.asarray(self.pipeline[:-1].transform(people), dtype=np.float64)

    def variables_frame(self, people: pd.DataFrame) -> pd.DataFrame:
        """The same as a table with names."""
        return pd.DataFrame(self.variables(people), index=people.index, columns=self.variable_names())

    def variable_names(self) -> list[str]:
        """The names of those variables, such as ``income`` or ``housing_rent``."""
        return [str(name) for name in self.pipeline[:-1].get_feature_names_out()]


@dataclass(frozen=True)
class Promises:
    """For each rejected applicant, what they were told to become; both tables in raw units, row by row."""

    before: pd.DataFrame
    after: pd.DataFrame


@dataclass(frozen=True)
class Findings:
    """What holds of the promises under Δ."""

    delta: float
    updates: Updates
    certificates: hf.Certificates
    margin_today: Floats
    margin_worst: Floats
    radius: Floats


def train_lender(n: int, seed: int) -> Lender:
    """A two-layer network on scaled numbers and one-hot categories, as `MLPClassifier` fits it."""
    applicants = make_loans(n, seed)
    numbers = [column for column in applicants if column not in (*CATEGORICAL, LABEL)]
    encoder = ColumnTransformer(
        [
            ("numbers", MinMaxScaler(), numbers),
            ("categories", OneHotEncoder(sparse_output=False), list(CATEGORICAL)),
        ],
        verbose_feature_names_out=False,
    )
    classifier = MLPClassifier((12, 6), max_iter=300, random_state=0)
    pipeline = Pipeline([("encode", encoder), ("classify", classifier)])
    with warnings.catch_warnings():
        # A table much smaller than the demo's own takes more passes to converge than the story is worth.
        warnings.simplefilter("ignore", ConvergenceWarning)
        pipeline.fit(applicants.drop(columns=LABEL), applicants[LABEL])
    new = make_loans(MONTHS * NEW_APPLICANTS, seed + 1)
    accuracy = float(pipeline.score(new.drop(columns=LABEL), new[LABEL]))
    return Lender(pipeline, applicants.drop(columns=LABEL), new, accuracy)


@dataclass(frozen=True)
class Updates:
    """How far each of some monthly updates moved the model, and the delta that this calibrates, rounded up."""

    distances: Floats
    calibrated: CalibratedDelta
    delta: float

    @property
    def guaranteed(self) -> float:
        """With which probability the next update stays within delta, at least."""
        return self.calibrated.guaranteed


def watch_updates(lender: Lender, seed: int) -> Updates:
    """Update today's model with each month's applicants, and calibrate delta by how far it moves.

    No applicant is in two months, so next month's update is exchangeable with these.
    """
    people, labels = lender.new.drop(columns=LABEL), lender.new[LABEL]
    updated = retrain(
        lender.pipeline, people, labels, how="incremental", share=1 / MONTHS, n=MONTHS, disjoint=True, seed=seed
    )
    calibrated = delta_calibrated(updated, coverage=COVERAGE)
    return Updates(updated.distances(), calibrated, _rounded_up(float(calibrated)))


def _rounded_up(delta: float) -> float:
    """To two digits, upwards: a number that one can say, and still far enough."""
    step = 10.0 ** (math.floor(math.log10(delta)) - 1)
    return float(f"{math.ceil(delta / step - 1e-9) * step:.2g}")


def make_promises(lender: Lender, n: int) -> Promises:
    """The plainest recourse there is: the nearest accepted applicant's row, with one's own unchangeable facts kept.

    Of the `NEIGHBOURS` nearest, the first whose row is still accepted with those facts put in; an applicant with none
    gets no promise.
    """
    people = lender.applicants
    accepted = lender.pipeline.predict(people) == 1
    denied, models = people[~accepted], people[accepted]
    n_neighbours = min(NEIGHBOURS, len(models))
    search = NearestNeighbors(n_neighbors=n_neighbours).fit(lender.variables(models))
    order = search.kneighbors(lender.variables(denied), return_distance=False)
    candidates = models.iloc[order.ravel()].set_axis(np.repeat(denied.index, n_neighbours), axis=0)
    candidates.loc[:, list(FIXED)] = denied.loc[candidates.index, list(FIXED)].to_numpy()
    valid = candidates[lender.pipeline.predict(candidates) == 1]
    after = valid[~valid.index.duplicated()].head(n)
    if after.empty:
        raise InvalidInputError("expected applicants that some advice helps, found none; try another seed")
    after.index.name = denied.index.name
    return Promises(denied.loc[after.index], after)


def examine(lender: Lender, promises: Promises, updates: Updates, delta: float) -> Findings:
    """Certify every promise under Δ, and ask of each how far the model may move before it breaks."""
    changes = hf.PlausibleChanges(delta)
    certificates = hf.certify(lender.pipeline, promises.after, 1, changes)
    network, points = lender.network, lender.variables(promises.after)
    worst = hf.output_bounds(network, points, changes).lower[:, 0]
    radii = hf.certified_radius(network, points, 1)
    return Findings(delta, updates, certificates, network.logits(points)[:, 0], worst, radii.lower)


def pick_broken(promises: Promises, findings: Findings) -> int | None:
    """A broken promise to show: one that asks for efforts only, for few of them, and that looked safe."""
    broken = [i for i in range(len(findings.certificates)) if findings.certificates.witness(i) is not None]
    efforts = [i for i in broken if _asks_efforts_only(promises.before.iloc[i], promises.after.iloc[i])]
    n_changes = (promises.before != promises.after).sum(axis=1).to_numpy()
    return min(efforts or broken, key=lambda i: (n_changes[i], -findings.margin_today[i]), default=None)


def _asks_efforts_only(before: pd.Series, after: pd.Series) -> bool:
    """Whether no advice goes the wrong way; a neighbour may well earn less and still be accepted."""
    same_job_and_home = all(before[name] == after[name] for name in CATEGORICAL)
    return (
        same_job_and_home
        and all(before[name] <= after[name] for name in ("income", "savings"))
        and all(before[name] >= after[name] for name in ("debt", "card_utilisation", "missed_payments"))
    )
