"""Where the project lives: what its metadata says of it, nothing where they say nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


PAGE = ("homepage", "documentation", "repository", "source")
ISSUES = ("issues", "bug tracker", *PAGE)
"""Labels under which an address may stand, the best first."""


def address(labels: Sequence[str]) -> str | None:
    """The address that the installed metadata have under the first of some labels.

    ``[project.urls]`` of pyproject.toml is the one place where addresses stand.
    """
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        entries = metadata("posenc-cli").get_all("Project-URL") or []
    except PackageNotFoundError:  # a checkout that is not installed
        entries = []
    pairs = [entry.partition(",") for entry in entries]
    addresses = {label.strip().lower(): url.strip() for label, _, url in pairs}
    return next((addresses[label] for label in labels if label in addresses), None)
