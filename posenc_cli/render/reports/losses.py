"""The report on a converted model file, as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.configs import library
from posenc_cli.errors import quoted_name
from posenc_cli.formulas.parameters import as_text
from posenc_cli.positions import range_texts
from posenc_cli.render.typesetting import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.comparison.losses import Loss, Model, ModelComparison
    from posenc_cli.configs.resolved import Sourced
    from posenc_cli.render.typesetting import Typesetter

_LONGEST_VALUE = 24
_OF_LAYERS = ("sliding-layers", "unturned-layers")


def losses_text(result: ModelComparison, typesetter: Typesetter) -> str:
    """The answer, both models, and each value that differs."""
    lines = [
        f"{key} {_title(model)}: {reading.noun} {', '.join([reading.model_type, *schemes])}"
        for key, model in zip("AB", result.models, strict=True)
        for reading in [model.reading]
        for schemes in [dict.fromkeys(group.scheme for group in reading.layers)]
    ]
    compared = [f"compared: {', '.join(result.compared)}"] * result.ok
    unknown = [
        typesetter.paragraph(f"not checked: {name}: {why}", hanging=2)
        for name, why in result.unknown.items()
    ]
    told, named = (
        [typesetter.paragraph(line, whole=True) for line in part] for part in (lines, compared)
    )
    head = [losses_answer(result).text(typesetter), *told, *unknown, *named]
    if result.ok:
        return "\n".join(head)
    rows = list(map(_row, result.losses))
    return "\n".join(head) + f"\n\n{typesetter.table(['setting', 'A', 'B'], rows)}"


def losses_answer(result: ModelComparison) -> Answer:
    """The settings that differ between the models."""
    count = len(result.compared)
    if result.ok:
        return Answer(True, f"ok: all {count} settings of A and B agree")
    names = list(dict.fromkeys(loss.name for loss in result.losses))
    loss = result.losses[0]
    a, b = (_value_text(loss, value) for value in (loss.a, loss.b))
    return Answer(
        False,
        f"DIFFERENT: {', '.join(names)} ({len(names)} of the {count} compared)",
        f"{loss.name} is {a} in A and {b} in B",
        next="correct the wrong side: the table has each value and the key it comes from",
    )


def losses_fields(result: ModelComparison) -> dict[str, Any]:
    """The JSON fields of a comparison of models."""
    return {
        **losses_answer(result).fields(),
        "kind": "models",
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
