"""The two reports of ``posenc compare``: for a reader, and as JSON."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from posenc_cli.cli import streams
from posenc_cli.records import Record
from posenc_cli.schemes.parameters import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.checks.difference import Difference, Operand
    from posenc_cli.checks.rotations import Pair, RotationDifference
    from posenc_cli.cli.console import Console
    from posenc_cli.cli.operands import Side
    from posenc_cli.schemes.declare import Bound

ROWS = 12
"""Pairs that the text shows of a long list."""

_LONGEST = 24
_DIGITS = {"bfloat16": 4, "float16": 5, "float32": 9, "complex64": 9}


class ArrayReport(Record):
    """How two arrays differ."""

    sides: Sequence[Side]
    operands: Sequence[Operand]
    found: Difference
    tolerance: float
    elsewhere: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, sides: Sequence[Side], operands: Sequence[Operand], tolerance: float
    ) -> ArrayReport:
        """The comparison of two operands.

        Raises: InvalidInput when their shapes differ.
        """
        from posenc_cli.checks.difference import difference

        return cls(sides, operands, difference(*operands), tolerance, _elsewhere(sides))

    @property
    def ok(self) -> bool:
        """Whether they are no further apart than allowed."""
        return self.found.within(self.tolerance)

    def fields(self) -> dict[str, Any]:
        """The report as plain values."""
        found = self.found
        return {
            "kind": "arrays",
            "ok": self.ok,
            "tolerance": self.tolerance,
            "max_abs": found.max_abs,
            "max_ulp": found.max_ulp if found.counts_units else None,
            "ulp_format": found.ulp_format,
            "rms": found.rms,
            "at": found.at,
            "position": self._position(),
            "values": None if found.at is None else [_plain(found.a), _plain(found.b)],
            "differing": found.differing,
            "unmatched": found.unmatched,
            "cells": found.cells,
            "shape": found.shape,
            "not_compared": list(self.elsewhere),
            **{
                key: {**_side_fields(each), "dtype": operand.dtype}
                for key, each, operand in zip("ab", self.sides, self.operands, strict=True)
            },
        }

    def text(self, console: Console) -> str:
        """The report for a reader."""
        found = self.found
        from posenc_cli.checks.difference import shape_text

        lines = [
            f"{key} {each.title}: {_encoding_text(each)}{operand.dtype}"
            for key, each, operand in zip("AB", self.sides, self.operands, strict=True)
        ]
        if found.at is None:
            lines.append(f"equal: all {found.cells} values ({shape_text(found.shape)})")
            return _lines_text(console, [*lines, *self.elsewhere])
        verdict = "ok" if self.ok else "DIFFERENT"
        share = f"{found.differing} of {found.cells} values differ ({shape_text(found.shape)})"
        lines.append(f"{verdict}: {share}")
        if found.unmatched:
            lines.append(f"{found.unmatched} of them by NaN or infinity, which no number measures")
        if found.measured:
            units = "more than ulp can tell, beside 0 or of another sign"
            if found.counts_units:
                units = f"or {found.max_ulp:.4g} ulp of {found.ulp_format}"
            lines.append(
                f"largest difference {found.max_abs:.4g}, {units}; root mean square {found.rms:.4g}"
            )
        values = (
            _value_text(value, operand.dtype)
            for value, operand in zip((found.a, found.b), self.operands, strict=True)
        )
        lines.append(f"at {self._place()}: {' and '.join(values)}")
        return _lines_text(console, [*lines, *self.elsewhere])

    def _place(self) -> str:
        at = self.found.at or ()
        position = self._position()
        if len(at) != 2:
            return f"[{', '.join(map(str, at))}]"
        named = f"position {position}" if position is not None else f"row {at[0]}"
        return f"{named}, column {at[1]}"

    def _position(self) -> int | None:
        """The position that the row of the difference stands for, if a side knows it."""
        at = self.found.at
        for each in self.sides:
            choice = each.choice
            rows = choice and choice.positions and choice.scheme.kind in ("absolute", "rotary")
            if choice and choice.positions and rows and at and len(at) == 2:
                return _nth(choice.positions.ranges, at[0])
        return None


class AtLength(Record):
    """How two rotary encodings differ for sequences of a length; None where none was settled."""

    seq_len: int | None
    bounds: Sequence[Bound]
    found: RotationDifference

    @classmethod
    def of(cls, sides: Sequence[Side], seq_len: int | None) -> AtLength:
        """The comparison at one length.

        Raises: InvalidInput when they have different numbers of pairs.
        """
        from posenc_cli.checks.rotations import rotation_difference

        bounds = [side.bound(seq_len) for side in sides]
        return cls(seq_len, bounds, rotation_difference(*(bound.rotation for bound in bounds)))

    @property
    def far(self) -> tuple[bool, float, int]:
        """What sorts lengths: the largest factor by which pairs differ, then how many do."""
        worst = self.found.worst
        scales = self.found.scales[0] != self.found.scales[1] or not self.found.alike
        return scales, 1.0 if worst is None else worst.apart, len(self.found.pairs)


class RotationReport(Record):
    """How two rotary encodings differ, whatever the position, at each length that matters.

    ``worst`` is the length at which they differ most; reports describe it.
    """

    sides: Sequence[Side]
    lengths: Sequence[AtLength]
    worst: AtLength
    goes_on: bool
    tolerance: float

    @classmethod
    def of(cls, sides: Sequence[Side], tolerance: float) -> RotationReport:
        """The comparison of two rotary encodings, on both sides of each switch of their rules.

        Raises: InvalidInput when they have different numbers of pairs.
        """
        rules = [] if _same_choice(sides) else [side.length_rule() for side in sides]
        switched = sorted({length for rule in rules for length in rule.lengths})
        wanted: list[int | None] = [*switched] or [None]
        lengths = [AtLength.of(sides, length) for length in wanted]
        worst = max(lengths, key=lambda length: length.far)
        return cls(sides, lengths, worst, any(rule.goes_on for rule in rules), tolerance)

    @property
    def bounds(self) -> Sequence[Bound]:
        """Both encodings, at the length at which they differ most."""
        return self.worst.bounds

    @property
    def found(self) -> RotationDifference:
        """How they differ at that length."""
        return self.worst.found

    @property
    def ok(self) -> bool:
        """Whether they are no further apart than allowed at every length, and pair alike."""
        return all(length.found.within(self.tolerance) for length in self.lengths)

    def fields(self) -> dict[str, Any]:
        """The report as plain values: the largest differences of all lengths, the pairs of one."""
        found, worst = self.found, self.found.worst
        units = max(length.found.max_ulp for length in self.lengths)
        return {
            "kind": "rotations",
            "ok": self.ok,
            "tolerance": self.tolerance,
            "max_abs": max(length.found.max_abs for length in self.lengths),
            "max_ulp": units if all(each.found.counts_units for each in self.lengths) else None,
            "at": None if worst is None else [worst.index],
            "differing": len(found.pairs),
            "count": found.count,
            "seq_len": self.worst.seq_len,
            "all_lengths": not self.goes_on,
            "lengths": [
                {
                    "seq_len": length.seq_len,
                    "ok": length.found.within(self.tolerance),
                    "max_abs": length.found.max_abs,
                    "differing": len(length.found.pairs),
                }
                for length in self.lengths
            ],
            **{
                key: {
                    **_side_fields(each),
                    "params": dict(bound.params),
                    "layout": layout,
                    "attention_factor": scale,
                }
                for key, each, bound, layout, scale in zip(
                    *("ab", self.sides, self.bounds, found.layouts, found.scales), strict=True
                )
            },
            "pairs": [
                {
                    "pair": pair.index,
                    "frequencies": [pair.a, pair.b],
                    "wavelengths": [_plain(length) for length in pair.wavelengths],
                    "ratio": _plain(pair.ratio),
                }
                for pair in found.pairs
            ],
        }

    def text(self, console: Console) -> str:
        """The report for a reader."""
        found, worst = self.found, self.found.worst
        scales = _side_by_side(*found.scales)
        logits = _side_by_side(*(scale * scale for scale in found.scales))
        lines = [
            f"{key} {each.title}: {bound.scheme.name}, {layout}, attention factor {scale} "
            f"(logits × {squared})"
            for key, each, bound, layout, scale, squared in zip(
                *("AB", self.sides, self.bounds, found.layouts, scales, logits), strict=True
            )
        ]
        verdict = "ok" if self.ok else "DIFFERENT"
        where = f" for {self.worst.seq_len} positions" if self.worst.seq_len else ""
        if worst is None:
            equal = found.alike and found.scales[0] == found.scales[1]
            same = f"all {found.count} frequencies are the same"
            where = " at the lengths compared" if self.goes_on else ""
            lines.append(f"{'equal' if equal else verdict}: {same}{where}")
        else:
            factor = f"by up to × {_factor_text(worst.apart)} (pair {worst.index})"
            differing = f"{len(found.pairs)} of {found.count} pairs differ"
            lines.append(f"{verdict}: {differing}{where}, {factor}")
        if not found.alike:
            lines.append("the columns that turn together, or the axes they follow, differ")
        texts = [_lines_text(console, [*lines, *self._length_lines()])]
        parameters = self._parameter_rows()
        if parameters:
            texts.append(console.table_text(["parameter", "A", "B"], parameters))
        if found.pairs:
            shown = _spread(found.pairs, worst)
            texts.append(
                console.table_text(
                    ["pair", "wavelength A", "wavelength B", "B/A"], list(map(_pair_row, shown))
                )
            )
            if len(shown) < len(found.pairs):
                rest = len(found.pairs) - len(shown)
                texts.append(f"{rest} more pairs differ; --json has them all")
        return "\n\n".join(texts)

    def _length_lines(self) -> list[str]:
        """What was compared at which lengths, where it matters."""
        if len(self.lengths) == 1:
            return []
        groups: dict[bool, list[str]] = {True: [], False: []}
        for length in self.lengths:
            groups[length.found.within(0)].append(str(length.seq_len))
        lines = []
        if groups[True]:
            lines.append(f"equal for sequences of {', '.join(groups[True])} positions")
        if groups[False]:
            lines.append(f"different for sequences of {', '.join(groups[False])} positions")
        if self.goes_on:
            lines.append("other lengths may have frequencies of their own, and were not compared")
        return lines

    def _parameter_rows(self) -> list[list[str]]:
        """The parameters that differ, each with where a config has it from."""
        first, second = (each.params for each in self.bounds)
        rows = []
        for name in dict.fromkeys([*first, *second]):
            a, b = first.get(name), second.get(name)
            if a != b:
                cells = [
                    _parameter_text(name, value, each)
                    for value, each in zip((a, b), self.sides, strict=True)
                ]
                rows.append([name, *cells])
        return rows


def _same_choice(sides: Sequence[Side]) -> bool:
    """Whether both sides are one scheme with the same parameters, and so the same at any length."""
    first, second = (side.choice for side in sides)
    if first is None or second is None:
        return False
    if first.scheme is not second.scheme:
        return False
    return sides[0].bound(None).params == sides[1].bound(None).params


def _elsewhere(sides: Sequence[Side]) -> tuple[str, ...]:
    """What arrays at some positions do not show: that sides change with the length."""
    if _same_choice(sides):
        return ()
    found = []
    for key, side in zip("AB", sides, strict=True):
        if side.choice is None or side.choice.positions is None:
            continue
        rule = side.length_rule()
        if rule.switches:
            switches = ", ".join(f"from {switch} on" for switch in rule.switches)
            more = ", and again with further positions" if rule.goes_on else ""
            what = f"it changes with the length: {switches}{more}"
        elif side.follows_length:
            what = "its values follow the length, and those of other lengths were not compared"
        else:
            continue
        length = side.choice.positions.last + 1
        found.append(
            f"{key} was computed for a sequence of {length}, the last position + 1; {what}"
        )
    return tuple(found)


def _value_text(value: Any, dtype: str) -> str:
    """A value with as many digits as tell it from its neighbours."""
    return f"{value:.{_DIGITS.get(dtype, 17)}g}"


def _lines_text(console: Console, lines: Sequence[str]) -> str:
    """Lines for a reader, wrapped between words alone: a path is never cut."""
    spelled = map(streams.ascii_spelling, lines) if console.ascii_only else lines
    return "\n".join(
        textwrap.fill(line, console.width, break_long_words=False, break_on_hyphens=False)
        for line in spelled
    )


def _parameter_text(name: str, value: Any, each: Side) -> str:
    text = "none" if value is None else as_text(value)
    if len(text) > _LONGEST and isinstance(value, tuple):
        text = f"{len(value)} numbers"
    return f"{text} ({each.sources[name]})" if name in each.sources else text


def _pair_row(pair: Pair) -> list[str]:
    texts = _side_by_side(*pair.wavelengths)
    lengths = [
        text if math.isfinite(length) else "∞"
        for text, length in zip(texts, pair.wavelengths, strict=True)
    ]
    return [str(pair.index), *lengths, _factor_text(pair.ratio)]


def _side_by_side(a: float, b: float) -> tuple[str, str]:
    """Two numbers to six digits, or to as many as tell them apart."""
    from posenc_cli.checks.verdict import distinct_digits

    return distinct_digits(a, b) if a != b else (f"{a:.6g}", f"{b:.6g}")


def _factor_text(factor: float) -> str:
    """A factor to four digits, or to as many as tell it from 1."""
    if not math.isfinite(factor):
        return "∞"
    for digits in range(4, 18):
        text = f"{factor:.{digits}g}"
        if text != "1":
            break
    return text


def _spread(pairs: Sequence[Pair], worst: Pair | None) -> list[Pair]:
    """At most :data:`ROWS` of the pairs: first, last, the worst, and some evenly between."""
    if len(pairs) <= ROWS:
        return list(pairs)
    chosen = {round(step * (len(pairs) - 1) / (ROWS - 2)) for step in range(ROWS - 1)}
    return [pair for index, pair in enumerate(pairs) if index in chosen or pair is worst]


def _side_fields(each: Side) -> dict[str, Any]:
    return {
        "name": each.name,
        "engine": each.runtime,
        "scheme": each.choice.scheme.name if each.choice else None,
        "weights": _random_weights(each),
        "warnings": list(each.warnings),
    }


def _encoding_text(each: Side) -> str:
    if each.choice is None:
        return ""
    weights = _random_weights(each)
    name = "" if each.choice.scheme.name == each.name else f"{each.choice.scheme.name}, "
    return f"{name}{weights}, " if weights else name


def _random_weights(each: Side) -> str | None:
    """Which weights were drawn for lack of a file; None where none were."""
    choice = each.choice
    if choice is None:
        return None
    last = choice.positions.last if choice.positions else None
    return each.bound(None if last is None else last + 1).random_weights(last)


def _plain(value: Any) -> Any:
    """A number as JSON takes it: null where it is not finite, [real, imaginary] if complex."""
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    return None if value is None or not math.isfinite(value) else value


def _nth(ranges: Sequence[range], row: int) -> int:
    for each in ranges:
        if row < len(each):
            return each[row]
        row -= len(each)
    raise IndexError(row)


__all__ = ["ArrayReport", "RotationReport"]
