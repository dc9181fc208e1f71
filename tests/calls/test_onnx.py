"""ONNX graphs are called as functions of their inputs."""

from __future__ import annotations

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
        assert err.startswith(f"posenc: error: --impl '{name}': cannot be loaded (")
        assert err.splitlines()[1].startswith("hint: a dump always works: ")
        assert err.count("\n") == 2
