"""Read the file of a config: one JSON object of bounded size. Refuse files that are not configs.

A drafter proposes tokens at its verifier's positions, and has its own config. Files of other
programs are refused with the name of their format.

Source: speculators' configs, https://github.com/vllm-project/speculators (src/speculators/config.py
and models/); the heads of EAGLE, https://github.com/SafeAILab/EAGLE, and SpecForge,
https://github.com/sgl-project/SpecForge; PEFT, https://github.com/huggingface/peft
(src/peft/config.py); transformers' generation/configuration_utils.py;
https://github.com/mistralai/mistral-inference (args.py); https://github.com/meta-llama/llama3
(llama/model.py); https://github.com/AI-Hypercomputer/maxtext (configs/base.yml);
https://github.com/NVIDIA/NeMo (megatron_gpt_config.yaml); https://github.com/NVIDIA/Megatron-LM
(megatron/training/arguments.py).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from posenc_cli.errors import InvalidInput, Unavailable, abbreviated, quoted_name
from posenc_cli.files.gguf import MAGIC, GGUFHeader
from posenc_cli.transaction import STANDARD_INPUT, check_name, open_input

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.configs.keys import Keys
    from posenc_cli.configs.resolved import Notes

FILE = "config.json"
_ADAPTER_FILE = "adapter_config.json"
_MISTRAL_FILE = "params.json"
LARGEST_FILE = 8 << 20  # bytes; the largest config of a model is a thousandth of it


def read_config(path: str, *, flag: str | None = "--config") -> Mapping[str, Any] | GGUFHeader:
    """Read the JSON object in a file, a pipe, the config.json of a folder, or stdin (``-``).

    ``flag`` is the option that errors name; None if the path is an argument. Returns the header of
    a GGUF file.

    Raises: InvalidInput for any other content; Unavailable if it cannot be read.
    """
    where = quoted_name(path) if flag is None else f"{flag} {quoted_name(path)}"
    try:
        content = _read_path(path, where)
        if isinstance(content, GGUFHeader):
            return content
        # Keys.number refuses NaN and Infinity, which Python's JSON writes.
        found = json.loads(
            content.decode("utf-8-sig"), object_pairs_hook=_object_without_duplicates
        )
    except InvalidInput as error:
        raise InvalidInput(error.message.replace("the file", where, 1)) from error
    except json.JSONDecodeError as error:
        _check_text(where, error.doc)
        place = f"line {error.lineno} column {error.colno}"
        raise InvalidInput(
            f"{where} is not JSON: {error.msg} ({place})"
            if error.doc
            else f"{where} is empty: it holds no bytes"
        ) from error
    except (RecursionError, ValueError) as error:
        raise InvalidInput(
            f"{where} is not JSON: byte {error.start + 1} is not UTF-8"
            if isinstance(error, UnicodeDecodeError)
            else f"{where} cannot be read as JSON: {error}"
        ) from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{where}: must hold a JSON object")
    return found


def _read_path(path: str, where: str) -> bytes | GGUFHeader:
    """Return the bytes of a config or the header of a GGUF file; refuse endless devices."""
    check_name(path)
    try:
        if path == STANDARD_INPUT:
            return _read_open(open_input(path), path, where)
        file = Path(path)
        if file.is_dir():
            file = _config_in_folder(file, where)
        mode = file.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            raise InvalidInput("the file: is neither a regular file nor a pipe")
        with open_input(file) as config:
            return _read_open(config, str(file), where)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unavailable(f"{where}: {reason}") from error


def _config_in_folder(folder: Path, where: str) -> Path:
    """Return the config in a folder, or another program's file, which is refused later."""
    for name in (FILE, _ADAPTER_FILE, _MISTRAL_FILE):
        if (folder / name).exists():
            return folder / name
    raise Unavailable(f"{where} is a folder without a {FILE}")


def _read_open(file: BinaryIO, path: str, where: str) -> bytes | GGUFHeader:
    """Return the bytes of an open config, or the header of a file with GGUF's magic or suffix."""
    ahead = file.read(len(MAGIC))
    if ahead != MAGIC and not path.lower().endswith(".gguf"):
        content = ahead + file.read(LARGEST_FILE + 1 - len(ahead))
        if len(content) > LARGEST_FILE:
            raise InvalidInput(f"the file: is larger than {LARGEST_FILE >> 20} MiB")
        return content
    from posenc_cli.configs.gguf.gguf_file import read_gguf_model

    status = os.fstat(file.fileno())
    size = status.st_size if stat.S_ISREG(status.st_mode) and path != STANDARD_INPUT else None
    return read_gguf_model(file, path, size=size, name=where, ahead=ahead)


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse duplicate keys."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = Counter(key for key, _ in pairs)
        twice = next(key for key, count in names.items() if count > 1)
        raise InvalidInput(f"the file: duplicate key {abbreviated(twice)}")
    return found


LAYER = "transformer_layer_config"
"""The section in which speculators keeps the config of a drafter's layers."""

_DRAFTER = "speculators_model_type"
_DRAFTER_CLASSES = r"(?i)eagle|medusa|hass|dflash|draft|speculator|nextn|mtp"
"""Class names of drafters; their model type is that of an ordinary model."""


def is_drafter(config: Mapping[str, Any]) -> bool:
    """Return whether a config belongs to a drafter.

    >>> is_drafter({"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"]})
    True
    """
    names = config.get("architectures")
    classes = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return _DRAFTER in config or any(re.search(_DRAFTER_CLASSES, name) for name in classes)


def note_drafter(top: Keys, notes: Notes) -> None:
    """Warn that a config belongs to a drafter, and of which model.

    Raises: InvalidInput for a drafter without attention layers.
    """
    if _DRAFTER not in top.values:
        return
    kind = abbreviated(str(top.values[_DRAFTER]))
    if not isinstance(top.values.get(LAYER), dict):
        raise InvalidInput(
            f"{top.name} is a draft model ({_DRAFTER} {kind}) without {LAYER}: it has no "
            "attention to read"
        )
    config = top.values.get("speculators_config")
    verifier = config.get("verifier") if isinstance(config, dict) else None
    name = verifier.get("name_or_path") if isinstance(verifier, dict) else None
    whose = f" of {quoted_name(name)}" if isinstance(name, str) and name else ""
    notes.warnings.append(
        f"it is a draft model ({kind}){whose}: posenc compare VERIFIER DRAFTER checks that both "
        "rotate alike"
    )


_HINT = "explain the config.json of the model on Hugging Face"
_SIZES = {"num_layers", "hidden_size", "num_attention_heads"}
_KEY = r"""(?m)^[ \t]*(?:--|["']|-[ \t]+)?([A-Za-z][\w-]*)["']?(?:[ \t]*[:=]|[ \t]|$)"""
"""A key of YAML or an option of a command, at the start of its line."""


_FORMATS: tuple[tuple[str, tuple[set[str], ...], str], ...] = (
    (
        "PEFT's adapter_config.json",
        ({"peft_type"},),
        (
            "positions are those of the base model; its config.json needs the rope_scaling that a "
            "long-context adapter was trained with"
        ),
    ),
    (
        "a generation_config.json",
        ({"_from_model_config"}, {"do_sample"}, {"max_new_tokens"}, {"temperature"}),
        "it sets how tokens are sampled, not positions",
    ),
    (
        "Mistral's params.json",
        ({"dim", "n_layers", "n_heads", "head_dim"},),
        (
            "in its yarn, beta means beta_fast, alpha means beta_slow, and apply_scale false "
            "means attention_factor 1"
        ),
    ),
    (
        "the params.json of Meta's Llama",
        ({"dim", "n_layers", "n_heads"},),
        "use_scaled_rope means rope_type llama3, and the conversion permutes q and k",
    ),
    (
        "a config of MaxText",
        ({"base_emb_dim", "base_num_query_heads"},),
        (
            "rope_max_timescale means rope_theta, and local_rope_max_timescale the base of "
            "sliding layers"
        ),
    ),
    (
        "a config of NeMo",
        ({"encoder_seq_length"}, {"rotary_percentage"}, {"seq_len_interpolation_factor"}),
        (
            "rotary_percentage means partial_rotary_factor, rotary_base rope_theta, and "
            "seq_len_interpolation_factor the factor of rope_type linear"
        ),
    ),
    (
        "a file of arguments of Megatron-LM, on which NeMo 2 builds",
        ({"rotary_percent"}, {"rotary_base"}, {"position_embedding_type", "seq_length"}),
        (
            "rotary_base means rope_theta, rotary_percent partial_rotary_factor, and "
            "use_rope_scaling rope_type llama3"
        ),
    ),
)
"""Each format: its name, sets of keys that identify it, and the hint for the user.

A file has the format if it has all keys of one set. NeMo and Megatron-LM also need the names of
sizes, maybe in a section. Special formats come before general ones.
"""


def check_format(name: str, values: Mapping[str, Any]) -> None:
    """Refuse an object without a model type that has the keys of another program's format.

    Megatron-LM writes its own ModelType as model_type. Raises: InvalidInput.
    """
    stated = values.get("model_type")
    if isinstance(stated, str) and not stated.startswith("ModelType."):
        return
    nested = [value for value in values.values() if isinstance(value, dict)]
    _refuse_known_format(name, [set(map(str, keys)) for keys in (values, *nested)])


def _check_text(name: str, text: str) -> None:
    """Refuse a text that is not JSON but has the keys of another program's YAML, or its options.

    Raises: InvalidInput.
    """
    _refuse_known_format(name, [{key.replace("-", "_") for key in re.findall(_KEY, text)}])


def _refuse_known_format(name: str, sets: list[set[str]]) -> None:
    for format_name, alternatives, hint in _FORMATS:
        sizes = _SIZES if "NeMo" in format_name else set()
        places = sets if sizes else sets[:1]
        if any(each | sizes <= keys for keys in places for each in alternatives):
            raise InvalidInput(
                f"{name} is {format_name}, which posenc does not read", hint=f"{_HINT}; {hint}"
            )
