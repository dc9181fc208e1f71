"""Pairs of functions: a right one, and its wrong twin, which only one changed argument shows.

The file is what ``--impl`` loads, by ``supplied.py:NAME``: wrong ones are those of ``WRONG``, with
the cause and words of it. All pair columns i and i + d/2, with base 10000.
"""

from __future__ import annotations

import os
import sys

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


@wrong("position-offset", "sequences 2, 3 are")
def ids_of_first(x, position_ids):
    position_ids = np.asarray(position_ids)
    return ids(x, position_ids[:1] if position_ids.ndim == 2 else position_ids)


@wrong("position-offset", "sequences 2, 3 are")
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


@wrong("position-offset", "sequences 2, 3 are")
def offset_of_first(x, offset=0):
    return rotated(x, np.asarray(offset).ravel()[0] + rows(x))


@wrong("position-offset", "with offset as an array")
def required_offset_of_first(x, offset):
    return offset_of_first(x, offset)


@untested("offset of each sequence")
def whole_offset(x, offset=0):
    return rotated(x, int(offset) + rows(x))


@untested("positions of each sequence")
def positions_of_all(x, positions):
    assert np.ndim(positions) == 1
    return rotated(x, positions)


# As many sequences as a prompt with and one without guidance.
@wrong("no-rotation", "sequence 2 does not rotate")
def second_of_two(x, position_ids):
    y = ids(x, position_ids)
    if x.ndim == 4 and len(x) == 2:
        y[1] = x[1]
    return y


@wrong("position-offset", "sequence 2 is")
def positions_of_first_of_two(x, position_ids):
    position_ids = np.asarray(position_ids)
    two = position_ids.ndim == 2 and len(position_ids) == 2
    return ids(x, position_ids[:1] if two else position_ids)


# Positions of k.
def each_its_own(q, k, q_positions, k_positions):
    return ids(q, q_positions), ids(k, k_positions)


@wrong("position-offset", "k_positions is ignored")
def keys_at_queries(q, k, q_positions, k_positions):
    return ids(q, q_positions), ids(k, q_positions)


def keys_of_their_own(q, k, position_ids, key_position_ids=None):
    keys = position_ids if key_position_ids is None else key_position_ids
    return ids(q, position_ids), ids(k, keys)


@wrong("position-offset", "key_position_ids is ignored")
def keys_ignored(q, k, position_ids, key_position_ids=None):
    return ids(q, position_ids), ids(k, position_ids)


@wrong("position-offset", "")
def longer_keys_from_zero(q, k, q_pos, k_pos):
    """Right where q and k have as many rows."""
    k_pos = np.asarray(k_pos)
    return ids(q, q_pos), ids(k, k_pos - k_pos.min() * (q.shape[-2] != k.shape[-2]))


@wrong("position-offset", "k_pos is ignored")
def grouped_keys_at_queries(q, k, q_pos, k_pos=None):
    """Right where q and k have as many heads."""
    own = q_pos if k_pos is None or q.shape[-3] != k.shape[-3] else k_pos
    return ids(q, q_pos), ids(k, own)


@wrong("position-offset", "q is rotated at the positions of k")
def queries_at_last_keys(q, k, q_positions, k_positions):
    return ids(q, np.asarray(k_positions)[..., -q.shape[-2] :]), ids(k, k_positions)


@wrong("position-offset", "q and k are rotated at the positions of each other")
def exchanged_places(q, k, q_positions, k_positions):
    return ids(q, k_positions), ids(k, q_positions)


# Numbers and flags with a default.
def every_layer(x, positions, layer_idx=0):
    return ids(x, positions)


@wrong("unknown", "layer_idx changes the result")
def first_layer(x, positions, layer_idx=0):
    return ids(x, positions) if layer_idx == 0 else x


@wrong("unknown", "layer_idx changes the result")
def first_layer_required(x, positions, *, layer_idx):
    return first_layer(x, positions, layer_idx)


@wrong("unknown", "layer_idx changes the result")
def early_layers(x, positions, layer_idx=0):
    return ids(x, positions) if layer_idx < 30 else x


@wrong("unknown", "layer_idx changes the result")
def positions_in_first_layer(x, positions, layer_idx=0):
    return ids(x, positions if layer_idx == 0 else rows(x))


@wrong("position-offset", "with layer_idx=1, sequences 2, 3 are")
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


@wrong("unknown", "mask changes the result")
def all_masked_or_none(x, positions, mask=None):
    return ids(x, positions) if mask is None or np.all(mask) else x


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


def softmax_scale(q, k, positions, scale=1.0):
    """What scores are divided by may be multiplied into q alone."""
    return ids(q, positions) * np.float32(scale), ids(k, positions)


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


def in_asked_format(seq_len, dim, dtype=np.float16):
    angles = np.multiply.outer(np.arange(seq_len), 1e4 ** -(np.arange(0, dim, 2) / dim))
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


@wrong("table-precision", "dtype is ignored: float16 comes back, not float32")
def in_half_precision(seq_len, dim, dtype=np.float32):
    return in_asked_format(seq_len, dim)


def some_dimensions(x, positions, rotary_dim=None):
    return rotated(x, beside_heads(x, positions), rotary_dim)


@wrong("rotary-dim", "rotary_dim is ignored")
def all_dimensions(x, positions, rotary_dim=None):
    return ids(x, positions)


@untested("rotary_dim")
def frequencies_of_all(x, positions, rotary_dim=None):
    """As proportional RoPE has them."""
    dim = rotary_dim or x.shape[-1]
    return np.concatenate([ids(x, positions)[..., :dim], x[..., dim:]], -1)


@untested("layer_idx")
def single_layer(x, positions, layer_idx=0):
    assert layer_idx == 0
    return ids(x, positions)


@wrong("no-rotation", "sequence 4 does not rotate")
def fourth_of_four(x, position_ids):
    y = ids(x, position_ids)
    if x.ndim == 4 and len(x) == 4:
        y[3] = x[3]
    return y


@wrong("no-rotation", "sequence 8 does not rotate")
def eighth_of_eight(x, position_ids):
    y = ids(x, position_ids)
    if x.ndim == 4 and len(x) == 8:
        y[7] = x[7]
    return y


@untested("batches (raised ValueError: one sequence)")
def one_sequence(x, positions):
    if x.ndim == 4 and len(x) > 1:
        raise ValueError("one sequence")
    return ids(x, positions)


# What is no rotation: a call that ends, or comes back in another shape, or depends on their number.
@wrong("unknown", "raised SystemExit: 3 in a call that callers make")
def exits_in_batches(x, position_ids):
    if x.ndim == 4 and len(x) > 1:
        sys.exit(3)
    return ids(x, position_ids)


@wrong("unknown", "ended its process with status 3 in a call that callers make")
def ends_in_batches(x, position_ids):
    if x.ndim == 4 and len(x) > 1:
        os._exit(3)
    return ids(x, position_ids)


@wrong("unknown", "returned an array of shape (9, 130, 5, 31) for x of shape (9, 130, 5, 32)")
def cuts_large_batches(x, position_ids):
    y = ids(x, position_ids)
    return y[..., :-1] if x.ndim == 4 and len(x) == 9 else y


def ends_with_another_base(x, position_ids, base=10000.0):
    """It refuses what no caller of its model asks for."""
    if base != 10000:
        os._exit(3)
    return ids(x, position_ids)


calls = []


@wrong("unknown", "rotates differently from its call number 40 on")
def stops(x, position_ids):
    calls.append(1)
    return ids(x, position_ids) if len(calls) < 40 else x


@wrong("unknown", "vectors of float16 change the results of later calls in float32")
def stops_at_halves(x, position_ids):
    calls.extend([1] * 40 * (x.dtype == np.float16))
    return ids(x, position_ids) if len(calls) < 40 else ids(x, 2 * np.asarray(position_ids))


# v beside q and k, (b, h, n, d): it comes back as it was, at any position and in any head.
@untested("offset of each sequence")
def beside_v(q, k, v, offset=0):
    return rotated(q, rows(q) + offset), rotated(k, rows(k) + offset), v


@wrong("unknown", "v is changed")
def v_at_later_positions(q, k, v, offset=0):
    return *beside_v(q, k, v, offset)[:2], rotated(v, rows(v) + offset) if offset else v


@wrong("unknown", "v is changed")
def v_in_later_heads(q, k, v, offset=0):
    changed = v.copy()
    changed[..., 5:, :, :] = rotated(v, rows(v) + offset)[..., 5:, :, :]
    return *beside_v(q, k, v, offset)[:2], changed
