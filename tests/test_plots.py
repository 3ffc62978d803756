"""The pictures: what is drawn against values computed otherwise, in black and white, on whatever axes one likes."""

import math
import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import holdfast as hf
from holdfast.errors import InvalidInputError, MissingExtraError
from holdfast.presentation.pictures._certified import draw_survival, survival
from holdfast.presentation.pictures._drawing import CHOSEN, new_figure, plain
from random_networks import random_network

DELTA = 0.03
CHANGES = hf.PlausibleChanges(DELTA)


@pytest.fixture(autouse=True)
def _no_window():
    mpl.use("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def linear():
    """A logistic regression and points that it accepts, some of them barely."""
    network = hf.Network([[[1.5, -2.0, 0.5]]], [[0.1]])
    points = np.random.default_rng(3).uniform(-1.0, 1.0, (200, 3))
    return network, points[network.predict(points) == 1][:80]


@pytest.fixture(scope="module")
def advice():
    """Recourse on a table with every kind of column, some of it robust; the last person has no answer."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "income": rng.integers(10, 90, 200) * 250,
            "debt": rng.integers(0, 80, 200) * 100,
            "level": rng.choice(["low", "middle", "high"], 200),
            "home": rng.choice(["owner", "rent", "family"], 200),
            "age": rng.integers(18, 80, 200),
        }
    )
    space = hf.FeatureSpace.from_frame(
        table,
        ordinal={"level": ["low", "middle", "high"]},
        immutable=["age"],
        units={"income": "USD"},
    )
    network = random_network(np.random.default_rng(2), space.n_variables, (6,), 1)
    classes = network.predict_index(space.encode(table))
    target = int(classes.mean() < 0.5)
    rejected = table[classes != target].head(30)
    changes = hf.PlausibleChanges(0.02)
    found = hf.explain(
        network, rejected, target=target, changes=changes, generator=hf.NNCE(table), space=space
    )
    assert found.found.all()
    assert 0 < found.robust.sum() < len(found)
    keep = np.arange(len(found)) < len(found) - 1
    return replace(
        found,
        found=keep,
        counterfactuals=found.counterfactuals.where(
            pd.Series(keep, index=found.counterfactuals.index)
        ),
        cost_l1=np.where(keep, found.cost_l1, np.nan),
        verdict=np.where(keep, found.verdict, None),
        points=np.where(keep[:, None], found.points, np.nan),
    )


def segments(ax, label):
    """The (lower, upper) ends of the vertical lines with this label."""
    lines = [lines for lines in ax.collections if lines.get_label() == label]
    return (
        np.array([[part[0][1], part[1][1]] for part in lines[0].get_segments()])
        if lines
        else np.empty((0, 2))
    )


def line(ax, label):
    return next(line for line in ax.lines if line.get_label() == label)


# ------------------------------------------------------------------ certificates


def test_certificates_are_drawn_today_and_in_the_worst_case(linear):
    network, points = linear
    certificates = hf.certify(network, points, 1, CHANGES)
    ax = certificates.plot()
    # Without hidden layers the least logit over Δ is known in closed form.
    logit = points @ np.array([1.5, -2.0, 0.5]) + 0.1
    worst = logit - DELTA * (np.abs(points).sum(axis=1) + 1.0)
    order = np.argsort(worst)
    today, least = (100.0 / (1.0 + np.exp(-values[order])) for values in (logit, worst))
    np.testing.assert_allclose(line(ax, "accepted today").get_ydata(), today, rtol=1e-9)
    np.testing.assert_allclose(line(ax, "worst case in Δ").get_ydata(), least, rtol=1e-6)
    robust = worst[order] >= 0.0
    assert 0 < robust.sum() < len(points)
    np.testing.assert_allclose(
        segments(ax, "proven"), np.column_stack([least, today])[robust], rtol=1e-6
    )
    np.testing.assert_allclose(
        segments(ax, "can be broken"), np.column_stack([least, today])[~robust], rtol=1e-6
    )
    assert f"{robust.sum()} of {len(points)} points" in ax.get_title(loc="left")
    assert ax.get_ylabel() == "probability of class 1"


def test_of_three_classes_the_strongest_rival_counts():
    network = random_network(np.random.default_rng(1), 3, (5,), 3)
    points = np.random.default_rng(2).uniform(-1.0, 1.0, (40, 3))
    targets = network.predict(points)
    ax = hf.certify(network, points, targets, CHANGES).plot()
    logits = np.sort(network.logits(points), axis=1)
    expected = 100.0 / (1.0 + np.exp(logits[:, 1] - logits[:, 2]))
    np.testing.assert_allclose(
        np.sort(line(ax, "accepted today").get_ydata()), np.sort(expected), rtol=1e-9
    )
    assert "promised class" in ax.get_ylabel()
    assert "strongest rival" in ax.get_ylabel()


def test_undecided_points_are_neither(linear):
    network, points = linear
    certificates = hf.certify(network, points, 1, CHANGES)
    outcome = replace(certificates.outcome, verdict=np.zeros(len(points), dtype=np.int8))
    ax = replace(certificates, outcome=outcome).plot()
    assert len(segments(ax, "undecided")) == len(points)
    assert len(segments(ax, "proven")) == 0
    assert ax.get_title(loc="left").startswith(f"0 of {len(points)} ")


def test_of_many_points_a_thousand_are_drawn(linear):
    network, points = linear
    certificates = hf.certify(network, np.tile(points, (40, 1)), 1, CHANGES)
    ax = certificates.plot()
    assert len(line(ax, "accepted today").get_ydata()) == 1000
    assert f"1,000 of {len(certificates):,}" in ax.get_xlabel()
    assert f"of {len(certificates):,} points" in ax.get_title(loc="left")


# ------------------------------------------------------------------ survival


@pytest.mark.parametrize("hidden", [(), (6,), (5, 4)])
def test_the_survival_curve_says_what_certify_says(hidden):
    rng = np.random.default_rng(7)
    network = random_network(rng, 3, hidden, 1)
    points = rng.uniform(-1.0, 1.0, (25, 3))
    target = int(network.predict_index(points).mean() >= 0.5)
    radius = hf.certified_radius(network, points, target)
    ends = np.sort(np.unique(np.r_[radius.lower, radius.upper]))
    # Away from the radii, which are known to within a tolerance.
    gaps = np.flatnonzero(np.diff(ends) > 1e-4)
    deltas = (ends[gaps] + ends[gaps + 1])[:: max(len(gaps) // 5, 1)] / 2
    ax = radius.plot(delta=deltas)
    x, y = ax.lines[0].get_data()
    assert ax.lines[0].get_drawstyle() == "steps-post"
    for delta in deltas:
        share = 100 * hf.certify(network, points, target, hf.PlausibleChanges(delta)).robust.mean()
        assert y[np.searchsorted(x, delta, side="right") - 1] == pytest.approx(share)
    marks = [mark for mark in ax.lines if mark.get_color() == CHOSEN]
    np.testing.assert_allclose([mark.get_xdata()[0] for mark in marks], deltas)
    shares = [100 * np.mean(radius.lower > delta) for delta in deltas]
    np.testing.assert_allclose([mark.get_ydata()[0] for mark in marks], shares)


def test_radii_that_are_zero_infinite_or_nothing():
    steps, share = survival(np.array([0.0, 0.5, np.inf, np.nan]))
    np.testing.assert_array_equal(steps, [0.0, 0.5])
    np.testing.assert_array_equal(share, [0.5, 0.25])
    for radii in ([], [0.0], [np.inf], [0.3], [np.nan, 0.1]):
        lower = np.array(radii, dtype=float)
        radius = replace(
            hf.certified_radius(hf.Network([[[1.0]]], [[0.0]]), [[1.0]], 1),
            lower=lower,
            upper=lower,
        )
        ax = radius.plot(delta=0.1)
        ax.figure.draw_without_rendering()
    assert "no points to draw" in [
        text.get_text() for text in replace(radius, lower=np.empty(0)).plot().texts
    ]


def test_what_delta_and_moved_can_be(linear):
    network, points = linear
    radius = hf.certified_radius(network, points, 1)
    chosen = hf.delta_calibrated([0.01, 0.02, 0.03], coverage=0.5)
    for delta in (
        float(chosen),
        chosen,
        chosen.changes,
        [float(chosen)],
        hf.PlausibleChanges((float(chosen),)),
    ):
        marks = [mark for mark in radius.plot(delta=delta).lines if mark.get_color() == CHOSEN]
        assert [mark.get_xdata()[0] for mark in marks] == [float(chosen)]
    ticks = line(radius.plot(moved=[0.01, 0.04]), "how far 2 retrainings moved the model")
    np.testing.assert_array_equal(ticks.get_xdata(), [0.01, 0.04])


# ------------------------------------------------------------------ recourse


def test_the_bars_are_counts_and_the_amounts_medians(advice):
    ax = advice.plot()
    rows = advice.found
    before, after = advice.factuals[rows], advice.counterfactuals[rows]
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    bars = {bar.get_label(): [patch.get_width() for patch in bar] for bar in ax.containers}
    order = {"low": 0, "middle": 1, "high": 2}
    for name in ("income", "debt", "level"):
        old, new = (
            table[name].map(order) if name == "level" else table[name] for table in (before, after)
        )
        assert bars["raise"][names.index(name)] == (new.astype(float) > old.astype(float)).sum()
        assert bars["lower"][names.index(name)] == (new.astype(float) < old.astype(float)).sum()
        assert bars["change"][names.index(name)] == 0
    assert bars["change"][names.index("home")] == (before["home"] != after["home"]).sum() > 0
    assert "age" not in names
    total = [sum(widths) for widths in zip(*bars.values(), strict=True)]
    assert total == sorted(total, reverse=True)
    amounts = dict(
        zip(names, [tick.get_text() for tick in ax.child_axes[0].get_yticklabels()], strict=True)
    )
    change = (after["income"].astype(float) - before["income"])[before["income"] != after["income"]]
    assert amounts["income"].startswith(f"{float(f'{change.median():.3g}'):+,.0f} USD (")
    swaps = (before["home"] + " → " + after["home"])[before["home"] != after["home"]].value_counts()
    assert (
        swaps[amounts["home"].rsplit(" (", 1)[0]]
        == swaps.max()
        == int(amounts["home"].split("(")[1].rstrip(")"))
    )
    assert f"of {rows.sum()} with advice" in ax.get_xlabel()


def test_only_so_many_columns_are_drawn(advice):
    ax = advice.plot(most=2)
    assert len(ax.get_yticklabels()) == 2
    assert "the first 2 of 4" in ax.get_title(loc="left")


def test_cost_is_drawn_against_the_radius(advice):
    rows = advice.found
    radius = hf.certified_radius(
        advice.network, advice.points[rows], advice.network.classes[advice.targets[rows]]
    )
    ax = advice.plot("cost")
    for words, verdict in (("proven", "ROBUST"), ("can be broken", "NOT_ROBUST")):
        mine = advice.verdict[rows] == verdict
        drawn = line(ax, f"{words}: {mine.sum()}")
        np.testing.assert_allclose(drawn.get_xdata(), radius.lower[mine])
        np.testing.assert_allclose(drawn.get_ydata(), advice.cost_l1[rows][mine])
        assert (drawn.get_xdata() > 0.02).all() == (verdict == "ROBUST")
    assert line(ax, "delta = 0.02").get_xdata() == [0.02, 0.02]
    # A radius that is known already is not computed again, whether it is given for the answers or for every row.
    every = np.full(len(advice), np.nan)
    every[rows] = 7.0
    for given in (np.full(rows.sum(), 7.0), every, replace(radius, lower=np.full(rows.sum(), 7.0))):
        assert set(advice.plot("cost", radius=given).lines[0].get_xdata()) == {7.0}


def test_survival_of_recourse_is_that_of_its_answers(advice):
    ax = advice.plot("survival")
    share = 100 * advice.robust.sum() / advice.found.sum()
    (mark,) = [mark for mark in ax.lines if mark.get_color() == CHOSEN]
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == pytest.approx((0.02, share))


def test_recourse_without_rows_or_answers_is_drawn_empty(advice):
    nobody = replace(advice, found=np.zeros(len(advice), dtype=bool))
    for kind in ("changes", "cost", "survival"):
        texts = [text.get_text() for text in nobody.plot(kind).texts]
        assert any(text.startswith("no ") for text in texts)


def test_wrong_options_are_refused(advice):
    with pytest.raises(
        InvalidInputError, match="kind: expected 'changes', 'cost' or 'survival', got 'pie'"
    ):
        advice.plot("pie")
    with pytest.raises(
        InvalidInputError,
        match="radius: expected one for each of the 29 pieces of advice or 30 rows",
    ):
        advice.plot("cost", radius=[1.0])


# ------------------------------------------------------------------ promises


@pytest.fixture(scope="module")
def audited(linear, tmp_path_factory):
    """Promises under two different Δ, and a model that moved further than the smaller one."""
    network, points = linear
    denied = points - np.array([2.0, 0.0, 0.0])
    moved = network.with_parameters(
        [network.weights[0] + np.array([0.04, 0.0, 0.0])], [network.biases[0] - 0.15]
    )
    with hf.Ledger(tmp_path_factory.mktemp("ledger") / "promises.ledger") as ledger:
        for delta in (0.01, 0.2):
            advice = hf.explain(
                network,
                denied,
                target=1,
                changes=hf.PlausibleChanges(delta),
                generator=hf.NNCE(points),
            )
            ledger.add(advice, date="2026-11-16")
        return hf.audit(ledger, moved)


def test_an_audit_is_drawn_status_by_status_for_each_of_the_terms(audited):
    ax = audited.plot()
    statuses = pd.Series(audited.status)
    assert statuses.nunique() > 1
    for bar in ax.containers:
        words, count = bar.get_label().split(": ")
        assert (
            sum(patch.get_width() for patch in bar)
            == int(count)
            == (statuses == words.upper().replace(" ", "_")).sum()
        )
    assert sum(patch.get_width() for bar in ax.containers for patch in bar) == len(audited)
    assert [label.get_text().split("\n")[0] for label in ax.get_yticklabels()] == [
        "made for delta = 0.01", "made for delta = 0.2",
    ]  # fmt: skip


def test_neither_all_nor_none_comes_of_rounding():
    few = draw_survival(np.append(np.full(9999, 0.5), 0.001), None, delta=0.01)
    assert [text.get_text() for text in few.texts] == ["0.01: >99%"]
    one = draw_survival(np.append(np.zeros(9999), 0.5), None, delta=0.01)
    assert [text.get_text() for text in one.texts] == ["0.01: <1%"]
    radii = np.append(np.full(9999, 9.0), 0.5)
    lasting = hf.promise_expiry(radii, [1.0] * 5, horizon=1, confidence=0.6).plot()
    assert [text.get_text() for text in lasting.texts] == [">99%"]


def test_a_picture_names_no_larger_delta_than_was_proven(advice):
    changes = hf.PlausibleChanges(0.00519996)
    assert changes.words == "delta = 0.005199"
    told = draw_survival(np.full(3, 0.5), None, delta=changes)
    assert [text.get_text() for text in told.texts] == ["0.005199: 100%"]
    _, labels = advice.plot("cost", delta=changes).get_legend_handles_labels()
    assert "delta = 0.005199" in labels


def test_expiry_is_drawn_as_far_as_the_history_reaches():
    radii = np.array([0.5, 1.5, 2.5, 9.0])
    expiry = hf.promise_expiry(radii, [1.0] * 5, horizon=4, confidence=0.6)
    ax = expiry.plot()
    dots = next(drawn for drawn in ax.lines if drawn.get_marker() == "o")
    # Each retraining moves the model by 1, and five of them speak of two ahead: the model drifts by 1, then by 2.
    np.testing.assert_allclose(dots.get_xdata(), [0, 1, 2])
    np.testing.assert_allclose(dots.get_ydata(), [100.0, 75.0, 50.0])
    assert line(ax, "here the history ends").get_xdata()[0] == 2.5
    assert "no promises to draw" in [
        text.get_text() for text in replace(expiry, radius=np.empty(0)).plot().texts
    ]


# ------------------------------------------------------------------ all of them


@pytest.fixture(scope="module")
def pictures(linear, advice, audited):
    network, points = linear
    return {
        "certificates": hf.certify(network, points, 1, CHANGES).plot,
        "radius": lambda ax=None: hf.certified_radius(network, points, 1).plot(
            ax, delta=DELTA, moved=[0.01, 0.02]
        ),
        "changes": lambda ax=None: advice.plot("changes", ax),
        "cost": lambda ax=None: advice.plot("cost", ax),
        "survival": lambda ax=None: advice.plot("survival", ax),
        "audit": audited.plot,
        "expiry": hf.promise_expiry([0.5, 1.5, 9.0], [1.0] * 5, horizon=4, confidence=0.6).plot,
        "delta": hf.delta_calibrated([0.1, 0.2, 0.3], coverage=0.5).plot,
        "risk": risk().plot,
    }


def risk():
    """A margin that was calibrated on 20 models, each a threshold on one number."""

    def line(bias):
        return hf.Network([[[1.0]]], [[bias]])

    moves = np.random.default_rng(0).normal(0.0, 0.05, 20)
    return hf.risk_calibrated(
        line(-0.5),
        np.linspace(0.0, 0.45, 10)[:, None],
        target=1,
        retrained=[line(-0.5 - move) for move in moves],
        generator=hf.RNCE(np.linspace(0.5, 1.0, 51)[:, None]),
    )


def test_the_cost_of_a_risk_has_a_panel_of_its_own():
    ax = risk().plot()
    (below,) = ax.child_axes
    ax.figure.draw_without_rendering()
    assert not below.get_window_extent().overlaps(ax.get_window_extent())
    assert "cost" in below.get_ylabel()
    assert below.get_xlabel() == "margin that promises are made for"
    assert "%" in ax.get_title(loc="left")


def test_certificates_are_drawn_at_the_heights_that_are_used(linear):
    network, points = linear
    near = points[np.abs(network.logits(points)[:, 0]) < 0.3]
    low, high = hf.certify(network, near, 1, CHANGES).plot().get_ylim()
    assert 30 < low < 50 < high < 70


def test_a_picture_of_delta_says_what_it_shows():
    ax = hf.delta_calibrated([0.1, 0.2, 0.3], coverage=0.5).plot()
    assert ax.get_title(loc="left") == "2 of 3 retrainings stay within delta"
    assert ax.get_ylabel() == "% of retrainings"


def test_given_axes_are_returned_and_pyplot_is_left_alone(pictures):
    for name, draw in pictures.items():
        ax = Figure().subplots()
        assert draw(ax) is ax, name
        assert pyplot.get_fignums() == []
    mine = pyplot.figure()
    draw(Figure().subplots())
    assert pyplot.gcf() is mine


def test_new_axes_are_shown_by_pyplot(pictures):
    for n, draw in enumerate(pictures.values()):
        ax = draw()
        assert len(pyplot.get_fignums()) == n + 1
        assert pyplot.gcf() is ax.figure


def test_nothing_lies_on_the_data_and_nothing_is_cut_off(pictures):
    for name, draw in pictures.items():
        ax = draw()
        figure = ax.figure
        figure.draw_without_rendering()
        lowest = ax.child_axes[-1] if name == "risk" else ax
        legend = lowest.get_legend()
        frame = lowest.get_window_extent()
        if legend is not None:
            assert not legend.get_window_extent().overlaps(frame), name
            below = lowest.xaxis.label.get_window_extent()
            assert not legend.get_window_extent().overlaps(below), name
        whole, drawn = figure.bbox, figure.get_tightbbox().transformed(figure.dpi_scale_trans)
        assert whole.x0 - 1 <= drawn.x0, name
        assert drawn.x1 <= whole.x1 + 1, name
        assert whole.y0 - 1 <= drawn.y0, name
        assert drawn.y1 <= whole.y1 + 1, name
        assert lowest.get_xlabel(), name


def test_greys_and_one_red_are_all_there_is(pictures):
    for name, draw in pictures.items():
        ax = draw()
        colours = [line.get_color() for line in ax.lines]
        colours += [colour[:3] for lines in ax.collections for colour in lines.get_edgecolor()]
        for colour in colours:
            red, green, blue = to_rgb(colour)
            assert red == green == blue or to_rgb(CHOSEN) == (red, green, blue), name


def test_names_with_dollar_signs_are_not_typeset(advice):
    ax = replace(advice, space=advice.space.constrained(labels={"income": "$a_1$ or $b$"})).plot()
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert plain("$a_1$ or $b$") in names
    assert plain("US$") == r"US\$"
    ax.figure.draw_without_rendering()


def test_long_labels_leave_room_for_the_bars(advice):
    label = "what you earn in a year before tax, from work, rent and everything else, " * 3
    ax = replace(
        advice, space=advice.space.constrained(labels={"income": label.strip(), "debt": "d" * 200})
    ).plot()
    ax.figure.draw_without_rendering()
    assert ax.get_window_extent().width > 0.3 * ax.figure.bbox.width
    assert (
        ax.figure.get_tightbbox().transformed(ax.figure.dpi_scale_trans).x0 >= ax.figure.bbox.x0 - 1
    )
    assert any(
        tick.get_text().startswith("what you earn in a year\n") for tick in ax.get_yticklabels()
    )


def test_without_matplotlib_the_extra_is_named(pictures, monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in pictures.values():
        with pytest.raises(
            MissingExtraError,
            match=r"needs the package 'matplotlib': pip install 'holdfast\[plot\]'",
        ):
            draw()
    with pytest.raises(MissingExtraError, match="the paper's figures needs"):
        new_figure("the paper's figures", (1, 1))


def test_a_figure_for_a_file_leaves_pyplot_alone(tmp_path):
    figure = new_figure("a test", (2, 1), w_pad=0.2)
    figure.subplots().plot([0, 1], [0, math.pi])
    figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
    assert pyplot.get_fignums() == []
