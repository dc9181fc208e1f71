"""Report similarities as a map, as a curve over offsets, in words, and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.analysis.similarity import SEED, Similarity, SimilarityPart, finite_or_none
from posenc_cli.analysis.verdict import ProfileDifference, Verdict, profile_difference
from posenc_cli.records import Record, items_by_key, replace
from posenc_cli.render.figure import (
    MOST_POINTS,
    Axis,
    Curve,
    Curves,
    Envelope,
    Figure,
    Heatmap,
    Panels,
    check_distinguishable,
    distinct_names,
)
from posenc_cli.render.figures.encoded import label_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from posenc_cli.numerics.arrays import Integers


class Judged(Record):
    """A similarity, the verdict on it, and its names.

    ``label`` has all parameters of the encoding, ``short`` is its short name. ``place`` is its
    index among all shown, which determines its color.
    """

    similarity: Similarity
    verdict: Verdict
    label: str
    short: str
    place: int = 0

    @property
    def title(self) -> str:
        """The title of a picture that shows only this similarity."""
        return f"{self.label}: {self.similarity.quantity}"

    @property
    def is_mean(self) -> bool:
        """Whether the content is independent: the mean is 0 everywhere, so a map is empty."""
        return self.similarity.content == "independent"


def profile_figures(
    judged: Sequence[Judged], *, most: int = MOST_POINTS, bounded: bool = False
) -> list[Curves]:
    """Return S by offset: one set of axes per measure, in the order of the first of each.

    If all are even, offsets start at 0. With more offsets than ``most``, a point is the mean of
    several offsets, and an envelope from the lowest to the highest shows every oscillation. An
    envelope also appears if S does not depend only on the offset. A curve breaks where a sample
    left out offsets. ``bounded`` adds RoFormer's bounds in separate axes: they are many times as
    large.

    Raises: InvalidInput if more curves share axes than can be distinguished.
    """
    groups = [*items_by_key((item.similarity.measure, item) for item in judged).values()]
    figures = [_profile_figure(group, most) for group in groups]
    return figures + [
        figure for group in groups * bounded for figure in _bound_figures(group, most)
    ]


def _profile_figure(group: Sequence[Judged], most: int) -> Curves:
    check_distinguishable([item.place for item in group])
    mirrored = not all(item.verdict.symmetric for item in group)
    several = len({item.similarity.detail for item in group}) > 1
    curves: list[Curve] = []
    notes: dict[str, None] = {}
    for item in group:
        drawn, more = _profile_curves(
            item, most, item.short if group[1:] else "", mirrored=mirrored
        )
        curves += drawn
        if group[1:]:
            described = (item.label, item.similarity.detail * several)
            notes[", ".join(filter(None, described))] = None
        notes |= dict.fromkeys(more)
    first = group[0]
    measure, verdict = first.similarity.measure, first.verdict
    halved = not first.similarity.of_scores and verdict.peak > 0
    alone = len(group) == 1
    subject = first.label if alone else ", ".join(dict.fromkeys(item.short for item in group))
    return Curves(
        tuple(curves),
        title=f"{subject}: {measure if several else first.similarity.quantity}, by offset",
        x_label="offset m − n, query − key" if measure == "bias" else "offset m − n",
        y_label=measure,
        levels=((verdict.peak / 2, "half"),) if halved and alone else (),
        notes=tuple(notes),
    )


def _profile_curves(
    item: Judged, most: int, label: str, *, mirrored: bool
) -> tuple[list[Curve], list[str]]:
    """Return the curve of one similarity with its envelope, and its notes."""
    similarity, verdict = item.similarity, item.verdict
    shown = np.ones(len(verdict.offsets), bool) if mirrored else verdict.offsets >= 0
    offsets = verdict.offsets[shown]
    if similarity.deviation(offsets[:1]) is not None:
        return _deviation_curves(item, offsets, most, label)
    examined = examined_offsets(item)
    notes = [examined] if examined else [] if verdict.measured_all else [sample_size(verdict)]
    values, least, highest = (
        values[shown] for values in (verdict.profile, verdict.least, verdict.most)
    )
    breaks = np.zeros(0, np.int64)
    if not verdict.measured_all:
        steps = np.diff(offsets)
        breaks = np.flatnonzero(steps > steps.min(initial=steps.max(initial=0))) + 1
    if len(offsets) <= most:
        between = "" if verdict.toeplitz else "lowest to highest at each offset"
    else:
        size = -(-len(offsets) // most)
        between = f"lowest to highest of each {size} offsets"
        starts = np.array(sorted({*range(0, len(offsets), size), *breaks.tolist()}))
        breaks = np.searchsorted(starts, breaks)
        finite = np.add.reduceat(np.isfinite(values).astype(np.int64), starts)
        with np.errstate(invalid="ignore"):
            values = np.add.reduceat(np.nan_to_num(values), starts) / np.where(
                finite, finite, np.nan
            )
        least, highest = np.fmin.reduceat(least, starts), np.fmax.reduceat(highest, starts)
        offsets = offsets[starts]
    name = ", ".join(filter(None, [label, "mean" * bool(between)]))
    curve = Curve.with_breaks(offsets, values, breaks, name, color=item.place)
    if between:
        low, high = (Curve.with_breaks(offsets, side, breaks).y for side in (least, highest))
        curve = replace(curve, envelope=Envelope(low, high, between))
    return [curve], notes


def _deviation_curves(
    item: Judged, offsets: Integers, most: int, label: str
) -> tuple[list[Curve], list[str]]:
    """Return the curve of the mean of independent q and k, 0, with its standard deviation."""
    count = len(offsets)
    offsets = offsets[spread(count, most)]
    notes = [] if len(offsets) == count else [f"at {len(offsets)} of {count} offsets"]
    notes += filter(None, [examined_offsets(item)])
    deviation = item.similarity.deviation(offsets)
    assert deviation is not None
    low, high = tuple((-deviation).tolist()), tuple(deviation.tolist())
    envelope = Envelope(low, high, "± 1 standard deviation, by formula")
    curve = Curve.of(offsets, np.zeros(len(offsets)), f"{label}, mean" if label else "mean")
    return [replace(curve, envelope=envelope, color=item.place)], notes


def _bound_figures(group: Sequence[Judged], most: int) -> list[Curves]:
    """Return RoFormer's bounds for one measure, or the mean of |S_i| if the content is unknown."""
    mirrored = not all(item.verdict.symmetric for item in group)
    measure = group[0].similarity.measure
    with_bound = [item for item in group if item.similarity.bound is not None and not item.is_mean]
    labels = {item.label for item in with_bound}
    unknown = [item for item in group if item.is_mean and item.label not in labels]
    figures = []
    for items, name in ((with_bound, f"RoFormer's bound on |{measure}|"), (unknown, "mean |S_i|")):
        if items:
            curves = [_bound_curve(item, most, mirrored=mirrored) for item in items]
            if len(curves) == 1:
                curves = [replace(curves[0], name="")]
            title = f"{', '.join(item.short for item in items)}: {name}, by offset"
            figures.append(Curves(tuple(curves), title, "offset m − n", name))
    return figures


def _bound_curve(item: Judged, most: int, *, mirrored: bool) -> Curve:
    bound, offsets = item.similarity.bound, item.verdict.offsets
    assert bound is not None
    offsets = offsets if mirrored else offsets[offsets >= 0]
    offsets = offsets[spread(len(offsets), most)]
    values = bound.average(offsets) * (1.0 if bound.constant is None else bound.constant)
    return replace(Curve.of(offsets, values, item.short), color=item.place)


def examined_offsets(item: Judged) -> str:
    """Return the number of offsets examined, if some were left out of a profile."""
    count, total = len(item.verdict.offsets), item.similarity.offsets_in_all
    if item.verdict.proof is None or total is None or count == total:
        return ""
    return f"the {count} of {total} offsets nearest to 0"


def sample_size(verdict: Verdict) -> str:
    """Return the number of pairs in a sample, as text."""
    return f"{verdict.pairs} of {verdict.all_pairs} pairs, from start to end"


_IN_JSON = 64
"""Rows and columns of the map in JSON."""

_OFFSETS_IN_JSON = 1 << 14
"""The most offsets in JSON."""


def matrix_figure(similarity: Similarity, *, averaged: bool = True) -> Heatmap:
    """Return S as a map, computed only where it is shown.

    With more positions than fit, a cell is the mean of S over the positions it represents, if S is
    known by offset. So fast oscillations are not aliased to slow ones. ``averaged`` False turns
    this off.
    """
    single = similarity.positions.ranges[0] if len(similarity.positions.ranges) == 1 else None
    names = ("query", "key") if similarity.pairs_queries else ("position", "position")
    points: Sequence[Any] = single or similarity.positions_at(range(similarity.count)).tolist()
    averaged = averaged and similarity.has_means
    return Heatmap(
        values=similarity.means if averaged else similarity.entries,
        rows=Axis(names[0], points, even=True),
        columns=Axis(names[1], points, even=True),
        title=f"{similarity.name}: {similarity.quantity}",
        value_label=similarity.measure,
        square=True,
        averaged=averaged,
        graded=similarity.of_scores,
    )


def judged_of(parts: Sequence[SimilarityPart], verdicts: Sequence[Verdict]) -> list[Judged]:
    """Return similarities with their verdicts and names, in order."""
    owners = items_by_key((part.subject, part) for part in parts)
    shorts = [part[0].short for part in owners.values()]
    names = dict(zip(owners, distinct_names(shorts), strict=True))
    judged = []
    for place, (part, verdict) in enumerate(zip(parts, verdicts, strict=True)):
        similarity, short = part.similarity, names[part.subject]
        label = similarity.name if part.request is None else label_of(part.request, part.source)
        if short != part.short:
            label = f"{short.removesuffix(part.short)}{label}"
        if len(owners[part.subject]) > 1:
            short = f"{short} {similarity.content}"
        judged.append(Judged(similarity, verdict, label, short, place))
    return judged


def _similarity_maps(judged: Sequence[Judged]) -> tuple[Heatmap, ...]:
    shown = [item for item in judged if not item.is_mean]
    if len(judged) == 1:
        return tuple(replace(matrix_figure(item.similarity), title=item.title) for item in judged)
    details = {(item.similarity.measure, item.similarity.detail) for item in shown}
    several = len(details) > len({measure for measure, _ in details})
    return tuple(
        replace(
            matrix_figure(item.similarity),
            title=", ".join(filter(None, [item.label, item.similarity.detail * several])),
        )
        for item in shown
    )


def similarity_figure(
    judged: Sequence[Judged], *, profile_alone: bool = False, bounded: bool = False
) -> Figure:
    """Return the maps and curves of some similarities, with one set of axes per measure for curves.

    ``bounded`` adds RoFormer's bounds in separate axes.
    """
    curves = profile_figures(judged, bounded=bounded)
    maps = () if profile_alone else _similarity_maps(judged)
    if len(curves) == 1 and not maps:
        return curves[0]
    names = ", ".join(dict.fromkeys(item.short for item in judged))
    title = judged[0].title if len(judged) == 1 else f"similarity of positions: {names}"
    if len(judged) == 1:
        maps = tuple(replace(heatmap, title="by position") for heatmap in maps)
        titles = ["by offset", *(curve.y_label for curve in curves[1:])]
        curves = [replace(each, title=title) for each, title in zip(curves, titles, strict=True)]
    return Panels((*maps, *curves), title=title, shared=False)


def sentences(similarity: Similarity, verdict: Verdict, *, bounded: bool = False) -> list[str]:
    """Return the verdict in words; ``bounded`` adds RoFormer's bound."""
    deviation = similarity.deviation(verdict.offsets)
    decay = (
        _decay_sentence(similarity, verdict)
        if deviation is None
        else _deviation_sentence(verdict, deviation)
    )
    shows = [SHOWS[similarity.content]] if similarity.content else []
    if bounded:
        shows += bound_sentences(similarity, verdict)
    symmetric = f"symmetric: {'yes' if verdict.symmetric else 'no'}"
    return [_offset_sentence(verdict), symmetric, decay, *shows]


SHOWS = {
    "ones": "content ones: q and k are equal, 1 in every dimension; --content independent shows "
    "independent vectors",
    "random": f"content random: q and k are the same normal draw (seed {SEED}); "
    "--content independent shows independent ones",
    "independent": "content independent: q and k are independent normal vectors, by formula, not "
    "sampled; --content ones shows equal vectors",
}
"""What each content of a rotary scheme shows, and what it does not."""


def bound_sentences(similarity: Similarity, verdict: Verdict) -> list[str]:
    """Return RoFormer's bound of S in words, if there is one."""
    if similarity.bound is None:
        return []
    offsets = verdict.offsets[verdict.offsets >= 0]
    average = similarity.bound.average(offsets)
    name = "RoFormer's bound (Su et al. 2021, section 3.4.3)"
    ends = f"{average[0]:.4g} at offset 0 and {average[-1]:.4g} at {offsets[-1]}"
    if similarity.bound.constant is None:
        constant = "times what q and k draw; their deviation is the same at every offset"
        return [f"{name} of independent q and k: the mean of |S_i|, {ends}, {constant}"]
    return [f"{name}: {similarity.bound.constant:.4g} times the mean of |S_i|, which is {ends}"]


def _deviation_sentence(verdict: Verdict, deviation: NDArray[np.float64]) -> str:
    """Describe the decay from the mean and the standard deviations."""
    origin = int(np.searchsorted(verdict.offsets, 0))
    past, start = deviation[origin:], float(deviation[origin])
    start_text = (
        f"the mean is {verdict.peak:.4g} at every offset, with a standard deviation of {start:.4g}"
    )
    if not np.ptp(past):
        return f"decay: none; {start_text} at each"
    below = np.flatnonzero(past < start / 2)
    if not below.size:
        return (
            f"decay: {start_text} at offset 0, which stays above half up to {verdict.offsets[-1]}"
        )
    reached = int(verdict.offsets[origin + below[0]])
    return f"decay: {start_text} at offset 0, which falls below half by offset {reached}"


def similarity_fields(
    similarity: Similarity, verdict: Verdict, *, bounded: bool = False
) -> Mapping[str, Any]:
    """Return a similarity and its verdict for JSON; values that are not finite are null.

    ``bounded`` adds RoFormer's bound, null if there is none.
    """
    shown = matrix_figure(similarity, averaged=False).sample(_IN_JSON, _IN_JSON)
    # Every n-th offset, including 0.
    stride = -(-len(verdict.offsets) // _OFFSETS_IN_JSON)
    listed = slice(int(np.searchsorted(verdict.offsets, 0)) % stride, None, stride)
    deviation = similarity.deviation(verdict.offsets[listed])
    bound, extremes = similarity.bound, None
    if not verdict.toeplitz:
        least, most = (finite_or_none(values[listed]) for values in (verdict.least, verdict.most))
        extremes = {"least": least, "most": most}
    described = bound and {  # the bound is the mean of |S_i| times the constant
        "source": "Su et al. 2021, section 3.4.3",
        "average": finite_or_none(bound.average(verdict.offsets[listed])),
        "constant": bound.constant,
    }
    return {
        "quantity": similarity.quantity,
        "offsets": verdict.offsets[listed].tolist(),
        "looked_offsets": len(verdict.offsets),
        "all_offsets": similarity.offsets_in_all or len(verdict.offsets),
        "profile": finite_or_none(verdict.profile[listed]),
        "extremes": extremes,
        "deviation": None if deviation is None else finite_or_none(deviation),
        **({"bound": described} if bounded else {}),
        "toeplitz": verdict.toeplitz,
        "toeplitz_spread": verdict.spread if math.isfinite(verdict.spread) else None,
        "tolerance": verdict.tolerance if math.isfinite(verdict.tolerance) else None,
        "evidence": evidence_of(verdict),
        "pairs": verdict.pairs,
        "all_pairs": verdict.all_pairs,
        "not_finite": verdict.dropped,
        "symmetric": verdict.symmetric,
        "peak": verdict.peak if math.isfinite(verdict.peak) else None,
        "half_distance": verdict.half_distance,
        "half_of": "attention weight" if similarity.of_scores else "value",
        "half_searched": verdict.half_searched,
        "matrix": {
            "rows": list(shown.rows),
            "columns": list(shown.columns),
            "values": shown.fields()["values"],
        },
    }


def evidence_of(verdict: Verdict) -> str:
    """Return the evidence for ``toeplitz``: a proof, all pairs of positions, or a sample."""
    if verdict.proof is not None:
        return "declaration"
    return "measured" if verdict.measured_all else "sample"


def _offset_sentence(verdict: Verdict) -> str:
    question = "depends only on m − n"
    if verdict.proof is not None:
        return f"{question}: yes, by definition ({verdict.proof})"
    looked = f"all {verdict.pairs} pairs" if verdict.pairs > 1 else "the only pair"
    if not verdict.measured_all:
        looked = sample_size(verdict)
    if verdict.toeplitz:
        answer = "yes" if verdict.measured_all else "yes, in the pairs looked at"
        return (
            f"{question}: {answer}; at one offset values differ by at most {verdict.spread:.2g}, "
            f"and rounding allows {verdict.tolerance:.2g} ({looked})"
        )
    if verdict.affine_rows:
        return (
            f"{question}: no, it is the same for every query; but each row is a line in n − m up "
            "to a constant, which softmax does not see"
        )
    least = "" if verdict.measured_all else "at least "
    return (
        f"{question}: no; at one offset values differ by {least}{verdict.spread:.3g}, where "
        f"rounding allows {verdict.tolerance:.2g} and the mean at offset 0 is {verdict.peak:.4g} "
        f"({looked})"
    )


def _decay_sentence(similarity: Similarity, verdict: Verdict) -> str:
    mean = "" if verdict.toeplitz else "mean "
    searched = f"up to offset {verdict.half_searched}"
    if verdict.half_searched < verdict.offsets[-1]:
        searched += "; of those beyond, some were checked"
    where, reached = f"at offset {verdict.half_distance}", verdict.half_distance is not None
    if similarity.of_scores:
        if reached:
            return f"decay: the attention weight halves {where}"
        return f"decay: no offset halves the attention weight, {searched}"
    start = f"{mean}value at offset 0 ({verdict.peak:.4g})"
    if math.isnan(verdict.peak):
        return "decay: unknown, because the mean at offset 0 is not a float64 number"
    if not verdict.peak > 0:
        return f"decay: none, from the {start}"
    if reached:
        return f"decay: {where}, it first falls below half of the {start}"
    return f"decay: stays above half of the {start}, {searched}"


COLUMNS = ["", "m − n alone", "even", "at 0", "half at", "farthest from the first"]
_EVIDENCE = {"declaration": "declared", "measured": "measured", "sample": "in a sample"}


def differences_of(judged: Sequence[Judged]) -> list[ProfileDifference | None]:
    """Return how each similarity but the first differs from the first of its measure."""
    return [
        profile_difference(
            *((each.similarity, each.verdict) for each in (_first_of_measure(judged, item), item))
        )
        for item in judged[1:]
    ]


def _first_of_measure(judged: Sequence[Judged], item: Judged) -> Judged:
    return next(each for each in judged if each.similarity.measure == item.similarity.measure)


def verdict_rows(judged: Sequence[Judged]) -> list[list[str]]:
    """Return the rows of a table with `COLUMNS`."""
    differences = [None, *differences_of(judged)]
    return [
        _verdict_row(item, _first_of_measure(judged, item), difference)
        for item, difference in zip(judged, differences, strict=True)
    ]


def _verdict_row(
    item: Judged, reference: Judged, difference: ProfileDifference | None
) -> list[str]:
    verdict = item.verdict
    answer = f"{'yes' if verdict.toeplitz else 'no'}, {_EVIDENCE[evidence_of(verdict)]}"
    half = "never" if verdict.half_distance is None else str(verdict.half_distance)
    if item.similarity.of_scores and half != "never":
        half += " (weight)"
    if not verdict.peak > 0 and not item.similarity.of_scores:
        half = "–"
    difference_text = "" if item is reference else "–"
    if difference is not None and item is not reference:
        difference_text = (
            "same"
            if not difference.differing
            else (
                f"{difference.largest:+.3g} at {difference.at}; "
                f"{difference.differing} of {difference.offsets} differ"
            )
        )
    even = "yes" if verdict.symmetric else "no"
    return [item.short, answer, even, f"{verdict.peak:.4g}", half, difference_text]


def compared_sentences(judged: Sequence[Judged], *, bounded: bool = False) -> list[str]:
    """Return the lines below the table; ``bounded`` adds RoFormer's bounds."""
    differences = [difference for difference in differences_of(judged) if difference]
    contents = dict.fromkeys(
        item.similarity.content for item in judged if item.similarity.content is not None
    )
    lines: list[str] = []
    if any(item.similarity.of_scores for item in judged):
        lines.append("half at: the offset where S halves (for a bias: the attention weight)")
    if differences:
        statistic = "values" if all(difference.exact for difference in differences) else "means"
        where = "all offsets of both"
        if not all(difference.complete for difference in differences):
            where = "the offsets looked at, a sample"
        lines.append(f"farthest from the first of its measure: {statistic} by offset, at {where}")
    if bounded:
        lines += dict.fromkeys(
            f"{item.short}: {sentence}"
            for item in judged
            for sentence in bound_sentences(item.similarity, item.verdict)
        )
    return [*lines, *(SHOWS[content] for content in contents)]


def compared_fields_of(
    parts: Sequence[SimilarityPart], judged: Sequence[Judged], *, bounded: bool
) -> dict[str, Any]:
    """Return the request and results for JSON.

    For several encodings, these are the results of each and the differences. ``bounded`` adds
    RoFormer's bound.
    """
    fields = [
        {**part.fields, **similarity_fields(item.similarity, item.verdict, bounded=bounded)}
        for part, item in zip(parts, judged, strict=True)
    ]
    if len(fields) == 1:
        return fields[0]
    named = [{"name": item.label, **own} for item, own in zip(judged, fields, strict=True)]
    return {"parts": named, "differences": _difference_fields(judged)}


def _difference_fields(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    fields = []
    for item, difference in zip(judged[1:], differences_of(judged), strict=True):
        reference = _first_of_measure(judged, item)
        entry: dict[str, Any] = {"first": reference.place, "other": item.place}
        if difference is None or reference is item:
            fields.append({**entry, "compared": False})
            continue
        largest = difference.largest if math.isfinite(difference.largest) else None  # overflow
        fields.append({**entry, "compared": True, **difference.as_dict(), "largest": largest})
    return fields
