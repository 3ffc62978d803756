"""Odd inputs to every verb: each is named in a `HoldfastError`, or does what is documented; none is silent, none raw.

A row of the table is what is odd and a call. NAMED calls raise an error that says which argument is wrong; RIGHT calls
return True, having done what the documentation says.
"""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import httpx
import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import holdfast as hf
from holdfast.cli import app
from holdfast.service import Service, application

Call = Callable[[], Any]

rng = np.random.default_rng(0)
N = 80
X = pd.DataFrame(
    {
        "income": rng.normal(3000.0, 800.0, N).round(),
        "debt": rng.normal(900.0, 300.0, N).round(),
        "age": rng.integers(18, 80, N),
        "job": rng.choice(["none", "basic", "skilled"], N),
    },
    index=[f"p{i:02d}" for i in range(N)],
)
Y = (X["income"] - X["debt"] + 400.0 * (X["job"] == "skilled") > 2200.0).astype(int)
NUMBERS = X[["income", "debt", "age"]]
SPACE = hf.FeatureSpace.from_frame(X, immutable=["age"], protected=["age"])
OWN = hf.FeatureSpace.from_frame(NUMBERS, immutable=["age"], scale="none")
FITTED = LogisticRegression(C=10.0).fit(SPACE.encode(X), Y)
NET = hf.load_network(FITTED)
TREES = GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0).fit(
    NUMBERS.to_numpy(), Y
)
HAPPY = X[NET.predict(SPACE.encode(X)) == 1].head(2)
DENIED = X[NET.predict(SPACE.encode(X)) == 0].head(4)
REFUSED = NUMBERS[TREES.predict(NUMBERS.to_numpy()) == 0].head(3)
CHANGES = hf.PlausibleChanges(0.005)
FOLDER = Path(mkdtemp())
ODD: dict[str, Any] = {
    "text": "x",
    "None": None,
    "nan": np.nan,
    "-1": -1,
    "inf": np.inf,
    "a list": [1, 2],
    "True": True,
}


def odd(*without: str) -> dict[str, Any]:
    """The odd numbers, without some that are none here."""
    return {name: value for name, value in ODD.items() if name not in without}


def place(name: str) -> str:
    """A file that is not there yet."""
    return str(Path(mkdtemp(dir=FOLDER)) / name)


# ---------------------------------------------------------------------- the verbs with a question that is right


def explain(**given: Any) -> hf.Recourse:
    asked = {"target": 1, "changes": CHANGES, "generator": hf.NNCE(X), "space": SPACE}
    return hf.explain(NET, given.pop("X", DENIED), **asked | given)


def several(**given: Any) -> hf.Recourse:
    asked = {"target": 1, "changes": CHANGES, "generator": hf.NNCE(X), "space": SPACE}
    return hf.alternatives(given.pop("model", NET), given.pop("X", DENIED), **asked | given)


def trees(**given: Any) -> hf.Recourse:
    asked = {
        "target": 1,
        "changes": hf.TreeChanges(leaves=0.001),
        "generator": hf.RNCE(NUMBERS),
        "space": OWN,
    }
    return hf.explain(given.pop("model", TREES), given.pop("X", REFUSED), **asked | given)


def certify(**given: Any) -> hf.Certificates:
    asked = {"target": 1, "changes": CHANGES, "space": SPACE}
    return hf.certify(NET, given.pop("X", X), **asked | given)


@cache
def later() -> tuple[Any, ...]:
    """Networks as retraining might leave them."""
    moved = np.random.default_rng(1).normal(0.0, 0.02, (12, NET.n_parameters))
    weights, biases = NET.weights[0], NET.biases[0]
    return tuple(
        NET.with_parameters([weights + step[1:].reshape(weights.shape)], [biases + step[0]])
        for step in moved
    )


def risk(**given: Any) -> Any:
    asked = {
        "target": 1,
        "generator": hf.NNCE(X),
        "space": SPACE,
        "retrained": later(),
        "settings": [0.1, 3.0],
        "coverage": 0.1,
        "broken": 0.2,
    }
    return hf.risk_calibrated(given.pop("model", NET), given.pop("X", DENIED), **asked | given)


def delta(*history: Any, **given: Any) -> Any:
    return hf.delta_calibrated(*(history or (later(),)), **{"coverage": 0.8, "origin": NET} | given)


def retrain(**given: Any) -> Any:
    asked = {"how": "incremental", "space": SPACE, "n": 2}
    model = given.pop("model", FITTED)
    return hf.retrain(model, given.pop("X", X), given.pop("y", Y), **asked | given)


@cache
def advice() -> hf.Recourse:
    return explain(generator=hf.NNCE(X))


def letters(**given: Any) -> pd.DataFrame:
    return hf.letters(
        given.pop("recourse", advice()), given.pop("folder", place("letters")), **given
    )


def letter(row: Any = 0, **given: Any) -> Any:
    return advice().letter(row, **given)


def report(path: Any = "", **given: Any) -> Path:
    asked = {"radii": False, "counter_models": False}
    return hf.report(given.pop("recourse", advice()), path or place("r.html"), **asked | given)


def batches(verb: Any = "certify", like: Any = X, **given: Any) -> Any:
    asked = {"target": 1, "changes": CHANGES, "space": SPACE}
    return hf.over_batches(verb, given.pop("model", NET), like, **asked | given)


@cache
def ledger() -> hf.Ledger:
    written = hf.Ledger(place("promises.ledger"))
    written.add(advice())
    return written


def add(recourse: Any = None, **given: Any) -> Any:
    with hf.Ledger(place("promises.ledger")) as book:
        return book.add(advice() if recourse is None else recourse, **given)


@cache
def service() -> Service:
    return Service(
        NET,
        space=SPACE,
        changes=CHANGES,
        target=1,
        generator=hf.NNCE(X),
        ledger=place("served.ledger"),
    )


PERSON = json.loads(DENIED.head(1).to_json(orient="records"))[0]


@dataclass(frozen=True)
class Answered:
    """What a service or a shell answered: a status, and what it said."""

    status: int
    text: str


def post(path: str, body: Any, **headers: str) -> Answered:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def asked() -> Answered:
        transport = httpx.ASGITransport(application(service()), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            given = {"content-type": "application/json", **headers}
            answer = await client.post(path, content=content, headers=given)
        return Answered(answer.status_code, answer.text)

    return asyncio.run(asked())


@cache
def folder() -> Path:
    """What the commands read."""
    X.rename_axis("id").to_csv(FOLDER / "people.csv")
    X.rename_axis("id").assign(good=Y).to_csv(FOLDER / "train.csv")
    X.to_csv(FOLDER / "semicolons.csv", sep=";")
    pd.concat([X.head(2)] * 2).rename_axis("id").to_csv(FOLDER / "twice.csv")
    (FOLDER / "edited.json").write_text("{}")
    (FOLDER / "empty.csv").write_text("")
    (FOLDER / "header.csv").write_text("id,income,debt,age,job\n")
    (FOLDER / "broken.json").write_text("{")
    (FOLDER / "list.json").write_text("[]")
    (FOLDER / "model.txt").write_text("no model")
    (FOLDER / "space.json").write_text(json.dumps(SPACE.to_dict()))
    NET.save(FOLDER / "model.npz")
    joblib.dump(TREES, FOLDER / "trees.pkl")
    NUMBERS.rename_axis("id").to_csv(FOLDER / "numbers.csv")
    advice().to_frame().rename_axis("id").to_csv(FOLDER / "advice.csv")
    with hf.Ledger(FOLDER / "promises.ledger") as book:
        book.add(advice())
    return FOLDER


ASK = "--model @model.npz --schema @space.json --data @people.csv --index id --target 1"
TREE = "--model @trees.pkl --trust-pickle --index id --target 1 --data"


def shell(line: str) -> Answered:
    words = [str(folder() / word[1:]) if word[:1] == "@" else word for word in line.split()]
    done = CliRunner().invoke(app, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Answered(done.exit_code, done.output)


def warned(call: Call) -> Any:
    """What the call did, or the warning that it gave as an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", hf.HoldfastWarning)
        try:
            return call()
        except hf.HoldfastWarning as warning:
            raise hf.HoldfastError(str(warning)) from None


@cache
def promise() -> Any:
    """Changes with a chance that was measured."""
    return risk().changes


# ---------------------------------------------------------------------- the table

NAMED: dict[str, Call] = {}
RIGHT: dict[str, Call] = {}

# Trees.
for name, value in odd("None").items():
    NAMED[f"trees: leaves={name}"] = lambda v=value: trees(changes=hf.TreeChanges(leaves=v))
for name, value in odd().items():
    NAMED[f"trees: dropped={name}"] = lambda v=value: trees(changes=hf.TreeChanges(dropped=v))
    NAMED[f"trees: margin={name}"] = lambda v=value: trees(changes=hf.PlausibleShift(v))
for name, value in odd("None").items():
    NAMED[f"trees: thresholds={name}"] = lambda v=value: trees(changes=hf.TreeChanges(thresholds=v))
NAMED |= {
    "trees: thresholds of a column that is not there": lambda: trees(changes=hf.TreeChanges(thresholds={"gone": 1.0})),
    "trees: leaves of another shape": lambda: trees(changes=hf.TreeChanges(leaves=np.ones(99))),
    "trees: PlausibleChanges": lambda: trees(changes=CHANGES),
    "trees: a method with gradients": lambda: trees(generator=hf.ROAR()),
    "trees: another method with gradients": lambda: trees(generator=hf.GCE()),
    "trees: radius of PlausibleChanges": lambda: hf.certified_radius(TREES, REFUSED, 1, space=OWN),
    "trees: load_network": lambda: hf.load_network(TREES),
    "trees: not fitted": lambda: trees(model=GradientBoostingClassifier()),
    "trees: target that is no class": lambda: trees(target=7),
    "trees: no people": lambda: trees(X=REFUSED.iloc[:0]),
    "trees: a column less": lambda: trees(X=REFUSED[["income"]]),
    "trees: words for numbers": lambda: trees(X=REFUSED.assign(debt="x")),
    "trees: a gap where none was": lambda: trees(X=REFUSED.assign(debt=np.nan)),
    "trees: an infinite number": lambda: trees(X=REFUSED.assign(debt=np.inf)),
    "trees: space of other columns": lambda: trees(space=SPACE),
    "trees: space=5": lambda: trees(space=5),
    "trees: three spaces": lambda: trees(space=[OWN, OWN, OWN]),
    "trees: a generator's class": lambda: trees(generator=hf.RNCE),
    "trees: no generator": lambda: trees(generator=None),
    "trees: plausible rows for Closest": lambda: trees(generator=hf.Closest(plausible=NUMBERS)),
    "trees: time_limit=-1": lambda: trees(time_limit=-1),
    "trees: time_limit=nan": lambda: trees(time_limit=np.nan),
    "trees: seed=-1": lambda: trees(seed=-1),
    "trees: a model without classes": lambda: trees(model=object()),
    "trees: a regressor": lambda: trees(model=hf.scored),
    "trees: an Ellipsoid": lambda: trees(changes=hf.Ellipsoid(np.ones(3), 0.1)),
    "trees: no data of one's own": lambda: trees(data=5),
}  # fmt: skip
RIGHT |= {
    "trees: everybody accepted": lambda: (
        "already" in str(trees(X=NUMBERS[TREES.predict(NUMBERS.to_numpy()) == 1].head(2)).reason[0])
    ),
    "trees: one person": lambda: len(trees(X=REFUSED.head(1))) == 1,
    "trees: the same person twice": lambda: np.unique(trees(X=REFUSED.iloc[[0, 0]]).cost_l1).size == 1,
    "trees: whole numbers as floats": lambda: trees(X=REFUSED.astype(float)).found.tolist() == trees().found.tolist(),
    "trees: columns in another order": lambda: (
        trees(X=REFUSED[["age", "debt", "income"]]).cost_l1 == trees().cost_l1
    ).all(),
    "trees: a column more": lambda: (trees(X=REFUSED.assign(more=1)).cost_l1 == trees().cost_l1).all(),
    "trees: no changes": lambda: trees(changes=None).verdict[0] is None,
    "trees: no movement at all": lambda: trees(changes=hf.TreeChanges()).robust.all(),
    "trees: leaves that move too far": lambda: not trees(changes=hf.TreeChanges(leaves=50.0)).found.any(),
    "trees: letters": lambda: "letter" in str(type(trees().letter(0))).lower(),
    "trees: Closest without a table": lambda: trees(generator=hf.Closest()).found.all(),
    "trees: one target a row": lambda: trees(target=[1, 1, 1]).found.all(),
}  # fmt: skip

# Thresholds.
for name, value in {
    **odd("None"),
    "0": 0.0,
    "1": 1.0,
    "2": 2.0,
    "by class, one missing": {1: 0.5},
}.items():
    NAMED[f"threshold: {name} in certify"] = lambda v=value: certify(threshold=v)
    NAMED[f"threshold: {name} in explain"] = lambda v=value: explain(threshold=v)
    NAMED[f"threshold: {name} for trees"] = lambda v=value: trees(threshold=v)
NAMED |= {
    "threshold: a range that is turned round": lambda: CHANGES.moving((0.6, 0.4)),
    "threshold: a range of three": lambda: CHANGES.moving((0.1, 0.2, 0.3)),
    "threshold: a range beyond 1": lambda: CHANGES.moving((0.4, 1.5)),
    "threshold: a range of words": lambda: CHANGES.moving(("a", "b")),
    "threshold: in a letter": lambda: letter(threshold=0.7),
}
RIGHT |= {
    "threshold: .5 is the model's own": lambda: (
        certify(threshold=0.5).verdict == certify().verdict
    ).all(),
    "threshold: a higher one is harder": lambda: (
        certify(threshold=0.9).robust.sum() <= certify().robust.sum()
    ),
    "threshold: a range that holds .5 alone": lambda: (
        certify(changes=CHANGES.moving((0.5, 0.5))).robust == certify().robust
    ).all(),
}

# Risk and delta, and the retraining behind them.
for name, value in {**odd("None"), "0": 0.0, "1": 1.0, "2": 2.0}.items():
    NAMED[f"risk: broken={name}"] = lambda v=value: risk(broken=v)
for name, value in {**odd("None", "True"), "0": 0.0, "2": 2.0}.items():
    NAMED[f"risk: coverage={name}"] = lambda v=value: risk(coverage=v)
for name, value in {**odd("None"), "0": 0.0, "1": 1.0}.items():
    NAMED[f"risk: probability={name}"] = lambda v=value: risk(probability=v)
    NAMED[f"delta: coverage={name}"] = lambda v=value: delta(coverage=v)
    NAMED[f"delta: confidence={name}"] = lambda v=value: delta(confidence=v)
NAMED |= {
    "risk: no models": lambda: risk(retrained=[]),
    "risk: too few models": lambda: risk(retrained=later()[:2]),
    "risk: models that are none": lambda: risk(retrained=[1] * 12),
    "risk: models of other columns": lambda: risk(retrained=[hf.Network([[[1.0, 1.0]]], [[0.0]])] * 12),
    "risk: today's model again and again": lambda: risk(retrained=[NET] * 12),
    "risk: retrained=5": lambda: risk(retrained=5),
    "risk: retrained=None": lambda: risk(retrained=None),
    "risk: settings of nothing": lambda: risk(settings=[]),
    "risk: settings below 0": lambda: risk(settings=[-1.0]),
    "risk: settings of words": lambda: risk(settings=["a"]),
    "risk: settings=5": lambda: risk(settings=5),
    "risk: no family": lambda: risk(family=None),
    "risk: family=5": lambda: risk(family=5),
    "risk: no people": lambda: risk(X=DENIED.iloc[:0]),
    "risk: target that is no class": lambda: risk(target=7),
    "risk: no generator": lambda: risk(generator=None),
    "risk: space=5": lambda: risk(space=5),
    "risk: groups of another length": lambda: risk(groups=["a"]),
    "risk: a column that is not there as groups": lambda: risk(groups="gone"),
    "risk: seed of words": lambda: risk(seed="a"),
    "risk: time_limit=0": lambda: risk(time_limit=0),
    "risk: threshold=2": lambda: risk(threshold=2),
    "risk: n_jobs of words": lambda: risk(n_jobs="a"),
    "delta: no models": lambda: delta([]),
    "delta: one model": lambda: delta(later()[:1]),
    "delta: too few models": lambda: delta(later()[:3], coverage=0.95),
    "delta: models that are none": lambda: delta([1j] * 12),
    "delta: history=None": lambda: delta(None),
    "delta: history=5": lambda: delta(5),
    "delta: networks of another shape": lambda: delta([NET, hf.Network([[[1.0, 1.0]]], [[0.0]])] * 6),
    "delta: origin of another shape": lambda: delta(origin=hf.Network([[[1.0, 1.0]]], [[0.0]])),
    "delta: shape of words": lambda: delta(shape="round"),
    "delta: shape=5": lambda: delta(shape=5),
    "delta: norm=0": lambda: delta(norm=0),
    "delta: norm of words": lambda: delta(norm="two"),
    "delta: trees of another structure": lambda: delta([TREES] * 12, origin=NET),
    "delta: trees with norm=2": lambda: delta([TREES] * 12, origin=TREES, norm=2),
    "delta: trees with shape='layer'": lambda: delta([TREES] * 12, origin=TREES, shape="layer"),
    "retrain: how of words": lambda: retrain(how="again"),
    "retrain: n=0": lambda: retrain(n=0),
    "retrain: n of words": lambda: retrain(n="a"),
    "retrain: share=0": lambda: retrain(share=0),
    "retrain: share=2": lambda: retrain(share=2),
    "retrain: more disjoint parts than rows": lambda: retrain(share=0.5, n=5, disjoint=True),
    "retrain: y of another length": lambda: retrain(y=Y.head(3)),
    "retrain: y of classes that are not known": lambda: retrain(y=Y + 7),
    "retrain: no rows": lambda: retrain(X=X.iloc[:0], y=Y.iloc[:0]),
    "retrain: epochs=0": lambda: retrain(epochs=0),
    "retrain: seed=-1": lambda: retrain(seed=-1),
    "retrain: trees with gradient steps": lambda: retrain(model=TREES, X=NUMBERS, space=None),
    "retrain: removed=2": lambda: retrain(how="leave_one_out", removed=2),
    "retrain: a network from scratch": lambda: retrain(model=NET, how="complete"),
    "retrain: a network with gradient steps": lambda: retrain(model=NET),
    "retrain: nothing": lambda: hf.retrain(FITTED, how="incremental"),
    "retrain: a function that is none": lambda: retrain(retrain=5),
}  # fmt: skip
RIGHT |= {
    "risk: a generator of models": lambda: (
        risk(retrained=iter(later())).changes.chance.models == 12
    ),
    "retrain: a month of one class": lambda: len(retrain(y=Y * 0)) == 2,
    "delta: a tuple of models": lambda: delta(later()).delta > 0,
    "delta: by layer": lambda: len(np.atleast_1d(delta(shape="layer").delta)) >= 1,
}

# Tables with likely mistakes, and chances used where they were not measured.
NAMED |= {
    "table: an age of -4": lambda: warned(lambda: explain(X=DENIED.assign(age=-4))),
    "table: an income of 1e12": lambda: explain(X=DENIED.assign(income=1e12)),
    "table: an income of 12,000": lambda: warned(lambda: explain(X=DENIED.assign(income=12e3))),
    "table: hundreds of labels": lambda: warned(
        lambda: hf.FeatureSpace.from_frame(pd.DataFrame({"name": [f"n{i}" for i in range(300)]}))
    ),
    "table: a rule that rows break": lambda: warned(
        lambda: hf.FeatureSpace.from_frame(X, rules=["debt >= income"])
    ),
    "table: truth values for a count": lambda: explain(X=DENIED.assign(age=True)),
    "table: dates": lambda: hf.FeatureSpace.from_frame(X.assign(day=pd.Timestamp("2026-11-19"))),
    "table: no rows": lambda: hf.FeatureSpace.from_frame(X.iloc[:0]),
    "table: a column twice": lambda: hf.FeatureSpace.from_frame(X.iloc[:, [0, 0]]),
    "table: an array": lambda: hf.FeatureSpace.from_frame(X.to_numpy()),
    "chance: of another method": lambda: warned(
        lambda: explain(changes=promise(), generator=hf.Closest())
    ),
    "chance: of another threshold": lambda: warned(lambda: explain(changes=promise(), threshold=0.6)),
    "chance: of another space": lambda: warned(
        lambda: explain(changes=promise(), space=SPACE.constrained(immutable=["job"]))
    ),
    "chance: in alternatives": lambda: warned(lambda: several(changes=promise())),
    "chance: for advice from elsewhere": lambda: warned(lambda: advice().under(promise())),
}  # fmt: skip
RIGHT |= {
    "chance: where it was measured": lambda: warned(
        lambda: explain(changes=promise()).chance(0)
    ) is not None,
}  # fmt: skip

# Letters.
for name, value in {**odd("-1"), "4": 4, "-1": -1, "1.0": 1.0}.items():
    NAMED[f"letters: letter({name})"] = lambda v=value: letter(v)
for name, value in odd("None", "True").items():
    NAMED[f"letters: rows={name}"] = lambda v=value: letters(
        rows=[3, 99] if isinstance(v, list) else v
    )
    NAMED[f"letters: date={name}"] = lambda v=value: letters(date=v)
NAMED |= {
    "letters: rows of nothing": lambda: letters(rows=[]),
    "letters: rows twice": lambda: letters(rows=[0, 0]),
    "letters: rows beyond the table": lambda: letters(rows=[99]),
    "letters: rows from the end": lambda: letters(rows=[-1]),
    "letters: recourse=None": lambda: hf.letters(None, place("l")),
    "letters: a table for a recourse": lambda: letters(recourse=X),
    "letters: folder=None": lambda: letters(folder=None),
    "letters: folder=5": lambda: letters(folder=5),
    "letters: a folder with something in it": lambda: letters(folder=FOLDER),
    "letters: keys of a column that is not there": lambda: letters(keys="gone"),
    "letters: keys of another length": lambda: letters(keys=["a"]),
    "letters: keys=5": lambda: letters(keys=5),
    "letters: one key for all": lambda: letters(keys=["a"] * 4),
    "letters: an empty key": lambda: letters(keys=["", "b", "c", "d"]),
    "letters: a key of two lines": lambda: letters(keys=["a\nb", "b", "c", "d"]),
    "letters: a key of None": lambda: letters(keys=[None, "b", "c", "d"]),
    "letters: a key of nan": lambda: letters(keys=[np.nan, "b", "c", "d"]),
    "letters: names=5": lambda: letters(names=5),
    "letters: names of another length": lambda: letters(names=["a"]),
    "letters: names without somebody": lambda: letters(names={"p00": "Ann"}),
    "letters: a sender of control characters": lambda: letters(sender="\x07"),
    "letters: an empty subject": lambda: letters(subject=""),
    "letters: a language that is unknown": lambda: letters(language="xx"),
    "letters: language=None": lambda: letters(language=None),
    "letters: templates that are not there": lambda: letters(templates=place("gone")),
    "letters: until before the letter": lambda: letters(date="2026-11-19", until="2026-11-18"),
    "letters: until of words": lambda: letters(until="soon"),
    "letters: expiry=5": lambda: letters(expiry=5),
    "letters: an option that is not there": lambda: letters(signature="x"),
    "letters: accepted=, which explain takes as data=": lambda: letters(accepted=X),
    "letters: somebody who is accepted": lambda: explain(X=HAPPY).letter(0),
    "letters: advice about what is protected": lambda: explain(
        X=DENIED, space=hf.FeatureSpace.from_frame(X, protected=["income"])
    ).letter(0),
    "reasons: most=0": lambda: hf.main_reasons(advice(), most=0),
    "reasons: most=-1": lambda: hf.main_reasons(advice(), most=-1),
    "reasons: most of words": lambda: hf.main_reasons(advice(), most="a"),
    "reasons: of a table": lambda: hf.main_reasons(X),
}  # fmt: skip
RIGHT |= {
    "letters: a name that is missing": lambda: "nan" not in letter(name=None).text.split(),
    "letters: markup in a name": lambda: "<b>" not in letter(name="<b>x</b>").html,
    "letters: a path for a key": lambda: ".." not in letters(keys=["../../x", "b", "c", "d"])["file"].iloc[0],
    "letters: keys that differ by case alone": lambda: letters(keys=["a", "A", "b", "B"])["file"].str.lower().is_unique,
    "letters: everybody accepted": lambda: (
        letters(recourse=explain(X=HAPPY))["outcome"] == "already_accepted"
    ).all(),
    "letters: nobody has advice": lambda: set(
        letters(recourse=explain(changes=hf.PlausibleChanges(9.0), generator=hf.RNCE(X)))["outcome"]
    ) == {"no_answer"},
    "letters: one row": lambda: len(letters(rows=[2])) == 1,
    "letters: a row of numpy": lambda: letter(np.int64(1)).key == advice().factuals.index[1],
}  # fmt: skip

# Report.
for name, value in {
    "None": None,
    "5": 5,
    "a folder": FOLDER,
    "pdf": "r.pdf",
    "no ending": "report",
    "a folder that is not there": "gone/r.html",
}.items():
    NAMED[f"report: path={name}"] = lambda v=value: hf.report(advice(), v)
NAMED |= {
    "report: recourse=None": lambda: hf.report(None, place("r.html")),
    "report: a table for a recourse": lambda: report(recourse=X),
    "report: an option that is not there": lambda: report(baseline=advice()),
    "report: another option that is not there": lambda: report(page="x"),
    "report: others of other people": lambda: report(others={"x": explain(X=X.head(2))}),
    "report: others=5": lambda: report(others=5),
    "report: others as a list": lambda: report(others=[advice()]),
    "report: others with the same name": lambda: report(others={"NNCE": advice()}),
    "report: calibrated=-1": lambda: report(calibrated=-1),
    "report: calibrated of words": lambda: report(calibrated="x"),
    "report: groups of a column that is not there": lambda: report(groups="gone"),
    "report: groups of another length": lambda: report(groups={"g": ["a"]}),
    "report: groups=5": lambda: report(groups=5),
    "report: keys of another length": lambda: report(keys=["a"]),
    "report: keys=5": lambda: report(keys=5),
    "report: a date of words": lambda: report(date="soon"),
    "report: counter_models=-1": lambda: report(counter_models=-1),
    "report: counter_models of words": lambda: report(counter_models="x"),
    "report: alternatives=5": lambda: report(alternatives=5),
    "report: alternatives as a table": lambda: report(alternatives=X),
    "report: alternatives that are none": lambda: report(alternatives=advice()),
    "report: alternatives of others": lambda: report(alternatives=several(X=X[~X.index.isin(DENIED.index)].head(3))),
    "report: certificates that are not there": lambda: report(certificates=place("gone")),
    "report: letters that are not there": lambda: report(letters=place("gone")),
    "report: retrained=5": lambda: report(retrained=5),
    "report: retrained models that are none": lambda: report(retrained=[5]),
    "report: ledger=5": lambda: report(ledger=5),
}  # fmt: skip
RIGHT |= {
    "report: markup in the title": lambda: "<b>x" not in report(title="<b>x").read_text(encoding="utf-8"),
    "report: an old page is replaced": lambda: report(place("r.htm")).exists(),
    "report: everybody accepted": lambda: report(recourse=explain(X=HAPPY)).exists(),
    "report: one person": lambda: report(recourse=explain(X=DENIED.head(1))).exists(),
    "report: without changes": lambda: report(recourse=explain(changes=None)).exists(),
    "report: of alternatives": lambda: report(recourse=several(n_answers=2)).exists(),
    "report: keys that are tuples": lambda: report(keys=[(i, "a") for i in range(4)]).exists(),
}  # fmt: skip

# Batches.
NAMED |= {
    "batches: a verb that is not there": lambda: batches("radius"),
    "batches: verb=None": lambda: batches(None),
    "batches: like=None": lambda: batches(like=None),
    "batches: like of words": lambda: batches(like="people.csv"),
    "batches: a column twice": lambda: batches(like=X.iloc[:, [0, 0, 1, 2, 3]]),
    "batches: keep of words": lambda: batches(keep="id"),
    "batches: keep=5": lambda: batches(keep=5),
    "batches: keep of a column that is not there": lambda: batches(keep=["gone"]),
    "batches: an option that is not there": lambda: batches(deltas=1),
    "batches: no target": lambda: hf.over_batches("certify", NET, X, changes=CHANGES, space=SPACE),
    "batches: target that is no class": lambda: batches(target=7),
    "batches: no generator": lambda: batches("explain", generator=None),
    "batches: a batch=None": lambda: batches()(None),
    "batches: a batch of words": lambda: batches()("people.csv"),
    "batches: a batch of an array": lambda: batches()(X.to_numpy()),
    "batches: a batch without a column": lambda: batches()(X[["income"]]),
    "batches: a batch with words for numbers": lambda: batches()(X.assign(debt="x")),
    "batches: a batch with a gap": lambda: batches()(X.assign(debt=np.nan)),
    "batches: a batch with a label that is unknown": lambda: batches()(X.assign(job="gone")),
    "batches: threshold=2": lambda: batches(threshold=2),
    "batches: space=5": lambda: batches(space=5),
    "batches: a model that is none": lambda: batches(model=object()),
}  # fmt: skip
RIGHT |= {
    "batches: an empty batch": lambda: len(batches()(X.iloc[:0])) == 0,
    "batches: columns in another order": lambda: batches()(X[["job", "age", "debt", "income"]]).equals(batches()(X)),
    "batches: a column more": lambda: batches()(X.assign(more=1)).equals(batches()(X)),
    "batches: one row": lambda: batches()(X.head(1)).equals(batches()(X).head(1)),
    "batches: explain": lambda: (
        batches("explain", generator=hf.NNCE(X))(DENIED)["cost_l1"] == advice().cost_l1
    ).all(),
    "batches: the same key twice": lambda: len(batches()(X.iloc[[0, 0]])) == 2,
}  # fmt: skip

# Alternatives.
for name, value in {**odd(), "0": 0, "1.5": 1.5}.items():
    NAMED[f"alternatives: n_answers={name}"] = lambda v=value: several(n_answers=v)
NAMED |= {
    "alternatives: n=5": lambda: several(n=5),
    "alternatives: space=5": lambda: several(space=5),
    "alternatives: space of other columns": lambda: several(space=OWN),
    "alternatives: generator=None": lambda: several(generator=None),
    "alternatives: an array": lambda: several(X=DENIED.to_numpy()),
    "alternatives: no people": lambda: several(X=DENIED.iloc[:0]),
    "alternatives: target that is no class": lambda: several(target=7),
    "alternatives: targets of another length": lambda: several(target=[1]),
    "alternatives: changes=5": lambda: several(changes=5),
    "alternatives: model=None": lambda: several(model=None),
}
RIGHT |= {
    "alternatives: one answer": lambda: (several(n_answers=1).cost_l1 == advice().cost_l1).all(),
    "alternatives: more answers than columns": lambda: several(n_answers=20).answer.max() <= len(SPACE.names),
    "alternatives: one person": lambda: len(several(X=DENIED.head(1))) >= 1,
    "alternatives: a target for each row": lambda: several(target=[1] * 4).found.any(),
    "alternatives: without a space": lambda: hf.alternatives(
        hf.Network([[[1.0, 1.0]]], [[-1.0]]), pd.DataFrame({"a": [0.0], "b": [0.1]}), target=1, changes=CHANGES,
        generator=hf.Closest(), space=None, n_answers=2,
    ).found.all(),
    "alternatives: in letters": lambda: letters(recourse=several())["key"].is_unique,
    "alternatives: in a ledger": lambda: add(several()).added == several().found.sum(),
    "alternatives: somebody accepted": lambda: "already" in str(several(X=HAPPY).reason[0]),
}  # fmt: skip

# Ledger and audit.
NAMED |= {
    "ledger: of a table": lambda: add(X),
    "ledger: keys of another length": lambda: add(keys=["a"]),
    "ledger: keys=5": lambda: add(keys=5),
    "ledger: a key of None": lambda: add(keys=[None, "b", "c", "d"]),
    "ledger: an empty key": lambda: add(keys=["", "b", "c", "d"]),
    "ledger: a key that no file can hold": lambda: add(keys=["\ud800", "b", "c", "d"]),
    "ledger: a date of words": lambda: add(date="soon"),
    "ledger: date=5": lambda: add(date=5),
    "ledger: radius of words": lambda: add(radius="x"),
    "ledger: threshold=2": lambda: add(threshold=2),
    "ledger: path=5": lambda: hf.Ledger(5),
    "ledger: path=None": lambda: hf.Ledger(None),
    "ledger: a folder": lambda: hf.Ledger(FOLDER),
    "ledger: a file that is not there": lambda: hf.Ledger(place("gone"), create=False),
    "ledger: a file that is none": lambda: hf.Ledger(folder() / "people.csv"),
    "ledger: a short secret": lambda: hf.Ledger(place("l"), secret="x"),
    "ledger: secret=5": lambda: hf.Ledger(place("l"), secret=5),
    "ledger: erase of nobody": lambda: ledger().erase("nobody"),
    "ledger: erase of a list": lambda: ledger().erase([DENIED.index[0]]),
    "ledger: erase of None": lambda: ledger().erase(None),
    "ledger: an empty key to erase": lambda: ledger().erase(""),
    "ledger: find of None": lambda: ledger().find(None),
    "ledger: a head of words": lambda: ledger().verify(head="x"),
    "ledger: head=5": lambda: ledger().verify(head=5),
    "ledger: export to pdf": lambda: ledger().export(place("x.pdf")),
    "audit: a model that is none": lambda: hf.audit(ledger(), object()),
    "audit: a model of other columns": lambda: hf.audit(ledger(), hf.Network([[[1.0, 1.0]]], [[0.0]])),
    "audit: ledger=None": lambda: hf.audit(None, NET),
    "audit: ledger=5": lambda: hf.audit(5, NET),
    "audit: threshold=2": lambda: hf.audit(ledger(), NET, threshold=2),
    "expiry: a history of one": lambda: hf.promise_expiry([0.1], [NET]),
    "expiry: confidence=2": lambda: hf.promise_expiry([0.1], [NET, *later()], confidence=2),
    "expiry: a period of words": lambda: hf.promise_expiry([0.1], [NET, *later()], period="eon"),
}  # fmt: skip
RIGHT |= {
    "ledger: the same promise twice": lambda: (lambda book: (book.add(advice()), book.add(advice()).added == 0)[1])(
        hf.Ledger(place("l"))
    ),
    "ledger: find of nobody": lambda: len(ledger().find("nobody")) == 0,
    "ledger: a number for a key": lambda: add(keys=[1, 2, 3, 4]).added == advice().found.sum(),
    "ledger: a path for a key": lambda: add(keys=["../x", "b", "c", "d"]).added > 0,
    "ledger: nobody has advice": lambda: (
        add(explain(changes=hf.PlausibleChanges(9.0), generator=hf.RNCE(X))).added == 0
    ),
    "audit: today's model keeps everything": lambda: hf.audit(ledger(), NET).kept,
}  # fmt: skip

# The service: what is wrong is refused with a status below 500 that says so.
for route in ("/certify", "/explain"):
    NAMED |= {
        f"service: {route} {name}": lambda r=route, b=body: post(r, b)
        for name, body in {
            "nothing": b"",
            "no JSON": b"{",
            "a list": [],
            "a number": 5,
            "no people": {},
            "people=None": {"people": None},
            "people=5": {"people": 5},
            "people of nobody": {"people": []},
            "a person of words": {"people": ["x"]},
            "a column less": {"people": [{"income": 1.0}]},
            "a column more": {"people": [PERSON | {"more": 1}]},
            "words for numbers": {"people": [PERSON | {"debt": "x"}]},
            "a gap": {"people": [PERSON | {"debt": None}]},
            "a label that is unknown": {"people": [PERSON | {"job": "gone"}]},
            "True for a number": {"people": [PERSON | {"debt": True}]},
            "a list for a number": {"people": [PERSON | {"debt": [1]}]},
            "a name twice": b'{"people": [], "people": []}',
            "NaN": b'{"people": [{"income": NaN, "debt": 1, "age": 30, "job": "none"}]}',
            "1e999": b'{"people": [{"income": 1e999, "debt": 1, "age": 30, "job": "none"}]}',
            "no UTF-8": b"\xff\xfe",
            "a field that is not there": {"people": [PERSON], "more": 1},
            "a target that is no class": {"people": [PERSON], "target": 7},
            "keys of another length": {"people": [PERSON], "keys": ["a", "b"]},
        }.items()
    }
NAMED |= {
    "service: a path that is not there": lambda: post("/gone", {}),
    "service: another type": lambda: post(
        "/certify", {"people": [PERSON]}, **{"content-type": "text/plain"}
    ),
}

# The shell.
LINES = [
    "explain", "explain --gone", "gone",
    f"explain {ASK}", f"explain {ASK} --method gone --delta 0.01",
    f"explain {ASK} --method closest", f"explain {ASK} --delta x --candidates @train.csv",
    f"explain {ASK} --delta -1 --candidates @train.csv", f"explain {ASK} --delta nan --candidates @train.csv",
    f"explain {ASK} --margin -1 --candidates @train.csv", f"explain {ASK} --candidates @gone.csv",
    f"explain {ASK} --candidates @people.csv --delta 0.01 --rows 0",
    f"explain {ASK} --candidates @people.csv --delta 0.01 --out @gone/x.csv",
    f"explain {ASK} --candidates @people.csv --delta 0.01 --out @x.pdf",
    f"explain {ASK} --candidates @people.csv --delta 0.01 --out @people.csv",
    f"explain {ASK} --candidates @people.csv --delta 0.01 --threshold 2",
    f"explain {ASK} --candidates @people.csv --delta 0.01 --threshold x",
    f"explain {ASK} --candidates @people.csv --delta 0.01 --changes @broken.json",
    f"explain {ASK} --candidates @people.csv --changes @broken.json",
    f"explain {ASK} --candidates @people.csv --changes @list.json",
    f"explain {ASK} --candidates @people.csv --delta 0.01 --immutable gone",
    f"explain {ASK} --candidates @people.csv --delta 0.01 --range income=x",
    f"explain {ASK} --candidates @people.csv --delta 0.01 --drop gone",
    f"explain {ASK} --candidates @people.csv --delta 0.01 --time-limit -1",
    f"explain {ASK.replace('--target 1', '--target 7')} --candidates @people.csv --delta 0.01",
    f"explain {ASK.replace('people', 'semicolons')} --candidates @people.csv --delta 0.01",
    f"explain {ASK.replace('people', 'empty')} --candidates @people.csv --delta 0.01",
    f"explain {ASK.replace('people', 'header')} --candidates @people.csv --delta 0.01",
    f"explain {ASK.replace('@people', '@gone')} --delta 0.01",
    f"explain {ASK.replace('id', 'gone')} --candidates @people.csv --delta 0.01",
    f"explain {ASK.replace('@space', '@broken')} --candidates @people.csv --delta 0.01",
    f"explain {ASK.replace('@space', '@list')} --candidates @people.csv --delta 0.01",
    f"explain {ASK.replace('model.npz', 'model.txt')} --candidates @people.csv --delta 0.01",
    f"explain {ASK.replace('model.npz', 'people.csv')} --candidates @people.csv --delta 0.01",
    f"explain {ASK.replace('model.npz', 'trees.pkl')} --candidates @people.csv --delta 0.01",
    f"explain {TREE} @numbers.csv --candidates @numbers.csv --delta 0.01",
    f"explain {TREE} @people.csv --candidates @people.csv --margin 1",
    f"certify {TREE} @numbers.csv --delta 0.01", f"radius {TREE} @numbers.csv",
    f"certify {ASK}", f"certify {ASK} --delta 0.01 --method x", f"certify {ASK} --delta 0.01 --factuals @header.csv",
    f"alternatives {ASK} --delta 0.01 --candidates @people.csv --answers 0",
    f"letters @advice.csv {ASK} --delta 0.005", f"letters @advice.csv {ASK} --delta 0.005 --out @people.csv",
    f"letters @people.csv {ASK} --delta 0.005 --out @l1", f"letters @gone.csv {ASK} --delta 0.005 --out @l2",
    f"letters @advice.csv {ASK} --delta 0.005 --out @l3 --language xx",
    f"letters @advice.csv {ASK} --delta 0.005 --out @l4 --until soon",
    f"letters @advice.csv {ASK} --delta 0.005 --out @l5 --name gone",
    f"letters @advice.csv {ASK} --delta 0.005 --out @l6 --accepted @train.csv",
    f"letters @advice.csv {ASK} --delta 0.005 --out @l7 --threshold 0.999",
    f"report @advice.csv {ASK} --delta 0.005 --out @r.pdf",
    f"report @advice.csv {ASK} --delta 0.005 --out @gone/r.html",
    f"report @advice.csv {ASK} --delta 0.005 --out @r.html --compare x",
    f"report @advice.csv {ASK} --delta 0.005 --out @r.html --group gone",
    f"report @advice.csv {ASK} --delta 0.005 --out @r.html --calibrated -1",
    f"risk {ASK} --candidates @train.csv", f"risk {ASK} --label good",
    f"risk {ASK} --candidates @train.csv --label gone", f"risk {ASK} @model.npz --candidates @train.csv",
    f"risk {ASK} --candidates @train.csv --label good --broken 2", "delta", "delta @model.npz",
    "delta @model.npz @people.csv", "delta @model.npz @model.npz --coverage 2", "delta @model.npz --model @model.npz",
    "delta --model @trees.pkl --trust-pickle",
    f"explain {ASK.replace('@people', '@twice')} --candidates @people.csv --delta 0.01",
    "schema --data @train.csv --index id --out @edited.json", "schema --data @train.csv",
    "schema --data @gone.csv --out @s.json",
    "schema --data @train.csv --label gone --out @s.json", "schema --data @train.csv --scale big --out @s.json",
    "schema --data @semicolons.csv --index id --out @s.json",
    f"ledger add @advice.csv {ASK}", f"ledger add @people.csv {ASK} --ledger @x.ledger",
    "ledger erase --ledger @promises.ledger --key nobody", "ledger erase --ledger @gone.ledger --key a",
    "ledger verify --ledger @people.csv", "ledger find --ledger @promises.ledger",
    "audit @model.npz --ledger @gone.ledger", "audit @model.npz --ledger @people.csv",
    "audit @people.csv --ledger @promises.ledger", "check @people.csv", "check @gone.jsonl",
    f"serve {ASK}", "serve --model @model.npz --target 1 --delta 0.01",
]  # fmt: skip
NAMED |= {f"shell: {line}": lambda text=line: shell(text) for line in LINES}
RIGHT |= {
    "shell: a column that only candidates have": lambda: (
        shell(f"explain {ASK} --candidates @train.csv --delta 0.005 --drop good --rows 2").status == 0
    ),
    "shell: no changes are said to be none": lambda: (
        "certified" in shell(f"explain {ASK} --method mce --rows 2").text
    ),
    "shell: methods": lambda: shell("methods").status == 0,
}  # fmt: skip


def rows(table: dict[str, Call]) -> list[Any]:
    """The table's rows as parameters."""
    return [pytest.param(call, id=name) for name, call in table.items()]


@pytest.mark.filterwarnings("ignore::holdfast.HoldfastWarning")
@pytest.mark.parametrize("call", rows(NAMED))
def test_what_is_wrong_is_named(call: Call) -> None:
    try:
        done = call()
    except hf.HoldfastError as error:
        said = str(error)
    else:
        assert isinstance(done, Answered), f"silent: {done!r:.200}"
        assert done.status == 2 or 400 <= done.status < 500, f"silent: {done}"
        said = done.text
    assert len(said) > 20
    assert "Traceback" not in said
    # No name of our own insides, and no object by its address.
    assert not re.search(r" at 0x[0-9a-f]+|\b(gather|read)\(\) got", said)


@pytest.mark.filterwarnings("ignore::holdfast.HoldfastWarning")
@pytest.mark.parametrize("call", rows(RIGHT))
def test_what_is_odd_and_right_does_what_is_documented(call: Call) -> None:
    assert call()


def test_there_are_three_hundred_rows() -> None:
    assert len(NAMED) + len(RIGHT) >= 300
