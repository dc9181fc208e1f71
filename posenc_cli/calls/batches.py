"""Several sequences and heads in one call: each must become what it becomes alone.

Sequences are at positions of their own where a function can be told of them, and k has fewer heads
than q where the call succeeds so. A call with more axes than a function was found with counts only
where some of its sequences and heads come back right: else it is none that the function takes.
"""

from __future__ import annotations

import itertools
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.calls.arrangements import (
    SEQUENCES,
    SIZES,
    STARTS,
    Arrangement,
    arrangements,
    axes_of_columns,
    must_hold,
    of_fewer_axes,
)
from posenc_cli.calls.patterns import PatternFault, PatternReport, PlannedCalls
from posenc_cli.calls.payloads import Vectors
from posenc_cli.calls.rows_of_batches import Misplaced, RowsOfBatch, misplaced_rows
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.causes import Cause
from posenc_cli.positions import range_texts
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.calls.answers import Differs
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray


_DRAWN_HEADS = (0, 1, 2, 1, 1, 0, 2, 2, 1, 2, 0, 1, 0, 1, 0, 1, 2)
"""Which of three vectors a head of a larger batch is given, again and again: a cycle of 17, which
is no multiple of a block, so that few heads have the vector of the one a block before."""

_FEW_HEADS = 20
"""Below so many, each head is given vectors of its own."""

_SAME_CELL = 1e-3
"""Of values near 1: cells of one position agree to this in any format, the next one's do not."""

_LISTED = 3
"""Sequences or heads that are listed one by one."""

_TILED = "heads of k are repeated all in turn, though neighbouring heads of q share one"

_ALONG_HEADS = (
    "where there are as many heads as rows, positions are counted along heads: the axes are taken "
    "for one another"
)

_ON_THROUGH = "rows are counted on through {}, as if they were one sequence"

_UNSUPPORTED = "results differ from single calls: this axis order is not supported"

_CONTEXT = 24
"""Positions from which on a context has room for sequences at different ones."""


def try_batches(function: ServedFunction, differs: Differs, *, context: int) -> PatternReport:
    """Call a function that turns vectors with several sequences and heads.

    ``context`` is how many positions it may be asked for.
    """
    text, failed = "several sequences or heads in one call", list[tuple[Arrangement, str]]()
    if function.follows_length or context < _CONTEXT:
        return PatternReport((), (), (text,))
    for arrangement in arrangements(function.form):
        try:
            blocks = _Blocks(function, arrangement, differs)
        except InvalidInput as error:
            function.revive()
            failed.append((arrangement, function.reason(error)))
            continue
        if blocks.tells or must_hold(arrangement, function.form):
            untried = [_with_reason(text, failed) for text in arrangement.untried]
            if blocks.faults:
                return PatternReport((arrangement.text,), blocks.faults, tuple(untried))
            report = _larger_report(function, arrangement, differs)
            return replace(report, untried=(*untried, *report.untried))
        failed.append((arrangement, _UNSUPPORTED))
    return PatternReport((), (), (_with_reason(text, failed),))


def _with_reason(untried: str, failed: Sequence[tuple[Arrangement, str]]) -> str:
    """What was not tried, and why the last call failed that would have tried it."""
    why = next((why for other, why in reversed(failed) if untried not in other.untried), "")
    return f"{untried} ({why})" if why else untried


def try_rows_of_heads(function: ServedFunction, differs: Differs, *, context: int) -> PatternReport:
    """Call a function of positions, q and k, in this order, with all heads of a row side by side.

    So vLLM calls its own. Where one head alone comes out right it may be that it turns the first
    columns of any row, and is not for these.
    """
    form = function.form
    roles = [argument.role for argument in form.arguments[:2]]
    if roles != ["positions", "q"] or context < _CONTEXT or function.follows_length:
        return PatternReport((), ())
    own = replace(form, axes="nf", position_axes=form.position_axes.replace("b", ""))
    taken = axes_of_columns(own)
    rows, heads, fewer = next((size for size in SIZES if not taken & set(size)), SIZES[0])
    key_heads = heads if form.one_head_count else fewer
    arrangement = Arrangement(own, SEQUENCES, SEQUENCES, rows, heads, key_heads)
    text = f"{arrangement.text} side by side in rows"
    calls = PlannedCalls(function)
    blocks = calls.attempt(text, partial(_Blocks, function, arrangement, differs))
    if blocks is None:
        return calls.report()
    if blocks.faults and not blocks.several_right:
        return PatternReport((), (), (f"{text}, which it does not take",))
    return PatternReport((text,), blocks.faults)


def _larger_report(
    function: ServedFunction, arrangement: Arrangement, differs: Differs
) -> PatternReport:
    """The report where a batch came out right: also of ones of other sizes."""
    calls = PlannedCalls(function)
    calls.tried.append(arrangement.text)
    others = arrangement.others
    while others:
        other = others.pop(0)
        blocks = calls.attempt(other.text, partial(_Blocks, function, other, differs))
        if blocks is None:
            # Some code is for a known number of heads, in blocks of fewer.
            others[:0] = [arrangement.larger] * (other == arrangement.largest)
        elif not blocks.faults:
            continue
        elif other.key_heads == 1 and arrangement.key_heads == arrangement.heads:
            calls.skip(calls.tried.pop(), "it is for as many heads of k as of q")
        else:
            return calls.report(*blocks.faults)
    for other in of_fewer_axes(arrangement.form):
        blocks = calls.attempt(other.text, partial(_Blocks, function, other, differs))
        if blocks is None:
            continue
        if not blocks.some_right:
            calls.skip(calls.tried.pop(), _UNSUPPORTED)
        elif blocks.faults:
            return calls.report(*blocks.faults)
    return calls.report()


def try_table_batches(function: ServedFunction, *, context: int) -> PatternReport:
    """Call a function that makes tables with the positions of several sequences.

    ``context`` is how many positions it may be asked for.
    """
    form = function.form
    if not form.has("positions") or function.follows_length:
        return PatternReport((), ())
    text, calls = "positions of several sequences in one call", PlannedCalls(function)
    if context < _CONTEXT or "b" not in form.position_axes:
        return PatternReport((), (), (text,))
    positions = np.add.outer(STARTS[:SEQUENCES], np.arange(SIZES[0][0]))
    together = calls.attempt(text, partial(function.answers, positions))
    if together is None:
        return calls.report()
    alone = [function.answers(own[None]) for own in positions]
    fault = _table_fault(together, alone)
    if fault is not None:
        return PatternReport((), (fault,))
    shapes = [(SEQUENCES, *values.shape[1:]) for values in alone[0]]
    if [values.shape for values in together] != shapes:
        return PatternReport((), (), (text,))
    return PatternReport((f"positions of {SEQUENCES} sequences",), ())


def _table_fault(
    together: Sequence[NumberArray], alone: Sequence[Sequence[NumberArray]]
) -> PatternFault | None:
    """What the tables of several sequences are otherwise than those of each."""
    called = f"called with the positions of {SEQUENCES} sequences it"
    if _same(together, alone[0]):
        return PatternFault(f"{called} returns the tables of sequence 1 alone")
    for sequence, own in enumerate(alone):
        part = [values[sequence : sequence + 1] for values in together]
        shaped = [values.shape for values in part] == [values.shape for values in own]
        if shaped and not _same(part, own):
            text = f"{called} gives other tables for sequence {sequence + 1} than alone"
            other = next((n for n, tables in enumerate(alone) if _same(part, tables)), None)
            moved = f"sequence {sequence + 1} is given the tables of sequence {(other or 0) + 1}"
            return PatternFault(text, "" if other is None else moved)
    return None


def _same(some: Sequence[NumberArray], others: Sequence[NumberArray]) -> bool:
    """Whether tables are the same ones."""
    return len(some) == len(others) and all(
        one.shape == other.shape and np.allclose(one, other, rtol=0, atol=_SAME_CELL)
        for one, other in zip(some, others, strict=True)
    )


class _Blocks:
    """What becomes of each head of each sequence, together with the others and alone.

    Raises: InvalidInput where a call fails.
    """

    def __init__(
        self, function: ServedFunction, arrangement: Arrangement, differs: Differs
    ) -> None:
        self._function, self._arrangement, self._differs = function, arrangement, differs
        form, rows = arrangement.form, arrangement.rows
        starts = [0] if form.from_zero else STARTS[: arrangement.places]
        positions = np.add.outer(starts, np.arange(rows))
        self._positions = np.broadcast_to(positions, (arrangement.sequences, rows))
        generator = np.random.default_rng(11)
        self._given = []
        for heads in (arrangement.heads, arrangement.key_heads)[: len(form.vectors)]:
            drawn = _drawn_of(heads)
            shape = arrangement.sequences, rows, 1 + int(drawn.max()), form.columns
            given = generator.standard_normal(shape).astype(np.float32)
            self._given.append(given[:, :, drawn])
        vectors = [Vectors(given, rows) for given in self._given]
        self._together = [each.values for each in function.together(form, positions, vectors)]
        self._alone = [
            self._values(given, self._positions, which) for which, given in enumerate(self._given)
        ]
        self._wrong = [
            self._different(*pair) for pair in zip(self._together, self._alone, strict=True)
        ]

    @property
    def some_right(self) -> bool:
        """Whether any head of any sequence is as it is alone."""
        return not all(wrong.all() for wrong in self._wrong)

    @property
    def tells(self) -> bool:
        """Whether the function surely takes such calls.

        Some heads come back as alone, in the places of others, or turned at other positions; or
        all of several sequences as they were given.
        """
        if self.some_right or self.exchanged:
            return True
        if self._arrangement.sequences == 1:
            return False
        if self._holds(self._given) or self._counted_on or self._shifted:
            return True
        # Who takes axes for others mixes heads, or finds the rows of several in one.
        own_positions = self._arrangement.places > 1
        return own_positions and self._misplaced is not None and self._misplaced.alike

    @property
    def several_right(self) -> bool:
        """Whether more than one head of q, or of what there is, is as it is alone."""
        return int((~self._wrong[0]).all(axis=0).sum()) > 1

    def _values(self, given: NumberArray, positions: Integers, which: int) -> NumberArray:
        """What each head of each sequence becomes alone, at these positions."""
        drawn = _drawn_of(given.shape[2])
        _, firsts = np.unique(drawn, return_index=True)
        values = np.empty((*given.shape[:2], firsts.size, given.shape[3]))
        for sequence, (place, head) in itertools.product(range(len(given)), enumerate(firsts)):
            values[sequence, :, place] = self._function.values(
                given[sequence, :, head], positions[sequence], which
            )
        return values[:, :, drawn]

    def _different(self, values: NumberArray, wanted: NumberArray) -> Flags:
        """Which heads of which sequences differ. Shape: (sequences, heads).

        Fewer heads are wanted each so often that they are as many.
        """
        wanted = np.repeat(wanted, values.shape[2] // wanted.shape[2], axis=2)
        different = np.empty((values.shape[0], values.shape[2]), bool)
        for sequence, head in np.ndindex(different.shape):
            block = sequence, slice(None), head
            different[sequence, head] = self._differs(values[block], wanted[block])
        return different

    @cached_property
    def faults(self) -> tuple[PatternFault, ...]:
        """What becomes of heads or sequences otherwise than alone."""
        if not any(wrong.any() for wrong in self._wrong):
            return ()
        where, called = self._where, f"called with {self._arrangement.text} it"
        text = f"{called} gives other values for {where} than alone"
        if self._holds(self._given):
            do = "does" if self._is_one else "do"
            several = "sequences" if self._arrangement.sequences > 1 else "heads"
            still = f"{where} {do} not rotate in calls with several {several}"
            if where == "all heads":
                still = f"nothing rotates in calls with several {several}"
            return (PatternFault(f"{called} leaves {where} as given", still, Cause.NO_ROTATION),)
        reproduced = f"{text}; all rows are reproduced so"
        if self._reordered:
            cause = Cause.AXIS if self._reordered == _ALONG_HEADS else Cause.LAYOUT
            return (PatternFault(reproduced, self._reordered, cause),)
        for other in self._right if self._arrangement.places > 1 else ():
            there = np.broadcast_to(self._positions[other], self._positions.shape)
            at_other = [
                self._values(given, there, which) for which, given in enumerate(self._given)
            ]
            if self._holds(at_other):
                are = "are" if "sequences" in where else "is"
                moved = f"{where} {are} turned at the positions of sequence {other + 1}"
                return (PatternFault(reproduced, moved),)
        return (PatternFault(reproduced if self._elsewhere else text, self._elsewhere),)

    @cached_property
    def _elsewhere(self) -> str:
        """At which other positions rows are turned; empty where no positions explain them."""
        if self._counted_on:
            return self._counted_on
        moved = self._misplaced
        if moved is not None and moved.by_rule:
            return moved.text
        return self._shifted or ("" if moved is None else moved.text)

    @cached_property
    def _misplaced(self) -> Misplaced | None:
        """How rows come by the positions of others; None where they do not."""
        heads = [given.shape[2] for given in self._given]
        results = [
            RowsOfBatch(
                self._function,
                which,
                self._positions,
                given,
                together[:, :, :: together.shape[2] // given.shape[2]],
                heads[0],
                heads[-1],
            )
            for which, (given, together) in enumerate(zip(self._given, self._together, strict=True))
        ]
        return misplaced_rows(results, self._differs)

    @cached_property
    def _counted_on(self) -> str:
        """How rows are counted on from one sequence or head to the next; empty where they are not.

        Flattened, the positions of several are those of one long sequence.
        """
        rows, heads = self._arrangement.rows, self._arrangement.heads
        for text, first, of_sequence, of_head, of_row in (
            (_ON_THROUGH.format("the sequences of a batch"), False, rows, 0, 1),
            (f"{_ON_THROUGH.format('the sequences of a batch')}, from the first", True, rows, 0, 1),
            (_ON_THROUGH.format("the heads"), False, 0, rows, 1),
            (_ON_THROUGH.format("all heads and sequences"), False, heads * rows, rows, 1),
            (_ON_THROUGH.format("the heads of all rows"), False, heads * rows, 1, heads),
        ):
            starts = self._positions[:1, :1] if first else self._positions[:, :1]
            counted = starts + of_row * np.arange(rows) + of_sequence * self._numbers[:, None]
            if (self._arrangement.sequences > 1 or of_head) and self._is_counted(counted, of_head):
                return text
        sequences = self._arrangement.sequences
        if sequences > 1 and self._is_counted(self._positions * sequences, 0):
            return "positions are multiplied by the number of sequences"
        return ""

    @property
    def _numbers(self) -> Integers:
        """The numbers of the sequences, from 0 on."""
        return np.arange(self._arrangement.sequences)

    def _is_counted(self, positions: Integers, of_head: int) -> bool:
        """Whether heads, each so many positions after the one before, are at such positions.

        ``positions`` (sequences, rows) are those of the first head.
        """
        return all(
            self._is_at(sequence, positions[sequence], of_head)
            for sequence in range(len(positions))
        )

    def _is_at(self, sequence: int, positions: Integers, of_head: int = 0) -> bool:
        """Whether all heads of a sequence are those at positions (rows,), each so many after."""
        for which, (together, given) in enumerate(zip(self._together, self._given, strict=True)):
            times = together.shape[2] // given.shape[2]
            for head in range(given.shape[2]):
                there = positions + of_head * head
                try:
                    alone = self._function.values(given[sequence, :, head], there, which)
                except InvalidInput:  # of a function that has a last position
                    self._function.revive()
                    return False
                if self._differs(together[sequence, :, head * times], alone):
                    return False
        return True

    @cached_property
    def _shifted(self) -> str:
        """By how much the positions of wrong sequences are off; empty where no number explains."""
        shifts = {}
        for sequence in np.flatnonzero(np.concatenate(self._wrong, axis=1).any(axis=1)):
            near = range(-int(self._positions[sequence, 0]), max(STARTS) + 1)
            found = [shift for shift in near if self._is_shifted(int(sequence), shift)]
            if len(found) != 1 or found == [0]:
                return ""
            shifts[int(sequence)] = found[0]
        off = {*shifts.values()}
        if self._arrangement.places == 1 and len(off) == 1 and len(shifts) > 1:
            return (
                f"sequences of a batch are turned at other positions than alone: by {off.pop():+d}"
            )
        if all(self._positions[sequence, 0] == -shift for sequence, shift in shifts.items()):
            return "each sequence of a batch starts at position 0, whatever its positions"
        texts = [f"sequence {sequence + 1} by {shift:+d}" for sequence, shift in shifts.items()]
        return f"sequences of a batch are turned at other positions than theirs: {', '.join(texts)}"

    def _is_shifted(self, sequence: int, shift: int) -> bool:
        """Whether all heads of a sequence are those at positions that are off by so much."""
        return self._is_at(sequence, self._positions[sequence] + shift)

    @cached_property
    def _reordered(self) -> str:
        """How heads are taken for other heads, or for rows; empty where they are not."""
        if self._tiled:
            return _TILED
        if self.exchanged:
            return f"heads change places: {self.exchanged}"
        square = self._arrangement.is_square
        if square and self._holds(self._along_heads()):
            return _ALONG_HEADS
        return self._copied

    @property
    def _copied(self) -> str:
        """Of the first or last sequence, or head, if others have its vectors; else empty."""
        for noun, axis in (("sequence", 0), ("head", 2)):
            count = min(given.shape[axis] for given in self._given)
            for other in (0, count - 1) if count > 1 else ():
                if any(wrong.take(other, axis=axis // 2).any() for wrong in self._wrong):
                    continue  # a copy of what is wrong itself shows nothing
                copies = [
                    np.broadcast_to(given.take([other], axis=axis), given.shape)
                    for given in self._given
                ]
                values = [
                    self._values(given, self._positions, which)
                    for which, given in enumerate(copies)
                ]
                if self._holds(values):
                    come, do = ("comes", "does") if self._is_one else ("come", "do")
                    return f"{self._where} {come} out as the vectors of {noun} {other + 1} {do}"
        return ""

    @property
    def _tiled(self) -> bool:
        """Whether all heads of k come back, one after the other, where each should again and again.

        A group of neighbouring heads of q shares one head of k.
        """
        if self._wrong[0].any() or self._together[-1].shape == self._alone[-1].shape:
            return False
        times = self._together[-1].shape[2] // self._alone[-1].shape[2]
        in_turn = np.tile(self._alone[-1], (1, 1, times, 1))
        return not self._different(self._together[-1], in_turn).any()

    @cached_property
    def exchanged(self) -> str:
        """Which heads come back in whose places, in all sequences; empty where others do."""
        texts = []
        for name, together, own, wrong in zip(
            ("q", "k"), self._together, self._alone, self._wrong, strict=False
        ):
            if together.shape != own.shape:
                return ""
            heads = np.arange(own.shape[2])
            sources = [self._source(together[:, :, [head]], own) for head in heads]
            if not wrong.any():
                continue
            if sorted(source for source in sources if source is not None) != heads.tolist():
                return ""
            moved = [(source, head) for head, source in enumerate(sources) if source != head]
            shown = ", ".join(f"head {a} as {b}" for a, b in np.array(moved[:_LISTED]) + 1)
            more = ", …" if len(moved) > _LISTED else ""
            texts.append(f"{f'of {name} ' if len(self._wrong) > 1 else ''}{shown}{more}")
        return "; ".join(texts)

    def _source(self, head: NumberArray, own: NumberArray) -> int | None:
        """The head that came back as this one, (sequences, rows, 1, columns), None where none."""
        for source in range(own.shape[2]):
            if not self._different(head, own[:, :, [source]]).any():
                return source
        return None

    def _holds(self, values: list[NumberArray]) -> bool:
        """Whether what differs is these values."""
        return not any(
            (self._different(together, own) & wrong).any()
            for together, own, wrong in zip(self._together, values, self._wrong, strict=True)
        )

    def _along_heads(self) -> list[NumberArray]:
        """What heads become where each head is at the position of a row, and all its rows are."""
        results = []
        for which, given in enumerate(self._given):
            values = np.empty(given.shape)
            for sequence, head in itertools.product(range(len(given)), range(given.shape[2])):
                here = np.full(given.shape[1], self._positions[sequence, head])
                own = given[sequence, :, head]
                values[sequence, :, head] = self._function.values(own, here, which)
            results.append(values)
        return results

    @property
    def _right(self) -> list[int]:
        """The sequences all heads of which are right."""
        wrong = np.concatenate(self._wrong, axis=1).any(axis=1)
        return [int(sequence) for sequence in np.flatnonzero(~wrong)]

    @property
    def _is_one(self) -> bool:
        """Whether a single head or sequence differs."""
        return self._where.startswith(("sequence ", "head "))

    @property
    def _where(self) -> str:
        """The heads and sequences that differ, for a reader."""
        names = ("q", "k") if len(self._wrong) > 1 else ("x",)
        parts = {
            name: _part_text(wrong)
            for name, wrong in zip(names, self._wrong, strict=True)
            if wrong.any()
        }
        alike = len(parts) == len(names) and len({*parts.values()}) == 1
        if alike:
            return next(iter(parts.values()))
        return " and ".join(f"{text} of {name}" for name, text in parts.items())


def _drawn_of(heads: int) -> Integers:
    """The number of the vectors that each of so many heads is given; of few, each has its own."""
    if heads < _FEW_HEADS:
        return np.arange(heads)
    return np.resize(_DRAWN_HEADS, heads)


def _part_text(wrong: Flags) -> str:
    """Which of sequences and heads are meant. Shape: (sequences, heads)."""
    sequences, heads = wrong.any(axis=1), wrong.any(axis=0)
    if not np.array_equal(wrong, np.outer(sequences, heads)):
        return f"{int(wrong.sum())} of {wrong.size} heads of all sequences"
    if sequences.all() and heads.all():
        return "all heads"
    of_heads = _numbers_text("head", heads)
    if sequences.all():
        return of_heads
    of_sequences = _numbers_text("sequence", sequences)
    return of_sequences if heads.all() else f"{of_heads} of {of_sequences}"


def _numbers_text(noun: str, some: Any) -> str:
    """The numbers, from 1 on, of those meant; long runs as their ends."""
    numbers = (np.flatnonzero(some) + 1).tolist()
    short = len(numbers) <= _LISTED
    texts = [str(number) for number in numbers] if short else range_texts(numbers)
    return f"{noun}{'s' * (len(numbers) > 1)} {', '.join(texts)}"
