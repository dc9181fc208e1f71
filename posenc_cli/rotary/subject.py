"""Build the subject of a check from tables, frequencies, or posenc's own tables.

In: arrays or files. Out: a subject whose rows are rotations of dimension pairs.
:mod:`posenc_cli.rotary.rotated` reads rotated vectors, and :mod:`posenc_cli.rotary.result_reader`
the results of functions.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.encoding.engine import wave_filler
from posenc_cli.encoding.request import Encoding
from posenc_cli.errors import InvalidInput, PosencError, quoted_name
from posenc_cli.files.reading import FileRows, FileStack, Loaded, NoMatrix, read_array
from posenc_cli.files.source import SeveralArrays
from posenc_cli.formulas.parameters import as_text, option_words
from posenc_cli.formulas.tables import Layout, paired_columns, rotary_placements
from posenc_cli.inference.codes import SubjectKind
from posenc_cli.inference.fitting import fit
from posenc_cli.inference.reference import Reference, RotationFactors
from posenc_cli.inference.tolerance import Tolerance, unit
from posenc_cli.inference.turning import (
    LAYOUTS,
    ColumnPairing,
    PositionRows,
    SubjectBlock,
    SubjectRotation,
)
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64
from posenc_cli.records import Record, replace
from posenc_cli.rotary.findings import sample_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.calls.function_trial import Irregularity
    from posenc_cli.inference.turning import SomeRows
    from posenc_cli.numerics.arrays import ComplexRows, Flags, NumberArray, Reals
    from posenc_cli.positions import Positions

    GivenRows = NumberArray | FileRows
    """A matrix in memory, or one in a file that is read some rows at a time."""

    Vectors = Callable[[SomeRows], tuple[NumberArray, NumberArray]]
    """Vectors before and after the rotation, one per row."""

GivenArray = str | Loaded
"""The path of a file that holds an array, or an array in memory."""


_ALWAYS_EVALUATED = 2048
"""Largest number of pairs that is always evaluated, whatever the reference has: 16 times a head of
256, in under a second."""


class Subject(Record):
    """Something that rotates queries and keys, or data that determines such a rotation.

    ``own`` is its rotation, with its own pairing of columns. ``as_reference`` has the reference's
    pairing; it is None if the number of columns differs, as ``mismatch`` then says. ``frequencies``
    are set if the subject consists of frequencies only. ``notes`` are for the reader of the
    findings. ``vectors`` returns rows before and after, if the subject is vectors.

    ``broken`` lists non-finite values, and ``irregular`` the reasons why a function does not map
    each row by its position. ``other_calls`` lists kinds of calls with other results than the
    measured ones. ``call`` says how a function was called. ``key`` is the rotation of keys, if the
    function rotates queries and keys. ``returned_half`` is the half precision in which all its
    results for random vectors are exact. ``returned_tables`` says that it returned tables and is
    judged by them.
    """

    kind: SubjectKind
    name: str
    own: SubjectRotation
    as_reference: SubjectRotation | None
    mismatch: str | None = None
    frequencies: Reals | None = None
    notes: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    irregular: tuple[Irregularity, ...] = ()
    other_calls: tuple[Irregularity, ...] = ()
    call: dict[str, Any] | None = None
    key: Subject | None = None
    vectors: Vectors | None = None
    returned_half: str | None = None
    returned_tables: bool = False

    def far_wider(self, reference: Reference) -> bool:
        """Return whether it has so many more pairs than the reference that none is evaluated.

        The verdict is known from the widths; more details are not worth minutes.
        """
        return self.as_reference is None and self.own.pairs > max(_ALWAYS_EVALUATED, reference.head)

    @property
    def is_tables(self) -> bool:
        """Whether it consists of cosines and sines, given or returned by a function."""
        return self.kind == SubjectKind.TABLES or self.returned_tables

    @property
    def unmeasured(self) -> str:
        """The reason why unit vectors do not show how it treats others; empty if they do."""
        return next(filter(None, (one.unlike for one in self.irregular)), "")

    @property
    def no_map(self) -> str:
        """The reason why it cannot be a right map of vectors; empty if it can."""
        if self.broken:
            return ("the function " if self.kind == SubjectKind.IMPL else "") + self.broken[0]
        return self.irregular[0].text if self.irregular else ""

    @property
    def dtype(self) -> str:
        """The number format of its values."""
        return self.own.dtype


def own_tables(reference: Reference, positions: Positions) -> Subject:
    """Return the subject for posenc's own tables: float32, or float64 if amplitudes grow."""
    waves = reference.content.waves
    placements = rotary_placements("interleaved", waves.count)
    places = PositionRows.of(positions)
    filler = wave_filler(waves, reference.engine)
    dtype = FLOAT32 if waves.growth is None else FLOAT64

    def read(rows: SomeRows) -> SubjectBlock:
        block_positions = places.at(rows)
        out = np.empty((block_positions.shape[0], 2 * waves.count), dtype.numpy)
        filler.fill(out, block_positions, placements, dtype=dtype)
        return SubjectBlock(block_positions, complex_of(out[:, 0::2], out[:, 1::2]))

    rotation = SubjectRotation(places, waves.count, dtype.name, 1, reference.pairing, read)
    return Subject(SubjectKind.POSENC, reference.encoding.bound.scheme.name, rotation, rotation)


Matrices = tuple[FileRows, FileRows]
"""Two matrices with the same rows."""


def name_of(given: GivenArray) -> str:
    """Return the name of an array in messages."""
    return quoted_name(given) if isinstance(given, str) else given.path


def matrix_pair(first: GivenArray, second: GivenArray, flag: str) -> Matrices:
    """Return two matrices of the same shape.

    Raises: InvalidInput if their shapes differ, or one is not a matrix of real numbers.
    """
    matrices = _stack_of(first, flag).matrix, _stack_of(second, flag).matrix
    shapes = [matrix.shape for matrix in matrices]
    if shapes[0] != shapes[1]:
        sizes = [f"{rows}×{columns}" for rows, columns in shapes]
        raise InvalidInput(
            f"{flag} {name_of(first)} {name_of(second)}: must have one shape, "
            f"not {sizes[0]} and {sizes[1]}"
        )
    return matrices


def tables_side_by_side(given: GivenArray) -> Matrices:
    """Return cosines and sines from one file: two arrays by name, or the two halves of the columns.

    Raises: InvalidInput if it is not a matrix, has an odd number of columns, or has several arrays
        but not exactly one with cos and one with sin in its name.
    """
    try:
        stack = _stack_of(given, "--tables")
        if stack.matrix.shape[1] % 2 == 0:
            return stack.halves()
    except SeveralArrays as several:
        named = [
            [name for name in several.names if part in name.lower()] for part in ("cos", "sin")
        ]
        if [len(names) for names in named] != [1, 1] or named[0] == named[1]:
            raise
        cos, sin = (f"{given}:{names[0]}" for names in named)
        return matrix_pair(cos, sin, "--tables")
    raise InvalidInput(
        f"--tables {name_of(given)} has an odd number of columns; one file for both tables has "
        "the sines beside the cosines"
    )


def _stack_of(given: GivenArray, flag: str) -> FileStack:
    """Return the real matrix in a file or in memory, without leading axes of length 1.

    Raises: InvalidInput if it is not a matrix of real numbers.
    """
    try:
        return FileStack.of(given)
    except NoMatrix as error:
        raise InvalidInput(f"{flag} {name_of(given)}: {error.rule}") from None


def check_positions(rows: int, positions: Positions, flag: str) -> None:
    """Check that the rows of a file can have these positions.

    Raises: InvalidInput if there are more positions than rows, or fewer that do not start at 0, so
        that their rows are unknown.
    """
    if positions.count < rows and positions.ranges != (range(positions.count),):
        raise InvalidInput(
            f"{flag} has {rows} rows, but {positions.count} positions are requested: give one "
            "per row, in row order, or the first ones with --len"
        )
    if positions.count > rows:
        raise InvalidInput(f"{flag} has {rows} rows, but {positions.count} positions are requested")


def tables(files: Matrices, reference: Reference, positions: Positions) -> Subject:
    """Return the subject for files of cosines and sines: (L, d/2), or (L, d) repeated."""
    cos, sin = files
    dtype = max((cos.dtype, sin.dtype), key=unit)
    rows, columns = cos.shape
    if rows < positions.count <= columns:
        raise InvalidInput(
            f"--tables has {rows} rows, but {positions.count} positions are requested",
            hint=f"it has {columns} columns: is it transposed?",
        )
    check_positions(rows, positions, "--tables")
    name = " ".join(dict.fromkeys(map(quoted_name, (cos.path, sin.path))))
    subject = table_subject(cos, sin, dtype, reference, positions, name=name)
    if cos.path != sin.path:
        return subject
    if positions.ranges[0][0] == 0 and rows > 1:
        _check_both(cos, sin, quoted_name(cos.path))
    read = "one file for both tables: cosines first, then sines"
    return replace(subject, notes=(read, *subject.notes))


def _check_both(cos: GivenRows, sin: GivenRows, name: str) -> None:
    """Check that one file has both cosines and sines: at position 0 they are 1 and 0.

    Raises: InvalidInput if it does not.
    """
    first, second = (np.concatenate([own[row : row + 1] for own in (cos, sin)]) for row in (0, 1))
    if np.ptp(first) == 0 != np.ptp(second):
        kind = "cosines" if first[0, 0] else "sines"
        raise InvalidInput(
            f"{name} has {kind} alone: all columns are {first[0, 0]:g} at position 0",
            hint="give both files: --tables COS SIN",
        )


def table_subject(
    cos: GivenRows,
    sin: GivenRows,
    dtype: str,
    reference: Reference,
    positions: Positions,
    *,
    name: str = "tables",
) -> Subject:
    """Return the subject for tables of cosines and sines that were stored in ``dtype``."""
    places = PositionRows.of(positions)
    kept, width = _count_rotated_columns(cos, sin, reference, places), cos.shape[1]
    subject = _subject_of_columns(cos, sin, kept, reference, places, dtype=dtype, name=name)
    if kept == width:
        return subject
    note = f"the last {width - kept} columns have cosine 1 and sine 0: they do not rotate"
    return replace(subject, notes=(note, *subject.notes))


def _subject_of_columns(
    cos: GivenRows,
    sin: GivenRows,
    width: int,
    reference: Reference,
    places: PositionRows,
    *,
    dtype: str,
    name: str,
) -> Subject:
    """Return the subject for the first ``width`` columns of tables, which rotate, or should."""
    notes = []
    if places.count < cos.shape[0]:
        notes.append(f"the first {places.count} of {cos.shape[0]} rows")
    roundings = 1 if reference.scale == 1 else 2

    def half(rows: SomeRows) -> SubjectBlock:
        return SubjectBlock(places.at(rows), complex_of(cos[rows][:, :width], sin[rows][:, :width]))

    def rotation_with(pairing: ColumnPairing | None) -> SubjectRotation:
        if pairing is None:
            return SubjectRotation(places, width, dtype, roundings, None, half)
        reader = _full_reader(cos, sin, pairing, places)
        return SubjectRotation(places, pairing.pairs, dtype, roundings, pairing, reader)

    least = _MOST_PAIRS if width == 2 * reference.pairs else 1.0
    parts = reference.content.blocks
    repeated = _repeated_layout(cos, sin, width, places, parts=parts, least=least)
    if width == reference.pairs and (repeated is None or _pairs_occur_twice(reference, repeated)):
        notes.append("one column per pair: no layout to check")
        rotation = rotation_with(None)
        return Subject(SubjectKind.TABLES, name, rotation, rotation, notes=tuple(notes))
    half_table = rotation_with(None)
    is_half = repeated is None and (
        _rates_decrease(half_table)
        or ((wider := of_width(reference, width)) is not None and fits(half_table, wider.reference))
    )
    if width == 2 * reference.pairs and not is_half:
        right = rotation_with(reference.pairing)
        own = right
        if repeated is not None and repeated != reference.content.layout:
            own = rotation_with(ColumnPairing.named(repeated, reference.pairs, parts=parts))
        if (repeated, reference.content.layout) == ("half", "interleaved"):
            # GLM, Helium and DeepSeek store [a a] and reorder the columns later.
            right = own
        return Subject(SubjectKind.TABLES, name, own, right, notes=tuple(notes))
    own = half_table
    if repeated is not None:
        own = rotation_with(ColumnPairing.named(repeated, width // 2))
    read = "" if repeated is None else ", each value twice"
    mismatch = (
        f"the tables rotate {own.pairs} pairs ({width} columns{read}); the reference rotates "
        f"{reference.pairs}"
    )
    return Subject(SubjectKind.TABLES, name, own, None, mismatch, notes=tuple(notes))


def _count_rotated_columns(
    cos: GivenRows, sin: GivenRows, reference: Reference, places: PositionRows
) -> int:
    """Return the number of table columns that rotate: fewer if the rest of the head is 1 and 0."""
    width = int(cos.shape[1])
    rotary_columns: dict[int, int] = {
        reference.head: 2 * reference.pairs,
        reference.head // 2: reference.pairs,
    }
    count = rotary_columns.get(width, width)
    if count >= width:
        return width
    return count if _unrotated_columns(cos, sin, places)[count:].all() else width


def _unrotated_columns(cos: GivenRows, sin: GivenRows, places: PositionRows) -> Flags:
    """Return which columns have cosine 1 and sine 0 in all rows. Shape: (columns,)."""
    unrotated = np.ones(cos.shape[1], bool)
    for rows in places.row_blocks():
        unrotated &= (cos[rows] == 1).all(axis=0) & (sin[rows] == 0).all(axis=0)
        if not unrotated.any():
            break
    return unrotated


def complex_of(real: NumberArray, imaginary: NumberArray) -> ComplexRows:
    """Return real and imaginary parts as complex numbers."""
    out = np.empty(real.shape, np.complex128)
    out.real, out.imag = real, imaginary
    return out


def _full_reader(
    cos: GivenRows, sin: GivenRows, pairing: ColumnPairing, places: PositionRows
) -> Callable[[SomeRows], SubjectBlock]:
    """Return a reader of full tables, in which the block of a pair is ((c₁, −s₁), (s₂, c₂))."""
    first, second = _as_slice(pairing.first), _as_slice(pairing.second)

    def read(rows: SomeRows) -> SubjectBlock:
        some_cos, some_sin = cos[rows], sin[rows]  # (n, d)
        c1, c2 = some_cos[:, first], some_cos[:, second]
        s1, s2 = some_sin[:, first], some_sin[:, second]
        positions = places.at(rows)
        if np.array_equal(c1, c2) and np.array_equal(s1, s2):
            return SubjectBlock(positions, complex_of(c1, s1))
        c1, c2, s1, s2 = (entries.astype(np.float64) for entries in (c1, c2, s1, s2))
        return SubjectBlock(
            positions,
            complex_of((c1 + c2) / 2, (s1 + s2) / 2),
            complex_of((c1 - c2) / 2, (s2 - s1) / 2),
        )

    return read


def _as_slice(columns: tuple[int, ...]) -> slice | list[int]:
    """Return columns as a slice if possible, which avoids a copy."""
    step = columns[1] - columns[0] if len(columns) > 1 else 1
    regular = slice(columns[0], columns[-1] + 1, step)
    whole = tuple(range(columns[-1] + 1)[regular]) == columns
    return regular if whole else list(columns)


def _repeated_layout(
    cos: GivenRows, sin: GivenRows, width: int, places: PositionRows, *, parts: int, least: float
) -> Layout | None:
    """Return the layout in which columns repeat at least this share of the pairs that rotate.

    Return None if both layouts do so equally.
    """
    if width % 2 or width < 4:
        return None
    rows, parts = places.sample(), parts if width % (2 * parts) == 0 else 1
    still = (cos[rows] == 1).all(axis=0) & (sin[rows] == 0).all(axis=0)
    counts, rotating = [], []
    for layout in LAYOUTS:
        pairing = ColumnPairing.named(layout, width // 2, parts=parts)
        first, second = list(pairing.first), list(pairing.second)
        same = [
            np.isclose(table[:, first], table[:, second], rtol=0, atol=1e-6, equal_nan=True)
            for table in (cos[rows], sin[rows])
        ]
        counts.append(int(np.all(same, axis=(0, 1)).sum()))
        rotating.append(int((~(still[first] & still[second])).sum()))
    best = int(np.argmax(counts))
    if counts[0] == counts[1] or width // 2 - counts[best] > (1 - least) * rotating[best]:
        return None
    return LAYOUTS[best]


def _pairs_occur_twice(reference: Reference, layout: Layout) -> bool:
    """Return whether the reference's pairs occur twice, as if half a table were repeated."""
    first, second = (list(columns) for columns in paired_columns(layout, reference.pairs // 2))
    frequencies = reference.frequencies
    return bool(np.allclose(frequencies[first], frequencies[second], rtol=1e-6, atol=0))


def inverse_frequencies(given: GivenArray, reference: Reference, positions: Positions) -> Subject:
    """Return the subject for frequencies in a file or in memory.

    Raises: InvalidInput if they are not a row of real numbers, or the reference's pairs have no
        single frequency.
    """
    if reference.coordinates is not None and reference.coordinates.oblique:
        raise InvalidInput(
            f"--inv-freq {name_of(given)}: pairs that rotate with row and column at once have no "
            "single frequency",
            hint="--tables COS SIN, --rotated or --impl check their rotation",
        )
    loaded = read_array(given) if isinstance(given, str) else given
    values = loaded.values
    if values.size != max(values.shape) or values.dtype.kind != "f":
        shape = "×".join(map(str, values.shape))
        raise InvalidInput(
            f"--inv-freq {name_of(given)}: must be one row of real numbers, not an array of "
            f"shape {shape}"
        )
    return frequency_subject(
        values.reshape(-1), loaded.dtype, reference, positions, name=name_of(given)
    )


def frequency_subject(
    frequencies: NumberArray,
    dtype: str,
    reference: Reference,
    positions: Positions,
    *,
    name: str = "inv-freq",
) -> Subject:
    """Return the subject for frequencies, each of which is taken exactly."""
    given = frequencies.astype(np.float64)
    finite = np.isfinite(given)
    broken: tuple[str, ...] = ()
    if not finite.all():
        at = int(np.argmin(finite))
        broken = (f"{int((~finite).sum())} of {given.size} frequencies are not finite (pair {at})",)
    places = PositionRows.of(positions)

    fits = given.size == reference.pairs

    @lru_cache(maxsize=1)
    def exact_rotation() -> RotationFactors:
        coordinates = reference.content.waves.coordinates if fits else None
        return RotationFactors.of(np.where(finite, given, 0.0), reference.engine, coordinates)

    def read(rows: SomeRows) -> SubjectBlock:
        block_positions = places.at(rows)
        factors = exact_rotation().at(block_positions)  # (n, pairs)
        factors *= reference.scale
        factors[:, ~finite] = np.nan
        return SubjectBlock(block_positions, factors)

    rotation = SubjectRotation(places, given.size, dtype, 1, None, read)
    return Subject(
        SubjectKind.INV_FREQ,
        name,
        rotation,
        rotation if fits else None,
        None
        if fits
        else f"there are {given.size} frequencies; the reference has {reference.pairs} pairs",
        frequencies=given,
        notes=("frequencies alone: no layout, direction or attention factor to check",),
        broken=broken,
    )


_FIRST_ROWS = 48
"""Rows to compare before all of them."""

_MOST_PAIRS = 7 / 8
"""The share of pairs whose columns must be equal in full tables. A few wrong values do not hide
their layout."""

_UNEVEN = 0.05
"""Relative error of factors: tables in a half precision or in eight bits differ by this."""

_SLOWER = 0.999
"""Largest ratio of a rate to the one before; in the longest ladders it is below 0.99."""


class OtherWidth(Record):
    """A reference of another width, and the options that select it."""

    reference: Reference
    options: str


def of_width(reference: Reference, pairs: int) -> OtherWidth | None:
    """Return the reference with so many pairs; None if its scheme has none.

    The head keeps its width if the pairs fill it; otherwise the rotated share stays the same.
    """
    bound = reference.encoding.bound
    share = 2 * reference.pairs / reference.head
    tried: list[dict[str, float]] = [{"dim": round(2 * pairs / share)}]
    if "partial" in bound.scheme.parameters and share < 1:
        tried.insert(0 if 2 * pairs == reference.head else 1, {"dim": 2 * pairs, "partial": 1.0})
    for changed in tried:
        given = {
            name: value
            for name, value in {**bound.params, **changed}.items()
            if name in bound.scheme.parameters and value is not None
        }
        try:
            other = Reference.of(Encoding.of(bound.scheme, given, seq_len=None), reference.engine)
            if other.pairs == pairs:
                words = (option_words(name, as_text(value)) for name, value in changed.items())
                return OtherWidth(other, " ".join(chain.from_iterable(words)))
        except PosencError:
            continue
    return None


def fits(rotation: SubjectRotation, reference: Reference) -> bool:
    """Return whether a subject equals a reference of the same width in every row."""
    tolerance = Tolerance.of(
        "auto", dtype=rotation.dtype, roundings=rotation.roundings, amplitude=reference.scale
    )
    few = rotation.read(rotation.places.sample()[:_FIRST_ROWS])
    return all(
        sample_of(block, reference, tolerance)
        .compare(reference.rotation.at(block.positions), reference.frequencies)[1]
        .all()
        for block in chain([few], rotation.blocks())
    )


def _rates_decrease(rotation: SubjectRotation) -> bool:
    """Return whether each column of half tables has its own rate, each slower than the last.

    Full tables have each rate twice.
    """
    block = rotation.read(rotation.places.sample(256))
    sizes = np.abs(block.turned)  # (n, pairs)
    if not np.ptp(sizes) <= _UNEVEN * sizes.max(initial=0.0):
        return False
    rates = np.abs(fit(block.positions, block.turned).frequencies)
    return bool((rates[1:] < _SLOWER * rates[:-1]).all())
