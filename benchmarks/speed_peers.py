"""Measure how many times faster posenc is than its peers.

Peers, as their users write them, make new arrays, whose memory is used for the first time; here
posenc does that too. Code that reuses its memory is compared with posenc in used memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.machine import installed
from benchmarks.measuring import Goal, Measurement, Section, paired
from benchmarks.peers import LIBRARIES, reusing_numpy, reusing_torch, textbook_numpy, textbook_torch
from benchmarks.posenc_tables import DIM, Work, engine, torch_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.sizes import Sizes

POSENC = ("numpy", "fast")
DTYPE = "float32"
TEXTBOOK_GOALS = {"float32": 3.0, "float64": 10.0}
"""Goals of the numpy backend's speed-up over textbook NumPy, by precision."""

HOW = (
    "An entry is the time of the library divided by the time of posenc, for a float32 table of "
    "{rows} × {dim}. posenc computes exact values, with the same number of threads as the library. "
    "posenc and the library allocate new arrays; in rows with “reusing memory”, they reuse their "
    "arrays. If a library writes each value twice, only half of its time counts."
)


@dataclass(frozen=True)
class Rival:
    """A peer's table, made with some threads; ``missing`` names what is not installed."""

    name: str
    threads: int
    make: Callable[[], object]
    copies: int = 1
    reuses: bool = False
    goal: float | None = None
    missing: str | None = None


def measured(sizes: Sizes) -> Section:
    """Return textbook code in NumPy and torch, and libraries, relative to posenc."""
    work = Work(sizes.rows, DTYPE)
    found = tuple(
        _against(work, rival, backend, sizes)
        for rival in chain(_numpy(work), _torch(work, sizes))
        for backend in POSENC
    )
    return Section(
        "How many times faster than other libraries", HOW.format(rows=sizes.rows, dim=DIM), found
    )


def _numpy(work: Work) -> Iterator[Rival]:
    positions = np.arange(work.rows, dtype=np.int64)
    for compute, goal in TEXTBOOK_GOALS.items():
        name = f"textbook NumPy {compute}"
        yield Rival(name, 1, partial(textbook_numpy, positions, compute, DTYPE), goal=goal)
        reusing = reusing_numpy(work.rows, compute, DTYPE)
        yield Rival(f"{name}, reusing memory", 1, reusing, reuses=True, goal=goal)


def _torch(work: Work, sizes: Sizes) -> Iterator[Rival]:
    positions = np.arange(work.rows, dtype=np.int64)
    missing = None if installed("torch") else "torch is not installed"
    for threads in sizes.threads:
        textbook = partial(textbook_torch, positions, DTYPE)
        yield Rival("textbook torch", threads, textbook, missing=missing)
        name = "textbook torch, reusing memory"
        again = textbook if missing else reusing_torch(work.rows)
        yield Rival(name, threads, again, reuses=True, missing=missing)
        for library in LIBRARIES:
            if library.speed:
                yield Rival(
                    library.name,
                    threads,
                    partial(library.table, positions),
                    copies=library.copies,
                    missing=library.missing,
                )


def _against(work: Work, rival: Rival, backend: str, sizes: Sizes) -> Measurement:
    row = partial(
        Measurement,
        rival.name,
        f"posenc {backend}",
        dtype=DTYPE,
        threads=rival.threads,
        goal=Goal("at least", rival.goal) if rival.goal and backend == "numpy" else None,
    )
    used = engine(backend, threads=rival.threads)
    if rival.missing or used is None:
        return row(None, note=rival.missing or f"posenc {backend} is not available")
    ours = partial(work.fill, work.touched()) if rival.reuses else work.make
    with torch_threads(rival.threads):
        times = paired(
            {"rival": rival.make, "posenc": partial(ours, used)}, repetitions=sizes.repetitions
        )
    note = f"gives each value {rival.copies} times" if rival.copies > 1 else ""
    return row(times.ratio("rival", "posenc").scaled(1 / rival.copies), note=note)
