"""From a request to its matrix: scheme, parameters and positions → blocks.

Nothing is computed until the blocks of the matrix are read, and then only one block at a time.
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from posenc_cli.encoding.engine import Engine
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.files.matrix import Matrix
from posenc_cli.formulas.tables import ROTARY_TABLES, PlacedColumns
from posenc_cli.numerics.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, DType
from posenc_cli.positions import LARGEST_POSITION, Positions
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.encoding.precision import Precision
    from posenc_cli.formulas.declare import Bound, Content, RowLookup, Scheme, Waves
    from posenc_cli.numerics.arrays import StoredArray, StoredRows

_COMPLEX = {FLOAT32: COMPLEX64, FLOAT64: COMPLEX128}


class Encoding(Record):
    """A scheme with its parameters settled, and its learned table if it has one."""

    bound: Bound
    lookup: RowLookup | None = None

    @classmethod
    def of(cls, scheme: Scheme, given: Mapping[str, object], *, seq_len: int | None) -> Encoding:
        """Return ``scheme`` with ``given`` parameters; a weights file settles some others."""
        loaded = None
        if scheme.weights and given.get("weights"):
            from posenc_cli.encoding.weights import LoadedTable

            loaded = LoadedTable.read(str(given["weights"]), scheme.weights)
            given = {**loaded.parameters(scheme, given), **given}
        bound = scheme.bind(given, seq_len=seq_len)
        weights, waves = bound.content.weights, bound.content.waves
        if scheme.as_given:
            from posenc_cli.encoding.called import called_rows

            return cls(replace(bound, content=called_rows(bound)))
        if weights is not None:
            from posenc_cli.encoding.weights import table_of

            return cls(bound, table_of(weights, scheme, loaded))
        if waves is not None and waves.coordinates is not None:
            from posenc_cli.encoding.axial import placed_waves

            waves = placed_waves(waves)
            return cls(replace(bound, content=replace(bound.content, waves=waves)))
        return cls(bound)


def encoding_of_side(
    scheme: Scheme, given: Mapping[str, object], *, seq_len: int, side: Literal["query", "key"]
) -> Encoding:
    """Return the encoding of the queries or the keys, if a scheme rotates them differently."""
    own = scheme.parameters.get("side")
    if own is not None and own.choices == ("query", "key"):
        given = {**given, "side": side}
    return Encoding.of(scheme, given, seq_len=seq_len)


class Plan(Record):
    """A checked request: the matrix it asks for, which an engine can compute.

    ``computed_as`` tells which part of an engine computes it: rows and scores are computed by NumPy
    on every engine. ``kernel_values`` is the number of values that the kernel of the fast backend
    would compute. ``straight`` writes the rows of waves into an array without a copy, or returns
    False.
    """

    shape: tuple[int, ...]
    dtype: DType
    describe: Callable[[], Mapping[str, object]]
    row_labels: Callable[[], Iterator[int] | Iterator[str]] | None
    row_label: str
    blocks: Callable[[Engine], Iterator[StoredRows]]
    straight: Callable[[Engine, StoredRows], bool] | None = None
    may_overflow: bool = False
    computed_as: Literal["waves", "rows", "scores"] = "rows"
    kernel_values: int | None = None

    @property
    def values(self) -> int:
        """The number of values to compute."""
        return math.prod(self.shape)

    def fill(self, out: StoredArray, engine: Engine) -> None:
        """Compute the matrix into a contiguous array with as many values, in its dtype."""
        if self.straight is not None and self.straight(engine, out.reshape(self.shape)):
            return
        flat, done = out.reshape(-1), 0
        for block in self.blocks(engine):
            flat[done : done + block.size] = block.reshape(-1)
            done += block.size

    def matrix(self, engine: Engine | None = None) -> Matrix:
        """Return the matrix; ``engine`` (default: NumPy, exact) computes each block when read."""
        return Matrix(
            shape=self.shape,
            dtype=self.dtype,
            blocks=partial(self.blocks, engine or Engine()),
            metadata=self.describe(),
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
        """The scheme of the encoding."""
        return self.encoding.bound.scheme

    @property
    def random_weights(self) -> str | None:
        """A note on weights that a seed initializes, or None if there are none."""
        last = None if self.positions is None else self.positions.length - 1
        return self.encoding.bound.random_weights(last)

    def description(self) -> dict[str, Any]:
        """Return the request as plain values, enough to request the same again."""
        positions = self._settled_positions()
        return {
            "scheme": self.scheme.name,
            "params": dict(self.encoding.bound.params),
            "positions": None if positions is None else str(positions),
            "table": self._table,
            "head": self.head,
            "round_to": self.precision.rounded.name,
            "weights": self.random_weights,
        }

    def plan(self) -> Plan:
        """Return the checked request; nothing is computed yet.

        Raises: InvalidInput if its parts do not fit together.
        """
        table, heads = self._table, self.encoding.bound.content.heads
        if self.head is not None and heads is None:
            raise InvalidInput(
                f"--head {self.head}: {self.scheme.name} is {self.scheme.kind_text} without heads"
            )
        positions = None if table == "inv-freq" else self.row_positions()
        if self.head is not None and heads is not None and not 0 <= self.head < heads:
            raise InvalidInput(f"--head {self.head}: the heads are 0 to {heads - 1}")
        return self.plan_at(positions)

    def plan_at(self, positions: Positions | None) -> Plan:
        """Return the plan of the matrix at positions, or at offsets of a relative scheme.

        Frequencies need no positions: pass None.

        Raises: InvalidInput as `_form` does.
        """
        content = self.encoding.bound.content
        waves, columns = content.waves, content.columns(self._table)
        shape, dtype = self._form(columns.width, 0 if positions is None else positions.count)
        labels: Any = None  # integers, or texts if some are not integers
        if positions is not None and len(shape) == 2:
            labels = positions.__iter__ if positions.denominator == 1 else positions.names
        return Plan(
            shape=shape,
            dtype=dtype,
            describe=lambda: {"dtype": self.precision.stored.name, **self.description()},
            row_labels=labels,
            row_label="offset" if self.scheme.kind == "relative" else "position",
            blocks=partial(self._blocks, positions, dtype),
            straight=None if positions is None else partial(self._straight, positions),
            may_overflow=waves is None or (waves.growth is not None and bool(columns.placements)),
            computed_as="waves" if waves else "rows" if content.heads is None else "scores",
            kernel_values=_kernel_values(waves, columns, positions),
        )

    def _form(self, width: int, count: int) -> tuple[tuple[int, ...], DType]:
        """Return the shape of a matrix of ``count`` positions and ``width`` columns, and its dtype.

        Raises:
            InvalidInput: there is no complex format with such parts, or frequencies are requested
                of waves that each follow their own direction.
        """
        content, table, dtype = self.encoding.bound.content, self._table, self.precision.stored
        if table == "inv-freq":
            along = None if content.waves is None else content.waves.coordinates
            if along is not None and along.oblique:
                raise InvalidInput(
                    f"--table inv-freq: each pair of {self.scheme.name} has two frequencies, one "
                    "for rows and one for columns",
                    hint="--table angles has the angles of each place",
                )
            return (width,), dtype
        if table == "complex":
            if dtype not in _COMPLEX:
                raise InvalidInput(
                    f"--table complex: there is no complex number format of {dtype.name} parts",
                    hint="--dtype float32 or float64, or --table interleaved",
                )
            return (count, width // 2), _COMPLEX[dtype]
        if content.heads is None:
            return (count, width), dtype
        return (count, count) if self.head is not None else (content.heads, count, count), dtype

    @property
    def denominator(self) -> int:
        """The denominator of the positions, which are integer multiples of 1/denominator."""
        return 1 if self.positions is None else self.positions.denominator

    @property
    def content(self) -> Content:
        """The content of the encoding, for positions with the denominator of those requested."""
        return self.encoding.bound.content.in_parts(self.denominator)

    def row_positions(self) -> Positions:
        """Return the positions of the rows, or their offsets if the scheme is relative.

        Raises: InvalidInput if none are given, or the scheme has fewer.
        """
        positions = self._settled_positions()
        if positions is None:
            raise InvalidInput(
                f"{self.scheme.name} needs the positions to encode",
                hint="--len N, or --positions start:stop",
            )
        content = self.encoding.bound.content
        capacity = content.capacity
        check_domain(self.encoding.bound, positions)
        if capacity is not None and positions.length > capacity.positions:
            raise InvalidInput(
                f"position {positions.name(positions.last)} is past the last that "
                f"{self.scheme.name} can encode: {capacity.reason}",
                hint=capacity.hint,
            )
        return positions.offsets(content.farthest) if self.scheme.kind == "relative" else positions

    def _settled_positions(self) -> Positions | None:
        """Return the requested positions; by default all that waves have coordinates for."""
        waves = self.encoding.bound.content.waves
        if self.positions is None and waves is not None and waves.capacity is not None:
            return Positions.contiguous(0, waves.capacity.positions)
        return self.positions

    @cached_property
    def _table(self) -> str | None:
        """The requested rotary table, or None if the scheme has only one matrix.

        Raises: InvalidInput if a table is requested of a scheme that is not rotary.
        """
        if self.scheme.kind == "rotary":
            if self.table is not None and self.table not in ROTARY_TABLES:
                raise InvalidInput(
                    f"--table {abbreviated(self.table)}: must be one of {', '.join(ROTARY_TABLES)}",
                    hint=nearest(self.table, ROTARY_TABLES),
                )
            return self.table or "cos-sin"
        if self.table is not None:
            raise InvalidInput(
                f"--table {self.table}: {self.scheme.name} is {self.scheme.kind_text}, not rotary, "
                "and has only one matrix"
            )
        return None

    def _blocks(
        self, positions: Positions | None, dtype: DType, engine: Engine
    ) -> Iterator[StoredRows]:
        from posenc_cli.encoding import blocks

        content, table, precision = self.encoding.bound.content, self._table, self.precision
        with self.scheme.answerable():
            if positions is None:
                waves = self.encoding.bound.rotation.waves
                yield blocks.frequencies_of(waves, precision=precision, engine=engine)
                return
            for block in blocks.matrix_blocks(
                content,
                self.encoding.lookup,
                positions,
                table=table,
                head=self.head,
                precision=precision,
                engine=engine,
            ):
                yield block.view(dtype.numpy) if table == "complex" else block
                del block  # free its memory for the next one

    def _straight(self, positions: Positions, engine: Engine, out: StoredRows) -> bool:
        from posenc_cli.encoding import blocks

        with self.scheme.answerable():
            return blocks.fill_waves(
                self.encoding.bound.content,
                positions,
                out.view(self.precision.stored.numpy) if self._table == "complex" else out,
                table=self._table,
                precision=self.precision,
                engine=engine,
            )


def check_domain(bound: Bound, positions: Positions) -> None:
    """Refuse positions outside a formula's domain, or whose differences are not exact.

    Raises: InvalidInput.
    """
    content, name, parts = bound.content, bound.scheme.name, positions.denominator
    if parts > 1 and content.domain in ("natural", "whole"):
        number = next(number for number in positions if number % parts)
        raise InvalidInput(
            f"position {positions.name(number)} is not whole: the positions of {name} are "
            + ("0, 1, 2 and so on" if content.domain == "natural" else "whole numbers")
        )
    # For a relative scheme only the differences of positions matter.
    if (
        positions.first < 0
        and content.domain in ("natural", "positive")
        and bound.scheme.kind != "relative"
    ):
        raise InvalidInput(
            f"position {positions.name(positions.first)} is negative; the first of {name} is 0"
        )
    low, high = min(positions.first, 0), max(positions.last, 0)
    growth = None if content.waves is None else content.waves.growth
    if growth is not None:
        low, high = min(low, growth.centre * parts), max(high, growth.centre * parts)
    differences = growth is not None or content.heads is not None or bound.scheme.kind == "relative"
    if differences and high - low > LARGEST_POSITION:
        raise InvalidInput(
            f"positions {positions.name(low)} and {positions.name(high)} lie more than 2^53 parts "
            f"of 1/{parts} apart: {name} computes with differences, exact up to that"
        )


def _kernel_values(
    waves: Waves | None, columns: PlacedColumns, positions: Positions | None
) -> int | None:
    """Return the number of entries of plain waves at non-negative positions, or None if none."""
    if positions is None or waves is None or not columns.placements:
        return None
    if waves.coordinates or waves.growth or positions.first < 0:
        return None
    return positions.count * columns.width
