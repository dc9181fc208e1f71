"""List known bugs of rotations: pairs, signs, positions, frequencies, rounding, factors, axes.

They have the causes of `rope-check`, and the changes that its diagnosis tries. Each is computed
from given vectors in float64.
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.checks.expected import Change, Expected, ValuePlaces
from posenc_cli.checks.known_bugs.bug import GITHUB, KnownBug
from posenc_cli.diagnosis.bug_search import FACTORS, TURNS, Defect, offset_text
from posenc_cli.diagnosis.coordinates import coordinates_on_axes
from posenc_cli.diagnosis.rows_and_pairs import misplaced_maps
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.frequency_rules import alternatives, changed_frequencies
from posenc_cli.inference.position_maps import usual_maps
from posenc_cli.inference.reference import Reference, Sample
from posenc_cli.inference.tolerance import PER_ANGLE, Tolerance, ToleranceRule, smallest
from posenc_cli.inference.turning import ColumnPairing
from posenc_cli.numerics.halves import COARSE, HALVES, on_grid, round_to_half
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from posenc_cli.numerics.arrays import ComplexRows, Integers, NumberArray, RealRows, Reals

ROUNDINGS = 4
"""Roundings of rotating a vector (a table, two products, a sum), or of adding a row to it."""
_SHIFTS = (1.0, -1.0, 2.0, 0.5)
"""Shifts of all positions."""
_YARN_16 = 0.1 * math.log(16) + 1
"""YaRN's attention factor for a context that is extended 16 times."""


class PairMap(Record):
    """Map of pairs z to factors · z + mirrored · z̄, with the frequencies of its angles.

    Shapes: factors and mirrored (n, pairs), frequencies (pairs,).
    """

    factors: ComplexRows
    frequencies: Reals
    mirrored: ComplexRows | float = 0.0
    pairing: ColumnPairing | None = None


class Rotated(Expected):
    """Vectors x (n, columns), in ``vectors``, that a ``reference`` rotates at positions (n,)."""

    reference: Any = None

    @cached_property
    def tolerance(self) -> Tolerance:
        """Error that factors may have."""
        scale = self.reference.scale
        return Tolerance.of(self.rule, dtype=self.dtype, roundings=ROUNDINGS, amplitude=scale)

    @cached_property
    def pairs(self) -> Sample:
        """Pairs of the reference at these positions, in the form that the diagnosis reads."""
        at, reference = self.places.at.astype(np.int64), self.reference
        ones = np.ones((at.size, reference.pairs), np.complex128)
        seen, stray = ones == 1, np.zeros((at.size, 1))
        return Sample(at, ones, seen, stray, self.tolerance, reference.scale, reference)

    def by(self, defect: Defect) -> PairMap:
        """Return the map of pairs that a defect gives."""
        return PairMap(*defect.prediction(self.pairs)[:2])

    def right(self) -> NumberArray:
        """Return the rotated vectors."""
        return self.rotated(self.by(Defect()))[0]

    def changed(self, change: Change) -> NumberArray:
        """Return the vectors that a changed reference gives."""
        return self.altered(self._rotated_by(change)[0], change)

    def allowed(self, right: NumberArray, *, change: Change | None = None) -> NumberArray:
        """Return the error that vectors may have: (n, columns)."""
        if self.tolerance.fixed is not None:
            return np.full(right.shape, max(self.tolerance.fixed, smallest("float32")))
        return self._rotated_by(change)[1]

    def _rotated_by(self, change: Change | None) -> tuple[RealRows, RealRows]:
        """Return the vectors and their allowed error; cache the last result for the second use."""
        if not self._last or self._last[0][0] is not change:
            pair_map = change.make(self) if change and change.make else self.by(Defect())
            self._last[:] = [(change, self.rotated(pair_map))]
        return self._last[0][1]

    @cached_property
    def _last(self) -> list[tuple[Change | None, tuple[RealRows, RealRows]]]:
        return []

    def rotated(self, by: PairMap) -> tuple[RealRows, RealRows]:
        """Apply a map to the pairs; return vectors and the error of float32 code: (n, columns)."""
        x, reference, at = self.vectors, self.reference, self.places.at
        assert x is not None
        pairing = by.pairing or reference.pairing
        growth = reference.growth_at(at)
        growth = np.ones(by.factors.shape) if growth is None else growth
        pairs = x[:, list(pairing.first)] + 1j * x[:, list(pairing.second)]
        rotated_pairs = growth * (by.factors * pairs + by.mirrored * pairs.conj())
        values, allowed = x.copy(), np.abs(x) * self.tolerance.floor
        first, second = list(pairing.out_first), list(pairing.out_second)
        values[:, first], values[:, second] = rotated_pairs.real, rotated_pairs.imag
        count = by.frequencies.size
        followed = reference.angle_positions(at) if count == reference.pairs else at
        with np.errstate(invalid="ignore"):  # 0 times a frequency that overflows in half precision
            shares = self.tolerance.cells(followed, by.frequencies)
        # The exponent of a growing amplitude has the error of an angle.
        shares = shares + PER_ANGLE * np.abs(np.log(growth))
        allowed[:, first] = allowed[:, second] = growth * np.abs(pairs) * shares
        return values, allowed + smallest("float32")


def rotated_vectors(
    reference: Reference,
    positions: Integers,
    x: RealRows,
    found: RealRows,
    dtype: str,
    *,
    rule: ToleranceRule = "auto",
) -> Rotated:
    """Return vectors x and ``found`` results of rotating them: (n, columns), positions (n,)."""
    bound, places = reference.encoding.bound, ValuePlaces(positions)
    fields = bound.scheme, bound.params, places, found, dtype, rule
    return Rotated("rotations", *fields, vectors=x, reference=reference)


def _defect_change(text: str, code: str, defect: Defect) -> Change:
    return Change(text, make=lambda e: e.by(defect), code=code)


def _wrong_signs(_: Rotated) -> Iterator[Change]:
    for turn, (_apply, cause, message) in TURNS.items():
        if turn != "right":
            yield _defect_change(message, cause, Defect(turn=turn))


def _shifted_positions(e: Rotated) -> Iterator[Change]:
    for offset in _SHIFTS:
        yield _defect_change(offset_text(e.reference, offset), "", Defect(offset=offset))


def _usual_moves(e: Rotated, context: int) -> Iterator[Change]:
    yield from _shifted_positions(e)
    if e.reference.coordinates is None:
        for moved in usual_maps(context, e.pairs.positions):
            yield _defect_change(moved.message, "", Defect(moved=moved))


def _coarse_angles(_: Rotated) -> Iterator[Change]:
    for half in HALVES:
        yield _defect_change(f"positions were rounded to {half}", "", Defect(positions=half))
        yield _defect_change(f"angles were rounded to {half}", "", Defect(angles=half))
        everything = Defect(positions=half, rates=half, angles=half, cells=half)
        yield _defect_change(f"everything is computed in {half}", "", everything)


def _coarse_tables(e: Rotated) -> Iterator[Change]:
    for form in COARSE:
        text = f"cosines and sines were rounded to {form}, then stored in a wider format"
        yield _defect_change(text, "", Defect(cells=form))
    for half in HALVES:
        if on_grid(e.found, half):
            text = f"the rotated vectors were rounded to {half}"
            yield Change(text, values=partial(_rounded, half=half), rounding=half)


def _rounded(values: NumberArray, _: Expected, *, half: str) -> NumberArray:
    return round_to_half(values, half)


def _other_frequencies(e: Rotated) -> Iterator[Change]:
    for rule in alternatives(e.reference, None):
        yield _defect_change(rule.message, rule.cause, Defect(frequencies=rule))


def _pairings(e: Rotated) -> Iterator[Change]:
    """Yield changes to other pairings of columns, and to other orders of the output."""
    reference, right = e.reference, e.reference.pairing
    for pairing in reference.likely_pairings(e.found.shape[1])[1:]:
        if pairing.pairs != reference.pairs:
            continue
        text = f"the code pairs dimensions {pairing.text}; the reference pairs {right.text}"
        if (pairing.first, pairing.second) == (right.first, right.second):
            text = f"output dimensions are in the layout {pairing.out_layout}"
        elif (pairing.first, pairing.second) != (pairing.out_first, pairing.out_second):
            text += ", but the output order is right"
        yield _with_pairing(text, "", pairing)
    second = replace(right, out_first=right.out_second, out_second=right.out_first)
    text = "the first and the second dimension of each pair are swapped"
    yield _with_pairing(
        text, Cause.DIRECTION, replace(second, first=right.second, second=right.first)
    )


def _with_pairing(text: str, code: str, pairing: ColumnPairing) -> Change:
    return Change(text, make=lambda e: replace(e.by(Defect()), pairing=pairing), code=code)


def _other_widths(e: Rotated) -> Iterator[Change]:
    """Yield changes to more or fewer rotated dimensions."""
    right, few = 2 * e.reference.pairs, 2 * (e.reference.pairs // 2)
    yield Change("all dimensions rotate", make=partial(_rotated_width, width=e.found.shape[1]))
    if few:
        text = f"{few} dimensions rotate; the reference rotates {right}"
        yield Change(text, make=partial(_rotated_width, width=few))


def _rotated_width(e: Rotated, width: int) -> PairMap:
    """Rotate the first columns as a head of this width, if the scheme has one."""
    reference = e.reference
    if width == 2 * reference.pairs:
        raise InvalidInput(f"all {width} dimensions do")
    rates = changed_frequencies(reference, dim=width, partial=1.0)
    plain = reference.symmetric and reference.coordinates is None and reference.content.blocks == 1
    if not plain or rates is None or 2 * rates.size != width:
        raise InvalidInput("the scheme has no head of that width")
    angles = np.multiply.outer(e.places.at.astype(np.float64), rates)
    pairing = ColumnPairing.named(reference.content.layout, rates.size)
    return PairMap(reference.scale * np.exp(1j * angles), rates, pairing=pairing)


def _misplaced_tables(e: Rotated) -> Iterator[Change]:
    """Yield changes that put cosines and sines at wrong places."""
    size = e.reference.scale
    for message, z, w, fastest in misplaced_maps(e.reference, e.by(Defect()).factors / size):
        pair_map = PairMap(size * z, fastest, size * w)
        yield Change(message, make=partial(_precomputed, pair_map=pair_map))


def _precomputed(_: Rotated, pair_map: PairMap) -> PairMap:
    return pair_map


def _attention_factors(e: Rotated) -> Iterator[Change]:
    """Yield changes to other attention factors."""
    scale = e.reference.scale
    sizes = {
        f"the attention factor {scale:.6g} {how}": change(scale)
        for how, change in FACTORS.items()
        if scale != 1
    } or {
        f"the attention factor is {_YARN_16:.4g}, not 1": _YARN_16,
        "1/√d, which belongs to scores, is multiplied into the vectors": e.found.shape[1] ** -0.5,
    }
    for text, size in sizes.items():
        yield Change(text, make=partial(_with_factor, size=size))


def _with_factor(e: Rotated, size: float) -> PairMap:
    right = e.by(Defect())
    return replace(right, factors=right.factors * (size / e.reference.scale))


def _other_axes(e: Rotated) -> Iterator[Change]:
    """Yield changes to the coordinates of other axes, or to token numbers."""
    coordinates, tokens = e.reference.coordinates, e.reference.axes
    if not tokens:
        return
    right_axes = np.array(coordinates.axes)
    followed = {
        f"all pairs follow {'token numbers' if axis == tokens else f'axis {axis}'}": 0 * right_axes
        + axis
        for axis in range(tokens + 1)
    }
    for order in [*permutations(range(tokens))][1:]:
        followed[f"pairs follow the axes in the order {order}"] = np.array(order)[right_axes]
    for text, axes in followed.items():
        yield Change(text, make=partial(_along_axes, axes=axes))


def _along_axes(e: Rotated, axes: NumberArray) -> PairMap:
    moved = coordinates_on_axes(e.reference.coordinates, axes)
    if (moved.where(e.pairs) == e.reference.angle_positions(e.places.at)).all():
        raise InvalidInput("the exchanged coordinates are equal at the positions of this pack")
    return e.by(Defect(moved=moved))


def _unless_oblique(changes: Callable[..., Iterable[Change]]) -> Callable[..., Iterable[Change]]:
    """Return ``changes`` for references whose angles are products of positions and frequencies."""

    def unless_oblique(e: Rotated, *context: int) -> Iterable[Change]:
        along = e.reference.coordinates
        return () if along is not None and along.oblique else changes(e, *context)

    return unless_oblique


def _row(code: Cause, changes: Any, remedy: str, seen: str, examples: Any = None) -> KnownBug:
    reports = ", ".join(f"{GITHUB}{each}" for each in seen.split())
    return KnownBug(code, changes, remedy, reports, ("rotations",), examples=examples)


BUGS = (
    _row(
        Cause.DIRECTION,
        _wrong_signs,
        "rotate (a, b) to (a·cos − b·sin, b·cos + a·sin)",
        "trymirai/lalamo/pull/268 karpathy/nanochat/pull/489 vllm-project/vllm/pull/30413",
    ),
    _row(
        Cause.POSITION_OFFSET,
        _unless_oblique(_shifted_positions),
        "count positions as the reference does",
        "rajveer43/VeloxQuant-MLX/issues/389 lucidrains/rotary-embedding-torch/issues/11",
        _unless_oblique(_usual_moves),
    ),
    _row(
        Cause.POSITION_PRECISION,
        _unless_oblique(_coarse_angles),
        "keep positions and angles in float32",
        "huggingface/transformers/pull/29285 huggingface/candle/pull/3520 "
        "cactus-compute/cactus/pull/688",
    ),
    _row(
        Cause.FREQUENCY_RULE,
        _unless_oblique(_other_frequencies),
        "use the reference's frequencies, in float32",
        "Blaizzy/mlx-vlm/pull/1710 sgl-project/SpecForge/pull/265 vllm-project/vllm/pull/28244 "
        "NVIDIA-NeMo/Automodel/pull/2549",
    ),
    _row(
        Cause.TABLE_PRECISION,
        _coarse_tables,
        "keep cosines, sines and rotated vectors in float32",
        "huggingface/transformers/issues/25681",
    ),
    _row(
        Cause.LAYOUT,
        _pairings,
        "pair the dimensions that the reference pairs, or permute the weights of q and k",
        "huggingface/nanotron/pull/427 ml-explore/mlx-lm/pull/512",
    ),
    _row(
        Cause.ROTARY_DIM,
        _other_widths,
        "rotate the same number of dimensions as the reference",
        "AI-Hypercomputer/maxtext/pull/4615 vllm-project/vllm/pull/41185",
    ),
    _row(
        Cause.COS_SIN_MISPAIRED,
        _misplaced_tables,
        "store cos and sin in the layout that the rotation code expects",
        "huggingface/transformers/issues/47328 raiyanyahya/how-to-train-your-gpt/issues/6",
    ),
    _row(
        Cause.ATTENTION_FACTOR,
        _attention_factors,
        "multiply cos and sin by the attention factor, once",
        "vllm-project/vllm/issues/48621 ml-explore/mlx-lm/pull/1507",
    ),
    _row(
        Cause.AXIS,
        _other_axes,
        "give each pair the coordinate of its own axis",
        "huggingface/pytorch-image-models/pull/2541 alibaba/MNN/pull/4133",
    ),
)
"""Bugs of rotations of given vectors."""
