"""The terms of a promise: the model, its columns and units, its decision threshold, and Δ.

Each part is stored once as JSON, under the hash of its content. No code is run when it is read, and an audit needs no
other file from the time of the promise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdfast import checker
from holdfast._classifier import Classifier
from holdfast._files import Document
from holdfast._network import Network
from holdfast._scored import Scored
from holdfast._tree_document import FORMAT as TREES
from holdfast._tree_document import of_tree_document
from holdfast.changes import Changes, PlausibleChanges, changes_from_dict
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.importers._model import as_network
from holdfast.importers._thresholds import Threshold, at_threshold, check_threshold
from holdfast.verify._exact import parameters
from holdfast.verify._fingerprint import fingerprint, recorded_trees

_FORMAT = "holdfast-terms"
_VERSION = 1
_SCORES = "holdfast-scores"


@dataclass(frozen=True, eq=False)
class Terms:
    """The model, the feature space, the threshold and Δ of a promise.

    Attributes
    ----------
    classifier
        The model as it was trained. A model that is neither a network nor trees is stored by its classes and its name
        only, and cannot be run.
    space
        The promise's columns and units, and their encoding for the model.
    changes
        Δ, or another kind of plausible change; None if the promise was made without one.
    threshold
        The probability from which the model decides for class 1; 0.5 is a logit of 0.
    name
        The `model_hash`, if it comes from a file.

    Examples
    --------
    >>> from holdfast.generators._reading import own_variables
    >>> from holdfast.importers import Model
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> terms = Terms(net, own_variables(Model(net), None), PlausibleChanges(0.1))
    >>> again = Terms.read(terms.hash, terms.objects().__getitem__)
    >>> again.network == net, again.changes, again.hash == terms.hash
    (True, PlausibleChanges(delta=0.1, norm=inf, biases=True), True)
    """

    classifier: Classifier
    space: FeatureSpace
    changes: Changes | None
    threshold: Threshold = 0.5
    name: str = ""

    def __repr__(self) -> str:
        return f"Terms(model {self.model_hash[:12]}, space {self.space_hash[:12]}, {self.changes!r}, {self.threshold})"

    @property
    def network(self) -> Network:
        """The model, if it is a network."""
        return as_network(self.classifier)

    @cached_property
    def model_hash(self) -> str:
        """The identity of the model; see `fingerprint`."""
        return self.name or fingerprint(self.classifier)

    @cached_property
    def space_hash(self) -> str:
        """The hash of the feature space, equal to that in a certificate file."""
        return checker.space_sha256(self.space.to_dict())

    @cached_property
    def decision(self) -> Classifier:
        """The model whose logit is >= 0 if this model decides for class 1: the threshold is in its last bias."""
        return at_threshold(self.classifier, self.threshold)

    @property
    def norm(self) -> float | None:
        """The norm of a promise's radius; None if the radius is no distance between parameters."""
        known = PlausibleChanges(1.0) if self.changes is None else self.changes
        return known.norm if isinstance(known, PlausibleChanges) else None

    def statement(self, verdict: str | None) -> str:
        """The statement of a promise with this verdict about later models: proven and measured parts."""
        today = "the model of that day accepts"
        if self.changes is None or verdict is None:
            return f"{today}; there is no statement about other models"
        if verdict != "ROBUST":
            known = "it is not true" if verdict == "NOT_ROBUST" else "it is not known"
            return f"{today}; {known} that {self.changes.every_model} does"
        measured = "".join(f"; measured, not proven: {one}" for one in self.changes.measured)
        # A margin is measured at the row itself: that a model which keeps it accepts is no theorem about models.
        known = "by its margin" if self.changes.unit == "margin" else "proven"
        return f"{known}: {self.changes.every_model} accepts{measured}"

    @cached_property
    def hash(self) -> str:
        """The hash of all terms in the ledger."""
        return checker.sha256(self._document())

    def objects(self) -> dict[str, bytes]:
        """The content to store, each part under its hash."""
        parts = (self._model_document(), self.space.to_dict(notes=False), self._document())
        return {checker.sha256(part): checker.canonical(part).encode() for part in parts}

    def _document(self) -> Document:
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "model": self.model_hash,
            "network": checker.sha256(self._model_document()),
            "space": self.space_hash,
            "threshold": self.threshold,
            "changes": None if self.changes is None else self.changes.to_dict(),
        }

    def _model_document(self) -> Document:
        """A network, or trees, in the checker's form; for any other model, its identity."""
        if isinstance(self.classifier, Network):
            return parameters(self.classifier)
        if (trees := recorded_trees(self.classifier)) is not None:
            return trees
        classes = self.classifier.classes.tolist()
        return {"format": _SCORES, "version": 1, "classes": classes, "model": self.model_hash}

    @classmethod
    def read(cls, name: str, fetch: Callable[[str], bytes]) -> Terms:
        """Read the terms with this hash; `fetch` returns the content under a hash, which is then checked."""

        def read_object(name: str) -> Any:
            content = fetch(name)
            if hashlib.sha256(content).hexdigest() != name:
                raise FileFormatError(
                    f"object {name[:12]}: expected content with this hash, got other content"
                )
            return json.loads(content)

        try:
            document = read_object(name)
            if document.get("format") != _FORMAT or document.get("version") != _VERSION:
                raise FileFormatError(f"terms {name[:12]}: expected {_FORMAT} version {_VERSION}")
            model = read_object(document["network"])
            known = ""
            classifier: Classifier
            if model["format"] == _SCORES:
                why = "the ledger has only the name of this model"
                known = model["model"]
                classifier = Scored(_not_recorded, tuple(model["classes"]), why=why)
            elif model["format"] == TREES:
                classifier = of_tree_document(model)
            else:
                classifier = Network(
                    model["weights"], model["biases"], model["classes"], model["activations"]
                )
            space = FeatureSpace.from_dict(read_object(document["space"]))
            changes = (
                None if document["changes"] is None else changes_from_dict(document["changes"])
            )
            threshold = document["threshold"]
            threshold = tuple(threshold) if isinstance(threshold, list) else threshold
            terms = cls(classifier, space, changes, check_threshold(threshold, classifier), known)
        except (KeyError, TypeError, AttributeError, ValueError, InvalidInputError) as error:
            raise FileFormatError(
                f"terms {name[:12]}: expected what a ledger writes, got: {error}"
            ) from error
        # Every part was held against its hash, so the hash of all is known: it need not be computed again.
        vars(terms)["hash"] = name
        return terms


def _not_recorded(table: Any) -> Any:
    raise InvalidInputError("model: this model cannot be run, because the ledger has only its name")
