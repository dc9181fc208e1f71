"""Rope as a config describes it: rope_parameters, the older rope_scaling, and what surrounds them.

Values are taken in transformers' order: from the rope object, then from the top of the config,
then from the model type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.models.families import ANY_NAME, BASES, GLOBAL_BASES, LOCAL_BASES, Rotary
from posenc_cli.models.head_dims import head_dim
from posenc_cli.models.keys import Keys, first, json_text
from posenc_cli.models.latent import REST
from posenc_cli.models.layer_types import Group, groups
from posenc_cli.models.resolved import Layers, Notes, Sourced, check_values
from posenc_cli.models.rope_objects import Entry, entries
from posenc_cli.models.rope_rules import CONTEXT, ORIGINAL, RULES, magnitude
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RENAMED = {"su": "longrope", "mrope": "default"}
"""Older names of rope types."""
SHARE = "partial_rotary_factor"


class RopeReading(Record):
    """What was read of the rope of some layers: what another runtime may take otherwise.

    ``rope`` holds the values of the rope object by name, ``top`` those that stand around it, and
    ``per_layer_type`` says whether the object belongs to one of several layer types. ``name`` is
    how errors call the file, and ``prefix`` the path at which ``top`` stands in it.
    """

    model_type: str
    rope: Mapping[str, Any]
    top: Mapping[str, Any]
    per_layer_type: bool
    name: str = "config.json"
    prefix: str = ""


class RopeReader:
    """Reads the rope of one text config; ``readings`` keeps what the layers came from."""

    def __init__(self, text: Keys, family: Rotary, notes: Notes) -> None:
        self.text = text
        self.family = family
        self.notes = notes
        self.readings: dict[str | None, RopeReading] = {}
        self.default_source = family.default_source

    def layers(self) -> Iterator[Layers]:
        """The layers of each type, in the order of their first.

        Raises: InvalidInput.
        """
        found = groups(self.text, self.family, self.notes)
        objects = entries(self.text, self.family, found, self.notes)
        for group in found:
            entry = None if group.is_nope else objects[group.label]
            yield self._unrotated(group) if entry is None else self._rotated(group, entry)

    def _unrotated(self, group: Group) -> Layers:
        hidden = self.count("hidden_size")
        params = {} if hidden is None else {"dim": hidden}
        return Layers(group.label, group.layers, "nope", params, self._context())

    def _rotated(self, group: Group, entry: Entry) -> Layers:
        """The rope of one group of layers.

        Raises: InvalidInput.
        """
        rope_type = self._type(entry)
        head = head_dim(self, group, rope_type)
        share = self._share(entry, rope_type, head)
        rotated = self._width(rope_type, head, share)
        params = {
            "dim": head,
            "base": self._base(entry, group.label),
            "layout": self._layout(),
            **({} if share is None else {"partial": share}),
        }
        scheme, more = RULES[rope_type](self, entry, rotated)
        params |= more
        if scheme != "mrope":
            self._note_axes(entry)
        self._note_query_scale(entry)
        self.readings[group.label] = RopeReading(
            self.family.model_type,
            {key: value for part in reversed(entry.parts) for key, value in part.values.items()},
            self.text.values,
            per_layer_type=self.family.nested,
            name=self.text.name,
            prefix=self.text.prefix,
        )
        check_values(self.text.name, scheme, params)
        derived = self._derived(scheme, params)
        return Layers(group.label, group.layers, scheme, params, derived)

    def _type(self, entry: Entry) -> str:
        """The rule that the rope object names.

        Raises: InvalidInput for an unknown one, or for two that contradict each other.
        """
        new = entry.having("rope_type").text("rope_type")
        old = entry.having("type").text("type")
        if old is not None and new is None and not entry.own_type:
            self.notes.warn(
                f"{old.source} {abbreviated(old.value)} has no effect: transformers' "
                f"{self.family.model_type} reads rope_type alone, and scales nothing"
            )
            return "default"
        chosen = first(new, old)
        if chosen is None:
            return "default"
        types = self.family.types or tuple(RULES)
        renamed = {**RENAMED, **self.family.renamed}
        name, *other = [str(renamed.get(each.value, each.value)) for each in (new, old) if each]
        if old is not None and other not in ([], [name]):
            raise InvalidInput(
                f"{self.text.name}: {chosen.source} {abbreviated(chosen.value)} contradicts "
                f"{old.source} {abbreviated(old.value)}"
            )
        if name not in types:
            raise InvalidInput(
                f"{self.text.name}: {chosen.source} {abbreviated(chosen.value)}: "
                f"{self.family.model_type} takes {', '.join(types)}",
                hint=nearest(chosen.value, types),
            )
        return name

    def _base(self, entry: Entry, label: str | None) -> Sourced:
        """The base of the ladder of wavelengths.

        Raises: InvalidInput where it is not above 1, or must be there and is not.
        """
        key = "rope_theta"
        if self.family.local is not None:
            key = self.family.local.get(label or "", key)
        names = self._names(key)
        of_type = f" of {label} layers" if self.family.nested and label else ""
        found = entry.number("rope_theta")
        if found is not None:
            self._note_second_base(found, names)
        else:
            found = first(*(self.text.number(name) for name in names if name))
        if found is None:
            base = self.family.base_of(label)
            if base is None:
                raise InvalidInput(
                    f"{self.text.name}: {entry.having('rope_theta').path('rope_theta')} is missing"
                )
            if self.text.values.get("rope_theta") == base:
                # OLMo 3 takes its default for some layers beside the rope_theta of the others.
                return Sourced(base, self.default_source)
            if not self._is_stated(label, base):
                self.notes.warn(
                    f"{self.text.name} has no rope_theta{of_type}: {base:g} is the "
                    f"{self.default_source}"
                )
            found = Sourced(base, self.default_source)
        elif found.source.startswith("default of") and not self._is_stated(label, found.value):
            self.notes.warn(
                f"{self.text.name} has no rope_parameters: those of {self.family.model_type} are "
                "taken"
            )
        if found.source.startswith("default of") and not self._is_stated(label, found.value):
            self.notes.default(f"rope_theta{of_type}")
        if found.value <= 1:
            raise InvalidInput(f"{self.text.name}: {found.source} {found.value:g}: must be above 1")
        return found

    def _is_stated(self, label: str | None, base: float) -> bool:
        """Whether the config says a base that is the model type's, by a name of other code."""
        names = LOCAL_BASES if "sliding" in (label or "") else (*BASES, *GLOBAL_BASES)
        return any(self.text.values.get(name) == base for name in names)

    def _names(self, key: str) -> tuple[str | None, ...]:
        """What the family calls a key at the top of the config; None where it has it nowhere."""
        names = (self.family.keys.get(key, key),)
        return (*names, *ANY_NAME.get(key, ())) if self.family.any_names else names

    def _note_second_base(self, found: Sourced, names: Sequence[str | None]) -> None:
        """Warn of a base beside the rope object that is not the object's."""
        for name in names if not found.source.startswith("default of") else ():
            if name is None or self.text.values.get(name) is None:
                continue
            if self.text.values[name] == found.value:
                self.text.get(name)
            else:
                self.notes.warn(
                    f"{self.text.path(name)} {json_text(self.text.values[name])} has no effect: "
                    f"{found.source} {found.value:g} goes before it"
                )

    def _layout(self) -> Sourced:
        layout = self.family.layout
        if layout in ("half", "interleaved"):
            known = self.family.known
            return Sourced(layout, self.default_source if known else "assumed, as Llama's")
        flag = self.text.flag(layout)
        if flag is None:
            return Sourced("interleaved", self.default_source)
        return Sourced("interleaved" if flag.value else "half", flag.source)

    def _share(self, entry: Entry, rope_type: str, head: Sourced) -> Sourced | None:
        """The share of the head that turns, None where it is all of it.

        Raises: InvalidInput.
        """
        if self.family.partial_ignored and rope_type == "default":
            self._note_ignored_share(entry)
            return None
        names = self._names(SHARE)
        found = entry.number(SHARE)
        if found is None and SHARE in (self.family.rope or {}) and self.family.slice:
            # Mistral 4 turns the whole head without it, which its attention has no room for.
            raise InvalidInput(f"{self.text.name}: {entry.having(SHARE).path(SHARE)} is missing")
        if found is None and self.family.nested and rope_type == "default":
            self._note_share_at_the_top()
        elif found is None:
            found = first(*(self.text.number(name) for name in names if name))
        if found is None:
            found = self._share_of_rotary_dim(head)
        if found is None and not entry.is_default and self._has_share(rope_type):
            found = Sourced(self.family.partial, self.default_source)
        if found is None or found.value == 1:
            return None
        if self.family.slice:
            self._check_slice(found, head)
            return None
        if found.value > 1:
            raise InvalidInput(
                f"{self.text.name}: {found.source} {found.value:g}: must be at most 1"
            )
        return found

    def _has_share(self, rope_type: str) -> bool:
        """Whether the family turns a part of the head where nothing else is said."""
        return self.family.partial != 1 and (rope_type == "default" or not self.family.nested)

    def _check_slice(self, share: Sourced, head: Sourced) -> None:
        """Of latent attention the slice turns as a whole; the share of the head must say the same.

        Raises: InvalidInput.
        """
        rest = self.text.count("qk_nope_head_dim", minimum=0)
        if share.source.startswith("default of"):
            return
        # Mistral 4 states the share that the slice is of the whole head.
        whole = SHARE in (self.family.rope or {}) and rest is not None
        if not whole or int((rest.value + head.value) * share.value) != head.value:  # type: ignore[union-attr]
            raise InvalidInput(
                f"{self.text.name}: {share.source} {share.value:g}: the {head.value} columns of "
                "qk_rope_head_dim turn as a whole"
            )

    def _note_ignored_share(self, entry: Entry) -> None:
        """Warn of a share that transformers does not look at."""
        for part in (entry.having(SHARE), self.text):
            ignored = part.values.get(SHARE)
            if ignored == 1:
                part.get(SHARE)
            elif ignored is not None:
                self.notes.warn(
                    f"{part.path(SHARE)} {json_text(ignored)} has no effect: in "
                    f"transformers {self.family.model_type} turns the whole head"
                )

    def _note_share_at_the_top(self) -> None:
        """Warn of a share beside the rope objects, where transformers does not look for it."""
        if self.text.values.get(SHARE) is not None:
            self.notes.warn(
                f"{self.text.path(SHARE)} has no effect: for plain rope transformers' "
                f"{self.family.model_type} looks for it in the object of each layer type"
            )

    def _share_of_rotary_dim(self, head: Sourced) -> Sourced | None:
        """The share that ``rotary_dim`` columns of a head are."""
        if not self.family.any_names and "rotary_dim" not in self.family.keys:
            return None
        found = self.text.count("rotary_dim")
        if found is None:
            return None
        return Sourced(found.value / head.value, f"derived: {found.source} / head_dim")

    def _width(self, rope_type: str, head: Sourced, share: Sourced | None) -> int:
        """How many columns turn.

        Raises: InvalidInput where they make no pairs.
        """
        whole = share is None or rope_type == "proportional"
        rotated = head.value if whole else int(head.value * share.value)  # type: ignore[union-attr]
        if rotated < 2 or rotated % 2:
            part = "" if whole else f" × {share.value:g} ({share.source})"  # type: ignore[union-attr]
            raise InvalidInput(
                f"{self.text.name}: head_dim {head.value} ({head.source}){part} turns {rotated} "
                "columns: pairs need an even number of them, from 2 on"
            )
        return int(rotated)

    def original(self, entry: Entry) -> Sourced:
        """The length the model was trained on first.

        In a rope of all layers a number at the top of the config goes before that of the object;
        in those of single layer types it counts for nothing.

        Raises: InvalidInput where nothing says it.
        """
        own = entry.having(ORIGINAL).count(ORIGINAL)
        top = None if self.family.nested else self.count(ORIGINAL)
        if top is not None and own is not None and top.value != own.value:
            self.notes.warn(
                f"{top.source} {top.value} goes before {own.source} {own.value}, as in transformers"
            )
            self.notes.contradict(own.source)
        found = first(top, own)
        if found is None:
            found = self._longest()
            self.notes.warn(
                f"{entry.having(ORIGINAL).path(ORIGINAL)} is not given: {found.source} "
                f"{found.value} is taken for it, as in transformers"
            )
            self.notes.default(ORIGINAL)
        elif found is top and found.source == self.default_source:
            self.notes.size(ORIGINAL, found)
        return found

    def _longest(self) -> Sourced:
        """The context that stands for the original one where nothing else says it.

        Raises: InvalidInput where nothing says it either.
        """
        if self.family.own_original:
            default = Sourced(self.family.defaults[CONTEXT], self.default_source)
            return self.text.count(CONTEXT) or default
        return self.needed_count(CONTEXT)

    def _note_axes(self, entry: Entry) -> None:
        """Note that a stretched rope of several axes is read for text, whose axes agree."""
        found = entry.having("mrope_section").get("mrope_section")
        entry.having("mrope_interleaved").get("mrope_interleaved")
        if self.family.mrope is not None or (found is not None and not self.family.known):
            self.notes.warn(
                "the axes of images and video are left out: the encoding is that of text"
            )

    def _note_query_scale(self, entry: Entry) -> None:
        """Note what queries are multiplied by, beside the rotation."""
        if not self.family.scales_queries:
            return
        found = entry.having("llama_4_scaling_beta").get("llama_4_scaling_beta")
        if found is not None:
            self.notes.warn(
                f"{found.source} {json_text(found.value)} is no part of the rotation: queries "
                "are multiplied by 1 + beta · ln(1 + ⌊p / L⌋), which breaks the "
                "dependence on m − n alone"
            )

    def count(self, key: str) -> Sourced | None:
        """A whole number of the config by whatever name, or the model type's.

        Raises: InvalidInput where it is none.
        """
        names: tuple[str, ...] = (self.family.aliases.get(key, key), key)
        if self.family.any_names:
            names += ANY_NAME.get(key, ())
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
        if key == "factor" and found.value < 1:
            self.notes.warn(f"{found.source} {found.value:g} is below 1: transformers warns of it")
        return found

    def _context(self) -> dict[str, Sourced]:
        context = self.count(CONTEXT)
        return {} if context is None else {"context": context}

    def _derived(self, scheme: str, params: Mapping[str, Sourced]) -> dict[str, Sourced]:
        """What follows from the parameters of a rotation."""
        derived = {
            "head_dim": params["dim"],
            **self._beside_slice(),
            **magnitude(scheme, params),
        }
        softmax = self._softmax_multiplier(params)
        if softmax is not None:
            derived["softmax_multiplier"] = softmax
        return derived | self._context()

    def _beside_slice(self) -> dict[str, Sourced]:
        """The columns of a head beside the slice that turns, where attention is latent."""
        if not self.family.slice:
            return {}
        found = self.text.count(REST, minimum=0)
        return {"beside_slice": found or Sourced(None, f"{self.text.path(REST)} is not given")}

    def _softmax_multiplier(self, params: Mapping[str, Sourced]) -> Sourced | None:
        """What latent attention multiplies the scores by, beside the rotation."""
        from posenc_cli.schemes import scaled

        if not self.family.slice or self.family.plain_softmax or "factor" not in params:
            return None
        rope = self.text.values.get("rope_scaling") or self.text.values.get("rope_parameters")
        over = (rope or self.family.rope or {}).get("mscale_all_dim")
        factor = params["factor"].value
        if not isinstance(over, int | float) or not over or factor <= 1:
            return None
        check_values(
            self.text.name, "rope-yarn", {"mscale_all_dim": Sourced(over, "mscale_all_dim")}
        )
        multiplier = float(scaled.yarn_magnitude(factor, over))
        return Sourced(multiplier**2, "derived: (0.1 · mscale_all_dim · ln(factor) + 1)²")
