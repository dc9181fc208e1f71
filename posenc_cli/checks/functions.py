"""A user's function that gives rows, scores, slopes or buckets, called by parameter names."""

from __future__ import annotations

from functools import partial
from itertools import islice, product
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from posenc_cli.calls.call_form import Argument, CallForm
from posenc_cli.calls.called_function import WrongShape
from posenc_cli.calls.function_process import called_function
from posenc_cli.calls.function_trial import ALIKE, UNSTEADY
from posenc_cli.calls.payloads import Payload
from posenc_cli.calls.roles import roles_of
from posenc_cli.checks.values import is_right
from posenc_cli.errors import InvalidInput
from posenc_cli.files.reading import Loaded
from posenc_cli.inference.tolerance import unit
from posenc_cli.numerics.rounding import bits_of_bfloat16, singles_to_bfloat16
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Literal, TypeAlias

    from posenc_cli.calls.called_function import CalledFunction
    from posenc_cli.calls.signature import CallRequest, NamedParameter
    from posenc_cli.numerics.arrays import NumberArray, RealRows

    Make: TypeAlias = "Callable[[FunctionTask], Any]"
    """What gives a parameter its value in a task."""
    Arguments: TypeAlias = "list[tuple[NamedParameter, Make]]"
    Given: TypeAlias = "list[tuple[NamedParameter, Any]]"

_WIDTHS = (
    *("d_model", "embed_dim", "embedding_dim", "hidden_size", "n_embd", "channels", "d"),
    *("d_hid", "depth", "num_channels", "demb"),
)
_BASES = ("max_period", "temperature", "max_timescale")
_HEADS = ("num_attention_heads", "n_heads", "num_heads", "n_head", "nheads", "heads")
_PLACES = (
    *("timesteps", "timestep", "relative_position", "relative_positions", "rel_pos", "relative"),
    *("offsets", "distance", "distances", "pos", "time", "steps"),
)
_QUERIES = (
    *("query_length", "qlen", "q_len", "query_len", "query_size", "length_q", "q_length"),
    *("seqlen_q", "seq_len_q", "q_seq_len"),
)
_LENGTHS = (
    "n",
    *("num_positions", "n_positions", "n_position", "n_pos", "max_length", "num_embeddings"),
    *("key_length", "klen", "k_len", "key_len", "key_size", "length_k", "k_length", "size", "l"),
    *("seqlen_k", "seq_len_k", "k_seq_len"),
)
_QUERY_PLACES = ("pos_i", "query_positions", "q_positions", "q_pos", "query_pos")
_KEY_PLACES = ("pos_j", "key_positions", "k_positions", "k_pos", "key_pos")
_BATCHES = ("batch_size", "bsz")
_DROPOUTS = ("dropout", "dropout_rate", "dropout_prob", "dropout_p", "p_dropout", "drop_prob")
_TOKENS = ("input_ids", "token_ids", "tokens")
_SETTINGS = {
    "alibi_bias_max": "max_bias",
    "relative_attention_num_buckets": "num_buckets",
    "relative_attention_max_distance": "max_distance",
}
"""Settings of schemes by the names that libraries give them."""
_SIDES = {
    **dict.fromkeys(("h", "height", "rows", "grid_h", "ny"), 0),
    **dict.fromkeys(("w", "width", "columns", "cols", "grid_w", "nx"), -1),
}
_SIZES = ("grid_size", "grid", "shape", "hw", "window", "window_size", "feat_shape")
_USUAL_BASE = ("10000", "10000.0")
_MOST_TRIES = 12
"""Calls that are tried at most if the names of parameters say too little."""


class FunctionTask(Record):
    """What a function is asked for: values at ``places``, for ``length`` positions and settings.

    ``sides`` are those of a grid or a window, ``width`` the number of columns of rows. Places (b,
    n) are those of b sequences. ``queries`` counts the last positions that are queries; None means
    all. ``dtype`` is the number format of vectors.
    """

    places: NumberArray
    length: int
    settings: Mapping[str, Any]
    sides: tuple[int, ...] = ()
    width: int = 1
    form: str = "rows"
    sequences: int = 1
    queries: int | None = None
    dtype: str = "float32"

    @property
    def start(self) -> int:
        """The first position of the first sequence."""
        return int(self.places.flat[0])

    @property
    def carrier(self) -> str:
        """The number format of the array that carries vectors or scores."""
        return "float32" if self.dtype == "bfloat16" else self.dtype


class _DtypeName(str):
    """The name of a number format, which is passed as the framework's own."""

    __slots__ = ()


class _IgnoredFormat(InvalidInput):
    """A function returned a wider number format than the one that it was given."""


class FurtherCall(Record):
    """A call that models make beside the first: its name, and what reads its result.

    If there are several ``tasks``, their rows are joined. The call shows nothing if a function gets
    the same arguments as for the task ``unlike``. The task ``first`` is a new process' first call.
    """

    text: str
    tasks: tuple[FunctionTask, ...]
    accepts: Callable[[Loaded], list[Any]]
    unlike: FunctionTask
    first: FunctionTask | None = None


class _ToldReference(Record):
    """The settings that a user's class is made with, under many names."""

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
        named |= dict.fromkeys(_WIDTHS, task.width) | dict.fromkeys(_DROPOUTS, 0.0)
        named |= dict.fromkeys(_LENGTHS[1:], int(np.abs(task.places).max()) + 1)
        named |= dict.fromkeys(_HEADS, named.get("heads", 1))
        return cls(max(1, (task.width + 1) // 2), named, task.width)


def function_values(
    target: str | Callable[..., Any],
    task: FunctionTask,
    accepts: Callable[[Loaded], Any],
    asked: CallRequest,
    further: Callable[[], Iterator[FurtherCall]] = lambda: iter(()),
) -> tuple[Any, str]:
    """Return what ``accepts`` makes of a function's values, and how it was called.

    If the values are right, the ``further`` calls are checked too, and the first wrong subject is
    returned.

    Raises: InvalidInput if no call gives values that are accepted; Unavailable.
    """
    reference = cast("Any", _ToldReference.of(task))
    context = int(max(task.length, np.abs(task.places).max() + 1))
    called = called_function(target, reference, asked, context=context)
    try:
        called.start()
        return _likeliest(called, task, accepts, further)
    finally:
        called.end()


def _likeliest(
    called: CalledFunction,
    task: FunctionTask,
    accepts: Callable[[Loaded], Any],
    further: Callable[[], Iterator[FurtherCall]],
) -> tuple[Any, str]:
    """The subject of the first right call, or else of the likeliest, and its text."""
    unknown = [
        own.name
        for own in called.signature.required
        if _by_name(own.name, task) is None and "mask" not in roles_of(own.name)
    ]
    if unknown:
        names = ", ".join(unknown)
        show = (
            "name does not show its role" if len(unknown) == 1 else "names do not show their roles"
        )
        raise called.invalid(f"needs {names}, whose {show}", hint=_WRAP)
    refused, accepted, usual_refused = list[InvalidInput](), list[tuple[Any, str]](), False
    for arguments in islice(_calls(called, task), _MOST_TRIES):
        carried = [value for _, value in _given(arguments, task) if _is_carried(value)]
        if accepted and any(x.ndim == 2 for x in carried):  # batches have judged it
            continue
        try:
            subject, text = _judged(called, arguments, task, accepts)
        except InvalidInput as error:
            if error.code == "unsteady":  # fails in every form
                raise
            usual_refused |= not accepted
            refused.append(error)
            continue
        if is_right(subject):
            subject = _called_further(called, arguments, subject, task, further)
            notes = (_OTHER_ORDER,) if accepted and carried else ()
            return replace(subject, notes=(*subject.notes, *notes)), text
        accepted.append((subject, text))
    if usual_refused and all(own.misfit for own, _ in accepted):
        hint = "; or ".join(filter(None, (refused[0].hint, _HINT)))
        raise InvalidInput(refused[0].message, hint=hint)
    if not accepted:
        raise called.invalid("has no parameter that posenc knows", hint=_HINT)
    return next(filter(_of_distinct_rows, accepted), accepted[0])


def _of_distinct_rows(accepted: tuple[Any, str]) -> bool:
    """Whether a wrong call is one that users probably make: its rows differ from one another."""
    subject, e = accepted[0], accepted[0].expected
    alike = e.form == "rows" and bool(np.ptp(e.found, axis=0).max() <= ALIKE)
    return not (subject.misfit or alike)


def _judged(
    called: CalledFunction,
    arguments: Arguments,
    task: FunctionTask,
    accepts: Callable[[Loaded], Any],
) -> tuple[Any, str]:
    """The subject that a call gives, and the text of the call.

    Raises: InvalidInput if it is not accepted, or a second call gives other values.
    """
    given = _given(arguments, task)
    first, text = _values(called, given, task)
    subject = accepts(first)
    again, _ = _values(called, given, task)
    if not _near(again.values, first.values, ALIKE):
        raise called.invalid(UNSTEADY, hint=_DROPOUT, code="unsteady")
    return _of_vectors(called, arguments, task, subject, accepts), text


def _values(called: CalledFunction, arguments: Given, task: FunctionTask) -> tuple[Loaded, str]:
    """The one array that a call returns, and the text of the call."""
    if not called.lives:  # it ended its process
        called.renew()
    payload, text = _payload(called, arguments, task.dtype)
    results = called.arrays(payload, np.abs(task.places).astype(np.int64))
    if len(results) != 1:
        raise called.invalid(f"returned {len(results)} arrays; posenc compares one")
    if not results[0].values.size:
        raise called.invalid(f"returned no values: an array of {results[0].values.shape}")
    return Loaded(results[0].values, results[0].dtype, called.target), text


def _near(found: NumberArray, wanted: NumberArray, share: float, size: Any = 0.0) -> bool:
    """Whether values equal those wanted, up to a share of them and of another size."""
    with np.errstate(all="ignore"):
        return found.shape == wanted.shape and np.allclose(
            found, wanted, rtol=share, atol=share * size, equal_nan=True
        )


def _of_vectors(
    called: CalledFunction,
    arguments: Arguments,
    task: FunctionTask,
    subject: Any,
    accepts: Callable[[Loaded], Any],
) -> Any:
    """Add to noise, not to zeros: the added values must be the same."""
    if not _carried(arguments, task):
        return subject
    tried = [_with_noise(called, arguments, task, scale) for scale in (0.0, *_SCALES)]
    silent = tried[0]
    share = 4 * unit(max(silent.loaded.dtype, "float32", key=unit))
    if all(_near(each.values, silent.values, share) for each in tried):
        return replace(subject, notes=(*subject.notes, _SHAPE_ONLY))
    for each in tried:
        x, added = each.noise, each.values - each.noise
        if not _near(added, silent.values, share, np.abs(x)):
            wrong = accepts(replace(each.loaded, values=added))
            e = replace(wrong.expected, slack=share * float(np.abs(x).max()))
            if task.form == "rows" and e.found.size == x.size:
                e = replace(e, vectors=x.reshape(e.found.shape))
            return replace(wrong, expected=e, notes=(*wrong.notes, _NOT_ADDED))
    return subject


class _OfNoise(Record):
    """What a call returned, its values in float64, and the noise that it was given."""

    loaded: Loaded
    values: RealRows
    noise: RealRows


def _with_noise(
    called: CalledFunction, arguments: Arguments, task: FunctionTask, scale: float
) -> _OfNoise:
    """The result of a call with noise for vectors or scores."""
    noise: NumberArray = np.zeros(1)
    given = []
    for own, value in _given(arguments, task):
        if _is_carried(value):
            drawn = np.random.default_rng(20).standard_normal(value.shape).astype(value.dtype)
            noise = singles_to_bfloat16(drawn) if task.dtype == "bfloat16" else drawn
            noise *= value.dtype.type(scale)
        given.append((own, noise if _is_carried(value) else value))
    loaded, _ = _values(called, given, task)
    x = np.zeros(1) if noise.size != loaded.values.size else noise.reshape(loaded.values.shape)
    return _OfNoise(loaded, np.asarray(loaded.values, np.float64), x.astype(np.float64))


def _called_further(
    called: CalledFunction,
    arguments: Arguments,
    subject: Any,
    task: FunctionTask,
    further: Callable[[], Iterator[FurtherCall]],
) -> Any:
    """The first wrong subject of further calls, or the given one, with notes on what was tried."""
    told = _Told()
    for way, given in _ways(arguments, task):
        for call in further():
            text = call.text + way
            try:
                if _tells_nothing(called, given, call):
                    continue
                _begin(called, given, call)
                found = _of_call(called, given, subject, call)
            except _IgnoredFormat as error:
                told.untested.append(error.message)
            except InvalidInput as error:
                of_attention = call.tasks[0].form == "buckets" and call.tasks[0].places.ndim > 1
                shaped = isinstance(error, WrongShape) and not _starts_of_each(given, call)
                if of_attention or shaped or call.first:
                    told.untested.append(text)
                told.refused.append(f"{text} ({called.reason(error)})")
            else:
                placed = told.tried or any(_is_offset(own.name) for own, _ in given)
                kind = _outcome(found, subject, call, given, placed=bool(placed))
                if kind == "wrong":
                    return replace(found, call=text)
                told.note(kind, text)
    told.untested.extend([subject.untested, *_left(called, arguments, task, told.tried)])
    leaks = _carried(arguments, task) and _SHAPE_ONLY not in subject.notes
    return _with_notes(subject, told, leaks=leaks)


class _Told(Record):
    """What to say of further calls, by what came of them."""

    tried: list[str] = fresh(list)
    refused: list[str] = fresh(list)
    untested: list[str] = fresh(list)

    def note(self, kind: Literal["first", "untested", "refused", "tried"], text: str) -> None:
        """Note a call by what its values show, see `_outcome`."""
        if kind == "tried":
            self.tried.append(text)
        elif kind == "refused":
            self.refused.append(text)
        else:
            self.untested.append(_FIRST_QUERIES if kind == "first" else text)


def _with_notes(subject: Any, told: _Told, *, leaks: bool) -> Any:
    """The subject, with notes on its further calls."""
    notes = [*subject.notes]
    if told.tried:
        notes.append(f"also right for {', '.join(told.tried)}")
    if told.refused:
        notes.append(f"not tried: {', '.join(told.refused)}")
    if leaks and subject.expected.dtype == "float64":
        notes.append("returns float64 for float32 input")
    distinct = ", ".join(dict.fromkeys(filter(None, told.untested)))
    return replace(subject, notes=tuple(notes), untested=distinct)


def _outcome(
    found: Any, subject: Any, call: FurtherCall, arguments: Arguments, *, placed: bool
) -> Literal["wrong", "first", "untested", "refused", "tried"]:
    """What the values of a further call show.

    ``placed`` says that the function was seen to follow positions or lengths. Then scores of the
    first queries in place of the last are wrong.
    """
    queries = call.tasks[0].queries
    if found.misfit or (queries and queries != found.expected.found.shape[-2]):
        # A table of one length may be added to another; most code takes one first position.
        return "refused" if _starts_of_each(arguments, call) else "untested"
    if not is_right(found):
        return "first" if queries and not placed and _are_first(found, subject) else "wrong"
    same = np.array_equal(found.expected.right(), subject.expected.right())
    return "untested" if "=" in call.text and same else "tried"


def _left(
    called: CalledFunction, arguments: Arguments, task: FunctionTask, tried: list[str]
) -> Iterator[str]:
    """What no call varied: lengths, padding, and parameters that keep their default."""
    of_length = [
        text
        for text in tried
        if not any(part in text for part in ("float", "=", "after a first call"))
        or text.startswith(("grid", "window"))
    ]
    if not of_length and task.form in ("rows", "scores"):
        yield "calls of other lengths or batches"
    names = {own.name for own, _ in arguments}
    if task.form != "scores" and any(n in _QUERIES or "q" in roles_of(n) for n in names):
        yield "fewer queries than keys"  # DeBERTa returns the first queries, others the last
    if any("mask" in roles_of(name) for name in names):
        yield "masks with padding"
    left = [own for own in called.signature.parameters or () if own.name not in names]
    yield from (own.name for own in left if own.affects_values)
    yield from called.left_at_default


def _ways(arguments: Arguments, task: FunctionTask) -> Iterator[tuple[str, Arguments]]:
    """A call, and the same without positions if these are optional beside a first position."""
    yield "", arguments
    ids = [own.name for own, make in arguments if own.default and make(task) is task.places]
    if ids and any(_is_offset(own.name) for own, _ in arguments):
        yield (
            f" without {', '.join(ids)}",
            [
                (own, _first_position if _is_offset(own.name) else make)
                for own, make in arguments
                if own.name not in ids
            ],
        )


def _tells_nothing(called: CalledFunction, arguments: Arguments, call: FurtherCall) -> bool:
    """Whether arguments are the same as before, or of a format that the framework lacks."""
    task = call.tasks[0]
    if task.dtype == call.unlike.dtype:
        pairs = [[np.asarray(make(own)) for own in (task, call.unlike)] for _, make in arguments]
        return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)
    no_format = "bfloat16" in task.dtype and called.signature.libraries[0] == "numpy"
    return no_format or not (_carried(arguments, task) or _format_in(arguments, task))


def _begin(called: CalledFunction, arguments: Arguments, call: FurtherCall) -> None:
    """Make the first call of a new process, if the call asks for one."""
    if call.first is not None:
        called.renew()
        _values(called, _given(arguments, call.first), call.first)


def _of_call(called: CalledFunction, arguments: Arguments, subject: Any, call: FurtherCall) -> Any:
    """The subject of a further call. If the result contains the input, the input is noise.

    Raises: InvalidInput.
    """
    task = call.tasks[0]
    results = [_with_noise(called, arguments, each, 1.0) for each in call.tasks]
    loaded = results[0].loaded
    if _format_in(arguments, task) and unit(loaded.dtype) < unit(task.dtype):
        raise _IgnoredFormat(f"dtype (results are {loaded.dtype}, not {task.dtype})")
    alike = results[0].values.size == results[0].noise.size
    added = alike and _SHAPE_ONLY not in subject.notes
    with np.errstate(invalid="ignore"):
        values = [each.values - each.noise if added else each.values for each in results]
    if len(values) > 1 and len({each.shape[-1] for each in values}) > 1:
        raise InvalidInput("returned arrays of other widths")
    if len(values) > 1:
        values = [np.concatenate([each.reshape(-1, each.shape[-1]) for each in values])]
    every = call.accepts(replace(loaded, values=_batch_first(arguments, task, values[0])))
    if added:
        share = 4 * unit(max(loaded.dtype, "float32", key=unit))
        largest = max(float(np.abs(each.noise).max()) for each in results)
        if task.form == "scores" and task.dtype != "float32":  # the added values are rounded too
            largest += float(np.abs(every[0].expected.right()).max())
        every = [
            replace(each, expected=replace(each.expected, slack=share * largest)) for each in every
        ]
    found = next((each for each in every if each.misfit or not is_right(each)), every[-1])
    x = np.concatenate([each.noise.reshape(-1, each.noise.shape[-1]) for each in results])
    if added and found.expected.form == "rows" and found.expected.found.shape == x.shape:
        found = replace(found, expected=replace(found.expected, vectors=x))
    if added and task.form == "rows" and task.dtype != "float32" and is_right(found):
        # noise hides one half precision in place of another
        bare = _with_noise(called, arguments, task, 0.0)
        dtype = max(bare.loaded.dtype, task.dtype, key=unit)
        rows = _batch_first(arguments, task, bare.values)
        every = call.accepts(replace(bare.loaded, values=rows, dtype=dtype))
        found = next((each for each in every if not is_right(each)), found)
    return found


def _batch_first(arguments: Arguments, task: FunctionTask, values: NumberArray) -> NumberArray:
    """Move the axis of sequences to the front if the vectors had it after the positions."""
    after = any(isinstance(make, partial) and make.keywords.get("batch") for _, make in arguments)
    swapped = after and task.sequences > 1 and values.ndim > 2
    return values.swapaxes(0, 1) if swapped else values


def _format_in(arguments: Arguments, task: FunctionTask) -> bool:
    """Whether a function is told the number format of its result."""
    return any(isinstance(value, _DtypeName) for _, value in _given(arguments, task))


def _are_first(found: Any, subject: Any) -> bool:
    """Whether the scores of the last queries are those of the first ones.

    transformers' T5 returns these, and its caller drops the queries of the cache.
    """
    few, whole = found.expected.found, subject.expected.found
    return _near(few, whole[:, : few.shape[1]], ALIKE)


def _carried(arguments: Arguments, task: FunctionTask) -> bool:
    """Whether the call has vectors or scores to add to."""
    return any(_is_carried(value) for _, value in _given(arguments, task))


def _given(arguments: Arguments, task: FunctionTask) -> Given:
    """The argument of each parameter for a task."""
    return [(own, make(task)) for own, make in arguments]


def _is_carried(value: Any) -> bool:
    """Whether an argument is an array to add to: vectors, or scores of heads."""
    return isinstance(value, np.ndarray) and value.ndim > 1 and value.dtype.kind == "f"


_SHAPE_ONLY = "the result does not contain the input; only its shape is used"
_FIRST_QUERIES = "fewer queries than keys (the function returns scores of the first queries)"
_SCALES = (1.0, 64.0)
"""Sizes of the noise that values are added to: one of them shows what bends, clips or scales it."""
_DROPOUT = "dropout? call .eval() on an instance in the file, and check that instance by name"
_OTHER_ORDER = "values differ if the batch comes before the positions in the input"
_NOT_ADDED = "the input is normal noise; posenc compares the result minus the input"
_SCORES = (
    *("scores", "attn_scores", "attention_scores", "attn_weights", "attn_logits", "logits"),
    *("attn", "dots", "qk_dots"),
)
_HINT = "save its values with numpy.save, and check the file"
_WRAP = f"wrap it in a function of positions, x or scores that calls it; or {_HINT}"


def _calls(called: CalledFunction, task: FunctionTask) -> Iterator[Arguments]:
    """The arguments that the parameters may get, the likeliest first."""
    parameters = [given for given in called.signature.parameters or () if not given.variable]
    begins = any(_is_offset(given.name) for given in parameters)
    placed = any(_by_name(given.name, task) is task.places for given in parameters)
    counted = placed or any(
        given.name in _LENGTHS[1:] or "length" in roles_of(given.name) for given in parameters
    )
    of_fairseq = any(given.name == "incremental_state" for given in parameters)
    options: list[list[tuple[NamedParameter, Make]]] = []
    for given in parameters:
        of_base = counted and given.name == "n" and given.default in _USUAL_BASE
        make: Make = partial(_by_name, "base" if of_base else given.name)
        required = given in called.signature.required
        if "mask" in roles_of(given.name):
            if required:
                options.append([(given, partial(_mask, begins))])
        elif of_fairseq and "positions" in roles_of(given.name):
            continue  # rows of the table, padding included
        elif make(task) is not None:
            makes = [make, *_others(given.name, task, required)]
            if placed and _is_offset(given.name):  # positions are complete by themselves
                makes[0] = lambda _: 0
            rows = task.settings.get("offset", "") if given.name == "offset" else ""
            if given.default == str(rows) or (rows and placed and required):
                makes.append(lambda task: task.settings["offset"])  # unused rows of a table
            options.append([(given, each) for each in makes])
    for chosen in product(*options):
        names = {given.name for given, _ in chosen}
        gap = next((at for at, each in enumerate(parameters) if each.name not in names), None)
        late = {each.name for each in parameters[gap:] if each.kind == "POSITIONAL_ONLY"}
        yield [(given, make) for given, make in chosen if gap is None or given.name not in late]


def _others(name: str, task: FunctionTask, required: bool) -> list[Make]:
    """Other arguments that a parameter of a known name may get."""
    known = _by_name(name, task)
    if _is_carried(known) and roles_of(name) == ("x",):
        if task.form == "scores":  # x may be vectors, which give the lengths
            return [_vectors]
        grids = [_grids] if len(task.sides) > 1 else []
        ids = [_tokens, lambda task: task.places]  # of tokens, or of positions
        return [*(partial(_vectors, batch=at) for at in (1, None)), *grids, *ids]
    if isinstance(known, tuple) and len({*known}) == 1:  # the side of a square
        return [lambda task: _by_name(name, task)[0]]
    if name == "width" and task.sides:  # number of columns: big_vision's grid is h and w
        return [lambda task: task.width]
    batch = [lambda task: task.places[None] if task.places.ndim == 1 else task.places]
    return [lambda task: task.length, *batch] if required and known is task.places else []


def _mask(begins: bool, task: FunctionTask) -> NumberArray:
    """True for each position, and for earlier ones if the function is told that there are some."""
    before = task.start if begins else 0
    return np.ones((task.sequences, before + task.length), np.int64)


def _by_name(name: str, task: FunctionTask) -> Any:
    """The argument that the name of a parameter suggests; None if it suggests none."""
    key = name.lower().strip("_")
    heads = task.settings.get("heads")
    if task.form == "scores" and (key in _SCORES or "x" in roles_of(name)):
        return _scores(task)
    if _is_offset(name):
        return _first_position(task)
    if key == "pos_seq" and task.places.min() < 0:  # Transformer-XL's distances
        return -task.places[task.places <= 0]
    queries = task.length if task.queries is None else task.queries
    named: dict[str, Any] = {
        **dict.fromkeys(_LENGTHS, heads if task.form == "slopes" else task.length),
        **dict.fromkeys(_QUERIES, queries),
        **(_of_keys(queries, task.length) if task.form == "scores" else {}),
        **dict.fromkeys(_QUERY_PLACES, task.places[task.length - queries :]),
        **dict.fromkeys((*_KEY_PLACES, *_PLACES, "pos_seq"), task.places),
        **dict.fromkeys(_WIDTHS, task.width),
        **dict.fromkeys(_HEADS, heads),
        **dict.fromkeys(_BASES, task.settings.get("base")),
        **dict.fromkeys(_BATCHES, task.sequences),
        **dict.fromkeys(_TOKENS, _tokens(task)),
        "input_ids_shape": (task.sequences, task.length),
        **(dict.fromkeys(_SIZES, task.sides) if task.sides else {}),
        **({side: task.sides[axis] for side, axis in _SIDES.items()} if task.sides else {}),
        **{name: own for name, own in task.settings.items() if name != "seq_len"},
    }
    key = _SETTINGS.get(key, key)
    return _by_role(name, task) if named.get(key) is None else named[key]


def _by_role(name: str, task: FunctionTask) -> Any:
    """The argument for what a parameter seems to be for; None if that is not known."""
    of_roles = {
        "dtype": _DtypeName(task.dtype),
        "x": _vectors(task),
        **dict.fromkeys(("positions", "t"), task.places),
        "length": task.length,
        "dim": task.width,
        "base": task.settings.get("base"),
    }
    if task.form == "buckets":  # DeBERTa's
        of_roles |= dict.fromkeys(("q", "k"), np.zeros((task.length, 1)))
    return next((of_roles[role] for role in roles_of(name) if role in of_roles), None)


def _of_keys(queries: int, keys: int) -> dict[str, Any]:
    """Arguments beside a number of keys, which count from 0: T5's cache_position is of queries."""
    return {"i": queries, "j": keys, "cache_position": np.arange(keys - queries, keys)}


def _vectors(task: FunctionTask, *, batch: int | None = 0) -> Any:
    """Zeros to add to; ``batch`` is the axis of sequences, None for no such axis."""
    x = np.zeros((task.sequences, task.length, task.width), task.carrier)
    return x[0] if batch is None else x.swapaxes(0, batch)


def _grids(task: FunctionTask) -> Any:
    """Zeros to add to, with the axes of a grid: (sequences, rows, columns, width)."""
    return _vectors(task).reshape(task.sequences, *task.sides, task.width)


def _scores(task: FunctionTask) -> Any:
    """Zeros for scores: (sequences, heads, queries, keys)."""
    queries = task.length if task.queries is None else task.queries
    heads = task.settings.get("heads", 1)
    return np.zeros((task.sequences, heads, queries, task.length), task.carrier)


def _tokens(task: FunctionTask) -> Any:
    """Ids of tokens (sequences, n), none of which is padding."""
    return np.full((task.sequences, task.length), 7, np.int64)


def _is_offset(name: str) -> bool:
    """Whether a parameter is the first position, not all of them."""
    return roles_of(name)[:1] == ("offset",)


def _starts_of_each(arguments: Arguments, call: FurtherCall) -> bool:
    """Whether a call has an array with the first position of each sequence."""
    task = call.tasks[0]
    return any(
        _is_offset(own.name) and isinstance(make(task), np.ndarray) for own, make in arguments
    )


def _first_position(task: FunctionTask) -> Any:
    """The first position, or that of each sequence (b,); for scores that of the first query."""
    if task.form != "rows":
        return task.length - (task.queries or task.length)
    starts = task.places.reshape(task.sequences, -1)[:, 0]
    return starts.astype(np.int64) if np.ptp(starts) else task.start


def _payload(called: CalledFunction, arguments: Given, dtype: str) -> tuple[Payload, str]:
    """The request with these arguments, and its text."""
    library = called.signature.libraries[0]
    names = [given.name for given, _ in arguments]
    of_all = called.signature.parameters or ()
    gap = next((place for place, each in enumerate(of_all) if each.name not in names), len(of_all))
    in_order = {each.name for each in of_all[:gap] if not each.by_name}
    named = tuple(  # parameters after one that keeps its default go by name
        Argument("", given.name, None if given.name in in_order else given.name)
        for given, _ in arguments
    )
    payload = Payload(CallForm(named, library, 1), in_place=False)
    for argument, (_, value) in zip(named, arguments, strict=True):
        if dtype == "bfloat16" and _is_carried(value):
            payload.add(argument, payload.array(bits_of_bfloat16(value)) | {"dtype": dtype})
        elif isinstance(value, np.ndarray):
            payload.add(argument, payload.array(value))
        elif isinstance(value, _DtypeName):
            payload.add(argument, payload.attribute("dtype", value))
        elif isinstance(value, tuple):
            payload.add(argument, {"tuple": [{"value": part} for part in value]})
        else:
            payload.add(argument, {"value": value})
    texts = [
        f"{own.name}={f'shape {value.shape}' if isinstance(value, np.ndarray) else value}"
        for own, value in arguments
    ]
    return payload, f"{called.signature.name}({', '.join(texts)})"
