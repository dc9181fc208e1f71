"""The process in which a user's function runs: it may print, exit or crash without harm.

Started by path, with nothing of posenc imported, so that the current folder stays off the path and
whatever the function does to its process ends there. Requests arrive on standard input and answers
leave by a copy of standard output, each a line of JSON and the bytes of an array; what the function
prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, BinaryIO


def main(target: str) -> None:
    """Answer requests for values of the function ``target`` until there are no more."""
    requests, answers = private_pipes()
    process = os.getpid()
    function, failure = None, Refused("cannot be loaded")
    try:
        function = ServedFunction(load(target))
    except BaseException as error:
        failure = load_failure(target, error)
    leave_copy(process)
    # A request is read to its end, also by who cannot answer it: what is left of it would be
    # taken for the next.
    while (request := read_request(requests)) is not None:
        try:
            if function is None:
                raise failure
            values, dtype = answer(*request, function)
            report: dict[str, Any] = {"dtype": dtype, "stored": values.dtype.name}
            data = values.data
        except Refused as refused:
            report, data = {"error": str(refused), "why": refused.why}, b""
        except BaseException as error:
            report, data = {"error": f"raised {error_text(error)}", "why": "raised"}, b""
        leave_copy(process)
        try:
            reply(answers, report, data)
        except OSError:
            os._exit(1)  # nobody listens: who asked has ended, or the function closed the pipe


def private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes of requests and answers, out of the function's reach by numbers and by names.

    What it prints goes to standard error; what it reads from standard input is nothing.
    """
    # First, for it takes the place of a standard error that is closed.
    nothing = os.open(os.devnull, os.O_RDWR)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdin, sys.stdout = open(0, closefd=False), sys.stderr  # noqa: SIM115
    return requests, answers


def leave_copy(process: int) -> None:
    """End a copy that the function made of its process: it has nothing to say."""
    if os.getpid() != process:
        os._exit(0)


def read_request(requests: BinaryIO) -> tuple[dict[str, Any], bytes, bytes] | None:
    """The next request, whole: what is asked, the positions and the vectors; None at the end."""
    line = requests.readline()
    if not line.endswith(b"\n"):
        return None
    header = json.loads(line)
    rows, dim = header["rows"], header["dim"]
    sizes = 8 * rows, 0 if header["basis"] else 4 * rows * dim
    positions, vectors = (requests.read(size) for size in sizes)
    return (header, positions, vectors) if (len(positions), len(vectors)) == sizes else None


class Refused(Exception):
    """What a function may not do, in words.

    ``why``: its own module is ``missing``, it ``needs`` another, or ``returned`` what it may not.
    """

    def __init__(self, message: str, *, why: str = "returned") -> None:
        super().__init__(message)
        self.why = why


def load_failure(target: str, error: BaseException) -> Refused:
    """Why a function cannot be loaded."""
    if not isinstance(error, ModuleNotFoundError):
        return Refused(f"cannot be loaded ({error_text(error)})")
    place = target.rpartition(":")[0]
    own = place == error.name or place.startswith(f"{error.name}.")
    return Refused(f"cannot be loaded ({error_text(error)})", why="missing" if own else "needs")


def load(target: str) -> Any:
    """The function that ``module:function`` or ``file.py:function`` names."""
    place, _, name = target.rpartition(":")
    if place.endswith(".py"):
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location("subject", place)
        if spec is None or spec.loader is None:
            raise ImportError(place)
        module = module_from_spec(spec)
        sys.modules["subject"] = module
        spec.loader.exec_module(module)
    else:
        from importlib import import_module

        module = import_module(place)
    target_function: Any = module
    for part in name.split("."):
        target_function = getattr(target_function, part)
    if not callable(target_function):
        raise TypeError(f"{name} is a {type(target_function).__name__}, not a function")
    return target_function


class ServedFunction:
    """A user's function, called with NumPy arrays, or with torch tensors where it needs them."""

    def __init__(self, function: Any) -> None:
        self.function = function
        annotated = str(getattr(function, "__annotations__", {}))
        self.torch = "Tensor" in annotated and "torch" in sys.modules
        self.settled = self.torch

    def __call__(self, x: Any, positions: Any) -> tuple[Any, str]:
        """The values of the function as an array, and the number format it returned."""
        if not self.settled:
            try:
                values = self._call(x, positions)
            except Exception as error:
                if "torch" not in sys.modules or isinstance(error, Refused):
                    raise
                self.torch = True
                try:
                    values = self._call(x, positions)
                except Refused:
                    raise
                except Exception as another:
                    self.torch = False
                    # A function of tensors meets arrays with one of these.
                    wrong = isinstance(error, AttributeError | TypeError)
                    raise (another if wrong else error) from None
            self.settled = True
            return values
        return self._call(x, positions)

    def _call(self, x: Any, positions: Any) -> tuple[Any, str]:
        import numpy as np

        given: tuple[Any, ...] = (x.copy(), positions.copy())
        if self.torch:
            torch = sys.modules["torch"]
            given = tuple(torch.from_numpy(array) for array in given)
        result = self.function(*given)
        if not all(np.array_equal(a, b) for a, b in zip(given, (x, positions), strict=True)):
            raise Refused("changed its input: it must return a new array and leave x as it is")
        values, dtype = as_array(result)
        if values.shape != x.shape:
            raise Refused(f"returned an array of shape {values.shape} for x of shape {x.shape}")
        return values, dtype


def as_array(result: Any) -> tuple[Any, str]:
    """What a function returned as a float array, and the name of its number format."""
    import numpy as np

    dtype = None
    if isinstance(result, np.ma.MaskedArray):
        raise Refused("returned a masked array, whose values are not all there")
    if hasattr(result, "detach"):
        result = result.detach().cpu()
        dtype = str(result.dtype).removeprefix("torch.")
        result = (result.float() if dtype == "bfloat16" else result).numpy()
    elif str(getattr(result, "dtype", "")) == "bfloat16":
        dtype, result = "bfloat16", np.asarray(result).astype(np.float32)
    values = np.asarray(result)
    if values.dtype.kind not in "fiu":
        raise Refused(f"returned {type(result).__name__} of {values.dtype}, not real numbers")
    if values.dtype.kind != "f" or values.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # of a wider format: infinity, which is told
            values = values.astype(np.float64)
    # The bytes are read as this machine has them: a name says nothing of their order.
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    return values, dtype or values.dtype.name


def answer(
    header: dict[str, Any], positions: bytes, vectors: bytes, function: ServedFunction
) -> tuple[Any, str]:
    """What the function makes of a request."""
    import numpy as np

    rows, dim = header["rows"], header["dim"]
    where = np.frombuffer(positions, np.int64)
    if header["basis"]:
        # Every unit vector at every position: row k·dim + j is the vector j at position k.
        x = np.tile(np.eye(dim, dtype=np.float32), (rows, 1))
        return function(x, np.repeat(where, dim))
    return function(np.frombuffer(vectors, np.float32).reshape(rows, dim), where)


def reply(answers: BinaryIO, header: dict[str, Any], data: Any) -> None:
    """Send an answer."""
    size = memoryview(data).nbytes
    answers.write(json.dumps({**header, "bytes": size}).encode() + b"\n")
    answers.write(data)
    answers.flush()


def error_text(error: BaseException) -> str:
    """An exception on one line."""
    try:
        text = str(error)
    except BaseException:
        text = ""
    name = type(error).__name__
    return (f"{name}: {text}" if text else name).splitlines()[0][:300]


if __name__ == "__main__":
    main(sys.argv[1])
