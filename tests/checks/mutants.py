"""Textbook RoPE in NumPy, and what goes wrong with it: each mutant is one mistake.

Written apart from posenc: nothing of it is imported. The file is also what ``--impl`` loads, by
``mutants.py:NAME``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.records import Record, replace

try:
    import ml_dtypes
except ModuleNotFoundError:  # pytest alone needs pytest: mutants run in short processes too
    import pytest

    pytest.skip("ml-dtypes is not installed", allow_module_level=True)

if TYPE_CHECKING:
    from collections.abc import Callable

HALF = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32}
FP8 = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def to(values: Any, dtype: str | None) -> Any:
    """``values`` rounded to a format, in float32 or wider."""
    if dtype is None:
        return values
    with np.errstate(over="ignore"):
        rounded = np.asarray(values).astype({**HALF, **FP8}[dtype])
    return rounded.astype(np.float32)


def ladder(d: int, base: float, denominator: float | None = None) -> Any:
    return base ** -(np.arange(0, d, 2) / (denominator or d))


def linear(d: int, base: float, factor: float) -> Any:
    return ladder(d, base) / factor


def ntk(d: int, base: float, factor: float) -> Any:
    return ladder(d, base * factor ** (d / (d - 2)))


def yarn(
    d: int,
    base: float,
    factor: float,
    *,
    original: int = 4096,
    fast: float = 32,
    slow: float = 1,
    truncate: bool = True,
    ramp_base: float | None = None,
    ramp_width: int | None = None,
    held: bool = True,
) -> Any:
    low, high = (
        (ramp_width or d) * math.log(original / (b * 2 * math.pi)) / 2 / math.log(ramp_base or base)
        for b in (fast, slow)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    if held:
        low, high = max(low, 0), min(high, d - 1)
    ramp = np.clip((np.arange(d // 2) - low) / ((high - low) or 0.001), 0, 1)
    kept = ladder(d, base)
    return kept / factor * ramp + kept * (1 - ramp)


def llama3(
    d: int,
    base: float,
    factor: float = 8,
    *,
    low: float = 1,
    high: float = 4,
    original: int = 8192,
    blend: bool = True,
    turn: float = 2 * math.pi,
) -> Any:
    kept = ladder(d, base)
    length = turn / kept
    smooth = (original / length - low) / (high - low)
    between = (1 - smooth) * kept / factor + smooth * kept if blend else kept
    return np.where(
        length < original / high, kept, np.where(length > original / low, kept / factor, between)
    )


def yarn_scale(factor: float) -> float:
    return 0.1 * math.log(factor) + 1


def dynamic(d: int, base: float, factor: float, length: int, trained: int) -> Any:
    return ntk(d, base, factor * max(length, trained) / trained - (factor - 1))


def proportional(d: int, base: float, turning: int) -> Any:
    """The frequencies of a head of which the fastest pairs turn, and the others stand still."""
    return np.where(np.arange(d // 2) < turning, ladder(d, base), 0)


SHORT = 1 + np.arange(32) / 31
LONG = 1 + 0.5 * np.arange(32) ** 1.2
"""What a search may have found for the pairs of LongRoPE: dividers of their frequencies."""

TOKENS = np.arange(1024)
_IMAGE = np.maximum(TOKENS - 64, 0)
AXES = np.where(TOKENS < 64, TOKENS, 64 + np.stack([_IMAGE // 240, _IMAGE // 20 % 12, _IMAGE % 20]))
"""The positions of 64 tokens of text and a video of 12×20 patches on t, h and w: (3, 1024)."""

BLOCKS = np.repeat([0, 1, 2], [16, 24, 24])
DEALT = np.array([pair % 3 if pair < 60 else 0 for pair in range(64)])
"""The axis that each pair follows: Qwen2-VL's, and Qwen3-VL's."""


def along(axes: Any) -> Callable[[Any], Any]:
    """What gives each token's position on the axes that its pairs follow, (L, pairs)."""
    return lambda tokens: AXES[axes][:, tokens].T


class Rope(Record):
    """RoPE as one writes it: every step can be done in a precision, or wrongly.

    ``later`` takes the place of it from row ``since`` on.
    """

    inv_freq: Any
    head: int
    layout: str = "half"
    scale: float = 1.0
    sign: int = 1
    offset: int = 0
    positions_in: str | None = None
    inv_in: str | None = None
    angles_in: str | None = None
    table_in: str | None = None
    dtype: Any = np.float32
    remap: Callable[[Any], Any] | None = None
    reduce: Callable[[Any], Any] | None = None
    mend: Callable[[Any, Any], tuple[Any, Any]] | None = None
    wide: Callable[[Any, Any], tuple[Any, Any]] | None = None
    apply: Callable[..., Any] | None = None
    compute: Any = np.float64
    later: Rope | None = None
    since: int = 2048

    @property
    def rotated(self) -> int:
        return 2 * len(self.inv_freq)

    def pair_tables(self, positions: Any) -> tuple[Any, Any]:
        """cos and sin, (L, d/2)."""
        p = np.asarray(positions) + self.offset
        p = self.remap(p) if self.remap else p
        p = to(p.astype(self.compute), self.positions_in).astype(self.compute)
        inv = to(np.asarray(self.inv_freq, self.compute), self.inv_in).astype(self.compute)
        with np.errstate(invalid="ignore"):
            angles = to((p[:, None] if p.ndim == 1 else p) * inv, self.angles_in)
            angles = self.reduce(angles) if self.reduce else angles.astype(self.compute)
            cos, sin = np.cos(angles), self.sign * np.sin(angles)
        cos, sin = cos * self.scale, sin * self.scale
        if self.mend:
            cos, sin = self.mend(cos, sin)
        rows = tuple(to(each, self.table_in).astype(self.dtype) for each in (cos, sin))
        if self.later is None:
            return rows
        early = np.asarray(positions)[:, None] < self.since
        return tuple(map(np.where, (early, early), rows, self.later.pair_tables(positions)))

    def tables(self, positions: Any) -> tuple[Any, Any]:
        """cos and sin, (L, d), each value twice."""
        cos, sin = self.pair_tables(positions)
        if self.wide:
            return self.wide(cos, sin)
        return repeated(cos, self.layout), repeated(sin, self.layout)

    def __call__(self, x: Any, positions: Any) -> Any:
        cos, sin = self.tables(positions)
        d = self.rotated
        turned, kept = x[:, :d], x[:, d:]
        if self.apply:
            return self.apply(x, cos, sin, self)
        turned = turned * cos + rotate(turned, self.layout) * sin
        return np.concatenate([turned, kept], axis=1).astype(self.dtype)


def repeated(values: Any, layout: str) -> Any:
    return np.tile(values, (1, 2)) if layout == "half" else np.repeat(values, 2, axis=1)


def rotate(x: Any, layout: str) -> Any:
    if layout == "half":
        a, b = np.split(x, 2, axis=1)
        return np.concatenate([-b, a], axis=1)
    return np.stack([-x[:, 1::2], x[:, 0::2]], axis=2).reshape(x.shape)


class Case(Record):
    """A reference, the right implementation of it, and the axes on which its tokens have places."""

    scheme: str
    given: dict[str, Any]
    right: Rope
    axes: Any = None


def case(
    scheme: str,
    inv: Any,
    *,
    head: int | None = None,
    scale: float = 1.0,
    axes: Any = None,
    **given: Any,
) -> Case:
    head = head or 2 * len(inv)
    right = Rope(inv, head, scale=scale, remap=None if axes is None else along(axes))
    given = {"dim": head, "layout": "half", **given}
    return Case(scheme, given, right, None if axes is None else AXES)


CASES = {
    "plain": case("rope", ladder(64, 1e4)),
    "wide": case("rope", ladder(128, 5e5), base=5e5),
    "partial": case("rope", ladder(24, 1e4), head=96, partial=0.25),
    "linear": case("rope-linear", linear(64, 1e4, 4), factor=4.0),
    "ntk": case("rope-ntk", ntk(64, 1e4, 4), factor=4.0),
    "llama3": case("rope-llama3", llama3(128, 5e5), base=5e5, factor=8.0),
    "yarn": case("rope-yarn", yarn(128, 1e4, 16), factor=16.0, scale=yarn_scale(16)),
    "oss": case(
        "rope-yarn",
        yarn(64, 1.5e5, 32, truncate=False),
        base=1.5e5,
        factor=32.0,
        truncate=False,
        scale=yarn_scale(32),
    ),
    "deepseek": case("rope-yarn", yarn(64, 1e4, 40), factor=40.0, mscale=1.0, mscale_all_dim=1.0),
    "million": case("rope-linear", linear(128, 1e6, 8), base=1e6, factor=8.0),
    "proportional": case("rope-proportional", proportional(128, 1e6, 16), base=1e6, partial=0.25),
    "dynamic": case(
        "rope-dynamic",
        dynamic(64, 1e4, 4, 16384, 4096),
        factor=4.0,
        max_position_embeddings=4096,
        seq_len=16384,
    ),
    "longrope": case(
        "rope-longrope",
        ladder(64, 1e4) / LONG,
        short_factor=",".join(map(str, SHORT.tolist())),
        long_factor=",".join(map(str, LONG.tolist())),
        factor=32.0,
        seq_len=8192,
        scale=math.sqrt(1 + math.log(32) / math.log(4096)),
    ),
    "mrope": case("mrope", ladder(128, 1e6), base=1e6, sections=(16, 24, 24), axes=BLOCKS),
    "dealt": case(
        "mrope", ladder(128, 5e6), base=5e6, sections=(24, 20, 20), interleaved=True, axes=DEALT
    ),
}


class Mutant(Record):
    """One mistake, the causes that name it, and which subjects show it.

    ``causes`` may be named first, the usual word before others, ``also`` after it: any other is
    false. ``relative`` is whether
    q·k depends on m − n alone, None where that shows in some subjects only. ``positions`` are
    where it shows.
    """

    case: str
    wrong: Rope
    causes: tuple[str, ...]
    also: tuple[str, ...]
    what: str
    subjects: tuple[str, ...]
    relative: bool | None
    positions: str


ALL = ("tables", "half", "rotated", "impl")
"""What shows a mistake: full tables, (L, d), half ones, (L, d/2), rotated vectors, a function."""

WHOLE = ("tables", "rotated", "impl")
"""Where half tables could be full ones of a head half as wide."""

APPLIED = ("rotated", "impl")
DENSE = "0:4096"
MUTANTS: dict[str, Mutant] = {}


def mutant(
    name: str,
    of: str,
    cause: str,
    what: str,
    *,
    also: str = "",
    subjects: tuple[str, ...] = ALL,
    relative: bool | None = True,
    positions: str | None = None,
    **changes: Any,
) -> None:
    """One mistake in the right implementation of a case."""
    right = CASES[of].right
    wrong = replace(right, **changes)
    if {"layout", "wide"} & set(changes):
        subjects = tuple(each for each in subjects if each != "half")
    if set(changes) <= {"inv_freq", "inv_in"} and wrong.rotated == right.rotated:
        subjects += ("inv-freq",)
    causes, others = (tuple(each.split("|")) for each in (cause, also))
    positions = positions or (DENSE if CASES[of].axes is None else "0:1024")
    MUTANTS[name] = Mutant(of, wrong, causes, others, what, subjects, relative, positions)


FAST = np.arange(32) < 16
KEPT = np.where(np.arange(64) < 33, yarn_scale(16), 1)
"""Of the pairs: the faster half, and the attention factor of those that YaRN does not divide."""


def turned(x: Any, cos: Any, sin: Any) -> Any:
    return x * cos + rotate(x, "half") * sin


def noise(like: Any, seed: int) -> Any:
    """What memory may hold: numbers of any sign and size."""
    generator = np.random.default_rng(seed)
    return generator.standard_normal(like.shape) * 10 ** generator.uniform(-30, 30, like.shape)


def since(row: int, of: str, **changes: Any) -> dict[str, Any]:
    """What makes the rows from ``row`` on another implementation's."""
    return {"later": replace(CASES[of].right, **changes), "since": row}


# fmt: off
# Layout, direction, partners.
mutant("interleaved", "plain", "layout", "pairs 2i, 2i+1 for i, i+d/2", layout="interleaved")
mutant("backward", "plain", "direction", "sine negated", sign=-1)
mutant("backward_yarn", "yarn", "direction", "sine negated under YaRN", sign=-1)
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
mutant("sine_reversed", "plain", "cos-sin-mispaired", "sines in reverse order of pairs",
    mend=lambda c, s: (c, s[:, ::-1]), relative=False)
mutant("sine_shifted", "plain", "cos-sin-mispaired", "sines of the pair before",
    mend=lambda c, s: (c, np.roll(s, 1, 1)), relative=False)
mutant("no_minus", "plain", "cos-sin-mispaired", "rotate_half without its minus", subjects=APPLIED,
    relative=False, apply=lambda x, c, s, r: x * c + np.roll(x, r.rotated // 2, 1) * s)
mutant("mirrored", "plain", "cos-sin-mispaired", "a cosine with the wrong sign", subjects=APPLIED,
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
mutant("base_million", "plain", "base", "base 1000000 for 10000", inv_freq=ladder(64, 1e6))
mutant("base_odd", "plain", "base", "base 12345 for 10000", inv_freq=ladder(64, 12345))
mutant("base_scaled_lost", "llama3", "base", "base 10000 under Llama 3's rule",
    inv_freq=llama3(128, 1e4))
mutant("llama3_dropped", "llama3", "scaling-missing", "Llama 3's scaling dropped",
    inv_freq=ladder(128, 5e5))
mutant("llama3_dropped_base", "llama3", "scaling-missing", "scaling and base dropped",
    inv_freq=ladder(128, 1e4))
mutant("llama3_half_dropped", "llama3", "scaling-missing", "a part of the pairs unscaled",
    inv_freq=np.where(np.arange(64) % 2, ladder(128, 5e5), llama3(128, 5e5)))
mutant("llama3_factor", "llama3", "frequency-rule", "factor 32 for 8",
    inv_freq=llama3(128, 5e5, 32))
mutant("llama3_swapped", "llama3", "frequency-rule", "the blend runs the wrong way",
    inv_freq=np.where(np.isin(llama3(128, 5e5) / ladder(128, 5e5), [1, 1 / 8]),
        llama3(128, 5e5), ladder(128, 5e5) * (1 + 1 / 8) - llama3(128, 5e5)))
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
mutant("yarn_context", "yarn", "frequency-rule", "context 65536 in place of the original 4096",
    inv_freq=yarn(128, 1e4, 16, original=65536))
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
mutant("partial_stopped", "plain", "rotary-dim", "the slow half of the pairs stands still",
    inv_freq=np.where(FAST, ladder(64, 1e4), 0))
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
mutant("factor_on_cosine", "yarn", "cos-sin-mispaired|attention-factor",
    "only the cosine carries the factor", mend=lambda c, s: (c, s / yarn_scale(16)), relative=False)
mutant("factor_and_scaling", "yarn", "scaling-missing", "YaRN dropped whole",
    also="attention-factor", inv_freq=ladder(128, 1e4), scale=1.0)

# Positions.
mutant("from_position_one", "plain", "position-offset", "positions from 1 on", offset=1)
mutant("from_position_minus", "plain", "position-offset", "positions from −1 on", offset=-1)
mutant("far_offset", "plain", "position-offset", "positions from 100 on", offset=100)
mutant("clamped", "plain", "position-offset", "positions end at 2047",
    remap=lambda p: np.minimum(p, 2047), relative=False)
mutant("wrapped", "plain", "position-offset", "positions start again at 2048",
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
mutant("frequencies_llama3_bfloat16", "llama3", "inv-freq-precision",
    "Llama 3's frequencies in bfloat16", inv_in="bfloat16")
mutant("tables_yarn_bfloat16", "yarn", "table-precision", "YaRN's tables in bfloat16",
    table_in="bfloat16", relative=False)

# Two at once.
mutant("interleaved_backward", "plain", "layout|direction", "layout and direction",
    layout="interleaved", sign=-1)
mutant("interleaved_base", "wide", "layout|base", "layout and base", layout="interleaved",
    inv_freq=ladder(128, 1e4))
mutant("backward_base", "wide", "direction|base", "direction and base", sign=-1,
    inv_freq=ladder(128, 1e4))

# Layout, direction and partners of a part.
mutant("partial_interleaved", "partial", "layout", "24 turning columns paired 2i, 2i+1",
    subjects=APPLIED, layout="interleaved")
mutant("yarn_interleaved", "deepseek", "layout",
    "an indexer that pairs otherwise than its attention", layout="interleaved")
mutant("backward_slow", "plain", "direction|cos-sin-mispaired",
    "sine negated in the slow half of the pairs", mend=lambda c, s: (c, s * np.where(FAST, 1, -1)))
mutant("backward_odd", "plain", "direction|cos-sin-mispaired", "sine negated in every second pair",
    mend=lambda c, s: (c, s * np.where(np.arange(32) % 2, -1, 1)))
mutant("cosine_negated", "plain", "cos-sin-mispaired", "cosine negated", mend=lambda c, s: (-c, s))
mutant("both_negated", "plain", "cos-sin-mispaired", "cosine and sine negated",
    mend=lambda c, s: (-c, -s))
mutant("swapped_half", "plain", "cos-sin-mispaired",
    "cosines and sines swapped in the slow half of the pairs",
    mend=lambda c, s: (np.where(FAST, c, s), np.where(FAST, s, c)))
mutant("cosine_twice", "plain", "cos-sin-mispaired", "cosines where sines belong", relative=False,
    mend=lambda c, _: (c, c))
mutant("sine_half_zero", "plain", "cos-sin-mispaired", "zeros in the second half of the sines",
    relative=False, wide=lambda c, s: (np.tile(c, (1, 2)), np.concatenate([s, 0 * s], 1)))
mutant("minus_twice", "plain", "cos-sin-mispaired", "the minus of rotate_half in the sines too",
    relative=False, wide=lambda c, s: (np.tile(c, (1, 2)), np.concatenate([-s, s], 1)))
mutant("pairs_reversed_apply", "plain", "cos-sin-mispaired|frequency-rule",
    "tables applied to the pairs in reverse order", subjects=APPLIED,
    apply=lambda x, c, s, _: turned(x, c[:, ::-1], s[:, ::-1]))
mutant("one_of_two", "plain", "cos-sin-mispaired", "only the first column of a pair is replaced",
    relative=False, subjects=APPLIED,
    apply=lambda x, c, s, _: np.concatenate([turned(x, c, s)[:, :32], x[:, 32:]], 1))
mutant("rotated_twice", "plain", "frequency-rule", "q and k rotated twice", subjects=APPLIED,
    apply=lambda x, c, s, _: turned(turned(x, c, s), c, s))
mutant("added", "plain", "no-rotation", "the sinusoid is added", relative=False, subjects=APPLIED,
    apply=lambda x, c, s, _: x + np.concatenate([s[:, :32], c[:, :32]], 1))
mutant("only_cosine", "plain", "cos-sin-mispaired", "the term of the sines is missing",
    relative=False, subjects=APPLIED, apply=lambda x, c, *_: x * c)

# Tensor parallelism.
mutant("parallel_restarted", "wide", "frequency-rule",
    "each of 2 ranks makes a ladder of its own width", subjects=WHOLE,
    inv_freq=np.tile(ladder(64, 5e5), 2))
mutant("parallel_restarted_4", "wide", "frequency-rule",
    "each of 4 ranks makes a ladder of its own width", subjects=WHOLE,
    inv_freq=np.tile(ladder(32, 5e5), 4))
mutant("parallel_first", "wide", "frequency-rule",
    "2 ranks have the first slice of the frequencies", subjects=WHOLE,
    inv_freq=np.tile(ladder(128, 5e5)[:32], 2))
mutant("parallel_last", "wide", "frequency-rule", "2 ranks have the last slice of the frequencies",
    subjects=WHOLE, inv_freq=np.tile(ladder(128, 5e5)[32:], 2))
mutant("parallel_exchanged", "wide", "frequency-rule", "the slices of 2 ranks are exchanged",
    inv_freq=np.roll(ladder(128, 5e5), 32))
mutant("parallel_strided", "wide", "frequency-rule", "ranks take every second frequency",
    inv_freq=np.concatenate([ladder(128, 5e5)[::2], ladder(128, 5e5)[1::2]]))
mutant("parallel_llama3", "llama3", "frequency-rule", "2 ranks have the first slice of Llama 3's",
    subjects=WHOLE, inv_freq=np.tile(llama3(128, 5e5)[:32], 2))
mutant("parallel_narrow", "wide", "frequency-rule|base",
    "the width of one of 2 ranks in the exponents", inv_freq=5e5 ** -(np.arange(64) * 2 / 64))

# Scalings.
mutant("llama3_blend_kept", "llama3", "frequency-rule",
    "Llama 3 without its blend: between, pairs are kept", inv_freq=llama3(128, 5e5, blend=False))
mutant("llama3_blend_divided", "llama3", "frequency-rule",
    "Llama 3 without its blend: between, pairs are divided",
    inv_freq=np.where(2 * math.pi / ladder(128, 5e5) < 2048, ladder(128, 5e5), ladder(128,
        5e5) / 8))
mutant("llama3_low", "llama3", "frequency-rule", "low_freq_factor 2 for 1",
    inv_freq=llama3(128, 5e5, low=2))
mutant("llama3_high", "llama3", "frequency-rule", "high_freq_factor 8 for 4",
    inv_freq=llama3(128, 5e5, high=8))
mutant("llama3_turn", "llama3", "frequency-rule", "wavelengths without their 2π",
    inv_freq=llama3(128, 5e5, turn=1))
mutant("llama3_linear", "llama3", "frequency-rule", "all of Llama 3's pairs divided",
    inv_freq=ladder(128, 5e5) / 8)
mutant("llama3_multiplied", "llama3", "frequency-rule", "Llama 3's factor multiplies",
    inv_freq=llama3(128, 5e5, 1 / 8))
mutant("llama3_twice", "llama3", "frequency-rule", "Llama 3's rule applied twice",
    inv_freq=llama3(128, 5e5) ** 2 / ladder(128, 5e5))
mutant("yarn_ramp_base", "yarn", "frequency-rule", "YaRN's ramp from base 500000",
    inv_freq=yarn(128, 1e4, 16, ramp_base=5e5))
mutant("yarn_ramp_width", "yarn", "frequency-rule", "YaRN's ramp from width 64",
    inv_freq=yarn(128, 1e4, 16, ramp_width=64))
mutant("yarn_length", "yarn", "frequency-rule", "YaRN's ramp from 2048 positions",
    inv_freq=yarn(128, 1e4, 16, original=2048))
mutant("yarn_fast", "yarn", "frequency-rule", "beta_fast 16 for 32",
    inv_freq=yarn(128, 1e4, 16, fast=16))
mutant("yarn_slow", "yarn", "frequency-rule", "beta_slow 2 for 1",
    inv_freq=yarn(128, 1e4, 16, slow=2))
mutant("yarn_ramp_turned", "yarn", "frequency-rule", "YaRN's ramp the wrong way round",
    inv_freq=ladder(128, 1e4) * (1 + 1 / 16) - yarn(128, 1e4, 16))
mutant("yarn_factor", "yarn", "frequency-rule",
    "YaRN's factor 8 for 16, the attention factor as it was", inv_freq=yarn(128, 1e4, 8))
mutant("yarn_step", "yarn", "frequency-rule", "YaRN without its ramp: pairs kept or divided",
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
mutant("dynamic_plain", "dynamic", "frequency-rule", "the factor alone in place of the length's",
    inv_freq=ntk(64, 1e4, 4))
mutant("longrope_short", "longrope", "frequency-rule", "short_factor for long_factor",
    inv_freq=ladder(64, 1e4) / SHORT)
mutant("longrope_dropped", "longrope", "scaling-missing", "LongRoPE's lists dropped",
    inv_freq=ladder(64, 1e4))
mutant("longrope_multiplied", "longrope", "frequency-rule", "LongRoPE's list multiplies",
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
mutant("last_repeated", "plain", "frequency-rule", "the last frequency repeats the one before",
    inv_freq=ladder(64, 1e4)[np.minimum(np.arange(32), 30)])
mutant("first_repeated", "plain", "frequency-rule", "the first frequency comes twice",
    inv_freq=ladder(64, 1e4)[np.maximum(np.arange(32) - 1, 0)])
mutant("one_pair", "plain", "frequency-rule", "one frequency off by a hundredth",
    inv_freq=ladder(64, 1e4) * np.where(np.arange(32) == 5, 1.01, 1))
mutant("two_exchanged", "plain", "frequency-rule", "two frequencies exchanged",
    inv_freq=ladder(64, 1e4)[[*range(9), 10, 9, *range(11, 32)]])
mutant("shifted", "plain", "frequency-rule", "frequencies of the pair after, the last twice",
    inv_freq=ladder(64, 1e4)[np.minimum(np.arange(32) + 1, 31)])
mutant("nearly", "plain", "frequency-rule|inv-freq-precision", "all frequencies times 1 + 9e-7",
    inv_freq=ladder(64, 1e4) * (1 + 9e-7),
    positions="0:256,1000:1064,32768:32832,65500:65564,131008:131072")
mutant("three_digits", "plain", "inv-freq-precision", "frequencies of four digits",
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
mutant("uninitialised_normal", "plain", "uninitialised", "frequencies never written: noise",
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
mutant("uninitialised_nan", "plain", "uninitialised",
    "frequencies never written: no numbers among them", relative=None,
    inv_freq=np.where(np.arange(32) % 5 == 3, np.nan,
        np.random.default_rng(5).standard_normal(32) * 1e3))
mutant("float32_as_bfloat16", "plain", "uninitialised|frequency-rule",
    "the bytes of float32 read as bfloat16", relative=None,
    inv_freq=ladder(64, 1e4).astype(np.float32).view(ml_dtypes.bfloat16)[:32].astype(np.float64))

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
mutant("factor_on_sine", "yarn", "cos-sin-mispaired|attention-factor",
    "only the sine carries the factor", relative=False, mend=lambda c, s: (c / yarn_scale(16), s))
mutant("factor_of_slow", "yarn", "attention-factor", "only the divided pairs carry the factor",
    mend=lambda c, s: (c / KEPT, s / KEPT))
mutant("softmax_scale", "plain", "attention-factor", "1/√d multiplied into the tables", scale=1 / 8)

# Positions.
mutant("position_int8", "plain", "position-offset", "positions in int8", relative=False,
    remap=lambda p: p.astype(np.int8))
mutant("position_uint8", "plain", "position-offset", "positions in uint8", relative=False,
    remap=lambda p: p.astype(np.uint8))
mutant("position_int16", "plain", "position-offset", "positions in int16", relative=False,
    remap=lambda p: p.astype(np.int16), positions="0:512,32700:32800,40000:40100")
mutant("position_uint16", "plain", "position-offset", "positions in uint16", relative=False,
    remap=lambda p: p.astype(np.uint16), positions="0:512,65500:65600,70000:70100")
mutant("ring", "plain", "position-offset", "a ring buffer of 1000 rows", relative=False,
    remap=lambda p: p % 1000)
mutant("window", "plain", "position-offset", "a window that keeps 4 rows, then turns in 1020",
    relative=False, remap=lambda p: np.where(p < 1024, p, 4 + (p - 4) % 1020))
mutant("clamped_early", "plain", "position-offset", "positions end at 1023", relative=False,
    remap=lambda p: np.minimum(p, 1023))
mutant("chunks", "plain", "position-offset", "positions start again in each chunk of 512",
    relative=False, remap=lambda p: p % 512)
mutant("packed", "plain", "position-offset", "positions start again at 700 and 1900",
    relative=False, remap=lambda p: p - np.where(p < 700, 0, np.where(p < 1900, 700, 1900)))
mutant("left_padding", "plain", "position-offset", "7 padded tokens on the left counted", offset=7)
mutant("left_padding_held", "plain", "position-offset",
    "padding ends at row 9, before it position 1", relative=False,
    remap=lambda p: np.where(p < 9, 1, p - 9))
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
mutant("pairs_late", "plain", "position-offset", "the slow half of the pairs one position late",
    remap=lambda p: p[:, None] - ~FAST)

# Rows from one on.
mutant("grown_cast", "plain", "inv-freq-precision",
    "a cache grown after a cast: from row 2048 on frequencies in bfloat16", relative=False,
    **since(2048, "plain", inv_in="bfloat16"))
mutant("grown_half", "llama3", "inv-freq-precision", "from row 2048 on frequencies in float16",
    relative=False, **since(2048, "llama3", inv_in="float16"))
mutant("grown_positions", "plain", "position-precision", "from row 1024 on positions in bfloat16",
    relative=False, **since(1024, "plain", positions_in="bfloat16"))
mutant("grown_tables", "plain", "table-precision", "from row 2048 on cosines and sines in bfloat16",
    relative=False, **since(2048, "plain", table_in="bfloat16"))
mutant("grown_dropped", "llama3", "scaling-missing", "from row 2048 on Llama 3's scaling dropped",
    relative=False, **since(2048, "llama3", inv_freq=ladder(128, 5e5)))
mutant("grown_scaled", "plain", "frequency-rule", "from row 2048 on interpolated by 4",
    relative=False, **since(2048, "plain", inv_freq=linear(64, 1e4, 4)))
mutant("grown_ntk", "plain", "frequency-rule|base", "from row 2048 on NTK by 2", relative=False,
    **since(2048, "plain", inv_freq=ntk(64, 1e4, 2)))
mutant("grown_base", "wide", "base", "from row 1024 on base 10000", relative=False,
    **since(1024, "wide", inv_freq=ladder(128, 1e4)))
mutant("grown_factor", "yarn", "attention-factor", "from row 2048 on without the attention factor",
    relative=False, **since(2048, "yarn", scale=1.0))
mutant("grown_backward", "plain", "direction", "from row 2048 on sine negated", relative=False,
    **since(2048, "plain", sign=-1))
mutant("grown_still", "plain", "no-rotation|position-offset", "from row 2048 on nothing turns",
    relative=False, **since(2048, "plain", inv_freq=np.zeros(32)))
mutant("grown_empty", "plain", "uninitialised", "from row 2048 on never written: zeros",
    relative=False, **since(2048, "plain", scale=0.0))
mutant("grown_restart", "plain", "position-offset", "from row 2048 on rows of 2049 on",
    relative=False, **since(2048, "plain", offset=1))

# Precision.
mutant("frequencies_e4m3", "plain", "inv-freq-precision", "frequencies in fp8", inv_in="e4m3")
for _kind, _what in (("e4m3", "fp8 (e4m3)"), ("e5m2", "fp8 (e5m2)")):
    mutant(f"tables_{_kind}", "plain", "table-precision", f"cosines and sines in {_what}",
        relative=False, table_in=_kind)
mutant("tables_int8", "plain", "table-precision", "cosines and sines in int8", relative=False,
    mend=lambda c, s: (np.rint(127 * c) / 127, np.rint(127 * s) / 127))
mutant("tables_int16", "plain", "table-precision", "cosines and sines in Q12", relative=False,
    mend=lambda c, s: (np.rint(4096 * c) / 4096, np.rint(4096 * s) / 4096))
mutant("cosine_bfloat16", "plain", "table-precision", "only the cosine in bfloat16", relative=False,
    mend=lambda c, s: (to(c, "bfloat16"), s))
mutant("sine_float16", "wide", "table-precision", "only the sine in float16", relative=False,
    mend=lambda c, s: (c, to(s, "float16")))
mutant("looked_up", "plain", "table-precision|position-precision",
    "angles looked up in 4096 steps of a turn", relative=False,
    reduce=lambda a: np.rint(a * 4096 / math.tau) * math.tau / 4096)
mutant("truncated_pi", "plain", "position-precision", "angles reduced by π = 3.14159",
    relative=None, reduce=lambda a: a - np.rint(a / math.tau) * 2 * 3.14159)
mutant("float32_far", "plain", "position-precision", "positions in float32 past its integers",
    relative=False, positions_in="float32", positions="0:64,16777216:16777280,33554432:33554496")
mutant("half_seconds", "plain", "position-precision", "angles kept to 1/1000", relative=False,
    reduce=lambda a: np.rint(a * 1000) / 1000)

# Several axes.
for _of, _right, _axes in (("mrope", BLOCKS, "blocks"), ("dealt", DEALT, "dealt out")):
    mutant(f"{_of}_one_axis", _of, "axis", f"time for all three axes ({_axes})", relative=None,
        remap=along(0 * _right))
    mutant(f"{_of}_text", _of, "axis|position-offset", f"token numbers for all axes ({_axes})",
        relative=None, remap=lambda p: p)
    mutant(f"{_of}_exchanged", _of, "axis", f"height and width exchanged ({_axes})", relative=None,
        remap=along(np.array([0, 2, 1])[_right]))
    mutant(f"{_of}_reversed", _of, "axis", f"axes in the order w, h, t ({_axes})", relative=None,
        remap=along(2 - _right))
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

# No numbers.
mutant("one_missing", "plain", "unknown", "one cell is no number", relative=None,
    subjects=("tables", "half"),
    remap=lambda p: np.where((p[:, None] == 1234) & (np.arange(32) == 5), np.nan, p[:, None]))
mutant("row_missing", "plain", "unknown", "one row is no number", relative=None,
    subjects=("tables", "half"), remap=lambda p: np.where(p == 1234, np.nan, p))

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
mutant("base_clamped", "wide", "base|position-offset", "base, and positions end at 2047",
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
# One column of a pair.
mutant("other_of_two", "plain", "cos-sin-mispaired", "only the second column of a pair is replaced",
    relative=False, subjects=APPLIED,
    apply=lambda x, c, s, _: np.concatenate([x[:, :32], turned(x, c, s)[:, 32:]], 1))
mutant("cosine_first_half", "plain", "cos-sin-mispaired", "cosines for the first columns alone",
    relative=False, subjects=APPLIED,
    apply=lambda x, c, s, _: turned(x, np.concatenate([c[:, :32], 0 * c[:, 32:] + 1], 1), s))
mutant("first_copied", "plain", "cos-sin-mispaired", "the turned first column in both",
    relative=False, subjects=APPLIED,
    apply=lambda x, c, s, _: np.tile(turned(x, c, s)[:, :32], (1, 2)))
mutant("second_lost", "yarn", "cos-sin-mispaired", "the second column of a pair set to zero",
    relative=False, subjects=APPLIED,
    apply=lambda x, c, s, _: turned(x, c, s) * (np.arange(128) < 64))

# Added.
mutant("added_turned", "plain", "cos-sin-mispaired", "rotated, and the sinusoid is added",
    relative=False, subjects=APPLIED,
    apply=lambda x, c, s, _: turned(x, c, s) + np.concatenate([s[:, :32], c[:, :32]], 1))
mutant("added_interleaved", "wide", "no-rotation", "sinusoids of base 10000 are added in turn",
    relative=False, subjects=("rotated",), apply=lambda x, *_: x + np.stack(
        [f(np.arange(len(x))[:, None] * ladder(128, 1e4)) for f in (np.sin, np.cos)], 2
    ).reshape(len(x), -1))

# Columns that should stay.
mutant("passed_turned", "partial", "rotary-dim", "the other 72 columns turn by a ladder of theirs",
    relative=None, subjects=("rotated",), apply=lambda x, c, s, _: np.concatenate([
        turned(x[:, :24], c, s), Rope(ladder(72, 1e4), 72)(x[:, 24:], np.arange(len(x)))], 1))
mutant("passed_backward", "partial", "rotary-dim",
    "columns that should stay are halved, and the sine is negated", also="direction",
    subjects=APPLIED, relative=None, sign=-1, apply=lambda x, c, s, _: np.concatenate([
        turned(x[:, :24], c, s), x[:, 24:] / 2], 1))

# Rows that nobody wrote.
mutant("grown_garbage", "plain", "uninitialised", "from row 1500 on never written: any numbers",
    relative=False, subjects=("tables", "half"), later=replace(CASES["plain"].right,
        mend=lambda c, s: (noise(c, 8), noise(s, 9))), since=1500)
mutant("grown_garbage_turned", "plain", "uninitialised",
    "turned by rows that were never written, from 1500 on", relative=False, subjects=("rotated",),
    later=replace(CASES["plain"].right, mend=lambda c, s: (noise(c, 8), noise(s, 9))), since=1500)
mutant("grown_empty_wide", "wide", "uninitialised", "from row 1023 on never written: zeros",
    relative=False, later=replace(CASES["wide"].right, scale=0.0), since=1023)

# Groups of pairs at other positions.
mutant("fast_clamped", "plain", "position-offset", "the fast half of the pairs ends at 2047",
    relative=False, remap=lambda p: np.where(FAST, np.minimum(p, 2047)[:, None], p[:, None]))
mutant("slow_wrapped", "plain", "position-offset", "the slow half of the pairs in a ring of 300",
    relative=False, remap=lambda p: np.where(FAST, p[:, None], p[:, None] % 300))
mutant("fast_wrapped", "wide", "position-offset", "the first 4 pairs in chunks of 128",
    relative=False, remap=lambda p: np.where(np.arange(64) < 4, p[:, None] % 128, p[:, None]))
mutant("odd_restarted", "plain", "position-offset", "every second pair starts again at 1000",
    relative=False, remap=lambda p: np.where(np.arange(32) % 2, p[:, None] % 4096, (p
        - np.where(p < 1000, 0, 1000))[:, None]))
mutant("slow_scaled", "plain", "frequency-rule", "positions of the slow half divided by 4",
    remap=lambda p: np.where(FAST, p[:, None], p[:, None] / 4))

# Formats.
mutant("tables_int4", "plain", "table-precision", "cosines and sines in int4", relative=False,
    mend=lambda c, s: (np.rint(7 * c) / 7, np.rint(7 * s) / 7))

# Axes.
mutant("mrope_time_text", "mrope", "axis|position-offset", "token numbers for the axis of time",
    relative=None, remap=lambda p: np.where(BLOCKS == 0, p[:, None], along(BLOCKS)(p)))
mutant("mrope_image_from_zero", "mrope", "position-offset|axis",
    "coordinates of the image from 0 on", relative=None,
    remap=lambda p: along(BLOCKS)(p) - np.where(p < 64, 0, 64)[:, None])
# fmt: on


def __getattr__(name: str) -> Any:
    """A mutant, or the right implementation of a case (``right_NAME``), as a function."""
    if name in MUTANTS:
        return MUTANTS[name].wrong
    if name.startswith("right_"):
        return CASES[name.removeprefix("right_")].right
    raise AttributeError(name)
