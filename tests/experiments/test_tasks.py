"""The tasks: each answer worked out again, each test the same again."""

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from posenc_cli.errors import InvalidInput
from posenc_cli.experiments.corpus import Corpus
from posenc_cli.experiments.request import TRAINED
from posenc_cli.experiments.tasks import SEQUENCES, TASKS, Task, Text, TokenBatch, task_of
from posenc_cli.records import replace

NAMES = sorted(TASKS)
ANSWERED = sorted(set(TASKS) - {"text"})
TRANSDUCTIONS = {"copy": list, "sorting": sorted}


@cache
def task(name: str) -> Task:
    return task_of(name)


@cache
def own() -> Corpus:
    return Corpus.own()


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def batches(name: str) -> Iterator[tuple[int, TokenBatch]]:
    """What a task trains on and is tested on, each with its length."""
    length = TRAINED[name]
    yield length, task(name).training(generator(), length, 50)
    for stretched in (length, 2 * length):
        yield stretched, task(name).test(stretched, length // 2).whole


def rows(batch: TokenBatch) -> Iterator[tuple[list[int], list[int], list[int], list[int]]]:
    """Of each sequence: its inputs up to its last scored column, its targets, places and axis."""
    for inputs, targets, scored, axis in zip(
        batch.inputs, batch.targets, batch.scored, batch.axis, strict=True
    ):
        (columns,) = np.nonzero(scored)
        stop = columns[-1] + 1
        yield (
            inputs[:stop].tolist(),
            targets[columns].tolist(),
            columns.tolist(),
            axis[columns].tolist(),
        )


def same(one: TokenBatch, other: TokenBatch) -> bool:
    return all(
        np.array_equal(mine, yours)
        for mine, yours in zip(one.as_dict().values(), other.as_dict().values(), strict=True)
    )


@pytest.mark.parametrize("name", NAMES)
def test_batches_have_the_shape_and_the_tokens_that_their_task_says(name):
    for length, batch in batches(name):
        shape = len(batch.inputs), task(name).tokens(length)
        for array in (batch.inputs, batch.targets, batch.axis):
            assert (array.shape, array.dtype) == (shape, np.dtype(np.int64))
        assert (batch.scored.shape, batch.scored.dtype) == (shape, np.dtype(bool))
        assert batch.extent == task(name).extent(length)
        for tokens in (batch.inputs, batch.targets):
            assert tokens.min() >= 0
            assert tokens.max() < task(name).vocabulary
        assert batch.scored.any(axis=1).all()
        assert batch.axis[batch.scored].max() < batch.extent


@pytest.mark.parametrize("name", NAMES)
def test_every_token_below_the_vocabulary_is_met_or_told(name):
    if name == "text":
        tokens = np.concatenate([own().training, own().held_out])
    else:
        batch = task(name).training(generator(), 40, 200)
        tokens = np.concatenate([batch.inputs.ravel(), batch.targets[batch.scored]])
    assert len(np.unique(tokens)) == task(name).vocabulary


@pytest.mark.parametrize("name", NAMES)
def test_a_test_is_the_same_again_and_training_by_its_generator(name):
    length = TRAINED[name]
    first, again = (task_of(name).test(length, 7) for _ in range(2))
    assert same(first.whole, again.whole)
    assert same(first.last, again.last)
    one, two, other = (task(name).training(generator(seed), length, 9) for seed in (1, 1, 2))
    assert same(one, two)
    assert not same(one, other)


@pytest.mark.parametrize("name", ANSWERED)
def test_the_last_columns_of_a_test_are_those_of_its_sequences(name):
    found = task(name).test(20, 7)
    assert np.array_equal(found.last.inputs, found.whole.inputs)
    for (_, _, columns, _), (_, _, last, _) in zip(
        rows(found.whole), rows(found.last), strict=True
    ):
        assert last == [column for column in columns if column > columns[-1] - 7]


@pytest.mark.parametrize("name", ANSWERED)
def test_training_mixes_lengths_and_scores_no_padding(name):
    batch = task(name).training(generator(), 20, 300)
    stops = {len(inputs) for inputs, *_ in rows(batch)}
    lengths = range(task(name).shortest, 21)
    assert stops == {task(name).tokens(length) for length in lengths}
    for inputs, (padded, *_) in zip(batch.inputs, rows(batch), strict=True):
        assert not inputs[len(padded) :].any()


@pytest.mark.parametrize("name", TRANSDUCTIONS)
def test_the_answer_is_the_question_copied_or_sorted(name):
    for _, batch in batches(name):
        mark, end = task(name).vocabulary - 2, task(name).vocabulary - 1
        for inputs, answer, columns, axis in rows(batch):
            length = (len(inputs) - 1) // 2
            assert inputs[length] == mark
            assert answer == [*TRANSDUCTIONS[name](inputs[:length]), end]
            assert inputs[length + 1 :] == answer[:-1]
            assert columns == list(range(length, 2 * length + 1))
            assert axis == list(range(length + 1))


def test_every_query_wants_the_first_symbol():
    asks = task("first").vocabulary - 1
    for _, batch in batches("first"):
        for inputs, answers, columns, axis in rows(batch):
            assert inputs[-1] == asks
            assert columns == [place for place, token in enumerate(inputs) if token == asks]
            assert set(answers) == {inputs[0]}
            assert inputs[0] < asks
            assert axis == [column - 1 for column in columns]


def test_a_needle_is_the_symbol_behind_the_only_mark():
    mark, asks = task("needle").vocabulary - 2, task("needle").vocabulary - 1
    for _, batch in batches("needle"):
        for inputs, answers, columns, (depth,) in rows(batch):
            assert (inputs.count(mark), inputs.count(asks), inputs[-1]) == (1, 1, asks)
            place = inputs.index(mark)
            assert answers == [inputs[place + 1]]
            assert answers[0] < mark
            assert columns == [len(inputs) - 1]
            assert depth == int(10 * place / (len(inputs) - 2))


@pytest.mark.parametrize("sequences", [10, 64, 100])
def test_needles_of_a_test_lie_at_all_depths_alike(sequences):
    whole = task("needle").test(200, 1, sequences).whole
    counts = np.bincount(whole.axis[whole.scored])
    assert len(counts) == 10
    assert np.ptp(counts) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_only_text_has_pieces_that_stand_there_twice(name):
    assert (task(name).repeated(100, 8) is None) == (name != "text")


def marked(length: int) -> Text:
    """A text whose characters are all different, so that each tells where it stands."""
    return Text(replace(own(), training=np.arange(9000), held_out=np.arange(9000, 9000 + length)))


def test_no_window_of_training_reaches_what_is_held_out():
    text = Text(replace(own(), training=np.arange(12), held_out=np.arange(12, 99)))
    batch = text.training(generator(), 10, 200)
    assert np.array_equal(batch.targets, batch.inputs + 1)
    assert set(batch.inputs[:, 0]) == {0, 1}  # wherever one fits, and nowhere else
    assert batch.targets.max() == 11
    assert batch.scored.all()


@pytest.mark.parametrize("sequences", [1, 5, 64])
def test_each_length_tells_the_same_last_characters(sequences):
    text = marked(8001)
    for length in (50, 100, 170, 800):
        last = text.test(length, 50, sequences).last
        assert last.inputs.shape == (sequences, length)
        assert np.array_equal(last.targets, last.inputs + 1)
        assert np.array_equal(last.targets[last.scored], np.arange(17001 - 50 * sequences, 17001))
        assert last.scored[:, -50:].all()
        assert np.array_equal(last.axis, np.tile(np.arange(length), (sequences, 1)))


@pytest.mark.parametrize("length", [50, 100, 170, 320, 321])
def test_pieces_tell_each_character_of_the_last_windows_once(length):
    whole = marked(8001).test(length, 5, 64).whole
    assert np.array_equal(whole.targets[whole.scored], np.arange(17001 - max(320, length), 17001))
    assert whole.inputs.shape == (-(-320 // length), length)
    assert np.array_equal(whole.targets[whole.scored] - 1, whole.inputs[whole.scored])


def test_a_length_below_the_last_places_is_told_whole():
    assert marked(201).test(20, 50, 4).last.scored.all()


@pytest.mark.parametrize("length", [4, 5, 100])
def test_a_piece_that_stands_there_twice_is_scored_twice_but_for_its_first_character(length):
    batch = marked(500).repeated(length, 8)
    half = length // 2
    assert batch.inputs.shape == (8, 2 * half - 1)
    assert batch.extent == 2
    starts = set()
    for inputs, targets, scored, axis in zip(
        batch.inputs, batch.targets, batch.scored, batch.axis, strict=True
    ):
        piece = np.arange(inputs[0], inputs[0] + half)
        assert np.array_equal(inputs, [*piece, *piece][:-1])
        assert np.array_equal(targets, [*piece, *piece][1:])
        assert np.array_equal(targets[scored & (axis == 0)], piece[1:])
        assert np.array_equal(targets[scored & (axis == 1)], piece[1:])
        starts.add(int(piece[0]))
    assert (min(starts), max(starts), len(starts)) == (9000, 9500 - half, 8)


def test_the_shortest_piece_that_stands_there_twice_is_scored_both_times():
    batch = task("text").repeated(task("text").shortest, 3)
    assert batch is not None
    assert np.unique(batch.axis[batch.scored]).tolist() == [0, 1]
    assert not Text(own()).repeated(task("text").shortest - 1, 3).scored.any()


def test_a_text_must_hold_the_longest_test():
    needed = (SEQUENCES - 1) * 50 + 800 + 1
    marked(needed).check(800, 50)
    marked(needed).test(800, 50)
    with pytest.raises(
        InvalidInput, match=rf"\Aposenc's own text has {needed - 1} .* needs {needed}\Z"
    ):
        marked(needed - 1).check(800, 50)


@pytest.mark.parametrize("name", NAMES)
def test_a_length_below_the_shortest_is_refused(name):
    shortest = task(name).shortest
    task(name).check(shortest, 1)
    with pytest.raises(InvalidInput, match=rf"\A--task {name}: .* it needs at least {shortest}\Z"):
        task(name).check(shortest - 1, 1)


def test_a_task_that_there_is_not_is_named_with_the_nearest():
    with pytest.raises(InvalidInput, match="unknown task 'sort'") as raised:
        task_of("sort")
    assert raised.value.hint == "did you mean 'sorting'?"
