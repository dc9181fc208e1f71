"""Make the numbers of tests/golden again, by running the code of the peers that they name.

Usage: python tools/goldens.py [--list] [--check] [--out FOLDER] [NAME…]

Each golden has a statement (NAME.json: the peer, the cases, the meaning of the arrays) and usually
arrays (NAME.npz). A generator below runs the peer's own objects on the cases of the statement, and
returns the arrays, or fills in the peer's answer for each case. Randomly drawn vectors and
positions are read from the golden.

``--list`` prints the source of each golden, and why no package can give some of them. ``--check``
compares the results with tests/golden, byte by byte. Without either, the results are written, to
tests/golden unless another folder is named. Needs the extra ``peers``.
"""

import argparse
import copy
import hashlib
import importlib
import inspect
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from posenc_cli.configs import families, nonrotary, vision
from posenc_cli.configs.families import refusals
from tools.registry import registry

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
PRESETS = Path(__file__).parents[1] / "posenc_cli" / "configs" / "presets"


class Late:
    """A package that is imported at its first use: most goldens need only some of them."""

    def __init__(self, package: str) -> None:
        self.package = package

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.package), name)


mpmath, torch, transformers = Late("mpmath"), Late("torch"), Late("transformers")
positional_encodings = Late("positional_encodings.torch_encodings")
rotary_embedding_torch = Late("rotary_embedding_torch")

Statement = dict[str, Any]
Arrays = Mapping[str, Any]
Generator = Callable[[Statement, Arrays], Arrays]

OLD = "the package that holds its source does not run on Python 3.11"
RECORDED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("cape", "fire_arithmetic", "kerple", "mrope_xd_hunyuan", "rel_sin_transformer_xl"),
            *("resized_dinov2", "rope3d_cogvideox", "rope3d_hunyuan_video", "rope3d_wan"),
            *("rope_clipped_cope", "rope_liere", "rope_mixed_vit", "rope_ntk_static_author_alpha4"),
            *("rope_resonance", "shape", "sin2d_mae_d64_g14_cls0", "sin2d_mae_grid_5x7_d16"),
            "timestep_diffusers",
        ),
        "no package holds the repository that is its source",
    ),
    **dict.fromkeys(
        ("sin_fairseq_d64_pad1", "sin_t2t_d64_min1_max10000_start0", "sin_t2t_nd"), OLD
    ),
    **dict.fromkeys(
        ("config_diffusers", "rope_grids_scaled"),
        "diffusers, its source, is not among the extra's packages",
    ),
    "conventions": "tools/conventions.py makes it, in an environment for each framework",
    "gguf_architectures": "tools/llama_cpp.py makes it of llama.cpp's source, by g++",
    "gguf_forms": "the package that writes it is not among the extra's",
    "engines": "tools/mlx_layers.py makes it of the wheel of mlx-lm",
    "engines_candle": "its source's lines are compiled alone, by rustc",
    "engines_exllamav3": "tools/exllamav3.py makes it of that project's source",
    "engines_onnxruntime_genai": "tools/onnxruntime_genai.py makes it of that package's builder",
    "engines_megatron": "tools/megatron_layers.py makes it of Megatron-Bridge and Megatron-LM",
    "engines_sglang": "tools/sglang_layers.py makes it of the wheel of sglang",
    "engines_tensorrt_llm": "tools/tensorrt_llm_layers.py makes it of that project's files",
    "engines_transformers": "tools/transformers_layers.py makes it of each version",
    "engines_vllm": "tools/vllm_layers.py makes it of the wheel of vLLM",
    "gguf_llama_cpp": "its source needs transformers 4.57, and llama.cpp's converter",
    "gguf_rotations": "the lines of its source were compiled alone, by gcc",
    "llama_cpp_files": "tools/llama_cpp_converter.py makes it of llama.cpp's source",
    "llama_cpp_converter": "its source needs transformers 4.57, and llama.cpp's converter",
    "position_ids": "tools/position_ids.py makes it of transformers' classes",
    "runtimes": "its sources need a CUDA build (vLLM), and transformers 4.50 beside 5.23",
    "sandwich_nemo": "the lines of its source were run without the class, which needs a GPU",
}
"""The goldens that no code here makes, and the reasons."""

RECORDED_ARRAYS: Mapping[str, str] = {
    "deberta_log_bucket_b256_m512": "microsoft",
    "t5_bucket_bi_nb32_md128": "mesh_tf",
    "t5_bucket_uni_nb32_md128": "mesh_tf",
}
"""The array of a golden that is kept unchanged, because it is from such a package."""

INPUTS = re.compile(
    r"(relative_)?positions?|positions?_(ids|call\d)|hw|mask|[qk](_\d+x\d+)?|table|.*_x|x_.*"
    r"|w2v_(table|q)|speecht5_table|esmfold_residue_index"
)
"""The arrays that are inputs of peers, not results."""

GROWING = ("config_plans", "config_rope", "config_nonrotary", "models")
"""The goldens to whose arrays a new case adds one."""

NOT_LOADED = ("phi-3-vision-128k",)
"""The presets of rotary families whose config transformers refuses: it was made for other code."""


def models(path: str) -> Any:
    """Return an object of transformers by its path below models: ``t5.modeling_t5.T5Attention``."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"transformers.models.{module}"), name)


def named_objects(statement: Statement) -> list[Any]:
    """Return the objects of a modeling file that a statement names: a path, and others there."""
    path, *others = re.findall(
        r"(\w+\.modeling_\w+\.\w+|(?<=\+ )\w+)", statement["peer"].split("; ")[0]
    )
    beside = path.rpartition(".")[0]
    return [models(name if "." in name else f"{beside}.{name}") for name in (path, *others)]


def tensor(values: Any, dtype: str | None = None) -> Any:
    """Return an array as a new tensor."""
    copied = torch.from_numpy(np.array(values))
    return copied if dtype is None else copied.to(getattr(torch, dtype))


# Rotary modules


def _config(statement: Statement) -> Any:
    params = statement["params"]
    return models(params["config_class"])(**params["config_kwargs"])


def rope_tables(statement: Statement, stored: Arrays) -> Arrays:
    """Return a rotary module's frequencies, and its cosines and sines at the stored positions."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    (rotary,) = named_objects(statement)
    config = _config(statement)
    frequencies_of = ROPE_INIT_FUNCTIONS.get(config.rope_parameters["rope_type"])
    module = rotary(config)
    made = {"inv_freq": module.inv_freq, "attention_scaling": np.float64(module.attention_scaling)}
    for name in statement["arrays"]:
        kind, _, length = name.partition("_seq_")
        if kind == "inv_freq" and length:
            frequencies, scaling = frequencies_of(
                config, seq_len=None if length == "none" else int(length)
            )
            made[name] = frequencies
            made[f"attention_scaling_seq_{length}"] = np.float64(scaling)
        elif name.startswith("positions"):
            call = name.removeprefix("positions")
            module = rotary(config)  # a fresh one: some remember the longest sequence
            cos, sin = module(tensor([0.0], "float32"), tensor(stored[name], "int64")[None])
            made |= {f"cos{call}": cos[0], f"sin{call}": sin[0], f"inv_freq{call}": module.inv_freq}
    return made


def rope_apply(statement: Statement, stored: Arrays) -> Arrays:
    """Return vectors that a model's own function rotated, and the tables that it used.

    A golden holds some of them: no frequencies for text positions, no k for some models.
    """
    rotary, turn = named_objects(statement)
    if "grid" in statement["params"]:
        positions = _cells(*statement["params"]["grid"])
    elif "hw" in stored:
        positions = tensor(stored["hw"], "int64")
    else:  # (batch, seq), or (axes, batch, seq) where each axis has its positions
        ids = stored["position_ids" if "position_ids" in stored else "positions"]
        positions = tensor(ids, "int64").unsqueeze(-2)
    q = tensor(stored["q"])
    k = tensor(stored["k"]) if "k" in stored else q
    module = rotary(_config(statement))
    cos, sin = (table.reshape(1, -1, table.shape[-1]) for table in module(q, positions))
    q_out, k_out = turn(q, k, cos, sin)
    made = {"inv_freq": module.inv_freq, "cos": cos[0], "sin": sin[0]}
    made |= {"q_out": q_out.reshape(q.shape), "k_out": k_out.reshape(k.shape)}
    return {key: values for key, values in made.items() if key in stored}


def gptj(_statement: Statement, stored: Arrays) -> Arrays:
    """Return GPT-J's table and rotation."""
    path = "gptj.modeling_gptj."
    turn = models(f"{path}apply_rotary_pos_emb")
    table = models(f"{path}create_sinusoidal_positions")(131072, 64)
    sin, cos = table[tensor(stored["positions"], "int64")].chunk(2, dim=-1)  # (P, pairs)
    turned = {f"{x}_out": turn(tensor(stored[x]), sin[None], cos[None]) for x in ("q", "k")}
    return {"sin": sin, "cos": cos, **turned}


# Biases and buckets


def bloom(statement: Statement, stored: Arrays) -> Arrays:
    """Return BLOOM's slopes and biases, also for padded texts and in bfloat16."""
    build, slopes = (
        models(f"bloom.modeling_bloom.{name}")
        for name in ("build_alibi_tensor", "_get_alibi_slopes")
    )
    seq, made = statement["params"]["seq"], {}
    for heads in statement["params"]["heads"]:
        made[f"slopes_h{heads}"] = slopes(heads, torch.device("cpu"))
        made[f"alibi_h{heads}"] = build(torch.ones(1, seq), heads, torch.float32)
    made["alibi_masked_h8"] = build(tensor(stored["mask"]), 8, torch.float32)
    made["alibi_bf16_h12"] = build(torch.ones(1, 300), 12, torch.bfloat16)
    return made


def mpt(statement: Statement, _stored: Arrays) -> Arrays:
    """Return MPT's biases for the heads and the alibi_bias_max in the names of the arrays."""
    build = models("mpt.modeling_mpt.build_mpt_alibi_tensor")
    made = {}
    for name in statement["arrays"]:
        heads, _, most = name.removeprefix("alibi_h").partition("_max")
        made[name] = build(int(heads), statement["params"]["seq"], alibi_bias_max=int(most or 8))
    return made


def t5_bias(statement: Statement, stored: Arrays) -> Arrays:
    """Return T5's biases of encoder and decoder: of all queries, and of one after 299 others."""
    params, made = statement["params"], {}
    config = models("t5.configuration_t5.T5Config")(
        num_heads=params["heads"],
        relative_attention_num_buckets=params["num_buckets"],
        relative_attention_max_distance=params["max_distance"],
    )
    for side in ("enc", "dec"):
        config.is_decoder = side == "dec"
        attention = models("t5.modeling_t5.T5Attention")(config, True, layer_idx=0)
        attention.relative_attention_bias.weight = torch.nn.Parameter(tensor(stored["table"]))
        made[f"bias_{side}_40x40"] = attention.compute_bias(40, 40)[0]
        made[f"bias_{side}_q1_k300_past299"] = attention.compute_bias(1, 300, past_seen_tokens=299)[
            0
        ]
    return made


def window_bias(statement: Statement, stored: Arrays) -> Arrays:
    """Return the biases that Swin and BEiT gather from a table, for windows of several sizes."""
    made = {}
    for name, (rows, columns) in statement["params"]["windows"].items():
        tables = {peer: tensor(stored[f"x_{peer}_{name}"]) for peer in ("swin", "beit")}
        heads = tables["swin"].shape[1]
        swin = models("swin.modeling_swin.SwinRelativePositionBias")(heads, (rows, columns))
        swin.relative_position_bias_table = torch.nn.Parameter(tables["swin"])
        # BEiT's module would resize its table first, and reads one of unequal sides sideways.
        beit = models("beit.modeling_beit.BeitRelativePositionBias")
        index = beit.generate_relative_position_index((rows, columns))
        made[f"swin_{name}"] = swin().reshape(heads, rows * columns, rows * columns)
        made[f"beit_{name}"] = tables["beit"][index].permute(2, 0, 1)
    return made


def window_index(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the rows of a table that timm's Swin and BEiT gather for each query and key."""
    from timm.models.beit import gen_relative_position_index
    from timm.models.swin_transformer import get_relative_position_index

    made = {}
    for name, (rows, columns) in statement["params"]["windows"].items():
        made[f"swin_{name}"] = get_relative_position_index(rows, columns)
        made[f"beit_{name}"] = gen_relative_position_index((rows, columns))
    return made


def window_networks(statement: Statement, stored: Arrays) -> Arrays:
    """Return the bias of Swin V2's network: the scores of queries and keys that are zero."""
    made = {}
    for name, case in statement["params"]["cases"].items():
        parts = {part: tensor(stored[f"x_{name}:{part}"]) for part in _NETWORK}
        heads, (rows, columns) = parts["2.weight"].shape[0], case["window_size"]
        attention = models("swinv2.modeling_swinv2.Swinv2SelfAttention")(
            models("swinv2.configuration_swinv2.Swinv2Config")(),
            heads,
            heads,
            (rows, columns),
            case["pretrained_window_size"],
        ).eval()
        attention.continuous_position_bias_mlp.load_state_dict(parts)
        for layer in (attention.query, attention.key, attention.value):
            torch.nn.init.zeros_(layer.weight)
            if layer.bias is not None:
                torch.nn.init.zeros_(layer.bias)
        softmax = torch.nn.functional.softmax
        with mock.patch("torch.nn.functional.softmax", side_effect=softmax) as called:
            attention(torch.zeros(1, rows * columns, heads))
        made[f"bias_{name}"] = called.call_args.args[0][0]
    return made


_NETWORK = ("0.weight", "0.bias", "2.weight")


def t5_bucket(statement: Statement, stored: Arrays) -> Arrays:
    """Return T5's buckets, by several peers' own functions, and by exact arithmetic."""
    from torchscale.component import relative_position_bias
    from x_transformers.x_transformers import RelativePositionBias

    params = statement["params"]
    offsets, both = tensor(stored["relative_position"]), params["bidirectional"]
    sizes = {"num_buckets": params["num_buckets"], "max_distance": params["max_distance"]}
    bucket = models("t5.modeling_t5.T5Attention")._relative_position_bucket  # noqa: SLF001
    other = RelativePositionBias._relative_position_bucket  # noqa: SLF001
    scale = relative_position_bias.RelativePositionBias._relative_position_bucket  # noqa: SLF001
    layout = models("layoutlmv2.modeling_layoutlmv2.relative_position_bucket")
    mpnet = models("mpnet.modeling_mpnet.MPNetEncoder").relative_position_bucket
    exact = [_exact_t5(int(offset), both=both, **sizes) for offset in offsets]
    return {
        "hf_t5": bucket(offsets, bidirectional=both, **sizes),
        "x_transformers": other(offsets, causal=not both, **sizes),
        "torchscale": scale(offsets, bidirectional=both, **sizes),
        "layoutlmv2": layout(offsets, bidirectional=both, **sizes),
        "exact_mpmath": np.array(exact),
        **({"mpnet": mpnet(offsets, **sizes)} if both else {}),
    }


def _exact_t5(offset: int, *, both: bool, num_buckets: int, max_distance: int) -> int:
    """Return T5's bucket, with logarithms of 60 digits."""
    half = num_buckets // 2 if both else num_buckets
    side = half if both and offset > 0 else 0
    distance = abs(offset) if both else max(-offset, 0)
    near = half // 2
    if distance < near:
        return side + distance
    with mpmath.workdps(60):
        share = mpmath.log(mpmath.mpf(distance) / near) / mpmath.log(
            mpmath.mpf(max_distance) / near
        )
        return side + min(near + int(mpmath.floor(share * (half - near))), half - 1)


def t5_buckets(statement: Statement, stored: Arrays) -> Arrays:
    """Return T5's buckets of many sizes."""
    bucket, made = models("t5.modeling_t5.T5Attention")._relative_position_bucket, {}  # noqa: SLF001
    for buckets, distance, both in statement["params"]["cases"]:
        made[f"nb{buckets}_md{distance}_{'bi' if both else 'uni'}"] = bucket(
            tensor(stored["relative_position"]),
            bidirectional=both,
            num_buckets=buckets,
            max_distance=distance,
        )
    return made


def deberta_buckets(statement: Statement, stored: Arrays) -> Arrays:
    """Return DeBERTa's buckets for many sizes, or those of each model for one size."""
    offsets, params = tensor(stored["relative_position"]), statement["params"]
    deberta = models("deberta_v2.modeling_deberta_v2.make_log_bucket_position")
    if "cases" in params:
        return {f"b{size}_m{far}": deberta(offsets, size, far) for size, far in params["cases"]}
    size, far = params["bucket_size"], params["max_position"]
    return {
        "hf_deberta_v2": deberta(offsets, size, far),
        "sew_d": models("sew_d.modeling_sew_d.make_log_bucket_position")(offsets, size, far),
        "exact_mpmath": np.array([_exact_deberta(int(offset), size, far) for offset in offsets]),
    }


def _exact_deberta(offset: int, size: int, far: int) -> int:
    """Return DeBERTa's bucket, with logarithms of 60 digits."""
    near, distance = size // 2, abs(offset)
    if distance <= near:
        return offset
    with mpmath.workdps(60):
        share = mpmath.log(mpmath.mpf(distance) / near) / mpmath.log(mpmath.mpf(far - 1) / near)
        bucket = int(mpmath.ceil(share * (near - 1))) + near
    return bucket if offset > 0 else -bucket


def shaw(statement: Statement, stored: Arrays) -> Arrays:
    """Return three models' clipped offsets: the rows that they use, and queries' scores."""

    def indexed(module: Any, name: str) -> Any:
        """Return a module whose rows hold their own index."""
        rows = getattr(module, name).weight.shape[0]
        getattr(module, name).weight = torch.nn.Parameter(torch.arange(rows).float()[:, None])
        return module

    w2v, params = statement["params"]["w2v"], statement["params"]
    score = models("wav2vec2_bert.modeling_wav2vec2_bert._apply_relative_key_position_encoding")
    attention = SimpleNamespace(
        left_max_position_embeddings=w2v["left"],
        right_max_position_embeddings=w2v["right"],
        distance_embedding=torch.nn.Embedding(10, 16, _weight=tensor(stored["w2v_table"])),
        scaling=w2v["scaling"],
    )
    query = tensor(stored["w2v_q"])
    speech = models("speecht5.modeling_speecht5.SpeechT5RelativePositionalEncoding")(
        8, params["speecht5"]["max_length"]
    )
    speech.pe_k.weight = torch.nn.Parameter(tensor(stored["speecht5_table"]))
    tokens = torch.zeros(1, 14, 8)
    fold = SimpleNamespace(position_bins=params["esmfold"]["bins"], pairwise_state_dim=1)
    folded = indexed(models("esm.modeling_esmfold.EsmFoldRelativePosition")(fold), "embedding")
    return {
        "w2v_bias": score(attention, query, query)[1],
        "speecht5_out": speech(tokens),
        "speecht5_index": indexed(speech, "pe_k")(tokens)[..., 0],
        "esmfold_index": folded(tensor(stored["esmfold_residue_index"], "int64"))[0, ..., 0],
    }


def xpos_scales(statement: Statement, _stored: Arrays) -> Arrays:
    """Return rotary-embedding-torch's amplitudes, for the sizes in the names of the arrays."""
    made = {}
    for name in statement["arrays"]:
        dim, count = map(int, name.removeprefix("scale_d").split("_n"))
        rotary = rotary_embedding_torch.RotaryEmbedding(dim, use_xpos=True, cache_if_possible=False)
        made[name] = rotary.get_scale(torch.arange(count))
    return made


def xpos(_statement: Statement, stored: Arrays) -> Arrays:
    """Return queries and keys that torchscale rotated: ``x_n16_o0`` is 16 from offset 0 on."""
    from torchscale.component.xpos_relative_position import XPOS

    made = {}
    for case in [key.removeprefix("x_") for key in stored if key.startswith("x_")]:
        module, x = XPOS(32, 512), tensor(stored[f"x_{case}"])
        for name, is_key in (("up", False), ("down", True)):
            offset = int(case.partition("_o")[2])
            made[f"{name}_{case}"] = module(x, offset=offset, downscale=is_key)
    return made


# Sinusoids


def sinusoids(statement: Statement, stored: Arrays) -> Arrays:
    """Return rows of Marian's, Musicgen's and Whisper's tables."""
    (function,) = re.findall(r"\w+\.modeling_\w+\.\w+(?:\.\w+)?", statement["peer"].split(";")[0])
    params, rows = statement["params"], tensor(stored["positions"], "int64")
    family = function.partition(".")[0]
    if family == "whisper":
        table = models(function)(params["length"], params["channels"], params["max_timescale"])
    elif family == "marian":
        table = models(function.rpartition(".")[0])(
            params["num_positions"], params["dim"]
        ).create_weight()
    else:
        table = models(function.rpartition(".")[0]).get_embedding(
            int(rows.max()) + 1, params["dim"]
        )
    return {"table": table[rows]}


def xlnet(statement: Statement, _stored: Arrays) -> Arrays:
    """Return XLNet's rows of relative positions."""
    model = models("xlnet.modeling_xlnet.XLNetModel")
    params = statement["params"]
    config = SimpleNamespace(
        d_model=params["d_model"],
        attn_type="bi",
        bi_data=False,
        clamp_len=-1,
        positional_embedding=model.positional_embedding,
    )
    rows = model.relative_positional_encoding(config, params["qlen"], params["klen"])
    return {"emb": rows[:, 0]}


def detr(_statement: Statement, stored: Arrays) -> Arrays:
    """Return DETR's rows of a grid: plain, normalized, and with a mask."""
    embedding = models("detr.modeling_detr.DetrSinePositionEmbedding")
    shape, cpu, mask = torch.Size((1, 1, 5, 7)), torch.device("cpu"), tensor(stored["mask"])[None]
    kinds = {
        "raw": (embedding(32), None),
        "norm": (embedding(32, normalize=True), None),
        "norm_scale1_t20": (embedding(16, temperature=20, normalize=True, scale=1.0), None),
        "norm_masked": (embedding(32, normalize=True), mask),
    }
    made = {}
    for name, (module, masked) in kinds.items():
        rows = module(shape=shape, device=cpu, dtype=torch.float32, mask=masked)  # (1, cells, dim)
        made[f"pos_{name}"] = rows[0].T.reshape(-1, 5, 7) if rows.dim() == 3 else rows[0]
    return made


def resized(statement: Statement, stored: Arrays) -> Arrays:
    """Return learned tables that torch or the code of models resized."""
    made = {}
    for name, case in statement["params"]["cases"].items():
        start, dim = math.prod(case["from"]) + case["prefix"], case["dim"]
        table = stored["table"][:start, :dim]
        if case["dtype"] == "float64":
            table = table.astype("float64") / 3
        made[name] = _resized(statement["peer"], case, tensor(table))
    return made


def _resized(peer: str, case: Statement, table: Any) -> Any:
    """Return a table of (rows, d), resized."""
    old, new, method = case["from"], case["to"], case["method"]
    if "timm" in peer:
        from timm.layers.pos_embed import resample_abs_pos_embed

        return resample_abs_pos_embed(
            table[None], new, old, case["prefix"], method, antialias=case["antialias"]
        )[0]
    if "transformers" in peer:
        return _resized_by_model(models(case["model"]), old, new, table)
    mode = "bilinear" if (len(old), method) == (2, "linear") else method
    corners = {} if method.startswith("nearest") else {"align_corners": False}
    values = table.T.reshape(1, -1, *old) if len(old) == 1 else table.reshape(1, *old, -1)
    values = values if len(old) == 1 else values.permute(0, 3, 1, 2)
    grown = torch.nn.functional.interpolate(
        values, size=new, mode=mode, antialias=case["antialias"], **corners
    )
    return grown[0].flatten(1).T


def _resized_by_model(model: Any, old: Sequence[int], new: Sequence[int], table: Any) -> Any:
    if len(old) == 1:  # the offsets of one query to all keys, and of all queries to one key
        size = (new[0] + 1) // 2
        offsets = model.get_rel_pos(None, size, size, table)  # (queries, keys, d)
        return torch.cat([offsets[0].flip(0), offsets[1:, 0]])
    patches = SimpleNamespace(patch_size=(16, 16))
    module = SimpleNamespace(
        position_embeddings=table[None], patch_embeddings=patches, patch_size=16
    )
    embeddings = torch.zeros(1, 1 + new[0] * new[1], table.shape[1])
    sides = (16 * side for side in new)
    return model.interpolate_pos_encoding(module, embeddings, *sides)[0]


def grids(statement: Statement, _stored: Arrays) -> Arrays:
    """Return tables of grids from ViT-MAE, timm or positional-encodings: ``table_5x7_d16``."""
    made = {}
    for name in statement["arrays"]:
        sides, dim, *cls = name.removeprefix("table_").split("_")
        made[name] = _grid(statement["peer"], [int(n) for n in sides.split("x")], int(dim[1:]), cls)
    return made


def _grid(peer: str, sides: list[int], dim: int, cls: list[str]) -> Any:
    if peer.startswith("timm"):
        from timm.layers.pos_embed_sincos import build_sincos2d_pos_embed

        return build_sincos2d_pos_embed(sides, dim)
    if peer.startswith("positional-encodings"):
        encoding = getattr(positional_encodings, f"PositionalEncoding{len(sides)}D")(dim)
        return encoding(torch.zeros(1, *sides, dim))[0].reshape(-1, dim)
    build = models("vit_mae.modeling_vit_mae.build_2d_sinusoidal_position_embedding")
    return build(*sides, dim, cls_token=bool(cls))


def penc(statement: Statement, stored: Arrays) -> Arrays:
    """Return one table of positional-encodings."""
    params = statement["params"]
    sides = params.get("grid") or [int(stored["positions"].max()) + 1]
    encoding = getattr(positional_encodings, f"PositionalEncoding{len(sides)}D")(params["channels"])
    table = encoding(torch.zeros(1, *sides, params["channels"]))[0]
    return {
        "table": table[tensor(stored["positions"], "int64")] if "positions" in stored else table
    }


# Rotations of grids and of several axes


def _cells(rows: int, columns: int) -> Any:
    """Return row and column of each entry of a grid."""
    return tensor([[i, j] for i in range(rows) for j in range(columns)], "int64")  # (cells, 2)


def dinov3(statement: Statement, stored: Arrays) -> Arrays:
    """Return DINOv3's patches, after a class token and four registers."""
    rotary, turn = named_objects(statement)
    module = rotary(_config(statement)).eval()
    made = {"inv_freq": module.inv_freq}
    for image in ("112x112", "80x128"):
        cos, sin = module(torch.zeros(1, 3, *map(int, image.split("x"))))
        q, k = turn(tensor(stored[f"q_{image}"]), tensor(stored[f"k_{image}"]), cos, sin)
        made |= {f"cos_{image}": cos, f"sin_{image}": sin}
        made |= {f"q_out_{image}": q, f"k_out_{image}": k}
    return made


def real_coordinates(statement: Statement, _stored: Arrays) -> Arrays:
    """Return fractional coordinates: DINOv3's in training, and Qwen3-Omni's times."""
    params = statement["params"]
    path = "dinov3_vit.modeling_dinov3_vit."
    module = models(f"{path}DINOv3ViTRopePositionEmbedding")(_config(params["dinov3"])).train()
    rows, columns = params["dinov3"]["grid"]
    augment = models(f"{path}augment_patches_center_coordinates")
    drawn = []

    def recorded(*given: Any, **named: Any) -> Any:
        drawn.append(augment(*given, **named))
        return drawn[-1]

    torch.manual_seed(params["dinov3"]["seed"])
    side = module.config.patch_size
    with mock.patch(f"transformers.models.{path}augment_patches_center_coordinates", recorded):
        cos, sin = module(torch.zeros(1, 3, rows * side, columns * side))
    made = {"dinov3_coordinates": drawn[0].T, "dinov3_cos": cos, "dinov3_sin": sin}

    omni, path = params["qwen3_omni"], "qwen3_omni_moe.modeling_qwen3_omni_moe."
    places = models(f"{path}Qwen3OmniMoePreTrainedModelForConditionalGeneration")
    frames, rows, columns = omni["grid"]
    times = torch.arange(frames) * torch.tensor(omni["second_per_grid"]) * omni["per_second"]
    sides = [torch.tensor([side]) for side in (rows, columns)]
    ids = places.get_llm_pos_ids_for_vision(None, omni["start"], 0, 1, times, *sides)  # (3, L)
    module = models(f"{path}Qwen3OmniMoeThinkerTextRotaryEmbedding")(_config(omni))
    cos, sin = module(torch.zeros(1, 1), ids[:, None])
    return {**made, "omni_coordinates": ids, "omni_cos": cos[0], "omni_sin": sin[0]}


def gemma4(statement: Statement, stored: Arrays) -> Arrays:
    """Return Gemma 4's patches, by (row, column) and by (x, y)."""
    rotary, turn = named_objects(statement)
    module, q = rotary(_config(statement)), tensor(stored["q"])
    cells = _cells(*statement["params"]["grid"])[None]
    made = {"inv_freq": module.inv_freq}
    for suffix, ids in (("", cells), ("_xy", cells.flip(-1))):
        cos, sin = module(q, ids)
        made |= {f"cos{suffix}": cos[0], f"sin{suffix}": sin[0]}
        made[f"q_out{suffix}"] = turn(q, cos, sin, ids)
    return made


def llama4(statement: Statement, stored: Arrays) -> Arrays:
    """Return Llama 4's patches and class token."""
    rotary, turn = named_objects(statement)
    turns, q = rotary(_config(statement))(tensor([0.0])), tensor(stored["q"])
    return {"cos": turns.real[:, 0], "sin": turns.imag[:, 0], "q_out": turn(q, q, turns)[0]}


_HALVES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama.Llama", {}),
    "llama3": (
        "llama.Llama",
        {
            "rope_type": "llama3",
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    ),
    "yarn": ("llama.Llama", {"rope_type": "yarn", "original_max_position_embeddings": 4096}),
    "neox": ("gpt_neox.GPTNeoX", {}),
    "cohere": ("cohere.Cohere", {}),
}
"""The model of each case in half precision, and its rope beside base and factor."""


def halves(statement: Statement, stored: Arrays) -> Arrays:
    """Return rotations computed in half precision, as bit patterns."""
    made: dict[str, Any] = {}
    positions = tensor(stored["positions"])[None]
    for name, case in statement["cases"].items():
        kind, dtype = name.split("_")
        family, rope = _HALVES[kind]
        module, prefix = family.split(".")
        params = case["params"]
        rope = {"rope_type": "default", "rope_theta": params.get("base", 10_000.0), **rope}
        rope |= {key: params[key] for key in ("factor",) if key in params}
        rope |= {"partial_rotary_factor": params["partial"]} if "partial" in params else {}
        config = models(f"{module}.configuration_{module}.{prefix}Config")(
            hidden_size=params["dim"],
            num_attention_heads=1,
            max_position_embeddings=131072,
            rope_parameters=rope,
        )
        x = tensor(stored[f"{name}_x"]).view(getattr(torch, dtype))[None, None]
        cos, sin = models(f"{module}.modeling_{module}.{prefix}RotaryEmbedding")(config)(
            x, positions
        )
        y, _ = models(f"{module}.modeling_{module}.apply_rotary_pos_emb")(x, x, cos, sin)
        bits = {"y": y[0, 0], "cos": cos[0], "sin": sin[0]}
        made |= {f"{name}_{key}": value.view(torch.uint16) for key, value in bits.items()}
    return made


def truth(statement: Statement, stored: Arrays) -> Arrays:
    """Return cosines and sines by mpmath, rounded once to float64 and once to float32."""
    dim, made = statement["params"]["d"], {}
    with mpmath.workdps(90):
        theta = mpmath.mpf(statement["params"]["theta"])
        rates = [theta ** (-mpmath.mpf(2 * i) / dim) for i in range(dim // 2)]
        exact = {"inv_freq": [rates]}
        for name, function in (("cos", mpmath.cos), ("sin", mpmath.sin)):
            exact[name] = [[function(int(p) * w) for w in rates] for p in stored["positions"]]
        for name, rows in exact.items():
            made[name] = np.array([[float(x) for x in row] for row in rows])
            with mpmath.workprec(24):  # rounds to float32's significand at once
                made[f"{name}32"] = np.array([[float(+x) for x in row] for row in rows], "float32")
    return {name: rows[0] if name.startswith("inv_freq") else rows for name, rows in made.items()}


# Configs


def configured(config: Statement) -> Any:
    """Return the configuration that transformers makes of a config.json."""
    return transformers.CONFIG_MAPPING[config["model_type"]].from_dict(
        copy.deepcopy(config)
    )  # it fills them in


def modeling_of(config: Any) -> Any:
    """Return the module of a configuration's model."""
    try:
        return importlib.import_module(
            type(config).__module__.replace("configuration_", "modeling_")
        )
    except ModuleNotFoundError:
        return inspect.getmodule(transformers.MODEL_MAPPING[type(config)])


def rotary_module(config: Any) -> Any:
    """Return the rotary module of a text model."""
    modeling = modeling_of(config)
    for name, rotary in vars(modeling).items():
        own = getattr(rotary, "__module__", None) == modeling.__name__
        if own and re.search("(?<!Vision)(?<!SaProt)RotaryEmbedding$", name):
            return rotary(config)
    raise LookupError(f"{type(config).__name__} has no rotary module")


def frequencies(config: Any) -> dict[str, tuple[Any, Any]]:
    """Return frequencies and attention scaling by layer type; '' stands for all layers."""
    rotary = rotary_module(config)
    types = [""] if hasattr(rotary, "inv_freq") else [f"{name}_" for name in rotary.layer_types]
    return {
        kind.rstrip("_"): (
            getattr(rotary, f"{kind}inv_freq"),
            getattr(rotary, f"{kind}attention_scaling", None),
        )
        for kind in types
        if hasattr(rotary, f"{kind}inv_freq")
    }


def layout(config: Any) -> str:
    """Return the column that rotates with the second one: 0, or the one in the other half."""
    rotary, functions = rotary_module(config), vars(modeling_of(config))
    names = ["apply_rotary_pos_emb_interleave"] * getattr(config, "rope_interleave", True)
    turn = next(
        functions[name]
        for name in (*names, "apply_rotary_pos_emb", "apply_rotary_emb")
        if name in functions
    )
    kinds = getattr(rotary, "layer_types", None)
    kind = (kinds[0],) if kinds and not hasattr(rotary, "inv_freq") else ()
    frequencies = getattr(rotary, f"{kind[0]}_inv_freq" if kind else "inv_freq")
    width = 2 * len(frequencies)
    x = torch.zeros(1, 1, 1, width)
    x[..., 1] = 1
    ids = torch.ones(1, 1).long()
    try:
        tables = rotary(x, ids, *kind)
    except (IndexError, ValueError, RuntimeError):
        tables = rotary(x, ids.expand(3, 1, 1))  # positions of three axes
    tables = tables if isinstance(tables, tuple) else (tables,)
    second = (x,) if list(inspect.signature(turn).parameters)[1] in ("k", "xk", "key") else ()
    turned = turn(x, *second, *tables)
    row = (turned[0] if isinstance(turned, tuple) else turned).flatten()
    return "half" if row[1 + width // 2] else "interleaved"


def config_rope(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the rotations of transformers' modules for configs, and the columns of a pair."""
    made: dict[str, Any] = {}
    for case in statement["cases"]:
        config = configured(case["config"])
        served = case.get("layers")
        tables = frequencies(config)
        names = {kind: f"{case['name']}/{kind}".rstrip("/") for kind in tables}
        if served is not None:
            names = {kind: layer["array"] for kind, layer in served.items()}
        case["layers"] = {
            kind: {"array": name, "attention_scaling": tables[kind][1]}
            for kind, name in names.items()
        }
        made |= {name: tables[kind][0] for kind, name in names.items()}
        if served is None or "layout" in case:
            case["layout"] = layout(config)
    return made


def config_plans(statement: Statement, _stored: Arrays) -> Arrays:
    """Return transformers' rotations for configs with a plan's keys, and with overrides."""
    made: dict[str, Any] = {}
    for case in statement["cases"]:
        kind = case["layer_type"] or ""
        written, loaded = configured(case["written"]), configured(case["config"])
        overrides, section = copy.deepcopy(case["overrides"]), loaded
        if "text_config" in overrides:  # as engines do, which set the keys of nested configs
            overrides, section = overrides["text_config"], loaded.text_config
        section.update(overrides)
        for name, config in (("written", written), ("overridden", loaded)):
            table, scaling = frequencies_at(config.get_text_config(), kind, case["to"])
            made[f"{case['name']}/{name}"] = table
            case[f"{name}_scaling"] = scaling
    return made


def frequencies_at(config: Any, kind: str, length: int) -> tuple[Any, Any]:
    """Return the frequencies and attention scaling of a layer type at a sequence length."""
    rotary = rotary_module(config)
    prefix = f"{kind}_" if kind and hasattr(rotary, f"{kind}_inv_freq") else ""
    if getattr(rotary, f"{prefix}rope_type", None) == "dynamic" or "dynamic" in str(
        getattr(rotary, "rope_type", "")
    ):
        rotary(torch.zeros(1, 1, 8), torch.tensor([[length - 1]]), *([kind] if prefix else []))
    return getattr(rotary, f"{prefix}inv_freq"), getattr(rotary, f"{prefix}attention_scaling")


def architectures(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the model types of each class of transformers, for types that posenc knows."""
    from transformers.models.auto import modeling_auto

    known = {*families.names(), *families.names("containers")}
    known |= {*nonrotary.FAMILIES, *vision.FAMILIES, *refusals()}
    classes: dict[str, set[str]] = {}
    for name, mapping in vars(modeling_auto).items():
        if not (name.startswith("MODEL_") and name.endswith("_MAPPING_NAMES")):
            continue
        for model_type in known & mapping.keys():
            names = mapping[model_type]
            for class_name in [names] if isinstance(names, str) else names:
                classes.setdefault(class_name, set()).add(model_type)
    statement["classes"] = {name: sorted(types) for name, types in sorted(classes.items())}
    return {}


def checkpoint_tensors(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the shape of each tensor that models of transformers save, by its name."""
    for case in statement["cases"]:
        config = getattr(transformers, f"{case['model']}Config")(**case["config"])
        with torch.device("meta"):
            model = getattr(transformers, f"{case['model']}Model")(config)
        case["tensors"] = {name: [*value.shape] for name, value in model.state_dict().items()}
    return {}


def layer_types(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the layer types of configurations that state at most the number of layers."""
    from huggingface_hub.errors import StrictDataclassError

    statement["cases"] = []
    for family in filter(None, map(families.rotary, sorted(families.names()))):
        for count in (None, 1, 2, 7, 12):
            keys = {} if count is None else {"num_hidden_layers": count}
            try:
                types = getattr(
                    transformers.CONFIG_MAPPING[family.model_type](**keys), "layer_types", None
                )
            except StrictDataclassError:  # some refuse so few layers
                continue
            runs = [[name, len(list(run))] for name, run in groupby(types or ())]
            if runs:
                case = {"model_type": family.model_type, "num_hidden_layers": count}
                statement["cases"].append({**case, "layer_types": runs})
    return {}


_SCORE_KEYS = (
    {"query_pre_attn_scalar": 100},
    {"attention_multiplier": 0.02},
    {"attn_logit_softcapping": 30.0},
    {"attn_logit_softcapping": None},
)


def config_scores(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the scale and the cap of each family's scores, from models on the meta device."""
    statement["cases"], statement["not_built"] = [], []
    for family in filter(None, map(families.rotary, sorted(families.names()))):
        usual = _shallow(family.model_type, {})
        attention = None if usual is None else _attention(usual)
        if usual is None or attention is None:
            statement["not_built"].append(family.model_type)
            continue
        known = transformers.CONFIG_MAPPING[family.model_type]()
        changes = [keys for keys in _SCORE_KEYS if hasattr(known, next(iter(keys)))]
        for keys in ({}, *changes):
            built = _attention(_shallow(family.model_type, keys))
            statement["cases"].append(
                {
                    "model_type": family.model_type,
                    "config": keys,
                    "scale": built.scaling,
                    "head": getattr(built, "qk_head_dim", None) or getattr(built, "head_dim", None),
                    "softcap": getattr(built, "attn_logit_softcapping", None),
                    "temperature": [built.attn_scale, built.floor_scale]
                    if getattr(built, "attn_temperature_tuning", False)
                    else None,
                }
            )
    return {}


def config_layer_bases(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the angles and amplitudes of each layer of a small model at position 1."""
    made: dict[str, Any] = {}
    for case in statement["cases"]:
        config = {**statement["sizes"], **case["config"]}
        given: dict[Any, Any] = {}

        def note(layer: Any, _args: Any, named: Any, given: dict[Any, Any] = given) -> None:
            given[layer] = named.get("position_embeddings")

        with torch.no_grad():
            model = transformers.AutoModel.from_config(configured(config))
            for layer in model.layers:
                layer.register_forward_pre_hook(note, with_kwargs=True)
            model(torch.zeros(1, 2, dtype=torch.long))
        case["layers"] = []
        for layer in model.layers:
            tables = given[layer]
            if isinstance(tables, dict):  # of which each layer takes its own, a column a pair
                tables = tables[layer.self_attn.rope_layer_type]
            elif tables is not None:
                tables = [each[..., : each.shape[-1] // 2] for each in tables]
            if tables is None:
                case["layers"].append(None)
                continue
            cos, sin = (each[0, 1].numpy() for each in tables)
            angles = np.arctan2(sin, cos)  # (pairs,)
            name = next((name for name in made if np.array_equal(made[name], angles)), None)
            made.setdefault(name or str(len(made)), angles)
            amplitude = float(np.hypot(cos[0], sin[0]))
            case["layers"].append([name or str(len(made) - 1), round(amplitude, 6)])
    return made


def _shallow(model_type: str, keys: Mapping[str, Any]) -> Any:
    """Return a configuration of a type with few layers, or with as many as it has by default."""
    usual = transformers.CONFIG_MAPPING[model_type](**keys)
    count = getattr(usual, "num_hidden_layers", None) or 0
    listed = {
        key: value[:4]
        for key, value in usual.to_dict().items()
        if isinstance(value, list) and len(value) == count
    }
    try:
        shallow = transformers.CONFIG_MAPPING[model_type](**keys, **listed, num_hidden_layers=4)
    except Exception:  # its classes raise what they like
        return usual
    return shallow if _attention(shallow) is not None else usual


def _attention(config: Any) -> Any:
    """Return the first attention of a model on the meta device; None if none has a scale."""
    return next((module for module in _modules(config) if _has_scale(module)), None)


def _has_scale(module: Any) -> bool:
    name = type(module).__name__
    text = "Attention" in name and not re.search("Vision|Audio|Mimi|Image", name)
    return text and isinstance(getattr(module, "scaling", None), float)


def _modules(config: Any) -> Iterator[Any]:
    """Yield the modules of a configuration's model, or else those of its file that take one."""
    for class_ in (transformers.AutoModel, transformers.AutoModelForCausalLM):
        try:
            with torch.device("meta"):
                yield from class_.from_config(config).modules()
        except Exception:
            continue
    place = type(config).__module__.replace(".configuration_", ".modeling_")
    for class_ in vars(importlib.import_module(place)).values():
        if not isinstance(class_, type) or not class_.__name__.endswith("Attention"):
            continue
        stated = inspect.signature(class_).parameters.get("config")
        if stated is None or type(config).__name__ not in str(stated.annotation):
            continue
        try:
            with torch.device("meta"):
                yield class_(config, layer_idx=0)
        except Exception:
            continue


_WARNINGS = {
    "lengths": "does not match the ratio",
    "factor": "factor field must be a float",
    "betas": "beta_fast field must be greater",
    "original": "original_max_position_embeddings field must be less",
    "unread": "Unrecognized keys",
}
"""The texts of transformers' warnings about a rope object, by their names here."""


def rope_warnings(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the warnings that transformers logs about configs."""
    from transformers.utils import logging

    logging.set_verbosity_warning()
    for case in statement["cases"]:
        logging.warning_once.cache_clear()
        with mock.patch("logging.Logger.handle") as handle:
            configured(case["config"])
        lines = [call.args[0].getMessage() for call in handle.call_args_list]
        case["warns"] = [
            name for name, words in _WARNINGS.items() if any(words in line for line in lines)
        ]
    return {}


def config_containers(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the text models' values in transformers' multimodal configurations."""
    for case in statement["cases"]:
        config = configured(case["config"]).get_text_config()
        rope = getattr(config, "rope_parameters", None) or {}
        bases = {kind: part["rope_theta"] for kind, part in rope.items() if isinstance(part, dict)}
        heads = config.num_attention_heads
        try:
            head = getattr(config, "head_dim", None) or config.hidden_size // heads
        except RuntimeError:  # it differs by layer
            head = None
        case["text"] = {
            "model_type": type(config).model_type,
            "context": config.max_position_embeddings,
            "layers": config.num_hidden_layers,
            "hidden_size": config.hidden_size,
            "num_attention_heads": heads,
            "head_dim": head,
            "base": bases or rope.get("rope_theta"),
        }
    return {}


def config_defaults(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the values of configurations without keys."""
    for model_type, keys in statement["defaults"].items():
        config = transformers.CONFIG_MAPPING[model_type]()
        keys.update({key: getattr(config, key, None) for key in keys})
    return {}


def presets(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the frequencies of the models that posenc ships."""
    made: dict[str, Any] = {}
    statement["cases"] = []
    for file in sorted(PRESETS.glob("*.json")):
        config = json.loads(file.read_text("utf-8"))["config"]
        model_type = families.text_model_type(config["model_type"]) or config["model_type"]
        if families.rotary(model_type) is None or file.stem in NOT_LOADED:
            continue
        text = configured(config).get_text_config()
        for kind, (table, scaling) in frequencies(text).items():
            name = f"{file.stem}:{kind}".rstrip(":")
            made[name] = table
            case = {"model": file.stem, "layer_type": kind or None, "array": name}
            module = type(rotary_module(text)).__name__
            statement["cases"].append({**case, "attention_scaling": scaling, "module": module})
    return made


def config_nonrotary(statement: Statement, _stored: Arrays) -> Arrays:
    """Return the encodings of models without RoPE for 12 tokens, by class."""
    made = {}
    for case in statement["cases"]:
        config = configured(case["config"])
        made[case["array"]] = _KINDS[case["kind"]](case, modeling_of(config), config)
    return made


def _ending(modeling: Any, ending: str) -> Any:
    """Return the first object of a module whose name has this end; None if there is none."""
    return next((made for name, made in vars(modeling).items() if name.endswith(ending)), None)


def _rows(case: Statement, modeling: Any, _config: Any) -> Any:
    width = ("d_model", "hidden_size", "emb_dim", "n_embd")
    dim = next(case["config"][key] for key in width if key in case["config"])
    start = case.get("start", 0)
    if hasattr(modeling, "sinusoids"):
        return modeling.sinusoids(12, dim)
    if hasattr(modeling, "create_sinusoidal_embeddings"):
        return modeling.create_sinusoidal_embeddings(12, dim, torch.empty(12, dim))
    if hasattr(modeling, "positional_encoding"):
        return modeling.positional_encoding(12, dim, torch.float32)
    table = _ending(modeling, "SinusoidalPositionalEmbedding")
    if hasattr(table, "get_embedding"):
        padding = {"padding_idx": 1} if start else {}
        return table.get_embedding(start + 12, dim, **padding)[start:]
    return table(12, dim).create_weight()


def _buckets(case: Statement, modeling: Any, config: Any) -> Any:
    attention = next(
        class_ for class_ in vars(modeling).values() if hasattr(class_, "_relative_position_bucket")
    )
    config.is_decoder = case["layer_type"] == "decoder"
    offsets, module = torch.arange(-299, 300), attention(config, True, layer_idx=0)
    bucket = module._relative_position_bucket  # noqa: SLF001
    if "bidirectional" not in inspect.signature(bucket).parameters:
        return bucket(offsets)  # UMT5's knows its sizes
    sizes = config.relative_attention_num_buckets, config.relative_attention_max_distance
    return bucket(offsets, not config.is_decoder, *sizes)


def _bias(_case: Statement, modeling: Any, config: Any) -> Any:
    if hasattr(modeling, "build_alibi_tensor"):
        return modeling.build_alibi_tensor(torch.ones(1, 12), config.n_head, torch.float32)[:, 0]
    return modeling.build_mpt_alibi_tensor(config.n_heads, 12)[:, 0]


def _learned(case: Statement, modeling: Any, config: Any) -> Any:
    """Return the rows of its table that a model looks up for 12 tokens."""
    table, tokens = _ending(modeling, "LearnedPositionalEmbedding"), torch.full((1, 12), 7)
    lookup = torch.nn.functional.embedding
    with mock.patch("torch.nn.functional.embedding", side_effect=lookup) as looked_up:
        if table is None:
            _ending(modeling, "Embeddings")(config)(tokens)
        else:
            name = list(inspect.signature(table.forward).parameters)[1]
            given = {"input_ids_shape": tokens.shape, "attention_mask": torch.ones(1, 12).long()}
            table(64, 4)(given.get(name, tokens))
    (rows,) = [
        ids
        for ids, weight, *_ in (call.args for call in looked_up.call_args_list)
        if weight.shape[0] == case["max_len"]
    ]
    return rows.flatten()


def _sin_cos(_case: Statement, modeling: Any, config: Any) -> Any:
    if hasattr(modeling, "create_sinusoidal_positions"):
        return modeling.create_sinusoidal_positions(12, config.rotary_dim)
    head = config.hidden_size // config.num_attention_heads
    return _ending(modeling, "SinusoidalPositionalEmbedding")(12, head).create_weight()


def _axial(_case: Statement, modeling: Any, config: Any) -> Any:
    if config.model_type == "dinov3_vit":
        module = modeling.DINOv3ViTRopePositionEmbedding(config).eval()
        return torch.stack(module(torch.zeros(1, 3, *config.image_size)))
    if config.model_type == "pixtral":
        side = config.image_size // config.patch_size
        return torch.stack(
            modeling.PixtralVisionRotaryEmbedding(config)(torch.zeros(1), _cells(side, side))
        )
    turns = modeling.Llama4VisionRotaryEmbedding(config)(torch.zeros(1))[:-1, 0]
    return torch.stack([turns.real, turns.imag])


def _patches(case: Statement, modeling: Any, config: Any) -> Any:
    """Return rows and columns of a table of patches."""
    module = getattr(modeling, case["class"])(config)
    (shape,) = [part.shape for name, part in module.named_parameters() if "position_emb" in name]
    return np.array(shape[-2:])


def _mae(case: Statement, modeling: Any, config: Any) -> Any:
    """Return the rows of the patches of one side of MAE."""
    encoder = modeling.ViTMAEEmbeddings(config)
    if case["layer_type"] == "encoder":
        encoder.initialize_weights()
        return encoder.position_embeddings[0, 1:]
    patches = encoder.patch_embeddings.num_patches
    decoder = modeling.ViTMAEDecoder(config, patches)
    decoder.initialize_weights(patches)
    return decoder.decoder_pos_embed[0, 1:]


def _windows(case: Statement, modeling: Any, config: Any) -> Any:
    """Return each layer's heads, and the rows and columns of its window and the trained one."""
    found = []
    for module in getattr(modeling, case["class"])(config).modules():
        if hasattr(module, "continuous_position_bias_mlp"):
            trained = module.pretrained_window_size
            found.append([module.num_attention_heads, *module.window_size, *trained])
        elif hasattr(module, "relative_position_bias_table"):
            heads = module.relative_position_bias_table.shape[1]
            found.append([heads, *module.window_size, 0, 0])
    return np.array(found)


_KINDS: Mapping[str, Callable[[Statement, Any, Any], Any]] = {
    "rows": _rows,
    "buckets": _buckets,
    "bias": _bias,
    "learned": _learned,
    "sin-cos": _sin_cos,
    "axial": _axial,
    "patches": _patches,
    "mae": _mae,
    "windows": _windows,
}
"""The generator of each kind of case of ``config_nonrotary``."""

_OF_THEIR_NAME: tuple[Generator, ...] = (
    *(architectures, checkpoint_tensors, config_containers, config_defaults, config_nonrotary),
    *(config_plans, config_rope, layer_types, config_layer_bases, config_scores),
    *(registry, rope_warnings, window_bias, window_networks),
)
GENERATORS: Mapping[str, Generator] = {
    **{each.__name__: each for each in _OF_THEIR_NAME},
    "alibi_bloom": bloom,
    "alibi_mpt": mpt,
    "coordinates_real": real_coordinates,
    "deberta_*": deberta_buckets,
    "models": presets,
    "mrope_*": rope_apply,
    "rel_sin_xlnet": xlnet,
    "resized_*": resized,
    "rope2d_dinov3": dinov3,
    "rope2d_gemma4": gemma4,
    "rope2d_llama4": llama4,
    "rope2d_*": rope_apply,
    "rope_apply_gptj_interleaved": gptj,
    "rope_apply_halves": halves,
    "rope_apply_*": rope_apply,
    "rope_*": rope_tables,
    "shaw_relative_clipped": shaw,
    "sin2d_detr": detr,
    "sin2d_*": grids,
    "sin_penc_nd": grids,
    "sin_penc*": penc,
    "sin_*": sinusoids,
    "t5_bias_gather": t5_bias,
    "t5_buckets_other": t5_buckets,
    "t5_bucket_*": t5_bucket,
    "truth_rope_*": truth,
    "window_index_timm": window_index,
    "xpos_lucidrains": xpos_scales,
    "xpos_torchscale": xpos,
}
"""The generator of each golden, by its name: the first matching pattern."""


def generator_of(name: str) -> Generator | None:
    """Yield the generator of a golden; None if no code here makes it."""
    if name in RECORDED:
        return None
    return next(
        (generator for pattern, generator in GENERATORS.items() if fnmatch(name, pattern)), None
    )


def plain(values: Any, dtype: Any) -> Any:
    """Return the values of a peer as an array of a number format."""
    if isinstance(values, torch.Tensor):
        values = values.detach()
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return np.asarray(values, dtype)


def files_of(name: str, generate: Generator) -> dict[str, bytes]:
    """Return a golden's files, as its peer makes them, by name."""
    text = (GOLDEN / f"{name}.json").read_text("utf-8")
    statement, archive = json.loads(text), GOLDEN / f"{name}.npz"
    stored = dict(np.load(archive)) if archive.exists() else {}
    made = generate(statement, stored)
    kept = {key for key in stored if INPUTS.fullmatch(key)} | {RECORDED_ARRAYS.get(name)}
    order = list(stored) or list(made)
    if stored and name not in GROWING and (more := made.keys() - stored.keys()):
        raise LookupError(f"{name}: the golden lacks {', '.join(sorted(more))}")
    if name in GROWING:  # a new case's arrays come last
        order = sorted(made, key=lambda key: order.index(key) if key in stored else len(order))
    if missing := set(order) - made.keys() - kept:
        raise LookupError(f"{name}: no peer gives {', '.join(sorted(missing))}")
    arrays = {
        key: plain(made[key], stored[key].dtype if key in stored else "float32")
        if key in made
        else stored[key]
        for key in order
    }
    files = {}
    if arrays:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        content = files[archive.name] = buffer.getvalue()
        facts = {"npz_bytes": len(content), "npz_sha256": hashlib.sha256(content).hexdigest()}
        statement.update({key: fact for key, fact in facts.items() if key in statement})
    changed = statement != json.loads(text)
    files[f"{name}.json"] = (laid_out(statement) if changed else text).encode()
    return files


def laid_out(statement: Statement) -> str:
    """Return a statement as text, with one line for each case."""
    rows = next((key for key in ("cases", "classes", "defaults") if key in statement), None)
    if rows is None:
        return json.dumps(statement, indent=1, ensure_ascii=False)
    content = statement[rows]
    lines = list(map(json.dumps, content))
    if isinstance(content, dict):
        lines = [
            f"{key}: {json.dumps(content[name])}" for key, name in zip(lines, content, strict=True)
        ]
    opened, closed = "{}" if isinstance(content, dict) else "[]"
    frame = json.dumps({**statement, rows: None}, indent=1, ensure_ascii=False)
    listed = ",\n".join(f"  {line}" for line in lines)
    return frame.replace(f'"{rows}": null', f'"{rows}": {opened}\n{listed}\n {closed}') + "\n"


def listing(names: Sequence[str]) -> Iterator[str]:
    """Yield the source of each golden, and whether code here makes it."""
    for name in names:
        content = (GOLDEN / f"{name}.json").read_bytes()
        statement = json.loads(content)
        archive = GOLDEN / f"{name}.npz"
        content = archive.read_bytes() if archive.exists() else content
        yield f"{name}: {statement.get('peer') or statement['source']}"
        if generator_of(name) is None:
            digest = hashlib.sha256(content).hexdigest()
            yield f"    not made here: {RECORDED[name]}; sha256 {digest}"
        elif name in RECORDED_ARRAYS:
            yield f"    made here but for {RECORDED_ARRAYS[name]}: {OLD}"


def main(arguments: Sequence[str]) -> int:
    """Make, list or check goldens; return 1 if bytes differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--list", action="store_true", help="say where each comes from")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--out", type=Path, default=GOLDEN, help="the folder to write to")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="all that are made here by default"
    )
    options = parser.parse_args(arguments)
    known = sorted(file.stem for file in GOLDEN.glob("*.json"))
    if unknown := set(options.names) - set(known):
        parser.error(f"tests/golden has no {', '.join(sorted(unknown))}")
    names = options.names or known
    if options.list:
        print(*listing(names), sep="\n")
        return 0
    apart = 0
    for name in names:
        generate = generator_of(name)
        if generate is None:
            print(f"{name}: not made here: {RECORDED[name]}")
            continue
        try:
            files = files_of(name, generate)
        except (ImportError, LookupError) as error:  # no package, or other arrays than the golden's
            apart += 1
            print(f"{name}: not made: {error}")
            continue
        for file, content in files.items():
            same = (GOLDEN / file).exists() and (GOLDEN / file).read_bytes() == content
            apart += not same
            print(f"{file}: {'the same bytes' if same else 'other bytes'}")
            if not options.check:
                (options.out / file).write_bytes(content)
    return 1 if apart and options.check else 0


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    sys.exit(main(sys.argv[1:]))
