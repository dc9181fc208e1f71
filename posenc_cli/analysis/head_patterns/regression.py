"""Softmax regression over the keys: the single optimum of scores that are linear in the weights.

With free numbers w, scores s(w) that are linear in w, attention weights p = softmax(s) over the
keys that a query sees, and the target t of each of n queries,

    loss(w) = mean over queries of −Σ t ln p  +  l2/2 · Σ w²

is strictly convex. It has one minimum, which does not depend on a seed or on the order of steps,
and ‖w − optimum‖ ≤ ‖gradient‖ / l2. Newton's method finds it. Each step solves (curvature + l2) ·
step = −gradient by conjugate gradients, which only need products with the curvature. The step is
halved until the loss falls. Near the minimum each step reduces the gradient to a tenth or less.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.numerics.arrays import Flags, RealRows, Reals

_MOST_STEPS = 200
_MOST_PRODUCTS = 2000  # in one step; an unfinished step is worse, but the result is not wrong
_MOST_WORK = 1 << 36
"""Multiplications of all products with the curvature: about five seconds of one core."""
_CELL_WORK = 20  # per score, besides computing it: exponentials, sums, copies
_ENOUGH = 0.1
"""The share of a gradient that a step may leave: a smaller share would not save steps."""
_STILL = 1e-11
"""The share (of the largest score or of 1) by which the last whole step may change a score."""
_LARGEST_SCORE = 1e150  # float64 holds its square
_BOUNDS = (1e-12, 1e-9, 1e-6)
"""Reported bounds on the length of a gradient: its last digits are rounding."""


class LinearScores(Record):
    """Scores of queries for keys, linear in ``size`` free numbers.

    ``of(numbers)`` → (queries, keys). Its transpose, ``adjoint(cells)``, takes a number for each
    score → (size,). Scores of keys that a query does not see are ignored. ``work`` is the
    approximate number of multiplications of either.
    """

    size: int
    of: Callable[[Reals], RealRows]
    adjoint: Callable[[RealRows], Reals]
    work: int = 0


class Optimum(Record):
    """The free numbers of least loss; ``cross_entropy`` is in nats, without the penalty.

    ``gradient`` is an upper bound on the length of the loss's gradient, so the numbers are within
    ``gradient`` / l2 of the optimum. Shape: numbers (size,).
    """

    numbers: Reals
    cross_entropy: float
    gradient: float
    steps: int


class Regression(Record):
    """The problem to fit: scores, the keys that are ``seen``, and the ``target`` of each query.

    Each row of the target sums to 1, over keys that are seen. Shapes: (queries, keys) both.
    """

    scores: LinearScores
    seen: Flags
    target: RealRows
    l2: float

    def optimum(self) -> Optimum:
        """The single optimum.

        >>> scores = LinearScores(1, lambda w: w * np.eye(2), lambda cells: cells.trace()[None])
        >>> optimum = Regression(scores, np.ones((2, 2), bool), np.eye(2), 0.1).optimum()
        >>> optimum.numbers.round(6), optimum.gradient
        (array([1.633506]), 1e-12)

        Raises: InvalidInput if float64 does not reach it.
        """
        here = self._point(np.zeros(self.scores.size))
        after: _Point | None = here
        steps, moved, work = 0, 1.0, 0
        while moved > _STILL and after is not None and steps < _MOST_STEPS:
            here, steps = after, steps + 1
            step, products = self._newton_step(here)
            work += products * (2 * self.scores.work + _CELL_WORK * self.seen.size)
            if work > _MOST_WORK:
                raise InvalidInput(
                    f"the fit takes too long: at most {_MOST_WORK:.0e} multiplications are "
                    f"allowed, and step {steps} of Newton's method needs more",
                    hint="a larger --l2, or a smaller --dim or --train",
                )
            moved = self._largest(self.scores.of(step)) / max(1.0, self._largest(here.scores))
            after = self._descended(here, step)
        here = here if after is None else after
        if moved > 1e3 * _STILL:
            raise InvalidInput(
                f"the fit does not converge in float64: after {steps} steps of Newton's method "
                f"scores still change by {moved:.1g} of their size",
                hint="a larger --l2",
            )
        length = float(np.linalg.norm(here.gradient))
        gradient = next((bound for bound in _BOUNDS if length <= bound), length)
        return Optimum(here.numbers, here.cross_entropy, gradient, steps)

    def _largest(self, scores: RealRows) -> float:
        """The largest absolute score of the keys that are seen."""
        return float(np.abs(np.where(self.seen, scores, 0)).max(initial=0))

    def _point(self, numbers: Reals) -> _Point:
        """The loss at some free numbers, with its gradient.

        Raises: InvalidInput if scores exceed float64.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.where(self.seen, self.scores.of(numbers), 0)  # (queries, keys)
        if not (np.abs(scores) <= _LARGEST_SCORE).all():
            raise InvalidInput("scores exceed float64", hint="a larger --l2")
        highest = np.where(self.seen, scores, -np.inf).max(axis=1, keepdims=True)
        powers = np.where(self.seen, np.exp(np.minimum(scores - highest, 0)), 0)
        sums = powers.sum(axis=1, keepdims=True)
        weights = powers / sums
        surprise = highest[:, 0] + np.log(sums[:, 0]) - (self.target * scores).sum(axis=1)
        cross_entropy = float(surprise.mean())
        slope = self.scores.adjoint((weights - self.target) / len(weights))
        return _Point(
            numbers,
            scores,
            weights,
            cross_entropy,
            cross_entropy + self.l2 / 2 * float(numbers @ numbers),
            slope + self.l2 * numbers,
        )

    def _newton_step(self, here: _Point) -> tuple[Reals, int]:
        """The step towards the minimum of the quadratic approximation here.

        Also returns the number of products with the curvature.
        """
        step = np.zeros_like(here.gradient)
        rest, size = -here.gradient, float(here.gradient @ here.gradient)
        way, enough, products = rest, _ENOUGH**2 * size, 0
        while size > enough and products < _MOST_PRODUCTS:
            products += 1
            product = self._curvature(here, way)
            length = size / float(way @ product)
            step = step + length * way
            rest = rest - length * product
            before, size = size, float(rest @ rest)
            way = rest + size / before * way
        return step, products

    def _curvature(self, here: _Point, way: Reals) -> Reals:
        """The second derivatives of the loss times the direction ``way``."""
        change = np.where(self.seen, self.scores.of(way), 0)
        weighed = here.weights * change
        weighed = weighed - here.weights * weighed.sum(axis=1, keepdims=True)
        return self.scores.adjoint(weighed / len(weighed)) + self.l2 * way

    def _descended(self, here: _Point, step: Reals) -> _Point | None:
        """The point after a step, halved until the loss or gradient falls; None if neither does."""
        slope, steepness = float(here.gradient @ step), float(np.linalg.norm(here.gradient))
        for halvings in range(60):
            length = 0.5**halvings
            after = self._point(here.numbers + length * step)
            if after.loss <= here.loss + 1e-4 * length * slope and after.loss < here.loss:
                return after
            # This near the minimum, the loss no longer changes in its last digit.
            same = after.loss <= here.loss + 1e-12 * max(1.0, abs(here.loss))
            if not halvings and same and float(np.linalg.norm(after.gradient)) < steepness:
                return after
        return None


class _Point(Record):
    """The loss at some free numbers, and its terms."""

    numbers: Reals
    scores: RealRows
    weights: RealRows
    cross_entropy: float
    loss: float
    gradient: Reals


def softmax(scores: RealRows) -> RealRows:
    """The attention weights of scores, along the last axis.

    >>> softmax(np.array([[0.0, -np.inf], [1.0, 1.0]]))
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
