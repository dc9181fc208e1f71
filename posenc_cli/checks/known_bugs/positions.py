"""Bugs of positions: rows, queries and keys belong to other positions than they should."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.expected import Change, ValuePlaces
from posenc_cli.checks.known_bugs.bug import GITHUB, BugCode, KnownBug
from posenc_cli.checks.measured import row_maps
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.formats import HALVES, round_to_half

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.checks.expected import Expected
    from posenc_cli.checks.measured import RowMap
    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows


def _moved_rows(e: Expected) -> Iterator[Change]:
    """Rows of other positions, as the rows themselves tell."""
    for found in row_maps(e):
        yield Change(
            found.text,
            places=partial(_as_found, found=found),
            code=found.code,
            general=found.code == BugCode.ORDER,
            remedy="Put the rows back in order." if found.code == BugCode.ORDER else "",
        )
    if e.is_waves:
        for grid in (1, -1, 0.5):
            if e.params.get("grid"):
                yield Change(
                    f"coordinates on the grid are shifted by {grid:+g}",
                    make=partial(_shifted_grid, by=grid),
                )


def _as_found(places: ValuePlaces, _: Expected, *, found: RowMap) -> ValuePlaces:
    return ValuePlaces(found.at(places.at))


def _shifted_grid(e: Expected, by: float) -> RealRows:
    return e.waves((e.followed() + by) * e.frequencies)


def _usual_moves(e: Expected, context: int) -> Iterator[Change]:
    """Positions that get lost in usual ways, in a model of so many."""
    last, own = context - 1, e.places.at
    moves: dict[str, Callable[[Integers], Integers]] = {
        f"positions are shifted by {by:+d}": partial(np.add, by) for by in (1, -1, 2)
    }
    moves |= {
        f"positions are clamped at {last}": partial(np.minimum, last),
        "each row belongs to its number in the array": lambda at: np.searchsorted(own, at),
        "every row is that of the last position": lambda at: 0 * at + int(own[-1]),
        "positions start again at 0 after 511": lambda at: at % 512,
        f"positions start again at 0 after {last}": lambda at: at % context,
        "8 tokens of padding on the left are not counted": lambda at: np.maximum(at - 8, 0),
    }
    for text, move in moves.items():
        yield Change(text, places=partial(_moved_within, move=move))


def _moved_within(
    places: ValuePlaces, e: Expected, *, move: Callable[[Integers], Integers]
) -> ValuePlaces:
    """Moved positions; those outside become the first or the last that there is."""
    capacity = e.content.capacity
    # At most what int64 holds: NumPy 2.0 raises an OverflowError for more.
    last = None if capacity is None else min(capacity.positions, 2**63) - 1
    return places.moved(lambda at: np.clip(move(np.asarray(at, np.int64)), 0, last))


def _moved_keys(_: Expected) -> Iterator[Change]:
    for by in (1, -1):
        yield Change(f"keys are shifted by {by:+d}", places=partial(_moved_by, by=by))


def _moved_by(places: ValuePlaces, _: Expected, *, by: int) -> ValuePlaces:
    assert places.keys is not None
    return ValuePlaces(places.at, places.keys + by)


def _lost_queries(e: Expected, context: int) -> Iterator[Change]:
    yield from _moved_keys(e)
    for which, own in (("first", e.places.at[0]), ("last", e.places.at[-1])):
        yield Change(
            f"all queries are taken for the {which}",
            places=partial(_at_one_query, at=int(own)),
        )
    yield from _usual_moves(e, context)


def _at_one_query(places: ValuePlaces, _: Expected, *, at: int) -> ValuePlaces:
    return ValuePlaces(np.full_like(places.at, at), places.keys)


def _coarse_positions(e: Expected) -> Iterator[Change]:
    for half in HALVES:
        yield Change(f"positions were rounded to {half}", places=partial(_coarse, half=half))
        if e.is_waves:
            make = partial(_at_coarse_angles, half=half)
            yield Change(f"angles were rounded to {half}", make=make)


def _coarse(places: ValuePlaces, _: Expected, *, half: str) -> ValuePlaces:
    return places.moved(lambda at: _rounded(at, half).astype(at.dtype))


def _at_coarse_angles(e: Expected, *, half: str) -> RealRows:
    return e.waves(_rounded(e.angles(), half))


def _rounded(values: NumberArray, half: str) -> NumberArray:
    rounded = round_to_half(values.astype(np.float64), half)
    if not np.isfinite(rounded).all():
        raise InvalidInput(f"{half} has no number for some of these positions")
    return rounded


BUGS = (
    KnownBug(
        BugCode.POSITION_OFFSET,
        _moved_rows,
        "Count positions as the reference does (padding offset, start and step).",
        f"{GITHUB}huggingface/sentence-transformers/pull/3879, "
        f"{GITHUB}DiffPoseTalk/DiffPoseTalk/issues/20, "
        f"{GITHUB}AkiRusProd/numpy-transformer/issues/1",
        solves=True,
        examples=_usual_moves,
    ),
    KnownBug(
        BugCode.POSITION_OFFSET,
        _moved_keys,
        "Count queries and keys from the same position.",
        f"{GITHUB}vllm-project/vllm/pull/945, {GITHUB}lucidrains/x-transformers/pull/103",
        ("scores",),
        examples=_lost_queries,
    ),
    KnownBug(
        BugCode.POSITION_PRECISION,
        _coarse_positions,
        "Keep positions and angles in float32.",
        f"{GITHUB}wfondrie/depthcharge/pull/82",
        ("rows", "scores"),
    ),
)
"""Positions that are shifted, clamped, repeated, permuted or rounded."""
