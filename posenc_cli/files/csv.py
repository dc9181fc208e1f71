"""Comma-separated text: the shortest decimals that read back exactly, one line per row.

All numbers are written in one notation, that of orjson. It uses the shortest digits, and
of several shortest the nearest. It always has a point, and has an exponent (``1.5e-7``, ``1e16``)
only outside 1e-6 … 1e13, for float64 outside 1e-5 … 1e16. Other values are ``nan``, ``inf`` and
``-inf``. Lines end in a line feed.

The reader accepts more. Fields are separated by commas if the first row has one, else by spaces or
tabs. Lines that start with ``#`` are comments, and blank lines are allowed only at the end of the
file. The header line ``position,d0,d1,…`` (or ``offset,…``) is skipped together with its first
column.
"""

from __future__ import annotations

import codecs
import math
import re
from functools import cache
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput, quoted_name, sizes_text
from posenc_cli.files import npy
from posenc_cli.files.matrix import ByteSink, Format, Matrix, pieces
from posenc_cli.files.source import Source, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from posenc_cli.numerics.arrays import Reals, StoredRows

# Values converted at a time: 256 rows of the usual 64 columns. The text stays in the cache.
_VALUES = 1 << 14

_CHUNK = 1 << 18  # bytes parsed at a time: the numbers, as Python objects, stay within the caches
_LABELS = (b"position", b"offset")
_LONGEST_QUOTED = 40
_LONGEST_NUMBER = 2000  # the longest exact decimal of a float64 has 1077 characters

# Patterns are compiled only when a file is read; most commands never do.
_START = rb"(?:\xef\xbb\xbf)?\s*(?:[-+.0-9#]|nan|inf|position,d0|offset,d0)"
_NUMERIC = b"0123456789+-.eE \t"
_DECIMAL = rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
_NOT_FINITE = rb"[+-]?(?:nan|inf|infinity)"
_INTEGER_ZERO = rb"-0(?![0-9.eE])"  # in JSON it is an integer, and loses its sign


def check(matrix: Matrix) -> None:
    """Refuse a matrix that text cannot hold.

    Raises:
        InvalidInput: complex values, bfloat16, or more than two axes.
    """
    if matrix.dtype.component is not None:
        raise InvalidInput(
            f"--format csv: a text matrix cannot hold {matrix.dtype.name}",
            hint="use --table interleaved (cos and sin in turn), or --format npy",
        )
    if len(matrix.shape) > 2:
        raise InvalidInput(
            f"--format csv: a text matrix has two axes, this one has {len(matrix.shape)} "
            f"({sizes_text(matrix.shape)})",
            hint="use --head H to choose one head, or --format npy",
        )
    if matrix.dtype.name == "bfloat16":
        npy.check(matrix, "csv")


def size(matrix: Matrix) -> int:
    """Return the least bytes of the text: three characters and a separator per value."""
    return 4 * matrix.size


def write(stream: ByteSink, matrix: Matrix) -> None:
    """Write one line per row (one value per line if the array has one axis).

    With ``matrix.header`` a line of names comes first, and each line starts with its label.
    """
    width = matrix.shape[1] if len(matrix.shape) == 2 else 1
    labels: Iterator[int] | Iterator[str] | None = None
    if matrix.header:
        names = [matrix.row_label, *(f"d{column}" for column in range(width))]
        stream.write(",".join(names).encode() + b"\n")
        labels = matrix.row_labels() if matrix.row_labels is not None else count()
    text = _text_of(matrix.dtype.itemsize)
    for piece in pieces(matrix):
        table = piece.reshape(-1, width)
        step = max(1, _VALUES // width)
        for rows in (table[start : start + step] for start in range(0, len(table), step)):
            lines = text(rows)
            if labels is not None:
                lines = _with_labels(lines, list(islice(labels, len(rows))))
            stream.write(lines)


def _with_labels(lines: bytes, labels: Sequence[int | str]) -> bytes:
    pairs = zip(labels, lines.splitlines(keepends=True), strict=True)
    return b"".join(b"%b,%b" % (str(label).encode(), line) for label, line in pairs)


def _text_of(itemsize: int) -> Callable[[StoredRows], bytes]:
    """Return the function that converts rows of floats of ``itemsize`` bytes to lines."""
    if itemsize == 2:
        return _half_lines
    import orjson

    def lines(rows: StoredRows) -> bytes:
        import numpy as np

        # orjson accepts only the machine's own byte order.
        native = rows.astype(rows.dtype.newbyteorder("="), copy=False)
        text: bytes = orjson.dumps(native, option=orjson.OPT_SERIALIZE_NUMPY)
        # Releases of orjson differ only in the plus sign of an exponent.
        text = text[2:-2].replace(b"],[", b"\n").replace(b"e+", b"e") + b"\n"
        if b"null" in text:
            text = _with_names(text, rows[~np.isfinite(rows)].tolist())
        return text

    return lines


def _with_names(text: bytes, values: list[float]) -> bytes:
    """Return ``text`` with orjson's nulls replaced by the names of ``values``, in order."""
    parts = text.split(b"null")
    names = (str(value).encode() for value in values)  # nan, inf, -inf
    return parts[0] + b"".join(name + part for name, part in zip(names, parts[1:], strict=True))


@cache
def _half_texts() -> list[bytes]:
    """Return the text of every float16, by its bits."""
    import numpy as np

    positive = [_half(value) for value in np.arange(1 << 15, dtype="<u2").view("<f2")]
    return [*positive, *(text if text == b"nan" else b"-" + text for text in positive)]


def _half_lines(rows: StoredRows) -> bytes:
    text = _half_texts().__getitem__
    return b"".join(b",".join(map(text, row)) + b"\n" for row in rows.view("<u2").tolist())


def _half(value: np.floating[Any]) -> bytes:
    """Return the shortest text of a float16, in the notation of orjson.

    >>> import numpy as np
    >>> [_half(np.float16(text)) for text in ("1", "6e-5", "6e-8", "inf")]
    [b'1.0', b'0.00006', b'6e-8', b'inf']
    """
    import numpy as np

    if not np.isfinite(value):
        return str(float(value)).encode()
    if value == 0 or abs(value) >= 1e-6:
        return np.format_float_positional(value, unique=True, trim="0").encode()
    return np.format_float_scientific(value, unique=True, trim="-", exp_digits=1).encode()


def read(source: Source) -> Stored:
    """Return the matrix of a text file as float64; a single column has the shape (n, 1).

    Raises:
        InvalidInput: a line is not a row of numbers like the others.
    """
    import numpy as np

    table = _NumberTable(source.name)
    for block in _blocks(source):
        table.add(block)
        source.afford(len(table.values))
    values = np.frombuffer(table.values, np.float64)
    if not values.size:
        raise InvalidInput(f"{source.name} is empty: it holds no rows of numbers")
    matrix = values.reshape(-1, table.columns)
    return Stored(matrix[:, 1:] if table.has_labels else matrix, "float64")


def _blocks(source: Source) -> Iterator[bytes]:
    """Yield whole lines, about ``_CHUNK`` bytes at a time, each ending in a single newline."""
    start = source.peek(3)
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise InvalidInput(f"{source.name} is UTF-16 text", hint="save it as UTF-8")
    if start == codecs.BOM_UTF8:
        source.read(3)
    pending = bytearray()
    while chunk := source.read(_CHUNK):
        if b"\0" in chunk:
            raise InvalidInput(f"{source.name} holds NUL bytes: it is UTF-16 text or no text")
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r", 0, -1)) + 1
        if end:
            yield _with_newlines(bytes(pending + chunk[:end]))
            pending.clear()
        elif len(chunk) == _CHUNK and not re.search(rb"[,\s]", chunk):
            raise InvalidInput(f"{source.name} has a field of over {_CHUNK} characters")
        pending += chunk[end:]
        source.afford(len(pending))
    if pending:
        yield _with_newlines(bytes(pending + b"\n"))


def _with_newlines(block: bytes) -> bytes:
    return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block


class _NumberTable:
    """The rows of numbers in the lines read so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values = bytearray()
        self.columns = 0
        self.has_labels = False
        self._separator: bytes | None = b","
        self._lines = 0
        self._blank_line = 0

    def add(self, block: bytes) -> None:
        """Add a block of whole lines.

        Raises:
            InvalidInput: one of them is not a row of numbers as wide as the others.
        """
        start = 0
        while not self.columns and start < len(block):
            end = block.index(b"\n", start)
            if self._take_columns(block[start:end]):
                start = end + 1
        if start:
            block = block[start:]
        numbers = self._parse_at_once(block)
        if numbers is None:
            numbers = self._parse_by_line(block)
        else:
            self._lines += block.count(b"\n")
        self.values += numbers.tobytes()  # (rows · columns,)

    def _take_columns(self, line: bytes) -> bool:
        """Set the columns from the line, if it has any; return whether to skip the line."""
        if self._is_no_row(line):
            return True
        if b";" in line:
            raise InvalidInput(
                f"{self.name} line {self._lines + 1}: the fields are separated by semicolons",
                hint="separate them by commas, and write decimals with points",
            )
        self._separator = b"," if b"," in line else None
        fields = line.strip().split(self._separator)
        self.columns = len(fields)
        names = [b"d%d" % column for column in range(self.columns - 1)]
        self.has_labels = fields[0] in _LABELS and fields[1:] == names != []
        self._lines += self.has_labels
        return self.has_labels

    def _is_no_row(self, line: bytes) -> bool:
        """Return whether the line is blank or a comment, and count it if so."""
        comment = line.startswith(b"#")
        if line.strip() and not comment:
            if self._blank_line:
                raise InvalidInput(
                    f"{self.name} line {self._blank_line}: a blank line before the last row"
                )
            return False
        self._lines += 1
        if not comment and not self._blank_line:
            self._blank_line = self._lines
        return True

    def _parse_at_once(self, block: bytes) -> Reals | None:
        """Return the numbers of a block of plain rows, or None if it needs parsing line by line.

        JSON's numbers are a strict subset of the accepted ones, so a JSON parser does the work.
        Removing all characters of numbers must leave only separators. That reveals JSON that is not
        numbers, and rows of other widths.
        """
        if self._blank_line:
            return None
        if self._separator is None:
            if b"," in block:
                return None
            block = b"\n".join([b",".join(line.split()) for line in block.split(b"\n")])
        pattern = b"," * (self.columns - 1) + b"\n"
        without_nan = block.replace(b"nan", b"0")
        regular = without_nan.translate(None, _NUMERIC) == pattern * block.count(b"\n")
        if not regular or re.search(_INTEGER_ZERO, block):
            return None
        import orjson

        try:
            text = block[:-1].replace(b"\n", b",").replace(b"nan", b"null")
            numbers = orjson.loads(b"[" + text + b"]")
        except ValueError:
            return None
        import numpy as np

        return np.fromiter(numbers, np.float64, count=len(numbers))  # None becomes NaN

    def _parse_by_line(self, block: bytes) -> Reals:
        import numpy as np

        numbers: list[float] = []
        for line in block.split(b"\n")[:-1]:
            if self._is_no_row(line):
                continue
            self._lines += 1
            fields = line.split(self._separator)
            if len(fields) != self.columns:
                raise InvalidInput(
                    f"{self.name} line {self._lines}: {len(fields)} "
                    f"field{'s' * (len(fields) != 1)}, but the first line has {self.columns}"
                )
            numbers += [self._number(field, column) for column, field in enumerate(fields, 1)]
        return np.array(numbers, np.float64)

    def _number(self, field: bytes, column: int) -> float:
        text = field.strip()
        place = f"{self.name} line {self._lines}, column {column}:"
        if len(text) > _LONGEST_NUMBER:
            raise InvalidInput(f"{place} a field of {len(text)} characters")
        if re.fullmatch(_NOT_FINITE, text, re.IGNORECASE):
            return float(text)
        is_decimal = re.fullmatch(_DECIMAL, text) is not None
        if is_decimal and not math.isinf(float(text)):
            return float(text)
        word = quoted_name(text[:_LONGEST_QUOTED].decode("utf-8", "surrogateescape"))
        reason = f"{word} {'does not fit float64' if is_decimal else 'is not a number'}"
        raise InvalidInput(f"{place} {reason if text else 'the field is empty'}")


FORMAT = Format(
    "csv",
    content="a CSV table",
    summary="text, the shortest numbers that read back the same",
    check=check,
    write=write,
    size=size,
    read=read,
    headers=None,
    recognizes=lambda head: re.match(_START, head, re.IGNORECASE) is not None,
    other_suffixes=(".txt",),
    binary=False,
    holds_several=False,
)
