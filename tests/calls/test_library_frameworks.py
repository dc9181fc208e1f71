"""The library gives arrays of the framework that it was given, inside traced functions too."""

import subprocess
import sys

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.frameworks import BY_NAME, as_numpy, format_name, framework_of

NAMES = ("numpy", "torch", "jax", "mlx", "tinygrad", "array_api_strict")
DIM, COUNT = 8, 5
of_each = pytest.mark.parametrize("framework", NAMES, indirect=True)
of_halves = pytest.mark.parametrize(
    "framework", [name for name in NAMES if BY_NAME[name].halves], indirect=True
)


def vectors(width=DIM):
    return np.random.default_rng(2).standard_normal((2, 3, COUNT, width)).astype(np.float32)


def rotated(x, positions=range(COUNT), sign=1):
    """The rotation of neighbouring pairs by the textbook's formula, in float64."""
    angles = np.outer(positions, 10_000.0 ** (-np.arange(0, DIM, 2) / DIM)) * sign
    out = x.astype(np.float64)
    out[..., 0:DIM:2] = x[..., 0:DIM:2] * np.cos(angles) - x[..., 1:DIM:2] * np.sin(angles)
    out[..., 1:DIM:2] = x[..., 1:DIM:2] * np.cos(angles) + x[..., 0:DIM:2] * np.sin(angles)
    return out


def sinusoids():
    angles = np.outer(range(COUNT), 10_000.0 ** (-np.arange(0, DIM, 2) / DIM))
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(COUNT, DIM)


def check(result, row, wanted, dtype="float32"):
    assert framework_of(result) is row
    assert format_name(result.dtype) == dtype
    allowed = {"float32": 1e-6, "bfloat16": 2.0**-6, "float16": 2.0**-9}[dtype]
    assert np.abs(as_numpy(result)[0] - wanted).max() < allowed * np.abs(wanted).max()


@of_each
@pytest.mark.long
def test_results_are_of_the_framework_that_was_given(framework):
    row, _, make = framework
    x, wide = vectors(), vectors(DIM + 4)
    for positions in (COUNT, make(np.arange(COUNT))):
        check(posenc.rotate(make(x), None, positions, "rope", dim=DIM), row, rotated(x))
    check(posenc.rotate(make(wide), None, COUNT, "rope", dim=DIM), row, rotated(wide))
    check(posenc.apply(make(x), "rope"), row, rotated(x))
    check(posenc.apply(make(x), "sinusoidal"), row, x + sinusoids())
    table = sinusoids()
    check(posenc.encode("sinusoidal", COUNT, dim=DIM, like=make(x)), row, table)
    cos, sin = posenc.tables("rope", COUNT, dim=DIM, like=make(x))
    check(cos, row, table[:, 1::2])
    check(sin, row, table[:, 0::2])
    rates = 10_000.0 ** (-np.arange(0, DIM, 2) / DIM)
    check(posenc.frequencies("rope", dim=DIM, like=make(x)), row, rates)
    scores = (
        -np.abs(np.subtract.outer(range(4), range(4)))[None] / np.array([16, 256])[:, None, None]
    )
    check(posenc.bias("alibi", 4, heads=2, like=make(x)), row, np.tril(scores) + np.triu(scores))
    check(
        posenc.resize(make(np.array([[0.0], [1.0]], np.float32)), 4),
        row,
        [[0], [0.25], [0.75], [1]],
    )


@of_each
@pytest.mark.long
def test_arrays_of_a_framework_are_read(framework):
    _, _, make = framework
    like = make(vectors())
    cos, sin = posenc.tables("rope", 64, dim=DIM, like=like)
    assert posenc.rope_check("rope", tables=(cos, sin), dim=DIM).ok
    assert not posenc.rope_check("rope", tables=(sin, cos), dim=DIM).ok
    assert posenc.identify(cos, sin).match.scheme == "rope"
    assert posenc.compare(like, vectors()).ok
    assert not posenc.compare(make(vectors() + 1), vectors()).ok


@of_halves
@pytest.mark.long
def test_half_precisions_go_by_name(framework):
    row, module, make = framework
    x = vectors()
    for half in row.halves:
        own = row.cast(module, make(x), half)
        assert as_numpy(own)[1] == half
        check(posenc.rotate(own, None, COUNT, "rope", dim=DIM), row, rotated(x), half)
        check(posenc.apply(own, "rope"), row, rotated(x), half)
        table = posenc.encode("rope", 64, dim=DIM, like=own)
        assert format_name(table.dtype) == half
        assert posenc.identify(table).match.rounded == half


def test_bfloat16_of_ml_dtypes_is_numpys():
    kind = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed").bfloat16
    x = vectors().astype(kind)
    for result in (posenc.rotate(x, None, COUNT, "rope", dim=DIM), posenc.apply(x, "rope")):
        check(result, BY_NAME["numpy"], rotated(x.astype(np.float32)), "bfloat16")
    assert posenc.encode("rope", 4, dim=DIM, like=x).dtype == kind


def test_what_gives_bfloat16_is_read_by_its_name():
    kind = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed").bfloat16

    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return vectors().astype(kind)

    values, name = as_numpy(Tensor())
    assert (values.dtype, name) == (np.float32, "bfloat16")
    assert np.array_equal(values, vectors().astype(kind).astype(np.float32))


@pytest.mark.long
def test_a_format_that_a_framework_lacks_is_refused_not_narrowed():
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed")
    with pytest.raises(ValueError, match=r"jax makes float32 of float64 .*jax_enable_x64"):
        posenc.encode("rope", 4, dtype="float64", like=jnp.ones(2))
    with pytest.raises(ValueError, match="out: must be a NumPy array"):
        posenc.encode("rope", 4, dim=2, out=jnp.ones((4, 2)))


def test_what_gives_its_values_is_an_array():
    class Series:
        def __array__(self, dtype=None, copy=None):
            return vectors()

        shape, dtype = vectors().shape, vectors().dtype

    assert posenc.compare(Series(), vectors()).ok
    result = posenc.rotate(Series(), None, COUNT, "rope", dim=DIM)
    check(result, BY_NAME["numpy"], rotated(vectors()))


@pytest.mark.long
def test_rotate_and_apply_work_inside_traced_functions_of_jax():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    x, weights = vectors(), vectors()[::-1].copy()
    ways = {
        "rotate": lambda given: posenc.rotate(given, None, COUNT, "rope", dim=DIM),
        "apply": lambda given: posenc.apply(given, "rope"),
        "sum": lambda given: posenc.apply(given, "sinusoidal"),
    }
    for name, way in ways.items():
        turns = name != "sum"
        check(jax.jit(way)(x), BY_NAME["jax"], rotated(x) if turns else x + sinusoids())
        check(jax.vmap(way)(x), BY_NAME["jax"], rotated(x) if turns else x + sinusoids())
        # Of the sum of weights · R x it is the weights, turned back.
        gradient = jax.grad(lambda given, way=way: (weights * way(given)).sum())(x)
        check(gradient, BY_NAME["jax"], rotated(weights, sign=-1) if turns else weights)
    half = jax.jit(ways["sum"])(jax.numpy.asarray(x, "bfloat16"))
    check(half, BY_NAME["jax"], x + sinusoids(), "bfloat16")
    program = str(jax.make_jaxpr(ways["rotate"])(x))
    assert "cos" not in program  # tables are constants
    assert "callback" not in program
    with pytest.raises(ValueError, match="constants of a traced function"):
        jax.jit(lambda at: posenc.rotate(x, None, at, "rope", dim=DIM))(np.arange(COUNT))


@pytest.mark.long
def test_gradients_flow_through_rotate():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weights = vectors()[::-1].copy()
    x = torch.tensor(vectors(), requires_grad=True)
    (torch.tensor(weights) * posenc.rotate(x, None, COUNT, "rope", dim=DIM)).sum().backward()
    check(x.grad, BY_NAME["torch"], rotated(weights, sign=-1))
    mx = pytest.importorskip("mlx.core", reason="mlx is not installed")

    def loss(given):
        turned = posenc.rotate(given, None, COUNT, "rope", dim=DIM)
        return (mx.array(weights) * turned).sum()

    check(mx.grad(loss)(mx.array(vectors())), BY_NAME["mlx"], rotated(weights, sign=-1))


@pytest.mark.long
def test_no_framework_is_imported_that_the_caller_has_not():
    code = (
        "import sys, numpy, posenc_cli as posenc\n"
        "x = posenc.rotate(numpy.ones((4, 8)), None, 4, 'rope', dim=8)\n"
        "posenc.rope_check('rope', impl=lambda x, positions: x, dim=8)\n"
        "print(*{'torch', 'jax', 'mlx', 'tinygrad', 'array_api_strict'} & {*sys.modules})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")
