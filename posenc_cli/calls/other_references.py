"""Call a function with settings of another reference, and with other values of its parameters.

A function that ignores its base, layout, tables or grid sizes may be right by chance if it has the
same ones. So it is called once more with those of another reference, and must match that reference.
Parameters that no reference has are given other values, one at a time. The result must respond as
the row of the role says.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.calls.arrangements import Arrangement, arrangements
from posenc_cli.calls.batches import called_together, is_right
from posenc_cli.calls.call_form import SIDE_BY_SIDE, Argument
from posenc_cli.calls.function_trial import NO_MAP, Irregularity
from posenc_cli.calls.further_calls import Tried, faults_in_half, random_vectors, rounded_positions
from posenc_cli.calls.patterns import (
    PlannedCalls,
    result_or_none,
)
from posenc_cli.calls.payloads import Vectors, offsets_of_rows, role_settings
from posenc_cli.calls.roles import (
    ADDED,
    HALF,
    LEFT_PADDED,
    NUMBERS,
    PADDED,
    TABLES,
    VARIED,
    VARYING,
    Role,
)
from posenc_cli.calls.serving import ServedFunction, other_vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.parameters import as_text
from posenc_cli.frameworks import BY_NAME
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.reference import Reference
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.calls.signature import NamedParameter
    from posenc_cli.inference.turning import ColumnPairing
    from posenc_cli.numerics.arrays import ComplexRows, Integers, NumberArray

_ROWS = 64
"""Positions to compare: the highest-frequency pairs make ten rotations."""


_OFFSET = 7
"""The first position of rows in a call with another offset."""


class _VariedSetting(Record):
    """A parameter of the reference that is given another value.

    ``roles`` are the roles of the function's parameters that depend on it; ``names`` are parts of
    their names. Only some code follows it if it is ``doubtful``; only a result that stays the same
    is then a fault, and not even that if following it is ``optional``. Plain RoPE has it by way of
    the scheme ``of_rope``.
    """

    parameter: str
    roles: tuple[str, ...]
    other: Callable[[Any], Any]
    cause: Cause
    names: tuple[str, ...] = ("",)
    doubtful: bool = False
    optional: bool = False
    of_rope: str = ""


def _other_sizes(sizes: tuple[int, ...]) -> str:
    """Return the sizes of another grid: sides exchanged, or a square made twice as high."""
    *frames, rows, columns = sizes
    lower = columns // 2 if columns % 2 == 0 else columns
    others = (2 * rows, lower) if rows == columns else (columns, rows)
    return "x".join(map(str, (*frames, *others)))


_VARIED_SETTINGS = (
    _VariedSetting("grid", ("grid",), _other_sizes, Cause.UNKNOWN),
    _VariedSetting("base", ("base", "inv_freq", *TABLES), lambda base: 3 * base, Cause.BASE),
    _VariedSetting(
        "sections",
        ("sections",),
        lambda sections: ",".join(map(str, (*sections[1:], sections[0]))),
        Cause.AXIS,
    ),
    _VariedSetting(
        "partial",
        ("dim", "share"),
        lambda share: share / 2,
        Cause.ROTARY_DIM,
        names=("rotary", "rope_percentage"),
        doubtful=True,
    ),
    _VariedSetting(
        "partial",
        ("dim",),
        lambda share: share / 2,
        Cause.ROTARY_DIM,
        names=("dims", "rope_dim", "n_elem"),
        optional=True,  # as in MLA, whose code gets only the columns to rotate
    ),
    _VariedSetting(
        "factor",
        ("factor",),
        lambda factor: 2 * factor,
        Cause.FREQUENCY_RULE,
        names=(
            *("condense_ratio", "freq_scale", "scale_factor", "seq_len_interpolation_factor"),
            *("interpolation_factor", "linear_factor"),
        ),
        of_rope="rope-linear",
    ),
    _VariedSetting(
        "factor", ("factor",), lambda factor: 2 * factor, Cause.FREQUENCY_RULE, doubtful=True
    ),
    *(
        _VariedSetting(
            names[0],
            ("setting",),
            lambda value: 2 * value,
            Cause.FREQUENCY_RULE,
            names=names,
            doubtful=True,
        )
        for names in (
            ("low_freq_factor",),
            ("high_freq_factor",),
            ("original_max_position_embeddings", "old_context_len"),
            ("beta_fast",),
            ("beta_slow",),
        )
    ),
    _VariedSetting(
        "layout",
        ("style",),
        lambda layout: "half" if layout == "interleaved" else "interleaved",
        Cause.LAYOUT,
    ),
)


def try_other_references(tried: Tried) -> None:
    """Call a function with settings of other references.

    It is skipped if the last position is part of every call, unless the function has a grid.
    """
    if tried.function.follows_length and not tried.form.has("grid"):
        return
    for varied in _VARIED_SETTINGS:
        if names := _names_for(tried, varied):
            tried.calls.judge(
                f"another {varied.parameter}",
                partial(_reference_fault, tried, varied, names),
                surely=False,
                tests=names,
            )


def _names_for(tried: Tried, varied: _VariedSetting) -> list[str]:
    """Return the function's parameters that depend on a varied one of the reference."""
    form, process = tried.form, tried.function.process
    if varied.of_rope:  # a function gets no factor of plain RoPE, which has none
        names = [*process.left_at_default, *(given.name for given in tried.function.parameters)]
        plain = tried.reference.encoding.bound.scheme.name == "rope"
        return [name for name in names if plain and name in varied.names][:1]
    parts = varied.names if form.vectors or "setting" in varied.roles else ("",)
    given = [
        *process.given_parameters,
        *((argument.role, argument.parameter) for argument in form.arguments),
    ]
    return [
        name for role, name in given if role in varied.roles and any(part in name for part in parts)
    ]


def try_parameters(tried: Tried) -> None:
    """Call a function with other values of each parameter whose role has some, one at a time.

    A mask may also determine positions, if the function has no parameter for them.
    """
    judge, batch = tried.calls.judge, _right_batch(tried)
    for given, role in _varied_parameters(tried.function):
        for value in role.varied:
            if value == ADDED and (tried.form.added_mask or tried.form.from_zero):
                continue  # the form adds masks already, or the mask may determine positions
            text = f"{given.name}={value}"
            if role.name in NUMBERS and not isinstance(value, int | float):
                text = f"{given.name} {NUMBERS[role.name] if value is None else value}"
            surely = role.response == "same" and value != ADDED
            with tried.calls.planned(text, surely=surely, tests=[given.name]):
                other = _with_value(tried.function, given.name, role.name, value)
                called = f"called with {text}: results"
                fault = _response_fault(tried, other, role, (given.name, value), called)
                if fault is None and batch is not None and value == role.varied[0]:
                    fault = _batch_fault(tried, other, batch, text)
                tried.calls.fault(fault)
    for name in _other_offsets(tried):
        call, surely = partial(_offset_fault, tried, name), name != _ADDED_OFFSETS
        judge(f"rows placed by {name}", call, surely=surely, tests=[name])
    for argument in tried.form.arguments:
        name = argument.parameter
        if argument.role == "length":
            judge(f"a longer {name}", partial(_length_fault, tried, name), tests=[name])
        elif name == "grid_sizes":
            judge(_GRIDS, partial(_grids_fault, tried), tests=[name])
            tried.calls.untested += [_GRIDS] * (_GRIDS not in tried.calls.tried)


def untested_parameters(function: ServedFunction, calls: PlannedCalls) -> list[str]:
    """Return the parameters that may affect values, and that no judged call varied."""
    form, varying = function.form, {*VARYING, "layer_type"}
    if form.has("qkv"):
        varying -= {"key_heads"}
    if form.has(*TABLES) and not form.chosen:
        varying -= {"positions", "offset"}
    if not form.vectors and form.from_zero:  # the length decides how long its tables are
        varying |= {"length"}
    tested = {*function.found.chosen_by, *calls.tested}
    tested |= {argument.parameter for argument in form.arguments if argument.role in varying}
    at_default = [name for name in function.process.left_at_default if name not in calls.tested]
    return at_default + [
        given.name
        for given in function.parameters
        if given.affects_values and given.name not in tested
    ]


def _other_offsets(tried: Tried) -> list[str]:
    """Return the other parameters that may give the first position, or offsets to add to it."""
    form, function = tried.form, tried.function
    if not form.has("positions") or form.has(*TABLES) or form.follows_axes:
        return []
    names, place = function.parameters, form.position_parameter
    if any(given.name == place and given.required for given in names):  # vLLM adds offsets to them
        return [given.name for given in names if given.name == _ADDED_OFFSETS]
    return [given.name for given in names if "offset" in given.roles() and given.name != place]


_ADDED_OFFSETS = "offsets"
"""vLLM's parameter for numbers that are added to required positions."""


def _offset_fault(tried: Tried, name: str) -> Irregularity | None:
    """Return the fault of rows whose positions come from another parameter.

    Raises: InvalidInput if the call fails.
    """
    form, function = tried.form, tried.function
    added = _OFFSET if name == _ADDED_OFFSETS else 0
    x, positions = _vectors_and_positions(tried, tried.last - added, first=_OFFSET)
    if added:
        other = _with_value(function, name, "offsets", added)
    else:
        arguments = tuple(
            Argument("offset", name, name)
            if argument.parameter == form.position_parameter
            else argument
            for argument in form.arguments
        )
        other = function.varied(
            last=function.last, form=replace(form, arguments=arguments, position_axes="")
        )
    values = _joined_results(other, positions, x)
    more = offsets_of_rows(positions, added)
    if not tried.differs(values, _joined_results(function, positions + more, x)):
        return None
    if added:
        # vLLM's M-RoPE ignores them, and offsets may be the boundaries of sequences.
        if tried.differs(values, _joined_results(function, positions - more, x)):
            raise InvalidInput("its numbers are not added to positions")
        how, given = "is subtracted from positions", f" from {_OFFSET - 2} to {_OFFSET}"
    else:
        ignored = not tried.differs(values, _joined_results(function, positions - _OFFSET, x))
        how, given = "is ignored" if ignored else "places rows at other positions", f"={_OFFSET}"
    return Irregularity(
        Cause.POSITION_OFFSET,
        f"{name} {how}",
        f"called with {name}{given}: results differ from calls with {form.position_parameter}",
    )


def _joined_results(function: ServedFunction, positions: Integers, x: NumberArray) -> NumberArray:
    """Return all results for vectors at positions. Shape: (n, columns of all)."""
    return np.concatenate(function.all_values(x, positions), axis=1)


def _varied_parameters(function: ServedFunction) -> Iterator[tuple[NamedParameter, Role]]:
    """Yield the parameters of a function that are given other values, and their roles."""
    for given in function.parameters:
        role = VARIED.get((*given.roles(), "")[0])
        varies = (
            role is not None and role.name in VARYING and given.name in function.form.parameters
        )
        if role is not None and not (varies or given.variable or function.outcome == "frequencies"):
            yield given, role


def _with_value(
    function: ServedFunction, name: str, role: str, value: float | str | None
) -> ServedFunction:
    """Return the same function with a value for a parameter; None is the value of its role."""
    arguments = {argument.parameter: argument for argument in function.form.arguments}
    given = arguments.setdefault(name, Argument(role, name, name))
    if value == HALF:
        value = next(iter(BY_NAME[function.form.library].halves), None)
    arguments[name] = replace(given, value=value)
    form = replace(function.form, arguments=tuple(arguments.values()))
    if role == "axis":
        if form.axes not in _BY_AXIS or not form.has(*TABLES):
            raise InvalidInput("no tables have an axis of heads beside its vectors")
        form = replace(form, axes=_BY_AXIS[int(value or 1) - 1])
    return function.varied(last=function.last, form=form)


_BY_AXIS = ("bhnd", "bnhd")
"""Axes of vectors whose tables have the axis of heads at index 1, and at index 2."""


def _length_fault(tried: Tried, name: str) -> Irregularity | None:
    """Return the fault with a longer length than needed; without one, a shorter length must fail.

    Raises: InvalidInput if a length seems to be ignored, or exceeds a bound.
    """
    form, function = tried.form, tried.function
    first, after = (0, _ROWS) if form.from_zero else (_OFFSET, 0)  # its rows may end at the length
    if function.follows_length:
        raise InvalidInput("the length is always that of the call")
    x, positions = _vectors_and_positions(tried, tried.last, first=first)
    needed = positions.size if form.counted else int(positions[-1]) + 1
    longer, shorter = (
        _with_value(function, name, "length", length) for length in (needed + _ROWS, needed - 2)
    )
    values = _joined_results(longer, positions, x)
    plain, last = (_joined_results(function, positions + more, x) for more in (0, after))
    if tried.differs(values, plain) and tried.differs(values, last):
        return Irregularity(
            Cause.UNKNOWN,
            f"{name} {_MATTERS}",
            f"called with {name}={needed + _ROWS}: results change",
        )
    if form.from_zero and function.outcome == "tables":
        follows = any(needed + _ROWS in table.shape for table in longer.answers(positions[None]))
    else:
        follows = result_or_none(function, partial(shorter.all_values, x, positions)) is None
    if not follows:
        raise InvalidInput("its result is as long as x")
    return None


_GRIDS = "grid_sizes of each sequence"


def _grids_fault(tried: Tried) -> Irregularity | None:
    """Return the fault of two sequences, the second with a narrower grid and rows of padding.

    Raises: InvalidInput if the call fails.
    """
    function, columns = tried.function, (tried.reference.grid or (1,))[-1]
    x, positions = _vectors_and_positions(tried, tried.last)
    narrow = (columns + 1) // 2
    kept = np.flatnonzero(positions % columns < narrow)  # their places in the wide grid
    spread = x.copy()
    spread[kept] = x[: kept.size]
    wanted = [function.all_values(rows, positions)[0] for rows in (x, spread)]
    form = _with_value(function, "grid_sizes", "grid", narrow).form
    given = Vectors(np.stack([x, x])[:, :, None], len(x))
    values = tried.joined_results(form, positions, [given])[:, :, 0]
    both = np.concatenate([values[0], values[1, : kept.size]])
    if not tried.differs(both, np.concatenate([wanted[0], wanted[1][kept]])):
        return None
    return Irregularity(
        Cause.POSITION_OFFSET,
        f"{_GRIDS} are not followed",
        f"called with {columns} and {narrow} columns: results differ from single calls",
    )


def _right_batch(tried: Tried) -> Arrangement | None:
    """Return the fullest batch of sequences in which the function is right, or None."""
    if not tried.rotates or not tried.takes_batches:
        return None
    return next(
        (one for one in arrangements(tried.form) if one.sequences > 1 and is_right(tried, one)),
        None,
    )


def _batch_fault(
    tried: Tried, other: ServedFunction, batch: Arrangement, text: str
) -> Irregularity | None:
    """Return the fault in a batch with another value of a parameter, described by ``text``.

    Raises: InvalidInput if the call fails.
    """
    form = replace(batch.form, arguments=other.form.arguments)
    called = called_together(other, replace(batch, form=form), tried.differs)
    fault = called.fault(f"{batch.text} and {text}")
    if fault is None:
        return None
    unnamed = f"results for {called.where} of a batch differ from single calls"
    return replace(fault, message=f"with {text}, {fault.message.replace(NO_MAP, unnamed)}")


def _response_fault(
    tried: Tried,
    other: ServedFunction,
    role: Role,
    given: tuple[str, float | str | None],
    called: str,
) -> Irregularity | None:
    """Return the fault with another value of a parameter, if results respond wrongly.

    Rows begin after position 0 if there are enough, so that a value that drops positions shows.

    Raises: InvalidInput if the call fails.
    """
    (name, value), (x, positions) = given, _vectors_and_positions(tried, tried.last)
    if value == HALF:
        halves = BY_NAME[tried.form.library].halves[:1]  # if there is none, nothing is compared
        at = rounded_positions(tried)
        faults = (faults_in_half(half, other, tried, "results", at) for half in halves)
        return next(chain.from_iterable(faults), None)
    whole = tried.form.has("grid") or tried.form.from_zero or len(x) < 2 * _OFFSET
    late = slice(0 if whole else _OFFSET, None)
    plain, values = (one.all_values(x[late], positions[late]) for one in (tried.function, other))
    if role.response != "same":
        return _changed_response_fault(tried, other, (role.response, *given), (plain, values), late)
    if role.name == "dtype":  # the default may be coarser
        message = f"{name} is ignored: results are float16, not float32"
        fault = Irregularity(Cause.TABLE_PRECISION, message, f"{called} are float16")
        return fault if values[0].dtype == np.float16 else None
    if not any(tried.differs(*pair) for pair in _compared_parts(tried, values, plain, value)):
        return None
    if value == LEFT_PADDED and not tried.form.has("positions"):  # it may count without padding
        wanted = _joined_results(tried.function, positions[late][:-1], x[late][1:])
        if not tried.differs(np.concatenate(values, axis=1)[1:], wanted):
            return None
    lengths = [np.linalg.norm(np.concatenate(results), axis=1) for results in (values, plain)]
    if value == ADDED and tried.differs(*lengths):
        raise InvalidInput("it requires a mask of rows")
    message = f"{name} {'names another axis' if role.name == 'axis' else _MATTERS}"
    return Irregularity(Cause.UNKNOWN, message, f"{called} change")


_MATTERS = "changes the result, which must not depend on it"


def _changed_response_fault(
    tried: Tried,
    other: ServedFunction,
    varied: tuple[str, str, float | str | None],
    results: tuple[list[NumberArray], list[NumberArray]],
    late: slice,
) -> Irregularity | None:
    """Return the fault with a value that must change the results of ``late`` rows.

    ``varied`` are the required response, the parameter and the value. A scale of scores may
    multiply only one of q and k.

    Raises: InvalidInput if the call fails.
    """
    (response, name, value), (plain, values) = varied, results
    x, positions = _vectors_and_positions(tried, tried.last)
    called, parts = f"called with {name}={value}: results", _compared_parts(tried, values, plain)
    same = [not tried.differs(*pair) for pair in parts]
    changed = [pair for pair, unchanged in zip(parts, same, strict=True) if not unchanged]
    scaled = all(not tried.differs(one, before * np.float32(value or 0)) for one, before in changed)
    if all(same) or (any(same) and not scaled):
        message = f"{name} is ignored" + f" for {'qk'[same.index(True)]}" * (not all(same))
        return Irregularity(Cause.UNKNOWN, message, f"{called} do not change")
    before = _input_planes(tried, x[late])
    wanted = tried.planes(plain).conj() * before / before.conj()
    if response == "inverse" and _planes_differ(tried, tried.planes(values), wanted):
        return Irregularity(
            Cause.DIRECTION,
            f"{name}={value} does not rotate back",
            f"{called} are not rotated by the opposite angles",
        )
    from_zero = _joined_results(other, positions, x)[late]
    if not tried.differs(np.concatenate(values, axis=1), from_zero):
        if not (scaled or response == "inverse" or _scales_positions(tried, other)):
            raise InvalidInput("it multiplies neither the results nor the positions")
        return None
    message = f"with {name}={value}, a row's rotation depends on more than its position"
    text = f"{called} from position {late.start} on differ from a call that starts at 0"
    return Irregularity(Cause.POSITION_OFFSET, message, text)


def _scales_positions(tried: Tried, other: ServedFunction) -> bool:
    """Return whether a scale of 2 or 1/2 multiplies positions, as in MLX, or divides them.

    Raises: InvalidInput if a call fails.
    """
    few = np.arange(min(_ROWS, tried.last // 2 + 1))
    x = random_vectors(few.size, tried.form.columns)
    scaled = ((few, 2 * few), (2 * few, few))
    return not all(
        tried.differs(_joined_results(other, at, x), _joined_results(tried.function, as_at, x))
        for at, as_at in scaled
    )


def _compared_parts(
    tried: Tried,
    values: Sequence[NumberArray],
    plain: Sequence[NumberArray],
    value: float | str | None = None,
) -> list[tuple[NumberArray, NumberArray]]:
    """Return the results to compare: q and k each, or both tables; rows of padding are left out."""
    pairs = list(zip(values, plain, strict=True))
    if tried.function.outcome == "tables":  # the cosines alone may stay the same
        pairs = [(np.concatenate(values, axis=1), np.concatenate(plain, axis=1))]
    rows = slice(value in (LEFT_PADDED, ADDED), -1 if value == PADDED else None)
    return [(result[rows], other[rows]) for result, other in pairs]


def _reference_fault(
    tried: Tried, varied: _VariedSetting, names: Sequence[str]
) -> Irregularity | None:
    """Return the fault with another reference, on which the function's parameters ``names`` depend.

    Raises: InvalidInput if a call fails, or the function matches neither.
    """
    reference = tried.reference
    if varied.of_rope and names[0] not in tried.function.process.left_at_default:
        tried = replace(
            tried, function=_with_value(tried.function, names[0], varied.roles[0], None)
        )
    other, value = _other_reference(reference, varied)
    if not _matches(tried, reference, reference):
        raise InvalidInput("it differs from its own reference")
    others = [
        replace(tried, pairing=one) for one in _possible_pairings(other, reference, tried.pairing)
    ]
    if varied.parameter == "layout":  # tables may follow it, as Megatron's do
        function = tried.function.varied(
            last=tried.function.last,
            form=replace(tried.form, kind=_OTHER_KINDS.get(tried.form.kind, tried.form.kind)),
        )
        others += [replace(one, function=function) for one in others]
    if any(_matches(one, other, other) for one in others):
        return None
    ignored = _matches(tried, other, reference)
    if varied.optional or (varied.doubtful and not ignored):
        # Some code, as for proportional RoPE, keeps the frequencies of all dimensions.
        raise InvalidInput(_SAME if ignored else "its frequencies differ from the reference's")
    given = f"a {varied.parameter} of {value}"
    if ignored:
        if tried.form.has("share") and "share" in varied.roles:  # then dim stays the same
            names = [tried.form.parameter_of("share")]
        message = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} ignored"
        return Irregularity(varied.cause, message, f"called with {given}: results do not change")
    text = f"called with {given}: results differ from the reference"
    return Irregularity(Cause.UNKNOWN, f"{given} gives wrong results", text)


_SAME = "changing it changes nothing"

_OTHER_KINDS = {**SIDE_BY_SIDE, **{kind: halves for halves, kind in SIDE_BY_SIDE.items()}}
"""Kinds of tables with two copies of each value, and the kind of the other layout."""


def _other_reference(reference: Reference, varied: _VariedSetting) -> tuple[Reference, str]:
    """Return another reference, and its value of the parameter.

    Raises: InvalidInput if there is none.
    """
    name, bound = varied.parameter, reference.encoding.bound
    given = {key: value for key, value in bound.params.items() if value is not None}
    if varied.of_rope:
        given[name] = 1.0
        bound = catalogue.find(varied.of_rope).bind(given)
    if name == "base":  # some conventions set it
        given.setdefault(name, role_settings(reference)["base"])
    if name not in given:
        raise InvalidInput(f"{bound.scheme.name} has no other {name}")
    if name == "grid" and given.get("axes"):
        raise InvalidInput("the coordinates come from a file")
    given[name] = varied.other(given[name])
    bound = bound.scheme.bind(given)
    coordinates = reference.coordinates
    if (
        coordinates is not None and bound.rotation.waves.coordinates is None
    ):  # a model's video has some
        placed = bound.scheme.bind({**given, "axes": "of a video"}).rotation.waves
        assert placed.coordinates is not None
        axes = replace(placed.coordinates, at=coordinates.at, file=None)
        waves = replace(bound.rotation.waves, coordinates=axes)
        bound = replace(bound, content=replace(bound.rotation, waves=waves))
    encoding = replace(reference.encoding, bound=bound)
    return Reference(encoding, reference.engine), as_text(given[name]).replace("x", "×")


def _possible_pairings(
    other: Reference, reference: Reference, pairing: ColumnPairing | None
) -> list[ColumnPairing | None]:
    """Return the pairings that a function may have with another reference.

    Its results may be in the order of that reference, or as before.
    """
    if pairing is None or other.pairing == reference.pairing:
        return [pairing]
    return [
        other.pairing,
        replace(other.pairing, out_first=pairing.out_first, out_second=pairing.out_second),
    ]


def _matches(tried: Tried, used: Reference, wanted: Reference) -> bool:
    """Return whether a function that is given one reference returns the rotations of another.

    Raises: InvalidInput if the call fails.
    """
    function, pairing = tried.function, tried.pairing
    last = prod(used.grid or ()) - 1 if tried.form.has("grid") else _ROWS
    x, positions = _vectors_and_positions(tried, last)
    with function.on(used):
        if function.outcome == "frequencies":
            rates = function.returned(positions)[0].values.reshape(-1)
            return rates.size == wanted.pairs and not tried.differs(rates, wanted.frequencies)
        parts = function.all_values(x, positions)
    if pairing is not None and (
        pairing.pairs != wanted.pairs or parts[0].shape[1] <= max(pairing.second)
    ):
        return False  # other pairs, or tables of fewer dimensions
    if tried.form.has("grid"):
        positions = positions % prod(wanted.grid or ())
    before = _input_planes(tried, x)
    results = max(1, before.shape[1] // wanted.pairs)
    factors = np.tile(wanted.cells(positions, FLOAT64), (1, results)) * before
    return not _planes_differ(tried, tried.planes(parts), factors)


def _vectors_and_positions(
    tried: Tried, last: int, *, first: int = 0
) -> tuple[NumberArray, Integers]:
    """Return random vectors and their positions: those of all rows of a grid, or some.

    They begin at ``first``.

    Raises: InvalidInput if there are none.
    """
    rows = last + 1 if tried.form.has("grid") else min(_ROWS, last + 1)
    if rows <= first:
        raise InvalidInput("there are too few positions")
    return random_vectors(rows, tried.form.columns)[first:], np.arange(first, rows)


def _input_planes(tried: Tried, x: NumberArray) -> ComplexRows:
    """Return the dimension pairs of the given vectors as complex numbers; 1 for tables."""
    if tried.function.outcome == "tables":
        return np.ones((len(x), 1), complex)
    return tried.planes([x, other_vectors(x)][: tried.function.results], given=True)


def _planes_differ(tried: Tried, values: ComplexRows, wanted: ComplexRows) -> bool:
    """Return whether complex pairs differ from those wanted; tables may repeat each value."""
    times, more = divmod(values.shape[1], wanted.shape[1])
    return more > 0 or tried.differs(values, np.tile(wanted, (1, times)))
