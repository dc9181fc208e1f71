"""A hypothesis of what an array is, and what it leaves over when it is tried.

A hypothesis is a scheme with parameters at positions. It is computed as posenc computes anything,
at the rows of the sample, and fits if every cell is as near as code that is right can come: the
tolerance of :mod:`posenc_cli.checks.tolerance`. The arithmetic that explains the cells best is
looked for among those of ``--arithmetic``.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.analysis.sampling import positions_of
from posenc_cli.checks.tolerance import FUNCTIONS, PER_ANGLE, unit
from posenc_cli.encode import blocks
from posenc_cli.encode.axial import located
from posenc_cli.encode.engine import Engine
from posenc_cli.encode.precision import Precision
from posenc_cli.encode.request import Encoding
from posenc_cli.encode.tables import rotary_placements
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import FLOAT64, REAL_DTYPES
from posenc_cli.numerics.rounding import widen
from posenc_cli.records import Record, fresh, replace
from posenc_cli.schemes.declare import Rotation, Rows, Sinusoids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from posenc_cli.checks.identify_evidence import Evidence
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.numerics.placements import Placement
    from posenc_cli.schemes.declare import Bound

ARITHMETICS = ("exact", "float64", "float32", "bfloat16")
_EXPLAINED = 0.97
"""Of the cells: an emulated rounding may fall the other way at ties, or in a library's cosines."""
_FEW = 48
"""Rows on which an arithmetic is tried before it is tried on all of the sample."""


BACKWARD = "the rotation runs backward: the sine has the wrong sign"
SWAPPED = "sines stand where cosines belong, and cosines where sines do"


class Hypothesis(Record):
    """A scheme of the catalogue with parameters, as one table for each array of the evidence.

    ``positions`` (n,) are those of the rows of the sample, None where the array has none.
    ``cost`` says how special the hypothesis is: of two that fit, the plainer is taken.
    ``hidden`` names parameters that such an array cannot show; ``wrong`` says what of it no
    command of posenc would write.
    """

    scheme: str
    given: Mapping[str, object]
    tables: tuple[str | None, ...]
    positions: NDArray[np.int64] | None = None
    cost: float = 1.0
    hidden: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    uncertainty: Mapping[str, float] = fresh(dict)
    head: int | None = None

    @property
    def seq_len(self) -> int | None:
        """The length that parameters fall back to: the last position + 1."""
        if self.positions is None or self.positions.size == 0:
            return None
        return int(max(self.positions.max(), 0)) + 1

    def encoding(self) -> Encoding:
        """The encoding; ``InvalidInput`` where its parameters contradict each other."""
        return Encoding.of(catalogue.find(self.scheme), self.given, seq_len=self.seq_len)


class Trial(Record):
    """A hypothesis and what it leaves over.

    ``residual`` is the largest difference from what ``arithmetic`` gives, ``ratio`` the largest
    in units of what right code may show, ``equal`` the share of cells that are the same.
    """

    hypothesis: Hypothesis
    bound: Bound
    residual: float
    ratio: float
    equal: float
    arithmetic: str
    rounded: DType

    @property
    def fits(self) -> bool:
        """Whether the array is this hypothesis, as far as its format can tell."""
        return self.ratio <= 1

    @property
    def rank(self) -> tuple[bool, bool, float, float]:
        """What sorts trials: those that fit first, equal ones among them, then the plainest."""
        return not self.fits, self.equal < 1, self.hypothesis.cost, self.ratio


def formats_of(evidence: Evidence) -> list[DType]:
    """The number formats that values may have been rounded to: the file's, a narrower one."""
    stored = REAL_DTYPES.get(_real(evidence.stored), FLOAT64)
    if evidence.stored == "float64" and evidence.values != stored:
        return [evidence.values, stored]
    return [stored] if evidence.values == stored else [stored, evidence.values]


def tried(hypothesis: Hypothesis, evidence: Evidence) -> Trial:
    """The trial of one hypothesis; its parameters must not contradict each other."""
    encoding = hypothesis.encoding()
    trials = [
        _exact_trial(hypothesis, encoding, evidence, rounded) for rounded in formats_of(evidence)
    ]
    best = min(trials, key=lambda each: (not each.fits, -each.equal))
    if best.equal == 1:
        return best
    return _with_arithmetic(best, encoding, evidence)


def _real(stored: str) -> str:
    return {"complex64": "float32", "complex128": "float64"}.get(stored, stored)


def _exact_trial(
    hypothesis: Hypothesis, encoding: Encoding, evidence: Evidence, rounded: DType
) -> Trial:
    missed, same, residual, worst = 0, 0, 0.0, 0.0
    for table, sample in zip(hypothesis.tables, righted(hypothesis, evidence), strict=True):
        predicted = computed(encoding, table, hypothesis.positions, rounded, "exact")
        difference = apart(sample, predicted, table)
        limit = allowed(encoding, table, hypothesis.positions, rounded)
        residual = max(residual, float(difference.max()))
        worst = max(worst, float((difference / limit).max()))
        same += int((difference == 0).sum())
        missed += difference.size
    return Trial(
        hypothesis, encoding.bound, residual, worst, same / max(missed, 1), "exact", rounded
    )


def _with_arithmetic(trial: Trial, encoding: Encoding, evidence: Evidence) -> Trial:
    """The trial, with the arithmetic that explains it best.

    One of lower precision is believed where it explains far more than the exact values do.
    """
    best, least = trial, _typical(trial, encoding, evidence, "exact")
    for arithmetic in ARITHMETICS[1:]:
        typical = _typical(trial, encoding, evidence, arithmetic)
        if typical < 0.5 * least:
            found = _reduced_trial(trial, encoding, evidence, arithmetic)
            if found.fits:
                best, least = found, typical
    return best


def _typical(trial: Trial, encoding: Encoding, evidence: Evidence, arithmetic: str) -> float:
    """The mean difference on a few rows."""
    hypothesis = trial.hypothesis
    count = evidence.sample[0].shape[0]
    rows = np.unique(np.linspace(0, count - 1, _FEW).astype(np.int64))
    positions = hypothesis.positions
    total = []
    for table, sample in zip(hypothesis.tables, righted(hypothesis, evidence), strict=True):
        whole = table == "inv-freq" or positions is None
        some = sample if whole else sample[rows]
        where = positions if positions is None or whole else positions[rows]
        predicted = computed(encoding, table, where, trial.rounded, arithmetic)
        total.append(apart(some, predicted, table).mean())
    return float(np.mean(total))


def _reduced_trial(trial: Trial, encoding: Encoding, evidence: Evidence, arithmetic: str) -> Trial:
    """The trial against what an arithmetic gives: nearly every cell within its own rounding."""
    hypothesis, rounded = trial.hypothesis, trial.rounded
    cells, explained, same, residual, worst = 0, 0, 0, 0.0, 0.0
    for table, sample in zip(hypothesis.tables, righted(hypothesis, evidence), strict=True):
        predicted = computed(encoding, table, hypothesis.positions, rounded, arithmetic)
        difference = apart(sample, predicted, table)
        limit = allowed(encoding, table, hypothesis.positions, rounded)
        if arithmetic == "bfloat16":
            size = max(1.0, float(np.abs(predicted).max()))
            limit = np.full_like(limit, 2 * unit("bfloat16") * size)
        ratios = difference / limit
        explained += int((ratios <= 1).sum())
        residual = max(residual, float(np.quantile(difference, _EXPLAINED)))
        worst = max(worst, float(ratios.max()))
        same += int((difference == 0).sum())
        cells += difference.size
    if worst > 1 and explained >= _EXPLAINED * cells and arithmetic == "bfloat16":
        worst = 1.0
    return replace(
        trial, residual=residual, ratio=worst, equal=same / max(cells, 1), arithmetic=arithmetic
    )


def righted(hypothesis: Hypothesis, evidence: Evidence) -> tuple[NDArray[Any], ...]:
    """The sample, with what the hypothesis holds to be wrong put right."""
    sample = evidence.sample
    swapped, backward = SWAPPED in hypothesis.wrong, BACKWARD in hypothesis.wrong
    if not (swapped or backward):
        return sample
    if len(sample) == 2:
        return _righted(*sample, swapped=swapped, backward=backward)
    (values,), table = sample, hypothesis.tables[0]
    if values.dtype.kind == "c":
        cos, sin = _righted(values.real, values.imag, swapped=swapped, backward=backward)
        return (cos + 1j * sin,)
    if table == "angles":
        return (-values,)
    half = values.shape[1] // 2
    first, second = slice(0, half), slice(half, 2 * half)
    if table == "interleaved":
        first, second = slice(0, None, 2), slice(1, None, 2)
    out = values.copy()
    out[:, first], out[:, second] = _righted(
        values[:, first], values[:, second], swapped=swapped, backward=backward
    )
    return (out,)


def _righted(
    cos: NDArray[Any], sin: NDArray[Any], *, swapped: bool, backward: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    if swapped:
        cos, sin = sin, cos
    return cos, -sin if backward else sin


def apart(
    found: NDArray[Any], predicted: NDArray[np.float64], table: str | None
) -> NDArray[np.float64]:
    """How far values are from predicted ones; angles are compared on the circle.

    Complex numbers count as pairs of columns. What is not a number is infinitely far.
    """
    if found.dtype.kind == "c":
        found = np.ascontiguousarray(found).view(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(found - predicted)
    difference = np.where(found == predicted, 0.0, difference)
    if table == "angles":
        turns = np.abs(2 * np.pi - difference)
        difference = np.minimum(difference, turns)
    return np.where(np.isnan(difference), np.inf, difference)


def computed(
    encoding: Encoding,
    table: str | None,
    positions: NDArray[np.int64] | None,
    rounded: DType,
    arithmetic: str,
) -> NDArray[np.float64]:
    """The rows of an encoding at positions, rounded to a format, as float64.

    Of a relative scheme the positions are offsets j − i. A complex table has the real and the
    imaginary part of each pair side by side.
    """
    content = encoding.bound.content
    engine = Engine(arithmetic=arithmetic)  # type: ignore[arg-type]
    precision = Precision.of(rounded, None)
    if isinstance(content, Rotation) and table == "inv-freq":
        (found,) = blocks.frequency_blocks(content.waves, precision=precision, engine=engine)
        return widen(found, rounded)
    assert positions is not None
    if isinstance(content, Rows):
        drawn = blocks.row_blocks(
            content,
            positions_of(positions.tolist()),
            encoding.table,
            precision=precision,
            engine=engine,
        )
        return widen(np.concatenate(list(drawn)), rounded)
    assert isinstance(content, Rotation | Sinusoids)
    filler = engine.waves(content.waves)
    if table == "angles":
        return widen(filler.angles(positions, dtype=rounded), rounded)
    placements, width = placed(content, table)
    out = np.zeros((positions.size, width), rounded.numpy)
    filler.fill(out, positions, placements, dtype=rounded)
    return widen(out, rounded)


def placed(content: Rotation | Sinusoids, table: str | None) -> tuple[tuple[Placement, ...], int]:
    """Which columns of a table hold what, and how many there are."""
    if isinstance(content, Sinusoids):
        return content.placements, content.width
    name = "interleaved" if table == "complex" else table or "cos-sin"
    pairs = content.waves.count
    width = pairs if name in ("cos", "sin") else 2 * pairs
    return rotary_placements(name, pairs, content.layout, content.blocks), width


def allowed(
    encoding: Encoding,
    table: str | None,
    positions: NDArray[np.int64] | None,
    rounded: DType,
) -> NDArray[np.float64]:
    """How far each cell may be from the exact value where the code is right.

    Shape: that of the cells; a row a position.
    """
    content = encoding.bound.content
    if isinstance(content, Rows):
        assert positions is not None
        values = np.abs(computed(encoding, table, positions, FLOAT64, "exact"))
        return np.asarray(2 * unit(rounded.name) * np.maximum(values, 1e-30), np.float64)
    assert isinstance(content, Rotation | Sinusoids)
    waves = content.waves
    frequencies = np.abs(np.array([float(f) for f in waves.frequencies(exact)]))
    if table == "inv-freq":
        return np.asarray((PER_ANGLE + unit(rounded.name)) * np.maximum(frequencies, 1e-300))
    assert positions is not None
    angles = _angles(content, frequencies, positions)
    if table == "angles":
        return PER_ANGLE * angles + 4 * (unit(rounded.name) + unit("float64"))
    scale = float(waves.scale)
    roundings = 1 if scale == 1 else 2
    cells = scale * (PER_ANGLE * angles + FUNCTIONS + roundings * unit(rounded.name))
    if unit(rounded.name) < unit("float32"):
        cells = scale * (PER_ANGLE * angles + FUNCTIONS)
    if waves.growth is not None:
        logarithms = np.log([float(base) for base in waves.growth.bases(exact)])
        exponents = (positions - waves.growth.centre) / float(waves.growth.span)
        cells = cells * np.exp(np.multiply.outer(exponents, logarithms)) * 2
    placements, width = placed(content, table)
    limits = np.full((positions.size, width), 1e-30)
    for each in placements:
        if each.function != "zero":
            columns = np.arange(width)[each.columns]
            limits[:, columns] = cells[:, each.waves][:, : columns.size]
    return limits


def _angles(
    content: Rotation | Sinusoids,
    frequencies: NDArray[np.float64],
    positions: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The size of each wave's angle at each position. Shape: (positions, waves)."""
    coordinates = content.waves.coordinates
    if coordinates is None:
        return np.multiply.outer(np.abs(positions).astype(np.float64), frequencies)
    at = located(coordinates).at
    assert at is not None
    axes = np.stack([np.abs(np.asarray(each, np.float64)) for each in at(positions)], axis=1)
    return np.asarray(axes[:, list(coordinates.axes)] * frequencies)
