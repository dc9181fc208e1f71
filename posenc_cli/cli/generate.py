"""``posenc generate``: write the matrix of an encoding to a file."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli.cli.console import Console  # noqa: TC001 - read by the command table
from posenc_cli.cli.options import ARITHMETICS, Choice, one_of, whole_number
from posenc_cli.cli.progress import with_overflow_warning, with_progress
from posenc_cli.encode.precision import Precision
from posenc_cli.encode.request import Request
from posenc_cli.encode.tables import ROTARY_TABLES
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.atomic import STANDARD_OUTPUT
from posenc_cli.files.formats import FORMATS, format_of
from posenc_cli.files.save import save
from posenc_cli.numerics.dtypes import REAL_DTYPES, DType
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.encode.request import Plan
    from posenc_cli.files.formats import Format
    from posenc_cli.files.matrix import Matrix
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
      posenc generate --config config.json -l 4096 --table cos-full --out cos.npy
      posenc generate --model llama-3.1-8b --len 8192
      posenc generate -s sinusoidal+t5 --len 512
    """
    if json and out == STANDARD_OUTPUT:
        raise InvalidInput("--json: stdout is taken by --out -", hint="write to a file")
    precision = Precision.of(
        _dtype("--dtype", dtype), None if round_to is None else _dtype("--round-to", round_to)
    )
    whole = _requests(
        choice,
        precision,
        table=table and one_of("--table", table, ROTARY_TABLES),
        head=None if head is None else whole_number("--head", head, minimum=0),
    )
    form = _format(choice, out, file_format)
    if header and form.binary:
        raise InvalidInput(f"--header: {form.name} has no header line; only csv has")
    if header and whole[0].table == "inv-freq":
        raise InvalidInput("--header: --table inv-freq has no positions to label its rows with")
    arithmetic = one_of("--arithmetic", arithmetic, ARITHMETICS)
    plans = [request.plan() for request in whole]
    engines = [choice.engine(plan, arithmetic=arithmetic) for plan in plans]
    shows_progress = console.shows_progress and out != STANDARD_OUTPUT
    drawn = [
        _observe(replace(plan.matrix(engine), header=header), plan, console, shows_progress)
        for plan, engine in zip(plans, engines, strict=True)
    ]
    matrix = drawn[0] if len(drawn) == 1 else _together(drawn, whole)
    path = out if out is not None else f"{choice.name}-{_size_text(matrix, choice)}{form.suffix}"
    began = time.perf_counter()

    def announce(saved: Saved) -> None:
        seconds = time.perf_counter() - began
        if json:
            fields = {
                **_description(choice, whole, matrix),
                **choice.origin,
                "warnings": choice.warnings,
                "dtype": matrix.dtype.name,
                "arithmetic": arithmetic,
                "backend": engines[0].backend.name,
                "path": saved.path,
                "format": form.name,
                "bytes": saved.bytes,
                "sha256": saved.sha256,
                "seconds": round(seconds, 6),
            }
            console.json("generate", fields)
            return
        place = "standard output" if out == STANDARD_OUTPUT else quoted_name(saved.path)
        shapes = " and ".join(" × ".join(map(str, each.shape)) for each in matrix.arrays)
        console.summary(
            f"wrote {place}: {choice.name}, {shapes} {matrix.dtype.name}, "
            f"{saved.bytes} bytes in {seconds:.2f} s{_random_text(whole)}"
        )

    save(matrix, path, format=form, clobber=not no_clobber, digest=json, announce=announce)


def _requests(
    choice: Choice, precision: Precision, *, table: str | None, head: int | None
) -> list[Request]:
    """What is asked for, of each part of a hybrid: the table of the rotary one, the head of a bias.

    Raises: InvalidInput where a hybrid has no part that a table or a head is of.
    """
    kinds = [part.scheme.kind for part in choice.parts]
    for flag, value, kind in (("--table", table, "rotary"), ("--head", head, "bias")):
        if choice.parts and value is not None and kind not in kinds:
            raise InvalidInput(f"{flag} {value}: no part of {choice.name} is {kind}")
    if kinds.count("rotary") > 1:
        raise InvalidInput(
            f"--scheme {choice.name}: two of its parts turn q and k, which turn but once"
        )
    return [
        Request(
            encoding=part.encoding(),
            positions=part.positions,
            precision=precision,
            table=table if not choice.parts or part.scheme.kind == "rotary" else None,
            head=head if not choice.parts or part.scheme.kind == "bias" else None,
        )
        for part in choice.parts or (choice,)
    ]


def _format(choice: Choice, out: str | None, name: str | None) -> Format:
    """The format to write: of a hybrid, one that holds an array for each part."""
    if choice.parts and out is None and name is None:
        return FORMATS["npz"]
    form = format_of(out, name)
    if choice.parts and not form.holds_several:
        several = [each.name for each in FORMATS.values() if each.holds_several]
        raise InvalidInput(
            f"--format {form.name}: holds one array, and {choice.name} is {len(choice.parts)}",
            hint=f"use --format {' or '.join(several)}, or write its parts one by one",
        )
    return form


def _observe(matrix: Matrix, plan: Plan, console: Console, shows_progress: bool) -> Matrix:
    """``matrix`` with what is seen of it while it is drawn."""
    if plan.may_overflow:
        matrix = with_overflow_warning(matrix, console)
    return with_progress(matrix, sys.stderr) if shows_progress else matrix


def _together(matrices: list[Matrix], requests: list[Request]) -> Matrix:
    """The arrays of a hybrid's parts, each named after its scheme, and all their metadata."""
    named = [
        replace(matrix, name=request.scheme.name)
        for matrix, request in zip(matrices, requests, strict=True)
    ]
    metadata = {
        f"{each.name}.{key}": value for each in named for key, value in each.metadata.items()
    }
    return replace(named[0], others=tuple(named[1:]), metadata=metadata)


def _random_text(requests: list[Request]) -> str:
    """What a summary says of tables that were drawn, of a hybrid of which parts."""
    texts = [
        f"{request.scheme.name}: {request.random_weights}" if len(requests) > 1 else random
        for request in requests
        if (random := request.random_weights)
    ]
    return "".join(f"; {text}" for text in texts)


def _size_text(matrix: Matrix, choice: Choice) -> str:
    """What a file's name says of its size: the shape, of a hybrid how many positions."""
    if choice.parts and choice.positions:
        return str(choice.positions.count)
    return "x".join(map(str, matrix.shape))


def _description(choice: Choice, requests: list[Request], matrix: Matrix) -> dict[str, Any]:
    """The request as JSON says it: of a hybrid, what was asked of each part."""
    each = [
        {**request.description(), "shape": array.shape}
        for request, array in zip(requests, matrix.arrays, strict=True)
    ]
    return each[0] if len(each) == 1 else {"scheme": choice.name, "parts": each}


def _dtype(flag: str, name: str) -> DType:
    return REAL_DTYPES[one_of(flag, name, REAL_DTYPES)]
