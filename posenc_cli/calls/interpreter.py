"""Find the Python that runs a user's function, and start the worker in it."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextvars import Context, ContextVar
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from posenc_cli import frameworks, interrupts, loading
from posenc_cli.calls import onnx, worker
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
    files = [str(module.__file__) for module in (loading, frameworks, onnx, worker)]
    folders = os.pathsep.join(FURTHER_FOLDERS.get())
    return [python, "-c", _BEGINNING, *files, str(stderr), folders, target]


def can_copy_process() -> bool:
    """Return whether a copy of this process can run a function as well as a new Python.

    A copy need not import NumPy again, which takes half the time of a small check. Only posenc's
    own process is copied, while it has one thread, no options of Python and no user's code.
    """
    options = [word for word in sys.orig_argv[1:2] if word.startswith("-") and word != "-m"]
    return (
        sys.platform == "linux"
        and interrupts.handled()
        and not (options or sys.warnoptions or loading.RUN)
        and "numpy" in sys.modules
        and frameworks.loaded_frameworks() == ["numpy"]
        and len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - pathlib is slow
    )


def run_in_copy(target: str, stderr: int, environment: Mapping[str, str]) -> NoReturn:
    """Run the worker for a function in this new copy of posenc's process, and end the copy.

    ``stderr`` is the descriptor that becomes its standard error. All that posenc has changed is
    again as in a new Python.
    """
    try:
        os.dup2(stderr, 2)
        # This also tells subprocess in the parent that the program has started.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        interrupts.restore()
        os.environ.update(environment)
        _become_new_python()
        Context().run(worker.main, target, loading.object_named)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def _become_new_python() -> None:
    """Restore the state of a Python that was started with ``-c``."""
    script_folder = os.path.dirname(os.path.realpath(sys.argv[0]))  # noqa: PTH120 - as Python does
    sys.path[:] = [folder for folder in sys.path if folder != script_folder]
    sys.path += FURTHER_FOLDERS.get()
    sys.argv[:] = ["-c"]
    sys.modules["__main__"] = ModuleType("__main__")
    standard = partial(open, mode="w", buffering=1, encoding=sys.stderr.encoding, closefd=False)
    output, errors = standard(1), standard(2, errors="backslashreplace")
    vars(sys).update(stdout=output, __stdout__=output, stderr=errors, __stderr__=errors)
    filters: Any = warnings.filters
    filters[:] = [each for each in filters if each != ("ignore", None, Warning, None, 0)]
    gc.set_threshold(700, 10, 10)
    gc.enable()


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
