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
_RESIDUAL_SHARE = 0.1
"""The share of a gradient that a step may leave: a smaller share would not save steps."""
_SCORE_TOLERANCE = 1e-11
"""The share (of the largest score or of 1) by which the last whole step may change a score."""
_LARGEST_SCORE = 1e150  # float64 holds its square
_GRADIENT_BOUNDS = (1e-12, 1e-9, 1e-6)
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


class Regression(Record):
    """The problem to fit: scores, the keys that are ``seen``, and the ``target`` of each query.

    Each row of the target sums to 1, over keys that are seen. Shapes: (queries, keys) both.
    """

    scores: LinearScores
    seen: Flags
    target: RealRows
    l2: float

    def optimum(self) -> Optimum:
        """Return the single optimum.

        >>> scores = LinearScores(1, lambda w: w * np.eye(2), lambda cells: cells.trace()[None])
        >>> optimum = Regression(scores, np.ones((2, 2), bool), np.eye(2), 0.1).optimum()
        >>> optimum.numbers.round(6), optimum.gradient
        (array([1.633506]), 1e-12)

        Raises: InvalidInput if float64 does not reach it.
        """
        point = self._point(np.zeros(self.scores.size))
        after: _Point | None = point
        steps, change_share, work = 0, 1.0, 0
        while change_share > _SCORE_TOLERANCE and after is not None and steps < _MOST_STEPS:
            point, steps = after, steps + 1
            step, products = self._newton_step(point)
            work += products * (2 * self.scores.work + _CELL_WORK * self.seen.size)
            if work > _MOST_WORK:
                raise InvalidInput(
                    f"the fit takes too long: at most {_MOST_WORK:.0e} multiplications are "
                    f"allowed, and step {steps} of Newton's method needs more",
                    hint="a larger --l2, or a smaller --dim or --train",
                )
            change_share = self._largest_score(self.scores.of(step)) / max(
                1.0, self._largest_score(point.scores)
            )
            after = self._line_search(point, step)
        point = point if after is None else after
        if change_share > 1e3 * _SCORE_TOLERANCE:
            raise InvalidInput(
                f"the fit does not converge in float64: after {steps} steps of Newton's method "
                f"scores still change by {change_share:.1g} of their size",
                hint="a larger --l2",
            )
        length = float(np.linalg.norm(point.gradient))
        gradient = next((bound for bound in _GRADIENT_BOUNDS if length <= bound), length)
        return Optimum(point.numbers, point.cross_entropy, gradient)

    def _largest_score(self, scores: RealRows) -> float:
        """Return the largest absolute score of the keys that are seen."""
        return float(np.abs(np.where(self.seen, scores, 0)).max(initial=0))

    def _point(self, numbers: Reals) -> _Point:
        """Return the loss at some free numbers, with its gradient.

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

    def _newton_step(self, point: _Point) -> tuple[Reals, int]:
        """Return the step towards the minimum of the quadratic approximation at a point.

        Also return the number of products with the curvature.
        """
        step = np.zeros_like(point.gradient)
        residual, size = -point.gradient, float(point.gradient @ point.gradient)
        direction, goal, products = residual, _RESIDUAL_SHARE**2 * size, 0
        while size > goal and products < _MOST_PRODUCTS:
            products += 1
            product = self._curvature(point, direction)
            length = size / float(direction @ product)
            step = step + length * direction
            residual = residual - length * product
            before, size = size, float(residual @ residual)
            direction = residual + size / before * direction
        return step, products

    def _curvature(self, point: _Point, direction: Reals) -> Reals:
        """Return the second derivatives of the loss times a ``direction``."""
        weighted = point.weights * np.where(self.seen, self.scores.of(direction), 0)
        weighted = weighted - point.weights * weighted.sum(axis=1, keepdims=True)
        return self.scores.adjoint(weighted / len(weighted)) + self.l2 * direction

    def _line_search(self, point: _Point, step: Reals) -> _Point | None:
        """Return the point after a step, halved until loss or gradient falls, or None."""
        slope, gradient_norm = float(point.gradient @ step), float(np.linalg.norm(point.gradient))
        for halvings in range(60):
            length = 0.5**halvings
            after = self._point(point.numbers + length * step)
            if after.loss <= point.loss + 1e-4 * length * slope and after.loss < point.loss:
                return after
            # Near the minimum, even the last digit of the loss no longer changes.
            same = after.loss <= point.loss + 1e-12 * max(1.0, abs(point.loss))
            if not halvings and same and float(np.linalg.norm(after.gradient)) < gradient_norm:
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
    """Return the attention weights of scores, along the last axis.

    >>> softmax(np.array([[0.0, -np.inf], [1.0, 1.0]]))
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
