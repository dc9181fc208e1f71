"""What no model, library or grid has is refused, by the name of the parameter and the rule."""

import pytest

from posenc_cli.errors import InvalidInput
from tests.matrices import request

IMAGES = ("mae", "vit-mae", "timm", "detr")
WAN, COG = ({"convention": each, "grid": "2x4x4"} for each in ("wan", "cogvideox"))
CODED = {"sections": "16,16,16,16"}
NONE_LONG = {"dim": 2, "short_factor": "1", "long_factor": "1", "factor": 2}
NONE_LONG["original_max_position_embeddings"] = 1
SCALARS = [
    row
    for name in ("r1", "r2")
    for row in (
        ({"heads": 3, name: "1,2"}, f"--set {name} 1,2: must be one number, or one for"),
        ({"heads": 2, name: "1,0"}, f"--set {name} 0: must be above 0"),
    )
]
REFUSED = {
    "cape": [
        ({"dim": 5}, "--dim 5: cape pairs a sine with a cosine"),
        ({"positions": "0:9", "seq_len": 8}, "seq_len is 8"),
        ({"positions": str(2**52)}, "are more than 2.53 of them"),
    ],
    "kerple-log": SCALARS,
    "kerple-power": [*SCALARS, ({"r2": "2.5"}, "r2 2.5: must be above 0, at most 2")],
    "mrope": [
        ({"dim": 64}, "--set sections 16,24,24: must add up to the 32 pairs .*not to 64"),
        ({"sections": "64"}, "--set sections 64: must be 3 numbers, .* or 4"),
        ({"sections": "16,16,16,8,8"}, "must be 3 numbers, .* or 4"),
        ({**CODED, "interleaved": True}, "3 numbers where interleaved=true"),
        ({**CODED, "order": "hwt"}, "must be 3 numbers where order=hwt"),
        ({"order": "hwt"}, "--set order hwt: .*16 pairs for h and 24 for w does not fit"),
        (
            {"sections": "22,22,20", "order": "hwt", "interleaved": True},
            "--set order hwt: .*interleaved=true does not fit",
        ),
        ({"sections": "70,-3,-3"}, "--set sections -3: must be"),
    ],
    "normalized": [({"positions": str(2**53)}, r"exact up to 2\^53")],
    "rope": [
        ({"dim": 7}, "rotate pairs of dimensions"),
        ({"dim": 1}, "rotate pairs of dimensions"),
        ({"dim": 8, "partial": 0.4}, "rotate pairs of dimensions"),
        ({"dim": 64, "partial": 0.01}, "rotate pairs of dimensions"),
    ],
    "rope-axial": [
        ({"grid": "14x14", "convention": "wan"}, "--set grid 14x14: wan has 3 axes, frames x rows"),
        ({**WAN, "dim": 4}, "--dim: wan shares frequency pairs by 1,1,1"),
        ({**COG, "dim": 24}, "--dim: cogvideox .* not a multiple of 8"),
        ({**WAN, "order": "wh"}, "--set order wh: wan has frames"),
        ({**WAN, "sections": "4,4,4"}, "--set sections 4,4,4: .* the 32 pairs"),
        ({**WAN, "base_size": "4x4"}, "--set base_size 4x4: only cogvideox, dinov3 and eva"),
        ({**COG, "base_size": "4"}, "--set base_size 4: must be rows x col"),
        ({"grid": "2x2", "sections": "8,8"}, "--set sections 8,8: the axes of pixtral"),
        *(
            ({"grid": "2x3x4", "convention": "ltx", "dim": 16, **given}, message)
            for given, message in (
                ({"sections": "2,3,3"}, "--set sections 2,3,3: the axes of ltx"),
                ({"interpolation_scale": 1 / 3}, "--set interpolation_scale 0.3333333333333333"),
                ({"interpolation_scale": "1,2"}, "--set interpolation_scale 1,2: must be 1"),
                ({"interpolation_scale": 1e-300}, "--set interpolation_scale 1e-300: must be"),
                ({"base": 1e308}, r"--base 1e\+308: ltx has a base of at most 1e30"),
                ({"rope_scale": 2}, "--set rope_scale 2: ltx has no rope_scale"),
            )
        ),
        (
            {"grid": "2x3x4", "convention": "cosmos", "dim": 8},
            "--set rope_scale 2,1,1: cosmos needs at least 2 pairs per axis",
        ),
        (
            {"grid": "3x4", "convention": "dinov3", "interpolation_scale": 2},
            "--set interpolation_scale 2: dinov3 does not count places",
        ),
        (
            {"grid": "3x4", "convention": "eva", "base_size": "4x4", "interpolation_scale": 2},
            "--set interpolation_scale 2: base_size scales them",
        ),
        (
            {"grid": "3x4", "convention": "dinov3", "base_size": "4"},
            "--set base_size 4: must be rows x columns",
        ),
        (
            {**COG, "grid": "1x60000000x120000000", "base_size": "30x45"},
            "--set base_size 30x45: .* 2.53",
        ),
        ({"grid": "4x8x8"}, "--set grid 4x8x8: pixtral has 2 axes"),
        ({"dim": 66}, "--dim 66: .*, 66, must be a multiple of 4"),
        ({"dim": 64, "partial": 0.1}, "--dim 64: .*, 6, must be a multiple of 4"),
        ({"dim": 0}, "--dim 0"),
        ({"positions": "0:16", "grid": "3x5"}, "position 15 .*grid=3x5 has 15"),
    ],
    "rope-dynamic": [({"dim": 2}, "--dim 2")],
    "rope-linear": [({"factor": 0}, "--set factor 0")],
    "rope-llama3": [({"low_freq_factor": 4}, "--set low_freq_factor 4")],
    "rope-longrope": [
        ({"dim": 4, "short_factor": "1", "long_factor": "1,1"}, "short_factor"),
        ({"dim": 4, "short_factor": "1,1"}, "long_factor"),
        ({"dim": 4, "short_factor": "1,x", "long_factor": "1,1"}, "x"),
        ({"dim": 4, "short_factor": "1,0", "long_factor": "1,1"}, "from 1e-15"),
        (NONE_LONG, "original_max_position_embeddings 1"),
    ],
    "rope-mixed": [
        ({"grid": "2x3x4"}, "--set grid 2x3x4: rope-mixed has 2 axes, rows x columns"),
        ({"dim": 6}, "--dim 6: half of the pairs are drawn a quarter turn from the others"),
        ({"dim": 4, "x_frequencies": "1,2"}, "x_frequencies and y_frequencies: give both"),
        (
            {"dim": 4, "x_frequencies": "1,2", "y_frequencies": "1"},
            "--set y_frequencies: must be 2 numbers, one per pair; there are 1",
        ),
        (
            {"dim": 2, "x_frequencies": "1", "y_frequencies": "1e-20"},
            "1 and 1e-20 of pair 0 are too unlike: on 14 x 14 places",
        ),
        ({"dim": 4, "grid": "94906265x94906265"}, "--set grid 94906265x94906265: the angles on it"),
        (
            {"dim": 4, "table": "inv-freq", "positions": None},
            "--table inv-freq: each pair of rope-mixed has two frequencies",
        ),
    ],
    "rope-ntk": [({"dim": 2}, "--dim 2")],
    "rope-yarn": [({"factor": float("nan")}, "--set factor 'nan'")],
    "sandwich": [({"dim": 7}, "--dim 7: .* even")],
    "shape": [
        ({"dim": 5}, "--dim 5: shape pairs a sine with a cosine"),
        ({"positions": str(2**53 - 3)}, "are past 2.53"),
    ],
    "sinusoidal-nd": [
        *(
            ({"dim": 66, "convention": each}, f"--dim 66: {each} .*multiple of 4")
            for each in IMAGES
        ),
        *(
            (
                {"grid": grid, "dim": 24, "convention": each},
                f"--set grid {grid}: {each} encodes 2 axes",
            )
            for each in IMAGES
            for grid in ("14", "4x8x8")
        ),
        ({"grid": "4x6", "base_size": "2"}, "--set base_size 2"),
        (
            {"grid": "4x6", "base_size": "2x2", "convention": "detr", "normalize": True},
            "--set base_size 2",
        ),
        (
            {"grid": "2x2x2x2", "convention": "positional-encodings"},
            "--set grid 2x2x2x2: positional-encodings encodes up to 3 axes",
        ),
        (
            {"dim": 7, "convention": "tensor2tensor"},
            "--dim 7: tensor2tensor needs .* at least 8 for 2 axes",
        ),
        ({"normalize": True}, "--set normalize true: mae has no such option"),
        (
            {"grid": f"{2**27}x{2**27}"},
            r"--set grid 134217728x134217728: must have at most 2\^53 positions",
        ),
        ({"grid": "14x0"}, "--set grid 0: must be"),
        ({"grid": "14x"}, "--set grid '': must be an integer"),
        ({"positions": "0:16", "grid": "3x5"}, "position 15 .*grid=3x5 has 15"),
    ],
    "swin": [
        ({"window_size": "2x2x2"}, "--set window_size 2x2x2: must be rows x columns"),
        ({"positions": "0:50"}, "window_size=7x7 has 49 places"),
        ({"positions": "0:51", "class_token": True}, "has 49 places and a class token"),
    ],
    "timestep": [({"dim": 2}, "downscale_freq_shift 1: must be below the 1 pairs")],
    "transformer-xl": [({"dim": 5}, "--dim 5: transformer-xl .* even")],
}
"""By scheme: what is asked for, and the words of the refusal."""


@pytest.mark.parametrize(
    ("scheme", "given", "message"),
    [(scheme, *row) for scheme, rows in REFUSED.items() for row in rows],
)
def test_what_a_scheme_has_no_rule_for_is_refused(scheme, given, message):
    asked = {"positions": "0:4", **given}
    with pytest.raises(InvalidInput, match=message):
        request(scheme, **asked).plan()
