"""``posenc compare``: how far two arrays or two encodings are apart."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli.cli import streams
from posenc_cli.cli.choosing import ParameterOptions, PositionOptions
from posenc_cli.cli.completers import operand_names
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import (
    Head,
    Json,
    Setting,
    completed_from,
    number_format,
    option,
    settings_option,
)
from posenc_cli.configs.runtimes import RUNTIMES
from posenc_cli.formulas.parameters import Param, as_text, parameter
from posenc_cli.formulas.tables import ROTARY_TABLES
from posenc_cli.numerics.dtypes import REAL_DTYPES, DType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from posenc_cli.checks.compare import ArrayComparison, RotationComparison, Side
    from posenc_cli.checks.rotations import Pair

_SHOWN_PAIRS = 12
"""Pairs that the text shows of a long list."""

_LONGEST_VALUE = 24
_DIGITS = {"bfloat16": 4, "float16": 5, "float32": 9, "complex64": 9}
"""Digits that tell a number of a format from its neighbours; of any other, 17."""

_TOLERANCE = parameter("tol", Annotated[float, Param("tolerance", minimum=0)], default=0.0)


class PairParameterOptions(ParameterOptions):
    """The parameters of both sides, or of one."""

    settings: Annotated[
        list[Setting] | None,
        settings_option("any other parameter, for both; a.NAME=VALUE or b.NAME=VALUE for one"),
    ] = None


def compare(
    console: Console,
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", autocompletion=operand_names, help="a file, scheme, config or model"
        ),
    ],
    b: Annotated[
        str | None,
        typer.Argument(
            metavar="[B]",
            autocompletion=operand_names,
            help="another; without it A as another engine",
        ),
    ] = None,
    *,
    tol: Annotated[
        float,
        option(
            "--tol",
            metavar="X",
            help="differences to pass over [default: none]",
            show_default=False,
            parse=lambda flag, text: _TOLERANCE.value(text, flag=flag),
        ),
    ] = 0.0,
    runtimes: Annotated[
        list[str] | None,
        option(
            "--as",
            metavar="ENGINE",
            known=RUNTIMES,
            help=f"of a config: {'|'.join(RUNTIMES)}; once for both, twice for A and B",
        ),
    ] = None,
    layer_types: Annotated[
        list[str] | None,
        typer.Option(
            "--layer-type", metavar="NAME", help="which layers, of both; a.NAME or b.NAME of one"
        ),
    ] = None,
    where: PositionOptions,
    parameters: PairParameterOptions,
    table: Annotated[
        str | None,
        option(
            "--table",
            known=ROTARY_TABLES,
            help=f"of rotary schemes: {'|'.join(ROTARY_TABLES)}",
        ),
    ] = None,
    head: Head = None,
    dtype: Annotated[
        DType | None,
        option(
            "--dtype",
            metavar="NAME",
            help=f"of what is computed: {'|'.join(REAL_DTYPES)} [default: the file's, or float64]",
            parse=number_format,
            autocompletion=completed_from(REAL_DTYPES),
        ),
    ] = None,
    identify: Annotated[
        bool, option("--identify", help="say which encoding each file is, where files differ")
    ] = False,
    as_json: Json = False,
) -> int:
    """Compare two arrays or encodings; status 1 where they differ.

    A and B are files (.npy .npz .csv .safetensors), schemes, configs or models. Two rotary
    encodings without positions are compared pair by pair: frequencies and amplitude, to which
    --tol is then relative. Without --tol, status is 0 only where all values are equal; NaN equals
    NaN. With --as alone, A is what another engine makes of it beside transformers.

    \b
    Examples:
      posenc compare llama-3.1-8b llama-3.1-8b --set b.factor=16 --tol 1e-6
      posenc compare rope rope --dim 64 --set b.base=500000 --len 128
      posenc compare gemma-3-4b rope --layer-type full_attention --set b.dim=256
      posenc compare llama-2-7b --as vllm
    """
    from posenc_cli.checks.compare import ArrayComparison, comparison
    from posenc_cli.cli.operands import sides_of

    sides = sides_of(
        (a, b), runtimes=runtimes or [], layer_types=layer_types or [], parameters=parameters
    )
    for warning in dict.fromkeys(warning for side in sides for warning in side.warnings):
        of = [key for key, side in zip("AB", sides, strict=True) if warning in side.warnings]
        console.warning(warning if len(of) == 2 else f"{of[0]}: {warning}")
    result = comparison(sides, where.resolve(), table=table, head=head, dtype=dtype, tolerance=tol)
    fields, text = _WORDS[result.kind]
    identities: Mapping[str, str] = {}
    if identify and not result.ok and isinstance(result, ArrayComparison):
        identities = result.identities()
    if as_json:
        verdict = {"kind": result.kind, "ok": result.ok, "tolerance": result.tolerance}
        known = {"identities": {key.lower(): what for key, what in identities.items()}}
        console.json("compare", {**verdict, **fields(result), **(known if identify else {})})
    else:
        lines = [f"{key} is {what}" for key, what in identities.items()]
        texts = [text(result, console), *([_lines_text(console, lines)] if lines else [])]
        console.result("\n".join(texts))
    return 0 if result.ok else 1


def _array_fields(result: ArrayComparison) -> dict[str, Any]:
    difference = result.difference
    values = [_plain(difference.a), _plain(difference.b)]
    return {
        "max_abs": difference.max_abs,
        "max_ulp": difference.max_ulp if difference.counts_units else None,
        "ulp_format": difference.ulp_format,
        "rms": difference.rms,
        "at": difference.at,
        "position": result.position,
        "values": None if difference.at is None else values,
        "differing": difference.differing,
        "unmatched": difference.unmatched,
        "cells": difference.cells,
        "shape": difference.shape,
        "not_compared": list(result.not_compared),
        **{
            key: {**_side_fields(side), "dtype": operand.dtype}
            for key, side, operand in zip("ab", result.sides, result.operands, strict=True)
        },
    }


def _array_text(result: ArrayComparison, console: Console) -> str:
    return _lines_text(console, [*_array_lines(result), *result.not_compared])


def _array_lines(result: ArrayComparison) -> Iterator[str]:
    from posenc_cli.checks.difference import shape_text

    difference, dtypes = result.difference, [operand.dtype for operand in result.operands]
    for key, side, dtype in zip("AB", result.sides, dtypes, strict=True):
        yield f"{key} {side.title}: {_encoding_text(side)}{dtype}"
    shape = shape_text(difference.shape)
    if difference.at is None:
        yield f"equal: all {difference.cells} values ({shape})"
        return
    verdict = "ok" if result.ok else "DIFFERENT"
    yield f"{verdict}: {difference.differing} of {difference.cells} values differ ({shape})"
    if difference.unmatched:
        yield f"{difference.unmatched} of them by NaN or infinity, which no number measures"
    if difference.measured:
        units = "more than ulp can tell, beside 0 or of another sign"
        if difference.counts_units:
            units = f"or {difference.max_ulp:.4g} ulp of {difference.ulp_format}"
        yield (
            f"largest difference {difference.max_abs:.4g}, {units}; "
            f"root mean square {difference.rms:.4g}"
        )
    place = f"[{', '.join(map(str, difference.at))}]"
    if len(difference.at) == 2:
        row, column = difference.at
        named = f"row {row}" if result.position is None else f"position {result.position}"
        place = f"{named}, column {column}"
    a, b = (
        f"{value:.{_DIGITS.get(dtype, 17)}g}"
        for value, dtype in zip((difference.a, difference.b), dtypes, strict=True)
    )
    yield f"at {place}: {a} and {b}"


def _rotation_fields(result: RotationComparison) -> dict[str, Any]:
    """The largest differences of all lengths, and the pairs of the length that differs most."""
    worst, differences = result.worst, [length.difference for length in result.lengths]
    shown = worst.difference
    counts_units = all(difference.counts_units for difference in differences)
    return {
        "max_abs": max(difference.max_abs for difference in differences),
        "max_ulp": max(each.max_ulp for each in differences) if counts_units else None,
        "at": None if shown.worst is None else [shown.worst.index],
        "differing": len(shown.pairs),
        "count": shown.count,
        "seq_len": worst.seq_len,
        "all_lengths": not result.goes_on,
        "lengths": [
            {
                "seq_len": length.seq_len,
                "ok": length.difference.within(result.tolerance),
                "max_abs": length.difference.max_abs,
                "differing": len(length.difference.pairs),
            }
            for length in result.lengths
        ],
        **{
            key: {
                **_side_fields(side),
                "params": dict(bound.params),
                "layout": layout,
                "attention_factor": scale,
            }
            for key, side, bound, layout, scale in zip(
                *("ab", result.sides, worst.bounds, shown.layouts, shown.scales), strict=True
            )
        },
        "pairs": [
            {
                "pair": pair.index,
                "frequencies": [pair.a, pair.b],
                "wavelengths": list(map(_plain, pair.wavelengths)),
                "ratio": _plain(pair.ratio),
            }
            for pair in shown.pairs
        ],
    }


def _rotation_text(result: RotationComparison, console: Console) -> str:
    shown = result.worst.difference
    texts = [_lines_text(console, [*_rotation_lines(result), *_length_lines(result)])]
    if parameters := _parameter_rows(result):
        texts.append(console.table_text(["parameter", "A", "B"], parameters))
    if shown.pairs:
        pairs = _spread(shown.pairs, shown.worst)
        header = ["pair", "wavelength A", "wavelength B", "B/A"]
        texts.append(console.table_text(header, list(map(_pair_row, pairs))))
        if rest := len(shown.pairs) - len(pairs):
            texts.append(f"{rest} more pairs differ; --json has them all")
    return "\n\n".join(texts)


def _rotation_lines(result: RotationComparison) -> Iterator[str]:
    """Both sides, and how they differ at the length at which they differ most."""
    worst = result.worst
    difference = worst.difference
    scales = _side_by_side(*difference.scales)
    logits = _side_by_side(*(scale * scale for scale in difference.scales))
    for key, side, bound, layout, scale, squared in zip(
        *("AB", result.sides, worst.bounds, difference.layouts, scales, logits), strict=True
    ):
        yield (
            f"{key} {side.title}: {bound.scheme.name}, {layout}, attention factor {scale} "
            f"(logits × {squared})"
        )
    verdict = "ok" if result.ok else "DIFFERENT"
    if difference.worst is None:
        equal = difference.alike and difference.scales[0] == difference.scales[1]
        where = " at the lengths compared" if result.goes_on else ""
        same = f"all {difference.count} frequencies are the same"
        yield f"{'equal' if equal else verdict}: {same}{where}"
    else:
        where = f" for {worst.seq_len} positions" if worst.seq_len else ""
        pair = difference.worst
        yield (
            f"{verdict}: {len(difference.pairs)} of {difference.count} pairs differ{where}, "
            f"by up to × {_factor_text(pair.apart)} (pair {pair.index})"
        )
    if not difference.alike:
        yield "the columns that turn together, or the axes they follow, differ"


def _length_lines(result: RotationComparison) -> Iterator[str]:
    """What was compared at which lengths, where it matters."""
    if len(result.lengths) == 1:
        return
    for equal, word in ((True, "equal"), (False, "different")):
        lengths = [
            str(length.seq_len) for length in result.lengths if length.difference.within(0) is equal
        ]
        if lengths:
            yield f"{word} for sequences of {', '.join(lengths)} positions"
    if result.goes_on:
        yield "other lengths may have frequencies of their own, and were not compared"


def _parameter_rows(result: RotationComparison) -> list[list[str]]:
    """The parameters that differ, each with where a config has it from."""
    first, second = (bound.params for bound in result.worst.bounds)
    return [
        [name, *map(_value_text, (name, name), (first.get(name), second.get(name)), result.sides)]
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


def _value_text(name: str, value: Any, side: Side) -> str:
    text = "none" if value is None else as_text(value)
    if len(text) > _LONGEST_VALUE and isinstance(value, tuple):
        text = f"{len(value)} numbers"
    return f"{text} ({side.sources[name]})" if name in side.sources else text


def _pair_row(pair: Pair) -> list[str]:
    lengths = [
        text if math.isfinite(length) else "∞"
        for text, length in zip(_side_by_side(*pair.wavelengths), pair.wavelengths, strict=True)
    ]
    return [str(pair.index), *lengths, _factor_text(pair.ratio)]


def _spread(pairs: Sequence[Pair], worst: Pair | None) -> list[Pair]:
    """At most :data:`_SHOWN_PAIRS` of the pairs: first, last, the worst, and some between."""
    if len(pairs) <= _SHOWN_PAIRS:
        return list(pairs)
    steps = _SHOWN_PAIRS - 2
    indices = {round(step * (len(pairs) - 1) / steps) for step in range(steps + 1)}
    return [pair for index, pair in enumerate(pairs) if index in indices or pair is worst]


def _side_by_side(a: float, b: float) -> tuple[str, str]:
    """Two numbers to six digits, or to as many as tell them apart."""
    from posenc_cli.checks.verdict import distinct_digits

    return distinct_digits(a, b) if a != b else (f"{a:.6g}", f"{b:.6g}")


def _factor_text(factor: float) -> str:
    """A factor to four digits, or to as many as tell it from 1."""
    if not math.isfinite(factor):
        return "∞"
    texts = (f"{factor:.{digits}g}" for digits in range(4, 18))
    return next((text for text in texts if text != "1"), "1")


def _side_fields(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "engine": side.runtime,
        "scheme": side.scheme.name if side.scheme else None,
        "weights": side.random_weights,
        "warnings": list(side.warnings),
    }


def _encoding_text(side: Side) -> str:
    """What is computed of a side, before its number format; nothing of an array."""
    scheme = "" if side.scheme is None or side.scheme.name == side.name else side.scheme.name
    return "".join(f"{text}, " for text in (scheme, side.random_weights) if text)


def _lines_text(console: Console, lines: Sequence[str]) -> str:
    """Lines for a reader, wrapped between words alone: a path is never cut."""
    spelled = map(streams.ascii_spelling, lines) if console.ascii_only else lines
    return "\n".join(
        textwrap.fill(line, console.width, break_long_words=False, break_on_hyphens=False)
        for line in spelled
    )


def _plain(value: Any) -> Any:
    """A number as JSON takes it: null where it is not finite, [real, imaginary] if complex."""
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    return None if value is None or not math.isfinite(value) else value


_WORDS: Mapping[str, tuple[Callable[[Any], dict[str, Any]], Callable[[Any, Console], str]]] = {
    "arrays": (_array_fields, _array_text),
    "rotations": (_rotation_fields, _rotation_text),
}
"""Of each kind of comparison, what JSON holds and what a reader sees."""
