"""Encodings on grids against the libraries whose conventions they follow."""

import mpmath
import numpy as np
import pytest

from posenc_cli.catalogue import BUILT_IN
from tests import tolerances
from tests.formulas.test_peers import turned
from tests.matrices import matrix, request

CONVENTIONS = [
    convention
    for convention in BUILT_IN["sinusoidal-nd"].parameters["convention"].choices
    if convention != "cogvideox"  # three axes
]
VIDEO = ("wan", "hunyuan-video", "cogvideox")
BY_RULE = ("eva", "eva-pixels", "lucidrains-pixel", "flux2", "hunyuan-image-3", "moonvit")
"""Those that tests/identification/library_tables.py has by their libraries' rules."""
SCALED = {
    "cosmos": ("cosmos", "3x4x6", {}),
    "cosmos_30_fps": ("cosmos", "3x4x6", {"interpolation_scale": "1.25,1,1"}),
    "cosmos_predict2": (
        "cosmos", "3x4x6", {"interpolation_scale": (2 / 3, 1, 1), "rope_scale": (20 / 24, 2, 2)},
    ),
    "cosmos_text2image": ("cosmos", "1x4x6", {"rope_scale": "1,4,4"}),
    "ltx": ("ltx", "3x4x6", {}),
    "ltx_25_fps": ("ltx", "3x4x6", {"interpolation_scale": "62.5,64,64"}),
    "ltx_24_fps": ("ltx", "3x4x6", {"interpolation_scale": "60,64,64"}),
    "lumina_1": ("moonvit", "5x8", {"order": "hw"}),
    "lumina_1.5": ("moonvit", "5x8", {"order": "hw", "interpolation_scale": 1.5}),
    "lumina_2": ("moonvit", "5x8", {"order": "hw", "interpolation_scale": 2}),
    "dinov3_max": ("dinov3", "5x8", {"base_size": "8x8"}),
    "dinov3_min": ("dinov3", "5x8", {"base_size": "5x5"}),
}  # fmt: skip
"""Grids with scales, by the name of their arrays in rope_grids_scaled."""
MODELS = [
    model
    for model in BUILT_IN["rope-axial"].parameters["convention"].choices
    if model not in (*VIDEO, *BY_RULE, "liere", "cosmos", "ltx")
]


def sinusoidal(grid, dim, convention, **given):
    settings = {"grid": grid, "dim": dim, "convention": convention, "dtype": "float64", **given}
    return matrix("sinusoidal-nd", None, **settings)


def axial(grid, convention, table, **given):
    return matrix("rope-axial", None, grid=grid, convention=convention, table=table, **given)


def channels_last(array):
    return array.reshape(array.shape[0], -1).T


TABLES = [
    ("sin2d_mae_d64_g14_cls0", "table", "14x14", 64, "mae"),
    ("sin2d_mae_grid_5x7_d16", "table", "5x7", 16, "mae"),
    ("sin2d_hf_vit_mae", "table_14x14_d64", "14x14", 64, "vit-mae"),
    ("sin2d_hf_vit_mae", "table_5x7_d16", "5x7", 16, "vit-mae"),
    ("sin2d_timm", "table_14x14_d64", "14x14", 64, "timm"),
    ("sin2d_timm", "table_5x7_d16", "5x7", 16, "timm"),
    ("sin_t2t_nd", "table_5x7_d16", "5x7", 16, "tensor2tensor"),
    ("sin_t2t_nd", "table_5x7_d22", "5x7", 22, "tensor2tensor"),
    ("sin_t2t_nd", "table_3x4x5_d32", "3x4x5", 32, "tensor2tensor"),
    ("sin_t2t_nd", "table_9_d10", "9", 10, "tensor2tensor"),
    ("sin_penc2d_c64", "table", "7x4", 64, "positional-encodings"),
    ("sin_penc_nd", "table_5x7_d10", "5x7", 10, "positional-encodings"),
    ("sin_penc_nd", "table_5x7_d2", "5x7", 2, "positional-encodings"),
    ("sin_penc_nd", "table_3x4x5_d20", "3x4x5", 20, "positional-encodings"),
    ("sin_penc_nd", "table_3x4x5_d7", "3x4x5", 7, "positional-encodings"),
    ("sin_penc_nd", "table_9_d5", "9", 5, "positional-encodings"),
]


@pytest.mark.parametrize("case", TABLES, ids=lambda case: f"{case[4]}-{case[1]}")
def test_sinusoids_on_a_grid_equal_the_library_they_are_named_after(case, golden):
    name, array, grid, dim, convention = case
    _, arrays = golden(name)
    table = arrays[array].reshape(-1, dim)
    farthest = max(map(int, grid.split("x")))
    allowed = tolerances.TABLE + tolerances.SINUSOID_ANGLE * farthest
    if table.dtype == np.float64:
        allowed = 1e-12
    assert np.abs(sinusoidal(grid, dim, convention) - table).max() <= allowed


@pytest.mark.parametrize(("array", "normalize"), [("pos_raw", False), ("pos_norm", True)])
def test_detr_counts_from_one_or_in_parts_of_a_turn(array, normalize, golden):
    _, arrays = golden("sin2d_detr")
    table = channels_last(arrays[array])
    ours = sinusoidal("5x7", 64, "detr", normalize=normalize)
    assert np.abs(ours - table).max() <= tolerances.TABLE + 7 * tolerances.SINUSOID_ANGLE


def test_detr_normalizes_with_a_decimal_millionth():
    """In reals: 2π · p / (n + 1e-6), which float64 and float32 round to."""
    ours = {
        form: sinusoidal("3x5", 8, "detr", normalize=True, dtype=form).reshape(3, 5, 8)
        for form in ("float64", "float32")
    }
    with mpmath.workdps(50):
        for y in range(3):
            for x in range(5):
                for first, place, count in ((0, y + 1, 3), (4, x + 1, 5)):
                    turn = 2 * mpmath.pi * place / (count + mpmath.mpf(1) / 10**6)
                    for pair, frequency in enumerate((mpmath.mpf(1), mpmath.mpf(1) / 100)):
                        for column, function in ((0, mpmath.sin), (1, mpmath.cos)):
                            value = function(turn * frequency)
                            at = (y, x, first + 2 * pair + column)
                            assert abs(ours["float64"][at] - value) <= 4.45e-16
                            assert ours["float32"][at] == np.float32(float(value))


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_rows_are_in_row_major_order_and_each_column_follows_one_axis(convention):
    table = sinusoidal("4x6", 24, convention).reshape(4, 6, 24)
    by_row = (table == table[:, :1]).all(axis=(0, 1))
    by_column = (table == table[:1]).all(axis=(0, 1))
    assert (by_row ^ by_column).all()
    assert by_row.sum() == by_column.sum() == 12


@pytest.mark.parametrize("scheme", ["sinusoidal-nd", "rope-axial"])
def test_a_grid_is_encoded_whole_unless_asked_otherwise(scheme):
    assert matrix(scheme, None, grid="3x5", dim=8).shape == (15, 8)
    assert matrix(scheme, "0:4", grid="3x5", dim=8).shape == (4, 8)
    assert request(scheme, None, grid="3x5").description()["positions"] == "0:15"


@pytest.mark.parametrize("convention", MODELS)
def test_cosines_and_sines_equal_the_vision_encoder(convention, golden):
    name = "rope2d_" + convention.replace("-", "_")
    _, arrays = golden(name)
    for grid, suffix in (("5x8", "_80x128"), ("7x7", "_112x112")) if "dino" in name else [("", "")]:
        for function in ("cos", "sin"):
            peer = arrays[function + suffix]
            match convention:
                case "llama4":  # its last row is the class token's, which does not turn
                    ours = axial("5x5", convention, function)
                    peer = peer[:-1]
                case "pixtral":
                    rows, columns = arrays["hw"].T
                    ours = axial("128x201", convention, f"{function}-full")[rows * 201 + columns]
                case _:
                    ours = axial(grid or "5x7", convention, f"{function}-full")
            farthest = 2 * np.pi if "dino" in name else 201 if "pixtral" in name else 7
            assert np.abs(ours - peer).max() <= tolerances.TABLE + tolerances.ANGLE * farthest


@pytest.mark.parametrize("convention", MODELS)
def test_full_tables_turn_queries_as_the_vision_encoder_does(convention, golden):
    _, arrays = golden("rope2d_" + convention.replace("-", "_"))
    grid, rows = "5x7", slice(None)
    queries = arrays["q_80x128" if convention == "dinov3" else "q"].astype(np.float64)
    expected = arrays["q_out_80x128" if convention == "dinov3" else "q_out"]
    if convention in ("pixtral", "dinov3"):
        queries, expected = queries[0].swapaxes(0, 1), expected[0].swapaxes(0, 1)
    if convention in ("gemma4", "llama4"):
        queries, expected = queries[0], expected[0]
    if convention == "dinov3":  # the class and register tokens come first, and do not turn
        grid, queries, expected = "5x8", queries[5:], expected[5:]
    if convention == "llama4":
        grid, queries, expected = "5x5", queries[:-1], expected[:-1]
    if convention == "pixtral":
        grid, rows = "128x201", arrays["hw"] @ [201, 1]
    tables = (axial(grid, convention, table)[rows][:, None] for table in ("cos-full", "sin-full"))
    layout = "interleaved" if convention == "llama4" else "half"
    ours = turned(queries, *tables, layout, blocks=2 if convention == "gemma4" else 1)
    farthest = 201 if convention == "pixtral" else 7
    allowed = tolerances.ROTATED + 6 * tolerances.ANGLE * farthest
    assert np.abs(ours - expected).max() <= allowed


def test_gemma_4_follows_columns_first_where_it_is_given_x_and_y(golden):
    _, arrays = golden("rope2d_gemma4")
    for function in ("cos", "sin"):
        ours = axial("5x7", "gemma4", f"{function}-full", order="wh")
        allowed = tolerances.TABLE + 7 * tolerances.ANGLE
        assert np.abs(ours - arrays[f"{function}_xy"]).max() <= allowed


def test_patch_centres_turn_by_thirds_of_a_turn():
    """Three patches have their centres at −2/3, 0 and 2/3, in half turns of 2π."""
    with mpmath.workdps(50):
        third, whole = float(2 * mpmath.pi / 3), float(2 * mpmath.pi)
    angles = axial("3x1", "dinov3", "angles", dim=4, dtype="float64")
    # −4π/3 is 2π/3, and the one column has its centre in the middle.
    assert angles.tolist() == [[third, 0.0], [0.0, 0.0], [-third, 0.0]]
    frequencies = axial("3x1", "dinov3", "inv-freq", dim=4, dtype="float64")
    assert frequencies.tolist() == [third, whole]


@pytest.mark.parametrize("convention", MODELS)
def test_scores_depend_on_differences_of_rows_and_columns_alone(convention):
    turns = axial("4x5", convention, "complex", dim=16, dtype="float64").reshape(4, 5, -1)
    relative = (turns[1:, 1:] * turns[:-1, :-1].conj()).reshape(12, -1)
    assert np.abs(relative - relative[0]).max() <= 1e-15
    swapped = turns[1:, :-1] * turns[:-1, 1:].conj()
    assert np.abs(swapped.reshape(12, -1) - relative[0]).max() > 0.1


@pytest.mark.parametrize(
    ("convention", "base"),
    [("pixtral", 1e4), ("qwen2-vl", 1e4), ("dinov3", 100), ("gemma4", 100), ("llama4", 1e4)],
)
def test_each_model_has_a_base_of_its_own(convention, base):
    own = axial("3x5", convention, "cos", dtype="float64")
    assert np.array_equal(own, axial("3x5", convention, "cos", dtype="float64", base=base))
    assert not np.array_equal(own, axial("3x5", convention, "cos", dtype="float64", base=base + 1))


def test_a_layout_that_is_given_replaces_the_models_own():
    half = axial("3x5", "llama4", "cos-full", layout="half", dim=8)
    pairs = axial("3x5", "llama4", "cos", dim=8)
    assert np.array_equal(half, np.concatenate([pairs, pairs], axis=1))
    assert np.array_equal(axial("3x5", "llama4", "cos-full", dim=8), np.repeat(pairs, 2, axis=1))


def test_sines_spread_over_another_grid_have_fractions_of_its_places():
    spread = sinusoidal("4x6", 8, "mae", base_size="2x9")
    y, x = 3 * 2 / 4, 5 * 9 / 6
    expected = [f(c * w) for c in (x, y) for f in (np.sin, np.cos) for w in (1, 0.01)]
    np.testing.assert_allclose(spread[-1], expected, atol=1e-15)


@pytest.mark.parametrize("convention", VIDEO)
def test_a_video_turns_as_its_model_does(convention, golden):
    statement, arrays = golden("rope3d_" + convention.replace("-", "_"))
    dim, grid = statement["params"]["head_dim"], "3x4x6" if convention == "cogvideox" else "3x4x5"
    cosines, sines = (axial(grid, convention, table, dim=dim) for table in ("cos-full", "sin-full"))
    first = "sat_" if convention == "cogvideox" else ""
    for function, ours in (("cos", cosines), ("sin", sines)):
        peer = arrays[first + function]
        apart = np.abs(ours[:, :: dim // peer.shape[1]] - peer).max()
        assert apart <= tolerances.TABLE + 6 * tolerances.ANGLE
    queries = arrays["q"].astype(np.float64)
    ours = turned(queries, cosines[:, None, :], sines[:, None, :], "interleaved")
    allowed = tolerances.ROTATED + 6 * 6 * tolerances.ANGLE
    assert np.abs(ours - arrays["q_out"]).max() <= allowed


@pytest.mark.parametrize("grid", ["3x4x6", "2x7x5", "2x3x9", "2x1x4", "2x30x45"])
def test_cogvideox_spreads_positions_over_a_crop_of_its_own_grid(grid, golden):
    _, arrays = golden("rope3d_cogvideox")
    for function in ("cos", "sin"):
        ours = axial(grid, "cogvideox", f"{function}-full", base_size="30x45")
        ours = ours[::97] if grid == "2x30x45" else ours
        apart = np.abs(ours - arrays[f"{function}_{grid}"]).max()
        assert apart <= tolerances.TABLE + 45 * tolerances.ANGLE
        counted = axial(grid, "cogvideox", f"{function}-full")
        if grid == "3x4x6":
            apart = np.abs(counted - arrays[f"{function}_slice_3x4x6"]).max()
            assert apart <= tolerances.TABLE + 6 * tolerances.ANGLE
        elif grid == "2x30x45":
            assert np.array_equal(ours, counted[::97])


@pytest.mark.parametrize("name", SCALED)
def test_a_scaled_grid_equals_the_library_it_is_named_after(name, golden):
    _, arrays = golden("rope_grids_scaled")
    convention, grid, given = SCALED[name]
    for function in ("cos", "sin"):
        peer = arrays[f"{name}_{function}"]
        table = function if name.startswith("lumina") else f"{function}-full"
        dim = peer.shape[1] * (2 if name.startswith("lumina") else 1)
        ours = axial(grid, convention, table, dim=dim, **given)
        # Raw coordinates of LTX-Video rotate by up to 1e4 · π/2 · (2 · 5 − 1).
        farthest = {"cosmos": 8, "moonvit": 8, "dinov3": 4 * np.pi}.get(convention, 1.5e5)
        allowed = tolerances.TABLE + tolerances.ANGLE * farthest
        assert np.abs(ours - peer).max() <= allowed


@pytest.mark.parametrize(("largest", "base"), [(64, 64), (256, 256)])
def test_pixels_of_another_largest_frequency_equal_the_library(largest, base, golden):
    peer = golden("rope_grids_scaled")[1][f"pixel_{largest}_angles"][:, ::2].astype(np.float64)
    ours = axial("6x9", "lucidrains-pixel", "complex", dim=32, base=base)
    assert np.abs(ours - np.exp(1j * peer)).max() <= tolerances.TABLE + tolerances.ANGLE * 500


def test_sections_say_how_many_pairs_turn_with_each_axis():
    of_its_own = axial("2x3x4", "wan", "angles", dim=16)
    assert np.array_equal(of_its_own, axial("2x3x4", "wan", "angles", dim=16, sections="4,2,2"))
    assert not np.array_equal(of_its_own, axial("2x3x4", "wan", "angles", dim=16, sections="2,3,3"))


def test_a_partial_rotation_follows_the_columns_that_turn():
    part = axial("3x5", "qwen2-vl", "cos", dim=16, partial=0.5)
    assert np.array_equal(part, axial("3x5", "qwen2-vl", "cos", dim=8))


def test_the_largest_grid_is_exact_at_its_end():
    grid = f"{2**26}x{2**27}"
    row, column = 2**26 - 1, 2**27 - 1
    last = matrix("sinusoidal-nd", f"{2**53 - 1}", grid=grid, dim=8)
    with mpmath.workdps(50):
        expected = [
            float(function(place * frequency))
            for place in (column, row)
            for function in (mpmath.sin, mpmath.cos)
            for frequency in (mpmath.mpf(1), mpmath.mpf(1) / 100)
        ]
    assert last[0].tolist() == np.float32(expected).tolist()
