"""Textbook RoPE in NumPy, right in every case: what a mutant changes in one place.

Written apart from posenc: of it only records are imported.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.records import Record

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


GRID = np.stack([TOKENS // 64, TOKENS % 64])
"""The row and the column of each patch of an image of 16×64: (2, 1024)."""

GRID_AXES = np.repeat([0, 1], 16)
"""The axis that each pair follows: Pixtral's."""


def placed(places: Callable[[Any], tuple[Any, Any]]) -> Callable[[Any], Any]:
    """What gives each token's row or column, as its pairs follow them, (L, pairs)."""
    return lambda tokens: np.stack(places(tokens))[GRID_AXES].T


def cut(values: Any) -> Any:
    """The upper halves of float32."""
    return (np.float32(values).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


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
    grow: Callable[[Any], Any] | None = None
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
        if self.grow:
            cos, sin = (values * self.grow(p)[:, None] for values in (cos, sin))
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
    "grid": Case(
        "rope-axial",
        {"dim": 64, "layout": "half", "grid": "16x64"},
        Rope(
            np.concatenate([ladder(64, 1e4)[0::2], ladder(64, 1e4)[1::2]]),
            64,
            remap=placed(lambda p: tuple(GRID[:, p])),
        ),
        GRID,
    ),
    "dealt": case(
        "mrope", ladder(128, 5e6), base=5e6, sections=(24, 20, 20), interleaved=True, axes=DEALT
    ),
}
