"""ONNX graphs are called as functions of their inputs."""

import json
import sys

import numpy as np
import pytest

from posenc_cli.calls.onnx import onnx_function

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
ASKED = ("rope-check", "--scheme", "rope", "--set", "dim=8", "--len", "16", "--format", "json")


def write(name, *, given=False, sign=1, kind="FLOAT", domain="", packed=(), **attributes):
    """A graph of one RotaryEmbedding, whose tables are its own or inputs.

    ``packed`` is the width of packed heads, None where it may be any.
    """
    from onnx import TensorProto, helper, numpy_helper

    form = getattr(TensorProto, kind)
    axes = [None] * 4 if packed == () else [None, None, packed]
    inputs = [helper.make_tensor_value_info("X", form, axes)]
    places = helper.make_tensor_value_info("position_ids", TensorProto.INT64, [None, None])
    angles = np.outer(np.arange(512), 10_000.0 ** (-np.arange(0, 8, 2) / 8))
    tables = {"cos_cache": np.cos(angles), "sin_cache": sign * np.sin(angles)}
    dtype = helper.tensor_dtype_to_np_dtype(form)
    stored = [numpy_helper.from_array(table.astype(dtype), key) for key, table in tables.items()]
    if given:
        inputs += [helper.make_tensor_value_info(key, form, [None, None]) for key in tables]
        stored = []
    order = ["X", "position_ids", *tables] if domain else ["X", *tables, "position_ids"]
    node = helper.make_node("RotaryEmbedding", order, ["Y"], domain=domain, **attributes)
    output = helper.make_tensor_value_info("Y", form, axes)
    graph = helper.make_graph([node], "rope", [*inputs, places], [output], stored)
    versions = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=versions, ir_version=10), name)


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("graph", "layout", "ok"),
    [
        ({}, "half", True),
        ({"given": True}, "half", True),
        ({"interleaved": 1}, "interleaved", True),
        ({"interleaved": 1}, "half", False),
        ({"sign": -1}, "half", False),
        ({"kind": "FLOAT16"}, "half", True),
        ({"packed": 24, "num_heads": 3}, "half", True),
        ({"packed": None, "num_heads": 4, "given": True}, "half", True),
        ({"packed": None, "num_heads": 4, "sign": -1}, "half", False),
        ({"domain": "com.microsoft"}, "half", True),
        ({"domain": "com.microsoft", "sign": -1}, "half", False),
    ],
)
def test_a_graph_of_a_rotary_node_is_checked(graph, layout, ok, call, tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    write(tmp_path / "rope.onnx", **graph)
    words = (*ASKED, "--set", f"layout={layout}", "--impl", "./rope.onnx")
    status, out, err = call(*words, *(["--tol", "float16"] if "kind" in graph else []))
    assert status == (0 if ok else 1), err
    report = json.loads(out)
    if not ok:
        assert report["diagnosis"][0]["cause"] == ("direction" if "sign" in graph else "layout")


def test_onnx_evaluates_a_graph_where_onnxruntime_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    write(tmp_path / "rope.onnx", given=True)
    x = np.arange(24, dtype=np.float32).reshape(1, 1, 3, 8)
    angles = np.outer(np.arange(4), 10_000.0 ** (-np.arange(0, 8, 2) / 8))
    cos, sin = (table.astype(np.float32) for table in (np.cos(angles), np.sin(angles)))
    places = np.array([[1, 2, 3]], np.int32)
    run = onnx_function(str(tmp_path / "rope.onnx"))
    found = run(x, cos_cache=cos, sin_cache=sin, position_ids=places)
    a, b, cos, sin = x[..., :4], x[..., 4:], cos[1:], sin[1:]
    wanted = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    assert np.abs(found - wanted).max() < 1e-5


@pytest.mark.long
def test_a_graph_that_cannot_be_read_is_told_in_one_line(call, tmp_path):
    (tmp_path / "rope.onnx").write_bytes(b"no graph")
    for name in ("rope.onnx", "absent.onnx"):
        status, out, err = call(*ASKED, "--impl", name)
        assert (status, out) == (2, "")
        assert err.startswith(f"posenc: error: --impl '{name}' cannot be loaded (")
        assert err.splitlines()[1].startswith("hint: save its values: ")
        assert err.count("\n") == 2


def graph_of_nodes(name, nodes, inputs, outputs, constants=()):
    """A graph of nodes, whose inputs and outputs are given by name as (format, axes)."""
    from onnx import TensorProto, helper

    values = [
        [
            helper.make_tensor_value_info(key, getattr(TensorProto, kind), axes)
            for key, kind, axes in each
        ]
        for each in (inputs, outputs)
    ]
    made = helper.make_graph(nodes, "rope", *values, list(constants))
    versions = [helper.make_opsetid("", 23)]
    onnx.save(helper.make_model(made, opset_imports=versions, ir_version=10), name)


TABLES = [
    ("cos_cache", "FLOAT", ["m", 4]),
    ("sin_cache", "FLOAT", ["m", 4]),
    ("position_ids", "INT64", ["b", "n"]),
]


def rotating(given, made, heads, *, tables=("cos_cache", "sin_cache", "position_ids"), **words):
    from onnx import helper

    words = {"interleaved": 1, "num_heads": heads, **words}
    return helper.make_node("RotaryEmbedding", [given, *tables], [made], **words)


def packed(name, width):
    return name, "FLOAT", ["b", "n", width]


def grouped(name, *, of_k=2, widths=(64, 16), **words):
    """A graph of 8 query heads and 2 key heads of 8 columns, packed; ``words`` are of k's node."""
    nodes = [rotating("q", "q_out", 8), rotating("k", "k_out", of_k, **words)]
    inputs = [packed("q", widths[0]), packed("k", widths[1]), *TABLES]
    graph_of_nodes(name, nodes, inputs, [packed("q_out", widths[0]), packed("k_out", widths[1])])


def cosines_first(name, **words):
    """A graph whose first inputs are cosines and sines of each row, of three axes as x has."""
    node = rotating("x", "y", 4, tables=("cos", "sin"), **words)
    tables = [("cos", "FLOAT", ["b", "n", 4]), ("sin", "FLOAT", ["b", "n", 4])]
    graph_of_nodes(name, [node], [*tables, packed("x", 32)], [packed("y", 32)])


@pytest.mark.long
@pytest.mark.parametrize("runtime", ["onnxruntime", "onnx"])
@pytest.mark.parametrize(
    ("graph", "ok"),
    [
        (grouped, True),
        (lambda name: grouped(name, widths=("qd", "kd")), True),
        (lambda name: grouped(name, interleaved=0), False),
        (cosines_first, True),
        (lambda name: cosines_first(name, interleaved=0), False),
    ],
)
def test_each_input_has_its_own_heads_and_its_role_by_name(
    graph, ok, runtime, monkeypatch, tmp_path
):
    if runtime == "onnxruntime":
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    else:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    graph(tmp_path / "rope.onnx")
    run = onnx_function(str(tmp_path / "rope.onnx"))
    draw = np.random.default_rng(0).standard_normal
    x = {name: draw((2, 3, 5, 8)).astype("f4") for name in ("q", "k", "x")}
    angles = np.outer(np.arange(5), 10_000.0 ** (-np.arange(0, 8, 2) / 8))
    cos, sin = np.cos(angles).astype("f4"), np.sin(angles).astype("f4")
    of_rows = np.broadcast_to(cos, (2, 5, 4)), np.broadcast_to(sin, (2, 5, 4))
    given = {"cos_cache": cos, "sin_cache": sin, "position_ids": np.tile(np.arange(5), (2, 1))}
    given |= {"cos": of_rows[0], "sin": of_rows[1], **x}
    found = run(**{name: given[name] for name in run.__signature__.parameters})
    for name, y in zip("qk", found, strict=True) if isinstance(found, tuple) else [("x", found)]:
        a, b = x[name][..., ::2], x[name][..., 1::2]
        wanted = np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(y.shape)
        assert (np.abs(y - wanted).max() < 1e-5) == (ok or name == "q"), name


def reshaped(name):
    """A graph that splits heads by a Reshape, of a width that is not fixed."""
    from onnx import helper, numpy_helper

    shapes = {"split": [0, 0, 4, 8], "joined": [0, 0, 32]}
    nodes = [
        helper.make_node("Reshape", ["x", "split"], ["rows"]),
        helper.make_node("Transpose", ["rows"], ["heads"], perm=[0, 2, 1, 3]),
        rotating("heads", "turned", 0),
        helper.make_node("Transpose", ["turned"], ["back"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["back", "joined"], ["y"]),
    ]
    constants = [numpy_helper.from_array(np.array(shape), key) for key, shape in shapes.items()]
    inputs = [packed("x", "w"), *TABLES]
    graph_of_nodes(name, nodes, inputs, [packed("y", "w")], constants)


def in_bfloat16(name):
    from onnx import helper

    axes = ["b", "h", "n", 8]
    node = helper.make_node("Identity", ["x"], ["y"])
    inputs = [("x", "BFLOAT16", axes), ("position_ids", "INT64", ["b", "n"])]
    graph_of_nodes(name, [node], inputs, [("y", "BFLOAT16", axes)])


@pytest.mark.long
@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (reshaped, "the number of heads in its input x is not known"),
        (in_bfloat16, "its input x is of bfloat16, which NumPy lacks"),
    ],
)
def test_a_graph_that_posenc_cannot_call_is_told_as_posencs_limit(graph, said, call, tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    graph(tmp_path / "rope.onnx")
    status, out, err = call(*ASKED, "--impl", "./rope.onnx")
    assert (status, out) == (2, "")
    start = f"posenc: error: --impl './rope.onnx' cannot be called by posenc: {said}"
    assert err.startswith(start), err
