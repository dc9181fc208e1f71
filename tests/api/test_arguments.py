"""What callers may give, and errors in the words of arguments."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.api.arguments import GivenPositions, argument_text

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 5e5,
    "max_position_embeddings": 4096,
}
MASKED = np.ma.masked_array(np.ones((2, 2), np.float32), mask=np.eye(2))


def positions(given):
    return list(GivenPositions.of(given).positions)


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        (3, [0, 1, 2]),
        (range(2, 9, 3), [2, 5, 8]),
        (range(3, 0, -1), [3, 2, 1]),
        ("0:3,10", [0, 1, 2, 10]),
        ([4, 4, 5, 0], [4, 4, 5, 0]),
        (np.array([7, 8, 9], np.int32), [7, 8, 9]),
        (np.array([7], np.uint64), [7]),
    ],
)
def test_positions_come_in_the_order_they_are_given(given, numbers):
    assert positions(given) == numbers


@pytest.mark.parametrize(
    "given",
    [
        0,
        -1,
        range(0),
        "5:2",
        [],
        [math.nan],
        [math.inf],
        [2**53 + 1],
        [1e300],
        [1e-300],
        [0.1, 1000.0],
        [1.5, "a"],
        True,
        "a",
        np.zeros(3, complex),
        {},
        [[1, 2], [3]],
        np.array(4),
    ],
)
def test_what_names_no_position_is_a_value_error(given):
    with pytest.raises(ValueError, match="position"):
        posenc.encode("rope", given, dim=8)


def test_an_encoding_is_a_scheme_a_model_a_path_a_dict_or_a_config(tmp_path):
    class PretrainedConfig:
        def to_dict(self):
            return CONFIG

    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    tables = [
        posenc.encode(encoding, 8)
        for encoding in (path, str(path), CONFIG, PretrainedConfig(), posenc.from_config(CONFIG))
    ]
    for table in tables[1:]:
        assert np.array_equal(table, tables[0])
    assert posenc.encode("llama-3-8b", 4).shape == (4, 128)


def test_parameters_replace_those_of_a_config():
    assert posenc.frequencies("llama-3-8b", base=1e4)[1] == posenc.frequencies("rope", dim=128)[1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: posenc.encode("rop", 4), "'rop' is neither a scheme nor a model (did you mean"),
        (lambda: posenc.encode("rope", 4, dim=3), "dim 3: rotary encodings turn pairs"),
        (lambda: posenc.encode("rope", 4, dmi=4), "dmi: rope has no parameter 'dmi'"),
        (lambda: posenc.encode("rope", 4, dim=4, dtype="int8"), "dtype 'int8': must be one of"),
        (lambda: posenc.encode("rope", 4, dim=4, dtype="bf16"), "NumPy has no such format"),
        (
            lambda: posenc.encode("rope", 4, dim=4, dtype="float16", round_to="float32"),
            "round_to float32: float16 does not hold every value of it",
        ),
        (lambda: posenc.encode("alibi", 4, heads=8, head=8), "head 8: the heads are 0 to 7"),
        (lambda: posenc.encode("alibi", 4, heads=8, table="cos"), "table cos: alibi is bias"),
        (lambda: posenc.encode("gemma-3-4b", 4), "layers of gemma3_text differ"),
        (lambda: posenc.encode(3, 4), "a int is no encoding"),
        (lambda: posenc.encode("rope+alibi", 4, dim=8, heads=2), "is 2 encodings"),
        (lambda: posenc.from_config({"rope_theta": "x", "model_type": "llama"}), "rope_theta"),
        (lambda: posenc.bias("rope", 4, dim=8), "encoding 'rope': is rotary, not a bias"),
        (lambda: posenc.frequencies("alibi"), "encoding 'alibi': is not made of waves"),
        (lambda: posenc.rotate(np.ones((4, 8)), None, 4, "alibi"), "turns nothing"),
        (lambda: posenc.rotate(np.ones((4, 8)), None, 5, "rope", dim=8), "5 positions along axis"),
        (lambda: posenc.rotate(np.ones((4, 6)), None, 4, "rope", dim=8), "at least 8 columns"),
        (lambda: posenc.rotate(np.ones((4, 8), int), None, 4, "rope", dim=8), "not int64"),
        (lambda: posenc.rotate([[1.0, 0.0]], None, 1, "rope", dim=2), "q: must be real numbers in"),
        (lambda: posenc.encode("rope", 4, dim=8, table="zz"), "table 'zz': must be one of cos-sin"),
        (lambda: posenc.encode("rope", 4, dim=8, arithmetic="zz"), "arithmetic 'zz': must be"),
        (lambda: posenc.encode("rope", 4, dim=8, like=[1.0]), "like: must be an array"),
        (lambda: posenc.encode("rope", 4, dim=8, out="x"), "out: must be an array"),
        (lambda: posenc.encode("rope", 4, dim=8, round_to="int8"), "round_to 'int8'"),
        (lambda: posenc.tables("rope", 4, dim=8, out=np.ones(3)), "out: tables takes none"),
        (lambda: posenc.blocks("sinusoidal+alibi", 4), "is 2 encodings"),
        (lambda: posenc.similarity("rope", 4, dim=8, normalize="zz"), "normalize 'zz'"),
        (lambda: posenc.similarity("rope", 4, dim=8, content="zz"), "content 'zz'"),
        (lambda: posenc.heatmap("rope", 4, dim=8, theme="blue"), "theme 'blue'"),
        (lambda: posenc.heatmap("rope", 4, dim=8, width=10**9), "width '1000000000': must be"),
        (lambda: posenc.heatmap("rope", 4, dim=8, columns=range(0)), "columns: must be a range"),
        (lambda: posenc.compare("rope", "rope", tol=float("nan")), "tol 'nan'"),
        (lambda: posenc.compare(MASKED, "rope", dim=4), "a: is a masked array (its filled(…)"),
        (lambda: posenc.identify(MASKED), "array: is a masked array"),
        (lambda: posenc.rope_check("rope", tables=(MASKED,) * 2), "cos: is a masked array"),
        (lambda: posenc.rotate(MASKED, None, 2, "rope", dim=2), "q: is a masked array"),
        (lambda: posenc.encode("rope", MASKED, dim=2), "positions: is a masked array"),
        (lambda: posenc.encode("rope", 2, dim=2, like=MASKED), "like: is a masked array"),
        (lambda: posenc.encode("rope", 2, dim=2, out=MASKED), "out: is a masked array"),
        (lambda: posenc.frequencies("rope", like=[1.0]), "like: must be an array or a tensor"),
        (lambda: posenc.identify(np.ones((2, 3)), np.ones((3, 2))), "cos and sin: must have one"),
        (lambda: posenc.from_config(posenc.from_config("gpt2"), runtime="vllm"), "read already"),
    ],
)
def test_errors_are_value_errors_that_name_arguments(call, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the words are compared below
        call()
    assert words in str(error.value)
    assert "--" not in str(error.value)
    assert isinstance(error.value, posenc.PosencError)


def test_what_the_machine_lacks_is_no_value_error(tmp_path):
    with pytest.raises(posenc.Unavailable):
        posenc.from_config(tmp_path / "absent.json")


def test_what_a_caller_names_stays_as_it_is(tmp_path):
    folder = tmp_path / "run--len"
    folder.mkdir()
    (folder / "config.json").write_text("{}}")
    with pytest.raises(ValueError, match="run--len/config.json"):
        posenc.from_config(folder / "config.json")
    assert argument_text("--len 'a --len b': wrong") == "positions 'a --len b': wrong"


def test_a_message_about_options_becomes_one_about_arguments():
    assert argument_text("--set factor=2, --layer-type x, or --as vllm") == (
        "factor=2, layer_type x, or runtime vllm"
    )
