"""The torch backend: exact values on any device with float64, and what torch modules compute.

torch is imported when something is computed with it, or its status asked for, never before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from posenc_cli.backends import torch_device
from posenc_cli.backends.numpy import ReducedWaves
from posenc_cli.backends.torch_device import Tensor, tensor_of
from posenc_cli.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from posenc_cli.backends.base import (
        Arithmetic,
        FrequencyRule,
        Reduced,
        ReducedFiller,
        Status,
        WaveFiller,
    )
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals


class RuleNamespace:
    """torch, for a rule of frequencies: arrays are of one precision and on one device."""

    def __init__(self, torch: Any, dtype: Any, device: Any) -> None:
        self._torch = torch
        self._given = {"dtype": dtype, "device": device}
        self.float64 = dtype

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def arange(self, *bounds: int) -> Tensor:
        """Integers in the precision."""
        # As integers first: from float bounds torch computes each with a rounding of its own.
        torch, device = self._torch, self._given["device"]
        return torch.arange(*bounds, dtype=torch.int64, device=device).to(self.float64)

    def asarray(self, values: Any, dtype: Any = None) -> Tensor:
        """Values in the precision."""
        return self._torch.asarray(values, **{**self._given, **({"dtype": dtype} if dtype else {})})


def reduced_frequencies(
    torch: Any, rule: FrequencyRule, *, arithmetic: Reduced, device: Any
) -> Tensor:
    """The frequencies of a rule, evaluated in float32 (or float64) and cast to the arithmetic."""
    form = torch.float64 if arithmetic == "float64" else torch.float32
    return rule(RuleNamespace(torch, form, device)).to(getattr(torch, arithmetic))


class TorchReducedWaves(ReducedWaves):
    """cos and sin of position · frequency as torch computes them in a precision."""

    def __init__(
        self, torch: Any, rule: FrequencyRule, *, scale: float, arithmetic: Reduced, device: Any
    ) -> None:
        self._torch = torch
        self._device = device
        self._scale = scale
        self._frequencies = reduced_frequencies(torch, rule, arithmetic=arithmetic, device=device)

    def _products(self, positions: Integers | Reals) -> Tensor:
        column = tensor_of(self._torch, positions, self._device)[:, None]  # (P, 1)
        return column.to(self._frequencies.dtype) * self._frequencies[None, :]

    def _scaled_values(self, angles: Tensor, function: Literal["cos", "sin"]) -> Tensor:
        values = angles.cos() if function == "cos" else angles.sin()
        return values if self._scale == 1 else values * self._scale

    def _doubles(self, values: Tensor) -> RealRows:
        # Widened on the host: not every device has float64.
        return values.cpu().to(self._torch.float64).numpy()  # type: ignore[no-any-return]


class TorchBackend:
    """Waves by torch, on the CPU or another device.

    torch shares long operations among threads of its own (``OMP_NUM_THREADS``), which changes no
    value here. None of torch's global settings is changed.
    """

    name = "torch"
    block_values = 1 << 20  # each transfer to and from a device has a cost of its own
    call_values = block_values

    def status(self) -> Status:
        """Whether torch can be used here, and on which devices: imports it to find out."""
        return torch_device.status()

    def exact(
        self, frequencies: Sequence[Decimal], *, scale: Decimal, device: str | None
    ) -> WaveFiller:
        """Waves whose every cell is correctly rounded.

        Raises: InvalidInput for what is no name of a device; Unavailable where torch or the device
        is missing, or the device has no float64: the values would be the CPU's, not the device's.
        """
        from posenc_cli.backends.torch_waves import ExactWaves

        torch, place = _placed(device, "exact")
        return ExactWaves(torch, frequencies, scale=scale, device=place)

    def reduced(
        self, rule: FrequencyRule, *, scale: float, arithmetic: Reduced, device: str | None
    ) -> ReducedFiller:
        """Waves as a torch module computes them in that precision.

        Raises: InvalidInput for what is no name of a device; Unavailable where torch or the device
        is missing, or lacks the precision.
        """
        torch, place = _placed(device, arithmetic)
        return TorchReducedWaves(torch, rule, scale=scale, arithmetic=arithmetic, device=place)

    def frequencies(self, rule: FrequencyRule, *, arithmetic: Reduced, device: str | None) -> Reals:
        """The frequencies as a torch module in that precision holds them.

        Raises: InvalidInput for what is no name of a device; Unavailable where torch or the device
        is missing, or lacks the precision.
        """
        torch, place = _placed(device, arithmetic)
        frequencies = reduced_frequencies(torch, rule, arithmetic=arithmetic, device=place)
        return frequencies.cpu().to(torch.float64).numpy()  # type: ignore[no-any-return]


def _placed(device: str | None, arithmetic: Arithmetic) -> tuple[Any, Any]:
    """The torch module and a device of it, which has what the arithmetic needs."""
    try:
        torch = torch_device.library()
    except Unavailable as error:
        raise Unavailable(f"--backend torch: {error.message}", hint=error.hint) from error
    place = torch_device.device(torch, device)
    if arithmetic in ("exact", "float64") and not torch_device.has_float64(torch, place):
        raise Unavailable(
            f"--device {device}: has no float64",
            hint="exact values are the same on the CPU; --arithmetic float32 computes there",
        )
    return torch, place
