"""How results show themselves in a notebook: a headline, a few facts, and the first rows of a table.

Plain HTML: no script, nothing from elsewhere, and no colour of its own, so that it reads on light and on dark pages.
Every cell of a caller's table is text, and is escaped.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pandas as pd

from holdfast._numbers import readable
from holdfast._shown import Shown, Summary, html

if TYPE_CHECKING:
    from jinja2 import Template

_LINE = "1px solid rgba(128, 128, 128, 0.45)"

_PAGE = """\
<div style="line-height: 1.45">
<p style="margin: 0.3em 0; font-weight: bold">{{ headline }}</p>
{%- if facts %}
<dl style="display: grid; grid-template-columns: max-content auto; gap: 0.1em 1.2em; margin: 0.3em 0">
{%- for name, value in facts %}
<dt style="font-weight: normal; margin: 0; padding: 0">{{ name }}</dt>
<dd style="margin: 0; padding: 0">{{ value }}</dd>
{%- endfor %}
</dl>
{%- endif %}
{%- if body %}
<div role="group" aria-label="{{ caption }}" tabindex="0" style="max-width: 100%; overflow-x: auto">
<table style="border-collapse: collapse; margin: 0.6em 0">
<caption style="caption-side: top; text-align: left; padding: 0.2em 0; color: inherit">{{ caption }}</caption>
<thead><tr>
{%- for name, align in columns %}
<th scope="col" style="text-align: {{ align }}; padding: 0.2em 0.8em; border-bottom: {{ line }}">{{ name }}</th>
{%- endfor %}
</tr></thead>
<tbody>
{%- for row in body %}
<tr>
<th scope="row" style="text-align: left; vertical-align: top; font-weight: normal; padding: 0.2em 0.8em">{{ row[0] }}</th>
{%- for lines in row[1:] %}
<td style="text-align: {{ columns[loop.index][1] }}; vertical-align: top; padding: 0.2em 0.8em; \
{% if lines | map("length") | max < 40 %}white-space: nowrap{% else %}min-width: 20em; max-width: 40em{% endif %}">
{%- for line in lines %}{% if not loop.first %}<br>{% endif %}{{ line }}{% endfor -%}
</td>
{%- endfor %}
</tr>
{%- endfor %}
</tbody>
</table>
</div>
{%- endif %}
{%- for note in notes %}
<p style="margin: 0.3em 0">{{ note }}</p>
{%- endfor %}
</div>
"""  # noqa: E501


@html.register(Shown)
def show(result: Shown) -> str:
    """A summary of the result; of a faulty result too, so that a notebook shows the fault."""
    try:
        return page(result.overview())
    except Exception as error:
        return page(
            Summary(
                type(result).__name__,
                notes=[f"It cannot be shown: {type(error).__name__}: {error}"],
            )
        )


def page(summary: Summary) -> str:
    """An HTML fragment.

    Examples
    --------
    >>> "first 20 of 500 people" in page(Summary("", (), pd.DataFrame({"age": range(20)}), total=500, rows="people"))
    True
    >>> "<b>" in page(Summary("<b>", [("a < b", "<b>")], pd.DataFrame({"<b>": ["<b>"]}, index=["<b>"]), notes=["<b>"]))
    False
    """
    table = pd.DataFrame() if summary.table is None else summary.table
    shown = table.iloc[: summary.most]
    count = len(table) if summary.total is None else summary.total
    named = f"{summary.rows}: {count:,}"
    columns = [(_label("row" if shown.index.name is None else shown.index.name), "left")]
    columns += [(_label(name), _side(dtype)) for name, dtype in shown.dtypes.items()]
    cells = [[_lines(value) for value in shown.iloc[:, i]] for i in range(shown.shape[1])]
    body = [
        [_label(label), *row]
        for label, row in zip(shown.index, zip(*cells, strict=True), strict=False)
    ]
    return _template().render(
        headline=summary.headline,
        facts=[
            (name, readable(value))
            for name, value in summary.facts
            if value is not None and value != ""
        ],
        columns=columns,
        body=body,
        caption=named
        if count <= len(shown)
        else f"first {len(shown):,} of {count:,} {summary.rows}",
        line=_LINE,
        notes=list(summary.notes),
    )


def _lines(value: Any) -> list[str]:
    return (
        [readable(part) for part in value] or [""]
        if isinstance(value, tuple)
        else [readable(value)]
    )


def _side(dtype: Any) -> str:
    """Numbers are aligned right, all else left."""
    return (
        "right"
        if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
        else "left"
    )


def _label(name: Any) -> str:
    """The label of a row or a column, as it is: 2024 is a year, not two thousand."""
    return readable(str(name))


@cache
def _template() -> Template:
    from jinja2 import Environment

    return Environment(autoescape=True).from_string(_PAGE)
