"""What the tests of checks share."""

import pytest


@pytest.fixture(autouse=True)
def patient(monkeypatch, warm):
    """However busy the machine is, no call is left out because it takes long."""
    monkeypatch.setattr("posenc_cli.calls.patterns.SLOW_SECONDS", 1e9)
    monkeypatch.setattr("posenc_cli.calls.call_log.SLOW_SECONDS", 1e9)
