"""``posenc models``: the models whose configs posenc ships."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli.cli.completers import model_names
from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Json
from posenc_cli.configs import library
from posenc_cli.configs.config import resolve

if TYPE_CHECKING:
    from posenc_cli.configs.library import Preset
    from posenc_cli.configs.resolved import Resolved

_LONGEST = 30


def models(
    console: Console,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", autocompletion=model_names, help="describe only this model"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the known models, or describe one.

    A description has the config and the source of its numbers; posenc explain NAME reads it.

    Examples:
      posenc models
      posenc models llama-3.1-8b
      posenc models gemma-3-4b --json
    """
    presets = [*map(library.find, library.names() if name is None else [name])]
    resolved = [resolve(preset.config, name=preset.name) for preset in presets]
    heads = ["model", "schemes", "context", "what it is"]
    console.either(
        "models",
        lambda: {"models": list(map(_fields, presets, resolved))},
        lambda: (
            console.typesetter.table(heads, list(map(_row, presets, resolved)))
            if name is None
            else _text(console, presets[0], resolved[0])
        ),
        as_json=as_json,
    )


def _row(preset: Preset, resolved: Resolved) -> list[str]:
    schemes = ", ".join(dict.fromkeys(layers.scheme for layers in resolved.layers))
    contexts = (layers.derived.get("context") for layers in resolved.layers)
    context = next((str(context.value) for context in contexts if context is not None), "")
    return [preset.name, schemes, context, preset.title]


def _fields(preset: Preset, resolved: Resolved) -> dict[str, Any]:
    return {
        "name": preset.name,
        "title": preset.title,
        "source": preset.source,
        "config": preset.config,
        "layers": [
            {
                "layer_type": layers.layer_type,
                "layers": list(layers.layers),
                "scheme": layers.scheme,
                "params": layers.values(),
            }
            for layers in resolved.layers
        ],
        "warnings": list(resolved.warnings),
    }


def _text(console: Console, preset: Preset, resolved: Resolved) -> str:
    """One model, for a reader."""
    texts = [
        console.typesetter.paragraph(f"{preset.name}: {preset.title}"),
        console.typesetter.paragraph(f"Source: {preset.source}"),
        *(console.typesetter.paragraph(f"Warning: {warning}") for warning in resolved.warnings),
        f"Of its config.json:\n{_config_text(preset)}",
        f"next: posenc explain {preset.name}",
    ]
    return "\n\n".join(texts)


def _config_text(preset: Preset) -> str:
    """The config, a key a line; long lists are counted, and whole in ``--json``."""
    lines = []
    for key, value in preset.config.items():
        if isinstance(value, dict):
            lines += [f"  {key}:", *(f"    {k}: {_json_text(v)}" for k, v in value.items())]
        else:
            lines.append(f"  {key}: {_json_text(value)}")
    return "\n".join(lines)


def _json_text(value: Any) -> str:
    text = json.dumps(value)
    if len(text) <= _LONGEST:
        return text
    return "{…}" if isinstance(value, dict) else f"[{len(value)} values]"
