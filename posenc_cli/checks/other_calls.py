"""List further calls of a function of rows or scores: later positions, shorter lengths, batches.

Each call is a task whose reference is known: some rows of the first call, or other settings.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.calls.called_function import WrongShape
from posenc_cli.checks.functions import FunctionTask, FurtherCall
from posenc_cli.encoding.arrays import positions_from
from posenc_cli.errors import InvalidInput
from posenc_cli.files.reading import Loaded
from posenc_cli.formulas.parameters import brief_text
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.checks.subjects import ValueRequest, ValueSubject
    from posenc_cli.numerics.arrays import NumberArray

_LATER_START = 7
"""First position of calls that do not start at 0."""
_EXACT_IN_HALF = 1 << 11
"""float16 represents every integer up to this one."""
_MOST_SQUARE = 64
"""Most sequences, heads and positions of scores that have equal numbers of each."""
_ROWS = 5
"""Rows of each of two sequences; differs from the width of every encoding."""
_OTHER_SETTINGS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("base", "max_period"), lambda base: 3 * base),
    **dict.fromkeys(
        ("dim", "max_distance", "max_bias", "max_position", "scale"), lambda number: 2 * number
    ),
    **dict.fromkeys(("num_buckets", "bucket_size"), lambda buckets: buckets // 2),
    "heads": lambda heads: heads + 4,
    "bidirectional": lambda both: not both,
    "flip_sin_to_cos": lambda flipped: not flipped,
    "downscale_freq_shift": lambda shift: 1 - shift,
    **dict.fromkeys(
        ("grid", "window_size"),
        lambda sides: tuple(max(sides) + more for more in (2, 1, 3)[: len(sides)]),
    ),
}
"""Computes another value of each setting that a function may take."""


def further_calls(
    task: FunctionTask,
    request: ValueRequest,
    of_settings: Callable[[dict[str, Any]], tuple[FunctionTask, ValueRequest]],
) -> Iterator[FurtherCall]:
    """Yield the calls that models make after the first; ``of_settings`` makes other tasks."""
    of_form = {"rows": _calls_of_rows, "scores": _calls_of_scores, "buckets": _calls_of_buckets}
    if task.form in of_form:
        yield from of_form[task.form](task, request)
    yield from _calls_with_settings(task, request.given, of_settings)
    yield from _calls_after_fewer(task, request)


def _calls_with_settings(
    task: FunctionTask,
    given: Mapping[str, Any],
    of_settings: Callable[[dict[str, Any]], tuple[FunctionTask, ValueRequest]],
) -> Iterator[FurtherCall]:
    """Yield calls with another value of one setting, for each setting of the reference."""
    odd_widths = [("dim", lambda dim: dim + 1)] if "max_period" in task.settings else []
    squares = (
        (name, lambda sides: (max(sides) + 2,) * len(sides)) for name in ("grid", "window_size")
    )
    for name, other in (*_OTHER_SETTINGS.items(), *odd_widths, ("heads", lambda _: 1), *squares):
        right = task.settings.get(name)
        if right is None or (value := other(right)) == right:
            continue
        try:
            changed, request = of_settings({**given, name: value})
        except InvalidInput:  # for example, the size of a learned table
            continue
        text = "×".join(map(str, value)) if isinstance(value, tuple) else brief_text(value)
        yield FurtherCall(f"{name}={text}", (changed,), _reader(request), task)


def _calls_of_rows(task: FunctionTask, request: ValueRequest) -> Iterator[FurtherCall]:
    """Yield calls with fewer rows, other positions, batches and half precision."""
    count, places = task.places.size, task.places
    if getattr(request.source, "kind", "") == "relative":
        few = task.length // 2
        shorter = replace(task, places=places[np.abs(places) < few], length=few)
        if (np.diff(places) == 1).all():
            accepts = _reader(request, np.arange(few))
            yield FurtherCall(f"{few} positions", (shorter,), accepts, task)
        return
    if task.sides:
        accepts = _reader(request, places, places)
        yield FurtherCall("two grids", (replace(task, sequences=2),), accepts, task)
        yield from _half_precision_calls(task, "vectors", _reader(request, places))
        return
    if count <= _LATER_START + _ROWS or _depends_on_length(task, request):
        return
    single = tuple(_task_at(task, places[[at]]) for at in (_LATER_START, count // 2, count - 1))
    at_singles = _reader(request, np.concatenate([each.places for each in single]))
    yield FurtherCall("single rows", single, at_singles, _task_at(task, places[:1]))
    for text, at in _other_places(places).items():
        accepts = _reader(request, *(at if at.ndim > 1 else [at]))
        unlike = _task_at(task, _unlike(places, at))
        yield FurtherCall(text, (_task_at(task, at),), accepts, unlike)
    yield from _half_precision_calls(task, "vectors", _reader(request, places))
    if "max_period" in task.settings:
        yield from _calls_of_timesteps(task, request)


def _other_places(places: NumberArray) -> dict[str, NumberArray]:
    """Return the positions of calls, (n,) or (b, n) for b sequences, by the calls' texts."""
    count, later = places.size, places[_LATER_START:]
    pair = np.stack([places[:_ROWS], places[-_ROWS:]])
    several = {
        (f"a row of {text}" if rows == 1 else text)
        + (f" from position {places[first]:g} on" if first else ""): np.stack(
            [places[first : first + rows]] * sequences
        )
        for (text, sequences), first, rows in product(
            (("two sequences", 2), ("three sequences", 3)), (0, _LATER_START), (_ROWS, 1)
        )
    }
    return {
        "the first row alone": places[:1],
        f"{later.size} rows from position {later[0]:g} on": later,
        f"{count // 2} rows": places[: count // 2],
        "rows in another order": places[np.argsort(np.arange(count) * 5 % 7, kind="stable")],
        "positions of int32": places.astype(np.int32) if places.dtype.kind == "i" else places,
        "two sequences at other positions": pair,
        "a row of two sequences at other positions": pair[:, :1],
        **several,
        "equal numbers of sequences and rows": np.stack([places[:_ROWS]] * _ROWS),
    }


def _unlike(places: NumberArray, at: NumberArray) -> NumberArray:
    """Return the first positions in the shape of ``at``, or without its batch if they equal it.

    A function whose arguments are the same for both takes no positions, or no batches.
    """
    first = np.broadcast_to(places[: at.shape[-1]], at.shape)
    if not np.array_equal(first, at):
        return first
    return first[0] if at.ndim > 1 else places


def _calls_of_timesteps(task: FunctionTask, request: ValueRequest) -> Iterator[FurtherCall]:
    """Yield calls with timesteps that are fractions, or in half precision."""
    whole, places = task.places[-_ROWS:], task.places
    between = whole + np.resize([0.125, 0.5, 0.875], _ROWS)
    changed, unlike = _task_at(task, between), _task_at(task, whole)
    yield FurtherCall("fractional timesteps", (changed,), _reader(request, between), unlike)
    if task.settings.get("scale") == 1 and places.max() <= _EXACT_IN_HALF:
        half = replace(task, places=places.astype(np.float16))
        yield FurtherCall("timesteps in float16", (half,), _reader(request, places), task)


def _depends_on_length(task: FunctionTask, request: ValueRequest) -> bool:
    """Return whether the reference's rows depend on their number."""
    few = task.places[: task.places.size // 2]
    shorter, longer = (
        _reader(request, places)(Loaded(np.zeros((places.size, task.width)), "float64", ""))[
            0
        ].expected.right()
        for places in (few, task.places)
    )
    return not np.array_equal(shorter, longer[: few.size])


def _half_precision_calls(
    task: FunctionTask, what: str, accepts: Callable[[Loaded], list[ValueSubject]]
) -> Iterator[FurtherCall]:
    """Yield calls in half precision, and one in float32 after them."""
    for dtype in ("float16", "bfloat16"):
        half = replace(task, dtype=dtype)
        yield FurtherCall(f"{what} in {dtype}", (half,), accepts, task)
    yield FurtherCall(f"{what} in float32 after half precision", (task,), accepts, half)


def _calls_of_scores(task: FunctionTask, request: ValueRequest) -> Iterator[FurtherCall]:
    """Yield calls with batches of scores, half precision, and few queries as in decoding."""
    both, heads = {"two sequences": replace(task, sequences=2)}, task.settings.get("heads", 1)
    tasks = both if task.sides else _tasks_of_scores(task) | both
    if not task.sides and 1 < heads <= min(_MOST_SQUARE, task.places.size):
        square = replace(_task_at(task, task.places[:heads]), sequences=heads)
        tasks["equal numbers of sequences, positions and heads"] = square
    for text, changed in tasks.items():
        accepts = _reader(request, *[changed.places] * changed.sequences)
        yield FurtherCall(text, (changed,), accepts, task)
    yield from _half_precision_calls(task, "scores", _reader(request))


def _tasks_of_scores(task: FunctionTask) -> dict[str, FunctionTask]:
    """Return calls with fewer queries, fewer positions, and later ones, by their texts."""
    length, half, later = task.length, task.length // 2, task.places + _LATER_START
    return {
        f"the last query of {length}": replace(task, queries=1),
        f"the last {half} queries of {length}": replace(task, queries=half),
        f"{half} positions": _task_at(task, task.places[:half]),
        f"positions from {later[0]} on": _task_at(task, later),
    }


def _calls_of_buckets(task: FunctionTask, request: ValueRequest) -> Iterator[FurtherCall]:
    """Yield the call with a matrix (queries, keys) of relative positions, as in attention."""
    if task.sides or task.places.size <= _ROWS:
        return
    keys = task.places.size - _ROWS + 1
    rows = [task.places[_ROWS - 1 - query :][:keys] for query in range(_ROWS)]
    matrix = replace(task, places=np.stack(rows))
    yield FurtherCall("a matrix of queries and keys", (matrix,), _reader(request, *rows), task)


def _calls_after_fewer(task: FunctionTask, request: ValueRequest) -> Iterator[FurtherCall]:
    """Yield the same call after a first one for half the positions, which may size a cache."""
    half = task.length // 2
    if half and not task.sides and task.places.shape == (task.length,):
        few = _task_at(task, task.places[:half])
        text = f"{task.length} positions after a first call for {half}"
        yield FurtherCall(text, (task,), _reader(request), few, few)


def _task_at(task: FunctionTask, places: NumberArray) -> FunctionTask:
    """Return the task at other positions: (n,), or (b, n) for b sequences."""
    sequences = len(places) if places.ndim > 1 else 1
    return replace(task, places=places, length=places.shape[-1], sequences=sequences)


def _reader(
    request: ValueRequest, *sequences: NumberArray
) -> Callable[[Loaded], list[ValueSubject]]:
    """Return a reader of values for sequences at these positions.

    Without sequences, it reads values at the positions of ``request``, and raises WrongShape for
    values that the request cannot read, such as those of other heads.
    """
    requests = [replace(request, positions=positions_from(places)) for places in sequences]

    def subjects(loaded: Loaded) -> list[ValueSubject]:
        parts = _sequence_values(request, sequences, loaded.values)
        try:
            return [
                each.subject(replace(loaded, values=part))
                for each, part in zip(requests or [request], parts, strict=True)
            ]
        except InvalidInput as error:
            raise error if sequences else WrongShape(error.message) from None

    return subjects


def _sequence_values(
    request: ValueRequest, sequences: tuple[NumberArray, ...], values: NumberArray
) -> list[NumberArray]:
    """Return the values of each sequence.

    Raises: WrongShape.
    """
    count = len(sequences)
    if count < 2:
        return [values]
    axes = {"buckets": 2, "scores": 4}.get(request.form or "", 3)
    each = int(request.given.get("heads", 1)) if axes == 4 else np.size(sequences[0])
    if values.ndim == axes - 1 and len(values) == count * each:
        # diffusers returns rows of sequences one after another, Bloom heads
        values = values.reshape(count, -1, *values.shape[1:])
    elif not np.ptp(sequences, axis=0).any() and (values.ndim < axes or len(values) == 1):
        table = values if values.ndim < axes else values[0]  # one table for all sequences
        values = np.stack([table] * count)
    if len(values) != count or values.ndim < axes:
        raise WrongShape(f"returned an array of shape {values.shape}")
    return list(values)
