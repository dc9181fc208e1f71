"""How similarities are shown: as a map, as a curve by offset, in words, and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.profile import Profile
from posenc_cli.analysis.similarity import DRAWS, SEED, finite_or_none
from posenc_cli.records import replace
from posenc_cli.render.figure import Axis, Heatmap, Panels
from posenc_cli.render.figures.encoded import label_of
from posenc_cli.render.figures.profiles import (
    DRAWN_SHARES,
    Judged,
    by_offset,
    profile_figures,
    sample_size,
)
from posenc_cli.render.overlays import distinct_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from posenc_cli.analysis.parts import SimilarityPart
    from posenc_cli.analysis.profile import RoFormerBound
    from posenc_cli.analysis.similarity import Similarity
    from posenc_cli.analysis.verdict import Verdict
    from posenc_cli.numerics.arrays import Integers
    from posenc_cli.render.figure import Figure

_IN_JSON = 64
"""Rows and columns of the map in JSON."""

_OFFSETS_IN_JSON = 1 << 14
"""Offsets in JSON, at most."""

_DRAWN_IN_JSON = 1 << 11
"""Offsets in JSON of which many draws are told, at most."""

_NEARLY = 0.01
"""Of the peak: a spread that the eye does not see."""


def matrix_figure(similarity: Similarity, *, averaged: bool = True) -> Heatmap:
    """S as a map, of which only what is shown is computed.

    Of more positions than there is room for, a cell has the mean of S over those it stands for
    where S is known by offset, so that no swing between them passes for a slow one; unless
    ``averaged`` is False.
    """
    single = similarity.positions.ranges[0] if len(similarity.positions.ranges) == 1 else None
    names = ("query", "key") if similarity.pairs_queries else ("position", "position")
    points: Sequence[Any] = single or similarity.positions_at(range(similarity.count)).tolist()
    averaged = averaged and isinstance(similarity.source, Profile) and similarity.step is not None
    return Heatmap(
        values=similarity.means if averaged else similarity.entries,
        rows=Axis(names[0], points, even=True),
        columns=Axis(names[1], points, even=True),
        title=f"{similarity.name}: {similarity.quantity}",
        value_label=similarity.quantity,
        square=True,
        averaged=averaged,
        drawn=similarity.sampled_blocks if averaged else None,
    )


def judged_of(parts: Sequence[SimilarityPart], verdicts: Sequence[Verdict]) -> list[Judged]:
    """Similarities with the verdicts on them and their names, in their order."""
    owners: dict[int, list[SimilarityPart]] = {}
    for part in parts:
        owners.setdefault(part.subject, []).append(part)
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


def maps_figure(judged: Sequence[Judged]) -> Heatmap | Panels:
    """The maps of some similarities, side by side; those of one measure have one colour scale."""
    maps = _maps(judged)
    return maps[0] if len(maps) == 1 else Panels(maps, title=_title(judged), shared=False)


def _maps(judged: Sequence[Judged]) -> tuple[Heatmap, ...]:
    shown = [item for item in judged if not item.is_mean]
    if len(judged) == 1:
        return tuple(replace(matrix_figure(item.similarity), title=item.title) for item in judged)
    details = {(item.similarity.measure, item.similarity.detail) for item in shown}
    several = len(details) > len({measure for measure, _ in details})
    return tuple(
        replace(
            matrix_figure(item.similarity),
            title=f"{item.label}, {item.similarity.detail}" if several else item.label,
            value_label=item.similarity.measure,
        )
        for item in shown
    )


def similarity_figure(
    judged: Sequence[Judged], *, profile_alone: bool = False, bounded: bool = False
) -> Figure:
    """The maps and the curves of some similarities, the curves of one measure in one set of axes.

    ``bounded`` adds RoFormer's bounds, in axes of their own.
    """
    curves = profile_figures(judged, bounded=bounded)
    maps = () if profile_alone else _maps(judged)
    if len(curves) == 1 and not maps:
        return curves[0]
    title = _title(judged)
    if len(judged) == 1:
        maps = tuple(replace(only, title="by position") for only in maps)
        titles = [by_offset(judged), *(curve.y_label for curve in curves[1:])]
        curves = [replace(each, title=title) for each, title in zip(curves, titles, strict=True)]
    return Panels((*maps, *curves), title=title, shared=False)


def _title(judged: Sequence[Judged]) -> str:
    if len(judged) == 1:
        return judged[0].title
    return f"similarity of positions: {', '.join(dict.fromkeys(item.short for item in judged))}"


def sentences(similarity: Similarity, verdict: Verdict, *, bounded: bool = False) -> list[str]:
    """The verdict in words; ``bounded`` says how near RoFormer's bound comes."""
    deviation = similarity.deviation(verdict.offsets)
    decay = (
        _on_decay(similarity, verdict) if deviation is None else _on_deviation(verdict, deviation)
    )
    shows = [SHOWS[similarity.content]] if similarity.content else []
    if bounded:
        shows += bound_sentences(similarity, verdict)
    return [_on_offsets(verdict), _on_symmetry(verdict), decay, *shows]


SHOWS = {
    "ones": "content ones: q and k are equal, 1 in every dimension; --content independent shows "
    "independent vectors",
    "random": f"content random: q and k are the same normal draw (seed {SEED}); the curve is of "
    f"{DRAWS} draws; --content independent shows independent ones",
    "independent": "content independent: q and k are independent normal vectors, by formula, not "
    "sampled; --content ones shows equal vectors",
}
"""What each content shows of a rotary scheme, and what it does not."""


def bound_sentences(similarity: Similarity, verdict: Verdict) -> list[str]:
    """How near RoFormer's bound comes to S, where there is one."""
    if similarity.bound is None:
        return []
    offsets = verdict.offsets[verdict.offsets >= 0]
    average = similarity.bound.average(offsets)
    name = "RoFormer's bound (Su et al. 2021, section 3.4.3)"
    ends = f"{average[0]:.4g} at offset 0 and {average[-1]:.4g} at {offsets[-1]}"
    if similarity.bound.constant is None:
        constant = "times what q and k draw; their deviation is the same at every offset"
        return [f"{name} of independent q and k: the mean of |S_i|, {ends}, {constant}"]
    bound = similarity.bound.constant * average
    sizes = np.abs(verdict.profile[verdict.offsets >= 0])
    with np.errstate(divide="ignore"):
        times = bound / sizes
    nearest = int(np.nanargmin(times))
    times_text = f"{similarity.bound.constant:.4g} times the mean of |S_i|, which is {ends}"
    where = f"{times[nearest]:.3g} times the value, at offset {offsets[nearest]}"
    looked = f"nearest, of {len(offsets)} offsets, it" if len(offsets) > 1 else "it"
    return [f"{name}: {times_text}; {looked} is {where}"]


def _on_deviation(verdict: Verdict, deviation: NDArray[np.float64]) -> str:
    """What means and deviations say of decay."""
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
    """A similarity and its verdict as JSON has them; what is not finite is null.

    ``bounded`` adds RoFormer's bound, null where there is none.
    """
    shown = matrix_figure(similarity, averaged=False).sample(_IN_JSON, _IN_JSON)
    # Every so many from the offset 0 on, which is among them.
    every = -(-len(verdict.offsets) // _OFFSETS_IN_JSON)
    listed = slice(int(np.searchsorted(verdict.offsets, 0)) % every, None, every)
    deviation = similarity.deviation(verdict.offsets[listed])
    extremes = None
    if not verdict.toeplitz:
        least, most = (finite_or_none(values[listed]) for values in (verdict.least, verdict.most))
        extremes = {"least": least, "most": most}
    return {
        "quantity": similarity.quantity,
        "offsets": verdict.offsets[listed].tolist(),
        "looked_offsets": len(verdict.offsets),
        "all_offsets": similarity.offsets_in_all or len(verdict.offsets),
        "profile": finite_or_none(verdict.profile[listed]),
        "extremes": extremes,
        "deviation": None if deviation is None else finite_or_none(deviation),
        "draws": _draws_fields(similarity, verdict),
        **({"bound": _bound_fields(similarity.bound, verdict.offsets[listed])} if bounded else {}),
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
        "half_of": verdict.half_of,
        "half_searched": verdict.half_searched,
        "half_within": verdict.half_within,
        "matrix": {
            "rows": list(shown.rows),
            "columns": list(shown.columns),
            "values": shown.fields()["values"],
        },
    }


def _bound_fields(bound: RoFormerBound | None, offsets: Integers) -> dict[str, Any] | None:
    """RoFormer's bound at some offsets: the mean of |S_i|, to be multiplied by its constant."""
    if bound is None:
        return None
    return {
        "source": "Su et al. 2021, section 3.4.3",
        "average": finite_or_none(bound.average(offsets)),
        "constant": bound.constant,
    }


def _draws_fields(similarity: Similarity, verdict: Verdict) -> dict[str, Any] | None:
    """What many random contents give at some of the offsets, as JSON has it."""
    every = -(-len(verdict.offsets) // _DRAWN_IN_JSON)
    offsets = verdict.offsets[int(np.searchsorted(verdict.offsets, 0)) % every :: every]
    draws = similarity.draws(offsets)
    if draws is None:
        return None
    with np.errstate(invalid="ignore"):  # between infinite ones there is no share
        low, high = np.quantile(draws, DRAWN_SHARES, axis=0)
    return {
        "count": len(draws),
        "seed": SEED,
        "shares": list(DRAWN_SHARES),
        "offsets": offsets.tolist(),
        "mean": finite_or_none(draws.mean(axis=0)),
        "low": finite_or_none(low),
        "high": finite_or_none(high),
    }


def evidence_of(verdict: Verdict) -> str:
    """What ``toeplitz`` rests on: a proof, all pairs of positions, or some."""
    if verdict.proof is not None:
        return "declaration"
    return "measured" if verdict.measured_all else "sample"


def _on_offsets(verdict: Verdict) -> str:
    question = "depends only on m − n"
    if verdict.proof is not None:
        return f"{question}: yes, by its declaration ({verdict.proof})"
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
    answer, least = "no", "" if verdict.measured_all else "at least "
    if verdict.peak > 0 and verdict.spread <= _NEARLY * verdict.peak:
        answer = "nearly"
    return (
        f"{question}: {answer}; at one offset values differ by {least}{verdict.spread:.3g}, where "
        f"rounding allows {verdict.tolerance:.2g} and the mean at offset 0 is {verdict.peak:.4g} "
        f"({looked})"
    )


def _on_symmetry(verdict: Verdict) -> str:
    answer = "yes" if verdict.symmetric else "no"
    return f"symmetric: {answer}"


def _on_decay(similarity: Similarity, verdict: Verdict) -> str:
    mean = "" if verdict.toeplitz else "mean "
    searched = f"up to offset {verdict.half_searched}"
    if verdict.half_searched < verdict.offsets[-1]:
        searched += "; of those beyond, some were looked at"
    if verdict.half_within is not None:
        where = f"past offset {verdict.half_searched}, and by {verdict.half_within}"
    else:
        where = f"at offset {verdict.half_distance}"
    reached = verdict.half_distance is not None or verdict.half_within is not None
    if similarity.of_scores:
        if reached:
            return f"decay: halves the weight of attention {where}"
        return f"decay: no offset halves the weight of attention, {searched}"
    start = f"{mean}value of {verdict.peak:.4g} at offset 0"
    if math.isnan(verdict.peak):
        return "decay: not told, since the mean at offset 0 is beyond float64 or of no number"
    if not verdict.peak > 0:
        return f"decay: none to speak of, from the {start}"
    if reached:
        first = "first " if verdict.half_distance is not None else ""
        return f"decay: falls below half of the {start} {first}{where}"
    return f"decay: stays above half of the {start}, {searched}"
