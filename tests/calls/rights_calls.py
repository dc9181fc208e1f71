"""Right functions in the conventions that libraries have, in torch: no call may fail one.

Written apart from posenc, each after the code of the library it is named for. The file is what
``--impl`` loads, by ``rights_calls.py:NAME``; base 10000, heads of 32 columns.
"""

# ruff: noqa: PLR0917 - the signatures are the libraries' own

from __future__ import annotations

import warnings

try:
    import torch
except ModuleNotFoundError:  # a function in a process of its own may have no pytest
    import pytest

    pytest.skip("torch is not installed", allow_module_level=True)

D = 32
INV_FREQ = 1e4 ** -(torch.arange(0, D, 2) / D)


def half(function):
    """It pairs columns i and i + 16."""
    return function


def neighbours(function):
    """It pairs columns 2i and 2i + 1."""
    return function


def rotate_half(x):
    return torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], dim=-1)


def rotate_pairs(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)


def angles_of(positions):
    return positions[..., None].float() * INV_FREQ


# transformers.
@half
def gathered(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    """From 4.38 on: position_ids are deprecated and unused."""
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


@half
def whole_caches(q, k, cos, sin, position_ids):
    """Before 4.36: caches (1, 1, n, d)."""
    cos, sin = (table.squeeze(1).squeeze(0)[position_ids].unsqueeze(1) for table in (cos, sin))
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


@half
def rows_if_asked(q, k, cos, sin, position_ids=None):
    if position_ids is not None:
        cos, sin = cos[position_ids].unsqueeze(1), sin[position_ids].unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


@half
def one_table_for_all(q, k, cos, sin, position_ids=None):
    """Tables (1, n, d), for all sequences alike."""
    cos, sin = cos.squeeze(0)[None, None], sin.squeeze(0)[None, None]
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


@neighbours
def gptj(tensor, sin, cos):
    """Of GPT-J: (b, n, heads, d), tables (b, n, d/2), sine first."""
    sin = torch.repeat_interleave(sin[:, :, None, :], 2, 3)
    cos = torch.repeat_interleave(cos[:, :, None, :], 2, 3)
    return tensor * cos + rotate_pairs(tensor) * sin


@neighbours
def first_of_two(x, cos, sin):
    """Tables (b, n, d), each value twice side by side, of which one is read."""
    cos, sin = cos[:, None, :, ::2], sin[:, None, :, ::2]
    first, second = x[..., ::2], x[..., 1::2]
    return torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)


@neighbours
def first_half(x, cos, sin):
    """Tables (b, n, d), each value twice in halves, of which one is read."""
    cos, sin = cos[:, None, :, : D // 2], sin[:, None, :, : D // 2]
    first, second = x[..., ::2], x[..., 1::2]
    return torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)


@neighbours
def second_of_two_of_a_tuple(x, position_embeddings):
    cos, sin = position_embeddings
    return first_of_two(x, cos.roll(-1, -1), sin.roll(-1, -1))


@half
def esm(x, cos, sin):
    cos, sin = cos[:, :, : x.shape[-2], :], sin[:, :, : x.shape[-2], :]
    return x * cos + rotate_half(x) * sin


@half
def falcon(query, key, cos, sin, past_key_values_length=0):
    n = query.shape[-2]
    rows = slice(past_key_values_length, past_key_values_length + n)
    cos, sin = cos[rows], sin[rows]
    return query * cos + rotate_half(query) * sin, key * cos + rotate_half(key) * sin


# GPT-NeoX and Megatron.
@half
def megatron(t, freqs):
    """(n, b, heads, d), angles (n, 1, 1, d)."""
    return t * freqs.cos() + rotate_half(t) * freqs.sin()


# flash-attention.
@half
def flash(x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=0, max_seqlen=None):
    """apply_rotary_emb: (b, n, heads, d), tables (more rows, d/2)."""
    rows = slice(seqlen_offsets, seqlen_offsets + x.shape[1])
    if interleaved:
        cos, sin = (table[rows].repeat_interleave(2, -1)[:, None] for table in (cos, sin))
        return x * cos + torch.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape) * sin
    cos, sin = (torch.cat([table[rows]] * 2, -1)[:, None] for table in (cos, sin))
    return x * cos + rotate_half(x) * sin


# Llama's reference code, and what follows it.
def llama(xq, xk, freqs_cis):
    def one(x):
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        assert freqs_cis.shape == (z.shape[1], z.shape[-1])
        z = z * freqs_cis.view(1, z.shape[1], 1, z.shape[-1])
        return torch.view_as_real(z).flatten(3).type_as(x)

    return one(xq), one(xk)


@neighbours
def llama_sliced(xq, xk, freqs_cis, start_pos):
    """freqs_cis are of the call already, as Attention.forward is given them."""
    return llama(xq, xk, freqs_cis)


@neighbours
def llama_slicing(xq, xk, freqs_cis, start_pos):
    return llama(xq, xk, freqs_cis[start_pos : start_pos + xq.shape[1]])


@neighbours
def lucidrains(freqs, t, start_index=0, scale=1.0, seq_dim=-2):
    """apply_rotary_emb of rotary-embedding-torch: start_index is a column."""
    if t.ndim == 3:
        freqs = freqs[-t.shape[seq_dim] :]
    width = freqs.shape[-1]
    end = start_index + width
    left, middle, right = t[..., :start_index], t[..., start_index:end], t[..., end:]
    middle = middle * freqs.cos() * scale + rotate_pairs(middle) * freqs.sin() * scale
    return torch.cat([left, middle, right], dim=-1)


# Grouped queries.
@half
def repeated_keys(q, k, cos, sin):
    """k for as many heads as q has."""
    q, k = gathered(q, k, cos, sin)
    return q, k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)


# vLLM.
@half
def rows_of_heads(positions, query, key):
    """Rows of flattened heads."""
    angles = torch.cat([angles_of(positions.flatten())] * 2, -1)[:, None]
    cos, sin = angles.cos(), angles.sin()
    results = []
    for x in (query, key):
        shaped = x.view(positions.numel(), -1, D)
        results.append((shaped * cos + rotate_half(shaped) * sin).reshape(x.shape))
    return tuple(results)


# Positions.
@half
def broadcast(q, k, position_ids):
    """position_ids (b, n), or (1, n) for all."""
    angles = torch.cat([angles_of(position_ids)] * 2, -1)[:, None]
    cos, sin = angles.cos(), angles.sin()
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


@half
def of_first_only(q, k, positions):
    """positions (n,), and no others."""
    angles = torch.outer(positions.float(), INV_FREQ)
    angles = torch.cat([angles, angles], -1)
    cos, sin = angles.cos(), angles.sin()
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


@half
def rows_alone(x, positions):
    """(n, d): axes are counted from the first."""
    angles = torch.cat([angles_of(positions)] * 2, 1)
    half = x.shape[1] // 2
    turned = torch.cat([-x[:, half:], x[:, :half]], dim=1)
    return x * angles.cos() + turned * angles.sin()


@half
def equal_heads(q, k, positions):
    """q and k in one array: as many heads of each."""
    both = torch.stack([q, k])
    angles = torch.cat([angles_of(positions)] * 2, -1)
    both = both * angles.cos() + rotate_half(both) * angles.sin()
    return both[0], both[1]


@half
def real_angles(q, k, freqs):
    """An angle for each pair, which it repeats itself."""
    angles = torch.cat([freqs, freqs], -1)
    return tuple(x * angles.cos() + rotate_half(x) * angles.sin() for x in (q, k))


@half
def angles_of_any_name(q, k, phi):
    return real_angles(q, k, phi)


@half
def one_sequence(q, k, position_ids):
    """A batch of one."""
    assert q.shape[0] == 1
    return broadcast(q, k, position_ids)


@half
def in_half_precision(x, positions):
    """Right tables, and products in the precision of x."""
    angles = torch.cat([angles_of(positions)] * 2, -1)
    return x * angles.cos().to(x.dtype) + rotate_half(x) * angles.sin().to(x.dtype)


class Rows(torch.nn.Module):
    """Rows of vectors."""

    def __init__(self):
        super().__init__()
        self.register_buffer("inv_freq", INV_FREQ)

    def forward(self, x: torch.Tensor, positions: torch.Tensor):
        angles = positions[..., None].float() * self.inv_freq
        angles = torch.cat([angles, angles], -1)
        half = torch.cat([-x[..., 16:], x[..., :16]], dim=-1)
        return x * angles.cos() + half * angles.sin()


class Unreadable:
    """Nothing can be known of its parameters."""

    __signature__ = ()

    def __call__(self, *given):
        return gathered(*given)


def turned_by_tables(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    q_half = torch.cat([-q[..., 16:], q[..., :16]], dim=-1)
    k_half = torch.cat([-k[..., 16:], k[..., :16]], dim=-1)
    return q * cos + q_half * sin, k * cos + k_half * sin


unreadable = Unreadable()
COMPILED = {
    "scripted": lambda: torch.jit.script(turned_by_tables),
    "scripted_module": lambda: torch.jit.script(Rows()),
}
"""Each takes longer to compile than most functions of the file take to be checked."""


def __getattr__(name):
    if name not in COMPILED:
        raise AttributeError(name)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # people have such functions all the same
        return COMPILED[name]()
