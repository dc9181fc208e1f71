"""Which attention patterns an encoding can express, and whether they hold past the trained length.

A head that sees only positions is fitted to attend to a target. The result is certain: the scores
are linear in what the head may learn (:mod:`posenc_cli.analysis.head_patterns.position_scores`),
and softmax regression on them has one optimum
(:mod:`posenc_cli.analysis.head_patterns.regression`). The fit uses all queries below the trained
length that have a target, each with equal weight on its target keys. The head is then tested on the
last queries of each length, as many as the trained length. At twice the trained length or more,
none of these were trained.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.analysis.encoded import wavelengths_of
from posenc_cli.analysis.head_patterns.position_scores import Basis, HeadEncoding, LengthEncoding
from posenc_cli.analysis.head_patterns.regression import Optimum, Regression, softmax
from posenc_cli.budget import HELD_VALUES, check_size
from posenc_cli.encoding.arrays import rows_a_block
from posenc_cli.errors import InvalidInput, abbreviated, nearest, quoted_name, sizes_text
from posenc_cli.files.reading import read_array
from posenc_cli.formulas.context_extension.stretches import NONE, STRETCHES, UNSTRETCHED
from posenc_cli.positions import whole_number
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.choice import Choice
    from posenc_cli.formulas.declare import Bound
    from posenc_cli.numerics.arrays import Flags, Integers, NumberArray, RealRows, Reals


TARGETS = ("previous", "back:K", "first", "same:K", "window:W")
"""The names of targets; any other text is the name of a file."""

_LARGEST_DISTANCE = 1 << 30
_NAMED_TARGET = r"(?s)(back|same|window):(.*)"
_MASK_ROWS = 1 << 8
"""Rows of a mask that are checked at once."""
_TARGET_EXAMPLES = {"back": "back:40", "same": "same:8", "window": "window:16"}


class HeadTarget(Record):
    """The keys that each query should attend to, all with equal weight.

    ``keys(queries, length)`` → (queries, length), with no key after its query. ``meaning``
    describes the keys, ``without`` the queries that have none.
    """

    name: str
    meaning: str
    without: str
    keys: Callable[[Integers, int], Flags]


def target_of(text: str) -> HeadTarget:
    """Return the target of a name, or of the mask in a file.

    >>> target_of("back:2").keys(np.array([1, 3]), 4).astype(int)
    array([[0, 0, 0, 0],
           [0, 1, 0, 0]])

    Raises: InvalidInput, Unavailable if there is no such target and no such file.
    """
    if text == "previous":
        return HeadTarget(text, "the key before the query", "query 0", partial(_back, 1))
    if text == "first":
        return HeadTarget(text, "key 0", "", _first)
    named = re.fullmatch(_NAMED_TARGET, text)
    if named is None:
        if text in _TARGET_EXAMPLES or not re.search(r"[./\\]", text):
            raise InvalidInput(
                f"--target {abbreviated(text)}: must be one of {', '.join(TARGETS)}, or a file",
                hint=_TARGET_EXAMPLES.get(text)
                or nearest(text, ["previous", "first", *_TARGET_EXAMPLES.values()]),
            )
        return _target_of_file(text)
    kind, number = named[1], whole_number(named[2])
    if number is None or not 1 <= number <= _LARGEST_DISTANCE:
        raise InvalidInput(
            f"--target {abbreviated(text)}: {kind} takes a whole number from 1 to "
            f"{_LARGEST_DISTANCE}",
            hint=_TARGET_EXAMPLES[kind],
        )
    name, first = f"{kind}:{number}", "query 0" if number == 1 else f"queries 0 to {number - 1}"
    if kind == "back":
        return HeadTarget(name, f"the key {number} before the query", first, partial(_back, number))
    if kind == "same":
        meaning = f"the keys {number}, {2 * number}, … before the query"
        return HeadTarget(name, meaning, first, partial(_same, number))
    meaning = f"the last {number} keys, the query's own among them"
    return HeadTarget(name, meaning, "", partial(_window, number))


def _back(distance: int, queries: Integers, length: int) -> Flags:
    return np.asarray(np.arange(length) == queries[:, None] - distance)


def _first(queries: Integers, length: int) -> Flags:
    return np.broadcast_to(np.arange(length) == 0, (queries.size, length))


def _same(period: int, queries: Integers, length: int) -> Flags:
    distances = queries[:, None] - np.arange(length)
    return np.asarray((distances > 0) & (distances % period == 0))


def _window(width: int, queries: Integers, length: int) -> Flags:
    distances = queries[:, None] - np.arange(length)
    return np.asarray((distances >= 0) & (distances < width))


def _target_of_file(path: str) -> HeadTarget:
    """Return the mask in a file, (queries, keys) of 0 and 1, with 0 for keys after the query.

    Raises: InvalidInput, Unavailable.
    """
    values, name = read_array(path).values, quoted_name(path)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise InvalidInput(
            f"--target {name}: must be a square matrix, queries × keys; it is "
            f"{sizes_text(values.shape, ' × ')}"
        )
    count = len(values)
    for start in range(0, count, _MASK_ROWS):
        queries = np.arange(start, min(start + _MASK_ROWS, count))
        _check_mask(values[queries], queries, name)

    def keys(queries: Integers, length: int) -> Flags:
        if length > count:
            raise InvalidInput(f"--target {name} has {count} positions, but a test has {length}")
        return np.asarray(values[queries, :length] != 0)

    return HeadTarget(path, f"the keys that {name} marks", "those that mark none", keys)


def _check_mask(rows: NumberArray, queries: Integers, name: str) -> None:
    """Refuse values that are not a mask, or a mask with keys after the query."""
    for row, column in np.argwhere((rows != 0) & (rows != 1))[:1]:
        raise InvalidInput(
            f"--target {name}: must hold only 0 and 1; at query {queries[row]}, key {column} it "
            f"holds {rows[row, column]:g}"
        )
    ahead = np.arange(rows.shape[1]) > queries[:, None]
    for row, column in np.argwhere((rows != 0) & ahead)[:1]:
        raise InvalidInput(
            f"--target {name}: query {queries[row]} marks key {column}, which comes after it",
            hint="attention is causal: keys after the query must be 0",
        )


USUAL_L2 = 1e-4
MOST_TRAINED = 1 << 10
"""Positions that a head is fitted on: each is a query and a key, used about a hundred times."""
_FITTED_SCORES = 1 << 21
"""Scores of all fits together: about ten seconds."""
_MEASURED_SCORES = 1 << 26
"""Scores of all lengths together: a few seconds."""

_TIE_TOLERANCE = 1e-9
"""The relative difference of scores (to the largest or to 1) below which they are tied."""
DIGITS = 6
"""Decimals of reported values: a library that sums in another order may change later ones."""


class LengthResult(Record):
    """The result of a head at a length, over its last ``queries`` that have a target.

    ``mass`` is the mean attention weight on a query's target keys. ``right`` is the share of
    queries whose largest score is on target keys only. Both are None if no query has a target.
    ``untrained`` are the buckets that occur there but not below the trained length.
    """

    length: int
    queries: int
    mass: float | None
    right: float | None
    untrained: tuple[int, ...] = ()


class LearnedPair(Record):
    """The learned a and b of a dimension pair: a·cos(Δθ) + b·sin(Δθ).

    ``wavelength`` is in positions, infinite if the pair never rotates.
    """

    wavelength: float
    cosine: float
    sine: float

    @property
    def amplitude(self) -> float:
        """The largest score that the pair gives."""
        return float(np.hypot(self.cosine, self.sine))


class FittedHead(Record):
    """A head fitted on positions below ``trained``, with its learned values and its loss.

    ``bound`` is its encoding at that length, and ``source`` the model or config of the encoding.
    ``free`` describes what it could learn, and ``optimum`` has the learned values of least loss.
    """

    bound: Bound
    source: str
    encoding: HeadEncoding
    target: HeadTarget
    trained: int
    queries: int
    l2: float
    free: str
    optimum: Optimum
    basis: Basis
    pairs: tuple[LearnedPair, ...]
    random_weights: str | None

    @property
    def scheme(self) -> str:
        """The name of its scheme."""
        return self.bound.scheme.name

    @property
    def name(self) -> str:
        """The name of its model or config, or else of its scheme."""
        return self.source or self.scheme

    @property
    def slow_share(self) -> float | None:
        """The share of squared amplitudes in pairs whose wavelength exceeds the trained length."""
        squares = [(pair.wavelength > self.trained, pair.amplitude**2) for pair in self.pairs]
        total = sum(square for _, square in squares)
        return sum(square for slow, square in squares if slow) / total if total else None

    def stretched(self, stretch: str, length: int) -> HeadEncoding:
        """Return the encoding at a length, under a context extension."""
        if stretch == NONE:
            return self.encoding
        other = STRETCHES[stretch]
        given = {name: self.bound.params[name] for name in UNSTRETCHED.parameters}
        return HeadEncoding(other.scheme, other.parameters(given, self.trained, length))

    def last_scores(self, stretch: str, length: int, query: int) -> Reals:
        """Return the scores of a query by the distance of the key, from the query's own key on.

        Shape: (query + 1,).
        """
        encoding = self.stretched(stretch, length).at(length)
        scores = encoding.scores(np.array([query]), self.basis).of(self.optimum.numbers)
        return np.asarray(scores[0, query::-1])


class HeadResult(Record):
    """The results of a head at each length, under a context extension."""

    head: FittedHead
    stretch: str
    lengths: tuple[LengthResult, ...]

    def at(self, length: int) -> LengthResult:
        """Return the result at a requested length."""
        return next(result for result in self.lengths if result.length == length)


class HeadsRequest(Record):
    """Targets, a trained length, longer lengths, context extensions and the L2 penalty."""

    targets: tuple[HeadTarget, ...]
    trained: int = 100
    lengths: tuple[int, ...] = (200, 400, 800)
    stretches: tuple[str, ...] = (NONE,)
    l2: float = USUAL_L2
    head: int | None = None

    def results(
        self,
        choices: Sequence[Choice],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[HeadResult]:
        """Return the results for each target, in the order of encodings, then of extensions.

        ``progress`` is called with the number of heads done and the total.

        Raises: InvalidInput if an encoding has too few positions, if nothing can be extended, or if
            there is too much to compute.
        """
        self._check(choices)
        heads = [(choice, target) for target in self.targets for choice in choices]
        results: list[HeadResult] = []
        for done, (choice, target) in enumerate(heads, 1):
            results += self._results(choice, target)
            if progress is not None:
                progress(done, len(heads))
        return results

    def _check(self, choices: Sequence[Choice]) -> None:
        trained, longest = self.trained, max(self.lengths, default=self.trained)
        check_size(f"--train {trained}", trained, MOST_TRAINED, "positions")
        fits = len(self.targets) * len(choices)
        check_size(
            f"{fits} heads of --train {trained}", fits * trained**2, _FITTED_SCORES, "scores"
        )
        check_size(f"--test {longest}", trained * longest, HELD_VALUES, "scores")
        scores = fits * len(self.stretches) * trained * sum(self.lengths)
        check_size("--test, of all heads", scores, _MEASURED_SCORES, "scores")
        for length in self.lengths:
            if length < trained:
                raise InvalidInput(f"--test {length} is shorter than --train {trained}")
        kinds = {choice.scheme.kind for choice in choices}
        if self.head is not None and "bias" not in kinds:
            raise InvalidInput(f"--head {self.head}: only bias schemes have heads")
        others = [stretch for stretch in self.stretches if stretch != NONE]
        if others and not any(map(_can_be_extended, choices)):
            names = ", ".join(dict.fromkeys(choice.source or choice.name for choice in choices))
            raise InvalidInput(
                f"--stretch {others[0]}: changes the frequencies of {UNSTRETCHED.name}; it does "
                f"not apply to {names}",
                hint=f"-s {UNSTRETCHED.name}",
            )

    def _results(self, choice: Choice, target: HeadTarget) -> list[HeadResult]:
        head = self._fitted(choice, target)
        stretches = self.stretches if _can_be_extended(choice) else (NONE,)
        lengths = dict.fromkeys((self.trained, *self.lengths))
        return [
            HeadResult(head, stretch, tuple(_measure(head, stretch, n) for n in lengths))
            for stretch in stretches
        ]

    def _fitted(self, choice: Choice, target: HeadTarget) -> FittedHead:
        """Return the head of least loss.

        Raises: InvalidInput if no query has a target, or float64 does not reach the optimum.
        """
        own_head = self.head if choice.scheme.kind == "bias" else None
        encoding = HeadEncoding(choice.scheme, choice.given, own_head or 0)
        at_trained = encoding.at(self.trained)
        encoding.at(max(self.lengths, default=self.trained))  # fails before the fit if too long
        every = np.arange(self.trained)
        wanted = target.keys(every, self.trained)
        queries = every[wanted.any(axis=1)]
        if not queries.size:
            raise InvalidInput(
                f"--target {abbreviated(target.name)}: none of the --train {self.trained} queries "
                "has such a key"
            )
        shares = wanted[queries] / wanted[queries].sum(axis=1, keepdims=True)
        basis = at_trained.basis()
        scores = at_trained.scores(queries, basis)
        seen = np.arange(self.trained) <= queries[:, None]
        optimum = Regression(scores, seen, shares, self.l2).optimum()
        return FittedHead(
            bound=at_trained.query.bound,
            source=choice.source,
            encoding=encoding,
            target=target,
            trained=self.trained,
            queries=queries.size,
            l2=self.l2,
            free=_free_values_text(at_trained, basis, scores.size),
            optimum=optimum,
            basis=basis,
            pairs=_learned_pairs(at_trained, optimum.numbers),
            random_weights=_random_weights(at_trained, basis, self.lengths),
        )


def _can_be_extended(choice: Choice) -> bool:
    return choice.scheme is UNSTRETCHED


def _random_weights(encoding: LengthEncoding, basis: Basis, lengths: Sequence[int]) -> str | None:
    """Return a note if rows are randomly initialized.

    Buckets are an exception, because the head learns their values.
    """
    if basis.buckets is not None:
        return None
    return encoding.query.bound.random_weights(max(encoding.length, *lengths) - 1)


def _learned_pairs(encoding: LengthEncoding, numbers: Reals) -> tuple[LearnedPair, ...]:
    """Return the learned values of each dimension pair that rotates by the position alone."""
    waves = encoding.content.waves
    if waves is None or encoding.query.bound.scheme.kind != "rotary" or not encoding.by_offset:
        return ()
    wavelengths = wavelengths_of(waves).tolist()
    cosines, sines = np.split(numbers, 2)
    return tuple(map(LearnedPair, wavelengths, cosines.tolist(), sines.tolist()))


def _free_values_text(encoding: LengthEncoding, basis: Basis, size: int) -> str:
    """Return what a head could learn of an encoding, in words."""
    kind = encoding.query.bound.scheme.kind
    if not size:
        return "nothing"
    if kind == "rotary":
        return f"{size} numbers, a cosine and a sine per pair"
    if basis.buckets is not None:
        return f"{size} numbers, one per bucket that occurs in training"
    if kind == "bias":
        return "1 number, an amplitude of either sign"
    if kind == "relative":
        return f"{size} numbers, a weight per column"
    columns = encoding.rows.shape[1]
    return f"{columns**2} numbers, a {columns} × {columns} matrix between two rows"


def _measure(head: FittedHead, stretch: str, length: int) -> LengthResult:
    """Return the result of a head over the last queries of a length."""
    encoding = head.stretched(stretch, length).at(length)
    every = np.arange(length - head.trained, length)
    masses: list[Reals] = []
    rights: list[Reals] = []
    seen_buckets: set[int] = set()
    size = rows_a_block(length)
    for start in range(0, every.size, size):
        queries = every[start : start + size]
        wanted = head.target.keys(queries, length)
        queries, wanted = queries[wanted.any(axis=1)], wanted[wanted.any(axis=1)]
        if queries.size:
            scores = encoding.scores(queries, head.basis).of(head.optimum.numbers)
            scores = np.where(np.arange(length) <= queries[:, None], scores, -np.inf)
            masses.append((softmax(scores) * wanted).sum(axis=1))
            rights.append((_largest_scores(scores) <= wanted).all(axis=1))
            buckets = encoding.buckets(queries)
            seen_buckets |= set() if buckets is None else set(np.unique(buckets).tolist())
    if not masses:
        return LengthResult(length, 0, None, None)
    mass, right = np.concatenate(masses), np.concatenate(rights)
    known = set() if head.basis.buckets is None else set(head.basis.buckets.tolist())
    return LengthResult(
        length,
        mass.size,
        round(min(float(mass.mean()), 1.0), DIGITS),
        round(float(right.mean()), DIGITS),
        tuple(sorted(seen_buckets - known)),
    )


def _largest_scores(scores: RealRows) -> Any:
    """Return which scores of each row equal the largest, up to rounding.

    >>> _largest_scores(np.array([[5.0, 5.0 - 1e-12, 4.0]])).tolist()
    [[True, True, False]]
    """
    highest = scores.max(axis=1, keepdims=True)
    return scores >= highest - _TIE_TOLERANCE * np.maximum(1.0, np.abs(highest))


_FORM = (
    r"(?s)(?P<target>.+)@(?P<length>[0-9]{1,9})(?P<times>x?)(?:\.(?P<measure>mass|right))?"
    r"(?P<relation>>=|<=)(?P<bound>[0-9]*\.?[0-9]+)"
)


class HeadRequirement(Record):
    """A bound on the mass, or on the right share, of a target at a length.

    ``length`` is in positions, or a multiple of the trained length if ``times``.
    """

    text: str
    target: str
    length: int
    times: bool
    measure: str
    relation: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> HeadRequirement:
        """Return the requirement TARGET@LENGTH>=X, on the mass unless ``.right`` is added.

        >>> required = HeadRequirement.parse("back:40@8x.right>=0.9")
        >>> required.target, required.measure, required.length_of(100)
        ('back:40', 'right', 800)

        Raises: InvalidInput.
        """
        asked = f"--require {abbreviated(text)}"
        match = re.fullmatch(_FORM, text.strip())
        if match is None:
            raise InvalidInput(
                f"{asked}: must be TARGET@LENGTH>=SHARE", hint="previous@8x>=0.9 or first@400<=0.5"
            )
        bound = float(match["bound"])
        if not 0 <= bound <= 1:
            raise InvalidInput(f"{asked}: a share must be between 0 and 1")
        return cls(
            text.strip(),
            match["target"].strip(),
            int(match["length"]),
            bool(match["times"]),
            match["measure"] or "mass",
            match["relation"],
            bound,
        )

    def length_of(self, trained: int) -> int:
        """Return the length in positions."""
        return self.length * trained if self.times else self.length

    def holds(self, result: HeadResult) -> bool:
        """Return whether a result meets it at its length; False if nothing could be measured."""
        value = getattr(result.at(self.length_of(result.head.trained)), self.measure)
        if value is None:
            return False
        return bool(value >= self.bound if self.relation == ">=" else value <= self.bound)


class HeadFinding(Record):
    """A requirement, and the results that do not meet it."""

    requirement: HeadRequirement
    failing: tuple[HeadResult, ...]

    @property
    def ok(self) -> bool:
        """Whether all results meet it."""
        return not self.failing

    @property
    def fields(self) -> dict[str, Any]:
        """The finding for JSON."""
        failing = [
            {"scheme": result.head.scheme, "stretch": result.stretch} for result in self.failing
        ]
        return {"require": self.requirement.text, "ok": self.ok, "failing": failing}


def findings(
    requirements: Sequence[HeadRequirement], results: Sequence[HeadResult]
) -> list[HeadFinding]:
    """Return each requirement with the results that do not meet it."""
    return [
        HeadFinding(
            required,
            tuple(
                result
                for result in results
                if result.head.target.name == required.target and not required.holds(result)
            ),
        )
        for required in requirements
    ]


def check_requirements(
    requirements: Sequence[HeadRequirement],
    targets: Sequence[str],
    trained: int,
    lengths: Sequence[int],
) -> None:
    """Refuse requirements on a target or a length that is not tested.

    Raises: InvalidInput.
    """
    for required in requirements:
        asked = f"--require {abbreviated(required.text)}"
        if required.target not in targets:
            raise InvalidInput(
                f"{asked}: {abbreviated(required.target)} is not one of the targets",
                hint=f"--target {required.target}",
            )
        if required.length_of(trained) not in (trained, *lengths):
            known = ", ".join(map(str, dict.fromkeys((trained, *lengths))))
            raise InvalidInput(
                f"{asked}: {required.length_of(trained)} is not one of the lengths {known}",
                hint=f"--test {required.length_of(trained)}",
            )
