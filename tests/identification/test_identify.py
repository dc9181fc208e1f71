"""Identification: what peers' arrays are, and what posenc writes is found again."""

from types import SimpleNamespace

import numpy as np
import pytest

from posenc_cli.identification.search import _slopes_command, identify
from posenc_cli.inference.evidence import Evidence
from posenc_cli.numerics.dtypes import BFLOAT16
from posenc_cli.numerics.rounding import widen
from posenc_cli.positions import Positions
from tests.matrices import matrix

ONE_TABLE = ("cos-sin", "interleaved", "cos", "sin", "cos-full", "sin-full", "complex", "angles")
PAIRED = (("cos", "sin"), ("cos-full", "sin-full"))


def arrays_of(scheme, positions, *, dtype="float32", tables=(None,), **params):
    made = []
    for table in tables:
        values = matrix(scheme, positions, dtype=dtype, table=table, **params)
        made.append(widen(values, BFLOAT16).astype(np.float32) if dtype == "bfloat16" else values)
    return made


def found_in(arrays, *, dtype=None):
    stored = dtype if arrays[0].dtype.kind != "c" else None
    return identify(Evidence.of_arrays(*arrays, dtype=stored)).match


def assert_written_again(found, arrays, *, dtype="float32"):
    """The parameters that were found make the very same bytes."""
    given = {k: v for k, v in found.params.items() if v is not None}
    if found.scheme == "rope-longrope":  # of two lists of factors a table shows one
        (shown,) = (given[name] for name in ("short_factor", "long_factor") if name in given)
        given |= {"short_factor": shown, "long_factor": shown}
    positions = None if found.positions is None else str(found.positions)
    if found.scheme in ("shaw", "transformer-xl"):
        positions = f"0:{found.positions.last + 1}"
    again = arrays_of(
        found.scheme,
        positions,
        dtype=dtype,
        tables=found.tables,
        arithmetic=found.arithmetic,
        **given,
    )
    for one, other in zip(arrays, again, strict=True):
        if found.forms == (f"repeated {len(one)} times along axis 0",):
            assert len(other) == 1
            assert all(np.array_equal(head, other[0]) for head in one)
        else:
            assert np.array_equal(one, other)


# What peers' own code produced; the oracle is the golden's description.

YARN = {"factor": 40.0, "original_max_position_embeddings": 4096, "base": 10_000.0}
ROTARY = {
    "rope_default_d64_theta10000": ("rope", {"base": 10_000.0}),
    "rope_default_d128_theta500000": ("rope", {"base": 500_000.0}),
    "rope_default_partial_neox_h96_p25": ("rope", {"base": 10_000.0, "dim": 24}),
    "rope_linear_d128_theta10000_f4.0": ("rope-linear", {"base": 10_000.0, "factor": 4.0}),
    "rope_llama3_llama3_1_8b": (
        "rope-llama3",
        {
            "base": 500_000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    ),
    "rope_proportional_d128_theta10000_p50_f4.0": (
        "rope-proportional",
        {"base": 10_000.0, "factor": 4.0, "partial": 0.5},
    ),
    "rope_yarn_deepseek_v3": ("rope-yarn", {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}),
    "rope_yarn_llama2_f16": ("rope-yarn", {**YARN, "factor": 16.0}),
    "rope_yarn_mscale_only": ("rope-yarn", YARN),
}


@pytest.mark.sweep(9)
@pytest.mark.parametrize("name", ROTARY)
def test_tables_and_frequencies_of_transformers_are_identified(name, golden):
    case, arrays = golden(name)
    scheme, params = ROTARY[name]
    tables = found_in([arrays["cos"], arrays["sin"]])
    assert (tables.scheme, tables.layout) == (scheme, "half")
    assert params.items() <= tables.params.items()
    assert tables.attention_factor == pytest.approx(float(arrays["attention_scaling"]), rel=1e-9)
    assert list(tables.positions) == arrays["positions"].tolist()
    frequencies = found_in([arrays["inv_freq"]])
    assert frequencies.scheme == scheme
    shown = {k: v for k, v in params.items() if not k.startswith("mscale")}
    assert shown.items() <= frequencies.params.items()
    assert case["family"] == "rope"


@pytest.mark.slow
def test_tables_of_half_width_are_identified(golden):
    _, arrays = golden("rope_yarn_gpt_oss_truncate_False")
    found = found_in([arrays["cos"], arrays["sin"]])
    assert (found.scheme, found.tables, found.layout) == ("rope-yarn", ("cos", "sin"), None)
    assert (found.params["base"], found.params["truncate"]) == (150_000.0, False)
    assert any(model.startswith("gpt-oss") for model in found.fitting_models)


@pytest.mark.slow
def test_the_factors_of_longrope_are_read_off(golden):
    case, arrays = golden("rope_longrope_phi3_mini128k")
    wanted = case["params"]["config_kwargs"]["rope_parameters"]
    for call, name in enumerate(("short_factor", "long_factor")):
        found = found_in([arrays[f"cos_call{call}"], arrays[f"sin_call{call}"]])
        assert found.scheme == "rope-longrope"
        # Seven rows, up to position 4096 in float32, show a frequency to some 1e-5.
        assert found.params[name] == pytest.approx(wanted[name], rel=1e-4)
        assert (found.params["factor"], found.params["original_max_position_embeddings"]) == (
            32.0,
            4096,
        )


@pytest.mark.slow
def test_dynamic_ntk_is_told_from_the_length_of_the_sequence(golden):
    _, arrays = golden("rope_dynamic_d128_theta10000_mpe4096_f4.0")
    found = found_in([arrays["cos_call3"], arrays["sin_call3"]])
    assert (found.scheme, found.params["factor"]) == ("rope-dynamic", 4.0)
    assert found.params["max_position_embeddings"] == 4096
    static = golden("rope_ntk_static_author_alpha4")[1]["inv_freq"]
    found = found_in([static])
    assert (found.scheme, found.params["factor"], found.params["base"]) == ("rope-ntk", 4.0, 1e4)


@pytest.mark.sweep(9)
@pytest.mark.parametrize(
    ("name", "array", "params"),
    [
        ("sin_marian_d64", "table", {"layout": "concat", "spacing": "vaswani"}),
        ("sin_marian_d7", "table", {"layout": "concat", "spacing": "vaswani", "odd": "split"}),
        ("sin_musicgen_d64", "table", {"spacing": "tensor2tensor", "order": "cos-first"}),
        ("sin_whisper_d64", "table", {"layout": "concat", "spacing": "tensor2tensor"}),
        ("sin_t2t_d64_min1_max10000_start0", "table", {"spacing": "tensor2tensor"}),
        ("sin_fairseq_d64_pad1", "table", {"spacing": "tensor2tensor", "layout": "concat"}),
        ("sin_penc1d_c11", "table", {"layout": "interleaved", "odd": "truncate"}),
    ],
)
def test_sinusoids_of_peers_are_identified(name, array, params, golden):
    found = found_in([golden(name)[1][array]])
    assert found.scheme == "sinusoidal"
    assert {**params, "base": 10_000.0}.items() <= found.params.items()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "array", "convention", "grid"),
    [
        ("sin2d_mae_d64_g14_cls0", "table", "mae", (14, 14)),
        ("sin2d_mae_grid_5x7_d16", "table", "mae", (5, 7)),
        ("sin2d_hf_vit_mae", "table_3x3_d16_cls", "vit-mae", (3, 3)),
        ("sin2d_timm", "table_5x7_d16", "timm", (5, 7)),
        ("sin2d_detr", "pos_raw", "detr", (5, 7)),
        ("sin_t2t_nd", "table_3x4x5_d32", "tensor2tensor", (3, 4, 5)),
        ("sin_penc2d_c64", "table", "positional-encodings", (7, 4)),
    ],
)
def test_grids_of_peers_are_identified(name, array, convention, grid, golden):
    found = found_in([golden(name)[1][array]])
    assert (found.scheme, found.params["convention"]) == ("sinusoidal-nd", convention)
    assert found.params["grid"] == grid


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cos", "convention"),
    [
        ("rope2d_dinov3", "cos_80x128", "dinov3"),
        ("rope2d_gemma4", "cos", "gemma4"),
        ("rope2d_qwen2_vl", "cos", "qwen2-vl"),
    ],
)
def test_vision_encoders_are_identified(name, cos, convention, golden):
    _, arrays = golden(name)
    found = found_in([arrays[cos], arrays[cos.replace("cos", "sin")]])
    assert (found.scheme, found.params["convention"]) == ("rope-axial", convention)


@pytest.mark.slow
def test_biases_and_slopes_of_peers_are_identified(golden):
    _, bloom = golden("alibi_bloom")
    _, mpt = golden("alibi_mpt")
    for heads in (7, 112):
        for found, form in (
            (found_in([bloom[f"alibi_h{heads}"]]), "bloom"),
            (found_in([mpt[f"alibi_h{heads}"]]), "mpt"),
        ):
            assert (found.scheme, found.params["heads"]) == ("alibi", heads)
            assert (found.params["slopes"], found.params["form"]) == ("press", form)
        slopes = found_in([bloom[f"slopes_h{heads}"]])
        assert (slopes.scheme, slopes.params["heads"]) == ("alibi", heads)
    assert found_in([mpt["alibi_h12_max16"]]).params["max_bias"] == 16.0
    half = found_in([bloom["alibi_bf16_h12"]])
    assert (half.scheme, half.arithmetic, half.params["heads"]) == ("alibi", "bfloat16", 12)


@pytest.mark.slow
def test_kernels_of_peers_are_identified_with_their_scalars(golden):
    _, kerple = golden("kerple")
    logarithmic = found_in([kerple["log_bias"]])
    assert logarithmic.scheme == "kerple-log"
    assert logarithmic.params["r1"] == pytest.approx(kerple["log_p"].tolist(), rel=1e-4)
    assert logarithmic.params["r2"] == pytest.approx(kerple["log_a"].tolist(), rel=1e-4)
    power = found_in([kerple["pow_bias"]])
    assert power.scheme == "kerple-power"
    assert power.params["r2"] == pytest.approx(kerple["pow_p"].tolist(), rel=1e-4)
    sandwich = found_in([golden("sandwich_nemo")[1]["h12_d128"]])
    assert (sandwich.scheme, sandwich.params["dim"], sandwich.params["base"]) == (
        "sandwich",
        128,
        10_000.0,
    )


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize(("array", "both"), [("bias_enc_40x40", True), ("bias_dec_40x40", False)])
def test_the_buckets_of_t5_are_identified_though_its_table_is_learned(array, both, golden):
    _, arrays = golden("t5_bias_gather")
    found = found_in([arrays[array]])
    assert (found.scheme, found.params["heads"]) == ("t5", 8)
    assert (found.params["num_buckets"], found.params["bidirectional"]) == (32, both)
    assert "weights=FILE" in found.commands[0]


def test_sinusoids_of_transformer_xl_on_one_side_are_those_of_falling_positions(golden):
    found = found_in([golden("rel_sin_transformer_xl")[1]["emb"]])
    assert (found.scheme, found.params["base"]) == ("sinusoidal", 10_000.0)


@pytest.mark.slow
def test_frequencies_of_every_rotary_model_name_the_model(golden):
    _, arrays = golden("models")
    for name in arrays.files:
        found = found_in([arrays[name]])
        models = {model.partition(" ")[0] for model in (*found.models, *found.fitting_models)}
        assert name.partition(":")[0] in models, name


@pytest.mark.slow
def test_frequencies_of_configs_are_identified(golden):
    """Of every third of hundreds, with numbers nobody uses, whatever made them."""
    case, arrays = golden("config_rope")
    missed = []
    for config in case["cases"][::3]:
        for layers in config.get("layers", {}).values():
            values = arrays[layers["array"]]
            found = found_in([values]) if values.size > 1 else None
            if found is None and values.size > 1:
                missed.append(config["name"])
            elif found is not None:
                assert found.residual <= 3e-6 * np.abs(values).max()
    # Factors of LongRoPE over a base that nobody has: they could be anything. And of two YaRNs the
    # original length, 8 and 375, is none that is tried.
    missed = [name for name in missed if "longrope" not in name]
    assert {*missed} <= {"csm_depth_decoder_model/yarn", "glmasr_encoder/yarn"}


# What no rule made.


def test_a_row_of_complex_numbers_says_no_frequencies():
    row = np.array([6.4 + 11.6j, 51.2 - 38.5j, 3.7 + 9.8j], np.complex64)
    assert identify(Evidence.of_arrays(row)).match is None


def test_scores_that_no_key_changes_are_near_no_encoding():
    by_query = -np.outer(2.0 ** -np.arange(1, 9), np.arange(6))
    scores = np.repeat(by_query[:, :, None], 6, axis=2)  # (heads, queries, keys)
    assert identify(Evidence.of_arrays(scores)).candidates == ()


@pytest.mark.slow
def test_vectors_that_were_rotated_are_not_identified(golden):
    _, arrays = golden("rope_apply_llama_half")
    assert found_in([arrays["q_out"][0, 0]]) is None


# Round trips: what generate writes is found again, byte for byte.

FACTORS = tuple(1 + round(0.0123 * i, 4) for i in range(16))
STRETCHED = [
    ("rope-linear", {"factor": 4.0}),
    ("rope-ntk", {"factor": 8.0}),
    ("rope-yarn", {"factor": 4.0, "original_max_position_embeddings": 2048}),
    ("rope-llama3", {"base": 500_000.0}),
    ("rope-longrope", {"short_factor": FACTORS, "long_factor": FACTORS, "factor": 2.0}),
    ("rope-proportional", {"partial": 0.5}),
    ("xpos", {"side": "key"}),
]


@pytest.mark.long
@pytest.mark.sweep(9)
@pytest.mark.parametrize("table", ONE_TABLE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_rotary_table_is_found_again(table, dtype):
    arrays = arrays_of("rope", "3:203", dtype=dtype, tables=(table,), base=500_000.0)
    found = found_in(arrays, dtype=dtype)
    assert (found.scheme, found.tables, found.params["base"]) == ("rope", (table,), 500_000.0)
    assert_written_again(found, arrays, dtype=dtype)


@pytest.mark.long
@pytest.mark.sweep(15)
@pytest.mark.parametrize(("scheme", "params"), STRETCHED)
@pytest.mark.parametrize("tables", [("cos-sin",), ("cos-full", "sin-full"), ("complex",)])
def test_every_stretched_scheme_is_found_again(scheme, params, tables):
    arrays = arrays_of(scheme, "0:400", tables=tables, dim=32, **params)
    found = found_in(arrays)
    assert found.scheme == scheme
    for name, value in params.items():
        if name != "long_factor":
            assert found.params[name] == (value if isinstance(value, str) else pytest.approx(value))
    assert_written_again(found, arrays)


@pytest.mark.sweep(18)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("scheme", "params"), [("rope", {}), *STRETCHED[:4]])
def test_half_precision_tables_are_found_again(scheme, params, dtype):
    arrays = arrays_of(scheme, "0:600", dtype=dtype, tables=("cos", "sin"), **params)
    found = found_in(arrays, dtype=dtype)
    assert found.scheme == scheme
    assert_written_again(found, arrays, dtype=dtype)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("tables", [("cos", "sin"), ("cos",)])
@pytest.mark.parametrize("arithmetic", ["float32", "bfloat16"])
def test_the_arithmetic_that_made_a_table_is_named(arithmetic, tables):
    arrays = arrays_of("rope", "0:500", tables=tables, arithmetic=arithmetic)
    found = found_in(arrays)
    assert (found.scheme, found.arithmetic) == ("rope", arithmetic)
    assert f"--arithmetic {arithmetic}" in found.commands[0]


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_the_layout_shows_in_full_tables_alone(layout):
    full = found_in(
        arrays_of("rope", "0:50", tables=("cos-full", "sin-full"), layout=layout, dim=16)
    )
    assert full.layout == layout
    bare = found_in(arrays_of("rope", "0:50", tables=("cos-sin",), layout=layout, dim=16))
    assert bare.layout is None
    assert "layout" not in bare.params


@pytest.mark.long
@pytest.mark.parametrize("positions", ["0:2000:7", "5,17,40,100,1000,4096", "100000:100300", "0:2"])
def test_the_positions_of_rows_are_found(positions):
    arrays = arrays_of("rope", positions, tables=("cos", "sin"), base=500_000.0)
    found = found_in(arrays)

    assert list(found.positions) == list(Positions.parse(positions))


@pytest.mark.slow
def test_a_rotation_that_runs_backward_is_that_of_falling_positions():
    cos, sin = arrays_of("rope", "0:200", tables=("cos", "sin"))
    found = found_in([cos, -sin])
    assert (found.scheme, found.forms) == ("rope", ())
    assert list(found.positions) == list(range(0, -200, -1))
    assert len(found.commands) == 2


@pytest.mark.long
def test_exchanged_tables_are_told_so():
    cos, sin = arrays_of("rope", "0:200", tables=("cos", "sin"))
    found = found_in([sin, cos])
    assert (found.scheme, found.tables, found.forms) == ("rope", ("sin", "cos"), ())
    assert [command.split()[-1] for command in found.commands] == ["sin.npy", "cos.npy"]


ABSOLUTE = [
    ("integer", {}),
    ("normalized", {}),
    ("binary", {"dim": 12}),
    ("binary", {"dim": 12, "order": "lsb-first"}),
    ("nope", {}),
    ("learned", {}),
    ("learned", {"seed": 3, "std": 0.5}),
    ("shaw", {}),
    ("transformer-xl", {}),
    ("sinusoidal", {"layout": "concat"}),
    ("sinusoidal", {"spacing": "tensor2tensor", "layout": "concat", "order": "cos-first"}),
    ("sinusoidal", {"dim": 33, "odd": "pad"}),
    ("sinusoidal", {"dim": 33, "odd": "truncate", "spacing": "tensor2tensor"}),
]


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize(("scheme", "params"), ABSOLUTE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_absolute_and_relative_matrices_are_found_again(scheme, params, dtype):
    arrays = arrays_of(scheme, "0:150", dtype=dtype, **params)
    found = found_in(arrays, dtype=dtype)
    assert found.scheme == scheme
    assert params.items() <= found.params.items()
    if scheme != "learned" or "std" not in params:
        assert_written_again(found, arrays, dtype=dtype)


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    ("scheme", "params"),
    [
        ("alibi", {"heads": 12}),
        ("alibi", {"heads": 12, "slopes": "naive"}),
        ("alibi", {"heads": 6, "max_bias": 4.0}),
        ("t5", {"bidirectional": False}),
        ("t5-clipped", {"max_distance": 16}),
        ("kerple-log", {"r1": (1.2,), "r2": (0.3,)}),
        ("kerple-power", {"r2": (1.5,)}),
        ("sandwich", {"dim": 32, "base": 20_000.0}),
    ],
)
def test_biases_are_found_again(scheme, params):
    arrays = arrays_of(scheme, "0:120", **params)
    found = found_in(arrays)
    assert found.scheme == scheme
    assert params.items() <= found.params.items()
    assert_written_again(found, arrays)


@pytest.mark.long
def test_a_base_of_more_digits_than_the_cells_determine_comes_with_its_uncertainty():
    base = 314_159.265358979
    found = found_in(arrays_of("rope", "0:64", tables=("cos", "sin"), base=base))
    assert 0 < abs(found.params["base"] - base) <= found.uncertainty["base"] < 1e-3


@pytest.mark.slow
def test_a_model_is_named_only_where_the_amplitude_is_its_own():
    params = {"dim": 64, "factor": 32.0, "base": 150_000.0, "truncate": False}
    own = found_in(arrays_of("rope-yarn", "0:200", tables=("cos", "sin"), **params))
    assert "gpt-oss-20b" in own.models
    louder = arrays_of("rope-yarn", "0:200", tables=("cos", "sin"), attention_factor=1.5, **params)
    found = found_in(louder)
    assert (found.scheme, found.attention_factor, found.models) == ("rope-yarn", 1.5, ())


@pytest.mark.long
def test_tables_at_rounded_positions_are_not_given_out_for_right_ones():
    import ml_dtypes

    rounded = np.arange(2048).astype(ml_dtypes.bfloat16).astype(np.int64)
    tables = [matrix("rope", "0:2049", table=table)[rounded] for table in ("cos", "sin")]
    result = identify(Evidence.of_arrays(*tables))
    assert result.match is None
    assert (result.nearest.scheme, result.nearest.census.misfit_rows[0]) == ("rope", 257)


@pytest.mark.parametrize(
    "params",
    [
        {"dim": 64, "base": 200_000.0, "factor": 6.0},
        {"dim": 128, "base": 500_000.0, "factor": 12.0, "high_freq_factor": 8.0},
    ],
)
def test_the_ramp_of_llama3_is_read_off_where_no_model_has_it(params):
    arrays = arrays_of("rope-llama3", None, tables=("inv-freq",), dtype="float64", **params)
    found = found_in(arrays)
    assert found.scheme == "rope-llama3"
    assert found.params["factor"] == params["factor"]
    assert_written_again(found, arrays, dtype="float64")


@pytest.mark.parametrize("multiple", [1.0, 0.3])
def test_a_penalty_that_is_a_kernels_and_alibis_is_said_to_be_both(multiple):
    """No head has the slope: it is ALiBi multiplied, and KERPLE's power 1."""
    distances = np.abs(np.subtract.outer(np.arange(16), np.arange(16)))
    candidates = identify(Evidence.of_arrays(-multiple * distances)).candidates
    fitting = {candidate.scheme: candidate for candidate in candidates if candidate.fits}
    assert set(fitting) == {"kerple-power", "alibi"}
    assert (fitting["kerple-power"].params["r1"], fitting["kerple-power"].params["r2"]) == (
        (multiple,),
        (1.0,),
    )
    assert fitting["alibi"].multiplied == pytest.approx(2 * multiple)


def test_alibi_divided_by_the_root_of_a_width_is_found():
    """As Falcon has it."""
    divided = matrix("alibi", "0:20", dtype="float64", heads=12) / 8
    match = found_in([divided])
    assert (match.scheme, match.params["heads"], match.multiplied) == ("alibi", 12, 0.125)


@pytest.mark.parametrize(("wide", "kept"), [(128, 64), (64, 48), (128, 112)])
def test_a_part_of_a_ladder_is_one_of_its_own_base(wide, kept):
    frequencies = 10_000.0 ** (-np.arange(0, kept, 2) / wide)
    match = found_in([frequencies])
    assert (match.scheme, match.params["dim"]) == ("rope", kept)
    assert match.params["base"] == pytest.approx(10_000.0 ** (kept / wide))


@pytest.mark.parametrize(
    ("given", "words"), [(8.0, ""), (16.0, " --max-bias 16"), (4.0, " --max-bias 4")]
)
def test_slopes_are_written_again_by_the_command_for_slopes(given, words):
    params = {"heads": 6, "max_bias": given, "slopes": "press"}
    trial = SimpleNamespace(bound=SimpleNamespace(params=params))
    assert _slopes_command(trial) == f"posenc alibi-slopes --heads 6{words}"


@pytest.mark.parametrize("nothing", [np.nan, np.inf])
def test_a_table_without_a_number_is_said_to_hold_none(nothing):
    found = identify(Evidence.of_arrays(np.full((64, 32), nothing, np.float32)))
    assert found.candidates == ()
    assert found.notes == ("all sampled values are NaN or infinite",)


@pytest.mark.long
@pytest.mark.parametrize("tables", [("cos", "sin"), ("cos-sin",)])
def test_some_pairs_of_a_known_encoding_in_any_order_are_not_it(tables):
    """Their phases say where each row stands, but the whole encoding has more columns."""
    positions = np.random.default_rng(0).permutation(500)[:60]
    turns = np.outer(positions, 1e6 ** (-np.arange(20) / 64))
    cos, sin = np.cos(turns).astype(np.float32), np.sin(turns).astype(np.float32)
    arrays = [cos, sin] if len(tables) == 2 else [np.concatenate([cos, sin], axis=1)]
    assert found_in(arrays) is None


@pytest.mark.long
def test_noise_fits_nothing_however_large_the_growth_of_its_amplitude():
    """An infinite cell is no closer than any other: noise fitted 512 rows of xpos so."""
    noise = np.random.default_rng(0).standard_normal((1 << 16, 8)).astype(np.float32)
    found = identify(Evidence.of_arrays(noise))
    assert found.match is None
    assert not any(each.fits_sample or each.fits_rows for each in found.candidates)


@pytest.mark.long
def test_waves_that_follow_no_ladder_end_in_a_verdict():
    random = np.random.default_rng(0)
    rates, phases = random.uniform(0, 2, 128), np.random.default_rng(1).uniform(0, 6, 128)
    table = np.sin(np.arange(196)[:, None] * rates + phases).astype(np.float32)
    assert identify(Evidence.of_arrays(table)).match is None
