"""Propose rotary tables, frequencies and sinusoids that an array may hold.

Each way to read the array as waves (:mod:`posenc_cli.identification.readings`) gives frequencies.
:mod:`posenc_cli.inference.candidates` proposes encodings with these frequencies, and the phases
then give the positions of the rows.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.context_extension.longrope import rope_longrope
from posenc_cli.formulas.grids import mrope
from posenc_cli.formulas.inverse import KNOWN_BASES, Guess, snap
from posenc_cli.formulas.rotary import rope, xpos
from posenc_cli.formulas.sinusoids import sinusoidal, transformer_xl
from posenc_cli.identification.readings import (
    View,
    are_multiples,
    bases_of_pairs,
    function_views,
    reads_columns,
    real_matrix,
    row_of_numbers,
    unreduced_views,
    views,
)
from posenc_cli.inference.candidates import (
    Proposal,
    presets_of,
    proposal_of,
    proposals_at_length,
    rotary_proposals,
    sinusoidal_proposals,
)
from posenc_cli.inference.fitting import common_line, median, spread
from posenc_cli.inference.rates import (
    Rates,
    positions_at,
    progression_of,
    rates_of,
    with_full_turns,
)
from posenc_cli.inference.tolerance import FUNCTIONS, PER_ANGLE
from posenc_cli.inference.trial import (
    UNREDUCED_TABLES,
    Hypothesis,
    compute,
    distances,
)
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.positions import LARGEST_POSITION
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import ComplexRows, Integers, RealRows, Reals

    FindPositions = Callable[[bytes], "list[SampledPositions]"]
    """Frequencies of a proposal, as the bytes of float64, → possible positions of the rows."""

_PLACED = 1e-3
"""Largest mean distance on the unit circle from whole positions. Float32 angles of whole positions
stay below it before entries are rounded; other positions exceed it."""
_MISFIT = 0.35
"""Largest mean distance on the unit circle at which positions fit. Bfloat16 angles stay below it;
chance does not."""
_MOST_MISSED = 3
"""Successive proposals without positions after which a view is given up: its rows are not such
waves."""
_SOLVED = 64
"""Rows of the sample whose positions are solved before those of all rows."""
_EARLY = 24
"""First rows, where angles are small and bfloat16 arithmetic is nearly right."""
_FEWEST_PLACED, _FARTHEST_PLACED = 4, 1 << 17
"""Fewest pairs that determine a position, and the farthest one. With fewer pairs, or farther away,
some position always fits."""
_FALLING = 0.05
"""Extra cost of falling positions for a sinusoidal matrix; Transformer-XL's rows, which count back,
do not pay it."""
_UNUSUAL = 0.5
"""Extra cost of fractional or fast falling positions for a rotary table: timesteps of diffusion
models are likelier."""
_UNWRITTEN, _WRITTEN = 2.0, 10**4
"""Extra cost of positions whose denominator exceeds the second number: nobody writes such
fractions."""
_TESTS_BETWEEN, _BY_CHANCE = 64, 1e-3
"""Test positions between whole ones, and the largest accepted probability that all rows of a table
are at whole positions by chance."""
_LEAST_STEP = 0.01
"""Smallest step from row to row, in positions; its reciprocal is the largest."""
_LOOKED_UP = 2.5
"""Cost of an encoding that is tried because people use it, not because the values suggest it."""
_UNREAD = 2.5
"""Extra cost where no parameter was read from the values: more than any encoding that was."""
_MULTIPLIED = 1.0
"""Extra cost of a multiplier of all entries. Chosen by judgement: as three fitted digits."""
_ONE = 0.01
"""Largest distance from 1 of the amplitude of unmultiplied sinusoids: bfloat16 angles shift it."""
_IMAGE_SECTIONS: tuple[dict[str, Any], ...] = (
    {"sections": (16, 24, 24)},
    {"sections": (24, 20, 20), "interleaved": True},
    {"sections": (22, 22, 20), "order": "hwt"},
    {"sections": (8, 12, 12)},
    {"sections": (11, 11, 10), "interleaved": True},
)
"""M-RoPE sections of Qwen2-VL and 2.5-VL, Qwen3-VL, Ernie 4.5 VL, the GLMs, and Qwen 3.5."""
_MOST_TOKENS = 1 << 13
"""Longest prompt to try: the positions of all its tokens are solved."""
_SLIGHT = 1e-5
"""Relative uncertainty of an amplitude stored in a format with a 24-bit significand."""
_FLOAT32 = 1e-7
"""Error of an entry in the first rows of float32 code, in units of the largest one."""
_NEAR = 0.1
"""Largest mean error of a distorted table in its first rows, as a fraction of the mean entry size.
"""


def frequency_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield hypotheses for one row of numbers as inverse frequencies."""
    values = row_of_numbers(evidence)
    if values is None or not values.any():
        return
    errors = (2e-6 + 3 * evidence.rounding) * values + 1e-12
    rates = Rates(values, errors, 1)
    for proposal in rotary_proposals(rates, None):
        yield Hypothesis(
            proposal.scheme,
            proposal.given,
            ("inv-freq",),
            cost=proposal.cost,
            hidden=(
                "layout",
                *_unseen_amplitudes(proposal.given),
                *_other_factors(proposal.given, 1),
            ),
            notes=proposal.notes,
            uncertainty=proposal.uncertainty,
        )


def _unseen_amplitudes(given: Mapping[str, object]) -> tuple[str, ...]:
    """Return the parameters that only an amplitude shows; frequencies have none."""
    names = ("attention_factor", "mscale", "mscale_all_dim")
    return tuple(name for name in names if given.get(name) is None)


def _other_factors(given: Mapping[str, Any], length: int) -> tuple[str, ...]:
    """Return LongRoPE's list of factors that a table of this length does not use.

    If ``given`` has no original context, its name is returned as well.
    """
    if "long_factor" not in given:
        return ()
    name = "original_max_position_embeddings"
    context = given.get(name, rope_longrope.parameters[name].default)
    other = "short_factor" if length > context else "long_factor"
    return (other,) if name in given else (other, name)


def wave_hypotheses(evidence: Evidence) -> Iterator[tuple[bool, Iterator[Hypothesis]]]:
    """Yield hypotheses for each way to read one or two matrices as waves, likeliest way first.

    The bool says whether the rows start at position 0, as in most tables.
    """
    for view in views(evidence):
        yield view.starts_at_0, _hypotheses_of_view(view, evidence)


def function_hypotheses(evidence: Evidence) -> Iterator[Iterator[Hypothesis]]:
    """Yield hypotheses for a matrix of only cosines or only sines, if it has no dimension pairs."""
    if any(view.tables != ("angles",) for view in views(evidence)):
        return
    for view in function_views(evidence):
        yield _hypotheses_of_view(view, evidence)


def _hypotheses_of_view(view: View, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield hypotheses for one way to read the array, from the frequencies of its waves."""
    rounding = 2 * evidence.rounding
    rates = view.rates or rates_of(view.pairs, evidence.rows[: view.pairs.shape[0]], rounding)
    if rates is None or view.shares:  # shares are those of the axes of a grid
        return
    backward = bool(np.sign(rates.values).sum() < 0)
    if backward:
        rates = replace(rates, values=-rates.values)
    # Several encodings have the same frequencies.
    find = lru_cache(partial(_row_positions, view.pairs, evidence, rates))
    if view.kind == "sinusoidal":
        yield from _sinusoidal_hypotheses(view, evidence, rates, find, backward=backward)
    elif view.growth is not None:
        yield from _growing_hypotheses(view, evidence, rates, find)
    else:
        yield from _rotary_hypotheses(view, evidence, rates, find)


def angle_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield hypotheses for a matrix of position × frequency that is not reduced modulo 2π.

    All its rows are then multiples of one row, the frequencies.
    """
    values = real_matrix(evidence)
    if values is None or np.ptp(values, axis=1).max() == 0:
        return  # the angles of one pair can be any numbers
    if evidence.rows.size > 1 and are_multiples(values, evidence.rounding):
        for view in unreduced_views(evidence):
            yield from _hypotheses_of_view(view, evidence)


def placed_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield known encodings at the positions that the phases of each row give, in any order.

    Rows that are not consecutive show no frequency, so only known encodings can be tried.
    """
    few = spread(evidence.rows.size, _EARLY)
    limit = _PLACED + 8 * evidence.rounding
    find = partial(positions_at, farthest=_FARTHEST_PLACED)
    for view in views(evidence):
        any_angles = view.tables == ("angles",) and evidence.rows.size == 1  # those at position 1
        if view.count < _FEWEST_PLACED or view.growth is not None or any_angles:
            continue
        multiplier = _multiplier(view, evidence)
        for scheme, given, frequencies, cost in _common_encodings(view, evidence.shape[1]):
            if any(find(view.pairs[r], frequencies)[1].max() > limit for r in (few[-2:], few)):
                continue
            positions, misfits = find(view.pairs, frequencies)
            if (
                max(misfits.max() / limit, positions.max() / _FARTHEST_PLACED) <= 1
                and not _is_damaged_line(positions, evidence.rows)
                and _is_determined(positions, frequencies, evidence.rounding)
            ):
                yield Hypothesis(
                    scheme,
                    given if view.layout is None else {**given, "layout": view.layout},
                    (None,) if view.kind == "sinusoidal" else view.tables,
                    positions,
                    cost=cost,
                    hidden=_hidden_parameters(view, evidence.shape[1]),
                    multiplier=multiplier,
                )


def prompt_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield M-RoPE for a prompt with images, if its pairs give the tokens' coordinates."""
    count, limit = evidence.count, _PLACED + 8 * evidence.rounding
    few = spread(count, _EARLY)
    seen = evidence.only is None and any(True for _ in views(replace(evidence, only=few)))
    whole = replace(evidence, only=np.arange(count))
    for view in views(whole) if count <= _MOST_TOKENS and seen else ():
        shares = [own for own in _IMAGE_SECTIONS if sum(own["sections"]) == view.count]
        if view.kind != "rotary" or view.growth is not None:
            continue
        for own, base in itertools.product(shares, KNOWN_BASES):
            given = {"dim": 2 * view.count, "base": base, **own, "axes": "axes.csv"}
            waves = mrope.bind(given).rotation.waves
            assert waves.coordinates is not None
            followed = np.array(waves.coordinates.axes)
            frequencies = np.asarray(waves.frequencies(np), np.float64)
            axes = np.zeros((3, count), np.int64)
            for rows, axis in itertools.product((few, np.arange(count)), range(3)):
                pairs = view.pairs[np.ix_(rows, np.flatnonzero(followed == axis))]
                rates = frequencies[followed == axis]
                axes[axis, rows], misfits = positions_at(pairs, rates, farthest=count)
                if misfits.max() > limit:
                    break
            else:
                if prompt_of(axes) is not None:
                    yield Hypothesis(
                        mrope.name,
                        given if view.layout is None else {**given, "layout": view.layout},
                        view.tables,
                        evidence.rows,
                        cost=_LOOKED_UP,
                        hidden=_hidden_parameters(view, evidence.shape[1]),
                        axes=axes,
                    )


def prompt_of(axes: Integers) -> str | None:
    """Return the command that writes ids (3, tokens) to axes.csv; None if they are not a prompt's.

    After an image, text continues from the larger of its numbers of rows and columns, as in
    transformers.

    >>> frames, rows, columns = [0, 1, 1, 1, 1, 3], [0, 1, 1, 2, 2, 3], [0, 1, 2, 1, 2, 3]
    >>> prompt_of(np.array([frames, rows, columns])).partition(" > ")[0]
    'posenc positions -m qwen2-vl-7b --text 1,1 --grid 1,4,4'
    """
    texts, grids, at, next_id = [0], list[tuple[int, ...]](), 0, 0
    count = axes.shape[1]
    alike = (axes == axes[0]).all(axis=0)  # (tokens,)
    while at < count:
        if (axes[:, at] != next_id).any():
            return None
        if at + 1 == count or alike[at + 1]:
            texts[-1], at, next_id = texts[-1] + 1, at + 1, next_id + 1
            continue
        for end in (*(np.flatnonzero(alike[at + 1 :]) + at + 1).tolist(), count):
            sides = tuple((axes[:, end - 1] - next_id + 1).tolist())
            whole = min(sides) > 0 and math.prod(sides) == end - at
            if whole and (axes[:, at:end] - next_id == np.indices(sides).reshape(3, -1)).all():
                break
        else:
            return None
        grids.append(sides)
        texts.append(0)
        at, next_id = end, next_id + max(sides[1:])
    if not grids or not all(texts[1:-1]):  # models treat adjacent grids as one
        return None
    patches = (f"{'video:' * (t > 1)}{t},{2 * h},{2 * w}" for t, h, w in grids)
    words = ["--text", ",".join(map(str, texts)), *(w for p in patches for w in ("--grid", p))]
    return f"posenc positions -m qwen2-vl-7b {' '.join(words)} > axes.csv"


def _hidden_parameters(view: View, dim: int) -> tuple[str, ...]:
    """Return the parameters that a view does not show."""
    if view.kind == "sinusoidal":
        return ("odd",) if dim % 2 == 0 else ()
    return ("layout",) if view.layout is None else ()


def _is_damaged_line(positions: Integers, rows: Integers) -> bool:
    """Return whether most rows, but not all, are evenly spaced; the others are damaged."""
    # Two rows are always on a line.
    return 2 < rows.size < 2 * common_line(positions, rows)[2] < 2 * rows.size


def _common_encodings(view: View, dim: int) -> Iterator[tuple[str, dict[str, Any], Reals, float]]:
    """Yield common encodings with the view's columns: scheme, parameters, frequencies, cost."""
    proposals = (
        _usual_sinusoids(dim, view.columns, view.order, view.odd)
        if view.kind == "sinusoidal"
        else _known_rotations(view.count)
    )
    for proposal in proposals:
        spare = proposal.frequencies.size - view.count
        if spare == 0 or (spare > 0 and view.kind == "sinusoidal"):  # odd width: one has no pair
            yield (
                proposal.scheme,
                dict(proposal.given),
                proposal.frequencies[: view.count],
                proposal.cost,
            )


@lru_cache(maxsize=16)
def _known_rotations(pairs: int, bases: tuple[float, ...] = KNOWN_BASES) -> tuple[Proposal, ...]:
    """Return RoPE with common bases, and the rotations of known models."""
    guesses = (Guess({"dim": 2 * pairs, "base": base}, cost=_LOOKED_UP) for base in bases)
    ropes = filter(None, (proposal_of(rope, guess) for guess in guesses))
    return (*ropes, *presets_of(pairs))


@lru_cache(maxsize=64)
def _usual_sinusoids(dim: int, columns: str, order: str, odd: str) -> tuple[Proposal, ...]:
    """Return sinusoidal matrices with common bases and the given column layout."""
    given = {"dim": dim, "layout": columns, "order": order, "odd": odd}
    guesses = (
        Guess({**given, "base": base, "spacing": spacing}, cost=_LOOKED_UP)
        for base in KNOWN_BASES
        for spacing in ("vaswani", "tensor2tensor")
    )
    return tuple(filter(None, (proposal_of(sinusoidal, guess) for guess in guesses)))


def _multiplier(view: View, evidence: Evidence) -> float:
    """Return the likely multiplier of all entries: the root of a width, or a short number."""
    error = _SLIGHT + 2 * evidence.rounding
    width = evidence.shape[1]
    roots = [math.sqrt(size) for size in (width, width // 2, 2 * width)]
    for number in (1.0, *roots, *(1 / root for root in roots)):
        if abs(view.amplitude / number - 1) <= error:
            return number
    return snap(view.amplitude, error * view.amplitude)


_TABLES: tuple[dict[tuple[str, ...], int], ...] = (
    {
        ("cos-sin",): 2, ("interleaved",): 2, ("cos-full",): 2, ("sin-full",): 2, ("cos",): 1,
        ("sin",): 1,
    },
    {("cos-full", "sin-full"): 2, ("cos", "sin"): 1},
)  # fmt: skip
"""Tables that one file may hold, those that two may, and their columns per pair."""


def fallback_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield encodings of known bases and models at positions 0, 1, … for distorted waves.

    Bfloat16 arithmetic distorts waves so much that their frequencies cannot be read. Tables of one
    function with growing amplitude cannot be read either.
    """
    width = evidence.shape[1]
    if evidence.sample[0].dtype.kind == "c":
        return
    for tables, columns in _TABLES[len(evidence.arrays) - 1].items():
        shown = tables[0].endswith("-full")
        layouts = ("half", "interleaved") if shown else ("interleaved",)
        pairs = width // columns if width % columns == 0 else 0
        known = [
            (proposal.scheme, proposal.given, proposal.cost + _UNREAD)
            for proposal in (_known_rotations(pairs, KNOWN_BASES[:8]) if pairs else ())
        ]
        for layout in layouts if pairs else ():
            own = slice(pairs) if layout == "half" else slice(0, width, columns)
            growing = _growing_encodings(evidence.sample[0][:3, own], evidence.rounding)
            for scheme, given, cost in (*known, *growing):
                hypothesis = Hypothesis(
                    scheme,
                    {**given, "layout": layout},
                    tables,
                    evidence.rows,
                    cost=cost,
                    hidden=() if shown else ("layout",),
                )
                if _comes_near(hypothesis, evidence):
                    yield hypothesis


def _growing_encodings(
    rows: RealRows, rounding: float
) -> Iterator[tuple[str, Mapping[str, Any], float]]:
    """Yield xPos whose three rows (3, pairs) of cosines or sines these are: scheme, given, cost.

    With the growth g from row to row, g · y₀ + y₂ / g is 2 · cos(frequency) · y₁.
    """
    if len(rows) < 3 or rows.dtype.kind == "c":
        return
    for side in ("query", "key"):
        given = {"dim": 2 * rows.shape[1], "side": side}
        growth = xpos.bind(given).rotation.waves.growth
        assert growth is not None
        g = np.asarray(growth.bases(np), np.float64) ** (1 / growth.span)
        cosines = (g * rows[0] + rows[2] / g) / (2 * rows[1])
        rates = np.arccos(cosines)
        sizes = np.abs(rows).max(axis=0) / np.abs(rows[1])
        errors = (_FLOAT32 + 4 * rounding) * sizes / np.sin(rates)
        for base in bases_of_pairs(rates[1:], errors[1:]):
            yield xpos.name, {**given, "base": base}, _LOOKED_UP + _UNREAD + 1


def _comes_near(hypothesis: Hypothesis, evidence: Evidence) -> bool:
    """Return whether a hypothesis is close in the first rows, where any arithmetic still is."""
    try:
        encoding = hypothesis.encoding()
    except InvalidInput:  # too wide for any encoding
        return False
    for count in (2, _EARLY):
        for table, sample in zip(hypothesis.tables, evidence.sample, strict=True):
            predicted = compute(encoding, table, evidence.rows[:count], FLOAT64, "float64")
            missed = distances(sample[:count], predicted, table, evidence.quantum)
            if not missed.mean() <= _NEAR * np.abs(predicted).mean() < np.inf:
                return False
    return True


def _rotary_hypotheses(
    view: View, evidence: Evidence, rates: Rates, find: FindPositions
) -> Iterator[Hypothesis]:
    """Yield rotary encodings with these rates, at the positions that their phases give."""
    precise = 3e-6 + 2 * evidence.rounding
    unseen = view.tables[0] in ("angles", *UNREDUCED_TABLES)
    amplitude = None if unseen else view.amplitude
    missed = 0
    for proposal, multiplier in _multiplied_proposals(view, evidence, rates, amplitude, precise):
        if missed >= _MOST_MISSED:
            return
        missed += 1
        for places in find(proposal.frequencies[: view.count].tobytes()):
            missed = 0
            yield _rotary_hypothesis(view, proposal, places, multiplier)
            for at_length in proposals_at_length(rates, amplitude, places.length, precise=precise):
                yield _rotary_hypothesis(view, at_length, places)


def _in_positions(rates: Rates) -> Rates | None:
    """Return the rates per position if the highest-frequency pair rotates by 1 radian per position.

    The rates of high-frequency pairs are continued from the slower ones, because rows may be more
    than half a rotation apart. None if the step between rows is not plausible.
    """
    values = with_full_turns(rates.values, (1.0,), rates.errors)
    step = snap(float(values[0]), float(rates.errors[0]))
    if not (values >= 0).all() or not _LEAST_STEP <= step <= 1 / _LEAST_STEP:
        return None
    return replace(rates, values=values / step, errors=rates.errors / step)


def _multiplied_proposals(
    view: View, evidence: Evidence, rates: Rates, amplitude: float | None, precise: float
) -> Iterator[tuple[Proposal, float]]:
    """Yield encodings with the amplitude of a view, then those of amplitude 1 times a multiplier.

    If no encoding has rows one position apart, rows any step apart are tried.
    """
    found = False
    for proposal in rotary_proposals(rates, amplitude, precise=precise):
        if view.count == 1 and proposal.cost > 1:
            continue  # some base and factor give any single rate
        found = True
        yield proposal, 1.0
    if not found and (by_steps := _in_positions(rates)) is not None:
        yield from ((each, 1.0) for each in rotary_proposals(by_steps, amplitude, precise=precise))
    if amplitude is not None and abs(amplitude - 1) > 3 * precise:
        multiplier = _multiplier(view, evidence)
        yield from ((each, multiplier) for each in rotary_proposals(rates, 1.0, precise=precise))


def _rotary_hypothesis(
    view: View, proposal: Proposal, places: SampledPositions, multiplier: float = 1.0
) -> Hypothesis:
    given = dict(proposal.given)
    if view.layout is not None and "layout" in catalogue.find(proposal.scheme).parameters:
        given["layout"] = view.layout
    return Hypothesis(
        proposal.scheme,
        given,
        view.tables,
        places.positions,
        cost=proposal.cost + _MULTIPLIED * (multiplier != 1) + _UNUSUAL * places.unusual,
        hidden=(
            *(() if view.layout is not None else ("layout",)),
            *(_unseen_amplitudes(proposal.given) if view.tables[0] in UNREDUCED_TABLES else ()),
            *_other_factors(proposal.given, places.length),
        ),
        notes=proposal.notes,
        uncertainty=proposal.uncertainty,
        multiplier=multiplier,
        denominator=places.denominator,
    )


class SampledPositions(Record):
    """Positions of the sample's rows (rows,), in units of 1/``denominator``."""

    positions: Integers
    denominator: int = 1

    @property
    def length(self) -> int:
        """Length of a sequence that ends at the last position."""
        return max(int(self.positions.max()) // self.denominator, 0) + 1

    @property
    def scaled(self) -> bool:
        """Whether all positions are multiples of a step below 1, as after linear RoPE scaling."""
        step = int(self.positions[1] - self.positions[0]) if self.positions.size > 1 else 1
        return abs(step) < self.denominator and not (self.positions % step).any()

    @property
    def unusual(self) -> bool:
        """Whether positions are fractional, or fall by more than 1 per row."""
        falls = self.positions[-1] < self.positions[0]
        return self.denominator > 1 or bool(falls and np.ptp(self.positions) >= self.positions.size)


def _row_positions(
    pairs: ComplexRows, evidence: Evidence, rates: Rates, float64_frequencies: bytes
) -> list[SampledPositions]:
    """Return possible positions of the sample's rows: evenly spaced, or each by its phases."""
    frequencies = np.frombuffer(float64_frequencies)
    rows = evidence.rows
    known = pairs.shape[0]
    spaced = spread(known, _SOLVED)
    early = np.arange(min(8, known))
    few = np.append(early, spaced[spaced >= early.size])
    misfit = float(positions_at(pairs[early], frequencies, signed=True)[1].mean())
    whole = misfit <= _PLACED + 4 * evidence.rounding
    places = [] if whole else _fractional_positions(pairs, few, evidence, frequencies)
    if places or misfit > _MISFIT:
        return places
    solved, apart = positions_at(pairs[few], frequencies, signed=True)
    # Average over several rows: in half precision, the position of a row is uncertain.
    spans = rows[few][1:8] - rows[few][0]
    steps = np.round((solved[1:8] - solved[0]) / np.maximum(spans, 1)).astype(np.int64)
    step = int(median(steps)) if steps.size else 1
    most = False
    if step != 0:
        # The first row may be damaged or out of place, so take the start that most rows share.
        start, _, count = common_line(solved, rows[few], step)
        even = start + step * rows
        if not _is_vacuous(even, frequencies):
            places.append(SampledPositions(even))
        if count == few.size:
            return places
        most = 2 * count > few.size
    if known == rows.size and rates.rows >= 1 and median(apart) <= _MISFIT:
        every, misfits = positions_at(pairs, frequencies, signed=True)
        sure = median(misfits) <= _MISFIT and _is_determined(every, frequencies, evidence.rounding)
        if sure and not most:  # rows off the line are damaged
            places.append(SampledPositions(every))
    return places


def _is_vacuous(positions: Integers, frequencies: Reals) -> bool:
    """Return whether too few pairs rotate to determine the positions.

    Any angles fit some position of few pairs far away, or two positions of one pair.
    """
    far = int(np.abs(positions).max()) > _FARTHEST_PLACED
    others = positions[positions != positions[0]]
    fewest = _FEWEST_PLACED if far else 2 if (others == others[:1]).all() else 1
    return int(np.count_nonzero(frequencies)) < fewest


def _is_determined(positions: Integers, frequencies: Reals, rounding: float) -> bool:
    """Return whether each row determines its position by itself, and not by chance.

    The check places test rows between whole positions. If whole positions fit the test rows within
    the error of correct code, they would fit any rows of such waves.
    """
    between = np.resize(positions, _TESTS_BETWEEN) + np.linspace(0.25, 0.75, _TESTS_BETWEEN)
    points = np.exp(1j * np.multiply.outer(between, frequencies))
    farthest = max(1, int(np.abs(positions).max()))
    signed = bool(positions.min() < 0)
    found, _ = positions_at(points, frequencies, signed=signed, farthest=farthest)
    missed = np.abs(np.exp(1j * np.multiply.outer(found, frequencies)) - points)
    allowed = PER_ANGLE * np.multiply.outer(np.abs(found), frequencies) + FUNCTIONS + rounding
    explained = float((missed <= allowed).all(axis=1).mean())
    return bool(explained**positions.size <= _BY_CHANCE)


def _fractional_positions(
    pairs: ComplexRows, few: Integers, evidence: Evidence, frequencies: Reals
) -> list[SampledPositions]:
    """Return evenly spaced fractional positions if most of a few rows are at such."""
    found = progression_of(pairs[few], evidence.rows[few], frequencies)
    if found is None:
        return []
    parts = math.lcm(*(number.denominator for number in found))
    first, step = (int(number * parts) for number in found)
    if parts == 1 or max(abs(first), abs(first + step * evidence.count)) > LARGEST_POSITION:
        return []
    return [SampledPositions(first + step * evidence.rows, parts)]


def _sinusoidal_hypotheses(
    view: View, evidence: Evidence, rates: Rates, find: FindPositions, *, backward: bool
) -> Iterator[Hypothesis]:
    """Yield sinusoidal matrices with these rates, at the positions that their phases give."""
    dim = evidence.shape[1]
    multiplier = _multiplier(view, evidence) if abs(view.amplitude - 1) > _ONE else 1.0
    proposals = sinusoidal_proposals(
        rates, columns=view.columns, order=view.order, odd=view.odd, dim=dim
    )
    for proposal in sorted(proposals, key=lambda proposal: proposal.cost):
        content = catalogue.find(proposal.scheme).bind(proposal.given).content
        if not reads_columns(view, content, dim):
            continue
        for places in find(proposal.frequencies[: view.count].tobytes()):
            if places.scaled and view.order == "cos-first" and dim % 2 == 0:
                continue  # RoPE divided by a factor has these columns
            own = Hypothesis(
                proposal.scheme,
                proposal.given,
                (None,),
                places.positions,
                cost=proposal.cost
                + (0.3 if view.order == "cos-first" else 0)
                + _MULTIPLIED * (multiplier != 1)
                + _FALLING * backward
                + _UNWRITTEN * (places.denominator > _WRITTEN),
                hidden=("odd",) if dim % 2 == 0 else (),
                uncertainty=proposal.uncertainty,
                multiplier=multiplier,
                denominator=places.denominator,
            )
            if backward and places.denominator == 1:
                yield from _transformer_xl_hypotheses(own, view)
            yield own


def _transformer_xl_hypotheses(sinusoids: Hypothesis, view: View) -> Iterator[Hypothesis]:
    """Yield Transformer-XL if the sinusoids are at positions that fall from p to −p."""
    dim, given = int(str(sinusoids.given["dim"])), sinusoids.given
    assert sinusoids.positions is not None
    falling = sinusoids.positions
    fits = view.columns == "concat" and view.order == "sin-first" and falling[0] == -falling[-1]
    if fits and given.get("spacing") == "vaswani" and dim % 2 == 0:
        yield replace(
            sinusoids,
            scheme=transformer_xl.name,
            given={"dim": dim, "base": given["base"]},
            positions=-falling,
            cost=sinusoids.cost - _FALLING,
            hidden=(),
        )


def _growing_hypotheses(
    view: View, evidence: Evidence, rates: Rates, find: FindPositions
) -> Iterator[Hypothesis]:
    """Yield xPos: the size of pair i is ζ_i^((p − c)/span)."""
    assert view.growth is not None
    index = np.arange(view.count)
    logarithms = np.log((2 * index + 0.8 * view.count) / (2.8 * view.count))
    slope, start = (float(logarithms @ of / (logarithms @ logarithms)) for of in view.growth)
    for plain in rotary_proposals(rates, None):
        if plain.scheme != rope.name or slope == 0:
            continue
        for places in find(plain.frequencies[: view.count].tobytes()):
            positions = places.positions
            step = (positions[1] - positions[0]) / (evidence.rows[1] - evidence.rows[0])
            span = snap(step / slope, max(1e-3, 1e-6 * abs(step / slope)))
            centre = round(float(positions[0] - step * evidence.rows[0]) - start * span)
            given: dict[str, Any] = {
                **plain.given,
                "scale_base": abs(span),
                "side": "query" if span > 0 else "key",
            }
            at_0 = {"convention": "lucidrains", "seq_len": 1}
            given |= {"seq_len": 2 * centre} if centre > 0 else at_0
            guess = Guess(given, plain.cost + 1, uncertainty=plain.uncertainty)
            if (growing := proposal_of(xpos, guess)) is not None:
                yield _rotary_hypothesis(view, growing, places)
