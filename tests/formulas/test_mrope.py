"""Multimodal RoPE against the models it is named after, and the files its axes come from."""

import numpy as np
import pytest

from posenc_cli.errors import InvalidInput, Unavailable
from tests import tolerances
from tests.formulas.test_peers import turned
from tests.matrices import matrix, request

QWEN2 = {"base": 1e6, "layout": "half"}
QWEN3 = {"base": 5e6, "layout": "half", "sections": "24,20,20", "interleaved": True}
ERNIE = {"base": 5e5, "sections": "22,22,20", "order": "hwt"}
MODELS = {
    "mrope_qwen2_vl": QWEN2,
    "mrope_qwen3_vl_interleaved": QWEN3,
    "mrope_ernie4_5_vl": ERNIE,
}


@pytest.fixture
def axes(tmp_path):
    """Write an array of coordinates to a file, and name it."""

    def write(array, name="axes.npy"):
        np.save(tmp_path / name, np.asarray(array))
        return str(tmp_path / name)

    return write


def allowed(angles, *, at_rest=tolerances.TABLE, times=1):
    """Peers' float32 positions, frequencies and products, for any pair of a token's axes."""
    return at_rest + times * tolerances.ANGLE * angles


def largest_angles(positions, base, dim=128):
    frequencies = base ** (-np.arange(0, dim, 2) / dim)
    return positions.max(axis=0)[:, None] * frequencies


@pytest.mark.parametrize("name", MODELS)
def test_cosines_and_sines_equal_transformers(name, golden, axes):
    _, arrays = golden(name)
    positions, given = arrays["position_ids"], MODELS[name]
    angles = largest_angles(positions, given["base"])
    full = np.repeat(angles, 2, axis=1) if name == "mrope_ernie4_5_vl" else np.tile(angles, 2)
    for function in ("cos", "sin"):
        ours = matrix("mrope", None, table=f"{function}-full", axes=axes(positions), **given)
        assert (np.abs(ours - arrays[function]) <= allowed(full)).all()


@pytest.mark.parametrize(
    ("name", "given"),
    [*MODELS.items(), ("mrope_xd_hunyuan", {"layout": "half", "sections": "16,16,16,16"})],
)
def test_full_tables_turn_queries_as_the_model_does(name, given, golden, axes):
    _, arrays = golden(name)
    positions = arrays["position_ids"]
    tables = (
        matrix("mrope", None, table=table, axes=axes(positions), **given)
        for table in ("cos-full", "sin-full")
    )
    queries = arrays["q"][0].astype(np.float64)
    ours = turned(queries, *tables, given.get("layout", "interleaved"))
    angles = largest_angles(positions, given.get("base", 1e4)).max(axis=1)[:, None]
    bound = allowed(angles, at_rest=tolerances.ROTATED, times=6)
    assert (np.abs(ours - arrays["q_out"][0]) <= bound).all()


@pytest.mark.parametrize("given", MODELS.values(), ids=MODELS)
def test_text_turns_as_rope_does(given, axes):
    plain = {key: given[key] for key in ("base", "layout") if key in given}
    expected = matrix("rope", "0:40", dim=128, table="cos-full", **plain)
    assert np.array_equal(matrix("mrope", "0:40", table="cos-full", **given), expected)
    same = axes(np.tile(np.arange(40), (3, 1)))
    ours = matrix("mrope", None, table="cos-full", axes=same, **given)
    assert np.array_equal(ours, expected)


@pytest.mark.parametrize(
    ("given", "followed"),
    [
        ({"sections": "2,3,1"}, "tthhhw"),
        ({"sections": "0,6,0"}, "hhhhhh"),
        ({"sections": "2,2,2", "interleaved": True}, "thwthw"),
        ({"sections": "4,1,1", "interleaved": True}, "thwttt"),
        ({"sections": "2,2,2", "order": "hwt"}, "hwhwtt"),
        ({"sections": "0,0,6", "order": "hwt"}, "tttttt"),
        ({"sections": "3,1,1,1"}, "ttthwx"),
    ],
)
def test_each_pair_follows_the_axis_of_its_section(given, followed, axes):
    places = {"t": 100, "h": 20, "w": 3, "x": -4}
    rows = 4 if "x" in followed else 3
    file = axes(np.array(list(places.values()))[:rows, None])
    complex64 = matrix("mrope", None, dim=12, table="complex", axes=file, dtype="float64", **given)
    frequencies = 1e4 ** (-np.arange(6) / 6)
    expected = np.exp(1j * frequencies * [places[axis] for axis in followed])
    assert np.abs(complex64[0] - expected).max() <= 1e-13


def test_a_token_is_a_column_of_the_file(axes):
    file = axes([[5, 6, 7, 9], [0, 1, -1, 2], [2, 2, 3, 3]])
    whole = matrix("mrope", None, axes=file)
    assert whole.shape == (4, 128)
    assert np.array_equal(matrix("mrope", "3,0,1:3", axes=file), whole[[3, 0, 1, 2]])
    with pytest.raises(InvalidInput, match=r"position 4 is past .*has 4 columns"):
        request("mrope", "0:5", axes=file).plan()


def test_a_partial_rotation_has_sections_of_its_own(axes):
    """GLM-4V turns half of its 128 columns, Qwen3.5 a quarter of 256."""
    file = axes([[5], [6], [7]])
    ours = matrix("mrope", None, partial=0.5, sections="8,12,12", axes=file)
    assert np.array_equal(ours, matrix("mrope", None, dim=64, sections="8,12,12", axes=file))


@pytest.mark.parametrize(
    ("array", "message", "hint"),
    [
        (np.zeros((2, 5)), "shape 2×5; it must be 3×L", None),
        (np.zeros((5, 3)), "shape 5×3; it must be 3×L", "transpose it"),
        (np.zeros((3, 1, 5)), "shape 3×1×5; it must be 3×L", None),
        (np.zeros(3), "holds an array of shape 3", None),
        (np.array([[0.1, 999.0]] * 3), "together need more than 53 bits", "round them to float32"),
        (np.full((3, 2), np.nan), "must be finite numbers", None),
        (np.full((3, 2), -np.inf), "must be finite numbers", None),
        (np.zeros((3, 2), complex), "must hold real numbers, not complex128", None),
        (np.full((3, 2), -(2.0**53) - 2), r"is past 2\^53", None),
    ],
)
def test_a_file_that_holds_no_coordinates_is_refused(array, message, hint, axes):
    with pytest.raises(InvalidInput, match=rf"--set axes=.*axes.npy:? .*{message}") as error:
        request("mrope", None, axes=axes(array))
    assert error.value.hint == hint or (hint and error.value.hint.startswith(hint))


def test_a_file_that_is_not_there_is_the_environments_fault(tmp_path):
    with pytest.raises(Unavailable, match="nothing.npy"):
        request("mrope", None, axes=str(tmp_path / "nothing.npy"))


def test_coordinates_up_to_the_last_exact_one_are_exact(axes):
    file = axes([[2**53], [-(2**53)], [0]])
    ours = matrix("mrope", None, axes=file, dim=6, sections="1,1,1", table="complex")
    turn = matrix("rope", f"{2**53}", dim=6, table="complex")
    assert ours[0].tolist() == [turn[0, 0], turn[0, 1].conj(), 1]


def test_tokens_may_have_fractional_coordinates(axes):
    places = np.array([[0.5, 1.25], [-0.75, 2.0], [3.0, 0.125]])
    file = axes(places)
    ours = matrix("mrope", None, dim=12, sections="2,2,2", axes=file, table="complex")
    rates = 10_000.0 ** (-np.arange(0, 12, 2) / 12)
    expected = np.exp(1j * places[[0, 0, 1, 1, 2, 2]].T * rates)
    assert np.abs(ours - expected).max() <= 1e-7
    whole = axes(places * 8, "whole.npy")
    scaled = matrix("mrope", None, dim=12, sections="2,2,2", axes=whole, table="angles")
    assert not np.array_equal(scaled, matrix("mrope", None, dim=12, sections="2,2,2", axes=file))
    given = {"dim": 12, "sections": "2,2,2", "table": "inv-freq", "dtype": "float64"}
    assert np.array_equal(matrix("mrope", None, axes=file, **given), matrix("mrope", None, **given))
