"""Build the distributions, check them, and try the wheel where posenc is not installed.

Usage: python -m tools.package FOLDER VERSION…

FOLDER gets the source distribution, and the wheel that is built from it. pip, pipx and uv install
the wheel for each version of Python that is here; what they installed does the main jobs. UV names
uv, which runs the checkers too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.pythons import interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
UV = os.environ.get("UV", "uv")
IMPORT = """
import posenc_cli as posenc
tables = posenc.tables("rope", 64, dim=16)
assert posenc.rope_check("rope", tables=tables, dim=16).ok
assert posenc.encode("rope", 4096, dim=64).shape == (4096, 64)
"""
FUNCTION = """
import numpy as np

def apply(x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10_000.0 ** (-np.arange(half) / half)
    cos, sin, a, b = np.cos(angles), np.sin(angles), x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
"""


def main(folder: str, versions: list[str]) -> None:
    """Build into ``folder``, check, and try on each of the versions that is here."""
    dist = Path(folder).resolve()
    for old in dist.glob("posenc_cli-*"):
        old.unlink()
    run(UV, "build", "--quiet", "--out-dir", dist, ROOT)
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    run(UV, "tool", "run", "twine", "check", "--strict", sdist, wheel)
    run(UV, "tool", "run", "check-wheel-contents", wheel)
    check_files_for_others()
    pythons = {version: interpreter(version) for version in versions}
    found = {version: python for version, python in pythons.items() if python is not None}
    for version in versions:
        if version not in found:
            print(f"Python {version} is not here", flush=True)
    for version, python in found.items():
        with tempfile.TemporaryDirectory() as home:
            other = next((p for v, p in found.items() if v != version), python)
            environments = dict(installed(Path(home), wheel, python))
            run(UV, "venv", "--quiet", "--python", other, Path(home, "other"))
            others = Path(home, "other", "bin", "python")
            run(UV, "pip", "install", "--quiet", "--python", others, "numpy")
            for name, (commands, own) in environments.items():
                try_out(Path(home), commands, own, others)
                print(f"Python {version}, {name}: works", flush=True)


def check_files_for_others() -> None:
    """Hold what GitHub, pre-commit and citation tools read to their schemas."""
    schemas: dict[str, list[Path]] = {
        "vendor.github-workflows": [*(ROOT / ".github" / "workflows").glob("*.yml")],
        "vendor.github-actions": [ROOT / "action.yml"],
    }
    for schema, files in schemas.items():
        run(UV, "tool", "run", "check-jsonschema", "--builtin-schema", schema, *files)
    run(UV, "tool", "run", "pre-commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml")
    run(UV, "tool", "run", "cffconvert", "--validate", "-i", ROOT / "CITATION.cff")


def installed(home: Path, wheel: Path, python: str) -> Iterator[tuple[str, tuple[Path, Path]]]:
    """Of each installer where its commands lie, and the interpreter of the environment it made."""
    run(python, "-m", "venv", home / "pip")
    own = home / "pip" / "bin" / "python"
    run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    yield "pip", (own.parent, own)
    places = {f"PIPX_{name}": str(home / f"pipx-{name}") for name in ("HOME", "BIN_DIR", "MAN_DIR")}
    pipx = [UV, "tool", "run", "pipx", "install", "--quiet"]
    run(*pipx, "--python", python, wheel, env=places)
    yield (
        "pipx",
        (home / "pipx-BIN_DIR", home / "pipx-HOME" / "venvs" / "posenc-cli" / "bin" / "python"),
    )
    places = {"UV_TOOL_DIR": str(home / "uv"), "UV_TOOL_BIN_DIR": str(home / "uv-bin")}
    run(UV, "tool", "install", "--quiet", "--python", python, wheel, env=places)
    yield "uv", (home / "uv-bin", home / "uv" / "posenc-cli" / "bin" / "python")


def try_out(home: Path, commands: Path, own: Path, other: Path) -> None:
    """Do the main jobs with what was installed; a function runs by another Python."""
    (home / "my_rope.py").write_text(FUNCTION)
    posenc = commands / "posenc"
    for script in (posenc, commands / "posenc-cli"):
        run(script, "--version", cwd=home)
    run(posenc, "generate", "-q", "-s", "rope", "-l", "4096", "-o", "rope.npy", cwd=home)
    run(own, "-c", IMPORT, cwd=home)
    reference = ["-s", "rope", "-d", "16", "--layout", "half", "-l", "64"]
    subject = ["--impl", "./my_rope.py:apply", "--python"]
    run(posenc, "rope-check", "-q", *reference, *subject, other, cwd=home)


def run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] = {}) -> None:
    """Run a command, whose failure ends all, with ``env`` beside the variables that there are."""
    subprocess.run(command, check=True, cwd=cwd, env={**os.environ, **env})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
