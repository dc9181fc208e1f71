"""The rows of a user's function of positions, each call of which is checked.

They have the shape (n, d), are real and finite, and a row is the same whatever other positions are
asked for beside it. Beyond that the values are the function's own, however it computes them.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from posenc_cli.encoding.arrays import on_host
from posenc_cli.errors import InvalidInput, described
from posenc_cli.formulas.functions import HOW_IT_IS_CALLED
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.formulas.declare import Bound, Rows
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals

_ROUNDINGS = 64
"""How many roundings of float32, or of the coarser format that it returns, a row may change by from
call to call: libraries sum matrix products in an order that depends on the number of rows. An error
of k sums grows as √k roundings, which gives 4096."""

_one_at_a_time = RLock()
"""Held during a call: caches of user's functions are rarely made for two threads."""


def called_rows(bound: Bound) -> Rows:
    """What the function of a scheme returns, as the rows of the width that it has.

    Raises: InvalidInput where it raises, or returns anything but a finite row for each position.
    """
    content = cast("Rows", bound.content)
    rows_at = partial(_rows, content.rows, f"--scheme {bound.scheme.origin}")
    first = rows_at(np.arange(2))[0][0]

    def rows(_xp: Any, positions: Integers, _table: None, denominator: int) -> RealRows:
        places = positions if denominator == 1 else positions / float(denominator)
        values, rounding = rows_at(places)
        middle = places.size // 2
        expected = np.stack([values[middle], first])
        again, _ = rows_at(np.stack([places[middle], places.dtype.type(0)]))
        allowed = _ROUNDINGS * rounding * np.abs(expected).max(axis=1, keepdims=True)
        if not (np.abs(again - expected) <= allowed).all():
            raise InvalidInput(
                f"--scheme {bound.scheme.origin}: returned other rows for positions 0 and "
                f"{places[middle]} alone than among others",
                hint="a row may depend on its own position only: not on how many there are, on the "
                "largest of them, or on chance",
            )
        return values

    return replace(content, width=first.size, rows=rows)


def _rows(
    function: Callable[..., Any], name: str, positions: Integers | Reals
) -> tuple[RealRows, float]:
    """The rows at positions (n,), in float64: (n, d); and a rounding of the format they came in.

    Raises: InvalidInput where the function raises, or returns anything else.
    """
    result = _called(function, name, positions)
    form = str(getattr(result, "dtype", "")).removeprefix("torch.")
    try:
        values = np.asarray(on_host(result))
    except (ValueError, TypeError, RuntimeError):
        values = np.empty((), object)
    if values.dtype.kind not in "fiub" and form not in REAL_DTYPES:
        raise InvalidInput(
            f"{name}: returned a {type(result).__name__} of {values.dtype}, no real numbers",
            hint=HOW_IT_IS_CALLED,
        )
    if values.ndim != 2 or values.shape[0] != positions.size or not values.size:
        raise InvalidInput(
            f"{name}: returned the shape {values.shape} for {positions.size} positions",
            hint=HOW_IT_IS_CALLED,
        )
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise InvalidInput(f"{name}: is not finite at position {positions[row]}, column {column}")
    return values, 2.0 ** -min(FLOAT32.precision, REAL_DTYPES.get(form, FLOAT32).precision)


def _called(function: Callable[..., Any], name: str, positions: Integers | Reals) -> Any:
    """What a function returns: for an array, or for a tensor where it raises for that.

    Raises: InvalidInput where it raises for both.
    """
    errors: list[BaseException] = []
    with _one_at_a_time, redirect_stdout(sys.stderr):
        tensors = getattr(sys.modules.get("torch"), "from_numpy", np.asarray)
        for make in dict.fromkeys((np.asarray, tensors)):
            try:
                return function(make(positions.copy()))
            except (Exception, SystemExit) as error:
                errors.append(error)
    raise InvalidInput(
        f"{name}: its code raised {described(errors[0])}, for positions {positions.min()} to "
        f"{positions.max()}",
        hint=HOW_IT_IS_CALLED,
    ) from errors[0]
