"""Write a RoPE setting for a config, or as flags of an engine.

The spelling is the config's own: ``rope_parameters`` as transformers 5 writes it (one object, or
one for each layer type), or the older ``rope_theta`` and ``rope_scaling``. If the rope type stays
the same, the rest of the object is kept. With another, only the keys that do not describe scaling
are kept (``mrope_section``, the base, the rotated share).

vLLM and sglang set keys of the config after loading it. By then transformers 5 has moved the keys
into ``rope_parameters``, so posenc sets that key, and the engine replaces it as a whole:

- vLLM: ``--hf-overrides`` and ``--max-model-len``; ``--rope-scaling`` was removed
  (https://docs.vllm.ai/en/stable/features/context_extension/; ``config.update(hf_overrides_kw)``
  in vllm/transformers_utils/config.py);
- sglang: ``--json-model-override-args`` and ``--context-length`` (python/sglang/srt/server_args.py;
  ``get_rope_config`` in srt/utils/hf_transformers takes the base from ``rope_parameters``);
- llama.cpp: ``--rope-scaling``, ``--rope-scale``, ``--yarn-orig-ctx``, ``--rope-freq-base`` and
  ``--ctx-size`` (common/arg.cpp). They replace the file's own values, except its tensor of
  divisors, which holds Llama 3's scaling (src/llama-context.cpp).

If posenc knows how an engine reads configs, it gives flags only if the engine would read the same
frequencies, and else the reason.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.configs import families
from posenc_cli.configs.config import resolve
from posenc_cli.configs.engines.runtime_rules import UnknownReading
from posenc_cli.configs.keys import CONTEXT, ORIGINAL, SHARE, Keys
from posenc_cli.configs.resolved import Layers, Notes
from posenc_cli.configs.text_models import TextModel, text_model
from posenc_cli.errors import InvalidInput, PosencError
from posenc_cli.numerics import exact
from posenc_cli.records import Record

if TYPE_CHECKING:
    from decimal import Decimal


NEW, OLD = "rope_parameters", "rope_scaling"
BASE = "rope_theta"
_TYPES = ("rope_type", "type")
_SCALING = {
    *_TYPES,
    *("factor", ORIGINAL, "attention_factor", "attn_factor", "alpha", "truncate", "finetuned"),
    *("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "low_freq_factor", "high_freq_factor"),
    *("short_factor", "long_factor", "short_mscale", "long_mscale"),
}
"""Keys of a rope object that describe its scaling."""
_SCALED_WITH_FACTOR = ("attention_factor", "attn_factor")
"""Keys that depend on the factor: removed with it, unless they are given anew."""


class Spelling(Record):
    """The keys under which a config states the RoPE of some layers.

    ``path`` leads to the text model, and ``values`` are its keys. ``container`` is the key of the
    rope object, and ``label`` the layer type's key in it if each type has an object. ``type_key``
    is the key of the rope type, ``base_key`` the path of the base, ``context_key`` the key of the
    context. ``is_flat``: the text model's keys are at the top of the file, but in ``text_config``
    once loaded. ``layers`` are the layers' indices in a list with one base for each layer.
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
        """Return the keys to set for another rope type, base or context, each with its whole value.

        An empty ``rope`` keeps the object.
        """
        found: dict[str, Any] = {}
        if rope:
            found = {self.container: self._with_rope_type(rope)}
        if base is not None:
            top = self.base_key[0]
            stated = self.values.get(top)
            if isinstance(stated, list):  # one base for each layer
                found[top] = [base if i in self.layers else old for i, old in enumerate(stated)]
            else:
                found |= _replaced_at(self.base_key, base, found.get(top, _copied(stated)))
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
        """Return the keys to set in an engine's loaded config: all of ``rope_parameters``.

        transformers 5 stores the base and the rotated share in that object, wherever the file has
        them. An engine that replaces the object would drop them. Returns None if an engine cannot
        express the RoPE of the ``others``.
        """
        own = {BASE: layers.values()["base"]}
        if "partial" in layers.params:
            own[SHARE] = layers.params["partial"].value
        current = self._kept(rope)
        rule = rope or {"rope_type": self.current_type() or "default"}
        whole: Any = {**current, **own, **rule}
        differing = [group for group in others if not group.same_encoding(layers)]
        if self.label is not None:
            whole = {**_copied(self.values.get(NEW)), self.label: whole}
        elif differing and layers.layer_type is not None:
            if any(group.scheme != "rope" or "partial" in group.params for group in differing):
                return None
            whole = {
                **{
                    str(group.layer_type): {
                        "rope_type": "default",
                        BASE: group.values()["base"],
                    }
                    for group in differing
                },
                layers.layer_type: whole,
            }
        found = {NEW: whole} | ({} if context is None else {self.context_key: context})
        return _nested(("text_config",) if self.is_flat else self.path, found)

    def loaded(self, config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
        """Return the config that an engine has with ``overrides``: the older keys are removed."""
        folded: dict[str, Any] = {OLD: None}
        if self.container == OLD:
            folded[BASE] = None
        keys = overrides["text_config"] if self.is_flat else overrides
        return merged(merged(config, _nested(self.path, folded)), keys)

    def _rope_object(self) -> dict[str, Any]:
        whole = _copied(self.values.get(self.container))
        return whole if self.label is None else _copied(whole.get(self.label))

    def current_type(self) -> str | None:
        """Return the rope type that the rope object names, or None."""
        current = self._rope_object()
        return next((str(current[key]) for key in _TYPES if current.get(key)), None)

    def _kept(self, rope: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of the rope object that stays with a new rope type, if one is given."""
        current = self._rope_object()
        new_type = rope and self.current_type() != rope["rope_type"]
        dropped = _SCALING if new_type else {*_TYPES, *(_SCALED_WITH_FACTOR if rope else ())}
        return {key: value for key, value in current.items() if key not in dropped}

    def _with_rope_type(self, rope: Mapping[str, Any]) -> dict[str, Any]:
        """Return the container with the new rope type: one object, or one for each layer type."""
        rest = {key: value for key, value in rope.items() if key != "rope_type"}
        own = {self.type_key: rope["rope_type"], **self._kept(rope), **rest}
        if self.label is None:
            return own
        return {**_copied(self.values.get(self.container)), self.label: own}


def spelling_of(config: Mapping[str, Any], layers: Layers, others: Sequence[Layers]) -> Spelling:
    """Return the keys under which a config states the RoPE of ``layers``; ``others`` are the rest.

    Raises: InvalidInput if the config has no text model.
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
    # Before transformers 5, keys at the top stated the base of some layers.
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
    rope = _copied(whole.get(label) if nested and isinstance(whole, Mapping) else whole)
    older = "type" in rope and "rope_type" not in rope
    # Families with a different base for some layers read only rope_type.
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
    """Return the rope object of a model type's defaults, as transformers 5 writes it."""
    family = model.family
    if family is None or not (family.nested or family.local) or layers.layer_type is None:
        return _default_object(layers)
    rotating = [group for group in others if group.scheme != "nope"]
    return {str(group.layer_type): _default_object(group) for group in (layers, *rotating)}


def _default_object(layers: Layers) -> dict[str, Any]:
    values = layers.values()
    rule = "proportional" if layers.scheme == "rope-proportional" else "default"
    names = ((BASE, "base"), (SHARE, "partial"))
    return {"rope_type": rule, **{key: values[name] for key, name in names if name in values}}


def _base_key(layers: Layers, prefix: str, container: str, label: str | None) -> tuple[str, ...]:
    """Return the path of the base: where it was read, or where it would be read."""
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


def _replaced_at(path: tuple[str, ...], value: Any, whole: dict[str, Any]) -> dict[str, Any]:
    """Return the first key of a path and its object, with another value at the end of the path."""
    if len(path) == 1:
        return {path[0]: value}
    first, second, *rest = path
    return {first: whole | _replaced_at((second, *rest), value, _copied(whole.get(second)))}


def merged(config: Mapping[str, Any], snippet: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with the keys of a snippet in place of its own.

    Sections (``text_config``) are merged; all other values are replaced as a whole.

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


ENGINES = ("vllm", "sglang", "llama.cpp")
_JSON_FLAGS = {
    "vllm": ("--hf-overrides", "--max-model-len"),
    "sglang": ("--json-model-override-args", "--context-length"),
}
_PLAIN = ("rope", "mrope")


class EngineFlags(Record):
    """The flags for an engine, or None, and a remark: the reason, or what was not checked."""

    engine: str
    flags: str | None
    remark: str | None = None


class TargetRope(Record):
    """The RoPE that an engine should run: the layers before and after the change.

    ``overrides`` are the keys to set, ``config`` is the config that an engine has with them, and
    ``given`` the config before. All are None for a GGUF file.
    """

    before: Layers
    after: Layers
    length: int
    config: Mapping[str, Any] | None
    overrides: Mapping[str, Any] | None
    given: Mapping[str, Any] | None = None

    def flags(self) -> tuple[EngineFlags, ...]:
        """Return the flags for each engine."""
        return tuple(self._engine_flags(engine) for engine in ENGINES)

    def _engine_flags(self, engine: str) -> EngineFlags:
        try:
            remark = self._remark(engine)
            words = self._llama_cpp_flags() if engine == "llama.cpp" else self._json_flags(engine)
            return EngineFlags(engine, " ".join(words), remark)
        except PosencError as error:
            return EngineFlags(engine, None, error.message.removeprefix(f"--as {engine}: "))

    def _remark(self, engine: str) -> str | None:
        """Return what is not known about how an engine reads the new RoPE, or None.

        Raises: InvalidInput if the engine is known to read it differently.
        """
        overridden = self.config is not None
        config, wanted = (self.config, self.after) if overridden else (self.given, self.before)
        if config is None:
            return None
        if engine == "sglang" and self.after.scheme == "rope-dynamic":
            raise InvalidInput("sglang scales once, for max_position_embeddings · factor")
        try:
            read = resolve(config, runtime=engine)
        except UnknownReading as error:
            return error.message.removeprefix(f"--as {engine}: ")
        if _same_rotation(read.layer(wanted.layer_type), wanted, self.length):
            return None
        if engine == "llama.cpp" and self._kept():
            return (
                "its converter does not write this: convert the model as it is, and set the flags"
            )
        found = [text for text in read.warnings if text.startswith(engine)]
        raise InvalidInput(found[0] if found else f"{engine} reads it differently")

    def _kept(self) -> bool:
        """Return whether llama.cpp reads the unchanged layers right, so that flags suffice."""
        assert self.given is not None  # a GGUF file has no config to compare
        read = resolve(self.given, runtime="llama.cpp").layer(self.before.layer_type)
        return _same_rotation(read, self.before, self.length)

    def _json_flags(self, engine: str) -> Iterator[str]:
        if self.overrides is None:
            raise InvalidInput(
                "a GGUF file has no config.json"
                if self.given is None
                else f"{engine} cannot override this rope: edit config.json"
            )
        setting, length = _JSON_FLAGS[engine]
        yield f"{setting} {shlex.quote(json.dumps(self.overrides))}"
        yield f"{length} {self.length}"

    def _llama_cpp_flags(self) -> Iterator[str]:
        """Yield the flags of llama.cpp.

        Raises: InvalidInput if it has none for this rope type.
        """
        before, values = self.before, self.after.values()
        if before.scheme in ("rope-llama3", "rope-longrope"):
            raise InvalidInput(
                "flags would scale what the file's tensor of divisors scales: convert the "
                "model again from its config"
            )
        yield from self._rope_scaling_flags(values)
        if values.get("base") != before.values().get("base"):
            yield f"--rope-freq-base {_shortest_text(values['base'])}"
        yield f"--ctx-size {self.length}"

    def _rope_scaling_flags(self, values: Mapping[str, Any]) -> Iterator[str]:
        match self.after.scheme:
            case "rope" | "mrope":
                if self.before.scheme not in _PLAIN:
                    yield "--rope-scaling none"
            case "rope-linear":
                yield f"--rope-scaling linear --rope-scale {_shortest_text(values['factor'])}"
            case "rope-yarn":
                self._check_yarn(values)
                yield f"--rope-scaling yarn --rope-scale {_shortest_text(values['factor'])}"
                yield f"--yarn-orig-ctx {values[ORIGINAL]}"
                for key, llama_cpp_default in (("beta_fast", 32.0), ("beta_slow", 1.0)):
                    if values.get(key, llama_cpp_default) != llama_cpp_default:
                        yield f"--yarn-{key.replace('_', '-')} {_shortest_text(values[key])}"
            case "rope-dynamic":
                raise InvalidInput("llama.cpp has no base that grows with the sequence")
            case "rope-llama3":
                raise InvalidInput(
                    "llama.cpp reads this rule from the tensor rope_freqs, which its converter "
                    "writes: convert the model again with this config"
                )
            case _:
                raise InvalidInput("llama.cpp has no flag for this rule")

    def _check_yarn(self, values: Mapping[str, Any]) -> None:
        """Refuse YaRN options that llama.cpp ignores: truncate and the attention factor."""
        if values.get("truncate") is False:
            raise InvalidInput("llama.cpp truncates YaRN's ramp, whatever truncate says")
        if {"attention_factor", "mscale", "mscale_all_dim"} & values.keys():
            raise InvalidInput(
                "llama.cpp multiplies by 1 + 0.1 ln(factor), whatever the config says"
            )


def _same_rotation(read: Layers, planned: Layers, length: int) -> bool:
    return exact_rotation(read, length) == exact_rotation(planned, length)


def _shortest_text(value: float) -> str:
    """Return a number as its shortest text.

    >>> _shortest_text(4.0), _shortest_text(40889.9)
    ('4', '40889.9')
    """
    return str(int(value)) if float(value).is_integer() else repr(float(value))


class ExactRotation(Record):
    """The frequencies of all pairs, unrotated ones too, and the factor of cosines and sines."""

    frequencies: tuple[Decimal, ...]
    scale: Any


def exact_rotation(layers: Layers, length: int) -> ExactRotation:
    """Return the rotation of rotary layers at a sequence length; the last 64 results are cached."""
    return _rotation(layers.scheme, tuple(sorted(layers.values().items())), length)


@lru_cache(maxsize=64)
def _rotation(scheme: str, values: tuple[tuple[str, Any], ...], length: int) -> ExactRotation:
    waves = catalogue.find(scheme).bind(dict(values), seq_len=length).content.waves
    assert waves is not None
    return ExactRotation(tuple(waves.frequencies(exact)), waves.scale)
