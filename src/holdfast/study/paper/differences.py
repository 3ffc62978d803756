"""Where ours differ from the paper's, in sentences, and the reasons on offer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from holdfast.study.paper.compare import ComparedFigure, Side, figure_text
from holdfast.study.paper.notes import explain_differences
from holdfast.study.paper.sections import HEADINGS, at_delta


def differences_section(comparisons: Sequence[ComparedFigure]) -> str:
    """Every difference beyond the spread, then why, then those without a reason."""
    if not comparisons:
        return ""
    differences = [one for one in comparisons if one.side is not Side.WITHIN]
    better = sum(one.better for one in differences)
    within = len(comparisons) - len(differences)
    parts = [
        "## Where ours differ, and why",
        f"Of {len(comparisons):,} figures that both have, {within:,} lie within the spread of the two; {better:,} of "
        f"ours are better by more\nthan that, and {len(differences) - better:,} worse.",
    ]
    explained = explain_differences(comparisons)
    if explained:
        reasons = [f"- {note.text}\n  Seen in: {_places(covered)}." for note, covered in explained]
        parts += ["### Why", "\n".join(reasons)]
    left = [one for one in differences if not any(one in covered for _, covered in explained)]
    if left:
        parts.append(f"For {len(left)} differences we offer no reason: {_places(left)}.")
    if differences:
        parts += ["### Every difference", "\n".join(f"- {line}" for line in _statements(differences))]
    return "\n\n".join(parts)


def _statements(differences: Sequence[ComparedFigure]) -> Iterable[str]:
    """One line for each model, method, δ and metric: on which data sets ours is higher or lower, with the figures."""

    def key(one: ComparedFigure) -> tuple[str, ...]:
        return one.model, one.block, one.method, one.metric, one.side

    for (model, *_, side), group in groupby(sorted(differences, key=key), key=key):
        same = list(group)
        first = same[0]
        places = ", ".join(
            f"{one.dataset} ({figure_text(one.ours, one.metric)} against {figure_text(one.paper, one.metric)})"
            for one in same
        )
        yield f"{model}, {first.method}{at_delta(first.block)}: {HEADINGS[first.metric]} is {side} on {places}."


def _places(differences: Sequence[ComparedFigure]) -> str:
    def key(one: ComparedFigure) -> tuple[str, str, str]:
        return one.method, one.metric, one.model

    names = []
    for (method, metric, model), group in groupby(sorted(differences, key=key), key=key):
        datasets = dict.fromkeys(one.dataset for one in group)
        names.append(f"{method} {HEADINGS[metric]} ({model}: {', '.join(datasets)})")
    return "; ".join(names)
