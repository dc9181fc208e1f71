"""What bounds the length of models that no recipe scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli import catalogue
from posenc_cli.configs.conclusions import lengths_of
from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.configs.resolved import Layers, Resolved


class NoPlan(Record):
    """Why there is nothing to set, and what bounds the model's length instead.

    ``fits`` is whether the length is within that, None where nothing bounds it that is known.
    """

    model_type: str
    layer_type: str | None
    to: int
    scheme: str
    trained: int | None
    reason: str
    fits: bool | None


def not_planned(layers: Layers, resolved: Resolved, to: int) -> NoPlan | None:
    """What bounds layers that no recipe is for, None where recipes are.

    Raises: InvalidInput where positions are no sequence, or no length is said.
    """
    stated = lengths_of(layers).stated
    window = window_of(layers)
    scheme = catalogue.find(layers.scheme)

    def answer(reason: str, *, fits: bool | None = None) -> NoPlan:
        return NoPlan(
            resolved.model_type, layers.layer_type, to, layers.scheme, stated, reason, fits
        )

    if layers.scheme == "nope":
        return answer("these layers have no positions: nothing in them limits the length")
    if scheme.kind == "rotary":
        if layers.scheme in ("rope-axial", "xpos"):
            raise InvalidInput(
                f"--to {to}: {layers.scheme} does not encode positions in a sequence"
            )
        if window is None or (stated is not None and window > stated):
            return None
        return answer(
            f"these layers see a window of {window} positions: no distance is longer, so "
            "there is nothing to extend",
            fits=True,
        )
    content = scheme.bind(layers.values()).content
    if content.capacity is not None:
        rows = content.capacity.positions
        enough = " are enough" if to <= rows else f", and {to} positions need {to}"
        return answer(
            f"positions are rows of a learned table: {rows} rows{enough}; no recipe makes "
            "untrained rows (posenc resize interpolates them)",
            fits=to <= rows,
        )
    if scheme.kind == "bias":
        return answer(
            "scores go by distance, and have a value at any: no bound of the length is known; "
            "distances past those of the training were never seen"
        )
    known = f"; the config states {stated} positions, later ones are unseen"
    trained = "" if stated is None else known
    return answer(
        f"{layers.scheme} has a value at any position{trained}: no known recipe extends it "
        "without training"
    )


def window_of(layers: Layers) -> int | None:
    """How many positions these layers see, None where they see all."""
    window = layers.derived.get("window") or layers.derived.get("window_of_all")
    return None if window is None else int(window.value)
