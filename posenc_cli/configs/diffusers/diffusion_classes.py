"""The classes of diffusers 0.42 that have a config: how each is read, or why it is not.

Source: diffusers 0.42.1's models, made from their defaults, and the sizes of its pipelines,
https://github.com/huggingface/diffusers/tree/v0.42.1/src/diffusers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.records import Record, fresh

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

OF_PIPELINE = "default of its pipeline"
"""How the source of a size begins that no config holds."""
_NO_POSITIONS = "its blocks have no positions: they are of timesteps alone"
_FRAMES = (
    "its motion modules add sines of the frames besides (posenc generate -s sinusoidal), as wide "
    "as each block"
)
THOUSANDS = "timesteps from 0 to 1 are multiplied by 1000 before: positions are those of 0 to 1000"


class DefaultSize(Record):
    """What a pipeline makes where it is not told a size: its latents, and that in words.

    ``grid`` counts frames, rows and columns.
    """

    grid: tuple[int, ...]
    text: str


class DiffusionFamily(Record):
    """A class of diffusers: how it is read, and what its configs leave out.

    ``read`` names the method of the reader. ``shift`` is that of its timesteps where no key holds
    it, and ``fixed`` whether no key does. ``size`` is what its pipeline makes by default, where its
    config holds no size. ``note`` is a warning for all its configs.
    """

    read: str
    defaults: Mapping[str, Any] = fresh(dict)
    shift: float = 0.0
    fixed: bool = False
    size: DefaultSize | None = None
    note: str = ""


_TRANSFORMER = {"num_attention_heads": 24, "attention_head_dim": 128}
_LARGE = {"num_attention_heads": 40, "attention_head_dim": 128, "num_layers": 40, "freq_dim": 256}
_PATCHES = {"num_attention_heads": 16, "attention_head_dim": 72, "patch_size": 2}
_SD3 = {
    "num_attention_heads": 18,
    "attention_head_dim": 64,
    "patch_size": 2,
    "sample_size": 128,
    "pos_embed_max_size": 96,
}
_COGVIDEOX = {
    "num_attention_heads": 30,
    "attention_head_dim": 64,
    "num_layers": 30,
    "sample_width": 90,
    "sample_height": 60,
    "sample_frames": 49,
    "patch_size": 2,
    "temporal_compression_ratio": 4,
}
_BLOCKS = {"num_layers": 19, "num_single_layers": 38}
_UNET = {"block_out_channels": (320, 640, 1280, 1280)}
_VIDEO = DefaultSize((21, 60, 104), "81 frames of 480 x 832 pixels")
_IMAGE = DefaultSize((1, 64, 64), "1024 x 1024 pixels")

FAMILIES: Mapping[str, DiffusionFamily] = {
    "UNet2DConditionModel": DiffusionFamily("unet", _UNET, note=_NO_POSITIONS),
    "UNet2DModel": DiffusionFamily(
        "unet", {"block_out_channels": (224, 448, 672, 896)}, note=_NO_POSITIONS
    ),
    "UNet1DModel": DiffusionFamily(
        "unet",
        {"block_out_channels": (32, 32, 64), "time_embedding_type": "fourier"},
        note=_NO_POSITIONS,
    ),
    "DreamLiteUNetModel": DiffusionFamily(
        "unet", {"block_out_channels": (320, 640, 1280)}, note=_NO_POSITIONS
    ),
    "ControlNetModel": DiffusionFamily("unet", _UNET, note=_NO_POSITIONS),
    "ControlNetUnionModel": DiffusionFamily("unet", _UNET, note=_NO_POSITIONS),
    "SparseControlNetModel": DiffusionFamily("unet", _UNET, note=_FRAMES),
    "UNet3DConditionModel": DiffusionFamily("unet", _UNET, fixed=True, note=_NO_POSITIONS),
    "I2VGenXLUNet": DiffusionFamily("unet", _UNET, fixed=True, note=_NO_POSITIONS),
    "UNetMotionModel": DiffusionFamily("unet", _UNET, fixed=True, note=_FRAMES),
    "UNetControlNetXSModel": DiffusionFamily("unet", _UNET, fixed=True, note=_NO_POSITIONS),
    "UNetSpatioTemporalConditionModel": DiffusionFamily(
        "unet",
        {**_UNET, "addition_embed_type": "text_time", "addition_time_embed_dim": 256},
        fixed=True,
        note="its temporal blocks embed the number of each frame as it does timesteps, as wide as "
        "each block",
    ),
    "Kandinsky3UNet": DiffusionFamily(
        "kandinsky3", {"block_out_channels": (384, 768, 1536, 3072)}, note=_NO_POSITIONS
    ),
    "FluxTransformer2DModel": DiffusionFamily(
        "flux", {**_TRANSFORMER, **_BLOCKS}, size=_IMAGE, note=THOUSANDS
    ),
    "FluxControlNetModel": DiffusionFamily(
        "flux", {**_TRANSFORMER, **_BLOCKS}, size=_IMAGE, note=THOUSANDS
    ),
    "ChromaTransformer2DModel": DiffusionFamily(
        "flux",
        {**_TRANSFORMER, **_BLOCKS, "approximator_num_channels": 64},
        size=_IMAGE,
        note=THOUSANDS,
    ),
    "BriaTransformer2DModel": DiffusionFamily(
        "flux",
        {**_TRANSFORMER, **_BLOCKS, "rope_theta": 10_000.0, "time_theta": 10_000.0},
        size=_IMAGE,
    ),
    "BriaFiboTransformer2DModel": DiffusionFamily(
        "flux",
        {**_TRANSFORMER, **_BLOCKS, "rope_theta": 10_000.0, "time_theta": 10_000.0},
        size=_IMAGE,
    ),
    "OvisImageTransformer2DModel": DiffusionFamily(
        "flux",
        {**_TRANSFORMER, "num_layers": 6, "num_single_layers": 27},
        size=_IMAGE,
        note=THOUSANDS,
    ),
    "HiDreamImageTransformer2DModel": DiffusionFamily(
        "flux",
        {
            "num_attention_heads": 20,
            "attention_head_dim": 128,
            "num_layers": 16,
            "num_single_layers": 32,
            "axes_dims_rope": (64, 32, 32),
        },
        size=_IMAGE,
    ),
    "WanTransformer3DModel": DiffusionFamily(
        "wan", {**_TRANSFORMER, "num_layers": 40, "freq_dim": 256}, size=_VIDEO
    ),
    "WanVACETransformer3DModel": DiffusionFamily("wan", _LARGE, size=_VIDEO),
    "WanAnimateTransformer3DModel": DiffusionFamily(
        "wan",
        _LARGE,
        size=DefaultSize((21, 90, 160), "77 frames of 720 x 1280 pixels, one before them"),
    ),
    "ChronoEditTransformer3DModel": DiffusionFamily(
        "wan",
        _LARGE,
        size=_VIDEO,
    ),
    "AnyFlowTransformer3DModel": DiffusionFamily("wan", _LARGE, size=_VIDEO),
    "SkyReelsV2Transformer3DModel": DiffusionFamily(
        "wan",
        {
            "num_attention_heads": 16,
            "attention_head_dim": 128,
            "num_layers": 32,
            "freq_dim": 256,
        },
        size=DefaultSize((25, 68, 120), "97 frames of 544 x 960 pixels"),
    ),
    "SanaVideoTransformer3DModel": DiffusionFamily(
        "wan", {"num_attention_heads": 20, "attention_head_dim": 112, "num_layers": 20}, size=_VIDEO
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
        size=DefaultSize((33, 90, 160), "129 frames of 720 x 1280 pixels"),
    ),
    "HunyuanVideo15Transformer3DModel": DiffusionFamily(
        "hunyuan_video",
        {
            "num_attention_heads": 16,
            "attention_head_dim": 128,
            "num_layers": 54,
            "patch_size": 1,
            "patch_size_t": 1,
            "rope_theta": 256.0,
        },
        size=DefaultSize((31, 30, 53), "121 frames of 480 x 848 pixels"),
    ),
    "MotifVideoTransformer3DModel": DiffusionFamily(
        "hunyuan_video",
        {
            **_TRANSFORMER,
            "num_layers": 20,
            "num_single_layers": 40,
            "patch_size": 2,
            "patch_size_t": 1,
            "rope_theta": 256.0,
        },
        size=DefaultSize((31, 92, 160), "121 frames of 736 x 1280 pixels"),
    ),
    "CogVideoXTransformer3DModel": DiffusionFamily("cogvideox", _COGVIDEOX),
    "ConsisIDTransformer3DModel": DiffusionFamily("cogvideox", _COGVIDEOX),
    "GlmImageTransformer2DModel": DiffusionFamily(
        "glm_image",
        {
            "num_attention_heads": 64,
            "attention_head_dim": 40,
            "num_layers": 30,
            "patch_size": 2,
            "time_embed_dim": 512,
        },
        size=DefaultSize((1, 128, 128), "1024 x 1024 pixels"),
    ),
    "SD3Transformer2DModel": DiffusionFamily("sines", _SD3),
    "SD3ControlNetModel": DiffusionFamily("sines", _SD3),
    "DiTTransformer2DModel": DiffusionFamily("sines", {**_PATCHES, "sample_size": 32}, shift=1.0),
    "PixArtTransformer2DModel": DiffusionFamily("sines", {**_PATCHES, "sample_size": 128}),
    "AuraFlowTransformer2DModel": DiffusionFamily(
        "auraflow",
        {"num_attention_heads": 12, "attention_head_dim": 256, "pos_embed_max_size": 1024},
        note="an image takes the rows in the middle of its table",
    ),
    "PriorTransformer": DiffusionFamily(
        "prior",
        {
            "num_attention_heads": 32,
            "attention_head_dim": 64,
            "num_embeddings": 77,
            "additional_embeddings": 4,
        },
    ),
    "StableAudioDiTModel": DiffusionFamily(
        "sound",
        {"attention_head_dim": 64, "num_layers": 24, "turns": 0.5, "base": 10_000.0},
        note="its timesteps are embedded by numbers that the checkpoint holds",
    ),
    "StableAudio3DiTModel": DiffusionFamily(
        "sound",
        {"embed_dim": 1536, "num_heads": 24, "depth": 24, "turns": 0.5, "base": 10_000.0},
        note="its timesteps are embedded by waves of another ladder, which no scheme has",
    ),
    "MiniMaxMusic3Transformer1DModel": DiffusionFamily(
        "sound",
        {"attention_head_dim": 64, "num_layers": 36, "rotary_dim": 32, "base": 10_000.0},
        note="its timesteps are embedded by numbers that the checkpoint holds",
    ),
    "LongCatAudioDiTTransformer": DiffusionFamily(
        "sound",
        {"dit_dim": 1536, "dit_heads": 24, "dit_depth": 24, "base": 100_000.0},
        shift=1.0,
        note=THOUSANDS,
    ),
    "AceStepTransformer1DModel": DiffusionFamily(
        "sound",
        {"head_dim": 128, "num_hidden_layers": 24, "rope_theta": 1_000_000.0},
        note=THOUSANDS,
    ),
}
"""By its class, each that is read."""

_UNREAD: Mapping[str, tuple[str, ...]] = {
    "its layers have no positions": (
        *("AsymmetricAutoencoderKL", "AutoencoderDC", "AutoencoderKL", "AutoencoderKLAllegro"),
        *("AutoencoderKLCogVideoX", "AutoencoderKLCosmos", "AutoencoderKLFlux2"),
        *("AutoencoderKLHunyuanImage", "AutoencoderKLHunyuanImageRefiner"),
        *("AutoencoderKLHunyuanVideo", "AutoencoderKLHunyuanVideo15", "AutoencoderKLKVAE"),
        *("AutoencoderKLKVAEAudio", "AutoencoderKLKVAEVideo", "AutoencoderKLLTX2Audio"),
        *("AutoencoderKLLTX2Video", "AutoencoderKLLTXVideo", "AutoencoderKLMagvit"),
        *("AutoencoderKLMiniMaxH3Audio", "AutoencoderKLMochi", "AutoencoderKLQwenImage"),
        *("AutoencoderKLQwenImage21", "AutoencoderKLTemporalDecoder", "AutoencoderKLWan"),
        *("AutoencoderOobleck", "AutoencoderTiny", "AutoencoderVidTok"),
        *("ConsistencyDecoderVAE", "Cosmos3AVAEAudioTokenizer", "Kandinsky6SRLatentUpscalerBank"),
        *("Kandinsky6SRVAE", "LongCatAudioDiTVae", "MMAudioVAE", "MMAudioVocoder"),
        *("MiniMaxMusic3ConditionEncoder", "MiniMaxMusic3Vocoder", "T2IAdapter", "VQModel"),
    ),
    "its patches have no positions but by convolutions": (
        *("SanaControlNetModel", "SanaTransformer2DModel", "StableCascadeUNet", "UVit2DModel"),
    ),
    "it is an autoencoder whose blocks rotate columns: what runs between is read": (
        *("AutoencoderKLMiniMaxH3", "AutoencoderSAME", "LTX2VideoDiffusionDecoderModel"),
    ),
    "its table of patches begins with a row of zeros, and is resized": ("AutoencoderRAE",),
    "it is a part of another model, whose config has the timesteps": (
        *("ControlNetXSAdapter", "DreamLiteTransformer2DModel", "TransformerTemporalModel"),
    ),
    "it adds sines of the frames, as wide as each block: posenc generate -s sinusoidal": (
        "MotionAdapter",
    ),
    "it rotates two texts by RoPE of base 10000: posenc generate -s rope": (
        "AnimaTextConditioner",
    ),
    "it counts from the middle of an image, to both sides: no scheme does": (
        *("NucleusMoEImageTransformer2DModel", "QwenImageControlNetModel"),
        "QwenImageTransformer2DModel",
    ),
    "its first axis goes on from the text, whose length no config holds": (
        *("BriaFibo2Transformer2DModel", "Cosmos3OmniTransformer", "ErnieImageTransformer2DModel"),
        *("Ideogram4Transformer2DModel", "Lumina2Transformer2DModel"),
        *("QwenImage21Transformer2DModel", "ZImageControlNetModel", "ZImageTransformer2DModel"),
    ),
    "its pipeline makes the positions, which no config holds": (
        *("AnyFlowFARTransformer3DModel", "HeliosTransformer3DModel"),
        *("HunyuanVideoFramepackTransformer3DModel", "Krea2Transformer2DModel"),
        *("LongCatImageTransformer2DModel", "MiniMaxH3Transformer3DModel"),
        *("OmniGenTransformer2DModel", "WanAnimate2Transformer3DModel"),
    ),
    "its grid is that of the image it edits, which no config holds": (
        *("JoyImageEditPlusTransformer3DModel", "JoyImageEditTransformer3DModel"),
    ),
    "it rotates by four axes, of frames, rows, columns and text: no scheme has them": (
        *("Flux2Transformer2DModel", "Flux3Transformer2DModel"),
    ),
    "it rotates neighbours by rows and columns, without frames: no scheme has that": (
        *("HunyuanImageTransformer2DModel", "LuminaNextDiT2DModel", "PRXTransformer2DModel"),
    ),
    "it spreads the places of an image over a grid of fixed size: no scheme does so": (
        *("CogView4Transformer2DModel", "EasyAnimateTransformer3DModel"),
        *("HunyuanDiT2DControlNetModel", "HunyuanDiT2DModel"),
    ),
    "the places of each axis are divided by a factor of their own: no scheme does": (
        *("AllegroTransformer3DModel", "Kandinsky5Transformer3DModel"),
        *("Kandinsky6SRTransformer3DModel", "Kandinsky6Transformer3DModel"),
    ),
    "each of its axes has a base of its own, by rope_scale: no scheme does": (
        *("CosmosControlNetModel", "CosmosTransformer3DModel"),
    ),
    "it rotates by shares of a largest size: no scheme does": (
        *("LTX2VideoTransformer3DModel", "LTXVideoTransformer3DModel"),
        "SanaWMLTX2RefinerTransformer3DModel",
    ),
    "its frequencies are trained: the checkpoint holds them": ("MochiTransformer3DModel",),
    "it rotates its cameras apart from its patches, by part of the columns": (
        "SanaWMTransformer3DModel",
    ),
    "it takes a corner of MAE's sines: posenc generate -s sinusoidal-nd": (
        "CogView3PlusTransformer2DModel",
    ),
    "it adds sines of patches and of frames in turn: posenc generate -s sinusoidal-nd": (
        "LatteTransformer3DModel",
    ),
    "its positions are rows of a table, which posenc identify finds in its checkpoint": (
        *("MiniMaxMusic3RVQDepthDecoder", "T5FilmDecoder"),
    ),
    "its tokens are residues of proteins, whose features are of several sorts": (
        *("RFD4ProteinaAutoencoder", "RFD4ProteinaTransformer"),
    ),
}

UNREAD: Mapping[str, str] = {name: reason for reason, names in _UNREAD.items() for name in names}
"""By its class, why each other is not read."""

BLOCKS = "Transformer2DModel"
"""The class that wrote configs of DiT and PixArt before they had classes of their own."""

BLOCKS_OF: Mapping[str, str] = {
    "ada_norm_zero": "DiTTransformer2DModel",
    "ada_norm_single": "PixArtTransformer2DModel",
}
"""By its norm_type, what a config of that class is one of."""
