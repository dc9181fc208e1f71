"""Formulas for rows, run on torch tensors with the number formats of NumPy.

Owns what torch does otherwise than a formula expects: without being told, it makes arrays float32
and puts them on the CPU, turns a quotient of integers into float32, and may divide by multiplying
with a reciprocal. A mode that lasts while the formula runs, in its thread alone, sees to these;
torch's own defaults stay as they are.

Imports NumPy, and is given torch: import it only where something is computed.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.backends.torch_device import moved

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from posenc_cli.backends.base import Formula, Table

Tensor = Any

FACTORIES = {"arange", "asarray", "empty", "eye", "full", "linspace", "ones", "tensor", "zeros"}
REFLECTED = {"__rdiv__", "__rtruediv__"}
QUOTIENTS = {"div", "divide", "true_divide", "__div__", "__truediv__", *REFLECTED}


def computed_rows(
    torch: Any, formula: Formula, positions: NDArray[Any], table: Table | None, *, device: Any
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """``formula(xp, positions, table)`` by torch on a device, as float64 arrays.

    Shape: (P, width), and what is to be added to it, if anything.
    """

    def on_device(indices: Tensor) -> Tensor:
        assert table is not None
        return moved(torch, table(indices.cpu().numpy()), device)

    xp = import_module("array_api_compat.torch")
    with numpy_formats(torch, device):
        values = formula(xp, moved(torch, positions, device), None if table is None else on_device)
    high, low = values if isinstance(values, tuple) else (values, None)
    return _array(high), None if low is None else _array(low)


def _array(values: Any) -> NDArray[Any]:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values, np.float64)


def numpy_formats(torch: Any, device: Any) -> Any:
    """A context in which torch chooses number formats as NumPy does, on a device by default.

    Raises: TypeError, within it, where an operation gives float32 that nothing asked for.
    """
    return _mode_class()(_Formats(torch, device))


@cache
def _mode_class() -> Any:
    """The class of that context: its base is torch's, so it exists once torch does."""
    base: Any = import_module("torch.overrides").TorchFunctionMode

    class NumpyFormats(base):  # type: ignore[misc]
        def __init__(self, formats: _Formats) -> None:
            super().__init__()
            self._formats = formats

        def __torch_function__(
            self, function: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return self._formats.called(function, args, dict(kwargs or {}))

    return NumpyFormats


class _Formats:
    """Calls of torch's functions, with the number formats that NumPy would choose."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self._device = device
        self._narrow = (torch.float32, torch.float16, torch.bfloat16)

    def called(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = getattr(function, "__name__", "")
        if name in FACTORIES and kwargs.get("device") is None:
            kwargs["device"] = self._device
        if name in QUOTIENTS:
            function, args = self._torch.true_divide, self._operands(name, args)
        result = function(*args, **kwargs)
        if not self._is_default(result, [*args, *kwargs.values()]):
            return result
        if name in FACTORIES:
            return function(*args, **{**kwargs, "dtype": self._torch.float64})
        result = function(*map(self._widened, args), **kwargs)
        if result.dtype == self._torch.float32:
            raise TypeError(f"torch's {name} gives float32 here: name the dtype, xp.float64")
        return result

    def _is_default(self, result: Any, given: list[Any]) -> bool:
        """Whether a result is float32 though nothing given is: torch's default, not NumPy's."""
        if not self._torch.is_tensor(result) or result.dtype != self._torch.float32:
            return False
        formats = [*given, *(getattr(each, "dtype", None) for each in given)]
        return not any(each in self._narrow for each in formats if _is_format(each))

    def _operands(self, name: str, args: Any) -> Any:
        """Dividend and divisor as tensors: by a number, torch multiplies with its reciprocal."""
        first, second = args[:2] if name not in REFLECTED else (args[1], args[0])
        form = first.dtype if self._torch.is_tensor(first) else second.dtype
        if not form.is_floating_point and not form.is_complex:
            form = self._torch.float64
        return tuple(
            each
            if self._torch.is_tensor(each)
            else self._torch.tensor(each, dtype=form, device=self._device)
            for each in (first, second)
        )

    def _widened(self, value: Any) -> Any:
        whole = self._torch.is_tensor(value) and value.dtype in (
            self._torch.int32,
            self._torch.int64,
        )
        return value.to(self._torch.float64) if whole else value


def _is_format(value: Any) -> bool:
    return type(value).__name__ == "dtype"
