"""The layers of a GGUF file: which attend, slide and rotate, and how rotations are scaled.

llama.cpp's YaRN, linear factor and divisors are expressed by the scheme of the catalogue that gives
the same frequencies and the same amplitude.

Source: the constructor of src/llama-context.cpp, src/models/*.cpp, and rope_yarn of
ggml/src/ggml-cpu/ops.cpp, at https://github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.configs.gguf.gguf_architectures import (
    ARCHITECTURES,
    FREQS,
    LONG,
    SHORT,
    SPECIAL,
    Architecture,
)
from posenc_cli.configs.gguf.gguf_file import WINDOW, GGUFKeys
from posenc_cli.configs.resolved import Notes, Sourced
from posenc_cli.configs.rope_rules import attention_factor, yarn_factor
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.numerics import exact
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.files.gguf import GGUFHeader

    Params = dict[str, Sourced]

ORIGINAL = "original_max_position_embeddings"

_FLOAT32_ERROR = 1e-6
"""The relative error of a value that was computed and stored in float32."""

_DIVISOR_TOLERANCE = 1e-5
"""The relative error of divisors computed in float32 from a power of the base."""
_TYPES = ("none", "linear", "yarn", "longrope")
_UNROTATED_DIVISOR = 1e15
"""A pair with this divisor or a larger one does not rotate: Gemma 4's converter writes 1e30."""


MOST_LAYERS = 512  # LLAMA_MAX_LAYERS


class LayerGroup(Record):
    """Layers of one kind: whether they slide, whether they rotate, and their numbers."""

    slides: bool
    rotates: bool
    layers: tuple[int, ...]


class GGUFLayers:
    """The layers of a GGUF file, by its keys and its architecture's defaults."""

    def __init__(self, header: GGUFHeader) -> None:
        self.header, self.name = header, header.name
        self.notes = Notes()
        self.architecture_name, self.architecture = _architecture(header)
        self.keys = GGUFKeys(header, self.architecture_name, self.notes)
        self.context = self.keys.needed("context_length")
        self.embedding = self.keys.needed("embedding_length")
        self.blocks = self._blocks()

    def _rule_text(self, what: str) -> str:
        return f"llama.cpp's rule for {self.architecture_name}: {what}"

    def error(self, text: str, hint: str | None = None) -> InvalidInput:
        """Return an error about the file."""
        return InvalidInput(f"{self.name}: {text}", hint=hint)

    def _blocks(self) -> int:
        """Return the number of layers, without those that predict further tokens."""
        blocks = self.keys.needed("block_count").value
        if blocks > MOST_LAYERS:
            raise self.error(
                f"{self.keys.path('block_count')} {blocks}: llama.cpp takes at most {MOST_LAYERS}"
            )
        further = self.keys.count("nextn_predict_layers", minimum=0)
        return int(blocks) - (further.value if further and further.value < blocks else 0)

    def attention_layers(self) -> tuple[int, ...]:
        """Return the layers with attention; empty if the file does not say which have it."""
        if self.architecture.interval:
            return self._at_intervals()
        if not self.architecture.hybrid:
            return tuple(range(self.blocks))
        heads = self.keys.counts("attention.head_count_kv")
        if heads is None or len(heads.value) == 1:
            return ()
        return tuple(i for i, count in enumerate(heads.value[: self.blocks]) if count)

    def _at_intervals(self) -> tuple[int, ...]:
        """Return the layers with attention in a model whose other layers are recurrent."""
        listed = self.keys.flags("attention.recurrent_layers")
        if listed is not None:
            return tuple(i for i in range(self.blocks) if not any(listed.value[i : i + 1]))
        stated = self.keys.count("full_attention_interval")
        interval = stated.value if stated else self.architecture.interval
        return tuple(range(interval - 1, self.blocks, interval))

    def groups(self) -> list[LayerGroup]:
        """Return the layers grouped by kind, in the order of each group's first layer."""
        slides = self._sliding()
        kinds: dict[tuple[bool, bool], list[int]] = {}
        for layer in self.attention_layers():
            rotated = self._rotates(layer, slides=slides[layer], any_slide=any(slides))
            kinds.setdefault((slides[layer], rotated), []).append(layer)
        if not kinds:
            return [LayerGroup(False, self._rotates(0, slides=False, any_slide=False), ())]
        return [LayerGroup(*kind, tuple(layers)) for kind, layers in kinds.items()]

    def label(self, group: LayerGroup, groups: list[LayerGroup]) -> str | None:
        """Return the name that distinguishes a group from the others, or None for one group."""
        kind = "sliding_attention" if group.slides else "full_attention"
        if len({each.slides for each in groups}) == 1:
            kind = ""
        if len([each for each in groups if each.slides == group.slides]) == 1:
            return kind or None
        return (kind or "rope") if group.rotates else "nope"

    def _rotates(self, layer: int, *, slides: bool, any_slide: bool) -> bool:
        """Return whether a layer rotates at all."""
        rule = self.architecture.unrotated
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
        # For a Llama 4 without chunks, llama.cpp means to rotate every layer, but omits the last.
        step = self.blocks if rule.endswith("the last") and not any_slide else 4
        if rule == "every fourth from the first":
            return bool(layer % step) or not any_slide
        return bool((layer + 1) % step) or not rule.startswith("every fourth")

    def window(self) -> Sourced | None:
        """Return the window of sliding layers in positions, or None if no layer slides."""
        sliding = self.architecture.sliding
        if sliding is None:
            return None
        stated = self.keys.count(WINDOW, minimum=0)
        if stated is None:
            if sliding.optional:
                return None
            if sliding.window is None:
                raise self.keys.missing(WINDOW)
            return self.keys.default(WINDOW, sliding.window)
        if not stated.value:
            if sliding.optional or sliding.fixed:
                return None
            raise self.error(
                f"{stated.source} 0: the sliding layers of {self.architecture_name} see nothing"
            )
        if not sliding.fixed or stated.value == sliding.window:
            return stated
        self.notes.ineffective(stated, f"{self.architecture_name} has windows of {sliding.window}")
        return Sourced(sliding.window, self._rule_text("its load_arch_hparams"))

    def _sliding(self) -> list[bool]:
        """Return whether each layer slides.

        Raises: InvalidInput if the file does not say it.
        """
        sliding, window = self.architecture.sliding, self.window()
        if sliding is None or window is None or sliding.blocks not in (0, self.blocks):
            return [False] * self.blocks
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


class Sizes(Record):
    """The sizes of a head.

    ``dim`` is its width, ``rotated`` the number of rotated dimensions, and ``share`` their share.
    ``beside`` counts the dimensions outside a rotated slice. ``stated`` is the key of the rotary
    dim, if the file has it.
    """

    dim: Sourced
    rotated: int
    share: Sourced | None
    beside: Sourced | None
    stated: Sourced | None = None


class Scaling(Record):
    """How layers are scaled: type, factor, whether YaRN's ramp applies, and amplitude."""

    kind: Sourced
    factor: Sourced
    yarn: bool
    amplitude: Sourced


class ScaledGGUFLayers(GGUFLayers):
    """The layers of a GGUF file, with the scaling and the scheme of each group."""

    def _scaling_type(self) -> Sourced:
        stated = self.keys.of_type("rope.scaling.type", "string")
        if stated is None:
            return self.keys.default("rope.scaling.type", "linear")
        if stated.value not in _TYPES:
            raise self.error(
                f"{stated.source} {abbreviated(stated.value)}: llama.cpp knows {', '.join(_TYPES)}",
                hint=nearest(stated.value, _TYPES),
            )
        return stated

    def _scaling_factor(self) -> Sourced:
        """Return the factor that divides frequencies; 0 and a missing key mean 1."""
        for key in ("rope.scaling.factor", "rope.scale_linear"):
            stated = self.keys.number(key, minimum=0)
            if stated is not None:
                return stated if stated.value else self.keys.default(key, 1.0, stated=stated)
        return self.keys.default("rope.scaling.factor", 1.0)

    def _original_length(self) -> Sourced:
        stated = self.keys.count("rope.scaling.original_context_length", minimum=0)
        if stated is not None and stated.value:
            return stated
        default = self.keys.default(
            "rope.scaling.original_context_length", self.context.value, stated=stated
        )
        return Sourced(default.value, f"{default.source}: {self.context.source}")

    def _scaling(self, group: LayerGroup) -> Scaling:
        kind, factor = self._scaling_type(), self._scaling_factor()
        one = Sourced(1.0, f"{kind.source} {kind.value}")
        if self.architecture.plain:
            return Scaling(kind, self._unscaled(factor), False, Sourced(1.0, ""))
        sliding = self.architecture.sliding if group.slides else None
        if sliding is not None and sliding.plain:
            return Scaling(kind, one, False, Sourced(1.0, ""))
        yarn, log = kind.value == "yarn", self._log_multiplier()
        amplitude = self.keys.number("rope.scaling.attn_factor", above=None) or Sourced(1.0, "")
        scaled = factor.value
        if sliding is not None and not sliding.scaled:
            factor = Sourced(1.0, self._rule_text("sliding layers are not scaled"))
        elif kind.value == "none" and not (sliding is not None and sliding.keyed):
            factor = one
        value = amplitude.value
        if yarn:
            # llama.cpp divides by the gain of the model's factor, because ggml's rope_yarn
            # multiplies by the gain of the layer's own factor.
            own = log if self.architecture.weighted and log else 1.0
            ratio = yarn_factor(scaled, own) / yarn_factor(scaled, log)
            value *= ratio / gain(scaled) * gain(factor.value)
        source = amplitude.source or (
            f"derived: {self.keys.path('rope.scaling.factor')}" if yarn else ""
        )
        if yarn and log:
            source = f"derived: {self.keys.path('rope.scaling.yarn_log_multiplier')}"
        return Scaling(kind, factor, yarn, Sourced(value, source))

    def _unscaled(self, factor: Sourced) -> Sourced:
        """Return the factor 1 for an architecture whose graph ignores the scaling keys."""
        if factor.value != 1:
            self.notes.ineffective(factor, f"{self.architecture_name} scales nothing")
        return Sourced(1.0, self._rule_text("its graph scales nothing"))

    def _note_ignored_factor(self, params: Params) -> None:
        """Mark ``yarn_attn_factor`` as unread if it is not the amplitude in use."""
        stated = self.keys.number("rope.scaling.yarn_attn_factor", above=None)
        if stated is None or "factor" not in params:
            return
        values = {name: param.value for name, param in params.items()}
        amplitude = attention_factor("rope-yarn", values)
        if not math.isclose(stated.value, amplitude or 1.0, rel_tol=_FLOAT32_ERROR):
            self.keys.read.discard(stated.source)

    def _log_multiplier(self) -> float:
        """Return YaRN's mscale_all_dim, or 0 without one."""
        if "yarn_log_multiplier" not in self.architecture.yarn:
            return 0.0
        stated = self.keys.number("rope.scaling.yarn_log_multiplier", above=None)
        if stated is None:
            return 0.0
        # DeepSeek's converter writes a tenth of it, and llama.cpp undoes that.
        return shortest_float32(stated.value / 0.1 if self.architecture.tenth else stated.value)

    def _softmax_multiplier(self, scaling: Scaling) -> Sourced | None:
        """Return mscale², by which latent attention multiplies the scores beside the rotation.

        It is None if it is 1 or the architecture does not use it.
        """
        if not self.architecture.mscaled:
            return None
        grown = gain(scaling.factor.value)
        log = self._log_multiplier()
        mscale = scaling.amplitude.value * (1.0 if scaling.yarn else grown)
        mscale *= 1 + log * (grown - 1)
        if math.isclose(mscale, 1, rel_tol=_FLOAT32_ERROR):
            return None
        keys = ["rope.scaling.yarn_log_multiplier"] if log else []
        paths = " and ".join(map(self.keys.path, [*keys, "rope.scaling.factor"]))
        return Sourced(mscale**2, f"derived: {paths}")

    def _scheme(
        self, group: LayerGroup, scaling: Scaling, sizes: Sizes, params: Params
    ) -> tuple[str, Params]:
        """Return the scheme that equals the rotation, and its further parameters."""
        divisors = self._divisors(scaling, sizes, group)
        if divisors:
            if scaling.yarn and scaling.factor.value != 1:
                raise self.error(
                    f"is scaled by YaRN and divided by {' and '.join(divisors)}, which no scheme is"
                )
            scheme, more = self._divided_scheme(divisors, scaling, sizes, params)
        elif scaling.yarn and scaling.factor.value != 1:
            scheme, more = self._yarn(scaling)
        elif scaling.amplitude.value != 1:
            # LongRoPE with factors of 1 has plain frequencies, and any amplitude.
            one = Sourced((1.0,) * (sizes.rotated // 2), "no tensor divides frequencies")
            scheme, more = self._longrope(one, one, scaling)
        elif scaling.factor.value != 1:
            scheme, more = "rope-linear", {"factor": scaling.factor}
        else:
            scheme, more = "rope", {}
        return self._with_axes(scheme, more, sizes)

    def _yarn(self, scaling: Scaling) -> tuple[str, Params]:
        original = self._original_length()
        more = {"factor": scaling.factor, ORIGINAL: original}
        if original.source.startswith("DEFAULT"):
            path = self.keys.path("rope.scaling.original_context_length")
            text = f"{path} states no length: llama.cpp takes the context"
            self.notes.doubt(path, text, of=self.notes.defaulted)
        for name, key in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
            if key in self.architecture.yarn:
                beta = self.keys.number(f"rope.scaling.{key}")
                if beta is not None:
                    more[name] = beta
        rule = yarn_factor(scaling.factor.value)
        if not math.isclose(scaling.amplitude.value, rule, rel_tol=1e-12):
            more["attention_factor"] = scaling.amplitude
        if rule != 1 and math.isclose(scaling.amplitude.value, rule**2, rel_tol=_FLOAT32_ERROR):
            self.notes.warnings.append(
                f"{scaling.amplitude.source} is YaRN's own attention factor, which llama.cpp "
                "multiplies by again: older converters wrote it for OLMo 3; convert the model again"
            )
        return "rope-yarn", more

    def _longrope(self, short: Sourced, long: Sourced, scaling: Scaling) -> tuple[str, Params]:
        factor = scaling.factor.value
        if factor != 1:
            short, long = (
                Sourced(
                    tuple(factor * value for value in each.value), f"{each.source} × {factor:g}"
                )
                for each in (short, long)
            )
        amplitude = scaling.amplitude
        key = self.keys.path("rope.scaling.attn_factor")
        if not amplitude.source:
            amplitude = Sourced(amplitude.value, f"DEFAULT: key absent ({key})")
        return "rope-longrope", {
            "short_factor": short,
            "long_factor": long,
            ORIGINAL: self._original_length(),
            "attention_factor": amplitude,
            "seq_len": Sourced(self.context.value, f"{self.context.source}, which it allocates"),
        }

    def _divisors(
        self, scaling: Scaling, sizes: Sizes, group: LayerGroup
    ) -> Mapping[str, tuple[float, ...]]:
        """Return the tensors that divide the frequencies of a group.

        Raises: InvalidInput if the length of a tensor is not the number of pairs.
        """
        wanted = self._divisor_names(scaling.kind.value, slides=group.slides)
        found = {name: self.header.numbers[name] for name in wanted if name in self.header.numbers}
        pairs = sizes.rotated // 2
        for name, values in found.items():
            if len(values) != pairs:
                raise self.error(
                    f"the tensor {name} has {len(values)} numbers: {sizes.rotated} rotated "
                    f"dimensions make {pairs} pairs"
                )
            if not all(math.isfinite(value) and value > 0 for value in values):
                raise self.error(f"the tensor {name} holds a number that is not above 0")
        return found

    def _divisor_names(self, kind: str, *, slides: bool = False) -> tuple[str, ...]:
        """Return the names of tensors by which llama.cpp divides the frequencies of some layers."""
        factors, divided = self.architecture.factors, self.architecture.divided
        if divided == "none" or (divided == "full" and slides):
            return ()
        if factors == "long" or (factors == "either" and kind == "longrope"):
            return LONG, SHORT
        return (FREQS,) if factors else ()

    def _divided_scheme(
        self,
        divisors: Mapping[str, tuple[float, ...]],
        scaling: Scaling,
        sizes: Sizes,
        params: Params,
    ) -> tuple[str, Params]:
        """Return the scheme of frequencies that tensors divide."""
        if FREQS not in divisors:
            ones = (1.0,) * (sizes.rotated // 2)
            short, long = (
                Sourced(tuple(map(shortest_float32, divisors[name])), name)
                if name in divisors
                else Sourced(ones, f"DEFAULT: tensor absent ({name})")
                for name in (SHORT, LONG)
            )
            return self._longrope(short, long, scaling)
        values = divisors[FREQS]
        if scaling.amplitude.value == 1:
            rotated = [value for value in values if value < _UNROTATED_DIVISOR]
            if len(rotated) < len(values):
                return self._proportional(values, scaling, params)
            llama3 = (
                llama3_parameters(values, float(params["base"].value), sizes.rotated)
                if scaling.factor.value == 1
                else None
            )
            if llama3 is not None:
                return "rope-llama3", {
                    name: Sourced(value, f"derived: {FREQS}") for name, value in llama3.items()
                }
        factors = Sourced(tuple(map(shortest_float32, values)), FREQS)
        return self._longrope(factors, factors, scaling)

    def _proportional(
        self, values: tuple[float, ...], scaling: Scaling, params: Params
    ) -> tuple[str, Params]:
        """Return the scheme whose slowest pairs do not rotate.

        Raises: InvalidInput if other pairs do not rotate.
        """
        rotated = sum(value < _UNROTATED_DIVISOR for value in values)
        divisors = set(values[:rotated])
        others = any(value < _UNROTATED_DIVISOR for value in values[rotated:]) or len(divisors) != 1
        if others or "partial" in params:
            raise self.error(f"the tensor {FREQS} stops pairs other than the last ones of a head")
        share = rotated / len(values)
        factor = divisors.pop() * scaling.factor.value
        more = {"partial": Sourced(share, f"derived: {FREQS}")}
        if factor != 1:
            more["factor"] = Sourced(factor, f"derived: {FREQS}")
        return "rope-proportional", more

    def _has_axes(self) -> bool:
        """Return whether there are sections for more than one axis."""
        sections = self.keys.counts("rope.dimension_sections")
        return sections is not None and len(sections.value) > 1 and all(sections.value[:2])

    def _with_axes(self, scheme: str, more: Params, sizes: Sizes) -> tuple[str, Params]:
        """Return a scheme of several axes, if the file has sections and no scaling."""
        rope_type = self.architecture.rope_type
        if "mrope" not in rope_type:
            return scheme, more
        key = "rope.dimension_sections"
        sections = self.keys.counts(key)
        if sections is None and rope_type in ("mrope", "imrope"):
            raise self.keys.missing(key)
        if sections is None or (" or " in rope_type and not self._has_axes()):
            return scheme, more
        numbers = (*sections.value, 0, 0, 0, 0)[:4]
        if scheme != "rope" or numbers[3] or sum(numbers) != sizes.rotated // 2:
            self.notes.warnings.append(
                "the axes of images and video are left out: the encoding is that of text"
            )
            return scheme, more
        more = {**more, "sections": Sourced(numbers[:3], sections.source)}
        if rope_type == "imrope":
            more["interleaved"] = Sourced(True, self._rule_text("its rope type IMROPE"))
        return "mrope", more


def gain(factor: float) -> float:
    """Return the amplitude by which ggml's rope_yarn multiplies cos and sin."""
    return 1 + 0.1 * math.log(factor)


def shortest_float32(value: float) -> float:
    """Return the number with the fewest digits that rounds to the same float32.

    Model files state numbers in this form.

    >>> import struct
    >>> shortest_float32(struct.unpack("f", struct.pack("f", 1.05))[0])
    1.05
    """
    shorter = (float(f"{value:.{digits}g}") for digits in range(1, 10))  # nine always do
    return next(short for short in shorter if struct.pack("f", short) == struct.pack("f", value))


def llama3_parameters(
    values: tuple[float, ...], base: float, rotated: int
) -> dict[str, Any] | None:
    """Return Llama 3.1's parameters if its rule with the usual ends 1 and 4 gives these divisors.

    >>> llama3_parameters((1.0, 1.0), 10000.0, 4)
    """
    factor = shortest_float32(max(values))
    if factor <= 1 or values[-1] != max(values):
        return None
    waves = [2 * math.pi * base ** (2 * i / rotated) for i in range(len(values))]
    blended = [
        (wave, value)
        for wave, value in zip(waves, values, strict=True)
        if 1 + 1e-3 < value < factor * (1 - 1e-3)
    ]
    lengths = [8192]
    if blended:
        wave, value = max(blended, key=lambda each: each[1])
        share = (1 / value - 1 / factor) / (1 - 1 / factor)
        lengths.append(round(wave * (1 + 3 * share)))
    ends = {"factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    for length in lengths:
        rule = {**ends, ORIGINAL: length}
        bound = catalogue.find("rope-llama3").bind({"dim": rotated, "base": base, **rule})
        if all(
            math.isclose(2 * math.pi / (wave * float(frequency)), value, rel_tol=_DIVISOR_TOLERANCE)
            for wave, value, frequency in zip(
                waves, values, bound.rotation.waves.frequencies(exact), strict=True
            )
        ):
            return rule
    return None


def _architecture(header: GGUFHeader) -> tuple[str, Architecture]:
    """Return the name and the rules of a file's architecture.

    Raises: InvalidInput if the file names none, or one that was not read.
    """
    stated = header.metadata.get("general.architecture")
    if stated is None or not isinstance(stated.value, str):
        raise InvalidInput(f"{header.name}: general.architecture is missing")
    name = stated.value
    if name in SPECIAL:
        raise InvalidInput(f"{header.name}: {name} {SPECIAL[name]}, which posenc does not read")
    if name not in ARCHITECTURES:
        raise InvalidInput(
            f"{header.name}: llama.cpp's code was not checked for the architecture "
            f"{abbreviated(name)}",
            hint=nearest(name, ARCHITECTURES),
        )
    return name, ARCHITECTURES[name]
