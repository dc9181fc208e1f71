"""The keys that a head should attend to: a named target, or a mask from a file.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.errors import InvalidInput, abbreviated, nearest, quoted_name, sizes_text
from posenc_cli.files.reading import read_array
from posenc_cli.positions import whole_number
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray

NAMES = ("previous", "back:K", "first", "same:K", "window:W")
"""The names of targets; any other text is the name of a file."""

_LARGEST = 1 << 30
_NAMED = r"(?s)(back|same|window):(.*)"
_ROWS = 1 << 8
"""Rows of a mask that are checked at once."""
_EXAMPLES = {"back": "back:40", "same": "same:8", "window": "window:16"}


class HeadTarget(Record):
    """The keys that each query should attend to, all with equal weight.

    ``keys(queries, length)`` → (queries, length), with no key after its query. ``meaning``
    describes the keys, ``without`` the queries that have none.
    """

    name: str
    meaning: str
    without: str
    keys: Callable[[Integers, int], Flags]


def target_of(text: str) -> HeadTarget:
    """Return the target of a name, or of the mask in a file.

    >>> target_of("back:2").keys(np.array([1, 3]), 4).astype(int)
    array([[0, 0, 0, 0],
           [0, 1, 0, 0]])

    Raises: InvalidInput, Unavailable if there is no such target and no such file.
    """
    if text == "previous":
        return HeadTarget(text, "the key before the query", "query 0", partial(_back, 1))
    if text == "first":
        return HeadTarget(text, "key 0", "", _first)
    named = re.fullmatch(_NAMED, text)
    if named is None:
        if text in _EXAMPLES or not re.search(r"[./\\]", text):
            raise InvalidInput(
                f"--target {abbreviated(text)}: must be one of {', '.join(NAMES)}, or a file",
                hint=_EXAMPLES.get(text)
                or nearest(text, ["previous", "first", *_EXAMPLES.values()]),
            )
        return _target_of_file(text)
    kind, number = named[1], whole_number(named[2])
    if number is None or not 1 <= number <= _LARGEST:
        raise InvalidInput(
            f"--target {abbreviated(text)}: {kind} takes a whole number from 1 to {_LARGEST}",
            hint=_EXAMPLES[kind],
        )
    name, first = f"{kind}:{number}", "query 0" if number == 1 else f"queries 0 to {number - 1}"
    if kind == "back":
        return HeadTarget(name, f"the key {number} before the query", first, partial(_back, number))
    if kind == "same":
        meaning = f"the keys {number}, {2 * number}, … before the query"
        return HeadTarget(name, meaning, first, partial(_same, number))
    meaning = f"the last {number} keys, the query's own among them"
    return HeadTarget(name, meaning, "", partial(_window, number))


def _back(distance: int, queries: Integers, length: int) -> Flags:
    return np.asarray(np.arange(length) == queries[:, None] - distance)


def _first(queries: Integers, length: int) -> Flags:
    return np.broadcast_to(np.arange(length) == 0, (queries.size, length))


def _same(period: int, queries: Integers, length: int) -> Flags:
    distances = queries[:, None] - np.arange(length)
    return np.asarray((distances > 0) & (distances % period == 0))


def _window(width: int, queries: Integers, length: int) -> Flags:
    distances = queries[:, None] - np.arange(length)
    return np.asarray((distances >= 0) & (distances < width))


def _target_of_file(path: str) -> HeadTarget:
    """Return the mask in a file, (queries, keys) of 0 and 1, with 0 for keys after the query.

    Raises: InvalidInput, Unavailable.
    """
    values, name = read_array(path).values, quoted_name(path)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise InvalidInput(
            f"--target {name}: must be a square matrix, queries × keys; it is "
            f"{sizes_text(values.shape, ' × ')}"
        )
    count = len(values)
    for start in range(0, count, _ROWS):
        queries = np.arange(start, min(start + _ROWS, count))
        _check_mask(values[queries], queries, name)

    def keys(queries: Integers, length: int) -> Flags:
        if length > count:
            raise InvalidInput(f"--target {name} has {count} positions, but a test has {length}")
        return np.asarray(values[queries, :length] != 0)

    return HeadTarget(path, f"the keys that {name} marks", "those that mark none", keys)


def _check_mask(rows: NumberArray, queries: Integers, name: str) -> None:
    """Refuse values that are not a mask, or a mask with keys after the query."""
    for row, column in np.argwhere((rows != 0) & (rows != 1))[:1]:
        raise InvalidInput(
            f"--target {name}: must hold only 0 and 1; at query {queries[row]}, key {column} it "
            f"holds {rows[row, column]:g}"
        )
    ahead = np.arange(rows.shape[1]) > queries[:, None]
    for row, column in np.argwhere((rows != 0) & ahead)[:1]:
        raise InvalidInput(
            f"--target {name}: query {queries[row]} marks key {column}, which comes after it",
            hint="attention is causal: keys after the query must be 0",
        )
