"""Mistakes in what pairs are: their columns, their frequencies, their amplitude."""

from __future__ import annotations

import math

import numpy as np

from tests.diagnosis.mutation import APPLIED, FAST, KEPT, WHOLE, Mutants, turned
from tests.diagnosis.textbook import (
    HALF,
    LONG,
    SHORT,
    dynamic,
    ladder,
    linear,
    llama3,
    ntk,
    proportional,
    to,
    yarn,
    yarn_scale,
)

MUTANTS = Mutants()
mutant = MUTANTS.add


def rungs(base, pairs, dtype, operation=np.multiply, *, up=False):
    """A ladder each of whose frequencies, or periods, is made of the one before in a format."""
    dtype = HALF.get(dtype, dtype)
    step = dtype(base ** ((1 if up else -1) / pairs))
    made = [dtype(1)]
    for _ in range(pairs - 1):
        made.append(dtype(operation(made[-1], step)))
    return np.array(made, float)


def coded(values, last, *, group=None, zero_point=False):
    """Whole codes of a scale for all, or for groups of so many."""
    parts = values.reshape(-1, group or len(values))
    steps = parts.max(1, keepdims=True) - (parts.min(1, keepdims=True) if zero_point else 0)
    return (np.rint(parts / steps * last) * steps / last).ravel()


def flushed(values):
    """Float16 without its subnormal numbers."""
    half = values.astype(np.float16).astype(float)
    return np.where(half < 2.0**-14, 0, half)


LLAMA = ladder(128, 5e5)
RUN = (8192 * LLAMA / (2 * math.pi) - 1) / 3
"""How far pairs of Llama 3 are on their way from slowed, 0, to kept, 1."""


def blended(share):
    """Llama 3's pairs, those between the thresholds by other shares of the kept."""
    inside = (RUN > 0) & (RUN < 1)
    return np.where(inside, share * LLAMA + (1 - share) * LLAMA / 8, llama3(128, 5e5))


def ramped(ramp):
    """YaRN's pairs by another ramp, 0 where they are kept."""
    return ladder(128, 1e4) * (1 - ramp) + ladder(128, 1e4) / 16 * ramp


YARN_TURNS = 4096 * ladder(128, 1e4) / (2 * math.pi)
YARN_RUN = (np.arange(64) - 20) / (46 - 20)

# fmt: off
# Layout, direction and partners of a part.
mutant("partial_interleaved", "partial", "layout", "24 turning columns paired 2i, 2i+1",
    subjects=APPLIED, layout="interleaved")
mutant("yarn_interleaved", "deepseek", "layout",
    "an indexer that pairs otherwise than its attention", layout="interleaved")
mutant("backward_slow", "plain", "unknown",
    "sine negated in the slow half of the pairs", mend=lambda c, s: (c, s * np.where(FAST, 1, -1)))
mutant("backward_odd", "plain", "unknown", "sine negated in every second pair",
    mend=lambda c, s: (c, s * np.where(np.arange(32) % 2, -1, 1)))
mutant("cosine_negated", "plain", "unknown", "cosine negated", mend=lambda c, s: (-c, s))
mutant("both_negated", "plain", "unknown", "cosine and sine negated",
    mend=lambda c, s: (-c, -s))
mutant("swapped_half", "plain", "unknown",
    "cosines and sines swapped in the slow half of the pairs",
    mend=lambda c, s: (np.where(FAST, c, s), np.where(FAST, s, c)))
mutant("cosine_twice", "plain", "unknown", "cosines where sines belong", relative=False,
    mend=lambda c, _: (c, c))
mutant("sine_half_zero", "plain", "unknown", "zeros in the second half of the sines",
    relative=False, wide=lambda c, s: (np.tile(c, (1, 2)), np.concatenate([s, 0 * s], 1)))
mutant("minus_twice", "plain", "cos-sin-mispaired", "the minus of rotate_half in the sines too",
    relative=False, wide=lambda c, s: (np.tile(c, (1, 2)), np.concatenate([-s, s], 1)))
mutant("pairs_reversed_apply", "plain", "cos-sin-mispaired|frequency-rule",
    "tables applied to the pairs in reverse order", subjects=APPLIED,
    apply=lambda x, c, s, _: turned(x, c[:, ::-1], s[:, ::-1]))
mutant("one_of_two", "plain", "unknown", "only the first column of a pair is replaced",
    relative=False, subjects=APPLIED,
    apply=lambda x, c, s, _: np.concatenate([turned(x, c, s)[:, :32], x[:, 32:]], 1))
mutant("rotated_twice", "plain", "frequency-rule", "q and k rotated twice", subjects=APPLIED,
    apply=lambda x, c, s, _: turned(turned(x, c, s), c, s))
mutant("added", "plain", "unknown", "the sinusoid is added", relative=False, subjects=("impl",),
    apply=lambda x, c, s, _: x + np.concatenate([s[:, :32], c[:, :32]], 1))
mutant("only_cosine", "plain", "unknown", "the term of the sines is missing",
    relative=False, subjects=APPLIED, apply=lambda x, c, *_: x * c)

# Tensor parallelism.
mutant("parallel_restarted", "wide", "unknown",
    "each of 2 ranks makes a ladder of its own width", subjects=WHOLE,
    inv_freq=np.tile(ladder(64, 5e5), 2))
mutant("parallel_restarted_4", "wide", "unknown",
    "each of 4 ranks makes a ladder of its own width", subjects=WHOLE,
    inv_freq=np.tile(ladder(32, 5e5), 4))
mutant("parallel_first", "wide", "unknown",
    "2 ranks have the first slice of the frequencies", subjects=WHOLE,
    inv_freq=np.tile(ladder(128, 5e5)[:32], 2))
mutant("parallel_last", "wide", "unknown", "2 ranks have the last slice of the frequencies",
    subjects=WHOLE, inv_freq=np.tile(ladder(128, 5e5)[32:], 2))
mutant("parallel_exchanged", "wide", "unknown", "the slices of 2 ranks are exchanged",
    inv_freq=np.roll(ladder(128, 5e5), 32))
mutant("parallel_strided", "wide", "unknown", "ranks take every second frequency",
    inv_freq=np.concatenate([ladder(128, 5e5)[::2], ladder(128, 5e5)[1::2]]))
mutant("parallel_llama3", "llama3", "unknown", "2 ranks have the first slice of Llama 3's",
    subjects=WHOLE, inv_freq=np.tile(llama3(128, 5e5)[:32], 2))
mutant("parallel_narrow", "wide", "frequency-rule|base",
    "the width of one of 2 ranks in the exponents", inv_freq=5e5 ** -(np.arange(64) * 2 / 64))

# Scalings.
mutant("llama3_blend_kept", "llama3", "unknown",
    "Llama 3 without its blend: between, pairs are kept", inv_freq=llama3(128, 5e5, blend=False))
mutant("llama3_blend_divided", "llama3", "unknown",
    "Llama 3 without its blend: between, pairs are divided",
    inv_freq=np.where(2 * math.pi / ladder(128, 5e5) < 2048, ladder(128, 5e5), ladder(128,
        5e5) / 8))
mutant("llama3_low", "llama3", "frequency-rule", "low_freq_factor 2 for 1",
    inv_freq=llama3(128, 5e5, low=2))
mutant("llama3_high", "llama3", "frequency-rule", "high_freq_factor 8 for 4",
    inv_freq=llama3(128, 5e5, high=8))
mutant("llama3_turn", "llama3", "unknown", "wavelengths without their 2π",
    inv_freq=llama3(128, 5e5, turn=1))
mutant("llama3_linear", "llama3", "frequency-rule", "all of Llama 3's pairs divided",
    inv_freq=ladder(128, 5e5) / 8)
mutant("llama3_multiplied", "llama3", "unknown", "Llama 3's factor multiplies",
    inv_freq=llama3(128, 5e5, 1 / 8))
mutant("llama3_twice", "llama3", "unknown", "Llama 3's rule applied twice",
    inv_freq=llama3(128, 5e5) ** 2 / ladder(128, 5e5))
mutant("yarn_ramp_base", "yarn", "unknown", "YaRN's ramp from base 500000",
    inv_freq=yarn(128, 1e4, 16, ramp_base=5e5))
mutant("yarn_ramp_width", "yarn", "unknown", "YaRN's ramp from width 64",
    inv_freq=yarn(128, 1e4, 16, ramp_width=64))
mutant("yarn_length", "yarn", "frequency-rule", "YaRN's ramp from 2048 positions",
    inv_freq=yarn(128, 1e4, 16, original=2048))
mutant("yarn_fast", "yarn", "frequency-rule", "beta_fast 16 for 32",
    inv_freq=yarn(128, 1e4, 16, fast=16))
mutant("yarn_slow", "yarn", "frequency-rule", "beta_slow 2 for 1",
    inv_freq=yarn(128, 1e4, 16, slow=2))
mutant("yarn_ramp_turned", "yarn", "frequency-rule", "YaRN's ramp the wrong way round",
    inv_freq=ladder(128, 1e4) * (1 + 1 / 16) - yarn(128, 1e4, 16))
mutant("yarn_kept_alone", "yarn", "unknown", "the interpolated part of the blend left out",
    inv_freq=ladder(128, 1e4) * (1 - np.clip(YARN_RUN, 0, 1)))
mutant("yarn_interpolated_alone", "yarn", "unknown", "the kept part of the blend left out",
    inv_freq=ladder(128, 1e4) / 16 * np.clip(YARN_RUN, 0, 1))
mutant("yarn_factor", "yarn", "frequency-rule",
    "YaRN's factor 8 for 16, the attention factor as it was", inv_freq=yarn(128, 1e4, 8))
mutant("yarn_base_times_factor", "yarn", "frequency-rule",
    "the factor inside the power of slow pairs",
    inv_freq=yarn(128, 1e4, 16) - (ladder(128, 1e4) / 16 - ladder(128, 16e4))
    * np.clip(YARN_RUN, 0, 1))
mutant("yarn_step", "yarn", "unknown", "YaRN without its ramp: pairs kept or divided",
    inv_freq=np.where(np.arange(64) < 33, ladder(128, 1e4), ladder(128, 1e4) / 16))
mutant("ntk_factor", "ntk", "frequency-rule|base", "NTK's factor 8 for 4", inv_freq=ntk(64, 1e4, 8))
mutant("ntk_dropped", "ntk", "scaling-missing", "NTK dropped", inv_freq=ladder(64, 1e4))
mutant("linear_multiplied", "linear", "frequency-rule", "interpolation multiplies",
    inv_freq=ladder(64, 1e4) * 4)
mutant("linear_factor", "million", "frequency-rule", "factor 4 for 8", inv_freq=linear(128, 1e6, 4))
mutant("linear_sliding", "plain", "frequency-rule", "the factor 8 of other layers applied",
    inv_freq=linear(64, 1e4, 8))
mutant("other_layers", "million", "scaling-missing|base",
    "base 10000 and no factor, as other layers have", also="scaling-missing|base",
    inv_freq=ladder(128, 1e4))
mutant("layers_base", "million", "base", "base 10000 of other layers", inv_freq=linear(128, 1e4, 8))
mutant("dynamic_never", "dynamic", "scaling-missing", "dynamic NTK that never grows",
    inv_freq=ladder(64, 1e4))
mutant("dynamic_fixed", "dynamic", "frequency-rule", "dynamic NTK of a fixed length",
    inv_freq=dynamic(64, 1e4, 4, 32768, 4096))
mutant("dynamic_qwen", "dynamic", "frequency-rule", "Qwen's stretch by powers of two",
    inv_freq=ntk(64, 1e4, 7))
mutant("shard_repeated", "wide", "unknown", "the third of 4 shards gathered four times",
    inv_freq=np.tile(ladder(128, 5e5)[32:48], 4))
mutant("dynamic_plain", "dynamic", "frequency-rule", "the factor alone in place of the length's",
    inv_freq=ntk(64, 1e4, 4))
mutant("longrope_short", "longrope", "frequency-rule", "short_factor for long_factor",
    inv_freq=ladder(64, 1e4) / SHORT)
mutant("longrope_dropped", "longrope", "scaling-missing", "LongRoPE's lists dropped",
    inv_freq=ladder(64, 1e4))
mutant("longrope_multiplied", "longrope", "unknown", "LongRoPE's list multiplies",
    inv_freq=ladder(64, 1e4) * LONG)

# Ladders.
mutant("integer_exponents", "plain", "frequency-rule", "integer exponents: all frequencies are 1",
    inv_freq=ladder(64, 1e4) ** 0)
mutant("integer_floor", "plain", "frequency-rule",
    "integer exponents: all but the first are 1/base",
    inv_freq=1e4 ** -np.minimum(np.arange(32.0), 1))
mutant("log_base", "plain", "base|frequency-rule", "log10 of the base in exp",
    inv_freq=np.exp(-4.0 * np.arange(0, 64, 2) / 64))
mutant("base_digits", "wide", "base", "base 50000 for 500000", inv_freq=ladder(128, 5e4))
mutant("base_huge", "wide", "base", "base 10^8 for 500000", inv_freq=ladder(128, 1e8))
mutant("width_wrong", "wide", "frequency-rule|base", "exponents of width 96 for 128",
    inv_freq=ladder(128, 5e5, 96))
mutant("last_repeated", "plain", "unknown", "the last frequency repeats the one before",
    inv_freq=ladder(64, 1e4)[np.minimum(np.arange(32), 30)])
mutant("first_repeated", "plain", "unknown", "the first frequency comes twice",
    inv_freq=ladder(64, 1e4)[np.maximum(np.arange(32) - 1, 0)])
mutant("one_pair", "plain", "unknown", "one frequency off by a hundredth",
    inv_freq=ladder(64, 1e4) * np.where(np.arange(32) == 5, 1.01, 1))
mutant("two_exchanged", "plain", "unknown", "two frequencies exchanged",
    inv_freq=ladder(64, 1e4)[[*range(9), 10, 9, *range(11, 32)]])
mutant("shifted", "plain", "unknown", "frequencies of the pair after, the last twice",
    inv_freq=ladder(64, 1e4)[np.minimum(np.arange(32) + 1, 31)])
mutant("nearly", "plain", "unknown", "all frequencies times 1 + 9e-7",
    inv_freq=ladder(64, 1e4) * (1 + 9e-7),
    positions="0:256,1000:1064,32768:32832,65500:65564,131008:131072")
mutant("three_digits", "plain", "unknown", "frequencies of four digits",
    inv_freq=np.array([float(f"{each:.3e}") for each in ladder(64, 1e4)]))
mutant("wavelengths", "plain", "frequency-rule", "wavelengths for frequencies",
    inv_freq=2 * math.pi / ladder(64, 1e4))
mutant("not_inverse", "plain", "frequency-rule", "the inverse of each frequency",
    inv_freq=1 / ladder(64, 1e4))
mutant("doubled_positions", "plain", "frequency-rule", "positions counted in steps of 2",
    remap=lambda p: 2 * p)
mutant("normalized", "plain", "frequency-rule", "positions divided by the length",
    remap=lambda p: p / 4096)

# Frequencies that nobody wrote.
mutant("uninitialised_normal", "plain", "unknown", "frequencies never written: noise",
    relative=None, inv_freq=np.random.default_rng(3).standard_normal(32))
mutant("uninitialised_huge", "plain", "uninitialised",
    "frequencies never written: sizes of all kinds", relative=None,
    inv_freq=np.random.default_rng(4).integers(
        1, 2**31 - 2**24, 32, np.int32).view(np.float32).astype(np.float64))
mutant("uninitialised_tiny", "wide", "uninitialised|no-rotation",
    "frequencies never written: denormals", inv_freq=np.full(64, 1e-41))
mutant("uninitialised_zero", "wide", "uninitialised|no-rotation",
    "frequencies never written: zeros", inv_freq=np.zeros(64))
mutant("uninitialised_first", "wide", "uninitialised", "the first 6 frequencies overwritten",
    relative=None,
    inv_freq=np.concatenate([[4.6e-41, 0, 3.1e-38, 0, -2.2e5, 7.6], ladder(128, 5e5)[6:]]))
mutant("uninitialised_nan", "plain", "uninitialised|not-a-number",
    "frequencies never written: no numbers among them", relative=None,
    inv_freq=np.where(np.arange(32) % 5 == 3, np.nan,
        np.random.default_rng(5).standard_normal(32) * 1e3))
mutant("float32_as_bfloat16", "plain", "uninitialised|frequency-rule",
    "the bytes of float32 read as bfloat16", relative=None,
    inv_freq=ladder(64, 1e4).astype(np.float32).view(HALF["bfloat16"])[:32].astype(np.float64))

# Partial rotation.
mutant("proportional_inside", "proportional", "layout", "partners inside the 32 turning columns",
    relative=None, subjects=APPLIED,
    apply=lambda x, c, s, _: np.concatenate([
        turned(x[:, :32], np.tile(c[:, :16], 2), np.tile(s[:, :16], 2)), x[:, 32:]], 1))
mutant("proportional_partial", "proportional", "layout|frequency-rule|rotary-dim",
    "built as a partial rotation", also="layout|frequency-rule|rotary-dim", relative=None,
    subjects=("tables", *APPLIED), inv_freq=ladder(32, 1e6))
mutant("proportional_exponents", "proportional", "frequency-rule",
    "exponents divide by the 32 turning columns",
    inv_freq=np.concatenate([ladder(32, 1e6), np.zeros(48)]))
mutant("proportional_whole", "proportional", "rotary-dim|scaling-missing",
    "the share that turns ignored", inv_freq=ladder(128, 1e6))
mutant("partial_last", "partial", "rotary-dim|layout", "the last 24 columns turn, not the first",
    subjects=("impl",),
    apply=lambda x, c, s, _: np.concatenate([x[:, :72], turned(x[:, 72:], c, s)], 1))
mutant("passed_scaled", "partial", "attention-factor|rotary-dim",
    "columns that should stay multiplied by 1.138", subjects=APPLIED, relative=None,
    apply=lambda x, c, s, _: np.concatenate([turned(x[:, :24], c, s), x[:, 24:] * 1.138], 1))
mutant("passed_zeroed", "partial", "rotary-dim", "columns that should stay set to zero",
    subjects=APPLIED, relative=None,
    apply=lambda x, c, s, _: np.concatenate([turned(x[:, :24], c, s), x[:, 24:] * 0], 1))
mutant("wider_head", "plain", "rotary-dim", "tables of a head of 128 columns", relative=None,
    subjects=("tables", "half"), inv_freq=ladder(128, 1e4))
mutant("narrower_head", "wide", "rotary-dim", "tables of a head of 64 columns",
    subjects=("tables", "half"), inv_freq=ladder(64, 5e5))

# The attention factor.
mutant("factor_without_one", "yarn", "attention-factor", "attention factor 0.1 ln s without 1",
    scale=yarn_scale(16) - 1)
mutant("factor_inverse", "yarn", "attention-factor", "divided by the attention factor",
    scale=1 / yarn_scale(16))
mutant("factor_log10", "yarn", "attention-factor", "attention factor by log10",
    scale=0.1 * math.log10(16) + 1)
mutant("factor_mscale", "deepseek", "attention-factor", "mscale_all_dim ignored",
    scale=yarn_scale(40))
mutant("factor_longrope", "longrope", "attention-factor", "YaRN's attention factor for LongRoPE's",
    scale=yarn_scale(32))
mutant("factor_on_sine", "yarn", "unknown",
    "only the sine carries the factor", relative=False, mend=lambda c, s: (c / yarn_scale(16), s))
mutant("factor_of_slow", "yarn", "unknown", "only the divided pairs carry the factor",
    mend=lambda c, s: (c / KEPT, s / KEPT))
mutant("softmax_scale", "plain", "attention-factor", "1/√d multiplied into the tables", scale=1 / 8)

# Scalings.
for _name, _number in (("log10", 10), ("log2", 2)):
    mutant(f"yarn_{_name}", "yarn", "unknown", f"YaRN's ramp by {_name} of the base",
        inv_freq=yarn(128, 1e4, 16, ramp_width=128 * math.log(_number)))
mutant("yarn_ladder_base", "yarn", "unknown",
    "a ladder of base 500000 with the ramp of base 10000",
    inv_freq=yarn(128, 5e5, 16, ramp_base=1e4))
mutant("longrope_neighbour", "longrope", "unknown", "LongRoPE's numbers of the pair before",
    inv_freq=ladder(64, 1e4) / np.roll(LONG, 1))
mutant("longrope_roots", "longrope", "unknown", "the roots of LongRoPE's numbers",
    inv_freq=ladder(64, 1e4) / np.sqrt(LONG))
mutant("longrope_both", "longrope", "unknown", "both lists of LongRoPE at once",
    inv_freq=ladder(64, 1e4) / LONG / SHORT)
mutant("longrope_mean", "longrope", "unknown", "the mean of LongRoPE's lists",
    inv_freq=2 * ladder(64, 1e4) / (LONG + SHORT))
mutant("divisors", "llama3", "unknown", "what frequencies are divided by, for frequencies",
    subjects=(), inv_freq=ladder(128, 5e5) / llama3(128, 5e5))
mutant("llama3_factor_rounded", "llama3", "frequency-rule", "factor 32, frequencies in bfloat16",
    also="inv-freq-precision", inv_freq=llama3(128, 5e5, 32), inv_in="bfloat16")
mutant("parallel_base", "wide", "unknown",
    "each of 2 ranks makes a ladder of its own width, of base 10000",
    also="frequency-rule|base", subjects=WHOLE, inv_freq=np.tile(ladder(64, 1e4), 2))

# Ladders.
mutant("whole_tens", "wide", "unknown", "exponents of ten cut to whole numbers",
    inv_freq=10.0 ** np.ceil(np.log10(ladder(128, 5e5))))
mutant("places_cut", "wide", "unknown", "frequencies cut to three decimal places",
    inv_freq=np.floor(ladder(128, 5e5) * 1000) / 1000)
mutant("fixed_point", "wide", "unknown", "frequencies in fixed point of 16 bits",
    inv_freq=np.rint(ladder(128, 5e5) * 2**16) / 2**16)
mutant("fixed_point_cut", "plain", "unknown", "frequencies cut to 15 bits",
    inv_freq=np.floor(ladder(64, 1e4) * 2**15) / 2**15)
mutant("proportional_more", "proportional", "rotary-dim", "32 pairs turn, not 16",
    inv_freq=proportional(128, 1e6, 32))
mutant("proportional_one_more", "proportional", "rotary-dim", "17 pairs turn, not 16",
    inv_freq=proportional(128, 1e6, 17))
mutant("proportional_slowest", "proportional", "unknown", "the 16 slowest pairs turn",
    inv_freq=np.where(np.arange(64) < 48, 0, ladder(128, 1e6)))
mutant("proportional_ones", "proportional", "unknown", "pairs that should stand turn by 1",
    inv_freq=np.where(np.arange(64) < 16, ladder(128, 1e6), 1))

# Ladders that were computed in a coarse format.
mutant("rungs_bfloat16", "wide", "unknown", "a ladder of products in bfloat16",
    inv_freq=rungs(5e5, 64, "bfloat16"))
mutant("rungs_divided", "plain", "unknown", "a ladder of quotients in float16",
    inv_freq=rungs(1e4, 32, "float16", np.divide, up=True))
mutant("rungs_of_periods", "plain", "unknown", "periods multiplied up in bfloat16",
    inv_freq=1 / rungs(1e4, 32, "bfloat16", up=True))
mutant("rungs_single", "yarn", "unknown", "a ladder of products in float32, under YaRN",
    inv_freq=rungs(1e4, 64, "float32") * yarn(128, 1e4, 16) / ladder(128, 1e4))
mutant("rungs_linear", "million", "unknown", "a ladder of products in float16, over 8",
    inv_freq=rungs(1e6, 64, "float16") / 8)
mutant("rungs_ntk", "ntk", "unknown", "NTK's ladder of products in bfloat16",
    inv_freq=rungs(1e4 * 4 ** (64 / 62), 32, "bfloat16"))
mutant("logarithms_bfloat16", "plain", "unknown", "exp of logarithms in bfloat16",
    inv_freq=np.exp(np.asarray(HALF["bfloat16"](
        -np.log(1e4) * np.arange(32) / 32), np.float64)))
mutant("powers_bfloat16", "wide", "unknown", "1 / base^exponent, in bfloat16 throughout",
    inv_freq=np.asarray(HALF["bfloat16"](1) / HALF["bfloat16"](
        5e5 ** (np.arange(64) / 64).astype(HALF["bfloat16"]).astype(float)), np.float64))

# Frequencies in few bits.
mutant("frequencies_int4", "plain", "unknown", "frequencies in int4, slow ones 0",
    inv_freq=coded(ladder(64, 1e4), 7))
mutant("frequencies_int8_groups", "wide", "unknown",
    "frequencies in int8, a scale for each 16", inv_freq=coded(LLAMA, 127, group=16))
mutant("frequencies_uint8", "yarn", "unknown", "frequencies in uint8 with a zero point",
    inv_freq=coded(yarn(128, 1e4, 16), 255, zero_point=True))
mutant("frequencies_six_bits", "linear", "unknown", "frequencies in 63 steps",
    inv_freq=coded(linear(64, 1e4, 4), 63))
mutant("frequencies_scaled_e5m2", "plain", "unknown", "frequencies times 3, in fp8",
    inv_freq=to(ladder(64, 1e4) * 57344, "e5m2").astype(float) / 57344)
mutant("frequencies_logarithms", "llama3", "unknown", "logarithms in int8",
    inv_freq=np.exp(-coded(-np.log(llama3(128, 5e5)), 127)))
mutant("frequencies_flushed", "million", "unknown",
    "frequencies in float16 without subnormal numbers", inv_freq=flushed(linear(128, 1e6, 8)))
mutant("frequencies_flushed_yarn", "deepseek", "unknown",
    "YaRN's frequencies in float16 without subnormal numbers", inv_freq=flushed(yarn(64, 1e4, 40)))

# Blends and ramps along other curves.
mutant("llama3_of_logarithms", "llama3", "frequency-rule", "a blend linear in ln wavelength",
    inv_freq=blended(np.log(np.maximum(1 + 3 * RUN, 1e-9)) / np.log(4)))
mutant("llama3_of_wavelengths", "llama3", "frequency-rule", "a blend linear in the wavelength",
    inv_freq=blended((1 - 1 / (1 + 3 * RUN)) / (1 - 1 / 4)))
mutant("llama3_smooth", "llama3", "unknown", "a blend by a smooth step",
    inv_freq=blended(RUN**2 * (3 - 2 * RUN)))
mutant("llama3_unclamped", "llama3", "unknown", "a blend that goes on past both thresholds",
    relative=None, subjects=("tables",), inv_freq=RUN * LLAMA + (1 - RUN) * LLAMA / 8)
mutant("llama3_unclamped_below", "llama3", "unknown", "a blend that goes on past 0",
    inv_freq=np.minimum(RUN, 1) * LLAMA + (1 - np.minimum(RUN, 1)) * LLAMA / 8)
mutant("llama3_over_high", "llama3", "unknown", "a blend that divides by high_freq_factor",
    inv_freq=blended(RUN * 3 / 4))
mutant("yarn_gamma", "yarn", "frequency-rule", "the paper's ramp, linear in turns",
    inv_freq=ramped(1 - np.clip((YARN_TURNS - 1) / 31, 0, 1)))
mutant("yarn_of_wavelengths", "yarn", "unknown", "a ramp linear in the wavelength",
    inv_freq=ramped(np.clip((1 / YARN_TURNS - 1 / 32) / (1 - 1 / 32), 0, 1)))
mutant("yarn_past_end", "yarn", "unknown", "a ramp that goes on past its last end",
    relative=None, inv_freq=ramped(np.maximum(YARN_RUN, 0)))
mutant("yarn_inward", "yarn", "unknown", "the ends of the ramp rounded inward",
    inv_freq=ramped(np.clip((np.arange(64) - 21) / (45 - 21), 0, 1)))
mutant("yarn_geometric", "yarn", "unknown", "frequencies divided by powers of the factor",
    inv_freq=ladder(128, 1e4) / 16 ** np.clip(YARN_RUN, 0, 1))
# fmt: on
