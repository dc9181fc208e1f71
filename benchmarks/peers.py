"""Define the other contenders: textbook code, and the installed libraries.

Each is written as its users write it. Torch and the libraries are imported only when used.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.machine import installed
from benchmarks.posenc_tables import BASE, DIM

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def textbook_numpy(positions: NDArray[np.int64], compute: str, stored: str) -> NDArray[Any]:
    """Return cos, then sin, of position · frequency, in one precision and stored in another.

    Shape: (positions, DIM).
    """
    inv_freq = (1 / BASE ** (np.arange(0, DIM, 2) / DIM)).astype(compute)
    angles = positions.astype(compute)[:, None] * inv_freq
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    return table.astype(stored, copy=False)


def reusing_numpy(rows: int, compute: str, stored: str) -> Callable[[], NDArray[Any]]:
    """Return the same table, computed in memory that was used before."""
    inv_freq = (1 / BASE ** (np.arange(0, DIM, 2) / DIM)).astype(compute)
    angles = np.ones((rows, DIM // 2), compute)
    table = np.ones((rows, DIM), compute)
    out = table if stored == compute else np.ones((rows, DIM), stored)

    def compute_again() -> NDArray[Any]:
        np.multiply(np.arange(rows, dtype=compute)[:, None], inv_freq, out=angles)
        np.cos(angles, out=table[:, : DIM // 2])
        np.sin(angles, out=table[:, DIM // 2 :])
        if out is not table:
            np.copyto(out, table, casting="same_kind")
        return out

    return compute_again


def textbook_torch(positions: NDArray[np.int64], stored: str) -> Any:
    """Return torch's textbook table, computed in float32 (float64 for float64), in a dtype.

    Shape: (positions, DIM).
    """
    torch = import_module("torch")
    compute = torch.float64 if stored == "float64" else torch.float32
    inv_freq = 1.0 / (BASE ** (torch.arange(0, DIM, 2, dtype=compute) / DIM))
    angles = torch.outer(torch.from_numpy(positions).to(compute), inv_freq)
    return torch.cat([angles.cos(), angles.sin()], dim=-1).to(getattr(torch, stored))


def reusing_torch(rows: int) -> Callable[[], Any]:
    """Return the same table in float32, computed in memory that was used before."""
    torch = import_module("torch")
    inv_freq = 1.0 / (BASE ** (torch.arange(0, DIM, 2, dtype=torch.float32) / DIM))
    positions, angles = torch.arange(rows, dtype=torch.float32), torch.ones(rows, DIM // 2)
    table = torch.ones(rows, DIM)

    def compute_again() -> Any:
        torch.outer(positions, inv_freq, out=angles)
        torch.cos(angles, out=table[:, : DIM // 2])
        torch.sin(angles, out=table[:, DIM // 2 :])
        return table

    return compute_again


def transformers_llama(positions: NDArray[np.int64], *, cast: str = "float32") -> Any:
    """Return cosines and sines, each twice, of transformers' Llama module, cast to a dtype.

    Shape: two of (positions, DIM).
    """
    torch = import_module("torch")
    configuration = import_module("transformers").LlamaConfig(
        hidden_size=DIM, num_attention_heads=1, head_dim=DIM, rope_theta=BASE
    )
    llama = import_module("transformers.models.llama.modeling_llama")
    dtype = getattr(torch, cast)
    module = llama.LlamaRotaryEmbedding(configuration).to(dtype)
    cosines, sines = module(torch.zeros(1, dtype=dtype), torch.from_numpy(positions)[None])
    return cosines[0], sines[0]


def rotary_embedding_torch(positions: NDArray[np.int64]) -> Any:
    """Return rotary-embedding-torch's cosines and sines, with each angle twice.

    Shape: two of (positions, DIM).
    """
    torch = import_module("torch")
    module = import_module("rotary_embedding_torch").RotaryEmbedding(DIM, theta=BASE)
    with torch.no_grad():
        angles = module(torch.from_numpy(positions))
        return angles.cos(), angles.sin()


def positional_encodings(positions: NDArray[np.int64]) -> Any:
    """Return positional-encodings' table: sin and cos alternate, up to the last position.

    Shape: (positions, DIM).
    """
    torch = import_module("torch")
    module = import_module("positional_encodings.torch_encodings").PositionalEncoding1D(DIM)
    count = int(positions.max()) + 1
    table = module(torch.empty(1, count, DIM))[0]
    return table if count == positions.size else table[torch.from_numpy(positions)]


@dataclass(frozen=True)
class Library:
    """A library that computes such tables: its packages, and how often it repeats each value.

    ``pairs`` turns what it gives into cosines, then sines, as float64. ``last`` is the last
    position it can be asked for (it may compute all up to there); ``speed`` says whether its time
    tells something of its own.
    """

    name: str
    module: str
    table: Callable[[NDArray[np.int64]], Any]
    copies: int
    pairs: Callable[[Any], NDArray[np.float64]]
    base: float = BASE
    dtype: str = "float32"
    last: int = 2**53
    speed: bool = True

    @property
    def missing(self) -> str | None:
        """Return which libraries are not installed, as text; None if all are."""
        needed = (self.module, "torch")
        return next((f"{name} missing" for name in needed if not installed(name)), None)


def as_float64(tensor: Any) -> NDArray[np.float64]:
    """Return a torch tensor as a NumPy array of float64, without loss."""
    values: NDArray[np.float64] = tensor.detach().double().numpy()
    return values


def _halves(given: Any) -> NDArray[np.float64]:
    return np.concatenate([as_float64(part)[:, : DIM // 2] for part in given], axis=1)


def _neighbours(given: Any) -> NDArray[np.float64]:
    return np.concatenate([as_float64(part)[:, ::2] for part in given], axis=1)


def _alternating(given: Any) -> NDArray[np.float64]:
    values = as_float64(given)
    return np.concatenate([values[:, 1::2], values[:, ::2]], axis=1)


LIBRARIES = (
    Library("transformers LlamaRotaryEmbedding", "transformers", transformers_llama, 2, _halves),
    Library(
        "transformers, in bfloat16",
        "transformers",
        lambda positions: transformers_llama(positions, cast="bfloat16"),
        2,
        _halves,
        dtype="bfloat16",
        speed=False,
    ),
    Library(
        "rotary-embedding-torch", "rotary-embedding-torch", rotary_embedding_torch, 2, _neighbours
    ),
    Library(
        "positional-encodings",
        "positional-encodings",
        positional_encodings,
        1,
        _alternating,
        base=10_000.0,
        last=(1 << 17) - 1,
    ),
)
