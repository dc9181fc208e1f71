"""``posenc weights``: the tensors of a checkpoint that hold positions."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_cli.cli.console import Console
from posenc_cli.cli.options import Json
from posenc_cli.errors import printable_text, quoted_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.inference.tensors import PositionalTensor


def weights(
    console: Console,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="a checkpoint: .safetensors .gguf .npz .npy, a folder of .safetensors files, or "
            "an index of shards",
        ),
    ],
    as_json: Json = False,
) -> None:
    """List the position-related tensors of a checkpoint.

    posenc finds them by name and shape in the files' headers, without reading values. Each line has
    the command that inspects the tensor. Wherever posenc reads a file, FILE:TENSOR names one tensor
    of it: --in, --set weights=, --inv-freq, --tables.

    Examples:
      posenc weights model.safetensors
      posenc weights model.safetensors.index.json --json
      posenc heatmap --in model.safetensors:wpe.weight
    """
    from posenc_cli.files.checkpoint import checkpoint_files
    from posenc_cli.files.reading import read_headers
    from posenc_cli.inference.tensors import positional_tensors

    files = checkpoint_files(file)
    headers = {place: read_headers(place) for place in files}
    tensors = [tensor for place in files for tensor in positional_tensors(place, headers[place])]
    if as_json:
        console.json("weights", {"tensors": [tensor.as_dict() for tensor in tensors]})
        return
    count = sum(map(len, headers.values()))
    known = [tensor for tensor in tensors if tensor.kind is not None]
    for group in _groups(tensors):
        console.result(_text(group))
    if known:
        console.summary(f"{len(known)} of {count} tensors hold positions, by name and shape")
        if any(tensor.kind == "frequencies" for tensor in known):
            place = quoted_name(file)
            console.summary(
                f"posenc compare config.json {place} holds frequencies against a config"
            )
        return
    console.summary(
        f"none of {count} tensors holds positions, by name and shape; models with RoPE or ALiBi "
        "have none: posenc explain reads their config.json"
    )


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
    kind = first.kind or "not one"
    lines = [f"{first.name}{more}", f"  {kind}: {first.text}, {first.dtype}"]
    if first.command:
        lines.append(f"  {first.command}")
    return "\n".join(map(printable_text, lines))
