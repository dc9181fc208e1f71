"""What a command compares, as a user names it: a file of numbers, a scheme, a config or a model."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.budget import COMPUTED_CELLS, check_size
from posenc_cli.cli.choosing import Choice
from posenc_cli.errors import InvalidInput, abbreviated, nearest, quoted_name
from posenc_cli.files.formats import READ_BY_SUFFIX
from posenc_cli.models import library
from posenc_cli.models.runtimes import TRANSFORMERS
from posenc_cli.numerics.dtypes import FLOAT32, FLOAT64, REAL_DTYPES
from posenc_cli.positions import Positions
from posenc_cli.records import Record, fresh, replace
from posenc_cli.schemes.parameters import flag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posenc_cli.checks.difference import Operand
    from posenc_cli.checks.lengths import LengthRule
    from posenc_cli.cli.choosing import ParameterOptions
    from posenc_cli.files.reading import Loaded
    from posenc_cli.models.resolved import Sourced
    from posenc_cli.numerics.dtypes import DType
    from posenc_cli.schemes.declare import Bound

_SIDES = ("a", "b")


class Side(Record):
    """One side of a comparison: an array that was read, or an encoding to compute.

    ``sources`` says of each parameter of a config's encoding where it comes from, ``layer_type``
    which of its layers were chosen, if they are of several types.
    """

    name: str
    loaded: Loaded | None = None
    choice: Choice | None = None
    runtime: str | None = None
    sources: Mapping[str, str] = fresh(dict)
    warnings: tuple[str, ...] = ()
    layer_type: str | None = None

    def bound(self, seq_len: int | None) -> Bound:
        """The encoding for a sequence of a length; one that was given stays."""
        from posenc_cli.encode.request import Encoding

        assert self.choice is not None
        return Encoding.of(self.choice.scheme, self.choice.given, seq_len=seq_len).bound

    @property
    def follows_length(self) -> bool:
        """Whether a parameter of the side follows the length of the sequence."""
        from posenc_cli.checks.lengths import depends_on_length

        choice = self.choice
        return choice is not None and depends_on_length(choice.scheme, choice.given)

    def length_rule(self) -> LengthRule:
        """At which lengths the frequencies of a rotation change; never where it is an array."""
        from posenc_cli.checks.lengths import LengthRule, length_rule

        if self.choice is None or self.choice.scheme.kind != "rotary":
            return LengthRule()
        return length_rule(self.choice.scheme, self.choice.given)

    @property
    def title(self) -> str:
        """What the side is, for a reader."""
        name = self.name if _is_name(self.name) else quoted_name(self.name)
        return name if self.runtime is None else f"{name} as {self.runtime}"


def side(text: str, *, runtime: str | None, layer_type: str | None) -> Side:
    """The side that an operand names.

    A file of numbers goes by its suffix, ``path:member`` included; a .json file or a folder is a
    config; any other name is that of a model or a scheme, and else that of a file whose content
    tells.

    Raises: InvalidInput, Unavailable: there is no such thing, or it cannot be read.
    """
    if _is_array(text):
        return _array(text, runtime)
    if PurePath(text).suffix.lower() == ".json" or Path(text).is_dir():
        from posenc_cli.models.config import read_config

        return _configured(text, read_config(text, flag=None), runtime, layer_type)
    if text in library.names():
        return _configured(text, library.find(text).config, runtime, layer_type)
    if not _is_scheme(text):
        if Path(text).exists():
            return _array(text, runtime)
        known = [*catalogue.BUILT_IN, *library.names()]
        raise InvalidInput(
            f"{abbreviated(text)}: is neither a file, nor a scheme, nor a model",
            hint=nearest(text, known) or "posenc schemes and posenc models list what there is",
        )
    if "+" in text:
        raise InvalidInput(
            f"{abbreviated(text)}: is several encodings, and one is compared",
            hint=f"compare its parts: {', '.join(text.split('+'))}"[:60],
        )
    _check_no_runtime(text, runtime)
    return Side(text, choice=Choice(catalogue.find(text), {}, None))


def with_parameters(sides: Sequence[Side], parameters: ParameterOptions) -> list[Side]:
    """The sides with the parameters that a command line gives both, or one as ``a.`` and ``b.``.

    A parameter for both goes to those that have it.

    Raises: InvalidInput for one that none has, or that is given twice.
    """
    given: list[dict[str, object]] = [{} for _ in sides]
    stated_once = [(name, value, flag(name)) for name, value in parameters.own.items()]
    settings = [(each.name, each.value, each.option) for each in parameters.settings or ()]
    for stated, value, option in [*stated_once, *settings]:
        prefix, dot, rest = stated.partition(".")
        of_one = bool(dot) and prefix in _SIDES
        name = rest if of_one else stated
        wanted = [_SIDES.index(prefix)] if of_one else range(len(sides))
        taking = [index for index in wanted if _has(sides[index], name)]
        if not taking:
            raise _unknown(sides, name, option)
        for index in taking:
            if name in given[index]:
                raise InvalidInput(f"{option}: {name} is given twice")
            given[index][name] = value
    return [_given(each, more) for each, more in zip(sides, given, strict=True)]


def _given(each: Side, more: Mapping[str, object]) -> Side:
    if each.choice is None or not more:
        return each
    choice = replace(each.choice, given={**each.choice.given, **more})
    sources = {**each.sources, **dict.fromkeys(more, "command line")}
    return replace(each, choice=choice, sources=sources if each.sources else {})


def _has(each: Side, name: str) -> bool:
    return each.choice is not None and name in each.choice.scheme.parameters


def _unknown(sides: Sequence[Side], name: str, option: str) -> InvalidInput:
    known = [
        parameter for each in sides if each.choice for parameter in each.choice.scheme.parameters
    ]
    return InvalidInput(
        f"{option}: neither of the two has a parameter {name!r}", hint=nearest(name, known)
    )


def _is_name(text: str) -> bool:
    return text in catalogue.BUILT_IN or text in library.names()


def _is_array(text: str) -> bool:
    path, colon, _ = text.partition(":")
    return (
        text == "-"
        or PurePath(text).suffix.lower() in READ_BY_SUFFIX
        or (bool(colon) and PurePath(path).suffix.lower() in READ_BY_SUFFIX)
    )


def _is_scheme(text: str) -> bool:
    if text in catalogue.BUILT_IN or ":" in text or "+" in text:
        return True
    return text in {each.name for each in catalogue.installed()}


def _array(path: str, runtime: str | None) -> Side:
    from posenc_cli.files.reading import read_array

    _check_no_runtime(path, runtime)
    return Side(path, loaded=read_array(path))


def _configured(
    name: str, config: Mapping[str, Any], runtime: str | None, layer_type: str | None
) -> Side:
    from posenc_cli.models.config import resolve

    resolved = resolve(config, runtime=runtime or TRANSFORMERS, name=name)
    alike = all(each.layer_type is None for each in resolved.layers)
    chosen = None if alike else layer_type
    layers = resolved.layer(chosen)
    params: Mapping[str, Sourced] = layers.params
    return Side(
        name,
        choice=Choice(
            catalogue.find(layers.scheme), {key: each.value for key, each in params.items()}, None
        ),
        runtime=runtime,
        sources={key: each.source for key, each in params.items()},
        warnings=resolved.warnings,
        layer_type=chosen,
    )


def _check_no_runtime(name: str, runtime: str | None) -> None:
    if runtime is not None:
        raise InvalidInput(f"--as {runtime}: {abbreviated(name)} is no config and no model")


def turns(each: Side) -> bool:
    """Whether the side is a rotary encoding, which has frequencies to compare."""
    return each.choice is not None and each.choice.scheme.kind == "rotary"


def layout_of(each: Side) -> str | None:
    """How a rotary side pairs columns."""
    if each.choice is None:
        return None
    layout: str | None = getattr(each.choice.encoding().bound.content, "layout", None)
    return layout


def positioned(sides: Sequence[Side], where: Positions | None, *, head: int | None) -> list[Side]:
    """The sides at the positions asked for, else at as many as the file among them holds."""
    placed = []
    for each, other in zip(sides, sides[::-1], strict=True):
        if each.choice is None:
            placed.append(each)
            continue
        at = where or _positions_of_file(each.choice, other.loaded, head=head)
        placed.append(replace(each, choice=replace(each.choice, positions=at)))
    return placed


def operand(
    each: Side, other: Side, *, table: str | None, head: int | None, dtype: DType | None
) -> Operand:
    """The array of a side, which is computed while it is compared unless it was read.

    What is computed is rounded to ``dtype``: by default to the number format of the other side's
    file, so that a right file differs in nothing, and float64 beside another encoding.

    Raises: InvalidInput when its parts do not go together.
    """
    from posenc_cli.checks.difference import Operand
    from posenc_cli.encode.precision import Precision
    from posenc_cli.encode.request import Request

    if each.choice is None:
        assert each.loaded is not None
        return Operand.of_array(each.loaded.values, each.loaded.dtype)
    stored = dtype or _format(other.loaded)
    request = Request(
        encoding=each.choice.encoding(),
        positions=each.choice.positions,
        precision=Precision.of(stored, None),
        table=table or _table(each.choice, other.loaded),
        head=head,
    )
    plan = request.plan()
    check_size(
        each.title, plan.values, COMPUTED_CELLS, "values", hint="--positions start:stop:step"
    )
    return Operand.of_matrix(plan.matrix(each.choice.engine(plan)))


def _positions_of_file(
    choice: Choice, loaded: Loaded | None, *, head: int | None
) -> Positions | None:
    if loaded is None or loaded.values.ndim == 1:
        return None
    rows = loaded.values.shape[-1 if choice.scheme.kind == "bias" and head is None else 0]
    if choice.scheme.kind == "relative":
        rows = (rows + 1) // 2
    return Positions.contiguous(0, rows)


def _table(choice: Choice, loaded: Loaded | None) -> str | None:
    """The rotary table that a file seems to hold, where its numbers tell."""
    if loaded is None or choice.scheme.kind != "rotary":
        return None
    if loaded.values.ndim == 1:
        return "inv-freq"
    return "complex" if loaded.values.dtype.kind == "c" else None


def _format(loaded: Loaded | None) -> DType:
    name = "float64" if loaded is None else loaded.dtype
    return {"complex64": FLOAT32, **REAL_DTYPES}.get(name, FLOAT64)
