"""Colour maps are even to the eye, and terminals show the nearest they have."""

from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest

from posenc_cli.errors import InvalidInput
from posenc_cli.render.style import LINE_STYLES, PALETTES, _stored_maps, color_map, default_map

_CONES_OF_LAB = np.array(
    [
        [1, 0.3963377774, 0.2158037573],
        [1, -0.1055613458, -0.0638541728],
        [1, -0.0894841775, -1.2914855480],
    ]
)
_LINEAR_OF_CONES = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def to_oklab(colors: np.ndarray) -> np.ndarray:
    """Convert sRGB colors (0 … 255) to OKLab: lightness, green to red, blue to yellow.

    Shape: (n, 3) → (n, 3).

    Source: B. Ottosson, “A perceptual color space for image processing”, 2020.
    """
    encoded = np.asarray(colors, dtype=np.float64) / 255  # (n, 3)
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    cones = np.cbrt(linear @ np.linalg.inv(_LINEAR_OF_CONES).T)
    return np.asarray(cones @ np.linalg.inv(_CONES_OF_LAB).T)


def lightness(name: str) -> np.ndarray:
    return to_oklab(color_map(name))[:, 0]


def test_oklab_is_as_published():
    # The values that its author gives for red, green, blue and white.
    found = to_oklab(np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]))
    expected = [[0.628, 0.225, 0.126], [0.866, -0.234, 0.179], [0.452, -0.032, -0.312], [1, 0, 0]]
    assert found == pytest.approx(np.array(expected), abs=1e-3)


def test_the_sequential_map_gets_lighter_in_equal_steps():
    gained = np.diff(lightness("viridis")[::15])
    assert gained.min() > 0
    assert gained.max() < 1.3 * gained.min()


# Lightness, chroma and hue (degrees) in OKLCH at equal distances along the maps that are posenc's.
BLUE, RED = 254.0, 30.0
STOPS = {
    "polar": [
        *[(0.36, 0.120, BLUE), (0.665, 0.125, BLUE), (0.97, 0.0, BLUE)],
        *[(0.97, 0.0, RED), (0.665, 0.150, RED), (0.36, 0.135, RED)],
    ],
    "polar-dark": [
        *[(0.86, 0.075, BLUE), (0.53, 0.115, BLUE), (0.20, 0.0, BLUE)],
        *[(0.20, 0.0, RED), (0.53, 0.130, RED), (0.86, 0.075, RED)],
    ],
    "phase": [
        *[(0.92, 0.0, BLUE), (0.60, 0.115, BLUE), (0.28, 0.0, BLUE)],
        *[(0.28, 0.0, RED), (0.60, 0.135, RED), (0.92, 0.0, RED)],
    ],
}


@pytest.mark.parametrize("name", STOPS)
def test_maps_of_posencs_own_run_straight_between_their_stops(name):
    """The stops are where the numbers of the file come from."""
    places = np.linspace(0, 1, 256)
    ends = np.array([0.0, 0.25, 0.5, np.nextafter(0.5, 1), 0.75, 1.0])
    light, chroma, hue = (np.interp(places, ends, stop) for stop in zip(*STOPS[name], strict=True))
    a, b = chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))
    # Half a step of a channel is 0.002 of OKLab's lightness, and more of a dark channel's hue.
    assert to_oklab(color_map(name)) == pytest.approx(np.stack([light, a, b], axis=1), abs=0.006)


@pytest.mark.parametrize(("name", "sign"), [("polar", 1), ("polar-dark", -1)])
def test_diverging_maps_are_as_dark_on_either_side_of_a_neutral_middle(name, sign):
    found = lightness(name)
    assert found == pytest.approx(found[::-1], abs=0.01)
    assert (sign * np.diff(found[:128:4]) > 0).all()
    red, green, blue = color_map(name)[127].tolist()
    assert max(red, green, blue) - min(red, green, blue) <= 2


def test_the_cyclic_map_ends_where_it_begins_and_r_reverses_maps_of_posencs_own():
    colors = color_map("phase").astype(int)
    assert np.abs(colors[0] - colors[-1]).max() <= 2
    assert np.array_equal(color_map("polar_r"), color_map("polar")[::-1])


def test_each_kind_has_a_stored_map_and_no_name_of_matplotlibs_is_given_away():
    kinds = {"sequential": "viridis", "diverging": "polar", "cyclic": "phase"}
    assert {kind: default_map(kind) for kind in kinds} == kinds
    assert default_map("diverging", dark=True) == "polar-dark"
    stored = {*_stored_maps()}
    assert {*kinds.values(), "polar-dark"} <= stored
    assert set(mpl.colormaps) & stored == {"viridis", "gray"}


@pytest.mark.parametrize("name", ["viridis", "viridis_r", "gray", "gray_r", "magma", "twilight_r"])
def test_a_name_of_matplotlibs_means_its_map(name):
    published = mpl.colormaps[name](np.linspace(0, 1, 256), bytes=True)[:, :3].astype(int)
    # matplotlib rounds the greys down, once up the ramp and once down.
    assert np.abs(color_map(name) - published).max() <= (name == "gray_r")


def test_an_unknown_map_is_refused_with_the_nearest_name():
    with pytest.raises(InvalidInput, match="--cmap 'virids'") as refused:
        color_map("virids")
    assert refused.value.hint == "did you mean 'viridis'?"


DICHROMATS = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}
"""How linear red, green and blue are seen: G. Machado et al., “A Physiologically-based Model for
Simulation of Color Vision Deficiency”, 2009, severity 1."""


def seen(colors: np.ndarray, vision: str) -> np.ndarray:
    """Colours in OKLab, as they are seen: (n, 3); in grey there is lightness alone."""
    linear = np.where(colors <= 10.31475, colors / 3294.6, ((colors / 255 + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.array(DICHROMATS.get(vision, np.eye(3))).T, 0, 1)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    lab = to_oklab(np.rint(255 * encoded).astype(np.uint8))
    return lab * [1, 0, 0] if vision == "grey" else lab


@pytest.mark.parametrize("vision", ["all", "grey", *DICHROMATS])
@pytest.mark.parametrize("theme", PALETTES)
def test_curves_differ_to_every_eye_by_colour_or_by_dashes_and_markers(theme, vision):
    colors = np.array([[*bytes.fromhex(color[1:])] for color in PALETTES[theme].lines])
    lab = seen(colors, vision)
    for one, other in combinations(range(len(colors)), 2):
        styles = (LINE_STYLES[index % len(LINE_STYLES)] for index in (one, other))
        same = len({(style.dashes, style.marker) for style in styles}) == 1
        assert not same or np.linalg.norm(lab[one] - lab[other]) > 0.1, (one, other)
    assert len({style.dots for style in LINE_STYLES}) == len(LINE_STYLES)


@pytest.mark.parametrize("vision", ["all", "grey", *DICHROMATS])
def test_sequential_maps_get_lighter_to_every_eye(vision):
    for name in ("viridis", "gray"):
        lightness = seen(color_map(name).astype(float), vision)[:, 0]
        assert np.diff(lightness).min() > -0.004, "but for the rounding of colours"
        assert np.ptp(lightness) > 0.5


@pytest.mark.parametrize("vision", ["all", "grey", *DICHROMATS])
@pytest.mark.parametrize("name", ["polar", "polar-dark"])
def test_diverging_maps_say_to_every_eye_how_far_from_zero_values_are(name, vision):
    lab = seen(color_map(name).astype(float), vision)
    sign = 1 if lab[128, 0] > lab[0, 0] else -1
    assert (sign * np.diff(lab[:128, 0])).min() > -0.004
    assert (sign * np.diff(lab[128:, 0])).max() < 0.004
