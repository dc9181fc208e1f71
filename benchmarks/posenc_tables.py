"""Define posenc as a contender: its engines, and the two ways to compute its tables."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.machine import installed
from posenc_cli import catalogue
from posenc_cli.backends import registry
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Plan, Request
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.positions import Positions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from posenc_cli.backends.registry import Arithmetic

BASE = 500_000.0
DIM = 128


@dataclass(frozen=True)
class Work:
    """A rotary table to compute: cosines, then sines, of ``dim`` / 2 frequencies."""

    rows: int
    dtype: str
    dim: int = DIM

    def touched(self) -> NDArray[Any]:
        """Return an array for the table whose memory was already used."""
        return np.full((self.rows, self.dim), 1, REAL_DTYPES[self.dtype].numpy)

    def filled(self) -> NDArray[Any]:
        """Return a new array of that size filled with ones, the lower bound of the cost."""
        out = np.empty((self.rows, self.dim), REAL_DTYPES[self.dtype].numpy)
        out.fill(1)
        return out

    def plan(self) -> Plan:
        """Return the table as posenc plans it."""
        return rope_plan(Positions.contiguous(0, self.rows), dtype=self.dtype, dim=self.dim)

    def draw(self, engine: Engine) -> None:
        """Draw each block of the table and drop it, as a file that takes it would."""
        deque(self.plan().matrix(engine).blocks(), maxlen=0)

    def fill(self, out: NDArray[Any], engine: Engine) -> None:
        """Compute the table into ``out``, a part of it on each of the engine's threads."""
        self.plan().fill(out, engine)

    def make(self, engine: Engine) -> NDArray[Any]:
        """Return the table in a new array, whose memory was not used before."""
        out = np.empty((self.rows, self.dim), REAL_DTYPES[self.dtype].numpy)
        self.fill(out, engine)
        return out


def rope_plan(positions: Positions, *, dtype: str, dim: int = DIM) -> Plan:
    """Return the plan of a rotary table."""
    encoding = Encoding.of(catalogue.find("rope"), {"dim": dim, "base": BASE}, seq_len=None)
    return Request(encoding, positions, Precision.of(REAL_DTYPES[dtype], None)).plan()


def engine(backend: str, *, threads: int = 1, arithmetic: Arithmetic = "exact") -> Engine | None:
    """Return an engine on the CPU, or None if its backend is not available."""
    if not registry.status(backend).available:
        return None
    return Engine(registry.find(backend), arithmetic=arithmetic, threads=threads)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set the number of torch's threads in the block, if torch is installed."""
    if installed("torch") is None:
        yield
        return
    torch = import_module("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
