"""The operands of a comparison by name: a file, a scheme, a config or a model."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.choice import parameters_by_scheme
from posenc_cli.cli.options import one_of
from posenc_cli.comparison.compare import Side
from posenc_cli.configs import library
from posenc_cli.configs.config_file import FILE, is_drafter, read_config
from posenc_cli.configs.gguf.gguf_file import is_gguf
from posenc_cli.configs.resolved import TRANSFORMERS, WINDOWS, WINDOWS_UNREAD, Sourced
from posenc_cli.configs.rope_rules import softmax_multiplier
from posenc_cli.configs.scores import SCORES
from posenc_cli.errors import InvalidInput, PosencError, abbreviated, nearest, quoted_name
from posenc_cli.files.formats import formats_by_suffix
from posenc_cli.files.gguf import GGUFHeader
from posenc_cli.files.reading import read_array
from posenc_cli.files.safetensors import INDEX, checkpoint_files
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.cli.choosing import ParameterOptions
    from posenc_cli.comparison.losses import Model


_LLAMA_CPP = "llama.cpp"


def models_of(names: tuple[str, str | None], runtimes: Sequence[str]) -> list[Model] | None:
    """Return A and B as models, or None if they are compared as encodings.

    They are models if one is a GGUF file, a checkpoint, or a model whose layers differ, and the
    other is a model too. Without B, A is read as another engine reads it. Next to a GGUF file, a
    config is read as llama.cpp reads it if that is known and no engine is named.

    Raises: InvalidInput; Unavailable if one cannot be read.
    """
    a, b = names
    if b is None and not runtimes:
        return None
    both = (a, a if b is None else b)
    checkpoints = [_is_checkpoint(name) for name in both]
    others = [name for name, is_one in zip(both, checkpoints, strict=True) if not is_one]
    if not all(map(_is_model, others)):
        return None
    beside_gguf = any(map(_is_gguf, both))
    if not any(checkpoints) and not beside_gguf and not _are_told_by_name(both):
        return None
    models: list[Model] = []
    usual = None if beside_gguf else TRANSFORMERS
    engines = engines_of(runtimes, alone=b is None)
    for key, name, runtime, stored in zip("AB", both, engines, checkpoints, strict=True):
        try:
            models.append(_checkpoint(name) if stored else _model(name, runtime or usual))
        except PosencError as error:
            error.message = f"{key}: {error.message}"
            raise
    return models


def _model(name: str, runtime: str | None) -> Model:
    from posenc_cli.comparison.losses import Model
    from posenc_cli.configs.config import resolve

    config = _config_of(name)
    if isinstance(config, GGUFHeader):
        return Model(name, resolve(config, runtime=runtime or TRANSFORMERS))
    if runtime is None:
        try:
            return Model(
                name, resolve(config, runtime=_LLAMA_CPP, name=name, converted=False), _LLAMA_CPP
            )
        except InvalidInput:  # llama.cpp's reading is unknown, or it cannot read it
            runtime = TRANSFORMERS
    return Model(
        name, resolve(config, runtime=runtime, name=name), runtime, drafter=is_drafter(config)
    )


def _are_told_by_name(names: Sequence[str]) -> bool:
    """Return whether configs must be compared as models.

    That is if one is a drafter or does not use one rotation throughout, or if two differ in the
    scaling of scores or in windows.
    """
    from posenc_cli.comparison.losses import WITHOUT_ROTATION
    from posenc_cli.configs.config import resolve

    scores = []
    for name in names:
        if name == "-" or Path(name).is_fifo():  # can be read only once
            continue
        try:
            config = _config_of(name)
            if not isinstance(config, GGUFHeader) and is_drafter(config):
                return True
            layers = resolve(config, name=name).layers
        except PosencError:  # reported where it is read
            continue
        if layers and (
            layers[0].scheme in WITHOUT_ROTATION or not all(map(layers[0].same_encoding, layers))
        ):
            return True
        told = [[group.derived.get(key) for key in (*SCORES, *WINDOWS)] for group in layers]
        values = [[each and each.value for each in group] for group in told]
        scores.append([*values, [group.layers for group in layers if group.slides]])
    return len(scores) == len(names) and scores[0] != scores[1]


def _config_of(name: str) -> Mapping[str, Any] | GGUFHeader:
    if name in library.names() and not Path(name).exists():
        return library.find(name).config
    return read_config(name, flag=None)


def _checkpoint(name: str) -> Model:
    from posenc_cli.comparison.stored_frequencies import stored_model, stored_names

    names = stored_names(checkpoint_files(name))
    if not names:
        raise InvalidInput(
            f"{quoted_name(name)} stores no frequencies: none of its tensors is an inv_freq of a "
            "text model",
            hint="posenc identify CHECKPOINT lists the tensors that hold positions",
        )
    return stored_model(name, names)


def _is_checkpoint(text: str) -> bool:
    """Return whether a text names a .safetensors file, its index, or a folder without config."""
    from posenc_cli.comparison.stored_frequencies import stored_names

    place = Path(text)
    if text.endswith(INDEX):
        return True
    try:
        if place.is_dir():
            return not (place / FILE).exists() and bool(list(place.glob("*.safetensors")))
        is_file = place.suffix.lower() == ".safetensors" and place.is_file()
        return is_file and bool(stored_names([text]))  # not an array of numbers
    except (OSError, ValueError):
        return False


def _is_gguf(text: str) -> bool:
    try:
        return is_gguf(text)
    except OSError:
        return False


def _is_model(text: str) -> bool:
    return (
        _is_gguf(text)
        or text in library.names()
        or PurePath(text).suffix.lower() in (".json", ".gguf")
        or Path(text).is_dir()
    )


def engines_of(names: Sequence[str], *, alone: bool) -> tuple[str | None, str | None]:
    """Return the engines of A and B; one name applies to both, or to B if A is alone.

    Raises: InvalidInput if a name is unknown, or A is alone and no engine is named.
    """
    if names:
        from posenc_cli.configs.engines.runtimes import RUNTIMES

        names = [one_of("--as", name, RUNTIMES) for name in names]
    if len(names) > 2:
        raise InvalidInput(f"--as {names[2]} is a third engine; give at most two")
    if alone and not names:
        raise InvalidInput(
            "B is missing: name a second file, scheme, config or model",
            hint="--as vllm compares how two engines read one config",
        )
    if alone and len(names) == 1:
        return TRANSFORMERS, names[0]
    return (names[0], names[-1]) if names else (None, None)


def sides_of(
    names: tuple[str, str | None],
    *,
    runtimes: Sequence[str],
    layer_type: str | None,
    parameters: ParameterOptions,
) -> list[Side]:
    """Return A and B of a command line; without B, A as another engine reads it.

    Errors say which of the two they concern.

    Raises: InvalidInput, Unavailable.
    """
    a, b = names
    sides = []
    engines = engines_of(runtimes, alone=b is None)
    for key, name, runtime in zip("AB", (a, a if b is None else b), engines, strict=True):
        try:
            sides.append(_side(name, runtime, layer_type))
        except PosencError as error:
            error.message = f"{key}: {error.message}"
            raise
    sides = _with_parameters(sides, parameters)
    if layer_type and not any(side.layer_type for side in sides):
        raise InvalidInput(
            f"--layer-type {abbreviated(layer_type)}: neither A nor B has several layer types"
        )
    return sides


def _side(text: str, runtime: str | None, layer_type: str | None) -> Side:
    """Return the side that an operand names.

    A file of numbers is recognized by its suffix, also as ``path:member``. A .json file, a folder
    or a .gguf file is a config. Any other name is a model or a scheme, or else a file that is
    recognized by its content.

    Raises: InvalidInput if it does not exist; Unavailable if it cannot be read.
    """
    if not _is_array(text):
        if _is_model(text):
            return _side_of_config(text, _config_of(text), runtime, layer_type)
        named = text in catalogue.BUILT_IN or ":" in text or "+" in text or catalogue.is_own(text)
        if named or text in {plugin.name for plugin in catalogue.installed()}:
            _check_no_runtime(text, runtime)
            return Side(text, scheme=catalogue.find(text))
        if not Path(text).exists():
            known = [*catalogue.BUILT_IN, *library.names()]
            raise InvalidInput(
                f"{abbreviated(text)} is neither a file, nor a scheme, nor a model",
                hint=nearest(text, known) or "posenc schemes and posenc models list the names",
            )
    _check_no_runtime(text, runtime)
    return Side(text, loaded=read_array(text))


def _is_array(text: str) -> bool:
    if PurePath(text).suffix.lower() == ".gguf":
        return False  # a model; FILE:TENSOR names one of its tensors
    path, colon, _ = text.partition(":")
    suffixes = [PurePath(name).suffix.lower() for name in (text, path)[: 1 + bool(colon)]]
    return text == "-" or any(suffix in formats_by_suffix() for suffix in suffixes)


def _check_no_runtime(name: str, runtime: str | None) -> None:
    if runtime is not None:
        raise InvalidInput(f"--as reads a config or a model, and {abbreviated(name)} is neither")


def _side_of_config(
    name: str, config: Mapping[str, Any] | GGUFHeader, runtime: str | None, layer_type: str | None
) -> Side:
    from posenc_cli.configs.config import resolve

    resolved = resolve(config, runtime=runtime or TRANSFORMERS, name=name)
    alike = all(layers.layer_type is None for layers in resolved.layers)
    chosen = None if alike else layer_type
    layers = resolved.layer(chosen)
    unread = f"windows are not compared: {WINDOWS_UNREAD.format(runtime)}"
    return Side(
        name,
        scheme=catalogue.find(layers.scheme),
        given=layers.values(),
        runtime=runtime,
        sources={name: value.source for name, value in layers.params.items()},
        warnings=(*resolved.warnings, *[unread] * resolved.windows_unread),
        layer_type=chosen,
        softmax=layers.derived.get("softmax_multiplier"),
    )


def _with_parameters(sides: Sequence[Side], parameters: ParameterOptions) -> list[Side]:
    """Return the sides with the parameters of a command line: of both, or of one (``a.``, ``b.``).

    Raises: InvalidInput if neither side has a parameter, or it is given twice.
    """
    nothing = catalogue.find("nope")  # stands for a file, which has no parameters
    by_side = parameters_by_scheme([side.scheme or nothing for side in sides], parameters.given)
    return [
        replace(
            side,
            given={**side.given, **values},
            sources=side.sources and {**side.sources, **dict.fromkeys(values, "command line")},
            softmax=_softmax(side, {**side.given, **values}),
        )
        for side, values in zip(sides, by_side, strict=True)
    ]


def _softmax(side: Side, given: Mapping[str, Any]) -> Sourced | None:
    """Return the softmax multiplier for the parameters as given now."""
    factor, over_all = given.get("factor"), given.get("mscale_all_dim")
    if side.softmax is None or given == side.given or factor is None or over_all is None:
        return side.softmax

    return softmax_multiplier(float(factor), float(over_all))
