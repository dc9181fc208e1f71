"""Declare schemes: their parameters, kind and content.

A scheme is one decorated function. Its signature *is* the declaration: names, types, defaults and
bounds of the parameters. Options, help, ``posenc schemes``, the docs pages and the contract tests
derive from it. The type of its result says how the encoding is computed:

====================  =============================================================
:class:`Rotation`     frequencies that rotate dimension pairs of q and k
:class:`Sinusoids`    sines and cosines of such frequencies, as columns
:class:`Rows`         a formula for the rows of given positions
:class:`Bias`         a formula for one head's scores, by offset or by key
:class:`BucketBias`   a table of scores, and the bucket of each offset or each pair
====================  =============================================================

Formulas are written over an array namespace ``xp``: frequencies and biases are evaluated in
60-digit reals (:mod:`posenc_cli.numerics.exact`), rows in float64 arrays. A plain function of
positions is a scheme of rows too (:func:`scheme_of_function`).

A float is the binary number it holds: ``0.1`` is not 1/10, ``math.pi`` is not π, and ``2 ** 0.5``
is not √2. What a formula computes over ``xp`` (``xp.pi``, ``xp.sqrt``, ``xp.asarray(factor) **
0.5``) is exact. What Python's floats compute first is not, and is rejected if posenc can detect it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property, lru_cache, partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from posenc_cli.errors import InvalidInput, PosencError, described, nearest
from posenc_cli.formulas.parameters import Parameter, flag, parameter
from posenc_cli.formulas.tables import Layout, PlacedColumns, rotary_columns
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from decimal import Decimal

    from posenc_cli.formulas.inverse import Inverse
    from posenc_cli.numerics.placements import Placement

Kind = Literal["absolute", "rotary", "bias", "relative"]
PositionUse = Literal["numbers", "indices", "unused"]
PositionDomain = Literal["natural", "whole", "positive", "real"]
"""The positions of a formula: 0, 1, 2, … (natural); all integers (whole); numbers of at least 0
(positive); or any numbers (real).
"""
Namespace = Any
"""An array namespace: NumPy, :mod:`posenc_cli.numerics.exact`, …"""
Array = Any


class Capacity(Record):
    """The number of positions that a scheme supports, why, and what to do for more."""

    positions: int
    reason: str
    hint: str


class AxesFile(Record):
    """A file of coordinates: ``axes`` rows of numbers, with position p in column p."""

    path: str
    axes: int


class Coordinates(Record):
    """The coordinates of positions on several axes, and the axis that each wave follows.

    ``axes`` names the axis of each wave, in order. ``at(positions)`` returns one integer array (P,)
    per axis for int64 positions (P,). ``capacity`` is the number of positions, if it is limited.
    ``steps`` are the increments of each axis' coordinates from one place to the next, if they are
    not 1. ``row`` is for a grid whose waves each follow a line of their own, not an axis: its
    positions per row.

    A scheme that knows only the ``file`` of the coordinates leaves ``at`` and ``capacity`` to the
    reader of the file.

    Fractions in a file become integers in units of 1/``denominator``, and frequencies are per such
    unit. ``parts`` gives such a unit for each axis of a grid in the model's own coordinates:
    DINOv3's go from -1 to 1. If the ``domain`` is real, ``at`` must scale with positions, because
    it gets them as integers in units of a fraction.
    """

    axes: tuple[int, ...]
    at: Callable[[Array], tuple[Array, ...]] | None = None
    capacity: Capacity | None = None
    file: AxesFile | None = None
    steps: tuple[float, ...] | None = None
    row: int | None = None
    denominator: int = 1
    domain: PositionDomain = "natural"
    parts: tuple[int, ...] | None = None

    @property
    def oblique(self) -> bool:
        """Whether each wave follows a line of its own across a grid."""
        return self.row is not None

    def step_of_each(self) -> tuple[float, ...]:
        """Return the increment of each wave's coordinate from one place to the next."""
        steps = self.steps
        return (1,) * len(self.axes) if steps is None else tuple(map(steps.__getitem__, self.axes))


class Growth(Record):
    """Amplitudes that change with position p: base^((p − centre) / span), with one base per wave.

    ``bases(xp)`` → (count,), above 0. A negative ``span`` gives the inverse amplitudes.
    """

    bases: Callable[[Namespace], Array]
    span: float
    centre: int


class Waves(Record):
    """Inverse frequencies θ_i and an amplitude: ``frequencies(xp)`` → (count,).

    θ_i is in radians per position; transformers calls it ``inv_freq``. ``scale`` multiplies cosines
    and sines; a float is taken exactly. Without ``coordinates``, every wave follows the position
    itself. Positions are given as integers in units of 1/``denominator``.
    """

    count: int
    frequencies: Callable[[Namespace], Array]
    scale: Decimal | float = 1
    coordinates: Coordinates | None = None
    growth: Growth | None = None
    denominator: int = 1

    @property
    def capacity(self) -> Capacity | None:
        """The number of positions that have coordinates, None if unlimited."""
        return self.coordinates.capacity if self.coordinates else None

    def exact_frequencies(self) -> list[Decimal]:
        """Return the frequencies in 60-digit reals, per integer unit of the positions.

        Position n/q times frequency ω is n times ω/q, so the code that fills tables gets only
        integers.

        Units: radians per 1/``denominator`` of a position.
        """
        from posenc_cli.numerics import exact

        frequencies, parts = self.frequencies(exact), self.denominator
        every = list(frequencies if parts == 1 else frequencies / parts)
        if len(every) != self.count:
            raise ValueError(f"{len(every)} frequencies where {self.count} were declared")
        return every


class _WaveContent(Record):
    """Content made of waves, with neither learned tables nor scores.

    ``drawn`` describes what a seed randomizes, if anything: "random angle, seed 0".
    """

    waves: Waves
    positions: ClassVar[PositionUse] = "numbers"
    weights: ClassVar[None] = None
    farthest: ClassVar[None] = None
    heads: ClassVar[None] = None
    by: ClassVar[None] = None
    limit: ClassVar[None] = None
    network: ClassVar[None] = None

    @property
    def capacity(self) -> Capacity | None:
        """The number of positions that have coordinates, None if unlimited."""
        return self.waves.capacity

    @property
    def domain(self) -> PositionDomain:
        """Waves take any real number; positions with coordinates have the domain of these."""
        return self.waves.coordinates.domain if self.waves.coordinates else "real"

    def in_parts(self, denominator: int) -> Self:
        """Return the same content for positions that are integers in units of 1/``denominator``."""
        if denominator == self.waves.denominator:
            return self
        return replace(self, waves=replace(self.waves, denominator=denominator))


class Rotation(_WaveContent):
    """The content of a rotary scheme: frequencies, and how dimensions are paired.

    The layout applies within each of ``blocks`` equal parts of the dimensions. ``base`` is that of
    the frequencies if the scheme itself chooses it.
    """

    layout: Layout
    blocks: int = 1
    drawn: str | None = None
    base: float | None = None

    @property
    def width(self) -> int:
        """The rotary dim."""
        return 2 * self.waves.count

    def columns(self, table: str | None = None) -> PlacedColumns:
        """Return the columns of a table, by default cosines, then sines."""
        return rotary_columns(table or "cos-sin", self.waves.count, self.layout, self.blocks)


class Sinusoids(_WaveContent):
    """The content of a scheme made of waves: frequencies, and what each column holds."""

    width: int
    placements: tuple[Placement, ...]
    drawn: str | None = None

    def columns(self, _table: str | None = None) -> PlacedColumns:
        """Return the columns of its only matrix."""
        return PlacedColumns(self.width, self.placements)


class Weights(Record):
    """A learned table: from a file, or drawn from normal(0, ``std``) with a seed.

    Its shape is ``rows`` × ``columns``. Random tables continue beyond the last row if the scheme
    allows it. If that holds for a table from a file too, ``drawn_from`` is the first position with
    a random row.
    """

    rows: int
    columns: int
    file: str | None
    seed: int
    std: float = 0.02
    drawn_from: int | None = None

    def random_text(self, last: int | None = None) -> str | None:
        """Return a note on values that nobody trained, up to position ``last``, or None.

        >>> Weights(4, 8, None, 7).random_text(), Weights(4, 8, "w.npy", 7).random_text(9)
        ('random weights, seed 7', None)
        >>> Weights(4, 8, "w.npy", 7, drawn_from=4).random_text(9)
        'random weights from position 4 on, seed 7'
        """
        if self.file is None:
            return f"random weights, seed {self.seed}"
        if self.drawn_from is None or last is None or last < self.drawn_from:
            return None
        return f"random weights from position {self.drawn_from} on, seed {self.seed}"


RowLookup = Callable[[Array], Array]
"""Rows of a learned table: indices (n,) → values (n, columns)."""


def within_length(seq_len: int | None) -> Capacity | None:
    """Return the capacity of a scheme whose formula depends on a length."""
    return (
        None
        if seq_len is None
        else Capacity(seq_len, f"seq_len is {seq_len}", "leave seq_len out: it follows --len")
    )


class Rows(Record):
    """The content of an absolute or relative scheme with a formula for its rows.

    ``rows(xp, positions, table)`` → values of shape (P, width), exact in float64, or a pair (high,
    low) whose sum is the value. ``table`` is the :data:`RowLookup` of ``weights``, None without
    them. ``positions`` says how the formula uses them: as numbers, as indices, or not at all. For a
    relative scheme they are offsets j − i of key and query, and those beyond ``farthest`` share its
    row. No entry at any position exceeds ``limit``: infinity if entries grow without bound, None if
    unknown. ``domain`` says which positions exist. If it has fractions, the formula is ``rows(xp,
    positions, table, denominator)``, with positions as integers in units of 1/denominator.
    """

    width: int
    rows: Callable[..., Array | tuple[Array, Array]]
    positions: PositionUse = "numbers"
    weights: Weights | None = None
    capacity: Capacity | None = None
    farthest: int | None = None
    limit: float | None = None
    domain: PositionDomain = "natural"
    denominator: int = 1
    network: ClassVar[None] = None
    waves: ClassVar[None] = None
    heads: ClassVar[None] = None
    by: ClassVar[None] = None

    def columns(self, _table: str | None = None) -> PlacedColumns:
        """Return the columns of its only matrix; none holds waves."""
        return PlacedColumns(self.width)

    def in_parts(self, denominator: int) -> Self:
        """Return the same content for positions that are integers in units of 1/``denominator``."""
        return replace(self, denominator=denominator)


class _ScoreContent(Record):
    """The content of a bias scheme: ``heads`` matrices of scores, without columns of its own."""

    heads: int
    positions: ClassVar[PositionUse] = "numbers"
    waves: ClassVar[None] = None
    farthest: ClassVar[None] = None
    width: ClassVar[int] = 0

    def columns(self, _table: str | None = None) -> PlacedColumns:
        """Return no columns: a column of scores is a key."""
        return PlacedColumns(0)


class Bias(_ScoreContent):
    """The content of a bias scheme with a formula.

    ``coefficients(xp)`` → one per head, or a tuple of such vectors if a head has several.
    ``scores(xp, coefficient, indices)`` → (n,). ``by`` says what the indices are: offsets j − i of
    key and query, or keys j. ``domain`` says of which positions. If all heads share a costly
    function of the indices, it is ``profile(xp, indices)`` → (n,), and the scores are computed from
    its values. ``trained`` counts the learned coefficients. No score exceeds ``limit``, as in
    `Rows`.
    """

    by: Literal["offset", "key"]
    coefficients: Callable[[Namespace], Array | tuple[Array, ...]]
    scores: Callable[[Namespace, Any, Array], Array]
    capacity: Capacity | None = None
    profile: Callable[[Namespace, Array], Array] | None = None
    trained: int = 0
    limit: float | None = None
    domain: PositionDomain = "whole"
    denominator: int = 1
    network: ClassVar[None] = None
    weights: ClassVar[None] = None

    def in_parts(self, denominator: int) -> Self:
        """Return the same content for positions that are integers in units of 1/``denominator``."""
        return replace(self, denominator=denominator)


class PairRule(Record):
    """Scores that depend on two positions, not on their offset: an index for each pair of them.

    ``number(xp, queries, keys)`` → int64 of their broadcast shape. ``text`` says what pairs with
    the same index share. ``offset`` is whether that is their distance along some axes. If the
    query's own position matters beyond some position, ``offsets_until`` is the last one for which
    the offset is enough.
    """

    number: Callable[[Namespace, Array, Array], Array]
    text: str
    offset: bool = False
    offsets_until: int | None = None


class Network(Record):
    """A table of scores that a two-layer network computes from the offsets along some axes.

    Head h has limit · sigmoid(Σ_k w_hk · max(0, Σ_a u_ka · c_a + b_k)) for the coordinates c_a. Row
    k of the learned table is (u_k1 … u_kA, b_k, w_1k … w_Hk). ``offsets(xp, buckets)`` → int64
    offsets (n,) along each axis. ``coordinate(xp, distances, axis)`` → (n,); an offset d has the
    coordinate of |d| with the sign of d. Without a ``limit`` there is no sigmoid. With ``quotient``
    there are two axes, and the only coordinate is the first axis' divided by the second's. With
    ``shifted``, the last row of the table is not a unit: after columns that are not read, it has
    what is added for each head.
    """

    axes: int
    limit: int | None
    offsets: Callable[[Namespace, Array], tuple[Array, ...]]
    coordinate: Callable[[Namespace, Array, int], Array]
    quotient: bool = False
    shifted: bool = False


class BucketBias(_ScoreContent):
    """The content of a learned bias: the bucket of each offset j − i, and a (buckets, heads) table.

    With ``pairs``, buckets are of the index of each pair of positions. With a ``network``, the
    network computes the table, and the weights are the network's.
    """

    bucket: Callable[[Namespace, Array], Array]
    weights: Weights
    capacity: Capacity | None = None
    pairs: PairRule | None = None
    network: Network | None = None

    @property
    def by(self) -> Literal["offset", "pair"]:
        """The index on which scores depend: an offset, or a pair number."""
        return "offset" if self.pairs is None else "pair"

    @property
    def domain(self) -> PositionDomain:
        """Offsets exist between any integer positions; positions that make pairs count from 0."""
        return "whole" if self.pairs is None else "natural"

    @property
    def limit(self) -> float | None:
        """The bound on scores, if a network computes them."""
        return None if self.network is None else self.network.limit

    def in_parts(self, denominator: int) -> Self:
        """Return the same content; it has only integer positions."""
        assert denominator == 1
        return self


Content = Rotation | Sinusoids | Rows | Bias | BucketBias
"""The content of a scheme. Each kind has the same attributes, None if they do not apply: its
``waves``; its learned ``weights`` or ``network``; the ``heads`` of its scores and what those depend
on (``by``); its ``width`` and ``columns(table)``; its ``capacity``; the ``farthest`` offset; how it
uses ``positions`` and their ``domain``; the ``limit`` of its entries; and
``in_parts(denominator)``, the same content for fractions.
"""

CONFIG_KEYS = {"rope_theta": "base"}
"""Parameters by their key in configs, which people type too."""

GIVES: Mapping[Kind, tuple[type, ...]] = {
    "absolute": (Sinusoids, Rows),
    "rotary": (Rotation,),
    "bias": (Bias, BucketBias),
    "relative": (Sinusoids, Rows),
}
"""The content that a scheme of each kind gives."""

KIND_TEXTS = {
    "absolute": "an absolute encoding",
    "rotary": "a rotary encoding",
    "bias": "an attention bias",
    "relative": "a relative encoding",
}
"""Noun phrase for a scheme of each kind."""


class WeightsShape(Record):
    """The relation between the shape of a weights file and a scheme's parameters.

    ``rows`` and ``columns`` name the parameters. ``rows_to_parameter`` inverts the row count of a
    table of, say, 2K + 1 rows; it returns None if no parameter gives that count. If the table is a
    network's, ``tensors`` names its first layer's weight and bias, its second layer's weight, and
    its bias if it has one; ``inputs`` is the number of coordinates. ``tensor_names`` is a pattern
    for the end of such a tensor's name in checkpoints. ``settled_by(name, rows)`` returns the
    parameters that the name and the row count determine besides the shape.
    """

    rows: str
    columns: str
    text: str
    rows_to_parameter: Callable[[int], int | tuple[int, ...] | None] = staticmethod(
        lambda rows: rows
    )
    tensors: tuple[str, ...] | None = None
    inputs: int = 2
    tensor_names: str = ""
    settled_by: Callable[[str, int], Mapping[str, str]] = staticmethod(lambda _name, _rows: {})


def parameters_of(build: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters that a signature declares, by name."""
    return {
        name: parameter(name, argument.annotation, default=argument.default)
        for name, argument in inspect.signature(build, eval_str=True).parameters.items()
    }


class Mistake(Record):
    """A known bug of ports: a description, the frequencies (pairs,) that it gives, and its source.

    The frequencies are for the right parameters, in float64. ``seen`` is an issue, a pull request
    or a commit on GitHub, a release of a library, or a paper. Bugs that nobody was seen to make are
    not listed: a check still fails on them, and says where. Bugs that apply to any frequencies are
    not repeated here.
    """

    message: str
    frequencies: Any
    seen: str


Mistakes = Callable[[Any, Mapping[str, Any]], Iterator[Mistake]]
"""An array namespace and the right parameters → known bugs, the likeliest first."""


class Bound(Record):
    """A scheme with all its parameters, and its content for them."""

    scheme: Scheme
    params: Mapping[str, Any]
    content: Content

    def random_weights(self, last: int | None = None) -> str | None:
        """Return a note on weights that the seed draws, None if all are known."""
        match self.content:
            case Rotation(drawn=drawn) | Sinusoids(drawn=drawn):
                return drawn
        weights = self.content.weights
        return None if weights is None else weights.random_text(last)

    @property
    def rotation(self) -> Rotation:
        """The content of a rotary scheme."""
        assert isinstance(self.content, Rotation)
        return self.content


class Scheme(Record):
    """A positional encoding, as declared; ``origin`` is the user's name for one of their own.

    ``inverse`` guesses its parameters from measured frequencies; a scheme without one is tried with
    its defaults. ``mistakes`` are known bugs of its own formula. ``as_given`` says that its values
    come from a user's function: not computed in posenc's arithmetic, and not exact.
    """

    name: str
    kind: Kind
    source: str
    formula: str
    build: Callable[..., Content]
    convention: str = ""
    weights: WeightsShape | None = None
    inverse: Inverse | None = None
    mistakes: Mistakes | None = None
    origin: str | None = None
    as_given: bool = False

    @property
    def summary(self) -> str:
        """The first line of the scheme's docstring."""
        return inspect.cleandoc(self.build.__doc__ or "").split("\n", 1)[0]

    @property
    def description(self) -> str:
        """The rest of the scheme's docstring, without doctests."""
        text = inspect.cleandoc(self.build.__doc__ or "").partition("\n")[2]
        paragraphs = [paragraph.strip() for paragraph in text.split("\n\n")]
        return "\n\n".join(
            paragraph for paragraph in paragraphs if paragraph and not paragraph.startswith(">>>")
        )

    @property
    def kind_text(self) -> str:
        """Noun phrase for the scheme's kind."""
        return KIND_TEXTS[self.kind]

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters by name, read from the signature."""
        return parameters_of(self.build)

    def parameter_named(self, name: str) -> str:
        """Return the parameter for a name, which may be a config's key for it."""
        if name not in self.parameters and CONFIG_KEYS.get(name) in self.parameters:
            return CONFIG_KEYS[name]
        return name

    def bind(self, given: Mapping[str, object], *, seq_len: int | None = None) -> Bound:
        """Return this scheme with ``given`` parameters, and defaults for the others.

        Texts are parsed by the parameter's type. ``seq_len`` is the default of a parameter that
        follows the length of the sequence.

        Raises: InvalidInput for an unknown name, a malformed or out-of-range value, or parameters
        that contradict each other.
        """
        typed = {self.parameter_named(name): name for name in given}
        given = {self.parameter_named(name): value for name, value in given.items()}
        for name in given:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise InvalidInput(
                    f"{flag(name)}: {self.name} has no parameter {name!r} (it has: {known})",
                    hint=nearest(name, self.parameters),
                    code="parameter",
                )
        params = {
            name: declared.value(given[name], flag=flag(typed[name]))
            if name in given
            else (seq_len if declared.rules.follows_length else declared.default)
            for name, declared in self.parameters.items()
        }
        for name, value in params.items():
            if value is inspect.Parameter.empty:
                raise InvalidInput(
                    f"{self.name} needs {self.parameters[name].flag}",
                    hint=f"posenc schemes {self.name} describes it",
                )
        with self.answerable():
            content = self._content(params)
            if not isinstance(content, GIVES[self.kind]):
                raise TypeError(f"{self.kind} schemes do not give a {type(content).__name__}")
        return Bound(self, params, content)

    def frequencies(self, params: Mapping[str, Any], xp: Namespace) -> Array:
        """Return the frequencies of waves for checked parameters, computed by an array library.

        That takes a third of the time of `bind`, which prepares exact ones.
        """
        from posenc_cli.numerics import exact

        with self.answerable(), exact.formula(_floats_in(params)):
            content: Any = self.build(**params)
            return content.waves.frequencies(xp)

    def _content(self, params: Mapping[str, Any]) -> Content:
        """Return the content for parameters; that of a built-in scheme is cached.

        Computations of its waves are cached with it. Parameters with a float 0 are not cached,
        because 0.0 equals -0.0.
        """
        if self.origin is None and not any(v == 0 and type(v) is float for v in params.values()):
            return _kept_content(self.build, tuple(params.items()))
        return _exact_content(self.build, params)

    @contextmanager
    def answerable(self) -> Iterator[None]:
        """Report an exception of a user's scheme in the block as the user's error.

        An exception of a built-in scheme is a bug of posenc, and passes through.

        Raises: InvalidInput.
        """
        try:
            yield
        except PosencError:
            raise
        except Exception as error:
            if self.origin is None:
                raise
            raise InvalidInput(
                f"--scheme {self.origin}: its code raised {described(error)}"
            ) from error

    def answering(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Return a rule of this scheme that runs within `answerable`."""

        @wraps(rule)
        def answerable_rule(*arguments: Any) -> Any:
            with self.answerable():
                return rule(*arguments)

        return answerable_rule


@lru_cache(maxsize=16)
def _kept_content(build: Callable[..., Content], params: tuple[tuple[str, Any], ...]) -> Content:
    return _exact_content(build, dict(params))


def _exact_content(build: Callable[..., Content], params: Mapping[str, Any]) -> Content:
    """Return the content of ``build``; it and all its formulas run in exact arithmetic.

    Raises: TypeError for a float in the content that was rounded on the way.
    """
    from posenc_cli.numerics import exact

    given = _floats_in(params)
    with exact.formula(given):
        content: Any = build(**params)
        if isinstance(content, Record):  # the caller rejects anything else
            content = _with_exact_formulas(content, given)
        return cast("Content", content)


def _floats_in(params: Mapping[str, Any]) -> list[float]:
    """Return the floats among parameters, including those in lists."""
    lists = (value if isinstance(value, tuple) else (value,) for value in params.values())
    return [number for values in lists for number in values if isinstance(number, float)]


def _with_exact_formulas(content: Record, given: Iterable[float]) -> Record:
    """Return a content, or a part of one, whose formulas run in exact arithmetic."""
    from posenc_cli.numerics import exact

    changes: dict[str, Any] = {}
    for name, value in content.as_dict().items():
        if isinstance(value, Record):
            changes[name] = _with_exact_formulas(value, given)
        elif callable(value):
            changes[name] = _exact_rule(value, given, keeps_tuples=name == "coefficients")
        elif isinstance(value, float):
            exact.check_float(value)
    return replace(content, **changes)


def _exact_rule(
    rule: Callable[..., Any], given: Iterable[float], *, keeps_tuples: bool
) -> Callable[..., Any]:
    """Return a formula that runs in exact arithmetic and returns vectors over exact numbers.

    Exact frequencies take milliseconds and never change: they are computed once.
    """
    from posenc_cli.numerics import exact

    def exactly(*arguments: Any) -> Any:
        with exact.formula(given):
            values = rule(exact, *arguments)
            if keeps_tuples and isinstance(values, tuple):
                return tuple(map(exact.checked_vector, values))
            return exact.checked_vector(values)

    frequencies = cache(exactly)

    @wraps(rule)
    def evaluate(xp: Namespace, *arguments: Any) -> Any:
        if xp is exact:
            return exactly(*arguments) if arguments else frequencies()
        with exact.formula(given):
            return rule(xp, *arguments)

    return evaluate


def _declarator(
    kind: Kind,
    /,
    *,
    source: str,
    formula: str,
    convention: str = "",
    weights: WeightsShape | None = None,
    inverse: Inverse | None = None,
    mistakes: Mistakes | None = None,
) -> Callable[[Callable[..., Content]], Scheme]:
    """Return a decorator that turns a function into a scheme of its name and of this kind."""

    def declare(build: Callable[..., Content]) -> Scheme:
        name = build.__name__.replace("_", "-")
        return Scheme(name, kind, source, formula, build, convention, weights, inverse, mistakes)

    return declare


absolute = partial(_declarator, "absolute")
"""Declares a scheme whose rows are added to the embeddings."""

rotary = partial(_declarator, "rotary")
"""Declares a scheme that rotates queries and keys."""

bias = partial(_declarator, "bias")
"""Declares a scheme whose values are added to the attention scores."""

relative = partial(_declarator, "relative")
"""Declares a scheme whose rows, one per offset j − i of key and query, multiply queries."""


_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
"""The types that options can give, by name."""

HOW_IT_IS_CALLED = "it is called as f(positions), an array of n numbers, and returns n rows: (n, d)"


def scheme_of_function(function: Callable[..., Any], *, name: str, origin: str) -> Scheme:
    """Return a function of positions as an absolute scheme, with its other parameters.

    ``origin`` is the user's name for it.

    Raises: InvalidInput if it requires more than positions and what options can give.
    """
    if isinstance(function, type):
        raise InvalidInput(
            f"--scheme {origin} is a class, not a scheme or a function",
            hint="name an object of it: pe = Name(…) in the file, then file.py:pe",
        )
    declared = _declared(function, origin)

    def build(**given: Any) -> Rows:
        return Rows(0, partial(function, **given), positions="indices", domain="real")

    build.__doc__ = getattr(function, "__doc__", None) or f"The function {origin}."
    build.__annotations__ = {each.name: each.annotation for each in declared}
    build.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
    return Scheme(
        name=name.replace("_", "-"),
        kind="absolute",
        source=origin,
        formula=f"PE[p] = the row that {name}(positions) returns for p: its own value, not exact",
        build=build,
        origin=origin,
        as_given=True,
    )


def _declared(function: Callable[..., Any], origin: str) -> list[inspect.Parameter]:
    """Return the parameters that options can give, besides positions: numbers, texts, booleans.

    Raises: InvalidInput if it takes no positions, or requires what no option can give.
    """
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # a C function, whose signature is unknown
        return []
    if not parameters or parameters[0].kind in (
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_KEYWORD,
    ):
        raise InvalidInput(f"--scheme {origin} takes no positions", hint=HOW_IT_IS_CALLED)
    declared = []
    for other in parameters[1:]:
        type_given = _TYPES.get(
            str(getattr(other.annotation, "__name__", other.annotation)), type(other.default)
        )
        if type_given in _TYPES.values() and other.kind in (
            other.POSITIONAL_OR_KEYWORD,
            other.KEYWORD_ONLY,
        ):
            declared.append(other.replace(kind=other.KEYWORD_ONLY, annotation=type_given))
        elif other.default is other.empty and not str(other).startswith("*"):
            raise InvalidInput(
                f"--scheme {origin}: requires {other.name}, which has neither a type nor a default",
                hint=f"with {other.name}: int in its signature, an option gives it",
            )
    return declared
