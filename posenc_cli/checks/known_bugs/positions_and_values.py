"""List known bugs of values and positions: sign, scale, format, damage, offset, step, clamping."""

from __future__ import annotations

import math
from functools import partial
from itertools import chain, starmap
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.expected import Change, Expected, ValuePlaces, blocks_of
from posenc_cli.checks.known_bugs.bug import (
    GITHUB,
    BugCode,
    KnownBug,
    multiplied,
    rows_text,
    wave_columns,
)
from posenc_cli.checks.measured import FACTORS, common_factors, count_nonfinite, position_changes
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.position_maps import usual_maps
from posenc_cli.numerics.halves import COARSE, CUT_BFLOAT16, HALVES, on_grid, round_to_half

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows

_PADDING_POSITIONS = (0, 1)
"""Positions of padding rows: 1 in fairseq and RoBERTa, 0 in most other models."""


_SIGNS = {
    "rows": "all values have the wrong sign",
    "scores": "the scores have the wrong sign",
    "slopes": "the slopes have the sign of the bias",
}


def _wrong_signs(e: Expected) -> Iterator[Change]:
    text = "the sines have the wrong sign: positions count backward"
    remedy = "negate the sines, or the positions"
    columns = wave_columns(e)
    if columns is not None:
        signs = np.ones(e.content.width)
        signs[columns[0]] = -1
        yield multiplied(text, signs, remedy=remedy)
    if e.vectors is not None:
        text = "the rows are subtracted, not added"
        yield multiplied(text, -1.0, code=BugCode.NOT_ADDED, remedy="add the rows")
    else:
        yield multiplied(_SIGNS[e.form], -1.0)


def _later_keys(e: Expected) -> Iterator[Change]:
    """Yield changes of scores of keys after the query, which a causal mask would hide."""
    yield Change(
        "keys after the query have the score 0, as for causal attention",
        values=lambda v, s: np.where(s.places.later, 0, v),
    )
    yield Change(
        "keys after the query have scores of the wrong sign: the distance is signed",
        values=lambda v, s: np.where(s.places.later, -v, v),
    )
    for form in ("mpt", "bloom", "symmetric"):
        if form != e.params.get("form", form):
            yield Change(
                f"the scores are written as form={form}: they differ by a constant for each query, "
                "which a causal softmax removes",
                {"form": form},
                remedy=f"use --set form={form}, which has these scores and suits causal attention",
            )


def _measured_factors(e: Expected) -> Iterator[Change]:
    return starmap(multiplied, common_factors(e))


def _usual_scales(e: Expected, _: int) -> Iterator[Change]:
    root = math.sqrt(e.content.width if e.form == "rows" else e.params.get("dim") or 64)
    yield multiplied("nothing is added", 0.0, code=BugCode.UNINITIALISED)
    for text, factor in {**FACTORS, "√d": root, "1/√d": 1 / root}.items():
        yield multiplied(f"all values are multiplied by {text}", factor)


def _standardized(e: Expected) -> Iterator[Change]:
    """Yield sinusoids less their mean, divided by ten standard deviations, if these are the values.

    PatchTST normalizes its whole table so, whose values then depend on its length.
    """
    if e.is_waves and abs(e.found.std() - 0.1) < 1e-3 > abs(e.found.mean()):
        yield from _usual_standardized(e, 0)


def _usual_standardized(e: Expected, _: int) -> Iterator[Change]:
    if e.is_waves:
        right = np.concatenate([part.right() for part in blocks_of(e)])
        mean, deviation = right.mean(), right.std(ddof=1)
        yield Change(
            "the mean of the table was subtracted, and the rest divided by ten standard deviations",
            values=lambda v, _: (v - mean) / (10 * deviation),
        )


def _scaled_vectors(e: Expected) -> Iterator[Change]:
    """Yield a change that multiplies vectors before rows are added to them."""
    if e.vectors is not None:
        more = math.sqrt(e.content.width) - 1
        yield Change(
            "the vectors are multiplied by √d before the rows are added",
            values=lambda v, s: v + more * np.asarray(s.vectors),
        )


def _padding_rows(e: Expected) -> Iterator[Change]:
    """Yield a change to rows of zeros, at the model's padding row or anywhere else."""
    zero = np.flatnonzero(~np.any(e.found, axis=1))
    if not 0 < zero.size < len(e.found):
        return
    places = e.places.at[zero]
    padding = bool((np.isin(zero, _PADDING_POSITIONS) | np.isin(places, _PADDING_POSITIONS)).all())
    verb = "is" if zero.size == 1 else "are"
    yield Change(
        f"{rows_text(zero, places / e.parts)} {verb} zeros",
        values=lambda v, s: np.where(np.isin(s.places.at, places)[:, None], 0, v),
        code=BugCode.PADDING_ROW if padding else BugCode.UNINITIALISED,
        remedy="" if padding else "find out why nothing is written there",
    )


def _nothing_written(e: Expected) -> Iterator[Change]:
    if not any(np.any(part.found, where=~part.absent) for part in blocks_of(e)):
        added = e.vectors is not None
        text = "nothing is added to the vectors" if added else "all values are 0"
        yield multiplied(text, 0.0, code=BugCode.NOT_ADDED if added else "")


def _not_numbers(e: Expected) -> Iterator[Change]:
    count = count_nonfinite(e)
    verb = "is" if count == 1 else "are"
    if count:
        yield Change(
            f"{count} of {e.found.size} values {verb} NaN or infinite",
            values=lambda v, s: np.where(np.isfinite(s.found), v, s.found),
        )


def _rounded_values(e: Expected) -> Iterator[Change]:
    """Yield roundings to half precision, if all values have that precision."""
    for half in COARSE:
        format_ = half.split()[0]
        parts = (e.sample(), *blocks_of(e))
        if format_ != e.dtype and all(
            on_grid(part.found if part.vectors is None else part.found + part.vectors, half)
            for part in parts
        ):
            cut = half == CUT_BFLOAT16
            how = "cut to bfloat16 (rounded toward zero)" if cut else f"rounded to {half}"
            keep = "keep the values in float32, or "
            yield Change(
                f"{'the values were' if e.vectors is None else 'the sum was'} {how}",
                rounding=half,
                remedy=keep
                + ("round them to nearest" if cut else f"accept the rounding with --tol {half}"),
            )


def _usual_roundings(e: Expected, _: int) -> Iterator[Change]:
    for half in COARSE:
        text = f"the values were rounded to {half}"
        yield Change(text, values=partial(_rounded_sum, half=half, of_sum=False))
        if e.vectors is not None:
            text = f"the sum was rounded to {half}"
            yield Change(text, values=partial(_rounded_sum, half=half, of_sum=True))


def _rounded_sum(values: NumberArray, e: Expected, *, half: str, of_sum: bool) -> NumberArray:
    added = np.asarray(e.vectors if of_sum else 0.0, np.float64)
    return round_to_half(added + values, half) - added


def _moved_rows(e: Expected) -> Iterator[Change]:
    """Yield changes to rows of other positions, as measured in the rows."""
    yield from position_changes(e)
    if e.is_waves:
        for grid in (1, -1, 0.5):
            if e.params.get("grid"):
                yield Change(
                    f"grid coordinates are shifted by {grid:+g}",
                    make=partial(_shifted_grid, by=grid),
                )


def _shifted_grid(e: Expected, by: float) -> RealRows:
    return e.waves((e.angle_positions() + by) * e.frequencies)


def _usual_moves(e: Expected, context: int) -> Iterator[Change]:
    """Yield usual changes of positions, in a model of ``context`` positions."""
    moves: dict[str, Callable[[Integers], NumberArray]] = {
        f"positions are shifted by {by:+d}": partial(np.add, by) for by in (1, -1, 2)
    }
    moves |= {rule.message: rule.at for rule in usual_maps(context, e.places.at)}
    for text, move in moves.items():
        yield Change(text, places=partial(_moved_and_clipped, move=move))


def _moved_and_clipped(
    places: ValuePlaces, e: Expected, *, move: Callable[[Integers], NumberArray]
) -> ValuePlaces:
    """Move positions; clip those outside to the first or last position."""
    capacity = e.content.capacity
    # At most the largest int64: NumPy 2.0 raises an OverflowError for more.
    last = None if capacity is None else min(capacity.positions, 2**63) - 1
    return places.moved(lambda at: np.clip(move(np.asarray(at, np.int64)), 0, last))


def _moved_keys(e: Expected) -> Iterator[Change]:
    """Yield keys shifted by one, and queries that count from 0 although earlier keys are cached."""
    for by in (1, -1):
        yield Change(f"keys are shifted by {by:+d}", places=partial(_shifted_keys, by=by))
    cached = int(e.places.at.min())
    if cached > 0:
        yield Change(
            f"queries count from 0, not from {cached}",
            places=lambda p, _: ValuePlaces(p.at - cached, p.keys),
        )


def _shifted_keys(places: ValuePlaces, _: Expected, *, by: int) -> ValuePlaces:
    return ValuePlaces(places.at, places.keys + by)


def _usual_key_moves(e: Expected, context: int) -> Iterator[Change]:
    yield from _moved_keys(e)
    yield from _usual_moves(e, context)


def _coarse_positions(e: Expected) -> Iterator[Change]:
    return chain.from_iterable(_rounded_positions(e, half) for half in HALVES)


def _rounded_positions(e: Expected, half: str) -> Iterator[Change]:
    """Yield roundings of positions, angles or distances to half precision."""
    yield Change(
        f"positions were rounded to {half}",
        places=lambda p, _: p.moved(lambda at: _rounded(at, half).astype(at.dtype)),
    )
    if e.is_waves:
        make = partial(_with_rounded_products, half=half)
        yield Change(
            f"angles were rounded to {half}",
            make=lambda s: s.waves(_rounded(s.angles(), half)),
        )
        yield Change(f"positions, frequencies and their products were rounded to {half}", make=make)
    if e.params.get("form") == "symmetric":  # ALiBi's scores are multiples of distances
        values = partial(_with_rounded_distances, half=half)
        yield Change(f"distances were rounded to {half}", values=values)


def _with_rounded_products(e: Expected, *, half: str) -> RealRows:
    along, rates = (_rounded(each, half) for each in (e.angle_positions(), e.frequencies))
    return e.waves(_rounded(along * rates, half))


def _with_rounded_distances(values: NumberArray, e: Expected, *, half: str) -> NumberArray:
    away = np.maximum(np.abs(e.places.keys - e.places.at[:, None]), 1)
    return np.asarray(values * (_rounded(away, half) / away))


def _rounded(values: NumberArray, half: str) -> NumberArray:
    rounded = round_to_half(values.astype(np.float64), half)
    if not np.isfinite(rounded).all():
        raise InvalidInput(f"{half} cannot represent some of these positions")
    return rounded


BUGS = (
    KnownBug(
        BugCode.NOT_A_NUMBER,
        _not_numbers,
        "find the code that writes NaN",
        f"{GITHUB}NovaSky-AI/SkyRL/pull/1725",
        ("rows", "scores", "slopes"),
    ),
    KnownBug(
        BugCode.DIRECTION,
        _wrong_signs,
        "negate the values",
        f"{GITHUB}meta-pytorch/attention-gym/pull/86",
        ("rows", "scores", "slopes"),
    ),
    KnownBug(
        BugCode.CAUSAL,
        _later_keys,
        "score keys after the query by their distance, or compare with --causal",
        f"{GITHUB}ggml-org/ggml/pull/143, {GITHUB}mosaicml/llm-foundry/issues/186",
        ("scores",),
    ),
    KnownBug(
        BugCode.SCALE,
        _measured_factors,
        "remove the factor",
        f"{GITHUB}ml-explore/mlx (SinusoidalPositionalEncoding)",
        ("rows", "scores", "slopes"),
        examples=_usual_scales,
    ),
    KnownBug(
        BugCode.SCALE,
        _standardized,
        "use sines and cosines as they are, unless the model normalizes its table (PatchTST)",
        f"{GITHUB}huggingface/transformers (PatchTSTPositionalEncoding), "
        f"{GITHUB}timeseriesAI/tsai (PositionalEncoding)",
        examples=_usual_standardized,
    ),
    KnownBug(
        BugCode.NOT_ADDED,
        _scaled_vectors,
        "add each row once, and do not scale the vectors",
        f"{GITHUB}SamLynnEvans/Transformer/issues/10",
    ),
    KnownBug(
        BugCode.PADDING_ROW,
        _padding_rows,
        "write the row, or compare the rows after the padding row with --positions",
        f"{GITHUB}facebookresearch/fairseq (SinusoidalPositionalEmbedding)",
    ),
    KnownBug(
        BugCode.UNINITIALISED,
        _nothing_written,
        "fill the table",
        f"{GITHUB}huggingface/transformers/issues/45902",
        ("rows", "scores", "slopes"),
    ),
    KnownBug(
        BugCode.TABLE_PRECISION,
        _rounded_values,
        "keep the values in float32",
        f"{GITHUB}EleutherAI/gpt-neox/issues/1003, {GITHUB}tenstorrent/tt-metal/pull/19882",
        ("rows", "scores", "slopes"),
        examples=_usual_roundings,
    ),
    KnownBug(
        BugCode.POSITION_OFFSET,
        _moved_rows,
        "count positions as the reference does (padding offset, start, step, fractions)",
        f"{GITHUB}huggingface/sentence-transformers/pull/3879, "
        f"{GITHUB}DiffPoseTalk/DiffPoseTalk/issues/20, "
        f"{GITHUB}AkiRusProd/numpy-transformer/issues/1",
        solves=True,
        examples=_usual_moves,
    ),
    KnownBug(
        BugCode.POSITION_OFFSET,
        _moved_keys,
        "count queries and keys from the same position",
        f"{GITHUB}vllm-project/vllm/pull/945, {GITHUB}lucidrains/x-transformers/pull/103, "
        f"{GITHUB}huggingface/candle/pull/899",
        ("scores", "buckets"),
        examples=_usual_key_moves,
    ),
    KnownBug(
        BugCode.POSITION_PRECISION,
        _coarse_positions,
        "keep positions, frequencies and angles in float32",
        f"{GITHUB}wfondrie/depthcharge/pull/82",
        ("rows", "scores"),
    ),
)
"""Signs, factors, formats, missing values, and positions that are moved or rounded."""
