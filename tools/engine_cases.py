"""Have an engine's own code fill in the cases of a golden: what it rotates by, or how it fails.

A golden ``tests/golden/engines_NAME.json`` asks: each case is a config. ``answered`` builds it by
the engine's code, as an iterable of :class:`Turned`, and writes down what each layer rotates by.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import io
import json
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tools.goldens import GOLDEN, laid_out


class Turned(NamedTuple):
    """What one layer of an engine rotates by; ``frequencies`` None where it does not rotate.

    ``frequencies`` (pairs,) in radians a position. ``seq_len`` is the length for which the engine
    was asked, where its rotation depends on that.
    """

    layer: int
    frequencies: Any = None
    amplitude: float = 1.0
    layout: str = "half"
    seq_len: int | None = None


Reader = Callable[[dict[str, Any]], Iterable[Turned]]
"""What asks an engine what it makes of a case."""


_ASKED = ("name", "engine", "config", "lengths")


def measured(cosines: Any, sines: Any) -> tuple[Any, float]:
    """Frequencies (pairs,) and amplitude by the cosines and sines of position 1."""
    cosines, sines = np.asarray(cosines, np.float64), np.asarray(sines, np.float64)
    return np.arctan2(sines, cosines), float(np.hypot(cosines, sines)[0])


def answered(
    case: dict[str, Any], read: Reader, folder: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A case with what the engine makes of it, and the arrays of its layers by their names.

    Raises: whatever ``read`` does, but where the engine's own code under ``folder`` fails.
    """
    asked = {key: case[key] for key in case if key in _ASKED}
    layers: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    try:
        turned = list(read(copy.deepcopy(case)))
    except Exception as error:  # whatever its own code fails by is its answer
        if not _of_engine(error, folder):
            raise
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        return {**asked, "fails": text[:200]}, {}
    for each in turned:
        if each.frequencies is None:
            layers.append({"layer": each.layer, "array": None})
            continue
        name = f"{case['name']}/{each.layer}" + (f"/{each.seq_len}" if each.seq_len else "")
        arrays[name] = np.asarray(each.frequencies, np.float64)
        layers.append(
            {
                "layer": each.layer,
                "array": name,
                "amplitude": each.amplitude,
                "layout": each.layout,
                **({"seq_len": each.seq_len} if each.seq_len else {}),
            }
        )
    return {**asked, "layers": layers}, arrays


def _of_engine(error: BaseException, folder: Path) -> bool:
    """Whether an error arose in an engine's code, or in what that called, not in a tool's."""
    places = [Path(frame.filename).resolve() for frame in traceback.extract_tb(error.__traceback__)]
    engine, tools = folder.resolve(), Path(__file__).resolve().parent
    sides = [place.is_relative_to(engine) for place in places if {engine, tools} & {*place.parents}]
    return bool(sides) and sides[-1]


def run(name: str, read: Reader, folder: Path, *, check: bool, only: str = "") -> int:
    """Fill in the golden of an engine, or say how it differs from what is there."""
    path = GOLDEN / f"{name}.json"
    statement = json.loads(path.read_text("utf-8"))
    cases: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for case in statement["cases"]:
        if only not in case["name"]:
            continue
        filled, more = answered(case, read, folder)
        cases.append(filled)
        arrays |= more
    if only:
        print(json.dumps(cases, indent=1))
        return 0
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    data = buffer.getvalue()
    summary = {"npz_sha256": hashlib.sha256(data).hexdigest()}
    text = laid_out({**statement, "cases": cases, **summary})
    if check:
        same = text == path.read_text("utf-8") and data == path.with_suffix(".npz").read_bytes()
        print("the same" if same else f"{path.name}: differs", file=sys.stderr)
        return not same
    path.write_text(text, "utf-8")
    path.with_suffix(".npz").write_bytes(data)
    return 0


def main(name: str, what: str, reader: Callable[[Path], Reader]) -> int:
    """``python -m tools.ENGINE FOLDER [--check]``: ``reader`` makes of FOLDER what reads a case."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="", help="print the cases whose names hold this")
    arguments = parser.parse_args()
    folder = arguments.folder
    return run(name, reader(folder), folder, check=arguments.check, only=arguments.only)
