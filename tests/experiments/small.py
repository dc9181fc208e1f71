"""Experiments so small that a test can run them."""

from typing import Any

from posenc_cli.experiments.request import EncodingRequest, ExperimentRequest, ModelSize

SIZE = ModelSize(1, 2, 4)


def request(*names: str, **changes: Any) -> ExperimentRequest:
    """A request for some encodings, of a few steps of a tiny model."""
    encodings = tuple(
        EncodingRequest(name, tuple((part, {}) for part in name.split("+"))) for name in names
    )
    usual: dict[str, Any] = {
        "trained": 8,
        "tests": ("2x",),
        "seeds": 2,
        "steps": 6,
        "batch": 2,
        "size": SIZE,
        "tasks": ("copy",),
    }
    return ExperimentRequest(encodings, **{**usual, **changes})
