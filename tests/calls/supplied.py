"""Pairs of functions: a right one, and its wrong twin, which only one changed argument shows.

The file is what ``--impl`` loads, by ``supplied.py:NAME``: wrong ones are those of ``WRONG``, with
the cause and words of it. All pair columns i and i + d/2, with base 10000.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

import numpy as np

WRONG = {}
"""The cause of each wrong function, and words of its message."""

UNTESTED = {}
"""What line 1 says is not tested of a right function."""


def wrong(cause, words):
    def listed(function):
        WRONG[function.__name__] = cause, words
        return function

    return listed


def untested(words):
    def listed(function):
        UNTESTED[function.__name__] = words
        return function

    return listed


def rotated(x, positions, dim=None):
    dim = dim or x.shape[-1]
    angles = np.multiply.outer(
        np.asarray(positions, np.float64), 1e4 ** -(np.arange(0, dim, 2) / dim)
    )
    a, b, rest = np.split(x, [dim // 2, dim], axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1).astype(x.dtype)


def rows(x):
    return np.arange(x.shape[-2])


def beside_heads(x, positions):
    """Positions (b, n) beside (b, h, n, d)."""
    positions = np.asarray(positions)
    return positions[:, None] if positions.ndim == 2 and x.ndim == 4 else positions


# A batch: positions and offsets of each sequence.
def ids(x, position_ids):
    return rotated(x, beside_heads(x, position_ids))


@wrong("position-offset", "sequences 2, 3 get the rotation of other positions")
def ids_of_first(x, position_ids):
    position_ids = np.asarray(position_ids)
    return ids(x, position_ids[:1] if position_ids.ndim == 2 else position_ids)


@wrong("position-offset", "sequences 2, 3 get the rotation of other positions")
def rows_of_first(x, position_ids):
    """Rows (n, d) may have positions (1, n) as well, and come back with an axis of sequences."""
    positions = beside_heads(x, np.asarray(position_ids)[:1])
    angles = np.multiply.outer(positions.astype(np.float64), 1e4 ** -(np.arange(16) / 16))
    cos, sin = (np.concatenate([own, own], -1) for own in (np.cos(angles), np.sin(angles)))
    beside = np.concatenate([-x[..., 16:], x[..., :16]], -1)
    return (x * cos + beside * sin).astype(x.dtype)


def offsets(x, offset=0):
    offset = np.asarray(offset)
    return rotated(
        x, offset.reshape(-1, *[1] * (x.ndim - 2)) + rows(x) if offset.ndim else offset + rows(x)
    )


@wrong("position-offset", "of other positions in calls with offset as an array")
def required_offset_of_first(x, offset):
    return rotated(x, np.asarray(offset).ravel()[0] + rows(x))


@untested("offset of each sequence")
def whole_offset(x, offset=0):
    return rotated(x, int(offset) + rows(x))


@untested("positions of each sequence")
def positions_of_all(x, positions):
    assert np.ndim(positions) == 1
    return rotated(x, positions)


# Offsets that are added to positions, as in vLLM.
def offsets_added(x, position_ids, offsets=None):
    return ids(x, position_ids if offsets is None else np.asarray(position_ids) + offsets)


@untested("offsets")
def offsets_ignored(x, position_ids, offsets=None):
    return ids(x, position_ids)


@untested("offsets")
def offsets_of_the_first(x, position_ids, offsets=None):
    return ids(x, position_ids if offsets is None else np.asarray(position_ids) + offsets[0])


@untested("offsets of each sequence")
def offsets_that_are_positions(x, offsets):
    return rotated(x, offsets)


@untested("offset")
def offset_beside_positions(x, position_ids, offset=0):
    return ids(x, position_ids)


@wrong("position-offset", "offsets is subtracted from positions")
def offsets_subtracted(x, position_ids, offsets=None):
    return ids(x, position_ids if offsets is None else np.asarray(position_ids) - offsets)


@untested("offset")
def offset_of_a_window(x, position_ids, offset=0):
    return ids(x, np.asarray(position_ids) - offset)


# k has a default, as in vLLM.
def q_with_or_without_k(q, position_ids, k=None):
    return ids(q, position_ids), None if k is None else ids(k, position_ids)


@wrong("unknown", "without k, q is rotated otherwise")
def left_without_k(q, position_ids, k=None):
    return (q, None) if k is None else q_with_or_without_k(q, position_ids, k)


@wrong("unknown", "the results for q and k are exchanged")
def exchanged_with_k(q, position_ids, k=None):
    return q_with_or_without_k(q, position_ids, k)[:: 1 if k is None else -1]


# Values that are dropped in a batch: no broadcasting returns fewer than were given.
@wrong("unknown", "an array of shape (2, 6, 5, 32) for x of shape (3, 6, 5, 32)")
def two_sequences(x, positions):
    return rotated(x, positions)[:2] if x.ndim == 4 else rotated(x, positions)


@untested("batches (returned an array of shape (6, 5, 32) for x of shape (3, 6, 5, 32))")
def without_sequences(x, positions):
    return rotated(x, positions)[0] if x.ndim == 4 else rotated(x, positions)


# As many sequences as a prompt with and one without guidance.
@wrong("position-offset", "sequence 2 get the rotation of other positions")
def positions_of_first_of_two(x, position_ids):
    position_ids = np.asarray(position_ids)
    two = position_ids.ndim == 2 and len(position_ids) == 2
    return ids(x, position_ids[:1] if two else position_ids)


@wrong("unknown", "depends on more than the row")
def another_base_for_several(x, position_ids):
    several = x.ndim == 4 and len(x) > 1
    return ids(x, np.asarray(position_ids) / (1 + several))


@wrong("unknown", "depends on more than the row")
def lowest_frequency_for_several(x, position_ids):
    """Which only the last positions show."""
    places = beside_heads(x, position_ids)
    rates = 1e4 ** -(np.arange(16) / 16)
    rates[15] *= 0.97 if x.ndim == 4 and len(x) > 1 else 1
    angles = np.tile(np.multiply.outer(places, rates), 2)
    return turned_by(x, np.cos(angles), np.sin(angles)).astype(x.dtype)


@wrong("position-offset", "get the rotation of other positions")
def positions_along_sequences(x, positions):
    """Right for any batch but one of as many sequences as rows."""
    positions = np.asarray(positions)
    if x.ndim == 4 and positions.shape == x.shape[:1] == x.shape[2:3]:
        return rotated(x, positions[:, None, None])
    return ids(x, positions)


def tables_of(position_ids):
    angles = np.multiply.outer(position_ids, 1e4 ** -(np.arange(16) / 16))
    return np.cos(angles), np.sin(angles)


def tables_of_each(position_ids):
    return tables_of(position_ids)


@wrong("unknown", "depends on more than the row")
def tables_of_first(position_ids):
    position_ids = np.asarray(position_ids)
    return tables_of(
        position_ids[:1].repeat(len(position_ids), 0) if position_ids.ndim == 2 else position_ids
    )


@wrong("unknown", "depends on more than the row")
def tables_of_first_alone(position_ids):
    return tables_of(position_ids[0] if np.ndim(position_ids) > 1 else position_ids)


@wrong("unknown", "depends on more than the row")
def tables_along_sequences(position_ids):
    square = np.ndim(position_ids) == 2 and np.shape(position_ids)[0] == np.shape(position_ids)[1]
    return tables_of(np.transpose(position_ids) if square else position_ids)


@untested("positions of several sequences in one call")
def tables_of_one_sequence(position_ids):
    assert np.ndim(position_ids) == 1
    return tables_of(position_ids)


class KeptFor:
    """Tables that are kept for what tells calls apart."""

    def __init__(self):
        self.kept = {}

    def told(self, position_ids):
        return position_ids.tobytes()

    def __call__(self, position_ids):
        key = np.shape(position_ids), self.told(position_ids)
        if key not in self.kept:
            self.kept = {key: tables_of(position_ids)}
        return self.kept[key]


@wrong("position-offset", "get the rotation of other positions")
class KeptForLast(KeptFor):
    def told(self, position_ids):
        return position_ids.max()


@wrong("position-offset", "get the rotation of other positions")
class KeptForEnds(KeptFor):
    def told(self, position_ids):
        return position_ids.flat[0], position_ids.flat[-1]


# Positions of k.
def each_its_own(q, k, q_positions, k_positions):
    return ids(q, q_positions), ids(k, k_positions)


@wrong("position-offset", "of k get the rotation of other positions")
def keys_at_queries(q, k, q_positions, k_positions):
    return ids(q, q_positions), ids(k, q_positions)


def keys_of_their_own(q, k, position_ids, key_position_ids=None):
    keys = position_ids if key_position_ids is None else key_position_ids
    return ids(q, position_ids), ids(k, keys)


@wrong("position-offset", "of k get the rotation of other positions")
def keys_ignored(q, k, position_ids, key_position_ids=None):
    return ids(q, position_ids), ids(k, position_ids)


@wrong("position-offset", "")
def longer_keys_from_zero(q, k, q_pos, k_pos):
    """Right where q and k have as many rows."""
    k_pos = np.asarray(k_pos)
    return ids(q, q_pos), ids(k, k_pos - k_pos.min() * (q.shape[-2] != k.shape[-2]))


@wrong("position-offset", "of k get the rotation of other positions")
def grouped_keys_at_queries(q, k, q_pos, k_pos=None):
    """Right where q and k have as many heads."""
    own = q_pos if k_pos is None or q.shape[-3] != k.shape[-3] else k_pos
    return ids(q, q_pos), ids(k, own)


@wrong("position-offset", "of q get the rotation of other positions")
def queries_at_last_keys(q, k, q_positions, k_positions):
    return ids(q, np.asarray(k_positions)[..., -q.shape[-2] :]), ids(k, k_positions)


# Numbers and flags with a default.
def every_layer(x, positions, layer_idx=0):
    return ids(x, positions)


@wrong("unknown", "layer_idx changes the result")
def first_layer(x, positions, layer_idx=0):
    return ids(x, positions) if layer_idx == 0 else x


@wrong("unknown", "layer_idx changes the result")
def sixth_layers_otherwise(x, positions, layer_idx=0):
    return ids(x, positions) if (layer_idx + 1) % 6 else x


@wrong("unknown", "layer_idx changes the result")
def early_layers(x, positions, layer_idx=0):
    return ids(x, positions) if layer_idx < 30 else x


@wrong("unknown", "layer_idx changes the result")
def positions_in_first_layer(x, positions, layer_idx=0):
    return ids(x, positions if layer_idx == 0 else rows(x))


@wrong(
    "position-offset",
    "with layer_idx=1, rows of sequences 2, 3 get the rotation of other positions",
)
def first_sequence_in_other_layers(x, positions, layer_idx=0):
    first = np.asarray(positions)[:1] if layer_idx and np.ndim(positions) == 2 else positions
    return ids(x, first)


@wrong("unknown", "ended its process with status 3 in a call that callers make")
def ends_in_layer_7(x, positions, layer_idx=0):
    if layer_idx == 7:
        os._exit(3)
    return ids(x, positions)


def any_mask(x, positions, mask=None):
    return ids(x, positions)


@wrong("unknown", "mask changes the result")
def unmasked_alone(x, positions, mask=None):
    return ids(x, positions) if mask is None else x


def zero_where_masked(x, positions, mask=None):
    """Padded rows may become anything."""
    y = ids(x, positions)
    if mask is None:
        return y
    return np.where(mask[:, None, :, None] if x.ndim == 4 else mask[..., None], y, 0)


def places_by_mask(q, k, attention_mask=None, position_ids=None):
    """Positions that are given go before those of a mask."""
    if position_ids is None:
        position_ids = rows(q) if attention_mask is None else np.cumsum(attention_mask, -1) - 1
    return ids(q, position_ids), ids(k, position_ids)


@wrong("unknown", "attention_mask changes the result")
def places_by_mask_alone(q, k, attention_mask=None, position_ids=None):
    return places_by_mask(
        q, k, attention_mask, None if attention_mask is not None else position_ids
    )


@wrong("unknown", "mask changes the result")
def offset_without_mask(x, offset=0, mask=None):
    return offsets(x, 0 if mask is not None else offset)


@wrong("unknown", "mask changes the result")
def rotated_behind_no_padding(x, positions, mask=None):
    """Right where padding comes last."""
    return ids(x, positions) if mask is None or np.all(np.asarray(mask)[..., 0]) else x


@wrong("unknown", "attention_mask changes the result")
def padding_taken_off_twice(q, k, position_ids, attention_mask=None):
    """By the mask that is added to scores: (b, 1, n, n)."""
    padding = 0
    if np.ndim(attention_mask) == 4:
        padding = (attention_mask[:, 0, -1] < -1).sum(-1, keepdims=True)
    places = np.maximum(position_ids - padding, 0)
    return ids(q, places), ids(k, places)


def places_by_mask_of_its_own(q, k, attention_mask):
    if attention_mask.ndim != 2:
        raise ValueError("a mask of rows")
    places = np.maximum(np.cumsum(attention_mask, -1) - 1, 0)
    return ids(q, places), ids(k, places)


@wrong("unknown", "attention_mask changes the result")
def padding_counted_twice(q, k, attention_mask):
    places = rows(q) + (~np.asarray(attention_mask, bool)).sum(-1, keepdims=True)
    return ids(q, places), ids(k, places)


def mask_ignored_without_positions(q, k, position_ids=None, attention_mask=None):
    position_ids = rows(q) if position_ids is None else position_ids
    return ids(q, position_ids), ids(k, position_ids)


@untested("past_key_value")
def keys_left_in_a_cache(q, k, position_ids, past_key_value=None):
    """Nobody makes a cache of any class: the parameter is named."""
    return ids(q, position_ids), ids(k, position_ids) if past_key_value is None else k


@untested("training, eps")
def parameters_without_a_role(x, positions, training=True, eps=1e-6):
    return ids(x, positions) if training else x


@wrong("unknown", "num_heads changes the result")
def rotated_with_one_head(x, positions, num_heads=None):
    return ids(x, positions) if num_heads is None else x


# A length that is longer than rows need it, and one that is shorter.
def bounded(x, positions, seq_len=None):
    if seq_len is not None and np.max(positions) >= seq_len:
        raise IndexError(seq_len)
    return ids(x, positions)


@untested("seq_len")
def clamped(x, positions, seq_len=None):
    return ids(x, positions if seq_len is None else np.minimum(positions, seq_len - 1))


def last_of_length(x, seq_len=None):
    length = seq_len or x.shape[-2]
    if length < x.shape[-2]:
        raise IndexError(length)
    return rotated(x, np.arange(length - x.shape[-2], length))


@wrong("unknown", "seq_len changes the result")
def interpolated_past_length(x, positions, seq_len=None, max_position_embeddings=2048):
    """As dynamic NTK does where the reference does not."""
    longer = max(1.0, (seq_len or 0) / max_position_embeddings)
    return ids(x, np.asarray(positions) / longer)


class TablesOfLength:
    def __call__(self, x, seq_len=None):
        angles = np.outer(np.arange(seq_len or x.shape[-2]), 1e4 ** -(np.arange(0, 32, 2) / 32))
        return np.cos(angles), np.sin(angles)


@untested("seq_len")
class TablesOfRows(TablesOfLength):
    def __call__(self, x, seq_len=None):
        return super().__call__(x, seq_len and x.shape[-2])


# Another shape of an argument, for which the function has code of its own.
@wrong("position-offset", "of other positions in calls with position_ids (1, n)")
def one_late_if_shared(x, position_ids):
    position_ids = np.asarray(position_ids)
    return ids(x, position_ids + (x.ndim == 4 and len(position_ids) < len(x)))


@wrong("position-offset", "of other positions in calls with position_ids (n,)")
def one_late_in_one_axis(q, k, position_ids):
    later = np.asarray(position_ids) + (np.ndim(position_ids) == 1)
    return ids(q, later), ids(k, later)


@wrong("no-rotation", "returned unrotated in calls with vectors (n, d)")
def axis_of_heads_alone(q, k, position_ids):
    return tuple(x if x.ndim == 2 else ids(x, position_ids) for x in (q, k))


@untested("vectors (n, d)")
def one_token_of_each_head(q, k, position_ids):
    """Vectors (heads, d) of one token, as in a decoding step."""
    first = np.ravel(position_ids)[0]
    return tuple(ids(x, first if x.ndim == 2 else position_ids) for x in (q, k))


def shaped_tables(q, k, cos, sin):
    cos, sin = (own[:, None] if own.ndim == 3 else own for own in (cos, sin))
    if cos.shape[-1] == 16:
        cos, sin = (np.tile(own, 2) for own in (cos, sin))
    return turned_by(q, cos, sin), turned_by(k, cos, sin)


@wrong("position-offset", "of other positions in calls with tables (n, w)")
def rolled_if_tables_have_two_axes(q, k, cos, sin):
    return shaped_tables(q, k, *(np.roll(own, cos.ndim == 2, 0) for own in (cos, sin)))


def rotary_dim_of_tables(q, k, cos, sin):
    """As many dimensions as the tables have columns: with one for each pair, half of them."""
    dim = cos.shape[-1]

    def turned(x):
        a, b = np.split(x[..., :dim], 2, -1)
        beside = np.concatenate([-b, a], -1)
        return np.concatenate([x[..., :dim] * cos + beside * sin, x[..., dim:]], -1)

    return turned(q), turned(k)


@wrong("position-offset", "of other positions in calls with offset (1,)")
def lone_offset_ignored(x, offset=0):
    return offsets(x, 0 if np.shape(offset) == (1,) else offset)


@wrong("unknown", "depends on more than the row")
def tables_of_one_axis_late(x, position_ids):
    return tables_of(np.asarray(position_ids) + (np.ndim(position_ids) == 1))


# Tables whose axis of heads the caller chooses.
def unsqueezed(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = (np.expand_dims(own, unsqueeze_dim) for own in (cos, sin))
    return turned_by(q, cos, sin), turned_by(k, cos, sin)


@wrong("unknown", "in a call that callers make")
def always_at_1(q, k, cos, sin, unsqueeze_dim=1):
    return unsqueezed(q, k, cos, sin)


# Each offset of a batch chooses rows of tables, as in flash-attention.
def rows_of_tables(x, cos, sin, seqlen_offsets=0):
    places = rows(x) + np.reshape(seqlen_offsets, (-1, *[1] * (x.ndim - 2)))
    return turned_by(x, cos[places], sin[places])


@wrong("position-offset", "sequences 2, 3 get the rotation of other positions")
def rows_of_first_offset(x, cos, sin, seqlen_offsets=0):
    return rows_of_tables(x, cos, sin, np.ravel(seqlen_offsets)[0])


@untested("offset of each sequence")
def scaled_positions(x, offset=0, scale=1.0):
    return rotated(x, (offset + rows(x)) * scale)


def scaled_vectors(x, positions, *, scale=1.0):
    return ids(x, positions) * np.float32(scale)


@wrong("unknown", "scale is ignored")
def scale_ignored(x, positions, scale=1.0):
    return ids(x, positions)


def both_scaled(q, k, positions, scale=1.0):
    at = np.asarray(positions) / scale
    return ids(q, at), ids(k, at)


@wrong("unknown", "scale is ignored for k")
def queries_scaled(q, k, positions, scale=1.0):
    return ids(q, np.asarray(positions) * scale), ids(k, positions)


@untested("scale")
def squared_scale(x, positions, scale=1.0):
    return ids(x, positions) * np.float32(scale**2)


def softmax_scale(q, k, positions, scale=1.0):
    """What scores are divided by may be multiplied into q alone."""
    return ids(q, positions) * np.float32(scale), ids(k, positions)


@wrong("unknown", "scale is ignored")
def never_slower(x, positions, scale=1.0):
    return ids(x, np.asarray(positions) * max(scale, 1.0))


@wrong("position-offset", "with scale=2.0, a row's rotation depends on more than")
def places_without_scale(x, positions, scale=1.0):
    return ids(x, (np.asarray(positions) if scale == 1 else rows(x)) * scale)


def backward(x, positions, inverse=False):
    return ids(x, -np.asarray(positions) if inverse else positions)


def backward_tables(positions, conjugate=False):
    angles = np.multiply.outer(positions, 1e4 ** -(np.arange(0, 32, 2) / 32))
    return np.cos(angles), np.sin(-angles if conjugate else angles)


@wrong("unknown", "inverse is ignored")
def inverse_ignored(x, positions, inverse=False):
    return ids(x, positions)


@wrong("direction", "inverse=True does not rotate back")
def inverse_leaves_rows(x, positions, inverse=False):
    return x if inverse else ids(x, positions)


@wrong("unknown", "inverse is ignored for k")
def queries_backward(q, k, positions, inverse=False):
    return backward(q, positions, inverse), ids(k, positions)


@wrong("direction", "inverse=True does not rotate back")
def backward_from_zero(x, offset=0, inverse=False):
    return offsets(x, offset) if not inverse else rotated(x, -rows(x))


@untested("dim")
def in_asked_format(seq_len, dim, dtype=np.float16):
    angles = np.multiply.outer(np.arange(seq_len), 1e4 ** -(np.arange(0, dim, 2) / dim))
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


@wrong("table-precision", "dtype is ignored: results are float16, not float32")
def in_half_precision(seq_len, dim, dtype=np.float32):
    return in_asked_format(seq_len, dim)


def some_dimensions(x, positions, rotary_dim=None):
    return rotated(x, beside_heads(x, positions), rotary_dim)


@untested("n_dims")
def all_dimensions_it_gets(x, positions, n_dims):
    """Right for a caller that passes only the columns to rotate, as MLA does."""
    return ids(x, positions)


def embeddings_by_tables(emb, cos, sin):
    return turned_by(emb, cos, sin).astype(emb.dtype)


def embeddings_by_factors(emb, freqs):
    return turned_by(emb, np.cos(freqs), np.sin(freqs)).astype(emb.dtype)


def positions_by_ratio(x, positions, condense_ratio=1):
    """As litgpt's."""
    return ids(x, np.asarray(positions) / condense_ratio)


@wrong("frequency-rule", "condense_ratio is ignored")
class WithoutRatio:
    def __init__(self, dim, condense_ratio=1):
        self.dim, self.ratio = dim, condense_ratio

    def __call__(self, x, positions):
        return ids(x, positions)


def positions_by_factor(x, positions, interpolation_factor=1.0):
    """As x-transformers'."""
    return ids(x, np.asarray(positions) / interpolation_factor)


@untested("sin_first, cos_scale")
def sines_chosen(x, positions, sin_first=False, cos_scale=1.0):
    """Words of names that are no tables."""
    return ids(x, positions)


@wrong("frequency-rule", "linear_factor is ignored")
def without_factor(positions, dim, linear_factor=1.0):
    """As diffusers' tables."""
    angles = np.multiply.outer(positions, 1e4 ** -(np.arange(0, dim, 2) / dim))
    return np.cos(angles), np.sin(angles)


@wrong("unknown", "a factor of 2 gives wrong results")
def divided_by_scale(x, positions, freq_scale=1.0):
    """Where llama.cpp multiplies."""
    return ids(x, np.asarray(positions) / freq_scale)


@wrong("rotary-dim", "rotary_dim is ignored")
def all_dimensions(x, positions, rotary_dim=None):
    return ids(x, positions)


def share_of_dimensions(x, positions, rotary_pct=0.25):
    dim = int(x.shape[-1] * rotary_pct)
    return rotated(x, beside_heads(x, positions), dim)


def tables_of_share(positions, dim, rotary_pct=1.0):
    dim = int(dim * rotary_pct)
    angles = np.multiply.outer(positions, 1e4 ** -(np.arange(0, dim, 2) / dim))
    return np.cos(angles), np.sin(angles)


@wrong("rotary-dim", "rotary_pct is ignored")
def tables_of_the_whole_share(positions, dim, rotary_pct=1.0):
    return tables_of_share(positions, dim)


@wrong("rotary-dim", "rotary_pct is ignored")
def share_ignored(x, positions, rotary_pct=0.25):
    return ids(x, positions)


@wrong("base", "theta is ignored")
def frequencies_of_one_base(dim, theta=10000.0):
    return 1e4 ** -(np.arange(0, dim, 2) / dim)


@untested("rotary_dim")
def frequencies_of_all(x, positions, rotary_dim=None):
    """As proportional RoPE has them."""
    dim = rotary_dim or x.shape[-1]
    return np.concatenate([ids(x, positions)[..., :dim], x[..., dim:]], -1)


@untested("layer_idx")
def single_layer(x, positions, layer_idx=0):
    assert layer_idx == 0
    return ids(x, positions)


@wrong("no-rotation", "sequence 4 are returned unrotated")
def fourth_of_four(x, position_ids):
    y = ids(x, position_ids)
    if x.ndim == 4 and len(x) == 4:
        y[3] = x[3]
    return y


def turned_by(x, cos, sin):
    return x * cos + np.concatenate([-x[..., 16:], x[..., :16]], -1) * sin


@wrong("position-offset", "positions restart at 0 in ")
def offset_of_tables_ignored(q, k, cos, sin, offset=0):
    """GPT-NeoX has rows before sequences, and heads after them."""
    cos, sin = cos[: len(q)], sin[: len(q)]
    return turned_by(q, cos, sin).astype("f4"), turned_by(k, cos, sin).astype("f4")


@wrong("position-offset", "get the rotation of other positions")
def first_row_for_one_head(q, k, cos, sin):
    def turned(x):
        one = x.ndim == 4 and x.shape[1] == 1 < len(x)
        return turned_by(x, *([cos[..., :1, :], sin[..., :1, :]] if one else [cos, sin]))

    return turned(q), turned(k)


@wrong("position-offset", "get the rotation of other positions")
def axis_by_its_length(x, cos, sin):
    along = (-1, 1, 1, 32) if x.ndim == 4 and len(x) == len(cos) else cos.shape
    return turned_by(x, cos.reshape(along), sin.reshape(along))


@wrong("no-rotation", "sequence 33 are returned unrotated")
def buffers_for_32(x, position_ids):
    y = ids(x, position_ids)
    if x.ndim == 4:
        y[32:] = x[32:]
    return y


def positions_or_offset(x, positions=None, offset=0):
    """keras-hub's: positions that are given stand for an offset too."""
    return ids(x, offset + rows(x) if positions is None else positions)


def one_late_beside_an_offset(x, positions=None, offset=0):
    return ids(x, offset + rows(x) if positions is None else np.asarray(positions) + bool(offset))


@untested("vectors (b, n, d)")
def one_head_at_the_last_positions(x, position_ids):
    """Without an axis of heads it takes all vectors for those of one sequence."""
    position_ids = np.asarray(position_ids)
    return ids(x, position_ids[-1] if x.ndim == 3 else position_ids)


@wrong("unknown", "depends on more than the row")
def rows_of_int32(x, position_ids):
    """A table of 128 rows for them."""
    position_ids = np.asarray(position_ids)
    return ids(x, position_ids % (128 if position_ids.dtype == np.int32 else 1 << 32))


@untested("batches (raised ValueError: one sequence)")
def one_sequence(x, positions):
    if x.ndim == 4 and len(x) > 1:
        raise ValueError("one sequence")
    return ids(x, positions)


@wrong("position-offset", "get the rotation of other positions")
def last_row_of_tables(x, cos, sin, position_ids):
    """Megatron-LM#412: a decoding step takes the end of what was computed."""
    row = np.s_[-1:] if x.shape[-2] == 1 else np.asarray(position_ids)
    chosen = (cos[row], sin[row])
    return turned_by(x, *(own[:, None] if own.ndim == 3 < x.ndim else own for own in chosen))


# q and k.
@wrong("unknown", "results for vectors differ")
def queries_twice(q, k, positions):
    return ids(q, positions), ids(q, positions)


@untested("fewer heads of k than of q")
def cut_in_the_middle(q, k, positions):
    both = np.concatenate([q, k], axis=-3)
    both = ids(both, np.asarray(positions)) if q.ndim > 2 else both
    half = both.shape[-3] // 2
    return both[..., :half, :, :], both[..., half:, :, :]


@untested("q shorter than k")
def first_rows_of_tables(q, k, cos, sin):
    first = (np.s_[..., : x.shape[-2], :] for x in (q, k))
    return tuple(turned_by(x, cos[of], sin[of]) for x, of in zip((q, k), first, strict=True))


@untested("offset of each sequence, q shorter than k")
def keys_from_zero_beside_fewer_queries(q, k, offset=0):
    first = offset if q.shape[-2] == k.shape[-2] else 0
    return rotated(q, int(offset) + rows(q)), rotated(k, int(first) + rows(k))


# What is no rotation: a call that ends, or comes back in another shape, or depends on their number.
@wrong("unknown", "returned an array of shape (9, 130, 5, 31) for x of shape (9, 130, 5, 32)")
def cuts_large_batches(x, position_ids):
    y = ids(x, position_ids)
    return y[..., :-1] if x.ndim == 4 and len(x) == 9 else y


@wrong("unknown", "gave no answer within 3 seconds in a call that callers make")
def hangs_at_offsets(x, offset=0):
    if np.ndim(offset):
        time.sleep(1e4)
    return rotated(x, offset + rows(x))


@untested("base")
def ends_with_another_base(x, position_ids, base=10000.0):
    """It refuses what no caller of its model asks for."""
    if base != 10000:
        os._exit(3)
    return ids(x, position_ids)


calls = []


@wrong("unknown", "the result for a row depends on more than the row and its position")
def stops(x, position_ids):
    calls.append(1)
    return ids(x, position_ids) if len(calls) < 40 else x


# v beside q and k, (b, h, n, d): it comes back as it was, at any position and in any head.
@untested("offset of each sequence")
def beside_v(q, k, v, offset=0):
    return rotated(q, rows(q) + offset), rotated(k, rows(k) + offset), v


@wrong("unknown", "v is changed")
def v_at_later_positions(q, k, v, offset=0):
    return *beside_v(q, k, v, offset)[:2], rotated(v, rows(v) + offset) if offset else v


TABLES = {}


# Equinox 0.13.8 keeps one table for each size, whatever the base.
class Kept:
    def __init__(self, embedding_size, theta=10_000.0):
        self.size, self.theta, self.key = embedding_size, theta, (embedding_size, theta)

    def __call__(self, x):
        if len(TABLES.get(self.key, ())) < len(x):
            rates = self.theta ** -(np.arange(0, self.size, 2) / self.size)
            TABLES[self.key] = np.tile(np.outer(np.arange(len(x)), rates), 2)
        angles = TABLES[self.key][: len(x)]
        return turned_by(x, np.cos(angles), np.sin(angles)).astype(x.dtype)


@wrong("base", "theta is ignored")
class KeptBySize(Kept):
    def __init__(self, embedding_size, theta=10_000.0):
        super().__init__(embedding_size, theta)
        self.key = embedding_size


class RowsOfRequiredLength:
    """The first GPT-NeoX class of transformers, whose tables grow."""

    faster = 1.0

    def __init__(self, dim, max_position_embeddings, base=10000.0):
        self.rates, self.tables = base ** -(np.arange(0, dim, 2) / dim), np.zeros(0)
        self.grow(max_position_embeddings)

    def grow(self, length):
        self.tables = np.outer(np.arange(length), self.rates)

    def __call__(self, x, seq_len):
        assert len(x)
        if seq_len > len(self.tables):
            self.rates = self.rates * self.faster
            self.grow(seq_len)
        return np.cos(self.tables[:seq_len]), np.sin(self.tables[:seq_len])


@wrong("unknown", "the result for a row depends on more than")
class KeptForObject:
    """Frequencies are computed again for another array of positions."""

    last, angles = None, None

    def __call__(self, x, position_ids):
        if self.last is not position_ids:
            self.last, self.angles = position_ids, np.array(position_ids)
        return ids(x, self.angles)


@wrong("unknown", "the next call overwrites the result of a call")
class WritesIntoLastResult:
    def __init__(self):
        self.results = {}

    def __call__(self, x, offset=0):
        y = rotated(x, offset + rows(x))
        kept = self.results.setdefault((y.shape, y.dtype), y)
        kept[...] = y
        return kept


@wrong("unknown", "rows are wrong after a call past the length")
class GrowsWithOtherRates(RowsOfRequiredLength):
    faster = 0.5


@untested("callers that exceed max_position_embeddings (their results are wrong, without an error)")
class ClampedAtRequiredLength(RowsOfRequiredLength):
    """A gather of JAX ends at the last row, which a caller who states the length never passes."""

    def __call__(self, x, positions):
        assert len(x)
        angles = self.tables[np.minimum(positions, len(self.tables) - 1)]
        return np.cos(angles), np.sin(angles)


@untested("callers that exceed max_position_embeddings (they get fewer rows)")
class KeepsRequiredLength(RowsOfRequiredLength):
    """GPT-NeoX without the code that lets its tables grow."""

    def __call__(self, x, seq_len):
        assert len(x)
        return np.cos(self.tables[:seq_len]), np.sin(self.tables[:seq_len])


def turned_by_timm(x, emb):
    sin, cos = np.split(emb, 2, -1)
    return turned_by(x, cos, sin).astype(x.dtype)


class Settings(NamedTuple):
    head_dim: int
    rope_theta: float = 10000.0


class WithSettings:
    def __init__(self, args: Settings):
        self.rates = args.rope_theta ** -(np.arange(0, args.head_dim, 2) / args.head_dim)

    def __call__(self, positions):
        angles = np.tile(np.multiply.outer(positions, self.rates), 2)
        return np.cos(angles), np.sin(angles)


@wrong("base", "rope_theta is ignored")
class WithOneSetting(WithSettings):
    def __init__(self, args: Settings):
        super().__init__(Settings(args.head_dim))


def turned_by_cosines_first(x, emb):
    cos, sin = np.split(emb, 2, -1)
    return turned_by(x, cos, sin).astype(x.dtype)


def turned_by_joined_tables(x, freqs_cis):
    """As torchtitan's."""
    return turned_by_cosines_first(x, freqs_cis.reshape(-1, 2 * x.shape[-1]))


def turned_by_sines_before_cosines(x, sin_emb, cos_emb):
    """As timm's."""
    return turned_by(x, cos_emb, sin_emb).astype(x.dtype)


class OfCs336:
    """Its dimensions are called d_k."""

    def __init__(self, theta: float, d_k: int, max_seq_len: int):
        rates = theta ** -(np.arange(0, d_k, 2) / d_k)
        self.angles = np.multiply.outer(np.arange(max_seq_len), rates)

    def __call__(self, x, token_positions):
        angles = self.angles[beside_heads(x, token_positions)]
        return turned_by(x, *(np.tile(turn(angles), 2) for turn in (np.cos, np.sin))).astype("f4")


def rows_up_to_a_length(xq, position_ids, max_pos, theta_base=10000.0):
    """As EasyLM's."""
    rates = theta_base ** -(np.arange(0, 32, 2) / 32)
    angles = np.multiply.outer(np.arange(max_pos), rates)[beside_heads(xq, position_ids)]
    return turned_by(xq, *(np.tile(turn(angles), 2) for turn in (np.cos, np.sin))).astype("f4")


@wrong("cos-sin-mispaired", "both sines have the sign +")
def without_a_minus(x_bthd):
    """Its rows are on axis −3, which has length 1 where each sequence is a row of heads."""
    rates = 1e4 ** -(np.arange(0, 32, 2) / 32)
    angles = np.multiply.outer(np.arange(x_bthd.shape[-3]), rates)[:, None]
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = np.split(x_bthd, 2, -1)
    return np.concatenate([a * cos + b * sin, a * sin + b * cos], 3).astype(x_bthd.dtype)


@wrong("direction", "the sine has the wrong sign")
def turned_back_by_cosines_first(x, emb):
    cos, sin = np.split(emb, 2, -1)
    return turned_by(x, cos, -sin).astype(x.dtype)


@wrong("cos-sin-mispaired", "both sines have the sign +: a minus is missing, or half of the table")
def half_of_sines_negated(t, freqs):
    """Tables of any width rotate as many dimensions, as in Megatron."""
    width = freqs.shape[-1]
    signs = np.repeat([-1.0, 1.0], width // 2)
    first, second = np.split(t[..., :width], 2, -1)
    beside = np.concatenate([-second, first], -1) * signs
    some = t[..., :width] * np.cos(freqs) + beside * np.sin(freqs)
    return np.concatenate([some, t[..., width:]], -1).real.astype(t.dtype)
