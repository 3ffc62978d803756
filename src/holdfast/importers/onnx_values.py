"""What flows along the edges of an ONNX graph while it is followed, and the node that takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import UnsupportedModelError
from holdfast.importers.chain import Chain


@dataclass(frozen=True)
class Complement:
    """1 - p, with p the probability that a chain ends in."""

    chain: Chain


@dataclass(frozen=True)
class Scores:
    """One column for each class: (1 - p, p) of a single logit, or what a LinearClassifier gives."""

    chain: Chain


@dataclass(frozen=True)
class Labels:
    """The class of each row."""

    chain: Chain


Value = Chain | Complement | Scores | Labels | NDArray[Any]


@dataclass(frozen=True)
class Operation:
    """One node: its operator, what it is applied to, its attributes, and the rows the graph was exported for or 0."""

    kind: str
    label: str
    inputs: list[Value | None]
    attributes: dict[str, Any]
    rows: int

    @property
    def chain(self) -> Chain:
        """The first input, which must have been computed from the graph's input."""
        value = self.inputs[0]
        if not isinstance(value, Chain):
            raise self.refused("expected its first input to be a table computed from the model's input")
        return value

    def constant(self, position: int) -> NDArray[Any] | None:
        """An input that must be stored in the graph; None where it is left out."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is not None and not isinstance(value, np.ndarray):
            raise self.refused(f"expected input {position} to be stored in the graph, got a computed value")
        return value

    def weights(self, position: int) -> NDArray[Any]:
        """A constant matrix."""
        value = self.constant(position)
        if value is None or value.ndim != 2:
            raise self.refused(f"expected input {position} to be a matrix of weights")
        return value

    def check_axis(self, default: int) -> None:
        """Refuse to work along any other axis than the columns."""
        axis = self.attributes.get("axis", default)
        if axis not in (1, -1):
            raise self.refused(f"expected axis 1, the columns, got axis {axis}")

    def refused(self, reason: str) -> UnsupportedModelError:
        """The error that names this node."""
        return UnsupportedModelError(f"{self.label}: {reason}")
