"""Vectors with their positions in them, of NumPy or of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from posenc_cli.analysis.application import AppliedEncoding
from posenc_cli.api.arguments import (
    ArgumentError,
    ArrayLike,
    GivenPositions,
    checked_choice,
    choice_of,
    in_arguments,
)
from posenc_cli.api.arrays import format_of_result, is_array, is_tensor, tensor_like
from posenc_cli.api.checking import loaded_array
from posenc_cli.api.encoding import warn_of_doubts
from posenc_cli.backends.base import Arithmetic
from posenc_cli.numerics.dtypes import REAL_DTYPES

if TYPE_CHECKING:
    from posenc_cli.api.arguments import EncodingLike, PositionsLike


@in_arguments
def apply(
    x: ArrayLike,
    encoding: EncodingLike,
    positions: PositionsLike | None = None,
    *,
    dtype: object = None,
    arithmetic: Arithmetic = "exact",
    **parameters: object,
) -> ArrayLike:
    """Vectors with their positions in them: x + PE, or x turned, each number correctly rounded.

    No gradients flow; `rotate` has them.

    Args:
        x: an array or a tensor, (…, n, columns), of floating-point numbers.
        encoding: as for `encode`; one that is absolute or rotary, or a hybrid of one such.
        positions: n of them, by default 0 … n − 1.
        dtype: of the result, by default that of ``x``.
        arithmetic: ``exact``, or that in which tables are computed as frameworks do; every
            operation on vectors is then rounded to the dtype of the result.

    Returns: an array or a tensor of the shape of ``x``.

    Raises: ValueError where an argument is wrong, or nothing applies to vectors of this shape.

    >>> import numpy as np
    >>> apply(np.array([[1.0, 0.0], [1.0, 0.0]]), "rope")
    array([[1.        , 0.        ],
           [0.54030231, 0.84147098]])
    """
    kind = str(getattr(x, "dtype", type(x).__name__)).removeprefix("torch.")
    if not is_array(x) or kind not in REAL_DTYPES:
        known = ", ".join(REAL_DTYPES)
        raise ArgumentError(f"x: must be an array or a tensor of {known}, not {kind}")
    loaded = loaded_array(x, "x")
    if loaded.values.ndim < 2:
        raise ArgumentError(f"x: has the shape {loaded.values.shape}, not (…, positions, columns)")
    given = None if positions is None else GivenPositions.of(positions)
    if given is not None and len(given.shape) != 1:
        raise ArgumentError("positions: must be one row of them")
    choice = choice_of(encoding, given.positions if given else None, parameters)
    checked_choice("arithmetic", arithmetic, get_args(Arithmetic))
    form = format_of_result(kind if dtype is None else dtype, x, None)
    shape = loaded.values.shape
    applied = AppliedEncoding.of(choice, shape, "x", dtype=form, arithmetic=arithmetic)
    rows: Any = loaded.values.reshape(-1, shape[-1])
    warn_of_doubts(applied.choice, applied.request, stacklevel=4)
    values: Any = np.concatenate(list(applied.blocks(rows))).reshape(shape)
    result: ArrayLike = tensor_like(values, x, form) if is_tensor(x) else values
    return result
