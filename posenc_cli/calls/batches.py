"""Call a function with several sequences and heads, and compare each head with a call of its own.

Sequences are at different positions if the function accepts positions for each. k has fewer heads
than q if such a call succeeds. A call may have more axes than the form that was found first. It
counts only if some heads or all rotated dimensions are right, or if its sequences are rotated at
other positions. Otherwise the function may not support these axes, and line 1 says "not tested".
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.arrangements import (
    FEWER_KEYS,
    MANY_HEADS,
    MOST_HEADS,
    SEQUENCES,
    STARTS,
    Arrangement,
    arrangements,
    at_last_positions,
    distinct_sizes,
    other_shapes,
    surely_supported,
    with_other_shapes,
)
from posenc_cli.calls.call_log import CallLog, MadeCall, RowReader
from posenc_cli.calls.called_function import SHAPE, Crash, Dropped
from posenc_cli.calls.function_trial import NO_MAP, Irregularity, vectors_differ
from posenc_cli.calls.patterns import result_or_none
from posenc_cli.calls.payloads import Vectors
from posenc_cli.calls.roles import TABLES
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.codes import Cause
from posenc_cli.positions import range_texts
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posenc_cli.calls.answers import Differs
    from posenc_cli.calls.call_form import CallForm
    from posenc_cli.calls.further_calls import Tried
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray

    Alone = Callable[[int, NumberArray, Integers], NumberArray]

_DRAWN_HEADS = (0, 1, 2, 1, 1, 0, 2, 2, 1, 2, 0, 1, 0, 1, 0, 1, 2)
"""Which of three vectors each head of a larger batch has, repeated. 17 is not a multiple of a
block size, so few heads have the same vector as the head one block before."""

_FEW_HEADS = 20
"""With fewer heads, each has its own vectors."""

_ADVANCE = 0.01
"""Least difference between the factors of neighbouring positions in some pair.

It is far above rounding, and below the rotation of the first pair with a scaling of 64."""

_LISTED = 3
"""Most sequences, heads or rows that are listed one by one."""

_BATCH = "several sequences or heads in one call"

_EQUAL_HEADS = "it supports only equal numbers of q and k heads"

_UNSUPPORTED = "results differ from single calls: this axis order is not supported"

_MOST_VALUES = 1 << 24
"""Values of one batch. A grid of 4096 patches with heads of 128 values has 9 million."""


class BatchResult(Record):
    """One result of a call with several sequences and heads, and the result of each head alone.

    ``x``, ``values`` and ``alone`` are (b, h, n, d). ``places`` (b, h, n) are the positions of
    rows. ``wrong`` (b, h) marks the heads that differ. ``dtype`` is the number format of the
    result.
    """

    which: int
    places: Integers
    x: NumberArray
    values: NumberArray
    alone: NumberArray
    wrong: Flags
    dtype: str

    @property
    def rotates(self) -> bool:
        """Whether all rotated dimensions are right."""
        rotated = (self.alone != self.x).any(axis=(0, 1, 2))
        return bool(rotated.any()) and not vectors_differ(
            np.where(rotated, self.values, self.alone), self.alone
        )

    @property
    def _call(self) -> MadeCall:
        x, values = (array.reshape(-1, array.shape[3]) for array in (self.x, self.values))
        return MadeCall(self.places.reshape(-1), x, lambda: values)

    def follows_places(self, reference: Reference) -> bool:
        """Return whether one factor for each pair and position gives all heads.

        Factors of neighbouring positions must differ. A call in axes that a function does not
        support gives other results.
        """
        before, after = RowReader(reference, self.dtype).factors(self._call)  # (rows, pairs)
        places, index = np.unique(self._call.positions, return_inverse=True)
        if self.x.shape[1] == 1 or places.size == 1:
            return False
        of_place = (index == np.arange(places.size)[:, None]).astype(np.float64)  # (places, rows)
        factors = (of_place @ (after * before.conj())) / (of_place @ np.square(np.abs(before)))
        advance = np.abs(np.diff(factors, axis=0)).max(axis=1) > _ADVANCE
        return bool(advance.all()) and not vectors_differ(factors[index] * before, after)

    def read(self, reference: Reference) -> Integers | None:
        """Return the positions (b, h, n) that rows are rotated at; None if one cannot be read."""
        read = RowReader(reference, self.dtype).positions(self._call)
        return None if read is None else read.reshape(self.places.shape)


class BatchCall:
    """A call with vectors (b, n, h, d) for each result, and the results of each head alone.

    ``positions`` (p, n) are those of the call; those of q or k are in ``given`` if they differ.
    ``other`` is an argument that has another shape than in all other calls, in words.
    ``alone(which, x, places)`` returns the rotation of vectors (k, n, d) at positions (k, n); by
    default it calls the function with one head.

    Raises: InvalidInput if a call fails.
    """

    def __init__(
        self,
        function: ServedFunction,
        form: CallForm,
        positions: Integers,
        given: Sequence[Vectors],
        differs: Differs,
        *,
        alone: Alone | None = None,
        other: str = "",
    ) -> None:
        self._function, self._other = function, other
        results = function.process.rotated(form, positions, given)
        self.parts = []
        for which, (vectors, result) in enumerate(zip(given, results, strict=True)):
            x, values = (one.values.swapaxes(1, 2) for one in (vectors, result))  # (b, h, n, d)
            if values.shape[2] != x.shape[2]:
                raise InvalidInput("the results have other shapes than q and k")
            x = np.repeat(x, values.shape[1] // x.shape[1], axis=1)
            at = positions if vectors.positions is None else vectors.positions
            places = np.broadcast_to(at[:, None], x.shape[:3])
            heads = (x.reshape(-1, *x.shape[2:]), places.reshape(-1, x.shape[2]))
            expected = (alone or self._rotated_alone)(which, *heads).reshape(x.shape)
            wrong = np.empty(x.shape[:2], bool)
            for head in np.ndindex(wrong.shape):
                wrong[head] = differs(values[head], expected[head])
            self.parts.append(BatchResult(which, places, x, values, expected, wrong, result.dtype))
        self.wrong = [part for part in self.parts if part.wrong.any()]

    @cached_property
    def read(self) -> list[Integers]:
        """The positions of all rows of each wrong result; empty if one cannot be read."""
        read = [part.read(self._function.process.reference) for part in self.wrong]
        shown = [positions for positions in read if positions is not None]
        return shown if len(shown) == len(read) else []

    @property
    def by_head(self) -> bool:
        """Whether rows of one position are rotated at positions that differ between heads."""
        return any(bool((positions != positions[:, :1]).any()) for positions in self.read)

    @property
    def rotates(self) -> bool:
        """Whether only unrotated dimensions are wrong."""
        return all(part.rotates for part in self.wrong)

    @property
    def unrotated(self) -> bool:
        """Whether all wrong heads are returned unchanged."""
        return not any(
            vectors_differ(part.values[part.wrong], part.x[part.wrong]) for part in self.wrong
        )

    @property
    def proves_support(self) -> bool:
        """Whether the function surely supports such calls.

        It does if any head that is rotated is right, if only unrotated dimensions are wrong, or if
        all heads follow positions in the same way.
        """
        rotated = [part for part in self.parts if (part.alone != part.x).any()]
        if self.rotates or not all(part.wrong.all() for part in rotated):
            return True
        return all(part.follows_places(self._function.process.reference) for part in self.wrong)

    @property
    def advances(self) -> bool:
        """Whether the positions of the rows of each head increase, as far as they can be read."""
        return all((np.diff(positions, axis=2) > 0).all() for positions in self.read)

    def proves_other_shape(self, form: CallForm, usual: CallForm) -> bool:
        """Return whether the function surely supports the shape that an argument has only here.

        It may read vectors without an axis as those of another one, the axis of rows as that of
        sequences, and the number of columns of a table as that of the dimensions to rotate.
        """
        if not (self.unrotated or all(np.ptp(rows, axis=2).any() for rows in self.read)):
            return False
        if form.flat:
            return self.rotates or self.unrotated or bool(self.read)
        if form.axes != usual.axes:
            return self.rotates or ("b" not in form.axes and self.proves_support)
        if not form.has(*TABLES):
            return self.proves_support or self.unrotated or (bool(self.read) and self.advances)
        stay = [(part.values == part.x) & (part.alone != part.x) for part in self.parts]
        return self.proves_support or not any(still.all(axis=(0, 1, 2)).any() for still in stay)

    @property
    def where(self) -> str:
        """The heads and sequences that differ, in words."""
        names = ("q", "k") if len(self.parts) > 1 else ("x",)
        texts = {names[part.which]: _wrong_heads_text(part.wrong) for part in self.wrong}
        if len(texts) == len(names) and len({*texts.values()}) == 1:
            return next(iter(texts.values()))
        return " and ".join(f"{text} of {name}" for name, text in texts.items())

    @property
    def finding(self) -> tuple[str, Cause]:
        """The fault of all wrong heads, and its cause; UNKNOWN if none is found."""
        several = "sequences" if len(self.parts[0].x) > 1 else "heads"
        beside = f" in calls with {self._other or f'several {several}'}"
        if self.rotates:
            return f"unrotated dimensions change{beside}", Cause.ROTARY_DIM
        if self.unrotated:
            return f"rows of {self.where} are returned unrotated{beside}", Cause.NO_ROTATION
        beside *= bool(self._other)
        for read, part in zip(self.read, self.wrong, strict=False):
            for index in np.argwhere(read != part.places)[:1]:
                sequence, head, _ = index + 1
                text = (
                    f"rows of {self.where} get the rotation of other positions{beside}: position "
                    f"{part.places[*index]} of sequence {sequence}, head {head}, as {read[*index]}"
                )
                return text, Cause.AXIS if self._along_heads else Cause.POSITION_OFFSET
        return f"results differ{beside}" if beside else NO_MAP, Cause.UNKNOWN

    @property
    def _along_heads(self) -> bool:
        """Whether all positions differ from head to head, as if heads were counted as rows."""
        return self.by_head and all(
            np.diff(read, axis=1).all()
            and (np.isin(read, part.places).all() or not np.ptp(read, axis=2).any())
            for read, part in zip(self.read, self.wrong, strict=True)
        )

    def fault(self, text: str) -> Irregularity | None:
        """Return the fault of the call that ``text`` describes, or None if no head differs."""
        if not self.wrong:
            return None
        finding, cause = self.finding
        return Irregularity(
            cause, finding, f"called with {text}: results for {self.where} differ from single calls"
        )

    def _rotated_alone(self, which: int, x: NumberArray, places: Integers) -> NumberArray:
        """Return the results for vectors (k, n, d) at positions (k, n), one sequence at a time.

        Equal sequences are computed once.

        Raises: InvalidInput.
        """
        keys = [vectors.tobytes() + at.tobytes() for vectors, at in zip(x, places, strict=True)]
        last = {key: place for place, key in enumerate(keys)}
        order = {key: number for number, key in enumerate(last)}
        once = list(last.values())
        blocks = list(zip(x[once], places[once], strict=True))
        rows = places[once].size
        if self._function.form.any_rows:
            # Repeat the last row up to a power of two: some libraries compile for each size.
            some = np.minimum(np.arange(1 << (rows - 1).bit_length()), rows - 1)
            blocks = [(np.concatenate(x[once])[some], np.concatenate(places[once])[some])]
        values = np.concatenate([self._function.values(*block, which) for block in blocks])[:rows]
        rotated: NumberArray = values.reshape(-1, *x.shape[1:])[[order[key] for key in keys]]
        return rotated


def _wrong_heads_text(wrong: Flags) -> str:
    """Return the selected heads and sequences in words. Shape of ``wrong``: (sequences, heads)."""
    sequences, heads = (np.asarray(wrong.any(axis=axis)) for axis in (1, 0))
    if not np.array_equal(wrong, np.outer(sequences, heads)):
        return f"{int(wrong.sum())} of {wrong.size} heads of all sequences"
    if sequences.all() and heads.all():
        return "all heads"
    of_heads, of_sequences = _numbers_text("head", heads), _numbers_text("sequence", sequences)
    if sequences.all():
        return of_heads
    return of_sequences if heads.all() else f"{of_heads} of {of_sequences}"


def _numbers_text(noun: str, some: Flags) -> str:
    """Return the selected numbers, counted from 1, with long runs as ranges."""
    numbers = (np.flatnonzero(some) + 1).tolist()
    texts = map(str, numbers) if len(numbers) <= _LISTED else range_texts(numbers)
    return f"{noun}{'s' * (len(numbers) > 1)} {', '.join(texts)}"


def try_batches(tried: Tried) -> None:
    """Call a function that rotates vectors with several sequences and heads."""
    function, calls, context = tried.function, tried.calls, tried.last + 1
    grid, failed = function.form.has("grid"), dict[Arrangement, InvalidInput | None]()
    if not (grid or tried.takes_batches):
        calls.skip(_BATCH, untested=[_BATCH])
        return
    for candidate in arrangements(function.form):
        arrangement = replace(candidate, rows=context) if grid else candidate  # all rows of a grid
        if arrangement.values > _MOST_VALUES:
            calls.skip(_BATCH, f"the grid has {context} rows")
            return
        failed[arrangement] = None
        try:
            batch = called_together(function, arrangement, tried.differs)
        except InvalidInput as error:
            function.revive()
            failed[arrangement] = error
            lost = isinstance(error, Crash) or _is_dropped(arrangement, error)
            if lost and _one_is_right(tried, arrangement):
                calls.crash(arrangement.text, error)
            continue
        if _is_supported(tried, arrangement, batch):
            del failed[arrangement]
            calls.tried.append(arrangement.text)
            _report_untested(tried, arrangement, failed)
            fault = batch.fault(arrangement.text)
            calls.fault(fault)
            if fault is None and not grid:
                _try_other_sizes(tried, arrangement)
            return
    _report_untested(tried, None, failed)


def _is_supported(tried: Tried, arrangement: Arrangement, batch: BatchCall) -> bool:
    """Return whether a function supports a call, so that each wrong head is its fault.

    It does if one sequence is right in these axes, unless it counts the rows of all sequences that
    share positions, as vLLM's functions do. If one head alone is right and several are not, the
    function mixes heads.
    """
    if batch.proves_support or surely_supported(arrangement, tried.form):
        return True
    if _one_is_right(tried, arrangement):
        return arrangement.places > 1 or batch.advances
    return arrangement.places == 1 and _one_is_right(tried, arrangement, heads=1)


def _is_dropped(arrangement: Arrangement, error: InvalidInput | None) -> bool:
    """Return whether values are dropped; those of fewer heads of k may be, beside those of q."""
    return isinstance(error, Dropped) and arrangement.key_heads == arrangement.heads


def _report_untested(
    tried: Tried,
    supported: Arrangement | None,
    failed: Mapping[Arrangement, InvalidInput | None],
) -> None:
    """Report the calls that failed, with their errors or None if results differ.

    ``supported`` is the first call that was judged, if any. Line 1 names batches if they are
    refused in axes in which one sequence is right, if their results differ, or if values are
    dropped. It names fewer heads of k if they are returned in another shape without an error.
    """
    form, calls = tried.form, tried.calls
    whys = {
        arrangement: _UNSUPPORTED if error is None else tried.function.process.reason(error)
        for arrangement, error in failed.items()
    }
    for arrangement, error in failed.items():
        calls.skip(arrangement.text, whys[arrangement])
        returns = error is None or error.code == SHAPE
        if returns and arrangement.form.axes == form.axes:
            calls.untested += [FEWER_KEYS] * (arrangement.key_heads < arrangement.heads)
    if supported is not None and supported.sequences > supported.places and form.position_parameter:
        calls.untested.append(f"{form.position_parameter} of each sequence")
    if supported is not None and supported.sequences > 1:
        return
    for arrangement, error in failed.items():
        returns = error is None or _is_dropped(arrangement, error)
        if arrangement.sequences > 1 == arrangement.places and (
            returns or _one_is_right(tried, arrangement)
        ):
            calls.untested.append(f"batches ({whys[arrangement]})")
            return


def _one_is_right(tried: Tried, arrangement: Arrangement, *, heads: int = 0) -> bool:
    """Return whether one sequence is right in these axes.

    It has ``heads`` heads, or as many as the arrangement.
    """
    heads = heads or arrangement.heads
    return is_right(
        tried, replace(arrangement, sequences=1, places=1, heads=heads, key_heads=heads)
    )


def is_right(tried: Tried, arrangement: Arrangement) -> bool:
    """Return whether a call succeeds and all its heads are right."""
    batch = result_or_none(
        tried.function, partial(called_together, tried.function, arrangement, tried.differs)
    )
    return batch is not None and not batch.wrong


def called_together(
    function: ServedFunction,
    arrangement: Arrangement,
    differs: Differs,
    *,
    alone: Alone | None = None,
) -> BatchCall:
    """Make the call of an arrangement with random vectors.

    Raises: InvalidInput if a call fails.
    """
    form, rows = arrangement.form, arrangement.rows
    starts = (0,) if form.from_zero or form.has("grid") else STARTS[: arrangement.places]
    generator = np.random.default_rng(11)
    given: list[Vectors] = []
    for heads in (arrangement.heads, arrangement.key_heads)[: len(form.vectors)]:
        drawn = np.arange(heads) if heads < _FEW_HEADS else np.resize(_DRAWN_HEADS, heads)
        shape = arrangement.sequences, rows, 1 + int(drawn.max()), form.columns
        x = generator.standard_normal(shape).astype(np.float32)[:, :, drawn]
        given.append(Vectors(x, rows))
    positions = arrangement.later + np.add.outer(starts, np.arange(rows))
    other = arrangement.other or f"{form.position_parameter} as an array" * form.boxed
    return BatchCall(function, form, positions, given, differs, alone=alone, other=other)


def _try_other_sizes(tried: Tried, arrangement: Arrangement) -> None:
    """Call with batches of other sizes, after one was right."""
    calls, usual = tried.calls, arrangement.form
    others = [*arrangement.others, *at_last_positions(arrangement, tried.last)]
    others += with_other_shapes(arrangement)
    for other in others:
        new = bool(other.other) and other != other.square
        batch = calls.attempt(
            other.text,
            partial(called_together, tried.function, other, tried.differs),
            surely=not other.other and other.key_heads != 1,
        )
        if batch is None:
            if other == arrangement.with_heads(MOST_HEADS):
                # Some kernels support only known numbers of heads, in smaller blocks.
                others.append(arrangement.with_heads(MANY_HEADS))
        elif new and batch.wrong and not batch.proves_other_shape(other.form, usual):
            calls.skip(calls.tried.pop(), _UNSUPPORTED)
            calls.untested += [other.other] * (other.form.axes != usual.axes)
        elif other.key_heads < other.heads == arrangement.key_heads and batch.wrong:
            calls.skip(calls.tried.pop(), _EQUAL_HEADS, untested=[FEWER_KEYS])
        elif batch.wrong:
            calls.fault(batch.fault(other.text))
            return
        elif new and other.form.axes == usual.axes:
            others.append(other.square)


def try_rows_of_heads(tried: Tried) -> None:
    """Call a function of positions, q and k, in this order, with the heads of a row side by side.

    vLLM calls its own functions so. If only one head is right, the function may rotate the first
    dimensions of any row and not support heads side by side.
    """
    form, calls = tried.form, tried.calls
    roles = [argument.role for argument in form.arguments[:2]]
    if roles != ["positions", "q"] or not tried.takes_batches:
        return
    flat = replace(form, axes="nf", position_axes=form.position_axes.replace("b", ""))
    rows, heads, fewer = distinct_sizes(flat)
    arrangement = Arrangement(
        flat, SEQUENCES, SEQUENCES, rows, heads, heads if form.one_head_count else fewer
    )
    batch = calls.attempt(
        f"{arrangement.text} side by side in rows",
        partial(called_together, tried.function, arrangement, tried.differs),
        surely=False,
    )
    # With fewer than two right heads of q, the function may not support this.
    if batch and batch.wrong and (~batch.parts[0].wrong).all(axis=0).sum() < 2:
        calls.skip(calls.tried.pop(), "unsupported", untested=["heads side by side"])
    elif batch is not None:
        calls.fault(batch.fault(arrangement.text))


_KEYS, _QUERIES, _FIRST = 7, 3, 9
"""Rows of k and q, which do not broadcast, and the first position of k."""

_SHORTER = f"{_QUERIES} rows of q with {_KEYS} of k"


def try_shorter_queries(tried: Tried) -> None:
    """Call a function of q and k with only the last rows of q, as in decoding with a cache.

    Most functions refuse this, which is no fault. A function that accepts it must rotate q as the
    last rows. If it counts table rows from the first, it may be right, because its caller chooses
    the rows; the report says so.
    """
    form, calls, name = tried.form, tried.calls, "q shorter than k"
    roles = [form.arguments[place].role for place in form.vectors]
    if sorted(roles) != ["k", "q"] or form.has("k_positions") or not tried.takes_batches:
        return
    positions = (0 if form.from_zero else _FIRST) + np.arange(_KEYS)[None]
    places = [positions[:, -_QUERIES:] if role == "q" else positions for role in roles]
    batch = calls.attempt(
        name,
        partial(_called_at_places, tried.function, positions, places, tried.differs),
        surely=False,
    )
    if batch is None or not batch.wrong:
        return
    only_q = [roles[part.which] for part in batch.wrong] == ["q"] and batch.read
    shifts = {*(batch.read[0] - batch.wrong[0].places).flat} if only_q else ()
    shift = int(*shifts) if len(shifts) == 1 else 0
    if shift and (shift != _QUERIES - _KEYS or form.has("positions")):
        calls.fault(batch.fault(_SHORTER))
        return
    calls.skip(
        calls.tried.pop(),
        "q is rotated as the first rows of k" if shift else _UNSUPPORTED,
        # Without tables, an offset is that of the first row of each.
        untested=[] if shift and not form.has(*TABLES) else [name],
    )


def _called_at_places(
    function: ServedFunction,
    positions: Integers,
    places: Sequence[Integers],
    differs: Differs,
    heads: Sequence[int] = (1, 1),
) -> BatchCall:
    """Call with q and k at ``places`` (1, n) each; ``positions`` are those of the call.

    Raises: InvalidInput if it fails.
    """
    form, generator = function.form, np.random.default_rng(17)
    given = [
        Vectors(
            generator.standard_normal((1, rows.size, count, form.columns), np.float32),
            rows.size,
            positions=rows,
        )
        for rows, count in zip(places, heads, strict=True)
    ]
    return BatchCall(function, form, positions, given, differs)


def try_keys(tried: Tried) -> None:
    """Call a function with positions of k that differ from those of q.

    Also call it with fewer rows of q than of k, and with more heads of q if its form allows.
    """
    form, calls, positions = tried.form, tried.calls, _FIRST + np.arange(_KEYS)[None]
    name = form.parameter_of("k_positions")
    if not name or not tried.takes_batches:
        return
    roles = [form.arguments[place].role for place in form.vectors]
    _, heads, key_heads = distinct_sizes(form)
    grouped = [heads if role == "q" else key_heads for role in roles]
    text, backward = f"{name} different from the positions of q", positions[:, ::-1]
    rows = [(text, backward, [1, 1]), (_SHORTER, positions[:, -_QUERIES:], [1, 1])]
    if "h" in form.axes and not form.one_head_count:
        rows.append((f"{text}, and {heads} heads of q with {key_heads} of k", backward, grouped))
    for called, of_q, counts in rows:
        places = [of_q if role == "q" else positions for role in roles]
        batch = calls.attempt(
            called,
            partial(_called_at_places, tried.function, of_q, places, tried.differs, counts),
            surely=counts != grouped,
            tests=[name],
        )
        if batch is not None and batch.wrong:
            calls.fault(batch.fault(called))
            return


def try_table_batches(tried: Tried) -> None:
    """Call a function that returns tables with the positions of several sequences."""
    form, calls = tried.form, tried.calls
    if not form.has("positions"):
        return
    positions = _text_positions(tried)
    for text, other in other_shapes(form) if positions.size else ():
        calls.judge(text, partial(_table_fault, tried, other, positions, text), surely=False)
    several = "positions of several sequences in one call"
    if not tried.takes_batches:
        calls.skip(several, untested=[several])
        return
    separate = "b" in form.position_axes
    if not separate:
        form = replace(form, position_axes=form.position_axes.replace("n", "bn"))
    square, fewer = Arrangement(form, 1, 1, 1, 1, 1).square.rows, distinct_sizes(form)[0]
    for sequences, rows in ((SEQUENCES, fewer), (2, fewer), (square, square), (len(STARTS), 1)):
        text = f"the positions of {sequences} sequences in one call"
        positions = np.add.outer(STARTS[:sequences], np.arange(rows))
        positions[-1] += tried.last - positions[-1, -1]  # low frequencies show in the last ones
        calls.judge(text, partial(_table_fault, tried, form, positions, text), surely=False)
        if calls.faults:
            return
        if text not in calls.tried:
            calls.untested += [several] * (separate or form.position_parameter == "position_ids")
            return


def _text_positions(tried: Tried) -> Integers:
    """Return the last positions whose coordinates, if there are several, equal the position."""
    positions = np.arange(tried.last + 1)
    if tried.form.follows_axes:
        positions = positions[(tried.reference.coordinates_at(positions) == positions).all(axis=0)]
    return positions[None, -distinct_sizes(tried.form)[0] :]


def _table_fault(
    tried: Tried, form: CallForm, positions: Integers, text: str
) -> Irregularity | None:
    """Return how tables in this form differ from those of each sequence alone, if they do.

    Raises: InvalidInput if a call fails or the tables are not one for each sequence.
    """
    batch = tried.function.varied(last=tried.function.last, form=form).answers(positions)
    alone = zip(*(tried.function.answers(sequence[None]) for sequence in positions), strict=True)
    for parts, table in zip(alone, batch, strict=False):
        joined = _join_tables(parts, table)
        if table.shape not in (joined.shape, parts[0].shape):
            raise InvalidInput("it does not return tables for each sequence")
        if table.shape != joined.shape or tried.differs(table, joined):
            return Irregularity(
                Cause.UNKNOWN, NO_MAP, f"called with {text}: the tables differ from single calls"
            )
    return None


def _join_tables(parts: Sequence[NumberArray], whole: NumberArray) -> NumberArray:
    """Join the tables of single sequences along the axis of sequences of ``whole``."""
    if parts[0].ndim == 0:  # a factor
        return parts[0]
    longer = [
        axis
        for axis, sizes in enumerate(zip(parts[0].shape, whole.shape, strict=False))
        if sizes[0] != sizes[1]
    ]
    axis = longer[0] if longer and parts[0].ndim == whole.ndim else 0
    joined = np.concatenate(parts, axis=axis)
    return joined.reshape(whole.shape) if joined.size == whole.size else joined


_HEADS = (12, 10, 14)
"""Heads of a call; the first number that is not the length of another axis is used."""

_ROWS = 64
"""Rows of that call."""


def differing_head_faults(log: CallLog, which: int, context: int) -> tuple[Irregularity, ...]:
    """Return the fault of a call in which some heads are rotated differently; else nothing."""
    function, form = log.function, log.function.form
    if not form.has_heads or function.follows_length:
        return ()
    rows = max(2, min(_ROWS, context - STARTS[0]))
    heads = next(n for n in _HEADS if n not in (form.columns, form.columns // 2, rows))
    call = partial(
        called_together,
        function,
        Arrangement(form, 1, 1, rows, heads, heads),
        vectors_differ,
        alone=partial(_reference_rotation, log.reference),
    )
    batch = result_or_none(function, call)
    wrong = batch.parts[which].wrong if batch else np.zeros(1, bool)
    if batch is None or not wrong.any() or (wrong.all() and not batch.by_head):
        return ()
    (message, cause), where = batch.finding, batch.where
    unnamed = f"rows of {where} are rotated differently from the other heads"
    return (
        Irregularity(
            cause,
            unnamed if message == NO_MAP else message,
            f"called with {heads} heads: results for {where} differ from the reference",
            "the function rotates heads differently",
        ),
    )


def _reference_rotation(
    reference: Reference, _: int, x: NumberArray, places: Integers
) -> NumberArray:
    """Return vectors (k, n, columns), rotated by the reference at positions (k, n)."""
    pairing = reference.pairing
    factors = reference.rotation.at(places.reshape(-1)).reshape(*places.shape, -1)
    after = (x[..., list(pairing.first)] + 1j * x[..., list(pairing.second)]) * factors
    y = x.astype(np.float64)
    y[..., list(pairing.out_first)], y[..., list(pairing.out_second)] = after.real, after.imag
    return y
