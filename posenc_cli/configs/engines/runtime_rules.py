"""What the rules of all engines share.

A rule takes a :class:`LayerReading`, which is what transformers makes of one kind of layer and what
the file says, and gives the parameters that the runtime sets otherwise. Each runtime's own rules,
and where they were read, stand in a file of its own.
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
DEEPSEEK = frozenset({"deepseek_v2", "deepseek_v3"})
PLAIN_ROPE = frozenset({"rope", "rope-linear"})
SCALED = PLAIN_ROPE | {"rope-yarn", "rope-llama3", "rope-dynamic"}
YARN = frozenset({"rope-yarn"})
LONGROPE = frozenset({"rope-longrope"})
DYNAMIC = frozenset({"rope-dynamic"})
LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe")
HUB = "https://github.com"

Changes = Mapping[str, Any]
"""Parameters of the scheme that a runtime sets otherwise; None leaves one to the scheme's rule.
``scheme`` is the scheme's own name, where the runtime uses another."""


class UnknownReading(InvalidInput):
    """It is not known what a runtime makes of layers: its code was not read for these."""


class OtherLayers(InvalidInput):
    """A runtime rotates, or windows, other layers than the file says, and runs so."""


class LayerReading(Record):
    """One kind of layer as transformers reads it.

    ``scheme`` and ``params`` are what it resolves to. ``rope`` is the mapping of rope parameters
    that holds for these layers, as the file writes it (empty without one); ``container`` the key
    it stands under. ``config`` is the mapping that holds the model's own keys, ``context`` its
    ``max_position_embeddings``.
    ``name`` and ``prefix`` are what errors call the file, and where in it ``config`` stands.
    ``read`` gathers the paths of the keys that a rule reads. ``layer_type`` is what the layers are
    called, and ``layers`` are their numbers, where the file says how many there are.
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
        """The context extension s."""
        return float(self.params.get("factor") or 1)

    @property
    def top(self) -> Keys:
        """The model's own keys, each checked as it is read."""
        return Keys(self.config, name=self.name, prefix=self.prefix, read=self.read)

    @property
    def entry(self) -> Keys:
        """The keys of the rope parameters, each checked as it is read."""
        container = self.container or "rope_scaling"
        prefix = f"{self.prefix}{container}."
        return Keys(self.rope, name=self.name, prefix=prefix, read=self.read)

    @property
    def original(self) -> int:
        """The context the model was trained on first, as transformers reads it."""
        return int(self.params[ORIGINAL])

    @property
    def length(self) -> int:
        """The model's context.

        Raises: InvalidInput when the file does not say it.
        """
        if self.context is None:
            raise InvalidInput("max_position_embeddings is missing, and this engine needs it")
        return self.context


class Runtime(Record):
    """A runtime at the version whose code was read.

    ``model_types`` are those whose rotary embedding was traced through its code, each with the
    schemes for which that was done; elsewhere it is not known what the runtime does. ``files`` are
    the files of their classes, where these are not called as the model type is (one within another
    model goes by its path in the config too). ``around`` are the models around a text model that
    the runtime has, None where that was not asked.
    """

    name: str
    version: str
    model_types: Mapping[str, frozenset[str]]
    files: Mapping[str, str] = fresh(dict)
    around: frozenset[str] | None = None

    def check_around(self, outer: object) -> None:
        """Refuse a model around a text model that is newer than the runtime, or was not read.

        Raises: InvalidInput.
        """
        if self.around is None or outer in self.around or container(str(outer)) is None:
            return
        if not self.around:
            raise not_read(self.name, f"the text model of {outer}")
        raise refused(self.name, f"{self.version} has no model type {outer}")

    def place(self, evidence: str, reading: LayerReading) -> str:
        """Where a difference can be read for this model.

        ``{model}`` is the file of its class, and ``{type}`` its model type.

        >>> mistral = LayerReading("mistral", "rope", {})
        >>> Runtime("engine", "1", {}, {"mistral": "llama"}).place("models/{model}.py", mistral)
        'models/llama.py'
        """
        kind = reading.model_type
        name = self.files.get(reading.prefix + kind) or self.files.get(kind, kind)
        return evidence.replace("{model}", name).replace("{type}", kind)


class RuntimeDifference(Record):
    """One point at which a runtime differs from transformers 5.

    ``evidence`` is where that can be read, as `Runtime.place` takes it. ``rule(reading)`` gives the
    changes, empty where the difference makes none for this config. ``model_types`` limits it, empty
    to none. ``converted`` says that it comes of the converter to the runtime's own files, which
    could hold what is lost. Of the ``refusals`` the first that holds is raised before the rule.
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
        """Whether it concerns a runtime's reading of this kind of layer, converted or not."""
        of_type = not self.model_types or reading.model_type in self.model_types
        known = runtime == self.runtime and (converted or not self.converted)
        return known and of_type and reading.scheme in self.schemes


def of_types(schemes: frozenset[str], *model_types: str) -> dict[str, frozenset[str]]:
    """Model types, each with the same schemes."""
    return dict.fromkeys(model_types, schemes)


def always(**changes: Any) -> Callable[[LayerReading], Changes]:
    """The rule that makes the same changes of every config."""
    return lambda _reading: changes


def not_read(runtime: str, what: str, *, hint: str | None = None) -> UnknownReading:
    """The error that posenc has not read how a runtime's code reads something."""
    return UnknownReading(
        f"--as {runtime}: posenc has not read how its code reads {what}", hint=hint
    )


def refused(runtime: str, why: str) -> InvalidInput:
    """The error that a runtime cannot read a config, and why."""
    return InvalidInput(f"--as {runtime}: {why}")


def other_layers(runtime: str, why: str) -> OtherLayers:
    """The error that a runtime has other layers than the file says, and why."""
    return OtherLayers(f"--as {runtime}: {why}")


class RuntimeRefusal(Record):
    """Why an engine takes no such config: the kind of ``error``, its words, and ``when``.

    ``words(reading)``, where they are not the same for all, are None where it takes the config.
    By default ``when`` holds of every reading.
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
    """A refusal for each of some keys, whose words name the key."""
    return tuple(RuntimeRefusal(error, words.format(key), when=partial(when, key)) for key in keys)


WHOLE_FACTOR = RuntimeRefusal(
    refused,
    lambda r: (
        f"it fails on the whole number {r.rope['factor']} as a factor, not on {r.rope['factor']}.0"
    ),
    when=lambda r: r.scheme == "rope-linear" and isinstance(r.rope.get("factor"), int),
)
"""A linear factor that is written without a point."""
WITHIN_ANOTHER = RuntimeRefusal(
    not_read, lambda r: f"{r.model_type} as the text model of another", when=lambda r: r.prefix
)
"""A text model within a model of text and images or sound."""
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
"""A rope object of gpt-oss without all that its class hands on."""


def lacking(reading: LayerReading, *keys: str) -> str | None:
    """The first of some keys of the model that a file does not state, or states as null."""
    missing = (key for key in keys if reading.config and reading.config.get(key) is None)
    return next(missing, None)


def other_class(reading: LayerReading, classes: Mapping[str, str]) -> str | None:
    """The class that a file names first in place of its model type's, by which an engine goes."""
    named, own = reading.config.get("architectures"), classes.get(reading.model_type)
    return str(named[0]) if named and own and not reading.prefix and named[0] != own else None


def classes_not_read(classes: Mapping[str, str]) -> RuntimeRefusal:
    """The refusal of a file that names another class than these of the model types."""
    return RuntimeRefusal(
        not_read,
        lambda r: f"architectures {other_class(r, classes)} of {r.model_type}",
        when=lambda r: other_class(r, classes),
    )


def original_length(
    reading: LayerReading, runtime: str, *sources: str | int, null: bool = True
) -> int:
    """The original length that the first of some sources states.

    ``entry`` is the rope object and ``top`` what is beside it, ``context`` the model's context; a
    number is a default.

    Raises: InvalidInput where none states it and, unless ``null`` is passed over, where it is null.
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
    where = f"{ORIGINAL} is missing" if "top" in sources else f"the rope object has no {ORIGINAL}"
    raise refused(runtime, f"it fails if {where}")


def full_every(reading: LayerReading, step: int) -> bool:
    """Whether one of so many layers sees everything, by ``layer_types``, else by their pattern."""
    kinds = reading.config.get("layer_types") or ()
    if not kinds:
        return reading.config.get("sliding_window_pattern") in (None, step)
    return all((kind == "full_attention") == (n % step == 0) for n, kind in enumerate(kinds, 1))


def full_layers(step: int, name: str) -> RuntimeRefusal:
    """Every so many layers see everything, whatever the file says."""
    return RuntimeRefusal(
        other_layers,
        f"its graph uses full attention in every {name} layer, regardless of layer_types",
        when=lambda r: not full_every(r, step),
    )


def fails_without(reading: LayerReading, *keys: str) -> str | None:
    """The words for a class that cannot be built without some keys of the model."""
    key = lacking(reading, *keys)
    return key and f"its {reading.model_type} fails on a file without {key}"


def fails_on_null(reading: LayerReading, *keys: str) -> str | None:
    """The words for a rotation that cannot be built where the rope object has a null."""
    nulls = [key for key in keys if key in reading.rope and reading.rope[key] is None]
    return f"it fails if {nulls[0]} is null" if nulls else None


def of_two_contexts(reading: LayerReading, **more: Any) -> Changes:
    """LongRoPE whose s is of the two contexts, whatever factor and attention_factor say.

    Its long factors are those of the file: transformers' PhiMoE alone uses the short ones there.
    """
    own = reading.entry.numbers("long_factor")
    factors = {"long_factor": own.value} if own else {}
    length = {"max_position_embeddings": reading.length}
    return {"factor": None, "attention_factor": None, **length, **factors, **more}


_KEPT = frozenset({"dim", "base", "layout", "partial"})
"""The parameters of a plain rotation."""


def plain(reading: LayerReading) -> dict[str, Any]:
    """A plain rotation in place of a scaled one."""
    return {"scheme": "rope", **dict.fromkeys(name for name in reading.params if name not in _KEPT)}


def null_is_plain(reading: LayerReading) -> Changes:
    """A rope_scaling of null, which transformers takes for one that is missing, is no scaling."""
    return plain(reading) if reading.config.get("rope_scaling", 0) is None else {}


def stated(reading: LayerReading, key: str, *places: str) -> float | None:
    """The number above 0 that the first of some places has: ``entry``, the rope object, or ``top``.

    >>> stated(LayerReading("llama", "rope", {}, {"rope_theta": 5e5}), "rope_theta", "entry", "top")
    500000.0
    """
    found = first(*(getattr(reading, place).number(key) for place in places))
    return None if found is None else float(found.value)


def divided(reading: LayerReading) -> int | None:
    """``hidden_size`` over ``num_attention_heads``, where the file states both."""
    hidden, heads = map(reading.top.count, ("hidden_size", "num_attention_heads"))
    return hidden.value // heads.value if hidden and heads else None


def divided_head(reading: LayerReading) -> Changes:
    """``hidden_size`` over ``num_attention_heads``, whatever ``head_dim`` says."""
    columns = divided(reading)
    return {"dim": columns} if columns is not None and reading.top.count("head_dim") else {}


def always_truncated(reading: LayerReading) -> Changes:
    """Whole pairs as the ends of YaRN's ramp, which is what the scheme does unless told not to."""
    return {} if reading.params.get("truncate", True) else {"truncate": None}


NO_BETA_OF_ZERO = for_keys(
    refused,
    "{} 0: only transformers reads 0 as absent",
    ("beta_fast", "beta_slow"),
    lambda key, r: yarn_weight(r, key) == 0,
)
"""Others take a length over 0 rotations."""
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
    """A partial_rotary_factor that the file states and transformers ignores."""
    share = stated(reading, "partial_rotary_factor", "entry", "top")
    return None if share == reading.params.get("partial", 1.0) else share


def any_share(reading: LayerReading, *, runtime: str) -> Changes:
    """The share that ``partial_rotary_factor`` states, whatever the model.

    Raises: InvalidInput where it makes no pairs.
    """
    return other_share(reading, runtime, stated_share(reading))


def stated_base(reading: LayerReading) -> Changes:
    """A ``rope_theta`` of the top level, where transformers does not look for it."""
    base = stated(reading, "rope_theta", "top")
    return {} if base is None else {"base": base}


def stated_sections(reading: LayerReading) -> Changes:
    """Sections that the rope object has, interleaved where it says so; one position without."""
    if not reading.rope.get("mrope_section"):
        return plain(reading)
    flag = reading.entry.flag("mrope_interleaved")
    return {"interleaved": True if flag and flag.value else None}


def half_share(reading: LayerReading, *, runtime: str) -> Changes:
    """GLM-OCR, whose class is GLM 4's: half of a head rotates unless a share is stated."""
    share = "partial_rotary_factor"
    has_share = reading.entry.has(share) or reading.top.has(share)
    return other_share(reading, runtime, None if has_share else 0.5)


def _other_interval(reading: LayerReading) -> str | None:
    """The words for ``layer_types`` other than ``full_attention_interval`` makes them."""
    interval = reading.top.count(INTERVAL)
    step = interval.value if interval else 4
    other = reading.config.get("layer_types") and not full_every(reading, step)
    return f"it goes by {INTERVAL} {step}, regardless of layer_types" if other else None


BY_INTERVAL = RuntimeRefusal(other_layers, _other_interval)
"""Layers that attend are counted by ``full_attention_interval``, whatever layer_types says."""


MIMO_KEYS = "reads only top-level keys, not rope_parameters"
_MIMO_NUMBERS = ("rope_theta", "swa_rope_theta", "partial_rotary_factor")


def mimo_refusals(*needed: str, nulls: Sequence[str] = _MIMO_NUMBERS) -> tuple[RuntimeRefusal, ...]:
    """Why a class takes no MiMo V2 Flash: keys that it ``needed``, or that may not be null.

    It has other layers than transformers where the model's own list of them says so.
    """
    return (
        WITHIN_ANOTHER,
        RuntimeRefusal(refused, lambda r: fails_without(r, *needed)),
        *for_keys(
            refused, "it fails if {} is null", nulls, lambda key, r: r.config.get(key, 0) is None
        ),
        RuntimeRefusal(
            other_layers,
            "it goes by hybrid_layer_pattern, regardless of layer_types",
            when=lambda r: any(
                [*r.config.get("hybrid_layer_pattern", ())][layer : layer + 1]
                != [int(r.layer_type == "sliding_attention")]
                for layer in r.layers
            ),
        ),
    )


def own_mimo(
    reading: LayerReading, *, runtime: str, base: float | None = None, shared: bool = True
) -> Changes:
    """MiMo V2 Flash by the model's own keys, of which transformers reads none.

    ``base`` is that of a file without, None where the class needs it, and of its sliding layers,
    too, where they have no ``shared`` one; a head rotates whole where no share is stated.
    """
    sliding = reading.layer_type == "sliding_attention"
    theta = stated(reading, "rope_theta", "top")
    if sliding:
        theta = stated(reading, "swa_rope_theta", "top") or (theta if shared else None)
    head = reading.top.count("swa_head_dim" if sliding else "head_dim")
    dim = head.value if head else reading.params["dim"]
    part = stated(reading, "partial_rotary_factor", "top") or 1.0
    check_share(runtime, "partial_rotary_factor", part, dim)
    return {**plain(reading), "dim": dim, "base": theta or base, "partial": part}


def _other_than_fourth(reading: LayerReading) -> bool:
    turning = reading.config.get("no_rope_layers")
    step = reading.config.get("no_rope_layer_interval")
    usual = turning is None or all(
        bool(turns) == (number % 4 != 0) for number, turns in enumerate(turning, 1)
    )
    return not usual or (not turning and step not in (None, 4))


FOURTH_STILL = RuntimeRefusal(
    other_layers,
    "its graph leaves every fourth layer unrotated, regardless of no_rope_layers",
    when=_other_than_fourth,
)
"""Every fourth layer of a Llama 4 is left unrotated, whatever ``no_rope_layers`` says."""


def check_share(runtime: str, source: str, share: float, columns: int) -> None:
    """Hold a share of a head's columns to one that makes pairs.

    Raises: InvalidInput.
    """
    turned = int(columns * share)
    if not 2 <= turned <= columns or turned % 2:
        raise refused(
            runtime,
            f"{source} {share:g} of {columns} columns rotates {turned}: "
            f"pairs need an even number of them, from 2 to {columns}",
        )


def other_share(
    reading: LayerReading,
    runtime: str,
    share: float | None,
    *,
    source: str = "partial_rotary_factor",
) -> Changes:
    """A share of a head's columns, where there is one and it is not that of transformers.

    Raises: InvalidInput where it makes no pairs.
    """
    if share is None or share == reading.params.get("partial", 1.0):
        return {}
    check_share(runtime, source, share, reading.params["dim"])
    return {"partial": None if share == 1 else share}


def nested_truncate(reading: LayerReading) -> Changes:
    """VLLM reads ``truncate`` where transformers does not look for it."""
    truncate = reading.entry.flag("truncate")
    return {} if truncate is None else {"truncate": truncate.value}


def magnitude_ratio(reading: LayerReading, runtime: str, own: float = 1.0) -> Changes:
    """YaRN of DeepSeek's kind: its ramp always truncated, g(mscale)/g(mscale_all_dim) · own.

    The two weights are 1 and 0 where they are missing.
    """
    weight, all_dim = mscales(reading, runtime)
    return {**yarn_amplitude(reading, weight, all_dim, own), **always_truncated(reading)}


def yarn_amplitude(
    reading: LayerReading, weight: float, all_dim: float, own: float = 1.0
) -> Changes:
    """The amplitude g(weight)/g(all_dim) · own, by the parameters of the rule where it has them."""
    if own == 1 and weight and all_dim:
        return {"attention_factor": None, "mscale": weight, "mscale_all_dim": all_dim}
    if own == 1 and weight == 1:  # the rule's own amplitude
        return {"attention_factor": None, "mscale": None, "mscale_all_dim": None}
    return {
        "attention_factor": yarn_factor(reading.factor, weight)
        / yarn_factor(reading.factor, all_dim)
        * own,
        "mscale": None,
        "mscale_all_dim": None,
    }


def mscales(reading: LayerReading, runtime: str) -> tuple[float, float]:
    """What vLLM's DeepSeek takes for mscale and mscale_all_dim, 1 and 0 where they are missing."""
    names = ("mscale", "mscale_all_dim")
    if fails_on_null(reading, *names):
        raise refused(runtime, "it fails if an mscale is null")
    weight, all_dim = (yarn_weight(reading, name) for name in names)
    return 1.0 if weight is None else weight, all_dim or 0.0


def yarn_weight(reading: LayerReading, name: str) -> float | None:
    """A number of the rope object that may be 0, such as ``mscale``; None without one."""
    weight = reading.entry.number(name, minimum=0)
    return None if weight is None else float(weight.value)
