"""Resolve a Hugging Face config.json to schemes, each value with its source.

A config is read as transformers 5 reads it. ``resolve`` finds the text model
(:mod:`~posenc_cli.configs.text_models`) and calls its family's reader:
:mod:`~posenc_cli.configs.rope` for rotary families, :mod:`~posenc_cli.configs.nonrotary` or
:mod:`~posenc_cli.configs.vision` for others. For another runtime, ``engines.runtimes.adjust``
changes the layers to what that runtime reads, with a warning for each difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.configs import families, nonrotary, vision
from posenc_cli.configs.config_file import (
    FILE,
    check_format,
    is_drafter,
    note_drafter,
    read_config,
)
from posenc_cli.configs.keys import FamilyKeys, Keys
from posenc_cli.configs.resolved import (
    BIAS_TABLES,
    TRANSFORMERS,
    Departure,
    Layers,
    Notes,
    Resolved,
    Sourced,
    check_values,
)
from posenc_cli.configs.rope import rope_layers
from posenc_cli.configs.rope_rules import MAGNITUDE, magnitude, softmax_multiplier
from posenc_cli.configs.scores import with_scores, without_window
from posenc_cli.configs.text_models import (
    KEY,
    SAME_CODE,
    TextModel,
    classes,
    is_alike,
    is_foreign,
    named_classes,
    text_model,
)
from posenc_cli.configs.unread import note_unread
from posenc_cli.errors import InvalidInput, abbreviated, quoted_name
from posenc_cli.files.gguf import GGUFHeader
from posenc_cli.numerics import exact
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from posenc_cli.configs.rope_objects import RopeObject

__all__ = [
    "Layers",
    "Resolved",
    "Sourced",
    "override",
    "read_config",
    "resolve",
    "resolve_with",
]


def resolve(
    config: Mapping[str, Any] | GGUFHeader,
    *,
    runtime: str = TRANSFORMERS,
    name: str = FILE,
    converted: bool = True,
) -> Resolved:
    """Resolve a config to schemes of the catalogue.

    ``runtime`` is the program whose reading is returned, and ``name`` is the config's name in
    errors. A GGUF file is read as llama.cpp reads it. Without ``converted``, changes by llama.cpp's
    converter are left out.

    Raises: InvalidInput, naming the key, for a contradiction, a missing value, or an encoding
    without a scheme.

    >>> config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}
    >>> resolve(config).layer().params["base"]
    Sourced(value=10000.0, source='default of llama')
    """
    if isinstance(config, GGUFHeader):
        from posenc_cli.configs.gguf.gguf_model import GGUFModel

        if runtime not in (TRANSFORMERS, "llama.cpp"):
            raise InvalidInput(
                f"--as {runtime}: {config.name} is a GGUF file, which only llama.cpp reads"
            )
        return GGUFModel(config).resolved()
    top, notes = Keys(config, name=name if name.isprintable() else quoted_name(name)), Notes()
    if _is_diffusers(top):
        return _diffusers(top, runtime, notes)
    check_format(top.name, top.values)
    note_drafter(top, notes)
    model = text_model(top, notes)
    ropes: Iterable[tuple[Layers, RopeObject | None]]
    if model.family is not None:
        own = runtime == TRANSFORMERS and model.family.model_type in families.names()
        ropes = rope_layers(FamilyKeys(model.keys, model.family, notes, by_own_class=own))
    else:
        ropes = [
            (group, None)
            for group in _with_checked_values(top.name, _layers_without_rope(model, notes))
        ]
    ropes = [(with_scores(group, model, rope), rope) for group, rope in ropes]
    if not runtime.startswith(TRANSFORMERS) and converted:
        notes.windows_unread = any("window" in name for group, _ in ropes for name in group.derived)
        ropes = [(without_window(group), rope) for group, rope in ropes]
    layers = tuple(group for group, _ in ropes)
    _note_other_classes(top, model, layers, notes)
    departures: tuple[Departure, ...] = ()
    if runtime != TRANSFORMERS:
        outer = top.values.get("model_type")
        found = [*_layers_as(runtime, model, ropes, outer=outer, converted=converted)]
        layers = tuple(group for group, _, _ in found)
        departures = tuple(dict.fromkeys(each for _, reasons, _ in found for each in reasons))
        notes.mark_transformers_readings(path for _, _, read in found for path in read)
        notes.warnings += [departure.text() for departure in departures]
    unread = note_unread(top, model, layers, notes)
    return notes.resolved(model.model_type, layers, unread, departures=departures, config=config)


def _is_diffusers(top: Keys) -> bool:
    """Return whether a config names a class of diffusers, and no model type of transformers.

    Wan's first files have the model_type "t2v" beside _diffusers_version.
    """
    return top.has("_class_name") and (top.has("_diffusers_version") or not top.has("model_type"))


def _diffusers(top: Keys, runtime: str, notes: Notes) -> Resolved:
    """Resolve a config of diffusers."""
    from posenc_cli.configs import diffusion

    if runtime != TRANSFORMERS:
        raise InvalidInput(
            f"--as {runtime}: {top.name} is a diffusers config, which {runtime} does not read"
        )
    class_name, layers = diffusion.layers(top, notes)
    checked = [*_with_checked_values(top.name, layers)]
    if unread := tuple(top.unread()):
        notes.warnings.append(f"nothing read {', '.join(unread)}")
    return notes.resolved(class_name, checked, unread, noun="class")


def _with_checked_values(name: str, layers: Iterable[Layers]) -> Iterator[Layers]:
    """Yield layers whose parameters their schemes accept.

    Raises: InvalidInput for other parameters.
    """
    for group in [*layers]:
        check_values(name, group.scheme, group.params)
        yield group


def _layers_as(
    runtime: str,
    model: TextModel,
    layers: Iterable[tuple[Layers, RopeObject | None]],
    *,
    outer: object,
    converted: bool,
) -> Iterator[tuple[Layers, tuple[Departure, ...], frozenset[str]]]:
    """Yield layers as another runtime reads them, the differences, and the paths of their keys.

    ``outer`` is the whole model's type.

    Raises: InvalidInput if the runtime's reading is not known, or it refuses the config.
    """
    from posenc_cli.configs.engines import runtimes

    runtimes.find(runtime).check_around(outer)
    for group, rope in layers:
        other, reasons, read = runtimes.adjust(
            group, rope, model, runtime=runtime, converted=converted
        )
        try:
            check_values(model.keys.name, other.scheme, other.params)
        except InvalidInput as error:
            raise InvalidInput(f"--as {runtime}: {error.message}") from error
        yield _with_derived_values(other), reasons, read


def override(layers: Layers, given: Mapping[str, object]) -> Layers:
    """Return layers with parameters from the command line in place of the config's.

    Raises: InvalidInput if the scheme has no such parameter, or rejects the value.
    """
    scheme = catalogue.find(layers.scheme)
    bound = scheme.bind({**layers.values(), **given})
    named = map(scheme.parameter_named, given)
    params = {name: Sourced(bound.params[name], "command line") for name in named}
    return _with_derived_values(replace(layers, params={**layers.params, **params}))


def resolve_with(
    given: Mapping[str, object],
    config: Mapping[str, Any] | GGUFHeader,
    *,
    runtime: str = TRANSFORMERS,
    name: str = FILE,
) -> Resolved:
    """Resolve a config with the parameters ``given`` in place of its own.

    Raises: InvalidInput.
    """
    resolved = resolve(config, runtime=runtime, name=name)
    layers = [override(kind, given) if given else kind for kind in resolved.layers]
    return replace(resolved, layers=tuple(map(_with_rotary_dim, layers)))


def _with_derived_values(layers: Layers) -> Layers:
    """Return layers whose derived values follow from their current parameters."""
    derived = {name: value for name, value in layers.derived.items() if name not in MAGNITUDE}
    if "head_dim" in derived and "dim" in layers.params:
        derived["head_dim"] = layers.params["dim"]
    factor, over_all = (layers.params.get(name) for name in ("factor", "mscale_all_dim"))
    if "softmax_multiplier" in derived and factor is not None and over_all is not None:
        derived["softmax_multiplier"] = softmax_multiplier(factor.value, over_all.value)
    return replace(layers, derived={**derived, **magnitude(layers.scheme, layers.params)})


def _with_rotary_dim(layers: Layers) -> Layers:
    """Return layers with their rotary dim: two dimensions for each pair whose frequency is not 0.

    >>> config = {"model_type": "gemma4_text", "num_hidden_layers": 6}
    >>> _with_rotary_dim(resolve(config).layer("full_attention")).derived["rotated"].value
    128
    """
    scheme = catalogue.find(layers.scheme)
    waves = scheme.bind(layers.values()).content.waves
    if waves is None or scheme.kind != "rotary" or "head_dim" not in layers.derived:
        return layers
    pairs = sum(frequency != 0 for frequency in waves.frequencies(exact))
    head, rest = layers.derived["head_dim"], layers.derived
    rotated = Sourced(2 * pairs, "derived: 2 × the pairs whose frequency is not 0")
    return replace(layers, derived={"head_dim": head, "rotated": rotated, **rest})


def _note_other_classes(
    top: Keys, model: TextModel, layers: Sequence[Layers], notes: Notes
) -> None:
    """Warn of a class of another family, and say whether the model type is read differently."""
    text, model_type = model.keys, model.model_type
    stated = (model_type, top.values.get("model_type"), text.values.get("model_type"))
    own = [SAME_CODE.get(name, name) for name in stated if isinstance(name, str)]
    for class_ in (*named_classes(top), *(() if text is top else named_classes(text))):
        if any(is_alike(class_.model_type, name) for name in own):
            continue
        try:
            other = resolve({**text.values, "model_type": class_.model_type, KEY: None})
        except InvalidInput:
            alike = False
        else:
            alike = _encodings(other.layers) == _encodings(layers)
        if alike:
            notes.warnings.append(
                f"{class_.text()} is a class of {class_.model_type}, not of model type "
                f"{model_type}: both are read the same here"
            )
        else:
            notes.doubt(
                class_.source,
                f"{class_.text()} is a class of {class_.model_type}, which differs from model type "
                f"{model_type}: transformers and posenc go by the model type, and engines that go "
                "by the class run another model",
                headline=True,
            )
    if not is_drafter(top.values) and (model.family is None or model.family.known):
        _note_unknown_classes(top, model, own, notes)


def _note_unknown_classes(top: Keys, model: TextModel, own: Sequence[str], notes: Notes) -> None:
    """Warn of a class that posenc does not know to belong to the model type."""
    text, model_type = model.keys, model.model_type
    # a model builds its text model by model type, and ignores the text model's class
    built = text is top or families.container(str(top.values.get("model_type"))) is not None
    parts = (top,) if built else (top, text)
    for part in parts:
        for each in classes(part):
            if is_foreign(each, own):
                notes.doubt(
                    each.source,
                    f"{each.text()} is not a class of {model_type} that posenc knows: it is read "
                    f"as transformers' {model_type}, but {abbreviated(each.name)} may be another "
                    "model",
                    headline=True,
                )


def _encodings(layers: Iterable[Layers]) -> list[tuple[object, ...]]:
    """Return the encodings of layers, without their names and sources."""
    found = [(group, group.derived.get(BIAS_TABLES)) for group in layers]
    return [
        (group.layers, group.scheme, group.values(), tables and tables.value)
        for group, tables in found
    ]


def _layers_without_rope(model: TextModel, notes: Notes) -> Iterable[Layers]:
    keys, model_type, container = model.keys, model.model_type, model.container
    if model_type in vision.FAMILIES:
        return vision.layers(keys, model_type, notes)
    family = nonrotary.FAMILIES.get(model_type)
    if family is not None:
        defaults = container.defaults if container is not None else {}
        owner = container.model_type if container is not None and defaults else model_type
        return nonrotary.Reader(keys, owner, family, notes, defaults).layers()
    rotary = families.rotary(model_type)
    hidden = keys.count("hidden_size")
    if hidden is None and rotary is not None:
        hidden = Sourced(rotary.defaults["hidden_size"], f"default of {model_type}")
    return [Layers(None, (), "nope", {"dim": hidden} if hidden else {})]
