"""Compare two arrays or encodings at the same rows and lengths.

Rotations are compared pair by pair, in amplitude, and in the dimensions that form a pair.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from posenc_cli import catalogue
from posenc_cli.backends import registry
from posenc_cli.budget import COMPUTED_CELLS, check_size
from posenc_cli.comparison.difference import Difference, Operand, difference
from posenc_cli.configs import library
from posenc_cli.encoding.engine import Engine, threads_for
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import Encoding, Plan, Request
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.inference.tolerance import real_format
from posenc_cli.numerics import exact
from posenc_cli.positions import Positions
from posenc_cli.records import Record, fresh, replace
from posenc_cli.rotary.lengths import LengthRule, depends_on_length, length_rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.configs.resolved import Sourced
    from posenc_cli.files.reading import Loaded
    from posenc_cli.formulas.declare import Bound, Rotation, Scheme
    from posenc_cli.numerics.dtypes import DType


_PLACES = 1 << 20
"""Positions whose coordinates are compared: as many as any image's grid has."""


class Pair(Record):
    """A dimension pair whose frequency differs between two rotations, in radians per position.

    Frequencies are correctly rounded to float64. A pair that does not rotate has the frequency 0.
    """

    index: int
    a: float
    b: float

    @property
    def wavelengths(self) -> tuple[float, float]:
        """Positions per period, infinite for a pair that does not rotate."""
        first, second = (math.inf if f == 0 else 2 * math.pi / abs(f) for f in (self.a, self.b))
        return first, second

    @property
    def ratio(self) -> float:
        """Wavelength of b, divided by that of a."""
        return math.inf if self.b == 0 else self.a / self.b

    @property
    def apart(self) -> float:
        """The factor, at least 1, by which the wavelengths differ; infinite if one of them is."""
        return max(abs(self.ratio), 1 / abs(self.ratio)) if self.ratio else math.inf


class RotationDifference(Record):
    """The difference between two rotations, a and b, of equally many pairs.

    ``pairs`` are those whose frequencies differ. ``scales`` multiply cosines and sines of a and b,
    so logits are multiplied by their squares. ``layouts`` name the dimensions that form a pair.
    ``alike`` says whether these and the axes of the pairs are the same.
    """

    count: int
    pairs: tuple[Pair, ...]
    scales: tuple[float, float]
    layouts: tuple[str, str]
    alike: bool

    @property
    def worst(self) -> Pair | None:
        """The pair whose wavelengths differ by the largest factor."""
        return max(self.pairs, key=lambda pair: pair.apart, default=None)

    @property
    def max_abs(self) -> float:
        """The largest difference of two frequencies."""
        return max((abs(pair.a - pair.b) for pair in self.pairs), default=0.0)

    @property
    def counts_units(self) -> bool:
        """Whether ``max_ulp`` is meaningful: next to 0, it counts all numbers."""
        return self.max_ulp < 2.0**52

    @property
    def max_ulp(self) -> float:
        """The largest difference of two frequencies in units in the last place of float64."""
        sizes = ((pair, max(abs(pair.a), abs(pair.b))) for pair in self.pairs)
        return max(
            (abs(pair.a - pair.b) / (size - math.nextafter(size, 0)) for pair, size in sizes),
            default=0.0,
        )

    def within(self, tolerance: float) -> bool:
        """Return whether frequencies and amplitudes differ by at most a relative ``tolerance``."""
        numbers = [(pair.a, pair.b) for pair in self.pairs] + [self.scales]
        return self.alike and all(abs(a - b) <= tolerance * max(abs(a), abs(b)) for a, b in numbers)


def rotation_difference(a: Rotation, b: Rotation) -> RotationDifference:
    """Return the difference of two rotations.

    Raises: InvalidInput if they have different numbers of pairs, amplitudes that change with the
    position, or pairs with several frequencies.

    >>> from posenc_cli.catalogue import find
    >>> plain, linear = (find(name).bind({"dim": 4}).content for name in ("rope", "rope-linear"))
    >>> [(pair.index, pair.ratio) for pair in rotation_difference(plain, linear).pairs]
    [(0, 4.0), (1, 4.0)]
    """
    if a.waves.count != b.waves.count:
        raise InvalidInput(
            f"the shapes differ: {a.waves.count} and {b.waves.count} pairs",
            hint="--dim is the number of rotated dimensions",
        )
    if a.waves.growth is not None or b.waves.growth is not None:
        raise InvalidInput(
            "an amplitude that changes with the position can only be compared at given positions",
            hint="--len N",
        )
    if any(of.waves.coordinates is not None and of.waves.coordinates.oblique for of in (a, b)):
        raise InvalidInput(
            "pairs that rotate with row and column at once can only be compared at given positions",
            hint="--len N",
        )
    frequencies = [[float(f) for f in rotation.waves.frequencies(exact)] for rotation in (a, b)]
    return RotationDifference(
        count=a.waves.count,
        pairs=tuple(
            Pair(index, f, g)
            for index, (f, g) in enumerate(zip(*frequencies, strict=True))
            if f != g
        ),
        scales=(float(a.waves.scale), float(b.waves.scale)),
        layouts=(a.layout, b.layout),
        alike=(a.layout, a.blocks) == (b.layout, b.blocks) and _same_axes(a, b),
    )


def _same_axes(a: Rotation, b: Rotation) -> bool:
    """Return whether pairs follow the same axes, and positions have the same coordinates."""
    first, second = a.waves.coordinates, b.waves.coordinates
    if first is None or second is None:
        return first is second
    if first.axes != second.axes or first.file != second.file:
        return False
    places = [
        coordinates.capacity and coordinates.capacity.positions for coordinates in (first, second)
    ]
    if places[0] != places[1] or first.at is None or second.at is None:
        return places[0] == places[1] and first.at is second.at
    import numpy as np

    where = np.arange(min(places[0] or _PLACES, _PLACES))
    return all(np.array_equal(x, y) for x, y in zip(first.at(where), second.at(where), strict=True))


_AXIS_PARAMETERS = ("sections", "interleaved", "order")
"""Parameters that assign pairs to axes."""
_IDENTIFIED = 1 << 20
"""The most values of a file that is identified without a request if it differs: a second."""
_ROUNDING = 1e-12  # between two formulas for one factor


class Side(Record):
    """One side of a comparison: an array that was read, or an encoding to compute.

    ``given`` are the parameters of the encoding. For a config, ``sources`` gives the source of each
    parameter. ``layer_type`` names the chosen layers, if there are several types. ``softmax`` is a
    factor on their logits beside the rotation.
    """

    name: str
    loaded: Loaded | None = None
    scheme: Scheme | None = None
    given: Mapping[str, Any] = fresh(dict)
    positions: Positions | None = None
    runtime: str | None = None
    sources: Mapping[str, str] = fresh(dict)
    warnings: tuple[str, ...] = ()
    layer_type: str | None = None
    softmax: Sourced | None = None

    @property
    def title(self) -> str:
        """Its name, as text."""
        known = self.name in catalogue.BUILT_IN or self.name in library.names()
        name = self.name if known else quoted_name(self.name)
        return name if self.runtime is None else f"{name} as {self.runtime}"

    @property
    def is_rotary(self) -> bool:
        """Whether it is a rotary encoding, with frequencies to compare."""
        return self.scheme is not None and self.scheme.kind == "rotary"

    @property
    def seq_len(self) -> int | None:
        """The sequence length that its positions need."""
        return self.positions.length if self.positions else None

    def encoding(self, seq_len: int | None) -> Encoding:
        """Return the encoding for a sequence of a length; a length in ``given`` has priority."""
        assert self.scheme is not None
        return Encoding.of(self.scheme, self.given, seq_len=seq_len)

    @property
    def random_weights(self) -> str | None:
        """The weights that are randomly initialized because no file was given, or None."""
        if self.scheme is None:
            return None
        last = self.positions.length - 1 if self.positions else None
        return self.encoding(self.seq_len).bound.random_weights(last)

    def length_rule(self) -> LengthRule:
        """Return the lengths at which its frequencies change; none if it is not rotary."""
        if self.scheme is None or not self.is_rotary:
            return LengthRule()
        return length_rule(self.scheme, self.given)

    def at(self, positions: Positions | None, other: Side, head: int | None) -> Side:
        """Return the side at some positions, by default as many as the other side's file has."""
        loaded = other.loaded
        if self.scheme is None:
            return self
        if positions is None and loaded is not None and loaded.values.ndim > 1:
            by_key = self.scheme.kind == "bias" and head is None
            rows = loaded.values.shape[-1 if by_key else 0]
            if self.scheme.kind == "relative":
                rows = (rows + 1) // 2
            positions = Positions.contiguous(0, rows)
        return replace(self, positions=positions)

    def operand(
        self, other: Side, *, table: str | None, head: int | None, dtype: DType | None
    ) -> Operand:
        """Return the array of the side, computed during the comparison if it was not read.

        Computed values are rounded to ``dtype``. The default is the number format of the other
        side's file, so that a correct file differs in nothing. For two encodings it is float64.

        Raises: InvalidInput if its parts do not go together.
        """
        if self.loaded is not None:
            return Operand.of_array(self.loaded.values, self.loaded.dtype)
        stored = other.loaded.dtype if other.loaded else "float64"
        request = Request(
            encoding=self.encoding(self.seq_len),
            positions=self.positions,
            precision=Precision.of(dtype or real_format(stored), None),
            table=table or (_table_of(other.loaded) if self.is_rotary else None),
            head=head,
        )
        plan = request.plan()
        check_size(
            self.title, plan.values, COMPUTED_CELLS, "values", hint="--positions start:stop:step"
        )
        return Operand.of_matrix(plan.matrix(_engine(plan)))


class Identities(Record):
    """The identified files of a comparison, by side, and the settings in which A and B differ.

    ``differing`` has the texts of both sides, for each setting that both have.
    """

    summaries: Mapping[str, str]
    differing: Mapping[str, tuple[str, str]]


class ArrayComparison(Record):
    """The comparison of two arrays.

    ``not_compared`` has a sentence for each side that changes with the sequence length.
    """

    kind: ClassVar[str] = "arrays"

    sides: Sequence[Side]
    operands: Sequence[Operand]
    difference: Difference
    tolerance: float
    not_compared: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether they differ by at most the tolerance, and not all values are NaN."""
        return self.difference.within(self.tolerance) and not self.difference.all_nan

    @property
    def is_small(self) -> bool:
        """Whether at most one side is a file, small enough to identify without a request."""
        files = [side.loaded for side in self.sides if side.loaded is not None]
        return len(files) < 2 and all(file.values.size <= _IDENTIFIED for file in files)

    @cached_property
    def identities(self) -> Identities:
        """The identity of each file, checked with all its values, and the differing settings."""
        from posenc_cli.identification.search import identify_files, settings_of

        summaries: dict[str, str] = {}
        known: list[Mapping[str, str]] = []
        for key, side in zip("AB", self.sides, strict=True):
            if side.loaded is not None:
                found = identify_files([side.loaded])
                summaries[key] = found.summary
                known.append(found.settings)
            else:
                bound = side.encoding(side.seq_len).bound
                known.append({"scheme": bound.scheme.name, **settings_of(bound.params)})
        first, second = known
        shown = [name for name in first if first[name] and second.get(name)]
        names = [name for name in shown if first[name] != second[name]]
        if "scheme" in names:  # parameters of another scheme mean something else
            names = ["scheme"]
        return Identities(summaries, {name: (first[name], second[name]) for name in names})

    @property
    def position(self) -> float | None:
        """The position of the row with the difference, if a side knows it."""
        at = self.difference.at
        for side in self.sides:
            if side.scheme is None or side.positions is None or at is None or len(at) != 2:
                continue
            if side.scheme.kind in ("absolute", "rotary"):
                number = next(itertools.islice(side.positions, at[0], None))
                parts = side.positions.denominator
                return number / parts if number % parts else number // parts
        return None


class LengthDifference(Record):
    """The difference of two rotary encodings at a sequence length, None if none has an effect."""

    seq_len: int | None
    bounds: Sequence[Bound]
    difference: RotationDifference

    @classmethod
    def of(cls, sides: Sequence[Side], seq_len: int | None) -> LengthDifference:
        """Return the difference at one length.

        Raises: InvalidInput if they have different numbers of pairs.
        """
        bounds = [side.encoding(seq_len).bound for side in sides]
        return cls(seq_len, bounds, rotation_difference(*(bound.rotation for bound in bounds)))

    @property
    def sort_key(self) -> tuple[bool, float, int]:
        """A sort key: whether more than frequencies differ, the largest factor, the count."""
        difference = self.difference
        scales = difference.scales[0] != difference.scales[1] or not difference.alike
        factor = difference.worst.apart if difference.worst else 1.0
        return scales, factor, len(difference.pairs)


class RotationComparison(Record):
    """The comparison of two rotary encodings at every position, at each length that matters.

    If a rule ``goes_on``, frequencies may differ at lengths that were not compared.
    """

    kind: ClassVar[str] = "rotations"

    sides: Sequence[Side]
    lengths: Sequence[LengthDifference]
    goes_on: bool
    tolerance: float

    @classmethod
    def of(cls, sides: Sequence[Side], tolerance: float) -> RotationComparison:
        """Return the comparison of two rotary encodings, on both sides of each switch.

        Raises: InvalidInput if they have different numbers of pairs.
        """
        rules = [] if _same_encoding(sides) else [side.length_rule() for side in sides]
        switched = sorted({length for rule in rules for length in rule.lengths})
        lengths = [LengthDifference.of(sides, length) for length in switched or (None,)]
        return cls(sides, lengths, any(rule.goes_on for rule in rules), tolerance)

    @property
    def worst(self) -> LengthDifference:
        """The length at which they differ most."""
        return max(self.lengths, key=lambda length: length.sort_key)

    @property
    def softmax_factors(self) -> tuple[float, float]:
        """Factors on the logits beside the rotation: mscale² of latent attention, else 1."""
        first, second = (side.softmax.value if side.softmax else 1.0 for side in self.sides)
        return first, second

    @property
    def same_softmax(self) -> bool:
        """Whether these differ by at most the tolerance."""
        return math.isclose(*self.softmax_factors, rel_tol=max(self.tolerance, _ROUNDING))

    @property
    def same_axes(self) -> bool:
        """Whether pairs follow the same axes. Text, with one position on all axes, hides that."""
        first, second = self.worst.bounds
        if first.scheme is not second.scheme:
            return True
        return all(first.params.get(name) == second.params.get(name) for name in _AXIS_PARAMETERS)

    @property
    def ok(self) -> bool:
        """Whether they differ by at most the tolerance at every length, with the same pairs."""
        alike = all(length.difference.within(self.tolerance) for length in self.lengths)
        return alike and self.same_softmax and self.same_axes


_SHAPE_HINT = "for a scheme, --len, --dim, --head and --table choose the array"


def comparison(
    sides: Sequence[Side],
    positions: Positions | None,
    *,
    table: str | None,
    head: int | None,
    dtype: DType | None,
    tolerance: float,
) -> ArrayComparison | RotationComparison:
    """Return the comparison of two sides: as rotations if both are and no positions are given.

    Otherwise their arrays are compared.

    Raises: InvalidInput if they cannot be compared.
    """
    first, second = sides
    placed = first.at(positions, second, head), second.at(positions, first, head)
    if table is None and all(side.is_rotary for side in sides):
        if positions is None:
            return RotationComparison.of(placed, tolerance)
        rotations = [side.encoding(side.seq_len).bound.rotation for side in placed]
        if len({rotation.layout for rotation in rotations}) > 1:
            table = "cos-full"  # depends on the layout, unlike cos-sin
    operands = [
        side.operand(other, table=table, head=head, dtype=dtype)
        for side, other in zip(placed, placed[::-1], strict=True)
    ]
    return ArrayComparison(
        placed,
        operands,
        difference(*operands, hint=_SHAPE_HINT if any(side.scheme for side in sides) else None),
        tolerance,
        tuple(_not_compared(placed)),
    )


def _same_encoding(sides: Sequence[Side]) -> bool:
    """Return whether both sides are one scheme with the same parameters, at any length."""
    first, second = sides
    if first.scheme is None or first.scheme is not second.scheme:
        return False
    return first.encoding(None).bound.params == second.encoding(None).bound.params


def _not_compared(sides: Sequence[Side]) -> Iterator[str]:
    """Yield how sides change with the length, which arrays at some positions do not show."""
    if _same_encoding(sides):
        return
    for key, side in zip("AB", sides, strict=True):
        if side.scheme is None or side.positions is None:
            continue
        rule = side.length_rule()
        if rule.switches:
            switches = ", ".join(f"from {switch} on" for switch in rule.switches)
            more = ", and again with further positions" if rule.goes_on else ""
            change = f"it changes with the length: {switches}{more}"
        elif depends_on_length(side.scheme, side.given):
            change = "its values follow the length; other lengths were not compared"
        else:
            continue
        yield (
            f"{key} was computed for a sequence of {side.seq_len}, the last position + 1; {change}"
        )


def _engine(plan: Plan) -> Engine:
    """Return the engine for a plan; exact values are the same bytes on every engine."""
    backend = registry.choose("auto", device=None, values=plan.kernel_values).backend
    return Engine(backend=backend, threads=threads_for(plan.values, None))


def _table_of(loaded: Loaded | None) -> str | None:
    """Return the rotary table that a file seems to hold, or None if its values do not show it."""
    if loaded is None:
        return None
    if loaded.values.ndim == 1:
        return "inv-freq"
    return "complex" if loaded.values.dtype.kind == "c" else None
