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

    What is wrong fails the test, which shows the cause, then the report; what is right gives the
    report. ``rope_check("llama-3.1-8b", tables=(cos, sin))``. Modules that ``impl="module:name"``
    names are also found beside the file of the test, and where the test itself finds them;
    ``impl="file.py:name"`` is a file of the current folder, else one beside the test.
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

    What is wrong fails the test, which shows the report; what is right gives the report.
    ``encoding_check("sinusoidal", table, dim=512)``.
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
    """The folders in which tests find modules, but those of Python and of what is installed."""
    python = {*sysconfig.get_paths().values()}
    return [
        folder
        for folder in sys.path
        if folder
        and Path(folder).is_dir()
        and folder not in python
        and Path(folder).name not in ("site-packages", "dist-packages", "lib-dynload")
    ]
