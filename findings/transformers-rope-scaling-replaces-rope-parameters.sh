#!/usr/bin/env bash
# Seen: transformers 5.23.0 with torch 2.13.0, on 2026-11-28
#
# Behaviour: a config.json that states the same scaling under both names, rope_parameters (new)
# and rope_scaling (old), loses the rope_theta of rope_parameters: rope_scaling replaces the
# whole object, and the base becomes the default of 10000. There is no warning.
# Expected: the two are merged, or rope_parameters wins, or there is a warning.
#
# Output:
#   rope_parameters alone: rope_theta 500000.0, lowest frequency 1.228e-06
#   both names: rope_theta 10000.0, lowest frequency 5.774e-05
#   base 10000: rope_theta 10000.0, lowest frequency 5.774e-05
#   warnings: 0
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import json
import logging
import sys
import warnings
from pathlib import Path

from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("transformers").addHandler(handler)
warnings.showwarning = lambda message, *_: said.append(str(message))
warnings.simplefilter("always")


def slowest(name, **rope):
    """The lowest frequency of a Llama whose config.json has these entries."""
    folder = Path(sys.argv[1], name)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **rope}))
    config = AutoConfig.from_pretrained(folder)
    base = config.rope_parameters["rope_theta"]
    frequency = LlamaRotaryEmbedding(config).inv_freq[-1].item()
    print(f"{name}: rope_theta {base}, lowest frequency {frequency:.4g}")
    return frequency


scaling = {"rope_type": "linear", "factor": 2.0}
new = {**scaling, "rope_theta": 500000.0}
alone = slowest("rope_parameters alone", rope_parameters=new)
both = slowest("both names", rope_parameters=new, rope_scaling=scaling)
other = slowest("base 10000", rope_parameters={**scaling, "rope_theta": 10000.0})
print(f"warnings: {len(said)}")
try:
    assert both == other, "rope_scaling no longer replaces rope_parameters"
    assert both > 40 * alone, "the base in rope_parameters is no longer lost"
    assert not said, f"the loss is no longer silent: {said}"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY
