"""The files that an encoding is made of: a user's code, and tables that somebody trained."""

from __future__ import annotations

import hashlib
import shlex
import sys
from itertools import count
from typing import TYPE_CHECKING

from posenc_cli import catalogue
from posenc_cli.choice import LETTERS
from posenc_cli.errors import InvalidInput, abbreviated, quoted_name
from posenc_cli.formulas.parameters import as_text
from posenc_cli.transaction import open_input

if TYPE_CHECKING:
    from pathlib import Path

    from posenc_cli.experiments.request import EncodingRequest, ExperimentRequest
    from posenc_cli.formulas.declare import Scheme


def source_digest(request: EncodingRequest) -> str | None:
    """The SHA-256 of the code and the tables of an encoding, None where all of it is posenc's own.

    Raises: InvalidInput, Unavailable where one cannot be had.
    """
    parts = []
    for name, given in request.parts:
        scheme = catalogue.find(name)
        if scheme.origin is not None:
            parts.append(_code(scheme))
        if scheme.weights is not None and given.get("weights") is not None:
            from posenc_cli.encoding.weights import LoadedTable

            parts.append(LoadedTable.read(given["weights"], scheme.weights).values.tobytes())
    if not parts:
        return None
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def check_sources(request: EncodingRequest) -> None:
    """Refuse an encoding whose code or tables are others than when it was asked for.

    Raises: InvalidInput, Unavailable.
    """
    if source_digest(request) != request.digest:
        raise changed_source(request)


def changed_source(request: EncodingRequest) -> InvalidInput:
    """The error of an encoding whose code or tables have changed since its run began."""
    return InvalidInput(
        f"--scheme {request.label}: its code or its table has changed since the run began",
        hint="start a new run to use the files as they are now",
    )


def check_names_no_code(request: ExperimentRequest, place: Path) -> None:
    """Refuse code that the file ``place`` alone names: a file is data, and runs none.

    Raises: InvalidInput, whose hint repeats the encodings as options.
    """
    parts = [part for encoding in request.encodings for part in encoding.parts]
    code = [name for name, _ in parts if name not in catalogue.BUILT_IN]
    if code:
        raise InvalidInput(
            f"{quoted_name(place)}: names the code of a scheme, {abbreviated(code[0])}; "
            "--resume runs only code that the command line names too",
            hint=f"if you trust it, repeat {_as_options(request)}",
        )


def _as_options(request: ExperimentRequest) -> str:
    """The encodings of a request as options of a command line."""
    words, places = list[str](), count()
    for encoding in request.encodings:
        words += ["-s", encoding.name]
        for _, given in encoding.parts:
            place = next(places)
            own = f"{LETTERS[place : place + 1]}."
            words += [f"--set={own}{name}={as_text(value)}" for name, value in given.items()]
    return shlex.join(words)


def _code(scheme: Scheme) -> bytes:
    """The file that declares a scheme of a user's own, empty where there is none."""
    path = getattr(sys.modules.get(scheme.build.__module__), "__file__", None)
    if path is None:
        return b""
    with open_input(path) as file:
        return file.read()
