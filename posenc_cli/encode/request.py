"""From a request to the matrix it asks for: scheme, parameters and positions → blocks.

Nothing is computed until the blocks of the matrix are drawn, and then only one block at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.files.matrix import Matrix
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, DType
from posenc_cli.numerics.placements import Placement
from posenc_cli.schemes.declare import (
    Bias,
    BucketBias,
    Rotation,
    Rows,
    Sinusoids,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from posenc_cli.encode.precision import Precision
    from posenc_cli.numerics.placements import Function
    from posenc_cli.positions import Positions
    from posenc_cli.schemes.declare import Bound, Layout, Scheme, Table, Waves

    Blocks = Callable[[], Iterator[NDArray[Any]]]

BLOCK_VALUES = 1 << 18
"""Values in a block: enough to make each step long, few enough to stay in cache."""

ROTARY_TABLES: Mapping[str, str] = {
    "cos-sin": "(L, d): cos of each pair, then sin of each pair (default)",
    "interleaved": "(L, d): cos0 sin0 cos1 sin1 …",
    "cos": "(L, d/2)",
    "sin": "(L, d/2)",
    "cos-full": "(L, d): each cos twice, as the scheme's layout pairs the columns",
    "sin-full": "(L, d): each sin twice, likewise",
    "complex": "(L, d/2): cos + i·sin",
    "angles": "(L, d/2): radians, reduced to (−π, π]",
    "inv-freq": "(d/2,): frequencies in radians per position; needs no positions",
}

_COMPLEX = {FLOAT32: COMPLEX64, FLOAT64: COMPLEX128}


@dataclass(frozen=True)
class Encoding:
    """A scheme with its parameters settled and its learned table, if it has one, at hand."""

    bound: Bound
    table: Table | None = None

    @classmethod
    def of(cls, scheme: Scheme, given: Mapping[str, object], *, seq_len: int | None) -> Encoding:
        """``scheme`` with ``given`` parameters; those that a weights file settles come from it."""
        from posenc_cli.encode.weights import loaded_table, table_of

        loaded = loaded_table(scheme, given)
        settled = {**loaded.parameters(scheme), **given} if loaded else given
        bound = scheme.bind(settled, seq_len=seq_len)
        weights = getattr(bound.content, "weights", None)
        return cls(bound, table_of(weights, scheme, loaded) if weights else None)


@dataclass(frozen=True)
class Request:
    """What to compute: an encoding at positions, as a table, in a number format."""

    encoding: Encoding
    positions: Positions | None
    precision: Precision
    table: str | None = None
    head: int | None = None

    @property
    def scheme(self) -> Scheme:
        """The scheme asked for."""
        return self.encoding.bound.scheme

    @cached_property
    def table_name(self) -> str | None:
        """The rotary table asked for, or None where the scheme has but one matrix.

        Raises: InvalidInput when a table is asked of a scheme that is not rotary.
        """
        if isinstance(self.encoding.bound.content, Rotation):
            return self.table or "cos-sin"
        if self.table is not None:
            raise InvalidInput(
                f"--table {self.table}: {self.scheme.name} is {self.scheme.kind}, not rotary, "
                "and has one matrix only"
            )
        return None

    def matrix(self) -> Matrix:
        """The matrix, ready to be computed block by block.

        Raises: InvalidInput when the parts of the request do not go together.
        """
        content = self.encoding.bound.content
        table = self.table_name
        if self.head is not None and not isinstance(content, Bias | BucketBias):
            raise InvalidInput(
                f"--head {self.head}: {self.scheme.name} is {self.scheme.kind} and has no heads"
            )
        if table == "inv-freq" and isinstance(content, Rotation):
            return self._matrix((content.waves.count,), self._frequencies(content.waves))
        if self.positions is None:
            raise InvalidInput(
                f"{self.scheme.name} needs the positions to encode",
                hint="--len N, or --positions start:stop",
            )
        self._check_capacity(self.positions, content)
        rows = self.positions.count
        match content:
            case Rotation(waves, layout):
                return self._rotary(rows, waves, table or "", layout)
            case Sinusoids(waves, width, placements):
                return self._matrix((rows, width), self._placed(waves, width, placements))
            case Rows(width):
                return self._matrix((rows, width), self._rows(content))
            case Bias(heads) | BucketBias(heads):
                return self._bias(rows, heads, content)

    def _matrix(self, shape: tuple[int, ...], blocks: Blocks, dtype: DType | None = None) -> Matrix:
        labels = self.positions.__iter__ if self.positions and len(shape) == 2 else None

        def answerable() -> Iterator[NDArray[Any]]:
            with self.scheme.answerable():
                yield from blocks()

        return Matrix(
            shape=shape,
            dtype=dtype or self.precision.stored,
            blocks=answerable,
            metadata=self._metadata(),
            row_labels=labels,
        )

    def description(self) -> dict[str, Any]:
        """The request as plain values: what it takes to ask for the same again."""
        return {
            "scheme": self.scheme.name,
            "params": dict(self.encoding.bound.params),
            "positions": None if self.positions is None else str(self.positions),
            "table": self.table_name,
            "head": self.head,
            "round_to": self.precision.rounded.name,
        }

    def _metadata(self) -> dict[str, str]:
        """The description as texts, for formats that carry it."""
        import json

        fields = {"dtype": self.precision.stored.name, **self.description()}
        return {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in fields.items()
            if value is not None
        }

    def _check_capacity(self, positions: Positions, content: object) -> None:
        capacity = content.capacity if isinstance(content, Rows) else None
        if capacity is not None and positions.last >= capacity.positions:
            raise InvalidInput(
                f"position {positions.last} is past the last that {self.scheme.name} can encode: "
                f"{capacity.reason}",
                hint=capacity.hint,
            )

    def _frequencies(self, waves: Waves) -> Blocks:
        return lambda: iter([self.precision.exact(list(waves.frequencies(exact)))])

    def _rotary(self, rows: int, waves: Waves, table: str, layout: Layout) -> Matrix:
        pairs = waves.count
        if table == "angles":
            return self._matrix((rows, pairs), self._angles(waves))
        if table == "complex":
            dtype = _COMPLEX.get(self.precision.stored)
            if dtype is None:
                raise InvalidInput(
                    f"--table complex: there is no complex number format of "
                    f"{self.precision.stored.name} parts",
                    hint="--dtype float32 or float64, or --table interleaved",
                )
            placed = self._placed(waves, 2 * pairs, _rotary_placements("interleaved", pairs))
            return self._matrix(
                (rows, pairs), lambda: (block.view(dtype.numpy) for block in placed()), dtype
            )
        placements = _rotary_placements(table, pairs, layout)
        width = pairs if table in ("cos", "sin") else 2 * pairs
        return self._matrix((rows, width), self._placed(waves, width, placements))

    def _position_blocks(self, width: int) -> Iterator[NDArray[Any]]:
        from posenc_cli.encode.arrays import position_blocks

        assert self.positions is not None
        return position_blocks(self.positions, max(1, BLOCK_VALUES // width))

    def _placed(self, waves: Waves, width: int, placements: tuple[Placement, ...]) -> Blocks:
        def blocks() -> Iterator[NDArray[Any]]:
            import numpy as np

            from posenc_cli.numerics.waves import WaveTable

            table = WaveTable(list(waves.frequencies(exact)))
            rounded = self.precision.rounded
            for positions in self._position_blocks(width):
                out = np.empty((positions.shape[0], width), dtype=rounded.numpy)
                table.fill(out, positions, placements, dtype=rounded)
                yield self.precision.stored_as(out)

        return blocks

    def _angles(self, waves: Waves) -> Blocks:
        def blocks() -> Iterator[NDArray[Any]]:
            from posenc_cli.numerics.waves import WaveTable

            table = WaveTable(list(waves.frequencies(exact)))
            for positions in self._position_blocks(waves.count):
                angles = table.angles(positions, dtype=self.precision.rounded)
                yield self.precision.stored_as(angles)

        return blocks

    def _rows(self, content: Rows) -> Blocks:
        def blocks() -> Iterator[NDArray[Any]]:
            import numpy as np

            for positions in self._position_blocks(content.width):
                values = content.rows(np, positions, self.encoding.table)
                high, low = values if isinstance(values, tuple) else (values, None)
                if high.shape != (positions.shape[0], content.width):
                    raise ValueError(
                        f"rows of shape {high.shape} for {positions.shape[0]} positions"
                    )
                yield np.ascontiguousarray(self.precision.narrow(high, low))

        return blocks

    def _bias(self, rows: int, heads: int, content: Bias | BucketBias) -> Matrix:
        from posenc_cli.encode.scores import score_blocks

        if self.head is not None and not 0 <= self.head < heads:
            raise InvalidInput(f"--head {self.head}: the heads are 0 to {heads - 1}")
        positions, precision, table = self.positions, self.precision, self.encoding.table
        assert positions is not None
        chosen = range(heads) if self.head is None else range(self.head, self.head + 1)
        shape = (rows, rows) if self.head is not None else (heads, rows, rows)

        def blocks() -> Iterator[NDArray[Any]]:
            for head in chosen:
                yield from score_blocks(content, head, positions, table, precision)

        return self._matrix(shape, blocks)


def _rotary_placements(
    table: str, pairs: int, layout: Layout = "interleaved"
) -> tuple[Placement, ...]:
    """Which columns of a rotary table hold which function of which pairs."""
    halves = slice(0, pairs), slice(pairs, 2 * pairs)
    alternate = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    function: Function = "sin" if table.startswith("sin") else "cos"
    if table in ("cos", "sin"):
        return (Placement(function, slice(0, pairs)),)
    if table in ("cos-full", "sin-full"):
        columns = alternate if layout == "interleaved" else halves
        return Placement(function, columns[0]), Placement(function, columns[1])
    columns = alternate if table == "interleaved" else halves
    return Placement("cos", columns[0]), Placement("sin", columns[1])
