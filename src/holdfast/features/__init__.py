"""What a table's columns are, what a person can change, and the model's variables that stand for them."""

from holdfast.features._feature import Feature
from holdfast.features._kinds import Direction, Kind
from holdfast.features._rules import Rule
from holdfast.features._schema import Schema
from holdfast.features._space import FeatureSpace

__all__ = ["Direction", "Feature", "FeatureSpace", "Kind", "Rule", "Schema"]
