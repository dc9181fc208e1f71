"""How a trained model is run at lengths that it was not trained on, by name."""

from __future__ import annotations

from posenc_cli.formulas.context_extension.stretches import NONE, STRETCHES

WINDOW, CLIP, LOG_N, LINEAR = "window", "clip", "log-n", "linear"
OF_THE_MODEL = (WINDOW, LOG_N)
"""Stretches that change what a query sees, whatever the encoding is."""
STRETCH_NAMES = (NONE, *STRETCHES, WINDOW, CLIP, LOG_N)
