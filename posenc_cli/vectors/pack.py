"""Build test vectors: the outputs of an encoding, and the known bugs that they detect.

A pack holds rotated vectors, vectors with added rows, or scores, depending on the kind of encoding.
Each known bug is applied to the pack's own content, and is detected if a value differs by more than
its tolerance.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.application import AppliedEncoding, applicable_part, vector_columns
from posenc_cli.analysis.spectrum import context_of
from posenc_cli.budget import check_size
from posenc_cli.checks.expected import Change, Expected, ValuePlaces
from posenc_cli.checks.known_bugs.rotations import ROUNDINGS, Rotated, rotated_vectors
from posenc_cli.checks.search import changes_of
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.weights import DrawnTable
from posenc_cli.errors import InvalidInput, PosencError
from posenc_cli.inference.reference import Reference, encoding_text
from posenc_cli.inference.tolerance import FUNCTIONS, PER_ANGLE, ToleranceRule, smallest, unit
from posenc_cli.numerics.dtypes import FLOAT32, DType
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.positions import Positions, consecutive_ranges
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.choice import Choice
    from posenc_cli.encoding.request import Encoding, Request
    from posenc_cli.numerics.arrays import Integers, NumberArray, RealRows

_MOST_VALUES, _MOST_SCORES = 1 << 18, 1 << 19
"""Largest number of values of y. A pack is a test file; computing all bugs takes ten seconds."""
_MOST_HEADS = 1 << 12
"""Largest number of heads of a bias: all bugs are computed for each; no model has so many."""
_FIRST = 8
"""First positions, which every pack has."""
_FARTHEST = 2**17
"""The farthest default position, where uint16 wraps, beyond the longest contexts of most models."""
_FEW = 256
"""An encoding with at most this many positions has all of them in its pack."""
_SAME = 1e-3
"""Largest difference between two computations of the same values, in tolerances."""
_FEW_SCORES = 64
"""The same limit for a bias, which has a score for each pair of positions."""


class WrongValues(Record):
    """The values of a known bug, and the float32 error allowed to code with that bug.

    Both are (rows, columns).
    """

    values: RealRows
    tolerance: RealRows


class Outcome(Record):
    """The result of a known bug: ``detected`` is None if the bug does not apply to the encoding.

    ``margin`` is the largest difference, in tolerances; ``reason`` says why it is not detected.
    """

    cause: str
    message: str
    detected: bool | None
    margin: float | None = None
    reason: str = ""


class PackContent(Record):
    """The outputs of an encoding at positions (n,), and their tolerances.

    ``y`` and ``tolerance`` are (rows, columns) of float32 numbers; ``y`` is rounded to ``dtype``.
    In a file they have the ``shape``. ``arrays`` are further arrays by name. ``expected`` is the
    reference that known bugs change. ``usual`` says that the positions are the default ones, chosen
    to expose many bugs. ``context`` is the number of positions that the model supports, and the
    source of that number.
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
    expected: Expected
    usual: bool
    left_out: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the pack has all positions of the encoding."""
        capacity = self.request.content.capacity
        return capacity is not None and len({*self.positions.tolist()}) == capacity.positions

    @property
    def text(self) -> str:
        """The encoding, on one line."""
        return encoding_text(self.request.encoding)

    def known_bugs(self) -> Iterator[tuple[Outcome, WrongValues | None]]:
        """Yield the known bugs of the encoding in a model of this context, with their values.

        The values are None if a bug cannot be applied, or changes nothing at the default positions.
        """
        e, seen = self.expected, set[str]()
        rotates = e.form == "rotations"
        right = _values(e)
        for bug, change in changes_of(e, solved=False, context=self.context[0]):
            if change.text in seen:
                continue
            seen.add(change.text)
            cause = str(change.code or bug.code)
            try:
                with np.errstate(all="ignore"):
                    wrong = _values(e, change)
            except PosencError as error:
                yield Outcome(cause, change.text, None, reason=error.message), None
                continue
            if wrong.values.shape != right.values.shape:
                continue
            difference, reason = np.abs(wrong.values - right.values), ""
            if not (rotates or np.isfinite(difference).all()):
                reason = "it reads rows that are not in the table"
            elif self.usual and (difference <= _SAME * wrong.tolerance).all():
                reason = "it changes no value at the most sensitive positions"
            yield Outcome(cause, change.text, None, reason=reason), None if reason else wrong


def _values(e: Expected, change: Change | None = None) -> WrongValues:
    """Return values and tolerances: vectors (n, columns), or scores as rows (heads · n, n).

    Vectors are rotated or have rows added. Values are correct if ``change`` is None.
    """
    added = e.right() if change is None else e.changed(change)
    if e.vectors is None or e.form == "rotations":
        allowed = e.tolerated(added) if change is None else np.abs(e.allowed(added, change=change))
        return WrongValues(*(each.reshape(-1, added.shape[-1]) for each in (added, allowed)))
    values = e.vectors + added
    if isinstance(e.rule, float):
        return WrongValues(values, np.full_like(values, max(e.rule, smallest("float32"))))
    rounding = max(unit(e.dtype), unit("float32"))
    allowed = ROUNDINGS * rounding * (np.abs(e.vectors) + np.abs(added)) + smallest("float32")
    if e.is_waves:
        allowed = allowed + e.allowed(added, change=change)
    return WrongValues(values, allowed)


def pack_content(choice: Choice, *, seed: int, dtype: DType, rule: ToleranceRule) -> PackContent:
    """Return the content of a pack, at the choice's positions or the default ones.

    Raises: InvalidInput if there is none for this encoding, or it would be too large.
    """
    if not choice.parts and choice.scheme.kind == "bias":
        return _score_content(choice, dtype, rule)
    if not choice.parts and choice.scheme.kind == "relative":
        raise InvalidInput(
            f"{choice.asked}: {choice.scheme.name} is a relative encoding; test vectors need one "
            "that rotates vectors or is added to vectors or scores",
            hint=f"posenc generate -s {choice.scheme.name} writes its rows",
        )
    part, context = _with_positions(applicable_part(choice))
    assert part.positions is not None
    columns, count = vector_columns(part), part.positions.count
    _check_size(choice, count * columns, _MOST_VALUES, "values of x")
    x = _drawn_vectors(count, columns, seed)
    applied = AppliedEncoding.of(part, x.shape, "x", dtype=dtype)
    y = widen(np.concatenate(list(applied.blocks(x))), dtype).reshape(x.shape)
    positions = np.array(list(applied.request.row_positions()), np.int64)
    _check_finite(y, positions, dtype)
    e, arrays, conventions = _expected_vectors(applied, x, positions, rule)
    return PackContent(
        applied.choice,
        applied.request,
        context,
        dtype,
        rule,
        _reason(e),
        positions,
        x.shape,
        y,
        single(_values(e).tolerance),
        {"x": x, **arrays},
        conventions,
        e,
        part.scheme.kind != "rotary" and choice.positions is None,
        tuple(other.scheme.name for other in choice.parts if other.scheme != part.scheme),
    )


def _expected_vectors(
    applied: AppliedEncoding, x: RealRows, positions: Integers, rule: ToleranceRule
) -> tuple[Expected, dict[str, RealRows], dict[str, Any]]:
    """Return the expected vectors of an encoding, its tables, and its conventions."""
    request, dtype = applied.request, applied.application.dtype
    if request.scheme.kind == "rotary":
        reference = Reference.of(request.encoding)
        rotated = rotated_vectors(reference, positions, x, x, dtype.name, rule=rule)
        return rotated, _tables(applied.choice, dtype), _rotation_conventions(reference, x.shape[1])
    e = added_values(request.encoding, positions, x, dtype.name, rule=rule, vectors=x)
    e = replace(e, found=e.right())
    if not e.found.any():
        raise InvalidInput(
            f"{applied.choice.asked} adds nothing at these positions, so no test of it can fail"
        )
    matrix = applied.choice.requests(Precision.of(FLOAT32, dtype))[0].plan().matrix()
    table = np.concatenate([widen(block, FLOAT32) for block in matrix.blocks()])
    formula = f"y = x + row; {request.scheme.formula}"
    return e, {"rows": table}, {"does": "adds a row to each vector", "formula": formula}


def added_values(
    encoding: Encoding,
    positions: Integers,
    found: NumberArray,
    dtype: str,
    *,
    rule: ToleranceRule = "auto",
    vectors: RealRows | None = None,
) -> Expected:
    """Return the scores (heads, n, n) at positions (n,), or the rows added to ``vectors``."""
    bound = encoding.bound
    return Expected(
        "scores" if vectors is None else "rows",
        bound.scheme,
        bound.params,
        ValuePlaces(positions, positions) if vectors is None else ValuePlaces(positions),
        found,
        dtype,
        rule,
        seq_len=int(positions.max()) + 1,
        lookup=encoding.lookup,
        vectors=vectors,
    )


def _reason(e: Expected) -> str:
    """Return the rule for the tolerance of values, in words."""
    if isinstance(e.rule, float):
        return f"given: {e.rule:g}"
    if isinstance(e, Rotated):
        return e.tolerance.reason
    if e.form == "scores":
        return "3e-06 of a score + 2 roundings + 4 times the error of posenc's float32 arithmetic"
    rounded = f"{ROUNDINGS} roundings of x and of the row"
    if e.is_waves:
        return f"{PER_ANGLE:g} of the angle + {FUNCTIONS:g} (cos and sin) + {rounded}"
    return rounded


def _score_content(choice: Choice, dtype: DType, rule: ToleranceRule) -> PackContent:
    """Return the content of a pack of a bias: its scores."""
    part, context = _with_positions(choice)
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
    own: ToleranceRule = rule if isinstance(rule, float) else "auto"
    e = added_values(request.encoding, positions, y, dtype.name, rule=own)
    e = replace(e, found=e.right())
    return PackContent(
        part,
        request,
        context,
        dtype,
        rule,
        _reason(e),
        positions,
        (heads, count, count),
        y,
        single(_values(e).tolerance),
        {},
        {
            "does": "adds a score to each query-key pair of a head",
            "formula": request.scheme.formula,
            "axes": "heads, queries, keys",
        },
        e,
        choice.positions is None,
    )


def _rotation_conventions(reference: Reference, columns: int) -> dict[str, Any]:
    """Return the rotation of vectors in words and numbers."""
    pairing, rotary_dim = reference.pairing, 2 * reference.pairs
    side = None if reference.symmetric else reference.params.get("side")
    inputs = {"query": "queries", "key": "keys"}.get(str(side), "queries and keys, both alike")
    return {
        "does": f"rotates {inputs}",
        "formula": "y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin, for each pair (x1, x2)",
        "angle": "position times inv_freq of the pair, in radians",
        "layout": reference.content.layout,
        "pairs": f"columns {pairing.text}",
        "first_columns": list(pairing.first),
        "second_columns": list(pairing.second),
        "unchanged": f"columns {rotary_dim} to {columns - 1}" if columns > rotary_dim else None,
        "attention_factor": reference.scale,
    }


def _check_size(choice: Choice, size: int, most: int, unit: str) -> None:
    """Reject a pack that is too large.

    Raises: InvalidInput, which names the positions if they were asked for.
    """
    given = choice.positions
    name = choice.asked if given is None else given.option
    check_size(name, size, most, unit, hint="--positions selects fewer")


def _check_finite(y: RealRows, positions: Integers, dtype: DType) -> None:
    wrong = np.flatnonzero(~np.isfinite(y).all(axis=1))
    if wrong.size:
        raise InvalidInput(
            f"position {positions[wrong[0] % positions.size]}: a value of y exceeds {dtype.name}",
            hint="--positions selects nearer ones",
        )


def _with_positions(choice: Choice) -> tuple[Choice, tuple[int, str]]:
    """Return the choice at its positions or the default ones, and the context it is for.

    Raises: InvalidInput if positions are not integers.
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
    farthest = context + 1 if growing else None  # amplitudes grow or decay without bound
    few = _FEW_SCORES if content.heads is not None else _FEW
    positions = default_positions(context, most, farthest=farthest, few=few)
    return replace(choice, positions=positions), (context, source)


def default_positions(
    context: int, capacity: int | None = None, *, farthest: int | None = None, few: int = _FEW
) -> Positions:
    """Return the default positions.

    They are the first, those near powers of two, the end of the context, and one far beyond.

    >>> str(default_positions(4, 20))
    '0:20'
    >>> str(default_positions(100, 300))[-32:]
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
    """Return odd multiples of 1/32 below 4, roughly normal(0, 1) and exact in every number format.

    Shape: (count, columns).
    """
    drawn = DrawnTable(columns, seed, 1.0)(np.arange(count))
    halves = np.clip(2 * np.floor(16 * drawn) + 1, -127, 127)
    return np.asarray(halves / 32, np.float64)


def _tables(choice: Choice, dtype: DType) -> dict[str, RealRows]:
    """Return cosines, sines and, if each pair has one, frequencies, correctly rounded."""
    precision = Precision.of(FLOAT32, dtype)
    names = ["cos", "sin"]
    if choice.encoding().bound.rotation.waves.coordinates is None:
        names.append("inv-freq")
    tables = {}
    for name in names:
        # Code of any number format keeps frequencies as float32.
        rounded = Precision.of(FLOAT32, None) if name == "inv-freq" else precision
        matrix = choice.requests(rounded, table=name)[0].plan().matrix()
        blocks = [widen(block.reshape(-1), FLOAT32) for block in matrix.blocks()]
        tables[name.replace("-", "_")] = np.concatenate(blocks).reshape(matrix.shape)
    return tables


def single(values: RealRows) -> RealRows:
    """Return values rounded to float32, stored as float64."""
    return widen(narrow(values, None, FLOAT32), FLOAT32)


_COMPARED = 1 << 13
"""Entries by which bugs are distinguished."""


class VectorPack(Record):
    """The expected outputs of an encoding, their tolerances, and the bugs that they detect."""

    content: PackContent
    seed: int
    outcomes: tuple[Outcome, ...]

    @classmethod
    def of(cls, choice: Choice, *, seed: int, dtype: DType, rule: ToleranceRule) -> VectorPack:
        """Return the pack of a choice, at its positions or the default ones.

        Raises: InvalidInput if there is none for this encoding, or it would be too large.
        """
        content = pack_content(choice, seed=seed, dtype=dtype, rule=rule)
        return cls(content, seed, _outcomes(content))

    @property
    def known(self) -> tuple[Outcome, ...]:
        """The known bugs that can be applied to the encoding."""
        return tuple(outcome for outcome in self.outcomes if outcome.detected is not None)

    @property
    def detected(self) -> int:
        """Number of known bugs that the pack detects."""
        return sum(bool(outcome.detected) for outcome in self.known)

    @property
    def score(self) -> str:
        """Number of detected bugs as text."""
        return f"detects {self.detected} of {len(self.known)} known bugs"


def _outcomes(content: PackContent) -> tuple[Outcome, ...]:
    """Return the result of each known bug; bugs that give the same values count once."""
    y, allowed, complete = content.y, content.tolerance, content.complete
    rows = np.unique(np.linspace(0, y.shape[0] - 1, max(1, _COMPARED // y.shape[1])).astype(int))
    outcomes: list[Outcome] = []
    detected: dict[int, RealRows] = {}
    judged = (
        (made, None) if wrong is None else _outcome(made, wrong, y, allowed, complete=complete)
        for made, wrong in content.known_bugs()
    )
    for outcome, wrong in judged:
        if wrong is not None:
            some, near = wrong.values[rows], _SAME * wrong.tolerance[rows]
            with np.errstate(invalid="ignore", over="ignore"):
                same = next(
                    (n for n in detected if (np.abs(some - detected[n]) <= near).all()), None
                )
            if same is not None:  # the same bug under another name
                message = f"{outcomes[same].message}, or {outcome.message}"
                outcomes[same] = replace(outcomes[same], message=message)
                continue
            detected[len(outcomes)] = some
        outcomes.append(outcome)
    return tuple(outcomes)


def _outcome(
    made: Outcome, wrong: WrongValues, y: RealRows, allowed: RealRows, *, complete: bool
) -> tuple[Outcome, WrongValues | None]:
    """Return the result of a known bug; its values if detected."""
    with np.errstate(invalid="ignore", over="ignore"):
        wrong = WrongValues(single(wrong.values), single(wrong.tolerance))
        errors = np.abs(wrong.values - y)
        margin = float(np.nan_to_num(errors / allowed, nan=np.inf, posinf=np.inf).max())
    if margin <= 1:
        if complete and np.array_equal(wrong.values, y):
            return replace(made, reason="it changes no value at any existing position"), None
        reason = f"the largest difference is {margin:.2g} times the tolerance"
        return replace(made, detected=False, margin=margin, reason=reason), None
    return replace(made, detected=True, margin=margin), wrong
