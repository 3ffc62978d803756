"""The demo's picture; it reads in black and white."""

from __future__ import annotations

from pathlib import Path

from holdfast._network import Floats
from holdfast._shown import draw as draw_result
from holdfast.generators import Recourse
from holdfast.presentation.pictures._drawing import new_figure


def draw(promises: Recourse, moved: Floats, delta: float, path: Path) -> None:
    """Left: every promise, today and in the worst case. Right: for every delta, the share that survives; below it how
    far the updates moved that delta was calibrated on.
    """
    figure = new_figure("the demo's picture", (13.5, 5.2), w_pad=0.15, h_pad=0.1, wspace=0.04)
    left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
    draw_result(promises.certificates, left)
    promises.plot("survival", right, delta=(delta / 2, delta, 2 * delta), moved=moved)
    figure.savefig(path, dpi=150)
