"""`FeatureSpace`: between the caller's table and the model's variables, and what a person can change.

Raw values are the caller's columns and units; *points* are rows of the model's variables, float64. What is certified is
the very point that is handed out: `settle` turns a point into a row of the caller's table and back, and what it
returns is, bit for bit, the encoding of that row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import describe, serial
from holdfast.features.admissible import nearest, settled_block
from holdfast.features.assemble import features_from_frame, features_from_pipeline, features_from_schema, parse_rules
from holdfast.features.build import Orders
from holdfast.features.codec import Rows, Table, says_missing
from holdfast.features.constraints import NOTHING, Moves, Names, Range, constrain
from holdfast.features.feature import Feature
from holdfast.features.kinds import Label, Name
from holdfast.features.measures import MeasuredView
from holdfast.features.notes import Labels, Notes, Reasons
from holdfast.features.repair import repair
from holdfast.features.rules import Rule
from holdfast.features.schema import Schema
from holdfast.network import Floats
from holdfast.presentation.notebook import never_fails, show

Rules = Iterable[str | Rule] | str


@dataclass(frozen=True)
class FeatureSpace(MeasuredView):
    """The columns of a table, what each may change to, and the model's variables that stand for them.

    Build one with `from_frame`, `from_schema` or `from_pipeline`. A value of a column may always stay as it is. A value
    that changes has to lie in the column's range, on its grid (the multiples of its step, counted from 0) and in its
    direction from the factual's value; the linear rules hold for the whole row.

    Methods take a table as a DataFrame (raw values; further columns are ignored), as an array of points, or as what
    `rows` made of either, which saves reading a DataFrame again. One row of `factuals` serves for all points.

    Examples
    --------
    >>> people = pd.DataFrame({"age": [25, 40, 61], "income": [1800.0, 2500.0, 4100.0], "job": ["no", "part", "full"]})
    >>> space = FeatureSpace.from_frame(
    ...     people,
    ...     ordinal={"job": ["no", "part", "full"]},
    ...     immutable=["age"],
    ...     increasing=["job"],
    ...     steps={"income": 250},
    ... )
    >>> space.variables
    ('age', 'income', 'job')
    >>> wish = space.encode(people.head(1)) + [[0.1, 0.2, 0.4]]
    >>> points, frame = space.settle(space.project(wish, people.head(1)), people.head(1))
    >>> frame
       age  income   job
    0   25  2250.0  part
    >>> bool((space.encode(frame) == points).all()), space.violations(frame, people.head(1))
    (True, [[]])
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "rules", parse_rules(self.rules))
        if not self.features or len(set(self.names)) != len(self.features):
            raise InvalidInputError(f"expected at least one feature and distinct names, got {list(self.names)}")
        for feature in self.features:
            expected = 1 + max(feature.cells) if feature.one_hot else 1
            labels = feature.n_codes if feature.one_hot else 0
            if len(feature.variables) != expected or len(feature.cells) != labels or expected < 1:
                raise InvalidInputError(
                    f"column {feature.name!r}: expected {max(expected, 1)} variables, got {len(feature.variables)}"
                )
            self.notes.check(feature)
        flags = [flag[0] for feature in self.features for flag in feature.flags]
        owned = sorted([*flags, *(variable for feature in self.features for variable in feature.variables)])
        if owned != list(range(len(owned))):
            raise InvalidInputError(f"expected each of the variables 0, 1, ... in one feature, got {owned}")
        _ = self.bound_rules

    # ------------------------------------------------------------------ three ways to build one

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        categorical: Names = (),
        integer: Names = (),
        ordinal: Orders = NOTHING,
        immutable: Names = (),
        increasing: Names = (),
        decreasing: Names = (),
        allowed: Mapping[Name, Moves] = NOTHING,
        fillable: Names = (),
        ranges: Mapping[Name, Range] = NOTHING,
        steps: Mapping[Name, float] = NOTHING,
        costs: Mapping[Name, float] = NOTHING,
        scale: str = "minmax",
        binary: Names = (),
        continuous: Names = (),
        rules: Rules = (),
        encoding: str | Mapping[Name, str] = "onehot",
        missing: Mapping[Name, Any] | Names = (),
        units: Mapping[Name, str] = NOTHING,
        protected: Names = (),
        labels: Labels = NOTHING,
        reasons: Reasons = NOTHING,
    ) -> FeatureSpace:
        """A space from a table of people.

        Parameters
        ----------
        frame
            The table; its columns and dtypes are what `decode` gives back.
        categorical, integer, binary, continuous
            Columns of these kinds. Those that are not named: booleans are binary, text and pandas categories are
            categorical (ordinal if ordered), whole-number dtypes are integer, other numbers continuous. A whole-number
            column named continuous comes back as float64.
        ordinal
            Labels from low to high, ``{"education": ["low", "mid", "high"]}``; or names of whole-number columns.
        immutable, increasing, decreasing
            Columns that cannot move, or only one way.
        allowed
            The moves between labels that are possible, ``{"employment": [("temporary", "permanent"), ...]}``; others
            are not. Every label may stay.
        ranges
            ``{"income": (0, 9000)}``; None keeps the least or largest value in the table, which is the default.
        steps
            ``{"income": 250}``: changed values are multiples of 250.
        costs
            Weights in `cost_l1`, 1 where not given.
        scale
            "minmax": [0, 1] over the range; "standard": mean 0 and standard deviation 1 over the table; "none".
            Categorical and binary variables are 0/1 in any case.
        rules
            Linear rules between columns in raw units: ``["months_in_job <= months_of_history"]``.
        encoding
            "onehot": one variable per category. "binary": a single 0/1 variable for columns with two categories. Or
            one of the two for some columns: ``{"sex": "binary"}``.
        missing
            Columns that may have no value, or what to fill in for the model where they have none (the median unless
            said otherwise); a variable of its own tells the model that it is so.
        fillable
            Columns whose missing values a person can state; others stay missing. A known value never becomes missing.
        units
            Units for texts: ``{"income": "USD"}``.
        protected
            Protected attributes, also such that the model does not read: ``["sex"]``.
        labels
            What people call columns, and values or the unit of a column: ``{"util": "share of your card limits in use",
            ("home", "A151"): "rented"}``. One text, or one for each language: ``{"en": "rented", "de": "gemietet"}``.
        reasons
            Adverse-action reasons, ``{"late": ("38", "Serious delinquency")}``; the text may be one for each language.
        """
        kinds = {
            "categorical": categorical,
            "integer": integer,
            "ordinal": ordinal,
            "binary": binary,
            "continuous": continuous,
        }
        constraints = _constraints(immutable, increasing, decreasing, allowed, fillable, ranges, steps, costs, units)
        features, parsed = features_from_frame(
            frame, kinds=kinds, constraints=constraints, rules=rules, scale=scale, encoding=encoding, missing=missing
        )
        return cls(features, parsed, Notes.of(protected, labels, reasons).about(frame.columns))

    @classmethod
    def from_schema(
        cls,
        path: str | PathLike[str],
        *,
        actionability: str = "schema",
        kinds: str = "schema",
        encoding: str | Mapping[Name, str] = "binary",
        scale: str = "minmax",
        ordinal: Mapping[Name, Sequence[Label]] = NOTHING,
        immutable: Names = (),
        increasing: Names = (),
        decreasing: Names = (),
        free: Names = (),
        allowed: Mapping[Name, Moves] = NOTHING,
        fillable: Names = (),
        ranges: Mapping[Name, Range] = NOTHING,
        steps: Mapping[Name, float] = NOTHING,
        costs: Mapping[Name, float] = NOTHING,
        rules: Rules = (),
        protected: Names = (),
        labels: Labels = NOTHING,
        reasons: Reasons = NOTHING,
    ) -> FeatureSpace:
        """A space from a schema file; its target and auxiliary columns are left out.

        Parameters
        ----------
        actionability
            Who says what can change: "schema", the file's own judgement; "carla", what the CARLA library and the paper
            used; "free", nobody.
        kinds
            "schema", or "carla", where whole numbers count as continuous, as in the paper.
        encoding
            As in `from_frame`, but a single 0/1 variable for two categories is the default, as in the paper.
        scale
            "minmax" over the ranges in the file, or "none".
        ordinal
            The labels of a categorical column from low to high, so that `increasing` means something; it stays encoded
            as it is.
        immutable, increasing, decreasing, free, allowed, ranges, steps, costs, rules, protected, labels, reasons
            On top of what the file says; a narrower range leaves the scale as it is.
        """
        schema = Schema.load(path)
        constraints = _constraints(immutable, increasing, decreasing, allowed, fillable, ranges, steps, costs, NOTHING)
        constraints["free"] = free
        features, parsed = features_from_schema(
            schema,
            actionability=actionability,
            kinds=kinds,
            constraints=constraints,
            rules=rules,
            scale=scale,
            encoding=encoding,
            orders=ordinal,
        )
        notes = schema.notes.updated(Notes.of(protected, labels, reasons))
        return cls(features, parsed, notes.about(column["name"] for column in schema.columns))

    @classmethod
    def from_pipeline(
        cls,
        pipeline: Any,
        frame: pd.DataFrame,
        *,
        integer: Names = (),
        ordinal: Orders = NOTHING,
        binary: Names = (),
        continuous: Names = (),
        immutable: Names = (),
        increasing: Names = (),
        decreasing: Names = (),
        allowed: Mapping[Name, Moves] = NOTHING,
        fillable: Names = (),
        ranges: Mapping[Name, Range] = NOTHING,
        steps: Mapping[Name, float] = NOTHING,
        costs: Mapping[Name, float] = NOTHING,
        rules: Rules = (),
        units: Mapping[Name, str] = NOTHING,
        protected: Names = (),
        labels: Labels = NOTHING,
        reasons: Reasons = NOTHING,
    ) -> FeatureSpace:
        """A space whose encoding is that of fitted scikit-learn preprocessing, bit for bit on `frame`.

        `pipeline` is a Pipeline (a classifier at its end is left out), a ColumnTransformer or a single transformer:
        scalers, OneHotEncoder, OrdinalEncoder, TargetEncoder, KBinsDiscretizer, PowerTransformer, QuantileTransformer,
        FunctionTransformer with an increasing function of numpy's, SelectKBest and its kin, passthrough, and
        SimpleImputer: columns that it fills may be missing. `frame` is the table before preprocessing; columns that the
        pipeline drops are not part of the space. `ordinal` puts the labels of a column in order, however the pipeline
        encodes them. The other arguments are those of `from_frame`.
        """
        constraints = _constraints(immutable, increasing, decreasing, allowed, fillable, ranges, steps, costs, units)
        kinds = {"integer": integer, "ordinal": ordinal, "binary": binary, "continuous": continuous}
        parts, expected = features_from_pipeline(pipeline, frame, kinds=kinds, constraints=constraints, rules=rules)
        space = cls(*parts, Notes.of(protected, labels, reasons).about(frame.columns))
        wrong = (space.encode(frame) != expected).any(axis=0)
        if wrong.any():
            names = [name for name, bad in zip(space.variables, wrong, strict=True) if bad]
            raise InvalidInputError(
                f"expected to repeat the pipeline's transform bit for bit, got other values for {names}; "
                "if the table is float32, convert it to float64"
            )
        return space

    def constrained(
        self,
        *,
        immutable: Names = (),
        increasing: Names = (),
        decreasing: Names = (),
        free: Names = (),
        ordinal: Mapping[Name, Sequence[Label]] = NOTHING,
        allowed: Mapping[Name, Moves] = NOTHING,
        fillable: Names = (),
        ranges: Mapping[Name, Range] = NOTHING,
        steps: Mapping[Name, float] = NOTHING,
        costs: Mapping[Name, float] = NOTHING,
        units: Mapping[Name, str] = NOTHING,
        rules: Rules | None = None,
        protected: Names = (),
        labels: Labels = NOTHING,
        reasons: Reasons = NOTHING,
    ) -> FeatureSpace:
        """The same encoding with other constraints; what is not named stays, `rules` replaces the rules."""
        constraints = _constraints(immutable, increasing, decreasing, allowed, fillable, ranges, steps, costs, units)
        features = constrain(self.features, free=free, ordinal=ordinal, **constraints)
        notes = self.notes.updated(Notes.of(protected, labels, reasons).about([*self.names, *self.protected]))
        return FeatureSpace(features, self.rules if rules is None else parse_rules(rules), notes)

    # ------------------------------------------------------------------ between raw values and points

    def settle(
        self, points: ArrayLike, factuals: Table | None = None, *, index: Any = None
    ) -> tuple[Floats, pd.DataFrame]:
        """The points moved to where the caller's columns can hold them, and the table that they are.

        Each value is rounded to its category, whole number or step and clipped to its range; given factuals, their own
        values are allowed too. The points returned are exactly ``encode`` of the table returned. Neither directions
        nor rules are looked at: that is `project`.
        """
        own = None if factuals is None else self.rows(factuals, np.shape(points)[0])
        numbers = self.nearest_numbers(points, own, directed=False)
        if index is None and isinstance(factuals, pd.DataFrame) and len(factuals) == len(numbers):
            index = factuals.index
        return self.encode_numbers(numbers), self.restore(numbers, index)

    def settled_points(self, points: ArrayLike) -> Floats:
        """The points of `settle` without factuals, and without the table."""
        asked = self.check_points(points)
        settled = np.empty(asked.shape)
        for feature in self.features:
            columns = list(feature.variables)
            settled[:, columns] = settled_block(feature, asked[:, columns])
            for variable, known, missing in feature.flags:
                said = says_missing(feature, asked)
                settled[:, variable] = np.where(said, missing, known)
                settled[:, columns] = np.where(said[:, None], np.array(feature.missing), settled[:, columns])
        return settled

    def project(self, points: ArrayLike, factuals: Table) -> Floats:
        """The nearest points that obey the constraints, settled.

        Column by column the nearest admissible value, the factual's own on a tie. Rows that then break a rule are
        repaired by the cheapest change of one column at a time; if the factual obeys the rules, so does the result.
        """
        own = self.rows(factuals, np.shape(points)[0])
        numbers = self.nearest_numbers(points, own, directed=True)
        if self.bound_rules:
            numbers = repair(self.features, self.bound_rules, numbers, own.numbers)
        return self.encode_numbers(numbers)

    def nearest_numbers(self, points: ArrayLike, own: Rows | None, *, directed: bool) -> Floats:
        """Column by column the admissible number nearest to what the points ask for."""
        asked = self.check_points(points)
        numbers = np.empty((asked.shape[0], len(self.features)))
        for i, feature in enumerate(self.features):
            mine = None if own is None else own.numbers[:, i]
            block = asked[:, list(feature.variables)]
            if feature.missing:
                numbers[:, i] = self._nearest_or_missing(feature, asked, own, mine, directed)
            else:
                numbers[:, i] = nearest(feature, block, mine, directed)
        return numbers

    def _nearest_or_missing(
        self, feature: Feature, asked: Floats, own: Rows | None, mine: Floats | None, directed: bool
    ) -> Floats:
        """`nearest` for a column that may be missing: what is missing stays so, unless it may be and is filled in."""
        columns = list(feature.variables)
        block, said = asked[:, columns], says_missing(feature, asked)
        if mine is None or own is None:
            return np.where(said, np.nan, nearest(feature, block, None, directed))
        numbers, gone = np.full(asked.shape[0], np.nan), np.isnan(mine)
        numbers[~gone] = nearest(feature, block[~gone], mine[~gone], directed)
        # A variable that says so is believed: what is filled in may be the very number that stands for a missing one.
        same = said if feature.flags else (block == own.points[:, columns]).all(axis=1)
        filled = gone & ~same & (feature.fillable or not directed)
        if filled.any():
            numbers[filled] = nearest(feature, block[filled], None, directed)
        return numbers

    # ------------------------------------------------------------------ to look at, to keep

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureSpace, (self.features, self.rules, self.notes)

    def __getitem__(self, name: Name) -> Feature:
        for feature in self.features:
            if feature.name == name:
                return feature
        raise InvalidInputError(f"expected one of {list(self.names)}, got {name!r}")

    def __len__(self) -> int:
        return len(self.features)

    def to_frame(self) -> pd.DataFrame:
        """An overview: one row per feature."""
        return describe.overview(self.features, self.variables)

    def to_dict(self, *, notes: bool = True) -> dict[str, Any]:
        """The space as plain JSON-able data; `from_dict` reads it back to an equal space.

        Without notes (`protected`, labels and reasons) it is what certificates and ledgers name a space by.
        """
        return serial.to_dict(self.features, self.rules, self.notes if notes else Notes())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FeatureSpace:
        """What `to_dict` wrote."""
        parts = serial.from_dict(data)
        try:
            return cls(*parts)
        except InvalidInputError as error:
            raise FileFormatError(
                f"expected a feature space written by holdfast, got one with an error: {error}"
            ) from error

    def __repr__(self) -> str:
        sizes = f"{len(self.features)} features, {self.n_variables} variables, {len(self.rules)} rules"
        return f"FeatureSpace({sizes})\n{self.to_frame().to_string(max_colwidth=24)}"

    @never_fails
    def _repr_html_(self) -> str:
        sizes = f"{len(self.features)} features, {self.n_variables} variables of the model"
        rules = [(f"rule {i + 1}", rule.text) for i, rule in enumerate(self.rules)]
        return show(f"Feature space: {sizes}", rules, self.to_frame(), rows="features", most=200)


def _constraints(
    immutable: Names,
    increasing: Names,
    decreasing: Names,
    allowed: Mapping[Name, Moves],
    fillable: Names,
    ranges: Mapping[Name, Range],
    steps: Mapping[Name, float],
    costs: Mapping[Name, float],
    units: Mapping[Name, str],
) -> dict[str, Any]:
    return {
        "immutable": immutable,
        "increasing": increasing,
        "decreasing": decreasing,
        "allowed": allowed,
        "fillable": fillable,
        "ranges": ranges,
        "steps": steps,
        "costs": costs,
        "units": units,
    }
