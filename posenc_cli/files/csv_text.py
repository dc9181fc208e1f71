"""Comma-separated text: the shortest numbers that read back to the same values.

One notation, whichever way the text is made: shortest digits, the nearest where several are
shortest; a point always, and an exponent (``1.5e-7``, ``1e16``) only outside 1e-6 … 1e13, for
float64 outside 1e-5 … 1e16; ``nan``, ``inf`` and ``-inf``. Lines end in a line feed.
"""

from __future__ import annotations

from functools import cache
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.files import npy
from posenc_cli.files.matrix import pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from posenc_cli.files.matrix import ByteSink, Matrix

# Values turned into text at a time: 256 rows of the usual 64 columns. The text stays in the cache.
_VALUES = 1 << 14
# The decimal exponents written without an ``e``: those of orjson, which writes most of the text.
_PLAIN = {2: range(-6, 13), 4: range(-6, 13), 8: range(-5, 16)}


def check(matrix: Matrix) -> None:
    """Refuse what a text matrix cannot hold.

    Raises:
        InvalidInput: complex values, bfloat16, or more than two axes.
    """
    if matrix.dtype.component is not None:
        raise InvalidInput(
            f"--format csv: a text matrix cannot hold {matrix.dtype.name}",
            hint="use --table interleaved (cos and sin in turn), or --format npy",
        )
    if len(matrix.shape) > 2:
        shape = "×".join(map(str, matrix.shape))
        raise InvalidInput(
            f"--format csv: a text matrix has two axes, this one has {len(matrix.shape)} ({shape})",
            hint="use --head H to choose one head, or --format npy",
        )
    if matrix.dtype.name == "bfloat16":
        npy.check(matrix, "csv")


def size(matrix: Matrix) -> None:  # noqa: ARG001
    """None: how long the text is shows only in writing it."""
    return


def minimum_size(matrix: Matrix) -> int:
    """The least bytes the text can take: three characters and a separator a value."""
    return 4 * matrix.size


def write(stream: ByteSink, matrix: Matrix) -> None:
    """Write one line a row (one value a line where the array has one axis).

    With ``matrix.header`` a line of names comes first, and each line starts with its label.
    """
    width = matrix.shape[1] if len(matrix.shape) == 2 else 1
    labels: Iterator[int] | None = None
    if matrix.header:
        names = [matrix.row_label, *(f"d{column}" for column in range(width))]
        stream.write(",".join(names).encode() + b"\n")
        labels = matrix.row_labels() if matrix.row_labels is not None else count()
    text = _text_of(matrix.dtype.itemsize)
    for piece in pieces(matrix):
        table = piece.reshape(-1, width)
        for rows in _row_blocks(table, max(1, _VALUES // width)):
            lines = text(rows)
            if labels is not None:
                lines = _with_labels(lines, list(islice(labels, len(rows))))
            stream.write(lines)


def _row_blocks(table: NDArray[Any], rows: int) -> Iterator[NDArray[Any]]:
    for start in range(0, len(table), rows):
        yield table[start : start + rows]


def _with_labels(lines: bytes, labels: list[int]) -> bytes:
    pairs = zip(labels, lines.splitlines(keepends=True), strict=True)
    return b"".join(b"%d,%b" % pair for pair in pairs)


def _text_of(itemsize: int) -> Callable[[NDArray[Any]], bytes]:
    """The function from rows of floats of ``itemsize`` bytes to their lines."""
    if itemsize == 2:
        return _half_lines
    try:
        import orjson
    except ImportError:
        return _plain_lines

    def lines(rows: NDArray[Any]) -> bytes:
        import numpy as np

        # orjson takes the machine's own byte order only.
        native = rows.astype(rows.dtype.newbyteorder("="), copy=False)
        text = orjson.dumps(native, option=orjson.OPT_SERIALIZE_NUMPY)
        # Releases of orjson differ in the plus sign of an exponent, and in nothing else.
        text = text[2:-2].replace(b"],[", b"\n").replace(b"e+", b"e") + b"\n"
        if b"null" in text:
            text = _with_names(text, rows[~np.isfinite(rows)].tolist())
        return text

    return lines


def _with_names(text: bytes, values: list[float]) -> bytes:
    """``text`` with the nulls that orjson writes replaced by the names of ``values``, in order."""
    parts = text.split(b"null")
    names = (str(value).encode() for value in values)  # nan, inf, -inf
    return parts[0] + b"".join(name + part for name, part in zip(names, parts[1:], strict=True))


def _plain_lines(rows: NDArray[Any]) -> bytes:
    """The lines without orjson: the same bytes, slowly."""
    return b"".join(b",".join(map(_number, row)) + b"\n" for row in rows)


@cache
def _half_texts() -> list[bytes]:
    """The text of every float16, by its bits."""
    import numpy as np

    positive = [_number(value) for value in np.arange(1 << 15, dtype="<u2").view("<f2")]
    return [*positive, *(text if text == b"nan" else b"-" + text for text in positive)]


def _half_lines(rows: NDArray[Any]) -> bytes:
    text = _half_texts().__getitem__
    return b"".join(b",".join(map(text, row)) + b"\n" for row in rows.view("<u2").tolist())


def _number(value: np.floating[Any]) -> bytes:
    """The shortest text of one value, in the notation that the module's docstring fixes.

    >>> import numpy as np
    >>> _number(np.float32(0.1)), _number(np.float32(1.5e-7)), _number(np.float64(-1e16))
    (b'0.1', b'1.5e-7', b'-1e16')
    """
    import numpy as np

    if not np.isfinite(value):
        return str(float(value)).encode()
    scientific = np.format_float_scientific(value, unique=True, trim="-")
    mantissa, _, exponent_text = scientific.partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    exponent = int(exponent_text)
    if exponent not in _PLAIN[value.dtype.itemsize]:
        return f"{sign}{mantissa}e{exponent}".encode()
    digits = mantissa.replace(".", "")
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}".encode()
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{sign}{whole}.{digits[exponent + 1 :] or '0'}".encode()
