"""Losses in files that the package gguf writes, in configs and in checkpoints, by the command.

Each is a run of its own, whose status, names, seconds and memory are looked at.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.catalogue import find as find_scheme
from posenc_cli.configs import library
from posenc_cli.configs.config import resolve
from tests.comparison import test_losses as written_here
from tests.comparison import test_score_losses as scores_here
from tests.comparison import test_stored_frequencies as stored_here
from tests.gguf_files import CASES, converted, parsed
from tests.memory import HAS_HIGH_WATER, HIGH_WATER
from tests.processes import UNMEASURED, ran_code

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_HIGH_WATER, reason="the kernel does not say what a process had"),
]

MOST_SECONDS, MOST_MEBIBYTES = 1.0, 50  # of processor time; a machine may be busy
NAMED = 0.95


WATCHED = (
    HIGH_WATER
    + """
import atexit, os, runpy, sys
def cost():
    times = os.times()
    print(high_water(), times.user + times.system, file=sys.stderr)
atexit.register(cost)
runpy.run_module("posenc_cli", run_name="__main__")
"""
)


def run(*arguments):
    """The status, what is printed, and the seconds and mebibytes of a command."""
    # Coverage would count too.
    done = ran_code(WATCHED, *arguments, "--json", check=False, env=UNMEASURED)
    *err, last = done.stderr.splitlines()
    memory, seconds = last.split()
    return done.returncode, done.stdout, "\n".join(err), float(seconds), int(memory) / (1 << 20)


def write_gguf(path, keys, tensors):
    """A GGUF file of some keys and tensors, by the package gguf."""
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
    types = gguf.GGUFValueType
    writer = gguf.GGUFWriter(str(path), keys["general.architecture"][1])
    for key, (kind, value) in keys.items():
        if key == "general.architecture" or value is None:
            continue
        if kind.startswith("array of "):
            item = types[kind.removeprefix("array of ").upper()]
            if value:
                writer.add_key_value(key, list(value), types.ARRAY, sub_type=item)
        else:
            writer.add_key_value(key, value, types[kind.upper()])
    for name, (numbers, _) in tensors.items():
        writer.add_tensor(name, np.array(numbers, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_kinds(tmp_path):
    """Each loss of a GGUF file: the two sides, and its name or what refuses it."""
    for number, (kind, (case, change, expected)) in enumerate(written_here.KINDS.items()):
        config, data = converted(case)
        keys, tensors = parsed(data)
        change(keys, tensors)
        sides = tmp_path / f"{number}.json", tmp_path / f"{number}.gguf"
        sides[0].write_text(json.dumps(config), "utf-8")
        write_gguf(sides[1], keys, tensors)
        yield f"gguf: {kind}", sides, {expected}


LLAMA3 = dict(library.find("llama-3.1-8b").config)["rope_scaling"]
CONFIG_KINDS = {
    "no base": ("llama-3.1-8b", {"rope_theta": None}, {"base"}),
    "another base": ("qwen3-8b", {"rope_theta": 10000.0}, {"base"}),
    "no scaling": ("llama-3.1-8b", {"rope_scaling": None}, {"llama3-factors"}),
    "another factor": ("llama-3.1-8b", {"rope_scaling": {**LLAMA3, "factor": 32.0}}, {"factor"}),
    "a lower end": (
        "llama-3.1-8b",
        {"rope_scaling": {**LLAMA3, "low_freq_factor": 2.0}},
        {"low-freq-factor"},
    ),
    "the local base lost": ("gemma-3-4b", {"rope_local_base_freq": 1e6}, {"sliding-base"}),
    "the linear factor lost": ("gemma-3-4b", {"rope_scaling": None}, {"scaling-type", "factor"}),
    "half the context": ("gemma-3-4b", {"max_position_embeddings": 65536}, {"context"}),
    "the window": ("gemma-3-4b", {"sliding_window": 4096}, {"window"}),
    "half the head": ("gemma-3-4b", {"head_dim": 128}, {"head-dim"}),
    "another pattern": ("gemma-3-4b", {"sliding_window_pattern": 4}, {"sliding-layers"}),
    "a layer less": ("gemma-3-4b", {"num_hidden_layers": 33}, {"layers"}),
}
"""Keys of configs that are replaced, beside the names of what is lost by it."""


def config_kinds(tmp_path):
    for number, (kind, (model, changes, expected)) in enumerate(CONFIG_KINDS.items()):
        config = {**library.find(model).config, **changes}
        path = tmp_path / f"config-{number}.json"
        kept = {key: value for key, value in config.items() if value is not None}
        path.write_text(json.dumps(kept), "utf-8")
        yield f"config: {kind}", (model, path), expected


def score_kinds(tmp_path):
    for number, kind in enumerate(scores_here.LOSSES):
        config, metadata = scores_here.lossy(kind)
        sides = tmp_path / f"scores-{number}.json", tmp_path / f"scores-{number}.gguf"
        sides[0].write_text(json.dumps(config), "utf-8")
        write_gguf(sides[1], metadata, {})
        yield f"scores: {kind}", sides, {scores_here.LOSSES[kind][1]}


def stored_kinds(tmp_path):
    for number, (kind, (model, values, expected)) in enumerate(stored_here.KINDS.items()):
        path = tmp_path / f"{number}.safetensors"
        stored_here.write(path, stored_here.stored(values))
        yield f"checkpoint: {kind}", (model, path), expected


def is_named(out, err, expected):
    """Whether a loss has its name, or is refused by its reason; pairs go by their parameters."""
    (first, *_) = expected
    if first.startswith("refused: "):
        return first.removeprefix("refused: ") in err
    if not out:
        return False
    document = json.loads(out)
    if document["kind"] == "models":
        return expected <= {loss["name"] for loss in document["losses"]}
    sides = document["a"]["params"], document["b"]["params"]
    differing = {
        name for name in {*sides[0], *sides[1]} if sides[0].get(name) != sides[1].get(name)
    }
    own = {"llama3-factors": "low_freq_factor"}
    return {own.get(name, name.replace("-", "_")) for name in expected} <= differing


@pytest.mark.parametrize("kinds", [gguf_kinds, config_kinds, score_kinds, stored_kinds])
def test_all_losses_are_found_and_nearly_all_named_at_once(kinds, tmp_path):
    missed, unnamed, slow, total = [], [], [], 0
    for kind, sides, expected in kinds(tmp_path):
        status, out, err, seconds, mebibytes = run("compare", *map(str, sides))
        total += 1
        if status not in (1, 2):
            missed.append(kind)
        elif not is_named(out, err, expected):
            unnamed.append(kind)
        if seconds > MOST_SECONDS or mebibytes > MOST_MEBIBYTES:
            slow.append((kind, seconds, mebibytes))
    assert (missed, slow) == ([], [])
    assert len(unnamed) <= (1 - NAMED) * total, unnamed


def test_no_file_that_says_the_same_is_called_a_loss(tmp_path):
    """All models by name with their converted files written again, and their own frequencies."""
    names = {case["name"] for case in CASES}
    alarms, compared, pairs = [], 0, []
    for name in library.names():
        config = library.find(name).config
        sides = []
        if name in names and name not in written_here.NOT_WHOLE:
            path = tmp_path / f"{name}.gguf"
            write_gguf(path, *parsed(converted(name)[1]))
            sides.append(path)
        layers = resolve(config).layers
        if len(layers) == 1 and find_scheme(layers[0].scheme).kind == "rotary":
            path = tmp_path / f"{name}.safetensors"
            stored_here.write(path, stored_here.stored(posenc.frequencies(dict(config))))
            sides.append(path)
        pairs += [(name, side) for side in sides]
    for number, (config, metadata) in enumerate(scores_here.PAIRS.values()):
        sides = tmp_path / f"pair-{number}.json", tmp_path / f"pair-{number}.gguf"
        sides[0].write_text(json.dumps(config), "utf-8")
        write_gguf(sides[1], metadata, {})
        pairs.append(sides)
    for a, b in pairs:
        status, out, err, seconds, mebibytes = run("compare", str(a), str(b))
        compared += 1
        if status or seconds > MOST_SECONDS or mebibytes > MOST_MEBIBYTES:
            alarms.append((a, Path(b).suffix, status, out[:200], err[:200], seconds))
    assert alarms == []
    assert compared > 40
