"""User code by name: ``module:name``, or ``file.py:name``.

This module runs in the user's own Python, any version from 3.8 on, and needs nothing else of
posenc.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def object_named(target: str) -> Any:
    """Return the object that ``module:name`` or ``file.py:name`` names; run a changed file again.

    Raises: what the code raises; AttributeError if it has no such name.
    """
    place, _, name = target.rpartition(":")
    if place.endswith(".py"):
        module = _module_of(place)
    else:
        from importlib import import_module

        module = import_module(place)
    loaded: Any = module
    for part in name.split("."):
        if not hasattr(loaded, part):
            raise AttributeError(f"{place} has no attribute {name!r}")
        loaded = getattr(loaded, part)
    return loaded


def _module_of(file: str) -> Any:
    """Return the module of a file in its present state, under a name of its own.

    Raises: what the code raises.
    """
    from binascii import crc32  # hashlib would load OpenSSL
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    path = Path(file).absolute()
    source = path.read_bytes()
    module_name = f"{path.stem}_{crc32(source, crc32(bytes(path))):08x}_{len(source)}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = spec_from_file_location(module_name, path)
    if spec is None:
        raise ImportError(file)
    # Last on the path, so that files beside it do not hide installed modules.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    module = sys.modules[module_name] = module_from_spec(spec)
    try:
        # Not by its loader, which takes a file of the same size and second as unchanged.
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module
