"""Run a user's function in a separate process, where it may print, exit or crash without harm.

It runs in the user's environment: it needs the standard library of Python 3.8 or later, and NumPy
or torch. Of posenc it needs only ``loading.py``, ``frameworks.py`` and ``calls/onnx.py``, which run
before it. It knows nothing of encodings: it loads a function, describes its signature, and calls it
with the arrays of a request. Requests arrive on standard input, and answers leave by a copy of
standard output; each is a line of JSON and the bytes of arrays. For the function, standard input is
empty, and its output goes to standard error. When the parent ends, this process and its whole
process group end too.
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
from types import SimpleNamespace
from typing import Any, BinaryIO, Callable

TYPE_CHECKING = False

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
"""Most values that a function may return; no rotation returns more."""


_KEPT: dict[str, Any] = {}
"""What a caller keeps between two calls: the arrays and results of the first. ``mode`` is "first"
or "again" for the next call, as the parent asked."""

_RENEWED = 79
"""Exit status of a copy that another replaces."""

_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


def main(target: str, find: Callable[[str], Any]) -> None:
    """Answer requests about the function ``target`` until there are no more; ``find`` loads it."""
    requests, answers = open_private_pipes()
    process = os.getpid()
    end_with_parent(requests.fileno(), answers.fileno())
    greet(answers)
    before = process_resources()
    function, failure = None, Refused("cannot be loaded")
    try:
        function = load_function(target, find)
    except BaseException as error:
        failure = load_failure(target, error)
    exit_if_forked(process)
    copied = (
        function is not None
        and before == process_resources() != []
        and not stores_process_id(function)
    )
    if copied:
        become_copy(answers)
    serve(requests, answers, function, failure, copied=copied)


def greet(answers: BinaryIO) -> None:
    """Send the first message, with the version of Python."""
    send(answers, {"id": 0, "python": ".".join(map(str, sys.version_info[:3]))})


def serve(
    requests: BinaryIO, answers: BinaryIO, function: Any, failure: Refused, *, copied: bool
) -> None:
    """Answer requests until the pipe ends, or a request ends or renews this process."""
    process, loaded = os.getpid(), function
    # Read a request to its end even if it cannot be answered: the rest would be read as the next.
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
            function, report, arrays = answer_request(function, loaded, header, data)
        except BaseException as error:
            report = error_report(error)
        exit_if_forked(process)
        send(answers, {"id": header["id"], **report}, arrays)


def answer_request(
    function: Any, loaded: Any, header: dict[str, Any], data: bytearray
) -> tuple[Any, dict[str, Any], list[Any]]:
    """Return the function for later requests, and the answer to a request.

    "make" replaces the function by an object of the loaded class.
    """
    if header["do"] == "make":
        return make_object(loaded, header), {}, []
    if header["do"] == "keep":
        _KEPT["mode"] = header["mode"]
    if header["do"] == "describe":
        return function, describe_function(function), []
    return (
        (function, *call_function(function, header, data))
        if header["do"] == "call"
        else (function, {}, [])
    )


def error_report(error: BaseException) -> dict[str, str]:
    """Return the answer for an exception.

    Refused is an expected fault of the function, another Exception one of posenc, and the rest are
    exits.
    """
    if isinstance(error, Refused):
        return {"error": str(error), "why": error.why}
    if isinstance(error, Exception):
        return {"error": f"cannot be called by posenc ({error_text(error)})", "why": "own"}
    return {"error": "raised " + error_text(error), "why": "exited"}  # as sys.exit() does


def open_private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the pipes of requests and answers, and give the function other standard streams.

    Its output goes to standard error, and its standard input is empty. A function that writes to
    any descriptor can still garble an answer; the parent then refuses the answer.
    """
    # First, so that it replaces a standard error that is closed.
    nothing = os.open(os.devnull, os.O_RDWR)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdin, sys.stdout = open(0, closefd=False), sys.stderr  # noqa: SIM115
    return requests, answers


def end_with_parent(requests: int, answers: int) -> None:
    """Make this process and its whole group end when nobody can send requests any more.

    Another process waits for the other end of the pipe to close, because a function may block all
    threads of its own process. It is not a child of this one, which might wait for its children.
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


def process_resources() -> list[list[str]]:
    """Return the threads, children and open files of this process; nothing if unknown.

    A copy of a process has one thread and no children, and shares file positions. If loading a
    function adds to these, the process cannot be copied.
    """
    process = Path("/proc/self")
    try:
        children = [path.read_text() for path in process.glob("task/*/children")]
        return [
            children,
            *(sorted(map(str, (process / kind).iterdir())) for kind in ("task", "fd")),
        ]
    except OSError:  # not Linux
        return []


def stores_process_id(function: Any) -> bool:
    """Return whether the module of a function has stored the process id, and may compare it."""
    kept = getattr(innermost(function), "__globals__", {}).values()
    return any(type(value) is int and value == os.getpid() for value in list(kept))


def become_copy(answers: BinaryIO) -> None:
    """Return in a copy of this process, and in a new copy whenever one ends to be renewed.

    If a copy ends for another reason, this process ends in the same way.
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
    # This also ends a copy that has left the process group.
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def exit_if_forked(process: int) -> None:
    """End a process that the function forked: it must not answer."""
    if os.getpid() != process:
        os._exit(0)


def read_request(requests: BinaryIO) -> tuple[dict[str, Any], bytearray] | None:
    """Return the next request: its header, and the bytes of its arrays; None at the end."""
    line = requests.readline()
    if not line.endswith(b"\n"):
        return None
    header = json.loads(line)
    data = bytearray(header["bytes"])
    return (header, data) if requests.readinto(data) == len(data) else None  # type: ignore[attr-defined]


def load_failure(target: str, error: BaseException) -> Refused:
    """Return why a function cannot be loaded."""
    if isinstance(error, Refused):
        return error
    if not isinstance(error, ModuleNotFoundError):
        mistyped = type(error) in (AttributeError, TypeError, SyntaxError, IndentationError)
        why = "mistyped" if mistyped else "raised"
    else:
        place = target.rpartition(":")[0]
        is_target = place == error.name or place.startswith(f"{error.name}.")
        why = "missing" if is_target else "needs"
    return Refused(f"cannot be loaded ({error_text(error)})", why=why)


def load_function(target: str, find: Callable[[str], Any]) -> Any:
    """Load the function ``module:function`` or ``file.py:function``, or that of a graph.

    Raises: what ``find`` does; TypeError if it is not callable.
    """
    function = onnx_function(target) if target.endswith(".onnx") else find(target)
    if not callable(function):
        name = target.rpartition(":")[2]
        raise TypeError(f"{name} is of type {type(function).__name__}, not a function")
    return function


def result_of_call(function: Any, named: dict[str, Any], arguments: Any = ()) -> Any:
    """Call a function without gradients, and return its result.

    Raises: Refused if it raises an error.
    """
    torch = sys.modules.get("torch")
    try:
        if torch is None:
            return function(*arguments, **named)
        with torch.no_grad():  # as decoders call
            return function(*arguments, **named)
    except Refused:  # from running an ONNX graph
        raise
    except Exception as error:
        # A function of tensors raises one of these if it is given arrays.
        why = "misused" if type(error) in (AttributeError, TypeError) else "raised"
        raise Refused("raised " + error_text(error), why=why) from error


def describe_function(function: Any) -> dict[str, Any]:
    """Describe the signature of a function, and the frameworks that its arrays may be of.

    ``parameters`` is None if they are unknown.
    """
    is_class = isinstance(function, type)
    called_part = function if is_class else getattr(function, "forward", function)
    signature = signature_of(called_part)
    given = [] if signature is None else signature.parameters.values()
    parameters = [
        {**describe_parameter(each), **described_fields(function, each.annotation)}
        for each in given
    ]
    annotations = [] if signature is None else annotations_of(signature)
    return {
        "name": str(getattr(function, "__name__", type(function).__name__)),
        "is_class": is_class,
        "parameters": None if signature is None else parameters,
        "frameworks": likely_frameworks(function, innermost(called_part), annotations),
        "loaded": loaded_frameworks(),
    }


def describe_parameter(parameter: inspect.Parameter) -> dict[str, Any]:
    """Describe a parameter of a function, or a field of a record."""
    return {
        "name": parameter.name,
        "kind": parameter.kind.name,
        "annotation": type_name(parameter.annotation),
        "default": None if parameter.default is parameter.empty else short_text(parameter.default),
    }


def record_class(function: Any, annotation: Any) -> Any:
    """Return the dataclass or named tuple that a parameter of a class has, or None."""
    if isinstance(annotation, str):
        annotation = getattr(function.__init__, "__globals__", {}).get(annotation)
    found = isinstance(function, type) and isinstance(annotation, type)
    has_fields = hasattr(annotation, "__dataclass_fields__") or hasattr(annotation, "_fields")
    return annotation if found and has_fields else None


def described_fields(function: Any, annotation: Any) -> dict[str, Any]:
    """Describe the fields of the record that a parameter has, if it has one."""
    record = record_class(function, annotation)
    if record is None:
        return {}
    return {"fields": list(map(describe_parameter, inspect.signature(record).parameters.values()))}


def make_object(function: Any, header: dict[str, Any]) -> Any:
    """Make an object of a class, with a config of transformers if the class needs one."""
    values = header["values"]
    for name, fields in header["configs"].items():
        parameter = inspect.signature(function).parameters[name]
        values[name] = make_config(fields, parameter.annotation)
    for name, fields in header["records"].items():
        record = record_class(function, inspect.signature(function).parameters[name].annotation)
        values[name] = result_of_call(record, fields)
    for name, attribute in header["attributes"].items():
        given = {"dtype": "float32", "shape": [1], "broadcast": [1], "reshape": [1]}
        array = array_from_bytes(BY_NAME[header["library"]], bytearray(4), given)
        values[name] = getattr(array, attribute, None)
    built = result_of_call(function, values)
    if hasattr(built, "training") and callable(getattr(built, "eval", None)):
        built.eval()  # as decoders call modules of torch: without dropout
    return built


def make_config(fields: dict[str, Any], annotation: Any) -> Any:
    """Return a config of transformers for a parameter: the part that its annotation names.

    Without one, it is the text part. If transformers does not know the model type, the annotated
    class makes the config. If transformers is not imported, it is an object with these fields, or
    with those of the text part.
    """
    transformers = sys.modules.get("transformers")
    if transformers is None:
        return SimpleNamespace(**fields.get("text_config", fields))
    try:
        whole = transformers.AutoConfig.for_model(**fields)
    except ValueError:  # an unknown model type
        config_class = (
            annotation if hasattr(annotation, "from_dict") else transformers.PretrainedConfig
        )
        whole = config_class.from_dict(fields)
    parts, text = [whole, *vars(whole).values()], type_name(annotation)
    named = (part for part in parts if re.search(rf"\b{type(part).__name__}\b", text))
    return next(named, None) or whole.get_text_config()


def signature_of(called_part: Any) -> Any:
    """Return the signature of a function, or None if it is unknown."""
    try:
        return inspect.signature(called_part)
    except (TypeError, ValueError):
        schema = getattr(called_part, "schema", None)  # functions of torch.jit have one
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
    """Return the annotations of a signature's parameters and result."""
    kinds = [parameter.annotation for parameter in signature.parameters.values()]
    return [kind for kind in (*kinds, signature.return_annotation) if kind is not signature.empty]


def type_name(annotation: Any) -> str:
    """Return the type that an annotation names, in few characters; "" if there is none."""
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, type) and not hasattr(annotation, "__origin__"):
        return annotation.__name__
    return (annotation if isinstance(annotation, str) else short_text(annotation, 200))[:200]


def short_text(value: Any, most: int = 40) -> str:
    """Return the repr of a value, shortened."""
    try:
        return repr(value)[:most]
    except BaseException:
        return "?"


def make_arguments(
    framework: Framework, header: dict[str, Any], data: bytearray, kept: list[Any]
) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """Return positional and named arguments, and each array with its bytes and description.

    Integers are written into the ``kept`` arrays of the call before, if there are any.
    """
    rest = memoryview(data)
    originals: list[Any] = []

    def array_from(given: dict[str, Any]) -> Any:
        nonlocal rest
        chunk, rest = rest[: given["bytes"]], rest[given["bytes"] :]
        array = array_from_bytes(framework, bytearray(chunk), given)
        if kept and given["dtype"].startswith("int"):
            new, array = array, kept[len(originals)]
            try:
                array[...] = new
            except Exception as error:
                raise Refused("cannot be given positions that change in place") from error
        originals.append((array, chunk, given))
        return array

    def value_of(given: dict[str, Any]) -> Any:
        if "value" in given:
            return given["value"]
        if "attribute" in given:  # the format or the device of an array
            return getattr(array_from(given["of"]), given["attribute"], None)
        if "tuple" in given:
            return tuple([value_of(part) for part in given["tuple"]])
        return array_from(given)

    arguments = [value_of(given) for given in header["arguments"]]
    named = {name: value_of(given) for name, given in header["named"].items()}
    return arguments, named, originals


def call_function(
    function: Any, header: dict[str, Any], data: bytearray
) -> tuple[dict[str, Any], list[Any]]:
    """Call a function with the arrays of a request; return the formats and bytes of its results.

    In the report, "made" is the framework of the first array that it returned.
    """
    framework = BY_NAME[header["library"]]
    mode, kept = _KEPT.pop("mode", ""), _KEPT.get("arrays", [])
    arguments, named, originals = make_arguments(framework, header, data, kept * (mode == "again"))
    result = result_of_call(function, named, arguments)
    if inspect.iscoroutine(result):
        result.close()  # else Python warns that nobody awaited it
        raise Refused("is an async function: it must return an array, not a coroutine")
    if header["in_place"]:
        values = [arguments[place] for place in header["in_place"]]
        returned = [part for part in values_of(result) if part is not None]
        if returned and not same_values(returned, values):
            raise Refused("returned other values than it wrote into its input", why="left")
    else:
        refuse_changed_input(framework, originals)
        values = values_of(result)
    if len(values) > _MOST_RESULTS:
        raise Refused(f"returned {len(values)} values")
    results = [as_bytes(value) for value in values]
    framework_of_result = next(filter(None, map(framework_of, values)), None)
    report = {
        "results": [form for form, _ in results],
        "made": framework_of_result.name if framework_of_result else None,
    }
    parts = [part for _, part in results]
    if mode == "again":
        report["overwritten"] = _KEPT["bytes"] != [
            bytes(as_bytes(one)[1]) for one in _KEPT["values"]
        ]
        _KEPT.clear()
    elif mode:
        arrays = [array for array, *_ in originals]
        _KEPT.update(arrays=arrays, values=values, bytes=list(map(bytes, parts)))
    return report, parts


def refuse_changed_input(framework: Framework, originals: list[Any]) -> None:
    """Raise Refused if a function changed one of its arrays."""
    changed = [
        given
        for array, chunk, given in originals
        if not is_unchanged(array, array_from_bytes(framework, chunk, given))
    ]
    if any(given["dtype"] == "int64" for given in changed):
        raise Refused("changed its positions, which the next layer reads too")
    if changed:
        raise Refused(
            "changed its input; it must return a new array and not modify x", why="changed"
        )


def is_unchanged(array: Any, given: Any) -> bool:
    """Return whether a function left an array unchanged."""
    framework = framework_of(given)
    try:
        if framework is not None and framework.name == "torch":
            return bool(sys.modules["torch"].equal(array, given))
        import numpy

        return bool(numpy.array_equal(as_numpy(array)[0], as_numpy(given)[0]))
    except Exception:  # on another device
        return False


def values_of(result: Any) -> list[Any]:
    """Return the values in a result: those of a tuple, or of a list of arrays."""
    several = isinstance(result, tuple) or (
        isinstance(result, list) and bool(result) and all(map(has_shape, result))
    )
    return list(result) if several else [result]


def has_shape(value: Any) -> bool:
    """Return whether a value has a shape, as arrays of any library do."""
    try:
        return hasattr(value, "shape")
    except Exception:
        return False


def same_values(returned: list[Any], left: list[Any]) -> bool:
    """Return whether a function returned the same values that it left in its input."""
    parts = [(as_bytes(one), as_bytes(other)) for one, other in zip(returned, left)]
    return all(one[0] == other[0] and bytes(one[1]) == bytes(other[1]) for one, other in parts)


def array_from_bytes(
    framework: Framework, data: bytearray | memoryview, given: dict[str, Any]
) -> Any:
    """Make an array from writable bytes: of ``shape``, repeated to ``broadcast``, then ``reshape``.

    torch makes its arrays itself, because NumPy may be missing; others make theirs from NumPy's.

    Raises: Refused if the framework cannot make such an array.
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
        whole = with_strides(xp, whole.reshape(given["reshape"]), given.get("strided"))
        if of_torch or framework.name == "numpy":
            return whole
        return made_array(framework, whole, given["dtype"])
    except Exception as error:
        raise Refused(
            f"cannot be given arrays of {framework.name} here ({error_text(error)})", why="own"
        ) from error


def with_strides(xp: Any, whole: Any, strided: str | None) -> Any:
    """Return an array, or a view with its values in which axes or ``columns`` are not adjacent."""
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
    """Return the number format and shape of a returned array, and its bytes; None for None.

    Raises: Refused if it cannot be read as an array.
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
    """Return the number format and shape, and the bytes, of anything that NumPy reads."""
    import numpy as np

    # If numpy.ma is not loaded, it is not a masked array; np.ma would import the module.
    if "numpy.ma" in sys.modules and isinstance(result, np.ma.MaskedArray):
        raise Refused("returned a masked array, which may lack values")
    values, dtype = as_numpy(result)
    if values.dtype.kind not in "fiuc":
        words = "" if values.dtype.hasobject else f" of {values.dtype}"
        raise Refused(f"returned {type(result).__name__}{words}, not real numbers")
    wide = np.complex128 if values.dtype.kind == "c" else np.float64
    if values.dtype.kind in "iu" or values.dtype.itemsize > np.dtype(wide).itemsize:
        with np.errstate(over="ignore"):  # longdouble may become infinity, which is reported
            values = values.astype(wide)
    # The reader assumes this machine's byte order: a format's name does not say it.
    whole = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    name = values.dtype.name
    form = {"dtype": dtype if dtype == "bfloat16" else name, "stored": name}
    return {**form, "shape": list(values.shape)}, whole.data


def tensor_bytes(torch: Any, tensor: Any) -> tuple[dict[str, Any], Any]:
    """Return the number format and shape, and the bytes, of a tensor."""
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
    """Send an answer; end this process if the pipe is closed."""
    size = sum(memoryview(part).nbytes for part in arrays)
    try:
        answers.write(json.dumps({**header, "bytes": size}).encode() + b"\n")
        for part in arrays:
            answers.write(part)
        answers.flush()
    except OSError:
        os._exit(1)


def error_text(error: BaseException) -> str:
    """Return an exception on one line."""
    try:
        text = str(error)
    except BaseException:
        text = ""
    name = type(error).__name__
    return (f"{name}: {text}" if text else name).splitlines()[0][:300]
