"""Learned tables: from a file, or randomly initialized row by row in any order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import InvalidInput, sizes_text
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.formulas.declare import RowLookup, Scheme, Weights, WeightsShape
    from posenc_cli.numerics.arrays import Integers, RealRows

_ROWS_A_STREAM = 64  # rows that share one random stream: a table can be entered at each stream


class LoadedTable(Record):
    """A table read from a file; its shape does not settle its first ``beside`` columns."""

    values: RealRows
    path: str
    beside: int = 0

    @classmethod
    def read(cls, path: str, shape: WeightsShape) -> LoadedTable:
        """Return the table in a file of any format posenc reads.

        Raises: InvalidInput unless it is a finite real matrix, or such tensors of a network.
        """
        if shape.tensors is None:
            return cls(_finite(path, path, axes=2), path)
        # A file alone has the plain names; ``path:prefix`` has those of one of its layers.
        start = f"{path}:" if Path(path).is_file() else f"{path}."
        parts = [
            _finite(start + name, path, axes=axes)
            for name, axes in zip(shape.tensors, (2, 1, 2, 1), strict=False)
        ]
        first, shift, last, *added = parts
        heads, units = last.shape
        if not len(first) == len(shift) == units or any(len(part) != heads for part in added):
            shapes = " and ".join("×".join(map(str, part.shape)) for part in parts)
            raise InvalidInput(f"--set weights={path}: tensors of {shapes} are not {shape.text}")
        beside = first.shape[1] + 1
        rows = [np.concatenate([first, shift[:, None], last.T], axis=1)]  # (units, beside + heads)
        rows += [np.concatenate([np.zeros(beside), part])[None, :] for part in added]
        return cls(np.concatenate(rows), path, beside)

    def parameters(self, scheme: Scheme, given: Mapping[str, object]) -> dict[str, Any]:
        """Return the parameters of ``scheme`` that this table's shape settles, if not given."""
        shape = scheme.weights
        assert shape is not None
        rows, columns = self.values.shape[0], self.values.shape[1] - self.beside
        if shape.rows in given:
            return {shape.columns: columns}
        from_rows = shape.rows_to_parameter(rows)
        if from_rows is None:
            raise InvalidInput(
                f"--set weights={self.path} has {rows} rows; {scheme.name} needs {shape.text}"
            )
        return {shape.rows: from_rows, shape.columns: columns}

    def check_shape(self, weights: Weights, scheme: Scheme) -> None:
        """Refuse a table whose shape differs from that of ``weights``.

        Raises: InvalidInput.
        """
        if self.values.shape != (weights.rows, weights.columns):
            rows, columns = self.values.shape
            text = scheme.weights.text if scheme.weights else ""
            if scheme.weights is not None and scheme.weights.tensors is not None:
                added = len(scheme.weights.tensors) - 3
                raise InvalidInput(
                    f"--set weights={self.path} has {rows - added} units, {self.beside - 1} "
                    f"coordinates and {columns - self.beside} heads, but {scheme.name} with these "
                    f"parameters needs {text}: {weights.rows - added} units and "
                    f"{weights.columns - scheme.weights.inputs - 1} heads"
                )
            raise InvalidInput(
                f"--set weights={self.path} is {rows}×{columns}, but {scheme.name} with these "
                f"parameters needs {text} = {weights.rows}×{weights.columns}"
            )


def _finite(path: str, given: str, *, axes: int) -> RealRows:
    """Return the real array in a file, as float64.

    Raises: InvalidInput unless it is finite and has ``axes`` axes.
    """
    from posenc_cli.files.reading import read_array
    from posenc_cli.files.source import without_leading_ones

    values = without_leading_ones(read_array(path).values)
    if values.ndim != axes or np.iscomplexobj(values):
        wanted = "real matrix" if axes == 2 else "real vector"
        raise InvalidInput(
            f"--set weights={given} holds an array of shape {sizes_text(values.shape)}, "
            f"not a {wanted}"
        )
    if not np.isfinite(values).all():
        raise InvalidInput(f"--set weights={given} holds NaN or infinity")
    return np.asarray(values, dtype=np.float64)


class DrawnTable(Record):
    """A table of independent normal(0, std) values, a function of seed, row and column alone."""

    columns: int
    seed: int
    std: float

    def __call__(self, rows: Integers) -> RealRows:
        """Return the given rows, independent of earlier requests."""
        values = np.empty((rows.size, self.columns))
        streams = rows // _ROWS_A_STREAM  # (rows,)
        for stream in np.unique(streams):
            places = streams == stream
            key = np.array([self.seed, stream], dtype=np.uint64)
            generator = np.random.Generator(np.random.Philox(key=key))
            normal = generator.standard_normal((_ROWS_A_STREAM, self.columns))
            values[places] = normal[rows[places] % _ROWS_A_STREAM] * self.std
        return values


def table_of(weights: Weights, scheme: Scheme, loaded: LoadedTable | None) -> RowLookup:
    """Return the table a scheme needs: ``loaded`` if a file was given, else a random one."""
    drawn = DrawnTable(weights.columns, weights.seed, weights.std)
    if loaded is None:
        return drawn
    loaded.check_shape(weights, scheme)
    last = len(loaded.values) - 1

    def lookup(rows: Integers) -> RealRows:
        """Return the given rows; those past the end are randomly initialized."""
        values: RealRows = loaded.values[np.minimum(rows, last)]
        past = rows > last
        if past.any():
            values[past] = drawn(rows[past])
        return values

    return lookup
