"""M-RoPE of prompts with images: the ids of the tokens are read off their rotations."""

import shlex

import numpy as np
import pytest

from posenc_cli.identification.search import identify
from posenc_cli.inference.evidence import Evidence

MODELS = {
    "mrope_qwen2_vl": (1e6, (16, 24, 24), False, "thw"),
    "mrope_qwen3_vl_interleaved": (5e6, (24, 20, 20), True, "thw"),
    "mrope_ernie4_5_vl": (5e5, (22, 22, 20), False, "hwt"),
}
TOKENS = 33
"""Of the goldens' prompts: those after them stand far away, as in no prompt."""


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_the_tables_of_transformers_and_the_ids_of_their_prompt_are_recognized(name, golden):
    arrays = golden(name)[1]
    found = identify(Evidence.of_arrays(arrays["cos"][:TOKENS], arrays["sin"][:TOKENS])).match
    assert found.scheme == "mrope"
    names = ("base", "sections", "interleaved", "order")
    assert tuple(found.params[own] for own in names) == MODELS[name]
    assert "--text 5,4 --grid video:2,6,8 > axes.csv" in found.commands[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("prompt", "given"),
    [
        (["0,4,3", "1,6,8", "video:3,4,4"], "qwen2-vl-7b"),
        (["7,1", "1,2,40"], "qwen3-vl-4b"),
    ],
)
def test_the_printed_commands_write_ids_and_table_again(call, tmp_path, prompt, given):
    text, *grids = prompt
    words = ["-m", "qwen2-vl-7b", "--text", text, *(w for grid in grids for w in ("--grid", grid))]
    ids = call("positions", *words)[1]
    (tmp_path / "own.csv").write_text(ids)
    count = str(ids.splitlines()[0].count(",") + 1)
    table = ["generate", "-m", given, "--set", "axes=own.csv", "--len", count]
    assert call(*table, "--table", "interleaved", "--out", "table.npy")[0] == 0
    found = identify(Evidence.of_arrays(np.load(tmp_path / "table.npy"))).match
    positions, command = found.commands
    words = shlex.split(positions.removesuffix(" > axes.csv"))
    (tmp_path / "axes.csv").write_text(call(*words[1:])[1])
    assert call(*shlex.split(command)[1:], "--out", "again.npy")[0] == 0
    assert np.array_equal(np.load(tmp_path / "again.npy"), np.load(tmp_path / "table.npy"))


@pytest.mark.long
def test_tokens_that_follow_no_prompt_are_not_identified(golden):
    arrays = golden("mrope_qwen2_vl")[1]
    order = np.r_[0:8, 12, 8:12, 13:TOKENS]
    assert identify(Evidence.of_arrays(arrays["cos"][order], arrays["sin"][order])).match is None
