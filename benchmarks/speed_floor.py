"""Measure tables in existing memory, as multiples of filling that memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.measuring import Goal, Measurement, Section, paired
from benchmarks.peers import reusing_numpy
from benchmarks.posenc_tables import DIM, Work, engine, torch_threads
from posenc_cli.backends import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from benchmarks.sizes import Sizes

DTYPES = ("float32", "float16", "bfloat16", "float64")
FLOOR = "fill"
GOALS = {
    ("numpy", "float32", 1): 8.0,
    ("numpy", "float64", 1): 4.0,
    ("fast", "float32", 1): 1.5,
    ("fast", "float32", 2): 1.1,
    ("fast", "float64", 1): 1.7,
    ("fast", "float64", 2): 1.1,
    ("fast", "float16", 1): 3.0,
    ("fast", "float16", 2): 1.7,
    ("fast", "bfloat16", 1): 3.0,
    ("fast", "bfloat16", 2): 1.7,
}
HOW = (
    "An entry is the time to compute a rotary table of {rows} × {dim} in reused memory, divided by "
    "the time of NumPy's `fill` on the same array. In rows with “in blocks”, posenc computes one "
    "block after the other and does not keep the blocks, as in streaming. In rows with “new "
    "memory”, posenc allocates a new array each time; the divisor is the time of `np.empty` and "
    "`fill`."
)


def measured(sizes: Sizes) -> Section:
    """Return posenc's backends and textbook code that reuses memory, relative to ``fill``."""
    found: list[Measurement] = []
    for dtype in DTYPES:
        work = Work(sizes.rows, dtype)
        out = work.touched()
        for backend in registry.BUILT_IN:
            if backend == "torch" and dtype not in ("float32", "float64"):
                continue  # a hundred times the floor: minutes to say that it is slow
            for threads in sizes.threads:
                found += _posenc(work, out, backend, threads=threads, sizes=sizes)
        found += _textbook(work, partial(out.fill, 1), sizes)
    return Section(
        "Speed, as multiples of filling the same memory",
        HOW.format(rows=sizes.rows, dim=DIM),
        tuple(found),
    )


def _posenc(
    work: Work, out: NDArray[Any], backend: str, *, threads: int, sizes: Sizes
) -> Iterator[Measurement]:
    limit = GOALS.get((backend, work.dtype, threads))
    goal = Goal("at most", limit) if limit else None
    row = partial(Measurement, against=FLOOR, dtype=work.dtype, threads=threads)
    used = engine(backend, threads=threads)
    if used is None:
        yield row(f"posenc {backend}", spread=None, goal=goal, note="not available")
        return
    functions: dict[str, Callable[[], object]] = {
        FLOOR: partial(out.fill, 1),
        "into": partial(work.fill, out, used),
        "floor again": partial(out.fill, 1),
        "drawn": partial(work.draw, used),
        "new floor": work.filled,
        "made": partial(work.make, used),
    }
    with torch_threads(threads):
        times = paired(functions, repetitions=sizes.repetitions)
    yield row(f"posenc {backend}", spread=times.ratio("into", FLOOR), goal=goal)
    yield row(f"posenc {backend}, in blocks", spread=times.ratio("drawn", "floor again"))
    yield row(f"posenc {backend}, new memory", spread=times.ratio("made", "new floor"))


def _textbook(work: Work, fill: Callable[[], object], sizes: Sizes) -> Iterator[Measurement]:
    if work.dtype == "bfloat16":  # NumPy has none
        return
    for compute in ("float64",) if work.dtype == "float64" else ("float32", "float64"):
        textbook = reusing_numpy(work.rows, compute, work.dtype)
        times = paired({FLOOR: fill, "textbook": textbook}, repetitions=sizes.repetitions)
        yield Measurement(
            f"textbook NumPy {compute}, reusing memory",
            FLOOR,
            times.ratio("textbook", FLOOR),
            dtype=work.dtype,
            threads=1,
        )
