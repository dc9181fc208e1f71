"""The torch backend: exact values on any device with float64, and what torch modules compute.

torch is imported when something is computed with it, or its status asked for, never before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.backends import torch_device
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
    from posenc_cli.numerics.arrays import Reals


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
        from posenc_cli.backends.torch_reduced import TorchReducedWaves

        torch, place = _placed(device, arithmetic)
        return TorchReducedWaves(torch, rule, scale=scale, arithmetic=arithmetic, device=place)

    def frequencies(self, rule: FrequencyRule, *, arithmetic: Reduced, device: str | None) -> Reals:
        """The frequencies as a torch module in that precision holds them.

        Raises: InvalidInput for what is no name of a device; Unavailable where torch or the device
        is missing, or lacks the precision.
        """
        from posenc_cli.backends.torch_reduced import reduced_frequencies

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
