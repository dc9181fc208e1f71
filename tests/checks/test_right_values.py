"""What libraries' own code gives of encodings that rotate nothing passes, in every format."""

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.checks.any_encoding import ValueCheck
from posenc_cli.files.reading import Loaded
from posenc_cli.formulas.buckets import RULES
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.positions import Positions
from tests.memory import peak

pytestmark = pytest.mark.long

T2T = {"layout": "concat", "spacing": "tensor2tensor"}


def stored(values, dtype=None):
    """An array as it is read from a file that holds it in a format."""
    values = np.asarray(values)
    if values.dtype.kind in "iu":
        values = values.astype(np.float64)
    if dtype is not None:
        own = REAL_DTYPES[dtype]
        values = widen(narrow(values.astype(np.float64), None, own), own)
    return Loaded(np.ascontiguousarray(values), dtype or str(values.dtype), "subject")


def checked(scheme, values=None, *, kind="file", positions=None, dtype=None, rule="auto", **given):
    """The report on values of a form, against a scheme, or a rule for buckets."""
    source = RULES[scheme] if scheme == "deberta" else catalogue.find(scheme)
    where = None if positions is None else Positions.parse(positions)
    options = {name: given.pop(name) for name in ("causal", "head", "impl") if name in given}
    if kind == "vectors":
        return ValueCheck(source, given, where, rule, vectors=(*map(stored, values),)).report()
    subject = {} if values is None else {kind: stored(values, dtype)}
    return ValueCheck(source, given, where, rule, **subject, **options).report()


ROWS = {
    "marian": ("sin_marian_d64", "table", "sinusoidal", {"dim": 64, "layout": "concat"}),
    "marian odd": (
        *("sin_marian_d7", "table", "sinusoidal"),
        {"dim": 7, "layout": "concat", "odd": "split"},
    ),
    "musicgen": (
        *("sin_musicgen_d64", "table", "sinusoidal"),
        {"dim": 64, **T2T, "order": "cos-first"},
    ),
    "penc": ("sin_penc1d_c11", "table", "sinusoidal", {"dim": 11, "odd": "truncate"}),
    "t2t": ("sin_t2t_d64_min1_max10000_start0", "table", "sinusoidal", {"dim": 64, **T2T}),
    "whisper": ("sin_whisper_d64", "table", "sinusoidal", {"dim": 64, **T2T}),
    "mae": ("sin2d_mae_d64_g14_cls0", "table", "sinusoidal-nd", {"dim": 64}),
    "ddpm": ("timestep_diffusers", "default", "timestep", {"dim": 64}),
    "sd": (
        *("timestep_diffusers", "sd", "timestep"),
        {"dim": 320, "flip_sin_to_cos": "true", "downscale_freq_shift": 0},
    ),
    "xlnet": ("rel_sin_xlnet", "emb", "transformer-xl", {"dim": 64}),
}
"""Goldens of rows: the file, its array, and how posenc calls the encoding."""


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("case", ROWS)
def test_rows_of_libraries_pass_as_they_are_stored(case, dtype, golden):
    name, array, scheme, given = ROWS[case]
    _, arrays = golden(name)
    at = next((arrays[each] for each in ("positions", "timesteps") if each in arrays), None)
    positions = None if at is None else ",".join(map(str, at.tolist()))
    report = checked(scheme, arrays[array], positions=positions, dtype=dtype, **given)
    assert report.ok, report.verdict


@pytest.mark.parametrize("dtype", [None, "float16", "bfloat16"])
def test_scores_of_alibi_pass_as_libraries_write_them(dtype, golden):
    _, bloom = golden("alibi_bloom")
    _, mpt = golden("alibi_mpt")
    for heads in (1, 12, 16, 71):
        for arrays, form in ((bloom, "bloom"), (mpt, "mpt")):
            values = arrays[f"alibi_h{heads}"]
            report = checked("alibi", values, positions="0:17", heads=heads, form=form, dtype=dtype)
            assert report.ok, report.verdict
        values = bloom[f"slopes_h{heads}"]
        assert checked("alibi", values, kind="slopes", heads=heads, dtype=dtype).ok


def test_buckets_of_every_peer_pass(golden):
    for name, both in (("t5_bucket_bi_nb32_md128", "true"), ("t5_bucket_uni_nb32_md128", "false")):
        _, arrays = golden(name)
        where = ",".join(map(str, arrays["relative_position"].tolist()))
        for peer in ("hf_t5", "mesh_tf", "x_transformers", "torchscale"):
            report = checked(
                "t5", arrays[peer], kind="buckets", positions=where, bidirectional=both
            )
            assert report.ok, (peer, report.verdict)
    _, arrays = golden("deberta_log_bucket_b256_m512")
    where = ",".join(map(str, arrays["relative_position"].tolist()))
    for peer in ("hf_deberta_v2", "sew_d"):
        assert checked("deberta", arrays[peer], kind="buckets", positions=where).ok


def test_scores_of_learned_tables_pass(golden, tmp_path):
    _, arrays = golden("t5_bias_gather")
    np.save(tmp_path / "t5.npy", arrays["table"])
    weights = str(tmp_path / "t5.npy")
    for values, both in ((arrays["bias_enc_40x40"], "true"), (arrays["bias_dec_40x40"], "false")):
        for dtype in (None, "float16", "bfloat16"):
            report = checked("t5", values, dtype=dtype, weights=weights, bidirectional=both)
            assert report.ok, report.verdict
    decoding = arrays["bias_dec_q1_k300_past299"]
    assert checked("t5", decoding, weights=weights, bidirectional="false").ok
    _, arrays = golden("window_bias")
    for window in ("7x7", "3x5", "1x2"):
        np.save(tmp_path / "swin.npy", arrays[f"x_swin_{window}"])
        given = {"window_size": window, "weights": str(tmp_path / "swin.npy")}
        assert checked("swin", arrays[f"swin_{window}"], **given).ok


@pytest.mark.parametrize("size", [2e-2, 1e-4, 1e-7])
def test_float16_passes_below_its_smallest_normal_number(size, tmp_path):
    """Below 2^-14 float16 has fixed steps, so half a step is more than its relative error."""
    table = np.random.default_rng(5).normal(0, size, (32, 64)).astype(np.float32)
    np.save(tmp_path / "table.npy", table)
    given = {"weights": str(tmp_path / "table.npy")}
    rounded = table.astype(np.float16)
    assert checked("learned", rounded, dim=64, **given).ok
    wider = rounded.astype(np.float32)
    assert checked("learned", wider, rule="float16", dim=64, **given).ok
    coarse = checked("learned", wider, dim=64, **given)
    assert coarse.cause_text == "table-precision: the values were rounded to float16"
    away = np.arange(8)[None] - np.arange(8)[:, None]  # T5 gives each a bucket of its own
    scores = table.T[:, np.abs(away) + 16 * (away > 0)]
    assert checked("t5", scores.astype(np.float16), heads=64, **given).ok


def test_float16_slopes_pass_below_its_smallest_normal_number():
    slopes = 2.0 ** (-24 * np.arange(1, 65) / 64)
    assert checked("alibi", slopes, kind="slopes", dtype="float16", heads=64, max_bias=24).ok


def test_kerple_passes_where_a_causal_mask_hides_later_keys(golden):
    _, arrays = golden("kerple")
    given = {
        "heads": 4,
        "r1": tuple(map(float, arrays["log_p"])),
        "r2": tuple(map(float, arrays["log_a"])),
    }
    assert checked("kerple-log", arrays["log_bias"], causal=True, **given).ok
    report = checked("kerple-log", arrays["log_bias"], **given)
    assert not report.ok
    assert report.cause == "causal"


def test_a_class_token_of_zeros_and_a_grid_of_three_axes_are_read(golden):
    _, arrays = golden("sin2d_mae_d64_g14_cls0")
    table = np.concatenate([np.zeros((1, 64)), arrays["table"]])
    for shaped in (table, table[None], arrays["table"].reshape(14, 14, 64)):
        assert checked("sinusoidal-nd", shaped, dim=64).ok


def test_vectors_and_frequencies_pass_too():
    x = np.random.default_rng(3).normal(size=(50, 16)).astype(np.float32)
    rates = 1e4 ** (-np.arange(0, 16, 2) / 16)
    angles = np.arange(50)[:, None] * rates
    rows = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(50, 16)
    both = (stored(x), stored((x + rows).astype(np.float32)))
    assert ValueCheck(catalogue.find("sinusoidal"), {"dim": 16}, vectors=both).report().ok
    for dtype in ("float32", "float64"):
        assert checked("sinusoidal", rates, kind="inv_freq", dtype=dtype, dim=16).ok


def test_a_check_holds_no_flags_of_every_value():
    peaks = []
    for rows in (1 << 15, 1 << 16):
        table = np.zeros((rows, 128), np.float32)
        table[:, 1::2] = 1
        subject = ValueCheck(catalogue.find("sinusoidal"), {"dim": 128}, file=stored(table))
        peaks.append(peak(subject.report))
    assert peaks[1] - peaks[0] < (1 << 15) * 128 / 4
