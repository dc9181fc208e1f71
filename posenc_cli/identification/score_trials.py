"""Biases beside what a hypothesis gives: on what was looked at, then on every cell.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.scores import score_rule
from posenc_cli.files.source import release
from posenc_cli.identification.exhaustive_check import BLOCK_CELLS
from posenc_cli.identification.score_profiles import hidden_scores
from posenc_cli.inference.differences import Census, part_of
from posenc_cli.inference.tolerance import unit
from posenc_cli.inference.trial import ARITHMETICS, Trial, formats_of
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from posenc_cli.encoding.request import Encoding
    from posenc_cli.identification.score_profiles import BiasProfile
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.inference.trial import Hypothesis
    from posenc_cli.numerics.arrays import Flags, Integers, RealRows, Reals
    from posenc_cli.numerics.dtypes import DType


_FEW, _FAR = 7, 0.05
"""Indices that are looked at before all, and what is far off of the largest score."""


def try_scores(hypothesis: Hypothesis, profile: BiasProfile, evidence: Evidence) -> Trial:
    """The trial of a bias, with the format and the arithmetic that explain it best."""
    encoding, formats = hypothesis.encoding(), formats_of(evidence)
    if "weights" in hypothesis.hidden:
        # What a learned table holds is read off; that each bucket holds one value is the finding.
        same = profile.scatter == 0
        off = (profile.scatter, 0.0 if same else np.inf, float(same), "exact", formats[0])
        misfits = int(not same)
        return Trial(hypothesis, encoding.bound, *off, misfits=misfits, read_off=profile.values)
    best: Trial | None = None
    seen = np.isfinite(profile.values)
    some = np.unique(np.linspace(0, profile.indices.size - 1, _FEW).astype(np.int64))
    ways = ARITHMETICS if encoding.bound.content.network is None else ARITHMETICS[:1]
    for rounded, arithmetic in itertools.product(formats, ways):
        if best is not None and arithmetic != "exact" and best.equal == 1:
            continue
        if best is None:
            few = _index_scores(hypothesis, encoding, profile.indices[some], rounded, arithmetic)
            missed = np.where(seen[:, some], np.abs(profile.values[:, some] - few), 0)
            if np.median(missed) > _FAR * np.nanmax(np.abs(profile.values)):
                off = (np.inf, np.inf, 0.0, arithmetic, rounded)
                return Trial(hypothesis, encoding.bound, *off, misfits=1)
        predicted = _index_scores(hypothesis, encoding, profile.indices, rounded, arithmetic)
        limit = _score_limits(encoding, np.where(seen, predicted, 0.0), rounded, arithmetic)
        cells = np.where(seen, profile.values, predicted)
        rows = np.arange(profile.indices.size)
        part = part_of(
            *(cells.T, predicted.T, partial(np.transpose, limit), rows, rounded),
            quantum=evidence.quantum,
        )
        trial = Trial.of(hypothesis, encoding.bound, [part], arithmetic, rounded)
        believed = best is None or trial.fits or not best.fits
        if best is None or trial.fits > best.fits or (believed and trial.equal > best.equal + 0.05):
            best = trial
    assert best is not None
    return best


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
    scores = np.stack([widen(compute(head, indices), rounded) for head in heads])
    if hypothesis.multiplier == 1:
        return scores
    return widen(narrow(scores * hypothesis.multiplier, None, rounded), rounded)


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


def score_census(trial: Trial, profile: BiasProfile, evidence: Evidence) -> Census:
    """What a bias leaves over of all cells.

    Rows are those of queries, one head after another; what a mask hides is not compared.
    """
    encoding = trial.hypothesis.encoding()
    keys, queries = profile.keys, profile.queries
    indices = profile.every
    if trial.read_off is None:
        scores = _index_scores(
            trial.hypothesis, encoding, indices, trial.rounded, trial.arithmetic
        )  # (heads, indices)
        limits = _score_limits(encoding, scores, trial.rounded, trial.arithmetic)
        if trial.equal == 1:
            limits = np.minimum(limits, 4 * unit(trial.rounded.name) * np.abs(scores) + 1e-30)
    else:
        scores = np.full((profile.heads, indices.size), np.nan)
        scores[:, np.searchsorted(indices, profile.indices)] = trial.read_off
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
    where = profile.places(offsets)
    predicted, allowed = scores[where], limits[where]
    hidden = hidden_scores(cells) & (mask.offsets[offsets - (1 - profile.keys)] | mask.keys)
    if profile.causal:
        predicted[offsets > 0] = 0.0
        hidden |= (offsets > 0) & (cells == 0)
    cells[hidden] = 0.0
    predicted[hidden] = 0.0
    rows = head * profile.queries + queries
    part = part_of(cells, predicted, lambda: allowed, rows, rounded, quantum=evidence.quantum)
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
