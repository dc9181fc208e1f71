"""What a GGUF file has lost of its config: found, and named; nothing of a faithful one."""

import io
import json
import re
import struct
from pathlib import Path

import pytest

from posenc_cli.comparison.losses import NAMES, Model, compare_models
from posenc_cli.configs.config import resolve
from posenc_cli.configs.gguf.gguf_architectures import FACTOR_TENSORS
from posenc_cli.configs.library import names as preset_names
from posenc_cli.errors import InvalidInput, PosencError
from posenc_cli.files.gguf import GGUFTensor, read_gguf
from posenc_cli.records import replace
from posenc_cli.render.reports.comparison import losses_fields, losses_text
from posenc_cli.render.typesetting import Typesetter
from tests.configs.test_gguf import of as file_of
from tests.gguf_files import CASES, converted, gguf_bytes, parsed

FREQS, LONG, SHORT = FACTOR_TENSORS
WINDOW = "attention.sliding_window"


def reading(data):
    header = read_gguf(io.BytesIO(data), name="'m.gguf'", size=len(data), asked=FACTOR_TENSORS)
    return Model("m.gguf", resolve(header))


def model(config):
    try:
        read = resolve(config, runtime="llama.cpp", converted=False)
        return Model("it", read, "llama.cpp")
    except InvalidInput:
        return Model("it", resolve(config))


def losses(config, data):
    return {loss.name for loss in compare_models(model(config), reading(data)).losses}


PRESETS = [case["name"] for case in CASES if case["name"] in preset_names()]
NOT_WHOLE = ("bert-base", "roberta-base", "gpt2", "ministral-3-8b")
"""Their tables are weights, which the goldens leave out; Ministral's class writes by another."""


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in PRESETS if name not in NOT_WHOLE])
def test_a_model_as_its_converter_wrote_it_has_lost_nothing(name):
    config, data = converted(name)
    result = compare_models(model(config), reading(data))
    assert result.losses == ()
    assert result.compared


OFFSET_FAMILIES = ("roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "xmod", "data2vec-text")


@pytest.mark.parametrize("model_type", OFFSET_FAMILIES)
@pytest.mark.parametrize(
    ("rows", "context", "lost"),
    [
        (512, 512, set()),
        (514, 514, {"context", "rows", "first-row"}),
        (514, 512, {"rows", "first-row"}),
        (511, 512, {"rows"}),
    ],
)
def test_the_rows_before_the_first_position_are_those_that_a_converter_drops(
    model_type, rows, context, lost
):
    config, data = converted("roberta-base")
    metadata = parsed(data)[0]
    assert metadata["bert.context_length"] == ("uint32", 512)  # as llama.cpp's converter wrote it
    metadata["bert.context_length"] = ("uint32", context)
    header = read_gguf(io.BytesIO(gguf_bytes(metadata)), name="'m.gguf'", size=None)
    table = GGUFTensor("position_embd.weight", (rows, config["hidden_size"]), 0, 0)
    file = Model("m.gguf", resolve(replace(header, tensors={table.name: table})))
    sizes = {"hidden_size": config["hidden_size"], "max_position_embeddings": 514}
    given = Model("it", resolve({**config, **sizes, "model_type": model_type}))
    for pair in ((given, file), (file, given)):
        result = compare_models(*pair)
        assert {loss.name for loss in result.losses} == lost
        # A file of 512 rows may as well lack the last two: their values alone say which.
        assert ("first-row" in result.unknown) is (rows == 512)
        assert ("first-row" in result.compared) is (rows == 514)
        shown = " ".join(losses_text(result, Typesetter()).split())
        said = "not checked: first-row: one table lacks 2 rows, the first ones if a converter"
        assert (said in shown) is (rows == 512)
        assert losses_fields(result)["unknown"].keys() == result.unknown.keys()


@pytest.mark.parametrize("model_type", ["opt", "bart", "mbart", "biogpt", "roberta"])
def test_configs_whose_first_position_reads_another_row_are_told(model_type):
    sizes = {"max_position_embeddings": 514, "pad_token_id": 1}
    offset = Model("it", resolve({"model_type": model_type, **sizes}))
    rows = offset.reading.layers[0].values()
    plain = {"model_type": "bert", "hidden_size": rows["dim"]}
    plain["max_position_embeddings"] = rows["max_len"] - rows["offset"]
    other = Model("other", resolve(plain))
    lost = {loss.name for loss in compare_models(offset, other).losses}
    assert lost == {"first-row"}
    assert not compare_models(offset, offset).losses


SINES_FROM = "m2m_100", "fsmt", "nllb-moe"


@pytest.mark.parametrize("model_type", ["roberta", "camembert", "ibert", "luke", *SINES_FROM])
def test_two_configs_of_another_padding_read_other_rows(model_type, tmp_path, call):
    """transformers' create_position_ids_from_input_ids begins at padding_idx + 1."""
    for name, pad in (("a", 1), ("b", 3), ("c", 1)):
        config = {"model_type": model_type, "max_position_embeddings": 64, "pad_token_id": pad}
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    a, b, c = (str(tmp_path / f"{name}.json") for name in "abc")
    status, out, _ = call("compare", a, b, "--json")
    first = [each for each in json.loads(out)["losses"] if each["name"] == "first-row"]
    assert status == 1
    assert [(each["a"]["value"], each["b"]["value"]) for each in first] == [(2, 4)]
    assert call("compare", a, c)[0] == 0


def test_pegasus_and_bart_are_told_apart_and_opt_and_bart_are_not(tmp_path, call):
    """Pegasus adds sines, the others rows of which two come before the first position's."""
    for name in ("opt", "bart", "pegasus"):
        sizes = {"d_model": 64, "hidden_size": 64, "max_position_embeddings": 128}
        (tmp_path / f"{name}.json").write_text(json.dumps({"model_type": name, **sizes}))
    opt, bart, pegasus = (str(tmp_path / f"{name}.json") for name in ("opt", "bart", "pegasus"))
    assert call("compare", opt, bart)[0] == 0
    status, out, _ = call("compare", opt, pegasus)
    assert (status, "encoding" in out) == (1, True)


@pytest.mark.parametrize(
    ("of", "changed", "lost"),
    [
        ("mpnet", {}, set()),
        ("mpnet", {"max_position_embeddings": 514}, {"context", "rows"}),
        ("mpnet", {"num_attention_heads": 8}, {"heads"}),
        ("mpnet", {"model_type": "roberta"}, {"encoding"}),
        ("pegasus", {"d_model": 512}, {"columns"}),
        ("pegasus", {"model_type": "xglm"}, {"first-row", "frequencies", "layout"}),
    ],
)
def test_what_two_configs_of_tables_do_not_share_is_named(of, changed, lost):
    config = {"model_type": of, "max_position_embeddings": 512, "hidden_size": 1024}
    pair = [Model("it", resolve(each)) for each in (config, {**config, **changed})]
    assert {loss.name for loss in compare_models(*pair).losses} >= lost
    assert compare_models(*pair).ok is (not lost)


def test_a_bias_that_layers_share_is_told_from_one_that_each_has():
    """transformers' UMT5Attention has a table in every layer, MT5Attention in the first alone."""
    sizes = {"num_heads": 6, "num_layers": 8, "relative_attention_num_buckets": 32}
    shared, own = (Model(name, resolve({"model_type": name, **sizes})) for name in ("mt5", "umt5"))
    losses = compare_models(shared, own).losses
    assert {(loss.name, loss.layers) for loss in losses} == {
        ("bias-tables", "encoder"),
        ("bias-tables", "decoder"),
    }
    assert "one for each layer (default of umt5)" in {
        loss.b.value + f" ({loss.b.source})" for loss in losses
    }


@pytest.mark.parametrize(("model_type", "tables"), [("mt5", 1), ("umt5", 8)])
@pytest.mark.parametrize("written", [1, 8])
def test_the_tables_of_biases_of_a_file_are_those_of_its_config(model_type, tables, written):
    """llama.cpp's graph takes a layer's attn_rel_b, and that of layer 0 where it has none."""
    sizes = sized("t5", heads=6, columns=512, layers=8, rotated=64)
    metadata = {**sizes, "t5.attention.relative_buckets_count": ("uint32", 32)}
    header = read_gguf(io.BytesIO(gguf_bytes(metadata)), name="'m.gguf'", size=None)
    tensors = {
        f"{side}.blk.{i}.attn_rel_b.weight": GGUFTensor("it", (6, 32), 0, 0)
        for side in ("enc", "dec")
        for i in range(written)
    }
    file = Model("m.gguf", resolve(replace(header, tensors=tensors)))
    config = {"model_type": model_type, "num_heads": 6, "num_layers": 8, "d_model": 512}
    losses = compare_models(Model("it", resolve(config)), file).losses
    assert ("bias-tables" in {loss.name for loss in losses}) == (tables != written)


@pytest.mark.parametrize(
    ("key", "kind", "value", "differs"),
    [
        ("rope.scaling.yarn_ext_factor", "float32", 0.5, True),
        ("rope.scaling.yarn_beta_fast", "float32", 8.0, True),
        ("rope.scaling.original_context_length", "uint32", 4096, True),
        ("rope.freq_base_swa", "float32", 5e5, True),
        (WINDOW, "uint32", 4096, True),
        ("rope.scaling.yarn_ext_factor", "float32", 1.0, False),
        ("rope.scaling.original_context_length", "uint32", 40960, False),
        ("rope.scaling.type", "string", "none", False),
        ("rope.scaling.factor", "float32", 1.0, False),
    ],
)
def test_a_rotary_key_of_one_of_two_files_is_told_where_it_says_something(
    key, kind, value, differs
):
    _, data = converted("qwen3-8b")
    metadata, _ = parsed(data)[:2]
    assert metadata["qwen3.context_length"] == ("uint32", 40960)
    plain = reading(
        gguf_bytes({name: metadata[name] for name in metadata if "scaling" not in name})
    )
    other = reading(gguf_bytes({**metadata, f"qwen3.{key}": (kind, value)}))
    losses = compare_models(plain, other).losses
    assert [(loss.name, loss.b.value) for loss in losses] == (
        [("other-keys", value)] if differs else []
    )
    assert [loss.b.source for loss in losses] == ([key] if differs else [])


LOST_BY_THE_CONVERTER = {
    "config_rope/exaone4/saved": "llama.cpp slides in models of 64 layers alone",
    "config_rope/gemma3_text/new-yarn": "its sliding layers are not stretched; betas are not read",
    "config_rope/gemma3_text/legacytype-yarn": "betas are read of Mistral 3 and Grok alone",
    "config_rope/gemma3_text/headdim": "llama.cpp scales scores by the head, the type by 1/√256",
    "config_rope/gemma3_text/localkeys": "keys of other code go before the model type's own",
    "config_rope/glm/saved": "ChatGLM's class looks for seq_length, and writes 4096 without",
    "config_rope/glm/headdim": "and for neither head_dim,",
    "config_rope/glm/legacy-llama3": "nor rope_theta, nor rope_scaling",
    "config_rope/gpt_neox/legacy-linear": "GPT-NeoX's class writes no rope_scaling",
    "config_rope/gpt_neox/inpartial": "and no base",
    "config_rope/gpt_neox/localkeys": "and no base",
    "config_rope/llama/newpartial-linear": "Llama's class writes the whole head",
    "config_rope/llama/toppartial-linear": "Llama's class writes the whole head",
    "config_rope/llama/bothcontainers-linear": "it takes the other of two rope objects",
    "config_rope/llama/bothcontainers-yarn": "it takes the other of two rope objects",
    "config_rope/llama/newpartial-yarn": "both",
    "config_rope/llama/toppartial-yarn": "both",
    **{
        f"config_rope/llama/{case}": "a rope_type that Llama's class does not know"
        for case in ("new-proportional", "legacy-proportional", "legacytype-proportional")
    },
    **{
        f"config_rope/llama/{case}": "Llama's class writes no factors of LongRoPE"
        for case in ("new-longrope", "legacy-longrope", "legacytype-longrope")
    },
    "config_rope/llama/localkeys": "keys of other code go before the model type's own",
    "config_rope/modernbert/legacytype-linear": "ModernBERT's class writes the type none",
    "config_rope/olmo3/legacytype-linear": "transformers 4.57 has another default base",
    "config_rope/olmo3/legacytype-yarn": "transformers 4.57 has another default base",
    "config_rope/olmo3/newpartial-linear": "its sliding layers are not stretched",
    "config_rope/olmo3/legacytheta": "all layers have the one base",
    "config_rope/phi/headdim": "Phi's class knows no head_dim",
    "config_rope/phi/legacy-dynamic": "nor rope_theta, nor rope_scaling",
    "config_rope/phi/new-longrope": "nor rope_theta, nor rope_scaling",
    "config_rope/stablelm/inpartial": "StableLM's class writes no base",
    "config_rope/stablelm/toppartial": "StableLM's class writes no base",
    "config_rope/cohere/layout": "transformers 4.57 has another default base",
    "config_rope/granitemoehybrid/saved": "its class writes no rotation of a hybrid",
    "config_rope/glm4v_text/layout": "its class writes no sections without a vision encoder",
    **{
        f"config_rope/deepseek_v3/{case}": "llama.cpp multiplies scores without mscale_all_dim too"
        for case in ("yarn1", "yarn2", "legacy-yarn")
    },
    **{
        f"config_nonrotary/{case}": "llama.cpp's T5 has 128, whatever a config says"
        for case in ("mt5-encoder-16", "mt5-decoder-16", "umt5-encoder-16", "umt5-decoder-16")
    },
    "config_nonrotary/pixtral": "the config is of the vision encoder alone",
}
"""What the converter itself loses, or llama.cpp, of configs that test transformers' readers."""


@pytest.mark.long
def test_of_all_that_the_converter_wrote_only_what_it_loses_is_told():
    lost = set()
    for case in CASES:
        config, data = converted(case["name"])
        try:
            file = reading(data)
        except InvalidInput:
            continue  # it lacks what llama.cpp needs: tests/configs/test_gguf.py
        if not compare_models(model(config), file).ok:
            lost.add(case["name"])
    assert lost == {*LOST_BY_THE_CONVERTER}


NEMOTRON = {"model_type": "nemotron_h", "hidden_size": 64, "max_position_embeddings": 262144}
COHERE = {
    "model_type": "cohere",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 8192,
    "model_max_length": 131072,
    "rope_theta": 8e6,
}


@pytest.mark.parametrize(
    ("config", "architecture", "context", "words"),
    [
        (
            NEMOTRON,
            "nemotron_h",
            1 << 20,
            "what llama.cpp's converter writes for every nemotron_h model with nope",
        ),
        (COHERE, "command-r", 131072, "the config's model_max_length"),
    ],
    ids=["NVIDIA-Nemotron-3-Nano-30B-A3B", "c4ai-command-r-v01"],
)
def test_a_context_that_the_converter_puts_in_place_of_the_configs_is_no_loss(
    config, architecture, context, words
):
    """Both as published, and as conversion/nemotron.py and command_r.py write them."""

    def compared(length):
        keys = {"attention__head_count_kv": ("array of uint32", [0, 4])}
        keys |= {"rope__freq_base": ("float32", 8e6), "context_length": ("uint32", length)}
        return compare_models(model(config), reading(gguf_bytes(file_of(architecture, **keys))))

    found = compared(context)
    assert found.ok
    assert found.compared[:2] == ("architecture", "encoding" if config is NEMOTRON else "layers")
    assert found.unknown["context"].startswith(f"the file's {context} is {words}")
    assert [loss.name for loss in compared(4096).losses] == ["context"]


@pytest.mark.parametrize(
    ("own", "architecture", "context"),
    [
        ({"model_max_length": 8192}, "llama", 8192),
        ({"model_max_length": [8192]}, "llama", 8192),
        ({"model_type": "hunyuan_v1_dense"}, "hunyuan-dense", 1 << 18),
    ],
)
def test_a_context_that_no_converter_puts_in_place_of_the_configs_is_a_loss(
    own, architecture, context
):
    config = {**COHERE, "model_type": "llama", "max_position_embeddings": 131072, **own}
    keys = {"rope__freq_base": ("float32", 8e6), "rope__dimension_count": None}
    written = file_of(architecture, **keys, context_length=("uint32", context))
    found = compare_models(model(config), reading(gguf_bytes(written)))
    assert "context" in [loss.name for loss in found.losses]


def named(keys, key):
    """A key of the file's own architecture."""
    return f"{keys['general.architecture'][1]}.{key}"


def absent(key):
    """A change that leaves a key out."""

    def change(keys, _tensors):
        del keys[named(keys, key)]

    return change


def put(key, kind, value):
    """A change that sets a key."""

    def change(keys, _tensors):
        keys[named(keys, key)] = (kind, value)

    return change


def times(key, factor):
    """A change that multiplies a number."""

    def change(keys, _tensors):
        kind, value = keys[named(keys, key)]
        keys[named(keys, key)] = (kind, type(value)(value * factor))

    return change


def tensor(name, make):
    """A change of the numbers of a tensor; None leaves it out."""

    def change(_keys, tensors):
        numbers = make(tensors[name][0])
        if numbers is None:
            del tensors[name]
        else:
            tensors[name] = (numbers, 0)

    return change


def swap(one, other):
    """A change that exchanges two tensors."""

    def change(_keys, tensors):
        tensors[one], tensors[other] = tensors[other], tensors[one]

    return change


def llama3_divisors(factor, original):
    """The divisors of Llama 3.1's rule for 128 columns and the base 500000."""
    divisors = []
    for pair in range(64):
        wave = 6.283185307179586 * 500000 ** (pair / 64)
        turns = original / wave
        share = min(max((turns - 1) / 3, 0), 1)
        divisors.append(1 / ((1 - share) / factor + share))
    return lambda _numbers: divisors


def renamed(old, new):
    """A change of the architecture, whose keys go along."""

    def change(keys, _tensors):
        for key in [key for key in keys if key.startswith(f"{old}.")]:
            keys[new + key.removeprefix(old)] = keys.pop(key)
        keys["general.architecture"] = ("string", new)

    return change


def several(*changes):
    def change(keys, tensors):
        for each in changes:
            each(keys, tensors)

    return change


LLAMA, GEMMA, PHI, OSS, DEEPSEEK = (
    "llama-3.1-8b",
    "gemma-3-4b",
    "phi-3-vision-128k",
    "gpt-oss-20b",
    "deepseek-v3",
)
QWEN, YARN = "qwen2-vl-7b", "qwen2.5-7b-yarn"

KINDS = {
    "no base": (LLAMA, absent("rope.freq_base"), "base"),
    "the base of Llama 2": (LLAMA, put("rope.freq_base", "float32", 10000.0), "base"),
    "a base a thousandth too small": ("qwen3-8b", times("rope.freq_base", 0.999), "base"),
    "the global base in sliding layers": (
        GEMMA,
        put("rope.freq_base_swa", "float32", 1e6),
        "sliding-base",
    ),
    "linear as YaRN": (GEMMA, put("rope.scaling.type", "string", "yarn"), "scaling-type"),
    "linear without a factor": (GEMMA, absent("rope.scaling.factor"), "factor"),
    "YaRN without a factor": (YARN, absent("rope.scaling.factor"), "factor"),
    "twice YaRN's factor": (OSS, times("rope.scaling.factor", 2), "factor"),
    "YaRN without its original length": (
        OSS,
        absent("rope.scaling.original_context_length"),
        "original-length",
    ),
    "no YaRN at all": (
        "olmo-3-7b",
        several(*(absent(f"rope.scaling.{key}") for key in ("type", "factor"))),
        "scaling-type",
    ),
    "no divisors": (LLAMA, tensor(FREQS, lambda _: None), "llama3-factors"),
    "one divisor off by a hundredth": (
        LLAMA,
        tensor(FREQS, lambda n: [*n[:40], n[40] * 1.01, *n[41:]]),
        "llama3-factors",
    ),
    "divisors of the factor 32": (LLAMA, tensor(FREQS, llama3_divisors(32, 8192)), "factor"),
    "divisors of the length 4096": (
        LLAMA,
        tensor(FREQS, llama3_divisors(8, 4096)),
        "original-length",
    ),
    "divisors of half the pairs": (LLAMA, tensor(FREQS, lambda n: n[:32]), "refused: 32 numbers"),
    "no long factors": (PHI, tensor(LONG, lambda _: None), "long-factors"),
    "no short factors": (PHI, tensor(SHORT, lambda _: None), "short-factors"),
    "no attention factor": (PHI, absent("rope.scaling.attn_factor"), "attention-factor"),
    "LongRoPE without its original length": (
        PHI,
        absent("rope.scaling.original_context_length"),
        "original-length",
    ),
    "an attention factor beside YaRN's": (
        OSS,
        put("rope.scaling.attn_factor", "float32", 1.3465736),
        "attention-factor",
    ),
    "no log multiplier": (
        DEEPSEEK,
        absent("rope.scaling.yarn_log_multiplier"),
        "attention-factor",
    ),
    "a log multiplier without its tenth": (
        DEEPSEEK,
        times("rope.scaling.yarn_log_multiplier", 10),
        "softmax-factor",
    ),
    "the whole head turns": (
        "gpt-neox-20b",
        absent("rope.dimension_count"),
        "rotary-width",
    ),
    "no head size": (GEMMA, absent("attention.key_length"), "head-dim"),
    "no window": (GEMMA, absent("attention.sliding_window"), "sliding-layers"),
    "a window of 0": (GEMMA, put("attention.sliding_window", "uint32", 0), "sliding-layers"),
    "four times the window": (GEMMA, times("attention.sliding_window", 4), "window"),
    "every fourth layer in place of every sixth": (
        GEMMA,
        put("attention.sliding_window_pattern", "uint32", 4),
        "sliding-layers",
    ),
    "sliding and full layers exchanged": (
        "olmo-3-7b",
        put("attention.sliding_window_pattern", "array of bool", [False, True] * 16),
        "sliding-layers",
    ),
    "no sections": (QWEN, absent("rope.dimension_sections"), "refused: dimension_sections"),
    "sections in another order": (
        QWEN,
        put("rope.dimension_sections", "array of int32", [24, 24, 16, 0]),
        "sections",
    ),
    "no axes": (QWEN, renamed("qwen2vl", "qwen2"), "sections"),
    "half the context": (LLAMA, times("context_length", 0.5), "context"),
    "a context that takes the short factors": (
        PHI,
        put("context_length", "uint32", 4096),
        "taken-factors",
    ),
    "no ALiBi": ("mpt-7b", absent("attention.max_alibi_bias"), "encoding"),
    "twice ALiBi's largest slope": ("mpt-7b", times("attention.max_alibi_bias", 2), "max-bias"),
    "half the heads of ALiBi": ("bloom-560m", times("attention.head_count", 0.5), "heads"),
    "pairs of another architecture": (
        "llama-2-7b",
        renamed("llama", "qwen2"),
        "architecture",
    ),
    "a layer too few": (LLAMA, put("block_count", "uint32", 31), "layers"),
    "pairs that the converter did not permute": (
        "gemma-2-9b",
        renamed("gemma2", "cohere2"),
        "layout",
    ),
    "layers that do not turn do": ("smollm3-3b", renamed("smollm3", "llama"), "unturned-layers"),
    "a base of another type": (
        LLAMA,
        put("rope.freq_base", "float64", 5e5),
        "refused: float64",
    ),
}


def injected(name, change):
    """The config of a case, and its file with a change."""
    config, data = converted(name)
    keys, tensors = parsed(data)
    change(keys, tensors)
    return config, gguf_bytes(keys, tensors)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_is_found_and_named(kind):
    name, change, expected = KINDS[kind]
    config, data = injected(name, change)
    if expected.startswith("refused: "):
        with pytest.raises(PosencError, match=expected.removeprefix("refused: ")):
            reading(data)
    else:
        assert expected in losses(config, data)


def test_there_are_more_than_40_kinds_and_each_name_is_known():
    assert len(KINDS) > 40
    assert {expected for _, _, expected in KINDS.values() if ":" not in expected} <= {*NAMES}


def test_what_is_spelled_otherwise_is_no_loss():
    config, data = converted(GEMMA)
    keys, tensors = parsed(data)
    keys["gemma3.rope.scale_linear"] = keys.pop("gemma3.rope.scaling.factor")
    del keys["gemma3.rope.scaling.type"]
    del keys["gemma3.rope.freq_base_swa"]  # 10000 without it
    for order, version in (("<", 3), (">", 3), ("<", 1)):
        assert losses(config, gguf_bytes(keys, tensors, order=order, version=version)) == set()


def test_two_files_are_compared_as_a_config_and_a_file_are():
    _, data = injected(LLAMA, absent("rope.freq_base"))
    good = reading(converted(LLAMA)[1])
    assert compare_models(good, good).ok
    forward, backward = (
        compare_models(*models).losses for models in ((good, reading(data)), (reading(data), good))
    )
    # The divisors are the same numbers, though no rule of Llama 3's with the other base.
    assert {loss.name for loss in forward} == {loss.name for loss in backward} == {"base"}


def loss_of(name, config, data):
    """The loss of a name between a config and a file."""
    found = compare_models(model(config), reading(data)).losses
    (loss,) = (each for each in found if each.name == name)
    return loss


def test_an_architecture_comes_with_where_it_is_stated():
    loss = loss_of("architecture", *injected(LLAMA, renamed("llama", "qwen2")))
    assert (loss.a.value, loss.a.source) == ("llama", "model_type")
    assert (loss.b.value, loss.b.source) == ("qwen2", "general.architecture")


def test_float32_is_no_loss_and_a_tolerance_may_be_wider():
    config, data = converted(LLAMA)
    (single,) = struct.unpack("f", struct.pack("f", 500000.0 * (1 + 3e-8)))
    keys, tensors = parsed(data)
    keys["llama.rope.freq_base"] = ("float32", single)
    assert losses(config, gguf_bytes(keys, tensors)) == set()
    keys["llama.rope.freq_base"] = ("float32", 505000.0)
    both = model(config), reading(gguf_bytes(keys, tensors))
    assert not compare_models(*both).ok
    assert compare_models(*both, tolerance=0.1).ok


def test_the_page_lists_every_name():
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
    section = page.split("| about | settings |")[1].split("posenc also")[0]
    assert re.findall(r"`([\w-]+)`", section) == [*NAMES]


YARN_OF_QWEN2 = {"factor": 4.0, "original_max_position_embeddings": 8192}


@pytest.mark.parametrize("key", ["rope_type", "type"])
@pytest.mark.parametrize("container", ["rope_scaling", "rope_parameters"])
def test_a_scaling_type_that_is_lost_is_sourced_by_the_key_that_states_it(container, key):
    config, data = converted("qwen3-8b")
    stated = {**config, "rope_theta": 1e6, container: {key: "yarn", **YARN_OF_QWEN2}}
    loss = loss_of("scaling-type", stated, data)
    assert (loss.a.value, loss.a.source) == ("rope-yarn", f"{container}.{key}")


def test_a_scaling_type_of_a_file_is_sourced_by_its_key_and_not_by_its_factor():
    config, data = converted("qwen3-8b")
    keys, tensors = parsed(data)
    keys["qwen3.rope.scaling.type"] = ("string", "yarn")
    keys["qwen3.rope.scaling.factor"] = ("float32", 4.0)
    loss = compare_models(model(config), reading(gguf_bytes(keys, tensors))).losses[0]
    assert (loss.name, loss.b.source) == ("scaling-type", "qwen3.rope.scaling.type")


def test_a_scaling_type_that_an_engine_makes_is_sourced_by_the_engine():
    scaling = {"rope_type": "dynamic", "factor": 4.0}
    config = {**converted("qwen3-8b")[0], "rope_theta": 1e6, "rope_scaling": scaling}
    plain = resolve(config, runtime="llama.cpp").layer().derived["rope_type"]
    assert (plain.value, plain.source) == ("rope", "llama.cpp: dynamic length")
    own = resolve(config).layer().derived["rope_type"]
    assert (own.value, own.source) == ("dynamic", "rope_scaling.rope_type")


def sized(architecture, *, heads, columns, layers, rotated):
    """The metadata of a file that states little but its sizes."""
    keys = {"context_length": 2048, "embedding_length": columns, "block_count": layers}
    keys |= {"attention.head_count": heads, "rope.dimension_count": rotated}
    named = {f"{architecture}.{key}": ("uint32", value) for key, value in keys.items()}
    return {"general.architecture": ("string", architecture), **named}


def test_the_width_of_a_rotation_comes_from_the_key_that_states_it():
    """Phi 2 rotates 32 of 80 dimensions; a file that states 80 is wrong in that key."""
    sizes = {"hidden_size": 2560, "num_attention_heads": 32, "num_hidden_layers": 2}
    config = {"model_type": "phi", **sizes, "partial_rotary_factor": 0.4}
    config["max_position_embeddings"] = 2048
    metadata = sized("phi2", heads=32, columns=2560, layers=2, rotated=80)
    (loss,) = compare_models(model(config), reading(gguf_bytes(metadata))).losses
    assert (loss.name, loss.b.source) == ("rotary-width", "phi2.rope.dimension_count")
    del metadata["phi2.rope.dimension_count"]
    (loss,) = compare_models(model(config), reading(gguf_bytes(metadata))).losses
    assert loss.b.source.startswith("DEFAULT: key absent (phi2.attention.key_length)")


def test_no_file_of_an_architecture_without_windows_has_lost_one():
    """llama.cpp's graph of Qwen 2 sees all positions, and no key of its files has a window."""
    config = {"model_type": "qwen2", "hidden_size": 256, "num_attention_heads": 4}
    config |= {"num_hidden_layers": 4, "max_position_embeddings": 2048}
    metadata = sized("qwen2", heads=4, columns=256, layers=4, rotated=64)
    windows = {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2}
    assert losses({**config, **windows}, gguf_bytes(metadata)) == set()
