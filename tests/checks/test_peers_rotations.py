"""No peer's own tables, frequencies or rotated vectors fail a check against their scheme."""

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from tests.checks import rope

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

YARN = "rope-yarn"
DEEPSEEK = {"dim": 64, "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0}

APPLIED = {
    "rope_apply_llama_half": ("rope", {"dim": 64, "layout": "half"}),
    "rope_apply_gptj_interleaved": ("rope", {"dim": 64, "layout": "interleaved"}),
    "rope_apply_gpt_neox_partial": ("rope", {"dim": 96, "partial": 0.25, "layout": "half"}),
    "rope_apply_deepseek_v3_interleave": (YARN, {**DEEPSEEK, "layout": "interleaved"}),
    "rope_apply_yarn_half": (YARN, {"dim": 128, "factor": 16.0, "layout": "half"}),
}
TABLES = {
    "rope_default_d128_theta500000": ("rope", {"dim": 128, "base": 5e5}),
    "rope_default_d64_theta10000": ("rope", {"dim": 64}),
    "rope_default_partial_neox_h96_p25": ("rope", {"dim": 96, "partial": 0.25}),
    "rope_linear_d128_theta10000_f4.0": ("rope-linear", {"dim": 128, "factor": 4.0}),
    "rope_llama3_llama3_1_8b": ("rope-llama3", {"dim": 128, "base": 5e5, "factor": 8.0}),
    "rope_proportional_d128_theta10000_p50_f4.0": (
        "rope-proportional",
        {"dim": 128, "partial": 0.5, "factor": 4.0},
    ),
    "rope_yarn_deepseek_v3": (YARN, DEEPSEEK),
    "rope_yarn_gpt_oss_truncate_False": (
        YARN,
        {"dim": 64, "base": 1.5e5, "factor": 32.0, "truncate": False},
    ),
    "rope_yarn_llama2_f16": (YARN, {"dim": 128, "factor": 16.0}),
    "rope_yarn_mscale_only": (YARN, {"dim": 64, "factor": 40.0}),
}


def spec(positions):
    return ",".join(str(int(p)) for p in positions)


@pytest.mark.long
@pytest.mark.parametrize("name", APPLIED)
def test_vectors_that_a_peer_rotated_pass(name, golden):
    _, arrays = golden(name)
    scheme, given = APPLIED[name]
    right = rope.reference(scheme, **given)
    where = spec(arrays["positions"])
    for before, after in (("q", "q_out"), ("k", "k_out")):
        x, y = (np.asarray(arrays[each])[0] for each in (before, after))
        if x.shape[0] == arrays["positions"].size:  # GPT-J's heads come after the sequence
            x, y = (np.swapaxes(each, 0, 1) for each in (x, y))
        for head in range(x.shape[0]):
            found = rope.of_rotated(x[head], y[head], right, where)
            assert found.ok, found.findings


@pytest.mark.parametrize("name", APPLIED)
def test_the_tables_that_came_with_them_pass(name, golden):
    _, arrays = golden(name)
    scheme, given = APPLIED[name]
    cos = np.asarray(arrays["cos"])
    right = rope.reference(scheme, **given)
    found = rope.of_tables(cos, arrays["sin"], right, spec(arrays["positions"]))
    assert found.ok, found.findings
    # DeepSeek's tables have the layout half: the rotation brings its columns to that order.
    pairing = found.subject.own.pairing
    reordered = pairing is not None and pairing.layout != right.content.layout
    assert reordered == (name == "rope_apply_deepseek_v3_interleave")


@pytest.mark.long
def test_tables_kept_as_halves_for_interleaved_pairs_fail_where_their_values_are_wrong(golden):
    _, arrays = golden("rope_apply_deepseek_v3_interleave")
    right = rope.reference(YARN, **{**DEEPSEEK, "factor": 32.0}, layout="interleaved")
    found = rope.of_tables(arrays["cos"], arrays["sin"], right, spec(arrays["positions"]))
    causes = [cause.cause for cause in diagnose(found)]
    assert causes[0] == "frequency-rule"
    assert "layout" not in causes


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_a_peers_tables_and_frequencies_pass(name, golden):
    _, arrays = golden(name)
    scheme, given = TABLES[name]
    right = rope.reference(scheme, **{**given, "layout": "half"})
    where = spec(arrays["positions"])
    found = rope.of_tables(arrays["cos"], arrays["sin"], right, where)
    assert found.ok, found.findings
    found = rope.of_frequencies(np.asarray(arrays["inv_freq"], np.float32), right, where)
    assert found.ok, found.findings


@pytest.mark.long
@pytest.mark.sweep(4)
@pytest.mark.parametrize("length", [2048, 4096, 4097, 8192, 65536])
def test_a_peers_dynamic_frequencies_pass_at_their_length_alone(length, golden):
    _, arrays = golden("rope_dynamic_d128_theta10000_mpe4096_f4.0")
    given = {"dim": 128, "factor": 4.0, "max_position_embeddings": 4096}
    values = np.asarray(arrays[f"inv_freq_seq_{length}"], np.float32)
    where = f"0:64,1000:1010,{length - 1}"
    right = rope.reference("rope-dynamic", seq_len=length, **given)
    assert rope.of_frequencies(values, right, where).ok
    other = rope.reference("rope-dynamic", seq_len=16384, **given)
    found = rope.of_frequencies(values, other, where)
    assert not found.ok
    assert diagnose(found)[0].cause in ("scaling-missing", "frequency-rule")


@pytest.mark.slow
def test_a_peers_longrope_passes_with_its_own_list_alone(golden):
    case, arrays = golden("rope_longrope_phi3_mini128k")
    config = case["params"]["rope_parameters_standardized"]
    given = {
        "dim": 96,
        "short_factor": tuple(config["short_factor"]),
        "long_factor": tuple(config["long_factor"]),
        "factor": 32.0,
    }
    for length, other in ((4096, 4097), (4097, 4096)):
        values = np.asarray(arrays[f"inv_freq_seq_{length}"], np.float32)
        right = rope.reference("rope-longrope", seq_len=length, **given)
        assert rope.of_frequencies(values, right, "0:4096").ok
        wrong = rope.reference("rope-longrope", seq_len=other, **given)
        found = rope.of_frequencies(values, wrong, "0:4096")
        assert [cause.cause for cause in diagnose(found)] == ["frequency-rule"]
        assert ("short_factor" if length == 4096 else "long_factor") in diagnose(found)[0].message


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["llama", "llama3", "yarn", "neox", "cohere"])
def test_a_peers_half_precision_rotation_passes_to_position_a_million(name, dtype, golden):
    case, arrays = golden("rope_apply_halves")
    known = case["cases"][f"{name}_{dtype}"]
    right = rope.reference(known["scheme"], **known["params"])
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    x, y, cos, sin = (
        arrays[f"{name}_{dtype}_{each}"].view(kind) for each in ("x", "y", "cos", "sin")
    )
    where = spec(arrays["positions"])
    for found in (rope.of_rotated(x, y, right, where), rope.of_tables(cos, sin, right, where)):
        assert found.ok, found.findings


def test_columns_that_come_out_in_another_order_are_no_fault_but_said(golden):
    _, arrays = golden("rope_apply_deepseek_v3_interleave")
    right = rope.reference(YARN, **DEEPSEEK, layout="interleaved")
    x, y = (np.asarray(arrays[each])[0, 0] for each in ("q", "q_out"))
    found = rope.of_rotated(x, y, right, spec(arrays["positions"]))
    message = next(f.message for f in found.findings if f.check == "reference")
    assert "output dimensions are half" in message
    # … but pairing them the other way going in is one.
    wrong = rope.reference(YARN, **DEEPSEEK, layout="half")
    found = rope.of_rotated(x, y, wrong, spec(arrays["positions"]))
    assert diagnose(found)[0].cause == "layout"
