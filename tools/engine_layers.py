"""Write goldens of how an engine's own layers rotate. All tools that run an engine use this.

Such a golden has whole configs. The engine's own code builds the layers that a case asks for, or
the whole model. Its rotations of unit vectors at position 1, or its error, are the answer.
"""

import argparse
import copy
import hashlib
import importlib
import io
import json
import logging
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tools.goldens import GOLDEN, laid_out


class Turn(NamedTuple):
    """The rotation of a layer: the frequency of each pair, in radians per position.

    ``layout`` is half or interleaved. ``axes`` has the position axis of each pair, if there are
    several.
    """

    frequencies: NDArray[np.float64]
    amplitude: float
    layout: str
    axes: str = ""


_TOOLS = Path(__file__).resolve().parent

Case = dict[str, Any]
Layer = tuple[int, int | None, Turn | None]
"""A layer's number, the length that its rotation depends on, if any, and its rotation, if any."""
Read = Callable[[Case], Iterable[Layer]]
"""Returns the layers of a case."""
Build = Callable[[Case, int, int | None], Turn | None]
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


def measured(cosines: Any, sines: Any) -> tuple[NDArray[np.float64], float]:
    """Return frequencies (pairs,) and amplitude from the cosines and sines of position 1."""
    cosines, sines = np.asarray(cosines, np.float64), np.asarray(sines, np.float64)
    return np.arctan2(sines, cosines), float(np.hypot(cosines, sines)[0])


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


def by_layer(build: Build) -> Read:
    """Return a function that reads the layers that a case asks for, else the first."""

    def read(case: Case) -> Iterator[Layer]:
        for asked in _asked(case):
            number, length = asked["layer"], asked.get("seq_len")
            yield number, length, build(copy.deepcopy(case["config"]), number, length)

    return read


def _asked(case: Case) -> Any:
    return case.get("layers") or case.get("asked", [{"layer": 0}])


_STATED = ("name", "engine", "config", "lengths")
"""The keys of a case that no engine fills in."""


def answered(case: Case, read: Read, folder: Path | None = None) -> tuple[Case, dict[str, Any]]:
    """Return a case with the engine's answer, its layers or its error, and the arrays of layers.

    Raises: an error that arises in a tool, or outside the engine's ``folder``.
    """
    answer: Case = {key: case[key] for key in _STATED if key in case}
    arrays: dict[str, Any] = {}
    layers = []
    try:
        for number, length, turn in read(case):
            layer: Case = {"layer": number, "array": None}
            if turn is not None:
                name = f"{case['name']}/{number}" + (f"/{length}" if length else "")
                arrays[name] = turn.frequencies
                layer |= {"array": name, "amplitude": turn.amplitude, "layout": turn.layout}
                layer |= {"axes": turn.axes} if turn.axes else {}
            layers.append({**layer, "seq_len": length} if length else layer)
    except Exception as error:  # whatever the engine raises is its answer
        if not _is_answer(error, folder):
            raise
        message = (str(error).splitlines() or [""])[0]
        answer["fails"] = f"{type(error).__name__}: {message[:160]}"
        asked = _asked(case)
        return ({**answer, "asked": asked} if asked != [{"layer": 0}] else answer), {}
    return {**answer, "layers": layers}, arrays


def _is_answer(error: BaseException, folder: Path | None) -> bool:
    """Return whether an error arose in an engine's code or below it, not in a tool."""
    places = [Path(frame.filename).resolve() for frame in traceback.extract_tb(error.__traceback__)]
    if folder is None:
        return not places[-1].is_relative_to(_TOOLS)
    engine = folder.resolve()
    known = [place for place in places if {engine, _TOOLS} & {*place.parents}]
    return bool(known) and known[-1].is_relative_to(engine)


def packed(name: str, statement: Case, cases: list[Case], arrays: Case) -> dict[str, bytes]:
    """Return the two files of a golden: its statement with the cases, and their arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    content = buffer.getvalue()
    whole = {**statement, "cases": cases, "npz_sha256": hashlib.sha256(content).hexdigest()}
    return {f"{name}.json": laid_out(whole).encode(), f"{name}.npz": content}


def layer_tool(doc: str, name: str, install: Callable[[Path], Build], engine: str = "") -> int:
    """Renew the cases of one engine in a golden, or compare them; return 1 if bytes differ.

    ``install`` gets the place of the engine, which is also its name if no other is given.
    """

    def remake(place: str, only: str) -> dict[str, bytes]:
        statement, arrays = _stored(name)
        read = by_layer(install(Path(place)))
        cases = []
        for asked in statement["cases"]:
            chosen = asked["engine"] == (engine or place) and only in asked["name"]
            case, own = answered(asked, read) if chosen else (asked, {})
            arrays |= own
            cases.append(case)
            if chosen and only:
                print(json.dumps(case, indent=1))
        return {} if only else packed(name, statement, cases, _kept_once(cases, arrays))

    return main(doc, remake)


def _kept_once(cases: list[Case], arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of cases, equal ones once, and name that one in the cases."""
    same: dict[bytes, str] = {}
    kept = {}
    for case in cases:
        for layer in case.get("layers", ()):
            if (key := layer.get("array")) is not None:
                layer["array"] = same.setdefault(arrays[key].tobytes(), key)
                kept[layer["array"]] = arrays[key]
    return dict(sorted(kept.items()))


def model_tool(doc: str, name: str, reader: Callable[[Path], Read]) -> int:
    """Fill in a golden by an engine that builds whole models, or compare; return 1 if bytes differ.

    ``reader`` gets the folder of the engine.
    """

    def remake(place: str, only: str) -> dict[str, bytes]:
        statement, _ = _stored(name)
        read = reader(Path(place))
        chosen = [case for case in statement["cases"] if only in case["name"]]
        found = [answered(case, read, Path(place)) for case in chosen]
        cases = [case for case, _ in found]
        if only:
            print(json.dumps(cases, indent=1))
            return {}
        return packed(name, statement, cases, {key: own[key] for _, own in found for key in own})

    return main(doc, remake)


def _stored(name: str) -> tuple[Case, dict[str, Any]]:
    """Return a golden: its statement and its arrays."""
    with np.load(GOLDEN / f"{name}.npz") as stored:
        return json.loads((GOLDEN / f"{name}.json").read_text("utf-8")), dict(stored)


def finish(files: dict[str, bytes], *, check: bool) -> int:
    """Write the files that differ, or with ``check`` only name them; return 1 then."""
    there = {name: (GOLDEN / name).read_bytes() for name in files if (GOLDEN / name).exists()}
    differs = [name for name, new in files.items() if there.get(name) != new]
    for name in differs:
        print(f"{name}: {'differs' if check else 'written'}")
        if not check:
            (GOLDEN / name).write_bytes(files[name])
    return 1 if check and differs else 0


def main(doc: str, remake: Callable[[str, str], dict[str, bytes]]) -> int:
    """Run an engine, and write its golden or compare with it; return 1 if bytes differ.

    ``remake`` gets the place of the engine and the text of ``--only``, and returns the golden's
    files.
    """
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=shown, allow_abbrev=False)
    parser.add_argument("place", metavar="FOLDER", help="the engine")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--only", default="", help="print the cases whose names contain this text")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    return finish(remake(options.place, options.only), check=options.check)
