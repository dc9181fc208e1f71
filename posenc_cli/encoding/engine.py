"""The engine of a request: backend, device, threads and arithmetic."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

from posenc_cli.backends import registry
from posenc_cli.budget import ROOM_FOR_THREADS, has_room
from posenc_cli.records import Record, fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from posenc_cli.backends.base import Arithmetic, Backend

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS_FROM = 1 << 20
"""Values from which a second thread repays its start."""


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
