"""Waves as a torch module computes them: every step in its precision, on its device.

Owns the arithmetic of a rotary module as it is commonly written: ``inv_freq`` evaluated in
float32, the outer product with the positions, ``cos()`` and ``sin()``, times the scale. In bfloat16
it is that module after ``.to(torch.bfloat16)``, which rounds ``inv_freq`` too.

Imports NumPy, and is given torch: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.backends.torch_device import Tensor, moved
from posenc_cli.numerics.rounding import narrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from posenc_cli.backends.base import FrequencyRule, Reduced
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.placements import Placement


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
        counted = self._torch.arange(*bounds, dtype=self._torch.int64, device=self._given["device"])
        return counted.to(self._given["dtype"])

    def asarray(self, values: Any, dtype: Any = None) -> Tensor:
        """Values in the precision."""
        return self._torch.asarray(values, **{**self._given, **({"dtype": dtype} if dtype else {})})


def reduced_frequencies(
    torch: Any, rule: FrequencyRule, *, arithmetic: Reduced, device: Any
) -> Tensor:
    """The frequencies of a rule, evaluated in float32 (or float64) and cast to the arithmetic."""
    form = torch.float64 if arithmetic == "float64" else torch.float32
    return rule(RuleNamespace(torch, form, device)).to(getattr(torch, arithmetic))


class TorchReducedWaves:
    """cos and sin of position · frequency as torch computes them in a precision."""

    def __init__(
        self, torch: Any, rule: FrequencyRule, *, scale: float, arithmetic: Reduced, device: Any
    ) -> None:
        self._torch = torch
        self._device = device
        self._scale = scale
        self._frequencies = reduced_frequencies(torch, rule, arithmetic=arithmetic, device=device)

    def fill(
        self,
        out: NDArray[Any],
        positions: NDArray[Any],
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row a position.

        Shape: ``positions`` (P,) int64; ``out`` (P, columns) in the storage of ``dtype``.
        """
        angles = self._products(positions)
        for placement in placements:
            if placement.function == "zero":
                out[:, placement.columns] = 0
                continue
            chosen = angles[:, placement.waves]
            values = chosen.cos() if placement.function == "cos" else chosen.sin()
            if self._scale != 1:
                values = values * self._scale
            out[:, placement.columns] = narrow(self._doubles(values), None, dtype)

    def angles(self, positions: NDArray[Any], *, dtype: DType) -> NDArray[Any]:
        """The product of position and frequency in the precision, then reduced to (−π, π].

        Shape: (positions, frequencies).
        """
        turns = np.remainder(self._doubles(self._products(positions)), 2 * np.pi)
        return narrow(np.where(turns > np.pi, turns - 2 * np.pi, turns), None, dtype)

    def _products(self, positions: NDArray[Any]) -> Tensor:
        counted = moved(self._torch, positions, self._device)
        return counted.to(self._frequencies.dtype)[:, None] * self._frequencies[None, :]

    def _doubles(self, values: Tensor) -> NDArray[np.float64]:
        # Widened on the host: not every device has float64.
        return values.cpu().to(self._torch.float64).numpy()  # type: ignore[no-any-return]
