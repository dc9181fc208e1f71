"""Read configs of diffusers: timestep embeddings, and the positions of image and video patches.

Each class is a row of ``diffusers.json``. Configs are read as diffusers 0.42 reads them. Most state
no image or video size: the default size of the model's pipeline is used, with a warning.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from posenc_cli.configs.families import packaged
from posenc_cli.configs.keys import FamilyReader, Keys, printable, quotient
from posenc_cli.configs.layer_types import numbered
from posenc_cli.configs.resolved import WINDOW, Layers, Notes, Sourced, json_text
from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record, fresh

PIPELINE_DEFAULT = "default of its pipeline"
"""Start of the source of a size that is not in the config."""


class DiffusionFamily(Record):
    """A class of diffusers: the method that reads it, and the defaults of its configs.

    ``read`` names the method of the reader. ``shift`` is the frequency shift of the timesteps if no
    key states it; ``fixed`` says that no key states it. ``size`` is the output size of the pipeline
    for configs without one: the latents in frames, rows and columns, and a text. ``axes``, ``base``
    and ``partial`` belong to rotations; ``theta`` says that the key rope_theta states the base.
    ``timesteps`` says that those of audio are known. ``note`` is a warning for all configs of the
    class.
    """

    read: str
    defaults: Mapping[str, Any] = fresh(dict)
    shift: float = 0.0
    fixed: bool = False
    size: tuple[tuple[int, ...], str] | None = None
    axes: tuple[int, ...] = (16, 56, 56)
    base: float = 10_000.0
    theta: bool = False
    partial: float = 1.0
    timesteps: bool = False
    note: str = ""


FAMILIES: Mapping[str, DiffusionFamily] = {
    name: DiffusionFamily(**row) for name, row in packaged("diffusers.json")["families"].items()
}
"""The supported classes, by name."""

UNREAD: Mapping[str, str] = {
    name: row["because"] for row in packaged("diffusers.json")["unread"] for name in row["classes"]
}
"""The reason why each other class is not read, by name."""

BLOCKS = "Transformer2DModel"
"""The class that wrote configs of DiT and PixArt before they had classes of their own."""

BLOCKS_OF: Mapping[str, str] = {
    "ada_norm_zero": "DiTTransformer2DModel",
    "ada_norm_single": "PixArtTransformer2DModel",
}
"""The current class of such a config, by its norm_type."""


_CLASS = "_class_name"


def layers(keys: Keys, notes: Notes) -> tuple[str, list[Layers]]:
    """Return the class that a config names, and its encodings.

    Raises: InvalidInput if the class is not supported, or rejects a value.
    """
    stated = keys.text(_CLASS)
    name = "null" if stated is None else stated.value
    family = _class_of_older_config(keys) if name == BLOCKS else name
    if family not in FAMILIES:
        refused = f"{keys.name}: posenc reads no configs of diffusers' class {printable(name)}"
        if name in UNREAD:
            raise InvalidInput(f"{refused}: {UNREAD[name]}")
        raise InvalidInput(
            refused,
            hint="use the config in the folder of its unet or transformer"
            if name.endswith("Pipeline")
            else None,
        )
    reader = _DiffusionReader(keys, family, notes)
    found = list(getattr(reader, reader.family.read)())
    if reader.family.note:
        notes.warnings.append(reader.family.note)
    return name, found


def _class_of_older_config(keys: Keys) -> str:
    """Return the current class of an older config, by its norm_type.

    Raises: InvalidInput if it has none.
    """
    norm = keys.text("norm_type")
    if norm is None or norm.value not in BLOCKS_OF:
        kinds = " or ".join(BLOCKS_OF)
        raise InvalidInput(
            f"{keys.name}: posenc reads a config of diffusers' {BLOCKS} only if norm_type is "
            f"{kinds}; others are a part of a UNet"
        )
    return BLOCKS_OF[norm.value]


class _DiffusionReader(FamilyReader):
    """Reader of the config of a class of diffusers."""

    @property
    def family(self) -> DiffusionFamily:
        return FAMILIES[self.model_type]

    def unet(self) -> Iterator[Layers]:
        """Yield a UNet's timesteps, and the image sizes that SDXL embeds in the same way."""
        width, class_defaults, more = (
            self._first_block_width(),
            self.family.defaults,
            self._timestep_options(),
        )
        kind, added = (
            self.keys.text(key) or self.default(class_defaults.get(key, otherwise))
            for key, otherwise in (
                ("time_embedding_type", "positional"),
                ("addition_embed_type", None),
            )
        )
        if kind.value != "positional":
            raise self.error(
                f"{kind.source} {printable(kind.value)}: its timesteps are embedded by numbers "
                "that are random or trained, which the config does not hold"
            )
        key = "addition_time_embed_dim"
        sizes = self._count(key) if key in class_defaults else self.keys.count(key)
        if added.value != "text_time" or sizes is None:
            yield self._timesteps(None, width, **more)
        else:
            yield self._timesteps("timestep", width, **more)
            yield self._timesteps("sizes", sizes, **more)

    def _first_block_width(self) -> Sourced:
        widths = self.keys.counts("block_out_channels")
        if widths is None:
            width = self.family.defaults["block_out_channels"][0]
            return self.default_size("block_out_channels.0", width)
        if not widths.value:
            raise self.keys.invalid("block_out_channels", "must have a number for each block")
        return Sourced(widths.value[0], f"{widths.source}.0")

    def flux(self) -> Iterator[Layers]:
        """Yield patches rotated by row and column, and timesteps; the first axis is 0 in images."""
        grid, sections = self._pipeline_grid((1, 1, 1)), self._sections("axes_dims_rope")
        yield self._rotated_patches("wan", grid, sections=sections, base=self._base())
        more = {}
        if "time_theta" in self.family.defaults:
            period = self.keys.number("time_theta", above=1)
            more["max_period"] = period or self.default(self.family.defaults["time_theta"])
        yield self._timesteps("timestep", self._timestep_dim(), **more)

    def wan(self) -> Iterator[Layers]:
        """Yield video patches rotated by frame, row and column, and timesteps."""
        patch = self.keys.counts("patch_size") or self.default((1, 2, 2))
        if len(patch.value) != 3 or 0 in patch.value:
            raise self.keys.invalid("patch_size", "must be frames, rows and columns of a patch")
        grid = self._pipeline_grid(patch.value)
        largest, skipped = map(self.keys.count, ("rope_max_seq_len", "rope_temporal_skip_len"))
        if largest is not None and max(grid.value) > largest.value:
            self.notes.warnings.append(f"{largest.source} {largest.value}: no axis may be longer")
        if skipped is not None:
            self.notes.warnings.append(
                f"{skipped.source} {skipped.value}: with only two frames, the second is at "
                "position "
                f"{skipped.value - 1}"
            )
        yield self._rotated_patches("wan", grid)
        yield self._timesteps("timestep", self._timestep_dim())

    def hunyuan_video(self) -> Iterator[Layers]:
        """Yield video patches, rotated on axes whose dimensions a key states, and timesteps."""
        side, frames = self._count("patch_size").value, self._count("patch_size_t").value
        grid, sections = self._pipeline_grid((frames, side, side)), self._sections("rope_axes_dim")
        yield self._rotated_patches("hunyuan-video", grid, sections=sections, base=self._base())
        yield self._timesteps("timestep", self._timestep_dim())

    def cogvideox(self) -> Iterator[Layers]:
        """Yield video patches, if they are rotated by frame, row and column, and timesteps."""
        flag = self.keys.flag("use_rotary_positional_embeddings")
        rotates = flag is not None and flag.value
        if rotates:
            yield self._rotated_patches("cogvideox", **self._cogvideox_grid())
        else:
            self.notes.warnings.append(
                "not included: the sines of frame, row and column that the model adds to the "
                "patches; posenc has no scheme for them"
            )
        table = self.keys.flag("use_learned_positional_embeddings")
        if table is not None and table.value:
            self.notes.warnings.append(
                f"{table.source}: a learned table of the patches is added too"
            )
        yield self._timesteps(
            "timestep" if rotates else None, self._hidden_size(), **self._timestep_options()
        )

    def glm_image(self) -> Iterator[Layers]:
        """Yield image patches rotated by row and column, each half of the head, and timesteps."""
        side = self._count("patch_size").value
        size = self._pipeline_grid((1, side, side), "ROWSxCOLUMNS")
        yield self._rotated_patches(
            "qwen2-vl", Sourced(size.value[1:], size.source), base=self._base()
        )
        yield self._timesteps("timestep", self._timestep_dim())

    def auraflow(self) -> Iterator[Layers]:
        """Yield a learned table, of which an image uses the rows in the middle, and timesteps."""
        rows = self._count("pos_embed_max_size")
        params = {"dim": self._hidden_size(), "max_len": rows}
        yield Layers("patches", (), "learned", params, {"context": rows})
        yield self._timesteps("timestep", self._timestep_dim(), scale=self.default(1000.0))

    def sound(self) -> Iterator[Layers]:
        """Yield audio: one sequence, rotated in the layout half, and timesteps if known."""
        sizes = {key: self._count(key) for key in self.family.defaults}
        rotated = sizes.pop("rotary_dim", None)
        *width, layers = sizes.values()
        head = width[0] if len(width) == 1 else quotient(*width)
        params = {"dim": head, "layout": self.default("half"), "base": self._base()}
        if rotated is not None:
            share = rotated.value / max(head.value, 1)
            params["partial"] = Sourced(share, f"derived: {rotated.source} / {head.source}")
        elif self.family.partial != 1:
            params["partial"] = self.default(self.family.partial)
        derived = {"head_dim": head}
        window = self.keys.count("sliding_window")
        if window is not None:
            derived[WINDOW] = Sourced(window.value, f"{window.source}; of the layers that slide")
        yield Layers("attention", numbered(layers), "rope", params, derived)
        if self.family.timesteps:
            shift = self.family.shift
            more = self.fixed(flip_sin_to_cos=shift == 0, downscale_freq_shift=shift)
            yield self._timesteps("timestep", self._timestep_dim(), **more)

    def sines(self) -> Iterator[Layers]:
        """Yield MAE's sinusoids of row and column, scaled to a reference grid, and timesteps."""
        added, cropped = self.keys.flag("use_pos_embed"), "pos_embed_max_size"
        without = self._is_null("pos_embed_type") or (added is not None and not added.value)
        if without and cropped in self.family.defaults:
            yield self._timesteps(None, self._timestep_dim())
            return
        patch, sample = self._count("patch_size"), self._count("sample_size")
        side = quotient(sample, patch)
        if not side.value:
            raise self.error(
                f"{sample.source} {sample.value} has no room for a patch of {patch.value}"
            )
        largest = side
        if cropped in self.family.defaults and not self._is_null(cropped):
            largest = self._count(cropped)
            self.notes.warnings.append(
                "an image uses the rows in the middle of this table; the sample size is "
                f"{side.value} x {side.value}"
            )
        grid = Sourced((largest.value, largest.value), largest.source)
        params = {"dim": self._hidden_size(), "grid": grid, "convention": self.default("mae")}
        base = self._reference_grid(side, sample.value)
        if base.value != grid.value:
            params["base_size"] = base
        context = {"context": Sourced(largest.value**2, "derived: patches")}
        yield Layers("patches", (), "sinusoidal-nd", params, context)
        shift = self.default(self.family.shift)
        yield self._timesteps("timestep", self._timestep_dim(), downscale_freq_shift=shift)

    def _reference_grid(self, side: Sourced, sample: int) -> Sourced:
        """Return the grid that coordinates are scaled to; PixArt's is below the patch grid."""
        if "pos_embed_max_size" in self.family.defaults or self.family.shift:
            return Sourced((side.value, side.value), side.source)
        scale = self.keys.number("interpolation_scale") or Sourced(
            float(max(sample // 64, 1)), f"derived: {self.default_source}, sample_size / 64"
        )
        places = side.value / scale.value
        if not places.is_integer():
            raise self.error(
                f"{scale.source} {scale.value:g}: spreads {side.value} patches over a "
                "fractional number of places, which posenc does not support"
            )
        return Sourced((int(places), int(places)), f"{side.source} / {scale.source}")

    def _cogvideox_grid(self) -> dict[str, Sourced]:
        """Return the grid of the trained video size; CogVideoX 1.0 scales other sizes to it."""
        sizes = ("patch_size", "temporal_compression_ratio", "sample_frames")
        patch, ratio, frames = map(self._count, sizes)
        rows, columns = map(self._count, ("sample_height", "sample_width"))
        joined = self.keys.count("patch_size_t")
        latents = -(-((frames.value - 1) // ratio.value + 1) // (joined.value if joined else 1))
        grid = latents, rows.value // patch.value, columns.value // patch.value
        if 0 in grid:
            raise self.error(
                f"{rows.source} {rows.value}, {columns.source} {columns.value} have no room for "
                f"a patch of {patch.value}"
            )
        text = f"derived: {frames.source}, {rows.source} and {columns.source} / {patch.source}"
        # CogVideoX 1.0 scales other sizes to a crop of this grid.
        cut = {} if joined else {"base_size": Sourced(grid[1:], text)}
        return {"grid": Sourced(grid, text), **cut}

    def _sections(self, key: str) -> Sourced:
        """Return the number of pairs that rotate with each of three axes.

        Raises: InvalidInput unless three even dimensions add up to the head dim.
        """
        axes, head = (
            self.keys.counts(key) or self.default(self.family.axes),
            self._count("attention_head_dim"),
        )
        odd = len(axes.value) != 3 or any(n < 2 or n % 2 for n in axes.value)
        if odd or sum(axes.value) != head.value:
            rule = f"must be three even numbers that add up to {head.value}, {head.source}"
            raise self.error(f"{axes.source} {json_text(list(axes.value))}: {rule}")
        return Sourced(tuple(columns // 2 for columns in axes.value), f"derived: {axes.source} / 2")

    def _rotated_patches(self, convention: str, grid: Sourced, **more: Sourced) -> Layers:
        keys = ("num_layers", "num_single_layers")
        known = (self._count(key, minimum=0) for key in keys if key in self.family.defaults)
        count = Sourced(sum(each.value for each in known), "derived: the sum of layers")
        params = {
            "dim": self._count("attention_head_dim"),
            "convention": self.default(convention),
            "grid": grid,
            **more,
        }
        context = Sourced(math.prod(grid.value), "derived: patches of the grid")
        derived = {"head_dim": params["dim"], "context": context}
        return Layers("attention", numbered(count), "rope-axial", params, derived)

    def _pipeline_grid(self, patch: tuple[int, ...], axes: str = "FRAMESxROWSxCOLUMNS") -> Sourced:
        """Return the patch grid of the pipeline's default size, with a warning."""
        assert self.family.size is not None
        latents, text = self.family.size
        grid = tuple(max(count // side, 1) for count, side in zip(latents, patch, strict=True))
        self.notes.warnings.append(
            f"the config holds no size: the grid is of {text}, which its pipeline makes by "
            f"default (--set grid={axes} is another)"
        )
        return Sourced(grid, f"{PIPELINE_DEFAULT}: {text}")

    def _timesteps(self, layer_type: str | None, width: Sourced, **more: Sourced) -> Layers:
        class_defaults = self.fixed(flip_sin_to_cos=True, downscale_freq_shift=0.0)
        return Layers(layer_type, (), "timestep", {"dim": width, **class_defaults, **more})

    def _timestep_options(self) -> dict[str, Sourced]:
        """Return whether cosines come first, and the frequency shift, if keys state them."""
        if self.family.fixed:
            return {}
        shift = self.keys.number("freq_shift", above=None, minimum=0)
        flip = self.keys.flag("flip_sin_to_cos")
        stated = {"flip_sin_to_cos": flip, "downscale_freq_shift": shift}
        return {name: value for name, value in stated.items() if value is not None}

    def _timestep_dim(self) -> Sourced:
        """Return the dimension of the timestep embedding: a key's, or 256."""
        class_defaults = self.family.defaults
        if "approximator_num_channels" in class_defaults:
            return quotient(self._count("approximator_num_channels", minimum=8), Sourced(4, "4"))
        key = next((key for key in ("freq_dim", "time_embed_dim") if key in class_defaults), None)
        return self._count(key) if key else self.default(256)

    def _base(self) -> Sourced:
        stated = self.keys.number("rope_theta", above=1) if self.family.theta else None
        return stated or self.default(self.family.base)

    def _hidden_size(self) -> Sourced:
        """Return the dimension of all heads together."""
        heads, head = self._count("num_attention_heads"), self._count("attention_head_dim")
        return Sourced(heads.value * head.value, f"derived: {heads.source} × {head.source}")

    def _is_null(self, key: str) -> bool:
        return self.keys.has(key) and self.keys.get(key) is None

    def _count(self, key: str, *, minimum: int = 1) -> Sourced:
        count = self.keys.count(key, minimum=minimum)
        return count or self.default_size(key, self.family.defaults[key])
