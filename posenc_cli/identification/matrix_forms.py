"""Forms in which programs keep what posenc writes as matrices, and the matrices in them.

An array may hold a table transposed, several times over, with cosines and sines on an axis of
their own, or between rows that hold nothing. Each form is a view of the array, so that
no cell is copied and none goes uncompared: what a form says of the others it has looked at.
Forms that cells themselves show are ``certain``; ``possible`` ones are tried where nothing fits.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.files.source import release
from posenc_cli.inference.evidence import without_ones
from posenc_cli.inference.rates import signal_of
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import Flags, NumberArray, Reals

_SOME_ROWS = 48
"""Rows on which a form is looked for before it is looked for everywhere."""
_FIRST_ROWS = 4
"""Rows at the front: where the first cells of a table are not in a form, no others are."""
_CELLS_AT_ONCE = 1 << 18
"""Cells that are compared together: a mebibyte of float32."""
_UNEVEN = 0.02
"""Of cos² + sin²: more than the rounding of any number format makes it scatter."""
_MOST_AXES, _MOST_FORMS = 6, 3
"""Of an array that is looked into, and forms one within another."""
_WIDEST = 1 << 16
"""Columns that an encoding has at most."""
_FEWEST_ROWS = 2
"""Rows, of a form's matrix, that a form is worth trying for."""

TRANSPOSED = "transposed: positions run along its columns"
SINES_FIRST = "sines first, then cosines"


def certain_forms(evidence: Evidence) -> Iterator[Evidence]:
    """The matrices in an array whose own numbers show that they are there, the likeliest first."""
    shape = evidence.shape
    if len(shape) > _MOST_AXES or len(evidence.forms) >= _MOST_FORMS:
        return
    yield from _equal_slices(evidence)
    if len(evidence.arrays) == 1:
        yield from _turning_matrices(evidence)
        yield from _stacks(evidence)
        if len(shape) == 2:
            yield from _joined(evidence)
        elif len(shape) == 3:
            yield from _batches_of_heads(evidence)
            yield from _behind_padding(evidence) if shape[1] == 1 else ()
    if len(shape) in (2, 3):
        yield from _without_empty_rows(evidence)


def possible_forms(evidence: Evidence) -> Iterator[Evidence]:
    """The matrices that may be in an array of which nothing else was made out."""
    shape = evidence.shape
    if len(evidence.arrays) == 2 and SINES_FIRST not in evidence.forms:
        yield _form(evidence, evidence.arrays[::-1], SINES_FIRST)
    if len(shape) != 2:
        return
    wide = shape[0] > _WIDEST
    if not evidence.forms and min(shape) >= _FEWEST_ROWS and not wide:
        turned = tuple(array.T for array in evidence.arrays)
        if _may_be_waves(turned):
            yield _form(evidence, turned, TRANSPOSED)


def _may_be_waves(arrays: tuple[NumberArray, ...]) -> bool:
    """Whether rows are as long as each other, multiples of one, or columns waves of their own."""
    first = arrays[0]
    if first.dtype.kind == "c":
        return True
    rows = np.concatenate([_some_rows(array) for array in arrays], axis=1)
    lengths = np.linalg.norm(rows, axis=1)
    if not np.isfinite(lengths).all() or not lengths.any():
        return False
    alike = float(np.ptp(lengths)) <= _UNEVEN * float(lengths.max())
    longest = rows[int(np.argmax(lengths))]
    along = rows @ longest / (longest @ longest)
    one = np.abs(rows - np.multiply.outer(along, longest)).max() <= _UNEVEN * np.abs(rows).max()
    if alike or one:
        return True
    near = np.asarray(first[: 4 * _SOME_ROWS], np.float64)
    return any(signal_of(near, function, 1e-3) is not None for function in ("cos", "sin"))


def _form(
    evidence: Evidence, arrays: tuple[NumberArray, ...], text: str, *, skipped: int = 0
) -> Evidence:
    """The evidence that arrays within others give."""
    return replace(
        evidence,
        arrays=tuple(without_ones(array) for array in arrays),
        forms=(*evidence.forms, text),
        skipped=evidence.skipped + skipped,
    )


def _equal_slices(evidence: Evidence) -> Iterator[Evidence]:
    """One of the slices along an axis, such as that of a batch or of heads, where all are equal."""
    shape = evidence.shape
    for axis in range(len(shape) - 1) if len(shape) > 2 else ():
        if shape[axis] > 1 and all(_all_equal(array, axis) for array in evidence.arrays):
            text = f"{shape[axis]} times over, the same along axis {axis}"
            arrays = tuple(_at(array, axis, 0) for array in evidence.arrays)
            if axis and _is_square(shape):  # the one row of scores that all queries have
                arrays = tuple(array[:, None] for array in arrays)
            yield _form(evidence, arrays, text)
            return


def _is_square(shape: tuple[int, ...]) -> bool:
    """Whether an array may be scores of heads: as many queries as keys."""
    return len(shape) == 3 and shape[1] == shape[2]


def _batches_of_heads(evidence: Evidence) -> Iterator[Evidence]:
    """The heads of one of several equal sequences, as BLOOM has them one after another."""
    (array,) = evidence.arrays
    heads, queries, keys = array.shape
    if queries not in (1, keys):
        return
    for own in (n for n in range(1, heads // 2 + 1) if heads % n == 0):
        if own > 1 and _all_equal(array.reshape(heads // own, own, queries, keys), 0):
            text = f"{heads // own} times over, one sequence after another"
            yield _form(evidence, (array[:own],), text)
            return


def _behind_padding(evidence: Evidence) -> Iterator[Evidence]:
    """The scores of the keys behind padding on the left, whose own are all 0, as in BLOOM.

    The first key that is none has the score 0 as well.
    """
    (array,) = evidence.arrays
    padding = _empty_rows(array[:, 0].T) - 1
    if 0 < padding < array.shape[2] - _FEWEST_ROWS:
        text = f"behind padding: the first {padding} keys hold zeros"
        yield _form(evidence, (array[:, :, padding:],), text)


def _at(array: NumberArray, axis: int, index: int) -> NumberArray:
    """A slice of an array, as a view."""
    return array[(slice(None),) * axis + (index,)]


def _all_equal(array: NumberArray, axis: int) -> bool:
    """Whether all slices along an axis are the same, cell by cell."""
    first = _at(array, axis, 0)
    last = _at(array, axis, -1)
    if not np.array_equal(first[:1], last[:1], equal_nan=True):
        return False
    rows = max(1, _CELLS_AT_ONCE // max(1, first.size // first.shape[0]))
    for start in range(0, first.shape[0], rows):
        part = first[start : start + rows]
        for index in range(1, array.shape[axis]):
            other = _at(array, axis, index)[start : start + rows]
            if not np.array_equal(part, other, equal_nan=True):
                return False
            release(other)
        release(part)
    return True


def _stacks(evidence: Evidence) -> Iterator[Evidence]:
    """Cosines and sines on an axis of their own, of two."""
    (array,) = evidence.arrays
    if array.ndim < 3 or array.dtype.kind == "c":
        return
    for axis in (array.ndim - 1, *range(array.ndim - 1)):
        if array.shape[axis] == 2:
            halves = _at(array, axis, 0), _at(array, axis, 1)
            if _turn(*halves, evidence.rounding):
                yield _form(evidence, halves, f"cosines and sines along axis {axis}")


def _turning_matrices(evidence: Evidence) -> Iterator[Evidence]:
    """Cosines and sines in matrices ((cos, −sin), (sin, cos)), or their transposes."""
    (array,) = evidence.arrays
    if array.ndim < 4 or array.shape[-2:] != (2, 2) or array.dtype.kind == "c":
        return
    for row in range(array.shape[0]):
        cells = array[row]
        if not np.array_equal(cells[..., 0, 0], cells[..., 1, 1]):
            return
        if not np.array_equal(cells[..., 0, 1], -cells[..., 1, 0]):
            return
        release(cells)
    for sine, text in ((array[..., 1, 0], ""), (array[..., 0, 1], ", transposed")):
        if _turn(array[..., 0, 0], sine, evidence.rounding):
            yield _form(evidence, (array[..., 0, 0], sine), f"2×2 rotation matrices{text}")


def _joined(evidence: Evidence) -> Iterator[Evidence]:
    """Full tables of cosines and of sines side by side."""
    (array,) = evidence.arrays
    if array.dtype.kind == "c":
        return
    columns, rounding = array.shape[1], evidence.rounding
    if columns % 4 == 0:
        halves = array[:, : columns // 2], array[:, columns // 2 :]
        few = _some_rows(halves[0][:_FIRST_ROWS])
        quarter = columns // 4
        repeats = (few[:, :quarter] == few[:, quarter:]).all() or (
            few[:, 0::2] == few[:, 1::2]
        ).all()
        if repeats and few.any() and _turn(*halves, rounding):
            yield _form(evidence, halves, "full tables of cosines and of sines side by side")


def _some_rows(array: NumberArray) -> Reals:
    """Some rows of an array, from the first to the last, as float64. Shape: (rows, cells)."""
    rows = np.unique(np.linspace(0, array.shape[0] - 1, _SOME_ROWS).astype(np.int64))
    few = np.asarray(array[rows])
    return np.asarray(few.reshape(few.shape[0], -1), np.float64)


def _turn(cos: NumberArray, sin: NumberArray, rounding: float) -> bool:
    """Whether cos² + sin² is the same number in some rows, more than noise would have it be.

    The first rows are asked alone at first: each row elsewhere brings a piece of a large file in.
    """
    return all(
        _are_circles(*rows, rounding)
        for rows in ((cos[:_FIRST_ROWS], sin[:_FIRST_ROWS]), (cos, sin))
    )


def _are_circles(cos: NumberArray, sin: NumberArray, rounding: float) -> bool:
    sizes = np.hypot(_some_rows(cos), _some_rows(sin))
    known = sizes[np.isfinite(sizes) & (sizes > 0)]
    if 2 * known.size < sizes.size or not known.size:
        return False
    apart = np.abs(known / np.median(known) - 1)
    return bool(np.quantile(apart, 0.9) <= min(_UNEVEN, 1e-4 + 8 * rounding))


def _is_empty(rows: NumberArray) -> Flags:
    """Which rows hold zeros alone, or nothing that is a number. Shape: (rows,)."""
    with np.errstate(invalid="ignore"):
        flat = rows.reshape(rows.shape[0], -1)
        return np.asarray((flat == 0).all(axis=1) | np.isnan(flat).all(axis=1))


def _without_empty_rows(evidence: Evidence) -> Iterator[Evidence]:
    """The rows, or heads, between those at both ends that hold nothing.

    Sines hold nothing at position 0, and the padding of a token is the trial's to see, so that
    two rows at the front at least must be empty.
    """
    count = evidence.count
    last = min(_empty_rows(array[::-1]) for array in evidence.arrays)
    if last == count:
        return
    first = min(_empty_rows(array) for array in evidence.arrays)
    first = first if first > 1 else 0
    if not first + last or count - first - last < _FEWEST_ROWS:
        return
    ranges = [(0, first - 1)] * bool(first) + [(count - last, count - 1)] * bool(last)
    named = " and ".join(f"{a} to {b}" if b > a else f"{a}" for a, b in ranges)
    rows = slice(first, count - last)
    plural = "row" if len(evidence.shape) == 2 else "head"
    plural += "s" * (first + last > 1)
    yield _form(
        evidence,
        tuple(array[rows] for array in evidence.arrays),
        f"between empty {plural.rstrip('s')}s: {plural} {named} hold zeros or no numbers",
        skipped=first,
    )


def _empty_rows(array: NumberArray) -> int:
    """How many rows from the first on are empty."""
    if not _is_empty(array[:1]).all():
        return 0
    at_once = max(1, _CELLS_AT_ONCE // array[0].size)
    count = array.shape[0]
    for start in range(0, count, at_once):
        part = array[start : start + at_once]
        empty = _is_empty(part)
        if not empty.all():
            return start + int(np.argmin(empty))
        release(part)
    return int(count)
