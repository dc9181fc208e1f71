"""The tasks: text, and four tasks with known answers.

A task draws its training sequences from a generator; its test sequences depend only on the length.
Lengths are in a unit of the task; `Task.tokens` converts one to columns of a transformer. To add a
task, add a class here and to `TASKS`, and a length to `request.TRAINED`.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from posenc_cli.errors import InvalidInput, unknown_name
from posenc_cli.experiments.corpus import Corpus
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from posenc_cli.numerics.arrays import Flags, Integers

    Tokens = NDArray[np.int64]
    """(sequences, places) int64: tokens, or places of an axis."""

Answers = Literal["sequences", "symbols"]

SEQUENCES = 32
"""Number of sequences of a test."""


class TokenBatch(Record):
    """Sequences for a causal model, which predicts ``targets`` from ``inputs`` up to each place.

    All are (sequences, places). Only ``scored`` places count; ``axis`` gives the point of the curve
    for each, of ``extent`` points.
    """

    inputs: Tokens
    targets: Tokens
    scored: Flags
    axis: Tokens
    extent: int


class TestSet(Record):
    """The sequences to test a length on, scored in three ways that may share sequences.

    ``curve`` is scored at every place; ``last`` has the same sequences, scored only at their last
    places. ``whole`` is for the mean. For a text it has pieces that do not overlap, while the
    windows of the other two do; for other tasks it has the sequences of the curve.
    """

    __test__ = False  # keeps pytest from collecting it

    curve: TokenBatch
    last: TokenBatch
    whole: TokenBatch


class Task(Record, ABC):
    """A task to learn, at lengths in ``unit``.

    A sequence has ``columns`` of a transformer, and its curve ``points``; (a, b) stands for a ·
    length + b. ``shortest`` is the minimum length. ``answers`` says what is right or wrong: the
    whole answer of a sequence, each symbol of it, or nothing.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    unit: ClassVar[str] = "symbols"
    columns: ClassVar[tuple[int, int]] = 1, 0
    points: ClassVar[tuple[int, int]] = 1, 0
    shortest: ClassVar[int] = 1
    answers: ClassVar[Answers | None] = "sequences"

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """The number of tokens; token ids are below it."""

    def tokens(self, length: int) -> int:
        """Return the number of columns of a sequence of a length."""
        return self.columns[0] * length + self.columns[1]

    def extent(self, length: int) -> int:
        """Return the number of points of the curve at a length."""
        return self.points[0] * length + self.points[1]

    @abstractmethod
    def training(self, generator: np.random.Generator, length: int, count: int) -> TokenBatch:
        """Draw ``count`` training sequences: (count, tokens(length)).

        Tasks with answers draw any length up to ``length`` and pad on the right, where nothing is
        scored.
        """

    @abstractmethod
    def test(self, length: int, last: int, sequences: int = SEQUENCES) -> TestSet:
        """Return the test of a length, always the same, scored at all and at the ``last`` columns.

        All are (sequences, tokens(length)), except that ``whole`` of a text has as many pieces as
        fit.
        """

    def repeated(self, length: int, count: int) -> TokenBatch | None:  # noqa: ARG002
        """Return pieces of text that each occur twice, for a task on text, else None."""
        return None

    def check(self, length: int, last: int) -> None:  # noqa: ARG002
        """Check that a length can be tested, scored also at its ``last`` columns.

        Raises: InvalidInput if the length is too short for the task.
        """
        if length < self.shortest:
            raise InvalidInput(
                f"--task {self.name}: a length of {length} {self.unit}; it needs at least "
                f"{self.shortest}"
            )


class Text(Task):
    """Characters of a text, each predicted from those before it."""

    corpus: Corpus

    name = "text"
    summary = "the next character of a text"
    unit = "characters"
    shortest = 4  # a piece of two, repeated, has one predictable character
    answers = None

    @property
    def vocabulary(self) -> int:
        """The number of distinct characters of the text."""
        return self.corpus.vocabulary

    def training(self, generator: np.random.Generator, length: int, count: int) -> TokenBatch:
        """Draw windows at random places of the training part: (count, length)."""
        text = self.corpus.training
        starts = generator.integers(0, len(text) - length, count)  # (count,)
        windows = text[starts[:, None] + np.arange(length + 1)]  # (count, length + 1)
        return _next_tokens(windows)

    def test(self, length: int, last: int, sequences: int = SEQUENCES) -> TestSet:
        """Return the last ``sequences`` · ``last`` held-out characters, the same at every length.

        ``last`` has a window for every ``last`` characters, and scores only those. ``whole`` has
        them in pieces of ``length`` that do not overlap; the last may be shorter. If a length
        exceeds their number, there is one piece.
        """
        text = self.corpus.held_out
        ends = len(text) - last * np.arange(sequences)[::-1]  # (sequences,)
        windows = _next_tokens(text[ends[:, None] + np.arange(-length - 1, 0)])
        section = text[-max(sequences * last, length) - 1 :]
        return TestSet(windows, _last_columns(windows, last), _pieces(section, length))

    def repeated(self, length: int, count: int) -> TokenBatch:
        """Return held-out pieces of half a length, each twice: (count, 2 · (length // 2) - 1).

        Point 0 is the first time, point 1 the second, which a model predicts if it has learned to
        look back. Both score the same characters: all but the first of a piece, which is not
        predictable.
        """
        text = self.corpus.held_out
        half = length // 2
        starts = np.linspace(0, len(text) - half, count).astype(np.int64)
        pieces = text[starts[:, None] + np.arange(half)]  # (count, half)
        batch = _next_tokens(np.hstack([pieces, pieces]))
        target = np.arange(1, 2 * half)  # the character of the two pieces that each column predicts
        return TokenBatch(
            batch.inputs,
            batch.targets,
            np.broadcast_to(target != half, batch.inputs.shape),
            np.broadcast_to(target // half, batch.inputs.shape),
            2,
        )

    def check(self, length: int, last: int) -> None:
        """Check that a length can be tested.

        Raises: InvalidInput if the text or the length is too short.
        """
        super().check(length, last)
        there = len(self.corpus.held_out)
        needed = max((SEQUENCES - 1) * last + length, SEQUENCES * last) + 1
        if there < needed:
            raise InvalidInput(
                f"{self.corpus.name} has {there} characters held out, but needs {needed}",
                hint="give shorter tests (--test), or fewer last places (--last)",
            )


class Drawn(Record):
    """One sequence, and its scored columns: all (tokens,)."""

    inputs: Integers
    targets: Integers
    scored: Flags
    axis: Integers


class Answered(Task):
    """A task whose sequences are drawn one by one."""

    @abstractmethod
    def sample(self, generator: np.random.Generator, length: int, turn: int, turns: int) -> Drawn:
        """Draw a sequence: number ``turn`` of ``turns`` of a test, or 0 of 0 in training."""

    def training(self, generator: np.random.Generator, length: int, count: int) -> TokenBatch:
        """Draw ``count`` sequences of any length up to ``length``: (count, tokens(length))."""
        lengths = generator.integers(self.shortest, length + 1, count)
        samples = [self.sample(generator, int(short), 0, 0) for short in lengths]
        return self._padded(samples, length)

    def test(self, length: int, last: int, sequences: int = SEQUENCES) -> TestSet:
        """Return sequences of exactly this length, shared by all: (sequences, tokens(length))."""
        generator = np.random.default_rng([length, *self.name.encode()])
        samples = [self.sample(generator, length, turn, sequences) for turn in range(sequences)]
        whole = self._padded(samples, length)
        return TestSet(whole, _last_columns(whole, last), whole)

    def _padded(self, samples: Sequence[Drawn], length: int) -> TokenBatch:
        shape = len(samples), self.tokens(length)
        kinds = {"inputs": np.int64, "targets": np.int64, "scored": np.bool_, "axis": np.int64}
        batch: dict[str, Any] = {name: np.zeros(shape, kind) for name, kind in kinds.items()}
        for row, sample in enumerate(samples):
            for name, values in sample.as_dict().items():
                batch[name][row, : len(values)] = values
        return TokenBatch(**batch, extent=self.extent(length))


class Transduction(Answered):
    """Symbols, a mark, their answer, and a mark that ends it."""

    columns = 2, 1  # the question, a mark and the answer; the end is only predicted
    points = 1, 1  # the answer and its end
    symbols: ClassVar[int] = 32
    """Distinct symbols, enough that a pair of them seldom occurs twice in a training sequence."""

    @property
    def vocabulary(self) -> int:
        """The symbols, the mark after the question and the one after the answer."""
        return self.symbols + 2

    def sample(self, generator: np.random.Generator, length: int, turn: int, turns: int) -> Drawn:  # noqa: ARG002
        """Draw a sequence of symbols, and its answer."""
        question = generator.integers(0, self.symbols, length)
        return _answered(question, self.answer(question), self.symbols)

    @abstractmethod
    def answer(self, question: Integers) -> Integers:
        """Return the answer (n,) to symbols (n,)."""


class Copy(Transduction):
    """Copy the symbols."""

    name = "copy"
    summary = "symbols once more"

    def answer(self, question: Integers) -> Integers:
        """Return the same symbols."""
        return question


class Sorting(Transduction):
    """Sort numbers, as in Kazemnejad et al. (arXiv 2305.19466).

    Theirs are words of a language model's vocabulary ("Sort the following list [ … ]."). Here a
    number is one token of 32, and may occur twice.
    """

    name = "sorting"
    summary = "numbers in order, the least first"
    unit = "numbers"

    def answer(self, question: Integers) -> Integers:
        """Return the same numbers in ascending order."""
        return np.sort(question)


class First(Answered):
    """Recall the first symbol whenever it is asked for.

    All symbols come from the same 16, so only its position identifies the first.
    """

    name = "first"
    summary = "the first symbol, whenever it is asked for"
    shortest = 2
    points = 1, -1  # each column but the first, which does not ask
    answers = "symbols"  # longer sequences have more, each answered alone
    symbols: ClassVar[int] = 16
    every: ClassVar[int] = 8
    """On average, one column in this many asks; in a test, each column asks in one of this many
    sequences.
    """

    @property
    def vocabulary(self) -> int:
        """The symbols, and one that asks."""
        return self.symbols + 1

    def sample(self, generator: np.random.Generator, length: int, turn: int, turns: int) -> Drawn:
        """Draw symbols, some of which ask; the last one always asks."""
        inputs = generator.integers(0, self.symbols, length)
        columns = np.arange(length)
        scored = (
            columns % self.every == turn % self.every
            if turns
            else generator.integers(0, self.every, length) == 0
        )
        scored[0], scored[-1] = False, True
        targets = np.full(length, inputs[0])
        return Drawn(
            np.where(scored, self.symbols, inputs), targets, scored, np.maximum(columns - 1, 0)
        )


class Needle(Answered):
    """Recall the symbol after the only mark, asked for at the end.

    The curve is over the depth of the mark in ten parts, from the beginning.
    """

    name = "needle"
    summary = "the symbol behind a mark, wherever it stood"
    shortest = 12  # ten places for the mark, one for the symbol after it, one that asks
    symbols: ClassVar[int] = 16
    depths: ClassVar[int] = 10
    points = 0, depths

    @property
    def vocabulary(self) -> int:
        """The symbols, the mark, and one that asks."""
        return self.symbols + 2

    def sample(self, generator: np.random.Generator, length: int, turn: int, turns: int) -> Drawn:
        """Draw symbols with one mark; a test has each depth equally often."""
        places = length - 2
        inputs = generator.integers(0, self.symbols, length)
        first, stop = 0, places
        if turns:
            depth = turn * self.depths // turns
            first, stop = (-(-places * end // self.depths) for end in (depth, depth + 1))
        mark = int(generator.integers(first, stop))
        inputs[mark], inputs[-1] = self.symbols, self.symbols + 1
        scored = np.arange(length) == length - 1
        return Drawn(
            inputs,
            np.full(length, inputs[mark + 1]),
            scored,
            np.full(length, mark * self.depths // places),
        )


TASKS: Mapping[str, type[Task]] = {task.name: task for task in (Text, Copy, First, Needle, Sorting)}
"""Tasks by name; `task_of` makes one."""


def task_of(name: str) -> Task:
    """Return the task of a name; a text task uses posenc's own text.

    Raises: InvalidInput if the task does not exist.
    """
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return Text(Corpus.own()) if name == Text.name else TASKS[name]()


def _next_tokens(windows: Integers) -> TokenBatch:
    """Return windows (count, length + 1) as a batch whose columns predict the next token."""
    inputs, targets = windows[:, :-1], windows[:, 1:]
    columns = np.broadcast_to(np.arange(inputs.shape[1]), inputs.shape)
    return TokenBatch(inputs, targets, np.ones(inputs.shape, bool), columns, inputs.shape[1])


def _pieces(section: Integers, length: int) -> TokenBatch:
    """Return all characters of a section but the first, as targets in pieces of a length."""
    target_count = len(section) - 1
    count = -(-target_count // length)
    padded = np.zeros(count * length + 1, np.int64)
    padded[: target_count + 1] = section
    starts = length * np.arange(count)  # (count,)
    batch = _next_tokens(padded[starts[:, None] + np.arange(length + 1)])
    scored = starts[:, None] + np.arange(length) < target_count  # (count, length)
    return replace(batch, scored=scored)


def _last_columns(batch: TokenBatch, last: int) -> TokenBatch:
    """Return a batch scored only at the last scored columns of each sequence."""
    columns = np.arange(batch.scored.shape[1])
    ends = (batch.scored * (columns + 1)).max(axis=1, keepdims=True)  # (sequences, 1)
    return replace(batch, scored=batch.scored & (columns >= ends - last))


def _answered(question: Integers, answer: Integers, mark: int) -> Drawn:
    """Return a question, ``mark``, and an answer that ends with ``mark`` + 1."""
    sequence = np.concatenate([question, [mark], answer, [mark + 1]])
    columns = np.arange(len(sequence) - 1)
    asked = len(question)
    return Drawn(sequence[:-1], sequence[1:], columns >= asked, np.maximum(columns - asked, 0))
