"""The generators by their names in the command line, the report and the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidInputError
from holdfast.generators._base import Generator
from holdfast.generators._candidates import FromTable
from holdfast.generators._closest import Closest
from holdfast.generators._gce import GCE
from holdfast.generators._mce import MCE
from holdfast.generators._nearest import NNCE
from holdfast.generators._proto import PROTO
from holdfast.generators._rbr import RBR
from holdfast.generators._rnce import RNCE
from holdfast.generators._roar import ROAR
from holdfast.generators._robust import Robust
from holdfast.generators._stce import STCE


@dataclass(frozen=True)
class NamedMethod:
    """A generator with a name.

    Parameters
    ----------
    name
        The name.
    make
        A function from candidates (or None) to the generator.
    good_for, paper
        Its use, and its source.
    needs_candidates
        Whether it searches other people's rows.
    takes_candidates
        Whether it uses other people's rows if there are any.
    """

    name: str
    make: Callable[[Any], Generator]
    good_for: str
    paper: str
    needs_candidates: bool = False
    takes_candidates: bool = False


def _of(
    kind: type[Generator],
    make: Callable[[Any], Generator] | None = None,
    name: str = "",
    good_for: str = "",
    *,
    takes: bool = False,
) -> NamedMethod:
    """A method by what its class says of it, unless another name and purpose are given."""
    takes |= issubclass(kind, FromTable)
    needs = takes and kind not in (PROTO, Robust)
    made = make or (kind if takes else lambda _: kind())
    said = (name or kind.name, made, good_for or kind.good_for, kind.paper)
    return NamedMethod(*said, needs, takes and not needs)


METHODS: tuple[NamedMethod, ...] = (
    _of(Closest),
    _of(RNCE),
    _of(
        RNCE,
        lambda candidates: RNCE(candidates, line_search=True),
        "rnce-line",
        "as rnce, moved back towards the person as far as Δ allows: cheaper, and no longer a real person's row",
    ),
    _of(
        Robust,
        lambda _: Robust(MCE()),
        "mce-r",
        "mce with ever more margin until Δ accepts: robust, slower and costlier than closest; to compare with it",
    ),
    _of(MCE),
    _of(NNCE),
    _of(GCE),
    _of(
        Robust,
        lambda _: Robust(GCE()),
        "gce-r",
        "gce with ever more margin until Δ accepts: robust, quick, near the price of mce-r, with no bound on the gap",
    ),
    _of(PROTO),
    _of(
        Robust,
        lambda candidates: Robust(PROTO(candidates)),
        "proto-r",
        "proto with ever more margin until Δ accepts; to compare with the paper",
        takes=True,
    ),
    _of(ROAR),
    _of(STCE),
    _of(RBR),
)


def make_generator(name: str, candidates: Any = None) -> Generator:
    """The generator of this name.

    Examples
    --------
    >>> make_generator("rnce", [[0.0, 1.0]]).line_search
    False
    """
    for method in METHODS:
        if method.name == name:
            if method.needs_candidates and candidates is None:
                raise InvalidInputError(
                    f"candidates: expected a table for the method {name}, got none"
                )
            return method.make(candidates)
    raise InvalidInputError(
        f"method: expected one of {', '.join(m.name for m in METHODS)}, got {name!r}"
    )
