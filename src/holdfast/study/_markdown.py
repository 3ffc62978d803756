"""Markdown: a study as tables, one for each dataset and model, and pages from templates."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from holdfast._numbers import share

# Column of the summary, heading, number format.
_COLUMNS = (
    ("coverage", "coverage", "{:.0%}"),
    ("validity_retrained", "valid retrained", "{:.1%}"),
    ("cost_l1", "cost_l1", "{:.4f}"),
    ("lof", "lof", "{:.2f}"),
    ("sparsity", "columns changed", "{:.1f}"),
)
_SECONDS = ("seconds", "seconds", "{:.2f}")


def markdown_table(summary: pd.DataFrame, failures: pd.DataFrame, *, seconds: bool) -> str:
    """All tables, and the errors."""
    parts = summary.groupby(["dataset", "model"], sort=False)
    names = ["dataset", "model", "seed", "method", "error"]
    return filled_page(
        "study.md.j2",
        seeds=int(summary["seeds"].max()) if len(summary) else 0,
        tables=[
            (_safe(dataset), _safe(model), _one_table(part, seconds))
            for (dataset, model), part in parts
        ],
        failures=sorted(
            {tuple(map(_safe, row)) for row in failures[names].itertuples(index=False)}
        ),
    )


def _one_table(part: pd.DataFrame, seconds: bool) -> str:
    labels = list(dict.fromkeys(part["verified_label"]))
    columns = [*_COLUMNS, *([_SECONDS] if seconds else [])]
    lines = []
    for (method, label), rows in part.groupby(["method", "delta_label"], sort=False):
        at = rows.set_index("verified_label")
        # A delta that could not be measured for every seed has fewer seeds than the answers themselves.
        first = at.iloc[int(at["seeds"].argmax())]
        valid = [
            _cell(at.loc[name], "delta_validity", "{:.1%}") if name in at.index else ""
            for name in labels
        ]
        measured = [_cell(first, name, text) for name, _, text in columns]
        lines.append([str(method), _delta(label, first), *valid, *measured])
    valid_at = [f"Δ-valid at {label}" for label in labels]
    return table(["method", "delta", *valid_at, *(name for _, name, _ in columns)], lines)


def _delta(label: object, row: pd.Series) -> str:
    """The delta of a method, with its number if the label is a name."""
    if not label:
        return ""
    number = f"{row['delta']:.4g}"
    return number if str(label) == f"{row['delta']:g}" else f"{label} ({number})"


def _cell(row: pd.Series, name: str, text: str) -> str:
    mean = float(row[name])
    std = float(row[f"{name}_std"])
    if math.isnan(mean):
        return ""
    return text.format(mean) if math.isnan(std) else f"{text.format(mean)} ± {text.format(std)}"


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.1f}%"


def _safe(value: object) -> str:
    """The text without characters that would end a cell or a line."""
    return " ".join(str(value).replace("|", "\\|").split())


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is aligned left, the others right.

    Examples
    --------
    >>> print(table(["method", "cost"], [["MCE", "0.02"]]))
    | method | cost |
    |:---|---:|
    | MCE | 0.02 |
    """
    rule = "|".join([":---", *["---:"] * (len(headings) - 1)])
    head, *body = ["| " + " | ".join(map(_safe, line)) + " |" for line in (headings, *rows)]
    return "\n".join([head, f"|{rule}|", *body])


def filled_page(template: str, **values: Any) -> str:
    """A page from a template of the folder `pages`; parts that are left out leave no gap."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("holdfast.study", "pages")
    environment = Environment(
        loader=loader, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {"cell": _safe, "share": share, "percent": _percent}
    text = environment.get_template(template).render(values)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
