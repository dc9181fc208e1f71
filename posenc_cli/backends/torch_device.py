"""The torch library and its devices: found late, and reported in one line where they are missing.

torch is imported only by the functions here, and by nothing that merely looks: importing it takes
longer than most jobs. It is held as ``Any``, so that the code is checked without torch too.
"""

from __future__ import annotations

import os
import threading
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from posenc_cli.backends.base import Status
from posenc_cli.errors import InvalidInput, Unavailable, abbreviated, described

if TYPE_CHECKING:
    from numpy.typing import NDArray

Tensor = Any
"""A torch tensor, on any device."""

HINT = "pip install torch"
_WARNINGS = threading.Lock()  # their filters belong to the whole process
_ACCELERATORS = ("cuda", "mps", "xpu")


def status() -> Status:
    """Whether torch can be used here, and on which devices.

    Imports torch, if it is installed: only torch knows whether it can be loaded and what devices
    there are. Nothing asks for this status unless torch is asked for, or all backends are listed.
    """
    try:
        torch = library()
        devices = ("cpu", *_accelerators(torch))
        version = str(torch.__version__)
    except Unavailable as error:
        return Status(False, None, (), error.message)
    except Exception as error:  # an impostor, or a broken driver
        return Status(False, None, (), f"torch cannot be used ({described(error)})")
    reason = "exact values on CPU and CUDA; --arithmetic float32 as torch modules compute it"
    if "mps" in devices:
        reason += "; mps has no float64, so exact values need --device cpu"
    return Status(True, version, devices, reason)


def library() -> Any:
    """The torch module.

    Raises: Unavailable where it cannot be imported.
    """
    if not installed("torch"):
        raise Unavailable("torch is not installed", hint=HINT)
    try:
        os.getcwd()  # noqa: PTH109 - torch's libraries end a process that has none
    except OSError as error:
        raise Unavailable(
            "torch cannot be imported where the current folder is gone",
            hint="change to a folder that exists",
        ) from error
    try:
        return import_module("torch")
    except (Exception, SystemExit) as error:
        raise Unavailable(f"torch cannot be imported ({described(error)})", hint=HINT) from error


def device(torch: Any, name: str | None) -> Any:
    """The ``torch.device`` of a value of ``--device``; None is the CPU.

    Raises: InvalidInput for what no torch calls a device; Unavailable for one that is not here.
    """
    name = "cpu" if name is None else name
    try:
        # torch warns of names that have gone out of use; whether they work is seen below.
        with _WARNINGS, warnings.catch_warnings(action="ignore"):
            place = torch.device(name)
    except (RuntimeError, ValueError) as error:
        raise InvalidInput(
            f"--device {abbreviated(name)}: no device of torch is called that",
            hint="cpu, cuda, cuda:1, mps and xpu are; posenc --version --verbose lists yours",
        ) from error
    if place.type == "cuda" and not torch.backends.cuda.is_built():
        raise Unavailable(
            f"--device {name}: this torch ({torch.__version__}) has no CUDA",
            hint="without --device the values are the same",
        )
    try:
        torch.ones(1, dtype=torch.float32, device=place).item()
    except Exception as error:
        raise Unavailable(
            f"--device {name}: torch cannot compute there ({described(error)})",
            hint="posenc --version --verbose lists the devices found here",
        ) from error
    return place


def tensor_of(torch: Any, array: NDArray[Any], device: Any) -> Tensor:
    """A copy of an array on a device.

    Copied, because torch shares no memory with arrays that are read-only, or run backwards.
    """
    import numpy as np

    return torch.tensor(np.ascontiguousarray(array), device=device)


def has_float64(torch: Any, device: Any) -> bool:
    """Whether a device computes in float64: Apple's GPUs and some others do not."""
    try:
        one = torch.ones(1, dtype=torch.float64, device=device)
        return bool((one + 2.0**-52).item() > 1)
    except Exception:  # each device refuses with an exception of its own
        return False


def installed(module: str) -> bool:
    """Whether there is a module of a name, without importing it."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a finder that refuses, or a module without a spec
        return False


def _accelerators(torch: Any) -> list[str]:
    """The devices beside the CPU, every index of those that there are several of."""
    devices = []
    for name in _ACCELERATORS:
        module = getattr(torch, name, None)
        if module is None or not module.is_available():
            continue
        count = module.device_count()
        devices += [name, *(f"{name}:{index}" for index in range(count) if count > 1)]
    return devices
