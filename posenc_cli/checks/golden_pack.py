"""A golden pack: vectors, positions and what an encoding makes of them, and of every known mistake.

Owns which positions and vectors a pack has, what code may err by, and its mutation score: each
known mistake is made of the pack's own vectors, and is killed where a value differs by more than
the tolerance there. Of each mistake the pack keeps some cells, chosen so that they tell it from all
others that can be told apart.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.application import AppliedEncoding, applicable_part, vector_columns
from posenc_cli.analysis.spectrum import context_of
from posenc_cli.budget import check_size
from posenc_cli.checks.known_mistakes import TurnedVectors, WrongVectors, known_mistakes
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.weights import DrawnTable
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.reference import Reference
from posenc_cli.inference.tolerance import Tolerance
from posenc_cli.numerics.dtypes import FLOAT32
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.positions import Positions, consecutive_ranges
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from posenc_cli.checks.known_mistakes import KnownMistake
    from posenc_cli.choice import Choice
    from posenc_cli.inference.tolerance import ToleranceRule
    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray, RealRows
    from posenc_cli.numerics.dtypes import DType

MOST_VALUES = 1 << 18
"""Of x: a pack is a file of tests, and every mistake is made of all of it."""
_FIRST = 8
"""Positions from 0 on that every pack has."""
_FARTHEST = 2**17
"""What packs reach by default: past it uint16 wraps, and the longest contexts of most models."""
_FEW = 256
"""Positions of an encoding that has no more: all of them are taken."""
_ROUNDINGS = 4
"""Of what turns a vector: a table, two products, a sum; as rope-check counts them."""
_SAME = 1e-3
"""Of the tolerance: what the values of one mistake may differ by that is made in two ways."""
_COMPARED = 1 << 13
"""Cells that mistakes are told apart by."""
_MOST_CELLS, _SPREAD_CELLS = 16, 8
"""That a pack keeps of a mistake, and those of them that lie in all parts of the columns."""


class Cell(Record):
    """One value of a wrong y, and what code in float32 may err by that makes it."""

    row: int
    column: int
    value: float
    tolerance: float


class Outcome(Record):
    """What became of a mistake: killed by a pack, alive, or None where it cannot be made.

    ``margin`` is the largest difference, in tolerances. ``alike`` are the numbers of the mistakes
    that its ``cells`` do not tell it from.
    """

    cause: str
    message: str
    killed: bool | None
    margin: float | None = None
    reason: str = ""
    cells: tuple[Cell, ...] = ()
    alike: tuple[int, ...] = ()


class GoldenPack(Record):
    """Vectors x (n, columns) at positions (n,), what becomes of them, and what code may err by.

    Values are numbers of float32; ``y`` is rounded to ``dtype``.
    """

    applied: AppliedEncoding
    reference: Reference
    context: tuple[int, str]
    seed: int
    dtype: DType
    rule: ToleranceRule
    tolerance_reason: str
    positions: Integers
    x: RealRows
    y: RealRows
    tolerance: RealRows
    tables: dict[str, RealRows]
    outcomes: tuple[Outcome, ...]

    @classmethod
    def of(cls, choice: Choice, *, seed: int, dtype: DType, rule: ToleranceRule) -> GoldenPack:
        """The pack of a choice, at its positions or those that show most.

        Raises: InvalidInput where nothing of it turns vectors, or the pack would be too large.
        """
        part = applicable_part(choice)
        if part.scheme.kind != "rotary":
            raise InvalidInput(
                f"--scheme {part.scheme.name}: is {part.scheme.kind}, and packs are of rotary "
                "encodings",
                hint=f"posenc apply -s {part.scheme.name} --out pack.npz writes x, positions and y",
            )
        stated = context_of(part.encoding(), None, part.context)
        part = _at_positions(part, stated[0])
        assert part.positions is not None
        columns = vector_columns(part)
        count = part.positions.count
        check_size(part.positions.option, count * columns, MOST_VALUES, "values of x")
        x = _drawn_vectors(count, columns, seed)
        applied = AppliedEncoding.of(part, x.shape, "x", dtype=dtype)
        others = tuple(o.scheme.name for o in choice.parts if o.scheme != part.scheme)
        applied = replace(applied, left_out=others)
        reference = Reference.of(applied.request.encoding)
        y = widen(np.concatenate(list(applied.blocks(x))), dtype).reshape(x.shape)
        positions = np.array(list(applied.request.row_positions()), np.int64)
        _check_finite(y, positions, dtype)
        tolerance = Tolerance.of(
            rule, dtype=dtype.name, roundings=_ROUNDINGS, amplitude=reference.scale
        )
        vectors = TurnedVectors(reference, x, positions, tolerance)
        allowed = _single(vectors.right().tolerance)
        capacity = reference.encoding.bound.content.capacity
        complete = capacity is not None and len({*positions.tolist()}) == capacity.positions
        mistakes = known_mistakes(vectors, stated[0])
        outcomes = _outcomes(mistakes, y, allowed, complete=complete)
        reason = tolerance.reason if tolerance.fixed is None else f"given: {tolerance.fixed:g}"
        return cls(
            applied, reference, stated, seed, dtype, rule, reason, positions, x, y, allowed,
            _tables(part, dtype), outcomes,
        )  # fmt: skip

    @property
    def known(self) -> tuple[Outcome, ...]:
        """The mistakes that can be made of the encoding."""
        return tuple(outcome for outcome in self.outcomes if outcome.killed is not None)

    @property
    def killed(self) -> int:
        """How many of them the pack kills."""
        return sum(bool(outcome.killed) for outcome in self.known)

    @property
    def score(self) -> str:
        """The mutation score, in words."""
        return f"kills {self.killed} of {len(self.known)} known mistakes"


def _check_finite(y: RealRows, positions: Integers, dtype: DType) -> None:
    wrong = np.flatnonzero(~np.isfinite(y).all(axis=1))
    if wrong.size:
        raise InvalidInput(
            f"position {positions[wrong[0]]}: what becomes of x is past the largest number of "
            f"{dtype.name}",
            hint="--positions takes nearer ones",
        )


def _at_positions(choice: Choice, context: int) -> Choice:
    """The choice at its positions, or at those that show most.

    Raises: InvalidInput where positions are not whole.
    """
    if choice.positions is not None:
        choice.positions.whole("a pack")
        return choice
    content = choice.encoding().bound.content
    if content.waves is not None and content.waves.growth is not None:
        # Its amplitudes grow or fall without end.
        return replace(choice, positions=telling_positions(context, farthest=context + 1))
    capacity = content.capacity
    most = None if capacity is None else capacity.positions
    return replace(choice, positions=telling_positions(context, most))


def telling_positions(
    context: int, capacity: int | None = None, *, farthest: int | None = None
) -> Positions:
    """The first positions, those around powers of two, the end of the context, and past it.

    >>> str(telling_positions(4, 20))
    '0:20'
    >>> str(telling_positions(100, 300))[-30:]
    '63:66,99:102,127:130,255:258'
    """
    farthest = farthest or max(_FARTHEST, context) + 1
    if capacity is not None:
        farthest = min(farthest, capacity - 1)
        if capacity <= _FEW:
            return Positions.contiguous(0, capacity)
    numbers = {*range(_FIRST), farthest, *(context + step for step in (-1, 0, 1))}
    power = _FIRST
    while power - 1 <= farthest:
        numbers |= {power - 1, power, power + 1}
        power *= 2
    return Positions(consecutive_ranges(sorted(n for n in numbers if 0 <= n <= farthest)))


def _drawn_vectors(count: int, columns: int, seed: int) -> RealRows:
    """Odd multiples of 1/32 below 4, about as normal(0, 1) falls: numbers of every format.

    Shape: (count, columns).
    """
    drawn = DrawnTable(columns, seed, 1.0)(np.arange(count))
    halves = np.clip(2 * np.floor(16 * drawn) + 1, -127, 127)
    return np.asarray(halves / 32, np.float64)


def _tables(choice: Choice, dtype: DType) -> dict[str, RealRows]:
    """Cosines, sines and, where each pair has one, frequencies, correctly rounded."""
    precision = Precision.of(FLOAT32, dtype)
    names = ["cos", "sin"]
    if choice.encoding().bound.rotation.waves.coordinates is None:
        names.append("inv-freq")
    tables = {}
    for name in names:
        # Frequencies are kept as float32 by code of any format.
        rounded = Precision.of(FLOAT32, None) if name == "inv-freq" else precision
        matrix = choice.requests(rounded, table=name)[0].plan().matrix()
        blocks = [widen(block.reshape(-1), FLOAT32) for block in matrix.blocks()]
        tables[name.replace("-", "_")] = np.concatenate(blocks).reshape(matrix.shape)
    return tables


def _single(values: RealRows) -> RealRows:
    """Values rounded to float32, kept as float64."""
    return widen(narrow(values, None, FLOAT32), FLOAT32)


def _outcomes(
    mistakes: Iterable[KnownMistake], y: RealRows, allowed: RealRows, *, complete: bool
) -> tuple[Outcome, ...]:
    """What becomes of each mistake, beside y (n, columns) and what it may be off by.

    ``complete`` says that there are no other positions than those of the pack.
    """
    rows = np.unique(np.linspace(0, y.shape[0] - 1, max(1, _COMPARED // y.shape[1])).astype(int))
    outcomes: list[Outcome] = []
    killed: dict[int, _Killed] = {}
    for mistake in mistakes:
        outcome, wrong = _outcome(mistake, y, allowed, complete=complete)
        if wrong is not None:
            kept = _Killed.of(wrong, outcome, rows)
            same = next((n for n, other in killed.items() if kept.is_like(other)), None)
            if same is not None:  # one thing, by another name
                message = f"{outcomes[same].message}, or {outcome.message}"
                outcomes[same] = replace(outcomes[same], message=message)
                continue
            killed[len(outcomes)] = kept
        outcomes.append(outcome)
    return _told_apart(outcomes, {number: one.wrong for number, one in killed.items()}, rows)


class _Killed(Record):
    """Some rows of what a mistake makes, and of all of them the margin and the sum."""

    wrong: WrongVectors
    margin: float
    total: float
    allowed: float

    @classmethod
    def of(cls, wrong: WrongVectors, outcome: Outcome, rows: Integers) -> _Killed:
        assert outcome.margin is not None
        some = WrongVectors(wrong.values[rows], wrong.tolerance[rows])
        with np.errstate(invalid="ignore", over="ignore"):
            total, allowed = float(wrong.values.sum()), float(wrong.tolerance.mean())
        return cls(some, outcome.margin, total, allowed)

    def is_like(self, other: _Killed) -> bool:
        """Whether another mistake gives the same values, but for the rounding of float64."""
        mine, others = self.wrong, other.wrong
        if abs(self.margin - other.margin) > _SAME * self.margin:
            return False
        if abs(self.total - other.total) > _SAME * self.allowed * mine.values.size:
            return False
        with np.errstate(invalid="ignore"):
            missed = np.abs(mine.values - others.values)
        return bool((missed <= _SAME * mine.tolerance).all())


def _outcome(
    mistake: KnownMistake, y: RealRows, allowed: RealRows, *, complete: bool
) -> tuple[Outcome, WrongVectors | None]:
    """What becomes of a mistake, with the cells that show it best; and its values where killed."""
    cause, message, wrong = mistake.cause, mistake.message, mistake.wrong
    if wrong is None:
        return Outcome(cause, message, None, reason=mistake.reason), None
    with np.errstate(invalid="ignore", over="ignore"):
        wrong = WrongVectors(_single(wrong.values), _single(wrong.tolerance))
        missed = np.abs(wrong.values - y)
        shown = np.where(np.isfinite(missed), missed / (allowed + wrong.tolerance), -1.0)
        margin = float(np.nan_to_num(missed / allowed, nan=np.inf).max())
    if margin <= 1:
        if complete and np.array_equal(wrong.values, y):
            reason = "it changes no value at any position that there is"
            return Outcome(cause, message, None, reason=reason), None
        reason = f"no value differs by more than {margin:.2g} of the tolerance"
        if np.array_equal(wrong.values, y):
            reason = "it changes no value of this pack"
        return Outcome(cause, message, False, margin, reason), None
    cells = _spread_cells(wrong, shown)
    return Outcome(cause, message, True, margin, cells=cells), wrong


def _spread_cells(wrong: WrongVectors, shown: RealRows) -> tuple[Cell, ...]:
    """Cells of rows and columns of all parts, in each the one that shows the mistake best.

    The best of all is the first. Where nothing is shown, that this stays right is a sign, too.
    """
    left = shown.copy()
    cells = []
    parts = np.array_split(np.arange(shown.shape[1]), min(_SPREAD_CELLS, shown.shape[1]))
    for part in sorted(parts, key=lambda columns: -shown[:, columns].max()):
        row, column = divmod(int(np.argmax(left[:, part])), part.size)
        left[row] = -2.0  # each row once, where there are enough
        cells.append(_cell(wrong, row, int(part[column])))
    return tuple(cells)


def _cell(wrong: WrongVectors, row: int, column: int, named: int | None = None) -> Cell:
    """A cell of wrong vectors, whose row the pack may number otherwise."""
    return Cell(
        row if named is None else named,
        column,
        float(wrong.values[row, column]),
        float(wrong.tolerance[row, column]),
    )


def _told_apart(
    outcomes: list[Outcome], killed: dict[int, WrongVectors], rows: Integers
) -> tuple[Outcome, ...]:
    """The outcomes, each with cells that tell it from the others.

    ``killed`` are the wrong vectors at ``rows``, by the numbers of the outcomes.
    """
    if not killed:
        return tuple(outcomes)
    numbers = list(killed)
    values = np.stack([wrong.values for wrong in killed.values()]).astype(np.float32)
    allowed = np.stack([wrong.tolerance for wrong in killed.values()]).astype(np.float32)
    finite = np.isfinite(values)
    for place, (number, wrong) in enumerate(killed.items()):
        cells = list(outcomes[number].cells)
        others = np.array([other for other in range(len(numbers)) if other != place], np.int64)
        for cell in cells:
            row = int(np.searchsorted(rows, cell.row))
            if row < rows.size and rows[row] == cell.row:
                apart = _apart(values[:, row], allowed[:, row], place, others)
                others = others[~apart[:, cell.column]]
        while others.size and len(cells) < _MOST_CELLS:
            apart = _apart(values, allowed, place, others) & finite[place]
            counts = apart.sum(axis=0)
            if not counts.max():
                break
            row, column = (int(index) for index in np.unravel_index(counts.argmax(), counts.shape))
            cells.append(_cell(wrong, row, column, int(rows[row])))
            others = others[~apart[:, row, column]]
        alike = tuple(numbers[other] for other in others)
        outcomes[number] = replace(outcomes[number], cells=tuple(cells), alike=alike)
    return tuple(outcomes)


def _apart(values: NumberArray, allowed: NumberArray, place: int, others: Integers) -> Flags:
    """Where others differ from one by more than code with either mistake may err.

    Shape: (others, …), of values (mistakes, …).
    """
    with np.errstate(invalid="ignore", over="ignore"):
        apart: Flags = np.abs(values[others] - values[place]) > allowed[others] + allowed[place]
    return apart
