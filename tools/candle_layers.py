"""Record the rotations of candle's own model code, on a machine with rustc.

Usage: python -m tools.candle_layers FOLDER [--check]

FOLDER is candle's source. The lines of a model's file that compute its frequencies are compiled in
a small program. The fields that serde requires are read from the struct: a field without Option and
without a default must be present, and unknown keys are ignored. The function that the file calls
shows the layout. The answers go to tests/golden/engines_candle.json and .npz; ``--check`` compares
them with these files.
"""

import functools
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tools.engine_layers import Build, Turn, layer_tool

FILES = {"glm4": "glm4_new", "qwen3_moe": "qwen3"}
"""The file of a model type, if it has another name."""
SPEAKING = (
    *("hidden_size", "num_attention_heads", "head_dim", "rope_theta", "partial_rotary_factor"),
    "max_position_embeddings",
)
"""Fields that affect the rotation; others get small values."""
SCALING = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def source_of(folder: Path, kind: str) -> str:
    """Return the file of a model type."""
    name = FILES.get(kind, kind)
    return (folder / "candle-transformers/src/models" / f"{name}.rs").read_text("utf-8")


def fields_of(source: str) -> dict[str, tuple[str, bool]]:
    """Return the fields of a config about rotation: their types, and whether serde needs them."""
    found = re.search(r"pub struct (?:Llama)?Config \{(.*?)\n\}", source, re.DOTALL)
    assert found is not None
    fields = {}
    for attribute, name, kind in re.findall(
        r"((?:#\[serde\([^\n]*\)\]\s*)?)(?:pub )?(\w+): ([\w<>]+),", found[1]
    ):
        if name in SPEAKING:
            fields[name] = kind, "default" in attribute or kind.startswith("Option")
    return fields


def program_of(source: str) -> str:
    """Return a program that prints the frequencies for the fields in its arguments."""
    fields = fields_of(source)
    members = "".join(f"{name}: {kind}, " for name, (kind, _) in fields.items())
    made = "".join(
        f"{name}: given({place}).map(|x| x as {kind.removeprefix('Option<').rstrip('>')})"
        + ("" if kind.startswith("Option") else ".unwrap()")
        + ", "
        for place, (name, (kind, _)) in enumerate(fields.items(), 1)
    )
    method = re.search(r"(?:pub )?fn head_dim\(&self\) -> usize \{.*?\n    \}", source, re.DOTALL)
    if "fn calculate_default_inv_freq" in source:
        plain = re.search(r"fn calculate_default_inv_freq.*?\n\}", source, re.DOTALL)
        scaled = re.search(r"let low_freq_wavelen.*?\.collect::<Vec<_>>\(\)", source, re.DOTALL)
        assert plain is not None
        assert scaled is not None
        numbers = "".join(
            f"{name}: given({place}).unwrap() as {'usize' if 'max' in name else 'f32'}, "
            for place, name in enumerate(SCALING, 1 + len(fields))
        )
        own = (
            f"{plain[0]}\nstruct Scaling {{ factor: f32, low_freq_factor: f32, "
            "high_freq_factor: f32, original_max_position_embeddings: usize }\n"
            "fn inv_freq(config: &Config) -> Vec<f32> {\n"
            f"if given({1 + len(fields)}).is_none() {{ return calculate_default_inv_freq(config) }}"
            f"let rope_scaling = Scaling {{ {numbers} }};\n{scaled[0]}\n}}"
        )
    else:
        body = re.search(
            r"fn new\(\s*dtype: DType.*?Result<Self> \{(.*?collect\(\);)", source, re.S
        )
        assert body is not None
        own = f"fn inv_freq(cfg: &Config) -> Vec<f32> {{ {body[1]}\ninv_freq }}"
    return (
        "#![allow(unused, non_snake_case)]\nuse std::f32::consts::PI;\n"
        "fn given(n: usize) -> Option<f64> { "
        "std::env::args().nth(n).and_then(|text| text.parse().ok()) }\n"
        f"struct Config {{ {members} }}\nimpl Config {{ {method[0] if method else ''} }}\n{own}\n"
        f"fn main() {{ let config = Config {{ {made} }};\n"
        'for f in inv_freq(&config) { println!("{:?}", f); } }'
    )


def fails(message: str) -> None:
    """Raise serde's error for a config as the engine's answer, not as an error of this file."""
    exec(compile("raise ValueError(message)", "serde", "exec"), {"message": message})


@functools.cache
def compiled(source: str) -> Path:
    """Return the program of the file of a model type."""
    folder = Path(tempfile.mkdtemp())
    (folder / "main.rs").write_text(program_of(source), "utf-8")
    command = ["rustc", "--edition", "2021", "-o", str(folder / "main"), str(folder / "main.rs")]
    if subprocess.run(command, check=False).returncode:
        raise RuntimeError("the lines of a model's file do not compile alone")
    return folder / "main"


def turn(path: Path, values: dict[str, Any], _layer: int, _length: int | None) -> Turn:
    """Return the rotation of a layer."""
    source = source_of(path, values["model_type"])
    given = []
    for name, (type_name, optional) in fields_of(source).items():
        value = values.get(name)
        if value is None and (not optional or (name in values and "Option" not in type_name)):
            fails(f"missing field `{name}`" if name not in values else "invalid type: null")
        given.append("" if value is None else repr(value))
    if "rope_theta" not in values and "fn default_rope" in source:
        given[list(fields_of(source)).index("rope_theta")] = re.search(  # type: ignore[index]
            r"fn default_rope\(\) -> f32 \{\s*([\d_.]+)", source
        )[1].replace("_", "")
    scaling = values.get("rope_scaling") if "Llama3RopeConfig" in source else None
    if scaling is not None:
        for name in (*SCALING, "rope_type"):
            if scaling.get(name) is None:
                fails(f"missing field `{name}`")
        if scaling["rope_type"] not in ("llama3", "default"):
            fails(f"unknown variant `{scaling['rope_type']}`")
        if scaling["rope_type"] == "llama3":
            given += [repr(scaling[name]) for name in SCALING]
    told = subprocess.run([compiled(source), *given], check=True, capture_output=True, text=True)
    frequencies = np.array([np.float32(line) for line in told.stdout.split()], np.float64)
    layout = "interleaved" if re.search(r"rotary_emb::rope_i(?:_slow)?\(", source) else "half"
    return Turn(frequencies, 1.0, layout)


def install(folder: Path) -> Build:
    """Return the function that reads a layer by the code of a folder."""
    return functools.partial(turn, folder)


if __name__ == "__main__":
    sys.exit(layer_tool(__doc__, "engines_candle", install, "candle"))
