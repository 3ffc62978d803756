"""`FeatureSpace`: the encoding between the caller's table and the model's variables, and the possible changes.

Raw values are the caller's columns and units; *points* are rows of the model's variables, float64. `settle` turns a
point into a row of the caller's table and back. It returns the encoding of that row, bit for bit, so the certified
point is the point that a person gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Unpack, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from holdfast._files import Place
from holdfast._given import given_array, given_points
from holdfast._network import Bools, Floats, Ints, Pair
from holdfast._shown import Shown, Summary
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import _describe as describe
from holdfast.features._admissible import nearest, possible_codes, reach
from holdfast.features._build import Encoding, Orders, features_from_frame
from holdfast.features._checks import (
    Broken,
    broken_constraints,
    remark_on_labels,
    remark_on_rules,
)
from holdfast.features._codec import RAW, Rows, Table, differs, repeated
from holdfast.features._constraints import (
    NOTHING,
    FeatureConstraints,
    Names,
    constrain,
    refuse_unknown,
    stated_columns,
)
from holdfast.features._feature import Feature
from holdfast.features._grid import VariableGrid
from holdfast.features._kinds import Direction, Name, Ranks
from holdfast.features._notes import Notes, ReasonCode
from holdfast.features._pipeline import features_from_pipeline
from holdfast.features._proposals import by_direction, proposal_for
from holdfast.features._repair import repair
from holdfast.features._rules import Rule, RuleTerms, bind_rules, parse_rules
from holdfast.features._schema import Schema
from holdfast.features._serial import FORMAT, VERSION, feature_from_dict, feature_to_dict


@dataclass(frozen=True)
class FeatureSpace(Shown):
    """The columns of a table, the possible changes of each, and the model's variables that encode them.

    Build a space with `from_frame`, `from_schema` or `from_pipeline`. A value may always stay as it is. A changed value
    is in the column's range, on its grid (the multiples of its step, counted from 0), in its direction, and within its
    `max_change`. The linear rules are about the whole row.

    Methods take a DataFrame (raw values; further columns are ignored), an array of points, or the result of `rows`,
    which saves reading a DataFrame again. One row of `factuals` serves for all points.

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

    features: tuple[Feature, ...]
    rules: tuple[Rule, ...] = ()
    notes: Notes = field(default_factory=Notes)

    def __post_init__(self) -> None:
        vars(self).update(features=tuple(self.features), rules=parse_rules(self.rules))
        if not self.features or len(set(self.names)) != len(self.features):
            raise InvalidInputError(
                f"features: expected at least one, with distinct names, got {list(self.names)}"
            )
        for feature in self.features:
            expected = 1 + max(feature.cells, default=0)
            labels = feature.n_codes if feature.one_hot else 0
            if len(feature.variables) != expected or len(feature.cells) != labels or expected < 1:
                raise InvalidInputError(
                    f"column {feature.name!r}: expected {max(expected, 1)} variables, got {len(feature.variables)}"
                )
        self.notes.check(self.features)
        owned = sorted(place for feature in self.features for place in feature.places)
        if owned != list(range(len(owned))):
            raise InvalidInputError(
                f"expected each of the variables 0, 1, ... in one feature, got {owned}"
            )
        _ = self.bound_rules

    # ------------------------------------------------------------------ three ways to build one, and a fourth from one

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        categorical: Names = (),
        integer: Names = (),
        ordinal: Orders = NOTHING,
        binary: Names = (),
        continuous: Names = (),
        scale: str = "minmax",
        encoding: Encoding = "onehot",
        missing: Mapping[Name, Any] | Names = (),
        propose: bool = False,
        **constraints: Unpack[FeatureConstraints],
    ) -> FeatureSpace:
        """A space from a table of people.

        Parameters
        ----------
        frame
            The table. `decode` returns its columns and dtypes.
        categorical, integer, binary, continuous
            Columns of these kinds. By default booleans are binary, text and pandas categories are categorical (ordinal
            if ordered), whole-number dtypes are integer, other numbers continuous. A whole-number column named
            continuous comes back as float64.
        ordinal
            Labels from low to high, ``{"education": ["low", "mid", "high"]}``; or names of whole-number columns.
        scale
            "minmax": [0, 1] over the range; "standard": mean 0 and standard deviation 1 over the table; "none".
            Categorical and binary variables are 0/1 in any case. Costs are the same under each; see `cost_l1`.
        encoding
            "onehot": one variable per category. "binary": a single 0/1 variable for columns with two categories. A
            mapping names columns: ``{"sex": "binary"}``.
        missing
            Columns that may have no value. A mapping sets the value that the model reads instead, by default the
            median. A variable of its own marks a missing value for the model.
        propose
            Take the directions of `proposed` for columns whose direction is not stated: age, past events, household and
            employment are immutable, debt goes down, income goes up. The space prints the columns it took: check them.
        **constraints
            Those of `constrained`. The ranges given here are also what "minmax" scales by, and the unit of cost.
        """
        kinds: dict[str, Orders] = {"categorical": categorical, "integer": integer}
        kinds |= {"ordinal": ordinal, "binary": binary, "continuous": continuous}
        features = features_from_frame(frame, kinds, missing, scale, encoding, constraints)
        space = cls(features, (), _undecided(features))._noted(constraints, frame.columns)
        return (space.with_proposals() if propose else space)._remarked(frame)

    @classmethod
    def from_schema(
        cls,
        path: Place | Schema,
        *,
        actionability: str = "schema",
        kinds: str = "schema",
        encoding: Encoding = "binary",
        scale: str = "minmax",
        ordinal: Ranks = NOTHING,
        **constraints: Unpack[FeatureConstraints],
    ) -> FeatureSpace:
        """A space from a schema, or from the path of its file; its target and auxiliary columns are left out.

        Parameters
        ----------
        actionability
            Source of the directions: "schema", the file's own judgement; "carla", the immutable columns of the CARLA
            library and the paper; "free", every column may change any way.
        kinds
            "schema", or "carla": whole numbers count as continuous, as in the paper.
        encoding
            As in `from_frame`, but a single 0/1 variable for two categories is the default, as in the paper.
        scale
            "minmax" over the ranges in the file, or "none".
        ordinal
            The labels of a categorical column from low to high, so that `increasing` means something; it stays encoded
            as it is.
        **constraints
            Those of `constrained`, on top of the file's; a narrower range leaves the scale as it is.
        """
        schema = path if isinstance(path, Schema) else Schema.load(path)
        features = schema.encoded(actionability, kinds, scale, encoding, ordinal, constraints)
        constraints["rules"] = (*schema.rules, *parse_rules(constraints.get("rules") or ()))
        notes = schema.notes
        if actionability != "schema":
            notes = notes.decided(notes.undecided)
        return cls(features, (), notes)._noted(
            constraints, (column["name"] for column in schema.columns)
        )

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
        propose: bool = False,
        **constraints: Unpack[FeatureConstraints],
    ) -> FeatureSpace:
        """A space whose encoding is that of fitted scikit-learn preprocessing, bit for bit on `frame`.

        `pipeline` is a Pipeline (a classifier at its end is left out), a ColumnTransformer or a single transformer:
        scalers, OneHotEncoder, OrdinalEncoder, TargetEncoder, KBinsDiscretizer, PowerTransformer, QuantileTransformer,
        FunctionTransformer with an increasing function of numpy, SelectKBest and similar selectors, passthrough, and
        SimpleImputer: columns that it fills may be missing. `frame` is the table before preprocessing; columns that the
        pipeline drops are not part of the space. `ordinal` orders the labels of a column under any encoding. The other
        arguments are those of `from_frame` and `constrained`.
        """
        kinds: dict[str, Orders] = {
            "integer": integer,
            "ordinal": ordinal,
            "binary": binary,
            "continuous": continuous,
        }
        if "missing" in constraints:
            raise InvalidInputError(
                "missing: the pipeline's imputers set the filled values; leave missing= out. For gaps that the model "
                "itself reads, or that stay gaps, use FeatureSpace.from_frame(X, missing=[...])"
            )
        features, expected = features_from_pipeline(pipeline, frame, kinds, constraints)
        space = cls(features, (), _undecided(features))._noted(constraints, frame.columns)
        space = space.with_proposals() if propose else space
        wrong = (space.encode(frame) != expected).any(axis=0)
        if wrong.any():
            names = [name for name, bad in zip(space.variables, wrong, strict=True) if bad]
            raise InvalidInputError(
                f"pipeline: the space cannot repeat its transform bit for bit for {names}; convert a float32 table to "
                "float64"
            )
        return space._remarked(frame)

    def constrained(
        self,
        *,
        ordinal: Ranks = NOTHING,
        **constraints: Unpack[FeatureConstraints],
    ) -> FeatureSpace:
        """The same encoding with other constraints; columns that are not named keep theirs.

        A constraint replaces the one of its kind that the column had. So it can narrow the space or widen it.

        Parameters
        ----------
        ordinal
            The labels of a column from low to high, so that `increasing` means something; it stays encoded as it is.
        immutable, increasing, decreasing, free
            Columns that cannot change, change only up, only down, or any way.
        allowed
            The possible moves between labels, ``{"employment": [("temporary", "permanent"), ...]}``. Every label may
            stay.
        ranges
            ``{"income": (0, 9000)}``; None keeps an end, at first the least or largest value in the table.
        steps
            ``{"income": 250}``: changed values are multiples of 250.
        max_change
            ``{"income": 0.4}``: the largest change of a number, as a share of the person's own value. A pair is
            (down, up): ``{"income": (0, 0.4)}``; None removes a limit. The range and the steps apply too. A value of 0
            cannot change; a missing value that is filled in has no limit.
        costs
            Weights in `cost_l1`: the cost of a change over a column's whole range, 1 where not given.
        rules
            Linear rules between columns in raw units, ``["months_in_job <= months_of_history"]``. They replace the
            rules of the space.
        fillable
            Columns whose missing values a person can state; others stay missing. A known value never becomes missing.
        units
            Units for texts: ``{"income": "USD"}``.
        protected
            Protected attributes, also columns that the model does not read: ``["sex"]``.
        labels
            Names for people, of columns and of a column's values or unit: ``{"util": "share of your card limits in
            use", ("home", "A151"): "rented"}``. A text, or a text for each language: ``{"en": "rented", "de":
            "gemietet"}``.
        reasons
            Adverse-action reasons, ``{"late": ("38", "Serious delinquency")}``; the text may be a mapping by language.
        with_time
            Columns that change by themselves as time passes, such as ``["age", "months_of_history"]``. Letters say
            what that means for the promise.
        """
        features = constrain(self.features, constraints, ordinal)
        return FeatureSpace(features, self.rules, self.notes)._noted(constraints, self.names)

    def _noted(self, given: FeatureConstraints, columns: Iterable[Name]) -> FeatureSpace:
        """The space with these rules, notes and stated directions."""
        notes = Notes.of(
            given.get("protected", ()),
            given.get("labels", NOTHING),
            given.get("reasons", NOTHING),
            given.get("with_time", ()),
        )
        known = [*columns, *self.protected, *notes.protected]
        for name, about in notes.said.items():
            argument = {"reason": "reasons", "with_time": "with_time"}.get(min(about), "labels")
            refuse_unknown([name], known, argument if len(about) == 1 else "labels")
        rules = given.get("rules")
        return FeatureSpace(
            self.features,
            self.rules if rules is None else parse_rules(rules),
            self.notes.updated(notes).decided(stated_columns(given)),
        )

    def with_proposals(self) -> FeatureSpace:
        """The same space with the directions that names suggest, where none is stated."""
        ways = by_direction(self.proposed, self.unstated)
        # The notes stay: the caller stated no direction for these columns.
        return FeatureSpace(constrain(self.features, ways), self.rules, self.notes)  # type: ignore[arg-type]

    def _remarked(self, frame: pd.DataFrame) -> FeatureSpace:
        """The same space, after warnings about likely mistakes in the table."""
        remark_on_labels(self.features)
        if self.rules:
            remark_on_rules(self.bound_rules, self.numbers(frame))
        return self

    # ------------------------------------------------------------------ the columns and their notes

    @cached_property
    def names(self) -> tuple[Name, ...]:
        """The caller's columns."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The names of the model's variables: a column's, or column=label."""
        names = [""] * self.n_variables
        for feature in self.features:
            for place, name in zip(feature.places, feature.variable_names(), strict=True):
                names[place] = name
        return tuple(names)

    @cached_property
    def n_variables(self) -> int:
        """The number of variables that the model reads."""
        return sum(len(feature.places) for feature in self.features)

    @cached_property
    def protected(self) -> tuple[Name, ...]:
        """The protected attributes: features, or other columns of the caller's table that the model does not read."""
        return self.notes.protected

    @cached_property
    def unstated(self) -> tuple[Name, ...]:
        """The columns that may change any way only because no direction was stated.

        Advice that changes one of them gives an `UndecidedColumnWarning`, once for each space. `immutable`,
        `increasing`, `decreasing`, `free` and `allowed` state a direction; so does a `max_change` of 0 down or up.
        Columns without names are never among them.
        """
        return tuple(
            feature.name
            for feature in self.features
            if feature.name in self.notes.undecided
            and feature.direction is Direction.FREE
            and 0.0 not in feature.max_change
        )

    @cached_property
    def warned(self) -> list[type[Warning]]:
        """The warnings that were given once for this space."""
        return []

    @property
    def proposed(self) -> dict[Name, str]:
        """The directions that names suggest for the columns without a direction from the caller, taken or not.

        Protected attributes are immutable. "Up" and "down" are suggested only if each word of the name is known. With
        ``propose=True`` the space has these directions; its table of columns is printed with them.

        Examples
        --------
        >>> people = pd.DataFrame({"age": [25, 40], "card_debt": [800, 0], "debt_relief": [40, 30]})
        >>> FeatureSpace.from_frame(people).proposed
        {'age': 'immutable', 'card_debt': 'decreasing'}
        >>> space = FeatureSpace.from_frame(people, propose=True)
        >>> space.proposed, space.unstated
        ({'age': 'immutable', 'card_debt': 'decreasing'}, ('debt_relief',))
        """
        ways: dict[Name, Direction | None] = {}
        for feature in self.features:
            if feature.name in self.unstated:
                protected = feature.name in self.protected
                ways[feature.name] = Direction.IMMUTABLE if protected else proposal_for(feature)
            elif feature.name in self.notes.undecided and feature.direction is not Direction.FREE:
                ways[feature.name] = feature.direction
        return {name: str(way) for name, way in ways.items() if way is not None}

    @cached_property
    def unprotected(self) -> tuple[Feature, ...]:
        """The features that may be named to the person: all except the protected attributes."""
        return tuple(feature for feature in self.features if feature.name not in self.protected)

    def label(self, name: Name, language: str = "en") -> str:
        """The name that people use for the column; by default its own name."""
        return self.notes.label(name, language)

    def reason(self, name: Name, language: str = "en") -> ReasonCode | None:
        """The column's adverse-action reason, or None."""
        return self.notes.reason(name, language)

    # ------------------------------------------------------------------ between raw values and points

    def encode(self, frame: Table) -> Floats:
        """Raw values -> points, (n, n_variables). An array has one column per feature, in the features' order."""
        return self.encode_numbers(self.numbers(frame))

    def decode(
        self, points: ArrayLike, index: Any = None, *, factuals: pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """Points -> the caller's columns, dtypes and units.

        Each value is one whose encoding is exactly the point's, where such a value exists, and else the nearest the
        column can hold. Several raw values can share an encoding: then it is the factual's own if `factuals` are given
        and have it, a grid point or an end of the range, and else the one with the fewest decimals. A number whose
        last decimal place is worth more than 1e-14 of the column's largest numbers comes back as it was encoded; a
        longer fraction may come back as a neighbour that the model cannot tell from it, unless `factuals` have it.
        """
        if factuals is None:
            return self.restore(self.rows(points).numbers, index)
        rows, _ = self.rows_beside(points, factuals)
        if index is None and len(factuals) == rows.numbers.shape[0]:
            index = factuals.index
        return self.restore(rows.numbers, index)

    def as_frame(self, X: Any, argument: str = "X") -> pd.DataFrame:
        """The caller's table, or the caller's array with the names of the features; refuses one that lacks columns."""
        if not isinstance(X, pd.DataFrame):
            values = given_array(X, argument)
            if values.ndim != 2 or values.shape[1] != len(self.features):
                raise InvalidInputError(
                    f"{argument}: expected a table with {len(self.features)} columns, one for each feature, "
                    f"got shape {values.shape}"
                )
            return pd.DataFrame(values, columns=list(self.names))
        columns: list[Any] = list(X.columns)
        for name in self.names:
            if name not in columns:
                raise InvalidInputError(f"{argument}: expected the column {name!r}, got {columns}")
            if columns.count(name) > 1:
                raise InvalidInputError(
                    f"{argument}: expected each column once, got {name!r} more than once"
                )
        return X

    def numbers(self, table: Table) -> Floats:
        """Raw values as a number per feature: itself, or the position of its label."""
        frame = self.as_frame(table)
        if self._only_numbers:
            # All columns at once; where there may be something to refuse, one by one, by its name.
            own = frame if list(frame.columns) == list(self.names) else frame[list(self.names)]
            if set(own.dtypes) <= {np.dtype(np.float64), np.dtype(np.int64)}:
                numbers = own.to_numpy(np.float64) + 0.0
                whole = numbers[:, self._whole]
                if (np.abs(numbers) < 2**53).all() and (np.rint(whole) == whole).all():
                    return numbers
        return np.column_stack([f.numbers(frame[f.name]) for f in self.features])

    @cached_property
    def _only_numbers(self) -> bool:
        """Whether every column has a number in every row."""
        return not any(feature.labelled or feature.missing for feature in self.features)

    @cached_property
    def _whole(self) -> Bools:
        """Which columns hold whole numbers alone."""
        return np.array([feature.storage.precision == "integer" for feature in self.features])

    def encode_numbers(self, numbers: Floats) -> Floats:
        """Numbers -> points."""
        points = np.empty((numbers.shape[0], self.n_variables))
        for i, feature in enumerate(self.features):
            points[:, feature.places] = feature.encode(numbers[:, i])
        return points

    def restore(self, numbers: Floats, index: Any = None) -> pd.DataFrame:
        """Numbers -> the caller's columns."""
        columns = dict(zip(self.names, map(Feature.restore, self.features, numbers.T), strict=True))
        return pd.DataFrame(
            columns, index=pd.RangeIndex(numbers.shape[0]) if index is None else index
        )

    def check_points(self, points: ArrayLike) -> Floats:
        """Points as a finite (n, n_variables) float64 array, or an error that says what is wrong with them."""
        return given_points(points, "points", self.n_variables, self.variables)

    def rows(self, table: Table, n_rows: int | None = None) -> Rows:
        """A DataFrame of raw values or an array of points, both ways; a single row repeated to `n_rows`."""
        if isinstance(table, Rows):
            numbers, points = table
        elif isinstance(table, pd.DataFrame):
            numbers = self.numbers(table)
            points = self.encode_numbers(numbers)
        else:
            points = self.check_points(table)
            numbers = np.column_stack([f.decode(points[:, f.places]) for f in self.features])
        return Rows(repeated(numbers, n_rows), repeated(points, n_rows))

    def points(self, table: Table, n_rows: int | None = None) -> Floats:
        """The points of `rows`, without the numbers."""
        if isinstance(table, Rows):
            points = table.points
        else:
            points = (
                self.encode(table) if isinstance(table, pd.DataFrame) else self.check_points(table)
            )
        return repeated(points, n_rows)

    def rows_beside(self, table: Table, factuals: Table) -> tuple[Rows, Rows]:
        """A table and its factuals; where the model cannot tell a value from the factual's, it is the factual's.

        Only tables of raw values, DataFrames or what `rows` made of them, are compared value by value.
        """
        rows = self.rows(table)
        own = self.rows(factuals, rows.numbers.shape[0])
        if not (isinstance(table, RAW) and isinstance(factuals, RAW)):
            rows = Rows(rows.numbers.copy(), rows.points)
            for i, feature in enumerate(self.features):
                same = (rows.points[:, feature.places] == own.points[:, feature.places]).all(axis=1)
                rows.numbers[same, i] = own.numbers[same, i]
        return rows, own

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
        return self.encode_numbers(self.nearest_numbers(points, None, directed=False))

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
        """The admissible number nearest to each point, column by column."""
        asked = self.check_points(points)
        owned: Any = [None] * len(self.features) if own is None else own.numbers.T
        return np.column_stack(
            [
                nearest(feature if directed else feature.free, asked[:, feature.places], mine)
                for feature, mine in zip(self.features, owned, strict=True)
            ]
        )

    # ------------------------------------------------------------------ a table compared with its factuals

    def violations(self, table: Table, factuals: Table) -> list[list[str]]:
        """For each row the constraints it breaks, as sentences: "age is immutable: 40 -> 41"."""
        n, broken = self._broken(table, factuals)
        sentences: list[list[str]] = [[] for _ in range(n)]
        for mask, message in broken:
            for row in np.flatnonzero(mask).tolist():
                sentences[row].append(message(row))
        return sentences

    def satisfied(self, table: Table, factuals: Table) -> Bools:
        """Whether each row obeys every constraint, exactly; a point also has to be the encoding of some row."""
        n, broken = self._broken(table, factuals)
        fine = np.ones(n, dtype=np.bool_)
        for mask, _ in broken:
            fine &= ~mask
        return fine

    def _broken(self, table: Table, factuals: Table) -> tuple[int, Iterator[Broken]]:
        """How many rows there are, and each constraint with those that break it."""
        rows, own = self.rows_beside(table, factuals)
        raw = isinstance(table, RAW)
        broken = broken_constraints(self.features, self.bound_rules, rows, own, raw=raw)
        return len(rows.points), broken

    def cost_l1(self, table: Table, factuals: Table) -> Floats:
        """The mean change over the model's variables, in units of each column's range, times its column's weight.

        ``sum_v weight_v |x'_v - x_v| / n_variables``, where weight_v is the column's ``cost`` (1 by default) over the
        width of its range in v. So a cost of 0.03 says: on average each variable moves by 3% of its range. The range is
        that of the table that the space was made of, or the declared one; the scaler does not matter. Another label
        moves two variables from 0 to 1 or back. Without a known range the unit is 1. For variables in [0, 1] this is
        the paper's cost.
        """
        points = self.points(table)
        own = self.points(factuals, points.shape[0])
        return np.abs(points - own) @ self.weights / self.n_variables

    def changed(self, table: Table, factuals: Table) -> Ints:
        """The number of the caller's columns that differ, per row."""
        rows, own = self.rows_beside(table, factuals)
        return np.asarray(differs(rows.numbers, own.numbers).sum(axis=1))

    def describe_change(self, before: Any, after: Any) -> list[str]:
        """The changes from one row to the other: ["raise savings from 1,200 to 1,750 USD"].

        Each row is a Series, a mapping from column to value, or a DataFrame with a single row. Columns and
        values go by their labels.
        """
        frames = [
            row if isinstance(row, pd.DataFrame) else pd.DataFrame([dict(row)])
            for row in (before, after)
        ]
        for frame in frames:
            if len(frame) != 1:
                raise InvalidInputError(f"expected one row, got {len(frame)}")
        return describe.describe_change(
            self.features, self.notes, *(self.numbers(frame)[0] for frame in frames)
        )

    # ------------------------------------------------------------------ the space as a solver wants it

    @cached_property
    def bound_rules(self) -> tuple[RuleTerms, ...]:
        """The rules by position of the features, ready to be evaluated."""
        return bind_rules(self.rules, self.features)

    @cached_property
    def lower(self) -> Floats:
        """The least value of each variable within the ranges."""
        return self._ends(0)

    @cached_property
    def upper(self) -> Floats:
        """The largest value of each variable within the ranges."""
        return self._ends(1)

    def _ends(self, side: int) -> Floats:
        ends = np.empty(self.n_variables)
        for feature in self.features:
            ends[feature.places] = feature.hull[side]
            for place, *both in feature.flags:
                ends[place] = sorted(both)[side]
        ends.setflags(write=False)
        return ends

    @cached_property
    def groups(self) -> list[Ints]:
        """The one-hot groups: variables of which exactly one is 1 and the others are 0."""
        return self._one_hot(partial=False)

    @cached_property
    def partial_groups(self) -> list[Ints]:
        """The one-hot groups without a variable for one of their labels: at most one is 1."""
        return self._one_hot(partial=True)

    def _one_hot(self, *, partial: bool) -> list[Ints]:
        return [
            np.array(f.variables, dtype=np.intp)
            for f in self.features
            if f.one_hot and (-1 in f.cells) is partial
        ]

    @cached_property
    def grids(self) -> tuple[VariableGrid, ...]:
        """The grid of each single variable whose changed values are countable (steps, whole numbers, 0/1, ranks)."""
        grids = []
        for feature in self.features:
            if feature.grid is not None and not feature.listed and feature.scaling.linear:
                ends = feature.grid.value(
                    np.array([feature.grid.first, feature.grid.last], dtype=np.float64)
                )
                first, last = feature.scaling.apply(ends).tolist()
                n_steps = feature.grid.last - feature.grid.first
                grids.append(
                    VariableGrid(
                        feature.variables[0], first, (last - first) / max(n_steps, 1), n_steps
                    )
                )
        return tuple(grids)

    @cached_property
    def weights(self) -> Floats:
        """The cost of a change of each variable by 1."""
        weights = np.ones(self.n_variables)
        for feature in self.features:
            weights[feature.places] = feature.weights
        weights.setflags(write=False)
        return weights

    def rule_rows(self) -> Pair:
        """The rules over the model's variables, A x <= b, up to rounding; `violations` checks them exactly."""
        matrix = np.zeros((len(self.rules), self.n_variables))
        bounds = np.zeros(len(self.rules))
        for i, terms in enumerate(self.bound_rules):
            bounds[i] = terms.bound
            for column, coefficient in zip(terms.columns, terms.coefficients, strict=True):
                feature = self.features[column]
                # raw = slope * x + offset; of a one-hot flag the last variable, that of label 1, is its number.
                slope, offset = feature.scaling.affine()
                matrix[i, feature.variables[-1]] += coefficient * slope
                bounds[i] -= coefficient * offset
        return matrix, bounds

    def bounds_for(self, factuals: Table) -> Pair:
        """Per row, the least and the largest value of each variable that this person can reach.

        Immutable variables have both equal to the factual's, also the members of a one-hot group. The bounds enclose
        the factual's own value, also where it is outside the range, and all that a change can lead to. A single row
        (1-d) gives 1-d bounds.
        """
        single = not isinstance(factuals, RAW) and np.ndim(cast(ArrayLike, factuals)) == 1
        own = self.rows(np.atleast_2d(np.asarray(factuals)) if single else factuals)
        lower = own.points.copy()
        upper = own.points.copy()
        for i, feature in enumerate(self.features):
            numbers = own.numbers[:, i]
            known = ~np.isnan(numbers)
            if feature.fills:
                filled = np.ix_(~known, np.array(feature.places))
                lower[filled] = np.minimum(lower[filled], feature.hull[0])
                upper[filled] = np.maximum(upper[filled], feature.hull[1])
            if feature.direction is Direction.IMMUTABLE:
                continue
            if feature.listed:
                rows = np.ix_(known, np.array(feature.variables))
                possible = possible_codes(feature, numbers[known])[:, :, None]
                lower[rows] = np.where(possible, feature.blocks, np.inf).min(axis=1, initial=np.inf)
                upper[rows] = np.where(possible, feature.blocks, -np.inf).max(
                    axis=1, initial=-np.inf
                )
                continue
            low, high = reach(feature, numbers, numbers.shape[0])
            moving = (low <= high) & known
            variable = feature.variables[0]
            lower[moving, variable] = np.minimum(
                lower[moving, variable], feature.scaling.apply(low[moving])
            )
            upper[moving, variable] = np.maximum(
                upper[moving, variable], feature.scaling.apply(high[moving])
            )
        return (lower[0], upper[0]) if single else (lower, upper)

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

        Certificates and ledgers name a space by this without notes (`protected`, labels, reasons, undecided columns).
        """
        return {
            "format": FORMAT,
            "version": VERSION,
            "features": [feature_to_dict(feature) for feature in self.features],
            "rules": [rule.text for rule in self.rules],
        } | ({"notes": self.notes.to_list()} if notes and self.notes else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FeatureSpace:
        """The space that `to_dict` wrote."""
        came = repr(data)
        if isinstance(data, Mapping):
            came = f"{data.get('format')} version {data.get('version')}"
        if came != (expected := f"{FORMAT} version {VERSION}"):
            raise FileFormatError(f"expected {expected}, got {came}")
        try:
            features = tuple(feature_from_dict(entry) for entry in data["features"])
            return cls(features, data["rules"], Notes.from_list(data.get("notes", ())))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(
                f"expected a feature space written by holdfast, got one with an error: {error}"
            ) from error

    def __repr__(self) -> str:
        sizes = (
            f"{len(self.features)} features, {self.n_variables} variables, {len(self.rules)} rules"
        )
        taken = f"\nDirections from names: {self._taken}" if self._taken else ""
        return f"FeatureSpace({sizes})\n{self.to_frame().to_string(max_colwidth=24)}{taken}"

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        sizes = f"{len(self.features)} features, {self.n_variables} variables of the model"
        facts = [(f"rule {i + 1}", rule.text) for i, rule in enumerate(self.rules)]
        facts += [("directions from names", self._taken)]
        return Summary(f"Feature space: {sizes}", facts, self.to_frame(), rows="features", most=200)

    @property
    def _taken(self) -> str:
        """The directions that were taken from names: "decreasing debt; immutable age, housing"."""
        taken = [name for name in self.proposed if name not in self.unstated]
        ways = by_direction(self.proposed, taken)
        return "; ".join(f"{way} {', '.join(map(str, names))}" for way, names in ways.items())


def _undecided(features: Iterable[Feature]) -> Notes:
    """Every column that has a name is undecided until its direction is stated."""
    return Notes(undecided=tuple(one.name for one in features if isinstance(one.name, str)))


@dataclass(frozen=True, eq=False)
class Decoder:
    """`decode` for a model that reads the caller's table: values that are known to occur come back to the last bit.

    Several raw values can share an encoding; of two known ones that do, the first comes back.
    """

    space: FeatureSpace
    known: Rows | None = None

    def __call__(self, points: ArrayLike) -> pd.DataFrame:
        rows = self.space.rows(points)
        for i, encoded, numbers in self._known:
            asked = rows.points[:, self.space.features[i].variables[0]]
            at = np.searchsorted(encoded, asked).clip(max=encoded.size - 1)
            same = (encoded[at] == asked) & ~np.isnan(rows.numbers[:, i])
            rows.numbers[:, i] = np.where(same, numbers[at], rows.numbers[:, i])
        return self.space.restore(rows.numbers)

    @cached_property
    def _known(self) -> list[tuple[int, Floats, Floats]]:
        """By column of numbers, the encodings of known values in rising order, and the values."""
        if self.known is None:
            return []
        result = []
        for i, feature in enumerate(self.space.features):
            there = ~np.isnan(self.known.numbers[:, i])
            encoded, first = np.unique(
                self.known.points[there, feature.variables[0]], return_index=True
            )
            if encoded.size and not feature.listed:
                result.append((i, encoded, self.known.numbers[there, i][first]))
        return result
