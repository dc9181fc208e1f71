"""The catalogue: every scheme by name, built in, installed as a plugin, or written by the user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput, abbreviated, described, unknown_name
from posenc_cli.formulas import (
    alibi,
    counting,
    grids,
    growing,
    kernels,
    learned,
    llama3,
    longrope,
    multimodal,
    relative,
    rotary,
    scaled,
    sinusoids,
    yarn,
)
from posenc_cli.formulas.declare import Scheme
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

PLUGIN_GROUP = "posenc.schemes"

BUILT_IN: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        sinusoids.sinusoidal,
        learned.learned,
        counting.integer,
        counting.normalized,
        counting.binary,
        counting.nope,
        grids.sinusoidal_nd,
        rotary.rope,
        scaled.rope_linear,
        scaled.rope_ntk,
        scaled.rope_dynamic,
        yarn.rope_yarn,
        llama3.rope_llama3,
        longrope.rope_longrope,
        scaled.rope_proportional,
        grids.rope_axial,
        multimodal.mrope,
        growing.xpos,
        alibi.alibi,
        learned.t5,
        learned.t5_clipped,
        kernels.kerple_log,
        kernels.kerple_power,
        kernels.sandwich,
        relative.shaw,
        relative.transformer_xl,
    )
}

_ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


class BrokenPlugin(Record):
    """An installed plugin that cannot be loaded, and why."""

    name: str
    reason: str


def find(name: str) -> Scheme:
    """The scheme of a name: built in, installed (entry point), or ``package.module:attribute``.

    Raises: InvalidInput when there is none, or when it cannot be loaded.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    if _ATTRIBUTE.fullmatch(name):
        return _loaded(name, name)
    entries = _entry_points()
    if name in entries:
        return replace(_loaded(entries[name].value, name), name=name)
    raise unknown_name("scheme", name, [*BUILT_IN, *entries])


def installed() -> list[Scheme | BrokenPlugin]:
    """The schemes that installed plugins bring, each in working order or with what is wrong."""
    plugins: list[Scheme | BrokenPlugin] = []
    for name, entry in sorted(_entry_points().items()):
        try:
            plugins.append(replace(_loaded(entry.value, name), name=name))
        except InvalidInput as error:
            plugins.append(BrokenPlugin(name, error.message))
    return plugins


def _entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=PLUGIN_GROUP)}


def _loaded(target: str, name: str) -> Scheme:
    """The Scheme that ``package.module:attribute`` names.

    Raises: InvalidInput when it cannot be imported or is no scheme; whatever a user's module
    raises while it is imported is reported, never passed on.
    """
    from importlib import import_module

    module_name, _, attribute = target.partition(":")
    try:
        loaded = getattr(import_module(module_name), attribute)
        if isinstance(loaded, Scheme):
            loaded = replace(loaded, origin=name)
            _ = loaded.parameters
    except (Exception, SystemExit) as error:
        raise InvalidInput(
            f"--scheme {abbreviated(name)}: cannot be loaded ({described(error)})",
            hint="the current folder is not searched; PYTHONPATH=. adds it"
            if isinstance(error, ModuleNotFoundError)
            else None,
        ) from error
    if not isinstance(loaded, Scheme):
        raise InvalidInput(
            f"--scheme {abbreviated(name)}: is a {type(loaded).__name__}, not a scheme",
            hint="declare it with posenc_cli.formulas.declare: @absolute, @rotary or @bias",
        )
    return loaded
