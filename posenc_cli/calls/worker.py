"""The process in which a user's function runs: it may print, exit or crash without harm.

It runs in the user's environment: it needs the standard library of Python 3.8 or later, NumPy or
torch, and nothing of posenc but ``loading.py``, ``frameworks.py`` and ``calls/``, which run before
it. It knows nothing of encodings: it loads a function, says what its signature is, and calls it
with the arrays of a request. Requests arrive on standard input and answers leave by a copy of
standard output, each a line of JSON and the bytes of arrays; for the function, standard input is
empty and what it prints goes to standard error. When who asks ends, so do this process and all that
it has started, but for what has left its process group.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import re
import select
import signal
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Callable

if __name__ != "__main__":
    from posenc_cli.calls.onnx import Refused, onnx_function
    from posenc_cli.frameworks import (
        BY_NAME,
        Framework,
        as_numpy,
        framework_of,
        innermost,
        likely_frameworks,
        loaded_frameworks,
        made_array,
    )

_MOST_RESULTS = 8
"""Values of one call that are looked at: no function returns more that matter here."""


_RENEWED = 79
"""The status of a copy that ends so that another takes its place."""

_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


def main(target: str, find: Callable[[str], Any]) -> None:
    """Answer requests about the function ``target`` until there are no more; ``find`` loads it."""
    requests, answers = private_pipes()
    process = os.getpid()
    end_with_parent(requests.fileno(), answers.fileno())
    greet(answers)
    before = belongings()
    function, failure = None, Refused("cannot be loaded")
    try:
        function = function_of(target, find)
    except BaseException as error:
        failure = load_failure(target, error)
    leave_copy(process)
    copied = function is not None and before == belongings() != [] and not keeps_process(function)
    if copied:
        become_copy(answers)
    serve(requests, answers, function, failure, copied=copied)


def greet(answers: BinaryIO) -> None:
    """Say that this process is there."""
    send(answers, {"id": 0, "python": ".".join(map(str, sys.version_info[:3]))})


def serve(
    requests: BinaryIO, answers: BinaryIO, function: Any, failure: Refused, *, copied: bool
) -> None:
    """Answer requests until there are no more, or one for a function that was never called."""
    process, loaded = os.getpid(), function
    # A request is read to its end, also by who cannot answer it: what is left of it would be
    # taken for the next.
    while True:
        request = read_request(requests)
        if request is None:
            return
        header, data = request
        if header["do"] == "end":
            os._exit(0)
        if header["do"] == "renew" and copied:
            os._exit(_RENEWED)
        report: dict[str, Any] = {}
        arrays: list[Any] = []
        try:
            if function is None:
                raise failure
            function, report, arrays = answered(function, loaded, header, data)
        except BaseException as error:
            report = refusal(error)
        leave_copy(process)
        send(answers, {"id": header["id"], **report}, arrays)


def answered(
    function: Any, loaded: Any, header: dict[str, Any], data: bytearray
) -> tuple[Any, dict[str, Any], list[Any]]:
    """The function from now on, and the answer to a request: another object of what was loaded."""
    if header["do"] == "make":
        return made(loaded, header), {}, []
    if header["do"] == "describe":
        return function, description(function), []
    return (
        (function, *called(function, header, data))
        if header["do"] == "call"
        else (function, {}, [])
    )


def refusal(error: BaseException) -> dict[str, str]:
    """What to answer where there is no result; another exception than Refused is no function's."""
    if isinstance(error, Refused):
        return {"error": str(error), "why": error.why}
    if isinstance(error, Exception):
        return {"error": f"cannot be called by posenc ({error_text(error)})", "why": "own"}
    return {"error": "raised " + error_text(error), "why": "exited"}  # as sys.exit() does


def private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes of requests and answers, in place of which standard streams are the function's.

    What it prints goes to standard error; what it reads from standard input is nothing. One that
    writes to any descriptor can still garble an answer, which is refused, not believed.
    """
    # First, for it takes the place of a standard error that is closed.
    nothing = os.open(os.devnull, os.O_RDWR)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdin, sys.stdout = open(0, closefd=False), sys.stderr  # noqa: SIM115
    return requests, answers


def end_with_parent(requests: int, answers: int) -> None:
    """Let this process and all of its group end when nobody can ask any more.

    Another process waits for the other end of the pipe to close: a function may keep all threads
    of its own from running. It is no child of this one, which might wait for its children.
    """
    worker = os.getpid()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    if not os.fork():
        os.close(answers)
        for number in (1, 2):
            os.dup2(0, number)
        poll = select.poll()
        poll.register(requests, 0)
        poll.poll()
        if os.getpgrp() == worker:
            os.killpg(worker, signal.SIGKILL)
    os._exit(0)


def belongings() -> list[list[str]]:
    """The threads, the children and the open files of this process; nothing if unknown.

    A copy of a process has one thread and no children, and reads on where the process stopped: if
    loading a function adds to these, the process cannot be copied.
    """
    own = Path("/proc/self")
    try:
        children = [path.read_text() for path in own.glob("task/*/children")]
        return [children, *(sorted(map(str, (own / of).iterdir())) for of in ("task", "fd"))]
    except OSError:  # no Linux
        return []


def keeps_process(function: Any) -> bool:
    """Whether the module of a function has kept which process it is in, and may compare it."""
    kept = getattr(innermost(function), "__globals__", {}).values()
    return any(type(value) is int and value == os.getpid() for value in list(kept))


def become_copy(answers: BinaryIO) -> None:
    """Return in a copy of this process, and in a new one whenever a copy ends to be renewed.

    If a copy ends otherwise, this process ends as it did.
    """
    copy = os.fork()
    while copy:
        status = os.waitpid(copy, 0)[1]
        if os.WIFSIGNALED(status):
            if os.WTERMSIG(status) != signal.SIGKILL:
                signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
            os.kill(os.getpid(), os.WTERMSIG(status))
        if os.WEXITSTATUS(status) != _RENEWED:
            os._exit(os.WEXITSTATUS(status))
        copy = os.fork()
        if not copy:
            greet(answers)
    # Also one that has left the group that is ended with this process.
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def leave_copy(process: int) -> None:
    """End a copy that the function made of its process: it has nothing to say."""
    if os.getpid() != process:
        os._exit(0)


def read_request(requests: BinaryIO) -> tuple[dict[str, Any], bytearray] | None:
    """The next request, whole: what is asked, and the bytes of its arrays; None at the end."""
    line = requests.readline()
    if not line.endswith(b"\n"):
        return None
    header = json.loads(line)
    data = bytearray(header["bytes"])
    return (header, data) if requests.readinto(data) == len(data) else None  # type: ignore[attr-defined]


def load_failure(target: str, error: BaseException) -> Refused:
    """Why a function cannot be loaded."""
    if isinstance(error, Refused):
        return error
    if not isinstance(error, ModuleNotFoundError):
        mistyped = type(error) in (AttributeError, TypeError, SyntaxError, IndentationError)
        why = "mistyped" if mistyped else "raised"
        return Refused(f"cannot be loaded ({error_text(error)})", why=why)
    place = target.rpartition(":")[0]
    own = place == error.name or place.startswith(f"{error.name}.")
    return Refused(f"cannot be loaded ({error_text(error)})", why="missing" if own else "needs")


def function_of(target: str, find: Callable[[str], Any]) -> Any:
    """The function that ``module:function`` or ``file.py:function`` names, or a graph's.

    Raises: what ``find`` does; TypeError where it is none.
    """
    function = onnx_function(target) if target.endswith(".onnx") else find(target)
    if not callable(function):
        name = target.rpartition(":")[2]
        raise TypeError(f"{name} is of type {type(function).__name__}, not a function")
    return function


def returned_by(function: Any, named: dict[str, Any], arguments: Any = ()) -> Any:
    """What a function returns.

    Raises: Refused where it raises an error.
    """
    torch = sys.modules.get("torch")
    try:
        if torch is None:
            return function(*arguments, **named)
        with torch.no_grad():  # as decoders call
            return function(*arguments, **named)
    except Refused:  # of what calls a graph
        raise
    except Exception as error:
        # A function of tensors that is given arrays raises one of these.
        why = "misused" if type(error) in (AttributeError, TypeError) else "raised"
        raise Refused("raised " + error_text(error), why=why) from error


def description(function: Any) -> dict[str, Any]:
    """What the signature of a function says, and the frameworks that its arrays may be of.

    ``parameters`` is None where nothing is known of them.
    """
    is_class = isinstance(function, type)
    called_part = function if is_class else getattr(function, "forward", function)
    signature = signature_of(called_part)
    parameters = None
    if signature is not None:
        parameters = [
            {
                "name": name,
                "kind": parameter.kind.name,
                "annotation": type_name(parameter.annotation),
                "default": None
                if parameter.default is parameter.empty
                else short_text(parameter.default),
            }
            for name, parameter in signature.parameters.items()
        ]
    annotations = [] if signature is None else annotations_of(signature)
    return {
        "name": str(getattr(function, "__name__", type(function).__name__)),
        "is_class": is_class,
        "parameters": parameters,
        "frameworks": likely_frameworks(function, innermost(called_part), annotations),
        "loaded": loaded_frameworks(),
    }


def made(function: Any, header: dict[str, Any]) -> Any:
    """An object of a class, with a config of transformers where the class needs one."""
    values = header["values"]
    for name, fields in header["configs"].items():
        parameter = inspect.signature(function).parameters[name]
        values[name] = config_object(fields, parameter.annotation)
    for name, attribute in header["attributes"].items():
        framework, four = BY_NAME[header["library"]], {"shape": [1], "broadcast": [1]}
        given = {"dtype": "float32", "reshape": [1], **four}
        values[name] = getattr(array_of(framework, bytearray(4), given), attribute, None)
    built = returned_by(function, values)
    if hasattr(built, "training") and callable(getattr(built, "eval", None)):
        built.eval()  # as decoders call modules of torch: without dropout
    return built


def config_object(fields: dict[str, Any], annotation: Any) -> Any:
    """A config of transformers, or the part of it that a class says it takes, else that of text.

    Where transformers does not know its model type, the class that takes it may say of which it is.
    """
    transformers = sys.modules.get("transformers")
    if transformers is None:
        raise Refused("is a class that needs a config, and imports no transformers to make one")
    try:
        whole = transformers.AutoConfig.for_model(**fields)
    except ValueError:  # of no model that it knows
        own = annotation if hasattr(annotation, "from_dict") else transformers.PretrainedConfig
        whole = own.from_dict(fields)
    parts, text = [whole, *vars(whole).values()], type_name(annotation)
    named = (part for part in parts if re.search(rf"\b{type(part).__name__}\b", text))
    return next(named, None) or whole.get_text_config()


def signature_of(called_part: Any) -> Any:
    """The signature of a function, None where nothing is known of it."""
    try:
        return inspect.signature(called_part)
    except (TypeError, ValueError):
        schema = getattr(called_part, "schema", None)  # of what torch.jit made
    if schema is None:
        return None
    return inspect.Signature(
        [
            inspect.Parameter(
                given.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=given.default_value
                if given.has_default_value()
                else inspect.Parameter.empty,
            )
            for given in schema.arguments
            if given.name != "self"
        ]
    )


def annotations_of(signature: Any) -> list[Any]:
    """The types that a signature names, of its parameters and its result."""
    kinds = [parameter.annotation for parameter in signature.parameters.values()]
    return [kind for kind in (*kinds, signature.return_annotation) if kind is not signature.empty]


def type_name(annotation: Any) -> str:
    """The type that an annotation names, in few characters; nothing where there is none."""
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, type) and not hasattr(annotation, "__origin__"):
        return annotation.__name__
    return (annotation if isinstance(annotation, str) else short_text(annotation, 200))[:200]


def short_text(value: Any, most: int = 40) -> str:
    """A value in few characters."""
    try:
        return repr(value)[:most]
    except BaseException:
        return "?"


def arguments_of(
    framework: Framework, header: dict[str, Any], data: bytearray
) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """The arguments of a call, those by name, and each array with what it was made of."""
    rest, originals = memoryview(data), []

    def array_from(given: dict[str, Any]) -> Any:
        nonlocal rest
        chunk, rest = rest[: given["bytes"]], rest[given["bytes"] :]
        array = array_of(framework, bytearray(chunk), given)
        originals.append((array, chunk, given))
        return array

    def value_of(given: dict[str, Any]) -> Any:
        if "value" in given:
            return given["value"]
        if "attribute" in given:  # the format of an array, or where it is
            return getattr(array_from(given["of"]), given["attribute"], None)
        if "tuple" in given:
            return tuple([value_of(part) for part in given["tuple"]])
        return array_from(given)

    arguments = [value_of(given) for given in header["arguments"]]
    named = {name: value_of(given) for name, given in header["named"].items()}
    return arguments, named, originals


def called(
    function: Any, header: dict[str, Any], data: bytearray
) -> tuple[dict[str, Any], list[Any]]:
    """What a function returns for the arrays of a request: their formats and their bytes.

    ``made`` is the framework of the first.
    """
    framework = BY_NAME[header["library"]]
    arguments, named, originals = arguments_of(framework, header, data)
    result = returned_by(function, named, arguments)
    if inspect.iscoroutine(result):
        result.close()  # else Python warns that nobody awaited it
        raise Refused("is an async function: it must return an array, not a coroutine")
    if header["in_place"]:
        values = [arguments[place] for place in header["in_place"]]
        returned = [part for part in parts_of(result) if part is not None]
        if returned and not same_values(returned, values):
            raise Refused("returned other values than it wrote into its input", why="left")
    else:
        changed = [
            given
            for array, chunk, given in originals
            if not is_as_given(array, array_of(framework, chunk, given))
        ]
        if any(given["dtype"] == "int64" for given in changed):
            raise Refused("changed its positions, which the next layer reads too")
        if changed:
            raise Refused(
                "changed its input; it must return a new array and not modify x", why="changed"
            )
        values = parts_of(result)
    if len(values) > _MOST_RESULTS:
        raise Refused(f"returned {len(values)} values")
    results = [as_bytes(value) for value in values]
    made = next(filter(None, map(framework_of, values)), None)
    report = {"results": [form for form, _ in results], "made": made.name if made else None}
    return report, [part for _, part in results]


def is_as_given(array: Any, given: Any) -> bool:
    """Whether a function left an array as it was given, in its place too."""
    framework = framework_of(given)
    try:
        if framework is not None and framework.name == "torch":
            return bool(sys.modules["torch"].equal(array, given))
        import numpy

        return bool(numpy.array_equal(as_numpy(array)[0], as_numpy(given)[0]))
    except Exception:  # on another device
        return False


def parts_of(result: Any) -> list[Any]:
    """The values that a function returned: those of a tuple, or of a list of arrays."""
    several = isinstance(result, tuple) or (
        isinstance(result, list) and bool(result) and all(map(has_shape, result))
    )
    return list(result) if several else [result]


def has_shape(value: Any) -> bool:
    """Whether a value has a shape, as arrays of any library do."""
    try:
        return hasattr(value, "shape")
    except Exception:
        return False


def same_values(returned: list[Any], left: list[Any]) -> bool:
    """Whether what a function returned is what it left in its input."""
    parts = [(as_bytes(one), as_bytes(other)) for one, other in zip(returned, left)]
    return all(one[0] == other[0] and bytes(one[1]) == bytes(other[1]) for one, other in parts)


def array_of(framework: Framework, data: bytearray | memoryview, given: dict[str, Any]) -> Any:
    """The array that holds writable bytes: in ``shape``, repeated to ``broadcast``, in ``reshape``.

    torch makes its own, which may be installed without NumPy; others have theirs from NumPy's.

    Raises: Refused where the framework makes no such array.
    """
    of_torch = framework.name == "torch"
    try:
        if of_torch:
            import torch as xp
        else:
            import numpy as xp
        bits = given["dtype"] == "bfloat16" and not of_torch
        stored = getattr(xp, "uint16" if bits else given["dtype"])
        whole = xp.frombuffer(data, dtype=stored).reshape(given["shape"])
        if given["broadcast"] != given["shape"]:
            values, whole = whole, xp.ones(given["broadcast"], dtype=stored)
            whole[...] = values
        whole = laid_out(xp, whole.reshape(given["reshape"]), given.get("strided"))
        if of_torch or framework.name == "numpy":
            return whole
        return made_array(framework, whole, given["dtype"])
    except Exception as error:
        words = f"cannot be given arrays of {framework.name} here"
        raise Refused(f"{words} ({error_text(error)})", why="own") from error


def laid_out(xp: Any, whole: Any, strided: str | None) -> Any:
    """An array, or a view of a larger one that has its values: with axes or ``columns`` apart."""
    if not strided:
        return whole
    if strided == "columns":
        view = xp.ones((*whole.shape, 2), dtype=whole.dtype)[..., 0]
    else:
        axes, columns = range(len(whole.shape) - 1), whole.shape[-1]
        wide = xp.ones((*reversed(whole.shape[:-1]), 2 * columns), dtype=whole.dtype)
        permuted = getattr(xp, "permute", xp.transpose)  # torch's, NumPy's
        view = permuted(wide[..., :columns], (*reversed(axes), len(axes)))
    view[...] = whole
    return view


def as_bytes(result: Any) -> tuple[dict[str, Any] | None, Any]:
    """What a function returned as its number format and shape, and its bytes; None for None.

    Raises: Refused for what cannot be read as an array, whatever it raises then.
    """
    if result is None:
        return None, b""
    try:
        framework = framework_of(result)
        if framework is not None and framework.name == "torch":
            return tensor_bytes(sys.modules["torch"], result)
        return array_bytes(result)
    except Refused:
        raise
    except Exception as error:
        words = f"returned a {type(result).__name__} that cannot be read as an array"
        raise Refused(f"{words} ({error_text(error)})") from None


def array_bytes(result: Any) -> tuple[dict[str, Any], Any]:
    """The number format, the shape and the bytes of anything that NumPy reads."""
    import numpy as np

    # It is no masked array where nothing has imported these: naming them would.
    if "numpy.ma" in sys.modules and isinstance(result, np.ma.MaskedArray):
        raise Refused("returned a masked array, which may lack values")
    values, dtype = as_numpy(result)
    if values.dtype.kind not in "fiuc":
        words = f"{type(result).__name__} of {values.dtype}"
        raise Refused(f"returned {words}, not real numbers")
    wide = np.complex128 if values.dtype.kind == "c" else np.float64
    if values.dtype.kind in "iu" or values.dtype.itemsize > np.dtype(wide).itemsize:
        with np.errstate(over="ignore"):  # of a wider format: infinity, which is told
            values = values.astype(wide)
    # The bytes are read as this machine has them: a name says nothing of their order.
    whole = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    name = values.dtype.name
    form = {"dtype": dtype if dtype == "bfloat16" else name, "stored": name}
    return {**form, "shape": list(values.shape)}, whole.data


def tensor_bytes(torch: Any, tensor: Any) -> tuple[dict[str, Any], Any]:
    """The number format, the shape and the bytes of a tensor."""
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        kind = "without values" if tensor.device.type == "meta" else f"of {tensor.layout}"
        raise Refused(f"returned a tensor {kind}, not a dense one")
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    name = str(tensor.dtype).split(".")[-1]
    dtype = name
    if name not in ("float16", "float32", "float64", "complex64", "complex128"):
        if name in ("bool", "complex32") or name.startswith("q"):
            raise Refused(f"returned a tensor of {name}, not real numbers")
        tensor = tensor.to(torch.float32 if name.startswith(("bf", "float8")) else torch.float64)
        name = str(tensor.dtype).split(".")[-1]
    form = {
        "dtype": "bfloat16" if dtype == "bfloat16" else name,
        "stored": name,
        "shape": list(map(int, tensor.shape)),
    }
    tensor = tensor.contiguous()
    size = tensor.numel() * tensor.element_size()
    return form, ctypes.string_at(tensor.data_ptr(), size) if size else b""


def send(answers: BinaryIO, header: dict[str, Any], arrays: Any = ()) -> None:
    """Send an answer; end where nobody listens: who asked has ended, or the pipe was closed."""
    size = sum(memoryview(part).nbytes for part in arrays)
    try:
        answers.write(json.dumps({**header, "bytes": size}).encode() + b"\n")
        for part in arrays:
            answers.write(part)
        answers.flush()
    except OSError:
        os._exit(1)


def error_text(error: BaseException) -> str:
    """An exception on one line."""
    try:
        text = str(error)
    except BaseException:
        text = ""
    name = type(error).__name__
    return (f"{name}: {text}" if text else name).splitlines()[0][:300]
