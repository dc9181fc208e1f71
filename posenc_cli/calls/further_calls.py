"""Make further calls of a right function, with changes that must not change its results.

These are a short call beside a long one, and again after longer ones and after vectors in a half
precision; positions in another order than the tables; vectors that are not contiguous; an offset in
an array; positions of int32; and vectors in a half precision. Each must give the same results as
the earlier calls.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.arrangements import BATCH_CONTEXT
from posenc_cli.calls.function_trial import UNSTEADY, Irregularity
from posenc_cli.calls.patterns import (
    Pattern,
    PlannedCalls,
    compare_patterns,
    result_or_none,
)
from posenc_cli.calls.payloads import Vectors
from posenc_cli.calls.roles import TABLES
from posenc_cli.calls.serving import ServedFunction, other_vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.frameworks import BY_NAME
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.tolerance import unit
from posenc_cli.numerics.halves import HALVES, round_to_half
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.calls.answers import Differs
    from posenc_cli.calls.call_form import CallForm
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.turning import ColumnPairing
    from posenc_cli.numerics.arrays import ComplexRows, Integers, NumberArray, RealRows, Reals

    _Pair = tuple[NumberArray, NumberArray]

_SHORT = 64
"""Positions of a short call: fewer than any original context of a context extension."""

_ROUNDED_DOWN = (2, 257, 2049, 4097)
"""Positions that half precisions round: the last three become 256, 2048 and 4096 in bfloat16, the
last two in float16. The last positions of a shorter sequence are added, because only their angles
show a frequency in half precision."""

_LATER = np.arange(240, 257)
"""Positions that are exact in any half precision. They are far enough from 0 that the error of a
coarse frequency or angle exceeds the rounding of the vectors."""

_HIDING = 64
"""Least last position at which rounding of vectors cannot hide coarse frequencies and angles."""

_ROUNDINGS = 6 * 2**0.5
"""Largest error of right code in a half precision, in units of the largest value. Cosine, sine, a
factor on them, their products and the sum are rounded: 3√2 + 1 units, 5.24. The rest leaves room
for half a unit more. The length of a pair is at most √2 times its larger value."""

_ROWS, _FIRST = 5, 7
"""Rows of the calls with views and with an offset in an array, and the first position of the
second."""


class Tried(Record):
    """A function for which further calls are made; ``pairing`` is how it pairs dimensions.

    ``last`` is the last position, ``early`` the first short call, and ``calls`` the planned calls.
    ``by_length`` says that the reference itself depends on the length of a call, because its
    parameters follow a given length.
    """

    function: ServedFunction
    reference: Reference
    differs: Differs
    pairing: ColumnPairing | None
    last: int
    calls: PlannedCalls
    early: EarlyCall
    by_length: bool

    @property
    def form(self) -> CallForm:
        """The form in which the function is called."""
        return self.function.form

    def takes_half(self, half: str) -> bool:
        """Return whether it supports vectors in a half precision."""
        return self.last > 0 and half in halves_of(self.function)

    @property
    def takes_batches(self) -> bool:
        """Whether sequences can have different positions; false if results follow the length."""
        return not self.function.follows_length and self.last + 1 >= BATCH_CONTEXT

    @property
    def takes_single_rows(self) -> bool:
        """Whether several rows can be given one by one, each at its position."""
        several = self.last >= _ROUNDED_DOWN[1] or self.form.has("grid")
        return self.form.any_rows and several

    @property
    def rotates(self) -> bool:
        """Whether it rotates vectors, and has no parameter of grid sizes."""
        return self.function.outcome == "vectors" and not self.form.has("grid")

    def planes(self, parts: Sequence[NumberArray], *, given: bool = False) -> ComplexRows:
        """Return the dimension pairs of results as complex numbers; for tables, cosine and sine.

        With ``given`` they are those of the vectors that were given. Shape: (n, pairs), or
        (n, 2 pairs) for two results or for tables with each value twice.
        """
        pairing = self.pairing
        if self.function.outcome == "tables":
            factors: ComplexRows = parts[0] + 1j * parts[1].astype(np.float64)
            return factors if pairing is None else factors[:, [*pairing.first, *pairing.second]]
        assert pairing is not None
        first, second = pairing.out_first, pairing.out_second
        if given:
            first, second = pairing.first, pairing.second
        return np.concatenate(
            [part[:, [*first]] + 1j * part[:, [*second]].astype(np.float64) for part in parts],
            axis=1,
        )

    def joined_results(
        self, form: CallForm, positions: Integers, vectors: Sequence[Vectors]
    ) -> NumberArray:
        """Return all results of a call side by side. Shape: (b, n, heads of all, columns)."""
        results = self.function.process.rotated(form, positions, vectors)
        return np.concatenate([result.values for result in results], axis=2)


def try_further(tried: Tried) -> None:
    """Make the further calls that a function supports."""
    compare_patterns(_FURTHER, tried, tried.calls, tried.differs)


def try_early(tried: Tried) -> None:
    """Repeat the early call, and compare it with the same rows of a long call.

    If a call has no position for each row, rows far from the first show the difference when they
    are read.

    Raises: InvalidInput if the function does not return results again.
    """
    compare_patterns(_EARLY, tried, tried.calls, tried.differs)


class EarlyCall:
    """A short call with some of the first positions, made before all others and repeated later.

    Dynamic NTK returns to its first frequencies if a call is shorter than the original context.
    This call is always shorter.
    """

    text = "a short call again after longer ones"

    def __init__(self, function: ServedFunction, last: int, calls: PlannedCalls) -> None:
        self.positions = np.arange(min(_SHORT, last))
        self._short = function.varied(
            last=self.positions.size - 1 if function.follows_length else None
        )
        self._long = function.varied(last=last)
        self._x = random_vectors(self.positions.size, function.form.columns)
        self.first: list[NumberArray] = []
        wanted = self.positions.size > 1 and not function.form.has("grid")
        if wanted and function.outcome != "frequencies":
            self.first = calls.attempt(self.text, self.repeat) or []

    def repeat(self, *, half: str | None = None, in_long: bool = False) -> list[NumberArray]:
        """Return the results of the call, perhaps in a half precision or up to the last position.

        Raises: InvalidInput if the function does not return them.
        """
        function = self._long if in_long else self._short
        if half is not None:
            function = function.varied(last=function.last, dtype=half)
        return function.all_values(self._x, self.positions)


def _early_call_change(tried: Tried) -> Iterator[Irregularity]:
    """Yield the change of the early call since it was first made."""
    early = tried.early
    repeated = early.repeat()
    first, then = (np.concatenate(values, axis=1) for values in (early.first, repeated))
    if not tried.differs(then, first):
        return
    text = (
        f"positions 0 to {early.positions[-1]} differ by up to {np.abs(then - first).max():.2g} "
        "when called again after longer calls"
    )
    in_long = result_or_none(tried.function, partial(early.repeat, in_long=True)) or early.first
    if tried.differs(then, np.concatenate(in_long, axis=1)):
        yield Irregularity(Cause.UNKNOWN, f"the function {UNSTEADY}", text)
        return
    before, after = (tried.planes(parts) for parts in (early.first, repeated))
    shifted = before * np.exp(1j * np.outer(early.positions, np.angle(after[1] * before[1].conj())))
    by_rates = np.abs(after - shifted).max() <= 0.01 * np.abs(after - before).max()
    yield Irregularity(
        Cause.FREQUENCY_RULE if by_rates else Cause.UNKNOWN,
        "state leaks between calls: a short call after a longer one keeps the longer call's "
        "rotation",
        f"{text}; they then equal a call up to {tried.last}",
    )


def _beside_long(tried: Tried) -> Iterator[_Pair]:
    """Yield the results of the early call, and of the same rows beside the last position."""
    parts = tried.early.first, tried.early.repeat(in_long=True)
    yield np.concatenate(parts[0], axis=1), np.concatenate(parts[1], axis=1)


_EARLY = (
    Pattern(EarlyCall.text, _early_call_change, lambda tried: tried.early.first, surely=True),
    Pattern(
        lambda tried: f"a short call beside one up to position {tried.last}",
        _beside_long,
        lambda tried: (
            tried.early.first
            and (tried.form.from_zero or tried.form.has("positions"))
            and not (tried.by_length or tried.function.follows_length)
            and tried.last >= tried.early.positions.size
        ),
    ),
)
"""The calls with the positions of the early one."""


def _after_half(half: str, tried: Tried, *, renewed: bool) -> Iterator[_Pair]:
    """Yield the early call's results after vectors of a half precision, and its first ones.

    With ``renewed``, the vectors of a half precision are the first of a new process.
    """
    early, process = tried.early, tried.function.process
    if renewed:
        if not process.renews:
            raise InvalidInput("a function of this process cannot be loaded again")
        process.renew()
        early.repeat(half=half)
    yield np.concatenate(early.repeat(), axis=1), np.concatenate(early.first, axis=1)


def _strided_vectors(strided: str, tried: Tried) -> Iterator[_Pair]:
    """Yield results for vectors whose rows or columns are not adjacent in memory, as in views."""
    form, heads = tried.form, 3 if tried.form.has_heads else 1
    rows = tried.last + 1 if form.has("grid") else _ROWS
    x = random_vectors(rows * heads, form.columns).reshape(1, rows, heads, form.columns)
    given = [Vectors(part, rows) for part in (x, other_vectors(x))[: len(form.vectors)]]
    views = [replace(part, strided=strided) for part in given]
    positions = np.arange(rows)
    yield tried.joined_results(form, positions, views), tried.joined_results(form, positions, given)


_STRIDED = {
    "rows": "vectors that are not contiguous",
    "columns": "vectors whose last axis is not contiguous",
}


def _changed_v(tried: Tried) -> Iterator[Irregularity]:
    """Yield the fault of a v that is given with q and k, and is changed."""
    for first, heads in ((0, 3), (0 if tried.form.from_zero else _FIRST, 11)):
        given, left = tried.function.values_of_v(first, heads)
        if tried.differs(left, given.astype(np.float32)):
            yield Irregularity(
                Cause.UNKNOWN,
                "v is changed; only q and k should rotate",
                f"v differs from its input in a call from position {first} on",
            )


def _without_k(tried: Tried) -> Iterator[Irregularity]:
    """Yield the fault that q is rotated otherwise without k."""
    form, positions = tried.form, _FIRST + np.arange(_ROWS)
    without = replace(form, arguments=tuple(one for one in form.arguments if one.role != "k"))
    x = Vectors(random_vectors(_ROWS, form.columns)[None, :, None], _ROWS)
    alone = tried.joined_results(without, positions, [x])
    if tried.differs(alone, tried.joined_results(form, positions, [x, x])[:, :, :1]):
        yield Irregularity(
            Cause.UNKNOWN,
            "without k, q is rotated otherwise",
            f"called without {form.parameter_of('k')}: results differ from calls with it",
        )


def _may_lack_k(tried: Tried) -> bool:
    """Return whether q and k are rotated, and k has a default, as in vLLM."""
    optional = {given.name for given in tried.function.parameters if not given.required}
    return tried.rotates and tried.form.parameter_of("k") in optional


def _results_in_other_type(role: str, tried: Tried) -> Iterator[_Pair]:
    """Yield results for an offset in an array, as on a device, or for positions of int32."""
    form = tried.form
    positions = _FIRST + np.arange(_ROWS)
    if role == "positions":
        positions[1:] = np.linspace(_FIRST, max(_FIRST, tried.last), _ROWS)[1:]
    x = Vectors(random_vectors(_ROWS, form.columns)[None, :, None], _ROWS)
    boxed, usual = (
        tried.joined_results(one, positions, [x] * len(form.vectors))
        for one in (replace(form, boxed=True), form)
    )
    yield boxed, usual


def _kept_arrays(tried: Tried) -> Iterator[_Pair | Irregularity]:
    """Yield results for positions that were changed in place, as by a decoder that adds 1 to them.

    The result of the first of both calls must stay.
    """
    function, x = tried.function, random_vectors(_ROWS, tried.form.columns)
    process, positions = function.process, np.arange(_ROWS)
    later = positions if tried.form.from_zero else _FIRST + positions
    wanted = np.concatenate(function.all_values(x, later), axis=1)
    process.keep("first")
    function.all_values(-x, positions)
    process.keep("again")
    values = np.concatenate(function.all_values(x, later), axis=1)
    if process.overwritten:
        yield Irregularity(
            Cause.UNKNOWN,
            "the next call overwrites the result of a call",
            "the first of two results changed",
        )
    yield values, wanted


_TYPES = {"offset": "as an array", "positions": "of int32"}
"""Other types of an offset and of positions."""


def _half_precision_faults(half: str, called: str, tried: Tried) -> Iterator[Irregularity]:
    """Yield the fault for vectors in a half precision: all in one call, or row by row."""
    other = tried.function.varied(last=tried.function.last, dtype=half)
    at = _LATER if called == _PAST else rounded_positions(tried)
    yield from faults_in_half(half, other, tried, called, at, single=called == _SINGLE)


def try_later(tried: Tried) -> None:
    """Call a function that computes angles in half precision beyond the last position too.

    This comes last, because it may leave state for a length that nobody asked for.
    """
    compare_patterns(_LATER_CALLS, tried, tried.calls, tried.differs)
    left = [text.split()[3] for text in tried.calls.untried if text.startswith(f"{_PAST} of ")]
    if left and tried.last < _HIDING:
        tried.calls.untested.append(f"{' and '.join(left)} past position {tried.last}")


def rounded_positions(tried: Tried) -> Integers:
    """Return the positions that half precisions round, and the last ones; all rows of a grid."""
    end = min(tried.last, _ROUNDED_DOWN[-1])
    some = range(tried.last + 1) if tried.form.has("grid") else {*_ROUNDED_DOWN, end - 1, end}
    return np.array(sorted(position for position in some if 0 <= position <= tried.last))


def faults_in_half(
    half: str,
    other: ServedFunction,
    tried: Tried,
    called: str,
    positions: Integers,
    *,
    single: bool = False,
) -> Iterator[Irregularity]:
    """Yield the fault of a function in a half precision that no rounding to it explains."""
    x = round_to_half(random_vectors(positions.size, tried.form.columns), half).astype(np.float32)
    count = 1 if single else positions.size
    values, wanted = (
        _results_in_calls_of(count, function, x, positions) for function in (other, tried.function)
    )
    largest = max(float(np.abs(part).max()) for part in wanted)
    allowed, of_half = _ROUNDINGS * unit(half) * largest, f"{called} of {half}"
    off = np.abs(np.concatenate(values, axis=1) - np.concatenate(wanted, axis=1)).max(axis=1)
    if (off <= allowed).all():
        return
    row = int(np.argmax(off))
    text = (
        f"{of_half} differ from float32 by {off[row]:.2g} at position {positions[row]}; "
        f"rounding explains at most {allowed:.2g}"
    )
    message, cause = f"{of_half} are rotated differently from float32", Cause.UNKNOWN
    if rounded := _find_rounding(tried, (values, wanted), positions, half, allowed):
        text += "; this rounding reproduces all rows"
        what, cause = rounded
        message = f"{what} are rounded to {half}, as {_OF.get(called, called)} are"
    yield Irregularity(cause, message, text)


def _results_in_calls_of(
    count: int, function: ServedFunction, x: NumberArray, positions: Integers
) -> list[NumberArray]:
    parts = [
        function.all_values(x[row : row + count], positions[row : row + count])
        for row in range(0, positions.size, count)
    ]
    return [np.concatenate(results) for results in zip(*parts, strict=True)]


def halves_of(function: ServedFunction) -> tuple[str, ...]:
    """Return the half precisions in which a function can be given vectors."""
    form = function.form
    if not form.vectors or function.outcome == "frequencies":
        return ()
    return BY_NAME[form.library].halves


def _find_rounding(
    tried: Tried,
    parts: Sequence[Sequence[NumberArray]],
    positions: Integers,
    half: str,
    allowed: float,
) -> tuple[str, Cause] | None:
    """Return what was rounded to a half precision and its cause, if that explains all rows.

    ``parts`` are the results in half precision and the right ones. The angles of a grid are not
    multiples of positions, so it returns None for a grid.
    """
    if tried.form.has("grid"):
        return None
    rates = tried.reference.frequencies
    values, right = (tried.planes(results) for results in parts)
    for what, its_cause, angles in _rounded_angles(positions, rates, half):
        changes = np.exp(1j * (angles - np.outer(positions, rates)))  # (n, pairs)
        factors = np.tile(changes, (1, right.shape[1] // rates.size))
        if factors.shape == right.shape and (np.abs(values - right * factors) <= allowed).all():
            return what, its_cause
    return None


def _rounded_angles(
    positions: Integers, rates: Reals, half: str
) -> list[tuple[str, Cause, RealRows]]:
    """Return values that may be rounded, the cause, and the resulting angles (n, pairs)."""

    def rounded(values: NumberArray) -> NumberArray:
        return round_to_half(values.astype(np.float64), half)

    places, coarse = rounded(positions), rounded(rates)
    exact, of_coarse = np.outer(positions, rates), np.outer(places, coarse)
    return [
        ("positions", Cause.POSITION_PRECISION, np.outer(places, rates)),
        ("frequencies", Cause.INV_FREQ_PRECISION, np.outer(positions, coarse)),
        ("angles", Cause.POSITION_PRECISION, rounded(exact)),
        ("positions, frequencies and angles", Cause.POSITION_PRECISION, rounded(of_coarse)),
    ]


def random_vectors(rows: int, columns: int) -> NumberArray:
    """Return random vectors. Shape: (rows, columns)."""
    return np.random.default_rng(31).standard_normal((rows, columns)).astype(np.float32)


_VECTORS, _SINGLE, _PAST = "vectors", "single rows", "later rows"
_OF = dict.fromkeys((_SINGLE, _PAST), _VECTORS)

_AFTER_HALF = "vectors of float32 after half precision", "vectors of {} before any of float32"
"""The calls in float32 that follow a half precision: of the same process, and of a new one."""


def _has_later_half(half: str, tried: Tried) -> bool:
    """Return whether calls beyond the last position in a half precision are possible."""
    return (
        tried.takes_half(half)
        and tried.last < _LATER[-1]
        and not (tried.form.has("grid", *TABLES) or tried.by_length)
        and not (tried.function.follows_length or tried.reference.axes)
    )


_LATER_CALLS = tuple(
    Pattern(
        f"{_PAST} of {half}",
        partial(_half_precision_faults, half, _PAST),
        partial(_has_later_half, half),
        last=True,
        rare=True,
    )
    for half in HALVES
)
"""The calls beyond the last position, if the reference has later positions."""

_FURTHER = (
    Pattern(
        "v beside q and k",
        _changed_v,
        lambda tried: tried.rotates and tried.form.has("v", "qkv"),
    ),
    Pattern("q without k", _without_k, _may_lack_k),
    *(
        Pattern(
            partial(lambda role, tried: f"{tried.form.parameter_of(role)} {_TYPES[role]}", role),
            partial(_results_in_other_type, role),
            partial(
                lambda role, tried: (
                    tried.rotates and tried.form.has(role) and not tried.form.follows_axes
                ),
                role,
            ),
        )
        for role in _TYPES
    ),
    Pattern(
        "positions changed in place",
        _kept_arrays,
        lambda tried: (
            not (tried.function.follows_length or tried.form.has("grid"))
            and tried.function.outcome != "frequencies"
        ),
        rare=True,
    ),
    *(
        Pattern(
            text,
            partial(_strided_vectors, strided),
            lambda tried: tried.function.outcome == "vectors",
        )
        for strided, text in _STRIDED.items()
    ),
    *(
        Pattern(
            f"{called} of {half}",
            partial(_half_precision_faults, half, called),
            partial(
                lambda half, called, tried: (
                    tried.takes_half(half) and (called == _VECTORS or tried.takes_single_rows)
                ),
                half,
                called,
            ),
            last=True,
        )
        for half in HALVES
        for called in (_VECTORS, _SINGLE)
    ),
    *(
        Pattern(
            text.format(half),
            partial(_after_half, half, renewed=renewed),
            partial(
                lambda half, tried: (
                    tried.early.first
                    and tried.last > 0
                    and not tried.calls.faults
                    and halves_of(tried.function)[:1] == (half,)
                ),
                half,
            ),
            last=True,
        )
        for half in HALVES
        for renewed, text in zip((False, True), _AFTER_HALF, strict=True)
    ),
)
"""The further calls of a function."""
