"""Decide whether a point keeps its class under every model in Δ, with a proof or a counter-model.

certify    certify              one verdict for each row of a table
outputs    output_bounds        the range of each logit
radius     certified_radius     the largest delta for which each row keeps its class
engine     Engine               one prepared network and Δ, used by all of them, and the table of stages
attack, search, exact           the stages; exact also writes the proofs that the checker reads
witness                         from an adversary's choices to a network
"""

from holdfast.verify._certificates import Certificates
from holdfast.verify._certify import Prepared, certify, prepare
from holdfast.verify._outputs import OutputBounds, output_bounds
from holdfast.verify._radius import CertifiedRadius, certified_radius
from holdfast.verify._verdict import Verdict

__all__ = [
    "Certificates",
    "CertifiedRadius",
    "OutputBounds",
    "Prepared",
    "Verdict",
    "certified_radius",
    "certify",
    "output_bounds",
    "prepare",
]
