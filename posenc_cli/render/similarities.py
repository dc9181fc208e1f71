"""How similarities are shown: as a map, as a curve by offset, in words, and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.profile import Profile
from posenc_cli.analysis.similarity import SEED, finite_or_none
from posenc_cli.records import replace
from posenc_cli.render.figure import Axis, Curve, Curves, Heatmap, Panels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from posenc_cli.analysis.similarity import Similarity
    from posenc_cli.analysis.verdict import Verdict
    from posenc_cli.render.figure import Figure

_POINTS = 1200
"""Points of a curve: about what a figure in a file can show apart."""

_IN_JSON = 64
"""Rows and columns of the map in JSON."""

_OFFSETS_IN_JSON = 1 << 14
"""Offsets in JSON, at most."""

_NEARLY = 0.01
"""Of the peak: a spread that the eye does not see."""


def matrix_figure(similarity: Similarity, *, brief: bool = False, averaged: bool = True) -> Heatmap:
    """S as a map, of which only what is shown is computed; ``brief`` leaves words to others.

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
        title=similarity.name if brief else f"{similarity.name}: {similarity.quantity}",
        value_label=similarity.quantity,
        square=True,
        averaged=averaged,
    )


def profile_figure(
    similarity: Similarity, verdict: Verdict, *, most: int = _POINTS, brief: bool = False
) -> Curves:
    """S by offset; where it is even, from offset 0 on.

    Of more offsets than ``most``, the curve is the highest and the lowest value of each
    few, so that no swing is lost; and where S does not depend on the offset alone, the mean goes
    with the extremes. Where offsets were left out of a sample, it breaks.
    """
    shown = verdict.offsets >= 0 if verdict.symmetric else np.ones(len(verdict.offsets), bool)
    offsets = verdict.offsets[shown]
    notes = () if verdict.measured_all else (_sample_size(verdict),)
    breaks = np.zeros(0, np.int64)
    if not verdict.measured_all:
        apart = np.diff(offsets)
        breaks = np.flatnonzero(apart > apart.min(initial=apart.max(initial=0))) + 1
    deviation = similarity.deviation(verdict.offsets)
    named = {"": verdict.profile}
    if not verdict.toeplitz:
        named = {"mean": verdict.profile, "highest": verdict.most, "lowest": verdict.least}
    if deviation is not None:
        high, low = verdict.profile + deviation, verdict.profile - deviation
        named = {"mean": verdict.profile, "+ 1 sd": high, "− 1 sd": low}
    curves = []
    if len(offsets) <= most or deviation is not None:
        listed = np.unique(np.linspace(0, len(offsets) - 1, most).round().astype(np.int64))
        if len(offsets) > most:  # means and deviations are smooth: some points are enough
            offsets, breaks = offsets[listed], np.zeros(0, np.int64)
            named = {name: values[shown][listed] for name, values in named.items()}
            shown = np.ones(len(offsets), bool)
        curves = [
            _curve(offsets, values[shown], name, breaks=breaks) for name, values in named.items()
        ]
    else:
        size = -(-len(offsets) // most)
        notes = (f"highest and lowest of each {size} offsets", *notes)
        starts = np.union1d(np.arange(0, len(offsets), size), breaks)
        breaks = np.searchsorted(starts, breaks)
        extremes = (("highest", verdict.most, np.fmax), ("lowest", verdict.least, np.fmin))
        curves = [
            _curve(offsets[starts], of_each.reduceat(values[shown], starts), name, breaks=breaks)
            for name, values, of_each in extremes
        ]
    levels: tuple[tuple[float, str], ...] = ()
    if verdict.half_of == "value" and verdict.peak > 0:
        levels = ((verdict.peak / 2, "half"),)
    return Curves(
        tuple(curves),
        title=similarity.name if brief else f"{similarity.name}: {similarity.quantity}, by offset",
        x_label="offset m − n",
        y_label=similarity.quantity,
        levels=levels,
        notes=notes,
        filled=((1, 2),) if deviation is not None else (),
    )


def maps_figure(judged: Sequence[tuple[Similarity, Verdict]]) -> Heatmap | Panels:
    """The maps of some similarities, side by side."""
    maps = tuple(matrix_figure(similarity, brief=len(judged) > 1) for similarity, _ in judged)
    return maps[0] if len(maps) == 1 else Panels(maps, title=_title(judged), shared=False)


def similarity_figure(
    judged: Sequence[tuple[Similarity, Verdict]], *, profile_alone: bool = False
) -> Figure:
    """The maps and the curves of some similarities, side by side."""
    several = len(judged) > 1
    curves = tuple(
        profile_figure(similarity, verdict, brief=several) for similarity, verdict in judged
    )
    if profile_alone and not several:
        return curves[0]
    maps = (
        ()
        if profile_alone
        else tuple(matrix_figure(similarity, brief=several) for similarity, _ in judged)
    )
    if not several:
        title = _title(judged)
        panels = replace(maps[0], title="by position"), replace(curves[0], title="by offset")
        return Panels(panels, title=title, shared=False)
    return Panels((*maps, *curves), title=_title(judged), shared=False)


def _title(judged: Sequence[tuple[Similarity, Verdict]]) -> str:
    if len(judged) == 1:
        return f"{judged[0][0].name}: {judged[0][0].quantity}"
    return f"similarity of positions: {', '.join(similarity.name for similarity, _ in judged)}"


def sentences(similarity: Similarity, verdict: Verdict) -> list[str]:
    """The verdict in words."""
    deviation = similarity.deviation(verdict.offsets)
    decay = (
        _on_decay(similarity, verdict) if deviation is None else _on_deviation(verdict, deviation)
    )
    shows = [_SHOWS[similarity.content]] if similarity.content else []
    return [_on_offsets(verdict), _on_symmetry(verdict), decay, *shows]


_SHOWS = {
    "ones": "content ones: q and k are the same in every column; this shows how like vectors part "
    "with distance, and not what unlike ones do (--content independent)",
    "random": f"content random: q and k are one normal draw, seed {SEED}; this shows how a vector "
    "meets itself, and not what two drawn apart do (--content independent)",
    "independent": "content independent: q and k are normal and drawn apart, by formula, not "
    "sampled; this shows what position does to unlike vectors, and not what it does to like "
    "ones (--content ones)",
}
"""What each content shows of a rotary scheme, and what it does not."""


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


def similarity_fields(similarity: Similarity, verdict: Verdict) -> Mapping[str, Any]:
    """A similarity and its verdict as JSON has them; what is not finite is null."""
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
        "all_offsets": len(verdict.offsets)
        if similarity.step is None
        else 2 * similarity.count - 1,
        "profile": finite_or_none(verdict.profile[listed]),
        "extremes": extremes,
        "deviation": None if deviation is None else finite_or_none(deviation),
        "toeplitz": verdict.toeplitz,
        "toeplitz_spread": verdict.spread if math.isfinite(verdict.spread) else None,
        "tolerance": verdict.tolerance if math.isfinite(verdict.tolerance) else None,
        "evidence": _evidence(verdict),
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


def _curve(
    x: NDArray[np.int64], y: NDArray[np.float64], name: str, *, breaks: NDArray[np.intp]
) -> Curve:
    """A curve that is not joined to the points ``breaks`` from those before them."""
    x = np.insert(x, breaks, x[breaks])
    y = np.insert(y, breaks, np.nan)
    return Curve(tuple(x.tolist()), tuple(y.tolist()), name)


def _evidence(verdict: Verdict) -> str:
    """What ``toeplitz`` rests on: a proof, all pairs of positions, or some."""
    if verdict.proof is not None:
        return "declaration"
    return "measured" if verdict.measured_all else "sample"


def _sample_size(verdict: Verdict) -> str:
    """How many of the pairs a sample has."""
    return f"{verdict.pairs} of {verdict.all_pairs} pairs, from start to end"


def _on_offsets(verdict: Verdict) -> str:
    question = "depends only on m − n"
    if verdict.proof is not None:
        return f"{question}: yes, by its declaration ({verdict.proof})"
    looked = f"all {verdict.pairs} pairs" if verdict.pairs > 1 else "the only pair"
    if not verdict.measured_all:
        looked = _sample_size(verdict)
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
    if not verdict.peak > 0:
        return f"decay: none to speak of, from the {start}"
    if reached:
        first = "first " if verdict.half_distance is not None else ""
        return f"decay: falls below half of the {start} {first}{where}"
    return f"decay: stays above half of the {start}, {searched}"
