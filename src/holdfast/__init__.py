"""holdfast: recourse that survives retraining, with a proof.

The path of the data, and where each step lives:

    model     network, importers     a classifier becomes a `Network`: affine layers, ReLU, logits
    features  features               columns, units and what a person can change, to and from the model's variables
    changes   changes                Δ: every network whose parameters lie within delta of today's
    certify   bounds, milp, verify   does a point keep its class under every network in Δ? a proof, or a counter-model
    explain   generators             what someone could change to be accepted, certified as it is handed out
"""

from holdfast.changes import PlausibleChanges, parameter_distance
from holdfast.errors import HoldfastError
from holdfast.features import FeatureSpace
from holdfast.generators import MCE, NNCE, RNCE, Closest, Recourse, Robust, alternatives, explain
from holdfast.importers import load_model, load_network
from holdfast.network import Network
from holdfast.verify import Certificates, Verdict, certified_radius, certify, output_bounds

__version__ = "0.1.0"

__all__ = [
    "MCE",
    "NNCE",
    "RNCE",
    "Certificates",
    "Closest",
    "FeatureSpace",
    "HoldfastError",
    "Network",
    "PlausibleChanges",
    "Recourse",
    "Robust",
    "Verdict",
    "alternatives",
    "certified_radius",
    "certify",
    "explain",
    "load_model",
    "load_network",
    "output_bounds",
    "parameter_distance",
]
