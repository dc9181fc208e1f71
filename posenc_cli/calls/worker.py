"""Run a user's function in a separate process, where it may print, exit or crash without harm.

It runs in the user's environment: it needs the standard library of Python 3.8 or later, and NumPy
or torch. Of posenc it needs only ``loading.py``, ``frameworks.py`` and ``calls/onnx.py``, which run
before it. It knows nothing of encodings: it loads a function, describes its signature, and calls it
with the arrays of a request. Requests arrive on standard input, and answers leave by a copy of
standard output; each is JSON and the bytes of arrays. For the function, standard input is
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
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
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

FRAME = b"answer %12d %16d\n"
"""What precedes an answer: the lengths of its header and of its arrays. Other bytes in the pipe are
not from this module.
"""

_RENEWED = 79
"""Exit status of a copy that another replaces."""

_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


def main(target: str, find: Callable[[str], Any]) -> None:
    """Answer requests about the function ``target`` until there are no more; ``find`` loads it."""
    requests, answers = open_private_pipes()
    process = os.getpid()
    end_with_parent(requests.fileno(), answers.fileno())
    send(answers, {})  # shows that this is a Python
    try:
        function = load_function(target, find)
    except BaseException as error:
        exit_if_forked(process)
        read_request(requests)
        send(answers, error_report(load_failure(target, error)))
        return
    exit_if_forked(process)
    if len([*Path("/proc/self/task").glob("*")]) == 1:  # a copy has one thread; Linux only
        become_copy(answers)
    serve(requests, answers, ServedObject(function))


def serve(requests: BinaryIO, answers: BinaryIO, served: ServedObject) -> None:
    """Answer requests until the pipe ends, or a request ends or renews this process."""
    process = os.getpid()
    while True:
        request = read_request(requests)
        if request is None:
            return
        header, data = request
        if header["do"] in ("end", "renew"):
            os._exit(_RENEWED if header["do"] == "renew" else 0)
        arrays: list[Any] = []
        try:
            report, arrays = served.answer(header, data)
        except BaseException as error:
            report = error_report(error)
        exit_if_forked(process)
        send(answers, report, arrays)


def error_report(error: BaseException) -> dict[str, Any]:
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


def become_copy(answers: BinaryIO) -> None:
    """Return in a copy of this process, and in a new copy whenever one ends to be renewed.

    A new copy sends an empty answer. If a copy ends for another reason, this process ends in the
    same way.
    """
    copy = os.fork()
    while copy:
        status = os.waitpid(copy, 0)[1]
        if os.WIFSIGNALED(status):
            os.kill(os.getpid(), os.WTERMSIG(status))
        if os.WEXITSTATUS(status) != _RENEWED:
            os._exit(os.WEXITSTATUS(status))
        copy = os.fork()
        if not copy:
            send(answers, {})
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
    mistyped = type(error) in (AttributeError, TypeError, SyntaxError, IndentationError)
    why = "mistyped" if mistyped else "raised"
    if isinstance(error, ModuleNotFoundError):
        place = target.rpartition(":")[0]
        why = "missing" if f"{place}.".startswith(f"{error.name}.") else "needs"
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
    torch: Any = sys.modules.get("torch")
    try:
        with torch.no_grad() if torch else nullcontext():  # as decoders call
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
    parameters = None
    if signature is not None:
        parameters = [
            {**describe_parameter(each), **described_fields(function, each.annotation)}
            for each in signature.parameters.values()
        ]
    annotations = [] if signature is None else annotations_of(signature)
    return {
        "name": str(getattr(function, "__name__", type(function).__name__)),
        "is_class": is_class,
        "parameters": parameters,
        "frameworks": likely_frameworks(function, innermost(called_part), annotations),
        "loaded": loaded_frameworks(),
    }


def describe_parameter(parameter: inspect.Parameter) -> dict[str, Any]:
    """Describe a parameter of a function, or a field of a record."""
    return {
        "name": parameter.name,
        "kind": parameter.kind.name,
        "annotation": type_name(parameter.annotation),
        "default": None if parameter.default is parameter.empty else repr(parameter.default)[:40],
    }


def record_class(function: Any, annotation: Any) -> Any:
    """Return the dataclass or named tuple that a parameter of a class has, or None."""
    if isinstance(annotation, str):
        annotation = getattr(function.__init__, "__globals__", {}).get(annotation)
    fields = ("__dataclass_fields__", "_fields")
    found = isinstance(function, type) and isinstance(annotation, type)
    return annotation if found and any(hasattr(annotation, name) for name in fields) else None


def described_fields(function: Any, annotation: Any) -> dict[str, Any]:
    """Describe the fields of the record that a parameter has, if it has one."""
    record = record_class(function, annotation)
    if record is None:
        return {}
    return {"fields": list(map(describe_parameter, inspect.signature(record).parameters.values()))}


def make_object(function: Any, header: dict[str, Any], data: bytearray) -> Any:
    """Make an object of a class, with a config of transformers if the class needs one."""
    _, values, _ = make_arguments(BY_NAME[header["library"]], header, data, [])
    for name, fields in header["configs"].items():
        parameter = inspect.signature(function).parameters[name]
        values[name] = make_config(fields, parameter.annotation)
    for name, fields in header["records"].items():
        record = record_class(function, inspect.signature(function).parameters[name].annotation)
        values[name] = result_of_call(record, fields)
    built = result_of_call(function, values)
    if hasattr(built, "training") and callable(getattr(built, "eval", None)):
        built.eval()  # as decoders call modules of torch: without dropout
    return built


def make_config(fields: dict[str, Any], annotation: Any) -> Any:
    """Return a config of transformers for a parameter: the part that its annotation names.

    Without one, it is the text part. If transformers does not know the model type, the annotated
    class makes the config.
    """
    transformers = sys.modules.get("transformers")
    if transformers is None:
        raise Refused("is a class that needs a config, and imports no transformers to make one")
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
    """Return the type that an annotation names; "" if there is none."""
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


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
            array[...] = new
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


class ServedObject:
    """A function, or a class and its last object, and what a caller keeps of a call."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = self._function = loaded
        self._kept: dict[str, list[Any]] = {}

    def answer(self, header: dict[str, Any], data: bytearray) -> tuple[dict[str, Any], list[Any]]:
        """Return the answer to a request, and its arrays."""
        if header["do"] == "call":
            return self._call(header, data)
        if header["do"] == "make":
            self._function = make_object(self._loaded, header, data)
        return describe_function(self._function), []

    def _call(self, header: dict[str, Any], data: bytearray) -> tuple[dict[str, Any], list[Any]]:
        """Call the function with the arrays of a request; return formats and bytes of its results.

        In the report, "made" is the framework of the first array that it returned. The caller keeps
        arrays and results of a "first" call for the same call "again", and "overwritten" says
        whether this changed the first results.
        """
        framework = BY_NAME[header["library"]]
        kept = self._kept if header.get("keep") == "again" else {}
        arguments, named, originals = make_arguments(
            framework, header, data, kept.get("arrays", [])
        )
        values = values_of(result_of_call(self._function, named, arguments))
        if places := header.get("in_place"):
            values = values_left(values, [arguments[place] for place in places])
        else:
            refuse_changed_input(framework, originals)
        results = [as_bytes(value) for value in values]
        parts = [part for _, part in results]
        frameworks = [row.name for row in map(framework_of, values) if row]
        report: dict[str, Any] = {"results": [form for form, _ in results], "made": frameworks[:1]}
        if kept:
            before = [bytes(as_bytes(value)[1]) for value in kept["values"]]
            report["overwritten"] = kept["bytes"] != before
        if header.get("keep") == "first":
            arrays = [array for array, *_ in originals]
            self._kept = {"arrays": arrays, "values": values, "bytes": list(map(bytes, parts))}
        return report, parts


def values_left(returned: list[Any], left: list[Any]) -> list[Any]:
    """Return the values that a function left in its input.

    Raises: Refused if it returned other values.
    """
    returned = [value for value in returned if value is not None]
    parts = [(as_bytes(one), as_bytes(other)) for one, other in zip(returned, left)]
    if any(one[0] != other[0] or bytes(one[1]) != bytes(other[1]) for one, other in parts):
        raise Refused("returned other values than it wrote into its input", why="left")
    return left


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
    try:
        if is_tensor(given):
            return bool(sys.modules["torch"].equal(array, given))
        import numpy

        return bool(numpy.array_equal(as_numpy(array)[0], as_numpy(given)[0]))
    except Exception:  # on another device
        return False


def is_tensor(value: Any) -> bool:
    """Return whether a value is an array of torch."""
    framework = framework_of(value)
    return framework is not None and framework.name == "torch"


def values_of(result: Any) -> list[Any]:
    """Return the values in a result: those of a tuple, or of a list of arrays."""
    several = isinstance(result, tuple) or (
        isinstance(result, list)
        and bool(result)
        and all(hasattr(value, "shape") for value in result)
    )
    return list(result) if several else [result]


def array_from_bytes(
    framework: Framework, data: bytearray | memoryview, given: dict[str, Any]
) -> Any:
    """Make an array from writable bytes: of ``shape``, repeated to ``broadcast``, then ``reshape``.

    torch makes its arrays itself, because NumPy may be missing; others make theirs from NumPy's.

    Raises: what the framework raises if it cannot make such an array.
    """
    of_torch = framework.name == "torch"
    xp = import_module("torch" if of_torch else "numpy")
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


def with_strides(xp: Any, whole: Any, strided: str | None) -> Any:
    """Return an array, or a view of a wider one in which rows or ``columns`` are not adjacent."""
    if not strided:
        return whole
    columns = whole.shape[-1]
    wide = xp.ones((*whole.shape[:-1], 2 * columns), dtype=whole.dtype)
    view = wide[..., ::2] if strided == "columns" else wide[..., :columns]
    view[...] = whole
    return view


def as_bytes(result: Any) -> tuple[dict[str, Any] | None, Any]:
    """Return the number format and shape of a returned array, and its bytes; None for None.

    Raises: Refused if it cannot be read as an array.
    """
    if result is None:
        return None, b""
    try:
        return (
            tensor_bytes(sys.modules["torch"], result) if is_tensor(result) else array_bytes(result)
        )
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
    line = json.dumps(header).encode()
    size = sum(memoryview(part).nbytes for part in arrays)
    try:
        for part in (FRAME % (len(line), size), line, *arrays):
            answers.write(part)
        answers.flush()
    except OSError:
        os._exit(1)


def error_text(error: BaseException) -> str:
    """Return an exception on one line."""
    name, text = type(error).__name__, str(error)
    return (f"{name}: {text}" if text else name).splitlines()[0][:300].strip()
