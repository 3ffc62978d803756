"""Contents of reports, made by hand: small and large, with awkward texts, without answers, without Δ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from holdfast.presentation.report._contents import (
    Calibrated,
    Column,
    Contents,
    Counted,
    CounterModel,
    Curve,
    Figures,
    Gauge,
    Missing,
    Moves,
    OtherWay,
    ParameterChange,
    Person,
    Slices,
    Value,
)

DELTA = 0.0052
UPDATES = tuple(0.0025 + 0.00015 * i for i in range(20))
GAUGE = Gauge(0.0086, ((0.0039, "typical update"), (UPDATES[-1], "largest of 20")), 0.0039, UPDATES)
# Texts that break a page which trusts them.
AWKWARD = [
    "</script><script>alert(1)</script>",
    "<b>bold</b> & \"quoted\" 'twice'",
    "line\u2028apart",
    "{{ 7 * 7 }}",
    "<!--",
]
NAMES = ["income", "debt", "savings", "card utilisation", "months of history", "dependants"]
UNITS = ["USD", "USD", "USD", "%", "months", ""]
MOVES = ["up or down", "only down", "up or down", "up or down", "only up", "fixed"]
# Of each column the lowest and the highest value, and how advice moves it.
RANGES = [(900, 6500), (100, 20000), (0, 9000), (5, 98), (2, 240), (0, 4)]
STEPS = [(50, 900), (-3000, -100), (100, 2500), (-40, 12), (1, 18), (0, 0)]
HOUSING = ["rent", "mortgage", "own", "with family"]
REASONS = [
    ("No change within the limits reaches the promised class", True),
    ("The time limit ended the search", False),
]


def contents(
    n: int = 120, *, numeric: int = 6, mixed: int = 1, methods: int = 1, seed: int = 0
) -> Contents:
    """A report on n people with these numbers of columns (of numbers and of categories) and of methods."""
    rng = np.random.default_rng(seed)
    columns = _columns(numeric, mixed)
    people = tuple(_person(i, columns, rng) for i in range(n))
    first = _method(
        "closest", [person.cost for person in people], [person.radius for person in people], people
    )
    others = tuple(_other(k, first, people, rng) for k in range(1, methods))
    robust = sum(person.verdict == "ROBUST" for person in people)
    found = sum(bool(person.after) for person in people)
    return Contents(
        title="Recourse for declined loan applicants",
        date="2 March 2026",
        facts=(
            ("Model", "network of 2 hidden layers (10, 5), 131 parameters"),
            ("Promised class", "1 (accepted)"),
            ("Δ", f"every parameter within {DELTA} of today's, biases included"),
            ("Calibrated δ", "0.0047. Number 19 of 20 distances in rising order."),
            ("Written by", "holdfast 0.1.0"),
        ),
        promise=(
            f"{found} of {n} people can get a loan; there is advice for each.",
            f"{robust} promises are proven for every model that moves no further than 19 of 20 measured updates did.",
            "Measured, not proven: the next update stays within this limit with a probability of at least 90%.",
        ),
        figures=(
            (f"{robust} of {n}", "people have proven advice"),
            (
                "90%",
                "probability that the next update stays within the proof: measured, not proven",
            ),
            ("2.5", "changes for each person; typically income +500 USD"),
        ),
        models="every model that moves no further than 19 of the 20 measured updates did",
        wanted="a loan",
        delta=DELTA,
        calibrated=Calibrated(
            0.0047,
            "Number 19 of 20 distances in rising order.",
            updates=UPDATES,
            rank=19,
        ),
        methods=(first, *others),
        columns=columns,
        moves=_moves(columns, people),
        slices=(_slices("sex", "Sex", ("female", "male", "not stated"), people, rng),),
        missing=_missing(people),
        people=people,
        limits=(
            "No proof covers a model that is retrained from scratch.",
            "Undecided advice is never counted as proven.",
        ),
        technical=("A radius is a proven lower bound.",),
        gauge=GAUGE,
        cost="The mean change over the variables of the model",
    )


def awkward() -> Contents:
    """Every text is one that breaks a careless page."""
    plain = contents(30, methods=2)
    columns = tuple(
        replace(column, label=AWKWARD[i % 5] + str(i), unit=AWKWARD[(i + 1) % 5])
        for i, column in enumerate(plain.columns)
    )
    people = tuple(
        replace(
            person,
            key=f"{AWKWARD[i % 5]} {i}",
            advice=tuple(AWKWARD[:2]),
            reason=AWKWARD[i % 5] if person.reason else "",
            lasts=AWKWARD[i % 5],
            against=(Counted(0, AWKWARD[i % 5], 1.0),),
            others=(OtherWay(AWKWARD[0], tuple(AWKWARD[:2])),),
            before=(*person.before[:-1], AWKWARD[0]),
            after=(*person.after[:-1], AWKWARD[1]) if person.after else (),
        )
        for i, person in enumerate(plain.people)
    )
    return replace(
        plain,
        title=AWKWARD[0],
        promise=tuple(AWKWARD),
        figures=((AWKWARD[0], AWKWARD[1]),),
        models=AWKWARD[0],
        wanted=AWKWARD[1],
        facts=((AWKWARD[0], AWKWARD[1]),),
        columns=columns,
        people=people,
        methods=tuple(replace(method, name=AWKWARD[i]) for i, method in enumerate(plain.methods)),
        moves=tuple(
            replace(
                move, column=column, swaps=tuple((AWKWARD[0], AWKWARD[1], 3) for _ in move.swaps)
            )
            for move, column in zip(plain.moves, columns, strict=True)
        ),
        slices=tuple(
            replace(
                one,
                label=AWKWARD[0],
                note=AWKWARD[1],
                groups=tuple(replace(g, name=AWKWARD[4]) for g in one.groups),
            )
            for one in plain.slices
        ),
        missing=tuple(replace(one, reason=AWKWARD[0]) for one in plain.missing),
        limits=tuple(AWKWARD),
        technical=tuple(AWKWARD),
    )


def without_answers(n: int = 12) -> Contents:
    """No advice was found for any person."""
    plain = contents(n)
    reason = REASONS[0][0]
    people = tuple(
        replace(
            p,
            after=(),
            advice=(),
            verdict="",
            cost=None,
            radius=None,
            gap=None,
            worst_margin=None,
            reason=reason,
            counter=None,
            lasts="",
        )
        for p in plain.people
    )
    method = Figures("closest", n, 0, 0, 0, None, None, None)
    return replace(
        plain,
        promise=(f"No advice was found for all {n} people.",),
        figures=((f"0 of {n}", "people have proven advice"),),
        methods=(method,),
        moves=tuple(Moves(column, 0) for column in plain.columns),
        slices=(),
        missing=(Missing(reason, n, True),),
        people=people,
    )


def without_delta(n: int = 60) -> Contents:
    """Advice was found, nothing was certified, and no radius is known."""
    plain = contents(n)
    people = tuple(
        replace(p, verdict="", radius=None, worst_margin=None, counter=None, lasts="")
        for p in plain.people
    )
    method = replace(plain.methods[0], robust=0, unknown=0, median_radius=None, survival=None)
    return replace(
        plain,
        delta=None,
        calibrated=None,
        gauge=None,
        models="",
        people=people,
        methods=(method,),
        figures=((f"{method.found} of {n}", "people have advice"),),
        promise=("Nothing was certified.",),
    )


def _columns(numeric: int, mixed: int) -> tuple[Column, ...]:
    numbers = [
        Column(
            (name := NAMES[i % 6].replace(" ", "_") + (f"_{i // 6 + 1}" if i >= 6 else "")),
            name.replace("_", " "),
            UNITS[i % 6],
            True,
            MOVES[i % 6],
        )
        for i in range(numeric)
    ]
    texts = [
        Column(
            f"housing_{i}" if i else "housing",
            f"housing {i}" if i else "housing",
            "",
            False,
            "any of 4",
        )
        for i in range(mixed)
    ]
    return (*numbers, *texts)


def _person(i: int, columns: tuple[Column, ...], rng: np.random.Generator) -> Person:
    before = tuple(
        round(float(rng.uniform(*RANGES[k % 6])), 2 if k % 6 == 2 else 0)
        if column.numeric
        else HOUSING[int(rng.integers(4))]
        for k, column in enumerate(columns)
    )
    key = f"A-{i + 1:05d}"
    if rng.random() < 0.06:
        return Person(
            key,
            before,
            (),
            (),
            "",
            None,
            None,
            None,
            None,
            REASONS[int(rng.random() < 0.4)][0],
            None,
        )
    after = list(before)
    for k in rng.choice(
        len(columns), size=min(len(columns), int(rng.integers(1, 5))), replace=False
    ):
        column = columns[k]
        if column.moves == "fixed":
            continue
        after[k] = _moved(before[k], STEPS[k % 6], rng)
    advice = tuple(
        _sentence(column, old, new)
        for column, old, new in zip(columns, before, after, strict=True)
        if old != new
    )
    radius = float(rng.gamma(4.0, 0.0022))
    verdict = (
        "UNKNOWN" if abs(radius - DELTA) < 5e-5 else "ROBUST" if radius > DELTA else "NOT_ROBUST"
    )
    changes = tuple(
        ParameterChange(
            f"layer {1 + j % 2}, weight {j + 1} → {i % 7 + 1}", today, today - radius, -abs(effect)
        )
        for j, (today, effect) in enumerate(rng.normal(size=(5, 2)).tolist())
    )
    counter = CounterModel(radius + 1e-6, radius < DELTA, float(rng.gamma(2, 0.4)), -1e-7, changes)
    cost = float(rng.gamma(4.0, 0.08) + 8 * radius)
    within = sum(size < radius for size in UPDATES)
    return Person(
        key,
        before,
        tuple(after),
        advice,
        verdict,
        cost,
        radius,
        0.01,
        radius - DELTA,
        "",
        counter,
        (0.2, 0.7),
        (
            Counted(
                0,
                "Your income is low; accepted applicants usually have 4,000 USD.",
                1.25,
                "Your income can stay as it is: the steps below are enough.",
            ),
        ),
        lasts="all 20 updates" if within == 20 else f"{within} of 20 updates",
    )


def _moved(value: float | str, step: tuple[int, int], rng: np.random.Generator) -> float | str:
    if isinstance(value, str):
        return HOUSING[(HOUSING.index(value) + int(rng.integers(1, 4))) % 4]
    return round(max(value + round(float(rng.uniform(*step))), 0.0), 2)


def _sentence(column: Column, old: Value, new: Value) -> str:
    if isinstance(old, str) or isinstance(new, str) or old is None or new is None:
        return f"change {column.label} from {old} to {new}"
    unit = column.unit if column.unit == "%" else f" {column.unit}".rstrip()
    return (
        f"{'raise' if new > old else 'lower'} {column.label} from {old:,.10g} to {new:,.10g}{unit}"
    )


def _method(
    name: str, costs: list[float | None], radii: list[float | None], people: tuple[Person, ...]
) -> Figures:
    cost = np.array([c for c in costs if c is not None])
    radius = np.sort([r for r in radii if r is not None])
    curve = Curve(
        (0.0, *radius.tolist()), (1.0, *(1 - np.arange(1, radius.size + 1) / radius.size).tolist())
    )
    verdicts = [person.verdict for person in people]
    return Figures(
        name,
        people=len(costs),
        found=int(cost.size),
        robust=verdicts.count("ROBUST"),
        unknown=verdicts.count("UNKNOWN"),
        mean_cost=float(cost.mean()) if cost.size else None,
        median_cost=float(np.median(cost)) if cost.size else None,
        median_radius=float(np.median(radius)) if radius.size else None,
        survival=curve if radius.size else None,
        changes=float(np.mean([len(one.advice) for one in people if one.after]))
        if any(one.after for one in people)
        else None,
    )


def _other(k: int, first: Figures, people: tuple[Person, ...], rng: np.random.Generator) -> Figures:
    names = [
        "closest",
        "RNCE",
        "NNCE",
        "Robust(MCE)",
        "GCE",
        "PROTO",
        "ROAR",
        "RBR",
        "STCE",
        "a method with a long name",
    ]
    factor = float(rng.uniform(0.3, 1.7))
    costs = [
        None if c is None else c * (0.5 + factor / 2) for c in (person.cost for person in people)
    ]
    radii = [
        None if r is None else r * factor * float(rng.uniform(0.7, 1.3))
        for r in (person.radius for person in people)
    ]
    method = _method(names[k % len(names)], costs, radii, ())
    return replace(method, robust=sum(r is not None and r > DELTA for r in radii))


def _moves(columns: tuple[Column, ...], people: tuple[Person, ...]) -> tuple[Moves, ...]:
    moves = []
    for k, column in enumerate(columns):
        pairs = [(p.before[k], p.after[k]) for p in people if p.after and p.before[k] != p.after[k]]
        if not column.numeric:
            kinds = sorted(
                {pair: pairs.count(pair) for pair in pairs}.items(),
                key=lambda item: (-item[1], item[0]),
            )
            moves.append(
                Moves(
                    column, len(pairs), swaps=tuple((str(a), str(b), n) for (a, b), n in kinds[:3])
                )
            )
            continue
        steps = np.array([float(new) - float(old) for old, new in pairs])
        low, median, high = (
            np.quantile(steps, [0.1, 0.5, 0.9]).tolist() if steps.size else (None, None, None)
        )
        moves.append(
            Moves(
                column,
                len(pairs),
                int((steps > 0).sum()),
                int((steps < 0).sum()),
                median,
                low,
                high,
            )
        )
    return tuple(moves)


def _slices(
    attribute: str,
    label: str,
    names: tuple[str, ...],
    people: tuple[Person, ...],
    rng: np.random.Generator,
) -> Slices:
    of = rng.choice(len(names), size=len(people), p=[0.45, 0.5, 0.05])
    groups = []
    for k, name in enumerate(names):
        some = [person for person, group in zip(people, of, strict=True) if group == k]
        costs = [person.cost for person in some if person.cost is not None]
        radii = [person.radius for person in some if person.radius is not None]
        groups.append(
            Figures(
                name,
                len(some),
                len(costs),
                sum(person.verdict == "ROBUST" for person in some),
                sum(person.verdict == "UNKNOWN" for person in some),
                float(np.mean(costs)) if costs else None,
                float(np.median(costs)) if costs else None,
                float(np.median(radii)) if radii else None,
            )
        )
    return Slices(
        attribute,
        label,
        tuple(groups),
        "Fewer than 20 people are in “not stated”: read its figures with care.",
    )


def _missing(people: tuple[Person, ...]) -> tuple[Missing, ...]:
    found = [
        Missing(reason, sum(p.reason == reason for p in people), proven)
        for reason, proven in REASONS
    ]
    return tuple(one for one in found if one.people)
