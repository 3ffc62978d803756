"""Random questions at every scale, and whether what holdfast says of them is true.

A *statement* is anything that could be false: a verdict, its counter-model, the bounds of a margin, both ends of a
radius, both ends of a logit's range, "within the tolerance", a certificate, an optimum. `Tally` counts them by kind and
by answer, so that a fuzz in which everything is decided by the forward pass is seen for what it is, and keeps a
reproducer of each false one. `reference` says what is true.
"""

from __future__ import annotations

import math
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

import holdfast as hf
from holdfast.promises._certificate import NoCertificateError
from kinds import TABLE, accepts, belongs, logits_of, question, rivals_of, worst_of
from oracle import adversarial_changed
from reference import (
    Enclosure,
    Margins,
    exact_class,
    exact_logits,
    inside,
    least_logit,
    least_margins,
    robust,
)
from tiny_worlds import World, random_world

SCALES = ("ordinary", "edge", "dyadic", "layers", "entries")
NORMS = (1.0, 1.0001, 1.001, 1.01, 1.1, 1.5, 2.0, 3.0, 10.0, 50.0)
# Seconds of computing; a call that takes longer on networks of a few neurons will not end.
PATIENCE = 8.0
POINTS = 4
# Questions that one run may ask.
PARTS = 1_000_000


class TooSlowError(Exception):
    """A call did not end in time."""


@dataclass(frozen=True)
class Case:
    """One network, one Δ, a few points with the classes that they should keep; `tol` is relative to what is asked."""

    scale: str
    network: hf.Network
    changes: hf.PlausibleChanges
    points: np.ndarray
    targets: np.ndarray
    tol: float

    def __str__(self) -> str:
        """Python that builds the question again."""
        net, changes = self.network, self.changes
        weights, biases = ([part.tolist() for part in parts] for parts in (net.weights, net.biases))
        delta, moving = _plain(changes.delta), _plain(changes.biases)
        return (
            f"network = hf.Network({weights}, {biases}, activations={list(net.activations)})\n"
            f"changes = hf.PlausibleChanges({delta}, norm=float('{changes.norm}'), biases={moving})\n"
            f"points, targets, tol = {self.points.tolist()}, {self.targets.tolist()}, {self.tol}"
        )


def _plain(value: Any) -> Any:
    """Arrays, and tuples of arrays, as lists."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


@dataclass
class Tally:
    """How many statements of each kind got which answer, and what was false."""

    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    false: list[str] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)

    @property
    def statements(self) -> int:
        return self.answers.total()

    def count(self, kind: str) -> int:
        """How many statements of one kind were made."""
        return sum(n for (of, _), n in self.answers.items() if of == kind)

    def say(self, kind: str, answer: str, true: bool, case: object, why: str = "") -> None:
        self.answers[kind, answer if true else "FALSE"] += 1
        if not true:
            self.false.append(f"{kind}: {answer} {why}\n{case}")

    def add(self, other: Tally) -> None:
        """Count what another has counted."""
        self.answers += other.answers
        self.notes += other.notes
        self.seconds += other.seconds
        self.false += other.false

    @contextmanager
    def asking(self, what: str, case: object) -> Iterator[None]:
        """A refusal or a warning is noted; a crash or a call without end counts as a false statement."""
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with at_most(PATIENCE):
                    yield
            except hf.HoldfastError as error:
                self.notes["refused", f"{what}: {str(error).split(', got')[0]}"] += 1
                if "report this as a bug" in str(error):
                    self.say(what, "crash", False, case, str(error))
            except TooSlowError:
                self.say(what, "without end", False, case)
            except Exception as error:
                self.say(what, "crash", False, case, repr(error))
        self.seconds[what] += time.perf_counter() - start
        for warning in caught:
            self.notes["warning", f"{what}: {str(warning.message)[:70]}"] += 1


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt what computes longer, also where it never ends; for the main thread."""

    def interrupt(*_: object) -> None:
        raise TooSlowError(f"expected an answer within {seconds} s")

    # The process's own time, so that a busy machine does not count.
    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


# --- questions -------------------------------------------------------------------------------------------------------


def random_case(seed: int | list[int]) -> Case:
    """A network of up to four hidden layers of one to three neurons, and Δ of any shape."""
    rng = np.random.default_rng(seed)
    scale = SCALES[rng.integers(len(SCALES))]
    depth = int(rng.choice([0, 1, 2, 3, 4], p=[0.2, 0.15, 0.35, 0.2, 0.1]))
    norm = math.inf if rng.random() < 0.75 else float(rng.choice(NORMS))
    if norm != math.inf and depth and scale in ("layers", "entries"):
        # What a search over the ball finds there says little: the closed form does.
        depth = 0
    outputs = int(rng.choice([1, 1, 1, 2, 3]))
    sizes = [int(rng.integers(1, 4)), *rng.integers(1, 4, depth).tolist(), outputs]
    kinds = rng.choice(
        ["relu", "identity"], depth, p=[0.5, 0.5] if rng.random() < 0.3 else [1.0, 0.0]
    ).tolist()
    weights, biases, points, step = _numbers(rng, scale, sizes)
    network = hf.Network(weights, biases, activations=kinds)
    changes = _changes(rng, network, step, norm, dyadic=scale == "dyadic")
    targets = np.array([exact_class(network, x) for x in points])
    if rng.random() < 0.1:
        targets[:] = rng.integers(0, len(network.classes))
    tol = float(10.0 ** rng.integers(-8, -2))
    case = Case(scale, network, changes, points, targets, tol)
    return _at_the_edge(case, rng) if scale != "ordinary" or rng.random() < 0.5 else case


def _numbers(
    rng: np.random.Generator, scale: str, sizes: list[int]
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray, list[float]]:
    """Weights, biases and points, and what is a small step for each layer."""
    shapes = [(b, a) for a, b in pairwise(sizes)]
    if scale == "dyadic":
        weights = [rng.integers(-8, 9, shape) / 4.0 for shape in shapes]
        biases = [rng.integers(-4, 5, shape[0]) / 8.0 for shape in shapes]
        return weights, biases, rng.integers(-4, 5, (POINTS, sizes[0])) / 2.0, [1.0] * len(shapes)
    weights = [rng.normal(0.0, 1.2, shape) / math.sqrt(shape[1]) for shape in shapes]
    biases = [rng.normal(0.0, 0.3, shape[0]) for shape in shapes]
    points = (
        rng.normal(0.0, 1.0, (POINTS, sizes[0]))
        if rng.random() < 0.5
        else rng.random((POINTS, sizes[0]))
    )
    points[rng.random(points.shape) < 0.1] = 0.0
    for weight in weights:
        weight[rng.random(weight.shape) < 0.1] = 0.0
    step = np.ones(len(shapes))
    if scale == "layers":
        wide = float(rng.choice([8.0, 30.0, 120.0], p=[0.4, 0.5, 0.1]))
        step = 10.0 ** rng.uniform(-wide, wide, len(shapes))
        size = 10.0 ** rng.uniform(-wide, wide)
        points = points * size
        weights = [w * s for w, s in zip(weights, step, strict=True)]
        biases = [b * s for b, s in zip(biases, size * np.cumprod(step), strict=True)]
    elif scale == "entries":
        wide = float(rng.choice([3.0, 10.0, 30.0]))
        weights, biases = (
            [values * 10.0 ** rng.uniform(-wide, wide, values.shape) for values in part]
            for part in (weights, biases)
        )
        points = points * 10.0 ** rng.uniform(-wide, wide, points.shape)
        step = 10.0 ** rng.uniform(-wide, wide, len(shapes))
    return weights, biases, points, step.tolist()


def _changes(
    rng: np.random.Generator, network: hf.Network, step: list[float], norm: float, *, dyadic: bool
) -> hf.PlausibleChanges:
    """One radius, one for each layer, or one for each parameter down and up; some of them zero."""
    fractions = [2.0**-k for k in range(1, 7)]

    def size(shape: tuple[int, ...] = ()) -> np.ndarray:
        return rng.choice(fractions, shape) if dyadic else 10.0 ** rng.uniform(-3.0, -0.3, shape)

    biases = bool(rng.random() < 0.7)
    kind = rng.choice(
        ["one", "layer", "parameter"], p=[0.4, 0.4, 0.2] if norm == math.inf else [0.6, 0.4, 0.0]
    )
    if kind == "one":
        return hf.PlausibleChanges(
            float(size() * step[rng.integers(len(step))]), norm=norm, biases=biases
        )
    if kind == "layer":
        radii = size((len(step),)) * step * (rng.random(len(step)) < 0.75)
        if not radii.any():
            radii[-1] = size() * step[-1]
        return hf.PlausibleChanges(tuple(radii.tolist()), norm=norm, biases=biases)
    both = (2,) if rng.random() < 0.5 else ()
    shapes = [(*both, *weight.shape) for weight in network.weights]
    weights = [
        size(shape) * s * (rng.random(shape) < 0.75) for shape, s in zip(shapes, step, strict=True)
    ]
    weights[-1].flat[0] = size() * step[-1]
    shapes = [(*both, *bias.shape) for bias in network.biases]
    moving: Any = [
        size(shape) * s * (rng.random(shape) < 0.75) for shape, s in zip(shapes, step, strict=True)
    ]
    return hf.PlausibleChanges(weights, biases=moving if biases else False)  # type: ignore[arg-type]


def _at_the_edge(case: Case, rng: np.random.Generator) -> Case:
    """The last bias moved until the first point's least margin is zero, or nearly so."""
    network, target = case.network, int(case.targets[0])
    least = min(high for _, high in _truth(case, 0, case.changes, seed=0).values())
    single = network.n_outputs == 1
    output, sign = (0, 1 if target == 1 else -1) if single else (target, 1)
    last = network.biases[-1].copy()
    off = (
        0.0
        if case.scale == "dyadic"
        else float(rng.choice([0.0, 1e-15, 1e-13, 1e-12, 1e-11, 1e-9, 1e-4, 0.1]))
    )
    try:
        last[output] = float(Fraction(float(last[output])) - sign * least)
        last[output] += (
            sign * rng.choice([-1.0, 1.0]) * off * (abs(last[output]) + float(abs(least)))
        )
    except OverflowError:
        return case
    return replace(
        case, network=network.with_parameters(network.weights, [*network.biases[:-1], last])
    )


# --- what is true ----------------------------------------------------------------------------------------------------


def _truth(case: Case, i: int, changes: hf.PlausibleChanges, seed: int) -> Margins:
    """Enclosures of the least margins; for a ball and hidden layers only from above, by a network in the ball."""
    x, target = case.points[i], int(case.targets[i])
    if changes.norm == math.inf or not case.network.hidden:
        return least_margins(case.network, x, target, changes)
    found = [_margins_of(member, x, target) for member in _members(case, i, changes, seed)]
    lowest = min(found, key=lambda margins: min(margins.values()))
    return {rival: (-Fraction(10**300), margin) for rival, margin in lowest.items()}


def _margins_of(network: hf.Network, x: np.ndarray, target: int) -> dict[int | None, Fraction]:
    logits = exact_logits(network, x)
    if len(logits) == 1:
        return {None: logits[0] if target == 1 else -logits[0]}
    return {rival: logits[target] - logit for rival, logit in enumerate(logits) if rival != target}


def _members(case: Case, i: int, changes: hf.PlausibleChanges, seed: int) -> Iterator[hf.Network]:
    """Networks in Δ: today's, and the lowest that a walk downhill on the margin of a point meets."""
    x, target, network = case.points[i], int(case.targets[i]), case.network
    yield network
    met: list[tuple[float, hf.Network]] = []
    rng = np.random.default_rng(seed)
    for batch in adversarial_changed(network, changes, x, target, restarts=24, steps=16, rng=rng):
        logits = batch.logits(x[None])[:, 0]
        own = logits[:, 0] * (1 if target else -1) if network.n_outputs == 1 else logits[:, target]
        margins = (
            own if network.n_outputs == 1 else own - np.delete(logits, target, axis=1).max(axis=1)
        )
        k = int(np.argmin(margins))
        met.append((float(margins[k]), batch.pick(k, network.classes)))
    lowest = sorted(met, key=lambda pair: pair[0])[:4]
    yield from (member for _, member in lowest if inside(network, changes, member))


def _holds(case: Case, i: int, changes: hf.PlausibleChanges) -> bool | None:
    return robust(_truth(case, i, changes, seed=1), int(case.targets[i]))


def _replays(case: Case, i: int, witness: hf.Network | None) -> str:
    """What is wrong with a counter-model; nothing if nothing is."""
    x, target = case.points[i], int(case.targets[i])
    if witness is None:
        return "there is none"
    if not inside(case.network, case.changes, witness):
        return "it lies outside Δ"
    if exact_class(witness, x) == target:
        return "it keeps the class"
    return (
        ""
        if int(witness.predict_index(x[None])[0]) != target
        else "its own forward pass keeps the class"
    )


# --- statements ------------------------------------------------------------------------------------------------------


def check_verdicts(case: Case, tally: Tally) -> None:
    """`certify`: the verdict, the counter-model behind it, the bounds of the margin, and the certificate of one row."""
    certs = None
    with tally.asking("certify", case):
        certs = hf.certify(case.network, case.points, case.targets, case.changes)
    if certs is None:
        return
    for i in range(len(case.points)):
        margins = _truth(case, i, case.changes, seed=i)
        true = robust(margins, int(case.targets[i]))
        verdict, about = certs.verdict[i].name, f"{case}\nrow = {i}"
        claimed = {"ROBUST": True, "NOT_ROBUST": False}.get(verdict)
        answer = f"{verdict} by {certs.decided_by[i]}"
        tally.say("verdict", answer, None in (true, claimed) or true == claimed, about)
        if claimed is None:
            tally.notes[
                "unknown", f"{case.scale}, {'box' if case.changes.norm == math.inf else 'ball'}"
            ] += 1
        if verdict == "NOT_ROBUST":
            with tally.asking("witness", about):
                wrong = _replays(case, i, certs.witness(i))
                tally.say("witness", "replays", not wrong, about, wrong)
        low, high = (min(ends[k] for ends in margins.values()) for k in (0, 1))
        lower, upper = float(certs.margin_lower[i]), float(certs.margin_upper[i])
        tally.say(
            "margin", "lower bound", not _above(lower, high), about, f"{lower} > {float(high)}"
        )
        tally.say("margin", "upper bound", not _above(low, upper), about, f"{upper} < {float(low)}")
    _check_certificate(case, certs, tally)


def _above(a: float | Fraction, b: float | Fraction) -> bool:
    """a > b, with infinities; a number that is none is above everything."""
    if isinstance(a, float) and not math.isfinite(a):
        return not a < b
    if isinstance(b, float) and not math.isfinite(b):
        return not a < b
    return Fraction(a) > Fraction(b)


def _check_certificate(case: Case, certs: hf.Certificates, tally: Tally) -> None:
    known = [i for i in range(len(case.points)) if certs.verdict[i] is not hf.Verdict.UNKNOWN]
    for i in sorted(known, key=lambda i: not certs.robust[i])[:1]:
        about = f"{case}\nrow = {i}"
        with tally.asking("certificate", about):
            what = f"of a {certs.verdict[i].name} row"
            try:
                report = hf.check_certificate(hf.certificate(certs, i), case.network)
            except NoCertificateError as error:
                # In other norms not every proof has a form that the checker takes.
                tally.notes["no certificate", f"{what}, norm {case.changes.norm:g}"] += 1
                tally.say("certificate", "none", case.changes.norm != math.inf, about, str(error))
            else:
                tally.say("certificate", what, report.accepted, about, report.reason)


def check_radii(case: Case, tally: Tally) -> None:
    """`certified_radius`: robust just below `lower`, broken at `upper`, and `met` says whether they are near."""
    norm, biases, n = case.changes.norm, bool(case.changes.biases), min(len(case.points), 2)
    tol = case.tol * _largest(case.changes.delta)
    radius = None
    with tally.asking("radius", case):
        radius = hf.certified_radius(
            case.network, case.points[:n], case.targets[:n], norm=norm, biases=biases, tol=tol
        )
    for i in range(n if radius is not None else 0):
        lower, upper, about = float(radius.lower[i]), float(radius.upper[i]), f"{case}\nrow = {i}"
        words = f"({lower}, {upper})"
        met, gap = bool(radius.met[i]), upper - lower
        if not math.isnan(gap):
            # Where the difference rounds to the tolerance, either answer will do.
            said = gap <= tol * (1.0 + 1e-12) if met else gap >= tol * (1.0 - 1e-12)
            tally.say("radius", "met" if met else "not met", said, about, words)
        below = float(np.nextafter(min(lower, 1e100), 0.0))
        if below > 0.0:
            kept = _holds(case, i, hf.PlausibleChanges(below, norm=norm, biases=biases))
            tally.say("radius", "lower > 0", kept is not False and lower <= upper, about, words)
        if math.isfinite(upper):
            beyond = hf.PlausibleChanges(max(upper, 5e-324), norm=norm, biases=biases)
            tally.say(
                "radius",
                "upper" if upper else "upper = 0",
                _holds(case, i, beyond) is not True,
                about,
                words,
            )


def _largest(delta: Any) -> float:
    return max(map(_largest, delta)) if isinstance(delta, tuple) else float(np.max(delta))


def check_ranges(case: Case, tally: Tally) -> None:
    """`output_bounds`: no logit leaves them, and `met` says where they are tight."""
    bounds, n = None, min(len(case.points), 2)
    tol = case.tol * max(float(np.abs(case.network.logits(case.points)).max()), 1e-250)
    with tally.asking("range", case):
        bounds = hf.output_bounds(case.network, case.points[:n], case.changes, tol=tol)
    if bounds is None:
        return
    for i, k in np.ndindex(n, case.network.n_outputs):
        low, high = _logit_range(case, i, k)
        lower, upper, about = (
            float(bounds.lower[i, k]),
            float(bounds.upper[i, k]),
            f"{case}\nrow, logit = {i}, {k}",
        )
        words = f"({lower}, {upper}) around ({float(low[0])}, {-float(high[0])})"
        sound = not _above(lower, low[1]) and not _above(-upper, high[1])
        tally.say("range", "holds the logit", sound, about, words)
        allowed = Fraction(tol)
        # Where only members of Δ are known, how tight a range is stays open: `low[0]` is far below.
        tight = (
            sound and not _above(low[0] - allowed, lower) and not _above(high[0] - allowed, -upper)
        )
        met = bool(bounds.met[i, k])
        tally.say("range", "met" if met else "not met", tight or not met, about, words)


def _logit_range(case: Case, i: int, k: int) -> tuple[Enclosure, Enclosure]:
    """The least of a logit and of its negative."""
    if case.changes.norm == math.inf or not case.network.hidden:
        low, high = (
            least_logit(case.network, case.points[i], k, sign, case.changes) for sign in (1, -1)
        )
        return low, high
    values = [
        exact_logits(member, case.points[i])[k]
        for member in _members(case, i, case.changes, seed=k)
    ]
    return (-Fraction(10**300), min(values)), (-Fraction(10**300), -max(values))


def check_optimum(seed: int, tally: Tally) -> None:
    """`Closest` and `MCE` on a grid: the answer is good, and no cheaper point is; "proven: none" means none."""
    world = random_world(seed)
    rng = np.random.default_rng([seed, 1])
    if world.network.hidden and rng.random() < 0.4:
        kinds = rng.choice(["relu", "identity"], len(world.network.hidden)).tolist()
        world = replace(
            world,
            network=hf.Network(world.network.weights, world.network.biases, activations=kinds),
        )
    if int(world.network.predict_index(world.space.encode(world.person))[0]) == world.target:
        return
    for generator, good in ((hf.Closest(), _all_accept), (hf.MCE(), _today_accepts)):
        about = f"check_optimum({seed}, tally) of tests/fuzz.py, {type(generator).__name__}"
        result = None
        with tally.asking("optimum", about):
            result = hf.explain(
                world.network, world.person, target=world.network.classes[world.target],
                changes=world.changes, generator=generator, space=world.space,
            )  # fmt: skip
        if result is not None:
            _check_answer(world, result, good, tally, about)


def _check_answer(
    world: World,
    result: hf.Recourse,
    good: Callable[[World, np.ndarray], bool],
    tally: Tally,
    about: str,
) -> None:
    found, own = bool(result.found[0]), world.space.encode(world.person)
    cost = float(result.cost_l1[0]) if found else math.inf
    gap = float(result.optimality_gap[0])
    if found:
        tally.say(
            "optimum", "an answer", good(world, result.points[0]), about, "it is not accepted"
        )
    if not (found and gap <= 1e-6) and not str(result.reason[0]).startswith("proven: "):
        tally.notes["optimum", "not proven"] += 1
        return
    points = world.points
    costs = world.space.cost_l1(points, own)
    cheaper = points[costs < cost * (1.0 - 1e-6) - 1e-9]
    better = next((x for x in cheaper if good(world, x)), None)
    tally.say(
        "optimum",
        "nothing cheaper" if found else "proven: none",
        better is None,
        about,
        f"{better} is",
    )


def _today_accepts(world: World, x: np.ndarray) -> bool:
    return exact_class(world.network, x) == world.target


def _all_accept(world: World, x: np.ndarray) -> bool:
    if not _today_accepts(world, x):
        return False
    return (
        robust(least_margins(world.network, x, world.target, world.changes), world.target) is True
    )


def check_kinds(kind: str, model: str, scale: str, seed: int, tally: Tally) -> None:
    """A question about another kind of change: verdicts, counter-models, margins and radii."""
    about = f"check_kinds({kind!r}, {model!r}, {scale!r}, {seed}, tally) of tests/fuzz.py"
    asked, certs, radii = None, None, None
    with tally.asking("kinds", about):
        asked = question(kind, model, seed, scale)
        labels = asked.model.classes[asked.targets]
        certs = hf.certify(asked.model, asked.points, labels, asked.changes)
        radii = hf.certified_radius(asked.model, asked.points, labels, changes=asked.changes)
    if asked is None or certs is None or radii is None:
        return
    for i, (x, target) in enumerate(zip(asked.points, asked.targets.tolist(), strict=True)):
        row, verdict = f"{about}, row {i}", certs.verdict[i].name
        holds, low, high = worst_of(asked.model, asked.changes, x, target)
        answer = f"{verdict} by {kind}"
        tally.say("verdict", answer, verdict == "UNKNOWN" or (verdict == "ROBUST") == holds, row)
        if verdict == "NOT_ROBUST":
            with tally.asking("witness", row):
                found = certs.witness(i)
                breaks = int(found.predict_index(x[None])[0]) != target and not accepts(
                    found, x, target
                )
                tally.say("witness", "replays", breaks, row, "it keeps the class")
                tally.say(
                    "witness", "inside", belongs(asked.model, asked.changes, x, target, found), row
                )
        # Trees have a certificate where more than rounding decides, under a shift or of their own kind.
        clear = kind in ("trees", "shift") and abs(low) > 1e-9
        checked = (
            clear
            if isinstance(asked.model, hf.TreeEnsemble)
            else isinstance(asked.model, hf.Network)
        )
        if verdict != "UNKNOWN" and checked:
            with tally.asking("certificate", row):
                report = hf.check_certificate(hf.certificate(certs, i), asked.model)
                tally.say(
                    "certificate",
                    f"of a {verdict} row, {kind}",
                    report.accepted,
                    row,
                    report.reason,
                )
        lower, upper = float(certs.margin_lower[i]), float(certs.margin_upper[i])
        tally.say("margin", "lower bound", not _above(lower, high), row, f"{lower} > {float(high)}")
        tally.say("margin", "upper bound", not _above(low, upper), row, f"{upper} < {float(low)}")
        if scale == "ordinary":
            size = float(
                max(abs(margin) for margin, _ in rivals_of(logits_of(asked.model, x), target, 0))
            )
            close = abs(lower - float(low)) <= 1e-9 * max(1.0, size, abs(float(low)))
            tally.say("margin", "exact", close, row, f"{lower} is not {float(low)}")
        below, above = math.nextafter(float(radii.lower[i]), 0.0), float(radii.upper[i])
        kept = (
            radii.lower[i] == 0.0
            or worst_of(asked.model, asked.changes.resized(below), x, target)[0]
        )
        tally.say("radius", "lower", kept, row, f"broken at {below}")
        lost = (
            above == math.inf
            or not worst_of(asked.model, asked.changes.resized(above), x, target)[0]
        )
        tally.say("radius", "upper", lost, row, f"kept at {above}")


def run(seed: int, statements: int) -> Tally:
    """Ask until so many statements have been checked."""
    tally, k = Tally(), 0
    while tally.statements < statements:
        case = None
        with tally.asking("question", f"random_case([{seed}, {k}])"):
            case = random_case([seed, k])
        if case is not None:
            for check in (check_verdicts, check_radii, check_ranges):
                check(case, tally)
        if k % 4 == 0:
            check_kinds(*TABLE[(31 * seed + k // 4) % len(TABLE)], PARTS * seed + k, tally)
        if k % 20 == 0:
            check_optimum(1000 * seed + k // 20, tally)
        k += 1
    return tally
