"""Which engines read one config differently, compared pair by pair.

Engines that agree share a view. They are said to agree only where their rotations were compared,
at every length at which either changes, or are one rule with the same parameters; two that follow
the length for ever are kept apart though no compared length shows a difference.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.comparison.compare import RotationComparison, Side
from posenc_cli.configs import families
from posenc_cli.configs.config import resolve_with
from posenc_cli.configs.engines.runtimes import RUNTIMES, OtherLayers, Runtime, UnknownReading
from posenc_cli.configs.resolved import ALL, TRANSFORMERS, grouped
from posenc_cli.errors import InvalidInput
from posenc_cli.files.gguf import GGUFHeader
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.configs.resolved import Departure, Layers, Resolved

SAME = 1e-12
"""How far frequencies and amplitudes may be apart, relatively, and be the same: what is left where
two formulas for one number are each rounded to float64."""

_SEEING = "mrope"  # its pairs follow several axes, which positions of text alone hide

_STANDS = "they do not both rotate"

COMPARED = ("frequencies", "amplitude", "layout", "softmax-factor")
"""What of two rotations is compared."""


class EngineReading(Record):
    """What an engine makes of a config: its reading, else why there is none.

    The engine is ``traced`` unless its code was not read for this config; ``otherwise`` says that
    it runs the model with other layers rotated than the config says.
    """

    runtime: Runtime
    resolved: Resolved | None
    refusal: str = ""
    traced: bool = True
    otherwise: bool = False

    @property
    def departures(self) -> tuple[Departure, ...]:
        """Where the reading leaves transformers'."""
        return self.resolved.departures if self.resolved else ()


class EngineView(Record):
    """What engines that agree make of some layers: ``layers`` as the first of them has these.

    ``apart`` is how they rotate beside the first view, None of that itself; where they cannot be
    compared, ``why_not`` says why.
    """

    engines: tuple[str, ...]
    layers: Layers
    apart: RotationComparison | None = None
    why_not: str = ""


class LayerViews(Record):
    """The views of the layers of one kind, that of transformers first."""

    layers: Layers
    views: tuple[EngineView, ...]


class EngineViews(Record):
    """What every engine makes of a config, that of transformers first."""

    readings: tuple[EngineReading, ...]
    kinds: tuple[LayerViews, ...]

    @property
    def own(self) -> Resolved:
        """What transformers makes of it, or posenc where that has no such model type."""
        resolved = self.readings[0].resolved
        assert resolved is not None
        return resolved

    @property
    def agree(self) -> bool | None:
        """Whether all engines that read it make the same of it; None where one alone does."""
        if any(reading.otherwise for reading in self.readings):
            return False
        if sum(reading.resolved is not None for reading in self.readings) == 1:
            return None
        return all(len(kind.views) == 1 for kind in self.kinds)


def engine_views(
    config: Mapping[str, Any] | GGUFHeader, *, name: str, given: Mapping[str, object]
) -> EngineViews:
    """What every engine makes of a config, with the parameters ``given`` in place of its own.

    Raises: InvalidInput where transformers cannot read it, or one engine alone could.
    """
    if isinstance(config, GGUFHeader):
        raise InvalidInput(f"--as {ALL}: {name} is a GGUF file, which only llama.cpp reads")
    own = resolve_with(given, config, name=name)
    if own.noun == "class":
        raise InvalidInput(
            f"--as {ALL}: {name} is a diffusers config, which none of these engines reads"
        )
    readings = [EngineReading(_first(own), own)]
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
    return EngineViews(tuple(readings), tuple(_kinds(readings)))


def _first(own: Resolved) -> Runtime:
    """Whose reading posenc's own is: transformers', unless that has no such model type."""
    if own.model_type in families.remotes():
        return Runtime("the model's own code", "as posenc read it", {})
    if "model_type" in own.defaulted:
        return Runtime("posenc", "as assumed", {})
    return RUNTIMES[TRANSFORMERS]


def _kinds(readings: Sequence[EngineReading]) -> Iterator[LayerViews]:
    """The views of each kind of layers, which every reading has in the same order."""
    having = [(each.runtime.name, each.resolved.layers) for each in readings if each.resolved]
    for index, layers in enumerate(having[0][1]):
        own = [EngineView((engine,), kinds[index]) for engine, kinds in having]
        groups = grouped(own, _agree)
        views = (_view(own[0], alike) for alike in groups)
        yield LayerViews(layers, tuple(views))


def _agree(view: EngineView, other: EngineView) -> bool:
    """Whether layers are the same as a view's: as was compared, at every length that matters."""
    apart = _apart(view, other)
    if isinstance(apart, str):
        return apart == _STANDS and view.layers.same_encoding(other.layers)
    return apart.ok and not apart.goes_on


def _apart(view: EngineView, other: EngineView) -> RotationComparison | str:
    """How layers rotate beside a view's, else why the two cannot be compared."""
    if (view.layers.scheme == _SEEING) != (other.layers.scheme == _SEEING):
        return "one of the two follows three axes"
    if not (view.layers.is_rotary and other.layers.is_rotary):
        return _STANDS
    try:
        return RotationComparison.of((_side(view), _side(other)), SAME)
    except InvalidInput as error:
        return error.message


def _view(first: EngineView, alike: Sequence[EngineView]) -> EngineView:
    """The view of engines that agree, compared with the first."""
    own = replace(alike[0], engines=tuple(each.engines[0] for each in alike))
    if alike[0] is first:
        return own
    apart = _apart(first, alike[0])
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
