"""List known bugs of parameters: base, frequency rule, slopes, buckets and other settings."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.checks.expected import Change, Expected
from posenc_cli.checks.known_bugs.arrangement import renumbered
from posenc_cli.checks.known_bugs.bug import GITHUB, BugCode, KnownBug, multiplied, wave_columns
from posenc_cli.checks.measured import measured_bases
from posenc_cli.formulas.alibi import SlopesRule, exact_slopes, rules_of
from posenc_cli.formulas.inverse import KNOWN_BASES
from posenc_cli.formulas.parameters import as_text
from posenc_cli.numerics.halves import HALVES, round_to_half
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.numerics.arrays import Integers, RealRows, Reals

_UNTRIED_PARAMETERS = (
    *("dim", "heads", "seed", "std", "hidden", "max_len", "weights", "window_size"),
    *("form", "base", "max_period", "slopes"),
)
"""Parameters that set a table's size or choose a table, or whose bugs have other rows."""
_CODES = {
    **dict.fromkeys(("layout",), BugCode.LAYOUT),
    **dict.fromkeys(("flip_sin_to_cos", "sin-first", "cos-first"), BugCode.COS_SIN_MISPAIRED),
    **dict.fromkeys(("base", "max_period"), BugCode.BASE),
    **dict.fromkeys(("spacing", "downscale_freq_shift"), BugCode.FREQUENCY_RULE),
    **dict.fromkeys(("convention", "normalize", "base_size", "grid"), BugCode.AXIS),
    **dict.fromkeys(("num_buckets", "max_distance", "bucket_size"), BugCode.BUCKETS),
    **dict.fromkeys(("max_position", "bidirectional"), BugCode.BUCKETS),
    "max_bias": BugCode.SLOPES,
    "offset": BugCode.POSITION_OFFSET,
}
"""Codes of parameters, or of their values, whose bugs have their own code."""
_USUAL: dict[str, tuple[Any, ...]] = {
    "num_buckets": (32, 16, 64, 128, 256),
    "max_distance": (128, 256, 64, 512, 32, 800, 1024, 2048),
    "bucket_size": (256, 128, 512, 64, 32),
    "max_position": (512, 1024, 256, 128, 2048),
    "downscale_freq_shift": (0.0, 1.0),
    "scale": (1.0, 1000.0, 0.001),
    "offset": (0, 1, 2),
    "base_size": (None, (16, 16)),
    "pretrained_window_size": (None,),
}
"""Values that libraries and models give to parameters with several usual values."""
_DIGITS = 3
"""Digits of a base that people write; one with more is reported only if nothing else fits."""
_MORE_HEADS = (8, 16, 32, 64, 128, 12, 24, 40, 48, 96, 112)
"""Numbers of heads that models have; a device or a bug may use only some of the heads."""


def _other_parameters(e: Expected) -> Iterator[Change]:
    """Yield changes of one parameter each, to usual or nearby values."""
    from posenc_cli.inference.candidates import other_values  # slow to import

    for name, declared in e.parameters.items():
        right = e.params.get(name)
        if name in _UNTRIED_PARAMETERS or declared.rules.follows_length:
            continue
        usual = list(_USUAL.get(name, ()))
        if not usual and isinstance(right, int | float) and right:
            usual = [declared.type(right * step) for step in (2, 0.5)]
        if name in ("max_position", "max_distance") and e.form == "buckets":
            distance = int(np.abs(e.places.keys - e.places.at).max())
            usual += [distance, distance + 1, 2 * distance]
        for value in other_values(declared, right, usual):
            yield _parameter_change(e, **{name: value})


def _parameter_change(e: Expected, **others: Any) -> Change:
    """Return a change of parameters, in words, with the code of the first."""
    texts = {
        key: [
            "none" if each is None else as_text(each, separator=e.parameters[key].rules.separator)
            for each in (other, e.params.get(key))
        ]
        for key, other in others.items()
    }
    name, value = next(iter(others.items()))
    right = " ".join(f"{key}={own}" for key, (_, own) in texts.items())
    wrong = " ".join(f"--set {key}={found}" for key, (found, _) in texts.items())
    return Change(
        " and ".join(f"{key} is {found}, not {own}" for key, (found, own) in texts.items()),
        others,
        code=_CODES.get(name, _CODES.get(value, BugCode.PARAMETER)),
        remedy=f"compute with {right}, or check against {wrong}",
    )


def _base_parameter(e: Expected) -> str | None:
    """Return the name of the parameter that is the base of waves."""
    names = (name for name in ("base", "max_period") if e.is_waves and e.params.get(name))
    return next(names, None)


def _other_bases(e: Expected) -> Iterator[Change]:
    """Yield changes to bases measured in the slowest wave, or else to those of models."""
    name = _base_parameter(e)
    if name is None:
        return
    for base in measured_bases(e, float(e.params[name])) or KNOWN_BASES:
        if base != e.params[name] and base > 1:
            yield replace(
                _parameter_change(e, **{name: base}), general=base != float(f"{base:.{_DIGITS}g}")
            )


def _usual_bases(e: Expected, _: int) -> Iterator[Change]:
    name = _base_parameter(e)
    others = (base for base in KNOWN_BASES if name and base != e.params[name])
    yield from (_parameter_change(e, **{str(name): base}) for base in others)


def _other_exponents(e: Expected) -> Iterator[Change]:
    """Yield changes to exponents that count columns in place of pairs, or end at another value."""
    columns = wave_columns(e)
    if columns is None or not e.frequencies.size:
        return
    axes = columns[2]
    name = _base_parameter(e)
    if name is not None:
        for text, power in (("2c", 2.0), ("c", 1.0)):
            yield Change(
                f"each column c has its own exponent {text}/{e.content.width}: sin and cos of a "
                "pair have different frequencies",
                make=partial(_column_frequencies, base=float(e.params[name]), power=power),
            )
    counts = np.bincount(axes)[axes]  # (waves,)
    powers: dict[str, Reals | float] = {
        "the exponents are twice as large: 4i/d, not 2i/d": 2.0,
        "the exponents are half as large: i/d, not 2i/d": 0.5,
        "the exponents have the wrong sign: positions are multiplied, not divided": -1.0,
        "the exponents are i/(n − 1), not i/n, of n pairs": counts / np.maximum(counts - 1, 1),
        "the exponents are i/n, not i/(n − 1), of n pairs": np.maximum(counts - 1, 1) / counts,
    }
    for text, power_of in powers.items():
        yield Change(text, rates=partial(_raised, powers=power_of))
    within = np.array([axes[:wave].count(axis) for wave, axis in enumerate(axes)])
    yield Change(
        "the frequencies are e^(−2i): −log(base)/d//2 is floored to −1",
        rates=lambda frequencies: np.copysign(np.exp(-2.0 * within), frequencies),
        remedy="put the divisor in parentheses: −log(base)/(d//2)",
    )


def _raised(frequencies: Reals, powers: Reals | float) -> Reals:
    changed: Reals = np.copysign(np.abs(frequencies) ** powers, frequencies)
    return changed


def _column_frequencies(e: Expected, *, base: float, power: float) -> RealRows:
    columns = wave_columns(e)
    assert columns is not None
    at, width = e.angle_positions(), e.content.width
    sin, cos = (at * base ** (-power * column / width) for column in columns[:2])
    return e.placed(np.cos(cos), np.sin(sin))


def _t5_rules(e: Expected) -> Iterator[Change]:
    """Yield T5's bucket rule without the final minimum."""
    if "num_buckets" not in e.params:
        return
    yield renumbered(
        "far offsets go past the last bucket: the minimum is missing",
        lambda e, q, k: _t5_without_minimum(e, k - q),
    )


def _t5_without_minimum(e: Expected, relative: Integers) -> Integers:
    """Return T5's buckets in float64, as libraries compute them, but without the minimum."""
    both, distance = e.params["bidirectional"], e.params["max_distance"]
    side = e.params["num_buckets"] // (2 if both else 1)
    single = side // 2
    away = np.abs(relative) if both else np.maximum(-relative, 0)
    right = np.where(relative > 0, side, 0) if both else 0
    far = np.log(np.maximum(away, single) / single) / math.log(distance / single) * (side - single)
    widened = single + (far + 1e-9).astype(np.int64)
    return np.asarray(right + np.where(away < single, away, widened), np.int64)


def _alibi_slopes(e: Expected) -> tuple[int, float, SlopesRule, Reals] | None:
    """Return ALiBi's heads, largest bias, rule and slopes.

    Returns None for a single head: many rules fit it.
    """
    if "max_bias" not in e.params or e.head is not None:
        return None
    heads, bias, rule = (e.params[name] for name in ("heads", "max_bias", "slopes"))
    return heads, bias, rule, np.asarray(exact_slopes(heads, max_bias=bias, rule=rule))


def _slope_rules(e: Expected) -> Iterator[Change]:
    """Yield changes to ALiBi's slopes by other rules, for other heads, or in another order."""
    if (alibi := _alibi_slopes(e)) is None:
        return
    heads, bias, rule, right = alibi
    power = 1 << (heads.bit_length() - 1)
    other: SlopesRule = "naive" if rule == "press" else "press"
    wrong: list[tuple[str, Any]] = [
        (
            f"these are the slopes of the convention {other}",
            exact_slopes(heads, max_bias=bias, rule=other),
        ),
        ("the slopes are in reverse order", right[::-1]),
        ("the slopes are sorted; the order of heads matters", np.sort(right)[::-1]),
        (
            "the exponents start at 0, not at 1 (the first slope is 1)",
            2.0 ** (-bias * np.arange(heads) / heads),
        ),
    ]
    if e.form == "scores":  # for the form slopes, values are rounded instead
        wrong += [(f"the slopes were rounded to {x}", round_to_half(right, x)) for x in HALVES]
    if power < heads:
        next_power = exact_slopes(2 * power, max_bias=bias, rule="press")
        text = f"these are the first {heads} slopes of {2 * power} heads, the next power of two"
        wrong.append((text, next_power[:heads]))
    for text, slopes in wrong:
        yield _with_slopes(e, text, slopes, right)


def _solved_slopes(e: Expected) -> Iterator[Change]:
    """Yield changes to slopes with another largest bias, or to some slopes of more heads."""
    if (alibi := _alibi_slopes(e)) is None:
        return
    heads, bias, rule, right = alibi
    if e.form == "slopes":
        allowed = float(e.allowed(right)[0] / abs(right[0]))
        for number, other, expected in rules_of(e.found.tolist(), allowed):
            convention = "" if other == rule else f" --convention {other}"
            text = f"these are the slopes of --max-bias {as_text(number)}{convention}"
            yield _with_slopes(e, text, expected, right)
    power = 1 << (heads.bit_length() - 1)
    for more in _MORE_HEADS:
        if more > heads and not power < heads < more == 2 * power:
            every = exact_slopes(more, max_bias=bias, rule=rule)
            for first in (0, *range(heads, more - heads + 1, heads)):
                text = f"these are the slopes of heads {first} to {first + heads - 1} of {more}"
                change = _with_slopes(e, text, every[first : first + heads], right)
                yield replace(change, code=BugCode.HEADS)


def _with_slopes(e: Expected, text: str, slopes: Any, right: Reals) -> Change:
    """Return a change that replaces the slopes of heads."""
    ratios = np.asarray(slopes) / right
    return multiplied(text, ratios if e.form == "slopes" else e.select_heads(ratios)[:, None, None])


def _coarse_frequencies(e: Expected) -> Iterator[Change]:
    for half in HALVES if e.is_waves else ():
        yield Change(
            f"the frequencies were rounded to {half}", rates=partial(round_to_half, dtype=half)
        )


BUGS = (
    KnownBug(
        BugCode.SLOPES,
        _slope_rules,
        "use the slopes that posenc alibi-slopes prints",
        f"{GITHUB}paiml/aprender/pull/2143, {GITHUB}ml-explore/mlx/pull/3071, "
        f"{GITHUB}huggingface/transformers (Falcon's build_alibi_tensor)",
        ("slopes", "scores"),
    ),
    KnownBug(
        BugCode.SLOPES,
        _solved_slopes,
        "use the slopes that posenc alibi-slopes prints",
        f"{GITHUB}NVIDIA/TensorRT-LLM/pull/1611",
        ("slopes", "scores"),
        solves=True,
    ),
    KnownBug(
        BugCode.PARAMETER,
        _other_parameters,
        "use the reference's value",
        f"{GITHUB}TransformerLensOrg/TransformerLens/pull/1681, "
        f"{GITHUB}NVIDIA/TensorRT/issues/3370, {GITHUB}huggingface/diffusers/pull/1369",
        ("rows", "scores", "slopes", "buckets"),
    ),
    KnownBug(
        BugCode.FREQUENCY_RULE,
        _other_exponents,
        "use the reference's exponent, the same for sin and cos of a pair",
        f"{GITHUB}jadore801120/attention-is-all-you-need-pytorch/issues/32, "
        f"{GITHUB}zju3dv/LoFTR/issues/41, {GITHUB}goodfire-ai/spd/pull/88",
    ),
    KnownBug(
        BugCode.BASE,
        _other_bases,
        "use the reference's base",
        f"{GITHUB}maxjcohen/transformer/issues/62",
        examples=_usual_bases,
    ),
    KnownBug(
        BugCode.BUCKETS,
        _t5_rules,
        "clamp each bucket to the last one of its direction (before or after the query)",
        f"{GITHUB}huggingface/candle/issues/1312",
        ("buckets",),
    ),
    KnownBug(
        BugCode.INV_FREQ_PRECISION,
        _coarse_frequencies,
        "keep frequencies in float32, even if the model is cast to half precision",
        f"{GITHUB}wfondrie/depthcharge/pull/82",
    ),
)
"""Other settings of a scheme, and other rules for its numbers."""
