"""The report's sentences: the promises, how sure they are, and what the guarantee does not say.

The statements are those of docs/guarantee.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from holdfast import _numbers as numbers
from holdfast._network import Bools, Network
from holdfast._trees import TreeEnsemble
from holdfast.changes import Chance, Changes, Inside, PlausibleChanges
from holdfast.changes._kind import one_in
from holdfast.features import FeatureSpace
from holdfast.features._codec import differs
from holdfast.generators import ReasonKind, Recourse, RecourseReason
from holdfast.generators._measured import settings_of
from holdfast.generators._radii import Radii
from holdfast.presentation.report._contents import Calibrated, Figures, Moves, Refits

if TYPE_CHECKING:
    from holdfast.promises._ledger import Ledger

# The end of a reason that is proven.
PROVEN = " (proven)"
# How generators give reasons, and how people read them.
_IMPOSSIBLE = re.compile(
    r"no point within the constraints is accepted by (?P<who>[^;]*)(?:; (?P<more>.*))?", re.S
)
# Columns that have to change together are named together.
_WAYS = (
    (r"if (.*) \(immutable\) may change", "a change of {}"),
    (r"if (.*) may move both ways", "a change of {} in the other direction"),
    (
        r"if (.*) may change by more than max_change",
        "a change of {} beyond the limit",
    ),
    (r"if (.*) may leave the range", "a value of {} outside the range"),
    (r"without the rules (.*)", "a change against the rules {}"),
    (r"with more than (.*) columns changed", "changes of more than {} details"),
    (r"outside the hull of plausible points", "values that are not plausible"),
)
_PLAIN = {
    "no point within the constraints": "no change within the limits",
    "no point accepted": "no advice accepted",
    "every model in Δ": "every plausible model",
}


def facts_of(
    recourse: Recourse,
    name: str,
    date: str,
    outcome: str | None,
    cost: str,
    *,
    certificates: Sequence[str],
    ledger: Ledger | str | None,
    calibrated: Calibrated | None = None,
    symbol: str = "δ",
) -> tuple[tuple[str, str], ...]:
    """The method, the model, Δ, the target, the evidence, papers outside the report, and the date, as pairs.

    `name` is the method where its settings are unknown, `certificates` are people's ids, "" for none.
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
    known = []
    if calibrated is not None:
        known.append(
            (
                f"Calibrated {symbol}",
                f"{capital(numbers.about(calibrated.delta))}. {calibrated.sentence}",
            )
        )
    if changes is not None and changes.measured:
        known.append(("Measured, not proven", ". ".join(map(str, changes.measured))))
    evidence = []
    many = sum(map(bool, certificates))
    if many:
        evidence.append(
            (
                "Certificates",
                f"{many:,}; each person's page has the id, and “holdfast check” checks them",
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
        *known,
        ("Cost", cost),
        *evidence,
        ("Written", date),
    )


def cost_of(space: FeatureSpace) -> str:
    """The definition of a cost."""
    plain = [space.label(feature.name) for feature in space.features if not feature.ranged]
    unit = f"; the unit of {', '.join(plain)} is 1, as no range is known" if plain else ""
    weighted = "" if all(one.cost == 1.0 for one in space.features) else ", weighted by column"
    return (
        f"The mean change over the {space.n_variables} variables of the model, in units of each column's range"
        f"{weighted}: at 0.03 each variable moves by 3% of its range on average{unit}"
    )


def promise_of(
    recourse: Recourse,
    methods: Sequence[Figures],
    compared: Mapping[str, Recourse],
    radii: Radii,
    calibrated: Calibrated | None,
    needed: Bools,
    *,
    models: str,
    inside: Inside | None,
    wanted: str,
    refits: Refits | None = None,
) -> Iterator[str]:
    """What was promised and how sure it is, for someone who reads nothing else.

    `models` are those of the proof in words; `inside` is the chance that the next update is one of them.
    """
    method, *others = methods
    found, asked = method.found, int(needed.sum())
    changes = recourse.changes
    if not asked:
        everyone = f"All {len(recourse):,} people have" if len(recourse) > 1 else "The person has"
        yield f"{everyone} {wanted} already, so this report has no advice."
        return
    who = "people" if asked == len(recourse) else f"people who do not have {wanted} today"
    if not found:
        none = " ".join(without_advice(recourse, needed, _everyone(asked, who)))
        yield f"{none} Nothing was promised, so no promise can break."
        return
    told = f"can get {wanted}; there is advice for {'this person' if found == 1 else 'each'}."
    if found < asked:
        those = f"the other {_counted(asked - found)}"
        rest = " ".join(without_advice(recourse, needed, those))
        yield f"{found:,} of {asked:,} {who} {told} {rest}"
    else:
        yield f"{capital(_everyone(asked, who))} {told}"
    if changes is None:
        yield "No set of plausible models was stated, so nothing is proven about the next model."
    else:
        yield from _proof(method, models)
        if method.robust:
            yield from _chances(recourse, found, inside)
    yield from _compared(method, others, compared)
    if refits is not None:
        who = "1 updated model" if refits.models == 1 else f"{refits.models:,} updated models"
        kept = f"{numbers.share(refits.mean)} of the promises"
        if refits.worst == 1.0:
            kept = "every promise"
        elif refits.models > 1:
            kept += f" on average and {numbers.share(refits.worst)} at worst"
        yield f"Measured, not proven: {who} kept {kept}."
    if isinstance(changes, PlausibleChanges) and not changes.biases and calibrated is not None:
        yield (
            "The proof leaves the biases of the model as they are. Updates move them too, so the measured updates are "
            "not covered."
        )
    elif (
        calibrated is not None
        and calibrated.compares
        and not calibrated.covered
        and method.survival is not None
    ):
        survive = int((radii.lower > calibrated.delta).sum())
        far = (
            f"{calibrated.rank:,} of the {len(calibrated.updates):,} measured updates did"
            if calibrated.rank
            else "the measured updates did"
        )
        yield (
            f"{_of(survive, found, 'promises', 'is', 'are')} proven for every model that moves no further than {far}."
        )


def without_advice(recourse: Recourse, needed: Bools, others: str) -> Iterator[str]:
    """What is known of the people without advice, whom `others` names: none can exist, or none was found."""
    missing = recourse.reason[needed & ~recourse.found]
    proven = sum(reason.kind.proven for reason in missing)
    if proven:
        those = others if proven == len(missing) else f"{proven:,} of {others}"
        enough = "enough" if recourse.changes is None else "enough for every plausible model"
        yield f"For {those}, no allowed change is {enough}{PROVEN}."
    if proven < len(missing):
        those = f"the remaining {_counted(len(missing) - proven)}" if proven else others
        yield f"For {those}, no advice was found."


def _counted(people: int) -> str:
    return f"{people:,}" if people > 1 else "person"


def _proof(method: Figures, models: str) -> Iterator[str]:
    """How many promises are proven, and of which models."""
    found, robust = method.found, method.robust
    if robust == found:
        yield f"{'The' if found == 1 else 'Each'} promise is proven for {models}."
    else:
        yield f"{_of(robust, found, 'promises', 'is', 'are')} proven for {models}."
    broken = found - robust - method.unknown
    if broken:
        yield (
            f"{broken:,} {_plural(broken, 'promise')} can be broken by a plausible model; see "
            f"{_plural(broken, 'the page of this person', 'the pages of these people')}."
        )
    if method.unknown:
        yield (
            f"{method.unknown:,} {_plural(method.unknown, 'promise is', 'promises are')} undecided and "
            f"{_plural(method.unknown, 'does', 'do')} not count as proven."
        )


def _chances(recourse: Recourse, found: int, inside: Inside | None) -> Iterator[str]:
    """What was measured, never worded as a proof."""
    changes = recourse.changes
    assert changes is not None
    if inside is not None:
        yield f"Measured, not proven: {chance_of_update(inside)}."
    if changes.chance is not None:
        stated = sum(recourse.chance(row) is not None for row in recourse.answered.tolist())
        of = f" for {_of(stated, found, 'promises')}" * (stated < found)
        yield f"Measured, not proven{of}: {chance_of_promises(changes.chance)}."
    elif changes.unit == "margin":
        yield (
            "That says how clear today's decision is. How far an update lowers scores was not measured, so nothing is "
            "known about the next model."
        )


def _compared(
    method: Figures, others: Sequence[Figures], compared: Mapping[str, Recourse]
) -> Iterator[str]:
    """How much of the other advice is proven, where less; it helps today if today's model accepts all of it."""
    for other in others[:1]:
        if other.robust >= method.robust:
            continue
        same = compared[other.name]
        today = same.classifier.predict_index(same.points[same.found]) == same.targets[same.found]
        helps = "would help {} today" if today.all() else "has advice for {}"
        people = f"{other.found:,} {_plural(other.found, 'person', 'people')}"
        some = f"{other.robust:,} of these pieces of advice {_plural(other.robust, 'is', 'are')}"
        if not other.robust:
            some = "none of it is"
        yield f"By comparison, “{other.name}” {helps.format(people)}; {some} proven to last."


def chance_of_update(inside: Inside) -> str:
    """How probably the next update lies in Δ, for people."""
    if inside.confidence is not None:
        return (
            f"with confidence {inside.confidence:.0%} at least {inside.coverage:.0%} of the updates to come stay "
            f"within this limit, if they are made like the {inside.models:,} measured ones"
        )
    return (
        f"the next update stays within this limit with a probability of at least {percent_of(inside)}, "
        f"if it is made like the {inside.models:,} measured ones"
    )


def percent_of(inside: Inside) -> str:
    """The probability, rounded down, as it is a promise."""
    percent = 100.0 * inside.probability
    digits = 0 if percent < 99.0 else 1
    return f"{math.floor(percent * 10**digits + 1e-9) / 10**digits:g}%"


def chance_of_promises(chance: Chance) -> str:
    """How many promises the next model is expected to break, for people; the facts have every condition."""
    broken = one_in(chance.broken)
    made = f"if it is made like the {chance.models:,} that were measured"
    if chance.probability is None:
        return f"the next model is expected to break at most {broken} of such promises, {made}"
    return f"with probability {chance.probability:g} the next model breaks at most {broken} of such promises, {made}"


def figures_for(
    method: Figures,
    changes: Changes | None,
    inside: Inside | None,
    refits: Refits | None,
    needed: int,
    moves: Sequence[Moves],
) -> Iterator[tuple[str, str]]:
    """At most three numbers, each with its words."""
    if not needed:
        return
    if changes is None:
        yield f"{method.found:,} of {needed:,}", "people have advice"
    else:
        yield f"{method.robust:,} of {needed:,}", "people have proven advice"
    if not method.found:
        return
    if not method.robust and changes is not None:
        inside = None
    if inside is not None and inside.confidence is None:
        yield (
            percent_of(inside),
            "probability that the next update stays within the proof: measured, not proven",
        )
    elif changes is not None and changes.chance is not None and method.robust:
        share = one_in(changes.chance.broken)
        yield (
            share,
            "the most promises that the next model is expected to break: measured, not proven",
        )
    elif refits is not None:
        yield (
            numbers.share(refits.mean),
            "of the promises kept by updated models: measured, not proven",
        )
    if method.changes is not None:
        yield (
            tenths(method.changes),
            f"{'change' if method.changes == 1 else 'changes'} for each person{typical_of(moves)}",
        )


def tenths(number: float | None) -> str:
    """A mean number of changes.

    >>> tenths(3.44), tenths(2.0), tenths(None)
    ('3.4', '2', '–')
    """
    return numbers.NOTHING if number is None else f"{number:.1f}".removesuffix(".0")


def typical_of(moves: Sequence[Moves]) -> str:
    """The two commonest changes of numbers, with their median."""
    known = [one for one in moves if one.changed and one.median]
    said = [
        f"{one.column.label} {numbers.change(float(f'{one.median:.3g}'), one.column.unit)}"
        for one in sorted(known, key=lambda one: -one.changed)[:2]
    ]
    return f"; typically {', '.join(said)}" if said else ""


def limits_of(
    recourse: Recourse, method: Figures, needed: Bools, inside: Inside | None, wanted: str
) -> Iterator[str]:
    """What the page does not say, and what is particular about these people."""
    changes = recourse.changes
    if changes is not None:
        yield from _limits_of_changes(changes, inside)
    trees = isinstance(recourse.model.trained, TreeEnsemble)
    between = " or, where a letter names ends, about values between them" if trees else ""
    yield from (
        f"A promise is about the very values advised{between}. A person who ends up elsewhere, even better off, is not "
        "covered.",
        "Whether advice is good, possible or fair is for the people who give it to judge. Differences between groups "
        "are described here, not explained.",
    )
    if method.unknown:
        yield (
            f"{method.unknown:,} undecided {_plural(method.unknown, 'promise')} never "
            f"{'counts' if method.unknown == 1 else 'count'} as proven."
        )
    already = int((~needed).sum())
    if already:
        yield (
            f"{already:,} {_plural(already, 'person', 'people')} in the table had {wanted} already, and got no advice."
        )
    spared = int(
        (
            recourse.found
            & (recourse.classifier.predict_index(recourse.people.points) == recourse.targets)
        ).sum()
    )
    if spared:
        yield (
            f"{spared:,} {_plural(spared, 'person', 'people')} had {wanted} already, and got advice all the same."
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
            "attribute. No letter may say that: make the attribute immutable."
        )
    remarked = int(np.count_nonzero(recourse.reason[recourse.found]))
    if remarked:
        yield (
            f"{remarked:,} {_plural(remarked, 'piece')} of advice come with a remark, such as a constraint that "
            "the advice breaks; see the person's page."
        )


def technical_of(recourse: Recourse, method: Figures, radii: Radii) -> Iterator[str]:
    """What auditors need to know about verdicts, radii and curves."""
    changes = recourse.changes
    yield (
        "A certificate holds for the model in float64, as it was certified, rounding included. A server that computes "
        "in another arithmetic may differ by its own rounding."
        if isinstance(recourse.classifier, Network)
        else "A verdict holds for the trees as their library computes them, rounding included."
        if isinstance(recourse.model.trained, TreeEnsemble)
        else "A verdict holds for the scores as the model computed them for this report."
    )
    yield "Figures are rounded for reading; a radius, and the size of Δ that something is proven for, always downwards."
    if radii.unknown:
        yield radii.unknown
    elif method.found:
        # One digit, upwards, without an exponent: an upper bound that people can read.
        exponent = math.floor(math.log10(radii.slack))
        slack = math.ceil(radii.slack / 10.0**exponent - 1e-6) * 10.0**exponent
        yield (
            f"A radius is a proven lower bound: the promise is proven for every smaller {radii.along.unit}. The true "
            f"one is at most {slack:.{max(0, -exponent)}f} larger, except for promises that are undecided."
        )
    if isinstance(changes, PlausibleChanges) and isinstance(changes.delta, tuple) and radii.known:
        yield (
            f"Δ has a radius for each {'layer' if changes.per_layer else 'parameter'}, while radii and curves let "
            "every parameter move by the same delta. Shares on the curve can therefore lie below the share that is "
            "proven for Δ."
        )
    if isinstance(changes, PlausibleChanges) and not changes.biases:
        yield (
            "The biases stay as they are in every model that verdicts, radii and curves speak of. Retraining usually "
            "moves them too, and is then not covered."
        )
    if method.unknown:
        yield "A radius of undecided advice is not said to exceed Δ's."


def _limits_of_changes(changes: Changes, inside: Inside | None) -> Iterator[str]:
    """What Δ leaves open."""
    if changes.unit == "margin":
        yield (
            "The proof bounds how far a score falls, not how a model changes. Which retrained models it covers is a "
            "matter of measurement, not of proof."
        )
    else:
        scratch = " A model that is retrained from scratch is typically not among them, however alike its decisions."
        known = (
            "that is an assumption about how you retrain"
            if inside is None
            else "its probability was measured, on updates that the next one has to be like"
        )
        yield f"No proof says that the next model is one of those: {known}." + (
            scratch if isinstance(changes, PlausibleChanges) else ""
        )
        parts = "leaves and thresholds" if changes.unit == "factor" else "parameters"
        yield (
            f"The proof covers changes of the model's own {parts}. A refitted scaler, a new category or "
            + (
                "a moved decision threshold"
                if changes.threshold is None
                else "a threshold beyond the stated ones"
            )
            + " is not covered."
        )
    if changes.chance is not None:
        yield (
            "The chance is about the share of all such promises, under models retrained like those it was measured "
            "on. It is no proof, and says nothing about a single person."
        )


def classes_of(recourse: Recourse) -> str:
    """The class that was promised, in words."""
    wanted = np.unique(recourse.targets)
    if wanted.size == 1:
        return f"class {recourse.classifier.classes[wanted[0]]}"
    return "the class that they asked for"


def for_people(reason: RecourseReason, space: FeatureSpace, wanted: str = "a yes") -> str:
    """A generator's reason without the words of the mathematics, and with people's words for columns.

    >>> import pandas as pd
    >>> space = FeatureSpace.from_frame(pd.DataFrame({"missed_payments": [0, 9], "income": [1, 2]}))
    >>> ways = "if missed_payments, age (immutable) may change, or if income may change by more than max_change"
    >>> said = f"no point within the constraints is accepted by every model in Δ; there is one {ways}"
    >>> print(*for_people(RecourseReason(ReasonKind.IMPOSSIBLE, said), space).split(". "), sep="\\n")
    No allowed change is enough for every plausible model (proven)
    It would take a change of missed payments and age; or a change of income beyond the limit.
    """
    if reason.kind is ReasonKind.ACCEPTED:
        return f"The model gives {wanted} already."
    if reason.kind is ReasonKind.FIXED:
        return f"No detail can be changed{PROVEN}."
    known = reason.bare
    for feature in space.features:
        name = str(feature.name)
        if "_" in name and space.label(feature.name) == name:
            known = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", name.replace("_", " "), known)
    found = _IMPOSSIBLE.fullmatch(known)
    if found is None:
        for said, plain in _PLAIN.items():
            known = known.replace(said, plain)
        return capital(known) + PROVEN * reason.kind.proven
    enough = "enough for every plausible model" if "Δ" in found["who"] else "enough"
    return f"No allowed change is {enough}{PROVEN}." + _would_take(found["more"] or "")


def _would_take(more: str) -> str:
    """What would have to give, in a sentence."""
    if not more.startswith("there is one "):
        return f" {capital(more)}." if more else ""
    ways = re.split(r", or (?=if |without |with |outside )", more.removeprefix("there is one "))
    return f" It would take {'; or '.join(map(_way, ways))}."


def _way(way: str) -> str:
    """One kind of limit that would have to give; its columns have to change together."""
    for pattern, plain in _WAYS:
        found = re.fullmatch(pattern, way, re.S)
        if found:
            what = "".join(found.groups())
            return plain.format(
                " and ".join(what.rsplit(", ", 1)) if way.startswith("if ") else what
            )
    return way


def capital(text: str) -> str:
    """The text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def _of(part: int, whole: int, what: str, *verb: str) -> str:
    """A part of a whole, and the verb for one of them and for several."""
    end = f" {_plural(part, *verb)}" if verb else ""
    if part != whole:
        return f"{part:,} of {whole:,} {what} ({numbers.part_of(part, whole)}){end}"
    return (f"All {whole:,} {what}" if whole > 1 else "The one promise") + end


def _everyone(count: int, who: str) -> str:
    """All of them, or the only one."""
    one = who.replace("people who do", "person who does").replace("people", "person")
    return f"all {count:,} {who}" if count > 1 else f"the one {one}"


def _plural(count: int, one: str, many: str = "") -> str:
    return one if count == 1 else many or f"{one}s"
