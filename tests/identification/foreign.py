"""Tables as other programs keep them, made by NumPy alone, what each of them is, and near misses.

A case is the arrays, the scheme, some of its parameters, and the forms that must be said.
"""

import math

import numpy as np

ROWS, DIM = 96, 32


def ladder(dim=DIM, base=10_000.0):
    return base ** -(np.arange(0, dim, 2) / dim)


def angles(rows=ROWS, dim=DIM, base=10_000.0, start=0, step=1):
    """Position × frequency in float32, as transformers has it. Shape: (rows, pairs)."""
    where = np.arange(start, start + rows * step, step, dtype=np.float32)
    return where[:, None] * ladder(dim, base).astype(np.float32)


def cosines_and_sines(of):
    wide = np.asarray(of, np.float64)
    return np.cos(wide).astype(np.float32), np.sin(wide).astype(np.float32)


def halves(table):
    return np.concatenate([table, table], axis=-1)


def each_twice(table):
    return np.repeat(table, 2, axis=-1)


def vaswani(rows=ROWS, dim=DIM):
    """Sines and cosines side by side, as the paper's own text has it."""
    at = np.arange(rows)[:, None] * ladder(dim)
    return np.stack([np.sin(at), np.cos(at)], axis=-1).reshape(rows, dim).astype(np.float32)


def tensor2tensor(rows=ROWS, dim=DIM):
    """All sines, then all cosines, the last frequency 1/10000."""
    half = dim // 2
    at = np.arange(rows)[:, None] * np.exp(-math.log(10_000) * np.arange(half) / (half - 1))
    return np.concatenate([np.sin(at), np.cos(at)], axis=1).astype(np.float32)


def llama3(dim=128):
    """The frequencies of Llama 3.1, by the rule of its authors."""
    plain = ladder(dim, 500_000.0)
    wavelength = 2 * np.pi / plain
    smooth = np.clip((8192 / wavelength - 1) / 3, 0, 1)
    return (1 - smooth) * plain / 8 + smooth * plain


def bloom(length=24, padding=0):
    """transformers' build_alibi_tensor of 8 heads: slopes times (mask.cumsum − 1) · mask."""
    counted = np.maximum(np.arange(length) - padding, 0)
    slopes = 2.0 ** -np.arange(1, 9)
    return (slopes[:, None] * counted)[:, None].astype(np.float32)


def bfloat16(values):
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


_COS, _SIN = cosines_and_sines(angles())
_TABLE = np.concatenate([_COS, _SIN], axis=1)
_ROPE = ("rope", {"base": 10_000.0, "dim": DIM})
_SINUSOIDAL = ("sinusoidal", {"base": 10_000.0, "dim": DIM})
_BLOOM = ("alibi", {"heads": 8, "form": "bloom"})
_LLAMA3 = ("rope-llama3", {"base": 500_000.0, "factor": 8.0})
_ORDER = np.random.default_rng(0).permutation(ROWS)
_FLOAT32 = ladder().astype(np.float32)

KEPT = {
    # position × frequency, before cosines are taken
    "freqs": (angles(), *_ROPE, ""),
    "freqs, halves": (halves(angles()), *_ROPE, ""),
    "freqs, each twice": (each_twice(angles()), *_ROPE, ""),
    "freqs from 4096": (angles(start=4096), *_ROPE, ""),
    "freqs, every 16th": (angles(step=16), *_ROPE, ""),
    "freqs, shuffled": (angles()[_ORDER], *_ROPE, ""),
    "freqs in bfloat16": (bfloat16(angles(64)), *_ROPE, ""),
    "freqs of Llama 3.1": (np.outer(np.arange(64), llama3()).astype(np.float32), *_LLAMA3, ""),
    # cosines and sines on an axis of their own
    "stacked last": (np.stack([_COS, _SIN], -1), *_ROPE, "axis 2"),
    "stacked last, of a batch": (np.stack([_COS, _SIN], -1)[:, None], *_ROPE, "axis 2"),
    "stacked first": (np.stack([_COS, _SIN]), *_ROPE, "axis 0"),
    "stacked between": (np.stack([_COS, _SIN], 1), *_ROPE, "axis 1"),
    "stacked, sines first": (np.stack([_SIN, _COS]), *_ROPE, "axis 0"),
    "stacked in bfloat16": (bfloat16(np.stack([_COS, _SIN], -1)), *_ROPE, "axis 2"),
    "2×2 matrices": (
        np.stack([_COS, -_SIN, _SIN, _COS], -1).reshape(ROWS, -1, 2, 2),
        *_ROPE,
        "2×2",
    ),
    "full tables side by side": (
        np.concatenate([each_twice(_COS), each_twice(_SIN)], 1),
        *_ROPE,
        "side by side",
    ),
    # orders
    "shuffled": (_TABLE[_ORDER], *_ROPE, ""),
    "sinusoids shuffled": (vaswani()[_ORDER], *_SINUSOIDAL, ""),
    "from the last row to the first": (_TABLE[::-1].copy(), *_ROPE, ""),
    "row 5 alone": (_TABLE[5:6], *_ROPE, ""),
    "row 17 alone": (vaswani()[17:18], *_SINUSOIDAL, ""),
    # several times over
    "a batch": (np.repeat(_TABLE[None], 3, 0), *_ROPE, "repeated 3 times"),
    "heads": (np.repeat(halves(_COS)[:, None], 4, 1), *_ROPE, "repeated 4 times"),
    "a batch and heads": (
        np.broadcast_to(vaswani(), (2, 3, ROWS, DIM)).copy(),
        *_SINUSOIDAL,
        "times along axis",
    ),
    # BLOOM's scores: of several sequences, behind padding, for every query
    "BLOOM, two sequences": (np.concatenate([bloom()] * 2), *_BLOOM, "one sequence after another"),
    "BLOOM, padded": (bloom(padding=5), *_BLOOM, "the first 5 keys hold zeros"),
    "BLOOM, padded, of all queries": (
        bloom(padding=5).repeat(24, 1), *_BLOOM, "the first 5 keys hold zeros",
    ),
    "BLOOM, two sequences, of all queries": (
        np.concatenate([bloom()] * 2).repeat(24, 1), *_BLOOM, "one sequence after another",
    ),
    # multiplied
    "× √dim": (vaswani() * np.float32(math.sqrt(DIM)), *_SINUSOIDAL, "× 5.65685425"),
    "tables × 8": (_TABLE * np.float32(8), *_ROPE, "× 8"),
    "× 0.02": (vaswani() * np.float32(0.02), *_SINUSOIDAL, "× 0.02"),
    # reciprocals of frequencies: the freqs of mlx-lm's Llama3RoPE and SuScaledRoPE
    "periods": (1 / _FLOAT32, *_ROPE, "periods"),
}  # fmt: skip


def _damaged(column, change):
    table = _TABLE.copy()
    table[:, column] = change(table[:, column])
    return table


def _sine_banks():
    """Sines whose rows are one line, or begin again: a grid of any lists of frequencies fits."""
    row, frequencies = np.arange(256)[:, None], 2 * np.pi * np.linspace(0.001, 0.5, 64)
    starts = {"one line": row, "hops": row % 64 + 10 * (row // 64)}
    starts["a jump"] = np.where(row < 128, row, row - 120.5)
    return {name: np.sin(at * frequencies).astype(np.float32) for name, at in starts.items()}


def _unlike_cases():
    random = np.random.default_rng(7)
    unit = random.uniform(-3, 3, (ROWS, 16))
    grid = np.linspace(0, 1, 48)
    noise = random.normal(size=(ROWS, DIM)).astype(np.float32)
    other = np.cos(angles(base=500_000.0)).astype(np.float32)
    return {
        "noise": noise,
        "a learned table": noise * np.float32(0.02),
        "a random walk": np.cumsum(noise * np.float32(0.01), axis=0),
        "a stack of noise": noise.reshape(ROWS, -1, 2),
        "unit vectors": np.exp(1j * unit).astype(np.complex64),
        "unit vectors in a row": np.concatenate([np.cos(unit[0]), np.sin(unit[0])])[None],
        "row 0, which all have": _TABLE[:1],
        "an image": np.outer(grid, grid),
        "a product": np.outer(np.arange(ROWS), random.uniform(0, 1, 16)).astype(np.float32),
        "a column × 1.01": _damaged(5, lambda column: column * np.float32(1.01)),
        "a column of noise": _damaged(7, lambda _column: noise[:, 7]),
        "columns exchanged": _TABLE[:, [0, 1, 2, 4, 3, *range(5, DIM)]],
        "gains of columns": _TABLE * random.uniform(0.5, 1.5, DIM).astype(np.float32),
        "gains of rows": _TABLE * random.uniform(0.5, 1.5, (ROWS, 1)).astype(np.float32),
        "two bases": np.concatenate([_COS, other], axis=1),
        "two bases stacked": np.stack([_COS, other]),
        "two encodings": np.concatenate([_TABLE[:, :16], vaswani()[:, 16:]], axis=1),
        "a sum with a learned table": vaswani() + noise * np.float32(0.02),
        "squares": _TABLE * _TABLE,
        "cosines above sines": np.concatenate([_COS, _SIN]),
        "zeros beside": np.concatenate([_TABLE, _TABLE[:, :8] * 0], 1),
        "wavelengths": (2 * np.pi / ladder()).astype(np.float32),
        "logarithms of frequencies": np.log(_FLOAT32),
        "logarithms of periods": -np.log(_FLOAT32),
        "frequencies, each twice": each_twice(_FLOAT32),
        "sorted frequencies": np.sort(random.uniform(0, 1, 16))[::-1].astype(np.float32),
        "sorted logarithms": np.sort(random.uniform(-9, 0, 16))[::-1].astype(np.float32),
        "numbers in a line": np.linspace(1, 0, 16).astype(np.float32),
        "sorted periods": np.sort(random.uniform(1, 1e4, 16)).astype(np.float32),
        "noisy angles": (angles() * (1 + 1e-3 * unit)).astype(np.float32),
        "angles with offsets": (angles() + np.abs(unit[0])).astype(np.float32),
        "Fourier features": np.cos(np.outer(np.arange(ROWS), np.abs(unit[0]))).astype(np.float32),
        **{f"sines of linear frequencies, {name}": bank for name, bank in _sine_banks().items()},
        "an identity": np.eye(64, dtype=np.float32),
        "a mask": np.tril(np.ones((64, 64), np.float32)),
        **{f"a mask of {size}": np.tril(np.ones((size, size), np.float32)) for size in (4, 32)},
        "a mask of −inf": np.triu(np.full((16, 16), -np.inf), 1),
        **{f"an identity of {size}": np.eye(size, dtype=np.float32) for size in (2, 16)},
        "a band": (np.abs(np.subtract.outer(grid, grid)) < 0.1).astype(np.float32),
        "flags": (noise > 0).astype(np.float32),
        "masks of a batch": np.tril(np.ones((4, 16, 16), np.float32)),
        "one wave": np.stack([np.cos(0.1 * np.arange(64)), np.sin(0.1 * np.arange(64))], axis=1),
        **{f"{two}": np.array(two) for two in ([1, 0.01], [0.5, 0.3], [1, 0], [0.5, 0.25])},
        "unequal batches": np.stack([_TABLE, _TABLE + np.float32(0.01) * noise]),
    }


UNLIKE = _unlike_cases()
