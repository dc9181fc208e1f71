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


def matrix_figure(of: Similarity, *, brief: bool = False, averaged: bool = True) -> Heatmap:
    """S as a map, of which only what is shown is computed; ``brief`` leaves words to others.

    Of more positions than there is room for, a cell has the mean of S over those it stands for
    where S is known by offset, so that no swing between them passes for a slow one; unless
    ``averaged`` is False.
    """
    single = of.positions.ranges[0] if len(of.positions.ranges) == 1 else None
    names = ("query", "key") if of.pairs_queries else ("position", "position")
    points: Sequence[Any] = single or of.positions_at(range(of.count)).tolist()
    averaged = averaged and isinstance(of.source, Profile) and of.step is not None
    return Heatmap(
        values=of.means if averaged else of.entries,
        rows=Axis(names[0], points, even=True),
        columns=Axis(names[1], points, even=True),
        title=of.name if brief else f"{of.name}: {of.quantity}",
        value_label=of.quantity,
        square=True,
        averaged=averaged,
    )


def profile_figure(
    of: Similarity, found: Verdict, *, most: int = _POINTS, brief: bool = False
) -> Curves:
    """S by offset; where it is even, from offset 0 on.

    Of more offsets than ``most``, the curve is the highest and the lowest value of each
    few, so that no swing is lost; and where S does not depend on the offset alone, the mean goes
    with the extremes. Where offsets were left out of a sample, it breaks.
    """
    shown = found.offsets >= 0 if found.symmetric else np.ones(len(found.offsets), bool)
    offsets = found.offsets[shown]
    notes = () if found.measured_all else (_looked_at(found),)
    breaks = np.zeros(0, np.int64)
    if not found.measured_all:
        apart = np.diff(offsets)
        breaks = np.flatnonzero(apart > apart.min(initial=apart.max(initial=0))) + 1
    deviation = of.deviation(found.offsets)
    named = {"": found.profile}
    if not found.toeplitz:
        named = {"mean": found.profile, "highest": found.most, "lowest": found.least}
    if deviation is not None:
        high, low = found.profile + deviation, found.profile - deviation
        named = {"mean": found.profile, "+ 1 sd": high, "− 1 sd": low}
    curves = []
    if len(offsets) <= most or deviation is not None:
        some = np.unique(np.linspace(0, len(offsets) - 1, most).round().astype(np.int64))
        if len(offsets) > most:  # means and deviations are smooth: some points are enough
            offsets, breaks = offsets[some], np.zeros(0, np.int64)
            named = {name: values[shown][some] for name, values in named.items()}
            shown = np.ones(len(offsets), bool)
        curves = [
            _curve(offsets, values[shown], name, breaks=breaks) for name, values in named.items()
        ]
    else:
        size = -(-len(offsets) // most)
        notes = (f"highest and lowest of each {size} offsets", *notes)
        starts = np.union1d(np.arange(0, len(offsets), size), breaks)
        breaks = np.searchsorted(starts, breaks)
        extremes = (("highest", found.most, np.fmax), ("lowest", found.least, np.fmin))
        curves = [
            _curve(offsets[starts], of_each.reduceat(values[shown], starts), name, breaks=breaks)
            for name, values, of_each in extremes
        ]
    levels: tuple[tuple[float, str], ...] = ()
    if found.half_of == "value" and found.peak > 0:
        levels = ((found.peak / 2, "half"),)
    return Curves(
        tuple(curves),
        title=of.name if brief else f"{of.name}: {of.quantity}, by offset",
        x_label="offset m − n",
        y_label=of.quantity,
        levels=levels,
        notes=notes,
        filled=((1, 2),) if deviation is not None else (),
    )


def maps_figure(each: Sequence[tuple[Similarity, Verdict]]) -> Heatmap | Panels:
    """The maps of some similarities, side by side."""
    maps = tuple(matrix_figure(of, brief=len(each) > 1) for of, _ in each)
    return maps[0] if len(maps) == 1 else Panels(maps, title=_title(each), shared=False)


def similarity_figure(
    each: Sequence[tuple[Similarity, Verdict]], *, profile_alone: bool = False
) -> Figure:
    """The maps and the curves of some similarities, side by side."""
    several = len(each) > 1
    curves = tuple(profile_figure(of, found, brief=several) for of, found in each)
    if profile_alone and not several:
        return curves[0]
    maps = () if profile_alone else tuple(matrix_figure(of, brief=several) for of, _ in each)
    if not several:
        title = _title(each)
        panels = replace(maps[0], title="by position"), replace(curves[0], title="by offset")
        return Panels(panels, title=title, shared=False)
    return Panels((*maps, *curves), title=_title(each), shared=False)


def _title(each: Sequence[tuple[Similarity, Verdict]]) -> str:
    if len(each) == 1:
        return f"{each[0][0].name}: {each[0][0].quantity}"
    return f"similarity of positions: {', '.join(of.name for of, _ in each)}"


def sentences(of: Similarity, found: Verdict) -> list[str]:
    """The verdict in words."""
    deviation = of.deviation(found.offsets)
    decay = _on_decay(of, found) if deviation is None else _on_deviation(found, deviation)
    shows = [_SHOWS[of.content]] if of.content else []
    return [_on_offsets(found), _on_symmetry(found), decay, *shows]


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


def _on_deviation(found: Verdict, deviation: NDArray[np.float64]) -> str:
    """What means and deviations say of decay."""
    origin = int(np.searchsorted(found.offsets, 0))
    past, start = deviation[origin:], float(deviation[origin])
    told = f"the mean is {found.peak:.4g} at every offset, with a standard deviation of {start:.4g}"
    if not np.ptp(past):
        return f"decay: none; {told} at each"
    below = np.flatnonzero(past < start / 2)
    if not below.size:
        return f"decay: {told} at offset 0, which stays above half up to {found.offsets[-1]}"
    reached = int(found.offsets[origin + below[0]])
    return f"decay: {told} at offset 0, which falls below half by offset {reached}"


def similarity_fields(of: Similarity, found: Verdict) -> Mapping[str, Any]:
    """A similarity and its verdict as JSON has them; what is not finite is null."""
    shown = matrix_figure(of, averaged=False).shown(_IN_JSON, _IN_JSON)
    # Every so many from the offset 0 on, which is among them.
    every = -(-len(found.offsets) // _OFFSETS_IN_JSON)
    some = slice(int(np.searchsorted(found.offsets, 0)) % every, None, every)
    deviation = of.deviation(found.offsets[some])
    extremes = None
    if not found.toeplitz:
        least, most = (finite_or_none(values[some]) for values in (found.least, found.most))
        extremes = {"least": least, "most": most}
    return {
        "quantity": of.quantity,
        "offsets": found.offsets[some].tolist(),
        "all_offsets": 2 * of.count - 1 if of.step is not None else len(found.offsets),
        "profile": finite_or_none(found.profile[some]),
        "extremes": extremes,
        "deviation": None if deviation is None else finite_or_none(deviation),
        "toeplitz": found.toeplitz,
        "toeplitz_spread": found.spread if math.isfinite(found.spread) else None,
        "tolerance": found.tolerance if math.isfinite(found.tolerance) else None,
        "evidence": _evidence(found),
        "pairs": found.pairs,
        "all_pairs": found.all_pairs,
        "not_finite": found.dropped,
        "symmetric": found.symmetric,
        "peak": found.peak if math.isfinite(found.peak) else None,
        "half_distance": found.half_distance,
        "half_of": found.half_of,
        "half_searched": found.half_searched,
        "half_within": found.half_within,
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


def _evidence(found: Verdict) -> str:
    """What ``toeplitz`` rests on: a proof, all pairs of positions, or some."""
    if found.proof is not None:
        return "declaration"
    return "measured" if found.measured_all else "sample"


def _looked_at(found: Verdict) -> str:
    """How many of the pairs a sample has."""
    return f"{found.pairs} of {found.all_pairs} pairs, from start to end"


def _on_offsets(found: Verdict) -> str:
    question = "depends only on m − n"
    if found.proof is not None:
        return f"{question}: yes, by its declaration ({found.proof})"
    looked = f"all {found.pairs} pairs" if found.pairs > 1 else "the only pair"
    if not found.measured_all:
        looked = _looked_at(found)
    if found.toeplitz:
        answer = "yes" if found.measured_all else "yes, in the pairs looked at"
        return (
            f"{question}: {answer}; at one offset values differ by at most {found.spread:.2g}, and "
            f"rounding allows {found.tolerance:.2g} ({looked})"
        )
    if found.affine_rows:
        return (
            f"{question}: no, it is the same for every query; but each row is a line in n − m up "
            "to a constant, which softmax does not see"
        )
    answer, least = "no", "" if found.measured_all else "at least "
    if found.peak > 0 and found.spread <= _NEARLY * found.peak:
        answer = "nearly"
    return (
        f"{question}: {answer}; at one offset values differ by {least}{found.spread:.3g}, where "
        f"rounding allows {found.tolerance:.2g} and the mean at offset 0 is {found.peak:.4g} "
        f"({looked})"
    )


def _on_symmetry(found: Verdict) -> str:
    answer = "yes" if found.symmetric else "no"
    return f"symmetric: {answer}"


def _on_decay(of: Similarity, found: Verdict) -> str:
    mean = "" if found.toeplitz else "mean "
    searched = f"up to offset {found.half_searched}"
    if found.half_searched < found.offsets[-1]:
        searched += "; of those beyond, some were looked at"
    if found.half_within is not None:
        where = f"past offset {found.half_searched}, and by {found.half_within}"
    else:
        where = f"at offset {found.half_distance}"
    reached = found.half_distance is not None or found.half_within is not None
    if of.of_scores:
        if reached:
            return f"decay: halves the weight of attention {where}"
        return f"decay: no offset halves the weight of attention, {searched}"
    start = f"{mean}value of {found.peak:.4g} at offset 0"
    if not found.peak > 0:
        return f"decay: none to speak of, from the {start}"
    if reached:
        first = "first " if found.half_distance is not None else ""
        return f"decay: falls below half of the {start} {first}{where}"
    return f"decay: stays above half of the {start}, {searched}"
