"""Find the rule by which a model assigns position ids to the tokens of a prompt.

Text counts from 0. Decoders skip padding, as generation in transformers does. Encoders such as BERT
count it, and ignore the mask for positions. RoBERTa and its relatives skip padding and count from
the row after the padding row; MPNet, MRA, Nystromformer and YOSO count from row 2.

Models with M-RoPE give a token three ids (frame, row, column) by their ``get_rope_index``, read in
transformers 5.24. The frames of a video follow one of three rules: a step of 1, a step in seconds,
or a separate grid for each frame. Qwen2.5-Omni's step is in seconds too, but its text continues
after the largest id. The ids of Qwen3-Omni are fractions, which no rule here gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.configs import families, nonrotary
from posenc_cli.configs.config import resolve
from posenc_cli.configs.keys import Keys
from posenc_cli.errors import InvalidInput
from posenc_cli.files.gguf import GGUFHeader
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.configs.resolved import Sourced

UNIT, SECONDS, APART, PAST = "unit", "seconds", "apart", "past"
_OMNI = {"frames": PAST, "padding": 1, "per_second": 25.0, "after": "largest"}
SEEING: Mapping[str, Mapping[str, Any]] = {
    "ernie4_5_vl_moe": {"frames": UNIT, "frames_merged": 2},
    "glm46v": {"frames": APART},
    "glm4v": {"frames": APART},
    "glm4v_moe": {"frames": APART},
    "glm_ocr": {"frames": APART},
    "paddleocr_vl": {"frames": UNIT},
    "qwen2_5_omni": _OMNI,
    "qwen2_5_omni_thinker": _OMNI,
    "qwen2_5_vl": {"frames": SECONDS},
    "qwen2_vl": {"frames": UNIT},
    "qwen3_5": {"frames": APART},
    "qwen3_5_moe": {"frames": APART},
    "qwen3_vl": {"frames": APART},
    "qwen3_vl_moe": {"frames": APART},
    "qwen4_exp": {"frames": APART},
}
"""The model types whose ``get_rope_index`` was read, and their fields of `PositionRule`."""
_MERGE, _PER_SECOND = 2, 4
"""Defaults of vision configs: patches to a side of a token, and ids per second."""

PADDING: Mapping[str, frozenset[str]] = {
    rule: frozenset(kinds) for rule, kinds in families.packaged("padding.json").items()
}
"""The model types by the treatment of padding in their code in transformers 5.24.

``skipped``: decoders whose ``forward`` takes position_ids, which GenerationMixin computes from the
mask, or that compute them from the mask themselves (OPT, BioGPT). ``counted``: all tokens are
numbered by ``torch.arange``.
"""

_POSITIONED = ("absolute", "rotary")
"""The kinds of encodings that use position ids."""


class PositionRule(Record):
    """The rule by which a model counts positions.

    start: the id of the first token; ``padding``: the id of skipped padding.
    skips: whether padding is skipped; ``read`` is False if that is assumed.
    rows: of a learned table, or None; the first token reads row ``first_row``.
    unused: the encodings of a model that uses no position ids, such as biases; else empty.
    frames: the rule for the frames of a video; None if positions have one axis or it was not read.
    merge: patches to a side of a token; ``frames_merged``: frames of a video for a token;
        ``per_second``: ids per second of video.
    after: where text continues after a grid: past its longer ``side`` or its ``largest`` id.
    """

    model_type: str
    start: int = 0
    padding: int = 0
    skips: bool = True
    read: bool = True
    rows: int | None = None
    first_row: int = 0
    unused: str = ""
    frames: str | None = None
    merge: int = _MERGE
    frames_merged: int = 1
    after: str = "side"
    per_second: float = _PER_SECOND


def position_rule(config: Mapping[str, Any] | GGUFHeader, *, name: str) -> PositionRule:
    """Return the rule of a config's model.

    Raises: InvalidInput if the model is not supported, or the file is a GGUF file.
    """
    if isinstance(config, GGUFHeader):
        raise InvalidInput(f"{name} is a GGUF file; position ids need a config.json")
    own = config.get("model_type")
    seen = SEEING.get(own.removesuffix("_text")) if isinstance(own, str) else None
    if seen is not None:
        stated = _stated_fields(Keys(config, name=name), seen["frames"])
        fields_of_config = {field: each.value for field, each in stated.items() if each}
        return PositionRule(str(own), **{**seen, **fields_of_config})
    resolved = resolve(config, name=name)
    kind = resolved.model_type
    family = nonrotary.FAMILIES.get(kind)
    groups = [{**group.params, **group.derived} for group in resolved.layers]
    keys = ("offset", "first_position")
    rows = [each[key].value for each in groups for key in keys if key in each]
    counted = kind in PADDING["counted"]
    tables = [each["max_len"].value for each in groups if "max_len" in each]
    schemes = {group.scheme: catalogue.find(group.scheme).kind for group in resolved.layers}
    used = [name for name, each in schemes.items() if each in _POSITIONED and name != "nope"]
    known = PositionRule(
        kind,
        skips=not counted,
        read=counted or kind in PADDING["skipped"],
        rows=min(tables, default=None),
        first_row=rows[0] if rows else 0,
        unused="" if used else ", ".join(schemes),
    )
    if family is None or not rows or not (family.in_ids or family.offset == "padding"):
        return known
    return replace(
        known,
        start=rows[0],
        padding=rows[0] - 1,
        skips=family.offset == "padding" or not counted,
        read=True,
    )


def _stated_fields(keys: Keys, frames: str) -> Mapping[str, Sourced | None]:
    """Return the fields of a rule for images and videos that a config states."""
    whole = keys.section("thinker_config") or keys
    vision = whole.section("vision_config") or Keys({}, name=keys.name)
    return {
        "merge": vision.count("spatial_merge_size"),
        "frames_merged": vision.count("temporal_merge_size") if frames == UNIT else None,
        "per_second": whole.number("position_id_per_seconds")
        if frames == PAST
        else vision.number("tokens_per_second"),
    }
