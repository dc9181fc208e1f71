"""The catalogue: every scheme by name, built in, from a plugin, or written by the user."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput, abbreviated, described, unknown_name
from posenc_cli.formulas.declare import Scheme, scheme_of_function
from posenc_cli.loading import object_named
from posenc_cli.records import Record, replace
from posenc_cli.transaction import note_code

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGIN_GROUP = "posenc.schemes"

MODULES = {
    "sinusoidal": "sinusoids",
    "timestep": "sinusoids",
    "cape": "sinusoids",
    "shape": "sinusoids",
    "learned": "learned",
    "integer": "sinusoids",
    "normalized": "sinusoids",
    "binary": "sinusoids",
    "nope": "sinusoids",
    "sinusoidal-nd": "grids",
    "rope": "rotary",
    "rope-linear": "context_extension.scaled",
    "rope-ntk": "context_extension.scaled",
    "rope-dynamic": "context_extension.scaled",
    "rope-yarn": "context_extension.yarn",
    "rope-llama3": "context_extension.llama3",
    "rope-longrope": "context_extension.longrope",
    "rope-proportional": "context_extension.scaled",
    "rope-resonance": "context_extension.yarn",
    "rope-clipped": "context_extension.scaled",
    "rope-axial": "grids",
    "rope-mixed": "mixed",
    "mrope": "grids",
    "xpos": "rotary",
    "alibi": "alibi",
    "t5": "learned",
    "t5-clipped": "learned",
    "swin": "windows",
    "swin-v2": "windows",
    "kerple-log": "kernels",
    "kerple-power": "kernels",
    "sandwich": "kernels",
    "fire": "windows",
    "shaw": "learned",
    "transformer-xl": "sinusoids",
}
"""The module of `posenc_cli.formulas` that declares each scheme."""


ALIASES = {
    "vaswani": "sinusoidal",
    "sincos": "sinusoidal",
    "linear": "rope-linear",
    "ntk": "rope-ntk",
    "dynamic": "rope-dynamic",
    "yarn": "rope-yarn",
    "llama3": "rope-llama3",
    "longrope": "rope-longrope",
}
"""Other names that people type for schemes: a paper's author, or the rope_type of a config."""


class _Declared(Mapping[str, Scheme]):
    """The schemes by name. Each is imported when first used: a short command needs only one."""

    def __getitem__(self, name: str) -> Scheme:
        name = ALIASES.get(name, name)
        module = import_module(f"posenc_cli.formulas.{MODULES[name]}")
        scheme: Scheme = getattr(module, name.replace("-", "_"))
        return scheme

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)

    def __contains__(self, name: object) -> bool:
        return name in MODULES or name in ALIASES


BUILT_IN: Mapping[str, Scheme] = _Declared()

_CONTEXTUAL = "contextual position encoding"
_OF_CONTENT = {
    "cope": _CONTEXTUAL,
    "path": "PaTH attention",
    "dape": "DAPE",
    **dict.fromkeys(("fox", "forgetting-transformer"), "the Forgetting Transformer"),
}
"""Encodings that people ask for but that are not functions of positions."""

_adopted: ContextVar[Mapping[str, Scheme]] = ContextVar("adopted", default={})  # noqa: B039

# The pattern is compiled when a name needs it, which most commands do not.
_OWN = r"(?as)[A-Za-z_][\w.]*:[A-Za-z_][\w.]*|.+\.py(?::[A-Za-z_][\w.]*)?"


class BrokenPlugin(Record):
    """An installed plugin that cannot be loaded, and why."""

    name: str
    reason: str


def find(name: str) -> Scheme:
    """Return the scheme of a name: built in, installed (entry point), or a user's own.

    Raises: InvalidInput if there is no such scheme, if there are several, or if it cannot be
        loaded; Unavailable if its file does not exist.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name in (own := _adopted.get()):
        return own[name]
    if len(parts_of(name)) > 1:
        raise InvalidInput(
            f"{abbreviated(name)} is several encodings; give one",
            hint="name each by itself",
        )
    if name.endswith(".py"):
        raise InvalidInput(
            f"--scheme {abbreviated(name)} names a file, but no scheme in it",
            hint=f"{name}:NAME names one",
        )
    if is_own(name):
        note_code("--scheme", name)
        return _loaded(name, name)
    entries = _entry_points()
    if name in entries:
        return replace(_loaded(entries[name].value, name), name=name)
    if (what := _OF_CONTENT.get(name.lower())) is not None:
        raise InvalidInput(
            f"unknown scheme {name!r}",
            hint=f"{what} depends on the tokens, so it has no table of positions"
            + ("; clipped RoPE, also called CoPE, is rope-clipped" if what == _CONTEXTUAL else ""),
        )
    raise unknown_name("scheme", name, [*BUILT_IN, *entries])


def is_own(name: str) -> bool:
    """Return whether a name is a user's own scheme: ``package.module:name``, ``./file.py:name``."""
    return re.fullmatch(_OWN, name) is not None


def parts_of(name: str) -> list[str]:
    """Return the names that a hybrid ``A+B`` joins. A plus in a path with a slash does not join.

    >>> parts_of("sinusoidal+./my c++/mine.py:scheme+t5")
    ['sinusoidal', './my c++/mine.py:scheme', 't5']
    """
    parts: list[str] = []
    for part in name.split("+"):
        if parts and "/" in parts[-1] and ":" not in parts[-1]:
            parts[-1] += f"+{part}"
        else:
            parts.append(part)
    return parts


@contextmanager
def adopting(names: Iterable[str]) -> Iterator[None]:
    """Make user-written schemes known by these names within the block, as plugins are.

    Raises: InvalidInput, Unavailable if a scheme cannot be found, or is a function and not made of
        waves.
    """
    found = {name: replace(find(name), name=name) for name in names}
    for name in (name for name, scheme in found.items() if scheme.as_given):
        raise InvalidInput(
            f"--scheme {abbreviated(name)} is a function of positions, whose frequencies are not "
            "known; identify needs a scheme with known frequencies",
            hint=f"posenc compare {name} FILE compares its rows with an array",
        )
    token = _adopted.set({name: scheme for name, scheme in found.items() if is_own(name)})
    try:
        yield
    finally:
        _adopted.reset(token)


def adopted() -> tuple[Scheme, ...]:
    """Return the schemes that `adopting` makes known."""
    return tuple(_adopted.get().values())


def installed() -> list[Scheme | BrokenPlugin]:
    """Return the schemes of installed plugins: each one loaded, or why it cannot be loaded."""
    plugins: list[Scheme | BrokenPlugin] = []
    for name, entry in sorted(_entry_points().items()):
        try:
            plugins.append(replace(_loaded(entry.value, name), name=name))
        except InvalidInput as error:
            plugins.append(BrokenPlugin(name, error.message))
    return plugins


def _entry_points() -> dict[str, EntryPoint]:
    if not any(map(_may_hold_plugins, sys.path)):
        return {}
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=PLUGIN_GROUP)}


def _may_hold_plugins(place: str) -> bool:
    """Return whether a folder is an archive, or may hold a distribution with such a scheme.

    This takes 1 ms; importlib.metadata takes 10 ms.
    """
    root = Path(place)
    texts = (t for end in ("dist", "egg") for t in root.glob(f"*.{end}-info/entry_points.txt"))
    packed = root.is_file() or root.suffix == ".egg"
    try:
        return packed or any(PLUGIN_GROUP.encode() in text.read_bytes() for text in texts)
    except OSError:  # a file that cannot be read: importlib.metadata knows what to do
        return True


def _loaded(target: str, name: str) -> Scheme:
    """Return the scheme or function named ``package.module:attribute`` or ``file.py:attribute``.

    Raises: InvalidInput if it cannot be imported or is neither. Whatever a user's module raises
        during import is reported this way, and does not propagate.
    """
    try:
        loaded = object_named(target)
        if isinstance(loaded, Scheme):
            loaded = replace(loaded, origin=name)
            _ = loaded.parameters
    except (Exception, SystemExit) as error:
        unsearched = isinstance(error, ModuleNotFoundError) and ".py:" not in target
        raise InvalidInput(
            f"--scheme {abbreviated(name)} cannot be loaded ({described(error)})",
            hint="the current folder is not searched: ./file.py:name names a file of it"
            if unsearched
            else None,
        ) from error
    if isinstance(loaded, Scheme):
        return loaded
    if callable(loaded):
        return scheme_of_function(loaded, name=re.split(r"[:.]", target)[-1], origin=name)
    raise InvalidInput(
        f"--scheme {abbreviated(name)} is of the type {type(loaded).__name__}, not a scheme",
        hint="a function f(positions) of n rows is one; posenc_cli.formulas.declare makes others",
    )
