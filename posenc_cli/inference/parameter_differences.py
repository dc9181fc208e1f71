"""What another scheme, or another value of a parameter, means for a reference, in words.

Owns the cause and the message of a scheme with parameters in place of those of the reference, and
which models that posenc ships have such frequencies.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.errors import PosencError
from posenc_cli.formulas.parameters import as_text
from posenc_cli.formulas.rotary import rope
from posenc_cli.inference.candidates import presets_of
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.rules import Alternative, base_of, frequencies_of, number_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.formulas.declare import Scheme
    from posenc_cli.inference.candidates import PresetProposal
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Reals

SHAPE = ("dim", "partial", "layout")
"""Parameters that say which columns turn, not how fast."""
_WIDTHS = 64
"""Columns of which the width of a model is a multiple."""
_READ_OFF = 1e-6
"""Relative: of a base that is read off frequencies in float32."""
_SAME = 1e-9
"""Of a frequency: rules evaluated in float64 that are the same differ by less."""
_FEW_MODELS = 3
"""That a message names."""


def difference(
    reference: Reference, scheme: Scheme, params: Mapping[str, Any]
) -> Alternative | None:
    """What it means if a subject has the frequencies of a scheme with these parameters.

    Parameters that ``params`` leaves out are the scheme's defaults. None where the scheme has no
    frequencies with them.
    """
    own = scheme.build is reference.encoding.bound.scheme.build
    frequencies = frequencies_of(scheme, params, of_position=not own)
    if frequencies is None:
        return None
    if own:
        cause, message = _other_values(reference, params, frequencies)
    elif scheme is rope and base_of(reference) is not None:
        cause, message = Cause.SCALING_MISSING, _without_scaling(reference, float(params["base"]))
    else:
        cause, message = Cause.FREQUENCY_RULE, _other_rule(reference, scheme, params)
    return Alternative(cause, message, frequencies)


def _other_values(
    reference: Reference, params: Mapping[str, Any], frequencies: Reals
) -> tuple[Cause, str]:
    """The parameters of the reference's own scheme whose values make the difference."""
    scheme = reference.encoding.bound.scheme
    values = {name: parameter.default for name, parameter in scheme.parameters.items()} | {**params}
    changed = [
        name
        for name, value in values.items()
        if name not in SHAPE and value is not None and value != reference.params[name]
    ]
    if len(changed) > 1:
        # Of those that only the amplitude shows, frequencies say nothing.
        changed = [
            name
            for name in changed
            if not _same(
                frequencies, frequencies_of(scheme, {**values, name: reference.params[name]})
            )
        ]
    base = base_of(reference)
    texts = []
    for name in sorted(changed, key=lambda name: name != "base"):
        right = base if name == "base" else reference.params[name]
        meaning = f" ({scheme.parameters[name].rules.help})" if isinstance(right, bool) else ""
        origin = ""
        if name == "base" and base is not None:
            origin = base_origin(values[name], base, 2 * frequencies.size)
        texts.append(value_text(name, values[name], right) + meaning + origin)
    cause = Cause.BASE if "base" in changed else Cause.FREQUENCY_RULE
    return cause, ", and ".join(texts)


def value_text(name: str, value: Any, right: Any) -> str:
    """What is said of one parameter that has another value.

    >>> value_text("base", 500000.0, 10000.0), value_text("beta_fast", 16.0, 32.0)
    ('the base is 500000, not 10000', 'beta_fast is 16, not 32')
    """
    article = "the " if name in ("base", "factor") else ""
    return f"{article}{name} is {_shown(value)}, not {_shown(right)}"


def base_origin(base: float, right: float, columns: int) -> str:
    """How a base may come of the right one, in words; empty where nothing known gives it.

    ``columns`` are those that turn: right^(−2i/width) has the base right^(columns/width).

    >>> base_origin(1.333521432163324, 10000.0, 128)
    ', as of exponents over 4096 columns, not 128'
    """
    written = float(f"{base:.3g}") == base  # a number that somebody chose is no ratio
    if not written and min(base, right) > 1 and abs(math.log(base)) > _READ_OFF:
        width = columns * math.log(right) / math.log(base)
        nearest = _WIDTHS * round(width / _WIDTHS)
        if (
            nearest not in (0, columns)
            and abs(math.log(base)) * abs(width / nearest - 1) < _READ_OFF
        ):
            return f", as of exponents over {nearest} columns, not {columns}"
    return ""


def _shown(value: Any) -> str:
    return number_text(value) if isinstance(value, float) else as_text(value)


def _without_scaling(reference: Reference, base: float) -> str:
    right = base_of(reference)
    assert right is not None
    if base == right:
        name = reference.encoding.bound.scheme.name
        return f"the scaling of {name} is not applied: the table is plain base {number_text(base)}"
    return (
        f"the scaling is not applied and the base is {number_text(base)}, not {number_text(right)}"
    )


def _other_rule(reference: Reference, scheme: Scheme, params: Mapping[str, Any]) -> str:
    """A rule that is another scheme's, with what it does not share with the reference."""
    values = {name: parameter.default for name, parameter in scheme.parameters.items()} | {**params}
    needless = reference.encoding.bound.scheme is rope and values.get("factor") is not None
    shown = []
    for name, value in values.items():
        default = scheme.parameters[name].default
        expected = base_of(reference) if name == "base" else reference.params.get(name, default)
        if name in SHAPE or value in (None, expected) or isinstance(value, tuple):
            continue
        if not (needless and name == "factor"):
            shown.append(f", {name} {_shown(value)}")
    if needless:
        factor = number_text(values["factor"])
        applied = f"the scaling of {scheme.name} is applied, factor {factor}{''.join(shown)}"
        return f"{applied}; the reference has none"
    return f"the rule is that of {scheme.name}{''.join(shown)}"


def amplitude_origin(reference: Reference, amplitude: float, precise: float) -> str:
    """With which other parameters the reference's rule has an amplitude, in words; empty for none.

    ``precise`` is by how much it may miss it.
    """
    scheme, params = reference.encoding.bound.scheme, reference.params
    optional = [
        name
        for name, parameter in scheme.parameters.items()
        if parameter.default is None and params.get(name) is not None
    ]
    changes: dict[str, dict[str, Any]] = {
        f"without {' and '.join(names)}": dict.fromkeys(names)
        for count in (1, 2)
        for names in itertools.combinations(optional, count)
    }
    original, factor = params.get("original_max_position_embeddings"), params.get("factor")
    if original and factor:
        longer = {"original_max_position_embeddings": round(original * factor)}
        changes[f"by {round(original * factor)} positions, not {original}"] = longer
    texts = []
    for text, changed in changes.items():
        given = {name: value for name, value in {**params, **changed}.items() if value is not None}
        try:
            with scheme.answerable():
                waves = scheme.bind(given).content.waves
        except (PosencError, ArithmeticError):
            continue
        if waves is not None and abs(float(waves.scale) - amplitude) <= precise:
            texts.append(text)
    for width in dict.fromkeys((reference.head, 2 * reference.pairs)):
        for text, power in (
            (f"1/√{width}, the scale of scores,", -0.5),
            (f"1/∜{width}, the root of the scale of scores,", -0.25),
            (f"√{width}", 0.5),
        ):
            if abs(reference.scale * width**power - amplitude) <= precise:
                texts.append(f"where {text} is multiplied in")
    return f", as {', or '.join(texts)}" if texts else ""


def layer_alternatives(reference: Reference) -> Iterator[Alternative]:
    """The frequencies of other layers of the models whose layers of one type the reference is."""
    if reference.coordinates is not None:
        return
    same = {
        preset.model
        for preset in presets_of(reference.pairs)
        if _same(preset.proposal.frequencies, reference.frequencies)
    }
    others = [preset for preset in presets_of(reference.pairs) if preset.model in same]
    yield from _of_presets(reference, others)


def model_alternatives(reference: Reference) -> Iterator[Alternative]:
    """The frequencies of all models that posenc ships and that have as many."""
    if reference.coordinates is None:
        yield from _of_presets(reference, presets_of(reference.pairs))


def _of_presets(reference: Reference, those: list[PresetProposal]) -> Iterator[Alternative]:
    """An alternative for each set of frequencies that models have, with the names of these."""
    groups: dict[bytes, list[PresetProposal]] = {}
    for preset in those:
        groups.setdefault(preset.proposal.frequencies.tobytes(), []).append(preset)
    for group in groups.values():
        proposal = group[0].proposal
        if _same(proposal.frequencies, reference.frequencies):
            continue
        scheme = catalogue.BUILT_IN[proposal.scheme]
        # Where one scheme stands for what two schemes give alike, the reference's own is said.
        alternative = difference(reference, scheme, proposal.given)
        if alternative is None:
            continue
        names = [
            preset.model if preset.layer_type is None else f"{preset.model} ({preset.layer_type})"
            for preset in group
        ]
        more = len(names) - _FEW_MODELS
        listed = ", ".join(names[:_FEW_MODELS]) + (f" and {more} others" if more > 0 else "")
        message = f"{alternative.message}: the frequencies of {listed}"
        yield Alternative(alternative.cause, message, proposal.frequencies)


def _same(a: Reals, b: Reals | None) -> bool:
    return b is not None and a.shape == b.shape and bool(np.allclose(a, b, rtol=_SAME, atol=0))
