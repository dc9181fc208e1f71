"""Report attention heads as text, figure and JSON.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.head_patterns.heads import (
    DIGITS,
    FittedHead,
    HeadFinding,
    HeadResult,
    LengthResult,
)
from posenc_cli.budget import LISTED_VALUES, check_size
from posenc_cli.formulas.context_extension.stretches import NONE
from posenc_cli.positions import range_texts
from posenc_cli.records import items_by_key, replace
from posenc_cli.render.figure import Curve, Curves, Panels, check_distinguishable, distinct_names
from posenc_cli.render.figures.encoded import parameters_text, sourced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.render.typesetting import Typesetter

_MOST_OFFSETS = 128
"""The first offsets, shown as a curve: with more, a wave of six positions looks like a band."""
_FEW = 2
"""The most encodings whose attention one line names."""
_SHARE_DIGITS = 3


def heads_fields(results: Sequence[HeadResult], findings: Sequence[HeadFinding]) -> dict[str, Any]:
    """Return the results for JSON."""
    head = results[0].head
    learned = sum(len(result.head.pairs) + result.head.basis.size for result in results)
    check_size("the heads", learned, LISTED_VALUES, "learned numbers in JSON")
    required: dict[str, Any] = {}
    if findings:
        required["ok"] = all(finding.ok for finding in findings)
        required["requirements"] = [finding.fields for finding in findings]
    return {
        "train": head.trained,
        "l2": head.l2,
        **required,
        "results": [_result_fields(result) for result in results],
    }


def _result_fields(result: HeadResult) -> dict[str, Any]:
    head = result.head
    source = {"source": head.source} if head.source else {}
    return {
        "scheme": head.scheme,
        **source,
        "stretch": result.stretch,
        "target": head.target.name,
        "lengths": [
            {**length.as_dict(), "untrained": list(length.untrained)} for length in result.lengths
        ],
        "l2": head.l2,
        "params": dict(head.bound.params),
        "weights": head.random_weights,
        "free": head.free,
        "queries": head.queries,
        "cross_entropy": _rounded(head.optimum.cross_entropy),
        "gradient_below": head.optimum.gradient,
        "slow_share": None if head.slow_share is None else _rounded(head.slow_share),
        "learned": _learned_fields(head),
    }


def _learned_fields(head: FittedHead) -> dict[str, Any]:
    """Return the learned values, if they are meaningful by themselves."""
    numbers = [_rounded(number) for number in head.optimum.numbers.tolist()]
    if head.pairs:
        return {
            "pairs": [
                {
                    "wavelength": pair.wavelength if math.isfinite(pair.wavelength) else None,
                    "cosine": _rounded(pair.cosine),
                    "sine": _rounded(pair.sine),
                    "amplitude": _rounded(pair.amplitude),
                }
                for pair in head.pairs
            ]
        }
    if head.basis.buckets is not None:
        return {"buckets": head.basis.buckets.tolist(), "scores": numbers}
    return {"amplitude": numbers[0]} if len(numbers) == 1 else {}


def _rounded(number: float) -> float:
    return round(number, DIGITS) + 0.0  # no negative zero


def heads_text(
    results: Sequence[HeadResult],
    findings: Sequence[HeadFinding],
    typesetter: Typesetter,
    *,
    pictured: bool = False,
) -> str:
    """Return the results for a reader: requirements, a table of each target, and notes.

    If the results are ``pictured``, notes that the picture has are left out.
    """
    names = _names_by_head(results)
    groups = items_by_key((result.head.target.name, result) for result in results).values()
    head = [*(_finding_text(finding, names) for finding in findings)]
    head += map(_attention_sentence, groups)
    tables = [_target_text(group, typesetter) for group in groups]
    legend = _legend(results, pictured=pictured)
    above, below = ("\n".join(map(typesetter.paragraph, texts)) for texts in (head, legend))
    return "\n\n".join([above, *tables, below])


def _attention_sentence(results: Sequence[HeadResult]) -> str:
    """Describe the attention on a target at the longest length, or the extremes of many."""
    texts: dict[str, float] = {}
    for name, result in zip(_head_names(results), results, strict=True):
        stretch, mass = f", {result.stretch}" * (result.stretch != NONE), result.lengths[-1].mass
        if mass is not None:
            texts[f"{name}{stretch} {_share_text(mass)}"] = mass
    if len(texts) > _FEW:
        most, least = (choose(texts, key=texts.__getitem__) for choose in (max, min))
        texts = {f"{most} (most)": 1, f"{least} (least)": 0}
    head, longest = results[0].head, results[0].lengths[-1].length
    return f"attention on {head.target.name} at {longest} positions: {'; '.join(texts)}"


def _target_text(results: Sequence[HeadResult], typesetter: Typesetter) -> str:
    head = results[0].head
    lengths = [str(result.length) for result in results[0].lengths]
    stretched = any(result.stretch != NONE for result in results)
    header = ["scheme", *(["stretch"] if stretched else []), *lengths]
    rows = [
        [name, *([result.stretch] if stretched else []), *map(_entry_text, result.lengths)]
        for name, result in zip(_head_names(results), results, strict=True)
    ]
    left_out = head.trained - head.queries
    without = ""
    if left_out:
        verb = "has none and is" if left_out == 1 else "have none and are"
        without = f"; {head.target.without} {verb} left out"
    meaning = f"{head.target.name}: {head.target.meaning}{without}"
    return f"{typesetter.paragraph(meaning)}\n{typesetter.table(header, rows)}"


def _distinct_heads(results: Sequence[HeadResult]) -> list[FittedHead]:
    return [*{id(result.head): result.head for result in results}.values()]


def _names_by_head(results: Sequence[HeadResult]) -> dict[int, str]:
    """Return a unique name for each head, by its id: letters distinguish encodings of one name."""
    heads = _distinct_heads(results)
    return {
        id(head): name
        for group in items_by_key((head.target.name, head) for head in heads).values()
        for head, name in zip(group, distinct_names([h.name for h in group]), strict=True)
    }


def _head_names(results: Sequence[HeadResult]) -> list[str]:
    by_head = _names_by_head(results)
    return [by_head[id(result.head)] for result in results]


def _entry_text(result: LengthResult) -> str:
    if result.mass is None or result.right is None:
        return "-"
    right = str(int(result.right)) if result.right in (0, 1) else _share_text(result.right)
    return f"{_share_text(result.mass)} {right}"


def _share_text(share: float) -> str:
    """Format a share in three decimals that never round to 0 or 1.

    >>> [_share_text(share) for share in (0.0001, 0.25, 0.9999)]
    ['<.001', '.250', '>.999']
    """
    least = 10.0**-_SHARE_DIGITS
    if share < least:
        return "<.001"
    return ">.999" if share > 1 - least else f"{share:.{_SHARE_DIGITS}f}".lstrip("0")


def _finding_text(finding: HeadFinding, names: Mapping[int, str]) -> str:
    required = finding.requirement
    if finding.ok:
        return f"ok: {required.text}"
    values = []
    for result in finding.failing:
        value = getattr(result.at(required.length_of(result.head.trained)), required.measure)
        stretch = "" if result.stretch == NONE else f", {result.stretch}"
        values.append(f"{names[id(result.head)]}{stretch}: {'nothing' if value is None else value}")
    return f"FAILED: {required.text}: {'; '.join(values)}"


def _legend(results: Sequence[HeadResult], *, pictured: bool) -> list[str]:
    """Return the meaning of the table's entries, and their basis."""
    head, heads = results[0].head, _distinct_heads(results)
    meaning = (
        f"each entry: mean attention on the target keys, share of the last {head.trained} queries "
        f"whose largest score is on a target key; fitted below position {head.trained}, "
        f"l2 = {head.l2:g}"
    )
    names = _names_by_head(results)
    drawn = [f"{names[id(head)]}: {head.random_weights}" for head in heads if head.random_weights]
    untrained = [_untrained_text(result, names[id(result.head)]) for result in results]
    rest = [] if pictured else _fit_notes(results)
    return [*dict.fromkeys(filter(None, [meaning, *rest, *untrained, *drawn]))]


def _fit_notes(results: Sequence[HeadResult]) -> list[str]:
    head, names = results[0].head, _names_by_head(results)
    stretches = ", ".join(dict.fromkeys(r.stretch for r in results if r.stretch != NONE))
    stretched = f"{stretches}: applied at test time, with the factor length / {head.trained}"
    slow = [_slow_text(head, names[id(head)]) for head in _distinct_heads(results)]
    return [stretched * bool(stretches), *slow]


def _slow_text(head: FittedHead, name: str) -> str:
    """Return the share of the learned values in pairs that complete no rotation in training."""
    if head.slow_share is None:
        return ""
    slow = sum(pair.wavelength > head.trained for pair in head.pairs)
    share = {0.0: "none", 1.0: "all"}.get(head.slow_share) or _share_text(head.slow_share)
    return (
        f"{name}, {head.target.name}: {slow} of {len(head.pairs)} wavelengths exceed "
        f"{head.trained} ({share} of the squared amplitude)"
    )


def _untrained_text(result: HeadResult, name: str) -> str:
    """Name the buckets that occur at a length but never in training."""
    untrained = [length for length in result.lengths if length.untrained]
    if not untrained:
        return ""
    first = untrained[0]
    buckets = ", ".join(range_texts(first.untrained))
    several = len(first.untrained) > 1
    which = f"buckets {buckets} do" if several else f"bucket {buckets} does"
    return (
        f"{name}: {which} not occur in training. From length {first.length} on, "
        f"{'they get' if several else 'it gets'} the score 0."
    )


def heads_figure(results: Sequence[HeadResult]) -> Curves | Panels:
    """Return the learned values: scores by offset, with the amplitudes of pairs if there are any.

    Raises: InvalidInput if heads are too many to distinguish.
    """
    longest = max(length.length for length in results[0].lengths)
    curves = [
        _score_curves(name, result, longest)
        for name, result in zip(_head_names(results), results, strict=True)
    ]
    kernel = _scores_figure([*chain.from_iterable(curves)], results, longest)
    pairs = _amplitude_figure(results, [0, *accumulate(map(len, curves))])
    if pairs is None:
        return kernel
    scores = replace(kernel, title="scores by offset", notes=())
    return Panels((scores, pairs), title=kernel.title, shared=False, notes=kernel.notes)


def _head_label(head: FittedHead) -> str:
    """Return the text that identifies a head: model or config, scheme and parameters."""
    tables = head.basis.buckets is not None
    parameters = parameters_text(
        head.bound,
        weights=not tables,
        apart_from=("seed", "weights") if tables else (),
    )
    return sourced(f"{head.scheme} ({parameters})".removesuffix(" ()"), head.source)


def _scores_figure(curves: Sequence[Curve], results: Sequence[HeadResult], longest: int) -> Curves:
    names, heads, head = _head_names(results), _distinct_heads(results), results[0].head
    check_distinguishable(range(len(curves)))
    notes = [f"fitted on positions below {head.trained}, l2 = {head.l2:g}"]
    if longest > _MOST_OFFSETS:
        notes.append(f"the first {_MOST_OFFSETS} of {longest} offsets")
    if any(result.stretch != NONE for result in results):
        notes.append(f"extended by {longest / head.trained:g}")
    if len(heads) > 1:
        by_head = _names_by_head(results)
        notes += [by_head[id(each)].removesuffix(each.name) + _head_label(each) for each in heads]
    subject = ", ".join(dict.fromkeys(names)) if len(heads) > 1 else _head_label(head)
    return Curves(
        tuple(curves),
        f"{subject}: scores of a head that attends to {head.target.name}",
        x_label="offset i − j, in positions",
        y_label="score",
        spans=((0.0, float(min(head.trained, longest, _MOST_OFFSETS) - 1), "trained"),),
        notes=tuple(notes),
    )


def _score_curves(name: str, result: HeadResult, longest: int) -> list[Curve]:
    """Return the scores by offset of a query, or of two if they depend on more than the offset."""
    head = result.head
    label = name if result.stretch == NONE else f"{name}, {result.stretch}"
    queries = {longest - 1: label}
    if not head.encoding.at(longest).by_offset:
        last_positions = head.trained - 1, longest - 1
        queries = {query: f"{label}, query {query}" for query in dict.fromkeys(last_positions)}
    curves = []
    for query, text in queries.items():
        scores = head.last_scores(result.stretch, longest, query)[:_MOST_OFFSETS]
        curves.append(Curve.of(np.arange(scores.size), np.round(scores, DIGITS) + 0.0, text))
    return curves


def _amplitude_figure(results: Sequence[HeadResult], places: Sequence[int]) -> Curves | None:
    """Return the amplitude of each pair by its wavelength, or None if there are none.

    ``places`` are the color indices of their score curves.
    """
    curves: list[Curve] = []
    drawn: set[int] = set()
    wavelengths: list[float] = []
    for place, name, result in zip(places, _head_names(results), results, strict=False):
        pairs = [pair for pair in result.head.pairs if math.isfinite(pair.wavelength)]
        if pairs and id(result.head) not in drawn:
            drawn.add(id(result.head))
            pair_wavelengths = tuple(pair.wavelength for pair in pairs)
            wavelengths += pair_wavelengths
            heights = tuple(_rounded(pair.amplitude) for pair in pairs)
            curves.append(Curve(pair_wavelengths, heights, name, color=place))
    if not curves:
        return None
    of_head = f": {curves[0].name}" if len(curves) == 1 < len(_distinct_heads(results)) else ""
    whole_wavelengths = min(wavelengths), min(float(results[0].head.trained), max(wavelengths))
    return Curves(
        tuple(curves),
        f"amplitude of each pair{of_head}",
        x_label="wavelength, in positions",
        y_label="amplitude",
        x_scale="log",
        joined=False,
        spans=((*whole_wavelengths, "a whole wavelength in training"),)
        if whole_wavelengths[0] < whole_wavelengths[1]
        else (),
    )
