"""What becomes of the scores of a bias that is written wrongly, mistake by mistake.

Scores at other positions and of other parameters are posenc's own, in float64.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Request
from posenc_cli.encoding.scores import score_rule, scores_of_heads
from posenc_cli.errors import PosencError
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import COARSE, round_to_half
from posenc_cli.inference.tolerance import unit
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import Record
from posenc_cli.vectors.known_mistakes import (
    KnownMistake,
    WrongValues,
    fixed_tolerance,
    made,
    other_parameters,
    usual_moves,
    without_idle,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.backends.base import Arithmetic
    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows

_ERRORS = 4
"""Times what posenc's float32 arithmetic errs: other code rounds in another order."""
_RELATIVE = 3e-6
"""Of a score: what float32 code may show that computes it in some steps."""
_SMALL = 1e-3
"""Of the largest score of a head: smaller ones may err by as much as one of this size."""


class Scores(Record):
    """The scores (heads, n, n) that a request adds, of queries and keys at positions (n,).

    As rows they are (heads · n, n), head after head. ``fixed`` is what each may be off by where
    that was given; ``usual`` says that these are the positions that show most.
    """

    request: Request
    positions: Integers
    dtype: str
    fixed: float | None
    usual: bool

    def at(
        self,
        queries: Integers | None = None,
        keys: Integers | None = None,
        encoding: Encoding | None = None,
        arithmetic: Arithmetic = "float64",
    ) -> RealRows:
        """Scores of queries and keys at other positions, or of another encoding, as rows."""
        encoding = encoding or self.request.encoding
        content = encoding.bound.content
        precision = Precision.of(FLOAT64, None)
        engine = Engine(arithmetic=arithmetic)
        rule = score_rule(content, encoding.lookup, precision=precision, engine=engine)
        queries = self.positions if queries is None else queries
        keys = self.positions if keys is None else keys
        assert content.heads is not None
        with encoding.bound.scheme.answerable():
            heads = [*scores_of_heads(content, rule, range(content.heads), queries, keys)]
        return np.concatenate(heads).astype(np.float64)

    def encoding(self, given: Mapping[str, object]) -> Encoding:
        """The same scheme with other parameters.

        Raises: PosencError where it has none with them.
        """
        positions = self.request.positions
        assert positions is not None
        scheme = self.request.encoding.bound.scheme
        return Encoding.of(scheme, given, seq_len=positions.length)

    def moved(self, queries: Integers, keys: Integers) -> WrongValues:
        """The scores of queries and keys at other positions."""
        return self.values(self.at(queries, keys))

    def values(self, scores: RealRows) -> WrongValues:
        """Scores, and what code may err by that computes them."""
        if self.fixed is not None:
            return WrongValues(scores, fixed_tolerance(scores, self.fixed))
        sizes = np.abs(scores)
        heads = sizes.reshape(-1, self.positions.size, self.positions.size)
        largest = np.repeat(heads.max(axis=(1, 2)), self.positions.size)[:, None]
        relative = 2 * max(unit(self.dtype), unit("float32")) + _RELATIVE
        return WrongValues(scores, relative * np.maximum(sizes, _SMALL * largest) + 1e-30)

    def right(self) -> WrongValues:
        """What is right; it may be off by what float32 arithmetic errs, too."""
        right = self.values(self.at())
        if self.fixed is not None:
            return right
        errors = np.abs(self.at(arithmetic="float32") - right.values)
        return WrongValues(right.values, right.tolerance + _ERRORS * errors)


def score_mistakes(scores: Scores, context: int) -> Iterator[KnownMistake]:
    """The mistakes that are known of scores which are added, in a model of so many positions."""
    right = scores.at()
    mistakes = _mistakes(scores, right, context)
    yield from without_idle(mistakes, right) if scores.usual else mistakes


def _mistakes(scores: Scores, right: RealRows, context: int) -> Iterator[KnownMistake]:
    yield from _sizes(scores, right)
    yield from _heads(scores, right)
    yield from _moved(scores, context)
    for half in COARSE:
        wrong = scores.values(round_to_half(right, half))
        yield KnownMistake(Cause.TABLE_PRECISION, f"the scores were rounded to {half}", wrong)
    bound = scores.request.encoding.bound
    for message, given in other_parameters(bound):
        try:
            other = scores.at(encoding=scores.encoding(given))
        except PosencError:
            continue
        if other.shape == right.shape:
            yield KnownMistake("parameter", message, scores.values(other))


def _sizes(scores: Scores, right: RealRows) -> Iterator[KnownMistake]:
    """Scores of another sign or size, or of queries for keys."""
    count = scores.positions.size
    heads = right.reshape(-1, count, count)
    offsets = scores.positions[None] - scores.positions[:, None]  # (queries, keys)
    exchanged, later = heads.transpose(0, 2, 1), offsets > 0
    for message, values in (
        ("nothing is added", 0 * right),
        ("the scores have the wrong sign", -right),
        ("the scores are twice as large", 2 * right),
        ("the scores are half as large", right / 2),
        ("the scores are multiplied by log2 e, for an exponential of base 2", right / math.log(2)),
        ("the scores are multiplied by ln 2", right * math.log(2)),
        ("queries and keys are exchanged", exchanged),
        ("later keys have no score", np.where(later, 0, heads)),
        ("later keys have the scores of earlier ones", np.where(later, exchanged, heads)),
        ("later keys have scores of the other sign", np.where(later, -heads, heads)),
    ):
        wrong = scores.values(np.asarray(values, np.float64).reshape(right.shape))
        yield KnownMistake("scores-rule", message, wrong)


def _heads(scores: Scores, right: RealRows) -> Iterator[KnownMistake]:
    """Scores of other heads."""
    count = scores.positions.size
    heads = right.reshape(-1, count, count)
    number = heads.shape[0]
    orders = {
        "all heads have the scores of the first": np.zeros(number, int),
        "heads stand in reverse order": np.arange(number)[::-1],
        "each head has the scores of the next": np.roll(np.arange(number), -1),
        "each head has the scores of the one before": np.roll(np.arange(number), 1),
    }
    if number % 2 == 0:
        half = np.tile(np.arange(number // 2), 2)
        orders["2 ranks have the scores of the first half of the heads"] = half
    for message, order in orders.items():
        wrong = scores.values(heads[order].reshape(right.shape))
        yield KnownMistake("heads", message, wrong)
    bound = scores.request.encoding.bound
    if number % 2 == 0 and "heads" in bound.scheme.parameters:
        given = {**bound.params, "heads": number // 2}
        given = {name: value for name, value in given.items() if value is not None}
        message = f"2 ranks each make scores of their own for {number // 2} heads"
        yield made(
            "heads",
            message,
            lambda: scores.values(np.tile(scores.at(encoding=scores.encoding(given)), (2, 1))),
        )


def _moved(scores: Scores, context: int) -> Iterator[KnownMistake]:
    """Scores of other positions."""
    at = scores.positions
    moved: dict[str, tuple[NumberArray, NumberArray]] = {
        "keys are off by +1": (at, at + 1),
        "keys are off by -1": (at, at - 1),
        "all keys are taken for the first": (at, 0 * at + at[0]),
        "all queries are taken for the first": (0 * at + at[0], at),
        "all queries are taken for the last": (0 * at + at[-1], at),
    }
    places = [(Cause.POSITION_OFFSET, message, *both) for message, both in moved.items()]
    places += [(cause, text, to, to) for cause, text, to in usual_moves(at, context)]
    capacity = scores.request.content.capacity
    most = None if capacity is None else capacity.positions - 1
    for cause, message, *both in places:
        yield made(cause, message, scores.moved, *(np.clip(at, 0, most) for at in both))
