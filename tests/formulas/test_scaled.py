"""The scaled rotary schemes against transformers' own code, and against formulas in mpmath."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from posenc_cli.catalogue import BUILT_IN
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics import exact
from tests import tolerances
from tests.formulas.test_peers import listed
from tests.matrices import matrix

PEERS = {
    "rope_linear_d128_theta10000_f4.0": ("rope-linear", {"dim": 128, "factor": 4}),
    "rope_llama3_llama3_1_8b": ("rope-llama3", {"dim": 128, "base": 500_000}),
    "rope_proportional_d128_theta10000_p50_f4.0": (
        "rope-proportional",
        {"dim": 128, "partial": 0.5, "factor": 4},
    ),
    "rope_yarn_deepseek_v3": ("rope-yarn", {"factor": 40, "mscale": 1, "mscale_all_dim": 1}),
    "rope_yarn_llama2_f16": ("rope-yarn", {"dim": 128, "factor": 16}),
    "rope_yarn_mscale_only": ("rope-yarn", {"factor": 40, "mscale": 0.707}),
    "rope_yarn_gpt_oss_truncate_False": (
        "rope-yarn",
        {"base": 150_000, "factor": 32, "truncate": "false"},
    ),
}


def waves_of(scheme, given, seq_len=None):
    return BUILT_IN[scheme].bind(given, seq_len=seq_len).content.waves


def assert_is_the_peers(scheme, given, arrays, *, suffix=""):
    frequencies = matrix(scheme, None, table="inv-freq", dtype="float64", **given)
    np.testing.assert_allclose(frequencies, arrays[f"inv_freq{suffix}"], rtol=tolerances.FREQUENCY)
    positions = arrays[f"positions{suffix}"]
    angles = positions[:, None] * frequencies
    scale = float(waves_of(scheme, given, given.get("seq_len")).scale)
    for function in ("cos", "sin"):
        ours = matrix(scheme, listed(positions), table=function, dtype="float64", **given)
        theirs = arrays[f"{function}{suffix}"][:, : frequencies.size]
        allowed = scale * (tolerances.TABLE + tolerances.ANGLE * angles)
        assert (np.abs(ours - theirs) <= allowed).all()


@pytest.mark.long
@pytest.mark.parametrize("name", PEERS)
def test_tables_and_frequencies_equal_transformers(name, golden):
    _, arrays = golden(name)
    scheme, given = PEERS[name]
    assert_is_the_peers(scheme, given, arrays)
    scale = float(waves_of(scheme, given).scale)
    assert scale == pytest.approx(float(arrays["attention_scaling"]), abs=1e-14)


@pytest.mark.parametrize("call", range(4))
def test_dynamic_stretches_with_the_longest_position_seen(call, golden):
    _, arrays = golden("rope_dynamic_d128_theta10000_mpe4096_f4.0")
    seq_len = int(arrays[f"positions_call{call}"].max()) + 1
    given = {"dim": 128, "max_position_embeddings": 4096, "seq_len": seq_len}
    assert_is_the_peers("rope-dynamic", given, arrays, suffix=f"_call{call}")


def phi3(source, **given):
    """The parameters of Phi-3's context extension."""
    rope = source["params"]["config_kwargs"]["rope_parameters"]
    lists = {name: tuple(rope[name]) for name in ("short_factor", "long_factor")}
    return {"dim": 96, **lists, **given}


@pytest.mark.parametrize("seq_len", [None, 1, 4096, 4097, 131072])
def test_longrope_switches_past_the_original_context_and_scales_both(seq_len, golden):
    source, arrays = golden("rope_longrope_phi3_mini128k")
    context = source["params"]["config_kwargs"]["max_position_embeddings"]
    given = phi3(source, max_position_embeddings=context)
    if seq_len:
        given["seq_len"] = seq_len
    suffix = f"_seq_{seq_len or 'none'}"
    ours = matrix("rope-longrope", None, table="inv-freq", dtype="float64", **given)
    np.testing.assert_allclose(ours, arrays[f"inv_freq{suffix}"], rtol=tolerances.FREQUENCY)
    scale = float(waves_of("rope-longrope", given, seq_len).scale)
    assert scale == pytest.approx(float(arrays[f"attention_scaling{suffix}"]), abs=1e-14)


@pytest.mark.parametrize("call", range(3))
def test_longrope_follows_the_last_position(call, golden):
    source, arrays = golden("rope_longrope_phi3_mini128k")
    given = phi3(source, factor=32, seq_len=int(arrays[f"positions_call{call}"].max()) + 1)
    assert_is_the_peers("rope-longrope", given, arrays, suffix=f"_call{call}")


def test_ntk_equals_its_author(golden):
    _, arrays = golden("rope_ntk_static_author_alpha4")
    ours = matrix("rope-ntk", None, table="inv-freq", dtype="float64", dim=128, factor=4)
    np.testing.assert_allclose(ours, arrays["inv_freq"], rtol=tolerances.FREQUENCY)


def mpmath_rope(dim, base):
    return [mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / dim) for i in range(dim // 2)]


def mpmath_llama3(dim, base, *, factor, low, high, original):
    found = []
    for f in mpmath_rope(dim, base):
        turns = original * f / (2 * mpmath.pi)
        share = min(max((turns - low) / (mpmath.mpf(high) - low), 0), 1)
        found.append((1 - share) * f / factor + share * f)
    return found


def test_frequencies_are_the_formulas_to_more_digits_than_any_format_holds():
    with mpmath.workdps(70):
        third, dynamic = mpmath.mpf(1) / 3, mpmath.mpf(3.3)
        ramp = {"original": 4096, "fast": 32, "slow": 1, "truncate": True}
        yarn = transformers_yarn(128, 1e6, factor=4.5, **ramp)
        llama3 = mpmath_llama3(128, 500_000, factor=8, low=1, high=4, original=8192)
        longer = dynamic * 5000 / 2048 - (dynamic - 1)
        ntk, grown = (mpmath_rope(8, 10_000 * by ** (4 * third)) for by in (mpmath.mpf(3), longer))
        cases = [
            ("rope-yarn", {"dim": 128, "base": 1e6, "factor": 4.5}, yarn),
            ("rope-llama3", {"dim": 128, "base": 500_000.0}, llama3),
            ("rope-ntk", {"dim": 8, "factor": 3}, ntk),
            ("rope-dynamic", {"dim": 8, "factor": 3.3}, grown),
        ]
        for scheme, given, expected in cases:
            waves = waves_of(scheme, given, 5000)
            for ours, theirs in zip(waves.frequencies(exact), expected, strict=True):
                assert abs(mpmath.mpf(str(ours)) / theirs - 1) < mpmath.mpf(10) ** -55


def test_amplitudes_are_the_formulas_to_more_digits_than_any_format_holds():
    with mpmath.workdps(70):
        yarn = waves_of("rope-yarn", {"factor": 40, "mscale": 0.707, "mscale_all_dim": 0.5}).scale
        log = mpmath.log(40) / 10
        expected = (mpmath.mpf(0.707) * log + 1) / (log / 2 + 1)
        assert abs(mpmath.mpf(str(yarn)) / expected - 1) < mpmath.mpf(10) ** -55
        given = {"dim": 4, "short_factor": "1,1", "long_factor": "1,1"}
        longrope = waves_of("rope-longrope", {**given, "max_position_embeddings": 131072}).scale
        expected = mpmath.sqrt(1 + mpmath.log(32) / mpmath.log(4096))
        assert abs(mpmath.mpf(str(longrope)) / expected - 1) < mpmath.mpf(10) ** -55


@pytest.mark.parametrize("table", ["cos", "sin"])
def test_cells_times_an_amplitude_are_correctly_rounded(table):
    given = {"dim": 8, "factor": 7}
    ours = matrix("rope-yarn", "0:50,131071,9007199254740991", table=table, **given)
    waves = waves_of("rope-yarn", given)
    with mpmath.workdps(60):
        scale = mpmath.mpf(str(waves.scale))
        frequencies = [mpmath.mpf(str(f)) for f in waves.frequencies(exact)]
        function = getattr(mpmath, table)
        for row, p in zip(ours, [*range(50), 131071, 2**53 - 1], strict=True):
            for cell, frequency in zip(row, frequencies, strict=True):
                assert cell == np.float32(float(scale * function(p * frequency)))


def transformers_yarn(dim, base, *, factor, original, fast, slow, truncate):
    """What ``_compute_yarn_parameters`` does, in mpmath: the ramp is held within 0 … dim − 1."""

    def pair_of(turns):
        return dim * mpmath.log(original / (turns * 2 * mpmath.pi)) / (2 * mpmath.log(base))

    low, high = pair_of(mpmath.mpf(fast)), pair_of(mpmath.mpf(slow))
    if truncate:
        low, high = mpmath.floor(low), mpmath.ceil(high)
    low, high = max(low, mpmath.mpf(0)), min(high, mpmath.mpf(dim - 1))
    if low == high:
        high += mpmath.mpf(1) / 1000
    frequencies = []
    for pair in range(dim // 2):
        kept = mpmath.mpf(base) ** (-mpmath.mpf(2 * pair) / dim)
        ramp = min(mpmath.mpf(1), max(mpmath.mpf(0), (pair - low) / (high - low)))
        frequencies.append(kept / factor * ramp + kept * (1 - ramp))
    return frequencies


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(
    ("dim", "base", "original", "turns"),
    [
        # c(1) passes the last pair, d/2, once the length passes 2π · base = 62,832 …
        (64, 10_000, 1 << 18, (32, 1)),
        (128, 10_000, 1 << 20, (32, 1)),
        (64, 500, 1 << 14, (32, 1)),
        # … and is held at d − 1 once it passes 2π · base^(2(d − 1)/d).
        (64, 100, 1 << 20, (5000, 1)),
        (8, 10, 4096, (32, 1)),
        (8, 10, 4096, (600, 1)),
        # c(32) falls below pair 0 up to 64π positions.
        (64, 10_000, 128, (32, 1)),
        (64, 10_000, 4096, (2000, 1)),
        (6, 10_000, 4096, (4, 3)),
    ],
)
def test_yarns_ramp_is_held_within_the_columns(dim, base, original, turns, truncate):
    fast, slow = turns
    given = {"dim": dim, "base": base, "factor": 8, "original_max_position_embeddings": original}
    waves = waves_of(
        "rope-yarn", {**given, "beta_fast": fast, "beta_slow": slow, "truncate": truncate}
    )
    with mpmath.workdps(70):
        expected = transformers_yarn(
            *(dim, base), factor=8, original=original, fast=fast, slow=slow, truncate=truncate
        )
        for ours, theirs in zip(waves.frequencies(exact), expected, strict=True):
            assert abs(mpmath.mpf(str(ours)) / theirs - 1) < mpmath.mpf(10) ** -50


@pytest.mark.parametrize("dim", [8, 20, 64, 80, 96, 128])
@pytest.mark.parametrize("partial", [0.1, 0.25, 0.3, 1 / 3, 0.5, 0.6, 0.7, 0.75, 0.9, 0.99, 1.0])
def test_the_share_of_pairs_that_turn_is_rounded_down_as_in_transformers(dim, partial):
    # int(rope_proportion * head_dim // 2) of transformers' proportional rule, in float64 as there;
    # the quotient itself, as an exact fraction, is never exceeded by a whole pair.
    turning = int(partial * dim // 2)
    assert 0 <= Fraction(partial) * dim / 2 - turning + Fraction(1, 2**40) < 1 + Fraction(1, 2**39)
    waves = waves_of("rope-proportional", {"dim": dim, "partial": partial, "factor": 2})
    frequencies = [float(f) for f in waves.frequencies(exact)]
    expected = [10_000.0 ** (-2 * i / dim) / 2 if i < turning else 0.0 for i in range(dim // 2)]
    np.testing.assert_allclose(frequencies, expected, rtol=tolerances.FREQUENCY)


def test_a_ramp_of_no_length_is_a_step():
    waves = waves_of("rope-yarn", {"dim": 4, "original_max_position_embeddings": 1})
    assert [float(f) for f in waves.frequencies(exact)] == [1.0, 0.0025]


def test_a_list_is_read_from_a_json_file(tmp_path, posenc):
    path = tmp_path / "factors.json"
    path.write_text("[1, 2.5]")
    given = {"dim": 4, "short_factor": "1,1", "long_factor": str(path), "seq_len": 5000}
    waves = waves_of("rope-longrope", given, 5000)
    assert [float(f) for f in waves.frequencies(exact)] == [1.0, 0.004]


NO_LIST = "must hold a JSON list of numbers"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, NO_LIST) for text in ("{}", "[]", "[1", "3", '"1,2"', "null", "[" * 100_000)),
        ('{"1": 2, "3": 4}', NO_LIST),
        ('["1", [2]]', "must be a number"),
        ("[true]", "must be a number"),
        (f"[1{' ' * (1 << 20)}]", "is larger than 1 MiB"),
    ],
)
def test_a_file_that_holds_no_list_of_numbers_is_refused(text, words, tmp_path):
    path = tmp_path / "factors.json"
    path.write_text(text)
    given = {"dim": 4, "short_factor": "1,1", "long_factor": str(path)}
    with pytest.raises(InvalidInput) as refused:
        BUILT_IN["rope-longrope"].bind(given)
    assert words in refused.value.message
