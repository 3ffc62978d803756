"""`Deadline`: seconds of a thread's own work, whatever else the machine does."""

import threading
import time

import numpy as np
import pytest

import holdfast as hf
from holdfast._deadline import Deadline
from holdfast.verify._certify import certify_points
from holdfast.verify._search import Search
from random_networks import random_network


def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_without_a_limit_it_is_never_over():
    deadline = Deadline.after(None)
    assert (deadline.left(), deadline.over) == (None, False)


def test_own_work_counts_down_to_zero():
    deadline = Deadline.after(0.02)
    assert 0.0 < deadline.left() <= 0.02
    work(0.03)
    assert (deadline.left(), deadline.over) == (0.0, True)


@pytest.mark.parametrize(
    "other", [lambda: time.sleep(0.05), lambda: work(0.05)], ids=["waiting", "another thread"]
)
def test_what_others_do_does_not_count(other):
    deadline = Deadline.after(0.03)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert deadline.left() > 0.01


@pytest.mark.parametrize("certified", [False, True])
def test_a_line_search_keeps_to_the_time_limit(certified, monkeypatch):
    """However long a certificate takes, the search and the last certificate have `time_limit` for each person."""
    spent = []

    def slow(*arguments, deadline, method="joint", **options):
        if method == "joint":
            spent.append(deadline.left())
            work(spent[-1])
        return certify_points(*arguments, method="joint", **options)

    for module in ("base", "recourse", "rnce"):
        monkeypatch.setattr(f"holdfast.generators._{module}.certify_points", slow)
    network = hf.Network([[[-1.0, 1.0], [0.5, 1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [-0.5]])
    others = np.random.default_rng(0).uniform(0.0, 1.0, (50, 2))
    generator = hf.RNCE(others, certified_candidates=certified, line_search=True)
    people = [[0.7, 0.1], [0.9, 0.0]]
    result = hf.explain(
        network,
        people,
        target=1,
        changes=hf.PlausibleChanges(0.05),
        generator=generator,
        time_limit=0.05,
    )
    assert result.found.all()
    assert result.robust.all()
    assert len(spent) > 1
    assert sum(spent) <= 2 * 2 * 0.05 + 1e-9


def test_hard_rows_of_one_class_cost_no_easy_rows_of_another(monkeypatch):
    """The first search takes all the time there is: whatever an attack can break is broken by then."""
    rng, bounds = np.random.default_rng(2), Search.root_bounds
    network, points = random_network(rng, 4, (8, 8), 3, awkward=False), rng.normal(size=(300, 4))
    targets, changes = network.predict(points), hf.PlausibleChanges(0.02)
    whole = hf.certify(network, points, targets, changes)
    attacked = whole.decided_by == "attack"
    assert len(np.unique(targets[attacked])) == 3

    def long(search):
        work(5.0 * limit)
        bounds(search)

    limit = 0.2
    monkeypatch.setattr(Search, "root_bounds", long)
    soon = hf.certify(network, points, targets, changes, time_limit=limit)
    assert (soon.verdict == hf.Verdict.UNKNOWN).any()
    assert (soon.verdict[attacked] == hf.Verdict.NOT_ROBUST).all()


def test_the_test_on_separate_ranges_keeps_to_the_time_limit(monkeypatch):
    rng = np.random.default_rng(3)
    network, points = random_network(rng, 4, (8, 8), 3, awkward=False), rng.normal(size=(50, 4))
    targets, changes = network.predict(points), hf.PlausibleChanges(0.02)
    whole = hf.certify(network, points, targets, changes, method="separate")
    monkeypatch.setattr(
        Search, "run", lambda *arguments: pytest.fail("searched after the time was up")
    )
    soon = hf.certify(network, points, targets, changes, method="separate", time_limit=1e-9)
    assert (soon.margin_lower <= whole.margin_lower).all()
    assert soon.robust.sum() < whole.robust.sum()
