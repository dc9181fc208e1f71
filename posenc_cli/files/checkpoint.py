"""The files of a checkpoint: one, a folder's, or the shards that an index names."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from posenc_cli.errors import InvalidInput, Unavailable, quoted_name

_INDEX = ".safetensors.index.json"
_LARGEST_INDEX = 32 << 20  # bytes: some 200,000 tensors
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")
_UNPICKLE = (
    "convert it once: safetensors.torch.save_file(torch.load(FILE, weights_only=True), "
    "'model.safetensors')"
)


def checkpoint_files(path: str) -> list[str]:
    """The files that hold the tensors of a checkpoint, in order.

    Args:
        path: a file, the folder that holds a model's .safetensors files, or their index.

    Raises:
        InvalidInput: it holds pickles, a GGUF model or a malformed index.
        Unavailable: it cannot be read, or a shard is not there.
    """
    if Path(path).is_dir():
        return _of_folder(path)
    if path.endswith(_INDEX):
        return _of_index(path)
    suffix = PurePath(path).suffix.lower()
    if suffix in _PICKLED and Path(path).exists():
        raise InvalidInput(
            f"{quoted_name(path)} is a pickled checkpoint by its name, and a pickle can run any "
            "code when it is read",
            hint=_UNPICKLE,
        )
    if suffix == ".gguf" and Path(path).exists():
        raise InvalidInput(f"{quoted_name(path)} is a GGUF model, whose tensors posenc cannot list")
    return [path]


def _of_folder(path: str) -> list[str]:
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise Unavailable(f"cannot read {quoted_name(path)}: {error.strerror}") from None
    indices = [name for name in names if name.endswith(_INDEX)]
    if len(indices) == 1:
        return _of_index(os.path.join(path, indices[0]))
    tensors = [os.path.join(path, name) for name in names if name.endswith(".safetensors")]
    if tensors:
        return tensors
    pickled = next((name for name in names if name.endswith(_PICKLED)), None)
    if pickled is None:
        raise InvalidInput(f"{quoted_name(path)} is a folder without a .safetensors file")
    raise InvalidInput(
        f"{quoted_name(path)} holds no .safetensors file, only pickles as {quoted_name(pickled)}, "
        "which can run any code when they are read",
        hint=_UNPICKLE,
    )


def _of_index(path: str) -> list[str]:
    import json

    name = quoted_name(path)
    try:
        with open(path, "rb") as file:
            text = file.read(_LARGEST_INDEX + 1)
    except OSError as error:
        raise Unavailable(f"cannot read {name}: {error.strerror}") from None
    except ValueError:
        raise InvalidInput(f"no file can be named {name}: it holds a NUL character") from None
    if len(text) > _LARGEST_INDEX:
        raise InvalidInput(f"{name} is longer than {_LARGEST_INDEX} bytes, the most that are read")
    try:
        shards = sorted({*json.loads(text)["weight_map"].values()})
        plain = all(shard == os.path.basename(shard) not in ("", ".", "..") for shard in shards)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        plain = False
    if not plain:
        raise InvalidInput(f"{name} is no index of a checkpoint: its weight_map names no files")
    return [os.path.join(os.path.dirname(path), shard) for shard in shards]
