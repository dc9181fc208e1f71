"""The table of commands, and the application that Typer makes of it."""

from __future__ import annotations

import inspect
import sys
from copy import copy
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from posenc_cli.cli.choosing import MAKERS
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import OWN, OptionGroup
from posenc_cli.cli.streams import WIDEST_HELP, terminal_size, text_width
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from inspect import Parameter

    from posenc_cli.cli.help.help_page import HelpPage

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

GROUPS = {
    "make": ("generate", "apply", "emit", "alibi-slopes", "positions", "resize"),
    "see": ("heatmap", "curve", "rotation", "spectrum", "dot-similarity", "explore"),
    "check": ("check", "rope-check", "order-check", "inspect", "heads", "extrapolate", "compare"),
    "read": ("explain", "plan", "identify"),
    "list": ("schemes", "models"),
    "shell": ("completion",),
}
"""The commands by what they do, as the help of the program shows them."""

FIRST_STEPS = (
    "posenc heatmap -s sinusoidal",
    "posenc explain llama-3.1-8b",
    "posenc rope-check -m llama-3-8b --impl my_rope.py:apply",
    "posenc generate -m llama-3-8b --len 8192 --out tables.npy",
    "posenc identify tables.npy",
)
"""What somebody may try who never used the program."""

BRIEF = "posenc.brief"
"""Whether a context of Typer shows the brief page of help."""

READ_AS = {bool: bool, list: list[str], tuple: tuple[str, str]}
"""The types as which Typer reads values; it reads all others as text."""


def application(arguments: Sequence[str], *, completing: bool = False) -> Program:
    """The application, with the one command that ``arguments`` name or else with all of them.

    Importing a command imports what it is made of, which a run of another need not wait for.
    """
    first = next((word for word in arguments if not word.startswith("-")), None)
    named = {first: function_of(first)} if first in COMMANDS else {}
    width = min(text_width(), WIDEST_HELP)
    program = _application(*named.items(), completing=completing, width=width)
    program.brief = "--help" not in arguments
    return program


def _application(
    *named: tuple[str, Callable[..., int | None]], completing: bool, width: int
) -> Program:
    app = typer.Typer(
        cls=Program,
        add_completion=completing,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"], "terminal_width": width},
    )
    app.callback(add_help_option=False)(posenc)
    for name, function in named:
        app.command(name, cls=Command)(command(function, completing=completing))
    if not named:
        for name in COMMANDS:
            app.command(name)(_mention(name))
    program: Any = get_command(app)
    program.params = program.params[:2]  # without Typer's own that install completion
    return program  # type: ignore[no-any-return]


def _mention(name: str) -> Callable[[], None]:
    """What a shell, and an error, knows a command by that is not run."""

    def mention() -> None: ...

    mention.__doc__ = function_of(name).__doc__
    return mention


def command(
    function: Callable[..., int | None], *, completing: bool
) -> Callable[..., Callable[[], int | None]]:
    """A command as Typer sees it, with an option for each value that ``function`` is made of.

    It runs nothing, and gives what does: Typer only reads a command line.
    ``completing`` says whether a shell asks what completes options, which takes a while to read.
    """
    options = _options(function)
    options |= {name: options.pop(name) for name in Console.parameters() if name in options}

    def prepared(**texts: Any) -> Callable[[], int | None]:
        values = {name: _value(option, texts[name]) for name, (option, _) in options.items()}
        return partial(_call, function, values)

    prepared.__doc__ = function.__doc__
    prepared.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [_as_text(*option, completing=completing) for option in options.values()]
    )
    prepared.__annotations__ = {}  # Typer would look through them too
    return prepared


def _options(function: Callable[..., Any]) -> dict[str, tuple[Parameter, str]]:
    """The options of a function, and of the groups that it takes, each with its heading."""
    heading = getattr(function, "heading", OWN)
    options: dict[str, tuple[Parameter, str]] = {}
    for name, parameter in _parameters(function).items():
        maker = _maker(parameter)
        options |= {name: (parameter, heading)} if maker is None else _options(maker)
    return options


def _value(option: Parameter, given: Any) -> Any:
    """The value of an option, made of the texts that are given for it, or else its default."""
    parse = _declared(option).parser
    value = option.default if given is None else given
    if parse is None or not isinstance(value, str | list):
        return value
    return parse(value) if isinstance(value, str) else [parse(str(text)) for text in value]


def _as_text(option: Parameter, heading: str, *, completing: bool) -> Parameter:
    """An option as Typer reads it, a flag or texts, below its own heading in help or this one.

    Without what completes it, whose signature Typer would read, unless a shell asks.
    """
    declared, kind = copy(_declared(option)), option.annotation.__origin__
    declared.rich_help_panel = declared.rich_help_panel or heading
    declared.parser = None
    if not completing:
        declared.autocompletion = None
    kinds = {get_origin(each) or each for each in (kind, *get_args(kind))}
    read = next((texts for plain, texts in READ_AS.items() if plain in kinds), str)
    return option.replace(annotation=Annotated[read, declared], kind=option.KEYWORD_ONLY)


def _declared(parameter: Parameter) -> Any:
    """What Typer knows of an option."""
    return parameter.annotation.__metadata__[0]


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


class TypedText(str):
    """A text that an option was given, and its place among all that were given."""

    place = 0


class Command(TyperCommand):
    """A command whose options, unless repeatable, may be given again only with the same value.

    Left to itself the parser takes the last, and does not say so.
    """

    params: Any

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write its page: the whole one, or the brief one."""
        from posenc_cli.cli.help.help_page import HelpPage

        page = HelpPage.of(ctx)
        formatter.write((page.brief if ctx.meta.get(BRIEF) else page.text)(formatter.width))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the texts of a line: lists of what may be repeated, and None for what is not given.

        posenc itself makes values of them: Typer, from 0.29 on, would import pydantic for that.

        Raises: InvalidInput where an option has several values, or an argument is not taken.
        """
        given, rest, order = self._texts(ctx, args)
        completing = ctx.resilient_parsing
        if not completing and any("--help" in option.opts for option in order):
            ctx.meta[BRIEF] = "--help" not in args
            show_page(ctx.get_help())
            ctx.exit()
        if rest and not completing:
            from posenc_cli.cli.help.usage import unexpected_arguments

            raise unexpected_arguments(ctx, rest)
        for parameter in self.params:
            value = given.get(parameter.name)
            if parameter.multiple:
                places = (place for place, option in enumerate(order) if option is parameter)
                value = [*map(TypedText, value or ())]
                for typed, place in zip(value, places, strict=True):
                    typed.place = place
            elif not isinstance(value, str | bool | tuple):  # of click 8.3 on, no None either
                value = None
            if completing:  # a shell asks what is given already
                source = parameter.consume_value(ctx, given)[1]
                ctx.set_parameter_source(parameter.name, source)
            elif parameter.required and value in (None, ()):
                ctx.fail(f"missing argument {parameter.metavar!r}")
            ctx.params[parameter.name] = value
        return rest

    def _texts(self, ctx: Any, args: Sequence[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
        """What is given for each parameter, the words left over, and the parameters in order.

        Raises: InvalidInput where an option has several values.
        """
        options = [each for each in self.params if each.param_type_name == "option"]
        single = [option for option in options if not (option.is_flag or option.multiple)]
        for option in single:
            option.multiple = True
        try:
            given, rest, order = self.make_parser(ctx).parse_args(args=list(args))
        finally:
            for option in single:
                option.multiple = False
        for option in single:
            values = list(dict.fromkeys(given.get(option.name) or ()))
            if len(values) > 1:
                first, second = (
                    abbreviated(value if isinstance(value, str) else " ".join(value))
                    for value in values[:2]
                )
                raise InvalidInput(
                    f"{max(option.opts, key=len)}: given as {first} and as {second}; it takes one"
                )
            if values:
                given[option.name] = values[0]
        return given, rest, order


class Program(TyperGroup):
    """The program: its help names the commands by what they do.

    ``brief`` says that one screen of it is asked for.
    """

    brief = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write its page: the whole one, or the brief one."""
        text = program_brief if self.brief else program_text
        formatter.write(text(ctx, formatter.width))


def program_text(context: Any, width: int) -> str:
    """The page of the program, as wide as it needs to be or ``width`` allows."""
    return program_page(context).text(width)


def program_brief(context: Any, width: int) -> str:
    """The page of the program on one screen: what to try first, and the names of commands."""
    from posenc_cli.cli.help.help_page import HelpPage

    page = replace(
        HelpPage.of(context),
        examples=FIRST_STEPS,
        sections=(("", tuple((group, ", ".join(names)) for group, names in GROUPS.items())),),
        closing=(
            "posenc COMMAND -h shows how to use a command; posenc --help lists what each does",
        ),
    )
    return page.brief(width)


def program_page(context: Any) -> HelpPage:
    """The page of the program."""
    from posenc_cli.cli.help.help_page import HelpPage, entry_of
    from posenc_cli.cli.help.known_answers import PAGE, address

    page = HelpPage.of(context)
    place = address(PAGE)
    commands = tuple(
        (f"{'' if place else group:<{max(map(len, GROUPS))}}  {name}", _summary(name))
        for group, names in GROUPS.items()
        for place, name in enumerate(names)
    )
    options = tuple(entry for _, entries in page.sections for entry in entries)
    shared = tuple(map(entry_of, Console.parameters().values()))
    status, _, statuses = page.paragraphs[0].partition(": ")
    return replace(
        page,
        usage=f"{page.name} COMMAND [OPTIONS]",
        paragraphs=(),
        sections=(("", (*commands, *options, *shared, (status, statuses))),),
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


def show_page(text: str) -> None:
    """Print a page of help, or page through it where a terminal has no room for it.

    As all of posenc's texts it is printed by Python: Typer writes UTF-8 where ASCII is asked.
    """
    if sys.stdout.isatty() and text.count("\n") >= terminal_size().lines:
        import pydoc  # slow to import

        pydoc.pager(text)
    else:
        print(text)


def _show_help(ctx: typer.Context, given: bool) -> None:
    if given and not ctx.resilient_parsing:
        show_page(ctx.get_help())
        raise typer.Exit


def posenc(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", help="print the version; --verbose adds the backends"),
    ] = False,
    # One of Typer's own has no default, and Typer from 0.29 on would import pydantic for it.
    page: Annotated[bool, typer.Option("--help", "-h", is_eager=True, callback=_show_help)] = False,
) -> None:
    """Generate, inspect, check and visualize transformer positional encodings.

    Exit status: 0 done, 1 failed, 2 wrong input, 3 environment, 70 bug
    """
