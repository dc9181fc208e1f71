"""What llama.cpp makes of a config is what it makes of the file that its converter writes of it."""

import io
import json
import re

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.configs.config import resolve
from posenc_cli.configs.engines.runtimes import RUNTIMES, UnknownReading
from posenc_cli.configs.gguf.gguf_architectures import FACTOR_TENSORS, OF_MODEL_TYPES, WITHOUT_BASE
from posenc_cli.errors import InvalidInput
from posenc_cli.files.gguf import read_gguf
from tests.gguf_files import GOLDEN

CASES = json.loads((GOLDEN / "llama_cpp_files.json").read_text("utf-8"))["cases"]
CONVERTED = json.loads((GOLDEN / "llama_cpp_converter.json").read_text("utf-8"))["cases"]
AT_REST = 1e-25  # radians a position: divisors of 1e30 stand for pairs that do not turn
SINGLE = 2e-6  # relative: bases and divisors are kept in float32
OTHERWISE = re.compile("regardless of (no_rope_layers|layer_types|layer_rope_theta)$")
"""What is said of a file that turns, but otherwise than any scheme of posenc's says."""


@pytest.fixture(scope="module")
def files():
    with np.load(GOLDEN / "llama_cpp_files.npz") as stored:
        return {name: array.tobytes() for name, array in stored.items()}


def header_of(content):
    stream = io.BytesIO(content)
    return read_gguf(stream, name="model.gguf", size=len(content), asked=FACTOR_TENSORS)


def of_file(content):
    return resolve(header_of(content)).layers


def turning(layers, number, length):
    """Frequencies, amplitude, axes and the layout of the checkpoint's columns; None where still.

    Of ALiBi the slopes of the heads: its forms differ by a constant of each row. Of T5's buckets
    their parameters.
    """
    groups = (each for each in layers if not each.layers or number in each.layers)
    group = next(groups, None)  # a layer in no group has no attention
    if group is None or group.scheme == "nope":
        return None
    if group.scheme == "alibi":
        slopes = catalogue.find("alibi").bind(group.values(), seq_len=length).content
        return np.asarray(slopes.coefficients(np)), 1.0, "slopes"
    if group.scheme == "t5":
        return np.array([*map(float, group.values().values())]), 1.0, [*group.values()]
    axes = {"axes": "axes.npy"} if group.scheme == "mrope" else {}
    bound = catalogue.find(group.scheme).bind({**group.values(), **axes}, seq_len=length)
    rotation = bound.rotation
    frequencies = np.asarray(rotation.waves.frequencies(np))
    permuted = "permuted" in group.derived and group.derived["permuted"].value
    halves = (rotation.layout == "half") != bool(permuted)
    coordinates = rotation.waves.coordinates
    return (
        frequencies[frequencies > AT_REST],
        float(rotation.waves.scale),
        (halves, coordinates.axes if coordinates else ()),
    )


def alike(one, other):
    if one is None or other is None:
        return one is other
    return (
        one[2] == other[2]
        and one[0].shape == other[0].shape
        and np.allclose(one[0], other[0], rtol=SINGLE, atol=0)
        and one[1] == pytest.approx(other[1], rel=SINGLE)
    )


def differing(config, content):
    """The layers that turn otherwise by the config than by the file."""
    try:
        layers = resolve(config, runtime="llama.cpp").layers
    except UnknownReading:
        raise
    except InvalidInput as error:
        if not OTHERWISE.search(error.message):
            raise
        layers = resolve(config).layers  # it must be true that the file has it otherwise
        return [] if differing_layers(config, layers, content) else ["refused"]
    return differing_layers(config, layers, content)


def differing_layers(config, layers, content):
    text, found = config.get("text_config", config), of_file(content)
    context = text["max_position_embeddings"]
    return [
        number
        for number in range(text["num_hidden_layers"])
        if not alike(turning(layers, number, context), turning(found, number, context))
    ]


@pytest.mark.parametrize("model_type", sorted({case["config"]["model_type"] for case in CASES}))
def test_a_config_turns_as_the_file_that_the_converter_writes_of_it(model_type, files):
    wrong = {}
    for case in (case for case in CASES if case["config"]["model_type"] == model_type):
        if "fails" in case:
            with pytest.raises(InvalidInput, match=r"--as llama\.cpp: its converter"):
                resolve(case["config"], runtime="llama.cpp")
        elif layers := differing(case["config"], files[case["array"]]):
            wrong[case["name"]] = layers
    assert wrong == {}


def types_of(case):
    """The model type of a case's language model, by either name."""
    own = case["config"]["model_type"]
    return case["config"].get("text_config", case["config"])["model_type"], f"{own}_text"


def test_every_model_type_of_llama_cpp_was_converted():
    tried = {model_type for case in [*CASES, *CONVERTED] for model_type in types_of(case)}
    assert RUNTIMES["llama.cpp"].model_types.keys() <= tried


@pytest.mark.parametrize("name", [case["name"] for case in CASES if "t5/" in case["name"]])
def test_the_buckets_of_both_sides_are_those_of_the_file(name, files):
    (case,) = [case for case in CASES if case["name"] == name]
    read, held = resolve(case["config"], runtime="llama.cpp").layers, of_file(files[name])
    assert {each.layer_type: each.values() for each in read} == {
        each.layer_type: each.values() for each in held
    }
    assert {each.values()["max_distance"] for each in read} == {128}


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("mpt/bias-8", ()),
        ("mpt/bias-16", ("max-bias",)),
        ("t5/buckets", ()),
        ("t5/far", ("max-distance",)),
        ("lfm2/theta_beside", ("base",)),
    ],
)
def test_what_the_file_has_otherwise_than_transformers_counts_in_a_comparison(
    name, lost, files, call, tmp_path
):
    (case,) = [case for case in CASES if case["name"] == name]
    (tmp_path / "a.json").write_text(json.dumps(case["config"]))
    (tmp_path / "b.gguf").write_bytes(files[name])
    status, out, _ = call("compare", "a.json", "b.gguf", "--json")
    assert status == bool(lost)
    assert all(f'"{each}"' in out for each in lost)


def test_the_architecture_of_each_file_is_one_that_is_known_of_its_model_type(files):
    found = {}
    for case in CASES:
        if case["name"] in files:
            kind = header_of(files[case["name"]]).metadata["general.architecture"].value
            found.setdefault(case["config"]["model_type"], set()).add(kind)
    known = {kind: OF_MODEL_TYPES[kind] for kind in found.keys() & OF_MODEL_TYPES.keys()}
    assert all(found[kind] <= {*names} for kind, names in known.items())
    assert {"bloom", "lfm2", "lfm2_moe", "mpt", "mt5", "nemotron_h", "t5", "umt5"} <= known.keys()


@pytest.mark.long
def test_a_file_without_a_base_is_no_doubt_where_the_converter_never_writes_one(files):
    stated, doubted = {}, set()
    for header in map(header_of, files.values()):
        kind = header.metadata["general.architecture"].value
        stated.setdefault(kind, set()).add(f"{kind}.rope.freq_base" in header.metadata)
        if f"{kind}.rope.freq_base" in resolve(header).defaulted:
            doubted.add(kind)
    assert {kind for kind, states in stated.items() if states == {False}} >= {*WITHOUT_BASE}
    assert doubted == {kind for kind, states in stated.items() if states == {False, True}}
