"""Vectors with their positions in them, of any framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from posenc_cli.analysis.application import AppliedEncoding
from posenc_cli.api.arguments import (
    ArgumentError,
    ArrayLike,
    GivenPositions,
    checked_choice,
    choice_of,
    in_arguments,
    type_text,
)
from posenc_cli.api.arrays import array_like, format_of_result, is_array
from posenc_cli.api.checking import loaded_array
from posenc_cli.api.encoding import warn_of_doubts
from posenc_cli.api.rotation import Rotator, precision_beside, table_of
from posenc_cli.backends.base import Arithmetic
from posenc_cli.frameworks import format_name, framework_of, is_traced, namespace_of
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
    """Vectors with their positions in them: x + PE, or rotated x, each number correctly rounded.

    No gradients flow; `rotate` has them. Inside ``jax.jit`` and ``jax.grad`` they do: there the
    tables are correctly rounded constants, and the sums and products are the framework's own.

    Args:
        x: an array of a framework, (…, n, columns), of floating-point numbers.
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
    if not is_array(x):
        raise ArgumentError(f"x: must be an array or a tensor, not {type_text(x)}")
    kind = format_name(getattr(x, "dtype", type_text(x)))
    if kind not in REAL_DTYPES:
        raise ArgumentError(f"x: must hold {', '.join(REAL_DTYPES)}, not {kind}")
    shape = tuple(getattr(x, "shape", ()))
    if len(shape) < 2:
        raise ArgumentError(f"x: has the shape {shape}, not (…, positions, columns)")
    given = None if positions is None else GivenPositions.of(positions)
    if given is not None and len(given.shape) != 1:
        raise ArgumentError("positions: must be one row of them")
    choice = choice_of(encoding, given.positions if given else None, parameters)
    checked_choice("arithmetic", arithmetic, get_args(Arithmetic))
    form = format_of_result(kind if dtype is None else dtype, x, None)
    applied = AppliedEncoding.of(choice, shape, "x", dtype=form, arithmetic=arithmetic)
    warn_of_doubts(applied.choice, applied.request, stacklevel=4)
    if is_traced(x):
        if arithmetic != "exact":
            raise ArgumentError(f"arithmetic {arithmetic}: x is traced, and computed as its own")
        return cast("ArrayLike", _traced(x, applied, form.name))
    rows = loaded_array(x, "x").values.reshape(-1, shape[-1])
    values: Any = np.concatenate(list(applied.blocks(rows))).reshape(shape)
    result: ArrayLike = array_like(values, x, form)
    return result


def _traced(x: Any, applied: AppliedEncoding, dtype: str) -> Any:
    """The result for vectors without values, by operations of their framework."""
    framework: Any = framework_of(x)
    bound, xp = applied.request.encoding.bound, namespace_of(framework, x)
    if bound.scheme.kind == "rotary":
        places = (int(x.shape[-2]),)
        found = Rotator(applied.choice, bound.rotation, places, -2).rotated("x", x)
    else:
        request = applied.choice.requests(precision_beside(x))[0]
        table = array_like(table_of(request, applied.choice), x)
        found = framework.cast(xp, x, format_name(table.dtype)) + table
    found = framework.cast(xp, found, dtype)
    if format_name(found.dtype) != dtype:
        raise ArgumentError(f"dtype {dtype}: {framework.name} makes {format_name(found.dtype)}")
    return found
