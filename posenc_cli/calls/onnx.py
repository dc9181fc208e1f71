"""An ONNX graph as a function of its inputs, run by onnxruntime or onnx's reference evaluator.

It runs where a user's code does, in any Python from 3.8 on: it needs nothing of posenc.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_KINDS = {"float": "float32", "double": "float64"}
"""What ONNX calls number formats that NumPy has by other names."""


def onnx_function(file: str) -> Callable[..., Any]:
    """The graph in a file, as a function that has its inputs as parameters, in order.

    Integers and float32 become what an input takes; other formats have to be the input's own. An
    input of packed heads (batch, rows, heads · d) is given vectors (batch, heads, rows, d), as many
    heads at a time as the graph has.

    Raises: ModuleNotFoundError where neither library is installed; what they raise.
    """
    import numpy

    session, inputs = _session(file)
    parameters = [re.sub(r"\W", "_", name) for name in inputs]
    signature = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in parameters]
    )

    def run(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named).arguments
        given = {name: numpy.asarray(bound[own]) for name, own in zip(inputs, parameters)}
        packed = [name for name, (_, sizes) in inputs.items() if len(sizes) == 3]
        shape = next((given[name].shape for name in packed if given[name].ndim == 4), None)
        heads = _heads(file, inputs[packed[0]][1][2], shape[3]) if shape else 0
        if shape:
            given = {name: _packed(values, heads, shape) for name, values in given.items()}
        for name, (kind, _) in inputs.items():
            values = given[name]
            if values.dtype.kind in "iu" or values.dtype == "float32":
                given[name] = values.astype(kind)
        results = session.run(None, given)
        if shape:
            results = [_unpacked(result, heads, shape) for result in results]
        return results[0] if len(results) == 1 else tuple(results)

    run.__name__ = "graph"
    vars(run)["__signature__"] = signature
    return run


def _session(file: str) -> tuple[Any, dict[str, tuple[str, list[Any]]]]:
    """What runs a graph, and of each input, by name, the number format and the sizes of its axes.

    A size is no number where it may be any.
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
    options.log_severity_level = 4  # what fails is raised as well
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    texts = {given.name: given.type.split("(")[1].rstrip(")") for given in session.get_inputs()}
    shapes = [given.shape for given in session.get_inputs()]
    return session, {
        name: (_KINDS.get(text, text), shape) for (name, text), shape in zip(texts.items(), shapes)
    }


def _heads(file: str, width: Any, columns: int) -> int:
    """How many heads of some columns a graph packs: by its input's width, else its node's number.

    Raises: ValueError where neither says it, ModuleNotFoundError where onnx is not installed.
    """
    if isinstance(width, int):
        return max(1, width // columns)
    nodes = import_module("onnx").load(file).graph.node
    found = [own.i for node in nodes for own in node.attribute if own.name == "num_heads" and own.i]
    if not found:
        raise ValueError("the graph packs heads, and says not how many")
    return int(found[0])


def _packed(values: Any, heads: int, shape: tuple[int, ...]) -> Any:
    """Vectors (b, h, n, d) as (b · k, n, heads · d), h padded to k · heads; others k times."""
    import numpy

    batch, count, rows, columns = shape
    times = -(-count // heads)
    if values.ndim == 4:
        whole = numpy.zeros((batch, times * heads, rows, columns), values.dtype)
        whole[:, :count] = values
        whole = whole.reshape(-1, heads, rows, columns).swapaxes(1, 2)
        return whole.reshape(-1, rows, heads * columns)
    of_sequences = values.ndim == 3 or (values.ndim == 2 and values.dtype.kind in "iu")
    return values.repeat(times, axis=0) if of_sequences else values


def _unpacked(values: Any, heads: int, shape: tuple[int, ...]) -> Any:
    """The vectors that a graph returned, as the ones it was given. Shape: (b, h, n, d)."""
    batch, count, rows, columns = shape
    whole = values.reshape(-1, rows, heads, columns).swapaxes(1, 2)
    return whole.reshape(batch, -1, rows, columns)[:, :count]
