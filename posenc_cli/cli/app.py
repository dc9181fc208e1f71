"""The Typer application: it reads unusual command lines, completes them, and writes help."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from posenc_cli.cli.command_line import (
    COMMANDS,
    TypedText,
    command_options,
    command_with,
    declared_of,
    function_of,
    text_type,
)
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import option
from posenc_cli.cli.streams import WIDEST_HELP, terminal_size, text_width
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from inspect import Parameter

    from posenc_cli.cli.help.help_page import HelpPage

GROUPS = {
    "make": ("generate", "apply", "emit", "alibi-slopes", "positions", "resize"),
    "see": ("heatmap", "curve", "rotation", "spectrum", "dot-similarity", "explore"),
    "check": ("check", "rope-check", "order-check", "inspect", "heads", "extrapolate", "compare"),
    "read": ("explain", "plan", "identify"),
    "list": ("schemes", "models"),
    "shell": ("completion",),
}
"""The commands, grouped as the program's help shows them."""

FIRST_STEPS = (
    "posenc heatmap -s sinusoidal",
    "posenc explain llama-3.1-8b",
    "posenc rope-check -m llama-3-8b --impl my_rope.py:apply",
    "posenc generate -m llama-3-8b --len 8192 --out tables.npy",
    "posenc identify tables.npy",
)
"""Commands for a first-time user to try."""

BRIEF = "posenc.brief"
"""The key in Typer's context that says whether to show the brief help page."""


def application(arguments: Sequence[str], *, completing: bool = False) -> Program:
    """Return the application with the one command that ``arguments`` name, or with all commands.

    Importing a command imports its dependencies, so a run imports only the command that it needs.
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
    program.params = program.params[:2]  # drop Typer's own options that install completion
    return program  # type: ignore[no-any-return]


def _mention(name: str) -> Callable[[], None]:
    """Return a stand-in for a command that does not run, for completion and error messages."""

    def mention() -> None: ...

    mention.__doc__ = function_of(name).__doc__
    return mention


def command(
    function: Callable[..., int | None], *, completing: bool
) -> Callable[..., Callable[[], int | None]]:
    """Return ``function`` as a command for Typer, with one option per value that it needs.

    The command runs nothing. It returns a callable that does, because Typer only reads the command
    line. ``completing`` says whether a shell asks for completions, which are slow to import.
    """
    options = command_options(function)

    def prepared(**texts: Any) -> Callable[[], int | None]:
        return command_with(function, options, texts)

    prepared.__doc__ = function.__doc__
    prepared.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [_as_text(*option, completing=completing) for option in options.values()]
    )
    prepared.__annotations__ = {}  # otherwise Typer would read them too
    return prepared


def _as_text(given: Parameter, heading: str, *, completing: bool) -> Parameter:
    """Return an option as Typer reads it: a flag or texts, below its own heading or ``heading``.

    The completer is dropped unless a shell asks, because Typer would read its signature.
    """
    declared = declared_of(given)
    settings = {"rich_help_panel": heading, **declared.settings}
    if not completing:
        settings.pop("autocompletion", None)
    make = typer.Option if declared.flags else typer.Argument
    told: Any = Annotated[text_type(given), make(*declared.flags, **settings), declared]
    return given.replace(annotation=told, kind=given.KEYWORD_ONLY)


class Command(TyperCommand):
    """A command that rejects different values for an option that is not repeatable.

    By default the parser silently takes the last value.
    """

    params: Any

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page, whole or brief."""
        from posenc_cli.cli.help.help_page import HelpPage

        page = HelpPage.of(ctx)
        formatter.write((page.brief if ctx.meta.get(BRIEF) else page.text)(formatter.width))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the texts of a line: a list for a repeatable option, None for an option not given.

        posenc converts them to values itself, because Typer 0.29 and later would import pydantic
        for it.

        Raises: InvalidInput if an option has several values, or an argument is unexpected.
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
            elif not isinstance(value, str | bool | tuple):  # click 8.3+ passes a sentinel
                value = None
            if completing:  # a shell asks which options are already given
                ctx.set_parameter_source(parameter.name, parameter.consume_value(ctx, given)[1])
            elif parameter.required and value in (None, ()):
                ctx.fail(f"missing argument {parameter.metavar!r}")
            ctx.params[parameter.name] = value
        return rest

    def _texts(self, ctx: Any, args: Sequence[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
        """Return the texts of each parameter, the words left over, and the parameters in order.

        Raises: InvalidInput if an option has several values, or an empty name of a file.
        """
        options = [each for each in self.params if each.param_type_name == "option"]
        single = [each for each in options if not (each.is_flag or each.multiple)]
        for each in single:
            each.multiple = True
        try:
            given, rest, order = self.make_parser(ctx).parse_args(args=list(args))
        finally:
            for each in single:
                each.multiple = False
        for each in single:
            values = list(dict.fromkeys(given.get(each.name) or ()))
            if len(values) > 1:
                first, second = (
                    abbreviated(value if isinstance(value, str) else " ".join(value))
                    for value in values[:2]
                )
                raise InvalidInput(
                    f"{max(each.opts, key=len)}: given as {first} and as {second}; it takes one"
                )
            if each.metavar in ("FILE", "DIR", "FOLDER") and "" in values:
                raise InvalidInput(f"{max(each.opts, key=len)} '': the name is empty")
            if values:
                given[each.name] = values[0]
        return given, rest, order


class Program(TyperGroup):
    """The program; its help groups the commands by purpose.

    ``brief`` asks for the one-screen page.
    """

    brief = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page, whole or brief."""
        formatter.write(
            program_brief(ctx, formatter.width)
            if self.brief
            else program_page(ctx).text(formatter.width)
        )


def program_brief(context: Any, width: int) -> str:
    """Return the program's one-screen help page: first steps and the names of commands."""
    from posenc_cli.cli.help.help_page import Entry, HelpPage

    groups = tuple(Entry(group, ", ".join(names)) for group, names in GROUPS.items())
    page = replace(
        HelpPage.of(context),
        examples=FIRST_STEPS,
        sections=(("", groups),),
        closing=(
            "posenc COMMAND -h shows how to use a command; posenc --help lists what each does",
        ),
    )
    return page.brief(width)


def program_page(context: Any) -> HelpPage:
    """Return the program's help page."""
    from posenc_cli.cli.help.help_page import Entry, HelpPage, entry_of
    from posenc_cli.cli.help.known_answers import PAGE, address

    page = HelpPage.of(context)
    homepage = address(PAGE)
    width = max(map(len, GROUPS))
    commands = []
    for group, names in GROUPS.items():
        for place, name in enumerate(names):
            summary = (function_of(name).__doc__ or "").strip().partition("\n")[0]
            commands.append(Entry(f"{'' if place else group:<{width}}  {name}", summary))
    options = tuple(entry for _, entries in page.sections for entry in entries)
    shared = tuple(map(entry_of, Console.parameters().values()))
    status, _, statuses = page.paragraphs[0].partition(": ")
    return replace(
        page,
        usage=f"{page.name} COMMAND [OPTIONS]",
        paragraphs=(),
        sections=(("", (*commands, *options, *shared, Entry(status, statuses))),),
        closing=(homepage,) if homepage else (),
    )


def show_page(text: str) -> None:
    """Print a help page, through a pager if it is longer than the terminal.

    It uses Python's ``print`` like all of posenc's text, because Typer writes UTF-8 where ASCII is
    set.
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
        typer.Option("--version", "-V"),
        option("--version", "-V", help="print the version; --verbose adds the backends"),
    ] = False,
    # Typer's own --help has no default, and Typer 0.29 and later would import pydantic for it.
    page: Annotated[bool, typer.Option("--help", "-h", is_eager=True, callback=_show_help)] = False,
) -> None:
    """Generate, inspect, check and visualize transformer positional encodings.

    Exit status: 0 done, 1 failed, 2 wrong input, 3 environment, 70 bug
    """
