"""List the libraries of docs/conventions.md, and the call that gives the table of each function.

A call is an expression: ``F`` is the function itself (``G(name)`` another one of its file), ``n``
positions, ``d`` columns, ``h`` and ``w`` the sides of a grid, ``x`` zeros (1, n, d), ``ids``
positions (1, n), and ``firsts`` (n, d) vectors that are 1 in the first dimension of each pair,
which a rotation turns into the cosines and sines. ``far`` is the call with room for any length,
``base`` the parameter that sets the base if several may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Call(NamedTuple):
    """How to call a function: the expression, the file of the function, and the environment."""

    file: str
    code: str
    far: str = ""
    grid: bool = False
    pairs: str = "interleaved"
    base: str = ""
    environment: str = "torch"


CALLS = {
    "allennlp:SinusoidalPositionalEncoding": Call(
        "allennlp/nn/util.py allennlp/modules/transformer/positional_encoding.py", "F()(x)[0]"
    ),
    "chronos-forecasting:Chronos2RotaryEmbedding": Call(
        "chronos/chronos2/layers.py",
        "tuple(t[0] for t in F(Options(rope_theta=10000.0, d_kv=d))(x, ids))",
        pairs="half",
    ),
    "curated-transformers:RotaryEmbeddings": Call(
        "curated_transformers/layers/embeddings.py", "F(d)(firsts[None, None])[0, 0]", pairs="half"
    ),
    "curated-transformers:SinusoidalPositionalEmbedding": Call(
        "curated_transformers/layers/embeddings.py",
        "F(width=d, max_len=n, normalize=False)(x[0, :, 0][None])",
    ),
    "dalle2-pytorch:SinusoidalPosEmb": Call(
        "dalle2_pytorch/dalle2_pytorch.py", "F(d)(torch.arange(n).float())"
    ),
    "demucs:create_sin_embedding": Call("demucs/transformer.py", "F(n, d)[:, 0]"),
    "denoising-diffusion-pytorch:SinusoidalPosEmb": Call(
        "denoising_diffusion_pytorch/denoising_diffusion_pytorch.py", "F(d)(torch.arange(n))"
    ),
    "diffusers:get_1d_rotary_pos_embed": Call("diffusers/models/embeddings.py", "F(d, n)"),
    "diffusers:get_1d_sincos_pos_embed_from_grid": Call(
        "diffusers/models/embeddings.py", 'F(d, torch.arange(n), output_type="pt")'
    ),
    "diffusers:get_2d_sincos_pos_embed": Call(
        "diffusers/models/embeddings.py", 'F(d, 16, output_type="pt")', grid=True
    ),
    "diffusers:get_3d_rotary_pos_embed": Call(
        "diffusers/models/embeddings.py", "F(d, ((0, 0), (6, 8)), (6, 8), 4)", grid=True
    ),
    "diffusers:get_3d_sincos_pos_embed": Call(
        "diffusers/models/embeddings.py", "F(d, (8, 6), 4).reshape(-1, d)", grid=True
    ),
    "diffusers:get_timestep_embedding": Call(
        "diffusers/models/embeddings.py", "F(torch.arange(n), d)"
    ),
    "diffusers:SinusoidalPositionalEmbedding": Call(
        "diffusers/models/embeddings.py", "F(d)(x)[0]", far="F(d, n)(x)[0]"
    ),
    "equinox:RotaryPositionalEmbedding": Call(
        "",
        "equinox.nn.RotaryPositionalEmbedding(d)(jnp.asarray(firsts))",
        pairs="half",
        environment="jax",
    ),
    "espnet:PositionalEncoding": Call(
        "espnet/nets/pytorch_backend/transformer/embedding.py", "F(d, 0.0)(x)[0]"
    ),
    "espnet:StreamPositionalEncoding": Call(
        "espnet/nets/pytorch_backend/transformer/embedding.py", "F(d, 0.0)(x)[0]"
    ),
    "fair-esm:RotaryEmbedding": Call(
        "esm/rotary_embedding.py", "F(d)(firsts[None], firsts[None])[0][0]", pairs="half"
    ),
    "fair-esm:SinusoidalPositionalEmbedding": Call(
        "esm/modules.py", "F(d, 1)(torch.full((1, n), 5))[0]"
    ),
    "funasr:SinusoidalPositionEncoder": Call("funasr/models/transformer/embedding.py", "F()(x)[0]"),
    "gluonts:SinusoidalPositionalEmbedding": Call(
        "gluonts/torch/model/patch_tst/module.py", "F(n, d)(torch.Size((1, n)))"
    ),
    "imagen-pytorch:SinusoidalPosEmb": Call(
        "imagen_pytorch/imagen_pytorch.py", "F(d)(torch.arange(n))"
    ),
    "joeynmt:PositionalEncoding": Call(
        "joeynmt/transformer_layers.py", "F(d)(x)[0]", far="F(d, n)(x)[0]"
    ),
    "keras-hub:AlibiBias": Call(
        "",
        'keras_hub.layers.AlibiBias()(np.zeros((1, heads, n, n), "float32"))[0]',
        environment="jax",
    ),
    "keras-hub:RotaryEmbedding": Call(
        "", "keras_hub.layers.RotaryEmbedding()(firsts[None])[0]", pairs="half", environment="jax"
    ),
    "keras-hub:SinePositionEncoding": Call(
        "",
        'keras_hub.layers.SinePositionEncoding()(np.zeros((1, n, d), "float32"))[0]',
        environment="jax",
    ),
    "kornia:build_2d_sincos_pos_emb": Call(
        "kornia/models/rt_detr/architecture/hybrid_encoder.py", "F(w, h, d)[:, 0]", grid=True
    ),
    "kornia:GemmaRotaryEmbedding": Call(
        "kornia/models/paligemma/modeling_paligemma.py",
        "tuple(t[0] for t in F(d)(x, ids))",
        pairs="half",
    ),
    "labml-nn:get_positional_encoding": Call(
        "labml_nn/transformers/positional_encoding.py", "F(d)[:n, 0]", far="F(d, n)[:, 0]"
    ),
    "labml-nn:RoPE": Call("labml_nn/neox/model.py", "F(d)(firsts[:, None])[:, 0]", pairs="half"),
    "labml-nn:RotaryPositionalEmbeddings": Call(
        "labml_nn/transformers/rope/__init__.py",
        "F(d)(firsts[:, None, None])[:, 0, 0]",
        pairs="half",
    ),
    "lightly:get_2d_sine_cosine_positional_embedding": Call(
        "lightly/models/utils.py", "F(d, h, cls_token=False)", grid=True
    ),
    "litgpt:build_rope_cache": Call("litgpt/model.py", "F(n, d)", pairs="half"),
    "llm-foundry:build_alibi_bias": Call(
        "llmfoundry/models/layers/attention.py",
        "F(heads, n, dtype=torch.float32)[0].expand(heads, n, n)",
    ),
    "local-attention:SinusoidalEmbeddings": Call(
        "local_attention/rotary.py", "cos_sin(F(d)(x)[0])", pairs="half"
    ),
    "mlx:ALiBi": Call("", "mlx.nn.ALiBi.create_alibi_matrix(n, n, heads)[0]", environment="jax"),
    "mlx:RoPE": Call(
        "", "mlx.nn.RoPE(d)(mx.array(firsts)[None])[0]", pairs="half", environment="jax"
    ),
    "mlx:SinusoidalPositionalEncoding": Call(
        "", "mlx.nn.SinusoidalPositionalEncoding(d, scale=1)(mx.arange(n))", environment="jax"
    ),
    "mmdet:SinePositionalEncoding": Call(
        "mmdet/models/layers/positional_encoding.py",
        "F(d // 2)(torch.zeros(1, h, w))[0].reshape(d, -1).T",
        grid=True,
    ),
    "monai:build_sincos_position_embedding": Call(
        "monai/networks/blocks/pos_embed_utils.py", "F([h, w], d, 2)[0]", grid=True
    ),
    "monai:get_timestep_embedding": Call(
        "monai/networks/nets/diffusion_model_unet.py", "F(torch.arange(n), d)"
    ),
    "neuralforecast:PositionalEmbedding": Call(
        "neuralforecast/common/_modules.py", "F(d)(x)[0]", far="F(d, n)(x)[0]"
    ),
    "open-clip-torch:get_2d_sincos_pos_embed": Call("open_clip/pos_embed.py", "F(d, h)", grid=True),
    "openai-whisper:sinusoids": Call("whisper/model.py", "F(n, d)"),
    "OpenNMT-py:AlibiPositionalBias": Call(
        "onmt/modules/alibi_position_bias.py", "F(heads)(torch.zeros(1, heads, n, n))[0]"
    ),
    "OpenNMT-py:PositionalEncoding": Call(
        "onmt/modules/embeddings.py",
        'F(d, "SinusoidalInterleaved")(x)[0]',
        far='F(d, "SinusoidalInterleaved", n)(x)[0]',
    ),
    "OpenNMT-py:rotaryembeddings": Call(
        "onmt/modules/multi_headed_attn.py", "F(d)[0][:n, :d // 2]", far="F(d, n)[0][:n, :d // 2]"
    ),
    "performer-pytorch:FixedPositionalEmbedding": Call(
        "performer_pytorch/performer_pytorch.py", "F(d, n)(x)[0]"
    ),
    "positional-encodings:PositionalEncoding1D": Call(
        "positional_encodings/torch_encodings.py", "F(d)(x)[0]"
    ),
    "positional-encodings:PositionalEncoding2D": Call(
        "positional_encodings/torch_encodings.py",
        "F(d)(torch.zeros(1, h, w, d)).reshape(-1, d)",
        grid=True,
    ),
    "positional-encodings:PositionalEncoding3D": Call(
        "positional_encodings/torch_encodings.py",
        "F(d)(torch.zeros(1, 4, 6, 8, d)).reshape(-1, d)",
        grid=True,
    ),
    "positional-encodings:TFPositionalEncoding1D": Call(
        "positional_encodings/tf_encodings.py",
        "F(d)(tf.zeros((1, n, d)))[0]",
        environment="tensorflow",
    ),
    "pytorch-forecasting:PositionalEmbedding": Call(
        "pytorch_forecasting/layers/_embeddings/_positional_embedding.py",
        "F(d)(x)[0]",
        far="F(d, n)(x)[0]",
    ),
    "rotary-embedding-torch:RotaryEmbedding": Call(
        "rotary_embedding_torch/rotary_embedding_torch.py", "F(d).rotate_queries_or_keys(firsts)"
    ),
    "sockeye:get_positional_embeddings": Call("sockeye/layers.py", "F(n, d)"),
    "speechbrain:PositionalEncoding": Call(
        "speechbrain/lobes/models/transformer/Transformer.py", "F(d)(x)[0]", far="F(d, n)(x)[0]"
    ),
    "speechbrain:PrecomputedRoPESinusoids": Call(
        "speechbrain/nnet/attention.py", 'F(n, d, torch.float32, "cpu").cosines'
    ),
    "speechbrain:PyTorchPositionalEncoding": Call(
        "speechbrain/lobes/models/dual_path.py",
        "F(d, 0.0)(x.transpose(0, 1))[:, 0]",
        far="F(d, 0.0, n)(x.transpose(0, 1))[:, 0]",
    ),
    "speechbrain:timestep_embedding": Call("speechbrain/nnet/unet.py", "F(torch.arange(n), d)"),
    "tensor2tensor:get_timing_signal_1d": Call(
        "tensor2tensor/layers/common_attention.py", "F(n, d)[0]", environment="tensorflow"
    ),
    "tf-models-official:RelativePositionEmbedding": Call(
        "official/nlp/modeling/layers/position_embedding.py",
        "F(d)(None, length=n)",
        environment="tensorflow",
    ),
    "timesfm:RotaryPositionalEmbedding": Call(
        "timesfm/torch/transformer.py", "F(d)(firsts[None])[0]", pairs="half"
    ),
    "timm:build_rotary_pos_embed": Call(
        "timm/layers/_fx.py timm/layers/grid.py timm/layers/pos_embed_sincos.py",
        "F([h, w], dim=d)[::-1]",
        grid=True,
        base="max_res",
    ),
    "timm:build_sincos2d_pos_embed": Call(
        "timm/layers/_fx.py timm/layers/grid.py timm/layers/pos_embed_sincos.py",
        "F([h, w], d)",
        grid=True,
    ),
    "timm:RotaryEmbeddingCat": Call(
        "timm/layers/_fx.py timm/layers/grid.py timm/layers/pos_embed_sincos.py",
        "halves(F(d, in_pixels=False).get_embed([h, w]))",
        grid=True,
    ),
    "timm:RotaryEmbeddingDinoV3": Call(
        "timm/layers/_fx.py timm/layers/grid.py timm/layers/pos_embed_sincos.py",
        "halves(F(d).get_embed([h, w]))",
        grid=True,
    ),
    "torch-geometric:PositionalEncoding": Call(
        "torch_geometric/nn/encoding.py", "F(d)(torch.arange(n).float())"
    ),
    "torchmultimodal-nightly:SinusoidalPositionEmbeddings": Call(
        "torchmultimodal/modules/layers/position_embedding.py", "F(d)(torch.arange(n))"
    ),
    "torchscale:XPOS": Call(
        "torchscale/component/xpos_relative_position.py", "F(d)(firsts[None])[0]"
    ),
    "torchtitan:timestep_embedding": Call(
        "torchtitan/models/flux/model/layers.py", "F(torch.arange(n).float(), d)"
    ),
    "torchtune:Llama3ScaledRoPE": Call(
        "torchtune/models/llama3_1/_position_embeddings.py",
        "F(d)(firsts[None, :, None])[0, :, 0]",
        far="F(d, n)(firsts[None, :, None])[0, :, 0]",
    ),
    "torchtune:Qwen2RotaryPositionalEmbeddings": Call(
        "torchtune/models/qwen2/_positional_embeddings.py",
        "F(d)(firsts[None, :, None])[0, :, 0]",
        far="F(d, n)(firsts[None, :, None])[0, :, 0]",
        pairs="half",
    ),
    "torchtune:RotaryPositionalEmbeddings": Call(
        "torchtune/modules/position_embeddings.py",
        "F(d)(firsts[None, :, None])[0, :, 0]",
        far="F(d, n)(firsts[None, :, None])[0, :, 0]",
    ),
    "torchtune:VisionRotaryPositionalEmbeddings": Call(
        "torchtune/modules/position_embeddings.py",
        "F(1, h, 1, d // 2).cache[:-1].reshape(-1, d)",
        grid=True,
    ),
    "transformers:build_2d_sinusoidal_position_embedding": Call(
        "transformers/models/vit_mae/modeling_vit_mae.py", "F(h, w, d)", grid=True
    ),
    "transformers:build_alibi_tensor": Call(
        "transformers/models/bloom/modeling_bloom.py",
        "F(torch.ones(1, n), heads, torch.float32).reshape(heads, 1, n).expand(heads, n, n)",
    ),
    "transformers:build_mpt_alibi_tensor": Call(
        "transformers/models/mpt/modeling_mpt.py", "F(heads, n).expand(heads, n, n)"
    ),
    "transformers:create_sinusoidal_positions": Call(
        "transformers/models/gptj/modeling_gptj.py", "F(n, d)"
    ),
    "transformers:DetrSinePositionEmbedding": Call(
        "transformers/models/detr/modeling_detr.py",
        'F(d // 2)(torch.Size((1, d, h, w)), "cpu", torch.float32)[0].reshape(d, -1).T',
        grid=True,
    ),
    "transformers:LlamaRotaryEmbedding": Call(
        "transformers/models/llama/modeling_llama.py",
        'tuple(t[0] for t in F(G("LlamaConfig")(head_dim=d))(x, ids))',
        pairs="half",
    ),
    "transformers:M2M100SinusoidalPositionalEmbedding": Call(
        "transformers/models/m2m_100/modeling_m2m_100.py", "F(1024, d, 1)(torch.full((1, n), 5))[0]"
    ),
    "transformers:MarianSinusoidalPositionalEmbedding": Call(
        "transformers/models/marian/modeling_marian.py", "F(n, d).create_weight()"
    ),
    "transformers:MusicgenSinusoidalPositionalEmbedding": Call(
        "transformers/models/musicgen/modeling_musicgen.py", "F(2048, d)(torch.zeros(1, 1, n))"
    ),
    "transformers:SinusoidalPositionalEmbedding": Call(
        "transformers/models/fsmt/modeling_fsmt.py", "made(F(1024, d, 1))(torch.full((1, n), 5))[0]"
    ),
    "transformers:WhisperPositionalEmbedding": Call(
        "transformers/models/whisper/modeling_whisper.py", 'G("sinusoids")(n, d)'
    ),
    "uni2ts:SinusoidalPositionEncoding": Call(
        "uni2ts/module/position/additive.py",
        "F(width=d, max_len=n, normalize=False)(torch.arange(n))",
    ),
    "vit-pytorch:AxialRotaryEmbedding": Call(
        "vit_pytorch/rvt.py", "tuple(t[0] for t in F(d)(torch.zeros(1, h * w, d)))[::-1]", grid=True
    ),
    "vit-pytorch:posemb_sincos_1d": Call("vit_pytorch/simple_vit_1d.py", "F(x)"),
    "vit-pytorch:posemb_sincos_2d": Call("vit_pytorch/simple_vit.py", "F(h, w, d)", grid=True),
    "vit-pytorch:posemb_sincos_3d": Call(
        "vit_pytorch/simple_vit_3d.py", "F(torch.zeros(1, 4, 6, 8, d))", grid=True
    ),
    "vit-pytorch:sinusoidal_embedding": Call("vit_pytorch/cct.py", "F(n, d)[0]"),
    "x-transformers:AlibiPositionalBias": Call(
        "x_transformers/x_transformers.py", "F(heads)(n, n)"
    ),
    "x-transformers:RotaryEmbedding": Call(
        "x_transformers/x_transformers.py", "cos_sin(F(d).forward_from_seq_len(n)[0][0])"
    ),
    "x-transformers:ScaledSinusoidalEmbedding": Call(
        "x_transformers/x_transformers.py", "F(d)(x) * d ** 0.5"
    ),
}

Requirements = tuple[tuple[tuple[str, ...], str], ...]

ENVIRONMENTS: Mapping[str, tuple[Mapping[str, str], Requirements]] = {
    "torch": (
        {"np": "numpy", "torch": "torch"},
        (
            (
                (),
                (
                    "torch==2.13.0 torchvision==0.28.0 transformers==5.23.0 scipy==1.17.1 "
                    "diffusers==0.42.1 x-transformers==2.31.10 rotary-embedding-torch==0.9.1 "
                    "positional-encodings==6.0.3 einops==0.8.2"
                ),
            ),
            (
                ("--no-deps",),
                (
                    "allennlp==2.10.1 chronos-forecasting==2.3.2 curated-transformers==2.0.1 "
                    "dalle2-pytorch==1.15.6 demucs==4.1.0 denoising-diffusion-pytorch==2.3.4 "
                    "espnet==202511 fair-esm==2.0.0 funasr==1.4.16 gluonts==0.17.0 "
                    "imagen-pytorch==2.1.0 joeynmt==2.3.0 kornia==0.9.0 labml-nn==0.5.1 "
                    "lightly==1.6.0 litgpt==0.5.13 llm-foundry==0.22.0 local-attention==1.11.2 "
                    "mmdet==3.3.0 monai==1.6.1 neuralforecast==3.3.0 open_clip_torch==3.3.0 "
                    "openai-whisper==20250625 OpenNMT-py==3.5.1 performer-pytorch==1.1.4 "
                    "pytorch-forecasting==1.8.0 sockeye==3.1.34 speechbrain==1.1.2 timesfm==3.0.2 "
                    "timm==1.0.20 torch-geometric==2.8.1 torchmultimodal-nightly==2024.4.1 "
                    "torchscale==0.3.0 torchtitan==0.3.0 torchtune==0.6.1 uni2ts==2.0.0 "
                    "vit-pytorch==1.26.14"
                ),
            ),
        ),
    ),
    "jax": (
        {
            "jnp": "jax.numpy",
            "mx": "mlx.core",
            "mlx": "mlx",
            "mlx_nn": "mlx.nn",
            "equinox": "equinox",
            "keras_hub": "keras_hub",
        },
        (
            (
                (),
                (
                    "jax==0.10.2 equinox==0.13.8 mlx==0.32.4 mlx-cpu==0.32.4 keras==3.15.1 "
                    "regex==2026.11.19 tokenizers==0.23.3"
                ),
            ),
            (("--no-deps",), "keras-hub==0.32.0"),
        ),
    ),
    "tensorflow": (
        {"tf": "tensorflow"},
        (
            ((), "tensorflow-cpu==2.21.0"),
            (
                ("--no-deps",),
                (
                    "tf-keras==2.21.0 tensor2tensor==1.15.7 tf-models-official==2.20.0 "
                    "positional-encodings==6.0.3"
                ),
            ),
        ),
    ),
}
"""The modules of each environment by the names that calls use, and what pip installs, in order."""
