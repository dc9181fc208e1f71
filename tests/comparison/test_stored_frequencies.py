"""Frequencies that a checkpoint stores, held against its config: found, and named."""

import json
import struct

import numpy as np
import pytest

import posenc_cli as posenc

LLAMA, YARN, GEMMA = "llama-3.1-8b", "qwen2.5-7b-yarn", "gemma-3-4b"
NAME = "model.layers.{}.self_attn.rotary_emb.inv_freq"
DTYPES = {"float32": "F32", "float16": "F16", "float64": "F64", "bfloat16": "BF16"}


def write(path, tensors):
    """A .safetensors file of some arrays, of bfloat16 their bits."""
    entries, data = {}, b""
    for name, (values, dtype) in tensors.items():
        content = np.ascontiguousarray(values).tobytes()
        entries[name] = {
            "dtype": DTYPES[dtype],
            "shape": list(np.shape(values)),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return str(path)


def bits(values):
    """The bits of numbers rounded to bfloat16."""
    single = np.asarray(values, np.float32).view(np.uint32)
    return ((single + 0x7FFF + ((single >> 16) & 1)) >> 16).astype(np.uint16)


def stored(values, dtype="float32", layers=range(32), name=NAME):
    """Tensors of the same frequencies in some layers, beside one of weights."""
    kept = bits(values) if dtype == "bfloat16" else np.asarray(values, dtype)
    weights = {"model.embed_tokens.weight": (np.zeros((4, 4), np.float32), "float32")}
    return weights | {name.format(layer): (kept, dtype) for layer in layers}


def ladder(base, pairs=64):
    return base ** (-np.arange(pairs) / pairs)


OWN = posenc.frequencies(LLAMA)

KINDS = {
    "not stretched": (LLAMA, ladder(5e5), {"llama3-factors"}),
    "the base of Llama 2": (LLAMA, ladder(1e4), {"base"}),
    "a base a hundredth off": (LLAMA, ladder(5.05e5), {"base"}),
    "stretched linearly": (LLAMA, ladder(5e5) / 8, {"llama3-factors"}),
    "half as many pairs": (LLAMA, ladder(5e5, 32), {"rotary-width"}),
    "the last four lost": (LLAMA, np.r_[OWN[:60], np.zeros(4)], {"frequencies"}),
    "no numbers": (LLAMA, np.full(64, np.nan), {"frequencies"}),
    "multiplied by 8": (LLAMA, 8 * OWN, {"frequencies"}),
    "one pair a hundredth off": (
        LLAMA,
        OWN * np.array([1.0] * 20 + [1.01] + [1.0] * 43),
        {"frequencies"},
    ),
    "YaRN left out": (YARN, ladder(1e6), {"scaling-type"}),
    "YaRN of another factor": (
        YARN,
        posenc.frequencies(
            "rope-yarn", dim=128, base=1e6, factor=8, original_max_position_embeddings=32768
        ),
        {"factor"},
    ),
    "linear in place of YaRN": (YARN, ladder(1e6) / 4, {"scaling-type"}),
    "stretched where nothing is": ("qwen3-8b", ladder(1e6) / 4, {"scaling-type", "factor"}),
}


@pytest.fixture
def compared(call, tmp_path):
    def run(model, tensors, *more):
        path = write(tmp_path / "model.safetensors", tensors)
        status, out, err = call("compare", model, path, "--json", *more)
        return status, json.loads(out) if out else {}, err

    return run


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize("kind", KINDS)
def test_what_stored_frequencies_lost_is_found_and_named(compared, kind):
    model, values, expected = KINDS[kind]
    status, document, _ = compared(model, stored(values))
    assert status == 1
    assert expected <= {loss["name"] for loss in document["losses"]}


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("model", [LLAMA, YARN, "qwen3-8b", "phi-2", "deepseek-v3", "gpt-oss-20b"])
def test_the_configs_own_frequencies_are_no_loss_in_any_format(compared, model, dtype):
    status, document, err = compared(model, stored(posenc.frequencies(model), dtype))
    assert (status, document["losses"]) == (0, [])
    assert ("moves" in err) == (dtype in ("float16", "bfloat16"))


def test_a_layer_that_differs_alone_is_named(compared):
    tensors = stored(OWN) | stored(ladder(5e5), layers=[7, 8])
    status, document, _ = compared(LLAMA, tensors)
    assert status == 1
    assert [loss["layers"] for loss in document["losses"]] == ["layers 7–8"]


def test_layers_are_held_against_their_own_kind(compared):
    kinds = {"sliding_attention": ladder(1e4, 128), "full_attention": ladder(1e6, 128) / 8}
    tensors = {
        f"model.rotary_emb.{kind}_inv_freq": (values.astype(np.float32), "float32")
        for kind, values in kinds.items()
    }
    assert compared(GEMMA, tensors)[0] == 0
    swapped = dict(zip(tensors, [*tensors.values()][::-1], strict=True))
    status, document, _ = compared(GEMMA, swapped)
    assert status == 1
    assert {(loss["name"], loss["layers"]) for loss in document["losses"]} >= {
        ("sliding-base", "sliding_attention"),
        ("base", "full_attention"),
    }


def test_frequencies_of_an_image_encoder_and_those_kept_beside_are_not_of_the_text(compared):
    others = {
        "visual.rotary_pos_emb.inv_freq": (ladder(1e4, 20).astype(np.float32), "float32"),
        "model.rotary_emb.original_inv_freq": (ladder(5e5).astype(np.float32), "float32"),
    }
    assert compared(LLAMA, stored(OWN) | others)[0] == 0
    status, _, err = compared(LLAMA, others)
    assert status == 2
    assert "several arrays" in err


def test_shards_are_one_checkpoint_by_their_index_or_folder(call, tmp_path):
    parts = {"a": stored(OWN, layers=range(16)), "b": stored(ladder(5e5), layers=range(16, 32))}
    parts["b"].pop("model.embed_tokens.weight")
    names = {part: f"model-{part}.safetensors" for part in parts}
    for part, tensors in parts.items():
        write(tmp_path / names[part], tensors)
    weights = {name: names[part] for part, tensors in parts.items() for name in tensors}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weights}), "utf-8")
    texts = [call("compare", LLAMA, str(place), "--json") for place in (index, tmp_path)]
    for status, out, _ in texts:
        losses = json.loads(out)["losses"]
        assert (status, [loss["layers"] for loss in losses]) == (1, ["layers 16–31"])
    status, out, _ = call("compare", str(index), LLAMA, "--json")
    assert (status, json.loads(out)["losses"][0]["b"]["source"]) == (1, "rope_scaling.factor")
    (tmp_path / names["b"]).unlink()
    status, _, err = call("compare", LLAMA, str(index))
    assert (status, err.count("\n")) == (3, 1)
