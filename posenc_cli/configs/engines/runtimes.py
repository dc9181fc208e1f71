"""How other engines read the same config: their differences, as data.

transformers 5 is the reference. Each entry of :data:`DIFFERENCES` is one point at which another
runtime computes something else, read in its code at the version that its :class:`Runtime` names.
posenc guesses nothing: it refuses what was not read. Each runtime's rows are beside its rules, in a
file per runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.engines import (
    converter_rules,
    exllama_rules,
    llama_cpp_rules,
    mlx_rules,
    sglang_rules,
    tensorrt_llm_rules,
    transformers_rules,
    vllm_rules,
)
from posenc_cli.configs.engines.runtime_rules import (
    LayerReading,
    OtherLayers,
    Runtime,
    RuntimeDifference,
    UnknownReading,
    not_read,
)
from posenc_cli.configs.resolved import TRANSFORMERS, Departure, Layers, Sourced
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from posenc_cli.configs.keys import Keys
    from posenc_cli.configs.text_models import TextModel

__all__ = [
    "DIFFERENCES",
    "RUNTIMES",
    "Adjusted",
    "LayerReading",
    "OtherLayers",
    "Runtime",
    "RuntimeDifference",
    "UnknownReading",
    "adjust",
    "find",
    "read_as",
]


class Adjusted(Record):
    """A scheme and its parameters as a runtime reads them, and the reasons for each difference.

    ``reasons`` maps each parameter that differs (and ``scheme``) to its difference. ``read`` are
    the paths of the keys that the differences were read from.
    """

    scheme: str
    params: Mapping[str, Any]
    reasons: Mapping[str, RuntimeDifference]
    read: frozenset[str] = frozenset()


def find(name: str) -> Runtime:
    """Return the runtime with this name.

    Raises: InvalidInput with the nearest name as a hint.

    >>> find("vllm").version
    '0.33.0'
    """
    if name not in RUNTIMES:
        known = ", ".join(RUNTIMES)
        raise InvalidInput(
            f"--as {abbreviated(name)}: must be one of {known}", hint=nearest(name, RUNTIMES)
        )
    return RUNTIMES[name]


def read_as(runtime: str, reading: LayerReading, *, converted: bool = True) -> Adjusted:
    """Return a runtime's reading of what transformers reads, in plain values.

    Without ``converted``, the losses of a converter to the runtime's own files are left out.

    Raises: InvalidInput for an unknown runtime, or if its reading of these layers is unknown.
    """
    known = find(runtime)
    if runtime == TRANSFORMERS:
        return Adjusted(reading.scheme, reading.params, {})
    if reading.scheme not in known.model_types.get(reading.model_type, frozenset()):
        hint = f"known of {known.name}: {', '.join(sorted(known.model_types))}"
        raise not_read(
            runtime, f"the encoding of {reading.model_type} ({reading.scheme})", hint=hint
        )
    scheme, params = reading.scheme, dict(reading.params)
    reasons: dict[str, RuntimeDifference] = {}
    read: set[str] = set()
    for difference in DIFFERENCES:
        if not difference.applies(runtime, reading, converted=converted):
            continue
        asked = replace(reading, read=set())
        for refusal in difference.refusals:
            refusal.check(runtime, asked)
        changes = dict(difference.rule(asked))
        if changes:
            read |= asked.read
        scheme = changes.pop("scheme", scheme)
        changed = [name for name, value in changes.items() if params.get(name) != value]
        params = {name: value for name, value in {**params, **changes}.items() if value is not None}
        reasons |= dict.fromkeys(changed, difference)
        if scheme != reading.scheme:
            reasons["scheme"] = difference
            break  # all other differences are in rules of the scheme that is not used
    return Adjusted(scheme, params, reasons, frozenset(read))


def adjust(
    layers: Layers, rope: Keys | None, model: TextModel, *, runtime: str, converted: bool = True
) -> tuple[Layers, tuple[Departure, ...], frozenset[str]]:
    """Return layers as a runtime reads them, the differences, and the key paths read for them.

    ``rope`` is the layers' rope object in the config of ``model``, None without one; ``converted``
    is that of `read_as`.

    Raises: InvalidInput for an unknown runtime, or if its reading of these layers is unknown.
    """
    known = find(runtime)
    known_schemes = known.model_types.get(model.model_type, frozenset())
    if layers.scheme == "nope" and known_schemes and "nope" not in known_schemes:
        return layers, (), frozenset()
    context, top = layers.derived.get("context"), model.keys
    _check_objects(top)
    sections = layers.params.get("sections")
    if sections is not None and sections.source.startswith("derived:"):
        raise not_read(runtime, "sections that do not fit the head")
    reading = LayerReading(
        model_type=model.model_type,
        scheme=layers.scheme,
        params=layers.values(),
        config=top.values,
        rope={} if rope is None else rope.values,
        container="" if top.values.get("rope_parameters") is None else "rope_parameters",
        context=context.value if context else None,
        name=top.name,
        prefix=top.prefix,
        layer_type=layers.layer_type,
        layers=layers.layers,
    )
    result = read_as(runtime, reading, converted=converted)
    top.read.update(result.read)
    params = {
        name: layers.params[name]
        if name in layers.params and layers.params[name].value == value
        else Sourced(value, f"{runtime}: {result.reasons[name].topic}")
        for name, value in result.params.items()
    }
    departures = dict.fromkeys(
        Departure(
            runtime,
            known.version,
            reason.topic,
            reason.what,
            known.place(reason.evidence, reading),
        )
        for reason in result.reasons.values()
    )
    read = result.read if departures else frozenset()
    reason = result.reasons.get("scheme")
    derived = {
        **layers.derived,
        **(
            {"rope_type": Sourced(result.scheme, f"{runtime}: {reason.topic}")}
            if reason is not None
            else {}
        ),
    }
    adjusted = replace(layers, scheme=result.scheme, params=params, derived=derived)
    return adjusted, tuple(departures), read


def _check_objects(top: Keys) -> None:
    """Refuse rope keys that are not objects, which transformers may ignore but the rules read."""
    for key in ("rope_scaling", "rope_parameters"):
        if not isinstance(top.values.get(key), Mapping | None):
            raise top.invalid(key, "must be an object")


RUNTIMES: Mapping[str, Runtime] = {
    runtime.name: runtime
    for runtime in (
        Runtime(TRANSFORMERS, "5.24", {}),
        *transformers_rules.RUNTIMES,
        *vllm_rules.RUNTIMES,
        sglang_rules.RUNTIME,
        mlx_rules.RUNTIME,
        llama_cpp_rules.RUNTIME,
        converter_rules.ONNX_RUNTIME,
        exllama_rules.RUNTIME,
        tensorrt_llm_rules.RUNTIME,
        converter_rules.CANDLE_RUNTIME,
        converter_rules.MEGATRON_RUNTIME,
    )
}
"""The runtimes by name, transformers 5 first."""

DIFFERENCES: tuple[RuntimeDifference, ...] = (
    *transformers_rules.DIFFERENCES,
    *vllm_rules.DIFFERENCES,
    *sglang_rules.DIFFERENCES,
    *mlx_rules.DIFFERENCES,
    *llama_cpp_rules.DIFFERENCES,
    *converter_rules.DIFFERENCES,
    *exllama_rules.DIFFERENCES,
    *tensorrt_llm_rules.DIFFERENCES,
)
"""All known differences; those of a runtime are in the order in which they apply."""
