"""Compile the kernel of the ``fast`` backend where there is a C compiler; absolute links for PyPI.

A wheel with the kernel is for one platform; without it, or with POSENC_PURE set, it is for all of
them, and NumPy computes. An editable installation has the kernel beside its source. A source
distribution never has one.

POSENC_PLATFORM names another platform than this machine, and CC a compiler for it:
``tools/wheels.py`` builds every wheel of a release that way.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).parent))
from posenc_cli.backends.native import PLATFORM, SOURCES, checksum_of, is_whole, library_of, seal

FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Wno-psabi", "-fPIC")
SHARED = ("-shared", "-fvisibility=hidden")


class Target(NamedTuple):
    """A platform: the tag of its wheels, and how its libraries begin.

    The tag holds on every machine that has it: the library needs no Python, and nothing that
    glibc 2.17 has not.
    """

    tag: str
    magic: bytes
    machine: bytes
    """Stands at byte 4 of a Mach-O file, at byte 18 of an ELF file."""


def _elf(tag: str, machine: int) -> Target:
    return Target(tag, b"\x7fELF\x02\x01", machine.to_bytes(2, "little"))


def _mach_o(tag: str, machine: int) -> Target:
    return Target(tag, b"\xcf\xfa\xed\xfe", machine.to_bytes(4, "little"))


TARGETS = {
    "linux-x86_64": _elf("manylinux_2_17_x86_64", 62),
    "linux-aarch64": _elf("manylinux_2_17_aarch64", 183),
    "linux-x86_64-musl": _elf("musllinux_1_2_x86_64", 62),
    "linux-aarch64-musl": _elf("musllinux_1_2_aarch64", 183),
    "darwin-x86_64": _mach_o("macosx_11_0_x86_64", 0x0100_0007),
    "darwin-arm64": _mach_o("macosx_11_0_arm64", 0x0100_000C),
}


def is_for(library: Path, name: str) -> bool:
    """Whether a library is for the platform ``name``, as far as its first bytes say.

    Of a platform that TARGETS does not know, nothing is asked.
    """
    target = TARGETS.get(name)
    if target is None:
        return True
    start = library.read_bytes()[:20]
    place = 18 if target.magic.startswith(b"\x7fELF") else 4
    return start.startswith(target.magic) and start[place:].startswith(target.machine)


def compiled(library: Path, name: str = PLATFORM, flags: tuple[str, ...] = ()) -> bool:
    """Compile the library for a platform, unless it is there; whether it is there now.

    Raises: subprocess.CalledProcessError where there is a compiler that refuses it; OSError where
    what it compiles is for another platform.
    """
    if library.exists() and is_whole(library) and is_for(library, name):
        return True
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not compiler or not name.startswith(("linux", "darwin")):
        return False
    linked = (
        ("-Wl,-Bsymbolic", "-s") if name.startswith("linux") else ("-mmacosx-version-min=11.0",)
    )
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder, library.name)
        command = [*shlex.split(compiler), *FLAGS, *SHARED, *linked, *flags]
        subprocess.run(
            [*command, "-o", str(made), str(SOURCES[0])], check=True, capture_output=True, text=True
        )
        if not is_for(made, name):
            raise OSError(f"{compiler} does not compile for {name}")
        seal(made)
        for file in (checksum_of(made), made):
            file.replace(library.parent / file.name)
    return True


class NativeHook(BuildHookInterface[Any]):
    """Adds the library to a wheel, or puts it beside the source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library, and name the platform in the tag of a wheel that has it.

        What lies in the source tree is not taken into a wheel: it may be of another machine.
        """
        if os.environ.get("POSENC_PURE") or self.target_name != "wheel":
            return
        asked = os.environ.get("POSENC_PLATFORM")
        if asked and asked not in TARGETS:
            raise ValueError(f"POSENC_PLATFORM={asked}: not one of {', '.join(TARGETS)}")
        name = asked or PLATFORM
        library = library_of(name)
        if version != "editable":
            folder = tempfile.mkdtemp()
            atexit.register(shutil.rmtree, folder, ignore_errors=True)  # after the wheel is written
            library = Path(folder, library.name)
        try:
            made = compiled(library, name)
        except (OSError, subprocess.CalledProcessError) as error:
            made = False
            self.app.display_warning(f"the compiled kernel is left out: {error}")
        if asked and not made:
            raise RuntimeError(f"POSENC_PLATFORM={asked}: CC names no compiler for it")
        if not made or version == "editable":
            return
        tag = TARGETS[name].tag if name in TARGETS else sysconfig.get_platform()
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{tag.replace('-', '_').replace('.', '_')}"
        for file in (library, checksum_of(library)):
            build_data["force_include"][str(file)] = f"posenc_cli/backends/{file.name}"


class ReadmeHook(MetadataHookInterface):
    """The long description: the README, whose links lead to the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Make the README's links absolute, once pyproject.toml says where posenc lives."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        if url := metadata.get("urls", {}).get("Repository"):
            for link, kind in ((r"(!\[[^]]*\]\()", "raw"), (r"((?<!!)\[[^]]*\]\()", "blob")):
                text = re.sub(rf"{link}(?!https?:|#)", rf"\1{url}/{kind}/main/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
