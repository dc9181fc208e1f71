"""Vision encoders whose patches turn with their row and column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.configs.resolved import Layers, Sourced
from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.configs.keys import Keys
    from posenc_cli.configs.resolved import Notes


class VisionFamily(Record):
    """A family of vision encoders: its convention, and what its configs leave out."""

    convention: str
    base: float
    hidden_size: int
    num_attention_heads: int
    num_hidden_layers: int
    image_size: int
    patch_size: int


FAMILIES: Mapping[str, VisionFamily] = {
    "dinov3_vit": VisionFamily("dinov3", 100.0, 384, 6, 12, 224, 16),
    "pixtral": VisionFamily("pixtral", 10_000.0, 1024, 16, 24, 1024, 16),
    "llama4_vision_model": VisionFamily("llama4", 10_000.0, 768, 16, 34, 448, 14),
}


def layers(keys: Keys, model_type: str, notes: Notes) -> list[Layers]:
    """The encoding of a vision encoder, on the grid of the images it was made for.

    Raises: InvalidInput.
    """
    family = FAMILIES[model_type]
    default = f"default of {model_type}"

    def count(key: str) -> Sourced:
        return keys.count(key) or Sourced(getattr(family, key), default)

    hidden, heads, patch = (
        count(key) for key in ("hidden_size", "num_attention_heads", "patch_size")
    )
    head = keys.count("head_dim") if model_type == "pixtral" else None
    head = head or Sourced(
        hidden.value // heads.value, f"derived: {hidden.source} / {heads.source}"
    )
    if head.value < 4 or head.value % 4:
        raise InvalidInput(
            f"{keys.name}: head_dim {head.value} ({head.source}): must be a multiple of 4"
        )
    image = _sides(keys, family.image_size, default)
    grid = tuple(side // patch.value for side in image.value)
    if 0 in grid:
        raise InvalidInput(
            f"{keys.name}: {image.source} {list(image.value)}: has no room for a patch of "
            f"{patch.value}"
        )
    params = {
        "dim": head,
        "base": _base(keys, family, default, notes),
        "convention": Sourced(family.convention, default),
        "grid": Sourced(grid, f"derived: {image.source} / {patch.source}"),
    }
    numbers = tuple(range(min(count("num_hidden_layers").value, 10_000)))
    derived = {
        "head_dim": head,
        "context": Sourced(grid[0] * grid[1], "derived: patches of an image"),
    }
    return [Layers(None, numbers, "rope-axial", params, derived)]


def _base(keys: Keys, family: VisionFamily, default: str, notes: Notes) -> Sourced:
    rope = keys.section("rope_parameters")
    if rope is not None:
        rope.get("rope_type")
    base = (rope.number("rope_theta") if rope else None) or keys.number("rope_theta")
    if base is None:
        notes.default("rope_theta")
        notes.warn(f"{keys.name} has no rope_theta: {family.base:g} is the {default}")
        return Sourced(family.base, default)
    if base.value <= 1:
        raise InvalidInput(f"{keys.name}: {base.source} {base.value:g}: must be above 1")
    return base


def _sides(keys: Keys, usual: int, default: str) -> Sourced:
    """Height and width of an image, which may be given as one number."""
    if isinstance(keys.values.get("image_size"), list | tuple):
        sides = keys.counts("image_size")
        if sides is None or len(sides.value) != 2:
            raise keys.invalid("image_size", "must be a number, or height and width")
        return sides
    side = keys.count("image_size") or Sourced(usual, default)
    return Sourced((side.value, side.value), side.source)
