"""From a request to the matrix it asks for: scheme, parameters and positions → blocks.

Nothing is computed until the blocks of the matrix are drawn, and then only one block at a time.
"""

from __future__ import annotations

import json
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from posenc_cli.encode.engine import Engine
from posenc_cli.encode.tables import rotary_placements
from posenc_cli.errors import InvalidInput
from posenc_cli.files.matrix import Matrix
from posenc_cli.numerics.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, DType
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace
from posenc_cli.schemes.declare import Bias, BucketBias, Rotation, Rows, Sinusoids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    from numpy.typing import NDArray

    from posenc_cli.encode.precision import Precision
    from posenc_cli.numerics.placements import Placement
    from posenc_cli.schemes.declare import Bound, Capacity, Layout, RowLookup, Scheme, Waves

_COMPLEX = {FLOAT32: COMPLEX64, FLOAT64: COMPLEX128}


class Encoding(Record):
    """A scheme with its parameters settled and its learned table, if it has one, at hand."""

    bound: Bound
    table: RowLookup | None = None

    @classmethod
    def of(cls, scheme: Scheme, given: Mapping[str, object], *, seq_len: int | None) -> Encoding:
        """``scheme`` with ``given`` parameters; those that a weights file settles come from it."""
        loaded = None
        if scheme.weights and given.get("weights"):
            from posenc_cli.encode.weights import LoadedTable

            loaded = LoadedTable.read(str(given["weights"]))
            given = {**loaded.parameters(scheme), **given}
        bound = scheme.bind(given, seq_len=seq_len)
        weights = getattr(bound.content, "weights", None)
        if weights:
            from posenc_cli.encode.weights import table_of

            return cls(bound, table_of(weights, scheme, loaded))
        if isinstance(bound.content, Rotation | Sinusoids) and bound.content.waves.coordinates:
            from posenc_cli.encode.axial import with_coordinates

            return cls(with_coordinates(bound))
        return cls(bound)


class Plan(Record):
    """A request that has been checked: the matrix it asks for, which an engine can compute.

    ``computed_as`` says what of an engine computes it: rows and scores are NumPy's on
    every engine.
    ``long_waves`` is how many values a kernel for waves at consecutive positions would compute.
    """

    shape: tuple[int, ...]
    dtype: DType
    metadata: Mapping[str, str]
    row_labels: Callable[[], Iterator[int]] | None
    row_label: str
    blocks: Callable[[Engine], Iterator[NDArray[Any]]]
    may_overflow: bool = False
    computed_as: Literal["waves", "rows", "scores"] = "rows"
    long_waves: int | None = None

    @property
    def values(self) -> int:
        """How many values there are to compute."""
        return math.prod(self.shape)

    def matrix(self, engine: Engine | None = None) -> Matrix:
        """The matrix, computed by ``engine`` (NumPy, exactly) when its blocks are drawn."""
        return Matrix(
            shape=self.shape,
            dtype=self.dtype,
            blocks=partial(self.blocks, engine or Engine()),
            metadata=self.metadata,
            row_labels=self.row_labels,
            row_label=self.row_label,
        )


class Request(Record):
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

    @property
    def random_weights(self) -> str | None:
        """What to say of weights that a seed draws, None where there are none."""
        last = None if self.positions is None else self.positions.last
        return self.encoding.bound.random_weights(last)

    def description(self) -> dict[str, Any]:
        """The request as plain values: what it takes to ask for the same again."""
        positions = self._settled_positions()
        return {
            "scheme": self.scheme.name,
            "params": dict(self.encoding.bound.params),
            "positions": None if positions is None else str(positions),
            "table": self._table(),
            "head": self.head,
            "round_to": self.precision.rounded.name,
            "weights": self.random_weights,
        }

    def plan(self) -> Plan:
        """The request, checked; nothing is computed yet.

        Raises: InvalidInput when its parts do not go together.
        """
        content = self.encoding.bound.content
        table = self._table()
        if self.head is not None and not isinstance(content, Bias | BucketBias):
            raise InvalidInput(
                f"--head {self.head}: {self.scheme.name} is {self.scheme.kind} and has no heads"
            )
        if table == "inv-freq" and isinstance(content, Rotation):
            return self._planned(
                (content.waves.count,),
                None,
                lambda blocks, engine: blocks.frequency_blocks(
                    content.waves, precision=self.precision, engine=engine
                ),
            )
        positions = self._encoded_positions()
        match content:
            case Rotation(waves, layout, parts):
                return self._rotary(positions, waves, table or "", layout, parts)
            case Sinusoids(waves, width, placements):
                return self._placed(positions, waves, width, placements)
            case Rows():
                return self._rows(positions, content)
            case Bias(heads) | BucketBias(heads):
                return self._scores(positions, heads, content)

    def _settled_positions(self) -> Positions | None:
        """The positions asked for; all of a grid by default."""
        content = self.encoding.bound.content
        capacity = content.capacity
        if self.positions is None and capacity and isinstance(content, Rotation | Sinusoids):
            return Positions.contiguous(0, capacity.positions)
        return self.positions

    def _encoded_positions(self) -> Positions:
        """The positions to encode, or the offsets between them where the scheme is relative.

        Raises: InvalidInput where none are given, or the scheme has not so many.
        """
        positions = self._settled_positions()
        if positions is None:
            raise InvalidInput(
                f"{self.scheme.name} needs the positions to encode",
                hint="--len N, or --positions start:stop",
            )
        self._check_capacity(positions, self.encoding.bound.content.capacity)
        if self.scheme.kind != "relative":
            return positions
        content = self.encoding.bound.content
        return positions.offsets(content.farthest if isinstance(content, Rows) else None)

    def _check_capacity(self, positions: Positions, capacity: Capacity | None) -> None:
        if capacity is not None and positions.last >= capacity.positions:
            raise InvalidInput(
                f"position {positions.last} is past the last that {self.scheme.name} can encode: "
                f"{capacity.reason}",
                hint=capacity.hint,
            )

    def _table(self) -> str | None:
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

    def _planned(
        self,
        shape: tuple[int, ...],
        rows: Positions | None,
        computed: Callable[[ModuleType, Engine], Iterator[NDArray[Any]]],
        dtype: DType | None = None,
    ) -> Plan:
        def blocks(engine: Engine) -> Iterator[NDArray[Any]]:
            from posenc_cli.encode import blocks

            with self.scheme.answerable():
                yield from computed(blocks, engine)

        fields = {"dtype": self.precision.stored.name, **self.description()}
        return Plan(
            shape=shape,
            dtype=dtype or self.precision.stored,
            metadata={
                key: value if isinstance(value, str) else json.dumps(value)
                for key, value in fields.items()
                if value is not None
            },
            row_labels=rows.__iter__ if rows and len(shape) == 2 else None,
            row_label="offset" if self.scheme.kind == "relative" else "position",
            blocks=blocks,
            may_overflow=not isinstance(self.encoding.bound.content, Rotation | Sinusoids),
            computed_as=self._computed_as(),
        )

    def _computed_as(self) -> Literal["waves", "rows", "scores"]:
        content = self.encoding.bound.content
        if isinstance(content, Rows):
            return "rows"
        return "scores" if isinstance(content, Bias | BucketBias) else "waves"

    def _rotary(
        self, positions: Positions, waves: Waves, table: str, layout: Layout, parts: int
    ) -> Plan:
        pairs = waves.count
        if table == "angles":
            return self._planned(
                (positions.count, pairs),
                positions,
                lambda blocks, engine: blocks.angle_blocks(
                    waves, positions, precision=self.precision, engine=engine
                ),
            )
        width = pairs if table in ("cos", "sin") else 2 * pairs
        if table != "complex":
            placements = rotary_placements(table, pairs, layout, parts)
            return self._placed(positions, waves, width, placements)
        dtype = _COMPLEX.get(self.precision.stored)
        if dtype is None:
            raise InvalidInput(
                f"--table complex: there is no complex number format of "
                f"{self.precision.stored.name} parts",
                hint="--dtype float32 or float64, or --table interleaved",
            )
        real = self._placed(positions, waves, width, rotary_placements("interleaved", pairs))
        return replace(
            real,
            shape=(positions.count, pairs),
            dtype=dtype,
            blocks=lambda engine: (block.view(dtype.numpy) for block in real.blocks(engine)),
        )

    def _placed(
        self,
        positions: Positions,
        waves: Waves,
        width: int,
        placements: tuple[Placement, ...],
    ) -> Plan:
        plan = self._planned(
            (positions.count, width),
            positions,
            lambda blocks, engine: blocks.wave_blocks(
                waves, positions, placements, width=width, precision=self.precision, engine=engine
            ),
        )
        if waves.coordinates or waves.growth:
            return replace(plan, may_overflow=waves.growth is not None)
        longest = max(
            (each.stop - each.start for each in positions.ranges if each.step == 1), default=0
        )
        return replace(plan, long_waves=longest * width)

    def _rows(self, positions: Positions, content: Rows) -> Plan:
        return self._planned(
            (positions.count, content.width),
            positions,
            lambda blocks, engine: blocks.row_blocks(
                content, positions, self.encoding.table, precision=self.precision, engine=engine
            ),
        )

    def _scores(self, positions: Positions, heads: int, content: Bias | BucketBias) -> Plan:
        if self.head is not None and not 0 <= self.head < heads:
            raise InvalidInput(f"--head {self.head}: the heads are 0 to {heads - 1}")
        chosen = range(heads) if self.head is None else range(self.head, self.head + 1)
        shape = (positions.count, positions.count)

        def blocks(_: ModuleType, engine: Engine) -> Iterator[NDArray[Any]]:
            from posenc_cli.encode.scores import score_blocks

            return score_blocks(
                content,
                chosen,
                positions,
                self.encoding.table,
                precision=self.precision,
                engine=engine,
            )

        return self._planned(shape if self.head is not None else (heads, *shape), positions, blocks)
