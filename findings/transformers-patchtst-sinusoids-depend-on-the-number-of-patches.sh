#!/usr/bin/env bash
# Seen: transformers 5.23.0 with torch 2.13.0, on 2026-12-01
#
# Behaviour: PatchTST's fixed sinusoids ("sincos", the default) are not sines and cosines. The class
# subtracts the mean of its whole table and divides by ten standard deviations, so the values of a
# patch depend on how many patches the context has: position 0 begins at -0.0941 for 8 patches, and
# at -0.0398 for 512. With `use_cls_token` the table has one row more, and every value changes.
# Expected: sinusoids of a position are the same in a table of any length, and position 0 is 0, 1, …
#
# Output:
#   sine and cosine of position 0, by patches: {8: (-0.0941, 0.1), 32: (-0.0713, 0.1024), 512: (-0.0398, 0.1124)}
#   standard deviation of a table: {8: 0.1, 32: 0.1, 512: 0.1}
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

from transformers import PatchTSTConfig
from transformers.models.patchtst.modeling_patchtst import PatchTSTPositionalEncoding


def table(patches):
    config = PatchTSTConfig(
        d_model=64, context_length=16 * patches, patch_length=16, patch_stride=16
    )
    assert config.positional_encoding_type == "sincos", "sinusoids are no longer the default"
    return PatchTSTPositionalEncoding(config, patches).position_enc.detach()


tables = {patches: table(patches) for patches in (8, 32, 512)}
first = {n: tuple(round(each.item(), 4) for each in t[0, :2]) for n, t in tables.items()}
spread = {n: round(t.std().item(), 4) for n, t in tables.items()}
print("sine and cosine of position 0, by patches:", first)
print("standard deviation of a table:", spread)
try:
    assert abs(first[8][0] - first[512][0]) > 0.05, "position 0 is the same in every table now"
    assert set(spread.values()) == {0.1}, "tables have another standard deviation now"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY
