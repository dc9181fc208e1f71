"""Read model types without rotation: learned and sinusoidal tables, biases, relative positions.

Each family is a row of ``nonrotary.json``: the keys of its config, and its defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from posenc_cli.configs.families import packaged
from posenc_cli.configs.keys import FamilyReader, Keys, first, quotient
from posenc_cli.configs.layer_types import numbered
from posenc_cli.configs.resolved import (
    BIAS_TABLES,
    SEPARATE,
    SHARED,
    WINDOW,
    WINDOW_OF_ALL,
    Layers,
    Notes,
    Sourced,
)
from posenc_cli.records import Record, replace


class NonRotaryFamily(Record):
    """A family of models without RoPE.

    ``read`` names the method of the reader. ``dim``, ``rows``, ``heads`` and ``layers`` are keys
    with their defaults. ``offset`` is the number of rows of a learned table before the first
    token's; "padding" stands for pad_token_id + 1. ``extra`` says that the table has them in
    addition to the stated number of rows. ``in_ids`` says that the model's position ids include a
    numeric offset; other families' embeddings add it. ``pad`` is the default pad_token_id.
    ``params`` are parameters that no key states. ``unsaid`` says that published configs do not
    state the number of rows. ``window`` is the key of the window with its default.
    """

    read: str
    dim: tuple[str, int] = ("hidden_size", 768)
    rows: tuple[str, int] = ("max_position_embeddings", 512)
    heads: tuple[str, int] = ("num_attention_heads", 12)
    layers: tuple[str, int] = ("num_hidden_layers", 12)
    offset: int | str = 0
    extra: bool = False
    in_ids: bool = False
    pad: int | None = None
    params: Mapping[str, Any] | None = None
    unsaid: bool = False
    window: tuple[str, int] | None = None


FAMILIES: Mapping[str, NonRotaryFamily] = {
    model_type: NonRotaryFamily(**row) for model_type, row in packaged("nonrotary.json").items()
}

_SYNONYMS = (
    ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("hidden_size", "n_embd", "d_model"),
    ("max_position_embeddings", "n_positions"),
    ("model_max_length", "max_position_embeddings"),
)
"""Keys that transformers treats as equal in the configs of these families."""


class Reader(FamilyReader):
    """Reader of a family without RoPE, with the ``defaults`` of the model around it."""

    def __init__(
        self,
        keys: Keys,
        model_type: str,
        family: NonRotaryFamily,
        notes: Notes,
        defaults: Mapping[str, int],
    ) -> None:
        super().__init__(keys, model_type, notes)
        self.family, self.defaults = family, defaults

    def layers(self) -> Iterator[Layers]:
        """Yield the layers of each type.

        Raises: InvalidInput.
        """
        yield from getattr(self, self.family.read)()

    def _count(self, named: tuple[str, int], *, minimum: int = 1) -> Sourced:
        key, default = named
        also = next((names for names in _SYNONYMS if key in names), (key,))
        count = first(*(self.keys.count(name, minimum=minimum) for name in (key, *also)))
        if count is None:
            count = self.default(self.defaults.get(key, default))
            if key in (self.family.dim[0], self.family.heads[0]):
                self.notes.size(self.keys.path(key), count)
        return count

    def _indices(self) -> tuple[int, ...]:
        return numbered(self._count(self.family.layers, minimum=0))

    def _head_dim(self) -> Sourced:
        return quotient(self._count(self.family.dim), self._count(self.family.heads))

    def _stated_context(self) -> dict[str, Sourced]:
        return {"context": self._count(self.family.rows)}

    def _first_row(self) -> Sourced:
        """Return the row, or the position, of the first token."""
        if self.family.offset != "padding":
            return self.default(self.family.offset)
        pad = first(*(self.keys.count(key, minimum=0) for key in ("pad_token_id", "padding_idx")))
        if pad is not None:
            return Sourced(pad.value + 1, f"derived: {pad.source} + 1")
        if self.family.pad is None:
            raise self.error(f"{self.keys.path('pad_token_id')} is missing")
        return Sourced(self.family.pad + 1, f"derived: {self.default_source} + 1")

    def learned(self) -> Iterator[Layers]:
        """Yield a learned table."""
        rows, offset = self._count(self.family.rows), self._first_row()
        if rows.source == self.default_source and not self.family.unsaid:
            self.notes.size(self.keys.path(self.family.rows[0]), rows)
        whole = Sourced(rows.value + offset.value, f"derived: {rows.source} + {offset.value}")
        length = whole if self.family.extra else rows
        if offset.value >= length.value:
            raise self.error(
                f"{rows.source} {rows.value}: must be above {offset.value}, the rows before the "
                "first token's"
            )
        params = {"dim": self._count(self.family.dim), "max_len": length}
        if offset.value:
            params["offset"] = offset
        context = Sourced(length.value - offset.value, "derived: max_len − offset")
        self._note_relative_key()
        yield Layers(None, (), "learned", params, {"context": context, **self._window()})

    def _window(self) -> dict[str, Sourced]:
        """Return the largest window of Longformer's layers, or that of GPT-Neo's local layers."""
        if self.family.window is None:
            return {}
        key = self.family.window[0]
        if isinstance(self.keys.values.get(key), list):
            sizes = self.keys.counts(key)
            if sizes and sizes.value:
                largest = f"{sizes.source}, the largest of {len(sizes.value)}"
                return {WINDOW_OF_ALL: Sourced(max(sizes.value), largest)}
        size = self._count(self.family.window)
        if self.model_type != "gpt_neo":
            return {WINDOW_OF_ALL: size}
        types = self.keys.get("attention_types")
        if types is not None and "local" not in json.dumps(types.value):
            return {}
        return {WINDOW: Sourced(size.value, f"{size.source}; of the local layers")}

    def _note_relative_key(self) -> None:
        kind = self.keys.text("position_embedding_type")
        if kind is not None and kind.value not in ("absolute", "learned"):
            relative = kind.value.startswith("relative_key")
            also = " (posenc generate -s shaw has relative keys)" if relative else ""
            self.notes.ineffective(
                kind,
                f"transformers 5's {self.model_type} has only absolute positions{also}",
            )

    def sinusoidal(self) -> Iterator[Layers]:
        """Yield sines and cosines that are added to the embeddings."""
        derived = self._stated_context()
        if self.family.offset:
            start = self._first_row()
            derived["first_position"] = start
            self.notes.warnings.append(
                f"{self.model_type} numbers its first token {start.value}: --start {start.value}"
            )
        dim = {"dim": self._count(self.family.dim)}
        yield Layers(None, (), "sinusoidal", dim | self.fixed(**self.family.params or {}), derived)

    def xlm(self) -> Iterator[Layers]:
        """Yield sines and cosines, or a learned table initialized with them."""
        flag = self.keys.flag("sinusoidal_embeddings")
        dim = self._count(self.family.dim)
        if flag is not None and flag.value:
            yield Layers(None, (), "sinusoidal", {"dim": dim}, self._stated_context())
        else:
            yield from self.learned()

    def whisper(self) -> Iterator[Layers]:
        """Yield sines and cosines for audio, and a learned table for text."""
        dim = self._count(self.family.dim)
        encoder = {"dim": dim, **self.fixed(layout="concat", spacing="tensor2tensor")}
        source = self._count(("max_source_positions", 1500))
        target = self._count(("max_target_positions", 448))
        yield Layers("encoder", (), "sinusoidal", encoder, {"context": source})
        yield Layers("decoder", (), "learned", {"dim": dim, "max_len": target}, {"context": target})

    def t5(self) -> Iterator[Layers]:
        """Yield T5's relative position buckets, bidirectional in the encoder."""
        params = {
            "heads": self._count(self.family.heads),
            "num_buckets": self._count(("relative_attention_num_buckets", 32)),
            "max_distance": self._count(("relative_attention_max_distance", 128)),
        }
        local = self.keys.text("encoder_attention_type")
        if local is not None and local.value != "local":
            self.notes.warnings.append("the side bias of longt5's global tokens is left out")
        encoder = self._indices()
        decoder = self.keys.count("num_decoder_layers", minimum=0)
        tables = self.fixed(**{BIAS_TABLES: SEPARATE if self.model_type == "umt5" else SHARED})
        for side, layers in (("encoder", encoder), ("decoder", numbered(decoder) or encoder)):
            both = self.fixed(bidirectional=side == "encoder")
            yield Layers(side, layers, "t5", params | both, tables)

    def mpnet(self) -> Iterator[Layers]:
        """Yield a learned table, and T5's buckets of the encoder's own positions.

        Source: MPNetEmbeddings and MPNetEncoder.compute_position_bias of transformers.
        """
        yield from (replace(group, layer_type="embeddings") for group in self.learned())
        stated, buckets = self.keys.count("relative_attention_num_buckets"), 32
        if stated is not None and stated.value != buckets:
            self.notes.ineffective(stated, f"transformers' mpnet has {buckets} buckets")
        fixed = self.fixed(num_buckets=buckets, max_distance=128, bidirectional=True)
        params = {"heads": self._count(self.family.heads), **fixed}
        tables = self.fixed(**{BIAS_TABLES: SHARED})
        yield Layers("attention", self._indices(), "t5", params, tables)

    def bloom(self) -> Iterator[Layers]:
        """Yield ALiBi computed from the key's position."""
        yield self._alibi_layers("bloom")

    def mpt(self) -> Iterator[Layers]:
        """Yield ALiBi computed from the distance to the last key."""
        attention = self.keys.section("attn_config")
        if attention is not None:
            stated = attention.flag("alibi"), attention.number("alibi_bias_max")
            for each, expected in zip(stated, (True, 8), strict=True):
                if each is not None and each.value != expected:
                    self.notes.ineffective(each, "transformers' mpt adds ALiBi of at most 8")
        yield self._alibi_layers("mpt", {"context": self._count(("max_seq_len", 2048))})

    def falcon(self) -> Iterator[Layers]:
        """Yield ALiBi computed from the key's position, which Falcon scales."""
        rounded = Sourced("bfloat16", "build_alibi_tensor of transformers' falcon")
        layers = self._alibi_layers(
            "bloom", {"head_dim": self._head_dim(), "slope_format": rounded}
        )
        self.notes.warnings.append(
            "falcon divides the bias by √head_dim and rounds its slopes to bfloat16"
        )
        yield layers

    def _alibi_layers(self, form: str, derived: Mapping[str, Sourced] | None = None) -> Layers:
        params = {"heads": self._count(self.family.heads), "form": self.default(form)}
        return Layers(None, self._indices(), "alibi", params, derived or {})

    def gptj(self) -> Iterator[Layers]:
        """Yield RoPE on the first dimensions of a head."""
        head, rotated = self._head_dim(), self.keys.count("rotary_dim")
        if self.keys.has("rotary_dim") and rotated is None:
            raise self.keys.invalid("rotary_dim", "must be a number")
        rotated = rotated or self.default(64)
        if rotated.value % 2 or not 2 <= rotated.value <= head.value:
            raise self.error(
                f"{rotated.source} {rotated.value}: must be even, from 2 to the {head.value} "
                "dimensions per head"
            )
        share = Sourced(rotated.value / head.value, f"derived: {rotated.source} / head_dim")
        yield self._plain_rope(head, {} if share.value == 1 else {"partial": share})

    def roformer(self) -> Iterator[Layers]:
        """Yield RoPE as in the paper."""
        yield self._plain_rope(self._head_dim(), {})

    def _plain_rope(self, head: Sourced, more: Mapping[str, Sourced]) -> Layers:
        """Return layers with the paper's RoPE; configs of these families do not state its base."""
        if head.value < 2 or head.value % 2:
            raise self.error(f"head_dim {head.value}: must be even")
        params = {"dim": head, **self.fixed(base=10_000.0, layout="interleaved"), **more}
        derived = {"head_dim": head, **self._stated_context()}
        return Layers(None, self._indices(), "rope", params, derived)

    def transformer_xl(self) -> Iterator[Layers]:
        """Yield Transformer-XL's sinusoids of relative positions."""
        clamp = self.keys.get("clamp_len")
        if clamp is not None and isinstance(clamp.value, int) and clamp.value > 0:
            self.notes.warnings.append(
                f"{clamp.source} {clamp.value} is left out: farther offsets share its row"
            )
        yield Layers(None, self._indices(), "transformer-xl", {"dim": self._count(self.family.dim)})

    def nope(self) -> Iterator[Layers]:
        """Yield layers without positions."""
        if self.model_type == "glm5_next_text" and self.keys.values.get("qk_rope_head_dim"):
            raise self.keys.invalid("qk_rope_head_dim", "transformers accepts only 0 here")
        yield Layers(
            None, (), "nope", {"dim": self._count(self.family.dim)}, self._stated_context()
        )
