"""The file of a GGUF model: header and frequency divisors, of all shards."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from posenc_cli.configs.gguf.gguf_architectures import FACTOR_TENSORS
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.gguf import MAGIC, GGUFHeader, read_gguf
from posenc_cli.records import replace
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.gguf)", re.DOTALL)
_MOST_SHARDS = 1024


def begins_a_gguf(path: str) -> bool:
    """Whether a regular file begins as GGUF files do.

    Raises: OSError where it cannot be read.
    """
    if not Path(path).is_file():
        return False
    with open_input(path) as content:
        return content.read(len(MAGIC)) == MAGIC


def read_gguf_model(
    file: BinaryIO, path: str, *, size: int | None, name: str, ahead: bytes
) -> GGUFHeader:
    """The header of a GGUF model that is open; of a shard, that of the whole model.

    ``size`` is None of a stream, whose other shards are not looked for. ``ahead`` are the bytes
    that were read already.

    Raises: InvalidInput where it is malformed, or a shard without the first.
    """
    header = read_gguf(file, name=name, size=size, asked=FACTOR_TENSORS, ahead=ahead)
    count = _stated(header, "split.count", most=_MOST_SHARDS)
    if count <= 1:
        return header
    number = _stated(header, "split.no", most=count - 1)
    if size is None:
        if number:
            raise InvalidInput(f"{name}: is shard {number + 1} of {count}; the first has the keys")
        return replace(header, absent=tuple(range(2, count + 1)))
    return _with_shards(header, path, name, number, count)


def _stated(header: GGUFHeader, key: str, *, most: int) -> int:
    """A whole number of the metadata, 0 where the key is absent.

    Raises: InvalidInput for anything else, or a number above the limit.
    """
    stated = header.metadata.get(key)
    if stated is None:
        return 0
    value = stated.value
    if type(value) is not int or not 0 <= value <= most:
        shown = value if type(value) is int else f"of type {stated.type}"
        raise InvalidInput(f"{header.name}: {key} {shown}: must be a whole number from 0 to {most}")
    return value


def _shards(path: str, count: int) -> Iterator[tuple[int, Path]]:
    """The names of all shards, as llama.cpp gives them; none where the name is no shard's."""
    match = _SHARD.fullmatch(path)
    if match is None or int(match[3]) != count:
        return
    for number in range(1, count + 1):
        yield number, Path(f"{match[1]}-{number:05d}-of-{count:05d}{match[4]}")


def _read(place: Path, name: str) -> GGUFHeader:
    with open_input(place) as file:
        size = os.fstat(file.fileno()).st_size
        beside = f"{name}, its shard {quoted_name(place.name)}"
        return read_gguf(file, name=beside, size=size, asked=FACTOR_TENSORS)


def _with_shards(header: GGUFHeader, path: str, name: str, own: int, count: int) -> GGUFHeader:
    """The first shard, which alone has the model's keys, with the tensors of those beside it."""
    places = dict(_shards(path, count))
    if own and not (1 in places and places[1].is_file()):
        raise InvalidInput(
            f"{name}: is shard {own + 1} of {count}, and the keys of the model stand in the "
            "first, which is not beside it"
        )
    first = _read(places[1], header.name) if own else header
    tensors, numbers, absent = dict(first.tensors), dict(first.numbers), []
    for number in range(2, count + 1):
        place = places.get(number)
        if place is None or not place.is_file():
            absent.append(number)
            continue
        shard = _read(place, name)
        tensors |= shard.tensors
        numbers |= shard.numbers
    return replace(first, name=name, tensors=tensors, numbers=numbers, absent=tuple(absent))
