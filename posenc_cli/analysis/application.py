"""The part of a choice that applies to vectors, with its positions and width."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

from posenc_cli.encoding.application import Application, GivenVectors, VectorRows, positions_matrix
from posenc_cli.encoding.precision import Precision
from posenc_cli.errors import InvalidInput
from posenc_cli.files.matrix import Matrix
from posenc_cli.numerics.dtypes import FLOAT64, DType
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.backends.registry import Arithmetic
    from posenc_cli.choice import Choice
    from posenc_cli.encoding.request import Request
    from posenc_cli.numerics.arrays import StoredRows

_APPLICABLE = "absolute", "rotary"


class AppliedEncoding(Record):
    """An encoding applied to vectors of a shape (…, n, columns).

    ``left_out`` names the parts of a hybrid that apply to scores instead of vectors.
    """

    choice: Choice
    request: Request
    application: Application
    shape: tuple[int, ...]
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        choice: Choice,
        shape: tuple[int, ...],
        name: str,
        *,
        dtype: DType,
        arithmetic: Arithmetic = "exact",
    ) -> AppliedEncoding:
        """Return the encoding to apply to the vectors called ``name``.

        By default, the positions of n vectors are 0 … n − 1. A scheme without a given ``dim`` takes
        that of the vectors.

        Raises: InvalidInput if nothing applies to vectors, or not to vectors of this shape.
        """
        part = applicable_part(choice)
        count, columns = shape[-2:]
        if "dim" in part.scheme.parameters and not {"dim", "weights"} & {*part.given}:
            part = replace(part, given={**part.given, "dim": columns})
        positions = part.positions or Positions.contiguous(0, count)
        if positions.count != count:
            raise InvalidInput(
                f"{positions.option}: {positions.count} positions, but {name} has {count} vectors "
                "along its second-to-last axis"
            )
        part = replace(part, positions=positions)
        # With a framework's arithmetic, the tables are in the format of the result.
        request = part.requests(Precision.of(FLOAT64 if arithmetic == "exact" else dtype, None))[0]
        plan = request.plan()
        _check_columns(request, columns, name)
        engine = part.engine(plan, arithmetic=arithmetic)
        others = tuple(other.scheme.name for other in choice.parts if other.scheme != part.scheme)
        return cls(part, request, Application(request, columns, dtype, engine), shape, others)

    def blocks(self, vectors: VectorRows) -> Iterator[StoredRows]:
        """Return the results for all vectors in order, in the form of `Application.blocks`."""
        return self.application.blocks(vectors, prod(self.shape[:-2]))

    def matrices(self, vectors: GivenVectors, *, wide: bool) -> tuple[Matrix, Matrix, Matrix]:
        """Return the matrices to save: y, x, positions; ``wide`` is for `GivenVectors.matrix`."""
        return (
            Matrix(
                self.shape,
                self.application.dtype,
                lambda: self.blocks(vectors.rows),
                self.fields,
                name="y",
            ),
            vectors.matrix(wide=wide),
            positions_matrix(self.request.row_positions()),
        )

    @property
    def verb(self) -> str:
        """The operation on the vectors, in words."""
        return "rotated by" if self.request.scheme.kind == "rotary" else "plus"

    @property
    def fields(self) -> dict[str, Any]:
        """The applied encoding, for JSON."""
        description = self.request.description()
        return {
            name: description[name] for name in ("scheme", "params", "positions", "weights")
        } | {
            "left_out": list(self.left_out),
            "arithmetic": "as-given"
            if self.request.scheme.as_given
            else self.application.engine.arithmetic,
        }


def applicable_part(choice: Choice) -> Choice:
    """Return the choice, or the one part of a hybrid that applies to vectors.

    Raises: InvalidInput if no part applies, or if two parts do.
    """
    parts = [part for part in choice.parts or (choice,) if part.scheme.kind in _APPLICABLE]
    if len(parts) > 1:
        kinds = " and ".join(f"{part.scheme.name} ({part.scheme.kind})" for part in parts)
        raise InvalidInput(
            f"{choice.asked}: {kinds} both apply to vectors",
            hint="apply them one by one",
        )
    if not parts:
        kinds = " and ".join({part.scheme.kind_text: 0 for part in choice.parts or (choice,)})
        raise InvalidInput(
            f"{choice.asked} is {kinds}, which does not apply to vectors",
            hint="absolute schemes are added to x, rotary ones rotate it",
        )
    return replace(parts[0], warnings=choice.warnings, origin=choice.origin)


def vector_columns(choice: Choice) -> int:
    """Return the number of columns that vectors of an encoding need.

    Raises: InvalidInput as `applicable_part`.
    """
    return _columns_of(applicable_part(choice).requests(Precision.of(FLOAT64, None))[0])


def _columns_of(request: Request) -> int:
    """Return ``dim`` for a rotary scheme, which may rotate part of it, else the table's width."""
    bound = request.encoding.bound
    dim = bound.params.get("dim")
    return dim if isinstance(dim, int) and bound.scheme.kind == "rotary" else bound.content.width


def _check_columns(request: Request, columns: int, name: str) -> None:
    wanted = _columns_of(request)
    if columns != wanted:
        hint = None
        with suppress(InvalidInput):  # not every width is valid for the scheme
            given = {**request.encoding.bound.params, "dim": columns}
            request.scheme.bind({name: each for name, each in given.items() if each is not None})
            hint = f"--dim {columns}"
        raise InvalidInput(
            f"{name} has vectors of {columns} columns, but {request.scheme.name} has {wanted}",
            hint=hint,
        )
