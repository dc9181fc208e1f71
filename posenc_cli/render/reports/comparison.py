"""Report a comparison of arrays, rotations or models as text and JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from posenc_cli.analysis.sampling import spread
from posenc_cli.comparison.compare import (
    ArrayComparison,
    Identities,
    Pair,
    RotationComparison,
    Side,
)
from posenc_cli.comparison.difference import shape_text
from posenc_cli.configs import library
from posenc_cli.errors import quoted_name
from posenc_cli.formulas.parameters import as_text
from posenc_cli.positions import range_texts
from posenc_cli.records import replace
from posenc_cli.render.ticks import finite_or_null
from posenc_cli.render.typesetting import Answer, Typesetter
from posenc_cli.rotary.verdict import distinct_digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.comparison.losses import Loss, Model, ModelComparison
    from posenc_cli.configs.resolved import Sourced

_SHOWN_PAIRS = 12
"""The number of pairs that the text shows of a long list."""

_NAMED = 3
"""The number of parameters that the cause names."""

_LONGEST_VALUE = 24
_DIGITS = {"bfloat16": 4, "float16": 5, "float32": 9, "complex64": 9}
"""Digits that distinguish a number of a format from its neighbours; 17 for other formats."""


def comparison_text(
    result: ArrayComparison | RotationComparison,
    typesetter: Typesetter,
    identities: Identities | None = None,
) -> str:
    """Return the answer, both sides, and their differences."""
    blocks = [comparison_answer(result, identities).text(typesetter)]
    if isinstance(result, ArrayComparison):
        lines = [
            f"{key} {side.title}: {_encoding_text(side)}{operand.dtype}"
            for key, side, operand in zip("AB", result.sides, result.operands, strict=True)
        ]
        lines += result.not_compared
        lines += [
            f"{key} is {what}" for key, what in _identities(result, identities).summaries.items()
        ]
        return "\n".join([*blocks, *(typesetter.paragraph(line) for line in lines)])
    lines = [*_rotation_lines(result), *_length_lines(result)]
    blocks += (typesetter.paragraph(line) for line in lines)
    return "\n\n".join(["\n".join(blocks), *_rotation_tables(result, typesetter)])


def comparison_answer(
    result: ArrayComparison | RotationComparison, identities: Identities | None = None
) -> Answer:
    """Return whether the sides are equal, which settings differ, and by how much."""
    if not isinstance(result, ArrayComparison):
        return _rotation_answer(result)
    known = _identities(result, identities)
    cause = "; ".join(f"{name}: {a} in A, {b} in B" for name, (a, b) in known.differing.items())
    files = any(side.loaded is not None for side in result.sides)
    step = (
        "add --identify to see which encoding each file holds"
        if files and not known.summaries
        else None
    )
    difference, shape = result.difference, shape_text(result.difference.shape)
    nan = f"; {difference.both_nan} NaN in both" if difference.both_nan else ""
    if difference.all_nan:
        return Answer(False, f"FAILED: all {difference.cells} values are NaN in both ({shape})")
    if difference.at is None:
        return Answer(True, f"equal: all {difference.cells} values ({shape}{nan})")
    within = f", within the tolerance of {result.tolerance:g}" if result.ok else ""
    return Answer(
        result.ok,
        f"{'ok' if result.ok else 'DIFFERENT'}: {difference.differing} of {difference.cells} "
        f"values differ{'s' * (difference.differing == 1)}{within} ({shape}{nan})",
        cause or None,
        _largest_text(result),
        None if result.ok else step,
    )


def _identities(result: ArrayComparison, identities: Identities | None) -> Identities:
    """Return the identities of files.

    A small file compared with an encoding is identified here, without a summary.
    """
    if identities is None and result.is_small and not result.ok:
        return replace(result.identities, summaries={})
    return identities or Identities({}, {})


def comparison_fields(
    result: ArrayComparison | RotationComparison, identities: Identities | None = None
) -> dict[str, Any]:
    """Return the JSON fields of a comparison."""
    fields = (
        _array_fields(result) if isinstance(result, ArrayComparison) else _rotation_fields(result)
    )
    answer = comparison_answer(result, identities).fields()
    return {**answer, "kind": result.kind, "tolerance": result.tolerance, **fields}


def _array_fields(result: ArrayComparison) -> dict[str, Any]:
    difference = result.difference
    values = [finite_or_null(difference.a), finite_or_null(difference.b)]
    return {
        "max_abs": difference.max_abs,
        "max_ulp": difference.max_ulp if difference.counts_units else None,
        "ulp_format": difference.ulp_format,
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


def _largest_text(result: ArrayComparison) -> str:
    difference, dtypes = result.difference, [operand.dtype for operand in result.operands]
    a, b = (
        f"{value:.{_DIGITS.get(dtype, 17)}g}"
        for value, dtype in zip((difference.a, difference.b), dtypes, strict=True)
    )
    where = f"at {place_text(result)}: {a} and {b}"
    unmatched = f"{difference.unmatched} of them by NaN or infinity, "
    if not difference.measured:
        return f"{unmatched}{where}"
    units = f" ({difference.max_ulp:.4g} ulp of {difference.ulp_format})"
    return (
        f"{unmatched if difference.unmatched else ''}largest difference "
        f"{size_text(difference.max_abs)}{units if difference.counts_units else ''} {where}"
    )


def place_text(result: ArrayComparison) -> str:
    """Return the entry at which two arrays differ most."""
    at = result.difference.at or ()
    if len(at) != 2:
        return f"[{', '.join(map(str, at))}]"
    if result.position is None:
        return f"row {at[0]}, column {at[1]}"
    bias = any(side.scheme is not None and side.scheme.kind == "bias" for side in result.sides)
    return f"position {result.position}, {'column' if bias else 'dimension'} {at[1]}"


def _rotation_fields(result: RotationComparison) -> dict[str, Any]:
    """Return the largest differences over all lengths, and the pairs at the worst length."""
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
                "softmax_factor": softmax,
            }
            for key, side, bound, layout, scale, softmax in zip(
                *("ab", result.sides, worst.bounds, shown.layouts, shown.scales),
                result.softmax_factors,
                strict=True,
            )
        },
        "pairs": [
            {
                "pair": pair.index,
                "frequencies": [pair.a, pair.b],
                "wavelengths": list(map(finite_or_null, pair.wavelengths)),
                "ratio": finite_or_null(pair.ratio),
            }
            for pair in shown.pairs
        ],
    }


def _rotation_tables(result: RotationComparison, typesetter: Typesetter) -> Iterator[str]:
    """Yield tables of the parameters that differ, and of the pairs."""
    shown = result.worst.difference
    if parameters := _parameter_rows(result):
        yield typesetter.table(["parameter", "A", "B"], parameters)
    if shown.pairs:
        named = {*spread(len(shown.pairs), _SHOWN_PAIRS - 1)}
        pairs = [pair for i, pair in enumerate(shown.pairs) if i in named or pair is shown.worst]
        header = ["pair", "wavelength A", "wavelength B", "B/A"]
        yield typesetter.table(header, list(map(_pair_row, pairs)))
        if rest := len(shown.pairs) - len(pairs):
            yield f"{rest} more pairs differ; --json has them all"


def _rotation_answer(result: RotationComparison) -> Answer:
    """Return the difference of two rotations at the length that differs most, and its cause."""
    worst, ok = result.worst, result.ok
    configs = any(side.sources for side in result.sides)
    step = "run posenc explain CONFIG to see where each value comes from" if configs else None
    difference, verdict = worst.difference, "ok" if result.ok else "DIFFERENT"
    if difference.worst is None:
        agrees = {
            "attention factor": difference.scales[0] == difference.scales[1],
            "softmax scale": result.same_softmax,
            "pairs or axes": difference.alike and result.same_axes,
        }
        differing = " and ".join(name for name, same in agrees.items() if not same)
        where = " at the lengths compared" if result.goes_on else ""
        agreement = (
            f"{verdict if differing else 'equal'}: all {difference.count} frequencies agree{where}"
            f"{f', but not the {differing}' if differing and not ok else ''}"
        )
        return Answer(ok, agreement, _cause_text(result), next=None if ok else step)
    where = f" for {worst.seq_len} positions" if worst.seq_len else ""
    pair = difference.worst
    differ = (
        f"{len(difference.pairs)} of {difference.count} frequency pairs "
        f"differ{'s' * (len(difference.pairs) == 1)}{where}, "
        f"pair {pair.index} the most (wavelength B/A {size_text(pair.ratio)})"
    )
    return Answer(ok, f"{verdict}: {differ}", _cause_text(result), next=None if ok else step)


def _cause_text(result: RotationComparison) -> str | None:
    """Return the parameters that differ, in one line; None if the comparison succeeds."""
    rows = [] if result.ok else _parameter_rows(result, sourced=False)
    more = f"; {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    listed = "; ".join(f"{name}: {a} in A, {b} in B" for name, a, b in rows[:_NAMED])
    return listed + more if rows else None


def _rotation_lines(result: RotationComparison) -> Iterator[str]:
    """Yield both sides, and the differences besides frequencies."""
    worst = result.worst
    difference = worst.difference
    scales = _distinct_texts(*difference.scales)
    logits = _distinct_texts(*(scale * scale for scale in difference.scales))
    softmax = _distinct_texts(*result.softmax_factors)
    for key, side, bound, layout, scale, squared, factor in zip(
        *("AB", result.sides, worst.bounds, difference.layouts, scales, logits, softmax),
        strict=True,
    ):
        beside = f", and × {factor} by the softmax scale" if side.softmax else ""
        yield (
            f"{key} {side.title}: {bound.scheme.name}, {layout}, attention factor {scale} "
            f"(logits × {squared}{beside})"
        )
    if not difference.alike or not result.same_axes:
        yield "the pairs of dimensions, or the axes they follow, differ"


def _length_lines(result: RotationComparison) -> Iterator[str]:
    """Yield the lengths that were compared with their results, if there are several."""
    if len(result.lengths) == 1:
        return
    for equal, word in ((True, "equal"), (False, "different")):
        lengths = [
            str(length.seq_len) for length in result.lengths if length.difference.within(0) is equal
        ]
        if lengths:
            yield f"{word} for sequences of {', '.join(lengths)} positions"
    if result.goes_on:
        yield "other lengths may have other frequencies; they were not compared"


def _parameter_rows(result: RotationComparison, *, sourced: bool = True) -> list[list[str]]:
    """Return the parameters that differ, with their sources in a config if ``sourced``."""
    first, second = (bound.params for bound in result.worst.bounds)
    return [
        [
            name,
            *(
                _value_text(name, value, side.sources if sourced else {})
                for value, side in zip(
                    (first.get(name), second.get(name)), result.sides, strict=True
                )
            ),
        ]
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


def _value_text(name: str, value: Any, sources: Mapping[str, str]) -> str:
    text = "none" if value is None else as_text(value)
    if len(text) > _LONGEST_VALUE and isinstance(value, tuple):
        text = f"{len(value)} numbers"
    return f"{text} ({sources[name]})" if name in sources else text


def _pair_row(pair: Pair) -> list[str]:
    lengths = [
        text if math.isfinite(length) else "∞"
        for text, length in zip(_distinct_texts(*pair.wavelengths), pair.wavelengths, strict=True)
    ]
    return [str(pair.index), *lengths, size_text(pair.ratio)]


def _distinct_texts(a: float, b: float) -> tuple[str, str]:
    """Format two numbers to six digits, or to as many as distinguish them."""
    return distinct_digits(a, b) if a != b else (f"{a:.6g}", f"{b:.6g}")


def size_text(size: float) -> str:
    """Format a size or a factor to four digits, or more to distinguish it from a whole number.

    >>> size_text(0.31), size_text(2.0), size_text(1.99953)
    ('0.31', '2', '1.9995')
    """
    if math.isinf(size):
        return "∞"
    texts = (f"{size:.{digits}g}" for digits in range(4, 18))
    return next(text for text in texts if not text.isdigit() or float(text) == size)


def _side_fields(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "engine": side.runtime,
        "scheme": side.scheme.name if side.scheme else None,
        "weights": side.random_weights,
        "warnings": list(side.warnings),
    }


def _encoding_text(side: Side) -> str:
    """Return the encoding of a side, before its number format; empty for an array."""
    scheme = "" if side.scheme is None or side.scheme.name == side.name else side.scheme.name
    return "".join(f"{text}, " for text in (scheme, side.random_weights) if text)


_SETTINGS_OF_LAYERS = ("sliding-layers", "unturned-layers")


def losses_text(result: ModelComparison, typesetter: Typesetter) -> str:
    """Return the answer, both models, and each value that differs."""
    lines = [
        f"{key} {_model_title(model)}: {reading.noun} {', '.join([reading.model_type, *schemes])}"
        for key, model in zip("AB", result.models, strict=True)
        for reading in [model.reading]
        for schemes in [dict.fromkeys(group.scheme for group in reading.layers)]
    ]
    compared = [f"compared: {', '.join(result.compared)}"] * result.ok
    unknown = [
        typesetter.paragraph(f"not checked: {name}: {why}", hanging=2)
        for name, why in result.unknown.items()
    ]
    model_lines, compared_lines = (
        [typesetter.paragraph(line) for line in part] for part in (lines, compared)
    )
    head = [losses_answer(result).text(typesetter), *model_lines, *unknown, *compared_lines]
    if result.ok:
        return "\n".join(head)
    rows = [
        [
            f"{loss.name} ({loss.layers})" if loss.layers is not None else loss.name,
            *_loss_cells(loss),
        ]
        for loss in result.losses
    ]
    return "\n".join(head) + f"\n\n{typesetter.table(['setting', 'A', 'B'], rows)}"


def losses_answer(result: ModelComparison) -> Answer:
    """Return the settings that differ between the models."""
    count = len(result.compared)
    if result.ok:
        return Answer(True, f"ok: all {count} settings of A and B agree")
    names = list(dict.fromkeys(loss.name for loss in result.losses))
    loss = result.losses[0]
    a, b = (_loss_text(loss, value) for value in (loss.a, loss.b))
    return Answer(
        False,
        f"DIFFERENT: {', '.join(names)} ({len(names)} of {count} settings)",
        f"{loss.name} is {a} in A and {b} in B",
        next="correct the wrong side: the table has each value and the key it comes from",
    )


def losses_fields(result: ModelComparison) -> dict[str, Any]:
    """Return the JSON fields of a comparison of models."""
    return {
        **losses_answer(result).fields(),
        "kind": "models",
        "tolerance": result.tolerance,
        "compared": list(result.compared),
        "unknown": dict(result.unknown),
        "losses": [
            {"name": loss.name, "layers": loss.layers, "a": loss.a.as_dict(), "b": loss.b.as_dict()}
            for loss in result.losses
        ],
        **{
            key: {
                "name": model.name,
                "engine": model.runtime,
                "model_type": model.reading.model_type,
                "warnings": list(model.reading.warnings),
            }
            for key, model in zip("ab", result.models, strict=True)
        },
    }


def _model_title(model: Model) -> str:
    name = model.name if model.name in library.names() else quoted_name(model.name)
    return name if model.runtime is None else f"{name} as {model.runtime}"


def _loss_cells(loss: Loss) -> Iterator[str]:
    for value in (loss.a, loss.b):
        text = _loss_text(loss, value)
        yield f"{text} ({value.source})" if value.source else text


def _loss_text(loss: Loss, value: Sourced) -> str:
    if value.value is None:
        return "none"
    if loss.name in _SETTINGS_OF_LAYERS:
        return ", ".join(range_texts(value.value)) or "none"
    if isinstance(value.value, float):
        return f"{value.value:.10g}"
    text = as_text(value.value)
    if isinstance(value.value, tuple) and len(text) > _LONGEST_VALUE:
        return f"{as_text(value.value[:2])} … {as_text(value.value[-1])} ({len(value.value)})"
    return text
