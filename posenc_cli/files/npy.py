"""NumPy's ``.npy``: a header of shape and dtype, then the values."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput
from posenc_cli.files.matrix import write_values

if TYPE_CHECKING:
    from posenc_cli.files.matrix import ByteSink, Matrix


def check(matrix: Matrix, name: str = "npy") -> None:
    """Refuse what the format called ``name`` cannot hold.

    Raises:
        InvalidInput: bfloat16, which NumPy lacks; or a header, which only text has.
    """
    if matrix.dtype.name == "bfloat16":
        raise InvalidInput(
            f"--dtype bfloat16: {name} cannot hold bfloat16",
            hint="use --format safetensors, or --dtype float32 --round-to bfloat16",
        )
    if matrix.header:
        raise InvalidInput(f"--header: {name} has no header line", hint="use --format csv")


def header(matrix: Matrix) -> bytes:
    """The bytes before the values: format version 1.0, as ``np.save`` writes them."""
    from numpy.lib import format as npy_format

    stream = io.BytesIO()
    npy_format.write_array_header_1_0(
        stream,
        {
            "descr": npy_format.dtype_to_descr(matrix.dtype.numpy),
            "fortran_order": False,
            "shape": matrix.shape,
        },
    )
    return stream.getvalue()


def size(matrix: Matrix) -> int:
    """The exact size of the file in bytes."""
    return len(header(matrix)) + matrix.nbytes


def write(stream: ByteSink, matrix: Matrix) -> None:
    """Write ``matrix``, whose blocks are asked for one at a time."""
    stream.write(header(matrix))
    write_values(stream, matrix)
