"""Modules of transformers, whose classes are made with the config that names the reference."""

import json
import textwrap

import pytest

import posenc_cli as posenc

FAKE = """
class PretrainedConfig:
    def __init__(self, **fields):
        vars(self).update(fields)

    @classmethod
    def from_dict(cls, fields):
        return cls(**fields)

    def get_text_config(self):
        return getattr(self, "text_config", self)


class TextConfig(PretrainedConfig):
    pass


class OwnConfig(PretrainedConfig):
    max_position_embeddings = 4096


class Device:
    pass


class VisionConfig(PretrainedConfig):
    pass


class AutoConfig:
    @staticmethod
    def for_model(model_type, **fields):
        if model_type == "own":
            raise ValueError("Unrecognized model identifier")
        parts = {"text_config": TextConfig, "vision_config": VisionConfig}
        fields = {name: parts.get(name, dict)(**value) if name in parts else value
                  for name, value in fields.items()}
        return PretrainedConfig(model_type=model_type, **fields)
"""
PORT = """
from __future__ import annotations

import numpy as np
import transformers
from transformers import TextConfig, VisionConfig


class Rotary:
    def __init__(self, config: TextConfig, device=None):
        self.base, self.dim = config.rope_theta, config.hidden_size // config.num_attention_heads

    def __call__(self, x, position_ids):
        rates = self.base ** (-np.arange(0, self.dim, 2) / self.dim)
        angles = np.tile(np.asarray(position_ids)[..., None] * rates, 2)
        return np.cos(angles), np.sin(angles)


class Unannotated(Rotary):
    def __init__(self, config):
        assert not isinstance(config, VisionConfig)
        super().__init__(config)


class Vision:
    def __init__(self, config: VisionConfig):
        raise ValueError(f"a config of {config.hidden_size}")


class ByTypes(Rotary):
    def __init__(self, settings: TextConfig, kind: np.dtype, place: transformers.Device):
        assert kind == np.float32
        super().__init__(settings)


class OtherBase(Rotary):
    def __init__(self, config: TextConfig):
        super().__init__(config)
        self.base = 10000.0


class OfItsOwnConfig(Rotary):  # transformers' classes have the type itself for an annotation
    def __init__(self, config):
        assert config.max_position_embeddings
        super().__init__(config)


OfItsOwnConfig.__init__.__annotations__["config"] = transformers.OwnConfig
"""
TEXT = {"hidden_size": 256, "num_attention_heads": 4, "rope_theta": 500000.0}


@pytest.fixture
def made(tmp_path, monkeypatch, call):
    (tmp_path / "transformers.py").write_text(FAKE)
    (tmp_path / "port.py").write_text(PORT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(name, config):
        (tmp_path / "config.json").write_text(json.dumps(config))
        how = () if config is None else ("--config", "config.json")
        return call("rope-check", *(how or ("-s", "rope")), "-l", "64", "--impl", name, "--json")

    return run


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("Rotary", {"model_type": "llama", **TEXT}),
        ("Unannotated", {"model_type": "llama", **TEXT}),
        ("Rotary", {"model_type": "mistral3", "text_config": {"model_type": "mistral", **TEXT},
                    "vision_config": {"model_type": "pixtral", "hidden_size": 7}}),
        ("Unannotated", {"model_type": "mistral3", "text_config": {"model_type": "mistral", **TEXT},
                         "vision_config": {"model_type": "pixtral", "hidden_size": 7}}),
    ],
)  # fmt: skip
def test_a_class_is_made_with_the_config_of_the_reference(name, config, made):
    status, out, err = made(f"./port.py:{name}", config)
    assert status == 0, err
    assert f"an object of {name}(config=…)" in " ".join(json.loads(out)["notes"])
    status, out, _ = made("./port.py:OtherBase", config)
    assert (status, json.loads(out)["diagnosis"][0]["cause"]) == (1, "base")


@pytest.mark.long
def test_a_class_says_of_which_config_a_model_type_is_that_transformers_does_not_know(made):
    """As Kimi K2's is DeepSeek V3's, with the defaults of that."""
    status, _, err = made("./port.py:OfItsOwnConfig", {"model_type": "own", **TEXT})
    assert status == 0, err


@pytest.mark.long
def test_a_class_is_given_the_part_of_a_config_that_it_says_it_takes(made):
    config = {"model_type": "mistral3", "text_config": {"model_type": "mistral", **TEXT}}
    config["vision_config"] = {"model_type": "pixtral", "hidden_size": 7}
    status, _, err = made("./port.py:Vision", config)
    assert status == 2
    assert "raised ValueError: a config of 7" in err


@pytest.mark.long
def test_types_tell_what_parameters_are_for_whose_names_do_not(made):
    status, _, err = made("./port.py:ByTypes", {"model_type": "llama", **TEXT})
    assert status == 0, err
    status, _, err = made("./port.py:ByTypes", None)
    assert status == 2
    assert "is a class that needs settings" in err
    assert "--config FILE or --model NAME" in err


@pytest.mark.long
def test_without_a_config_one_line_says_what_is_missing(made):
    status, _, err = made("./port.py:Rotary", None)
    assert status == 2
    assert "is a class that needs config" in err
    assert "--config FILE or --model NAME" in err


@pytest.mark.long
@pytest.mark.parametrize(("base", "cause"), [("cfg.rope_theta", None), ("10000.0", "base")])
def test_without_transformers_a_config_has_the_fields_of_its_file(base, cause, made, tmp_path):
    (tmp_path / "own.py").write_text(
        textwrap.dedent(f"""
            import numpy as np

            class Rotary:
                def __init__(self, cfg):
                    self.base, dim = {base}, cfg.hidden_size // cfg.num_attention_heads
                    self.rates = self.base ** (-np.arange(0, dim, 2) / dim)

                def __call__(self, positions):
                    angles = np.tile(np.multiply.outer(positions, self.rates), 2)
                    return np.cos(angles), np.sin(angles)
        """)
    )
    status, out, err = made("./own.py:Rotary", {"model_type": "llama", **TEXT})
    assert status == int(cause is not None), err
    assert [each["cause"] for each in json.loads(out)["diagnosis"]] == [cause] * status


MODULES = {
    "qwen3-vl": ("qwen3_vl.modeling_qwen3_vl", "Qwen3VLTextRotaryEmbedding"),
    "qwen2-vl": ("qwen2_vl.modeling_qwen2_vl", "Qwen2VLRotaryEmbedding"),
    "glm-4v": ("glm4v.modeling_glm4v", "Glm4vTextRotaryEmbedding"),
}
CONFIGS = {
    "qwen3-vl": {
        "model_type": "qwen3_vl_text",
        "hidden_size": 2560,
        "num_attention_heads": 32,
        "head_dim": 128,
        "rope_theta": 5e6,
        "max_position_embeddings": 4096,
        "rope_scaling": {
            "rope_type": "default",
            "mrope_interleaved": True,
            "mrope_section": [24, 20, 20],
        },
    },
    "qwen2-vl": {
        "model_type": "qwen2_vl_text",
        "hidden_size": 3584,
        "num_attention_heads": 28,
        "rope_theta": 1e6,
        "max_position_embeddings": 4096,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    },
    "glm-4v": {
        "model_type": "glm4v_text",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "rope_theta": 1e4,
        "max_position_embeddings": 4096,
        "partial_rotary_factor": 0.5,
        "rope_scaling": {"rope_type": "default", "mrope_section": [8, 12, 12]},
    },
}
SWAPPED = """
from transformers.models.{module} import {name} as Right


class Swapped(Right):
    def __init__(self, config):
        super().__init__(config)

    def forward(self, x, position_ids):
        return super().forward(x, position_ids[[0, 2, 1]])
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", list(MODULES))
def test_modules_of_transformers_are_right_and_wrong_with_their_axes_swapped(model, tmp_path, call):
    pytest.importorskip("transformers", reason="transformers is not installed")
    module, name = MODULES[model]
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[model]))
    (tmp_path / "swapped.py").write_text(SWAPPED.format(module=module, name=name))
    how = ("rope-check", "--config", f"{tmp_path}/config.json", "--json", "--impl")
    status, out, err = call(*how, f"transformers.models.{module}:{name}")
    assert status == 0, err
    assert any("coordinates differ by axis" in note for note in json.loads(out)["notes"])
    status, out, _ = call(*how, f"{tmp_path}/swapped.py:Swapped")
    (why,) = json.loads(out)["diagnosis"]
    assert (status, why["cause"]) == (1, "axis")
    assert "axis 2 instead of axis 1, axis 1 instead of axis 2" in why["message"]


PATCHES = """
import transformers
from transformers.models.{module} import {name} as Right


class Rotary(Right):
    def __init__(self):
        super().__init__(transformers.AutoConfig.for_model("{model}").vision_config)


class Swapped(Rotary):
    def forward(self, x, position_ids):
        return super().forward(x, position_ids.flip(1))


right, swapped = Rotary(), Swapped()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "dim", "name"),
    [
        ("qwen2_vl", "80", "Qwen2VLVisionRotaryEmbedding"),
        ("qwen3_vl", "72", "Qwen3VLVisionRotaryEmbedding"),
        ("glm4v", "128", "Glm4vVisionRotaryEmbedding"),
    ],
)
def test_vision_modules_of_transformers_are_given_rows_and_columns(
    model, dim, name, tmp_path, call
):
    pytest.importorskip("transformers", reason="transformers is not installed")
    (tmp_path / "patches.py").write_text(
        PATCHES.format(module=f"{model}.modeling_{model}", name=name, model=model)
    )
    how = ("-s", "rope-axial", "-d", dim, "--set", "convention=qwen2-vl", "--set", "grid=6x10")
    given = ("rope-check", *how, "--json", "--impl")
    status, out, err = call(*given, f"{tmp_path}/patches.py:right")
    assert (status, json.loads(out or "{}").get("not_checked")) == (0, None), out + err
    status, out, _ = call(*given, f"{tmp_path}/patches.py:swapped")
    assert (status, json.loads(out)["diagnosis"][0]["cause"]) == (1, "axis")


@pytest.mark.long
@pytest.mark.usefixtures("made")
def test_a_config_that_python_holds_is_sent_as_a_file_would_have_it(tmp_path):
    """A config in memory has dtypes of torch, which no file has."""

    class Dtype:
        def __str__(self):
            return "torch.bfloat16"

    (tmp_path / "port.py").write_text(PORT)
    config = {"model_type": "llama", **TEXT, "torch_dtype": Dtype()}
    assert posenc.rope_check(config, impl="./port.py:Rotary", positions=64).ok
