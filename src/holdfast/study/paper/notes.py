"""Why our figures differ from the paper's: sentences kept beside the settings, shown only where a difference holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from holdfast.study.paper.compare import SHARES, ComparedFigure, Side
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

    def covers(self, difference: ComparedFigure) -> bool:
        """Whether it speaks of this difference."""
        names = ("method", "metric", "model", "dataset", "side")
        pairs = ((getattr(self, f"{name}s"), getattr(difference, name)) for name in names)
        return all(not wanted or value in wanted for wanted, value in pairs)


NOTES: tuple[Note, ...] = (
    Note(
        "The authors' MCE puts no bounds on numbers, so that MCE and MCE-R may leave the range of the data, even "
        "below 0, where their test of robustness, (W ± δ) x, is too kind; ours stay in the ranges and are tested "
        "exactly. Where the margin cannot be raised any further within the ranges, our MCE-R ends without a robust "
        "answer.",
        methods=("MCE", "MCE-R"),
    ),
    Note(
        "The authors' GCE has one weight for the distance and asks for a probability 0.03 above one half; ours "
        "adapts the weight to each person and ends just across the boundary. Theirs may also leave the ranges or "
        "use a third of a category, which no row of a table can.",
        methods=("GCE", "GCE-R"),
        metrics=("cost_l1", "lof", "validity_retrained"),
    ),
    Note(
        "The authors run PROTO with the pull towards prototypes switched off (θ = 0); ours has it on, and goes "
        "further to end up among people who are accepted.",
        methods=("PROTO", "PROTO-R"),
        metrics=("cost_l1", "lof", "validity_retrained"),
    ),
    Note(
        "The authors' GCE-R tries six levels of probability up to 0.97 and their PROTO-R three, then give up; ours "
        "raise the margin for up to fifty rounds.",
        methods=("GCE-R", "PROTO-R"),
        metrics=(*SHARES, "cost_l1"),
    ),
    Note(
        "Their ROAR is CARLA's: a linear model is fitted once around the person and pushed past its threshold "
        "without bounds on the features, and its points leave the range of the data. Ours follows the tangent at "
        "the point itself and stays in the ranges.",
        methods=("ROAR",),
    ),
    Note(
        "RBR's kernels have a standard deviation of 1 in the authors' runs, which on variables in [0, 1] makes the "
        "odds nearly flat; ours have 0.2, lead further into the favourable side, and survive more for a higher "
        "cost.",
        methods=("RBR",),
    ),
    Note(
        "The authors choose ST-CE's threshold for each draw of inputs, as the least at which most answers survive "
        "other retrained models, and look through at most 8,000 rows; ours has one threshold and looks through all "
        "rows.",
        methods=("ST-CE",),
    ),
    Note(
        "The authors' line search mixes categories in any proportion and stops at twentieths; ours takes each "
        "category from the candidate or from the person, and searches on between the twentieths.",
        methods=("RNCE-FT",),
        metrics=("cost_l1", "lof"),
    ),
    Note(
        "The authors look through at most 12,000 accepted rows, drawn at random; we look through all of them, and "
        "find nearer ones.",
        methods=("RNCE-FF", "RNCE-FT"),
        metrics=("cost_l1",),
        datasets=("adult", "gmc"),
        sides=(Side.LOWER,),
    ),
    Note(
        "Rows that occur more than once count once in our local outlier factor: among ten equal rows its density "
        "is infinite. Adult, compas and iris have such rows, and the paper's figure depends on how they fall.",
        metrics=("lof",),
        datasets=("adult", "compas", "iris"),
    ),
    Note(
        "For several classes the authors' code measures plausibility among rows of class 1, although class 2 is "
        "the target; ours measures it among class 2.",
        metrics=("lof",),
        models=(MULTI,),
    ),
    Note(
        "The authors' networks for several classes apply softmax before a loss that applies it once more, and have "
        "5 neurons a layer on iris; ours apply it once, and have 10 there.",
        metrics=(*SHARES, "cost_l1"),
        models=(MULTI,),
    ),
)


def explain_differences(comparisons: Collection[ComparedFigure]) -> list[tuple[Note, list[ComparedFigure]]]:
    """The notes that speak of a difference that holds, each with those differences; a difference may have several."""
    differences = [one for one in comparisons if one.side is not Side.WITHIN]
    explained = [(note, [one for one in differences if note.covers(one)]) for note in NOTES]
    return [(note, covered) for note, covered in explained if covered]
