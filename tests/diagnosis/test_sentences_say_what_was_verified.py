"""A sentence of a report says no more than was verified on all entries that it speaks of."""

import json

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from tests.checks import rope
from tests.diagnosis.textbook import ladder

ROWS, DIM = 512, 64
POSITIONS = np.arange(ROWS)
PLAIN = ("rope-check", "-s", "rope", "--dim", "64", "--layout", "half")
PARTIAL = (*PLAIN, "--set", "partial=0.75")


def rotated(x, positions, frequencies):
    angles = np.tile(np.outer(positions, frequencies), 2)
    width = 2 * len(frequencies)
    own = x[:, :width]
    turned = np.concatenate([-own[:, width // 2 :], own[:, : width // 2]], 1)
    return np.concatenate([own * np.cos(angles) + turned * np.sin(angles), x[:, width:]], 1)


@pytest.fixture
def told(tmp_path, call):
    """The causes of vectors that became others, as the report has them."""

    def of(after, *command, before=None):
        x = vectors() if before is None else before
        np.save(tmp_path / "x.npy", x.astype(np.float32))
        np.save(tmp_path / "y.npy", after.astype(np.float32))
        files = ("--rotated", str(tmp_path / "x.npy"), str(tmp_path / "y.npy"))
        status, out, _ = call(*command, *files, "--json")
        assert status == 1
        return json.loads(out)["diagnosis"]

    return of


def vectors():
    return np.random.default_rng(3).standard_normal((ROWS, DIM))


CONSTANTS = {
    "one number": np.full(DIM, 0.5),
    "numbers of its own": np.random.default_rng(5).standard_normal(DIM),
    "one column": np.where(np.arange(DIM) == 3, 0.7, 0.0),
}


@pytest.mark.long
@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_constant_that_is_added_is_unknown(constant, told):
    for x in (rotated(vectors(), POSITIONS, ladder(64, 1e4)), vectors()):
        (cause,) = told(x + CONSTANTS[constant], *PLAIN)
        assert cause["cause"] == "unknown"


PASSED = {
    "copy going in": lambda x, _: x[:, :16],
    "copy coming out": lambda _, y: y[:, :16],
    "reversed": lambda x, _: x[:, :47:-1],
    "rolled": lambda x, _: np.roll(x[:, 48:], 1, 1),
    "twice, and a part of others": lambda x, _: 2 * x[:, 48:] + 0.1 * x[:, :16],
}
PORT = """
import numpy as np
def rotated(x, positions):
    angles = np.tile(np.outer(positions, 1e4 ** (-np.arange(0, 48, 2) / 48)), 2)
    turned = np.concatenate([-x[:, 24:48], x[:, :24]], 1)
    return np.concatenate([x[:, :48] * np.cos(angles) + turned * np.sin(angles), x[:, 48:]], 1)
def copy_going_in(x, positions):
    y = rotated(x, positions)
    y[:, 48:] = x[:, :16]
    return y
def rolled(x, positions):
    y = rotated(x, positions)
    y[:, 48:] = np.roll(x[:, 48:], 1, 1)
    return y

def zeros(x, positions):
    y = rotated(x, positions)
    y[:, 48:] = 0
    return y
def nothing_but_the_rest(x, positions):
    y = rotated(x, positions)
    y[:, :48] = 0
    return y
"""
STAY = "16 unrotated dimensions change"


@pytest.mark.long
@pytest.mark.parametrize("name", PASSED)
def test_columns_that_hold_others_did_not_become_0(name, told):
    y = rotated(vectors(), POSITIONS, ladder(48, 1e4))
    y[:, 48:] = PASSED[name](vectors(), y.copy())
    (cause, *_) = told(y, *PARTIAL)
    assert (cause["cause"], cause["message"]) == ("rotary-dim", STAY)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("copy_going_in", STAY),
        ("rolled", STAY),
        ("zeros", STAY),
        ("nothing_but_the_rest", "the 48 columns that should rotate become 0"),
    ],
)
def test_columns_of_a_function_are_told_as_they_are(name, words, tmp_path, call):
    (tmp_path / "port.py").write_text(PORT)
    _, out, _ = call(*PARTIAL, "-l", "64", "--impl", f"{tmp_path}/port.py:{name}", "--json")
    (cause, *_) = json.loads(out)["diagnosis"]
    assert cause["message"].startswith(words)


KEYS = """
import numpy as np
def rotated(x, positions):
    angles = np.tile(np.outer(positions, 1e4 ** (-np.arange(0, 64, 2) / 64)), 2)
    turned = np.concatenate([-x[:, 32:], x[:, :32]], 1)
    return x * np.cos(angles) + turned * np.sin(angles)
def longer_but_one(q, k, positions):
    one = (np.asarray(positions) == 777)[:, None]
    return rotated(q, positions), rotated(k, positions) * np.where(one, 1, 2)
def still_but_one(q, k, positions):
    one = (np.asarray(positions) == 777)[:, None]
    return rotated(q, positions), np.where(one, rotated(k, positions), k)
def made_of_both(q, k, positions):
    return rotated(q, positions) + 0.1 * rotated(k, positions), rotated(k, positions)
def longer(q, k, positions):
    return rotated(q, positions), 2 * rotated(k, positions)
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ["longer_but_one", "still_but_one", "made_of_both", "longer"])
def test_how_keys_differ_is_said_of_all_positions_or_not(name, tmp_path, call):
    (tmp_path / "port.py").write_text(KEYS)
    _, out, _ = call(*PLAIN, "-l", "1024", "--impl", f"{tmp_path}/port.py:{name}", "--json")
    notes = " ".join(json.loads(out)["notes"])
    assert ("the same at all positions" in notes) == (name == "longer")


def tables(frequencies=None, positions=POSITIONS):
    angles = np.outer(positions, ladder(64, 1e4) if frequencies is None else frequencies)
    return np.cos(angles), np.sin(angles)


def causes(cos, sin, right=None):
    right = right or rope.reference("rope", dim=64, layout="half")
    found = rope.of_tables(cos.astype(np.float32), sin.astype(np.float32), right, f"0:{len(cos)}")
    assert not found.ok
    return diagnose(found)


@pytest.mark.long
def test_one_column_that_is_scaled_is_not_said_of_each_pair():
    cos, sin = (np.tile(table, 2) for table in tables())
    cos[:, 40] *= 0.5
    (cause,) = causes(cos, sin)
    assert cause.cause == "unknown"
    assert cause.message == "values differ in pair 8 of 32"


@pytest.mark.long
def test_a_cell_far_from_the_sample_has_no_cause_that_leaves_it_as_it_is():
    cos, sin = tables(positions=np.arange(1024))
    cos[777], sin[900, 4] = np.nan, sin[900, 4] + 0.2
    missing, other = causes(cos, sin)
    assert (missing.cause, other.cause) == ("not-a-number", "unknown")
    assert other.message == "values differ in pair 4 of 32 at position 900"


@pytest.mark.long
def test_zeros_are_not_said_to_be_unwritten_memory():
    cos, sin = tables()
    cos[100:200] = sin[100:200] = 0
    assert causes(cos, sin)[0].message == "values differ at positions 100–199"


def test_ones_are_no_multiples_of_the_right_cells():
    cos, sin = tables()
    (cause,) = causes(np.ones_like(cos), np.ones_like(sin))
    assert cause.cause == "unknown"


def patches(rows=6, columns=10):
    """The coordinates of DINOv3 on a grid: from −1 to 1, the middle of each patch."""
    places = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    sides = zip(places, (rows, columns), strict=True)
    return [(2 * place.ravel() + 1) / count - 1 for place, count in sides]


def dino_tables(y, x):
    periods = 100.0 ** (np.arange(16) / 16)
    angles = 2 * np.pi * np.stack([y, x], 1)[:, :, None] / periods
    angles = np.tile(angles.reshape(len(y), -1), 2)
    return np.cos(angles), np.sin(angles)


OFF = {
    "half a patch": ((1 / 6, 1 / 10), "coordinates are shifted by +0.5 patches on every axis"),
    "a patch": ((2 / 6, 2 / 10), "coordinates are shifted by +1 patch on every axis"),
    "columns alone": ((0, 2 / 10), "coordinates are shifted by +1 patch on axis 1"),
    "one number": (
        (0.1, 0.1),
        "coordinates are shifted by +0.3 patches on axis 0, and shifted by +0.5 patches on axis 1",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", OFF)
def test_offsets_of_coordinates_have_a_unit_and_the_axes_that_they_are_on(name):
    right = rope.reference("rope-axial", dim=64, convention="dinov3", grid="6x10")
    (off_rows, off_columns), words = OFF[name]
    y, x = patches()
    assert causes(*dino_tables(y + off_rows, x + off_columns), right)[0].message == words


@pytest.mark.long
def test_offsets_of_coordinates_from_a_file_are_in_the_numbers_of_the_file(tmp_path):
    y, x = patches()
    np.save(tmp_path / "axes.npy", np.stack([y, x]))
    given = {"dim": 64, "convention": "dinov3", "axes": str(tmp_path / "axes.npy")}
    right = rope.reference("rope-axial", **given)
    (cause, *_) = causes(*dino_tables(y + 0.1, x + 0.1), right)
    assert cause.message == "coordinates are shifted by +0.1 on every axis"
    # What nothing explains is said to depend on the axes, not on m − n.
    (cause, *_) = causes(*dino_tables(y * 0.9 + 0.03, x * 1.1 - 0.07), right)
    assert "m alone" not in cause.evidence


@pytest.mark.long
def test_counted_rows_and_columns_for_centred_ones_are_coordinates_that_are_otherwise():
    """huggingface/pytorch-image-models#2692: places 0, 1, … where DINOv3 has −1 to 1, times 2π."""
    right = rope.reference("rope-axial", dim=64, convention="dinov3", grid="6x10")
    places = np.meshgrid(np.arange(6), np.arange(10), indexing="ij")
    y, x = (place.ravel() / (2 * np.pi) for place in places)
    (cause,) = causes(*dino_tables(y, x), right)
    assert cause.cause == "position-offset"
    assert "coordinates are multiplied by 0.4774648" in cause.message  # 3/2π of them
    assert "on axis 1" in cause.message
