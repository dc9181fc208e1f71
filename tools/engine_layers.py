"""Write goldens of how an engine's own layers rotate. All tools that run an engine use this.

Such a golden has whole configs, each with the layers to build. The engine's own code builds a layer
from the config and rotates unit vectors at position 1.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import importlib
import io
import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tools.goldens import GOLDEN, laid_out

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Turn(NamedTuple):
    """The rotation of a layer: the frequency of each pair, in radians per position.

    ``layout`` is half or interleaved. ``axes`` has the position axis of each pair, if there are
    several.
    """

    frequencies: NDArray[np.float64]
    amplitude: float
    layout: str
    axes: str = ""


_TOOLS = Path(__file__).parent

Build = Callable[[dict[str, Any], int, int | None], Turn | None]
"""Returns the rotation of a layer by config, number and length; None if it does not rotate."""


def turn_of(rows: NDArray[np.floating[Any]]) -> Turn:
    """Return the rotation that rotated unit vectors (columns, columns) show, one for each column.

    Two columns are a pair if both are rotated into the same two. Unchanged columns are in no pair.
    """
    turned = np.asarray(rows, np.float64)
    columns: dict[tuple[int, ...], list[int]] = {}
    for column, row in enumerate(turned):
        columns.setdefault(tuple(map(int, np.flatnonzero(row))), []).append(column)
    frequencies, amplitudes, distances = [], [], []
    for (first, *others), (column, *partners) in columns.items():
        if not others and not partners:
            continue
        if len(others) != 1 or len(partners) != 1:
            raise ValueError(f"columns {column}, {partners} are rotated into {first}, {others}")
        frequencies.append(np.arctan2(turned[column, others[0]], turned[column, first]))
        amplitudes.append(np.hypot(turned[column, others[0]], turned[column, first]))
        distances.append(partners[0] - column)
    if len(set(distances)) != 1:
        raise ValueError(f"its pairs are {sorted(set(distances))} columns apart")
    layout = "interleaved" if distances[0] == 1 else "half"
    return Turn(np.array(frequencies), float(np.mean(amplitudes)), layout)


def axes_of(turned: Callable[[int], Any], pairs: int, layout: str) -> str:
    """Return the axis of each pair: the one whose position 1 rotates it.

    ``turned(axis)`` returns the rotated unit vectors (columns, columns).
    """
    axes, step = [""] * pairs, 2 if layout == "interleaved" else 1
    for axis in range(3):
        moved = np.count_nonzero(turned(axis)[: step * pairs : step], axis=1) > 1
        axes = [str(axis) if turns else found for found, turns in zip(axes, moved, strict=True)]
    return "".join(axes)


def turn_of_rotation(rotary: Any, length: int | None = None) -> Turn:
    """Return how a rotation of vLLM or sglang rotates unit vectors at position 1.

    ``length`` is the length of the batch, for rotations that choose their factors by it.
    """
    torch = importlib.import_module("torch")
    width = rotary.head_size
    vectors, positions = torch.eye(width), torch.ones(width, dtype=torch.long)
    if length is not None and hasattr(rotary, "long_short_cos_sin_cache"):
        vectors = torch.cat([vectors, vectors[:1]])
        positions = torch.cat([positions, torch.tensor([length - 1])])
    if type(rotary).__name__ == "DeepseekScalingRotaryEmbedding":
        vectors = vectors[:, None]
    turns = getattr(rotary, "forward_native", rotary.forward)

    def at(places: Any) -> Any:
        turned, _ = turns(places, vectors.clone(), vectors.clone())
        return turned.reshape(len(vectors), width)[:width].numpy()

    turn = turn_of(at(positions))
    if not getattr(rotary, "mrope_section", None):
        return turn

    def along(axis: int) -> Any:
        places = torch.zeros(3, width, dtype=torch.long)
        places[axis] = 1
        return at(places)

    return turn._replace(axes=axes_of(along, len(turn.frequencies), turn.layout))


def filled(case: dict[str, Any], build: Build) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a case with the engine's answer, and the arrays of the answer."""
    answered = {key: case[key] for key in ("name", "engine", "config")}
    arrays: dict[str, Any] = {}
    layers = []
    first = [{"layer": 0}]
    wanted = case.get("layers") or case.get("asked", first)
    for asked in wanted:
        length = asked.get("seq_len")
        try:
            turn = build(copy.deepcopy(case["config"]), asked["layer"], length)
        except Exception as error:  # whatever the engine raises is its answer
            if Path(traceback.extract_tb(error.__traceback__)[-1].filename).parent == _TOOLS:
                raise
            message = (str(error).splitlines() or [""])[0]
            answered |= {"fails": f"{type(error).__name__}: {message[:160]}"}
            return ({**answered, "asked": wanted} if wanted != first else answered), {}
        name = f"{case['name']}/{asked['layer']}" + (f"/{length}" if length else "")
        layer: dict[str, Any] = {"layer": asked["layer"], "array": None}
        if turn is not None:
            arrays[name] = turn.frequencies
            layer |= {"array": name, "amplitude": turn.amplitude, "layout": turn.layout}
            layer |= {"axes": turn.axes} if turn.axes else {}
        layers.append({**layer, "seq_len": length} if length else layer)
    return {**answered, "layers": layers}, arrays


def packed(
    name: str, statement: dict[str, Any], cases: list[Any], arrays: dict[str, Any]
) -> dict[str, bytes]:
    """Return the two files of a golden: its statement with the cases, and their arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    content = buffer.getvalue()
    whole = {**statement, "cases": cases, "npz_sha256": hashlib.sha256(content).hexdigest()}
    return {f"{name}.json": laid_out(whole).encode(), f"{name}.npz": content}


def remade(name: str, engine: str, build: Build, only: str = "") -> dict[str, bytes]:
    """Return the files of a golden, with new answers for the cases of one engine."""
    statement = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    archive = GOLDEN / f"{name}.npz"
    arrays: dict[str, Any] = {}
    if archive.exists():
        with np.load(archive) as stored:
            arrays = {key: stored[key] for key in stored}
    cases = []
    for asked in statement["cases"]:
        chosen = asked["engine"] == engine and only in asked["name"]
        case, own = filled(asked, build) if chosen else (asked, {})
        arrays |= own
        cases.append(case)
        if chosen and only:
            print(json.dumps(case, indent=1))
    if only:
        return {}
    same: dict[bytes, str] = {}  # equal arrays are kept once
    kept = {}
    for case in cases:
        for layer in case.get("layers", ()):
            if (key := layer.get("array")) is not None:
                layer["array"] = same.setdefault(arrays[key].tobytes(), key)
                kept[layer["array"]] = arrays[key]
    return packed(name, statement, cases, dict(sorted(kept.items())))


def finish(files: dict[str, bytes], *, check: bool) -> int:
    """Write the files that differ, or with ``check`` only name them; return 1 then."""
    differs = [name for name, new in files.items() if _differs(name, new)]
    for name in differs:
        print(f"{name}: {'differs' if check else 'written'}")
        if not check:
            (GOLDEN / name).write_bytes(files[name])
    return 1 if check and differs else 0


def _differs(name: str, new: bytes) -> bool:
    file = GOLDEN / name
    return not file.exists() or file.read_bytes() != new


def main(doc: str, place: str, remake: Callable[[str, str], dict[str, bytes]]) -> int:
    """Run an engine, and write its golden or compare with it; return 1 if bytes differ.

    ``place`` describes the argument, where the engine is. ``remake`` gets it and the text of
    ``--only``, and returns the files of the golden.
    """
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("place", help=place)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--only", default="", help="print the cases whose names contain this text")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    return finish(remake(options.place, options.only), check=options.check)
