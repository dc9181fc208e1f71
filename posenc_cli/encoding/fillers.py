"""What fills the wave columns of a table: a backend, or several waves combined."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from posenc_cli.numerics import exact
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.backends.base import ReducedFiller, WaveFiller
    from posenc_cli.encoding.engine import Engine
    from posenc_cli.formulas.declare import Waves
    from posenc_cli.numerics.arrays import Integers, StoredRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.placements import Placement


@lru_cache(maxsize=8)
def wave_filler(waves: Waves, engine: Engine) -> WaveFiller:
    """What fills blocks with the cosines and sines of ``waves``, computed by an engine.

    It is kept: its 60-digit frequencies and its table of phasors take longer than a short table.
    """
    if waves.growth is not None:
        from posenc_cli.encoding.growing import GrowingWaves

        still = wave_filler(replace(waves, growth=None), engine)
        return GrowingWaves(waves, still, engine.arithmetic)
    if waves.coordinates is not None:
        from posenc_cli.encoding.axial import AxialWaves

        return AxialWaves(waves, partial(wave_filler, engine=engine))
    backend, device = engine.backend, engine.device
    if engine.arithmetic != "exact":
        reduced = backend.reduced(
            waves.frequencies,
            scale=float(waves.scale),
            arithmetic=engine.arithmetic,
            device=device,
        )
        return reduced if waves.denominator == 1 else _OfParts(reduced, waves.denominator)
    return backend.exact(
        waves.exact_frequencies(), scale=exact.asarray(waves.scale)[0], device=device
    )


class _OfParts:
    """Waves in a precision of frameworks, which take positions and not parts of 1."""

    def __init__(self, filler: ReducedFiller, denominator: int) -> None:
        self._filler = filler
        self._denominator = float(denominator)

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        self._filler.fill(out, positions / self._denominator, placements, dtype=dtype)

    def angles(self, positions: Integers, *, dtype: DType) -> StoredRows:
        return self._filler.angles(positions / self._denominator, dtype=dtype)
