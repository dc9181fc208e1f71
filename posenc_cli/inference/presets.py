"""Which encodings give the very same table, and which models that posenc ships have one.

Two tables are the same where frequencies, amplitude and columns are: then every cell of one is
that of the other, whatever the position. Nothing less is called equal.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli import catalogue
from posenc_cli.configs import library
from posenc_cli.configs.config import resolve
from posenc_cli.errors import PosencError
from posenc_cli.inference.trial import UNREDUCED_TABLES, exact_frequencies

if TYPE_CHECKING:
    from posenc_cli.configs.resolved import Layers
    from posenc_cli.formulas.declare import Bound, Content, Waves
    from posenc_cli.inference.trial import Trial
    from posenc_cli.numerics.arrays import Integers, Reals

_NEAR = 1e-9
"""Frequencies in float64 farther apart than that are not the same in more digits either."""
_LEARNED = ("seed", "weights", "std", "max_len")
"""What a learned table's values depend on, but no rule."""


def models_of(trial: Trial) -> tuple[str, ...]:
    """The models whose own table, at the positions of a trial, is that of its hypothesis.

    Of a learned bias the rule of its buckets counts.
    """
    layer_types: dict[str, list[str | None]] = {}
    if trial.bound.scheme.name in ("learned", "nope"):
        return ()
    for model, layers, own in _bounds(trial.hypothesis.seq_len):
        if _same_encoding(trial, own):
            layer_types.setdefault(model, []).append(layers.layer_type)
    return tuple(_model_text(model, types) for model, types in layer_types.items())


def same_cells(a: Trial, b: Trial) -> bool:
    """Whether two trials compare the same cells with the same numbers."""
    first, second = a.hypothesis, b.hypothesis
    alike = (
        (a.arithmetic, a.rounded, first.multiplier, first.denominator)
        == (b.arithmetic, b.rounded, second.multiplier, second.denominator)
        and len(first.tables) == len(second.tables)
        and "slopes" not in (first.tables[0], second.tables[0])
        and np.array_equal(_or_none(first.positions), _or_none(second.positions))
    )
    return alike and all(
        _same_table(a.bound.content, table, b.bound.content, other)
        for table, other in zip(first.tables, second.tables, strict=True)
    )


def _or_none(positions: Integers | None) -> Integers:
    return np.empty(0, np.int64) if positions is None else positions


@lru_cache(maxsize=1)
def layers_of_models() -> tuple[tuple[str, Layers], ...]:
    """The layers of all models that posenc ships, those of one type together."""
    return tuple(
        (name, layers)
        for name in library.names()
        for layers in resolve(library.find(name).config, name=name).layers
    )


@lru_cache(maxsize=4)
def _bounds(seq_len: int | None) -> tuple[tuple[str, Layers, Bound], ...]:
    """The encodings of all models for sequences of a length, where they have one."""
    bounds = []
    for name, layers in layers_of_models():
        try:
            own = catalogue.BUILT_IN[layers.scheme].bind(layers.values(), seq_len=seq_len)
        except PosencError:
            continue
        bounds.append((name, layers, own))
    return tuple(bounds)


def _same_encoding(trial: Trial, own: Bound) -> bool:
    bound, hypothesis = trial.bound, trial.hypothesis
    if bound.scheme.kind != own.scheme.kind:
        return False
    if bound.content.waves is not None:
        return all(
            _same_table(bound.content, table, own.content, table) for table in hypothesis.tables
        )
    if bound.scheme.name != own.scheme.name:
        return False
    hidden = {*hypothesis.hidden, *(_LEARNED if bound.scheme.weights else ())}
    return all(
        own.params[name] == value for name, value in bound.params.items() if name not in hidden
    )


def _same_table(a: Content, table: str | None, b: Content, other: str | None) -> bool:
    """Whether two encodings made of waves hold the same numbers, as tables of two names."""
    if a.waves is None or b.waves is None or not _same_frequencies(a.waves, b.waves):
        return False
    special = {"inv-freq", "angles", *UNREDUCED_TABLES} & {table, other}
    if special:
        return table == other
    return a.waves.scale == b.waves.scale and _columns(a, table) == _columns(b, other)


def _same_frequencies(a: Waves, b: Waves) -> bool:
    """Whether waves along one axis, of constant amplitude, have the same frequencies."""
    special = any(waves.coordinates is not None or waves.growth is not None for waves in (a, b))
    if special or a.count != b.count:
        return False
    if not np.allclose(_float_frequencies(a), _float_frequencies(b), rtol=_NEAR, atol=0):
        return False
    return exact_frequencies(a) == exact_frequencies(b)


@lru_cache(maxsize=1024)
def _float_frequencies(waves: Waves) -> Reals:
    """The frequencies of waves in float64."""
    return np.asarray(waves.frequencies(np), np.float64)


def _columns(content: Content, table: str | None) -> list[tuple[str, int]]:
    """The function and the wave of each column of what is made of waves."""
    assert content.waves is not None
    placed = content.columns(table)
    columns = [("zero", -1)] * placed.width
    waves = range(content.waves.count)
    for placement in placed.placements:
        indices = range(placed.width)[placement.columns]
        if placement.function != "zero":
            for column, wave in zip(indices, waves[placement.waves], strict=False):
                columns[column] = (placement.function, wave)
    return columns


def _model_text(model: str, layer_types: list[str | None]) -> str:
    """A model, and which of its layers where not all of them are alike."""
    every = [layers.layer_type for name, layers in layers_of_models() if name == model]
    if len(layer_types) == len(every):
        return model
    return f"{model} ({', '.join(str(each) for each in layer_types)})"
