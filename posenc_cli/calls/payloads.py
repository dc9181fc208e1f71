"""The arrays of one call, as bytes and the shapes that a form gives them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.calls.roles import TABLES
from posenc_cli.inference.turning import ColumnPairing
from posenc_cli.numerics.rounding import bits_of_bfloat16
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.calls.call_form import Argument, CallForm
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers, NumberArray

_SHOWN = 256
"""Rows that a longer table has before those of far positions: those of positions from 0 on."""


class Vectors(Record):
    """Vectors for a call: ``values`` (b, n, h, d), of which an axis of 1 is repeated.

    ``strided`` says which of them are apart in memory, in a view of a larger array: ``rows``, with
    other axes before others, or ``columns``.
    """

    values: NumberArray
    rows: int
    strided: str = ""

    @classmethod
    def units(cls, rows: int, columns: range, width: int) -> Vectors:
        """As heads, a unit vector along each of these columns, at each of n rows."""
        units = np.eye(width, dtype=np.float32)[columns.start : columns.stop]
        return cls(units[None, None], rows)

    @property
    def batch(self) -> int:
        """How many sequences there are."""
        return int(self.values.shape[0])

    @property
    def heads(self) -> int:
        """How many heads there are."""
        return int(self.values.shape[2])

    def shape(self, axes: str) -> tuple[int, ...]:
        """The shape that they have in these axes."""
        columns = self.values.shape[3]
        if axes == "nd":
            return self.batch * self.rows * self.heads, columns
        if axes == "nf":
            return self.batch * self.rows, self.heads * columns
        lengths = (self.batch, self.heads, self.rows, columns, self.heads * columns)
        sizes = dict(zip("bhndf", lengths, strict=True))
        return tuple(sizes[axis] for axis in axes)

    def read(self, result: NumberArray, axes: str) -> NumberArray:
        """A result in these axes, of their shape. Shape: (b, n, h, d)."""
        rows = (self.batch, self.rows, self.heads)
        whole = (*rows, result.size // math.prod(rows))
        order = _order(axes)
        return result.reshape([whole[axis] for axis in order]).transpose(np.argsort(order))


def _order(axes: str) -> list[int]:
    """Where axes, of which that of sequences or of heads may be missing, stand in (b, n, h, d)."""
    of_one = "bhnd" if axes.startswith("h") else "bnhd"
    whole = axes.replace("f", "hd") if "b" in axes else of_one
    return ["bnhd".index(axis) for axis in whole]


class Payload:
    """The request of one call: a header, and the bytes of its arrays."""

    def __init__(self, form: CallForm, *, in_place: bool) -> None:
        self._header: dict[str, Any] = {
            "do": "call",
            "library": form.library,
            "arguments": [],
            "named": {},
            "in_place": list(form.vectors) if in_place else [],
        }
        self._parts: list[bytes] = []
        self.size = 0

    def array(
        self,
        values: NumberArray,
        *,
        broadcast: Sequence[int] | None = None,
        reshape: Sequence[int] | None = None,
    ) -> dict[str, Any]:
        """What says of an array how it is to be made; its bytes go along."""
        data = np.ascontiguousarray(values)
        whole = tuple(broadcast or data.shape)
        self._parts.append(data.tobytes())
        self.size += int(np.prod(whole))
        return {
            "dtype": data.dtype.name,
            "shape": data.shape,
            "broadcast": whole,
            "reshape": tuple(reshape or whole),
            "bytes": data.nbytes,
        }

    def add(self, argument: Argument, given: dict[str, Any]) -> None:
        """Give this to a parameter."""
        if argument.name is None:
            self._header["arguments"].append(given)
        else:
            self._header["named"][argument.name] = given

    def message(self, number: int) -> list[bytes]:
        """The request, part by part."""
        size = sum(map(len, self._parts))
        header = {**self._header, "id": number, "bytes": size}
        return [json.dumps(header).encode() + b"\n", *self._parts]


class _RowPlaces:
    """Where the rows of a call are: the positions of its tables' rows, and what says so.

    ``positions`` are (p, n), p one, or as many as there are sequences. Tables from which rows are
    chosen hold those from 0 on, as far as is cheap, and then those of the call.
    """

    def __init__(self, form: CallForm, positions: Integers) -> None:
        self.held = self.ids = positions
        self.offset = int(positions[0, 0])
        if form.exact:
            self.held = np.sort(positions, axis=1)
            self.ids = np.argsort(np.argsort(positions, axis=1), axis=1)
        elif form.chosen and form.has("positions"):
            first = np.arange(min(_SHOWN, int(positions.max()) + 1))
            near = np.union1d(first, positions)
            self.ids = np.searchsorted(near, positions)
            # A cache is longer than a sequence: what counts rows finds some, wherever it begins.
            self.held = np.resize(near, near.size + min(_SHOWN, positions.shape[1]))[None]
        elif form.chosen:
            first = np.arange(min(_SHOWN, self.offset))[None]
            self.held = np.concatenate([first, positions], axis=1)
            self.offset = first.size


def request(
    form: CallForm,
    reference: Reference,
    positions: Integers,
    vectors: Sequence[Vectors],
    *,
    in_place: bool,
) -> Payload:
    """The call of a form: these vectors at these positions, (n,) or (p, n)."""
    payload = Payload(form, in_place=in_place)
    positions = np.atleast_2d(positions)
    if vectors and form.flat:
        positions = np.repeat(positions, vectors[0].heads, axis=1)
    places = _RowPlaces(form, positions)
    remaining = iter(vectors)
    tables = _tables(form, reference, places.held) if form.has(*TABLES) else {}
    for argument in form.arguments:
        role = argument.role
        if role in ("x", "q", "k"):
            given = _vectors(payload, form, next(remaining))
        elif role == "v":
            # Others than q's, or what is made of v would be taken for what becomes of q.
            others = np.random.default_rng(9).standard_normal(vectors[0].values.shape)
            given = _vectors(payload, form, Vectors(others, vectors[0].rows))
        elif role in ("positions", "grid"):
            given = payload.array(_positions(argument, form, reference, places.ids))
        elif role == "cos_sin":
            names = ("sin", "cos") if argument.parameter.startswith("sin") else ("cos", "sin")
            given = {"tuple": [_table(payload, form, tables[name]) for name in names]}
        elif role == "inv_freq":
            given = payload.array(reference.frequencies.astype(np.float32))
        elif role in TABLES:
            given = _table(payload, form, tables[role])
        elif role == "offset":
            given = {"value": places.offset}
        else:
            given = {"value": _constant(argument, form, reference, positions, vectors)}
        payload.add(argument, given)
    return payload


def _positions(
    argument: Argument, form: CallForm, reference: Reference, positions: Integers
) -> NumberArray:
    """Positions (p, n) or their coordinates, in the axes of a form, or the sizes of a grid.

    Of a grid without frames there is one frame, where frames are asked for.
    """
    if argument.role == "grid":
        sizes = reference.grid or ()
        frames = (1,) * (3 - len(sizes)) if "thw" in argument.parameter else ()
        return np.array([frames + sizes], np.int64)
    shape = positions.shape if "b" in form.position_axes else (-1,)
    ids = positions.astype(np.int64).reshape(shape)
    if not form.follows_axes:
        return ids
    along = reference.coordinates_at(ids)  # (axes, p, n) or (axes, p · n)
    along = along.astype(np.float32) if form.real else along
    if argument.axis is None:
        return np.moveaxis(along, 0, form.position_axes.index("a"))
    return np.asarray(along[argument.axis])


def _constant(
    argument: Argument,
    form: CallForm,
    reference: Reference,
    positions: Integers,
    vectors: Sequence[Vectors],
) -> Any:
    """The value of an argument that is one number."""
    constants = {
        "length": positions.shape[1] if form.counted else int(positions.max()) + 1,
        "style": style(argument.parameter, reference),
        "heads": vectors[0].heads if vectors else 1,
        "key_heads": vectors[-1].heads if vectors else 1,
        **settings(reference),
        **({"dim": form.columns} if form.axes == "bnf" else {}),
    }
    return constants[argument.role]


def style(parameter: str, reference: Reference) -> bool:
    """The value of a flag that chooses between layouts: the reference's."""
    return ("neox" in parameter) == (reference.content.layout == "half")


def settings(reference: Reference) -> dict[str, Any]:
    """What a function that makes an encoding is told of the reference, by role."""
    return {"dim": 2 * reference.pairs, "base": float(reference.params.get("base") or 10_000.0)}


def settings_by_name(reference: Reference) -> dict[str, float]:
    """The reference's own numbers, which a class may have as parameters of the same names.

    Without those that a role stands for, and the length, which differs from call to call.
    """
    of_roles = ("dim", "base", "partial", "seq_len", "interleaved")
    own = {
        name: value
        for name, value in reference.params.items()
        if isinstance(value, int | float) and name not in of_roles
    }
    return {**own, "scaling_factor": own["factor"]} if "factor" in own else own


def _vectors(payload: Payload, form: CallForm, vectors: Vectors) -> dict[str, Any]:
    """Vectors in the axes of a form."""
    order = _order(form.axes)
    values = vectors.values.astype(np.float32).transpose(order)
    whole = (vectors.batch, vectors.rows, vectors.heads, form.columns)
    given = payload.array(
        bits_of_bfloat16(values.astype(np.float64))
        if form.dtype == "bfloat16"
        else values.astype(form.dtype),
        broadcast=[whole[axis] for axis in order],
        reshape=vectors.shape(form.axes),
    )
    strided = {"strided": vectors.strided} if vectors.strided else {}
    return {**given, "dtype": form.dtype, **strided}


_OF_PAIRS: dict[str, Callable[[NumberArray], NumberArray]] = {
    "complex": lambda factors: factors,
    "stacked": lambda factors: np.stack([factors.real, factors.imag], axis=-1),
    "beside": lambda factors: np.concatenate([factors.real, factors.imag], axis=-1),
    "sines beside": lambda factors: np.concatenate([factors.imag, factors.real], axis=-1),
    "matrices": lambda factors: np.stack(
        [factors.real, -factors.imag, factors.imag, factors.real], axis=-1
    ).reshape(*factors.shape, 2, 2),
    "angles": np.angle,
}
"""Tables of cosines and sines in one, from (p, n, pairs) complex numbers."""


def _tables(form: CallForm, reference: Reference, positions: Integers) -> dict[str, NumberArray]:
    """The reference's tables at positions (p, n), in float32.

    Shape: (p, n, columns), (p, n, pairs) or (p, n, pairs, 2).
    """
    from posenc_cli.numerics.dtypes import FLOAT32

    factors = reference.cells(positions.reshape(-1), FLOAT32).astype(np.complex64)
    factors = factors.reshape(*positions.shape, -1)  # (p, n, pairs)
    if form.kind in _OF_PAIRS:
        return {"freqs_cis": _OF_PAIRS[form.kind](factors)}
    if form.kind == "pairs":
        return {"cos": factors.real, "sin": factors.imag}
    halves = form.kind.endswith("halves")
    pairing = ColumnPairing.named(
        "half" if halves else "interleaved", reference.pairs, parts=reference.content.blocks
    )

    def repeated(table: NumberArray) -> NumberArray:
        out = np.zeros((*positions.shape, 2 * table.shape[-1]), np.float32)
        for which, columns in (("first", pairing.first), ("second", pairing.second)):
            if which != form.blank:
                out[..., list(columns)] = table
        return out

    if form.kind.startswith("angles"):
        return {"freqs_cis": repeated(np.angle(factors))}
    return {"cos": repeated(factors.real), "sin": repeated(factors.imag)}


def _table(payload: Payload, form: CallForm, table: NumberArray) -> dict[str, Any]:
    """A table (p, n, w) in the axes of a form."""
    sizes = dict(zip("bnw", table.shape, strict=False)) | {"1": 1}
    shape = tuple(sizes[axis] for axis in form.table_axes) + table.shape[3:]
    return payload.array(table.reshape(shape))
