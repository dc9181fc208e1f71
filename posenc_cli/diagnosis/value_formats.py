"""Number formats that are read off finished cells: steps, digits, significant bits, codes.

A sample of cells that are all on a grid names it; whether cells were rounded to it, or cut, is for
a trial to say. Scales of blocks follow from the exact cells, as code that quantizes takes them.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.inference.formats import (
    DOWN,
    ROUNDED,
    TO_ZERO,
    CellFormat,
    round_to_half,
    scales_of,
    whole_codes,
)
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.numerics.arrays import ComplexRows, RealRows, Reals

_WHOLE: dict[str, Callable[[Reals], Reals]] = {ROUNDED: np.rint, TO_ZERO: np.trunc, DOWN: np.floor}
"""What becomes of numbers between two of a format."""

_MOST_BITS, _MOST_DIGITS = 22, 6
"""After the point, or of a significand, binary and decimal: float32 has hardly more."""

_COARSE_BITS, _COARSE_DIGITS, _NEARLY, _MOST = 14, 4, 0.1, 0.97
"""The same of what vectors were turned by, and the share of a step that so many cells are near."""

_FIRST = 64
"""Cells that a grid is looked for in first."""

_ONE_CELL = 2.0**-22
"""Of a cell, relative: what a text of a few digits is read as in float32 is nearer."""

_NORMAL, _SUBNORMAL = 2.0**-14, 2.0**-24
"""The smallest number of float16 that keeps all its bits, and the step of smaller ones."""

_WRAPPED = 0.005
"""Of the cells: a cosine is hardly ever −1, and often 1."""

_GROUPS = (16, 32, 64, 128)
"""Columns that share a scale, in formats of weights."""

_BITS = (8, 4)
"""Of a code."""


class Steps(CellFormat):
    """Multiples of a step for each table, rounded or cut; those of n bits end as their codes do.

    ``largest`` is the last code: larger ones become it, or, with ``wraps``, begin again below.
    """

    step: tuple[float, float] = (1.0, 1.0)
    largest: float = math.inf
    wraps: bool = False

    def _rounded_table(self, table: RealRows, which: int) -> RealRows:
        codes = _WHOLE[self.how](table / self.step[which])
        if self.wraps:
            count = self.largest + 1
            codes = np.mod(codes + count, 2 * count) - count
        codes = np.clip(codes, -self.largest - 1, self.largest)
        return np.asarray(self.step[which] * codes, np.float64)


class Significand(CellFormat):
    """Numbers of so many significant bits, or decimal digits."""

    digits: int = 0
    decimal: bool = False

    def _rounded_table(self, table: RealRows, which: int) -> RealRows:
        del which
        steps = _last_places(table, self.digits, decimal=self.decimal)
        return np.asarray(_WHOLE[self.how](table / steps) * steps, np.float64)


def _last_places(cells: RealRows, digits: int, *, decimal: bool) -> RealRows:
    """What the last of so many significant digits of each cell counts."""
    if not decimal:
        return np.asarray(np.ldexp(1.0, np.frexp(cells)[1] - digits), np.float64)
    sizes = np.where(cells == 0, 1.0, np.abs(cells))
    return np.asarray(10.0 ** (np.floor(np.log10(sizes)) - digits + 1), np.float64)


class ColumnExtremes(Record):
    """The least and the largest number of each column of a table, (1, pairs)."""

    least: RealRows
    most: RealRows


class BlockCodes(CellFormat):
    """Codes of few bits, each block of cells with a scale of its own.

    ``group`` is how many columns of a row share one, None where all of a row do; with ``columns``,
    of cosines and of sines, each column has one. ``divisor`` is what the largest number is divided
    by for a scale, ``origin`` where the codes count from, and ``half`` says that scales, and least
    numbers, are float16.
    """

    bits: int = 8
    group: int | None = None
    columns: tuple[ColumnExtremes, ColumnExtremes] | None = None
    divisor: float = 127.0
    origin: str = "zero"
    half: bool = False
    together: bool = False

    def rounded(self, factors: ComplexRows) -> ComplexRows:
        """What it makes of factors (n, pairs)."""
        if not self.together:
            return super().rounded(factors)
        both = np.concatenate([factors.real, factors.imag], axis=1)
        cos, sin = np.split(self._rounded_table(both, 0), 2, axis=1)
        return np.asarray(cos + 1j * sin, np.complex128)

    def _rounded_table(self, table: RealRows, which: int) -> RealRows:
        if self.columns is not None:
            return self._coded(table, self.columns[which].least, self.columns[which].most)
        if self.group is None:
            least, most = (table.min(axis=1, keepdims=True), table.max(axis=1, keepdims=True))
            return self._coded(table, least, most)
        blocks = table.reshape(table.shape[0], -1, self.group)  # (n, groups, group)
        least, most = blocks.min(axis=2, keepdims=True), blocks.max(axis=2, keepdims=True)
        return self._coded(blocks, least, most).reshape(table.shape)

    def _coded(self, cells: RealRows, least: RealRows, most: RealRows) -> RealRows:
        """What is left of cells in blocks whose extremes are given, as they broadcast."""
        last, top = 2.0**self.bits - 1, 2.0 ** (self.bits - 1) - 1
        if self.origin == "zero":
            scale = _above_zero(np.maximum(np.abs(least), np.abs(most)) / self.divisor)
            codes = np.clip(np.rint(cells / scale), -top - 1, top)
            return codes * self._kept(scale)
        if self.origin == "farthest":  # the largest number, with its sign, has the lowest code
            scale = _above_zero(np.where(-least >= most, least, most) / (-top - 1))
            codes = np.minimum(np.floor(cells / scale + top + 1.5), last) - top - 1
            return codes * self._kept(scale)
        if self.origin == "a zero point that 0 is among":
            least, most = np.minimum(least, 0.0), np.maximum(most, 0.0)
        scale = _above_zero(np.asarray((most - least) / last, np.float64))
        if self.origin == "a least number":
            codes = np.clip(np.rint((cells - least) / scale), 0, last)
            return np.asarray(codes * self._kept(scale) + self._kept(least), np.float64)
        zero = np.rint(-least / scale)
        codes = np.clip(np.rint(cells / scale) + zero, 0, last) - zero
        return np.asarray(codes * self._kept(scale), np.float64)

    def _kept(self, numbers: RealRows) -> RealRows:
        """Scales, or least numbers, as they are kept beside the codes."""
        return round_to_half(numbers, "float16") if self.half else numbers


def _above_zero(scales: RealRows) -> RealRows:
    """Scales, 1 for blocks that have none."""
    return np.where(scales == 0, 1.0, scales)


def read_off_formats(factors: ComplexRows, tables: tuple[str, ...]) -> Iterator[CellFormat]:
    """The grids that all cells of some tables, ``cos`` or ``sin``, are on: rounded, and cut.

    What :data:`HALF_CELLS` has is not among them.
    """
    parts = [factors.real if table == "cos" else factors.imag for table in tables]
    cells = np.concatenate([part[np.isfinite(part)] for part in parts])
    most = float(cells.max(initial=0.0))
    step, name = _step_of(cells)
    if step:
        largest = _largest_code(most / step)
        for how in _WHOLE:
            yield Steps(name, how=how, step=(step, step), largest=largest)
        if (cells == -(largest + 1) * step).mean() > _WRAPPED:  # as where a cast wraps
            wrapped = f"{name}, the largest of which became the least"
            for how in _WHOLE:
                steps = Steps(wrapped, how=how, step=(step, step), largest=largest)
                yield replace(steps, wraps=True)
    digits = _digits_of(cells, decimal=False)
    if digits is not None:
        yield from _floats(cells, digits)
    digits = _digits_of(cells, decimal=True)
    if digits is not None:
        name = f"{digits} significant digits"
        for how in _WHOLE:
            yield Significand(name, how=how, digits=digits, decimal=True)


def _floats(cells: Reals, digits: int) -> Iterator[Significand]:
    """Floating-point numbers of so many bits, but those that a half precision rounds to."""
    name, hows = f"numbers of {digits} significant bits", [*_WHOLE]
    if digits == 8:
        name, hows = "bfloat16", [DOWN]  # cut toward zero it has a name of its own
    elif digits == 11:
        name, hows = "TF32", [*_WHOLE]
        small = cells[np.abs(cells) < _NORMAL]
        if not small.size or _are_whole(small / _SUBNORMAL, 0.0, coarse=True):
            name, hows = "float16", [TO_ZERO, DOWN]
    yield from (Significand(name, how=how, digits=digits) for how in hows)


def _step_of(cells: Reals) -> tuple[float, str]:
    """The power of 2, or of 10, that all cells are multiples of, and its name; 0 if there is none.

    Those of turned vectors are multiples of coarse ones but for their arithmetic.

    >>> _step_of(np.array([0.5, 0.375])), _step_of(np.array([0.5, np.float32(0.371)]))
    ((0.125, 'multiples of 2^-3'), (0.001, '3 digits after the point'))
    """
    if not cells.size or np.array_equal(cells, np.rint(cells)):
        return 0.0, ""
    for coarse in (False, True):
        for bits in range(1, (_COARSE_BITS if coarse else _MOST_BITS) + 1):
            if _are_multiples(cells, 2.0**-bits, near=0.0, coarse=coarse):
                return 2.0**-bits, f"multiples of 2^-{bits}"
        for digits in range(1, (_COARSE_DIGITS if coarse else _MOST_DIGITS) + 1):
            if _are_multiples(cells, 10.0**-digits, near=_ONE_CELL, coarse=coarse):
                return 10.0**-digits, f"{digits} digit{'s' * (digits > 1)} after the point"
    return 0.0, ""


def _digits_of(cells: Reals, *, decimal: bool) -> int | None:
    """The significant digits of all cells, binary or decimal; None where they have too many."""
    for coarse in (False, True):
        most = _MOST_DIGITS if decimal else _COARSE_BITS if coarse else _MOST_BITS
        for digits in range(1 if decimal else 2, most + 1):
            if _have_digits(cells, digits, decimal=decimal, coarse=coarse):
                return digits
    return None


def _are_multiples(cells: Reals, step: float, *, near: float, coarse: bool) -> bool:
    """Whether cells are multiples of a step, as near as ``near`` of themselves; few first."""
    few = cells[:: _stride(cells)]
    return all(_are_whole(part / step, near, coarse=coarse) for part in (few, cells))


def _have_digits(cells: Reals, digits: int, *, decimal: bool, coarse: bool) -> bool:
    """Whether cells have no more significant digits, as near as float32 tells; few first."""
    near = _ONE_CELL if decimal else 0.0
    few = cells[:: _stride(cells)]
    return all(
        _are_whole(part / _last_places(part, digits, decimal=decimal), near, coarse=coarse)
        for part in (few, cells)
    )


def _stride(cells: Reals) -> int:
    return 1 + cells.size // _FIRST


def _are_whole(codes: Reals, near: float, *, coarse: bool) -> bool:
    """Whether codes are whole, as near as ``near`` of themselves; with ``coarse`` most, nearly."""
    missed = np.abs(codes - np.rint(codes))
    if coarse:
        return bool((missed <= _NEARLY).mean() >= _MOST)
    return bool((missed <= near * np.maximum(np.abs(codes), 1.0)).all())


def _largest_code(most: float) -> float:
    """The largest code of so many bits where it is the largest there is, else infinity.

    >>> _largest_code(127.0), _largest_code(32767.0), _largest_code(128.0), _largest_code(100.0)
    (127.0, 32767.0, inf, inf)
    """
    code = float(np.rint(most))
    return code if code > 1 and math.frexp(code + 1)[0] == _HALF else math.inf


_HALF = 0.5
"""The significand of every power of two, as ``frexp`` has it."""


def cut_codes(factors: ComplexRows) -> Iterator[Steps]:
    """Cut to whole numbers, of a scale for each table, where all cells are such."""
    if whole_codes(factors):
        yield from (Steps("whole numbers", how=how) for how in (TO_ZERO, DOWN))
        return
    for kind in ("int16", "int8", "int4"):
        cos, sin = scales_of(factors, kind)
        for scales in dict.fromkeys(((cos, sin), (max(cos, sin),) * 2)):
            parts = ((factors.real, scales[0]), (factors.imag, scales[1]))
            if all(
                scale and _are_whole(part[np.isfinite(part)] / scale, 0.0, coarse=True)
                for part, scale in parts
            ):
                name = f"{kind}, in steps of one scale a table"
                yield from (Steps(name, how=how, step=scales) for how in (TO_ZERO, DOWN))


def block_codes(
    pairs: int, columns: tuple[ColumnExtremes, ColumnExtremes] | None = None
) -> Iterator[BlockCodes]:
    """Codes of each row or of groups of its columns; with ``columns``, of each column."""
    groups = [None, *(group for group in _GROUPS if group < pairs and pairs % group == 0)]
    for bits, group, half in itertools.product(_BITS, [None] if columns else groups, (False, True)):
        each = "row" if group is None else f"{group} columns of a row"
        each = "column" if columns else each
        plain = BlockCodes("", bits=bits, group=group, columns=columns, half=half)
        scale = f"with a scale{' in float16' * half}"
        top = 2.0 ** (bits - 1)
        for divisor in (top - 1, top, top - 0.5):
            name = f"int{bits}, {scale} for each {each}"
            yield replace(plain, name=name, divisor=divisor)
            if group is None and not columns:
                name += " of both tables"
                yield replace(plain, name=name, divisor=divisor, together=True)
        name = f"int{bits}, {scale} for each {each}, of the sign of its largest number"
        yield replace(plain, name=name, origin="farthest")
        for origin, what in (
            ("a least number", "a least number"),
            ("a zero point", "a zero point"),
            ("a zero point that 0 is among", "a zero point"),
        ):
            name = f"uint{bits}, {scale} and {what} for each {each}"
            yield replace(plain, name=name, origin=origin)
