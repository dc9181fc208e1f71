"""Functions in the shapes that people have, as the libraries write them: right ones and wrong ones.

Written apart from posenc, each after the code of the library it is named for. The file is what
``--impl`` loads, by ``doubles.py:NAME``; base 10000, heads of 32 columns.
"""

# ruff: noqa: ARG002, PLR0917 - the signatures are the libraries' own

from __future__ import annotations

from typing import Any

import numpy as np

D = 32
INV_FREQ = 1e4 ** -(np.arange(0, D, 2) / D)


def rotate_half(x: Any) -> Any:
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], axis=-1)


def angles_of(positions: Any) -> Any:
    return np.asarray(positions)[..., None] * INV_FREQ


def full(positions: Any) -> Any:
    angles = angles_of(positions)
    both = np.concatenate([angles, angles], axis=-1)
    return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


def turned(x: Any, cos: Any, sin: Any) -> Any:
    return x * cos + rotate_half(x) * sin


def transformers(q, k, cos, sin, unsqueeze_dim=1):
    """apply_rotary_pos_emb of Llama in transformers."""
    cos, sin = (np.expand_dims(table, unsqueeze_dim) for table in (cos, sin))
    return turned(q, cos, sin), turned(k, cos, sin)


def q_reordered(q, k, cos, sin):
    """q comes out with the two columns of a pair side by side, k in halves."""
    return side_by_side(turned(q, cos, sin)), turned(k, cos, sin)


def both_reordered(q, k, cos, sin):
    """q and k come out with the two columns of a pair side by side."""
    return side_by_side(turned(q, cos, sin)), side_by_side(turned(k, cos, sin))


def side_by_side(y):
    return np.stack(np.split(y, 2, axis=-1), axis=-1).reshape(y.shape)


def transformers_4(q, k, cos, sin, position_ids, unsqueeze_dim=1):
    """The same before 4.38, which gathers rows of whole tables."""
    cos, sin = (np.expand_dims(table[position_ids], unsqueeze_dim) for table in (cos, sin))
    return turned(q, cos, sin), turned(k, cos, sin)


def transformers_2(q, k, cos, sin, unsqueeze_dim=2):
    return transformers(q, k, cos, sin, unsqueeze_dim)


def q_alone(q, k, cos, sin, unsqueeze_dim=1):
    return transformers(q, k, cos, sin, unsqueeze_dim)[0], k.copy()


def pairs_of_k(q, k, cos, sin, unsqueeze_dim=1):
    """k is turned in neighbouring pairs."""
    half = cos.shape[-1] // 2
    c, s = (np.expand_dims(table[..., :half], unsqueeze_dim) for table in (cos, sin))
    other = np.empty_like(k)
    other[..., ::2] = k[..., ::2] * c - k[..., 1::2] * s
    other[..., 1::2] = k[..., 1::2] * c + k[..., ::2] * s
    return transformers(q, k, cos, sin, unsqueeze_dim)[0], other


def exchanged(q, k, cos, sin, unsqueeze_dim=1):
    return transformers(q, k, cos, sin, unsqueeze_dim)[::-1]


def k_later(q, k, positions):
    (cos, sin), (cos_k, sin_k) = full(positions), full(np.asarray(positions) + 1)
    return turned(q, cos, sin), turned(k, cos_k, sin_k)


def llama(xq, xk, freqs_cis):
    """apply_rotary_emb of the reference code of Llama: (b, n, heads, d)."""

    def one(x):
        z = x.reshape(*x.shape[:-1], -1, 2)
        z = z[..., 0] + 1j * z[..., 1]
        assert freqs_cis.shape == (z.shape[1], z.shape[-1])
        z = z * freqs_cis.reshape(1, z.shape[1], 1, z.shape[-1])
        return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)

    return one(xq), one(xk)


def gpt_fast(x, freqs_cis):
    """apply_rotary_emb of gpt-fast: real pairs."""
    shaped = x.reshape(*x.shape[:-1], -1, 2)
    freqs = freqs_cis.reshape(1, shaped.shape[1], 1, shaped.shape[3], 2)
    a, b = shaped[..., 0], shaped[..., 1]
    c, s = freqs[..., 0], freqs[..., 1]
    return np.stack([a * c - b * s, b * c + a * s], axis=-1).reshape(x.shape)


def flux(x, freqs_cis):
    """apply_rotary_emb of diffusers: a tuple of tables, each value twice side by side."""
    cos, sin = freqs_cis
    a, b = x[..., ::2], x[..., 1::2]
    return x * cos[None, None] + np.stack([-b, a], axis=-1).reshape(x.shape) * sin[None, None]


def flash_attention(x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=0):
    """apply_rotary_emb of flash-attn: (b, n, heads, d) and tables (n, d/2)."""
    width = cos.shape[-1] * 2
    assert width <= x.shape[-1]
    if interleaved:
        cos, sin = (np.repeat(table, 2, -1)[:, None] for table in (cos, sin))
        own = x[..., :width]
        beside = np.stack([-own[..., 1::2], own[..., ::2]], axis=-1).reshape(own.shape)
        return np.concatenate([own * cos + beside * sin, x[..., width:]], axis=-1)
    cos, sin = (np.concatenate([table, table], -1)[:, None] for table in (cos, sin))
    return np.concatenate([turned(x[..., :width], cos, sin), x[..., width:]], axis=-1)


def gpt_neox(q, k, cos, sin, offset: int = 0):
    """apply_rotary_pos_emb of GPT-NeoX: (n, b, heads, d) and tables (n, 1, 1, d)."""
    assert cos.ndim == 4
    cos, sin = (table[offset : q.shape[0] + offset] for table in (cos, sin))
    return turned(q, cos, sin), turned(k, cos, sin)


def mlx(x, offset=0):
    """Of MLX's examples: (b, heads, n, d)."""
    cos, sin = full(np.arange(x.shape[-2]) + offset)
    return turned(x, cos, sin)


def unnamed(x, t):
    return mlx(x, t)


def with_values(q, k, v, positions):
    return turned(q, *full(positions)), turned(k, *full(positions)), v


def offset_ignored(x, offset=0):
    return mlx(x)


def keras(inputs, start_index=0):
    """Of KerasHub: (b, n, heads, d)."""
    cos, sin = full(np.arange(inputs.shape[1]) + start_index)
    return turned(inputs, cos[:, None], sin[:, None])


def whole(x):
    """A sequence from position 0 on, (b, n, heads, d)."""
    return keras(x)


def keras_layer(inputs, start_index=0, positions=None):
    """RotaryEmbedding of KerasHub, which takes positions in place of the first."""
    places = np.arange(inputs.shape[1]) + start_index if positions is None else positions
    cos, sin = full(places)
    return turned(inputs, cos[..., None, :], sin[..., None, :])


def one_sequence(x, offset):
    """(n, d), to which it adds an axis of sequences itself."""
    batch = x[None]
    return turned(batch, *full(np.arange(batch.shape[1]) + offset))[0]


def one_sequence_from_zero(x):
    return one_sequence(x, 0)


def first_position(x, pos):
    return mlx(x, pos)


def with_dropout(q, k, offset=0, p=0.1):
    return mlx(q, offset), mlx(k, offset)


def llama_if_asked(x, freqs_cis=None):
    return llama(x, x, freqs_cis)[0]


class Torchtune:
    """RotaryPositionalEmbeddings of torchtune: a cache, (b, n, heads, d), neighbouring pairs."""

    def __init__(self, dim, max_seq_len=4096, base=10_000):
        inv_freq = 1.0 / (base ** (np.arange(0, dim, 2)[: dim // 2] / dim))
        angles = np.arange(max_seq_len)[:, None] * inv_freq
        self.cache = np.stack([np.cos(angles), np.sin(angles)], axis=-1)

    def __call__(self, x, *, input_pos=None):
        n = x.shape[1]
        cache = self.cache[:n] if input_pos is None else self.cache[input_pos]
        shaped = x.astype(np.float32).reshape(*x.shape[:-1], -1, 2)
        c, s = np.moveaxis(cache.reshape(-1, n, 1, shaped.shape[3], 2), -1, 0)
        a, b = shaped[..., 0], shaped[..., 1]
        return np.stack([a * c - b * s, b * c + a * s], axis=-1).reshape(x.shape)


torchtune = Torchtune(D, 1 << 17)


class RotaryDim:
    """RotaryEmbedding of vLLM: the dimensions of the whole head, and how many of them rotate."""

    def __init__(self, head_size, rotary_dim, max_position_embeddings, base, is_neox_style=True):
        if not is_neox_style:
            raise NotImplementedError("pairs of neighbours")
        self.head_size, self.rotary_dim = head_size, rotary_dim
        self.inv_freq = base ** -(np.arange(0, rotary_dim, 2) / rotary_dim)

    def __call__(self, positions, query, key):
        angles = np.outer(positions, self.inv_freq)[:, None]
        cos, sin = (np.concatenate([f(angles)] * 2, axis=-1) for f in (np.cos, np.sin))

        def rotated(x):
            heads = x.reshape(positions.size, -1, self.head_size)
            some = heads[..., : self.rotary_dim]
            rest = heads[..., self.rotary_dim :]
            return np.concatenate([turned(some, cos, sin), rest], axis=-1).reshape(x.shape)

        return rotated(query), rotated(key)


class Share(RotaryDim):
    """The same where a share of the head is given."""

    def __init__(self, head_dim, rotary_pct=0.25, base=10000.0):
        super().__init__(head_dim, int(head_dim * rotary_pct), 0, base)


def glm(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    """apply_rotary_pos_emb of GLM-4 in transformers: neighbours, of tables in halves."""
    cos, sin = (
        np.repeat(np.expand_dims(table[..., : table.shape[-1] // 2], unsqueeze_dim), 2, axis=-1)
        for table in (cos, sin)
    )

    def turn(x):
        turning, passed = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
        beside = np.stack([-turning[..., 1::2], turning[..., ::2]], axis=-1)
        return np.concatenate([turning * cos + beside.reshape(turning.shape) * sin, passed], -1)

    return turn(q), turn(k)


def sequence_first(query_layer, key_layer):
    """Of ChatGLM 2: (n, b, heads, d), from position 0 on."""

    def turn(x):
        angles = np.arange(len(x))[:, None] * INV_FREQ
        c, s = (function(angles)[:, None, None] for function in (np.cos, np.sin))
        a, b = x[..., ::2], x[..., 1::2]
        return np.stack([a * c - b * s, b * c + a * s], axis=-1).reshape(x.shape)

    return turn(query_layer), turn(key_layer)


class LinearScaling:
    """LlamaLinearScalingRotaryEmbedding of transformers up to 4.45."""

    def __init__(
        self, dim, max_position_embeddings=2048, base=10000, device=None, scaling_factor=1.0
    ):
        self.dim, self.base, self.scaling_factor = dim, base, scaling_factor
        self.max_position_embeddings = max_position_embeddings

    def __call__(self, x, position_ids):
        return self._tables(position_ids / self.scaling_factor, self.base)

    def _tables(self, positions, base):
        angles = positions[..., None] * (1.0 / base ** (np.arange(0, self.dim, 2) / self.dim))
        both = np.concatenate([angles, angles], axis=-1)
        return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


class DynamicNTKScaling(LinearScaling):
    """LlamaDynamicNTKScalingRotaryEmbedding of transformers up to 4.45."""

    def __call__(self, x, position_ids):
        length, trained = int(position_ids.max()) + 1, self.max_position_embeddings
        base = self.base
        if length > trained:
            stretch = self.scaling_factor * length / trained - (self.scaling_factor - 1)
            base *= stretch ** (self.dim / (self.dim - 2))
        return self._tables(position_ids, base)


class LongRopeScaling(LinearScaling):
    """Phi3SuScaledRotaryEmbedding of transformers 4.4x, with lists of its own."""

    def __init__(
        self,
        dim,
        max_position_embeddings=131072,
        original_max_position_embeddings=4096,
        base=10000,
        short_factor=tuple(1 + 0.125 * i for i in range(D // 2)),
        long_factor=tuple(1 + 2.0 * i for i in range(D // 2)),
    ):
        super().__init__(dim, max_position_embeddings, base)
        self.original, self.lists = original_max_position_embeddings, (short_factor, long_factor)

    def __call__(self, x, position_ids):
        factors = self.lists[int(position_ids.max()) + 1 > self.original]
        inv_freq = 1.0 / (np.array(factors) * self.base ** (np.arange(0, self.dim, 2) / self.dim))
        stretch = self.max_position_embeddings / self.original
        scale = np.sqrt(1 + np.log(stretch) / np.log(self.original)) if stretch > 1 else 1
        angles = position_ids[..., None] * inv_freq
        both = np.concatenate([angles, angles], axis=-1)
        return tuple((f(both) * scale).astype(np.float32) for f in (np.cos, np.sin))


class YarnScaling(LinearScaling):
    """DeepseekV3YarnRotaryEmbedding of DeepSeek, where its two mscales are alike."""

    def __init__(
        self,
        dim,
        max_position_embeddings=2048,
        base=10000,
        device=None,
        scaling_factor=1.0,
        original_max_position_embeddings=4096,
        beta_fast=32,
        beta_slow=1,
        extrapolation_factor=1,
        rope_scaling=None,
    ):
        super().__init__(dim, max_position_embeddings, base)
        kept = 1.0 / base ** (np.arange(0, dim, 2) / dim)
        turns = original_max_position_embeddings / (2 * np.pi)
        ends = dim * np.log(turns / np.array([beta_fast, beta_slow])) / (2 * np.log(base))
        low, high = max(np.floor(ends[0]), 0), min(np.ceil(ends[1]), dim - 1)
        ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
        self.inv_freq = kept / scaling_factor * ramp + kept * (1 - ramp)

    def __call__(self, x, position_ids):
        angles = position_ids[..., None] * self.inv_freq
        both = np.concatenate([angles, angles], axis=-1)
        return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


class Sequences:
    """Takes its cache's first rows, whatever is asked for."""

    def __call__(self, x, *, input_pos=None):
        return torchtune(x)


cache_ignored = Sequences()


def vllm(positions, query, key):
    """forward of vLLM: in place, rows of flattened heads."""
    cos, sin = full(positions)
    for x in (query, key):
        shaped = x.reshape(positions.size, -1, D)
        shaped[...] = turned(shaped, cos[:, None], sin[:, None])
    return query, key


def left_in_place(x, positions):
    x[...] = turned(x, *full(positions))


class Llama:
    """LlamaRotaryEmbedding of transformers: tables of positions; x says only the dtype."""

    def forward(self, x, position_ids):
        assert position_ids.ndim == 2
        return full(position_ids)

    __call__ = forward


llama_tables = Llama()


def placed_either_way(q, k, positions=None, offset=0.0):
    """Positions where they are given, else counted from a first one."""
    return tuple(mlx(x, offset) if positions is None else of_places(x, positions) for x in (q, k))


def placed_one_way(q, k, positions=None, offset=None):
    """The same, which refuses both and neither."""
    if (positions is None) == (offset is None):
        raise ValueError("give positions or offset")
    return placed_either_way(q, k, positions, offset)


def of_places(x, positions):
    """Positions (n,) or (b, n)."""
    cos, sin = (np.expand_dims(table, -3) for table in full(positions))
    return turned(x, cos, sin)


def rows_from(x, seq_len, offset=0):
    """As many rows as the call has, from a first one."""
    return turned(x, *full(offset + np.arange(seq_len)))


def rows_until(q, k, seq_len, start_pos=0):
    """All rows from a first one until a length."""
    return tuple(turned(x, *full(np.arange(start_pos, seq_len))) for x in (q, k))


def tables_from(seq_len, offset=0):
    """Tables of as many rows, from a first one."""
    return full(offset + np.arange(seq_len))


def left_at_default(x, offset=0, index=0):
    """What it is told beside the first position, nobody knows."""
    return mlx(x, offset + index)


def tables_of_length(x, seq_len=None):
    """forward of the older one: rows 0 … seq_len − 1."""
    return full(np.arange(seq_len))


def precompute_freqs_cis(dim: int, end: int, theta: float = 10_000.0):
    """Of the reference code of Llama."""
    freqs = 1.0 / (theta ** (np.arange(0, dim, 2)[: (dim // 2)] / dim))
    return np.exp(1j * np.outer(np.arange(end), freqs))


def inv_freq(dim, base):
    return base ** -(np.arange(0, dim, 2) / dim)


class Growing:
    """A cache that is made anew for longer sequences, by another base."""

    rows, base = 0, 1e4

    def forward(self, x, position_ids):
        need = int(position_ids.max()) + 1
        if need > self.rows:
            self.base = 1e4 if need <= 200 else 2e4
            self.rows = need
        angles = np.asarray(position_ids)[..., None] * self.base ** -(np.arange(0, D, 2) / D)
        both = np.concatenate([angles, angles], axis=-1)
        return np.cos(both), np.sin(both)

    __call__ = forward


growing = Growing()


def restarted(x, positions):
    return turned(x, *full(positions - positions.min()))


def short_of_rows(x, positions):
    """A grid of 65,535 blocks: the rest is left as it is."""
    y = turned(x, *full(positions))
    y[65535:] = x[65535:]
    return y


def flux_matrices(xq, xk, freqs_cis):
    """apply_rope of Flux: the matrix of each pair, (b, 1, n, d/2, 2, 2)."""

    def one(x):
        shaped = x.reshape(*x.shape[:-1], -1, 1, 2)
        return (freqs_cis[..., 0] * shaped[..., 0] + freqs_cis[..., 1] * shaped[..., 1]).reshape(
            x.shape
        )

    return one(xq), one(xk)


def flux_rope(pos, dim, theta):
    """rope of Flux, which makes them."""
    angles = pos[..., None] * theta ** -(np.arange(0, dim, 2) / dim)
    parts = [np.cos(angles), -np.sin(angles), np.sin(angles), np.cos(angles)]
    return np.stack(parts, axis=-1).reshape(*angles.shape, 2, 2)


def roformer(sinusoidal_pos, query_layer, key_layer):
    """Of RoFormer: sines, then cosines, in one table."""
    sin, cos = (np.repeat(t, 2, -1) for t in np.split(sinusoidal_pos, 2, axis=-1))
    return tuple(
        x * cos + np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape) * sin
        for x in (query_layer, key_layer)
    )


def sines_first(x, sincos):
    """A tuple in the order of GPT-J in Flax."""
    sin, cos = sincos
    return turned(x, cos, sin)


def handed_on(*args, **kwargs):
    return transformers(*args, **kwargs)


def given_frequencies(x, positions, inv_freq):
    angles = positions[..., None] * np.concatenate([inv_freq, inv_freq])
    return turned(x, np.cos(angles), np.sin(angles))


def share_of_head(positions, head_dim, rotary_pct):
    dim = int(head_dim * rotary_pct)
    angles = np.multiply.outer(positions, 10_000.0 ** -(np.arange(0, dim, 2) / dim))
    return np.cos(angles), np.sin(angles)


def sections(q, k, cos, sin, mrope_section):
    """Of Qwen2-VL, whose tables have an axis more."""
    return transformers(q, k, cos[0], sin[0])


def flattened(positions, query, key):
    """forward of vLLM, out of place; every second head of a row is left as it is."""
    cos, sin = full(positions)
    results = []
    for x in (query, key):
        shaped = x.reshape(positions.size, -1, D).copy()
        shaped[:, ::2] = turned(shaped, cos[:, None], sin[:, None])[:, ::2]
        results.append(shaped.reshape(x.shape))
    return tuple(results)


class Unsaid:
    """A default that cannot be shown."""

    def __repr__(self):
        raise RuntimeError


UNSAID = Unsaid()


def unsaid(x, positions, more=UNSAID):
    return turned(x, *full(positions))


def five(a, b, c, d, e, f):
    return a
