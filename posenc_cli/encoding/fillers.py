"""What fills the columns of a table with waves: those of a backend, or made of several of them."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from posenc_cli.numerics import exact
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.backends.base import WaveFiller
    from posenc_cli.encoding.engine import Engine
    from posenc_cli.formulas.declare import Waves


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
        return backend.reduced(
            waves.frequencies,
            scale=float(waves.scale),
            arithmetic=engine.arithmetic,
            device=device,
        )
    frequencies = list(waves.frequencies(exact))
    if len(frequencies) != waves.count:
        raise ValueError(f"{len(frequencies)} frequencies where {waves.count} were declared")
    return backend.exact(frequencies, scale=exact.asarray(waves.scale)[0], device=device)
