"""Tables to try holdfast on: `load` finds or fetches the public ones, `make_loans` makes one up."""

from holdfast.datasets.catalogue import names
from holdfast.datasets.dataset import Dataset
from holdfast.datasets.loading import load
from holdfast.datasets.loans import make_loans

__all__ = ["Dataset", "load", "make_loans", "names"]
