"""The steps between a column's own unit and the model's variable: arithmetic, logarithms and roots, powers, ranks.

Each is an increasing function of one number with its inverse, and what the library itself computes, bit for bit, given
its fitted parameters as plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.preprocessing import PowerTransformer, QuantileTransformer

from holdfast._network import Floats

# Forward and backward; neither for what is outside their domain.
Step = tuple[Callable[[Floats, Any], Floats], Callable[[Floats, Any], Floats]]

ARITHMETIC: dict[str, Step] = {
    "subtract": (np.subtract, np.add),
    "add": (np.add, np.subtract),
    "divide": (np.divide, np.multiply),
    "multiply": (np.multiply, np.divide),
}
# numpy's functions that a FunctionTransformer may hold, with their inverses.
FUNCTIONS: dict[str, tuple[Callable[[Floats], Any], Callable[[Floats], Any]]] = {
    "log1p": (np.log1p, np.expm1),
    "expm1": (np.expm1, np.log1p),
    "log": (np.log, np.exp),
    "exp": (np.exp, np.log),
    "log2": (np.log2, np.exp2),
    "log10": (np.log10, lambda values: np.power(10.0, values)),
    "cbrt": (np.cbrt, lambda values: values**3),
    "sqrt": (np.sqrt, lambda values: np.maximum(values, 0.0) ** 2.0),
}


def _plain(there: Callable[[Floats], Any], back: Callable[[Floats], Any]) -> Step:
    return lambda values, _: np.asarray(there(values)), lambda values, _: np.asarray(back(values))


def _power(method: str, exponent: float) -> Any:
    transformer = PowerTransformer(method=method, standardize=False)
    transformer.lambdas_ = np.array([exponent])
    transformer.n_features_in_ = 1
    return transformer


def _rank(distribution: str, quantiles: Any) -> Any:
    transformer = QuantileTransformer(output_distribution=distribution)
    transformer.quantiles_ = np.array(quantiles, dtype=np.float64)[:, None]
    transformer.n_features_in_ = 1
    transformer.n_quantiles_ = len(quantiles)
    transformer.references_ = np.linspace(0, 1, len(quantiles), endpoint=True)
    return transformer


def _fitted(make: Callable[[str, Any], Any], kind: str) -> Step:
    """A transformer of one column, there and back."""

    def there(values: Floats, parameter: Any) -> Floats:
        return _through(make(kind, parameter).transform, values, positive=kind == "box-cox")

    def back(values: Floats, parameter: Any) -> Floats:
        return _through(make(kind, parameter).inverse_transform, values)

    return there, back


def _through(transform: Callable[[Floats], Any], values: Floats, positive: bool = False) -> Floats:
    """A column through a transformer, which takes no empty and no infinite ones, and perhaps only positive numbers."""
    column = np.array(values, dtype=np.float64).reshape(-1, 1)
    fine = np.isfinite(column[:, 0]) & ((not positive) | (column[:, 0] > 0.0))
    if fine.any():
        column[fine] = transform(column[fine])
    column[~fine & np.isfinite(column[:, 0])] = np.nan
    return column.reshape(np.shape(values))


CURVES: dict[str, Step] = {
    **{name: _plain(*pair) for name, pair in FUNCTIONS.items()},
    **{method: _fitted(_power, method) for method in ("yeo-johnson", "box-cox")},
    **{
        f"{distribution} ranks": _fitted(_rank, distribution)
        for distribution in ("uniform", "normal")
    },
}
