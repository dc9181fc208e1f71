"""Serve a user's function: call it in the form that fits it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from posenc_cli.calls.answers import Returned, table_rows
from posenc_cli.calls.call_form import CallForm, usual_axes
from posenc_cli.calls.called_function import SHAPE
from posenc_cli.calls.form_choice import FormChoice
from posenc_cli.calls.function_process import called_function
from posenc_cli.calls.payloads import Vectors, split_qkv, values_of_v
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.calls.form_choice import Outcome
    from posenc_cli.calls.signature import CallRequest, NamedParameter
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import SomeRows
    from posenc_cli.numerics.arrays import Float32Rows, Integers, NumberArray

FunctionTarget = str | Callable[..., Any]
"""A function: ``module:function``, ``file.py:function``, or one of this process."""

CELLS = 1 << 20
"""Most values of one call, unless one position has more. They fit into a processor's cache, and a
dozen float64 arrays of this size fit into any memory."""


_LAST_COMPARED, _TRACE_ERROR = 4000, 0.05
"""The last position at which traces are compared, and the error that float32 angles may cause."""


class ServedFunction:
    """A user's function in a process or in this one; a context manager, which ends that process.

    ``context`` is the number of positions that may be asked for. With a ``last`` position, every
    call ends with a row at it, which is not returned: results may depend on the largest position of
    a call.
    """

    def __init__(
        self,
        target: FunctionTarget,
        reference: Reference,
        asked: CallRequest,
        *,
        context: int,
        last: int | None = None,
    ) -> None:
        self.process = called_function(target, reference, asked, context=context)
        self._context, self.last, self.dtype = context, last, "float32"
        self._choice: FormChoice | None = None
        self.other_form: CallForm | None = None

    def __enter__(self) -> Self:
        try:
            self.process.start()
            self._choice = FormChoice(self.process, context=self._context)
            if self.form.has("grid"):  # every call has all of its rows
                self.last = prod(self.process.reference.grid or ()) - 1
            if self._find_original_context() or self._choice.calls > 1:
                # Calls in other forms may have left state.
                self.process.renew()
        except BaseException:
            self.process.end()
            raise
        return self

    def _find_original_context(self) -> bool:
        """Make a class with the original context if only that gives the reference's rotation.

        vLLM's YaRNScalingRotaryEmbedding expects it as max_position_embeddings. Return whether
        calls were made to find out.
        """
        process = self.process
        if self.outcome != "vectors" or not process.may_expect_original:
            return False
        if self._differs_from_reference():
            process.by_original = True
            process.remake()
            process.by_original = not self._differs_from_reference()
        return True

    def _differs_from_reference(self) -> bool:
        """Return whether traces differ from the reference's at some positions, or a call fails.

        A trace does not depend on the pairing: each pair adds 2 cosines, each unrotated dimension
        1. Far from 0, where float32 angles are coarse, only a failed call counts.
        """
        reference, last = self.process.reference, self._context - 1
        positions = np.unique(np.minimum([1, 50, _LAST_COMPARED, last], last))
        try:
            matrices = self.matrices(positions)[0].values.astype(np.float64)
        except InvalidInput:
            self.revive()
            return True
        traces = 2 * (reference.cells(positions, FLOAT64).real - 1).sum(axis=1) + self.form.columns
        off = np.abs(np.trace(matrices, axis1=1, axis2=2) - traces)
        return not (off[positions <= _LAST_COMPARED] <= _TRACE_ERROR).all()

    def __exit__(self, *_: object) -> None:
        self.process.end()

    @property
    def form(self) -> CallForm:
        """The form in which it is called."""
        form = self.other_form or self.found.form
        return form if form.dtype == self.dtype else replace(form, dtype=self.dtype)

    @property
    def outcome(self) -> Outcome:
        """The kind of its results."""
        return self.found.outcome

    @property
    def usual_axes(self) -> str | None:
        """The usual order of axes if the call has another that was not requested, else None."""
        form, asked = self.form, self.process.asked.axes
        if asked is None and form.axes and self.found.ran_packed:
            return "bnf"
        usual = usual_axes(form, self.process.signature)
        orders = [
            [axis for axis in order if axis in other]
            for order, other in ((usual, form.axes), (form.axes, usual))
        ]
        telling = form.axes and asked is None and form.has_heads and orders[0] != orders[1]
        return usual if telling else None

    @property
    def found(self) -> FormChoice:
        """The form that was found, and the observations on the way."""
        assert self._choice is not None
        return self._choice

    @property
    def text(self) -> str:
        """The call in words."""
        process = self.process
        made = f", an object of {process.made}" if process.made else ""
        place = "; its result left in place" if process.asked.in_place else ""
        return f"{process.signature.name}{self.form.text(process.reference)}{place}{made}"

    @property
    def follows_length(self) -> bool:
        """Whether results may depend on the largest position."""
        return self.last is not None

    @property
    def results(self) -> int:
        """The number of results of a call that are compared: 2 for q and k, else 1."""
        return len(self.form.vectors) or 1

    def matrices(self, positions: Integers) -> list[Returned]:
        """Return the results for all unit vectors: [k, j, o] is column o of vector j at position k.

        There is one for each result. Shape: (positions, columns, columns). Raises: InvalidInput if
        the function does not return them.
        """
        return self.heads(np.eye(self.form.columns, dtype=np.float32), positions)

    def heads(self, vectors: Float32Rows, positions: Integers) -> list[Returned]:
        """Return the results for vectors (h, columns), each at all positions, as heads of one call.

        There is one for each result. Shape: (positions, h, columns). Raises: InvalidInput if the
        function does not return them.
        """
        columns, most = self.form.columns, len(vectors)
        if not self.form.any_rows:
            longest = int(positions.max()) + 1 if self._from_zero else positions.size
            most = 1 if self.form.flat else max(1, CELLS // (columns * longest))
        return _join(
            [
                self._rotated(positions, Vectors(vectors[None, None, first : first + most], 1))
                for first in range(0, len(vectors), most)
            ],
            axis=1,
        )

    def values(self, x: Float32Rows, positions: Integers, which: int = 0) -> NumberArray:
        """Return one result for vectors, a row each; the other of q and k has other vectors.

        Raises: InvalidInput if the function does not return it.
        """
        return self.each_value(with_other_vectors(x, which), positions)[which]

    def each_value(self, given: Sequence[Float32Rows], positions: Integers) -> list[NumberArray]:
        """Return each result for the vectors given for it, a row each.

        Raises: InvalidInput if the function does not return them.
        """
        return [result.values[:, 0] for result in self._rotated(positions, given)]

    def answers(self, positions: Integers) -> list[NumberArray]:
        """Return all results for vectors of ones at positions (b, n).

        Raises: InvalidInput if the function does not return them.
        """
        ones = Vectors(np.ones((len(positions), 1, 1, self.form.columns)), positions.shape[1])
        results = self.process.call(self.form, positions, [ones] * len(self.form.vectors))
        return [result.values for result in results]

    def values_of_v(self, first: int, heads: int) -> tuple[NumberArray, NumberArray]:
        """Return the v that is given with q and k, and the third result.

        Raises: InvalidInput if a call fails or has no third result.
        """
        form, rows, heads = self.form, 5, heads if self.form.has_heads else 1
        x = np.random.default_rng(3).standard_normal((1, rows, heads, form.columns))
        given = Vectors(x.astype(np.float32), rows)
        results = self.process.call(form, first + np.arange(rows), [given] * len(form.vectors))
        beside, parts = values_of_v(given), [result.values for result in results]
        if form.has("qkv"):
            parts = split_qkv(parts[0], form, beside.shape(form.axes)) or parts
        if len(parts) < 3 or parts[2].shape != beside.shape(form.axes):
            raise InvalidInput("v is not returned")
        return beside.values, beside.read(parts[2], form.axes)

    def all_values(self, x: Float32Rows, positions: Integers) -> list[NumberArray]:
        """Return all results at positions, (n, columns) each; for vectors if it rotates them.

        Raises: InvalidInput if the function does not return them.
        """
        if self.outcome == "vectors":
            return self.each_value(with_other_vectors(x), positions)
        return [table.values for table in self.returned(positions)]

    def varied(
        self, *, last: int | None, dtype: str = "float32", form: CallForm | None = None
    ) -> Self:
        """Return the same function with another last position, number format or form."""
        other = copy(self)
        other.last, other.dtype, other.other_form = last, dtype, form
        return other

    @property
    def parameters(self) -> tuple[NamedParameter, ...]:
        """The parameters of its signature."""
        return self.process.signature.parameters or ()

    @contextlib.contextmanager
    def on(self, reference: Reference) -> Iterator[None]:
        """Use another reference for calls, and for an object of a class."""
        process, before = self.process, (self.process.reference, self.last)
        if reference is process.reference:
            yield
            return
        process.reference = reference
        if self.form.has("grid"):
            self.last = prod(reference.grid or ()) - 1
        try:
            process.remake()
            yield
        finally:
            process.reference, self.last = before
            if process.lives:
                process.remake()

    def revive(self) -> None:
        """Start the process again if a call has ended it."""
        if not self.process.lives:
            self.process.start()

    def returned(self, positions: Integers) -> list[Returned]:
        """Return the tables or frequencies for rows of ones at some positions.

        Raises: InvalidInput if the function does not return them.
        """
        form, (call_positions, rows) = self.form, self.called_at(positions)
        ones = [Vectors(np.ones((1, 1, 1, form.columns)), call_positions.size)] * len(form.vectors)
        breaks = np.flatnonzero(np.diff(call_positions) != 1) + 1
        if not form.any_rows and breaks.size:
            return _join([self.returned(run) for run in np.split(call_positions, breaks)])
        results = self.process.call(form, call_positions, ones)
        if self.outcome == "frequencies":
            return results
        tables = table_rows(results, call_positions.size, longer=form.from_zero)
        if tables is None:
            raise self.process.invalid(
                "returned tables whose shape changes with the number of positions", code=SHAPE
            )
        return [Returned(table.values[rows], table.dtype) for table in tables]

    def called_at(self, positions: Integers) -> tuple[Integers, SomeRows]:
        """Return the positions of a call that contains these, and the indices of their rows."""
        if self._from_zero:
            return np.arange(1 + max(int(positions.max()), self.last or 0)), positions
        after = [self.last] if self.last is not None and self.form.has("positions") else []
        return np.append(positions, np.array(after, np.int64)), slice(0, positions.size)

    @property
    def _from_zero(self) -> bool:
        """Whether a call has all positions from 0."""
        return self.form.from_zero or (self.last is not None and not self.form.any_rows)

    def _rotated(
        self, positions: Integers, given: Vectors | Sequence[Float32Rows]
    ) -> list[Returned]:
        """Return results at positions: for heads that all rows have, or for a vector per row.

        Shape: (positions, heads, columns).
        """
        if self._from_zero or self.form.any_rows:
            return self._call_once(*self.called_at(positions), given)
        breaks = np.flatnonzero(np.diff(positions) != 1) + 1
        return _join(
            [
                self._call_once(
                    positions[rows],
                    slice(0, rows.size),
                    given if isinstance(given, Vectors) else [x[rows] for x in given],
                )
                for rows in np.split(np.arange(positions.size), breaks)
            ]
        )

    def _call_once(
        self, positions: Integers, rows: SomeRows, given: Vectors | Sequence[Float32Rows]
    ) -> list[Returned]:
        """Make one call at ``positions``; only ``rows`` get the vectors and are returned."""
        if isinstance(given, Vectors):
            vectors = [replace(given, rows=positions.size)] * len(self.form.vectors)
        else:
            vectors = []
            for values in given[: len(self.form.vectors)]:
                x = values
                if not isinstance(rows, slice) or len(values) < positions.size:
                    x = np.ones((positions.size, self.form.columns), np.float32)
                    x[rows] = values
                vectors.append(Vectors(x[None, :, None], positions.size))
        results = self.process.rotated(self.form, positions, vectors)
        return [Returned(result.values[0][rows], result.dtype) for result in results]


def _join(parts: Sequence[Sequence[Returned]], axis: int = 0) -> list[Returned]:
    if len(parts) == 1:
        return list(parts[0])
    return [
        Returned(np.concatenate([part[which].values for part in parts], axis=axis), result.dtype)
        for which, result in enumerate(parts[0])
    ]


def other_vectors(x: NumberArray) -> NumberArray:
    """Return the vectors of k if q is given x, and of q if k is: other values and lengths."""
    other: NumberArray = np.roll(x, 1, axis=-1) * np.float32(0.5)
    return other


def with_other_vectors(x: NumberArray, which: int = 0) -> list[NumberArray]:
    """Return the vectors of q and k if q is given x, or k if ``which`` is 1."""
    return [x, other_vectors(x)][:: -1 if which else 1]
