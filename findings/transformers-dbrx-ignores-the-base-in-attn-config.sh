#!/usr/bin/env bash
# Seen: transformers 5.24.0 without torch, on 2026-11-28
#
# Behaviour: a DBRX config whose attn_config states rope_theta 500000 has rope_parameters with the
# default base, 10000. attn_config keeps 500000, and there is no warning. A rope_theta at the top
# level, or in rope_parameters, is used.
# Expected: the base comes from attn_config, or there is a warning.
#
# Output:
#   attn_config: rope_parameters has 10000.0, attn_config has 500000
#   top level: rope_parameters has 500000, attn_config has None
#   rope_parameters: rope_parameters has 500000, attn_config has None
#   warnings: 0
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile transformers==5.24.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import logging
import sys
import warnings

from transformers import CONFIG_MAPPING

said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("transformers").addHandler(handler)
warnings.showwarning = lambda message, *_: said.append(str(message))
warnings.simplefilter("always")

places = {
    "attn_config": {"attn_config": {"rope_theta": 500000}},
    "top level": {"rope_theta": 500000},
    "rope_parameters": {"rope_parameters": {"rope_type": "default", "rope_theta": 500000}},
}
bases, kept = {}, {}
for place, stated in places.items():
    config = CONFIG_MAPPING["dbrx"](**stated)
    bases[place] = config.rope_parameters["rope_theta"]
    kept[place] = getattr(config.attn_config, "rope_theta", None)
    print(f"{place}: rope_parameters has {bases[place]}, attn_config has {kept[place]}")
print(f"warnings: {len(said)}")
try:
    assert bases["attn_config"] == 10000, "the base in attn_config is used now"
    assert kept["attn_config"] == 500000, "attn_config no longer keeps its base"
    assert bases["top level"] == bases["rope_parameters"] == 500000, "the other places changed"
    assert not said, f"the loss is no longer silent: {said}"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY
