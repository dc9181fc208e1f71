"""Spectra: against mpmath, closed forms, transformers' rules as fractions, and np.fft."""

from __future__ import annotations

import json
import math

import mpmath
import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.analysis import spectrum
from posenc_cli.analysis.products import MatrixRows
from posenc_cli.analysis.similarity import rows_of_array
from posenc_cli.analysis.spectrum import (
    context_of,
    power_spectrum,
    spectrum_fields,
    wave_spectrum,
)
from posenc_cli.encoding.request import Encoding
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Rotation, Waves, rotary
from posenc_cli.positions import Positions
from posenc_cli.records import replace
from posenc_cli.render.figures.spectra import SpectrumSubject, power_figure
from tests.matrices import matrix


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
    for wavelength, zone in zip(found.stretch.wavelengths, found.stretch.zones, strict=True):
        expected = "blended"
        if wavelength < 8192 / 4:
            expected = "kept"
        elif wavelength > 8192 / 1:
            expected = "interpolated"
        assert zone == expected


def test_ntk_keeps_the_fastest_pair_and_interpolates_the_slowest():
    zones = waves_of("rope-ntk", dim=64).stretch.zones
    assert zones == ("kept", *["blended"] * 30, "interpolated")
    stretched = waves_of("rope-dynamic", dim=64, seq_len=16384)
    assert stretched.stretch.zones == zones
    # base · (4 · 16384/2048 − 3)^(d/(d − 2)): the slowest pair by that stretch, 29, itself
    assert stretched.stretch.ratio[-1] == pytest.approx(29, rel=1e-14)
    assert set(waves_of("rope-dynamic", dim=64, seq_len=2048).stretch.zones) == {"kept"}


def test_longrope_shows_the_factor_of_each_pair():
    given = {"dim": 8, "short_factor": "1,1,1,1", "long_factor": "1,2,40,0.5", "factor": 32}
    found = waves_of("rope-longrope", seq_len=10000, **given)
    np.testing.assert_allclose(found.stretch.ratio, [1, 2, 40, 0.5], rtol=1e-15)
    assert found.stretch.zones == ("kept", "blended", "interpolated", "quickened")


def test_pairs_that_stand_still_have_no_wavelength():
    found = waves_of("rope-proportional", dim=16, partial=0.25)
    assert found.stretch.zones == ("kept",) * 2 + ("still",) * 6
    assert np.isinf(found.wavelengths[2:]).all()
    assert found.turns[2:].tolist() == [0] * 6


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


def test_power_is_that_of_the_fourier_transform():
    table = np.random.default_rng(0).standard_normal((90, 5)) * [1, 2, 3, 1e-3, 0]
    found = power_spectrum(MatrixRows.of(table), name="x")
    power = np.abs(np.fft.fft(table - table.mean(axis=0), axis=0)) ** 2
    folded = power[1:46] + np.vstack([power[:45:-1], np.zeros((1, 5))])
    assert found.wavelengths.tolist() == [90 / k for k in range(1, 46)]
    np.testing.assert_allclose(found.power, folded.sum(axis=1) / folded.sum(), rtol=1e-12)
    best = folded[:, :4].argmax(axis=0)
    np.testing.assert_allclose(found.dominant[:4], 90 / (best + 1))
    np.testing.assert_allclose(
        found.share[:4], folded[:, :4].max(axis=0) / folded[:, :4].sum(axis=0), rtol=1e-12
    )
    assert np.isnan(found.dominant[4])


def test_a_wave_is_found_at_its_wavelength():
    table = np.stack([np.sin(2 * np.pi * np.arange(240) / w) for w in (8, 24, 240)], axis=1)
    found = power_spectrum(MatrixRows.of(table), name="x")
    np.testing.assert_allclose(found.dominant, [8, 24, 240])
    np.testing.assert_allclose(found.share, 1)


def test_bits_turn_twice_as_fast_from_column_to_column():
    table = matrix("binary", "0:256", dtype="float64", dim=8)
    found = power_spectrum(MatrixRows.of(table), name="x")
    assert found.dominant.tolist() == [256, 128, 64, 32, 16, 8, 4, 2]


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_power_neither_overflows_nor_vanishes(scale):
    table = np.random.default_rng(1).standard_normal((50, 3))
    expected = power_spectrum(MatrixRows.of(table), name="x")
    found = power_spectrum(MatrixRows.of(table * scale), name="x")
    np.testing.assert_allclose(found.power, expected.power, rtol=1e-12)
    np.testing.assert_array_equal(found.dominant, expected.dominant)


def test_constants_have_no_wavelength():
    for value, count in ((0.0, 100), (1.0, 100), (0.1, 10), (0.1, 100), (1 / 3, 77)):
        found = power_spectrum(MatrixRows.of(np.full((count, 2), value)), name="x")
        assert np.isnan(found.dominant).all()
        assert found.power.tolist() == [0] * (count // 2)


def test_columns_that_are_not_finite_are_left_out():
    table = np.random.default_rng(2).standard_normal((40, 3))
    table[3, 1] = np.inf
    found = power_spectrum(MatrixRows.of(table), name="x")
    assert found.dropped == (1,)
    alone = power_spectrum(MatrixRows.of(table[:, [0, 2]]), name="x")
    np.testing.assert_allclose(found.power, alone.power)
    with pytest.raises(InvalidInput, match="no column is finite"):
        power_spectrum(MatrixRows.of(table * np.nan), name="x")
    with pytest.raises(InvalidInput, match="one row"):
        power_spectrum(MatrixRows.of(table[:1]), name="x")


def test_columns_are_transformed_some_at_a_time(monkeypatch):
    table = np.random.default_rng(3).standard_normal((60, 7)) * 10.0 ** np.arange(-3, 4)
    expected = power_spectrum(MatrixRows.of(table), name="x")
    monkeypatch.setattr(spectrum, "_TRANSFORMED_VALUES", 120)
    found = power_spectrum(MatrixRows.of(table), name="x")
    np.testing.assert_allclose(found.power, expected.power, rtol=1e-12)
    np.testing.assert_array_equal(found.dominant, expected.dominant)


def test_of_more_rows_than_memory_holds_the_first_are_transformed(monkeypatch):
    table = np.random.default_rng(4).standard_normal((60, 2))
    monkeypatch.setattr(spectrum, "HELD_VALUES", 40)
    found = power_spectrum(MatrixRows.of(table), name="x")
    assert (found.count, found.transformed) == (60, 20)
    np.testing.assert_array_equal(
        found.dominant, power_spectrum(MatrixRows.of(table[:20]), name="x").dominant
    )


def test_a_curve_of_many_wavelengths_has_the_strongest_where_it_is():
    table = np.sin(2 * np.pi * 777 * np.arange(5000) / 5000)[:, None]
    found = power_spectrum(MatrixRows.of(table), name="x")
    curve = power_figure([SpectrumSubject("x", "x", found)]).curves[0]
    assert len(curve.x) < len(found.power)
    assert curve.x[int(np.argmax(curve.y))] == pytest.approx(5000 / 777)


@pytest.mark.parametrize("turns", [1, 2, 3, 2499, 2500])
def test_the_ends_of_a_curve_of_many_wavelengths_are_in_it(turns):
    """Of 5000 rows the longest wavelength is 5000, and the shortest 2."""
    table = np.cos(2 * np.pi * turns * np.arange(5000) / 5000)[:, None]
    found = power_spectrum(MatrixRows.of(table), name="x")
    curve = power_figure([SpectrumSubject("x", "x", found)]).curves[0]
    assert curve.x[int(np.argmax(curve.y))] == pytest.approx(5000 / turns)
    assert max(curve.y) == pytest.approx(1)


def test_a_file_is_read_some_columns_at_a_time(monkeypatch):
    table = np.random.default_rng(6).standard_normal((60, 7)).astype(np.float32)
    expected = power_spectrum(MatrixRows.of(table.astype(np.float64)), name="x")
    monkeypatch.setattr(spectrum, "_TRANSFORMED_VALUES", 120)
    rows = rows_of_array(table, "float32", name="x")
    read = []

    def columns(count, which):
        read.append(rows.columns(count, which))
        return read[-1]

    found = power_spectrum(replace(rows, read=None, columns=columns), name="x")
    np.testing.assert_allclose(found.power, expected.power, rtol=1e-12)
    np.testing.assert_array_equal(found.dominant, expected.dominant)
    assert [part.shape for part in read] == [(60, 2)] * 3 + [(60, 1)]
