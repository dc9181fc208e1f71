"""Configs of diffusers, which name a class: its timesteps, and the patches of images and video.

A config means what diffusers 0.42 makes of it. Most hold no size of image or video: what their
pipeline takes by default then stands for it, and a warning says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.configs.keys import printable
from posenc_cli.configs.layer_types import LARGEST_LAYERS
from posenc_cli.configs.resolved import Layers, Sourced
from posenc_cli.errors import InvalidInput, nearest
from posenc_cli.records import Record, fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from posenc_cli.configs.keys import Keys
    from posenc_cli.configs.resolved import Notes

CLASS = "_class_name"


class DiffusionFamily(Record):
    """A class of diffusers: how it is read, and what its configs leave out.

    ``shift`` is that of its timesteps where no key holds it, and ``grid`` that of its pipeline's
    default size, where its config has none; ``size`` is that in pixels.
    """

    read: str
    defaults: Mapping[str, Any] = fresh(dict)
    shift: float = 0.0
    grid: tuple[int, ...] = ()
    size: str = ""


_TRANSFORMER = {"num_attention_heads": 24, "attention_head_dim": 128}
_PATCHES = {"num_attention_heads": 16, "attention_head_dim": 72, "patch_size": 2}

FAMILIES: Mapping[str, DiffusionFamily] = {
    "UNet2DConditionModel": DiffusionFamily("unet", {"block_out_channels": (320, 640, 1280, 1280)}),
    "UNet2DModel": DiffusionFamily("unet", {"block_out_channels": (224, 448, 672, 896)}),
    "ControlNetModel": DiffusionFamily("unet", {"block_out_channels": (320, 640, 1280, 1280)}),
    "FluxTransformer2DModel": DiffusionFamily(
        "flux",
        {**_TRANSFORMER, "num_layers": 19, "num_single_layers": 38},
        grid=(1, 64, 64),
        size="1024 x 1024 pixels",
    ),
    "WanTransformer3DModel": DiffusionFamily(
        "wan",
        {**_TRANSFORMER, "num_layers": 40, "freq_dim": 256},
        grid=(21, 60, 104),
        size="81 frames of 480 x 832 pixels",
    ),
    "HunyuanVideoTransformer3DModel": DiffusionFamily(
        "hunyuan_video",
        {
            **_TRANSFORMER,
            "num_layers": 20,
            "num_single_layers": 40,
            "patch_size": 2,
            "patch_size_t": 1,
            "rope_theta": 256.0,
        },
        grid=(33, 90, 160),
        size="129 frames of 720 x 1280 pixels",
    ),
    "CogVideoXTransformer3DModel": DiffusionFamily(
        "cogvideox",
        {
            "num_attention_heads": 30,
            "attention_head_dim": 64,
            "num_layers": 30,
            "sample_width": 90,
            "sample_height": 60,
            "sample_frames": 49,
            "patch_size": 2,
            "temporal_compression_ratio": 4,
        },
    ),
    "SD3Transformer2DModel": DiffusionFamily(
        "sines",
        {
            "num_attention_heads": 18,
            "attention_head_dim": 64,
            "patch_size": 2,
            "sample_size": 128,
            "pos_embed_max_size": 96,
        },
    ),
    "DiTTransformer2DModel": DiffusionFamily("sines", {**_PATCHES, "sample_size": 32}, shift=1.0),
    "PixArtTransformer2DModel": DiffusionFamily("sines", {**_PATCHES, "sample_size": 128}),
}


def is_diffusers(keys: Keys) -> bool:
    """Whether a config names a class of diffusers, and no model type of transformers."""
    return keys.has(CLASS) and not keys.has("model_type")


def layers(keys: Keys, notes: Notes) -> tuple[str, list[Layers]]:
    """The class that a config names, and its encodings.

    Raises: InvalidInput where the class is not read, or a value is none that it takes.
    """
    stated = keys.text(CLASS)
    name = "null" if stated is None else printable(stated.value)
    if stated is None or stated.value not in FAMILIES:
        folders = "a folder of its own holds the config of its unet or transformer"
        raise InvalidInput(
            f"{keys.name}: posenc reads no configs of diffusers' class {name}",
            hint=folders if name.endswith("Pipeline") else nearest(name, FAMILIES),
        )
    reader = _DiffusionReader(keys, stated.value, notes)
    return stated.value, list(_READERS[reader.family.read](reader))


class _DiffusionReader:
    """Reads the config of a class of diffusers."""

    def __init__(self, keys: Keys, name: str, notes: Notes) -> None:
        self.keys = keys
        self.family = FAMILIES[name]
        self.default = f"default of {name}"
        self.notes = notes

    def unet(self) -> Iterator[Layers]:
        """A UNet's timesteps, and the sizes that SDXL embeds as such."""
        widths = self.keys.counts("block_out_channels")
        if widths is not None and not widths.value:
            raise self.keys.invalid("block_out_channels", "must have a number for each block")
        usual = self.family.defaults["block_out_channels"]
        width = Sourced(usual[0], self.default)
        if widths is None:
            self.notes.size("block_out_channels.0", width)
        else:
            width = Sourced(widths.value[0], f"{widths.source}.0")
        kind = self.keys.text("time_embedding_type")
        if kind is not None and kind.value != "positional":
            raise InvalidInput(
                f"{self.keys.name}: {kind.source} {printable(kind.value)}: its timesteps are "
                "embedded by numbers that were drawn or trained, which the config does not hold"
            )
        flip = self.keys.flag("flip_sin_to_cos") or Sourced(value=True, source=self.default)
        shift = self._freq_shift()
        added = self.keys.text("addition_embed_type")
        sizes = self.keys.count("addition_time_embed_dim")
        if added is None or added.value != "text_time" or sizes is None:
            yield self._timesteps(None, width, flip, shift)
        else:
            yield self._timesteps("timestep", width, flip, shift)
            yield self._timesteps("sizes", sizes, flip, shift)
        self.notes.warn("its blocks have no positions: they are of timesteps alone")

    def flux(self) -> Iterator[Layers]:
        """Patches that turn by row and column, beside an axis that is 0 in images."""
        axes = self._axes("axes_dims_rope", (16, 56, 56))
        params = {
            **self._turning("wan", axes),
            "base": Sourced(10_000.0, self.default),
            "grid": self._pipeline_grid((1, 1, 1)),
        }
        yield self._turned(params, ("num_layers", "num_single_layers"))
        yield self._timesteps("timestep", Sourced(256, self.default))
        self.notes.warn(
            "timesteps from 0 to 1 are multiplied by 1000 before: positions are those of 0 to 1000"
        )

    def wan(self) -> Iterator[Layers]:
        """Video that turns by frame, row and column."""
        patch = self.keys.counts("patch_size") or Sourced((1, 2, 2), self.default)
        if len(patch.value) != 3 or 0 in patch.value:
            raise self.keys.invalid("patch_size", "must be frames, rows and columns of a patch")
        grid = self._pipeline_grid(patch.value)
        most = self.keys.count("rope_max_seq_len")
        if most is not None and max(grid.value) > most.value:
            self.notes.warn(f"{most.source} {most.value}: no axis may have more places")
        params = {
            "dim": self._count("attention_head_dim"),
            "convention": Sourced("wan", self.default),
            "grid": grid,
        }
        yield self._turned(params, ("num_layers",))
        yield self._timesteps("timestep", self._count("freq_dim"))

    def hunyuan_video(self) -> Iterator[Layers]:
        """Video that turns by frame, row and column, in shares that a key holds."""
        axes = self._axes("rope_axes_dim", (16, 56, 56))
        side, frames = self._count("patch_size").value, self._count("patch_size_t").value
        base = self.keys.number("rope_theta", above=1) or Sourced(256.0, self.default)
        params = {
            **self._turning("hunyuan-video", axes),
            "base": base,
            "grid": self._pipeline_grid((frames, side, side)),
        }
        yield self._turned(params, ("num_layers", "num_single_layers"))
        yield self._timesteps("timestep", Sourced(256, self.default))

    def cogvideox(self) -> Iterator[Layers]:
        """Video that turns by frame, row and column, where it does."""
        width = self._width()
        turns = self.keys.flag("use_rotary_positional_embeddings")
        flip = self.keys.flag("flip_sin_to_cos") or Sourced(value=True, source=self.default)
        if turns is not None and turns.value:
            params = {
                "dim": self._count("attention_head_dim"),
                "convention": Sourced("cogvideox", self.default),
                **self._cogvideox_grid(),
            }
            yield self._turned(params, ("num_layers",))
        else:
            self.notes.warn(
                "the sines of frames, rows and columns that are added to the patches are left out: "
                "no scheme has them"
            )
        table = self.keys.flag("use_learned_positional_embeddings")
        if table is not None and table.value:
            self.notes.warn(f"{table.source}: a table of the patches is added besides")
        name = "timestep" if turns is not None and turns.value else None
        yield self._timesteps(name, width, flip, self._freq_shift())

    def sines(self) -> Iterator[Layers]:
        """MAE's sines of row and column, spread over the places of another grid."""
        patch, sample = self._count("patch_size"), self._count("sample_size")
        side = sample.value // patch.value
        if side < 1:
            raise InvalidInput(
                f"{self.keys.name}: {sample.source} {sample.value}: has no room for a patch of "
                f"{patch.value}"
            )
        source = f"derived: {sample.source} / {patch.source}"
        grid = Sourced((side, side), source)
        if "pos_embed_max_size" in self.family.defaults and not self._is_null("pos_embed_max_size"):
            most = self._count("pos_embed_max_size")
            grid = Sourced((most.value, most.value), most.source)
            self.notes.warn(
                "an image takes the rows in the middle of this table: of the sample size "
                f"{side} x {side}"
            )
        params = {
            "dim": self._width(),
            "grid": grid,
            "convention": Sourced("mae", self.default),
        }
        base = self._base_size(side, source, sample.value)
        if base.value != grid.value:
            params["base_size"] = base
        context = {"context": Sourced(grid.value[0] * grid.value[1], "derived: patches")}
        yield Layers("patches", (), "sinusoidal-nd", params, context)
        shift = Sourced(self.family.shift, self.default)
        yield self._timesteps("timestep", Sourced(256, self.default), shift=shift)

    def _base_size(self, side: int, source: str, sample: int) -> Sourced:
        """The places that sines are spread over: PixArt has fewer than patches."""
        if "pos_embed_max_size" in self.family.defaults or self.family.shift:
            return Sourced((side, side), source)
        scale = self.keys.number("interpolation_scale") or Sourced(
            float(max(sample // 64, 1)), f"derived: {self.default}, sample_size / 64"
        )
        places = side / scale.value
        if not places.is_integer():
            raise InvalidInput(
                f"{self.keys.name}: {scale.source} {scale.value:g}: spreads {side} patches over no "
                "whole number of places; no scheme does"
            )
        return Sourced((int(places), int(places)), f"{source} / {scale.source}")

    def _cogvideox_grid(self) -> dict[str, Sourced]:
        """The grid of the video that a model was made for, and the one that it is cut of."""
        patch, ratio = self._count("patch_size"), self._count("temporal_compression_ratio")
        frames = self._count("sample_frames")
        rows, columns = (self._count(key) for key in ("sample_height", "sample_width"))
        latents = (frames.value - 1) // ratio.value + 1
        joined = self.keys.count("patch_size_t")
        if joined is not None:
            latents = -(-latents // joined.value)
        grid = latents, rows.value // patch.value, columns.value // patch.value
        if 0 in grid:
            raise InvalidInput(
                f"{self.keys.name}: {rows.source} {rows.value}, {columns.source} {columns.value}: "
                f"have no room for a patch of {patch.value}"
            )
        text = f"derived: {frames.source}, {rows.source} and {columns.source} / {patch.source}"
        found = {"grid": Sourced(grid, text)}
        if joined is None:  # version 1.0 spreads other sizes over a crop of this grid
            found["base_size"] = Sourced(grid[1:], text)
        return found

    def _turning(self, convention: str, axes: Sourced) -> dict[str, Sourced]:
        """The columns that turn, and how many pairs of them with each axis."""
        pairs = tuple(columns // 2 for columns in axes.value)
        return {
            "dim": Sourced(sum(axes.value), f"derived: the sum of {axes.source}"),
            "convention": Sourced(convention, self.default),
            "sections": Sourced(pairs, f"derived: {axes.source} / 2"),
        }

    def _axes(self, key: str, usual: tuple[int, ...]) -> Sourced:
        """The columns that turn with each of three axes.

        Raises: InvalidInput unless they are even, and those of a head.
        """
        axes = self.keys.counts(key) or Sourced(usual, self.default)
        head = self._count("attention_head_dim")
        if len(axes.value) != 3 or any(n < 2 or n % 2 for n in axes.value):
            raise self.keys.invalid(key, "must be three even numbers of columns")
        if sum(axes.value) != head.value:
            raise InvalidInput(
                f"{self.keys.name}: {axes.source} {list(axes.value)}: must add up to the "
                f"{head.value} columns of {head.source}"
            )
        return axes

    def _turned(self, params: Mapping[str, Sourced], keys: tuple[str, ...]) -> Layers:
        """The layers whose attention turns patches."""
        count = sum(self._count(key, minimum=0).value for key in keys)
        frames, rows, columns = params["grid"].value
        derived = {
            "head_dim": params["dim"],
            "context": Sourced(frames * rows * columns, "derived: patches of the grid"),
        }
        numbers = tuple(range(min(count, LARGEST_LAYERS)))
        return Layers("attention", numbers, "rope-axial", params, derived)

    def _pipeline_grid(self, patch: tuple[int, ...]) -> Sourced:
        """The patches of what the pipeline makes by default, as the config has no sizes."""
        grid = tuple(
            max(count // side, 1) for count, side in zip(self.family.grid, patch, strict=True)
        )
        self.notes.warn(
            f"the config holds no size: the grid is of {self.family.size}, which its pipeline "
            "makes by default (--set grid=FRAMESxROWSxCOLUMNS is another)"
        )
        return Sourced(grid, f"default of its pipeline: {self.family.size}")

    def _timesteps(
        self,
        layer_type: str | None,
        width: Sourced,
        flip: Sourced | None = None,
        shift: Sourced | None = None,
    ) -> Layers:
        params = {
            "dim": width,
            "flip_sin_to_cos": flip or Sourced(value=True, source=self.default),
            "downscale_freq_shift": shift or Sourced(0.0, self.default),
        }
        return Layers(layer_type, (), "timestep", params)

    def _freq_shift(self) -> Sourced:
        shift = self.keys.number("freq_shift", above=None, minimum=0)
        return shift or Sourced(0.0, self.default)

    def _width(self) -> Sourced:
        """The columns of all heads together."""
        heads, columns = (self._count(key) for key in ("num_attention_heads", "attention_head_dim"))
        return Sourced(heads.value * columns.value, f"derived: {heads.source} × {columns.source}")

    def _is_null(self, key: str) -> bool:
        return self.keys.has(key) and self.keys.get(key) is None

    def _count(self, key: str, *, minimum: int = 1) -> Sourced:
        count = self.keys.count(key, minimum=minimum)
        if count is None:
            count = Sourced(self.family.defaults[key], self.default)
            self.notes.size(self.keys.path(key), count)
        return count


_READERS: Mapping[str, Callable[[_DiffusionReader], Iterator[Layers]]] = {
    "unet": _DiffusionReader.unet,
    "flux": _DiffusionReader.flux,
    "wan": _DiffusionReader.wan,
    "hunyuan_video": _DiffusionReader.hunyuan_video,
    "cogvideox": _DiffusionReader.cogvideox,
    "sines": _DiffusionReader.sines,
}
