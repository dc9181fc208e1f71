"""Slopes in a JSON file."""

from __future__ import annotations

import json

from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.transaction import open_input

_LARGEST_JSON = 8 << 20  # three times the slopes of the most heads; a device never ends


def slopes_of_json(path: str) -> list[float]:
    """The slopes in what ``--json`` wrote, or in a list of numbers."""
    try:
        with open_input(path) as file:
            text = file.read(_LARGEST_JSON + 1)
        if len(text) > _LARGEST_JSON:
            raise InvalidInput(f"{quoted_name(path)}: is larger than {_LARGEST_JSON >> 20} MiB")
        document = json.loads(text)
        slopes = document["slopes"] if isinstance(document, dict) else document
        return [float(slope) for slope in slopes]
    except OSError as error:
        raise Unavailable(f"cannot read {quoted_name(path)}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"{quoted_name(path)}: holds no slopes as JSON") from error
