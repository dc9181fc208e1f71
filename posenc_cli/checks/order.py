"""Measure whether attention sees token order, and whether scores depend on distance alone.

One attention layer in float64 with seeded random projections gets the same tokens in several
orders. Without positions it is equivariant to permutations: a token's output does not depend on its
place. Encodings are applied as in their papers. Absolute rows are added to embeddings, rotary
tables rotate queries and keys, biases are added to scores. Rows of offsets are multiplied by
queries (Shaw et al. 2018); Transformer-XL has four terms, q·k + q·r + u·k + v·r.

**Deviations.** Order: the largest change of an output over some permutations, relative to the
largest output. Direction: the same for the tokens in reverse order only. Shift: the largest change
of a score when all positions are shifted, relative to the largest score. Before that, each query's
mean over keys is subtracted, since the softmax cancels it.

**Tolerance.** With u = 2^−53, model width D, head width w and n tokens, a score has an error of at
most e = (D + w + n + 16)·u·‖x‖²·‖Wq‖·‖Wk‖·a²/√w + 4u·‖b‖, by the error bound of sums of products.
Here ‖x‖ is the longest input, a the largest factor of a rotation, and b the biases. The softmax
changes its weights by at most 2e, so outputs have an error of at most (4e + (n + D)·u)·‖x‖·‖Wv‖. A
deviation within this tolerance counts as zero.

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
from posenc_cli.encoding.request import Encoding, encoding_of_side
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

    from posenc_cli.formulas.declare import Scheme
    from posenc_cli.numerics.arrays import HeadMatrices, Integers, NumberArray, RealRows

Expectation = Literal["auto", "order", "none"]

SEED = 0

MODEL_WIDTH = 64
HEAD_WIDTH = 16
HEADS = 2
"""Sizes of the layer if no encoding sets them; the findings do not depend on them."""

SHIFTS = (1, 7, 64)
"""Shifts of all positions: to the next one, by an odd number, and past most sentences."""

MOST_WORDS = 512
"""Most tokens: each is compared with each, in every head, a dozen times."""

MOST_HEADS = 1 << 10
"""Most heads of a bias: more than any model has; each is computed a dozen times."""

_UNIT = unit("float64")


class PartRequest(Record):
    """A scheme and its given parameters: one part of the encoding to check."""

    scheme: Scheme
    given: Mapping[str, object]


class Deviation(Record):
    """A measured change, and the largest change that rounding explains."""

    value: float
    tolerance: float

    @property
    def zero(self) -> bool:
        """Whether rounding explains the change."""
        return self.value <= self.tolerance

    @property
    def ratio(self) -> float:
        """Change divided by its tolerance."""
        return self.value / self.tolerance


class OrderFinding(Record):
    """Finding on what attention sees with one encoding.

    ``name`` is unique among the encodings of one check, ``scheme`` need not be. ``shift`` is None
    if there is no room to shift positions. ``expected`` says whether order must be seen,
    ``expected_distance`` whether scores must depend on distance alone; None allows both.
    ``on_grid`` says that distances are in rows and columns. ``declares`` is false for a user's
    functions, which declare nothing.
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
        """Whether some permutation of the tokens changes a token's output."""
        return not self.order.zero

    @property
    def sees_direction(self) -> bool:
        """Whether reversing the tokens changes a token's output."""
        return not self.direction.zero

    @property
    def by_distance(self) -> bool | None:
        """Whether shifting all positions leaves scores unchanged; None if not measured."""
        return None if self.shift is None else self.shift.zero

    @property
    def ok(self) -> bool:
        """Whether the encoding does what it declares."""
        distance = self.expected_distance is None or self.by_distance in (
            None,
            self.expected_distance,
        )
        return self.expected in (None, self.sees_order) and distance

    @property
    def sees(self) -> str:
        """Part of the token order that attention sees, in words."""
        if not self.sees_order:
            return "nothing"
        return "order" if self.sees_direction else "distance only"

    @property
    def scores_by(self) -> str:
        """Quantity that scores depend on besides the tokens, in words."""
        if self.encodes_nothing:
            return "nothing"
        if self.by_distance is None:
            return "not measured"
        if self.by_distance:
            return "grid distance" if self.on_grid else "distance"
        return "position"

    @property
    def verdict(self) -> str:
        """Sentence on what attention sees and what scores depend on.

        It describes the encoding, not the causal mask.
        """
        seen = "blind to order" if not self.sees_order else f"sees {self.sees}"
        return f"{seen}; scores depend on {self.scores_by}"


def words_of(text: str) -> tuple[str, ...]:
    """Return the tokens of a text: its words, or numbered tokens if it is a number.

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
    """Return a random row for each word, seeded by the word.

    Shape: (words, width). Equal words have equal rows.
    """
    return np.stack(
        [_uniform_noise(word.encode("utf-8", "surrogatepass"), width) for word in words]
    )


def _uniform_noise(seed: int | bytes, *shape: int) -> Any:
    """Return uniform numbers of mean 0 and variance 1, the same on every machine.

    Not with numpy.random: importing it takes longer than a short check computes.
    """
    bits = np.frombuffer(Random(seed).randbytes(8 * math.prod(shape)), "<u8")
    return (bits.reshape(shape) * 2.0**-63 - 1) * math.sqrt(3)


def permutations(words: Sequence[str]) -> dict[str, Integers]:
    """Return other orders: backward, first two exchanged, cyclically shifted by one, shuffled."""
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
    """One attention layer with encodings and seeded random weights.

    ``parts`` are the encodings of queries. ``keys`` are the same for keys, which some schemes
    rotate differently.
    """

    parts: tuple[Encoding, ...]
    keys: tuple[Encoding, ...]
    causal: bool = False

    @cached_property
    def width(self) -> int:
        """Width of the embeddings: that of the absolute rows, if there are any."""
        rows = [_columns(part) for part in self.parts if part.bound.scheme.kind == "absolute"]
        return _common_number("--dim", rows, "columns are added", MODEL_WIDTH)

    @cached_property
    def head_width(self) -> int:
        """Width of a head: that of rotations and relative rows, if there are any."""
        heads = [
            _columns(part)
            for part in self.parts
            if part.bound.scheme.kind in ("rotary", "relative")
        ]
        return _common_number("--dim", heads, "columns of a head are encoded", HEAD_WIDTH)

    @cached_property
    def heads(self) -> int:
        """Number of heads: that of the biases, if there are any."""
        contents = [part.bound.content for part in self.parts]
        heads = [content.heads for content in contents if content.heads is not None]
        return _common_number("--heads", heads, "heads have biases", HEADS)

    @cached_property
    def weights(self) -> tuple[HeadMatrices, ...]:
        """Projections of queries, keys and values. Shape: (heads, width, head width) each."""
        shape = (3, self.heads, self.width, self.head_width)
        return tuple(_uniform_noise(SEED + 1, *shape) / math.sqrt(self.width))

    @cached_property
    def relative_weights(self) -> tuple[HeadMatrices, ...]:
        """Transformer-XL's projection W of r, and its u and v, for each head."""
        width = self.head_width
        project = _uniform_noise(SEED + 2, self.heads, width, width) / math.sqrt(width)
        return project, *_uniform_noise(SEED + 3, 2, self.heads, width)

    @cached_property
    def sizes(self) -> list[float]:
        """Largest Frobenius norm over the heads, for each of these projections."""
        return [float(np.linalg.norm(matrix, axis=(1, 2)).max()) for matrix in self.weights]

    def inputs(self, x: RealRows, positions: Integers) -> RealRows:
        """Return the embeddings with the rows of absolute encodings added."""
        for part in self.parts:
            if part.bound.scheme.kind == "absolute":
                x = x + compute(part, None, positions, FLOAT64, "exact")
        return x

    def plain_scores(self, embedded: RealRows) -> HeadMatrices:
        """Return scores of embeddings without encodings. Shape: (heads, tokens, tokens)."""
        queries, keys = (embedded @ weights for weights in self.weights[:2])
        return queries @ keys.swapaxes(1, 2) * (1 / math.sqrt(self.head_width))

    @np.errstate(over="ignore", invalid="ignore")
    def scores(self, x: RealRows, positions: Integers) -> tuple[HeadMatrices, float]:
        """Return scores of inputs at positions, and a bound on their rounding error.

        Shape: (heads, tokens, tokens).
        Raises: InvalidInput if they exceed float64.
        """
        queries, keys = (x @ weights for weights in self.weights[:2])  # (heads, tokens, head width)
        longest = float(np.linalg.norm(x, axis=1).max())
        amplitude, added = 1.0, 0.0
        for part, key_part in zip(self.parts, self.keys, strict=True):
            if part.bound.scheme.kind == "rotary":
                (queries, keys), own = _rotated((queries, keys), (part, key_part), positions)
                amplitude = max(amplitude, own)
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
        error = terms * _UNIT * longest**2 * self.sizes[0] * self.sizes[1] * amplitude * scale
        error += (4 + terms) * _UNIT * added
        if not (np.isfinite(scores).all() and math.isfinite(error)):
            name = "+".join(part.bound.scheme.name for part in self.parts)
            raise InvalidInput(
                f"{name}: with these parameters, scores exceed float64, so order cannot be tested"
            )
        return scores, error

    def _biases(self, part: Encoding, positions: Integers) -> HeadMatrices:
        """Return the scores that a bias adds. Shape: (heads, tokens, tokens)."""
        content, precision = part.bound.content, Precision.of(FLOAT64, None)
        rule = score_rule(content, part.lookup, precision=precision, engine=Engine())
        heads = range(content.heads or 0)
        with part.bound.scheme.answerable():
            return np.stack([*scores_of_heads(content, rule, heads, positions, positions)])

    def _relative_scores(
        self, part: Encoding, queries: HeadMatrices, keys: HeadMatrices, positions: Integers
    ) -> HeadMatrices:
        """Return the scores that rows of offsets add. Shape: (heads, tokens, tokens)."""
        offsets = positions[None, :] - positions[:, None]
        distinct, indices = np.unique(offsets, return_inverse=True)
        rows = compute(part, None, distinct, FLOAT64, "exact")  # (offsets, columns)
        columns = np.broadcast_to(indices.reshape(offsets.shape), (self.heads, *offsets.shape))
        if part.bound.content.waves is None:
            scores = np.take_along_axis(queries @ rows.T, columns, 2)
        else:
            project, u, v = self.relative_weights
            products = (queries + v[:, None, :]) @ (rows @ project).swapaxes(1, 2)
            scores = np.take_along_axis(products, columns, 2) + u[:, None, :] @ keys.swapaxes(1, 2)
        return np.asarray(scores / math.sqrt(self.head_width))

    def outputs(self, embedded: RealRows, positions: Integers) -> tuple[HeadMatrices, float]:
        """Return the outputs of tokens, and a bound on their rounding error.

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


def _rotated(
    both: tuple[HeadMatrices, HeadMatrices], sides: tuple[Encoding, Encoding], positions: Integers
) -> tuple[NumberArray, float]:
    """Return queries and keys rotated at their positions, and the product of their amplitudes.

    Most schemes rotate both by one table. Shape: (2, heads, tokens, head width).
    """
    rotation = sides[0].bound.rotation
    different = sides[:1] if rotation is sides[1].bound.rotation else sides
    factors = np.stack(  # (1 or 2, 1, tokens, pairs)
        [compute(each, "complex", positions, FLOAT64, "exact")[None] for each in different]
    ).view(np.complex128)
    first, second = map(list, paired_columns(rotation.layout, factors.shape[-1], rotation.blocks))
    out = np.stack(both)
    pairs = (out[..., first] + 1j * out[..., second]) * factors
    out[..., first], out[..., second] = pairs.real, pairs.imag
    amplitudes = np.abs(factors).max(axis=(1, 2, 3)).clip(1)
    return out, float(amplitudes[0] * amplitudes[-1])


def _check_size(layer: Layer, tokens: int) -> None:
    """Refuse a layer that needs too much time or memory."""
    widest = max(layer.width, layer.head_width)
    # Sandwich's scores are sums over dim.
    summed = [int(part.bound.params.get("dim", 0)) for part in layer.parts]
    columns = max(widest, *summed)
    check_size(f"dim={columns}", columns, REPEATED_COLUMNS, "columns")
    check_size(f"heads={layer.heads}", layer.heads, MOST_HEADS, "heads")
    weights = layer.heads * widest * layer.head_width
    check_size("the layer", weights, HELD_VALUES, "weights of a projection", hint="a smaller dim")
    scores = layer.heads * tokens**2
    check_size(f"{layer.heads} heads of {tokens} tokens", scores, HELD_VALUES, "scores")


def _columns(encoding: Encoding) -> int:
    """Return the width that an encoding needs."""
    bound = encoding.bound
    dim = int(bound.params.get("dim") or 0) if bound.scheme.kind == "rotary" else 0
    return max(dim, bound.content.width)


def _common_number(flag: str, numbers: list[int], what: str, default: int) -> int:
    """Return the number that all parts share, or the default if there is none.

    Raises: InvalidInput if they differ.
    """
    if len(set(numbers)) > 1:
        raise InvalidInput(f"{flag}: the parts differ: {' and '.join(map(str, numbers))} {what}")
    return numbers[0] if numbers else default


class ScoreMaps(Record):
    """Scores between words in the first head of a layer, before any mask.

    ``scores`` holds four matrices: without encodings for the words in order and reversed, then the
    same with encodings. Rows and columns are always in the order of the words.

    Shape: scores (words, words) each.
    """

    words: tuple[str, ...]
    scheme: str
    causal: bool
    random_weights: str | None
    scores: tuple[RealRows, ...]


class OrderCheck(Record):
    """Check of some encodings together, on some words."""

    words: tuple[str, ...]
    causal: bool = False
    expectation: Expectation = "auto"
    positions: tuple[int, ...] = ()

    def _layer(self, parts: Sequence[PartRequest]) -> Layer:
        """Return the layer with these encodings, long enough for the words and the shifts.

        Raises: InvalidInput if the encodings cannot be combined, or cannot encode so many words.
        """
        shifts = self._usable_shifts(parts)
        length = int(self._positions.max()) + max(shifts, default=0) + 1
        encodings = tuple(_encoding_on_side(part, length, side="query") for part in parts)
        keys = tuple(_encoding_on_side(part, length, side="key") for part in parts)
        layer = Layer(encodings, keys, causal=self.causal)
        _check_size(layer, len(self.words))
        return layer

    def score_maps(self, *parts: PartRequest) -> ScoreMaps:
        """Return scores of the first head, with and without encodings, in two orders.

        Raises: InvalidInput, as `finding` does.
        """
        layer, positions = self._layer(parts), self._positions
        embedded = embeddings(self.words, layer.width)
        plain, encoded = [], []
        for step in (1, -1):
            words = embedded[::step]
            scores, _ = layer.scores(layer.inputs(words, positions), positions)
            plain.append(layer.plain_scores(words)[0, ::step, ::step])
            encoded.append(scores[0, ::step, ::step])
        return ScoreMaps(
            self.words,
            "+".join(part.scheme.name for part in parts),
            self.causal,
            _random_weights(layer.parts, int(positions.max())),
            (*plain, *encoded),
        )

    def finding(self, *parts: PartRequest) -> OrderFinding:
        """Measure what attention sees with these encodings.

        >>> from posenc_cli.catalogue import find
        >>> check = OrderCheck(("dog", "bites", "man"))
        >>> [check.finding(PartRequest(find(name), {})).verdict for name in ("nope", "rope")]
        ['blind to order; scores depend on nothing', 'sees order; scores depend on distance']

        Raises: InvalidInput if the encodings cannot be combined, or cannot encode so many words.
        """
        layer, positions = self._layer(parts), self._positions
        encodings = layer.parts
        embedded = embeddings(self.words, layer.width)
        name = "+".join(part.scheme.name for part in parts)
        kinds = dict.fromkeys(part.scheme.kind for part in parts)
        nothing = all(map(_encodes_nothing, encodings))
        declares = _has_declarations(encodings)
        order_expected = not nothing or self.causal if declares else None
        order, direction = self._order_deviations(layer, embedded, positions)
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
            shift=_shift_deviation(layer, embedded, positions, self._usable_shifts(parts)),
            expected={"auto": order_expected, "order": True, "none": False}[self.expectation],
            expected_distance=_distance_is_declared(encodings),
            encodes_nothing=nothing,
            on_grid=any(_row_of_grid(encoding) > 1 for encoding in encodings),
            declares=declares,
            random_weights=_random_weights(encodings, int(positions.max())),
        )

    @property
    def _positions(self) -> Integers:
        """Position of each word."""
        return np.array(self.positions or range(len(self.words)), np.int64)

    def _usable_shifts(self, parts: Sequence[PartRequest]) -> list[int]:
        """Return shifts of positions: whole rows of a grid, within the scheme's positions.

        Raises: InvalidInput if there are fewer positions than tokens.
        """
        length = int(self._positions.max()) + 1
        shifts = list(SHIFTS)
        for part in parts:
            encoding = _encoding_on_side(part, length + max(SHIFTS), side="query")
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
        self, layer: Layer, embedded: RealRows, positions: Integers
    ) -> tuple[Deviation, Deviation]:
        """Return the worst change of outputs over the permutations, and that of reversal."""
        deviations: dict[str, Deviation] = {}
        before, allowed = layer.outputs(embedded, positions)
        largest = float(np.abs(before).max())
        for name, places in permutations(self.words).items():
            after, of_after = layer.outputs(embedded[places], positions)
            change = float(np.abs(after - before[:, places]).max())
            deviations[name] = Deviation(change / largest, (allowed + of_after) / largest)
        worst = max(deviations.values(), key=lambda deviation: deviation.ratio)
        return worst, deviations["backward"]


def _random_weights(encodings: Sequence[Encoding], last: int) -> str | None:
    """Return a note on randomly initialized tables, with names if there are several."""
    bounds = [encoding.bound for encoding in encodings]
    notes = {bound.scheme.name: bound.random_weights(last) for bound in bounds}
    texts = [
        random if len(notes) == 1 else f"{name}: {random}"
        for name, random in notes.items()
        if random
    ]
    return "; ".join(texts) or None


def _row_of_grid(encoding: Encoding) -> int:
    """Return the number of positions in a row of the grid or window; 1 without one.

    In three dimensions, this is a frame.
    """
    params = encoding.bound.params
    sides = params.get("window_size") or params.get("grid")
    return math.prod(sides[1:]) if isinstance(sides, tuple) else 1


def _encoding_on_side(part: PartRequest, length: int, *, side: Literal["query", "key"]) -> Encoding:
    return encoding_of_side(part.scheme, part.given, seq_len=length, side=side)


def _encodes_nothing(encoding: Encoding) -> bool:
    """Return whether the scheme declares that its rows do not depend on positions."""
    return encoding.bound.content.positions == "unused"


def _has_declarations(encodings: Sequence[Encoding]) -> bool:
    """Return whether declarations say what attention sees.

    They do not for a user's functions, alone or combined with nope.
    """
    given = [encoding.bound.scheme.as_given for encoding in encodings]
    undeclared = (
        is_users or _encodes_nothing(each) for is_users, each in zip(given, encodings, strict=True)
    )
    return not any(given) or not all(undeclared)


def _distance_is_declared(encodings: Sequence[Encoding]) -> bool | None:
    """Return True if declarations say that scores depend on distance alone, else None.

    Absolute rows declare nothing. A bias by key depends on the key, and one by pairs on a grid.
    Coordinates from a file can be anything.
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


def _shift_deviation(
    layer: Layer, embedded: RealRows, positions: Integers, shifts: Sequence[int]
) -> Deviation | None:
    """Return the worst change of scores over the shifts; None without shifts."""
    if not shifts:
        return None

    def centred(shift: int) -> tuple[HeadMatrices, float]:
        scores, error = layer.scores(layer.inputs(embedded, positions + shift), positions + shift)
        return scores - scores.mean(axis=2, keepdims=True), error

    before, allowed = centred(0)
    largest = max(float(np.abs(before).max()), 1e-300)
    deviations = [
        Deviation(float(np.abs(after - before).max()) / largest, 2 * (allowed + error) / largest)
        for after, error in map(centred, shifts)
    ]
    return max(deviations, key=lambda deviation: deviation.ratio)
