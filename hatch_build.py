"""Compile the kernel of the ``fast`` backend where there is a C compiler.

A wheel that has it is for one platform; without it, or where POSENC_PURE is set, one is for all of
them, and NumPy does the work. An editable installation has it beside its source.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
from posenc_cli.backends.native import LIBRARY, SOURCES, is_whole, seal

FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Wno-psabi", "-fPIC")
SHARED = ("-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic")


def compiled(library: Path = LIBRARY, flags: tuple[str, ...] = ()) -> bool:
    """Compile the library, unless it is there; whether it is there now.

    Raises: subprocess.CalledProcessError where there is a compiler that refuses it.
    """
    if library.exists() and is_whole(library):
        return True
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not compiler or sys.platform != "linux":
        return False
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder, library.name)
        command = [*compiler.split(), *FLAGS, *SHARED, *flags, "-o", str(made), str(SOURCES[0])]
        subprocess.run(command, check=True, capture_output=True, text=True)
        seal(made)
        made.replace(library)
    return True


class NativeHook(BuildHookInterface[Any]):
    """Adds the library to what is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library, and name the platform in the tag of a wheel that has it."""
        if os.environ.get("POSENC_PURE"):
            return
        try:
            if not compiled():
                return
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"the compiled kernel is left out: {error}")
            return
        if version == "editable":
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"
        build_data["artifacts"].append(str(LIBRARY.relative_to(self.root)))


def _platform() -> str:
    """The platform's tag: the library needs nothing that glibc 2.17 has not, and no Python."""
    if platform.libc_ver()[0] == "glibc":
        return f"manylinux_2_17_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
