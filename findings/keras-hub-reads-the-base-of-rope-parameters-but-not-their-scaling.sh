#!/usr/bin/env bash
# Seen: keras-hub 0.32.0 with keras 3.15.1, torch 2.13.0 and transformers 5.23.0, on 2026-11-30
#
# Behaviour: KerasHub loads a Llama that transformers 5 has saved, and takes the base from
# rope_parameters, but looks for the scaling only in rope_scaling, which transformers 5 no longer
# writes. The llama3 scaling is dropped without a warning, and the hidden states differ.
# Expected: what it does with the same weights and a config in the older spelling.
#
# Output:
#   rope_parameters: base 500000, factor None, largest difference of a hidden state 8.04
#   rope_theta and rope_scaling: base 500000, factor 8.0, largest difference of a hidden state 0.00
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 keras==3.15.1 keras-hub==0.32.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import json
import os
import sys

os.environ |= {"KERAS_BACKEND": "torch", "TF_CPP_MIN_LOG_LEVEL": "3"}
import keras_hub
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64,
    hidden_size=64,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=512,
    tie_word_embeddings=True,
    rope_parameters=SCALING | {"rope_theta": 500_000.0},
)
model = LlamaForCausalLM(config).float().eval()
for weights in model.parameters():
    torch.nn.init.normal_(weights, std=0.3 if weights.ndim > 1 else 1.0)
ids = torch.randint(0, 64, (1, 100))
with torch.no_grad():
    wanted = model.model(ids).last_hidden_state.numpy()

seen = {}
for spelling in ("rope_parameters", "rope_theta and rope_scaling"):
    folder = os.path.join(sys.argv[1], spelling.partition(" ")[0])
    model.save_pretrained(folder)
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        written = json.load(file)
    assert "rope_parameters" in written and "rope_scaling" not in written
    if spelling != "rope_parameters":
        del written["rope_parameters"]
        written |= {"rope_theta": 500_000.0, "rope_scaling": SCALING}
        with open(path, "w") as file:
            json.dump(written, file)
    backbone = keras_hub.models.Llama3Backbone.from_preset(folder, dtype="float32")
    inputs = {"token_ids": ids.numpy(), "padding_mask": np.ones((1, 100), "int32")}
    found = backbone.predict(inputs, verbose=0)
    settings = backbone.get_config()
    base, factor = settings["rope_max_wavelength"], settings["rope_frequency_adjustment_factor"]
    seen[spelling] = base, factor, float(np.abs(found - wanted).max())
    print(f"{spelling}: base {base:.0f}, factor {factor}, largest difference of a hidden state {seen[spelling][2]:.2f}")
try:
    base, factor, apart = seen["rope_theta and rope_scaling"]
    assert (base, factor) == (500_000, 8) and apart < 1e-3, "the older spelling is read otherwise now"
    base, factor, apart = seen["rope_parameters"]
    assert (base, factor) == (500_000, None) and apart > 0.1, "the scaling of rope_parameters is read now"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY
