"""An ONNX graph as a function of its inputs, run by onnxruntime or onnx's reference evaluator.

It runs where a user's code does, in any Python from 3.8 on: it needs nothing of posenc.
"""

from __future__ import annotations

import inspect
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_KINDS = {"float": "float32", "double": "float64"}
"""What ONNX calls number formats that NumPy has by other names."""


def onnx_function(file: str) -> Callable[..., Any]:
    """The graph in a file, as a function that has its inputs as parameters, in order.

    Integers and float32 become what an input takes; other formats have to be the input's own.

    Raises: ModuleNotFoundError where neither library is installed; what they raise.
    """
    import numpy

    session, types = _session(file)
    parameters = [re.sub(r"\W", "_", name) for name in types]
    signature = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in parameters]
    )

    def run(*arguments: Any, **named: Any) -> Any:
        given = signature.bind(*arguments, **named).arguments
        feed = {}
        for (name, kind), parameter in zip(types.items(), parameters):
            values = numpy.asarray(given[parameter])
            taken = values.dtype.kind in "iu" or values.dtype == "float32"
            feed[name] = values.astype(kind) if taken else values
        results = session.run(None, feed)
        return results[0] if len(results) == 1 else tuple(results)

    run.__name__ = "graph"
    vars(run)["__signature__"] = signature
    return run


def _session(file: str) -> tuple[Any, dict[str, str]]:
    """What runs a graph, and the number formats of its inputs by their names."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        from onnx.helper import tensor_dtype_to_np_dtype
        from onnx.reference import ReferenceEvaluator

        graph = ReferenceEvaluator(file)
        kinds = [given.tensor_type.elem_type for given in graph.input_types]
        formats = [str(tensor_dtype_to_np_dtype(kind)) for kind in kinds]
        return graph, dict(zip(graph.input_names, formats))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what fails is raised as well
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    texts = {given.name: given.type.split("(")[1].rstrip(")") for given in session.get_inputs()}
    return session, {name: _KINDS.get(text, text) for name, text in texts.items()}
