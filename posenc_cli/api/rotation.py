"""Encodings applied to vectors of any framework: rotate x, or x + PE."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from posenc_cli.analysis.application import AppliedEncoding
from posenc_cli.api.arguments import (
    ArgumentError,
    ArrayLike,
    EncodingLike,
    GivenPositions,
    PositionsLike,
    check_unmasked,
    checked_choice,
    choice_of,
    in_arguments,
    type_text,
)
from posenc_cli.api.arrays import array_like, format_of_result, is_array, loaded_array
from posenc_cli.api.encoding import fill_values, warn_of_doubts
from posenc_cli.backends.registry import ARITHMETICS, Arithmetic
from posenc_cli.encoding.application import rotated_pair
from posenc_cli.encoding.precision import Precision
from posenc_cli.formulas.tables import paired_columns
from posenc_cli.frameworks import format_name, framework_of, is_traced, namespace_of
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64, REAL_DTYPES
from posenc_cli.numerics.memory import large_or_small
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from posenc_cli.choice import Choice
    from posenc_cli.encoding.request import Request
    from posenc_cli.formulas.declare import Rotation
    from posenc_cli.numerics.arrays import NumberArray


@overload
def rotate(
    q: ArrayLike,
    k: None,
    positions: PositionsLike,
    encoding: EncodingLike,
    *,
    sequence_axis: int = ...,
    **parameters: object,
) -> ArrayLike: ...
@overload
def rotate(
    q: ArrayLike,
    k: ArrayLike,
    positions: PositionsLike,
    encoding: EncodingLike,
    *,
    sequence_axis: int = ...,
    **parameters: object,
) -> tuple[ArrayLike, ArrayLike]: ...
@in_arguments
def rotate(
    q: Any,
    k: Any,
    positions: PositionsLike,
    encoding: EncodingLike,
    *,
    sequence_axis: int = -2,
    **parameters: object,
) -> Any:
    """Queries and keys, rotated by a rotary encoding: the reference to compare other code with.

    The tables are correctly rounded, in float32, or in float64 if the vectors are float64. The
    vectors are rotated in that format by operations of their own framework, and returned in their
    own format. Gradients flow. Inside ``jax.jit`` and ``jax.grad`` the tables are constants.
    Unrotated dimensions pass through.

    Args:
        q, k: arrays of a framework whose last axis is the head dimension; ``k`` may be None.
        positions: one for each place along the sequence axis, (n,), or one row for each sequence of
            a batch, (batch, n). A number n stands for 0 … n − 1.
        encoding: as for `encode`.
        sequence_axis: −2 for (…, heads, n, columns), −3 for (…, n, heads, columns).

    Returns: (q, k) rotated, or only q if k is None.

    Raises: ValueError if an argument is wrong, or shapes do not match.

    >>> import numpy as np
    >>> rotate(np.array([[1.0, 0.0], [1.0, 0.0]]), None, 2, "rope", dim=2)
    array([[1.        , 0.        ],
           [0.54030231, 0.84147098]])
    """
    given = GivenPositions.of(positions)
    choice = choice_of(encoding, given.positions, parameters)
    if choice.parts or choice.scheme.kind != "rotary":
        raise ArgumentError(f"encoding {choice.name!r}: {choice.scheme.kind_text} does not rotate")
    rotator = Rotator(choice, choice.encoding().bound.rotation, given.shape, sequence_axis)
    rotated_q = rotator.rotated("q", q)
    return rotated_q if k is None else (rotated_q, rotator.rotated("k", k))


class Rotator(Record):
    """A rotation at positions of a shape, along an axis of the vectors."""

    choice: Choice
    rotation: Rotation
    places: tuple[int, ...]
    sequence_axis: int

    def rotated(self, name: str, x: Any) -> Any:
        """Return the rotated vectors: amplitudes that grow for queries fall for keys.

        Raises: ArgumentError if the vectors do not have the required axes or columns.
        """
        if is_array(x) and framework_of(x) is None:
            x = loaded_array(x, name).values
        framework = framework_of(x)
        if framework is None:
            raise ArgumentError(f"{name}: must be an array or a tensor, not {type_text(x)}")
        kind = format_name(x.dtype)
        if not re.match(r"b?float(?!8)", kind):
            raise ArgumentError(f"{name}: must hold floats of 16 bits or more, not {kind}")
        check_unmasked(name, x)
        self._check(name, tuple(x.shape))
        tables = self._tables(x, of_keys=name == "k")
        cos, sin = (array_like(self._beside(table, x), x) for table in tables)
        layout, waves, parts = self.rotation.layout, self.rotation.waves, self.rotation.blocks
        first, second = map(list, paired_columns(layout, waves.count, parts))
        rest = sorted({*range(int(x.shape[-1]))} - {*first, *second})
        xp = namespace_of(framework, x)
        # Not all frameworks promote types; formats of NumPy longer than float64 stay as they are.
        wide = framework.cast(xp, x, format_name(cos.dtype)) if kind in REAL_DTYPES else x
        a, b = (framework.take(xp, wide, columns) for columns in (first, second))
        rotated = list(rotated_pair(a, b, cos, sin))
        if rest:
            rotated.append(framework.take(xp, wide, rest))
        order = [*first, *second, *rest]
        places = sorted(range(len(order)), key=order.__getitem__)
        joined = framework.take(xp, framework.join(xp, rotated), places)
        return framework.cast(xp, joined, kind)

    def _check(self, name: str, shape: tuple[int, ...]) -> None:
        axis, length = self.sequence_axis, self.places[-1]
        if axis not in (-2, -3):
            raise ArgumentError(f"sequence_axis {axis}: must be −2 or −3")
        if len(shape) < max(-axis, len(self.places) + 1 - (axis + 2)):
            raise ArgumentError(f"{name} has {len(shape)} axes, too few for these positions")
        if shape[axis] != length or shape[-1] < self.rotation.width:
            raise ArgumentError(
                f"{name} has the shape {shape}; {length} positions along axis {axis} and at least "
                f"{self.rotation.width} columns are needed"
            )
        axes = zip(self.places[:-1], shape, strict=False)
        if any(places not in (1, length) for places, length in axes):
            raise ArgumentError(f"{name} has the shape {shape}, the positions {self.places}")

    def _tables(self, x: Any, *, of_keys: bool) -> tuple[NumberArray, NumberArray]:
        """Return the cosines and sines that rotate ``x``, (positions, pairs) each."""
        request = self.choice.requests(precision_beside(x), table="cos-sin")[0]
        table = table_of(_for_keys(request) if of_keys else request, self.choice)
        return table[:, : self.rotation.waves.count], table[:, self.rotation.waves.count :]

    def _beside(self, table: NumberArray, x: Any) -> NumberArray:
        """Insert axes of length 1 into a table, so that its rows broadcast over the vectors."""
        before = len(x.shape) + self.sequence_axis - len(self.places) + 1
        heads_before = [1] * (before if len(self.places) > 1 else 0)
        heads_after = [1] * (-self.sequence_axis - 2)
        return table.reshape(
            *self.places[:-1], *heads_before, self.places[-1], *heads_after, table.shape[-1]
        )


def _for_keys(request: Request) -> Request:
    """Return the request for keys: amplitudes that grow for queries fall for keys."""
    bound = request.encoding.bound
    growth = bound.rotation.waves.growth
    if growth is None:
        return request
    waves = replace(bound.rotation.waves, growth=replace(growth, span=-growth.span))
    falling = replace(bound, content=replace(bound.rotation, waves=waves))
    return replace(request, encoding=replace(request.encoding, bound=falling))


def precision_beside(x: Any) -> Precision:
    """Return the precision of tables for vectors: float64 for float64 vectors, else float32."""
    return Precision.of(FLOAT64 if format_name(x.dtype) == "float64" else FLOAT32, None)


def table_of(request: Request, choice: Choice) -> NumberArray:
    """Return the requested rows. Shape: (positions, columns)."""
    plan = request.plan()
    values = large_or_small(plan.shape, plan.dtype.numpy)
    fill_values(values, plan, choice)
    return values


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
    """Vectors with positions applied: x + PE, or rotated x, each number correctly rounded.

    No gradients flow through the result; `rotate` keeps them. Inside ``jax.jit`` and ``jax.grad``
    they do flow: the tables are then correctly rounded constants, and the framework computes sums
    and products.

    Args:
        x: an array of a framework, (…, n, columns), of floating-point numbers.
        encoding: as for `encode`; absolute or rotary, or a hybrid with one such part.
        positions: n of them, by default 0 … n − 1.
        dtype: of the result, by default that of ``x``.
        arithmetic: ``exact``, or a format in which tables are computed as frameworks do; every
            operation on vectors is then rounded to the dtype of the result.

    Returns: an array or a tensor of the shape of ``x``.

    Raises: ValueError if an argument is wrong, or nothing applies to vectors of this shape.

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
    if 0 in shape:
        raise ArgumentError("x holds no numbers")
    if len(shape) < 2:
        raise ArgumentError(f"x has the shape {shape}, not (…, positions, columns)")
    given = None if positions is None else GivenPositions.of(positions)
    if given is not None and len(given.shape) != 1:
        raise ArgumentError("positions: must be one-dimensional")
    choice = choice_of(encoding, given.positions if given else None, parameters)
    checked_choice("arithmetic", arithmetic, ARITHMETICS)
    form = format_of_result(kind if dtype is None else dtype, x, None)
    applied = AppliedEncoding.of(choice, shape, "x", dtype=form, arithmetic=arithmetic)
    warn_of_doubts(applied.choice, applied.request, stacklevel=4)
    if is_traced(x):
        if arithmetic != "exact":
            raise ArgumentError(f"arithmetic {arithmetic}: x is traced, and computed as its own")
        return cast("ArrayLike", _traced(x, applied, form.name))
    rows = loaded_array(x, "x").values.reshape(-1, shape[-1])
    values: Any = np.concatenate(list(applied.blocks(rows))).reshape(shape)
    return cast("ArrayLike", array_like(values, x, form))


def _traced(x: Any, applied: AppliedEncoding, dtype: str) -> Any:
    """Return the result for vectors without values, by operations of their framework."""
    framework: Any = framework_of(x)
    bound, xp = applied.request.encoding.bound, namespace_of(framework, x)
    if bound.scheme.kind == "rotary":
        rotator = Rotator(applied.choice, bound.rotation, (int(x.shape[-2]),), -2)
        found = rotator.rotated("x", x)
    else:
        request = applied.choice.requests(precision_beside(x))[0]
        table = array_like(table_of(request, applied.choice), x)
        found = framework.cast(xp, x, format_name(table.dtype)) + table
    found = framework.cast(xp, found, dtype)
    if format_name(found.dtype) != dtype:
        raise ArgumentError(f"dtype {dtype}: {framework.name} makes {format_name(found.dtype)}")
    return found
