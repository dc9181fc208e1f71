"""Hybrids ``A+B``: one file with an array for each part."""

from __future__ import annotations

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


def test_a_parameter_reaches_the_parts_that_have_it_and_a_dotted_one_its_own(call):
    arguments = ("-s", "learned+t5", "-l", "4", "--set", "seed=3", "--set", "t5.seed=5")
    status, out, _ = call("generate", *arguments, "--heads", "2", "--json")
    assert status == 0
    document = json.loads(out)
    assert document["scheme"] == "learned+t5"
    learned, t5 = document["parts"]
    assert (learned["params"]["seed"], t5["params"]["seed"], t5["params"]["heads"]) == (3, 5, 2)
    assert (learned["shape"], t5["shape"]) == ([4, 64], [2, 4, 4])


def test_the_table_is_of_the_rotary_part_and_the_head_of_the_bias(call, tmp_path):
    arguments = ("-s", "rope+alibi", "-l", "5", "--table", "cos", "--head", "1", "-o", "a.npz")
    assert call("generate", *arguments)[0] == 0
    with np.load(tmp_path / "a.npz") as archive:
        assert archive["rope"].tobytes() == matrix("rope", "0:5", table="cos").tobytes()
        assert archive["alibi"].tobytes() == matrix("alibi", "0:5", head=1).tobytes()


def test_a_dotted_parameter_goes_to_the_part_of_its_scheme(call, tmp_path):
    given = ("--set", "rope-yarn.factor=2", "-o", "a.npz")
    assert call("generate", "-s", "rope-yarn+t5", "-l", "4", *given)[0] == 0
    with np.load(tmp_path / "a.npz") as archive:
        expected = matrix("rope-yarn", "0:4", factor=2)
        assert archive["rope-yarn"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("command", ["generate", "apply", "emit", "rope-check", "rotation"])
def test_a_command_of_one_encoding_refuses_the_second(command, call):
    status, out, err = call(command, "-s", "rope", "-s", "t5", "--dim", "8")
    assert (status, out) == (2, "")
    assert err == (
        "posenc: error: --scheme: given as 'rope' and as 't5'; it takes one\n"
        "hint: posenc compare rope t5 compares them\n"
    )
    assert "it takes one" not in call(command, "-s", "rope", "-s", "rope", "--len", "4")[2]
