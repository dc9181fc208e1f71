"""The tasks: text, and six tasks with known answers.

A task draws what is trained on from a generator, and fixes what is tested by the length alone. Its
lengths are in a unit of its own; `Task.tokens` says how many columns of a transformer one takes.
Adding a task is adding a class here, and to `TASKS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal

from posenc_cli.budget import HELD_VALUES, check_size
from posenc_cli.errors import InvalidInput, unknown_name
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from posenc_cli.experiments.corpus import Corpus
    from posenc_cli.numerics.arrays import Flags, Integers

    Tokens = NDArray[np.int64]
    """(sequences, places) int64: tokens, or places of an axis."""

Answers = Literal["sequences", "symbols"]

SEQUENCES = 32
"""How many sequences a test has."""


class TokenBatch(Record):
    """Sequences for a causal model: from ``inputs`` up to a place it tells ``targets`` there.

    All (sequences, places). Only places that are ``scored`` count; ``axis`` says at which of
    ``extent`` points of a curve each does.
    """

    inputs: Tokens
    targets: Tokens
    scored: Flags
    axis: Tokens
    extent: int


class TestSet(Record):
    """What a length is tested on, three ways that may share sequences.

    ``curve`` is scored at every place; ``last`` has the same sequences, scored at their last places
    alone. ``whole`` is what a mean is over: of a text pieces that do not overlap, where the windows
    of the others slide; of other tasks the sequences of the curve.
    """

    __test__ = False  # nothing that pytest runs

    curve: TokenBatch
    last: TokenBatch
    whole: TokenBatch


class Task(Record, ABC):
    """What a model learns, at lengths in ``unit``, of which ``trained`` is what is trained on.

    A sequence has ``columns`` of a transformer, and its curve ``points``: (a, b) stands for
    a · length + b. ``shortest`` is the least length that there is, ``fewest`` the number of
    sequences without which a test would leave points of a curve empty. ``answers`` says what is
    right or wrong: the whole of what a sequence is answered with, each symbol of it, or nothing.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    unit: ClassVar[str] = "symbols"
    trained: ClassVar[int]
    columns: ClassVar[tuple[int, int]] = 1, 0
    points: ClassVar[tuple[int, int]] = 1, 0
    shortest: ClassVar[int] = 1
    fewest: ClassVar[int] = 1
    answers: ClassVar[Answers | None] = "sequences"

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """How many tokens there are: all are below it."""

    def tokens(self, length: int) -> int:
        """The columns that a sequence of a length has."""
        return self.columns[0] * length + self.columns[1]

    def extent(self, length: int) -> int:
        """The points of a curve over what is scored at a length."""
        return self.points[0] * length + self.points[1]

    @abstractmethod
    def training(self, generator: np.random.Generator, length: int, count: int) -> TokenBatch:
        """``count`` sequences to train on: (count, tokens(length)).

        Those of tasks with answers have any length up to ``length`` and are padded on the right;
        nothing is scored there.
        """

    @abstractmethod
    def test(self, length: int, last: int, sequences: int = SEQUENCES) -> TestSet:
        """What a length is tested on, always the same: at every column, and at the ``last`` ones.

        Both (sequences, tokens(length)), but of a text, whose ``whole`` has as many pieces as there
        are.
        """

    def repeated(self, length: int, count: int) -> TokenBatch | None:  # noqa: ARG002
        """Pieces of text that stand there twice, of a task that is about text."""
        return None

    def check(self, length: int, last: int, sequences: int = SEQUENCES) -> None:
        """Check that there can be a test of a length.

        Raises: InvalidInput where the length is too short or too long for the task.
        """
        place = f"--task {self.name}"
        if length < self.shortest:
            raise InvalidInput(
                f"{place}: a length of {length} {self.unit}; it needs at least {self.shortest}"
            )
        if last < 1:
            raise InvalidInput(f"{place}: the last {last} columns: must be at least 1")
        if sequences < self.fewest:
            raise InvalidInput(f"{place}: needs at least {self.fewest} sequences, not {sequences}")
        request = f"{place} at a length of {length}"
        check_size(request, sequences * self.tokens(length), HELD_VALUES, "tokens")


class Text(Task):
    """Characters of a text, each told from those before it."""

    corpus: Corpus

    name = "text"
    summary = "the next character of a text"
    unit = "characters"
    trained = 100
    shortest = 4  # a piece of two that stands there twice has one character to remember
    answers = None

    @property
    def vocabulary(self) -> int:
        """The different characters of the text."""
        return self.corpus.vocabulary

    def training(self, generator: np.random.Generator, length: int, count: int) -> TokenBatch:
        """Windows of the training part that begin anywhere: (count, length).

        Raises: InvalidInput where that part is shorter than a window.
        """
        import numpy as np

        text = self.corpus.training
        self._check_characters(len(text), length + 1, "to train on")
        starts = generator.integers(0, len(text) - length, count)  # (count,)
        windows = text[starts[:, None] + np.arange(length + 1)]  # (count, length + 1)
        return _next_tokens(windows)

    def test(self, length: int, last: int, sequences: int = SEQUENCES) -> TestSet:
        """The last ``sequences`` · ``last`` held-out characters, the same at every length.

        ``last`` has a window for every ``last`` characters, which tells those alone; ``whole``
        has them in pieces of ``length`` that do not overlap, of which the last may be shorter. A
        length of more characters than these has one piece.
        """
        import numpy as np

        text = self.corpus.held_out
        self._check_characters(len(text), _held_out(length, last, sequences), "held out")
        ends = len(text) - last * np.arange(sequences)[::-1]  # (sequences,)
        windows = _next_tokens(text[ends[:, None] + np.arange(-length - 1, 0)])
        section = text[-max(sequences * last, length) - 1 :]
        return TestSet(windows, _last_columns(windows, last), _pieces(section, length))

    def repeated(self, length: int, count: int) -> TokenBatch:
        """Held-out pieces of half a length, each twice: (count, 2 · (length // 2) - 1).

        Point 0 is the first time, 1 the second, which a model knows that has learnt to look back.
        Both are of the same characters: all but the first of a piece, which nothing foretells.
        """
        import numpy as np

        text = self.corpus.held_out
        half = length // 2
        self._check_characters(len(text), half, "held out")
        starts = np.linspace(0, len(text) - half, count).astype(np.int64)
        pieces = text[starts[:, None] + np.arange(half)]  # (count, half)
        batch = _next_tokens(np.hstack([pieces, pieces]))
        target = np.arange(1, 2 * half)  # which character of the two pieces each column tells
        return TokenBatch(
            batch.inputs,
            batch.targets,
            np.broadcast_to(target != half, batch.inputs.shape),
            np.broadcast_to(target // half, batch.inputs.shape),
            2,
        )

    def check(self, length: int, last: int, sequences: int = SEQUENCES) -> None:
        """Check that there can be a test of a length.

        Raises: InvalidInput where the text is too short for it, or the length is.
        """
        super().check(length, last, sequences)
        held = len(self.corpus.held_out)
        self._check_characters(held, _held_out(length, last, sequences), "held out")

    def _check_characters(self, there: int, needed: int, purpose: str) -> None:
        if there < needed:
            raise InvalidInput(
                f"{self.corpus.name}: has {there} characters {purpose}, but needs {needed}",
                hint="give a longer text, shorter tests, or fewer last places",
            )


class Drawn(Record):
    """One sequence, and which columns of it are scored: all (tokens,)."""

    inputs: Integers
    targets: Integers
    scored: Flags
    axis: Integers


class Answered(Task):
    """A task whose sequences are drawn one by one."""

    @abstractmethod
    def sample(self, generator: np.random.Generator, length: int, turn: int, turns: int) -> Drawn:
        """A sequence of a length: that at ``turn`` of ``turns`` of a test; of training 0 of 0."""

    def training(self, generator: np.random.Generator, length: int, count: int) -> TokenBatch:
        """``count`` sequences of any length up to ``length``: (count, tokens(length)).

        Raises: InvalidInput where the length is shorter than the shortest.
        """
        self.check(length, 1, max(count, self.fewest))
        lengths = generator.integers(self.shortest, length + 1, count)
        samples = [self.sample(generator, int(short), 0, 0) for short in lengths]
        return self._padded(samples, length)

    def test(self, length: int, last: int, sequences: int = SEQUENCES) -> TestSet:
        """The same sequences twice: (sequences, tokens(length)), each of that length.

        Raises: InvalidInput where the length is too short or too long.
        """
        import numpy as np

        self.check(length, last, sequences)
        generator = np.random.default_rng([length, *self.name.encode()])
        samples = [self.sample(generator, length, turn, sequences) for turn in range(sequences)]
        whole = self._padded(samples, length)
        return TestSet(whole, _last_columns(whole, last), whole)

    def _padded(self, samples: Sequence[Drawn], length: int) -> TokenBatch:
        import numpy as np

        shape = len(samples), self.tokens(length)
        inputs, targets, axis = (np.zeros(shape, np.int64) for _ in range(3))
        scored = np.zeros(shape, bool)
        for row, sample in enumerate(samples):
            columns = slice(len(sample.inputs))
            inputs[row, columns] = sample.inputs
            targets[row, columns] = sample.targets
            scored[row, columns] = sample.scored
            axis[row, columns] = sample.axis
        return TokenBatch(inputs, targets, scored, axis, self.extent(length))


class Transduction(Answered):
    """Symbols, a mark, and what they are to become: a mark ends it."""

    columns = 2, 1  # the question, a mark and the answer; its end is only told
    points = 1, 1  # the answer and its end
    symbols: ClassVar[int] = 32
    """Different ones: so many that a pair of them seldom comes twice in what is trained on."""

    @property
    def vocabulary(self) -> int:
        """The symbols, the mark after the question and the one after the answer."""
        return self.symbols + 2

    def sample(self, generator: np.random.Generator, length: int, turn: int, turns: int) -> Drawn:  # noqa: ARG002
        """A sequence of symbols, and its answer."""
        question = generator.integers(0, self.symbols, length)
        return _answered(question, self.answer(question), self.symbols)

    @abstractmethod
    def answer(self, question: Integers) -> Integers:
        """What symbols (n,) become: (n,)."""


class Copy(Transduction):
    """Symbols once more."""

    name = "copy"
    summary = "symbols once more"
    trained = 20

    def answer(self, question: Integers) -> Integers:
        """The same symbols."""
        return question


class Reverse(Transduction):
    """Symbols once more, the last first."""

    name = "reverse"
    summary = "symbols once more, the last first"
    trained = 20

    def answer(self, question: Integers) -> Integers:
        """The same symbols, the last first."""
        return question[::-1]


class Sorting(Transduction):
    """Numbers in order, as Kazemnejad et al. sort them (arXiv 2305.19466).

    Theirs are words of a language model's vocabulary ("Sort the following list [ … ]."); a number
    here is one token, of 32, and may come twice.
    """

    name = "sorting"
    summary = "numbers in order, the least first"
    unit = "numbers"
    trained = 8

    def answer(self, question: Integers) -> Integers:
        """The same numbers, the least first."""
        import numpy as np

        return np.sort(question)


class Addition(Answered):
    """Two numbers and their sum, as Kazemnejad et al. add them (arXiv 2305.19466).

    A digit is a token and the highest comes first, as there ("Compute 5 3 7 2 6 + 1 9 1 7 ? The
    answer is 5 5 6 4 3."). Otherwise than there, both numbers have as many digits, and the sum has
    one more, be it 0: so a place of the answer always means the same power of ten.
    """

    name = "addition"
    summary = "the sum of two numbers, digit by digit, the highest first"
    unit = "digits"
    trained = 8
    columns = 3, 3  # two numbers, two marks and the sum; its end is only told
    points = 1, 2  # the sum and its end
    plus: ClassVar[int] = 10

    @property
    def vocabulary(self) -> int:
        """The digits, plus, and the marks after the question and the answer."""
        return self.plus + 3

    def sample(self, generator: np.random.Generator, length: int, turn: int, turns: int) -> Drawn:  # noqa: ARG002
        """Two numbers of a length, neither of which begins with 0, and their sum."""
        import numpy as np

        numbers = generator.integers(0, 10, (2, length))
        numbers[:, 0] = generator.integers(1, 10, 2)
        question = np.concatenate([numbers[0], [self.plus], numbers[1]])
        return _answered(question, _sum_of_digits(numbers), self.plus + 1)


class First(Answered):
    """The first symbol of all, whenever it is asked for.

    The others are of the same 16 symbols: nothing but its place tells the first from them.
    """

    name = "first"
    summary = "the first symbol, whenever it is asked for"
    trained = 100
    shortest = 2
    fewest = 8
    points = 1, -1  # each column but the first, which is not asked
    answers = "symbols"  # more of them in longer sequences, each answered alone
    symbols: ClassVar[int] = 16
    every: ClassVar[int] = 8
    """A column of so many, on average, asks for it; in a test each column does of one in so many
    sequences."""

    @property
    def vocabulary(self) -> int:
        """The symbols, and one that asks."""
        return self.symbols + 1

    def sample(self, generator: np.random.Generator, length: int, turn: int, turns: int) -> Drawn:
        """Symbols, some of which ask, the last of them always."""
        import numpy as np

        inputs = generator.integers(0, self.symbols, length)
        columns = np.arange(length)
        if turns:
            scored = columns % self.every == turn % self.every
        else:
            scored = generator.integers(0, self.every, length) == 0
        scored[0], scored[-1] = False, True
        targets = np.full(length, inputs[0])
        return Drawn(
            np.where(scored, self.symbols, inputs), targets, scored, np.maximum(columns - 1, 0)
        )


class Needle(Answered):
    """The symbol behind the one mark among others, asked for at the end.

    A curve is over its depth in ten parts, of which the first is the beginning.
    """

    name = "needle"
    summary = "the symbol behind a mark, wherever it stood"
    trained = 100
    fewest = 10
    shortest = 12  # ten places for the mark, one for its symbol behind the last, one that asks
    symbols: ClassVar[int] = 16
    depths: ClassVar[int] = 10
    points = 0, depths

    @property
    def vocabulary(self) -> int:
        """The symbols, the mark, and one that asks."""
        return self.symbols + 2

    def sample(self, generator: np.random.Generator, length: int, turn: int, turns: int) -> Drawn:
        """Symbols with a mark among them: in a test as often at each depth."""
        import numpy as np

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


TASKS: Mapping[str, type[Task]] = MappingProxyType(
    {task.name: task for task in (Text, Copy, Reverse, First, Needle, Addition, Sorting)}
)
"""The tasks by name; `task_of` makes one."""


def task_of(name: str, corpus: Corpus | None = None) -> Task:
    """The task of a name; that of a text is about ``corpus``, or else posenc's own.

    Raises: InvalidInput where there is no such task.
    """
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    if name != Text.name:
        return TASKS[name]()
    if corpus is None:
        from posenc_cli.experiments.corpus import Corpus

        corpus = Corpus.own()
    return Text(corpus)


def _held_out(length: int, last: int, sequences: int) -> int:
    """The characters that a test of a text needs."""
    return max((sequences - 1) * last + length, sequences * last) + 1


def _next_tokens(windows: Integers) -> TokenBatch:
    """Windows (count, length + 1), of which each column but the last tells the next."""
    import numpy as np

    inputs, targets = windows[:, :-1], windows[:, 1:]
    columns = np.broadcast_to(np.arange(inputs.shape[1]), inputs.shape)
    return TokenBatch(inputs, targets, np.ones(inputs.shape, bool), columns, inputs.shape[1])


def _pieces(section: Integers, length: int) -> TokenBatch:
    """All characters of a section but its first, told in pieces of a length."""
    import numpy as np

    told = len(section) - 1
    count = -(-told // length)
    padded = np.zeros(count * length + 1, np.int64)
    padded[: told + 1] = section
    starts = length * np.arange(count)  # (count,)
    batch = _next_tokens(padded[starts[:, None] + np.arange(length + 1)])
    scored = starts[:, None] + np.arange(length) < told  # (count, length)
    return replace(batch, scored=scored)


def _last_columns(batch: TokenBatch, last: int) -> TokenBatch:
    """A batch of sequences, scored at no more than their last columns."""
    import numpy as np

    columns = np.arange(batch.scored.shape[1])
    ends = (batch.scored * (columns + 1)).max(axis=1, keepdims=True)  # (sequences, 1)
    return replace(batch, scored=batch.scored & (columns >= ends - last))


def _answered(question: Integers, answer: Integers, mark: int) -> Drawn:
    """A question, ``mark``, and an answer that ends with the mark above that."""
    import numpy as np

    sequence = np.concatenate([question, [mark], answer, [mark + 1]])
    columns = np.arange(len(sequence) - 1)
    asked = len(question)
    return Drawn(sequence[:-1], sequence[1:], columns >= asked, np.maximum(columns - asked, 0))


def _sum_of_digits(numbers: Integers) -> Integers:
    """The digits of the sum of numbers (2, n), the highest first: (n + 1,)."""
    import numpy as np

    digits = np.zeros(numbers.shape[1] + 1, np.int64)
    carry = 0
    for place in range(numbers.shape[1] - 1, -1, -1):
        carry, digits[place + 1] = divmod(int(numbers[:, place].sum()) + carry, 10)
    digits[0] = carry
    return digits
