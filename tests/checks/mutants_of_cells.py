"""Mistakes in finished cells: cut, kept in few bits, multiplied in half precision, noisy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.checks.mutation import Mutants
from tests.checks.textbook import ladder, ml_dtypes, to, yarn_scale

MUTANTS = Mutants()
mutant = MUTANTS.add

_ANGLES = np.arange(4096)[:, None] * ladder(64, 1e4)

STORED = ("tables", "half")
"""What is kept in files: vectors that such tables turn are not rounded so."""


def both(change: Any) -> Any:
    """What makes the same of cosines and of sines."""
    return lambda c, s: (change(c), change(s))


def floated(cells: Any, bits: int, whole: Any) -> Any:
    """Cells of so many significant bits."""
    parts, exponents = np.frexp(np.asarray(cells, np.float64))
    return np.ldexp(whole(np.ldexp(parts, bits)), exponents - bits)


def coded(cells: Any, axis: Any, last: int = 127) -> Any:
    """Symmetric codes, a scale for all cells along an axis."""
    scale = np.abs(cells).max(axis=axis, keepdims=True) / last
    scale = np.where(scale == 0, 1, scale)
    return np.clip(np.rint(cells / scale), -last - 1, last) * scale


def coded_from_zero_point(cells: Any, axis: Any, last: int = 255) -> Any:
    """Codes from 0 on, a scale and the code of 0 for all cells along an axis."""
    least = np.minimum(cells.min(axis=axis, keepdims=True), 0)
    most = np.maximum(cells.max(axis=axis, keepdims=True), 0)
    scale = np.where(most == least, 1, (most - least) / last)
    zero = np.rint(-least / scale)
    return (np.clip(np.rint(cells / scale) + zero, 0, last) - zero) * scale


def in_groups(cells: Any, coding: Any, group: int = 16) -> Any:
    """Codes of so many columns of a row at once."""
    return coding(cells.reshape(len(cells), -1, group), 2).reshape(cells.shape)


def as_weights(cells: Any, group: int = 16) -> Any:
    """As GGUF's Q8_0: the scale of a block is kept in float16."""
    blocks = cells.reshape(len(cells), -1, group)
    scale = np.abs(blocks).max(axis=2, keepdims=True) / 127
    codes = np.rint(blocks / np.where(scale == 0, 1, scale))
    return (codes * to(scale, "float16")).reshape(cells.shape)


def dropped(cells: Any, seed: int, share: float) -> Any:
    """Cells of which so many are 0 at random, and the others larger."""
    kept = np.random.default_rng(seed).random(cells.shape) >= share
    return cells * kept / (1 - share)


def since_pair(pair: int, value: float) -> Any:
    """What makes all cells from a pair on one number."""
    return lambda x: np.where(np.arange(x.shape[1]) < pair, x, value)


# fmt: off
# Cut, and in fixed point.
mutant("fixed_q15_down", "plain", "table-precision", "floor(32768 x) / 32768", relative=False,
    mend=both(lambda x: np.floor(x * 32768) / 32768))
mutant("fixed_q15_to_zero", "wide", "table-precision", "trunc(32768 x) / 32768", relative=False,
    mend=both(lambda x: np.trunc(x * 32768) / 32768))
mutant("fixed_q15_ends", "yarn", "table-precision", "Q15 whose largest number is 32767 / 32768",
    subjects=STORED, relative=False,
    mend=both(lambda x: np.clip(np.rint(x * 32768), -32768, 32767) / 32768))
mutant("fixed_q7_down", "plain", "table-precision", "floor(128 x) / 128", relative=False,
    mend=both(lambda x: np.floor(x * 128) / 128))
mutant("fixed_q14_to_zero", "llama3", "table-precision", "trunc(16384 x) / 16384", relative=False,
    mend=both(lambda x: np.trunc(x * 16384) / 16384))
mutant("fixed_q18", "plain", "table-precision", "18 bits after the point", relative=False,
    subjects=STORED, mend=both(lambda x: np.rint(x * 2**18) / 2**18))
mutant("fixed_int16_to_zero", "plain", "table-precision", "int(32767 x) / 32767", relative=False,
    mend=both(lambda x: np.trunc(x * 32767) / 32767))
mutant("whole_int8_to_zero", "plain", "table-precision", "int8(127 x) as it is", relative=None,
    subjects=STORED, mend=both(lambda x: np.trunc(x * 127)))
mutant("cells_of_places_cut", "plain", "table-precision", "three decimal places, the rest cut off",
    relative=False, mend=both(lambda x: np.trunc(x * 1000) / 1000))
mutant("places_down", "wide", "table-precision", "four decimal places, rounded down",
    relative=False, mend=both(lambda x: np.floor(x * 10000) / 10000))
mutant("places_five", "plain", "table-precision", "five decimal places", relative=False,
    subjects=STORED, mend=both(lambda x: np.round(x, 5)))
mutant("digits_three", "plain", "table-precision", "three significant digits, as %.3g",
    relative=False, subjects=STORED, positions="0:300",
    mend=both(np.vectorize(lambda x: float(f"{x:.3g}"))))
mutant("tables_down", "plain", "table-precision", "bfloat16, rounded down", relative=False,
    mend=both(lambda x: floated(x, 8, np.floor)))
mutant("tables_cut_float16", "wide", "table-precision", "float16, cut toward zero", relative=False,
    mend=both(lambda x: floated(x, 11, np.trunc)))
mutant("tables_17_bits", "plain", "table-precision", "17 significant bits, cut", relative=False,
    subjects=STORED, mend=both(lambda x: floated(x, 17, np.trunc)))
mutant("sines_cut", "plain", "table-precision", "sines alone cut to 12 bits after the point",
    relative=False, mend=lambda c, s: (c, np.trunc(s * 4096) / 4096))
mutant("fixed_q7_wraps", "plain", "table-precision", "Q7 of which 1 becomes −1", relative=None,
    subjects=STORED, mend=both(lambda x: np.rint(x * 128).astype(np.int8) / 128))
mutant("fixed_slow", "plain", "table-precision", "floor(32768 x) / 32768 in the slow half",
    relative=False, subjects=STORED,
    mend=both(lambda x: np.where(np.arange(32) < 16, x, np.floor(x * 32768) / 32768)))
mutant("fixed_late", "plain", "position-offset", "positions from 1 on, in Q15 rounded down",
    also="table-precision", relative=False, subjects=STORED, offset=1,
    mend=both(lambda x: np.floor(x * 32768) / 32768))

# Products in half precision.
for _half in ("bfloat16", "float16"):
    mutant(f"factor_of_{_half}", "yarn", "attention-factor",
        f"the attention factor and its product with the tables in {_half}",
        also="table-precision", relative=False, subjects=STORED, scale=1.0,
        mend=both(lambda x, half=_half: to(to(x, half) * to(yarn_scale(16), half), half)))
    mutant(f"factor_after_{_half}", "yarn", "table-precision",
        f"tables in {_half} times the attention factor", relative=False, subjects=STORED, scale=1.0,
        mend=both(lambda x, half=_half: to(x, half) * yarn_scale(16)))
mutant("factor_rounded", "yarn", "attention-factor", "the attention factor alone in bfloat16",
    scale=float(to(yarn_scale(16), "bfloat16")))
mutant("factor_needless_bfloat16", "wide", "attention-factor",
    "a factor where there is none, in bfloat16", also="table-precision", relative=False,
    subjects=STORED,
    mend=both(lambda x: to(to(x, "bfloat16") * to(1.1386, "bfloat16"), "bfloat16")))

# Codes of few bits.
mutant("codes_of_columns", "plain", "table-precision", "int8, a scale a column", relative=False,
    subjects=STORED, mend=both(lambda x: coded(x, 0)))
mutant("codes_of_columns_4", "wide", "table-precision", "int4, a scale a column", relative=False,
    subjects=STORED, mend=both(lambda x: coded(x, 0, 7)))
mutant("codes_of_columns_from_zero", "llama3", "table-precision",
    "uint8, a scale and a zero point a column", relative=False, subjects=STORED,
    mend=both(lambda x: coded_from_zero_point(x, 0)))
mutant("codes_of_rows_from_zero", "plain", "table-precision",
    "uint8, a scale and a zero point a row", relative=False, subjects=STORED,
    mend=both(lambda x: coded_from_zero_point(x, 1)))
mutant("codes_of_groups", "wide", "table-precision", "int8, a scale for 16 columns of a row",
    relative=False, subjects=STORED, mend=both(lambda x: in_groups(x, coded)))
mutant("codes_of_groups_4", "plain", "table-precision",
    "uint4, a scale and a zero point for 16 columns of a row", relative=False, subjects=STORED,
    mend=both(lambda x: in_groups(x, lambda part, axis: coded_from_zero_point(part, axis, 15))))
mutant("codes_of_weights", "plain", "table-precision", "blocks as GGUF's Q8_0 has them",
    relative=False, subjects=STORED, mend=both(as_weights))
mutant("codes_and_base", "wide", "base", "base 10000, and Q15 rounded down",
    also="table-precision", relative=False, subjects=STORED, inv_freq=ladder(128, 1e4),
    mend=both(lambda x: np.floor(x * 32768) / 32768))

# What else is made of the right angles.
mutant("cells_of_two_formats", "plain", "table-precision", "cosines in bfloat16, sines in float16",
    relative=False, subjects=STORED, mend=lambda c, s: (to(c, "bfloat16"), to(s, "float16")))
mutant("cells_without_sign", "plain", "cos-sin-mispaired", "|cos| and |sin|", relative=False,
    subjects=STORED, mend=both(np.abs))
mutant("cells_above_zero", "wide", "table-precision", "max(cos, 0) and max(sin, 0)",
    relative=False, subjects=STORED, mend=both(lambda x: np.maximum(x, 0)))
mutant("cells_clipped", "plain", "table-precision", "cells clipped to ±0.99", relative=False,
    subjects=STORED, mend=both(lambda x: np.clip(x, -0.99, 0.99)))
mutant("cells_as_codes", "plain", "table-precision", "(x + 1) · 127.5 as whole numbers",
    relative=False, subjects=STORED, mend=both(lambda x: np.rint((x + 1) * 127.5)))
mutant("cells_halved", "yarn", "attention-factor", "(x + 1)/2", relative=False, subjects=STORED,
    mend=both(lambda x: (x + 1) / 2))
mutant("cosines_by_root", "plain", "cos-sin-mispaired", "√(1 − sin²) in float32", relative=False,
    subjects=STORED, mend=lambda _, s: (np.sqrt(1 - np.float32(s) ** 2), s))
mutant("tangents", "plain", "cos-sin-mispaired", "tangents for sines", relative=False,
    subjects=STORED, mend=lambda c, s: (c, s / c))
mutant("quarter_turn", "plain", "cos-sin-mispaired", "cosines are sin(x + 1.57)", relative=False,
    subjects=STORED, mend=lambda c, s: (s * math.cos(1.57) + c * math.sin(1.57), s))
mutant("rows_grow", "wide", "attention-factor", "rows times 1 + m/512", relative=False,
    subjects=STORED, mend=both(lambda x: x * (1 + np.arange(len(x))[:, None] / 512)))
mutant("rows_decay", "plain", "attention-factor", "rows times exp(−m/1000)", relative=False,
    subjects=STORED, mend=both(lambda x: x * np.exp(-np.arange(len(x))[:, None] / 1000)))
mutant("rows_normalized", "plain", "attention-factor", "rows divided by their lengths",
    relative=False, subjects=STORED,
    mend=both(lambda x: x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)))
mutant("rows_of_their_own", "plain", "attention-factor", "rows times random numbers",
    relative=False, subjects=STORED,
    mend=both(lambda x: x * np.random.default_rng(8).uniform(0.5, 2, (len(x), 1))))
mutant("pairs_of_their_own", "llama3", "attention-factor", "pairs times random numbers",
    relative=None, subjects=STORED,
    mend=both(lambda x: x * np.random.default_rng(8).uniform(0.5, 2, x.shape[1])))
mutant("rows_of_layer_norm", "plain", "attention-factor", "rows of mean 0 and variance 1",
    relative=False, subjects=STORED, mend=both(
        lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)))
mutant("columns_centred", "plain", "attention-factor", "columns less their mean", relative=False,
    subjects=STORED, mend=both(lambda x: x - x.mean(0)))
mutant("cells_squared", "wide", "cos-sin-mispaired", "squares of cosines and sines",
    relative=False, subjects=STORED, mend=both(np.square))
mutant("codes_of_pairs", "plain", "table-precision", "int8 codes without the scales of columns",
    relative=False, subjects=STORED,
    mend=both(lambda x: np.rint(x * np.linspace(100, 127, x.shape[1]))))
mutant("rows_means", "plain", "position-offset", "means of rows p and p + 1", relative=None,
    subjects=STORED, mend=lambda c, s: tuple(
        (part + np.concatenate([part[1:], part[-1:]])) / 2 for part in (c, s)))
mutant("tables_means", "wide", "base", "means with the table of base 10000", relative=False,
    subjects=STORED, mend=lambda c, s: tuple(
        (part + trig(np.arange(len(c))[:, None] * ladder(128, 1e4))) / 2
        for part, trig in ((c, np.cos), (s, np.sin))))
for _name, _sine in (
    ("bhaskara", lambda x: np.sign(np.pi - x % (2 * np.pi)) * (
        16 * (x % np.pi) * (np.pi - x % np.pi)
        / (5 * np.pi**2 - 4 * (x % np.pi) * (np.pi - x % np.pi)))),
    ("table of 1024 steps, interpolated", lambda x: np.interp(
        x % (2 * np.pi), np.arange(1025) * np.pi / 512, np.sin(np.arange(1025) * np.pi / 512))),
):
    mutant(f"approximated_{_name.split()[0]}", "plain", "table-precision", f"sines by {_name}",
        relative=False, subjects=STORED,
        mend=lambda *_, sine=_sine: (sine(_ANGLES + np.pi / 2), sine(_ANGLES)))
mutant("memory_moved", "plain", "layout", "all values stand one too late", relative=False,
    subjects=("half",), mend=both(lambda x: np.roll(x.ravel(), 1).reshape(x.shape)))
mutant("memory_reshaped", "plain", "layout", "reshaped in place of transposed", relative=False,
    subjects=("half",), mend=both(lambda x: np.ascontiguousarray(x.T).reshape(x.shape)))
mutant("bytes_of_float16", "plain", "number-format", "float16's bytes read as bfloat16",
    relative=False, subjects=STORED, mend=both(
        lambda x: x.astype(np.float16).view(ml_dtypes.bfloat16).astype(float)))
mutant("bytes_of_bfloat16", "wide", "number-format", "bfloat16's bytes read as float16",
    relative=False, subjects=STORED, mend=both(
        lambda x: x.astype(ml_dtypes.bfloat16).view(np.float16).astype(float)))

# At random.
mutant("noise_normal", "plain", "noise", "normal noise of 0.001 on all cells", relative=False,
    subjects=STORED, mend=lambda c, s: (
        c + np.random.default_rng(3).normal(0, 1e-3, c.shape),
        s + np.random.default_rng(4).normal(0, 1e-3, s.shape)))
mutant("noise_uniform", "llama3", "noise", "uniform noise up to 0.05 on all cells", relative=False,
    subjects=STORED, mend=lambda c, s: (
        c + np.random.default_rng(3).uniform(-0.05, 0.05, c.shape),
        s + np.random.default_rng(4).uniform(-0.05, 0.05, s.shape)))
mutant("noise_relative", "yarn", "noise", "each cell times 1 + normal noise of 0.01",
    relative=False, subjects=STORED, mend=lambda c, s: (
        c * np.random.default_rng(3).normal(1, 0.01, c.shape),
        s * np.random.default_rng(4).normal(1, 0.01, s.shape)))
mutant("dropout", "plain", "noise", "dropout of 0.1 on cosines and sines", relative=False,
    subjects=STORED, mend=lambda c, s: (dropped(c, 5, 0.1), dropped(s, 6, 0.1)))
mutant("dropout_half", "wide", "noise", "dropout of 0.5 on tables in bfloat16", relative=False,
    subjects=STORED, table_in="bfloat16",
    mend=lambda c, s: (dropped(c, 5, 0.5), dropped(s, 6, 0.5)))
mutant("dropped_rows", "plain", "noise", "rows set to 0 at random, one in ten", relative=False,
    subjects=STORED, mend=lambda c, s: tuple(
        part * (np.random.default_rng(7).random((len(part), 1)) >= 0.1) for part in (c, s)))
mutant("noise_of_pairs", "plain", "noise", "normal noise on the slow half of the pairs",
    relative=False, subjects=STORED, mend=lambda c, s: (
        c + (np.arange(32) >= 16) * np.random.default_rng(3).normal(0, 0.01, c.shape),
        s + (np.arange(32) >= 16) * np.random.default_rng(4).normal(0, 0.01, s.shape)))
mutant("noise_since", "wide", "noise", "normal noise from row 3000 on", relative=False,
    subjects=STORED, mend=lambda c, s: tuple(
        part + (np.arange(len(part))[:, None] >= 3000)
        * np.random.default_rng(seed).normal(0, 0.01, part.shape)
        for part, seed in ((c, 3), (s, 4))))
mutant("cells_damaged", "llama3", "damaged", "one cell in 200 holds anything", relative=False,
    subjects=STORED, mend=lambda c, s: tuple(
        np.where(np.random.default_rng(seed).random(part.shape) < 0.005, 0.4, part)
        for part, seed in ((c, 3), (s, 4))))

# Never written.
mutant("pairs_empty", "plain", "uninitialised", "cosines and sines from pair 20 on are 0",
    relative=None, subjects=STORED, mend=both(since_pair(20, 0.0)))
mutant("pair_empty", "wide", "uninitialised", "the last pair is 0", relative=None,
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
