"""The available backends, and the choice of one for a job."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from posenc_cli.errors import Unavailable, unknown_name
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.backends.base import Backend, Status


class BackendEntry(Record):
    """A backend that comes with posenc: its location, the extra it needs, and its description."""

    target: str
    extra: str | None
    summary: str


BUILT_IN: Mapping[str, BackendEntry] = {
    "numpy": BackendEntry(
        "posenc_cli.backends.numpy:NumpyBackend", None, "always installed; the reference"
    ),
    "fast": BackendEntry(
        "posenc_cli.backends.fast:FastBackend",
        None,
        "a C kernel, included in the wheels for Linux and macOS; other systems need a C compiler",
    ),
    "torch": BackendEntry(
        "posenc_cli.backends.torch:TorchBackend",
        "torch",
        "torch, on the CPU, CUDA and other devices with float64",
    ),
}

FAST_FROM = 1 << 20
"""From this many values on, the compiled kernel repays its start: measured on whole processes."""


class BackendChoice(Record):
    """A backend; ``lost`` tells why a faster one could not be used."""

    backend: Backend
    lost: str = ""


@cache
def find(name: str) -> Backend:
    """Return the backend of a name, always the same object.

    Raises: InvalidInput for an unknown name.
    """
    from importlib import import_module

    if name not in BUILT_IN:
        raise unknown_name("backend", name, BUILT_IN)
    module, _, attribute = BUILT_IN[name].target.partition(":")
    backend: Backend = getattr(import_module(module), attribute)()
    return backend


def status(name: str) -> Status:
    """Return the status of a backend, and when ``auto`` takes it.

    For an available backend, the reason ends with when ``auto`` uses it, or why it does not.
    """
    here = find(name).status()
    if not here.available:
        return here
    others = ", ".join(device for device in here.devices if device != "cpu")
    # Measured in benchmarks/results for streaming to a file, as `generate` does.
    on_cpu = "on the CPU, numpy and fast write tables faster (measured)"
    when = {
        "numpy": "auto uses it unless another backend is faster for the size",
        "fast": f"auto uses it for tables of at least {FAST_FROM} values",
        "torch": f"auto uses it for --device {others}; {on_cpu}"
        if others
        else f"auto does not use it: {on_cpu}",
    }
    return replace(here, reason=f"{here.reason}; {when[name]}")


def choose(name: str, *, device: str | None, values: int | None) -> BackendChoice:
    """Return the backend for a job, by name or ``auto``.

    ``values`` is how many values of the job the compiled kernel could compute, or None if none.

    Raises: InvalidInput for an unknown name; Unavailable if the backend cannot be used here.
    """
    if name != "auto":
        return BackendChoice(_usable(name, device, flag=f"--backend {name}"))
    if device is not None and device.partition(":")[0] != "cpu":
        return BackendChoice(_usable("torch", device, flag=f"--device {device}"))
    return _automatic_choice(values)


def _usable(name: str, device: str | None, *, flag: str) -> Backend:
    """Return the backend after checking that it works and has the device ``flag`` asks for."""
    backend = find(name)
    here = status(name)
    if not here.available:
        extra = BUILT_IN[name].extra
        raise Unavailable(f"{flag}: {here.reason}", hint=extra and f"pip install {extra}")
    if device is not None and device.partition(":")[0] not in here.devices:
        raise Unavailable(
            f"--device {device}: the {name} backend has {', '.join(here.devices)} here",
            hint="posenc --version --verbose lists them",
        )
    return backend


def _automatic_choice(values: int | None) -> BackendChoice:
    """Return the compiled kernel if it works and repays its start, else NumPy."""
    if values is None or values < FAST_FROM:
        return BackendChoice(find("numpy"))
    fast = find("fast")
    here = fast.status()
    return BackendChoice(fast) if here.available else BackendChoice(find("numpy"), here.reason)
