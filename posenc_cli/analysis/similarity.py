"""The similarity of positions, S[m, n], for each kind of scheme.

=========  =======================================================================
absolute   the dot product of rows m and n (for relative schemes: of two offsets)
rotary     q·k / d of one content, rotated at m and at n, attention factor included;
           for independent normal q and k its mean, with the deviation around it
bias       the score that query m adds for key n
=========  =======================================================================

If the declaration of a scheme proves that S depends only on m − n, a profile represents all of it
(:mod:`posenc_cli.analysis.profile`). Otherwise S is computed (:mod:`posenc_cli.analysis.products`).

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.analysis.products import MatrixRows, places, product_blocks, product_rows
from posenc_cli.analysis.profile import (
    Profile,
    RoFormerBound,
    bias_profile,
    content_weights,
    independent_profile,
    wave_profile,
    wave_weights,
)
from posenc_cli.encoding.arrays import BLOCK_BYTES, position_array, repeated_rows, sliding_rows
from posenc_cli.encoding.engine import Engine, threads_for
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.scores import score_rule, scores_between
from posenc_cli.errors import InvalidInput
from posenc_cli.files.matrix import Matrix
from posenc_cli.files.source import without_leading_ones
from posenc_cli.numerics.dtypes import FLOAT64, DType
from posenc_cli.numerics.rounding import narrow
from posenc_cli.positions import Positions
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from posenc_cli.choice import Choice
    from posenc_cli.encoding.request import Request
    from posenc_cli.files.reading import Loaded
    from posenc_cli.formulas.declare import Rotation, Waves
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals, StoredRows


QueryKeyContent = Literal["ones", "random", "independent"]
Normalization = Literal["dot", "cosine"]

SEED = 0
"""The seed of random content, which q and k share."""

_CONTENT_WORDS = {"ones": "ones", "random": f"random (one draw, seed {SEED})"}

_AVERAGED = 1 << 20
"""The most positions whose map shows means, because these need S at all offsets."""


class KeyScores(Record):
    """A bias that depends only on the key: ``at(keys)`` → (n,)."""

    at: Callable[[Integers], Reals]


class PairScores(Record):
    """A bias that depends on pairs of positions: ``at(queries, keys)`` → (queries, keys)."""

    at: Callable[[Integers, Integers], RealRows]


class Similarity(Record):
    """S[m, n] for m and n in ``positions``, and the source of its values.

    ``quantity`` describes the values in words: a ``measure``, by which encodings can share an axis,
    and a ``detail``. ``pairs_queries`` says that m is the position of a query and n that of a key.
    ``of_scores`` says that the values are added to attention scores, so that differences count
    instead of ratios.
    """

    name: str
    quantity: str
    positions: Positions
    source: Profile | MatrixRows | KeyScores | PairScores
    of_scores: bool = False
    pairs_queries: bool = False
    content: QueryKeyContent | None = None
    measure: str = ""
    detail: str = ""

    def deviation(self, offsets: Integers) -> Reals | None:
        """Return the standard deviation of S at some offsets, or None if S is not random."""
        rule = self.source.deviation if isinstance(self.source, Profile) else None
        return None if rule is None else rule(offsets)

    @property
    def bound(self) -> RoFormerBound | None:
        """RoFormer's bound on S of a rotary scheme, if its pairs rotate by the position."""
        source = self.source if self.content is not None else None
        return source.bound if isinstance(source, Profile) else None

    @property
    def count(self) -> int:
        """The number of positions: S has as many rows and columns."""
        return self.positions.count

    @property
    def step(self) -> int | None:
        """The distance between neighbouring positions, or None if it varies."""
        return self.positions.ranges[0].step if len(self.positions.ranges) == 1 else None

    @property
    def offsets_in_all(self) -> int | None:
        """The number of offsets, or None if the positions are unevenly spaced."""
        return None if self.step is None else 2 * self.count - 1

    def positions_at(self, which: Sequence[int]) -> Integers:
        """Return some of the positions, by their indices."""
        numbers = np.asarray(which, np.int64)
        if self.step is None:
            return position_array(self.positions)[numbers]
        return self.positions.ranges[0].start + self.step * numbers

    def entries(self, queries: Sequence[int], keys: Sequence[int]) -> RealRows:
        """Return some rows of S at some columns, by their indices.

        Shape: (len(queries), len(keys)).
        """
        entries: RealRows
        match self.source:
            case MatrixRows() as rows:
                with np.errstate(all="ignore"):
                    entries = rows.read(queries) @ rows.read(keys).T
            case KeyScores() as scores:
                row = scores.at(self.positions_at(keys))  # (keys,)
                entries = np.broadcast_to(row, (len(queries), len(keys)))
            case PairScores() as pairs:
                entries = pairs.at(self.positions_at(queries), self.positions_at(keys))
            case Profile() as profile:
                every = self.positions_at(queries)[:, None] - self.positions_at(keys)
                offsets, inverse = np.unique(every, return_inverse=True)
                entries = profile.at(offsets)[inverse.reshape(every.shape)]
        return entries

    @property
    def has_means(self) -> bool:
        """Whether `means` is available.

        It needs S by offset, and values that do not grow past what float64 can sum.
        """
        profile = self.source if self.step is not None else None
        even = isinstance(profile, Profile) and (profile.even or self.of_scores)
        return even and self.count <= _AVERAGED

    def means(self, queries: Sequence[int], keys: Sequence[int]) -> RealRows:
        """Return the mean of S over blocks of indices, each from one given index up to the next.

        Let W be the twofold cumulative sum of S over offsets. Rows a … b − 1 and columns c … d − 1
        then have the sum W(b − c) − W(a − c) − W(b − d) + W(a − d).

        Shape: (len(queries), len(keys)).
        """
        assert isinstance(self.source, Profile)
        if len(queries) == len(keys) == self.count:
            return self.entries(queries, keys)
        values = self._newest_first(self.source)[::-1]  # (2 · count − 1,)
        middle = values.mean()  # subtracted: smaller sums have smaller rounding errors
        sums = np.concatenate([[0.0, 0.0], np.cumsum(np.cumsum(values - middle))])
        rows, columns = (np.array([*side, self.count]) for side in (queries, keys))
        corners = sums[rows[:, None] - columns + self.count]
        blocks = -np.diff(np.diff(corners, axis=0), axis=1)  # (queries, keys)
        return np.asarray(blocks / np.outer(np.diff(rows), np.diff(columns)) + middle)

    def blocks(self, dtype: DType, engine: Engine) -> Iterator[StoredRows]:
        """Yield S from its first row to its last, as blocks of whole rows in a number format."""
        everything = range(self.count)
        match self.source:
            case KeyScores() as scores:
                yield from repeated_rows(_round(scores.at(self.positions_at(everything)), dtype))
            case MatrixRows() as rows:
                held = rows.in_memory()

                def block(which: range) -> StoredRows:
                    return _round(product_rows(held, which, self.count), dtype)

                yield from engine.in_order(block, product_blocks(held))
            case Profile() as profile if self.step is not None:
                yield from sliding_rows(_round(self._newest_first(profile), dtype))
            case Profile() | PairScores():
                step = max(1, BLOCK_BYTES // 8 // self.count)
                for begin in range(0, self.count, step):
                    queries = range(begin, min(begin + step, self.count))
                    yield _round(self.entries(queries, everything), dtype)

    def matrix(self, dtype: DType, engine: Engine, metadata: Mapping[str, object]) -> Matrix:
        """Return S as a matrix to write, computed block by block."""
        return Matrix(
            shape=(self.count, self.count),
            dtype=dtype,
            blocks=lambda: self.blocks(dtype, engine),
            metadata=metadata,
        )

    def _newest_first(self, profile: Profile) -> Reals:
        """Return S at all offsets m − n, from the largest on. Shape: (2 · count − 1,)."""
        distances = np.arange(self.count, dtype=np.int64) * (self.step or 1)
        past = profile.at(distances)
        future = past if profile.even else profile.at(-distances)
        return np.concatenate([past[::-1], future[1:]])


def similarity(
    request: Request,
    engine: Engine,
    *,
    content: QueryKeyContent = "ones",
    normalize: Normalization = "dot",
) -> Similarity:
    """Return the similarity of the positions of a request, in float64.

    Raises: InvalidInput if the request is not valid, or if there is nothing to normalize.
    """
    bound = request.encoding.bound
    given, waves = bound.content, bound.content.waves
    request.plan()  # refuses invalid combinations
    positions = request.row_positions().whole("a similarity")
    if given.heads is not None:
        if normalize == "cosine":
            raise InvalidInput(
                f"--normalize cosine: {bound.scheme.name} is a bias, not vectors with an angle"
            )
        return _bias_similarity(request, positions, engine)
    measure, detail = ("cosine" if normalize == "cosine" else "dot product"), ""
    quantity = measure
    rotary = bound.scheme.kind == "rotary"
    source: Profile | MatrixRows | None = None
    factors = None
    if waves is not None and normalize == "cosine":
        if waves.growth is not None:
            raise InvalidInput(
                "--normalize cosine: queries shrink as keys grow here; only the dot product shows "
                "both"
            )
        waves = replace(waves, scale=1)  # gives all rows one length
    elif waves is not None and rotary:
        scaled = f", attention scaling {float(waves.scale):.4g}² included"
        measure, detail = "q·k / d", "" if waves.scale == 1 else scaled
    if waves is not None and rotary and content == "independent":
        quantity = f"mean {measure} of independent q and k{detail}"
        detail = f"independent q and k{detail}"
        source = independent_profile(waves, engine)
    elif waves is not None:
        if rotary:
            shares = _content_weights(bound.rotation, content)
            factors = np.sqrt(np.concatenate([shares, shares]))  # (2 · pairs,)
            detail = f"content {_CONTENT_WORDS[content]}{detail}"
            quantity = measure if normalize == "cosine" else f"{measure}, {detail}"
            source = _wave_source(waves, shares, engine, normalize)
        else:
            weights = wave_weights(waves.count, given.columns().placements)
            source = _wave_source(waves, weights, engine, normalize)
    if source is None:
        source = rows_of(request, engine, factors)
        source = source.directions() if normalize == "cosine" else source
    return Similarity(
        _subject_name(request),
        quantity,
        positions,
        source,
        pairs_queries=rotary,
        content=content if rotary else None,
        measure=measure,
        detail=detail,
    )


def _wave_source(
    waves: Waves, weights: Reals | None, engine: Engine, normalize: Normalization
) -> Profile | None:
    if weights is None:
        return None
    return wave_profile(
        waves, weights / weights.sum() if normalize == "cosine" else weights, engine
    )


def _subject_name(request: Request) -> str:
    """Return the scheme's name, with a note if its weights are random."""
    random = request.random_weights
    return f"{request.scheme.name} ({random})" if random else request.scheme.name


def similarity_of_array(
    values: StoredRows, dtype: str, *, name: str, normalize: Normalization = "dot"
) -> Similarity:
    """Return the dot products of the rows of an array that was stored as ``dtype``.

    Raises: InvalidInput if it is not a matrix.
    """
    rows = rows_of_array(values, dtype, name=name)
    quantity = "dot product"
    if normalize == "cosine":
        rows, quantity = rows.directions(), "cosine"
    return Similarity(name, quantity, Positions.contiguous(0, rows.count), rows, measure=quantity)


def rows_of_array(values: StoredRows, dtype: str, *, name: str) -> MatrixRows:
    """Return the rows of an array that was stored as ``dtype``, without leading axes of length 1.

    A complex row counts as its real and imaginary parts: rotated pairs.

    Raises: InvalidInput if it is not a matrix.
    """
    values = without_leading_ones(values)
    if values.ndim != 2:
        raise InvalidInput(
            f"--in {name}: must be a matrix with one row per position; its shape is {values.shape}",
            hint="save one matrix of it, array[0] in NumPy" if values.ndim > 2 else None,
        )
    if np.iscomplexobj(values):
        values = np.ascontiguousarray(values).view(values.real.dtype)
    return MatrixRows(
        len(values),
        values.shape[1],
        lambda which: values[places(which)].astype(np.float64),
        _unit(dtype),
    )


def _unit(dtype: str) -> float:
    """Return the largest relative error of rounding to a stored format."""
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "complex64": 24}
    return 0.0 if dtype.startswith(("int", "uint", "bool")) else 2.0 ** -digits.get(dtype, 53)


def _bias_similarity(request: Request, positions: Positions, engine: Engine) -> Similarity:
    content, lookup = request.encoding.bound.content, request.encoding.lookup
    head = request.head or 0
    source: Profile | KeyScores | PairScores
    scores = score_rule(content, lookup, precision=request.precision, engine=engine)
    scores = request.scheme.answering(scores)
    if content.by == "key":
        source = KeyScores(lambda keys: scores(head, keys))
    elif content.by == "pair":
        between = request.scheme.answering(scores_between)
        source = PairScores(partial(between, content, scores, head))
    else:
        profile = bias_profile(content, head, lookup, engine)
        source = replace(profile, at=request.scheme.answering(profile.at))
    detail = f"head {head} of {content.heads}"
    return Similarity(
        _subject_name(request),
        f"bias of {detail}",
        positions,
        source,
        of_scores=True,
        pairs_queries=True,
        measure="bias",
        detail=detail,
    )


def _content_weights(rotation: Rotation, content: QueryKeyContent) -> Reals:
    """Return the squared length of each pair of the content, divided by its width: (pairs,)."""
    values = np.ones(rotation.width)
    if content == "random":
        values = np.random.default_rng(SEED).standard_normal(rotation.width)
    placements = rotation.columns("cos-full").placements
    return content_weights(values, rotation.waves.count, placements) / rotation.width


def rows_of(request: Request, engine: Engine, factors: Reals | None = None) -> MatrixRows:
    """Return the rows of a request in float64, with columns multiplied by ``factors``."""
    positions = request.row_positions()
    count, width = request.plan().shape

    def rows_at(positions: Positions) -> RealRows:
        blocks = request.plan_at(positions).matrix(engine).blocks()
        values = np.empty((positions.count, width))  # filled in place, without a second copy
        done = 0
        for block in blocks:
            rows = block.reshape(-1, width)
            values[done : done + len(rows)] = rows
            done += len(rows)
        return values if factors is None else np.multiply(values, factors, out=values)

    single = positions.ranges[0] if len(positions.ranges) == 1 else None

    def read(which: Sequence[int]) -> RealRows:
        if single is not None and isinstance(which, range):
            return rows_at(Positions((single[which.start : which.stop : which.step],)))
        listed = position_array(positions) if single is None else single
        chosen = [int(listed[place]) for place in which]
        return rows_at(Positions(tuple(range(place, place + 1) for place in chosen)))

    return MatrixRows(count, width, read)


def _round(values: RealRows, dtype: DType) -> StoredRows:
    return narrow(np.ascontiguousarray(values), None, dtype)


def finite_or_none(values: Reals) -> list[float | None]:
    """Return values for JSON, with null for those that are not finite."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


class SimilarityPart(Record):
    """One similarity to show: its values, its engine, and the request.

    ``subject`` is its index among all named subjects, ``source`` its model or config. An array from
    a file has no ``request``.
    """

    similarity: Similarity
    engine: Engine
    fields: dict[str, Any]
    subject: int = 0
    request: Request | None = None
    source: str = ""

    @property
    def short(self) -> str:
        """Its short name."""
        named = self.similarity.name if self.request is None else self.request.scheme.name
        return self.source or named

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of its values in a file."""
        return {"quantity": self.similarity.quantity, **self.fields}


def part_of_array(
    loaded: Loaded, *, name: str, normalize: Normalization, place: int = 0
) -> SimilarityPart:
    """Return the similarity of an array; ``place`` is its index among all subjects."""
    subject = similarity_of_array(loaded.values, loaded.dtype, name=name, normalize=normalize)
    shape = list(loaded.values.shape)
    fields = {"in": loaded.path, "shape": shape, "dtype": loaded.dtype, "normalize": normalize}
    engine = Engine(threads=threads_for(subject.count**2, None))
    return SimilarityPart(subject, engine, fields, place)


def parts_of(
    choices: Mapping[int, Choice],
    *,
    contents: Sequence[QueryKeyContent] = (),
    normalize: Normalization = "dot",
    head: int | None = None,
) -> list[SimilarityPart]:
    """Return the similarities of encodings, or of their parts; rotary ones with each content.

    The keys of ``choices`` are the indices among all subjects.

    Raises: InvalidInput if none of the encodings has a requested content or head.
    """
    schemes = [part.scheme for choice in choices.values() for part in choice.parts or (choice,)]
    kinds = [scheme.kind for scheme in schemes]
    asked = [("--content", content, "rotary") for content in contents]
    for flag, value, kind in (*asked, ("--head", head, "bias")):
        if value is not None and kind not in kinds:
            names = ", ".join(dict.fromkeys(choice.name for choice in choices.values()))
            raise InvalidInput(
                f"{flag} {value} applies only to {kind} schemes; {names} is "
                f"{' and '.join(dict.fromkeys(kinds))}"
            )
    return [
        part
        for place, choice in choices.items()
        for part in _parts_of_choice(choice, place, contents or ("ones",), normalize, head)
    ]


def _parts_of_choice(
    choice: Choice,
    place: int,
    contents: Sequence[QueryKeyContent],
    normalize: Normalization,
    head: int | None,
) -> Iterator[SimilarityPart]:
    kinds = [part.scheme.kind for part in choice.parts or (choice,)]
    one_head = (head or 0) if "bias" in kinds else None
    for request in choice.requests(Precision.of(FLOAT64, None), head=one_head):
        engine = choice.engine(request.plan())
        description = request.description()
        names = ("scheme", "params", "positions", "head", "weights")
        fields = {name: description[name] for name in names}
        is_rotary = request.scheme.kind == "rotary"
        for content in contents if is_rotary else contents[:1]:
            subject = similarity(request, engine, content=content, normalize=normalize)
            yield SimilarityPart(
                subject,
                replace(engine, threads=threads_for(subject.count**2, choice.threads)),
                {**fields, "content": content if is_rotary else None, "normalize": normalize},
                place,
                request,
                choice.source,
            )
