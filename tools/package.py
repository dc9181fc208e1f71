"""Build and check the distributions, and try the wheel in environments without posenc.

Usage: python tools/package.py FOLDER VERSION…

FOLDER gets the source distribution and the wheels built from it: one for each platform with a
compiled kernel, and one for all others. Zig compiles all kernels. pip, pipx and uv install this
platform's wheel for each version of Python that is here, and the installed command does the main
jobs. UV names uv, which also runs Zig and the checkers.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from posenc_cli.backends.native import PLATFORM
from tools.pythons import interpreter

ROOT = Path(__file__).parents[1]
UV = os.environ.get("UV", "uv")
ZIG = ("tool", "run", "--quiet", "--from", "ziglang==0.17.1", "python-zig", "cc")
ZIG_TARGETS = {
    "linux-x86_64": "x86_64-linux-gnu.2.17",
    "linux-aarch64": "aarch64-linux-gnu.2.17",
    "linux-x86_64-musl": "x86_64-linux-musl",
    "linux-aarch64-musl": "aarch64-linux-musl",
    "darwin-x86_64": "x86_64-macos.11.0",
    "darwin-arm64": "aarch64-macos.11.0",
}
"""Zig's target for the platform of each library."""
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


def main(folder: str, versions: Sequence[str]) -> None:
    """Build into ``folder``, check, and try on each of the Pythons that are here.

    Raises: SystemExit if there is none.
    """
    pythons = {version: interpreter(version) for version in versions}
    here = [python for python in pythons.values() if python is not None]
    if not here:
        sys.exit("There is no Python to try it on: " + (" ".join(versions) or "no version given"))
    dist = Path(folder).resolve()
    for old in dist.glob("posenc_cli-*"):
        old.unlink()
    run(UV, "build", "--quiet", "--sdist", "--out-dir", dist, ROOT)
    (sdist,) = dist.glob("*.tar.gz")
    wheels = [
        built(sdist, {"POSENC_PLATFORM": name, "CC": f"{shlex.join([UV, *ZIG])} -target {target}"})
        for name, target in ZIG_TARGETS.items()
    ]
    wheels.append(built(sdist, {"POSENC_PURE": "1"}))
    wheel = wheels[[*ZIG_TARGETS, PLATFORM].index(PLATFORM)]
    run(UV, "tool", "run", "twine", "check", "--strict", sdist, *wheels)
    run(UV, "tool", "run", "check-wheel-contents", *wheels)
    check_files_for_others()
    for version, python in pythons.items():
        if python is None:
            print(f"Python {version} is not here", flush=True)
            continue
        others = [path for path in here if path != python]
        with tempfile.TemporaryDirectory() as home:
            try_on(Path(home), wheel, python, (others or [python])[0])
            print(f"Python {version}: what pip, pipx and uv installed works", flush=True)


def built(sdist: Path, env: Mapping[str, str]) -> Path:
    """Build a wheel from a source distribution, beside it, and return its path."""
    before = {*sdist.parent.glob("*.whl")}
    run(UV, "build", "--quiet", "--wheel", "--out-dir", sdist.parent, sdist, env=env)
    (wheel,) = {*sdist.parent.glob("*.whl")} - before
    print(f"built {wheel.name}", flush=True)
    return wheel


def try_on(home: Path, wheel: Path, python: str, other: str) -> None:
    """Install for one Python by each installer, and use it with functions of another Python."""
    run(UV, "venv", "--quiet", "--python", other, home / "other")
    caller = home / "other" / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--python", caller, "numpy")
    for commands, own in installed(home, wheel, python):
        try_out(home, commands, own, caller)


def check_files_for_others() -> None:
    """Hold what GitHub, pre-commit and citation tools read to their schemas."""
    github = ROOT / ".github"
    schemas: dict[str, list[Path]] = {
        "vendor.github-workflows": [*(github / "workflows").glob("*.yml")],
        "vendor.github-actions": [ROOT / "action.yml"],
        "vendor.github-issue-forms": [github / "ISSUE_TEMPLATE" / "bug_report.yml"],
        "vendor.github-issue-config": [github / "ISSUE_TEMPLATE" / "config.yml"],
    }
    for schema, files in schemas.items():
        run(UV, "tool", "run", "check-jsonschema", "--builtin-schema", schema, *files)
    run(UV, "tool", "run", "pre-commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml")
    run(UV, "tool", "run", "cffconvert", "--validate", "-i", ROOT / "CITATION.cff")


def installed(home: Path, wheel: Path, python: str) -> Iterator[tuple[Path, Path]]:
    """Yield the folder of commands and the interpreter, as pip, pipx and uv install them."""
    run(python, "-m", "venv", home / "pip")
    own = home / "pip" / "bin" / "python"
    run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    yield own.parent, own
    names = ("HOME", "BIN_DIR", "MAN_DIR")
    places = {f"PIPX_{name}": str(home / f"pipx-{name}") for name in names}
    pipx = [UV, "tool", "run", "pipx", "install", "--quiet"]
    run(*pipx, "--python", python, wheel, env=places)
    own = home / "pipx-HOME" / "venvs" / "posenc-cli" / "bin" / "python"
    yield home / "pipx-BIN_DIR", own
    places = {"UV_TOOL_DIR": str(home / "uv"), "UV_TOOL_BIN_DIR": str(home / "uv-bin")}
    run(UV, "tool", "install", "--quiet", "--python", python, wheel, env=places)
    yield home / "uv-bin", home / "uv" / "posenc-cli" / "bin" / "python"


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
