"""Mistakes that show in some calls alone: in batches, in heads, by positions beside tables.

Written apart from posenc, after :mod:`doubles`, of which each is a right function but for one
mistake. The file is also what ``--impl`` loads, by ``mutants_calls.py:NAME``.
"""

# ruff: noqa: ARG002, PLR0917 - the signatures are the libraries' own

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

# As --impl loads it, this file is part of no package.
_spec = importlib.util.spec_from_file_location("doubles", Path(__file__).with_name("doubles.py"))
assert _spec is not None
assert _spec.loader is not None
doubles: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(doubles)
full, turned = doubles.full, doubles.turned

EXPONENTS = np.arange(0, doubles.D, 2) / doubles.D
MUTANTS: dict[str, tuple[str, str]] = {}
"""The cause of each, and words of what is said of it."""

HALVES = {
    "rounded_positions": ("position-precision", "positions are rounded to bfloat16, as vectors"),
    "rounded_positions_in_float16": ("position-precision", "positions are rounded to float16"),
    "rounded_frequencies": ("inv-freq-precision", "frequencies are rounded to bfloat16"),
    "rounded_angles": ("position-precision", "angles are rounded to bfloat16"),
    "infinite": ("unknown", "vectors of bfloat16 are rotated differently from float32"),
    "tables": ("position-precision", "positions"),
    "rounded_in_decoding": ("position-precision", "positions are rounded to bfloat16, as vectors"),
}
"""The same of :mod:`mutants_halves`, which needs torch."""


def mutant(cause: str, words: str) -> Callable[[Any], Any]:
    """One mistake."""

    def listed(function: Any) -> Any:
        MUTANTS[function.__name__] = cause, words
        return function

    return listed


def of_heads(positions: Any) -> tuple[Any, Any]:
    """Tables of (b, n) positions beside (b, h, n, d)."""
    return tuple(np.expand_dims(table, -3) for table in full(positions))


# Sequences of a batch.
@mutant("no-rotation", "are returned unrotated")
def first_sequence(q, k, cos, sin, unsqueeze_dim=1):
    q, k = q.copy(), k.copy()
    q[:1], k[:1] = doubles.transformers(q[:1], k[:1], cos[:1], sin[:1])
    return q, k


@mutant("position-offset", "get the rotation of other positions")
def first_tables(q, k, cos, sin, unsqueeze_dim=1):
    return doubles.transformers(q, k, cos[:1], sin[:1], unsqueeze_dim)


@mutant("position-offset", "get the rotation of other positions")
def first_positions(query, key, position_ids):
    cos, sin = full(position_ids[0])
    return turned(query, cos, sin), turned(key, cos, sin)


@mutant("position-offset", "get the rotation of other positions")
def first_rows(q, k, cos, sin, position_ids):
    return doubles.transformers_4(q, k, cos, sin, position_ids[:1])


@mutant("position-offset", "get the rotation of other positions")
def first_rows_of_k(q, k, cos, sin, position_ids):
    right = doubles.transformers_4(q, k, cos, sin, position_ids)
    return right[0], first_rows(q, k, cos, sin, position_ids)[1]


@mutant("no-rotation", "are returned unrotated")
def first_of_batch(x, offset=0):
    y = x.copy()
    y[:1] = doubles.mlx(x[:1], offset)
    return y


@mutant("unknown", "depends on more than the row and its position")
def first_returned(x, freqs_cis):
    return doubles.gpt_fast(x[:1], freqs_cis) + 0 * x


@mutant("position-offset", "get the rotation of other positions")
def counted_through(x, start_index=0):
    """A kernel that counts the rows of all sequences."""
    b, n = x.shape[:2]
    cos, sin = full(np.arange(b * n).reshape(b, n, 1) + start_index)
    return turned(x, cos, sin)


@mutant("no-rotation", "are returned unrotated")
def first_of_rows(x, positions):
    """Rows of vectors, or a batch of them."""
    y = turned(x, *full(positions))
    if x.ndim > 2:
        y[1:] = x[1:]
    return y


@mutant("unknown", "the tables differ from single calls")
def tables_of_first(x, position_ids):
    return full(position_ids[:1])


@mutant("unknown", "the tables differ from single calls")
def tables_repeated(x, position_ids):
    return tuple(table[:1].repeat(len(position_ids), 0) for table in full(position_ids))


@mutant("position-offset", "get the rotation of other positions")
def one_block_of_sequences(query, key, position_ids):
    """A kernel that forgets the positions of what is beyond its first block."""
    places = np.array(position_ids)
    places[4:] = places[:1]
    cos, sin = of_heads(places)
    return turned(query, cos, sin), turned(key, cos, sin)


@mutant("position-offset", "get the rotation of other positions")
def counted_by_sequence(query, key, position_ids):
    cos, sin = of_heads(position_ids + np.arange(len(position_ids))[:, None])
    return turned(query, cos, sin), turned(key, cos, sin)


@mutant("position-offset", "get the rotation of other positions")
def batches_from_zero(query, key, position_ids):
    first = position_ids.min(axis=-1, keepdims=True) * (len(position_ids) > 1)
    cos, sin = of_heads(position_ids - first)
    return turned(query, cos, sin), turned(key, cos, sin)


@mutant("position-offset", "get the rotation of other positions")
def counted_through_heads(x, positions):
    """Rows of vectors, or a batch of heads of them, flattened."""
    blocks = np.arange(x[..., 0, 0].size if x.ndim > 2 else 1).reshape(x.shape[:-2])
    return turned(x, *full(positions + len(positions) * blocks[..., None]))


@mutant("position-offset", "get the rotation of other positions")
def counted_from_zero(x):
    b, n = x.shape[:2]
    return turned(x, *full(np.arange(b * n).reshape(b, n, 1)))


# Heads.
@mutant("no-rotation", "are returned unrotated")
def four_heads_by_tables(q, k, cos, sin, unsqueeze_dim=1):
    y, other = doubles.transformers(q, k, cos, sin, unsqueeze_dim)
    y[:, 4:], other[:, 4:] = q[:, 4:], k[:, 4:]
    return y, other


@mutant("position-offset", "rows of heads 2, 4, 6, 8, 10, 12 get the rotation of other positions")
def every_second_head_backward(q, k, cos, sin, unsqueeze_dim=1):
    results = doubles.transformers(q, k, cos, sin, unsqueeze_dim)
    for y, back in zip(results, doubles.transformers(q, k, cos, -sin, unsqueeze_dim), strict=True):
        y[:, 1::2] = back[:, 1::2]
    return results


@mutant("no-rotation", "are returned unrotated")
def whole_blocks_of_heads(q, k, cos, sin, unsqueeze_dim=1):
    results = doubles.transformers(q, k, cos, sin, unsqueeze_dim)
    for y, x in zip(results, (q, k), strict=True):
        end = x.shape[1] // 4 * 4
        y[:, end:] = x[:, end:]
    return results


@mutant("unknown", "at positions 0 to 4192, results for vectors differ")
def many_heads(q, k, cos, sin, unsqueeze_dim=1):
    if q.shape[1] > 12:
        cos, sin = np.roll(cos, 1, axis=-2), np.roll(sin, 1, axis=-2)
    return doubles.transformers(q, k, cos, sin, unsqueeze_dim)


@mutant("unknown", "at position 131070, results for vectors differ from the sums over their")
def late_in_a_graph(x, positions):
    """A buffer of 16 rows, whose last one is written late: the row before it stands there."""
    late = x.shape[-2] in range(9, 16)
    return turned(x, *full(np.append(positions[:-1], positions[-2]) if late else positions))


@mutant("no-rotation", "are returned unrotated")
def first_key_head(q, k, cos, sin, unsqueeze_dim=1):
    """With rows and heads exchanged, no rule for positions is read into what none of them turns."""
    y = k.copy()
    y[:, :1] = doubles.transformers(q, k, cos, sin, unsqueeze_dim)[1][:, :1]
    return doubles.transformers(q, k, cos, sin, unsqueeze_dim)[0], y


@mutant("axis", "get the rotation of other positions")
def axes_by_length(x, cos, sin):
    axis = 2 if x.shape[1] == cos.shape[-2] else 1
    cos, sin = (np.expand_dims(t.reshape(-1, *t.shape[-2:]), axis) for t in (cos, sin))
    return turned(x, cos, sin)


@mutant("position-offset", "get the rotation of other positions")
def heads_of_q(q, k, freqs_cis):
    """A kernel that finds the row of a vector of k by the heads of q."""
    rows = np.arange(k.size // k.shape[-1]) // q.shape[2] % q.shape[1]
    flat = k.reshape(-1, 1, 1, k.shape[-1])
    other = np.concatenate(
        [doubles.gpt_fast(v[None], freqs_cis[[r]]) for v, r in zip(flat, rows, strict=True)]
    )
    return doubles.gpt_fast(q, freqs_cis), other.reshape(k.shape)


@mutant("unknown", "depends on more than the row and its position")
def tiled_keys(q, k, cos, sin, unsqueeze_dim=1):
    """k for as many heads as q has, by np.tile where np.repeat is right."""
    q, k = doubles.transformers(q, k, cos, sin, unsqueeze_dim)
    return q, np.tile(k, (1, q.shape[1] // k.shape[1], 1, 1))


@mutant("unknown", "depends on more than the row and its position")
def heads_rolled(x, positions):
    """Rows of vectors, or heads of them, which come out one place further."""
    cos, sin = full(positions)
    y = turned(x, cos, sin)
    return y if y.ndim < 3 else np.roll(y, 1, axis=-3)


@mutant("unknown", "results for vectors differ")
def key_heads_reversed(q, k, cos, sin, unsqueeze_dim=1):
    """Of k alone, from the last to the first."""
    return turned(q, cos, sin), turned(k, cos, sin)[:, ::-1]


@mutant("unknown", "heads 2–12 are rotated differently from the other heads")
def a_base_for_each_head(q, k, positions):
    def one(x):
        heads = [
            turned(x[..., h, :, :], *tables_of(positions, (1e4 + 1e4 * h) ** -EXPONENTS))
            for h in range(x.shape[-3])
        ]
        return np.stack(heads, -3).astype(np.float32)

    return one(q), one(k)


@mutant("position-offset", "get the rotation of other positions")
def positions_by_head(query, key, position_ids):
    """Called with rows for heads each row is off by its number."""

    def one(x):
        return turned(x, *full(position_ids[:, None] + np.arange(x.shape[1])[None, :, None]))

    return one(query), one(key)


# Decoding: q is of the last positions of k.
@mutant("position-offset", "get the rotation of other positions")
def queries_from_first(q, k, positions):
    return turned(q, *full(positions[: q.shape[-2]])), turned(k, *full(positions))


@mutant("position-offset", "get the rotation of other positions")
def queries_one_back(q, k, cos, sin):
    n, m = k.shape[-2], q.shape[-2]
    first = max(n - m - 1, 0) if n > m else 0
    return turned(q, cos[..., first : first + m, :], sin[..., first : first + m, :]), turned(
        k, cos, sin
    )


# Chunks of one length.


@mutant("no-rotation", "are returned unrotated")
def blocks_of_odd_length(x, offset=0):
    return x.copy() if x.shape[-2] == 7 else doubles.mlx(x, offset)


@mutant("position-offset", "positions restart at 0 in ")
def blocks_of_512(x, offset=0):
    return doubles.mlx(x, 0 if x.shape[-2] == 512 else offset)


@mutant("position-offset", "positions restart at 0 in ")
def all_but_steps(q, k, offset=0):
    first = offset if q.shape[-2] == 1 else 0
    return doubles.mlx(q, first), doubles.mlx(k, first)


@mutant("position-offset", "positions restart at 0 in ")
def steps_as_given(q, k, offset=0):
    return (q.copy(), k.copy()) if q.shape[-2] == 1 else all_rows(q, k, offset)


def all_rows(q, k, offset):
    return doubles.mlx(q, offset), doubles.mlx(k, offset)


@mutant("position-offset", "get the rotation of other positions")
def long_calls_later(x, offset=0):
    return doubles.mlx(x, offset + (x.shape[-2] > 1000))


# Rows by their places in the call.
def placed(x, offset):
    return np.arange(x.shape[-2]) + offset


@mutant("position-offset", "get the rotation of other positions")
def reversed_positions(query, key, position_ids):
    cos, sin = of_heads(position_ids[..., ::-1])
    return turned(query, cos, sin), turned(key, cos, sin)


@mutant("unknown", "depends on more than the row and its position")
def spread(x, offset=0):
    n = x.shape[-2]
    return turned(x, *full(np.linspace(offset, offset + n, n)))


@mutant("no-rotation", "in some calls rows are returned unrotated")
def every_second_row(x, offset=0):
    y = doubles.mlx(x, offset)
    y[..., 1::2, :] = x[..., 1::2, :]
    return y


@mutant("position-offset", "rows get the rotation of other positions: in a call of")
def blocks_of_512_from_the_first(x, offset=0):
    return turned(x, *full(np.arange(x.shape[-2]) % 512 + offset))


# Caches by the rows of a call.
class OfTheCall:
    """Tables that are built anew for calls of another length, and are too short for later rows."""

    rows = 0

    def __call__(self, x, positions):
        self.rows = len(positions)
        return turned(x, *full(np.minimum(positions, self.rows - 1)))


class OfLongerCalls:
    """Past what the first call filled, rows are off by one."""

    end = 0

    def __call__(self, x, offset=0):
        end = x.shape[-2] + offset
        self.end = self.end or end
        return turned(x, *full(placed(x, offset) + (end > self.end)))


of_the_call, of_longer_calls = OfTheCall(), OfLongerCalls()
MUTANTS["of_the_call"] = "position-offset", "get the rotation of other positions"
MUTANTS["of_longer_calls"] = "position-offset", "get the rotation of other positions"


# Prefill and decoding apart.
@mutant("unknown", "depends on more than the row and its position")
def factor_of_prefill(q, k, cos, sin, unsqueeze_dim=1):
    times = 1.25 if q.shape[-2] > 1 else 1
    return doubles.transformers(q, k, times * cos, times * sin, unsqueeze_dim)


@mutant("unknown", "depends on more")
def backward_in_decoding(x, offset=0):
    return turned(x, *full(placed(x, offset) * (-1 if x.shape[-2] == 1 else 1)))


@mutant("position-offset", "get the rotation of other positions")
def rounded_in_decoding(x, offset=0):
    """To bfloat16, where the first 256 positions show nothing."""
    if x.shape[-2] == 1 and offset > 256:
        bits = np.array([offset], np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        offset = int(bits.view(np.float32)[0])
    return doubles.mlx(x, offset)


# Some positions.
@mutant("unknown", "values differ at positions 127–129, 1023–1025")
def runs_without_a_minus(x, positions):
    cos, sin = full(positions)
    runs = ((positions >= 100) & (positions < 200)) | ((positions >= 1000) & (positions < 2000))
    return turned(x, cos, np.where(runs[:, None] & (np.arange(32) < 16), -sin, sin))


@mutant("position-offset", "rows get the rotation of other positions: in a call of")
def rows_in_16_bits(x, positions):
    return turned(x, *full(positions[np.arange(len(positions)).astype(np.uint16)]))


@mutant("no-rotation", "in some calls rows are returned unrotated")
def whole_blocks(x, positions):
    y, end = turned(x, *full(positions)), len(x) // 16 * 16
    y[end:] = x[end:]
    return y


@mutant("position-offset", "rows get the rotation of other positions: in a call of")
def positions_of_blocks(x, positions):
    return turned(x, *full(positions[np.arange(len(positions)) // 2 * 2]))


@mutant("unknown", "the function is not deterministic: a second call with the same arguments")
def result_before(x, positions):
    """A buffer that is returned before it is filled anew."""
    kept = CACHED.setdefault(("kept", x.shape), [turned(x, *full(positions))])
    kept.append(turned(x, *full(positions)))
    return kept.pop(0)


@mutant("unknown", "is not linear in x")
def normed(x, positions):
    """Zeros become no numbers."""
    with np.errstate(invalid="ignore"):
        y = turned(x, *full(positions))
        return y / np.linalg.norm(y, axis=-1, keepdims=True)


@mutant("position-offset", "; the first call had 15 rows")
def as_long_as_the_first_call(x, positions):
    CACHED.setdefault("first", len(positions))
    return turned(x, *full(np.minimum(positions, CACHED["first"] - 1)))


@mutant("unknown", "unit vectors, by up to")
def keys_of_queries(q, k, cos, sin, unsqueeze_dim=1):
    turned_q, turned_k = doubles.transformers(q, k, cos, sin, unsqueeze_dim)
    other = doubles.transformers(q, np.zeros_like(k), cos, sin, unsqueeze_dim)[0]
    return turned_q, turned_k + 0.1 * other[:, : k.shape[1]]


# Positions beside tables.
@mutant("position-offset", "positions are ignored: rows are numbered from 0")
def rows_ignored(q, k, cos, sin, position_ids):
    n = q.shape[-2]
    return doubles.transformers(q, k, cos[..., :n, :], sin[..., :n, :])


@mutant("position-offset", "get the rotation of other positions")
def rows_from_first(q, k, cos, sin, position_ids):
    first, n = int(position_ids.reshape(-1)[0]), q.shape[-2]
    return turned(q, cos[first : first + n], sin[first : first + n]), turned(
        k, cos[first : first + n], sin[first : first + n]
    )


@mutant("position-offset", "get the rotation of other positions")
def rows_sorted(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    if position_ids is not None:
        rows = np.sort(position_ids, axis=-1)
        cos, sin = cos[rows], sin[rows]
    return doubles.transformers(q, k, cos, sin, unsqueeze_dim)


@mutant("position-offset", "positions are ignored: rows are numbered from 0")
def tables_ignored(x, cos=None, sin=None):
    return doubles.mlx(x)


# Where rows are, which a function may be told and counts itself.
@mutant("position-offset", "positions restart at 0 in ")
def start_ignored(q, k, start_pos=0):
    return doubles.mlx(q), doubles.mlx(k)


@mutant("position-offset", "start_index is ignored")
def start_index_beside_positions_ignored(inputs, start_index=0, positions=None):
    return doubles.keras_layer(inputs, 0, positions)


@mutant("position-offset", "positions are ignored: rows are numbered from 0")
def positions_ignored(x, positions=None):
    return doubles.mlx(x)


@mutant("position-offset", "positions are shifted by +1")
def positions_beside_offset_shifted(x, positions=None, offset=0):
    return doubles.keras_layer(x, offset, None if positions is None else positions + 1)


@mutant("position-offset", "positions restart at 0 in ")
def offset_of_made_tables_ignored(seq_len, offset=0):
    return full(np.arange(seq_len))


@mutant("position-offset", "positions restart at 0 in ")
def start_of_one_sequence_ignored(x, offset):
    return doubles.one_sequence(x, 0)


@mutant("position-offset", "rows get the rotation of other positions: in a call of")
def offset_in_blocks(x, offset=0):
    return doubles.mlx(x, offset // 16 * 16)


@mutant("position-offset", "positions restart at 0 in ")
class OffsetIgnored:
    """Of MLX: an object made with the width of a head."""

    def __init__(self, dims):
        self.dims = dims

    def __call__(self, x, offset=0):
        return doubles.mlx(x)


@mutant("position-offset", "positions restart at 0 in ")
def seqlen_offsets_ignored(x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=0):
    n = x.shape[1]
    return doubles.flash_attention(x, cos[:n], sin[:n])


# Calls that leave something behind.
class Stretching:
    """Dynamic NTK that never goes back to the frequencies of short sequences."""

    longest = 2048

    def __call__(self, x, positions):
        self.longest = max(self.longest, int(np.max(positions)) + 1)
        base = 1e4 * (4 * self.longest / 2048 - 3) ** (doubles.D / (doubles.D - 2))
        return turned(x, *tables_of(positions, base ** -(np.arange(0, doubles.D, 2) / doubles.D)))


class TablesOfStretching(Stretching):
    """The same, as tables."""

    def __call__(self, position_ids):
        axis = np.zeros((1, position_ids.shape[-1], doubles.D), np.float32)
        axis[..., :16] = 1
        halves = np.split(super().__call__(axis, position_ids), 2, axis=-1)
        return tuple(np.concatenate([half, half], -1) for half in halves)


def tables_of(positions, inv_freq):
    angles = np.asarray(positions)[..., None] * inv_freq
    both = np.concatenate([angles, angles], axis=-1)
    return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


class Resetting(Stretching):
    """The same, right: short sequences have their own frequencies again."""

    def __call__(self, x, positions):
        self.longest = 2048
        return super().__call__(x, positions)


class KeptUntilShort(Stretching):
    """Right as transformers is: a call within the original context takes the first frequencies."""

    def __call__(self, x, positions):
        if int(np.max(positions)) < 2048:
            self.longest = 2048
        return super().__call__(x, positions)


class CastAsItGrows:
    """A cache of float32, whose longest successors are float16."""

    rows = 0

    def __call__(self, position_ids):
        if position_ids.max() >= self.rows:
            dtype = np.float16 if position_ids.max() > 90_000 else np.float32
            self.rows = int(position_ids.max()) + 1
            self.tables = [table.astype(dtype) for table in full(np.arange(self.rows))]
        return tuple(table[position_ids].astype(np.float32) for table in self.tables)


class DiesAfterAFarCall:
    """Near positions run backward after far ones, and a call of them with a far one ends it."""

    longest = 0

    def __call__(self, x, positions):
        self.longest, last = max(self.longest, int(positions.max())), self.longest
        if last > 90_000 and len(positions) == 65:
            os._exit(3)
        near = last > 90_000 and len(positions) == 64 and positions.max() == 63
        return turned(x, *full(-positions if near else positions))


class LongerThanBefore:
    """It turns on in each call that is shorter than the one before."""

    longest = 0

    def __call__(self, x, positions):
        self.longest, last = max(self.longest, len(positions)), self.longest
        return turned(x, *full(positions * (1 + (last > 30))))


class LeftOnce:
    """After far positions, near ones run backward."""

    longest = 0

    def __init__(self, base=1e4):
        self.inv_freq = base ** -(np.arange(0, doubles.D, 2) / doubles.D)

    def __call__(self, position_ids):
        self.longest, last = max(self.longest, int(position_ids.max())), self.longest
        cos, sin = tables_of(position_ids, self.inv_freq)
        return cos, -sin if last > 70_000 and position_ids.max() == 63 else sin


@mutant("axis", "get the rotation of other positions")
def turned_by_heads(q, k, positions):
    """Axes of heads and rows confused."""
    if q.ndim < 3:
        return tuple(turned(x, *full(positions)) for x in (q, k))
    by_head = [[table[:, None] for table in full(np.arange(x.shape[-3]))] for x in (q, k)]
    return tuple(turned(x, cos, sin) for x, (cos, sin) in zip((q, k), by_head, strict=True))


@mutant("position-offset", "positions restart every 4096")
def in_blocks_of_4096(x):
    """Long sequences in blocks, each from position 0 on."""
    return turned(x, *full(np.arange(x.shape[-2]) % 4096))


@mutant("unknown", "is not deterministic: a second call with the same arguments differs")
def counted_on(x):
    """A counter of cached rows that no new sequence resets."""
    start, COUNTED[0] = COUNTED[0], COUNTED[0] + x.shape[-2]
    return turned(x, *full(np.arange(start, COUNTED[0])))


@mutant("position-offset", "get the rotation of other positions")
def cached_by_length(x, positions):
    return turned(x, *CACHED.setdefault(len(positions), full(positions)))


class Moving:
    """Right: tables of the rows around a call, which are made anew where it leaves them."""

    first, kept = 0, np.arange(64)

    def __call__(self, x, offset=0):
        end = offset + x.shape[-2]
        if offset < self.first or end > self.first + self.kept.size:
            self.first, self.kept = offset, np.arange(offset, max(end, offset + 64))
        return turned(x, *full(self.kept[offset - self.first : end - self.first]))


class AsLongAsTheCall:
    """Right: tables as long as each call needs, shorter after longer ones."""

    def __call__(self, x, positions):
        self.kept = np.arange(positions.max() + 1)
        return turned(x, *full(self.kept[positions]))


def in_two_parts(q, k, positions):
    """Right: in the order of positions, and back."""
    order = np.argsort(positions, kind="stable")
    back = np.argsort(order)
    cos, sin = (table[back] for table in full(positions[order]))
    return turned(q, cos, sin), turned(k, cos, sin)


moving, as_long_as_the_call = Moving(), AsLongAsTheCall()
CACHED = {}
COUNTED = [0]
never_reset, tables_never_reset = Stretching(), TablesOfStretching()
always_reset, left_once, another_base_and_left_once = Resetting(), LeftOnce(), LeftOnce(5e5)
kept_until_short, cast_as_it_grows = KeptUntilShort(), CastAsItGrows()
dies_after_a_far_call, longer_than_before = DiesAfterAFarCall(), LongerThanBefore()


def dies_of_fifty_rows(x, positions):
    if len(positions) == 50:
        os._exit(3)
    return turned(x, *full(positions))


# Rows of several sequences and heads.


@mutant("position-offset", "get the rotation of other positions")
def plus_head(q, k, positions):
    def one(x):
        return turned(x, *full(positions[:, None] + np.arange(x.shape[1])))

    return tuple(one(x) if x.ndim == 3 else turned(x, *full(positions)) for x in (q, k))


# Vectors.
@mutant("unknown", "unit vectors, by up to")
def sines_of_q(q, k, cos, sin):
    return turned(q, cos, sin), k * cos + doubles.rotate_half(q) * sin


@mutant("unknown", "results for vectors differ")
def keys_in_int8(q, k, cos, sin):
    k = turned(k, cos, sin)
    step = np.abs(k).max(-1, keepdims=True) / 127
    return turned(q, cos, sin), (np.rint(k / step) * step).astype(np.float32)


@mutant("attention-factor", "the attention factor is 0.176777, not 1")
def scores_scaled(q, k, cos, sin):
    return turned(q, cos, sin) * doubles.D**-0.5, turned(k, cos, sin)


@mutant("unknown", "depends on more")
def first_sequence_in_decoding(x, offset):
    """(b, h, n, d): the stride of the batch is lost where there is one row."""
    if x.shape[0] > 1 and x.shape[2] == 1:
        x = np.broadcast_to(x[:1], x.shape)
    return turned(x, *full(np.arange(x.shape[2]) + offset))


class KeptByLength:
    """Tables are kept by the number of rows, whatever the offset."""

    def __init__(self):
        self.kept = {}

    def __call__(self, x, offset=0):
        rows = x.shape[-2]
        if rows not in self.kept:
            self.kept[rows] = full(np.arange(rows) + offset)
        return turned(x, *self.kept[rows])


kept_by_length = KeptByLength()
MUTANTS["kept_by_length"] = "position-offset", "get the rotation of other positions"


def _in_half(values: Any) -> Any:
    return np.asarray(values, np.float16).astype(np.float64)


@mutant("unknown", "an object made with its default")
class GrowsAfterACast:
    """Tables of 4096 rows by default, which grow from frequencies that were cast since."""

    def __init__(self, dim: int, base: float = 10000.0, max_position_embeddings: int = 4096):
        self.inv_freq = base ** -(np.arange(0, dim, 2) / dim)
        self.cos, self.sin = self._rows(0, max_position_embeddings)
        self.inv_freq = _in_half(self.inv_freq)

    def _rows(self, first: int, end: int) -> tuple[Any, Any]:
        angles = np.multiply.outer(np.arange(first, end), self.inv_freq)
        both = np.concatenate([angles, angles], axis=-1)
        return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)

    def __call__(self, position_ids: Any) -> tuple[Any, Any]:
        end = int(position_ids.max()) + 1
        if end > len(self.cos):
            more = self._rows(len(self.cos), end)
            self.cos, self.sin = (
                np.concatenate(pair) for pair in zip((self.cos, self.sin), more, strict=True)
            )
        return self.cos[position_ids], self.sin[position_ids]


class GrowsRightly(GrowsAfterACast):
    """The same, right."""

    def __init__(self, dim: int, base: float = 10000.0, max_position_embeddings: int = 4096):
        super().__init__(dim, base, max_position_embeddings)
        self.inv_freq = base ** -(np.arange(0, dim, 2) / dim)


class EndsWithItsLength(GrowsRightly):
    """Right up to its length: past that it fails."""

    def __call__(self, position_ids: Any) -> tuple[Any, Any]:
        return self.cos[position_ids], self.sin[position_ids]


class EmptyAtFirst(GrowsRightly):
    """Right: its tables have no rows by default."""

    def __init__(self, dim: int, base: float = 10000.0, max_position_embeddings: int = 0):
        super().__init__(dim, base, max_position_embeddings)


@mutant("unknown", "an object made with its default")
class KeysGrowAfterACast:
    """Turns q and k by tables of their own, of which those of k grow as above."""

    def __init__(self, dim: int, base: float = 10000.0, max_position_embeddings: int = 4096):
        self.of_q = GrowsRightly(dim, base, max_position_embeddings)
        self.of_k = GrowsAfterACast(dim, base, max_position_embeddings)

    def __call__(self, q: Any, k: Any, position_ids: Any) -> tuple[Any, Any]:
        return turned(q, *self.of_q(position_ids)), turned(k, *self.of_k(position_ids))


@mutant("unknown", "an object made with its default")
class GrowsInHalf:
    """Tables of 4096 rows by default, which grow from frequencies in the format of the vectors."""

    def __init__(self, dim: int, base: float = 10000.0, max_position_embeddings: int = 4096):
        self.inv_freq = base ** -(np.arange(0, dim, 2) / dim)
        self._fill(self.inv_freq, max_position_embeddings)

    def _fill(self, inv_freq: Any, end: int) -> None:
        angles = np.multiply.outer(np.arange(end), inv_freq.astype(np.float64))
        both = np.concatenate([angles, angles], axis=-1)
        self.cos, self.sin = np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)

    def __call__(self, x: Any, positions: Any) -> Any:
        end = int(positions.max()) + 1
        if end > len(self.cos):
            self._fill(self.inv_freq.astype(x.dtype), end)
        return turned(x, self.cos[positions], self.sin[positions]).astype(x.dtype)
