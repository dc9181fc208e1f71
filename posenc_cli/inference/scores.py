"""Hypotheses of biases on attention scores, and of one slope a head.

A bias is a number for each offset j − i, or for each key; which of the two is seen first, and then
which scheme gives such numbers.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.encode.engine import Engine
from posenc_cli.encode.precision import Precision
from posenc_cli.encode.scores import score_rule
from posenc_cli.files.source import release
from posenc_cli.inference.census import BLOCK_CELLS, Census, part_of
from posenc_cli.inference.slopes import rules_of, slopes
from posenc_cli.inference.tolerance import unit
from posenc_cli.inference.trial import (
    ARITHMETICS,
    Hypothesis,
    Trial,
    bits_of_difference,
    formats_of,
)
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.numerics.rounding import narrow, round_to, widen
from posenc_cli.records import Record, replace
from posenc_cli.schemes.alibi import slopes_of_heads
from posenc_cli.schemes.buckets import RULES
from posenc_cli.schemes.inverse import KNOWN_BASES, snap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from posenc_cli.encode.request import Encoding
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import (
        Flags,
        HeadMatrices,
        Integers,
        NumberArray,
        RealRows,
        Reals,
    )
    from posenc_cli.numerics.dtypes import DType

_MASKED = -1e9
"""A lower score is a mask's: no bias comes near it."""
_SAMPLED = 24
"""Rows of queries that are looked at first."""
_BUCKETS = (32, 16, 64, 8, 128, 256, 48, 24, 12, 40, 20)
_DISTANCES = (128, 256, 64, 512, 32, 1024, 2048, 20, 16, 100, 200)
"""Numbers of buckets and largest distances that are tried: T5's own first, then usual ones."""
_HEADS = (8, 12, 16, 32, 6, 4, 2, 1, 24, 20, 40, 48, 64, 96, 112, 128)
"""Numbers of heads that models have, the commonest first."""
_MOST_HEADS = 256
"""Of a bias: models have up to 128, and each head of each candidate is computed."""
_FEW_NUMBERS = 2
"""As many numbers as an identity or a mask has, which no learned table would."""
_WRONG_OF = 16
"""One cell in so many to the right of a causal mask may hold anything."""


class BiasProfile(Record):
    """A bias as a number for each offset j − i or each key. Shape: ``values`` (heads, indices).

    What a mask hides is NaN; ``causal`` says that keys to the right hold 0 in its place.
    ``scatter`` is the largest difference of cells that must be equal.
    """

    by: Literal["offset", "key"]
    indices: Integers
    values: RealRows
    keys: int
    queries: int
    single: bool
    scatter: float
    causal: bool = False

    @property
    def heads(self) -> int:
        """How many heads the array has."""
        return int(self.values.shape[0])


def profiles_of(evidence: Evidence) -> list[BiasProfile]:
    """The biases that an array may be, whose cells depend on the key, or on the offset, alone.

    One row of scores may be either; its query is then the last.
    """
    profiles = [_profile(evidence, by) for by in ("key", "offset")]
    return [profile for profile in profiles if profile is not None]


def _profile(evidence: Evidence, by: Literal["offset", "key"]) -> BiasProfile | None:
    array = evidence.arrays[0]
    if len(evidence.arrays) != 1 or array.dtype.kind == "c" or array.ndim not in (2, 3):
        return None
    single = array.ndim == 2
    cube = array[None] if single else array
    queries, keys = cube.shape[1:]
    if keys < 3 or queries not in (1, keys) or (single and queries == 1):
        return None
    if cube.shape[0] > _MOST_HEADS:
        return None
    for rows in _query_rows(queries):
        profile = _profile_of_rows(cube, rows, evidence, by)
        if profile is not None:
            return replace(profile, single=single)
    return None


def _query_rows(queries: int) -> Iterator[Integers]:
    """Rows that show a bias: some with the last; others, for one of the first may be damaged."""
    rows = np.unique(np.linspace(0, queries - 1, _SAMPLED).astype(np.int64))
    yield rows
    # The offsets that occur are all in the first and the last two rows.
    if queries > 2 * _SAMPLED:
        yield np.unique([1, *(rows[1:-1] + 1).tolist(), queries - 2])


def _profile_of_rows(
    cube: NumberArray,
    rows: Integers,
    evidence: Evidence,
    by: Literal["offset", "key"],
) -> BiasProfile | None:
    queries, keys = cube.shape[1:]
    sample = evidence.clean(np.asarray(cube[:, rows, :], np.float64)).copy()
    offsets = np.arange(keys)[None, :] - (rows + keys - queries)[:, None]  # (rows, keys)
    hidden = hidden_scores(sample)
    future = np.broadcast_to(offsets > 0, sample.shape)
    # A cell behind a mask may be damaged as well as any.
    few = _WRONG_OF * np.count_nonzero(sample[future]) < np.count_nonzero(future)
    causal = bool(not hidden.any() and queries > 1 and few and sample[~future].any())
    if causal:
        hidden = future.copy()
    sample[hidden] = np.nan
    if not np.isfinite(sample).any() or np.nanmax(sample) > -_MASKED:
        return None
    where = np.broadcast_to(np.arange(keys), offsets.shape) if by == "key" else offsets
    indices, values, scatter = _gather(sample, where)
    size = np.nanmax(np.abs(values)) if np.isfinite(values).any() else 0.0
    if not scatter <= 4 * unit(evidence.values.name) * size:
        return None
    return BiasProfile(by, indices, values, keys, queries, False, scatter, causal)


def hidden_scores(scores: NumberArray) -> Flags:
    """Which scores are so low that attention does not see their keys."""
    return np.asarray(scores < _MASKED)


def _gather(sample: HeadMatrices, where: Integers) -> tuple[Integers, RealRows, float]:
    """The value of each index, the same wherever it stands, and how far they are from that."""
    indices, inverse = np.unique(where, return_inverse=True)
    inverse = inverse.reshape(where.shape)
    heads = sample.shape[0]
    low, high = np.full((heads, indices.size), np.inf), np.full((heads, indices.size), -np.inf)
    for row in range(sample.shape[1]):
        at, values = inverse[row], sample[:, row]
        low[:, at] = np.fmin(low[:, at], values)
        high[:, at] = np.fmax(high[:, at], values)
    seen = np.isfinite(low)
    scatter = float((high[seen] - low[seen]).max()) if seen.any() else 0.0
    values = np.full(low.shape, np.nan)
    values[seen] = (low[seen] + high[seen]) / 2
    return indices, values, scatter


def bias_hypotheses(profile: BiasProfile, evidence: Evidence) -> Iterator[Hypothesis]:
    """What a bias may be; positions are the offsets or keys of the profile."""
    if profile.by == "offset":
        if not np.nan_to_num(profile.values).any():
            return
        few_numbers = np.unique(profile.values[np.isfinite(profile.values)]).size <= _FEW_NUMBERS
        yield from _linear(profile, evidence)
        yield from _kerple(profile, evidence)
        yield from _sandwich(profile, evidence)
        if not few_numbers:
            yield from _buckets(profile)
    else:
        yield from _by_key(profile, evidence)


def _hypothesis(
    scheme: str, given: dict[str, Any], profile: BiasProfile, cost: float, **rest: Any
) -> Hypothesis:
    own = {name: value for name, value in given.items() if name != "head"}
    head = given.get("head", 0 if profile.single else None)
    return Hypothesis(scheme, own, (None,), profile.indices, cost=cost, head=head, **rest)


def try_scores(hypothesis: Hypothesis, profile: BiasProfile | None, evidence: Evidence) -> Trial:
    """The trial of a bias, or of slopes, which have no profile."""
    encoding = hypothesis.encoding()
    if "weights" in hypothesis.hidden and profile is not None:
        # What a learned table holds is read off; that each bucket holds one value is the finding.
        rounded = formats_of(evidence)[0]
        return Trial(
            hypothesis,
            encoding.bound,
            profile.scatter,
            0.0,
            float(profile.scatter == 0),
            "exact",
            rounded,
            read_off=profile.values,
        )
    best: Trial | None = None
    # Slopes are numbers that are rounded once: there is no product that an arithmetic rounds.
    arithmetics = ARITHMETICS if profile is not None else ARITHMETICS[:1]
    for rounded in formats_of(evidence):
        for arithmetic in arithmetics:
            if best is not None and arithmetic != "exact" and best.equal == 1:
                continue
            trial = _scores_trial(
                hypothesis, encoding, profile, evidence, rounded=rounded, arithmetic=arithmetic
            )
            if best is None or (not best.fits and trial.fits) or trial.equal > best.equal + 0.05:
                best = trial if best is None or trial.fits or not best.fits else best
    assert best is not None
    return best


def _scores_trial(
    hypothesis: Hypothesis,
    encoding: Encoding,
    profile: BiasProfile | None,
    evidence: Evidence,
    *,
    rounded: DType,
    arithmetic: str,
) -> Trial:
    if profile is None:
        values = np.asarray(evidence.sample[0], np.float64)[:, None]  # (heads, 1)
        predicted = slope_values(encoding, rounded)[:, None]
    else:
        values = profile.values
        predicted = _index_scores(hypothesis, encoding, profile.indices, rounded, arithmetic)
    seen = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        difference = np.where(seen, np.abs(values - predicted), 0.0)  # (heads, indices)
    limit = _score_limits(encoding, np.where(seen, predicted, 0.0), rounded, arithmetic)
    fitting = difference <= limit
    return Trial(
        hypothesis,
        encoding.bound,
        float(difference.max()),
        float((difference / limit).max()),
        float((difference == 0).mean()),
        arithmetic,
        rounded,
        bits=bits_of_difference(difference, predicted, rounded),
        misfits=int((~fitting).any(axis=0).sum()),
        rows=values.shape[1] if profile is not None else values.shape[0],
    )


def slope_values(encoding: Encoding, rounded: DType) -> Reals:
    """The slopes of an encoding, correctly rounded. Shape: (heads,)."""
    params, content = encoding.bound.params, encoding.bound.content
    assert content.heads is not None
    exact = slopes(content.heads, max_bias=params["max_bias"], rule=params["slopes"])
    return widen(narrow(np.array(exact), None, rounded), rounded)


def _index_scores(
    hypothesis: Hypothesis,
    encoding: Encoding,
    indices: Integers,
    rounded: DType,
    arithmetic: str,
) -> RealRows:
    """The scores at offsets or keys, of the heads of the array. Shape: (heads, indices)."""
    content = encoding.bound.content
    assert content.heads is not None
    compute = score_rule(
        content,
        encoding.lookup,
        precision=Precision.of(rounded, None),
        engine=Engine(arithmetic=arithmetic),  # type: ignore[arg-type]
    )
    heads = range(content.heads) if hypothesis.head is None else (hypothesis.head,)
    return np.stack([widen(compute(head, indices), rounded) for head in heads])


def _score_limits(
    encoding: Encoding, predicted: RealRows, rounded: DType, arithmetic: str
) -> RealRows:
    """How far scores may be from those of an arithmetic. Shape: as ``predicted``."""
    content = encoding.bound.content
    assert content.heads is not None
    sizes = np.abs(predicted)
    relative = 2 * unit(rounded.name) + 3e-6 + 1e-7 * content.heads
    limit = relative * np.maximum(sizes, 1e-3 * sizes.max(axis=-1, keepdims=True)) + 1e-30
    if arithmetic == "bfloat16":
        limit = limit + 3 * unit("bfloat16") * sizes
    return np.asarray(limit, np.float64)


def score_census(trial: Trial, profile: BiasProfile | None, evidence: Evidence) -> Census:
    """What a bias, or slopes, leave over of all cells.

    Rows are those of queries, one head after another; what a mask hides is not compared.
    """
    encoding = trial.hypothesis.encoding()
    if profile is None:
        predicted = slope_values(encoding, trial.rounded)
        limits = _score_limits(encoding, predicted[:, None], trial.rounded, "exact")[:, 0]
        rows = np.arange(predicted.size)
        cells = evidence.clean(evidence.arrays[0])
        return part_of(cells, predicted, lambda: limits, rows, trial.rounded)
    keys, queries = profile.keys, profile.queries
    first = 0 if profile.by == "key" else 1 - keys
    indices = np.arange(first, keys, dtype=np.int64)
    if trial.read_off is None:
        scores = _index_scores(
            trial.hypothesis, encoding, indices, trial.rounded, trial.arithmetic
        )  # (heads, indices)
        limits = _score_limits(encoding, scores, trial.rounded, trial.arithmetic)
        if trial.equal == 1:
            limits = np.minimum(limits, 4 * unit(trial.rounded.name) * np.abs(scores) + 1e-30)
    else:
        scores = np.full((profile.heads, indices.size), np.nan)
        scores[:, profile.indices - first] = trial.read_off
        limits = np.full(scores.shape, trial.residual + 1e-30)
    mask = _mask_of(evidence, profile)
    at_once = max(1, BLOCK_CELLS // keys)
    total = Census()
    for head, start in itertools.product(range(profile.heads), range(0, queries, at_once)):
        query_slice = slice(start, min(start + at_once, queries))
        expected = scores[head], limits[head], trial.rounded, mask
        total = total.followed_by(_score_part(evidence, profile, expected, head, query_slice))
    return replace(total, queries=None if profile.single else queries)


class _Mask(Record):
    """Which offsets attention does not see, from the first, 1 − keys, on, and which keys."""

    offsets: Flags
    keys: Flags


def _mask_of(evidence: Evidence, profile: BiasProfile) -> _Mask:
    """The mask that low scores form: most cells of an offset, or a key for every query and head.

    A low score elsewhere is one that is wrong.
    """
    keys, queries, heads = profile.keys, profile.queries, profile.heads
    count = queries + keys - 1
    of_offset, of_key = np.zeros(count, np.int64), np.zeros(keys, np.int64)
    at_once = max(1, BLOCK_CELLS // keys)
    for head, start in itertools.product(range(heads), range(0, queries, at_once)):
        array = evidence.arrays[0] if profile.single else evidence.arrays[0][head]
        scores = array[start : start + at_once]
        rows, columns = np.nonzero(hidden_scores(scores))
        of_offset += np.bincount(columns - rows - start + queries - 1, minlength=count)
        of_key += np.bincount(columns, minlength=keys)
        release(scores)
    index = np.arange(count)
    lengths = np.minimum(np.minimum(index + 1, count - index), min(queries, keys))
    return _Mask(2 * of_offset > heads * lengths, of_key == heads * queries)


def _score_part(
    evidence: Evidence,
    profile: BiasProfile,
    expected: tuple[Reals, Reals, DType, _Mask],
    head: int,
    query_slice: slice,
) -> Census:
    """Some queries of a head beside their scores, with their limits, format and mask."""
    scores, limits, rounded, mask = expected
    array = evidence.arrays[0] if profile.single else evidence.arrays[0][head]
    stored = array[query_slice]
    cells = np.array(evidence.clean(np.asarray(stored, np.float64)))  # (queries, keys)
    queries = np.arange(query_slice.start, query_slice.stop)
    offsets = np.arange(profile.keys) - (queries + profile.keys - profile.queries)[:, None]
    where = offsets - (1 - profile.keys)
    if profile.by == "key":
        where = np.broadcast_to(np.arange(profile.keys), offsets.shape)
    predicted, allowed = scores[where], limits[where]
    hidden = hidden_scores(cells) & (mask.offsets[offsets - (1 - profile.keys)] | mask.keys)
    if profile.causal:
        predicted[offsets > 0] = 0.0
        hidden |= (offsets > 0) & (cells == 0)
    cells[hidden] = 0.0
    predicted[hidden] = 0.0
    rows = head * profile.queries + queries
    part = part_of(cells, predicted, lambda: allowed, rows, rounded)
    on_grid = evidence.on_grid(np.where(hidden, 0.0, stored))
    release(stored)
    count = int(hidden.sum())
    return replace(
        part,
        cells=part.cells - count,
        equal=part.equal - count,
        hidden=count,
        on_grid=on_grid,
    )


def _linear(profile: BiasProfile, evidence: Evidence) -> Iterator[Hypothesis]:
    """ALiBi, −m·|i − j|."""
    distances = np.abs(profile.indices)
    far = int(np.argmax(np.where(np.isfinite(profile.values[0]), distances, -1)))
    if distances[far] == 0:
        return
    head_slopes = -profile.values[:, far] / distances[far]
    for given, cost, notes in _slope_rules(head_slopes, evidence, single=profile.single):
        # Keys, not the last index seen, for a row of the ends may be damaged.
        extra = {**given, "form": "symmetric", "seq_len": profile.keys}
        yield _hypothesis("alibi", extra, profile, cost, notes=notes)


def _by_key(profile: BiasProfile, evidence: Evidence) -> Iterator[Hypothesis]:
    """ALiBi as BLOOM and MPT write it: a multiple of the key."""
    values = profile.values
    if not np.isfinite(values).all() or profile.keys < 2:
        return
    head_slopes = (values[:, -1] - values[:, 0]) / (profile.keys - 1)
    for form, zero in (("bloom", 0), ("mpt", -1)):
        if np.abs(values[:, zero]).max() <= 1e-6 * np.abs(values).max():
            for given, cost, notes in _slope_rules(head_slopes, evidence, single=profile.single):
                extra = {**given, "form": form}
                if form == "mpt":
                    extra["seq_len"] = profile.keys
                yield _hypothesis("alibi", extra, profile, cost, notes=notes)


def slope_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """What one row of numbers may be as slopes of ALiBi."""
    values = np.asarray(evidence.sample[0])
    if len(evidence.arrays) != 1 or values.ndim != 1 or values.dtype.kind == "c":
        return
    if not np.isfinite(values).all():
        return
    sign = -1.0 if (values < 0).all() else 1.0
    wrong = ("the slopes have the sign of the bias",) if sign < 0 else ()
    for given, cost, notes in _slope_rules(sign * values, evidence, single=False):
        yield Hypothesis(
            "alibi",
            given,
            ("slopes",),
            # As slopes before inverse frequencies of the same numbers.
            cost=cost - 0.2 + 3 * len(wrong),
            hidden=("form",),
            notes=notes,
            wrong=wrong,
        )


def _slope_rules(
    head_slopes: Reals, evidence: Evidence, *, single: bool
) -> Iterator[tuple[dict[str, Any], float, tuple[str, ...]]]:
    """Numbers of heads, largest biases and rules whose slopes these are."""
    if not np.isfinite(head_slopes).all() or (head_slopes <= 0).any():
        return
    limit = 3e-6 + 4 * unit(evidence.values.name) + head_slopes.size * 1e-7
    if single:
        yield from _one_slope(float(head_slopes[0]), limit)
        return
    for max_bias, rule, _ in rules_of(head_slopes.tolist(), limit):
        given: dict[str, Any] = {"heads": head_slopes.size, "max_bias": max_bias, "slopes": rule}
        yield given, 1.0 + 0.2 * (max_bias != 8.0), ()


def _one_slope(
    slope: float, limit: float
) -> Iterator[tuple[dict[str, Any], float, tuple[str, ...]]]:
    """Heads of usual numbers of heads that have a slope."""
    note = "one head: other numbers of heads have the same slope"
    for rank, heads in enumerate(_HEADS):
        near = np.abs(_slopes(heads, 8.0, "press") / slope - 1) <= limit
        if near.any():
            yield {"heads": heads, "head": int(np.argmax(near))}, 1.2 + 0.01 * rank, (note,)


def _slopes(heads: int, max_bias: float, rule: str) -> Reals:
    """The slopes of the heads, nearly: what posenc's exact ones are compared with first."""
    return np.asarray(slopes_of_heads(np, heads, max_bias=max_bias, rule=rule), np.float64)  # type: ignore[arg-type]


def _one_side(profile: BiasProfile) -> tuple[Reals, RealRows] | None:
    """The distances seen and the values at them, if both sides are alike."""
    distances = np.abs(profile.indices)
    seen = np.isfinite(profile.values).all(axis=0)
    left = seen & (profile.indices <= 0)
    if not left.any():
        return None
    order = np.argsort(distances[left], kind="stable")
    where, values = distances[left][order].astype(np.float64), profile.values[:, left][:, order]
    right = seen & (profile.indices > 0)
    if right.any():
        mirrored = profile.values[:, right]
        at = np.searchsorted(where, distances[right])
        at = np.minimum(at, where.size - 1)
        same = where[at] == distances[right]
        size = np.abs(values).max()
        if np.abs(mirrored[:, same] - values[:, at[same]]).max(initial=0) > 1e-5 * size:
            return None
    return where, values


def _kerple(profile: BiasProfile, evidence: Evidence) -> Iterator[Hypothesis]:
    sided = _one_side(profile)
    if sided is None:
        return
    where, values = sided
    if where.size < 3 or where[0] != 0 or where[1] != 1 or np.abs(values[:, 0]).max() > 1e-9:
        return
    slack = 4 * unit(evidence.values.name) * float(np.abs(values).max())
    if (values[:, 1:] >= 0).any() or (np.diff(values, axis=1) > slack).any():
        return
    small = 3 * unit(evidence.values.name) + 1e-9
    nearest = partial(_nearest_pair, where=where, dtype=evidence.values)
    powers = [nearest(row, _power_pairs(row, where, small), _power_scores) for row in -values]
    if all(0 < power <= 2 for _, power in powers):
        yield _kerple_hypothesis("kerple-power", powers, profile)
    logarithms = []
    for row in -values:
        pairs = list(_log_pairs(row, where, small))
        if not pairs:
            return
        logarithms.append(nearest(row, pairs, _log_scores))
    yield _kerple_hypothesis("kerple-log", logarithms, profile)


def _kerple_hypothesis(
    scheme: str, pairs: list[tuple[float, float]], profile: BiasProfile
) -> Hypothesis:
    strengths, others = (list(column) for column in zip(*pairs, strict=True))
    given = {"heads": profile.heads, "r1": _shared(strengths), "r2": _shared(others)}
    return _hypothesis(scheme, given, profile, 1.6)


def _power_scores(distances: Reals, r1: float, r2: float) -> Reals:
    return np.asarray(r1 * distances**r2)


def _log_scores(distances: Reals, r1: float, r2: float) -> Reals:
    return np.asarray(r1 * np.log1p(r2 * distances))


def _power_pairs(row: Reals, where: Reals, small: float) -> Iterator[tuple[float, float]]:
    """r1 and r2 of r1·d^r2, in few digits and as the first and the last distance give them."""
    reach = math.log(where[-1])
    power, strength = math.log(row[-1] / row[1]) / reach, float(row[1])
    for r2 in (snap(power, small / reach), power):
        yield snap(strength, small * strength), r2
        yield strength, r2


def _log_pairs(row: Reals, where: Reals, small: float) -> Iterator[tuple[float, float]]:
    """r1 and r2 of r1·ln(1 + r2·d), in few digits and as these distances give them."""
    scale, error = _log_scale(float(row[-1] / row[1]), float(where[-1]), small)
    for r2 in () if scale is None else (snap(scale, error), scale):
        strength = float(row[-1] / math.log1p(r2 * where[-1]))
        yield snap(strength, max(2 * small, error / r2) * strength), r2
        yield strength, r2


def _nearest_pair(
    row: Reals,
    pairs: Iterable[tuple[float, float]],
    scores: Callable[[Reals, float, float], Reals],
    *,
    where: Reals,
    dtype: DType,
) -> tuple[float, float]:
    """The first pair that none comes nearer than: few digits must not cost any cell.

    What float32 code rounds on the way is not counted as nearer; what needs no rounding is.
    """
    scores_of_pair = {pair: scores(where, *pair) for pair in pairs}
    for pair, unrounded in scores_of_pair.items():
        if np.array_equal(unrounded, row):
            return pair
    missed = {
        pair: float(np.abs(round_to(unrounded, FLOAT64, dtype) - row).max())
        for pair, unrounded in scores_of_pair.items()
    }
    noise = 2 * min(unit(dtype.name), unit("float32")) * float(np.abs(row).max())
    least = min(missed.values()) + noise
    return next(pair for pair, off in missed.items() if off <= least)


def _shared(values: list[float]) -> tuple[float, ...]:
    return tuple(values[:1]) if len(set(values)) == 1 else tuple(values)


def _log_scale(ratio: float, far: float, small: float) -> tuple[float | None, float]:
    """The scale a with ln(1 + a·far)/ln(1 + a) = ratio, and what it may be off by."""

    def missed(logarithm: float) -> float:
        scale = math.exp(logarithm)
        return math.log1p(scale * far) / math.log1p(scale) - ratio

    low, high = -30.0, 30.0
    if missed(low) < 0 or missed(high) > 0:
        return None, 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) > 0 else (low, middle)
    slope = abs(missed(low + 1e-4) - missed(low - 1e-4)) / 2e-4
    scale = math.exp(low)
    return scale, min(1.0, 2 * small * ratio / max(slope, 1e-12)) * scale


def _sandwich(profile: BiasProfile, evidence: Evidence) -> Iterator[Hypothesis]:
    sided = _one_side(profile)
    if sided is None:
        return
    where, values = sided
    heads = profile.heads
    limit = 4 * unit(evidence.values.name) + 1e-6
    if where.size < 3 or where[0] != 0:
        return
    for all_heads in (heads,) if not profile.single else (8, 12, 16, 1, 2, 4, 32):
        ratios = all_heads / (8 * np.arange(1, heads + 1))
        shared = values / ratios[:, None]
        if np.abs(shared - shared[:1]).max() > limit * max(np.abs(shared).max(), 1e-30):
            continue
        similarity = shared[0]
        few = slice(0, min(where.size, 64))
        for dim, convention in _sandwich_dims(similarity, single=profile.single):
            first = 2 if convention == "nemo" else 0
            index = np.arange(first, dim + first, 2) / dim
            for base in (*KNOWN_BASES, *_sandwich_bases(similarity, where, dim, first)):
                cosines = np.cos(np.multiply.outer(where[few], base**-index)).sum(axis=1)
                expected = cosines - (dim // 2 if convention == "nemo" else 0)
                if np.abs(expected - similarity[few]).max() <= 2 * limit * dim:
                    given = {
                        "heads": all_heads,
                        "dim": dim,
                        "base": base,
                        "convention": convention,
                    }
                    if profile.single:
                        given["head"] = 0
                    # Judgement: rarer than KERPLE; the paper's base first.
                    cost = 1.7 + 0.1 * (base != KNOWN_BASES[0])
                    yield _hypothesis("sandwich", given, profile, cost)
                    break


def _sandwich_dims(similarity: Reals, *, single: bool) -> Iterator[tuple[int, str]]:
    start = float(similarity[0])
    if start > 0.5 and abs(start - round(start)) <= 1e-2 * start:
        yield 2 * round(start), "sinusoidal"
    if not single and abs(start) <= 1e-6 * float(np.abs(similarity).max()):
        for dim in range(2, 513, 2):
            yield dim, "nemo"


def _sandwich_bases(similarity: Reals, where: Reals, dim: int, first: int) -> Iterator[float]:
    """The base that the value at the smallest distance asks for: it grows with the base."""
    index = np.arange(first, dim + first, 2) / dim
    target = float(similarity[1]) + (dim // 2 if first else 0)

    def value(logarithm: float) -> float:
        return float(np.cos(where[1] * np.exp(-logarithm * index)).sum()) - target

    low, high = 0.01, 40.0
    if value(low) > 0 or value(high) < 0 or first:
        return
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if value(middle) > 0 else (middle, high)
    base = math.exp(low)
    for error in (1e-3, 1e-5):
        yield snap(base, error * base)


def _buckets(profile: BiasProfile) -> Iterator[Hypothesis]:
    """Learned biases: one value for all offsets of a bucket, and fewer buckets than offsets."""
    seen = np.isfinite(profile.values).all(axis=0)
    offsets = profile.indices[seen]
    if not offsets.size or profile.indices[0] > 1 - profile.keys:
        return
    heads = "1 head" if profile.heads == 1 else f"{profile.heads} heads"
    bucketings = list(_bucketings(offsets, profile.values[:, seen]))
    fewest = sorted(bucketings, key=lambda each: each[0])
    for rank, (count, scheme, given) in enumerate(fewest[:8]):
        settled = {"heads": profile.heads, **given}
        # By how few buckets there are; a rule with one an offset explains any table.
        cost = 2.0 + 0.01 * rank + (0.5 if count == offsets.size else 0.0)
        for seed in range(4):
            yield _hypothesis(scheme, {**settled, "seed": seed}, profile, cost)
        # Where every offset has a value of its own, any rule of buckets gives it.
        if count < offsets.size:
            yield _hypothesis(
                scheme,
                settled,
                profile,
                cost + 0.5,
                hidden=("seed", "weights"),
                notes=(f"a learned table: {count} of its rows show here, for {heads}",),
            )


def _bucketings(offsets: Integers, values: RealRows) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Rules by which all offsets of a bucket have one value, and how many buckets that makes."""
    rule = RULES["t5"]
    changes = (np.diff(values, axis=1) != 0).any(axis=0)  # (offsets - 1,)
    for both, number, distance in itertools.product((True, False), _BUCKETS, _DISTANCES):
        given = {"num_buckets": number, "max_distance": distance, "bidirectional": both}
        single = number // (4 if both else 2)
        if single >= 1 and distance > single:
            _, bucket = rule.bind(given)
            steps = np.diff(np.asarray(bucket(np, offsets))) != 0  # a bucket's offsets are a run
            if not (changes & ~steps).any():
                yield int(steps.sum()) + 1, "t5", given
    nearer = np.minimum(np.abs(offsets[:-1]), np.abs(offsets[1:]))  # of each two neighbours
    side = max(int(nearer[changes].max(initial=0)) + 1, 1)
    count = int(np.unique(np.clip(offsets, -side, side)).size)
    yield count, "t5-clipped", {"max_distance": side}
