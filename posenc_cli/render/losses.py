"""What a model file has lost, for readers and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.configs import library
from posenc_cli.errors import quoted_name
from posenc_cli.formulas.parameters import as_text
from posenc_cli.positions import range_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.comparison.losses import Loss, Model, ModelComparison
    from posenc_cli.configs.resolved import Sourced
    from posenc_cli.render.typesetting import Typesetter

_LONGEST_VALUE = 24
_OF_LAYERS = ("sliding-layers", "unturned-layers")


def losses_text(result: ModelComparison, typesetter: Typesetter) -> str:
    """Both models, the verdict, and each value that they do not share."""
    lines = [
        f"{key} {_title(model)}: {_what(model)}"
        for key, model in zip("AB", result.models, strict=True)
    ]
    compared = ", ".join(result.compared)
    unknown = [
        typesetter.paragraph(f"not checked: {name}: {why}", hanging=2)
        for name, why in result.unknown.items()
    ]
    if result.ok:
        lines.append(f"ok: nothing is lost of {compared}")
        return "\n".join([*map(typesetter.line, lines), *unknown])
    names = list(dict.fromkeys(loss.name for loss in result.losses))
    lines.append(
        f"DIFFERENT: {', '.join(names)} ({len(names)} of the {len(result.compared)} compared)"
    )
    text = "\n".join([*map(typesetter.line, lines), *unknown])
    rows = list(map(_row, result.losses))
    return f"{text}\n\n{typesetter.table(['lost', 'A', 'B'], rows)}"


def losses_fields(result: ModelComparison) -> dict[str, Any]:
    """What JSON holds of a comparison of models."""
    return {
        "kind": "models",
        "ok": result.ok,
        "tolerance": result.tolerance,
        "compared": list(result.compared),
        "unknown": dict(result.unknown),
        "losses": [
            {"name": loss.name, "layers": loss.layers, "a": loss.a.as_dict(), "b": loss.b.as_dict()}
            for loss in result.losses
        ],
        **{
            key: {
                "name": model.name,
                "engine": model.runtime,
                "model_type": model.reading.model_type,
                "warnings": list(model.reading.warnings),
            }
            for key, model in zip("ab", result.models, strict=True)
        },
    }


def _title(model: Model) -> str:
    name = model.name if model.name in library.names() else quoted_name(model.name)
    return name if model.runtime is None else f"{name} as {model.runtime}"


def _what(model: Model) -> str:
    reading = model.reading
    schemes = dict.fromkeys(group.scheme for group in reading.layers)
    return ", ".join([f"{reading.noun} {reading.model_type}", *schemes])


def _row(loss: Loss) -> list[str]:
    name = loss.name if loss.layers is None else f"{loss.name} ({loss.layers})"
    return [name, *_cells(loss)]


def _cells(loss: Loss) -> Iterator[str]:
    for value in (loss.a, loss.b):
        text = _value_text(loss, value)
        yield f"{text} ({value.source})" if value.source else text


def _value_text(loss: Loss, value: Sourced) -> str:
    if value.value is None:
        return "none"
    if loss.name in _OF_LAYERS:
        return ", ".join(range_texts(value.value)) or "none"
    if isinstance(value.value, float):
        return f"{value.value:.10g}"
    text = as_text(value.value)
    if isinstance(value.value, tuple) and len(text) > _LONGEST_VALUE:
        return f"{as_text(value.value[:2])} … {as_text(value.value[-1])} ({len(value.value)})"
    return text
