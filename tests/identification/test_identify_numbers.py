"""Numbers that no short decimal is: the tables are those of other libraries' code, in NumPy."""

import math

import numpy as np
import pytest

from posenc_cli.identification.search import identify
from posenc_cli.inference.evidence import Evidence
from posenc_cli.numerics.dtypes import BFLOAT16
from posenc_cli.numerics.rounding import narrow, widen

F32 = np.float32


def inv_freq(dim, base=10_000.0):
    """As transformers' modeling_rope_utils compute it."""
    return 1 / F32(base) ** (np.arange(0, dim, 2).astype(F32) / F32(dim))


def yarn(dim, factor, *, base=10_000.0, context=4096):
    """As transformers' _compute_yarn_parameters."""
    low, high = (
        dim * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (32, 1)
    )
    low, high = max(math.floor(low), 0), min(math.ceil(high), dim - 1)
    ramp = np.clip((np.arange(dim // 2, dtype=F32) - F32(low)) / F32(high - low), 0, 1).astype(F32)
    kept = inv_freq(dim, base)
    return kept / F32(factor) * ramp + kept * (1 - ramp), 0.1 * math.log(factor) + 1


def ladder(dim, base):
    return base ** -(np.arange(dim // 2) / (dim // 2))


def angles(frequencies, rows):
    return np.arange(rows, dtype=frequencies.dtype)[:, None] * frequencies


def halves(table_of, frequencies, rows, scale=1.0):
    each = (table_of(angles(frequencies, rows)) * F32(scale)).astype(F32)
    return np.concatenate([each, each], axis=1)


def side_by_side(frequencies, rows, scale=1.0):
    turned = angles(frequencies, rows)
    return np.concatenate([np.cos(turned), np.sin(turned)], axis=1) * frequencies.dtype.type(scale)


def interleaved(frequencies, rows):
    turned = angles(frequencies, rows)
    return np.stack([np.cos(turned), np.sin(turned)], axis=-1).reshape(rows, -1)


def found_in(*arrays, dtype=None):
    return identify(Evidence.of_arrays(*arrays, dtype=dtype)).match


def bfloat16(table):
    return widen(narrow(table.astype(np.float64), None, BFLOAT16), BFLOAT16).astype(F32)


FORMS = {
    "inv_freq": lambda f: [f],
    "half": lambda f: [halves(np.cos, f, 512), halves(np.sin, f, 512)],
    "cos|sin": lambda f: [side_by_side(f, 700)],
    "interleaved": lambda f: [interleaved(f, 700)],
    "float16": lambda f: [side_by_side(f, 700).astype(np.float16)],
    "bfloat16": lambda f: [bfloat16(side_by_side(f, 700))],
    "float64": lambda f: [side_by_side(f.astype(np.float64), 300)],
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "factor"),
    [
        *((form, 4 / 3) for form in FORMS),
        *((form, factor) for form in ("inv_freq", "half") for factor in (8 / 3, 4 ** (128 / 126))),
    ],
)
def test_a_factor_of_all_frequencies_is_found_in_every_form(form, factor):
    arrays = FORMS[form](inv_freq(128) / F32(factor))
    found = found_in(*arrays, dtype="bfloat16" if form == "bfloat16" else None)
    assert (found.scheme, found.params["base"]) == ("rope-linear", 10_000.0)
    assert found.params["factor"] == pytest.approx(factor, rel=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("factor", [5 / 3, 10 / 3])
def test_yarns_factor_is_found_in_frequencies_and_tables(factor):
    frequencies, scale = yarn(128, factor)
    for arrays in (
        [frequencies],
        [halves(np.cos, frequencies, 400, scale), halves(np.sin, frequencies, 400, scale)],
        [bfloat16(side_by_side(frequencies, 700, scale))],
    ):
        found = found_in(*arrays)
        assert found.scheme == "rope-yarn"
        assert found.params["factor"] == pytest.approx(factor, rel=1e-15)


def test_keras_hubs_dynamic_is_said_to_divide_by_a_power():
    found = found_in(inv_freq(64) / F32(8 ** (64 / 62)))
    assert found.params["factor"] == 8 ** (64 / 62)
    assert any("8^(64/62)" in note and "keras-hub" in note for note in found.notes)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_stretched_base_is_not_taken_for_one_that_nearly_fits(dtype):
    stretched = 10_000.0 * 2.7182818 ** (64 / 62)
    table = side_by_side(ladder(64, stretched), 2000).astype(dtype)
    result = identify(Evidence.of_arrays(table))
    assert (result.match.scheme, result.match.params["factor"]) == ("rope-ntk", 2.7182818)
    assert {"rope", "sinusoidal"} & {each.scheme for each in result.candidates if each.fits}


@pytest.mark.long
def test_a_known_base_that_only_comes_near_gives_way_to_the_one_that_gives_every_cell():
    found = found_in(side_by_side(ladder(64, 10_000.001), 100))
    assert found.params["base"] == 10_000.001


@pytest.mark.long
@pytest.mark.parametrize("base", [11_158_840.0, 207_112_184.0, 283_461_213.0, 3_580_165_449.0])
def test_the_base_of_a_published_model_comes_before_a_factor_that_gives_nearly_the_same(base):
    """Of Tencent's Hunyuan and Hy3, and of Gradient's Llama 3 for long contexts."""
    for found in (
        found_in(inv_freq(128, base)),
        found_in(halves(np.cos, inv_freq(128, base), 300)),
    ):
        assert (found.scheme, found.params["base"]) == ("rope", base)


@pytest.mark.parametrize("base", [12_345.6789, 77_777.7])
def test_the_cells_determine_a_base_of_many_digits(base):
    found = found_in(side_by_side(ladder(64, base), 1000).astype(F32))
    assert (found.scheme, found.params["base"], found.uncertainty) == ("rope", base, {})


@pytest.mark.long
@pytest.mark.parametrize("factor", [math.pi, 1.25 * (1 + 1e-7), 4 / 3 * (1 + 5e-8)])
def test_a_written_factor_gives_way_to_the_fitted_one_that_gives_every_cell(factor):
    """As 355/113 does to π: within the error of each frequency, and wrong in most of them."""
    found = found_in((ladder(64, 10_000.0) / factor).astype(F32))
    assert (found.scheme, found.equal) == ("rope-linear", 1)
    assert found.params["factor"] == pytest.approx(factor, rel=1e-8)
    assert found.params["factor"] not in (355 / 113, 1.25, 4 / 3)
    assert abs(found.params["factor"] - factor) <= found.uncertainty["factor"]


@pytest.mark.long
@pytest.mark.parametrize("dim", [32, 64, 256])
@pytest.mark.parametrize("factor", [2.0, 4 / 3])
def test_frequencies_that_float32_code_made_keep_the_factor_that_people_write(dim, factor):
    for base in (20_000.0, 500_000.0):
        steps = np.arange(0, dim, 2).astype(F32) / F32(dim)
        frequencies = F32(base) ** -steps / F32(factor)
        found = found_in(frequencies)
        assert (found.params["factor"], found.uncertainty) == (factor, {})


@pytest.mark.long
@pytest.mark.parametrize("wrong", ["pair", "noise", "swapped"])
def test_frequencies_that_no_factor_gives_are_not_identified(wrong):
    frequencies = inv_freq(128) / F32(4 / 3)
    if wrong == "pair":
        frequencies[20] *= F32(1.0002)
    elif wrong == "noise":
        noise = np.random.default_rng(0).normal(size=64)
        frequencies *= np.exp(1e-4 * noise).astype(F32)
    else:
        frequencies[[5, 6]] = frequencies[[6, 5]]
    assert found_in(frequencies) is None


@pytest.mark.long
def test_a_long_table_of_longrope_shows_its_long_factors_alone():
    factors = np.round(np.linspace(1.07, 24.3, 48) ** 1.1, 2)
    scale = math.sqrt(1 + math.log(32) / math.log(4096))
    for rows, shown, other in ((5000, "long_factor", "short_factor"),
                               (3000, "short_factor", "long_factor")):  # fmt: skip
        table = side_by_side(ladder(96, 10_000.0) / factors, rows, scale)
        found = found_in(table.astype(F32))
        assert found.scheme == "rope-longrope"
        assert found.params[shown] == pytest.approx(factors)
        assert other not in found.params
        assert f"{other}=" in found.commands[0]  # which the scheme cannot do without


@pytest.mark.parametrize("max_bias", [32 / 3, math.e, 10 / 3, 6.0])
@pytest.mark.parametrize("heads", [8, 12])
def test_the_largest_bias_of_alibi_is_any_number(heads, max_bias):
    """Press' slopes, 2^(−max_bias·h/n) for a power of two n, then every second of 2n."""
    power = 1 << (heads.bit_length() - 1)
    slopes = 2 ** (-max_bias * np.arange(1, power + 1) / power)
    slopes = [*slopes, *(2 ** (-max_bias * np.arange(1, 2 * (heads - power), 2) / (2 * power)))]
    distances = np.abs(np.subtract.outer(np.arange(32), np.arange(32)))
    scores = np.multiply.outer(np.array(slopes), -distances)
    for given in (F32(scores), np.array(slopes)):
        found = found_in(given)
        assert found.scheme == "alibi"
        assert found.params["max_bias"] == pytest.approx(max_bias, rel=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("factor", [1 + 1e-7, 1.0001])
def test_a_factor_at_the_end_of_its_range_ends_in_a_verdict(factor):
    frequencies, scale = yarn(64, factor)
    table = side_by_side(frequencies.astype(np.float64), 300, scale)
    found = found_in(table + 1e-9 * np.random.default_rng(0).normal(size=table.shape))
    assert found is None or not found.forms


@pytest.mark.long
def test_float64_rows_of_a_ramp_of_unusual_numbers_give_all_its_digits():
    dim, factor, context, turns = 64, 4.0, 4096, (50.06372326031985, 2.453999533438161)
    low, high = (
        dim * math.log(context / (beta * 2 * math.pi)) / (2 * math.log(10_000)) for beta in turns
    )
    kept = ladder(dim, 10_000.0)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    frequencies = kept / factor * ramp + kept * (1 - ramp)
    table = side_by_side(frequencies, 300, 1.0094634407599503)
    match = found_in(table)
    assert match.scheme == "rope-yarn"
    found = match.params["beta_fast"], match.params["beta_slow"]
    assert found == pytest.approx(turns, rel=1e-10)  # of 50 radians, which float64 rounds by 1e-14
    assert match.residual <= 1e-12
