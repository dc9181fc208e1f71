"""The table of commands, and the application that Typer makes of it."""

from __future__ import annotations

import inspect
from copy import copy
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from posenc_cli.cli.choosing import MAKERS, documented_option
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import OWN, OptionGroup
from posenc_cli.cli.sizes import WIDEST_PIPED, text_width
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.formulas.parameters import OWN_OPTIONS
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from inspect import Parameter

    from posenc_cli.cli.help_page import HelpPage

COMMANDS = {
    "generate": "posenc_cli.cli.generate:generate",
    "apply": "posenc_cli.cli.apply:apply",
    "emit": "posenc_cli.cli.emit:emit",
    "alibi-slopes": "posenc_cli.cli.alibi_slopes:alibi_slopes",
    "buckets": "posenc_cli.cli.buckets:buckets",
    "resize": "posenc_cli.cli.resize:resize",
    "heatmap": "posenc_cli.cli.heatmap:heatmap",
    "curve": "posenc_cli.cli.curve:curve",
    "rotation": "posenc_cli.cli.rotation:rotation",
    "spectrum": "posenc_cli.cli.spectrum:spectrum",
    "dot-similarity": "posenc_cli.cli.dot_similarity:dot_similarity",
    "rope-check": "posenc_cli.cli.rope_check:rope_check",
    "order-check": "posenc_cli.cli.order_check:order_check",
    "inspect": "posenc_cli.cli.inspect:inspect",
    "heads": "posenc_cli.cli.heads:heads",
    "extrapolate": "posenc_cli.cli.extrapolate:extrapolate",
    "compare": "posenc_cli.cli.compare:compare",
    "explain": "posenc_cli.cli.explain:explain",
    "plan": "posenc_cli.cli.plan:plan",
    "identify": "posenc_cli.cli.identify:identify",
    "weights": "posenc_cli.cli.weights:weights",
    "schemes": "posenc_cli.cli.schemes:schemes",
    "models": "posenc_cli.cli.models:models",
    "backends": "posenc_cli.cli.backends:backends",
    "completion": "posenc_cli.cli.completion:completion",
}

GROUPS = {
    "make": ("generate", "apply", "emit", "alibi-slopes", "buckets", "resize"),
    "see": ("heatmap", "curve", "rotation", "spectrum", "dot-similarity"),
    "check": ("rope-check", "order-check", "inspect", "heads", "extrapolate", "compare"),
    "read": ("explain", "plan", "identify", "weights"),
    "list": ("schemes", "models", "backends"),
    "shell": ("completion",),
}
"""The commands by what they do, as the help of the program shows them."""


def application(arguments: Sequence[str], *, completing: bool = False) -> TyperGroup:
    """The application, with the one command that ``arguments`` name or else with all of them.

    Importing a command imports what it is made of, which a run of another need not wait for.
    """
    if completing:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()  # registers the shells, and adds no options
    first = next((word for word in arguments if not word.startswith("-")), None)
    named = {first: function_of(first)} if first in COMMANDS else {}
    documented = bool({"--help", "-h"} & set(arguments))
    width = min(text_width(), WIDEST_PIPED)
    return _application(*named.items(), documented=documented, completing=completing, width=width)


def _application(
    *named: tuple[str, Callable[..., int | None]], documented: bool, completing: bool, width: int
) -> TyperGroup:
    app = typer.Typer(
        cls=Program,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"], "terminal_width": width},
    )
    app.callback()(posenc)
    for name, function in named:
        prepared = command(function, documented=documented, completing=completing)
        app.command(name, cls=Command)(prepared)
    if not named:
        for name in COMMANDS:
            app.command(name)(_mention(name))
    return get_group(app)


def _mention(name: str) -> Callable[[], None]:
    """What a shell, and an error, knows a command by that is not run."""

    def mention() -> None: ...

    mention.__doc__ = function_of(name).__doc__
    return mention


def command(
    function: Callable[..., int | None], *, documented: bool = True, completing: bool = True
) -> Callable[..., Callable[[], int | None]]:
    """A command as Typer sees it, with an option for each value that ``function`` is made of.

    It runs nothing, and gives what does: Typer only reads a command line.
    ``documented`` says whether the options' help will be read, ``completing`` whether a shell asks
    what completes them: what these derive from takes a while.
    """
    options = _options(function, documented=documented)
    if documented:
        for name in OWN_OPTIONS.keys() & options.keys():
            if _help(options[name]) is None:
                options[name] = documented_option(name)
    if not completing:
        options = {name: _uncompleted(option) for name, option in options.items()}
    options |= {name: options.pop(name) for name in Console.parameters() if name in options}

    def prepared(**values: Any) -> Callable[[], int | None]:
        return partial(_call, function, values)

    prepared.__doc__ = function.__doc__
    parameters = [option.replace(kind=option.KEYWORD_ONLY) for option in options.values()]
    prepared.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    prepared.__annotations__ = {}  # Typer would look through them too
    return prepared


def _options(function: Callable[..., Any], *, documented: bool) -> dict[str, Parameter]:
    """The options of a function, and those of the groups that it takes."""
    heading = getattr(function, "heading", OWN)
    options: dict[str, Parameter] = {}
    for name, parameter in _parameters(function).items():
        maker = _maker(parameter)
        if maker is not None:
            options |= _options(maker, documented=documented)
        else:
            options[name] = _under(heading, parameter) if documented else parameter
    return options


def _under(heading: str, parameter: Parameter) -> Parameter:
    """An option that help shows under a heading, where it names none itself."""
    panel = _declared(parameter).rich_help_panel or heading
    return _redeclared(parameter, rich_help_panel=panel)


def _uncompleted(parameter: Parameter) -> Parameter:
    """An option without what completes it, whose signature Typer would read."""
    if _declared(parameter).autocompletion is None:
        return parameter
    return _redeclared(parameter, autocompletion=None)


def _declared(parameter: Parameter) -> Any:
    """What Typer knows of an option."""
    return parameter.annotation.__metadata__[0]


def _redeclared(parameter: Parameter, **settings: Any) -> Parameter:
    """An option with other settings of Typer's."""
    declared = copy(_declared(parameter))
    vars(declared).update(settings)
    return parameter.replace(annotation=Annotated[parameter.annotation.__origin__, declared])


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
    if isinstance(kind, type) and issubclass(kind, OptionGroup):
        return kind
    return getattr(kind, "of_options", None) or MAKERS.get(kind)


def _help(parameter: Parameter) -> str | None:
    text: str | None = _declared(parameter).help
    return text


class TypedText(str):
    """A text that an option was given, and its place among all that were given."""

    __slots__ = ("place",)
    place: int

    def __new__(cls, text: str, place: int = 0) -> TypedText:
        """A text and its place."""
        named = super().__new__(cls, text)
        named.place = place
        return named


class Command(TyperCommand):
    """A command whose options, unless repeatable, may be given again only with the same value.

    Left to itself the parser takes the last, and does not say so.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write its page."""
        from posenc_cli.cli.help_page import HelpPage

        formatter.write(HelpPage.of(ctx).text(formatter.width))

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
            given, _, order = self.make_parser(ctx).parse_args(args=list(args))
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
        rest = super().parse_args(ctx, args)
        for option in self.params:
            if getattr(option, "multiple", False) and (values := ctx.params.get(option.name)):
                places = [
                    place for place, given_option in enumerate(order) if given_option is option
                ]
                if all(isinstance(value, str) for value in values):
                    ctx.params[option.name] = [*map(TypedText, values, places)]
        return rest


def _as_typed(value: str | tuple[str, ...]) -> str:
    """What was given to an option, quoted; of two files both."""
    return abbreviated(value if isinstance(value, str) else " ".join(value))


class Program(TyperGroup):
    """The program: its help names the commands by what they do."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write its page."""
        formatter.write(program_page(ctx).text(formatter.width))


def program_page(context: Any) -> HelpPage:
    """The page of the program."""
    from posenc_cli.cli.help_page import HelpPage
    from posenc_cli.cli.home import PAGE, address

    page = HelpPage.of(context)
    place = address(PAGE)
    commands = tuple(
        (f"{'' if place else group:<{max(map(len, GROUPS))}}  {name}", _summary(name))
        for group, names in GROUPS.items()
        for place, name in enumerate(names)
    )
    options = tuple(entry for _, entries in page.sections for entry in entries)
    status, _, statuses = page.paragraphs[0].partition(": ")
    return replace(
        page,
        usage=f"{page.name} COMMAND [OPTIONS]",
        paragraphs=(),
        sections=(("", (*commands, *options, (status, statuses))),),
        closing=(place,) if place else (),
    )


def _summary(name: str) -> str:
    """The first line of what a command says of itself."""
    return (function_of(name).__doc__ or "").strip().partition("\n")[0]


def function_of(name: str) -> Callable[..., int | None]:
    """The function of a command."""
    module, _, attribute = COMMANDS[name].partition(":")
    function: Callable[..., int | None] = getattr(import_module(module), attribute)
    return function


def posenc(
    version: Annotated[bool, typer.Option("--version", "-V", help="print the version")] = False,
) -> None:
    """Generate, inspect, check and visualize transformer positional encodings.

    Exit status: 0 done, 1 failed, 2 wrong input, 3 environment, 70 bug
    """
