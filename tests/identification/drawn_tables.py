"""Tables that posenc writes, drawn at random: schemes, parameters, positions, tables, dtypes."""

import math

from hypothesis import strategies as st

from posenc_cli import catalogue

BASES = (1e4, 5e5, 1e6, 1e3, 100.0, 2000.0, 256.0, 12345.0, 31415.93, 7e3)
FACTORS = (2.0, 4.0, 8.0, 32.0, 1.5, 3.14159, 10.0)
TABLES = ("cos-sin", "interleaved", "cos", "cos-full", "sin-full", "complex", "angles")
IMAGES = ("pixtral", "qwen2-vl", "dinov3", "gemma4", "llama4", "eva", "hunyuan-image-3")
SCALED = ("qwen2-vl", "moonvit", "wan", "hunyuan-video", "cosmos")
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


@st.composite
def scaled_grids(draw):
    """RoPE on a grid whose coordinates or bases are scaled, as in diffusers and timm."""
    convention = draw(st.sampled_from([*SCALED, "ltx", "dinov3", "lucidrains-pixel"]))
    grid = [draw(st.integers(4, 12)) for _ in range(2 + (convention in (*VIDEOS, "cosmos", "ltx")))]
    given = {"grid": text(grid), "convention": convention, "dim": draw(dims)}
    if convention in SCALED:
        given["interpolation_scale"] = draw(st.sampled_from([2 / 3, 0.5, 1.25, 2.0**0.5, 4.0]))
    match convention:
        case "ltx":
            frames = draw(st.sampled_from([60, 62.5, 75]))
            given["interpolation_scale"] = draw(st.sampled_from([(frames, 64, 64), (64,)]))
        case "dinov3":
            given["base_size"] = text([draw(st.sampled_from([min(grid), max(grid), 16]))] * 2)
        case "lucidrains-pixel":
            given["base"] = draw(st.sampled_from([10.0, 64.0, 256.0]))
        case "moonvit":
            given["order"] = draw(st.sampled_from(["hw", "wh"]))
        case "cosmos":
            scales = st.sampled_from([(2, 1, 1), (1, 3, 3), (1, 4, 4), (20 / 24, 2, 2)])
            given |= {"rope_scale": draw(scales), "base": draw(st.sampled_from([1e4, 1e6]))}
    table = draw(st.sampled_from(["cos-sin", "interleaved", "complex"]))
    return "rope-axial", given, f"0:{math.prod(grid)}", table


KINDS = {
    "rotations": lines(),
    "sinusoids": sinusoids(),
    "sinusoids on a grid": grids_of_sinusoids(),
    "rotations on a grid": grids_of_rotations(),
    "scaled rotations on a grid": scaled_grids(),
}
"""Scheme, parameters, positions and table of each kind."""


UNSHOWN = {
    "cape": ("training", "max_global_shift", "max_local_shift", "max_global_scaling", "seed"),
    "learned": ("extend",),
}
"""Parameters that docs/encodings.md says no table shows: each draws other numbers for each row."""
NUMBERS = {
    "base": (1e4, 5e5, 1e6, 1e3),
    "partial": (0.5, 0.25),
    "factor": (2.0, 8.0, 1.5),
    "seed": (1, 2, 3),
    "std": (1.0, 0.05),
    "offset": (2,),
    "max_len": (1024,),
    "original_max_position_embeddings": (64, 128, 256, 2048, 8192),
    "max_position_embeddings": (512, 8192),
    "beta_fast": (16.0, 64.0),
    "beta_slow": (2.0,),
    "mscale_all_dim": (1.0,),
    "attention_factor": (1.1, 1.3),
    "low_freq_factor": (2.0,),
    "high_freq_factor": (8.0,),
    "clipped": (10, 5),
    "scale_base": (256.0, 1024.0),
    "max_shift": (100,),
    "scale": (1000.0, 2.0),
    "downscale_freq_shift": (0.0,),
    "max_period": (1e3, 1e5),
    "freq_scale": (30.0, 2.0),
    "max_bias": (4.0, 16.0),
    "num_buckets": (16, 64),
    "hidden": (16, 64),
    "r1": ((0.3,), (1.437,)),
    "r2": ((0.7,), (1.5,)),
    "c": (0.5, 1.0),
    "threshold": (64.0, 128.0),
    "base_size": ((18, 18), (5, 24)),
    "interpolation_scale": ((1.5,), (4.0,)),
    "origin": ((16, -7), (3, 31)),
}
"""Numbers that a parameter is given in place of its default, one parameter at a time."""
FIXED = {"dim", "heads", "grid", "window_size", "seq_len", "sections", "max_distance", "order"}
"""Parameters that the shape says, or that are drawn apart."""
SCHEMES = sorted(set(catalogue.BUILT_IN) - {"rope-longrope"})
"""All but the one that needs two lists, which is drawn apart."""


@st.composite
def any_tables(draw, name):
    """A table of a scheme: one parameter not its default in the wider formats, none in halves."""
    scheme = catalogue.BUILT_IN[name]
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "bfloat16"]))
    given = {"dim": draw(dims)} if "dim" in scheme.parameters else {}
    where, table = None, None
    grid = (draw(sides), draw(sides))
    if "grid" in scheme.parameters:
        given["grid"], where = text(grid), f"0:{math.prod(grid)}"
    if scheme.kind in ("bias", "relative"):
        where = draw(st.sampled_from([40, 64, 128]))
        if "heads" in scheme.parameters:
            given["heads"] = draw(st.sampled_from([2, 4, 8]))
        if "window_size" in scheme.parameters:
            given["window_size"], where = text(grid), math.prod(grid)
    elif where is None:
        where = draw(st.sampled_from(["0:64", "0:100", "218:282", "0:640:10"]))
    if scheme.kind == "rotary":
        table = draw(st.sampled_from(["cos-sin", "interleaved", "cos-full", "angles", "inv-freq"]))
        if name in ("rope-axial", "rope-mixed", "mrope", "xpos"):
            table = draw(st.sampled_from(["cos-sin", "interleaved"]))
    free = [
        parameter
        for parameter in scheme.parameters.values()
        if parameter.name not in (*FIXED, *UNSHOWN.get(name, ())) and not parameter.rules.is_file
        if parameter.choices or parameter.type is bool or parameter.name in NUMBERS
    ]
    if free and dtype in ("float32", "float64"):
        changed = draw(st.sampled_from(free))
        values = changed.choices or NUMBERS.get(changed.name, (True, False))
        given[changed.name] = draw(st.sampled_from(values))
    if given.get("class_token"):
        where += 1
    return given, where, table, dtype
