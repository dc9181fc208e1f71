"""The rows of a user's function of positions, each call of which is checked.

They have the shape (n, d), are real and finite, and a row is the same whatever other positions are
asked for beside it. Beyond that the values are the function's own, however it computes them.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

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
    function = _CheckedFunction(content.rows, str(bound.scheme.origin))
    return replace(content, width=function.first.size, rows=function.compared)


class _CheckedFunction:
    """A function of positions; what it returns is refused where that is no finite row for each.

    ``first`` is its row for position 0, (d,).
    """

    def __init__(self, function: Callable[..., Any], origin: str) -> None:
        self._function, self._origin = function, origin
        self._makers: list[Callable[[Any], Any]] = [np.asarray]
        if "torch" in sys.modules:
            self._makers.append(sys.modules["torch"].from_numpy)
        self._unit = 0.0
        self.first: Reals = self._rows(np.arange(2))[0]

    def compared(
        self, _xp: Any, positions: Integers | Reals, _table: None, denominator: int
    ) -> RealRows:
        """The rows at positions (n,), two of which are asked for beside others too: (n, d).

        Raises: InvalidInput where they are other rows then.
        """
        places = positions if denominator == 1 else positions / float(denominator)
        values = self._rows(places)
        middle = places.size // 2
        again = self._rows(np.stack([places[middle], places.dtype.type(0)]))
        for place, alone, row in zip(
            (places[middle], 0), again, (values[middle], self.first), strict=True
        ):
            if not np.abs(alone - row).max() <= _ROUNDINGS * self._unit * np.abs(row).max():
                raise self._refused(
                    f"returned two different rows for position {place}, beside other positions",
                    "a row may depend on its own position only: not on how many there are, on the "
                    "largest of them, or on chance",
                )
        return values

    def _rows(self, positions: Integers | Reals) -> RealRows:
        """The rows at positions (n,): (n, d).

        Raises: InvalidInput where the function raises, or returns anything else.
        """
        with _one_at_a_time, redirect_stdout(sys.stderr):
            values, form = _as_array(self._called(positions))
        self._unit = 2.0 ** -min(FLOAT32.precision, REAL_DTYPES.get(form, FLOAT32).precision)
        count = positions.size
        if values is None:
            raise self._refused(
                f"returned a {form}, not an array of real numbers", HOW_IT_IS_CALLED
            )
        if values.ndim != 2 or values.shape[0] != count or not values.size:
            raise self._refused(
                f"returned the shape {values.shape} for {count} positions", HOW_IT_IS_CALLED
            )
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise self._refused(f"is not finite at position {positions[row]}, column {column}")
        return values

    def _called(self, positions: Integers | Reals) -> Any:
        """What the function returns: for an array, or for a tensor where it raises for that."""
        errors: list[BaseException] = []
        for make in self._makers:
            try:
                result = self._function(make(positions.copy()))
            except (Exception, SystemExit) as error:
                errors.append(error)
            else:
                self._makers = [make]
                return result
        reach = f"{positions.min()} to {positions.max()}"
        raise self._refused(
            f"its code raised {described(errors[0])}, for positions {reach}", HOW_IT_IS_CALLED
        ) from errors[0]

    def _refused(self, what: str, hint: str | None = None) -> InvalidInput:
        return InvalidInput(f"--scheme {self._origin}: {what}", hint=hint)


def _as_array(result: Any) -> tuple[RealRows | None, str]:
    """A result in float64, and its number format; None, and what it is, where that is no array."""
    form = str(getattr(result, "dtype", "")).removeprefix("torch.")
    if hasattr(result, "detach"):
        result = result.detach().cpu()
        result = result.double() if result.is_floating_point() else result
    try:
        values = np.asarray(result)
    except (ValueError, TypeError, RuntimeError):
        return None, type(result).__name__
    if values.dtype.kind not in "fiub" and form not in REAL_DTYPES:
        return None, f"{type(result).__name__} of {values.dtype}"
    return values.astype(np.float64), form
