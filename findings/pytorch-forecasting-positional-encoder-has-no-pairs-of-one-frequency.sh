#!/usr/bin/env bash
# Seen: pytorch-forecasting 1.8.0 with torch 2.13.0, on 2026-11-28
#
# Behaviour: PositionalEncoder (of the temporal fusion transformer) puts sin(p / 10000^(2i/d)) into
# column i and cos(p / 10000^(2(i + 1)/d)) into column i + 1, for i = 0, 2, 4, …: the exponent is
# doubled, and the two columns have different frequencies. The dot product of two rows therefore
# depends on where they are, not only on how far apart. PositionalEmbedding of the same package is
# right.
# Expected: sine and cosine of the same angle in a pair, so that rows 5 apart have one dot product.
#
# Output:
#   PositionalEncoder: dot products of rows 5 apart vary by 2.7
#   PositionalEmbedding: dot products of rows 5 apart vary by 0.0
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 pytorch-forecasting==1.8.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys
import warnings

warnings.filterwarnings("ignore")
from pytorch_forecasting.layers import PositionalEmbedding
from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import PositionalEncoder


def spread(rows):
    products = (rows[:150] * rows[5:155]).sum(1)
    return round((products.max() - products.min()).item(), 1)


encoder, plain = (made(8).pe[0].double() for made in (PositionalEncoder, PositionalEmbedding))
for name, rows in (("PositionalEncoder", encoder), ("PositionalEmbedding", plain)):
    print(f"{name}: dot products of rows 5 apart vary by {spread(rows)}")
if spread(encoder) < 1 or spread(plain) > 0.01:
    sys.exit("changed: the encoder's pairs have one frequency, or the embedding's have not")
PY
