"""Derive the families of posenc_cli/configs/rotary.json from transformers again.

Usage: python tools/families.py [--check] [MODEL_TYPE…]

A configuration class and its model determine sizes, base, share, layout, whether shares are
ignored, and the defaults that multimodal models give their text model. The other keys of a row
(aliases and rules, see rotary.schema.json) were read in the code of the model by a person, and are
kept. A MODEL_TYPE that is not in the file gets a row of derived values, with the cycle of its layer
types if they have one. ``--check`` compares, and writes nothing. Needs the extra ``peers``.

The presets were read from the files that each names as its source; no package has them.
"""

import argparse
import contextlib
import json
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.goldens import configured, frequencies, layout

FILE = Path(__file__).parents[1] / "posenc_cli" / "configs" / "rotary.json"
SIZES = ("hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings")
WIDTHS = ("qk_rope_head_dim", "head_dim")
"""Sizes of a rotated slice or of a head; a configuration class has at most one."""
GONE = ("transfo-xl",)
"""The model types of earlier versions of transformers."""


def row_of(model_type: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return a family's row with its derived values computed again."""
    if "refused" in row:
        return row
    config = configured({"model_type": model_type})
    aliases, rope = row.get("aliases", {}), _attribute(config, "rope_parameters") or {}
    widths = [name for name in WIDTHS if isinstance(getattr(type(config), name, None), int)]
    sizes = row.get("defaults") or (*SIZES, *widths[:1])
    kept_sizes = row.get("defaults", {})
    defaults = {
        name: _attribute(config, aliases.get(name, name)) or kept_sizes.get(name) for name in sizes
    }  # a window that is switched off has no size
    nested = any(isinstance(part, dict) for part in rope.values())
    derived: dict[str, Any] = {"nested": nested}
    if not row:
        derived["cycle"] = _cycle(getattr(config, "layer_types", None) or [])
        derived["slice"] = widths[:1] == ["qk_rope_head_dim"]
    if "rope" not in row:
        derived |= _of_rope(model_type, rope, nested=nested)
    if row.get("layout") in (None, "half", "interleaved"):
        try:
            derived["layout"] = layout(config)
        except (RuntimeError, TypeError):  # its default sections fit no head, or it has none
            derived["layout"] = row.get("layout", "half")
    usual: dict[str, Any] = {
        "nested": False,
        "base": 10_000.0,
        "partial": 1.0,
        "partial_ignored": False,
    }
    usual |= {"layout": "half", "cycle": [], "slice": False}
    kept = {name: row[name] for name in row if row[name] == derived.get(name, row[name])}
    new = {name: value for name, value in derived.items() if value != usual[name]}
    order = [
        *(name for name in row if name in {**new, **kept}),
        *(name for name in new if name not in row),
    ]
    return {"defaults": defaults} | {
        name: {**new, **kept}[name] for name in order if name != "defaults"
    }


def _cycle(layer_types: list[str]) -> list[str]:
    """Return the shortest list whose repetition gives these; empty if all are equal."""
    for length in range(2, len(layer_types) // 2 + 1):
        cycle = layer_types[:length]
        if len(set(cycle)) > 1 and all(
            name == cycle[i % length] for i, name in enumerate(layer_types)
        ):
            return cycle
    return []


def _of_rope(model_type: str, rope: dict[str, Any], *, nested: bool) -> dict[str, Any]:
    """Return the values that follow from the default rope object of a configuration."""
    if nested:
        bases = {kind: part["rope_theta"] for kind, part in rope.items()}
        return {"base": bases if len(set(bases.values())) > 1 else next(iter(bases.values()))}
    if not rope:
        return {}
    plain = {"rope_type": "default", "rope_theta": rope["rope_theta"]}
    config = {"model_type": model_type}
    widths = {
        len(
            frequencies(
                configured(
                    {**config, "rope_parameters": {**rope, **plain, "partial_rotary_factor": share}}
                )
            )[""][0]
        )
        for share in (0.5, 1.0)
    }
    return {
        "base": rope["rope_theta"],
        "partial": rope.get("partial_rotary_factor", 1.0),
        "partial_ignored": len(widths) == 1,
    }


def container_of(model_type: str, row: Any, families: dict[str, Any]) -> Any:
    """Return the defaults that a multimodal model changes in its text model."""
    from huggingface_hub.errors import StrictDataclassError

    flat = isinstance(row, dict) and row.get("flat")
    whole = configured({"model_type": model_type})
    alone = whole.get_text_config()
    text = type(alone).model_type  # flat configs leave that of the whole on the instance
    own = configured({"model_type": text})
    stated = families.get(text, {}).get("defaults", {})
    differing, merged = _differing(alone, own, stated), {}
    if differing and "vlm_config" not in (type(whole).sub_configs or {}):
        with contextlib.suppress(StrictDataclassError):  # one that its other parts must fit
            within = configured({"model_type": model_type, "text_config": {"sliding_window": 64}})
            merged = _differing(within.get_text_config(), own, stated)
    base = differing.pop("rope_theta", None)
    derived = {
        "text": text,
        **({"defaults": differing} if differing else {}),
        **({"base": float(base)} if base else {}),
        **({"merged": True} if differing and merged.items() >= differing.items() else {}),
        **({"flat": True} if flat else {}),
        **({"inside": row["inside"]} if isinstance(row, dict) and "inside" in row else {}),
    }
    return derived if len(derived) > 1 else text


def _differing(config: Any, own: Any, stated: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a text model that differ from its own type's."""
    values, usual = (
        {
            **{name: _attribute(each, name) for name in (*SIZES, *WIDTHS)},
            "rope_theta": (_attribute(each, "rope_parameters") or {}).get("rope_theta"),
        }
        for each in (config, own)
    )
    if stated:
        usual |= {name: stated.get(name) for name in SIZES}
    if stated and not stated.keys() & {*WIDTHS} and values["head_dim"]:
        usual["head_dim"] = values["hidden_size"] // values["num_attention_heads"]
    return {name: value for name, value in values.items() if value != usual[name]}


def _attribute(config: Any, name: str) -> Any:
    """Return a value of a configuration; the most common one if layers differ."""
    try:
        return getattr(config, name, None)
    except RuntimeError:
        return vars(config).get(name)


def text_of(table: dict[str, Any]) -> str:
    """Return the table as text, with one line for each family."""
    families, containers = (
        ",\n".join(
            f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(table[part].items())
        )
        for part in ("families", "containers")
    )
    fixed, others = (
        textwrap.fill(", ".join(map(json.dumps, table[part])), 160, break_on_hyphens=False)
        for part in ("fixed", "others")
    )
    return (
        f'{{\n"families": {{\n{families}\n}},\n"containers": {{\n{containers}\n}},\n'
        f'"fixed": [\n{fixed}\n],\n"others": [\n{others}\n]\n}}\n'
    )


def main(arguments: Sequence[str]) -> int:
    """Renew the file, or compare it; return 1 if it differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE", help="new rotary families")
    options = parser.parse_args(arguments)
    try:
        from transformers import CONFIG_MAPPING
    except ModuleNotFoundError as error:
        parser.error(f"{error.name} is missing: it comes with the extra peers")
    if unknown := sorted(set(options.names) - set(CONFIG_MAPPING)):
        parser.error(f"transformers knows no model_type {', '.join(unknown)}")
    text = FILE.read_text("utf-8")
    table = json.loads(text)
    families = {**{name: {} for name in options.names}, **table["families"]}
    table["families"] = {name: row_of(name, row) for name, row in families.items()}
    table["containers"] = {
        name: container_of(name, row, table["families"])
        for name, row in table["containers"].items()
    }
    read = {*table["families"], *table["containers"]}
    table["others"] = [*sorted(set(CONFIG_MAPPING) - read), *GONE]
    renewed = text_of(table)
    if not options.check:
        FILE.write_text(renewed, "utf-8")
    for name in ("families", "containers"):
        for key, row in table[name].items():
            if json.loads(text)[name].get(key) != row:
                print(f"{name}: {key}: {json.dumps(row)}")
    same = renewed == text
    print(f"{FILE.name}: {'the same bytes' if same else 'other bytes'}")
    return 1 if options.check and not same else 0


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    sys.exit(main(sys.argv[1:]))
