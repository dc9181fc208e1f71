"""The forms in which a function can be called.

A form says what each argument is for, the order of axes, the shape of positions, how tables repeat
their columns, and the library. :mod:`form_choice` finds the form of a function by calling it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from posenc_cli.calls.roles import (
    ALONG,
    BYSTANDERS,
    CALL_AXES,
    NUMBERS,
    PLACED,
    ROLES_BY_COUNT,
    TABLES,
    TURNED,
    roles_of,
)
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Literal

    from posenc_cli.calls.signature import NamedParameter, Signature
    from posenc_cli.inference.reference import Reference

_REAL = ("img_ids", "txt_ids", "ids", "coords", "coordinates")
"""Parameters whose coordinates are real numbers in most code, as in Flux."""

# Axes: those of CALL_AXES, w columns of a table, a axes of coordinates, 1 an axis of one.
_LEADS = {
    "bhnd": ("bnw", "nw", "b1nw"),
    "bnhd": ("nw", "bnw", "bn1w", "n1w"),
    "hnd": ("nw", "1nw"),
    "nhd": ("nw", "n1w"),
    "nd": ("nw",),
    "nbhd": ("n11w", "nw"),
    "bnf": ("nw", "bnw"),
}
"""Axes of tables beside vectors of these axes."""

_CACHE_LEADS = ("11nw", "1nw", "nw")
"""Axes of tables that are longer than a sequence: a cache may have rows before those of the
call."""

_KINDS: dict[str, tuple[str, ...]] = {
    "cos": ("halves", "pairs", "neighbours"),
    "cos_sin": ("halves", "pairs", "neighbours"),
    "freqs_cis": (
        *("complex", "stacked", "angles in halves", "angles side by side", "angles", "matrices"),
    ),
}

_SINGLE = ("pairs", "angles")
"""Kinds with one value for each pair. If at most half of a head rotates, they are tried first. A
function that repeats values also takes repeated ones, and rotates twice as many columns at kept
lengths. A function that wants repeated values keeps no lengths with these."""

_KIND_TEXTS = {
    "halves": "each value twice, in halves",
    "neighbours": "each value twice, side by side",
    "pairs": "a value for each pair",
    "complex": "complex",
    "stacked": "cosine and sine of each pair",
    "beside": "cosines of all pairs, then sines",
    "sines beside": "sines of all pairs, then cosines",
    "matrices": "the 2 × 2 matrix of each pair",
    "angles in halves": "angles, each twice, in halves",
    "angles side by side": "angles, each twice, side by side",
    "angles": "an angle for each pair",
}

SIDE_BY_SIDE = {"halves": "neighbours", "angles in halves": "angles side by side"}
"""For a kind whose two copies of a value are apart, the kind in which they are adjacent."""

_TOLD = (
    *("base", "style", "length", "dim", "sections", "inv_freq", "v", "downscale", "k_positions"),
)
"""Numbers that a function of vectors also gets for optional parameters."""

_STACKED = ("bnhd", "nhd", "bhnd", "bnf")
"""Axes of q, k and v if one array holds all three: along an axis before that of heads, or in one
axis with everything side by side."""

_TRAILING = {"stacked": "2", "matrices": "22"}
"""The axes after that of pairs, in tables with more than one number for each pair."""

_COUNTED = "how many rows the call has"


class Argument(Record):
    """What one parameter is given; ``name`` is set if it is given by name.

    ``axis`` is that of positions along a single axis, counted from the last: -1, -2 or -3.
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
    than the call, and positions or an offset choose them.
    ``blank`` is which of the two copies of a value is 0. ``dtype`` is the number format of vectors.
    ``counted`` says that a length counts the rows of the call, wherever they begin. ``real`` says
    that integer coordinates are given as real numbers. ``boxed`` says that an offset is an array,
    and positions are int32. ``added_mask`` says that a mask is added to scores, and has their four
    axes. ``by_head`` says that q, k and v are side by side in each head.
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
        """Whether an argument has one of these roles."""
        return any(argument.role in roles for argument in self.arguments)

    @property
    def parameters(self) -> set[str]:
        """The parameters that are given something."""
        return {argument.parameter for argument in self.arguments}

    @property
    def vectors(self) -> tuple[int, ...]:
        """Which arguments are vectors; an array of q, k and v counts twice, for q and for k."""
        return tuple(
            place
            for place, argument in enumerate(self.arguments)
            if argument.role in TURNED
            for _ in range(1 + (argument.role == "qkv"))
        )

    @property
    def any_rows(self) -> bool:
        """Whether one call can have rows at any positions, in any order."""
        return self.has("positions", *TABLES)

    @property
    def follows_axes(self) -> bool:
        """Whether positions are given as coordinates along several axes."""
        by_axis = any(own.axis is not None for own in self.arguments)
        return by_axis or "a" in self.position_axes + self.table_axes

    @property
    def placed_by(self) -> str:
        """The parameter that says where rows are, with or without tables; "" if there is none."""
        return next(
            (own.parameter for own in self.arguments if own.role in ("positions", "offset")), ""
        )

    @property
    def places_each(self) -> bool:
        """Whether each sequence of a batch can be at positions of its own."""
        tables = self.has(*TABLES) and not self.chosen
        return "b" in self.position_axes or (tables and "b" in self.table_axes)

    @property
    def from_zero(self) -> bool:
        """Whether every call has the positions from 0 on."""
        return not self.any_rows and not self.has("offset")

    @property
    def has_heads(self) -> bool:
        """Whether a row has several heads, on an axis of their own or side by side."""
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
        """Whether positions are given to a parameter whose name may mean something else."""
        return any(
            argument.role == "positions"
            and argument.axis is None
            and roles_of(argument.parameter) != ("positions",)
            for argument in self.arguments
        )

    @property
    def roles_text(self) -> str:
        """The roles of the arguments in order, as ``--call`` takes them."""
        return ", ".join(
            argument.role if argument.axis is None else ALONG[argument.axis]
            for argument in self.arguments
        )

    def text(self, reference: Reference) -> str:
        """The form, in words."""
        single = self.kind in (*_SINGLE, "complex", *_TRAILING)
        width = reference.pairs * (1 if single else 2)
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
            return ", ".join(each.parameter for each in self.arguments if each.role in roles)

        parts = []
        if self.axes:
            of_heads = "h3" if self.by_head else "3h"
            of_three = self.axes.replace("h", of_heads) if self.has("qkv") else self.axes
            parts.append(f"{names('qkv', 'x', 'q', 'k', 'v')} {shape(of_three)}")
        if self.position_axes:
            kind = ", real numbers" if self.real else ""
            parts.append(f"{names('positions')} {shape(self.position_axes)}{kind}")
        if self.has("inv_freq"):
            parts.append(f"{names('inv_freq')} ({reference.pairs},), the reference's frequencies")
        numbers = {**NUMBERS, "length": _COUNTED} if self.counted else NUMBERS
        numbers = {**numbers, "mask": f"zeros {shape('b1nn')}"} if self.added_mask else numbers
        parts += [
            f"{argument.parameter} {numbers[argument.role]}"
            for argument in self.arguments
            if argument.role in NUMBERS and not (self.chosen and argument.role == "offset")
        ]
        if self.has(*TABLES):
            axes = shape(self.table_axes + _TRAILING.get(self.kind, ""))
            chosen = f", rows chosen by {self.placed_by}" if self.chosen else ""
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
    """The forms in which a function may be called, those that its signature suggests first.

    ``call`` are the roles of its arguments, if they were given. ``orders`` are the orders of axes
    that vectors may have. ``layer_type`` is the name of the reference's layers.
    """
    axes = reference.axes
    layers = [
        Argument("layer_type", own.name, own.name)
        for own in signature.parameters or ()
        if layer_type and own.default is not None and own.roles()[:1] == ("layer_type",)
    ]
    assignments = [
        tuple(
            replace(own, value=layer_type) if own.role == "layer_type" else own
            for own in (*arguments, *layers)
        )
        for arguments in (_called(signature, call) if call else _assignments(signature, axes))
        if all(own.role != "grid" for own in arguments) or reference.grid is not None
        if all(own.role != "sections" for own in arguments) or axes
        if all(own.role != "layer_type" for own in arguments) or layer_type
    ]
    widths = dict.fromkeys((reference.head, 2 * reference.pairs))
    groups = [
        list(_expanded(CallForm(arguments, library, columns), signature, reference, orders))
        for library, arguments, columns in itertools.product(
            signature.libraries, assignments, widths
        )
    ]
    groups = [
        [
            replace(form, counted=counted, added_mask=added, by_head=by_head)
            for by_head in _either("qkv", group)
            for added in _either("mask", group)
            # Beside a first position, a length may count the rows of the call.
            for counted in _either("length", [g for g in group if g.has("positions", "offset")])
            for form in group
        ]
        for group in groups
    ]
    in_order: Iterable[CallForm] = itertools.chain.from_iterable(groups)
    if not signature.named and not call:  # the usual form of each number of arguments
        in_turn = itertools.zip_longest(*groups)
        in_order = (form for forms in in_turn for form in forms if form is not None)
    if axes:  # coordinates first: a function of these may also take one number for each row
        in_order = sorted(in_order, key=lambda form: form.has("positions") > form.follows_axes)
    return list(dict.fromkeys(in_order))


def _argument(role: str, parameter: str, *, by_name: bool) -> Argument:
    """The argument for a parameter of a role; a coordinate along one axis is positions along it."""
    name = parameter if by_name else None
    if role in ALONG:
        return Argument("positions", parameter, name, ALONG.index(role) - len(ALONG))
    return Argument(role, parameter, name)


def _either(role: str, group: Sequence[CallForm]) -> tuple[bool, ...]:
    """Both options for a role that may mean two things, if the form has it."""
    return (False, True) if any(form.has(role) for form in group) else (False,)


def _called(signature: Signature, call: Sequence[str]) -> Iterator[tuple[Argument, ...]]:
    """The arguments that were given by role, in the order of the parameters."""
    names = [given for given in signature.parameters or () if not given.variable]
    arguments = []
    for place, role in enumerate(call):
        given = names[place] if place < len(names) else None
        by_name = given is not None and given.by_name
        arguments.append(_argument(role, given.name if given else role, by_name=by_name))
    yield tuple(arguments)


def _assignments(signature: Signature, axes: int) -> Iterator[tuple[Argument, ...]]:
    """What the parameters may be for: by their names, or else by their number.

    If positions have several ``axes``, one parameter for each axis may replace them.
    """
    if signature.parameters is None or not signature.named:
        for count in (2, 4, 3):
            for roles in ROLES_BY_COUNT[count]:
                yield tuple(Argument(role, role) for role in roles)
        return
    if signature.unmet:
        return
    required = [given for given in signature.required if not {*given.roles()} & BYSTANDERS]
    optional = [
        given
        for given in signature.parameters
        if given.default is not None
        and given.roles()
        and not given.variable
        and not {*given.roles()} & BYSTANDERS
    ]
    along, of_axes = {*ALONG[-axes:]} if axes else set(), {*ALONG, "grid"}
    by_name = list(itertools.product(*(_roles_beside(given, signature) for given in required)))
    by_name = [
        tuple("" if role in of_axes and not axes else role for role in roles) for roles in by_name
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
            all(known in ("", role) for known, role in zip(some, roles, strict=True))
            for some in by_name
        )
    ]
    for by_use in dict.fromkeys((*named, *partly)):
        uses = dict(zip((given.name for given in required), by_use, strict=True))
        arguments = tuple(
            _argument(uses.get(own.name) or own.roles()[0], own.name, by_name=own.by_name)
            for own in signature.required
        )
        for more in _optional(by_use, optional):
            given = {own.parameter for own in (*arguments, *more)}
            numbers = [own for own in _told(signature) if own.parameter not in given]
            if numbers and {*TURNED} & {*by_use}:
                yield (*arguments, *more, *numbers)
            yield arguments + more


def _roles_beside(given: NamedParameter, signature: Signature) -> tuple[str, ...]:
    """What a parameter may be for: a ``base`` may be the first position if nothing else is."""
    bases = ("positions", "offset", "base")
    of_vectors = any({*own.roles()} & {*TURNED} for own in signature.required)
    is_base = of_vectors and given.roles() == ("base",) and not _places(signature)
    return bases if is_base else given.roles() or ("",)


def _told(signature: Signature) -> list[Argument]:
    """Optional parameters of a function of vectors that have the reference's numbers."""
    return [
        Argument(role, given.name, given.name)
        for given in signature.parameters or ()
        for role in given.roles()[:1]
        if given.default is not None and role in _TOLD and not given.means_another(role)
    ]


def _optional(
    roles: tuple[str, ...], optional: list[NamedParameter]
) -> Iterator[tuple[Argument, ...]]:
    """Optional parameters that are also given, by name: first those that say where rows are."""
    missing = [(role, given) for given in optional for role in given.roles() if role not in roles]
    for role, given in missing:
        if role == "k" and "q" in roles:
            key = (Argument(role, given.name, given.name),)
            others = [other for other in optional if other != given]
            yield from (key + more for more in _optional((*roles, "k"), others))
    if not any(role in PLACED for role in roles):
        for wanted in ("positions", "offset", "length"):
            for role, given in missing:
                if role == wanted:
                    yield (Argument(role, given.name, given.name),)
        of_tables = [
            [Argument(role, given.name, given.name) for role in given.roles() if role in TABLES]
            for given in optional
        ]
        for tables in itertools.product(*filter(None, of_tables)):
            if tables:
                yield tables
    numbers = ("dim", "base", "length")
    makes = tuple(
        Argument(role, given.name, given.name) for role, given in missing if role in numbers
    )
    if makes and not {*TURNED} & set(roles):
        yield makes
    yield ()


def by_places(found: Iterable[CallForm], signature: Signature) -> list[list[CallForm]]:
    """Forms in groups by the parameters that say where rows are.

    Forms with fewer of the reference's numbers come later. Last are forms without any of these
    parameters although the signature has some, and forms with tables of only the call's rows, in
    which no parameter can choose rows.
    """
    places, told = _places(signature), _told(signature)
    groups: dict[tuple[bool, int, tuple[str, ...]], list[CallForm]] = {}
    for form in found:
        names = tuple(own.parameter for own in form.arguments if own.parameter in places)
        ones_own = form.has(*TABLES) and form.has("positions", "offset") and not form.chosen
        left_out = ones_own or (bool(places) and not form.has(*PLACED))
        lacks = sum(own.parameter not in form.parameters for own in told) if form.axes else 0
        groups.setdefault((left_out, lacks, names), []).append(form)
    return [groups[key] for key in sorted(groups, key=lambda key: key[:2])]


def unplaced(form: CallForm, signature: Signature) -> str:
    """The parameters that say where rows are, if a form gives none of them; else ""."""
    return "" if form.has(*PLACED) else ", ".join(_places(signature))


def _places(signature: Signature) -> list[str]:
    """The parameters that say where rows are."""
    return [given.name for given in signature.parameters or () if {*given.roles()} & {*PLACED}]


def with_rows_chosen(
    form: CallForm, signature: Signature, orders: Sequence[str] = CALL_AXES
) -> Iterator[CallForm]:
    """A form of tables, with an optional parameter that may choose their rows."""
    given = {argument.parameter for argument in form.arguments}
    for parameter in signature.parameters or ():
        role = next((role for role in parameter.roles() if role in ("positions", "offset")), None)
        if role is None or parameter.default is None or parameter.name in given:
            continue
        more = Argument(role, parameter.name, parameter.name)
        longer = replace(form, arguments=(*form.arguments, more))
        yield from _rows_chosen(longer, (form.table_axes, *_CACHE_LEADS))
        if role == "offset":
            # Tables that it slices may have fitted by chance, with their rows along other axes.
            for axes in sorted(orders, key=len, reverse=True):
                yield from _rows_chosen(replace(longer, axes=axes), _LEADS[axes])


def _expanded(
    form: CallForm, signature: Signature, reference: Reference, orders: Sequence[str]
) -> Iterator[CallForm]:
    """A form in each order of axes, shape of positions and kind of table that code uses."""
    if not form.vectors:
        yield from _placed(form, reference.axes)
        return
    table_role = next((role for role in ("cos", "cos_sin", "freqs_cis") if form.has(role)), None)
    likely = _first_axes(form, signature)
    for axes in sorted(orders, key=lambda order: order != likely):
        shaped = _in_axes(form, axes, signature)
        if shaped is None:
            continue
        if table_role is None:
            yield from _placed(shaped, reference.axes)
            continue
        kinds = _kinds(form, table_role, reference)
        of_kinds = [replace(shaped, kind=kind) for kind in kinds]
        if form.has("positions", "offset"):
            caches = _CACHE_LEADS if axes == "bhnd" else _LEADS[axes]
            for one in of_kinds:
                yield from _rows_chosen(one, caches, reference.axes * form.has("sections"))
        leads = _LEADS[axes]
        if len(orders) == 1 and any(g.name == "unsqueeze_dim" for g in signature.parameters or ()):
            leads = tuple(lead for lead in leads if lead == "bnw") or leads  # of transformers
        if form.has("sections"):  # of Qwen2-VL: tables of every axis
            leads = tuple(f"a{lead}" for lead in leads if lead[0] == "b")
        for one, lead in itertools.product(of_kinds, leads):
            yield next(_placed(replace(one, table_axes=lead)))


def _in_axes(form: CallForm, axes: str, signature: Signature) -> CallForm | None:
    """A form with these axes; None if nothing says how many heads stand side by side in f."""
    if form.has("qkv") and axes not in _STACKED:
        return None
    if axes != "bnf":
        return replace(form, axes=axes)
    told = [given for given in signature.parameters or () if given.tells_heads]
    if not told and not form.has("heads"):
        return None
    known = {argument.parameter for argument in form.arguments}
    more = [_argument(own.roles()[0], own.name, by_name=True) for own in told]
    arguments = (*form.arguments, *(own for own in more if own.parameter not in known))
    return replace(form, axes=axes, arguments=arguments)


def _kinds(form: CallForm, role: str, reference: Reference) -> tuple[str, ...]:
    """The kinds of table that an argument may be, the likeliest first."""
    kinds = _KINDS[role]
    if 4 * reference.pairs <= form.columns:
        kinds = tuple(sorted(kinds, key=lambda kind: kind not in _SINGLE))
    names = " ".join(argument.parameter for argument in form.arguments)
    if role == "freqs_cis" and "sin" in names:
        kinds = ("beside" if "cos_sin" in names else "sines beside", *kinds)
    return kinds


def _first_axes(form: CallForm, signature: Signature) -> str:
    """The order of axes that the signature suggests."""
    hint = next((g.default for g in signature.parameters or () if g.name == "unsqueeze_dim"), None)
    named = _named_axes(form, signature)
    if form.has("heads") or any(given.tells_heads for given in signature.parameters or ()):
        return "bnf"  # with one head, code that confuses heads and rows is right
    return "bnhd" if hint == "2" and named == "bhnd" else named


def usual_axes(form: CallForm, signature: Signature) -> str:
    """The usual order of axes for functions with such parameters, with heads if there are any.

    The default of ``unsqueeze_dim`` is ignored: it may be what is wrong.
    """
    if form.arguments[0].role == "positions":
        return form.axes  # vLLM's, with all heads of a row side by side
    usual = _named_axes(form, signature)
    return "bhnd" if usual == "nd" else usual


def _named_axes(form: CallForm, signature: Signature) -> str:
    """The order of axes that the names of parameters suggest."""
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


def _placed(form: CallForm, axes: int = 0) -> Iterator[CallForm]:
    """A form with each shape of positions, the likelier first: coordinates if there are axes."""
    if not form.has("positions"):
        yield form
        return
    named = form.placed_by in ("position_ids", "input_pos")
    shapes: tuple[str, ...] = ("n", "bn")
    if form.vectors and named:
        shapes = ("bn", "n")
    elif form.has(*TABLES) and "b" not in form.axes:
        shapes = ("n",)
    if axes:
        first, second = ("abn", "an"), ("bna", "na")
        likely = shapes if form.follows_axes else first + second if named else second + first
        for real in sorted((False, True), reverse=form.placed_by in _REAL):
            for of_axes in likely:
                yield replace(form, position_axes=of_axes, real=real)
    for of_positions in shapes:
        yield replace(form, position_axes=of_positions)


def _rows_chosen(form: CallForm, leads: Iterable[str], axes: int = 0) -> Iterator[CallForm]:
    """A form with each shape of positions and of tables that have more rows than a call."""
    for lead in dict.fromkeys(lead.replace("b", "1") for lead in leads):
        yield from _placed(replace(form, table_axes=lead, chosen=True), axes)
