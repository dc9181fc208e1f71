"""Tables as libraries make them, by the rule that each library's own code follows, in NumPy alone.

The rules are those of diffusers 0.42.1, timm 1.0.31, x-transformers 2.31.10,
rotary-embedding-torch 0.9.1, positional-encodings 6.0.4, mlx 0.32.4, keras-hub 0.32.0, read
in their code. A case is the arrays, the scheme, and some of its parameters.
"""

import numpy as np


def ladder(count, base=10_000.0):
    return base ** (-np.arange(count) / count)


def places(*sides):
    """The coordinates of a row-major grid, one array an axis."""
    return [axis.reshape(-1) for axis in np.meshgrid(*map(np.arange, sides), indexing="ij")]


def twice(angles):
    return np.repeat(angles, 2, axis=-1)


def angles_of(axes, counts, base):
    """Each axis' coordinates times a ladder of its own. Shape: (places, Σ counts)."""
    return np.concatenate(
        [axis[:, None] * ladder(n, base) for axis, n in zip(axes, counts, strict=True)], 1
    )


def single(*arrays):
    return tuple(np.asarray(array, np.float32) for array in arrays)


def sines_then_cosines(where, columns, base=10_000.0):
    angles = np.multiply.outer(where, ladder(columns // 2, base))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def sincos_2d(dim, rows, columns, base_size=16, scale=1.0):
    """diffusers' get_2d_sincos_pos_embed: the horizontal coordinate first, in float64."""
    y, x = places(rows, columns)
    y, x = y * base_size / rows / scale, x * base_size / columns / scale
    return np.concatenate([sines_then_cosines(axis, dim // 2) for axis in (x, y)], axis=1)


def sincos_3d(dim, sides, frames, spatial=1.0, temporal=1.0):
    """diffusers' get_3d_sincos_pos_embed. Shape: (frames, places, dim)."""
    width, height = sides
    t, y, x = places(frames, height, width)
    parts = [
        sines_then_cosines(t / temporal, dim // 4),
        sines_then_cosines(x / spatial, 3 * dim // 8),
        sines_then_cosines(y / spatial, 3 * dim // 8),
    ]
    return np.concatenate(parts, axis=1).reshape(frames, height * width, dim)


def cos_sin_twice(axes, counts, base):
    angles = twice(angles_of(axes, counts, base))
    return single(np.cos(angles), np.sin(angles))


def turning(axes, counts, base):
    return (np.exp(1j * angles_of(axes, counts, base)).astype(np.complex64),)


def qwen_image(rows, columns, frames=1):
    """Qwen-Image's scale_rope: rows and columns are counted from the centre."""
    t, y, x = places(frames, rows, columns)
    return [t, y - (rows - rows // 2), x - (columns - columns // 2)]


def rotary_cat(rows, columns, dim, reference=None):
    """timm's RotaryEmbeddingCat(in_pixels=False): all sines, then all cosines, rows first."""
    axes = places(rows, columns)
    if reference:
        axes = [axis * r / n for axis, r, n in zip(axes, reference, (rows, columns), strict=True)]
    angles = twice(angles_of(axes, [dim // 4] * 2, 10_000.0))
    return single(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))


def ends(count, axis):
    """linspace(−1, 1, count) at the coordinates of an axis."""
    return -1 + 2 * axis / (count - 1)


def pixel_angles(rows, columns, bands):
    y, x = places(rows, columns)
    return np.concatenate(
        [np.multiply.outer(ends(n, axis), bands) for n, axis in ((rows, y), (columns, x))], axis=1
    )


def octaves(count, largest=224):
    """timm's pixel_freq_bands: π to π · largest / 2, evenly spaced logarithms."""
    return np.pi * 2 ** np.linspace(0, np.log2(largest / 2), count)


def rotary_cat_pixels(rows, columns, dim, largest=224):
    """timm's RotaryEmbeddingCat as it is by default."""
    angles = twice(pixel_angles(rows, columns, octaves(dim // 4, largest)))
    return single(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))


def fourier(rows, columns, bands, largest=224):
    """timm's build_fourier_pos_embed: sines, and cosines, each (rows, columns, 2, bands)."""
    angles = pixel_angles(rows, columns, octaves(bands, largest))
    shape = rows, columns, 2, bands
    return single(np.cos(angles).reshape(shape), np.sin(angles).reshape(shape))


def lucidrains_pixel(rows, columns, dim, largest=10):
    """rotary-embedding-torch's get_axial_freqs(freqs_for="pixel"): angles, each twice."""
    bands = np.pi * np.linspace(1, largest / 2, dim // 2)
    return single(twice(pixel_angles(rows, columns, bands)).reshape(rows, columns, 2 * dim))


def lucidrains_pixel_line(count, dim, largest=10):
    bands = np.pi * np.linspace(1, largest / 2, dim // 2)
    return single(twice(np.multiply.outer(np.linspace(-1, 1, count), bands)))


def lucidrains_axial(rows, columns, dim):
    """The same for language: indices, a ladder of 10000 for each axis."""
    angles = twice(angles_of(places(rows, columns), [dim // 2] * 2, 10_000.0))
    return single(angles.reshape(rows, columns, 2 * dim))


def slopes(heads):
    """Press' slopes, of a power of two and of others."""
    power = 2 ** int(np.log2(heads))
    first = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return np.array((first + [2 ** (-4 * (2 * i + 1) / power) for i in range(power)])[:heads])


def some_heads(biased, heads, length):
    """x-transformers' AlibiPositionalBias(biased, heads): the other heads hold 0."""
    where = np.arange(length)
    bias = np.zeros((heads, length, length))
    bias[:biased] = -slopes(biased)[:, None, None] * np.abs(where - where[:, None])
    return single(bias)


def sd3_cropped(dim, side, largest, base_size):
    """The middle of diffusers' PatchEmbed, as an image of ``side`` patches takes it."""
    whole = sincos_2d(dim, largest, largest, base_size).reshape(largest, largest, dim)
    first = (largest - side) // 2
    return single(whole[first : first + side, first : first + side].reshape(-1, dim))


def hunyuan_image_3(rows, columns, dim, first=(0, 0)):
    """HunyuanImage 3's build_2d_rope: rows and columns take pair after pair of one ladder."""
    y, x = (axis + start for axis, start in zip(places(rows, columns), first, strict=True))
    dealt = np.where(np.arange(dim // 2) % 2, x[:, None], y[:, None])
    angles = np.tile(dealt * ladder(dim // 2), 2)
    return single(np.cos(angles), np.sin(angles))


def moonvit(rows, columns, dim):
    """Kimi-VL's Rope2DPosEmb: columns and rows alternate, each with a ladder of its own."""
    y, x = places(rows, columns)
    angles = np.multiply.outer(np.stack([x, y], 1), ladder(dim // 4)).transpose(0, 2, 1)
    return (np.exp(1j * angles.reshape(rows * columns, -1)).astype(np.complex64),)


def hunyuan_dit(rows, columns, dim):
    """diffusers' get_2d_rotary_pos_embed: columns of the image first."""
    return cos_sin_twice(places(rows, columns)[::-1], [dim // 4] * 2, 1e4)


def cogvideox_cropped(dim, frames, sides, first, last):
    """diffusers' get_3d_rotary_pos_embed, spread over a crop."""
    t, *spatial = places(frames, *sides)
    crop = zip(spatial, sides, first, last, strict=True)
    spread = [start + axis * (end * (n - 1) / n - start) / (n - 1) for axis, n, start, end in crop]
    return cos_sin_twice([t, *spread], [dim // 8, 3 * dim // 16, 3 * dim // 16], 1e4)


def wave_table(where, dim, order, shift=0):
    """Sines then cosines, or cosines then sines, of any positions: RoFormer, GPT-J, diffusers."""
    half = dim // 2
    angles = np.multiply.outer(where, 1e4 ** (-np.arange(half) / (half - shift)))
    parts = [np.sin(angles), np.cos(angles)]
    return single(np.concatenate(parts if order == "sin" else parts[::-1], axis=1))


def conformer(length, dim):
    """Offsets from L − 1 down to 1 − L, sines and cosines alternating."""
    angles = np.multiply.outer(np.arange(length - 1, -length, -1), ladder(dim // 2))
    return single(np.stack([np.sin(angles), np.cos(angles)], -1).reshape(-1, dim))


def rescaled(rows, dim, factor):
    """rotary-embedding-torch's theta_rescale_factor: angles, each twice."""
    base = 1e4 * factor ** (dim / (dim - 2))
    return single(twice(np.multiply.outer(np.arange(rows), ladder(dim // 2, base))))


def after_text(axes, tokens=12):
    """The ids of an image after those of text, which Flux leaves at 0."""
    return [np.concatenate([np.zeros(tokens), axis]) for axis in axes]


def llama_4(side, dim):
    """transformers' Llama4VisionRotaryEmbedding: columns and rows from 1, a class token last."""
    y, x = (axis + 1 for axis in places(side, side))
    angles = angles_of((x, y), [dim // 4] * 2, 1e4)
    return (np.exp(1j * np.pad(angles, [(0, 1), (0, 0)])).astype(np.complex64),)


_FLUX = [np.zeros(54), *places(6, 9)]
_FLUX2 = [*_FLUX, np.zeros(54)]
_Z_IMAGE = [np.full(54, 33), *places(6, 9)]

TABLES = {
    "SD3, 24 by 24": ((sincos_2d(96, 24, 24),), "sinusoidal-nd", {"grid": (24, 24)}),
    "PixArt, 32 by 32 at 2": (
        (sincos_2d(96, 32, 32, 64, 2.0),), "sinusoidal-nd", {"grid": (32, 32)},
    ),
    "spread by 1.5": ((sincos_2d(64, 12, 18, 16, 1.5),), "sinusoidal-nd", {"grid": (12, 18)}),
    "CogVideoX's rows, spread": (
        (sincos_3d(64, (12, 8), 4, 1.875, 2.0),), "sinusoidal-nd", {"grid": (4, 8, 12)},
    ),
    "Flux": (cos_sin_twice(_FLUX, (8, 28, 28), 1e4), "rope-axial", {"base": 1e4}),
    "Flux, cosines": (
        cos_sin_twice(_FLUX, (8, 28, 28), 1e4)[:1], "rope-axial", {"sections": None},
    ),
    "Flux, after text": (
        cos_sin_twice(after_text(_FLUX), (8, 28, 28), 1e4), "rope-axial", {"grid": (1, 6, 9)},
    ),
    "Llama 4, before a class token": (llama_4(6, 32), "rope-axial", {"convention": "llama4"}),
    "Flux 2": (cos_sin_twice(_FLUX2, (16,) * 4, 2000.0), "rope-axial", {"convention": "flux2"}),
    "Qwen-Image": (turning(qwen_image(5, 8), (8, 28, 28), 1e4), "rope-axial", {"base": 1e4}),
    "Z-Image": (turning(_Z_IMAGE, (16, 24, 24), 256.0), "rope-axial", {"base": 256.0}),
    "RotaryEmbeddingCat": (rotary_cat(14, 14, 64), "rope-axial", {"grid": (14, 14)}),
    "RotaryEmbeddingCat, of a reference": (
        rotary_cat(12, 18, 64, (16, 16)), "rope-axial", {"base_size": (16, 16)},
    ),
    "RotaryEmbeddingCat in pixels": (
        rotary_cat_pixels(14, 14, 64), "rope-axial", {"grid": (14, 14)},
    ),
    "RotaryEmbeddingCat in 448 pixels": (
        rotary_cat_pixels(16, 12, 64, 448), "rope-axial", {"base": 448.0},
    ),
    "build_fourier_pos_embed": (fourier(14, 14, 16), "rope-axial", {"grid": (14, 14)}),
    "get_axial_freqs, pixel": (lucidrains_pixel(8, 8, 32), "rope-axial", {"grid": (8, 8)}),
    "get_axial_freqs, lang": (lucidrains_axial(8, 12, 32), "rope-axial", {"convention": "eva"}),
    "freqs_for pixel": (lucidrains_pixel_line(32, 32), "rope-axial", {}),
    "SD3, cropped": (
        sd3_cropped(64, 32, 96, 64), "sinusoidal-nd", {"grid": (32, 32), "origin": (32, 32)},
    ),
    "HunyuanImage 3": (
        hunyuan_image_3(9, 13, 64, (3, 5)), "rope-axial", {"convention": "hunyuan-image-3"},
    ),
    "MoonViT": (moonvit(9, 13, 72), "rope-axial", {"convention": "moonvit"}),
    "HunyuanDiT": (hunyuan_dit(12, 16, 64), "rope-axial", {"order": "wh"}),
    "CogVideoX, cropped": (
        cogvideox_cropped(64, 4, (13, 22), (2, 0), (29, 45)),
        "rope-axial",
        {"convention": "cogvideox", "grid": (4, 13, 22)},
    ),
    "RoFormer": (wave_table(np.arange(128), 64, "sin"), "sinusoidal", {"spacing": "vaswani"}),
    "every 20th timestep": (
        wave_table(np.arange(0, 1000, 20), 128, "cos"), "rope", {"base": 1e4},
    ),
    "timesteps, falling": (
        wave_table(np.arange(199, -1, -1), 64, "sin", 1), "sinusoidal", {"base": 1e4},
    ),
    "Conformer": (conformer(60, 64), "sinusoidal", {"base": 1e4}),
    "theta_rescale_factor": (rescaled(24, 64, 4.0), "rope-ntk", {"factor": 4.0}),
    "6 of 12 heads": (some_heads(6, 12, 24), "alibi", {"heads": 6}),
}  # fmt: skip
"""Arrays, scheme, and some parameters that must be said."""
