"""Matrices for tests, made as the command makes them but without a file."""

from typing import Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Request
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.positions import Positions


def request(
    scheme: str,
    positions: str | None,
    *,
    dtype: str = "float32",
    round_to: str | None = None,
    table: str | None = None,
    head: int | None = None,
    **given: Any,
) -> Request:
    where = Positions.parse(positions) if positions else None
    encoding = Encoding.of(catalogue.find(scheme), given, seq_len=where.length if where else None)
    rounded = REAL_DTYPES[round_to] if round_to else None
    return Request(encoding, where, Precision.of(REAL_DTYPES[dtype], rounded), table, head)


def matrix(scheme: str, positions: str | None, **settings: Any) -> Any:
    """The whole matrix in memory (bfloat16 as bit patterns)."""
    engine = Engine(arithmetic=settings.pop("arithmetic", "exact"))
    made = request(scheme, positions, **settings).plan().matrix(engine)
    return np.concatenate([block.reshape(-1) for block in made.blocks()]).reshape(made.shape)
