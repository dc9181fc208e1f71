"""``posenc models``: the models whose configs are built in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Json
from posenc_cli.configs import library
from posenc_cli.configs.config import resolve

if TYPE_CHECKING:
    from posenc_cli.configs.library import Preset
    from posenc_cli.configs.resolved import Resolved


def models(console: Console, as_json: Json = False) -> None:
    """List the models that posenc knows by name.

    --json also prints each config and its source. posenc explain NAME explains the config
    of a model.

    Examples:
      posenc models
      posenc models --json
    """
    presets = [*map(library.find, library.names())]
    resolved = [resolve(preset.config, name=preset.name) for preset in presets]
    heads = ["model", "schemes", "context", "what it is"]
    console.either(
        "models",
        lambda: {"models": list(map(_fields, presets, resolved))},
        lambda: console.typesetter.table(heads, list(map(_row, presets, resolved))),
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
