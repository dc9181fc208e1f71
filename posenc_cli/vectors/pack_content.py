"""What a golden pack holds: things at positions, what an encoding makes of them, and mistakes.

Vectors that turn, vectors to which rows are added, and scores: each kind of encoding has a pack of
its own. Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.application import AppliedEncoding, applicable_part, vector_columns
from posenc_cli.analysis.spectrum import context_of
from posenc_cli.budget import check_size
from posenc_cli.checks.expected import Expected, ValuePlaces
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.weights import DrawnTable
from posenc_cli.errors import InvalidInput
from posenc_cli.inference.reference import Reference, encoding_text
from posenc_cli.inference.tolerance import FUNCTIONS, PER_ANGLE, Tolerance
from posenc_cli.numerics.dtypes import FLOAT32
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.positions import Positions, consecutive_ranges
from posenc_cli.records import Record, replace
from posenc_cli.vectors.known_mistakes import ROUNDINGS, added_mistakes, added_values
from posenc_cli.vectors.rotary_mistakes import TurnedVectors, turned_mistakes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.checks.expected import Form
    from posenc_cli.choice import Choice
    from posenc_cli.encoding.request import Request
    from posenc_cli.inference.tolerance import ToleranceRule
    from posenc_cli.numerics.arrays import Integers, RealRows
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.vectors.known_mistakes import KnownMistake

_MOST_VALUES, _MOST_SCORES = 1 << 18, 1 << 19
"""Of y: a pack is a file of tests, and every mistake is made of all of it, in some ten seconds."""
_MOST_HEADS = 1 << 12
"""Of a bias: every mistake is made of each head, and no model has so many."""
_FIRST = 8
"""Positions from 0 on that every pack has."""
_FARTHEST = 2**17
"""What packs reach by default: past it uint16 wraps, and the longest contexts of most models."""
_FEW = 256
"""Positions of an encoding that has no more: all of them are taken."""
_ROUNDINGS = 4
"""Of what turns a vector: a table, two products, a sum; as rope-check counts them."""
_FEW_SCORES = 64
"""The same of a bias, whose scores are of each two of them."""


class PackContent(Record):
    """What an encoding makes of things at positions (n,), and what code may err by.

    ``y`` and ``tolerance`` are (rows, columns), each a number of float32, ``y`` rounded to
    ``dtype``; in a file they have the ``shape``. ``arrays`` are further ones, by name. ``complete``
    says that there are no other positions.
    """

    choice: Choice
    request: Request
    context: tuple[int, str]
    dtype: DType
    rule: ToleranceRule
    reason: str
    positions: Integers
    shape: tuple[int, ...]
    y: RealRows
    tolerance: RealRows
    arrays: Mapping[str, RealRows]
    conventions: Mapping[str, Any]
    mistakes: Callable[[], Iterator[KnownMistake]]
    left_out: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether there are no other positions than those of the pack."""
        capacity = self.request.content.capacity
        return capacity is not None and len({*self.positions.tolist()}) == capacity.positions

    @property
    def text(self) -> str:
        """The encoding, on one line."""
        return encoding_text(self.request.encoding)


def pack_content(choice: Choice, *, seed: int, dtype: DType, rule: ToleranceRule) -> PackContent:
    """The content of a choice's pack, at its positions or those that show most.

    Raises: InvalidInput where there is none of it, or it would be too large.
    """
    if not choice.parts and choice.scheme.kind == "bias":
        return _of_scores(choice, dtype, rule)
    if not choice.parts and choice.scheme.kind == "relative":
        raise InvalidInput(
            f"{choice.asked}: is relative: queries meet a row for each offset, and "
            "packs are of what turns vectors or is added to them, or to scores",
            hint=f"posenc generate -s {choice.scheme.name} writes its rows",
        )
    part, context = _at_positions(applicable_part(choice))
    assert part.positions is not None
    columns = vector_columns(part)
    count = part.positions.count
    _check_size(choice, count * columns, _MOST_VALUES, "values of x")
    x = _drawn_vectors(count, columns, seed)
    applied = AppliedEncoding.of(part, x.shape, "x", dtype=dtype)
    y = widen(np.concatenate(list(applied.blocks(x))), dtype).reshape(x.shape)
    positions = np.array(list(applied.request.row_positions()), np.int64)
    _check_finite(y, positions, dtype)
    others = tuple(o.scheme.name for o in choice.parts if o.scheme != part.scheme)
    if part.scheme.kind == "rotary":
        content = _of_turned(applied, context, x, positions, rule)
    else:
        usual = choice.positions is None
        content = _of_added(applied, context, x, positions, rule, usual=usual)
    return replace(content, y=y, arrays={"x": x, **content.arrays}, left_out=others)


def _of_turned(
    applied: AppliedEncoding,
    context: tuple[int, str],
    x: RealRows,
    positions: Integers,
    rule: ToleranceRule,
) -> PackContent:
    """What a rotary encoding makes of vectors."""
    dtype = applied.application.dtype
    reference = Reference.of(applied.request.encoding)
    tolerance = Tolerance.of(
        rule, dtype=dtype.name, roundings=_ROUNDINGS, amplitude=reference.scale
    )
    vectors = TurnedVectors(reference, x, positions, tolerance)
    fixed = tolerance.fixed
    return PackContent(
        applied.choice,
        applied.request,
        context,
        dtype,
        rule,
        tolerance.reason if fixed is None else f"given: {fixed:g}",
        positions,
        x.shape,
        x,
        single(vectors.right().tolerance),
        _tables(applied.choice, dtype),
        _conventions_of_turns(reference, x.shape[1]),
        lambda: turned_mistakes(vectors, context[0]),
    )


def _of_added(
    applied: AppliedEncoding,
    context: tuple[int, str],
    x: RealRows,
    positions: Integers,
    rule: ToleranceRule,
    *,
    usual: bool,
) -> PackContent:
    """What vectors become to which rows are added."""
    dtype = applied.application.dtype
    request = applied.request
    e = _expected("rows", request, ValuePlaces(positions), dtype, rule)
    e = replace(e, found=e.right(), vectors=x)
    if not e.found.any():
        raise InvalidInput(
            f"{applied.choice.asked}: adds nothing at these positions, and no test of it can fail"
        )
    matrix = applied.choice.requests(Precision.of(FLOAT32, dtype))[0].plan().matrix()
    table = np.concatenate([widen(block, FLOAT32) for block in matrix.blocks()])
    return PackContent(
        applied.choice,
        request,
        context,
        dtype,
        rule,
        _reason(e),
        positions,
        x.shape,
        x,
        single(added_values(e, e.found).tolerance),
        {"rows": table},
        {"does": "adds a row to each vector", "formula": f"y = x + row; {request.scheme.formula}"},
        lambda: added_mistakes(e, context[0], usual=usual),
    )


def _expected(
    form: Form, request: Request, places: ValuePlaces, dtype: DType, rule: ToleranceRule
) -> Expected:
    """The values that belong at places, which are yet to be computed."""
    encoding = request.encoding
    assert request.positions is not None
    return Expected(
        form,
        encoding.bound.scheme,
        encoding.bound.params,
        places,
        np.zeros((0, 0)),
        dtype.name,
        rule,
        seq_len=request.positions.length,
        lookup=encoding.lookup,
    )


def _reason(e: Expected) -> str:
    """What values may be off by, in words."""
    if isinstance(e.rule, float):
        return f"given: {e.rule:g}"
    rounded = f"{ROUNDINGS} roundings of x and of the row"
    if e.is_waves:
        return f"{PER_ANGLE:g} of the angle + {FUNCTIONS:g} (cos and sin) + {rounded}"
    return rounded


def _of_scores(choice: Choice, dtype: DType, rule: ToleranceRule) -> PackContent:
    """The scores that a bias adds."""
    part, context = _at_positions(choice)
    assert part.positions is not None
    request = part.requests(Precision.of(FLOAT32, dtype))[0]
    heads, count = request.content.heads, part.positions.count
    assert heads is not None
    check_size("--heads", heads, _MOST_HEADS, "heads")
    _check_size(choice, heads * count * count, _MOST_SCORES, "scores")
    matrix = request.plan().matrix()
    y = np.concatenate([widen(block, FLOAT32).reshape(-1, count) for block in matrix.blocks()])
    positions = np.array(list(request.row_positions()), np.int64)
    _check_finite(y, positions, dtype)
    fixed = rule if isinstance(rule, float) else None
    places, usual = ValuePlaces(positions, positions), choice.positions is None
    e = _expected("scores", request, places, dtype, "auto" if fixed is None else fixed)
    e = replace(e, found=e.right())
    reason = "3e-06 of a score + 2 roundings + 4 times what posenc's float32 arithmetic errs there"
    return PackContent(
        part,
        request,
        context,
        dtype,
        rule,
        reason if fixed is None else f"given: {fixed:g}",
        positions,
        (heads, count, count),
        y,
        single(added_values(e, e.found).tolerance),
        {},
        {
            "does": "adds a score to each query and key of a head",
            "formula": request.scheme.formula,
            "axes": "heads, queries, keys; row of mistakes.json: head times queries, plus query",
        },
        lambda: added_mistakes(e, context[0], usual=usual),
    )


def _conventions_of_turns(reference: Reference, columns: int) -> dict[str, Any]:
    """How vectors turn, in words and in numbers."""
    pairing, turning = reference.pairing, 2 * reference.pairs
    side = None if reference.symmetric else reference.params.get("side")
    turned = {"query": "queries", "key": "keys"}.get(str(side), "queries and keys, both alike")
    return {
        "does": f"turns {turned}",
        "formula": "y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin, for each pair (x1, x2)",
        "angle": "position times inv_freq of the pair, in radians",
        "layout": reference.content.layout,
        "pairs": f"columns {pairing.text}",
        "first_columns": list(pairing.first),
        "second_columns": list(pairing.second),
        "unchanged": f"columns {turning} to {columns - 1}" if columns > turning else None,
        "attention_factor": reference.scale,
    }


def _check_size(choice: Choice, size: int, most: int, unit: str) -> None:
    """Refuse a pack that is too large.

    Raises: InvalidInput, which names the positions where they were asked for.
    """
    given = choice.positions
    name = choice.asked if given is None else given.option
    check_size(name, size, most, unit, hint="--positions takes fewer of them")


def _check_finite(y: RealRows, positions: Integers, dtype: DType) -> None:
    wrong = np.flatnonzero(~np.isfinite(y).all(axis=1))
    if wrong.size:
        raise InvalidInput(
            f"position {positions[wrong[0] % positions.size]}: a value of y is past the largest "
            f"number of {dtype.name}",
            hint="--positions takes nearer ones",
        )


def _at_positions(choice: Choice) -> tuple[Choice, tuple[int, str]]:
    """The choice at its positions, or at those that show most, and the context it is for.

    Raises: InvalidInput where positions are not whole.
    """
    encoding = choice.encoding()
    content = encoding.bound.content
    context, source = context_of(encoding, None, choice.context)
    most = None if content.capacity is None else content.capacity.positions
    if most is not None and most <= context and choice.positions is None:
        context, source = most, "all its positions"
    if choice.positions is not None:
        choice.positions.whole("a pack")
        return choice, (context, source)
    growing = content.waves is not None and content.waves.growth is not None
    farthest = context + 1 if growing else None  # amplitudes that grow or fall without end
    few = _FEW_SCORES if content.heads is not None else _FEW
    positions = telling_positions(context, most, farthest=farthest, few=few)
    return replace(choice, positions=positions), (context, source)


def telling_positions(
    context: int, capacity: int | None = None, *, farthest: int | None = None, few: int = _FEW
) -> Positions:
    """The first positions, those around powers of two, the end of the context, and past it.

    >>> str(telling_positions(4, 20))
    '0:20'
    >>> str(telling_positions(100, 300))[-32:]
    '63:66,99:102,127:130,255:258,299'
    """
    farthest = farthest or max(_FARTHEST, context) + 1
    if capacity is not None:
        farthest = min(farthest, capacity - 1)
        if capacity <= few:
            return Positions.contiguous(0, capacity)
    numbers = {*range(_FIRST), farthest, *(context + step for step in (-1, 0, 1))}
    power = _FIRST
    while power - 1 <= farthest:
        numbers |= {power - 1, power, power + 1}
        power *= 2
    return Positions(consecutive_ranges(sorted(n for n in numbers if 0 <= n <= farthest)))


def _drawn_vectors(count: int, columns: int, seed: int) -> RealRows:
    """Odd multiples of 1/32 below 4, about as normal(0, 1) falls: numbers of every format.

    Shape: (count, columns).
    """
    drawn = DrawnTable(columns, seed, 1.0)(np.arange(count))
    halves = np.clip(2 * np.floor(16 * drawn) + 1, -127, 127)
    return np.asarray(halves / 32, np.float64)


def _tables(choice: Choice, dtype: DType) -> dict[str, RealRows]:
    """Cosines, sines and, where each pair has one, frequencies, correctly rounded."""
    precision = Precision.of(FLOAT32, dtype)
    names = ["cos", "sin"]
    if choice.encoding().bound.rotation.waves.coordinates is None:
        names.append("inv-freq")
    tables = {}
    for name in names:
        # Frequencies are kept as float32 by code of any format.
        rounded = Precision.of(FLOAT32, None) if name == "inv-freq" else precision
        matrix = choice.requests(rounded, table=name)[0].plan().matrix()
        blocks = [widen(block.reshape(-1), FLOAT32) for block in matrix.blocks()]
        tables[name.replace("-", "_")] = np.concatenate(blocks).reshape(matrix.shape)
    return tables


def single(values: RealRows) -> RealRows:
    """Values rounded to float32, kept as float64."""
    return widen(narrow(values, None, FLOAT32), FLOAT32)
