"""What a table's columns are, what a person can change, and the model's variables that stand for them."""

from holdfast.features.feature import Feature
from holdfast.features.kinds import Direction, Kind
from holdfast.features.rules import Rule
from holdfast.features.schema import Schema
from holdfast.features.space import FeatureSpace

__all__ = ["Direction", "Feature", "FeatureSpace", "Kind", "Rule", "Schema"]
