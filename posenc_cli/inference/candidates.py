"""Propose schemes and shipped models whose frequencies agree with measured ones.

Proposals come from the inverse of each scheme (:mod:`posenc_cli.formulas.inverse`). A scheme
without an inverse, such as a user's, is tried with its defaults. A proposal agrees with the
measured frequencies within their errors; a trial then decides whether the array fits.

Rules are evaluated in float64. Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posenc_cli import catalogue
from posenc_cli.errors import PosencError
from posenc_cli.formulas.declare import Bound, Content, Kind, Scheme, Waves
from posenc_cli.formulas.inverse import (
    ALIKE_NUMBERS,
    BESIDE_KNOWN,
    CONTEXTS,
    DOUBLE,
    FACTORS,
    FITTED,
    MANY,
    NEAR,
    ROUNDED,
    SPARE,
    SURE,
    Guess,
    Measured,
    snap,
    written_numbers,
)
from posenc_cli.inference.trial import UNREDUCED_TABLES, Trial, exact_frequencies
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from posenc_cli.formulas.parameters import Parameter
    from posenc_cli.inference.rates import Rates
    from posenc_cli.numerics.arrays import Reals

_PLAIN_PARAMETERS = 5
"""Largest number of parameters of a plain scheme: a ladder and a number, whose inverse is
instant."""
_NEWTON_STEP = 1e-6
"""Relative step of a parameter in a numeric derivative, and the last step of Newton's method."""
_GUESS_ERRORS = (NEAR, 1e-3, 1e-3, 1e-3)
"""Relative error of rates that a guessed parameter may cause, at each step of Newton's method."""
_FLOAT32_SCATTER = 1e-9
"""Relative scatter of rates: float32 code scatters more, and exact values over some hundred rows
less."""
_BASE_ERROR = 2e-5
"""Relative error of rates for a base rounded to five digits; the entries determine more."""
_COMPUTED_COST = 0.6
"""Cost of a number that people compute from another. Judgement: as much as two digits."""
_MOST_GUESSES = 512
"""Limit on guesses of an inverse: a scheme takes about 0.1 ms to bind and evaluate."""


class Proposal(Record):
    """A scheme with parameters, its frequencies in radians per position, and its amplitude.

    ``placed`` says whether its waves follow coordinates or grow in amplitude.
    """

    scheme: str
    given: Mapping[str, Any]
    frequencies: Reals
    amplitude: float = 1.0
    cost: float = 1.0
    uncertainty: Mapping[str, float] = fresh(dict)
    notes: tuple[str, ...] = ()
    placed: bool = False


@lru_cache(maxsize=1)
def presets() -> tuple[Proposal, ...]:
    """Return the rotary encodings of all models that posenc ships."""
    rotary = (own for own in layers_of_models() if catalogue.BUILT_IN[own.scheme].kind == "rotary")
    given = ((own.scheme, {k: v for k, v in own.params.items() if k != "layout"}) for own in rotary)
    # A higher cost than any rule with the same table and numbers that people use.
    guesses = ((catalogue.BUILT_IN[name], Guess(params, cost=3.0)) for name, params in given)
    return tuple(filter(None, itertools.starmap(proposal_of, guesses)))


def presets_of(pairs: int) -> list[Proposal]:
    """Return the presets with so many pairs."""
    return [preset for preset in presets() if preset.frequencies.size == pairs]


def known_schemes() -> tuple[Scheme, ...]:
    """Return all schemes known by name: of the catalogue, of plugins, and adopted ones."""
    return (*_schemes(tuple(sys.path)), *catalogue.adopted())


def schemes_of(kind: Kind) -> tuple[Scheme, ...]:
    """Return all schemes of a kind that are known by name."""
    return tuple(scheme for scheme in known_schemes() if scheme.kind == kind)


@lru_cache(maxsize=1)
def _schemes(_path: tuple[str, ...]) -> tuple[Scheme, ...]:
    """Return built-in and plugin schemes. Plugins depend on the path, the key of the cache."""
    plugins = (scheme for scheme in catalogue.installed() if isinstance(scheme, Scheme))
    own = [scheme for scheme in plugins if scheme.name not in catalogue.BUILT_IN]
    return (*catalogue.BUILT_IN.values(), *own)


def proposal_of(scheme: Scheme, guess: Guess, *, length: int | None = None) -> Proposal | None:
    """Return a scheme's proposal; None if it has no waves, or does not accept the parameters."""
    try:
        with scheme.answerable(), np.errstate(all="ignore"):
            waves = scheme.bind(guess.params, seq_len=length).content.waves
            if waves is None:
                return None
            frequencies = np.asarray(waves.frequencies(np), np.float64)
            amplitude = float(waves.scale)
    except (PosencError, ArithmeticError):
        return None
    return Proposal(
        scheme.name,
        guess.params,
        frequencies,
        amplitude,
        guess.cost,
        guess.uncertainty,
        guess.notes,
        waves.coordinates is not None or waves.growth is not None,
    )


def _agrees(
    frequencies: Reals, measured: Measured, *, loose: float, any_step: bool = False
) -> bool:
    """Return whether measured rates are a common multiple of frequencies, within their errors.

    The multiple is a whole number, or any number with ``any_step``.
    """
    rates, errors = measured.values, measured.errors
    if frequencies.size < rates.size:
        return False
    frequencies = frequencies[: rates.size]
    known = np.flatnonzero((frequencies > 0) & (errors < 0.3 * np.abs(rates)))
    steps = {1.0}
    if known.size:
        slow = known[-1]
        steps.add(float(np.round(rates[slow] / frequencies[slow])))
        if any_step:
            steps.add(_common_multiple(frequencies[known[::-1]], rates[known[::-1]]))
    for step in steps:
        left = rates - step * frequencies
        left = np.abs(left - 2 * np.pi * np.round(left / (2 * np.pi)))
        limits = (1 + abs(step)) * errors + loose * np.abs(step * frequencies) + 1e-12
        if step and (left <= limits).all():
            return True
    return False


def _common_multiple(frequencies: Reals, values: Reals) -> float:
    """Return the common multiple of frequencies that gives values modulo 2π; lowest first."""
    step = float(values[0] / frequencies[0])
    for frequency, value in zip(frequencies.tolist(), values.tolist(), strict=True):
        turns = round((step * frequency - value) / (2 * math.pi))
        step = (value + 2 * math.pi * turns) / frequency
    return step


def rotary_proposals(
    rates: Rates, amplitude: float | None, *, precise: float = 1e-5
) -> Iterator[Proposal]:
    """Yield rotary encodings whose frequencies agree with rates, the simplest schemes first.

    ``amplitude`` is the factor on cosines and sines, known within ``precise``; None if unknown.
    """
    measured = _measured(rates, amplitude, precise)
    schemes = schemes_of("rotary")
    plain = [scheme for scheme in schemes if len(scheme.parameters) <= _PLAIN_PARAMETERS]
    ladders = (proposal for scheme in plain for proposal in _proposals(scheme, measured))
    yield from _agreeing(sorted(ladders, key=lambda proposal: proposal.cost), measured)
    yield from _agreeing(presets_of(measured.pairs), measured)
    for scheme in (scheme for scheme in schemes if scheme not in plain):
        yield from _agreeing(_proposals(scheme, measured), measured)


def proposals_at_length(
    rates: Rates, amplitude: float | None, length: int, *, precise: float = 1e-5
) -> Iterator[Proposal]:
    """Yield rotary encodings that depend on the sequence length, once positions determine it."""
    measured = _measured(rates, amplitude, precise, length)
    for scheme in schemes_of("rotary"):
        if any(parameter.rules.follows_length for parameter in scheme.parameters.values()):
            yield from _agreeing(_proposals(scheme, measured), measured)


def _measured(
    rates: Rates, amplitude: float | None, precise: float, length: int | None = None
) -> Measured:
    given = {"dim": 2 * rates.values.size}
    return Measured(rates.values, rates.errors, given, amplitude, precise, length)


def _agreeing(proposals: Iterable[Proposal], measured: Measured) -> Iterator[Proposal]:
    """Yield the proposals whose frequencies and amplitude agree with the measured ones."""
    for proposal in proposals:
        # Half-precision frequencies are this far off; only plain rules are tried on them.
        loose = 0.004 if proposal.cost < 2 else _BASE_ERROR
        if measured.has_amplitude(proposal.amplitude) and _agrees(
            proposal.frequencies, measured, loose=loose
        ):
            yield proposal


def _proposals(scheme: Scheme, measured: Measured) -> Iterator[Proposal]:
    """Yield the proposals that a scheme's inverse guesses."""
    if scheme.inverse is None:  # a user's scheme costs more than posenc's own of the same table
        given = {name: value for name, value in measured.given.items() if name in scheme.parameters}
        guesses = iter([Guess(given, cost=1.9)])
    else:
        guesses = guesses_until_error(scheme, scheme.inverse(np, measured))
    for guess in itertools.islice(guesses, _MOST_GUESSES):  # noisy rates agree with many guesses
        for settled in _settled_guesses(scheme, guess, measured):
            proposal = proposal_of(scheme, settled, length=measured.length)
            if proposal is not None:
                yield proposal


def _settled_guesses(scheme: Scheme, guess: Guess, measured: Measured) -> Iterator[Guess]:
    """Yield a guess with values of its solved parameter, those with the fewest digits first.

    The last one is the solution itself, with its uncertainty.
    """
    name = guess.solved
    if name is None:
        yield guess
        return
    solution = _solution(scheme, guess, name, measured)
    if solution is None:
        return
    value, error = solution

    def with_number(number: float, **rest: Any) -> Guess:
        return replace(guess, params={**guess.params, name: number}, solved=None, **rest)

    for number, note in guess.likely:
        if abs(number - value) <= error:
            cost, notes = guess.cost + _COMPUTED_COST, (*guess.notes, note)
            yield with_number(number, cost=cost, notes=notes)
    for number, digits in written_numbers(value, error):
        yield with_number(number, cost=guess.cost + 0.3 * digits)
    uncertainty = {**guess.uncertainty, name: error}
    alike = any(abs(known / value - 1) <= ALIKE_NUMBERS for known in FACTORS)
    cost = min(FITTED, guess.cost + BESIDE_KNOWN) if alike else FITTED
    yield with_number(snap(value, error / SPARE), cost=cost, uncertainty=uncertainty)


def _solution(
    scheme: Scheme, guess: Guess, name: str, measured: Measured
) -> tuple[float, float] | None:
    """Find by Newton's method the value of one parameter that fits all rates, and its error."""
    value, error = float(guess.params[name]), 0.0
    with np.errstate(all="ignore"):
        spread = measured.errors / np.abs(measured.values)  # (pairs,)
        for rough in _GUESS_ERRORS:
            params = (
                {**guess.params, name: value},
                {**guess.params, name: value * (1 + _NEWTON_STEP)},
            )
            own, stepped = (_frequencies_of(scheme, given, measured) for given in params)
            if own is None or stepped is None:
                return None
            changes = np.log(stepped / own) / math.log1p(_NEWTON_STEP)
            missed = np.log(measured.values / own)
            known = np.isfinite(changes) & (np.abs(missed) <= 8 * spread + rough) & (spread < 0.1)
            weights = np.where(known, spread, np.inf) ** -2.0
            changes, missed = np.where(known, changes, 0), np.where(known, missed, 0)
            power = float(weights @ changes**2)
            if power == 0:
                return None
            step = float(weights @ (changes * missed)) / power
            if abs(step) > 1:
                return None  # a right guess is nearer
            value *= math.exp(step)
            left = float(weights @ (missed - step * changes) ** 2)
            count = np.count_nonzero(known & (changes != 0))
            error = 1 / math.sqrt(power)
            shared = math.sqrt(left / float(weights.sum()))
            if count >= MANY:
                error *= SURE * math.sqrt(left / (count - 1))
            if abs(step) <= _NEWTON_STEP:
                break
    # Float32 code rounds the parameter itself, which the scatter does not show.
    rounded = ROUNDED if shared > _FLOAT32_SCATTER else 0.0
    return value, value * (error + shared + rounded + DOUBLE)


def guesses_until_error(scheme: Scheme, guesses: Iterator[Guess]) -> Iterator[Guess]:
    """Yield the guesses of an inverse, until a user's code raises."""
    while True:
        try:
            with scheme.answerable(), np.errstate(all="ignore"):
                guess = next(guesses, None)
        except PosencError:
            return
        if guess is None:
            return
        yield guess


def is_number(parameter: Parameter) -> bool:
    """Return whether a parameter is a single number that frequencies may depend on."""
    return (
        parameter.type in (int, float)
        and not parameter.is_list
        and not parameter.rules.follows_length
        and isinstance(parameter.default, int | float)
    )


def usual_values(parameter: Parameter) -> tuple[float, ...]:
    """Return the values of a parameter in published models, its default first; not for bases.

    Empty if no model has a parameter of this name.
    """
    name, of_models = parameter.name, _values_of_models().get(parameter.name, ())
    known = CONTEXTS if name.endswith("position_embeddings") else {"factor": FACTORS}.get(name, ())
    values = (parameter.default, *known, *of_models) if known or of_models else ()
    typed = (parameter.type(v) for v in values if parameter.type is float or v == int(v))
    return tuple(dict.fromkeys(typed))


def other_values(parameter: Parameter, right: Any, usual: Iterable[Any] = ()) -> list[Any]:
    """Return values that code may give a parameter in place of the right one, ``usual`` ones too.

    The sizes of a grid, or of the sections of axes, may be in another order.
    """
    values: Iterable[Any] = parameter.choices or ()
    if parameter.type is bool:
        values = (False, True)
    elif parameter.name in ("grid", "sections") and right:
        values = itertools.permutations(right)
    return [value for value in dict.fromkeys((*usual, *values)) if value != right]


@lru_cache(maxsize=1)
def _values_of_models() -> Mapping[str, tuple[float, ...]]:
    """Return the numbers that models give the parameters of their schemes, except widths."""
    values: dict[str, dict[float, None]] = {}
    for layers in layers_of_models():
        for name, value in layers.params.items():
            if type(value) in (int, float) and name not in ("dim", "heads", "partial"):
                values.setdefault(name, {})[value] = None
    return {name: tuple(known) for name, known in values.items()}


def _frequencies_of(scheme: Scheme, given: Mapping[str, Any], measured: Measured) -> Reals | None:
    """Return the frequencies of a scheme; None if it has none, or not as many as were measured."""
    proposal = proposal_of(scheme, Guess(given), length=measured.length)
    known = proposal is not None and proposal.frequencies.size == measured.pairs
    return proposal.frequencies if proposal and known else None


def sinusoidal_proposals(
    rates: Rates, *, columns: str, order: str, odd: str, dim: int
) -> Iterator[Proposal]:
    """Yield sinusoidal matrices of any column layout whose frequencies agree with rates."""
    settled = {"dim": dim, "layout": columns, "order": order, "odd": odd}
    for scheme in schemes_of("absolute"):
        given = {name: value for name, value in settled.items() if name in scheme.parameters}
        measured = Measured(rates.values, rates.errors, given)
        for proposal in _proposals(scheme, measured):
            if _agrees(proposal.frequencies, measured, loose=0.004, any_step=True):
                yield proposal


_SAME_FREQUENCY = 1e-9
"""Relative difference of float64 frequencies above which they differ in more digits too."""
_LEARNED = ("seed", "weights", "std", "max_len")
"""Parameters that determine the values of a learned table, but no rule."""


def models_of(trial: Trial) -> tuple[str, ...]:
    """Return the models with the same table as a trial's hypothesis, at the trial's positions.

    For a learned bias, the rule of its buckets is compared.
    """
    layer_types: dict[str, list[str | None]] = {}
    if trial.bound.scheme.name in ("learned", "nope"):
        return ()
    kind = trial.bound.scheme.kind
    for layers, own in _encodings_of_models(trial.hypothesis.seq_len, kind):
        if _same_encoding(trial, own):
            layer_types.setdefault(layers.model, []).append(layers.layer_type)
    return tuple(_model_and_layers(model, types) for model, types in layer_types.items())


def same_entries(a: Trial, b: Trial) -> bool:
    """Return whether two trials compare the same entries with the same numbers."""
    first, second = a.hypothesis, b.hypothesis
    alike = (
        (a.arithmetic, a.rounded, first.placed) == (b.arithmetic, b.rounded, second.placed)
        and len(first.tables) == len(second.tables)
        and "slopes" not in (first.tables[0], second.tables[0])
    )
    return alike and all(
        _same_table(a.bound.content, table, b.bound.content, other)
        for table, other in zip(first.tables, second.tables, strict=True)
    )


class ModelLayers(NamedTuple):
    """Some layers of a model that posenc ships: their type, their scheme and its parameters."""

    model: str
    layer_type: str | None
    scheme: str
    params: Mapping[str, Any]


_INDEX = "model_layers.json"
"""The encodings of each model's config. ``tools/pages.py`` writes it, since computing them takes 20
ms."""


@lru_cache(maxsize=1)
def layers_of_models() -> tuple[ModelLayers, ...]:
    """Return the layers of all models that posenc ships, grouped by type."""
    rows = json.loads(Path(__file__).with_name(_INDEX).read_text("utf-8"))
    found = []
    for model, layer_type, scheme, params in rows:
        given = {name: tuple(v) if type(v) is list else v for name, v in params.items()}
        found.append(ModelLayers(model, layer_type, scheme, given))
    return tuple(found)


@lru_cache(maxsize=4)
def _encodings_of_models(seq_len: int | None, kind: Kind) -> tuple[tuple[ModelLayers, Bound], ...]:
    """Return the encodings of one kind of all models that have one at a sequence length."""
    bounds = []
    for layers in layers_of_models():
        scheme = catalogue.BUILT_IN[layers.scheme]
        if scheme.kind == kind:
            with contextlib.suppress(PosencError):
                bounds.append((layers, scheme.bind(layers.params, seq_len=seq_len)))
    return tuple(bounds)


def _same_encoding(trial: Trial, own: Bound) -> bool:
    """Return whether a model's encoding equals that of a trial, in the trial's tables."""
    bound, hypothesis = trial.bound, trial.hypothesis
    if bound.content.waves is not None:
        return all(
            _same_table(bound.content, table, own.content, table) for table in hypothesis.tables
        )
    if bound.scheme.name != own.scheme.name:
        return False
    hidden = {*hypothesis.hidden, *(_LEARNED if bound.scheme.weights else ())}
    return all(
        own.params[name] == value for name, value in bound.params.items() if name not in hidden
    )


def _same_table(a: Content, table: str | None, b: Content, other: str | None) -> bool:
    """Return whether two encodings made of waves hold the same numbers in these tables."""
    if a.waves is None or b.waves is None or not _same_frequencies(a.waves, b.waves):
        return False
    special = {"inv-freq", "angles", *UNREDUCED_TABLES} & {table, other}
    if special:
        return table == other
    return a.waves.scale == b.waves.scale and _placements_of(a, table) == _placements_of(b, other)


def _same_frequencies(a: Waves, b: Waves) -> bool:
    """Return whether two waves along one axis, of constant amplitude, have equal frequencies."""
    special = any(waves.coordinates is not None or waves.growth is not None for waves in (a, b))
    if special or a.count != b.count:
        return False
    if not np.allclose(_float_frequencies(a), _float_frequencies(b), rtol=_SAME_FREQUENCY, atol=0):
        return False
    return exact_frequencies(a) == exact_frequencies(b)


@lru_cache(maxsize=1024)
def _float_frequencies(waves: Waves) -> Reals:
    return np.asarray(waves.frequencies(np), np.float64)


def _placements_of(content: Content, table: str | None) -> set[tuple[str, range, range]]:
    """Return the function, the columns and the waves of each placement in a table."""
    assert content.waves is not None
    placed = content.columns(table)
    columns, waves = range(placed.width), range(content.waves.count)
    return {(p.function, columns[p.columns], waves[p.waves]) for p in placed.placements}


def _model_and_layers(model: str, layer_types: list[str | None]) -> str:
    """Return the name of a model, and its layer types unless all its layers are meant."""
    every = [layers for layers in layers_of_models() if layers.model == model]
    if len(layer_types) == len(every):
        return model
    return f"{model} ({', '.join(str(each) for each in layer_types)})"
