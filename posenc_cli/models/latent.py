"""Latent attention, which turns a slice of each head: how wide that is, and what else says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput
from posenc_cli.models.keys import json_text
from posenc_cli.models.resolved import Sourced

if TYPE_CHECKING:
    from posenc_cli.models.rope import RopeReader

SLICE = "qk_rope_head_dim"
REST = "qk_nope_head_dim"
HEAD = "head_dim"


def slice_width(reader: RopeReader) -> Sourced | None:
    """The columns of each head that turn, None where nothing says it.

    Raises: InvalidInput where head_dim, on which transformers builds the rotation of some
    families, says another number.
    """
    text, family = reader.text, reader.family
    text.get(HEAD)
    if family.slice_head == "name" and text.has(HEAD) and not text.has(SLICE):
        return text.count(HEAD)
    found = reader.count(SLICE)
    if found is None or family.slice_head is None:
        return found
    fitting, what = found.value, found.source
    if family.slice_head == "whole":
        rest = text.count(REST, minimum=0)
        rest = rest or Sourced(family.defaults[REST], reader.default_source)
        fitting += rest.value
        what = f"{SLICE} + {REST}"
    head = text.values.get(HEAD, family.defaults.get(HEAD, fitting))
    if head != fitting:
        source = HEAD if text.has(HEAD) else reader.default_source
        raise InvalidInput(
            f"{text.name}: {text.path(HEAD)} {json_text(head)} ({source}): must be {fitting} "
            f"({what}), for transformers builds the rotation of {family.model_type} on it"
        )
    return found
