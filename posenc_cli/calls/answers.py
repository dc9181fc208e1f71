"""The result of a user's function: arrays, and the tables or frequencies they may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.frameworks import BY_NAME
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.numerics.arrays import Integers, NumberArray

    Rows = Callable[[Integers, Integers], NumberArray]
    """The results of some rows of a fixed input, in one call, at these positions: (n, columns)."""

    Differs = Callable[[NumberArray, NumberArray], bool]

_STORED = ("float16", "float32", "float64", "complex64", "complex128")


class Returned(Record):
    """One value that a function returned, and its number format."""

    values: NumberArray
    dtype: str


def check_description(answer: dict[str, Any]) -> None:
    """Refuse what is no description of a function: its names and defaults are texts.

    Raises: KeyError or TypeError.
    """
    parameters, fields = answer["parameters"] or (), ("name", "kind", "annotation")
    texts = [answer["name"], *(given[field] for given in parameters for field in fields)]
    texts += [given["default"] for given in parameters if given["default"] is not None]
    known = set(answer["frameworks"]) <= BY_NAME.keys()
    if not known or not all(isinstance(text, str) for text in texts):
        raise TypeError


def returned_arrays(answer: dict[str, Any], data: bytearray) -> list[Returned]:
    """The arrays of an answer.

    Raises: ValueError, KeyError, TypeError, AttributeError or OverflowError for what is none.
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
    """Cosines and sines, a row each; None where results are no tables of so many rows.

    They are a pair of tables, complex numbers, pairs of a cosine and a sine beside each other, all
    sines beside all cosines, the 2 × 2 matrix of each pair, or angles, and perhaps a factor of all;
    axes of length 1 do not count. With ``longer`` rows are those from position 0 on, and a pair of
    tables may have more, of which the first are given.
    """
    if len(results) == 1 or (len(results) == 2 and results[1].values.ndim == 0):
        pair = _cosines_and_sines(*results, from_zero=longer)
    else:
        pair = results if [each.values.dtype.kind for each in results] == ["f", "f"] else []
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
    """Both tables that one array holds, times a factor; none where it is no such array."""
    only, dtype = result.values, result.dtype
    if only.dtype.kind == "c":
        cos, sin, dtype = only.real, only.imag, f"float{4 * only.dtype.itemsize}"
    elif only.ndim > 3 and only.shape[-2:] == (2, 2):
        cos, sin = only[..., 0, 0], only[..., 1, 0]
        turns = np.stack([cos, -sin, sin, cos], axis=-1).reshape(only.shape)
        if not np.array_equal(turns, only):
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
    """Whether a table (n, d) from position 0 on is not of sines beside cosines, as GPT-J's is."""
    squares = np.square(np.split(table, 2, axis=1)).sum(axis=0)
    return not (squares.min() > 0.5 and np.ptp(squares) <= 0.01 * squares.min())


def is_frequencies(result: Returned, pairs: int) -> bool:
    """Whether a result is a frequency for each pair."""
    values = result.values
    return values.dtype.kind == "f" and values.size == max(values.shape, default=0) == pairs
