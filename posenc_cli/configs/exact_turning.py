"""How fast the layers of a config turn their pairs, in extended precision."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.numerics import exact
from posenc_cli.records import Record

if TYPE_CHECKING:
    from decimal import Decimal

    from posenc_cli.configs.resolved import Layers


class ExactTurning(Record):
    """The frequencies of all pairs, those at rest too, and what cosines and sines are times."""

    frequencies: tuple[Decimal, ...]
    scale: Any


def exact_turning(layers: Layers, length: int) -> ExactTurning:
    """How layers of a rotary scheme turn at a length of sequence; asked again, it is at hand."""
    values = sorted(layers.values().items())
    return _turning(layers.scheme, tuple(values), length)


@lru_cache(maxsize=64)
def _turning(scheme: str, values: tuple[tuple[str, Any], ...], length: int) -> ExactTurning:
    bound = catalogue.find(scheme).bind(dict(values), seq_len=length)
    waves = bound.content.waves
    assert waves is not None
    return ExactTurning(tuple(waves.frequencies(exact)), waves.scale)
