"""At which positions the rows of several sequences and heads of one call are turned.

Each row of each head is held against what it becomes alone at every position near, and so read. A
rule, or that rows stand elsewhere, is told where it gives all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.calls.answers import Differs
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.numerics.arrays import Integers, NumberArray

_MOST_CELLS = 1 << 22
"""Values of one call: those of wider heads are not looked at."""

_SHOWN = 3
"""Rows that are listed."""


class RowsOfBatch(Record):
    """One result of a call: ``given`` and ``turned``, (sequences, rows, heads, columns) each.

    ``positions`` (sequences, rows) are those that were given, ``which`` the result, and
    ``heads_of_q``, ``heads_of_k`` how many heads q and k have in the call.
    """

    function: ServedFunction
    which: int
    positions: Integers
    given: NumberArray
    turned: NumberArray
    heads_of_q: int
    heads_of_k: int

    def read(self, differs: Differs) -> Integers | None:
        """The position that each row of each head is turned at, of ``given``'s first three axes.

        None where some row is turned at none that is near.
        """
        near = np.arange(int(self.positions.max()) + self.given.shape[2] + 1)
        given = self.given.reshape(-1, self.given.shape[3])  # (k, columns)
        if given.size * near.size > _MOST_CELLS or not self.function.form.any_rows:
            return None
        try:
            alone = self.function.values(
                np.repeat(given, near.size, axis=0), np.tile(near, len(given)), self.which
            )
        except InvalidInput:
            self.function.revive()
            return None
        alone = alone.reshape(len(given), near.size, -1)
        turned = self.turned.reshape(len(given), -1)
        read = np.abs(alone - turned[:, None]).max(axis=2).argmin(axis=1)
        if differs(turned, alone[np.arange(len(given)), read]):
            return None
        places: Integers = near[read].reshape(self.given.shape[:3])
        return places


class Misplaced(Record):
    """How rows come by positions that are not theirs, in words.

    ``by_rule`` says that a rule gives them, ``alike`` that all heads have the same.
    """

    text: str
    by_rule: bool
    alike: bool


def misplaced_rows(results: list[RowsOfBatch], differs: Differs) -> Misplaced | None:
    """How the rows of a call come by their positions; None where they are not all read, or right.

    A rule is that of all results that are wrong.
    """
    wrong: list[tuple[RowsOfBatch, Integers]] = []
    for one in results:
        read = one.read(differs)
        if read is None:
            return None
        if (read != one.positions[:, :, None]).any():
            wrong.append((one, read))
    if not wrong:
        return None
    alike = not any((read != read[:, :, :1]).any() for _, read in wrong)
    for text, rule in _RULES:
        if all(np.array_equal(rule(_Call.of(one)), read) for one, read in wrong):
            names = ("q", "k") if len(results) > 1 else ("x", "x")
            own = " and ".join(names[one.which] for one, _ in wrong)
            told = text.format(own=own, other=names[1 - wrong[0][0].which])
            return Misplaced(told, by_rule=True, alike=alike)
    listed = ", ".join(_listed(*wrong[0]))
    text = f"rows are turned at other positions than theirs: {listed}"
    return Misplaced(text, by_rule=False, alike=alike)


def _listed(one: RowsOfBatch, read: Integers) -> Iterator[str]:
    """Rows that are turned elsewhere, for a reader."""
    moved = np.argwhere(read != one.positions[:, :, None])
    for sequence, row, head in moved[:_SHOWN].tolist():
        of_sequence = f" of sequence {sequence + 1}" * (len(read) > 1)
        position = one.positions[sequence, row]
        yield f"{position} of head {head + 1}{of_sequence} as {read[sequence, row, head]}"
    if len(moved) > _SHOWN:
        yield "…"


class _Call(Record):
    """What a rule goes by: of each row its sequence, number and head, (sequences, rows, heads)."""

    positions: Integers
    sequence: Integers
    row: Integers
    head: Integers
    heads: int
    others: int

    @classmethod
    def of(cls, one: RowsOfBatch) -> _Call:
        """That of one result; ``others`` are the heads of the other."""
        shape = one.given.shape[:3]
        sequence, row, head = (np.asarray(index, np.int64) for index in np.indices(shape))
        others = one.heads_of_k if one.which == 0 else one.heads_of_q
        return cls(one.positions, sequence, row, head, shape[2], others)

    @property
    def rows(self) -> int:
        """The rows of a sequence."""
        return int(self.positions.shape[1])

    def at(self, positions: Integers) -> Integers:
        """Positions (sequences, rows) for each head."""
        return np.broadcast_to(positions[:, :, None], self.row.shape)

    def in_row(self, row: Integers) -> Integers:
        """The positions of other rows, past the last of which it is counted from the first."""
        return self.positions[self.sequence, row % self.rows]

    def in_all_rows(self, row: Integers) -> Integers:
        """The positions of other rows of all sequences, one after the other."""
        return self.positions.reshape(-1)[row % self.positions.size]


_RULES: tuple[tuple[str, Callable[[_Call], Integers]], ...] = (
    (
        "positions (b, n) are read as (n, b)",
        lambda call: call.at(call.positions.reshape(call.positions.shape[::-1]).T),
    ),
    (
        "positions (b, n) are transposed, and read as (b, n) then",
        lambda call: call.at(call.positions.T.reshape(call.positions.shape)),
    ),
    (
        "sequences are turned at the positions of each other, the first at those of the last",
        lambda call: call.at(call.positions[::-1]),
    ),
    ("rows are turned in reverse order", lambda call: call.at(call.positions[:, ::-1])),
    (
        "the number of the head, from 0 on, is added to the position",
        lambda call: call.at(call.positions) + call.head,
    ),
    (
        "the number of the head, from 1 on, is added to the position",
        lambda call: call.at(call.positions) + call.head + 1,
    ),
    (
        "the number of the sequence, from 0 on, is added to the position",
        lambda call: call.at(call.positions) + call.sequence,
    ),
    (
        "rows of {own} are found by dividing through the heads of {other}",
        lambda call: call.in_row((call.row * call.heads + call.head) // call.others),
    ),
    (
        "rows of {own} in all sequences are found by dividing through the heads of {other}",
        lambda call: call.in_all_rows(
            ((call.sequence * call.rows + call.row) * call.heads + call.head) // call.others
        ),
    ),
    (
        "rows and heads of {own} are counted as one, and what is past the rows starts again",
        lambda call: call.in_row(call.row * call.heads + call.head),
    ),
    (
        "rows of {own} are found by dividing through the heads, though rows come after heads",
        lambda call: call.in_row((call.head * call.rows + call.row) // call.heads),
    ),
)
"""Rules for the rows' positions, the plainest first."""
