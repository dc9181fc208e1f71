"""Find the engines that read one config differently, compared pair by pair.

Engines that agree share a view. They agree only if their rotations were compared at every length at
which one changes, or if they apply one rule with the same parameters. Two engines that depend on
the length without end stay separate, even if no compared length shows a difference.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posenc_cli import catalogue
from posenc_cli.comparison.compare import RotationComparison, Side
from posenc_cli.configs import families
from posenc_cli.configs.config import resolve_with
from posenc_cli.configs.engines.runtimes import RUNTIMES, OtherLayers, Runtime, UnknownReading
from posenc_cli.configs.resolved import ALL, TRANSFORMERS, Departure, Layers, Resolved, grouped
from posenc_cli.errors import InvalidInput
from posenc_cli.files.gguf import GGUFHeader
from posenc_cli.records import Record, replace

SAME = 1e-12
"""Relative difference of equal frequencies or amplitudes: two formulas for one number are each
rounded to float64."""

_SEVERAL_AXES = "mrope"  # its pairs follow several axes, which text positions do not show

_NOT_BOTH_ROTATE = "only one of them rotates"

COMPARED = ("frequencies", "amplitude", "layout", "softmax-factor")
"""The compared parts of two rotations."""


class EngineReading(Record):
    """An engine's reading of a config, or the reason why it has none.

    ``traced`` is false if the engine's code was not read for this config. ``otherwise`` is true if
    it rotates other layers than the config says.
    """

    runtime: Runtime
    resolved: Resolved | None
    refusal: str = ""
    traced: bool = True
    otherwise: bool = False

    @property
    def departures(self) -> tuple[Departure, ...]:
        """The differences between its reading and that of transformers."""
        return self.resolved.departures if self.resolved else ()


class EngineView(Record):
    """The common reading of some layers by engines that agree.

    ``layers`` is the first engine's reading. ``apart`` compares its rotation with the first view's,
    and is None for the first view. ``why_not`` says why they cannot be compared.
    """

    engines: tuple[str, ...]
    layers: Layers
    apart: RotationComparison | None = None
    why_not: str = ""


class LayerViews(Record):
    """The views of one kind of layers, that of transformers first."""

    layers: Layers
    views: tuple[EngineView, ...]


class EngineViews(Record):
    """Every engine's reading of a config, that of transformers first."""

    readings: tuple[EngineReading, ...]
    kinds: tuple[LayerViews, ...]

    @property
    def own(self) -> Resolved:
        """The reading of transformers, or of posenc if transformers lacks the model type."""
        resolved = self.readings[0].resolved
        assert resolved is not None
        return resolved

    @property
    def agree(self) -> bool | None:
        """Whether all engines that read it agree; None if only one reads it."""
        if any(reading.otherwise for reading in self.readings):
            return False
        if sum(reading.resolved is not None for reading in self.readings) == 1:
            return None
        return all(len(kind.views) == 1 for kind in self.kinds)


def engine_views(
    config: Mapping[str, Any] | GGUFHeader, *, name: str, given: Mapping[str, object]
) -> EngineViews:
    """Return every engine's reading of a config, with the parameters ``given`` replacing its own.

    Raises: InvalidInput if transformers cannot read it, or if only one engine could.
    """
    if isinstance(config, GGUFHeader):
        raise InvalidInput(f"--as {ALL}: {name} is a GGUF file, which only llama.cpp reads")
    own = resolve_with(given, config, name=name)
    if own.noun == "class":
        raise InvalidInput(
            f"--as {ALL}: {name} is a diffusers config, which none of these engines reads"
        )
    readings = [EngineReading(_own_runtime(own), own)]
    for runtime in RUNTIMES.values():
        if runtime.name == TRANSFORMERS:
            continue
        try:
            resolved = resolve_with(given, config, runtime=runtime.name, name=name)
        except InvalidInput as error:
            reason = error.message.removeprefix(f"--as {runtime.name}: ")
            traced = not isinstance(error, UnknownReading)
            otherwise = isinstance(error, OtherLayers)
            readings.append(EngineReading(runtime, None, reason, traced, otherwise))
        else:
            readings.append(EngineReading(runtime, resolved))
    return EngineViews(tuple(readings), tuple(_layer_views(readings)))


def _own_runtime(own: Resolved) -> Runtime:
    """Return the engine that posenc reads as: transformers, unless it lacks the model type."""
    if own.model_type in families.remotes():
        return Runtime("the model's own code", "as posenc read it", {})
    if "model_type" in own.defaulted:
        return Runtime("posenc", "as assumed", {})
    return RUNTIMES[TRANSFORMERS]


def _layer_views(readings: Sequence[EngineReading]) -> Iterator[LayerViews]:
    """Yield the views of each kind of layers; every reading has these kinds in the same order."""
    layers_by_engine = [
        (each.runtime.name, each.resolved.layers) for each in readings if each.resolved
    ]
    for index, layers in enumerate(layers_by_engine[0][1]):
        own = [EngineView((engine,), kinds[index]) for engine, kinds in layers_by_engine]
        groups = grouped(own, _agree)
        views = (_view(own[0], alike) for alike in groups)
        yield LayerViews(layers, tuple(views))


def _agree(view: EngineView, other: EngineView) -> bool:
    """Return whether two views have the same rotation at every length that matters."""
    apart = _rotation_comparison(view, other)
    if isinstance(apart, str):
        return apart == _NOT_BOTH_ROTATE and view.layers.same_encoding(other.layers)
    return apart.ok and not apart.goes_on


def _rotation_comparison(view: EngineView, other: EngineView) -> RotationComparison | str:
    """Return the comparison of two views' rotations, or why they cannot be compared."""
    if (view.layers.scheme == _SEVERAL_AXES) != (other.layers.scheme == _SEVERAL_AXES):
        return "one of the two follows three axes"
    if not (view.layers.is_rotary and other.layers.is_rotary):
        return _NOT_BOTH_ROTATE
    try:
        return RotationComparison.of((_side(view), _side(other)), SAME)
    except InvalidInput as error:
        return error.message


def _view(first: EngineView, alike: Sequence[EngineView]) -> EngineView:
    """Return the view of engines that agree, compared with the first view."""
    own = replace(alike[0], engines=tuple(each.engines[0] for each in alike))
    if alike[0] is first:
        return own
    apart = _rotation_comparison(first, alike[0])
    if isinstance(apart, str):
        return replace(own, why_not=apart)
    return replace(own, apart=apart)


def _side(view: EngineView) -> Side:
    layers = view.layers
    return Side(
        layers.scheme,
        scheme=catalogue.find(layers.scheme),
        given=layers.values(),
        runtime=view.engines[0],
        sources={name: value.source for name, value in layers.params.items()},
        softmax=layers.derived.get("softmax_multiplier"),
    )
