"""Find the settings that a converted model file lost, key by key.

Two readings are compared layer by layer. Frequencies and amplitudes decide whether two rotations
are the same, however they are configured. If they differ, the parameters that differ are reported.
GGUF stores float32, so numbers may differ by :data:`CLOSE`.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.configs.gguf.gguf_architectures import (
    ARCHITECTURES,
    CONTEXTS,
    FREQS,
    OF_MODEL_TYPES,
)
from posenc_cli.configs.gguf.gguf_model import NOUN
from posenc_cli.configs.keys import ORIGINAL
from posenc_cli.configs.resolved import (
    BIAS_TABLES,
    WINDOWS,
    WINDOWS_UNREAD,
    Layers,
    Resolved,
    Sourced,
)
from posenc_cli.configs.scores import SCORES
from posenc_cli.positions import range_texts
from posenc_cli.records import Record, fresh
from posenc_cli.rotary.lengths import length_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from posenc_cli.files.reading import Loaded
    from posenc_cli.numerics.arrays import Reals

CLOSE = 1e-5
"""Relative error due to float32: 6e-8 for a factor, up to 1e-5 for divisors that the converter
computes from a power of the base in float32."""

NAMES = {
    "architecture": "the architecture, which decides whether q and k are permuted",
    "encoding": "the kind of encoding",
    "layers": "number of layers",
    "sliding-layers": "layers with sliding-window attention",
    "unturned-layers": "layers without rotation",
    "window": "sliding window, in positions",
    "context": "maximum context, in positions",
    "head-dim": "head dim",
    "rotary-width": "rotary dim",
    "layout": "which dimensions form a pair",
    "base": "base (rope_theta)",
    "sliding-base": "base of the sliding-window layers",
    "scaling-type": "RoPE scaling type",
    "factor": "RoPE scaling factor",
    "original-length": "original context length",
    "beta-fast": "YaRN's beta_fast, in rotations",
    "beta-slow": "YaRN's beta_slow, in rotations",
    "truncate": "whether YaRN's ramp starts and ends at whole pairs",
    "llama3-factors": "Llama 3.1's scaling",
    "low-freq-factor": "Llama 3.1's low_freq_factor",
    "high-freq-factor": "Llama 3.1's high_freq_factor",
    "short-factors": "LongRoPE's short factors",
    "long-factors": "LongRoPE's long factors",
    "taken-factors": "which of the two lists the context selects",
    "attention-factor": "factor on cos and sin",
    "softmax-factor": "factor on the logits beside the rotation",
    "attention-scale": "factor on the logits, usually 1/√d",
    "softcap": "logit soft cap",
    "temperature-scale": "growth of the logits with the query's position",
    "temperature-length": "position from which they grow",
    "sections": "which pairs follow which axis",
    "axes-order": "whether axes alternate pair by pair",
    "heads": "number of heads of ALiBi or T5's table",
    "max-bias": "ALiBi's max_bias",
    "buckets": "number of T5's buckets",
    "max-distance": "T5's max distance",
    "bias-tables": "whether all layers share one table of biases, or each has its own",
    "rows": "number of rows of a trained table",
    "first-row": "row of that table for the first position",
    "columns": "number of columns",
    "frequencies": "frequencies, for another reason",
    "other-keys": "rotary keys of two GGUF files that llama.cpp does not read, or without effect",
}
"""Every name of a loss, and its meaning."""

_PARAMETERS = {
    "factor": "factor",
    ORIGINAL: "original-length",
    "low_freq_factor": "low-freq-factor",
    "high_freq_factor": "high-freq-factor",
    "short_factor": "short-factors",
    "long_factor": "long-factors",
    "beta_fast": "beta-fast",
    "beta_slow": "beta-slow",
    "truncate": "truncate",
    "sections": "sections",
    "interleaved": "axes-order",
}
"""The name of the loss for each parameter of rotary schemes."""

WITHOUT_ROTATION = {
    "alibi": {"heads": "heads", "max_bias": "max-bias"},
    "learned": {"dim": "columns"},
    "sinusoidal": {
        "dim": "columns",
        "base": "base",
        "spacing": "frequencies",
        **dict.fromkeys(("layout", "order", "odd"), "layout"),
    },
    "t5": {"heads": "heads", "num_buckets": "buckets", "max_distance": "max-distance"},
    "nope": {},
}
"""Parameters of schemes that do not rotate, with the names of their losses. ALiBi's form is not
compared: it is the same to every softmax."""

_LATENT = (
    *("short_factor", "long_factor", ORIGINAL),
    *("sections", "interleaved"),
)
"""Parameters that may matter only at another length than was compared, or for images."""

_IGNORED_OF_DRAFTERS = {"head-dim", "layout", "softmax-factor"}
"""Losses to ignore for a drafter: its weights were trained with its own values."""

_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", ORIGINAL)
_ABSENT = Sourced(None, "not there")


class Loss(Record):
    """A value that differs between two readings: its name, its layers, and both values.

    ``layers`` is the type of the layers, None if all have one type.
    """

    name: str
    layers: str | None
    a: Sourced
    b: Sourced


class StoredFrequencies(Record):
    """Frequencies that layers of a checkpoint share: the name of the first tensor, and its values.

    ``layers`` are those that store them; empty if the model stores them once.
    """

    name: str
    layers: tuple[int, ...]
    layer_type: str | None
    loaded: Loaded

    @property
    def values(self) -> Reals:
        """The frequencies in float64. Shape: (pairs,)."""
        return self.loaded.values.astype("float64")

    @property
    def label(self) -> str:
        """The layers, as text."""
        if not self.layers:
            return self.layer_type or self.name
        return f"layer{'s' * (len(self.layers) > 1)} {', '.join(range_texts(self.layers))}"


class Model(Record):
    """A reading to compare, and its name in messages.

    ``stored`` are the frequencies in a checkpoint; a checkpoint has no other settings. A
    ``drafter`` proposes tokens to another model, at the same positions.
    """

    name: str
    reading: Resolved
    runtime: str | None = None
    stored: tuple[StoredFrequencies, ...] = ()
    drafter: bool = False


_CUT_TABLE = (
    "one table lacks {} rows, the first ones if a converter cut it: the values of the rows were "
    "not compared"
)
"""Reason why the first row of a cut table is unknown."""


class ModelComparison(Record):
    """The compared values of two models, by name, and those that differ.

    ``unknown`` gives a reason for each value that could not be compared.
    """

    models: Sequence[Model]
    compared: tuple[str, ...]
    losses: tuple[Loss, ...]
    tolerance: float
    unknown: Mapping[str, str] = fresh(dict)

    @property
    def ok(self) -> bool:
        """Whether no value was lost."""
        return not self.losses


def compare_models(a: Model, b: Model, *, tolerance: float = 0.0) -> ModelComparison:
    """Return which settings two models share, and which differ.

    Numbers may differ by the relative ``tolerance``, and by the rounding of float32.
    """
    comparing = ModelComparer(max(tolerance, CLOSE))
    if a.drafter or b.drafter:
        comparing.drafters(a, b)
    else:
        comparing.models(a, b)
    losses = sorted(comparing.losses, key=lambda loss: [*NAMES].index(loss.name))
    compared = tuple(name for name in NAMES if name in comparing.compared)
    return ModelComparison((a, b), compared, tuple(losses), comparing.tolerance, comparing.unknown)


class ModelComparer:
    """A comparison in progress: what was compared, and what was lost."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.compared: set[str] = set()
        self.losses: list[Loss] = []
        self.unknown: dict[str, str] = {}
        self.converted = False
        self.sees_all = False

    def models(self, a: Model, b: Model) -> None:
        """Compare the layers of two models."""
        first, second = a.reading.layers, b.reading.layers
        file, config = (a, b) if a.reading.noun == NOUN else (b, a)
        self.converted = file.reading.noun == NOUN != config.reading.noun
        self.contexts(a, b, file, config)
        pairs = list(_pairs(first, second))
        if self.converted:
            self.architectures(a, b, file, config)
            known = ARCHITECTURES.get(file.reading.model_type)
            self.sees_all = known is not None and known.sliding is None
        self.layer_sets(first, second)
        self.windows(a, b, pairs)
        self.latent(a.reading.latent, b.reading.latent)
        for one, other in pairs:
            self.groups(one, other)

    def contexts(self, a: Model, b: Model, file: Model, config: Model) -> None:
        """Compare the contexts, unless the file has a value that its converter substitutes.

        Source: conversion/command_r.py of llama.cpp, which reads model_max_length first.
        """
        contexts = [_derived(each.reading.layers[0], "context") for each in (a, b)]
        own = _derived(file.reading.layers[0], "context").value
        kind, scheme = file.reading.model_type, config.reading.layers[0].scheme
        why = ""
        if kind == "command-r" and own == (config.reading.config or {}).get("model_max_length"):
            why = "the config's model_max_length"
        elif (own, scheme) == CONTEXTS.get(kind):
            why = f"what llama.cpp's converter writes for every {kind} model with {scheme}"
        if self.converted and why and not self.alike(*(each.value for each in contexts)):
            self.unknown["context"] = f"the file's {own} is {why}"
        else:
            self.known("context", None, *contexts)

    def drafters(self, a: Model, b: Model) -> None:
        """Compare only rotations: a drafter has its own layers, heads and weights.

        It must rotate like any of its verifier's layers. If it does not, it is compared with those
        that see all positions.
        """
        first, second = ([group for group in m.reading.layers if group.is_rotary] for m in (a, b))
        if not first or not second:
            self.value("encoding", None, *(_scheme(m.reading.layers[0]) for m in (a, b)))
            return
        first.sort(key=attrgetter("slides"))
        second.sort(key=attrgetter("slides"))
        trials = [self._drafted(one, other) for one in first for other in second]
        nearest = next((trial for trial in trials if not trial.losses), trials[0])
        self.compared |= nearest.compared
        self.losses += nearest.losses

    def _drafted(self, one: Layers, other: Layers) -> ModelComparer:
        trial = ModelComparer(self.tolerance)
        trial.rotations(one, other)
        trial.compared -= _IGNORED_OF_DRAFTERS
        trial.losses = [loss for loss in trial.losses if loss.name not in _IGNORED_OF_DRAFTERS]
        return trial

    def architectures(self, a: Model, b: Model, file: Model, config: Model) -> None:
        """Compare the architecture of a file with the model type of a config, if that is known."""
        expected = OF_MODEL_TYPES.get(config.reading.model_type)
        if expected is None:
            return
        self.compared.add("architecture")
        if file.reading.model_type not in expected:
            types = (
                Sourced(m.reading.model_type, "general.architecture" if m is file else "model_type")
                for m in (a, b)
            )
            self.losses.append(Loss("architecture", None, *types))

    def layer_sets(self, first: Sequence[Layers], second: Sequence[Layers]) -> None:
        """Compare the number of layers, and which of them slide or do not rotate."""
        counts = [sum(len(group.layers) for group in groups) for groups in (first, second)]
        if not all(counts):
            return
        self.value(
            "layers", None, *(Sourced(count, "the layers with attention") for count in counts)
        )
        if counts[0] != counts[1]:
            return
        rotating = all(any(group.is_rotary for group in groups) for groups in (first, second))
        for name, is_known, member in (
            ("sliding-layers", not self.sees_all, lambda group: group.slides),
            ("unturned-layers", rotating, lambda group: group.scheme == "nope"),
        ):
            a, b = (
                Sourced(_layer_numbers(groups, member), "its layers") for groups in (first, second)
            )
            if is_known and (a.value or b.value):
                self.value(name, None, a, b)

    def windows(self, a: Model, b: Model, pairs: Sequence[tuple[Layers, Layers]]) -> None:
        """Compare how many positions layers see, if both readings state it."""
        unread = next((model for model in (a, b) if model.reading.windows_unread), None)
        if unread is not None:
            self.unknown["window"] = WINDOWS_UNREAD.format(unread.runtime)
            return
        for one, other in pairs:
            label, windows = one.layer_type or other.layer_type, (_window(one), _window(other))
            # If llama.cpp's code ignores the window, the file lost nothing.
            if self.converted:
                self.known("window", label, *windows)
            elif any(window.value for window in windows):
                self.value("window", label, *windows)

    def latent(self, first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
        """Compare the rotary keys of two GGUF files that have no effect in llama.cpp."""
        if self.converted:
            return
        for key in dict.fromkeys((*first, *second)):
            self.value(
                "other-keys", None, *(Sourced(keys.get(key), key) for keys in (first, second))
            )

    def groups(self, one: Layers, other: Layers) -> None:
        """Compare corresponding layers of two models."""
        label = one.layer_type or other.layer_type
        self.scores(one, other)
        if one.is_rotary and other.is_rotary:
            self.rotations(one, other)
        elif one.scheme != other.scheme or one.scheme == "nope":
            if "unturned-layers" not in {loss.name for loss in self.losses}:
                self.value("encoding", label, _scheme(one), _scheme(other))
        else:
            if one.scheme == "learned":
                self.tables(one, other)
            elif one.scheme == "sinusoidal":
                first = (_derived(group, "first_position", 0) for group in (one, other))
                self.value("first-row", label, *first)
            elif one.scheme == "t5":
                self.known("bias-tables", label, *(_derived(g, BIAS_TABLES) for g in (one, other)))
            for parameter, name in WITHOUT_ROTATION.get(one.scheme, {}).items():
                self.value(name, label, *(_effective(group, parameter) for group in (one, other)))

    def tables(self, one: Layers, other: Layers) -> None:
        """Compare which rows of trained tables positions read.

        llama.cpp's converter drops the rows before that of the first position. So a GGUF file with
        as many rows as the config has positions begins at that row. One with all rows begins at row
        0.
        """
        label, both = one.layer_type, (one, other)
        offsets = [_effective(group, "offset") for group in both]
        tables = [group.params["max_len"] for group in both]
        usable = [
            Sourced(
                rows.value - offset.value,
                rows.source if not offset.value else f"{rows.source} − {offset.value}",
            )
            for rows, offset in zip(tables, offsets, strict=True)
        ]
        self.value("rows", label, *usable)
        shifted = usable[0].value == usable[1].value
        whole = tables[0].value == tables[1].value
        if not self.converted or (whole and not shifted):
            self.value("first-row", label, *offsets)
        elif shifted and whole:
            self.compared.add("first-row")
        elif shifted:
            self.unknown["first-row"] = _CUT_TABLE.format(abs(tables[0].value - tables[1].value))

    def scores(self, one: Layers, other: Layers) -> None:
        """Compare the factors and the cap of scores, if either model states them."""
        both = one, other
        for derived in SCORES:
            if any(derived in group.derived for group in both):
                a, b = (_score(group, derived) for group in both)
                if derived != "attention_scale" or None not in (a.value, b.value):
                    self.value(derived.replace("_", "-"), one.layer_type, a, b)

    def rotations(self, one: Layers, other: Layers) -> None:
        """Compare two rotations; if they differ, find the parameters that differ."""
        label, both = one.layer_type, (one, other)
        before = len(self.losses)
        for derived, name in (
            ("attention_factor", "attention-factor"),
            ("softmax_multiplier", "softmax-factor"),
        ):
            self.value(name, label, *(_derived(group, derived, 1.0) for group in both))
        self.value("layout", label, *map(_layout, both))
        self.known("head-dim", label, *map(_head, both))
        self.value("rotary-width", label, *(_rotary_dim(group) for group in both))
        same = self.same_frequencies(one, other)
        self.compared |= {"frequencies", "base", "scaling-type"}
        if same:
            if one.scheme == other.scheme:
                self.parameters(one, other, _LATENT)
            elif "mrope" in (one.scheme, other.scheme):
                self.value("sections", label, _sections(one), _sections(other))
            return
        if len(self.losses) > before and self.losses[-1].name == "rotary-width":
            before -= 1  # another rotary dim alone makes the frequencies differ
        self.causes(one, other)
        # An engine may choose LongRoPE's factors by its context instead of the text's length.
        once = all(g.scheme == "rope-longrope" and "seq_len" in g.params for g in both)
        if len(self.losses) == before and once:
            self.value("taken-factors", label, *(_selected_factors(group) for group in both))
        if len(self.losses) == before:
            self.losses.append(Loss("frequencies", label, _scheme(one), _scheme(other)))

    def causes(self, one: Layers, other: Layers) -> None:
        """Find the parameters that make frequencies differ."""
        first, second = (group.params.get("base") for group in (one, other))
        if first is not None and second is not None:  # rotations on axes may have several bases
            self.value("sliding-base" if one.slides else "base", one.layer_type, first, second)
        if one.scheme == other.scheme:
            self.parameters(one, other, tuple(_PARAMETERS))
        # If only the base differs, the divisors are the same.
        elif not self.alike(_pair_divisors(one), _pair_divisors(other)):
            self.schemes(one, other)

    def parameters(self, one: Layers, other: Layers, names: Sequence[str]) -> None:
        """Compare parameters of one scheme."""
        known = catalogue.find(one.scheme).parameters
        for parameter in names:
            if parameter in known:
                a, b = (_effective(group, parameter) for group in (one, other))
                self.value(_PARAMETERS[parameter], one.layer_type, a, b)

    def schemes(self, one: Layers, other: Layers) -> None:
        """Find how two different schemes differ."""
        label, both = one.layer_type, (one, other)
        a, b = map(_scheme, both)
        schemes = {one.scheme, other.scheme}
        if "mrope" in schemes:
            self.value("sections", label, *map(_sections, both))
        if "rope-llama3" in schemes or FREQS in (a.source, b.source):
            self.value("llama3-factors", label, *map(_divisors, both))
            return
        if "rope-longrope" in schemes:
            for name in ("short-factors", "long-factors"):
                self.value(name, label, a, b)
            return
        self.value("scaling-type", label, a, b)
        if any("factor" in group.params for group in both):
            factors = (group.params.get("factor") or _unscaled(group) for group in both)
            self.value("factor", label, *factors)
        if all(ORIGINAL in group.params for group in both):
            self.value("original-length", label, *(group.params[ORIGINAL] for group in both))

    def same_frequencies(self, one: Layers, other: Layers) -> bool:
        """Return whether frequencies agree at every length at which either model changes them."""
        rules = [
            length_rule(catalogue.find(group.scheme), group.values()) for group in (one, other)
        ]
        lengths = sorted({length for rule in rules for length in rule.lengths})
        for length in lengths or (None,):
            a, b = (rotating_frequencies(group, length) for group in (one, other))
            if a.shape != b.shape or not np.allclose(a, b, rtol=self.tolerance, atol=0):
                return False
        return True

    def known(self, name: str, label: str | None, a: Sourced, b: Sourced) -> None:
        """Compare a value if both models state it."""
        if a.value is not None and b.value is not None:
            self.value(name, label, a, b)

    def value(self, name: str, label: str | None, a: Sourced, b: Sourced) -> None:
        """Compare a value, and note a loss if it differs."""
        self.compared.add(name)
        if not self.alike(a.value, b.value):
            loss = Loss(name, label, a, b)
            if loss not in self.losses:
                self.losses.append(loss)

    def alike(self, a: Any, b: Any) -> bool:
        """Return whether two values are equal, or numbers within the tolerance."""
        if isinstance(a, tuple | list) and isinstance(b, tuple | list):
            return len(a) == len(b) and all(map(self.alike, a, b))
        if isinstance(a, float | int) and isinstance(b, float | int):
            exact = isinstance(a, int) and isinstance(b, int)
            return a == b if exact else math.isclose(a, b, rel_tol=self.tolerance)
        return bool(a == b)


def _pairs(first: Sequence[Layers], second: Sequence[Layers]) -> Iterator[tuple[Layers, Layers]]:
    """Yield corresponding groups of layers: with common layers, else of one type, else all."""
    labels = [{group.layer_type for group in groups} for groups in (first, second)]
    counted_apart = labels[0] == labels[1] == {"encoder", "decoder"}
    places = {layer: group for group in second for layer in group.layers if not counted_apart}
    for group in first:
        others: Sequence[Layers] = [
            other for other in second if other.layer_type == group.layer_type
        ]
        if group.layers and places:
            common = (places[layer] for layer in group.layers if layer in places)
            others = [*{id(other): other for other in common}.values()]
        elif not others and not counted_apart:
            others = second
        yield from ((group, other) for other in others)


def _divisors(group: Layers) -> Sourced:
    """Return what divides frequencies: Llama 3.1's numbers, a list of factors, or the scheme."""
    if group.scheme == "rope-llama3":
        numbers = [group.params[name] for name in _LLAMA3]
        return Sourced(tuple(number.value for number in numbers), numbers[0].source)
    return group.params.get("short_factor") or group.derived.get("divisors") or _scheme(group)


def _pair_divisors(group: Layers) -> object:
    """Return the numbers that divide frequencies, pair by pair, also for Llama 3.1's rule."""
    if group.scheme != "rope-llama3":
        return _divisors(group).value
    frequencies = rotating_frequencies(group, None)  # (pairs,)
    exponents = np.arange(frequencies.size) / frequencies.size
    return tuple((float(group.params["base"].value) ** -exponents / frequencies).tolist())


def _selected_factors(group: Layers) -> Sourced:
    length, original = group.params["seq_len"], _effective(group, ORIGINAL)
    longer = length.value > original.value
    factors = _effective(group, "long_factor" if longer else "short_factor")
    return Sourced(factors.value, f"{factors.source} at {length.value} positions")


def _unscaled(group: Layers) -> Sourced:
    stated = group.derived.get("scaling_factor")
    return Sourced(1.0, stated.source if stated else "by default")


def _scheme(group: Layers) -> Sourced:
    """Return the scheme, with the key that states it as source."""
    source = (
        group.derived.get("rope_type")
        or group.derived.get("scaling_type")
        or group.params.get("short_factor")
        or group.params.get("factor")
    )
    return Sourced(group.scheme, source.source if source else "")


def _derived(group: Layers, name: str, usual: Any = None) -> Sourced:
    return group.derived.get(name) or (_ABSENT if usual is None else Sourced(usual, "by default"))


def _score(group: Layers, derived: str) -> Sourced:
    """Return a factor or the cap of scores; an unstated scale of rotary layers is 1/√d."""
    if derived != "attention_scale" or derived in group.derived or not group.is_rotary:
        return _derived(group, derived)
    head = _head(group)
    return Sourced(head.value and head.value**-0.5, f"1/√d of {head.source}")


def _effective(group: Layers, parameter: str) -> Sourced:
    """Return a parameter as given, else its default."""
    if parameter in group.params:
        return group.params[parameter]
    bound = catalogue.find(group.scheme).bind(group.values())
    return Sourced(bound.params.get(parameter), "by default")


def _sections(group: Layers) -> Sourced:
    return group.params.get("sections") or Sourced(None, group.scheme)


def _layout(group: Layers) -> Sourced:
    """Return the layout of the checkpoint, before a converter permuted q and k."""
    layout = _effective(group, "layout")
    if "permuted" not in group.derived:
        return layout
    before = "half" if layout.value == "interleaved" else "interleaved"
    return Sourced(before, f"{layout.source}, permuted")


def _head(group: Layers) -> Sourced:
    """Return the head dim; for latent attention, the rotated slice plus the other dimensions."""
    beside, dim = group.derived.get("beside_slice"), group.params["dim"]
    if beside is None:
        return dim
    if beside.value is None:
        return beside
    return Sourced(dim.value + beside.value, f"{dim.source} + {beside.source}")


def _rotary_dim(group: Layers) -> Sourced:
    dim = group.params["dim"]
    share = group.params.get("partial")
    if share is None:
        return group.derived.get("rotary_width") or dim
    return Sourced(2 * int(dim.value * share.value / 2 + 1e-9), share.source)


def rotating_frequencies(group: Layers, seq_len: int | None) -> np.ndarray[Any, Any]:
    """Return the frequencies of the pairs that rotate, at a length. Shape: (pairs,)."""
    bound = catalogue.find(group.scheme).bind(group.values(), seq_len=seq_len)
    frequencies: np.ndarray[Any, Any] = np.asarray(bound.rotation.waves.frequencies(np))
    rotating: np.ndarray[Any, Any] = frequencies[frequencies != 0]
    return rotating


def _layer_numbers(groups: Sequence[Layers], member: Callable[[Layers], bool]) -> tuple[int, ...]:
    return tuple(sorted(layer for group in groups if member(group) for layer in group.layers))


def _window(group: Layers) -> Sourced:
    """Return the window of layers; its value is None if they see all positions."""
    return next((group.derived[name] for name in WINDOWS if name in group.derived), _ABSENT)
