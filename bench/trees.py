"""Trees in figures: margins, verdicts, what certify costs, searches and treecf's, promises under refits.

    python bench/trees.py margins verdicts survival          counts, on any machine; about 25, 25 and 10 minutes
    python bench/trees.py certify search rnce                times, on a quiet machine; about 5, 10 and 1 minutes
    python bench/trees.py --out docs/benchmarks-trees.md     writes the page, from what was counted and timed last
    python bench/trees.py --quick margins verdicts certify   a minute each

Every part leaves its table under out/trees. Processor time, one thread. Tables: $HOLDFAST_DATA, or shared/data next to
the repository. `search` needs treecf 0.3.2 (pip install treecf).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import date

from threadpoolctl import threadpool_limits

from report import ROOT, Table, parser, publish

KEPT = ROOT / "out" / "trees"


def _margins(quick: bool) -> Table:
    from tree_margins import margins

    return margins(4, 5000) if quick else margins(200, 100_000)


def _verdicts(quick: bool) -> Table:
    from tree_margins import verdicts

    return verdicts(4, 2000) if quick else verdicts(200, 110_000)


def _certify(quick: bool) -> Table:
    from tree_cost import passes

    return passes(20_000, 1) if quick else passes(100_000, 3)


def _rnce(quick: bool) -> Table:
    from tree_cost import nearest

    return nearest(100 if quick else 1000)


def _search(quick: bool) -> Table:
    from tree_search import compared

    return compared(2, 5.0) if quick else compared(10, 60.0)


def _survival(quick: bool) -> Table:
    from tree_survival import survival

    return survival(quick)


PARTS: dict[str, Callable[[bool], Table]] = {
    "margins": _margins,
    "verdicts": _verdicts,
    "certify": _certify,
    "search": _search,
    "rnce": _rnce,
    "survival": _survival,
}
PREFACE = """# Boosted trees in figures

Written by `python bench/trees.py --out docs/benchmarks-trees.md` from the results of its parts, in processor time of
one thread on a shared server: `python bench/trees.py {parts}`. XGBoost {xgboost}, LightGBM {lightgbm}.
[The guide](guides/trees.md) explains the words."""


def main() -> None:
    """Run the parts that were named; print them, or write the page."""
    made = parser(__doc__)
    made.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to count or time")
    given = made.parse_args()
    os.environ.setdefault("HOLDFAST_DATA", given.data)
    KEPT.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        for part in given.parts:
            table = PARTS[part](given.quick)
            kept = asdict(table) | {"quick": given.quick, "date": date.today().isoformat()}
            (KEPT / f"{part}.json").write_text(json.dumps(kept), encoding="utf-8")
            publish([table], "", None)
    if given.out:
        import lightgbm
        import xgboost

        there = [part for part in PARTS if (KEPT / f"{part}.json").exists()]
        versions = {"xgboost": xgboost.__version__, "lightgbm": lightgbm.__version__}
        words = PREFACE.format(parts=" ".join(there), **versions)
        publish([_kept(part) for part in there], words, given.out)


def _kept(part: str) -> Table:
    kept = json.loads((KEPT / f"{part}.json").read_text(encoding="utf-8"))
    how = f" Run on {kept['date']}{', in short' if kept['quick'] else ''}."
    return Table(kept["title"], kept["columns"], kept["rows"], kept["note"] + how)


if __name__ == "__main__":
    main()
