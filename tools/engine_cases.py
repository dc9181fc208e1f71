"""Fill in the cases of a golden by an engine that builds whole models: rotations, or an error.

Each case of ``tests/golden/engines_NAME.json`` is a config. The engine's own code builds the model,
and ``answered`` records the rotation of each layer.
"""

from __future__ import annotations

import copy
import json
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tools.engine_layers import main, packed
from tools.goldens import GOLDEN


class Turned(NamedTuple):
    """The rotation of a layer of an engine.

    ``frequencies`` (pairs,) are in radians per position, or None if the layer does not rotate.
    ``seq_len`` is the sequence length, if the rotation depends on it.
    """

    layer: int
    frequencies: Any = None
    amplitude: float = 1.0
    layout: str = "half"
    seq_len: int | None = None


Reader = Callable[[dict[str, Any]], Iterable[Turned]]
"""Returns the rotations of the layers of a case."""


_ASKED = ("name", "engine", "config", "lengths")


def measured(cosines: Any, sines: Any) -> tuple[Any, float]:
    """Return frequencies (pairs,) and amplitude from the cosines and sines of position 1."""
    cosines, sines = np.asarray(cosines, np.float64), np.asarray(sines, np.float64)
    return np.arctan2(sines, cosines), float(np.hypot(cosines, sines)[0])


def answered(
    case: dict[str, Any], read: Reader, folder: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a case with the engine's answer, and the arrays of its layers by name.

    Raises: what ``read`` raises, except errors of the engine's own code under ``folder``.
    """
    asked = {key: case[key] for key in case if key in _ASKED}
    layers: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    try:
        turned = list(read(copy.deepcopy(case)))
    except Exception as error:  # an error of the engine is its answer
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
    """Return whether an error arose in an engine's code or below it, not in a tool."""
    places = [Path(frame.filename).resolve() for frame in traceback.extract_tb(error.__traceback__)]
    engine, tools = folder.resolve(), Path(__file__).resolve().parent
    sides = [place.is_relative_to(engine) for place in places if {engine, tools} & {*place.parents}]
    return bool(sides) and sides[-1]


def run(doc: str, name: str, reader: Callable[[Path], Reader]) -> int:
    """Fill in the golden of an engine or compare with it; ``reader`` returns what reads a case."""

    def remake(place: str, only: str) -> dict[str, bytes]:
        statement = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
        read = reader(Path(place))
        chosen = [case for case in statement["cases"] if only in case["name"]]
        found = [answered(case, read, Path(place)) for case in chosen]
        cases = [case for case, _ in found]
        if only:
            print(json.dumps(cases, indent=1))
            return {}
        arrays = {key: array for _, own in found for key, array in own.items()}
        return packed(name, statement, cases, arrays)

    return main(doc, f"the folder of the engine of {name}", remake)
