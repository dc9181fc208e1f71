"""The encodings and files that a command compares, and their options."""

from __future__ import annotations

from itertools import chain
from typing import Annotated

from posenc_cli.choice import Choice, hybrid
from posenc_cli.cli.choosing import (
    ComputeOptions,
    ParameterOptions,
    PositionOptions,
    SchemesOptions,
    named_choices,
)
from posenc_cli.cli.console import Console
from posenc_cli.cli.matrices import READ
from posenc_cli.cli.options import ModelNames, option
from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record


class EncodingSourceOptions(SchemesOptions):
    """The options that name encodings, and those on how to read a config."""

    config: Annotated[
        list[str] | None,
        option(
            "--config",
            metavar="FILE",
            help="a Hugging Face config.json, or the folder that holds it; repeatable",
        ),
    ] = None  # type: ignore[assignment]
    model: ModelNames = None  # type: ignore[assignment]


class SeveralSourceOptions(EncodingSourceOptions):
    """The options that name encodings and files of numbers, and those on how to read a config."""

    file: Annotated[
        list[str] | None,
        option(
            "--in",
            metavar="FILE",
            help=f"a matrix in a file: {READ}; FILE:TENSOR names one of several; repeatable",
        ),
    ] = None


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
        named = named_choices(source, where, parameters, computing, console)
        if not named:
            raise InvalidInput(
                "--scheme, --config, --model or --in: give one of them",
                hint="posenc schemes and posenc models list the names",
            )
        items: list[Choice | str] = []
        for name, choices in named:
            items += choices or [name]
        return Subjects(tuple(items))


class Encodings(Record):
    """The encodings that a command line names, in order, each as its parts; there may be none."""

    named: tuple[tuple[Choice, ...], ...]

    @staticmethod
    def of_options(
        source: EncodingSourceOptions,
        where: PositionOptions,
        parameters: ParameterOptions,
        computing: ComputeOptions,
        console: Console,
    ) -> Encodings:
        """Return the encodings that the options name.

        Raises: InvalidInput if an option concerns an encoding that is not named.
        """
        named = named_choices(source, where, parameters, computing, console)
        return Encodings(tuple(tuple(choices) for _, choices in named))

    @property
    def whole(self) -> tuple[Choice, ...]:
        """The encodings; a hybrid counts as one."""
        return tuple(map(hybrid, self.named))

    @property
    def parts(self) -> tuple[Choice, ...]:
        """The encodings, of which there must be one; each part of a hybrid separately.

        Raises: InvalidInput if none is named.
        """
        if not self.named:
            raise InvalidInput(
                "--scheme, --config or --model: give one of them",
                hint="posenc schemes and posenc models list the names",
            )
        return tuple(chain.from_iterable(self.named))
