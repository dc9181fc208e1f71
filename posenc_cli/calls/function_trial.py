"""Test whether a function does more than rotate each row by its position.

The function is called again with rows in another order, with fewer rows, with scaled vectors, and
with sums of unit vectors. Each kind of irregularity changes another of these results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.serving import ServedFunction, with_other_vectors
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.tolerance import PER_ANGLE
from posenc_cli.numerics.halves import HALVES, round_to_half
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.numerics.arrays import Integers, NumberArray, UnitMatrices

ALIKE = 1e-4
"""Relative tolerance between two calls for the same values, except in half precisions."""


COARSE = 64
"""Factor of this tolerance in a half precision."""


UNSTEADY = "is not deterministic: a second call with the same arguments differs"


MULTIPLE = np.float32(1024)
"""Factor of vectors in the test of linearity; exact in any format."""


class Irregularity(Record):
    """An effect of a function beyond rotating each row by its position: its cause and evidence.

    ``unlike`` says why results for unit vectors do not determine those of other vectors; it is ""
    if they do.
    """

    cause: Cause
    message: str
    evidence: str
    unlike: str = ""

    @property
    def text(self) -> str:
        """The irregularity as a sentence."""
        return f"{self.message}: {self.evidence}" if self.evidence else self.message


class FunctionTrial(Record):
    """A function at some positions (n,), with random vectors and the results that they must have.

    ``expected`` (n, columns) is the product of ``x`` and ``matrices``, the results [k, j, o] for
    unit vectors.
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
        """Return the trial of one result of a function."""
        shape = positions.size, function.form.columns
        x = np.random.default_rng(20).standard_normal(shape).astype(np.float32)
        return cls(function, which, positions, matrices, x, apply_matrices(x, matrices))

    def call(self, x: NumberArray, positions: Integers) -> NumberArray:
        """Return the function's results for rows at positions."""
        return self.function.values(x, positions, self.which)

    @property
    def exchanges(self) -> bool:
        """Whether the result for q is returned in place of that for k, and the reverse."""
        if self.function.results < 2:
            return False
        given = with_other_vectors(self.x, self.which)
        values = self.function.each_value(given, self.positions)
        wanted = [apply_matrices(part, self.matrices) for part in reversed(given)]
        return not any(map(vectors_differ, values, wanted))


def apply_matrices(x: NumberArray, matrices: UnitMatrices) -> NumberArray:
    """Return the products of vectors (k, columns) with matrices [k, j, o]."""
    products: NumberArray = np.einsum(
        "kj,kjo->ko", x.astype(np.float64), matrices.astype(np.float64)
    )
    return products


def is_half(matrices: UnitMatrices) -> bool:
    """Return whether values have the precision of float16 or less.

    bfloat16 values arrive as float32, so float32 values of 11 significant bits count too.
    """
    if matrices.dtype != np.float32:
        return matrices.dtype.itemsize < 4
    return not bool((np.ascontiguousarray(matrices).view(np.uint32) & np.uint32(0x1FFF)).any())


def alike_at(function: ServedFunction, position: int) -> float:
    """Return the relative tolerance between two calls for the row at a position.

    Each may have the error of its angle in float32: XLA rounds the quotients of one row and of many
    differently. Single rows are compared with the reference too, if it is symmetric.
    """
    symmetric = function.process.reference.symmetric
    return max(ALIKE, min(1.0, 2 * PER_ANGLE * position)) if symmetric else ALIKE


def vectors_differ(values: NumberArray, wanted: NumberArray, alike: float = ALIKE) -> bool:
    """Return whether values differ from those wanted by more than their format explains."""
    if np.array_equal(values, wanted):  # usual, and three times as fast
        return False
    size = np.abs(wanted).max(initial=0)
    if not np.isfinite(size):
        return False
    off = np.abs(values - wanted).max(initial=0)
    if off <= alike * size:
        return False
    half = values.dtype.itemsize < 4 or is_half(values)
    return not (half and off <= COARSE * ALIKE * size)


def unmeasurable(what: str, evidence: str = "") -> Irregularity:
    """Return the irregularity of a function that cannot be measured, for an unknown cause."""
    return Irregularity(Cause.UNKNOWN, f"the function {what}", evidence, f"the function {what}")


def irregularities(trial: FunctionTrial) -> tuple[Irregularity, ...]:
    """Return the effects of a function beyond a map of each row by its position.

    If there are any, the first call is repeated: the calls in between show state that they leave.
    """
    if not np.isfinite(trial.expected).all():
        return ()
    before = trial.call(trial.x, trial.positions)
    found = tuple(_irregularities(trial))
    if found:
        again = trial.call(trial.x, trial.positions)
        if np.isfinite(before).all() and vectors_differ(again, before):
            off = np.abs(again - before).max()
            return (unmeasurable(UNSTEADY, f"two calls differ by up to {off:.2g}"),)
    return found


def _irregularities(trial: FunctionTrial) -> Iterator[Irregularity]:
    """Yield what calls with the vectors themselves show."""
    x, positions, expected = trial.x, trial.positions, trial.expected
    values = trial.call(x, positions)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        evidence = f"for a vector at position {positions[row]}; results for unit vectors are finite"
        yield unmeasurable("returned NaN or infinity", evidence)
    elif vectors_differ(values, expected) and trial.exchanges:
        yield Irregularity(
            Cause.UNKNOWN,
            "the results for q and k are exchanged",
            "q is returned in place of k, and k in place of q",
        )
    elif vectors_differ(trial.call(x * MULTIPLE, positions) / MULTIPLE, values):
        yield unmeasurable("is not linear in x", f"f({MULTIPLE:g}·x) is not {MULTIPLE:g}·f(x)")
    elif vectors_differ(values, expected):
        yield Irregularity(
            Cause.UNKNOWN,
            _differing_rows(trial, values),
            "the result for a row must be the weighted sum of the results for unit vectors",
            "results for vectors are not the sum of the results for unit vectors",
        )
    elif not trial.function.form.from_zero:
        yield from _dependences_on_rows(trial)


def _differing_rows(trial: FunctionTrial, values: NumberArray) -> str:
    """Return in words which rows differ from the sums of results for unit vectors."""
    wrong = [vectors_differ(*pair) for pair in zip(values, trial.expected, strict=True)]
    positions, off = trial.positions[wrong], np.abs(values - trial.expected).max()
    places = (
        f"position {positions[0]}"
        if positions.size == 1
        else f"positions {positions[0]} to {positions[-1]}"
    )
    return (
        f"at {places}, results for vectors differ from the sums over their unit vectors, by up to "
        f"{off:.2g}"
    )


def _dependences_on_rows(trial: FunctionTrial) -> Iterator[Irregularity]:
    """Yield dependences of a row's result on other rows or on their order."""
    x, positions, expected = trial.x, trial.positions, trial.expected
    evidence = "depends on the {} of the rows, not on their positions alone"
    backward = trial.call(x[::-1], positions[::-1])[::-1]
    if vectors_differ(backward, expected):
        yield Irregularity(Cause.UNKNOWN, NO_MAP, evidence.format("order"))
    ends = [0, positions.size - 1]
    alone = np.concatenate([trial.call(x[[k]], positions[[k]]) for k in ends])
    if vectors_differ(alone, expected[ends], alike_at(trial.function, int(positions.max()))):
        yield Irregularity(Cause.UNKNOWN, NO_MAP, evidence.format("number"))


NO_MAP = "the result for a row depends on more than the row and its position"


def ordered_faults(
    faults: Sequence[Irregularity], found: Sequence[Irregularity]
) -> tuple[Irregularity, ...]:
    """Return all irregularities, those that explain more first.

    ``faults`` come from further calls, ``found`` from the trial. If rows mix or results do not
    repeat, faults follow from that. If rows are read as positions, no result follows from a row
    alone.
    """
    telling = tuple(one for one in found if one.message != NO_MAP)
    named = tuple(fault for fault in faults if fault.message != NO_MAP)
    unnamed = tuple(fault for fault in faults if fault.message == NO_MAP)
    return telling or (*named, *unnamed, *(() if named else found))


def returned_half(trial: FunctionTrial) -> str | None:
    """Return the half precision of everything that a function returns, or None if there is none.

    Unit vectors show only cosines and sines; random vectors also show a rounding of the results.
    """
    for half in HALVES:
        if not np.array_equal(round_to_half(trial.matrices, half), trial.matrices):
            continue
        values = trial.call(trial.x, trial.positions)
        if np.array_equal(round_to_half(values, half), values):
            return half
    return None
