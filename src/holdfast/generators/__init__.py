"""Recourse: ways to find it, and `explain`, which checks and certifies whatever they find."""

from holdfast.generators.alternatives import alternatives
from holdfast.generators.base import Generator, Proposals, Task
from holdfast.generators.closest import Closest
from holdfast.generators.explain import explain
from holdfast.generators.mce import MCE
from holdfast.generators.nearest import NNCE
from holdfast.generators.recourse import Recourse
from holdfast.generators.rnce import RNCE, CertifiedCandidates
from holdfast.generators.robust import Robust

__all__ = [
    "MCE",
    "NNCE",
    "RNCE",
    "CertifiedCandidates",
    "Closest",
    "Generator",
    "Proposals",
    "Recourse",
    "Robust",
    "Task",
    "alternatives",
    "explain",
]
