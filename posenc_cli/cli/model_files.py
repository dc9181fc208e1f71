"""Models beside each other, at least one of them a GGUF file, as a user names them."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from posenc_cli.configs import library
from posenc_cli.configs.config import read_config, resolve
from posenc_cli.configs.gguf_file import begins_a_gguf
from posenc_cli.configs.resolved import TRANSFORMERS
from posenc_cli.errors import InvalidInput, PosencError
from posenc_cli.files.gguf import GGUFHeader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.checks.losses import Model

_LLAMA_CPP = "llama.cpp"


def models_of(names: tuple[str, str | None], runtimes: Sequence[str]) -> list[Model] | None:
    """A and B where one is a GGUF file and the other a model too, None where they are not.

    A config is read as llama.cpp reads it, where that is known and no engine is named.

    Raises: InvalidInput, Unavailable: one cannot be read.
    """
    a, b = names
    if b is None or not any(map(_is_gguf, (a, b))) or not all(map(_is_model, (a, b))):
        return None
    models = []
    for key, name, runtime in zip("AB", (a, b), engines_of(runtimes, alone=False), strict=True):
        try:
            models.append(_model(name, runtime))
        except PosencError as error:
            error.message = f"{key}: {error.message}"
            raise
    return models


def _model(name: str, runtime: str | None) -> Model:
    from posenc_cli.checks.losses import Model, config_window

    config = library.find(name).config if name in library.names() else read_config(name, flag=None)
    if isinstance(config, GGUFHeader):
        return Model(name, resolve(config, runtime=runtime or TRANSFORMERS))
    window = config_window(config)
    if runtime is None:
        try:
            return Model(name, resolve(config, runtime=_LLAMA_CPP, name=name), _LLAMA_CPP, window)
        except InvalidInput:  # what llama.cpp makes of it was not read, or is nothing
            runtime = TRANSFORMERS
    return Model(name, resolve(config, runtime=runtime, name=name), runtime, window)


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
        raise InvalidInput(f"--as {names[2]}: is the third; there are but two sides")
    if alone and not names:
        raise InvalidInput(
            "B is missing: what A is to be compared with",
            hint="--as vllm compares what two engines make of one config",
        )
    if alone and len(names) == 1:
        return TRANSFORMERS, names[0]
    return (names[0], names[-1]) if names else (None, None)
