"""matplotlib as posenc uses it: imported late, and the same whatever the machine is set up for."""

from __future__ import annotations

import contextlib
import logging
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import Unavailable, described

if TYPE_CHECKING:
    from collections.abc import Iterator


@cache
def load_matplotlib() -> Any:
    """The module matplotlib.

    While it is imported it reads the settings of the current folder, and the name of a window
    system from the environment. Either may be broken, and neither is wanted.

    Raises: Unavailable where it does not load.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        found = find_spec("matplotlib")
        if found is None or found.origin is None:
            raise ImportError("it is not installed")
        with _own_settings(Path(found.origin).parent / "mpl-data"):
            import matplotlib

            return matplotlib
    except (ImportError, OSError) as error:
        raise Unavailable(
            f"drawing a figure needs matplotlib, which does not load: {described(error)}",
            hint="pip install matplotlib",
        ) from error


@contextlib.contextmanager
def _own_settings(folder: Path) -> Iterator[None]:
    """Within it, the settings that matplotlib finds first are those it comes with."""
    backend = os.environ.get("MPLBACKEND")
    os.environ["MPLBACKEND"] = "agg"
    try:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # where the current folder is gone
                stack.enter_context(contextlib.chdir(folder))
            yield
    finally:
        if backend is None:
            del os.environ["MPLBACKEND"]
        else:
            os.environ["MPLBACKEND"] = backend
