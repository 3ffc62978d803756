"""Increasing functions of one number that preprocessing uses: logarithms and roots, powers, ranks.

Each is what the library itself computes, bit for bit, given its fitted parameters as plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.preprocessing import PowerTransformer, QuantileTransformer

from holdfast.network import Floats

Curve = Callable[[Floats, Any], Floats]


def _power(method: str, inverse: bool = False) -> Curve:
    def apply(values: Floats, parameter: Any) -> Floats:
        transformer = PowerTransformer(method=method, standardize=False)
        transformer.lambdas_, transformer.n_features_in_ = np.array([parameter]), 1
        there = transformer.inverse_transform if inverse else transformer.transform
        return _through(there, values, positive=method == "box-cox" and not inverse)

    return apply


def _rank(distribution: str, inverse: bool = False) -> Curve:
    def apply(values: Floats, parameter: Any) -> Floats:
        quantiles = np.asarray(parameter, dtype=np.float64)
        transformer = QuantileTransformer(output_distribution=distribution)
        transformer.quantiles_, transformer.n_features_in_ = quantiles[:, None], 1
        transformer.n_quantiles_ = len(quantiles)
        transformer.references_ = np.linspace(0, 1, len(quantiles), endpoint=True)
        return _through(transformer.inverse_transform if inverse else transformer.transform, values)

    return apply


def _through(transform: Callable[[Floats], Any], values: Floats, positive: bool = False) -> Floats:
    """A column through a transformer, which takes no empty and no infinite ones, and perhaps only positive numbers."""
    column = np.array(values, dtype=np.float64).reshape(-1, 1)
    fine = np.isfinite(column[:, 0]) & ((not positive) | (column[:, 0] > 0.0))
    if fine.any():
        column[fine] = transform(column[fine])
    column[~fine & np.isfinite(column[:, 0])] = np.nan
    return column.reshape(np.shape(values))


def _plain(function: Callable[[Floats], Any]) -> Curve:
    return lambda values, parameter: np.asarray(function(values))


def _to_the(power: float) -> Curve:
    return lambda values, parameter: np.asarray(np.maximum(values, 0.0) ** power)


# numpy's functions that a FunctionTransformer may hold, with their inverses.
FUNCTIONS: dict[str, tuple[Any, Callable[[Floats], Any]]] = {
    "log1p": (np.log1p, np.expm1),
    "expm1": (np.expm1, np.log1p),
    "log": (np.log, np.exp),
    "exp": (np.exp, np.log),
    "log2": (np.log2, np.exp2),
    "log10": (np.log10, lambda values: np.power(10.0, values)),
    "cbrt": (np.cbrt, lambda values: values**3),
}
# Forward and backward; neither for what is outside their domain.
CURVES: dict[str, tuple[Curve, Curve]] = {
    **{name: (_plain(there), _plain(back)) for name, (there, back) in FUNCTIONS.items()},
    "sqrt": (_plain(np.sqrt), _to_the(2.0)),
    **{method: (_power(method), _power(method, inverse=True)) for method in ("yeo-johnson", "box-cox")},
    **{
        f"{distribution} ranks": (_rank(distribution), _rank(distribution, inverse=True))
        for distribution in ("uniform", "normal")
    },
}
