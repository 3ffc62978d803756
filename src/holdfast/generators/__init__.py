"""Recourse: ways to find it, and `explain`, which checks and certifies their results."""

from holdfast.generators._alternatives import alternatives
from holdfast.generators._base import Generator, Proposals, ReasonKind, RecourseReason, Task
from holdfast.generators._closest import Closest
from holdfast.generators._explain import explain
from holdfast.generators._gce import GCE
from holdfast.generators._mce import MCE
from holdfast.generators._nearest import NNCE
from holdfast.generators._proto import PROTO
from holdfast.generators._rbr import RBR
from holdfast.generators._reasons import main_reasons
from holdfast.generators._recourse import Recourse
from holdfast.generators._rnce import RNCE, CertifiedCandidates
from holdfast.generators._roar import ROAR
from holdfast.generators._robust import Robust
from holdfast.generators._stce import STCE

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
