"""``posenc generate``: write the matrix of an encoding to a file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from posenc_cli.backends.registry import ARITHMETICS, Arithmetic
from posenc_cli.choice import Choice
from posenc_cli.cli.choosing import LikeChoice
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Head, TableName, number_format_option, option
from posenc_cli.cli.subjects import MatrixOutput
from posenc_cli.encoding.precision import Precision
from posenc_cli.errors import InvalidInput
from posenc_cli.files.formats import DEFAULT_OF_SEVERAL, FORMATS, Saved, format_of, save
from posenc_cli.numerics.dtypes import FLOAT32, REAL_DTYPES, DType
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from posenc_cli.encoding.request import Request
    from posenc_cli.files.matrix import Format, Matrix


def generate(
    choice: LikeChoice,
    console: Console,
    *,
    output: MatrixOutput,
    dtype: Annotated[
        DType,
        number_format_option(
            "--dtype",
            help=f"{'|'.join(REAL_DTYPES)} [default: float32]",
            show_default=False,
        ),
    ] = FLOAT32,
    round_to: Annotated[
        DType | None,
        number_format_option(
            "--round-to",
            help="round to this coarser format, but store as --dtype",
        ),
    ] = None,
    table: TableName = None,
    arithmetic: Annotated[
        Arithmetic,
        option(
            "--arithmetic",
            known=ARITHMETICS,
            help="exact, or the format to compute in, as frameworks do: float64|float32|bfloat16",
        ),
    ] = "exact",
    head: Head = None,
    header: Annotated[
        bool,
        option(
            "--header",
            help="write a CSV header, and a column of positions",
            rich_help_panel=MatrixOutput.heading,
        ),
    ] = False,
) -> None:
    """Write the matrix of an encoding to a file.

    posenc computes the exact value of the formula and rounds it once, to --dtype. If the scheme is
    your own function, posenc rounds the values that the function returns.

    Memory use does not grow with the length. The output file appears only when it is complete.
    Without --out, its name is <scheme>-<shape>.npy, in the current folder.

    To count down, use --positions 999:-1:-20. Some schemes also allow fractions and negative
    positions, such as 0.5, 1/3 and -3. With several schemes, --set a.NAME=VALUE sets a parameter of
    the first, and b.NAME=VALUE of the second.

    Examples:
      posenc generate --scheme rope --len 4096
      posenc generate -s sinusoidal -l 128 -d 32 --out table.csv --header
      posenc generate -s alibi --heads 12 -l 64 --head 0 --out - --format csv
      posenc generate -s rope --base 500000 --dim 128 --table inv-freq --json
      posenc generate --config config.json -l 4096 --table cos-full --out cos.npy
      posenc generate --model llama-3.1-8b --len 8192
      posenc generate -s sinusoidal+t5 --len 512
      posenc generate --like diffusers:get_2d_sincos_pos_embed
    """
    output.check_stdout()
    if "like" in choice.origin:
        from posenc_cli.configs.library import find_function

        table = table or find_function(choice.origin["like"]).table
    choice = choice if table == "inv-freq" else choice.at_default()
    requests = choice.requests(Precision.of(dtype, round_to), table=table, head=head)
    form = _format(choice, output)
    _check(requests, header=header)
    plans = [request.plan() for request in requests]
    engines = [choice.engine(plan, arithmetic=arithmetic) for plan in plans]
    parts = [
        output.watch(
            replace(plan.matrix(engine), header=header), console, may_overflow=plan.may_overflow
        )
        for plan, engine in zip(plans, engines, strict=True)
    ]
    matrix = _together(requests, parts)
    # The arrays of a hybrid have different shapes, but all have the same positions.
    size = "x".join(map(str, matrix.shape))
    size = str(choice.positions.count) if choice.parts and choice.positions else size
    path = f"{choice.name}-{size}{form.suffix}" if output.out is None else output.out
    output = replace(output, out=path)
    shapes = " and ".join(" × ".join(map(str, part.shape)) for part in matrix.arrays)
    after = [
        f"; {request.scheme.name}: {weights}" if choice.parts else f"; {weights}"
        for request in requests
        if (weights := request.random_weights)
    ]
    after += [f"; values as {choice.as_given} gives them"] if choice.as_given else []
    write_matrix(
        "generate",
        matrix,
        form,
        output,
        console,
        told=(f"{choice.name}, {shapes} {matrix.dtype.name}", "".join(after)),
        fields=lambda: {
            **_fields(choice, requests, matrix),
            "arithmetic": "as-given" if choice.as_given else arithmetic,
            "backend": engines[0].backend.name,
        },
        notes=lambda: {engine.lost for engine in engines} - {""},
    )


def write_matrix(
    command: str,
    matrix: Matrix,
    form: Format,
    output: MatrixOutput,
    console: Console,
    *,
    told: tuple[str, str],
    fields: Callable[[], Mapping[str, Any]],  # both are called after the computation
    notes: Callable[[], Iterable[str]] = tuple,
) -> None:
    """Save a matrix and report it, as JSON or as its size between the two texts of ``told``."""
    began = time.perf_counter()

    def announce(saved: Saved) -> None:
        seconds = time.perf_counter() - began
        if output.json:
            written = {
                "path": saved.path,
                "format": form.name,
                "bytes": saved.bytes,
                "sha256": saved.sha256,
                "seconds": round(seconds, 6),
            }
            console.json(command, {**fields(), **written})
            return
        size = f"{saved.bytes} bytes in {seconds:.2f} s"
        console.done(f"wrote {output.place}: {told[0]}, {size}{told[1]}")
        for note in notes():
            console.done(f"note: {note}")

    save(
        matrix,
        output.out or "",
        format=form,
        clobber=output.clobber,
        digest=output.json,
        announce=announce,
    )


def _fields(choice: Choice, requests: Sequence[Request], matrix: Matrix) -> dict[str, Any]:
    """Return the JSON fields of the written matrix; a hybrid has the request of each part."""
    parts = [
        {**request.description(), "shape": part.shape}
        for request, part in zip(requests, matrix.arrays, strict=True)
    ]
    hybrid = {"scheme": choice.name, "parts": parts}
    return {
        **(hybrid if choice.parts else parts[0]),
        **choice.origin,
        "warnings": choice.warnings,
        "dtype": matrix.dtype.name,
    }


def _format(choice: Choice, output: MatrixOutput) -> Format:
    """Return the output format; for a hybrid, one that holds an array per part."""
    if choice.parts and output.out is None and output.form is None:
        return DEFAULT_OF_SEVERAL
    form = format_of(output.out, output.form)
    if choice.parts and not form.holds_several:
        several = [known.name for known in FORMATS.values() if known.holds_several]
        raise InvalidInput(
            f"--format {form.name} holds one array, but {choice.name} has {len(choice.parts)} "
            "parts",
            hint=f"use --format {' or '.join(several)}, or write its parts one by one",
        )
    return form


def _check(requests: Sequence[Request], *, header: bool) -> None:
    """Reject parts that cannot be combined, and a header for a table that has none."""
    schemes = [request.scheme for request in requests]
    if [scheme.kind for scheme in schemes].count("rotary") > 1:
        raise InvalidInput(
            f"--scheme {'+'.join(scheme.name for scheme in schemes)}: two of its parts rotate q "
            "and k, which rotate only once"
        )
    if header and requests[0].table == "inv-freq":
        raise InvalidInput("--header: --table inv-freq has no positions to label its rows with")


def _together(requests: Sequence[Request], parts: Sequence[Matrix]) -> Matrix:
    """Return the arrays of a hybrid's parts, each named after its scheme, and all metadata."""
    if len(parts) == 1:
        return parts[0]
    first, *others = [
        replace(part, name=request.scheme.name)
        for request, part in zip(requests, parts, strict=True)
    ]
    metadata = {
        f"{part.name}.{key}": value
        for part in (first, *others)
        for key, value in part.metadata.items()
    }
    return replace(first, others=tuple(others), metadata=metadata)
