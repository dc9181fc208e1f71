"""Vectors with their positions in them: against mpmath in 60 digits, and peers' own vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc_cli as posenc
from posenc_cli.encoding.application import rotated_pair
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.numerics.rounding import narrow, widen

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")
mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")

KINDS = {name: getattr(np, name) for name in ("float64", "float32", "float16")}
DIM = 8


def nearest(value, kind):
    """A 60-digit real as the nearest number of a format: of the three around it."""
    near = kind(float(value))
    with np.errstate(over="ignore"):
        around = [near, *(np.nextafter(near, kind(side)) for side in (-np.inf, np.inf))]
    return min(around, key=lambda one: abs(mpmath.mpf(float(one)) - value))


def turned(x, position, *, dim=DIM, base=10000):
    """RoPE of pairs 2i and 2i + 1, in 60 digits."""
    out = []
    for pair in range(dim // 2):
        angle = position * mpmath.mpf(base) ** (-mpmath.mpf(2 * pair) / dim)
        cos, sin = mpmath.cos(angle), mpmath.sin(angle)
        a, b = (mpmath.mpf(float(x[2 * pair + side])) for side in (0, 1))
        out += [a * cos - b * sin, b * cos + a * sin]
    return out


def added(x, position, *, dim=DIM, base=10000):
    """x plus sines and cosines, in 60 digits."""
    out = []
    for column in range(dim):
        angle = position * mpmath.mpf(base) ** (-mpmath.mpf(column // 2 * 2) / dim)
        wave = mpmath.sin(angle) if column % 2 == 0 else mpmath.cos(angle)
        out.append(mpmath.mpf(float(x[column])) + wave)
    return out


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("scheme", "formula"), [("rope", turned), ("sinusoidal", added)])
@settings(max_examples=25, deadline=None)
@given(position=st.integers(0, 2**53), draw=st.integers(0, 10**6))
def test_every_number_is_the_nearest_to_sixty_digits(scheme, formula, kind, position, draw):
    rng = np.random.default_rng(draw)
    x = (rng.standard_normal((1, DIM)) * 2.0 ** rng.integers(-12, 13)).astype(KINDS[kind])
    y = posenc.apply(x, scheme, [position])
    with mpmath.workdps(60):
        expected = [nearest(value, KINDS[kind]) for value in formula(x[0], position)]
    assert y.dtype == x.dtype
    assert y[0].tolist() == [float(value) for value in expected]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_nearly_cancel_are_the_nearest_too(kind):
    # x is the rounded opposite of what is added, or lies along the line that is turned to 0.
    for position in (1, 77, 10**6, 2**40 + 1):
        table = posenc.encode("rope", [position], dim=DIM, dtype="float64")[0]
        cos, sin = table[: DIM // 2], table[DIM // 2 :]
        x = np.stack([sin, cos], axis=-1).reshape(1, DIM).astype(KINDS[kind])
        minus = -posenc.encode("sinusoidal", [position], dim=DIM, dtype="float64").astype(
            KINDS[kind]
        )
        for scheme, formula, vectors in (("rope", turned, x), ("sinusoidal", added, minus)):
            y = posenc.apply(vectors, scheme, [position])
            with mpmath.workdps(60):
                expected = [nearest(value, KINDS[kind]) for value in formula(vectors[0], position)]
            assert y[0].tolist() == [float(value) for value in expected]


def test_sums_of_whole_numbers_that_are_ties_go_to_the_even_side():
    x = np.array([[2.0**11, 1.0, -0.0, 3.0]] * 4, np.float64)
    y = posenc.apply(x, "integer", dtype="float16")
    assert y[1].tolist() == [2048.0, 2.0, 1.0, 4.0]  # 2049 is a tie of float16
    assert y[3].tolist() == [2052.0, 4.0, 3.0, 6.0]  # 2051 goes up, to an even last bit


def test_columns_that_grow_are_the_nearest_to_what_long_numbers_give():
    x = np.random.default_rng(3).standard_normal((5, DIM))
    y32 = posenc.apply(x, "xpos", range(1000, 1005), dtype="float32", scale_base=512.0)
    y64 = posenc.apply(x, "xpos", range(1000, 1005), scale_base=512.0)
    assert (y64.astype(np.float32) == y32).all()
    plain = posenc.rotate(x, None, range(1000, 1005), "xpos", dim=DIM, scale_base=512.0)
    assert np.allclose(y64, plain, rtol=1e-13, atol=1e-13)
    assert (y64 != plain).any()  # what was rounded on the way is not the nearest everywhere


def rounding_to(form):
    """What rounds float64 to a format and back."""
    return lambda values: widen(narrow(values, None, form), form)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["llama", "llama3", "yarn", "neox", "cohere"])
def test_a_peers_bits_come_out_of_its_tables(name, kind, golden):
    case, arrays = golden("rope_apply_halves")
    stored = REAL_DTYPES[kind]
    x, y, cos, sin = (
        widen(arrays[f"{name}_{kind}_{part}"].view(stored.numpy), stored)
        for part in ("x", "y", "cos", "sin")
    )
    layout = case["cases"][f"{name}_{kind}"]["params"]["layout"]
    pairs = cos.shape[-1] // 2
    first, second = (
        (slice(0, pairs), slice(pairs, 2 * pairs))
        if layout == "half"
        else (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    )

    # Cohere's code turns in float32, and rounds its result once more.
    rounded = rounding_to(REAL_DTYPES["float32"] if name == "cohere" else stored)
    turned = rotated_pair(x[:, first], x[:, second], cos[:, first], sin[:, first], rounded)
    for columns, values in zip((first, second), turned, strict=True):
        assert (rounding_to(stored)(values) == y[:, columns]).all()


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["llama", "neox", "yarn"])
def test_the_arithmetic_of_frameworks_gives_a_peers_bits_where_its_tables_agree(name, kind, golden):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    case, arrays = golden("rope_apply_halves")
    known = case["cases"][f"{name}_{kind}"]
    form = getattr(torch, kind)
    x, y = (
        torch.from_numpy(arrays[f"{name}_{kind}_{part}"].view(np.int16)).view(form)
        for part in ("x", "y")
    )
    ours = posenc.apply(
        x, known["scheme"], arrays["positions"], arithmetic="float32", **known["params"]
    )
    assert ours.dtype == form
    near = arrays["positions"] < 4096  # farther out, angles differ by the last bits of frequencies
    same = (ours == y).numpy()
    assert same[near].mean() > 0.99


def test_float32_arithmetic_is_eager_torchs(golden):
    _, arrays = golden("rope_apply_llama_half")
    q, cos, sin = (arrays[part] for part in ("q", "cos", "sin"))
    half = q.shape[-1] // 2
    rounded, wide = rounding_to(REAL_DTYPES["float32"]), q.astype(np.float64)
    turned = rotated_pair(wide[..., :half], wide[..., half:], cos[:, :half], sin[:, :half], rounded)
    assert (np.concatenate(turned, axis=-1) == arrays["q_out"]).all()


def test_what_is_not_finite_comes_out_as_ieee_arithmetic_has_it():
    x = np.array([[np.nan, 1.0, np.inf, 1.0, 1.0, -np.inf, 0.0, -0.0]] * 3)
    y = posenc.apply(x, "rope")
    with np.errstate(invalid="ignore"):
        plain = posenc.rotate(x, None, 3, "rope", dim=8)
    assert np.array_equal(np.isnan(y), np.isnan(plain))
    assert np.array_equal(np.isposinf(y), np.isposinf(plain))
    assert np.array_equal(np.isneginf(y), np.isneginf(plain))
    z = posenc.apply(x, "sinusoidal")
    assert np.isnan(z[:, 0]).all()
    assert np.isposinf(z[:, 2]).all()


@pytest.mark.long
def test_leading_axes_and_blocks_change_no_number():
    x = np.random.default_rng(0).standard_normal((3, 2, 700, 128)).astype(np.float32)
    y = posenc.apply(x, "rope")
    for place in np.ndindex(3, 2):
        assert (y[place] == posenc.apply(x[place], "rope")).all()
    assert (y[0, 0, 650:] == posenc.apply(x[0, 0, 650:], "rope", range(650, 700))).all()


def test_bfloat16_is_rounded_once():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.randn(40, 16, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    y = posenc.apply(x, "rope")
    wide = posenc.apply(x.double().numpy(), "rope")
    assert y.dtype == torch.bfloat16
    assert (y.float().numpy() == wide.astype(ml_dtypes.bfloat16).astype(np.float32)).all()
