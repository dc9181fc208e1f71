"""Browsers, light and dark, where PySide6 has one (`make browser` installs it)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.chromium import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator


def started(**theme: Any) -> Iterator[Browser]:
    if find_spec("PySide6") is None or find_spec("PySide6.QtWebEngineCore") is None:
        pytest.skip("no browser: make browser installs PySide6, and runs these tests")
    browser = Browser(**theme)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    yield from started()


@pytest.fixture(scope="session")
def dark_browser() -> Iterator[Browser]:
    yield from started(dark=True)
