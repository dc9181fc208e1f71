"""Models beside each other, one of them a GGUF file or a checkpoint, as a user names them."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from posenc_cli.configs import library
from posenc_cli.configs.companions import is_drafter
from posenc_cli.configs.config import read_config, resolve
from posenc_cli.configs.config_file import FILE
from posenc_cli.configs.gguf.gguf_file import begins_a_gguf
from posenc_cli.configs.resolved import TRANSFORMERS
from posenc_cli.configs.scores import SCORES
from posenc_cli.errors import InvalidInput, PosencError, quoted_name
from posenc_cli.files.checkpoint import INDEX, checkpoint_files
from posenc_cli.files.gguf import GGUFHeader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.comparison.losses import Model

_LLAMA_CPP = "llama.cpp"


def models_of(names: tuple[str, str | None], runtimes: Sequence[str]) -> list[Model] | None:
    """A and B where one is a GGUF file, a checkpoint, or a model whose layers differ; else None.

    The other must be a model too; without a B, A is read as another engine does.

    Beside a GGUF file a config is read as llama.cpp reads it, where that is known and no engine is
    named.

    Raises: InvalidInput, Unavailable: one cannot be read.
    """
    a, b = names
    if b is None and not runtimes:
        return None
    both = (a, a if b is None else b)
    checkpoints = [_is_checkpoint(name) for name in both]
    others = [name for name, is_one in zip(both, checkpoints, strict=True) if not is_one]
    if not all(map(_is_model, others)):
        return None
    special = any(checkpoints) or any(map(_is_gguf, both)) or any(map(_is_drafter, both))
    if not special and not _are_told_by_name(both):
        return None
    models: list[Model] = []
    for key, name, runtime in zip("AB", both, engines_of(runtimes, alone=b is None), strict=True):
        try:
            if checkpoints[len(models)]:
                models.append(_checkpoint(name))
            elif any(map(_is_gguf, both)):
                models.append(_model(name, runtime))
            else:
                models.append(_model(name, runtime or TRANSFORMERS))
        except PosencError as error:
            error.message = f"{key}: {error.message}"
            raise
    return models


def _model(name: str, runtime: str | None) -> Model:
    from posenc_cli.comparison.losses import Model

    config = _config_of(name)
    if isinstance(config, GGUFHeader):
        return Model(name, resolve(config, runtime=runtime or TRANSFORMERS))
    if runtime is None:
        try:
            reading = resolve(config, runtime=_LLAMA_CPP, name=name, converted=False)
            return Model(name, reading, _LLAMA_CPP)
        except InvalidInput:  # what llama.cpp makes of it was not read, or is nothing
            runtime = TRANSFORMERS
    reading = resolve(config, runtime=runtime, name=name)
    return Model(name, reading, runtime, drafter=is_drafter(config))


def _are_told_by_name(names: Sequence[str]) -> bool:
    """Whether a model is no one rotation, or two scale, cap or temper scores otherwise."""
    from posenc_cli.comparison.losses import WITHOUT_ROTATION

    scores = []
    for name in names:
        try:
            layers = () if _is_pipe(name) else resolve(_config_of(name), name=name).layers
        except PosencError:  # which is told where it is read
            layers = ()
        if layers and (
            layers[0].scheme in WITHOUT_ROTATION or not all(map(layers[0].same_encoding, layers))
        ):
            return True
        told = [{key: group.derived.get(key) for key in SCORES} for group in layers]
        scores.append([[each and each.value for each in group.values()] for group in told])
    return all(scores) and scores[0] != scores[1]


def _config_of(name: str) -> Mapping[str, Any] | GGUFHeader:
    return library.find(name).config if name in library.names() else read_config(name, flag=None)


def _is_pipe(name: str) -> bool:
    """Whether a name is of what can be read but once."""
    return name == "-" or Path(name).is_fifo()


def _is_drafter(name: str) -> bool:
    """Whether a config that can be read is a drafter's; what cannot is told where it is read."""
    if name in library.names() or _is_pipe(name):
        return False
    try:
        config = read_config(name, flag=None)
    except PosencError:
        return False
    return not isinstance(config, GGUFHeader) and is_drafter(config)


def _checkpoint(name: str) -> Model:
    from posenc_cli.comparison.stored_frequencies import stored_model
    from posenc_cli.comparison.stored_tensors import stored_names

    names = stored_names(checkpoint_files(name))
    if not names:
        raise InvalidInput(
            f"{quoted_name(name)}: stores no frequencies: none of its tensors is an inv_freq of a "
            "text model",
            hint="posenc identify CHECKPOINT lists the tensors that hold positions",
        )
    return stored_model(name, names)


def _is_checkpoint(text: str) -> bool:
    """Whether a text names a .safetensors file, their index, or a folder of them with no config."""
    from posenc_cli.comparison.stored_tensors import stored_names

    place = Path(text)
    if text.endswith(INDEX):
        return True
    try:
        if place.is_dir():
            return not (place / FILE).exists() and bool(list(place.glob("*.safetensors")))
        is_file = place.suffix.lower() == ".safetensors" and place.is_file()
        return is_file and bool(stored_names([text]))  # and no array of numbers
    except (OSError, ValueError):
        return False


def _is_gguf(text: str) -> bool:
    try:
        return begins_a_gguf(text)
    except OSError:
        return False


def _is_model(text: str) -> bool:
    if _is_gguf(text) or text in library.names():
        return True
    return PurePath(text).suffix.lower() in (".json", ".gguf") or Path(text).is_dir()


def engines_of(names: Sequence[str], *, alone: bool) -> tuple[str | None, str | None]:
    """The engines of A and B; one name is for both, but of A alone for B."""
    if len(names) > 2:
        raise InvalidInput(f"--as {names[2]}: is a third engine; give at most two")
    if alone and not names:
        raise InvalidInput(
            "B is missing; give something to compare A with",
            hint="--as vllm compares how two engines read one config",
        )
    if alone and len(names) == 1:
        return TRANSFORMERS, names[0]
    return (names[0], names[-1]) if names else (None, None)
