"""What engines make of whole configs, against the rotations that their own code builds of these."""

import json

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.configs.config import resolve
from posenc_cli.configs.engines.runtimes import RUNTIMES, UnknownReading
from posenc_cli.configs.resolved import TRANSFORMERS
from posenc_cli.errors import InvalidInput
from tests import tolerances
from tests.gguf_files import GOLDEN

FILES = sorted(GOLDEN.glob("engines*.json"))
CASES = [case for file in FILES for case in json.loads(file.read_text("utf-8"))["cases"]]
OF_ONE_POSITION = {"onnxruntime-genai"}
"""Engines of which tables were read, which have no axes: its graphs choose rows of them by axis."""
ENGINES = list(dict.fromkeys(case["engine"] for case in CASES))


@pytest.fixture(scope="module")
def arrays():
    found = {}
    for file in FILES:
        with np.load(file.with_suffix(".npz")) as stored:
            found |= dict(stored)
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_turns_as_its_own_code_does_and_fails_where_that_fails(engine, arrays):
    wrong = []
    for case in (case for case in CASES if case["engine"] == engine):
        if "fails" in case:
            wrong += [] if refuses(case["config"], engine) else [case["name"]]
            continue
        layers = resolve(case["config"], runtime=engine).layers
        wrong += [
            case["name"]
            for layer in case["layers"]
            if not turns_so(layers, layer, arrays, axes=engine not in OF_ONE_POSITION)
        ]
    assert wrong == []


def refuses(config, engine):
    """Whether posenc says that an engine fails on a config, of a model that it reads of it."""
    known = config.get("text_config", config)["model_type"] in RUNTIMES[engine].model_types
    try:
        resolve(config, runtime=engine)
    except InvalidInput as error:
        unread = isinstance(error, UnknownReading)
        return unread is not known and f"--as {engine}: " in error.message
    return False


def turns_so(layers, layer, arrays, *, axes=True):
    """Whether posenc's layers turn as one of the engine's does, with ``axes`` along the same."""
    having = (group for group in layers if not group.layers or layer["layer"] in group.layers)
    group = next(having, None)  # a config need not say how many layers there are
    if layer["array"] is None or group is None or group.scheme == "nope":
        return layer["array"] is None and (group is None or group.scheme == "nope")
    scheme = catalogue.find(group.scheme)
    rotation = scheme.bind(group.values(), seq_len=layer.get("seq_len")).rotation
    found, expected = np.asarray(rotation.waves.frequencies(np)), arrays[layer["array"]]
    found, expected = found[found != 0], expected[expected != 0]
    return (
        rotation.layout == layer["layout"]
        and found.shape == expected.shape
        and np.allclose(found, expected, rtol=tolerances.MEASURED_TURN, atol=0)
        and (not axes or axes_of(group) == layer.get("axes", ""))
        and float(rotation.waves.scale) == pytest.approx(layer["amplitude"], rel=1e-6)
    )


def axes_of(group):
    """The axis that each pair of a layer follows, of those that follow several."""
    if group.scheme != "mrope":
        return ""
    bound = catalogue.find("mrope").bind({**group.values(), "axes": "axes.npy"})
    return "".join(map(str, bound.rotation.waves.coordinates.axes))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_model_type_of_an_engine_has_a_number_of_its_own_code(engine):
    tried = {
        case["config"].get("text_config", case["config"])["model_type"]
        for case in CASES
        if case["engine"] == engine and "layers" in case
    }
    assert RUNTIMES[engine].model_types.keys() <= tried


@pytest.mark.parametrize("key", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("stated", [1.5, "x", [1], True])
@pytest.mark.parametrize("runtime", [name for name in RUNTIMES if name != TRANSFORMERS])
def test_a_rope_key_that_is_no_object_is_refused_for_every_engine(runtime, stated, key):
    rope = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    rope |= {"short_mscale": 1.0, "long_mscale": 1.1, "original_max_position_embeddings": 4096}
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 8192}
    both = {"rope_scaling": rope, "rope_parameters": rope, key: stated}
    with pytest.raises(InvalidInput):
        resolve({"model_type": "phimoe", **sizes, **both}, runtime=runtime)
