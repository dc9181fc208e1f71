"""The table of commands, and the application that Typer makes of it."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from posenc_cli.cli.choosing import MAKERS, documented_option
from posenc_cli.cli.console import WIDEST_PIPED, Console
from posenc_cli.cli.options import OptionGroup
from posenc_cli.cli.streams import ReaderGone
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.formulas.parameters import OWN_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from inspect import Parameter

COMMANDS = {
    "generate": "posenc_cli.cli.generate:generate",
    "dot-similarity": "posenc_cli.cli.dot_similarity:dot_similarity",
    "spectrum": "posenc_cli.cli.spectrum:spectrum",
    "heatmap": "posenc_cli.cli.heatmap:heatmap",
    "alibi-slopes": "posenc_cli.cli.alibi_slopes:alibi_slopes",
    "buckets": "posenc_cli.cli.buckets:buckets",
    "rope-check": "posenc_cli.cli.rope_check:rope_check",
    "schemes": "posenc_cli.cli.schemes:schemes",
    "backends": "posenc_cli.cli.backends:backends",
    "models": "posenc_cli.cli.models:models",
    "compare": "posenc_cli.cli.compare:compare",
    "explain": "posenc_cli.cli.explain:explain",
    "identify": "posenc_cli.cli.identify:identify",
    "order-check": "posenc_cli.cli.order_check:order_check",
    "completion": "posenc_cli.cli.completion:completion",
}


def application(arguments: Sequence[str], *, completing: bool = False) -> typer.Typer:
    """The application, with the one command that ``arguments`` name or else with all of them.

    Importing a command imports what it is made of, which a run of another need not wait for.
    """
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["--help", "-h"],
            "terminal_width": min(Console().width, WIDEST_PIPED),
        },
    )
    app.callback()(posenc)
    if completing:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()  # registers the shells, and adds no options
    named = arguments[0] if arguments and arguments[0] in COMMANDS else None
    documented = named is None or bool({"--help", "-h"} & set(arguments))
    for name in [named] if named else COMMANDS:
        app.command(name, cls=SingleValues)(command(function_of(name), documented=documented))
    return app


def command(
    function: Callable[..., int | None], *, documented: bool = True
) -> Callable[..., int | None]:
    """A command as Typer sees it: ``function`` with an option for each value that it is made of.

    ``documented`` says whether the options' help will be read: what it derives from takes a while.
    """
    options = _options(function)
    if documented:
        for name in OWN_OPTIONS.keys() & options.keys():
            if _help(options[name]) is None:
                options[name] = documented_option(name)
    options |= {name: options.pop(name) for name in Console.parameters() if name in options}

    def run(**values: Any) -> int | None:
        try:
            status: int | None = _call(function, values)
        except BrokenPipeError:
            # Typer would give it status 1, as if a check had failed.
            raise ReaderGone from None
        return status

    run.__doc__ = function.__doc__
    parameters = [option.replace(kind=option.KEYWORD_ONLY) for option in options.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in parameters}
    return run


def _options(function: Callable[..., Any]) -> dict[str, Parameter]:
    """The options of a function, and those of the groups that it takes."""
    options: dict[str, Parameter] = {}
    for name, parameter in _parameters(function).items():
        maker = _maker(parameter)
        options |= {name: parameter} if maker is None else _options(maker)
    return options


def _call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """What a function returns, of the values of options and of what groups make of them."""
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
    """What makes the value of a parameter that is no option itself."""
    kind = parameter.annotation
    return kind if isinstance(kind, type) and issubclass(kind, OptionGroup) else MAKERS.get(kind)


def _help(parameter: Parameter) -> str | None:
    text: str | None = parameter.annotation.__metadata__[0].help
    return text


class SingleValues(TyperCommand):
    """A command whose options, unless repeatable, may be given again only with the same value.

    Left to itself the parser takes the last, and does not say so.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, after a check that no option has several values.

        Raises: InvalidInput where one has.
        """
        single: list[Any] = [
            option
            for option in self.params
            if option.param_type_name == "option" and not getattr(option, "is_flag", False)
        ]
        single = [option for option in single if not option.multiple]
        for option in single:
            option.multiple = True
        try:
            given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        finally:
            for option in single:
                option.multiple = False
        for option in single:
            values = list(dict.fromkeys(given.get(option.name) or ()))
            if len(values) > 1:
                first, second = map(_as_typed, values[:2])
                raise InvalidInput(
                    f"{max(option.opts, key=len)}: given as {first} and as {second}; it takes one"
                )
        return super().parse_args(ctx, args)


def _as_typed(value: str | tuple[str, ...]) -> str:
    """What was given to an option, quoted; of two files both."""
    return abbreviated(value if isinstance(value, str) else " ".join(value))


def function_of(name: str) -> Callable[..., int | None]:
    """The function of a command."""
    module, _, attribute = COMMANDS[name].partition(":")
    function: Callable[..., int | None] = getattr(import_module(module), attribute)
    return function


def posenc(
    version: Annotated[bool, typer.Option("--version", "-V", help="print the version")] = False,
) -> None:
    """Generate, inspect, check and visualize transformer positional encodings.

    Results go to stdout, everything else to stderr. Exit status: 0 done, 1 a check failed,
    2 wrong usage or invalid input, 3 the environment cannot do it, 70 a bug in posenc.
    """
