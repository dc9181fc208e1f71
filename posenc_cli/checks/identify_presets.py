"""Which models that posenc ships have a given encoding.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.identify_rules import presets
from posenc_cli.models import library
from posenc_cli.models.config import resolve
from posenc_cli.schemes.declare import Rotation

if TYPE_CHECKING:
    from posenc_cli.schemes.declare import Bound

_EQUAL = 1e-9
_SETTLED = ("seq_len", "layout", "seed", "weights", "std", "max_len", "form", "normalize", "odd")


def equal_models(bound: Bound, *, frequencies_alone: bool) -> tuple[str, ...]:
    """The models whose layers, or one type of them, are encoded as ``bound`` is.

    Of rotary encodings the frequencies and the amplitude count, not how they are written.
    """
    content = bound.content
    if isinstance(content, Rotation):
        if content.waves.coordinates is not None or content.waves.growth is not None:
            return ()
        own = np.asarray(content.waves.frequencies(np), np.float64)
        scale = float(content.waves.scale)
        found: dict[str, list[str | None]] = {}
        for each in presets():
            rotation = each.proposal
            if (
                rotation.frequencies.shape == own.shape
                and np.allclose(rotation.frequencies, own, rtol=_EQUAL, atol=0)
                and (frequencies_alone or abs(rotation.amplitude - scale) <= _EQUAL)
                and rotation.scheme not in ("sinusoidal", "transformer-xl")
            ):
                found.setdefault(each.model, []).append(each.layer_type)
        return tuple(_named(model, types) for model, types in found.items())
    if bound.scheme.name in ("learned", "nope"):
        return ()
    return tuple(
        name
        for name in library.names()
        if any(
            layers.scheme == bound.scheme.name and _same(bound, layers.values())
            for layers in resolve(library.find(name).config, name=name).layers
        )
    )


def _named(model: str, layer_types: list[str | None]) -> str:
    """A model, and which of its layers where not all of them are alike."""
    every = [each.layer_type for each in presets() if each.model == model]
    if len(layer_types) == len(every):
        return model
    return f"{model} ({', '.join(str(each) for each in layer_types)})"


def _same(bound: Bound, given: dict[str, object]) -> bool:
    """Whether a model's parameters are these, as far as an array shows them."""
    full = {**{n: p.default for n, p in bound.scheme.parameters.items()}, **given}
    return all(
        full.get(name) == value for name, value in bound.params.items() if name not in _SETTLED
    )
