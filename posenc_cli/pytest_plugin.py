"""The plugin that pytest finds where posenc is installed: the fixture ``rope_check``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.api.checking import RopeReport


@pytest.fixture(scope="session")
def rope_check() -> Callable[..., RopeReport]:
    """Check that an implementation of RoPE is right, as `posenc_cli.rope_check` does.

    What is wrong fails the test, which shows the cause, then the report; what is right gives the
    report. ``rope_check("llama-3.1-8b", tables=(cos, sin))``.
    """
    from posenc_cli.api.checking import assert_rope

    return assert_rope
