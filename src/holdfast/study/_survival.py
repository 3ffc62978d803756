"""Promises kept under each kind of change: the advice of a study, evaluated by models that were really changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from holdfast._classifier import Classifier
from holdfast._files import Document, Facts, Place
from holdfast._network import Network
from holdfast._shown import Shown, Summary, draw
from holdfast.changes import Changes, parameter_distance
from holdfast.errors import InvalidInputError
from holdfast.importers import Model, load_model
from holdfast.retraining._retrain import run_seeds
from holdfast.study._cells import Cell
from holdfast.study._markdown import filled_page
from holdfast.study._recipes import Recipe
from holdfast.study._situation import Situation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLACE = ["dataset", "model"]
KEYS = [*PLACE, "method", "delta_label"]
Asked = tuple[Facts, Cell, Changes | None]
# The columns of `Survival.people` where there is nobody.
_NOBODY = pd.DataFrame(columns=[*KEYS, "kind", "input"]).assign(
    **dict.fromkeys(("seed", "row", "inside"), pd.Series(dtype=np.int64)),
    found=pd.Series(dtype=np.bool_),
    **dict.fromkeys(
        ("kept", "kept_inside", "cost_l1", "cost_nearest"), pd.Series(dtype=np.float64)
    ),
)


@dataclass(frozen=True, eq=False)
class Survival(Shown):
    """The promises that changed models keep, by kind of change.

    Attributes
    ----------
    people
        One row for each person, method and kind of change. `kept` is the share of the changed models that keep the
        promise (nan without advice); `kept_inside` is the same over the models inside the advice's Δ (nan without
        such models). `cost_l1` is the cost, and `cost_nearest` that of the nearest accepted row.
    models
        One row for each changed model: its `distance` from today's in the ∞-norm, nan if the two have no common
        parameters.
    skipped
        The kinds that are impossible for a model, and why.
    """

    people: pd.DataFrame = field(default_factory=_NOBODY.copy)
    models: pd.DataFrame = field(default_factory=pd.DataFrame)
    skipped: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def joined(cls, parts: Sequence[Survival]) -> Survival | None:
        """Join several results."""
        if not parts:
            return None
        names = ("people", "models", "skipped")
        # Whatever is empty has no say in the kinds of the columns.
        filled = {
            name: [frame for part in parts if len(frame := getattr(part, name))] for name in names
        }
        return cls(
            **{
                name: pd.concat(several, ignore_index=True)
                for name, several in filled.items()
                if several
            }
        )

    def to_frame(self) -> pd.DataFrame:
        """One row for each table, model, method and kind of change.

        `found` is the share of the people with advice. Over these people, `survival` is the share of promises that
        changed models keep, `every_variant` the share of people whose promise all changed models keep, and
        `cost_relative` the cost relative to the nearest accepted row.
        """
        return _measured(self.people.assign(least=self.people["kept"]), [*KEYS, "kind"])

    def summary(self) -> pd.DataFrame:
        """One row for each table, model and method, over all kinds, with the worst kind.

        `every_variant` is the share of people whose promise every model of every kind keeps.
        """
        by = self.people.groupby([*KEYS, "seed", "row"], sort=False)
        once = by[["found", "cost_l1", "cost_nearest"]].first()
        persons = once.assign(kept=by["kept"].mean(), least=by["kept"].min()).reset_index()
        return with_worst_kind(_measured(persons, KEYS), self.to_frame(), KEYS)

    def to_markdown(self) -> str:
        """Markdown tables for each data set and model: promises kept and cost by method, and by kind of change."""
        kinds = dict(list(self.to_frame().groupby(PLACE)))
        by = self.summary().groupby(PLACE, sort=False)
        tables = [(place, survival_tables(part, kinds[place])) for place, part in by]
        skipped = (
            self.skipped.drop_duplicates(["model", "kind"]) if len(self.skipped) else self.skipped
        )
        return filled_page("survival.md.j2", tables=tables, skipped=skipped.to_dict("records"))

    def plot(self, path: Place | None = None) -> Figure:
        """Plot the share of promises kept against their cost, a column for each table and model.

        It is written to `path` if given, else drawn on a pyplot figure, which a notebook shows.
        """
        picture: Figure = draw(self, path)
        return picture

    def __repr__(self) -> str:
        left_out = f", {self.skipped['kind'].nunique()} left out" if len(self.skipped) else ""
        return f"Survival({self.people['kind'].nunique()} kinds of change, {len(self.models)} models{left_out})"

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        summary = self.summary()
        facts = [
            ("changed models", len(self.models)),
            ("kinds left out", len(self.skipped) or None),
        ]
        return Summary(
            f"{summary['method'].nunique()} methods under change",
            facts,
            summary.set_index("method"),
            most=100,
        )


def fates(
    situation: Situation, asked: Sequence[Asked], recipe: Recipe, variants: int, nearest: Cell
) -> tuple[Survival, bool]:
    """Evaluate the advice of a situation under one kind of change; says whether all came from the store."""
    where = situation.place | {"kind": recipe.name}
    # Made when the first cell needs them, and put to all the cells that do.
    changed = cache(partial(_changed, situation, recipe, variants))
    frames = []
    models = pd.DataFrame()
    kept_all = True
    try:
        for keys, cell, changes in asked:
            content, kept = situation.store.remember(
                "kinds",
                {"cell": cell.key, "change": recipe.change, "variants": variants},
                partial(_tried, situation, cell, changes, changed),
            )
            kept_all = kept_all and kept
            models = pd.DataFrame(
                {"distance": np.array(content["distance"], dtype=np.float64)}
            ).assign(**where)
            frames.append(_people(situation, cell, content, nearest).assign(**keys))
    # A recipe may be anyone's function, or not be for this kind of model.
    except Exception as error:
        return Survival(skipped=pd.DataFrame([where | {"error": str(error)}])), False
    if not frames:
        return Survival(), True
    return Survival(pd.concat(frames).assign(kind=recipe.name), models), kept_all


def _changed(
    situation: Situation, recipe: Recipe, variants: int
) -> list[tuple[Model, float | None]]:
    """Changed models, and the distance of each from today's."""
    seeds = run_seeds(situation.seed, variants)
    threshold = situation.protocol.threshold
    made = (
        load_model(recipe.change(situation.fitted, situation.learned, seed), threshold)
        for seed in seeds
    )
    return [(other, _distance(situation.models.classifier, other)) for other in made]


def _distance(today: Classifier, other: Model) -> float | None:
    """The distance of the parameters; None if the parameters of the two mean different things."""
    changed = other.classifier
    if not isinstance(today, Network) or not isinstance(changed, Network):
        return None
    if other.preprocess is not None or today.classes.tolist() != changed.classes.tolist():
        return None
    try:
        return parameter_distance(today, changed)
    except InvalidInputError:  # layers of another shape
        return None


def _tried(
    situation: Situation,
    cell: Cell,
    changes: Changes | None,
    changed: Callable[[], list[tuple[Model, float | None]]],
) -> Document:
    """Evaluate a cell's advice by changed models: which each keeps, whether each is in Δ, and its distance."""
    points = cell.points[cell.found]
    today = situation.models.classifier
    kept = []
    inside = []
    for other, distance in changed():
        labels = other.classifier.predict(other.variables(points)) if len(points) else np.array([])
        kept.append([bool(label == situation.table.target) for label in labels])
        inside.append(
            changes is not None
            and distance is not None
            and changes.contains(today, other.classifier)
        )
    return {"kept": kept, "inside": inside, "distance": [distance for _, distance in changed()]}


def _people(situation: Situation, cell: Cell, content: Facts, nearest: Cell) -> pd.DataFrame:
    """One row for each person of a cell."""
    found = cell.found
    inside = np.array(content["inside"], dtype=np.bool_)
    kept = np.full((inside.size, found.size), np.nan)
    kept[:, found] = content["kept"]
    return pd.DataFrame(
        {
            "input": situation.people.index,
            "row": np.arange(found.size),
            "found": found,
            "kept": kept.mean(axis=0),
            "kept_inside": kept[inside].mean(axis=0) if inside.any() else np.nan,
            "inside": int(inside.sum()),
            "cost_l1": cell.rows["cost_l1"],
            "cost_nearest": nearest.rows["cost_l1"],
        }
    )


def _measured(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The measures of `Survival.to_frame` over rows with `kept`; people with `least` 1 count as kept by all."""
    both = rows["cost_l1"].notna() & rows["cost_nearest"].notna()
    every = (rows["least"] == 1.0).where(rows["found"]).astype(np.float64)
    marked = rows.assign(
        every=every, ours=rows["cost_l1"].where(both), theirs=rows["cost_nearest"].where(both)
    )
    grouped = marked.groupby(by, sort=False)
    totals = grouped[["ours", "theirs"]].sum()
    return pd.DataFrame(
        {
            "people": grouped.size(),
            "found": grouped["found"].mean(),
            "survival": grouped["kept"].mean(),
            "every_variant": grouped["every"].mean(),
            "cost_l1": grouped["cost_l1"].mean(),
            "cost_relative": totals["ours"] / totals["theirs"].where(totals["theirs"] > 0.0),
        }
    ).reset_index()


def with_worst_kind(summary: pd.DataFrame, kinds: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """A summary with the worst kind of change and its share of promises kept."""
    worst = kinds.loc[kinds.dropna(subset="survival").groupby(by, sort=False)["survival"].idxmin()]
    names = {"kind": "worst_kind", "survival": "worst_survival"}
    return summary.merge(worst[[*by, *names]].rename(columns=names), on=by, how="left")


def named(row: Mapping[Any, Any]) -> str:
    """A method's name with its delta."""
    return f"{row['method']} {row['delta_label']}".strip()


def survival_tables(summary: pd.DataFrame, kinds: pd.DataFrame) -> Document:
    """The tables of a page: the methods of a summary, and the share that each keeps under each kind of change."""
    wide = kinds.assign(name=[named(row) for row in kinds.to_dict("records")])
    return {
        "methods": summary.assign(name=[named(row) for row in summary.to_dict("records")]).to_dict(
            "records"
        ),
        "kinds": wide.pivot_table("survival", "kind", "name", sort=False, dropna=False),
    }
