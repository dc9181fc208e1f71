"""Find the text model in a config: its keys, and the family that reads them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from posenc_cli.configs import families, nonrotary, vision
from posenc_cli.configs.config_file import LAYER
from posenc_cli.configs.families import refusals
from posenc_cli.configs.layer_types import LONGEST_NAME
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.configs.keys import Keys
    from posenc_cli.configs.resolved import Notes


KEY = "architectures"
_WHAT_FOR = r"(For[A-Z]\w*|(LMHead|DoubleHeads|WithLMHead|MT|Encoder|Text|PreTrained)*Model\w*)$"
"""The end of a class name: the task of the model, not its family."""

_ALIKE_LETTERS = 4
"""Equal first letters that relate a class to a model type: HunYuanDenseV1, hunyuan_v1_dense."""


class Named(Record):
    """A class name in a config: its path, and the model type that it belongs to."""

    source: str
    name: str
    model_type: str

    def text(self) -> str:
        """Return the path and the name for a message."""
        return f"{self.source} {abbreviated(self.name)}"


def family_of(name: str) -> str | None:
    """Return the model type that a class belongs to; None if transformers has no such class.

    >>> family_of("DeepseekV4ForCausalLM"), family_of("GPT2LMHeadModel"), family_of("MyModel")
    ('deepseek_v4', 'gpt2', None)
    """
    return _model_types().get(_plain(re.sub(_WHAT_FOR, "", name)))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]", "", name).lower()


@cache
def _model_types() -> Mapping[str, str]:
    """Return every model type of transformers, by its name in plain letters."""
    known = (
        *families.names("others"),
        *families.names("containers"),
        *families.names(),
        *families.remotes(),
    )
    read = (*nonrotary.FAMILIES, *vision.FAMILIES, *refusals())
    return {_plain(name): name for name in (*known, *read)}


def classes(keys: Keys) -> Iterator[Named]:
    """Yield the classes of a config; ``model_type`` is empty for unknown classes.

    Raises: InvalidInput if architectures is not a list of texts.
    """
    listed = keys.texts(KEY)
    for i, name in enumerate(listed.value if listed else ()):
        yield Named(f"{keys.path(KEY)}.{i}", name, family_of(name) or "")


def named_classes(keys: Keys) -> Iterator[Named]:
    """Return the known classes of a config.

    Raises: InvalidInput if architectures is not a list of texts.
    """
    return (class_ for class_ in classes(keys) if class_.model_type)


def is_foreign(class_: Named, own: Sequence[str]) -> bool:
    """Return whether a class is unknown and resembles none of the model types ``own``."""
    initials = ["".join(word[:1] for word in re.split("[-_]", name)) for name in own]
    stem = _plain(re.sub(_WHAT_FOR, "", class_.name))
    alike = any(
        stem[:_ALIKE_LETTERS] == name[:_ALIKE_LETTERS] or stem.startswith(name) or stem in name
        for name in map(_plain, own)
    )
    return not class_.model_type and not alike and stem not in initials


def is_alike(one: str, other: str) -> bool:
    """Return whether two model types are equal, or one is the text model of the other.

    >>> is_alike("gemma3", "gemma3_text"), is_alike("llama", "mistral")
    (True, False)
    """
    texts = {one, families.text_model_type(one)} & {other, families.text_model_type(other)}
    return bool(texts - {None}) or f"{one}_text" == other or f"{other}_text" == one


def _substitute_class(model_type: str, keys: Keys) -> Named | None:
    """Return the class by which to read an unknown model type; None if no class is known.

    Raises: InvalidInput if the classes belong to different families.
    """
    classes = list(named_classes(keys))
    for other in classes[1:]:
        if not is_alike(other.model_type, classes[0].model_type):
            raise InvalidInput(
                f"{keys.name}: model type {abbreviated(model_type)} is unknown, and "
                f"{classes[0].text()} and {other.text()} are of different families",
                hint="in a copy of the file, keep the class that is meant",
            )
    return classes[0] if classes else None


SAME_CODE = {"kimi_k2": "deepseek_v3", "exaone4_5_text": "exaone4"}
"""Model types with the code of another, as in transformers' Kimi K2.5 and EXAONE 4.5."""
_SECTIONS = (
    *("text_config", "llm_config", "language_config", "text_encoder", "decoder", "generator"),
    LAYER,
)
"""Sections in which multimodal models keep their text model."""
_OUTER_SECTIONS = ("vlm_config", "thinker_config")
"""Sections in which models of several parts keep the part that has the text model."""
_OWN_CODE_SECTIONS = ("llm_config", "language_config")
"""Sections of models with their own code; transformers reads only that of unlimited_ocr."""
_OLDER_NAMES = {"RefinedWeb": "falcon", "RefinedWebModel": "falcon"}
"""transformers' names of model types in older files."""
_TEXT_KEYS = (
    *("hidden_size", "num_attention_heads", "num_hidden_layers", "head_dim"),
    *("max_position_embeddings", "rope_theta", "rope_scaling", "rope_parameters"),
)
"""Keys of a text model that concern positions."""
_ROPE_KEYS = (
    *("rope_theta", "rope_scaling", "rope_parameters"),
    *("rotary_dim", "rotary_pct", "rotary_emb_base"),
)
"""Keys that show that an unknown model type uses RoPE."""


class TextModel(Record):
    """A text model: its model type, its keys, and its family, None if it has no RoPE.

    ``container`` is the model around it, if that model changes its defaults.
    """

    model_type: str
    keys: Keys
    family: families.Rotary | None
    container: families.Container | None


def text_model(top: Keys, notes: Notes) -> TextModel:
    """Return the text model of a config.

    Raises: InvalidInput if there are several, or its model type is not supported.
    """
    stated, keys = _stated_model(top, notes)
    own = top.text("model_type")
    if own is not None and own.value in SAME_CODE:
        notes.warnings.append(
            f"model type {own.value} is read as {SAME_CODE[own.value]}, whose code it shares"
        )
    container = _container(top, keys)
    model_type = _known_model_type(stated, keys, notes)
    family = _rotary_family(model_type, keys, notes)
    if family is not None and model_type != stated:
        family = replace(family, any_names=True)
    if family is not None and container is not None:
        family = container.around(family)
    return TextModel(model_type, keys, family, container)


def _stated_model(top: Keys, notes: Notes) -> tuple[str, Keys]:
    """Return the model type that a config states for its text model, and the keys of that model.

    Raises: InvalidInput if there are several.
    """
    outer = top.text("model_type")
    if outer is None and top.has("model_type"):
        raise top.invalid("model_type", "must be a string")
    for key in _OUTER_SECTIONS:
        around = top.section(key)
        if around is not None:
            return _stated_model(around, notes)
    nested = [key for key in _SECTIONS if isinstance(top.values.get(key), dict)]
    if len(nested) > 1:
        raise InvalidInput(
            f"{top.name} has several text models: {', '.join(nested)}",
            hint="save the one you need as a separate config",
        )
    text = top.section(nested[0]) if nested else None
    stated = outer.value if outer else None
    if nested:
        _check_section(top, stated or "", nested[0])
    if text is None:
        return _checked_model_type(
            top, stated and (families.text_model_type(stated) or stated)
        ), top
    return _checked_model_type(text, _inner_type(text, stated, notes)), text


def _inner_type(text: Keys, outer: str | None, notes: Notes) -> str | None:
    """Return the model type of a nested text model: stated, its container's, or its class's."""
    default = families.text_model_type(outer) if outer else None
    inner = text.text("model_type")
    # transformers ignores the model_type of the text model in these containers
    fixed = families.packaged("rotary.json")["fixed"]
    if inner and outer and default != inner.value and outer in fixed:
        if inner.value != outer:
            notes.warnings.append(
                f"{inner.source} {abbreviated(inner.value)} has no effect: transformers reads the "
                f"text model of {outer} as {default}"
            )
        inner = None
    model_type = inner.value if inner else default
    class_ = next(named_classes(text), None) if model_type is None else None
    if class_ is not None:  # as in DeepSeek-OCR
        notes.doubt(
            "model_type",
            f"{text.path('model_type')} is missing: it is read as {class_.model_type}, whose class "
            f"{class_.text()} is",
            of=notes.defaulted,
            headline=True,
        )
        model_type = class_.model_type
    return model_type


def _check_section(top: Keys, model_type: str, section: str) -> None:
    """Refuse a text model in a section that the model around it does not read."""
    container = families.container(model_type)
    foreign = section in _OWN_CODE_SECTIONS and model_type != "unlimited_ocr"
    place = container and (container.inside or (foreign and "text_config"))
    if container is not None and place:
        raise InvalidInput(
            f"{top.name}: {section}: transformers reads the text model of {model_type} only in "
            f"{place}, and would use its defaults here",
            hint=f"for the text model alone, say model_type {container.text}",
        )


def _checked_model_type(keys: Keys, model_type: str | None) -> str:
    """Return a model type, or the model type whose code it shares.

    Raises: InvalidInput if it is missing, too long or not printable.
    """
    path = f"{keys.name}: {keys.path('model_type')}"
    if model_type is None:
        raise InvalidInput(f"{path} is missing; posenc needs it to read the other keys")
    if not model_type or not model_type.isprintable() or len(model_type) > LONGEST_NAME:
        raise InvalidInput(
            f"{path} {abbreviated(model_type)}: must be a name of 1 to {LONGEST_NAME} printable "
            "characters"
        )
    return SAME_CODE.get(model_type, model_type)


def _known_model_type(model_type: str, keys: Keys, notes: Notes) -> str:
    """Return the model type to read a config as: its own or, if that is unknown, its class's."""
    if families.rotary(model_type) is not None or model_type in families.names("others"):
        return model_type
    class_ = _substitute_class(model_type, keys)
    if class_ is None:
        return model_type
    notes.doubt(
        "model_type",
        f"model type {abbreviated(model_type)} is unknown: it is read as {class_.model_type}, "
        f"whose class {class_.text()} is",
        of=notes.defaulted,
        headline=True,
    )
    return families.text_model_type(class_.model_type) or class_.model_type


def _rotary_family(model_type: str, keys: Keys, notes: Notes) -> families.Rotary | None:
    """Return the rotary family of a model type; an unknown one with RoPE keys is like Llama.

    Raises: InvalidInput for a model type that posenc does not read.
    """
    family = families.rotary(model_type)
    if family is not None:
        remote = families.remotes().get(model_type)
        if remote is not None:
            notes.headlines.append(
                f"transformers has no {model_type}; posenc follows the model's own code "
                f"({remote.evidence})"
            )
        when = family.when
        if when is None:
            return family
        value = keys.get(when["key"])
        if (value.value if value else when["default"]) == when["is"]:
            return family
        if remote is not None:
            raise InvalidInput(f"{keys.name}: {model_type} {remote.otherwise}")
        return None
    if model_type in nonrotary.FAMILIES or model_type in vision.FAMILIES:
        return None
    refusal = refusals().get(model_type)
    if refusal is not None:
        raise InvalidInput(
            f"{keys.name}: {model_type} {refusal['because']}", hint=refusal.get("hint")
        )
    if not any(keys.has(key) for key in _ROPE_KEYS):
        raise _unknown(model_type, keys)
    near = _spelling_hint(model_type)
    notes.doubt(
        "model_type",
        f"model type {abbreviated(model_type)} is unknown: it is read as if it were like Llama"
        f"{'' if near is None else f' ({near})'}",
        of=notes.defaulted,
        headline=True,
    )
    return families.Rotary(model_type, known=False, any_names=True)


def _unknown(model_type: str, keys: Keys) -> InvalidInput:
    """Return the error for an unknown model type without RoPE keys."""
    unread = [*keys.unread()]
    if keys.get("position_embedding_type"):
        unread.append("position_embedding_type")
    reason = (
        f"its keys ({', '.join(unread[:4])}) belong to its own code, which posenc does not read"
        if unread
        else "the config has no RoPE keys"
    )
    return InvalidInput(
        f"{keys.name}: model type {abbreviated(model_type)} is unknown, and {reason}",
        hint=_spelling_hint(model_type) or "use --scheme and --set instead of a config",
    )


def _spelling_hint(model_type: str) -> str | None:
    """Return a hint with the model type that has the same letters and digits, or None.

    Similar letters are no evidence: internlm3 reads other keys than internlm2.

    >>> _spelling_hint("gpt-neox"), _spelling_hint("lama")
    ("transformers calls it 'gpt_neox'", None)
    """
    same = _OLDER_NAMES.get(model_type) or _model_types().get(_plain(model_type))
    return None if same is None else f"transformers calls it {same!r}"


def _container(top: Keys, text: Keys) -> families.Container | None:
    """Return the model around a text model, if it changes the text model's defaults.

    Raises: InvalidInput if the text model's keys are at the top, where nothing reads them.
    """
    outer = top.text("model_type")
    container = families.container(outer.value) if outer else None
    if container is None or text is not top:
        return container if container and container.merged else None
    stray = [key for key in _TEXT_KEYS if top.values.get(key) is not None]
    if stray and not container.flat:
        raise InvalidInput(
            f"{top.name}: {stray[0]}: transformers reads the keys of {container.model_type}'s "
            "text model only in text_config, and would use its defaults here",
            hint=f"for the text model alone, say model_type {container.text}",
        )
    return container
