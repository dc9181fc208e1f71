"""What multiplies and caps scores: what a file lost of it is named, of a right file nothing."""

import pytest

from posenc_cli.comparison.losses import compare_models
from tests.comparison.test_losses import model, reading
from tests.configs.test_gguf import of as small_file
from tests.gguf_files import gguf_bytes


def of(model_type, **more):
    """A small config."""
    sizes = {"hidden_size": 96, "num_attention_heads": 4, "head_dim": 16, "num_hidden_layers": 12}
    return {
        "model_type": model_type,
        **sizes,
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        **more,
    }


def file_of(architecture, **more):
    """The metadata of its file; None leaves a key out."""
    sizes = {"embedding_length": count(96), "block_count": count(12)}
    return small_file(architecture, **{**sizes, "attention__key_length": count(16), **more})


def number(value):
    return ("float32", value)


def count(value):
    return ("uint32", value)


GEMMA2 = {"sliding_window": 64, "query_pre_attn_scalar": 16, "attn_logit_softcapping": 50.0}
GEMMA2_FILE = {"attention__sliding_window": count(64)}
LLAMA4 = {
    "no_rope_layer_interval": 4,
    "attention_chunk_size": 8192,
    "max_position_embeddings": 4096,
    "rope_scaling": None,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 1024,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "llama_4_scaling_beta": 0.1,
}
MINISTRAL = {"rope_parameters": YARN}
MINISTRAL_FILE = {
    "rope__scaling__type": ("string", "yarn"),
    "rope__scaling__factor": number(4.0),
    "rope__scaling__original_context_length": count(1024),
    "rope__scaling__yarn_log_multiplier": number(1.0),
    "rope__scaling__yarn_beta_fast": number(32.0),
    "rope__scaling__yarn_beta_slow": number(1.0),
    "attention__temperature_scale": number(0.1),
}
TWICE = {"attention_multiplier": 0.03125}
PAIRS = {
    "granite": (
        of("granite", hidden_size=64, **TWICE),
        file_of("granite", embedding_length=count(64), attention__scale=number(0.03125)),
    ),
    "granite by the head": (
        of("granite", hidden_size=64, attention_multiplier=0.25),
        file_of("granite", embedding_length=count(64)),
    ),
    "gemma2": (of("gemma2", **GEMMA2), file_of("gemma2", **GEMMA2_FILE)),
    "gemma2 of 46 layers": (
        of("gemma2", **GEMMA2 | {"query_pre_attn_scalar": 24}, num_hidden_layers=46),
        file_of("gemma2", **GEMMA2_FILE, block_count=count(46)),
    ),
    "gemma2 of another cap": (
        of("gemma2", **GEMMA2 | {"attn_logit_softcapping": 30.0}),
        file_of("gemma2", **GEMMA2_FILE, attn_logit_softcapping=number(30.0)),
    ),
    "gemma3": (
        of("gemma3_text", query_pre_attn_scalar=16, sliding_window=64, sliding_window_pattern=6),
        file_of("gemma3", attention__sliding_window=count(64)),
    ),
    "llama4": (of("llama4_text", **LLAMA4), file_of("llama4")),
    "ministral3": (of("ministral3", **MINISTRAL), file_of("mistral3", **MINISTRAL_FILE)),
}
"""Configs and the files that say the same."""

LOSSES = {
    "no attention scale": ("granite", "attention-scale", {}, {"attention__scale": None}),
    "the default multiplier": ("granite", "attention-scale", {"attention_multiplier": None}),
    "a scalar that layers do not say": ("gemma2", "attention-scale", {"query_pre_attn_scalar": 24}),
    "a layer fewer than 46": (
        "gemma2 of 46 layers",
        "attention-scale",
        {"num_hidden_layers": 45},
        {"block_count": count(45)},
    ),
    "Gemma 3's scalar": ("gemma3", "attention-scale", {"query_pre_attn_scalar": 256}),
    "the cap of Gemma 2": (
        "gemma2 of another cap",
        "softcap",
        {},
        {"attn_logit_softcapping": None},
    ),
    "no cap": ("gemma2", "softcap", {"attn_logit_softcapping": None}),
    "a cap that no Gemma 3 of llama.cpp has": (
        "gemma3",
        "softcap",
        {"attn_logit_softcapping": 50.0},
    ),
    "another attn_scale": ("llama4", "temperature-scale", {"attn_scale": 0.2}),
    "another floor_scale": ("llama4", "temperature-length", {"floor_scale": 4096}),
    "no tuning": ("llama4", "temperature-scale", {"attn_temperature_tuning": False}),
    "no chunks": ("llama4", "temperature-scale", {}, {"attention__sliding_window": count(0)}),
    "no temperature": (
        "ministral3",
        "temperature-scale",
        {},
        {"attention__temperature_scale": None},
    ),
    "another original length": (
        "ministral3",
        "temperature-length",
        {},
        {"rope__scaling__original_context_length": count(2048)},
    ),
}
"""By a kind of loss: the pair, the name, and what its config and its file have otherwise."""


def lossy(kind):
    """The config and the metadata of a kind of loss."""
    pair, _, config_changes, *more = LOSSES[kind]
    config, metadata = PAIRS[pair]
    architecture = metadata["general.architecture"][1]
    changed = {**metadata}
    for key, value in more[0].items() if more else ():
        changed[f"{architecture}.{key.replace('__', '.')}"] = value
    return (
        {**config, **config_changes},
        {key: value for key, value in changed.items() if value is not None},
    )


def named(config, metadata):
    result = compare_models(model(config), reading(gguf_bytes(metadata)))
    return {loss.name for loss in result.losses}


@pytest.mark.parametrize("pair", PAIRS)
def test_a_file_that_says_the_same_has_lost_nothing(pair):
    config, metadata = PAIRS[pair]
    assert named(config, metadata) == set()


@pytest.mark.parametrize("kind", LOSSES)
def test_a_loss_of_scores_is_found_and_named(kind):
    assert LOSSES[kind][1] in named(*lossy(kind))
