"""Similarities by offset as curves: of one encoding, or of several in one set of axes.

Imports NumPy: import it only where something is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.analysis.sampling import spread
from posenc_cli.analysis.similarity import DRAWS, SEED
from posenc_cli.records import Record, replace
from posenc_cli.render.figure import MOST_POINTS, Curve, Curves, Envelope
from posenc_cli.render.overlays import check_looks, grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.analysis.similarity import Similarity
    from posenc_cli.analysis.verdict import Verdict
    from posenc_cli.numerics.arrays import Integers

DRAWN_SHARES = 0.05, 0.95
"""Between which shares of many draws an envelope lies."""


class Judged(Record):
    """A similarity, the verdict on it, and what to call it.

    ``label`` says all that makes the encoding what it is, ``short`` what it was named by, and
    ``place`` which of all that are shown it is: its colour follows from that.
    """

    similarity: Similarity
    verdict: Verdict
    label: str
    short: str
    place: int = 0

    @property
    def title(self) -> str:
        """What a picture of it alone is of."""
        drawn = f", by offset of {DRAWS} draws" if self.similarity.is_drawn else ""
        return f"{self.label}: {self.similarity.quantity}{drawn}"

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean that is 0 everywhere, which makes no map."""
        return self.similarity.content == "independent"


def profile_figures(
    judged: Sequence[Judged], *, most: int = MOST_POINTS, bounded: bool = False
) -> list[Curves]:
    """S by offset: in one set of axes what is of one measure, in the order of the first of each.

    Where all are even, from offset 0 on. Of more offsets than ``most``, a curve is the mean of each
    few, with an envelope from the lowest to the highest, so that no swing is lost; so it is where S
    does not depend on the offset alone. Where offsets were left out of a sample, it breaks.

    ``bounded`` adds RoFormer's bounds, in axes of their own: they are many times as large.

    Raises: InvalidInput where more of them share axes than can be told apart.
    """
    groups = grouped(judged, lambda item: item.similarity.measure)
    figures = [_profiles(group, most) for group in groups]
    return figures + [figure for group in groups * bounded for figure in _bounds(group, most)]


def _profiles(group: Sequence[Judged], most: int) -> Curves:
    check_looks([item.place for item in group])
    mirrored = not all(item.verdict.symmetric for item in group)
    details = list(dict.fromkeys(item.similarity.detail for item in group))
    curves: list[Curve] = []
    notes: dict[str, None] = {}
    for item in group:
        drawn, more = _curves_of(item, most, item.short if group[1:] else "", mirrored=mirrored)
        curves += drawn
        if group[1:]:
            detail = "content random" if item.similarity.is_drawn else item.similarity.detail
            told = (item.label, detail if len(details) > 1 else "")
            notes[", ".join(filter(None, told))] = None
        notes |= dict.fromkeys(more)
    first = group[0]
    quantity = first.similarity.quantity if len(details) == 1 else first.similarity.measure
    if len(details) == 1 and first.similarity.is_drawn:
        quantity = f"{first.similarity.measure}, content random, {DRAWS} draws"
    verdict = first.verdict
    halved = verdict.half_of == "value" and verdict.peak > 0 and not first.similarity.is_drawn
    alone = len(group) == 1
    whose = first.label if alone else ", ".join(dict.fromkeys(item.short for item in group))
    return Curves(
        tuple(curves),
        title=f"{whose}: {quantity}, {by_offset(group)}",
        x_label="offset m − n",
        y_label=quantity,
        levels=((verdict.peak / 2, "half"),) if halved and alone else (),
        notes=tuple(notes),
    )


def _curves_of(
    item: Judged, most: int, label: str, *, mirrored: bool
) -> tuple[list[Curve], list[str]]:
    """The curve of one, with its envelope, and what must be said of it."""
    similarity, verdict = item.similarity, item.verdict
    shown = np.ones(len(verdict.offsets), bool) if mirrored else verdict.offsets >= 0
    offsets = verdict.offsets[shown]
    if similarity.deviation(offsets[:1]) is not None or similarity.draws(offsets[:1]) is not None:
        return _curves_of_draws(item, offsets, most, label)
    looked = looked_offsets(item)
    notes = [looked] if looked else [] if verdict.measured_all else [sample_size(verdict)]
    values, least, highest = (
        values[shown] for values in (verdict.profile, verdict.least, verdict.most)
    )
    breaks = np.zeros(0, np.int64)
    if not verdict.measured_all:
        apart = np.diff(offsets)
        breaks = np.flatnonzero(apart > apart.min(initial=apart.max(initial=0))) + 1
    if len(offsets) <= most:
        between = "" if verdict.toeplitz else "lowest to highest at each offset"
    else:
        size = -(-len(offsets) // most)
        between = f"lowest to highest of each {size} offsets{' looked at' * bool(looked)}"
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
    curve = Curve.parted(offsets, values, breaks, name, color=item.place)
    if between:
        low, high = (Curve.parted(offsets, side, breaks).y for side in (least, highest))
        curve = replace(curve, envelope=Envelope(low, high, between))
    return [curve], notes


def _curves_of_draws(
    item: Judged, offsets: Integers, most: int, label: str
) -> tuple[list[Curve], list[str]]:
    """The mean of many random contents, by formula or by drawing them, with an envelope."""
    count = len(offsets)
    offsets = offsets[spread(count, most)]
    every = item.similarity.offsets_in_all
    if looked_offsets(item) and every:
        count = every if offsets[0] < 0 else (every + 1) // 2
    notes = [] if len(offsets) == count else [f"at {len(offsets)} of {count} offsets"]
    deviation, draws = item.similarity.deviation(offsets), item.similarity.draws(offsets)
    first: list[Curve] = []
    if deviation is not None:
        mean = np.zeros(len(offsets))
        low, high, between = (
            mean - deviation,
            mean + deviation,
            "± 1 standard deviation, by formula",
        )
    else:
        assert draws is not None
        with np.errstate(invalid="ignore"):  # between infinite ones there is no share
            mean, (low, high) = draws.mean(axis=0), np.quantile(draws, DRAWN_SHARES, axis=0)
        between = f"5–95 % of {DRAWS} draws"
        if not label:
            first = [replace(Curve.of(offsets, draws[0], f"one draw, seed {SEED}"), thin=True)]
    envelope = Envelope(tuple(low.tolist()), tuple(high.tolist()), between)
    name = "mean" if deviation is not None else f"mean of {DRAWS} draws"
    name = f"{label}, {name}" if label else name
    curve = replace(Curve.of(offsets, mean, name), envelope=envelope)
    return [replace(curve, color=item.place) for curve in (curve, *first)], notes


def _bounds(group: Sequence[Judged], most: int) -> list[Curves]:
    """RoFormer's bounds on what is of one measure, or their shape where content is unknown."""
    mirrored = not all(item.verdict.symmetric for item in group)
    measure = group[0].similarity.measure
    known = [item for item in group if item.similarity.bound is not None and not item.is_mean]
    labels = {item.label for item in known}
    unknown = [item for item in group if item.is_mean and item.label not in labels]
    figures = []
    for items, name in ((known, f"RoFormer's bound on |{measure}|"), (unknown, "mean |S_i|")):
        if items:
            curves = [_bound_curve(item, most, mirrored=mirrored) for item in items]
            if len(curves) == 1 and not items[0].similarity.is_drawn:
                curves = [replace(curves[0], name="")]
            title = f"{', '.join(item.short for item in items)}: {name}, {by_offset(items)}"
            figures.append(Curves(tuple(curves), title, "offset m − n", name))
    return figures


def _bound_curve(item: Judged, most: int, *, mirrored: bool) -> Curve:
    bound, offsets = item.similarity.bound, item.verdict.offsets
    assert bound is not None
    offsets = offsets if mirrored else offsets[offsets >= 0]
    offsets = offsets[spread(len(offsets), most)]
    values = bound.average(offsets) * (1.0 if bound.constant is None else bound.constant)
    drawn = f", one draw, seed {SEED}" if item.similarity.is_drawn else ""
    return replace(Curve.of(offsets, values, f"{item.short}{drawn}"), color=item.place)


def by_offset(group: Sequence[Judged]) -> str:
    """What curves run over: whether some of the offsets were left out."""
    return "by a sample of offsets" if any(map(looked_offsets, group)) else "by offset"


def looked_offsets(item: Judged) -> str:
    """How many of the offsets were looked at, where some were left out of a profile."""
    count, every = len(item.verdict.offsets), item.similarity.offsets_in_all
    if item.verdict.proof is None or every is None or count == every:
        return ""
    return f"sample: {count} of {every} offsets looked at, from end to end"


def sample_size(verdict: Verdict) -> str:
    """How many of the pairs a sample has."""
    return f"{verdict.pairs} of {verdict.all_pairs} pairs, from start to end"
