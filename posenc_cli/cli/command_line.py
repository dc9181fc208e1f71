"""The table of commands, and how a command line becomes a call of one of them.

Most command lines are read here. Typer, whose import takes a quarter of a small command, reads the
others: shortened, wrong or incomplete ones, and those that ask for help.
"""

from __future__ import annotations

import inspect
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args, get_origin

from posenc_cli.cli.choosing import MAKERS
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import OWN, DeclaredOption, OptionGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from inspect import Parameter

COMMANDS = {
    "generate": "posenc_cli.cli.commands.generate:generate",
    "apply": "posenc_cli.cli.commands.apply:apply",
    "emit": "posenc_cli.cli.commands.emit:emit",
    "alibi-slopes": "posenc_cli.cli.commands.alibi_slopes:alibi_slopes",
    "positions": "posenc_cli.cli.commands.positions:positions",
    "resize": "posenc_cli.cli.commands.resize:resize",
    "heatmap": "posenc_cli.cli.commands.heatmap:heatmap",
    "curve": "posenc_cli.cli.commands.curve:curve",
    "rotation": "posenc_cli.cli.commands.rotation:rotation",
    "spectrum": "posenc_cli.cli.commands.spectrum:spectrum",
    "dot-similarity": "posenc_cli.cli.commands.dot_similarity:dot_similarity",
    "explore": "posenc_cli.cli.commands.explore:explore",
    "check": "posenc_cli.cli.commands.check:check",
    "rope-check": "posenc_cli.cli.commands.rope_check:rope_check",
    "order-check": "posenc_cli.cli.commands.order_check:order_check",
    "inspect": "posenc_cli.cli.commands.inspect:inspect",
    "heads": "posenc_cli.cli.commands.heads:heads",
    "extrapolate": "posenc_cli.cli.commands.extrapolate:extrapolate",
    "compare": "posenc_cli.cli.commands.compare:compare",
    "explain": "posenc_cli.cli.commands.explain:explain",
    "plan": "posenc_cli.cli.commands.plan:plan",
    "identify": "posenc_cli.cli.commands.identify:identify",
    "schemes": "posenc_cli.cli.commands.schemes:schemes",
    "models": "posenc_cli.cli.commands.models:models",
    "completion": "posenc_cli.cli.help.completion:completion",
}

READ_AS = {bool: bool, list: list[str], tuple: tuple[str, str]}
"""The types that Typer parses itself; it reads all others as text."""


def plain_command(words: Sequence[str]) -> Callable[[], int | None] | None:
    """Return the command that a plain command line runs, or None if Typer must read the line.

    Each word of a plain line is a whole flag, the value of one, ``--len=64`` or an argument.

    Raises: InvalidInput if a value is wrong.
    """
    if not words or words[0] not in COMMANDS or "" in words:
        return None
    function = function_of(words[0])
    options = command_options(function)
    texts = _plain_texts({name: option for name, (option, _) in options.items()}, words[1:])
    return None if texts is None else command_with(function, options, texts)


def _plain_texts(options: Mapping[str, Parameter], words: Sequence[str]) -> dict[str, Any] | None:
    """Return the texts of each option and argument in a plain line, or None if it is not plain."""
    flags = {flag: name for name, option in options.items() for flag in declared_of(option).flags}
    found: dict[str, list[Any]] = {name: [] for name in options}
    rest, arguments = iter(words), list[str]()
    for place, word in enumerate(rest):
        flag, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if flag in flags:
            name, kind = flags[flag], text_type(options[flags[flag]])
            text = _value_of_flag(kind, [value] if equals else None, rest)
            if text is None:
                return None
            found[name].append(TypedText.at(place, text) if kind == list[str] else text)
        elif word.startswith("-") and word != "-":
            return None
        else:
            arguments.append(word)
    return _texts_of(options, found, arguments)


def _texts_of(
    options: Mapping[str, Parameter], found: Mapping[str, list[Any]], arguments: list[str]
) -> dict[str, Any] | None:
    """Return the texts that each option and argument has, or None if Typer must say what is wrong.

    An option that is not repeatable may be given twice with one value.
    """
    texts: dict[str, Any] = {}
    for name, option in options.items():
        given, several = found[name], text_type(option) == list[str]
        if not declared_of(option).flags:
            count = len(arguments) if several else 1
            given, arguments = arguments[:count], arguments[count:]
        is_missing = not given and option.default is option.empty
        if is_missing or (not several and len({*given}) > 1):
            return None
        texts[name] = (given if several else given[0]) if given else None
    return None if arguments else texts


def _value_of_flag(kind: Any, value: list[str] | None, rest: Iterator[str]) -> Any:
    """Return what follows a flag, or None if that is not what its ``kind`` needs."""
    if kind is bool:
        return True if value is None else None
    if get_origin(kind) is tuple:
        pair = tuple(text for _, text in zip(get_args(kind), rest, strict=False))
        return pair if value is None and len(pair) == len(get_args(kind)) else None
    return (value[0] or None) if value else next(rest, None)


def command_options(function: Callable[..., Any]) -> dict[str, tuple[Parameter, str]]:
    """Return the options of a command, each with its heading; those of every command are last."""
    options = options_of(function)
    return options | {name: options.pop(name) for name in Console.parameters() if name in options}


def command_with(
    function: Callable[..., int | None],
    options: Mapping[str, tuple[Parameter, str]],
    texts: Mapping[str, Any],
) -> Callable[[], int | None]:
    """Return a call of a command with the values of these texts.

    Raises: InvalidInput if a text is wrong.
    """
    values = {name: _value(option, texts[name]) for name, (option, _) in options.items()}
    return partial(_call, function, values)


def options_of(function: Callable[..., Any]) -> dict[str, tuple[Parameter, str]]:
    """Return the options of a function and of its option groups, each with its heading."""
    heading = getattr(function, "heading", OWN)
    options: dict[str, tuple[Parameter, str]] = {}
    for name, parameter in _parameters(function).items():
        maker = _maker(parameter)
        options |= {name: (parameter, heading)} if maker is None else options_of(maker)
    return options


def _value(option: Parameter, given: Any) -> Any:
    """Return the value of an option, parsed from the given texts, or else its default."""
    parse = declared_of(option).parse
    value = option.default if given is None else given
    if parse is None or not isinstance(value, str | list):
        return value
    return parse(value) if isinstance(value, str) else [parse(str(text)) for text in value]


def text_type(option: Parameter) -> Any:
    """Return the type that the command line has for an option: a flag, a text or several."""
    kind = option.annotation.__origin__
    kinds = {get_origin(each) or each for each in (kind, *get_args(kind))}
    return next((texts for plain, texts in READ_AS.items() if plain in kinds), str)


def declared_of(parameter: Parameter) -> DeclaredOption:
    """Return the declaration of an option."""
    declared: DeclaredOption = parameter.annotation.__metadata__[0]
    return declared


def _call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a function with the values of its options and of its option groups."""
    arguments = {}
    for name, parameter in _parameters(function).items():
        maker = _maker(parameter)
        arguments[name] = values[name] if maker is None else _call(maker, values)
    return function(**arguments)


@cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, Parameter]:
    if isinstance(function, type) and issubclass(function, OptionGroup):
        return function.parameters()
    return inspect.signature(function, eval_str=True).parameters


def _maker(parameter: Parameter) -> Callable[..., Any] | None:
    """Return what builds the value of a parameter that is not itself an option, or None."""
    kind = parameter.annotation
    if isinstance(kind, type) and issubclass(kind, OptionGroup):
        return kind
    return getattr(kind, "of_options", None) or MAKERS.get(kind)


class TypedText(str):
    """A text given for an option, and its place among all options given."""

    place = 0

    @classmethod
    def at(cls, place: int, text: str) -> TypedText:
        """Return a text at this place."""
        typed = cls(text)
        typed.place = place
        return typed


def function_of(name: str) -> Callable[..., int | None]:
    """Return the function of a command."""
    module, _, attribute = COMMANDS[name].partition(":")
    function: Callable[..., int | None] = getattr(import_module(module), attribute)
    return function
