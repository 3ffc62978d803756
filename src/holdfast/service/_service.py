"""The service without HTTP: a model, a space, Δ and a generator, prepared once."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._given import positive_number, whole_number
from holdfast._network import Network
from holdfast.changes import Changes
from holdfast.errors import HoldfastError, HoldfastWarning, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators import Generator, Recourse, explain
from holdfast.generators._candidates import read_ahead
from holdfast.generators._measured import misfits
from holdfast.importers import Model, load_model
from holdfast.promises import Ledger, audit
from holdfast.promises._ledger_file import ErasedError
from holdfast.promises._ledger_record import read_keys
from holdfast.promises._pages import plain_rows, restored_rows
from holdfast.service._body import (
    check_fields,
    read_network,
    read_people,
    read_target,
    read_time,
)
from holdfast.verify import Certificates, Verdict, prepare
from holdfast.verify._fingerprint import fingerprint, leave_out

ASKED = ("people", "keys", "target", "time_limit")
# The fields of each request, in the order of the error message.
TOTALS = ("promises", "kept", "totals")
FIELDS = {"certify": ASKED, "explain": ASKED, "audit": ("network",)}


class UnavailableError(HoldfastError):
    """The service cannot answer now; the request is valid."""


@dataclass(frozen=True)
class RequestLimits:
    """Limits of one request, and of all waiting requests.

    Parameters
    ----------
    body
        Bytes of a request.
    people
        Rows of a request.
    seconds
        Processor time of a request, shared among its people. Rows that are undecided by then are UNKNOWN, or have no
        advice. An audit, the arrival of a header or a body, and the wait in the queue have the same limit by the clock.
    waiting
        Requests that wait for their turn; further ones get 503.
    """

    body: int = 1_000_000
    people: int = 1000
    seconds: float = 10.0
    waiting: int = 64

    def __post_init__(self) -> None:
        for name in ("body", "people", "waiting"):
            whole_number(getattr(self, name), name, least=1)
        positive_number(self.seconds, "seconds")


class Service:
    """A prepared model, space and Δ, which all requests share.

    Results equal those of the library to the last bit. `certify`, `explain` and `audit` take the JSON object of a
    request and its deadline, and return the JSON object of the response.

    Parameters
    ----------
    model, space, changes, threshold
        As for `certify`.
    target
        The class that people want, if a request names none.
    generator
        The generator of advice; None: no `explain`.
    ledger, secret
        The ledger that records every piece of advice before the response, and its secret; None: no ledger.
    radius
        Whether the ledger also records the certified radius, if the request's time suffices.
    audited
        Whether the ledger can be audited. Default: no, because totals, too, reveal something about its people.
    seed
        The seed of the generator.
    limits
        The limits of requests.

    Examples
    --------
    >>> import holdfast as hf
    >>> space = hf.FeatureSpace.from_frame(pd.DataFrame({"debt": [0.0, 1.0], "income": [0.0, 1.0]}))
    >>> net = hf.Network([[[-1.0, 1.0]]], [[0.0]])
    >>> service = Service(net, space=space, changes=hf.PlausibleChanges(0.1, biases=False), target=1)
    >>> answer = service.certify({"people": [{"debt": 0.7, "income": 0.9}]})
    >>> answer["people"][0]["verdict"], answer["people"][0]["words"]
    ('ROBUST', 'proven')
    """

    def __init__(
        self,
        model: object,
        *,
        space: FeatureSpace,
        changes: Changes,
        target: Any,
        generator: Generator | None = None,
        ledger: str | os.PathLike[str] | None = None,
        secret: str | bytes | None = None,
        radius: bool = True,
        audited: bool = False,
        seed: int = 0,
        limits: RequestLimits | None = None,
        threshold: Any = None,
    ) -> None:
        self.model: Model = load_model(model, threshold)
        self.prepared = prepare(self.model, changes.calibrated(None), space=space)
        self.space, self.changes = space, self.prepared.decider.changes
        self.generator, self.seed, self.radius = generator, seed, radius
        self.ledger, self.secret, self.limits = ledger, secret, limits or RequestLimits()
        classifier = self.prepared.model.classifier
        index = classifier.class_index(target)
        self.target = classifier.classes.tolist()[index]
        if changes.chance is not None:
            reasons = ["it is about advice, and no generator is given"]
            if generator is not None:
                targets = np.array([index])
                reasons = misfits(generator, changes, self.prepared.model, space, targets)
            if reasons:
                leave_out("chance", "; ".join(reasons), "risk_calibrated")
            else:
                self.changes = self.changes.calibrated(changes.chance)
        if generator is not None:
            read_ahead(generator, space, classifier)
        if audited and ledger is None:
            raise InvalidInputError("audited=True also needs ledger=")
        self.audited = audited
        if ledger is not None:
            # A ledger that cannot be opened is refused now, not at the first promise.
            Ledger(ledger, secret=secret).close()

    @property
    def paths(self) -> tuple[str, ...]:
        """The requests that it serves."""
        without = {"explain": self.generator is None, "audit": not self.audited}
        return tuple(name for name in FIELDS if not without.get(name))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The facts of every response: the model, the proven set of models and the measured chance."""
        known = self.prepared.decider.changes
        return {
            "model": fingerprint(self.model.recorded[0]),
            "changes": known.bare.to_dict(),
            "proven_of": known.every_model,
            **_measured(known),
        }

    def certify(self, document: Mapping[str, Any], deadline: Deadline = NO_LIMIT) -> dict[str, Any]:
        """Does each person keep the class under every plausible model?"""
        check_fields(document, FIELDS["certify"])
        people, target = self._people(document), read_target(document, self.target)
        deadline = self._deadline(document, deadline)
        certificates = self.prepared.certify(people, target, time_limit=_left(deadline))
        rows = [
            {**key, **certificate, "point": point}
            for key, certificate, point in zip(
                _keys(people), _certified(certificates), certificates.points.tolist(), strict=True
            )
        ]
        return {**self.facts, "target": target, "people": rows}

    def explain(self, document: Mapping[str, Any], deadline: Deadline = NO_LIMIT) -> dict[str, Any]:
        """Find advice for each person and certify it. A ledger records it before the response."""
        check_fields(document, FIELDS["explain"])
        assert self.generator is not None
        people, target = self._people(document), read_target(document, self.target)
        if self.ledger is not None:
            if "keys" not in document:
                raise InvalidInputError(
                    "keys: expected one for each person, to record promises, got none"
                )
            read_keys(people.index, len(people))
        # The certificates get as much time as the search, and every person the same.
        deadline = self._deadline(document, deadline)
        each = _left(deadline) / (2 * len(people))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HoldfastWarning)
            advice = explain(
                self.model, people, target=target, changes=self.changes, generator=self.generator,
                space=self.space, seed=self.seed, time_limit=each, progress=False,
            )  # fmt: skip
        remarks = [str(one.message) for one in caught if issubclass(one.category, HoldfastWarning)]
        assert advice.changes is not None
        answer = {
            **self.facts,
            **_measured(advice.changes),
            "target": target,
            "people": self._advice(advice),
            "warnings": remarks,
        }
        return (
            answer if self.ledger is None else {**answer, "ledger": self._record(advice, deadline)}
        )

    def audit(
        self, document: Mapping[str, Any], deadline: Deadline = NO_LIMIT, *, auditor: bool = True
    ) -> dict[str, Any]:
        """Audit the ledger for this model, or for a model that an auditor sends. Others get totals only.

        A made-up model could reveal every promise in the ledger, one at a time.
        """
        check_fields(document, FIELDS["audit"])
        if document and not auditor:
            raise InvalidInputError(
                "network: another model can be audited only with the auditor's token"
            )
        assert self.ledger is not None
        model = read_network(document) or self.model
        # A ledger is created with its first promise.
        if not os.path.exists(self.ledger) or not os.path.getsize(self.ledger):
            raise UnavailableError("audit: the ledger has no promises yet")
        result = audit(self.ledger, model, progress=False)
        if not auditor:
            return {name: value for name, value in result.to_dict().items() if name in TOTALS}
        broken = result.contact_list().head(self.limits.people).reset_index().to_dict("records")
        rows = [{**row, "margin": _plain(row["margin"])} for row in broken]
        return {**result.to_dict(), "words": result.words, "not_kept": rows}

    # ------------------------------------------------------------------ parts

    def _deadline(self, document: Mapping[str, Any], deadline: Deadline) -> Deadline:
        """The end of the request's time, at most that of the service."""
        return deadline.within(read_time(document, self.limits.seconds))

    def _people(self, document: Mapping[str, Any]) -> pd.DataFrame:
        people = read_people(document, self.space, self.limits.people)
        if self.model.preprocess is None and isinstance(self.model.classifier, Network):
            return people
        # Other models read the table in the dtypes of their training.
        return restored_rows(self.space, people, people.index)

    def _advice(self, advice: Recourse) -> list[dict[str, Any]]:
        """The advice of each row, in the caller's units and as the certified point."""
        names, rows = [*map(str, self.space.names)], advice.answered
        certified = advice.certificates
        proven = iter(_certified(certified) if certified is not None else [{}] * rows.size)
        numbers = advice.people.numbers[rows], advice.answers
        before, after = (iter(plain_rows(self.space, both)) for both in numbers)
        people = []
        for row, key in enumerate(_keys(advice.factuals)):
            reason = advice.reason[row]
            said = {
                **key,
                "found": bool(advice.found[row]),
                "reason": str(reason),
                "proven_impossible": reason.kind.proven,
            }
            if advice.found[row]:
                old, new = next(before), next(after)
                moves = [
                    {"column": name, "from": a, "to": b}
                    for name, a, b in zip(names, old, new, strict=True)
                    if a != b
                ]
                said |= {
                    "counterfactual": dict(zip(names, new, strict=True)),
                    "moves": moves,
                    "advice": advice.describe(row),
                    "cost_l1": _plain(advice.cost_l1[row]),
                    "optimality_gap": _plain(advice.optimality_gap[row]),
                    **next(proven),
                    "point": advice.points[row].tolist(),
                    "chance": advice.chance(row) is not None,
                }
            people.append(said | {"lower_bound": _plain(advice.lower_bound[row])})
        return people

    @cached_property
    def _book(self) -> Ledger:
        """The ledger, opened by the one thread that writes to it."""
        assert self.ledger is not None
        return Ledger(self.ledger, secret=self.secret)

    def _record(self, advice: Recourse, deadline: Deadline) -> dict[str, Any]:
        """Record the advice with its verdicts on the disk; radii as far as time suffices."""
        try:
            receipt = self._book.add_answered(advice, deadline, radius=self.radius)
        except ErasedError:
            raise
        except HoldfastError as error:
            raise UnavailableError(
                f"ledger: nothing was recorded, so nothing is promised: {error}"
            ) from error
        return vars(receipt)

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens the ledger itself.
        return {name: value for name, value in vars(self).items() if name != "_book"}


def _left(deadline: Deadline) -> float:
    """The seconds left, more than 0."""
    return max(deadline.left() or 0.0, 1e-9)


def _keys(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The key of each person, or the row in the request."""
    name = str(table.index.name or "row")
    return [{name: key} for key in table.index.tolist()]


def _certified(certificates: Certificates) -> list[dict[str, Any]]:
    """Verdict, margins and stage of each row; null means unknown or infinite."""
    margins = certificates.margin_lower, certificates.margin_upper
    return [
        {
            "verdict": verdict.name,
            "words": verdict.words,
            "robust": verdict is Verdict.ROBUST,
            "margin_lower": _plain(lower),
            "margin_upper": _plain(upper),
            "decided_by": name,
        }
        for verdict, lower, upper, name in zip(
            certificates.verdict, *margins, certificates.decided_by, strict=True
        )
    ]


def _measured(changes: Changes) -> dict[str, str | None]:
    return {"measured_not_proven": ". ".join(map(str, changes.measured)) or None}


def _plain(value: float | np.floating[Any]) -> float | None:
    return float(value) if math.isfinite(value) else None
