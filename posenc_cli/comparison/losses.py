"""Which settings a converted model file lost, key by key.

Two readings are compared layer by layer. Frequencies and amplitude decide whether a
rotation is the same, whatever its spelling; where they are not, the parameters that differ are
named. GGUF keeps numbers in float32, which is why numbers agree within :data:`CLOSE`.
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
from posenc_cli.configs.resolved import BIAS_TABLES, WINDOWS, WINDOWS_UNREAD, Sourced
from posenc_cli.configs.scores import SCORES
from posenc_cli.records import Record, fresh
from posenc_cli.rotary.lengths import length_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from posenc_cli.comparison.stored_tensors import StoredFrequencies
    from posenc_cli.configs.resolved import Layers, Resolved

CLOSE = 1e-5
"""The relative error that float32 leaves: of a factor 6e-8, of divisors that the converter computes
from a power of the base in float32 up to 1e-5."""

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
"""Every name of a loss, and what it is of."""

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
"""By a parameter of rotary schemes, the name of its loss."""

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
"""The parameters of schemes that do not rotate; ALiBi's form is the same to every softmax."""

_LATENT = (
    *("short_factor", "long_factor", ORIGINAL),
    *("sections", "interleaved"),
)
"""Parameters that may wait for another length than was compared, or for images."""

_OWN_OF_DRAFTERS = {"head-dim", "layout", "softmax-factor"}
"""What a drafter has of its own: its weights were trained with these."""

_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", ORIGINAL)
_ABSENT = Sourced(None, "not there")


class Loss(Record):
    """A value that two readings do not share: its name, of which layers, and both of it.

    ``layers`` is the label of the layers, None where all are alike.
    """

    name: str
    layers: str | None
    a: Sourced
    b: Sourced


class Model(Record):
    """A reading to be compared, and what messages call it.

    ``stored`` are the frequencies that a checkpoint stores, which has nothing else. A ``drafter``
    proposes tokens to another model, at that one's positions.
    """

    name: str
    reading: Resolved
    runtime: str | None = None
    stored: tuple[StoredFrequencies, ...] = ()
    drafter: bool = False


_CUT = (
    "one table lacks {} rows, the first ones if a converter cut it: the values of the rows were "
    "not compared"
)
"""Why the first row of a cut table is not known."""


class ModelComparison(Record):
    """Which values two models share, by name, and which they do not.

    ``unknown`` are those that no key tells and that no values were compared for, with why.
    """

    models: Sequence[Model]
    compared: tuple[str, ...]
    losses: tuple[Loss, ...]
    tolerance: float
    unknown: Mapping[str, str] = fresh(dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is lost."""
        return not self.losses


def compare_models(a: Model, b: Model, *, tolerance: float = 0.0) -> ModelComparison:
    """What two models share and do not.

    Numbers may differ by the relative ``tolerance``, and by what float32 leaves.
    """
    comparing = Comparing(max(tolerance, CLOSE))
    if a.drafter or b.drafter:
        comparing.drafters(a, b)
    else:
        comparing.models(a, b)
    losses = sorted(comparing.losses, key=lambda loss: [*NAMES].index(loss.name))
    compared = tuple(name for name in NAMES if name in comparing.compared)
    return ModelComparison((a, b), compared, tuple(losses), comparing.tolerance, comparing.unknown)


class Comparing:
    """A comparison as it goes on: what was compared, and what was lost."""

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
        """Compare the contexts, unless the file has the one that its converter puts in its place.

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
        """Compare rotations alone: a drafter has layers, heads and weights of its own.

        It rotates alike if it rotates as any of its verifier's layers do; else it is compared with
        those that see everything.
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

    def _drafted(self, one: Layers, other: Layers) -> Comparing:
        trial = Comparing(self.tolerance)
        trial.rotations(one, other)
        trial.compared -= _OWN_OF_DRAFTERS
        trial.losses = [loss for loss in trial.losses if loss.name not in _OWN_OF_DRAFTERS]
        return trial

    def architectures(self, a: Model, b: Model, file: Model, config: Model) -> None:
        """Compare the architecture of a file with the model type of a config, where it is known."""
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
        """Compare which layers there are, which slide and which do not rotate."""
        counts = [sum(len(group.layers) for group in groups) for groups in (first, second)]
        if not all(counts):
            return
        self.value(
            "layers", None, *(Sourced(count, "the layers with attention") for count in counts)
        )
        if counts[0] != counts[1]:
            return
        turning = all(any(group.is_rotary for group in groups) for groups in (first, second))
        for name, is_known, member in (
            ("sliding-layers", not self.sees_all, lambda group: group.slides),
            ("unturned-layers", turning, lambda group: group.scheme == "nope"),
        ):
            a, b = (Sourced(_layers_of(groups, member), "its layers") for groups in (first, second))
            if is_known and (a.value or b.value):
                self.value(name, None, a, b)

    def windows(self, a: Model, b: Model, pairs: Sequence[tuple[Layers, Layers]]) -> None:
        """Compare how many positions layers see, as far as both readings say it."""
        if a.reading.windows_unread or b.reading.windows_unread:
            unread = a if a.reading.windows_unread else b
            self.unknown["window"] = WINDOWS_UNREAD.format(unread.runtime)
            return
        for one, other in pairs:
            label, windows = one.layer_type or other.layer_type, (_window(one), _window(other))
            # where llama.cpp's own code sees all positions, the file lost nothing
            if self.converted:
                self.known("window", label, *windows)
            elif any(window.value for window in windows):
                self.value("window", label, *windows)

    def latent(self, first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
        """Compare the rotary keys of two GGUF files that change nothing in llama.cpp."""
        if self.converted:
            return
        for key in dict.fromkeys((*first, *second)):
            self.value(
                "other-keys", None, *(Sourced(keys.get(key), key) for keys in (first, second))
            )

    def groups(self, one: Layers, other: Layers) -> None:
        """Compare the layers of one kind in both."""
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
                self.value(name, label, *(_settled(group, parameter) for group in (one, other)))

    def tables(self, one: Layers, other: Layers) -> None:
        """Compare which rows of trained tables positions read.

        llama.cpp's converter drops the rows before the first position's: a GGUF file with as many
        rows as the config has positions begins at that row, and one with all rows at row 0.
        """
        label, both = one.layer_type, (one, other)
        offsets = [_settled(group, "offset") for group in both]
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
            self.unknown["first-row"] = _CUT.format(abs(tables[0].value - tables[1].value))

    def scores(self, one: Layers, other: Layers) -> None:
        """Compare what scores are multiplied by and capped at, where either says it."""
        both = one, other
        for derived in SCORES:
            if any(derived in group.derived for group in both):
                a, b = (_score(group, derived) for group in both)
                if derived != "attention_scale" or None not in (a.value, b.value):
                    self.value(derived.replace("_", "-"), one.layer_type, a, b)

    def rotations(self, one: Layers, other: Layers) -> None:
        """Compare two rotations: whether they are the same, and what differs if they are not."""
        label, both = one.layer_type, (one, other)
        before = len(self.losses)
        for derived, name in (
            ("attention_factor", "attention-factor"),
            ("softmax_multiplier", "softmax-factor"),
        ):
            self.value(name, label, *(_derived(group, derived, 1.0) for group in both))
        self.value("layout", label, *map(_layout, both))
        self.known("head-dim", label, *map(_head, both))
        self.value("rotary-width", label, *(_width(group) for group in both))
        same = self.same_frequencies(one, other)
        self.compared |= {"frequencies", "base", "scaling-type"}
        if same:
            if one.scheme == other.scheme:
                self.parameters(one, other, _LATENT)
            elif "mrope" in (one.scheme, other.scheme):
                self.value("sections", label, _sections(one), _sections(other))
            return
        if len(self.losses) > before and self.losses[-1].name == "rotary-width":
            before -= 1  # frequencies of other widths differ for that reason alone
        self.causes(one, other)
        # An engine may choose between LongRoPE's factors by its context, not by the text.
        once = all(g.scheme == "rope-longrope" and "seq_len" in g.params for g in both)
        if len(self.losses) == before and once:
            self.value("taken-factors", label, *(_taken(group) for group in both))
        if len(self.losses) == before:
            self.losses.append(Loss("frequencies", label, _scheme(one), _scheme(other)))

    def causes(self, one: Layers, other: Layers) -> None:
        """Name the parameters for which frequencies differ."""
        first, second = (group.params.get("base") for group in (one, other))
        if first is not None and second is not None:  # rotations along axes may have several
            self.value("sliding-base" if one.slides else "base", one.layer_type, first, second)
        if one.scheme == other.scheme:
            self.parameters(one, other, tuple(_PARAMETERS))
        # By another base the same divisors are those of no rule.
        elif not self.alike(_divided_by(one), _divided_by(other)):
            self.schemes(one, other)

    def parameters(self, one: Layers, other: Layers, names: Sequence[str]) -> None:
        """Compare the parameters that both have."""
        known = catalogue.find(one.scheme).parameters
        for parameter in names:
            if parameter in known:
                a, b = (_settled(group, parameter) for group in (one, other))
                self.value(_PARAMETERS[parameter], one.layer_type, a, b)

    def schemes(self, one: Layers, other: Layers) -> None:
        """Say what two schemes do not share."""
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
            factors = (group.params.get("factor") or _unstretched(group) for group in both)
            self.value("factor", label, *factors)
        if all(ORIGINAL in group.params for group in both):
            self.value("original-length", label, *(group.params[ORIGINAL] for group in both))

    def same_frequencies(self, one: Layers, other: Layers) -> bool:
        """Whether frequencies agree at every length at which either changes."""
        rules = [
            length_rule(catalogue.find(group.scheme), group.values()) for group in (one, other)
        ]
        lengths = sorted({length for rule in rules for length in rule.lengths})
        for length in lengths or (None,):
            a, b = (turning_frequencies(group, length) for group in (one, other))
            if a.shape != b.shape or not np.allclose(a, b, rtol=self.tolerance, atol=0):
                return False
        return True

    def known(self, name: str, label: str | None, a: Sourced, b: Sourced) -> None:
        """Compare a value where both say it."""
        if a.value is not None and b.value is not None:
            self.value(name, label, a, b)

    def value(self, name: str, label: str | None, a: Sourced, b: Sourced) -> None:
        """Compare a value of both."""
        self.compared.add(name)
        if not self.alike(a.value, b.value):
            loss = Loss(name, label, a, b)
            if loss not in self.losses:
                self.losses.append(loss)

    def alike(self, a: Any, b: Any) -> bool:
        """Whether two values are the same, or numbers that are close."""
        if isinstance(a, tuple | list) and isinstance(b, tuple | list):
            return len(a) == len(b) and all(map(self.alike, a, b))
        if isinstance(a, float | int) and isinstance(b, float | int):
            exact = isinstance(a, int) and isinstance(b, int)
            return a == b if exact else math.isclose(a, b, rel_tol=self.tolerance)
        return bool(a == b)


def _pairs(first: Sequence[Layers], second: Sequence[Layers]) -> Iterator[tuple[Layers, Layers]]:
    """The kinds of layers that stand for each other: of the same layers, else of one label."""
    labels = [{group.layer_type for group in groups} for groups in (first, second)]
    if labels[0] == labels[1] == {"encoder", "decoder"}:
        for group in first:
            yield from ((group, other) for other in second if other.layer_type == group.layer_type)
        return
    places: dict[int, Layers] = {layer: group for group in second for layer in group.layers}
    for group in first:
        if group.layers and places:
            others = {id(places[i]): places[i] for i in group.layers if i in places}
            yield from ((group, other) for other in others.values())
            continue
        alike = [other for other in second if other.layer_type == group.layer_type]
        for other in alike or second:
            yield group, other


def _divisors(group: Layers) -> Sourced:
    """What divides frequencies: the numbers of Llama 3.1's rule, or factors, or nothing."""
    if group.scheme == "rope-llama3":
        numbers = [group.params[name] for name in _LLAMA3]
        return Sourced(tuple(number.value for number in numbers), numbers[0].source)
    return group.params.get("short_factor") or group.derived.get("divisors") or _scheme(group)


def _divided_by(group: Layers) -> object:
    """The numbers that divide frequencies, pair by pair, of Llama 3.1's rule too."""
    if group.scheme != "rope-llama3":
        return _divisors(group).value
    frequencies = turning_frequencies(group, None)  # (pairs,)
    exponents = np.arange(frequencies.size) / frequencies.size
    return tuple((float(group.params["base"].value) ** -exponents / frequencies).tolist())


def _taken(group: Layers) -> Sourced:
    length, original = group.params["seq_len"], _settled(group, ORIGINAL)
    longer = length.value > original.value
    factors = _settled(group, "long_factor" if longer else "short_factor")
    return Sourced(factors.value, f"{factors.source} at {length.value} positions")


def _unstretched(group: Layers) -> Sourced:
    stated = group.derived.get("scaling_factor")
    return Sourced(1.0, stated.source if stated else "by default")


def _scheme(group: Layers) -> Sourced:
    """The scheme, and the key that states it."""
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
    """What is said of scores; their scale is 1/√d where nothing is."""
    if derived != "attention_scale" or derived in group.derived or not group.is_rotary:
        return _derived(group, derived)
    head = _head(group)
    return Sourced(head.value and head.value**-0.5, f"1/√d of {head.source}")


def _settled(group: Layers, parameter: str) -> Sourced:
    """A parameter as it holds: as it is given, else by default."""
    if parameter in group.params:
        return group.params[parameter]
    bound = catalogue.find(group.scheme).bind(group.values())
    return Sourced(bound.params.get(parameter), "by default")


def _sections(group: Layers) -> Sourced:
    return group.params.get("sections") or Sourced(None, group.scheme)


def _layout(group: Layers) -> Sourced:
    """The pairs as the checkpoint had them, before a converter permuted q and k."""
    layout = _settled(group, "layout")
    if "permuted" not in group.derived:
        return layout
    before = "half" if layout.value == "interleaved" else "interleaved"
    return Sourced(before, f"{layout.source}, permuted")


def _head(group: Layers) -> Sourced:
    """The columns of a head; of latent attention those of the slice and beside it."""
    beside, dim = group.derived.get("beside_slice"), group.params["dim"]
    if beside is None:
        return dim
    if beside.value is None:
        return beside
    return Sourced(dim.value + beside.value, f"{dim.source} + {beside.source}")


def _width(group: Layers) -> Sourced:
    """How many dimensions rotate."""
    dim = group.params["dim"]
    share = group.params.get("partial")
    if share is None:
        return group.derived.get("rotary_width") or dim
    return Sourced(2 * int(dim.value * share.value / 2 + 1e-9), share.source)


def turning_frequencies(group: Layers, seq_len: int | None) -> np.ndarray[Any, Any]:
    """The frequencies of the pairs that rotate, at a length, (pairs,)."""
    bound = catalogue.find(group.scheme).bind(group.values(), seq_len=seq_len)
    frequencies: np.ndarray[Any, Any] = np.asarray(bound.rotation.waves.frequencies(np))
    turning: np.ndarray[Any, Any] = frequencies[frequencies != 0]
    return turning


def _layers_of(groups: Sequence[Layers], member: Callable[[Layers], bool]) -> tuple[int, ...]:
    """The numbers of the layers of some groups."""
    return tuple(sorted(layer for group in groups if member(group) for layer in group.layers))


def _window(group: Layers) -> Sourced:
    """The window of layers, of the value None where they see all positions."""
    return next((group.derived[name] for name in WINDOWS if name in group.derived), _ABSENT)
