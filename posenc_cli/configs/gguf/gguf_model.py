"""A GGUF file, resolved to the schemes that llama.cpp runs, each value with its key.

llama.cpp's reading is the reference: the file's keys, or else the defaults of its code, which are
marked as such. :mod:`~posenc_cli.configs.gguf.gguf_architectures` has the rules of each
architecture and their sources.

Source: load_hparams and llama_model_rope_type of src/llama-model.cpp, the constructor of
src/llama-context.cpp, src/models/*.cpp, and rope_yarn of ggml/src/ggml-cpu/ops.cpp, at
https://github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.gguf.gguf_architectures import (
    FACTOR_TENSORS,
    LLAMA_CPP,
    LONG,
    OWN_BASE,
    SHORT,
    WITHOUT_BASE,
    Sliding,
)
from posenc_cli.configs.gguf.gguf_file import ONLY_WITH_ROTATION
from posenc_cli.configs.gguf.gguf_layers import (
    MOST_LAYERS,
    LayerGroup,
    ScaledGGUFLayers,
    Scaling,
    Sizes,
)
from posenc_cli.configs.resolved import (
    BIAS_TABLES,
    SEPARATE,
    SHARED,
    Layers,
    Resolved,
    Sourced,
    check_values,
)
from posenc_cli.configs.rope_rules import magnitude
from posenc_cli.positions import range_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Params = dict[str, Sourced]

NOUN = "GGUF architecture"
_POSITIONS = "position_embd.weight"


class GGUFModel(ScaledGGUFLayers):
    """A GGUF file and its notes."""

    def resolved(self) -> Resolved:
        """Return all layers, as llama.cpp reads them, and the notes about them.

        Raises: InvalidInput if llama.cpp refuses the file, or if its code was not read for it.
        """
        layers = tuple(self._layers())
        for group in layers:
            check_values(self.name, group.scheme, group.params)
        self._note_file()
        self._note_tensors()
        rotating = any(group.is_rotary for group in layers)
        found = self.keys.unread(self.context.value)
        unread = tuple(key for key in found if rotating or not key.endswith(ONLY_WITH_ROTATION))
        if unread:
            self.notes.warnings.append(f"llama.cpp reads nothing of {', '.join(unread)} here")
        latent = self._latent(unread, layers)
        return self.notes.resolved(self.architecture_name, layers, unread, noun=NOUN, latent=latent)

    def _latent(self, unread: Sequence[str], layers: Sequence[Layers]) -> dict[str, Any]:
        """Return the rotary keys without effect in this file, with their values."""
        stored = self.header.metadata
        found: dict[str, Any] = {key: stored[key].value for key in unread if key in stored}
        original = self.keys.count("rope.scaling.original_context_length", minimum=0)
        used = any("original_max_position_embeddings" in group.params for group in layers)
        if original is not None and not used and original.value not in (0, self.context.value):
            found[original.source] = original.value
        return {key.removeprefix(self.keys.path("")): found[key] for key in found}

    def _layers(self) -> Iterator[Layers]:
        architecture = self.architecture
        bias = self._bias()
        if architecture.bias == "buckets":
            yield from self._buckets()
        elif bias is not None:
            yield self._alibi(bias)
        elif architecture.rope_type == "none":
            yield self._unrotated_layers()
        else:
            groups = self.groups()
            for group in groups:
                yield self._group_layers(group, self.label(group, groups))

    def _bias(self) -> Sourced | None:
        """Return ALiBi's largest bias, or None without ALiBi."""
        bias = self.architecture.bias
        if isinstance(bias, float):
            return Sourced(bias, self._rule_text("its graph"))
        if bias == "of 40 layers" and self.blocks == 40:
            return Sourced(8.0, self._rule_text("its graph of 40 layers"))
        if bias == "key":
            stated = self.keys.number("attention.max_alibi_bias", minimum=0)
            return stated if stated and stated.value else None
        return None

    def _alibi(self, bias: Sourced) -> Layers:
        params = {
            "heads": self._heads(),
            "max_bias": bias,
            "form": Sourced("symmetric", self._rule_text("−m · |i − j|")),
        }
        return Layers(None, self.attention_layers(), "alibi", params, {"context": self.context})

    def _buckets(self) -> Iterator[Layers]:
        """Yield T5's layers: the encoder's are bidirectional."""
        params = {
            "heads": self._heads(),
            "num_buckets": self.keys.needed("attention.relative_buckets_count"),
            "max_distance": Sourced(128, self._rule_text("its graph")),
        }
        further = self.keys.count("decoder_block_count")
        sides = {"encoder": (self.blocks, True)}
        if self.architecture.decoder:
            sides["decoder"] = (further.value if further else self.blocks, False)
        for side, (count, both) in sides.items():
            flag = {"bidirectional": Sourced(both, self._rule_text(f"its {side}"))}
            layers = tuple(range(min(count, MOST_LAYERS)))
            yield Layers(side, layers, "t5", params | flag, self._bias_tables(side))

    def _bias_tables(self, side: str) -> dict[str, Sourced]:
        """Return whether layers share the first layer's bias table, by the tensors in the file."""
        names = [
            name
            for name in self.header.tensors
            if name.startswith(f"{side[:3]}.blk.") and name.endswith(".attn_rel_b.weight")
        ]
        if not names:
            return {}
        tables = SHARED if len(names) == 1 else SEPARATE
        return {BIAS_TABLES: Sourced(tables, f"tensors attn_rel_b.weight: {len(names)}")}

    def _unrotated_layers(self) -> Layers:
        """Return layers with a learned table, or without positions."""
        table = self.header.tensors.get(_POSITIONS)
        if table is not None and len(table.shape) == 2:
            rows, dims = (Sourced(size, f"the shape of {_POSITIONS}") for size in table.shape)
            return Layers(
                None, (), "learned", {"dim": dims, "max_len": rows}, {"context": self.context}
            )
        if self.architecture.table:
            raise self.error(f"the tensor {_POSITIONS} is missing")
        if self.architecture.bias == "key":
            path = self.keys.path("attention.max_alibi_bias")
            text = f"{path} is not given, nor is {_POSITIONS}: llama.cpp adds no bias"
            self.notes.doubt(path, text, of=self.notes.defaulted)
        context = {"context": self.context}
        return Layers(None, self.attention_layers(), "nope", {"dim": self.embedding}, context)

    def _heads(self) -> Sourced:
        heads = self.keys.counts("attention.head_count")
        if heads is None:
            raise self.keys.missing("attention.head_count")
        if not heads.value[0]:
            raise self.error(f"{heads.source} {heads.value[0]}: must be at least 1")
        return Sourced(heads.value[0], heads.source)

    def _default_head_size(self) -> Sourced:
        """Return the default head size, embedding_length / head_count.

        With more heads than dimensions it is 1, which no rotation accepts.
        """
        return Sourced(
            max(self.embedding.value // self._heads().value, 1),
            f"DEFAULT: key absent ({self.keys.path('attention.key_length')}): "
            "embedding_length / head_count",
        )

    def _group_layers(self, group: LayerGroup, label: str | None) -> Layers:
        """Return the layers of a group, rotated or not."""
        context = {"context": self.context}
        window = self.window() if group.slides else None
        if window is not None:
            context["window"] = window
        context |= self._score_settings() | self._temperature_settings(group)
        if not group.rotates:
            return Layers(label, group.layers, "nope", {"dim": self.embedding}, context)
        sizes = self._sizes(group.slides)
        params = {
            "dim": sizes.dim,
            "base": self._base(group.slides),
            "layout": self._layout(),
            **({} if sizes.share is None else {"partial": sizes.share}),
        }
        scaling = self._scaling(group)
        scheme, more = self._scheme(group, scaling, sizes, params)
        params |= more
        permuted = self.architecture.permuted or self._has_half_pairs()
        derived = {
            "head_dim": params["dim"],
            "beside_slice": sizes.beside,
            "rotary_width": sizes.stated,
            **magnitude(scheme, params),
            "softmax_multiplier": self._softmax_multiplier(scaling),
            "scaling_type": scaling.kind,
            "scaling_factor": scaling.factor,
            "divisors": self._divisors_in_use(scaling, group),
            "permuted": Sourced(True, f"{LLAMA_CPP}/conversion") if permuted else None,
        }
        known = {name: value for name, value in derived.items() if value is not None}
        self._note_ignored_factor(params)
        return Layers(label, group.layers, scheme, params, known | context)

    def _divisors_in_use(self, scaling: Scaling, group: LayerGroup) -> Sourced | None:
        """Return the names of the tensors that divide frequencies, or None if none may."""
        names = self._divisor_names(scaling.kind.value, slides=group.slides)
        found = [name for name in names if name in self.header.numbers]
        if found:
            return Sourced(" ".join(found), "llama.cpp divides frequencies by them")
        return Sourced(None, f"DEFAULT: tensor absent ({names[0]})") if names else None

    def _score_settings(self) -> dict[str, Sourced]:
        """Return the scale and the cap of scores, if they are not just 1/√d."""
        found: dict[str, Sourced] = {}
        architecture = self.architecture
        if architecture.scale == "one":
            found["attention_scale"] = Sourced(1.0, self._rule_text("its graph"))
        elif architecture.scale == "key":
            stated = self.keys.number("attention.scale", above=None)
            if stated is not None and stated.value:
                found["attention_scale"] = stated
        elif architecture.scale == "blocks":
            found["attention_scale"] = self._scale_by_blocks()
        if architecture.softcap is not None:
            key = "attn_logit_softcapping"
            found["softcap"] = self.keys.number(key) or self.keys.default(key, architecture.softcap)
        return found

    def _scale_by_blocks(self) -> Sourced:
        """Return Gemma's scale, which llama.cpp infers from the number of layers."""
        head = self.keys.count("attention.key_length")
        if self.blocks == self.architecture.blocks or head is None:
            head = self._default_head_size()
        dims = head.value
        return Sourced(
            dims**-0.5, self._rule_text(f"1/√{dims} of {self.blocks} layers, as no key says it")
        )

    def _temperature_settings(self, group: LayerGroup) -> dict[str, Sourced]:
        """Return how scores grow with the query's position; empty if they do not."""
        rule = self.architecture.temperature
        if rule == "unrotated":
            applies = not group.rotates and self.window() is not None
            scale = Sourced(0.1, self._rule_text("its load_arch_hparams")) if applies else None
            length = Sourced(8192, self._rule_text("its load_arch_hparams"))
        else:
            scale = self.keys.number("attention.temperature_scale", above=None) if rule else None
            length = self._original_length()
            if rule == "keys" and scale is not None:
                length = self.keys.needed("attention.temperature_length")
        if scale is None or not scale.value:
            return {}
        offset = Sourced(int(rule == "unrotated"), self._rule_text("its load_arch_hparams"))
        return {
            "temperature_scale": scale,
            "temperature_length": length,
            "temperature_offset": offset,
        }

    def _sizes(self, slides: bool) -> Sizes:
        """Return the head size and the rotary dim.

        Raises: InvalidInput if llama.cpp refuses them.
        """
        head = self.keys.count("attention.key_length") or self._default_head_size()
        rotated = self.keys.count("rope.dimension_count")
        if slides:
            head = self.keys.count("attention.key_length_swa") or head
            rotated = self.keys.count("rope.dimension_count_swa") or rotated
        stated = rotated
        if rotated is None:
            source = f"DEFAULT: key absent ({self.keys.path('rope.dimension_count')})"
            rotated = Sourced(head.value, source)
        if self.architecture.slice:
            whole = self.keys.count("attention.key_length_mla") or head
            beside = Sourced(whole.value - rotated.value, f"derived: {whole.source} − the slice")
            self._check_width(rotated, whole)
            return Sizes(rotated, int(rotated.value), None, beside)
        self._check_width(rotated, head)
        if rotated.value == head.value:
            return Sizes(head, int(head.value), None, None, stated)
        if self.architecture.whole:
            raise self.error(
                f"{rotated.source} {rotated.value}: llama.cpp refuses {self.architecture_name} "
                f"unless all {head.value} dimensions of a head rotate"
            )
        share = rotated.value / head.value
        if int(head.value * share) < rotated.value:
            share = math.nextafter(share, 1)
        part = Sourced(share, f"derived: {rotated.source} / {head.value}")
        return Sizes(head, int(rotated.value), part, None)

    def _check_width(self, rotated: Sourced, head: Sourced) -> None:
        if rotated.value % 2 or not 2 <= rotated.value <= head.value:
            raise self.error(
                f"{rotated.source} {rotated.value}: must be even, from 2 to the {head.value} "
                "dimensions per head"
            )

    def _base(self, slides: bool) -> Sourced:
        """Return the base of the sliding layers, or of the others."""
        base = self.keys.number("rope.freq_base")
        if self.architecture.fixed:
            if base is not None and base.value != OWN_BASE:
                own = f"{self.architecture_name} rotates by the base {OWN_BASE:g}"
                self.notes.ineffective(base, own)
            return Sourced(OWN_BASE, self._rule_text("its graph has no other base"))
        if base is None:
            base = self.keys.default("rope.freq_base", OWN_BASE)
            shared = self.architecture.sliding and self.architecture.sliding.shared
            if self.architecture_name not in WITHOUT_BASE and (shared or not slides):
                self._note_default("rope.freq_base", base)
        sliding = self.architecture.sliding
        if slides and sliding is not None:
            base = self._sliding_base(base, sliding)
        return self._alpha_scaled_base(base)

    def _sliding_base(self, base: Sourced, sliding: Sliding) -> Sourced:
        """Return the base of the sliding layers; ``base`` is that of the others."""
        key = "rope.freq_base_swa"
        own = self.keys.number(key)
        if sliding.keyed and own is not None:
            return own
        if own is not None and own.value != base.value:
            self.notes.ineffective(
                own, f"{self.architecture_name} rotates all layers by the base {base.value:g}"
            )
        if not sliding.keyed:
            return base
        if sliding.shared:
            path = self.keys.path(key)
            return Sourced(base.value, f"DEFAULT: key absent ({path}): {base.source}")
        default = self.keys.default(key, OWN_BASE)
        self._note_default(key, default)
        return default

    def _alpha_scaled_base(self, base: Sourced) -> Sourced:
        """Return HunYuan's base: its alpha scales the base as NTK does."""
        if not self.architecture.alpha:
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
        text = f"{self.keys.path(key)} is missing: llama.cpp uses {default.value:g}"
        self.notes.doubt(self.keys.path(key), text, of=self.notes.defaulted)

    def _layout(self) -> Sourced:
        rope_type = "mrope" if self._has_half_pairs() else self.architecture.rope_type.split()[0]
        layout = "interleaved" if rope_type == "norm" else "half"
        return Sourced(layout, f"llama.cpp's rope type {rope_type.upper()}")

    def _has_half_pairs(self) -> bool:
        """Return whether the sections change the pairs from interleaved to half."""
        return self.architecture.rope_type == "norm or mrope" and self._has_axes()

    def _note_file(self) -> None:
        header, notes = self.header, self.notes
        if header.absent:
            shards = ", ".join(range_texts(header.absent))
            notes.doubt(
                f"shards {shards}",
                f"shards are not beside the file ({shards}): their tensors, which may divide "
                "frequencies, were not seen",
                of=notes.lacking,
                headline=True,
            )
        if header.missing:
            which = f"{header.missing} of its {len(header.tensors)} tensors"
            text = f"the file ends before {which} do: llama.cpp does not load it"
            notes.doubt(which, text, of=notes.lacking, headline=True)

    def _note_tensors(self) -> None:
        """Warn of tensors that llama.cpp ignores, and of missing factors."""
        kind = self._scaling_type().value
        divisors = self._divisor_names(kind)
        for name in FACTOR_TENSORS:
            if name in self.header.tensors and name not in divisors:
                self.notes.doubt(
                    name,
                    f"llama.cpp divides no frequencies of {self.architecture_name} by the tensor "
                    f"{name} (rope.scaling.type {kind})",
                    headline=True,
                )
        if kind == "longrope" and set(divisors) - {*self.header.tensors}:
            path = self.keys.path("rope.scaling.type")
            self.notes.doubt(
                path,
                f"{path} longrope: there is no {LONG} or {SHORT}, and without them llama.cpp does "
                "not scale",
            )
