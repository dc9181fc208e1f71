"""Find the models that posenc ships, and the library functions that it knows.

A model is a data file in ``presets/``: the part of its ``config.json`` about positions, with
Hugging Face's keys. ``find`` reads only that file. A library function is a row of
``library_functions.json``, by ``package:function``. ``tools/conventions.py`` ran each function, and
tests compare its values with the row's encoding.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from posenc_cli.configs.families import packaged
from posenc_cli.errors import InvalidInput, abbreviated, nearest, unknown_name
from posenc_cli.records import Record, fresh

_PRESETS = Path(__file__).with_name("presets")
_FUNCTIONS = "library_functions.json"


class Preset(Record):
    """A model: its name and title, the source of its numbers, and its config."""

    name: str
    title: str
    source: str
    config: Mapping[str, Any]


@cache
def names() -> tuple[str, ...]:
    """Return the names of all presets in alphabetical order, without reading the presets.

    >>> "llama-3.1-8b" in names()
    True
    """
    return tuple(sorted(file.stem for file in _PRESETS.glob("*.json")))


def find(name: str) -> Preset:
    """Return the preset of a name.

    Raises: InvalidInput, with the nearest name, if there is none.

    >>> find("gpt2").config["n_positions"]
    1024
    """
    known = names()
    if name not in known:
        raise unknown_name("model", name, known)
    content = json.loads((_PRESETS / f"{name}.json").read_text("utf-8"))
    return Preset(name, content["title"], content["source"], content["config"])


class LibraryFunction(Record):
    """The encoding that a function computes: a table of a scheme, and its first position."""

    scheme: str
    set: Mapping[str, str] = fresh(dict)
    table: str | None = None
    start: int = 0


def function_names() -> tuple[str, ...]:
    """Return the known functions as ``package:function``.

    >>> "diffusers:get_2d_sincos_pos_embed" in function_names()
    True
    """
    return tuple(packaged(_FUNCTIONS))


def find_function(name: str) -> LibraryFunction:
    """Return the encoding that a function computes by default.

    Raises: InvalidInput, with the nearest name or the known names.

    >>> find_function("openai-whisper:sinusoids").set["spacing"]
    'tensor2tensor'
    """
    if name not in packaged(_FUNCTIONS):
        package = name.partition(":")[0]
        own = [known for known in function_names() if known.startswith(f"{package}:")]
        packages = sorted({known.partition(":")[0] for known in function_names()})
        listed = f"posenc knows {', '.join(own)}" if own else nearest(package, packages)
        raise InvalidInput(
            f"--like {abbreviated(name)}: no library's function of that name is known",
            hint=nearest(name, own)
            or listed
            or f"--like PACKAGE lists the functions of a package: {', '.join(packages)}",
        )
    return LibraryFunction(**packaged(_FUNCTIONS)[name])
