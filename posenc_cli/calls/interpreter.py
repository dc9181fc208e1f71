"""Find the Python that runs a user's function, and the command that starts the worker."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path

from posenc_cli import frameworks, loading
from posenc_cli.calls import onnx
from posenc_cli.errors import Unavailable, quoted_name

TOO_OLD = 77
"""Exit status of a Python before 3.8, which cannot run the worker."""

# Python 2 can parse this too. With -c, Python would find modules in the current folder first. The
# output of a program other than Python goes to a file, so this code restores standard error.
_BEGINNING = f"""
import os, sys
spoken = int(sys.argv[5])
if spoken != 2: os.dup2(spoken, 2); os.close(spoken)
if sys.version_info < (3, 8): sys.exit({TOO_OLD})
if sys.path[:1] == [""]: del sys.path[0]
sys.path += [folder for folder in sys.argv[6].split(os.pathsep) if folder]
from importlib.machinery import SourceFileLoader
for file in sys.argv[1:5]: exec(SourceFileLoader("worker", file).get_code("worker"))
main(sys.argv[-1], object_named)
"""

FURTHER_FOLDERS: ContextVar[Sequence[str]] = ContextVar("further folders", default=())
"""More folders for modules of functions, searched last."""

_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables that name the folder of the active environment, in order of precedence."""


def worker_command(python: str, target: str, *, stderr: int = 2) -> list[str]:
    """Return the command that runs the worker for a function, without posenc on its path.

    ``stderr`` is the descriptor that becomes its standard error.
    """
    worker = str(Path(__file__).with_name("worker.py"))
    files = [loading.__file__, frameworks.__file__, onnx.__file__, worker]
    folders = os.pathsep.join(FURTHER_FOLDERS.get())
    return [python, "-c", _BEGINNING, *files, str(stderr), folders, target]


def chosen_python(asked: str | None, module: str = "") -> str:
    """Return the requested interpreter, or that of the active environment, or posenc's own.

    ``asked`` is a program, or the folder of an environment. A ``module`` of posenc needs posenc's
    own interpreter.

    Raises: Unavailable if the requested one does not exist.
    """
    if asked is not None:
        program = _python_in(Path(asked)) if Path(asked).is_dir() else shutil.which(asked)
        if program is None:
            raise Unavailable(
                f"--python {quoted_name(asked)}: "
                + ("cannot be run" if Path(asked).exists() else "there is no such program")
            )
        return os.path.abspath(program)  # noqa: PTH100 - keep links: they identify an environment
    if module.partition(".")[0] == "posenc_cli":
        return sys.executable
    for variable in _ENVIRONMENTS:
        folder = os.environ.get(variable)
        program = _python_in(Path(folder)) if folder else None
        if program is not None:
            is_current = Path(folder or "").resolve() == Path(sys.prefix).resolve()
            return sys.executable if is_current else program
    return sys.executable


def _python_in(folder: Path) -> str | None:
    return shutil.which("python", path=str(folder / "bin"))
