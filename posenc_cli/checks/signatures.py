"""What functions that turn queries and keys take: the forms in which one can be called.

The names of a function's parameters say what each is for; where they say nothing, their number
does. A form settles the rest: the order of axes, the shape of positions, how tables repeat their
columns, and the library. Which form a function has is found by calling it (:mod:`calling`).
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.inference.turning import ColumnPairing
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers, NumberArray

    Role = str
    """What an argument is for.

    ``x``, ``q`` and ``k`` are vectors, ``v`` others that nothing turns. ``positions`` says where
    each row is, ``offset`` where the first is, ``length`` how many there are from position 0 on.
    Tables are ``cos`` and ``sin``, ``freqs_cis`` (complex, or both beside each other) or
    ``cos_sin`` (a tuple); beside them ``rows`` says which of their rows each row takes, and
    ``zero`` that the first takes the first. ``dim`` and ``base`` are the encoding's, ``style`` is
    true for the reference's layout.
    """

_NAMES: dict[str, tuple[Role, ...]] = {
    **dict.fromkeys(("x", "t_in", "hidden_states", "inputs", "input", "tensor", "vectors"), ("x",)),
    **dict.fromkeys(("q", "xq", "query", "queries", "query_states", "query_layer"), ("q",)),
    **dict.fromkeys(("k", "xk", "key", "keys", "key_states", "key_layer"), ("k",)),
    **dict.fromkeys(("v", "xv", "value", "values", "value_states", "value_layer"), ("v",)),
    **dict.fromkeys(("cos", "cosine", "cosines", "cos_cached", "freqs_cos", "cos_table"), ("cos",)),
    **dict.fromkeys(("sin", "sine", "sines", "sin_cached", "freqs_sin", "sin_table"), ("sin",)),
    **dict.fromkeys(("freqs_cis", "freqs_complex", "cis", "freqs_ci"), ("freqs_cis", "cos_sin")),
    **dict.fromkeys(("freqs", "rope_cache", "rope", "cache"), ("freqs_cis", "cos_sin")),
    **dict.fromkeys(
        ("position_embeddings", "rotary_emb", "rotary_pos_emb", "pos_emb", "cos_sin"),
        ("cos_sin", "freqs_cis"),
    ),
    **dict.fromkeys(("positions", "position_ids", "pos_ids", "input_pos", "token_positions"),
                    ("positions",)),
    **dict.fromkeys(("p", "ids", "idx", "indices", "cache_position"), ("positions",)),
    **dict.fromkeys(("pos", "position", "m"), ("positions", "offset")),
    **dict.fromkeys(("offset", "start_pos", "start", "seqlen_offset"), ("offset",)),
    **dict.fromkeys(("seqlen_offsets", "position_offset", "start_index"), ("offset",)),
    **dict.fromkeys(("past_len", "past_length", "past_seen_tokens"), ("offset",)),
    **dict.fromkeys(("past_key_values_length", "cur_pos", "input_offset"), ("offset",)),
    **dict.fromkeys(("seq_len", "seqlen", "length", "end", "max_len", "max_seq_len"), ("length",)),
    **dict.fromkeys(("max_seq_length", "max_position_embeddings", "context_length"), ("length",)),
    **dict.fromkeys(("dim", "dims", "head_dim", "rotary_dim", "d_head", "dim_head"), ("dim",)),
    "head_size": ("dim",),
    **dict.fromkeys(("base", "theta", "rope_theta", "rope_base"), ("base",)),
    **dict.fromkeys(("is_neox_style", "is_neox", "interleaved", "traditional"), ("style",)),
}  # fmt: skip
"""What parameters of these names are for, in lower case; the likelier of two first."""

_BY_COUNT: dict[int, tuple[tuple[Role, ...], ...]] = {
    1: (("x",), ("positions",), ("length",)),
    2: (
        ("x", "positions"),
        ("x", "freqs_cis"),
        ("x", "cos_sin"),
        ("x", "offset"),
        ("q", "k"),
    ),
    3: (
        ("q", "k", "positions"),
        ("x", "cos", "sin"),
        ("q", "k", "freqs_cis"),
        ("q", "k", "cos_sin"),
        ("positions", "q", "k"),
        ("q", "k", "offset"),
    ),
    4: (("q", "k", "cos", "sin"), ("x", "cos", "sin", "rows")),
    5: (("q", "k", "cos", "sin", "rows"),),
}
"""What parameters whose names say nothing are for, the commonest use of their number first."""

_PLACED: tuple[Role, ...] = ("positions", "offset", "cos", "sin", "freqs_cis", "cos_sin")
"""What tells a function where rows are."""

_TABLES: tuple[Role, ...] = ("cos", "sin", "freqs_cis", "cos_sin")

_BESIDE_TABLES: dict[Role, Role] = {"positions": "rows", "offset": "zero"}
"""What positions mean beside tables: posenc gives those of the positions, from row 0 on."""

# Axes: h heads, n rows, d columns of a head, w columns of a table, 1 an axis of one.
_AXES = ("1hnd", "1nhd", "hnd", "nhd", "nd", "n1hd")
_LEADS = {
    "1hnd": ("1nw", "nw", "11nw"),
    "1nhd": ("nw", "1nw", "1n1w", "n1w"),
    "hnd": ("nw", "1nw"),
    "nhd": ("nw", "n1w"),
    "nd": ("nw",),
    "n1hd": ("n11w", "nw"),
}
"""Axes that tables have beside vectors of those axes."""

_KINDS: dict[str, tuple[str, ...]] = {
    "cos": ("halves", "pairs", "neighbours"),
    "cos_sin": ("halves", "pairs", "neighbours"),
    "freqs_cis": ("complex", "stacked", "angles in halves", "angles side by side"),
}

_KIND_TEXTS = {
    "halves": "each value twice, in halves",
    "neighbours": "each value twice, side by side",
    "pairs": "a value for each pair",
    "complex": "complex",
    "stacked": "cosine and sine of each pair",
    "angles in halves": "angles, each twice, in halves",
    "angles side by side": "angles, each twice, side by side",
}

_NUMBERS: dict[Role, str] = {
    "offset": "the first position",
    "zero": "0",
    "length": "how many positions there are",
    "dim": "the columns that turn",
    "base": "the reference's base",
    "style": "as the reference pairs columns",
}

MOST_FORMS = 400
"""Forms that are tried at most: some tenths of a second."""


def roles_of(name: str) -> tuple[Role, ...]:
    """What a parameter may be for, by its name; nothing where that says nothing."""
    return _NAMES.get(name.lower().strip("_"), ())


class NamedParameter(Record):
    """A parameter of a function; ``default`` is its text, None where it has none."""

    name: str
    kind: str
    default: str | None

    @property
    def by_name(self) -> bool:
        """Whether it is given by name alone."""
        return self.kind == "KEYWORD_ONLY"

    @property
    def variable(self) -> bool:
        """Whether it stands for any number of arguments."""
        return self.kind.startswith("VAR_")

    def roles(self) -> tuple[Role, ...]:
        """What it may be for, by its name; nothing where that says nothing."""
        return roles_of(self.name)


class Signature(Record):
    """What is known of a function before it is called; ``parameters`` None: nothing of them."""

    name: str
    is_class: bool
    parameters: tuple[NamedParameter, ...] | None
    libraries: tuple[str, ...]

    @classmethod
    def of(cls, answer: dict[str, Any], installed: Sequence[str]) -> Signature:
        """The signature that the worker describes.

        Raises: KeyError or TypeError for what is no description.
        """
        parameters = answer["parameters"]
        likely = ["torch", "numpy"] if answer["torch_likely"] else ["numpy", "torch"]
        usable = [name for name in likely if name in installed]
        if not answer["torch_loaded"] and "numpy" in usable:
            usable = ["numpy"]
        return cls(
            str(answer["name"]),
            bool(answer["is_class"]),
            None
            if parameters is None
            else tuple(
                NamedParameter(str(given["name"]), str(given["kind"]), given["default"])
                for given in parameters
            ),
            tuple(usable),
        )

    @property
    def required(self) -> list[NamedParameter]:
        """The parameters without a default."""
        return [
            given for given in self.parameters or () if given.default is None and not given.variable
        ]

    @property
    def text(self) -> str:
        """The parameters as they are declared."""
        if self.parameters is None:
            return "…"
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
        return ", ".join(
            f"{stars.get(given.kind, '')}{given.name}"
            + ("" if given.default is None else f"={given.default}")
            for given in self.parameters
        )


class Argument(Record):
    """What one parameter is given; ``name`` where it is given by name."""

    role: Role
    parameter: str
    name: str | None = None


class CallForm(Record):
    """One way to call a function.

    ``axes``, ``table_axes`` and ``position_axes`` name the axes of vectors, tables and positions;
    ``columns`` is how many columns a vector has.
    """

    arguments: tuple[Argument, ...]
    library: str
    columns: int
    axes: str = ""
    position_axes: str = ""
    table_axes: str = ""
    kind: str = ""

    def has(self, *roles: Role) -> bool:
        """Whether an argument has one of these roles."""
        return any(argument.role in roles for argument in self.arguments)

    @property
    def vectors(self) -> tuple[int, ...]:
        """Which arguments are vectors."""
        return tuple(
            place
            for place, argument in enumerate(self.arguments)
            if argument.role in ("x", "q", "k")
        )

    @property
    def any_rows(self) -> bool:
        """Whether one call can have rows of any positions, in any order."""
        return self.has("positions", *_TABLES)

    @property
    def untried(self) -> list[str]:
        """What callers do that no call of this form does."""
        untried = []
        if self.has("rows"):
            untried.append("tables with other rows than those of the call")
        if self.has("zero"):
            untried.append("offsets other than 0")
        if self.vectors:
            untried.append(
                "heads and batches" if self.flat else "batches of more than one sequence"
            )
        return untried

    @property
    def from_zero(self) -> bool:
        """Whether every call has the positions from 0 on."""
        return not self.any_rows and not self.has("offset")

    @property
    def flat(self) -> bool:
        """Whether vectors have no axis of heads: then each is a row."""
        return self.axes == "nd"

    @property
    def guessed(self) -> bool:
        """Whether positions are given to a parameter whose name does not ask for them."""
        return any(
            argument.role == "positions" and "positions" not in roles_of(argument.parameter)
            for argument in self.arguments
        )

    @property
    def documented(self) -> bool:
        """Whether it is ``f(x, positions)`` with rows of vectors, which posenc always took."""
        roles = [argument.role for argument in self.arguments]
        return roles == ["x", "positions"] and self.flat and self.position_axes == "n"

    @property
    def roles_text(self) -> str:
        """What is given, in order: as ``--call`` takes it."""
        return ", ".join(argument.role for argument in self.arguments)

    def text(self, reference: Reference) -> str:
        """The form, for a reader."""
        width = reference.pairs * (1 if self.kind in ("pairs", "complex", "stacked") else 2)
        sizes = {"d": str(self.columns), "w": str(width), "h": "heads"}

        def shape(axes: str) -> str:
            names = [sizes.get(axis, axis) for axis in axes]
            return f"({', '.join(names)}{',' if len(names) == 1 else ''})"

        def names(*roles: Role) -> str:
            return ", ".join(each.parameter for each in self.arguments if each.role in roles)

        parts = []
        if self.axes:
            parts.append(f"{names('x', 'q', 'k', 'v')} {shape(self.axes)}")
        if self.position_axes:
            parts.append(f"{names('positions', 'rows')} {shape(self.position_axes)}")
        parts += [
            f"{argument.parameter} {_NUMBERS[argument.role]}"
            for argument in self.arguments
            if argument.role in _NUMBERS
        ]
        if self.has(*_TABLES):
            axes = shape(self.table_axes + ("2" if self.kind == "stacked" else ""))
            parts.append(
                f"{names(*_TABLES)} {axes}, {_KIND_TEXTS[self.kind]}: posenc's own, float32"
            )
        given = ", ".join(
            argument.parameter if argument.name is None else f"{argument.name}="
            for argument in self.arguments
        )
        return f"({given}) with {'; '.join(parts)}; {self.library}"


def forms(signature: Signature, reference: Reference, call: Sequence[str] = ()) -> list[CallForm]:
    """The forms in which a function may be called, those that its signature names first.

    ``call`` are the roles of its arguments, where they were said.
    """
    found: dict[CallForm, None] = {}
    assignments = list(_called(signature, call) if call else _assignments(signature))
    widths = dict.fromkeys((reference.head, 2 * reference.pairs))
    for library, arguments, columns in itertools.product(signature.libraries, assignments, widths):
        bare = CallForm(arguments, library, columns)
        found.update(dict.fromkeys(_expanded(bare, signature)))
    return list(found)[:MOST_FORMS]


def _called(signature: Signature, call: Sequence[str]) -> Iterator[tuple[Argument, ...]]:
    """The arguments that were said, in the order of the parameters."""
    names = [given for given in signature.parameters or () if not given.variable]
    arguments = []
    for place, role in enumerate(call):
        given = names[place] if place < len(names) else None
        by_name = given.name if given is not None and given.by_name else None
        arguments.append(Argument(role, given.name if given else role, by_name))
    yield tuple(arguments)


def _assignments(signature: Signature) -> Iterator[tuple[Argument, ...]]:
    """What the parameters may be for: by their names, then by their number alone."""
    if signature.parameters is None or (
        not signature.required and all(given.variable for given in signature.parameters)
    ):
        for count in (2, 4, 3):
            for roles in _BY_COUNT[count]:
                yield tuple(Argument(role, role) for role in roles)
        return
    required = signature.required
    optional = [
        given
        for given in signature.parameters
        if given.default is not None and given.roles() and not given.variable
    ]
    by_name = list(itertools.product(*(given.roles() or ("",) for given in required)))
    named = [roles for roles in by_name if "" not in roles and len(set(roles)) == len(roles)]
    partly = [
        roles
        for roles in _BY_COUNT.get(len(required), ())
        if any(
            all(known in ("", role) for known, role in zip(some, roles, strict=True))
            for some in by_name
        )
    ]
    for by_use in dict.fromkeys((*named, *partly)):
        # Beside tables, positions say which of their rows.
        meant = _BESIDE_TABLES if any(role in _TABLES for role in by_use) else {}
        roles = tuple(meant.get(role, role) for role in by_use)
        arguments = tuple(
            Argument(role, given.name, given.name if given.by_name else None)
            for role, given in zip(roles, required, strict=True)
        )
        yield from (arguments + more for more in _optional(roles, optional))


def _optional(
    roles: tuple[Role, ...], optional: list[NamedParameter]
) -> Iterator[tuple[Argument, ...]]:
    """What optional parameters are given as well, by name: first what tells where rows are."""
    missing = [(role, given) for given in optional for role in given.roles() if role not in roles]
    for role, given in missing:
        if role == "k" and "q" in roles:
            key = (Argument(role, given.name, given.name),)
            others = [other for other in optional if other != given]
            yield from (key + more for more in _optional((*roles, "k"), others))
    if not any(role in _PLACED for role in roles):
        for wanted in ("positions", "offset", "length"):
            for role, given in missing:
                if role == wanted:
                    yield (Argument(role, given.name, given.name),)
        pair = tuple(
            Argument(role, given.name, given.name) for role, given in missing if role in _TABLES
        )
        if pair:
            yield pair
    numbers = ("dim", "base", "length")
    makes = tuple(
        Argument(role, given.name, given.name) for role, given in missing if role in numbers
    )
    if makes and not {"x", "q", "k"} & set(roles):
        yield makes
    yield ()


def _expanded(form: CallForm, signature: Signature) -> Iterator[CallForm]:
    """A form with each order of axes, shape of positions and kind of table that code has."""
    if not form.vectors:
        for axes in ("n", "1n") if form.has("positions") else ("",):
            yield replace(form, position_axes=axes)
        return
    hint = next((g.default for g in signature.parameters or () if g.name == "unsqueeze_dim"), None)
    first = "1nhd" if form.has("freqs_cis") or hint == "2" else "1hnd"
    if form.has("positions") and not form.has("q"):
        first = "nd"
    names = {argument.parameter for argument in form.arguments}
    if names & {"input_pos"} or any(
        given.name in ("seqlen_offsets", "interleaved") for given in signature.parameters or ()
    ):
        first = "1nhd"  # torchtune's, flash-attention's
    table_role = next((role for role in ("cos", "cos_sin", "freqs_cis") if form.has(role)), None)
    for axes in dict.fromkeys((first, *_AXES)):
        shaped = replace(form, axes=axes)
        if form.has("positions"):
            flat_first = "position_ids" not in names and "input_pos" not in names
            places = ("n", "1n") if flat_first else ("1n", "n")
            yield from (replace(shaped, position_axes=each) for each in places)
        elif table_role is not None:
            # Rows are chosen from whole tables, which caches keep with axes of one before them.
            chosen = form.has("rows") and axes == "1hnd"
            leads = ("11nw", *_LEADS[axes]) if chosen else _LEADS[axes]
            rows = ("1n", "n") if chosen else ("",)
            for kind, lead, of_rows in itertools.product(_KINDS[table_role], leads, rows):
                yield replace(shaped, table_axes=lead, kind=kind, position_axes=of_rows)
        else:
            yield shaped


class Vectors(Record):
    """Vectors for a call: ``values`` (n, h, d), or unit vectors of these columns at n rows."""

    rows: int
    heads: int
    values: NumberArray | None = None
    first: int = 0

    @classmethod
    def units(cls, rows: int, columns: range) -> Vectors:
        """A unit vector along each of these columns, at each of n rows."""
        return cls(rows, len(columns), None, columns.start)


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


def shape_of(axes: str, *, rows: int, heads: int, columns: int) -> tuple[int, ...]:
    """The shape that axes have.

    >>> shape_of("1hnd", rows=5, heads=3, columns=64)
    (1, 3, 5, 64)
    """
    if axes == "nd":
        return rows * heads, columns
    sizes = {"1": 1, "h": heads, "n": rows, "d": columns}
    return tuple(sizes[axis] for axis in axes)


def request(
    form: CallForm,
    reference: Reference,
    positions: Integers,
    vectors: Sequence[Vectors],
    *,
    in_place: bool,
) -> Payload:
    """The call of a form: these vectors at these positions."""
    payload = Payload(form, in_place=in_place)
    heads = vectors[0].heads if vectors else 1
    repeats = heads if form.flat else 1
    remaining = iter(vectors)
    tables = _tables(form, reference, positions) if form.has(*_TABLES) else {}
    for argument in form.arguments:
        role = argument.role
        if role in ("x", "q", "k"):
            given = _vectors(payload, form, next(remaining))
        elif role == "v":
            given = _vectors(payload, form, vectors[0])
        elif role in ("positions", "rows"):
            where = positions if role == "positions" else np.arange(positions.size)
            where = np.repeat(where.astype(np.int64), repeats)
            axes = form.position_axes or "n"
            given = payload.array(where.reshape((1,) * axes.count("1") + (-1,)))
        elif role == "cos_sin":
            both = [_table(payload, form, tables[name], repeats) for name in ("cos", "sin")]
            given = {"tuple": both}
        elif role in _TABLES:
            given = _table(payload, form, tables[role], repeats)
        else:
            given = {"value": _constant(argument, reference, positions)}
        payload.add(argument, given)
    return payload


def _constant(argument: Argument, reference: Reference, positions: Integers) -> Any:
    """The value of an argument that is one number."""
    halves = reference.content.layout == "half"
    constants = {
        "offset": int(positions[0]),
        "zero": 0,
        "length": int(positions.max()) + 1,
        "style": halves if "neox" in argument.parameter else not halves,
        **settings(reference),
    }
    return constants[argument.role]


def settings(reference: Reference) -> dict[str, Any]:
    """What a function that makes an encoding is told of the reference, by role."""
    return {"dim": 2 * reference.pairs, "base": float(reference.params.get("base") or 10_000.0)}


def _vectors(payload: Payload, form: CallForm, vectors: Vectors) -> dict[str, Any]:
    """Vectors in the axes of a form."""
    columns = form.columns
    sizes = {"rows": vectors.rows, "heads": vectors.heads, "columns": columns}
    shape = shape_of(form.axes, **sizes)
    heads_first = "h" in form.axes and form.axes.index("h") < form.axes.index("n")
    if vectors.values is None:
        units = np.eye(columns, dtype=np.float32)
        units = units[vectors.first : vectors.first + vectors.heads]
        base = units[:, None] if heads_first else units[None]
        order = (vectors.heads, vectors.rows) if heads_first else (vectors.rows, vectors.heads)
        return payload.array(base, broadcast=(*order, columns), reshape=shape)
    values = vectors.values.astype(np.float32)  # (n, h, d)
    if heads_first:
        values = values.transpose(1, 0, 2)
    return payload.array(np.ascontiguousarray(values).reshape(shape))


def _tables(form: CallForm, reference: Reference, positions: Integers) -> dict[str, NumberArray]:
    """The reference's tables at some positions, in float32.

    Shape: (positions, columns), (positions, pairs) or (positions, pairs, 2).
    """
    from posenc_cli.numerics.dtypes import FLOAT32

    factors = reference.cells(positions, FLOAT32).astype(np.complex64)  # (n, pairs)
    if form.kind == "complex":
        return {"freqs_cis": factors}
    if form.kind == "stacked":
        return {"freqs_cis": np.stack([factors.real, factors.imag], axis=-1)}
    if form.kind == "pairs":
        return {"cos": factors.real, "sin": factors.imag}
    halves = form.kind.endswith("halves")
    pairing = ColumnPairing.named(
        "half" if halves else "interleaved", reference.pairs, parts=reference.content.blocks
    )

    def repeated(table: NumberArray) -> NumberArray:
        out = np.empty((table.shape[0], 2 * table.shape[1]), np.float32)
        out[:, list(pairing.first)] = out[:, list(pairing.second)] = table
        return out

    if form.kind.startswith("angles"):
        return {"freqs_cis": repeated(np.angle(factors))}
    return {"cos": repeated(factors.real), "sin": repeated(factors.imag)}


def _table(payload: Payload, form: CallForm, table: NumberArray, repeats: int) -> dict[str, Any]:
    """A table in the axes of a form."""
    rows = np.repeat(table, repeats, axis=0) if repeats > 1 else table
    sizes = {"n": rows.shape[0], "w": rows.shape[1], "1": 1}
    shape = tuple(sizes[axis] for axis in form.table_axes) + rows.shape[2:]
    return payload.array(rows.reshape(shape))


def rows_of(result: NumberArray, form: CallForm, vectors: Vectors) -> NumberArray:
    """A result that has the shape of its vectors, as (n, h, d)."""
    rows, heads = vectors.rows, vectors.heads
    if "h" in form.axes and form.axes.index("h") < form.axes.index("n"):
        return result.reshape(heads, rows, -1).transpose(1, 0, 2)
    return result.reshape(rows, heads, -1)
