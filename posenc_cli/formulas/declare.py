"""How a scheme is declared: its parameters, kind and content.

A scheme is one decorated function. Its signature *is* the declaration: names, types, defaults and
bounds of the parameters, from which options, help, ``posenc schemes``, the pages and the
contract tests derive. What the function returns says how the encoding is computed:

====================  =============================================================
:class:`Rotation`     frequencies that rotate dimension pairs of q and k
:class:`Sinusoids`    sines and cosines of the same kind of frequencies, as columns
:class:`Rows`         a formula for the rows of given positions
:class:`Bias`         a formula for one head's scores, by offset or by key
:class:`BucketBias`   a table of scores, and the bucket each offset, or each pair, falls in
====================  =============================================================

Formulas are written over an array namespace ``xp``: frequencies and biases are evaluated in
60-digit reals (:mod:`posenc_cli.numerics.exact`), rows in float64 arrays. A plain function of
positions is a scheme of rows too (:func:`scheme_of_function`).

A float is the binary number it holds: ``0.1`` is not 1/10, ``math.pi`` is not π, and ``2 ** 0.5``
is not √2. What a formula computes over ``xp`` (``xp.pi``, ``xp.sqrt``, ``xp.asarray(factor) **
0.5``) is exact; what Python's floats compute first is not, and is refused where it shows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast, get_type_hints

from posenc_cli.errors import InvalidInput, PosencError, described, nearest
from posenc_cli.formulas.parameters import Parameter, flag, parameter
from posenc_cli.formulas.tables import PlacedColumns, rotary_columns
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from decimal import Decimal

    from posenc_cli.formulas.inverse import Inverse
    from posenc_cli.formulas.tables import Layout
    from posenc_cli.numerics.placements import Placement

Kind = Literal["absolute", "rotary", "bias", "relative"]
PositionUse = Literal["numbers", "indices", "unused"]
PositionDomain = Literal["natural", "whole", "positive", "real"]
"""What positions a formula has: 0, 1, 2, …; whole ones below 0 too; 0 and above, whole or not; or
any real number."""
Namespace = Any
"""An array namespace: NumPy, :mod:`posenc_cli.numerics.exact`, …"""
Array = Any


class Capacity(Record):
    """How many positions a scheme can tell apart or has rows for, and what to do about more."""

    positions: int
    reason: str
    hint: str


class AxesFile(Record):
    """A file of coordinates: ``axes`` rows of numbers, with position p in column p."""

    path: str
    axes: int


class Coordinates(Record):
    """Where a position lies on several axes, and which axis each wave follows.

    ``axes`` names an axis for each wave, in order. ``at(positions)`` → one integer array (P,) for
    each axis, of int64 positions (P,). ``capacity`` is how many positions there are, if not all.
    ``steps`` are what each axis' coordinates grow by from a place to the next, where not by 1.
    ``row`` is how many positions a row has of a grid whose waves each go along a line of their own,
    and not along its axes.
    A scheme that only knows the ``file`` that has the coordinates leaves both to who reads it.
    Fractions that a file has are whole numbers of 1/``denominator``, and frequencies are per such
    part. ``parts`` says the same of each axis of a grid, as a model counts it: DINOv3 from -1 to 1.
    Where the ``domain`` is real, ``at`` must scale with positions: it is given whole numbers of a
    part of 1.
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
        """Whether each wave goes along a line of its own across a grid."""
        return self.row is not None

    def step_of_each(self) -> tuple[float, ...]:
        """For each wave, what its axis' coordinates grow by from a place to the next."""
        steps = self.steps
        return (1,) * len(self.axes) if steps is None else tuple(map(steps.__getitem__, self.axes))


class Growth(Record):
    """Amplitudes that change with the position p: base^((p − centre) / span), a base for each wave.

    ``bases(xp)`` → (count,), above 0. A negative ``span`` makes the inverse amplitudes.
    """

    bases: Callable[[Namespace], Array]
    span: float
    centre: int


class Waves(Record):
    """Inverse frequencies θ_i and an amplitude: ``frequencies(xp)`` → (count,).

    A θ_i is in radians per position; transformers calls it ``inv_freq``. ``scale`` multiplies
    cosines and sines alike; a float is that exact number. Without ``coordinates`` every wave
    follows the position itself. Who computes them has whole numbers of 1/``denominator``.
    """

    count: int
    frequencies: Callable[[Namespace], Array]
    scale: Decimal | float = 1
    coordinates: Coordinates | None = None
    growth: Growth | None = None
    denominator: int = 1

    @property
    def capacity(self) -> Capacity | None:
        """How many positions the coordinates have, None where any."""
        return self.coordinates.capacity if self.coordinates else None

    def exact_frequencies(self) -> list[Decimal]:
        """The frequencies in 60-digit reals, per whole number that their filler is given.

        Position n/q times frequency ω is n times ω/q: every position is whole to what fills tables.

        Units: radians in 1/``denominator`` of a position.
        """
        from posenc_cli.numerics import exact

        frequencies, parts = self.frequencies(exact), self.denominator
        every = list(frequencies if parts == 1 else frequencies / parts)
        if len(every) != self.count:
            raise ValueError(f"{len(every)} frequencies where {self.count} were declared")
        return every


class _WaveContent(Record):
    """What is made of waves: no table is learned, and no score added.

    ``drawn`` says what a seed draws of it, if anything: "random angle, seed 0".
    """

    waves: Waves
    positions: ClassVar[PositionUse] = "numbers"
    weights: ClassVar[None] = None
    farthest: ClassVar[None] = None
    heads: ClassVar[None] = None
    by: ClassVar[None] = None
    limit: ClassVar[None] = None
    trained: ClassVar[int] = 0
    network: ClassVar[None] = None

    @property
    def capacity(self) -> Capacity | None:
        """How many positions the waves' coordinates have, None where any."""
        return self.waves.capacity

    @property
    def domain(self) -> PositionDomain:
        """Any real number rotates a wave; places that have coordinates are counted."""
        return self.waves.coordinates.domain if self.waves.coordinates else "real"

    def in_parts(self, denominator: int) -> Self:
        """The same content, of positions that are whole numbers of 1/``denominator``."""
        if denominator == self.waves.denominator:
            return self
        return replace(self, waves=replace(self.waves, denominator=denominator))


class Rotation(_WaveContent):
    """What a rotary scheme gives: frequencies, and how columns are paired.

    The layout holds within each of ``blocks`` equal parts of the columns.
    """

    layout: Layout
    blocks: int = 1
    drawn: str | None = None

    @property
    def width(self) -> int:
        """How many columns rotate."""
        return 2 * self.waves.count

    def columns(self, table: str | None = None) -> PlacedColumns:
        """The columns of a table, by default of cosines, then sines."""
        return rotary_columns(table or "cos-sin", self.waves.count, self.layout, self.blocks)


class Sinusoids(_WaveContent):
    """What a scheme made of waves gives: frequencies, and what each column holds."""

    width: int
    placements: tuple[Placement, ...]
    drawn: str | None = None

    def columns(self, _table: str | None = None) -> PlacedColumns:
        """The columns of its one matrix."""
        return PlacedColumns(self.width, self.placements)


class Weights(Record):
    """A learned table: from a file, or drawn from normal(0, ``std``) with a seed.

    ``rows`` × ``columns`` is its shape; drawn tables go on past their last row where a scheme
    lets them. Where that is so of a table from a file too, ``drawn_from`` is the first position
    whose row is drawn.
    """

    rows: int
    columns: int
    file: str | None
    seed: int
    std: float = 0.02
    drawn_from: int | None = None

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return self.rows * self.columns

    def random_text(self, last: int | None = None) -> str | None:
        """What a result must say of values that nobody trained, up to a last position.

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
    """The capacity of a scheme whose formula counts on a length."""
    if seq_len is None:
        return None
    return Capacity(seq_len, f"seq_len is {seq_len}", "leave seq_len out: it follows --len")


class Rows(Record):
    """What an absolute or relative scheme gives by formula.

    ``rows(xp, positions, table)`` → values of shape (P, width), exact in float64, or a pair
    (high, low) whose sum is the value. ``table`` is the :data:`RowLookup` of ``weights``, None
    without. ``positions`` says whether the formula computes with them, looks something up, or is
    the same at all of them. Of a relative scheme they are offsets j − i of key and query; those
    past ``farthest`` share its row. No entry is larger than ``limit``, wherever it is: infinity
    where entries grow without end, None where that is not said. ``domain`` says which positions it
    has: where fractions are among them, the formula is ``rows(xp, positions, table, denominator)``,
    whose positions are whole numbers of 1/denominator.
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

    @property
    def trained(self) -> int:
        """How many numbers of it are learned: those of its table."""
        return self.weights.count if self.weights else 0

    def columns(self, _table: str | None = None) -> PlacedColumns:
        """The columns of its one matrix, none of which holds waves."""
        return PlacedColumns(self.width)

    def in_parts(self, denominator: int) -> Self:
        """The same content, of positions that are whole numbers of 1/``denominator``."""
        return replace(self, denominator=denominator)


class _ScoreContent(Record):
    """What a bias scheme gives: ``heads`` matrices of scores, and no columns of their own."""

    heads: int
    positions: ClassVar[PositionUse] = "numbers"
    waves: ClassVar[None] = None
    farthest: ClassVar[None] = None
    width: ClassVar[int] = 0

    def columns(self, _table: str | None = None) -> PlacedColumns:
        """None: a column is a key."""
        return PlacedColumns(0)


class Bias(_ScoreContent):
    """What a bias scheme gives by formula.

    ``coefficients(xp)`` → one a head, or a tuple of such vectors where a head has several;
    ``scores(xp, coefficient, indices)`` → (n,), where ``by`` says what the indices are: offsets
    j − i of key and query, or keys j alone; the ``domain`` says of which positions. Where all heads
    share a costly function of the indices, ``profile(xp, indices)`` → (n,) is it, and the scores
    are of its values. ``trained`` counts the coefficients that are learned. No score is larger than
    ``limit``, as of `Rows`.
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
        """The same content, of positions that are whole numbers of 1/``denominator``."""
        return replace(self, denominator=denominator)


class PairRule(Record):
    """How scores go by two positions where not by their offset: a number for each pair of them.

    ``number(xp, queries, keys)`` → int64 of their common shape; ``text`` says what pairs of one
    number share, and ``offset`` whether that is how far apart they are along some axes. Where
    queries count past a position, ``offsets_until`` is the last of them that the offset is enough
    for.
    """

    number: Callable[[Namespace, Array, Array], Array]
    text: str
    offset: bool = False
    offsets_until: int | None = None


class Network(Record):
    """A table of scores that a network of two layers makes of the offsets along some axes.

    Head h has limit · sigmoid(Σ_k w_hk · max(0, Σ_a u_ka · c_a + b_k)) of the coordinates c_a: row
    k of the learned table is (u_k1 … u_kA, b_k, w_1k … w_Hk). ``offsets(xp, buckets)`` → int64
    offsets (n,) along each axis; ``coordinate(xp, distances, axis)`` → (n,), of an offset d that of
    |d| with the sign of d. Without a ``limit`` there is no sigmoid. Of a ``quotient`` there are two
    axes, and the one coordinate is that of the first by that of the second. ``shifted``: the last
    row of the table is no unit, but what is added for each head, after columns that are not read.
    """

    axes: int
    limit: int | None
    offsets: Callable[[Namespace, Array], tuple[Array, ...]]
    coordinate: Callable[[Namespace, Array, int], Array]
    quotient: bool = False
    shifted: bool = False


class BucketBias(_ScoreContent):
    """What a learned bias gives: the bucket of each offset j − i, and a (buckets, heads) table.

    With ``pairs`` it is the bucket of the number of each pair of positions; with a ``network``
    that makes the table, and the weights are its.
    """

    bucket: Callable[[Namespace, Array], Array]
    weights: Weights
    capacity: Capacity | None = None
    pairs: PairRule | None = None
    network: Network | None = None

    @property
    def by(self) -> Literal["offset", "pair"]:
        """What the scores go by."""
        return "offset" if self.pairs is None else "pair"

    @property
    def domain(self) -> PositionDomain:
        """Of offsets those between any whole positions; places that make pairs are counted."""
        return "whole" if self.pairs is None else "natural"

    @property
    def limit(self) -> float | None:
        """What no score is larger than, where a network makes them."""
        return None if self.network is None else self.network.limit

    @property
    def trained(self) -> int:
        """How many numbers of it are learned: those of its table."""
        return self.weights.count

    def in_parts(self, denominator: int) -> Self:
        """The same content: it has whole positions alone."""
        assert denominator == 1
        return self


Content = Rotation | Sinusoids | Rows | Bias | BucketBias
"""What a scheme gives. Each kind answers the same questions, with None where it has no such thing:
its ``waves``, the ``weights`` of its learned table or ``network``, the ``heads`` it has scores for
and what those go ``by``, its ``width`` and ``columns(table)``, its ``capacity``, the ``farthest``
offset, what it takes ``positions`` for, which of them its ``domain`` holds, the ``limit`` of its
entries, how many numbers of it are ``trained``, and itself ``in_parts`` of 1."""

CONFIG_KEYS = {"rope_theta": "base"}
"""Parameters by the key that configs have for them, which people type as well."""

GIVES: Mapping[Kind, tuple[type, ...]] = {
    "absolute": (Sinusoids, Rows),
    "rotary": (Rotation,),
    "bias": (Bias, BucketBias),
    "relative": (Sinusoids, Rows),
}
"""What a scheme of each kind gives."""


class WeightsShape(Record):
    """How the shape of a weights file follows from a scheme's parameters, and back.

    ``rows`` and ``columns`` name the parameters; ``rows_to_parameter`` undoes a table of, say,
    2K + 1 rows, and gives None for a number of rows that no parameter has. Where the table is of a
    network, ``tensors`` are the names of its first layer's weight and bias, and of its second
    layer's weight, and bias where it has one; ``inputs`` is how many coordinates it is given.

    ``tensor_names`` is a pattern of what checkpoints call such a table, at the end of the tensor's
    name, and ``settled_by(name, rows)`` gives the parameters that this name and so many rows settle
    beside the shape.
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
    """The parameters that a signature declares, by name."""
    hints = get_type_hints(build, include_extras=True)
    return {
        name: parameter(name, hints[name], default=argument.default)
        for name, argument in inspect.signature(build).parameters.items()
    }


class Mistake(Record):
    """What ports get wrong: in words, the frequencies (pairs,) that it makes, and its witness.

    The frequencies are those of parameters that are right, in float64; ``seen`` is an issue or a
    pull request on GitHub, a release of a library, or a paper. One that nobody was seen to make is
    not listed: a check fails all the same, and says where. What goes wrong with any ladder of
    frequencies is not repeated here.
    """

    message: str
    frequencies: Any
    seen: str


Mistakes = Callable[[Any, Mapping[str, Any]], Iterator[Mistake]]
"""An array namespace and the right parameters → mistakes, the likeliest first."""


class Bound(Record):
    """A scheme with all its parameters settled, and what it then gives."""

    scheme: Scheme
    params: Mapping[str, Any]
    content: Content

    def random_weights(self, last: int | None = None) -> str | None:
        """What to say of the weights as far as the seed draws them, None where they are known."""
        match self.content:
            case Rotation(drawn=drawn) | Sinusoids(drawn=drawn):
                return drawn
        weights = self.content.weights
        return None if weights is None else weights.random_text(last)

    @property
    def rotation(self) -> Rotation:
        """What the scheme gives, where it is rotary."""
        assert isinstance(self.content, Rotation)
        return self.content


class Scheme(Record):
    """A positional encoding, as declared; ``origin`` is how the user named one of their own.

    ``inverse`` guesses its parameters from measured rates; without one a default does. ``mistakes``
    are those that are made of its formula alone. ``as_given`` says that its values are those that a
    user's function returns: in no arithmetic of posenc's, and not exact.
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
        """The first sentence of the scheme's docstring."""
        return inspect.cleandoc(self.build.__doc__ or "").split("\n", 1)[0]

    @property
    def description(self) -> str:
        """The rest of the scheme's docstring, doctests left out."""
        text = inspect.cleandoc(self.build.__doc__ or "").partition("\n")[2]
        paragraphs = [paragraph.strip() for paragraph in text.split("\n\n")]
        return "\n\n".join(
            paragraph for paragraph in paragraphs if paragraph and not paragraph.startswith(">>>")
        )

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters by name, read from the signature."""
        return parameters_of(self.build)

    def parameter_named(self, name: str) -> str:
        """The parameter that a name means: its own, or that of a config's key for it."""
        if name not in self.parameters and CONFIG_KEYS.get(name) in self.parameters:
            return CONFIG_KEYS[name]
        return name

    def bind(self, given: Mapping[str, object], *, seq_len: int | None = None) -> Bound:
        """This scheme with ``given`` parameters, the others at their defaults.

        Texts are parsed by the parameter's type. ``seq_len`` is what a parameter falls back to
        that follows the length of the sequence.

        Raises: InvalidInput for an unknown name, a malformed or out-of-range value, or parameters
        that contradict each other.
        """
        given = {self.parameter_named(name): value for name, value in given.items()}
        for name in given:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise InvalidInput(
                    f"{flag(name)}: {self.name} has no parameter {name!r} (it has: {known})",
                    hint=nearest(name, self.parameters),
                )
        params = {
            name: declared.value(given[name])
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

    def _content(self, params: Mapping[str, Any]) -> Content:
        """What the scheme gives for parameters: of a built-in one what it gave for them before.

        What was computed of its waves is kept with them. A 0.0 is not told from -0.0, nor kept.
        """
        if self.origin is None and not any(v == 0 and type(v) is float for v in params.values()):
            return _kept_content(self.build, tuple(params.items()))
        return _exact_content(self.build, params)

    @contextmanager
    def answerable(self) -> Iterator[None]:
        """Within it, what the code of a user's scheme raises is reported as the user's.

        An exception of a built-in scheme is a bug of posenc, and goes on as it is.

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
        """A rule of this scheme that runs within `answerable`."""

        @wraps(rule)
        def answerable_rule(*arguments: Any) -> Any:
            with self.answerable():
                return rule(*arguments)

        return answerable_rule


@lru_cache(maxsize=16)
def _kept_content(build: Callable[..., Content], params: tuple[tuple[str, Any], ...]) -> Content:
    return _exact_content(build, dict(params))


def _exact_content(build: Callable[..., Content], params: Mapping[str, Any]) -> Content:
    """What ``build`` gives for parameters; it and every formula in it run where nothing is lost.

    Raises: TypeError for a float of the content that was rounded on the way to it.
    """
    from posenc_cli.numerics import exact

    lists = (value if isinstance(value, tuple) else (value,) for value in params.values())
    given = [number for values in lists for number in values if isinstance(number, float)]
    with exact.formula(given):
        content: Any = build(**params)
        if isinstance(content, Record):  # who asked refuses what is no content
            content = _with_exact_formulas(content, given)
        return cast("Content", content)


def _with_exact_formulas(content: Record, given: Iterable[float]) -> Record:
    """A content, or a part of one, whose formulas run where nothing is lost."""
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
    """A formula that runs where nothing is lost, and gives vectors over exact numbers."""
    from posenc_cli.numerics import exact

    @wraps(rule)
    def evaluate(xp: Namespace, *arguments: Any) -> Any:
        with exact.formula(given):
            values = rule(xp, *arguments)
            if xp is not exact:
                return values
            if keeps_tuples and isinstance(values, tuple):
                return tuple(map(exact.checked_vector, values))
            return exact.checked_vector(values)

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
    """A decorator that makes of a function the scheme of its name and a kind."""

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
"""Declares a scheme whose rows, one an offset j − i of key and query, the queries meet."""


_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
"""What options can give, by the name of its type."""

HOW_IT_IS_CALLED = "it is called as f(positions), an array of n numbers, and returns n rows: (n, d)"


def scheme_of_function(function: Callable[..., Any], *, name: str, origin: str) -> Scheme:
    """A function of positions as an absolute scheme, whose other parameters are the function's.

    ``origin`` is how the user named it.

    Raises: InvalidInput where positions, and what options can give, are not all that it requires.
    """
    if isinstance(function, type):
        raise InvalidInput(
            f"--scheme {origin}: is a class, not a scheme or a function",
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
    """The parameters beside positions that options can give: numbers, texts, true or false.

    Raises: InvalidInput where it takes no positions, or requires what no option can give.
    """
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # one of C, whose signature is not known
        return []
    if not parameters or parameters[0].kind in (
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_KEYWORD,
    ):
        raise InvalidInput(f"--scheme {origin}: takes no positions", hint=HOW_IT_IS_CALLED)
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
