"""Why our figures differ from the paper's: sentences kept beside the settings, shown only where a difference holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from holdfast.study.paper.compare import Comparison, Side
from holdfast.study.paper.settings import MULTI

ANY: tuple[()] = ()


@dataclass(frozen=True)
class Note:
    """A reason, and the differences it can be a reason for; an empty collection stands for all."""

    text: str
    methods: Collection[str] = ANY
    metrics: Collection[str] = ANY
    models: Collection[str] = ANY
    datasets: Collection[str] = ANY
    sides: Collection[Side] = ANY

    def covers(self, difference: Comparison) -> bool:
        """Whether it speaks of this difference."""
        pairs = (
            (self.methods, difference.method),
            (self.metrics, difference.metric),
            (self.models, difference.model),
            (self.datasets, difference.dataset),
            (self.sides, difference.side),
        )
        return all(not wanted or value in wanted for wanted, value in pairs)


NOTES: tuple[Note, ...] = (
    Note(
        "The authors' line search mixes categories in any proportion and moves in twentieths; ours takes each category "
        "from the candidate or from the person and searches on until nothing smaller is robust.",
        methods=("RNCE-FT",),
        metrics=("cost_l1", "lof"),
    ),
    Note(
        "The authors look through at most 12,000 accepted rows, drawn at random; we look through all of them, and find "
        "nearer ones.",
        methods=("RNCE-FF", "RNCE-FT"),
        metrics=("cost_l1",),
        datasets=("adult", "gmc"),
        sides=(Side.LOWER,),
    ),
    Note(
        "Their ROAR is CARLA's: a linear surrogate is pushed past its threshold without bounds on the features, and "
        "its points leave the range of the data. Ours stays inside the ranges of the feature space.",
        methods=("ROAR",),
        metrics=("cost_l1", "lof"),
        sides=(Side.LOWER,),
    ),
    Note(
        "A method that may leave the ranges, or use a third of a category, is cheaper and less plausible than one that "
        "may not: every point here is a row that the caller's table could hold.",
        methods=("GCE", "GCE-R", "PROTO", "PROTO-R", "RBR"),
        metrics=("cost_l1", "lof"),
    ),
    Note(
        "Rows that occur more than once count once in our local outlier factor: among ten equal rows its density is "
        "infinite. compas and adult have many, and the paper's figure depends on how they fall.",
        metrics=("lof",),
        datasets=("compas", "adult", "gmc", "iris"),
    ),
    Note(
        "For several classes the authors' code measures plausibility among rows of class 1, although class 2 is the "
        "target; ours measures it among class 2.",
        metrics=("lof",),
        models=(MULTI,),
    ),
)


@dataclass(frozen=True)
class Explained:
    """A reason and the differences that it is offered for."""

    note: Note
    differences: tuple[Comparison, ...]


def explain_differences(comparisons: Collection[Comparison]) -> list[Explained]:
    """The notes that speak of a difference that holds, each with those differences; a difference may have several."""
    differences = [one for one in comparisons if one.side is not Side.WITHIN]
    found = [Explained(note, tuple(one for one in differences if note.covers(one))) for note in NOTES]
    return [explained for explained in found if explained.differences]
