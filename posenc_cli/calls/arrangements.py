"""How several sequences and heads are arranged in one call."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from posenc_cli.calls.roles import TABLES
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.calls.call_form import CallForm

SEQUENCES = 3
"""Sequences of a batch of usual size."""

BATCH_CONTEXT = 24
"""Positions that a context needs so that sequences can start at different ones."""

FEWER_KEYS = "fewer heads of k than of q"

_MORE_AXES = {"nd": ("bhnd", "bnhd", "nhd"), "hnd": ("bhnd", "hnd"), "nhd": ("bnhd", "nhd")}
"""More axes that a function of these axes may support, the most first."""

_FEWER_AXES = {"bhnd": ("nhd", "hnd"), "bnhd": ("nhd",)}
"""Fewer axes that a function of these axes may support, by code of its own."""

SIZES = ((5, 6, 3), (7, 10, 5), (9, 14, 7))
"""Rows, heads, and heads of k: the first triple in which no number is the length of another
axis."""

STARTS = (9, 2, 5, 11, 0, 7, 13, 3, 8, *(number * 5 % 17 for number in range(24)))
"""The first position of each sequence, also of larger batches."""

_MANY_SEQUENCES, MANY_HEADS = 9, (40, 44)
"""Sequences and heads of the larger batch: more than kernels take in one block of 8, 16 or 32. k
has half as many heads. Of these counts the first is used that is not the length of another axis."""

MOST_HEADS = (130, 134)
"""The same for kernels with blocks of 64 or 128 heads: some models have 128."""

_LONG_TABLES = 1 << 14
"""The last position of longer tables that a batch chooses rows from by an offset."""

_SQUARES = (6, 4, 8)
"""Sequences, heads and rows of a batch with the same number of each; the first number that is
not the length of another axis. Code that tells axes apart by their length confuses them here."""


class Arrangement(Record):
    """Sequences and heads in one call; ``places`` is the number of rows of positions.

    ``apart`` says that the axes differ from those of all other calls. ``later`` is what is added to
    all positions.
    """

    form: CallForm
    sequences: int
    places: int
    rows: int
    heads: int
    key_heads: int
    apart: bool = False
    later: int = 0

    @property
    def text(self) -> str:
        """The arrangement, in words."""
        heads = f"{self.heads} head{'s' * (self.heads > 1)}"
        if self.key_heads != self.heads:
            heads += f" of q and {self.key_heads} of k"
        heads += f" and {self.rows} rows" if self.heads == self.rows else ""
        heads += f" in the axes {self.form.axes}" if self.apart else ""
        heads += " and one row each" if self.rows == 1 else ""
        if self.sequences == 1:
            return f"a sequence with {heads}"
        own = " at their own positions" if self.places > 1 else ""
        own += f" from {self.later} on" if self.later else ""
        return f"a batch of {self.sequences} sequences{own} with {heads}"

    @property
    def values(self) -> int:
        """The number of values of its largest vectors."""
        return prod((self.sequences, self.rows, self.heads, self.form.columns))

    @property
    def others(self) -> list[Arrangement]:
        """Other sizes: most heads, the same number of all, one row, other heads of k.

        One has two sequences, as a prompt with and without guidance. Those of one row have four and
        eight, which kernels take at once, and 33, which exceeds buffers for 32.
        """
        largest = self.of_heads(MOST_HEADS)
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
        """The same with as many sequences and heads as rows."""
        many = _apart(_SQUARES, self.form)
        return self._of(many, many, many)

    def of_heads(self, counts: Sequence[int]) -> Arrangement:
        """The same with many sequences and so many heads, which shows errors of blocks."""
        rows = self.rows - (self.rows == _MANY_SEQUENCES)
        return self._of(_MANY_SEQUENCES, _apart(counts, self.form), rows)

    def _of(self, sequences: int, heads: int, rows: int) -> Arrangement:
        """The same with so many heads and rows, and so many sequences if there are several."""
        return replace(
            self,
            sequences=1 if self.sequences == 1 else sequences,
            places=1 if self.places == 1 else sequences,
            rows=rows,
            heads=heads,
            key_heads=heads if self.key_heads == self.heads else heads // 2,
        )


def far(taken: Arrangement, last: int) -> list[Arrangement]:
    """The same at the last positions, which show low frequencies, if that costs little."""
    form, later = taken.form, last - max(STARTS[: taken.places]) - taken.rows + 1
    long_tables = form.chosen and form.boxed and last > _LONG_TABLES
    return [replace(taken, later=later)] * (later > 0 and not (form.from_zero or long_tables))


def of_fewer_axes(form: CallForm) -> Iterator[Arrangement]:
    """Calls without the axis of sequences or of heads, for a function of both."""
    fewer = _FEWER_AXES.get(form.axes, ())
    if form.has(*TABLES) or not (fewer and form.has("positions")):
        return
    fuller = next(arrangements(form))
    if form.positions_per_sequence:
        own = replace(form, axes="bnf")
        yield replace(fuller, form=own, heads=1, key_heads=1, apart=True)
        return
    for axes in fewer:
        own = replace(form, axes=axes)
        yield replace(fuller, form=own, sequences=1, places=1, apart=True)


def must_hold(arrangement: Arrangement, form: CallForm) -> bool:
    """Whether a function of this form surely supports the arrangement, and so must be right.

    Even the first axis of (1, n, h, d) need not count sequences: a function may take all vectors of
    a position together, whatever their axes. With positions (b, n) it does.
    """
    by_sequence = arrangement.places > 1 and (form.chosen or not form.has(*TABLES))
    return (
        arrangement.form == form
        and arrangement.key_heads == arrangement.heads
        and (by_sequence or arrangement.sequences == 1)
    )


def arrangements(form: CallForm) -> Iterator[Arrangement]:
    """The calls with several sequences and heads that a function may support, the fullest first."""
    rows, heads, fewer = sizes_apart(form)
    grouped = len(form.vectors) > 1 and not form.one_head_count
    of_keys = (fewer, heads) if grouped else (heads,)
    for own, sequences, places in _batches(form):
        for key_heads in of_keys:
            yield Arrangement(own, sequences, places, rows, heads, key_heads)


def _batches(form: CallForm) -> list[tuple[CallForm, int, int]]:
    """Forms, and how many sequences and rows of positions each has."""
    of_each, more = form, _MORE_AXES.get(form.axes, (form.axes,))
    if "b" not in form.position_axes:
        of_each = replace(form, position_axes=form.position_axes.replace("n", "bn"))
    if form.has("offset") and (form.chosen or not form.has(*TABLES)):
        of_each = replace(of_each, boxed=True)
    own = [form.axes] * (form.positions_per_sequence or (of_each != form and "b" in form.axes))
    own += [
        axes for axes in more if "b" in axes and (form.positions_per_sequence or of_each != form)
    ]
    of_heads = [axes for axes in more if "h" in axes and (axes == form.axes or "b" not in axes)]
    return [
        *((replace(of_each, axes=axes), SEQUENCES, SEQUENCES) for axes in dict.fromkeys(own)),
        *((replace(form, axes=axes), SEQUENCES, 1) for axes in more if "b" in axes),
        *((replace(form, axes=axes), 1, 1) for axes in of_heads),
    ]


def sizes_apart(form: CallForm) -> tuple[int, int, int]:
    """Rows, heads, and heads of k, none of which is the length of an axis of columns."""
    taken = _lengths(form)
    return next((own for own in SIZES if not taken & {*own}), SIZES[0])


def _apart(counts: Sequence[int], form: CallForm) -> int:
    """The first count that is neither the length of an axis of columns nor twice one."""
    return next(many for many in counts if not _lengths(form) & {many, many // 2})


def _lengths(form: CallForm) -> set[int]:
    """Lengths that axes of columns may have: a head, its pairs, and half of these."""
    return {form.columns, form.columns // 2, form.columns // 4}
