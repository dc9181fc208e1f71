"""Build the forms in which a function can be called.

A form says what each argument is for, the order of axes, the shape of positions, how tables repeat
their columns, and the library. :mod:`form_choice` finds the form of a function by calling it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

from posenc_cli.calls.roles import (
    ALONG,
    BYSTANDERS,
    CALL_AXES,
    LOCATING,
    NUMBERS,
    ROLES_BY_COUNT,
    SETTINGS,
    TABLES,
    VECTORS,
    roles_of,
)
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from posenc_cli.calls.signature import NamedParameter, Signature
    from posenc_cli.inference.reference import Reference

_REAL_COORDINATES = ("img_ids", "txt_ids", "ids", "coords", "coordinates")
"""Parameters that take coordinates as real numbers in most code, as in Flux."""

# Axes: those of CALL_AXES; w: columns of a table; a: axes of coordinates; 1: an axis of length 1.
_TABLE_AXES = {
    "bhnd": ("bnw", "nw", "b1nw"),
    "bnhd": ("nw", "bnw", "bn1w", "n1w"),
    "hnd": ("nw", "1nw"),
    "nhd": ("nw", "n1w"),
    "nd": ("nw",),
    "nbhd": ("n11w", "nw"),
    "bnf": ("nw", "bnw"),
}
"""Axes of the tables that are given with vectors of these axes."""

_CACHE_AXES = ("11nw", "1nw", "nw")
"""Axes of tables that are longer than a sequence; a cache may have rows before those of the
call."""

_KINDS: dict[str, tuple[str, ...]] = {
    "cos": ("halves", "pairs", "neighbours"),
    "cos_sin": ("halves", "pairs", "neighbours"),
    "freqs_cis": (
        *("complex", "stacked", "angles in halves", "angles side by side", "angles", "matrices"),
    ),
}

_VALUE_PER_PAIR = ("pairs", "angles")
"""Kinds with one value for each pair. If at most half of a head rotates, they are tried first. A
function that repeats values also accepts repeated ones, and rotates twice as many columns without
changing lengths. A function that needs repeated values changes lengths if given single ones."""

_KIND_TEXTS = {
    "halves": "each value twice, in halves",
    "neighbours": "each value twice, side by side",
    "pairs": "a value for each pair",
    "complex": "complex",
    "stacked": "cosine and sine of each pair",
    "beside": "cosines of all pairs, then sines",
    "beside in halves": "cosines, then sines, each value twice, in halves",
    "beside by pairs": "cosines, then sines, each value twice, side by side",
    "sines beside": "sines of all pairs, then cosines",
    "sines beside in halves": "sines, then cosines, each value twice, in halves",
    "sines beside by pairs": "sines, then cosines, each value twice, side by side",
    "matrices": "the 2 × 2 matrix of each pair",
    "angles in halves": "angles, each twice, in halves",
    "angles side by side": "angles, each twice, side by side",
    "angles": "an angle for each pair",
}

SIDE_BY_SIDE = {
    "halves": "neighbours",
    "angles in halves": "angles side by side",
    "beside in halves": "beside by pairs",
    "sines beside in halves": "sines beside by pairs",
}
"""Kinds whose two copies of a value are in two halves, and the kinds with adjacent copies."""

_REFERENCE_NUMBERS = (
    *("base", "factor", "setting", "style", "length", "dim", "sections", "inv_freq", "v"),
    *("downscale", "k_positions", "share"),
)
"""Roles whose numbers a function of vectors also gets for optional parameters."""

_STACKED = ("bnhd", "nhd", "bhnd", "bnf")
"""Axes of an array of q, k and v: three on an axis before that of heads, or all side by side in
one axis."""

_TRAILING = {"stacked": "2", "matrices": "22"}
"""The axes after that of pairs, for tables with more than one number per pair."""

_ROW_COUNT = "how many rows the call has"


class Argument(Record):
    """What one parameter is given; ``name`` is set if it is given by name.

    ``axis`` is set for positions along a single axis, counted from the last: -1, -2 or -3.
    ``value`` replaces the value of its role if it is not None.
    """

    role: str
    parameter: str
    name: str | None = None
    axis: int | None = None
    value: float | str | None = None


class CallForm(Record):
    """One way to call a function.

    ``axes``, ``table_axes`` and ``position_axes`` name the axes of vectors, tables and positions.
    ``columns`` is the number of columns of a vector. ``chosen`` says that tables have more rows
    than the call, and positions or an offset choose them. ``blank`` says which of the two copies of
    a value is 0. ``dtype`` is the number format of vectors. ``counted`` says that a length counts
    the rows of the call, even if they do not begin at 0. ``real`` says that integer coordinates are
    given as real numbers. ``boxed`` says that an offset is an array, and positions are int32.
    ``added_mask`` says that a mask is added to scores, and has their four axes. ``by_head`` says
    that q, k and v are side by side in each head.
    """

    arguments: tuple[Argument, ...]
    library: str
    columns: int
    axes: str = ""
    position_axes: str = ""
    table_axes: str = ""
    kind: str = ""
    chosen: bool = False
    blank: Literal["", "first", "second"] = ""
    dtype: str = "float32"
    counted: bool = False
    real: bool = False
    boxed: bool = False
    added_mask: bool = False
    by_head: bool = False

    def has(self, *roles: str) -> bool:
        """Return whether an argument has one of these roles."""
        return any(argument.role in roles for argument in self.arguments)

    @property
    def parameters(self) -> set[str]:
        """The names of the parameters that are given a value."""
        return {argument.parameter for argument in self.arguments}

    @property
    def vectors(self) -> tuple[int, ...]:
        """The indices of arguments that are vectors; an array of q, k and v counts twice."""
        return tuple(
            place
            for place, argument in enumerate(self.arguments)
            if argument.role in VECTORS
            for _ in range(1 + (argument.role == "qkv"))
        )

    @property
    def any_rows(self) -> bool:
        """Whether one call can have rows at any positions, in any order."""
        return self.has("positions") or (self.has(*TABLES) and not self.has("grid"))

    @property
    def follows_axes(self) -> bool:
        """Whether positions are given as coordinates along several axes."""
        return "a" in self.position_axes + self.table_axes or any(
            argument.axis is not None for argument in self.arguments
        )

    def parameter_of(self, *roles: str) -> str:
        """Return the first parameter with one of these roles, or "" if there is none."""
        return next(
            (argument.parameter for argument in self.arguments if argument.role in roles), ""
        )

    @property
    def position_parameter(self) -> str:
        """The parameter of positions or of an offset, with or without tables; "" if none."""
        return self.parameter_of("positions", "offset")

    @property
    def positions_per_sequence(self) -> bool:
        """Whether each sequence of a batch can have different positions."""
        return "b" in self.position_axes or (
            self.has(*TABLES) and not self.chosen and "b" in self.table_axes
        )

    @property
    def from_zero(self) -> bool:
        """Whether the positions of every call begin at 0."""
        return not self.any_rows and not self.has("offset")

    @property
    def has_heads(self) -> bool:
        """Whether a row has several heads, on a separate axis or side by side."""
        return "h" in self.axes or "f" in self.axes

    @property
    def one_head_count(self) -> bool:
        """Whether one number, or one array, gives the number of heads of both q and k."""
        return self.has("qkv") or (self.has("heads") and not self.has("key_heads"))

    @property
    def flat(self) -> bool:
        """Whether vectors have no axis of heads: then each head is a row."""
        return self.axes == "nd"

    @property
    def guessed(self) -> bool:
        """Whether positions are given to a parameter whose name can mean something else."""
        return any(
            argument.role == "positions"
            and argument.axis is None
            and roles_of(argument.parameter) != ("positions",)
            for argument in self.arguments
        )

    @property
    def roles_text(self) -> str:
        """The roles of the arguments in order, in the syntax of ``--call``."""
        return ", ".join(
            argument.role if argument.axis is None else ALONG[argument.axis]
            for argument in self.arguments
        )

    def text(self, reference: Reference) -> str:
        """Return the form in words."""
        single = self.kind in (*_VALUE_PER_PAIR, "complex", *_TRAILING)
        width = reference.pairs * (1 if single else 4 if "beside " in self.kind else 2)
        sizes = {
            "d": str(self.columns),
            "f": f"heads·{self.columns}",
            "w": str(width),
            "h": "heads",
            "a": str(reference.axes),
            "b": "1",
        }
        if self.has("qkv"):
            sizes["f"] = f"heads·3·{self.columns}" if self.by_head else f"3·{sizes['f']}"

        def shape(axes: str) -> str:
            names = [sizes.get(axis, axis) for axis in axes]
            return f"({', '.join(names)}{',' if len(names) == 1 else ''})"

        def names(*roles: str) -> str:
            return ", ".join(
                argument.parameter for argument in self.arguments if argument.role in roles
            )

        parts = []
        if self.axes:
            of_heads = ("h3" if self.by_head else "3h") if self.has("qkv") else "h"
            axes = shape(self.axes.replace("h", of_heads))
            parts.append(f"{names('qkv', 'x', 'q', 'k', 'v')} {axes}")
        if self.position_axes:
            kind = ", real numbers" * self.real
            parts.append(f"{names('positions')} {shape(self.position_axes)}{kind}")
        if self.has("inv_freq"):
            parts.append(f"{names('inv_freq')} ({reference.pairs},), the reference's frequencies")
        numbers = {**NUMBERS, "length": _ROW_COUNT} if self.counted else NUMBERS
        numbers = {**numbers, "mask": f"zeros {shape('b1nn')}"} if self.added_mask else numbers
        parts += [
            f"{argument.parameter} {numbers[argument.role]}"
            for argument in self.arguments
            if argument.role in NUMBERS and not (self.chosen and argument.role == "offset")
        ]
        if self.has(*TABLES):
            axes = shape(self.table_axes + _TRAILING.get(self.kind, ""))
            chosen = f", rows chosen by {self.position_parameter}" if self.chosen else ""
            parts.append(
                f"{names(*TABLES)} {axes}, {_KIND_TEXTS[self.kind]}: posenc's own, float32{chosen}"
            )
        given = ", ".join(
            argument.parameter if argument.name is None else f"{argument.name}="
            for argument in self.arguments
        )
        return f"({given}) with {'; '.join(parts)}; {self.library}"


def forms(
    signature: Signature,
    reference: Reference,
    call: Sequence[str] = (),
    orders: Sequence[str] = CALL_AXES,
    layer_type: str | None = None,
) -> list[CallForm]:
    """Return the forms in which a function may be called, likeliest first.

    ``call`` are the roles of its arguments, if they were given. ``orders`` are the orders of axes
    that vectors may have. ``layer_type`` is the name of the reference's layers.
    """
    axes = reference.axes
    layers = [
        Argument("layer_type", given.name, given.name)
        for given in signature.parameters or ()
        if layer_type and given.default is not None and given.roles()[:1] == ("layer_type",)
    ]
    assignments = [
        tuple(
            replace(argument, value=layer_type) if argument.role == "layer_type" else argument
            for argument in (*arguments, *layers)
            if argument.role not in SETTINGS
            or not argument.name
            or reference.params.get(SETTINGS[argument.role].get(argument.parameter, "factor"))
        )
        for arguments in (
            [_arguments_by_role(signature, call)] if call else _assignments(signature, axes)
        )
        if all(argument.role != "grid" for argument in arguments) or reference.grid is not None
        if len({"cos", "sin"} & {argument.role for argument in arguments}) != 1
        if all(argument.role != "sections" for argument in arguments) or axes
        if all(argument.role != "layer_type" for argument in arguments) or layer_type
    ]
    widths = dict.fromkeys((reference.head, 2 * reference.pairs))
    groups = [
        list(_expand(CallForm(arguments, library, columns), signature, reference, orders))
        for library, arguments, columns in itertools.product(
            signature.libraries, assignments, widths
        )
    ]
    groups = [
        [
            replace(form, counted=counted, added_mask=added, by_head=by_head)
            for by_head in _flags_for("qkv", group)
            for added in _flags_for("mask", group)
            # With a first position, a length may count the rows of the call.
            for counted in _flags_for("length", [g for g in group if g.has("positions", "offset")])
            for form in group
        ]
        for group in groups
    ]
    in_order: Iterable[CallForm] = itertools.chain.from_iterable(groups)
    if not signature.named and not call:  # the usual form of each number of arguments
        in_order = filter(None, itertools.chain(*itertools.zip_longest(*groups)))
    if axes:  # coordinates first: a function of these may also accept one number for each row
        in_order = sorted(in_order, key=lambda form: form.has("positions") > form.follows_axes)
    return list(dict.fromkeys(in_order))


def _argument(role: str, parameter: str, *, by_name: bool) -> Argument:
    name = parameter if by_name else None
    if role in ALONG:
        return Argument("positions", parameter, name, ALONG.index(role) - len(ALONG))
    return Argument(role, parameter, name)


def _flags_for(role: str, group: Sequence[CallForm]) -> tuple[bool, ...]:
    """Return both values of a flag if the forms have the role that it describes."""
    return (False, True) if any(form.has(role) for form in group) else (False,)


def _arguments_by_role(signature: Signature, call: Sequence[str]) -> tuple[Argument, ...]:
    """Return the arguments for roles that were given, in the order of the parameters."""
    names = [given for given in signature.parameters or () if not given.variable]
    return tuple(
        _argument(role, given.name if given else role, by_name=given is not None and given.by_name)
        for role, given in itertools.zip_longest(call, names[: len(call)])
    )


def _assignments(signature: Signature, axes: int) -> Iterator[tuple[Argument, ...]]:
    """Yield assignments of roles to parameters: by their names, or else by their number.

    If positions have several ``axes``, one parameter for each axis may replace them.
    """
    if signature.parameters is None or not signature.named:
        for roles in itertools.chain(*(ROLES_BY_COUNT[count] for count in (2, 4, 3))):
            yield tuple(Argument(role, role) for role in roles)
        return
    if signature.unsupported:
        return
    used = [given for given in signature.parameters if not {*given.roles()} & BYSTANDERS]
    required = [given for given in used if given.required]
    optional = [
        given
        for given in used
        if given.default is not None and given.roles() and not given.variable
    ]
    numbers = _reference_numbers(signature)
    for by_use in _roles_of_required(required, signature, axes):
        uses = dict(zip((given.name for given in required), by_use, strict=True))
        arguments = tuple(
            _argument(uses.get(given.name) or given.roles()[0], given.name, by_name=given.by_name)
            for given in signature.required
        )
        for more in _optional_arguments(by_use, optional):
            names = {argument.parameter for argument in (*arguments, *more)}
            others = [argument for argument in numbers if argument.parameter not in names]
            if others and {*VECTORS} & {*by_use}:
                yield (*arguments, *more, *others)
            yield arguments + more


def _roles_of_required(
    required: Sequence[NamedParameter], signature: Signature, axes: int
) -> Iterable[tuple[str, ...]]:
    """Return the roles that required parameters may have: by name, or by number if unnamed."""
    along, of_axes = {*ALONG[-axes:]} if axes else set(), {*ALONG, "grid"}
    by_name = [
        tuple("" if role in of_axes and not axes else role for role in roles)
        for roles in itertools.product(*(_possible_roles(given, signature) for given in required))
    ]
    named = [
        roles
        for roles in by_name
        if "" not in roles
        and len(set(roles)) == len(roles)
        and {*roles} & {*ALONG} in (set(), along)
    ]
    partly = [
        roles
        for roles in ROLES_BY_COUNT.get(len(required), ())
        if any(
            all(named_role in ("", role) for named_role, role in zip(by_names, roles, strict=True))
            for by_names in by_name
        )
    ]
    return dict.fromkeys((*named, *partly))


def _possible_roles(given: NamedParameter, signature: Signature) -> tuple[str, ...]:
    """Return the roles of a parameter; ``base`` may be the first position if no other can be."""
    of_vectors = any({*required.roles()} & {*VECTORS} for required in signature.required)
    if of_vectors and given.roles() == ("base",) and not _position_parameters(signature):
        return ("positions", "offset", "base")
    return given.roles() or ("",)


def _reference_numbers(signature: Signature) -> list[Argument]:
    """Return optional parameters of a function of vectors that take numbers of the reference."""
    return [
        Argument(role, given.name, given.name)
        for given in signature.parameters or ()
        for role in given.roles()[:1]
        if given.default is not None
        and role in _REFERENCE_NUMBERS
        and not given.has_other_meaning(role)
    ]


def _optional_arguments(
    roles: tuple[str, ...], optional: list[NamedParameter]
) -> Iterator[tuple[Argument, ...]]:
    """Yield optional parameters to give by name as well, those for positions first."""
    missing = [
        Argument(role, given.name, given.name)
        for given in optional
        for role in given.roles()
        if role not in roles
    ]
    for key in missing:
        if key.role == "k" and "q" in roles:
            others = [given for given in optional if given.name != key.parameter]
            yield from ((key, *more) for more in _optional_arguments((*roles, "k"), others))
    if not {*roles} & {*LOCATING}:
        for wanted in ("positions", "offset", "length"):
            yield from ((one,) for one in missing if one.role == wanted)
        # A word of a flag or a number may be cos or sin (sin_first, cos_scale).
        first = tuple("TF-.0123456789'")
        plain = {given.name for given in optional if (given.default or "").startswith(first)}
        tables = [one for one in missing if one.role in TABLES and one.parameter not in plain]
        by_name = itertools.groupby(tables, lambda one: one.parameter)
        yield from filter(None, itertools.product(*(list(ones) for _, ones in by_name)))
    numbers = ("dim", "share", "base", "factor", "setting", "length")
    makes = tuple(one for one in missing if one.role in numbers)
    if makes and not {*VECTORS} & {*roles}:
        yield makes
    yield ()


def group_by_position_parameters(
    found: Iterable[CallForm], signature: Signature
) -> list[list[CallForm]]:
    """Group forms by the parameters that determine positions.

    Forms with fewer of the reference's numbers come later. Last are forms without any of these
    parameters, or without k, although the signature has some, and forms with tables of only the
    call's rows, in which no parameter can choose rows.
    """
    places, numbers = _position_parameters(signature), _reference_numbers(signature)
    has_k = any("k" in given.roles() for given in signature.parameters or ())
    groups: dict[tuple[bool, int, tuple[str, ...]], list[CallForm]] = {}
    for form in found:
        names = tuple(
            argument.parameter for argument in form.arguments if argument.parameter in places
        )
        ones_own = form.has(*TABLES) and form.has("positions", "offset") and not form.chosen
        without_k = has_k and form.has("q") and not form.has("k")
        left_out = ones_own or without_k or (bool(places) and not form.has(*LOCATING))
        lacks = (
            sum(argument.parameter not in form.parameters for argument in numbers)
            if form.axes
            else 0
        )
        groups.setdefault((left_out, lacks, names), []).append(form)
    return [groups[key] for key in sorted(groups, key=lambda key: key[:2])]


def missing_position_parameters(form: CallForm, signature: Signature) -> str:
    """Return the parameters that determine positions, if a form gives none of them; else ""."""
    return "" if form.has(*LOCATING) else ", ".join(_position_parameters(signature))


def _position_parameters(signature: Signature) -> list[str]:
    return [given.name for given in signature.parameters or () if {*given.roles()} & {*LOCATING}]


def forms_with_chosen_rows(
    form: CallForm, signature: Signature, orders: Sequence[str] = CALL_AXES
) -> Iterator[CallForm]:
    """Yield a form of tables with an optional parameter that may choose their rows."""
    for parameter in signature.parameters or ():
        role = next((role for role in parameter.roles() if role in ("positions", "offset")), None)
        if role is None or parameter.default is None or parameter.name in form.parameters:
            continue
        more = Argument(role, parameter.name, parameter.name)
        longer = replace(form, arguments=(*form.arguments, more))
        yield from _with_chosen_rows(longer, (form.table_axes, *_CACHE_AXES))
        # Tables that an offset slices may have fitted by chance, with rows along another axis.
        for axes in sorted(orders, key=len, reverse=True) if role == "offset" else ():
            yield from _with_chosen_rows(replace(longer, axes=axes), _TABLE_AXES[axes])


def _expand(
    form: CallForm, signature: Signature, reference: Reference, orders: Sequence[str]
) -> Iterator[CallForm]:
    """Yield a form in each order of axes, shape of positions and kind of table that code uses."""
    if not form.vectors:
        # Tables without vectors rotate nothing.
        yield from () if form.has(*TABLES) else _with_position_shapes(form, reference.axes)
        return
    likely = _likely_axes(form, signature)
    for axes in sorted(orders, key=lambda order: order != likely):
        shaped = _with_axes(form, axes, signature)
        if shaped is None:
            continue
        if not form.has(*TABLES):
            yield from _with_position_shapes(shaped, reference.axes)
            continue
        of_kinds = [replace(shaped, kind=kind) for kind in _table_kinds(form, reference)]
        if form.has("positions", "offset"):
            caches = _CACHE_AXES if axes == "bhnd" else _TABLE_AXES[axes]
            for one in of_kinds:
                yield from _with_chosen_rows(one, caches, reference.axes * form.has("sections"))
        leads = _TABLE_AXES[axes]
        if len(orders) == 1 and any(g.name == "unsqueeze_dim" for g in signature.parameters or ()):
            leads = tuple(lead for lead in leads if lead == "bnw") or leads  # as in transformers
        if form.has("sections"):  # as in Qwen2-VL: tables of every axis
            leads = tuple(f"a{lead}" for lead in leads if lead[0] == "b")
        for one, lead in itertools.product(of_kinds, leads):
            yield next(_with_position_shapes(replace(one, table_axes=lead)))


def _with_axes(form: CallForm, axes: str, signature: Signature) -> CallForm | None:
    """Return a form with these axes.

    It is None for an array of q, k and v that such axes do not have, or for heads side by side if
    no argument gives their number.
    """
    if form.has("qkv") and axes not in _STACKED:
        return None
    if axes != "bnf":
        return replace(form, axes=axes)
    of_heads = [given for given in signature.parameters or () if given.gives_heads]
    if not of_heads and not form.has("heads"):
        return None
    more = [
        _argument(given.roles()[0], given.name, by_name=True)
        for given in of_heads
        if given.name not in form.parameters
    ]
    return replace(form, axes=axes, arguments=(*form.arguments, *more))


def _table_kinds(form: CallForm, reference: Reference) -> Sequence[str]:
    """Return the kinds of table that an argument may be, likeliest first."""
    role = next(role for role in _KINDS if form.has(role))
    kinds: Sequence[str] = _KINDS[role]
    if 4 * reference.pairs <= form.columns:
        kinds = sorted(kinds, key=lambda kind: kind not in _VALUE_PER_PAIR)
    names = [argument.parameter for argument in form.arguments if role == "freqs_cis"]
    if any("sin" in name for name in names):
        beside = any("cos_sin" in name for name in names)
        kinds = ("beside" if beside else "sines beside", *kinds)
    if {"freqs_cis", "rope_cache"} & {*names}:  # Helios', torchtitan's
        kinds = (*kinds, "beside in halves", "beside by pairs")
    if "emb" in names:  # timm's
        kinds = ("sines beside in halves", "sines beside by pairs", *kinds)
    return kinds


def _likely_axes(form: CallForm, signature: Signature) -> str:
    """Return the order of axes to try first."""
    hint = next((g.default for g in signature.parameters or () if g.name == "unsqueeze_dim"), None)
    named = _named_axes(form, signature)
    if form.has("heads") or any(given.gives_heads for given in signature.parameters or ()):
        return "bnf"  # with one head, code that confuses heads and rows would be right
    return "bnhd" if hint == "2" and named == "bhnd" else named


def usual_axes(form: CallForm, signature: Signature) -> str:
    """Return the usual order of axes for such parameters, with heads if there are any.

    The default of ``unsqueeze_dim`` is ignored: it may be wrong.
    """
    if form.arguments[0].role == "positions":
        return form.axes  # vLLM's, with all heads of a row side by side
    usual = _named_axes(form, signature)
    return "bhnd" if usual == "nd" else usual


def _named_axes(form: CallForm, signature: Signature) -> str:
    """Return the order of axes that the names of parameters suggest."""
    names = {given.name for given in signature.parameters or ()}
    if "input_pos" in {argument.parameter for argument in form.arguments} or names & {
        "seqlen_offsets",
        "interleaved",
    }:
        return "bnhd"  # torchtune's, flash-attention's
    if form.has("qkv"):
        return form.axes or "bnhd"
    if form.has("positions") and not form.has("q", "qkv", *TABLES):
        return "nd"
    return "bnhd" if form.has("freqs_cis") else "bhnd"


def _with_position_shapes(form: CallForm, axes: int = 0) -> Iterator[CallForm]:
    """Yield a form with each shape of positions, likeliest first; coordinates if there are axes."""
    if not form.has("positions"):
        yield form
        return
    named = form.position_parameter in ("position_ids", "input_pos")
    shapes: tuple[str, ...] = ("bn", "n") if form.vectors and named else ("n", "bn")
    if form.has(*TABLES) and "b" not in form.axes and not (form.vectors and named):
        shapes = ("n",)
    if axes:
        of_axes = ("abn", "an", "bna", "na") if named else ("bna", "na", "abn", "an")
        for real in sorted((False, True), reverse=form.position_parameter in _REAL_COORDINATES):
            for likely in shapes if form.follows_axes else of_axes:
                yield replace(form, position_axes=likely, real=real)
    yield from (replace(form, position_axes=of_positions) for of_positions in shapes)


def _with_chosen_rows(form: CallForm, leads: Iterable[str], axes: int = 0) -> Iterator[CallForm]:
    """Yield a form with tables longer than the call, and each shape of positions and of tables."""
    for lead in dict.fromkeys(lead.replace("b", "1") for lead in leads):
        yield from _with_position_shapes(replace(form, table_axes=lead, chosen=True), axes)
