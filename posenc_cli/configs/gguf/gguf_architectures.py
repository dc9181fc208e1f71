"""How llama.cpp handles positions in each GGUF architecture, as data.

Read in its code at the version that :data:`~posenc_cli.configs.engines.runtimes.RUNTIMES` names.
The layout is from ``llama_model_rope_type`` in src/llama-model.cpp. Divisors, sliding layers and
unrotated layers are from src/models/*.cpp, and the converter's permutation of q and k from
conversion/*.py. posenc refuses an architecture that is not here: it was not read.
"""

from __future__ import annotations

from collections.abc import Mapping

from posenc_cli.records import Record

LLAMA_CPP = "https://github.com/ggml-org/llama.cpp/blob/master"

FREQS = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
FACTOR_TENSORS = (FREQS, LONG, SHORT)
"""The tensors that divide frequencies, with a number for each pair."""

OWN_BASE = 10_000.0
"""The default base, also of sliding layers that do not share that of the others."""

WITHOUT_BASE = ("falcon", "gemma", "gemma2", "gptneox", "phi2", "stablelm")
"""Architectures for which conversion/*.py never writes a base. Their published models have
:data:`OWN_BASE`, so a file without a base is complete.
"""


CONTEXTS = {
    "falcon": (2048, "rope"),
    **dict.fromkeys(("granitehybrid", "nemotron_h", "nemotron_h_moe"), (1 << 20, "nope")),
    **dict.fromkeys(("hunyuan-dense", "hunyuan-moe"), (1 << 18, "rope-dynamic")),
}
"""The context that conversion/*.py writes for models of one scheme regardless of their config, by
architecture: hybrids that do not rotate, and Hunyuan's dynamic scaling.
"""


class Sliding(Record):
    """Which layers attend only to a window, and how those layers rotate.

    every: the last of so many layers has full attention; 0 if only a list in the file says which.
    dense_first: the first of them has full attention, not the last.
    everywhere: all layers slide.
    blocks: if not 0, only models with so many layers have sliding layers.
    window: the default window.
    fixed: the window is used regardless of the key, unless that is 0.
    optional: without the key no layer slides.
    shared: their default base is that of the other layers, else 10000.
    keyed: a key sets their base, and scaling type none keeps their factor.
    scaled: their factor is that of the other layers, else 1.
    plain: they do not use YaRN.
    """

    every: int = 0
    dense_first: bool = False
    everywhere: bool = False
    blocks: int = 0
    window: int | None = None
    fixed: bool = False
    optional: bool = False
    shared: bool = False
    keyed: bool = True
    scaled: bool = False
    plain: bool = False


class Architecture(Record):
    """llama.cpp's handling of positions in an architecture.

    rope_type: the layout: ``norm`` (pairs 2i and 2i+1), ``neox`` (i and i + n/2), ``mrope`` and
        ``imrope`` (as neox, with several axes), ``none``; ``norm or mrope`` depends on sections.
    permuted: the converter permutes the rows of q and k, from the layout half.
    factors: the tensors that it looks for: ``freqs``, ``long`` (and short), or ``either``, which
        depends on the scaling type.
    divided: the layers that they divide: ``all``, ``full``, or ``none`` if it loads and ignores
        them.
    slice: only a slice of the head rotates; the rest is beside it.
    sliding: its layers with a window.
    unrotated: the rule for unrotated layers.
    yarn: YaRN's keys that only this architecture reads.
    bias: ALiBi's largest bias, ``key`` if a key states it, or T5's ``buckets``.
    hybrid: only layers with key heads have attention.
    interval: the last of so many layers has attention, unless a key says otherwise.
    whole: whole heads must rotate.
    table: a learned table is added, and required.
    plain: scaling keys are ignored.
    fixed: the key of the base is ignored.
    alpha: a key scales the base.
    decoder: the decoder has layers of its own.
    tenth: YaRN's log multiplier is stored as a tenth of its value.
    weighted: the log multiplier also weights the amplitude.
    mscaled: scores are multiplied by the square of YaRN's mscale.
    scale: the factor of scores: 1/√d of a ``head``, a ``key``, or ``one``. ``blocks`` is that of
        a head, except in models with ``blocks`` layers: there d is the default head size.
    blocks: that number of layers.
    softcap: the default cap of scores; None without a cap.
    temperature: scores grow with the query's position: in ``unrotated`` layers with full attention
        as in Llama 4, by one ``key``, or by two ``keys``.
    """

    rope_type: str
    permuted: bool = False
    factors: str = ""
    divided: str = "all"
    slice: bool = False
    sliding: Sliding | None = None
    unrotated: str = ""
    yarn: tuple[str, ...] = ()
    bias: float | str | None = None
    hybrid: bool = False
    interval: int = 0
    whole: bool = False
    table: bool = False
    plain: bool = False
    fixed: bool = False
    alpha: bool = False
    decoder: bool = False
    tenth: bool = True
    weighted: bool = False
    mscaled: bool = False
    scale: str = "head"
    blocks: int = 0
    softcap: float | None = None
    temperature: str = ""


_BETAS = ("yarn_beta_fast", "yarn_beta_slow")
_LOG = "yarn_log_multiplier"

_NORM = Architecture("norm")
_PERMUTED = Architecture("norm", permuted=True)
_NEOX = Architecture("neox")

ARCHITECTURES: Mapping[str, Architecture] = {
    # Interleaved, after the converter permuted the rows of q and k.
    **dict.fromkeys(
        ("llama", "llama-embed", "deci"), Architecture("norm", True, "either", whole=True)
    ),
    "minicpm": Architecture("norm", True, "either"),
    "granitemoe": Architecture("norm", True, "either", scale="key"),
    **dict.fromkeys(("arcee", "nanbeige"), Architecture("norm", True, "freqs")),
    "llada": Architecture("norm", True, "freqs", divided="none"),
    **dict.fromkeys(("xverse", "olmo", "arctic", "internlm2", "deepseek", "bailingmoe"), _PERMUTED),
    "chameleon": _PERMUTED,
    "baichuan": Architecture("norm", True, bias="of 40 layers"),
    "granite": Architecture("norm", True, "either", unrotated="unless finetuned", scale="key"),
    "granitehybrid": Architecture(
        "norm", True, "freqs", unrotated="unless finetuned", hybrid=True, scale="key"
    ),
    "smollm3": Architecture("norm", True, unrotated="every fourth"),
    "mistral3": Architecture(
        "norm", True, "either", yarn=(*_BETAS, _LOG), tenth=False, temperature="key"
    ),
    # Interleaved in the model too.
    **dict.fromkeys(("command-r", "chatglm", "ernie4_5", "ernie4_5-moe"), _NORM),
    **dict.fromkeys(("neo-bert", "maincoder"), _NORM),
    "cohere2moe": Architecture(
        "norm",
        sliding=Sliding(4, dense_first=True, shared=True, scaled=True, keyed=False),
        unrotated="unless sliding or leading",
    ),
    "cohere2": Architecture(
        "norm",
        sliding=Sliding(4, shared=True, scaled=True, keyed=False),
        unrotated="unless sliding",
    ),
    "llama4": Architecture(
        "norm",
        factors="freqs",
        sliding=Sliding(4, window=8192, fixed=True, shared=True, scaled=True),
        unrotated="every fourth, or the last",
        temperature="unrotated",
    ),
    "muse-glimmer": Architecture(
        "norm", permuted=True, sliding=Sliding(4, shared=True), unrotated="unless sliding"
    ),
    "granite_swa": Architecture(
        "norm",
        permuted=True,
        factors="either",
        sliding=Sliding(shared=True, scaled=True, keyed=False),
        unrotated="by list",
        scale="key",
    ),
    "graniteswitch": Architecture("norm", True, unrotated="unless finetuned", scale="key"),
    "glm4": Architecture("norm or mrope"),
    "mistral4": Architecture("norm", slice=True, yarn=(_LOG,), mscaled=True, temperature="keys"),
    "deepseek2": Architecture(
        "norm", slice=True, yarn=(_LOG,), weighted=True, mscaled=True, temperature="keys"
    ),
    "deepseek32": Architecture("norm", slice=True, yarn=(_LOG,), mscaled=True),
    "glm-dsa": Architecture("norm", slice=True, mscaled=True),
    **dict.fromkeys(("plm", "hy_v4"), Architecture("norm", slice=True)),
    "bailingmoe3": Architecture("norm or mrope", slice=True, hybrid=True),
    # Layout half.
    **dict.fromkeys(("dbrx", "stablelm", "bitnet", "qwen", "qwen2", "qwen2moe"), _NEOX),
    **dict.fromkeys(("qwen3", "qwen3moe", "dream", "llada-moe", "rnd1", "olmoe", "phi2"), _NEOX),
    **dict.fromkeys(("gemma", "starcoder2", "openelm", "gptneox", "codeshell", "orion"), _NEOX),
    **dict.fromkeys(("nemotron", "jais2", "bailingmoe2", "dots1", "hunyuan-moe"), _NEOX),
    **dict.fromkeys(("seed_oss", "grovemoe", "minimax-m2", "plamo", "eurobert"), _NEOX),
    **dict.fromkeys(("nomic-bert", "nomic-bert-moe", "jina-bert-v3"), _NEOX),
    "falcon": Architecture("neox", whole=True),
    "hunyuan-dense": Architecture("neox", alpha=True),
    "deepseek2-ocr": Architecture("neox", plain=True, mscaled=True),
    "exaone": Architecture("neox", factors="freqs"),
    "cogvlm": Architecture("neox", factors="freqs", divided="none", plain=True, fixed=True),
    "falcon-h1": Architecture("neox", factors="freqs", divided="none"),
    "apertus": Architecture("neox", factors="either"),
    "pangu-embedded": Architecture("neox", factors="either", divided="none"),
    **dict.fromkeys(("phi3", "phimoe"), Architecture("neox", factors="long")),
    "lfm2": Architecture(
        "neox",
        hybrid=True,
        sliding=Sliding(everywhere=True, optional=True, shared=True, scaled=True, keyed=False),
    ),
    "lfm2moe": Architecture("neox", hybrid=True),
    "minicpm3": Architecture("neox", factors="long", slice=True),
    "gemma2": Architecture(
        "neox",
        sliding=Sliding(2, window=4096, shared=True, scaled=True),
        scale="blocks",
        blocks=46,
        softcap=50.0,
    ),
    "gemma3": Architecture("neox", sliding=Sliding(6, optional=True), scale="blocks", blocks=62),
    "gemma3n": Architecture("neox", sliding=Sliding(5), scale="one"),
    "gemma-embedding": Architecture("neox", sliding=Sliding(6)),
    "gemma4": Architecture("neox", factors="freqs", divided="full", sliding=Sliding(), scale="one"),
    "gpt-oss": Architecture("neox", sliding=Sliding(2, shared=True, scaled=True)),
    "olmo2": Architecture(
        "neox", sliding=Sliding(4, optional=True, shared=True, keyed=False, plain=True)
    ),
    "modern-bert": Architecture("neox", sliding=Sliding(3, optional=True, dense_first=True)),
    "plamo3": Architecture("neox", sliding=Sliding(8, optional=True)),
    "mimo2": Architecture("neox", sliding=Sliding()),
    "exaone4": Architecture(
        "neox",
        factors="freqs",
        sliding=Sliding(4, window=4096, blocks=64, shared=True, scaled=True, keyed=False),
        unrotated="unless sliding",
    ),
    "smallthinker": Architecture(
        "neox",
        sliding=Sliding(
            4,
            window=4096,
            fixed=True,
            optional=True,
            dense_first=True,
            shared=True,
            scaled=True,
        ),
        unrotated="every fourth from the first",
    ),
    "afmoe": Architecture(
        "neox",
        sliding=Sliding(4, optional=True, shared=True, scaled=True),
        unrotated="every fourth",
    ),
    "maple": Architecture(
        "neox", sliding=Sliding(shared=True, scaled=True), unrotated="unless sliding"
    ),
    "spark2_5": Architecture("neox", sliding=Sliding(shared=True, scaled=True)),
    "glm4moe": Architecture("neox or mrope"),
    "hunyuan_vl": Architecture("neox or mrope", alpha=True),
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
        sliding=Sliding(4, shared=True, scaled=True, keyed=False),
        unrotated="unless sliding",
    ),
    # Several position axes.
    **dict.fromkeys(("qwen2vl", "paddleocr"), Architecture("mrope")),
    **dict.fromkeys(("qwen3vl", "qwen3vlmoe"), Architecture("imrope")),
    **dict.fromkeys(("qwen35", "qwen35moe"), Architecture("imrope", interval=4)),
    # No rotation.
    **dict.fromkeys(("bloom", "refact", "jina-bert-v2"), Architecture("none", bias=8.0)),
    **dict.fromkeys(("mpt", "jais"), Architecture("none", bias="key")),
    **dict.fromkeys(("gpt2", "starcoder", "bert"), Architecture("none", table=True)),
    "t5": Architecture("none", bias="buckets", decoder=True),
    "t5encoder": Architecture("none", bias="buckets"),
    **dict.fromkeys(("jamba", "nemotron_h", "nemotron_h_moe"), Architecture("none", hybrid=True)),
    **dict.fromkeys(("kimi-linear", "kimi-k3", "glm5-next"), Architecture("none", hybrid=True)),
}
"""The architectures that were read, by their name in ``general.architecture``."""

SPECIAL = {
    **dict.fromkeys(
        ("mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7", "wavtokenizer-dec"),
        "has no attention that uses positions",
    ),
    "clip": "is an encoder of images or audio",
    "deepseek4": "compresses keys, and rotates those by a base of their own",
    "dots3note": "has latent heads of other widths in its sliding layers",
    "qwen4exp": "pools blocks of keys, and rotates those by positions of their own",
    "talkie": "has a rotation in its weights that takes back that of its keys",
    "hrm_text": "runs its layers several times over",
    "step35": "rotates half of what its key says in layers that do not slide",
    "grok": "reads keys of YaRN's that no other architecture has",
    "gptj": "is only a name in llama.cpp, which does not run such models",
    **dict.fromkeys(("eagle3", "dflash", "gemma4-assistant"), "drafts tokens for another model"),
    **dict.fromkeys(("pockettts", "qwen3tts"), "generates speech"),
}
"""Architectures that posenc refuses, and the reasons."""

_LLAMAS = ("llama", "llama-embed", "deci", "arcee", "mistral3")

OF_MODEL_TYPES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("llama", "mistral", "mixtral"), _LLAMAS),
    **{name: (name,) for name in ("falcon", "gemma", "gemma2", "apertus", "bitnet", "exaone4")},
    **{name: (name,) for name in ("glm4", "granite", "granitemoe", "nemotron", "olmo", "olmo2")},
    **{name: (name,) for name in ("olmoe", "phi3", "qwen2", "qwen3", "seed_oss", "smollm3")},
    **{name: (name,) for name in ("stablelm", "starcoder2", "bloom", "mpt", "ernie4_5")},
    "cohere": ("command-r",),
    "cohere2": ("cohere2",),
    "nemotron_h": ("nemotron_h", "nemotron_h_moe"),
    "lfm2": ("lfm2",),
    "lfm2_moe": ("lfm2moe",),
    **dict.fromkeys(("mt5", "t5", "umt5"), ("t5", "t5encoder")),
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
    "granite_swa": ("granite_swa",),
    "glm_moe_dsa": ("glm-dsa",),
    "qwen3_5_moe_text": ("qwen35moe",),
    "qwen3_5_text": ("qwen35",),
    "qwen3_vl_text": ("qwen3vl",),
    "qwen3_vl_moe_text": ("qwen3vlmoe",),
}
"""The architectures that the converter writes for a model type of transformers, if its own classes
wrote some. In a file of another architecture, q and k may be permuted wrongly.
"""
