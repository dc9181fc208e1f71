"""Report engines that differ, as text and JSON."""

from __future__ import annotations

import math
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from posenc_cli.comparison.engine_views import (
    COMPARED,
    SAME,
    EngineReading,
    EngineView,
    EngineViews,
    LayerViews,
)
from posenc_cli.configs.resolved import TRANSFORMERS, Layers, grouped
from posenc_cli.formulas.parameters import brief_text
from posenc_cli.records import items_by_key
from posenc_cli.render.reports.comparison import size_text
from posenc_cli.render.typesetting import Answer, Typesetter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.comparison.compare import RotationComparison

_ROTATES_OTHER_LAYERS = "not compared: rotates other layers than the config says"
_NOT_COMPARED = "not compared"
_UNTRACED = "no other engine's code was checked for this model type"
_REFUSED = "no other engine whose code was checked reads this config"


def engine_views_text(
    result: EngineViews,
    title: str,
    name: Callable[[Layers], str],
    typesetter: Typesetter,
    *,
    compare: str,
) -> str:
    """Return the verdict, the largest difference and the next step, then the views.

    Differing views come first. ``name(layers)`` returns the name of layers. ``compare`` is the
    command that compares one engine, without the engine's name.
    """
    answer = engine_views_answer(result, title, compare=compare)
    head = [typesetter.paragraph(answer.verdict, hanging=2)]
    if answer.cause and answer.next:
        head.append(typesetter.paragraph(answer.cause, indent=2))
        head.append(f"  next: {answer.next}")
    parts = ["\n".join(head)]
    parts += [typesetter.paragraph(f"Warning: {text}", hanging=2) for text in result.own.headlines]
    for kinds in grouped(result.kinds, _reads_alike):
        lines = [typesetter.paragraph(name(kind.layers), hanging=2) for kind in kinds]
        first, *others = zip(ascii_uppercase, kinds[0].views, strict=False)
        for letter, view in (*others, first):
            lines += _view_lines(letter, view, result, typesetter)
        parts.append("\n".join(lines))
    for heading, otherwise in ((_ROTATES_OTHER_LAYERS, True), (_NOT_COMPARED, False)):
        if silent := list(_uncompared_engines(result, otherwise=otherwise)):
            paragraphs = [typesetter.paragraph(text, indent=2, hanging=4) for text in silent]
            parts.append("\n".join([heading, *paragraphs]))
    readers = [reading.runtime for reading in result.readings if reading.resolved]
    read = ", ".join(f"{runtime.name} ({runtime.version})" for runtime in readers)
    compared = f"readings: {read}; compared: {', '.join(COMPARED)} (equal within {SAME:g})"
    parts.append(typesetter.paragraph(compared, hanging=2))
    return "\n\n".join(parts)


def engine_views_answer(result: EngineViews, title: str, *, compare: str) -> Answer:
    """Return the engines that differ, the largest difference, and the command that shows it."""
    worst = _largest_difference(result)
    cause = worst and f"largest difference, {worst[0]}: {worst[1]}"
    return Answer(
        True, f"{title}: {_verdict_text(result)}", cause, next=worst and f"{compare} {worst[0]}"
    )


def _reads_alike(one: LayerViews, other: LayerViews) -> bool:
    """Return whether every engine reads two kinds of layers the same way."""
    both = zip(one.views, other.views, strict=False)
    return [view.engines for view in one.views] == [view.engines for view in other.views] and all(
        a.layers.same_encoding(b.layers) for a, b in both
    )


def _verdict_text(result: EngineViews) -> str:
    """Name the engines that differ from the first, or say that all agree."""
    readers = [reading.runtime.name for reading in result.readings if reading.resolved]
    others = [reading.runtime.name for reading in result.readings if reading.otherwise]
    agreeing = set(readers).intersection(*(kind.views[0].engines for kind in result.kinds))
    differing = [name for name in readers if name not in agreeing] + others
    if result.agree is None:
        refused = any(
            each.traced
            for each in result.readings
            if not each.resolved and not each.runtime.name.startswith(TRANSFORMERS)
        )
        return f"{_REFUSED if refused else _UNTRACED}; nothing is compared"
    if not differing:
        return f"{'both' if len(readers) == 2 else f'all {len(readers)}'} engines agree"
    compared = len(readers) + len(others) - 1
    count = "the other engine" if compared == 1 else f"{len(differing)} of {compared} other engines"
    return f"{count} differ{'s' * (len(differing) == 1)} from {readers[0]}: {', '.join(differing)}"


def _largest_difference(result: EngineViews) -> tuple[str, str] | None:
    """Return the engine whose frequencies differ most, and how; else the first that differs."""
    differing = [
        (view, view.apart) for kind in result.kinds for view in kind.views if view.apart is not None
    ]
    if not differing:
        return None
    view, worst = max(
        differing, key=lambda each: getattr(each[1].worst.difference.worst, "apart", 0.0)
    )
    return view.engines[0], next(_number_differences(worst))


def _view_lines(
    letter: str, view: EngineView, result: EngineViews, typesetter: Typesetter
) -> Iterator[str]:
    """Yield the engines of a view, its encoding, and the reasons why it differs from the first."""
    yield typesetter.paragraph(f"{letter}  {', '.join(view.engines)}", hanging=3)
    if view.apart is None and not view.why_not:
        texts = [_encoding_text(view.layers), *_factor_texts(view.layers)]
    else:
        texts = [*_differences(view), *_reasons(view, result)]
    for text in texts:
        yield typesetter.paragraph(text, indent=3, hanging=5)


def _encoding_text(layers: Layers) -> str:
    values = ", ".join(f"{name} {brief_text(param.value)}" for name, param in layers.params.items())
    return f"{layers.scheme}: {values}" if values else layers.scheme


def _factor_texts(layers: Layers) -> Iterator[str]:
    if "attention_factor" in layers.derived:
        yield f"attention factor {layers.derived['attention_factor'].value:.10g}"
    if "softmax_multiplier" in layers.derived:
        yield f"logits × {layers.derived['softmax_multiplier'].value:.10g} by the softmax scale"


def _differences(view: EngineView) -> Iterator[str]:
    """Yield the differences of a view from the first: its parameters, then its numbers."""
    if view.apart is None:
        yield _encoding_text(view.layers)
        yield f"not compared with A: {view.why_not}"
        return
    first, own = (bound.params for bound in view.apart.worst.bounds)
    if view.apart.sides[0].scheme is not view.apart.sides[1].scheme:
        yield _encoding_text(view.layers)
    else:
        fixed = view.apart.sides[0].given.keys() ^ view.apart.sides[1].given.keys()
        parameters = view.apart.sides[0].scheme.parameters if view.apart.sides[0].scheme else {}
        for name in differing_parameters(view.apart):
            one, other = brief_text(own.get(name)), brief_text(first.get(name))
            if name in fixed and parameters[name].rules.follows_length:
                kept = one if name in view.layers.params else f"{other} in A"
                yield f"{name} {kept}, whatever the length"
            else:
                yield f"{name} {one}, not {other}"
    yield from _number_differences(view.apart)


def differing_parameters(comparison: RotationComparison) -> list[str]:
    """Return the parameters that differ between two rotations."""
    first, own = (bound.params for bound in comparison.worst.bounds)
    return [name for name in dict.fromkeys([*first, *own]) if first.get(name) != own.get(name)]


def _number_differences(comparison: RotationComparison) -> Iterator[str]:
    """Yield the differences of two rotations at the length that differs most."""
    worst = comparison.worst
    difference = worst.difference
    where = f" for {worst.seq_len} positions" if worst.seq_len else ""
    if difference.worst is not None:
        yield (
            f"{len(difference.pairs)} of {difference.count} frequencies "
            f"differ{'s' * (len(difference.pairs) == 1)}{where}, by up to "
            f"×{size_text(difference.worst.apart)} (pair {difference.worst.index})"
        )
    elif comparison.goes_on:
        yield "frequencies equal A's at the compared lengths; other lengths were not compared"
    else:
        yield "every frequency equals A's"
    if not difference.within(SAME) and difference.scales[0] != difference.scales[1]:
        first, own = difference.scales
        yield f"attention factor {own:.10g}{where}, not {first:.10g}"
    if not comparison.same_softmax:
        first, own = comparison.softmax_factors
        yield f"logits × {own:.10g} by the softmax scale, not × {first:.10g}"
    if not difference.alike or not comparison.same_axes:
        yield "the layout, or the axes that pairs follow, differs"
    if equal := [
        str(length.seq_len)
        for length in comparison.lengths
        if length.seq_len and length.difference.within(SAME)
    ]:
        yield f"equal to A for sequences of {', '.join(equal)} positions"


def _reasons(view: EngineView, result: EngineViews) -> Iterator[str]:
    """Yield what each engine of a view does differently, and the source of that."""
    for reading in result.readings:
        if reading.runtime.name in view.engines:
            for departure in reading.departures:
                yield f"{reading.runtime.name} {departure.what} ({short_place(departure.evidence)})"


def short_place(evidence: str) -> str:
    """Return the source of a departure, without the parts that its engine's name implies.

    >>> short_place("https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/models/gpt_oss.py")
    'vllm/models/gpt_oss.py'
    >>> short_place("https://github.com/ggml-org/llama.cpp/pull/17945")
    'ggml-org/llama.cpp/pull/17945'
    """
    _, blob, path = evidence.partition("/blob/")
    return path.partition("/")[2] if blob else evidence.removeprefix("https://github.com/")


def _uncompared_engines(result: EngineViews, *, otherwise: bool) -> Iterator[str]:
    """Group engines that refuse the config, or read it differently (``otherwise``), by reason."""
    reasons = items_by_key(
        (reading.refusal, reading.runtime.name)
        for reading in result.readings
        if reading.resolved is None and reading.traced and reading.otherwise is otherwise
    )
    for reason, names in reasons.items():
        yield f"{', '.join(names)}: {reason}"
    if names := [
        reading.runtime.name
        for reading in result.readings
        if reading.resolved is None and not reading.traced and not otherwise
    ]:
        yield f"{', '.join(names)}: code not checked for this model"


def engine_views_fields(result: EngineViews) -> dict[str, Any]:
    """Return the JSON fields besides transformers' reading: engines, and views by layers."""
    return {
        "agree": result.agree,
        "compared": list(COMPARED),
        "tolerance": SAME,
        "engines": list(map(_reading_fields, result.readings)),
        "views": [
            {
                "layer_type": kind.layers.layer_type,
                "layers": list(kind.layers.layers),
                "views": list(map(_view_fields, kind.views)),
            }
            for kind in result.kinds
        ],
    }


def _reading_fields(reading: EngineReading) -> dict[str, Any]:
    resolved = reading.resolved
    return {
        "name": reading.runtime.name,
        "version": reading.runtime.version,
        "read": resolved is not None,
        "traced": reading.traced,
        "otherwise": reading.otherwise,
        "reason": reading.refusal or None,
        "departures": [
            {"topic": each.topic, "what": each.what, "evidence": each.evidence}
            for each in reading.departures
        ],
        "layers": [
            {
                "layer_type": layers.layer_type,
                "scheme": layers.scheme,
                "params": {name: param.as_dict() for name, param in layers.params.items()},
            }
            for layers in (resolved.layers if resolved else ())
        ],
    }


def _view_fields(view: EngineView) -> dict[str, Any]:
    layers = view.layers
    return {
        "engines": list(view.engines),
        "scheme": layers.scheme,
        "params": {name: param.as_dict() for name, param in layers.params.items()},
        "derived": {name: value.as_dict() for name, value in layers.derived.items()},
        "apart": None if view.apart is None else _apart_fields(view.apart),
        "not_compared": view.why_not or None,
    }


def _apart_fields(comparison: RotationComparison) -> dict[str, Any]:
    worst = comparison.worst
    pair = worst.difference.worst
    return {
        "of": comparison.sides[0].runtime,
        "params": differing_parameters(comparison),
        "seq_len": worst.seq_len,
        "all_lengths": not comparison.goes_on,
        "differing": len(worst.difference.pairs),
        "count": worst.difference.count,
        "largest_factor": pair.apart if pair and math.isfinite(pair.apart) else None,
        "pair": None if pair is None else pair.index,
        "attention_factors": list(worst.difference.scales),
        "softmax_factors": list(comparison.softmax_factors),
        "layouts": list(worst.difference.layouts),
        "same_axes": worst.difference.alike and comparison.same_axes,
    }
