"""The families that the class names of ``architectures`` speak of, and how they bear on model_type.

transformers goes by model_type and most other runtimes by the class. Where model_type is unknown,
the class is all that says which code is meant; where both are known and lead to different
encodings, one of them is wrong.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from posenc_cli.configs import families, nonrotary, vision
from posenc_cli.configs.families import refusals
from posenc_cli.errors import InvalidInput, abbreviated
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.configs.keys import Keys

KEY = "architectures"
_WHAT_FOR = re.compile(
    r"(For[A-Z]\w*|(LMHead|DoubleHeads|WithLMHead|MT|Encoder|Text|PreTrained)*Model\w*)$"
)
"""The end of a class name, which says what the model is for, not which it is."""

_ALIKE = 4
"""As many first letters make a class and a model type alike: HunYuanDenseV1, hunyuan_v1_dense."""


class Named(Record):
    """A class name that speaks of a family: where it stands, and the model type of the family."""

    source: str
    name: str
    model_type: str

    def text(self) -> str:
        """Where the name stands, and the name, for a message."""
        return f"{self.source} {abbreviated(self.name)}"


def family_of(name: str) -> str | None:
    """The model type whose class a name is, None where it is no class of transformers.

    >>> family_of("DeepseekV4ForCausalLM"), family_of("GPT2LMHeadModel"), family_of("MyModel")
    ('deepseek_v4', 'gpt2', None)
    """
    return _model_types().get(_plain(_WHAT_FOR.sub("", name)))


def model_type_of(name: str) -> str | None:
    """The model type that a name spells otherwise: with other capitals, dashes or dots.

    >>> model_type_of("Llama"), model_type_of("gpt-neox"), model_type_of("lama")
    ('llama', 'gpt_neox', None)
    """
    return _model_types().get(_plain(name))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]", "", name).lower()


@cache
def _model_types() -> Mapping[str, str]:
    """Every model type of transformers, by its name in plain letters."""
    known = (*families.others(), *families.containers(), *families.names(), *families.remotes())
    read = (*nonrotary.FAMILIES, *vision.FAMILIES, *refusals())
    return {_plain(name): name for name in (*known, *read)}


def named_classes(keys: Keys) -> Iterator[Named]:
    """The classes of a config that speak of a family.

    Raises: InvalidInput where architectures is no list of texts.
    """
    listed = keys.texts(KEY)
    for i, name in enumerate(listed.value if listed else ()):
        model_type = family_of(name)
        if model_type is not None:
            yield Named(f"{keys.path(KEY)}.{i}", name, model_type)


def foreign_classes(keys: Keys, own: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The classes of a config that no model type knows, and that none of ``own`` is named after.

    Where each stands, and its name. Raises: InvalidInput where architectures is no list of texts.
    """
    listed = keys.texts(KEY)
    initials = ["".join(word[:1] for word in re.split("[-_]", name)) for name in own]
    types = list(map(_plain, own))
    for i, name in enumerate(listed.value if listed else ()):
        stem = _plain(_WHAT_FOR.sub("", name))
        alike = any(
            stem[:_ALIKE] == own[:_ALIKE] or stem.startswith(own) or stem in own for own in types
        )
        if not alike and stem not in initials and family_of(name) is None:
            yield f"{keys.path(KEY)}.{i}", name


def is_alike(one: str, other: str) -> bool:
    """Whether two model types are one, or one is the text model within the other.

    >>> is_alike("gemma3", "gemma3_text"), is_alike("llama", "mistral")
    (True, False)
    """
    texts = {one, families.text_model_type(one)} & {other, families.text_model_type(other)}
    return bool(texts - {None}) or f"{one}_text" == other or f"{other}_text" == one


def substitute_class(model_type: str, keys: Keys) -> Named | None:
    """The class that says how to read a model type that nothing is known of.

    Raises: InvalidInput where classes speak of several families.
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
