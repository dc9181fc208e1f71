"""Compare the frequencies stored in a checkpoint with those of its config.

Older code saved ``inv_freq`` with the weights. transformers and vLLM ignore such a tensor and
compute the frequencies; code that loads it rotates by its values. The tensors are found by name and
shape.

Rounding to the number format is not a difference, but a warning states it: float16 and bfloat16
change low-frequency pairs by a percent. If frequencies differ, they are identified, so that the
loss can name the parameter that made them.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli import catalogue
from posenc_cli.comparison.losses import (
    CLOSE,
    Loss,
    Model,
    ModelComparer,
    ModelComparison,
    StoredFrequencies,
    rotating_frequencies,
)
from posenc_cli.configs.resolved import Layers, Resolved, Sourced
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files import safetensors
from posenc_cli.files.reading import Loaded, read_members
from posenc_cli.files.source import open_source
from posenc_cli.inference.tolerance import smallest, unit
from posenc_cli.records import Record, replace
from posenc_cli.rotary.lengths import length_rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.numerics.arrays import Reals

NOUN = "stored frequencies"

_NAME = r"(?:^|[./])(?P<kind>\w+_)?inv_freq$"
_LAYER = r"[./](\d+)[./]"
_OTHER_PARTS = (
    r"(?:^|[./])(?:vis|visual|vision\w*|image\w*|video\w*|vit|audio\w*|speech\w*|mm_\w+)[./]"
)
"""Parts of multimodal models that are not the text model."""
_ORIGINAL = "original"  # dynamic rules keep the original frequencies beside the current ones
_MOST_PAIRS = 1 << 15
_LARGEST_FILE = 8 << 30


class StoredName(Record):
    """A tensor of frequencies: its file, its name, and the layer or type of layers it belongs to.

    ``layer`` is None if all layers share it, and ``layer_type`` if its name states no type.
    """

    file: str
    name: str
    layer: int | None
    layer_type: str | None


def stored_names(files: Sequence[str]) -> list[StoredName]:
    """Return the tensors of frequencies in .safetensors files, from their headers alone.

    Raises:
        InvalidInput: a file is malformed.
        Unavailable: it cannot be opened.
    """
    return [name for file in files for name in _names_in_file(file)]


def _names_in_file(file: str) -> Iterator[StoredName]:
    source = open_source(file, max_bytes=_LARGEST_FILE)
    with source.file:
        headers = safetensors.headers(source)
    for header in headers:
        match = re.search(_NAME, header.name)
        if match is None or not header.dtype.startswith(("float", "bfloat")):
            continue
        if len(header.shape) != 1 or not 0 < header.shape[0] <= _MOST_PAIRS:
            continue
        kind = (match["kind"] or "").rstrip("_")
        if kind != _ORIGINAL and not re.search(_OTHER_PARTS, header.name):
            yield _stored_name(file, header.name, kind)


def _stored_name(file: str, name: str, kind: str) -> StoredName:
    layer = re.search(_LAYER, name)
    layer_type = kind or None
    if layer_type is None and re.search(r"rotary_emb_local|local_rotary", name):
        layer_type = "sliding_attention"
    return StoredName(file, name, int(layer[1]) if layer else None, layer_type)


def stored_model(path: str, names: Sequence[StoredName]) -> Model:
    """Return a checkpoint as a model to compare, with the frequencies found in its headers.

    Raises: InvalidInput, Unavailable: a tensor cannot be read.
    """
    shared: dict[tuple[str | None, str, bytes], list[tuple[StoredName, Loaded]]] = {}
    for file in dict.fromkeys(name.file for name in names):
        own = [name for name in names if name.file == file]
        for name, loaded in zip(own, read_members(file, [each.name for each in own]), strict=True):
            alike = name.layer_type, loaded.dtype, loaded.values.tobytes()
            shared.setdefault(alike, []).append((name, loaded))
    stored = tuple(
        StoredFrequencies(
            members[0][0].name,
            tuple(sorted({name.layer for name, _ in members if name.layer is not None})),
            layer_type,
            members[0][1],
        )
        for (layer_type, _, _), members in shared.items()
    )
    formats = ", ".join(dict.fromkeys(each.loaded.dtype for each in stored))
    of = f"of {len(names)} tensor{'s' * (len(names) > 1)} in {formats}"
    return Model(path, Resolved(of, (), noun=NOUN), stored=stored)


def compare_stored(a: Model, b: Model, *, tolerance: float = 0.0) -> ModelComparison:
    """Return how the frequencies of a checkpoint, one of the models, differ from the other's.

    Raises: InvalidInput if that has no rotation, or if both are checkpoints.
    """
    if a.stored and b.stored:
        raise InvalidInput(
            "both sides are checkpoints",
            hint="name a config on one side, or a tensor of each: FILE:TENSOR",
        )
    model, checkpoint = (b, a) if a.stored else (a, b)
    rotary = [group for group in model.reading.layers if group.is_rotary]
    if not rotary:
        raise InvalidInput(
            f"{quoted_name(model.name)} has no rotation, and the checkpoint stores frequencies"
        )
    comparing = _StoredComparer(max(tolerance, CLOSE))
    for stored in checkpoint.stored:
        comparing.stored(rotary, stored)
    losses, models = comparing.losses, (model, comparing.as_model(checkpoint))
    if model is b:
        losses = [replace(loss, a=loss.b, b=loss.a) for loss in losses]
        models = models[::-1]
    return ModelComparison(models, tuple(comparing.compared), tuple(losses), comparing.tolerance)


class _StoredComparer:
    """A comparison of a config with a checkpoint in progress."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.compared = {"frequencies": None, "rotary-width": None}
        self.losses: list[Loss] = []
        self.warnings: list[str] = []
        self.identified: list[Layers] = []

    def as_model(self, checkpoint: Model) -> Model:
        """Return the checkpoint with the layers that its frequencies were identified as."""
        warnings = tuple(dict.fromkeys(self.warnings))
        layers = tuple(self.identified)
        return replace(
            checkpoint, reading=replace(checkpoint.reading, layers=layers, warnings=warnings)
        )

    def stored(self, rotary: Sequence[Layers], stored: StoredFrequencies) -> None:
        """Compare the frequencies stored for some layers with those of the config."""
        groups = _candidate_groups(rotary, stored)
        if any(self.same(group, stored) for group in groups):
            return
        different = groups if stored.layers else groups[:1]
        for group in different:
            self.different(group, stored)

    def same(self, group: Layers, stored: StoredFrequencies) -> bool:
        """Return whether stored frequencies are those of a group at some length.

        Warns if the number format changed them.
        """
        values, dtype = stored.values, stored.loaded.dtype
        relative = max(self.tolerance, unit(dtype) * (1 + self.tolerance))
        for expected in _expected(group):
            if expected.shape != values.shape:
                continue
            if np.allclose(values, expected, rtol=relative, atol=smallest(dtype)):
                self.identified.append(group)
                self.note_format(expected, stored)
                return True
        return False

    def note_format(self, expected: Reals, stored: StoredFrequencies) -> None:
        """Warn if a narrow number format changed the frequencies."""
        rotating = expected != 0
        apart = np.abs(stored.values[rotating] / expected[rotating] - 1)
        if apart.max() > self.tolerance:
            pair = int(np.flatnonzero(rotating)[int(apart.argmax())])
            self.warnings.append(
                f"{stored.label}: {stored.loaded.dtype} moves the stored frequency of pair {pair} "
                f"by {100 * apart.max():.2g} %; code that loads it rotates by the stored value"
            )

    def different(self, group: Layers, stored: StoredFrequencies) -> None:
        """Find the parameters in which stored frequencies differ from those of a group."""
        candidates, size = [*_expected(group)], stored.values.size
        expected = next((each for each in candidates if each.size == size), candidates[0])
        comparing = ModelComparer(max(self.tolerance, unit(stored.loaded.dtype)))
        part = stored.layers and set(stored.layers) < set(group.layers)
        label = stored.label if part else group.layer_type
        widths = (
            Sourced(2 * expected.size, f"the rotation of {group.scheme}"),
            Sourced(2 * size, stored.name),
        )
        comparing.value("rotary-width", label, *widths)
        other = _identified(group, stored)
        if other is not None:
            self.identified.append(other)
            comparing.causes(replace(group, layer_type=label), other)
        if not comparing.losses:
            differing = np.count_nonzero(~np.isclose(stored.values, expected, rtol=1e-2, atol=0))
            of_config = Sourced(group.scheme, "from the config")
            of_file = Sourced(f"{differing} of {size} pairs differ", stored.name)
            comparing.losses.append(Loss("frequencies", label, of_config, of_file))
        self.compared |= dict.fromkeys(comparing.compared)
        self.losses += comparing.losses


def _candidate_groups(rotary: Sequence[Layers], stored: StoredFrequencies) -> list[Layers]:
    """Return the groups of layers that stored frequencies may belong to."""
    kind = stored.layer_type
    named = [group for group in rotary if kind is not None and group.layer_type == kind]
    numbered = [group for group in rotary if {*group.layers} & {*stored.layers}]
    return named or numbered or sorted(rotary, key=lambda group: group.slides)


def _expected(group: Layers) -> Iterator[Reals]:
    """Yield the frequencies of a group at each length that changes them, with and without zeros."""
    scheme = catalogue.find(group.scheme)
    rule = length_rule(scheme, group.values())
    for length in rule.lengths or (None,):
        waves = scheme.bind(group.values(), seq_len=length).rotation.waves
        yield np.asarray(waves.frequencies(np), np.float64)
        yield rotating_frequencies(group, length)


def _identified(group: Layers, stored: StoredFrequencies) -> Layers | None:
    """Return the layers that stored frequencies fit, or None."""
    from posenc_cli.identification.search import identify_files

    if stored.values.size < 2 or not np.isfinite(stored.values).all():
        return None
    match = identify_files([stored.loaded]).match
    if match is None or match.forms or match.multiplied != 1 or "base" not in match.params:
        return None
    scheme = catalogue.find(match.scheme)
    if scheme.kind != "rotary":
        return None
    params = {name: Sourced(value, stored.name) for name, value in match.params.items()}
    return Layers(group.layer_type, stored.layers, match.scheme, params)
