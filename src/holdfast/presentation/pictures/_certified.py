"""Pictures of verdicts and radii; they read in black and white."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from holdfast._network import Floats, Network, Pair
from holdfast._numbers import at_most
from holdfast._numbers import share as share_text
from holdfast._shown import draw
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.presentation.pictures._drawing import (
    CHOSEN,
    DARK,
    DOTTED,
    INK,
    LIGHT,
    VERDICTS,
    axes_to_draw_on,
    headline,
    legend_below,
    may_change,
    nothing_to_draw,
    percent,
    plain,
)
from holdfast.verify import Certificates, CertifiedRadius, Verdict
from holdfast.verify._margins import least_margins

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More lines than this cannot be told apart.
_MOST = 1000
_STYLES: dict[Verdict, dict[str, Any]] = {
    Verdict.NOT_ROBUST: {"color": LIGHT},
    Verdict.UNKNOWN: {"color": INK, "linestyle": DOTTED},
    Verdict.ROBUST: {"color": DARK},
}


@draw.register(Certificates)
def draw_certificates(certificates: Certificates, ax: Axes | None) -> Axes:
    """See `Certificates.plot`."""
    ax = axes_to_draw_on(ax, "a picture of certificates", (7.2, 4.6))
    n = len(certificates)
    worst = worst_margins(certificates)
    order = np.argsort(worst, kind="stable")
    if n > _MOST:
        order = order[np.linspace(0, n - 1, _MOST).astype(np.intp)]
    targets = certificates.targets[order]
    points = certificates.points[order]
    today = 100 * expit(least_margins(certificates.classifier, targets, points))
    least = 100 * expit(worst[order])
    verdicts = certificates.verdict[order]
    rank = np.arange(1, len(order) + 1)
    width = min(3.0, max(0.8, 200 / max(len(order), 1)))
    for verdict, style in _STYLES.items():
        rows = verdicts == verdict
        if rows.any():
            ax.vlines(
                rank[rows],
                least[rows],
                today[rows],
                linewidth=width,
                label=VERDICTS[verdict],
                **style,
            )
    size = min(5.0, max(1.5, 300 / max(len(order), 1)))
    ax.plot(rank, today, "o", color=DARK, markersize=size, label="accepted today")
    ax.plot(rank, least, "_", color=DARK, markersize=size + 1, label="worst case in Δ")
    ax.axhline(50, color=DARK, linewidth=1)
    percent(ax)
    _zoom(ax, np.concatenate([least, today]))
    some = "" if len(order) == n else f" ({len(order):,} of {n:,}, at even ranks)"
    ax.set(
        xlim=(0.4, len(order) + 0.6),
        xticks=[] if len(order) > 20 else rank,
        xlabel=f"a line for each point, the most fragile first{some}",
        ylabel=_probability_of(certificates),
    )
    proven = f"{int(certificates.robust.sum()):,} of {n:,} points are proven"
    return headline(legend_below(ax, 4), f"{proven} for {certificates.changes.every_model}")


def _zoom(ax: Axes, drawn: Floats) -> None:
    """Show the heights that are drawn and the 50% between yes and no, with some room, instead of 0% to 100%."""
    low, high = float(np.min(drawn, initial=50.0)), float(np.max(drawn, initial=50.0))
    room = max(0.08 * (high - low), 0.5)
    ax.set_ylim(max(low - room, 0.0), min(high + room, 100.0))
    if high - low < 8.0:
        ax.yaxis.set_major_formatter("{x:.1f}%")


def worst_margins(certificates: Certificates) -> Floats:
    """Each point's least margin over Δ, as far as known: an upper bound where it breaks, a lower bound elsewhere."""
    broken = certificates.verdict == Verdict.NOT_ROBUST
    return np.where(broken, certificates.margin_upper, certificates.margin_lower)


@draw.register(CertifiedRadius)
def draw_radii(radius: CertifiedRadius, ax: Axes | None, *, delta: Any, moved: Any) -> Axes:
    """See `CertifiedRadius.plot`."""
    return draw_survival(radius.lower, ax, delta=delta, moved=moved, unit=radius.unit)


def draw_survival(
    radii: Floats,
    ax: Axes | None,
    *,
    delta: Any = None,
    moved: Any = None,
    what: str = "points",
    unit: str = "delta",
) -> Axes:
    """The share of `radii` above every size of Δ, in their unit; see `CertifiedRadius.plot`."""
    deltas = read_deltas(delta, unit)
    distances = _distances(moved, unit)
    ax = axes_to_draw_on(ax, "a survival curve")
    percent(ax)
    ax.set(xlabel=f"{unit}: how far {may_change(unit)}", ylabel=f"{what}, proven")
    if len(radii) == 0:
        return nothing_to_draw(ax, f"no {what} to draw")
    steps, share = survival(radii)
    finite = steps[np.isfinite(steps)]
    end = (
        max(2.5 * deltas.max(initial=0.0), 1.1 * distances.max(initial=0.0))
        or 1.05 * finite.max()
        or 1.0
    )
    ax.set_xlim(0, end)
    # The last share goes on to the end of the picture.
    shown = steps < end
    ax.step(
        np.append(steps[shown], end),
        100 * np.append(share[shown], share[shown][-1]),
        where="post",
        color=DARK,
    )
    for value in deltas:
        surviving = float(np.mean(radii > value))
        survive = 100 * surviving
        ax.plot([value, value], [0, survive], color=INK, linewidth=1, linestyle=(0, (2, 2)))
        ax.plot([value], [survive], "o", color=CHOSEN, markersize=6, clip_on=False, zorder=3)
        text = f"{at_most(value)}: {share_text(surviving)}"
        ax.annotate(
            text,
            (value, survive),
            (7, 4),
            textcoords="offset points",
            va="bottom",
            annotation_clip=False,
        )
    if distances.size:
        label = f"how far {distances.size} retrainings moved the model"
        ax.plot(
            distances,
            np.full(distances.shape, 4.0),
            "|",
            color=DARK,
            markersize=13,
            mew=1.2,
            label=label,
        )
        legend_below(ax, 1)
    return headline(ax, f"The further {may_change(unit)}, the fewer are proven")


def survival(radii: Floats) -> Pair:
    """A step function: from each of the first numbers on, the share of radii that lie above it; nan is none.

    Examples
    --------
    >>> survival(np.array([0.2, 0.1, 0.2, np.inf]))
    (array([0. , 0.1, 0.2]), array([1.  , 0.75, 0.25]))
    """
    known = np.sort(np.nan_to_num(radii, nan=0.0, posinf=np.inf))
    steps = np.unique(np.append(0.0, known[np.isfinite(known)]))
    return steps, 1.0 - np.searchsorted(known, steps, side="right") / len(known)


def read_deltas(delta: Any, unit: str = "delta") -> Floats:
    """One number, several, a Δ whose size is in this unit, or any value that float() takes; none for None."""
    if delta is None:
        return np.empty(0)
    if isinstance(delta, Changes):
        if delta.unit != unit:
            raise InvalidInputError(f"delta: expected a {unit}, as the radii are, got {delta!r}")
        return np.array([delta.size])
    if isinstance(delta, Iterable):
        return np.array([float(value) for value in delta])
    return np.array([float(delta)])


def _distances(moved: Any, unit: str) -> Floats:
    """Numbers, or the distances of models that were retrained."""
    if moved is None:
        return np.empty(0)
    measured = callable(getattr(moved, "distances", None))
    if measured and unit != "delta":
        raise InvalidInputError(
            f"moved: expected numbers with a {unit}, got distances between parameters"
        )
    return np.ravel(np.asarray(moved.distances() if measured else moved, dtype=float))


def _probability_of(certificates: Certificates) -> str:
    labels = np.unique(certificates.targets)
    classifier = certificates.classifier
    label = (
        f"class {plain(classifier.classes[labels[0]])}"
        if labels.size == 1
        else "the promised class"
    )
    # It is unknown whether the scores of any other model are log-odds.
    of = f"{'probability' if isinstance(classifier, Network) else 'score, through a sigmoid,'} of {label}"
    return of if classifier.n_outputs == 1 else f"{of}\nagainst its strongest rival"
