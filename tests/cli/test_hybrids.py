"""Hybrids ``A+B``: one file with an array for each part."""

import json

import numpy as np
import pytest

from tests.matrices import matrix


def test_a_hybrid_writes_each_part_as_if_alone(call, tmp_path):
    status, out, err = call("generate", "-s", "sinusoidal+t5", "-l", "12", "-d", "8")
    assert (status, out) == (0, "")
    assert err.startswith("wrote 'sinusoidal+t5-12.npz': sinusoidal+t5, 12 × 8 and 8 × 12 × 12")
    with np.load(tmp_path / "sinusoidal+t5-12.npz") as archive:
        assert set(archive) == {"sinusoidal", "t5", "metadata"}
        assert archive["sinusoidal"].tobytes() == matrix("sinusoidal", "0:12", dim=8).tobytes()
        assert archive["t5"].tobytes() == matrix("t5", "0:12").tobytes()
        metadata = json.loads(str(archive["metadata"]))
    assert metadata["t5.scheme"] == "t5"
    assert metadata["sinusoidal.positions"] == "0:12"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_safetensors_holds_a_tensor_for_each_part(dtype, call, tmp_path):
    from safetensors import safe_open

    arguments = ("-s", "sinusoidal+rope+alibi", "-l", "6", "-o", "a.safetensors")
    assert call("generate", *arguments, "--dtype", dtype)[0] == 0
    with safe_open(tmp_path / "a.safetensors", framework="np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
        if dtype == "float32":
            assert file.get_tensor("alibi").tobytes() == matrix("alibi", "0:6").tobytes()
    assert shapes == {"sinusoidal": [6, 64], "rope": [6, 64], "alibi": [8, 6, 6]}


def test_a_parameter_reaches_the_parts_that_have_it_and_a_dotted_one_its_own(document):
    arguments = ("-s", "learned+t5", "-l", "4", "--set", "seed=3", "--set", "t5.seed=5")
    found = document("generate", *arguments, "--heads", "2")
    assert found["scheme"] == "learned+t5"
    learned, t5 = found["parts"]
    assert (learned["params"]["seed"], t5["params"]["seed"], t5["params"]["heads"]) == (3, 5, 2)
    assert (learned["shape"], t5["shape"]) == ([4, 64], [2, 4, 4])


@pytest.mark.parametrize(
    ("asked", "rotary", "given"),
    [
        ("rope+alibi --table cos --head 1", "rope", {"table": "cos"}),
        ("rope-yarn+alibi --set rope-yarn.factor=2 --head 1", "rope-yarn", {"factor": 2}),
    ],
)
def test_table_head_and_dotted_parameters_go_to_the_part_that_has_them(asked, rotary, given, call):
    assert call("generate", "-l", "5", "-o", "a.npz", "-s", *asked.split())[0] == 0
    with np.load("a.npz") as archive:
        assert archive[rotary].tobytes() == matrix(rotary, "0:5", **given).tobytes()
        assert archive["alibi"].tobytes() == matrix("alibi", "0:5", head=1).tobytes()


@pytest.mark.parametrize("command", ["generate", "apply", "emit", "rope-check", "rotation"])
def test_a_command_of_one_encoding_refuses_the_second(command, call, refused):
    assert refused(command, "-s", "rope", "-s", "t5", "--dim", "8") == (
        "posenc: error: --scheme: given as 'rope' and as 't5'; it takes one\n"
        "hint: posenc compare rope t5 compares them\n"
    )
    assert "it takes one" not in call(command, "-s", "rope", "-s", "rope", "--len", "4")[2]
