"""What a backend is, the available backends, and the choice of one for a job.

A backend is a library that computes waves, exactly or as its users' code does. Every backend gives
the same bytes for exact arithmetic. For the arithmetic of frameworks (``--arithmetic float32`` …)
each gives the values that its own library computes in that precision. Rows and scores, which are
formulas of integers, are always computed by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from posenc_cli.errors import Unavailable, unknown_name
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from posenc_cli.numerics.arrays import Integers, Reals, StoredRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.placements import Placement


Arithmetic = Literal["exact", "float64", "float32", "bfloat16"]
ARITHMETICS: tuple[Arithmetic, ...] = get_args(Arithmetic)
Reduced = Literal["float64", "float32", "bfloat16"]

FrequencyRule = Callable[[Any], Any]
"""A scheme's frequencies over an array namespace: ``rule(xp)`` → (K,)."""


class Status(Record):
    """Whether a backend can be used here.

    ``reason`` tells why it cannot, or what it is good for. ``devices`` are values of ``--device``.
    """

    available: bool
    version: str | None
    devices: tuple[str, ...]
    reason: str


class WaveFiller(Protocol):
    """Fills columns of a block of rows with the cosines and sines of some waves."""

    def fill(
        self,
        out: StoredRows,
        positions: Integers,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row per position.

        Threads may fill different rows of one array at the same time.

        Shape: ``positions`` (P,) int64; ``out`` (P, columns) in the storage of ``dtype``.
        """

    def angles(self, positions: Integers, *, dtype: DType) -> StoredRows:
        """Return the angles position · frequency in (−π, π], in the storage of ``dtype``.

        Units: radians.
        Shape: (positions, frequencies).
        """


class ReducedFiller(Protocol):
    """A `WaveFiller` that computes in a given precision and accepts non-integer positions."""

    def fill(
        self,
        out: StoredRows,
        positions: Integers | Reals,
        placements: Sequence[Placement],
        *,
        dtype: DType,
    ) -> None:
        """Write the placements' columns of ``out``, one row per position.

        Shape: ``positions`` (P,) int64, or float64 if some are not integers.
        """

    def angles(self, positions: Integers | Reals, *, dtype: DType) -> StoredRows:
        """Return the angles position · frequency in (−π, π], in the storage of ``dtype``."""


class Backend(Protocol):
    """A library that computes waves, found by name."""

    @property
    def name(self) -> str:
        """The name for ``--backend``."""

    @property
    def block_values(self) -> int | None:
        """The number of values it fills best at a time, or None if that does not matter."""

    @property
    def call_values(self) -> int | None:
        """The number of values it computes best in one call, into memory of the caller."""

    def status(self) -> Status:
        """Return whether it can be used here, and on which devices.

        ``auto`` asks for the status of CPU backends, so those must not import their library here.
        """

    def exact(
        self, frequencies: Sequence[Decimal], *, scale: Decimal, device: str | None
    ) -> WaveFiller:
        """Return waves whose every entry is correctly rounded.

        Units: frequencies in radians per position.
        Raises: Unavailable if the library or the device is missing or lacks float64.
        """

    def reduced(
        self, rule: FrequencyRule, *, scale: float, arithmetic: Reduced, device: str | None
    ) -> ReducedFiller:
        """Return waves computed in one precision throughout, as code written with the library does.

        Positions, frequencies, their product, its cosine and the scaled cosine are each rounded to
        the precision. In bfloat16 the frequencies are evaluated in float32 and then rounded, as in
        a module that was built in float32 and cast.

        Raises: Unavailable if the library or the device is missing.
        """

    def frequencies(self, rule: FrequencyRule, *, arithmetic: Reduced, device: str | None) -> Reals:
        """Return the frequencies that ``reduced`` waves use, each held exactly by a float64.

        Raises: Unavailable if the library or the device is missing.
        """


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
            f"--device {device}: on this machine, the {name} backend finds only "
            f"{', '.join(here.devices)}",
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
