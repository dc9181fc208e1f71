"""What the tests of diagnosis share."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.checks import rope
from tests.diagnosis.textbook import AXES, CASES


@pytest.fixture(autouse=True)
def patient(monkeypatch, warm):
    """However busy the machine is, no call is left out because it takes long."""
    monkeypatch.setattr("posenc_cli.calls.patterns.SLOW_SECONDS", 1e9)
    monkeypatch.setattr("posenc_cli.calls.call_log.SLOW_SECONDS", 1e9)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The reference of a case."""
    axes = tmp_path_factory.mktemp("axes") / "axes.npy"
    np.save(axes, AXES)

    @cache
    def of(name: str, layout: str = "half") -> Any:
        case = CASES[name]
        placed = {"axes": str(axes)} if case.axes is AXES else {}
        return rope.reference(case.scheme, **{**case.given, "layout": layout, **placed})

    return of
