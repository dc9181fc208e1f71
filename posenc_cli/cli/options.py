"""Options of the command line, as groups that commands share."""

from __future__ import annotations

from functools import partial
from inspect import Parameter, get_annotations
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_origin

import typer

from posenc_cli import positions
from posenc_cli.cli.completers import model_names, setting_texts
from posenc_cli.errors import InvalidInput, abbreviated, nearest, quoted_name
from posenc_cli.files.atomic import STANDARD_OUTPUT, preflight
from posenc_cli.formulas.tables import ROTARY_TABLES
from posenc_cli.numerics.dtypes import REAL_DTYPES, DType
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from posenc_cli.files.gguf import GGUFHeader


ENCODING, PARAMETERS, OWN, EVERY_COMMANDS = "Encoding", "Parameters", "Options", "General"
"""Headings of help, under which several declarations put options."""


LARGEST_SEED = 2**64 - 1

ALIASES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
"""What people type for number formats."""


def option(
    *flags: str,
    known: Sequence[str] | Mapping[str, Any] = (),
    parse: Callable[[str, str], Any] | None = None,
    **settings: Any,
) -> Any:
    """What ``Annotated`` says of an option: its flags, and how its text becomes a value.

    ``parse`` makes the value of the longest flag and the text; ``known`` are the only texts that
    there may be. ``settings`` are Typer's own.
    """
    if known:
        parse = partial(one_of, known=known)
        settings = {
            "metavar": "NAME",
            "help": "|".join(known),
            "autocompletion": completed_from(known),
            **settings,
        }
    if parse is not None:
        settings["parser"] = partial(parse, max(flags, key=len))
    return typer.Option(*flags, **settings)


def refuse(given: Mapping[str, object], why: str, *, hint: str | None = None) -> None:
    """Refuse the first option that has a value, of some by flag.

    Raises: InvalidInput, which says ``why`` after the option and its value.
    """
    for flag, value in given.items():
        if value is not None and value is not False:
            shown = abbreviated(value) if isinstance(value, str) else value
            text = flag if value is True else f"{flag} {shown}"
            raise InvalidInput(f"{text}: {why}", hint=hint)


def completed_from(names: Iterable[str]) -> Callable[[str], list[str]]:
    """What completes a text to one of some names, for a shell."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def form_option(forms: Mapping[str, str]) -> Any:
    """What ``Annotated`` says of a report's ``--format``; ``forms`` name their suffixes."""
    return option(
        "--format", known=forms, help=f"{'|'.join(forms)} [default: by the suffix, table]"
    )


def whole_option(
    *flags: str, minimum: int | None = None, most: int | None = None, **settings: Any
) -> Any:
    """What ``Annotated`` says of an option that is a whole number."""
    parse = partial(whole_number, minimum=minimum, most=most)
    return option(*flags, parse=parse, **{"metavar": "N", **settings})


def number_format_option(flag: str, **settings: Any) -> Any:
    """What ``Annotated`` says of an option that is a number format."""
    known = completed_from(REAL_DTYPES)
    return option(
        flag, parse=number_format, **{"metavar": "NAME", "autocompletion": known, **settings}
    )


def settings_option(help: str) -> Any:  # noqa: A002 - as Typer calls it
    """What ``Annotated`` says of a ``--set``, of which there may be many."""
    return option(
        "--set",
        metavar="NAME=VALUE",
        help=help,
        parse=Setting.parse,
        autocompletion=setting_texts,
    )


def one_of(flag: str, text: str, known: Iterable[str]) -> str:
    """``text``, after a check that it is one of the known.

    Raises: InvalidInput with the nearest known text as a hint.
    """
    names = list(known)
    if text not in names and ALIASES.get(text) in names:
        return ALIASES[text]
    if text not in names:
        raise InvalidInput(
            f"{flag} {abbreviated(text)}: must be one of {', '.join(names)}",
            hint=nearest(text, names),
        )
    return text


def some_of(flag: str, text: str, known: Iterable[str]) -> tuple[str, ...]:
    """Each of some known names, separated by commas, once.

    Raises: InvalidInput with the nearest known name as a hint.
    """
    return tuple(dict.fromkeys(one_of(flag, part.strip(), known) for part in text.split(",")))


def test_lengths(flag: str, text: str) -> tuple[str, ...]:
    """Lengths, or multiples of the trained length: whole numbers, some followed by an x.

    Raises: InvalidInput.
    """
    return tuple(
        f"{whole_number(flag, part.removesuffix('x') or part, minimum=1)}{'x' * part.endswith('x')}"
        for part in map(str.strip, text.split(","))
    )


def whole_number(
    flag: str, text: str, *, minimum: int | None = None, most: int | None = None
) -> int:
    """The integer that ``text`` writes: 131072, 131_072 or 1e6.

    Raises: InvalidInput naming the option.
    """
    number = positions.whole_number(text)
    if number is None:
        raise InvalidInput(f"{flag} {abbreviated(text)}: must be an integer")
    if abs(number) == positions.PAST_ALL:
        raise InvalidInput(f"{flag} {abbreviated(text)}: is past 2^53, the last exact position")
    if minimum is not None and number < minimum:
        raise InvalidInput(f"{flag} {number}: must be at least {minimum}")
    if most is not None and number > most:
        raise InvalidInput(f"{flag} {number}: must be at most {most}")
    return number


def number_format(flag: str, text: str) -> DType:
    """The number format of a name.

    Raises: InvalidInput naming the option.
    """
    return REAL_DTYPES[one_of(flag, text, REAL_DTYPES)]


class Setting(Record):
    """A parameter that ``--set NAME=VALUE`` gives, beside the text that was typed."""

    name: str
    value: str
    text: str

    @classmethod
    def parse(cls, flag: str, text: str) -> Setting:
        """The setting that a text is; a dash in its name is an underscore.

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
    """The parameters that ``--set`` options give, none of them twice nor ``given`` before.

    Raises: InvalidInput.
    """
    taken, values = set(given), dict[str, str]()
    for setting in settings or ():
        if setting.name in taken:
            raise InvalidInput(f"{setting.option}: {setting.name} is given twice")
        taken.add(setting.name)
        values[setting.name] = setting.value
    return values


# Options that several commands have, and mean the same by.
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
        help=f"for rotary schemes: {'|'.join(ROTARY_TABLES)} [default: cos-sin]",
    ),
]


TestLengths = Annotated[
    Any,  # tuple[str, ...] | None, which Typer would read word by word
    option(
        "--test",
        metavar="LENGTHS",
        help="longer lengths, comma-separated: 200,400 or 2x,4x [default: 2x,4x,8x]",
        parse=test_lengths,
    ),
]


class OptionGroup(Record):
    """Options that commands share: each field is one, with its default.

    A command takes them as one value: ``output: OutputOptions``. What derives from a group has
    its options too, and may say anew what one of them means. A field that is not ``Annotated``
    keeps its default. Help shows them under the ``heading``.
    """

    heading: ClassVar[str] = OWN

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """The options, by the names of the fields."""
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
    """The one model or config that a command is about."""

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
        """The name, and what its config holds.

        Raises: InvalidInput where both options are given, or none; Unavailable.
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

    A command that has several formats says in ``form`` which.
    """

    heading = "Output"
    file_flag: ClassVar[str] = "--out"
    """The option that names the file, where a command calls it otherwise."""

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
        """Whether ``--out -`` names standard output as the file."""
        return self.out == STANDARD_OUTPUT

    @property
    def place(self) -> str:
        """Where the file goes, as a summary says it."""
        return "standard output" if self.to_stdout else quoted_name(self.out or "")

    @property
    def path_fields(self) -> dict[str, str]:
        """The file as JSON names it, nothing where there is none."""
        return {} if self.out is None else {"path": self.out}

    def check_stdout(self) -> None:
        """Refuse to write both a file and JSON to standard output.

        Raises: InvalidInput.
        """
        if self.json and self.to_stdout:
            raise InvalidInput(
                f"--json: stdout is used by {self.file_flag} -", hint="write to a file"
            )

    def prepare(self) -> None:
        """Refuse, before anything is computed, a file that could not be written.

        Raises: InvalidInput, Unavailable.
        """
        if self.out is not None and not self.to_stdout:
            preflight(self.out, clobber=self.clobber)


class ReportOptions(OutputOptions):
    """Where a report goes, and in which form, of which JSON is one."""

    json: Annotated[bool, option("--json", help="the same as --format json")] = False

    def form_asked_for(self, suffixes: Mapping[str, str]) -> str | None:
        """The form that ``--format`` or ``--json`` names, after a check that the file's name fits.

        ``suffixes`` are those of the forms.

        Raises: InvalidInput.
        """
        if self.json and self.form not in (None, "json"):
            raise InvalidInput(f"--json: cannot go with --format {self.form}")
        form = "json" if self.json else self.form
        if form is not None and self.out is not None:
            from posenc_cli.files.formats import check_suffix

            check_suffix(self.out, suffixes[form], f"--format {form}")
        return form

    @property
    def suffix(self) -> str:
        """The suffix of the file, in small letters."""
        return PurePath(self.out or "").suffix.lower()
