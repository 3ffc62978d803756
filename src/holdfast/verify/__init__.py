"""Does a point keep its class under every model in Δ? A proof, or a counter-model.

certify    certify              the question and its answer for a whole table
outputs    output_bounds        the range of each logit
radius     certified_radius     how far the model may drift before the class can change
engine     Engine               what all of them ask: one network and Δ, prepared, and the table of stages
attack, search, exact           the stages; exact also writes down proofs for others to check
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
