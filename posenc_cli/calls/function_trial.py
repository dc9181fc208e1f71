"""A function tried at some positions, and what it does beside turning each row by its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from posenc_cli.inference.causes import Cause
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers, NumberArray, UnitMatrices

ALIKE = 1e-4
"""Relative: two ways to ask for the same values agree to this, in any format but a half one."""


COARSE = 64
"""Times as far they may be apart in a half precision."""


UNSTEADY = "gives other values when it is called again with the same arguments"


MULTIPLE = np.float32(1024)
"""What vectors are multiplied by to see whether results are: exact in any format."""


UNLIKE_HEADS = "the function rotates heads differently"


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


class Told(Protocol):
    """A cause that is named, and what shows it."""

    @property
    def cause(self) -> Cause:
        """Its word."""

    @property
    def message(self) -> str:
        """What is wrong."""

    @property
    def evidence(self) -> str:
        """What shows it."""


class RowCauses(Protocol):
    """What names the causes of rows (n, columns) at ascending positions (n,)."""

    def __call__(
        self,
        x: NumberArray,
        values: NumberArray,
        dtype: str,
        reference: Reference,
        positions: Integers,
    ) -> Sequence[Told] | None:
        """None where they are not known, or leave rows over; nothing where the rows are right."""


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

    def differs(self, values: NumberArray, wanted: NumberArray, *, coarse: bool = False) -> bool:
        """Whether values are others than those wanted, by more than their format explains."""
        if not np.isfinite(wanted).all():
            return False
        half = coarse or values.dtype.itemsize < 4 or is_half(self.matrices)
        size = np.nanmax(np.abs(self.expected), initial=1e-30)
        limit = (COARSE if half else 1) * ALIKE * size
        return not bool(np.abs(values - wanted).max(initial=0) <= limit)


def turned_vectors(x: NumberArray, matrices: UnitMatrices) -> NumberArray:
    """What matrices [k, j, o] make of vectors (k, columns)."""
    turned: NumberArray = np.einsum("kj,kjo->ko", x.astype(np.float64), matrices.astype(np.float64))
    return turned


def is_half(matrices: UnitMatrices) -> bool:
    """Whether all values lie on the grid of float16, bfloat16 or coarser: torch's come widened."""
    if matrices.dtype != np.float32:
        return matrices.dtype.itemsize < 4
    return not bool((np.ascontiguousarray(matrices).view(np.uint32) & np.uint32(0x1FFF)).any())


def unsteady(again: NumberArray, before: NumberArray) -> Irregularity:
    """That the same call gave other values."""
    off = np.abs(again - before).max()
    return unmeasured(UNSTEADY, f"two calls differ by up to {off:.2g}")


def unmeasured(what: str, evidence: str = "") -> Irregularity:
    """What a function does for which no cause is known, and which keeps it from being measured."""
    return Irregularity(Cause.UNKNOWN, f"the function {what}", evidence, f"the function {what}")
