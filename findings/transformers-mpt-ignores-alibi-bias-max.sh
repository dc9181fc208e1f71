#!/usr/bin/env bash
# Seen: transformers 5.24.0 with torch 2.13.0, on 2026-11-29
#
# Behaviour: MptAttentionConfig documents "alibi" and "alibi_bias_max", and saves both. The model
# reads neither: with alibi_bias_max 16, or with alibi false, its outputs are those of 8 and of true,
# bit by bit, and there is no warning. llama.cpp's converter writes both keys into its file.
# Expected: a documented key has an effect, or there is a warning.
#
# Output:
#   alibi true, alibi_bias_max 16: outputs differ by 0
#   alibi false, alibi_bias_max 8: outputs differ by 0
#   build_mpt_alibi_tensor with alibi_bias_max 16: biases differ by up to 2.06250
#   warnings: 0
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.24.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import logging
import sys
import warnings

import torch
from transformers import MptConfig, MptModel
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("transformers").addHandler(handler)
warnings.showwarning = lambda message, *_: said.append(str(message))
warnings.simplefilter("always")


def outputs(**attention):
    sizes = {"d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 64, "max_seq_len": 16}
    torch.manual_seed(0)
    model = MptModel(MptConfig(**sizes, attn_config=attention)).eval()
    with torch.no_grad():
        return model(torch.arange(12)[None]).last_hidden_state


usual = outputs(alibi=True, alibi_bias_max=8)
same = []
for alibi, largest in ((True, 16), (False, 8)):
    apart = (outputs(alibi=alibi, alibi_bias_max=largest) - usual).abs().max().item()
    same.append(apart == 0)
    print(f"alibi {str(alibi).lower()}, alibi_bias_max {largest}: outputs differ by {apart:g}")
biases = [build_mpt_alibi_tensor(4, 12, alibi_bias_max=largest) for largest in (8, 16)]
apart = (biases[0] - biases[1]).abs().max().item()
print(f"build_mpt_alibi_tensor with alibi_bias_max 16: biases differ by up to {apart:.5f}")
print(f"warnings: {len(said)}")
try:
    assert all(same), "the model reads alibi or alibi_bias_max now"
    assert apart > 1, "the function itself does not read alibi_bias_max"
    assert not said, f"the loss is no longer silent: {said}"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY
