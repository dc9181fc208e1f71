"""The file of a GGUF model: header and frequency divisors, of all shards.

Its metadata are read as llama.cpp reads them: each key has the type that it requires.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from posenc_cli.configs.gguf.gguf_architectures import FACTOR_TENSORS
from posenc_cli.configs.keys import broken_bound, printable
from posenc_cli.configs.resolved import Sourced
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.gguf import MAGIC, GGUFHeader, read_gguf
from posenc_cli.records import replace
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.configs.resolved import Notes

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
            raise InvalidInput(f"{name} is shard {number + 1} of {count}; the first has the keys")
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


def _shards(path: str, count: int) -> dict[int, Path]:
    """The names of all shards, as llama.cpp gives them; none where the name is no shard's."""
    match = _SHARD.fullmatch(path)
    if match is None or int(match[3]) != count:
        return {}
    numbers = range(1, count + 1)
    return {n: Path(f"{match[1]}-{n:05d}-of-{match[3]}{match[4]}") for n in numbers}


def _read(place: Path, name: str) -> GGUFHeader:
    with open_input(place) as file:
        size = os.fstat(file.fileno()).st_size
        beside = f"{name}, its shard {quoted_name(place.name)}"
        return read_gguf(file, name=beside, size=size, asked=FACTOR_TENSORS)


def _with_shards(header: GGUFHeader, path: str, name: str, own: int, count: int) -> GGUFHeader:
    """The first shard, which alone has the model's keys, with the tensors of those beside it."""
    places = _shards(path, count)
    if own and not (1 in places and places[1].is_file()):
        raise InvalidInput(
            f"{name} is shard {own + 1} of {count}, and the keys of the model stand in the "
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


_ROPE_LIKE = re.compile(
    r"rope|alibi|sliding_window|attention\.(?:scale|temperature_\w+)$|attn_logit_softcapping"
)
PLAIN = re.compile(r"\.rope\.(?:freq_base|dimension_count|scaling\.finetuned)$")
"""Keys that say nothing where no layer rotates, as of Granite 4's hybrids."""
_WHOLE = ("uint32", "int32")
WINDOW = "attention.sliding_window"
_QUIET = {
    "rope.scaling.finetuned": False,
    "rope.scaling.yarn_beta_fast": 32.0,
    "rope.scaling.yarn_beta_slow": 1.0,
    "rope.scaling.yarn_attn_factor": 1.0,
    "rope.scaling.yarn_ext_factor": 1.0,
    WINDOW: 0,
}
"""Keys that say nothing where they hold what llama.cpp takes anyway."""


class GGUFKeys:
    """The metadata of an architecture; None stands for a key that is absent."""

    def __init__(self, header: GGUFHeader, architecture: str, notes: Notes) -> None:
        self.header, self.architecture, self.notes = header, architecture, notes
        self.read: set[str] = set()

    def path(self, key: str) -> str:
        """The whole key."""
        return f"{self.architecture}.{key}"

    def missing(self, key: str) -> InvalidInput:
        """The error for a key without which llama.cpp loads no file."""
        return InvalidInput(
            f"{self.header.name}: {self.path(key)} is missing: llama.cpp does not load the file"
        )

    def default(self, key: str, value: Any, *, stated: Sourced | None = None) -> Sourced:
        """What llama.cpp takes where a key is absent, or ``stated`` is 0."""
        why = "key absent" if stated is None else "key is 0"
        return Sourced(value, f"DEFAULT: {why} ({self.path(key)})")

    def number(
        self, key: str, *, above: float | None = 0, minimum: float | None = None
    ) -> Sourced | None:
        """A float32.

        Raises: InvalidInput for anything else, or one out of bounds.
        """
        stated = self.of_type(key, "float32")
        if stated is not None and (rule := broken_bound(stated.value, above, minimum)):
            raise self._invalid(key, stated.value, rule)
        return stated

    def count(self, key: str, *, minimum: int = 1) -> Sourced | None:
        """A uint32; an array of them is none.

        Raises: InvalidInput for a number of another type, or one below the minimum.
        """
        if self._is_array(key):
            return None
        stated = self.of_type(key, "uint32")
        if stated is not None and stated.value < minimum:
            raise self._invalid(key, stated.value, f"must be at least {minimum}")
        return stated

    def needed(self, key: str, *, minimum: int = 1) -> Sourced:
        """A uint32 that must be there.

        Raises: InvalidInput where it is not.
        """
        stated = self.count(key, minimum=minimum)
        if stated is None:
            raise self.missing(key)
        return stated

    def counts(self, key: str) -> Sourced | None:
        """A uint32, or an array of them, as a tuple.

        Raises: InvalidInput for anything else.
        """
        arrays = (f"array of {kind}" for kind in _WHOLE)
        stated = self.of_type(key, "uint32", *arrays)
        if stated is None:
            return None
        values = stated.value if isinstance(stated.value, tuple | list) else (stated.value,)
        if not values or min(values) < 0:
            raise self._invalid(key, list(values[:8]), "must be whole numbers from 0 on")
        return Sourced(tuple(values), stated.source)

    def flags(self, key: str) -> Sourced | None:
        """An array of booleans or of uint32, as a tuple; None for a single number."""
        if not self._is_array(key):
            return None
        stated = self.of_type(key, *(f"array of {kind}" for kind in ("bool", *_WHOLE)))
        return stated and Sourced(tuple(map(bool, stated.value)), stated.source)

    def unread(self, context: int) -> Iterator[str]:
        """The rope-like keys that nothing read, those of other architectures too."""
        own = f"{self.architecture}."
        for key, stated in self.header.metadata.items():
            name = key.removeprefix(own)
            if key in self.read or key.startswith(("general.", "tokenizer.", "split.")):
                continue
            quiet = name != key and name in _QUIET and _QUIET[name] == stated.value
            # Phi 4's window is its context or more, which leaves nothing out
            quiet |= name == WINDOW and type(stated.value) is int and stated.value >= context
            if _ROPE_LIKE.search(key) and not quiet:
                yield printable(key)

    def _is_array(self, key: str) -> bool:
        stated = self.header.metadata.get(self.path(key))
        return stated is not None and stated.type.startswith("array")

    def of_type(self, key: str, *kinds: str) -> Sourced | None:
        """A value of some types, whose number or text could be read.

        Raises: InvalidInput for one of another.
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
