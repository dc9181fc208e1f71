"""Measure work beside large tables: checks, biases, narrow tables, steps and precisions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import posenc_cli as posenc
from benchmarks.measuring import Goal, Measurement, Section, paired
from benchmarks.posenc_tables import BASE, DIM, Work, engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.sizes import Sizes

HOW = (
    "Each row compares two cases: it divides the time of the first by the time of the second "
    "(column “compared with”). Unless the row says otherwise, the tables are rotary tables of "
    "{rows} × {dim} in float32. "
    "`posenc.encode` computes them in one process, in reused memory in the rows “generating the "
    "table”, and posenc chooses the number of threads. "
    "ALiBi's scores have 8 heads and {context} positions. Tables with 2, 8 and 16 columns have the "
    "same number of values as the table with {dim} columns."
)
NARROW = (2, 8, 16)
HEADS = 8
CHECK, IDENTIFY = "rope-check of tables", "identify"
WRONG, SHUFFLED = "rope-check, tables of another base", "rope-check of shuffled tables"
COMPARE, READ = "compare of different tables", "reading both tables"
GOALS: dict[object, Goal] = {
    COMPARE: Goal("at most", 6.0),  # both are read, and five passes stay in the cache
    CHECK: Goal("at most", 20.0),  # 0.25 s where the table takes 12.5 ms, as in 0.2.0
    WRONG: Goal("at most", 48.0),  # 0.6 s there
    SHUFFLED: Goal("at most", 48.0),
    (1 << 20, DIM): Goal("at most", 1.64),  # 0.35, 0.3 and 0.25 of what 0.2.0 took
    (1 << 17, DIM): Goal("at most", 2.46),
    (4096, 64): Goal("at most", 8.5),
}


def measured(sizes: Sizes) -> Section:
    """Return the time of each case relative to plain work of the same size."""
    rows = sizes.rows // 8
    found = [*_called(sizes), *_checks(rows, sizes), *_tables(rows, sizes), *_narrow(sizes)]
    found.append(_scores(sizes))
    how = HOW.format(rows=rows, dim=DIM, context=_context(sizes))
    return Section("Checks and other tables", how, tuple(found))


def _called(sizes: Sizes) -> Iterator[Measurement]:
    """Yield `posenc.encode` into the caller's array, relative to filling that array."""
    for rows, dim in ((sizes.rows, DIM), (sizes.rows // 8, DIM), (min(4096, sizes.rows), 64)):
        out, plain = Work(rows, "float32", dim).touched(), "fill"
        called = partial(posenc.encode, "rope", rows, dim=dim, base=BASE, out=out)
        functions: dict[str, Callable[[], object]] = {
            plain: partial(out.fill, 1),
            "called": called,
        }
        times = paired(functions, repetitions=max(9, sizes.repetitions))
        name = f"encode(out=), {rows} × {dim}"
        yield Measurement(name, plain, times.ratio("called", plain), goal=GOALS.get((rows, dim)))


def _checks(rows: int, sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time of checking a table, relative to computing that table."""
    tables = posenc.tables("rope", rows, dim=DIM, base=BASE)
    table = posenc.encode("rope", rows, dim=DIM, base=BASE)
    others = posenc.tables("rope", rows, dim=DIM, base=BASE + 1)
    order = np.random.default_rng(0).permutation(rows)
    checked = {
        CHECK: tables[:2],
        WRONG: others[:2],
        SHUFFLED: (tables[0][order], tables[1][order]),
    }
    made = "generating the table"
    out = Work(rows, "float32").touched()  # new memory would take most of the time
    functions: dict[str, Callable[[], object]] = {
        made: partial(posenc.encode, "rope", rows, dim=DIM, base=BASE, out=out),
        **{
            name: partial(posenc.rope_check, "rope", tables=given, dim=DIM, base=BASE)
            for name, given in checked.items()
        },
        IDENTIFY: partial(posenc.identify, table),
    }
    times = paired(functions, repetitions=sizes.repetitions)
    for name in (*checked, IDENTIFY):
        yield Measurement(name, made, times.ratio(name, made), goal=GOALS.get(name))
    other = posenc.encode("rope", rows, dim=DIM, base=BASE + 1)
    compared = partial(posenc.compare, table, other)
    functions = {READ: lambda: (table.max(), other.max()), COMPARE: compared}
    times = paired(functions, repetitions=sizes.repetitions)
    yield Measurement(COMPARE, READ, times.ratio(COMPARE, READ), goal=GOALS[COMPARE])


def _tables(rows: int, sizes: Sizes) -> Iterator[Measurement]:
    """Yield every second row, and frameworks' precisions, relative to the exact table."""
    plain = "the exact table"
    make = partial(posenc.encode, "rope", dim=DIM, base=BASE)
    functions: dict[str, Callable[[], object]] = {
        plain: partial(make, rows),
        "every second position": partial(make, f"0:{2 * rows}:2"),
        **{
            f"--arithmetic {arithmetic}": partial(make, rows, arithmetic=arithmetic)
            for arithmetic in ("float64", "float32", "bfloat16")
        },
    }
    times = paired(functions, repetitions=sizes.repetitions)
    for name in functions:
        if name != plain:
            yield Measurement(name, plain, times.ratio(name, plain))


def _narrow(sizes: Sizes) -> Iterator[Measurement]:
    """Yield the time of a value in a narrow table, relative to a wide one of the same size."""
    used = engine("numpy")
    assert used is not None
    wide = f"{DIM} columns"
    works = {wide: Work(sizes.rows // 8, "float32")}
    works |= {
        f"{dim} columns": Work(sizes.rows // 8 * DIM // dim, "float32", dim=dim) for dim in NARROW
    }
    times = paired(
        {name: partial(work.draw, used) for name, work in works.items()},
        repetitions=sizes.repetitions,
    )
    for name in works:
        if name != wide:
            yield Measurement(f"posenc numpy, {name}", wide, times.ratio(name, wide), threads=1)


def _scores(sizes: Sizes) -> Measurement:
    """Return the time of ALiBi's scores, relative to filling as much new memory."""
    context = _context(sizes)
    values = Work(HEADS * context * context // DIM, "float32")
    times = paired(
        {
            "fill": values.filled,
            "scores": partial(posenc.bias, "alibi", context, heads=HEADS),
        },
        repetitions=sizes.repetitions,
    )
    return Measurement("ALiBi's scores", "new memory, filled", times.ratio("scores", "fill"))


def _context(sizes: Sizes) -> int:
    return max(16, int(sizes.rows**0.5))
