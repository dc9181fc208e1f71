"""Waves that follow axes: the same cells as plain waves at each axis' coordinates."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.encoding.axial import AxialWaves
from posenc_cli.encoding.engine import Engine, wave_filler
from posenc_cli.formulas.declare import Coordinates, Waves
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64, REAL_DTYPES
from posenc_cli.numerics.placements import Placement
from tests.examples import examples

LADDER = (1.0, 0.7, 0.1, 0.03, 0.002, 0.0)


def ladder(xp):
    return xp.asarray(LADDER)


def waves_along(axes, at, *, scale=1, frequencies=ladder):
    return Waves(len(axes), frequencies, scale=scale, coordinates=Coordinates(tuple(axes), at))


def table(axes):
    """``at`` of positions that are columns of an array of coordinates."""
    rows = np.asarray(axes, np.int64)
    return lambda positions: tuple(row[positions] for row in rows)


def one_by_one(waves, coordinates, placements, width, *, dtype, engine):
    """Each column by a plain wave of its own: what the columns of a table must hold."""
    out = np.zeros((coordinates.shape[1], width), dtype.numpy)
    for placement in placements:
        columns = range(width)[placement.columns]
        chosen = range(waves.count)[placement.waves]
        for column, wave in zip(columns, chosen, strict=True):
            plain = Waves(1, lambda xp, k=wave: ladder(xp)[k : k + 1], scale=waves.scale)
            along = coordinates[waves.coordinates.axes[wave]]
            single = [Placement(placement.function, slice(column, column + 1))]
            wave_filler(plain, engine).fill(out, along, single, dtype=dtype)
    return out


def axial(waves, engine):
    return AxialWaves(waves, partial(wave_filler, engine=engine))


PLACED = {
    "halves": (Placement("cos", slice(0, 6)), Placement("sin", slice(6, 12))),
    "alternating": (Placement("sin", slice(0, 12, 2)), Placement("cos", slice(1, 12, 2))),
    "twice": (Placement("cos", slice(0, 6)), Placement("cos", slice(6, 12))),
    "some": (
        Placement("sin", slice(2, 5), slice(1, 6, 2)),
        Placement("cos", slice(8, 9), slice(4, 5)),
    ),
}
SPREAD = {
    "repeated": st.integers(-2, 3),
    "scattered": st.integers(-(2**53), 2**53),
}


@st.composite
def coordinate_tables(draw, spread):
    count = draw(st.integers(1, 40))
    row = st.lists(spread, min_size=count, max_size=count)
    return np.array(draw(st.lists(row, min_size=3, max_size=3)), np.int64)


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("placed", PLACED)
@examples(15)
@given(data=st.data())
def test_every_column_is_a_plain_wave_at_its_axis_coordinates(placed, spread, data):
    coordinates = data.draw(coordinate_tables(SPREAD[spread]))
    axes = data.draw(st.lists(st.integers(0, 2), min_size=6, max_size=6))
    dtype = REAL_DTYPES[data.draw(st.sampled_from(sorted(REAL_DTYPES)))]
    waves = waves_along(axes, table(coordinates), scale=1.25)
    out = np.zeros((coordinates.shape[1], 12), dtype.numpy)
    positions = np.arange(coordinates.shape[1])
    axial(waves, Engine()).fill(out, positions, PLACED[placed], dtype=dtype)
    expected = one_by_one(waves, coordinates, PLACED[placed], 12, dtype=dtype, engine=Engine())
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("arithmetic", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("farthest", [4, 100_000])
def test_reduced_arithmetic_is_that_of_plain_waves(arithmetic, farthest):
    coordinates = np.random.default_rng(1).integers(-farthest, farthest, (2, 50))
    waves = waves_along([0, 1, 0, 1, 1, 0], table(coordinates), scale=1.25)
    engine = Engine(arithmetic=arithmetic)
    out = np.zeros((50, 12), np.float32)
    axial(waves, engine).fill(out, np.arange(50), PLACED["halves"], dtype=FLOAT32)
    expected = one_by_one(waves, coordinates, PLACED["halves"], 12, dtype=FLOAT32, engine=engine)
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
@pytest.mark.parametrize("farthest", [4, 100_000])
def test_angles_are_those_of_plain_waves(arithmetic, farthest):
    coordinates = np.random.default_rng(2).integers(-farthest, farthest, (2, 50))
    waves = waves_along([1, 0, 0, 1, 0, 1], table(coordinates))
    engine = Engine(arithmetic=arithmetic)
    angles = axial(waves, engine).angles(np.arange(50), dtype=FLOAT32)
    plain = wave_filler(Waves(6, ladder), engine)
    for wave, axis in enumerate(waves.coordinates.axes):
        assert np.array_equal(
            angles[:, wave], plain.angles(coordinates[axis], dtype=FLOAT32)[:, wave]
        )


@pytest.mark.parametrize("farthest", [1, 100_000])
def test_zero_columns_are_zero_and_other_columns_are_left_alone(farthest):
    coordinates = np.random.default_rng(3).integers(0, farthest + 1, (2, 20))
    waves = waves_along([0, 0, 0, 1, 1, 1], table(coordinates))
    out = np.full((20, 9), 7.0)
    placements = (Placement("cos", slice(1, 7)), Placement("zero", slice(7, 8)))
    axial(waves, Engine()).fill(out, np.arange(20), placements, dtype=FLOAT64)
    assert (out[:, [0, 8]] == 7).all()
    assert (out[:, 7] == 0).all()
    assert (np.abs(out[:, 1:7]) <= 1).all()


def test_no_positions_are_no_rows():
    filler = axial(waves_along([0] * 6, table([[1, 2]])), Engine())
    none = np.array([], np.int64)
    filler.fill(np.empty((0, 12)), none, PLACED["halves"], dtype=FLOAT64)
    assert filler.angles(none, dtype=FLOAT64).shape == (0, 6)


def test_repeated_coordinates_are_computed_once():
    """A grid's rows and columns cost as many cells as they have coordinates."""
    asked = []

    class Filler:
        def __init__(self, waves):
            self.filler = wave_filler(waves, Engine())

        def fill(self, out, positions, placements, *, dtype):
            asked.append(positions.size)
            self.filler.fill(out, positions, placements, dtype=dtype)

    grid = waves_along([0, 0, 0, 1, 1, 1], lambda positions: (positions // 30, positions % 30))
    out = np.empty((600, 12))
    AxialWaves(grid, Filler).fill(out, np.arange(600), PLACED["halves"], dtype=FLOAT64)
    assert asked == [20, 30]


@pytest.mark.parametrize(
    ("waves", "message"),
    [
        (Waves(6, ladder), "follow no axes"),
        (Waves(6, ladder, coordinates=Coordinates((0,) * 6)), "follow no axes"),
        (Waves(6, ladder, coordinates=Coordinates((0,) * 5, table([[1]]))), "5 axes where 6"),
        (
            waves_along([0] * 6, table([[1]]), frequencies=lambda xp: xp.asarray([1.0] * 7)),
            "7 frequencies where 6",
        ),
    ],
)
def test_waves_that_contradict_themselves_are_refused(waves, message):
    with pytest.raises(ValueError, match=message):
        axial(waves, Engine())


def test_columns_that_cannot_hold_their_waves_are_refused():
    filler = axial(waves_along([0] * 6, table([[1]])), Engine())
    with pytest.raises(ValueError, match="3 columns cannot hold 6 waves"):
        filler.fill(
            np.empty((1, 12)), np.zeros(1, np.int64), [Placement("cos", slice(0, 3))], dtype=FLOAT64
        )


@pytest.mark.parametrize("dtype", REAL_DTYPES.values(), ids=REAL_DTYPES)
def test_every_backend_on_the_cpu_gives_the_same_bytes(dtype):
    from posenc_cli.backends import registry

    if not registry.status("fast").available:
        pytest.skip("there is no compiled library")

    def at(positions):
        return positions // 40, 2 * (positions % 40) - 39

    grid = waves_along([0, 1, 0, 1, 0, 1], at, scale=1.25)
    tables = []
    for backend in ("numpy", "fast"):
        out = np.empty((1600, 12), dtype.numpy)
        filler = axial(grid, Engine(registry.find(backend)))
        filler.fill(out, np.arange(1600), PLACED["halves"], dtype=dtype)
        tables.append(out.tobytes())
    assert tables[0] == tables[1]
