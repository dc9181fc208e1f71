"""The torch backend: exact values on any device with float64, and the values of torch modules.

torch is imported only when it computes something or its status is needed, because importing it
takes longer than most jobs. It is typed as ``Any``, so that the code can be type-checked without
torch. A missing library or device is reported in one line.
"""

from __future__ import annotations

import os
import threading
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from posenc_cli.backends.registry import (
    Arithmetic,
    FrequencyRule,
    Reduced,
    ReducedFiller,
    Status,
    WaveFiller,
)
from posenc_cli.errors import InvalidInput, Unavailable, abbreviated, described

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from posenc_cli.numerics.arrays import Reals


HINT = "pip install torch"
_WARNINGS = threading.Lock()  # warning filters belong to the whole process
_ACCELERATORS = ("cuda", "mps", "xpu")


def library() -> Any:
    """Return the torch module.

    Raises: Unavailable if it cannot be imported.
    """
    if not installed("torch"):
        raise Unavailable("torch is not installed", hint=HINT)
    try:
        os.getcwd()  # noqa: PTH109 - torch's libraries end a process that has none
    except OSError as error:
        raise Unavailable(
            "torch cannot be imported: the current folder no longer exists",
            hint="change to a folder that exists",
        ) from error
    try:
        return import_module("torch")
    except (Exception, SystemExit) as error:
        raise Unavailable(f"torch cannot be imported ({described(error)})", hint=HINT) from error


def device_of(torch: Any, name: str | None) -> Any:
    """Return the ``torch.device`` for a value of ``--device``; None is the CPU.

    Raises: InvalidInput if torch has no device of that name; Unavailable if it is not here.
    """
    name = "cpu" if name is None else name
    try:
        # torch warns about deprecated names; the code below tests whether they work.
        with _WARNINGS, warnings.catch_warnings(action="ignore"):
            place = torch.device(name)
    except (RuntimeError, ValueError) as error:
        raise InvalidInput(
            f"--device {abbreviated(name)}: torch has no device of this name",
            hint="cpu, cuda, cuda:1, mps and xpu are; posenc --version --verbose lists yours",
        ) from error
    try:
        torch.ones(1, dtype=torch.float32, device=place).item()
    except Exception as error:
        raise Unavailable(
            f"--device {name}: torch cannot compute there ({described(error)})",
            hint="posenc --version --verbose lists the devices found here",
        ) from error
    return place


def has_float64(torch: Any, device: Any) -> bool:
    """Return whether a device computes in float64: Apple's GPUs and some others do not."""
    try:
        one = torch.ones(1, dtype=torch.float64, device=device)
        return bool((one + 2.0**-52).item() > 1)
    except Exception:  # each device raises its own exception
        return False


def installed(module: str) -> bool:
    """Return whether a module of this name exists, without importing it."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a finder that raises, or a module without a spec
        return False


def _accelerators(torch: Any) -> list[str]:
    """Return the devices other than the CPU, with every index of types that have several."""
    devices = []
    for name in _ACCELERATORS:
        module = getattr(torch, name, None)
        if module is None or not module.is_available():
            continue
        count = module.device_count()
        devices += [name, *(f"{name}:{index}" for index in range(count) if count > 1)]
    return devices


class TorchBackend:
    """Waves by torch, on the CPU or another device.

    torch splits long operations among its own threads (``OMP_NUM_THREADS``), which changes no value
    here. None of torch's global settings is changed.
    """

    name = "torch"
    block_values = 1 << 20  # each transfer to and from a device has a fixed cost
    call_values = block_values

    def status(self) -> Status:
        """Return whether torch can be used here, and on which devices, by importing it.

        Only torch knows whether it can be loaded and which devices there are. This status is needed
        only if torch is asked for, or all backends are listed.
        """
        try:
            torch = library()
            devices = ("cpu", *_accelerators(torch))
            version = str(torch.__version__)
        except Unavailable as error:
            return Status(False, None, (), error.message)
        except Exception as error:  # another module named torch, or a broken driver
            return Status(False, None, (), f"torch cannot be used ({described(error)})")
        reason = "exact values on CPU and CUDA; --arithmetic float32 as torch modules compute it"
        if "mps" in devices:
            reason += "; mps has no float64, so exact values need --device cpu"
        return Status(True, version, devices, reason)

    def exact(
        self, frequencies: Sequence[Decimal], *, scale: Decimal, device: str | None
    ) -> WaveFiller:
        """Return waves whose every entry is correctly rounded.

        Raises: InvalidInput for an unknown device name. Unavailable if torch or the device is
        missing, or the device lacks float64: the values would then come from the CPU, not the
        device.
        """
        from posenc_cli.backends.torch_waves import ExactWaves

        torch, place = _placed(device, "exact")
        return ExactWaves(torch, frequencies, scale=scale, device=place)

    def reduced(
        self, rule: FrequencyRule, *, scale: float, arithmetic: Reduced, device: str | None
    ) -> ReducedFiller:
        """Return waves as a torch module computes them in that precision.

        Raises: InvalidInput for an unknown device name; Unavailable if torch or the device is
        missing, or lacks the precision.
        """
        from posenc_cli.backends.torch_waves import TorchReducedWaves

        torch, place = _placed(device, arithmetic)
        return TorchReducedWaves(torch, rule, scale=scale, arithmetic=arithmetic, device=place)

    def frequencies(self, rule: FrequencyRule, *, arithmetic: Reduced, device: str | None) -> Reals:
        """Return the frequencies that a torch module in that precision holds.

        Raises: InvalidInput for an unknown device name; Unavailable if torch or the device is
        missing, or lacks the precision.
        """
        from posenc_cli.backends.torch_waves import reduced_frequencies

        torch, place = _placed(device, arithmetic)
        frequencies = reduced_frequencies(torch, rule, arithmetic=arithmetic, device=place)
        return frequencies.cpu().to(torch.float64).numpy()  # type: ignore[no-any-return]


def _placed(device: str | None, arithmetic: Arithmetic) -> tuple[Any, Any]:
    """Return the torch module and a device with the precision that the arithmetic needs."""
    try:
        torch = library()
    except Unavailable as error:
        raise Unavailable(f"--backend torch: {error.message}", hint=error.hint) from error
    place = device_of(torch, device)
    if arithmetic in ("exact", "float64") and not has_float64(torch, place):
        raise Unavailable(
            f"--device {device} has no float64",
            hint="exact values are the same on the CPU; --arithmetic float32 computes there",
        )
    return torch, place
