"""Make, read and recognize the arrays of each framework.

The table ``FRAMEWORKS`` serves the library and the process of a user's function. That process may
be any Python from 3.8 on, without posenc. This module imports no framework except NumPy: a row of
the table is used only after the user's own code has imported its module.
"""

from __future__ import annotations

import inspect
import re
import sys
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator


class Framework(NamedTuple):
    """One array framework.

    ``module`` has its functions. ``packages`` are the top-level packages of its arrays and of code
    that computes with them. ``halves`` are its half-precision formats. The functions default to
    those of the array API standard. In their arguments ``xp`` is the module, ``values`` a NumPy
    array and ``dtype`` the name of a format. ``of_bits`` takes int16 words that hold bfloat16.
    ``beside`` moves an array to the device of another.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    halves: tuple[str, ...] = ("bfloat16", "float16")
    make: Callable[[Any, Any], Any] = lambda xp, values: xp.asarray(values)
    of_bits: Callable[[Any, Any], Any] = lambda xp, words: words.view(xp.bfloat16)
    cast: Callable[[Any, Any, str], Any] = lambda xp, x, dtype: x.astype(getattr(xp, dtype))
    read: Callable[[Any], Any] = lambda x: _numpy().asarray(x)
    take: Callable[[Any, Any, list[int]], Any] = lambda xp, x, columns: xp.take(
        x, xp.asarray(columns), axis=-1
    )
    join: Callable[[Any, list[Any]], Any] = lambda xp, parts: xp.concatenate(parts, axis=-1)
    beside: Callable[[Any, Any], Any] = lambda x, _like: x


def _numpy() -> Any:
    import numpy

    return numpy


def _to_jax_device(x: Any, like: Any) -> Any:
    """Move an array to the device of another, if that has values and a single device."""
    devices = () if is_traced(like) else like.devices()
    return sys.modules["jax"].device_put(x, *devices) if len(devices) == 1 else x


_STANDARD = Framework(
    "array-api",
    "",
    (),
    halves=(),
    cast=lambda xp, x, dtype: xp.astype(x, getattr(xp, dtype)),
    join=lambda xp, parts: xp.concat(parts, axis=-1),
)
"""Any other library whose arrays have ``__array_namespace__``, the standard's method that returns
xp.
"""

FRAMEWORKS = (
    Framework(
        "torch",
        "torch",
        ("torch",),
        make=lambda xp, values: xp.from_numpy(values),
        cast=lambda xp, x, dtype: x.to(getattr(xp, dtype)),
        read=lambda x: x.detach().cpu().resolve_conj().resolve_neg().numpy(),
        take=lambda xp, x, columns: x.index_select(-1, xp.tensor(columns, device=x.device)),
        join=lambda xp, parts: xp.cat(parts, -1),
        beside=lambda x, like: x.to(like.device),
    ),
    Framework("jax", "jax.numpy", ("jax", "jaxlib", "flax", "equinox"), beside=_to_jax_device),
    Framework(
        "mlx",
        "mlx.core",
        ("mlx",),
        make=lambda xp, values: xp.array(values, dtype=getattr(xp, values.dtype.name)),
        take=lambda xp, x, columns: xp.take(x, xp.array(columns), axis=-1),
    ),
    Framework(
        "tensorflow",
        "tensorflow",
        ("tensorflow",),
        make=lambda xp, values: xp.convert_to_tensor(values),
        of_bits=lambda xp, words: xp.bitcast(words, xp.bfloat16),
        cast=lambda xp, x, dtype: xp.cast(x, dtype),
        take=lambda xp, x, columns: xp.gather(x, columns, axis=-1),
        join=lambda xp, parts: xp.concat(parts, -1),
    ),
    Framework(
        "paddle",
        "paddle",
        ("paddle",),
        make=lambda xp, values: xp.to_tensor(values),
        of_bits=lambda _xp, words: words.view("bfloat16"),
        cast=lambda _xp, x, dtype: x.astype(dtype),
        read=lambda x: x.numpy(),
        take=lambda xp, x, columns: xp.index_select(x, xp.to_tensor(columns), len(x.shape) - 1),
        join=lambda xp, parts: xp.concat(parts, -1),
    ),
    Framework(
        "tinygrad",
        "tinygrad",
        ("tinygrad",),
        make=lambda xp, values: xp.Tensor(values),
        of_bits=lambda xp, words: words.bitcast(xp.dtypes.bfloat16),
        cast=lambda xp, x, dtype: x.cast(getattr(xp.dtypes, dtype)),
        read=lambda x: x.numpy(),
        take=lambda _xp, x, columns: x[..., columns],
        join=lambda _xp, parts: parts[0].cat(*parts[1:], dim=-1),
        beside=lambda x, like: x.to(like.device),
    ),
    Framework("cupy", "cupy", ("cupy",), halves=("float16",), read=lambda x: x.get()),
    _STANDARD._replace(
        name="array_api_strict", module="array_api_strict", packages=("array_api_strict",)
    ),
    Framework(
        "numpy",
        "numpy",
        ("numpy",),
        halves=("float16",),
        cast=lambda _xp, x, dtype: x.astype(dtype),  # ml_dtypes adds names
    ),
)
"""NumPy is last: a function that may support another framework is tried with that one first."""

BY_NAME = {row.name: row for row in FRAMEWORKS}
_BY_PACKAGE = {package: row for row in FRAMEWORKS for package in row.packages}
_CHARACTERS = {"e": "float16", "f": "float32", "d": "float64"}
"""NumPy's one-letter codes."""
_FORMATS = {"float": "float32", "half": "float16", "double": "float64", "__bf16": "bfloat16"}
"""tinygrad's names."""


def framework_of(value: Any) -> Framework | None:
    """Return the framework of an array, by the package of its type, or None for other values."""
    row = _framework_of_type(type(value))  # type: ignore[arg-type]  # mypy: type is not Hashable
    return row if row and hasattr(value, "shape") and hasattr(value, "dtype") else None


@lru_cache(maxsize=64)
def _framework_of_type(kind: type) -> Framework | None:
    row = next(filter(None, map(_framework_of_package, _packages(kind))), None)
    return _STANDARD if row is None and hasattr(kind, "__array_namespace__") else row


def _framework_of_package(package: str) -> Framework | None:
    """Return the framework of a package; for Keras, that of its backend."""
    if package == "keras" and package in sys.modules:
        package = str(sys.modules[package].backend.backend())
    return _BY_PACKAGE.get(package)


def namespace_of(row: Framework, like: Any = None) -> Any:
    """Return the module of a framework's functions, or the namespace that an array returns.

    The module is already loaded: by the user, or by the function under test that imports it.
    """
    return import_module(row.module) if row.module else like.__array_namespace__()


def format_name(dtype: Any) -> str:
    """Return the name of a number format of any framework: ``float32``, ``bfloat16``."""
    # NumPy needs 5 µs to write a name: a third of the time for 4,096 × 64 values of an encoding.
    if (short := _CHARACTERS.get(getattr(dtype, "char", ""))) is not None:
        return short
    text = str(dtype)
    text = text.rpartition(".")[2] if "." in text else getattr(dtype, "name", text)
    return _FORMATS.get(text, text)


def is_traced(value: Any) -> bool:
    """Return whether an array has no values yet: in ``jax.jit``, ``jax.grad``, ``tf.function``."""
    return any(kind.__name__ in ("Tracer", "SymbolicTensor") for kind in type(value).__mro__)


def made_array(row: Framework, values: Any, dtype: str, like: Any = None) -> Any:
    """Make an array of a framework. For bfloat16, ``values`` holds the bits in 16-bit words.

    Raises: TypeError if the framework has no such format and would use another.
    """
    xp = namespace_of(row, like)
    if dtype == "bfloat16":
        made = row.of_bits(xp, row.make(xp, values.view("int16")))
    else:
        made = row.make(xp, values)
    if "int" not in dtype and format_name(made.dtype) != dtype:
        raise TypeError(f"{row.name} makes {format_name(made.dtype)} of {dtype}")
    return made if like is None else row.beside(made, like)


def as_numpy(value: Any) -> tuple[Any, str]:
    """Return an array as NumPy's, and the name of its format; bfloat16 becomes float32, exactly.

    Raises: what the framework raises.
    """
    row = framework_of(value)
    if row is None:
        has_values = hasattr(value, "__array__") or not hasattr(value, "__dlpack__")
        values = _numpy().asarray(value) if has_values else _numpy().from_dlpack(value)
        return _readable(values), values.dtype.name
    name = format_name(value.dtype)
    if name == "bfloat16":
        value = row.cast(namespace_of(row, value), value, "float32")
    return _readable(row.read(value)), name


def _readable(values: Any) -> Any:
    coarse = values.dtype.kind == "V" and values.dtype.name == "bfloat16"
    return values.astype("float32") if coarse else values


def innermost(called_part: Any) -> Any:
    """Return the function that a class or an object calls, without its decorators."""
    if not hasattr(called_part, "__globals__") and not hasattr(called_part, "__wrapped__"):
        kind = called_part if isinstance(called_part, type) else type(called_part)
        own = getattr(kind, "forward", kind.__call__)
        called_part = getattr(called_part, "func", own)  # functools.partial has func
    try:
        return inspect.unwrap(called_part)
    except ValueError:  # the decorators wrap each other in a cycle
        return called_part


def likely_frameworks(function: Any, part: Any, annotations: list[Any]) -> list[str]:
    """Return the loaded frameworks whose arrays a function may accept, likeliest first.

    The order is: annotations, the type of the callable, names in its code, all names of its module,
    then NumPy and torch. ``part`` is the part of the function that is called.
    """
    if find_spec("numpy") is None:
        return ["torch"] if find_spec("torch") else []
    home = getattr(part, "__globals__", {})
    ranked: dict[str, None] = {}
    for packages in (
        (package for text in annotations for package in _packages_in_annotation(text, home)),
        _packages(type(function), function),
        _packages_in_code(getattr(part, "__code__", None), home),
        (package for value in list(home.values()) for package in _packages(value, type(value))),
    ):
        met = set(map(_framework_of_package, packages))
        ranked.update(dict.fromkeys(row.name for row in FRAMEWORKS if row in met))
    loaded = loaded_frameworks()
    names = [*ranked, "numpy", "torch"]
    return [name for name in dict.fromkeys(names) if name in loaded]


def loaded_frameworks() -> list[str]:
    """Return the frameworks whose modules are loaded, and NumPy."""
    return [row.name for row in FRAMEWORKS if row.name == "numpy" or row.module in sys.modules]


def _packages(*values: Any) -> Iterator[str]:
    """Yield the top-level packages of modules, and of types with all their base classes."""
    for value in values:
        for kind in value.__mro__ if isinstance(value, type) else (value,):
            try:
                is_module = isinstance(kind, type(sys))
                name = str(getattr(kind, "__name__" if is_module else "__module__", ""))
            except Exception:  # a user's object, whose attributes may raise anything
                continue
            yield name.partition(".")[0]


def _packages_in_annotation(annotation: Any, home: Any) -> Iterator[str]:
    """Yield the packages of the types that an annotation names, also if it is a string."""
    text = annotation if isinstance(annotation, str) else repr(annotation)
    for name in re.findall(r"(?<![\w.])[A-Za-z_]\w*", text):
        yield name
        if name in home:
            yield from _packages(home[name])


def _packages_in_code(code: Any, home: Any) -> Iterator[str]:
    """Yield the packages that a function's code names or imports."""
    for name in getattr(code, "co_names", ()):
        yield name.partition(".")[0].replace("numpy", "")  # numpy is also a method of tensors
        if name in home:
            yield from _packages(home[name], type(home[name]))
    for constant in getattr(code, "co_consts", ()):
        yield from _packages_in_code(constant, home)
