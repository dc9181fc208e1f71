"""``posenc identify CHECKPOINT``: the tensors of a checkpoint that hold positions."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING

from posenc_cli.errors import printable_text, quoted_name
from posenc_cli.render.reports.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.cli.console import Console
    from posenc_cli.inference.tensors import PositionalTensor

_SEVERAL = (".safetensors", ".npz")
"""The suffixes of files that may hold many tensors; of one tensor it is the array itself."""


def checkpoint_status(file: str, console: Console, *, as_json: bool) -> int | None:
    """Report the tensors of a checkpoint that hold positions, 1 where none does.

    They are found by name and shape in the headers, and no value is read. None for a ``file`` of
    one array.

    Raises: InvalidInput, Unavailable: it cannot be read.
    """
    from posenc_cli.files.checkpoint import checkpoint_files
    from posenc_cli.files.reading import read_headers
    from posenc_cli.inference.tensors import positional_tensors

    files = checkpoint_files(file)
    if files == [file] and PurePath(file).suffix.lower() not in _SEVERAL:
        return None
    headers = {place: read_headers(place) for place in files}
    count = sum(map(len, headers.values()))
    if files == [file] and count < 2:
        return None
    tensors = [tensor for place in files for tensor in positional_tensors(place, headers[place])]
    answer = _answer(tensors, count, quoted_name(file))
    if as_json:
        listed = {"tensors": [tensor.as_dict() for tensor in tensors]}
        console.json("identify", {**answer.fields(), **listed})
    else:
        lines = [answer.text(console.typesetter), *map(_text, _groups(tensors))]
        console.result("\n".join(lines))
    return 0 if answer.ok else 1


def _answer(tensors: Sequence[PositionalTensor], count: int, name: str) -> Answer:
    """How many tensors hold positions, and what to run next."""
    kinds = [tensor.kind for tensor in tensors if tensor.kind is not None]
    if not kinds:
        cause = "models with RoPE or ALiBi store none"
        step = "posenc explain config.json reads their settings"
        verdict = f"none of {count} tensors holds positions, by name and shape"
        return Answer(False, verdict, cause, next=step)
    step = "each command below looks at one of them"
    if "frequencies" in kinds:
        step = f"posenc compare config.json {name} compares the frequencies with a config"
    verdict = f"{len(kinds)} of {count} tensors hold positions, by name and shape"
    return Answer(True, verdict, next=step)


def _groups(tensors: Sequence[PositionalTensor]) -> list[list[PositionalTensor]]:
    """Tensors that differ in the numbers of their layers alone, together."""

    def likeness(tensor: PositionalTensor) -> tuple[object, ...]:
        return re.sub(r"\d+", "*", tensor.name), tensor.shape, tensor.dtype, tensor.kind

    places = {likeness(tensor): place for place, tensor in reversed([*enumerate(tensors)])}
    ordered = sorted(tensors, key=lambda tensor: places[likeness(tensor)])
    return [list(group) for _, group in groupby(ordered, likeness)]


def _text(group: Sequence[PositionalTensor]) -> str:
    """The first of some tensors that are alike: its name, what it is, and its command."""
    first = group[0]
    more = f", and {len(group) - 1} more like it" if len(group) > 1 else ""
    kind = first.kind or "shape does not fit its name"
    lines = [f"{first.name}{more}", f"  {kind}: {first.text}, {first.dtype}"]
    lines += [f"  {first.command}"] if first.command else []
    return "\n".join(map(printable_text, lines))
