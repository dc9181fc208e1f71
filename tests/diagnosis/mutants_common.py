"""The mistakes that are made most often, at every stage of RoPE."""

import math

import numpy as np

from tests.diagnosis.mutation import APPLIED, FAST, Mutants, turned
from tests.diagnosis.textbook import ladder, linear, llama3, ntk, yarn, yarn_scale

MUTANTS = Mutants()
mutant = MUTANTS.add

# fmt: off
# Layout, direction, partners.
mutant("interleaved", "plain", "layout", "pairs 2i, 2i+1 for i, i+d/2", layout="interleaved")
mutant("backward", "plain", "direction", "sine negated", sign=-1)
mutant("still", "plain", "no-rotation", "q and k are returned as they are", subjects=APPLIED,
    apply=lambda x, *_: x.copy())
mutant("mispaired", "plain", "cos-sin-mispaired", "interleaved tables, halves rotated",
    relative=False, subjects=APPLIED,
    apply=lambda x, c, s, _: turned(x, np.repeat(c[:, :32], 2, 1), np.repeat(s[:, :32], 2, 1)))
mutant("half_mispaired", "plain", "cos-sin-mispaired", "sine interleaved, cosine in halves",
    relative=False, wide=lambda c, s: (np.tile(c, (1, 2)), np.repeat(s, 2, 1)))
mutant("cos_mispaired", "plain", "cos-sin-mispaired", "cosine interleaved, sine in halves",
    relative=False, wide=lambda c, s: (np.repeat(c, 2, 1), np.tile(s, (1, 2))))
mutant("swapped", "plain", "cos-sin-mispaired", "cosines and sines swapped",
    mend=lambda c, s: (s, c))
mutant("sine_reversed", "plain", "unknown", "sines in reverse order of pairs",
    mend=lambda c, s: (c, s[:, ::-1]), relative=False)
mutant("no_minus", "plain", "cos-sin-mispaired", "rotate_half without its minus", subjects=APPLIED,
    relative=False, apply=lambda x, c, s, r: x * c + np.roll(x, r.rotated // 2, 1) * s)
mutant("mirrored", "plain", "unknown", "a cosine with the wrong sign", subjects=APPLIED,
    relative=None,
    apply=lambda x, c, s, _: np.concatenate([
        x[:, :32] * c[:, :32] + x[:, 32:] * s[:, :32],
        x[:, :32] * s[:, :32] - x[:, 32:] * c[:, :32]], 1))
mutant("in_place", "plain", "cos-sin-mispaired", "second half turned by the already turned first",
    relative=False, subjects=APPLIED,
    apply=lambda x, c, s, _: np.concatenate([
        first := x[:, :32] * c[:, :32] - x[:, 32:] * s[:, :32],
        x[:, 32:] * c[:, :32] + first * s[:, :32]], 1))

# Frequencies.
mutant("base_lost", "wide", "base", "base 10000 for 500000", inv_freq=ladder(128, 1e4))
mutant("base_odd", "plain", "base", "base 12345 for 10000", inv_freq=ladder(64, 12345))
mutant("base_scaled_lost", "llama3", "base", "base 10000 under Llama 3's rule",
    inv_freq=llama3(128, 1e4))
mutant("llama3_dropped", "llama3", "scaling-missing", "Llama 3's scaling dropped",
    inv_freq=ladder(128, 5e5))
mutant("llama3_dropped_base", "llama3", "scaling-missing", "scaling and base dropped",
    inv_freq=ladder(128, 1e4))
mutant("llama3_half_dropped", "llama3", "unknown", "a part of the pairs unscaled",
    inv_freq=np.where(np.arange(64) % 2, ladder(128, 5e5), llama3(128, 5e5)))
mutant("llama3_factor", "llama3", "frequency-rule", "factor 32 for 8",
    inv_freq=llama3(128, 5e5, 32))
mutant("llama3_swapped", "llama3", "frequency-rule", "the blend runs the wrong way",
    inv_freq=np.where(np.isin(llama3(128, 5e5) / ladder(128, 5e5), [1, 1 / 8]),
        llama3(128, 5e5), ladder(128, 5e5) * (1 + 1 / 8) - llama3(128, 5e5)))
mutant("llama3_kept_alone", "llama3", "unknown", "Llama 3's blend without its slowed part",
    inv_freq=(llama3(128, 5e5) - ladder(128, 5e5) / 8) * 8 / 7)
mutant("llama3_original", "llama3", "frequency-rule", "original context 4096 for 8192",
    inv_freq=llama3(128, 5e5, original=4096))
mutant("linear_dropped", "linear", "scaling-missing", "interpolation dropped",
    inv_freq=ladder(64, 1e4))
mutant("linear_twice", "linear", "frequency-rule", "interpolation applied twice",
    inv_freq=ladder(64, 1e4) / 16)
mutant("linear_for_ntk", "ntk", "frequency-rule", "linear in place of NTK",
    inv_freq=linear(64, 1e4, 4))
mutant("ntk_exponent", "ntk", "frequency-rule|base", "NTK without its exponent d/(d−2)",
    also="base|frequency-rule",
    inv_freq=ladder(64, 4e4))
mutant("yarn_dropped", "yarn", "scaling-missing", "YaRN's frequencies dropped",
    inv_freq=ladder(128, 1e4))
mutant("yarn_linear", "yarn", "frequency-rule", "all pairs interpolated",
    inv_freq=linear(128, 1e4, 16))
mutant("yarn_swapped", "yarn", "frequency-rule", "betas swapped",
    inv_freq=yarn(128, 1e4, 16, fast=1, slow=32))
mutant("yarn_truncated", "oss", "frequency-rule", "ramp rounded to whole pairs",
    inv_freq=yarn(64, 1.5e5, 32))
mutant("yarn_untruncated", "yarn", "frequency-rule", "ramp not rounded",
    inv_freq=yarn(128, 1e4, 16, truncate=False))
mutant("yarn_ntk", "yarn", "frequency-rule", "NTK in place of YaRN", inv_freq=ntk(128, 1e4, 16))
mutant("half_minus_one", "plain", "frequency-rule", "exponents i/(d/2−1)",
    inv_freq=ladder(64, 1e4, 62))
mutant("half_exponent", "plain", "frequency-rule|base", "exponents i/d", also="base|frequency-rule",
    inv_freq=ladder(64, 1e4, 128))
mutant("from_one", "plain", "frequency-rule", "exponents from 2/d on",
    inv_freq=ladder(64, 1e4) * 1e4 ** (-2 / 64))
mutant("degrees", "plain", "frequency-rule", "radians taken as degrees",
    inv_freq=ladder(64, 1e4) * math.pi / 180)
mutant("reversed", "plain", "frequency-rule", "frequencies in reverse order",
    inv_freq=ladder(64, 1e4)[::-1])
mutant("two_pi", "plain", "frequency-rule", "frequencies times 2π",
    inv_freq=ladder(64, 1e4) * 2 * math.pi)

# Partial rotation.
mutant("partial_denominator", "partial", "frequency-rule", "exponents divide by the head",
    inv_freq=ladder(24, 1e4, 96))
mutant("partial_whole", "partial", "rotary-dim", "the whole head turns", inv_freq=ladder(96, 1e4))
mutant("partial_less", "partial", "rotary-dim", "12 of 24 columns turn", inv_freq=ladder(12, 1e4),
    subjects=("tables", "impl"))
mutant("partial_stopped", "plain", "rotary-dim|frequency-rule",
    "the slow half of the pairs stands still", inv_freq=np.where(FAST, ladder(64, 1e4), 0))
mutant("partial_partner", "partial", "layout|rotary-dim", "partners half a head away",
    subjects=("impl",),
    apply=lambda x, c, s, _: np.concatenate([
        x[:, :12] * c[:, :12] - x[:, 48:60] * s[:, :12], x[:, 12:48],
        x[:, 48:60] * c[:, :12] + x[:, :12] * s[:, :12], x[:, 60:]], 1))

# The attention factor.
mutant("factor_dropped", "yarn", "attention-factor", "attention factor dropped", scale=1.0)
mutant("factor_squared", "yarn", "attention-factor", "attention factor applied twice",
    scale=yarn_scale(16) ** 2)
mutant("factor_extra", "plain", "attention-factor", "an attention factor where there is none",
    scale=1.277)
mutant("factor_on_cosine", "yarn", "unknown",
    "only the cosine carries the factor", mend=lambda c, s: (c, s / yarn_scale(16)), relative=False)
mutant("factor_and_scaling", "yarn", "scaling-missing", "YaRN dropped whole",
    also="attention-factor", inv_freq=ladder(128, 1e4), scale=1.0)

# Positions.
mutant("from_position_one", "plain", "position-offset", "positions from 1 on", offset=1)
mutant("from_position_minus", "plain", "position-offset", "positions from −1 on", offset=-1)
mutant("far_offset", "plain", "position-offset", "positions from 100 on", offset=100)
mutant("clamped", "plain", "position-offset", "positions end at 2047",
    remap=lambda p: np.minimum(p, 2047), relative=False)
mutant("wrapped", "plain", "position-offset", "positions restart at 2048",
    remap=lambda p: p % 2048, relative=False)
mutant("turned_around", "plain", "position-offset|direction", "positions count down",
    remap=lambda p: 4095 - p)

# Precision at each stage.
for _half in ("bfloat16", "float16"):
    mutant(f"positions_{_half}", "plain", "position-precision", f"positions in {_half}",
        positions_in=_half, relative=False)
    mutant(f"frequencies_{_half}", "plain", "inv-freq-precision", f"frequencies in {_half}",
        inv_in=_half)
    mutant(f"angles_{_half}", "plain", "position-precision", f"angles in {_half}", angles_in=_half,
        relative=False)
    mutant(f"tables_{_half}", "plain", "table-precision", f"cosines and sines in {_half}",
        table_in=_half, relative=False)
    mutant(f"all_{_half}", "plain", "position-precision|inv-freq-precision",
        f"positions, frequencies, angles and tables in {_half}",
        also="inv-freq-precision|table-precision", positions_in=_half, inv_in=_half,
        angles_in=_half, table_in=_half, relative=False)

# Two at once.
mutant("interleaved_backward", "plain", "layout|direction", "layout and direction",
    layout="interleaved", sign=-1)
mutant("interleaved_base", "wide", "layout|base", "layout and base", layout="interleaved",
    inv_freq=ladder(128, 1e4))
mutant("backward_base", "wide", "direction|base", "direction and base", sign=-1,
    inv_freq=ladder(128, 1e4))
# fmt: on
