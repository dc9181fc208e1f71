"""Mistakes in finished cells: cut, kept in few bits, multiplied in half precision, missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.diagnosis.mutation import Mutants
from tests.diagnosis.textbook import ladder, to, yarn_scale

MUTANTS = Mutants()
mutant = MUTANTS.add

STORED = ("tables", "half")
"""What is kept in files: vectors that such tables turn are not rounded so."""


def both(change: Any) -> Any:
    """What makes the same of cosines and of sines."""
    return lambda c, s: (change(c), change(s))


def floated(cells: Any, bits: int, whole: Any) -> Any:
    """Cells of so many significant bits."""
    parts, exponents = np.frexp(np.asarray(cells, np.float64))
    return np.ldexp(whole(np.ldexp(parts, bits)), exponents - bits)


def since_pair(pair: int, value: float) -> Any:
    """What makes all cells from a pair on one number."""
    return lambda x: np.where(np.arange(x.shape[1]) < pair, x, value)


# fmt: off
# Cut, and in fixed point.
mutant("fixed_q15_down", "plain", "unknown", "floor(32768 x) / 32768", relative=False,
    mend=both(lambda x: np.floor(x * 32768) / 32768))
mutant("fixed_q15_to_zero", "wide", "unknown", "trunc(32768 x) / 32768", relative=False,
    mend=both(lambda x: np.trunc(x * 32768) / 32768))
mutant("fixed_q15_ends", "yarn", "unknown", "Q15 whose largest number is 32767 / 32768",
    subjects=STORED, relative=False,
    mend=both(lambda x: np.clip(np.rint(x * 32768), -32768, 32767) / 32768))
mutant("fixed_q7_down", "plain", "unknown", "floor(128 x) / 128", relative=False,
    mend=both(lambda x: np.floor(x * 128) / 128))
mutant("fixed_q14_to_zero", "llama3", "unknown", "trunc(16384 x) / 16384", relative=False,
    mend=both(lambda x: np.trunc(x * 16384) / 16384))
mutant("fixed_q18", "plain", "unknown", "18 bits after the point", relative=False,
    subjects=STORED, mend=both(lambda x: np.rint(x * 2**18) / 2**18))
mutant("fixed_int16_to_zero", "plain", "unknown", "int(32767 x) / 32767", relative=False,
    mend=both(lambda x: np.trunc(x * 32767) / 32767))
mutant("whole_int8_to_zero", "plain", "unknown", "int8(127 x) as it is", relative=None,
    subjects=STORED, mend=both(lambda x: np.trunc(x * 127)))
mutant("cells_of_places_cut", "plain", "unknown", "three decimal places, the rest cut off",
    relative=False, mend=both(lambda x: np.trunc(x * 1000) / 1000))
mutant("places_down", "wide", "unknown", "four decimal places, rounded down",
    relative=False, mend=both(lambda x: np.floor(x * 10000) / 10000))
mutant("places_five", "plain", "unknown", "five decimal places", relative=False,
    subjects=STORED, mend=both(lambda x: np.round(x, 5)))
mutant("digits_three", "plain", "unknown", "three significant digits, as %.3g",
    relative=False, subjects=STORED, positions="0:300",
    mend=both(np.vectorize(lambda x: float(f"{x:.3g}"))))
mutant("tables_down", "plain", "unknown", "bfloat16, rounded down", relative=False,
    mend=both(lambda x: floated(x, 8, np.floor)))
mutant("tables_cut_float16", "wide", "unknown", "float16, cut toward zero", relative=False,
    mend=both(lambda x: floated(x, 11, np.trunc)))
mutant("tables_17_bits", "plain", "unknown", "17 significant bits, cut", relative=False,
    subjects=STORED, mend=both(lambda x: floated(x, 17, np.trunc)))
mutant("sines_cut", "plain", "unknown", "sines alone cut to 12 bits after the point",
    relative=False, mend=lambda c, s: (c, np.trunc(s * 4096) / 4096))
mutant("fixed_q7_wraps", "plain", "unknown", "Q7 of which 1 becomes −1", relative=None,
    subjects=STORED, mend=both(lambda x: np.rint(x * 128).astype(np.int8) / 128))
mutant("fixed_slow", "plain", "unknown", "floor(32768 x) / 32768 in the slow half",
    relative=False, subjects=STORED,
    mend=both(lambda x: np.where(np.arange(32) < 16, x, np.floor(x * 32768) / 32768)))
mutant("fixed_late", "plain", "unknown", "positions from 1 on, in Q15 rounded down",
    also="table-precision", relative=False, subjects=STORED, offset=1,
    mend=both(lambda x: np.floor(x * 32768) / 32768))

# Products in half precision.
for _half in ("bfloat16", "float16"):
    mutant(f"factor_of_{_half}", "yarn", "unknown",
        f"the attention factor and its product with the tables in {_half}",
        also="table-precision", relative=False, subjects=STORED, scale=1.0,
        mend=both(lambda x, half=_half: to(to(x, half) * to(yarn_scale(16), half), half)))
    mutant(f"factor_after_{_half}", "yarn", "unknown",
        f"tables in {_half} times the attention factor", relative=False, subjects=STORED, scale=1.0,
        mend=both(lambda x, half=_half: to(x, half) * yarn_scale(16)))
mutant("factor_rounded", "yarn", "attention-factor", "the attention factor alone in bfloat16",
    scale=float(to(yarn_scale(16), "bfloat16")))
mutant("factor_needless_bfloat16", "wide", "unknown",
    "a factor where there is none, in bfloat16", also="table-precision", relative=False,
    subjects=STORED,
    mend=both(lambda x: to(to(x, "bfloat16") * to(1.1386, "bfloat16"), "bfloat16")))

mutant("codes_and_base", "wide", "unknown", "base 10000, and Q15 rounded down",
    also="table-precision", relative=False, subjects=STORED, inv_freq=ladder(128, 1e4),
    mend=both(lambda x: np.floor(x * 32768) / 32768))

# What else is made of the right angles.
mutant("cells_of_two_formats", "plain", "unknown", "cosines in bfloat16, sines in float16",
    relative=False, subjects=STORED, mend=lambda c, s: (to(c, "bfloat16"), to(s, "float16")))

# Never written.
mutant("pairs_empty", "plain", "unknown", "cosines and sines from pair 20 on are 0",
    relative=None, subjects=STORED, mend=both(since_pair(20, 0.0)))
mutant("pair_empty", "wide", "unknown", "the last pair is 0", relative=None,
    subjects=STORED, mend=both(since_pair(63, 0.0)))
mutant("rows_missing", "plain", "not-a-number", "rows 100 to 119 are no numbers", relative=None,
    subjects=STORED,
    remap=lambda p: np.where((p >= 100) & (p < 120), np.nan, p))
mutant("rows_missing_since", "llama3", "not-a-number", "no number from row 3000 on", relative=None,
    subjects=STORED, remap=lambda p: np.where(p >= 3000, np.nan, p))
mutant("block_missing", "wide", "not-a-number", "a block of cells is no number", relative=None,
    subjects=STORED, remap=lambda p: np.where(
        (p[:, None] >= 512) & (p[:, None] < 640) & (np.arange(64) >= 48), np.nan, p[:, None]))
mutant("cosine_missing", "plain", "not-a-number", "one cosine is infinite", relative=None,
    subjects=("half",), mend=lambda c, s: (
        np.where((np.arange(len(c))[:, None] == 77) & (np.arange(32) == 3), np.inf, c), s))
# fmt: on
