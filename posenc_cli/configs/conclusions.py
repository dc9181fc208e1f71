"""Summarize a config in conclusions, one line each: lengths, logits, unread parts.

Each line has a code for ``explain --fail-on``. A line is doubtful if the config contradicts itself
or leaves out a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.diffusion import PIPELINE_DEFAULT
from posenc_cli.configs.families import remotes
from posenc_cli.positions import range_texts
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from posenc_cli.configs.resolved import Layers, Resolved

_LENGTH_RATIO = ("rope-yarn", "rope-linear")
"""Schemes whose factor is the ratio of two lengths, unlike the factors of Llama 3 and NTK."""
_TOLERATED = 0.02
"""The relative tolerance of a stated length: some configs state one token less."""
_READER = {"GGUF architecture": "llama.cpp does not read"}
"""The program that does not read the unread keys, if there is only one."""
_NOT_TEXT = re.compile(
    r"(thinker_config\.)?(vision|audio|image|video|speech|vq|vit|talker|token2wav)\w*_config"
    r"|(audio_)?encoder"
)
"""Sections of models that are not text models, or not the one that generates."""


class ConclusionCode(StrEnum):
    """The subject of a conclusion."""

    CONTEXT = "context"
    LOGITS = "logits"
    NO_POSITIONS = "no-positions"
    INDEXER = "indexer"
    NOT_READ = "not-read"
    UNREAD = "unread"
    DEFAULTED = "defaulted"
    CONTRADICTED = "contradicted"
    LACKING = "lacking"


class Conclusion(Record):
    """A line of the summary: its subject, its text, and whether it is doubtful."""

    code: ConclusionCode
    text: str
    doubtful: bool = False


def conclusions(resolved: Resolved, config: Any) -> Iterator[Conclusion]:
    """Yield the summary of a reading; ``config`` is the config, whose unread parts are listed."""
    for conclude in (partial(_context, model_type=resolved.model_type), _logits, _indexer_layout):
        yield from _once_for_alike_layers(resolved, conclude)
    yield from _layers_without_positions(resolved)
    if isinstance(config, Mapping):
        yield from filter(None, map(_temperature, resolved.layers))
        yield from _not_read(config)
    for code, names, words in (
        (ConclusionCode.UNREAD, resolved.unread, _READER.get(resolved.noun, "nothing reads")),
        (ConclusionCode.DEFAULTED, resolved.defaulted, "default used for"),
        (ConclusionCode.CONTRADICTED, resolved.contradicted, "contradicted:"),
        (ConclusionCode.LACKING, resolved.lacking, "the file lacks"),
    ):
        if names:
            yield Conclusion(code, f"{words} {', '.join(names)}", doubtful=True)


def _once_for_alike_layers(
    resolved: Resolved, conclude: Callable[[Layers], Conclusion | None]
) -> Iterator[Conclusion]:
    """Yield each conclusion once, after the names of its layers if it does not hold for all."""
    found: dict[Conclusion, list[Layers]] = {}
    for layers in resolved.layers:
        conclusion = None if layers.scheme == "nope" else conclude(layers)
        if conclusion is not None:
            found.setdefault(conclusion, []).append(layers)
    for conclusion, groups in found.items():
        names = [layers.layer_type for layers in groups if layers.layer_type is not None]
        prefix = "" if len(found) == 1 or not names else f"{', '.join(names)}: "
        yield replace(conclusion, text=prefix + conclusion.text)


class Lengths(Record):
    """The lengths that a config states for some layers; None if it does not.

    ``trained`` is the original context, ``factor`` the factor of its extension, ``reach`` their
    product, and ``stated`` the stated context.
    """

    trained: int | None
    factor: float | None
    reach: float | None
    stated: int | None

    @property
    def context(self) -> int | None:
        """The context of the config: the stated one, or less if the extension is shorter."""
        reach, stated = self.reach, self.stated
        if reach and (stated is None or stated > reach * (1 + _TOLERATED)):
            return int(reach)
        return stated


def lengths_of(layers: Layers) -> Lengths:
    """Return the lengths that a config states for some layers."""
    values = {**layers.values(), **{name: item.value for name, item in layers.derived.items()}}
    trained, factor = values.get("original_max_position_embeddings"), values.get("factor")
    reach = trained * factor if layers.scheme in _LENGTH_RATIO and trained and factor else None
    return Lengths(trained, factor, reach, values.get("context"))


def _context(layers: Layers, model_type: str) -> Conclusion | None:
    """Return the trained, the extended and the stated length, and whether they agree."""
    lengths = lengths_of(layers)
    stated, trained, factor = lengths.stated, lengths.trained, lengths.factor
    context = layers.derived.get("context")
    is_default = context is not None and context.source.startswith("default of")
    subject = (
        f"the {context.source} is" if context is not None and is_default else "the config states"
    )
    if lengths.reach is not None and trained and factor:
        return _extended(trained, factor, stated, subject)
    if stated is None:
        return None
    grid = layers.params.get("grid")
    if grid is not None and grid.source.startswith(PIPELINE_DEFAULT):
        text = f"context: {stated} positions, the {grid.source}; the config has none"
        return Conclusion(ConclusionCode.CONTEXT, text, doubtful=True)
    if trained:
        times = stated / trained
        text = f"original context {trained}; {subject} {stated}"
        if times != 1:
            text += f" ({times:g}×)"
        return Conclusion(ConclusionCode.CONTEXT, text, doubtful=times < 1)
    text = f"context: {stated} positions" + (
        f" ({context.source})" if context and is_default else ""
    )
    if layers.scheme == "rope-dynamic":
        text += f"; {_growth(layers, model_type)}"
    elif layers.scheme == "rope-ntk":
        text += f", base raised by the NTK factor {factor:g}"
    elif factor:
        text += f", RoPE scaled ×{factor:g}; the config does not state the trained length"
    elif layers.is_rotary:
        text += ", no RoPE scaling"
    return Conclusion(ConclusionCode.CONTEXT, text)


def _growth(layers: Layers, model_type: str) -> str:
    """Return how the base of dynamic NTK changes with the sequence, in the code that is read."""
    once = layers.params.get("seq_len")
    if once is not None:
        return f"the base is that of {once.value} positions at every length"
    text = "beyond it the base grows with the sequence"
    own = remotes().get(model_type)
    if own is not None:
        return f"{text}, and its own code {own.shorter}" if own.shorter else text
    return f"{text}; transformers keeps the largest base until a sequence fits in it again"


def _extended(trained: int, factor: float, stated: int | None, subject: str) -> Conclusion:
    """Return the trained length, the extended length, and whether the stated one agrees."""
    reach = trained * factor
    text = f"original context {trained}, extended ×{factor:g} to {reach:g}"
    share = 0.0 if stated is None else stated / reach
    if abs(share - 1) <= _TOLERATED:
        alike = (
            "consistent with the config" if subject.endswith("states") else f"{subject} the same"
        )
        text += f" ({alike})"
    elif share > 1:
        text += f", but {subject} {stated} ({share:.3g}×)"
    elif share:
        text += f"; {subject} {stated}"
    return Conclusion(ConclusionCode.CONTEXT, text, doubtful=share > 1 + _TOLERATED)


def _logits(layers: Layers) -> Conclusion | None:
    """Return the factors of the logits, and their product."""
    factors = {
        name: layers.derived[key].value
        for name, key in _MULTIPLIERS.items()
        if key in layers.derived and layers.derived[key].value != 1
    }
    if not factors:
        return None
    partly = "attention factor²" in factors and "beside_slice" in layers.derived
    text = f"logits{' of the rotated dimensions' if partly else ''} × {prod(factors.values()):.6g}"
    if len(factors) > 1:
        text += ": " + ", ".join(f"{value:.6g} by the {name}" for name, value in factors.items())
    else:
        (only,) = factors
        text += f" ({only})"
    return Conclusion(ConclusionCode.LOGITS, text)


_MULTIPLIERS = {"attention factor²": "logit_multiplier", "softmax scale": "softmax_multiplier"}
"""Factors of the logits, and the derived value of each."""


def _indexer_layout(layers: Layers) -> Conclusion | None:
    """Return the layout in which the indexer of sparse attention rotates."""
    indexer = layers.derived.get("indexer")
    if indexer is None:
        return None
    own = str(layers.values().get("layout"))
    also = "as in attention" if indexer.value == own else f"attention's is {own}"
    text = f"indexer layout: {indexer.value}, {also} ({indexer.source})"
    return Conclusion(ConclusionCode.INDEXER, text)


def _layers_without_positions(resolved: Resolved) -> Iterator[Conclusion]:
    without = [layers for layers in resolved.layers if layers.scheme == "nope"]
    if not without:
        return
    if len(without) == len(resolved.layers):
        yield Conclusion(ConclusionCode.NO_POSITIONS, "no layer has a positional encoding")
        return
    numbers = sorted(number for layers in without for number in layers.layers)
    every = sum(len(layers.layers) for layers in resolved.layers)
    which = ", ".join(range_texts(numbers)) if numbers else without[0].layer_type
    count = f" ({len(numbers)} of {every})" if numbers else ""
    yield Conclusion(ConclusionCode.NO_POSITIONS, f"layers without positions: {which}{count}")


def _temperature(layers: Layers) -> Conclusion | None:
    """Return the factor of the logits in Llama 4's layers without positions, for each query.

    Source: transformers' Llama4TextAttention, after https://arxiv.org/abs/2501.19399.
    """
    if layers.scheme != "nope" or "temperature_scale" not in layers.derived:
        return None
    scale, every = (layers.derived[f"temperature_{each}"].value for each in ("scale", "length"))
    text = f"× (1 + {scale:g} · ln(1 + ⌊(m + 1) / {every:g}⌋)), m the position of the query"
    return Conclusion(ConclusionCode.LOGITS, f"logits of layers without positions {text}")


def _not_read(config: Mapping[str, Any]) -> Iterator[Conclusion]:
    """Yield the sections of other models than the text model, which posenc does not read."""
    thinker = config.get("thinker_config")
    within = thinker.items() if isinstance(thinker, dict) else ()
    sections = {**config, **{f"thinker_config.{name}": value for name, value in within}}
    parts = [
        name
        for name, value in sections.items()
        if isinstance(value, dict) and _NOT_TEXT.fullmatch(name)
    ]
    if parts:
        yield Conclusion(ConclusionCode.NOT_READ, f"not read: {', '.join(parts)}")
