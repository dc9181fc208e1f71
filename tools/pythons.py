"""Find the interpreters of some versions: on PATH, or among pyenv's.

Usage: python tools/pythons.py [--required "VERSION …"] VERSION…

Prints a line for each version: the version, and the path of an interpreter that works, or
"missing". Ends with status 1 if a required version is missing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def candidates(version: str) -> Iterator[str]:
    """Yield possible paths of an interpreter of ``version``."""
    yield f"python{version}"
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for folder in sorted(root.glob(f"versions/{version}.*"), reverse=True):
        yield str(folder / "bin" / f"python{version}")


def interpreter(version: str) -> str | None:
    """Return the path of the first interpreter that runs and has ``version``."""
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


def main(arguments: list[str]) -> int:
    """Print the interpreter of each version; the status says whether all required ones are here."""
    parser = argparse.ArgumentParser(prog="pythons.py", description=__doc__.partition("\n")[0])
    parser.add_argument("--required", default="", help="versions that must be here")
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    given = parser.parse_args(arguments)
    found = {version: interpreter(version) for version in given.versions}
    for version, path in found.items():
        print(version, path or "missing")
    absent = [version for version in given.required.split() if not found.get(version)]
    for version in absent:
        print(f"Python {version} is required and is not installed", file=sys.stderr)
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
