"""Ask llama.cpp's own converter which file it writes of a config.

Usage: python -m tools.llama_cpp_converter FOLDER [--check] [--only TEXT]

FOLDER is llama.cpp's source (its ``conversion`` and ``gguf-py``), beside torch and the version of
transformers that it pins. Its own classes read each config of tests/golden/llama_cpp_files.json and
write the metadata and the tensors that they make themselves; the vocabulary and the checkpoint's
weights are left out. The files go to llama_cpp_files.npz; ``--check`` compares.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import io
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from tools.engine_layers import finish
from tools.goldens import GOLDEN, laid_out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME = "llama_cpp_files"


def written(config: Mapping[str, Any]) -> bytes:
    """The file that the converter writes of a config.

    Raises: whatever it does.
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
    """A case with what the converter makes of it."""
    asked = {key: case[key] for key in ("name", "config")}
    try:
        content = written(case["config"])
    except Exception as error:  # whatever it fails by is its answer
        return {**asked, "fails": f"{type(error).__name__}: {error}".splitlines()[0][:160]}, None
    return {**asked, "array": case["name"]}, content


def remade(only: str = "") -> dict[str, bytes]:
    """The files of the golden, each case asked anew."""
    statement = json.loads((GOLDEN / f"{NAME}.json").read_text("utf-8"))
    cases: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for case in statement["cases"]:
        if only not in case["name"]:
            continue
        answer, content = answered(case)
        cases.append(answer)
        if content is not None:
            arrays[case["name"]] = np.frombuffer(content, np.uint8)
    if only:
        print(json.dumps(cases, indent=1))
        return {}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    content = buffer.getvalue()
    statement |= {"cases": cases, "npz_sha256": hashlib.sha256(content).hexdigest()}
    return {f"{NAME}.json": laid_out(statement).encode(), f"{NAME}.npz": content}


def main(arguments: Sequence[str]) -> int:
    """Ask the converter, and write or compare; the status is 1 where bytes differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="llama.cpp's source")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--only", default="", help="print the cases whose names hold this")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    sys.path[:0] = [str(options.folder / "gguf-py"), str(options.folder)]
    return finish(remade(options.only), check=options.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
