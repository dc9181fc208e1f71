"""The keys of a GGUF file, each with the type llama.cpp requires, and its layers.

Which of them attend, which see a window only, and which rotate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.gguf.gguf_architectures import ARCHITECTURES, SPECIAL, WITHOUT_ATTENTION
from posenc_cli.configs.keys import broken_bound, printable
from posenc_cli.configs.resolved import Notes, Sourced
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.configs.gguf.gguf_architectures import Architecture
    from posenc_cli.files.gguf import GGUFHeader


_ROPE_LIKE = re.compile(
    r"rope|alibi|sliding_window|attention\.(?:scale|temperature_\w+)$|attn_logit_softcapping"
)
PLAIN = re.compile(r"\.rope\.(?:freq_base|dimension_count|scaling\.finetuned)$")
"""Keys that say nothing where no layer rotates, as of Granite 4's hybrids."""
_WHOLE = ("uint32", "int32")
_WINDOW = "attention.sliding_window"
_QUIET = {
    "rope.scaling.finetuned": False,
    "rope.scaling.yarn_beta_fast": 32.0,
    "rope.scaling.yarn_beta_slow": 1.0,
    "rope.scaling.yarn_attn_factor": 1.0,
    "rope.scaling.yarn_ext_factor": 1.0,
    _WINDOW: 0,
}
"""Keys that say nothing where they hold what llama.cpp takes anyway."""


class GGUFKeys:
    """The metadata of an architecture; None stands for a key that is absent."""

    def __init__(self, header: GGUFHeader, architecture: str, notes: Notes) -> None:
        self.header, self.architecture, self.notes = header, architecture, notes
        self.read: set[str] = set()

    def path(self, key: str) -> str:
        """The whole key."""
        return f"{self.architecture}.{key}"

    def missing(self, key: str) -> InvalidInput:
        """The error for a key without which llama.cpp loads no file."""
        return InvalidInput(
            f"{self.header.name}: {self.path(key)} is missing: llama.cpp does not load the file"
        )

    def default(self, key: str, value: Any, *, stated: Sourced | None = None) -> Sourced:
        """What llama.cpp takes where a key is absent, or ``stated`` is 0."""
        why = "key absent" if stated is None else "key is 0"
        return Sourced(value, f"DEFAULT: {why} ({self.path(key)})")

    def number(
        self, key: str, *, above: float | None = 0, minimum: float | None = None
    ) -> Sourced | None:
        """A float32.

        Raises: InvalidInput for anything else, or one out of bounds.
        """
        stated = self.of_type(key, "float32")
        if stated is not None and (rule := broken_bound(stated.value, above, minimum)):
            raise self._invalid(key, stated.value, rule)
        return stated

    def count(self, key: str, *, minimum: int = 1) -> Sourced | None:
        """A uint32; an array of them is none.

        Raises: InvalidInput for a number of another type, or one below the minimum.
        """
        if self._is_array(key):
            return None
        stated = self.of_type(key, "uint32")
        if stated is not None and stated.value < minimum:
            raise self._invalid(key, stated.value, f"must be at least {minimum}")
        return stated

    def needed(self, key: str, *, minimum: int = 1) -> Sourced:
        """A uint32 that must be there.

        Raises: InvalidInput where it is not.
        """
        stated = self.count(key, minimum=minimum)
        if stated is None:
            raise self.missing(key)
        return stated

    def counts(self, key: str) -> Sourced | None:
        """A uint32, or an array of them, as a tuple.

        Raises: InvalidInput for anything else.
        """
        arrays = (f"array of {kind}" for kind in _WHOLE)
        stated = self.of_type(key, "uint32", *arrays)
        if stated is None:
            return None
        values = stated.value if isinstance(stated.value, tuple | list) else (stated.value,)
        if not values or min(values) < 0:
            raise self._invalid(key, list(values[:8]), "must be whole numbers from 0 on")
        return Sourced(tuple(values), stated.source)

    def flags(self, key: str) -> Sourced | None:
        """An array of booleans or of uint32, as a tuple; None for a single number."""
        if not self._is_array(key):
            return None
        stated = self.of_type(key, *(f"array of {kind}" for kind in ("bool", *_WHOLE)))
        return stated and Sourced(tuple(map(bool, stated.value)), stated.source)

    def unread(self, context: int) -> Iterator[str]:
        """The rope-like keys that nothing read, those of other architectures too."""
        own = f"{self.architecture}."
        for key, stated in self.header.metadata.items():
            name = key.removeprefix(own)
            if key in self.read or key.startswith(("general.", "tokenizer.", "split.")):
                continue
            quiet = name != key and name in _QUIET and _QUIET[name] == stated.value
            # Phi 4's window is its context or more, which leaves nothing out
            quiet |= name == _WINDOW and type(stated.value) is int and stated.value >= context
            if _ROPE_LIKE.search(key) and not quiet:
                yield printable(key)

    def _is_array(self, key: str) -> bool:
        stated = self.header.metadata.get(self.path(key))
        return stated is not None and stated.type.startswith("array")

    def of_type(self, key: str, *kinds: str) -> Sourced | None:
        """A value of some types, whose number or text could be read.

        Raises: InvalidInput for one of another.
        """
        path = self.path(key)
        stated = self.header.metadata.get(path)
        if stated is None:
            return None
        self.read.add(path)
        if stated.value is None:
            raise InvalidInput(f"{self.header.name}: {path} is too long, or is not UTF-8 text")
        if stated.type not in kinds:
            raise InvalidInput(
                f"{self.header.name}: {path} is of type {stated.type}: llama.cpp takes "
                f"{' or '.join(kinds)} alone, and does not load the file"
            )
        return Sourced(stated.value, path)

    def _invalid(self, key: str, value: object, rule: str) -> InvalidInput:
        return InvalidInput(f"{self.header.name}: {self.path(key)} {value}: {rule}")


MOST_LAYERS = 512  # LLAMA_MAX_LAYERS


class AlikeLayers(Record):
    """Layers that rotate alike: whether they slide, and whether they rotate at all."""

    slides: bool
    turns: bool
    layers: tuple[int, ...]


class GGUFLayers:
    """The layers of a GGUF file, by its keys and what its architecture does without them."""

    def __init__(self, header: GGUFHeader) -> None:
        self.header, self.name = header, header.name
        self.notes = Notes()
        self.architecture_name, self.architecture = _architecture(header)
        self.keys = GGUFKeys(header, self.architecture_name, self.notes)
        self.context = self.keys.needed("context_length")
        self.embedding = self.keys.needed("embedding_length")
        self.blocks = self._blocks()

    def error(self, text: str, hint: str | None = None) -> InvalidInput:
        """An error about the file."""
        return InvalidInput(f"{self.name}: {text}", hint=hint)

    def _blocks(self) -> int:
        """How many layers the model has, without those that predict further tokens."""
        blocks = self.keys.needed("block_count").value
        if blocks > MOST_LAYERS:
            raise self.error(
                f"{self.keys.path('block_count')} {blocks}: llama.cpp takes at most {MOST_LAYERS}"
            )
        further = self.keys.count("nextn_predict_layers", minimum=0)
        return int(blocks) - (further.value if further and further.value < blocks else 0)

    def attending(self) -> tuple[int, ...]:
        """The layers with attention; empty where the file does not tell them from others."""
        every = tuple(range(self.blocks))
        if self.architecture.interval:
            return self._at_intervals()
        if not self.architecture.hybrid:
            return every
        heads = self.keys.counts("attention.head_count_kv")
        if heads is None or len(heads.value) == 1:
            return ()
        return tuple(i for i in every if i < len(heads.value) and heads.value[i])

    def _at_intervals(self) -> tuple[int, ...]:
        """The layers with attention of a model whose others are recurrent."""
        key = "attention.recurrent_layers"
        listed = self.keys.flags(key)
        if listed is not None:
            recurrent = listed.value
            return tuple(i for i in range(self.blocks) if i >= len(recurrent) or not recurrent[i])
        stated = self.keys.count("full_attention_interval")
        interval = stated.value if stated else self.architecture.interval
        return tuple(range(interval - 1, self.blocks, interval))

    def groups(self) -> list[AlikeLayers]:
        """The layers of each kind, in the order of their first."""
        slides = self._sliding()
        attending = self.attending()
        kinds: dict[tuple[bool, bool], list[int]] = {}
        if not attending:
            turning = self._turning(0, slides=False, any_slide=False)
            return [AlikeLayers(False, turning, ())]
        for layer in attending:
            sliding = slides[layer]
            turning = self._turning(layer, slides=sliding, any_slide=any(slides))
            kinds.setdefault((sliding, turning), []).append(layer)
        return [AlikeLayers(*kind, tuple(layers)) for kind, layers in kinds.items()]

    def label(self, group: AlikeLayers, groups: list[AlikeLayers]) -> str | None:
        """What the layers of a group are called, beside those of others."""
        kind = "sliding_attention" if group.slides else "full_attention"
        if len({each.slides for each in groups}) == 1:
            kind = ""
        if len([each for each in groups if each.slides == group.slides]) == 1:
            return kind or None
        return (kind or "rope") if group.turns else "nope"

    def _turning(self, layer: int, *, slides: bool, any_slide: bool) -> bool:
        """Whether a layer rotates at all."""
        rule = self.architecture.still
        if rule.startswith("unless sliding"):
            dense = "leading_dense_block_count"
            leading = self.keys.needed(dense, minimum=0).value if rule.endswith("leading") else 0
            return slides or not any_slide or layer < leading
        if rule == "by list":
            listed = self.keys.flags("attention.rope_pattern")
            return listed is None or layer >= len(listed.value) or listed.value[layer]
        if rule == "unless finetuned":
            flag = self.keys.of_type("rope.scaling.finetuned", "bool")
            return flag is None or bool(flag.value)
        # llama.cpp's Llama 4 without chunks means all layers to rotate, and leaves the last out
        step = self.blocks if rule.endswith("the last") and not any_slide else 4
        if rule == "every fourth from the first":
            return bool(layer % step) or not any_slide
        return bool((layer + 1) % step) or not rule.startswith("every fourth")

    def window(self) -> Sourced | None:
        """How many positions sliding layers see, None where no layer slides."""
        sliding = self.architecture.sliding
        if sliding is None:
            return None
        stated = self.keys.count(_WINDOW, minimum=0)
        if stated is None:
            if sliding.optional:
                return None
            if sliding.window is None:
                raise self.keys.missing(_WINDOW)
            return self.keys.default(_WINDOW, sliding.window)
        if not stated.value:
            if sliding.optional or sliding.fixed:
                return None
            raise self.error(
                f"{stated.source} 0: the sliding layers of {self.architecture_name} see nothing"
            )
        if not sliding.fixed or stated.value == sliding.window:
            return stated
        self.notes.ineffective(stated, f"{self.architecture_name} has windows of {sliding.window}")
        source = f"llama.cpp's rule for {self.architecture_name}: its load_arch_hparams"
        return Sourced(sliding.window, source)

    def _sliding(self) -> list[bool]:
        """Whether each layer slides."""
        sliding, window = self.architecture.sliding, self.window()
        none = [False] * self.blocks
        if sliding is None or window is None:
            return none
        if sliding.blocks and self.blocks != sliding.blocks:
            return none
        if sliding.everywhere:
            return [True] * self.blocks
        key = "attention.sliding_window_pattern"
        listed = self.keys.flags(key)
        if listed is not None:
            if len(listed.value) < self.blocks:
                raise self.error(
                    f"{listed.source} has {len(listed.value)} items for {self.blocks} layers"
                )
            return list(listed.value[: self.blocks])
        if not sliding.every:
            raise self.keys.missing(key)
        stated = self.keys.count(key, minimum=0)
        every = sliding.every if stated is None else stated.value
        if not every:
            return [True] * self.blocks
        dense = 0 if sliding.dense_first else every - 1
        return [layer % every != dense for layer in range(self.blocks)]


def _architecture(header: GGUFHeader) -> tuple[str, Architecture]:
    """The architecture of a file.

    Raises: InvalidInput where it names none, or one that was not read.
    """
    stated = header.metadata.get("general.architecture")
    if stated is None or not isinstance(stated.value, str):
        raise InvalidInput(f"{header.name}: general.architecture is missing")
    name = stated.value
    if name in WITHOUT_ATTENTION:
        raise InvalidInput(
            f"{header.name}: {name} has no attention that uses positions: there is nothing to read"
        )
    if name in SPECIAL:
        raise InvalidInput(f"{header.name}: {name} {SPECIAL[name]}, which posenc does not read")
    if name not in ARCHITECTURES:
        raise InvalidInput(
            f"{header.name}: posenc has not read how llama.cpp rotates in the architecture "
            f"{abbreviated(name)}",
            hint=nearest(name, ARCHITECTURES),
        )
    return name, ARCHITECTURES[name]
