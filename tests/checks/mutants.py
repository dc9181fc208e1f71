"""Textbook RoPE in NumPy, and what goes wrong with it: each mutant is one mistake.

Written apart from posenc: nothing of it is imported. The file is also what ``--impl`` loads, by
``mutants.py:NAME``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.records import Record, fresh, replace

try:
    import ml_dtypes
except ModuleNotFoundError:  # pytest alone needs pytest: mutants run in short processes too
    import pytest

    pytest.skip("ml-dtypes is not installed", allow_module_level=True)

if TYPE_CHECKING:
    from collections.abc import Callable

HALF = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32}


def to(values: Any, dtype: str | None) -> Any:
    """``values`` rounded to a format, in float32 or wider."""
    if dtype is None:
        return values
    with np.errstate(over="ignore"):
        rounded = np.asarray(values).astype(HALF[dtype])
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
) -> Any:
    low, high = (
        d * math.log(original / (b * 2 * math.pi)) / (2 * math.log(base)) for b in (fast, slow)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
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
) -> Any:
    kept = ladder(d, base)
    length = 2 * math.pi / kept
    smooth = (original / length - low) / (high - low)
    between = (1 - smooth) * kept / factor + smooth * kept
    return np.where(
        length < original / high, kept, np.where(length > original / low, kept / factor, between)
    )


def yarn_scale(factor: float) -> float:
    return 0.1 * math.log(factor) + 1


class Rope(Record):
    """RoPE as one writes it: every step can be done in a precision, or wrongly."""

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
    mend: Callable[[Any, Any], tuple[Any, Any]] | None = None
    wide: Callable[[Any, Any], tuple[Any, Any]] | None = None
    apply: Callable[..., Any] | None = None
    compute: Any = np.float64

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
            angles = to(p[:, None] * inv, self.angles_in).astype(self.compute)
            cos, sin = np.cos(angles), self.sign * np.sin(angles)
        cos, sin = cos * self.scale, sin * self.scale
        if self.mend:
            cos, sin = self.mend(cos, sin)
        return tuple(to(each, self.table_in).astype(self.dtype) for each in (cos, sin))

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
    """A reference, and the right implementation of it."""

    scheme: str
    given: dict[str, Any]
    right: Rope


def case(
    scheme: str, inv: Any, *, head: int | None = None, scale: float = 1.0, **given: Any
) -> Case:
    head = head or 2 * len(inv)
    return Case(scheme, {"dim": head, "layout": "half", **given}, Rope(inv, head, scale=scale))


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
}


class Mutant(Record):
    """One mistake, the causes that name it, and which subjects show it.

    ``relative`` is whether q·k depends on m − n alone, None where that shows in some subjects only.
    """

    case: str
    wrong: Rope
    causes: frozenset[str]
    what: str
    subjects: tuple[str, ...] = ("tables", "rotated", "impl")
    inv_freq: bool = False
    relative: bool | None = True
    changes: dict[str, Any] = fresh(dict)


ALL = ("tables", "rotated", "impl")
APPLIED = ("rotated", "impl")
MUTANTS: dict[str, Mutant] = {}


def mutant(
    name: str,
    of: str,
    cause: str,
    what: str,
    *,
    subjects: tuple[str, ...] = ALL,
    relative: bool | None = True,
    **changes: Any,
) -> None:
    wrong = replace(CASES[of].right, **changes)
    inv = set(changes) <= {"inv_freq", "inv_in"} and wrong.rotated == CASES[of].right.rotated
    MUTANTS[name] = Mutant(of, wrong, frozenset(cause.split("|")), what, subjects, inv, relative)


# Layout, direction, partners.
mutant(
    "interleaved",
    "plain",
    "layout",
    "pairs 2i, 2i+1 for i, i+d/2",
    layout="interleaved",
)
mutant("backward", "plain", "direction", "sine negated", sign=-1)
mutant("backward_yarn", "yarn", "direction", "sine negated under YaRN", sign=-1)
mutant(
    "still",
    "plain",
    "no-rotation",
    "q and k are returned as they are",
    subjects=APPLIED,
    apply=lambda x, *_: x.copy(),
)
mutant(
    "mispaired",
    "plain",
    "cos-sin-mispaired",
    "interleaved tables, halves rotated",
    relative=False,
    subjects=APPLIED,
    apply=lambda x, c, s, r: (
        x * np.repeat(c[:, : r.rotated // 2], 2, 1)
        + rotate(x, "half") * np.repeat(s[:, : r.rotated // 2], 2, 1)
    ),
)
mutant(
    "half_mispaired",
    "plain",
    "cos-sin-mispaired",
    "sine interleaved, cosine in halves",
    relative=False,
    wide=lambda c, s: (np.tile(c, (1, 2)), np.repeat(s, 2, 1)),
)
mutant(
    "cos_mispaired",
    "plain",
    "cos-sin-mispaired",
    "cosine interleaved, sine in halves",
    relative=False,
    wide=lambda c, s: (np.repeat(c, 2, 1), np.tile(s, (1, 2))),
)
mutant(
    "swapped", "plain", "cos-sin-mispaired", "cosines and sines swapped", mend=lambda c, s: (s, c)
)
mutant(
    "sine_reversed",
    "plain",
    "cos-sin-mispaired",
    "sines in reverse order of pairs",
    mend=lambda c, s: (c, s[:, ::-1]),
    relative=False,
)
mutant(
    "sine_shifted",
    "plain",
    "cos-sin-mispaired",
    "sines of the pair before",
    mend=lambda c, s: (c, np.roll(s, 1, 1)),
    relative=False,
)
mutant(
    "no_minus",
    "plain",
    "cos-sin-mispaired",
    "rotate_half without its minus",
    subjects=APPLIED,
    relative=False,
    apply=lambda x, c, s, r: x * c + np.roll(x, r.rotated // 2, 1) * s,
)
mutant(
    "mirrored",
    "plain",
    "cos-sin-mispaired",
    "a cosine with the wrong sign",
    subjects=APPLIED,
    relative=None,
    apply=lambda x, c, s, _: np.concatenate(
        [
            x[:, :32] * c[:, :32] + x[:, 32:] * s[:, :32],
            x[:, :32] * s[:, :32] - x[:, 32:] * c[:, :32],
        ],
        1,
    ),
)
mutant(
    "in_place",
    "plain",
    "cos-sin-mispaired",
    "second half turned by the already turned first",
    relative=False,
    subjects=APPLIED,
    apply=lambda x, c, s, _: np.concatenate(
        [
            x[:, :32] * c[:, :32] - x[:, 32:] * s[:, :32],
            x[:, 32:] * c[:, :32] + (x[:, :32] * c[:, :32] - x[:, 32:] * s[:, :32]) * s[:, :32],
        ],
        1,
    ),
)

# Frequencies.
mutant(
    "base_lost", "wide", "base", "base 10000 for 500000", inv_freq=ladder(128, 1e4), relative=True
)
mutant(
    "base_million",
    "plain",
    "base",
    "base 1000000 for 10000",
    inv_freq=ladder(64, 1e6),
)
mutant(
    "base_odd", "plain", "base", "base 12345 for 10000", inv_freq=ladder(64, 12345), relative=True
)
mutant(
    "base_scaled_lost",
    "llama3",
    "base",
    "base 10000 under Llama 3's rule",
    inv_freq=llama3(128, 1e4),
)
mutant(
    "llama3_dropped",
    "llama3",
    "scaling-missing",
    "Llama 3's scaling dropped",
    inv_freq=ladder(128, 5e5),
)
mutant(
    "llama3_dropped_base",
    "llama3",
    "scaling-missing",
    "scaling and base dropped",
    inv_freq=ladder(128, 1e4),
)
mutant(
    "llama3_half_dropped",
    "llama3",
    "scaling-missing",
    "a part of the pairs unscaled",
    inv_freq=np.where(np.arange(64) % 2, ladder(128, 5e5), llama3(128, 5e5)),
)
mutant(
    "llama3_factor", "llama3", "frequency-rule", "factor 32 for 8", inv_freq=llama3(128, 5e5, 32)
)
mutant(
    "llama3_swapped",
    "llama3",
    "frequency-rule",
    "the blend runs the wrong way",
    inv_freq=np.where(
        (llama3(128, 5e5) != ladder(128, 5e5)) & (llama3(128, 5e5) != ladder(128, 5e5) / 8),
        ladder(128, 5e5) + ladder(128, 5e5) / 8 - llama3(128, 5e5),
        llama3(128, 5e5),
    ),
)
mutant(
    "llama3_original",
    "llama3",
    "frequency-rule",
    "original context 4096 for 8192",
    inv_freq=llama3(128, 5e5, original=4096),
)
mutant(
    "linear_dropped", "linear", "scaling-missing", "interpolation dropped", inv_freq=ladder(64, 1e4)
)
mutant(
    "linear_twice",
    "linear",
    "frequency-rule",
    "interpolation applied twice",
    inv_freq=ladder(64, 1e4) / 16,
)
mutant(
    "linear_for_ntk", "ntk", "frequency-rule", "linear in place of NTK", inv_freq=linear(64, 1e4, 4)
)
mutant(
    "ntk_exponent",
    "ntk",
    "frequency-rule|base",
    "NTK without its exponent d/(d−2)",
    inv_freq=ladder(64, 4e4),
)
mutant(
    "yarn_dropped",
    "yarn",
    "scaling-missing",
    "YaRN's frequencies dropped",
    inv_freq=ladder(128, 1e4),
)
mutant(
    "yarn_linear", "yarn", "frequency-rule", "all pairs interpolated", inv_freq=linear(128, 1e4, 16)
)
mutant(
    "yarn_swapped",
    "yarn",
    "frequency-rule",
    "betas swapped",
    inv_freq=yarn(128, 1e4, 16, fast=1, slow=32),
)
mutant(
    "yarn_context",
    "yarn",
    "frequency-rule",
    "context 65536 in place of the original 4096",
    inv_freq=yarn(128, 1e4, 16, original=65536),
)
mutant(
    "yarn_truncated",
    "oss",
    "frequency-rule",
    "ramp rounded to whole pairs",
    inv_freq=yarn(64, 1.5e5, 32),
)
mutant(
    "yarn_untruncated",
    "yarn",
    "frequency-rule",
    "ramp not rounded",
    inv_freq=yarn(128, 1e4, 16, truncate=False),
)
mutant("yarn_ntk", "yarn", "frequency-rule", "NTK in place of YaRN", inv_freq=ntk(128, 1e4, 16))
mutant(
    "half_minus_one", "plain", "frequency-rule", "exponents i/(d/2−1)", inv_freq=ladder(64, 1e4, 62)
)
mutant("half_exponent", "plain", "frequency-rule", "exponents i/d", inv_freq=ladder(64, 1e4, 128))
mutant(
    "from_one",
    "plain",
    "frequency-rule",
    "exponents from 2/d on",
    inv_freq=ladder(64, 1e4) * 1e4 ** (-2 / 64),
)
mutant(
    "degrees",
    "plain",
    "frequency-rule",
    "radians taken as degrees",
    inv_freq=ladder(64, 1e4) * math.pi / 180,
)
mutant(
    "reversed",
    "plain",
    "frequency-rule",
    "frequencies in reverse order",
    inv_freq=ladder(64, 1e4)[::-1],
)
mutant(
    "two_pi",
    "plain",
    "frequency-rule",
    "frequencies times 2π",
    inv_freq=ladder(64, 1e4) * 2 * math.pi,
)

# Partial rotation.
mutant(
    "partial_denominator",
    "partial",
    "frequency-rule",
    "exponents divide by the head",
    inv_freq=ladder(24, 1e4, 96),
)
mutant("partial_whole", "partial", "rotary-dim", "the whole head turns", inv_freq=ladder(96, 1e4))
mutant(
    "partial_less",
    "partial",
    "rotary-dim",
    "12 of 24 columns turn",
    inv_freq=ladder(12, 1e4),
    subjects=("tables", "impl"),
)
mutant(
    "partial_stopped",
    "plain",
    "rotary-dim",
    "the slow half of the pairs stands still",
    inv_freq=np.where(np.arange(32) < 16, ladder(64, 1e4), 0),
)
mutant(
    "partial_partner",
    "partial",
    "layout|rotary-dim",
    "partners half a head away",
    subjects=("impl",),
    apply=lambda x, c, s, _: np.concatenate(
        [
            x[:, :12] * c[:, :12] - x[:, 48:60] * s[:, :12],
            x[:, 12:48],
            x[:, 48:60] * c[:, :12] + x[:, :12] * s[:, :12],
            x[:, 60:],
        ],
        1,
    ),
)

# The attention factor.
mutant(
    "factor_dropped",
    "yarn",
    "attention-factor",
    "attention factor dropped",
    scale=1.0,
)
mutant(
    "factor_squared",
    "yarn",
    "attention-factor",
    "attention factor applied twice",
    scale=yarn_scale(16) ** 2,
)
mutant(
    "factor_extra",
    "plain",
    "attention-factor",
    "an attention factor where there is none",
    scale=1.277,
)
mutant(
    "factor_on_cosine",
    "yarn",
    "cos-sin-mispaired|attention-factor",
    "only the cosine carries the factor",
    mend=lambda c, s: (c, s / yarn_scale(16)),
    relative=False,
)
mutant(
    "factor_and_scaling",
    "yarn",
    "scaling-missing",
    "YaRN dropped whole",
    inv_freq=ladder(128, 1e4),
    scale=1.0,
)

# Positions.
mutant(
    "from_position_one", "plain", "position-offset", "positions from 1 on", offset=1, relative=True
)
mutant(
    "from_position_minus",
    "plain",
    "position-offset",
    "positions from −1 on",
    offset=-1,
)
mutant("far_offset", "plain", "position-offset", "positions from 100 on", offset=100)
mutant(
    "clamped",
    "plain",
    "position-offset",
    "positions end at 2047",
    remap=lambda p: np.minimum(p, 2047),
    relative=False,
)
mutant(
    "wrapped",
    "plain",
    "position-offset",
    "positions start again at 2048",
    remap=lambda p: p % 2048,
    relative=False,
)
mutant(
    "turned_around",
    "plain",
    "position-offset|direction",
    "positions count down",
    remap=lambda p: 4095 - p,
)

# Precision at each stage.
for _half in ("bfloat16", "float16"):
    mutant(
        f"positions_{_half}",
        "plain",
        "position-precision",
        f"positions in {_half}",
        positions_in=_half,
        relative=False,
    )
    mutant(
        f"frequencies_{_half}",
        "plain",
        "inv-freq-precision",
        f"frequencies in {_half}",
        inv_in=_half,
    )
    mutant(
        f"angles_{_half}",
        "plain",
        "position-precision",
        f"angles in {_half}",
        angles_in=_half,
        relative=False,
    )
    mutant(
        f"tables_{_half}",
        "plain",
        "table-precision",
        f"cosines and sines in {_half}",
        table_in=_half,
        relative=False,
    )
    mutant(
        f"all_{_half}",
        "plain",
        "position-precision",
        f"positions, frequencies, angles and tables in {_half}",
        positions_in=_half,
        inv_in=_half,
        angles_in=_half,
        table_in=_half,
        relative=False,
    )
mutant(
    "frequencies_llama3_bfloat16",
    "llama3",
    "inv-freq-precision",
    "Llama 3's frequencies in bfloat16",
    inv_in="bfloat16",
)
mutant(
    "tables_yarn_bfloat16",
    "yarn",
    "table-precision",
    "YaRN's tables in bfloat16",
    table_in="bfloat16",
    relative=False,
)

# Two at once.
mutant(
    "interleaved_backward",
    "plain",
    "layout|direction",
    "layout and direction",
    layout="interleaved",
    sign=-1,
)
mutant(
    "interleaved_base",
    "wide",
    "layout|base",
    "layout and base",
    layout="interleaved",
    inv_freq=ladder(128, 1e4),
)
mutant(
    "backward_base",
    "wide",
    "direction|base",
    "direction and base",
    sign=-1,
    inv_freq=ladder(128, 1e4),
)


def __getattr__(name: str) -> Any:
    """A mutant, or the right implementation of a case (``right_NAME``), as a function."""
    if name in MUTANTS:
        return MUTANTS[name].wrong
    if name.startswith("right_"):
        return CASES[name.removeprefix("right_")].right
    raise AttributeError(name)
