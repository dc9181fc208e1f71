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
from posenc_cli.identification.score_profiles import profile_of
from posenc_cli.inference.candidates import answered, schemes_of, usual_values
from posenc_cli.inference.trial import Hypothesis
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.numerics.rounding import round_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.formulas.declare import Scheme
    from posenc_cli.identification.score_profiles import BiasProfile
    from posenc_cli.inference.evidence import Evidence

_UNGUESSED = 1.9
"""What a scheme costs that gives no inverse: it is believed behind posenc's own."""
_MOST_GUESSES = 64
"""Of a scheme without an inverse."""
_MOST_OF_ONE = 16
"""Heads of such a scheme that one matrix may be."""
_SEEDS = 4
"""Of posenc's own tables and networks, from 0 on: judgement, few take others."""
_OF_NETWORKS: Mapping[str, tuple[Any, ...]] = {
    "pretrained_window_size": ((12, 12), (6, 6)),
    "hidden": (32, 512, 64, 16),
    "c": (1.0, 0.5),
}
"""What a drawn network may have in place of its defaults, one at a time."""
_THRESHOLDS = (512.0, 64.0, 128.0, 256.0, 1024.0)
"""Positions from which FIRE may count queries, the authors' own first."""


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
        4 * evidence.rounding,
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


def pair_hypotheses(
    evidence: Evidence, *, by_offset: bool
) -> Iterator[tuple[BiasProfile, list[Hypothesis]]]:
    """What a bias may be that goes by two places of a window, or by a share of the query's.

    A bias that goes ``by_offset`` alone is of no window, for any window would do.
    """
    for scheme in schemes_of("bias"):
        keys = evidence.shape[-1]
        for given in _numberings(scheme, keys, by_offset=by_offset):
            pairs = getattr(scheme.bind(given).content, "pairs", None)
            profile = pairs and profile_of(evidence, "pair", pairs.number)
            if profile is not None:
                guesses = _pair_guesses(scheme, given, profile)
                yield profile, [_hypothesis(scheme, guess, profile) for guess in guesses]


def _numberings(scheme: Scheme, keys: int, *, by_offset: bool) -> Iterator[dict[str, Any]]:
    """The parameters by which a scheme numbers pairs of so many places."""
    if "threshold" in scheme.parameters:
        yield from ({"threshold": threshold} for threshold in _THRESHOLDS)
    if "window_size" not in scheme.parameters or by_offset:
        return
    for token in (False, True) if "class_token" in scheme.parameters else (False,):
        places = keys - token
        sides = [side for side in range(2, places // 2 + 1) if places % side == 0]
        for rows in sorted(sides, key=lambda side: abs(side - places // side)):
            window = {"window_size": (rows, places // rows)}
            yield {**window, "class_token": True} if token else window


def _pair_guesses(scheme: Scheme, given: dict[str, Any], profile: BiasProfile) -> Iterator[Guess]:
    """Tables and networks that posenc draws; of a table that has them all, a learned one."""
    drawn: dict[str, Any] = {**given, "heads": profile.heads}
    network = scheme.bind(given).content.network
    changes: list[dict[str, Any]] = [{}]
    if network is not None:
        named = (name for name in _OF_NETWORKS if name in scheme.parameters)
        changes += [{name: value} for name in named for value in _OF_NETWORKS[name]]
    for seed, changed in itertools.product(range(_SEEDS), changes):
        yield Guess({**drawn, **changed, "seed": seed}, cost=2.0 + 0.1 * len(changed))
    if network is None:
        note = f"a learned table: {profile.indices.size} of its rows show here"
        yield Guess(drawn, cost=2.5, hidden=("seed", "weights"), notes=(note,))


def slope_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """What one row of numbers may be as slopes of ALiBi."""
    values = np.asarray(evidence.sample[0])
    if len(evidence.arrays) != 1 or values.ndim != 1 or values.dtype.kind == "c":
        return
    if not np.isfinite(values).all() or not (values > 0).all():
        return
    limit = 3e-6 + 4 * evidence.rounding + values.size * 1e-7
    for max_bias, rule, _ in rules_of(values.tolist(), limit):
        yield Hypothesis(
            alibi.name,
            {"heads": values.size, "max_bias": max_bias, "slopes": rule},
            ("slopes",),
            # As slopes before inverse frequencies of the same numbers.
            cost=0.8 + 0.2 * (max_bias != alibi.parameters["max_bias"].default),
            hidden=("form",),
        )
