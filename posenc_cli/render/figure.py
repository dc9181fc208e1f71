"""What a picture shows, before anything is drawn: values, axes and a title."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Curve:
    """One value for each of some points of an axis, all finite."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    title: str
    x_label: str
    y_label: str
    y_scale: Literal["linear", "log"] = "linear"
