"""The numbers that a generator is made with: checked, and raised from step to step, in one place."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.given import positive_number, whole_number


def check_numbers(
    generator: object, *, positive: Iterable[str] = (), non_negative: Iterable[str] = (), counts: Iterable[str] = ()
) -> None:
    """Refuse a generator whose fields of these names are not numbers > 0, numbers >= 0, or whole numbers >= 1."""
    for name in positive:
        positive_number(getattr(generator, name), name)
    for name in non_negative:
        positive_number(getattr(generator, name), name, or_zero=True)
    for name in counts:
        whole_number(getattr(generator, name), name, least=1)


def raised(start: float, by: float, step: float) -> float:
    """`start` and `by` more for each step, and up to twice that by step 20: far demands come in larger strides."""
    return start + by * step * (1.0 + step / 20.0)
