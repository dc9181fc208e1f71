"""identify names tables that libraries make, by each library's own rule, and gives them back."""

import numpy as np
import pytest

from posenc_cli import encode
from posenc_cli.catalogue import find
from posenc_cli.identification.search import identify
from posenc_cli.inference.evidence import Evidence
from posenc_cli.inference.trial import UNREDUCED_TABLES
from tests.formulas.test_grids import SCALED
from tests.identification import library_tables as rules
from tests.identification.library_tables import TABLES


def again(match, index):
    """A table that a match says, as posenc computes it."""
    table = match.tables[index]
    given = {name: value for name, value in match.params.items() if value is not None}
    table = "angles" if table in UNREDUCED_TABLES else table
    rows = list(match.positions)
    return match.multiplied * encode(match.scheme, rows, table=table, dtype="float64", **given)


def shown(array, name, match):
    """The tables in an array, by the form that the rule of a library has."""
    if name.endswith("heads"):
        return [array[: match.params["heads"]]]
    if match.tables[0] in UNREDUCED_TABLES:
        pairs = array.reshape(-1, array.shape[-1])[:, ::2].astype(np.float64)
        return [np.angle(np.exp(1j * pairs))]
    if len(match.tables) == 2:
        return np.split(array, 2, axis=1)
    return [array]


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_a_library_is_named_and_given_back(name):
    arrays, scheme, params = TABLES[name]
    match = identify(Evidence.of_arrays(*arrays)).match
    assert match is not None
    assert match.scheme == scheme
    assert params.items() <= match.params.items()
    assert match.commands
    arrays = arrays if len(arrays) == len(match.tables) else shown(arrays[0], name, match)
    arrays = arrays if len(match.tables) == 2 else shown(arrays[0], name, match)
    for index, array in enumerate(arrays):
        table = again(match, index)
        rows = array.reshape(-1, *table.shape[1:])
        rows = rows[-len(table) :] if name.endswith("after text") else rows[: len(table)]
        apart = np.abs(table - rows)
        if match.tables[0] in UNREDUCED_TABLES:
            apart = np.minimum(apart, 2 * np.pi - apart)
        assert apart.max() <= 2e-6  # of angles to 5π in float32


@pytest.mark.long
@pytest.mark.parametrize("name", SCALED)
def test_a_scaled_grid_of_a_library_is_named_and_given_back(name, golden):
    _, arrays = golden("rope_grids_scaled")
    convention, _, given = SCALED[name]
    peers = [arrays[f"{name}_{function}"] for function in ("cos", "sin")]
    match = identify(Evidence.of_arrays(*peers)).match
    assert match is not None
    grid = {"convention": convention, "grid": match.params["grid"], "dim": 12}
    said = find("rope-axial").bind({**grid, **given})
    assert (match.scheme, match.params["convention"]) == ("rope-axial", convention)
    assert all(match.params[parameter] == said.params[parameter] for parameter in given)
    for index, peer in enumerate(peers):
        # LTX-Video rotates by up to 1e5 radians, in float32.
        assert np.abs(again(match, index) - peer).max() <= (0.01 if convention == "ltx" else 1e-5)


@pytest.mark.long
@pytest.mark.parametrize("largest", [64, 256])
def test_pixels_of_another_largest_frequency_are_named(largest, golden):
    peer = golden("rope_grids_scaled")[1][f"pixel_{largest}_angles"]
    match = identify(Evidence.of_arrays(peer)).match
    assert match is not None
    assert (match.params["convention"], match.params["base"]) == ("lucidrains-pixel", largest)


@pytest.mark.parametrize(
    ("ours", "rule"),
    [
        (
            {"grid": "24x24", "dim": 96, "base_size": "16x16"},
            rules.sincos_2d(96, 24, 24),
        ),
        (
            {"grid": "12x18", "dim": 64, "base_size": "16x16", "interpolation_scale": 1.5},
            rules.sincos_2d(64, 12, 18, 16, 1.5),
        ),
        (
            {
                "grid": "4x8x12",
                "dim": 64,
                "convention": "cogvideox",
                "interpolation_scale": (2, 1.875, 1.875),
            },
            rules.sincos_3d(64, (12, 8), 4, 1.875, 2.0).reshape(-1, 64),
        ),
    ],
)
def test_sinusoids_on_a_grid_follow_the_rule_of_diffusers(ours, rule):
    table = encode("sinusoidal-nd", dtype="float64", **ours)
    assert np.abs(table - rule).max() <= 1e-14
