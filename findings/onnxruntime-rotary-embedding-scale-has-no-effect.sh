#!/usr/bin/env bash
# Seen: onnxruntime 1.32.0 (CPU) with onnx 1.23.2 and numpy 2.4.6, on 2026-11-28
#
# Behaviour: the attribute scale of com.microsoft's RotaryEmbedding is accepted and has no effect:
# 0.5 and 100 give the bits that 1 gives.
# Expected: scale multiplies positions or the output.
#
# Output:
#   bit-equal to no scale: {1.0: True, 0.5: True, 100.0: True}
#   bit-equal with another attribute, interleaved=1: False
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper


def rotated(**attributes):
    inputs, domain = ["x", "p", "c", "s"], "com.microsoft"
    node = helper.make_node("RotaryEmbedding", inputs, ["y"], domain=domain, **attributes)
    shapes = {"x": (1, 2, 4, 8), "p": (1,), "c": (16, 4), "s": (16, 4)}
    kinds = {"p": TensorProto.INT64}
    values = [
        helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
        for name, shape in {**shapes, "y": shapes["x"]}.items()
    ]
    graph = helper.make_graph([node], "rotary", values[:4], values[4:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    angles = np.outer(np.arange(16), 10000.0 ** (-np.arange(4) / 4))
    tables = {"c": np.cos(angles).astype(np.float32), "s": np.sin(angles).astype(np.float32)}
    x = np.arange(1, 65, dtype=np.float32).reshape(shapes["x"])
    return session.run(None, {"x": x, "p": np.array([1]), **tables})[0]


plain = rotated()
same = {scale: np.array_equal(rotated(scale=scale), plain) for scale in (1.0, 0.5, 100.0)}
layout = np.array_equal(rotated(interleaved=1), plain)
print("bit-equal to no scale:", same)
print("bit-equal with another attribute, interleaved=1:", layout)
try:
    assert all(same.values()), "scale has an effect now"
    assert not layout, "interleaved has no effect now"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY
