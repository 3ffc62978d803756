"""holdfast: recourse that survives retraining, with a proof.

The path of the data, and the package of each step:

    model     network, importers         a classifier becomes a `Network`: affine layers, ReLU, logits
    features  features                   columns, units and what a person can change, to and from the model's variables
    changes   changes                    Δ: every network whose parameters lie within delta of today's
    certify   bounds, milp, verify       does a point keep its class under all of Δ? a proof, or a counter-model
    explain   generators                 advice: changes that get a person accepted, certified in their final form
    delta     retraining, calibration    how far retraining moves a model: the delta to certify against
    promises  promises, checker          certificates that anyone can check, the ledger, the audit of a new model
    compare   metrics, study             the quality of recourse; methods compared; the paper's experiments
    tables    datasets                   public tables with their caveats: `datasets.load("adult")`
    show      presentation               a report of all people, a letter for each person, pictures
    scale     scale                      the same verbs in batches: tables larger than memory, several machines
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from holdfast import datasets, metrics
from holdfast import presentation as presentation
from holdfast._network import Network
from holdfast._scored import scored
from holdfast._trees import TreeEnsemble
from holdfast.calibration import (
    delta_calibrated,
    delta_incremental,
    delta_validation,
    risk_calibrated,
)
from holdfast.changes import (
    Ellipsoid,
    EnsembleShift,
    PlausibleChanges,
    PlausibleShift,
    TreeChanges,
    parameter_distance,
)
from holdfast.errors import HoldfastError, HoldfastWarning
from holdfast.features import FeatureSpace
from holdfast.generators import (
    GCE,
    MCE,
    NNCE,
    PROTO,
    RBR,
    RNCE,
    ROAR,
    STCE,
    Closest,
    Recourse,
    Robust,
    alternatives,
    explain,
    main_reasons,
)
from holdfast.importers import load_model, load_network
from holdfast.retraining import retrain
from holdfast.study import benchmark
from holdfast.verify import Certificates, Verdict, certified_radius, certify, output_bounds, prepare

if TYPE_CHECKING:
    from holdfast.presentation.letters import letters
    from holdfast.presentation.report import report
    from holdfast.promises import (
        Audit,
        Ledger,
        check_certificate,
        promise_expiry,
        save_witness,
        write_certificates,
    )
    from holdfast.promises._audit import audit
    from holdfast.promises._certificate import certificate
    from holdfast.scale import over_batches

__version__ = "0.1.0"

__all__ = [
    "GCE",
    "MCE",
    "NNCE",
    "PROTO",
    "RBR",
    "RNCE",
    "ROAR",
    "STCE",
    "Audit",
    "Certificates",
    "Closest",
    "Ellipsoid",
    "EnsembleShift",
    "FeatureSpace",
    "HoldfastError",
    "HoldfastWarning",
    "Ledger",
    "Network",
    "PlausibleChanges",
    "PlausibleShift",
    "Recourse",
    "Robust",
    "TreeChanges",
    "TreeEnsemble",
    "Verdict",
    "alternatives",
    "audit",
    "benchmark",
    "certificate",
    "certified_radius",
    "certify",
    "check_certificate",
    "datasets",
    "delta_calibrated",
    "delta_incremental",
    "delta_validation",
    "explain",
    "letters",
    "load_model",
    "load_network",
    "main_reasons",
    "metrics",
    "output_bounds",
    "over_batches",
    "parameter_distance",
    "prepare",
    "promise_expiry",
    "report",
    "retrain",
    "risk_calibrated",
    "save_witness",
    "scored",
    "write_certificates",
]

# Looked up when they are first asked for: `python -m holdfast.checker` has to come before whoever imports it.
_LATER = dict.fromkeys(
    [
        "Audit",
        "Ledger",
        "audit",
        "certificate",
        "check_certificate",
        "promise_expiry",
        "save_witness",
        "write_certificates",
    ],
    "holdfast.promises",
) | {
    "letters": "holdfast.presentation.letters",
    "over_batches": "holdfast.scale",
    "report": "holdfast.presentation.report",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
