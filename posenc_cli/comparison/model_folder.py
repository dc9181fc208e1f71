"""Files beside a config that concern positions: stored frequencies, lengths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_cli.comparison.stored_tensors import stored_names
from posenc_cli.configs.conclusions import Conclusion, ConclusionCode
from posenc_cli.configs.config_file import read_config
from posenc_cli.errors import PosencError
from posenc_cli.files.checkpoint import INDEX, checkpoint_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.configs.resolved import Resolved

GENERATION = "generation_config.json"


def folder_conclusions(path: str, resolved: Resolved) -> tuple[Conclusion, ...]:
    """What a model's folder says beside its config; nothing of a file.

    NumPy is imported only where frequencies are stored.
    """
    folder = Path(path)
    if not folder.is_dir():
        return ()
    return (*_generated(folder, resolved), *_stored(path, folder, resolved))


def _generated(folder: Path, resolved: Resolved) -> Iterator[Conclusion]:
    """That more positions are generated than the model takes."""
    place = folder / GENERATION
    if not place.is_file():
        return
    try:
        config = read_config(str(place), flag=None)
    except PosencError as error:
        reason = error.message.partition(": ")[2]
        yield Conclusion(ConclusionCode.NOT_READ, f"not read: {GENERATION} {reason}")
        return
    length = config.get("max_length") if isinstance(config, Mapping) else None
    stated = [group.derived.get("context") for group in resolved.layers]
    contexts = [context.value for context in stated if context is not None]
    if type(length) is int and contexts and length > max(contexts):
        text = f"{GENERATION}: max_length {length}, but the config states {max(contexts)} positions"
        yield Conclusion(ConclusionCode.CONTEXT, text, doubtful=True)


def _stored(path: str, folder: Path, resolved: Resolved) -> Iterator[Conclusion]:
    """Whether the frequencies that the checkpoint stores are those of the config."""
    if not any(file.name.endswith((".safetensors", INDEX)) for file in folder.iterdir()):
        return
    try:
        names = stored_names(checkpoint_files(path))
        if not names or not any(group.is_rotary for group in resolved.layers):
            return
        from posenc_cli.comparison.losses import Model
        from posenc_cli.comparison.stored_frequencies import compare_stored, stored_model

        result = compare_stored(Model(path, resolved), stored_model(path, names))
    except PosencError as error:
        yield Conclusion(ConclusionCode.NOT_READ, f"not read: the checkpoint: {error.message}")
        return
    of = f"the checkpoint stores frequencies ({names[0].name}"
    of += f" and {len(names) - 1} more)" if len(names) > 1 else ")"
    if result.ok:
        yield Conclusion(ConclusionCode.STORED, f"{of}, equal to those of the config")
        return
    lost = ", ".join(dict.fromkeys(loss.name for loss in result.losses))
    yield Conclusion(
        ConclusionCode.STORED, f"{of}, which differ from the config: {lost}", doubtful=True
    )
