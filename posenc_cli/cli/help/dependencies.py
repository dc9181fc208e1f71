"""What is wrong where a package that posenc declares to need is missing, or does not load."""

from __future__ import annotations

import re
import traceback
from types import ModuleType
from typing import TYPE_CHECKING

from posenc_cli.errors import Unavailable, described

if TYPE_CHECKING:
    from collections.abc import Mapping


def unloaded_dependency(error: Exception) -> Unavailable | None:
    """The error for a dependency whose import raised ``error``; None where none did."""
    distributions = _distributions()
    package = next(filter(distributions.get, _suspect_packages(error)), None)
    if package is None:
        return None
    distribution = distributions[package]
    if isinstance(error, ModuleNotFoundError) and error.name == package:
        return Unavailable(
            f"{distribution}, which posenc needs, is not installed",
            hint=f"pip install {distribution}",
        )
    return Unavailable(
        f"{distribution}, which posenc needs, does not load as it should: {described(error)}",
        hint=f"pip install --force-reinstall {distribution}",
    )


def _suspect_packages(error: Exception) -> list[str]:
    """The top-level packages that an error may be due to, the likeliest first.

    Those whose modules were being run by an import, the outermost first; then the one that an
    ``ImportError`` names, or that lacks an attribute.
    """
    running = [
        str(frame.f_globals.get("__name__"))
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_name == "<module>"
    ]
    named = None
    if isinstance(error, ImportError):
        named = error.name
    elif isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        named = error.obj.__name__
    return [name.partition(".")[0] for name in [*running, named or ""]]


def _distributions() -> Mapping[str, str]:
    """The distributions that posenc's metadata names, by the package that each brings.

    All of them name their package as they name themselves.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        required = requires("posenc-cli") or []
    except PackageNotFoundError:
        return {}
    names = [re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in required]
    return {name.replace("-", "_"): name for name in names}
