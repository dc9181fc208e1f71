"""Read vision encoders: patches rotated by row and column, tables of patches, window biases.

Each family is a row of ``vision.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from posenc_cli.configs.families import packaged
from posenc_cli.configs.keys import FamilyReader, Keys, quotient
from posenc_cli.configs.layer_types import LARGEST_LAYERS, numbered
from posenc_cli.configs.resolved import Layers, Notes, Sourced, json_text
from posenc_cli.records import Record, fresh


class VisionFamily(Record):
    """A family of vision encoders: the method that reads it, and how it differs from `DEFAULTS`.

    ``convention`` and ``base`` belong to rotations. ``first`` is the number of tokens with rows of
    a learned table before the patches.
    """

    read: str
    defaults: Mapping[str, int] = fresh(dict)
    convention: str = ""
    base: float = 10_000.0
    first: int = 1


DEFAULTS: Mapping[str, int | tuple[int, ...]] = {
    "hidden_size": 768,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "image_size": 224,
    "patch_size": 16,
    "window_size": 7,
    "depths": (2, 2, 6, 2),
    "num_heads": (3, 6, 12, 24),
}
"""The usual defaults of a config; the last three are those of Swin's stages."""

FAMILIES: Mapping[str, VisionFamily] = {
    name: VisionFamily(**row) for name, row in packaged("vision.json").items()
}


def layers(keys: Keys, model_type: str, notes: Notes) -> list[Layers]:
    """Return the encodings of a vision encoder, on the grid of its trained image size.

    Raises: InvalidInput.
    """
    reader = _VisionReader(keys, model_type, notes)
    return list(getattr(reader, reader.family.read)())


class _VisionReader(FamilyReader):
    """Reader of the config of a vision encoder."""

    @property
    def family(self) -> VisionFamily:
        return FAMILIES[self.model_type]

    def rope(self) -> Iterator[Layers]:
        """Yield patches rotated by row and column."""
        hidden, heads, patch = (
            self._count(key) for key in ("hidden_size", "num_attention_heads", "patch_size")
        )
        head = self.keys.count("head_dim") if self.model_type == "pixtral" else None
        head = head or quotient(hidden, heads)
        if head.value < 4 or head.value % 4:
            raise self.error(f"head_dim {head.value} ({head.source}): must be a multiple of 4")
        grid = self._grid(Sourced((patch.value, patch.value), patch.source))
        params = {
            "dim": head,
            "base": self._base(),
            "convention": self.default(self.family.convention),
            "grid": grid,
        }
        layers = numbered(self._count("num_hidden_layers"))
        context = Sourced(grid.value[0] * grid.value[1], "derived: patches of an image")
        yield Layers(None, layers, "rope-axial", params, {"head_dim": head, "context": context})

    def learned(self) -> Iterator[Layers]:
        """Yield a learned table with a row for each patch and each token before the patches."""
        grid, first = self._grid(), self.family.first
        tokens = ("", " + a class token", " + class and distillation tokens")[first]
        patches = grid.source.removeprefix("derived: ")
        rows = Sourced(
            grid.value[0] * grid.value[1] + first, f"derived: patches of {patches}{tokens}"
        )
        yield Layers(
            None,
            (),
            "learned",
            {"dim": self._noted_size("hidden_size"), "max_len": rows},
            {"context": rows},
        )

    def sines(self) -> Iterator[Layers]:
        """Yield MAE's sinusoids of row and column, for the encoder and the smaller decoder."""
        grid = self._grid()
        context = {"context": Sourced(grid.value[0] * grid.value[1], "derived: patches")}
        decoder = self.keys.count("decoder_hidden_size") or self.default(512)
        for side, dim in (("encoder", self._noted_size("hidden_size")), ("decoder", decoder)):
            params = {"dim": dim, "grid": grid, "convention": self.default("mae")}
            yield Layers(side, (), "sinusoidal-nd", params, context)
        self.notes.warnings.append("the row of the class token, which is all zeros, is left out")

    def swin(self) -> Iterator[Layers]:
        """Yield a bias of windows for each stage; later stages have more heads."""
        window = self._count("window_size")
        side = Sourced((window.value, window.value), window.source)
        depths, heads = (
            self.keys.counts(key) or self.default(DEFAULTS[key]) for key in ("depths", "num_heads")
        )
        if 0 in depths.value or not 0 < sum(depths.value) <= LARGEST_LAYERS:
            raise self.keys.invalid(
                "depths", f"must be whole numbers from 1 on, of {LARGEST_LAYERS} layers at most"
            )
        if len(heads.value) != len(depths.value) or 0 in heads.value:
            raise self.error(
                f"num_heads {json_text(list(heads.value))} ({heads.source}): must have heads for "
                f"each of the {len(depths.value)} stages of {depths.source}"
            )
        self._grid()
        flag = self.keys.flag("use_absolute_embeddings")
        if flag is not None and flag.value:
            self.notes.warnings.append(
                f"{flag.source}: a learned table of the patches is added too"
            )
        for stage, (depth, count) in enumerate(zip(depths.value, heads.value, strict=True)):
            first = sum(depths.value[:stage])
            stated = heads.source != self.default_source
            own = Sourced(count, f"{heads.source}.{stage}" if stated else heads.source)
            params = {"heads": own, "window_size": side}
            yield Layers(f"stage{stage + 1}", tuple(range(first, first + depth)), "swin", params)

    def _count(self, key: str) -> Sourced:
        return self.keys.count(key) or self.default(self._usual(key))

    def _noted_size(self, key: str) -> Sourced:
        """Return a size of a table; note it if it is the default."""
        return self.keys.count(key) or self.default_size(key, self._usual(key))

    def _usual(self, key: str) -> Any:
        return {**DEFAULTS, **self.family.defaults}[key]

    def _grid(self, patch: Sourced | None = None) -> Sourced:
        """Return rows and columns of patches for the trained image size.

        Raises: InvalidInput for an image smaller than a patch.
        """
        image = self._sides("image_size")
        patch = patch or self._sides("patch_size")
        grid = tuple(
            side // patch_side for side, patch_side in zip(image.value, patch.value, strict=True)
        )
        if 0 in grid:
            text = patch.value[0] if len({*patch.value}) == 1 else list(patch.value)
            raise self.error(
                f"{image.source} {list(image.value)} has no room for a patch of {text}"
            )
        return Sourced(grid, f"derived: {image.source} / {patch.source}")

    def _sides(self, key: str) -> Sourced:
        """Return height and width of an image or a patch, which may be given as one number."""
        if isinstance(self.keys.values.get(key), list | tuple):
            sides = self.keys.counts(key)
            if sides is None or len(sides.value) != 2 or (key == "patch_size" and 0 in sides.value):
                raise self.keys.invalid(key, "must be a number, or height and width")
            return sides
        side = self._count(key) if self.family.read == "rope" else self._noted_size(key)
        return Sourced((side.value, side.value), side.source)

    def _base(self) -> Sourced:
        rope = self.keys.section("rope_parameters")
        if rope is not None:
            rope.get("rope_type")
        base = (rope.number("rope_theta") if rope else None) or self.keys.number("rope_theta")
        if base is None:
            base = self.default(self.family.base)
            text = f"{self.keys.name} has no rope_theta: {base.value:g} is the {base.source}"
            self.notes.doubt("rope_theta", text, of=self.notes.defaulted)
        return base
