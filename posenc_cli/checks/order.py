"""Whether attention sees the order of its tokens, and whether scores depend on distance alone.

One attention layer in float64, its projections drawn from a seed, is given tokens in two orders.
Without positions it is equivariant to permutations: each token's output stays what it was, wherever
the token went. An encoding is applied where its paper applies it: absolute rows are added to the
embeddings, rotary tables rotate queries and keys, biases are added to the scores, and the rows of
offsets meet the queries (Shaw et al. 2018), for Transformer-XL in its four terms
q·k + q·r + u·k + v·r.

**Deviations.** Order: the largest change of an output over some permutations, as a share of the
largest output. Direction: the same for the tokens read backward alone. Shift: the largest change of
a score when all positions move on, less what all keys of a query share, which the softmax takes
out; as a share of the largest such score.

**Tolerance.** With u = 2^−53, model width D, head width w and n tokens, a score is off by at most
e = (D + w + n + 16)·u·‖x‖²·‖Wq‖·‖Wk‖·a²/√w + 4u·‖b‖, by the error bound of sums of products, with
‖x‖ the longest input, a the largest factor of a rotation and b the biases; the softmax turns e into
a change of at most 2e of the weights, and so outputs are off by (4e + (n + D)·u)·‖x‖·‖Wv‖.
What is within it counts as zero.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from posenc_cli.analysis.head_patterns.regression import softmax
from posenc_cli.budget import HELD_VALUES, REPEATED_COLUMNS, check_size
from posenc_cli.encoding.engine import Engine
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.request import encoding_of_side
from posenc_cli.encoding.scores import score_rule, scores_of_heads
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.formulas.tables import paired_columns
from posenc_cli.inference.tolerance import unit
from posenc_cli.inference.trial import compute
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.positions import whole_number
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.encoding.request import Encoding
    from posenc_cli.formulas.declare import Scheme, Waves
    from posenc_cli.numerics.arrays import HeadMatrices, Integers, RealRows

Expectation = Literal["auto", "order", "none"]

SEED = 0

MODEL_WIDTH = 64
HEAD_WIDTH = 16
HEADS = 2
"""Of the layer, where no encoding asks for another: what attention sees does not depend on them."""

SHIFTS = (1, 7, 64)
"""How far positions are moved on: to the next, by an odd number, and past most sentences."""

MOST_WORDS = 512
"""Tokens: each is compared with each, in every head and a dozen times."""

MOST_HEADS = 1 << 10
"""Heads of a bias: more than any model's, and each is computed by itself a dozen times."""

_UNIT = unit("float64")


class PartRequest(Record):
    """A scheme and the parameters that were given for it: a part of what is checked."""

    scheme: Scheme
    given: Mapping[str, object]


class Deviation(Record):
    """A change that was measured, and the most that rounding explains."""

    value: float
    tolerance: float

    @property
    def zero(self) -> bool:
        """Whether it is no more than rounding."""
        return self.value <= self.tolerance

    @property
    def ratio(self) -> float:
        """How many times what rounding explains it is."""
        return self.value / self.tolerance


class OrderFinding(Record):
    """What attention with one encoding sees.

    ``name`` tells it from others that are checked with it, whose ``scheme`` may be the same.
    ``shift`` is None where there is no room to move positions on. ``expected`` says whether order
    must be seen, ``expected_distance`` whether scores must depend on distances alone (None: either
    may be). ``on_grid`` says that distances are in rows and columns. ``declares`` is false of
    functions of the user's, which declare nothing.
    """

    name: str
    scheme: str
    kind: str
    params: Mapping[str, Any]
    causal: bool
    order: Deviation
    direction: Deviation
    shift: Deviation | None
    expected: bool | None
    expected_distance: bool | None
    encodes_nothing: bool = False
    on_grid: bool = False
    declares: bool = True
    random_weights: str | None = None

    @property
    def sees_order(self) -> bool:
        """Whether some permutation of the tokens changes what a token becomes."""
        return not self.order.zero

    @property
    def sees_direction(self) -> bool:
        """Whether reading backward does."""
        return not self.direction.zero

    @property
    def by_distance(self) -> bool | None:
        """Whether scores stay when all positions move on; None where that was not measured."""
        return None if self.shift is None else self.shift.zero

    @property
    def ok(self) -> bool:
        """Whether the encoding does what it is declared to do."""
        distance = self.expected_distance is None or self.by_distance in (
            None,
            self.expected_distance,
        )
        return self.expected in (None, self.sees_order) and distance

    @property
    def sees(self) -> str:
        """What attention sees of where tokens are, in words."""
        if not self.sees_order:
            return "nothing"
        return "order" if self.sees_direction else "distance only"

    @property
    def scores_by(self) -> str:
        """What scores depend on beside the tokens, in words."""
        if self.encodes_nothing:
            return "nothing"
        if self.by_distance is None:
            return "not measured"
        if self.by_distance:
            return "grid distance" if self.on_grid else "distance"
        return "position"

    @property
    def verdict(self) -> str:
        """What attention sees and what scores depend on, in a sentence.

        The mask of a causal check is not the encoding's.
        """
        seen = "blind to order" if not self.sees_order else f"sees {self.sees}"
        return f"{seen}; scores depend on {self.scores_by}"


def words_of(text: str) -> tuple[str, ...]:
    """The tokens of a text: its words, or as many as a number asks for.

    >>> words_of("dog bites man"), words_of("3")
    (('dog', 'bites', 'man'), ('token1', 'token2', 'token3'))

    Raises: InvalidInput for fewer than two different words, or too many.
    """
    words = tuple(text.split())
    count = whole_number(words[0]) if len(words) == 1 else None
    if count is not None:
        check_size(f"--tokens {abbreviated(words[0])}", count, MOST_WORDS, "tokens")
        words = tuple(f"token{i}" for i in range(1, count + 1))
    if len(set(words)) < 2:
        raise InvalidInput(f"--tokens {abbreviated(text)} needs two different words")
    check_size("--tokens", len(words), MOST_WORDS, "words")
    return words


def embeddings(words: Sequence[str], width: int) -> RealRows:
    """A row for each word, drawn with the word as seed.

    Shape: (words, width). Equal words have equal rows.
    """
    return np.stack([_drawn(word.encode("utf-8", "surrogatepass"), width) for word in words])


def _drawn(seed: int | bytes, *shape: int) -> Any:
    """Numbers of mean 0 and variance 1, evenly distributed, the same on every machine.

    Not by numpy.random, which takes longer to import than all that a short check computes.
    """
    bits = np.frombuffer(Random(seed).randbytes(8 * math.prod(shape)), "<u8")
    return (bits.reshape(shape) * 2.0**-63 - 1) * math.sqrt(3)


def permutations(words: Sequence[str]) -> dict[str, Integers]:
    """Other orders of the words: backward, the first two exchanged, moved on by one, shuffled."""
    count = len(words)
    places = np.arange(count)
    exchanged = places.copy()
    exchanged[[0, 1]] = exchanged[[1, 0]]
    return {
        "backward": places[::-1].copy(),
        "exchanged": exchanged,
        "moved": np.roll(places, 1),
        "shuffled": np.array(Random(SEED).sample(range(count), count)),
    }


class Layer(Record):
    """One attention layer with encodings, its weights drawn from a seed.

    ``parts`` are the encodings; ``keys`` are the same for the side of the keys, where a scheme
    rotates them otherwise.
    """

    parts: tuple[Encoding, ...]
    keys: tuple[Encoding, ...]
    causal: bool = False

    @cached_property
    def width(self) -> int:
        """The width of the embeddings: that of the rows that are added to them."""
        rows = [_columns(part) for part in self.parts if part.bound.scheme.kind == "absolute"]
        return _common_number("--dim", rows, "columns are added", MODEL_WIDTH)

    @cached_property
    def head_width(self) -> int:
        """The width of a head: that of what rotates or meets queries."""
        heads = [
            _columns(part)
            for part in self.parts
            if part.bound.scheme.kind in ("rotary", "relative")
        ]
        return _common_number("--dim", heads, "columns of a head are encoded", HEAD_WIDTH)

    @cached_property
    def heads(self) -> int:
        """How many heads there are: as many as biases have."""
        contents = [part.bound.content for part in self.parts]
        heads = [content.heads for content in contents if content.heads is not None]
        return _common_number("--heads", heads, "heads have biases", HEADS)

    @cached_property
    def weights(self) -> tuple[HeadMatrices, ...]:
        """The projections of queries, keys and values. Shape: (heads, width, head width) each."""
        shape = (3, self.heads, self.width, self.head_width)
        return tuple(_drawn(SEED + 1, *shape) / math.sqrt(self.width))

    @cached_property
    def relative_weights(self) -> tuple[HeadMatrices, ...]:
        """Transformer-XL's W of r, and its u and v for each head."""
        width = self.head_width
        project = _drawn(SEED + 2, self.heads, width, width) / math.sqrt(width)
        return project, *_drawn(SEED + 3, 2, self.heads, width)

    @cached_property
    def sizes(self) -> list[float]:
        """The largest norm of each of these projections in a head."""
        return [float(np.linalg.norm(matrix, axis=(1, 2)).max()) for matrix in self.weights]

    def inputs(self, x: RealRows, positions: Integers) -> RealRows:
        """The embeddings with the rows of absolute encodings added."""
        for part in self.parts:
            if part.bound.scheme.kind == "absolute":
                x = x + compute(part, None, positions, FLOAT64, "exact")
        return x

    def plain_scores(self, embedded: RealRows) -> HeadMatrices:
        """The scores of embeddings without any encoding. Shape: (heads, tokens, tokens)."""
        queries, keys = (embedded @ weights for weights in self.weights[:2])
        return queries @ keys.swapaxes(1, 2) * (1 / math.sqrt(self.head_width))

    @np.errstate(over="ignore", invalid="ignore")
    def scores(self, x: RealRows, positions: Integers) -> tuple[HeadMatrices, float]:
        """The scores of inputs at positions, and the most that rounding makes them off by.

        Shape: (heads, tokens, tokens).
        Raises: InvalidInput where they are past what float64 holds.
        """
        queries, keys = (x @ weights for weights in self.weights[:2])  # (heads, tokens, head width)
        longest = float(np.linalg.norm(x, axis=1).max())
        most, added = 1.0, 0.0
        for part, key_part in zip(self.parts, self.keys, strict=True):
            if part.bound.scheme.kind == "rotary":
                queries, of_queries = self._rotated(queries, part, positions)
                keys, of_keys = self._rotated(keys, key_part, positions)
                most = max(most, of_queries * of_keys)
        scale = 1 / math.sqrt(self.head_width)
        scores = queries @ keys.swapaxes(1, 2) * scale  # (heads, tokens, tokens)
        for part in self.parts:
            if part.bound.scheme.kind == "bias":
                extra = self._biases(part, positions)
            elif part.bound.scheme.kind == "relative":
                extra = self._relative_scores(part, queries, keys, positions)
            else:
                continue
            scores = scores + extra
            added = max(added, float(np.abs(extra).max()))
        terms = self.width + self.head_width + x.shape[0] + 16
        error = terms * _UNIT * longest**2 * self.sizes[0] * self.sizes[1] * most * scale
        error += (4 + terms) * _UNIT * added
        if not (np.isfinite(scores).all() and math.isfinite(error)):
            name = "+".join(part.bound.scheme.name for part in self.parts)
            raise InvalidInput(
                f"{name}: with these parameters, scores exceed float64, so order cannot be tested"
            )
        return scores, error

    def _rotated(
        self, vectors: HeadMatrices, encoding: Encoding, positions: Integers
    ) -> tuple[HeadMatrices, float]:
        """Queries or keys rotated at their positions, and the largest amplitude."""
        rotation = encoding.bound.rotation
        table = compute(encoding, "complex", positions, FLOAT64, "exact").view(np.complex128)
        columns = paired_columns(rotation.layout, rotation.waves.count, rotation.blocks)
        first, second = (list(half) for half in columns)
        pairs = (vectors[..., first] + 1j * vectors[..., second]) * table  # (heads, tokens, pairs)
        out = vectors.copy()
        out[..., first], out[..., second] = pairs.real, pairs.imag
        return out, max(1.0, float(np.abs(table).max()))

    def _biases(self, part: Encoding, positions: Integers) -> HeadMatrices:
        """What a bias adds to the scores. Shape: (heads, tokens, tokens)."""
        content, precision = part.bound.content, Precision.of(FLOAT64, None)
        rule = score_rule(content, part.lookup, precision=precision, engine=Engine())
        heads = range(content.heads or 0)
        with part.bound.scheme.answerable():
            return np.stack([*scores_of_heads(content, rule, heads, positions, positions)])

    def _relative_scores(
        self, part: Encoding, queries: HeadMatrices, keys: HeadMatrices, positions: Integers
    ) -> HeadMatrices:
        """What the rows of offsets add to the scores. Shape: (heads, tokens, tokens)."""
        offsets = positions[None, :] - positions[:, None]
        distinct, where = np.unique(offsets, return_inverse=True)
        rows = compute(part, None, distinct, FLOAT64, "exact")  # (offsets, columns)
        columns = np.broadcast_to(where.reshape(offsets.shape), (self.heads, *offsets.shape))
        if part.bound.content.waves is None:
            scores = np.take_along_axis(queries @ rows.T, columns, 2)
        else:
            project, u, v = self.relative_weights
            met = (queries + v[:, None, :]) @ (rows @ project).swapaxes(1, 2)
            scores = np.take_along_axis(met, columns, 2) + u[:, None, :] @ keys.swapaxes(1, 2)
        return np.asarray(scores / math.sqrt(self.head_width))

    def outputs(self, embedded: RealRows, positions: Integers) -> tuple[HeadMatrices, float]:
        """What tokens become, and the most that rounding makes it off by.

        Shape: (heads, tokens, head width).
        """
        x = self.inputs(embedded, positions)
        scores, error = self.scores(x, positions)
        if self.causal:
            scores = np.where(np.tri(positions.size, dtype=bool), scores, -np.inf)
        weights = softmax(scores)
        longest = float(np.linalg.norm(x, axis=1).max())
        allowed = (4 * error + (positions.size + self.width) * _UNIT) * longest * self.sizes[2]
        return weights @ (x @ self.weights[2]), allowed


def _check_size(layer: Layer, tokens: int) -> None:
    """Refuse a layer that would take too long, or more memory than it is worth."""
    widest = max(layer.width, layer.head_width)
    summed = [int(part.bound.params.get("dim", 0)) for part in layer.parts]  # sandwich's too
    columns = max(widest, *summed)
    check_size(f"dim={columns}", columns, REPEATED_COLUMNS, "columns")
    check_size(f"heads={layer.heads}", layer.heads, MOST_HEADS, "heads")
    weights = layer.heads * widest * layer.head_width
    check_size("the layer", weights, HELD_VALUES, "weights of a projection", hint="a smaller dim")
    scores = layer.heads * tokens**2
    check_size(f"{layer.heads} heads of {tokens} tokens", scores, HELD_VALUES, "scores")


def _columns(encoding: Encoding) -> int:
    """The width that an encoding asks for."""
    bound = encoding.bound
    dim = int(bound.params.get("dim") or 0) if bound.scheme.kind == "rotary" else 0
    return max(dim, bound.content.width)


def _common_number(flag: str, numbers: list[int], what: str, default: int) -> int:
    """The one number that all parts have, or the default where none has any.

    Raises: InvalidInput where they differ.
    """
    if len(set(numbers)) > 1:
        raise InvalidInput(f"{flag}: the parts differ: {' and '.join(map(str, numbers))} {what}")
    return numbers[0] if numbers else default


class ScoreMaps(Record):
    """The scores of words for words, before any mask, in the first head of a layer.

    ``scores`` are those without encodings, of the words in their order and read backward, and then
    those with them; rows and columns are always the words in their order.

    Shape: scores (words, words) each.
    """

    words: tuple[str, ...]
    scheme: str
    causal: bool
    random_weights: str | None
    scores: tuple[RealRows, ...]


class OrderCheck(Record):
    """A check of some encodings together, on some words."""

    words: tuple[str, ...]
    causal: bool = False
    expectation: Expectation = "auto"
    positions: tuple[int, ...] = ()

    def _layer(self, parts: Sequence[PartRequest]) -> Layer:
        """The layer with these encodings, for the words and as far as positions are moved on.

        Raises: InvalidInput where they do not go together, or cannot encode so many words.
        """
        shifts = self._shifts(parts)
        length = int(self._where.max()) + max(shifts, default=0) + 1
        encodings = tuple(_encode(part, length, side="query") for part in parts)
        keys = tuple(_encode(part, length, side="key") for part in parts)
        layer = Layer(encodings, keys, causal=self.causal)
        _check_size(layer, len(self.words))
        return layer

    def score_maps(self, *parts: PartRequest) -> ScoreMaps:
        """The scores of the first head, with these encodings and without, in two orders.

        Raises: InvalidInput, as `finding` does.
        """
        layer, where = self._layer(parts), self._where
        embedded = embeddings(self.words, layer.width)
        plain, encoded = [], []
        for step in (1, -1):
            words = embedded[::step]
            scores, _ = layer.scores(layer.inputs(words, where), where)
            plain.append(layer.plain_scores(words)[0, ::step, ::step])
            encoded.append(scores[0, ::step, ::step])
        return ScoreMaps(
            self.words,
            "+".join(part.scheme.name for part in parts),
            self.causal,
            _random_weights(layer.parts, int(where.max())),
            (*plain, *encoded),
        )

    def finding(self, *parts: PartRequest) -> OrderFinding:
        """What attention with these encodings sees.

        >>> from posenc_cli.catalogue import find
        >>> check = OrderCheck(("dog", "bites", "man"))
        >>> [check.finding(PartRequest(find(name), {})).verdict for name in ("nope", "rope")]
        ['blind to order; scores depend on nothing', 'sees order; scores depend on distance']

        Raises: InvalidInput where they do not go together, or cannot encode so many words.
        """
        layer, where = self._layer(parts), self._where
        encodings = layer.parts
        embedded = embeddings(self.words, layer.width)
        name = "+".join(part.scheme.name for part in parts)
        kinds = dict.fromkeys(part.scheme.kind for part in parts)
        nothing = all(map(_encodes_nothing, encodings))
        declares = _declares(encodings)
        order_expected = not nothing or self.causal if declares else None
        order, direction = self._order_deviations(layer, embedded, where)
        return OrderFinding(
            name=name,
            scheme=name,
            kind="+".join(kinds),
            params={
                encoding.bound.scheme.name: dict(encoding.bound.params) for encoding in encodings
            }
            if len(encodings) > 1
            else dict(encodings[0].bound.params),
            causal=self.causal,
            order=order,
            direction=direction,
            shift=_shift(layer, embedded, where, self._shifts(parts)),
            expected={"auto": order_expected, "order": True, "none": False}[self.expectation],
            expected_distance=_promises_distance(encodings),
            encodes_nothing=nothing,
            on_grid=any(_row_of_grid(encoding) > 1 for encoding in encodings),
            declares=declares,
            random_weights=_random_weights(encodings, int(where.max())),
        )

    @property
    def _where(self) -> Integers:
        """The position of each word."""
        return np.array(self.positions or range(len(self.words)), np.int64)

    def _shifts(self, parts: Sequence[PartRequest]) -> list[int]:
        """How far positions are moved on: whole rows of a grid, and not past the last position.

        Raises: InvalidInput where there are fewer positions than tokens.
        """
        length = int(self._where.max()) + 1
        shifts = list(SHIFTS)
        for part in parts:
            encoding = _encode(part, length + max(SHIFTS), side="query")
            content, stride = encoding.bound.content, _row_of_grid(encoding)
            shifts = [shift * stride for shift in shifts]
            if content.capacity is not None:
                capacity = content.capacity.positions
                if length > capacity:
                    raise InvalidInput(
                        f"{part.scheme.name} has {capacity} positions, too few for the tokens",
                        hint="--tokens with fewer words",
                    )
                shifts = [shift for shift in shifts if length + shift <= capacity]
        return shifts

    def _order_deviations(
        self, layer: Layer, embedded: RealRows, where: Integers
    ) -> tuple[Deviation, Deviation]:
        """The change of outputs over all permutations tried, and over the one backward."""
        deviations: dict[str, Deviation] = {}
        before, allowed = layer.outputs(embedded, where)
        largest = float(np.abs(before).max())
        for name, places in permutations(self.words).items():
            after, of_after = layer.outputs(embedded[places], where)
            change = float(np.abs(after - before[:, places]).max())
            deviations[name] = Deviation(change / largest, (allowed + of_after) / largest)
        worst = max(deviations.values(), key=lambda deviation: deviation.ratio)
        return worst, deviations["backward"]


def _random_weights(encodings: Sequence[Encoding], last: int) -> str | None:
    """What to say of the tables of encodings that are drawn, of several each by name."""
    bounds = [encoding.bound for encoding in encodings]
    notes = {bound.scheme.name: bound.random_weights(last) for bound in bounds}
    texts = [
        random if len(notes) == 1 else f"{name}: {random}"
        for name, random in notes.items()
        if random
    ]
    return "; ".join(texts) or None


def _row_of_grid(encoding: Encoding) -> int:
    """How many positions a row of the grid or window has; 1 where there is none."""
    content, window = encoding.bound.content, encoding.bound.params.get("window_size")
    if content.waves is None:
        return int(window[-1]) if isinstance(window, tuple) else 1
    return _stride(content.waves)


def _stride(waves: Waves) -> int:
    """How many positions a row of a grid has; 1 where there is no grid."""
    coordinates = waves.coordinates
    if coordinates is None or coordinates.capacity is None or coordinates.at is None:
        return 1
    if coordinates.row is not None:
        return coordinates.row
    positions = np.arange(min(coordinates.capacity.positions, 1 << 16), dtype=np.int64)
    first = np.asarray(coordinates.at(positions)[0])
    changed = np.flatnonzero(first != first[0])
    return int(changed[0]) if changed.size else 1


def _encode(part: PartRequest, length: int, *, side: Literal["query", "key"]) -> Encoding:
    """The encoding of a part, on the side of the queries or of the keys."""
    return encoding_of_side(part.scheme, part.given, seq_len=length, side=side)


def _encodes_nothing(encoding: Encoding) -> bool:
    """Whether the rows of an encoding are declared not to depend on positions."""
    return encoding.bound.content.positions == "unused"


def _declares(encodings: Sequence[Encoding]) -> bool:
    """Whether declarations say what attention sees: not those of functions, alone or with nope."""
    given = [encoding.bound.scheme.as_given for encoding in encodings]
    silent = (own or _encodes_nothing(each) for own, each in zip(given, encodings, strict=True))
    return not any(given) or not all(silent)


def _promises_distance(encodings: Sequence[Encoding]) -> bool | None:
    """Whether the declarations promise scores that depend on distances alone; None: they do not.

    Absolute rows promise nothing, a bias by the key says how keys differ, one by pairs is of a
    grid, and coordinates from a file are what the file says.
    """
    for encoding in encodings:
        content = encoding.bound.content
        if encoding.bound.scheme.kind == "absolute" and not _encodes_nothing(encoding):
            return None
        if content.by in ("key", "pair"):
            return None
        if encoding.bound.scheme.kind == "rotary" and encoding.bound.params.get("axes") is not None:
            return None
    return True


def _shift(
    layer: Layer, embedded: RealRows, where: Integers, shifts: Sequence[int]
) -> Deviation | None:
    """The change of scores when all positions move on; the worst of some moves."""
    if not shifts:
        return None

    def centred(shift: int) -> tuple[HeadMatrices, float]:
        scores, error = layer.scores(layer.inputs(embedded, where + shift), where + shift)
        return scores - scores.mean(axis=2, keepdims=True), error

    before, allowed = centred(0)
    largest = max(float(np.abs(before).max()), 1e-300)
    deviations = [
        Deviation(float(np.abs(after - before).max()) / largest, 2 * (allowed + error) / largest)
        for after, error in map(centred, shifts)
    ]
    return max(deviations, key=lambda deviation: deviation.ratio)
