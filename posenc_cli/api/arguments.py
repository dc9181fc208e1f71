"""Arguments of library functions: encodings, positions and formats, and errors that name them.

Errors from lower layers name options of the command line. This module rewrites them to name
arguments.
"""

from __future__ import annotations

import functools
import operator
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeAlias, TypeVar

from posenc_cli import catalogue
from posenc_cli.choice import Choice, choice_of_layers, choice_of_schemes
from posenc_cli.errors import OTHER_NAMES, InvalidInput, PosencError, abbreviated, nearest
from posenc_cli.formulas.declare import Scheme, scheme_of_function
from posenc_cli.frameworks import as_numpy, format_name, is_traced
from posenc_cli.numerics.dtypes import FLOAT64, REAL_DTYPES, DType
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from posenc_cli.configs.resolved import Layers, Resolved, Sourced
    from posenc_cli.files.gguf import GGUFHeader

Parameters = ParamSpec("Parameters")
Returns = TypeVar("Returns")
ArrayLike = TypeVar("ArrayLike")
"""An array type; a result declared with it has the same type as the argument."""


class ArgumentError(InvalidInput, ValueError):
    """A wrong argument: ``message`` names it and the rule it breaks, ``hint`` says what to do."""

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ModelEncoding(Record):
    """The positional encoding of a model's layers, read from its config.

    ``scheme`` is the name of the scheme. ``parameters`` has each parameter with its ``source``: the
    key or the default it comes from. ``derived`` has the values that follow from them, such as the
    context and the attention factor. ``warnings`` lists what a reader should know. Every function
    that takes an encoding accepts a ModelEncoding.
    """

    scheme: str
    parameters: Mapping[str, Sourced]
    derived: Mapping[str, Sourced]
    layer_type: str | None
    warnings: tuple[str, ...]
    choice: Choice

    @classmethod
    def of(cls, resolved: Resolved, *, name: str, layer_type: str | None) -> ModelEncoding:
        """Return the encoding of the layers of one type, or of all layers if they have the same."""
        layers: Layers = resolved.layer(layer_type)
        choice = choice_of_layers(
            resolved,
            {},
            name=name,
            layer_type=layer_type,
            origin={"config": name} | ({"layer_type": layer_type} if layer_type else {}),
            positions=None,
        )
        return cls(
            *(layers.scheme, layers.params, layers.derived, layers.layer_type),
            choice.warnings,
            choice,
        )


class PretrainedConfig(Protocol):
    """A transformers config, or any object that returns its keys as a dict."""

    def to_dict(self) -> dict[str, Any]:
        """Return the keys and values of its config.json."""
        ...


class Shaped(Protocol):
    """An array or a tensor."""

    @property
    def shape(self) -> Any:
        """The lengths of its axes."""
        ...


EncodingLike: TypeAlias = (
    "str | os.PathLike[str] | Mapping[str, Any] | ModelEncoding | Scheme | PretrainedConfig"
    " | Callable[..., Any]"
)
"""A scheme (``"rope"``, ``"sinusoidal+t5"``) or a model (``"llama-3-8b"``) by name, the path of a
config.json, a config as a dict or as transformers' PretrainedConfig, a `ModelEncoding`, one of the
values of `schemes`, or a function that returns one row for each of n positions, (n, d).
"""

PositionsLike: TypeAlias = (
    "int | range | str | Sequence[float] | Sequence[Sequence[float]] | Shaped"
)
"""The number of positions from 0 on, a range, ``"0:4096:2"`` (``"0.1"`` is exactly a tenth), or
numbers in an array or a tensor of any shape (floats are taken exactly).
"""


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _are_texts(value: object) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return False
    return all(isinstance(each, str) for each in value)


def _are_one_or_more(value: object) -> bool:
    return isinstance(value, str) or _are_texts(value)


def _is_whole(value: Any) -> bool:
    """Return whether a value of any framework is a whole number."""
    try:
        return not isinstance(value, bool) and operator.index(value) is not None
    except (TypeError, RuntimeError):  # tensors without values raise RuntimeError
        return False


_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "str | None": (_is_text, "a string"),
    "str | Sequence[str]": (_are_one_or_more, "a string or a list of strings"),
    "QueryKeyContent | Sequence[QueryKeyContent] | None": (
        lambda value: value is None or _are_one_or_more(value),
        "a string or a list of strings",
    ),
    **dict.fromkeys(("Sequence[str]", "tuple[str, ...]"), (_are_texts, "a list of names")),
    "Callable[..., Any] | str | None": (
        lambda value: _is_text(value) or callable(value),
        "a function, or its name",
    ),
    "int": (_is_whole, "a whole number"),
    "int | None": (lambda value: value is None or _is_whole(value), "a whole number"),
    "bool": (lambda value: type(value).__name__ in ("bool", "bool_"), "True or False"),
    "str | os.PathLike[str] | None": (
        lambda value: _is_text(value) or isinstance(value, os.PathLike),
        "a path",
    ),
}
"""By the annotation of an argument: whether a value fits, and what a message says it must be."""


def in_arguments(function: Callable[Parameters, Returns]) -> Callable[Parameters, Returns]:
    """Make ``function`` raise errors that name arguments, and ValueErrors if an argument is wrong.

    Tables of pandas, polars and xarray are passed as arrays, except for ``out``, which is filled in
    place. An argument of another type than its annotation in `_KINDS` is refused.
    """
    declared = [*signature(function).parameters.values()]
    kinds = {each.name: _KINDS[each.annotation] for each in declared if each.annotation in _KINDS}
    names = [each.name for each in declared if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    known = {each.name for each in declared}
    own = {flag: name for flag, name in _ARGUMENTS_OF_CHECK.items() if name in known}

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Returns:
        __tracebackhide__ = True
        try:
            given: dict[str, Any] = {**dict(zip(names, arguments, strict=False)), **named}
            for name in kinds.keys() & given.keys():
                fits, words = kinds[name]
                if not fits(value := given[name]):
                    shown = "" if isinstance(value, list | tuple) else f" {_value_text(value)}"
                    raise ArgumentError(f"{name}{shown}: must be {words}")
            plain: Any = {
                name: argument if name == "out" else _unlabelled(argument)
                for name, argument in named.items()
            }
            return function(*map(_unlabelled, arguments), **plain)
        except PosencError as error:
            message, hint = error.message, error.hint
            if not isinstance(error, ArgumentError):
                message, hint = argument_text(message, own), argument_hint(hint, own)
            kind = ArgumentError if isinstance(error, InvalidInput) else type(error)
            if error.code == "parameter":
                hint = hint or _meant(function, named)
            raise kind(message, hint=hint, code=error.code) from error.__cause__
        except TypeError as error:
            hint = _meant(function, named)
            raise (TypeError(f"{error} ({hint})") if hint else error) from None

    return call


def _meant(function: Callable[..., Any], named: Collection[str]) -> str | None:
    """Return a hint with the most similar argument, if the function and all schemes lack one."""
    own = signature(function).parameters.keys() - {"parameters"}
    known = own.union(*(scheme.parameters for scheme in catalogue.BUILT_IN.values()))
    hints = (nearest(name, own) for name in named if name not in known or name in OTHER_NAMES)
    return next((hint.replace("'?", "='?") for hint in hints if hint), None)


def _of_numbers(values: Any) -> Any:
    """Convert the objects of a NumPy array, such as pandas' formats with NA, to numbers."""
    import numpy as np

    if values.dtype != object:
        return values
    return values.astype(np.result_type(*{np.asarray(each).dtype for each in values.flat}))


def _unlabelled(value: Any) -> Any:
    """Return a labelled table, or a list of them, as NumPy arrays: labels are ignored."""
    if hasattr(type(value), "to_numpy"):
        return _of_numbers(value.to_numpy())
    if isinstance(value, list | tuple) and any(hasattr(type(part), "to_numpy") for part in value):
        return [_unlabelled(part) for part in value]
    return value


_ARGUMENTS = {
    "--set": "",
    "--len": "positions",
    "--start": "positions",
    "--scheme": "encoding",
    "--config": "config",
    "--as": "runtime",
    "--dims": "columns",
}
"""Arguments whose names differ from their options; all others have the same name."""
_ARGUMENTS_OF_CHECK = {"--inv-freq": "frequencies", "--rotated": "vectors"}
"""Those of `check`, which are not only for rotary encodings."""

_OPTION = re.compile(r"(?<![\w/.-])(--[a-z][a-z-]*)(?:( )(?=[A-Z]\b|start:)|( |=)?)")
_QUOTED = re.compile(r"((?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|\bposenc [a-z-]+(?: --[a-z-]+ [\w.-]+)+)")
_COMMAND = re.compile(r"posenc (schemes|models)(?: (?=lists)| ([\w-]+))")


def argument_text(text: str, own: Mapping[str, str] = _ARGUMENTS) -> str:
    """Return a message about options, rewritten to name arguments, some of a function's ``own``.

    >>> argument_text("--round-to float32: float16 does not hold every value of it")
    'round_to float32: float16 does not hold every value of it'
    >>> argument_text("--set odd=truncate, or --len N: posenc schemes lists the names")
    'odd=truncate, or positions=N: posenc.schemes() lists the names'
    >>> argument_text("the table's rows: --len of the file's, in '--len.npy'")
    "the table's rows: positions of the file's, in '--len.npy'"
    >>> argument_text("see posenc generate --table inv-freq")
    'see posenc generate --table inv-freq'
    """

    def argument(match: re.Match[str]) -> str:
        usual = _ARGUMENTS.get(match[1], match[1].removeprefix("--").replace("-", "_"))
        name = own.get(match[1], usual)
        return f"{name}{'=' if match[2] else match[3] or ''}" if name else ""

    text = text.replace("(--verbose lists them)", "(report.notes lists them)")
    text = _COMMAND.sub(lambda match: f"posenc.{match[1]}() " if not match[2] else match[0], text)
    parts = _QUOTED.split(text)  # quoted texts and whole commands stay
    return "".join(
        part if place % 2 else _OPTION.sub(argument, part) for place, part in enumerate(parts)
    )


def argument_hint(hint: str | None, own: Mapping[str, str] = _ARGUMENTS) -> str | None:
    """Return a hint about options, rewritten to name arguments; None if it is about a command.

    >>> argument_hint("--layer-type sliding_attention"), argument_hint("posenc generate shows it")
    ('layer_type=sliding_attention', None)
    """
    if hint is None or re.search(r"\bposenc (?!schemes|models)", hint):
        return None
    return re.sub(r"^([a-z_]+) (?=\S+$)", r"\1=", argument_text(hint, own))


def checked_choice(name: str, value: object, known: Collection[str]) -> Any:
    """Return a value that must be one of the ``known`` ones.

    Raises: ArgumentError.
    """
    if not isinstance(value, str) or value not in known:
        raise ArgumentError(
            f"{name} {abbreviated(str(value))}: must be one of {', '.join(known)}",
            hint=nearest(str(value), known),
        )
    return value


def checked_number(name: str, value: object) -> float:
    """Return a number that must be finite and not negative.

    Raises: ArgumentError.
    """
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1.0
    if not 0 <= number < float("inf"):
        raise ArgumentError(f"{name} {abbreviated(str(value))}: must be a number of at least 0")
    return float(number)


def checked_count(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least ``least``.

    Raises: ArgumentError.
    """
    if not _is_whole(value) or value < least:
        raise ArgumentError(f"{name} {value!r}: must be a whole number of at least {least}")
    return int(value.__index__())


def check_unmasked(name: str, value: object) -> None:
    """Refuse masked arrays: nothing here leaves masked values out.

    Raises: ArgumentError.
    """
    import numpy as np

    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(f"{name} is a masked array", hint="its filled(…) gives a plain one")


def check_unused(**parameters: object) -> None:
    """Refuse parameters of an encoding passed with an array, unless they are None.

    Raises: ArgumentError.
    """
    for name, value in parameters.items():
        if value is not None:
            raise ArgumentError(f"{name} applies to an encoding, not to an array", code="parameter")


def _value_text(value: object) -> str:
    """Return a value as a message shows it: an array or an object by its type."""
    if isinstance(value, str):
        return abbreviated(value)
    return repr(value) if value is None or isinstance(value, int | float) else type_text(value)


def type_text(value: object) -> str:
    """Return the type of a value with its package: a numpy.float32 is not an array of float32.

    >>> import numpy as np
    >>> type_text(np.float32(1)), type_text("x")
    ('a numpy.float32', 'a str')
    """
    package = type(value).__module__.partition(".")[0]
    name = f"{'' if package == 'builtins' else f'{package}.'}{type(value).__name__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def plain_value(value: object) -> object:
    """Return a framework's value as Python's own: numbers, and lists of numbers as tuples.

    A tensor without values, or a sparse one, stays as it is: no parameter accepts it.
    """
    if not hasattr(value, "tolist"):
        return value
    try:
        plain = value.tolist()
    except RuntimeError:
        return value
    return tuple(plain) if isinstance(plain, list) else plain


def choice_of(
    encoding: object,
    positions: Positions | None = None,
    parameters: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Choice:
    """Return the choice of an encoding at positions; ``parameters`` replace the encoding's own.

    Raises: InvalidInput if there is no such encoding, or it has no such parameter.
    """
    given = {name: plain_value(value) for name, value in (parameters or {}).items()}
    if isinstance(encoding, Scheme):
        choice = Choice(encoding, {}, None)
    elif callable(encoding):
        name = str(getattr(encoding, "__name__", type(encoding).__name__))
        choice = Choice(scheme_of_function(encoding, name=name, origin=name), {}, None)
    elif isinstance(encoding, str) and not _is_path(encoding):
        choice = _named_choice(encoding, given)
        fields |= {"positions": positions}
        return replace(
            choice, **fields, parts=tuple(replace(part, **fields) for part in choice.parts)
        )
    else:
        choice = model_encoding(encoding).choice
    changes = {"given": {**choice.given, **given}, "positions": positions, **fields}
    return replace(choice, **changes)


def _named_choice(name: str, given: dict[str, object]) -> Choice:
    """Return the choice of a scheme or a model by name.

    Raises: InvalidInput with the most similar names if there is neither.
    """
    from posenc_cli.configs import library

    if name in library.names():
        choice = _shipped_model(name).choice
        return replace(choice, given={**choice.given, **given})
    try:
        return choice_of_schemes(name, given, positions=None)
    except InvalidInput as error:
        if error.code != "unknown scheme":
            raise
        near = nearest(name, [*catalogue.BUILT_IN, *library.names()])
        hint = near or "posenc.schemes() and posenc.models() list the names"
        raise ArgumentError(
            f"{abbreviated(name)} is neither a scheme nor a model", hint=hint
        ) from None


def _is_path(text: str) -> bool:
    own = any(map(catalogue.is_own, catalogue.parts_of(text)))
    return text.endswith((".json", ".gguf")) or (os.sep in text and not own)


def model_encoding(
    config: object, *, layer_type: str | None = None, runtime: str | None = None
) -> ModelEncoding:
    """Return the positional encoding in a config or of a model.

    Raises: InvalidInput if it is not a config or has no encoding; Unavailable if it cannot be read.
    """
    from posenc_cli.configs.config import resolve

    if isinstance(config, ModelEncoding):
        if layer_type is not None or runtime is not None:
            raise ArgumentError(
                "config is already read: give layer_type and runtime to from_config"
            )
        return config
    name, content = config_of(config)
    resolved = resolve(content, runtime=runtime or "transformers", name=name)
    return ModelEncoding.of(resolved, name=name, layer_type=layer_type)


_shipped_model = functools.lru_cache(maxsize=8)(model_encoding)
"""What the config of a model that ships with posenc says, read once."""


def config_of(config: object) -> tuple[str, Mapping[str, Any] | GGUFHeader]:
    """Return the name of a config, and its content.

    Raises: InvalidInput if it is not a config; Unavailable if it cannot be read.
    """
    from posenc_cli.configs.config import read_config
    from posenc_cli.configs.library import find, names

    if isinstance(config, str) and config in names():
        return config, find(config).config
    if isinstance(config, str | os.PathLike):
        name = os.fspath(config)
        if not _is_path(name) and not os.path.exists(name):  # noqa: PTH110 - of any length
            raise ArgumentError(
                f"{abbreviated(name)} is neither a model nor a config",
                hint=nearest(name, names()) or "posenc.models() lists the names",
            )
        return name, read_config(name, flag=None)
    if isinstance(config, Mapping):
        return "config", config
    if callable(to_dict := getattr(config, "to_dict", None)):
        return "config", to_dict()
    raise ArgumentError(
        f"{type_text(config)} is not an encoding: give the name of a scheme or a model, a "
        "config (a path, a dict, or an object with to_dict), what from_config returns, or a "
        "function of positions"
    )


class GivenPositions(Record):
    """Positions, and the shape of the array that they were given as."""

    positions: Positions
    shape: tuple[int, ...]

    @classmethod
    def of(cls, given: object) -> GivenPositions:
        """Positions in any form that callers pass.

        Raises: InvalidInput if they are not exact numbers, or if there are none.
        """
        match given:
            case bool():
                raise _no_positions(given)
            case int():
                if given < 1:
                    raise ArgumentError(
                        f"positions {given}: must be at least 1, or a list of positions"
                    )
                positions = Positions.contiguous(0, given)
            case range() if given and given.step > 0:
                positions = Positions((given,))
            case str():
                positions = Positions.parse(given)
            case _:
                return cls._of_array(given)
        positions = positions.within_exact_range(option="positions")
        return cls(positions, (positions.count,))

    @classmethod
    def _of_array(cls, given: object) -> GivenPositions:
        import numpy as np

        from posenc_cli.encoding.arrays import positions_from

        if isinstance(given, np.integer):
            return cls.of(int(given))
        check_unmasked("positions", given)
        try:
            array = as_numpy(given)[0]
        except (ValueError, TypeError, NotImplementedError, RuntimeError):
            raise _no_positions(given) from None
        if array.dtype.kind not in "iuf" or not array.size or not array.ndim:
            raise _no_positions(given)
        return cls(positions_from(array.reshape(-1)), array.shape)


def given_positions(given: object) -> Positions | None:
    """Positions in any form that callers pass, or None for None.

    Raises: ArgumentError.
    """
    return None if given is None else GivenPositions.of(given).positions


def _no_positions(given: object) -> ArgumentError:
    hint = "tables are constants of a traced function: give positions from outside of it"
    shown = f" {given!r}" if isinstance(given, bool | float) else ""
    return ArgumentError(
        f"positions{shown}: must be a whole number, a range, or an array of numbers, not empty",
        hint=hint if is_traced(given) else None,
    )


def number_format(dtype: object, argument: str = "dtype") -> DType:
    """Return a number format: by name, or as the dtype of Python, NumPy or another framework.

    Raises: ArgumentError if posenc does not write it.

    >>> import numpy as np
    >>> number_format("bf16").name, number_format(np.float64).name
    ('bfloat16', 'float64')
    """
    if dtype is float:
        return FLOAT64
    text = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None)
    name = format_name(dtype if text is None else text)
    name = OTHER_NAMES.get(name, name)
    return REAL_DTYPES[
        checked_choice(argument, name if name in REAL_DTYPES else text or str(dtype), REAL_DTYPES)
    ]


def choice_at(
    encoding: object, positions: PositionsLike | None, parameters: Mapping[str, Any]
) -> Choice:
    """Return the choice of an encoding at positions, both in any form that callers pass.

    Raises: InvalidInput if there is no such encoding, or no such positions.
    """
    return choice_of(encoding, given_positions(positions), parameters)
