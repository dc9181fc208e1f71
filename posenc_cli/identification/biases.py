"""Propose attention biases for an array of scores.

The array is reduced to one number per offset j − i, key, or pair of places. The inverses of the
formulas then propose schemes.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.scores import score_rule
from posenc_cli.files.source import release
from posenc_cli.formulas.alibi import alibi, rules_of
from posenc_cli.formulas.inverse import Guess, MeasuredScores
from posenc_cli.identification.readings import row_of_numbers
from posenc_cli.inference.candidates import guesses_until_error, schemes_of
from posenc_cli.inference.fitting import median, spread
from posenc_cli.inference.tolerance import unit
from posenc_cli.inference.trial import (
    ARITHMETICS,
    Census,
    Hypothesis,
    Largest,
    Trial,
    compare_rows,
    formats_of,
)
from posenc_cli.numerics.dtypes import FLOAT64, DType
from posenc_cli.numerics.rounding import narrow, round_to, widen
from posenc_cli.positions import LARGEST_POSITION
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.encoding.request import Encoding
    from posenc_cli.formulas.declare import Scheme
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import (
        Flags,
        HeadMatrices,
        Integers,
        NumberArray,
        RealRows,
    )

    PairNumber = Callable[[Any, Integers, Integers], Integers]
    """An array namespace, queries and keys → the number of each pair of them."""

BLOCK_CELLS = 1 << 17
"""Entries compared at a time: few enough for all arrays of a block to fit in the cache."""
_SEEDS = 4
"""Seeds of posenc's own tables and networks to try, from 0 on. Chosen by judgement: few users set
others."""
_NETWORK_PARAMETERS: Mapping[str, tuple[Any, ...]] = {
    "pretrained_window_size": ((12, 12), (6, 6)),
    "hidden": (32, 512, 64, 16),
    "c": (1.0, 0.5),
}
"""Parameters of a drawn network to try instead of its defaults, one at a time."""
_THRESHOLDS = (512.0, 64.0, 128.0, 256.0, 1024.0)
"""FIRE's thresholds to try, in positions; the authors' own is first."""


def bias_hypotheses(profile: BiasProfile, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield the biases that a profile may be, at its offsets or keys."""
    measured = MeasuredScores(
        profile.by,
        profile.indices,
        profile.values,
        profile.keys,
        profile.single,
        4 * evidence.rounding,
        lambda values: round_to(values, FLOAT64, evidence.values),
    )
    for scheme in schemes_of("bias"):
        if scheme.inverse is not None:
            for guess in guesses_until_error(scheme, scheme.inverse(np, measured)):
                yield _hypothesis(scheme, guess, profile)


def _hypothesis(scheme: Scheme, guess: Guess, profile: BiasProfile) -> Hypothesis:
    return Hypothesis(
        scheme.name,
        guess.params,
        (None,),
        profile.indices,
        cost=guess.cost,
        hidden=guess.hidden,
        notes=guess.notes,
        uncertainty=guess.uncertainty,
        head=0 if profile.single and guess.head is None else guess.head,
        multiplier=guess.multiplier,
    )


def pair_hypotheses(
    evidence: Evidence, *, by_offset: bool
) -> Iterator[tuple[BiasProfile, list[Hypothesis]]]:
    """Yield biases that depend on two places of a window, or on a fraction of the query's position.

    Windows are not tried for a bias ``by_offset``, because any window would fit it.
    """
    for scheme in schemes_of("bias"):
        keys = evidence.shape[-1]
        for given in _numbering_parameters(scheme, keys, by_offset=by_offset):
            pairs = getattr(scheme.bind(given).content, "pairs", None)
            profile = pairs and profile_of(evidence, "pair", pairs.number)
            if profile is not None:
                guesses = _pair_guesses(scheme, given, profile)
                yield profile, [_hypothesis(scheme, guess, profile) for guess in guesses]


def _numbering_parameters(
    scheme: Scheme, keys: int, *, by_offset: bool
) -> Iterator[dict[str, Any]]:
    """Yield the parameters with which a scheme numbers the pairs of ``keys`` places."""
    if "threshold" in scheme.parameters:
        yield from ({"threshold": threshold} for threshold in _THRESHOLDS)
    if "window_size" not in scheme.parameters or by_offset:
        return
    for token in (False, True) if "class_token" in scheme.parameters else (False,):
        places = keys - token
        sides = [side for side in range(2, places // 2 + 1) if places % side == 0]
        for rows in sorted(sides, key=lambda side: abs(side - places // side)):
            yield {
                "window_size": (rows, places // rows),
                **({"class_token": True} if token else {}),
            }


def _pair_guesses(scheme: Scheme, given: dict[str, Any], profile: BiasProfile) -> Iterator[Guess]:
    """Yield tables and networks that posenc draws, and a learned table if the scheme has one."""
    drawn: dict[str, Any] = {**given, "heads": profile.heads}
    network = scheme.bind(given).content.network
    changes: list[dict[str, Any]] = [{}]
    if network is not None:
        named = (name for name in _NETWORK_PARAMETERS if name in scheme.parameters)
        changes += [{name: value} for name in named for value in _NETWORK_PARAMETERS[name]]
    for seed, changed in itertools.product(range(_SEEDS), changes):
        yield Guess({**drawn, **changed, "seed": seed}, cost=2.0 + 0.1 * len(changed))
    if network is None:
        note = f"a learned table: the scores show {profile.indices.size} of its rows"
        yield Guess(drawn, cost=2.5, hidden=("seed", "weights"), notes=(note,))


def slope_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield ALiBi with one row of numbers as its slopes."""
    values = row_of_numbers(evidence)
    if values is None or not values.all():
        return
    limit = 3e-6 + 4 * evidence.rounding + values.size * 1e-7
    for max_bias, rule, _ in rules_of(values.tolist(), limit):
        yield Hypothesis(
            alibi.name,
            {"heads": values.size, "max_bias": max_bias, "slopes": rule},
            ("slopes",),
            # Slopes cost less than inverse frequencies of the same numbers.
            cost=0.8 + 0.2 * (max_bias != alibi.parameters["max_bias"].default),
            hidden=("form",),
        )


_MASKED = -1e9
"""Scores below this belong to a mask; no bias is as low."""
_SAMPLED = 24
"""Rows of queries that are read first."""
_FEW = 8
"""Rows, or indices, that are tested before all."""
_MOST_HEADS = 256
"""Most heads of a bias: models have up to 128, and each head of each candidate is computed."""
_MOST_PLACES, _MOST_CELLS = 1 << 10, 1 << 24
"""Most places and entries of a bias by pairs, whose rows are all read. Swin's largest bias has 576
places, and so many entries take 128 MiB in float64."""


class BiasProfile(Record):
    """A bias as one number per offset j − i, key or pair. Shape: ``values`` (heads, indices).

    Masked scores are NaN. ``causal`` says that keys after the query hold 0 instead, as in the code
    of KERPLE's authors. ``scatter`` is the largest difference between entries that must be equal.
    ``number(xp, queries, keys)`` numbers pairs.
    """

    by: Literal["offset", "key", "pair"]
    indices: Integers
    values: RealRows
    keys: int
    queries: int
    single: bool
    scatter: float
    causal: bool = False
    number: PairNumber | None = None

    @property
    def heads(self) -> int:
        """Number of heads."""
        return int(self.values.shape[0])

    @property
    def every(self) -> Integers:
        """All indices that entries have, in order."""
        if self.by == "pair":
            return self.indices
        first = int(self.indices[0]) if self.by == "key" else 1 - self.keys
        return np.arange(first, first + self.keys if self.by == "key" else self.keys)

    def places(self, offsets: Integers) -> Integers:
        """Return the place in ``every`` of each entry's index, for the offsets (queries, keys)."""
        if self.number is None:
            return _indices(self.by, offsets) - (1 - self.keys if self.by == "offset" else 0)
        return np.searchsorted(self.every, _indices(self.by, offsets, self.number))


def profiles_of(evidence: Evidence) -> list[BiasProfile]:
    """Return the profiles of an array whose entries depend on only the key, or only the offset.

    One row of scores may be either; its query is then the last one. Keys are counted from 0, and
    also from the first key with which the scores are multiples of the key.
    """
    profiles = [profile_of(evidence, by) for by in ("key", "offset")]
    found = [profile for profile in profiles if profile is not None]
    if profiles[0] is not None and (first := _first_key(profiles[0].values)):
        found.insert(1, replace(profiles[0], indices=profiles[0].indices + first))
    return found


def _first_key(values: RealRows) -> int:
    """Return the first key if scores (heads, keys) are multiples of the key, else 0."""
    slopes = (values[:, -1] - values[:, 0]) / (values.shape[1] - 1)
    first = float(median(values[:, 0] / slopes))
    return round(first) if 0 < first < LARGEST_POSITION else 0


def profile_of(
    evidence: Evidence,
    by: Literal["offset", "key", "pair"],
    number: PairNumber | None = None,
) -> BiasProfile | None:
    """Return the profile of an array whose entries depend on only such indices, or None."""
    array = evidence.arrays[0]
    if len(evidence.arrays) != 1 or array.dtype.kind == "c" or array.ndim not in (2, 3):
        return None
    single = array.ndim == 2
    cube = array[None] if single else array
    heads, queries, keys = cube.shape
    if keys < 3 or queries not in (keys, 0 if single else 1) or heads > _MOST_HEADS:
        return None
    ways = _query_rows(queries)
    if number is not None:
        few = spread(queries, _FEW)
        moderate = queries == keys <= _MOST_PLACES and cube.size <= _MOST_CELLS
        if not moderate or _profile_of_rows(cube, few, evidence, by, number) is None:
            return None
        ways = [np.arange(queries)]
    profiles = (_profile_of_rows(cube, rows, evidence, by, number) for rows in ways)
    return next(filter(None, profiles), None)


def _query_rows(queries: int) -> list[Integers]:
    """Return rows of queries that show a bias, and others in case one of the first is damaged."""
    rows = spread(queries, _SAMPLED)
    # All offsets occur in the first and the last two rows.
    others = np.unique([1, *(rows[1:-1] + 1).tolist(), queries - 2])
    return [rows, others] if queries > 2 * _SAMPLED else [rows]


def _profile_of_rows(
    cube: NumberArray,
    rows: Integers,
    evidence: Evidence,
    by: Literal["offset", "key", "pair"],
    number: PairNumber | None,
) -> BiasProfile | None:
    """Return the profile that some rows of queries show, or None."""
    queries, keys = cube.shape[1:]
    sample = evidence.clean(np.asarray(cube[:, rows, :], np.float64)).copy()
    offsets = np.arange(keys)[None, :] - (rows + keys - queries)[:, None]  # (rows, keys)
    hidden = hidden_scores(sample)
    future = np.broadcast_to(offsets > 0, sample.shape)
    zeros = not sample[future].any() and sample[~future].any()
    causal = bool(zeros and not hidden.any() and queries > 1)
    sample[future if causal else hidden] = np.nan
    indices, values, scatter = _values_by_index(sample, _indices(by, offsets, number))
    size = np.nanmax(np.abs(values)) if np.isfinite(values).any() else 0.0
    if not scatter <= 4 * evidence.rounding * size:
        return None
    single = len(evidence.shape) == 2
    return BiasProfile(by, indices, values, keys, queries, single, scatter, causal, number)


def _indices(by: str, offsets: Integers, number: PairNumber | None = None) -> Integers:
    """Return the offset, key or pair number of each entry. Shape: (queries, keys)."""
    keys = np.broadcast_to(np.arange(offsets.shape[1]), offsets.shape)
    if number is not None:
        return np.asarray(number(np, keys - offsets, keys))
    return keys if by == "key" else offsets


def hidden_scores(scores: NumberArray) -> Flags:
    """Return which scores are so low that attention ignores their keys."""
    return np.asarray(scores < _MASKED)


def _values_by_index(sample: HeadMatrices, where: Integers) -> tuple[Integers, RealRows, float]:
    """Return indices, their values, and the largest difference between entries of one index."""
    indices, inverse = np.unique(where, return_inverse=True)
    inverse = inverse.reshape(where.shape)
    heads = sample.shape[0]
    low, high = np.full((indices.size, heads), np.inf), np.full((indices.size, heads), -np.inf)
    for row in range(sample.shape[1]):
        np.fmin.at(low, inverse[row], sample[:, row].T)
        np.fmax.at(high, inverse[row], sample[:, row].T)
    seen = np.isfinite(low)
    scatter = float((high[seen] - low[seen]).max()) if seen.any() else 0.0
    values = np.full(low.shape, np.nan)
    values[seen] = (low[seen] + high[seen]) / 2
    return indices, values.T, scatter


def try_scores(hypothesis: Hypothesis, profile: BiasProfile, evidence: Evidence) -> Trial:
    """Return the trial of a bias with the number format and arithmetic that explain it best."""
    encoding, formats = hypothesis.encoding(), formats_of(evidence)
    if "weights" in hypothesis.hidden:
        # The values of a learned table are taken from the array, so equal values per bucket are the
        # match.
        same = profile.scatter == 0
        largest = Largest(profile.scatter, 0, (), np.nan, np.nan)
        sample = Census(1, 1, int(same), 0.0 if same else np.inf, largest, int(not same))
        return Trial(hypothesis, encoding.bound, sample, "exact", formats[0], profile.values)
    best: Trial | None = None
    seen = np.isfinite(profile.values)
    ways = ARITHMETICS if encoding.bound.content.network is None else ARITHMETICS[:1]
    for rounded, arithmetic in itertools.product(formats, ways):
        if best is not None and arithmetic != "exact" and best.equal == 1:
            continue
        predicted = _index_scores(hypothesis, encoding, profile.indices, rounded, arithmetic)
        limit = _score_limits(encoding, np.where(seen, predicted, 0.0), rounded, arithmetic)
        cells = np.where(seen, profile.values, predicted)
        rows = np.arange(profile.indices.size)
        part = compare_rows(
            *(cells.T, predicted.T, partial(np.transpose, limit), rows, rounded),
            quantum=evidence.quantum,
        )
        trial = Trial(hypothesis, encoding.bound, part, arithmetic, rounded)
        if best is None or (trial.fits, trial.equal) > (best.fits, best.equal + 0.05):
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
    """Return the scores at offsets or keys for the heads of the array. Shape: (heads, indices)."""
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
    return widen(narrow(scores * hypothesis.multiplier, None, rounded), rounded)


def _score_limits(
    encoding: Encoding, predicted: RealRows, rounded: DType, arithmetic: str
) -> RealRows:
    """Return the largest error of each score in an arithmetic. Shape: as ``predicted``."""
    content = encoding.bound.content
    assert content.heads is not None
    sizes = np.abs(predicted)
    relative = 2 * unit(rounded.name) + 3e-6 + 1e-7 * content.heads
    limit = relative * np.maximum(sizes, 1e-3 * sizes.max(axis=-1, keepdims=True)) + 1e-30
    if arithmetic == "bfloat16":
        limit = limit + 3 * unit("bfloat16") * sizes
    return np.asarray(limit, np.float64)


def score_census(trial: Trial, profile: BiasProfile, evidence: Evidence) -> Census:
    """Compare all entries with a bias.

    Rows are those of queries, one head after another; masked entries are not compared.
    """
    encoding = trial.hypothesis.encoding()
    indices = profile.every
    if trial.read_off is None:
        scores = _index_scores(
            trial.hypothesis, encoding, indices, trial.rounded, trial.arithmetic
        )  # (heads, indices)
        limits = _score_limits(encoding, scores, trial.rounded, trial.arithmetic)
    else:
        scores = np.full((profile.heads, indices.size), np.nan)
        scores[:, np.searchsorted(indices, profile.indices)] = trial.read_off
        limits = np.full(scores.shape, trial.sample.residual + 1e-30)
    expected = scores, limits, trial.rounded, _mask_of(evidence, profile)
    compare = partial(_compare_queries, evidence, profile, expected)
    total = reduce(Census.followed_by, map(compare, _score_blocks(evidence, profile)))
    return replace(total, queries=None if profile.single else profile.queries)


def _score_blocks(
    evidence: Evidence, profile: BiasProfile
) -> Iterator[tuple[int, Integers, NumberArray]]:
    """Yield the scores of some queries at a time, one head after another: head, queries, scores."""
    (array,) = evidence.arrays
    at_once = max(1, BLOCK_CELLS // profile.keys)
    for head, start in itertools.product(range(profile.heads), range(0, profile.queries, at_once)):
        scores = (array if profile.single else array[head])[start : start + at_once]
        yield head, np.arange(start, start + len(scores)), scores
        release(scores)


def _mask_of(evidence: Evidence, profile: BiasProfile) -> tuple[Flags, Flags]:
    """Return which offsets, from 1 − keys on, and which keys are masked.

    An offset is masked if most of its entries are low; a key, if all queries and heads have low
    scores. Low scores elsewhere are wrong entries.
    """
    keys, queries, heads = profile.keys, profile.queries, profile.heads
    count = queries + keys - 1
    of_offset, of_key = np.zeros(count, np.int64), np.zeros(keys, np.int64)
    for _, rows, scores in _score_blocks(evidence, profile):
        at, columns = np.nonzero(hidden_scores(scores))
        of_offset += np.bincount(columns - rows[at] + queries - 1, minlength=count)
        of_key += np.bincount(columns, minlength=keys)
    index = np.arange(count)
    lengths = np.minimum(np.minimum(index + 1, count - index), min(queries, keys))
    return 2 * of_offset > heads * lengths, of_key == heads * queries


def _compare_queries(
    evidence: Evidence,
    profile: BiasProfile,
    expected: tuple[RealRows, RealRows, DType, tuple[Flags, Flags]],
    block: tuple[int, Integers, NumberArray],
) -> Census:
    """Compare some queries of a head with the scores, limits, format and mask of all heads."""
    scores, limits, rounded, mask = expected
    head, queries, stored = block
    cells = np.array(evidence.clean(np.asarray(stored, np.float64)))  # (queries, keys)
    offsets = np.arange(profile.keys) - (queries + profile.keys - profile.queries)[:, None]
    where = profile.places(offsets)
    predicted, allowed = scores[head][where], limits[head][where]
    hidden = hidden_scores(cells) & (mask[0][offsets - (1 - profile.keys)] | mask[1])
    if profile.causal:
        predicted[offsets > 0] = 0.0
        hidden |= (offsets > 0) & (cells == 0)
    cells[hidden] = predicted[hidden] = 0.0
    rows = head * profile.queries + queries
    part = compare_rows(cells, predicted, lambda: allowed, rows, rounded, quantum=evidence.quantum)
    count = int(hidden.sum())
    return replace(
        part,
        cells=part.cells - count,
        equal=part.equal - count,
        hidden=count,
        on_grid=evidence.on_grid(np.where(hidden, 0.0, stored)),
    )
