"""List the model types of transformers and their parts, for the golden registry.json.

Each type that posenc reads without RoPE, or refuses, is built on torch's meta device with the
defaults of its configuration. The golden says whether one of its modules has attention, and the
shapes of parts whose name suggests positions. Types whose model needs a missing library, or more
than defaults, are listed without these. ``tools/goldens.py registry`` runs this.
"""

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from posenc_cli.configs import families

_ATTENDS = re.compile("Atten|Attn|MHA")
_TABLE = re.compile(
    r"(?<!com)pos(ition)?(al)?_?(emb|enc|ids?)|embed_positions|positions_embed|wpe|relative|inv_freq"
)
_LARGEST = 12
"""Most shapes of a type, in the order of its modules."""


def registry(statement: dict[str, Any], _stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return every model type of transformers, and the parts of those that do not rotate."""
    import transformers

    statement["transformers"] = transformers.__version__
    turning = {*families.names(), *families.names("containers")}
    statement["cases"] = [
        {"model_type": name, **({} if name in turning else _made_of(name))}
        for name in sorted(transformers.CONFIG_MAPPING.keys())
    ]
    return {}


def _made_of(model_type: str) -> dict[str, Any]:
    """Return whether a model has attention, and its tables; empty if it cannot be built."""
    import torch

    for build in _classes(model_type):
        try:
            with torch.device("meta"):
                model = build()
        except Exception:
            continue
        names = {type(module).__name__ for module in model.modules()}
        tables: dict[str, list[int]] = {}
        for name, value in (*model.named_parameters(), *model.named_buffers()):
            if _TABLE.search(name) and len(tables) < _LARGEST:
                tables.setdefault(re.sub(r"\d+", "0", name), [*value.shape])
        return {"attends": any(map(_ATTENDS.search, names)), "tables": tables}
    return {}


def _classes(model_type: str) -> Iterator[Any]:
    """Yield the classes that can build a model of a type, the plainest first."""
    from transformers import CONFIG_MAPPING, PreTrainedModel

    try:
        kind = CONFIG_MAPPING[model_type]
        config = kind()
        modeling = importlib.import_module(kind.__module__.replace("configuration_", "modeling_"))
    except Exception:
        return
    found = [
        (name, class_)
        for name, class_ in vars(modeling).items()
        if inspect.isclass(class_)
        and issubclass(class_, PreTrainedModel)
        and class_.__module__ == modeling.__name__
        and getattr(class_, "config_class", None) is kind
        and not name.endswith("PreTrainedModel")
    ]
    found.sort(key=lambda pair: ("For" in pair[0], not pair[0].endswith("Model"), pair[0]))
    for _, class_ in found:
        yield lambda class_=class_: class_(config)
