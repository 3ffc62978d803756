"""Tables to try holdfast on."""

from holdfast.datasets.loans import make_loans

__all__ = ["make_loans"]
