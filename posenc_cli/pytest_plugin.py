"""The pytest plugin: the fixtures ``rope_check`` and ``encoding_check``."""

from __future__ import annotations

import sys
import sysconfig
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.api.checking import CheckReport, RopeReport


@pytest.fixture(scope="session")
def rope_check() -> Callable[..., RopeReport]:
    """Check that an implementation of RoPE is right, as `posenc_cli.rope_check` does.

    A wrong implementation fails the test, which shows the cause and then the report. A right one
    returns the report. Example: ``rope_check("llama-3.1-8b", tables=(cos, sin))``. Modules named by
    ``impl="module:name"`` are found where the test itself finds them, and beside the test file.
    ``impl="file.py:name"`` is a file of the current folder, or else one beside the test.
    """
    from posenc_cli.api.checking import assert_rope
    from posenc_cli.calls.interpreter import FURTHER_FOLDERS

    def checked(reference: Any, **subject: Any) -> RopeReport:
        __tracebackhide__ = True
        beside = Path(sys._getframe(1).f_code.co_filename).parent  # noqa: SLF001
        if isinstance(impl := subject.get("impl"), str):
            place, _, name = impl.rpartition(":")
            if place.endswith(".py") and not Path(place).exists() and (beside / place).is_file():
                subject["impl"] = f"{beside / place}:{name}"
        context = copy_context()
        context.run(FURTHER_FOLDERS.set, [*_own_folders(), str(beside)])
        return context.run(assert_rope, reference, **subject)

    return checked


@pytest.fixture(scope="session")
def encoding_check() -> Callable[..., CheckReport | RopeReport]:
    """Check that any encoding is right, as `posenc_cli.check` does.

    A wrong encoding fails the test, which shows the report. A right one returns the report.
    Example: ``encoding_check("sinusoidal", table, dim=512)``.
    """
    from posenc_cli.api.checking import check

    def checked(reference: Any, values: object = None, **subject: Any) -> Any:
        __tracebackhide__ = True
        report = check(reference, values, **subject)
        if not report.ok:
            pytest.fail(str(report), pytrace=False)
        return report

    return checked


def _own_folders() -> list[str]:
    """Return the folders in which tests find modules, except those of Python and of packages."""
    python = {*sysconfig.get_paths().values()}
    return [
        folder
        for folder in sys.path
        if folder
        and Path(folder).is_dir()
        and folder not in python
        and Path(folder).name not in ("site-packages", "dist-packages", "lib-dynload")
    ]
