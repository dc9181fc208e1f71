#!/usr/bin/env bash
# Seen: ctranslate2 4.8.5 with transformers 5.23.0 and torch 2.13.0, on 2026-11-30
#
# Behaviour: the converters of Gemma read no rope_parameters. Gemma 2 is converted with base 10000
# whatever rope_theta says, and Gemma 3 without the factor 8 that the 4B, 12B and 27B models have
# in their full-attention layers. Nothing warns: the models run, with other logits.
# Expected: what the converter does for Llama, whose base and linear factor are kept.
#
# Output:
#   largest difference of a logit from transformers, at the first 100 positions:
#   LlamaConfig, base 500000: base 500000, factor None: 0.00
#   LlamaConfig, base 10000, linear 8: base 10000, factor 8.0: 0.00
#   Gemma2Config, base 10000: base 10000, factor None: 0.00
#   Gemma2Config, base 500000: base 10000, factor None: 6.42
#   Gemma3TextConfig, base 1000000: base 1000000, factor None: 0.00
#   Gemma3TextConfig, base 1000000, linear 8: base 1000000, factor None: 2.00
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 ctranslate2==4.8.5 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import os
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import ctranslate2
import numpy as np
import torch
from ctranslate2.converters.transformers import _MODEL_LOADERS
from transformers import AutoModelForCausalLM, Gemma2Config, Gemma3TextConfig, LlamaConfig

SIZES = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
GEMMA = {"query_pre_attn_scalar": 16, "sliding_window": 256}
SCORES = {"attn_logit_softcapping": None, "final_logit_softcapping": None}


class Tokens:
    """The part of a tokenizer that the converter reads: 64 tokens."""

    bos_token, eos_token, unk_token, chat_template = "<bos>", "<eos>", "<unk>", None
    additional_special_tokens = ()

    def get_vocab(self):
        return {"<bos>": 0, "<eos>": 1, "<unk>": 2} | {f"t{i}": i for i in range(3, 64)}


def rope(base, factor):
    if factor == 1:
        return {"rope_type": "default", "rope_theta": base}
    return {"rope_type": "linear", "rope_theta": base, "factor": factor}


def converted(config, folder):
    """Return base and factor of the converted last layer, and the largest difference of a logit."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.3 if weights.ndim > 1 else 0.1)
    ids = torch.randint(3, 64, (1, 100))
    with torch.no_grad():
        wanted = model(ids).logits[0].numpy()
    spec = _MODEL_LOADERS[type(config).__name__](model, Tokens())
    attention = spec.decoder.layer[-1].self_attention
    factor = getattr(attention, "rotary_scaling_factor", None)  # not set without scaling
    base = float(attention.rotary_base)
    spec.validate()
    spec.optimize()
    spec.save(folder)
    found = np.array(ctranslate2.Generator(folder).forward_batch(ids.tolist()))[0]
    return base, factor and float(factor), float(np.abs(found - wanted).max())


seen = {}
for cls, base, factor in (
    (LlamaConfig, 5e5, 1),
    (LlamaConfig, 1e4, 8.0),
    (Gemma2Config, 1e4, 1),
    (Gemma2Config, 5e5, 1),
    (Gemma3TextConfig, 1e6, 1),
    (Gemma3TextConfig, 1e6, 8.0),
):
    whole, more = rope(base, factor), {} if cls is LlamaConfig else dict(GEMMA)
    if cls is Gemma2Config:
        more |= SCORES | {"layer_types": ["full_attention"] * 2}
    if cls is Gemma3TextConfig:
        whole = {"full_attention": whole, "sliding_attention": rope(1e4, 1)}
        more["layer_types"] = ["sliding_attention", "full_attention"]
    folder = os.path.join(sys.argv[1], f"{cls.__name__}-{base:g}-{factor:g}")
    os.mkdir(folder)
    result = converted(cls(**SIZES, **more, rope_parameters=whole), folder)
    seen[cls.__name__, base, factor] = result
    scaled = "" if factor == 1 else f", linear {factor:g}"
    print(f"{cls.__name__}, base {base:.0f}{scaled}: base {result[0]:.0f}, factor {result[1]}: {result[2]:.2f}")
try:
    for kept in (("LlamaConfig", 5e5, 1), ("LlamaConfig", 1e4, 8.0), ("Gemma2Config", 1e4, 1)):
        assert seen[kept][2] < 1e-3, f"{kept} is no longer converted as transformers computes it"
    assert seen["Gemma3TextConfig", 1e6, 1][2] < 1e-3, "Gemma 3 without scaling is converted wrong"
    base, _, apart = seen["Gemma2Config", 5e5, 1]
    assert base == 10_000 and apart > 0.1, "Gemma 2 keeps its base now"
    _, factor, apart = seen["Gemma3TextConfig", 1e6, 8.0]
    assert factor is None and apart > 0.1, "Gemma 3 keeps its factor now"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY
