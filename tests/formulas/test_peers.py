"""posenc's matrices against arrays that peers' own code produced."""

import numpy as np
import pytest

from tests import tolerances
from tests.matrices import matrix

TENSOR2TENSOR = {"dim": 64, "layout": "concat", "spacing": "tensor2tensor"}
SINUSOIDS = {
    "sin_marian_d64": {"dim": 64, "layout": "concat"},
    "sin_marian_d7": {"dim": 7, "layout": "concat", "odd": "split"},
    "sin_musicgen_d64": {**TENSOR2TENSOR, "order": "cos-first"},
    "sin_penc1d_c11": {"dim": 11, "odd": "truncate"},
    "sin_t2t_d64_min1_max10000_start0": TENSOR2TENSOR,
    "sin_whisper_d64": TENSOR2TENSOR,
    "sin_fairseq_d64_pad1": TENSOR2TENSOR,
}


def listed(positions):
    return ",".join(map(str, positions.tolist()))


def turned(x, cos, sin, layout="half", *, blocks=1):
    """Vectors after a rotation by full tables, of the pairs within each block of columns."""
    if layout == "half":
        parts = x.reshape(*x.shape[:-1], blocks, 2, -1)
        other = np.stack([-parts[..., 1, :], parts[..., 0, :]], axis=-2)
    else:
        other = np.stack([-x[..., 1::2], x[..., ::2]], axis=-1)
    return x * cos + other.reshape(x.shape) * sin


@pytest.mark.parametrize("name", SINUSOIDS)
def test_sinusoids_equal_the_peer_that_names_their_convention(name, golden):
    _, arrays = golden(name)
    positions, table = arrays["positions"], arrays["table"]
    ours = matrix("sinusoidal", listed(positions), dtype="float64", **SINUSOIDS[name])
    if name.startswith("sin_fairseq"):
        # Row padding_idx of fairseq's table is zeroed; it encodes no position.
        table, ours = table[positions != 1], ours[positions != 1]
        positions = positions[positions != 1]
    allowed = tolerances.TABLE + tolerances.SINUSOID_ANGLE * positions[:, None]
    assert (np.abs(ours - table) <= allowed).all()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("rope_default_d64_theta10000", {"dim": 64}),
        ("rope_default_d128_theta500000", {"dim": 128, "base": 500_000.0}),
        ("rope_default_partial_neox_h96_p25", {"dim": 96, "partial": 0.25}),
    ],
)
def test_rope_equals_transformers(name, given, golden):
    _, arrays = golden(name)
    frequencies = matrix("rope", None, table="inv-freq", dtype="float64", **given)
    np.testing.assert_allclose(frequencies, arrays["inv_freq"], rtol=tolerances.FREQUENCY)
    positions = arrays["positions"]
    angles = positions[:, None] * np.tile(frequencies, 2)
    for function in ("cos", "sin"):
        ours = matrix("rope", listed(positions), table=f"{function}-full", layout="half", **given)
        allowed = tolerances.TABLE + tolerances.ANGLE * angles
        assert (np.abs(ours - arrays[function]) <= allowed).all()


@pytest.mark.parametrize(
    ("name", "layout", "axes"),
    [
        ("rope_apply_llama_half", "half", (0, 2, 1, 3)),
        ("rope_apply_gptj_interleaved", "interleaved", (0, 1, 2, 3)),
    ],
)
def test_full_tables_rotate_queries_as_transformers_does(name, layout, axes, golden):
    _, arrays = golden(name)
    positions = arrays["positions"]
    cos, sin = (
        matrix("rope", listed(positions), table=table, layout=layout, dim=64)[:, None, :]
        for table in ("cos-full", "sin-full")
    )
    ours = turned(arrays["q"].transpose(axes), cos, sin, layout)
    angles = positions[:, None, None] * 1.0
    allowed = tolerances.ROTATED + 6 * tolerances.ANGLE * angles
    assert (np.abs(ours - arrays["q_out"].transpose(axes)) <= allowed).all()


@pytest.mark.long
def test_alibi_slopes_and_bias_equal_bloom(golden):
    case, arrays = golden("alibi_bloom")
    for heads in case["params"]["heads"]:
        allowed = tolerances.slope(heads)
        ours = matrix("alibi", "0:17", heads=heads, form="bloom", dtype="float64")
        np.testing.assert_allclose(
            ours[:, :1, :], arrays[f"alibi_h{heads}"], rtol=tolerances.slope(heads)
        )
        # The bias of key 1 is the slope.
        np.testing.assert_allclose(
            ours[:, 0, 1], arrays[f"slopes_h{heads}"].reshape(-1), rtol=allowed
        )
        # Every query has the same row.
        assert (ours == ours[:, :1, :]).all()


@pytest.mark.long
def test_alibi_bias_equals_mpt_at_every_max_bias(golden):
    case, arrays = golden("alibi_mpt")
    names = [name for name in arrays.files if name.startswith("alibi_h")]
    assert len(names) > len(case["params"]["heads"])
    for name in names:
        heads, _, max_bias = name.removeprefix("alibi_h").partition("_max")
        ours = matrix("alibi", "0:17", heads=int(heads), max_bias=float(max_bias or 8), form="mpt")
        np.testing.assert_allclose(ours[:, :1, :], arrays[name], rtol=tolerances.slope(int(heads)))


@pytest.mark.parametrize(
    ("name", "bidirectional"),
    [("t5_bucket_bi_nb32_md128", True), ("t5_bucket_uni_nb32_md128", False)],
)
def test_t5_buckets_equal_exact_arithmetic_and_every_peer(name, bidirectional, golden):
    from posenc_cli import catalogue

    _, arrays = golden(name)
    bound = catalogue.find("t5").bind({"bidirectional": bidirectional})
    ours = bound.content.bucket(np, arrays["relative_position"].astype(np.int64))
    for peer in ("exact_mpmath", "hf_t5", "mesh_tf", "x_transformers", "torchscale"):
        assert (ours == arrays[peer]).all(), peer


def test_t5_bias_gathers_a_weights_file_as_transformers_does(golden, tmp_path):
    _, arrays = golden("t5_bias_gather")
    np.save(tmp_path / "weights.npy", arrays["table"])
    weights = str(tmp_path / "weights.npy")
    for bidirectional, name in ((True, "bias_enc_40x40"), (False, "bias_dec_40x40")):
        ours = matrix("t5", "0:40", weights=weights, bidirectional=bidirectional)
        assert (ours == arrays[name]).all()


@pytest.mark.parametrize("case", ["default", "sd", "odd", "flux", "other"])
def test_timesteps_are_those_of_diffusers(case, golden):
    statement, arrays = golden("timestep_diffusers")
    given = dict(statement["params"]["cases"][case])
    given["dim"] = given.pop("embedding_dim")
    steps = arrays["timesteps"]
    ours = matrix("timestep", listed(steps), dtype="float64", **given)
    angle = given.get("scale", 1) * steps.max()
    assert ours.shape == arrays[case].shape
    assert np.abs(ours - arrays[case]).max() <= tolerances.TABLE + tolerances.ANGLE * angle
    near = np.abs(ours - arrays[case])[steps == 1].max()  # where its float32 angles are small
    assert near <= tolerances.TABLE + tolerances.ANGLE * given.get("scale", 1)


def test_a_timestep_is_a_sinusoid_where_one_has_its_frequencies():
    given = {"dim": 7, "layout": "concat", "spacing": "tensor2tensor", "odd": "pad"}
    ddpm = matrix("timestep", "0:50", dim=7)
    assert np.array_equal(ddpm, matrix("sinusoidal", "0:50", **given))
    given = {"dim": 8, "layout": "concat", "order": "cos-first", "base": 100}
    shown = matrix(
        "timestep", "0:50", dim=8, flip_sin_to_cos=True, downscale_freq_shift=0, max_period=100
    )
    assert np.array_equal(shown, matrix("sinusoidal", "0:50", **given))


def test_a_timestep_without_pairs_is_a_column_of_zeros():
    assert matrix("timestep", "0:3", dim=1).tolist() == [[0.0]] * 3


RESONANCE = {
    "plain": {"dim": 64},
    "other": {"dim": 24, "base": 500_000.0},
    "yarn": {"dim": 128, "factor": 8.0, "original_max_position_embeddings": 4096},
}


@pytest.mark.parametrize("case", RESONANCE)
def test_resonance_rope_is_that_of_its_authors(case, golden):
    _, arrays = golden("rope_resonance")
    given = RESONANCE[case]
    ours = matrix("rope-resonance", None, table="inv-freq", dtype="float64", **given)
    np.testing.assert_allclose(ours, arrays[f"{case}_inv_freq"], rtol=tolerances.FREQUENCY)
    wavelengths = arrays[f"{case}_wavelengths"]
    assert np.array_equal(np.round(2 * np.pi / ours), wavelengths)
    positions = arrays["positions"]
    for function in ("cos", "sin"):
        table = matrix("rope-resonance", listed(positions), table=f"{function}-full", **given)
        # They wrap angles at each wavelength, so that theirs are below 2π wherever one ends.
        angles = np.minimum(positions[:, None] * ours, 2 * np.pi)
        off = np.abs(table[:, ::2] - arrays[f"{case}_{function}"])
        assert (off <= 2 * tolerances.TABLE + 2 * tolerances.ANGLE * angles).all()


@pytest.mark.parametrize(
    ("case", "given"),
    [
        ("llama", {"dim": 128, "base": 1e7}),
        ("hard", {"dim": 128, "base": 1e7, "clip": "hard"}),
        ("narrow", {"dim": 32}),
    ],
)
def test_clipped_rope_is_that_of_its_authors(case, given, golden):
    _, arrays = golden("rope_clipped_cope")
    ours = matrix("rope-clipped", None, table="inv-freq", dtype="float64", **given)
    theirs = arrays[f"{case}_inv_freq"]
    # Where a cosine is near −1, float32 leaves few digits of what is left of a frequency.
    plain = matrix("rope-clipped", None, table="inv-freq", dtype="float64", **given, clipped=0)
    np.testing.assert_allclose(ours, theirs, rtol=tolerances.FREQUENCY, atol=1e-7 * plain.min())
    assert np.array_equal(ours == 0, theirs == 0)
    positions = arrays["positions"]
    for function in ("cos", "sin"):
        table = matrix(
            "rope-clipped", listed(positions), table=f"{function}-full", layout="half", **given
        )
        allowed = tolerances.TABLE + tolerances.ANGLE * positions[:, None] * np.tile(ours, 2)
        assert (np.abs(table - arrays[f"{case}_{function}"]) <= allowed).all()


def test_clipping_no_pair_or_one_leaves_rope_and_hard_clipping_is_proportional():
    plain = matrix("rope", "0:50")
    for clipped in (0, 1):
        assert np.array_equal(plain, matrix("rope-clipped", "0:50", clipped=clipped))
    hard = matrix("rope-clipped", "0:50", clip="hard", clipped=8)
    assert np.array_equal(hard, matrix("rope-proportional", "0:50", partial=0.75))
    assert not matrix("rope-clipped", "0:50", clip="hard", clipped=40, table="sin-full").any()
