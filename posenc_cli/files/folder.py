"""A folder that appears whole, or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_cli.errors import InvalidInput, PosencError, Unavailable, quoted_name
from posenc_cli.transaction import transaction

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def new_folder(path: str, *, option: str, last: str) -> Iterator[Path]:
    """A folder whose files stand at ``path`` if the run ends without an exception.

    Until then it has a dotted temporary name beside it. Where ``path`` is an empty folder, its
    files move there one by one, the one called ``last`` at the end; otherwise they appear at once.

    Raises: InvalidInput where ``path``, which ``option`` named, is a file or a folder that is not
        empty; Unavailable where it cannot be made.
    """
    place = f"{option} {quoted_name(path)}"
    if not path:
        raise InvalidInput(f"{option} '': the name is empty")
    with transaction() as files:
        with _unavailable(place):
            target = Path(os.path.realpath(path))
            _check_free(target, place)
            if not target.parent.is_dir():
                raise Unavailable(f"{place}: there is no folder {quoted_name(target.parent)}")
            temporary = files.temporary_beside(target)
            temporary.mkdir()
        try:
            yield temporary
        except PosencError as error:  # which nobody knows by that name
            inside, shown = (quoted_name(name)[1:-1] for name in (temporary, path))
            error.message = error.message.replace(inside, shown)
            raise

        def claim() -> None:
            with _unavailable(place):
                _check_free(target, place)
                if not target.exists():
                    temporary.rename(target)
                    return
                for file in sorted(temporary.iterdir(), key=lambda file: (file.name == last, file)):
                    file.rename(target / file.name)

        files.claim_at_end(claim)


def _check_free(target: Path, place: str) -> None:
    if target.is_dir():
        if any(target.iterdir()):
            raise InvalidInput(f"{place}: exists and is not empty", hint="name a new folder")
    elif target.exists():
        raise InvalidInput(f"{place}: is a file; it takes a folder", hint="name a new folder")


@contextlib.contextmanager
def _unavailable(place: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unavailable(f"{place}: {reason}") from error
