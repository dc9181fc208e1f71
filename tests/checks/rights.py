"""Right implementations of RoPE, each in another order of operations: no check may fail one.

Written apart from posenc, as the mutants are: of each case's frequencies and positions each makes
the cosines and sines that its code would hold.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_cli.records import Record
from tests.diagnosis.textbook import CASES, ladder

FURTHEST = 10**6


class Right(Record):
    """A case's cosines and sines, (L, pairs), by code that is right up to some position.

    ``pairs`` takes what positions are multiplied with, (L, 1) or (L, pairs), and frequencies.
    """

    case: str
    pairs: Callable[[Any, Any], tuple[Any, Any]]
    stored: str = "float32"
    up_to: int = FURTHEST

    def pair_tables(self, positions: Any) -> tuple[Any, Any]:
        """cos and sin as they are stored."""
        right = CASES[self.case].right
        places = right.remap(positions) if right.remap else positions[:, None]
        cos, sin = self.pairs(places, right.inv_freq)
        return tuple((right.scale * each).astype(stored(self.stored)) for each in (cos, sin))


def stored(name: str) -> Any:
    """The NumPy dtype of a format's name."""
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, None) or name)


def both(angles: Any) -> tuple[Any, Any]:
    return np.cos(angles), np.sin(angles)


def parts(phasors: Any) -> tuple[Any, Any]:
    return phasors.real, phasors.imag


def single(p: Any, w: Any) -> Any:
    """The angles of float32 code."""
    return p.astype(np.float32) * w.astype(np.float32)


def half_angle(angles: Any) -> tuple[Any, Any]:
    s, c = np.sin(angles / 2), np.cos(angles / 2)
    return 1 - 2 * s * s, 2 * s * c


def tangent(angles: Any) -> tuple[Any, Any]:
    t = np.tan(angles / 2)
    return (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)


def summed(p: Any, w: Any) -> tuple[Any, Any]:
    """Angles added: the tables of 256 positions, and of every 256th."""
    (c, s), (far_c, far_s) = both(single(p % 256, w)), both(single(p - p % 256, w))
    return far_c * c - far_s * s, far_s * c + far_c * s


def recurrence(p: Any, w: Any) -> tuple[Any, Any]:
    """One more turn for each row, in complex128."""
    steps = np.ones((int(p.max()) + 1, w.size), complex)
    steps[1:] = np.exp(1j * w)
    return parts(np.cumprod(steps, axis=0)[p[:, 0]])


def chebyshev(p: Any, w: Any) -> tuple[Any, Any]:
    """cos((n + 1)a) = 2 cos(a) cos(na) − cos((n − 1)a), in float64."""
    rows = np.empty((int(p.max()) + 2, 2 * w.size))
    rows[:2] = np.concatenate([1 + 0 * w, 0 * w]), np.concatenate(both(w))
    for n in range(2, len(rows)):
        rows[n] = 2 * rows[1, : w.size].repeat(1)[np.arange(2 * w.size) % w.size] * rows[n - 1]
        rows[n] -= rows[n - 2]
    return tuple(np.split(rows[p[:, 0]], 2, axis=1))


def doubled(p: Any, w: Any) -> tuple[Any, Any]:
    """A cache that grows to twice its rows: those that are there, turned further, in complex128."""
    table = np.ones((1, w.size), complex)
    while len(table) <= p.max():
        table = np.concatenate([table, table * np.exp(1j * len(table) * w)])
    return parts(table[p[:, 0]])


def chunked(p: Any, w: Any) -> tuple[Any, Any]:
    pieces = [both(single(p[n : n + 100], w)) for n in range(0, len(p), 100)]
    return tuple(np.concatenate(each) for each in zip(*pieces, strict=True))


CHAINS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "float32 throughout": lambda p, w: both(single(p, w)),
    "float64 throughout": lambda p, w: both(p * w),
    "float64 angles, cast": lambda p, w: both((p * w).astype(np.float32)),
    "float32 frequencies, float64 angles": lambda p, w: both(
        p * w.astype(np.float32).astype(float)
    ),
    "positions divided by periods": lambda p, w: both(
        p.astype(np.float32) / (1 / w).astype(np.float32)
    ),
    "turns": lambda p, w: both(math.tau * (p * w / math.tau % 1)),
    "reduced": lambda p, w: both(np.remainder(p * w, math.tau).astype(np.float32)),
    "complex64": lambda p, w: parts(np.exp(1j * single(p, w))),
    "polar": lambda p, w: parts((np.exp(1j * (p * w))).astype(np.complex64)),
    "powers": lambda p, w: parts(np.exp(1j * w) ** p),
    "half angles in float32": lambda p, w: half_angle(single(p, w)),
    "tangents of half angles": lambda p, w: tangent(p * w),
    "cosine as a sine": lambda p, w: (np.sin(p * w + math.pi / 2), np.sin(p * w)),
    "matmul": lambda p, w: both(p.astype(np.float32) @ w.astype(np.float32)[None, :]),
    "einsum": lambda p, w: both(np.einsum("li,j->lj", p.astype(float), w).astype(np.float32)),
    "long double": lambda p, w: both(p * w.astype(np.longdouble)),
    "exp of logarithms in float32": lambda p, w: both(single(p, np.exp(np.log(w).astype("f4")))),
    "exp2 of logarithms": lambda p, w: both(single(p, np.exp2(np.log2(w)))),
    "angles added in float32": summed,
    "chunks": chunked,
    "a cache doubled": doubled,
    "sorted otherwise": lambda p, w: tuple(each[::-1] for each in both(single(p[::-1], w))),
    "columns stored first": lambda p, w: tuple(map(np.asfortranarray, both(single(p, w)))),
    "angles summed in float64": lambda p, w: both(np.cumsum(np.diff(p, axis=0, prepend=0) * w, 0)),
    "rows of pairs of positions": lambda p, w: both(single(p // 2, w) * 2 + single(p % 2, w)),
    "every second cell": lambda p, w: tuple(
        np.repeat(each, 2, axis=1)[:, ::2] for each in both(single(p, w))
    ),
    "float32 powers": lambda p, _: both(
        single(p, 1 / np.float32(1e4) ** (np.arange(0, 64, 2, dtype=np.float32) / 64))
    ),
    "float32 negative powers": lambda p, _: both(
        single(p, np.float32(1e4) ** (-np.arange(0, 64, 2, dtype=np.float32) / 64))
    ),
}
"""On the plain case; the first two on every other case as well."""

RIGHTS = {name: Right("plain", pairs) for name, pairs in CHAINS.items()}
RIGHTS |= {
    "a recurrence": Right("plain", recurrence, up_to=131072),
    "Chebyshev's recurrence": Right("plain", chebyshev, up_to=4096),
    "positions divided by the factor": Right("linear", lambda p, _: both(p / 4 * ladder(64, 1e4))),
    "a base stretched in float32": Right(
        "ntk",
        lambda p, _: both(
            single(p, ladder(64, float(np.float32(1e4) * np.float32(4) ** (64 / 62))))
        ),
    ),
}
for _case in CASES:
    for _kind in ("float32", "float64"):
        if _case != "plain":
            RIGHTS[f"{_case} in {_kind}"] = Right(
                _case, CHAINS[f"{_kind} throughout"], stored=_kind
            )
    for _kind in ("bfloat16", "float16"):
        RIGHTS[f"{_case} stored as {_kind}"] = Right(
            _case, CHAINS["float32 throughout"], stored=_kind
        )
