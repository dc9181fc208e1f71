"""The file of a GGUF model: header and frequency divisors of all shards.

Metadata are read as llama.cpp reads them: each key must have the type that llama.cpp requires.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from posenc_cli.configs.gguf.gguf_architectures import FACTOR_TENSORS
from posenc_cli.configs.keys import broken_bound, printable
from posenc_cli.configs.resolved import Notes, Sourced
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.gguf import MAGIC, GGUFHeader, read_gguf
from posenc_cli.records import replace
from posenc_cli.transaction import open_input

_SHARD = r"(?s)(.*)-(\d{5})-of-(\d{5})(\.gguf)"
_MOST_SHARDS = 1024


def is_gguf(path: str) -> bool:
    """Return whether a regular file begins like a GGUF file.

    Raises: OSError if it cannot be read.
    """
    if not Path(path).is_file():
        return False
    with open_input(path) as content:
        return content.read(len(MAGIC)) == MAGIC


def read_gguf_model(
    file: BinaryIO, path: str, *, size: int | None, name: str, ahead: bytes
) -> GGUFHeader:
    """Return the header of an open GGUF model; for a shard, that of the whole model.

    ``size`` is None for a stream; its other shards are not searched for. ``ahead`` are the bytes
    that were already read.

    Raises: InvalidInput if it is malformed, or is a shard without the first one.
    """
    header = read_gguf(file, name=name, size=size, asked=FACTOR_TENSORS, ahead=ahead)
    count = _metadata_count(header, "split.count", most=_MOST_SHARDS)
    if count <= 1:
        return header
    number = _metadata_count(header, "split.no", most=count - 1)
    if size is None:
        if number:
            raise InvalidInput(f"{name} is shard {number + 1} of {count}; the first has the keys")
        return replace(header, absent=tuple(range(2, count + 1)))
    return _with_shards(header, path, name, number, count)


def _metadata_count(header: GGUFHeader, key: str, *, most: int) -> int:
    """Return an integer of the metadata, or 0 if the key is absent.

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


def _shard_paths(path: str, count: int) -> dict[int, Path]:
    """Return the paths of all shards by number; empty if the name is not that of a shard."""
    match = re.fullmatch(_SHARD, path)
    if match is None or int(match[3]) != count:
        return {}
    numbers = range(1, count + 1)
    return {n: Path(f"{match[1]}-{n:05d}-of-{match[3]}{match[4]}") for n in numbers}


def _read_shard(place: Path, name: str) -> GGUFHeader:
    with open_input(place) as file:
        size = os.fstat(file.fileno()).st_size
        shard_name = f"{name}, its shard {quoted_name(place.name)}"
        return read_gguf(file, name=shard_name, size=size, asked=FACTOR_TENSORS)


def _with_shards(header: GGUFHeader, path: str, name: str, own: int, count: int) -> GGUFHeader:
    """Return the header of the first shard, which has the model's keys, with all shards' tensors.

    Raises: InvalidInput if the first shard is missing.
    """
    paths = _shard_paths(path, count)
    if own and not (1 in paths and paths[1].is_file()):
        raise InvalidInput(
            f"{name} is shard {own + 1} of {count}, and the keys of the model stand in the "
            "first, which is not beside it"
        )
    first = _read_shard(paths[1], header.name) if own else header
    tensors, numbers, absent = dict(first.tensors), dict(first.numbers), []
    for number in range(2, count + 1):
        place = paths.get(number)
        if place is None or not place.is_file():
            absent.append(number)
            continue
        shard = _read_shard(place, name)
        tensors |= shard.tensors
        numbers |= shard.numbers
    return replace(first, name=name, tensors=tensors, numbers=numbers, absent=tuple(absent))


_ROPE_LIKE = (
    r"rope|alibi|sliding_window|attention\.(?:scale|temperature_\w+)$|attn_logit_softcapping"
)
ONLY_WITH_ROTATION = (".rope.freq_base", ".rope.dimension_count", ".rope.scaling.finetuned")
"""Ends of keys without meaning if no layer rotates, as in Granite 4's hybrids."""
_INTEGERS = ("uint32", "int32")
WINDOW = "attention.sliding_window"
_DEFAULTS = {
    "rope.scaling.finetuned": False,
    "rope.scaling.yarn_beta_fast": 32.0,
    "rope.scaling.yarn_beta_slow": 1.0,
    "rope.scaling.yarn_attn_factor": 1.0,
    "rope.scaling.yarn_ext_factor": 1.0,
    WINDOW: 0,
}
"""Keys that mean nothing if they hold llama.cpp's default."""


class GGUFKeys:
    """The metadata of an architecture; values are None for absent keys."""

    def __init__(self, header: GGUFHeader, architecture: str, notes: Notes) -> None:
        self.header, self.architecture, self.notes = header, architecture, notes
        self.read: set[str] = set()

    def path(self, key: str) -> str:
        """Return the full key."""
        return f"{self.architecture}.{key}"

    def missing(self, key: str) -> InvalidInput:
        """Return the error for a missing key that llama.cpp requires."""
        return InvalidInput(
            f"{self.header.name}: {self.path(key)} is missing: llama.cpp does not load the file"
        )

    def default(self, key: str, value: Any, *, stated: Sourced | None = None) -> Sourced:
        """Return llama.cpp's default for a key that is absent, or whose value ``stated`` is 0."""
        why = "key absent" if stated is None else "key is 0"
        return Sourced(value, f"DEFAULT: {why} ({self.path(key)})")

    def number(
        self, key: str, *, above: float | None = 0, minimum: float | None = None
    ) -> Sourced | None:
        """Return a float32.

        Raises: InvalidInput for another type, or a number out of bounds.
        """
        stated = self.of_type(key, "float32")
        if stated is not None and (rule := broken_bound(stated.value, above, minimum)):
            raise self._invalid(key, stated.value, rule)
        return stated

    def count(self, key: str, *, minimum: int = 1) -> Sourced | None:
        """Return a uint32, or None for an array of them.

        Raises: InvalidInput for another type, or a number below the minimum.
        """
        if self._is_array(key):
            return None
        stated = self.of_type(key, "uint32")
        if stated is not None and stated.value < minimum:
            raise self._invalid(key, stated.value, f"must be at least {minimum}")
        return stated

    def needed(self, key: str, *, minimum: int = 1) -> Sourced:
        """Return a required uint32.

        Raises: InvalidInput if it is missing.
        """
        stated = self.count(key, minimum=minimum)
        if stated is None:
            raise self.missing(key)
        return stated

    def counts(self, key: str) -> Sourced | None:
        """Return a uint32, or an array of them, as a tuple.

        Raises: InvalidInput for another type, or an empty array.
        """
        stated = self.of_type(key, "uint32", *(f"array of {kind}" for kind in _INTEGERS))
        if stated is None:
            return None
        values = stated.value if isinstance(stated.value, tuple | list) else (stated.value,)
        if not values or min(values) < 0:
            raise self._invalid(key, list(values[:8]), "must be whole numbers from 0 on")
        return Sourced(tuple(values), stated.source)

    def flags(self, key: str) -> Sourced | None:
        """Return an array as a tuple of booleans, or None for a single number.

        Raises: InvalidInput for an array of neither booleans nor integers.
        """
        if not self._is_array(key):
            return None
        stated = self.of_type(key, *(f"array of {kind}" for kind in ("bool", *_INTEGERS)))
        return stated and Sourced(tuple(map(bool, stated.value)), stated.source)

    def unread(self, context: int) -> Iterator[str]:
        """Yield the rope-like keys that nothing read, including those of other architectures."""
        own = f"{self.architecture}."
        for key, stated in self.header.metadata.items():
            name = key.removeprefix(own)
            if key in self.read or key.startswith(("general.", "tokenizer.", "split.")):
                continue
            meaningless = name != key and name in _DEFAULTS and _DEFAULTS[name] == stated.value
            # Phi 4's window is at least the context, so it excludes nothing.
            meaningless |= name == WINDOW and type(stated.value) is int and stated.value >= context
            if re.search(_ROPE_LIKE, key) and not meaningless:
                yield printable(key)

    def _is_array(self, key: str) -> bool:
        stated = self.header.metadata.get(self.path(key))
        return stated is not None and stated.type.startswith("array")

    def of_type(self, key: str, *kinds: str) -> Sourced | None:
        """Return a value that has one of some types.

        Raises: InvalidInput for another type, or a text that could not be read.
        """
        path = self.path(key)
        stated = self.header.metadata.get(path)
        if stated is None:
            return None
        self.read.add(path)
        if stated.value is None:
            raise InvalidInput(f"{self.header.name}: {path} is too long, or is not UTF-8 text")
        if stated.type not in kinds:
            raise InvalidInput(
                f"{self.header.name}: {path} is of type {stated.type}: llama.cpp takes "
                f"{' or '.join(kinds)} here, and does not load the file"
            )
        return Sourced(stated.value, path)

    def _invalid(self, key: str, value: object, rule: str) -> InvalidInput:
        return InvalidInput(f"{self.header.name}: {self.path(key)} {value}: {rule}")
