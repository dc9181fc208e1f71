"""Browsers, light and dark, where PySide6 has one (`make browser` installs it)."""

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest

from tests.browser.chromium import Browser


@cache
def missing() -> str | None:
    """Why there is no browser, None where there is: no package, or no library of the system."""
    if find_spec("PySide6") is None or find_spec("PySide6.QtWebEngineCore") is None:
        return "no browser: make browser installs PySide6, and runs these tests"
    command = [sys.executable, "-c", "from PySide6 import QtWebEngineWidgets"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"no browser: {ended.stderr.strip().splitlines()[-1]}" if ended.returncode else None


def started(**theme: Any) -> Iterator[Browser]:
    if (why := missing()) is not None:
        pytest.skip(why)
    browser = Browser(**theme)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    yield from started()


@pytest.fixture(scope="session")
def dark_browser() -> Iterator[Browser]:
    yield from started(dark=True)
