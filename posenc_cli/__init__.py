"""posenc: generate, inspect, check and visualize transformer positional encodings.

>>> import posenc_cli as posenc
>>> cos, sin = posenc.tables("llama-3.1-8b", 8192)
>>> posenc.rope_check("llama-3.1-8b", tables=(cos, sin)).ok
True

The names exported here are stable. Everything else in the package may change.
"""

__version__ = "0.2.0"

# Nothing is imported here. With python -m posenc_cli, the current folder is on the path until
# __main__, which is imported next, removes it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from posenc_cli.api.arguments import ArgumentError as ArgumentError
    from posenc_cli.api.arguments import ModelEncoding as ModelEncoding
    from posenc_cli.api.checking import CheckReport as CheckReport
    from posenc_cli.api.checking import RopeReport as RopeReport
    from posenc_cli.api.checking import assert_rope as assert_rope
    from posenc_cli.api.checking import check as check
    from posenc_cli.api.checking import compare as compare
    from posenc_cli.api.checking import identify as identify
    from posenc_cli.api.checking import rope_check as rope_check
    from posenc_cli.api.encoding import Tables as Tables
    from posenc_cli.api.encoding import alibi_slopes as alibi_slopes
    from posenc_cli.api.encoding import bias as bias
    from posenc_cli.api.encoding import blocks as blocks
    from posenc_cli.api.encoding import encode as encode
    from posenc_cli.api.encoding import frequencies as frequencies
    from posenc_cli.api.encoding import from_config as from_config
    from posenc_cli.api.encoding import models as models
    from posenc_cli.api.encoding import resize as resize
    from posenc_cli.api.encoding import schemes as schemes
    from posenc_cli.api.encoding import tables as tables
    from posenc_cli.api.inspecting import InspectionReport as InspectionReport
    from posenc_cli.api.inspecting import inspect as inspect
    from posenc_cli.api.pictures import SimilarityReport as SimilarityReport
    from posenc_cli.api.pictures import Spectrum as Spectrum
    from posenc_cli.api.pictures import curve as curve
    from posenc_cli.api.pictures import heatmap as heatmap
    from posenc_cli.api.pictures import similarity as similarity
    from posenc_cli.api.pictures import spectrum as spectrum
    from posenc_cli.api.rotation import apply as apply
    from posenc_cli.api.rotation import rotate as rotate
    from posenc_cli.errors import PosencError as PosencError
    from posenc_cli.errors import Unavailable as Unavailable

_MODULES = {
    "arguments": ("ArgumentError", "ModelEncoding"),
    "checking": (
        *("CheckReport", "RopeReport", "assert_rope", "check", "compare", "identify"),
        "rope_check",
    ),
    "encoding": (
        *("Tables", "alibi_slopes", "bias", "blocks", "encode", "frequencies", "from_config"),
        *("models", "resize", "schemes", "tables"),
    ),
    "inspecting": ("InspectionReport", "inspect"),
    "pictures": ("SimilarityReport", "Spectrum", "curve", "heatmap", "similarity", "spectrum"),
    "rotation": ("apply", "rotate"),
}
_EXPORTS = {
    **{name: f"posenc_cli.api.{module}" for module, names in _MODULES.items() for name in names},
    **dict.fromkeys(("PosencError", "Unavailable"), "posenc_cli.errors"),
}


def __getattr__(name: str) -> "Any":
    """Import an exported name when it is first used: `posenc --version` needs none of them."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return globals().setdefault(name, getattr(import_module(_EXPORTS[name]), name))


def __dir__() -> list[str]:
    return [*_EXPORTS, "__version__"]
