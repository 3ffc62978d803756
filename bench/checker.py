"""Do certificates hold, and do forgeries not? Ten thousand of each, with the time that checking takes.

    python bench/checker.py                              10,000 ROBUST rows and 10,000 forgeries
    python bench/checker.py --robust 500 --forgeries 500

Certificates are made for random networks (no to three hidden layers, two to five classes, all kinds of Δ, some with a
least margin of exactly 0), for networks trained on scikit-learn's own tables and for those of `bench/certify.py`, and
checked as text. Rows are counted by the stage that proved them, and so are proofs that had to be searched for again
though the engine had found one. A forgery changes one thing and then everything that
follows from it, as someone would who knows the format: the bound that the proof still yields, the statement, hashes and
id. It may be accepted only where it has become another true certificate, which `certify` and exact fractions say.
The same change without a new id must be rejected always.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast import checker
from holdfast.bounds._layers import margins_for
from holdfast.promises import NoCertificateError, certificate
from holdfast.verify._exact import Exact, plain_model
from holdfast.verify._witness import exact_margin

ROOT = Path(__file__).resolve().parent.parent
ROWS = 20
# Far beyond what `certificate` allows unless it is told to: every ROBUST row has a proof, however long.
CASES = 1_000_000

Question = tuple[hf.Network, np.ndarray, np.ndarray, hf.PlausibleChanges]


@dataclass(frozen=True)
class Made:
    """A certificate, what it is about, and what kind of proof it holds."""

    document: dict[str, Any]
    network: hf.Network
    kind: str


@dataclass
class Tally:
    """What was counted."""

    made: Counter[str] = field(default_factory=Counter)
    # ROBUST rows by the stage that proved them, and those whose proof was searched for again.
    stages: Counter[str] = field(default_factory=Counter)
    searched: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)
    make_seconds: float = 0.0
    check_seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    forged: Counter[str] = field(default_factory=Counter)
    still_true: Counter[str] = field(default_factory=Counter)
    false_accepted: list[str] = field(default_factory=list)
    stale_accepted: list[str] = field(default_factory=list)


def make(
    n: int, seed: int, tally: Tally, tables: list[tuple[hf.Network, np.ndarray]] | None = None
) -> list[Made]:
    """Certificates until `n` are ROBUST, each checked as text; what certify decided and the checker says must agree."""
    found: list[Made] = []
    for network, X, targets, changes in questions(seed, tables or []):
        certs = hf.certify(network, X, targets, changes)
        model = plain_model(network)
        for row in range(len(X)):
            verdict, stage = str(certs.verdict[row]), str(certs.decided_by[row])
            started = time.process_time()
            try:
                with _searches() as searches:
                    document = certificate(certs, row, max_cases=CASES)
            except NoCertificateError as error:
                tally.refused[f"{verdict}, norm {changes.norm:g}"] += 1
                if verdict == "ROBUST" or (verdict != "UNKNOWN" and changes.norm == np.inf):
                    tally.disagreements.append(str(error))
                continue
            tally.make_seconds += time.process_time() - started
            text = json.dumps(document)
            kind = _kind(document)
            started = time.process_time()
            report = checker.check(json.loads(text), model)
            tally.check_seconds[kind].append(time.process_time() - started)
            tally.made[kind] += 1
            if not report.accepted or document["verdict"] != verdict:
                tally.disagreements.append(f"{verdict}: {report.reason}")
            found.append(Made(document, network, kind))
            if verdict == "ROBUST":
                tally.stages[stage] += 1
                tally.searched[stage] += bool(searches)
            if tally.stages.total() == n:
                return found
    return found


@contextlib.contextmanager
def _searches() -> Iterator[list[str]]:
    """What is searched for inside: the names of the calls."""
    found: list[str] = []
    plain = {name: getattr(Exact, name) for name in ("settle", "proposed")}

    def counted(name: str) -> Callable[..., Any]:
        return lambda *arguments: (found.append(name), plain[name](*arguments))[1]

    for name in plain:
        setattr(Exact, name, counted(name))
    try:
        yield found
    finally:
        for name, function in plain.items():
            setattr(Exact, name, function)


def _kind(document: dict[str, Any]) -> str:
    proof = document["proof"]
    if document["verdict"] == "NOT_ROBUST":
        return f"NOT_ROBUST, {proof['method']}"
    methods = {part["method"] for part in proof["parts"]}
    tops = [part.get("tree", {}) for part in proof["parts"]]
    worst = "cases" if "cases" in methods else "ball" if "ball" in methods else "interval"
    how = [
        f" with {name}s"
        for name in ("split", "cut", "price")
        if any(name in top or f"{name}s" in top for top in tops)
    ]
    return f"ROBUST, {worst}{''.join(how[:1])}"


def questions(seed: int, tables: list[tuple[hf.Network, np.ndarray]]) -> Iterator[Question]:
    """Random networks without end, now and then a trained one or one on the boundary."""
    rng = np.random.default_rng(seed)
    trained = _trained() + tables
    while True:
        kind = rng.random()
        if kind < 0.4:
            yield _on_the_boundary(rng)
            continue
        if kind < 0.5:
            network, table = trained[rng.integers(len(trained))]
            X = table[rng.choice(len(table), ROWS)]
        else:
            network = _random_network(rng)
            X = rng.normal(size=(ROWS, network.n_features)) * (
                rng.random((ROWS, network.n_features)) < 0.9
            )
        targets = network.predict(X)
        wrong = rng.random(ROWS) < 0.1
        targets[wrong] = rng.choice(network.classes, wrong.sum())
        yield network, X, targets, _changes(rng, network, X)


def _on_the_boundary(rng: np.random.Generator) -> Question:
    """A binary network on a binary grid whose least margin at one point is exactly 0, which is class 1."""
    sizes = [3, *rng.integers(2, 7, rng.integers(1, 3)).tolist(), 1]
    weights = [np.round(16 * rng.normal(size=(b, a))) / 16 for a, b in pairwise(sizes)]
    network = hf.Network(weights, [np.round(16 * rng.normal(size=size)) / 16 for size in sizes[1:]])
    X, changes = (
        np.round(16 * rng.normal(size=(1, 3))) / 16,
        hf.PlausibleChanges(2.0 ** -int(rng.integers(3, 8))),
    )
    least = np.round(hf.output_bounds(network, X, changes).lower[0] * 2.0**40) / 2.0**40
    network = network.with_parameters(
        network.weights, [*network.biases[:-1], network.biases[-1] - least]
    )
    return network, X, np.array([1]), changes


def _random_network(rng: np.random.Generator) -> hf.Network:
    outputs = int(rng.choice([1, 1, 1, 2, 3, 4, 5]))
    sizes = [int(rng.integers(1, 8)), *rng.integers(2, 11, rng.integers(0, 4)).tolist(), outputs]
    weights = [1.3 * rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairwise(sizes)]
    biases = [0.3 * rng.normal(size=size) for size in sizes[1:]]
    if rng.random() < 0.3:
        weights, biases = (
            [np.round(part * 16) / 16 for part in parts] for parts in (weights, biases)
        )
    kinds = [str(rng.choice(["relu"] * 9 + ["identity"])) for _ in sizes[1:-1]]
    return hf.Network(weights, biases, activations=kinds)


def _trained() -> list[tuple[hf.Network, np.ndarray]]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for load in (load_iris, load_wine, load_breast_cancer):
            X, y = load(return_X_y=True)
            X = StandardScaler().fit_transform(X)
            models = [
                MLPClassifier(hidden, max_iter=100, random_state=0)
                for hidden in ((20, 20), (10, 10, 10))
            ]
            found.extend((hf.load_network(model.fit(X, y)), X) for model in models)
    return found


def _changes(rng: np.random.Generator, network: hf.Network, X: np.ndarray) -> hf.PlausibleChanges:
    """A radius at which something is at stake: about that of some row."""
    rows = X[rng.choice(len(X), 4)]
    radius = float(
        rng.choice(hf.certified_radius(network, rows, network.predict(rows), tol=1e-3).lower)
    )
    delta = min(max(radius, 1e-4), 10.0) * rng.uniform(0.8, 1.02)
    layers = len(network.weights)
    norm = float(rng.choice([np.inf] * 8 + [1.0, 2.0]))
    kind = rng.random()
    if kind < 0.2:
        return hf.PlausibleChanges(tuple((delta * rng.uniform(0.5, 1.5, layers)).tolist()), norm)
    if kind < 0.3:
        sides = [
            delta * rng.uniform(0.5, 1.2, (2, *part.shape))
            for part in (*network.weights, *network.biases)
        ]
        return hf.PlausibleChanges(sides[:layers], biases=sides[layers:])
    return hf.PlausibleChanges(delta, norm, biases=bool(rng.random() < 0.8))


# --- forgeries --------------------------------------------------------------------------------------------------------


def forge(n: int, seed: int, made: list[Made], tally: Tally) -> None:
    """`n` forgeries of certificates drawn at random, each with its old id and with a new one."""
    rng = np.random.default_rng([seed, 1])
    for _ in range(n):
        one = made[rng.integers(len(made))]
        name, change = FORGERIES[rng.integers(len(FORGERIES))]
        document, network = copy.deepcopy(one.document), one.network
        replaced = change(rng, document, network)
        if replaced is None or (replaced is network and document == one.document):
            continue
        network = replaced
        model = plain_model(network)
        tally.forged[name] += 1
        if checker.check(document, model).accepted:
            tally.stale_accepted.append(name)
        _follow_up(document, network, name)
        if checker.check(json.loads(json.dumps(document)), model).accepted:
            if name not in NEVER and is_true(document, network):
                tally.still_true[name] += 1
            else:
                tally.false_accepted.append(name)


def _follow_up(document: dict[str, Any], network: hf.Network, name: str) -> None:
    """What a forger who knows the format puts right: hashes, statement, what the proof proves now, and the id."""
    model = plain_model(network)
    if name not in NEVER:
        document["hashes"]["model"] = model.sha256
        document["hashes"]["point"] = checker.sha256(document["point"])
        # A proof that no longer means anything cannot be put right; the checker will have to say so itself.
        with contextlib.suppress(checker.CheckError):
            _put_proof_right(document, model)
    document["id"] = checker.sha256({**document, "id": ""})


def _put_proof_right(document: dict[str, Any], model: checker.PlainModel) -> None:
    changes = checker.read_changes(document["changes"], model)
    document["statement"] = checker.statement(document)
    proof, point, target = document["proof"], document["point"], document["target"]["index"]
    if document["verdict"] == "ROBUST":
        question = checker.Question(model, changes, point, target)
        for part in proof["parts"]:
            part["bound"] = checker.float_below(question.bound(part))
    else:
        changed = {name: proof.get(name, getattr(model, name)) for name in ("weights", "biases")}
        still = ((0.0, 0.0),) * len(model.weights)
        question = checker.Question(replace(model, **changed), (still, np.inf, True), point, target)
        rivals = [rival for rival in range(len(model.classes)) if rival != target]
        margins = [
            (question.bound({"method": "interval", "rival": rival}), rival) for rival in rivals
        ]
        margin, proof["rival"] = min(margins)
        proof["bound"] = checker.float_below(margin)


def is_true(document: dict[str, Any], network: hf.Network) -> bool:
    """Whether what a certificate states is so: by `certify`, or by Δ and the witness in fractions."""
    changes = hf.PlausibleChanges.from_dict(document["changes"])
    target, x = document["target"]["index"], np.array(document["point"])
    if document["verdict"] == "ROBUST":
        return bool(hf.certify(network, x[None, :], network.classes[target], changes).robust[0])
    proof = document["proof"]
    witness = (
        network
        if proof["method"] == "today"
        else network.with_parameters(proof["weights"], proof["biases"])
    )
    margins = [
        (margin, exact_margin(witness, margin, x)) for margin in margins_for(network, target)
    ]
    broken = any(value < 0 or (value == 0 and margin.strict) for margin, value in margins)
    return broken and changes.contains(network, witness)


Forgery = Callable[[np.random.Generator, dict[str, Any], hf.Network], hf.Network | None]


def _delta(rng: np.random.Generator, document: dict[str, Any], network: hf.Network) -> hf.Network:
    factor = float(rng.choice([0.5, 0.99, 1.001, 1.05, 1.5, 3.0]))
    document["changes"] = (
        hf.PlausibleChanges.from_dict(document["changes"]).scaled(factor).to_dict()
    )
    return network


def _own_radii(
    rng: np.random.Generator, document: dict[str, Any], network: hf.Network
) -> hf.Network | None:
    """A radius for each parameter, some of them larger than the one that was promised for all."""
    changes = document["changes"]
    if isinstance(changes["delta"], list) or changes["norm"] != "inf" or not changes["biases"]:
        return None
    delta, larger = changes["delta"], float(rng.choice([1.0, 1.2, 3.0]))

    for name, parts in (("biases", network.biases), ("delta", network.weights)):
        factors = [rng.choice([0.9, 1.0, larger], part.shape, p=[0.5, 0.4, 0.1]) for part in parts]
        changes[name] = [(delta * factor).tolist() for factor in factors]
    return network


def _terms(rng: np.random.Generator, document: dict[str, Any], network: hf.Network) -> hf.Network:
    if rng.random() < 0.5:
        document["changes"]["biases"] = not document["changes"]["biases"]
    else:
        document["changes"]["norm"] = (
            str(rng.choice(["inf"])) if document["changes"]["norm"] != "inf" else 2.0
        )
    return network


def _point(rng: np.random.Generator, document: dict[str, Any], network: hf.Network) -> hf.Network:
    place = rng.integers(len(document["point"]))
    document["point"][place] += float(rng.choice([1e-9, 1e-3, 0.1, 1.0]) * rng.choice([-1.0, 1.0]))
    return network


def _target(rng: np.random.Generator, document: dict[str, Any], network: hf.Network) -> hf.Network:
    others = [c for c in range(len(network.classes)) if c != document["target"]["index"]]
    index = int(rng.choice(others))
    document["target"] = {"index": index, "label": network.classes[index].item()}
    parts = document["proof"].get("parts", [])
    for part, rival in zip(
        parts, [c for c in range(len(network.classes)) if c != index], strict=False
    ):
        part["rival"] = rival
    return network


def _model(rng: np.random.Generator, document: dict[str, Any], network: hf.Network) -> hf.Network:
    size = float(rng.choice([1e-6, 1e-2, 0.3]))
    weights, biases = (
        [part + size * rng.normal(size=part.shape) for part in parts]
        for parts in (network.weights, network.biases)
    )
    return network.with_parameters(weights, biases)


def _swapped_model(
    rng: np.random.Generator, document: dict[str, Any], network: hf.Network
) -> hf.Network:
    """Another model without putting the hash right."""
    return _model(rng, document, network)


def _hash(rng: np.random.Generator, document: dict[str, Any], network: hf.Network) -> hf.Network:
    name = str(rng.choice(["model", "point"]))
    old, place = document["hashes"][name], rng.integers(64)
    document["hashes"][name] = old[:place] + ("0" if old[place] != "0" else "1") + old[place + 1 :]
    return network


def _verdict(rng: np.random.Generator, document: dict[str, Any], network: hf.Network) -> hf.Network:
    """The other verdict, with its statement."""
    document["verdict"] = "NOT_ROBUST" if document["verdict"] == "ROBUST" else "ROBUST"
    document["statement"] = checker.statement(document)
    return network


def _bound(rng: np.random.Generator, document: dict[str, Any], network: hf.Network) -> hf.Network:
    """The stated bound, by one unit in the last place or by a lot."""
    proof = document["proof"]
    entry = rng.choice(proof["parts"]) if "parts" in proof else proof
    old = entry["bound"]
    entry["bound"] = float(
        rng.choice([np.nextafter(old, 9e9), np.nextafter(old, -9e9), old * 2 + 1])
    )
    return network


def _witness(
    rng: np.random.Generator, document: dict[str, Any], network: hf.Network
) -> hf.Network | None:
    weights = document["proof"].get("weights")
    if weights is None:
        return None
    row = rng.choice(len(layer := weights[rng.integers(len(weights))]))
    place = rng.integers(len(layer[row]))
    layer[row][place] += float(rng.choice([1e-12, 1e-3, 0.1]) * rng.choice([-1.0, 1.0]))
    return network


def _nodes(document: dict[str, Any]) -> list[dict[str, Any]]:
    waiting = [part["tree"] for part in document["proof"].get("parts", []) if "tree" in part]
    found = []
    while waiting:
        found.append(waiting.pop())
        waiting.extend(found[-1][key] for key in ("below", "above") if key in found[-1])
    return found


def _multiplier(
    rng: np.random.Generator, document: dict[str, Any], network: hf.Network
) -> hf.Network | None:
    leaves = [node for node in _nodes(document) if "lower" in node]
    if not leaves:
        return None
    leaf = leaves[rng.integers(len(leaves))]
    layers = leaf[str(rng.choice(["lower", "upper"]))]
    part = layers[rng.integers(len(layers))]
    step = max(1, int(leaf["denominator"] * float(rng.choice([1e-3, 1, 9]))))
    part[rng.integers(len(part))] += int(rng.choice([-1, 1])) * step
    return network


def _price(
    rng: np.random.Generator, document: dict[str, Any], network: hf.Network
) -> hf.Network | None:
    """Another price in a part of a ball, for another radius, or none."""
    leaves = [node for node in _nodes(document) if "price" in node or "prices" in node]
    if not leaves:
        return None
    leaf, factor = (
        leaves[rng.integers(len(leaves))],
        float(rng.choice([-1.0, 1e-9, 0.5, 1.001, 2.0])),
    )
    if "prices" in leaf:
        leaf["prices"] = [price * factor for price in leaf["prices"]]
    elif rng.random() < 0.3:
        leaf["shared"] = not leaf["shared"]
    else:
        leaf["price"] *= factor
    return network


def _side(
    rng: np.random.Generator, document: dict[str, Any], network: hf.Network
) -> hf.Network | None:
    """A split on another neuron, its sides swapped, or one side's proof used for both."""
    splits = [node for node in _nodes(document) if "split" in node or "cut" in node]
    if not splits:
        return None
    node, kind = splits[rng.integers(len(splits))], rng.integers(3)
    if kind == 0 and "cut" in node:
        node["at"] *= float(rng.choice([-1.0, 0.5, 0.99, 1.01]))
    elif kind == 0:
        node["split"][1] = int(rng.integers(network.hidden[node["split"][0]]))
    elif kind == 1:
        node["below"], node["above"] = node["above"], node["below"]
    else:
        node["below"] = copy.deepcopy(node["above"])
    return network


def _method(
    rng: np.random.Generator, document: dict[str, Any], network: hf.Network
) -> hf.Network | None:
    """Interval bounds called enough where they were not, or a tree cut down to a stump."""
    parts = [part for part in document["proof"].get("parts", []) if part["method"] != "interval"]
    if not parts:
        return None
    part = parts[rng.integers(len(parts))]
    part.pop("tree", None)
    part["method"] = "interval"
    return network


FORGERIES: list[tuple[str, Forgery]] = [
    ("delta", _delta),
    ("a radius for each", _own_radii),
    ("norm or biases", _terms),
    ("point", _point),
    ("target", _target),
    ("model, hash put right", _model),
    ("model swapped", _swapped_model),
    ("hash", _hash),
    ("verdict", _verdict),
    ("bound", _bound),
    ("witness parameter", _witness),
    ("multiplier", _multiplier),
    ("price", _price),
    ("decided side", _side),
    ("method", _method),
]
# What must be rejected whether or not the statement is true: a hash, a bound or a proof of the other kind is wrong.
NEVER = {"hash", "verdict", "bound", "model swapped"}


def report(tally: Tally) -> Iterator[str]:
    """The counts, line by line."""
    total = tally.made.total()
    yield f"{total:,} certificates made and checked, {len(tally.disagreements)} disagreements with certify"
    yield f"  of these ROBUST, by stage ({tally.searched.total()} proofs searched for again):"
    for stage, count in tally.stages.most_common():
        yield f"  {stage:26} {count:6,}   {tally.searched[stage]:5,} searched for again"
    for kind, count in sorted(tally.made.items()):
        times = 1e3 * np.array(tally.check_seconds[kind])
        yield f"  {kind:26} {count:6,}   checked in {np.median(times):.2f} ms (median), {times.max():.2f} ms at most"
    everything = 1e3 * np.concatenate([np.array(part) for part in tally.check_seconds.values()])
    yield f"  made in {1e3 * tally.make_seconds / total:.2f} ms, checked in {everything.mean():.2f} ms (means)"
    yield f"  rows without a certificate: {dict(tally.refused)}"
    yield (
        f"{tally.forged.total():,} forgeries with a new id: {len(tally.false_accepted)} false ones accepted, "
        f"{tally.still_true.total():,} became true certificates; with the old id {len(tally.stale_accepted)} accepted"
    )
    for name, count in sorted(tally.forged.items()):
        yield f"  {name:26} {count:6,}   {tally.still_true[name]:5,} true ones accepted"
    for line in (*tally.disagreements[:5], *tally.false_accepted[:5], *tally.stale_accepted[:5]):
        yield f"  WRONG: {line}"


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    data = Path(os.environ.get("HOLDFAST_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument(
        "--robust", type=int, default=10_000, help="ROBUST rows to write certificates for"
    )
    parser.add_argument("--forgeries", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--data",
        type=Path,
        default=data,
        help="folder with the tables; without them, fewer networks",
    )
    parser.add_argument(
        "--store", type=Path, default=ROOT / "out" / "bench", help="where trained networks are kept"
    )
    options = parser.parse_args()
    tables = []
    if (options.data / "adult.csv.gz").exists():
        from cases import cases

        found = cases(options.data, options.store, quick=True, deep_rows=2000)
        tables = [(case.network, case.points) for case in found]
    tally = Tally()
    made = make(options.robust, options.seed, tally, tables)
    # Proofs by cases are rare and have the most to forge.
    rare = [
        one for one in made if "cases" in one.kind or "cuts" in one.kind or "prices" in one.kind
    ]
    forge(options.forgeries // 2, options.seed, made, tally)
    forge(options.forgeries - options.forgeries // 2, options.seed + 1, rare or made, tally)
    for more in range(2, 1_000):
        missing = options.forgeries - tally.forged.total()
        if missing <= 0:
            break
        forge(missing, options.seed + more, made, tally)
    for line in report(tally):
        print(line)


if __name__ == "__main__":
    main()
