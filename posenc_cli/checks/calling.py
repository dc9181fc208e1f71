"""Measure a user's function at every position with a few vectors, as a subject of a check.

A linear map is known from its values at d unit vectors. A rotation of known pairs is known from its
values at two vectors, if two more confirm that it does nothing else. Further calls test three
things: the map is linear, a row of the result depends only on that row and its position, and a
sequence may be split anywhere. A function of tables gets the reference's tables. A function that
returns tables or frequencies is judged by these.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.budget import check_size
from posenc_cli.calls.batches import (
    differing_head_faults,
    try_batches,
    try_keys,
    try_rows_of_heads,
    try_shorter_queries,
    try_table_batches,
)
from posenc_cli.calls.call_log import (
    CallLog,
    explain_by_calls,
    far_row_faults,
    long_call_faults,
    short_length_fault,
)
from posenc_cli.calls.function_process import MOST_ROWS
from posenc_cli.calls.function_trial import (
    ALIKE,
    UNSTEADY,
    FunctionTrial,
    Irregularity,
    irregularities,
    is_half,
    ordered_faults,
    returned_half,
    vectors_differ,
)
from posenc_cli.calls.further_calls import (
    EarlyCall,
    Tried,
    halves_of,
    try_early,
    try_further,
    try_later,
)
from posenc_cli.calls.other_references import (
    try_other_references,
    try_parameters,
    untested_parameters,
)
from posenc_cli.calls.patterns import (
    LONG,
    SEQUENCE,
    PlannedCalls,
    try_patterns,
)
from posenc_cli.calls.serving import CELLS, FunctionTarget, ServedFunction
from posenc_cli.calls.signature import CallRequest
from posenc_cli.inference.codes import Cause, SubjectKind
from posenc_cli.inference.turning import RETAINED, PositionRows, Progress
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from posenc_cli.rotary.lengths import depends_on_length
from posenc_cli.rotary.result_reader import PairProbes, ResultReader
from posenc_cli.rotary.subject import Subject, frequency_subject, table_subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.calls.call_form import CallForm
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Integers, NumberArray, UnitMatrices


_MOST_CELLS = 1 << 22
"""Most values at one position: a head of 2048 columns, four times the widest model's."""

_FROM_ZERO = 2048
"""Positions of a function without position arguments, whose calls compute all rows from 0."""

_LONGEST = 1 << 17
"""Most positions of such a function if the user requests them."""


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
    """Return a user's function as a subject; if it rotates q and k, k is the subject's ``key``.

    ``whole`` says that results may depend on the largest position, so every call includes it.
    ``sampled`` says that the positions are a sample, so fewer suffice.

    Raises: InvalidInput if the head is too wide to try every unit vector; if the function cannot be
    loaded, raises, crashes or changes its input; or if it returns anything but real numbers of the
    shape of x, tables or frequencies. Unavailable if the environment lacks what the function needs.
    """
    dim = reference.head
    np.empty(RETAINED, np.uint8)  # lets the allocator keep its pages between blocks
    check_size(f"--dim {dim}", dim * dim, _MOST_CELLS, "values of the function at each position")
    context = positions.last + 1
    with ServedFunction(
        target,
        reference,
        asked or CallRequest(),
        context=context,
        last=positions.last if whole else None,
    ) as function:
        if reference.content.waves.growth is not None and not function.form.any_rows:
            function.last = positions.last  # a row's amplitude depends on the length of its call
        if function.form.from_zero:
            positions = _from_zero_positions(function, positions, sampled=sampled)
        calls = PlannedCalls(function)
        early = EarlyCall(function, positions.last, calls)
        if function.outcome == "vectors":
            subjects = _vector_subjects(
                function, reference, positions, calls, progress, context=context
            )
        else:
            subjects = [_table_subject(function, reference, positions, calls)]
        call = {
            "form": function.form.roles_text,
            "text": function.text,
            "library": function.form.library,
            "python": function.process.python,
            "rows_of_first_call": function.process.first_rows,
            "axes": function.form.axes or None,
            "coordinates": function.form.follows_axes,
            "refused_coordinates": function.found.refused_coordinates or None,
            "usual_axes": function.usual_axes,
            "order": _COSINES_FIRST if function.found.cosines_first else None,
        }
        if not any(one.broken or one.irregular for one in subjects):
            subjects[0] = _with_further_calls(
                function, subjects[0], reference, early, calls, last=positions.last
            )
            untested = [*untested_parameters(function, calls), *calls.untested]
            call["untested"] = [*dict.fromkeys(untested)]
        else:
            calls.untried[:0] = function.found.untried
        call["patterns"] = [*dict.fromkeys(calls.tried)]
        call["untried"] = [*dict.fromkeys(calls.untried)]
        if why := function.found.instead:
            other = _axes_irregularity(function, why)
            subjects = [
                replace(subject, other_calls=(other, *subject.other_calls)) for subject in subjects
            ]
    subjects = [replace(subject, call=call) for subject in subjects]
    return subjects[0] if len(subjects) == 1 else replace(subjects[0], key=subjects[1])


def _axes_irregularity(function: ServedFunction, why: str) -> Irregularity:
    """Return the finding that a function takes another order of axes than requested."""
    asked, taken = function.process.asked.axes, function.form.axes
    message = f"vectors are read in the axes {taken}, not {asked} as requested"
    return Irregularity(
        Cause.AXIS, message, f"called with {asked}: {why}; everything was measured with {taken}"
    )


def _further_tests(*, vectors: bool, grid: bool) -> list[Callable[[Tried], None]]:
    """Return the tests that make further calls, in order."""
    batches = [try_batches] if vectors else []
    if grid:
        return [try_other_references, try_parameters, *batches, try_further]
    of_rows = [try_rows_of_heads, try_shorter_queries, try_keys] if vectors else [try_table_batches]
    return [try_early, *batches, *of_rows, try_further]


def _with_further_calls(
    function: ServedFunction,
    subject: Subject,
    reference: Reference,
    early: EarlyCall,
    calls: PlannedCalls,
    *,
    last: int,
) -> Subject:
    """Return the subject after calls with several sequences, heads and other settings."""
    vectors, grid = function.outcome == "vectors", function.form.has("grid")
    tried = Tried(
        function,
        reference,
        vectors_differ,
        subject.own.pairing,
        prod(reference.grid or ()) - 1 if grid else last,  # every call has all rows
        calls,
        early,
        depends_on_length(reference.encoding.bound.scheme, {}),
    )
    for test in _further_tests(vectors=vectors, grid=grid):
        test(tried)
    if not grid:
        calls.untried += function.found.untried
        if function.form.has("dtype") and subject.dtype != "float32":
            message = f"dtype is ignored: results are {subject.dtype}, not float32"
            text = f"called with {function.text}"
            calls.fault(Irregularity(Cause.TABLE_PRECISION, message, text))
        past = partial(_try_past_short_length, subject.dtype)
        for test in (try_other_references, try_parameters, past, try_later):
            if not calls.faults:
                test(tried)
    faults = ordered_faults(calls.faults, ())
    return replace(subject, other_calls=(*subject.other_calls, *faults))


def _try_past_short_length(dtype: str, tried: Tried) -> None:
    """Call an object of a short length at later positions."""
    function, count = tried.function, len(tried.calls.tried)
    if function.process.short_length is None or function.outcome == "frequencies":
        return
    for half in ("", *halves_of(function)[:1]):
        logs = _empty_logs(function, tried.reference)
        tried.calls.fault(short_length_fault(logs, tried.calls, dtype, tried.last, half=half))
        if tried.calls.faults or len(tried.calls.tried) == count:
            return


def _empty_logs(function: ServedFunction, reference: Reference) -> list[CallLog]:
    if function.outcome != "vectors":

        def rows(_: Integers, where: Integers) -> NumberArray:
            return np.concatenate([table.values for table in function.returned(where)], axis=1)

        return [CallLog.of_tables(function, reference, rows)]
    shape, generator = (SEQUENCE, function.form.columns), np.random.default_rng(20)
    drawn = [generator.standard_normal(shape, np.float32) for _ in range(function.results)]
    return CallLog.of_vectors(function, reference, drawn)


def _from_zero_positions(
    function: ServedFunction, positions: Positions, *, sampled: bool
) -> Positions:
    """Return the positions of a function without position arguments: from 0, not too many."""
    if function.outcome != "vectors" or not sampled:
        most, what = MOST_ROWS, "rows of tables"
        if function.outcome == "vectors":
            most, what = _LONGEST, "positions of a function that takes none"
        check_size(positions.option, positions.last + 1, most, what)
        return positions
    ranges = [
        range(indices.start, min(indices.stop, _FROM_ZERO), indices.step)
        for indices in positions.ranges
    ]
    return Positions(tuple(indices for indices in ranges if indices))


def _table_subject(
    function: ServedFunction, reference: Reference, positions: Positions, calls: PlannedCalls
) -> Subject:
    """Return the subject for a function that returns tables or frequencies."""
    places = PositionRows.of(positions)
    if function.outcome == "frequencies":
        (frequencies,) = function.returned(places.at(slice(0, 1)))
        values = frequencies.values.reshape(-1)
        subject = frequency_subject(
            values, frequencies.dtype, reference, positions, name=function.process.target
        )
        return replace(subject, kind=SubjectKind.IMPL)

    (log,) = logs = _empty_logs(function, reference)
    (patterns,) = _try_patterns(function, logs, positions, calls)
    cos, sin = function.returned(places.at(slice(0, places.count)))
    subject = table_subject(
        cos.values, sin.values, cos.dtype, reference, positions, name=function.process.target
    )
    return replace(
        subject,
        kind=SubjectKind.IMPL,
        irregular=_more_specific(ordered_faults(patterns.faults, ()), log, positions, cos.dtype),
        other_calls=far_row_faults(log, cos.dtype),
        returned_tables=True,
    )


def _try_patterns(
    function: ServedFunction, logs: list[CallLog], positions: Positions, calls: PlannedCalls
) -> list[PlannedCalls]:
    """Call in pieces and in other orders, unless values depend on the length of a call.

    The calls of each result are returned, and ``calls`` lists those of all results.
    """
    if function.follows_length:
        calls.untried += () if function.form.from_zero else (_IN_PIECES,)
        return [PlannedCalls(function) for _ in logs]
    planned = []
    for log in logs:
        planned.append(PlannedCalls(function))
        try_patterns(planned[-1], function, log.rows, vectors_differ, context=positions.last + 1)
        function.revive()  # the longest call may have ended the process
    # On a slow machine, a call may have been skipped for one of the results.
    calls.tried += [text for text in planned[0].tried if all(text in own.tried for own in planned)]
    calls.untried += dict.fromkeys(text for own in planned for text in own.untried)
    return planned


_COSINES_FIRST = "cosines, then sines"
_IN_PIECES = "chunks of a sequence, or single rows after others"


def _vector_subjects(
    function: ServedFunction,
    reference: Reference,
    positions: Positions,
    calls: PlannedCalls,
    progress: Progress | None,
    *,
    context: int,
) -> list[Subject]:
    """Return the subjects for a function that rotates vectors, one for each result.

    ``context`` is the total number of positions; ``positions`` may be only the first of them.
    """
    places, dim = PositionRows.of(positions), function.form.columns
    logs = _empty_logs(function, reference)
    planned = _try_patterns(function, logs, positions, calls)
    sample_positions = places.at(places.sample()[:: max(1, min(places.count, 768) // 12)])
    sample_positions = sample_positions[:: -(-sample_positions.size * dim**2 // (2 * _MOST_CELLS))]
    samples = function.matrices(sample_positions)
    readers: list[ResultReader] = []
    far_rows: list[tuple[Irregularity, ...]] = []
    for which, own_calls in enumerate(planned):
        matrices = samples[which].values
        trial = FunctionTrial.of(function, which, sample_positions, matrices)
        irregular = ordered_faults(own_calls.faults, irregularities(trial))
        irregular = _more_specific(
            irregular, logs[which], positions, samples[which].dtype, which=which
        )
        far_rows.append(() if irregular else far_row_faults(logs[which], samples[which].dtype))
        more = min(context, LONG)
        if more > positions.last + 1 and not irregular and logs[which].compares:
            irregular = long_call_faults(logs[which], samples[which].dtype, more, calls)
        readers.append(
            ResultReader(
                reference,
                places,
                (sample_positions, samples[which]),
                {
                    "irregular": irregular,
                    "broken": _not_finite(sample_positions, matrices),
                    "returned_half": returned_half(trial),
                },
            )
        )
    half = any(is_half(sample.values) for sample in samples)
    unlike = _read_all(function, readers, places, progress, half=half)
    equal_rotations = len(readers) > 1 and reference.symmetric and readers[0].equals(readers[1])
    subjects = [
        reader.subject(function.process.target, both=len(readers) > 1)
        for reader in (readers[:1] if equal_rotations else readers)
    ]
    if any(one.irregular for one in subjects):  # irregularities say more
        return subjects
    if equal_rotations:
        far_rows = [(*chain(*far_rows),)]
    return [
        replace(one, other_calls=(*unlike, *faults))
        for one, faults in zip(subjects, far_rows, strict=True)
    ]


def _read_all(
    function: ServedFunction,
    readers: list[ResultReader],
    places: PositionRows,
    progress: Progress | None,
    *,
    half: bool,
) -> tuple[Irregularity, ...]:
    """Read results at all positions; return how heads with equal vectors differ.

    Four vectors suffice for a row that pairs columns as the sample does. Other rows get all unit
    vectors. So do all rows if values have a ``half`` precision, which hides small entries in sums.
    """
    dim, count = function.form.columns, places.count
    probes = None
    if not half and len({reader.pairing for reader in readers}) == 1:
        probes = PairProbes(readers[0].pairing, dim)

    unlike: list[tuple[int, int]] = []

    def read(rows: Integers, probes: PairProbes | None, heads: int = 4) -> Integers:
        vectors = np.eye(dim, dtype=np.float32) if probes is None else probes.vectors
        vectors = np.tile(vectors, (1 if probes is None else heads // 4, 1))
        results = function.heads(vectors, places.at(rows))
        unit_rows = [
            reader.take(rows, result.values[:, :4] if probes else result.values, probes)
            for reader, result in zip(readers, results, strict=True)
        ]
        several = results if probes and heads > 4 else []
        for result in several:
            four = result.values.reshape(rows.size, -1, 4, dim)
            differing = np.abs(four - four[:, :1]) > ALIKE * (1 + np.abs(four[:, :1]))
            if differing.any():
                unlike.append((rows.size, int(places.at(rows)[0])))
        return np.flatnonzero(np.bincount(np.concatenate(unit_rows)))

    most_rows = max(1, CELLS // dim**2)
    heads = (
        _EQUAL_HEADS
        if function.form.has_heads and _EQUAL_HEADS * dim * count <= _MOST_EQUAL_VALUES
        else 4
    )
    step = most_rows if probes is None else _rows_at_once(function.form, most_rows, heads * dim)
    for start in range(0, count, step):
        rows = np.arange(start, min(start + step, count))
        whole = probes is None or start == 0 or start + step >= count
        unit_rows = rows[:: max(1, rows.size // most_rows)] if whole else rows[:0]
        if probes is not None:
            unit_rows = np.concatenate([unit_rows, read(rows, probes, heads)])
            unit_rows = np.flatnonzero(np.bincount(unit_rows))
        for first in range(0, unit_rows.size, most_rows):
            read(unit_rows[first : first + most_rows], None)
        if progress is not None:
            progress(int(rows[-1]) + 1, count)
    if not unlike:
        return ()
    evidence = "in a call of {} rows from position {} on".format(*unlike[0])
    return (Irregularity(Cause.UNKNOWN, f"{heads} equal heads have different results", evidence),)


def _rows_at_once(form: CallForm, most_rows: int, values: int) -> int:
    """Return how many rows one call reads, of ``values`` each; few if each call has an offset."""
    if not (form.any_rows or form.from_zero):
        return min(most_rows, _ROWS_OF_OFFSET)
    return max(1, (_PREFIX if form.from_zero else CELLS) // values)


_EQUAL_HEADS, _MOST_EQUAL_VALUES = 12, 1 << 23
"""Heads that get the same four vectors, and the most values for which this is done."""

_ROWS_OF_OFFSET = 128
"""Rows that are read from one offset; with more, too few offsets would be compared."""

_PREFIX = 1 << 24
"""Most values of a call that begins at position 0: each such call has all rows before it."""


def _more_specific(
    irregular: tuple[Irregularity, ...],
    log: CallLog,
    positions: Positions,
    dtype: str,
    *,
    which: int = 0,
) -> tuple[Irregularity, ...]:
    """Return the irregularities, or those of heads or calls if no known bug explains them."""
    unknown = any(one.cause == Cause.UNKNOWN for one in irregular)
    if not unknown or not log.compares or any(UNSTEADY in one.message for one in irregular):
        return irregular
    return (
        differing_head_faults(log, which, positions.last + 1)
        or explain_by_calls(log, dtype)
        or irregular
    )


def _not_finite(positions: Integers, matrices: UnitMatrices) -> tuple[str, ...]:
    """Say at which position values first are not finite; empty if all are finite."""
    bad = ~np.isfinite(matrices).all(axis=(1, 2))
    if not bad.any():
        return ()
    return (f"returned NaN or infinity at position {positions[np.argmax(bad)]}",)
