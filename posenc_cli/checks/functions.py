"""A user's function that gives rows, scores, slopes or buckets: called by its parameters' names."""

from __future__ import annotations

from itertools import islice, product
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from posenc_cli.calls.answers import returned_arrays
from posenc_cli.calls.call_form import Argument, CallForm
from posenc_cli.calls.called_function import CalledFunction
from posenc_cli.calls.function_here import FunctionHere
from posenc_cli.calls.function_process import FunctionProcess
from posenc_cli.calls.function_trial import ALIKE, UNSTEADY
from posenc_cli.calls.payloads import Payload
from posenc_cli.calls.roles import roles_of
from posenc_cli.checks.values import is_right
from posenc_cli.errors import InvalidInput
from posenc_cli.files.reading import Loaded
from posenc_cli.inference.tolerance import unit
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.calls.signature import CallRequest, NamedParameter
    from posenc_cli.numerics.arrays import NumberArray

_WIDTHS = ("d_model", "embed_dim", "embedding_dim", "hidden_size", "n_embd", "channels", "d")
_HEADS = ("num_attention_heads", "n_heads", "num_heads", "n_head", "nheads", "heads")
_PLACES = (
    *("timesteps", "timestep", "relative_position", "relative_positions", "rel_pos", "relative"),
    *("offsets", "distance", "distances", "pos", "time", "steps"),
)
_LENGTHS = (
    *("n", "num_positions", "n_positions", "max_length", "num_embeddings", "query_length", "qlen"),
    *("key_length", "klen", "q_len", "k_len", "query_len", "key_len", "size", "l"),
)
_SIDES = {
    **dict.fromkeys(("h", "height", "rows", "grid_h", "ny"), 0),
    **dict.fromkeys(("w", "width", "columns", "cols", "grid_w", "nx"), -1),
}
_SIZES = ("grid_size", "grid", "shape", "hw", "window", "window_size", "feat_shape")
_MOST_TRIES = 12
"""Calls that are tried at most, of a function whose parameters' names say too little."""


class FunctionTask(Record):
    """What a function is to give: values at places, so many positions of a sequence, for settings.

    ``sides`` are those of a grid or a window, ``width`` the columns of rows.
    """

    places: NumberArray
    length: int
    settings: Mapping[str, Any]
    sides: tuple[int, ...] = ()
    width: int = 1
    form: str = "rows"


class _ToldReference(Record):
    """What a class of a user's is told where it is made: the settings, by many names."""

    pairs: int
    params: Mapping[str, Any]
    head: int
    coordinates: None = None

    @classmethod
    def of(cls, task: FunctionTask) -> _ToldReference:
        named = {
            name: value
            for name, value in task.settings.items()
            if isinstance(value, int | float) and value is not None
        }
        named |= dict.fromkeys(_WIDTHS, task.width)
        named |= dict.fromkeys(_HEADS, named.get("heads", 1))
        return cls(max(1, (task.width + 1) // 2), named, task.width)


class _NamedCalls(CalledFunction):
    """A function that is called with any arguments."""

    def result(self, payload: Payload, places: NumberArray) -> list[Any]:
        """The arrays that it returns.

        Raises: InvalidInput.
        """
        answer, data = self._exchanged(payload, positions=np.abs(places).astype(np.int64))
        return returned_arrays(answer, data)


class _InProcess(_NamedCalls, FunctionProcess):
    """One in a process of its own."""


class _Here(_NamedCalls, FunctionHere):
    """One of this process."""


def function_values(
    target: str | Callable[..., Any],
    task: FunctionTask,
    accepts: Callable[[Loaded], Any],
    asked: CallRequest,
) -> tuple[Any, str]:
    """What ``accepts`` makes of the values of a function, and how it was called.

    Raises: InvalidInput where no call gives values that are accepted, Unavailable.
    """
    reference = cast("Any", _ToldReference.of(task))
    context = int(max(task.length, np.abs(task.places).max() + 1))
    called: _NamedCalls
    if isinstance(target, str):
        called = _InProcess(target, reference, asked, context=context)
    else:
        called = _Here(target, reference, asked, context=context)
    refused: list[InvalidInput] = []
    accepted: list[tuple[Any, str]] = []
    try:
        called.start()
        for arguments in islice(_calls(called, task), _MOST_TRIES):
            try:
                first, text = _values(called, arguments, task)
                subject = accepts(first)
            except InvalidInput as error:
                refused.append(error)
                continue
            again, _ = _values(called, arguments, task)
            if not _near(again.values, first.values, ALIKE):
                raise called.invalid(UNSTEADY, hint="dropout? call .eval() before the check")
            subject = _of_vectors(called, arguments, task, subject, accepts)
            if not any(_is_carried(value) for _, value in arguments):
                return subject, text
            if is_right(subject):
                notes = (*subject.notes, *([_OTHER_ORDER] if accepted else []))
                return replace(subject, notes=notes), text
            accepted.append((subject, text))
    finally:
        called.end()
    if accepted:
        return accepted[0]
    if refused:
        raise refused[0]
    raise called.invalid("takes no parameter that posenc knows", hint=_HINT)


def _values(
    called: _NamedCalls, arguments: list[tuple[NamedParameter, Any]], task: FunctionTask
) -> tuple[Loaded, str]:
    """The one array that a call returns, and how a reader is told of the call."""
    payload, text = _payload(called, arguments)
    results = called.result(payload, task.places)
    if len(results) != 1:
        raise called.invalid(f"returned {len(results)} arrays, and one is compared")
    return Loaded(results[0].values, results[0].dtype, called.target), text


def _near(found: NumberArray, wanted: NumberArray, share: float, size: Any = 0.0) -> bool:
    """Whether values are those wanted, up to a share of them and of another size."""
    if found.shape != wanted.shape:
        return False
    with np.errstate(all="ignore"):
        close = np.abs(found - wanted) <= share * (np.abs(wanted) + size)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    return bool((same | (close & np.isfinite(wanted))).all())


def _of_vectors(
    called: _NamedCalls,
    arguments: list[tuple[NamedParameter, Any]],
    task: FunctionTask,
    subject: Any,
    accepts: Callable[[Loaded], Any],
) -> Any:
    """A subject that was given zeros to add to, tried with noise: what it adds must be the same."""
    carried = [value.shape for _, value in arguments if _is_carried(value)]
    if not carried:
        return subject
    tried = []
    for scale in (0.0, *_SCALES):
        noise = np.random.default_rng(20).standard_normal(carried[0]).astype(np.float32)
        noise *= np.float32(scale)
        given = [(own, noise if _is_carried(value) else value) for own, value in arguments]
        loaded, _ = _values(called, given, task)
        x = np.zeros(1) if noise.size != loaded.values.size else noise.reshape(loaded.values.shape)
        tried.append((loaded, np.asarray(loaded.values, np.float64), x.astype(np.float64)))
    rows = tried[0][1]
    share = 4 * unit(max(tried[0][0].dtype, "float32", key=unit))
    if all(_near(y, rows, share) for _, y, _ in tried):
        text = "the result does not contain the input, which only gives the shape"
        return replace(subject, notes=(*subject.notes, text))
    for loaded, y, x in tried:
        if not _near(y - x, rows, share, np.abs(x)):
            wrong = accepts(replace(loaded, values=y - x))
            e = replace(wrong.expected, slack=share * float(np.abs(x).max()))
            if task.form == "rows" and e.found.size == x.size:
                e = replace(e, vectors=x.reshape(e.found.shape))
            return replace(wrong, expected=e, notes=(*wrong.notes, _NOT_ADDED))
    return subject


def _is_carried(value: Any) -> bool:
    """Whether an argument is what values are added to: vectors, or scores of heads."""
    return isinstance(value, np.ndarray) and value.ndim > 2


_SCALES = (1.0, 64.0)
"""Sizes of the noise that values are added to: what bends, clips or scales it shows at one."""
_OTHER_ORDER = "values differ where the batch comes before the positions in the input"
_NOT_ADDED = "the input is normal noise: compared is the result minus the input"
_SCORES = ("scores", "attn_scores", "attention_scores", "attn_weights", "attn_logits", "logits")
_HINT = "a dump always works: numpy.save its values, and check the file"


def _calls(called: _NamedCalls, task: FunctionTask) -> Iterator[list[tuple[NamedParameter, Any]]]:
    """What each parameter may be given, the likeliest first."""
    parameters = [given for given in called.signature.parameters or () if not given.variable]
    options = []
    for given in parameters:
        known = _by_name(given.name, task)
        if known is not None:
            options.append([(given, known)])
            if task.form == "rows" and _is_carried(known):  # batches come second, too
                options[-1].append((given, known.swapaxes(0, 1)))
        elif given in called.signature.required:
            options.append([(given, value) for value in _by_guess(task)])
    yield from map(list, product(*options))


def _by_name(name: str, task: FunctionTask) -> Any:
    """What a parameter of this name is given; None where the name says nothing."""
    key = name.lower().strip("_")
    heads = task.settings.get("heads")
    if task.form == "scores" and key in _SCORES:
        return np.zeros((1, heads, task.length, task.length), np.float32)
    named: dict[str, Any] = {
        **dict.fromkeys(_LENGTHS, heads if task.form == "slopes" else task.length),
        **dict.fromkeys(_PLACES, task.places),
        **dict.fromkeys(_WIDTHS, task.width),
        **dict.fromkeys(_HEADS, heads),
        **(dict.fromkeys(_SIZES, task.sides) if task.sides else {}),
        **({side: task.sides[axis] for side, axis in _SIDES.items()} if task.sides else {}),
        **task.settings,
    }
    if named.get(key) is not None:
        return named[key]
    of_roles = {
        "x": np.zeros((1, task.length, task.width), np.float32),
        **dict.fromkeys(("positions", "t"), task.places),
        "length": task.length,
        "dim": task.width,
        "heads": heads,
        "base": task.settings.get("base"),
    }
    return next((of_roles[role] for role in roles_of(name) if role in of_roles), None)


def _by_guess(task: FunctionTask) -> list[Any]:
    """What a parameter may be whose name says nothing."""
    if task.form == "slopes":
        return [task.settings.get("heads")]
    if task.form == "buckets":
        return [task.places]
    return [task.places, task.length, task.width]


def _payload(
    called: _NamedCalls, arguments: list[tuple[NamedParameter, Any]]
) -> tuple[Payload, str]:
    """A request of these arguments, and how a reader is told of it."""
    library = called.signature.libraries[0]
    names = [given.name for given, _ in arguments]
    of_all = called.signature.parameters or ()
    gap = next((place for place, each in enumerate(of_all) if each.name not in names), len(of_all))
    in_order = {each.name for each in of_all[:gap] if not each.by_name}
    arguments = [
        (given, value)
        for given, value in arguments
        if given.name in in_order or given.kind != "POSITIONAL_ONLY"
    ]
    named = tuple(  # those behind one that is left at its default by name
        Argument("", given.name, None if given.name in in_order else given.name)
        for given, _ in arguments
    )
    payload = Payload(CallForm(named, library, 1), in_place=False)
    for argument, (_, value) in zip(named, arguments, strict=True):
        if isinstance(value, np.ndarray):
            payload.add(argument, payload.array(value))
        elif isinstance(value, tuple):
            payload.add(argument, {"tuple": [{"value": part} for part in value]})
        else:
            payload.add(argument, {"value": value})
    texts = [f"{given.name}={_text(value)}" for given, value in arguments]
    return payload, f"{called.signature.name}({', '.join(texts)})"


def _text(value: Any) -> str:
    return f"an array of {value.shape}" if isinstance(value, np.ndarray) else str(value)
