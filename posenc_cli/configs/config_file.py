"""The file of a config: one JSON object of bounded size."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from posenc_cli.configs.companions import check_text
from posenc_cli.errors import InvalidInput, Unavailable, abbreviated, quoted_name
from posenc_cli.files.gguf import MAGIC, GGUFHeader
from posenc_cli.transaction import STANDARD_INPUT, check_name, open_input

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "config.json"
_OF_ADAPTERS = "adapter_config.json"
_OF_MISTRAL = "params.json"
LARGEST_FILE = 8 << 20  # bytes; the largest config of a model is a thousandth of it


def read_config(path: str, *, flag: str | None = "--config") -> Mapping[str, Any] | GGUFHeader:
    """The JSON object in a file or a pipe, in the config.json of a folder, or in stdin (``-``).

    ``flag`` is the option that errors name, None where the path is an argument. Of a GGUF file
    it is its header.

    Raises: InvalidInput when it holds anything else; Unavailable when it cannot be read.
    """
    where = quoted_name(path) if flag is None else f"{flag} {quoted_name(path)}"
    try:
        content = _content(path, where)
        if isinstance(content, GGUFHeader):
            return content
        # NaN and Infinity, which Python's JSON writes, are refused where a number is read.
        found = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_object)
    except InvalidInput as error:
        raise InvalidInput(error.message.replace("the file", where, 1)) from error
    except RecursionError as error:
        raise InvalidInput(f"{where}: is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where}: is not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        check_text(where, error.doc)
        place = f"line {error.lineno} column {error.colno}"
        raise InvalidInput(f"{where}: is not JSON: {error.msg} ({place})") from error
    except ValueError as error:
        raise InvalidInput(f"{where}: holds a number of too many digits") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{where}: must hold a JSON object")
    return found


def _content(path: str, where: str) -> bytes | GGUFHeader:
    """The bytes of a config file or a pipe, or a GGUF header; of no device, which may never end."""
    check_name(path)
    try:
        if path == STANDARD_INPUT:
            return _read(open_input(path), path, where)
        file = Path(path)
        if file.is_dir():
            file = _of_folder(file, where)
        mode = file.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            raise InvalidInput("the file: is neither a regular file nor a pipe")
        with open_input(file) as config:
            return _read(config, str(file), where)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unavailable(f"{where}: {reason}") from error


def _of_folder(folder: Path, where: str) -> Path:
    """The config in a folder, or another program's, which is refused as what it is."""
    for name in (FILE, _OF_ADAPTERS, _OF_MISTRAL):
        if (folder / name).exists():
            return folder / name
    raise Unavailable(f"{where}: is a folder without a {FILE}")


def _read(file: BinaryIO, path: str, where: str) -> bytes | GGUFHeader:
    """The bytes of an open config, or the header of what begins, or is named, as a GGUF file."""
    ahead = file.read(len(MAGIC))
    if ahead != MAGIC and not path.lower().endswith(".gguf"):
        content = ahead + file.read(LARGEST_FILE + 1 - len(ahead))
        if len(content) > LARGEST_FILE:
            raise InvalidInput(f"the file: is larger than {LARGEST_FILE >> 20} MiB")
        return content
    from posenc_cli.configs.gguf.gguf_file import read_gguf_model

    status = os.fstat(file.fileno())
    regular = stat.S_ISREG(status.st_mode) and path != STANDARD_INPUT
    size = status.st_size if regular else None
    return read_gguf_model(file, path, size=size, name=where, ahead=ahead)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object each of whose keys stands there once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = Counter(key for key, _ in pairs)
        twice = next(key for key, count in names.items() if count > 1)
        raise InvalidInput(f"the file: duplicate key {abbreviated(twice)}")
    return found
