"""The encodings and matrices that a command reads, shows or writes, and their options."""

from __future__ import annotations

import re
import sys
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.budget import LISTED_VALUES, check_size
from posenc_cli.choice import Choice, hybrid
from posenc_cli.cli.choosing import (
    ComputeOptions,
    ParameterOptions,
    PositionOptions,
    SchemesOptions,
    named_choices,
)
from posenc_cli.cli.console import Console, with_overflow_warning, with_progress
from posenc_cli.cli.options import (
    ENCODING,
    ModelNames,
    OptionGroup,
    OutputOptions,
    TableName,
    one_of,
    option,
    whole_option,
)
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.files.formats import FORMATS
from posenc_cli.formulas.tables import ROTARY_TABLES
from posenc_cli.positions import Positions
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.files.matrix import Matrix
    from posenc_cli.render.figure import Figure


READ = " ".join(form.suffix for form in FORMATS.values())

MatrixFile = Annotated[
    str | None,
    option(
        "--in",
        metavar="FILE",
        help=f"a matrix in a file: {READ}; FILE:TENSOR selects one tensor",
        rich_help_panel=ENCODING,
    ),
]


class MatrixOutput(OutputOptions):
    """Where a matrix goes, and in which format."""

    out: Annotated[
        str | None, option("--out", "-o", metavar="FILE", help="output file; - is stdout")
    ] = None
    form: Annotated[
        str | None,
        option("--format", metavar="NAME", help=f"{'|'.join(FORMATS)} [default: from the suffix]"),
    ] = None

    def watch(self, matrix: Matrix, console: Console, *, may_overflow: bool) -> Matrix:
        """Return ``matrix`` with a warning of overflow and a progress bar while it is computed."""
        if may_overflow:
            matrix = with_overflow_warning(matrix, console)
        if console.shows_progress and not self.to_stdout:
            matrix = with_progress(matrix, sys.stderr)
        return matrix


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
            help=f"a matrix in a file: {READ}; FILE:TENSOR selects one tensor; repeatable",
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
        return Subjects(tuple(item for name, choices in named for item in choices or (name,)))


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


BUCKETS = "buckets"
_NEAREST = Positions.contiguous(-600, 1201)
"""Reaches past all offsets that the rules distinguish: 128 for T5, 512 for DeBERTa."""


def half_open(flag: str, text: str) -> range:
    """Parse a range of dimensions or rows: ``A:B``, or ``A`` alone.

    Raises: InvalidInput.
    """
    match = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", text.strip())
    if match is None:
        raise InvalidInput(f"{flag} {abbreviated(text)}: must be A:B, two whole numbers from 0")
    first = int(match[1])
    stop = first + 1 if match[2] is None else int(match[2])
    if stop <= first:
        raise InvalidInput(f"{flag} {abbreviated(text)} is empty")
    return range(first, stop)


class ViewOptions(OptionGroup):
    """Which part of an encoding or of a file is shown."""

    table: TableName = None
    head: Annotated[
        int | None,
        whole_option(
            "--head",
            metavar="H",
            minimum=0,
            help="only this head of a bias, or this matrix of a 3-D array; the first is 0",
        ),
    ] = None
    dims: Annotated[
        range | None,
        option("--dims", metavar="A:B", help="only columns A to B − 1", parse=half_open),
    ] = None
    rows: Annotated[
        range | None,
        option("--rows", metavar="A:B", help="only rows A to B − 1 of a file", parse=half_open),
    ] = None

    def check(self, *, encodings: bool, files: bool) -> None:
        """Reject options that apply neither to the encodings nor to the files given.

        Raises: InvalidInput.
        """
        if not files and self.rows is not None:
            raise InvalidInput(
                f"--rows {self.rows.start}:{self.rows.stop} needs --in",
                hint="--positions chooses those of an encoding",
            )
        if not encodings and self.table is not None:
            raise InvalidInput(f"--table {abbreviated(self.table)} cannot go with --in")

    def stored_figure(self, path: str) -> tuple[Figure, dict[str, Any]]:
        """Return the figure of the array in a file, and its JSON fields.

        Raises: InvalidInput, Unavailable: if it cannot be read, or has no such part.
        """
        from posenc_cli.files.reading import read_array
        from posenc_cli.render.figures.encoded import figure_of_array

        loaded = read_array(path)
        fields = {"path": path, "dtype": loaded.dtype, "array_shape": loaded.values.shape}
        return figure_of_array(loaded, head=self.head, rows=self.rows, dims=self.dims), fields


class CurveOptions(ViewOptions):
    """Which part of an encoding or of a file is drawn as curves."""

    table: Annotated[
        str | None,
        option(
            "--table",
            known=(*ROTARY_TABLES, BUCKETS),
            help=f"table of a rotary scheme: {'|'.join(ROTARY_TABLES)}; for t5 and "
            f"deberta: {BUCKETS} [default: cos-sin]",
        ),
    ] = None

    def buckets(
        self, source: SeveralSourceOptions, where: PositionOptions, parameters: ParameterOptions
    ) -> tuple[Figure, dict[str, Any]]:
        """Return the buckets of relative positions as a figure and as JSON fields.

        Raises: InvalidInput unless exactly one rule is named, or if it lacks a given parameter.
        """
        from posenc_cli.encoding.scores import assign_buckets
        from posenc_cli.formulas.buckets import RULES
        from posenc_cli.render.figures.columns import buckets_figure

        names = [name for _, name in source.in_order]
        if len(names) != 1 or names != source.scheme:
            raise InvalidInput(
                f"--table {BUCKETS}: draws one scheme, {' or '.join(RULES)}; name it once"
            )
        rule = RULES[one_of("--scheme", names[0], RULES)]
        positions = where.resolve() or _NEAREST
        check_size(f"--positions {positions}", positions.count, LISTED_VALUES, "positions")
        assigned = assign_buckets(rule, parameters.given, positions)
        fields = {
            "positions": assigned.positions.tolist(),
            "buckets": assigned.buckets.tolist(),
            "rule": rule.name,
            "params": assigned.params,
        }
        return buckets_figure(rule, assigned), fields
