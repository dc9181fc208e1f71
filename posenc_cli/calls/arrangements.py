"""Arrange several sequences and heads in one call."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from posenc_cli.calls.roles import TABLES
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.calls.call_form import CallForm

SEQUENCES = 3
"""Sequences of a usual batch."""

BATCH_CONTEXT = 24
"""Least context in which sequences can start at different positions."""

FEWER_KEYS = "fewer heads of k than of q"

_MORE_AXES = {"nd": ("bhnd", "bnhd", "nhd"), "hnd": ("bhnd", "hnd"), "nhd": ("bnhd", "nhd")}
"""More axes that a function of these axes may support; the most axes first."""

_OTHER_SHAPES: tuple[tuple[tuple[str, ...], str, dict[str, tuple[str, ...]]], ...] = (
    (("positions",), "position_axes", {"n": ("bn",), "bn": ("bn", "n"), "abn": ("bn",)}),
    (
        ("positions",),
        "axes",
        {
            "bhnd": ("bnf", "nhd", "hnd", "nd"),
            "bnhd": ("bnf", "nhd", "nd"),
            "hnd": ("nd",),
            "nhd": ("nd",),
        },
    ),
    (("offset",), "position_axes", {"": ("", "1")}),
    (
        TABLES,
        "table_axes",
        {"nw": ("bnw",), **{axes: ("nw", axes) for axes in ("bnw", "b1nw", "bn1w")}},
    ),
)
"""Other shapes of an argument that a function may support, with separate code for them.

Each row has the roles of the argument, the field of a form, and the values that may replace its
value."""

SIZES = ((5, 6, 3), (7, 10, 5), (9, 14, 7))
"""Rows, heads, and heads of k; the first triple without the length of another axis is used."""

STARTS = (9, 2, 5, 11, 0, 7, 13, 3, 8, *(number * 5 % 17 for number in range(24)))
"""The first position of each sequence, also of larger batches."""

_MANY_SEQUENCES, MANY_HEADS = 9, (40, 44)
"""Sequences and heads of the larger batch: more than kernels process in a block of 8, 16 or 32.
k has half as many heads. The first count that is not the length of another axis is used."""

MOST_HEADS = (130, 134)
"""The same for kernels with blocks of 64 or 128 heads: some models have 128."""

_LONG_TABLES = 1 << 14
"""Largest last position of longer tables whose rows an offset chooses in a batch."""

_SQUARES = (6, 4, 8)
"""Numbers of sequences, heads and rows of a batch with equally many of each. The first that is not
the length of another axis is used. Code that identifies axes by length confuses them here."""


class Arrangement(Record):
    """Sequences and heads of one call; ``places`` is the number of rows of positions.

    ``other`` is the argument that has another shape than in all other calls, in words. ``later`` is
    added to all positions.
    """

    form: CallForm
    sequences: int
    places: int
    rows: int
    heads: int
    key_heads: int
    other: str = ""
    later: int = 0

    @property
    def text(self) -> str:
        """The arrangement in words."""
        heads = f"{self.heads} head{'s' * (self.heads > 1)}"
        if self.key_heads != self.heads:
            heads += f" of q and {self.key_heads} of k"
        heads += f" and {self.rows} rows" if self.heads == self.rows else ""
        heads += f", {self.other}" if self.other else ""
        heads += " and one row each" if self.rows == 1 else ""
        if self.sequences == 1:
            return f"a sequence with {heads}"
        placement = " at their own positions" if self.places > 1 else ""
        placement += f" from {self.later} on" if self.later else ""
        return f"a batch of {self.sequences} sequences{placement} with {heads}"

    @property
    def values(self) -> int:
        """The number of values of the largest vectors."""
        return prod((self.sequences, self.rows, self.heads, self.form.columns))

    @property
    def others(self) -> list[Arrangement]:
        """Other sizes: most heads, equal numbers of everything, one row, other numbers of k heads.

        One has two sequences, as a prompt with and without guidance. Those of one row have four and
        eight sequences, which kernels process at once, and 33, which exceeds buffers for 32.
        """
        largest = self.with_heads(MOST_HEADS)
        others = [largest, self.square]
        if self.sequences == 1:
            others.append(replace(self, rows=1))
        else:
            single = replace(
                self, rows=1, key_heads=1 if self.key_heads < self.heads else self.heads
            )
            for of, sequences in ((self, 2), (single, 4), (single, 8), (single, len(STARTS))):
                places = 1 if self.places == 1 else sequences
                others.append(replace(of, sequences=sequences, places=places))
        if len(self.form.vectors) > 1 and not self.form.one_head_count:
            others.append(replace(self, key_heads=1))
        if self.key_heads != self.heads:
            others.append(replace(largest, key_heads=largest.heads))
        return others

    @property
    def square(self) -> Arrangement:
        """The same arrangement with as many sequences and heads as rows."""
        many = _distinct_count(_SQUARES, self.form)
        return self._with_counts(many, many, many)

    def with_heads(self, counts: Sequence[int]) -> Arrangement:
        """Return the same with many sequences and heads, which shows errors of blocks."""
        return self._with_counts(
            _MANY_SEQUENCES,
            _distinct_count(counts, self.form),
            self.rows - (self.rows == _MANY_SEQUENCES),
        )

    def _with_counts(self, sequences: int, heads: int, rows: int) -> Arrangement:
        """Return the same with other numbers; sequences stay 1 if there is one."""
        return replace(
            self,
            sequences=1 if self.sequences == 1 else sequences,
            places=1 if self.places == 1 else sequences,
            rows=rows,
            heads=heads,
            key_heads=heads if self.key_heads == self.heads else heads // 2,
        )


def at_last_positions(arrangement: Arrangement, last: int) -> list[Arrangement]:
    """Return the same at the last positions, which show low frequencies, if that is cheap."""
    form, later = arrangement.form, last - max(STARTS[: arrangement.places]) - arrangement.rows + 1
    long_tables = form.chosen and form.boxed and last > _LONG_TABLES
    return [replace(arrangement, later=later)] * (later > 0 and not (form.from_zero or long_tables))


def other_shapes(form: CallForm) -> Iterator[tuple[str, CallForm]]:
    """Yield forms in which one argument has another shape, each with that argument in words."""
    for roles, field, shapes in _OTHER_SHAPES:
        of_tables = field == "position_axes" if form.chosen else roles is TABLES
        suits = form.has(*roles) and of_tables == form.has(*TABLES)
        for value in shapes.get(getattr(form, field), ()) if suits else ():
            name = "vectors" if field == "axes" else form.position_parameter or "tables"
            axes = ", ".join(value.replace("f", "d").replace("b", "b" if field == "axes" else "1"))
            shape = f"({axes}{',' * (len(axes) == 1)})"
            yield f"{name} {shape}", replace(form, **{field: value, "boxed": value == "1"})


def with_other_shapes(arrangement: Arrangement) -> Iterator[Arrangement]:
    """Yield the same call with another shape of one argument.

    Positions are those of one sequence, except for vectors without the axis of heads.
    """
    for text, form in other_shapes(arrangement.form):
        fewer = form.axes if form.axes != arrangement.form.axes else ""
        one = "b" not in form.axes or form.position_axes == "1"
        other = replace(
            arrangement,
            form=form,
            other=text,
            places=arrangement.places if fewer == "bnf" else 1,
            sequences=1 if one else arrangement.sequences,
        )
        if form.follows_axes == arrangement.form.follows_axes:
            yield replace(other, heads=1, key_heads=1) if fewer in ("bnf", "nd") else other


def surely_supported(arrangement: Arrangement, form: CallForm) -> bool:
    """Return whether a function of this form surely supports the arrangement, and must be right.

    The first axis of (1, n, h, d) need not count sequences: a function may accept all vectors of a
    position together, whatever their axes. With positions (b, n) it does.
    """
    return (
        arrangement.form == form
        and arrangement.key_heads == arrangement.heads
        and (
            arrangement.sequences == 1
            or (arrangement.places > 1 and (form.chosen or not form.has(*TABLES)))
        )
    )


def arrangements(form: CallForm) -> Iterator[Arrangement]:
    """Yield calls with several sequences and heads that a function may support, fullest first."""
    rows, heads, fewer = distinct_sizes(form)
    grouped = len(form.vectors) > 1 and not form.one_head_count
    for batch_form, sequences, places in _batches(form):
        for key_heads in (fewer, heads) if grouped else (heads,):
            yield Arrangement(batch_form, sequences, places, rows, heads, key_heads)


def _batches(form: CallForm) -> list[tuple[CallForm, int, int]]:
    """Return forms, each with the number of sequences and of rows of positions."""
    with_positions, more = form, _MORE_AXES.get(form.axes, (form.axes,))
    if "b" not in form.position_axes:
        with_positions = replace(form, position_axes=form.position_axes.replace("n", "bn"))
    if form.has("offset") and (form.chosen or not form.has(*TABLES)):
        with_positions = replace(with_positions, boxed=True)
    axes_of_each = [form.axes] * (
        form.positions_per_sequence or (with_positions != form and "b" in form.axes)
    )
    axes_of_each += [
        axes
        for axes in more
        if "b" in axes and (form.positions_per_sequence or with_positions != form)
    ]
    axes_with_heads = [
        axes for axes in more if "h" in axes and (axes == form.axes or "b" not in axes)
    ]
    return [
        *(
            (replace(with_positions, axes=axes), SEQUENCES, SEQUENCES)
            for axes in dict.fromkeys(axes_of_each)
        ),
        *((replace(form, axes=axes), SEQUENCES, 1) for axes in more if "b" in axes),
        *((replace(form, axes=axes), 1, 1) for axes in axes_with_heads),
    ]


def distinct_sizes(form: CallForm) -> tuple[int, int, int]:
    """Return numbers of rows, heads and k heads that differ from the lengths of column axes."""
    return next((sizes for sizes in SIZES if not _column_lengths(form) & {*sizes}), SIZES[0])


def _distinct_count(counts: Sequence[int], form: CallForm) -> int:
    """Return the first count that is neither the length of a column axis nor twice one."""
    return next(many for many in counts if not _column_lengths(form) & {many, many // 2})


def _column_lengths(form: CallForm) -> set[int]:
    """Return the lengths that column axes may have: a head, its pairs, and half of these."""
    return {form.columns, form.columns // 2, form.columns // 4}
