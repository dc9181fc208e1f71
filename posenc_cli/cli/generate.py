"""``posenc generate``: write the matrix of an encoding to a file."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli.cli.choosing import Choice
from posenc_cli.cli.console import Console
from posenc_cli.cli.matrices import MatrixOutput
from posenc_cli.cli.options import Head, Table, number_format, option
from posenc_cli.cli.progress import with_overflow_warning, with_progress
from posenc_cli.encode.precision import Precision
from posenc_cli.encode.request import Request
from posenc_cli.errors import InvalidInput
from posenc_cli.files.formats import FORMATS, format_of
from posenc_cli.files.save import save
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES, DType
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.encode.request import Plan
    from posenc_cli.files.declare import Format
    from posenc_cli.files.matrix import Matrix
    from posenc_cli.files.save import Saved


ARITHMETICS = ("exact", "float64", "float32", "bfloat16")


class GenerateOutput(MatrixOutput):
    """Where the matrix goes, and in which format."""

    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="- is stdout [default: <scheme>-<shape>.npy]"
        ),
    ] = None
    json: Annotated[
        bool, typer.Option("--json", help="print what was written as one JSON object")
    ] = False


def generate(
    choice: Choice,
    console: Console,
    *,
    output: GenerateOutput,
    dtype: Annotated[
        DType,
        option(
            "--dtype",
            metavar="NAME",
            help=f"{'|'.join(REAL_DTYPES)} [default: float32]",
            parse=number_format,
            show_default=False,
        ),
    ] = FLOAT32,
    round_to: Annotated[
        DType | None,
        option(
            "--round-to",
            metavar="NAME",
            help="round the values to this coarser number format, and store them in --dtype",
            parse=number_format,
        ),
    ] = None,
    table: Table = None,
    arithmetic: Annotated[
        str,
        option(
            "--arithmetic",
            known=ARITHMETICS,
            help="exact, or what frameworks compute in float64|float32|bfloat16",
        ),
    ] = "exact",
    head: Head = None,
    header: Annotated[
        bool, typer.Option("--header", help="name the columns of a CSV, positions first")
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
    output.check_stdout()
    precision = Precision.of(dtype, round_to)
    whole = _requests(choice, precision, table=table, head=head)
    form = _format(choice, output)
    if header and form.binary:
        raise InvalidInput(f"--header: {form.name} has no header line; only csv has")
    if header and whole[0].table == "inv-freq":
        raise InvalidInput("--header: --table inv-freq has no positions to label its rows with")
    plans = [request.plan() for request in whole]
    engines = [choice.engine(plan, arithmetic=arithmetic) for plan in plans]
    shows_progress = console.shows_progress and not output.to_stdout
    drawn = [
        _observe(replace(plan.matrix(engine), header=header), plan, console, shows_progress)
        for plan, engine in zip(plans, engines, strict=True)
    ]
    matrix = drawn[0] if len(drawn) == 1 else _together(drawn, whole)
    path = output.out or f"{choice.name}-{_size_text(matrix, choice)}{form.suffix}"
    began = time.perf_counter()

    def announce(saved: Saved) -> None:
        seconds = time.perf_counter() - began
        if output.json:
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
        shapes = " and ".join(" × ".join(map(str, each.shape)) for each in matrix.arrays)
        console.summary(
            f"wrote {replace(output, out=path).place}: {choice.name}, {shapes} "
            f"{matrix.dtype.name}, {saved.bytes} bytes in {seconds:.2f} s{_random_text(whole)}"
        )

    save(matrix, path, format=form, clobber=output.clobber, digest=output.json, announce=announce)


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


def _format(choice: Choice, output: GenerateOutput) -> Format:
    """The format to write: of a hybrid, one that holds an array for each part."""
    if choice.parts and output.out is None and output.form is None:
        return FORMATS["npz"]
    form = format_of(output.out, output.form)
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
