"""``posenc generate``: write the matrix of an encoding to a file."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_cli.cli.console import Console  # noqa: TC001 - read by the command table
from posenc_cli.cli.options import ARITHMETICS, Choice, one_of, whole_number
from posenc_cli.cli.progress import heeding_interrupts, with_overflow_warning, with_progress
from posenc_cli.cli.streams import heed_interrupts
from posenc_cli.encode.precision import Precision
from posenc_cli.encode.request import Request
from posenc_cli.encode.tables import ROTARY_TABLES
from posenc_cli.errors import InvalidInput
from posenc_cli.files.atomic import STANDARD_OUTPUT
from posenc_cli.files.formats import FORMATS, format_of
from posenc_cli.files.naming import shown
from posenc_cli.files.save import save
from posenc_cli.numerics.dtypes import REAL_DTYPES, DType

if TYPE_CHECKING:
    from posenc_cli.files.save import Saved


def generate(
    choice: Choice,
    console: Console,
    *,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="- is stdout [default: <scheme>-<shape>.npy]"
        ),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help=f"{'|'.join(FORMATS)} [default: by the suffix]"
        ),
    ] = None,
    dtype: Annotated[
        str, typer.Option("--dtype", metavar="NAME", help=f"{'|'.join(REAL_DTYPES)}")
    ] = "float32",
    round_to: Annotated[
        str | None,
        typer.Option(
            "--round-to",
            metavar="NAME",
            help="round the values to this coarser number format, and store them in --dtype",
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="NAME",
            help=f"of a rotary scheme: {'|'.join(ROTARY_TABLES)} [default: cos-sin]",
        ),
    ] = None,
    arithmetic: Annotated[
        str,
        typer.Option(
            "--arithmetic",
            metavar="NAME",
            help="exact, or what frameworks compute in float64|float32|bfloat16",
        ),
    ] = "exact",
    head: Annotated[
        str | None, typer.Option("--head", metavar="H", help="one head of a bias, from 0")
    ] = None,
    header: Annotated[
        bool, typer.Option("--header", help="name the columns of a CSV, positions first")
    ] = False,
    no_clobber: Annotated[
        bool, typer.Option("--no-clobber", help="refuse to replace an existing file")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="print what was written as one JSON object")
    ] = False,
) -> None:
    """Write the matrix of an encoding to a file.

    Values are the correctly rounded values of the mathematical formula (in float64, within 1e-15 of
    them). Any length runs in constant memory, and the file appears only when it is whole.

    \b
    Examples:
      posenc generate --scheme rope --len 4096
      posenc generate -s sinusoidal -l 128 -d 32 --out table.csv --header
      posenc generate -s alibi --heads 12 -l 64 --head 0 --out - --format csv
      posenc generate -s rope --base 500000 --dim 128 --table inv-freq --json
    """
    if json and out == STANDARD_OUTPUT:
        raise InvalidInput("--json: stdout is taken by --out -", hint="write to a file")
    request = Request(
        encoding=choice.encoding(),
        positions=choice.positions,
        precision=Precision.of(
            _dtype("--dtype", dtype), None if round_to is None else _dtype("--round-to", round_to)
        ),
        table=table and one_of("--table", table, ROTARY_TABLES),
        head=None if head is None else whole_number("--head", head, minimum=0),
    )
    form = format_of(out, file_format)
    if header and form.binary:
        raise InvalidInput(f"--header: {form.name} has no header line; only csv has")
    if header and request.table == "inv-freq":
        raise InvalidInput("--header: --table inv-freq has no positions to label its rows with")
    plan = request.plan()
    engine = choice.engine(plan, arithmetic=one_of("--arithmetic", arithmetic, ARITHMETICS))
    matrix = heeding_interrupts(replace(plan.matrix(engine), header=header))
    shape = "x".join(map(str, matrix.shape))
    path = out if out is not None else f"{request.scheme.name}-{shape}{form.suffix}"
    if plan.may_overflow:
        matrix = with_overflow_warning(matrix, console)
    began = time.perf_counter()
    if console.shows_progress and path != STANDARD_OUTPUT:
        matrix = with_progress(matrix, sys.stderr)

    def announce(saved: Saved) -> None:
        heed_interrupts()
        seconds = time.perf_counter() - began
        if json:
            fields = {
                **request.description(),
                "shape": matrix.shape,
                "dtype": matrix.dtype.name,
                "arithmetic": engine.arithmetic,
                "backend": engine.backend.name,
                "path": saved.path,
                "format": form.name,
                "bytes": saved.bytes,
                "sha256": saved.sha256,
                "seconds": round(seconds, 6),
            }
            console.json("generate", fields)
            return
        place = "standard output" if out == STANDARD_OUTPUT else shown(saved.path)
        console.summary(
            f"wrote {place}: {request.scheme.name}, "
            f"{' × '.join(map(str, matrix.shape))} {matrix.dtype.name}, "
            f"{saved.bytes} bytes in {seconds:.2f} s"
        )

    save(matrix, path, format=form, clobber=not no_clobber, digest=json, announce=announce)


def _dtype(flag: str, name: str) -> DType:
    return REAL_DTYPES[one_of(flag, name, REAL_DTYPES)]
