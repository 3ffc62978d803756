"""Recourse: ways to find it, and `explain`, which checks and certifies whatever they find."""

from holdfast.generators.alternatives import alternatives
from holdfast.generators.base import Generator, Proposals, ReasonKind, RecourseReason, Task
from holdfast.generators.closest import Closest
from holdfast.generators.explain import explain
from holdfast.generators.gce import GCE
from holdfast.generators.mce import MCE
from holdfast.generators.nearest import NNCE
from holdfast.generators.proto import PROTO
from holdfast.generators.rbr import RBR
from holdfast.generators.reasons import main_reasons
from holdfast.generators.recourse import Recourse
from holdfast.generators.rnce import RNCE, CertifiedCandidates
from holdfast.generators.roar import ROAR
from holdfast.generators.robust import Robust
from holdfast.generators.stce import STCE

__all__ = [
    "GCE",
    "MCE",
    "NNCE",
    "PROTO",
    "RBR",
    "RNCE",
    "ROAR",
    "STCE",
    "CertifiedCandidates",
    "Closest",
    "Generator",
    "Proposals",
    "ReasonKind",
    "Recourse",
    "RecourseReason",
    "Robust",
    "Task",
    "alternatives",
    "explain",
    "main_reasons",
]
