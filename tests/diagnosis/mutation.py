"""What a mutant is: one mistake in textbook RoPE, with the causes that name it."""

from typing import Any

import numpy as np

from posenc_cli.records import Record, replace
from tests.diagnosis.textbook import CASES, Rope, rotate, yarn_scale


class Mutant(Record):
    """One mistake, the causes that name it, and which subjects show it.

    ``causes`` may be named first, the usual word before others, ``also`` after it: any other is
    false. ``relative`` is whether
    q·k depends on m − n alone, None where that shows in some subjects only. ``positions`` are
    where it shows.
    """

    case: str
    wrong: Rope
    causes: tuple[str, ...]
    also: tuple[str, ...]
    what: str
    subjects: tuple[str, ...]
    relative: bool | None
    positions: str


ALL = ("tables", "half", "rotated", "impl")
"""What shows a mistake: full tables, (L, d), half ones, (L, d/2), rotated vectors, a function."""

WHOLE = ("tables", "rotated", "impl")
"""Where half tables could be full ones of a head half as wide."""

APPLIED = ("rotated", "impl")
DENSE = "0:4096"


class Mutants(dict[str, Mutant]):
    """Mistakes by name."""

    def add(
        self,
        name: str,
        of: str,
        cause: str,
        what: str,
        *,
        also: str = "",
        subjects: tuple[str, ...] = ALL,
        relative: bool | None = True,
        positions: str | None = None,
        **changes: Any,
    ) -> None:
        """One mistake in the right implementation of a case."""
        right = CASES[of].right
        wrong = replace(right, **changes)
        if {"layout", "wide"} & set(changes):
            subjects = tuple(each for each in subjects if each != "half")
        if set(changes) <= {"inv_freq", "inv_in"} and wrong.rotated == right.rotated:
            subjects += ("inv-freq",)
        causes, others = (tuple(each.split("|")) for each in (cause, also))
        positions = positions or (DENSE if CASES[of].axes is None else "0:1024")
        self[name] = Mutant(of, wrong, causes, others, what, subjects, relative, positions)


FAST = np.arange(32) < 16
KEPT = np.where(np.arange(64) < 33, yarn_scale(16), 1)
"""Of the pairs: the faster half, and the attention factor of those that YaRN does not divide."""


def turned(x: Any, cos: Any, sin: Any) -> Any:
    return x * cos + rotate(x, "half") * sin


def noise(like: Any, seed: int) -> Any:
    """What memory may hold: numbers of any sign and size."""
    generator = np.random.default_rng(seed)
    return generator.standard_normal(like.shape) * 10 ** generator.uniform(-30, 30, like.shape)


def since(row: int, of: str, **changes: Any) -> dict[str, Any]:
    """What makes the rows from ``row`` on another implementation's."""
    return {"later": replace(CASES[of].right, **changes), "since": row}
