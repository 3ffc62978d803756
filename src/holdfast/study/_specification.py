"""What a piece of work depends on, as plain data, and a name for it: the same work has the same name in every run.

Names of data sets, models and methods are for people and no part of it: the same table under another name is the same.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType
from typing import Any

import joblib
import numpy as np
import pandas as pd

from holdfast._network import Network
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace


def digest(value: Any) -> str:
    """A name for a value: 32 hexadecimal digits of the hash of its description."""
    text = json.dumps(describe(value), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def describe(value: Any) -> Any:
    """A value as JSON-able data that says all that matters about it; tables and arrays by a hash of their content.

    Examples
    --------
    >>> from holdfast.generators import MCE, Robust
    >>> describe(Robust(MCE(margin=0.5)))["base"]["margin"]
    0.5
    >>> digest({"a": 1, "b": (1.0, "x")}) == digest({"b": [1.0, "x"], "a": 1})
    True
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float | np.generic):
        return _number(value)
    if isinstance(value, pd.DataFrame | pd.Series | pd.Index):
        return _table(value)
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, Mapping):
        return {str(key): describe(part) for key, part in value.items()}
    if isinstance(value, Set):
        return sorted((describe(part) for part in value), key=repr)
    if isinstance(value, Sequence | bytes):
        return value.hex() if isinstance(value, bytes) else [describe(part) for part in value]
    if isinstance(value, FunctionType | CodeType | type):
        return _code(value)
    return {"type": f"{type(value).__module__}.{type(value).__qualname__}"} | _parts(value)


def _parts(value: Any) -> dict[str, Any]:
    """What an object consists of."""
    if isinstance(value, FeatureSpace):
        return {"content": digest(value.to_dict(notes=False))}
    if isinstance(value, Network):
        # Classes as a file of the network has them, whatever kind of array they came in.
        return {
            "content": digest(
                [value.weights, value.biases, value.classes.tolist(), value.activations]
            )
        }
    if is_dataclass(value):
        return {field.name: describe(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "get_params"):
        return {"parameters": describe(value.get_params(deep=False))}
    try:
        return {"content": joblib.hash(value)}
    # Whatever an object's own pickling raises, it is the object that cannot be told from others.
    except Exception as error:
        raise InvalidInputError(
            f"expected values that can be told from others by their content, got a {type(value).__name__}: {error}"
        ) from error


def _number(value: Any) -> Any:
    number = value.item() if isinstance(value, np.generic) else value
    return number if isinstance(number, int | str) or math.isfinite(number) else repr(number)


def _array(values: Any) -> dict[str, Any]:
    if values.dtype.hasobject:
        return {"shape": list(values.shape), "values": digest(values.tolist())}
    content = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:32]
    return {"shape": list(values.shape), "dtype": str(values.dtype), "content": content}


def _table(table: Any) -> dict[str, Any]:
    """Values, columns and kinds of a table; its index is for people."""
    hashes = np.asarray(pd.util.hash_pandas_object(table, index=False))
    if isinstance(table, pd.DataFrame):
        columns: Any = [[str(name), str(kind)] for name, kind in table.dtypes.items()]
    else:
        columns = str(table.dtype)
    return {
        "rows": len(table),
        "columns": columns,
        "content": hashlib.sha256(hashes.tobytes()).hexdigest()[:32],
    }


def _code(value: Any) -> Any:
    """A class by its name; a function by what it does, so that an edited one is another."""
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, CodeType):
        return [
            value.co_code.hex(),
            list(value.co_names),
            [describe(constant) for constant in value.co_consts],
        ]
    cells = [describe(cell.cell_contents) for cell in value.__closure__ or ()]
    return {
        "function": value.__qualname__,
        "code": digest([value.__code__, value.__defaults__, cells]),
    }
