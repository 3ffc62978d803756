"""What a promise was made under: the model, its columns and units, its decision threshold, and Δ.

Each is stored once, under the hash of its content, as JSON: nothing is executed when it is read back, and an audit
needs none of the files of that day.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdfast import checker
from holdfast.changes import PlausibleChanges
from holdfast.errors import FileFormatError, HoldfastError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.network import Network
from holdfast.verify.exact import checker_model

_FORMAT, _VERSION = "holdfast-terms", 1


@dataclass(frozen=True, eq=False)
class Terms:
    """The model, the feature space, the threshold and Δ of a promise.

    Attributes
    ----------
    network
        The model as it was trained.
    space
        The promise's columns and units, and how the model reads them.
    changes
        Δ; None where the promise was made without one.
    threshold
        Class 1 from this probability on; 0.5 is a logit of 0.

    Examples
    --------
    >>> from holdfast.generators.reading import own_variables
    >>> from holdfast.importers import Model
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> terms = Terms(net, own_variables(Model(net), None), PlausibleChanges(0.1))
    >>> again = Terms.read(terms.hash, terms.objects().__getitem__)
    >>> again.network == net, again.changes, again.hash == terms.hash
    (True, PlausibleChanges(delta=0.1, norm=inf, biases=True), True)
    """

    network: Network
    space: FeatureSpace
    changes: PlausibleChanges | None
    threshold: float = 0.5

    @cached_property
    def model_hash(self) -> str:
        """The hash of the model's parameters, the same as in a certificate file."""
        return checker_model(self.network).sha256

    @cached_property
    def space_hash(self) -> str:
        """The hash of the feature space, the same as in a certificate file."""
        return checker.space_sha256(self.space.to_dict())

    @cached_property
    def decision(self) -> Network:
        """The network whose logit is >= 0 where the model says class 1: the threshold is in its last bias."""
        return at_threshold(self.network, self.threshold)

    @property
    def norm(self) -> float:
        """The norm in which a promise's radius is measured."""
        return math.inf if self.changes is None else self.changes.norm

    @property
    def biases(self) -> bool:
        """Whether a promise's radius lets the biases move too."""
        return self.changes is None or bool(self.changes.biases)

    @cached_property
    def hash(self) -> str:
        """The hash that stands for all of it in the ledger."""
        return checker.sha256(self._document())

    def objects(self) -> dict[str, bytes]:
        """What is to be stored: each part's content under its hash."""
        parts = (_network_document(self.network), self.space.to_dict(notes=False), self._document())
        return {checker.sha256(part): checker.canonical(part).encode() for part in parts}

    def _document(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "model": self.model_hash,
            "network": checker.sha256(_network_document(self.network)),
            "space": self.space_hash,
            "threshold": self.threshold,
            "changes": None if self.changes is None else self.changes.to_dict(),
        }

    @classmethod
    def read(cls, name: str, fetch: Callable[[str], bytes]) -> Terms:
        """The terms with this hash; `fetch` gives the content stored under a hash."""
        try:
            document = _fetch_json(name, fetch)
            if document.get("format") != _FORMAT or document.get("version") != _VERSION:
                raise FileFormatError(f"terms {name[:12]}: expected {_FORMAT} version {_VERSION}")
            network = _read_network(_fetch_json(document["network"], fetch))
            space = FeatureSpace.from_dict(_fetch_json(document["space"], fetch))
            changes = None if document["changes"] is None else PlausibleChanges.from_dict(document["changes"])
            terms = cls(network, space, changes, float(document["threshold"]))
            if terms.hash != name:
                raise FileFormatError(f"terms {name[:12]}: expected what was written, got parts with other hashes")
        except (KeyError, TypeError, AttributeError, InvalidInputError) as error:
            raise FileFormatError(f"terms {name[:12]}: expected what a ledger writes, got: {error}") from error
        return terms


def at_threshold(network: Network, threshold: float) -> Network:
    """The network that says class 1 from the probability `threshold` on: the last bias lowered by log(t / (1 - t)).

    Examples
    --------
    >>> at_threshold(Network([[[1.0]]], [[0.0]]), 0.75).biases[-1].round(6)
    array([-1.098612])
    """
    if threshold == 0.5:
        return network
    if network.n_outputs != 1:
        raise InvalidInputError(
            f"threshold: expected 0.5 for a model of {network.n_outputs} classes, where the highest logit wins, "
            f"got {threshold}"
        )
    return network.with_parameters(network.weights, [*network.biases[:-1], network.biases[-1] - logit(threshold)])


def logit(threshold: float) -> float:
    """log(t / (1 - t)), where a model that says class 1 from the probability t on changes its mind."""
    return math.log(threshold) - math.log1p(-threshold)


def check_threshold(threshold: Any) -> float:
    """A probability strictly between 0 and 1."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0.0 < threshold < 1.0:
        raise InvalidInputError(f"threshold: expected a probability between 0 and 1, got {threshold!r}")
    return float(threshold)


def _network_document(network: Network) -> dict[str, Any]:
    """The same JSON that the checker reads as a model."""
    model = checker_model(network)
    return {
        "format": "holdfast-network",
        "version": 1,
        "classes": model.classes,
        "activations": model.activations,
        "weights": model.weights,
        "biases": model.biases,
    }


def _read_network(document: Mapping[str, Any]) -> Network:
    return Network(document["weights"], document["biases"], document["classes"], document["activations"])


def _fetch_json(name: str, fetch: Callable[[str], bytes]) -> Any:
    content = fetch(name)
    try:
        document = json.loads(content)
        sound = checker.sha256(document) == name
    except (ValueError, HoldfastError) as error:
        raise FileFormatError(f"object {name[:12]}: expected JSON, got: {error}") from error
    if not sound:
        raise FileFormatError(f"object {name[:12]}: expected content with this hash, got other content")
    return document
