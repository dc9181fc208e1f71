"""Results as callers want them: in an array or a tensor of theirs, or like one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.api.arguments import ArgumentError, check_unmasked, number_format
from posenc_cli.errors import Unavailable
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT32, REAL_DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.numerics.arrays import NumberArray, StoredArray
    from posenc_cli.numerics.dtypes import DType


def is_array(value: object) -> bool:
    """Whether a value is an array of NumPy or a tensor of torch."""
    return isinstance(value, np.ndarray) or is_tensor(value)


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of torch, which is imported then."""
    return type(value).__module__.partition(".")[0] == "torch"


def format_of_result(dtype: object, like: object, out: object) -> DType:
    """The number format of a result: as said, else that of ``like`` or ``out``, else float32.

    Raises: ArgumentError where it is none that posenc writes, or NumPy has none such.
    """
    check_unmasked("like", like)
    check_unmasked("out", out)
    given: Any = like if like is not None else out
    if given is not None and not (isinstance(given, np.ndarray | np.generic) or is_tensor(given)):
        name = "out" if like is None else "like"
        raise ArgumentError(f"{name}: must be an array or a tensor, not a {type(given).__name__}")
    if dtype is None and given is not None:
        name = str(given.dtype).removeprefix("torch.")
        dtype = name if name in REAL_DTYPES or out is not None else FLOAT32.name
    form = FLOAT32 if dtype is None else number_format(dtype)
    if form is BFLOAT16 and not is_tensor(given):
        raise ArgumentError(
            "dtype bfloat16: NumPy has no such format",
            hint="like=, with a tensor of torch, gives one; round_to='bfloat16' keeps such values "
            "in another dtype",
        )
    return form


def delivered(
    shape: tuple[int, ...],
    form: DType,
    fill: Callable[[StoredArray], None],
    *,
    like: object = None,
    out: Any = None,
) -> Any:
    """What ``fill`` puts into an array of a shape, in ``out`` or where ``like`` lies.

    Raises: ArgumentError where ``out`` has another shape or dtype.
    """
    if out is not None:
        _check_out(out, shape, form)
    if isinstance(out, np.ndarray) and out.flags.c_contiguous and out.flags.writeable:
        fill(out)
        return out
    try:
        values = np.empty(shape, form.numpy)
    except MemoryError:
        size = math.prod(shape) * form.itemsize
        raise Unavailable(f"not enough memory for {size} bytes", hint="see blocks") from None
    fill(values)
    if out is not None:
        return _copied(values, form, out)
    return tensor_like(values, like, form) if is_tensor(like) else values


def _check_out(out: Any, shape: tuple[int, ...], form: DType) -> None:
    if tuple(out.shape) != shape:
        raise ArgumentError(f"out: has the shape {tuple(out.shape)}, the result {shape}")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ArgumentError("out: cannot be written to")
    if str(out.dtype).removeprefix("torch.") != form.name:
        raise ArgumentError(f"out: is {out.dtype}, the result {form.name}")


def _copied(values: StoredArray, form: DType, out: Any) -> Any:
    if is_tensor(out):
        import torch

        with torch.no_grad():
            return out.copy_(tensor_like(values, out, form))
    out[...] = values
    return out


def tensor_like(values: NumberArray, like: Any, form: DType | None = None) -> Any:
    """An array as a tensor on the device of ``like``; of bfloat16 it holds the bits."""
    import torch

    if form is BFLOAT16:
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16).to(like.device)
    return torch.from_numpy(values).to(like.device)
