"""A Hugging Face config.json in, the right schemes out, each value with where it came from.

A config means what transformers 5 makes of it. ``resolve`` finds the text model in it, and its
family's reader does the rest: :mod:`~posenc_cli.models.rope` for rotary families,
:mod:`~posenc_cli.models.nonrotary` for the others. What another runtime makes of the same config
is a change to that: where one is named, :func:`resolve` hands the layers of each type, with the
:class:`~posenc_cli.models.rope.RopeReading` they came from, to ``runtimes.adjusted``, which gives
the layers as that runtime has them, and what to warn of.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.errors import InvalidInput, Unavailable, abbreviated, nearest, quoted_name
from posenc_cli.models import families, nonrotary, vision
from posenc_cli.models.architectures import KEY, is_alike, named, standing_in
from posenc_cli.models.family_keys import FamilyKeys
from posenc_cli.models.keys import Keys, printable
from posenc_cli.models.layer_types import LONGEST_NAME
from posenc_cli.models.resolved import Layers, Notes, Resolved, Sourced, check_values
from posenc_cli.models.rope import rope_layers
from posenc_cli.models.rope_rules import MAGNITUDE, magnitude
from posenc_cli.models.unread import Holding, findings, note_findings
from posenc_cli.numerics import exact
from posenc_cli.records import replace
from posenc_cli.transaction import STANDARD_INPUT, check_name, open_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from posenc_cli.models.rope import RopeReading

__all__ = [
    "Layers",
    "Resolved",
    "Sourced",
    "overridden",
    "read_config",
    "resolve",
    "with_turning_columns",
]

LARGEST_FILE = 8 << 20
_SHORT = 3
TRANSFORMERS = "transformers"
_FILE = "config.json"
_NESTED = ("text_config", "llm_config", "language_config", "text_encoder", "decoder", "generator")
"""Where a model of text and something else keeps its text model."""
_SAME = {"kimi_k2": "deepseek_v3"}
"""Model types that are another's by a name of their own, as transformers' Kimi K2.5 has it."""
_CALLED = {"RefinedWeb": "falcon", "RefinedWebModel": "falcon"}
"""What transformers calls model types of older files."""
_TEXT_KEYS = (
    *("hidden_size", "num_attention_heads", "num_hidden_layers", "head_dim"),
    *("max_position_embeddings", "rope_theta", "rope_scaling", "rope_parameters"),
)
"""Keys of a text model that speak of positions."""
_OTHER_PARTS = ("vision_config", "audio_config", "encoder", "talker_config", "token2wav_config")


def read_config(path: str, *, flag: str | None = "--config") -> Mapping[str, Any]:
    """The JSON object in a file or a pipe, in the config.json of a folder, or in stdin (``-``).

    ``flag`` is the option that errors name, None where the path is an argument.

    Raises: InvalidInput when it holds anything else; Unavailable when it cannot be read.
    """
    where = quoted_name(path) if flag is None else f"{flag} {quoted_name(path)}"
    try:
        # NaN and Infinity, which Python's JSON writes, are refused where a number is read.
        found = json.loads(
            _content(path, where).decode("utf-8-sig"),
            object_pairs_hook=_object,
        )
    except InvalidInput as error:
        raise InvalidInput(error.message.replace("the file", where, 1)) from error
    except RecursionError as error:
        raise InvalidInput(f"{where}: is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where}: is not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise InvalidInput(f"{where}: is no JSON: {error.msg} ({place})") from error
    except ValueError as error:
        raise InvalidInput(f"{where}: holds a number of too many digits") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{where}: must hold a JSON object")
    return found


def _content(path: str, where: str) -> bytes:
    """The bytes of a config file or a pipe; of no device, which may never end."""
    check_name(path)
    try:
        if path == STANDARD_INPUT:
            return _of_allowed_size(open_input(path).read(LARGEST_FILE + 1))
        file = Path(path)
        if file.is_dir():
            file = file / _FILE
            if not file.exists():
                raise Unavailable(f"{where}: is a folder without a {_FILE}")
        mode = file.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            raise InvalidInput("the file: is neither a regular file nor a pipe")
        with open_input(file) as config:
            content = config.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unavailable(f"{where}: {reason}") from error
    return _of_allowed_size(content)


def _of_allowed_size(content: bytes) -> bytes:
    if len(content) > LARGEST_FILE:
        raise InvalidInput(f"the file: is larger than {LARGEST_FILE >> 20} MiB")
    return content


def resolve(
    config: Mapping[str, Any], *, runtime: str = TRANSFORMERS, name: str = _FILE
) -> Resolved:
    """What a config says of positions, in the schemes of the catalogue.

    ``runtime`` reads it as another program does, and ``name`` is how errors call the config.

    Raises: InvalidInput, naming the key, for what contradicts itself, lacks a value, or stands for
    no scheme.

    >>> config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}
    >>> resolve(config).layer().params["base"]
    Sourced(value=10000.0, source='default of llama')
    """
    top = Keys(config, name=name if name.isprintable() else quoted_name(name))
    stated, text = _text_model(top)
    notes = Notes()
    container = _container(top, text)
    model_type = _heeded(stated, text, notes)
    family = _rotary_family(model_type, text, notes)
    if family is not None and model_type != stated:
        family = replace(family, any_names=True)
    readings: Sequence[RopeReading | None]
    if family is None:
        layers = tuple(_not_rotary(text, model_type, notes, container))
        readings = [None] * len(layers)
        for each in layers:
            check_values(text.name, each.scheme, each.params)
    else:
        within = container.around(family) if container else family
        layers, readings = zip(*rope_layers(FamilyKeys(text, within, notes)), strict=True)
    _note_other_classes(top, text, model_type, layers, notes)
    if runtime != TRANSFORMERS:
        layers = _layers_as(runtime, layers, readings, text, notes)
    paths = tuple(top.unread(skipped=_skipped(top, text)))
    found = tuple(findings(top, paths, Holding(layers, text)))
    note_findings(found, family, notes, own_code=_own_code(top))
    return Resolved(
        model_type,
        layers,
        unread=tuple(each if isinstance(each, str) else each.source for each in found),
        warnings=(*notes.headlines, *notes.warnings),
        defaulted=tuple(notes.defaulted),
        contradicted=tuple(notes.contradicted),
        headlines=tuple(notes.headlines),
    )


def _layers_as(
    runtime: str,
    layers: Sequence[Layers],
    readings: Sequence[RopeReading | None],
    text: Keys,
    notes: Notes,
) -> tuple[Layers, ...]:
    """Layers as another runtime has them.

    Raises: InvalidInput where it is not known what the runtime does, or it cannot.
    """
    from posenc_cli.models import runtimes

    changed = []
    for original, reading in zip(layers, readings, strict=True):
        other, warnings = runtimes.adjusted(original, reading, runtime=runtime)
        check_values(text.name, other.scheme, other.params)
        changed.append(_with_magnitude(other))
        for warning in warnings:
            notes.warn(warning)
    return tuple(changed)


def overridden(layers: Layers, given: Mapping[str, object]) -> Layers:
    """Layers with parameters that a user gave in place of what the config says.

    Raises: InvalidInput where their scheme has no such parameter, or cannot take the value.
    """
    bound = catalogue.find(layers.scheme).bind({**layers.values(), **given})
    said = {name: Sourced(bound.params[name], "command line") for name in given}
    return _with_magnitude(replace(layers, params={**layers.params, **said}))


def _with_magnitude(layers: Layers) -> Layers:
    """Layers whose attention factor follows from their parameters as they are now."""
    kept = {name: each for name, each in layers.derived.items() if name not in MAGNITUDE}
    if "head_dim" in kept and "dim" in layers.params:
        kept["head_dim"] = layers.params["dim"]
    return replace(layers, derived={**kept, **magnitude(layers.scheme, layers.params)})


def with_turning_columns(layers: Layers) -> Layers:
    """Layers with how many columns of a head turn: two for each pair whose frequency is not 0.

    >>> config = {"model_type": "gemma4_text", "num_hidden_layers": 6}
    >>> with_turning_columns(resolve(config).layer("full_attention")).derived["rotated"].value
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


def _own_code(top: Keys) -> str | None:
    """The file of the model's own code that a config names in auto_map, None where it names none.

    >>> _own_code(Keys({"auto_map": {"AutoModel": "modeling_x.XModel"}}, name="config.json"))
    'modeling_x.py (auto_map)'
    """
    named = top.values.get("auto_map")
    if not isinstance(named, dict):
        return None
    classes = [each for key, each in named.items() if isinstance(each, str) and "Config" not in key]
    if not classes:
        return None
    return f"{printable(classes[0].rpartition('--')[2].partition('.')[0])}.py (auto_map)"


def _skipped(top: Keys, text: Keys) -> tuple[str, ...]:
    """The parts of a config that are other models than the text's."""
    if text is top:
        return ()
    return tuple(
        key
        for key in top.values
        if key.endswith("_config") and not text.prefix.startswith(f"{key}.")
    ) + tuple(key for key in _OTHER_PARTS if not text.prefix.startswith(f"{key}."))


def _text_model(top: Keys) -> tuple[str, Keys]:
    """The model type, and the keys, of the text model in a config.

    Raises: InvalidInput where there are several.
    """
    outer = top.text("model_type")
    if outer is None and top.has("model_type"):
        raise top.invalid("model_type", "must be a text")
    nested = [key for key in _NESTED if isinstance(top.values.get(key), dict)]
    thinker = top.values.get("thinker_config")
    if isinstance(thinker, dict) and isinstance(thinker.get("text_config"), dict):
        section = top.section("thinker_config")
        text = section.section("text_config") if section else None
    elif len(nested) > 1:
        raise InvalidInput(
            f"{top.name}: has several text models: {', '.join(nested)}",
            hint="save the one you mean as a config of its own",
        )
    else:
        text = top.section(nested[0]) if nested else None
    default = families.text_model_type(outer.value) if outer else None
    if text is None:
        return _type_of(top, default or (outer.value if outer else None)), top
    inner = text.text("model_type")
    return _type_of(text, inner.value if inner else default), text


def _type_of(keys: Keys, model_type: str | None) -> str:
    if model_type is None:
        raise InvalidInput(
            f"{keys.name}: {keys.path('model_type')} is missing: it says how the rest is meant"
        )
    if not model_type or not model_type.isprintable() or len(model_type) > LONGEST_NAME:
        raise InvalidInput(
            f"{keys.name}: {keys.path('model_type')} {abbreviated(model_type)}: must be a name of "
            f"1 to {LONGEST_NAME} printable characters"
        )
    return _SAME.get(model_type, model_type)


def _is_named(model_type: str) -> bool:
    """Whether posenc or transformers has a model type."""
    read = (nonrotary.FAMILIES, nonrotary.REFUSED, vision.FAMILIES)
    return (
        families.rotary(model_type) is not None
        or any(model_type in each for each in read)
        or families.is_known(model_type)
    )


def _heeded(model_type: str, text: Keys, notes: Notes) -> str:
    """The model type to read a config as: its own or, where that is unknown, its class's.

    Raises: InvalidInput for a class whose family is not read.
    """
    found = None if _is_named(model_type) else standing_in(model_type, text)
    if found is None:
        return model_type
    family = families.rotary(found.model_type)
    if family is not None and family.refused is not None:
        raise InvalidInput(
            f"{text.name}: model type {abbreviated(model_type)} is unknown, and {found.text()} is "
            f"{found.model_type}'s, which {family.refused}"
        )
    notes.headline(
        f"model type {abbreviated(model_type)} is unknown: it is read as {found.model_type}, "
        f"whose class {found.text()} is"
    )
    notes.default("model_type")
    return families.text_model_type(found.model_type) or found.model_type


def _note_other_classes(
    top: Keys, text: Keys, model_type: str, layers: Sequence[Layers], notes: Notes
) -> None:
    """Warn of a class of another family than the model type's, where that is read otherwise."""
    types = (model_type, top.values.get("model_type"), text.values.get("model_type"))
    own = [_SAME.get(each, each) for each in types if isinstance(each, str)]
    for each in (*named(top), *(() if text is top else named(text))):
        if any(is_alike(each.model_type, one) for one in own):
            continue
        try:
            other = resolve({**text.values, "model_type": each.model_type, KEY: None})
        except InvalidInput:
            alike = False
        else:
            alike = _encodings(other.layers) == _encodings(layers)
        if not alike:
            notes.headline(
                f"{each.text()} is a class of {each.model_type}, and model type {model_type} is "
                "read otherwise: transformers goes by the model type, as is done here, and engines "
                "that go by the class run another model"
            )
            notes.contradict(each.source)


def _encodings(layers: Iterable[Layers]) -> list[tuple[object, ...]]:
    """What layers have, whatever they are called and wherever it was read."""
    return [(each.layers, each.scheme, each.values()) for each in layers]


def _rotary_family(model_type: str, text: Keys, notes: Notes) -> families.Rotary | None:
    """The rotary family of a model type; of an unknown one, where its keys speak of rope.

    Raises: InvalidInput for a family that no scheme stands for.
    """
    family = families.rotary(model_type)
    if family is not None:
        if family.refused is not None:
            raise InvalidInput(f"{text.name}: {model_type} {family.refused}")
        when = family.when
        if when is None:
            return family
        value = text.get(when["key"])
        if (value.value if value else when["default"]) == when["is"]:
            return family
        return None
    if any(model_type in each for each in (nonrotary.FAMILIES, nonrotary.REFUSED, vision.FAMILIES)):
        return None
    if families.is_known(model_type):
        raise InvalidInput(f"{text.name}: posenc reads no configs of model type {model_type!r}")
    if not any(text.has(key) for key in ("rope_theta", "rope_scaling", "rope_parameters")) and (
        not any(text.has(key) for key in ("rotary_dim", "rotary_pct", "rotary_emb_base"))
    ):
        raise _unknown(model_type, text)
    near = _nearest(model_type)
    notes.headline(
        f"model type {abbreviated(model_type)} is unknown: it is read as if it were like Llama"
        f"{'' if near is None else f' ({near})'}"
    )
    notes.default("model_type")
    return families.unknown(model_type)


def _unknown(model_type: str, text: Keys) -> InvalidInput:
    """The error for a model type that nothing is known of, nor how its keys are meant."""
    keys = [*text.unread(), *(key for key in ("position_embedding_type",) if text.get(key))]
    said = f"its keys ({', '.join(keys[:4])}) are those of its own code, which is not read"
    return InvalidInput(
        f"{text.name}: model type {abbreviated(model_type)} is unknown, and "
        f"{said if keys else 'no key of the config speaks of rope'}",
        hint=_nearest(model_type) or "--scheme and --set say what a config does not",
    )


def _nearest(model_type: str) -> str | None:
    """A hint at the model type that one may be meant for."""
    if model_type in _CALLED:
        return f"transformers calls it {_CALLED[model_type]!r}"
    known = [*families.names(), *nonrotary.FAMILIES, *vision.FAMILIES]
    return nearest(model_type.lower(), known) if len(model_type) > _SHORT else None


def _container(top: Keys, text: Keys) -> families.Container | None:
    """The model around a text model, where that gives the text model defaults of its own.

    Raises: InvalidInput where the text model's keys stand at the top, and nothing reads them there.
    """
    outer = top.text("model_type")
    found = families.container(outer.value) if outer else None
    if found is None or text is not top:
        return found if found and found.merged else None
    stray = [key for key in _TEXT_KEYS if top.values.get(key) is not None]
    if stray and not found.flat:
        raise InvalidInput(
            f"{top.name}: {stray[0]}: transformers reads the keys of {found.model_type}'s text "
            "model in text_config alone, and would take its defaults here",
            hint=f"for the text model alone, say model_type {found.text}",
        )
    return found


def _not_rotary(
    text: Keys, model_type: str, notes: Notes, container: families.Container | None
) -> Iterable[Layers]:
    """The layers of a model without rope.

    Raises: InvalidInput for one that no scheme stands for.
    """
    if model_type in nonrotary.REFUSED:
        reason, hint = nonrotary.REFUSED[model_type]
        raise InvalidInput(f"{text.name}: {model_type} {reason}; no scheme does", hint=hint)
    if model_type in vision.FAMILIES:
        return vision.layers(text, model_type, notes)
    family = nonrotary.FAMILIES.get(model_type)
    if family is not None:
        if container is not None and container.defaults:
            family = nonrotary.within(family, container.defaults)
            model_type = container.model_type
        return nonrotary.Reader(text, model_type, family, notes).layers()
    rotary = families.rotary(model_type)
    hidden = text.count("hidden_size")
    if hidden is None and rotary is not None:
        hidden = Sourced(rotary.defaults["hidden_size"], f"default of {model_type}")
    return [Layers(None, (), "nope", {"dim": hidden} if hidden else {})]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object each of whose keys stands there once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise InvalidInput(f"the file: the key {abbreviated(twice)} stands there twice")
    return found
