"""Answers that need no Typer: the rendered help, the version and addresses."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from posenc_cli import __version__
from posenc_cli.cli.streams import WIDEST_PIPED, text_width

PAGE = ("homepage", "documentation", "repository", "source")
ISSUES = ("issues", "bug tracker", *PAGE)
"""Labels of addresses in the metadata, the best first."""


def address(labels: Sequence[str]) -> str | None:
    """Return the address under the first of ``labels`` that the installed metadata have, or None.

    Addresses are kept only in ``[project.urls]`` of pyproject.toml.
    """
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        entries = metadata("posenc-cli").get_all("Project-URL") or []
    except PackageNotFoundError:  # a checkout, not installed
        entries = []
    pairs = [entry.partition(",") for entry in entries]
    addresses = {label.strip().lower(): url.strip() for label, _, url in pairs}
    return next((addresses[label] for label in labels if label in addresses), None)


def version_text(words: Sequence[str]) -> str:
    """Return what ``--version`` prints; ``words`` are the arguments after it.

    ``--verbose`` and ``--json`` add Python, the platform, and for each backend its version, its
    devices and when ``auto`` chooses it. Exact values are the same bytes on every backend.
    """
    if not {"--verbose", "-v", "--json"}.intersection(words):
        return f"posenc {__version__}\n"
    from platform import platform

    from posenc_cli.backends import registry
    from posenc_cli.cli.console import Console

    python = sys.version.split()[0]
    found = {name: registry.status(name) for name in registry.BUILT_IN}
    console = Console()
    if "--json" in words:
        backends = [{"name": name, **status.as_dict()} for name, status in found.items()]
        about = {"version": __version__, "python": python, "platform": platform()}
        return console.json_text("version", {**about, "backends": backends}) + "\n"
    rows = [
        [name, status.version or "-", ", ".join(status.devices) or "-", status.reason]
        for name, status in found.items()
    ]
    table = console.typesetter.table(["backend", "version", "devices", "what it is"], rows)
    return f"posenc {__version__}, Python {python}, {platform()}\n\n{table}\n"


_FOLDER = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is slow
PATHS = {
    "--help": os.path.join(_FOLDER, "help.txt"),  # noqa: PTH118
    "-h": os.path.join(_FOLDER, "help-brief.txt"),  # noqa: PTH118
}


def rendered_help(flag: str) -> str | None:
    """Return the program's help, rendered in advance so that it needs no import of Typer.

    The texts are the program's pages at the width of help in a pipe. ``tools/man.py`` writes them,
    and a test compares them. Returns None on a narrower terminal, or if a file is missing.
    """
    if text_width() < WIDEST_PIPED:
        return None
    try:
        with open(PATHS[flag], encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except OSError:  # without the file, Typer renders it
        return None
