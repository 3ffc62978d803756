"""The interface as an OpenAPI document, made of the service's own columns."""

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
    "422": "Malformed or unfit; the error says which row and column, what was expected and what came.",
    "503": "Busy, or the ledger cannot be written: nothing was promised. Retry-After says when to ask again.",
}
_PURPOSE = {
    "certify": "Does each person keep the class under every plausible model?",
    "explain": "What could each person change to get the class, and does that survive retraining?",
    "audit": "Which promises in the ledger does this model keep, or the one that is sent?",
}


def openapi(service: Service) -> dict[str, Any]:
    """The document: paths, what goes in, what comes out, in the caller's columns and units."""
    limits, facts = service.limits, service.facts
    example = {str(feature.name): _example(feature) for feature in service.space.features}
    asked = _object(
        {
            "people": {"type": "array", "items": _ref("Person"), "minItems": 1, "maxItems": limits.people},
            "keys": _array({"type": ["string", "integer"], "maxLength": LONGEST_KEY},
                           "Who they are, each once, one for each; needed to record promises."),
            "target": {"description": "The class asked for.", "default": service.target},
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
        "Error": _object({"error": {**_TEXT, "description": "What was expected, and what came."}}),
        **{f"{name.capitalize()}Answer": _answer(name) for name in service.paths},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "holdfast",
            "version": holdfast.__version__,
            "description": f"ROBUST is proven of {facts['proven_of']}. "
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
    "robust": {"type": "boolean", "description": "Proven, not likely."},
    "margin_lower": {**_NUMBER, "description": "The margin of no plausible model falls below this."},
    "margin_upper": {**_NUMBER, "description": "The margin of some plausible model does not exceed this."},
    "decided_by": {**_TEXT, "description": "Which stage settled it."},
    "point": {"type": "array", "items": {"type": "number"}, "description": "What was certified, as the model has it."},
}  # fmt: skip
_ADVICE = {
    "found": {"type": "boolean"},
    "reason": {**_TEXT, "description": "Why there is no answer."},
    "proven_impossible": {"type": "boolean", "description": "Whether it is proven that there is none."},
    "moves": {"type": "array", "items": {"type": "object"}, "description": "Each column that changes, from and to."},
    "advice": {**_TEXT, "description": "The same in words."},
    "cost_l1": {**_NUMBER, "description": "The mean change over the model's variables."},
    "optimality_gap": {**_NUMBER, "description": "How far, relatively, the cost may lie above the least; 0 is proven."},
    "lower_bound": {**_NUMBER, "description": "A proven lower bound on cost_l1."},
    "chance": {"type": "boolean", "description": "Whether the chance that was measured is about this person."},
}  # fmt: skip
_SHOWN = {
    "/health": ("Whether the service is up; needs no token.", "application/json"),
    "/metrics": ("Counters and times as Prometheus reads them.", "text/plain"),
    "/openapi.json": ("This document.", "application/json"),
    "/": ("This document.", "application/json"),
}


def _answer(name: str) -> dict[str, Any]:
    if name == "audit":
        fields: dict[str, Any] = {
            "words": _TEXT,
            "kept": {"type": "boolean"},
            "promises": {"type": "integer"},
            "totals": {"type": "object", "description": "How many promises have each status."},
            "not_kept": {"type": "array", "items": {"type": "object"}, "description": "Whose promises, and why."},
            "groups": {"type": "array", "items": {"type": "object"}, "description": "By what they were made under."},
        }  # fmt: skip
        return _object(fields)
    rows = _ref("Certified" if name == "certify" else "Advice")
    fields = {
        "people": {"type": "array", "items": rows, "description": "In the order asked; key, or row from 0."},
        "target": {"description": "The class asked for."},
        "model": {**_TEXT, "description": "The hash of the model's parameters."},
        "changes": {"type": "object", "description": "Δ, with every digit."},
        "proven_of": {**_TEXT, "description": "Of which models ROBUST is proven."},
        "measured_not_proven": {"type": ["string", "null"], "description": "What was measured of Δ."},
    }  # fmt: skip
    if name == "explain":
        fields["warnings"] = _array(_TEXT, "What may not be what was meant.")
        fields["ledger"] = {
            "type": "object",
            "description": "What was recorded, and the ledger's head.",
        }
    return _object(fields)


def _network() -> dict[str, Any]:
    whose = "What is to come, as `Network` takes it; without it, the model that the service answers for."
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
            "200": _content("The answer.", _ref(f"{name.capitalize()}Answer")),
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
    """A column's schema; its range is where changes may lead, and binds nobody who is asked about."""
    said: dict[str, Any] = {}
    if feature.labelled:
        said["enum"] = [*feature.categories, *([None] if feature.missing else [])]
    else:
        kind = "integer" if feature.precision == "integer" else "number"
        said["type"] = [kind, "null"] if feature.missing else kind
        ends = [f"{end:,.10g}" for end in (feature.lower, feature.upper) if math.isfinite(end)]
        said["description"] = f"A change leads to {' … '.join(ends)}" if len(ends) == 2 else ""
    words = [said.get("description", ""), feature.unit, str(feature.direction)]
    return said | {"description": ", ".join(word for word in words if word)}


def _example(feature: Feature) -> Any:
    """A made-up value in the middle of the range; nobody's."""
    if feature.labelled:
        return feature.categories[0]
    ends = [end for end in (feature.lower, feature.upper) if math.isfinite(end)]
    middle = sum(ends) / len(ends) if ends else 0.0
    return round(middle) if feature.precision == "integer" else float(f"{middle:.3g}")
