"""Spectra: against mpmath, closed forms, and transformers' rules as fractions."""

import json
import math

import mpmath
import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.analysis.spectrum import context_of, spectrum_fields, wave_spectrum
from posenc_cli.encoding.request import Encoding
from posenc_cli.formulas.declare import Rotation, Waves, rotary
from posenc_cli.positions import Positions


def waves_of(scheme, context=None, **given):
    encoding = Encoding.of(catalogue.find(scheme), given, seq_len=given.get("seq_len"))
    return wave_spectrum(encoding.bound, context or context_of(encoding, None)[0])


def test_waves_past_what_floats_hold_have_no_number_in_json():
    @rotary(source="these tests", formula="in the code")
    def wide() -> Rotation:
        return Rotation(
            Waves(3, lambda xp: xp.asarray([10, 0.1, 1]) ** xp.asarray([400, 400, 1])), "half"
        )

    fields = spectrum_fields(wave_spectrum(wide.bind({}), 100))
    assert json.dumps(fields, allow_nan=False)
    assert (fields["frequencies"][0], fields["turns"][0]) == (None, None)
    assert (fields["frequencies"][1], fields["wavelengths"][1], fields["turns"][1]) == (0, None, 0)


def test_wavelengths_grow_from_two_pi():
    found = waves_of("rope", dim=64)
    with mpmath.workdps(40):
        expected = [2 * mpmath.pi * mpmath.mpf(10000) ** (mpmath.mpf(i) / 32) for i in range(32)]
    np.testing.assert_allclose(found.wavelengths, [float(x) for x in expected], rtol=3e-16)
    np.testing.assert_allclose(found.frequencies * found.wavelengths, 2 * math.pi, rtol=3e-16)
    assert found.context == 4096
    np.testing.assert_allclose(found.turns, 4096 / found.wavelengths, rtol=3e-16)
    # 2π · 10000^(i/32) > 4096 from i = 22.51 on
    assert found.incomplete == tuple(range(23, 32))
    assert found.stretch is None


def test_linear_interpolation_slows_every_pair_by_the_factor():
    found = waves_of("rope-linear", factor=4.0)
    assert set(found.stretch.zones) == {"interpolated"}
    np.testing.assert_allclose(found.stretch.ratio, 4, rtol=1e-15)
    np.testing.assert_allclose(found.wavelengths, 4 * found.stretch.wavelengths, rtol=1e-15)
    assert set(waves_of("rope-linear", factor=1.0).stretch.zones) == {"kept"}
    assert set(waves_of("rope-linear", factor=0.5).stretch.zones) == {"quickened"}


def test_yarn_keeps_blends_and_interpolates_at_the_ends_of_its_ramp():
    # c(32) = 20.95 and c(1) = 45.03 of 64 pairs, base 10000, 4096 positions: rounded outward
    zones = waves_of("rope-yarn", dim=128, factor=4.0).stretch.zones
    assert zones == ("kept",) * 21 + ("blended",) * 25 + ("interpolated",) * 18


def test_llama3_zones_follow_the_wavelengths():
    found = waves_of("rope-llama3", dim=128, base=500000.0, factor=8.0)
    assert found.context == 8192
    zones = np.array(["kept", "blended", "interpolated"])
    expected = zones[np.searchsorted([8192 / 4, 8192 / 1], found.stretch.wavelengths)]
    assert [*found.stretch.zones] == expected.tolist()


def test_waves_on_axes_turn_within_their_axis():
    found = waves_of("rope-axial", grid="5x8", dim=16)
    assert found.axes == (0, 0, 0, 0, 1, 1, 1, 1)
    np.testing.assert_allclose(found.turns * found.wavelengths, [5] * 4 + [8] * 4, rtol=1e-14)
    assert found.context == 40


@pytest.mark.parametrize(
    ("given", "lengths"),
    [
        ({"convention": "dinov3", "grid": "4x5", "dim": 4}, [2, 2.5]),
        (
            {"convention": "cogvideox", "grid": "1x15x9", "dim": 16, "base_size": "30x45"},
            [2 * np.pi * step for step in (1, 100, 1 / 2)],
        ),
    ],
)
def test_wavelengths_are_in_places_where_coordinates_are_in_parts_of_them(given, lengths):
    found = waves_of("rope-axial", **given)
    np.testing.assert_allclose(found.wavelengths[: len(lengths)], lengths, rtol=1e-14)
    grid = [int(count) for count in given["grid"].split("x")]
    sizes = [grid[axis] for axis in found.axes]
    np.testing.assert_allclose(found.turns * found.wavelengths, sizes, rtol=1e-14)


@pytest.mark.parametrize(
    ("scheme", "given", "expected"),
    [
        ("rope", {}, (4096, "default")),
        ("rope-llama3", {}, (8192, "original_max_position_embeddings")),
        ("rope-dynamic", {"max_position_embeddings": 77}, (77, "max_position_embeddings")),
        ("sinusoidal-nd", {"grid": "3x4"}, (12, "all its positions")),
    ],
)
def test_the_context_is_the_scheme_s_own(scheme, given, expected):
    encoding = Encoding.of(catalogue.find(scheme), given, seq_len=None)
    assert context_of(encoding, None) == expected
    assert context_of(encoding, Positions.parse("10:100:3"))[0] == 88


def test_waves_of_a_relative_scheme_run_along_offsets():
    assert waves_of("transformer-xl", dim=2).along == "offsets"
    assert waves_of("rope", dim=2).along == "positions"
