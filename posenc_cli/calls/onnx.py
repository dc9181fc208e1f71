"""Load an ONNX graph as a function of its inputs, run by onnxruntime or onnx's reference evaluator.

It runs in the user's environment, in any Python from 3.8 on, and needs nothing else of posenc.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any, Callable

TYPE_CHECKING = False

_KINDS = {"float": "float32", "double": "float64"}
"""ONNX's names of number formats that NumPy names differently."""

_TABLES = r"(?i)(^|[^a-z])(cos|sin)"
"""A pattern of names of inputs for cosines or sines."""


class Refused(Exception):
    """A call or a function that cannot be used, with a message.

    ``why`` is ``mistyped`` (its name or code), ``missing`` (its own module), ``needs`` (another
    module), ``changed`` (its input), ``left`` (other values in its input than it returned),
    ``returned`` (an invalid result), ``raised`` (an error), ``misused`` (an error of types), or
    ``own`` (a limit of posenc).
    """

    def __init__(self, message: str, *, why: str = "returned") -> None:
        super().__init__(message)
        self.why = why


def onnx_function(file: str) -> Callable[..., Any]:
    """Return the graph in a file as a function whose parameters are its inputs, in order.

    Integers and float32 are converted to an input's format; other formats have to match. An input
    of packed heads (batch, rows, heads · d), unless its name says cosines or sines, takes vectors
    (batch, heads, rows, d), as many heads at a time as it has.

    Raises: ModuleNotFoundError if neither library is installed; what they raise; Refused for a
        number format that NumPy lacks.
    """
    import numpy

    session, inputs = _session(file)
    for name, (kind, _) in inputs.items():
        if kind.startswith(("bfloat", "float8", "float4")):
            words = f"cannot be called by posenc: its input {name} is of {kind}, which NumPy lacks"
            raise Refused(words, why="own")
    parameters = [re.sub(r"\W", "_", name) for name in inputs]
    signature = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in parameters]
    )

    def run(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named).arguments
        given = {
            name: numpy.asarray(bound[parameter]) for name, parameter in zip(inputs, parameters)
        }
        heads = {
            name: _head_count(file, name, sizes[2], given[name].shape[3])
            for name, (_, sizes) in inputs.items()
            if len(sizes) == 3 and given[name].ndim == 4 and not re.search(_TABLES, name)
        }
        shapes = [given[name].shape for name in heads]
        times = max((-(-given[name].shape[1] // count) for name, count in heads.items()), default=1)
        if heads:
            given = {
                name: _pack(values_of_input, heads.get(name), times)
                for name, values_of_input in given.items()
            }
        for name, (kind, _) in inputs.items():
            values = given[name]
            if values.dtype.kind in "iu" or values.dtype == "float32":
                given[name] = values.astype(kind)
        results = session.run(None, given)
        if heads:
            shapes += shapes[-1:] * len(results)
            results = [_unpack(result, shape, times) for result, shape in zip(results, shapes)]
        return results[0] if len(results) == 1 else tuple(results)

    run.__name__ = "graph"
    vars(run)["__signature__"] = signature
    return run


def _session(file: str) -> tuple[Any, dict[str, tuple[str, list[Any]]]]:
    """Return a graph's session, and the number format and axis sizes of each input by name.

    A size is not a number if it may be any.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError:
        from onnx.helper import tensor_dtype_to_np_dtype
        from onnx.reference import ReferenceEvaluator

        graph = ReferenceEvaluator(file)
        kinds = [given.tensor_type for given in graph.input_types]
        formats = [str(tensor_dtype_to_np_dtype(kind.elem_type)) for kind in kinds]
        sizes = [[axis.dim_value or None for axis in kind.shape.dim] for kind in kinds]
        return graph, dict(zip(graph.input_names, zip(formats, sizes)))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised anyway
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    texts = {given.name: given.type.split("(")[1].rstrip(")") for given in session.get_inputs()}
    shapes = [given.shape for given in session.get_inputs()]
    return session, {
        name: (_KINDS.get(text, text), shape) for (name, text), shape in zip(texts.items(), shapes)
    }


def _head_count(file: str, name: str, width: Any, columns: int) -> int:
    """Return how many heads of some columns an input packs: from its width, or from its node.

    Raises: Refused if neither gives it, or if onnx, which reads nodes, is not installed.
    """
    if isinstance(width, int):
        return max(1, width // columns)
    try:
        nodes, unread = import_module("onnx").load(file).graph.node, ""
    except ModuleNotFoundError:
        nodes, unread = [], " (posenc reads its nodes if the package onnx is installed)"
    found = [
        attribute.i
        for node in nodes
        for attribute in node.attribute
        if name in node.input
        if attribute.name == "num_heads" and attribute.i
    ]
    if not found:
        raise Refused(
            f"cannot be called by posenc: the number of heads in its input {name} is not known, "
            f"because its width is not fixed and its node has no num_heads{unread}",
            why="own",
        )
    return int(found[0])


def _pack(values: Any, heads: int | None, times: int) -> Any:
    """Return vectors (b, h, n, d) as (b · times, n, heads · d), with zeros for missing heads.

    If ``heads`` is None, the values are not vectors, and each sequence of them is repeated.
    """
    import numpy

    if heads is None:
        of_sequences = values.ndim == 3 or (values.ndim == 2 and values.dtype.kind in "iu")
        return values.repeat(times, axis=0) if of_sequences else values
    batch, count, rows, columns = values.shape
    whole = numpy.zeros((batch, times * heads, rows, columns), values.dtype)
    whole[:, :count] = values
    whole = whole.reshape(-1, heads, rows, columns).swapaxes(1, 2)
    return whole.reshape(-1, rows, heads * columns)


def _unpack(values: Any, shape: tuple[int, ...], times: int) -> Any:
    """Return the vectors of a graph's result in the shape of its input. Shape: (b, h, n, d).

    Raises: Refused if it did not return vectors of packed heads.
    """
    batch, count, rows, columns = shape
    heads = values.shape[-1] // columns if values.ndim == 3 else 0
    if values.shape != (batch * times, rows, heads * columns) or heads * times < count:
        raise Refused(f"returned the shape {values.shape} for packed heads")
    whole = values.reshape(-1, rows, heads, columns).swapaxes(1, 2)
    return whole.reshape(batch, -1, rows, columns)[:, :count]
