#!/usr/bin/env bash
# Seen: transformers 5.23.0 without torch, on 2026-11-29
#
# Behaviour: a muse_spark_text config that states rope_theta 1000000 at its top level has
# rope_parameters with the default base, 500000, and there is no warning. A Llama config with the
# same key uses it.
# Expected: rope_theta at the top level is the base, as in other models, or there is a warning.
#
# Output:
#   muse_spark_text, top level: rope_parameters has 500000.0
#   muse_spark_text, rope_parameters: rope_parameters has 1000000.0
#   llama, top level: rope_parameters has 1000000.0
#   llama, rope_parameters: rope_parameters has 1000000.0
#   warnings: 0
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile transformers==5.23.0 || exit 2
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

inside = {"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}
bases = {}
for kind in ("muse_spark_text", "llama"):
    for place, stated in (("top level", {"rope_theta": 1000000.0}), ("rope_parameters", inside)):
        config = CONFIG_MAPPING[kind](**stated)
        bases[kind, place] = config.rope_parameters["rope_theta"]
        print(f"{kind}, {place}: rope_parameters has {bases[kind, place]}")
print(f"warnings: {len(said)}")
try:
    assert bases["muse_spark_text", "top level"] != 1000000, "the top level is used now"
    assert bases["muse_spark_text", "rope_parameters"] == 1000000, "rope_parameters is not used"
    assert bases["llama", "top level"] == 1000000, "Llama ignores the top level too"
    assert not said, f"the loss is no longer silent: {said}"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY
