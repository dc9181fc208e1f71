"""The files of a checkpoint: one file, a folder, or the shards of an index."""

from __future__ import annotations

from pathlib import Path

from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.transaction import open_input

INDEX = ".safetensors.index.json"
_LARGEST_INDEX = 32 << 20  # bytes: about 200,000 tensors
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")
_UNPICKLE = (
    "convert it once: safetensors.torch.save_file(torch.load(FILE, weights_only=True), "
    "'model.safetensors')"
)


def checkpoint_files(given: str) -> list[str]:
    """Return the files that hold the tensors of a checkpoint, in order.

    Args:
        given: a file, the folder that holds a model's .safetensors files, or their index.

    Raises:
        InvalidInput: it holds pickles, or a malformed index.
        Unavailable: a folder or an index cannot be read.
    """
    path = Path(given)
    try:
        if path.is_dir():
            return _of_folder(path)
        if given.endswith(INDEX):
            return _of_index(path)
        known = path.exists()
    except OSError as error:
        raise Unavailable(f"cannot read {quoted_name(given)}: {error.strerror}") from None
    except ValueError:
        raise InvalidInput(
            f"no file can be named {quoted_name(given)}: it holds a NUL character"
        ) from None
    if known and path.suffix.lower() in _PICKLED:
        raise InvalidInput(
            f"{quoted_name(given)} is a pickled checkpoint by its name, and a pickle can run any "
            "code when it is read",
            hint=_UNPICKLE,
        )
    return [given]


def _of_folder(folder: Path) -> list[str]:
    files = sorted(folder.iterdir())
    indices = [file for file in files if file.name.endswith(INDEX)]
    if len(indices) == 1:
        return _of_index(indices[0])
    tensors = [str(file) for file in files if file.suffix == ".safetensors"]
    if tensors:
        return tensors
    pickled = next((file.name for file in files if file.suffix in _PICKLED), None)
    if pickled is None:
        raise InvalidInput(f"{quoted_name(str(folder))} is a folder without a .safetensors file")
    raise InvalidInput(
        f"{quoted_name(str(folder))} holds no .safetensors file, only pickles such as "
        f"{quoted_name(pickled)}, which can run any code when they are read",
        hint=_UNPICKLE,
    )


def _of_index(index: Path) -> list[str]:
    import json

    name = quoted_name(str(index))
    with open_input(index) as file:
        text = file.read(_LARGEST_INDEX + 1)
    if len(text) > _LARGEST_INDEX:
        raise InvalidInput(f"{name} is longer than {_LARGEST_INDEX} bytes, the most that are read")
    try:
        shards = sorted({*json.loads(text)["weight_map"].values()})
        plain = all(shard == Path(shard).name not in ("", "..") for shard in shards)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        plain = False
    if not plain:
        raise InvalidInput(
            f"{name} is not the index of a checkpoint: its weight_map names no files"
        )
    return [str(index.parent / shard) for shard in shards]
