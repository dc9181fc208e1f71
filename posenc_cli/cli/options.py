"""Options of the command line, as groups that commands share."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from inspect import Parameter, get_annotations
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_origin

from posenc_cli import positions
from posenc_cli.cli.completers import model_names, setting_texts
from posenc_cli.errors import InvalidInput, abbreviated, nearest, quoted_name
from posenc_cli.files.atomic import STANDARD_OUTPUT, preflight
from posenc_cli.formulas.tables import ROTARY_TABLES
from posenc_cli.numerics.dtypes import REAL_DTYPES, DType
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from posenc_cli.files.gguf import GGUFHeader


ENCODING, PARAMETERS, OWN, EVERY_COMMANDS = "Encoding", "Parameters", "Options", "General"
"""Headings of help that several declarations use."""


LARGEST_SEED = 2**64 - 1

ALIASES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
"""Common short names of number formats."""


class DeclaredOption:
    """An option, or an argument without flags: how its text is parsed, and Typer's settings."""

    def __init__(
        self,
        flags: tuple[str, ...],
        settings: Mapping[str, Any],
        parse: Callable[[str], Any] | None = None,
    ) -> None:
        self.flags, self.settings, self.parse = flags, settings, parse


def option(
    *flags: str,
    known: Sequence[str] | Mapping[str, Any] = (),
    parse: Callable[[str, str], Any] | None = None,
    **settings: Any,
) -> Any:
    """Return the ``Annotated`` metadata of an option: its flags, and how its text is parsed.

    ``parse`` converts the longest flag and the text to a value. ``known`` lists the only texts
    allowed. ``settings`` go to Typer.
    """
    if known:
        parse = partial(one_of, known=known)
        settings = {
            "metavar": "NAME",
            "help": "|".join(known),
            "autocompletion": completed_from(known),
            **settings,
        }
    return DeclaredOption(flags, settings, parse and partial(parse, max(flags, key=len)))


def argument(metavar: str, **settings: Any) -> Any:
    """Return the ``Annotated`` metadata of an argument; ``settings`` go to Typer."""
    return DeclaredOption((), {"metavar": metavar, **settings})


def refuse(given: Mapping[str, object], why: str, *, hint: str | None = None) -> None:
    """Reject the first option in ``given`` that has a value.

    Raises: InvalidInput, with ``why`` after the option and its value.
    """
    for flag, value in given.items():
        if value is not None and value is not False:
            shown = abbreviated(value) if isinstance(value, str) else value
            text = flag if value is True else f"{flag} {shown}"
            raise InvalidInput(f"{text} {why}", hint=hint)


def completed_from(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a shell completer for some names."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def form_option(forms: Mapping[str, str]) -> Any:
    """Return the option ``--format`` of a report; ``forms`` maps each format to its suffix."""
    return option(
        "--format", known=forms, help=f"{'|'.join(forms)} [default: from the suffix, else table]"
    )


def whole_option(
    *flags: str, minimum: int | None = None, most: int | None = None, **settings: Any
) -> Any:
    """Return an option that is an integer."""
    parse = partial(whole_number, minimum=minimum, most=most)
    return option(*flags, parse=parse, **{"metavar": "N", **settings})


def number_format_option(flag: str, **settings: Any) -> Any:
    """Return an option that is a number format."""
    known = completed_from(REAL_DTYPES)
    return option(
        flag, parse=number_format, **{"metavar": "NAME", "autocompletion": known, **settings}
    )


def settings_option(help: str) -> Any:  # noqa: A002 - as Typer calls it
    """Return a repeatable ``--set`` option."""
    return option(
        "--set",
        metavar="NAME=VALUE",
        help=help,
        parse=Setting.parse,
        autocompletion=setting_texts,
    )


def one_of(flag: str, text: str, known: Iterable[str]) -> str:
    """Return ``text`` if it is one of the known texts.

    Raises: InvalidInput with the nearest known text as a hint.
    """
    names = list(known)
    name = text if text in names else ALIASES.get(text, text)
    if name not in names:
        raise InvalidInput(
            f"{flag} {abbreviated(text)}: must be one of {', '.join(names)}",
            hint=nearest(text, names),
        )
    return name


def some_of(flag: str, text: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return comma-separated known names, each once.

    Raises: InvalidInput with the nearest known name as a hint.
    """
    return tuple(dict.fromkeys(one_of(flag, part.strip(), known) for part in text.split(",")))


def test_lengths(flag: str, text: str) -> tuple[str, ...]:
    """Parse comma-separated lengths, or multiples of the trained length such as ``2x``.

    Raises: InvalidInput.
    """
    return tuple(
        f"{whole_number(flag, part.removesuffix('x') or part, minimum=1)}{'x' * part.endswith('x')}"
        for part in map(str.strip, text.split(","))
    )


def whole_number(
    flag: str, text: str, *, minimum: int | None = None, most: int | None = None
) -> int:
    """Parse an integer: 131072, 131_072 or 1e6.

    Raises: InvalidInput naming the option.
    """
    number = positions.whole_number(text)
    if number is None:
        raise InvalidInput(f"{flag} {abbreviated(text)}: must be an integer")
    if abs(number) == positions.PAST_ALL:
        raise InvalidInput(f"{flag} {abbreviated(text)} is past 2^53, the last exact position")
    if minimum is not None and number < minimum:
        raise InvalidInput(f"{flag} {number}: must be at least {minimum}")
    if most is not None and number > most:
        raise InvalidInput(f"{flag} {number}: must be at most {most}")
    return number


def number_format(flag: str, text: str) -> DType:
    """Parse the name of a number format.

    Raises: InvalidInput naming the option.
    """
    return REAL_DTYPES[one_of(flag, text, REAL_DTYPES)]


class Setting(Record):
    """A parameter from ``--set NAME=VALUE``, and the text as typed."""

    name: str
    value: str
    text: str

    @classmethod
    def parse(cls, flag: str, text: str) -> Setting:
        """Parse a setting; a hyphen in its name is an underscore.

        Raises: InvalidInput.
        """
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise InvalidInput(f"{flag} {abbreviated(text)}: must be NAME=VALUE")
        return cls(name, value, text)

    @property
    def option(self) -> str:
        """The option as it was typed."""
        return f"--set {abbreviated(self.text)}"


def settings_of(settings: Sequence[Setting] | None, given: Iterable[str] = ()) -> dict[str, str]:
    """Return the parameters of ``--set`` options.

    Raises: InvalidInput if a parameter is given twice, or is already in ``given``.
    """
    from posenc_cli.formulas.declare import CONFIG_KEYS

    taken, values = set(given), dict[str, str]()
    for setting in settings or ():
        name = CONFIG_KEYS.get(setting.name, setting.name)
        if name in taken:
            raise InvalidInput(f"{setting.option}: {name} is given twice")
        taken.add(name)
        values[setting.name] = setting.value
    return values


@contextmanager
def named_as_settings(given: Iterable[str]) -> Iterator[None]:
    """Make errors about parameters name ``--set``, for a command without options such as --base."""
    try:
        yield
    except InvalidInput as error:
        flag, _, rest = error.message.partition(" ")
        if flag.removeprefix("--") in given:
            error.message = f"--set {flag.removeprefix('--')} {rest}"
        raise


# Options that several commands share.
_MODEL = ("--model", "-m")
ModelName = Annotated[
    str | None,
    option(
        *_MODEL,
        metavar="NAME",
        autocompletion=model_names,
        help="a model (posenc models lists them)",
    ),
]
ModelNames = Annotated[
    list[str] | None,
    option(
        *_MODEL,
        metavar="NAME",
        autocompletion=model_names,
        help="a model (posenc models lists them); repeatable",
    ),
]
Json = Annotated[bool, option("--json", help="print one JSON object", rich_help_panel="Output")]
Verbose = Annotated[
    bool,
    option(
        "--verbose",
        "-v",
        help="also print notes, and how posenc got the result",
        rich_help_panel="Output",
    ),
]
Head = Annotated[
    int | None,
    whole_option("--head", metavar="H", minimum=0, help="only this head of a bias; the first is 0"),
]
TableName = Annotated[
    str | None,
    option(
        "--table",
        known=ROTARY_TABLES,
        help=f"table of a rotary scheme: {'|'.join(ROTARY_TABLES)} [default: cos-sin]",
    ),
]


TestLengths = Annotated[
    Any,  # tuple[str, ...] | None, which Typer would split into words
    option(
        "--test",
        metavar="LENGTHS",
        help="longer lengths, comma-separated: 200,400 or 2x,4x [default: 2x,4x,8x]",
        parse=test_lengths,
    ),
]


class OptionGroup(Record):
    """Options that commands share; each field is an option with its default.

    A command takes a group as one parameter: ``output: OutputOptions``. A subclass inherits the
    options and may redefine them. A field that is not ``Annotated`` is not an option and keeps its
    default. Help lists the options under ``heading``.
    """

    heading: ClassVar[str] = OWN

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """Return the options, by field name."""
        hints: dict[str, Any] = {}
        for group in reversed(cls.__mro__):
            hints |= get_annotations(group, eval_str=True) if issubclass(group, OptionGroup) else {}
        return {
            name: Parameter(
                name, Parameter.KEYWORD_ONLY, default=getattr(cls, name), annotation=hints[name]
            )
            for name in cls._names
            if get_origin(hints[name]) is Annotated
        }


class ModelChoice(OptionGroup):
    """The one model or config of a command."""

    heading = ENCODING

    model: ModelName = None
    config: Annotated[
        str | None,
        option(
            "--config",
            metavar="FILE",
            help="a Hugging Face config.json, its folder, or - (stdin)",
        ),
    ] = None

    def read(self) -> tuple[str, Mapping[str, Any] | GGUFHeader]:
        """Return the name, and the content of its config.

        Raises: InvalidInput if both options are given, or neither; Unavailable.
        """
        from posenc_cli.configs.config import read_config
        from posenc_cli.configs.library import find

        if self.model is not None and self.config is not None:
            raise InvalidInput("--model and --config: give one of them")
        if self.model is not None:
            return self.model, find(self.model).config
        if self.config is not None:
            return self.config, read_config(self.config)
        raise InvalidInput(
            "--model or --config: one of them is needed", hint="posenc models lists the models"
        )


class OutputOptions(OptionGroup):
    """Where a command's result goes: to a file, or to standard output.

    A command with several formats has the chosen one in ``form``.
    """

    heading = "Output"
    file_flag: ClassVar[str] = "--out"
    """The option that names the file, if a command uses another name."""

    out: Annotated[
        str | None, option("--out", "-o", metavar="FILE", help="write to a file instead of stdout")
    ] = None
    form: str | None = None
    no_clobber: Annotated[
        bool, option("--no-clobber", help="refuse to replace an existing file")
    ] = False
    json: Json = False

    @property
    def clobber(self) -> bool:
        """Whether an existing file may be replaced."""
        return not self.no_clobber

    @property
    def to_stdout(self) -> bool:
        """Whether ``--out -`` sends the file to standard output."""
        return self.out == STANDARD_OUTPUT

    @property
    def place(self) -> str:
        """The name of the file in summaries."""
        return "to standard output" if self.to_stdout else quoted_name(self.out or "")

    @property
    def path_fields(self) -> dict[str, str]:
        """The JSON field of the file; empty if there is none."""
        return {} if self.out is None else {"path": self.out}

    def check_stdout(self) -> None:
        """Reject writing both a file and JSON to standard output.

        Raises: InvalidInput.
        """
        if self.json and self.to_stdout:
            raise InvalidInput(
                f"--json: stdout is used by {self.file_flag} -", hint="write to a file"
            )

    def prepare(self) -> None:
        """Reject a file that cannot be written, before anything is computed.

        Raises: InvalidInput, Unavailable.
        """
        if self.out is not None and not self.to_stdout:
            preflight(self.out, clobber=self.clobber)


class ReportOptions(OutputOptions):
    """Where a report goes, and in which format; JSON is one of them."""

    json: Annotated[bool, option("--json", help="the same as --format json")] = False

    def chosen_form(self, suffixes: Mapping[str, str]) -> str:
        """Return the format: the one asked for, else by the suffix of the file, else a table.

        ``suffixes`` has the suffix of each format.

        Raises: InvalidInput if two formats are asked for, or the file is named for another one.
        """
        if self.json and self.form not in (None, "json"):
            raise InvalidInput(f"--json cannot go with --format {self.form}")
        asked = "json" if self.json else self.form
        by_suffix = {suffix: name for name, suffix in reversed([*suffixes.items()])}
        form = asked or by_suffix.get(self.suffix, "table")
        if self.out is not None:
            from posenc_cli.files.formats import check_suffix

            asking = "a report as text" if asked is None else f"--format {asked}"
            check_suffix(self.out, suffixes[form], asking)
        return form

    @property
    def suffix(self) -> str:
        """The suffix of the file, in lower case."""
        return PurePath(self.out or "").suffix.lower()
