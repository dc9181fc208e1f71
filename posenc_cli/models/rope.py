"""Rope as a config describes it: rope_parameters, the older rope_scaling, and what surrounds them.

Values are taken in transformers' order: from the rope object, then from the top of the config,
then from the model type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.models.families import ANY_NAME, Rotary
from posenc_cli.models.keys import Keys, first
from posenc_cli.models.layer_types import Group, groups
from posenc_cli.models.resolved import Layers, Sourced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


RENAMED = {"su": "longrope", "mrope": "default"}
TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")


@dataclass
class Notes:
    """What a reader of the result should know: collected while a config is read."""

    warnings: list[str] = field(default_factory=list)
    defaulted: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Say something once."""
        if text not in self.warnings:
            self.warnings.append(text)


class Entry:
    """The rope object of some layers: several JSON objects, the first of which goes before."""

    def __init__(self, *parts: Keys) -> None:
        self.parts = parts

    def having(self, key: str) -> Keys:
        """The object that has a key; the last where none has it."""
        return next((part for part in self.parts if part.has(key)), self.parts[-1])

    def number(self, key: str, *, minimum: float | None = None) -> Sourced | None:
        """A number above 0, or from a minimum on."""
        return self.having(key).number(key, minimum=minimum)


class DefaultKeys(Keys):
    """What a model type says where its config does not."""

    def path(self, key: str) -> str:
        """Where the value comes from: no key of the file."""
        return f"default of {self.prefix}"


@dataclass(frozen=True)
class RopeReading:
    """What was read of the rope of some layers: what another engine may take otherwise.

    ``rope`` holds the values of the rope object by name, ``top`` those that stand around it, and
    ``per_layer_type`` says whether the object belongs to one of several layer types.
    """

    model_type: str
    rope: Mapping[str, Any]
    top: Mapping[str, Any]
    per_layer_type: bool


class RopeReader:
    """Reads the rope of one text config."""

    def __init__(self, text: Keys, family: Rotary, notes: Notes) -> None:
        self.text = text
        self.family = family
        self.notes = notes
        self.readings: dict[str | None, RopeReading] = {}

    @property
    def default_source(self) -> str:
        """The source of a value that the model type gives."""
        return f"default of {self.family.model_type}"

    def layers(self) -> Iterator[Layers]:
        """The layers of each type, in the order of their first.

        Raises: InvalidInput.
        """
        found = groups(self.text, self.family)
        scaling = self.text.section("rope_scaling")
        given = self.text.section("rope_parameters") if self._reads_parameters(scaling) else None
        entries = self._entries(found, scaling, given)
        for group in found:
            entry = None if group.is_nope else entries[group.label]
            yield self._without_rope(group) if entry is None else self._rotated(group, entry)

    def _reads_parameters(self, scaling: Keys | None) -> bool:
        return not (scaling and scaling.values) or self.family.local is not None

    def _entries(
        self, found: list[Group], scaling: Keys | None, given: Keys | None
    ) -> dict[str | None, Entry | None]:
        """The rope object of each group; None where it is null, which means no rotation."""
        name, empty = self.text.name, Keys({}, name=self.text.name, prefix="rope_parameters.")
        labels = [group.label for group in found]
        if self.family.local is not None:
            scaled = self.family.local["scaled"]
            return {
                label: Entry(
                    *([scaling] if scaling and label in scaled else []),
                    (given and label and given.section(label)) or empty,
                )
                for label in labels
            }
        flat = scaling if scaling and scaling.values and not self.family.nested else given
        if flat is None or not flat.values:
            default = Keys({}, name=name) if flat is None else flat
            if self.family.rope is not None and flat is None:
                default = DefaultKeys(
                    self.family.rope, name=name, prefix=self.family.model_type, read=set()
                )
            flat = default
        nested = [label for label in labels if label is not None and flat.has(label)]
        if not nested:
            if self.family.nested:
                raise self.text.invalid(
                    "rope_parameters",
                    f"{self.family.model_type} needs an object for each layer type "
                    f"({', '.join(filter(None, labels))})",
                )
            return dict.fromkeys(labels, Entry(flat))
        if self.family.known and not self.family.nested:
            raise InvalidInput(
                f"{name}: {flat.path(nested[0])}: {self.family.model_type} has one rope for all "
                "layers, not one for each layer type"
            )
        entries: dict[str | None, Entry | None] = {}
        for group in found:
            label = group.label
            if group.is_nope:
                entries[label] = None
            elif label is None or not flat.has(label):
                raise InvalidInput(
                    f"{name}: rope_parameters has nothing for the layer type {label!r}"
                )
            else:
                section = flat.section(label)
                if isinstance(flat, DefaultKeys) and section is not None:
                    section = DefaultKeys(
                        section.values, name=name, prefix=self.family.model_type, read=set()
                    )
                entries[label] = None if section is None else Entry(section)
        return entries

    def _without_rope(self, group: Group) -> Layers:
        hidden = self.count("hidden_size")
        params = {} if hidden is None else {"dim": hidden}
        return Layers(group.label, group.layers, "nope", params, self._context())

    def _rotated(self, group: Group, entry: Entry) -> Layers:
        """The rope of one group of layers.

        Raises: InvalidInput.
        """
        rope_type = self._type(entry)
        head = self._head_dim(group)
        share = self._partial(entry, rope_type, head)
        params = {
            "dim": head,
            "base": self._base(entry, group.label),
            "layout": self._layout(),
        }
        if share is not None:
            params["partial"] = share
        rotated = int(head.value * (share.value if share else 1.0))
        if rope_type == "proportional":
            rotated = head.value
        self._check_width(head, share, rotated)
        read = _TYPES[rope_type]
        scheme, more = read(self, entry, group, rotated)
        params |= more
        self._note_ignored(entry, group, rope_type)
        self.readings[group.label] = RopeReading(
            self.family.model_type,
            {key: value for part in reversed(entry.parts) for key, value in part.values.items()},
            self.text.values,
            per_layer_type=self.family.nested or self.family.local is not None,
        )
        derived = self.derived(scheme, params, head, rotated)
        return Layers(group.label, group.layers, scheme, params, derived)

    def _type(self, entry: Entry) -> str:
        """The rule that the rope object names."""
        new, old = (entry.having(key).text(key) for key in ("rope_type", "type"))
        chosen = first(new, old)
        if chosen is None:
            return "default"
        renamed = {**RENAMED, **self.family.renamed}
        names = [renamed.get(each.value, each.value) for each in (new, old) if each]
        if len(set(names)) > 1 and old is not None:
            raise InvalidInput(
                f"{self.text.name}: {chosen.source} {chosen.value!r} contradicts "
                f"{old.source} {old.value!r}"
            )
        if names[0] not in TYPES:
            raise InvalidInput(
                f"{self.text.name}: {chosen.source} {abbreviated(chosen.value)}: must be one of "
                f"{', '.join(TYPES)}",
                hint=nearest(chosen.value, TYPES),
            )
        return str(names[0])

    def _base(self, entry: Entry, label: str | None) -> Sourced:
        key = (self.family.local or {}).get(label or "", "rope_theta")
        names = [self.family.keys.get(key, key)]
        if not self.family.known:
            names = list(ANY_NAME["rope_theta"])
        found = first(
            entry.number("rope_theta"), *(self.text.number(name) for name in names if name)
        )
        if found is None:
            base = self.family.base_of(label)
            where = f" of {label} layers" if self.family.local and label else ""
            self.notes.defaulted.append(f"rope_theta{where}")
            self.notes.warn(
                f"{self.text.name} has no rope_theta{where}: {base:g} is the default of "
                f"{self.family.model_type}"
            )
            return Sourced(base, self.default_source)
        if found.source.startswith("default of"):
            self.notes.defaulted.append(f"rope_theta of {label} layers" if label else "rope_theta")
            self.notes.warn(
                f"{self.text.name} has no rope_parameters: those of {self.family.model_type} "
                "are taken"
            )
        if found.value <= 1:
            raise InvalidInput(f"{self.text.name}: {found.source} {found.value:g}: must be above 1")
        return found

    def _layout(self) -> Sourced:
        layout = self.family.layout
        if layout in ("half", "interleaved"):
            source = self.default_source if self.family.known else "assumed, as Llama's"
            return Sourced(layout, source)
        flag = self.text.flag(layout)
        interleaved = flag.value if flag else True
        return Sourced(
            "interleaved" if interleaved else "half", flag.source if flag else self.default_source
        )

    def _head_dim(self, group: Group) -> Sourced:
        """The columns of a head, or of its slice that turns."""
        if self.family.slice or (not self.family.known and self.text.has("qk_rope_head_dim")):
            self.text.get("head_dim")
            found = self.count("qk_rope_head_dim")
            if found is not None:
                return found
        own = self.family.head_dims.get(group.label or "")
        if own is not None:
            return self._own_head_dim(group, *own)
        found = self.count("head_dim")
        if found is not None:
            return found
        hidden, heads = self.count("hidden_size"), self.count("num_attention_heads")
        if hidden is None or heads is None:
            missing = "hidden_size" if hidden is None else "num_attention_heads"
            raise InvalidInput(
                f"{self.text.name}: {self.text.path(missing)} is missing, and so is head_dim: the "
                "columns of a head follow from neither"
            )
        if hidden.value < heads.value:
            raise InvalidInput(
                f"{self.text.name}: {hidden.source} {hidden.value}: must be at least "
                f"{heads.source} {heads.value}"
            )
        return Sourced(hidden.value // heads.value, f"derived: {hidden.source} / {heads.source}")

    def _own_head_dim(self, group: Group, key: str, default: int) -> Sourced:
        """The head of layers whose heads are of another size."""
        found = self.text.count(key)
        by_layer = self.text.section("per_layer_config")
        if found is None and by_layer is not None:
            for layer in group.layers:
                one = by_layer.section(str(layer))
                found = first(found, one.count("head_dim") if one else None)
        return found or Sourced(default, self.default_source)

    def _partial(self, entry: Entry, rope_type: str, head: Sourced) -> Sourced | None:
        """The share of the head that turns, where it is not all of it."""
        key = "partial_rotary_factor"
        if self.family.slice:
            entry.having(key).get(key)
            self.text.get(key)
            return None
        names: list[str | None] = [self.family.keys.get(key, key)]
        if not self.family.known:
            names = list(ANY_NAME[key])
        if self.family.partial_ignored and rope_type == "default":
            for part, name in ((entry.having(key), key), (self.text, key)):
                ignored = part.values.get(name)
                if ignored is not None and ignored != 1:
                    self.notes.warn(
                        f"{part.path(name)} {abbreviated(str(ignored))} has no effect: in "
                        f"transformers {self.family.model_type} turns the whole head"
                    )
            return None
        found = first(entry.number(key), *(self.text.number(name) for name in names if name))
        if found is None:
            found = self._rotary_dim(head)
        if found is None and self.family.partial != 1 and not self._is_default(entry):
            found = Sourced(self.family.partial, self.default_source)
        if found is None or found.value == 1:
            return None
        if found.value > 1:
            raise InvalidInput(
                f"{self.text.name}: {found.source} {found.value:g}: must be at most 1"
            )
        return found

    def _is_default(self, entry: Entry) -> bool:
        return all(isinstance(part, DefaultKeys) for part in entry.parts)

    def _rotary_dim(self, head: Sourced) -> Sourced | None:
        """The share that ``rotary_dim`` columns of a head are."""
        if self.family.known and "rotary_dim" not in self.family.keys:
            return None
        found = self.text.count("rotary_dim")
        if found is None:
            return None
        return Sourced(found.value / head.value, f"derived: {found.source} / head_dim")

    def _check_width(self, head: Sourced, share: Sourced | None, rotated: int) -> None:
        if rotated < 2 or rotated % 2:
            part = f" × {share.value:g} ({share.source})" if share else ""
            raise InvalidInput(
                f"{self.text.name}: head_dim {head.value} ({head.source}){part} turns {rotated} "
                "columns: pairs need an even number of them, from 2 on"
            )

    def _note_ignored(self, entry: Entry, group: Group, rope_type: str) -> None:
        """Warn of what transformers ignores."""
        nested = self.family.nested or self.family.local is not None
        truncate = entry.having("truncate").values.get("truncate")
        if rope_type == "yarn" and nested and truncate is False:
            path = entry.having("truncate").path("truncate")
            self.notes.warn(
                f"{path} false has no effect: transformers looks for it beside the layer types"
            )
        del group

    # What each rule reads of the rope object.

    def _default(self, entry: Entry, _group: Group, rotated: int) -> tuple[str, dict[str, Sourced]]:
        mrope = self.family.mrope
        if mrope is None and self.family.known:
            return "rope", {}
        part = entry.having("mrope_section")
        found = part.counts("mrope_section")
        if mrope is None and found is None:
            return "rope", {}
        mrope = mrope or {"sections": []}
        sections = found or Sourced(tuple(mrope["sections"]), self.default_source)
        if len(sections.value) != 3 or sum(sections.value) != rotated // 2:
            raise InvalidInput(
                f"{self.text.name}: mrope_section {list(sections.value)} ({sections.source}): must "
                f"be three numbers whose sum is {rotated // 2}, the pairs of {rotated} columns"
            )
        dealt = entry.having("mrope_interleaved").get("mrope_interleaved")
        entry.having("interleaved").get("interleaved")
        interleaved = bool(mrope.get("interleaved", False))
        if not self.family.known and dealt is not None:
            interleaved = dealt.value is True
        elif dealt is not None and dealt.value is not interleaved:
            self.notes.warn(
                f"{dealt.source} {dealt.value} has no effect: {self.family.model_type} "
                f"{'deals its axes out pair by pair' if interleaved else 'has whole sections'}"
            )
        params = {"sections": sections}
        if interleaved:
            params["interleaved"] = Sourced(True, self.default_source)
        if "order" in mrope:
            params["order"] = Sourced(mrope["order"], self.default_source)
        return "mrope", params

    def _linear(self, entry: Entry, _group: Group, _rotated: int) -> tuple[str, dict[str, Sourced]]:
        self._text_only(entry)
        return "rope-linear", {"factor": self.needed(entry, "factor")}

    def _dynamic(self, entry: Entry, _group: Group, rotated: int) -> tuple[str, dict[str, Sourced]]:
        self._text_only(entry)
        if rotated == 2:
            raise InvalidInput(f"{self.text.name}: rope_type dynamic needs more than 2 columns")
        if self.family.alpha:
            alpha = entry.number("alpha", minimum=0)
            if alpha is not None and alpha.value:
                return "rope-ntk", {"factor": alpha}
        return "rope-dynamic", {
            "factor": self.needed(entry, "factor"),
            "max_position_embeddings": self.needed_count("max_position_embeddings"),
        }

    def _yarn(self, entry: Entry, group: Group, _rotated: int) -> tuple[str, dict[str, Sourced]]:
        self._text_only(entry)
        original = self._original(entry, group)
        if entry.having("factor").has("factor") and entry.number("factor") is None:
            context = self.needed_count("max_position_embeddings")
            factor = Sourced(
                context.value / original.value, f"derived: {context.source} / {original.source}"
            )
        else:
            factor = self.needed(entry, "factor")
        params = {"factor": factor, "original_max_position_embeddings": original}
        for name in ("beta_fast", "beta_slow"):
            found = entry.number(name, minimum=0)
            if found is not None and found.value:
                params[name] = found
        scale = entry.number("attention_factor")
        if scale is not None:
            params["attention_factor"] = scale
        mscales = {name: entry.number(name, minimum=0) for name in ("mscale", "mscale_all_dim")}
        if scale is None and all(each is not None and each.value for each in mscales.values()):
            params |= {name: each for name, each in mscales.items() if each is not None}
        elif scale is None and any(each is not None and each.value for each in mscales.values()):
            self.notes.warn(
                "mscale and mscale_all_dim have no effect on the rotation unless both are given "
                "and not 0: transformers takes the attention factor 0.1 ln(factor) + 1"
            )
        if not (self.family.nested or self.family.local):
            truncate = entry.having("truncate").flag("truncate")
            if truncate is not None:
                params["truncate"] = truncate
        return "rope-yarn", params

    def _llama3(self, entry: Entry, group: Group, _rotated: int) -> tuple[str, dict[str, Sourced]]:
        self._text_only(entry)
        params = {
            name: self.needed(entry, name)
            for name in ("factor", "low_freq_factor", "high_freq_factor")
        }
        low, high = params["low_freq_factor"], params["high_freq_factor"]
        if high.value <= low.value:
            raise InvalidInput(
                f"{self.text.name}: {high.source} {high.value:g}: must be above {low.source} "
                f"{low.value:g}"
            )
        params["original_max_position_embeddings"] = self._original(entry, group)
        return "rope-llama3", params

    def _longrope(self, entry: Entry, group: Group, rotated: int) -> tuple[str, dict[str, Sourced]]:
        self._text_only(entry)
        params = {}
        for name in ("short_factor", "long_factor"):
            part = entry.having(name)
            found = part.numbers(name)
            if found is None:
                raise InvalidInput(f"{self.text.name}: {part.path(name)} is missing")
            if len(found.value) != rotated // 2:
                raise InvalidInput(
                    f"{self.text.name}: {found.source} has {len(found.value)} numbers: "
                    f"{rotated} rotated columns make {rotated // 2} pairs"
                )
            params[name] = found
        original = self._original(entry, group)
        params["original_max_position_embeddings"] = original
        factor, scale = entry.number("factor"), entry.number("attention_factor")
        if factor is not None:
            params["factor"] = factor
        else:
            params["max_position_embeddings"] = self.needed_count("max_position_embeddings")
        if scale is not None:
            params["attention_factor"] = scale
        elif original.value == 1:
            raise InvalidInput(f"{self.text.name}: {original.source} 1: must be at least 2")
        if self.family.model_type == "phimoe":
            params |= self._phimoe(entry, params)
        return "rope-longrope", params

    def _phimoe(self, entry: Entry, params: Mapping[str, Sourced]) -> dict[str, Sourced]:
        """What PhiMoE does of its own: factors for short texts throughout, and two amplitudes."""
        short, long = (self.needed(entry, name) for name in ("short_mscale", "long_mscale"))
        self.notes.warn(
            "transformers' phimoe uses short_factor at any length; past "
            f"{params['original_max_position_embeddings'].value} positions its attention factor "
            f"is long_mscale {long.value:g}"
        )
        return {
            "attention_factor": short,
            "long_factor": Sourced(
                params["short_factor"].value, f"{params['short_factor'].source}, as phimoe does"
            ),
        }

    def _proportional(
        self, entry: Entry, _group: Group, _rotated: int
    ) -> tuple[str, dict[str, Sourced]]:
        self._text_only(entry)
        factor = entry.number("factor")
        return "rope-proportional", {} if factor is None else {"factor": factor}

    def _text_only(self, entry: Entry) -> None:
        """Note that a stretched M-RoPE is read for text, whose axes agree."""
        found = entry.having("mrope_section").get("mrope_section")
        entry.having("mrope_interleaved").get("mrope_interleaved")
        if self.family.mrope is not None or found is not None:
            self.notes.warn(
                "the axes of images and video are left out: the encoding is that of text"
            )

    def _original(self, entry: Entry, group: Group) -> Sourced:
        """The length the model was trained on first."""
        key = "original_max_position_embeddings"
        own = entry.having(key).count(key)
        top = None
        if group.label is None or not (self.family.nested or self.family.local):
            top = self.text.count(key)
            if top is None and key in self.family.defaults:
                top = Sourced(self.family.defaults[key], self.default_source)
        if top is not None and own is not None and top.value != own.value:
            self.notes.warn(
                f"{top.source} {top.value} goes before {own.source} {own.value}, as in transformers"
            )
        return first(top, own) or self.needed_count("max_position_embeddings")

    # Keys of the config, by whatever name the family gives them.

    def count(self, key: str) -> Sourced | None:
        """A whole number of the config, or the model type's."""
        names: tuple[str, ...] = (self.family.aliases.get(key, key), key)
        if not self.family.known:
            names = ANY_NAME.get(key, (key,))
        found = first(*(self.text.count(name) for name in names))
        if found is None and key in self.family.defaults:
            found = Sourced(self.family.defaults[key], self.default_source)
        return found

    def needed_count(self, key: str) -> Sourced:
        """A whole number that must be there.

        Raises: InvalidInput.
        """
        found = self.count(key)
        if found is None:
            raise InvalidInput(f"{self.text.name}: {self.text.path(key)} is missing")
        return found

    def needed(self, entry: Entry, key: str) -> Sourced:
        """A number of the rope object that must be there.

        Raises: InvalidInput.
        """
        found = entry.number(key)
        if found is None:
            raise InvalidInput(f"{self.text.name}: {entry.having(key).path(key)} is missing")
        return found

    def _context(self) -> dict[str, Sourced]:
        context = self.count("max_position_embeddings")
        return {} if context is None else {"context": context}

    def derived(
        self, scheme: str, params: Mapping[str, Sourced], head: Sourced, rotated: int
    ) -> dict[str, Sourced]:
        """What follows from the parameters of a rotation."""
        derived = {"head_dim": head, "rotated": Sourced(rotated, "derived: dim × partial")}
        factor = attention_factor(scheme, {name: each.value for name, each in params.items()})
        if factor is not None:
            source = params.get("attention_factor", Sourced(None, f"derived: {scheme}'s rule"))
            derived["attention_factor"] = Sourced(factor, source.source)
            derived["logit_multiplier"] = Sourced(factor**2, "derived: attention_factor²")
        softmax = self._softmax_multiplier(params)
        if softmax is not None:
            derived["softmax_multiplier"] = softmax
        return derived | self._context()

    def _softmax_multiplier(self, params: Mapping[str, Sourced]) -> Sourced | None:
        """What latent attention multiplies the scores by, beside the rotation."""
        if not self.family.slice or "factor" not in params:
            return None
        scaling = self.text.values.get("rope_scaling") or self.text.values.get("rope_parameters")
        over = (scaling or self.family.rope or {}).get("mscale_all_dim")
        factor = params["factor"].value
        if not isinstance(over, int | float) or not over or factor <= 1:
            return None
        magnitude = 0.1 * over * math.log(factor) + 1
        return Sourced(magnitude**2, "derived: (0.1 · mscale_all_dim · ln(factor) + 1)²")


_Rule = "Callable[[RopeReader, Entry, Group, int], tuple[str, dict[str, Sourced]]]"
_TYPES: dict[str, Any] = {
    "default": RopeReader._default,
    "linear": RopeReader._linear,
    "dynamic": RopeReader._dynamic,
    "yarn": RopeReader._yarn,
    "llama3": RopeReader._llama3,
    "longrope": RopeReader._longrope,
    "proportional": RopeReader._proportional,
}


def attention_factor(scheme: str, params: Mapping[str, Any]) -> float | None:
    """What a scheme multiplies cosines and sines by, None where it has no such factor.

    >>> attention_factor("rope-yarn", {"factor": 32.0})
    1.3465735902799727
    """
    from posenc_cli.schemes import scaled

    if scheme not in ("rope-yarn", "rope-longrope"):
        return None
    if "attention_factor" in params:
        return float(params["attention_factor"])
    if scheme == "rope-yarn":
        names = ("mscale", "mscale_all_dim")
        mscales = {name: params.get(name) for name in names}
        return float(scaled.yarn_attention_factor(params["factor"], **mscales))
    original = params["original_max_position_embeddings"]
    stretched = params.get("max_position_embeddings", original)
    return float(scaled.longrope_attention_factor(params.get("factor"), stretched, original))
