"""Functions that are told of a role: right ones, and wrong ones that only varying it shows.

The file is also what ``--impl`` loads, by ``told.py:NAME``. All pair columns i and i + d/2.
"""

# ruff: noqa: ARG002, PLR0917 - the signatures are what is tested

from __future__ import annotations

import numpy as np

D = 16


def tables(positions, base=1e4, dim=D):
    rates = base ** -(np.arange(0, dim, 2) / dim)
    angles = np.multiply.outer(np.asarray(positions, np.float64), rates)
    return np.cos(angles).astype("f4"), np.sin(angles).astype("f4")


def turned(x, cos, sin, interleaved=False):
    half = x.shape[-1] // 2
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    parts = first * cos - second * sin, second * cos + first * sin
    if interleaved:
        return np.stack(parts, -1).reshape(x.shape).astype(x.dtype)
    return np.concatenate(parts, -1).astype(x.dtype)


def by_base(x, positions, base=10000.0):
    return turned(x, *tables(positions, base))


def base_ignored(x, positions, base=10000.0):
    return turned(x, *tables(positions))


class BaseOfAClass:
    def __init__(self, dim, base=10000.0):
        self.dim, self.base = dim, base

    def __call__(self, x, positions):
        return turned(x, *tables(positions, self.base, self.dim))


class BaseIgnored(BaseOfAClass):
    def __init__(self, dim, base=10000.0):
        super().__init__(dim)


def by_style(x, positions, interleaved=False):
    return turned(x, *tables(positions), interleaved)


def style_ignored(x, positions, interleaved=False):
    return turned(x, *tables(positions))


def by_frequencies(x, positions, inv_freq):
    angles = np.multiply.outer(positions, inv_freq.astype(np.float64))
    return turned(x, np.cos(angles), np.sin(angles))


def frequencies_ignored(x, positions, inv_freq):
    return turned(x, *tables(positions))


def by_tables(x, cos, sin, positions):
    return turned(x, cos[positions][:, : D // 2], sin[positions][:, : D // 2])


def tables_ignored(x, cos, sin, positions):
    return turned(x, *tables(positions))


def by_offset(x, offset=0):
    return turned(x, *tables(np.arange(x.shape[-2]) + offset))


def offset_ignored(x, offset=0):
    return turned(x, *tables(np.arange(x.shape[-2])))


def offset_of_numbers(x, offset=0):
    """Whoever keeps the offset in an array starts at 0."""
    return by_offset(x, offset if isinstance(offset, int) else 0)


def by_positions(x, positions):
    return turned(x, *tables(positions))


def positions_ignored(x, positions=None):
    return turned(x, *tables(np.arange(x.shape[-2])))


def by_length(x, positions, max_seq_len):
    return turned(x, *(table[positions] for table in tables(np.arange(max_seq_len))))


def length_ignored(x, positions, max_seq_len):
    return turned(x, *(table[np.minimum(positions, 999)] for table in tables(np.arange(1000))))


def by_layer(q, k, positions, layer_idx):
    assert layer_idx == 0
    return by_positions(q, positions), by_positions(k, positions)


def by_mask(x, positions, attention_mask):
    assert attention_mask.all()
    assert attention_mask.shape[-1] == positions.size
    return by_positions(x, positions)


def by_cache(x, position_ids, past_key_value):
    assert past_key_value is None
    cos, sin = tables(position_ids)
    return turned(x, *(table[:, None] if x.ndim > 3 else table for table in (cos, sin)))


def by_format(seq_len, dim, base, device, dtype):
    return tuple(table.astype(dtype) for table in tables(np.arange(seq_len), base, dim))


def format_ignored(seq_len, dim, base, device, dtype):
    return tuple(table.astype(np.float16) for table in tables(np.arange(seq_len), base, dim))


def by_qkv(qkv, offset=0):
    """(batch, rows, 3, heads, d), as flash-attention has them."""
    cos, sin = tables(np.arange(qkv.shape[1]) + offset)
    left = turned(qkv, cos[:, None, None], sin[:, None, None])
    left[:, :, 2] = qkv[:, :, 2]
    return left


def values_turned(qkv, offset=0):
    cos, sin = tables(np.arange(qkv.shape[1]) + offset)
    return turned(qkv, cos[:, None, None], sin[:, None, None])


def keys_left(qkv, offset=0):
    left = by_qkv(qkv, offset)
    left[:, :, 1] = qkv[:, :, 1]
    return left


def by_axes(q, k, cos, sin, mrope_section):
    """apply_multimodal_rotary_pos_emb of Qwen2-VL: tables of every axis, (3, batch, rows, d)."""
    ends = np.cumsum([*mrope_section, *mrope_section])[:-1]

    def own(tables):
        parts = np.split(tables, ends, axis=-1)
        return np.concatenate([part[n % 3] for n, part in enumerate(parts)], -1)[:, None]

    cos, sin = (own(table)[..., : D // 2] for table in (cos, sin))
    return turned(q, cos, sin), turned(k, cos, sin)


def axes_swapped(q, k, cos, sin, mrope_section):
    return by_axes(q, k, cos[[0, 2, 1]], sin[[0, 2, 1]], mrope_section)


def sections_ignored(q, k, cos, sin, mrope_section):
    return by_axes(q, k, cos, sin, [4, 2, 2])


def by_three(q, k, v, positions):
    return by_positions(q, positions), by_positions(k, positions), v


def third_turned(q, k, v, positions):
    return tuple(by_positions(x, positions) for x in (q, k, v))


def both_by_base(q, k, positions, base=1e4):
    return by_base(q, positions, base), by_base(k, positions, base)


def optional_v_turned(q, k, positions, v=None):
    return third_turned(q, k, v if v is not None else q, positions)


def clamped_offset(x, offset=0):
    return by_offset(x, min(offset, 3000))


def many_heads_in_long_calls(q, k, cos, sin):
    """(b, h, n, d): long calls leave the sixth head and those after it as they are."""
    cos, sin = cos[..., : D // 2], sin[..., : D // 2]
    y = turned(q, cos, sin)
    if q.shape[-2] > 1500:
        y[..., 5:, :, :] = q[..., 5:, :, :]
    return y, turned(k, cos, sin)


def halves_come_out(x, positions, interleaved=False):
    """The order of columns changes with the layout, in q and k alike."""
    y = turned(x, *tables(positions), interleaved)
    return np.concatenate([y[..., ::2], y[..., 1::2]], -1) if interleaved else y


def base_is_a_position(x, base=0):
    return by_offset(x, base)


def adds_an_axis(x, offset=0):
    assert x.ndim == 2
    return by_offset(x[None], offset)


class OfVllm:
    def __init__(self, head_size, rotary_dim, max_position_embeddings, base, is_neox_style, dtype):
        self.base, self.dtype, self.interleaved = base, dtype, not is_neox_style
        self.dim = rotary_dim

    def __call__(self, positions, query, key):
        cos, sin = tables(positions, self.base, self.dim)
        both = (
            np.concatenate(
                [turned(x[..., : self.dim], cos, sin, self.interleaved), x[..., self.dim :]], -1
            )
            for x in (query, key)
        )
        return tuple(x.astype(self.dtype) for x in both)


class YarnOfVllm(OfVllm):
    """YaRNScalingRotaryEmbedding, whose max_position_embeddings is the original context."""

    share = 1.0

    def __init__(
        self,
        head_size,
        rotary_dim,
        max_position_embeddings,
        base,
        is_neox_style,
        scaling_factor,
        dtype,
    ):
        super().__init__(head_size, rotary_dim, max_position_embeddings, base, is_neox_style, dtype)
        turns = self.share * max_position_embeddings / (2 * np.pi * np.array([32, 1]))
        bounds = rotary_dim * np.log(turns) / (2 * np.log(base))
        low, high = max(np.floor(bounds[0]), 0), min(np.ceil(bounds[1]), rotary_dim - 1)
        ramp = np.clip((np.arange(rotary_dim // 2) - low) / (high - low), 0, 1)
        plain = base ** (-np.arange(0, rotary_dim, 2) / rotary_dim)
        self.rates = plain / scaling_factor * ramp + plain * (1 - ramp)
        self.factor = 0.1 * np.log(scaling_factor) + 1

    def __call__(self, positions, query, key):
        angles = positions[..., None] * self.rates
        cos, sin = self.factor * np.cos(angles), self.factor * np.sin(angles)
        own = (turned(x, cos, sin, self.interleaved) for x in (query, key))
        return tuple(x.astype(self.dtype) for x in own)


class YarnOfHalfTheContext(YarnOfVllm):
    share = 0.5


class OfAnIntegerBase:
    def __init__(self, dim, base: int = 10000):
        if not isinstance(base, int):
            raise TypeError("base must be int")
        self.base = base

    def __call__(self, x, positions):
        return turned(x, *tables(positions, self.base))


def with_a_cache(x, offset=0, cache=None):
    assert cache is None
    return by_offset(x, offset)


def with_a_scale(x, dims, *, traditional, base, scale, offset):
    assert scale == 1
    assert dims == D
    cos, sin = tables(np.arange(x.shape[-2]) + offset, base)
    return turned(x, cos, sin, traditional)


def by_default_sections(q, k, cos, sin, mrope_section=(2, 3, 3)):
    return by_axes(q, k, cos, sin, mrope_section)


def fixed_sections(q, k, cos, sin, mrope_section):
    return by_axes(q, k, cos, sin, (2, 3, 3))


def by_added_mask(q, k, positions, attention_mask):
    assert attention_mask.shape[1:3] == (1, q.shape[-2])
    assert not attention_mask.any()
    return both_by_base(q, k, positions)


def added_to_vectors(q, k, positions, attention_mask):
    assert attention_mask.ndim == 4
    return tuple(x + attention_mask[..., :1, :1] + 1e-3 for x in both_by_base(q, k, positions))


def by_packed_rows(qkv, num_heads, offset=0):
    """(b, n, 3·h·d), as c_attn of GPT-2 gives it."""
    batch, rows, _ = qkv.shape
    return by_qkv(qkv.reshape(batch, rows, 3, num_heads, -1), offset).reshape(qkv.shape)


def out_of_packed_rows(qkv, num_heads, offset=0):
    batch, rows, _ = qkv.shape
    return tuple(np.moveaxis(by_qkv(qkv.reshape(batch, rows, 3, num_heads, -1), offset), 2, 0))


def by_packed_heads(qkv, num_heads, offset=0):
    """(b, n, h·3·d), as GPT-NeoX and BLOOM pack it."""
    split = qkv.reshape(*qkv.shape[:2], num_heads, 3, -1)
    return np.moveaxis(by_qkv(np.moveaxis(split, 3, 2), offset), 2, 3).reshape(qkv.shape)


def offset_ignored_by_packed_heads(qkv, num_heads, offset=0):
    return by_packed_heads(qkv, num_heads)


def by_three_in_each_head(qkv, offset=0):
    """(b, n, h, 3, d)."""
    assert qkv.shape[3] == 3
    return np.moveaxis(by_qkv(np.moveaxis(qkv, 3, 2), offset), 2, 3)


def third_heads_left(qkv, num_heads, offset=0):
    """What is right in no order of q, k and v."""
    left = by_packed_rows(qkv, num_heads, offset).reshape(*qkv.shape[:2], 3 * num_heads, -1)
    left[:, :, 2::3] = qkv.reshape(left.shape)[:, :, 2::3]
    return left.reshape(qkv.shape)


def keys_left_in_packed_rows(qkv, num_heads, offset=0):
    batch, rows, _ = qkv.shape
    return keys_left(qkv.reshape(batch, rows, 3, num_heads, -1), offset).reshape(qkv.shape)


def by_stacked_heads(qkv, offset=0):
    """(b, 3, h, n, d), as timm's attention has them before unbind."""
    assert qkv.shape[1] == 3
    left = turned(qkv, *tables(np.arange(qkv.shape[3]) + offset))
    left[:, 2] = qkv[:, 2]
    return left


def offset_ignored_by_stacked_heads(qkv, offset=0):
    return by_stacked_heads(qkv)


class OfFairseq:
    """Returns all that it has kept, as fairseq's RotaryPositionalEmbedding."""

    def __init__(self, dim, base=10000):
        self.dim, self.base, self.kept = dim, base, tables(np.arange(0))

    def __call__(self, x, seq_len: int = 0):
        if seq_len > len(self.kept[0]):
            angles = (np.tile(own, 2) for own in tables(np.arange(seq_len), self.base, self.dim))
            self.kept = tuple(own.reshape(-1, 1, 1, self.dim) for own in angles)
        return self.kept


class KeepsTheFirstCall(OfFairseq):
    """What it kept of a shorter call stays, and what it adds is counted from 0 again."""

    def __call__(self, x, seq_len: int = 0):
        before = self.kept
        after = super().__call__(x, seq_len - len(before[0]))
        if after is not before:
            both = zip(before, after, strict=True)
            self.kept = tuple(np.concatenate([own.reshape(-1, 1, 1, D), new]) for own, new in both)
        return self.kept


class OfXTransformers:
    """Angles (1, n, d) and a factor, of positions called t."""

    def __init__(self, dim, base=10000):
        self.rates, self.factor = base ** -(np.arange(0, dim, 2) / dim), 1.0

    def __call__(self, t):
        return np.tile(np.outer(t, self.rates), 2)[None], self.factor


class FactorReturned(OfXTransformers):
    def __init__(self, dim, base=10000):
        super().__init__(dim, base)
        self.factor = 1.25


def base_places_rows(x, base):
    return by_positions(x, base)


def base_off_by_one(x, base):
    return by_positions(x, np.asarray(base) + 1)


def base_of_rates(x, base):
    return turned(x, *tables(np.arange(x.shape[-2]), base))


def by_chosen_axes(q, k, cos, sin, position_ids, mrope_section):
    """apply_multimodal_rotary_pos_emb of transformers 4.45: position_ids (3, b, n) choose rows."""
    return by_axes(q, k, cos[position_ids], sin[position_ids], mrope_section)


def chosen_axes_swapped(q, k, cos, sin, position_ids, mrope_section):
    return by_chosen_axes(q, k, cos, sin, position_ids[[0, 2, 1]], mrope_section)


class OfTorchscale:
    """XPOS of torchscale: (batch · heads, n, d), with amplitudes that follow the length."""

    def __init__(self, head_dim, scale_base=512):
        self.span, self.dim = scale_base, head_dim
        self.scale = (np.arange(0, head_dim, 2) + 0.4 * head_dim) / (1.4 * head_dim)

    def __call__(self, x, offset=0, downscale=False):
        length = x.shape[1] + offset
        lowest = -length // 2
        scale = self.scale ** (np.arange(lowest, length + lowest) / self.span)[:, None]
        cos, sin = (own * (1 / scale if downscale else scale) for own in tables(np.arange(length)))
        return turned(x, cos[-x.shape[1] :], sin[-x.shape[1] :], interleaved=True)


class GrowsAlways(OfTorchscale):
    def __call__(self, x, offset=0, downscale=False):
        return super().__call__(x, offset)


def by_layer_type(x, position_ids, layer_type):
    """Gemma 3's, of which every sixth layer sees all and has another base."""
    base = {"full_attention": 1e6, "sliding_attention": 1e4}[layer_type]
    angles = position_ids[..., None] * np.tile(base ** (-np.arange(128) / 128), 2)
    return np.cos(angles), np.sin(angles)


def by_layer_type_or_none(x, position_ids, layer_type=None):
    return by_layer_type(x, position_ids, layer_type)


def layer_type_ignored(x, position_ids, layer_type=None):
    return by_layer_type(x, position_ids, "full_attention")
