"""The rows of a user's function of positions, checked at each call.

They have the shape (n, d) and are real and finite. A row does not depend on the other positions in
the call. Otherwise the values are the function's own, however it computes them.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import redirect_stdout
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from posenc_cli.errors import InvalidInput, described
from posenc_cli.formulas.declare import HOW_IT_IS_CALLED, Bound, Rows
from posenc_cli.frameworks import BY_NAME, as_numpy, innermost, likely_frameworks, made_array
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.numerics.arrays import Integers, RealRows, Reals

_ROUNDINGS, _COARSE_ROUNDINGS = 64, 3
"""How many float32 roundings a row may change by from call to call, and in addition how many
roundings of the coarser format it is returned in. Libraries sum matrix products in an order that
depends on the number of rows. An error of k sums grows as √k roundings, so 64 allows 4096 sums.
Numbers that differ only by that round to neighbours in the coarser format, two roundings apart; the
third is for hidden layers."""

_one_at_a_time = RLock()
"""Held during a call: caches in users' functions are rarely thread-safe."""


def called_rows(bound: Bound) -> Rows:
    """Return the function of a scheme as rows, with the width that it returns.

    Raises: InvalidInput if it raises, or returns anything but a finite row for each position.
    """
    content = cast("Rows", bound.content)
    own = cast("partial[Any]", inspect.unwrap(content.rows)).func
    rows_at = partial(
        _rows, _UsersFunction(content.rows, own, f"--scheme {bound.scheme.origin}", [])
    )
    first = rows_at(np.arange(2))[0][0]

    def rows(_xp: Any, positions: Integers, _table: None, denominator: int) -> RealRows:
        places = positions if denominator == 1 else positions / float(denominator)
        values, share = rows_at(places)
        if values.shape[1] != first.size:
            raise InvalidInput(
                f"--scheme {bound.scheme.origin} returned rows of {first.size} numbers for "
                f"positions 0 to 1, and of {values.shape[1]} for {places.min()} to {places.max()}",
                hint=HOW_IT_IS_CALLED,
            )
        middle = places.size // 2
        expected = np.stack([values[middle], first])
        again, _ = rows_at(np.stack([places[middle], places.dtype.type(0)]))
        allowed = share * np.abs(expected).max(axis=1, keepdims=True)
        alike = again.shape == expected.shape and (np.abs(again - expected) <= allowed).all()
        if not alike:
            raise InvalidInput(
                f"--scheme {bound.scheme.origin} returned different rows for positions 0 and "
                f"{places[middle]} alone and among others",
                hint="a row may depend only on its own position: not on the number of positions, "
                "the largest one, or chance",
            )
        return values

    return replace(content, width=first.size, rows=rows)


class _UsersFunction(Record):
    """A user's function: ``call`` passes it its parameters, ``own`` is the function itself.

    ``name`` is used in messages. ``taken`` holds the framework whose arrays it accepts, once a call
    has succeeded. All later calls use arrays of that framework.
    """

    call: Callable[..., Any]
    own: Callable[..., Any]
    name: str
    taken: list[str]

    @property
    def frameworks(self) -> list[str]:
        """Return the frameworks whose arrays it may accept, likeliest first."""
        if self.taken:
            return self.taken
        part = innermost(getattr(self.own, "forward", self.own))
        return likely_frameworks(self.own, part, [*getattr(part, "__annotations__", {}).values()])


def _rows(function: _UsersFunction, positions: Integers | Reals) -> tuple[RealRows, float]:
    """Return float64 rows (n, d) at positions (n,), and the relative change allowed per row.

    Raises: InvalidInput if the function raises, or returns anything else.
    """
    name, result = function.name, _called(function, positions)
    try:
        values, form = as_numpy(result)
    except Exception as error:
        raise InvalidInput(
            f"{name} returned a {type(result).__name__} that cannot be read as an array "
            f"({described(error)})",
            hint=HOW_IT_IS_CALLED,
        ) from error
    if values.dtype.kind not in "fiub":
        raise InvalidInput(
            f"{name} returned {_kind_text(result, values)}; expected an (n, d) array of real "
            "numbers",
            hint=HOW_IT_IS_CALLED,
        )
    if values.ndim != 2 or values.shape[0] != positions.size or not values.size:
        raise InvalidInput(
            f"{name} returned the shape {values.shape} for {positions.size} positions",
            hint=HOW_IT_IS_CALLED,
        )
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise InvalidInput(f"{name} is not finite at position {positions[row]}, column {column}")
    precision = REAL_DTYPES.get(form, FLOAT32).precision
    coarse = _COARSE_ROUNDINGS * 2.0**-precision if precision < FLOAT32.precision else 0.0
    return values, _ROUNDINGS * 2.0**-FLOAT32.precision + coarse


def _kind_text(result: Any, values: Any) -> str:
    """Describe what a function returned: ``None``, or its type and element type."""
    if result is None:
        return "None"
    kind = "array" if hasattr(result, "dtype") else type(result).__name__
    article = "an" if kind[0] in "aeiou" else "a"
    elements = "" if values.dtype == object else f" of {values.dtype.type.__name__.rstrip('_')}"
    return f"{article} {kind}{elements}"


def _called(function: _UsersFunction, positions: Integers | Reals) -> Any:
    """Return what a function returns for an array of the framework that it accepts.

    Raises: InvalidInput if it raises for every framework that it may accept, with the error of the
    likeliest one.
    """
    errors: dict[str, BaseException] = {}
    with _one_at_a_time, redirect_stdout(sys.stderr):
        # The function may import a framework while it runs: then arrays of that one are tried too.
        while untried := [each for each in function.frameworks if each not in errors]:
            try:
                result = function.call(_array_of(untried[0], positions))
            except (Exception, SystemExit) as error:
                errors[untried[0]] = error
            else:
                function.taken[:] = untried[:1]
                return result
        cause = next(errors[each] for each in function.frameworks if each in errors)
    raise InvalidInput(
        f"{function.name}: its code raised {described(cause)}, for positions {positions.min()} to "
        f"{positions.max()}",
        hint=HOW_IT_IS_CALLED,
    ) from cause


def _array_of(framework: str, positions: Integers | Reals) -> Any:
    """Return a framework's array of positions, or NumPy's if it lacks the number format."""
    try:
        return made_array(BY_NAME[framework], positions.copy(), positions.dtype.name)
    except Exception:
        return positions.copy()
