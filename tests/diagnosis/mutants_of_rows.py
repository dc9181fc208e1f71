"""Mistakes in what rows are: positions, axes, precision; and mistakes found since."""

import math

import numpy as np

from tests.diagnosis.mutation import APPLIED, FAST, Mutants, noise, since, turned
from tests.diagnosis.textbook import (
    BLOCKS,
    DEALT,
    GRID,
    GRID_AXES,
    Rope,
    along,
    cut,
    ladder,
    linear,
    placed,
    to,
    yarn_scale,
)

MUTANTS = Mutants()
mutant = MUTANTS.add


def kept_by_matrix_products(values):
    """Numbers of which TF32 keeps 10 bits after the first."""
    bits = np.float32(values).view(np.uint32) + np.uint32(0x1000)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(float)


def on_grid(p):
    """The row or the column that each pair follows, (L, pairs)."""
    return placed(lambda tokens: tuple(GRID[:, tokens]))(p)


STORED = ("tables", "half")
"""What is kept in files: vectors that such tables turn are not rounded so."""


def rounded_down(cells):
    """Cells of eight significant bits."""
    parts, exponents = np.frexp(np.asarray(cells, np.float64))
    return np.ldexp(np.floor(np.ldexp(parts, 8)), exponents - 8)


# fmt: off
# Positions.
mutant("position_int8", "plain", "unknown", "positions in int8", relative=False,
    remap=lambda p: p.astype(np.int8))
mutant("position_uint8", "plain", "position-offset", "positions in uint8", relative=False,
    remap=lambda p: p.astype(np.uint8))
mutant("ring", "plain", "position-offset", "a ring buffer of 1000 rows", relative=False,
    remap=lambda p: p % 1000)
mutant("window", "plain", "position-offset", "a window that keeps 4 rows, then turns in 1020",
    relative=False, remap=lambda p: np.where(p < 1024, p, 4 + (p - 4) % 1020))
mutant("chunks", "plain", "position-offset", "positions start again in each chunk of 512",
    relative=False, remap=lambda p: p % 512)
mutant("packed", "plain", "position-offset", "positions start again at 700 and 1900",
    relative=False, remap=lambda p: p - np.where(p < 700, 0, np.where(p < 1900, 700, 1900)))
mutant("left_padding", "plain", "position-offset", "7 padded tokens on the left counted", offset=7)
mutant("cache_offset", "plain", "position-offset", "after 1024 rows each step is at position 0",
    relative=False, remap=lambda p: np.where(p < 1024, p, 0))
mutant("cache_restart", "plain", "position-offset", "after 1024 rows positions start again",
    relative=False, remap=lambda p: np.where(p < 1024, p, p - 1024))
mutant("cache_late", "plain", "position-offset", "after 1024 rows one position too far",
    relative=False, remap=lambda p: p + (p >= 1024))
mutant("skipped", "plain", "position-offset", "from row 300 on one position behind", relative=False,
    remap=lambda p: p - (p >= 300))
mutant("stopped", "plain", "position-offset|no-rotation", "all rows at position 0",
    remap=lambda p: 0 * p)
mutant("fractional", "plain", "position-offset", "positions from a half on", offset=0.5)

# Lengths.
mutant("log_n", "plain", "unknown", "vectors grow as ln(m + 1) / ln 512 from 512 on",
    relative=False, grow=lambda p: np.maximum(1, np.log1p(p) / np.log(512)))

# Rows from one on.
mutant("grown_cast", "plain", "unknown",
    "a cache grown after a cast: from row 2048 on frequencies in bfloat16", relative=False,
    **since(2048, "plain", inv_in="bfloat16"))
mutant("grown_positions", "plain", "position-offset", "from row 1024 on positions in bfloat16",
    relative=False, **since(1024, "plain", positions_in="bfloat16"))
mutant("grown_tables", "plain", "unknown", "from row 2048 on cosines and sines in bfloat16",
    relative=False, **since(2048, "plain", table_in="bfloat16"))
mutant("grown_dropped", "llama3", "unknown", "from row 2048 on Llama 3's scaling dropped",
    relative=False, **since(2048, "llama3", inv_freq=ladder(128, 5e5)))
mutant("grown_scaled", "plain", "unknown", "from row 2048 on interpolated by 4",
    relative=False, **since(2048, "plain", inv_freq=linear(64, 1e4, 4)))
mutant("grown_base", "wide", "unknown", "from row 1024 on base 10000", relative=False,
    **since(1024, "wide", inv_freq=ladder(128, 1e4)))
mutant("grown_factor", "yarn", "unknown", "from row 2048 on without the attention factor",
    relative=False, **since(2048, "yarn", scale=1.0))
mutant("grown_backward", "plain", "unknown", "from row 2048 on sine negated", relative=False,
    **since(2048, "plain", sign=-1))
mutant("grown_still", "plain", "no-rotation|position-offset", "from row 2048 on nothing rotates",
    relative=False, **since(2048, "plain", inv_freq=np.zeros(32)))
mutant("grown_empty", "plain", "unknown", "from row 2048 on never written: zeros",
    relative=False, **since(2048, "plain", scale=0.0))

# Precision.
mutant("tables_int8", "plain", "unknown", "cosines and sines in int8", relative=False,
    mend=lambda c, s: (np.rint(127 * c) / 127, np.rint(127 * s) / 127))
mutant("tables_int16", "plain", "unknown", "cosines and sines in Q12", relative=False,
    mend=lambda c, s: (np.rint(4096 * c) / 4096, np.rint(4096 * s) / 4096))
mutant("cosine_bfloat16", "plain", "unknown", "only the cosine in bfloat16", relative=False,
    mend=lambda c, s: (to(c, "bfloat16"), s))
mutant("looked_up", "plain", "unknown",
    "angles looked up in 4096 steps of a turn", relative=False,
    reduce=lambda a: np.rint(a * 4096 / math.tau) * math.tau / 4096)
mutant("truncated_pi", "plain", "unknown", "angles reduced by π = 3.14159",
    relative=None, reduce=lambda a: a - np.rint(a / math.tau) * 2 * 3.14159)
mutant("float32_far", "plain", "position-precision", "positions in float32 past its integers",
    relative=False, positions_in="float32", positions="0:64,16777216:16777280,33554432:33554496")

# Several axes.
for _of, _right, _axes in (("mrope", BLOCKS, "blocks"), ("dealt", DEALT, "dealt out")):
    mutant(f"{_of}_one_axis", _of, "axis", f"time for all three axes ({_axes})", relative=None,
        remap=along(0 * _right))
    mutant(f"{_of}_exchanged", _of, "axis", f"height and width exchanged ({_axes})", relative=None,
        remap=along(np.array([0, 2, 1])[_right]))
mutant("mrope_text", "mrope", "axis|position-offset", "token numbers for all axes",
    relative=None, remap=lambda p: p)
mutant("mrope_reversed", "mrope", "axis", "axes in the order w, h, t", relative=None,
    remap=along(2 - BLOCKS))
mutant("mrope_dealt", "mrope", "axis", "axes dealt out for blocks", relative=None,
    remap=along(DEALT))
mutant("dealt_blocks", "dealt", "axis", "blocks for axes dealt out", relative=None,
    remap=along(np.repeat([0, 1, 2], [24, 20, 20])))
mutant("mrope_sections", "mrope", "axis", "sections 24, 20, 20 for 16, 24, 24", relative=None,
    remap=along(np.repeat([0, 1, 2], [24, 20, 20])))
mutant("mrope_restarted", "mrope", "frequency-rule", "each axis has a ladder of its own",
    relative=None, inv_freq=np.concatenate([ladder(2 * n, 1e6) for n in (16, 24, 24)]))
mutant("mrope_base", "mrope", "base", "base 10000 on three axes", relative=None,
    inv_freq=ladder(128, 1e4))

# A grid.
mutant("grid_exchanged", "grid", "axis", "rows and columns of a grid exchanged", relative=None,
    remap=placed(lambda p: (p % 64, p // 64)))
mutant("grid_by_columns", "grid", "position-offset", "a grid counted column by column",
    relative=None, remap=placed(lambda p: (p % 16, p // 16)))
mutant("grid_other_width", "grid", "position-offset", "rows of 16 places for 64", relative=None,
    remap=placed(lambda p: (p // 16, p % 16)))
mutant("grid_blocks", "grid", "position-offset", "patches in blocks of 2×2", relative=None,
    remap=placed(lambda p: (p // 128 * 2 + p // 2 % 2, p // 4 % 32 * 2 + p % 2)))
mutant("grid_upside_down", "grid", "position-offset", "rows counted from the lowest",
    relative=None, remap=placed(lambda p: (15 - p // 64, p % 64)))

# No numbers.
mutant("one_missing", "plain", "not-a-number", "one cell is no number", relative=None,
    subjects=("tables", "half"),
    remap=lambda p: np.where((p[:, None] == 1234) & (np.arange(32) == 5), np.nan, p[:, None]))

# Two at once.
mutant("interleaved_offset", "plain", "layout|position-offset", "layout and positions from 1 on",
    also="layout|position-offset", layout="interleaved", offset=1)
mutant("interleaved_dropped", "llama3", "layout|scaling-missing", "layout, and scaling dropped",
    also="layout|scaling-missing", layout="interleaved", inv_freq=ladder(128, 5e5))
mutant("interleaved_factor", "yarn", "layout|attention-factor", "layout, and no attention factor",
    also="layout|attention-factor", layout="interleaved", scale=1.0)
mutant("interleaved_bfloat16", "plain", "layout|position-precision",
    "layout, and positions in bfloat16", also="layout|position-precision", relative=False,
    layout="interleaved", positions_in="bfloat16")
mutant("backward_offset", "plain", "direction|position-offset",
    "direction, and positions from 1 on", also="direction|position-offset", sign=-1, offset=1)
mutant("backward_dropped", "linear", "direction|scaling-missing", "direction, and scaling dropped",
    also="direction|scaling-missing", sign=-1, inv_freq=ladder(64, 1e4))
mutant("base_tables", "wide", "base|table-precision", "base, and tables in bfloat16",
    also="base|table-precision", relative=False, inv_freq=ladder(128, 1e4), table_in="bfloat16")
mutant("base_offset", "wide", "base|position-offset", "base, and positions from 1 on",
    also="base|position-offset", inv_freq=ladder(128, 1e4), offset=1)
mutant("base_clamped", "wide", "unknown", "base, and positions end at 2047",
    also="base|position-offset", relative=False, inv_freq=ladder(128, 1e4),
    remap=lambda p: np.minimum(p, 2047))
mutant("factor_offset", "yarn", "attention-factor|position-offset",
    "no attention factor, and positions from 1 on", also="attention-factor|position-offset",
    scale=1.0, offset=1)
mutant("dropped_bfloat16", "llama3", "scaling-missing|inv-freq-precision",
    "scaling dropped, frequencies in bfloat16", also="scaling-missing|inv-freq-precision",
    inv_freq=ladder(128, 5e5), inv_in="bfloat16")
mutant("factor_and_frequencies", "yarn", "inv-freq-precision|attention-factor",
    "frequencies in bfloat16, no attention factor", also="inv-freq-precision|attention-factor",
    scale=1.0, inv_in="bfloat16")

# Found by mistakes that were not here.
mutant("rows_exchanged", "plain", "position-offset", "rows 100 and 200 exchanged", relative=False,
    remap=lambda p: np.select([p == 100, p == 200], [200, 100], p))

# Columns that should stay.
mutant("passed_turned", "partial", "rotary-dim", "the other 72 columns turn by a ladder of theirs",
    relative=None, subjects=("rotated",), apply=lambda x, c, s, _: np.concatenate([
        turned(x[:, :24], c, s), Rope(ladder(72, 1e4), 72)(x[:, 24:], np.arange(len(x)))], 1))
mutant("passed_backward", "partial", "rotary-dim",
    "columns that should stay are halved, and the sine is negated", also="direction",
    subjects=APPLIED, relative=None, sign=-1, apply=lambda x, c, s, _: np.concatenate([
        turned(x[:, :24], c, s), x[:, 24:] / 2], 1))

# Rows that nobody wrote.
mutant("grown_garbage", "plain", "unknown", "from row 1500 on never written: any numbers",
    relative=False, subjects=("tables", "half"), **since(1500, "plain",
        mend=lambda c, s: (noise(c, 8), noise(s, 9))))


# Groups of pairs at other positions.
mutant("fast_clamped", "plain", "unknown", "the fast half of the pairs ends at 2047",
    relative=False, remap=lambda p: np.where(FAST, np.minimum(p, 2047)[:, None], p[:, None]))
mutant("slow_scaled", "plain", "unknown", "positions of the slow half divided by 4",
    remap=lambda p: np.where(FAST, p[:, None], p[:, None] / 4))

# Formats.
mutant("tables_cut", "plain", "table-precision", "cosines and sines cut to bfloat16",
    relative=False, mend=lambda c, s: (cut(c), cut(s)))
mutant("frequencies_cut", "wide", "inv-freq-precision", "frequencies cut to bfloat16",
    inv_freq=cut(ladder(128, 5e5)).astype(float))

mutant("column_passed", "plain", "unknown", "column 5 stays as it is",
    relative=False, subjects=APPLIED,
    apply=lambda x, c, s, _: np.where(np.arange(64) == 5, x, turned(x, c, s)))

mutant("tables_printed", "plain", "unknown", "cosines and sines as %.4f prints them",
    relative=False, mend=lambda c, s: (np.round(c, 4), np.round(s, 4)))
mutant("never_rotated", "plain", "unknown", "x·cos + x·sin", relative=False,
    subjects=APPLIED, apply=lambda x, c, s, _: x * c + x * s)
mutant("parts_exchanged", "plain", "unknown", "imaginary parts before real ones",
    relative=None, subjects=APPLIED, apply=lambda x, c, s, _: np.roll(turned(x, c, s), 32, 1))

# Axes.
mutant("mrope_time_text", "mrope", "axis|position-offset", "token numbers for the axis of time",
    relative=None, remap=lambda p: np.where(BLOCKS == 0, p[:, None], along(BLOCKS)(p)))
mutant("mrope_image_from_zero", "mrope", "position-offset|axis",
    "coordinates of the image from 0 on", relative=None,
    remap=lambda p: along(BLOCKS)(p) - np.where(p < 64, 0, 64)[:, None])

# In float32, as most code computes: rows of far positions err by more than their own angle allows.
mutant("turned_around_single", "linear", "direction", "positions count down, in float32",
    also="position-offset", relative=None, compute=np.float32, remap=lambda p: 4095 - p)
mutant("striped", "plain", "position-offset", "rows dealt to 4 devices, in float32", relative=False,
    compute=np.float32, remap=lambda p: p % 1024 * 4 + p // 1024)
mutant("skipped_often", "wide", "position-offset", "a position is skipped after each 128 rows",
    relative=False, remap=lambda p: p + p // 128)
mutant("sinks", "plain", "position-offset", "a ring buffer of 1004 rows that keeps the first 4",
    relative=False, remap=lambda p: np.where(p < 4, p, 4 + (p - 4) % 1000))
mutant("clamped_half", "wide", "position-offset", "positions end at 2047, tables in float16",
    also="table-precision", relative=False, table_in="float16",
    subjects=("tables", "half"), remap=lambda p: np.minimum(p, 2047))
mutant("positions_infinite", "plain", "position-precision|position-offset",
    "positions in float16 that end at its largest", also="position-precision|position-offset",
    relative=False, subjects=("tables", "half"), positions="0:64,65400:65700,131000:131072",
    remap=lambda p: np.minimum(p, 65504).astype(np.float16).astype(float))

# Formats.
mutant("matrix_product", "wide", "unknown",
    "angles by a matrix product in TF32", also="position-precision|inv-freq-precision",
    relative=False, remap=kept_by_matrix_products,
    inv_freq=kept_by_matrix_products(ladder(128, 5e5)))

# One of the two tables.
mutant("cut_in_turn", "plain", "unknown", "[cos | sin] cut into columns 2i and 2i+1",
    relative=False, mend=lambda c, s: (
        np.concatenate([c, s], 1)[:, ::2], np.concatenate([c, s], 1)[:, 1::2]))
mutant("tables_empty", "wide", "uninitialised", "cosines and sines never written: zeros",
    relative=None, subjects=("tables", "half"), scale=0.0)

# Coordinates that are scaled or shifted.
mutant("grid_centred", "grid", "position-offset", "coordinates from the middle of the grid",
    relative=None, remap=lambda p: on_grid(p) - np.where(GRID_AXES, 31.5, 7.5))
mutant("grid_normalized", "grid", "position-offset", "coordinates from 0 to 1", relative=None,
    remap=lambda p: on_grid(p) / np.where(GRID_AXES, 63, 15))
mutant("grid_resized", "grid", "position-offset", "coordinates of a grid of 14×14", relative=None,
    remap=lambda p: on_grid(p) * np.where(GRID_AXES, 14 / 64, 14 / 16))
mutant("grid_one_ladder", "grid", "frequency-rule", "one ladder over the pairs of both axes",
    relative=None, inv_freq=ladder(64, 1e4))
mutant("mrope_unmerged", "mrope", "position-offset", "places of the patches before they are merged",
    relative=None, remap=lambda p: along(BLOCKS)(p) + np.where(
        (p[:, None] >= 64) & (BLOCKS > 0), along(BLOCKS)(p) - 64, 0))
mutant("mrope_delta", "mrope", "position-offset", "from row 700 on 70 places too far",
    relative=None, compute=np.float32,
    remap=lambda p: along(BLOCKS)(p) + 70 * (p[:, None] >= 700))
mutant("reduced_bfloat16", "plain", "unknown",
    "angles reduced by whole turns, then rounded to bfloat16", relative=False,
    reduce=lambda a: to(np.mod(a, math.tau), "bfloat16").astype(float))

# Rows that share positions, or lie between them.
mutant("grouped", "plain", "position-offset", "4 rows share a position from 600 on",
    relative=False, remap=lambda p: np.where(p < 600, p, 600 + (p - 600) // 4))
mutant("nearest_multiple", "plain", "position-offset", "positions rounded to multiples of 12",
    relative=False, remap=lambda p: np.rint(p / 12).astype(int) * 12)
mutant("spaced_to_length", "wide", "position-offset|frequency-rule",
    "positions linspace(0, 4096, 4096)", remap=lambda p: p * (4096 / 4095))

# Both factors of angles rounded.

# Cells: cut, in fixed point, or never written.
mutant("fixed_q15_down", "plain", "unknown", "floor(32768 x) / 32768", relative=False,
    mend=lambda c, s: (np.floor(c * 32768) / 32768, np.floor(s * 32768) / 32768))
mutant("whole_int8_to_zero", "plain", "unknown", "int8(127 x) as it is", relative=None,
    subjects=STORED, mend=lambda c, s: (np.trunc(c * 127), np.trunc(s * 127)))
mutant("tables_down", "plain", "unknown", "bfloat16, rounded down", relative=False,
    mend=lambda c, s: (rounded_down(c), rounded_down(s)))
mutant("factor_rounded", "yarn", "attention-factor", "the attention factor alone in bfloat16",
    scale=float(to(yarn_scale(16), "bfloat16")))
mutant("pairs_empty", "plain", "unknown", "cosines and sines from pair 20 on are 0",
    relative=None, subjects=STORED,
    mend=lambda c, s: (c * (np.arange(32) < 20), s * (np.arange(32) < 20)))
mutant("rows_missing", "plain", "not-a-number", "rows 100 to 119 are no numbers", relative=None,
    subjects=STORED,
    remap=lambda p: np.where((p >= 100) & (p < 120), np.nan, p))
mutant("block_missing", "wide", "not-a-number", "a block of cells is no number", relative=None,
    subjects=STORED, remap=lambda p: np.where(
        (p[:, None] >= 512) & (p[:, None] < 640) & (np.arange(64) >= 48), np.nan, p[:, None]))
mutant("cosine_missing", "plain", "not-a-number", "one cosine is infinite", relative=None,
    subjects=("half",), mend=lambda c, s: (
        np.where((np.arange(len(c))[:, None] == 77) & (np.arange(32) == 3), np.inf, c), s))
# fmt: on
