"""Arrays of any framework: those that callers pass, and results of the same kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.api.arguments import (
    ArgumentError,
    PositionsLike,
    check_unmasked,
    check_unused,
    choice_at,
    number_format,
    type_text,
)
from posenc_cli.choice import Choice, parameters_by_scheme
from posenc_cli.frameworks import BY_NAME, as_numpy, format_name, framework_of, made_array
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT32, REAL_DTYPES, DType
from posenc_cli.numerics.memory import large_or_small

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from posenc_cli.files.reading import Loaded
    from posenc_cli.numerics.arrays import NumberArray, StoredArray


def is_array(value: object) -> bool:
    """Return whether a value is an array of a framework, or returns its values as one."""
    if isinstance(value, np.generic):
        return False
    protocols = ("__array__", "__dlpack__")
    return framework_of(value) is not None or any(hasattr(type(value), name) for name in protocols)


def format_of_result(dtype: object, like: object, out: object) -> DType:
    """Return a result's number format: ``dtype``, else that of ``like`` or ``out``, else float32.

    Raises: ArgumentError if posenc does not write the format, or NumPy does not have it.
    """
    check_unmasked("like", like)
    check_unmasked("out", out)
    if out is not None and not isinstance(out, np.ndarray):
        raise ArgumentError(f"out: must be a NumPy array, not {type_text(out)}")
    if like is not None and not (is_array(like) or isinstance(like, np.generic)):
        raise ArgumentError(f"like: must be an array or a tensor, not {type_text(like)}")
    given: Any = like if like is not None else out
    if dtype is None and given is not None:
        name = format_name(getattr(given, "dtype", ""))
        dtype = name if name in REAL_DTYPES or out is not None else FLOAT32.name
    form = FLOAT32 if dtype is None else number_format(dtype)
    framework = framework_of(given) or BY_NAME["numpy"]
    own = (*framework.halves, format_name(getattr(given, "dtype", "")))  # NumPy may have ml_dtypes'
    if form is BFLOAT16 and form.name not in own:
        raise ArgumentError(
            f"dtype bfloat16: {'NumPy' if framework.name == 'numpy' else framework.name} has no "
            "such format",
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
    out: NDArray[Any] | None = None,
) -> Any:
    """Return the array that ``fill`` fills: ``out`` itself, or one on the device of ``like``.

    Raises: ArgumentError if ``out`` has another shape or dtype.
    """
    if out is not None:
        _check_out(out, shape, form)
    direct = out is not None and out.flags.c_contiguous
    values: Any = out if direct else large_or_small(shape, form.numpy)
    fill(values)
    if out is None:
        return array_like(values, like, form)
    if not direct:
        out[...] = array_like(values, out, form)
    return out


def _check_out(out: NDArray[Any], shape: tuple[int, ...], form: DType) -> None:
    if tuple(out.shape) != shape:
        raise ArgumentError(f"out has the shape {tuple(out.shape)}, the result {shape}")
    if not out.flags.writeable:
        raise ArgumentError("out: cannot be written to")
    if format_name(out.dtype) != form.name:
        raise ArgumentError(f"out: is {out.dtype}, the result {form.name}")


def array_like(values: NumberArray, like: Any, form: DType | None = None) -> Any:
    """Return a NumPy array as an array of the framework of ``like``, on its device.

    With ``form`` bfloat16, ``values`` holds the bits; they stay so without ``like``. If ``like`` is
    not an array of a framework, the array stays NumPy's.

    Raises: ArgumentError if the framework has no such format.
    """
    framework = framework_of(like)
    if framework is None or framework.name == "numpy":
        return values if like is None or form is not BFLOAT16 else values.view(like.dtype)
    name = values.dtype.name if form is None else form.name
    try:
        return made_array(framework, values, name, like)
    except TypeError as error:
        hint = "jax.config.update('jax_enable_x64', True)" if framework.name == "jax" else None
        raise ArgumentError(f"dtype {name}: {error}", hint=hint) from None


def loaded_array(value: object, name: str) -> Loaded:
    """Return an array, a tensor, or what NumPy can convert to one, as if it were read from a file.

    Raises: ArgumentError if it holds no numbers.
    """
    from posenc_cli.files.reading import Loaded

    check_unmasked(name, value)
    try:
        values, dtype = as_numpy(value)
    except (ValueError, TypeError, NotImplementedError, RuntimeError):
        raise ArgumentError(f"{name} is not an array of numbers") from None
    if not values.size or not values.ndim or values.dtype.kind not in "fciub":
        raise ArgumentError(f"{name} holds no numbers")
    if values.dtype.kind in "iub":
        values = values.astype(np.float64)
    return Loaded(np.ascontiguousarray(values), dtype, name)


def arrays_and_choices(
    subject: object, positions: PositionsLike | None, parameters: Mapping[str, Any]
) -> tuple[dict[int, tuple[str, Loaded]], dict[int, Choice]]:
    """Return the named arrays and the encodings of one subject or a list, by their place in it."""
    several = isinstance(subject, list | tuple)
    items = dict(enumerate(subject if isinstance(subject, list | tuple) else (subject,)))
    if not items:
        raise ArgumentError("subject: is an empty list")
    arrays = {
        place: (f"array {place}" if several else "array", loaded_array(item, "array"))
        for place, item in items.items()
        if is_array(item)
    }
    named = {place: item for place, item in items.items() if place not in arrays}
    choices = {
        place: choice_at(item, positions, {} if several else parameters)
        for place, item in named.items()
    }
    if several and choices:
        schemes = [choice.scheme for choice in choices.values()]
        given = dict(zip(choices, parameters_by_scheme(schemes, parameters), strict=True))
        choices = {place: choice_at(item, positions, given[place]) for place, item in named.items()}
    elif not choices:
        check_unused(**parameters)
    return arrays, choices
