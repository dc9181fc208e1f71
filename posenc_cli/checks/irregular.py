"""What a function does that no map of each row by its position alone does, told apart by trial.

A function is called again, with rows in another order, with one row changed, with sums and
multiples of vectors: each kind of irregularity changes another of these results.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.payloads import Vectors
from posenc_cli.checks.serving import other_vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import HALVES, round_to_half
from posenc_cli.positions import range_texts
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.checks.patterns import PatternFault
    from posenc_cli.checks.serving import ServedFunction
    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray, UnitMatrices

    _Given = Callable[[NumberArray, Integers], NumberArray]
    _Differs = Callable[[NumberArray, NumberArray], bool]

ALIKE = 1e-4
"""Relative: two ways to ask for the same values agree to this, in any format but a half one."""

COARSE = 64
"""Times as far they may be apart in a half precision."""

UNSTEADY = "gives other values when it is called again with the same arguments"

_EARLY = 64
"""Positions below it are a short sequence of any model that takes longer ones."""

MULTIPLE = np.float32(1024)
"""What vectors are multiplied by to see whether results are: exact in any format."""


class Irregularity(Record):
    """What a function does beside turning each row by its position: its cause, and what shows it.

    ``unlike`` says why unit vectors say nothing of other vectors; it is empty where they do.
    """

    cause: Cause
    message: str
    evidence: str
    unlike: str = ""

    @property
    def text(self) -> str:
        """The irregularity in a sentence of its own."""
        return f"{self.message}: {self.evidence}" if self.evidence else self.message


_LISTED = 6
"""Heads, or runs of them, that are listed one by one."""

_FEW_ROWS = 8
"""Of a call that tells heads apart."""


class FunctionTrial(Record):
    """A function at some positions (n,): what it makes of random vectors, and what it should.

    ``expected`` (n, columns) is what ``matrices`` of unit vectors, [k, j, o], make of ``x``.
    """

    function: ServedFunction
    which: int
    positions: Integers
    matrices: UnitMatrices
    x: NumberArray
    expected: NumberArray

    @classmethod
    def of(
        cls, function: ServedFunction, which: int, positions: Integers, matrices: UnitMatrices
    ) -> FunctionTrial:
        """The trial of one result of a function."""
        shape = positions.size, function.form.columns
        x = np.random.default_rng(20).standard_normal(shape).astype(np.float32)
        return cls(function, which, positions, matrices, x, _turned(x, matrices))

    def given(self, x: NumberArray, positions: Integers) -> NumberArray:
        """What the function makes of rows at positions."""
        return self.function.values(x, positions, self.which)

    def differs(self, values: NumberArray, wanted: NumberArray, *, coarse: bool = False) -> bool:
        """Whether values are others than those wanted, by more than their format explains."""
        if not np.isfinite(wanted).all():
            return False
        half = coarse or values.dtype.itemsize < 4 or is_half(self.matrices)
        size = np.nanmax(np.abs(self.expected), initial=1e-30)
        limit = (COARSE if half else 1) * ALIKE * size
        return not bool(np.abs(values - wanted).max(initial=0) <= limit)


def _turned(x: NumberArray, matrices: UnitMatrices) -> NumberArray:
    """What matrices [k, j, o] make of vectors (k, columns)."""
    turned: NumberArray = np.einsum("kj,kjo->ko", x.astype(np.float64), matrices.astype(np.float64))
    return turned


def irregularities(trial: FunctionTrial) -> tuple[Irregularity, ...]:
    """What a function does that no map of each row by its position alone does.

    What a call leaves behind shows when calls of others have come between.
    """
    if not np.isfinite(trial.expected).all():
        return ()
    before = trial.given(trial.x, trial.positions)
    found = tuple(_irregularities(trial))
    if found:
        again = trial.given(trial.x, trial.positions)
        if np.isfinite(before).all() and trial.differs(again, before):
            return (_unsteady(again, before),)
    return found


def _irregularities(trial: FunctionTrial) -> Iterator[Irregularity]:
    """What shows in calls that follow on each other."""
    x, positions, expected = trial.x, trial.positions, trial.expected
    values = trial.given(x, positions)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        where = f"of a vector at position {positions[row]}; those of unit vectors are"
        yield _unmeasured("returned values that are not finite", where)
        return
    exchanged = _heads_exchanged(trial)
    if exchanged is not None:
        yield exchanged
        return
    if trial.differs(values, expected):
        yield from _unlike_its_matrices(trial, values)
    else:
        scaled = trial.given(x * MULTIPLE, positions) / MULTIPLE
        if trial.differs(scaled, expected):
            again = trial.given(x * MULTIPLE, positions) / MULTIPLE
            if trial.differs(again, scaled):
                yield _unsteady(again, scaled)
                return
            yield _unmeasured("is not linear in x", f"{MULTIPLE:g} times x gives another result")
        if not trial.function.form.from_zero:
            yield from _dependences(trial)


def _unsteady(again: NumberArray, before: NumberArray) -> Irregularity:
    off = np.abs(again - before).max()
    return _unmeasured(UNSTEADY, f"two calls differ by up to {off:.2g}")


def _unmeasured(what: str, evidence: str = "") -> Irregularity:
    return Irregularity(Cause.UNKNOWN, f"the function {what}", evidence, f"the function {what}")


def _unlike_its_matrices(trial: FunctionTrial, values: NumberArray) -> Iterator[Irregularity]:
    """Why vectors become other than the unit vectors that they are made of say."""
    counting = _counting(trial)
    if counting:
        evidence = "other positions given in their place change nothing"
        yield Irregularity(Cause.POSITION_OFFSET, counting, evidence, "the function counts rows")
        return
    other = other_vectors(trial.x)
    if trial.function.results == 2 and not trial.differs(values, _turned(other, trial.matrices)):
        yield Irregularity(
            Cause.UNKNOWN,
            "the function returns k where q is expected, or q for k",
            "each is what becomes of the other; they are expected in the order they are given in",
            "the function exchanges q and k",
        )
        return
    in_blocks = _in_blocks(trial)
    if in_blocks is not None:
        yield in_blocks
        return
    partner = _follows_partner(trial, values)
    if partner:
        yield _unmeasured(partner, "given others in its place, it gives other values")
        return
    rounding = _rounding_of_vectors(trial, values)
    if rounding is not None:
        yield rounding
        return
    added = _added(trial, values)
    if added is not None:
        yield added
        return
    mixing, bent = _mixing(trial, values), _bent(trial, values)
    if mixing:
        yield _unmeasured("mixes rows", mixing)
    if bent:
        yield _unmeasured("is not linear in x", bent)
    elif not mixing:
        other_sum = (
            "gives other values for vectors in one call than for their unit vectors in calls"
        )
        yield _heads_apart(trial) or _left_whole(trial) or _unmeasured(other_sum)


def _in_blocks(trial: FunctionTrial) -> Irregularity | None:
    """What goes wrong with rows that a kernel takes in blocks; None where nothing does so."""
    x = _rows_of_blocks(trial)
    return _left_out(trial, x) or _shared_in_blocks(trial, x)


def _rows_of_blocks(trial: FunctionTrial) -> NumberArray:
    """Vectors, as many as there are positions for. Shape: (n, columns)."""
    most = min(max(_COUNTS), int(trial.positions.max()))
    x = np.random.default_rng(22).standard_normal((most, trial.x.shape[1]))
    return x.astype(np.float32)


def _calls_of_blocks(trial: FunctionTrial, x: NumberArray) -> dict[int, NumberArray]:
    """What becomes of the first rows in calls of several lengths."""
    return {
        count: trial.given(x[:count], np.arange(1, count + 1))
        for count in _COUNTS
        if count <= len(x)
    }


def _left_whole(trial: FunctionTrial) -> Irregularity | None:
    """Where calls of several lengths leave all rows as given, so that no block shows."""
    x = _rows_of_blocks(trial)
    calls = _calls_of_blocks(trial, x)
    if any(trial.differs(values, x[:count]) for count, values in calls.items()):
        return None
    return Irregularity(
        Cause.NO_ROTATION,
        f"all rows of calls of up to {max(calls)} rows are left as given",
        f"calls of {_numbers([*calls])} rows show it",
        "the function leaves rows out",
    )


def _left_out(trial: FunctionTrial, x: NumberArray) -> Irregularity | None:
    """What becomes of rows that fill no block; None where none are left out so."""
    calls, opposite = _calls_of_blocks(trial, x), [*_calls_of_blocks(trial, -x).values()]
    for cause, what, wanted in (
        (Cause.NO_ROTATION, "left as given", [x[:count] for count in calls]),
        (
            Cause.UNINITIALISED,
            "not written: they are the same whatever is given",
            opposite,
        ),
    ):
        found = [
            np.array([not trial.differs(*pair) for pair in zip(*of_call, strict=True)])
            for of_call in zip(calls.values(), wanted, strict=True)
        ]
        block = _block_left_out(found)
        if block is not None:
            return Irregularity(
                cause,
                f"rows behind the last whole block of {block} are {what}",
                f"calls of {_numbers([*calls])} rows show it",
                "the function leaves rows out",
            )
    return None


def _block_left_out(found: Sequence[Flags]) -> int | None:
    """The rows of a block behind whose last whole one rows are left out, by flags of each call."""
    for block in _BLOCKS:
        if block <= found[-1].size and all(
            np.array_equal(flags, np.arange(flags.size) >= flags.size // block * block)
            for flags in found
        ):
            return block
    return None


def _shared_in_blocks(trial: FunctionTrial, x: NumberArray) -> Irregularity | None:
    """What becomes of rows that share a position with others of a block; None where none do."""
    positions = 1 + 3 * np.arange(min(len(x), int(trial.positions.max())) // 3)[:_SHARED]
    if positions.size < _SHARED or trial.function.form.from_zero:
        return None
    values = trial.given(x[:_SHARED], positions)
    for block in (1, *(block for block in _BLOCKS if block <= _SHARED)):
        used = positions[np.arange(_SHARED) // block * block]
        alone = [trial.given(x[[row]], used[[row]]) for row in range(_SHARED)]
        if not trial.differs(values, np.concatenate(alone)):
            if block == 1:
                return None
            # As many rows as the call has may be a part of a larger block.
            which = f"a block of {block}" if block < _SHARED else f"a call of {_SHARED}"
            return Irregularity(
                Cause.POSITION_OFFSET,
                f"all rows of {which} are turned at the position of its first",
                f"a call of {_SHARED} rows at every third position shows it",
                "the function shares positions",
            )
    return None


_SHARED = 32
"""Rows of a call that tells blocks apart, whose positions are of the first of each."""

_BLOCKS = (2, 4, 8, 16, 32, 64, 128)
"""Rows that a kernel takes at once."""

_COUNTS = (1, 2, 3, 5, 7, 8, 13, 16, 27, 32, 45, 64, 77, 128, 133)
"""Rows of calls that tell blocks apart: those that fill one, and others."""


def _follows_partner(trial: FunctionTrial, values: NumberArray) -> str:
    """That what becomes of q depends on k, or of k on q; empty where it does not."""
    function, form = trial.function, trial.function.form
    if function.results < 2 or function.follows_length or not form.any_rows:
        return ""
    own = Vectors(trial.x[None, :, None], trial.positions.size)
    partner = Vectors(other_vectors(other_vectors(trial.x))[None, :, None], trial.positions.size)
    given = [own, partner] if trial.which == 0 else [partner, own]
    turned = function.together(form, trial.positions[None], given)[trial.which].values[0][:, 0]
    names = ("q", "k") if trial.which == 0 else ("k", "q")
    return "makes {} of {} as well".format(*names) if trial.differs(turned, values) else ""


def _heads_exchanged(trial: FunctionTrial) -> Irregularity | None:
    """Which heads of one call come back in the places of others; None where none do."""
    function, form = trial.function, trial.function.form
    positions = np.arange(min(_FEW_ROWS, trial.positions.size))
    apart = "h" in form.axes and not form.flat and not function.follows_length
    if not apart or positions[-1] > trial.positions.max():
        return None
    # Each is given another multiple of the same vectors, which tells them apart in one call.
    count, x = form.columns, trial.x[: positions.size]
    multiples = 1 + np.arange(count, dtype=np.float32) / count
    both = [part[None, :, None] * multiples[:, None] for part in (x, other_vectors(x))]
    given = [
        Vectors(part, positions.size)
        for part in (both if trial.which == 0 else both[::-1])[: len(form.vectors)]
    ]
    try:
        heads = function.together(form, positions[None], given)[trial.which].values[0]
        alone = trial.given(x, positions)  # (n, columns)
    except InvalidInput:
        function.revive()
        return None
    heads = heads.reshape(positions.size, -1, alone.shape[1])
    shares = np.einsum("nhc,nc->h", heads, alone) / max(float((alone**2).sum()), 1e-30)
    sources = np.rint((shares - 1) * count)
    moved = np.flatnonzero(sources != np.arange(count))
    if not moved.size or sorted(sources.tolist()) != list(range(count)):
        return None
    if trial.differs(heads, alone[:, None] * multiples[sources.astype(np.int64), None]):
        return None
    shown = ", ".join(f"head {sources[head] + 1:g} as {head + 1}" for head in moved[:3])
    return Irregularity(
        Cause.LAYOUT,
        f"heads change places: {shown}{', …' if moved.size > 3 else ''}",
        f"in a call with {count} heads each comes back so",
        "heads change places",
    )


def _heads_apart(trial: FunctionTrial) -> Irregularity | None:
    """What becomes of heads of one call otherwise than of its first, or in calls of fewer."""
    function, form = trial.function, trial.function.form
    if "h" not in form.axes or form.flat or function.follows_length:
        return None
    positions = trial.positions
    if not form.any_rows:
        positions = np.arange(min(positions.size, int(positions.max()))) + (not form.from_zero)
    count, rows, own = form.columns, positions.size, trial.x[: positions.size]

    def of_heads(x: NumberArray, count: int = count) -> NumberArray:
        """What becomes of vectors (n, columns), the same for each head: (n, heads, columns)."""
        both = [x, other_vectors(x)]
        given = [
            Vectors(np.repeat(part[None, :, None], count, axis=2), rows)
            for part in (both if trial.which == 0 else both[::-1])[: len(form.vectors)]
        ]
        heads: NumberArray = function.together(form, positions[None], given)[trial.which].values[0]
        return heads

    def same(heads: NumberArray, wanted: NumberArray) -> Flags:
        return np.array([not trial.differs(heads[:, head], wanted) for head in range(count)])

    heads = of_heads(own)
    first = heads[:, 0]
    as_first = same(heads, first)
    if as_first.all():
        return _by_heads(trial, own, {few: of_heads(own, few) for few in (1, *_HEADS, count)})
    stay = same(heads, own)
    turned = heads[:, int(np.argmin(stay))]
    if stay.any() and not stay.all() and same(heads, turned)[~stay].all():
        message = f"{_numbered(stay)} left as given"
        evidence = "in one call in which all hold the same vectors"
        return Irregularity(Cause.NO_ROTATION, message, evidence, UNLIKE_HEADS)
    if np.array_equal(same(of_heads(first), own), ~as_first):
        message = f"{_numbered(~as_first)} turned the other way round than head 1"
        evidence = "given what head 1 becomes, they give back what it was"
        return Irregularity(Cause.DIRECTION, message, evidence, UNLIKE_HEADS)
    evidence = f"{_numbered(~as_first)} turned otherwise than head 1"
    return _unmeasured("turns heads differently", evidence)


def _by_heads(
    trial: FunctionTrial, x: NumberArray, calls: dict[int, NumberArray]
) -> Irregularity | None:
    """In calls of how many heads they become otherwise; ``calls`` are their results by number."""
    most = max(calls)
    wrong = [count for count in calls if trial.differs(calls[count][:, 0], calls[most][:, 0])]
    if not wrong:
        return None
    right = [count for count in calls if count not in wrong]
    for which, others in ((wrong, right), (right, wrong)):
        if not any(trial.differs(calls[count][:, 0], x) for count in which):
            message = f"in calls of {_numbers(which)} heads the first is left as given"
            evidence = f"in those of {_numbers(others)} it is not"
            return Irregularity(Cause.NO_ROTATION, message, evidence, UNLIKE_HEADS)
    evidence = f"in calls of {_numbers(wrong)} heads otherwise than of {_numbers(right)}"
    return _unmeasured("turns a row by how many heads there are", evidence)


def _numbers(some: Sequence[int]) -> str:
    return ", ".join(map(str, some))


_HEADS = (2, 3, 4, 8, 12, 16, 32)
"""How many heads calls have that are held to one of a single head."""

UNLIKE_HEADS = "the function turns heads differently"


def _numbered(some: Flags) -> str:
    """Some heads of a call, counted from 1, as the beginning of a sentence."""
    texts = range_texts(list(np.flatnonzero(some) + 1))
    numbers = ", ".join(texts if len(texts) <= _LISTED else [*texts[:3], "…", texts[-1]])
    text = "heads {} of {} are" if some.sum() > 1 else "head {} of {} is"
    return text.format(numbers, some.size)


def _counting(trial: FunctionTrial) -> str:
    """How rows are turned by their order in the call; empty where their positions matter.

    Positions that begin above 0 are exchanged for others that a function which counts takes alike.
    Fewer than three rows cannot tell, for calls of two lengths are compared.
    """
    form = trial.function.form
    where = trial.positions[trial.positions.size // 4 :]
    if not (form.has("positions") or form.chosen) or where.size < 3:
        return ""
    x, first, last = trial.x[: where.size], where[0], where[-1]
    values = trial.given(x, where)
    if not trial.differs(trial.given(x[::-1], where)[::-1], values):
        return ""
    counted = np.arange(where.size)
    # What is counted turns a vector otherwise in each row.
    of_one = trial.given(np.repeat(x[:1], where.size, axis=0), where)
    if not all(trial.differs(*pair) for pair in pairwise(of_one)):
        return ""
    ways = (
        ("the positions that it is given are ignored: it counts rows", where // 2),
        ("of the positions only the first is used: rows are counted from it", first + counted),
    )
    for text, other in ways:
        if other[-1] <= last and not trial.differs(trial.given(x, other), values):
            # Of lengths that no call had before: a cache by length has nothing for them.
            first, second = (trial.given(x[:-k], rows[:-k]) for k, rows in ((1, where), (2, other)))
            if trial.differs(first[:-1], second):
                return "calls of one length all have the positions of the first of that length"
            return text
    return ""


def _rounding_of_vectors(trial: FunctionTrial, values: NumberArray) -> Irregularity | None:
    """The half precision that vectors are rounded to before they turn, None where they are not."""
    if trial.differs(values, trial.expected, coarse=True):
        return None
    off = float(np.abs(values - trial.expected).max())
    for half in HALVES:
        rounded = round_to_half(trial.x.astype(np.float64), half)
        if not trial.differs(values, _turned(rounded, trial.matrices)):
            return Irregularity(
                Cause.TABLE_PRECISION,
                f"the vectors are rounded to {half} before they turn",
                f"results are off by up to {off:.2g}, and are those of vectors so rounded; "
                "cosines and sines are not rounded so",
            )
    # A rounding keeps multiples by a power of two, and no sums; what is smooth bends both.
    if not trial.differs(trial.given(trial.x * MULTIPLE, trial.positions) / MULTIPLE, values):
        return Irregularity(
            Cause.TABLE_PRECISION,
            "vectors, or what becomes of them, are rounded to less than float32 inside",
            f"results are off by up to {off:.2g}, by as much of any multiple",
        )
    return None


def _added(trial: FunctionTrial, values: NumberArray) -> Irregularity | None:
    """What is added to each row whatever it holds; None where that is not all there is."""
    shift = trial.given(np.zeros_like(trial.x), trial.positions).astype(np.float64)
    if not np.isfinite(shift).all() or not trial.differs(shift, np.zeros_like(shift)):
        return None
    matrices = trial.matrices - shift[:, None, :]  # a unit vector comes out with it, too
    if trial.differs(values, _turned(trial.x, matrices) + shift):
        return None
    lengths = np.linalg.norm(shift, axis=1)  # (n,)
    row = int(np.argmax(lengths))
    evidence = (
        f"a row of zeros at position {trial.positions[row]} becomes one of length "
        f"{lengths[row]:.4g}; less such rows it is linear"
    )
    products = np.einsum("kjo,kio->kji", matrices, matrices)
    unit, near = np.eye(matrices.shape[1]), ALIKE * (1 + np.abs(shift).max())
    cause, message = Cause.UNKNOWN, "a vector is added to each row"
    if np.abs(matrices - unit).max() <= near:
        cause, message = Cause.NO_ROTATION, "a vector is added to each row, and nothing turns"
    elif np.ptp(shift, axis=0).max() <= near:
        message = "the same vector is added to each row"
    elif np.abs(products - unit).max() <= near and np.ptp(lengths) <= near * lengths[row]:
        cause = Cause.COS_SIN_MISPAIRED
        message = "rows are turned, and a vector of the same length at all positions is added"
    return Irregularity(cause, message, evidence, "the function adds to each row")


def _mixing(trial: FunctionTrial, values: NumberArray) -> str:
    """How the result of one row follows from another; empty where none does."""
    changed = trial.positions.size // 2
    x = trial.x.copy()
    x[changed] = -2 * x[changed]
    other = np.arange(trial.positions.size) != changed
    apart = np.abs(trial.given(x, trial.positions) - values).max(axis=1) * other
    row = int(np.argmax(apart))
    if not trial.differs(apart, np.zeros_like(apart)):
        return ""
    at, by = (int(trial.positions[index]) for index in (row, changed))
    return f"where the row at position {by} alone changes, that at position {at} does too"


def _bent(trial: FunctionTrial, values: NumberArray) -> str:
    """Which sum or multiple of vectors comes out as another; empty where none does."""
    x, positions = trial.x, trial.positions
    if trial.differs(trial.given(x * MULTIPLE, positions) / MULTIPLE, values):
        return f"{MULTIPLE:g} times x gives another result"
    second = x[:, ::-1].copy()
    total = trial.given((x + second) / 2, positions)
    if trial.differs(total, (values + trial.given(second, positions)) / 2):
        return "the sum of two vectors does not become the sum of what they become"
    return ""


def _dependences(trial: FunctionTrial) -> Iterator[Irregularity]:
    """What a row's result depends on beside the row and its position."""
    x, positions, expected = trial.x, trial.positions, trial.expected
    backward = trial.given(x[::-1], positions[::-1])[::-1]
    if trial.differs(backward, expected):
        used = _counting(trial) or _one_for_all(trial)
        if used:
            yield Irregularity(Cause.POSITION_OFFSET, used, "reproduced at other positions as well")
            return
        yield _of_rows("depends on the order of the rows, not on their positions alone")
    ends = [0, positions.size - 1]
    alone = np.concatenate([trial.given(x[[k]], positions[[k]]) for k in ends])
    if trial.differs(alone, expected[ends]):
        in_blocks = _in_blocks(trial)
        if in_blocks is not None:
            yield in_blocks
            return
        yield _of_rows("depends on how many rows it is given, not on their positions alone")


def _one_for_all(trial: FunctionTrial) -> str:
    """Which positions of a call stand for those of its rows; empty where none do."""
    where = np.roll(trial.positions[trial.positions.size // 4 :], trial.positions.size // 3)
    x = trial.x[: where.size]
    values = trial.given(x, where)
    ways = (
        (
            "positions are sorted: rows in another order are turned as if they ascended",
            np.sort(where),
        ),
        (
            "where positions of a call fall, rows are turned at the largest before them",
            np.maximum.accumulate(where),
        ),
        (
            "all rows of a call are turned at the position of its first",
            np.full_like(where, where[0]),
        ),
        (
            "all rows of a call are turned at the position of its last",
            np.full_like(where, where[-1]),
        ),
    )
    return next((text for text, used in ways if _turned_at(trial, x, values, used)), "")


def _turned_at(trial: FunctionTrial, x: NumberArray, values: NumberArray, used: Integers) -> bool:
    """Whether rows are those of a call at other positions, and of each of these alone."""
    if trial.differs(trial.given(x, used), values):
        return False
    alone = [trial.given(x[[row]], used[[row]]) for row in range(used.size)]
    return not trial.differs(np.concatenate(alone), values)


def _of_rows(evidence: str) -> Irregularity:
    return Irregularity(Cause.UNKNOWN, _NO_MAP, evidence)


_NO_MAP = "what it does to a row does not follow from the row and its position"


def with_faults(
    faults: Sequence[PatternFault], found: Sequence[Irregularity]
) -> tuple[Irregularity, ...]:
    """All that is irregular, first what explains more: also what the ways to call it show.

    Where rows mix, or nothing repeats, these differ for no reason of their own; where rows are
    taken for positions, no result follows from a row.
    """
    telling = tuple(one for one in found if one.message != _NO_MAP)
    if telling:
        return telling
    told = [
        Irregularity(
            fault.cause if fault.known else Cause.UNKNOWN,
            fault.known or _NO_MAP,
            fault.text,
        )
        for fault in sorted(faults, key=lambda fault: not fault.known)
    ]
    return tuple(told) if any(fault.known for fault in faults) else (*told, *found)


def length_note(trial: FunctionTrial) -> str:
    """What to note of a function that turns early positions otherwise in a call of their own.

    Empty where it does not, as with dynamic NTK, whose base follows the longest position.
    """
    early = trial.positions < _EARLY
    if trial.function.form.from_zero or early.all() or not trial.positions[early].any():
        return ""
    alone = trial.given(trial.x[early], trial.positions[early])
    if not trial.differs(alone, trial.expected[early]):
        return ""
    last, longest = trial.positions[early].max(), trial.positions.max()
    return (
        f"it depends on the length: positions up to {last} in a call of their own do not turn as "
        f"they do beside position {longest}"
    )


def returned_half(trial: FunctionTrial) -> str | None:
    """The half precision that a function gives all that it returns, None where there is none.

    Unit vectors show the cosines and sines alone; what was rounded last, random vectors show too.
    """
    for half in HALVES:
        if not np.array_equal(round_to_half(trial.matrices, half), trial.matrices):
            continue
        values = trial.given(trial.x, trial.positions)
        if np.array_equal(round_to_half(values, half), values):
            return half
    return None


def is_half(matrices: UnitMatrices) -> bool:
    """Whether all values lie on the grid of float16, bfloat16 or coarser: torch's come widened."""
    if matrices.dtype != np.float32:
        return matrices.dtype.itemsize < 4
    return not bool((np.ascontiguousarray(matrices).view(np.uint32) & np.uint32(0x1FFF)).any())
