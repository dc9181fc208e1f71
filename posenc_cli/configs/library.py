"""The models that posenc ships: their configs, and where the numbers were read.

Each is a data file in ``presets/``: what of a model's ``config.json`` matters for positions, in
Hugging Face's own keys. Finding one reads that file alone.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import unknown_name
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

_SUFFIX = ".json"


class Preset(Record):
    """A model: what it is called, where its numbers were read, and its config."""

    name: str
    title: str
    source: str
    config: Mapping[str, Any]


@cache
def names() -> tuple[str, ...]:
    """The names of all presets, in alphabetical order; none of them is read.

    >>> "llama-3.1-8b" in names()
    True
    """
    files_ = (file.name for file in _folder().iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files_ if name.endswith(_SUFFIX)))


def find(name: str) -> Preset:
    """The preset of a name.

    Raises: InvalidInput, with the nearest name, when there is none.

    >>> find("gpt2").config["n_positions"]
    1024
    """
    known = names()
    if name not in known:
        raise unknown_name("model", name, known)
    content = json.loads((_folder() / f"{name}{_SUFFIX}").read_text("utf-8"))
    return Preset(name, content["title"], content["source"], content["config"])


def _folder() -> Traversable:
    return files("posenc_cli.configs") / "presets"
