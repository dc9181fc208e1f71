"""``posenc identify CHECKPOINT``: its positional tensors, and tensors taken by name."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from posenc_cli.files.reading import read_headers
from posenc_cli.files.source import ArrayHeader
from posenc_cli.inference.tensors import positional_tensors

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoint_tensors.json"
CASES = {case["model"]: case for case in json.loads(GOLDEN.read_text())["cases"]}


def listed(call, *arguments):
    status, out, err = call("identify", *arguments, "--json")
    document = json.loads(out)
    assert list(document)[:5] == ["schema", "ok", "verdict", "cause", "next"]
    known = any(tensor["kind"] for tensor in document["tensors"])
    assert (status, err, document["ok"]) == (0 if known else 1, "", known)
    return document["tensors"]


def saved(path, **shapes):
    """A checkpoint of random numbers; ``__`` in a name stands for a dot."""
    draw = np.random.default_rng(0).standard_normal
    tensors = {
        name.replace("__", "."): np.asarray(draw(shape), np.float32)
        for name, shape in shapes.items()
    }
    save_file(tensors, path)
    return tensors


def sparse(path, size, **entries):
    """A .safetensors file of one hole."""
    header = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)


@pytest.mark.parametrize("model", CASES)
def test_of_real_models_the_positional_tensors_are_listed_and_no_others(model):
    case = CASES[model]
    headers = [
        ArrayHeader(name, tuple(shape), "float32") for name, shape in case["tensors"].items()
    ]
    tensors = positional_tensors("model.safetensors", headers)
    assert {tensor.name: tensor.kind for tensor in tensors} == case["positional"]
    assert all(tensor.command for tensor in tensors)


@pytest.mark.long
def test_every_command_it_shows_runs_as_it_is_pasted(call):
    of_each_name = {}
    for model, case in CASES.items():
        for name in case["positional"]:
            parts = [name, *(name.replace(".0.weight", end) for end in (".0.bias", ".2.weight"))]
            alike = re.sub(r".*\.(?=\w+(\.\d)?(\.weight)?$)", "", name)
            of_each_name[alike] = {
                f"{model}.{part}": case["tensors"][part]
                for part in parts
                if part in case["tensors"]
            }
    shapes = {name: shape for named in of_each_name.values() for name, shape in named.items()}
    shapes |= {"rotary_emb.inv_freq": [16], "rope_freqs.weight": [16], "cos_cached": [1, 1, 8, 16]}
    tensors = saved("a model.safetensors", **shapes)
    tensors["rotary_emb.inv_freq"] = (10000.0 ** (-np.arange(16) / 16)).astype(np.float32)
    angles = np.arange(8)[:, None] * np.tile(tensors["rotary_emb.inv_freq"][:8], 2)
    tensors["cos_cached"] = np.cos(angles, dtype=np.float32)[None, None]
    tensors["encoding.pe"] = np.tile(tensors["cos_cached"][0].swapaxes(0, 1), 2)
    save_file(tensors, "a model.safetensors")
    found = listed(call, "a model.safetensors")
    assert len(found) == len(of_each_name) + 4
    for tensor in found:
        program, *words = shlex.split(tensor["command"])
        assert program == "posenc"
        status, out, err = call(*words)
        assert status == (1 if tensor["name"] == "encoding.pe" else 0), (tensor["command"], err)
        assert out


def test_a_shape_that_no_table_has_is_told_and_given_no_command(call):
    saved(
        "m.safetensors",
        wpe__weight=(64,),
        x__relative_position_bias_table=(169, 4, 1),
        y__relative_attention_bias__weight=(4,),
        rotary_emb__inv_freq=(2, 3),
    )
    found = listed(call, "m.safetensors")
    assert [(tensor["kind"], tensor["command"]) for tensor in found] == [(None, None)] * 4
    out = call("identify", "m.safetensors")[1]
    assert "shape does not fit its name: not a table of swin" in " ".join(out.split())
    assert "169×4×1" in out


@pytest.mark.parametrize(
    "name",
    [
        "position_ids",
        "embeddings.position_ids",
        "token_type_embeddings.weight",
        "wpex.weight",
        "post_attention_layernorm.weight",
        "disposition_embedding.weight",
    ],
)
def test_names_that_only_sound_alike_are_left_out(name):
    assert positional_tensors("m.npz", [ArrayHeader(name, (8, 4), "float32")]) == []


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        ("embed_positions.weight", (2050, 8), "2050 positions × 8"),
        ("position_embeddings.weight", (512, 8), "512 positions × 8"),
        ("pos_embed", (1, 197, 8), "197 positions × 8"),
        ("a.relative_position_bias_table", (732, 3), "swin window_size=14x14 heads=3 class_token="),
        ("a.relative_position_bias_table", (143, 3), "table of swin, but 143 rows do not"),
        ("rel_attn_embed.weight", (320, 12), "t5 num_buckets=320 heads=12 max_distance=800"),
    ],
)
def test_a_table_is_told_by_what_its_shape_says(name, shape, text):
    (tensor,) = positional_tensors("m.npz", [ArrayHeader(name, shape, "float32")])
    assert tensor.text.startswith(text)


@pytest.mark.parametrize(
    ("asked", "kind", "verb"),
    [
        ("-s rope --dim 8 --table cos-full --dtype bfloat16", "rotary", "identify"),
        ("-s sinusoidal --dim 8", "absolute", "identify"),
        ("-s alibi --heads 2", "bias", "heatmap"),
    ],
)
def test_files_of_posenc_itself_are_listed_by_their_metadata(call, asked, kind, verb):
    words = ("generate", *asked.split(), "--len", "16", "--out", "own.safetensors", "-q")
    assert call(*words)[0] == 0
    (tensor,) = positional_tensors("own.safetensors", read_headers("own.safetensors"))
    assert (tensor.name, tensor.kind) == ("encoding", kind)
    assert tensor.text.startswith(asked.split()[1] + ", ")
    assert tensor.command.split()[1] == verb
    assert call(*shlex.split(tensor.command)[1:])[0] == 0


def test_whole_numbers_are_no_trained_table():
    (tensor,) = positional_tensors("m.npz", [ArrayHeader("wpe", (8, 4), "int64")])
    assert (tensor.kind, tensor.command) == (None, None)


def test_values_are_never_read(call, tmp_path):
    rows = 1 << 21
    place = {"dtype": "F32", "shape": [rows, 4096], "data_offsets": [0, rows * 4096 * 4]}
    none = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    sparse(tmp_path / "huge.safetensors", rows * 4096 * 4, **{"other": none, "wpe.weight": place})
    (tensor,) = listed(call, "huge.safetensors")
    assert tensor["shape"] == [rows, 4096]


def test_shards_are_read_one_by_one_and_commands_name_the_shard(call, tmp_path, refused):
    saved("model-00001-of-00002.safetensors", wpe__weight=(8, 4), other=(2, 2))
    saved("model-00002-of-00002.safetensors", h__0__rotary_emb__inv_freq=(4,))
    names = {"wpe.weight": 1, "other": 1, "h.0.rotary_emb.inv_freq": 2}
    index = {name: f"model-0000{shard}-of-00002.safetensors" for name, shard in names.items()}
    Path("model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    by_index = listed(call, "model.safetensors.index.json")
    assert [tensor["file"] for tensor in by_index] == sorted({*index.values()})
    by_folder = listed(call, str(tmp_path))
    assert [tensor["name"] for tensor in by_folder] == [tensor["name"] for tensor in by_index]
    Path("model-00002-of-00002.safetensors").unlink()
    err = refused("identify", "model.safetensors.index.json", status=3)
    assert "model-00002-of-00002.safetensors" in err


@pytest.mark.parametrize(
    "text",
    [
        '{"weight_map": {"a": "../x.safetensors"}}',
        '{"weight_map": {"a": "/etc/passwd"}}',
        '{"weight_map": {"a": 1}}',
        '{"weight_map": ["a"]}',
        '{"a": 1}',
        "[]",
        "{",
        "[" * 99999,
    ],
)
def test_an_index_that_names_no_files_beside_it_is_refused(text, refused):
    Path("model.safetensors.index.json").write_text(text)
    assert refused("identify", "model.safetensors.index.json").count("\n") == 1


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "a.ckpt"])
def test_what_cannot_be_listed_is_refused_with_the_way_out(name, call, refused):
    Path(name).write_bytes(b"PK\3\4 or anything")
    assert "safetensors.torch.save_file" in refused("identify", name)
    Path("folder").mkdir()
    Path("folder", name).write_bytes(b"")
    assert call("identify", "folder")[0] == 2


@pytest.mark.parametrize("command", ["identify", "explain", "rope-check -s rope --inv-freq"])
def test_a_folder_without_the_file_is_a_missing_file_for_every_command(command, call):
    Path("folder").mkdir()
    assert call(*command.split(), "folder")[0] == 3


def test_an_archive_is_listed_and_a_file_of_one_array_is_identified(call, printed):
    np.savez(
        "m.npz", **{"wpe.weight": np.ones((8, 4)), "other": np.ones(2), "words": np.array(["a"])}
    )
    assert [tensor["name"] for tensor in listed(call, "m.npz")] == ["wpe.weight"]
    assert call("generate", "-s", "sinusoidal", "-l", "64", "-o", "t.npz", "-q")[0] == 0
    assert call("identify", "t.npz")[1].startswith("identified: ")
    np.savez("n.npz", a=np.ones((8, 4)), b=np.ones((8, 4)))
    out = printed("identify", "n.npz", status=1)
    assert out.startswith("none of 2 tensors holds positions, by name and shape\ncause: ")
    assert "cause: the names are 'a', 'b'; models with RoPE or ALiBi store none" in out
    assert "next: run posenc identify n.npz:a to compare the values of 'a'" in out
    saved("model.safetensors", **{f"layers__{layer}__weight": (4, 4) for layer in range(20)})
    out = printed("identify", "model.safetensors", status=1)
    assert "\nnext: run posenc explain config.json to see their settings" in out


def test_layers_that_are_alike_are_told_once(call):
    saved("m.safetensors", **{f"h__{layer}__rotary_emb__inv_freq": (4,) for layer in range(12)})
    assert len(listed(call, "m.safetensors")) == 12
    out = call("identify", "m.safetensors")[1]
    assert "h.0.rotary_emb.inv_freq, and 11 more like it" in out
    assert out.count("inv_freq") == 2


def test_a_name_cannot_steer_the_terminal(call):
    save_file({"\x1b[2J.wpe.weight": np.ones((8, 4), np.float32)}, "m.safetensors")
    assert "\x1b" not in call("identify", "m.safetensors")[1]


def test_a_tensor_that_is_not_there_is_answered_with_one_that_is(refused):
    layers = {f"h__{layer}__weight": (4, 4) for layer in range(20)}
    saved("m.safetensors", **layers, wpe__weight=(8, 4))
    assert "did you mean 'wpe.weight'?" in refused("heatmap", "--in", "m.safetensors:wpe.wieght")
