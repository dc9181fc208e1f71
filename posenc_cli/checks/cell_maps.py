"""Cells that are something else made of the right angles: of the right cells, of rows, of pairs.

Each map says what every cell of a table would be; it is tried on some rows, and told where it makes
all cells of all rows. What has numbers reads them off the cells, few of them for very many.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.approximations import approximations
from posenc_cli.checks.table_cells import TableCells, are_tables
from posenc_cli.checks.verdict import Explanation
from posenc_cli.checks.wording import pairs_text, with_residual
from posenc_cli.inference.alternatives import likely_alternatives
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.claims import Residual
from posenc_cli.inference.formats import round_to_half
from posenc_cli.inference.tolerance import unit
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.checks.approximations import RealFunction
    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows, Reals

    _Made = Callable[[TableCells], tuple[RealRows, RealRows]]
    """Cells, (tables, n, pairs), and what they may be off by beside the tolerance."""

_FEW = 48
"""Rows that maps are tried on first."""

_FEWEST_ROWS, _FEWEST_PAIRS = 8, 4
"""Of a table that shows numbers of each pair, or of each row."""

_SCORES_OF_ROWS, _CENTRED = 64, 1e-4
"""Rows that show two numbers of each column, and what these leave of a cell."""

_EXCEPTIONS = 0.003
"""Of the rows: the first or the last of a table may have no neighbour."""

_LEFT = 0.1
"""Of the rows that are wrong: what explains them leaves hardly one."""

_LAYER_NORM = 1e-5
"""What a layer norm adds to the variance."""

_SINGLE = 4e-7
"""What a cell in float32 may be off by that goes through a root or a quotient."""

_HALF_TURNS = (1.57, 1.571, 1.5708, 1.570796, 22 / 14)
"""What π/2 is taken for."""

_NEARLY = 0.05
"""Of such a mistake: what cells show of it."""

_MOVED = (1, -1, 2, -2, 4, -4, 8, -8)
"""Values that memory is read too early or too late by."""

_NO_REPRODUCTION = 0.25
"""Of the size of entries: far positions may grant more, and whatever is no farther holds there."""


class CellMap(Record):
    """What all cells of a table would be, and the cause if they are."""

    cause: Cause
    message: str
    made: _Made
    evidence: str = ""


def cell_map_cause(suspect: Suspect) -> Explanation | None:
    """The cause where a map of the right angles makes all cells."""
    return _first_that_holds(suspect, _maps)


def own_numbers_cause(suspect: Suspect) -> Explanation | None:
    """The cause where rows, or pairs, are right but for a number of their own."""
    reference = suspect.examination.reference
    return _first_that_holds(suspect, lambda _, sample: _of_their_own(reference, sample))


def _first_that_holds(
    suspect: Suspect, maps: Callable[[Suspect, TableCells], Iterator[CellMap]]
) -> Explanation | None:
    """The cause of the first of some maps that makes all cells."""
    reference, places = suspect.examination.reference, suspect.examination.subject.own.places
    if not are_tables(suspect) or reference.coordinates is not None:
        return None
    sampled = places.sample()
    sample = TableCells.of(suspect, sampled)
    few = TableCells.of(suspect, sampled[:: -(-sampled.size // _FEW)])
    if not np.isfinite(sample.cells).all():
        return None
    size = max(reference.scale, float(np.median(np.abs(sample.cells))))
    for one in maps(suspect, sample):
        if not all(_hold_nearly(_missed(one, part)[1]) for part in (few, sample)):
            continue
        residual, wrong = _residual(suspect, one)
        if residual.within > _NO_REPRODUCTION * size:
            continue
        if residual.rows <= min(max(1, _EXCEPTIONS * residual.of_rows), _LEFT * wrong):
            return with_residual(Explanation(one.cause, one.message, one.evidence), residual)
    return None


def _hold_nearly(near: Flags) -> bool:
    """Whether nearly all rows hold, all but one of few. Shape: (n, pairs)."""
    left = int(np.count_nonzero(~near.all(axis=1)))
    return left <= max(1, len(near) // _FEW)


def _residual(suspect: Suspect, one: CellMap) -> tuple[Residual, int]:
    """What a map leaves over of all cells, and how many rows are wrong without it."""
    wrong = 0
    plain = CellMap(Cause.UNKNOWN, "", lambda part: (part.right, np.zeros_like(part.cells)))

    def held() -> Iterator[tuple[Integers, RealRows, Flags]]:
        nonlocal wrong
        for part in TableCells.all_of(suspect):
            wrong += int(np.count_nonzero(~_missed(plain, part)[1].all(axis=1)))
            yield part.positions, *_missed(one, part)

    return Residual.measure(held()), wrong


def byte_order_cause(suspect: Suspect) -> Explanation | None:
    """The cause where all cells that are numbers are right in the other byte order."""
    stored = _STORED.get(suspect.examination.subject.dtype)
    if stored is None or not are_tables(suspect):
        return None
    numbers = cells = 0

    def held() -> Iterator[tuple[Integers, RealRows, Flags]]:
        nonlocal numbers, cells
        for part in TableCells.all_of(suspect):
            with np.errstate(all="ignore"):
                exchanged = part.cells.astype(stored).byteswap().astype(np.float64)
                missed = np.abs(exchanged - part.right)
            known = np.isfinite(part.cells)
            numbers, cells = numbers + int(np.count_nonzero(known)), cells + known.size
            left = np.where(known & np.isfinite(missed), missed, 0.0).max(axis=0)
            yield part.positions, left, np.asarray((~known | (missed <= part.allowed)).all(axis=0))

    residual = Residual.measure(held())
    if not residual.whole or 2 * numbers < cells:
        return None
    cause = Explanation(
        Cause.NUMBER_FORMAT,
        "the bytes of each number stand in reverse order: big-endian ones read as little-endian",
        f"{numbers} of {cells} cells are numbers, and right in the other order",
    )
    return with_residual(cause, residual)


_STORED = {"float32": np.float32, "float64": np.float64, "float16": np.float16}
"""Formats whose bytes NumPy can exchange."""


def _missed(one: CellMap, part: TableCells) -> tuple[RealRows, Flags]:
    """By how much a map misses pairs of cells, and which it makes. Shape: (n, pairs)."""
    with np.errstate(all="ignore"):
        cells, extra = one.made(part)
        missed = np.abs(part.cells - cells)
        near = missed <= part.allowed + extra
    largest = np.where(np.isfinite(missed), missed, np.inf).max(axis=0)
    return largest, np.asarray(near.all(axis=0), bool)


def _maps(suspect: Suspect, sample: TableCells) -> Iterator[CellMap]:
    reference = suspect.examination.reference
    yield from _of_cells(sample)
    yield from _of_rows(reference, sample)
    yield from _approximations(reference.scale)
    yield from _means(reference)
    if suspect.examination.subject.own.pairing is None:
        yield from _memory(suspect)


def _paired(part: TableCells, cos: RealRows, sin: RealRows) -> RealRows:
    """Cosines and sines (n, pairs) as the tables that there are."""
    return np.stack([cos, sin] * (len(part.cells) // 2))


def _pointwise(
    change: Callable[[RealRows, RealRows], tuple[RealRows, RealRows]],
    extra: Callable[[RealRows, RealRows], tuple[RealRows, RealRows]] | None = None,
) -> _Made:
    """Cells that are functions of the right cosine and sine."""

    def made(part: TableCells) -> tuple[RealRows, RealRows]:
        cos, sin = part.right[0], part.right[1]
        more = np.zeros_like(part.cells)
        if extra is not None:
            more = _paired(part, *(np.broadcast_to(each, cos.shape) for each in extra(cos, sin)))
        return _paired(part, *change(cos, sin)), more * (1 + part.allowed / _SINGLE)

    return made


def _of_cells(sample: TableCells) -> Iterator[CellMap]:
    """What may have become of each cosine and each sine."""

    def lost(value: RealRows) -> RealRows:
        """What a root of 1 − x² leaves of a small value."""
        return np.minimum(math.sqrt(_SINGLE), _SINGLE / np.maximum(np.abs(value), 1e-9))

    for message, change, extra in (
        (
            "the cosines are √(1 − sin²), which is never negative",
            lambda c, s: (np.abs(c), s),
            lambda c, s: (lost(c), 0 * s),
        ),
        (
            "the sines are √(1 − cos²), which is never negative",
            lambda c, s: (c, np.abs(s)),
            lambda c, s: (0 * c, lost(s)),
        ),
        (
            "cosines and sines have lost their sign: none is negative",
            lambda c, s: (np.abs(c), np.abs(s)),
            None,
        ),
        (
            "squares stand for cosines and sines",
            lambda c, s: (c * c, s * s),
            None,
        ),
        (
            "tangents stand for sines",
            lambda c, s: (c, s / c),
            lambda c, _: (0 * c, _SINGLE / (c * c)),
        ),
    ):
        evidence = "near a cosine of 0 they err as they grow" if "tangents" in message else ""
        yield CellMap(Cause.COS_SIN_MISPAIRED, message, _pointwise(change, extra), evidence)
    yield CellMap(
        Cause.TABLE_PRECISION,
        "negative cosines and sines became 0, as in a format without a sign",
        _pointwise(lambda c, s: (np.maximum(c, 0), np.maximum(s, 0))),
    )
    yield from _angles()
    yield from _reinterpreted(sample)
    yield from _read_off_cells(sample)


def _angles() -> Iterator[CellMap]:
    """Angles in place of what is made of them."""
    for text, turn in (
        ("angles, position times frequency, stand", math.inf),
        ("angles, reduced to one turn, stand", 2 * math.pi),
    ):
        for stand, alone in (("cosines and sines, which were never taken", False), ("sines", True)):
            made = partial(_angle_cells, turn=turn, alone=alone)
            yield CellMap(Cause.COS_SIN_MISPAIRED, f"{text} for {stand}", made)
    yield CellMap(
        Cause.COS_SIN_MISPAIRED,
        "lengths and angles are exchanged: lengths are position times frequency, and all angles 1",
        _exchanged_cells,
    )


def _exchanged_cells(part: TableCells) -> tuple[RealRows, RealRows]:
    """Factors of the length of the angle, all at the angle 1."""
    extra = np.broadcast_to(4 * _SINGLE * np.abs(part.angles), part.cells.shape)
    return _paired(part, part.angles * math.cos(1), part.angles * math.sin(1)), extra


def _angle_cells(part: TableCells, *, turn: float, alone: bool) -> tuple[RealRows, RealRows]:
    """Angles for both tables, or for the sines ``alone``."""
    angles = part.angles if math.isinf(turn) else np.mod(part.angles, turn)
    extra = np.broadcast_to(4 * _SINGLE * np.abs(part.angles), part.cells.shape)
    return _paired(part, part.right[0] if alone else angles, angles), extra


def _reinterpreted(sample: TableCells) -> Iterator[CellMap]:
    """The bytes of one half precision that are read as those of the other."""
    for read, stored, decoded in (
        ("bfloat16", "float16", _float16_of_bfloat16),
        ("float16", "bfloat16", _bfloat16_of_float16),
    ):
        if np.array_equal(round_to_half(sample.cells, read), sample.cells):
            yield CellMap(
                Cause.NUMBER_FORMAT,
                f"the bytes are those of {stored}, read as {read}",
                partial(_decoded_cells, decoded=decoded, extra=2 * unit(stored)),
            )


def _decoded_cells(
    part: TableCells, *, decoded: Callable[[RealRows], RealRows], extra: float
) -> tuple[RealRows, RealRows]:
    """Cells that are missed by what their decoded ones miss the right ones by."""
    cells = part.cells - decoded(part.cells) + part.right
    return cells, np.full_like(part.cells, extra)


def _float16_of_bfloat16(cells: RealRows) -> RealRows:
    """What the bytes of bfloat16 numbers are as float16."""
    upper = (cells.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return upper.view(np.float16).astype(np.float64)


def _bfloat16_of_float16(cells: RealRows) -> RealRows:
    """What the bytes of float16 numbers are as bfloat16."""
    upper = cells.astype(np.float16).view(np.uint16).astype(np.uint32) << np.uint32(16)
    return upper.view(np.float32).astype(np.float64)


def _read_off_cells(sample: TableCells) -> Iterator[CellMap]:
    """What has one or two numbers for a whole table: where it ends, what was added to it."""
    cells, right = sample.cells, sample.right
    least, most = float(cells.min()), float(cells.max())
    if least < most and (most < right.max() or least > right.min()):
        ends = f"±{most:.6g}" if abs(least + most) < 1e-6 * most else f"{least:.6g} to {most:.6g}"
        yield CellMap(
            Cause.TABLE_PRECISION,
            f"cosines and sines were clipped to {ends}",
            lambda part: (np.clip(part.right, least, most), np.zeros_like(part.cells)),
        )
    yield from _shifted(sample)
    lines = [np.polyfit(right[t].ravel(), cells[t].ravel(), 1) for t in (0, 1)]
    slopes, starts = (np.array([line[i] for line in lines]) for i in (0, 1))
    whole = np.array_equal(cells, np.rint(cells)) and np.abs(cells).max() > 1
    if not np.abs(starts).max() > 1e-6 or not slopes.all():
        return
    extra = 0.5 + 1e-3 * float(np.abs(slopes).max()) if whole else 0.0
    texts = [
        f"{name} are {_line(slope, start)}"
        for name, slope, start in zip(("cosines", "sines"), slopes, starts, strict=True)
        if abs(start) > 1e-6 or abs(slope - 1) > 1e-5
    ]
    rounded = ", as whole numbers" if whole else ""

    def made(part: TableCells) -> tuple[RealRows, RealRows]:
        times = len(part.cells) // 2
        slope, start = (np.tile(each, times)[:, None, None] for each in (slopes, starts))
        return slope * part.right + start, extra + (np.abs(slope) + 1e-5) * part.allowed

    cause = Cause.TABLE_PRECISION if whole else Cause.ATTENTION_FACTOR
    yield CellMap(cause, f"{', '.join(texts)}{rounded}", made)


def _line(slope: float, start: float) -> str:
    """What was made of right values.

    >>> _line(1.0, -1.0), _line(127.5, 127.5)
    ('the right ones − 1', '127.5 times the right ones + 127.5')
    >>> _line(6e-16, 1.0)
    '1 everywhere'
    """
    if abs(slope) < 1e-9:
        return f"{start:.4g} everywhere"
    times = "" if abs(slope - 1) < 1e-5 else f"{slope:.4g} times "
    return f"{times}the right ones {'+' if start > 0 else '−'} {abs(start):.4g}"


def _shifted(sample: TableCells) -> Iterator[CellMap]:
    """Angles of cosines, or of sines, that a constant was added to."""
    both = np.stack([sample.right[0].ravel(), sample.right[1].ravel()], axis=1)
    along = [np.linalg.lstsq(both, sample.cells[t].ravel(), rcond=None)[0] for t in (0, 1)]
    size = math.hypot(*along[0])
    shifts = math.atan2(-along[0][1], along[0][0]), math.atan2(along[1][0], along[1][1])
    if not 0.9 < size < 1.1 or max(map(abs, shifts)) < 1e-6:
        return
    texts = []
    for name, shift in zip(("cosines", "sines"), shifts, strict=True):
        if abs(shift) >= 1e-6:
            texts.append(f"the angles of the {name} are off by {shift:.3g} at every position")
    quarter = next(
        (q for q in _HALF_TURNS if abs(shifts[0] / (q - math.pi / 2) - 1) < _NEARLY), None
    )
    taken = "" if quarter is None else f", as where π/2 is taken for {quarter:.8g}"

    def made(part: TableCells) -> tuple[RealRows, RealRows]:
        turned = (part.right[0] + 1j * part.right[1])[None] * np.exp(1j * np.array(shifts))[
            :, None, None
        ]
        return _paired(part, turned[0].real, turned[1].imag), np.zeros_like(part.cells)

    yield CellMap(Cause.COS_SIN_MISPAIRED, f"{' and '.join(texts)}{taken}", made)


def _of_rows(reference: Reference, sample: TableCells) -> Iterator[CellMap]:
    """Rows that are multiplied by a law of their position, or by their length."""
    sizes = np.median(np.hypot(sample.cells[0], sample.cells[1]), axis=1) / reference.scale  # (n,)
    places, far = sample.positions, np.abs(sample.positions) > 0
    if far.any() and (sizes > 0).all():
        slope = float(np.median((sizes[far] - 1) / places[far]))
        rate = float(np.median(np.log(sizes[far]) / places[far]))
        laws: list[tuple[str, Callable[[Reals], Reals]]] = [
            (f"1 {'+' if slope > 0 else '−'} {abs(slope):.6g} · m", lambda p: 1 + slope * p),
            (
                f"exp({'−' * (rate < 0)}m/{abs(1 / rate) if rate else 1:.6g})",
                lambda p: np.exp(rate * p),
            ),
        ]
        for text, law in laws if abs(slope) > 1e-9 else ():
            yield CellMap(
                Cause.ATTENTION_FACTOR,
                f"rows are multiplied by {text}, m being the position",
                partial(_by_law, law=law),
            )
    for text, norm in (
        ("each row of cosines, and of sines, is divided by its own length", None),
        ("each row is divided by the length of its cosines", 0),
    ):
        yield CellMap(Cause.ATTENTION_FACTOR, text, partial(_normed, table=norm))
    yield CellMap(
        Cause.ATTENTION_FACTOR,
        "each row of cosines, and of sines, has mean 0 and variance 1, as a layer norm makes them",
        _standardized,
    )


def _of_their_own(reference: Reference, sample: TableCells) -> Iterator[CellMap]:
    """Rows, and pairs, that are multiplied by numbers above 0 which follow no rule."""
    sizes = np.median(np.hypot(sample.cells[0], sample.cells[1]), axis=1) / reference.scale  # (n,)
    if sample.cells.shape[2] >= _FEWEST_PAIRS and np.ptp(sizes) > 1e-4 and sizes.min() > 0:
        yield CellMap(
            Cause.ATTENTION_FACTOR,
            f"each row is multiplied by a number of its own, {sizes.min():.4g} to "
            f"{sizes.max():.4g} in the rows looked at first",
            lambda part: _multiplied(
                part,
                np.median(np.hypot(part.cells[0], part.cells[1]), axis=1)[:, None]
                / reference.scale,
            ),
        )
    yield from _of_pairs(sample)


def _of_pairs(sample: TableCells) -> Iterator[CellMap]:
    """Pairs of which cosines and sines are multiplied by numbers of their own."""
    if sample.positions.size < _FEWEST_ROWS:
        return
    squares = (sample.right**2).sum(axis=1)  # (tables, pairs)
    times = (sample.cells * sample.right).sum(axis=1) / np.maximum(squares, 1e-30)
    whole = np.array_equal(sample.cells, np.rint(sample.cells)) and np.abs(times).max() > 1
    codes = ", as whole numbers: the scales of columns were not applied" if whole else ""
    extra = 1.0 if whole else 0.0  # half a code, and as much for the numbers themselves
    if np.ptp(times) > 1e-4 and times.min() > 0:
        changed = (np.abs(times - 1) > 1e-4).any(axis=0)  # (pairs,)
        which = "each pair is multiplied by numbers of its own"
        if not changed.all():
            pairs = pairs_text(np.flatnonzero(changed).tolist(), changed.size)
            are = "is" if np.count_nonzero(changed) == 1 else "are"
            which = (
                f"{pairs} {are} multiplied by numbers of {'its' if are == 'is' else 'their'} own"
            )
        yield CellMap(
            Cause.TABLE_PRECISION if whole else Cause.ATTENTION_FACTOR,
            f"{which}, {times[:, changed].min():.4g} to {times[:, changed].max():.4g}{codes}",
            partial(_of_columns, times=times, added=np.zeros_like(times), extra=extra),
        )
    means, right_means = sample.cells.mean(axis=1), sample.right.mean(axis=1)
    apart = sample.right - right_means[:, None]
    slopes = (apart * sample.cells).sum(axis=1) / np.maximum((apart * apart).sum(axis=1), 1e-30)
    added = means - slopes * right_means
    if np.abs(added).max() > 1e-4 and sample.positions.size >= _SCORES_OF_ROWS:
        kept = (
            "less a number of its own"
            if np.abs(slopes - 1).max() < 1e-3
            else ("less one number and times another of its own")
        )
        yield CellMap(
            Cause.ATTENTION_FACTOR,
            f"each column of cosines and of sines is the right one {kept}, as where columns are "
            "centred",
            partial(_of_columns, times=slopes, added=added, extra=_CENTRED),
        )


def _of_columns(
    part: TableCells, *, times: RealRows, added: RealRows, extra: float
) -> tuple[RealRows, RealRows]:
    """Columns times one number, and another added to it. Shape of both: (tables, pairs)."""
    cells, more = _multiplied(part, times[:, None, :])
    return cells + added[:, None, :], more + extra


def _by_law(part: TableCells, *, law: Callable[[Reals], Reals]) -> tuple[RealRows, RealRows]:
    """Rows times a function of their position."""
    return _multiplied(part, law(part.positions.astype(np.float64))[:, None])


def _normed(part: TableCells, *, table: int | None) -> tuple[RealRows, RealRows]:
    """Rows of each table by their own length, or by that of one."""
    return _multiplied(part, 1 / _lengths(part, table))


def _standardized(part: TableCells) -> tuple[RealRows, RealRows]:
    """Rows less their mean, over their deviation."""
    means = part.right.mean(axis=2, keepdims=True)
    deviations = np.sqrt(part.right.var(axis=2, keepdims=True) + _LAYER_NORM)
    extra = part.allowed / deviations + 2 * _SINGLE / deviations
    return (part.right - means) / deviations, extra


def _multiplied(part: TableCells, factors: RealRows) -> tuple[RealRows, RealRows]:
    """The right cells times factors that broadcast to them."""
    return part.right * factors, np.abs(factors) * (part.allowed + _SINGLE) + 0 * part.right


def _lengths(part: TableCells, table: int | None) -> RealRows:
    """The lengths of the rows of each table, or of one."""
    lengths = np.sqrt((part.right**2).sum(axis=2, keepdims=True))
    lengths = np.where(lengths == 0, 1.0, lengths)
    return lengths if table is None else lengths[table : table + 1]


def _approximations(scale: float) -> Iterator[CellMap]:
    """Functions that code has in place of the cosine and the sine."""
    for text, cos, sin in approximations():
        made = partial(_approximate_cells, scale=scale, cos=cos, sin=sin)
        yield CellMap(Cause.TABLE_PRECISION, f"cosines and sines are {text}", made)


def _approximate_cells(
    part: TableCells, *, scale: float, cos: RealFunction, sin: RealFunction
) -> tuple[RealRows, RealRows]:
    """What two functions make of the angles."""
    cells = _paired(part, cos(part.angles), sin(part.angles))
    return scale * cells, np.zeros_like(part.cells)


def _means(reference: Reference) -> Iterator[CellMap]:
    """Means of rows, and of the right table and that of another rule."""
    right = reference.frequencies
    neighbours: tuple[tuple[str, Callable[[Integers], tuple[Integers, Integers]]], ...] = (
        ("each row is the mean of those of p − 1 and p", lambda p: (p - 1, p)),
        ("each row is the mean of those of p and p + 1", lambda p: (p, p + 1)),
        ("each two rows are their mean", lambda p: (p // 2 * 2, p // 2 * 2 + 1)),
    )
    for text, pair in neighbours:
        made = partial(_mean_cells, scale=reference.scale, pair=pair, rates=(right, right))
        yield CellMap(Cause.POSITION_OFFSET, text, made)
    for rule in likely_alternatives(reference):
        message = f"cells are means of the right ones and of a table in which {rule.message}"
        rates = (right, rule.frequencies)
        made = partial(_mean_cells, scale=reference.scale, pair=lambda p: (p, p), rates=rates)
        yield CellMap(rule.cause, message, made)


def _mean_cells(
    part: TableCells,
    *,
    scale: float,
    pair: Callable[[Integers], tuple[Integers, Integers]],
    rates: tuple[Reals, Reals],
) -> tuple[RealRows, RealRows]:
    """The mean of cells of two positions for each row, at two frequencies."""
    mean = np.zeros(part.angles.shape, np.complex128)
    for positions, frequencies in zip(pair(part.positions), rates, strict=True):
        places = np.maximum(positions, 0).astype(np.float64)
        mean += scale / 2 * np.exp(1j * np.multiply.outer(places, frequencies))
    return _paired(part, mean.real, mean.imag), np.zeros_like(part.cells)


def _memory(suspect: Suspect) -> Iterator[CellMap]:
    """Tables whose values are right, and read from memory in another order."""
    places, reference = suspect.examination.subject.own.places, suspect.examination.reference
    count, width = places.count, reference.pairs

    def placed(part: TableCells, flat: Integers) -> tuple[RealRows, RealRows]:
        rows, columns = np.divmod(flat, width)
        where = places.at(np.asarray(rows.ravel(), np.int64)).reshape(rows.shape)
        angles = where * reference.frequencies[columns]
        allowed = 4 * _SINGLE * np.abs(angles)
        turned = reference.scale * np.exp(1j * angles)
        return _paired(part, turned.real, turned.imag), np.broadcast_to(allowed, part.cells.shape)

    def indices(part: TableCells) -> Integers:
        return np.asarray(part.rows[:, None] * width + np.arange(width), np.int64)

    def rolled(part: TableCells, *, moved: int) -> tuple[RealRows, RealRows]:
        return placed(part, np.mod(indices(part) - moved, count * width))

    for moved in dict.fromkeys((*_MOVED, width // 2, -(width // 2))):
        which = "late" if moved > 0 else "early"
        number = f"{abs(moved)} value{'s' * (abs(moved) > 1)}"
        yield CellMap(
            Cause.LAYOUT,
            f"every value stands {number} too {which} in its row and the next: memory that is read "
            "from a wrong place",
            partial(rolled, moved=moved),
        )
    yield CellMap(
        Cause.LAYOUT,
        f"the memory of tables of {width} rows and {count} columns is read in rows of {width}: "
        "reshaped where it should be transposed",
        lambda part: placed(part, np.mod(indices(part), count) * width + indices(part) // count),
    )
