"""Context extensions that need no training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.formulas.context_extension.llama3 import rope_llama3
from posenc_cli.formulas.context_extension.scaled import rope_dynamic, rope_linear, rope_ntk
from posenc_cli.formulas.context_extension.yarn import rope_yarn
from posenc_cli.formulas.rotary import rope
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.formulas.declare import Scheme

NONE = "none"
"""The extension that changes nothing."""
UNSTRETCHED = rope
"""The scheme whose frequencies extensions change."""


class RopeStretch(Record):
    """A scheme that replaces RoPE, and the names of its length parameters.

    ``trained`` names the parameter for the trained length, ``length`` the one for the new length.
    """

    scheme: Scheme
    trained: str | None = None
    length: str | None = None

    def parameters(self, given: Mapping[str, Any], trained: int, length: int) -> dict[str, Any]:
        """Return the parameters that replace RoPE's; the factor is length / trained.

        >>> STRETCHES["yarn"].parameters({"dim": 32}, 100, 400)
        {'dim': 32, 'factor': 4.0, 'original_max_position_embeddings': 100}
        """
        lengths = {self.trained: trained, self.length: length}
        named = {name: value for name, value in lengths.items() if name is not None}
        return {**given, "factor": length / trained, **named}


STRETCHES = {
    "linear": RopeStretch(rope_linear),
    "ntk": RopeStretch(rope_ntk),
    "dynamic": RopeStretch(rope_dynamic, "max_position_embeddings", "seq_len"),
    "yarn": RopeStretch(rope_yarn, "original_max_position_embeddings"),
    "llama3": RopeStretch(rope_llama3, "original_max_position_embeddings"),
}
"""Extensions by name. Dynamic NTK has a factor besides the lengths, and its base exceeds NTK's."""
ROPE_STRETCH_NAMES = (NONE, *STRETCHES)
