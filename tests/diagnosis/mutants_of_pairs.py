"""Mistakes in what pairs are: their columns, their frequencies, their amplitude."""

import math

import numpy as np

from tests.diagnosis.mutation import APPLIED, FAST, WHOLE, Mutants, turned
from tests.diagnosis.textbook import (
    HALF,
    SHORT,
    dynamic,
    ladder,
    linear,
    llama3,
    ntk,
    proportional,
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
mutant("cosine_negated", "plain", "unknown", "cosine negated", mend=lambda c, s: (-c, s))
mutant("cosine_twice", "plain", "unknown", "cosines where sines belong", relative=False,
    mend=lambda c, _: (c, c))
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
mutant("parallel_first", "wide", "unknown",
    "2 ranks have the first slice of the frequencies", subjects=WHOLE,
    inv_freq=np.tile(ladder(128, 5e5)[:32], 2))
mutant("parallel_narrow", "wide", "frequency-rule|base",
    "the width of one of 2 ranks in the exponents", inv_freq=5e5 ** -(np.arange(64) * 2 / 64))

# Scalings.
mutant("llama3_blend_kept", "llama3", "unknown",
    "Llama 3 without its blend: between, pairs are kept", inv_freq=llama3(128, 5e5, blend=False))
mutant("llama3_low", "llama3", "frequency-rule", "low_freq_factor 2 for 1",
    inv_freq=llama3(128, 5e5, low=2))
mutant("llama3_linear", "llama3", "frequency-rule", "all of Llama 3's pairs divided",
    inv_freq=ladder(128, 5e5) / 8)
mutant("yarn_ramp_base", "yarn", "unknown", "YaRN's ramp from base 500000",
    inv_freq=yarn(128, 1e4, 16, ramp_base=5e5))
mutant("yarn_length", "yarn", "frequency-rule", "YaRN's ramp from 2048 positions",
    inv_freq=yarn(128, 1e4, 16, original=2048))
mutant("yarn_fast", "yarn", "frequency-rule", "beta_fast 16 for 32",
    inv_freq=yarn(128, 1e4, 16, fast=16))
mutant("yarn_ramp_turned", "yarn", "frequency-rule", "YaRN's ramp the wrong way round",
    inv_freq=ladder(128, 1e4) * (1 + 1 / 16) - yarn(128, 1e4, 16))
mutant("yarn_factor", "yarn", "frequency-rule",
    "YaRN's factor 8 for 16, the attention factor as it was", inv_freq=yarn(128, 1e4, 8))
mutant("yarn_base_times_factor", "yarn", "frequency-rule",
    "the factor inside the power of slow pairs",
    inv_freq=yarn(128, 1e4, 16) - (ladder(128, 1e4) / 16 - ladder(128, 16e4))
    * np.clip(YARN_RUN, 0, 1))
mutant("ntk_factor", "ntk", "frequency-rule|base", "NTK's factor 8 for 4", inv_freq=ntk(64, 1e4, 8))
mutant("ntk_dropped", "ntk", "scaling-missing", "NTK dropped", inv_freq=ladder(64, 1e4))
mutant("linear_multiplied", "linear", "frequency-rule", "interpolation multiplies",
    inv_freq=ladder(64, 1e4) * 4)
mutant("linear_factor", "million", "frequency-rule", "factor 4 for 8", inv_freq=linear(128, 1e6, 4))
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
mutant("dynamic_plain", "dynamic", "frequency-rule", "the factor alone in place of the length's",
    inv_freq=ntk(64, 1e4, 4))
mutant("longrope_short", "longrope", "frequency-rule", "short_factor for long_factor",
    inv_freq=ladder(64, 1e4) / SHORT)
mutant("longrope_dropped", "longrope", "scaling-missing", "LongRoPE's lists dropped",
    inv_freq=ladder(64, 1e4))

# Ladders.
mutant("integer_exponents", "plain", "frequency-rule", "integer exponents: all frequencies are 1",
    inv_freq=ladder(64, 1e4) ** 0)
mutant("integer_floor", "plain", "frequency-rule",
    "integer exponents: all but the first are 1/base",
    inv_freq=1e4 ** -np.minimum(np.arange(32.0), 1))
mutant("log_base", "plain", "base|frequency-rule", "log10 of the base in exp",
    inv_freq=np.exp(-4.0 * np.arange(0, 64, 2) / 64))
mutant("one_pair", "plain", "unknown", "one frequency off by a hundredth",
    inv_freq=ladder(64, 1e4) * np.where(np.arange(32) == 5, 1.01, 1))
mutant("nearly", "plain", "unknown", "all frequencies times 1 + 9e-7",
    inv_freq=ladder(64, 1e4) * (1 + 9e-7),
    positions="0:256,1000:1064,32768:32832,65500:65564,131008:131072")
mutant("wavelengths", "plain", "frequency-rule", "wavelengths for frequencies",
    inv_freq=2 * math.pi / ladder(64, 1e4))
mutant("not_inverse", "plain", "frequency-rule", "the inverse of each frequency",
    inv_freq=1 / ladder(64, 1e4))
mutant("doubled_positions", "plain", "frequency-rule", "positions counted in steps of 2",
    remap=lambda p: 2 * p)
mutant("normalized", "plain", "frequency-rule", "positions divided by the length",
    remap=lambda p: p / 4096)

# Frequencies that nobody wrote.
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
mutant("factor_mscale", "deepseek", "attention-factor", "mscale_all_dim ignored",
    scale=yarn_scale(40))
mutant("softmax_scale", "plain", "attention-factor", "1/√d multiplied into the tables", scale=1 / 8)

# Scalings.
mutant("llama3_factor_rounded", "llama3", "frequency-rule", "factor 32, frequencies in bfloat16",
    also="inv-freq-precision", inv_freq=llama3(128, 5e5, 32), inv_in="bfloat16")

# Ladders.
mutant("proportional_more", "proportional", "rotary-dim", "32 pairs turn, not 16",
    inv_freq=proportional(128, 1e6, 32))

# Ladders that were computed in a coarse format.
mutant("rungs_single", "yarn", "unknown", "a ladder of products in float32, under YaRN",
    inv_freq=rungs(1e4, 64, "float32") * yarn(128, 1e4, 16) / ladder(128, 1e4))


# Blends and ramps along other curves.
mutant("llama3_of_logarithms", "llama3", "frequency-rule", "a blend linear in ln wavelength",
    inv_freq=blended(np.log(np.maximum(1 + 3 * RUN, 1e-9)) / np.log(4)))
mutant("llama3_of_wavelengths", "llama3", "frequency-rule", "a blend linear in the wavelength",
    inv_freq=blended((1 - 1 / (1 + 3 * RUN)) / (1 - 1 / 4)))
mutant("yarn_gamma", "yarn", "frequency-rule", "the paper's ramp, linear in turns",
    inv_freq=ramped(1 - np.clip((YARN_TURNS - 1) / 31, 0, 1)))
# fmt: on
