"""Describe the machine of a measurement: processor and versions, without names of places."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from posenc_cli import __version__
from posenc_cli.encoding.engine import processors

BUSY = 0.5
"""Load per core, including other processes, above which a run is not reliable."""
LIBRARIES = (
    "numpy",
    "torch",
    "orjson",
    "transformers",
    "rotary-embedding-torch",
    "positional-encodings",
)


def facts() -> dict[str, str | float | dict[str, str | None]]:
    """Return the processor, its cores and load, the system, and versions (None: not installed)."""
    return {
        "cpu": _processor(),
        "cores": processors(),
        "load": round(load(), 2),
        "system": platform.system(),
        "python": platform.python_version(),
        "posenc": __version__,
        "libraries": {name: installed(name) for name in LIBRARIES},
    }


def load() -> float:
    """Return the load average of the last minute per core, or 0 if it is not known."""
    return os.getloadavg()[0] / processors() if hasattr(os, "getloadavg") else 0.0


def installed(name: str) -> str | None:
    """Return the version of a library, or None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
