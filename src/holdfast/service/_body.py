"""A request's JSON, read strictly: unknown names and values are errors that name them."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from holdfast._given import positive_number, shown
from holdfast._network import Network
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features._feature import Feature

# Up to here float64 has every whole number.
_WHOLE = 2**53
LONGEST_KEY = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class TooLargeError(HoldfastError):
    """A request beyond a limit of the service; the message names the limit."""


def read_json(content: bytes) -> dict[str, Any]:
    """The object in a body; each name once, every number finite.

    Examples
    --------
    >>> read_json(b'{"people": []}')
    {'people': []}
    >>> read_json(b'{"target": 1, "target": 0}')
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidInputError: body: expected each name once, got 'target' twice
    """
    try:
        document = json.loads(
            content.decode("utf-8"),
            parse_constant=_not_finite,
            parse_float=_finite,
            object_pairs_hook=_each_once,
        )
        if b"\\u" in content:
            # Half a character can be escaped, and written nowhere else.
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise InvalidInputError(
            "body: expected JSON a few levels deep, got deeper nesting"
        ) from None
    except HoldfastError:
        raise
    except ValueError as error:
        if type(error) is ValueError:
            # Python's own message explains how to allow such a number.
            most = f"{sys.get_int_max_str_digits():,} digits"
            raise InvalidInputError(
                f"body: expected numbers that float64 can hold, got one of more than {most}"
            ) from None
        raise InvalidInputError(f"body: expected JSON in UTF-8, got: {error}") from error
    if not isinstance(document, dict):
        raise InvalidInputError(f"body: expected an object, got {_kind(document)}")
    return document


def _not_finite(text: str) -> NoReturn:
    raise InvalidInputError(
        f"body: expected finite numbers, got {text[:40]}{'...' * (len(text) > 40)}"
    )


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _not_finite(text)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        seen = set[str]()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidInputError(f"body: expected each name once, got {shown(twice)} twice")
    return document


def _kind(value: Any) -> str:
    """The JSON name of a value's type."""
    kinds: dict[type, str] = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "a truth value",
    }
    return "null" if value is None else kinds.get(type(value), "a number")


def check_fields(document: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse an unknown name: a typing error must not change the question."""
    for name in document:
        if name not in known:
            raise InvalidInputError(f"body: expected {', '.join(known)}, got {shown(name)}")


def read_people(document: Mapping[str, Any], space: FeatureSpace, most: int) -> pd.DataFrame:
    """The people in a table with the space's columns, by their keys where there are any.

    Numbers are as they were sent; the space refuses unknown labels and other values.
    """
    people = document.get("people")
    if not isinstance(people, list) or not people:
        came = "an empty list" if people == [] else _kind(people)
        raise InvalidInputError(
            f"people: expected a list of objects, one for each person, got {came}"
        )
    if len(people) > most:
        raise TooLargeError(f"people: expected at most {most} at once, got {len(people)}")
    names = {str(feature.name): feature for feature in space.features}
    for row, person in enumerate(people):
        _check_person(person, row, names)
    table = {
        feature.name: _column([person[name] for person in people], feature)
        for name, feature in names.items()
    }
    return pd.DataFrame(table, index=_index(document.get("keys"), len(people)))


def _check_person(person: Any, row: int, names: Mapping[str, Feature]) -> None:
    if not isinstance(person, dict):
        raise InvalidInputError(
            f"people: expected an object with a value for each column, got {_kind(person)} in row {row}"
        )
    for name in (*names, *person):
        if name not in person or name not in names:
            came = f"no {name!r}" if name in names else f"{shown(name)} too"
            raise InvalidInputError(
                f"people: expected the columns {list(names)}, each once, got {came} in row {row}"
            )
        value, feature = person[name], names[name]
        truth = (
            isinstance(value, bool)
            and not feature.labelled
            and "bool" not in feature.storage.dtype.lower()
        )
        gap = value is None and not feature.missing
        if gap or truth or isinstance(value, dict | list):
            expected = "a number or a text" if feature.labelled else "a number"
            raise InvalidInputError(
                f"column {name!r}: expected {expected}, got {_kind(value)} in row {row}"
            )


def _column(values: list[Any], feature: Feature) -> np.ndarray[Any, Any]:
    """Numbers as float64 if that is exact; else as they came, and the space reports the error."""
    exact = not feature.labelled and all(
        value is None or type(value) is float or (type(value) is int and abs(value) <= _WHOLE)
        for value in values
    )
    if exact:
        return np.array(values, dtype=np.float64)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _index(keys: Any, n: int) -> pd.Index:
    if keys is None:
        return pd.RangeIndex(n)
    if not isinstance(keys, list) or len(keys) != n:
        came = f"{len(keys)} keys" if isinstance(keys, list) else _kind(keys)
        raise InvalidInputError(
            f"keys: expected a list, one for each of the {n} people, got {came}"
        )
    seen: set[str] = set()
    for row, key in enumerate(keys):
        if not isinstance(key, str | int) or isinstance(key, bool) or not str(key).strip():
            raise InvalidInputError(
                f"keys: expected a text or a whole number, got {shown(key)} in row {row}"
            )
        # A ledger keeps keys as text.
        text = str(key)
        if len(text) > LONGEST_KEY or _CONTROL.search(text):
            raise InvalidInputError(
                f"keys: expected at most {LONGEST_KEY} characters, none of them a control character, "
                f"got {shown(key)} in row {row}"
            )
        if text in seen:
            raise InvalidInputError(
                f"keys: expected each once, got {shown(key)} again in row {row}"
            )
        seen.add(text)
    return pd.Index(keys, dtype=object, name="key")


def read_target(document: Mapping[str, Any], usual: Any) -> Any:
    """The class in the request, or the service's own."""
    target = document.get("target", usual)
    truth = isinstance(target, bool) and not isinstance(usual, bool)
    if truth or not isinstance(target, str | int | float):
        raise InvalidInputError(f"target: expected one class, got {_kind(target)}")
    return target


def read_time(document: Mapping[str, Any], most: float) -> float:
    """The seconds that a request may use, at most those of the service."""
    return min(most, positive_number(document.get("time_limit", most), "time_limit"))


def read_network(document: Mapping[str, Any]) -> Network | None:
    """The new model in the request, by its parameters; None without one."""
    given = document.get("network")
    if given is None:
        return None
    if not isinstance(given, dict):
        raise InvalidInputError(
            f"network: expected an object with its parameters, got {_kind(given)}"
        )
    check_fields(given, ("weights", "biases", "classes", "activations", "format", "version"))
    for name in ("weights", "biases"):
        if not isinstance(given.get(name), list):
            raise InvalidInputError(
                f"network: expected {name}, a list, got {_kind(given.get(name))}"
            )
    parts: Callable[..., Network] = Network
    try:
        return parts(
            given["weights"], given["biases"], given.get("classes"), given.get("activations")
        )
    except HoldfastError as error:
        raise InvalidInputError(f"network: {error}") from error
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"network: expected parameters of layers, got: {error}") from error
