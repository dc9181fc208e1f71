"""How to write a rope setting in a config, or for an engine.

The spelling is the config's own: ``rope_parameters`` as transformers 5 writes them, one object or
one for each layer type, or ``rope_theta`` and ``rope_scaling`` as it did before. Of an object that
is there all is kept that says nothing of how it is scaled (``mrope_section``, the base, the
share of the head); and all of it where the rule stays the same.

vLLM and sglang set keys of the config that they have loaded. transformers 5 has folded what the
file says into ``rope_parameters`` by then, so that is the key to set, and it is replaced whole:

- vLLM: ``--hf-overrides`` and ``--max-model-len``; ``--rope-scaling`` is no more
  (https://docs.vllm.ai/en/stable/features/context_extension/; ``config.update(hf_overrides_kw)``
  in vllm/transformers_utils/config.py);
- sglang: ``--json-model-override-args`` and ``--context-length`` (python/sglang/srt/server_args.py;
  ``get_rope_config`` in srt/utils/hf_transformers takes the base from ``rope_parameters``);
- llama.cpp: ``--rope-scaling``, ``--rope-scale``, ``--yarn-orig-ctx``, ``--rope-freq-base`` and
  ``--ctx-size`` (common/arg.cpp). They take the place of the file's own values but for its
  tensor of divisors, which Llama 3's rule is in (src/llama-context.cpp).

Where posenc knows how an engine reads a config, it must read the same frequencies there; else no
flags are given, and why.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.configs import families
from posenc_cli.configs.config import resolve
from posenc_cli.configs.engines.runtime_rules import UnknownReading
from posenc_cli.configs.keys import CONTEXT, ORIGINAL, SHARE, Keys
from posenc_cli.configs.resolved import Notes
from posenc_cli.configs.text_models import text_model
from posenc_cli.errors import InvalidInput, PosencError
from posenc_cli.numerics import exact
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from decimal import Decimal

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


ENGINES = ("vllm", "sglang", "llama.cpp")
_JSON_FLAGS = {
    "vllm": ("--hf-overrides", "--max-model-len"),
    "sglang": ("--json-model-override-args", "--context-length"),
}
_PLAIN = ("rope", "mrope")


class EngineFlags(Record):
    """The flags for an engine, None where there are none, and a remark: why, or what is open."""

    engine: str
    flags: str | None
    remark: str | None = None


class Wanted(Record):
    """A rope that an engine is to run: the layers as they are, and as they are to be.

    ``config`` is the config with it, as an engine has it once ``overrides`` are set, and ``given``
    the config as it is; all are None where there is no config but a GGUF file.
    """

    before: Layers
    after: Layers
    length: int
    config: Mapping[str, Any] | None
    overrides: Mapping[str, Any] | None
    given: Mapping[str, Any] | None = None

    def flags(self) -> tuple[EngineFlags, ...]:
        """The flags for each engine."""
        return tuple(self._of(engine) for engine in ENGINES)

    def _of(self, engine: str) -> EngineFlags:
        try:
            remark = self._remark(engine)
            words = self._llama_cpp() if engine == "llama.cpp" else self._json(engine)
            return EngineFlags(engine, " ".join(words), remark)
        except PosencError as error:
            return EngineFlags(engine, None, error.message.removeprefix(f"--as {engine}: "))

    def _remark(self, engine: str) -> str | None:
        """What is open of how an engine reads it.

        Raises: InvalidInput where it is known that it does so otherwise.
        """
        config, wanted = self.config, self.after
        if config is None:
            config, wanted = self.given, self.before
        if config is None:
            return None
        if engine == "sglang" and self.after.scheme == "rope-dynamic":
            raise InvalidInput("sglang scales once, for max_position_embeddings · factor")
        try:
            read = resolve(config, runtime=engine)
        except UnknownReading as error:
            return f"not checked: {error.message.removeprefix(f'--as {engine}: ')}"
        if _same(read.layer(wanted.layer_type), wanted, self.length):
            return None
        if engine == "llama.cpp" and self._kept():
            return (
                "its converter does not write this: convert the model as it is, and set the flags"
            )
        found = [text for text in read.warnings if text.startswith(engine)]
        raise InvalidInput(found[0] if found else f"{engine} reads it differently")

    def _kept(self) -> bool:
        """Whether llama.cpp reads the layers as they are, so that its flags are all that is set."""
        if self.given is None:
            return False
        read = resolve(self.given, runtime="llama.cpp").layer(self.before.layer_type)
        return _same(read, self.before, self.length)

    def _json(self, engine: str) -> Iterator[str]:
        if self.overrides is None:
            raise InvalidInput(
                "a GGUF file has no config.json"
                if self.given is None
                else f"{engine} cannot override this rope: edit config.json"
            )
        setting, length = _JSON_FLAGS[engine]
        yield f"{setting} {shlex.quote(json.dumps(self.overrides))}"
        yield f"{length} {self.length}"

    def _llama_cpp(self) -> Iterator[str]:
        """The flags of llama.cpp.

        Raises: InvalidInput where it has none for this rule.
        """
        before, values = self.before, self.after.values()
        if before.scheme in ("rope-llama3", "rope-longrope"):
            raise InvalidInput(
                "flags would scale what the file's tensor of divisors scales: convert the "
                "model again from its config"
            )
        yield from self._rule(values)
        if values.get("base") != before.values().get("base"):
            yield f"--rope-freq-base {_number(values['base'])}"
        yield f"--ctx-size {self.length}"

    def _rule(self, values: Mapping[str, Any]) -> Iterator[str]:
        match self.after.scheme:
            case "rope" | "mrope":
                if self.before.scheme not in _PLAIN:
                    yield "--rope-scaling none"
            case "rope-linear":
                yield f"--rope-scaling linear --rope-scale {_number(values['factor'])}"
            case "rope-yarn":
                self._check_yarn(values)
                yield f"--rope-scaling yarn --rope-scale {_number(values['factor'])}"
                yield f"--yarn-orig-ctx {values[ORIGINAL]}"
                for key, usual in (("beta_fast", 32.0), ("beta_slow", 1.0)):
                    if values.get(key, usual) != usual:
                        yield f"--yarn-{key.replace('_', '-')} {_number(values[key])}"
            case "rope-dynamic":
                raise InvalidInput("llama.cpp has no base that grows with the sequence")
            case "rope-llama3":
                raise InvalidInput(
                    "llama.cpp takes this rule from the tensor rope_freqs, which its converter "
                    "writes: convert the model again with this config"
                )
            case _:
                raise InvalidInput("llama.cpp has no flag for this rule")

    def _check_yarn(self, values: Mapping[str, Any]) -> None:
        """Refuse what llama.cpp's YaRN, which truncates and has an amplitude of its own, has not.

        Raises: InvalidInput.
        """
        if values.get("truncate") is False:
            raise InvalidInput("llama.cpp truncates YaRN's ramp, whatever truncate says")
        if {"attention_factor", "mscale", "mscale_all_dim"} & values.keys():
            raise InvalidInput(
                "llama.cpp multiplies by 1 + 0.1 ln(factor), whatever the config says"
            )


def _same(read: Layers, planned: Layers, length: int) -> bool:
    """Whether two readings rotate pairs alike at a length."""
    return exact_rotation(read, length) == exact_rotation(planned, length)


def _number(value: float) -> str:
    """A number as short as it reads back.

    >>> _number(4.0), _number(40889.9)
    ('4', '40889.9')
    """
    return str(int(value)) if float(value).is_integer() else repr(float(value))


class ExactRotation(Record):
    """The frequencies of all pairs, unrotated ones too, and the factor of cosines and sines."""

    frequencies: tuple[Decimal, ...]
    scale: Any


def exact_rotation(layers: Layers, length: int) -> ExactRotation:
    """The rotation of layers of a rotary scheme at a length of sequence; kept for the next call."""
    values = sorted(layers.values().items())
    return _rotation(layers.scheme, tuple(values), length)


@lru_cache(maxsize=64)
def _rotation(scheme: str, values: tuple[tuple[str, Any], ...], length: int) -> ExactRotation:
    bound = catalogue.find(scheme).bind(dict(values), seq_len=length)
    waves = bound.content.waves
    assert waves is not None
    return ExactRotation(tuple(waves.frequencies(exact)), waves.scale)
