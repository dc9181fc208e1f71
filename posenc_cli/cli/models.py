"""``posenc models``: the models whose configs posenc ships."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posenc_cli.cli.console import Console
from posenc_cli.cli.listing import parameters_text
from posenc_cli.cli.options import Json
from posenc_cli.models import library
from posenc_cli.models.config import resolve
from posenc_cli.schemes.parameters import as_text

if TYPE_CHECKING:
    from posenc_cli.models.library import Preset
    from posenc_cli.models.resolved import Layers, Resolved

_LONGEST = 30


def models(
    console: Console,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="describe this model alone")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the models that posenc knows, or describe one.

    Of one model: its config, where the numbers were read, and what it resolves to.

    \b
    Examples:
      posenc models
      posenc models llama-3.1-8b
      posenc models gemma-3-4b --json
    """
    names = library.names() if name is None else [name]
    presets = [library.find(each) for each in names]
    resolved = [resolve(each.config, name=each.name) for each in presets]
    if as_json:
        fields = [_fields(*each) for each in zip(presets, resolved, strict=True)]
        console.json("models", {"models": fields})
    elif name is not None:
        console.result(_described(console, presets[0], resolved[0]))
    else:
        rows = [_row(*each) for each in zip(presets, resolved, strict=True)]
        console.result(console.table_text(["model", "schemes", "context", "what it is"], rows))


def _row(preset: Preset, resolved: Resolved) -> list[str]:
    schemes = ", ".join(dict.fromkeys(each.scheme for each in resolved.layers))
    return [preset.name, schemes, _context(resolved), preset.title]


def _context(resolved: Resolved) -> str:
    found = (each.derived.get("context") for each in resolved.layers)
    return next((str(each.value) for each in found if each is not None), "")


def _fields(preset: Preset, resolved: Resolved) -> dict[str, Any]:
    return {
        "name": preset.name,
        "title": preset.title,
        "source": preset.source,
        "config": preset.config,
        "layers": [_layer_fields(each) for each in resolved.layers],
        "warnings": list(resolved.warnings),
    }


def _layer_fields(layers: Layers) -> dict[str, Any]:
    return {
        "layer_type": layers.layer_type,
        "layers": list(layers.layers),
        "scheme": layers.scheme,
        "params": layers.values(),
    }


def _described(console: Console, preset: Preset, resolved: Resolved) -> str:
    """One model, for a reader."""
    texts = [
        console.paragraph_text(f"{preset.name}: {preset.title}"),
        console.paragraph_text(f"Source: {preset.source}"),
        *(console.paragraph_text(f"Warning: {each}") for each in resolved.warnings),
        *(_layers_text(console, each) for each in resolved.layers),
        f"Of its config.json:\n{_config_text(preset)}",
    ]
    return "\n\n".join(texts)


def _layers_text(console: Console, layers: Layers) -> str:
    """What layers of one type resolve to, each value with where it comes from."""
    which = f"{layers.layer_type}: " if layers.layer_type else ""
    rows = [[name, _shortened(each.value), each.source] for name, each in layers.params.items()]
    heading = f"{which}{layers.scheme}"
    return f"{heading}\n{parameters_text(console, rows)}" if rows else heading


def _shortened(value: Any) -> str:
    text = as_text(tuple(value) if isinstance(value, list) else value)
    return f"{len(value)} numbers" if len(text) > _LONGEST and not isinstance(value, str) else text


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
