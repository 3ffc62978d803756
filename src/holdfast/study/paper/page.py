"""The page: every table of the paper with our figures beside the paper's. A pure function of the results."""

from __future__ import annotations

from holdfast.study.paper import sections
from holdfast.study.paper.claims import check_claims
from holdfast.study.paper.compare import compare
from holdfast.study.paper.differences import differences_section
from holdfast.study.paper.preface import Run, preface
from holdfast.study.paper.printed import Printed
from holdfast.study.paper.results import Results
from holdfast.study.paper.settings import LR, MULTI, NN


def render(results: Results, printed: Printed, run: Run) -> str:
    """The page as Markdown; a section without results is left out."""
    parts = [
        preface(run),
        sections.claims_section(check_claims(results, printed)),
        sections.accuracy_section(results, printed),
        sections.deltas_section(results, printed, run),
        sections.curves_section(run),
        *(sections.quality_section(results, printed, model) for model in (NN, LR, MULTI)),
        sections.seconds_section(results, printed),
        sections.robust_init_section(results, printed),
        differences_section(compare(results, printed)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
