"""Call a user's function that returns rows, scores, slopes or buckets.

Arguments are chosen by the names of the parameters. If these are ambiguous, several calls are
tried. Further calls test other lengths, positions, batches and number formats.
"""

from __future__ import annotations

from functools import partial
from itertools import islice, product, takewhile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from posenc_cli.calls.call_form import Argument, CallForm
from posenc_cli.calls.called_function import CalledFunction, WrongShape
from posenc_cli.calls.function_process import called_function
from posenc_cli.calls.function_trial import ALIKE, UNSTEADY
from posenc_cli.calls.payloads import Payload
from posenc_cli.calls.roles import roles_of
from posenc_cli.checks.values import OVERWRITTEN, is_right
from posenc_cli.errors import InvalidInput
from posenc_cli.files.reading import Loaded
from posenc_cli.inference.tolerance import unit
from posenc_cli.numerics.rounding import bits_of_bfloat16, singles_to_bfloat16
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.calls.signature import CallRequest, NamedParameter
    from posenc_cli.numerics.arrays import NumberArray, RealRows

    Make: TypeAlias = "Callable[[FunctionTask], Any]"
    """Computes the value of a parameter for a task."""
    Arguments: TypeAlias = "list[tuple[NamedParameter, Make]]"
    Given: TypeAlias = "list[tuple[NamedParameter, Any]]"

_NAMES: Mapping[str, tuple[str, ...]] = {
    "dim": (
        *("d_model", "embed_dim", "embedding_dim", "hidden_size", "n_embd", "channels", "d"),
        *("d_hid", "depth", "num_channels", "demb"),
    ),
    "base": ("max_period", "temperature", "max_timescale"),
    "heads": ("num_attention_heads", "n_heads", "num_heads", "n_head", "nheads", "heads"),
    "positions": (
        *("timesteps", "timestep", "relative_position", "relative_positions", "rel_pos"),
        *("relative", "offsets", "distance", "distances", "pos", "time", "steps"),
        *("pos_j", "key_positions", "k_positions", "k_pos", "key_pos"),
    ),
    "distances": ("pos_seq",),
    "query_positions": ("pos_i", "query_positions", "q_positions", "q_pos", "query_pos"),
    "queries": (
        *("query_length", "qlen", "q_len", "query_len", "query_size", "length_q", "q_length"),
        *("seqlen_q", "seq_len_q", "q_seq_len"),
    ),
    "length": (
        *("num_positions", "n_positions", "n_position", "n_pos", "max_length", "num_embeddings"),
        *("key_length", "klen", "k_len", "key_len", "key_size", "length_k", "k_length", "size"),
        *("l", "seqlen_k", "seq_len_k", "k_seq_len", "n"),
    ),
    "i": ("i",),
    "j": ("j",),
    "cache_position": ("cache_position",),
    "batch": ("batch_size", "bsz"),
    "dropout": ("dropout", "dropout_rate", "dropout_prob", "dropout_p", "p_dropout", "drop_prob"),
    "tokens": ("input_ids", "token_ids", "tokens"),
    "shape": ("input_ids_shape",),
    "scores": (
        *("scores", "attn_scores", "attention_scores", "attn_weights", "attn_logits", "logits"),
        *("attn", "dots", "qk_dots"),
    ),
    "sides": ("grid_size", "grid", "shape", "hw", "window", "window_size", "feat_shape"),
    "height": ("h", "height", "rows", "grid_h", "ny"),
    "width": ("w", "width", "columns", "cols", "grid_w", "nx"),
}
"""Names of parameters by role, besides those of rotations (:mod:`posenc_cli.calls.roles`)."""
_ROLES = {name: role for role, names in _NAMES.items() for name in names}
_SETTINGS = {
    "alibi_bias_max": "max_bias",
    "relative_attention_num_buckets": "num_buckets",
    "relative_attention_max_distance": "max_distance",
}
"""Settings of schemes by the names that libraries give them."""
_USUAL_BASE = ("10000", "10000.0")
_MOST_TRIES = 12
"""Most calls that are tried if the names of parameters are ambiguous."""


class FunctionTask(Record):
    """Values to request: at positions ``places``, for a ``length`` and settings.

    ``sides`` are the sides of a grid or a window, ``width`` is the number of columns. Shape of
    ``places``: (n,), or (b, n) for b sequences. ``queries`` counts the last positions that are
    queries; None means all. ``dtype`` is the number format of vectors.
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
        """First position of the first sequence."""
        return int(self.places.flat[0])

    @property
    def query_count(self) -> int:
        """Number of queries."""
        return self.length if self.queries is None else self.queries

    @property
    def input_dtype(self) -> str:
        """Number format of the array that holds input vectors or scores."""
        return "float32" if self.dtype == "bfloat16" else self.dtype


class _IgnoredFormat(InvalidInput):
    """A function returned a wider number format than the requested one."""


class FurtherCall(Record):
    """A call that models make after the first: its text, and a reader of its result.

    The rows of several ``tasks`` are joined. A call is skipped if its arguments equal those of the
    task ``unlike``. If ``first`` is given, it is the first call of a new process.
    """

    text: str
    tasks: tuple[FunctionTask, ...]
    accepts: Callable[[Loaded], list[Any]]
    unlike: FunctionTask
    first: FunctionTask | None = None

    @property
    def is_of_attention(self) -> bool:
        """Whether it asks for a matrix of buckets, as attention does."""
        return self.tasks[0].form == "buckets" and self.tasks[0].places.ndim > 1


class _SettingsReference(Record):
    """Settings for constructing a user's class, under the names that libraries use."""

    pairs: int
    params: Mapping[str, Any]
    head: int
    coordinates: None = None

    @classmethod
    def of(cls, task: FunctionTask) -> _SettingsReference:
        named = {
            name: value for name, value in task.settings.items() if isinstance(value, int | float)
        }
        by_role = {
            "dim": task.width,
            "dropout": 0.0,
            "length": int(np.abs(task.places).max()) + 1,
            "heads": named.get("heads", 1),
        }
        named |= {name: by_role[role] for name, role in _ROLES.items() if role in by_role}
        return cls(max(1, (task.width + 1) // 2), named, task.width)


def function_values(
    target: str | Callable[..., Any],
    task: FunctionTask,
    accepts: Callable[[Loaded], Any],
    asked: CallRequest,
    further: Callable[[], Iterator[FurtherCall]] = lambda: iter(()),
) -> tuple[Any, str]:
    """Return the subject that ``accepts`` reads from a function's values, and the call's text.

    If the values are right, the ``further`` calls are checked too, and the first wrong subject is
    returned.

    Raises: InvalidInput if ``accepts`` rejects the values of every call; Unavailable.
    """
    reference = cast("Any", _SettingsReference.of(task))
    context = int(max(task.length, np.abs(task.places).max() + 1))
    called = called_function(target, reference, asked, context=context)
    try:
        called.start()
        refused = list[InvalidInput]()
        for library in called.signature.libraries:
            called.library = library
            try:
                return _likeliest_subject(called, task, accepts, further)
            except InvalidInput as error:
                refused.append(error)
        raise refused[0]
    finally:
        called.end()


def _likeliest_subject(
    called: CalledFunction,
    task: FunctionTask,
    accepts: Callable[[Loaded], Any],
    further: Callable[[], Iterator[FurtherCall]],
) -> tuple[Any, str]:
    """Return the subject of the first right call, or else of the likeliest, and its text."""
    unknown = [
        parameter.name
        for parameter in called.signature.required
        if _argument(parameter.name, task) is None and "mask" not in roles_of(parameter.name)
    ]
    if unknown:
        shows = "names do not show their roles" if unknown[1:] else "name does not show its role"
        raise called.invalid(f"needs {', '.join(unknown)}, whose {shows}", hint=_WRAP)
    refused, accepted, usual_refused = list[InvalidInput](), list[tuple[Any, str]](), False
    for arguments in islice(_candidate_arguments(called, task), _MOST_TRIES):
        inputs = [value for _, value in _argument_values(arguments, task) if _is_input(value)]
        if accepted and any(x.ndim == 2 for x in inputs):  # already decided by calls with batches
            continue
        try:
            subject, text = _subject_of_call(called, arguments, task, accepts)
        except InvalidInput as error:
            if error.code == "unsteady":  # fails in every form
                raise
            usual_refused |= not accepted
            refused.append(error)
            continue
        if is_right(subject):
            subject = _make_further_calls(called, arguments, subject, task, further)
            overwrites = is_right(subject) and _overwrites_result(called, arguments, task)
            subject = replace(subject, misfit=OVERWRITTEN) if overwrites else subject
            notes = (_OTHER_ORDER,) if accepted and inputs else ()
            return replace(subject, notes=(*subject.notes, *notes)), text
        accepted.append((subject, text))
    if usual_refused and all(wrong.misfit for wrong, _ in accepted):
        hint = "; or ".join(filter(None, (refused[0].hint, _HINT)))
        raise InvalidInput(refused[0].message, hint=hint)
    return next(filter(_has_distinct_rows, accepted), accepted[0])


def _has_distinct_rows(accepted: tuple[Any, str]) -> bool:
    """Return whether the rows of a wrong result differ from one another.

    Users probably make such a call; equal rows suggest wrong arguments.
    """
    subject, e = accepted[0], accepted[0].expected
    equal_rows = e.form == "rows" and bool(np.ptp(e.found, axis=0).max() <= ALIKE)
    return not (subject.misfit or equal_rows)


def _subject_of_call(
    called: CalledFunction,
    arguments: Arguments,
    task: FunctionTask,
    accepts: Callable[[Loaded], Any],
) -> tuple[Any, str]:
    """Return the subject of a call, and the call's text.

    Raises: InvalidInput if the result is not accepted, or a second call returns other values.
    """
    given = _argument_values(arguments, task)
    first, text = _call_values(called, given, task)
    subject = accepts(first)
    second, _ = _call_values(called, given, task)
    if not _nearly_equal(second.values, first.values, ALIKE):
        raise called.invalid(UNSTEADY, hint=_DROPOUT, code="unsteady")
    return _check_addition(called, arguments, task, subject, accepts), text


def _call_values(
    called: CalledFunction, arguments: Given, task: FunctionTask
) -> tuple[Loaded, str]:
    """Call the function; return its only array, and the call's text."""
    if not called.lives:  # the last call ended the process
        called.renew()
    payload, text = _payload(called, arguments, task.dtype)
    results = called.arrays(payload, np.abs(task.places).astype(np.int64))
    if len(results) != 1:
        raise called.invalid(f"returned {len(results)} arrays; posenc compares one")
    if not results[0].values.size:
        raise called.invalid(f"returned no values: an array of {results[0].values.shape}")
    return Loaded(results[0].values, results[0].dtype, called.target), text


def _nearly_equal(found: NumberArray, wanted: NumberArray, share: float, size: Any = 0.0) -> bool:
    """Return whether values agree to a ``share`` of themselves and of ``size``."""
    with np.errstate(all="ignore"):
        return found.shape == wanted.shape and np.allclose(
            found, wanted, rtol=share, atol=share * size, equal_nan=True
        )


def _check_addition(
    called: CalledFunction,
    arguments: Arguments,
    task: FunctionTask,
    subject: Any,
    accepts: Callable[[Loaded], Any],
) -> Any:
    """Repeat a call with noise as input, and check that the same values are added to it."""
    if not _has_input(arguments, task):
        return subject
    without_noise, *tried = [
        _call_with_noise(called, arguments, task, scale) for scale in (0.0, *_SCALES)
    ]
    rows, share = without_noise.values, without_noise.share
    if all(_nearly_equal(each.values, rows, share) for each in tried):
        return replace(subject, notes=(*subject.notes, _SHAPE_ONLY))
    for each in tried:
        size = np.abs(each.noise)
        if not _nearly_equal(each.added, rows, share, size):
            wrong = accepts(replace(each.loaded, values=each.added))
            wrong = _with_input(wrong, each.noise, share * float(size.max()))
            return replace(wrong, notes=(*wrong.notes, _NOT_ADDED))
    return subject


class _NoiseResult(Record):
    """Result of a call, its values in float64, and the noise that was its input."""

    loaded: Loaded
    values: RealRows
    noise: RealRows

    @property
    def added(self) -> RealRows:
        """Values that the function added to its input."""
        with np.errstate(invalid="ignore"):
            return self.values - self.noise

    @property
    def share(self) -> float:
        """Relative error of a sum in the format of the result."""
        return 4 * unit(max(self.loaded.dtype, "float32", key=unit))


def _with_input(subject: Any, noise: RealRows, slack: float) -> Any:
    """Return a subject of values added to noise, and the error that the sums may have."""
    e = replace(subject.expected, slack=slack)
    if e.form == "rows" and e.found.size == noise.size:
        e = replace(e, vectors=noise.reshape(e.found.shape))
    return replace(subject, expected=e)


def _call_with_noise(
    called: CalledFunction, arguments: Arguments, task: FunctionTask, scale: float
) -> _NoiseResult:
    """Call a function with noise as vectors or scores; 0 as ``scale`` gives zeros."""
    noise: NumberArray = np.zeros(1)
    given = []
    for parameter, value in _argument_values(arguments, task):
        if _is_input(value):
            drawn = np.random.default_rng(20).standard_normal(value.shape).astype(value.dtype)
            noise = singles_to_bfloat16(drawn) if task.dtype == "bfloat16" else drawn
            noise *= value.dtype.type(scale)
        given.append((parameter, noise if _is_input(value) else value))
    loaded, _ = _call_values(called, given, task)
    x = np.zeros(1) if noise.size != loaded.values.size else noise.reshape(loaded.values.shape)
    return _NoiseResult(loaded, np.asarray(loaded.values, np.float64), x.astype(np.float64))


def _make_further_calls(
    called: CalledFunction,
    arguments: Arguments,
    subject: Any,
    task: FunctionTask,
    further: Callable[[], Iterator[FurtherCall]],
) -> Any:
    """Return the first wrong subject of further calls, or ``subject`` with notes on them."""
    notes, made, before = _CallNotes(), called.made, "the first call"
    adds = _has_input(arguments, task) and _SHAPE_ONLY not in subject.notes
    for suffix, given in _argument_sets(arguments, task):
        for call in further():
            text = call.text + suffix
            try:
                _remake(called, call.tasks[0] if call.tasks[0].settings != task.settings else task)
                if called.made == made and _shows_nothing(called, given, call):
                    continue
                _make_first_call(called, given, call)
                found = _recheck(called, given, subject, call)
            except _IgnoredFormat as error:
                notes.untested.append(error.message)
            except InvalidInput as error:
                shaped = isinstance(error, WrongShape) and not _has_several_starts(given, call)
                if call.first and shaped:  # alone, the same call gave the right shape
                    return replace(subject, call=text, misfit=called.reason(error))
                varied = called.made != made or _changes_number(given, task, call)
                unvaried = varied and not notes.names(f"{call.text.partition('=')[0]}=")
                if call.is_of_attention or shaped or call.first or unvaried:
                    notes.untested.append(text)
                notes.refused.append(f"{text} ({called.reason(error)})")
            else:
                follows = adds or bool(notes.tried) or any(_is_offset(one.name) for one, _ in given)
                outcome = _outcome(found, subject, call, given, takes_positions=follows)
                if outcome == "wrong":
                    after = _earlier_call(called, given, subject, call, before)
                    return replace(found, call=found.call + text + after)
                getattr(notes, outcome).append(text)
            before = text
    notes.untested.extend([subject.untested, *_untested_parts(called, arguments, task, notes)])
    return _with_notes(subject, notes, leaks=adds)


def _overwrites_result(called: CalledFunction, arguments: Arguments, task: FunctionTask) -> bool:
    """Return whether a call with other vectors and positions changes the result of the last."""
    others = task.places if _has_input(arguments, task) else task.places[::-1]
    try:
        _remake(called, task)
        if not called.lives:
            called.renew()
        for mode, places, scale in (("first", task.places, 1.0), ("again", others, 2.0)):
            called.keep(mode)
            _call_with_noise(called, arguments, replace(task, places=places), scale)
    except InvalidInput:
        return False
    return bool(called.overwritten)


def _changes_number(arguments: Arguments, task: FunctionTask, call: FurtherCall) -> bool:
    """Return whether a call with another setting gives another number for a parameter."""
    if call.tasks[0].settings == task.settings:
        return False
    pairs = ((make(task), make(call.tasks[0])) for _, make in arguments)
    return any(np.ndim(other) == 0 and value != other for value, other in pairs)


def _earlier_call(
    called: CalledFunction, arguments: Arguments, subject: Any, call: FurtherCall, before: str
) -> str:
    """Return in words the call ``before`` a wrong one that is right as the first of a process."""
    if " after " in call.text or not called.renews:
        return ""
    called.renew()
    try:
        alone = _recheck(called, arguments, subject, call)
    except InvalidInput:
        return ""
    return "" if alone.misfit or not is_right(alone) else f" after {before}"


def _remake(called: CalledFunction, task: FunctionTask) -> None:
    """Make an object of a class with the settings of a task, unless it has them.

    Raises: InvalidInput.
    """
    reference = _SettingsReference.of(task)
    if reference.params != called.reference.params:
        called.reference = cast("Any", reference)
        (called.remake if called.lives else called.renew)()


class _CallNotes(Record):
    """Texts of further calls, by their outcome; ``first`` are those that gave the first queries."""

    tried: list[str] = fresh(list)
    refused: list[str] = fresh(list)
    untested: list[str] = fresh(list)
    first: list[str] = fresh(list)

    def names(self, setting: str) -> bool:
        """Return whether a call with another value of a setting was tried, or is untested."""
        return any(text.startswith(setting) for text in (*self.tried, *self.untested))


def _with_notes(subject: Any, call_notes: _CallNotes, *, leaks: bool) -> Any:
    also = f"also right for {', '.join(call_notes.tried)}" * bool(call_notes.tried)
    refused = f"not tried: {', '.join(call_notes.refused)}" * bool(call_notes.refused)
    wide = "returns float64 for float32 input" * (leaks and subject.expected.dtype == "float64")
    notes = (*subject.notes, *filter(None, (also, refused, wide)))
    distinct = ", ".join(dict.fromkeys(filter(None, call_notes.untested)))
    return replace(subject, notes=notes, untested=distinct)


def _outcome(
    found: Any, subject: Any, call: FurtherCall, arguments: Arguments, *, takes_positions: bool
) -> Literal["wrong", "first", "untested", "refused", "tried"]:
    """Return the outcome of a further call.

    ``takes_positions`` says that results were seen to depend on positions or lengths, or are sums
    with scores. Then scores of the first queries in place of the last are wrong.
    """
    queries = call.tasks[0].queries
    if found.misfit or (queries and queries != found.expected.found.shape[-2]):
        # Broadcasting may allow another length; most code takes one first position for all.
        if call.first:
            return "wrong"
        return "refused" if _has_several_starts(arguments, call) else "untested"
    if not is_right(found):
        return (
            "first"
            if queries and not takes_positions and _are_first_queries(found, subject)
            else "wrong"
        )
    same = np.array_equal(found.expected.right(), subject.expected.right())
    return "untested" if "=" in call.text and same else "tried"


def _untested_parts(
    called: CalledFunction, arguments: Arguments, task: FunctionTask, notes: _CallNotes
) -> Iterator[str]:
    """Yield what no call varied: lengths, padding, and parameters left at their default."""
    if notes.first:
        yield _FIRST_QUERIES
    of_length = [
        text
        for text in notes.tried
        if not any(part in text for part in ("float", "=", "after a first call"))
        or text.startswith(("grid", "window"))
    ]
    if not of_length and task.form in ("rows", "scores"):
        yield "calls of other lengths or batches"
    names = {parameter.name for parameter, _ in arguments}
    if task.form != "scores" and any({"queries", "q"} & {*_roles(name)} for name in names):
        yield "fewer queries than keys"  # DeBERTa returns the first queries, others the last
    if any("mask" in roles_of(name) for name in names):
        yield "masks with padding"
    unvaried = [
        parameter for parameter in called.signature.parameters or () if parameter.name not in names
    ]
    yield from (parameter.name for parameter in unvaried if parameter.affects_values)
    yield from called.left_at_default


def _argument_sets(arguments: Arguments, task: FunctionTask) -> Iterator[tuple[str, Arguments]]:
    """Yield the arguments of a call, each with a suffix for the call's text.

    A second set omits the positions if they are optional and there is a first position.
    """
    yield "", arguments
    ids = [
        parameter.name
        for parameter, make in arguments
        if parameter.default and make(task) is task.places
    ]
    if ids and any(_is_offset(parameter.name) for parameter, _ in arguments):
        yield (
            f" without {', '.join(ids)}",
            [
                (parameter, _first_position if _is_offset(parameter.name) else make)
                for parameter, make in arguments
                if parameter.name not in ids
            ],
        )


def _shows_nothing(called: CalledFunction, arguments: Arguments, call: FurtherCall) -> bool:
    """Return whether arguments are unchanged, or the framework lacks the number format."""
    task = call.tasks[0]
    if task.dtype == call.unlike.dtype:
        pairs = [[np.asarray(make(each)) for each in (task, call.unlike)] for _, make in arguments]
        return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)
    no_format = "bfloat16" in task.dtype and called.library == "numpy"
    return no_format or not (_has_input(arguments, task) or _is_given_format(arguments))


def _make_first_call(called: CalledFunction, arguments: Arguments, call: FurtherCall) -> None:
    """Make the first call in a new process, if ``call`` needs one."""
    if call.first is not None:
        called.renew()
        _call_values(called, _argument_values(arguments, call.first), call.first)


def _recheck(called: CalledFunction, arguments: Arguments, subject: Any, call: FurtherCall) -> Any:
    """Make a further call with noise as input; return its subject, without the noise it contains.

    Raises: InvalidInput.
    """
    task = call.tasks[0]
    results = [_call_with_noise(called, arguments, each, 1.0) for each in call.tasks]
    first = results[0]
    if _is_given_format(arguments) and unit(first.loaded.dtype) < unit(task.dtype):
        raise _IgnoredFormat(f"dtype (results are {first.loaded.dtype}, not {task.dtype})")
    added = first.values.size == first.noise.size and _SHAPE_ONLY not in subject.notes
    values = [each.added if added else each.values for each in results]
    if len({each.shape[-1] for each in values}) > 1:
        raise InvalidInput("returned arrays of other widths")
    rows = values[0]
    if len(values) > 1:
        rows = np.concatenate([each.reshape(-1, each.shape[-1]) for each in values])
    parts = call.accepts(replace(first.loaded, values=_batch_first(arguments, task, rows)))
    if not added:
        return _first_wrong(parts, task)
    noise = np.concatenate([each.noise.reshape(-1, each.noise.shape[-1]) for each in results])
    largest = float(np.abs(noise).max())
    if task.form == "scores" and task.dtype != "float32":  # the added values are rounded too
        largest += float(np.abs(parts[0].expected.right()).max())
    found = _first_wrong([_with_input(each, noise, first.share * largest) for each in parts], task)
    if task.form == "rows" and task.dtype != "float32" and is_right(found):
        # noise hides which half precision was used
        bare = _call_with_noise(called, arguments, task, 0.0)
        dtype = max(bare.loaded.dtype, task.dtype, key=unit)
        rows = _batch_first(arguments, task, bare.values)
        parts = call.accepts(replace(bare.loaded, values=rows, dtype=dtype))
        found = next((each for each in parts if not is_right(each)), found)
    return found


def _first_wrong(parts: list[Any], task: FunctionTask) -> Any:
    """Return the first wrong subject, or else the last; ``call`` names its sequence."""
    wrong = [at for at, each in enumerate(parts) if each.misfit or not is_right(each)]
    found = parts[wrong[0] if wrong else -1]
    if task.sequences > 1 and 0 < len(wrong) < len(parts):
        return replace(found, call=f"sequence {wrong[0] + 1} of ")
    return found


def _batch_first(arguments: Arguments, task: FunctionTask, values: NumberArray) -> NumberArray:
    """Move the axis of sequences to the front if the input has it after the positions."""
    after = any(isinstance(make, partial) and make.keywords.get("batch") for _, make in arguments)
    swapped = after and task.sequences > 1 and values.ndim > 2
    return values.swapaxes(0, 1) if swapped else values


def _is_given_format(arguments: Arguments) -> bool:
    """Return whether a function is given the number format of its result."""
    return any("dtype" in roles_of(parameter.name) for parameter, _ in arguments)


def _are_first_queries(found: Any, subject: Any) -> bool:
    """Return whether scores of the last queries equal those of the first queries.

    transformers' T5 returns these, and its caller drops the cached queries.
    """
    last_queries, all_queries = found.expected.found, subject.expected.found
    return _nearly_equal(last_queries, all_queries[:, : last_queries.shape[1]], ALIKE)


def _has_input(arguments: Arguments, task: FunctionTask) -> bool:
    """Return whether the arguments include vectors or scores to add to."""
    return any(_is_input(value) for _, value in _argument_values(arguments, task))


def _argument_values(arguments: Arguments, task: FunctionTask) -> Given:
    return [(parameter, make(task)) for parameter, make in arguments]


def _is_input(value: Any) -> bool:
    """Return whether an argument is an array to add to: vectors, or scores of heads."""
    return isinstance(value, np.ndarray) and value.ndim > 1 and value.dtype.kind == "f"


_SHAPE_ONLY = "the result does not contain the input; only its shape is used"
_FIRST_QUERIES = "fewer queries than keys (the function returns scores of the first queries)"
_SCALES = (1.0, 64.0)
"""Scales of the noise; one of them reveals whether the input is clipped or scaled."""
_DROPOUT = "dropout? call .eval() on an instance in the file, and check that instance by name"
_OTHER_ORDER = "values differ if the batch comes before the positions in the input"
_NOT_ADDED = "the input is normal noise; posenc compares the result minus the input"
_HINT = "save its values with numpy.save, and check the file"
_WRAP = f"wrap it in a function of positions, x or scores that calls it; or {_HINT}"


def _candidate_arguments(called: CalledFunction, task: FunctionTask) -> Iterator[Arguments]:
    """Yield arguments that the parameters may take, likeliest first."""
    parameters = [
        parameter for parameter in called.signature.parameters or () if not parameter.variable
    ]
    has_offset = any(_is_offset(parameter.name) for parameter in parameters)
    takes_positions = any(
        _argument(parameter.name, task) is task.places for parameter in parameters
    )
    takes_length = takes_positions or any(
        parameter.name != "n" and "length" in _roles(parameter.name) for parameter in parameters
    )
    of_fairseq = any(parameter.name == "incremental_state" for parameter in parameters)
    options: list[list[tuple[NamedParameter, Make]]] = []
    for parameter in parameters:
        of_base = takes_length and parameter.name == "n" and parameter.default in _USUAL_BASE
        make: Make = partial(_argument, "base" if of_base else parameter.name)
        required = parameter in called.signature.required
        if "mask" in roles_of(parameter.name):
            if required:
                options.append([(parameter, partial(_mask, has_offset))])
        elif of_fairseq and "positions" in roles_of(parameter.name):
            continue  # counts rows of the table, including padding
        elif make(task) is not None:
            makes = [make, *_other_arguments(parameter.name, task, required)]
            if takes_positions and _is_offset(parameter.name):
                makes[0] = lambda _: 0  # positions already include the offset
            rows = task.settings.get("offset", "") if parameter.name == "offset" else ""
            if parameter.default == str(rows) or (rows and takes_positions and required):
                makes.append(lambda task: task.settings["offset"])  # unused rows of a table
            options.append([(parameter, each) for each in makes])
    for chosen in product(*options):
        names = {parameter.name for parameter, _ in chosen}
        gap = next((at for at, each in enumerate(parameters) if each.name not in names), None)
        positional_only = {each.name for each in parameters[gap:] if each.kind == "POSITIONAL_ONLY"}
        yield [
            (parameter, make)
            for parameter, make in chosen
            if gap is None or parameter.name not in positional_only
        ]


def _other_arguments(name: str, task: FunctionTask, required: bool) -> list[Make]:
    """Return alternatives to the argument that a parameter's name suggests."""
    suggested = _argument(name, task)
    if _is_input(suggested) and roles_of(name) == ("x",):
        if task.form == "scores":  # x may be vectors that only supply the lengths
            return [_vectors]
        grids = [_VALUES["grids"]] if len(task.sides) > 1 else []
        ids = [_VALUES["tokens"], _VALUES["positions"]]  # ids of tokens, or position ids
        return [*(partial(_vectors, batch=at) for at in (1, None)), *grids, *ids]
    if isinstance(suggested, tuple) and len({*suggested}) == 1:  # the side of a square
        return [lambda task: _argument(name, task)[0]]
    if name == "width" and task.sides:  # columns of rows: big_vision calls the grid h and w
        return [lambda task: task.width]
    batch = [lambda task: task.places[None] if task.places.ndim == 1 else task.places]
    return [lambda task: task.length, *batch] if required and suggested is task.places else []


def _mask(has_offset: bool, task: FunctionTask) -> NumberArray:
    """Return a mask of ones: (sequences, positions), with earlier positions if ``has_offset``."""
    return np.ones((task.sequences, task.start * has_offset + task.length), np.int64)


def _argument(name: str, task: FunctionTask) -> Any:
    """Return the argument that a parameter's name suggests, or None."""
    key = name.lower().strip("_")
    key = _SETTINGS.get(key, key)
    setting = None if key in ("seq_len", "offset") else task.settings.get(key)
    found = (_VALUES[role](task) for role in _roles(name) if role in _VALUES)
    return next((value for value in (setting, *found) if value is not None), None)


def _roles(name: str) -> tuple[str, ...]:
    """Return the roles that a parameter may have by its name, the likeliest first."""
    own = _ROLES.get(name.lower().strip("_"))
    return (own, *roles_of(name)) if own else roles_of(name)


def _vectors(task: FunctionTask, *, batch: int | None = 0) -> Any:
    """Return zeros to add to; ``batch`` is the axis of sequences, None for no such axis."""
    x = np.zeros((task.sequences, task.length, task.width), task.input_dtype)
    return x[0] if batch is None else x.swapaxes(0, batch)


def _scores(task: FunctionTask) -> Any:
    """Return zeros to add to, if scores are asked for. Shape: (sequences, heads, queries, keys)."""
    if task.form != "scores":
        return None
    heads = task.settings.get("heads", 1)
    return np.zeros((task.sequences, heads, task.query_count, task.length), task.input_dtype)


def _of_form(form: str, make: Make) -> Make:
    """Return a function that makes a value only for tasks of a form."""
    return lambda task: make(task) if task.form == form else None


def _is_offset(name: str) -> bool:
    """Return whether a parameter is the first position only."""
    return roles_of(name)[:1] == ("offset",)


def _has_several_starts(arguments: Arguments, call: FurtherCall) -> bool:
    """Return whether a call passes an array with the first position of each sequence."""
    task = call.tasks[0]
    return any(
        _is_offset(parameter.name) and isinstance(make(task), np.ndarray)
        for parameter, make in arguments
    )


def _first_position(task: FunctionTask) -> Any:
    """Return the first position of all or of each sequence (b,); for scores, of the first query."""
    if task.form != "rows":
        return task.length - (task.queries or task.length)
    starts = task.places.reshape(task.sequences, -1)[:, 0]
    return starts.astype(np.int64) if np.ptp(starts) else task.start


_VALUES: Mapping[str, Make] = {
    "x": lambda task: _vectors(task) if task.form != "scores" else _scores(task),
    "grids": lambda task: _vectors(task).reshape(task.sequences, *task.sides, task.width),
    "scores": _scores,
    "tokens": lambda task: np.full((task.sequences, task.length), 7, np.int64),  # no padding
    **dict.fromkeys(("q", "k"), _of_form("buckets", lambda task: np.zeros((task.length, 1)))),
    **dict.fromkeys(("positions", "t"), lambda task: task.places),
    "query_positions": lambda task: task.places[task.length - task.query_count :],
    "distances": lambda task: (  # Transformer-XL's, down to 0
        -task.places[task.places <= 0] if task.places.min() < 0 else task.places
    ),
    "cache_position": _of_form(  # T5's: the queries, among keys that count from 0
        "scores", lambda task: np.arange(task.length - task.query_count, task.length)
    ),
    "offset": _first_position,
    "queries": lambda task: task.query_count,
    "length": lambda task: task.settings["heads"] if task.form == "slopes" else task.length,
    "i": _of_form("scores", lambda task: task.query_count),
    "j": _of_form("scores", lambda task: task.length),
    "batch": lambda task: task.sequences,
    "shape": lambda task: (task.sequences, task.length),
    "sides": lambda task: task.sides or None,
    "height": lambda task: task.sides[0] if task.sides else None,
    "width": lambda task: task.sides[-1] if task.sides else None,
    "dim": lambda task: task.width,
    "base": lambda task: task.settings.get("base") or task.settings.get("max_period"),
    "heads": lambda task: task.settings.get("heads"),
    "dtype": lambda task: task.dtype,
}
"""Makes the argument of a role, or None if a task has none."""


def _payload(called: CalledFunction, arguments: Given, dtype: str) -> tuple[Payload, str]:
    """Return the request with these arguments, and its text."""
    in_order = takewhile(
        lambda pair: pair[0].name == pair[1][0].name and not pair[0].by_name,
        zip(called.signature.parameters or (), arguments, strict=False),
    )
    count = len(list(in_order))
    named = tuple(  # pass by keyword after a parameter left at its default
        Argument("", given.name, None if place < count else given.name)
        for place, (given, _) in enumerate(arguments)
    )
    payload = Payload(CallForm(named, called.library, 1), in_place=False)
    for argument, (given, value) in zip(named, arguments, strict=True):
        if dtype == "bfloat16" and _is_input(value):
            payload.add(argument, payload.array(bits_of_bfloat16(value)) | {"dtype": dtype})
        elif isinstance(value, np.ndarray):
            payload.add(argument, payload.array(value))
        elif "dtype" in roles_of(given.name):  # the framework's object of this name
            payload.add(argument, payload.attribute("dtype", value))
        elif isinstance(value, tuple):
            payload.add(argument, {"tuple": [{"value": part} for part in value]})
        else:
            payload.add(argument, {"value": value})
    texts = [
        f"{parameter.name}={f'shape {value.shape}' if isinstance(value, np.ndarray) else value}"
        for parameter, value in arguments
    ]
    return payload, f"{called.signature.name}({', '.join(texts)})"
