"""What users name of their own: ``module:name``, or ``file.py:name``.

It runs where a user's code does, in any Python from 3.8 on: it needs nothing of posenc.
"""

from __future__ import annotations

import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def object_named(target: str) -> Any:
    """The object that ``module:name`` or ``file.py:name`` names; a file is run anew each time.

    Raises: what the code raises; AttributeError where it has no such name.
    """
    place, _, name = target.rpartition(":")
    if place.endswith(".py"):
        from importlib.util import module_from_spec, spec_from_file_location
        from pathlib import Path

        path = Path(place).absolute()
        module_name = re.sub(r"\W", "_", str(path))  # no other file's, nor an installed module's
        spec = spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise ImportError(place)
        # Last, so that its neighbours hide no module that is installed.
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        module = module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
    else:
        from importlib import import_module

        module = import_module(place)
    loaded: Any = module
    for part in name.split("."):
        if not hasattr(loaded, part):
            raise AttributeError(f"{place} has no attribute {name!r}")
        loaded = getattr(loaded, part)
    return loaded
