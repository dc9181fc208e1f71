"""Encodings as arrays: rows, tables of cosines and sines, frequencies, biases, resized tables."""

from __future__ import annotations

import warnings
from math import lcm
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, cast, overload

import numpy as np

from posenc_cli import catalogue
from posenc_cli.api.arguments import (
    ArgumentError,
    ArrayLike,
    EncodingLike,
    GivenPositions,
    ModelEncoding,
    PositionsLike,
    argument_text,
    checked_choice,
    checked_count,
    checked_number,
    choice_of,
    given_positions,
    in_arguments,
    model_encoding,
    number_format,
    plain_value,
    type_text,
)
from posenc_cli.api.arrays import array_like, delivered, format_of_result, is_array, loaded_array
from posenc_cli.backends.registry import ARITHMETICS, Arithmetic
from posenc_cli.configs import library
from posenc_cli.encoding import blocks as block_rules
from posenc_cli.encoding.arrays import position_array
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Plan, Request, check_domain
from posenc_cli.encoding.resizing import Resizing, Sides
from posenc_cli.encoding.scores import score_rule, scores_of_heads
from posenc_cli.formulas.alibi import SlopesRule, exact_slopes
from posenc_cli.formulas.declare import Scheme
from posenc_cli.formulas.learned import METHODS, RESIZE_ARITHMETICS, Method, ResizeArithmetic
from posenc_cli.numerics.dtypes import FLOAT64, REAL_DTYPES
from posenc_cli.numerics.memory import LRUCache, large_or_small
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from posenc_cli.rotary.lengths import depends_on_length

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from posenc_cli.choice import Choice
    from posenc_cli.configs.library import Preset
    from posenc_cli.numerics.arrays import Reals, StoredArray
    from posenc_cli.numerics.dtypes import DType


_FEW_ROWS = 64
"""Up to this many rows, two tables at once take half the time of each by itself, even if copied."""


class Tables(NamedTuple, Generic[ArrayLike]):
    """Cosines and sines of a rotary encoding, each (…, pairs), or (…, columns) if full."""

    cos: ArrayLike
    sin: ArrayLike


@overload
def encode(
    encoding: EncodingLike,
    positions: PositionsLike = ...,
    *,
    table: str | None = ...,
    head: int | None = ...,
    dtype: object = ...,
    round_to: object = ...,
    arithmetic: Arithmetic = ...,
    out: NDArray[Any] | None = ...,
    like: None = ...,
    **parameters: object,
) -> NDArray[Any]: ...
@overload
def encode(
    encoding: EncodingLike,
    positions: PositionsLike = ...,
    *,
    table: str | None = ...,
    head: int | None = ...,
    dtype: object = ...,
    round_to: object = ...,
    arithmetic: Arithmetic = ...,
    out: None = ...,
    like: ArrayLike,
    **parameters: object,
) -> ArrayLike: ...
@in_arguments
def encode(
    encoding: EncodingLike,
    positions: PositionsLike | None = None,
    *,
    table: str | None = None,
    head: int | None = None,
    dtype: object = None,
    round_to: object = None,
    arithmetic: Arithmetic = "exact",
    out: Any = None,
    like: Any = None,
    **parameters: object,
) -> Any:
    """Return the matrix of an encoding: what ``posenc generate`` writes, as an array.

    Args:
        encoding: a scheme or a model by name, a config (path, dict, PretrainedConfig), what
            `from_config` returns, or a function of positions (n,) that returns rows (n, columns).
        positions: how many from 0 on, a range, ``"0:4096:2"``, or numbers in an array of any shape.
            They may be negative or fractions if the formula allows it.
        table: for a rotary encoding ``cos-sin`` (the default), ``cos``, ``sin``, ``cos-full``,
            ``sin-full``, ``interleaved``, ``angles``, ``complex`` or ``inv-freq``.
        head: one head of a bias.
        dtype: float16, float32 (the default) or float64; bfloat16 with a tensor.
        round_to: a coarser format that the values are rounded to first.
        arithmetic: ``exact``, or what frameworks compute in float64, float32 or bfloat16.
        out: a NumPy array to fill and return.
        like: an array or a tensor; the result has its type, device and dtype.
        parameters: of the scheme: ``dim=128``, ``base=5e5``.

    Returns: (positions…, columns), (heads, L, L) for a bias, (pairs,) for frequencies. Every value
        is correctly rounded; a function's own values are rounded once.

    Raises: ValueError if an argument is wrong.

    >>> encode("rope", 2, dim=4, table="angles")
    array([[0.  , 0.  ],
           [1.  , 0.01]], dtype=float32)
    """
    precision = _precision(format_of_result(dtype, like, out), round_to)
    given = None if positions is None else GivenPositions.of(positions)
    choice, request = _requested(
        encoding, given.positions if given else None, parameters, precision, table, head=head
    )
    return _computed(request.plan(), choice, given, arithmetic, like=like, out=out)


def _computed(
    plan: Plan, choice: Choice, given: GivenPositions | None, arithmetic: Arithmetic, **arrays: Any
) -> Any:
    checked_choice("arithmetic", arithmetic, ARITHMETICS)
    return delivered(
        _result_shape(plan, given),
        plan.dtype,
        lambda values: fill_values(values, plan, choice, arithmetic),
        **arrays,
    )


_encodings = LRUCache[tuple["Choice", "Encoding", bool]](8)


def _requested(
    encoding: EncodingLike,
    positions: Positions | None,
    parameters: dict[str, object],
    precision: Precision,
    table: str | None,
    *,
    head: int | None = None,
) -> tuple[Choice, Request]:
    """Return an encoding's choice and the request for a table; warn of random or doubtful values.

    The last schemes and models by name are kept: callers ask for the same one at other positions.

    Raises: InvalidInput if the request is not valid, or is for several encodings.
    """

    def made() -> tuple[Choice, Encoding, bool]:
        choice = choice_of(encoding, positions, parameters)
        request, *others = choice.requests(precision, table=table, head=head)
        if others:
            raise ArgumentError(
                f"encoding {choice.name!r} is {1 + len(others)} encodings; encode returns one "
                "matrix",
                hint="encode each by itself",
            )
        return choice, request.encoding, depends_on_length(choice.scheme, choice.given)

    if _is_constant(encoding, parameters):
        key = encoding, repr(parameters)  # 1 is not 1.0
        choice, bound, by_length = _encodings.get(key, made)
        if by_length:
            bound = replace(choice, positions=positions).encoding()
    else:
        choice, bound, _ = made()
    if positions is not None:
        check_domain(bound.bound, positions)
    request = Request(bound, positions, precision, table, head)
    warn_of_doubts(choice, request, stacklevel=5)
    return choice, request


def _is_constant(encoding: EncodingLike, parameters: dict[str, object]) -> bool:
    """Return whether an encoding is known by name and reads no files, which may change."""
    return (
        isinstance(encoding, str)
        and (encoding in catalogue.BUILT_IN or encoding in library.names())
        and all(name == "layout" or isinstance(v, int | float) for name, v in parameters.items())
    )


def warn_of_doubts(choice: Choice, request: Request, *, stacklevel: int) -> None:
    """Warn if values of an encoding are random or doubtful."""
    texts = list(choice.warnings)
    if request.random_weights and not {"seed", "weights"} & {*choice.given} and not texts:
        texts.append(f"{choice.name}: {request.random_weights}")
    for text in texts:
        warnings.warn(argument_text(text), stacklevel=stacklevel)


def _precision(form: DType, round_to: object) -> Precision:
    return Precision.of(form, None if round_to is None else number_format(round_to, "round_to"))


def _result_shape(plan: Plan, given: GivenPositions | None) -> tuple[int, ...]:
    """Return the shape of a result: each row takes the place of its position."""
    if given is None or len(given.shape) == 1 or plan.shape == plan.shape[-1:]:
        return plan.shape
    if len(plan.shape) != 2 or plan.row_label != "position" or plan.computed_as == "scores":
        raise ArgumentError("positions: must be one-dimensional, for a bias and for offsets")
    return (*given.shape, *plan.shape[1:])


_REQUEST_VALUES = 1 << 14
"""The minimum that a request counts for: with fewer values, NumPy takes as long."""

_asked_for = 0  # values that the kernel could have computed, over all requests of this process


def fill_values(
    values: StoredArray, plan: Plan, choice: Choice, arithmetic: Arithmetic = "exact"
) -> None:
    """Compute a plan into an array of its shape.

    The small requests of one process count together towards the start of the compiled kernel.
    """
    global _asked_for  # noqa: PLW0603 - one number of the process
    if plan.kernel_values is not None:
        _asked_for += max(plan.kernel_values, _REQUEST_VALUES)
    plan.fill(
        values,
        choice.engine(plan, arithmetic=arithmetic, kernel_values=plan.kernel_values and _asked_for),
    )


@in_arguments
def blocks(
    encoding: EncodingLike,
    positions: PositionsLike | None = None,
    *,
    table: str | None = None,
    head: int | None = None,
    dtype: object = None,
    round_to: object = None,
    arithmetic: Arithmetic = "exact",
    **parameters: object,
) -> Iterator[NDArray[Any]]:
    """Return the rows of `encode`, one block at a time: any length in constant memory.

    All arguments are those of `encode`, and are checked before the first block is computed. An
    encoding with several heads comes head by head.

    >>> [block.shape for block in blocks("rope", 1300, dim=256)]
    [(512, 256), (512, 256), (276, 256)]
    """
    precision = _precision(format_of_result(dtype, None, None), round_to)
    choice, request = _requested(
        encoding, given_positions(positions), parameters, precision, table, head=head
    )
    plan = request.plan()
    checked_choice("arithmetic", arithmetic, ARITHMETICS)
    return plan.matrix(choice.engine(plan, arithmetic=arithmetic)).blocks()


@overload
def tables(
    encoding: EncodingLike,
    positions: PositionsLike,
    *,
    full: bool = ...,
    dtype: object = ...,
    round_to: object = ...,
    arithmetic: Arithmetic = ...,
    like: None = ...,
    **parameters: object,
) -> Tables[NDArray[Any]]: ...
@overload
def tables(
    encoding: EncodingLike,
    positions: PositionsLike,
    *,
    full: bool = ...,
    dtype: object = ...,
    round_to: object = ...,
    arithmetic: Arithmetic = ...,
    like: ArrayLike,
    **parameters: object,
) -> Tables[ArrayLike]: ...
@in_arguments
def tables(
    encoding: EncodingLike,
    positions: PositionsLike,
    *,
    full: bool = False,
    dtype: object = None,
    round_to: object = None,
    arithmetic: Arithmetic = "exact",
    like: Any = None,
    **parameters: object,
) -> Tables[Any]:
    """Return the tables of cosines and sines of a rotary encoding, attention factor included.

    ``full`` repeats each value for both columns of its pair, in the encoding's layout. The other
    arguments are those of `encode`.

    Returns: two arrays (positions…, pairs), or (positions…, 2 · pairs) if full.

    Raises: ValueError if an argument is wrong, or the encoding is not rotary.

    >>> cos, sin = tables("rope", 4096, dim=128, base=500_000.0)
    >>> cos.shape, cos.dtype.name
    ((4096, 64), 'float32')
    """
    for name in {"out", "table", "head"} & {*parameters}:
        raise ArgumentError(f"{name}: tables takes no such argument")
    precision = _precision(format_of_result(dtype, like, None), round_to)
    given = None if positions is None else GivenPositions.of(positions)
    names = ("cos-full", "sin-full") if full else ("cos", "sin")
    choice, request = _requested(
        encoding, given.positions if given else None, parameters, precision, names[0]
    )
    if full or not given or given.positions.count > _FEW_ROWS or request.scheme.kind != "rotary":
        plans = [replace(request, table=name).plan() for name in names]
        return Tables(*(_computed(plan, choice, given, arithmetic, like=like) for plan in plans))
    both = _computed(replace(request, table="cos-sin").plan(), choice, given, arithmetic)
    pairs = both.shape[-1] // 2
    parts = both[..., :pairs].copy(), both[..., pairs:].copy()
    return Tables(*(array_like(part, like, precision.stored) for part in parts))


@overload
def frequencies(
    encoding: EncodingLike, *, dtype: object = ..., like: None = ..., **parameters: object
) -> NDArray[Any]: ...
@overload
def frequencies(
    encoding: EncodingLike, *, dtype: object = ..., like: ArrayLike, **parameters: object
) -> ArrayLike: ...
@in_arguments
def frequencies(
    encoding: EncodingLike, *, dtype: object = None, like: Any = None, **parameters: object
) -> Any:
    """Return the inverse frequencies θ_i of an encoding made of waves (``inv_freq``).

    ``dtype`` and ``like`` are those of `encode`; without either, the result is float64.

    Returns: (pairs,) in radians per position, correctly rounded.

    Raises: ValueError if an argument is wrong, or the encoding has no waves.

    >>> frequencies("rope", dim=4)
    array([1.  , 0.01])
    """
    bound = choice_of(encoding, None, parameters).encoding().bound
    waves = bound.content.waves
    if waves is None:
        raise ArgumentError(f"encoding {bound.scheme.name!r} has no frequencies")
    form = format_of_result("float64" if dtype is None and like is None else dtype, like, None)
    rates = block_rules.frequencies_of(waves, precision=Precision.of(form, None), engine=Engine())
    return array_like(rates, like, form)


@in_arguments
def bias(
    encoding: EncodingLike,
    queries: PositionsLike,
    keys: PositionsLike | None = None,
    *,
    head: int | None = None,
    dtype: object = None,
    like: Any = None,
    **parameters: object,
) -> Any:
    """Return the bias added to the scores of queries and keys; ``keys`` defaults to ``queries``.

    Returns: (heads, queries, keys), or (queries, keys) for one head, correctly rounded.

    Raises: ValueError if an argument is wrong, or the encoding is not a bias.

    >>> bias("alibi", [3], 4, heads=2)[0]
    array([[-0.1875, -0.125 , -0.0625,  0.    ]], dtype=float32)
    """
    form = format_of_result(dtype, like, None)
    at = [GivenPositions.of(given) for given in (queries, queries if keys is None else keys)]
    if any(len(places.shape) != 1 for places in at):
        raise ArgumentError("queries, keys: must each be one-dimensional")
    parts = lcm(*(places.positions.denominator for places in at))
    asked = [places.positions.in_parts(parts) for places in at]
    choice = choice_of(encoding, None, parameters)
    encoded = choice.encoding(max(places.length for places in asked))
    content = encoded.bound.content
    if content.heads is None:
        raise ArgumentError(f"encoding {choice.name!r} is {choice.scheme.kind_text}, not a bias")
    if head is not None and not 0 <= head < content.heads:
        raise ArgumentError(f"head {head}: the heads are 0 to {content.heads - 1}")
    content = content.in_parts(parts)
    rule = score_rule(content, encoded.lookup, precision=Precision.of(form, None), engine=Engine())
    for places in asked:
        check_domain(encoded.bound, places.within_exact_range(option="queries, keys"))
    rows, columns = map(position_array, asked)
    heads = range(content.heads) if head is None else range(head, head + 1)

    def fill(values: StoredArray) -> None:
        matrices = values.reshape(-1, rows.size, columns.size)
        found = scores_of_heads(content, rule, heads, rows, columns)
        for scores, made in zip(matrices, found, strict=True):
            scores[...] = made

    shape = (rows.size, columns.size)
    return delivered(shape if head is not None else (content.heads, *shape), form, fill, like=like)


@in_arguments
def from_config(
    config: EncodingLike, *, layer_type: str | None = None, runtime: str | None = None
) -> ModelEncoding:
    """Return the encoding of a model, each value with its source.

    Args:
        config: the path of a config.json or its folder, a dict, transformers' PretrainedConfig, or
            the name of a model that `models` lists.
        layer_type: the layers to read, if they differ.
        runtime: the program that reads the config: ``vllm`` or ``llama.cpp``, by default
            transformers.

    Raises: ValueError if it is not a config or has no encoding; Unavailable if it cannot be read.

    >>> llama = from_config("llama-3-8b")
    >>> llama.scheme, llama.parameters["base"].value, llama.parameters["base"].source
    ('rope', 500000.0, 'rope_theta')
    """
    return model_encoding(config, layer_type=layer_type, runtime=runtime)


def schemes() -> Mapping[str, Scheme]:
    """Return all schemes by name, built in and installed, with formula, source and parameters.

    >>> rope = schemes()["rope"]
    >>> rope.kind, rope.parameters["base"].default
    ('rotary', 10000.0)
    """
    plugins = [plugin for plugin in catalogue.installed() if isinstance(plugin, Scheme)]
    return {**catalogue.BUILT_IN, **{scheme.name: scheme for scheme in plugins}}


def models() -> Mapping[str, Preset]:
    """Return all models by name: title, source, and the config with their encoding.

    >>> models()["gpt2"].config["n_positions"]
    1024
    """
    return {name: library.find(name) for name in library.names()}


@in_arguments
def alibi_slopes(heads: int, *, max_bias: float = 8.0, convention: SlopesRule = "press") -> Reals:
    """Return the slope of each head of ALiBi, correctly rounded to float64: (heads,).

    Raises: ValueError if an argument is wrong.

    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    declared = catalogue.BUILT_IN["alibi"].parameters
    return np.array(
        exact_slopes(
            declared["heads"].value(plain_value(heads)),
            max_bias=declared["max_bias"].value(plain_value(max_bias)),
            rule=declared["slopes"].value(convention),
        )
    )


@in_arguments
def resize(
    table: ArrayLike,
    positions: int | None = None,
    *,
    grid: tuple[Sides, Sides] | None = None,
    method: Method | None = None,
    prefix: int = 0,
    antialias: bool = False,
    interpolate_offset: float = 0.0,
    arithmetic: ResizeArithmetic = "exact",
) -> ArrayLike:
    """Resize a learned table to another number of positions, as torch's ``interpolate`` does.

    Args:
        table: (rows, d) or (1, rows, d), an array or a tensor.
        positions: the number of rows of the result, without the prefix. Or give ``grid``, ((A, B),
            (C, D)): A rows of B positions become C rows of D.
        method: ``linear``, ``bicubic``, ``nearest`` or ``nearest-exact``; by default bicubic for a
            grid, else linear.
        prefix: the number of first rows that are kept unchanged, such as class and register tokens.
        antialias: the argument of torch's ``interpolate``, which timm sets.
        interpolate_offset: DINOv2's offset: scale by (C + offset)/A and (D + offset)/B.
        arithmetic: ``exact``, correctly rounded, or ``float32`` or ``float64``: computed by
            torch, which must be installed.

    Returns: the rows in the format of the table, (…, rows, d).

    Raises: ValueError if an argument is wrong, or the table has another number of rows.

    >>> import numpy as np
    >>> resize(np.array([[0.0], [1.0]]), 4)
    array([[0.  ],
           [0.25],
           [0.75],
           [1.  ]])
    """
    if not is_array(table):
        raise ArgumentError(f"table: must be an array or a tensor, not {type_text(table)}")
    loaded = loaded_array(table, "table")
    if loaded.values.dtype.kind == "c":
        raise ArgumentError("table: must be a matrix of real numbers, not complex numbers")
    resizing = Resizing.of(
        loaded.values.shape,
        "table",
        length=None if positions is None else checked_count("positions", positions),
        grid=_grids(grid),
        method=None if method is None else checked_choice("method", method, METHODS),
        prefix=checked_count("prefix", prefix, 0),
        antialias=bool(antialias),
        interpolate_offset=checked_number("interpolate_offset", interpolate_offset),
    )
    checked_choice("arithmetic", arithmetic, RESIZE_ARITHMETICS)
    stored = REAL_DTYPES.get(loaded.dtype, FLOAT64)
    rows = resizing.checked(loaded.values, "table")
    Positions.contiguous(0, resizing.rows).within_exact_range(option="positions")
    values = large_or_small((resizing.rows, rows.shape[1]), stored.numpy)
    np.concatenate([*resizing.blocks(rows, stored, arithmetic)], out=values)
    shape = *loaded.values.shape[:-2], *values.shape
    return cast("ArrayLike", array_like(values.reshape(shape), table, stored))


def _grids(given: Any) -> tuple[Sides, Sides] | None:
    if given is None:
        return None
    try:
        (a, b), (c, d) = given
    except (TypeError, ValueError):
        a = b = c = d = 0
    if not all(isinstance(side, int | np.integer) and side > 0 for side in (a, b, c, d)):
        raise ArgumentError(f"grid {given!r}: must be ((A, B), (C, D)), whole numbers from 1")
    return (int(a), int(b)), (int(c), int(d))
