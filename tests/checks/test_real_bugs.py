"""Fifty real bugs of 2023 to 2026, each made again: which command fails of it, and what it names.

docs/bugs.md is the same list for readers, with the thread of each.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import posenc_cli as posenc
from tests.comparison import test_losses as losses
from tests.comparison import test_score_losses as scores
from tests.gguf_files import converted, gguf_bytes, parsed

PAGE = Path(__file__).parents[2] / "docs" / "bugs.md"


def ladder(base, dim):
    """Plain frequencies, (dim/2,)."""
    return base ** (-np.arange(0, dim, 2) / dim)


def tables(frequencies, count=4096, *, dtype=np.float64, scale=1.0):
    """Cosines and sines of the positions from 0 on, as a loop in ``dtype`` makes them."""
    positions = np.arange(count).astype(dtype)
    angles = (positions[:, None] * frequencies.astype(dtype)).astype(dtype)
    return [(scale * trig(angles)).astype(np.float32) for trig in (np.cos, np.sin)]


def bfloat16(values):
    """Values rounded to bfloat16, in float32."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


class Desk:
    """A folder where a bug is made, and the words of the command that should see it."""

    def __init__(self, folder):
        self.folder = folder

    def array(self, values, name="dump.npy", dtype=np.float32):
        np.save(self.folder / name, np.asarray(values, dtype))
        return name

    def config(self, name="config.json", **config):
        (self.folder / name).write_text(json.dumps(config), "utf-8")
        return name

    def file(self, data, name="model.gguf"):
        (self.folder / name).write_bytes(data)
        return name

    def dump(self, of, values, *more):
        return ["rope-check", *of, "--inv-freq", self.array(values), *more]

    def of_tables(self, of, cos, sin, *more):
        names = [self.array(each, f"{name}.npy") for name, each in (("cos", cos), ("sin", sin))]
        return ["rope-check", *of, "--tables", *names, *more]

    def lost(self, case, change):
        """A config and its GGUF file with a change."""
        config, data = converted(case)
        keys, tensors = parsed(data)
        change(keys, tensors)
        return ["compare", self.config(**config), self.file(gguf_bytes(keys, tensors))]

    def lost_scores(self, kind):
        config, metadata = scores.lossy(kind)
        return ["compare", self.config(**config), self.file(gguf_bytes(metadata))]


def model(name, layer_type=None):
    return ["--model", name, *(["--layer-type", layer_type] if layer_type else [])]


LLAMA3 = ladder(500000.0, 128)
GEMMA_FULL = ladder(1e6, 256)
DEEPSEEK = {
    "model_type": "deepseek_v32",
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_hidden_layers": 61,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "max_position_embeddings": 163840,
    "rope_theta": 10000,
    "rope_scaling": {
        "type": "yarn",
        "factor": 40,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
    },
}
ROTATE = """
import numpy as np

FREQUENCIES = {base} ** (-np.arange({columns} // 2) * 2 / {width})
FIRST, SECOND = np.s_[..., {first}], np.s_[..., {second}]


def rotate(x, positions):
    angles = np.asarray(positions, np.float64)[:, None] * FREQUENCIES
    cos, sin = np.cos(angles), np.sin(angles)
    x = np.asarray(x, np.float64)
    turned = np.array(x)
    turned[FIRST] = x[FIRST] * cos - x[SECOND] * sin
    turned[SECOND] = x[FIRST] * sin + x[SECOND] * cos
    return turned
"""


def port(desk, **sizes):
    """A port of a rotation, of which slices say what columns pair up."""
    (desk.folder / "port.py").write_text(ROTATE.format(**sizes), "utf-8")
    return "./port.py:rotate"


def neighbours(desk, base, columns):
    """A port that turns columns 2i and 2i + 1."""
    pairs = {"first": f"0:{columns}:2", "second": f"1:{columns}:2"}
    return port(desk, base=base, columns=columns, width=columns, **pairs)


def gemma4_wrong(width):
    """Gemma 4's frequencies of full layers, as built of a part of the columns."""
    frequencies = np.zeros(256)
    frequencies[:64] = 1e6 ** (-np.arange(64) * 2 / width)
    return frequencies


def b1(desk):
    return desk.dump(model("llama-3.2-1b"), ladder(500000.0, 64))


def b2(desk):
    return desk.dump(model("llama-3.1-8b"), LLAMA3)


def b6(desk):
    return desk.dump(model("gemma-3-4b", "full_attention"), GEMMA_FULL)


def b7(desk):
    return desk.dump(model("gemma-3-4b", "sliding_attention"), ladder(1e4, 256) / 8)


def b9(desk):
    return desk.lost("gemma-3-4b", losses.put("rope.freq_base_swa", "float32", 1e6))


def b10(desk):
    return desk.dump(model("gemma-4-31b", "full_attention"), gemma4_wrong(128))


def b11(desk):
    """Pairs of the first 128 columns alone, in place of columns of both halves of the head."""
    name = port(desk, base=1e6, columns=128, width=512, first="0:64", second="64:128")
    return ["rope-check", *model("gemma-4-31b", "full_attention"), "--impl", name]


def b12(desk):
    return desk.dump(model("gpt-neox-20b"), ladder(1e4, 96)[:12])


def b13(desk):
    return desk.dump(model("gpt-neox-20b"), ladder(1e4, 96))


def b14(desk):
    config = {"model_type": "bailing_moe_v2", "hidden_size": 2048, "num_attention_heads": 16}
    rope = {"head_dim": 128, "rope_theta": 600000, "partial_rotary_factor": 0.5}
    sizes = {"num_hidden_layers": 20, "max_position_embeddings": 32768}
    return desk.dump(["--config", desk.config(**config, **rope, **sizes)], ladder(6e5, 128))


def b15(desk):
    return desk.dump(["--config", desk.config(**DEEPSEEK)], ladder(1e4, 32))


def b16(desk):
    config = desk.config(model_type="gpt_neox_japanese", rotary_pct=0.5)
    return desk.dump(["--config", config], ladder(1e4, 80))


def b17(desk):
    del desk
    return ["compare", "gpt-oss-20b", "--as", "vllm-0.11"]


def b18(desk):
    return desk.dump(model("gpt-oss-20b"), posenc.frequencies("gpt-oss-20b", truncate=True))


def b19(desk):
    return desk.of_tables(
        model("ministral-3-8b"), *tables(posenc.frequencies("ministral-3-8b"), scale=1.2772589)
    )


def b20(desk):
    rope = {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        "attention_factor": 0.5,
    }
    config = {"model_type": "qwen3", "head_dim": 128, "rope_theta": 1e6, "rope_scaling": rope}
    sides = ["--config", desk.config(**config, max_position_embeddings=131072)]
    return desk.of_tables(sides, *tables(posenc.frequencies(config), scale=1.1386294))


def b24(desk):
    yarn = {**DEEPSEEK["rope_scaling"], "mscale": 0.707, "mscale_all_dim": 1.0}
    a = desk.config("a.json", **{**DEEPSEEK, "rope_scaling": yarn})
    yarn = {**yarn, "mscale_all_dim": 0.707}
    return ["compare", a, desk.config("b.json", **{**DEEPSEEK, "rope_scaling": yarn})]


def b23(desk):
    yarn = {k: v for k, v in DEEPSEEK["rope_scaling"].items() if "mscale" not in k}
    a = desk.config("a.json", **DEEPSEEK)
    return ["compare", a, desk.config("b.json", **{**DEEPSEEK, "rope_scaling": yarn})]


def b26(desk):
    return desk.of_tables(
        model("qwen2.5-7b-yarn"), *tables(posenc.frequencies("qwen2.5-7b-yarn"), scale=1.0)
    )


def b27(desk):
    """YaRN's amplitude on DeepSeek V4's compressed layers, which have none."""
    yarn = {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536}
    config = {"model_type": "deepseek_v4", "num_hidden_layers": 4, "rope_scaling": yarn}
    name, frequencies = desk.config(**config), posenc.frequencies(config)
    return desk.of_tables(["--config", name], *tables(frequencies, scale=1.277259))


def b28(desk):
    """The indexer pairs halves: its port is held to that layout."""
    config = desk.config(**{k: v for k, v in DEEPSEEK.items() if k != "rope_scaling"})
    name = neighbours(desk, 10000.0, 64)
    return ["rope-check", "--config", config, "--layout", "half", "--impl", name]


def b32(desk):
    del desk
    return ["compare", "phi-3-vision-128k", "--as", "llama.cpp"]


def b33(desk):
    config = converted("phi-3-vision-128k")[0]
    factors = np.array(config["rope_scaling"]["long_factor"])
    return desk.dump(model("phi-3-vision-128k"), ladder(1e4, 96) / factors, "--len", "2048")


def b34(desk):
    return desk.lost(
        "phi-3-vision-128k",
        losses.several(
            losses.tensor(losses.LONG, lambda _: None), losses.tensor(losses.SHORT, lambda _: None)
        ),
    )


def b35(desk):
    return desk.lost("qwen2.5-7b", losses.absent("rope.freq_base"))


def b36(desk):
    return desk.lost("llama-3.1-8b", losses.tensor(losses.FREQS, lambda _: None))


def b39(desk):
    return desk.dump(model("llama-2-7b"), 2 * ladder(1e4, 128))


def b40(desk):
    values = ladder(1e6, 128)
    values[58:] = [3e-41, 0, 1.2e-38, 4.4e31, 0, -7e12]
    return desk.dump(model("qwen3-8b"), values)


def b41(desk):
    return desk.dump(model("llama-2-7b"), np.zeros(64))


def b42(desk):
    words = ladder(1e4, 128).astype(np.float32).view(np.uint16)[:64]
    return desk.dump(model("llama-2-7b"), (words.astype(np.uint32) << 16).view(np.float32))


def b43(desk):
    positions = bfloat16(np.arange(4096.0))
    angles = positions[:, None] * ladder(500000.0, 128).astype(np.float32)
    return desk.of_tables(model("llama-3-8b"), np.cos(angles), np.sin(angles))


def b44(desk):
    angles = np.arange(4096.0)[:, None] * bfloat16(ladder(500000.0, 128))
    return desk.of_tables(model("llama-3-8b"), np.cos(angles), np.sin(angles))


def b45(desk):
    positions = np.arange(4096).astype(np.float16).astype(np.float32)
    angles = positions[:, None] * ladder(500000.0, 128).astype(np.float32)
    return desk.of_tables(model("llama-3-8b"), np.cos(angles), np.sin(angles))


def b46(desk):
    frequencies = ladder(500000.0, 128).astype(np.float32)
    angles = np.arange(131072 - 64, 131072, dtype=np.float32)[:, None] * frequencies
    return desk.of_tables(
        model("llama-3.1-8b"),
        np.cos(angles),
        np.sin(angles),
        *("--set", "factor=1", "--positions", "131008:131072", "--strict"),
    )


def b47(desk):
    """A port that pairs neighbours on weights that were not permuted."""
    return ["rope-check", *model("llama-2-7b"), "--impl", neighbours(desk, 10000.0, 128)]


def b48(desk):
    rope = {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True}
    config = {"model_type": "qwen3_vl_text", "head_dim": 128, "rope_theta": 5e6}
    a = desk.config("a.json", **config, rope_scaling=rope)
    other = {**config, "model_type": "qwen2_vl_text", "hidden_size": 4096}
    rope = {"type": "mrope", "mrope_section": [24, 20, 20]}
    return ["compare", a, desk.config("b.json", **other, num_attention_heads=32, rope_scaling=rope)]


def b49(desk):
    rope = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32768}
    config = {"model_type": "qwen3", "head_dim": 128, "rope_theta": 1e6, "rope_scaling": rope}
    return ["explain", desk.config(**config, max_position_embeddings=131072), "--strict"]


def b37(desk):
    """The base that suits the whole context, at a length that needs none."""
    rope = {"type": "dynamic", "factor": 4.0}
    config = desk.config(
        model_type="llama",
        hidden_size=4096,
        num_attention_heads=32,
        max_position_embeddings=2048,
        rope_scaling=rope,
    )
    grown = 1e4 * (4.0 * 4 - 3) ** (128 / 126)
    return desk.dump(["--config", config], ladder(grown, 128), "--len", "2048")


def b38(desk):
    config = {
        "model_type": "nomic_bert",
        "n_embd": 768,
        "n_head": 12,
        "n_layer": 12,
        "rotary_emb_base": 1000,
        "rotary_scaling_factor": 2,
        "max_trained_positions": 2048,
    }
    return ["explain", desk.config(**config), "--strict"]


def b50(desk):
    """A checkpoint was trained stretched, and its config does not say so."""
    from tests.comparison import test_stored_frequencies as stored

    config = {**converted("llama-2-7b")[0]}
    path = desk.folder / "model.safetensors"
    stored.write(path, stored.stored(ladder(1e4, 128) / 8))
    return ["compare", desk.config(**config), path.name]


BUGS = {
    **dict.fromkeys((1,), (b1, "scaling-missing")),
    **dict.fromkeys((2, 3, 4, 5), (b2, "scaling-missing")),
    6: (b6, "scaling-missing"),
    **dict.fromkeys((7, 8), (b7, "frequency-rule")),
    9: (b9, "sliding-base"),
    10: (b10, "frequency-rule"),
    11: (b11, "layout"),
    12: (b12, "frequency-rule"),
    13: (b13, "rotary-dim"),
    14: (b14, "rotary-dim"),
    15: (b15, "rotary-dim"),
    16: (b16, "rotary-dim"),
    17: (b17, "truncate"),
    18: (b18, "frequency-rule"),
    19: (b19, "attention-factor"),
    **dict.fromkeys((20, 21, 22), (b20, "attention-factor")),
    **dict.fromkeys((23, 25), (b23, "softmax-factor")),
    24: (b24, "softmax-factor"),
    26: (b26, "attention-factor"),
    27: (b27, "attention-factor"),
    **dict.fromkeys((28, 29, 30, 31), (b28, "layout")),
    32: (b32, "seq_len"),
    33: (b33, "frequency-rule"),
    34: (b34, "long-factors"),
    35: (b35, "base"),
    36: (b36, "llama3-factors"),
    37: (b37, "frequency-rule"),
    38: (b38, "rotary_scaling_factor"),
    39: (b39, "frequency-rule"),
    40: (b40, "uninitialised"),
    41: (b41, "no-rotation"),
    42: (b42, "uninitialised"),
    43: (b43, "position-precision"),
    44: (b44, "inv-freq-precision"),
    45: (b45, "position-precision"),
    46: (b46, "inv-freq-precision"),
    47: (b47, "layout"),
    48: (b48, "interleaved"),
    49: (b49, "rope_scaling.factor"),
    50: (b50, "factor"),
}
"""By its number: how the bug is made, and the word by which its command names it."""


def named(document):
    """What a report names: causes, losses, keys, or the parameters that two sides do not share."""
    for diagnosis in document.get("diagnosis", ()):
        yield diagnosis["cause"]
    for loss in document.get("losses", ()):
        yield loss["name"]
    yield from document.get("unread", ())
    yield from document.get("contradicted", ())
    if document.get("kind") == "rotations":
        a, b = document["a"], document["b"]
        sides = [{**side["params"], "softmax-factor": side["softmax_factor"]} for side in (a, b)]
        yield from (key for key in {*sides[0], *sides[1]} if sides[0].get(key) != sides[1].get(key))


@pytest.mark.long
@pytest.mark.parametrize("number", BUGS)
def test_the_bug_fails_and_is_named(number, tmp_path, call):
    make, word = BUGS[number]
    status, out, err = call(*make(Desk(tmp_path)), "--json")
    assert status == 1, err
    assert word in set(named(json.loads(out)))


def rows():
    """The rows of the page: number, word and state."""
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].isdigit():
            yield int(cells[0]), cells[3].strip("`"), cells[4]


def test_the_page_has_all_fifty_with_the_words_that_are_tested_and_counts_them():
    listed = list(rows())
    assert [number for number, _, _ in listed] == list(range(1, 51))
    assert {number: word for number, word, _ in listed if word} == {
        number: word for number, (_, word) in BUGS.items()
    }
    states = [state.partition(":")[0] for _, _, state in listed]
    assert [states.count(state) for state in ("caught", "in part")] == [45, 5]
    assert "catches 45 bugs fully (*caught*)" in PAGE.read_text("utf-8")
