"""Find the interpreters of some versions: on PATH, or among pyenv's.

Usage: python tools/pythons.py VERSION…

Prints a line for each version: the version, and the path of an interpreter that works, or
"missing".
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def candidates(version: str) -> Iterator[str]:
    """Where an interpreter of ``version`` may be."""
    yield f"python{version}"
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for folder in sorted(root.glob(f"versions/{version}.*"), reverse=True):
        yield str(folder / "bin" / f"python{version}")


def interpreter(version: str) -> str | None:
    """The path of the first interpreter that runs, and is of ``version``."""
    code = "import sys; print(*sys.version_info[:2], sep='.'); print(sys.executable)"
    for candidate in candidates(version):
        try:
            done = subprocess.run(
                [candidate, "-c", code], check=False, capture_output=True, text=True
            )
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.startswith(f"{version}\n"):
            return done.stdout.splitlines()[1]
    return None


def main(versions: list[str]) -> None:
    """Print what is found of ``versions``."""
    for version in versions:
        print(version, interpreter(version) or "missing")


if __name__ == "__main__":
    main(sys.argv[1:])
