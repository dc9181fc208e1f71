"""Tables that posenc writes, drawn at random: schemes, parameters, positions, tables, dtypes."""

from __future__ import annotations

import math

from hypothesis import strategies as st

BASES = (1e4, 5e5, 1e6, 1e3, 100.0, 2000.0, 256.0, 12345.0, 31415.93, 7e3)
FACTORS = (2.0, 4.0, 8.0, 32.0, 1.5, 3.14159, 10.0)
TABLES = ("cos-sin", "interleaved", "cos", "cos-full", "sin-full", "complex", "angles")
IMAGES = ("pixtral", "qwen2-vl", "dinov3", "gemma4", "llama4", "eva", "hunyuan-image-3")
VIDEOS = ("wan", "hunyuan-video", "cogvideox")
dims = st.sampled_from([32, 48, 64, 96, 128])
bases = st.sampled_from(BASES)
sides = st.integers(2, 12)


def text(numbers):
    return "x".join(map(str, numbers))


@st.composite
def positions(draw):
    """Positions that rise from anywhere, by steps, by parts of 1, or that fall."""
    count = draw(st.sampled_from([64, 100, 256, 700]))
    start = draw(st.integers(0, 3000))
    step = draw(st.sampled_from([2, 3, 10]))
    return draw(
        st.sampled_from(
            [f"0:{count}", f"{start}:{start + count}", f"0:{count * step}:{step}", "0:40:0.5"]
        )
    )


@st.composite
def lines(draw):
    """A rotary encoding along one axis."""
    scheme = draw(st.sampled_from(["rope", "rope-linear", "rope-ntk", "rope-yarn", "rope-llama3"]))
    given = {"dim": draw(dims), "base": draw(bases)}
    given["layout"] = draw(st.sampled_from(["interleaved", "half"]))
    if scheme != "rope":
        given["factor"] = draw(st.sampled_from(FACTORS))
    if scheme == "rope-yarn":
        given["original_max_position_embeddings"] = draw(st.sampled_from([2048, 4096, 8192]))
    return scheme, given, draw(positions()), draw(st.sampled_from(TABLES))


@st.composite
def sinusoids(draw):
    """A sinusoidal matrix, at positions that may fall below 0 too."""
    given = {"dim": draw(dims), "base": draw(bases), "full_turns": draw(st.booleans())}
    given["layout"] = draw(st.sampled_from(["interleaved", "concat"]))
    given["spacing"] = draw(st.sampled_from(["vaswani", "tensor2tensor"]))
    falling = st.sampled_from(["255:-256:-1", "99:-100:-1"])
    where = positions() if given["full_turns"] else st.one_of(positions(), falling)
    return "sinusoidal", given, draw(where), None


@st.composite
def grids_of_sinusoids(draw):
    """Sines and cosines on a grid, scaled or not."""
    words = ["mae", "vit-mae", "timm", "detr", "cogvideox", "simple-vit"]
    words += ["tensor2tensor", "positional-encodings"]
    convention = draw(st.sampled_from(words))
    axes = 3 if convention == "cogvideox" else 2
    grid = [draw(sides) for _ in range(axes)]
    given = {"grid": text(grid), "convention": convention, "base": draw(bases)}
    given["dim"] = draw(st.sampled_from([32, 48, 64, 128]))
    match draw(st.sampled_from(["", "normalize", "base_size", "interpolation_scale"])):
        case "normalize" if convention == "detr":
            given["normalize"] = True
        case "base_size":
            sizes = [draw(st.integers(max(2, side // 2), 24)) for side in grid]
            given["base_size"] = text(sizes)
        case "interpolation_scale":
            given["interpolation_scale"] = (draw(st.sampled_from([1.5, 1.875, 2.0, 4.0])),)
    return "sinusoidal-nd", given, f"0:{math.prod(grid)}", None


@st.composite
def grids_of_rotations(draw):
    """RoPE on an image or a video, at any base, in shares of its own, counted from anywhere."""
    video = draw(st.booleans())
    convention = draw(st.sampled_from(VIDEOS if video else IMAGES))
    grid = [draw(sides) for _ in range(2 + video)]
    if video:
        grid[0] = draw(st.sampled_from([1, 3, 5]))
    given = {"grid": text(grid), "convention": convention, "dim": draw(dims)}
    given["base"] = draw(bases)
    if video:
        pairs = given["dim"] // 2
        first = draw(st.integers(2, pairs // 3))
        second = draw(st.integers(2, pairs // 3))
        given["sections"] = (first, second, pairs - first - second)
    if convention in ("qwen2-vl", "eva", "hunyuan-image-3", *VIDEOS) and draw(st.booleans()):
        given["origin"] = tuple(draw(st.integers(-7, 40)) for _ in grid)
    table = draw(st.sampled_from(["cos-sin", "interleaved", "complex", "cos-full"]))
    return "rope-axial", given, f"0:{math.prod(grid)}", table


KINDS = {
    "rotations": lines(),
    "sinusoids": sinusoids(),
    "sinusoids on a grid": grids_of_sinusoids(),
    "rotations on a grid": grids_of_rotations(),
}
"""Scheme, parameters, positions and table of each kind."""
