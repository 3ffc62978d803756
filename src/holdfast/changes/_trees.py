"""Plausible changes of a tree ensemble that keeps its structure: leaves, thresholds, trees removed and added.

    worst margin at x  =  base + sum over trees of  min over the leaves that x may reach of  (value - radius)
                          less the `dropped` greatest of these terms, less `shift`

Trees move independently in this set, so the formula is exact. In practice thresholds may share histogram edges and
move together; the set is then larger than needed, which keeps the proof sound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from holdfast._classifier import Floats
from holdfast._forest import Forest
from holdfast._given import given_floats, whole_number
from holdfast._numbers import at_most
from holdfast._trees import TreeEnsemble
from holdfast.changes._kind import Chance, Changes, Inside, Interval, check_size
from holdfast.changes._parameters import within
from holdfast.errors import InvalidInputError
from holdfast.importers import load_model


@dataclass(frozen=True, eq=False, repr=False)
class TreeChanges(Changes):
    """Every tree ensemble with today's structure whose leaves and thresholds are near today's.

    Parameters
    ----------
    leaves
        Largest move of each leaf's value: one number, or one for each leaf, in the order of the nodes. The unit is
        that of the margin: log-odds for boosted trees, probabilities for forests.
    thresholds
        Largest move of each threshold, in the units of its column: one number, or a mapping of column names to
        numbers.
    dropped
        Largest number of trees that may be removed.
    shift
        Largest drop of the margin that added trees may cause. For a forest it is the largest move of each class's
        probability, at every threshold; at a threshold of one half the margin then falls by up to twice the shift.
    factor
        A factor for `leaves`, `thresholds` and `shift`; `certified_radius` finds the largest one.
    chance
        The measured chance of broken promises; `risk_calibrated` fills it in.
    threshold
        The range of probabilities within which the decision threshold may move, such as ``(0.6, 0.8)``. None keeps
        the threshold.
    inside
        The probability that the next retraining lies in Δ; `delta_calibrated` fills it in.

    Examples
    --------
    >>> TreeChanges(leaves=0.01, thresholds={"income": 50.0}, dropped=1)
    TreeChanges(leaves within 0.01, thresholds of income within 50, up to 1 tree dropped)
    """

    kind: ClassVar[str] = "trees"
    unit: ClassVar[str] = "factor"

    leaves: Any = 0.0
    thresholds: Any = 0.0
    dropped: int = 0
    shift: float = 0.0
    factor: float = 1.0
    chance: Chance | None = None
    threshold: Interval | None = None
    inside: Inside | None = None

    def __post_init__(self) -> None:
        leaves, thresholds = self.leaves, self.thresholds
        if np.ndim(leaves):
            leaves = np.array(given_floats(leaves, "leaves"))
            if leaves.ndim != 1 or not (np.isfinite(leaves) & (leaves >= 0.0)).all():
                raise InvalidInputError(
                    "leaves: expected one radius for all leaves, or a list of one for each leaf, all finite and >= 0"
                )
            leaves.setflags(write=False)
        else:
            leaves = check_size(leaves, "leaves")
        if isinstance(thresholds, Mapping):
            thresholds = {
                name: check_size(radius, f"thresholds of {name}")
                for name, radius in thresholds.items()
            }
        else:
            thresholds = check_size(thresholds, "thresholds")
        whole_number(self.dropped, "dropped", least=0)
        shift = check_size(self.shift, "shift")
        vars(self).update(leaves=leaves, thresholds=thresholds, shift=shift)
        super().__post_init__()

    @classmethod
    def of(
        cls,
        model: object,
        X: Any,
        leaves: Callable[[Floats], Any],
        *,
        space: Any = None,
        **more: Any,
    ) -> Self:
        """Build leaf radii from the number of table rows in each leaf.

        Parameters
        ----------
        model
            Trees of any library.
        X
            The rows that the model was fitted on, or similar rows.
        leaves
            A function from the numbers of rows (an array with one entry for each leaf) to the radii.
        space
            The feature space that encodes the table, for a model without its own preprocessing.
        more
            The other parameters of `TreeChanges`.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> tree = DecisionTreeClassifier(max_depth=1).fit([[1.0], [2.0], [3.0]], [0, 1, 1])
        >>> TreeChanges.of(tree, [[1.0], [2.0], [3.0]], lambda rows: 0.1 / rows).leaves
        array([0.1 , 0.05])
        """
        trees, matrix = read_trees(model, X, space)
        nodes, counts = np.unique(trees.forest.leaf_of(matrix), return_counts=True)
        rows = np.zeros(trees.forest.feature.size)
        rows[nodes] = counts
        return cls(leaves=leaves(rows[trees.forest.leaves]), **more)

    def leaf_radii(self, trees: TreeEnsemble) -> Floats:
        """The radius of each node's value; 0 for inner nodes."""
        at, radii = trees.forest.leaves, np.zeros(trees.forest.feature.size)
        if np.ndim(self.leaves) and self.leaves.size != int(at.sum()):
            raise InvalidInputError(
                f"leaves: expected one radius for each of the {int(at.sum())} leaves, got {self.leaves.size}"
            )
        radii[at] = self.leaves * self.factor
        return radii

    def threshold_radii(self, trees: TreeEnsemble) -> Floats:
        """The radius of each node's threshold; 0 for leaves."""
        forest, each = trees.forest, np.zeros(trees.forest.width)
        if isinstance(self.thresholds, Mapping):
            names = [*(trees.score.names or map(str, range(forest.width)))]
            labels = dict(enumerate(trees.score.labels))
            for name, radius in self.thresholds.items():
                if name not in names:
                    raise InvalidInputError(
                        f"thresholds: {name!r} is not a column; expected columns among {names}{_positions(trees)}"
                    )
                place = names.index(name)
                sets = forest.category[forest.feature == place] >= 0
                if labels.get(place) is not None or sets.any():
                    raise InvalidInputError(
                        f"thresholds: expected columns of numbers; {name!r} is a column of categories"
                    )
                each[place] = radius
        else:
            each[:] = self.thresholds
        radii = each[np.maximum(forest.feature, 0)] * self.factor
        return np.where(forest.numeric, radii, 0.0)

    def in_words(self, number: Callable[[float], str] = at_most) -> str:
        """The parts that may move and their radii, in words."""
        parts, by = [], self.factor
        largest = float(np.max(self.leaves, initial=0.0)) * by
        if largest:
            each = " in radii of their own, at most" if np.ndim(self.leaves) else " within"
            parts.append(f"leaves{each} {number(largest)}")
        if isinstance(self.thresholds, Mapping):
            for name, radius in self.thresholds.items():
                parts.append(f"thresholds of {name} within {number(radius * by)}")
        elif self.thresholds:
            parts.append(f"thresholds within {number(self.thresholds * by)}")
        if self.dropped:
            parts.append(f"up to {self.dropped} tree{'s' * (self.dropped > 1)} dropped")
        if self.shift:
            parts.append(
                f"trees added that take at most {number(self.shift * by)} off the margin, or off a forest's probability"
            )
        return (", ".join(parts) or "nothing moves") + self.policy

    @property
    def every_model(self) -> str:
        """The ensembles inside, as the subject of a sentence."""
        return f"every ensemble of today's trees with {self.words}"

    def contains(self, today: Any, other: Any) -> bool:
        """Whether `other` has today's structure and is within the radii, in exact arithmetic.

        A tree that adds 0 everywhere counts as removed. Additional trees of `other` may change the margin by at
        most `shift` with their largest leaves; the result is False if a row could get more.
        """
        if not (isinstance(today, TreeEnsemble) and isinstance(other, TreeEnsemble)):
            return False
        ours, theirs = today.forest, other.forest
        if theirs.n_trees > ours.n_trees:
            if not self._within_shift(today, theirs):
                return False
            theirs = theirs.first(ours.n_trees)
        if not ours.same_structure(theirs) or today.labels != other.labels:
            return False
        # Rows that reach no leaf that moves were promised for sums in today's order.
        if not today.reads_like(other) or (ours.ordered and not theirs.ordered):
            return False
        gone = ours.empty_trees(theirs)
        if int(gone.sum()) > self.dropped:
            return False
        kept = ~gone[ours.tree_of]
        radii = self.leaf_radii(today)
        near = within(theirs.values, ours.values, radii[:, None])
        if not near[kept & ours.leaves].all():
            return False
        near = within(theirs.threshold, ours.threshold, self.threshold_radii(today))
        return bool(near[kept & ours.numeric].all())

    def _within_shift(self, today: TreeEnsemble, theirs: Forest) -> bool:
        """Whether additional trees lower the margin by at most `shift`, for every row."""
        most, divisor = sorted(theirs.greatest(today.forest.n_trees)), Fraction(theirs.divisor)
        # Of forests the shift is one of each probability; of several margins one may fall and another rise.
        lost = max(most) if today.score.shares else sum(most[-2:], Fraction(0))
        if theirs.n_trees > today.forest.n_trees + 2:
            # Verdicts allow for what a sum with two more trees may round.
            lost += 2 * divisor * sum(map(Fraction, theirs.rounding().tolist()), Fraction(0))
        return lost <= Fraction(self.shift * self.factor) * divisor


def _positions(trees: TreeEnsemble) -> str:
    """An explanation, if the names of columns are positions."""
    if trees.score.before is not None:
        return (
            ". These are positions of columns behind the pipeline's earlier steps, in the units after these steps; "
            "pipeline[:-1].get_feature_names_out() lists their names in this order"
        )
    if trees.score.names is None:
        return (
            ". The model knows no column names, so these are positions of the columns that it reads"
        )
    return ""


def read_trees(model: object, X: Any, space: Any = None) -> tuple[TreeEnsemble, Floats]:
    """The trees of a model, and the values that they read of a table."""
    loaded = load_model(model)
    if space is not None:
        loaded = loaded.in_space(space, X)
    trees = loaded.trained
    if not isinstance(trees, TreeEnsemble):
        raise InvalidInputError(f"model: expected trees, got {type(trees).__name__}")
    if space is not None:
        return trees, trees.matrix(space.encode(X))
    return trees, trees.score.matrix(X)
