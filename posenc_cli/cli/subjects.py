"""The encodings and files that a command compares, and their options."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli import catalogue
from posenc_cli.choice import (
    Choice,
    choice_of_schemes,
    hybrid,
    parameters_by_scheme,
    part_names,
)
from posenc_cli.cli.choosing import (
    NO_CONFIG,
    ComputeOptions,
    ParameterOptions,
    PositionOptions,
    SchemesOptions,
    check_nothing_said,
    choice_of_config,
    resolved_config,
)
from posenc_cli.cli.console import Console
from posenc_cli.cli.matrices import READ
from posenc_cli.cli.options import ModelNames, option, refuse, settings_of
from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posenc_cli.formulas.declare import Scheme


class SeveralSourceOptions(SchemesOptions):
    """The options that name encodings and files of numbers, and those on how to read a config."""

    config: Annotated[
        list[str] | None,
        option(
            "--config",
            metavar="FILE",
            help="a Hugging Face config.json, or the folder that holds it; repeatable",
        ),
    ] = None  # type: ignore[assignment]
    model: ModelNames = None  # type: ignore[assignment]
    file: Annotated[
        list[str] | None,
        option(
            "--in",
            metavar="FILE",
            help=f"a matrix in a file: {READ}; FILE:TENSOR names one of several; repeatable",
        ),
    ] = None

    @property
    def in_order(self) -> list[tuple[str, str]]:
        """All names with their options, in the order of the command line."""
        options = {"--scheme": self.scheme, "--config": self.config, "--model": self.model}
        return in_order({**options, "--in": self.file})


def in_order(options: Mapping[str, Sequence[str] | None]) -> list[tuple[str, str]]:
    """Return the values of some options with their flags, in the order of the command line."""
    named = [(flag, name) for flag, names in options.items() for name in names or ()]
    return sorted(named, key=lambda pair: getattr(pair[1], "place", 0))


class EncodingSourceOptions(SeveralSourceOptions):
    """The options that name encodings, and those on how to read a config."""

    file: list[str] | None = None


class Subjects(Record):
    """The encodings, and the paths of files of numbers, that a command line names, in order."""

    items: tuple[Choice | str, ...]

    @staticmethod
    def of_options(
        source: SeveralSourceOptions,
        where: PositionOptions,
        parameters: ParameterOptions,
        computing: ComputeOptions,
        console: Console,
    ) -> Subjects:
        """Return the encodings and files that the options name; each part of a hybrid separately.

        Raises: InvalidInput if none is named, or an option concerns an encoding that is not named.
        """
        named = _named(source, where, parameters, computing, console)
        if not named:
            raise InvalidInput(
                "--scheme, --config, --model or --in: give one of them",
                hint="posenc schemes and posenc models list what there is",
            )
        items: list[Choice | str] = []
        for name, choices in named:
            items += choices or [name]
        return Subjects(tuple(items))


class ComparedEncodings(Record):
    """The encodings that a command line names, in order; a hybrid counts as one."""

    items: tuple[Choice, ...]

    @staticmethod
    def of_options(
        source: EncodingSourceOptions,
        where: PositionOptions,
        parameters: ParameterOptions,
        computing: ComputeOptions,
        console: Console,
    ) -> ComparedEncodings:
        """Return the encodings that the options name; there may be none.

        Raises: InvalidInput if an option concerns an encoding that is not named.
        """
        named = _named(source, where, parameters, computing, console)
        return ComparedEncodings(tuple(hybrid(choices) for _, choices in named))


def _named(
    source: SeveralSourceOptions,
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
        check_nothing_said(source, where, parameters)
    if flags == {"--scheme"}:
        refuse(source.reading, NO_CONFIG)
    given: dict[str, object] = {**parameters.own}
    given |= settings_of(parameters.settings, given)
    fields = {"positions": where.resolve(), **computing.resolve()}
    parts = [(flag, part) for flag, _, names in named for part in names if flag != "--in"]
    several = len(named) > 1 or len(parts) > 1
    found = [_maker(flag, part, source, fields, several=several) for flag, part in parts]
    schemes = [scheme for scheme, _ in found]
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
    flag: str, name: str, source: SeveralSourceOptions, fields: dict[str, Any], *, several: bool
) -> tuple[Scheme, Callable[[dict[str, object]], Choice]]:
    """Return the scheme of a named encoding, and a function from its parameters to its choice."""
    if flag == "--scheme":
        return catalogue.find(name), partial(choice_of_schemes, name, **fields)
    resolved, reading = resolved_config(source, flag, name), source
    if several and all(layers.layer_type is None for layers in resolved.layers):
        reading = replace(source, layer_type=None)  # it concerns others
    scheme = catalogue.find(resolved.layer(reading.layer_type).scheme)
    return scheme, partial(choice_of_config, resolved, reading, flag, name, **fields)
