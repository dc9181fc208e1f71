"""Write the arrays of one call as bytes, in the shapes that a call form requires."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.calls.call_form import SIDE_BY_SIDE
from posenc_cli.calls.roles import ADDED, LEFT_PADDED, NAMES, PADDED, TABLES
from posenc_cli.inference.turning import ColumnPairing
from posenc_cli.numerics.rounding import bits_of_bfloat16
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.calls.call_form import Argument, CallForm
    from posenc_cli.formulas.tables import Layout
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers, NumberArray

NO_EFFECT: dict[str, Any] = {"layer": 0, "cache": None}
"""Values of parameters that do not affect a rotation."""

_SHOWN = 256
"""Most rows from position 0 on in a table with rows of later positions."""


_MOST_SCORES = 1 << 25
"""Most entries of a mask with one per score; a larger one has one per key."""


class Vectors(Record):
    """Vectors for a call: ``values`` (b, n, h, d), in which axes of length 1 are repeated.

    ``strided`` says what is not adjacent in memory, in a view of a larger array: ``rows``, with the
    axes in another order, or ``columns``. ``positions`` (p, n) are those of k, if they differ from
    the call's.
    """

    values: NumberArray
    rows: int
    strided: str = ""
    positions: Integers | None = None

    @property
    def batch(self) -> int:
        """The number of sequences."""
        return int(self.values.shape[0])

    @property
    def heads(self) -> int:
        """The number of heads."""
        return int(self.values.shape[2])

    def shape(self, axes: str) -> tuple[int, ...]:
        """Return the shape in these axes; without axes of sequences or heads, all are rows."""
        columns = self.values.shape[3]
        rows = {"nd": self.batch * self.rows * self.heads, "nf": self.batch * self.rows}
        sizes = {"b": self.batch, "h": self.heads, "n": rows.get(axes, self.rows), "d": columns}
        return tuple(sizes.get(axis, self.heads * columns) for axis in axes)

    def read(self, result: NumberArray, axes: str) -> NumberArray:
        """Return a result in these axes as (b, n, h, d)."""
        whole = (self.batch, self.rows, self.heads, -1)
        order = _axis_order(axes)
        return result.reshape([whole[axis] for axis in order]).transpose(np.argsort(order))


def _axis_order(axes: str) -> list[int]:
    """Return the indices of axes in (b, n, h, d); that of sequences or heads may be missing."""
    of_one = "bhnd" if axes.startswith("h") else "bnhd"
    return ["bnhd".index(axis) for axis in (axes.replace("f", "hd") if "b" in axes else of_one)]


class Payload:
    """The request of one call: a header, and the bytes of its arrays."""

    def __init__(self, form: CallForm, *, in_place: bool) -> None:
        self._header: dict[str, Any] = {
            "do": "call",
            "library": form.library,
            "arguments": [],
            "named": {},
            "in_place": sorted({*form.vectors}) if in_place else [],
        }
        self._parts: list[memoryview] = []
        self.names = ", ".join(argument.parameter for argument in form.arguments)
        self.size = 0

    def array(
        self,
        values: NumberArray,
        *,
        broadcast: Sequence[int] | None = None,
        reshape: Sequence[int] | None = None,
    ) -> dict[str, Any]:
        """Add the bytes of an array to the request, and return its description for the header."""
        data = np.ascontiguousarray(values)
        whole = tuple(broadcast or data.shape)
        self._parts.append(data.reshape(-1).view(np.uint8).data)
        self.size += int(np.prod(whole))
        return {
            "dtype": data.dtype.name,
            "shape": data.shape,
            "broadcast": whole,
            "reshape": whole if reshape is None else tuple(reshape),
            "bytes": data.nbytes,
        }

    def attribute(self, name: str, dtype: str) -> dict[str, Any]:
        """Describe the framework's ``dtype`` or ``device`` of an array in this number format."""
        zero = np.zeros(1, "uint16" if dtype == "bfloat16" else dtype)
        return {"attribute": name, "of": {**self.array(zero), "dtype": dtype}}

    def add(self, argument: Argument, given: dict[str, Any]) -> None:
        """Add the value of an argument to the header."""
        if argument.name is None:
            self._header["arguments"].append(given)
        else:
            self._header["named"][argument.name] = given

    def message(self, number: int) -> list[bytes | memoryview]:
        """Return the request in parts."""
        header = {**self._header, "id": number, "bytes": sum(map(len, self._parts))}
        return [json.dumps(header).encode() + b"\n", *self._parts]


class _CallArguments:
    """The values of arguments in one call, by role.

    ``positions`` are (p, n), with p either 1 or the number of sequences. If rows are chosen from
    tables, the tables hold some rows from position 0 on, and then those of the call. ``ids``,
    ``key_ids`` and ``offset`` choose them.
    """

    def __init__(
        self,
        payload: Payload,
        form: CallForm,
        reference: Reference,
        positions: Integers,
        vectors: Sequence[Vectors],
    ) -> None:
        self.payload, self.form, self.reference = payload, form, reference
        self.positions, self.all_vectors = positions, vectors
        self.remaining = iter(vectors)
        given = dict(
            zip((form.arguments[place].role for place in form.vectors), vectors, strict=False)
        )
        keys = given["k"].positions if "k" in given else None
        self.ids = self.table_positions = positions
        self.key_ids = positions if keys is None else keys
        self.offset = int(positions[0, 0])
        if form.chosen:
            self._choose_rows()
        self.tables = _tables(form, reference, self.table_positions) if form.has(*TABLES) else {}

    def _choose_rows(self) -> None:
        """Choose rows from longer tables."""
        if self.form.has("positions"):
            if self.form.follows_axes:  # (axes, p, n)
                self.ids, self.key_ids = (
                    self.reference.coordinates_at(array).astype(np.int64)
                    for array in (self.ids, self.key_ids)
                )
            first = np.arange(min(_SHOWN, int(self.ids.max()) + 1))
            near = np.unique(np.concatenate([first, *map(np.ravel, (self.ids, self.key_ids))]))
            # Like a cache, the table is longer than the sequence, so that code that counts rows
            # finds some. If the call has one row, the last is that of position 1, which no other
            # rule gives.
            more = np.resize(np.roll(near, -1), min(_SHOWN, self.positions.shape[-1]))
            self.table_positions = np.append(near, more)[None]
            self.ids, self.key_ids = (
                np.searchsorted(near, array) for array in (self.ids, self.key_ids)
            )
        elif len(self.positions) > 1:
            self.table_positions = np.arange(int(self.positions.max()) + 1)[None]
        else:
            first = np.arange(min(_SHOWN, self.offset))[None]
            self.table_positions = np.concatenate([first, self.positions], axis=1)
            self.offset = first.size

    @property
    def batch(self) -> int:
        """The number of sequences."""
        return self.all_vectors[0].batch if self.all_vectors else 1

    def heads(self, which: int) -> int:
        """Return the number of heads of the first or the last vectors."""
        return self.all_vectors[which].heads if self.all_vectors else 1

    def mask(self, padding: float | str | None) -> dict[str, Any]:
        """Add a mask: true for each row (b, n), or 0 to add to scores (b, 1, n, n).

        If n is large, the second has one query. With ``padding``, the last or the first row is
        masked by False or the lowest float32 number.
        """
        rows = self.positions.shape[1]
        hidden = {PADDED: rows - 1, LEFT_PADDED: 0, ADDED: 0}.get(str(padding), rows)
        kept = np.arange(rows) != hidden
        if not (self.form.added_mask or padding == ADDED):
            return self.payload.array(kept, broadcast=(self.batch, rows))
        queries = rows if rows**2 <= _MOST_SCORES else 1
        added = np.where(kept, 0, np.finfo(np.float32).min).astype(np.float32)
        return self.payload.array(added, broadcast=(self.batch, 1, queries, rows))


_ARRAYS: dict[str, Callable[[_CallArguments, Argument], dict[str, Any]]] = {
    **dict.fromkeys(("x", "q", "k"), lambda call, _: _add_vectors(call, next(call.remaining))),
    "v": lambda call, _: _add_vectors(call, values_of_v(call.all_vectors[0])),
    "qkv": lambda call, _: _add_vectors(call, *call.all_vectors, values_of_v(call.all_vectors[0])),
    "positions": lambda call, argument: call.payload.array(
        _positions(argument, call.form, call.reference, call.ids)
    ),
    "grid": lambda call, argument: call.payload.array(_grid_sizes(argument, call)),
    "k_positions": lambda call, argument: call.payload.array(
        _positions(argument, call.form, call.reference, call.key_ids)
    ),
    "offsets": lambda call, argument: call.payload.array(
        offsets_of_rows(
            _positions(argument, call.form, call.reference, call.ids), int(argument.value or 0)
        )
    ),
    "inv_freq": lambda call, _: call.payload.array(call.reference.frequencies.astype(np.float32)),
    "cos_sin": lambda call, argument: {
        "tuple": [
            _add_table(call, name)  # in the order of the parameter's name
            for name in ("cos", "sin")[:: -1 if argument.parameter.startswith("sin") else 1]
        ]
    },
    **dict.fromkeys(
        ("cos", "sin", "freqs_cis"), lambda call, argument: _add_table(call, argument.role)
    ),
    **dict.fromkeys(
        ("dtype", "device"),
        lambda call, argument: call.payload.attribute(
            argument.role, str(argument.value or call.form.dtype)
        ),
    ),
    "mask": lambda call, argument: call.mask(argument.value),
}
"""How to make the argument of a role if it is an array, or an attribute of one."""

_VALUES: dict[str, Callable[[_CallArguments, Argument], Any]] = {
    "offset": lambda call, _: call.offset,
    "length": lambda call, _: (
        call.positions.shape[1] if call.form.counted else int(call.positions.max()) + 1
    ),
    "axis": lambda call, _: 1 + (call.form.axes == "bnhd"),
    "style": lambda call, argument: layout_flag(argument.parameter, call.reference),
    "heads": lambda call, _: call.heads(0),
    "key_heads": lambda call, _: call.heads(-1),
    "dim": lambda call, _: (
        call.form.columns
        if call.form.axes == "bnf" or call.form.parameter_of("share")
        else role_settings(call.reference)["dim"]
    ),
    "share": lambda call, _: 2 * call.reference.pairs / call.form.columns,
    "base": lambda call, _: role_settings(call.reference)["base"],
    **dict.fromkeys(
        ("factor", "setting"),
        lambda call, argument: settings_by_name(call.reference).get(
            argument.parameter, call.reference.params.get("factor") or 1.0
        ),
    ),
    "scale": lambda _call, _: 1.0,
    "inverse": lambda _call, _: False,
    "downscale": lambda call, _: call.reference.params.get("side") == "key",
    "sections": lambda call, _: axis_sizes(call.reference)[0],
    **dict.fromkeys(NO_EFFECT, lambda _, argument: NO_EFFECT[argument.role]),
}
"""How to make the argument of a role if it is a number, a flag or None."""


def request(
    form: CallForm,
    reference: Reference,
    positions: Integers,
    vectors: Sequence[Vectors],
    *,
    in_place: bool,
) -> Payload:
    """Return the request of a call with these vectors at these positions, (n,) or (p, n)."""
    payload = Payload(form, in_place=in_place)
    positions = np.atleast_2d(positions)
    if vectors and form.flat:
        positions = np.repeat(positions, vectors[0].heads, axis=1)
    call = _CallArguments(payload, form, reference, positions, vectors)
    for argument in form.arguments:
        if argument.role in _ARRAYS:
            given = _ARRAYS[argument.role](call, argument)
        elif form.boxed and argument.role == "offset":
            several = len(positions) > 1
            starts = positions[:, 0] if several else np.array([call.offset])
            given = payload.array(starts, reshape=None if several or form.position_axes else ())
        elif argument.value is not None:
            given = {"value": argument.value}
        else:
            given = {"value": _VALUES[argument.role](call, argument)}
        payload.add(argument, given)
    return payload


def _positions(
    argument: Argument, form: CallForm, reference: Reference, positions: Integers
) -> NumberArray:
    """Return positions (p, n), or their coordinates, in the axes of a form."""
    *lead, sequences, rows = positions.shape  # the axes lead, if positions choose rows of tables
    shape = (sequences, rows) if "b" in form.position_axes else (-1,)
    ids = positions.astype(np.int64).reshape(*lead, *shape)
    if not form.follows_axes:
        return ids.astype(np.int32) if form.boxed else ids
    along = ids if lead else reference.coordinates_at(ids)  # (axes, p, n) or (axes, p · n)
    along = along.astype(np.float32) if form.real else along
    if argument.axis is None:
        return np.moveaxis(along, 0, form.position_axes.index("a"))
    return np.asarray(along[argument.axis])


def offsets_of_rows(positions: Integers, most: int) -> Integers:
    """Return numbers to add to positions: ``most`` in the first row, less by up to 2 in others."""
    return np.broadcast_to(
        np.maximum(most - np.arange(positions.shape[-1]) % 3, 0), positions.shape
    )


def _grid_sizes(argument: Argument, call: _CallArguments) -> Integers:
    """Return the sizes of a grid, with one frame if it has none and the parameter has frames.

    ``grid_sizes`` has those of each sequence, as in Wan; its value is the columns of the last one.
    """
    sizes = call.reference.grid or ()
    of_each = argument.parameter == "grid_sizes"
    frames = (1,) * (3 - len(sizes)) * (of_each or "thw" in argument.parameter)
    every = [frames + sizes] * (call.batch if of_each else 1)
    if argument.value is not None:
        every[-1] = (*every[-1][:-1], int(argument.value))
    return np.array(every, np.int64)


def layout_flag(parameter: str, reference: Reference) -> bool:
    """Return the reference's value of a flag that chooses the layout."""
    return ("neox" in parameter) == (reference.content.layout == "half")


def axis_sizes(reference: Reference) -> tuple[list[int], list[int]]:
    """Return the number of pairs of each axis, and of dimensions."""
    assert reference.coordinates is not None
    pairs, columns = (n * np.bincount(reference.coordinates.axes) for n in (1, 2))
    return pairs.tolist(), columns.tolist()


def role_settings(reference: Reference) -> dict[str, Any]:
    """Return the reference's settings for a function that makes an encoding, by role."""
    base = reference.params.get("base")
    if base is None and reference.coordinates is not None:
        base = reference.content.base
    return {"dim": 2 * reference.pairs, "base": float(base or USUAL_BASE)}


USUAL_BASE = 10_000.0
"""The base of references without one, as in most models."""


def settings_by_name(reference: Reference) -> dict[str, Any]:
    """Return the reference's numbers by name, for parameters with the same names.

    Those that a role covers are left out, and the length, which differs from call to call.
    """
    of_roles = ("dim", "base", "partial", "seq_len", "interleaved")
    named = {
        "min_timescale": 1,  # MaxText's wavelength of the first pair, divided by 2π
        "old_context_len": reference.params.get("original_max_position_embeddings"),  # torchtune's
        **reference.params,
    }
    numbers: dict[str, Any] = {
        name: value
        for name, value in named.items()
        if isinstance(value, int | float | tuple) and name not in of_roles
    }
    if factor := numbers.get("factor"):
        numbers |= dict.fromkeys(NAMES["factor"], factor)
        numbers["freq_scale"] = 1 / factor  # llama.cpp's
    return numbers


def values_of_v(vectors: Vectors) -> Vectors:
    """Return values of v that differ from q, so that v is not mistaken for q in results."""
    shape = vectors.batch, vectors.rows, vectors.heads, vectors.values.shape[3]
    return Vectors(np.random.default_rng(9).standard_normal(shape), vectors.rows)


def split_qkv(values: NumberArray, form: CallForm, shape: tuple[int, ...]) -> list[NumberArray]:
    """Return q, k and v from one array of a form, or nothing if it does not hold three."""
    if form.axes == "bnf":
        if values.shape != (*shape[:-1], 3 * shape[-1]):
            return []
        of_heads = (-1, 3) if form.by_head else (3, -1)
        split = values.reshape(*shape[:-1], *of_heads, form.columns)
        return [part.reshape(shape) for part in np.moveaxis(split, -3 + form.by_head, 0)]
    axis = form.axes.index("h") - len(form.axes) - 1 + form.by_head
    holds = values.ndim > len(form.axes) and values.shape[axis] == 3
    return list(np.moveaxis(values, axis, 0)) if holds else []


def _add_vectors(call: _CallArguments, *vectors: Vectors) -> dict[str, Any]:
    """Add vectors in the axes of a form; several are joined on an axis beside that of heads."""
    form, first = call.form, vectors[0]
    order = _axis_order(form.axes)
    whole = [(first.batch, first.rows, first.heads, form.columns)[axis] for axis in order]
    shape = list(first.shape(form.axes))
    values = first.values.astype(np.float32, copy=False).transpose(order)
    if len(vectors) > 1:
        parts = [part.values.astype(np.float32).transpose(order) for part in vectors]
        place = order.index(2) + form.by_head
        values = np.stack([np.broadcast_to(part, whole) for part in parts], axis=place)
        whole.insert(place, 3)
        if "h" in form.axes:
            shape.insert(form.axes.index("h") + form.by_head, 3)
        else:
            shape[-1] *= 3
    given = call.payload.array(
        bits_of_bfloat16(values.astype(np.float64))
        if form.dtype == "bfloat16"
        else values.astype(form.dtype, copy=False),
        broadcast=whole,
        reshape=shape,
    )
    return {**given, "dtype": form.dtype, "strided": first.strided}


_COPIES: dict[str, Layout] = {
    **dict.fromkeys(SIDE_BY_SIDE, "half"),
    **dict.fromkeys(SIDE_BY_SIDE.values(), "interleaved"),
}
"""The kinds of table with two copies of each value, and the layout of the copies."""

_JOINED_TABLES: dict[str, Callable[[NumberArray], NumberArray]] = {
    "complex": lambda factors: factors,
    "stacked": lambda factors: np.stack([factors.real, factors.imag], axis=-1),
    **dict.fromkeys(
        ("beside", "beside in halves", "beside by pairs"),
        lambda factors: np.concatenate([factors.real, factors.imag], axis=-1),
    ),
    "matrices": lambda factors: np.stack(
        [factors.real, -factors.imag, factors.imag, factors.real], axis=-1
    ).reshape(*factors.shape, 2, 2),
    **dict.fromkeys(("angles", "angles in halves", "angles side by side"), np.angle),
    **dict.fromkeys(
        ("sines beside", "sines beside in halves", "sines beside by pairs"),
        lambda factors: np.concatenate([factors.imag, factors.real], axis=-1),
    ),
}
"""How to write both tables in one array, from complex numbers (p, n, pairs)."""


def _tables(form: CallForm, reference: Reference, positions: Integers) -> dict[str, NumberArray]:
    """Return the reference's tables at positions (p, n), in float32.

    Shape: (p, n, columns), (p, n, pairs) or (p, n, pairs, 2); with several axes, the axis is first.
    """
    from posenc_cli.numerics.dtypes import FLOAT32

    # Each axis rotates all pairs.
    if form.follows_axes or form.parameter_of("grid") == "grid_sizes":
        along = reference.coordinates_at(positions) if "a" in form.table_axes else positions
        along = along[..., None]  # (axes, p, n, 1), or (1, rows, 1) for rows of all axes
        rotations = reference.scale * np.exp(1j * along * reference.frequencies)
        factors = rotations.astype(np.complex64)
    else:
        once, rows = np.unique(positions, return_inverse=True)  # exact values are expensive
        factors = reference.cells(once, FLOAT32).astype(np.complex64)[rows.reshape(positions.shape)]
    if layout := _COPIES.get(form.kind):
        parts = reference.content.blocks
        pairing = ColumnPairing.named(layout, reference.pairs, parts=parts)
        columns = {"first": list(pairing.first), "second": list(pairing.second)}
        twice = np.zeros((*factors.shape[:-1], 2 * reference.pairs), np.complex64)
        for name in columns.keys() - {form.blank}:
            twice[..., columns[name]] = factors
        factors = twice
    if form.kind in _JOINED_TABLES:
        return {"freqs_cis": _JOINED_TABLES[form.kind](factors)}
    return {"cos": factors.real, "sin": factors.imag}


def _add_table(call: _CallArguments, name: str) -> dict[str, Any]:
    """Add a table (p, n, w), or (axes, p, n, w), in the axes of a form."""
    form, table = call.form, call.tables[name]
    names = "abnw" if "a" in form.table_axes else "bnw"
    sizes = dict(zip(names, table.shape, strict=False)) | {"1": 1}
    shape = tuple(sizes[axis] for axis in form.table_axes) + table.shape[len(names) :]
    return call.payload.array(table.reshape(shape))
