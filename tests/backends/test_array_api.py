"""Schemes keep to the array API standard: its strict implementation runs their formulas.

Strict arrays refuse what the standard leaves open: mixed kinds, integers divided, other names.
"""

from contextlib import suppress

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.catalogue import BUILT_IN
from posenc_cli.encoding.request import Encoding
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import BucketBias, Rotation, Rows, Sinusoids
from posenc_cli.numerics import exact

POSITIONS = np.array([0, 1, 2, 5, 17, 39, 40, 511, 600, 1999])
OFFSETS = np.array([*range(-300, 301), -(2**53), 2**53])


def strict():
    return pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")


def bound_contents(*kinds):
    """Every scheme of these kinds, with its defaults and with each choice of each parameter.

    Choices that need another parameter, too, are left out.
    """
    found = []
    for name, scheme in BUILT_IN.items():
        varied = [{}]
        for parameter in scheme.parameters.values():
            values = parameter.choices or ((True, False) if parameter.type is bool else ())
            varied += [{parameter.name: value} for value in values]
        for given in varied:
            with suppress(InvalidInput):
                if isinstance(Encoding.of(scheme, given, seq_len=2000).bound.content, kinds):
                    label = ",".join(f"{key}={value}" for key, value in given.items())
                    found.append(pytest.param(name, given, id=f"{name}:{label}" if label else name))
    return found


def encoding(name, given):
    return Encoding.of(catalogue.find(name), given, seq_len=2000)


@pytest.mark.parametrize(("name", "given"), bound_contents(Rows))
def test_rows_are_the_same_bytes_in_strict_arrays(name, given):
    made = encoding(name, given)
    content = made.bound.content
    xp = strict()

    def table(indices):
        return xp.asarray(made.lookup(np.asarray(indices)))

    parts = (4,) if content.domain in ("positive", "real") else ()
    expected = content.rows(np, POSITIONS, made.lookup, *parts)
    values = content.rows(xp, xp.asarray(POSITIONS), table, *parts)
    expected, values = (v if isinstance(v, tuple) else (v,) for v in (expected, values))
    assert len(values) == len(expected)
    for value, numpy_value in zip(values, expected, strict=True):
        assert np.asarray(value).dtype == numpy_value.dtype == np.float64
        assert np.asarray(value).tobytes() == numpy_value.tobytes()


@pytest.mark.parametrize(("name", "given"), bound_contents(BucketBias))
def test_buckets_are_the_same_in_strict_arrays(name, given):
    content = encoding(name, given).bound.content
    xp = strict()
    expected = content.bucket(np, OFFSETS)
    buckets = np.asarray(content.bucket(xp, xp.asarray(OFFSETS)))
    assert buckets.dtype == expected.dtype == np.int64
    assert buckets.tolist() == expected.tolist()


@pytest.mark.long
@pytest.mark.parametrize("arithmetic", ["float64", "float32"])
@pytest.mark.parametrize(("name", "given"), bound_contents(Rotation, Sinusoids))
def test_rules_of_frequencies_run_in_numpy_and_torch(name, given, arithmetic):
    pytest.importorskip("torch", reason="torch is not installed")
    from posenc_cli.backends import registry

    if given.get("odd"):
        given = {**given, "dim": 64}
    rule = encoding(name, given).bound.content.waves.frequencies
    reals = np.array([float(value) for value in rule(exact)])
    for backend in ("numpy", "torch"):
        found = registry.find(backend).frequencies(rule, arithmetic=arithmetic, device=None)
        assert found.dtype == np.float64
        # A power and a reciprocal, each rounded; NumPy's and torch's powers differ by a unit. The
        # taper of clipped RoPE ends in a difference of 1 and 1.
        eps = np.finfo(arithmetic).eps
        atol = eps * (name == "rope-clipped")
        assert np.allclose(found, reals, rtol=4 * eps, atol=atol)
