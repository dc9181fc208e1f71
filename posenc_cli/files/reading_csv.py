"""Reads .csv and .txt: a matrix of decimal numbers, one row a line.

Fields are separated by commas where the first row has one, else by spaces or tabs. Lines that
start with ``#`` are comments, blank lines may only end the file, and the header line
``position,d0,d1,…`` (or ``offset,…``) is skipped together with its first column.
Imported only where arrays are read, so NumPy is imported here at module level.
"""

from __future__ import annotations

import codecs
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.reading_source import Source, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

try:
    import orjson
except ImportError:  # the numbers are then parsed one by one
    orjson = None  # type: ignore[assignment]

_CHUNK = 1 << 18  # text parsed at a time: its numbers, as Python objects, stay within the caches
_LABELS = (b"position", b"offset")
_LONGEST_SHOWN = 40
_LONGEST_NUMBER = 2000  # the longest exact decimal of a float64 has 1077 characters

_NUMERIC = b"0123456789+-.eE \t"
_DECIMAL = re.compile(rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_INTEGER_ZERO = re.compile(rb"-0(?![0-9.eE])")  # as JSON it is an integer, and loses its sign


def read(source: Source) -> Stored:
    """Return the matrix of a text file as float64; a single column has the shape (n, 1).

    Raises:
        InvalidInput: a line is not a row of numbers like the others.
    """
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
    """Yield whole lines, about ``_CHUNK`` bytes at a time, their ends being single newlines."""
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
    """The rows of numbers in the lines seen so far."""

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
        self.values += numbers.tobytes()

    def _take_columns(self, line: bytes) -> bool:
        """Take the columns from the line, if it has any, and return whether it is done with."""
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
        """Return whether the line, which is then counted, is blank or a comment."""
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

    def _parse_at_once(self, block: bytes) -> NDArray[Any] | None:
        """Return the numbers of a block of plain rows, None when it must be looked at closely.

        JSON's numbers are a strict subset of what is read, so a JSON parser does the work; what it
        would take beyond numbers, and rows of other widths, show in what is left without digits.
        """
        if self._blank_line or orjson is None:
            return None
        if self._separator is None:
            if b"," in block:
                return None
            block = b"\n".join([b",".join(line.split()) for line in block.split(b"\n")])
        pattern = b"," * (self.columns - 1) + b"\n"
        without_nan = block.replace(b"nan", b"0")
        regular = without_nan.translate(None, _NUMERIC) == pattern * block.count(b"\n")
        if not regular or _INTEGER_ZERO.search(block):
            return None
        try:
            text = block[:-1].replace(b"\n", b",").replace(b"nan", b"null")
            numbers = orjson.loads(b"[" + text + b"]")
        except ValueError:
            return None
        return np.fromiter(numbers, np.float64, count=len(numbers))  # None becomes NaN

    def _parse_by_line(self, block: bytes) -> NDArray[Any]:
        numbers: list[float] = []
        for line in block.split(b"\n")[:-1]:
            if self._is_no_row(line):
                continue
            self._lines += 1
            fields = line.split(self._separator)
            if len(fields) != self.columns:
                raise InvalidInput(
                    f"{self.name} line {self._lines}: {_field_count(len(fields))}, "
                    f"where the first line has {self.columns}"
                )
            numbers += [self._number(field, column) for column, field in enumerate(fields, 1)]
        return np.array(numbers, np.float64)

    def _number(self, field: bytes, column: int) -> float:
        text = field.strip()
        place = f"{self.name} line {self._lines}, column {column}:"
        if len(text) > _LONGEST_NUMBER:
            raise InvalidInput(f"{place} a field of {len(text)} characters")
        if _NOT_FINITE.fullmatch(text):
            return float(text)
        word = quoted_name(text[:_LONGEST_SHOWN].decode("utf-8", "surrogateescape"))
        if not _DECIMAL.fullmatch(text):
            what = f"{word} is not a number" if text else "the field is empty"
            raise InvalidInput(f"{place} {what}")
        number = float(text)
        if math.isinf(number):
            raise InvalidInput(f"{place} {word} does not fit float64")
        return number


def _field_count(fields: int) -> str:
    return f"{fields} field{'s' * (fields != 1)}"
