"""The page: every table of the paper with our figures beside the paper's. A pure function of the results."""

from __future__ import annotations

from holdfast.study.paper import sections
from holdfast.study.paper.claims import check_claims
from holdfast.study.paper.compare import SPREADS, compare
from holdfast.study.paper.differences import differences_section
from holdfast.study.paper.printed import Printed
from holdfast.study.paper.results import Results
from holdfast.study.paper.sections import Run
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


def preface(run: Run) -> str:
    """Where the figures come from, how to read them, and how the protocol differs from the authors'."""
    seeds = "one seed" if run.seeds == 1 else f"{run.seeds} seeds"
    missing = "\n".join(f"- {sentence}" for sentence in run.missing)
    missing = f"\n\n**What is missing.**\n\n{missing}" if missing else ""
    return _TEXT.format(run=run, seeds=seeds, spreads=SPREADS, missing=missing)


_TEXT = """\
# The paper's experiments, repeated

Every table and figure of the experiments in "Interval Abstractions for Robust Counterfactual Explanations" (Jiang,
Leofante, Rago, Toni), with our figures beside the paper's. Written on {run.machine}, with {seeds} and
{run.inputs} inputs for each, by

```sh
{run.command}
```

**How to read it.** In a cell stands our mean ± standard deviation over the seeds, and the paper's in brackets. Bold
with an arrow: ours is higher or lower by more than {spreads:g} standard deviations of the two together (and half a unit
of the last printed digit). As in the paper, shares (in percent), costs and outlier factors are over the inputs with an
answer; coverage says how many those are. A verdict that was not reached counts as not Δ-valid. Seconds are CPU seconds.

**What is the same.** Data, encoding, halves, widths and depths, Adam at 0.01 with the authors' batches, epochs and
squared penalty, three times five retrained models, δ_val and δ_inc as the authors used them, rejected inputs from the
test part of the half that arrives later, neighbours from the whole table. As in the authors' code nothing is immutable,
whole numbers may take any value in between, and the "logistic regression" is one layer trained by a few passes of Adam.

**What is not.** The authors train one network on one split and draw its inputs five times; each seed here has a split,
a network and retrained networks of its own, so our spread contains theirs and that of training. In every point that is
handed out here categories are categories and ranges are kept. On gmc the paper prints δ_val = 0.02; its figures were
made with 0.045, and so are ours. `Closest` and RNCE-TT are rows that the paper does not have.{missing}"""
