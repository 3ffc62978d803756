"""The report's sentences: what was promised, how sure it is, and what the guarantee does not say.

docs/guarantee.md is where the statements come from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from holdfast import _numbers as numbers
from holdfast._network import Bools, Network
from holdfast._trees import TreeEnsemble
from holdfast.changes import Changes, PlausibleChanges
from holdfast.features import FeatureSpace
from holdfast.features._codec import differs
from holdfast.generators import Recourse
from holdfast.generators._measured import settings_of
from holdfast.generators._radii import Radii
from holdfast.presentation.report._contents import Calibrated, Figures, Refits

if TYPE_CHECKING:
    from holdfast.promises._ledger import Ledger


def facts_of(
    recourse: Recourse,
    name: str,
    date: str,
    outcome: str | None,
    cost: str,
    *,
    certificates: Sequence[str],
    ledger: Ledger | str | None,
) -> tuple[tuple[str, str], ...]:
    """The method, the model, Δ, the target, what is kept outside the report, and the date, as pairs.

    `name` is what the method is called where nothing else is known of it, `certificates` are people's ids, "" for none.
    """
    changes = recourse.changes
    threshold = recourse.model.threshold
    trained = recourse.model.trained
    build = f"Known by its scores, {trained.n_features} variables"
    if isinstance(trained, Network):
        layers = " + ".join(map(str, trained.hidden))
        build = f"{layers} hidden neurons" if layers else "No hidden layer"
        build += f", {trained.n_parameters:,} parameters"
    elif isinstance(trained, TreeEnsemble):
        forest = trained.forest
        build = (
            f"{forest.n_trees:,} trees, {int(forest.leaves.sum()):,} leaves, {forest.width} columns"
        )
    model = [("Model", build)]
    if isinstance(trained, Network | TreeEnsemble):
        # It imports the checker, which is to run as a module of its own.
        from holdfast.verify._fingerprint import fingerprint

        model.append(("Model's SHA-256", fingerprint(trained)))
    evidence = []
    many = sum(map(bool, certificates))
    if many:
        evidence.append(
            (
                "Certificates",
                f"{many:,}, whose ids stand on people's pages; `holdfast check` checks them",
            )
        )
    if ledger is not None:
        head = ledger if isinstance(ledger, str) else ledger.head
        evidence.append(("Ledger's head", " ".join(head.split())))
    return (
        ("Advice by", name if recourse.generator is None else settings_of(recourse.generator)),
        ("People", f"{len(recourse):,}"),
        (
            "Promised",
            capital(
                classes_of(recourse) if outcome is None else f"{outcome} ({classes_of(recourse)})"
            ),
        ),
        *model,
        *([] if threshold is None else [("Decision threshold", f"A probability of {threshold}")]),
        (
            "Plausible models (Δ)",
            "none stated" if changes is None else capital(changes.in_words(repr)),
        ),
        ("Cost", cost),
        *evidence,
        ("Written", date),
    )


def cost_of(space: FeatureSpace) -> str:
    """What a cost is."""
    plain = [space.label(feature.name) for feature in space.features if not feature.ranged]
    unit = f"; the unit of {', '.join(plain)} is 1, as no range is known" if plain else ""
    weighted = "" if all(one.cost == 1.0 for one in space.features) else ", weighted by column"
    return (
        f"The mean change over the {space.n_variables} variables of the model, in units of each column's range"
        f"{weighted}: at 0.03 each variable moves by 3% of its range on average{unit}"
    )


def promise_of(
    recourse: Recourse,
    method: Figures,
    radii: Radii,
    calibrated: Calibrated | None,
    needed: Bools,
    outcome: str | None = None,
    refits: Refits | None = None,
) -> Iterator[str]:
    """What was promised and how sure it is, for someone who reads nothing else."""
    found = method.found
    asked = int(needed.sum())
    wanted = outcome or classes_of(recourse)
    if not asked:
        yield f"All {len(recourse):,} people have {wanted} already, so nobody needed advice."
        return
    do = "does" if found == asked == 1 else "do"
    were = _plural(found, "was", "were")
    told = f"{_of(found, asked, 'people')} who {do} not have {wanted} today {were} told what to change."
    if not found:
        yield told
        yield "Nothing was promised, so nothing can break."
        return
    yield f"{told} Today's model gives {wanted} to everyone who makes these changes."
    changes = recourse.changes
    if changes is None:
        yield "No set of plausible models was stated, so nothing is proven about the next model."
    else:
        yield (
            f"{_of(method.robust, found, 'promises', 'is', 'are')} proven to hold under every model in Δ, that is, "
            f"{changes.every_model}."
        )
        if changes.unit == "margin":
            yield (
                "That says how clear today's answer is, and not that the next model is one of these."
            )
        broken = found - method.robust - method.unknown
        if broken == 1:
            yield "1 is not: some model in Δ breaks it, and that person's page shows one."
        elif broken:
            yield (
                f"{broken:,} are not: for each of them some model in Δ breaks the promise, and the person's page shows "
                "one."
            )
        if method.unknown:
            yield (
                f"{method.unknown:,} {_plural(method.unknown, 'is', 'are')} undecided: neither a proof nor a "
                "counter-model was found. They are not counted as safe."
            )
        # What was measured beside the proof is never worded as one.
        if changes.inside is not None:
            yield f"Measured, not proven: {changes.inside}."
        if changes.chance is not None:
            stated = sum(recourse.chance(row) is not None for row in recourse.answered.tolist())
            of = f", of {_of(stated, found, 'promises')}" * (stated < found)
            yield f"Measured, not proven{of}: {changes.chance}."
        elif changes.unit == "margin":
            yield (
                "How far retraining lowers margins was not measured, so nothing is said about the next model."
            )
    if refits is not None:
        one = refits.models == 1
        who = "1 model that was" if one else f"{refits.models:,} models that were"
        worst = "" if one else f" on average and {numbers.share(refits.worst)} at worst"
        yield (
            f"Measured, not proven: {who} retrained in fact kept {numbers.share(refits.mean)} of the promises{worst}."
            + (
                ""
                if one
                else f" {_of(refits.by_all, found, 'promises', 'was', 'were')} kept by every one of them."
            )
        )
    what = "what was" if radii.along.unit == "factor" else "the δ"
    if calibrated is not None and isinstance(changes, PlausibleChanges) and not changes.biases:
        yield (
            f"Δ leaves the biases as they are, which retraining moves too, so nothing is proven about the δ calibrated "
            f"on the lender's retraining, {numbers.about(calibrated.delta)}."
        )
    elif calibrated is not None and calibrated.covered:
        yield (
            f"Δ covers {what} calibrated on the lender's retraining, "
            f"{calibrated.several or numbers.about(calibrated.delta)}; what is known about it stands under “How sure”."
        )
    elif calibrated is not None and method.survival is not None:
        survive = int((radii.lower > calibrated.delta).sum())
        yield (
            f"{_of(survive, found, 'promises', 'is', 'are')} proven to hold up to {what} calibrated on the "
            f"lender's retraining, {numbers.about(calibrated.delta)}."
        )


def limits_of(recourse: Recourse, method: Figures, radii: Radii, needed: Bools) -> Iterator[str]:
    """What the guarantee does not say, and what is particular about these figures."""
    changes = recourse.changes
    if changes is not None:
        yield from _limits_of_changes(changes)
    trees = isinstance(recourse.model.trained, TreeEnsemble)
    beside = " or, where a letter names ends, about values between them" if trees else ""
    yield from (
        f"A promise is about the very values advised{beside}. Someone who ends up elsewhere, even better off, is not "
        "covered.",
        "Whether the advice is good, possible or fair is for those who give it to judge. Differences between groups "
        "are described here, not explained.",
        "A certificate holds for the model in float64, as it was certified, rounding included. A server that computes "
        "in another arithmetic may differ by its own rounding."
        if isinstance(recourse.classifier, Network)
        else "A verdict holds for the trees as their library computes them, rounding included."
        if trees
        else "A verdict holds for the scores as the model computed them for this report.",
        "Figures are rounded for reading; a radius, and the size of Δ that something is proven for, always downwards.",
    )
    if radii.unknown:
        yield radii.unknown
    elif method.found:
        # One digit, upwards, without an exponent: an upper bound that people can read.
        exponent = math.floor(math.log10(radii.slack))
        slack = math.ceil(radii.slack / 10.0**exponent - 1e-6) * 10.0**exponent
        yield (
            f"A radius is a proven lower bound: the promise is safe for every smaller {radii.along.unit}. The true one "
            f"is at most {slack:.{max(0, -exponent)}f} larger, save for promises that are undecided."
        )
    if isinstance(changes, PlausibleChanges) and isinstance(changes.delta, tuple) and radii.known:
        yield (
            f"Δ has a radius for each {'layer' if changes.per_layer else 'parameter'}, while radii and curves let "
            "every parameter move by the same delta; the line marks the largest radius, so that shares there can lie "
            "below the share that is proven for Δ."
        )
    if isinstance(changes, PlausibleChanges) and not changes.biases:
        yield (
            "The biases stay as they are in every model that verdicts, radii and curves speak of. Retraining usually "
            "moves them too, and is then not covered."
        )
    if method.unknown:
        yield (
            f"{method.unknown:,} undecided {_plural(method.unknown, 'promise')} never "
            f"{'counts' if method.unknown == 1 else 'count'} as safe, and a radius of theirs is not said to exceed Δ's."
        )
    already = int((~needed).sum())
    if already:
        yield (
            f"{already:,} {_plural(already, 'person', 'people')} in the table had the class already, and got no advice."
        )
    spared = int(
        (
            recourse.found
            & (recourse.classifier.predict_index(recourse.people.points) == recourse.targets)
        ).sum()
    )
    if spared:
        yield (
            f"{spared:,} {_plural(spared, 'person', 'people')} had the class already, and got advice all the same."
        )
    protected = [
        recourse.space.names.index(name)
        for name in recourse.space.notes.protected
        if name in recourse.space.names
    ]
    moved = differs(recourse.people.numbers[recourse.answered], recourse.answers)
    touched = int(moved[:, protected].any(axis=1).sum())
    if touched:
        yield (
            f"{touched:,} {_plural(touched, 'piece')} of advice {'changes' if touched == 1 else 'change'} a protected "
            "attribute. Nobody can be told that, and no letter says it: make it immutable."
        )
    remarked = int(np.count_nonzero(recourse.reason[recourse.found]))
    if remarked:
        yield (
            f"{remarked:,} {_plural(remarked, 'piece')} of advice come with a remark, such as a constraint that "
            "the advice breaks; see the person's page."
        )


def _limits_of_changes(changes: Changes) -> Iterator[str]:
    """What Δ leaves open."""
    if changes.unit == "margin":
        yield (
            "Δ bounds how far a margin falls, not how a model changes: which retrained models lie in it is a matter of "
            "measurement, not of proof."
        )
    else:
        scratch = (
            " A model trained from scratch, with another seed, is typically nowhere near today's, however alike their "
            "decisions."
        )
        known = (
            "an assumption about how you retrain"
            if changes.inside is None
            else "not proven: its probability was measured, on retrainings that the next one has to be like"
        )
        yield f"That the next model lies in Δ is {known}." + (
            scratch if isinstance(changes, PlausibleChanges) else ""
        )
        what = "leaves and thresholds" if changes.unit == "factor" else "parameters"
        yield (
            f"Δ moves the model's own {what}. A scaler fitted anew, an encoder with a new category or "
            + (
                "a moved decision threshold"
                if changes.threshold is None
                else "a threshold beyond those that Δ names"
            )
            + " is another change, and not covered."
        )
    if changes.chance is not None:
        yield (
            "The chance is about the share of all such promises, under models retrained like those it was calibrated "
            "on. It is no proof, and says nothing about a single person."
        )


def classes_of(recourse: Recourse) -> str:
    """The class that was promised, in words."""
    wanted = np.unique(recourse.targets)
    if wanted.size == 1:
        return f"class {recourse.classifier.classes[wanted[0]]}"
    return "the class that they asked for"


def capital(text: str) -> str:
    """The text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def _of(part: int, whole: int, what: str, *verb: str) -> str:
    """So many of so many, and the verb for one of them and for several."""
    end = f" {_plural(part, *verb)}" if verb else ""
    if part != whole:
        return f"{part:,} of {whole:,} {what} ({numbers.part_of(part, whole)}){end}"
    return (
        f"All {whole:,} {what}"
        if whole > 1
        else {"people": "The one person"}.get(what, "The one promise")
    ) + end


def _plural(count: int, one: str, many: str = "") -> str:
    return one if count == 1 else many or f"{one}s"
