"""Make a virtual environment, if it is missing, and install into it.

Usage: python tools/environment.py [--versions locked|newest|lowest] FOLDER REQUIREMENT…

Versions are what ``constraints.txt`` pins unless said otherwise: the newest that the requirements
allow, or the lowest that ``pyproject.toml`` names. Beside a pinned torch, the extra ``dev`` brings
the extra ``frameworks``.

Needs nothing but Python and a package index: where the interpreter came without the pip that
``venv`` wants (as Debian's does), the environment borrows the interpreter's own pip, uv, or a pip
fetched from the index that pip is configured for. Where UV names uv, that is tried first: it takes
seconds, and of the lowest versions those that have wheels for this Python. It reads nothing that
pip is configured by.
"""

from __future__ import annotations

import argparse
import configparser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse
import urllib.request
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BOUNDED = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\w.]+)(?:,<[\w.]+)?(?:;.*)?")
"""A requirement with a lower bound: its name and that bound."""
_UV = ["pip", "install", "--quiet", "--python"]
_LOWEST = ["--resolution=lowest-direct", "--only-binary=:all:", "--no-binary=posenc-cli"]
INDEX_VARIABLES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")


def main(folder: str, requirements: list[str], versions: str) -> int:
    """Install ``requirements`` into the environment ``folder``; the status is the installer's."""
    python = Path(folder, "bin", "python")
    if sys.version_info < (3, 11):  # noqa: UP036 - this runs before posenc is installed
        sys.exit(f"posenc needs Python 3.11 or later, and this is {sys.version.split()[0]}")
    made_with = Path(folder, ".python")
    interpreter = os.environ.get("PYTHON", sys.executable)
    known = made_with.read_text().strip() if made_with.exists() else None
    if known != interpreter or not _runs(python, "import sys"):
        _create(Path(folder))
        made_with.write_text(f"{interpreter}\n")
    constraints = _constraints(versions, folder)
    if versions == "locked" and any(asked.startswith("torch==") for asked in requirements):
        requirements = [asked.replace("[dev]", "[dev,frameworks]") for asked in requirements]
    uv = os.environ.get("UV")
    if uv:
        chosen = _LOWEST if versions == "lowest" else constraints
        if subprocess.call([uv, *_UV, str(python), *requirements, *chosen]) == 0:
            return 0
        print("uv finds no index, or not all versions in it; pip is tried", file=sys.stderr)
    return subprocess.call([*_installer(python), *requirements, *constraints])


def lowest(project: dict[str, Any]) -> list[str]:
    """What ``project`` asks for directly, each pinned to its lower bound.

    Every requirement must have one: what was not tried is not promised. Those of the extra
    ``peers`` are exact versions, which nothing else installs.
    """
    asked = [*project["dependencies"]]
    for extra, requirements in project["optional-dependencies"].items():
        asked += requirements if extra != "peers" else []
    pins = set()
    for requirement in asked:
        bounded = BOUNDED.fullmatch(requirement)
        if bounded is None:
            raise ValueError(f"{requirement!r} has no lower bound to try")
        pins.add(f"{bounded[1]}=={bounded[2]}")
    return sorted(pins)


def _constraints(versions: str, folder: str) -> list[str]:
    """The installer's options that choose ``versions``."""
    if versions == "newest":
        return ["--upgrade"]
    if versions == "locked":
        return ["--constraint", str(ROOT / "constraints.txt")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    file = Path(folder, "lowest.txt")
    file.write_text("".join(f"{pin}\n" for pin in lowest(project)))
    return ["--constraint", str(file)]


def _runs(python: Path, code: str) -> bool:
    """Whether an interpreter is there and runs ``code`` (a copied environment may be broken)."""
    try:
        return not subprocess.call([python, "-c", code], stderr=subprocess.DEVNULL)
    except OSError:
        return False


def _create(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        subprocess.run(
            [sys.executable, "-m", "venv", folder], check=True, capture_output=True, text=True
        )
    except subprocess.CalledProcessError:
        venv.create(folder, with_pip=False, clear=True, symlinks=True)


def _installer(python: Path) -> list[str]:
    """The command that installs into the environment of ``python``."""
    if _runs(python, "import pip"):
        return [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if _runs(Path(sys.executable), "import pip"):
        outer = [sys.executable, "-m", "pip", "--python", str(python)]
        return [*outer, "install", "--quiet", "--disable-pip-version-check"]
    uv = shutil.which("uv")
    if uv:
        return [uv, *_UV, str(python)]
    wheel = _fetched_pip()
    return [str(python), f"{wheel}/pip", "install", "--quiet", "--disable-pip-version-check"]


def _fetched_pip() -> Path:
    """A wheel of pip from the configured package index; a wheel of it runs where it lies."""
    index = _index()
    if index is None:
        sys.exit(
            "this Python has no pip, and no package index is configured to fetch it from:\n"
            "install the packages python3-venv and python3-pip, or set PIP_INDEX_URL"
        )
    page_url = index.rstrip("/") + "/pip/"
    with urllib.request.urlopen(page_url) as page:
        links = re.findall(r'href="([^"]+\.whl)(?:#[^"]*)?"', page.read().decode())
    newest = max(links, key=_version)
    wheel = Path(tempfile.mkdtemp(), urllib.parse.unquote(newest.rsplit("/", 1)[-1]))
    urllib.request.urlretrieve(urllib.parse.urljoin(page_url, newest), wheel)
    return wheel


def _version(link: str) -> tuple[int, ...]:
    match = re.search(r"pip-([0-9.]+)-", link)
    return tuple(map(int, match[1].split("."))) if match else ()


def _index() -> str | None:
    """The package index of the environment or of pip's configuration files."""
    if url := next(filter(None, map(os.environ.get, INDEX_VARIABLES)), None):
        return url
    files = [os.environ.get("PIP_CONFIG_FILE"), "~/.pip/pip.conf", "~/.config/pip/pip.conf"]
    config = configparser.ConfigParser(interpolation=None)
    config.read(["/etc/pip.conf", *(Path(file).expanduser() for file in files if file)])
    return config.get("global", "index-url", fallback=None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--versions", choices=["locked", "newest", "lowest"], default="locked")
    parser.add_argument("folder")
    known, others = parser.parse_known_args()
    sys.exit(main(known.folder, others, known.versions))
