"""Compare posenc's readings of random configs with the modules that transformers builds.

Usage: python tools/readings.py [--count N] [--seed S] [MODEL_TYPE…]

Each rotary family gets N configs: random sizes, rope types, bases, shares, lengths and layer types,
in either spelling, at the top or in the rope object. One in five is inside a multimodal model.
transformers builds its configuration and the model's own rotary module for each. Frequencies,
attention factors and layer types must agree, and in one of eight the columns of a pair. Prints a
line for each difference, and the count of each outcome; the status is 1 if there is a difference.
Needs the extra ``peers``.
"""

import argparse
import json
import os
import random
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.configs import families
from posenc_cli.configs.config import resolve
from posenc_cli.configs.families import Rotary
from posenc_cli.configs.layer_types import WITHOUT_ATTENTION
from posenc_cli.configs.resolved import Resolved
from posenc_cli.configs.rope_rules import RULES
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics import exact
from tools.goldens import configured, frequencies, layout

FREQUENCY_TOLERANCE = 1e-5
"""The relative error of a power in float32, as in the golden config_rope."""
FACTOR_TOLERANCE = 1e-9
LAYOUT_EVERY = 8
WITHIN_EVERY = 5
REORDERED = ("ernie4_5_vl_moe_text",)
"""Model types whose modules first group the frequencies by axis."""
OWN_FACTOR = ("phimoe",)
"""Model types that multiply by a factor other than their module's attention_scaling."""


def random_config(family: Rotary, chance: random.Random) -> dict[str, Any]:
    """Return a random config of a family, with some of the possible keys."""
    heads, width = chance.choice([2, 4, 8, 16]), chance.choice([16, 32, 48, 64, 96, 128, 256])
    names = family.aliases
    config: dict[str, Any] = {
        "model_type": family.model_type,
        names.get("num_attention_heads", "num_attention_heads"): heads,
        names.get("hidden_size", "hidden_size"): heads * width,
        names.get("num_hidden_layers", "num_hidden_layers"): chance.choice([2, 4, 6, 8, 12]),
    }
    length = chance.choice([512, 2048, 4096, 32768, 131072])
    if chance.random() < 0.8:
        config[names.get("max_position_embeddings", "max_position_embeddings")] = length
    if family.slice:
        width = chance.choice([16, 32, 64])
        config["qk_rope_head_dim"] = width
        if family.slice_head == "whole":
            config["qk_nope_head_dim"] = 64
            config["head_dim"] = width + 64
        elif family.slice_head is not None or chance.random() < 0.3:
            config["head_dim"] = width
    elif "head_dim" in family.defaults or chance.random() < 0.4:
        width = chance.choice([width, 64, 80, 128])
        config[names.get("head_dim", "head_dim")] = width
    if family.when is not None:
        config[family.when["key"]] = family.when["is"]
    _add_rope(config, family, chance, width, length)
    kinds = sorted({*family.cycle})
    if kinds and chance.random() < 0.3:
        count = config[names.get("num_hidden_layers", "num_hidden_layers")]
        config["layer_types"] = [chance.choice(kinds) for _ in range(count)]
    return config


def within(config: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a config inside a multimodal model, if one has such a text model."""
    around = [
        name
        for name in families.names("containers")
        if families.text_model_type(name) == config["model_type"]
    ]
    if not around:
        return config
    inner = dict(config)
    if chance.random() < 0.3:
        del inner["model_type"]
    name, parts = chance.choice(around), {"text_config": inner}
    container = families.container(name)
    if container is not None and container.inside == "thinker_config":
        parts = {"thinker_config": parts}
    return {"model_type": name, **parts}


def _add_rope(
    config: dict[str, Any], family: Rotary, chance: random.Random, width: int, length: int
) -> None:
    """Add the rope object, the base and the share, in one spelling or another."""
    labels = sorted({*family.cycle, *(family.base if isinstance(family.base, dict) else ())})
    labels = [label for label in labels if label not in WITHOUT_ATTENTION]
    if family.rope and all(isinstance(part, dict) for part in family.rope.values()):
        labels = sorted(family.rope)
    if family.nested and chance.random() < 0.7:
        widths = {label: family.head_dims.get(label) for label in labels}
        config["rope_parameters"] = {
            label: _rope_object(family, chance, width if widths[label] is None else None, length)
            for label in labels
        }
    elif chance.random() < 0.85:
        rope = _rope_object(family, chance, width, length)
        if chance.random() < 0.5:
            config["rope_parameters"] = rope
        else:
            if chance.random() < 0.7:
                config["rope_theta"] = rope.pop("rope_theta", 5e4)
            if chance.random() < 0.3 and "rope_type" in rope:
                rope["type"] = rope.pop("rope_type")
            config["rope_scaling"] = rope
    elif chance.random() < 0.6:
        config["rope_theta"] = chance.choice([1e4, 5e5, 20000])
    if chance.random() < 0.2:
        config["partial_rotary_factor"] = chance.choice([0.25, 0.5, 1.0])
    if chance.random() < 0.1:
        config["original_max_position_embeddings"] = length // 2


def _rope_object(
    family: Rotary, chance: random.Random, width: int | None, length: int
) -> dict[str, Any]:
    """Return a rope object of a random type."""
    kinds = [kind for kind in RULES if kind != "longrope" or width is not None]
    kind = chance.choice([each for each in kinds if not family.types or each in family.types])
    rope: dict[str, Any] = {"rope_type": kind}
    if chance.random() < 0.9:
        rope["rope_theta"] = chance.choice([1e4, 5e5, 1000, 1e6, 12345.5])
    share = family.partial
    if chance.random() < 0.3:
        share = rope["partial_rotary_factor"] = chance.choice([0.25, 0.5, 0.75, 1.0])
    original = max(length // chance.choice([1, 2, 4, 8]), 64)
    if kind != "default":
        rope["factor"] = chance.choice([1.0, 2.0, 4, 8.0, 2.5])
    if kind in ("yarn", "longrope", "llama3") and (kind == "llama3" or chance.random() < 0.8):
        rope["original_max_position_embeddings"] = original
    if kind == "llama3":
        rope |= {"low_freq_factor": 1.0, "high_freq_factor": chance.choice([2.0, 4.0])}
    if kind == "yarn":
        options: dict[str, list[Any]] = {
            "beta_fast": [32, 16.0, 48],
            "beta_slow": [1, 2.0],
            "attention_factor": [1.0, 1.25],
            "mscale": [1.0, 0.707],
            "mscale_all_dim": [1.0, 0.707],
            "truncate": [False, True],
        }
        rope |= {name: chance.choice(of) for name, of in options.items() if chance.random() < 0.3}
    if kind == "longrope":
        _add_factors(rope, chance, int((width or 0) * share) // 2)
    return rope


def _add_factors(rope: dict[str, Any], chance: random.Random, pairs: int) -> None:
    """Add LongRoPE's lists, and what PhiMoE has beside them."""
    for name in ("short_factor", "long_factor"):
        rope[name] = [round(chance.uniform(1, 40), 3) for _ in range(pairs)]
    if chance.random() < 0.5:
        del rope["factor"]
    if chance.random() < 0.3:
        rope["attention_factor"] = 1.2
    rope |= {"short_mscale": 1.1, "long_mscale": 1.3}


def outcome(config: dict[str, Any], *, with_layout: bool) -> tuple[str, str]:
    """Return whether both read a config alike, in one word and in detail."""
    try:
        resolved, refusal = resolve(config), ""
    except InvalidInput as error:
        resolved, refusal = None, error.message
    try:
        made = configured(config).get_text_config()
        tables = frequencies(made)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:160]
        return ("refused by both" if resolved is None else "refused by transformers", reason)
    if resolved is None:
        return "refused by posenc", refusal
    apart = [*_tables_apart(resolved, tables), *_types_apart(resolved, made)]
    if not apart and with_layout:
        apart = list(_layouts_apart(resolved, made))
    return ("MISREAD", "; ".join(apart)) if apart else ("alike", "")


def _tables_apart(resolved: Resolved, tables: dict[str, Any]) -> list[str]:
    """Return the layer types whose frequencies or attention factor differ from transformers."""
    apart = []
    for group in resolved.layers:
        if group.scheme == "nope":
            continue
        label = group.layer_type or ""
        if "compress" in tables:  # DeepSeek V4's labels of ropes are not those of layers
            label = "main" if label == "sliding_attention" else "compress"
        table = tables.get(label, tables.get(""))
        if table is None:
            apart.append(f"{label}: transformers has {', '.join(tables)}")
            continue
        waves = catalogue.find(group.scheme).bind(group.values()).content.waves
        assert waves is not None, group.scheme
        found = [float(frequency) for frequency in waves.frequencies(exact)]
        expected = np.asarray(table[0], dtype=float)
        if resolved.model_type in REORDERED:
            expected = -np.sort(-expected)
        if len(found) != len(expected):
            apart.append(f"{label}: {len(found)} pairs, of transformers {len(expected)}")
        elif not np.allclose(found, expected, rtol=FREQUENCY_TOLERANCE, atol=1e-30):
            far = int(
                np.argmax(np.abs(np.log(np.maximum(found, 1e-30) / np.maximum(expected, 1e-30))))
            )
            apart.append(f"{label}: pair {far} {found[far]:g}, of transformers {expected[far]:g}")
        factor = table[1] if resolved.model_type not in OWN_FACTOR else None
        if factor is not None and abs(float(waves.scale) - factor) > FACTOR_TOLERANCE:
            apart.append(
                f"{label}: attention factor {float(waves.scale)}, of transformers {factor}"
            )
    return apart


def _types_apart(resolved: Resolved, made: Any) -> list[str]:
    """Return the layers whose type differs from transformers."""
    listed = getattr(made, "layer_types", None)
    if not listed:
        return []
    named = {layer: group.layer_type for group in resolved.layers for layer in group.layers}
    if not any(named.values()):
        return []
    return [
        f"layer {layer} {named.get(layer)}, of transformers {label}"
        for layer, label in enumerate(listed)
        if named.get(layer, label if label in WITHOUT_ATTENTION else None)
        not in (label, "nope", "rope")
    ][:3]


def _layouts_apart(resolved: Resolved, made: Any) -> list[str]:
    """Return the columns of a pair if they differ from those of the model's own function."""
    try:
        own = layout(made)
    except (RuntimeError, StopIteration, TypeError):  # sections that fit no head, or no function
        return []
    layouts = {each.params["layout"].value for each in resolved.layers if "layout" in each.params}
    return [] if layouts <= {own} else [f"layout {layouts}, of transformers {own}"]


def main(arguments: Sequence[str]) -> int:
    """Read random configs both ways; return 1 if they differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--count", type=int, default=40, help="configs a family (default: 40)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--refusals", action="store_true", help="show what one side refuses")
    parser.add_argument("names", nargs="*", metavar="MODEL_TYPE")
    options = parser.parse_args(arguments)
    known = filter(None, map(families.rotary, sorted(families.names())))
    total: Counter[str] = Counter()
    for family in known:
        if options.names and family.model_type not in options.names:
            continue
        chance = random.Random(f"{options.seed} {family.model_type}")
        for number in range(options.count):
            config = random_config(family, chance)
            if number % WITHIN_EVERY == 0:
                config = within(config, chance)
            word, detail = outcome(config, with_layout=number % LAYOUT_EVERY == 0)
            total[word] += 1
            if word == "MISREAD" or (options.refusals and word.startswith("refused")):
                print(f"{word}: {detail}\n  {json.dumps(config)}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in total.most_common()))
    return 1 if total["MISREAD"] else 0


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore")
    sys.exit(main(sys.argv[1:]))
