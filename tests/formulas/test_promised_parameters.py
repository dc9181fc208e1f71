"""Each scheme's parameters as users were promised them: their names, defaults, choices and ranges.

Written down here a second time on purpose: a default or an end of a range that changes by accident
changes what scripts and configs mean.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

from posenc_cli.catalogue import BUILT_IN
from posenc_cli.errors import InvalidInput

REQUIRED = object()


class Between(NamedTuple):
    """A number from ``least`` to ``most``, both taken."""

    default: Any
    least: float
    most: float


class Above(NamedTuple):
    """A number above ``limit``, which is not taken, up to ``most``."""

    default: Any
    limit: float
    most: float | None = None


class Choice(NamedTuple):
    """One of some words."""

    default: str | None
    words: str


class Plain(NamedTuple):
    """True or false, or the name of a file."""

    default: bool | None


PROMISED: dict[str, dict[str, Between | Above | Choice | Plain]] = {
    "sinusoidal": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved concat"),
        "spacing": Choice("vaswani", "vaswani tensor2tensor"),
        "order": Choice("sin-first", "sin-first cos-first"),
        "odd": Choice("error", "error truncate pad split"),
        "full_turns": Plain(False),
    },
    "timestep": {
        "dim": Between(64, 1, 65536),
        "flip_sin_to_cos": Plain(False),
        "downscale_freq_shift": Between(1.0, 0, 32768),
        "scale": Above(1.0, 0, 1e15),
        "max_period": Above(10000.0, 1),
    },
    "cape": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "normalize": Plain(True),
        "freq_scale": Above(1.0, 0, 1e6),
        "training": Plain(False),
        "max_global_shift": Between(5.0, 0, 1e6),
        "max_local_shift": Between(1.0, 0, 1e6),
        "max_global_scaling": Between(1.03, 1, 1e6),
        "seed": Between(0, 0, 2**64 - 1),
        "seq_len": Between(None, 1, 2**53 + 1),
    },
    "shape": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "max_shift": Between(500, 1, 10**9),
        "training": Plain(False),
        "seed": Between(0, 0, 2**64 - 1),
        "seq_len": Between(None, 1, 2**53 + 1),
    },
    "learned": {
        "dim": Between(64, 1, 65536),
        "max_len": Between(512, 1, 2**31 - 1),
        "std": Between(0.02, 0, 1e6),
        "seed": Between(0, 0, 2**64 - 1),
        "weights": Plain(None),
        "extend": Choice("error", "error clamp interpolate random"),
        "offset": Between(0, 0, 2**31 - 1),
        "seq_len": Between(None, 1, 2**53 + 1),
    },
    "integer": {
        "dim": Between(64, 1, 65536),
    },
    "normalized": {
        "dim": Between(64, 1, 65536),
        "seq_len": Between(None, 1, 2**53 + 1),
    },
    "binary": {
        "dim": Between(64, 1, 65536),
        "order": Choice("msb-first", "msb-first lsb-first"),
    },
    "nope": {
        "dim": Between(64, 1, 65536),
    },
    "sinusoidal-nd": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "grid": Between((14, 14), 1, 2**53),
        "convention": Choice(
            "mae",
            "mae vit-mae timm detr cogvideox simple-vit tensor2tensor positional-encodings",
        ),
        "normalize": Plain(False),
        "base_size": Between(None, 1, 2**53),
        "interpolation_scale": Above(None, 0, 1e9),
        "origin": Between(None, -(2**53), 2**53),
    },
    "rope": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
    },
    "rope-linear": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "factor": Between(4.0, 1e-15, 1e15),
    },
    "rope-ntk": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "factor": Between(4.0, 1e-15, 1e15),
    },
    "rope-dynamic": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "factor": Between(4.0, 1e-15, 1e15),
        "max_position_embeddings": Between(2048, 1, 2**53),
        "seq_len": Between(None, 1, 2**53 + 1),
    },
    "rope-yarn": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "factor": Between(4.0, 1e-15, 1e15),
        "original_max_position_embeddings": Between(4096, 1, 2**53),
        "beta_fast": Above(32.0, 0),
        "beta_slow": Above(1.0, 0),
        "mscale": Between(None, 0, 1e6),
        "mscale_all_dim": Between(None, 0, 1e6),
        "attention_factor": Between(None, 1e-06, 1e6),
        "truncate": Plain(True),
    },
    "rope-llama3": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "factor": Between(8.0, 1e-15, 1e15),
        "low_freq_factor": Above(1.0, 0),
        "high_freq_factor": Above(4.0, 0),
        "original_max_position_embeddings": Between(8192, 1, 2**53),
    },
    "rope-longrope": {
        "short_factor": Between(REQUIRED, 1e-15, 1e15),
        "long_factor": Between(REQUIRED, 1e-15, 1e15),
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "factor": Between(None, 1e-15, 1e15),
        "original_max_position_embeddings": Between(4096, 1, 2**53),
        "max_position_embeddings": Between(None, 1, 2**53),
        "attention_factor": Between(None, 1e-06, 1e6),
        "seq_len": Between(None, 1, 2**53 + 1),
    },
    "rope-proportional": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "factor": Between(1.0, 1e-15, 1e15),
    },
    "rope-resonance": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "factor": Between(1.0, 1, 1e15),
        "original_max_position_embeddings": Between(4096, 1, 2**53),
        "beta_fast": Above(32.0, 0),
        "beta_slow": Above(1.0, 0),
        "attention_factor": Between(None, 1e-06, 1e6),
        "truncate": Plain(True),
    },
    "rope-clipped": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "clipped": Between(20, 0, 32768),
        "clip": Choice("soft", "soft hard"),
    },
    "rope-axial": {
        "dim": Between(64, 1, 65536),
        "base": Above(None, 1),
        "layout": Choice(None, "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "grid": Between((14, 14), 1, 2**53),
        "convention": Choice(
            "pixtral",
            "pixtral qwen2-vl dinov3 gemma4 llama4 liere eva eva-pixels lucidrains-pixel wan "
            "hunyuan-video cogvideox flux2 hunyuan-image-3",
        ),
        "order": Choice(None, "hw wh"),
        "sections": Between(None, 1, 32768),
        "base_size": Between(None, 1, 2**53),
        "origin": Between(None, -(2**53), 2**53),
        "axes": Plain(None),
    },
    "rope-mixed": {
        "dim": Between(64, 1, 65536),
        "base": Above(10.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "grid": Between((14, 14), 1, 2**53),
        "x_frequencies": Between(None, -1e6, 1e6),
        "y_frequencies": Between(None, -1e6, 1e6),
        "seed": Between(0, 0, 2**64 - 1),
    },
    "mrope": {
        "dim": Between(128, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "sections": Between((16, 24, 24), 0, 32768),
        "interleaved": Plain(False),
        "order": Choice("thw", "thw hwt"),
        "axes": Plain(None),
    },
    "xpos": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
        "layout": Choice("interleaved", "interleaved half"),
        "partial": Above(1.0, 0, 1),
        "scale_base": Above(512.0, 0, 1e15),
        "side": Choice("query", "query key"),
        "convention": Choice("torchscale", "torchscale lucidrains"),
        "seq_len": Between(None, 1, 2**53 + 1),
    },
    "alibi": {
        "heads": Between(8, 1, 65536),
        "max_bias": Above(8.0, 0, 1024),
        "slopes": Choice("press", "press naive"),
        "form": Choice("symmetric", "symmetric mpt bloom"),
        "seq_len": Between(None, 1, 2**53 + 1),
    },
    "t5": {
        "heads": Between(8, 1, 65536),
        "num_buckets": Between(32, 2, 4096),
        "max_distance": Between(128, 2, 2**20),
        "bidirectional": Plain(True),
        "seed": Between(0, 0, 2**64 - 1),
        "weights": Plain(None),
    },
    "t5-clipped": {
        "heads": Between(8, 1, 65536),
        "max_distance": Between(128, 1, 2**30),
        "seed": Between(0, 0, 2**64 - 1),
        "weights": Plain(None),
    },
    "swin": {
        "heads": Between(8, 1, 65536),
        "window_size": Between((7, 7), 1, 32768),
        "class_token": Plain(False),
        "seed": Between(0, 0, 2**64 - 1),
        "weights": Plain(None),
    },
    "swin-v2": {
        "heads": Between(8, 1, 65536),
        "window_size": Between((8, 8), 1, 32768),
        "pretrained_window_size": Between(None, 1, 32768),
        "hidden": Between(512, 1, 65536),
        "seed": Between(0, 0, 2**64 - 1),
        "weights": Plain(None),
    },
    "kerple-log": {
        "heads": Between(8, 1, 65536),
        "r1": Above((1.0,), 0, 1e15),
        "r2": Above((0.5,), 0, 1e15),
    },
    "kerple-power": {
        "heads": Between(8, 1, 65536),
        "r1": Above((0.5,), 0, 1e15),
        "r2": Above((1.0,), 0, 2),
    },
    "sandwich": {
        "heads": Between(8, 1, 65536),
        "dim": Between(128, 2, 65536),
        "base": Above(10000.0, 1),
        "convention": Choice("sinusoidal", "sinusoidal nemo"),
    },
    "fire": {
        "heads": Between(8, 1, 65536),
        "hidden": Between(32, 1, 65536),
        "c": Above(0.1, 0, 1e15),
        "threshold": Above(512.0, 0, 1e15),
        "seed": Between(0, 0, 2**64 - 1),
        "weights": Plain(None),
    },
    "shaw": {
        "dim": Between(64, 1, 65536),
        "max_distance": Between(128, 1, 2**30),
        "seed": Between(0, 0, 2**64 - 1),
        "weights": Plain(None),
    },
    "transformer-xl": {
        "dim": Between(64, 1, 65536),
        "base": Above(10000.0, 1),
    },
}


CASES = [
    pytest.param(scheme, name, id=f"{scheme} {name}")
    for scheme, parameters in PROMISED.items()
    for name in parameters
]


def test_every_scheme_has_the_parameters_that_were_promised():
    found = {name: list(scheme.parameters) for name, scheme in BUILT_IN.items()}
    assert found == {name: list(parameters) for name, parameters in PROMISED.items()}


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "name"), CASES)
def test_a_parameter_has_the_default_and_takes_what_was_promised(scheme, name):
    parameter, promised = BUILT_IN[scheme].parameters[name], PROMISED[scheme][name]
    assert parameter.required == (promised.default is REQUIRED)
    if not parameter.required:
        assert parameter.default == promised.default
        assert type(parameter.default) is type(promised.default)
    if isinstance(promised, Choice):
        assert parameter.choices == tuple(promised.words.split())
        return
    assert parameter.choices == ()
    taken, refused = ends(parameter, promised)
    for value in taken:
        assert parameter.value(value) in (value, (value,))
    for value in refused:
        with pytest.raises(InvalidInput, match=parameter.flag):
            parameter.value(value)


def ends(parameter: Any, promised: Any) -> tuple[list[Any], list[Any]]:
    """Numbers at the ends of a range that are taken, and their neighbours, which are not."""
    if isinstance(promised, Plain):
        return [], []
    kind = parameter.type

    def next_to(value: float, direction: float) -> Any:
        return value + round(direction) if kind is int else math.nextafter(value, direction * 1e308)

    taken, refused = [], []
    if isinstance(promised, Between):
        taken.append(kind(promised.least))
        refused.append(next_to(kind(promised.least), -1))
    else:
        taken.append(next_to(kind(promised.limit), 1))
        refused.append(kind(promised.limit))
    if promised.most is None:
        taken.append(1.7976931348623157e308)
    else:
        taken.append(kind(promised.most))
        refused.append(next_to(kind(promised.most), 1))
    return taken, refused
