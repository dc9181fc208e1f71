"""Positions that are not whole, or not positive: each exactly, by every scheme that has them."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posenc_cli as posenc
from posenc_cli import catalogue
from posenc_cli.encoding.arrays import positions_from
from posenc_cli.encoding.request import check_domain
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Rows
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.positions import Positions, exact_number
from tests import tolerances
from tests.encoding.test_growing import rounded
from tests.examples import examples
from tests.matrices import matrix

every_dtype = pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
fractions = st.builds(Fraction, st.integers(-(10**12), 10**12), st.integers(1, 9000))


@examples(40)
@given(position=fractions, i=st.integers(0, 7))
@every_dtype
def test_a_wave_at_any_fraction_is_correctly_rounded(dtype, position, i):
    found = matrix("rope", str(position), dim=16, dtype=dtype)
    with mpmath.workprec(400):
        angle = mpmath.mpf(position.numerator) / position.denominator
        angle *= mpmath.mpf(10_000) ** (-mpmath.mpf(2 * i) / 16)
        assert found[0, i] == rounded(mpmath.cos(angle), dtype)
        assert found[0, 8 + i] == (rounded(mpmath.sin(angle), dtype) if position else 0)


@examples(20)
@given(position=st.builds(Fraction, st.integers(-4000, 4000), st.integers(1, 60)))
def test_growing_amplitudes_at_fractions_are_correctly_rounded(position):
    found = matrix("xpos", str(position), dim=4, seq_len=16, table="cos")
    with mpmath.workprec(400):
        at = mpmath.mpf(position.numerator) / position.denominator
        for i in range(2):
            zeta = mpmath.mpf(20 * i + 16) / 56
            cosine = mpmath.cos(at * mpmath.mpf(10_000) ** (-mpmath.mpf(i) / 2))
            value = zeta ** ((at - 8) / 512) * cosine
            if position != 8:  # there it is 1 times a cosine, to mpmath a little off it
                assert found[0, i] == rounded(value, "float32")


@every_dtype
@pytest.mark.parametrize("factor", [2, 3, 10])
def test_interpolated_positions_are_rope_linear_to_the_byte(dtype, factor):
    ours = matrix("rope", f"0:{100}:1/{factor}", dim=16, dtype=dtype)
    linear = matrix("rope-linear", f"0:{100 * factor}", dim=16, factor=factor, dtype=dtype)
    assert ours.tobytes() == linear.tobytes()


def test_frameworks_arithmetic_takes_fractions_rounded_once():
    tenth = np.float32(0.1)
    assert matrix("rope", "0.1", dim=2, arithmetic="float32", table="angles")[0, 0] == tenth
    assert matrix("integer", "1/3", dim=1, arithmetic="bfloat16")[0, 0] == 0.333984375
    score = matrix("alibi", "0:1:0.1", heads=1, head=0, arithmetic="float32")
    assert score[0, 3] == -np.float32(0.3) / 256
    growing = matrix("xpos", "0.5", dim=4, seq_len=2, arithmetic="float32", table="cos")
    assert growing[0, 0] == pytest.approx(np.cos(0.5) * (16 / 56) ** (-0.5 / 512), abs=1e-6)


def test_columns_that_count_are_exact_quotients():
    assert matrix("integer", "0.1,-2.5", dim=1, dtype="float64").tolist() == [[0.1], [-2.5]]
    shares = matrix("normalized", "0.1,1/3", dim=1, seq_len=7, dtype="float64")
    assert shares.tolist() == [[1 / 70], [1 / 21]]


def test_offsets_between_fractions_are_fractions():
    rows = matrix("transformer-xl", "0:1:0.25", dim=2, dtype="float64")
    assert np.abs(rows[:, 0] - np.sin(-np.arange(-3, 4) / 4)).max() <= 1e-15
    rows = matrix("transformer-xl", "0.5:3.5", dim=2, dtype="float64")
    assert rows.tobytes() == matrix("transformer-xl", "0:3", dim=2, dtype="float64").tobytes()
    assert matrix("shaw", "-3:0", dim=2).tobytes() == matrix("shaw", "0:3", dim=2).tobytes()


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(catalogue.BUILT_IN))
def test_every_scheme_has_real_positions_or_says_that_it_has_none(name):
    scheme = catalogue.BUILT_IN[name]
    needed = {"short_factor": "1,2", "long_factor": "1,4", "dim": "4"}
    given = needed if scheme.parameters.keys() >= needed.keys() else {}
    bound = scheme.bind(given, seq_len=4)
    allowed = {
        "real": {"0.5,1", "-3:0"},
        "whole": {"-3:0"},
        "positive": {"0.5,1"},
        "natural": {"-3:0"} if scheme.kind == "relative" else set(),
    }[bound.content.domain]
    for spec in ("0.5,1", "-3:0"):
        if spec in allowed:
            check_domain(bound, Positions.parse(spec))
        else:
            with pytest.raises(InvalidInput, match=f"position (0.5|-3) is .* of {name}"):
                check_domain(bound, Positions.parse(spec))


def test_positions_that_are_looked_up_are_declared_whole():
    for scheme in catalogue.BUILT_IN.values():
        if scheme.kind == "absolute" and scheme.name in ("learned", "binary"):
            content = scheme.bind({}, seq_len=4).content
            assert isinstance(content, Rows)
            assert content.domain == "natural"


@pytest.mark.parametrize("case", ["default", "sd", "odd", "flux", "other"])
def test_fractional_timesteps_are_those_of_diffusers(case, golden):
    statement, arrays = golden("timestep_diffusers")
    given = dict(statement["params"]["cases"][case])
    dim, steps = given.pop("embedding_dim"), arrays["fractional"]
    assert (steps != np.rint(steps)).any()
    ours = posenc.encode("timestep", steps, dim=dim, dtype="float64", **given)
    angle = given.get("scale", 1) * np.abs(steps[:, None])
    assert (
        np.abs(ours - arrays[f"{case}_fractional"])
        <= tolerances.TABLE + tolerances.ANGLE * np.maximum(angle, 1)
    ).all()


def test_floats_are_the_binary_fractions_that_they_are():
    values = np.array([0.1, 0.25, -3.0], np.float32)
    positions = positions_from(values)
    assert [Fraction(n, positions.denominator) for n in positions] == [
        Fraction(float(value)) for value in values
    ]
    assert posenc.encode("integer", [0.1], dim=1, dtype="float64")[0, 0] == 0.1
    tenth, float_tenth = (
        posenc.encode("integer", given, dim=1, dtype="float64") for given in ("0.1", [0.1])
    )
    assert np.array_equal(tenth, float_tenth)
    assert str(positions_from(np.array([0.1]))) == "3602879701896397/36028797018963968"
    with pytest.raises(InvalidInput, match=r"0\.1 and"):
        positions_from(np.array([0.1, 999.0]))


@given(st.lists(fractions, min_size=1, max_size=4))
@examples(60)
def test_the_text_of_positions_asks_for_the_same_again(numbers):
    positions = Positions.parse(",".join(map(str, numbers)))
    again = Positions.parse(str(positions))
    assert [Fraction(n, again.denominator) for n in again] == numbers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("131_072", 131072),
        ("1e6", 1_000_000),
        ("0.1", Fraction(1, 10)),
        ("-1.50", Fraction(-3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("25e-2", Fraction(1, 4)),
        ("1_0.5", Fraction(21, 2)),
        ("6/4", Fraction(3, 2)),
        ("1/0", None),
        ("0x1", None),
        ("nan", None),
        ("", None),
        ("1__0", None),
        ("٣", None),
    ],
)
def test_numbers_are_read_exactly(text, number):
    assert exact_number(text) == number


def test_ranges_of_fractions_are_half_open():
    for spec, count in (("0:1:0.25", 4), ("0:1.01:0.25", 5), ("0.1:1:0.3", 3), ("-0.5:2", 3)):
        assert Positions.parse(spec).count == count
    assert str(Positions.parse("0:1.5")) == "0:2"
    assert list(Positions.parse(str(Positions.parse("-0.5:2")))) == [-1, 1, 3]


def test_the_length_of_a_sequence_is_that_of_the_whole_positions_up_to_the_last():
    dynamic = {"factor": 2.0, "max_position_embeddings": 8}
    encoded = posenc.encode("rope-dynamic", "0:16:0.5", dim=4, **dynamic)
    assert np.array_equal(encoded[::2], posenc.encode("rope-dynamic", 16, dim=4, **dynamic))


@pytest.fixture
def file_of(tmp_path):
    def write(array, name="coordinates.npy"):
        np.save(tmp_path / name, array)
        return str(tmp_path / name)

    return write


@pytest.mark.parametrize(
    ("name", "scheme", "given"),
    [
        ("dinov3", "rope-axial", {"convention": "dinov3", "dim": 64}),  # in training
        (
            "omni",
            "mrope",
            {"base": 1e6, "layout": "half", "interleaved": True, "sections": "24,20,20"},
        ),
    ],
)
def test_fractional_coordinates_turn_as_the_model_does(name, scheme, given, golden, file_of):
    _, arrays = golden("coordinates_real")
    places = arrays[f"{name}_coordinates"]
    assert (places != np.rint(places)).any()
    turn = np.abs(places).max() * (2 * np.pi if name == "dinov3" else 1)
    for function in ("cos", "sin"):
        asked = {"table": f"{function}-full", "axes": file_of(places), "dtype": "float64"}
        ours = matrix(scheme, None, **asked, **given)
        allowed = tolerances.TABLE + tolerances.ANGLE * turn
        assert np.abs(ours - arrays[f"{name}_{function}"]).max() <= allowed


@pytest.mark.parametrize("convention", ["pixtral", "dinov3", "gemma4", "llama4", "wan", "liere"])
def test_coordinates_in_a_file_are_those_of_a_grid_where_they_are_the_same(convention, file_of):
    sides = (2, 3, 4) if convention == "wan" else (3, 4)
    places = np.stack([axis.reshape(-1) for axis in np.indices(sides)])
    if convention == "dinov3":
        sides = (4, 4)
        places = (2 * np.stack([axis.reshape(-1) for axis in np.indices(sides)]) - 3) / 4
    elif convention == "liere":
        sides = (5, 5)
        places = np.stack([axis.reshape(-1) for axis in np.indices(sides)]) / 4
    elif convention == "llama4":
        places = places + 1
    given = {"convention": convention, "dim": 24, "dtype": "float32"}
    of_grid = matrix("rope-axial", None, grid="x".join(map(str, sides)), **given)
    assert matrix("rope-axial", None, axes=file_of(places), **given).tobytes() == of_grid.tobytes()
    some = matrix("rope-axial", "3,1", axes=file_of(places), **given)
    assert some.tobytes() == of_grid[[3, 1]].tobytes()


def test_coordinates_of_the_wrong_number_of_axes_are_refused(file_of):
    file = file_of(np.zeros((3, 5)))
    with pytest.raises(InvalidInput, match="holds an array of shape 3×5; it must be 2×L"):
        matrix("rope-axial", None, axes=file)
    with pytest.raises(InvalidInput, match="position 5 is past the last .* has 5 columns"):
        matrix("rope-axial", "0:6", convention="wan", axes=file)
    with pytest.raises(
        InvalidInput, match=r"position 0\.5 is not whole: .* of rope-axial are 0, 1"
    ):
        matrix("rope-axial", "0.5", convention="wan", axes=file)


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        (np.array([0.5, 1.0, 1.5], np.float32), "0.5:1.75:0.5"),
        (np.array([[3], [1], [-2]]), "3,1,-2"),
        (np.array([[0.25, 8.0]]), "0.25,8"),
    ],
)
def test_a_file_of_numbers_says_where(stored, text, file_of):
    from posenc_cli.cli.choosing import positions_in_file

    assert list(positions_in_file(file_of(stored))) == list(Positions.parse(text))
    assert positions_in_file(file_of(stored)).denominator == Positions.parse(text).denominator


@pytest.mark.parametrize(
    ("text", "is_file"),
    [
        ("0:1e6:1_000", False),
        ("-3:0,1/3,.5,1E3", False),
        ("steps.npy", True),
        ("./3/4", True),
        ("/tmp/1", True),
        ("../t.safetensors:steps", True),
        ("1:x", False),
        ("1.e5", False),
        ("1.E+5:2e6", False),
    ],
)
def test_what_has_a_suffix_or_begins_with_a_folder_is_a_file(text, is_file):
    from posenc_cli.cli.choosing import is_file_name

    assert is_file_name(text) == is_file
