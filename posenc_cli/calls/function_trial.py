"""A function called at some positions, and whether it does more than rotate each row.

No map of each row by its position alone does that. The function is called again, with rows in
another order, with one row changed, with sums and multiples of vectors: each kind of irregularity
changes another of these results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import HALVES, round_to_half
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.numerics.arrays import Integers, NumberArray, UnitMatrices

ALIKE = 1e-4
"""Relative: two ways to ask for the same values agree to this, in any format but a half one."""


COARSE = 64
"""Times as far they may be apart in a half precision."""


UNSTEADY = "is not deterministic: a second call with the same arguments differs"


MULTIPLE = np.float32(1024)
"""What vectors are multiplied by to see whether results are: exact in any format."""


class Irregularity(Record):
    """What a function does beside rotating each row by its position: its cause, and what shows it.

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
        return cls(function, which, positions, matrices, x, turned_vectors(x, matrices))

    def given(self, x: NumberArray, positions: Integers) -> NumberArray:
        """What the function makes of rows at positions."""
        return self.function.values(x, positions, self.which)


def turned_vectors(x: NumberArray, matrices: UnitMatrices) -> NumberArray:
    """What matrices [k, j, o] make of vectors (k, columns)."""
    turned: NumberArray = np.einsum("kj,kjo->ko", x.astype(np.float64), matrices.astype(np.float64))
    return turned


def is_half(matrices: UnitMatrices) -> bool:
    """Whether all values lie on the grid of float16, bfloat16 or coarser: torch's come widened."""
    if matrices.dtype != np.float32:
        return matrices.dtype.itemsize < 4
    return not bool((np.ascontiguousarray(matrices).view(np.uint32) & np.uint32(0x1FFF)).any())


def vectors_differ(values: NumberArray, wanted: NumberArray) -> bool:
    """Whether values are others than those wanted, by more than their format leaves open."""
    if np.array_equal(values, wanted):  # as most are: the rest costs three times as much
        return False
    size = np.abs(wanted).max(initial=0)
    if not np.isfinite(size):
        return False
    off = np.abs(values - wanted).max(initial=0)
    if off <= ALIKE * size:
        return False
    half = values.dtype.itemsize < 4 or is_half(values)
    return not (half and off <= COARSE * ALIKE * size)


def unmeasured(what: str, evidence: str = "") -> Irregularity:
    """What a function does for which no cause is known, and which keeps it from being measured."""
    return Irregularity(Cause.UNKNOWN, f"the function {what}", evidence, f"the function {what}")


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
        if np.isfinite(before).all() and vectors_differ(again, before):
            off = np.abs(again - before).max()
            return (unmeasured(UNSTEADY, f"two calls differ by up to {off:.2g}"),)
    return found


def _irregularities(trial: FunctionTrial) -> Iterator[Irregularity]:
    """What shows in calls that follow on each other."""
    x, positions, expected = trial.x, trial.positions, trial.expected
    values = trial.given(x, positions)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        where = f"for a vector at position {positions[row]}; results for unit vectors are finite"
        yield unmeasured("returned NaN or infinity", where)
    elif vectors_differ(trial.given(x * MULTIPLE, positions) / MULTIPLE, values):
        yield unmeasured("is not linear in x", f"f({MULTIPLE:g}·x) is not {MULTIPLE:g}·f(x)")
    elif vectors_differ(values, expected):
        yield Irregularity(
            Cause.UNKNOWN,
            _differing_rows(trial, values),
            "the result for a row must be the weighted sum of the results for unit vectors",
            "results for vectors are not the sum of the results for unit vectors",
        )
    elif not trial.function.form.from_zero:
        yield from _dependences(trial)


def _differing_rows(trial: FunctionTrial, values: NumberArray) -> str:
    """Which rows differ from the results for the unit vectors that they are made of."""
    wrong = [vectors_differ(*pair) for pair in zip(values, trial.expected, strict=True)]
    at, off = trial.positions[wrong], np.abs(values - trial.expected).max()
    where = f"position {at[0]}" if at.size == 1 else f"positions {at[0]} to {at[-1]}"
    return (
        f"at {where}, results for vectors differ from the sums over their unit vectors, by up to "
        f"{off:.2g}"
    )


def _dependences(trial: FunctionTrial) -> Iterator[Irregularity]:
    """What a row's result depends on beside the row and its position."""
    x, positions, expected = trial.x, trial.positions, trial.expected
    backward = trial.given(x[::-1], positions[::-1])[::-1]
    if vectors_differ(backward, expected):
        evidence = "depends on the order of the rows, not on their positions alone"
        yield Irregularity(Cause.UNKNOWN, NO_MAP, evidence)
    ends = [0, positions.size - 1]
    alone = np.concatenate([trial.given(x[[k]], positions[[k]]) for k in ends])
    if vectors_differ(alone, expected[ends]):
        evidence = "depends on the number of rows, not on their positions alone"
        yield Irregularity(Cause.UNKNOWN, NO_MAP, evidence)


NO_MAP = "the result for a row depends on more than the row and its position"


def with_faults(
    faults: Sequence[Irregularity], found: Sequence[Irregularity]
) -> tuple[Irregularity, ...]:
    """All that is irregular, first what explains more: also what the ways to call it show.

    Where rows mix, or nothing repeats, these differ for no reason of their own; where rows are
    taken for positions, no result follows from a row.
    """
    telling = tuple(one for one in found if one.message != NO_MAP)
    named = tuple(fault for fault in faults if fault.message != NO_MAP)
    unnamed = tuple(fault for fault in faults if fault.message == NO_MAP)
    return telling or (*named, *unnamed, *(() if named else found))


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
