"""What the numbers depend on: processor and versions, but nothing that names a place."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from posenc_cli.encode.engine import processors

LIBRARIES = (
    "numpy",
    "torch",
    "numba",
    "orjson",
    "transformers",
    "rotary-embedding-torch",
    "positional-encodings",
)


def facts() -> dict[str, str | int | dict[str, str | None]]:
    """The processor, its cores, the system's name, and versions (None: not installed)."""
    return {
        "cpu": _processor(),
        "cores": processors(),
        "system": platform.system(),
        "python": platform.python_version(),
        "posenc": version("posenc-cli"),
        "libraries": {name: installed(name) for name in LIBRARIES},
    }


def installed(name: str) -> str | None:
    """The version of a library, or None where it is not installed."""
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
