"""``posenc --version``: the version, and with ``--verbose`` what a bug report needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from posenc_cli import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence


def version_text(words: Sequence[str]) -> str:
    """What ``--version`` prints; of ``words`` after it, ``--verbose`` and ``--json`` ask for more.

    The more: Python, the platform, and each backend with its version, devices and when ``auto``
    chooses it. Exact values are the same bytes on every backend.
    """
    if not {"--verbose", "-v", "--json"}.intersection(words):
        return f"posenc {__version__}\n"
    from platform import platform

    from posenc_cli.backends import registry
    from posenc_cli.cli.console import Console

    python = sys.version.split()[0]
    found = {name: registry.status(name) for name in registry.names()}
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
