"""Tables to try holdfast on: `load` finds or fetches the public ones, `make_loans` makes one up."""

from holdfast.datasets._catalogue import names
from holdfast.datasets._loading import Dataset, load
from holdfast.datasets._loans import make_loans

__all__ = ["Dataset", "load", "make_loans", "names"]
