"""``posenc resize``: resize a learned position table."""

from __future__ import annotations

import re
from typing import Annotated, Any

from posenc_cli.cli.commands.generate import write_matrix
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import argument, number_format_option, option, whole_option
from posenc_cli.cli.subjects import READ, MatrixOutput
from posenc_cli.errors import InvalidInput, abbreviated, quoted_name, sizes_text
from posenc_cli.files.formats import format_of
from posenc_cli.formulas.learned import METHODS, RESIZE_ARITHMETICS, Method, ResizeArithmetic
from posenc_cli.numerics.dtypes import FLOAT64, REAL_DTYPES, DType


def _grids(flag: str, text: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Parse the two grids of ``AxB:CxD``.

    Raises: InvalidInput.
    """
    match = re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9}):([0-9]{1,9})x([0-9]{1,9})", text.strip())
    sides = tuple(map(int, match.groups())) if match else (0,)
    if 0 in sides:
        raise InvalidInput(
            f"{flag} {abbreviated(text)}: must be AxB:CxD, rows x columns as they are and as they "
            "become",
            hint="14x14:16x12 resizes 14 rows of 14 to 16 rows of 12",
        )
    a, b, c, d = sides
    return (a, b), (c, d)


def _offset(flag: str, text: str) -> float:
    """Parse a number of at least 0 and below 1.

    Raises: InvalidInput.
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise InvalidInput(f"{flag} {abbreviated(text)}: must be a number from 0 to below 1")
    return value


def resize(
    file: Annotated[str, argument(metavar="FILE[:TENSOR]", help=f"a position table: {READ}")],
    console: Console,
    *,
    length: Annotated[
        int | None,
        whole_option(
            "--len",
            "-l",
            minimum=1,
            help="new number of positions (not counting the --prefix rows)",
        ),
    ] = None,
    grid: Annotated[
        Any,
        option(
            "--grid",
            metavar="AxB:CxD",
            help="instead of --len: resize a grid of A×B (rows×columns) to C×D",
            parse=_grids,
        ),
    ] = None,
    method: Annotated[
        Method | None,
        option(
            "--method",
            known=METHODS,
            help=f"{'|'.join(METHODS)} [default: bicubic for a grid, else linear]",
        ),
    ] = None,
    prefix: Annotated[
        int,
        whole_option(
            "--prefix",
            minimum=0,
            help="number of leading rows to keep as they are (class and register tokens)",
        ),
    ] = 0,
    antialias: Annotated[
        bool, option("--antialias", help="interpolate as torch does with antialias=True")
    ] = False,
    interpolate_offset: Annotated[
        float,
        option(
            "--interpolate-offset",
            metavar="X",
            help="DINOv2's offset: scale by (C + X)/A and (D + X)/B",
            parse=_offset,
            show_default=False,
        ),
    ] = 0.0,
    arithmetic: Annotated[
        ResizeArithmetic,
        option(
            "--arithmetic",
            known=RESIZE_ARITHMETICS,
            help="exact, or the format to compute in, as torch does: float32|float64",
        ),
    ] = "exact",
    dtype: Annotated[
        DType | None,
        number_format_option(
            "--dtype",
            help=f"{'|'.join(REAL_DTYPES)} [default: the table's]",
        ),
    ] = None,
    output: MatrixOutput,
) -> None:
    """Resize a learned position table.

    posenc interpolates a position table for longer texts or other image sizes. The table has the
    shape (rows, d) or (1, rows, d). posenc works like torch.nn.functional.interpolate with
    align_corners=False.

    Values are correctly rounded. With --arithmetic float32 or float64, posenc computes with torch,
    which must be installed. If you select a tensor with FILE:NAME and write .npz or .safetensors,
    the tensor keeps its name.

    Examples:
      posenc resize pos_embed.npy --grid 14x14:16x12 --prefix 1 --out resized.npy
      posenc resize bert.npz:position_embeddings --len 1024 --out longer.npy
      posenc resize pos_embed.npy --grid 14x14:24x24 --prefix 1 --antialias --out timm.npy
      posenc resize dinov2.npy --grid 37x37:16x16 --prefix 1 --interpolate-offset 0.1 --out d.npy
    """
    if output.out is None:
        raise InvalidInput("--out is missing; name the output file")
    output.check_stdout()
    form = format_of(output.out, output.form)
    output.prepare()
    from posenc_cli.encoding.resizing import Resizing
    from posenc_cli.files.matrix import Matrix
    from posenc_cli.files.reading import NoMatrix, read_array

    loaded = read_array(file)
    name = quoted_name(file)
    if loaded.values.dtype.kind == "c":
        raise NoMatrix(name, "complex numbers")
    resizing = Resizing.of(
        loaded.values.shape,
        name,
        length=length,
        grid=grid,
        method=method,
        prefix=prefix,
        antialias=antialias,
        interpolate_offset=interpolate_offset,
    )
    table = resizing.checked(loaded.values, name)
    stored = dtype or REAL_DTYPES.get(loaded.dtype, FLOAT64)
    # Files of every format can use such a name.
    plain = re.fullmatch(r"(?!metadata$)[A-Za-z0-9][A-Za-z0-9_.]*", loaded.member or "")
    matrix = Matrix(
        (*loaded.values.shape[:-2], resizing.rows, table.shape[1]),
        stored,
        lambda: resizing.blocks(table, stored, arithmetic),
        {"resized": resizing.description, "arithmetic": arithmetic},
        name=plain[0] if plain else Matrix.name,
    )
    write_matrix(
        "resize",
        output.watch(matrix, console, may_overflow=False),
        form,
        output,
        console,
        told=(f"{resizing.description}, {sizes_text(matrix.shape, ' × ')} {stored.name}", ""),
        fields=lambda: {
            "source": {"path": file, "shape": loaded.values.shape, "dtype": loaded.dtype},
            **resizing.fields,
            "arithmetic": arithmetic,
            "shape": matrix.shape,
            "dtype": stored.name,
        },
    )
