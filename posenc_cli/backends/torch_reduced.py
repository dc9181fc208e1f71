"""Waves as a torch module computes them: every step in its precision, on its device.

Owns the arithmetic of a rotary module as it is commonly written: ``inv_freq`` evaluated in
float32, the outer product with the positions, ``cos()`` and ``sin()``, times the scale. In bfloat16
it is that module after ``.to(torch.bfloat16)``, which rounds ``inv_freq`` too.

Is given torch: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from posenc_cli.backends.reduced import ReducedWaves
from posenc_cli.backends.torch_device import Tensor, tensor_of

if TYPE_CHECKING:
    from posenc_cli.backends.base import FrequencyRule, Reduced
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
