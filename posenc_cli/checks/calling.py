"""A user's function as a subject: read by what it does to every unit vector, at every position.

A linear map is known once its values at d unit vectors are; that it is linear, that a row of its
result follows from that row and its position alone, and that it does not matter in what pieces a
sequence comes, is tried on the way. A function of tables is given the reference's own, and one that
returns tables or frequencies is judged by these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.budget import check_size
from posenc_cli.checks.batches import try_batches, try_rows_of_heads, try_table_batches
from posenc_cli.checks.by_call import (
    CallLog,
    by_call,
    counted_on,
    in_a_long_call,
    past_default_length,
)
from posenc_cli.checks.call_request import CallRequest
from posenc_cli.checks.codes import SubjectKind
from posenc_cli.checks.function_process import MOST_ROWS
from posenc_cli.checks.function_trial import (
    ALIKE,
    COARSE,
    UNSTEADY,
    FunctionTrial,
    Irregularity,
    is_half,
)
from posenc_cli.checks.further_calls import EarlyCall, try_half_precision, try_orders
from posenc_cli.checks.irregular import irregularities, length_note, returned_half, with_faults
from posenc_cli.checks.patterns import LONG, SEQUENCE, PatternReport, try_patterns
from posenc_cli.checks.serving import CELLS, ServedFunction
from posenc_cli.checks.shorter_queries import try_shorter_queries
from posenc_cli.checks.subject import Subject, frequency_subject, table_subject
from posenc_cli.checks.unlike_heads import unlike_heads
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.turning import ColumnPairing, PositionRows, SubjectBlock, Turning
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.checks.answers import Differs, Returned, Rows
    from posenc_cli.checks.serving import FunctionTarget
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import Progress, SomeRows
    from posenc_cli.numerics.arrays import Integers, NumberArray, Reals, UnitMatrices

_LARGE = 1 << 15
"""Positions from which factors are kept in single precision, which holds float32 results."""

_STAYS = 1e-2
"""What a column may lose or gain in a half precision and still be called left as it is."""

_MOST_CELLS = 1 << 22
"""Values at one position: those of a head of 2048 columns, four times the widest model's."""

_FROM_ZERO = 2048
"""Positions of a function that takes none: each look at one costs all that are before it."""

_LONGEST = 1 << 17
"""Positions that such a function is asked for where a user wants them."""


@dataclass
class _CallCache:
    """What is kept of a function's matrices, under one pairing."""

    pairing: ColumnPairing
    turned: NumberArray
    mirrored: NumberArray
    rest: Reals
    passed: Reals

    @classmethod
    def empty(
        cls, pairing: ColumnPairing, count: int, kind: type[np.complexfloating]
    ) -> _CallCache:
        shape = (count, pairing.pairs)
        turned, mirrored = np.empty(shape, kind), np.zeros(shape, kind)
        return cls(pairing, turned, mirrored, np.zeros(count), np.zeros(count))

    def turning(self, places: PositionRows, dtype: str) -> Turning:
        mirrors, strays = bool(np.any(self.mirrored)), bool(np.any(self.rest))

        def read(rows: SomeRows) -> SubjectBlock:
            return SubjectBlock(
                places.at(rows),
                self.turned[rows].astype(np.complex128),
                self.mirrored[rows].astype(np.complex128) if mirrors else None,
                self.rest[rows] if strays else None,
                self.passed[rows] if strays else None,
            )

        return Turning(places, self.pairing.pairs, dtype, 3, self.pairing, read)


def implementation(
    target: FunctionTarget,
    reference: Reference,
    positions: Positions,
    *,
    whole: bool = False,
    sampled: bool = False,
    asked: CallRequest | None = None,
    progress: Progress | None = None,
) -> Subject:
    """A user's function as a subject; where it turns q and k, that of k is the subject's ``key``.

    ``whole`` says that what it does may depend on the largest position, which is then part of
    every call; ``sampled`` that the positions are a sample, and fewer do as well.

    Raises: InvalidInput when the head is too wide to try every unit vector, or the function cannot
    be loaded, raises, crashes, changes its input, or returns anything but real numbers of the shape
    of x, tables or frequencies; Unavailable when the environment has not what it needs.
    """
    dim = reference.head
    check_size(f"--dim {dim}", dim * dim, _MOST_CELLS, "values of the function at each position")
    last = positions.last if whole else None
    with ServedFunction(
        target, reference, asked or CallRequest(), context=positions.last + 1, last=last
    ) as function:
        context = positions.last + 1
        if function.form.from_zero:
            positions = _from_zero_positions(function, positions, sampled=sampled)
        early = EarlyCall(function, positions.last)
        if function.outcome == "vectors":
            subjects = _of_vectors(function, reference, positions, progress, context=context)
        else:
            subjects = [_of_returned(function, reference, positions)]
        call = {
            "form": function.form.roles_text,
            "text": function.text,
            "library": function.form.library,
            "python": function.python,
            "untried": list(function.untried),
            "rows_of_first_call": function.first_rows,
            "axes": function.form.axes or None,
            "usual_axes": function.usual_axes,
        }
        if not any(one.broken or one.irregular for one in subjects):
            subjects[0] = _with_further_calls(function, subjects[0], reference, positions, early)
        if function.refused_axes is not None:
            other = _other_axes(function, *function.refused_axes)
            subjects = [replace(own, other_calls=(other, *own.other_calls)) for own in subjects]
    subjects = [replace(own, call={**call, **(own.call or {})}) for own in subjects]
    return subjects[0] if len(subjects) == 1 else replace(subjects[0], key=subjects[1])


def _other_axes(function: ServedFunction, asked: str, why: str) -> Irregularity:
    """That a function takes axes in another order than it was asked to."""
    taken = function.form.axes
    message = f"vectors are taken in the axes {taken}, not {asked} as they have to be"
    return Irregularity(
        Cause.AXIS, message, f"called with {asked}: {why}; all that was measured is of {taken}"
    )


def _with_further_calls(
    function: ServedFunction,
    subject: Subject,
    reference: Reference,
    positions: Positions,
    early: EarlyCall,
) -> Subject:
    """A subject, with what becomes of several sequences and heads in one call, and of others."""
    pairing, vectors = subject.own.pairing, function.outcome == "vectors"
    differs = _vectors_differ if vectors else _tables_differ
    reports = [early.report(differs, pairing)]
    if vectors:
        reports.append(try_orders(function, differs))
        reports.append(try_batches(function, differs, context=positions.last + 1))
        reports.append(try_rows_of_heads(function, differs, context=positions.last + 1))
        reports.append(try_shorter_queries(function, differs, context=positions.last + 1))
    else:
        reports.append(PatternReport((), (), function.untried))
        reports.append(try_table_batches(function, context=positions.last + 1))
    reports.append(try_half_precision(function, positions.last, reference.frequencies, pairing))
    if not any(report.faults for report in reports):
        reports.append(_past_default_length(function, subject, reference, positions))
    tried = [*(subject.call or {"patterns": []})["patterns"]]
    call = {
        "patterns": tried + [text for report in reports for text in report.tried],
        "untried": [text for report in reports for text in report.untried],
    }
    faults = [fault for report in reports for fault in report.faults]
    return replace(subject, other_calls=with_faults(faults, ()), call=call)


def _past_default_length(
    function: ServedFunction, subject: Subject, reference: Reference, positions: Positions
) -> PatternReport:
    """What an object that is made with its default length does past that."""
    if function.default_length is None or function.outcome == "frequencies":
        return PatternReport((), ())
    if function.outcome == "vectors":
        log = _call_log(function, reference, 0, np.random.default_rng(20))
    else:
        log = CallLog.of_tables(function, reference, partial(_returned_rows, function))
    if not log.tells:
        return PatternReport((), ())
    return past_default_length(log, subject.dtype, positions.last)


def _returned_rows(function: ServedFunction, _: Integers, where: Integers) -> NumberArray:
    """The cosines and sines of some rows, side by side."""
    return np.concatenate([table.values for table in function.returned(where)], axis=1)


def _from_zero_positions(
    function: ServedFunction, positions: Positions, *, sampled: bool
) -> Positions:
    """The positions of a function that takes none: those from 0 on, not too many."""
    if function.outcome != "vectors":
        check_size(positions.option, positions.last + 1, MOST_ROWS, "rows of tables")
        return positions
    if not sampled:
        check_size(
            positions.option,
            positions.last + 1,
            _LONGEST,
            "positions of a function that takes none",
        )
        return positions
    near = [
        range(indices.start, min(indices.stop, _FROM_ZERO), indices.step)
        for indices in positions.ranges
    ]
    return Positions(tuple(indices for indices in near if indices))


def _of_returned(function: ServedFunction, reference: Reference, positions: Positions) -> Subject:
    """A function that returns tables or frequencies, judged by these."""
    places = PositionRows.of(positions)
    if function.outcome == "frequencies":
        (frequencies,) = function.returned(places.at(slice(0, 1)))
        values = frequencies.values.reshape(-1)
        subject = frequency_subject(
            values, frequencies.dtype, reference, positions, name=function.target
        )
        return replace(subject, kind=SubjectKind.IMPL, call={"patterns": []})

    log = CallLog.of_tables(function, reference, partial(_returned_rows, function))
    report = _patterns(function, log.rows, _tables_differ, positions)
    cos, sin = function.returned(places.at(slice(0, places.count)))
    subject = table_subject(
        cos.values, sin.values, cos.dtype, reference, positions, name=function.target
    )
    return replace(
        subject,
        kind=SubjectKind.IMPL,
        irregular=_explained(with_faults(report.faults, ()), log, positions, cos.dtype),
        call={"patterns": list(report.tried)},
        returned_tables=True,
    )


def _tables_differ(values: NumberArray, wanted: NumberArray) -> bool:
    """Whether cosines and sines are others than those wanted."""
    limit = ALIKE if values.dtype.itemsize >= 4 else COARSE * ALIKE
    return not bool(np.abs(values - wanted).max(initial=0) <= limit)


def _patterns(
    function: ServedFunction, rows: Rows, differs: Differs, positions: Positions
) -> PatternReport:
    """What the ways to call a function change, none of one whose values follow the length."""
    if function.follows_length:
        return PatternReport((), ())
    form = function.form
    return try_patterns(
        rows,
        differs,
        context=positions.last + 1,
        any_rows=form.any_rows,
        from_zero=form.from_zero,
        chosen=form.chosen,
    )


def _of_vectors(
    function: ServedFunction,
    reference: Reference,
    positions: Positions,
    progress: Progress | None,
    *,
    context: int,
) -> list[Subject]:
    """A function that turns vectors: one subject for each of its results.

    ``context`` is how many positions there are where ``positions`` are but the first of them.
    """
    places, dim = PositionRows.of(positions), function.form.columns
    results = range(function.results)
    generator = np.random.default_rng(20)
    logs = [_call_log(function, reference, which, generator) for which in results]
    reports = [_patterns(function, log.rows, _vectors_differ, positions) for log in logs]
    # A slow machine may have left out one of a single result.
    tried = tuple(text for text in reports[0].tried if all(text in own.tried for own in reports))
    few = places.at(places.sample()[:: max(1, min(places.count, 768) // 12)])
    few = few[:: -(-few.size * dim**2 // (2 * _MOST_CELLS))]
    samples = function.matrices(few)
    readers = []
    for which, report in zip(results, reports, strict=True):
        matrices = samples[which].values
        trial = FunctionTrial.of(function, which, few, matrices)
        irregular = with_faults(report.faults, irregularities(trial))
        irregular = _explained(irregular, logs[which], positions, samples[which].dtype, which=which)
        more = min(context, LONG)
        if more > positions.last + 1 and not irregular and logs[which].tells:
            long = in_a_long_call(logs[which], samples[which].dtype, more)
            if long is not None:
                tried = tuple(dict.fromkeys((*tried, f"{more} rows in one call")))
                irregular = long
        readers.append(
            _ResultReader(
                reference,
                places,
                (few, samples[which]),
                _Conduct(
                    tried,
                    irregular,
                    _not_finite(few, matrices),
                    returned_half(trial),
                    "" if irregular else length_note(trial),
                ),
                partial(_near_matrices, function, places, which),
            )
        )
    step = max(1, CELLS // dim**2)
    alike = len(readers) > 1 and reference.symmetric and readers[0].like(readers[1])
    for start in range(0, places.count, step):
        rows = slice(start, min(start + step, places.count))
        blocks = [result.values for result in function.matrices(places.at(rows))]
        readers[0].take(rows, blocks[0])
        if alike and not np.array_equal(blocks[0], blocks[1]):
            readers[1].take_over(readers[0], slice(0, start))
            alike = False
        if not alike:
            for reader, block in zip(readers[1:], blocks[1:], strict=True):
                reader.take(rows, block)
        if progress is not None:
            progress(rows.stop, places.count)
    kept = readers[:1] if alike else readers
    return [reader.subject(function.target, both=len(readers) > 1) for reader in kept]


def _near_matrices(function: ServedFunction, places: PositionRows, which: int) -> UnitMatrices:
    """What becomes of unit vectors at the first two positions."""
    return function.matrices(places.at(slice(0, 2)))[which].values


def _call_log(
    function: ServedFunction, reference: Reference, which: int, generator: np.random.Generator
) -> CallLog:
    """The calls of one of the results, none made as yet."""
    x = generator.standard_normal((SEQUENCE, function.form.columns)).astype(np.float32)
    return CallLog.of_vectors(function, reference, which, x)


def _explained(
    irregular: tuple[Irregularity, ...],
    log: CallLog,
    positions: Positions,
    dtype: str,
    *,
    which: int = 0,
) -> tuple[Irregularity, ...]:
    """What is irregular; where nothing known explains it, what becomes of heads, or of calls."""
    known = all(one.cause != Cause.UNKNOWN for one in irregular)
    unsteady = any(UNSTEADY in one.message for one in irregular)
    if known or not log.tells:
        return irregular
    if unsteady:
        return counted_on(log, dtype) or irregular
    context = positions.last + 1
    heads = unlike_heads(log.function, log.reference, which, dtype, context)
    if heads:
        return heads
    log.extend(context)
    return by_call(log, dtype) or irregular


def _vectors_differ(values: NumberArray, wanted: NumberArray) -> bool:
    """Whether values are others than those wanted, by more than their format leaves open."""
    if not (np.isfinite(wanted).all() and wanted.size):
        return False
    coarse = COARSE if values.dtype.itemsize < 4 or is_half(values) else 1
    size = np.abs(wanted).max()
    return not bool(np.abs(values - wanted).max() <= coarse * ALIKE * size)


class _Conduct(Record):
    """How a result of a function behaves: the patterns it was called in, and what is wrong.

    ``returned_half`` is the half precision that all it returns has, ``length_note`` what to note
    of how it depends on the length.
    """

    patterns: tuple[str, ...]
    irregular: tuple[Irregularity, ...]
    broken: tuple[str, ...]
    returned_half: str | None
    length_note: str


class _ResultReader:
    """One result of a function, read block by block."""

    def __init__(
        self,
        reference: Reference,
        places: PositionRows,
        sample: tuple[Integers, Returned],
        conduct: _Conduct,
        near: Callable[[], UnitMatrices],
    ) -> None:
        positions, returned = sample
        self._reference, self._places, self._dtype = reference, places, returned.dtype
        self._conduct = conduct
        own = _pairing_of(positions, returned.values, reference, near)
        self._own, self._sample = own, returned.values
        pairings = [own]
        if own.layout != reference.content.layout and own.pairs == reference.pairs:
            pairings.append(reference.pairing)
        single = places.count > _LARGE and returned.dtype != "float64"
        self._kind = np.complex64 if single else np.complex128
        self._pairings = pairings
        passed = _passed_pairing(returned.values, own)
        self._passed = () if passed is None else (passed,)
        self._infinite = False

    @cached_property
    def _caches(self) -> list[_CallCache]:
        count = self._places.count
        pairings = [*self._pairings, *self._passed]
        return [_CallCache.empty(pairing, count, self._kind) for pairing in pairings]

    def like(self, other: _ResultReader) -> bool:
        """Whether what is known of another result before it is read is what is known of this."""
        return np.array_equal(self._sample, other._sample) and (
            self._dtype,
            self._conduct,
        ) == (other._dtype, other._conduct)

    def take_over(self, other: _ResultReader, rows: slice) -> None:
        """Keep of some rows what another result showed, which was the same."""
        for own, cache in zip(self._caches, other._caches, strict=True):
            own.turned[rows], own.mirrored[rows] = cache.turned[rows], cache.mirrored[rows]
            own.rest[rows], own.passed[rows] = cache.rest[rows], cache.passed[rows]
        self._infinite = other._infinite

    def take(self, rows: slice, matrices: UnitMatrices) -> None:
        """Keep what the matrices of some rows show."""
        for cache in self._caches:
            looked_at = matrices
            if cache.pairing in self._passed:
                looked_at = _columns_alone(matrices, cache.pairing)
            cache.turned[rows], cache.mirrored[rows], cache.rest[rows], cache.passed[rows] = (
                read_as(looked_at, cache.pairing)
            )
        if not np.isfinite(self._caches[0].turned[rows]).all():
            self._infinite |= bool(np.isinf(matrices).any())

    def subject(self, target: str, *, both: bool) -> Subject:
        """The subject that they are; ``both`` says that q and k were looked at."""
        turnings = [cache.turning(self._places, self._dtype) for cache in self._caches]
        passed = turnings.pop() if self._passed else None
        mismatch = None
        if self._own.pairs != self._reference.pairs:
            # More of them may have changed places alone.
            turn = "change" if self._own.pairs > self._reference.pairs else "turn"
            columns = 2 * self._own.pairs
            mismatch = f"{columns} columns {turn}, {2 * self._reference.pairs} of the reference"
        both_note = "q and k were both checked" if both else ""
        return Subject(
            SubjectKind.IMPL,
            target,
            turnings[0],
            None if mismatch else turnings[-1],
            mismatch,
            broken=self._conduct.broken,
            irregular=self._conduct.irregular,
            notes=tuple(filter(None, (both_note, self._conduct.length_note))),
            call={"patterns": list(self._conduct.patterns)},
            passed=passed,
            infinite=self._infinite,
            returned_half=self._conduct.returned_half,
        )


def _passed_pairing(matrices: UnitMatrices, own: ColumnPairing) -> ColumnPairing | None:
    """How the columns that no pair has are paired if they turn; None where they stay."""
    others = own.others(matrices.shape[1])
    alone = matrices[:, others][:, :, others]
    if not np.abs(alone - np.eye(len(others))).max(initial=0) > _STAYS:
        return None
    ways = ColumnPairing.of_columns(others)
    return min(ways, key=lambda way: _stray(_columns_alone(matrices, way), way), default=None)


def _columns_alone(matrices: UnitMatrices, pairing: ColumnPairing) -> UnitMatrices:
    """The matrices of the columns of a pairing, as if the others stayed as they are."""
    columns = [*pairing.first, *pairing.second]
    alone = np.zeros_like(matrices)
    alone[:] = np.eye(matrices.shape[1])
    alone[np.ix_(range(len(matrices)), columns, columns)] = matrices[
        np.ix_(range(len(matrices)), columns, columns)
    ]
    return alone


@np.errstate(invalid="ignore")  # of what is infinite
def read_as(
    matrices: UnitMatrices, pairing: ColumnPairing
) -> tuple[NumberArray, NumberArray, Reals, Reals]:
    """Turned and mirrored parts of the pairs of a pairing, the norm of all else, and its part.

    That part is what becomes of the columns that no pair has: without it, the rest is as much less.

    ``matrices`` is [k, j, o]: column o of what becomes of unit vector j. Columns without a pair
    are meant to stay as they are.
    """
    first, second = list(pairing.first), list(pairing.second)
    out_first, out_second = list(pairing.out_first), list(pairing.out_second)
    a, b = matrices[:, first, out_first], matrices[:, second, out_first]
    c, d = matrices[:, first, out_second], matrices[:, second, out_second]
    a, b, c, d = (entries.astype(np.float64) for entries in (a, b, c, d))
    turned = ((a + d) + 1j * (c - b)) / 2  # (k, pairs)
    mirrored = ((a - d) + 1j * (c + b)) / 2
    rest = matrices.astype(np.float64)  # (k, columns, columns)
    for inside in (first, second):
        for outside in (out_first, out_second):
            rest[:, inside, outside] = 0
    others = pairing.others(matrices.shape[1])
    rest[:, others, others] -= 1
    norm = np.sqrt(np.einsum("kjo,kjo->k", rest, rest))
    rest[np.ix_(range(len(rest)), others, others)] = 0
    return turned, mirrored, norm, norm - np.sqrt(np.einsum("kjo,kjo->k", rest, rest))


def _pairing_of(
    positions: Integers,
    matrices: UnitMatrices,
    reference: Reference,
    near: Callable[[], UnitMatrices],
) -> ColumnPairing:
    """How a function pairs columns: the first of the known ways that leaves little over.

    Where none does, each column's partner is the one that it mixes with most. ``near()`` is what
    becomes of unit vectors at the first positions.
    """
    candidates = reference.likely_pairings(matrices.shape[1])
    finite = np.where(np.isfinite(matrices), matrices, 0)
    strays = [_stray(finite, candidate) for candidate in candidates]
    best = int(np.argmin(strays))
    # More than a half precision leaves over: none of the known ways it is.
    if strays[best] > 1e-2:
        by_partners = _by_partners(positions, finite)
        if by_partners is not None and _stray(finite, by_partners) < 0.5 * strays[best]:
            return _in_order(by_partners, positions, finite, reference, near())
    # The reference's own way is kept where float32 leaves no more, or no other is nearer.
    return candidates[0 if strays[0] <= max(1e-3, 1.001 * strays[best]) else best]


def _stray(matrices: UnitMatrices, pairing: ColumnPairing) -> float:
    """The most that is no turn of a pair, nor columns without one that become multiples."""
    _, mirrored, rest, passed = read_as(matrices, pairing)
    others = pairing.others(matrices.shape[1])
    alone = matrices[:, others][:, :, others].astype(np.float64)  # (k, others, others)
    sizes = np.einsum("kjj->k", alone) / max(len(others), 1)
    changed = np.linalg.norm(alone - sizes[:, None, None] * np.eye(len(others)), axis=(1, 2))
    return float(np.abs(mirrored).max(initial=0) + (rest - passed + changed).max(initial=0))


def _by_partners(positions: Integers, matrices: UnitMatrices) -> ColumnPairing | None:
    """Each column with the one that it mixes with most; None where these are no pairs.

    Where columns come out in another order, as position 0 shows it, they are paired going in.
    """
    out = _order_of_columns(positions, matrices)
    mixing = np.abs(matrices[:, :, out]).max(axis=0)  # (columns, columns)
    mixing = np.maximum(mixing, mixing.T)
    np.fill_diagonal(mixing, 0)
    partners = mixing.argmax(axis=1)
    # Less is the rounding of a product that should be 0.
    moved = [j for j in range(partners.size) if mixing[j, partners[j]] > 1e-6]
    if not moved or any(partners[partners[j]] != j for j in moved):
        return None
    first = [j for j in moved if j < partners[j]]
    return _paired(first, [int(partners[j]) for j in first], out)


def _order_of_columns(positions: Integers, matrices: UnitMatrices) -> Integers:
    """Where each column comes out at position 0, which turns nothing."""
    columns = np.arange(matrices.shape[1])
    for still in np.abs(matrices[positions == 0][:1]):
        order: Integers = still.argmax(axis=1)
        permuted = np.eye(columns.size)[order]
        if np.array_equal(np.sort(order), columns) and np.abs(still - permuted).max() < _SAME_TURN:
            return order
    return columns


def _paired(first: list[int], second: list[int], out: Integers) -> ColumnPairing:
    out_first, out_second = (tuple(out[columns].tolist()) for columns in (first, second))
    return ColumnPairing(tuple(first), tuple(second), out_first, out_second, None, None)


def _in_order(
    pairing: ColumnPairing,
    positions: Integers,
    matrices: UnitMatrices,
    reference: Reference,
    near: UnitMatrices,
) -> ColumnPairing:
    """The pairs in the order of the reference's that turn as they do, each in its direction.

    Where some turn otherwise, what becomes of unit vectors at the first positions, ``near`` (rows,
    columns, columns), tells their directions, and the order of irregular ones: the fastest first.
    """
    turned = read_as(matrices, pairing)[0]  # (k, pairs)
    right = reference.turns.at(positions)  # (k, pairs of the reference)
    apart = np.stack(
        [np.abs(way[:, :, None] - right[:, None]).max(axis=0) for way in (turned, turned.conj())]
    )  # (2, pairs, pairs of the reference)
    nearest = apart.min(axis=0)
    matching = nearest.argmin(axis=1)
    order = np.arange(pairing.pairs)
    if np.array_equal(np.sort(matching), order) and nearest.min(axis=1).max() <= _SAME_TURN:
        backward = apart[1].min(axis=1) < apart[0].min(axis=1)
        order = np.argsort(matching)
    else:
        last = read_as(near, pairing)[0][-1]  # (pairs,)
        backward = last.imag < 0
        if len({b - a for a, b in zip(pairing.first, pairing.second, strict=True)}) > 1:
            order = np.argsort(-np.abs(np.angle(last)), kind="stable")
    pairs = zip(pairing.first, pairing.second, backward, strict=True)
    columns = [(b, a) if turns_back else (a, b) for a, b, turns_back in pairs]
    first, second = ([columns[i][end] for i in order] for end in (0, 1))
    out = np.arange(matrices.shape[1])
    for inside, outside in (
        (pairing.first, pairing.out_first),
        (pairing.second, pairing.out_second),
    ):
        out[list(inside)] = outside
    return _paired(first, second, out)


_SAME_TURN = 1e-2
"""Of a factor: two pairs that turn alike as far as a half precision shows it."""


def _not_finite(positions: Integers, matrices: UnitMatrices) -> tuple[str, ...]:
    """Where values are not finite, in words; none where all are."""
    bad = ~np.isfinite(matrices).all(axis=(1, 2))
    if not bad.any():
        return ()
    first = int(positions[int(np.argmax(bad))])
    return (f"returned values that are not finite at position {first}",)
