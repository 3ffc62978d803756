"""Results in a notebook: what they say, that nothing of the caller's becomes markup, and that looking never fails."""

import sys
import time
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast._shown import HEAD, Shown, Summary
from holdfast.presentation._notebook import page
from holdfast.verify._certificates import Certificates
from holdfast.verify._verdict import Outcome

EVIL = "<script>alert('x')</script>&\"<img src=x onerror=y>"
VOID = {"br"}


class Page(HTMLParser):
    """The cells of a fragment's table, all of its text, and every tag; a tag left open or closed twice fails."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1][-1] += data.strip("\n")


def people(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "income": rng.integers(10, 90, n) * 250,
            EVIL: rng.uniform(0.0, 1.0, n).round(2),
            "home": rng.choice(["rent", EVIL], n),
            "member": rng.random(n) < 0.5,
        },
        index=pd.Index([f"{EVIL}{i}" for i in range(n)], name=EVIL),
    )


@pytest.fixture(scope="module")
def world():
    """A table whose names, categories, index and classes are all markup, a model, and recourse for those it rejects."""
    table = people()
    space = hf.FeatureSpace.from_frame(table, units={"income": "<USD>"}, immutable=["member"])
    weights = np.zeros((1, space.n_variables))
    weights[0, :2] = 3.0, 1.0
    network = hf.Network([weights], [[-2.1]], classes=["no", EVIL])
    rejected = table[network.predict(space.encode(table)) == "no"]
    changes = hf.PlausibleChanges(0.05)
    advice = hf.explain(
        network, rejected, target=EVIL, changes=changes, generator=hf.NNCE(table), space=space
    )
    return network, space, table, rejected, changes, advice


@pytest.fixture(scope="module")
def promises(world, tmp_path_factory):
    """What the ledger, the audit of a model that moved far, and the look ahead have to show."""
    network, *_, advice = world
    with hf.Ledger(tmp_path_factory.mktemp("ledger") / "promises.ledger") as ledger:
        receipt = ledger.add(advice, date="2026-11-16")
        moved = network.with_parameters(network.weights, [network.biases[0] - 0.2])
        yield {
            "ledger": ledger,
            "receipt": receipt,
            "verification": ledger.verify(),
            "audit": hf.audit(ledger, moved),
            "audit of the same model": hf.audit(ledger, network),
            "expiry": hf.promise_expiry(
                [0.1, 2.5, 90.0], [1.0, 2.0, 3.0, 2.0], confidence=0.5, start="2026-11-16"
            ),
        }


@pytest.fixture(scope="module")
def results(world, promises):
    network, space, table, rejected, changes, advice = world
    hopeless = hf.explain(
        network,
        rejected,
        target=EVIL,
        changes=hf.PlausibleChanges(50.0),
        generator=hf.RNCE(table),
        space=space,
    )
    y = network.predict(space.encode(table))
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression().fit(space.encode(table), y)
    retrained = hf.retrain(classifier, space.encode(table), y, how="leave_one_out", n=3)
    return {
        "recourse": advice,
        "recourse without an answer": hopeless,
        "recourse without Δ": hf.explain(
            network, rejected, target=EVIL, generator=hf.NNCE(table), space=space
        ),
        "certificates": hf.certify(network, table, EVIL, changes, space=space),
        "radius": hf.certified_radius(network, table, EVIL, space=space),
        "network": network,
        "changes": changes,
        "changes by layer": hf.PlausibleChanges((0.1,), norm=2, biases=False),
        "delta": hf.delta_calibrated([0.1, 0.2, 0.3, 0.4], coverage=0.5),
        "retrained": retrained,
        "space": space.constrained(rules=["income <= 30000"]),
        **promises,
    }


def test_every_result_is_plain_and_escaped_html(results):
    for name, result in results.items():
        html = result._repr_html_()
        page = Page(html)
        assert "cannot be shown" not in page.text, name
        assert {tag for tag, _ in page.tags} <= {
            "div", "p", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td", "br",
        }, name  # fmt: skip
        for tag, attributes in page.tags:
            assert set(attributes) <= {"style", "scope", "role", "aria-label", "tabindex"}
            assert (tag == "th") == ("scope" in attributes)
            # Nothing is fetched, and the page keeps its own colours.
            style = attributes.get("style", "")
            assert "url" not in style
            assert "background" not in style
            assert "color" not in style.replace("color: inherit", "")


def test_what_a_caller_calls_things_arrives_as_text(results):
    for name in ("recourse", "recourse without an answer", "certificates", "network", "space"):
        assert EVIL in Page(results[name]._repr_html_()).text, name


def test_results_need_no_matplotlib(results, monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for result in results.values():
        assert "cannot be shown" not in result._repr_html_()


def test_a_unit_that_the_label_names_is_not_named_again():
    table = pd.DataFrame({"income (EUR)": [10.0, 90.0], "debt": [9.0, 1.0]})
    space = hf.FeatureSpace.from_frame(table, units={"income (EUR)": "EUR", "debt": "EUR"})
    net = hf.Network([[[1.0, -1.0]]], [[-0.5]])
    advice = hf.explain(net, table.head(1), target=1, generator=hf.NNCE(table), space=space)
    assert Page(advice._repr_html_()).rows[0][-2:] == ["income (EUR)", "debt (EUR)"]


def test_recourse_shows_what_changes_and_nothing_else(world):
    *_, rejected, _, advice = world
    page = Page(advice._repr_html_())
    header, *rows = page.rows
    assert header[:3] == [EVIL, "advice", "cost_l1"]
    assert len(rows) == HEAD < len(advice)
    assert f"first {HEAD} of {len(advice)} people" in page.text
    before, after = rejected.iloc[:HEAD], advice.counterfactuals.iloc[:HEAD]
    columns = {name.removesuffix(" (<USD>)"): header.index(name) for name in header[3:]}
    assert set(columns) == {name for name in before if (before[name] != after[name]).any()}
    for i, row in enumerate(rows):
        assert row[0] == before.index[i]
        assert row[1] == {"ROBUST": "proven", "NOT_ROBUST": "can be broken"}[advice.verdict[i]]
        assert float(row[2]) == pytest.approx(advice.cost_l1[i], rel=1e-3)
        for name, place in columns.items():
            old, new = before[name].iloc[i], after[name].iloc[i]
            assert bool(row[place]) == (old != new)
        if before["income"].iloc[i] != after["income"].iloc[i]:
            assert (
                row[columns["income"]]
                == f"{before['income'].iloc[i]:,} → {after['income'].iloc[i]:,}"
            )
    assert {"proven", "can be broken"} <= {row[1] for row in rows}


def test_a_row_without_an_answer_leaves_the_others_in_their_places(world):
    *_, advice = world
    full = Page(advice._repr_html_()).rows
    found = advice.found.copy()
    found[[0, 3]] = False
    reason = np.where(found, "", "there is none")
    tables = advice.counterfactuals.astype(object).where(
        pd.Series(found, index=advice.counterfactuals.index), None
    )
    gaps = Page(
        replace(advice, found=found, reason=reason, counterfactuals=tables)._repr_html_()
    ).rows
    assert [row[1] for row in (gaps[1], gaps[4])] == ["no advice: there is none"] * 2
    assert not any(gaps[1][3:] + gaps[4][3:])
    assert gaps[0] == full[0]
    assert [row for i, row in enumerate(gaps) if i not in (1, 4)] == [
        row for i, row in enumerate(full) if i not in (1, 4)
    ]


def test_rows_without_an_answer_say_why(results):
    hopeless = results["recourse without an answer"]
    assert not hopeless.found.any()
    header, *rows = Page(hopeless._repr_html_()).rows
    assert header[1:] == ["advice", "cost_l1"]
    assert [row[1] for row in rows] == [f"no advice: {reason}" for reason in hopeless.reason[:HEAD]]
    assert {row[2] for row in rows} == {"–"}


def test_certificates_and_radii_show_their_first_rows(results):
    certificates, radius = results["certificates"], results["radius"]
    page = Page(certificates._repr_html_())
    robust = int((certificates.verdict == "ROBUST").sum())
    assert (
        f"{robust} of {len(certificates)} points proven for every model within delta = 0.05"
        in page.text
    )
    assert [row[1] for row in page.rows[1:]] == [
        verdict.words for verdict in certificates.verdict[:HEAD]
    ]
    rows = Page(radius._repr_html_()).rows[1:]
    np.testing.assert_allclose([float(row[1]) for row in rows], radius.lower[:HEAD], rtol=1e-3)
    assert repr(radius).startswith(f"CertifiedRadius({len(radius)} rows: ")
    assert f"median {np.median(radius.lower):.4g}" in repr(radius)


def test_network_shows_its_layers():
    network = hf.Network([np.ones((3, 2)), np.full((2, 3), -4.0)], [np.zeros(3), np.zeros(2)])
    rows = Page(network._repr_html_()).rows[1:]
    assert rows == [
        ["hidden 1", "2", "3", "relu", "9", "1"],
        ["output", "3", "2", "none: logits", "8", "4"],
    ]


def test_an_audit_shows_whom_to_write_to(promises):
    audit = promises["audit"]
    contacts = audit.contact_list()
    assert 0 < len(contacts) < len(audit)
    page = Page(audit._repr_html_())
    assert f"{len(contacts)} of {len(audit)} promises are not kept" in page.text
    assert [row[:2] for row in page.rows[1:]] == [
        [str(number), key] for number, key in contacts["key"].head(HEAD).items()
    ]
    same = promises["audit of the same model"]
    assert f"All {len(same)} promises are kept" in Page(same._repr_html_()).text


def test_expiry_says_how_long_each_promise_lasts(promises):
    expiry = promises["expiry"]
    rows = Page(expiry._repr_html_()).rows[1:]
    assert [row[2] for row in rows] == [expiry.describe(i) for i in range(3)]
    assert repr(expiry).startswith(
        "Expiry(3 promises with probability 50%: 2 kept through the next retraining"
    )


def test_a_ledger_shows_its_head_and_can_be_looked_at_when_closed(promises, tmp_path):
    ledger = promises["ledger"]
    for name in ("ledger", "receipt", "verification"):
        assert " ".join(ledger.head.split()) in promises[name]._repr_html_()
    with hf.Ledger(tmp_path / "other.ledger") as other:
        pass
    assert "It cannot be shown" in other._repr_html_()
    assert repr(other).endswith("closed, or unreadable)")
    faulty = replace(promises["verification"], faults=("entry 3: <altered>",))
    assert "NOT intact" in faulty._repr_html_()
    assert "entry 3: &lt;altered&gt;" in faulty._repr_html_()


def _first(result, n):
    """The same result with its first n rows only."""
    if isinstance(result, Certificates):
        outcome = result.outcome
        parts = Outcome(
            *(part[:n] for part in (outcome.verdict, outcome.lower, outcome.upper, outcome.stage))
        )
        return replace(
            result,
            points=result.points[:n],
            targets=result.targets[:n],
            index=result.index[:n],
            outcome=parts,
        )
    if isinstance(result, hf.Recourse):
        names = (
            "found",
            "reason",
            "cost_l1",
            "verdict",
            "optimality_gap",
            "lower_bound",
            "points",
            "targets",
        )
        tables = {name: getattr(result, name).iloc[:n] for name in ("counterfactuals", "factuals")}
        return replace(result, **{name: getattr(result, name)[:n] for name in names}, **tables)
    return replace(result, lower=result.lower[:n], upper=result.upper[:n], index=result.index[:n])


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize(
    "name", ["recourse", "recourse without an answer", "certificates", "radius"]
)
def test_no_rows_and_one(results, name, n):
    result = _first(results[name], n)
    page = Page(result._repr_html_())
    assert "cannot be shown" not in page.text
    assert len(page.rows) == (2 if n else 0)
    assert repr(result)


def test_a_million_rows_are_as_quick_to_look_at(results):
    n = 1_000_000
    times = n // len(results["certificates"]) + 1
    certificates = results["certificates"]
    outcome = certificates.outcome
    many = replace(
        certificates,
        points=np.zeros((n, 1)),
        index=pd.RangeIndex(n),
        outcome=Outcome(
            *(
                np.tile(part, times)[:n]
                for part in (outcome.verdict, outcome.lower, outcome.upper, outcome.stage)
            ),
        ),
    )
    radius = replace(
        results["radius"],
        lower=np.linspace(0, 1, n),
        upper=np.linspace(0, 1, n),
        index=pd.RangeIndex(n),
    )
    advice = results["recourse"]
    rows = np.tile(np.arange(len(advice)), n // len(advice) + 1)[:n]
    names = (
        "found",
        "reason",
        "cost_l1",
        "verdict",
        "optimality_gap",
        "lower_bound",
        "points",
        "targets",
    )
    tables = {name: getattr(advice, name).iloc[rows] for name in ("counterfactuals", "factuals")}
    recourse = replace(advice, **{name: getattr(advice, name)[rows] for name in names}, **tables)
    for result in (many, radius, recourse):
        start = time.process_time()
        html = result._repr_html_()
        assert time.process_time() - start < 1.0
        assert f"first {HEAD} of 1,000,000" in html
        assert len(html) < 50_000


def test_looking_at_a_broken_object_does_not_fail(results):
    broken = replace(results["radius"], lower=None)
    assert "It cannot be shown: TypeError" in broken._repr_html_()

    class Awkward(Shown):
        def overview(self) -> Summary:
            raise RuntimeError(EVIL)

    assert "It cannot be shown: RuntimeError" in Awkward()._repr_html_()
    assert "<script" not in Awkward()._repr_html_()


def test_cells_for_people():
    table = pd.DataFrame(
        {
            "n": [1234567, 2],
            "x": [0.123456, np.nan],
            "wide": [123456.789, np.inf],
            "flag": [True, False],
            "lines": [("a", "b"), ()],
            "long": ["y" * 500, None],
        },
        index=pd.Index([2024, 2025], name="year"),
    )
    header, first, second = Page(page(Summary("", table=table))).rows
    assert header == ["year", "n", "x", "wide", "flag", "lines", "long"]
    assert first[:6] == ["2024", "1,234,567", "0.1235", "123,457", "yes", "ab"]
    assert first[6] == "y" * 299 + "…"
    assert second == ["2025", "2", "–", "∞", "no", "", "–"]
