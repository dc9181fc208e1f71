#!/usr/bin/env bash
# Seen: transformers 5.23.0 with torch 2.13.0, on 2026-11-28
#
# Behaviour: in get_rope_index of Qwen2-VL, text after a video goes on past the longer side of the
# grid, not past the last frame. If a video has more frames than rows and columns, the text gets
# position ids that frames have. Qwen2.5-Omni, in the same release, goes on past the largest id. So
# did Qwen2-VL in transformers 4.57.6, which this script does not run.
# Expected: text after a video has ids that no frame has, as in Qwen2.5-Omni.
#
# Output:
#   2 frames of 2 × 2 tokens: largest id 3, text after it: Qwen2-VL [4, 5, 6], Omni [4, 5, 6]
#   3 frames of 2 × 2 tokens: largest id 4, text after it: Qwen2-VL [4, 5, 6], Omni [5, 6, 7]
#   6 frames of 2 × 2 tokens: largest id 7, text after it: Qwen2-VL [4, 5, 6], Omni [8, 9, 10]
#   the same ids for the video itself: True
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv" || exit 2
"$dir/venv/bin/python" -m pip install --quiet --no-compile torch==2.13.0 transformers==5.23.0 || exit 2
"$dir/venv/bin/python" - "$dir" <<'PY'
import sys

import torch
from transformers import (
    Qwen2_5OmniThinkerConfig,
    Qwen2_5OmniThinkerForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLModel,
)

start, video, end, word = 1, 2, 3, 4
tokens = {"vision_start_token_id": start, "video_token_id": video}
with torch.device("meta"):  # position ids need no weights
    qwen = Qwen2VLModel(Qwen2VLConfig(**tokens))
    omni = Qwen2_5OmniThinkerForConditionalGeneration(
        Qwen2_5OmniThinkerConfig(**tokens, position_id_per_seconds=1)
    )


def ids(frames):
    """The position ids, 3 × tokens, of a prompt with one video in both models."""
    prompt = torch.tensor([[word, start, *[video] * (4 * frames), end, word, word]])
    grid = torch.tensor([[frames, 4, 4]])  # in patches: each token is made of 2 × 2
    kinds = 2 * (prompt == video).int()
    one, _ = qwen.get_rope_index(prompt, mm_token_type_ids=kinds, video_grid_thw=grid)
    other, _ = omni.get_rope_index(prompt, video_grid_thw=grid, second_per_grids=torch.ones(1))
    return one[:, 0], other[:, 0].long()


text, largest, same = {}, {}, []
for frames in (2, 3, 6):
    both = ids(frames)
    same.append(torch.equal(*(found[:, :-3] for found in both)))
    largest[frames] = both[0][:, :-3].max().item()
    text[frames] = [found[0, -3:].tolist() for found in both]
    print(
        f"{frames} frames of 2 × 2 tokens: largest id {largest[frames]}, text after it: "
        f"Qwen2-VL {text[frames][0]}, Omni {text[frames][1]}"
    )
print("the same ids for the video itself:", all(same))
try:
    assert all(same), "the two differ before the text now"
    assert text[2][0] == text[2][1] == [4, 5, 6], "they differ where frames do not run further"
    for frames in (3, 6):
        assert text[frames][0] == [4, 5, 6], "Qwen2-VL no longer goes on past the grid's side"
        assert text[frames][0][0] <= largest[frames], "text no longer shares ids with frames"
        assert text[frames][1][0] == largest[frames] + 1, "Omni's text no longer follows frames"
except AssertionError as changed:
    sys.exit(f"changed: {changed}")
PY
