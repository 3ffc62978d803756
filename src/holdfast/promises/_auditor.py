"""Judge the promises made under the same terms: by proof, or by running the new model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast._classifier import Classifier
from holdfast._network import Bools, Floats, Ints, Network
from holdfast._scored import Scored
from holdfast._trees import TreeEnsemble
from holdfast.changes import Ellipsoid, PlausibleChanges, PlausibleShift, TreeChanges
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators._radii import measured_along
from holdfast.generators._reading import own_columns
from holdfast.importers import Model, load_model
from holdfast.importers._thresholds import Threshold
from holdfast.promises._audit_compare import compare, same_encoding
from holdfast.promises._audit_fold import Fold, fold
from holdfast.promises._audit_reading import accepted_rows, readable_rows, reading_of
from holdfast.promises._audit_result import BROKEN, CERTAIN, ERASED, KEPT, UNREADABLE
from holdfast.promises._ledger import Ledger
from holdfast.promises._ledger_read import Overview, Promises, reach_of
from holdfast.promises._pages import restored_rows
from holdfast.promises._terms import Terms
from holdfast.verify._inputs import check_encoding
from holdfast.verify._radius import radius_of_points


@dataclass(frozen=True, eq=False)
class Newcomer:
    """The new model, the caller's feature space for it, and its threshold.

    `decision` is the model whose class is the decision: the threshold is in its last bias or in its score.
    """

    loaded: Model
    space: FeatureSpace | None
    threshold: Threshold
    decision: Classifier

    @classmethod
    def of(
        cls, model: object, space: FeatureSpace | None, threshold: Any, promised: Sequence[Terms]
    ) -> Newcomer:
        """Read any model that `load_model` takes, at the given threshold, its own, or else that of the promises.

        At a lower threshold, more promises would seem to be kept.
        """
        loaded = load_model(model, threshold)
        if threshold is None and loaded.threshold is None:
            known = {}
            for terms in promised:
                known[str(terms.threshold)] = Model(
                    terms.classifier, threshold=terms.threshold
                ).by_label
            if len(known) > 1:
                raise InvalidInputError(
                    f"threshold: expected one, because promises were made at {', '.join(sorted(known))}, got None"
                )
            loaded = loaded.at(next(iter(known.values()), None))
        if space is not None and isinstance(loaded.classifier, Scored):
            raise InvalidInputError(
                "space: expected None for a model that reads the table itself, got a FeatureSpace"
            )
        classifier, own = loaded.recorded
        trained = replace(
            loaded, classifier=classifier, threshold=None, as_trained=None, calibration=None
        )
        return cls(trained, space, own, loaded.classifier)


class Judged(NamedTuple):
    """Outcomes of some promises; `left` is nan if no radius was requested or found."""

    codes: NDArray[np.int8]
    margin: Floats
    left: Floats


@dataclass
class Auditor:
    """Judge of the promises made under the same terms, in the pages with these (first, size)."""

    newcomer: Newcomer
    terms: Terms
    ledger: Ledger
    spans: Ints
    batch: int

    def __post_init__(self) -> None:
        newcomer = self.newcomer
        terms = self.terms
        self.space = self._reading()
        self.same = self.space is not None and same_encoding(terms.space, self.space)
        folded = None
        if self.space is not None and not self.same:
            folded = fold(
                terms.space,
                self.space,
                newcomer.loaded.network,
                reach_of(self.ledger.file, terms, self.spans),
            )
        self.comparison = compare(
            terms, newcomer.loaded.classifier, newcomer.threshold, self.space, folded
        )
        self.distance = self.comparison.measured(terms)
        self.inside = terms.changes is not None and self.comparison.within(terms.changes)
        self.fold = folded.at(newcomer.threshold) if isinstance(folded, Fold) else None
        self.slack = 0.0 if self.fold is None else self.fold.margin_error
        # Where the new model has the classes that were promised, as they turn up.
        self.places = np.full(len(terms.classifier.classes), -1)

    def __getstate__(self) -> dict[str, Any]:
        """The state without the ledger, which is read only when the auditor is made."""
        return {name: value for name, value in vars(self).items() if name != "ledger"}

    def _promises(self, batch: int) -> Iterator[Promises]:
        last = int(self.spans[-1].sum()) - 1 if len(self.spans) else 0
        return (
            part
            for part in self.ledger.promises(batch=batch, terms=self.terms, last=last)
            if len(part)
        )

    def _example(self) -> pd.DataFrame:
        """Some of the promised rows."""
        promises = next(self._promises(1000), None)
        return (
            pd.DataFrame(columns=list(self.terms.space.names))
            if promises is None
            else promises.counterfactuals
        )

    def _reading(self) -> FeatureSpace | None:
        """The feature space by which the new model reads the promised rows, to the last bit; None if there is none."""
        loaded = self.newcomer.loaded
        given = self.newcomer.space
        promised = self.terms.space
        read = reading_of(loaded, given, promised, self._example)
        if loaded.preprocess is None or read is None:
            return read
        if given is not None:
            if self._reads_alike(given):
                return read
            # Close enough to be meant, but what is certain has to be so of what the model itself reads.
            read = reading_of(loaded, None, promised, self._example)
        # Scalers go through float32 in float32, which may show in no row of the example.
        narrow = any(
            feature.storage.precision in ("float16", "float32") for feature in promised.features
        )
        return None if read is not None and narrow and not self._reads_alike(read) else read

    def _reads_alike(self, space: FeatureSpace) -> bool:
        """True if a space and the model's own preprocessing give the same point for every promised row.

        Raises if the caller's space differs by more than rounding.
        """
        loaded = self.newcomer.loaded
        alike = True
        for promises in self._promises(self.batch):
            rows = promises.counterfactuals[readable_rows(space, promises.counterfactuals)]
            if not len(rows):
                continue
            read = own_columns(loaded, rows)
            points = space.encode(rows)
            if space is self.newcomer.space:
                check_encoding(loaded, read, points)
            alike = alike and np.array_equal(points, loaded.variables(read))
        return alike

    def by_fold(self, radius: bool) -> bool:
        """True if a changed scaling is in the parameters of the model that is run on the stored points."""
        return self.fold is not None and not radius and bool(np.isfinite(self.slack))

    def judge(self, rows: Overview, radius: bool) -> Judged:
        """Judge promises: kept by proof if their certificate or radius covers the model, otherwise the model is run."""
        certain = (rows.radius > self.distance) | (rows.robust & self.inside)
        codes = np.where(certain, CERTAIN, np.where(rows.erased, ERASED, UNREADABLE)).astype(
            np.int8
        )
        judged = Judged(codes, np.full(len(rows), np.nan), np.full(len(rows), np.nan))
        if self.fold is not None and self.by_fold(radius):
            self._run_folded(self.fold.network, rows, judged)
        wanted = np.flatnonzero(judged.codes != ERASED if radius else judged.codes == UNREADABLE)
        if wanted.size:
            self._run(rows, wanted, radius, judged)
        return judged

    def _run_folded(self, network: Network, rows: Overview, judged: Judged) -> None:
        """Decide by the stored points if rounding cannot change the result; other promises stay undecided."""
        asked = np.flatnonzero(judged.codes == UNREADABLE)
        if asked.size:
            targets = self._targets(network, rows.targets[asked])
            margin, kept = _decided(network, network.logits(rows.points(asked)), targets)
            clear = np.abs(margin) > self.slack
            judged.margin[asked[clear]] = margin[clear]
            judged.codes[asked[clear]] = np.where(kept, KEPT, BROKEN)[clear]

    def _run(self, rows: Overview, wanted: Ints, radius: bool, judged: Judged) -> None:
        """Run the model on its reading of some promises; certain promises stay certain."""
        model = self.newcomer.decision
        readable = np.ones(len(wanted), dtype=np.bool_)
        if isinstance(model, Scored):
            model, points, readable = self._scored(model, rows.counterfactuals(wanted))
        elif self.same:
            points = rows.points(wanted)
        else:
            points, readable = self._read_again(rows.counterfactuals(wanted))
        if not readable.all():
            wanted = wanted[readable]
            points = points[readable]
        if not wanted.size:
            return
        targets = self._targets(model, rows.targets[wanted])
        margin, kept = _decided(model, model.logits(points), targets)
        open_rows = judged.codes[wanted] == UNREADABLE
        judged.margin[wanted[open_rows]] = margin[open_rows]
        judged.codes[wanted[open_rows]] = np.where(kept, KEPT, BROKEN)[open_rows]
        if radius:
            kept = judged.codes[wanted] <= KEPT
            judged.left[wanted[kept]] = (
                self._left(model, points[kept], targets[kept]) if kept.any() else np.nan
            )

    def _targets(self, model: Classifier, promised: NDArray[np.uint16]) -> Ints:
        """The positions of the promised classes in the new model."""
        targets = self.places[promised]
        for code in np.unique(promised[targets < 0]):
            label = self.terms.classifier.classes.tolist()[code]
            try:
                self.places[code] = model.class_index(label)
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"model: expected one with the promised class {label!r}, got the classes "
                    f"{model.classes.tolist()}"
                ) from error
        return self.places[promised] if (targets < 0).any() else targets

    def _scored(self, model: Scored, raw: pd.DataFrame) -> tuple[Scored, Floats, Bools]:
        """A model that reads the promised rows themselves, and a mask of the rows that it can read.

        An error inside the caller's function is not a fault of a row: a service may be unavailable.
        """
        rows = restored_rows(self.terms.space, raw)
        readable = np.ones(len(rows), dtype=np.bool_)
        loaded = self.newcomer.loaded
        asked, places = model.about(rows)
        assert isinstance(loaded.classifier, Scored)
        if loaded.classifier.predict_labels is not None:
            readable = accepted_rows(loaded, rows, self.terms.space)
        return asked, places, readable

    def _left(self, model: Classifier, points: Floats, targets: Ints) -> Floats | float:
        """Largest further change of the model, in the unit of the promise; nan if it is not known."""
        kind = None if self.terms.changes is None else self.terms.changes.moving(None)
        if isinstance(kind, Ellipsoid):
            fits = (
                isinstance(model, Network)
                and not model.hidden
                and model.n_parameters == len(kind.shape)
            )
        elif isinstance(kind, TreeChanges):
            old = self.terms.classifier
            fits = (
                isinstance(old, TreeEnsemble)
                and isinstance(model, TreeEnsemble)
                and old.forest.same_structure(model.forest)
                and old.score.names == model.score.names
            )
        elif isinstance(kind, PlausibleChanges | None):
            kind, fits = measured_along(kind), isinstance(model, Network)
        else:
            kind, fits = PlausibleShift(0.0), True
        return radius_of_points(Model(model), points, targets, kind).lower if fits else np.nan

    def _read_again(self, raw: pd.DataFrame) -> tuple[Floats, Bools]:
        """Promised rows as the new model reads them from raw units, and a mask of the readable rows."""
        loaded = self.newcomer.loaded
        points = np.zeros((len(raw), loaded.network.n_features))
        if self.space is None:
            promised = restored_rows(self.terms.space, raw)
            readable = accepted_rows(loaded, promised, self.terms.space)
            if readable.any():
                points[readable] = loaded.variables(own_columns(loaded, promised[readable]))
            return points, readable
        readable = readable_rows(self.space, raw)
        if readable.any():
            points[readable] = self.space.encode(raw[readable])
        return points, readable


def _decided(model: Classifier, logits: Floats, targets: Ints) -> tuple[Floats, Bools]:
    """The margin of each target over its strongest rival, and a mask of the targets that the model chooses."""
    kept = np.asarray(model.winners(logits) == targets)
    if model.n_outputs == 1:
        return np.where(targets == 1, logits[:, 0], -logits[:, 0]), kept
    rows = np.arange(len(targets))
    own = logits[rows, targets]
    rivals = logits.copy()
    rivals[rows, targets] = -np.inf
    return own - rivals.max(axis=1), kept
