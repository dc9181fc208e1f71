"""Record the files that llama.cpp's own converter writes for configs.

Usage: python -m tools.llama_cpp_converter FOLDER [--check] [--only TEXT]

FOLDER is llama.cpp's source (its ``conversion`` and ``gguf-py``), beside torch and the version of
transformers that it pins. Its own classes read each config of tests/golden/llama_cpp_files.json and
write the metadata and the tensors that they make themselves, without the vocabulary and the
checkpoint's weights. The files go to llama_cpp_files.npz; ``--check`` compares.
"""

import importlib
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tools.engine_layers import main, packed
from tools.goldens import GOLDEN

NAME = "llama_cpp_files"


def written(config: Mapping[str, Any]) -> bytes:
    """Return the file that the converter writes of a config.

    Raises: any error of the converter.
    """
    conversion = importlib.import_module("conversion")
    base = importlib.import_module("conversion.base")
    gguf = importlib.import_module("gguf")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
        settings = base.ModelBase.load_hparams(folder, False)
        kind = base.get_model_architecture(settings, base.ModelType.TEXT)
        own = conversion.get_model_class(kind)
        out = Path(place) / "model.gguf"
        model = own(folder, gguf.LlamaFileType.ALL_F32, out, eager=True)
        for name, tensor in model.generate_extra_tensors():
            model.gguf_writer.add_tensor(name, tensor.numpy())
        with mock.patch.object(own, "set_vocab"):
            model.prepare_metadata(vocab_only=False)
        model.gguf_writer.write_header_to_file(path=out)
        model.gguf_writer.write_kv_data_to_file()
        model.gguf_writer.write_tensors_to_file()
        model.gguf_writer.close()
        return out.read_bytes()


def answered(case: Mapping[str, Any]) -> tuple[dict[str, Any], bytes | None]:
    """Return a case with the converter's answer, and the bytes of the file."""
    asked = {key: case[key] for key in ("name", "config")}
    try:
        content = written(case["config"])
    except Exception as error:  # whatever it fails by is its answer
        return {**asked, "fails": f"{type(error).__name__}: {error}".splitlines()[0][:160]}, None
    return {**asked, "array": case["name"]}, content


def remade(folder: str, only: str) -> dict[str, bytes]:
    """Return the files of the golden, with a new answer for each case."""
    sys.path[:0] = [str(Path(folder) / "gguf-py"), folder]
    statement = json.loads((GOLDEN / f"{NAME}.json").read_text("utf-8"))
    found = [answered(case) for case in statement["cases"] if only in case["name"]]
    cases = [case for case, _ in found]
    if only:
        print(json.dumps(cases, indent=1))
        return {}
    arrays = {
        case["name"]: np.frombuffer(content, np.uint8)
        for case, content in found
        if content is not None
    }
    return packed(NAME, statement, cases, arrays)


if __name__ == "__main__":
    sys.exit(main(__doc__, remade))
