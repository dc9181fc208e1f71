"""Read the result of a user's function: arrays, and the tables or frequencies that they may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.frameworks import BY_NAME
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.numerics.arrays import Integers, NumberArray

    Rows = Callable[[Integers, Integers], NumberArray]
    """A call with rows of a fixed input, by index, at positions; it returns (n, columns)."""

    Differs = Callable[..., bool]
    """Whether values differ from those wanted, perhaps by more than a given relative tolerance."""

_STORED = ("float16", "float32", "float64", "complex64", "complex128")


class Returned(Record):
    """One value that a function returned, and its number format."""

    values: NumberArray
    dtype: str


def check_description(answer: dict[str, Any]) -> None:
    """Refuse a description of a function whose names and defaults are not texts.

    Raises: KeyError or TypeError.
    """
    parameters, fields = list(answer["parameters"] or ()), ("name", "kind", "annotation")
    parameters += [field for given in parameters for field in given.get("fields", ())]
    texts = [answer["name"], *(given[field] for given in parameters for field in fields)]
    texts += [given["default"] for given in parameters if given["default"] is not None]
    if {*answer["frameworks"]} - {*BY_NAME} or not all(isinstance(text, str) for text in texts):
        raise TypeError


def returned_arrays(answer: dict[str, Any], data: bytearray) -> list[Returned]:
    """Return the arrays of an answer.

    Raises: ValueError, KeyError, TypeError, AttributeError or OverflowError for an invalid answer.
    """
    results, start = [], 0
    for form in answer["results"]:
        if form is None:
            continue
        shape, name = tuple(form["shape"]), form["stored"]
        sized = all(type(size) is int and size >= 0 for size in shape)
        if not sized or name not in _STORED or form["dtype"] not in ("bfloat16", name):
            raise ValueError
        stored = np.dtype(name)
        size = stored.itemsize * int(np.prod(shape, dtype=object))
        if start + size > len(data):
            raise ValueError
        values = np.frombuffer(data, stored, count=size // stored.itemsize, offset=start)
        results.append(Returned(values.reshape(shape), str(form["dtype"])))
        start += size
    if start != len(data):
        raise ValueError
    return results


def table_rows(
    results: list[Returned], rows: int, *, longer: bool = False
) -> list[Returned] | None:
    """Return cosines and sines, one row per position, or None if results are not such tables.

    Results may be a pair of tables, complex numbers, adjacent pairs of a cosine and a sine, all
    sines beside all cosines, the 2 × 2 matrix of each pair, or angles. A factor of all values may
    follow. Axes of length 1 are ignored. With ``longer`` the rows begin at position 0, and a pair
    of tables may have more than ``rows``, of which the first are returned.
    """
    if len(results) == 1 or (len(results) == 2 and results[1].values.ndim == 0):
        pair = _cosines_and_sines(*results, from_zero=longer)
    else:
        pair = results if [result.values.dtype.kind for result in results] == ["f", "f"] else []
    tables = []
    for result in pair:
        values = result.values
        while values.ndim > 2 and 1 in values.shape[:-1]:
            values = values.squeeze(values.shape.index(1))
        if longer and len(results) == 2:
            values = values[:rows]
        if values.ndim != 2 or values.shape[0] != rows:
            return None
        tables.append(Returned(values, result.dtype))
    return tables if len({table.values.shape for table in tables}) == 1 else None


def _cosines_and_sines(
    result: Returned, factor: Returned | None = None, *, from_zero: bool
) -> list[Returned]:
    """Return both tables that one array holds, times a factor; nothing if it holds none."""
    only, dtype = result.values, result.dtype
    if only.dtype.kind == "c":
        cos, sin, dtype = only.real, only.imag, f"float{4 * only.dtype.itemsize}"
    elif only.ndim > 3 and only.shape[-2:] == (2, 2):
        cos, sin = only[..., 0, 0], only[..., 1, 0]
        rotations = np.stack([cos, -sin, sin, cos], axis=-1).reshape(only.shape)
        if not np.array_equal(rotations, only):
            return []
    elif only.shape[-1:] == (2,):
        cos, sin = only[..., 0], only[..., 1]
    elif from_zero and only.ndim == 2 and only.shape[1] % 2 == 0 and not _are_angles(only):
        sin, cos = sorted(np.split(only, 2, axis=1), key=lambda half: half[0].sum())
    else:
        cos, sin = np.cos(only, dtype=np.float64), np.sin(only, dtype=np.float64)
    scale = 1.0 if factor is None else float(factor.values)
    return [Returned(scale * part, dtype) for part in (cos, sin)]


def _are_angles(table: NumberArray) -> bool:
    """Return whether a table (n, d) from position 0 on is not sines beside cosines, as in GPT-J."""
    squares = np.square(np.split(table, 2, axis=1)).sum(axis=0)
    return not (squares.min() > 0.5 and np.ptp(squares) <= 0.01 * squares.min())


def is_frequencies(result: Returned, pairs: int) -> bool:
    """Return whether a result is one frequency per pair."""
    values = result.values
    return values.dtype.kind == "f" and values.size == max(values.shape, default=0) == pairs
