"""A GGUF file in, the schemes that llama.cpp runs out, each value with its key.

A GGUF file means what llama.cpp makes of it: its keys where they stand, else the defaults of its
code, which are told as such. :mod:`~posenc_cli.configs.gguf_architectures` says what each
architecture does otherwise, and where that was read.

Source: load_hparams and llama_model_rope_type of src/llama-model.cpp, the constructor of
src/llama-context.cpp, src/models/*.cpp, and rope_yarn of ggml/src/ggml-cpu/ops.cpp, at
https://github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from posenc_cli.configs.gguf_architectures import (
    FACTOR_TENSORS,
    FREQS,
    LLAMA_CPP,
    LONG,
    OWN_BASE,
    SHORT,
    WHOLE_HEAD,
)
from posenc_cli.configs.gguf_layers import MOST_LAYERS, AlikeLayers, GGUFLayers
from posenc_cli.configs.gguf_rules import (
    ORIGINAL,
    SINGLE,
    attention,
    gain,
    llama3_parameters,
    shortest,
)
from posenc_cli.configs.resolved import Layers, Resolved, Sourced, check_values
from posenc_cli.configs.rope_rules import attention_factor, magnitude
from posenc_cli.errors import abbreviated, nearest
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.files.gguf import GGUFHeader

    Params = dict[str, Sourced]

NOUN = "GGUF architecture"
_TYPES = ("none", "linear", "yarn", "longrope")
_POSITIONS = "position_embd.weight"
_WITH_ALPHA = ("hunyuan-dense", "hunyuan_vl")
_AT_REST = 1e15
"""A divisor from which on a pair stands still: Gemma 4's converter writes 1e30."""


def resolve_gguf(header: GGUFHeader) -> Resolved:
    """What a GGUF file says of positions, as llama.cpp reads it.

    Raises: InvalidInput where llama.cpp refuses the file, or what it does was not read in its code.
    """
    return _GGUFModel(header).resolved()


class _GGUFModel(GGUFLayers):
    """A GGUF file as it is read."""

    def resolved(self) -> Resolved:
        """All layers, and what to know of them.

        Raises: InvalidInput.
        """
        layers = tuple(self._layers())
        for group in layers:
            check_values(self.name, group.scheme, group.params)
        self._note_file()
        self._note_tensors()
        unread = tuple(self.keys.unread())
        if unread:
            self.notes.warn(f"llama.cpp reads nothing of {', '.join(unread)} here")
        notes = self.notes
        return Resolved(
            self.architecture_name,
            layers,
            unread=unread,
            warnings=(*notes.headlines, *notes.warnings),
            defaulted=tuple(notes.defaulted),
            contradicted=tuple(notes.contradicted),
            headlines=tuple(notes.headlines),
            noun=NOUN,
        )

    def _layers(self) -> Iterator[Layers]:
        architecture = self.architecture
        bias = self._bias()
        if architecture.bias == "buckets":
            yield from self._buckets()
        elif bias is not None:
            yield self._alibi(bias)
        elif architecture.turns == "none":
            yield self._not_turning()
        else:
            groups = self.groups()
            for group in groups:
                yield self._group_layers(group, self.label(group, groups))

    def _bias(self) -> Sourced | None:
        """The largest slope of ALiBi, None where there is none."""
        bias = self.architecture.bias
        if isinstance(bias, float):
            return Sourced(bias, self._rule("its graph"))
        if bias == "of 40 layers" and self.blocks == 40:
            return Sourced(8.0, self._rule("its graph of 40 layers"))
        if bias == "key":
            stated = self.keys.number("attention.max_alibi_bias", minimum=0)
            return stated if stated and stated.value else None
        return None

    def _alibi(self, bias: Sourced) -> Layers:
        params = {
            "heads": self._heads(),
            "max_bias": bias,
            "form": Sourced("symmetric", self._rule("−m · |i − j|")),
        }
        return Layers(None, self.attending(), "alibi", params, {"context": self.context})

    def _buckets(self) -> Iterator[Layers]:
        """T5's buckets, whose encoder looks both ways."""
        params = {
            "heads": self._heads(),
            "num_buckets": self.keys.needed("attention.relative_buckets_count"),
            "max_distance": Sourced(128, self._rule("its graph")),
        }
        further = self.keys.count("decoder_block_count")
        sides = {"encoder": (self.blocks, True)}
        if self.architecture_name == "t5":
            sides["decoder"] = (further.value if further else self.blocks, False)
        for side, (count, both) in sides.items():
            flag = {"bidirectional": Sourced(both, self._rule(f"its {side}"))}
            yield Layers(side, tuple(range(min(count, MOST_LAYERS))), "t5", params | flag)

    def _not_turning(self) -> Layers:
        """A table of trained rows, or no positions at all."""
        table = self.header.tensors.get(_POSITIONS)
        layers = self.attending()
        if table is not None and len(table.shape) == 2:
            rows, columns = (Sourced(size, f"the shape of {_POSITIONS}") for size in table.shape)
            return Layers(
                None, (), "learned", {"dim": columns, "max_len": rows}, {"context": self.context}
            )
        if self.architecture_name in ("gpt2", "starcoder", "bert"):
            raise self.error(f"the tensor {_POSITIONS} is missing")
        if self.architecture.bias == "key":
            self.notes.warn(
                f"{self.keys.path('attention.max_alibi_bias')} is not given, nor is {_POSITIONS}: "
                "llama.cpp adds no bias"
            )
            self.notes.default(self.keys.path("attention.max_alibi_bias"))
        return Layers(None, layers, "nope", {"dim": self.embedding}, {"context": self.context})

    def _heads(self) -> Sourced:
        heads = self.keys.counts("attention.head_count")
        if heads is None:
            raise self.keys.missing("attention.head_count")
        if not heads.value[0]:
            raise self.error(f"{heads.source} {heads.value[0]}: must be at least 1")
        return Sourced(heads.value[0], heads.source)

    def _rule(self, what: str) -> str:
        return f"llama.cpp's rule for {self.architecture_name}: {what}"

    def _group_layers(self, group: AlikeLayers, label: str | None) -> Layers:
        """The layers of a group that turns, or stands still."""
        context = {"context": self.context}
        window = self.window() if group.slides else None
        if window is not None:
            context["window"] = window
        if not group.turns:
            return Layers(label, group.layers, "nope", {"dim": self.embedding}, context)
        sizes = self._sizes(group.slides)
        params = {
            "dim": sizes.dim,
            "base": self._base(group.slides),
            "layout": self._layout(),
            **({} if sizes.share is None else {"partial": sizes.share}),
        }
        scheme, more = self._scheme(group, sizes, params)
        params |= more
        if scheme == "rope-proportional":
            params.pop("partial", None)
            params |= more
        derived = {"head_dim": params["dim"]}
        if sizes.beside is not None:
            derived["beside_slice"] = sizes.beside
        derived |= magnitude(scheme, params)
        softmax = self._softmax_multiplier(params)
        if softmax is not None:
            derived["softmax_multiplier"] = softmax
        stretch = self._stretch(group)
        derived["scaling_type"], derived["scaling_factor"] = stretch.kind, stretch.factor
        wanted = self._wanted_in(group, stretch.kind.value)
        if wanted:
            found = [name for name in wanted if name in self.header.numbers]
            derived["divisors"] = (
                Sourced(" ".join(found), "llama.cpp divides frequencies by them")
                if found
                else Sourced(None, f"DEFAULT: tensor absent ({wanted[0]})")
            )
        if self.architecture.permuted:
            derived["permuted"] = Sourced(True, f"{LLAMA_CPP}/conversion")
        self._note_ignored_factor(params)
        return Layers(label, group.layers, scheme, params, derived | context)

    def _sizes(self, slides: bool) -> _Sizes:
        """How wide heads are, and how much of them turns.

        Raises: InvalidInput where llama.cpp refuses them.
        """
        head = self.keys.count("attention.key_length")
        if head is None:
            heads = self._heads()
            head = Sourced(
                self.embedding.value // heads.value,
                f"DEFAULT: key absent ({self.keys.path('attention.key_length')}): "
                "embedding_length / head_count",
            )
        turning = self.keys.count("rope.dimension_count")
        own = turning
        if slides:
            head = self.keys.count("attention.key_length_swa") or head
            turning = self.keys.count("rope.dimension_count_swa") or turning
        if turning is None:
            source = f"DEFAULT: key absent ({self.keys.path('rope.dimension_count')})"
            turning = Sourced(head.value if own is None else own.value, source)
        if self.architecture.slice:
            whole = self.keys.count("attention.key_length_mla") or head
            beside = Sourced(whole.value - turning.value, f"derived: {whole.source} − the slice")
            self._check_width(turning, whole)
            return _Sizes(turning, int(turning.value), None, beside)
        self._check_width(turning, head)
        if turning.value == head.value:
            return _Sizes(head, int(head.value), None, None)
        if self.architecture_name in WHOLE_HEAD:
            raise self.error(
                f"{turning.source} {turning.value}: llama.cpp refuses {self.architecture_name} of "
                f"which not all {head.value} columns of a head turn"
            )
        share = turning.value / head.value
        if int(head.value * share) < turning.value:
            share = math.nextafter(share, 1)
        part = Sourced(share, f"derived: {turning.source} / {head.value}")
        return _Sizes(head, int(turning.value), part, None)

    def _check_width(self, turning: Sourced, head: Sourced) -> None:
        if turning.value % 2 or not 2 <= turning.value <= head.value:
            raise self.error(
                f"{turning.source} {turning.value}: must be even, from 2 to the {head.value} "
                "columns of a head"
            )

    def _base(self, slides: bool) -> Sourced:
        """The base of the layers that slide, or of the others."""
        base = self.keys.number("rope.freq_base")
        if base is None:
            base = self.keys.default("rope.freq_base", OWN_BASE)
            if not slides or (self.architecture.sliding and self.architecture.sliding.shared):
                self._note_default("rope.freq_base", base)
        sliding = self.architecture.sliding
        if slides and sliding is not None:
            key = "rope.freq_base_swa"
            own = self.keys.number(key)
            if not sliding.keyed:
                if own is not None and own.value != base.value:
                    self.notes.warn(
                        f"{own.source} {own.value:g} has no effect: {self.architecture_name} turns "
                        f"all layers by the base {base.value:g}"
                    )
                    self.notes.contradict(own.source)
            elif own is not None:
                base = own
            elif sliding.shared:
                base = Sourced(
                    base.value, f"DEFAULT: key absent ({self.keys.path(key)}): {base.source}"
                )
            else:
                base = self.keys.default(key, OWN_BASE)
                self._note_default(key, base)
        if base.value <= 1:
            raise self.error(f"{base.source} {base.value:g}: must be above 1")
        return self._grown(base)

    def _grown(self, base: Sourced) -> Sourced:
        """HunYuan's base, which its alpha stretches as NTK does."""
        if self.architecture_name not in _WITH_ALPHA:
            return base
        alpha = self.keys.number("rope.scaling.alpha", minimum=0)
        if alpha is None or not alpha.value:
            return base
        width = self._sizes(slides=False).dim.value
        if width == 2:
            raise self.error(f"{alpha.source} needs more than one pair")
        source = f"derived: {base.source} · {alpha.source}^(d / (d − 2))"
        return Sourced(base.value * alpha.value ** (width / (width - 2)), source)

    def _note_default(self, key: str, default: Sourced) -> None:
        self.notes.default(self.keys.path(key))
        self.notes.warn(f"{self.keys.path(key)} is not given: llama.cpp takes {default.value:g}")

    def _layout(self) -> Sourced:
        turns = self.architecture.turns.split()[0]
        layout = "interleaved" if turns == "norm" else "half"
        return Sourced(layout, f"llama.cpp's rope type {turns.upper()}")

    # How they are stretched

    def _type(self) -> Sourced:
        """The rule by which frequencies are stretched."""
        stated = self.keys.text("rope.scaling.type")
        if stated is None:
            return self.keys.default("rope.scaling.type", "linear")
        if stated.value not in _TYPES:
            raise self.error(
                f"{stated.source} {abbreviated(stated.value)}: llama.cpp knows {', '.join(_TYPES)}",
                hint=nearest(stated.value, _TYPES),
            )
        return stated

    def _factor(self) -> Sourced:
        """What frequencies are divided by; 0 and nothing are 1."""
        stated = self.keys.number("rope.scaling.factor", minimum=0)
        if stated is None:
            stated = self.keys.number("rope.scale_linear", minimum=0)
        if stated is None or not stated.value:
            return self.keys.default("rope.scaling.factor", 1.0)
        return stated

    def _original(self) -> Sourced:
        """The length that the model was trained on first."""
        stated = self.keys.count("rope.scaling.original_context_length", minimum=0)
        if stated is not None and stated.value:
            return stated
        path = self.keys.path("rope.scaling.original_context_length")
        return Sourced(self.context.value, f"DEFAULT: key absent ({path}): {self.context.source}")

    def _stretch(self, group: AlikeLayers) -> _Stretching:
        """How the layers of a group are stretched."""
        kind, factor = self._type(), self._factor()
        one = Sourced(1.0, f"{kind.source} {kind.value}")
        yarn = kind.value == "yarn"
        amplitude = self.keys.number("rope.scaling.attn_factor", above=None) or Sourced(1.0, "")
        log = self._log_multiplier()
        over_all = 1.0
        if yarn:
            # Divided by what ggml's rope_yarn multiplies by, which layers of another factor miss.
            over_all = attention(factor.value, log, self.architecture_name) / gain(factor.value)
        sliding = self.architecture.sliding
        if group.slides and sliding is not None:
            if sliding.plain:
                return _Stretching(kind, one, False, Sourced(1.0, ""))
            if not sliding.stretched:
                factor = Sourced(1.0, self._rule("sliding layers are not stretched"))
        elif kind.value == "none":
            factor = one
        if yarn:
            over_all *= gain(factor.value)
        value = over_all * amplitude.value
        source = amplitude.source or (
            f"derived: {self.keys.path('rope.scaling.factor')}" if yarn else ""
        )
        if yarn and log:
            source = f"derived: {self.keys.path('rope.scaling.yarn_log_multiplier')}"
        return _Stretching(kind, factor, yarn, Sourced(value, source))

    def _note_ignored_factor(self, params: Params) -> None:
        """Take the attention factor that a file states for read where it is what holds."""
        stated = self.keys.number("rope.scaling.yarn_attn_factor", above=None)
        if stated is None or "factor" not in params:
            return
        values = {name: param.value for name, param in params.items()}
        amplitude = attention_factor("rope-yarn", values)
        if not math.isclose(stated.value, amplitude or 1.0, rel_tol=SINGLE):
            self.keys.read.discard(stated.source)

    def _log_multiplier(self) -> float:
        """YaRN's mscale_all_dim, 0 where there is none."""
        if "yarn_log_multiplier" not in self.architecture.yarn:
            return 0.0
        stated = self.keys.number("rope.scaling.yarn_log_multiplier", above=None)
        if stated is None:
            return 0.0
        # DeepSeek's converter writes a tenth of it, which llama.cpp takes back.
        tenth = self.architecture_name != "mistral3"
        return shortest(stated.value / 0.1 if tenth else stated.value)

    def _softmax_multiplier(self, params: Mapping[str, Sourced]) -> Sourced | None:
        """What latent attention multiplies the scores by, beside the rotation."""
        log, factor = self._log_multiplier(), self._factor().value
        if not self.architecture.slice or not log or factor <= 1 or "factor" not in params:
            return None
        return Sourced(
            (1 + 0.1 * log * math.log(factor)) ** 2,
            f"derived: {self.keys.path('rope.scaling.yarn_log_multiplier')}",
        )

    def _scheme(self, group: AlikeLayers, sizes: _Sizes, params: Params) -> tuple[str, Params]:
        """The scheme that stands for the rotation, and its further parameters."""
        stretch = self._stretch(group)
        divisors = self._divisors(stretch, sizes, group)
        if divisors:
            if stretch.yarn and stretch.factor.value != 1:
                raise self.error(
                    f"is stretched by YaRN and divided by {' and '.join(divisors)}: no scheme is"
                )
            scheme, more = self._divided(divisors, stretch, sizes, params)
        elif stretch.yarn and stretch.factor.value != 1:
            scheme, more = self._yarn(stretch)
        elif stretch.amplitude.value != 1:
            # Plain frequencies of another amplitude: factors of 1.
            one = Sourced((1.0,) * (sizes.turning // 2), "no tensor divides frequencies")
            scheme, more = self._longrope(one, one, stretch)
        elif stretch.factor.value != 1:
            scheme, more = "rope-linear", {"factor": stretch.factor}
        else:
            scheme, more = "rope", {}
        return self._with_axes(scheme, more, sizes)

    def _yarn(self, stretch: _Stretching) -> tuple[str, Params]:
        original = self._original()
        more = {"factor": stretch.factor, ORIGINAL: original}
        if original.source.startswith("DEFAULT"):
            key = "rope.scaling.original_context_length"
            self.notes.default(self.keys.path(key))
            self.notes.warn(f"{self.keys.path(key)} is not given: llama.cpp takes the context")
        for name, key in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
            if key in self.architecture.yarn:
                beta = self.keys.number(f"rope.scaling.{key}")
                if beta is not None:
                    more[name] = beta
        rule = attention(stretch.factor.value, 0.0, "")
        if not math.isclose(stretch.amplitude.value, rule, rel_tol=1e-12):
            more["attention_factor"] = stretch.amplitude
        return "rope-yarn", more

    def _longrope(self, short: Sourced, long: Sourced, stretch: _Stretching) -> tuple[str, Params]:
        factor = stretch.factor.value
        if factor != 1:
            short, long = (
                Sourced(
                    tuple(factor * value for value in each.value), f"{each.source} × {factor:g}"
                )
                for each in (short, long)
            )
        amplitude = stretch.amplitude
        key = self.keys.path("rope.scaling.attn_factor")
        if not amplitude.source:
            amplitude = Sourced(amplitude.value, f"DEFAULT: key absent ({key})")
        return "rope-longrope", {
            "short_factor": short,
            "long_factor": long,
            ORIGINAL: self._original(),
            "attention_factor": amplitude,
            "seq_len": Sourced(self.context.value, f"{self.context.source}, which it allocates"),
        }

    def _divisors(
        self, stretch: _Stretching, sizes: _Sizes, group: AlikeLayers
    ) -> Mapping[str, tuple[float, ...]]:
        """The tensors that divide the frequencies of a group.

        Raises: InvalidInput where one has another length than there are pairs.
        """
        wanted = self._wanted_in(group, stretch.kind.value)
        found = {name: self.header.numbers[name] for name in wanted if name in self.header.numbers}
        pairs = sizes.turning // 2
        for name, values in found.items():
            if len(values) != pairs:
                raise self.error(
                    f"the tensor {name} has {len(values)} numbers: {sizes.turning} turning columns "
                    f"make {pairs} pairs"
                )
            if not all(math.isfinite(value) and value > 0 for value in values):
                raise self.error(f"the tensor {name} holds a number that is not above 0")
        return found

    def _wanted_in(self, group: AlikeLayers, kind: str) -> tuple[str, ...]:
        """The tensors that llama.cpp looks for in some layers."""
        of_full = self.architecture_name == "gemma4" and group.slides
        return () if of_full else self._wanted(kind)

    def _wanted(self, kind: str) -> tuple[str, ...]:
        """The tensors that llama.cpp looks for."""
        factors = self.architecture.factors
        if factors == "long" or (factors == "either" and kind == "longrope"):
            return LONG, SHORT
        return (FREQS,) if factors else ()

    def _divided(
        self,
        divisors: Mapping[str, tuple[float, ...]],
        stretch: _Stretching,
        sizes: _Sizes,
        params: Params,
    ) -> tuple[str, Params]:
        """The scheme of frequencies that tensors divide."""
        if FREQS not in divisors:
            ones = (1.0,) * (sizes.turning // 2)
            short, long = (
                Sourced(tuple(map(shortest, divisors[name])), name)
                if name in divisors
                else Sourced(ones, f"DEFAULT: tensor absent ({name})")
                for name in (SHORT, LONG)
            )
            return self._longrope(short, long, stretch)
        values = divisors[FREQS]
        if stretch.amplitude.value == 1:
            turning = [value for value in values if value < _AT_REST]
            if len(turning) < len(values):
                return self._proportional(values, stretch, params)
            llama3 = None
            if stretch.factor.value == 1:
                llama3 = llama3_parameters(values, float(params["base"].value), sizes.turning)
            if llama3 is not None:
                return "rope-llama3", {
                    name: Sourced(value, f"derived: {FREQS}") for name, value in llama3.items()
                }
        factors = Sourced(tuple(map(shortest, values)), FREQS)
        return self._longrope(factors, factors, stretch)

    def _proportional(
        self, values: tuple[float, ...], stretch: _Stretching, params: Params
    ) -> tuple[str, Params]:
        """Pairs of which the slow ones stand still.

        Raises: InvalidInput where others do.
        """
        turning = sum(value < _AT_REST for value in values)
        divisors = set(values[:turning])
        if any(value < _AT_REST for value in values[turning:]) or len(divisors) != 1:
            raise self.error(f"the tensor {FREQS} holds still other pairs than the slowest")
        if "partial" in params:
            raise self.error(f"the tensor {FREQS} holds pairs still, of a part of the head")
        share = turning / len(values)
        factor = divisors.pop() * stretch.factor.value
        more = {"partial": Sourced(share, f"derived: {FREQS}")}
        if factor != 1:
            more["factor"] = Sourced(factor, f"derived: {FREQS}")
        return "rope-proportional", more

    def _with_axes(self, scheme: str, more: Params, sizes: _Sizes) -> tuple[str, Params]:
        """The scheme of several axes, where there are and nothing is stretched."""
        turns = self.architecture.turns
        if "mrope" not in turns:
            return scheme, more
        key = "rope.dimension_sections"
        sections = self.keys.counts(key)
        if sections is None:
            if turns in ("mrope", "imrope"):
                raise self.keys.missing(key)
            return scheme, more
        numbers = (*sections.value, 0, 0, 0, 0)[:4]
        if " or " in turns and not (numbers[0] and numbers[1]):
            return scheme, more
        if scheme != "rope" or numbers[3] or sum(numbers) != sizes.turning // 2:
            self.notes.warn(
                "the axes of images and video are left out: the encoding is that of text"
            )
            return scheme, more
        more = {**more, "sections": Sourced(numbers[:3], sections.source)}
        if turns == "imrope":
            more["interleaved"] = Sourced(True, self._rule("its rope type IMROPE"))
        return "mrope", more

    # What else to say

    def _note_file(self) -> None:
        header, notes = self.header, self.notes
        if header.version == 1:
            notes.headline("GGUF of version 1: llama.cpp reads it no more")
        if header.absent:
            shards = ", ".join(map(str, header.absent[:4]))
            notes.headline(
                f"shards are not beside the file ({shards}{' …' * (len(header.absent) > 4)}): "
                "their tensors, which may divide frequencies, were not seen"
            )
        if header.missing:
            notes.headline(
                f"the file ends before {header.missing} of its {len(header.tensors)} tensors: "
                "llama.cpp does not load it"
            )

    def _note_tensors(self) -> None:
        """Warn of tensors that llama.cpp does not look for, with which it loads no file."""
        kind = self._type().value
        wanted = self._wanted(kind)
        for name in FACTOR_TENSORS:
            if name in self.header.tensors and name not in wanted:
                self.notes.headline(
                    f"llama.cpp does not look for the tensor {name} in {self.architecture_name} "
                    f"of rope.scaling.type {kind}, and refuses a file with it"
                )
                self.notes.contradict(name)
        if kind == "longrope" and set(wanted) - {*self.header.tensors}:
            self.notes.warn(
                f"{self.keys.path('rope.scaling.type')} longrope: there is no {LONG} or {SHORT}, "
                "and llama.cpp stretches nothing without"
            )
            self.notes.contradict(self.keys.path("rope.scaling.type"))


class _Sizes(Record):
    """How wide a head is, how many columns turn, their share, and those beside a slice."""

    dim: Sourced
    turning: int
    share: Sourced | None
    beside: Sourced | None


class _Stretching(Record):
    """How layers are stretched: by which type and factor, whether YaRN ramps, and how amplified."""

    kind: Sourced
    factor: Sourced
    yarn: bool
    amplitude: Sourced
