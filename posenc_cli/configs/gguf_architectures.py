"""What llama.cpp does with positions in each architecture of a GGUF file, as data.

Read in its own code at the version that :data:`~posenc_cli.configs.runtimes.RUNTIMES` names: which
columns pair up is said by ``llama_model_rope_type`` in src/llama-model.cpp, which tensors divide
frequencies, and which layers slide or do not turn, by src/models/*.cpp; what the converter does to
the rows of q and k by conversion/*.py. An architecture that is not here was not read, and is
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

LLAMA_CPP = "https://github.com/ggml-org/llama.cpp/blob/master"

FREQS = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
FACTOR_TENSORS = (FREQS, LONG, SHORT)
"""The tensors that divide frequencies, a number for each pair."""

OWN_BASE = 10_000.0
"""The base of sliding layers that share none with the others, where no key says it."""


class Sliding(Record):
    """Which layers see a window only, and how those turn.

    ``window`` holds where no key says it; ``optional`` where without the key no layer slides. Of
    ``every`` so many layers the last sees all, or with ``dense_first`` the first; of 0 a list alone
    says which. Their base is that of the others where it is ``shared``, else 10000, and so is their
    factor where it is ``stretched``; where it is not ``keyed``, no key changes that base. Where
    they are ``plain`` they leave YaRN out.
    """

    every: int = 0
    window: int | None = None
    optional: bool = False
    dense_first: bool = False
    shared: bool = False
    stretched: bool = False
    keyed: bool = True
    plain: bool = False


class Architecture(Record):
    """What llama.cpp does with positions in an architecture.

    ``turns`` says which columns pair up: ``norm`` (2i and 2i+1), ``neox`` (i and i + n/2),
    ``mrope`` and ``imrope`` (as neox, on several axes), ``none``; ``norm or mrope`` goes by whether
    there are sections. ``permuted`` says that the converter moves the rows of q and k from halves.
    ``factors`` are the tensors it looks for: ``freqs``, ``long`` (and short), or ``either``, by the
    scaling type. Of a ``slice`` the rest of a head does not turn. ``still`` names the layers that
    do not turn at all. ``yarn`` are the keys of YaRN's that it alone reads. ``bias`` is ALiBi's
    largest; of ``key`` a key says it. Of a ``hybrid`` not all layers have attention, but those with
    heads of keys, or of each ``interval`` the last.
    """

    turns: str
    permuted: bool = False
    factors: str = ""
    slice: bool = False
    sliding: Sliding | None = None
    still: str = ""
    yarn: tuple[str, ...] = ()
    bias: float | str | None = None
    hybrid: bool = False
    interval: int = 0


_BETAS = ("yarn_beta_fast", "yarn_beta_slow")
_LOG = "yarn_log_multiplier"

_NORM = Architecture("norm")
_PERMUTED = Architecture("norm", permuted=True)
_NEOX = Architecture("neox")

ARCHITECTURES: Mapping[str, Architecture] = {
    # Pairs of neighbours, after the converter moved the rows of halves together.
    **dict.fromkeys(("llama", "llama-embed", "granitemoe"), Architecture("norm", True, "either")),
    **dict.fromkeys(("deci", "minicpm"), Architecture("norm", True, "either")),
    **dict.fromkeys(("llada", "arcee", "nanbeige"), Architecture("norm", True, "freqs")),
    **dict.fromkeys(("xverse", "olmo", "arctic", "internlm2", "deepseek", "bailingmoe"), _PERMUTED),
    "chameleon": _PERMUTED,
    "baichuan": Architecture("norm", True, bias="of 40 layers"),
    "granite": Architecture("norm", True, "either", still="unless finetuned"),
    "granitehybrid": Architecture("norm", True, "freqs", still="unless finetuned", hybrid=True),
    "smollm3": Architecture("norm", True, still="every fourth"),
    "mistral3": Architecture("norm", True, "either", yarn=(*_BETAS, _LOG)),
    # Pairs of neighbours, as the model has them.
    **dict.fromkeys(("command-r", "chatglm", "ernie4_5", "ernie4_5-moe"), _NORM),
    **dict.fromkeys(("neo-bert", "maincoder"), _NORM),
    "cohere2moe": Architecture(
        "norm",
        sliding=Sliding(4, shared=True, stretched=True),
        still="unless sliding or leading",
    ),
    "cohere2": Architecture(
        "norm",
        sliding=Sliding(4, shared=True, stretched=True, keyed=False),
        still="unless sliding",
    ),
    "llama4": Architecture(
        "norm",
        factors="freqs",
        sliding=Sliding(4, window=8192, shared=True, stretched=True),
        still="every fourth",
    ),
    "muse-glimmer": Architecture(
        "norm", permuted=True, sliding=Sliding(4, shared=True), still="unless sliding"
    ),
    "granite_swa": Architecture(
        "norm",
        permuted=True,
        factors="either",
        sliding=Sliding(shared=True, stretched=True, keyed=False),
        still="by list",
    ),
    "graniteswitch": Architecture("norm", True, "either", still="unless finetuned"),
    "glm4": Architecture("norm or mrope"),
    "mistral4": Architecture("norm", slice=True, yarn=(_LOG,)),
    "deepseek2": Architecture("norm", slice=True, yarn=(_LOG,)),
    "deepseek32": Architecture("norm", slice=True, yarn=(_LOG,)),
    "glm-dsa": Architecture("norm", slice=True),
    **dict.fromkeys(("plm", "hy_v4"), Architecture("norm", slice=True)),
    # Pairs of halves.
    **dict.fromkeys(("falcon", "dbrx", "stablelm", "bitnet", "qwen", "qwen2", "qwen2moe"), _NEOX),
    **dict.fromkeys(("qwen3", "qwen3moe", "dream", "llada-moe", "rnd1", "olmoe", "phi2"), _NEOX),
    **dict.fromkeys(("gemma", "starcoder2", "openelm", "gptneox", "codeshell", "orion"), _NEOX),
    **dict.fromkeys(("nemotron", "jais2", "bailingmoe2", "dots1", "hunyuan-moe"), _NEOX),
    **dict.fromkeys(("seed_oss", "grovemoe", "minimax-m2", "plamo", "eurobert"), _NEOX),
    **dict.fromkeys(("nomic-bert", "nomic-bert-moe", "jina-bert-v3"), _NEOX),
    **dict.fromkeys(("hunyuan-dense", "deepseek2-ocr"), _NEOX),
    **dict.fromkeys(("exaone", "cogvlm"), Architecture("neox", factors="freqs")),
    "falcon-h1": Architecture("neox", factors="freqs"),
    **dict.fromkeys(("apertus", "pangu-embedded"), Architecture("neox", factors="either")),
    **dict.fromkeys(("phi3", "phimoe"), Architecture("neox", factors="long")),
    "lfm2": Architecture("neox", hybrid=True),
    "lfm2moe": Architecture("neox", hybrid=True),
    "minicpm3": Architecture("neox", factors="long", slice=True),
    "gemma2": Architecture("neox", sliding=Sliding(2, window=4096, shared=True, stretched=True)),
    "gemma3": Architecture("neox", sliding=Sliding(6, optional=True)),
    "gemma3n": Architecture("neox", sliding=Sliding(5)),
    "gemma-embedding": Architecture("neox", sliding=Sliding(6)),
    "gemma4": Architecture("neox", factors="freqs", sliding=Sliding()),
    "gpt-oss": Architecture("neox", sliding=Sliding(2, shared=True, stretched=True)),
    "olmo2": Architecture(
        "neox", sliding=Sliding(4, optional=True, shared=True, keyed=False, plain=True)
    ),
    "modern-bert": Architecture("neox", sliding=Sliding(3, optional=True, dense_first=True)),
    "plamo3": Architecture("neox", sliding=Sliding(8, optional=True)),
    "mimo2": Architecture("neox", sliding=Sliding()),
    "exaone4": Architecture(
        "neox",
        factors="freqs",
        sliding=Sliding(4, window=4096, shared=True, stretched=True, keyed=False),
        still="unless sliding",
    ),
    "smallthinker": Architecture(
        "neox",
        sliding=Sliding(4, optional=True, dense_first=True, shared=True, stretched=True),
        still="every fourth from the first",
    ),
    "afmoe": Architecture(
        "neox",
        sliding=Sliding(4, optional=True, shared=True, stretched=True),
        still="every fourth",
    ),
    "maple": Architecture(
        "neox", sliding=Sliding(shared=True, stretched=True), still="unless sliding"
    ),
    "spark2_5": Architecture("neox", sliding=Sliding(shared=True, stretched=True)),
    "glm4moe": Architecture("neox or mrope"),
    "hunyuan_vl": Architecture("neox or mrope"),
    **dict.fromkeys(("minimax-m3", "hy_v3"), _NEOX),
    "plamo2": Architecture("neox", hybrid=True),
    "qwen3next": Architecture("neox", interval=4),
    "minimax-01": Architecture("neox", interval=8),
    "laguna": Architecture(
        "neox", sliding=Sliding(4, optional=True, dense_first=True, shared=True, plain=True)
    ),
    "mellum": Architecture(
        "neox", sliding=Sliding(4, optional=True, shared=True, keyed=False, plain=True)
    ),
    "exaone-moe": Architecture(
        "neox",
        factors="freqs",
        sliding=Sliding(4, shared=True, stretched=True, keyed=False),
        still="unless sliding",
    ),
    # Several axes.
    **dict.fromkeys(("qwen2vl", "paddleocr"), Architecture("mrope")),
    **dict.fromkeys(("qwen3vl", "qwen3vlmoe"), Architecture("imrope")),
    **dict.fromkeys(("qwen35", "qwen35moe"), Architecture("imrope", interval=4)),
    # No rotation.
    **dict.fromkeys(("bloom", "refact", "jina-bert-v2"), Architecture("none", bias=8.0)),
    **dict.fromkeys(("mpt", "jais"), Architecture("none", bias="key")),
    **dict.fromkeys(("gpt2", "starcoder", "bert"), Architecture("none")),
    **dict.fromkeys(("t5", "t5encoder"), Architecture("none", bias="buckets")),
    **dict.fromkeys(("jamba", "nemotron_h", "nemotron_h_moe"), Architecture("none", hybrid=True)),
    **dict.fromkeys(("kimi-linear", "kimi-k3", "glm5-next"), Architecture("none", hybrid=True)),
}
"""What was read, by the name in ``general.architecture``."""

WITHOUT_ATTENTION = (
    *("mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"),
    *("wavtokenizer-dec",),
)
"""Architectures without attention, or none that is told positions."""

SPECIAL = {
    "clip": "is the encoder of images or audio beside a model, whose axes are not read",
    "deepseek4": "compresses keys, and turns those by a base of their own",
    "dots3note": "has latent heads of other widths in its sliding layers",
    "qwen4exp": "pools blocks of keys, and turns those by positions of their own",
    "talkie": "has a turn in its weights that takes back that of its keys",
    "hrm_text": "runs its layers several times over",
    "step35": "turns half of what its key says in layers that do not slide",
    "grok": "reads keys of YaRN's that no other architecture has",
    "gptj": "is known to llama.cpp by name alone: it runs no such model",
    **dict.fromkeys(("eagle3", "dflash", "gemma4-assistant"), "drafts tokens for another model"),
    **dict.fromkeys(("pockettts", "qwen3tts"), "generates speech"),
}
"""Architectures that are refused, and why."""

WHOLE_HEAD = ("llama", "deci", "falcon", "llama-embed")
"""Architectures that llama.cpp refuses to load where part of the head turns."""

_LLAMAS = ("llama", "llama-embed", "deci", "arcee", "mistral3")

OF_MODEL_TYPES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("llama", "mistral", "mixtral"), _LLAMAS),
    **{name: (name,) for name in ("falcon", "gemma", "gemma2", "apertus", "bitnet", "exaone4")},
    **{name: (name,) for name in ("glm4", "granite", "granitemoe", "nemotron", "olmo", "olmo2")},
    **{name: (name,) for name in ("olmoe", "phi3", "qwen2", "qwen3", "seed_oss", "smollm3")},
    **{name: (name,) for name in ("stablelm", "starcoder2", "bloom", "mpt", "ernie4_5")},
    "cohere": ("command-r",),
    "cohere2": ("cohere2",),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), ("deepseek2",)),
    "gemma3_text": ("gemma3", "gemma-embedding"),
    "gemma3n_text": ("gemma3n",),
    "glm4_moe": ("glm4moe",),
    "gpt_neox": ("gptneox",),
    "gpt_oss": ("gpt-oss",),
    "llama4_text": ("llama4",),
    "modernbert": ("modern-bert",),
    "olmo3": ("olmo2",),
    "phi": ("phi2",),
    "qwen2_moe": ("qwen2moe",),
    "qwen3_moe": ("qwen3moe",),
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), ("qwen2vl",)),
    "qwen3_vl_text": ("qwen3vl",),
    "qwen3_vl_moe_text": ("qwen3vlmoe",),
}
"""By a model type of transformers, the architectures that the converter writes it as, where its own
classes wrote some: in any other q and k may be permuted, or not, as they should not be."""
