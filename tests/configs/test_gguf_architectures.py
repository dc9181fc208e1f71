"""Each row of the table of architectures, held to what llama.cpp's own code makes of metadata.

``tools/llama_cpp.py`` ran that code on the states that the golden holds.
"""

import json

import pytest

from posenc_cli.configs.gguf.gguf_architectures import ARCHITECTURES, SPECIAL
from posenc_cli.errors import InvalidInput
from tests.configs.test_gguf import read as read_file
from tests.gguf_files import GOLDEN

STATEMENT = json.loads((GOLDEN / "gguf_architectures.json").read_text("utf-8"))
CASES = {case["name"]: case for case in STATEMENT["cases"]}
READ = [name for name in CASES if name in ARCHITECTURES]
TURNING = [name for name in READ if ARCHITECTURES[name].rope_type != "none"]
UNUSED_TYPE = {
    "starcoder": "its graph adds a table, and calls no rotation",
    "bert": "its graph turns in architectures that share it",
    "deepseek2-ocr": "its graph gives another type to ggml",
}
"""Architectures whose rope type says nothing of their layers."""


def metadata(name, keys):
    """The keys of a state, each of the type that llama.cpp takes."""
    typed = {"general.architecture": ("string", name)}
    for key, value in keys.items():
        kinds = {float: "float32", bool: "bool", list: "array of int32", str: "string"}
        kind = kinds.get(type(value), "uint32")
        typed[f"{name}.{key}"] = (kind, value)
    return typed


def read(name, keys):
    return read_file(metadata(name, keys))


def test_the_golden_has_every_architecture_that_is_named():
    named = {*ARCHITECTURES, *SPECIAL}
    assert named - {*CASES} == {"gptj"}
    assert {*CASES} <= named


def test_pairs_are_those_of_its_rope_type():
    for name in READ:
        case, turns = CASES[name], ARCHITECTURES[name].rope_type
        if name in UNUSED_TYPE:
            assert turns != case["rope_type"]
            continue
        assert turns.split()[0] == case["rope_type"]
        assert bool(case["factors"]) == (turns != "none") or name == "jina-bert-v2"


def test_axes_change_the_type_where_llama_cpp_says():
    mixed = {name for name in READ if " or " in ARCHITECTURES[name].rope_type}
    assert mixed == {name for name in READ if CASES[name]["rope_type_of_axes"] == "mrope"} - {
        name for name in READ if ARCHITECTURES[name].rope_type == "mrope"
    }


def test_its_tensors_are_those_that_llama_cpp_looks_for_and_divides_by():
    for name in READ:
        row, case = ARCHITECTURES[name], CASES[name]
        known = {"": [], "freqs": ["freqs"], "long": ["long", "short"]}
        tensors = known.get(row.factors, ["freqs", "long", "short"])
        if name == "refact":  # it looks for them, and turns nothing
            tensors = ["freqs", "long", "short"]
        assert tensors == case["tensors"]
        if row.factors:
            assert (row.divided == "none") == ("given" not in case["factors"])


def test_what_its_graph_leaves_out_is_left_out():
    for name in TURNING:
        row, case = ARCHITECTURES[name], CASES[name]
        assert row.fixed == (case["bases"] == ["10000"])
        if row.plain:
            assert {"1", "10000"} & {*case["stretched"], *case["bases"]}
        else:
            assert row.mscaled == case["mscaled"]
            assert case["stretched"] != ["1"]


def refusal(name, probe, keys):
    """Why posenc refuses a state, None where it reads it."""
    try:
        read(name, keys)
    except InvalidInput as error:
        return error.message
    return None


@pytest.mark.long
def test_a_file_without_what_it_needs_is_refused():
    states = [(name, *state) for name in TURNING for state in STATEMENT["probes"].items()]
    for name, probe, keys in states:
        lacking = [key for key in CASES[name]["needed"] if key in WANTED and key not in keys]
        listed = isinstance(keys.get("attention.sliding_window_pattern", []), list)
        if "attention.sliding_window_pattern" in CASES[name]["needed"] and not listed:
            lacking.append("attention.sliding_window_pattern")
        reason = refusal(name, probe, {**keys, "leading_dense_block_count": 2})
        if lacking:
            assert reason, (name, probe, lacking)
            assert "is missing" in reason or "see nothing" in reason
        elif reason:
            assert "see nothing" in reason or (name, probe) in REFUSED_BY_GGML


WANTED = (
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "rope.dimension_sections",
)
REFUSED_BY_GGML = {("paddleocr", probe) for probe in STATEMENT["probes"]}
"""Read by llama.cpp; its graph then asks ggml for axes without sections, which aborts."""


def turning(name, told, slides, blocks):
    """Which layers turn, by what llama.cpp's code set and what its graph asks for."""
    (rule,) = CASES[name]["still"] or [""]
    step = told.get("still_every", 4)
    pattern = told.get("turning", "1" * blocks)
    leading = 2 if name == "cohere2moe" else 0
    for layer in range(blocks):
        if rule == "unless sliding":
            yield slides[layer] == "1" or "1" not in slides or layer < leading
        elif rule == "every step":
            yield bool((layer + 1) % step)
        elif rule == "every step from the first":
            yield bool(layer % step) or step == blocks
        else:
            yield pattern[layer] == "1" or rule != "by pattern"


@pytest.mark.parametrize("name", TURNING)
def test_layers_slide_turn_and_stretch_as_its_own_code_says(name):
    case, row, compared = CASES[name], ARCHITECTURES[name], 0
    per_layer = any(base.startswith("freq_base_") for base in case["bases"])
    for probe, keys in STATEMENT["probes"].items():
        told = case["probes"].get(probe, {})
        if "error" in told:
            continue
        further = {"leading_dense_block_count": 2}
        if "rope.dimension_sections" in case["needed"] or name == "paddleocr":
            further["rope.dimension_sections"] = [2, 3, 3, 0]
        resolved = read_or_none(name, {**keys, **further})
        if resolved is None:
            continue
        blocks = keys["block_count"]
        slides = told.get("sliding", "0" * blocks) if "window_type" in told else "0" * blocks
        recurrent = told.get("recurrent", "0" * blocks)
        groups = {layer: group for group in resolved.layers for layer in group.layers}
        if name != "falcon-h1":  # all its layers are recurrent, and attend beside it
            attending = {layer for layer in range(blocks) if recurrent[layer] == "0"}
            assert not groups or {*groups} == attending, probe
        turns = list(turning(name, told, slides, blocks))
        for layer, group in groups.items():
            slid = slides[layer] == "1"
            assert ("window" in group.derived) == slid, (probe, layer)
            if slid:
                assert group.derived["window"].value == told["window"], probe
            assert (group.scheme != "nope") == turns[layer], (probe, layer)
            if group.scheme == "nope":
                continue
            compared += 1
            own = slid and per_layer
            base = told.get("sliding_base" if own else "base", 10000.0)
            assert group.params["base"].value == (10000.0 if row.fixed else base), (probe, layer)
            scale = told.get("sliding_scale" if own else "scale", 1.0)
            if row.plain or (slid and "1.0" in case["stretched"]):
                scale = 1.0
            assert group.derived["scaling_factor"].value == pytest.approx(1 / scale), (probe, layer)
    assert compared or "error" in str(case["probes"])


def test_a_type_of_none_leaves_a_factor_only_where_a_graph_takes_that_of_sliding_layers():
    probe, undone, left = "window, stretched", set(), set()
    for name in TURNING:
        case, row = CASES[name], ARCHITECTURES[name]
        told = case["probes"].get(probe, {})
        if row.sliding is None or row.sliding.plain or "error" in told:
            continue
        further = {"leading_dense_block_count": 2, "rope.scaling.type": "none"}
        resolved = read_or_none(name, {**STATEMENT["probes"][probe], **further})
        by_layer = any(scale.startswith("freq_scale_") for scale in case["stretched"])
        for group in resolved.layers if resolved else ():
            slid = "window" in group.derived
            factor = 1 / told.get("sliding_scale", 1.0) if slid and by_layer else 1.0
            if group.scheme != "nope":
                assert group.derived["scaling_factor"].value == pytest.approx(factor), name
                (left if factor != 1 else undone).add(name)
    assert {"cohere2", "lfm2"} <= undone - left
    assert {"gemma2", "gpt-oss"} <= left


@pytest.mark.long
def test_scores_are_scaled_capped_and_tempered_as_its_own_code_says():
    for name in TURNING:
        case, row = CASES[name], ARCHITECTURES[name]
        assert (row.scale == "key") == ("attention.scale" in case["keys"]), name
        assert case["tempered"] == bool(row.temperature) or name == "deepseek2-ocr", name
        for probe, keys in STATEMENT["probes"].items():
            told = case["probes"].get(probe, {})
            further = {"leading_dense_block_count": 2, "rope.dimension_sections": [2, 3, 3, 0]}
            resolved = None if "error" in told else read_or_none(name, {**keys, **further})
            if resolved is None:
                continue
            groups = resolved.layers
            scale = groups[0].derived.get("attention_scale")
            stated = told.get("attention_scale", 0.0)
            by_head = row.scale == "head" and stated in (0, 16**-0.5)
            found = scale.value if scale else 0.0
            assert by_head or found == pytest.approx(stated), (name, probe)
            cap = groups[0].derived.get("softcap")
            held = told.get("softcap", 50.0) if "softcapped" in told else None
            assert (cap.value if cap else None) == held, (name, probe)
            tempered = next((g for g in groups if "temperature_scale" in g.derived), None)
            stated = told.get("temperature_scale", 0.0)
            found = tempered.derived["temperature_scale"].value if tempered else 0.0
            assert found == pytest.approx(stated, rel=1e-6), (name, probe)
            if stated:
                length = tempered.derived["temperature_length"].value
                offset = tempered.derived["temperature_offset"].value
                assert length == told["temperature_length"], (name, probe)
                assert offset == told.get("temperature_offset", 0), (name, probe)


def read_or_none(name, keys):
    """A reading, None where posenc refuses the state."""
    try:
        return read(name, keys)
    except InvalidInput:
        return None
