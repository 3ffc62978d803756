"""Sets of models that are defined by their margin at the promised point, without regard to their parameters.

    PlausibleShift   every model M' with  margin_M'(x') >= margin_today(x') - margin
    EnsembleShift    every model M' with  margin_M'(x') >= mean of margin_M_i(x') over some models M_i - margin

A point is therefore robust iff today's margin, or the mean margin, is at least `margin`: a closed form, for any
model. Whether the next model is in this set has to be measured: `risk_calibrated` finds the margin that keeps a
stated share of promises.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from holdfast._files import Document, Facts
from holdfast._network import Network
from holdfast._numbers import at_most
from holdfast.changes._kind import Chance, Changes, Interval
from holdfast.errors import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class PlausibleShift(Changes):
    """Every model whose margin at a promised point is at most `margin` below today's.

    Parameters
    ----------
    margin
        Largest fall of the margin, in the model's own logits (log-odds for models that give probabilities). With
        1.1 a person with 75% today is still accepted by a model that gives 50%. 0 requires only that today's model
        accepts.
    chance
        The measured chance of broken promises; `risk_calibrated` fills it in.
    threshold
        The range of probabilities within which the decision threshold may move, such as ``(0.6, 0.8)``. The proof
        then also covers a change of policy. None keeps the threshold.

    Examples
    --------
    >>> PlausibleShift(0.5)
    PlausibleShift(0.5)
    >>> print(PlausibleShift(0.5).every_model)
    every model whose margin at the promised point is at most 0.5 below today's
    """

    kind: ClassVar[str] = "shift"
    unit: ClassVar[str] = "margin"

    margin: float
    chance: Chance | None = None
    threshold: Interval | None = None

    def in_words(self, number: Callable[[float], str] = at_most) -> str:
        """The margin and the threshold range, in words."""
        return f"a margin at most {number(self.margin)} below today's{self.policy}"

    @property
    def every_model(self) -> str:
        """The models with enough margin, as the subject of a sentence."""
        falls = f"at most {at_most(self.margin)} below today's{self.policy}"
        return f"every model whose margin at the promised point is {falls}"

    def __repr__(self) -> str:
        return f"PlausibleShift({self.margin:g})"


@dataclass(frozen=True, eq=False, repr=False)
class EnsembleShift(Changes):
    """Every model whose margin at a promised point is at most `margin` below the mean of some retrained models.

    If models overfit, the mean of several is steadier than today's model alone, so promises cost less for the same
    share kept. Today's model must accept too.

    Parameters
    ----------
    models
        Retrained models of any kind. Do not use the same models for `risk_calibrated`.
    margin, chance, threshold
        As for `PlausibleShift`; the mean is taken over the models' logits.

    Examples
    --------
    >>> nets = [Network([[[-1.0, 1.0]]], [[bias]]) for bias in (0.1, 0.2)]
    >>> EnsembleShift(nets, 0.5)
    EnsembleShift(2 models, 0.5)
    """

    kind: ClassVar[str] = "ensemble"
    unit: ClassVar[str] = "margin"

    models: tuple[Any, ...] = field(compare=False)
    margin: float
    chance: Chance | None = None
    threshold: Interval | None = None
    # Names of the models' contents: what is left of them in a file.
    digests: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        models: Any = self.models
        if not isinstance(models, Iterable) or isinstance(models, str | bytes):
            raise InvalidInputError(
                f"models: expected a list of retrained models, got {type(models).__name__}"
            )
        models = tuple(models)
        digests = tuple(self.digests) or tuple(map(model_digest, models))
        vars(self).update(models=models, digests=digests)
        super().__post_init__()
        if not self.digests:
            raise InvalidInputError("models: expected at least one retrained model, got none")

    def in_words(self, number: Callable[[float], str] = at_most) -> str:
        """The margin and the number of models, in words."""
        mean = f"the mean of {len(self.digests)} retrained models{self.policy}"
        return f"a margin at most {number(self.margin)} below {mean}"

    @property
    def every_model(self) -> str:
        """Today's model and the models with enough margin, as the subject of a sentence."""
        return f"today's model and every model with {self.words} at the promised point"

    def facts(self) -> Document:
        """The margin and the models' digests, without the models."""
        return {"margin": self.margin, "models": list(self.digests)}

    @classmethod
    def of_facts(cls, facts: Facts) -> Self:
        """Read the values that `facts` wrote, without the models themselves."""
        return cls((), facts["margin"], None, None, tuple(facts["models"]))

    def __repr__(self) -> str:
        return f"EnsembleShift({len(self.digests)} models, {self.margin:g})"


def model_digest(model: Any) -> str:
    """A hash of a model's content."""
    parts = model.__reduce__()[1] if isinstance(model, Network) else model
    try:
        content = pickle.dumps(parts)
    # Whatever cannot be pickled is told apart by being another object.
    except Exception:
        content = repr(id(model)).encode()
    return hashlib.sha256(content).hexdigest()
