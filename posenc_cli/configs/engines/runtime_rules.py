"""What the rules of all engines share.

A rule takes a :class:`LayerReading`, one kind of layer as transformers reads it plus the keys of
the file, and returns the parameters that the engine reads differently. Each engine's own rules, and
the places where they were read, are in a file per engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from posenc_cli.configs.families import container
from posenc_cli.configs.keys import Keys, first
from posenc_cli.configs.rope_rules import yarn_factor
from posenc_cli.errors import InvalidInput
from posenc_cli.records import Record, fresh

ORIGINAL = "original_max_position_embeddings"
INTERVAL = "full_attention_interval"
SHARE = "partial_rotary_factor"
DEEPSEEK = frozenset({"deepseek_v2", "deepseek_v3"})
PLAIN_ROPE = frozenset({"rope", "rope-linear"})
SCALED = PLAIN_ROPE | {"rope-yarn", "rope-llama3", "rope-dynamic"}
YARN = frozenset({"rope-yarn"})
LONGROPE = frozenset({"rope-longrope"})
DYNAMIC = frozenset({"rope-dynamic"})
LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe")
HUB = "https://github.com"

Changes = Mapping[str, Any]
"""Parameters of the scheme that a runtime sets differently; None means the scheme's default.
``scheme`` is the name of the scheme, if the runtime uses another one.
"""


class UnknownReading(InvalidInput):
    """It is not known how a runtime reads these layers: its code was not read for them."""


class OtherLayers(InvalidInput):
    """A runtime rotates, or windows, other layers than the file says, without an error."""


class LayerReading(Record):
    """One kind of layer as transformers reads it.

    ``scheme`` and ``params`` are the encoding. ``rope`` is the object with these layers' rope
    parameters, as the file writes it (empty without one), and ``container`` the key that holds it.
    ``config`` is the object with the model's own keys, and ``context`` its
    ``max_position_embeddings``. Errors use ``name`` for the file and ``prefix`` for the path of
    ``config`` in it. ``read`` collects the paths of the keys that a rule reads. ``layer_type`` is
    the config's name for the layers, and ``layers`` are their numbers, if the file says how many
    there are.
    """

    model_type: str
    scheme: str
    params: Mapping[str, Any]
    config: Mapping[str, Any] = fresh(dict)
    rope: Mapping[str, Any] = fresh(dict)
    container: str = ""
    context: int | None = None
    name: str = "config.json"
    prefix: str = ""
    read: set[str] = fresh(set)
    layer_type: str | None = None
    layers: tuple[int, ...] = ()

    @property
    def scaling(self) -> Mapping[str, Any]:
        """The file's ``rope_scaling``, empty without one."""
        return self.config.get("rope_scaling") or {}

    @property
    def factor(self) -> float:
        """The factor s of the context extension."""
        return float(self.params.get("factor") or 1)

    @property
    def top(self) -> Keys:
        """The model's own keys, each checked as it is read."""
        return Keys(self.config, name=self.name, prefix=self.prefix, read=self.read)

    @property
    def entry(self) -> Keys:
        """The keys of the rope parameters, each checked as it is read."""
        container = self.container or "rope_scaling"
        return Keys(self.rope, name=self.name, prefix=f"{self.prefix}{container}.", read=self.read)

    @property
    def original(self) -> int:
        """The original context, as transformers reads it."""
        return int(self.params[ORIGINAL])

    @property
    def length(self) -> int:
        """The model's context.

        Raises: InvalidInput if the file does not state it.
        """
        if self.context is None:
            raise InvalidInput("max_position_embeddings is missing, and this engine needs it")
        return self.context


class Runtime(Record):
    """A runtime at the version whose code was read.

    ``model_types`` are the model types whose rotary embedding was traced through its code, each
    with the schemes that were traced. All others are unknown. ``files`` are the files of their
    classes, if they are not named after the model type; a model inside another one is also found by
    its path in the config. ``around`` are the outer models that the runtime supports for a text
    model; None means that they are not checked.
    """

    name: str
    version: str
    model_types: Mapping[str, frozenset[str]]
    files: Mapping[str, str] = fresh(dict)
    around: frozenset[str] | None = None

    def check_around(self, outer: object) -> None:
        """Refuse an outer model that the runtime does not have, or whose text model was not read.

        Raises: InvalidInput.
        """
        if self.around is None or outer in self.around or container(str(outer)) is None:
            return
        if not self.around:
            raise not_read(self.name, f"the text model of {outer}")
        raise refused(self.name, f"{self.version} has no model type {outer}")

    def place(self, evidence: str, reading: LayerReading) -> str:
        """Return the place in the runtime's code that shows a difference for this model.

        In ``evidence``, ``{model}`` is the file of the model's class, ``{type}`` the model type.

        >>> mistral = LayerReading("mistral", "rope", {})
        >>> Runtime("engine", "1", {}, {"mistral": "llama"}).place("models/{model}.py", mistral)
        'models/llama.py'
        """
        kind = reading.model_type
        name = self.files.get(reading.prefix + kind) or self.files.get(kind, kind)
        return evidence.replace("{model}", name).replace("{type}", kind)


class RuntimeDifference(Record):
    """A difference between a runtime and transformers 5.

    ``evidence`` is the place in the runtime's code, as `Runtime.place` reads it. ``rule(reading)``
    returns the changes; they are empty if this config is read alike. ``model_types`` are the model
    types that it concerns; empty means all. ``converted`` means that the converter to the runtime's
    own files causes it; such a file could hold the lost setting. The first of the ``refusals`` that
    holds is raised before the rule runs.
    """

    runtime: str
    topic: str
    schemes: frozenset[str]
    what: str
    evidence: str
    rule: Callable[[LayerReading], Changes]
    model_types: frozenset[str] = frozenset()
    converted: bool = False
    refusals: tuple[RuntimeRefusal, ...] = ()

    def applies(self, runtime: str, reading: LayerReading, *, converted: bool) -> bool:
        """Return whether it concerns this kind of layer in a runtime, converted or not."""
        of_type = not self.model_types or reading.model_type in self.model_types
        known = runtime == self.runtime and (converted or not self.converted)
        return known and of_type and reading.scheme in self.schemes


def of_types(schemes: frozenset[str], *model_types: str) -> dict[str, frozenset[str]]:
    """Return a mapping of model types to the same schemes."""
    return dict.fromkeys(model_types, schemes)


def always(**changes: Any) -> Callable[[LayerReading], Changes]:
    """Return a rule that makes the same changes for every config."""
    return lambda _reading: changes


def not_read(runtime: str, what: str, *, hint: str | None = None) -> UnknownReading:
    """Return the error for a config that was not checked in a runtime's code."""
    return UnknownReading(f"--as {runtime}: its code was not checked for {what}", hint=hint)


def refused(runtime: str, why: str) -> InvalidInput:
    """Return the error for a config that a runtime cannot read."""
    return InvalidInput(f"--as {runtime}: {why}")


def other_layers(runtime: str, why: str) -> OtherLayers:
    """Return the error for a runtime that has other layers than the file says."""
    return OtherLayers(f"--as {runtime}: {why}")


class RuntimeRefusal(Record):
    """A reason why an engine does not read a config: the ``error``, its words, and ``when``.

    ``words`` may be a function of the reading; it returns None if the engine reads the config.
    The default of ``when`` is every reading.
    """

    error: Callable[[str, str], InvalidInput]
    words: str | Callable[[LayerReading], str | None]
    when: Callable[[LayerReading], object] = bool

    def check(self, runtime: str, reading: LayerReading) -> None:
        """Refuse a config.

        Raises: InvalidInput.
        """
        if self.when(reading):
            words = self.words if isinstance(self.words, str) else self.words(reading)
            if words is not None:
                raise self.error(runtime, words)


def for_keys(
    error: Callable[[str, str], InvalidInput],
    words: str,
    keys: Sequence[str],
    when: Callable[[str, LayerReading], object],
) -> tuple[RuntimeRefusal, ...]:
    """Return one refusal for each key; its words and its condition are given the key."""
    return tuple(RuntimeRefusal(error, words.format(key), when=partial(when, key)) for key in keys)


WHOLE_FACTOR = RuntimeRefusal(
    refused,
    lambda r: (
        f"it fails on the whole number {r.rope['factor']} as a factor, not on {r.rope['factor']}.0"
    ),
    when=lambda r: r.scheme == "rope-linear" and isinstance(r.rope.get("factor"), int),
)
"""A linear factor that is written as an integer."""
WITHIN_ANOTHER = RuntimeRefusal(
    not_read, lambda r: f"{r.model_type} as the text model of another", when=lambda r: r.prefix
)
"""A text model inside a model of text and images or sound."""
GPT_OSS_WITHOUT_YARN = RuntimeRefusal(
    refused,
    "its gpt-oss fails if it is not scaled by yarn",
    when=lambda r: r.model_type == "gpt_oss" and r.scheme != "rope-yarn",
)
GPT_OSS_KEYS = for_keys(
    refused,
    "its gpt-oss fails on a rope object without {}",
    ("factor", "beta_fast", "beta_slow"),
    lambda key, r: r.model_type == "gpt_oss" and r.config and r.rope and key not in r.rope,
)
"""A rope object of gpt-oss without every key that its class passes on."""


def missing_key(reading: LayerReading, *keys: str) -> str | None:
    """Return the first of some model keys that the file lacks or sets to null, or None."""
    return next((key for key in keys if reading.config and reading.config.get(key) is None), None)


def other_class(reading: LayerReading, classes: Mapping[str, str]) -> str | None:
    """Return the first class in ``architectures`` if it is not the model type's, or None.

    Engines that choose the class by this key then read the config as that class.
    """
    named, own = reading.config.get("architectures"), classes.get(reading.model_type)
    return str(named[0]) if named and own and not reading.prefix and named[0] != own else None


def classes_not_read(classes: Mapping[str, str]) -> RuntimeRefusal:
    """Return the refusal of a file that names another class than its model type's."""
    return RuntimeRefusal(
        not_read,
        lambda r: f"architectures {other_class(r, classes)} of {r.model_type}",
        when=lambda r: other_class(r, classes),
    )


def original_length(
    reading: LayerReading, runtime: str, *sources: str | int, null: bool = True
) -> int:
    """Return the original length from the first source that states it.

    The sources are ``entry`` (the rope object), ``top`` (the keys beside it), ``context`` (the
    model's context), or a number, which is a default.

    Raises: InvalidInput if no source states it, or if one is null and ``null`` is false.
    """
    for source in sources:
        if not isinstance(source, str):
            return source
        if source == "context":
            return reading.length
        keys = reading.entry if source == "entry" else reading.top
        if (own := keys.count(ORIGINAL)) is not None:
            return int(own.value)
        if not null and keys.has(ORIGINAL):
            raise refused(runtime, f"it fails if {ORIGINAL} is null")
    problem = f"{ORIGINAL} is missing" if "top" in sources else f"the rope object has no {ORIGINAL}"
    raise refused(runtime, f"it fails if {problem}")


def full_every(reading: LayerReading, step: int) -> bool:
    """Return whether full attention is in every ``step``-th layer and in no other.

    ``layer_types`` decides, or ``sliding_window_pattern`` without it.
    """
    kinds = reading.config.get("layer_types") or ()
    if not kinds:
        return reading.config.get("sliding_window_pattern") in (None, step)
    return all((kind == "full_attention") == (n % step == 0) for n, kind in enumerate(kinds, 1))


def full_layers(step: int, name: str) -> RuntimeRefusal:
    """Return the refusal of layer types other than full attention in every ``step``-th layer."""
    return RuntimeRefusal(
        other_layers,
        f"its graph uses full attention in every {name} layer, regardless of layer_types",
        when=lambda r: not full_every(r, step),
    )


def fails_without(reading: LayerReading, *keys: str) -> str | None:
    """Return the error text for the first missing key that a model's class needs, or None."""
    key = missing_key(reading, *keys)
    return key and f"its {reading.model_type} fails on a file without {key}"


def fails_on_null(reading: LayerReading, *keys: str) -> str | None:
    """Return the error text for the first of some rope keys that is null, or None."""
    nulls = [key for key in keys if key in reading.rope and reading.rope[key] is None]
    return f"it fails if {nulls[0]} is null" if nulls else None


def longrope_from_contexts(reading: LayerReading, **more: Any) -> Changes:
    """Return LongRoPE's changes if s is the ratio of the two contexts.

    Such an engine ignores factor and attention_factor. It uses the file's long factors, where
    transformers' PhiMoE, alone, uses the short ones.
    """
    own = reading.entry.numbers("long_factor")
    factors = {"long_factor": own.value} if own else {}
    length = {"max_position_embeddings": reading.length}
    return {"factor": None, "attention_factor": None, **length, **factors, **more}


_PLAIN_PARAMS = frozenset({"dim", "base", "layout", "partial"})
"""The parameters of an unscaled rotation."""


def plain(reading: LayerReading) -> dict[str, Any]:
    """Return the changes that replace a scaled rotation by an unscaled one."""
    return {
        "scheme": "rope",
        **dict.fromkeys(name for name in reading.params if name not in _PLAIN_PARAMS),
    }


def null_is_plain(reading: LayerReading) -> Changes:
    """Return an unscaled rotation if ``rope_scaling`` is null.

    transformers reads null as a missing key.
    """
    return plain(reading) if reading.config.get("rope_scaling", 0) is None else {}


def stated(reading: LayerReading, key: str, *places: str) -> float | None:
    """Return a number above 0 from the first place that states it, or None.

    The places are ``entry`` (the rope object) and ``top`` (the keys beside it).

    >>> stated(LayerReading("llama", "rope", {}, {"rope_theta": 5e5}), "rope_theta", "entry", "top")
    500000.0
    """
    found = first(*(getattr(reading, place).number(key) for place in places))
    return None if found is None else float(found.value)


def dimensions_per_head(reading: LayerReading) -> int | None:
    """Return ``hidden_size // num_attention_heads`` if the file states both, or None."""
    hidden, heads = map(reading.top.count, ("hidden_size", "num_attention_heads"))
    return hidden.value // heads.value if hidden and heads else None


def divided_head(reading: LayerReading) -> Changes:
    """Return ``hidden_size // num_attention_heads`` as the head size if ``head_dim`` is stated."""
    head_size = dimensions_per_head(reading)
    return {"dim": head_size} if head_size is not None and reading.top.count("head_dim") else {}


def always_truncated(reading: LayerReading) -> Changes:
    """Return YaRN's default for ``truncate``: the ends of its ramp are whole pairs."""
    return {} if reading.params.get("truncate", True) else {"truncate": None}


NO_BETA_OF_ZERO = for_keys(
    refused,
    "{} 0: only transformers reads 0 as absent",
    ("beta_fast", "beta_slow"),
    lambda key, r: yarn_weight(r, key) == 0,
)
"""A beta of 0: other engines divide a length by 0 rotations."""
EXTRAPOLATED = RuntimeRefusal(
    refused,
    "extrapolation_factor has no counterpart in rope-yarn",
    when=lambda r: r.rope.get("extrapolation_factor", 1) != 1,
)
NO_MROPE = RuntimeRefusal(
    refused,
    "it does not know the rope type mrope",
    when=lambda r: "mrope" in (r.rope.get("rope_type"), r.rope.get("type")),
)


def stated_share(reading: LayerReading) -> float | None:
    """Return a stated partial_rotary_factor that transformers ignores, or None."""
    share = stated(reading, SHARE, "entry", "top")
    return None if share == reading.params.get("partial", 1.0) else share


def any_share(reading: LayerReading, *, runtime: str) -> Changes:
    """Return the share that ``partial_rotary_factor`` states, for any model.

    Raises: InvalidInput if it does not give whole pairs.
    """
    return other_share(reading, runtime, stated_share(reading))


def stated_base(reading: LayerReading) -> Changes:
    """Return the base of a top-level ``rope_theta``, which transformers does not read here."""
    base = stated(reading, "rope_theta", "top")
    return {} if base is None else {"base": base}


def stated_sections(reading: LayerReading) -> Changes:
    """Return whether the stated sections are interleaved.

    Without sections, the rotation has one position per token.
    """
    if not reading.rope.get("mrope_section"):
        return plain(reading)
    flag = reading.entry.flag("mrope_interleaved")
    return {"interleaved": True if flag and flag.value else None}


def half_share(reading: LayerReading, *, runtime: str) -> Changes:
    """Return a share of one half, unless the file states one.

    This is GLM-OCR, which uses the class of GLM 4.
    """
    has_share = reading.entry.has(SHARE) or reading.top.has(SHARE)
    return other_share(reading, runtime, None if has_share else 0.5)


def _interval_refusal_text(reading: LayerReading) -> str | None:
    """Return the error text for ``layer_types`` that differ from ``full_attention_interval``."""
    interval = reading.top.count(INTERVAL)
    step = interval.value if interval else 4
    other = reading.config.get("layer_types") and not full_every(reading, step)
    return f"it uses {INTERVAL} {step}, regardless of layer_types" if other else None


BY_INTERVAL = RuntimeRefusal(other_layers, _interval_refusal_text)
"""Attention layers chosen by ``full_attention_interval``, regardless of layer_types."""


MIMO_KEYS = "reads only top-level keys, not rope_parameters"
_MIMO_NUMBERS = ("rope_theta", "swa_rope_theta", SHARE)


def mimo_refusals(*needed: str, nulls: Sequence[str] = _MIMO_NUMBERS) -> tuple[RuntimeRefusal, ...]:
    """Return why a class does not read a MiMo V2 Flash config.

    ``needed`` keys must be stated, and ``nulls`` are the keys that must not be null. The layers
    follow ``hybrid_layer_pattern``, which may differ from transformers' ``layer_types``.
    """
    return (
        WITHIN_ANOTHER,
        RuntimeRefusal(refused, lambda r: fails_without(r, *needed)),
        *for_keys(
            refused, "it fails if {} is null", nulls, lambda key, r: r.config.get(key, 0) is None
        ),
        RuntimeRefusal(
            other_layers,
            "it uses hybrid_layer_pattern, regardless of layer_types",
            when=lambda r: any(
                [*r.config.get("hybrid_layer_pattern", ())][layer : layer + 1]
                != [int(r.layer_type == "sliding_attention")]
                for layer in r.layers
            ),
        ),
    )


def mimo_changes(
    reading: LayerReading, *, runtime: str, base: float | None = None, shared: bool = True
) -> Changes:
    """Return MiMo V2 Flash as its top-level keys state it; transformers reads none of them.

    ``base`` is the default base; None if the class needs the key. Sliding layers without their own
    base use that of the other layers if ``shared``, else the default. Without a stated share, the
    whole head rotates.
    """
    sliding = reading.layer_type == "sliding_attention"
    theta = stated(reading, "rope_theta", "top")
    if sliding:
        theta = stated(reading, "swa_rope_theta", "top") or (theta if shared else None)
    head = reading.top.count("swa_head_dim" if sliding else "head_dim")
    dim = head.value if head else reading.params["dim"]
    part = stated(reading, SHARE, "top") or 1.0
    check_share(runtime, SHARE, part, dim)
    return {**plain(reading), "dim": dim, "base": theta or base, "partial": part}


def _not_every_fourth(reading: LayerReading) -> bool:
    pattern = reading.config.get("no_rope_layers")
    step = reading.config.get("no_rope_layer_interval")
    usual = pattern is None or all(
        bool(rotated) == (number % 4 != 0) for number, rotated in enumerate(pattern, 1)
    )
    return not usual or (not pattern and step not in (None, 4))


FOURTH_UNROTATED = RuntimeRefusal(
    other_layers,
    "its graph leaves every fourth layer unrotated, regardless of no_rope_layers",
    when=_not_every_fourth,
)
"""Every fourth layer unrotated, as in Llama 4, regardless of ``no_rope_layers``."""


def check_share(runtime: str, source: str, share: float, head_size: int) -> None:
    """Refuse a share of the head that does not give whole pairs.

    Raises: InvalidInput.
    """
    rotary_dim = int(head_size * share)
    if not 2 <= rotary_dim <= head_size or rotary_dim % 2:
        raise refused(
            runtime,
            f"{source} {share:g} of {head_size} columns rotates {rotary_dim}: "
            f"pairs need an even number of them, from 2 to {head_size}",
        )


def other_share(
    reading: LayerReading,
    runtime: str,
    share: float | None,
    *,
    source: str = SHARE,
) -> Changes:
    """Return a share of the head if it differs from transformers'.

    Raises: InvalidInput if it does not give whole pairs.
    """
    if share is None or share == reading.params.get("partial", 1.0):
        return {}
    check_share(runtime, source, share, reading.params["dim"])
    return {"partial": None if share == 1 else share}


def nested_truncate(reading: LayerReading) -> Changes:
    """Return ``truncate`` from the rope object, where transformers does not look for it."""
    truncate = reading.entry.flag("truncate")
    return {} if truncate is None else {"truncate": truncate.value}


def magnitude_ratio(reading: LayerReading, runtime: str, own: float = 1.0) -> Changes:
    """Return DeepSeek's YaRN: the amplitude g(mscale)/g(mscale_all_dim) · own, always truncated.

    Missing weights are 1 and 0.
    """
    weight, all_dim = mscales(reading, runtime)
    return {**yarn_amplitude(reading, weight, all_dim, own), **always_truncated(reading)}


def yarn_amplitude(
    reading: LayerReading, weight: float, all_dim: float, own: float = 1.0
) -> Changes:
    """Return the amplitude g(weight)/g(all_dim) · own.

    It is expressed by the scheme's mscale parameters if they can, else by attention_factor.
    """
    if own == 1 and weight and all_dim:
        return {"attention_factor": None, "mscale": weight, "mscale_all_dim": all_dim}
    if own == 1 and weight == 1:  # the scheme's default amplitude
        return {"attention_factor": None, "mscale": None, "mscale_all_dim": None}
    return {
        "attention_factor": yarn_factor(reading.factor, weight)
        / yarn_factor(reading.factor, all_dim)
        * own,
        "mscale": None,
        "mscale_all_dim": None,
    }


def amplitude_of_both(reading: LayerReading, own: float = 1.0) -> Changes:
    """Return the amplitude g(mscale)/g(mscale_all_dim) · own, or g(1) · own without both."""
    weight, all_dim = (yarn_weight(reading, name) for name in ("mscale", "mscale_all_dim"))
    if weight is None or all_dim is None:
        weight, all_dim = 1.0, 0.0
    return yarn_amplitude(reading, weight, all_dim, own)


def mscales(reading: LayerReading, runtime: str) -> tuple[float, float]:
    """Return mscale and mscale_all_dim as vLLM's DeepSeek reads them: 1 and 0 if missing.

    Raises: InvalidInput if either is null.
    """
    names = ("mscale", "mscale_all_dim")
    if fails_on_null(reading, *names):
        raise refused(runtime, "it fails if an mscale is null")
    weight, all_dim = (yarn_weight(reading, name) for name in names)
    return 1.0 if weight is None else weight, all_dim or 0.0


def yarn_weight(reading: LayerReading, name: str) -> float | None:
    """Return a number of the rope object that may be 0, such as ``mscale``, or None."""
    weight = reading.entry.number(name, minimum=0)
    return None if weight is None else float(weight.value)
