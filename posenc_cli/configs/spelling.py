"""How a config spells the rope of some layers, and what to set in it for another.

The spelling is the config's own: ``rope_parameters`` as transformers 5 writes them, one object or
one for each layer type, or ``rope_theta`` and ``rope_scaling`` as it did before. Of an object that
is there all is kept that says nothing of how it is scaled (``mrope_section``, the base, the
share of the head); and all of it where the rule stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from posenc_cli.configs import families
from posenc_cli.configs.keys import CONTEXT, ORIGINAL, SHARE, Keys
from posenc_cli.configs.resolved import Notes
from posenc_cli.configs.text_models import text_model
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.configs.resolved import Layers
    from posenc_cli.configs.text_models import TextModel

NEW, OLD = "rope_parameters", "rope_scaling"
BASE = "rope_theta"
_TYPES = ("rope_type", "type")
_SCALING = {
    *_TYPES,
    *("factor", ORIGINAL, "attention_factor", "attn_factor", "alpha", "truncate", "finetuned"),
    *("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "low_freq_factor", "high_freq_factor"),
    *("short_factor", "long_factor", "short_mscale", "long_mscale"),
}
"""Keys of a rope object that say how it is scaled."""
_FOLLOWING = ("attention_factor", "attn_factor")
"""Keys that follow a factor, and go with it unless they are given anew."""


class Spelling(Record):
    """Where a config has the rope of some layers.

    ``path`` leads to its text model, ``values`` are the keys there. ``container`` is the key of
    the rope object, ``label`` that of the layers in it where each type has its own. ``type_key`` is
    what the object calls its rule, ``base_key`` where the base stands, by what leads to it. The
    keys of a text model that ``is_flat`` stand at the top, and in ``text_config`` once loaded.
    ``layers`` are those whose base a list of one for each layer holds.
    """

    path: tuple[str, ...]
    values: Mapping[str, Any]
    container: str
    label: str | None
    type_key: str
    base_key: tuple[str, ...]
    context_key: str
    is_flat: bool = False
    layers: tuple[int, ...] = ()

    def snippet(
        self, rope: Mapping[str, Any], *, base: float | None = None, context: int | None = None
    ) -> dict[str, Any]:
        """The keys to set, each whole, for another rule, base or context.

        An empty ``rope`` leaves the object as it is.
        """
        found: dict[str, Any] = {}
        if rope:
            found = {self.container: self._container(rope)}
        if base is not None:
            top = self.base_key[0]
            stated = self.values.get(top)
            if isinstance(stated, list):  # one base for each layer
                found[top] = [base if i in self.layers else old for i, old in enumerate(stated)]
            else:
                found |= _with(self.base_key, base, found.get(top, _copied(stated)))
        if context is not None:
            found[self.context_key] = context
        return _nested(self.path, found)

    def override(
        self,
        layers: Layers,
        others: Sequence[Layers],
        rope: Mapping[str, Any],
        context: int | None,
    ) -> dict[str, Any] | None:
        """The keys to set in what an engine has loaded, ``rope_parameters`` being whole.

        transformers 5 keeps the base and the share of the head in that object, whatever the file
        has, and an engine that replaces it would drop them. It is None where ``others`` of its
        layers have what cannot be said here.
        """
        own = {BASE: layers.values()["base"]}
        if "partial" in layers.params:
            own[SHARE] = layers.params["partial"].value
        current = self._kept(rope)
        rule = rope or {"rope_type": self.current_type() or "default"}
        whole: Any = {**current, **own, **rule}
        apart = [group for group in others if not group.same_encoding(layers)]
        if self.label is not None:
            whole = {**_copied(self.values.get(NEW)), self.label: whole}
        elif apart and layers.layer_type is not None:
            if any(group.scheme != "rope" or "partial" in group.params for group in apart):
                return None
            whole = {
                **{
                    str(group.layer_type): {
                        "rope_type": "default",
                        BASE: group.values()["base"],
                    }
                    for group in apart
                },
                layers.layer_type: whole,
            }
        found = {NEW: whole} | ({} if context is None else {self.context_key: context})
        return _nested(("text_config",) if self.is_flat else self.path, found)

    def loaded(self, config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
        """A config as an engine has it with ``overrides``: the older keys are folded away."""
        folded: dict[str, Any] = {OLD: None}
        if self.container == OLD:
            folded[BASE] = None
        keys = overrides["text_config"] if self.is_flat else overrides
        return merged(merged(config, _nested(self.path, folded)), keys)

    def _current(self) -> dict[str, Any]:
        """The rope object as it is."""
        whole = self.values.get(self.container)
        whole = whole if isinstance(whole, Mapping) else {}
        if self.label is not None:
            whole = whole.get(self.label)
        return dict(whole) if isinstance(whole, Mapping) else {}

    def current_type(self) -> str | None:
        """The rule that the rope object names, None where it names none."""
        current = self._current()
        return next((str(current[key]) for key in _TYPES if current.get(key)), None)

    def _kept(self, rope: Mapping[str, Any]) -> dict[str, Any]:
        """What stays of the rope object beside another rule, if one is given."""
        current = self._current()
        another = rope and self.current_type() != rope["rope_type"]
        dropped = _SCALING if another else {*_TYPES, *(_FOLLOWING if rope else ())}
        return {key: value for key, value in current.items() if key not in dropped}

    def _container(self, rope: Mapping[str, Any]) -> dict[str, Any]:
        """The whole rope object with another rule."""
        rest = {key: value for key, value in rope.items() if key != "rope_type"}
        own = {self.type_key: rope["rope_type"], **self._kept(rope), **rest}
        if self.label is None:
            return own
        return {**_copied(self.values.get(self.container)), self.label: own}


def spelling_of(config: Mapping[str, Any], layers: Layers, others: Sequence[Layers]) -> Spelling:
    """How a config spells the rope of some layers; ``others`` are its other layers.

    Raises: InvalidInput where no text model is found in the config.
    """
    model = text_model(Keys(config, name="config.json"), Notes())
    keys, container_type = model.keys, families.container(str(config.get("model_type")))
    path = tuple(keys.prefix.rstrip(".").split(".")) if keys.prefix else ()
    values = keys.values
    if not path and container_type is not None and not container_type.flat:
        path, values = ("text_config",), {}
    old = isinstance(values.get(OLD), Mapping) and bool(values[OLD])
    new = isinstance(values.get(NEW), Mapping)
    container = NEW if new and not old else OLD
    # Keys at the top gave some layers a base of their own before transformers 5.
    local = any("base_freq" in key or key.endswith("_rope_theta") for key in values)
    if not (old or new or local or BASE in values):
        container = NEW
        if layers.values().get("base") and layers.params["base"].source.startswith("default of"):
            values = {**values, NEW: _defaults(model, layers, others)}
    whole = values.get(container)
    nested = isinstance(whole, Mapping) and any(
        group.layer_type in whole for group in (layers, *others) if group.layer_type
    )
    label = layers.layer_type if nested else None
    rope = whole.get(label) if nested and isinstance(whole, Mapping) else whole
    rope = rope if isinstance(rope, Mapping) else {}
    older = "type" in rope and "rope_type" not in rope
    # Families that give some layers a base of their own look at rope_type alone.
    type_key = "type" if older and not (model.family and model.family.local) else "rope_type"
    return Spelling(
        path=path,
        values=values,
        container=container,
        label=label,
        type_key=type_key,
        base_key=_base_key(layers, keys.prefix, container, label),
        context_key=_context_key(layers, keys.prefix),
        is_flat=not path and container_type is not None,
        layers=layers.layers,
    )


def _defaults(model: TextModel, layers: Layers, others: Sequence[Layers]) -> dict[str, Any]:
    """What a model type has where its config says nothing of rope, as transformers 5 writes it."""
    own = _default_object(layers)
    family = model.family
    if family is None or not (family.nested or family.local) or layers.layer_type is None:
        return own
    turning = [group for group in others if group.scheme != "nope"]
    return {str(group.layer_type): _default_object(group) for group in (layers, *turning)}


def _default_object(layers: Layers) -> dict[str, Any]:
    values = layers.values()
    rule = "proportional" if layers.scheme == "rope-proportional" else "default"
    names = ((BASE, "base"), (SHARE, "partial"))
    return {"rope_type": rule, **{key: values[name] for key, name in names if name in values}}


def _base_key(layers: Layers, prefix: str, container: str, label: str | None) -> tuple[str, ...]:
    """What leads to the base: where it was read, or where it would be."""
    source = layers.params["base"].source if "base" in layers.params else ""
    if source and not source.startswith(("default of", "derived", "command line", "assumed")):
        return tuple(source.removeprefix(prefix).split("."))
    if container == OLD:
        return (BASE,)
    return (NEW, BASE) if label is None else (NEW, label, BASE)


def _context_key(layers: Layers, prefix: str) -> str:
    context = layers.derived.get("context")
    if context is None or context.source.startswith(("default of", "derived")):
        return CONTEXT
    return context.source.removeprefix(prefix)


def _copied(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def _with(path: tuple[str, ...], value: Any, whole: dict[str, Any]) -> dict[str, Any]:
    """An object of a key and what it holds, with another value at the end of a path."""
    if len(path) == 1:
        return {path[0]: value}
    first, second, *rest = path
    inner = _copied(whole.get(second))
    return {first: {**whole, **_with((second, *rest), value, inner)}}


def merged(config: Mapping[str, Any], snippet: Mapping[str, Any]) -> dict[str, Any]:
    """A config with a snippet in it: what the snippet has takes the place of what was there.

    Sections of a config (``text_config``) are merged, all else is replaced whole.

    >>> merged({"text_config": {"a": 1, "rope": {"b": 2}}}, {"text_config": {"rope": {"c": 3}}})
    {'text_config': {'a': 1, 'rope': {'c': 3}}}
    """
    found = dict(config)
    for key, value in snippet.items():
        old = found.get(key)
        if key.endswith("_config") and isinstance(old, Mapping) and isinstance(value, Mapping):
            found[key] = merged(old, value)
        else:
            found[key] = value
    return found
