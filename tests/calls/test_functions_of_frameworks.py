"""Functions of each framework are called with its arrays: right ones pass and wrong ones fail."""

import json
import os
import sys

import pytest

from posenc_cli import frameworks
from posenc_cli.calls import worker
from posenc_cli.calls.onnx import Refused

MLX = """
import mlx.core as mx
import mlx.nn as nn

def turned(x, positions):
    rates = 1.0 / 10000.0 ** (mx.arange(0, 8, 2) / 8)
    angles = positions[:, None] * rates[None]
    cos, sin = mx.cos(angles).astype(x.dtype), mx.sin(angles).astype(x.dtype)
    a, b = x[..., :4], x[..., 4:]
    return mx.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

def count(n, offset): return mx.arange(n) + offset

def coarse(x, positions): return turned(x, positions.astype(x.dtype))

half, interleaved, RoPE = nn.RoPE(8), nn.RoPE(8, traditional=True), nn.RoPE

class Scaled(nn.Module):
    def __call__(self, x, offset=0): return half(x * 1, offset)

scaled = Scaled()

def fast(x, offset=0):
    return mx.fast.rope(x, 8, traditional=False, base=10000.0, scale=1.0, offset=offset)

def fast_still(x, offset=0):
    return mx.fast.rope(x, 8, traditional=False, base=10000.0, scale=1.0, offset=0)

def fast_base(x, offset=0):
    return mx.fast.rope(x, 8, traditional=False, base=500000.0, scale=1.0, offset=offset)
"""
JAX = """
import jax
import jax.numpy as jnp

def turned(x, positions):
    rates = 1.0 / 10000.0 ** (jnp.arange(0, 8, 2) / 8)
    angles = positions[:, None] * rates[None]
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    a, b = x[..., :4], x[..., 4:]
    return x.at[..., :4].set(a * cos - b * sin).at[..., 4:].set(b * cos + a * sin)

def count(n, offset): return jnp.arange(n) + offset

turned = jax.jit(turned)
"""
TINYGRAD = """
from tinygrad import Tensor

def turned(x, positions):
    rates = 10000.0 ** (-(Tensor.arange(0, 8, 2) / 8))
    angles = positions.reshape(-1, 1) * rates.reshape(1, -1)
    cos, sin = angles.cos().cast(x.dtype), angles.sin().cast(x.dtype)
    a, b = x[..., :4], x[..., 4:]
    return (a * cos - b * sin).cat(b * cos + a * sin, dim=-1)

def count(n, offset): return Tensor.arange(n) + offset
"""
STRICT = """
import array_api_strict as xp

def turned(x, positions):
    rates = 1.0 / 10000.0 ** (xp.arange(0, 8, 2, dtype=xp.float32) / 8)
    angles = xp.astype(positions, xp.float32)[:, None] * rates[None, :]
    cos, sin = xp.cos(angles), xp.sin(angles)
    a, b = x[..., :4], x[..., 4:]
    return xp.concat([a * cos - b * sin, b * cos + a * sin], axis=-1)

def count(n, offset): return xp.arange(n) + offset
"""
CALLED = """
def rows(x, positions):
    assert len(x.shape) == 2
    return turned(x, positions)

def heads(x, offset=0):
    assert len(x.shape) == 3
    return turned(x, count(x.shape[-2], offset))

def both(q, k, positions):
    assert len(q.shape) == len(k.shape) == 4
    return turned(q, positions), turned(k, positions)

def both_late(q, k, positions):
    return turned(q, positions), turned(k, positions + 1)
"""
"""Of ranks 2, 3 and 4, the last beside a wrong one."""

SOURCES = {
    "mlx.core": MLX,
    "jax": JAX,
    "tinygrad": TINYGRAD,
    "array_api_strict": STRICT,
}
CASES = [
    *(("mlx.core", name, ok) for name, ok in (("half", True), ("fast", True), ("RoPE", True))),
    *(("mlx.core", name, ok) for name, ok in (("scaled", True), ("interleaved", False))),
    *(("mlx.core", name, ok) for name, ok in (("fast_still", False), ("fast_base", False))),
    *(
        (module, name, ok)
        for module in SOURCES
        for name, ok in (*(("rows", True), ("heads", True), ("both", True), ("both_late", False)),)
    ),
]
ASKED = ("rope-check", "--scheme", "rope", "--set", "dim=8", "--format", "json")


def checked(call, name, *, layout="half", length=16):
    words = ("--set", f"layout={layout}", "--len", str(length))
    status, out, err = call(*ASKED, *words, "--impl", f"./mine.py:{name}")
    assert status in (0, 1), err
    return json.loads(out)


@pytest.fixture
def module(request, monkeypatch):
    """A module. Tinygrad's device in Python takes 16 s for the 65,600 rows that others get."""
    if request.param == "tinygrad" and os.environ.get("DEV") == "PYTHON":
        monkeypatch.setattr("posenc_cli.calls.patterns.LONG", 1024)
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name", "ok"), CASES, indirect=["module"])
def test_right_functions_pass_and_wrong_ones_fail(module, name, ok, call, tmp_path):
    pytest.importorskip(module, reason=f"{module} is not installed")
    (tmp_path / "mine.py").write_text(SOURCES[module] + CALLED)
    report = checked(call, name)
    assert report["ok"] is ok
    assert report["subject"]["call"]["library"] == module.partition(".")[0]


@pytest.mark.long
@pytest.mark.parametrize("name", ["fast", "fast_still"])
def test_a_function_of_mlx_is_called_with_its_arrays(name, call, tmp_path):
    pytest.importorskip("mlx.core", reason="mlx is not installed")
    (tmp_path / "mine.py").write_text(MLX)
    report = checked(call, name)
    assert report["ok"] is (name == "fast")
    assert report["subject"]["call"]["library"] == "mlx"


@pytest.mark.long
def test_a_class_of_mlx_is_made_in_the_layout_of_the_reference(call, tmp_path):
    pytest.importorskip("mlx.core", reason="mlx is not installed")
    (tmp_path / "mine.py").write_text(MLX)
    assert checked(call, "RoPE", layout="interleaved")["ok"]


@pytest.mark.long
def test_positions_in_bfloat16_are_found_in_mlx(call, tmp_path):
    pytest.importorskip("mlx.core", reason="mlx is not installed")
    (tmp_path / "mine.py").write_text(MLX)
    assert checked(call, "turned", length=512)["ok"]
    report = checked(call, "coarse", length=512)
    assert not report["ok"]
    assert report["diagnosis"][0]["cause"] == "position-precision"


BY_ANY = STRICT.replace("import array_api_strict as xp", "").replace("positions)", "positions, xp)")
LAZY = (
    BY_ANY
    + """
def rope(x, positions):
    import array_api_strict as xp
    return turned(x, positions, xp)
"""
)
TAKES_ANY = (
    BY_ANY
    + """
def rope(x, positions):
    import array_api_strict as xp
    import numpy as np
    if not isinstance(x, np.ndarray):
        return turned(x, positions, xp)
    return xp.asarray(np.asarray(turned(xp.asarray(x), xp.asarray(positions), xp)) + 1)
"""
)


@pytest.mark.long
@pytest.mark.parametrize("source", [LAZY, TAKES_ANY], ids=["tried", "returned"])
def test_a_framework_that_the_function_itself_imports_is_found(source, call, tmp_path):
    # Nothing tells of it before a call: then it is loaded, or what comes back is of it.
    pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    (tmp_path / "mine.py").write_text(source)
    report = checked(call, "rope")
    assert report["ok"]
    assert report["subject"]["call"]["library"] == "array_api_strict"


@pytest.fixture
def loaded(monkeypatch):
    """Modules of two frameworks, as if they were loaded."""
    kind = type(sys)
    mx, torch = kind("mlx.core"), kind("torch")
    mx.array = type("array", (), {"__module__": "mlx.core"})
    torch.Tensor = type("Tensor", (), {"__module__": "torch"})
    monkeypatch.setitem(sys.modules, "mlx.core", mx)
    monkeypatch.setitem(sys.modules, "torch", torch)
    for row in frameworks.FRAMEWORKS:
        if row.name not in ("mlx", "torch", "numpy"):
            monkeypatch.delitem(sys.modules, row.module, raising=False)
    return {"mx": mx, "torch": torch, "Tensor": torch.Tensor}


@pytest.mark.parametrize(
    ("code", "likely"),
    [
        ("def f(x): return x", ["mlx", "numpy", "torch"]),  # both modules: by the table's order
        ("def f(x: mx.array): return torch.cos(x)", ["mlx", "torch"]),
        ("def f(x: 'mx.array'): return torch.cos(x)", ["mlx", "torch"]),
        ("def f(x: 'Tensor | None') -> Tensor: return mx.cos(x)", ["torch", "mlx"]),
        ("def f(x): return mx.cos(x)", ["mlx", "torch"]),
        ("def f(x): return [torch.cos(y) for y in x]", ["torch", "mlx"]),
        ("class T(mx.array):\n def __call__(self, x): return x\nf = T()", ["mlx", "torch"]),
        ("class T:\n def forward(self, x): return mx.cos(x)\nf = T()", ["mlx", "torch"]),
    ],
)
def test_the_framework_of_a_function_is_told_by_its_code(code, likely, loaded):
    exec(code, loaded)
    found = worker.describe_function(loaded["f"])["frameworks"]
    wanted = ["torch", "mlx", "numpy"] if code == "def f(x): return x" else [*likely, "numpy"]
    assert found == wanted


def test_a_function_of_neither_is_tried_with_numpy_and_then_torch(loaded):
    found = worker.describe_function(json.loads)["frameworks"]
    assert found == ["numpy", "torch"]


def test_what_posenc_cannot_make_is_no_error_of_the_function(monkeypatch):
    def fails(*_):
        raise RuntimeError("no usable devices")

    row = frameworks.BY_NAME["jax"]._replace(module="numpy", make=fails)
    monkeypatch.setitem(frameworks.BY_NAME, "jax", row)
    given = {"dtype": "float32", "shape": [2], "broadcast": [2], "reshape": [2], "bytes": 8}
    header = {"library": "jax", "arguments": [given], "named": {}, "in_place": []}
    with pytest.raises(Refused) as refused:
        worker.call_function(lambda x: x, header, bytes(8))
    assert str(refused.value) == (
        "cannot be given arrays of jax here (RuntimeError: no usable devices)"
    )


@pytest.mark.long
def test_functions_of_torch_are_called_without_gradients_as_decoders_call_them(call, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def f(x, positions):\n"
        "    places = positions + (not torch.is_grad_enabled())\n"
        "    rates = 1e4 ** -(torch.arange(0, 32, 2, dtype=torch.float64) / 32)\n"
        "    angles = places.double()[..., None] * rates\n"
        "    angles = torch.cat((angles, angles), -1)\n"
        "    cos, sin = angles.cos().float(), angles.sin().float()\n"
        "    half = torch.cat((-x[..., 16:], x[..., :16]), -1)\n"
        "    return (x * cos + half * sin).to(x.dtype)\n"
    )
    asked = ("rope-check", "-s", "rope", "-d", "32", "--layout", "half", "--len", "64", "--json")
    status, out, _ = call(*asked, "--impl", "mine.py:f")
    why = json.loads(out)["diagnosis"][0]
    assert (status, why["cause"], why["message"]) == (
        1,
        "position-offset",
        "positions are shifted by +1",
    )
