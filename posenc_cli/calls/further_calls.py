"""Calls after those that show what a function does: whether something else of a caller changes it.

A short call beside a long one, and again after longer ones and after vectors in a half precision,
positions in another order beside tables, vectors that are not contiguous, and vectors in a half
precision: each must give what the calls before it gave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.function_trial import UNSTEADY
from posenc_cli.calls.patterns import PatternFault, PatternReport, PlannedCalls
from posenc_cli.calls.payloads import Vectors
from posenc_cli.calls.roles import TABLES
from posenc_cli.calls.serving import other_vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.frameworks import BY_NAME
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import round_to_half
from posenc_cli.inference.tolerance import unit
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.calls.answers import Differs
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.inference.turning import ColumnPairing
    from posenc_cli.numerics.arrays import ComplexRows, Integers, NumberArray, RealRows, Reals

_SHORT = 64
"""Positions of a call that is shorter than any length from which on models turn otherwise."""

_ROUNDED_DOWN = (2, 257, 2049, 4097)
"""Positions: in bfloat16 the last three become 256, 2048 and 4096, in float16 the last two."""

_ROUNDINGS = 6 * 2**0.5
"""Units by which right code in a half format may be off, of the largest value. Cosine and sine, a
factor on them and their products are rounded, and the sum: 3√2 + 1 units, 5.24, with room for the
half of another, of the length of a pair, which is at most √2 of its larger value."""


class EarlyCall:
    """A short call before all others, to be made again after them: some of the first positions.

    Dynamic NTK goes back to its first frequencies where a call is shorter than the original
    context: so short it is, whatever the length.
    """

    tried = "a short call again after longer ones"

    def __init__(self, function: ServedFunction, last: int) -> None:
        self._positions = np.arange(min(_SHORT, last))
        follows = function.follows_length
        self._short = function.varied(last=self._positions.size - 1 if follows else None)
        self._long = function.varied(last=last)
        self._last = last
        self._x = _vectors_of_chance(self._positions.size, function.form.columns)
        self._function = function
        self._first: list[NumberArray] = []
        calls = PlannedCalls(function)
        if self._positions.size > 1 and function.outcome != "frequencies":
            with calls.planned(self.tried):
                self._first = self._short.all_values(self._x, self._positions)
        self._untried = tuple(calls.untried)

    def report(self, differs: Differs, pairing: ColumnPairing | None) -> PatternReport:
        """What became of it since; ``pairing`` is how the function pairs columns.

        Raises: InvalidInput where the function does not give the call again.
        """
        if not self._first:
            return PatternReport((), (), self._untried)
        again = self._short.all_values(self._x, self._positions)
        first, then = (np.concatenate(values, axis=1) for values in (self._first, again))
        if not differs(then, first):
            return PatternReport((self.tried,), ())
        text = (
            f"positions 0 to {self._positions[-1]}, called after longer calls, give other values "
            f"than before, by {np.abs(then - first).max():.2g}"
        )
        if self._is_of_a_long_call(then, differs):
            text += f"; they are those that a call up to {self._last} has"
            cause = Cause.FREQUENCY_RULE if self._turn_on(again, pairing) else Cause.UNKNOWN
            return PatternReport((), (PatternFault(text, _LEFT, cause),))
        return PatternReport((), (PatternFault(text, f"the function {UNSTEADY}", Cause.UNKNOWN),))

    def beside_long(self, differs: Differs) -> PatternReport:
        """Whether the short call gave what its rows get in a call up to the last position.

        Where a call has no position of its own for each row, far rows show it where they are read.
        """
        form, last = self._function.form, self._last
        if not self._first or not (form.from_zero or form.has("positions")):
            return PatternReport((), ())
        if self._function.follows_length or last < self._positions.size:
            return PatternReport((), ())
        calls, faults = PlannedCalls(self._function), list[PatternFault]()
        with calls.planned(f"a short call beside one up to position {last}"):
            long = np.concatenate(self._long.all_values(self._x, self._positions), axis=1)
            short = np.concatenate(self._first, axis=1)
            if differs(short, long):
                text = (
                    f"positions 0 to {self._positions[-1]} in a call of their own give other "
                    f"values than beside position {last}, by {np.abs(short - long).max():.2g}"
                )
                faults.append(PatternFault(text, LENGTH, Cause.UNKNOWN))
        return calls.report(*faults)

    def after_half(
        self, differs: Differs, rates: Reals, pairing: ColumnPairing | None, *, renewed: bool
    ) -> PatternReport:
        """What became of it after vectors of bfloat16, or where these came first of all."""
        function = self._function
        half = next(iter(halves_of(function)), None)
        if not self._first or half is None:
            return PatternReport((), ())
        calls, faults = PlannedCalls(function), list[PatternFault | None]()
        when = "vectors of float32 after those of a half precision"
        if renewed:
            when = f"vectors of {half} before any of float32"
        if renewed and not function.renews:
            calls.skip(when, "a function of this process is not loaded again")
            return calls.report()
        with calls.planned(when):
            if renewed:
                function.renew()
                first = function.varied(last=self._short.last, dtype=half)
                first.all_values(self._x, self._positions)
            again = self._short.all_values(self._x, self._positions)
            if differs(np.concatenate(again, axis=1), np.concatenate(self._first, axis=1)):
                faults.append(self._fault_after_half(again, rates, pairing, half, when))
        return calls.report(*faults)

    def _fault_after_half(
        self,
        again: list[NumberArray],
        rates: Reals,
        pairing: ColumnPairing | None,
        half: str,
        when: str,
    ) -> PatternFault:
        """What a call in a half precision left behind."""
        first = self._first
        allowed = _allowed(half, first)
        off = max(np.abs(one - other).max() for one, other in zip(again, first, strict=True))
        text = f"{when}: positions 0 to {self._positions[-1]} are off by {off:.2g}"
        if off <= allowed:
            text += f", where roundings to {half} explain {allowed:.2g}"
            known = "tables stay in a half precision after vectors of one"
            return PatternFault(text, known, Cause.TABLE_PRECISION)
        tables = self._short.outcome == "tables"
        planes = [planes_of(parts, pairing, tables=tables) for parts in (again, first)]
        rounded = _rounded_with_vectors(planes, self._positions, rates, half, allowed=allowed)
        if rounded is None:
            known = "a call in a half precision changes those in float32 after it"
            return PatternFault(text, known, Cause.UNKNOWN)
        known = f"{rounded[0]} stay in {half} after vectors of it"
        return PatternFault(f"{text}; so rounded, all rows are reproduced", known, rounded[1])

    def _is_of_a_long_call(self, values: NumberArray, differs: Differs) -> bool:
        """Whether they are what a call up to the last position gives."""
        try:
            in_long = np.concatenate(self._long.all_values(self._x, self._positions), axis=1)
        except InvalidInput:
            self._function.revive()
            return False
        return not differs(values, in_long)

    def _turn_on(self, again: list[NumberArray], pairing: ColumnPairing | None) -> bool:
        """Whether the values are the first ones, turned on at a constant rate in each pair."""
        tables = self._short.outcome == "tables"
        before, after = (planes_of(parts, pairing, tables=tables) for parts in (self._first, again))
        rates = np.angle(after[1] * before[1].conj())  # (pairs,)
        turned = before * np.exp(1j * np.outer(self._positions, rates))
        return bool(np.abs(after - turned).max() <= 0.01 * np.abs(after - before).max())


LENGTH = "the rotation depends on the length of the call, and the reference does not"

_LEFT = "a longer call leaves its rotation behind: shorter ones after it are turned as it is"


def try_orders(function: ServedFunction, differs: Differs) -> PatternReport:
    """Give a function of tables the positions that it requires in another order than its tables.

    Its tables have the rows of the call and no others, those of the first positions: who chooses of
    them finds each row. Who ignores positions takes them in their order, and may be right.
    """
    form = function.form
    positions_alone = form.has("positions") and form.has(*TABLES) and not form.chosen
    if not (positions_alone and function.requires_places):
        return PatternReport((), (), function.untried)
    order = np.array([3, 0, 4, 1, 2])
    vectors = [
        Vectors(_vectors_of_chance(order.size, form.columns)[None, :, None], order.size)
    ] * len(form.vectors)
    exact = replace(form, chosen=True, exact=True)
    text, calls = f"{form.placed_by} in another order than the tables", PlannedCalls(function)
    with calls.planned(text):
        values, chosen, ignored = (
            np.concatenate([one.values for one in function.together(call, where, vectors)])
            for call, where in ((exact, order), (form, order), (form, np.arange(order.size)))
        )
    if not calls.tried:
        return PatternReport((), (), (*function.untried, *calls.untried))
    if not differs(values, chosen):
        return calls.report()
    if differs(values, ignored):
        return PatternReport((), (), function.untried)
    # Right code has its rows chosen by who calls it, and keeps the parameter.
    return PatternReport((), (), (f"rows chosen by {form.placed_by}, which changes nothing",))


def try_half_precision(
    function: ServedFunction, last: int, rates: Reals, pairing: ColumnPairing | None
) -> PatternReport:
    """Give a function vectors in half precisions, at positions up to ``last``.

    ``rates`` (pairs,) are the frequencies that it should have, ``pairing`` how it pairs columns.
    What is wrong in the first is not looked for in the other.
    """
    reports = [PatternReport((), ())]
    if last:
        for half in halves_of(function):
            reports.append(_in_half(function, half, last, rates, pairing))
            if reports[-1].faults:
                break
    return PatternReport(
        tuple(text for report in reports for text in report.tried),
        reports[-1].faults,
        tuple(text for report in reports for text in report.untried),
    )


def _in_half(
    function: ServedFunction, half: str, last: int, rates: Reals, pairing: ColumnPairing | None
) -> PatternReport:
    """Give a function vectors in one half precision, all in one call and then row by row."""
    some = range(last + 1) if function.form.has("grid") else _ROUNDED_DOWN
    positions = np.array([position for position in some if position <= last])
    x = round_to_half(_vectors_of_chance(positions.size, function.form.columns), half).astype(
        np.float32
    )
    calls, faults = PlannedCalls(function), list[PatternFault]()
    in_half = function.varied(last=function.last, dtype=half)
    ways = [(f"vectors of {half}", positions.size)]
    if positions.size > 1 and function.form.any_rows:
        ways.append((f"single rows of {half}", 1))
    for called, count in ways:
        with calls.planned(called):
            results = (
                _in_calls_of(count, in_half, x, positions),
                _in_calls_of(count, function, x, positions),
            )
            faults += _half_faults(
                function, called, half, results, positions=positions, rates=rates, pairing=pairing
            )
        if faults:
            return PatternReport((), tuple(faults))
    return calls.report()


def _in_calls_of(
    count: int, function: ServedFunction, x: NumberArray, positions: Integers
) -> list[NumberArray]:
    """What becomes of rows in calls of so many."""
    parts = [
        function.all_values(x[row : row + count], positions[row : row + count])
        for row in range(0, positions.size, count)
    ]
    return [np.concatenate(results) for results in zip(*parts, strict=True)]


def _half_faults(
    function: ServedFunction,
    called: str,
    half: str,
    results: tuple[list[NumberArray], list[NumberArray]],
    *,
    positions: Integers,
    rates: Reals,
    pairing: ColumnPairing | None,
) -> Iterator[PatternFault]:
    """What is wrong with vectors in a half precision; ``results`` are theirs and the right ones."""
    values, wanted = results
    allowed = _allowed(half, wanted)
    off = np.abs(np.concatenate(values, axis=1) - np.concatenate(wanted, axis=1)).max(axis=1)
    if (off <= allowed).all():
        return
    row = int(np.argmax(off))
    text = (
        f"{called} come back off by {off[row]:.2g} at position {positions[row]}, "
        f"where roundings explain {allowed:.2g}"
    )
    known, cause = f"{called} are rotated differently than those of float32", Cause.UNKNOWN
    tables = function.outcome == "tables"
    planes = [planes_of(parts, pairing, tables=tables) for parts in results]
    rounded = None
    if not function.form.has("grid"):  # whose angles are no multiples of positions
        rounded = _rounded_with_vectors(planes, positions, rates, half, allowed=allowed)
    if rounded is not None:
        known, cause = f"{rounded[0]} are rounded to {half}, as vectors are", rounded[1]
        text += "; so rounded, all rows are reproduced"
    yield PatternFault(text, known, cause)


def halves_of(function: ServedFunction) -> tuple[str, ...]:
    """The half precisions in which a function may be given vectors."""
    form = function.form
    if not form.vectors or function.outcome == "frequencies":
        return ()
    return BY_NAME[form.library].halves


def _allowed(half: str, wanted: Sequence[NumberArray]) -> float:
    """By how much right code in a half precision may be off."""
    return _ROUNDINGS * unit(half) * max(float(np.abs(part).max()) for part in wanted)


def _rounded_with_vectors(
    planes: Sequence[ComplexRows],
    positions: Integers,
    rates: Reals,
    half: str,
    *,
    allowed: float,
) -> tuple[str, Cause] | None:
    """What was rounded to a half precision, where that gives all rows; None where nothing does.

    ``planes`` are those that came back, and the right ones. Shape: (n, pairs), or (n, 2 pairs).
    """
    values, right = planes
    for what, its_cause, angles in _rounded_angles(positions, rates, half):
        on = np.exp(1j * (angles - np.outer(positions, rates)))  # (n, pairs)
        factors = np.tile(on, (1, right.shape[1] // rates.size))
        if factors.shape == right.shape and (np.abs(values - right * factors) <= allowed).all():
            return what, its_cause
    return None


def try_boxed_offset(function: ServedFunction, differs: Differs) -> PatternReport:
    """Give the offset as an array, as callers that keep it on a device do."""
    form = function.form
    if not form.has("offset"):
        return PatternReport((), ())
    name = next(own.parameter for own in form.arguments if own.role == "offset")
    text, calls = f"{name} as an array", PlannedCalls(function)
    x = _vectors_of_chance(_STRIDED_ROWS, form.columns)[None, :, None]
    vectors = [Vectors(x, _STRIDED_ROWS)] * len(form.vectors)
    with calls.planned(text):
        boxed, plain = (
            np.concatenate([each.values for each in results], axis=2)
            for results in (
                function.together(own, _BOXED + np.arange(_STRIDED_ROWS), vectors)
                for own in (replace(form, boxed=True), form)
            )
        )
        if differs(boxed, plain):
            known = f"{name} as an array gives other positions than as a number"
            return PatternReport((), (PatternFault(f"called with {text} it differs", known),))
    return calls.report()


_BOXED = 7
"""The first position of a call that is told it as an array."""


def try_values_beside(function: ServedFunction, differs: Differs) -> PatternReport:
    """Look at v, which a function is given beside q and k and must not change."""
    calls, faults = PlannedCalls(function), list[PatternFault]()
    if not function.form.has("v", "qkv"):
        return PatternReport((), ())
    text = "whether v comes back as it was"
    with calls.planned(text):
        given, left = function.values_beside()
        if left is None:
            return PatternReport((), (), (text,))
        if differs(left, given.astype(np.float32)):
            off = np.abs(left - given).max()
            known = "v is changed; only q and k rotate"
            faults.append(PatternFault(f"v comes back off by {off:.2g}", known, Cause.UNKNOWN))
    return calls.report(*faults)


def try_strided(function: ServedFunction, differs: Differs) -> PatternReport:
    """Give a function views of larger arrays: of other rows, then of other columns."""
    calls, faults = PlannedCalls(function), list[PatternFault]()
    faults += _strided_faults(calls, function, differs, "rows", "vectors that are not contiguous")
    if not faults:
        text = "vectors whose last axis is not contiguous"
        faults += _strided_faults(calls, function, differs, "columns", text)
    return calls.report(*faults)


def _strided_faults(
    calls: PlannedCalls, function: ServedFunction, differs: Differs, strided: str, called: str
) -> Iterator[PatternFault]:
    """What is wrong with vectors of which these are apart in memory."""
    form = function.form
    heads = 3 if form.has_heads else 1
    rows = 1 + (function.last or 0) if form.has("grid") else _STRIDED_ROWS
    x = _vectors_of_chance(rows * heads, form.columns).reshape(1, -1, heads, form.columns)
    given = [Vectors(part, rows) for part in (x, other_vectors(x))[: len(form.vectors)]]
    apart = [replace(part, strided=strided) for part in given]
    with calls.planned(called):
        where = np.arange(rows)
        values, wanted = (
            np.concatenate(
                [each.values for each in function.together(form, where, vectors)], axis=2
            )
            for vectors in (apart, given)
        )
        if differs(values, wanted):
            off = np.abs(values - wanted).max()
            whole = np.concatenate([part.values for part in given], axis=2)
            still = whole.shape == values.shape and not differs(values, whole)
            text = f"called with views of a larger array it gives values that are off by {off:.2g}"
            known, cause = f"{called} are misread", Cause.UNKNOWN
            if still:
                known, cause = f"{called} do not rotate", Cause.NO_ROTATION
                text += "; they are those it was given"
            yield PatternFault(text, known, cause)


_STRIDED_ROWS = 5


def _rounded_angles(
    positions: Integers, rates: Reals, half: str
) -> Iterator[tuple[str, Cause, RealRows]]:
    """What may be rounded with vectors, and the angles (n, pairs) that it makes."""
    places, coarse = (
        round_to_half(values.astype(np.float64), half) for values in (positions, rates)
    )
    yield "positions", Cause.POSITION_PRECISION, np.outer(places, rates)
    yield "frequencies", Cause.INV_FREQ_PRECISION, np.outer(positions, coarse)
    angles = round_to_half(np.outer(positions, rates), half)
    yield "angles", Cause.POSITION_PRECISION, angles
    angles = round_to_half(np.outer(places, coarse), half)
    yield "positions, frequencies and angles", Cause.POSITION_PRECISION, angles


def planes_of(
    parts: Sequence[NumberArray], pairing: ColumnPairing | None, *, tables: bool
) -> ComplexRows:
    """What stands in the planes that turn, as complex numbers; of ``tables``, cosine and sine.

    Shape: (n, pairs), or (n, 2 pairs) of two results or tables that have each value twice.
    """
    if tables:
        factors: ComplexRows = parts[0] + 1j * parts[1].astype(np.float64)
        return factors if pairing is None else factors[:, [*pairing.first, *pairing.second]]
    assert pairing is not None
    first, second = list(pairing.out_first), list(pairing.out_second)
    return np.concatenate(
        [part[:, first] + 1j * part[:, second].astype(np.float64) for part in parts], axis=1
    )


def _vectors_of_chance(rows: int, columns: int) -> NumberArray:
    return np.random.default_rng(31).standard_normal((rows, columns)).astype(np.float32)
