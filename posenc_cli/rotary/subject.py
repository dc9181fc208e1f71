"""The subject of a check: tables, frequencies, rotated vectors, or posenc's own tables.

Owns the step from what someone computed to turns of dimension pairs. A function is read by
:mod:`posenc_cli.checks.calling`.
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
from posenc_cli.formulas.tables import paired_columns, rotary_placements
from posenc_cli.inference.fitting import fit
from posenc_cli.inference.reference import Reference, Turns
from posenc_cli.inference.tolerance import Tolerance, unit
from posenc_cli.inference.turning import (
    LAYOUTS,
    ColumnPairing,
    PositionRows,
    SubjectBlock,
    Turning,
)
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64
from posenc_cli.positions import Positions, range_texts
from posenc_cli.records import Record, replace
from posenc_cli.rotary.codes import SubjectKind
from posenc_cli.rotary.findings import sample_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from posenc_cli.calls.function_trial import Irregularity
    from posenc_cli.formulas.tables import Layout
    from posenc_cli.inference.turning import SomeRows
    from posenc_cli.numerics.arrays import ComplexRows, Flags, NumberArray, Reals

    Vectors = Callable[[SomeRows], tuple[NumberArray, NumberArray]]
    """Rows of vectors before and after."""

GivenArray = str | Loaded
"""The path of a file that holds an array, or an array that is there."""


class FirstColumns(Record):
    """The first columns of a table whose rows are read as they are asked for."""

    table: NumberArray | FileRows | FirstColumns
    count: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.table.shape[0], self.count

    def __getitem__(self, rows: SomeRows) -> NumberArray:
        """Some of the rows."""
        return self.table[rows][:, : self.count]


if TYPE_CHECKING:
    GivenRows = NumberArray | FileRows | FirstColumns
    """A matrix, or one in a file, of which some rows are asked for at a time."""

_SHOWN_RUNS = 3
"""Of columns that are named."""

_WIDE = 2048
"""Pairs that are evaluated whatever the reference has: 16 times a head of 256, under a second."""


class Subject(Record):
    """Something that rotates queries and keys, or says how.

    ``own`` is what it does, its columns paired as it pairs them; ``as_reference`` the same, paired
    as the reference pairs columns, None where their number differs (``mismatch`` says how).
    ``frequencies`` are those that were given, where a subject is nothing but frequencies.
    ``notes`` say what a reader of the findings should know of it. ``broken`` says which of its
    values are no numbers, ``irregular`` why a function is no map of each row by its position,
    ``other_calls`` what it does otherwise in calls of other kinds than those that were measured.
    ``call`` says how it was called, and ``key`` is what it does to keys, where it rotates queries
    and keys. ``vectors`` gives rows of them before and after, where it is these. Of a function,
    ``infinite`` says that some values it returned are, ``returned_half`` which half precision all
    that it makes of random vectors has, ``returned_tables`` that it is judged by tables that it
    returned.
    """

    kind: SubjectKind
    name: str
    own: Turning
    as_reference: Turning | None
    mismatch: str | None = None
    frequencies: Reals | None = None
    notes: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    irregular: tuple[Irregularity, ...] = ()
    other_calls: tuple[Irregularity, ...] = ()
    call: dict[str, Any] | None = None
    key: Subject | None = None
    vectors: Vectors | None = None
    infinite: bool = False
    returned_half: str | None = None
    returned_tables: bool = False

    def far_wider(self, reference: Reference) -> bool:
        """Whether it rotates so many more pairs than the reference that none of them is evaluated.

        That the widths differ is known without: what more there is to say is not worth minutes.
        """
        return self.as_reference is None and self.own.pairs > max(_WIDE, reference.head)

    @property
    def is_tables(self) -> bool:
        """Whether it is cosines and sines, given or returned by a function."""
        return self.kind == SubjectKind.TABLES or self.returned_tables

    @property
    def unmeasured(self) -> str:
        """Why unit vectors say nothing of what it does to others; empty where they do."""
        return next(filter(None, (one.unlike for one in self.irregular)), "")

    @property
    def no_map(self) -> str:
        """Why it is no map of vectors that could be right; empty where it is one."""
        if self.broken:
            return ("the function " if self.kind == SubjectKind.IMPL else "") + self.broken[0]
        return self.irregular[0].text if self.irregular else ""

    @property
    def dtype(self) -> str:
        """The number format its values are stored in."""
        return self.own.dtype


def own_tables(reference: Reference, positions: Positions) -> Subject:
    """The tables that posenc itself writes, as float32 (as float64 where amplitudes grow)."""
    waves = reference.content.waves
    placements = rotary_placements("interleaved", waves.count)
    places = PositionRows.of(positions)
    filler = wave_filler(waves, reference.engine)
    dtype = FLOAT32 if waves.growth is None else FLOAT64

    def read(rows: SomeRows) -> SubjectBlock:
        where = places.at(rows)
        out = np.empty((where.shape[0], 2 * waves.count), dtype.numpy)
        filler.fill(out, where, placements, dtype=dtype)
        return SubjectBlock(where, complex_of(out[:, 0::2], out[:, 1::2]))

    turning = Turning(places, waves.count, dtype.name, 1, reference.pairing, read)
    return Subject(SubjectKind.POSENC, reference.encoding.bound.scheme.name, turning, turning)


Matrices = tuple[FileRows, FileRows]
"""Two matrices whose rows belong together."""


def name_of(given: GivenArray) -> str:
    """What messages call an array that is to be checked."""
    return quoted_name(given) if isinstance(given, str) else given.path


def matrix_pair(first: GivenArray, second: GivenArray, flag: str) -> Matrices:
    """Two matrices of one shape.

    Raises: InvalidInput where their shapes differ, or one is no matrix of real numbers.
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


def tables_side_by_side(given: GivenArray, flag: str) -> Matrices:
    """Cosines and sines in one file: two arrays by their names, or the halves of one's columns.

    Raises: InvalidInput where it is no matrix, has an odd number of columns, or has several arrays
        of which not one alone has cos in its name, and one sin.
    """
    try:
        stack = _stack_of(given, flag)
        if stack.matrix.shape[1] % 2 == 0:
            return stack.halves()
    except SeveralArrays as several:
        named = [
            [name for name in several.names if part in name.lower()] for part in ("cos", "sin")
        ]
        if [len(names) for names in named] != [1, 1] or named[0] == named[1]:
            raise
        cos, sin = (f"{given}:{names[0]}" for names in named)
        return matrix_pair(cos, sin, flag)
    raise InvalidInput(
        f"{flag} {name_of(given)}: has an odd number of columns; one file for both tables has "
        "the sines beside the cosines"
    )


def _stack_of(given: GivenArray, flag: str) -> FileStack:
    """The real matrix in a file or in memory; leading axes of length 1 are dropped.

    Raises: InvalidInput when it is no matrix of real numbers.
    """
    try:
        return FileStack.of(given)
    except NoMatrix as error:
        raise InvalidInput(f"{flag} {name_of(given)}: {error.rule}") from None


def row_positions(rows: int, positions: Positions | None, flag: str) -> Positions:
    """The positions of the rows of a file: 0, 1, … where none are given.

    Raises: InvalidInput when more are given than there are rows, or fewer, and it is open which
        rows they are: only the first ones, from position 0 on, are a beginning of the file.
    """
    if positions is None:
        return Positions.contiguous(0, rows)
    if positions.count < rows and positions.ranges != (range(positions.count),):
        raise InvalidInput(
            f"{flag}: has {rows} rows, but {positions.count} positions are asked for: give one "
            "for each row, in the order of the rows, or the first ones with --len"
        )
    if positions.count > rows:
        raise InvalidInput(
            f"{flag}: has {rows} rows, but {positions.count} positions are asked for"
        )
    return positions


def tables(files: Matrices, reference: Reference, positions: Positions | None) -> Subject:
    """Tables of cosines and sines, (L, d/2) or repeated to (L, d), from files."""
    cos, sin = files
    dtype = max((cos.dtype, sin.dtype), key=unit)
    rows, columns = cos.shape
    if positions is not None and rows < positions.count <= columns:
        raise InvalidInput(
            f"--tables: has {rows} rows, but {positions.count} positions are asked for",
            hint=f"it has {columns} columns: is it transposed? Without --len posenc looks",
        )
    where = row_positions(rows, positions, "--tables")
    name = f"{quoted_name(cos.path)} {quoted_name(sin.path)}"
    subject = table_subject(cos, sin, dtype, reference, where, name=name)
    if cos.path != sin.path:
        return subject
    read = "one file for both tables: cosines first, then sines"
    return replace(subject, notes=(read, *subject.notes))


def table_subject(
    cos: GivenRows,
    sin: GivenRows,
    dtype: str,
    reference: Reference,
    positions: Positions,
    *,
    name: str = "tables",
) -> Subject:
    """Tables of cosines and sines as a subject; ``dtype`` is the format they were stored in."""
    places, width = PositionRows.of(positions), cos.shape[1]
    kept = _turning_columns(cos, sin, reference, places)
    if kept == width:
        return _subject_of_columns(cos, sin, reference, places, dtype=dtype, name=name)
    first, second = FirstColumns(cos, kept), FirstColumns(sin, kept)
    subject = _subject_of_columns(first, second, reference, places, dtype=dtype, name=name)
    beside = f"the last {width - kept} columns have cosine 1 and sine 0: they do not rotate"
    return replace(subject, notes=(beside, *subject.notes))


def _subject_of_columns(
    cos: GivenRows,
    sin: GivenRows,
    reference: Reference,
    places: PositionRows,
    *,
    dtype: str,
    name: str,
) -> Subject:
    """Tables all of whose columns are of pairs that rotate, or should."""
    width = cos.shape[1]
    notes = []
    if places.count < cos.shape[0]:
        notes.append(f"the first {places.count} of {cos.shape[0]} rows")
    roundings = 1 if reference.scale == 1 else 2

    def half(rows: SomeRows) -> SubjectBlock:
        return SubjectBlock(places.at(rows), complex_of(cos[rows], sin[rows]))

    def turning_of(pairing: ColumnPairing | None) -> Turning:
        if pairing is None:
            return Turning(places, width, dtype, roundings, None, half)
        reader = _full_reader(cos, sin, pairing, places)
        return Turning(places, pairing.pairs, dtype, roundings, pairing, reader)

    repeated = _repeated_layout(cos, sin, places, parts=reference.content.blocks)
    if width == reference.pairs and (repeated is None or _repeats(reference, repeated)):
        notes.append("a column for each pair: no layout to check")
        turning = turning_of(None)
        return Subject(SubjectKind.TABLES, name, turning, turning, notes=tuple(notes))
    half_table = turning_of(None)
    is_half = repeated is None and (
        ladder_of_all(half_table)
        or ((wider := of_width(reference, width)) is not None and fits(half_table, wider.reference))
    )
    if width == 2 * reference.pairs and not is_half:
        right = turning_of(reference.pairing)
        own = right
        if repeated is not None and repeated != reference.content.layout:
            parts = reference.content.blocks
            own = turning_of(ColumnPairing.named(repeated, reference.pairs, parts=parts))
        if (repeated, reference.content.layout) == ("half", "interleaved"):
            # As GLM, Helium and DeepSeek keep them: reordered where they are applied.
            notes.append(
                "stored as halves, [a a]: right for interleaved pairs only where the code that "
                "applies them reorders the columns (see it with --impl or --rotated)"
            )
            right = own
        return Subject(SubjectKind.TABLES, name, own, right, notes=tuple(notes))
    own = half_table
    if repeated is not None:
        own = turning_of(ColumnPairing.named(repeated, width // 2))
    mismatch = _width_text(own.pairs, cos, sin, reference, places, repeated=repeated is not None)
    return Subject(SubjectKind.TABLES, name, own, None, mismatch, notes=tuple(notes))


def _turning_columns(
    cos: GivenRows, sin: GivenRows, reference: Reference, places: PositionRows
) -> int:
    """How many columns of tables rotate: fewer where those of a whole head are 1 and 0 beyond."""
    width = int(cos.shape[1])
    turning: dict[int, int] = {
        reference.head: 2 * reference.pairs,
        reference.head // 2: reference.pairs,
    }
    count = turning.get(width, width)
    if count >= width:
        return width
    return count if _still_columns(cos, sin, places)[count:].all() else width


def _width_text(
    pairs: int,
    cos: GivenRows,
    sin: GivenRows,
    reference: Reference,
    places: PositionRows,
    *,
    repeated: bool,
) -> str:
    """How the columns of tables are others than the reference has."""
    width = cos.shape[1]
    still = _still_columns(cos, sin, places)
    if not still.any():
        read = ", read as each value twice" if repeated else ""
        columns = f"{width} columns{read}"
        return (
            f"the tables rotate {pairs} pairs ({columns}); the reference rotates {reference.pairs}"
        )
    turning = range_texts(np.flatnonzero(~still).tolist())
    more = ", …" * (len(turning) > _SHOWN_RUNS)
    return (
        f"{width - still.sum()} of the tables' {width} columns rotate "
        f"({', '.join(turning[:_SHOWN_RUNS])}{more}); the reference rotates the first "
        f"{reference.pairs} pairs of a head"
    )


def _still_columns(cos: GivenRows, sin: GivenRows, places: PositionRows) -> Flags:
    """Which columns have cosine 1 and sine 0 in all rows. Shape: (columns,)."""
    still = np.ones(cos.shape[1], bool)
    for rows in places.row_blocks():
        still &= (cos[rows] == 1).all(axis=0) & (sin[rows] == 0).all(axis=0)
        if not still.any():
            break
    return still


def complex_of(real: NumberArray, imaginary: NumberArray) -> ComplexRows:
    """Real and imaginary parts as complex numbers."""
    out = np.empty(real.shape, np.complex128)
    out.real, out.imag = real, imaginary
    return out


def _full_reader(
    cos: GivenRows, sin: GivenRows, pairing: ColumnPairing, places: PositionRows
) -> Callable[[SomeRows], SubjectBlock]:
    """What reads full tables: the block of a pair is ((c₁, −s₁), (s₂, c₂))."""
    first, second = _columns(pairing.first), _columns(pairing.second)

    def read(rows: SomeRows) -> SubjectBlock:
        some_cos, some_sin = cos[rows], sin[rows]  # (n, d)
        c1, c2 = some_cos[:, first], some_cos[:, second]
        s1, s2 = some_sin[:, first], some_sin[:, second]
        where = places.at(rows)
        if np.array_equal(c1, c2) and np.array_equal(s1, s2):
            return SubjectBlock(where, complex_of(c1, s1))
        c1, c2, s1, s2 = (entries.astype(np.float64) for entries in (c1, c2, s1, s2))
        return SubjectBlock(
            where,
            complex_of((c1 + c2) / 2, (s1 + s2) / 2),
            complex_of((c1 - c2) / 2, (s2 - s1) / 2),
        )

    return read


def _columns(columns: tuple[int, ...]) -> slice | list[int]:
    """Columns as a slice where they are one, which reads without a copy."""
    step = columns[1] - columns[0] if len(columns) > 1 else 1
    regular = slice(columns[0], columns[-1] + 1, step)
    whole = tuple(range(columns[-1] + 1)[regular]) == columns
    return regular if whole else list(columns)


def _repeated_layout(
    cos: GivenRows, sin: GivenRows, places: PositionRows, *, parts: int = 1
) -> Layout | None:
    """The layout in which full tables repeat each value, None if they do in neither or in both."""
    width = cos.shape[1]
    if width % 2 or width < 4:
        return None
    rows = places.sample()
    fitting: list[Layout] = []
    for layout in LAYOUTS:
        pairing = ColumnPairing.named(
            layout, width // 2, parts=parts if width % (2 * parts) == 0 else 1
        )
        first, second = list(pairing.first), list(pairing.second)
        if all(
            np.allclose(table[:, first], table[:, second], rtol=0, atol=1e-6, equal_nan=True)
            for table in (cos[rows], sin[rows])
        ):
            fitting.append(layout)
    return fitting[0] if len(fitting) == 1 else None


def _repeats(reference: Reference, layout: Layout) -> bool:
    """Whether the reference's own pairs come twice, as if a table of half as many were repeated."""
    first, second = (list(columns) for columns in paired_columns(layout, reference.pairs // 2))
    frequencies = reference.frequencies
    return bool(np.allclose(frequencies[first], frequencies[second], rtol=1e-6, atol=0))


def inverse_frequencies(given: GivenArray, reference: Reference, positions: Positions) -> Subject:
    """Frequencies in a file or in memory, as what rotates the pairs.

    Raises: InvalidInput when they are no row of real numbers, or pairs have no one frequency.
    """
    if reference.coordinates is not None and reference.coordinates.oblique:
        raise InvalidInput(
            f"--inv-freq {name_of(given)}: pairs that rotate with row and column at once have no "
            "one frequency",
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
    """Frequencies as a subject: each is taken as exactly the number it is."""
    given = frequencies.astype(np.float64)
    finite = np.isfinite(given)
    broken: tuple[str, ...] = ()
    if not finite.all():
        at = int(np.argmin(finite))
        broken = (f"{int((~finite).sum())} of {given.size} frequencies are not finite (pair {at})",)
    places = PositionRows.of(positions)

    fits = given.size == reference.pairs

    @lru_cache(maxsize=1)
    def turns() -> Turns:
        coordinates = reference.content.waves.coordinates if fits else None
        return Turns.of(np.where(finite, given, 0.0), reference.engine, coordinates)

    def read(rows: SomeRows) -> SubjectBlock:
        where = places.at(rows)
        factors = turns().at(where)  # (n, pairs)
        factors *= reference.scale
        factors[:, ~finite] = np.nan
        return SubjectBlock(where, factors)

    turning = Turning(places, given.size, dtype, 1, None, read)
    return Subject(
        SubjectKind.INV_FREQ,
        name,
        turning,
        turning if fits else None,
        None
        if fits
        else f"there are {given.size} frequencies, the reference has {reference.pairs} pairs",
        frequencies=given,
        notes=("frequencies alone: no layout, direction or attention factor to check",),
        broken=broken,
    )


_FEW = 48
"""Rows that are compared before all are."""

_UNEVEN = 0.05
"""Of the size of factors: what tables in a half precision, or of eight bits, differ by."""

_SLOWER = 0.999
"""Times the rate before: neighbours of the longest ladders differ by more than 0.01."""


class OtherWidth(Record):
    """A reference of another width, and the options that give it."""

    reference: Reference
    options: str


def of_width(reference: Reference, pairs: int) -> OtherWidth | None:
    """The reference with so many pairs, None where its scheme has none such.

    A head keeps its width where all of it has so many, else the share of it that rotates.
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


def fits(turning: Turning, reference: Reference) -> bool:
    """Whether a subject rotates its pairs as a reference of the same width does, at every row."""
    tolerance = Tolerance.of(
        "auto", dtype=turning.dtype, roundings=turning.roundings, amplitude=reference.scale
    )
    few = turning.read(turning.places.sample()[:_FEW])
    return all(
        sample_of(block, reference, tolerance)
        .compared(reference.turns.at(block.positions), reference.frequencies)[1]
        .all()
        for block in chain([few], turning.blocks())
    )


def ladder_of_all(turning: Turning) -> bool:
    """Whether every column of half tables rotates at a rate of its own, each slower than the last.

    Full tables have each rate twice.
    """
    block = turning.read(turning.places.sample(256))
    sizes = np.abs(block.turned)  # (n, pairs)
    if not np.ptp(sizes) <= _UNEVEN * sizes.max(initial=0.0):
        return False
    rates = np.abs(fit(block.positions, block.turned).frequencies)
    return bool((rates[1:] < _SLOWER * rates[:-1]).all())
