"""List the libraries of docs/conventions.md, and the call that gives the table of each function.

conventions_calls.json has a line for each function. A call is an expression: ``F`` is the function
itself (``G(name)`` another one of its file), ``n`` positions, ``d`` columns, ``h`` and ``w`` the
sides of a grid, ``x`` zeros (1, n, d), ``ids`` positions (1, n), and ``firsts`` (n, d) vectors that
are 1 in the first dimension of each pair, which a rotation turns into the cosines and sines.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Call(NamedTuple):
    """How to call a function: the expression, the file of the function, and the environment.

    ``far`` is the call with room for any length, ``base`` the parameter that sets the base if
    several may.
    """

    code: str
    file: str = ""
    far: str = ""
    grid: bool = False
    pairs: str = "interleaved"
    base: str = ""
    environment: str = "torch"


CALLS = {
    name: Call(**row)
    for name, row in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")).items()
}


class Environment(NamedTuple):
    """The modules of an environment by the names that calls use, and what pip installs.

    Packages ``alone`` come second, without their dependencies.
    """

    modules: Mapping[str, str]
    packages: str
    alone: str


ENVIRONMENTS = {
    "torch": Environment(
        {"np": "numpy", "torch": "torch"},
        "torch==2.13.0 torchvision==0.28.0 transformers==5.23.0 scipy==1.17.1 diffusers==0.42.1 "
        "x-transformers==2.31.10 rotary-embedding-torch==0.9.1 positional-encodings==6.0.3 "
        "einops==0.8.2",
        "allennlp==2.10.1 chronos-forecasting==2.3.2 curated-transformers==2.0.1 "
        "dalle2-pytorch==1.15.6 demucs==4.1.0 denoising-diffusion-pytorch==2.3.4 espnet==202511 "
        "fair-esm==2.0.0 funasr==1.4.16 gluonts==0.17.0 imagen-pytorch==2.1.0 joeynmt==2.3.0 "
        "kornia==0.9.0 labml-nn==0.5.1 lightly==1.6.0 litgpt==0.5.13 llm-foundry==0.22.0 "
        "local-attention==1.11.2 mmdet==3.3.0 monai==1.6.1 neuralforecast==3.3.0 "
        "open_clip_torch==3.3.0 openai-whisper==20250625 OpenNMT-py==3.5.1 "
        "performer-pytorch==1.1.4 pytorch-forecasting==1.8.0 sockeye==3.1.34 speechbrain==1.1.2 "
        "timesfm==3.0.2 timm==1.0.20 torch-geometric==2.8.1 torchmultimodal-nightly==2024.4.1 "
        "torchscale==0.3.0 torchtitan==0.3.0 torchtune==0.6.1 uni2ts==2.0.0 vit-pytorch==1.26.14",
    ),
    "jax": Environment(
        {
            "jnp": "jax.numpy",
            "mx": "mlx.core",
            "mlx": "mlx",
            "mlx_nn": "mlx.nn",
            "equinox": "equinox",
            "keras_hub": "keras_hub",
        },
        "jax==0.10.2 equinox==0.13.8 mlx==0.32.4 mlx-cpu==0.32.4 keras==3.15.1 regex==2026.11.19 "
        "tokenizers==0.23.3",
        "keras-hub==0.32.0",
    ),
    "tensorflow": Environment(
        {"tf": "tensorflow"},
        "tensorflow-cpu==2.21.0",
        "tf-keras==2.21.0 tensor2tensor==1.15.7 tf-models-official==2.20.0 "
        "positional-encodings==6.0.3",
    ),
}
