"""A new model before promises made under the same terms: which are certain, and what running it says of the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.changes import Changes, Ellipsoid, PlausibleChanges, PlausibleShift
from holdfast.classifier import Classifier
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators.reading import model_points, own_columns
from holdfast.importers import Model, load_model
from holdfast.importers.thresholds import Threshold
from holdfast.network import Floats, Network
from holdfast.promises.audit_compare import compare, same_encoding
from holdfast.promises.audit_fold import Fold, fold
from holdfast.promises.audit_reading import accepted_rows, readable_rows, reading_of
from holdfast.promises.audit_result import BROKEN, CERTAIN, KEPT, STATUSES, UNREADABLE, Group
from holdfast.promises.ledger import Ledger
from holdfast.promises.ledger_pages import Overview
from holdfast.promises.ledger_rows import restored_rows
from holdfast.promises.ledger_terms import Terms
from holdfast.scored import Scored
from holdfast.verify.radius import radius_of_points


@dataclass(frozen=True, eq=False)
class Newcomer:
    """The new model, how its caller says that it reads raw values, and its threshold.

    `decision` is the model whose class is the decision: the threshold is in its last bias, or in its score.
    """

    loaded: Model
    space: FeatureSpace | None
    threshold: Threshold
    decision: Classifier

    @classmethod
    def of(cls, model: object, space: FeatureSpace | None, threshold: Any) -> Newcomer:
        """Any model that `load_model` takes, at a threshold that it can have."""
        loaded = load_model(model, threshold)
        if space is not None and isinstance(loaded.classifier, Scored):
            raise InvalidInputError(f"space: expected None for a model that reads the table itself, got {space!r}")
        classifier, own = loaded.recorded
        trained = replace(loaded, classifier=classifier, threshold=None, as_trained=None, calibration=None)
        return cls(trained, space, own, loaded.classifier)


@dataclass(frozen=True, eq=False)
class Findings:
    """What became of some promises; `left` is nan where no radius was asked for or found."""

    codes: NDArray[np.int8]
    margin: Floats
    left: Floats

    @classmethod
    def of(cls, certain: NDArray[np.bool_]) -> Findings:
        """Those that are certain, and the others as if they could not be read."""
        codes = np.where(certain, CERTAIN, UNREADABLE).astype(np.int8)
        return cls(codes, np.full(len(certain), np.nan), np.full(len(certain), np.nan))

    def note(self, places: NDArray[np.intp], margin: Floats, kept: NDArray[np.bool_]) -> None:
        """What running the model said."""
        self.margin[places] = margin
        self.codes[places] = np.where(kept, KEPT, BROKEN)


class Judge:
    """The new model before the promises made under the same terms."""

    def __init__(self, newcomer: Newcomer, terms: Terms, ledger: Ledger, last: int, batch: int) -> None:
        self.newcomer, self.terms, self.ledger, self.last, self.batch = newcomer, terms, ledger, last, batch
        self.promises = ledger.under(terms)
        self.space = self._reading()
        self.same = self.space is not None and same_encoding(terms.space, self.space)
        folded = self._fold()
        self.comparison = compare(terms, newcomer.loaded.classifier, newcomer.threshold, self.space, folded)
        self.distance = self.comparison.measured(terms)
        self.inside = terms.changes is not None and self.comparison.within(terms.changes)
        self.fold = folded.at(newcomer.threshold) if isinstance(folded, Fold) else None
        self.slack = 0.0 if self.fold is None else self.fold.margin_error
        self.used_fold = False

    def _example(self) -> pd.DataFrame:
        """Some of the promised rows."""
        promises = next(self.ledger.promises(batch=1000, terms=self.terms, last=self.last), None)
        return pd.DataFrame(columns=list(self.terms.space.names)) if promises is None else promises.counterfactuals

    def _reading(self) -> FeatureSpace | None:
        """How the new model reads the promised rows, to the last bit; None if no feature space says it."""
        loaded, given, promised = self.newcomer.loaded, self.newcomer.space, self.terms.space
        found = reading_of(loaded, given, promised, self._example)
        if loaded.preprocess is None or found is None:
            return found
        if given is not None:
            if self._reads_alike(given):
                return found
            # Close enough to be meant, but what is certain has to be so of what the model itself reads.
            found = reading_of(loaded, None, promised, self._example)
        # Scalers go through float32 in float32, which may show in no row of the example.
        narrow = any(feature.storage.precision in ("float16", "float32") for feature in promised.features)
        return None if found is not None and narrow and not self._reads_alike(found) else found

    def _reads_alike(self, space: FeatureSpace) -> bool:
        """Whether every promised row is the same point in a space and to the model's own preprocessing.

        Refuses a space of the caller's that is not even near.
        """
        loaded, alike = self.newcomer.loaded, True
        for promises in self.ledger.promises(batch=self.batch, terms=self.terms, last=self.last):
            rows = promises.counterfactuals[readable_rows(space, promises.counterfactuals)]
            if not len(rows):
                continue
            points = model_points(loaded, rows, space) if space is self.newcomer.space else space.encode(rows)
            alike = alike and np.array_equal(points, loaded.variables(own_columns(loaded, rows)))
        return alike

    def _fold(self) -> Fold | str | None:
        if self.same or self.space is None:
            return None
        return fold(self.terms.space, self.space, self.newcomer.loaded.network, self.promises.reach(self.last))

    def judge(self, rows: Overview, radius: bool) -> Findings:
        """The promises that their own certificate or radius covers are certain; on the others the model is run."""
        certain = (rows.radius > self.distance) | (rows.robust & self.inside)
        found, undecided = Findings.of(certain), ~certain
        if self.fold is not None and not radius:
            self._run_folded(self.fold, rows, undecided, found)
        if radius or undecided.any():
            self._run(rows, undecided, radius, found)
        return found

    def _run_folded(self, folded: Fold, rows: Overview, undecided: NDArray[np.bool_], found: Findings) -> None:
        """Decide by the stored points wherever rounding cannot have made the difference; the rest stays undecided."""
        if not (undecided.any() and np.isfinite(self.slack)):
            return
        stored = self._stored(rows)
        for label, mine in rows.by_target():
            asked = np.flatnonzero(mine & undecided)
            if not asked.size:
                continue
            margin, kept = _verdicts(folded.network, label, folded.network.logits(_take(stored, asked)))
            clear = np.abs(margin) > self.slack
            found.note(asked[clear], margin[clear], kept[clear])
            undecided[asked[clear]] = False
            self.used_fold |= bool(clear.any())

    def _run(self, rows: Overview, undecided: NDArray[np.bool_], radius: bool, found: Findings) -> None:
        """Run the model on what it reads of the promises that are undecided."""
        wanted = np.flatnonzero(undecided | radius)
        model, points, readable = self.newcomer.decision, np.empty(0), np.ones(len(wanted), dtype=np.bool_)
        if isinstance(model, Scored):
            model, points, readable = self._scored(model, rows.numbers[wanted])
        elif self.same:
            points = _take(self._stored(rows), wanted)
        else:
            points, readable = self._read_again(rows.numbers[wanted])
        if readable.all():
            logits = model.logits(points)
        else:
            logits = np.full((len(wanted), model.n_outputs), np.nan)
            logits[readable] = model.logits(points[readable])
        for label, mine in rows.by_target():
            asked = np.flatnonzero(readable & (mine & undecided)[wanted])
            if asked.size:
                found.note(wanted[asked], *_verdicts(model, label, _take(logits, asked)))
            kept = np.flatnonzero(readable & (mine & (found.codes <= KEPT))[wanted])
            if radius and kept.size:
                found.left[wanted[kept]] = self._left(model, points[kept], label)

    def _scored(self, model: Scored, numbers: NDArray[np.int64]) -> tuple[Scored, Floats, NDArray[np.bool_]]:
        """A model that reads the promised rows themselves, by their numbers, and which of them it can read.

        What goes wrong in a function of the caller's is no fault of a row: a service may be out of reach.
        """
        rows = restored_rows(self.terms.space, self.promises.counterfactual_rows(numbers))
        readable, loaded = np.ones(len(rows), dtype=np.bool_), self.newcomer.loaded
        asked, places = model.about(rows)
        assert isinstance(loaded.classifier, Scored)
        if loaded.classifier.predict_labels is not None:
            readable = accepted_rows(loaded, rows, self.terms.space)
        return asked, places, readable

    def _left(self, model: Classifier, points: Floats, label: Any) -> Floats | float:
        """How far the model may go from here, in the unit of the promise; nan where nobody can say."""
        kind: Changes | None = None if self.terms.changes is None else self.terms.changes.settled
        network = model if isinstance(model, Network) else None
        if kind is None or isinstance(kind, PlausibleChanges):
            fits, kind = network is not None and network.rectified, None
        elif isinstance(kind, Ellipsoid):
            fits = network is not None and not network.hidden and network.n_parameters == len(kind.shape)
        else:
            fits, kind = True, PlausibleShift(0.0)
        targets = np.full(len(points), _class_index(model, label))
        return radius_of_points(Model(model), points, targets, kind).lower if fits else np.nan

    def _stored(self, rows: Overview) -> Floats:
        """The promised rows as the model of that day read them."""
        points = self.promises.points(int(rows.numbers[0]), int(rows.numbers[-1]))
        if len(points) != len(rows):
            raise FileFormatError(f"pages from {rows.numbers[0]} on: expected {len(rows)} points, got {len(points)}")
        return points

    def _read_again(self, numbers: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
        """Promised rows as the new model reads them from raw units, and which of them it can read."""
        frame, loaded = self.promises.counterfactual_rows(numbers), self.newcomer.loaded
        points = np.zeros((len(numbers), loaded.network.n_features))
        if self.space is None:
            promised = restored_rows(self.terms.space, frame)
            readable = accepted_rows(loaded, promised, self.terms.space)
            if readable.any():
                points[readable] = loaded.variables(own_columns(loaded, promised[readable]))
            return points, readable
        try:
            return self.space.encode(frame), np.ones(len(numbers), dtype=np.bool_)
        except InvalidInputError:
            readable = readable_rows(self.space, frame)
            if readable.any():
                points[readable] = self.space.encode(frame[readable])
        return points, readable

    def group(self, totals: NDArray[np.int64]) -> Group:
        """What is said of these promises together."""
        found, counts = self.comparison, dict(zip(STATUSES, totals.tolist(), strict=True))
        error = self.slack if self.used_fold else 0.0
        return Group(self.terms, found.how, found.why_not, self.distance, self.inside, counts, error)


def _take(points: Floats, rows: NDArray[np.intp]) -> Floats:
    """Some rows; the table itself where that is all of them."""
    return points if len(rows) == len(points) else points[rows]


def _verdicts(model: Classifier, label: Any, logits: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """How far the class with this label lies above its strongest rival, and whether it is the model's choice."""
    target = _class_index(model, label)
    kept = np.asarray(model.winners(logits) == target)
    if model.n_outputs == 1:
        return logits[:, 0] if target == 1 else -logits[:, 0], kept
    return logits[:, target] - np.delete(logits, target, axis=1).max(axis=1), kept


def _class_index(model: Classifier, label: Any) -> int:
    try:
        return model.class_index(label)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"model: expected one with the class {label!r}, which was promised, got the classes "
            f"{model.classes.tolist()}"
        ) from error
