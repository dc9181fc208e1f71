"""The part of an encoding or file that a picture shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.budget import LISTED_VALUES, check_size
from posenc_cli.cli.options import (
    OptionGroup,
    TableName,
    one_of,
    option,
    whole_option,
)
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.formulas.tables import ROTARY_TABLES
from posenc_cli.positions import Positions

if TYPE_CHECKING:
    from posenc_cli.cli.choosing import ParameterOptions, PositionOptions
    from posenc_cli.cli.subjects import SeveralSourceOptions
    from posenc_cli.render.figure import Figure

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
            help=f"table of a rotary scheme: {'|'.join(ROTARY_TABLES)} [default: cos-sin]; for "
            f"t5 and deberta: {BUCKETS} (the bucket of each relative position)",
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
