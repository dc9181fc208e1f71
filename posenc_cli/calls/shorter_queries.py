"""Calls whose q has fewer rows than k: decoding with a cache, where q is of the last positions.

Most functions refuse such a call, and none is wrong for it. What takes it must turn q as it turns
the last rows. A function that is given positions, and turns q at others of these, is wrong. One
that counts rows of tables from their first may be right, for who calls it chooses them: that is
said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.calls.patterns import PatternFault, PatternReport, PlannedCalls
from posenc_cli.calls.payloads import Vectors

if TYPE_CHECKING:
    from posenc_cli.calls.answers import Differs
    from posenc_cli.calls.serving import ServedFunction
    from posenc_cli.numerics.arrays import Integers

_KEYS, _QUERIES, _FIRST = 7, 3, 9
"""Rows of k and of q, which no broadcasting makes alike, and the first position of k."""

_FURTHEST = 9
"""Positions by which q may be off, either way: it may begin at 0."""

_CONTEXT = _FIRST + _KEYS + _FURTHEST


def try_shorter_queries(
    function: ServedFunction, differs: Differs, *, context: int
) -> PatternReport:
    """Call a function of q and k with the last rows of q alone.

    ``context`` is how many positions it may be asked for.
    """
    roles = [function.form.arguments[place].role for place in function.form.vectors]
    if sorted(roles) != ["k", "q"] or function.follows_length or context < _CONTEXT:
        return PatternReport((), ())
    calls = PlannedCalls(function)
    with calls.planned("q shorter than k"):
        call = _ShorterCall(function, roles.index("q"), differs)
        if not call.fits:
            calls.skip("q shorter than k", "what comes back has other shapes than q and k")
        elif not call.keys_right:
            calls.skip("q shorter than k", "k comes out otherwise than alone")
        else:
            return call.report(call.shift())
    return PatternReport((), (), tuple(calls.untried))


class _ShorterCall:
    """One call with few rows of q and more of k, ``of_q`` the place of q among the results.

    Raises: InvalidInput where the function does not take it, as all methods do.
    """

    def __init__(self, function: ServedFunction, of_q: int, differs: Differs) -> None:
        form = function.form
        self._function, self._differs, self._of_q = function, differs, of_q
        self._positions = (0 if form.from_zero else _FIRST) + np.arange(_KEYS)
        generator = np.random.default_rng(17)
        self._given = [
            generator.standard_normal(
                (_QUERIES if which == of_q else _KEYS, form.columns), np.float32
            )
            for which in range(2)
        ]
        vectors = [Vectors(x[None, :, None], len(x)) for x in self._given]
        results = function.together(form, self._positions[None], vectors)
        self._turned = [result.values[0, :, 0] for result in results]

    @property
    def fits(self) -> bool:
        """Whether q and k come back as long as they were given."""
        return [y.shape for y in self._turned] == [x.shape for x in self._given]

    @property
    def keys_right(self) -> bool:
        """Whether k is what it is alone."""
        return self._is_alone(1 - self._of_q, self._positions)

    def shift(self) -> int | None:
        """How far from its positions q is turned, 0 first; None where no shift gives its rows."""
        own = self._positions[-_QUERIES:]
        for shift in sorted(range(-_FIRST - _KEYS, _FURTHEST + 1), key=abs):
            if own[0] + shift >= 0 and self._is_alone(self._of_q, own + shift):
                return shift
        return None

    def report(self, shift: int | None) -> PatternReport:
        """What is said of that."""
        text = f"{_QUERIES} rows of q with {_KEYS} of k"
        if shift == 0:
            return PatternReport((text,), ())
        form, first = self._function.form, _QUERIES - _KEYS
        if shift is None or (shift == first and not form.has("positions")):
            how = "otherwise than alone" if shift is None else "as the first rows of k"
            return PatternReport((), (), (f"q shorter than k (q comes out {how})",))
        own, last = self._positions[-_QUERIES], self._positions[-1]
        fault = PatternFault(
            f"called with {text} it turns q, which is of positions {own} to {last}, "
            f"as at {own + shift} to {last + shift}; all rows are reproduced so",
            f"q shorter than k, as in decoding with a cache, is turned {abs(shift)} position"
            f"{'s' * (abs(shift) > 1)} {'before' if shift < 0 else 'after'} its own, the last of k",
        )
        return PatternReport((), (fault,))

    def _is_alone(self, which: int, positions: Integers) -> bool:
        """Whether a result is what the vectors become alone at these positions."""
        alone = self._function.values(self._given[which], positions, which)
        return not self._differs(self._turned[which], alone)
