"""The options that choose an encoding and its positions."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli import catalogue
from posenc_cli.choice import (
    FIRST,
    Choice,
    choice_like,
    choice_of_layers,
    choice_of_schemes,
    hybrid,
    parameters_by_scheme,
    part_names,
)
from posenc_cli.cli.completers import (
    backend_names,
    function_names,
    layout_names,
    runtime_names,
    scheme_names,
)
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import (
    ENCODING,
    PARAMETERS,
    ModelName,
    OptionGroup,
    Setting,
    one_of,
    option,
    refuse,
    settings_of,
    settings_option,
    whole_number,
    whole_option,
)
from posenc_cli.errors import InvalidInput, abbreviated, nearest, sizes_text
from posenc_cli.formulas.parameters import OWN_OPTIONS
from posenc_cli.positions import PAST_ALL, Positions, exact_number
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction

    from posenc_cli.configs.resolved import Resolved
    from posenc_cli.formulas.declare import Scheme

LARGEST_THREADS = 256


def check_subject(choices: Sequence[Choice], source: str | None) -> None:
    """Reject neither, or both, of an encoding and the file of ``--in``.

    Raises: InvalidInput.
    """
    if choices and source is not None:
        raise InvalidInput("--in cannot go with --scheme, --config or --model; give one of them")
    if not choices and source is None:
        raise InvalidInput(
            "--scheme, --config, --model or --in: give one of them",
            hint="posenc schemes and posenc models list the names",
        )


_SCHEME_HELP = (
    "a scheme (posenc schemes lists them); A+B is a hybrid; ./file.py:name or package.module:name "
    "is your own"
)


def in_order(options: Mapping[str, str | Sequence[str] | None]) -> list[tuple[str, str]]:
    """Return the values of some options with their flags, in the order of the command line."""
    lists = {flag: [named] if isinstance(named, str) else named for flag, named in options.items()}
    named = [(flag, name) for flag, names in lists.items() for name in names or ()]
    return sorted(named, key=lambda pair: getattr(pair[1], "place", 0))


class SourceOptions(OptionGroup):
    """The options that name an encoding, and those on how to read a config."""

    heading = ENCODING

    scheme: Annotated[
        list[str] | None,
        option(
            "--scheme",
            "-s",
            metavar="NAME",
            autocompletion=scheme_names,
            help=_SCHEME_HELP,
        ),
    ] = None
    config: Annotated[
        str | None,
        option(
            "--config",
            metavar="FILE",
            help="a Hugging Face config.json, its folder, or a GGUF file",
        ),
    ] = None
    model: ModelName = None
    like: str | None = None
    file: list[str] | None = None
    layer_type: Annotated[
        str | None,
        option(
            "--layer-type",
            metavar="NAME",
            help="the layer type, if the config has several",
        ),
    ] = None
    runtime: Annotated[
        str | None,
        option(
            "--as",
            metavar="ENGINE",
            autocompletion=runtime_names,
            help="read the config as vllm, llama.cpp or another engine does",
        ),
    ] = None

    @property
    def in_order(self) -> list[tuple[str, str]]:
        """All names with their options, in the order of the command line."""
        named = {"--scheme": self.scheme, "--like": self.like, "--config": self.config}
        return in_order({**named, "--model": self.model, "--in": self.file})

    @property
    def reading(self) -> dict[str, str]:
        """The options given on how to read a config."""
        options = {"--as": self.runtime, "--layer-type": self.layer_type}
        return {flag: name for flag, name in options.items() if name is not None}


class FunctionOptions(SourceOptions):
    """The options of :class:`SourceOptions`, and ``--like`` for a library's function."""

    like: Annotated[
        str | None,
        option(
            "--like",
            metavar="NAME",
            autocompletion=function_names,
            help="reproduce a library's table: package:function",
        ),
    ] = None


class SchemesOptions(SourceOptions):
    """The options of :class:`SourceOptions`, with a repeatable ``--scheme``."""

    scheme: Annotated[
        list[str] | None,
        option(
            "--scheme",
            "-s",
            metavar="NAME",
            autocompletion=scheme_names,
            help=f"{_SCHEME_HELP}; repeatable",
        ),
    ] = None


def _positions(_flag: str, text: str) -> Positions:
    positions = Positions.parse(text) if not is_file_name(text) else positions_in_file(text)
    return positions.within_exact_range()


def is_file_name(text: str) -> bool:
    """Return whether a text of positions names a file, by its suffix or a leading folder."""
    return bool(re.search(r"^(\.{0,2}|~\w*)[/\\]|\.(?![eE][\d+-])[A-Za-z]\w*(:|$)", text))


def positions_in_file(path: str) -> Positions:
    """Return the positions in a file, in order; floats are taken exactly.

    Raises: InvalidInput if it does not hold one row of numbers; Unavailable if it cannot be read.
    """
    from posenc_cli.encoding.arrays import positions_from
    from posenc_cli.files.reading import read_array

    values = read_array(path).values
    if 1 not in values.shape[-1:] + values.shape[:1] and values.ndim != 1:
        raise InvalidInput(
            f"--positions {path} holds an array of shape {sizes_text(values.shape)}; it must be "
            "one row"
        )
    return positions_from(values.reshape(-1), name=f"--positions {path}")


def _start(flag: str, text: str) -> Fraction | int:
    number = exact_number(text)
    if number is None:
        raise InvalidInput(f"{flag} {abbreviated(text)}: must be a number")
    if not -PAST_ALL < number < PAST_ALL:
        raise InvalidInput(f"{flag} {abbreviated(text)} is past 2^53, the last exact position")
    return number


class PositionOptions(OptionGroup):
    """The options that choose positions."""

    heading = "Positions"

    length: Annotated[
        int | None,
        whole_option(
            "--len",
            "-l",
            minimum=1,
            help="number of positions; 4k is 4096, 1M is 1048576 [default: depends on the command]",
        ),
    ] = None
    start: Annotated[
        Any,
        option("--start", metavar="N", help="first position [default: 0]", parse=_start),
    ] = None
    positions: Annotated[
        Positions | None,
        option(
            "--positions",
            metavar="SPEC",
            help="positions, instead of --len: numbers and start:stop[:step], comma-separated, "
            "or a FILE",
            parse=_positions,
        ),
    ] = None

    @property
    def texts(self) -> dict[str, str]:
        """The texts given, by option."""
        options = {"--len": self.length, "--start": self.start, "--positions": self.positions}
        return {flag: str(value) for flag, value in options.items() if value is not None}

    def resolve(self) -> Positions | None:
        """Return the positions asked for, or None if no option is given.

        Raises: InvalidInput if options contradict each other, or go past the last exact position.
        """
        if self.positions is not None:
            flag, text = next(iter(self.texts.items()))
            if flag != "--positions":
                raise InvalidInput(f"{flag} {abbreviated(text)} cannot go with --positions")
            return self.positions
        if self.length is None:
            if self.start is not None:
                raise InvalidInput(f"--start {abbreviated(str(self.start))} needs --len")
            return None
        wanted = Positions.from_start(self.start or 0, self.length)
        return wanted.within_exact_range(option=wanted.option)


class ParameterOptions(OptionGroup):
    """The parameters of one or several schemes; the schemes' declarations parse their texts."""

    heading = PARAMETERS

    dim: Annotated[
        str | None,
        option(
            *OWN_OPTIONS["dim"],
            metavar="N",
            help="dimensions of the encoding [default: 64, or the scheme's]",
        ),
    ] = None
    heads: Annotated[
        str | None,
        option(*OWN_OPTIONS["heads"], metavar="N", help="attention heads [default: 8]"),
    ] = None
    base: Annotated[
        str | None,
        option(
            *OWN_OPTIONS["base"],
            metavar="X",
            help="base of the frequencies, RoPE's theta [default: 10000, or the scheme's]",
        ),
    ] = None
    layout: Annotated[
        str | None,
        option(
            *OWN_OPTIONS["layout"],
            metavar="NAME",
            autocompletion=layout_names,
            help="rotary: interleaved|half; sinusoidal: interleaved|concat [default: interleaved, "
            "or the scheme's]",
        ),
    ] = None
    settings: Annotated[
        list[Setting] | None,
        settings_option("any other parameter (posenc schemes NAME lists them); repeatable"),
    ] = None

    @property
    def own(self) -> dict[str, str]:
        """The parameters given by an option of their own."""
        values = self.as_dict()
        return {name: values[name] for name in OWN_OPTIONS if values[name] is not None}

    @property
    def given(self) -> dict[str, object]:
        """All parameters given.

        Raises: InvalidInput if one is given twice.
        """
        return {**self.own, **settings_of(self.settings, self.own)}

    @property
    def texts(self) -> dict[str, str]:
        """The texts given, by option; only the first of several ``--set``."""
        settings = [("--set", setting.text) for setting in (self.settings or ())[:1]]
        own = [(OWN_OPTIONS[name][0], value) for name, value in self.own.items()]
        return dict([*settings, *own])


def device_name(flag: str, name: str) -> str | None:
    """Return a device name, or None for the CPU, which every backend supports."""
    if name in ("cpu", "cpu:0"):
        return None
    if not re.fullmatch(r"[a-z]+(:[0-9]{1,3})?", name) or name.startswith("cpu"):
        raise InvalidInput(
            f"{flag} {abbreviated(name)}: must be a device such as cpu, cuda, cuda:1 or mps",
            hint=nearest(name.lower(), ["cpu", "cuda", "mps"]),
        )
    return name


class ComputeOptions(OptionGroup):
    """The backend, device and threads, from options or else the environment."""

    heading = "Computing"

    backend: Annotated[
        str | None,
        option(
            "--backend",
            metavar="NAME",
            autocompletion=backend_names,
            help="auto|numpy|fast|torch; posenc --version --verbose lists them [default: auto]",
        ),
    ] = None
    device: Annotated[
        str | None,
        option(
            "--device",
            metavar="NAME",
            help="cpu|cuda|mps, or another torch device",
            parse=device_name,
        ),
    ] = None
    threads: Annotated[
        int | None,
        whole_option(
            "--threads",
            minimum=1,
            most=LARGEST_THREADS,
            help="number of threads [default: depends on the size]",
        ),
    ] = None

    def resolve(self) -> dict[str, Any]:
        """Return the fields of a choice that say how to compute.

        Raises: InvalidInput if the environment names an unknown backend.
        """
        threads = self.threads
        if threads is None and (text := os.environ.get("POSENC_THREADS")):
            threads = whole_number("POSENC_THREADS", text, minimum=1, most=LARGEST_THREADS)
        backend = self.backend or _environments_backend()
        return {"backend": backend, "device": self.device, "threads": threads}


def _environments_backend() -> str:
    """Return the backend that the environment names, else auto."""
    name = os.environ.get("POSENC_BACKEND") or "auto"
    if name == "auto":
        return name
    from posenc_cli.backends.registry import BUILT_IN

    return one_of("POSENC_BACKEND", name, ["auto", *BUILT_IN])


def choice_of(
    source: SourceOptions,
    where: PositionOptions,
    parameters: ParameterOptions,
    computing: ComputeOptions,
    console: Console,
) -> Choice | None:
    """Return the choice that a command line makes, or None if no option names an encoding.

    Raises: InvalidInput if several options do, or an option concerns an encoding that is not named.
    """
    names = [*dict.fromkeys(source.in_order)]
    if len(names) > 1:
        (flag, first), (other, second), *_ = names
        if flag != other:
            raise InvalidInput(f"{flag} and {other}: give one of them")
        raise InvalidInput(
            f"{flag}: given as {abbreviated(first)} and as {abbreviated(second)}; it takes one",
            hint=f"posenc compare {first} {second} compares them",
        )
    source = replace(source, scheme=source.scheme and source.scheme[:1])
    named = named_choices(source, where, parameters, computing, console)
    return hybrid(named[0][1]) if named else None


def named_choices(
    source: SourceOptions,
    where: PositionOptions,
    parameters: ParameterOptions,
    computing: ComputeOptions,
    console: Console,
) -> list[tuple[str, list[Choice]]]:
    """Return each name with the choices of its parts, in order; a file has none."""
    named = [
        (flag, name, part_names(name) if flag == "--scheme" else [name])
        for flag, name in source.in_order
    ]
    flags = {flag for flag, _, _ in named} - {"--in"}
    if not flags:
        texts = where.texts | source.reading | parameters.texts
        refuse(texts, "needs an encoding", hint="name one by --scheme, --config or --model")
    if flags and not flags & {"--config", "--model"}:
        refuse(source.reading, "needs --config or --model")
    fields = {"positions": where.resolve(), **computing.resolve()}
    parts = [(flag, part) for flag, _, names in named for part in names if flag != "--in"]
    several = len(named) > 1 or len(parts) > 1
    found = [_maker(flag, part, source, fields, several=several) for flag, part in parts]
    schemes, given = [scheme for scheme, _ in found], parameters.given
    by_scheme = parameters_by_scheme(schemes, given) if len(schemes) > 1 else [given]
    choices = [make(values) for (_, make), values in zip(found, by_scheme, strict=bool(found))]
    for choice in choices:
        of = f"{choice.source}: " if several else ""
        console.warning(*(f"{of}{warning}" for warning in choice.warnings))
    rest = iter(choices)
    return [
        (name, [] if flag == "--in" else [next(rest) for _ in names]) for flag, name, names in named
    ]


def _maker(
    flag: str, name: str, source: SourceOptions, fields: dict[str, Any], *, several: bool
) -> tuple[Scheme, Callable[[dict[str, object]], Choice]]:
    """Return the scheme of a named encoding, and a function from its parameters to its choice."""
    if flag == "--scheme":
        return catalogue.find(name), partial(choice_of_schemes, name, **fields)
    if flag == "--like":
        return choice_like(name, {}, **fields).scheme, partial(choice_like, name, **fields)
    resolved, reading = resolved_config(source, flag, name), source
    if several and all(layers.layer_type is None for layers in resolved.layers):
        reading = replace(source, layer_type=None)  # it concerns others
    scheme = catalogue.find(resolved.layer(reading.layer_type).scheme)
    return scheme, partial(choice_of_config, resolved, reading, flag, name, **fields)


def required_choice(choice: Choice | None) -> Choice:
    """Return the choice, for a command that needs one.

    Raises: InvalidInput if there is none.
    """
    if choice is None:
        raise InvalidInput(
            "--scheme, --config or --model: one of them is needed",
            hint="posenc schemes and posenc models list the names",
        )
    return choice


LikeChoice = Annotated[Choice, "or a library's function"]
"""The choice of a command that accepts ``--like``."""


def like_choice(
    source: FunctionOptions,
    where: PositionOptions,
    parameters: ParameterOptions,
    computing: ComputeOptions,
    console: Console,
) -> Choice:
    """Like `choice_of`, but requires an encoding.

    A library function starts at its own first position.
    """
    if source.like and where.start is None and where.positions is None:
        from posenc_cli.configs.library import find_function

        if first := find_function(source.like).start:
            where = replace(where, start=first, length=where.length or FIRST)
    return required_choice(choice_of(source, where, parameters, computing, console))


MAKERS: Mapping[object, Callable[..., Any]] = {
    Choice: required_choice,
    Choice | None: choice_of,
    LikeChoice: like_choice,
}
"""What builds a command's parameter of each type, from options and other such parameters."""


def resolved_config(source: SourceOptions, flag: str, name: str) -> Resolved:
    """Return what a config, or a model's config, says, as the requested engine reads it."""
    from posenc_cli.configs.config import read_config, resolve
    from posenc_cli.configs.library import find as find_model

    config = read_config(name) if flag == "--config" else find_model(name).config
    return resolve(config, runtime=source.runtime or "transformers", name=name)


def choice_of_config(
    resolved: Resolved,
    source: SourceOptions,
    flag: str,
    name: str,
    given: Mapping[str, object],
    **fields: Any,
) -> Choice:
    """Return the choice of a config or a model; parameters in ``given`` replace its own."""
    origin = {flag.removeprefix("--"): name, "layer_type": source.layer_type, "as": source.runtime}
    return choice_of_layers(
        resolved,
        given,
        name=name,
        layer_type=source.layer_type,
        origin={key: text for key, text in origin.items() if text is not None},
        **fields,
    )
