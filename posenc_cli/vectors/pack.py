"""A golden pack and its mutation score: what becomes of every known bug.

Each known bug is made of the pack's own content, and is killed where a value differs by more
than the tolerance there. Of each mistake the pack keeps the cells that show it best.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.records import Record, replace
from posenc_cli.vectors.pack_content import WrongValues, pack_content, single

if TYPE_CHECKING:
    from posenc_cli.choice import Choice
    from posenc_cli.inference.tolerance import ToleranceRule
    from posenc_cli.numerics.arrays import RealRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.vectors.pack_content import KnownMistake, PackContent

_SAME = 1e-3
"""Of the tolerance: what the values of one mistake may differ by that is made in two ways."""
_COMPARED = 1 << 13
"""Cells that mistakes are told apart by."""
_CELLS = 8
"""That a pack keeps of a mistake, in all parts of the columns."""


Cell = tuple[int, int, float, float]
"""One value of a wrong y: its row and column, the value, and what code in float32 may err by."""


class Outcome(Record):
    """What became of a mistake: killed by a pack, alive, or None where it cannot be made.

    ``margin`` is the largest difference, in tolerances.
    """

    cause: str
    message: str
    killed: bool | None
    margin: float | None = None
    reason: str = ""
    cells: tuple[Cell, ...] = ()


class GoldenPack(Record):
    """What an encoding makes of things at positions, what code may err by, and what it kills."""

    content: PackContent
    seed: int
    outcomes: tuple[Outcome, ...]

    @classmethod
    def of(cls, choice: Choice, *, seed: int, dtype: DType, rule: ToleranceRule) -> GoldenPack:
        """The pack of a choice, at its positions or those that show most.

        Raises: InvalidInput where there are none of it, or it would be too large.
        """
        content = pack_content(choice, seed=seed, dtype=dtype, rule=rule)
        return cls(content, seed, _outcomes(content))

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
        """How many known bugs it detects, in words."""
        return f"detects {self.killed} of {len(self.known)} known bugs"


def _outcomes(content: PackContent) -> tuple[Outcome, ...]:
    """What becomes of each mistake; those that give the same values count once."""
    y, allowed, complete = content.y, content.tolerance, content.complete
    rows = np.unique(np.linspace(0, y.shape[0] - 1, max(1, _COMPARED // y.shape[1])).astype(int))
    outcomes: list[Outcome] = []
    killed: dict[int, RealRows] = {}
    for mistake in content.mistakes():
        outcome, wrong = _outcome(mistake, y, allowed, complete=complete)
        if wrong is not None:
            some, near = wrong.values[rows], _SAME * wrong.tolerance[rows]
            margins = ((n, outcomes[n].margin) for n in killed)
            alike = (n for n, margin in margins if _is_near(margin, outcome.margin))
            with np.errstate(invalid="ignore", over="ignore"):
                same = next((n for n in alike if (np.abs(some - killed[n]) <= near).all()), None)
            if same is not None:  # one thing, by another name
                message = f"{outcomes[same].message}, or {outcome.message}"
                outcomes[same] = replace(outcomes[same], message=message)
                continue
            killed[len(outcomes)] = some
        outcomes.append(outcome)
    return tuple(outcomes)


def _is_near(margin: float | None, other: float | None) -> bool:
    """Whether two margins are the same but for roundings."""
    return margin == other or abs((margin or 0) - (other or 0)) <= _SAME * (other or 0)


def _outcome(
    mistake: KnownMistake, y: RealRows, allowed: RealRows, *, complete: bool
) -> tuple[Outcome, WrongValues | None]:
    """What becomes of a mistake, with the cells that show it best; and its values where killed."""
    cause, message, wrong = mistake.cause, mistake.message, mistake.wrong
    if wrong is None:
        return Outcome(cause, message, None, reason=mistake.reason), None
    with np.errstate(invalid="ignore", over="ignore"):
        wrong = WrongValues(single(wrong.values), single(wrong.tolerance))
        missed = np.abs(wrong.values - y)
        finite = np.isfinite(missed + wrong.tolerance)
        shown = np.where(finite, missed / (allowed + wrong.tolerance), -1.0)
        margin = float(np.nan_to_num(missed / allowed, nan=np.inf, posinf=np.inf).max())
    if margin <= 1:
        if complete and np.array_equal(wrong.values, y):
            reason = "it changes no value at any position that there is"
            return Outcome(cause, message, None, reason=reason), None
        reason = f"no value differs by more than {margin:.2g} of the tolerance"
        return Outcome(cause, message, False, margin, reason), None
    cells = _spread_cells(wrong, shown)
    return Outcome(cause, message, True, margin, cells=cells), wrong


def _spread_cells(wrong: WrongValues, shown: RealRows) -> tuple[Cell, ...]:
    """Cells of rows and columns of all parts, in each the one that shows the mistake best.

    The best of all is the first. Where nothing is shown, that this stays right is a sign, too.
    """
    left = shown.copy()
    cells = []
    parts = np.array_split(np.arange(shown.shape[1]), min(_CELLS, shown.shape[1]))
    for part in sorted(parts, key=lambda columns: -shown[:, columns].max()):
        values = left[:, part] if left[:, part].max() >= 0 else shown[:, part]
        row, column = divmod(int(np.argmax(values)), part.size)
        if values[row, column] < 0:
            continue  # no number is there
        left[row] = -1.0  # each row once, where there are enough
        place = row, int(part[column])
        cells.append((*place, float(wrong.values[place]), float(wrong.tolerance[place])))
    return tuple(cells)
