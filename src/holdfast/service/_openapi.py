"""The interface as an OpenAPI document, with the service's own columns."""

from __future__ import annotations

import math
from typing import Any

import holdfast
from holdfast.features._feature import Feature
from holdfast.service._body import LONGEST_KEY
from holdfast.service._service import Service
from holdfast.verify import Verdict

_NUMBER = {"type": ["number", "null"]}
_TEXT = {"type": "string"}
_WHY = {
    "401": "The token is missing or wrong.",
    "408": "The body did not arrive in time.",
    "413": "More bytes or people than the limits allow.",
    "415": "The body is not application/json.",
    "422": "The request is invalid; the error names the row, the column, the expected value and the given one.",
    "503": "The service is busy, or the ledger cannot be written. Nothing was promised; see Retry-After.",
}
_PURPOSE = {
    "certify": "Does each person keep the class under every plausible model?",
    "explain": "What could each person change to get the class, and does that survive retraining?",
    "audit": "Which promises in the ledger does this model, or the model in the request, keep?",
}


def openapi(service: Service) -> dict[str, Any]:
    """The document: paths, requests and responses, in the caller's columns and units."""
    limits, facts = service.limits, service.facts
    example = {str(feature.name): _example(feature) for feature in service.space.features}
    asked = _object(
        {
            "people": {"type": "array", "items": _ref("Person"), "minItems": 1, "maxItems": limits.people},
            "keys": _array({"type": ["string", "integer"], "maxLength": LONGEST_KEY},
                           "One key for each person, each key once; needed to record promises."),
            "target": {"description": "The class that people want.", "default": service.target},
            "time_limit": {"type": "number", "exclusiveMinimum": 0, "maximum": limits.seconds,
                           "description": "Seconds of processor time for the request."},
        },
        required=["people"],
        example={"people": [example], "keys": ["A-1"], "target": service.target},
    )  # fmt: skip
    schemas = {
        "Person": _object({str(f.name): _column(f) for f in service.space.features}, closed=True),
        "Asked": asked,
        "Network": _network(),
        "Certified": _object(_CERTIFIED),
        "Advice": _object(_ADVICE | _CERTIFIED | {"counterfactual": _ref("Person")}),
        "Error": _object(
            {"error": {**_TEXT, "description": "The expected value and the given one."}}
        ),
        **{f"{name.capitalize()}Answer": _answer(name) for name in service.paths},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "holdfast",
            "version": holdfast.__version__,
            "description": f"ROBUST is proven for {facts['proven_of']}. "
            + (
                f"Measured, not proven: {'. '.join(map(str, service.changes.measured))}. "
                if service.changes.measured
                else ""
            )
            + "UNKNOWN is neither proven nor broken. Numbers read back to the certified point, bit for bit.",
        },
        "paths": {
            **{f"/{name}": {"post": _operation(name)} for name in service.paths},
            **{path: {"get": _shown(words, kind)} for path, (words, kind) in _SHOWN.items()},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


_CERTIFIED = {
    "verdict": {"enum": [verdict.name for verdict in Verdict]},
    "words": {"enum": [verdict.words for verdict in Verdict]},
    "robust": {"type": "boolean", "description": "True: proven for all of Δ."},
    "margin_lower": {**_NUMBER, "description": "Proven lower bound of the margin over Δ."},
    "margin_upper": {**_NUMBER, "description": "Upper bound of the least margin over Δ."},
    "decided_by": {**_TEXT, "description": "The stage that decided."},
    "point": {"type": "array", "items": {"type": "number"}, "description": "The certified point (model variables)."},
}  # fmt: skip
_ADVICE = {
    "found": {"type": "boolean"},
    "reason": {**_TEXT, "description": "Why there is no advice."},
    "proven_impossible": {"type": "boolean", "description": "True: it is proven that no advice exists."},
    "moves": {"type": "array", "items": {"type": "object"}, "description": "The changed columns, with both values."},
    "advice": {**_TEXT, "description": "The advice in words."},
    "cost_l1": {**_NUMBER, "description": "The mean change over the model's variables."},
    "optimality_gap": {**_NUMBER, "description": "Largest excess over the least cost, as a share; 0: proven cheapest."},
    "lower_bound": {**_NUMBER, "description": "Proven lower bound of cost_l1."},
    "chance": {"type": "boolean", "description": "True: the measured chance applies to this person."},
}  # fmt: skip
_SHOWN = {
    "/health": ("The state of the service; needs no token.", "application/json"),
    "/metrics": ("Counters and times for Prometheus.", "text/plain"),
    "/openapi.json": ("This document.", "application/json"),
    "/": ("This document.", "application/json"),
}


def _answer(name: str) -> dict[str, Any]:
    if name == "audit":
        fields: dict[str, Any] = {
            "words": _TEXT,
            "kept": {"type": "boolean"},
            "promises": {"type": "integer"},
            "totals": {"type": "object", "description": "The number of promises by status."},
            "not_kept": {"type": "array", "items": {"type": "object"}, "description": "Promises that are not kept."},
            "groups": {"type": "array", "items": {"type": "object"}, "description": "The promises by model and Δ."},
        }  # fmt: skip
        return _object(fields)
    rows = _ref("Certified" if name == "certify" else "Advice")
    fields = {
        "people": {"type": "array", "items": rows, "description": "In the order of the request; key, or row from 0."},
        "target": {"description": "The class that people want."},
        "model": {**_TEXT, "description": "The hash of the model's parameters."},
        "changes": {"type": "object", "description": "Δ, with every digit."},
        "proven_of": {**_TEXT, "description": "The models for which ROBUST is proven."},
        "measured_not_proven": {"type": ["string", "null"], "description": "The measured chance of Δ."},
    }  # fmt: skip
    if name == "explain":
        fields["warnings"] = _array(_TEXT, "Warnings about arguments that look unintended.")
        fields["ledger"] = {
            "type": "object",
            "description": "The number of recorded promises, and the ledger's head.",
        }
    return _object(fields)


def _network() -> dict[str, Any]:
    whose = "The new model, with the arguments of `Network`. Without it: the service's own model."
    fields = {
        "weights": _array({}),
        "biases": _array({}),
        "classes": _array({}),
        "activations": _array(_TEXT),
    }
    return _object(
        {"network": _object(fields, required=["weights", "biases"]) | {"description": whose}}
    )


def _operation(name: str) -> dict[str, Any]:
    body = _ref("Network" if name == "audit" else "Asked")
    return {
        "summary": _PURPOSE[name],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": _content("The result.", _ref(f"{name.capitalize()}Answer")),
            **{status: _content(words, _ref("Error")) for status, words in _WHY.items()},
        },
    }


def _shown(words: str, kind: str) -> dict[str, Any]:
    return {"summary": words, "responses": {"200": {"description": words, "content": {kind: {}}}}}


def _content(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}


def _object(
    properties: dict[str, Any],
    *,
    required: list[str] | None = None,
    closed: bool = False,
    **more: Any,
) -> dict[str, Any]:
    needed = list(properties) if closed else required
    return {
        "type": "object",
        "properties": properties,
        **({"required": needed} if needed else {}),
        **({"additionalProperties": False} if closed else {}),
        **more,
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _array(items: dict[str, Any], words: str = "") -> dict[str, Any]:
    return {"type": "array", "items": items, **({"description": words} if words else {})}


def _column(feature: Feature) -> dict[str, Any]:
    """A column's schema; its range limits advice, not the people in a request."""
    said: dict[str, Any] = {}
    if feature.labelled:
        said["enum"] = [*feature.categories, *([None] if feature.missing else [])]
    else:
        kind = "integer" if feature.precision == "integer" else "number"
        said["type"] = [kind, "null"] if feature.missing else kind
        ends = [f"{end:,.10g}" for end in (feature.lower, feature.upper) if math.isfinite(end)]
        said["description"] = f"Advice is in {' … '.join(ends)}" if len(ends) == 2 else ""
    words = [said.get("description", ""), feature.unit, str(feature.direction)]
    return said | {"description": ", ".join(word for word in words if word)}


def _example(feature: Feature) -> Any:
    """A made-up value in the middle of the range."""
    if feature.labelled:
        return feature.categories[0]
    ends = [end for end in (feature.lower, feature.upper) if math.isfinite(end)]
    middle = sum(ends) / len(ends) if ends else 0.0
    return round(middle) if feature.precision == "integer" else float(f"{middle:.3g}")
