"""What computes a request: backend, device, threads and arithmetic, and what fills its waves."""

from __future__ import annotations

from collections import deque
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from posenc_cli.backends import registry
from posenc_cli.budget import ROOM_FOR_THREADS, has_room
from posenc_cli.numerics import exact
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from posenc_cli.backends.base import Arithmetic, Backend, ReducedFiller, WaveFiller
    from posenc_cli.formulas.declare import Waves
    from posenc_cli.numerics.arrays import Integers, StoredRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.placements import Placement

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS_FROM = 1 << 23
"""Values from which a second thread repays its start, and the 4 MiB that it takes."""


def _numpy() -> Backend:
    return registry.find("numpy")


class Engine(Record):
    """Where and how values are computed. Exact arithmetic gives the same bytes on every engine.

    ``lost`` says why a faster backend could not be taken, empty where that is not so.
    """

    backend: Backend = fresh(_numpy)
    arithmetic: Arithmetic = "exact"
    device: str | None = None
    threads: int = 1
    lost: str = ""

    def in_order(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """``function`` of each item, in the order of the items, on this engine's threads.

        Only a few results are ever waiting, however many items there are.
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
                except RuntimeError:  # no thread can be started: this one does the work
                    waiting.append(Future())
                    waiting[-1].set_result(function(item))
                if len(waiting) > self.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def threads_for(values: int, asked: int | None) -> int:
    """How many threads suit a job of so many values, unless the user asked for a number."""
    if asked is not None:
        return asked
    return min(2, processors()) if values >= THREADS_FROM and has_room(ROOM_FOR_THREADS) else 1


def processors() -> int:
    """How many processors this process may use."""
    import os

    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
