"""The engine of a request (backend, device, threads, arithmetic), and the filler of its waves."""

from __future__ import annotations

from collections import deque
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from posenc_cli.backends import registry
from posenc_cli.budget import ROOM_FOR_THREADS, has_room
from posenc_cli.numerics import exact
from posenc_cli.records import Item, Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from posenc_cli.backends.registry import Arithmetic, Backend, ReducedFiller, WaveFiller
    from posenc_cli.formulas.declare import Waves
    from posenc_cli.numerics.arrays import Integers, StoredRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.placements import Placement

Result = TypeVar("Result")

THREADS_FROM = 1 << 23
"""From this many values on, a second thread repays its start and the 4 MiB that it takes."""


def _numpy() -> Backend:
    return registry.find("numpy")


class Engine(Record):
    """Where and how values are computed. Exact arithmetic gives the same bytes on every engine.

    ``lost`` tells why a faster backend could not be used; it is empty otherwise.
    """

    backend: Backend = fresh(_numpy)
    arithmetic: Arithmetic = "exact"
    device: str | None = None
    threads: int = 1
    lost: str = ""

    def in_order(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """Yield ``function`` of each item, in the order of the items, on this engine's threads.

        Only a few results wait at any time, however many items there are.
        """
        if self.threads == 1:
            yield from map(function, items)
            return
        from concurrent.futures import Future, ThreadPoolExecutor

        waiting: deque[Future[Result]] = deque()
        pool = ThreadPoolExecutor(self.threads)
        try:
            for item in items:
                try:
                    waiting.append(pool.submit(function, item))
                except RuntimeError:  # no thread can be started: use this one
                    waiting.append(Future())
                    waiting[-1].set_result(function(item))
                if len(waiting) > self.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def threads_for(values: int, asked: int | None) -> int:
    """Return ``asked`` if it is given, else how many threads suit a job of ``values`` values."""
    if asked is not None:
        return asked
    return min(2, processors()) if values >= THREADS_FROM and has_room(ROOM_FOR_THREADS) else 1


def processors() -> int:
    """Return the number of processors this process may use."""
    import os

    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=8)
def wave_filler(waves: Waves, engine: Engine) -> WaveFiller:
    """Return the object that fills blocks with cosines and sines of ``waves`` on an engine.

    It is cached: its 60-digit frequencies and its table of phasors take longer than a short table.
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
    """Waves in a precision of frameworks, which converts parts of 1 to positions."""

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
