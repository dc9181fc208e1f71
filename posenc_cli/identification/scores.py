"""Which schemes give scores that were measured, by the inverses that stand beside their formulas.

A scheme without an inverse, such as a user's, is tried with its defaults, and with numbers that
published models have. Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.formulas.alibi import alibi, rules_of
from posenc_cli.formulas.inverse import Guess, MeasuredScores
from posenc_cli.inference.candidates import answered, schemes_of, usual_values
from posenc_cli.inference.tolerance import unit
from posenc_cli.inference.trial import Hypothesis
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.numerics.rounding import round_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.formulas.declare import Scheme
    from posenc_cli.identification.score_profiles import BiasProfile
    from posenc_cli.inference.evidence import Evidence

_UNGUESSED = 1.9
"""What a scheme costs that gives no inverse: it is believed behind posenc's own."""
_MOST_GUESSES = 64
"""Of a scheme without an inverse."""
_MOST_OF_ONE = 16
"""Heads of such a scheme that one matrix may be."""


def bias_hypotheses(profile: BiasProfile, evidence: Evidence) -> Iterator[Hypothesis]:
    """What a bias may be; positions are the offsets or keys of the profile."""
    if not np.nan_to_num(profile.values).any():
        return
    measured = MeasuredScores(
        profile.by,
        profile.indices,
        profile.values,
        profile.keys,
        profile.single,
        4 * unit(evidence.values.name),
        lambda values: round_to(values, FLOAT64, evidence.values),
    )
    for scheme in schemes_of("bias"):
        guesses = _default_guesses(scheme, measured)
        if scheme.inverse is not None:
            guesses = answered(scheme, scheme.inverse(np, measured))
        for guess in guesses:
            yield _hypothesis(scheme, guess, profile)


def _hypothesis(scheme: Scheme, guess: Guess, profile: BiasProfile) -> Hypothesis:
    head = 0 if profile.single and guess.head is None else guess.head
    return Hypothesis(
        scheme.name,
        guess.params,
        (None,),
        profile.indices,
        cost=guess.cost,
        hidden=guess.hidden,
        notes=guess.notes,
        uncertainty=guess.uncertainty,
        head=head,
        multiplier=guess.multiplier,
    )


def _default_guesses(scheme: Scheme, measured: MeasuredScores) -> Iterator[Guess]:
    """The defaults of a scheme, and numbers that models give such parameters."""
    given: dict[str, Any] = {}
    if "heads" in scheme.parameters and not measured.single:
        given["heads"] = measured.heads
    free = [p for name, p in scheme.parameters.items() if name not in (*given, "heads", "seed")]
    usual = {p.name: values for p in free if (values := usual_values(p))}
    combinations = itertools.product(*([(n, v) for v in vs] for n, vs in usual.items()))
    heads = range(_MOST_OF_ONE) if measured.single else (None,)
    for combination in itertools.islice(combinations, _MOST_GUESSES):
        changed = {n: v for n, v in combination if v != scheme.parameters[n].default}
        for head in heads:
            yield Guess({**given, **changed}, cost=_UNGUESSED + 0.2 * len(changed), head=head)


def slope_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """What one row of numbers may be as slopes of ALiBi."""
    values = np.asarray(evidence.sample[0])
    if len(evidence.arrays) != 1 or values.ndim != 1 or values.dtype.kind == "c":
        return
    if not np.isfinite(values).all() or not (values > 0).all():
        return
    limit = 3e-6 + 4 * unit(evidence.values.name) + values.size * 1e-7
    for max_bias, rule, _ in rules_of(values.tolist(), limit):
        yield Hypothesis(
            alibi.name,
            {"heads": values.size, "max_bias": max_bias, "slopes": rule},
            ("slopes",),
            # As slopes before inverse frequencies of the same numbers.
            cost=0.8 + 0.2 * (max_bias != alibi.parameters["max_bias"].default),
            hidden=("form",),
        )
