"""``posenc compare``: files and encodings, the verdict, the place, and what is refused."""

import json
import math
import re

import numpy as np
import pytest

import posenc_cli as posenc
from tests.matrices import matrix

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")


def words(call, *arguments):
    """The status, and what is said, as one line."""
    status, out, _ = call("compare", *arguments)
    return status, " ".join(out.split())


def test_equal_files_are_status_0(tmp_path, document, printed):
    table = matrix("rope", "0:8", dim=8)
    table[3, 3] = np.nan
    np.save(tmp_path / "a.npy", table)
    np.savez(tmp_path / "b.npz", encoding=table)
    found = document("compare", "a.npy", "b.npz")
    assert (found["max_abs"], found["max_ulp"], found["at"], found["values"]) == (0, 0, None, None)
    assert "equal: all 64 values (8 × 8; 1 NaN in both)" in printed("compare", "a.npy", "b.npz")


def test_different_files_are_status_1_with_the_place(call, tmp_path, document):
    a = matrix("rope", "0:8", dim=8)
    b = a.copy()
    b[5, 2] = np.nextafter(b[5, 2], np.float32(9))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    found = document("compare", "a.npy", "b.npy", status=1)
    assert (found["at"], found["max_ulp"], found["differing"]) == ([5, 2], 1, 1)
    assert found["values"] == [float(a[5, 2]), float(b[5, 2])]
    plain = dict.fromkeys(("engine", "scheme", "weights"))
    assert found["a"] == {"name": "a.npy", **plain, "warnings": [], "dtype": "float32"}
    status, told = words(call, "a.npy", "b.npy")
    assert status == 1
    assert "DIFFERENT: 1 of 64 values differs" in told
    assert "1 ulp of float32" in told
    assert f"at row 5, column 2: {a[5, 2]:.9g} and {b[5, 2]:.9g}" in told


def test_tol_passes_over_what_is_small(call, tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1.0, 2.0]]))
    np.save(tmp_path / "b.npy", np.array([[1.0, 2.125]]))
    assert call("compare", "a.npy", "b.npy", "--tol", "0.125")[0] == 0
    assert call("compare", "a.npy", "b.npy", "--tol", "0.12")[0] == 1
    _, out, _ = call("compare", "a.npy", "b.npy", "--tol", "1")
    assert "ok: 1 of 2 values differs, within the tolerance of 1 (1 × 2)" in out


def test_values_that_are_nan_in_both_are_counted_and_alone_are_not_called_equal(call):
    for name, value in (("a", 1.0), ("b", 2.0)):
        np.save(f"{name}.npy", np.array([value, np.nan, np.nan, np.inf]))
    np.save("none.npy", np.full((2, 2), np.nan))
    assert "equal: all 4 values (4; 2 NaN in both)" in call("compare", "a.npy", "a.npy")[1]
    assert "1 of 4 values differs (4; 2 NaN in both)" in call("compare", "a.npy", "b.npy")[1]
    status, out, _ = call("compare", "none.npy", "none.npy")
    assert (status, out.splitlines()[0]) == (1, "FAILED: all 4 values are NaN in both (2 × 2)")


def test_nan_against_a_number_fails_any_tolerance(call, document):
    np.save("a.npy", np.array([1.0, np.nan, np.inf]))
    np.save("b.npy", np.array([1.0, 2.0, np.inf]))
    found = document("compare", "a.npy", "b.npy", "--tol", "9", status=1)
    assert (found["unmatched"], found["at"], found["values"]) == (1, [1], [None, 2.0])
    assert "1 of them by NaN or infinity" in call("compare", "a.npy", "b.npy")[1]
    np.save("a.npy", np.full(3, np.nan))
    status, out, _ = call("compare", "a.npy", "b.npy")
    assert (status, "3 of them by NaN or infinity" in out) == (1, True)
    assert "largest difference" not in out  # where nothing is measured


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("table", ["cos-sin", "interleaved"])
def test_what_generate_writes_equals_the_scheme(dtype, table, call, report):
    given = ("--dim", "16", "--table", table)
    asked = ("-s", "rope", "-l", "33", "--dtype", dtype, *given)
    assert call("generate", *asked, "-o", "t.safetensors", "-q")[0] == 0
    status, found = report("compare", "t.safetensors", "rope", *given)
    assert (status, found["ulp_format"]) == (0, dtype)
    status, found = report("compare", "rope", "t.safetensors", "--base", "9999", *given)
    assert (status, found["position"]) == (1, found["at"][0])


@pytest.mark.parametrize("scheme", ["alibi", "shaw", "sinusoidal", "t5"])
def test_the_length_follows_the_file(scheme, call, report):
    assert call("generate", "-s", scheme, "-l", "9", "-o", "t.npy", "-q")[0] == 0
    assert report("compare", "t.npy", scheme)[0] == 0


def test_a_row_of_frequencies_is_compared_with_the_schemes(call, tmp_path, report):
    np.save(tmp_path / "f.npy", matrix("rope", None, dim=32, base=500.0, table="inv-freq"))
    assert report("compare", "f.npy", "rope", "--dim", "32", "--base", "500")[0] == 0
    status, found = report("compare", "f.npy", "rope", "--dim", "32")
    assert (status, len(found["at"])) == (1, 1)
    assert "at [2]: 0.45986" in " ".join(call("compare", "f.npy", "rope", "--dim", "32")[1].split())


def test_complex_tables_and_integers(tmp_path, report):
    table = matrix("rope", "0:5", dim=8, table="complex")
    np.save(tmp_path / "c.npy", table)
    assert report("compare", "c.npy", "rope", "--dim", "8")[0] == 0
    np.save(tmp_path / "d.npy", table + 1j)
    _, found = report("compare", "c.npy", "d.npy")
    assert found["max_abs"] == pytest.approx(1)
    assert len(found["values"][0]) == 2
    np.save(tmp_path / "i.npy", np.arange(6).reshape(2, 3))
    np.save(tmp_path / "j.npy", np.arange(6.0).reshape(2, 3))
    assert report("compare", "i.npy", "j.npy")[0] == 0


def test_positions_label_the_row(report):
    asked = ("--set", "b.base=9000", "--positions", "100:200:10,7", "--dim", "4")
    _, found = report("compare", "rope", "rope", *asked)
    assert found["position"] == [*range(100, 200, 10), 7][found["at"][0]]


def test_two_rotations_are_compared_pair_by_pair(report):
    status, found = report("compare", "rope", "rope-linear", "--dim", "8", "--set", "factor=2")
    assert (status, found["kind"], found["differing"], found["count"]) == (1, "rotations", 4, 4)
    assert [pair["ratio"] for pair in found["pairs"]] == [2.0] * 4
    assert found["pairs"][0]["wavelengths"] == pytest.approx([2 * np.pi, 4 * np.pi])
    assert found["max_abs"] == 0.5
    assert found["at"] == [0]
    assert found["b"]["params"]["factor"] == 2.0
    assert report("compare", "rope", "rope-linear", "--dim", "8", "--tol", "0.75")[0] == 0


def test_long_lists_of_pairs_are_abbreviated_in_text_alone(call, report):
    arguments = ("rope", "rope", "--dim", "128", "--set", "b.base=20000")
    _, out, _ = call("compare", *arguments)
    rows = [line for line in out.splitlines() if line.split()[:1] and line.split()[0].isdigit()]
    assert 10 <= len([row for row in rows if "more" not in row]) <= 12
    assert "more pairs differ; --json has them all" in out
    # All are as far apart: the first is the worst, and the last stands there all the same.
    _, out, _ = call("compare", "rope", "rope-linear", "--dim", "128")
    rows = re.findall(r"^ *([0-9]+) +[0-9.]+ +[0-9.]+ +", out, re.MULTILINE)
    assert (rows[0], rows[-1], len(rows)) == ("0", "63", 11)
    steps = np.diff(np.array(rows, int))
    assert steps.max() - steps.min() <= 1
    assert max(map(len, out.splitlines())) <= 80
    assert len(report("compare", *arguments)[1]["pairs"]) == 63


def test_pairs_that_stand_still_have_no_wavelength_and_no_units(call, report):
    arguments = ("rope-proportional", "rope-proportional", "--set", "b.partial=0.5", "-d", "8")
    _, found = report("compare", *arguments)
    assert [pair["wavelengths"][1] for pair in found["pairs"]] == [None, None]
    assert found["max_ulp"] is None
    assert "∞" in call("compare", *arguments)[1]


def test_names_of_files_are_shown_whole_and_harmless(call, tmp_path):
    (tmp_path / ("long-name" * 12)).mkdir()
    name = str(tmp_path / ("long-name" * 12) / "a\x1b[31m.npy")
    np.save(name, np.ones(2))
    status, out, _ = call("compare", name, name)
    assert (status, "\x1b" in out, "long-name" * 12 in out) == (0, False, True)


QWEN = {"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28}
QWEN |= {"num_key_value_heads": 4, "max_position_embeddings": 131072, "rope_theta": 1e6}
QWEN |= {
    "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
}


def test_two_engines_readings_of_one_config_with_the_source_of_each_value(call, tmp_path):
    """transformers 4.50 ramps from pair 30 to 47 where the paper's L0 says 23 to 40."""
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    status, out, err = call("compare", "config.json", "--as", "transformers-4.50", "--json")
    found = json.loads(out)
    assert status == 1
    assert [pair["pair"] for pair in found["pairs"]] == list(range(24, 47))
    assert max(1 / pair["ratio"] - 1 for pair in found["pairs"]) == pytest.approx(1.24, abs=0.005)
    assert found["a"]["engine"] == "transformers"
    assert found["b"]["params"]["original_max_position_embeddings"] == 131072
    assert "github.com/huggingface/transformers/blob/v4.50.3" in err
    assert "github.com" in found["b"]["warnings"][0]
    _, out, _ = call("compare", ".", "--as", "transformers-4.50")
    assert "(rope_scaling.original_" in out
    assert "(transformers-4.50" in out
    given = call("compare", "llama-2-7b", "llama-2-7b", "--set", "b.base=1000000")[1]
    assert "10000 (rope_theta)" in given
    assert "1000000 (command line)" in given
    assert max(map(len, out.splitlines())) <= 80


def test_one_engine_named_is_for_both_configs(call, tmp_path):
    (tmp_path / "c.json").write_text(json.dumps(QWEN))
    found = json.loads(call("compare", "c.json", "qwen2.5-7b-yarn", "--as", "vllm", "--json")[1])
    assert (found["a"]["engine"], found["b"]["engine"]) == ("vllm", "vllm")
    assert found["ok"]
    both = ("--as", "transformers-4.50", "--as", "vllm")
    status, out, _ = call("compare", "c.json", "qwen2.5-7b-yarn", *both, "--json")
    assert (status, json.loads(out)["a"]["engine"]) == (1, "transformers-4.50")


def test_models_are_compared_with_tables_and_with_each_other(call, report):
    asked = ("--model", "llama-3.1-8b", "--len", "20", "--out", "t.npy", "-q")
    assert call("generate", *asked)[0] == 0
    assert report("compare", "t.npy", "llama-3.1-8b")[0] == 0
    assert report("compare", "t.npy", "llama-3-8b")[0] == 1
    assert report("compare", "llama-3-8b", "llama-3.1-8b", "--len", "9")[1]["kind"] == "arrays"
    sides = ("gemma-3-4b", "rope", "--layer-type", "sliding_attention", "-d", "256")
    _, found = report("compare", *sides)
    assert found["differing"] == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("gemma-3-4b rope", 2, "the layers of gemma3_text differ"),
        ("bloom-560m --as vllm", 2, "its code was not checked for the encoding of bloom (alibi)"),
        ("rope+alibi rope", 2, "is several encodings"),
        ("a.npy", 2, "B is missing"),
        ("a.npy missing.npy", 3, "missing.npy"),
        ("a.npy wide.npy", 2, "the shapes differ: 3 × 4 and 3 × 5"),
        ("a.npy rope --dim 64", 2, "the shapes differ: 3 × 4 and 3 × 64"),
        ("rope rope --set b.dim=32", 2, "the shapes differ: 32 and 16 pairs"),
        ("a.npy rop", 2, "'rop' is neither a file, nor a scheme, nor a model"),
        ("a.npy a.npy --tol -1", 2, "--tol -1: must be at least 0"),
        ("a.npy a.npy --tol nan", 2, "--tol 'nan': must be a number"),
        ("rope rope --set a.facto=2", 2, "--set a.facto: none of rope has"),
        ("rope rope --set base=2 --base 3", 2, "base is given twice"),
        ("rope rope --set base", 2, "--set 'base': must be NAME=VALUE"),
        ("rope rope --as vllm", 2, "--as reads a config or a model, and 'rope' is neither"),
        ("rope --as vlm", 2, "--as 'vlm': must be one of transformers"),
        ("rope rope --as vllm --as vllm --as vllm", 2, "is a third engine"),
        ("sinusoidal rope --len 0", 2, "--len 0: must be at least 1"),
        ("a.npy rope --dtype float8", 2, "--dtype 'float8': must be one of"),
        ("xpos rope", 2, "can only be compared at given positions"),
        ("alibi alibi --len 4 --head 9", 2, "--head 9: the heads are 0 to 7"),
        ("llama-2-7b rope --layer-type full", 2, "neither A nor B has several layer types"),
        ("rope no-such-thing", 2, "error: B: 'no-such-thing'"),
        ("a.npy a.npy --len 5", 2, "--len '5' does not apply to two files: nothing is computed"),
        ("a.npy a.npy --positions 3", 2, "--positions '3' does not apply to two files"),
        ("a.npy a.npy --head 0", 2, "--head 0 does not apply to two files"),
    ],
)
def test_bad_input_is_one_line(arguments, status, message, refused):
    np.save("a.npy", np.ones((3, 4)))
    np.save("wide.npy", np.ones((3, 5)))
    assert message in refused("compare", *arguments.split(), status=status).splitlines()[0]


def test_only_schemes_get_a_hint_on_their_shape(refused):
    np.save("a.npy", np.ones((3, 4)))
    np.save("wide.npy", np.ones((3, 5)))
    assert "hint" not in refused("compare", "a.npy", "wide.npy")
    assert "hint: for a scheme, --len" in refused("compare", "a.npy", "rope", "--dim", "64")


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        # A layer type concerns whichever side has several.
        ("gemma-3-4b rope --layer-type full_attention --set b.dim=256", 1, "DIFFERENT"),
        ("rope rope --len 8 --set b.layout=half", 1, "DIFFERENT"),
        ("rope rope --len 8 --layout half", 0, "equal"),
        ("rope-axial rope-axial --set a.grid=4x4 --set b.grid=2x8", 1, "DIFFERENT"),
        ("rope-axial rope-axial --set a.grid=4x4 --set b.grid=4x4", 0, "agree"),
        ("rope rope-yarn --set attention_factor=2", 1, "attention factor 2 (logits × 4)"),
        # A parameter given in place of a model's changes what scores are multiplied by.
        ("deepseek-v3 deepseek-v3 --set b.mscale_all_dim=0.707", 1, "softmax scale"),
        ("deepseek-v3 deepseek-v3 --set b.mscale_all_dim=1", 0, "agree"),
    ],
)
def test_what_differs_besides_frequencies_is_seen(line, status, said, printed):
    assert said in printed("compare", *line.split(), status=status)


LLAMA = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8}
LLAMA |= {"max_position_embeddings": 4096, "rope_theta": 10000.0}


@pytest.fixture
def dynamic(tmp_path):
    """A config of dynamic NTK, which vLLM leaves out."""
    scaling = {"rope_type": "dynamic", "factor": 4.0}
    (tmp_path / "dyn.json").write_text(json.dumps({**LLAMA, "rope_scaling": scaling}))
    return "dyn.json"


def test_rules_that_follow_the_length_are_compared_on_both_sides_of_each_switch(call, dynamic):
    """VLLM leaves dynamic NTK out, and so is alike up to the trained context alone."""
    status, out, _ = call("compare", dynamic, "--as", "vllm", "--json")
    found = json.loads(out)
    assert (status, found["ok"]) == (1, False)
    lengths = {each["seq_len"]: each["ok"] for each in found["lengths"]}
    assert (lengths[4096], lengths[4097]) == (True, False)
    # The oracle is the rule as emozilla wrote it: base · (s·n/L − (s − 1))^(d/(d − 2)).
    base = 10_000.0 * (4.0 * found["seq_len"] / 4096 - 3.0) ** (64 / 62)
    assert found["pairs"][-1]["frequencies"][0] == pytest.approx(base ** (-62 / 64), rel=1e-12)
    out = call("compare", dynamic, "--as", "vllm")[1]
    assert "equal for sequences of 4096 positions" in out
    assert "DIFFERENT" in out


def test_what_goes_on_changing_is_said_to_be_compared_at_some_lengths_alone(call, tmp_path, report):
    """Two factors are within this tolerance up to 65,536 positions, and not for 2^24."""
    for factor in (4.0, 2.0):
        scaling = {"rope_type": "dynamic", "factor": factor}
        (tmp_path / f"{factor:g}.json").write_text(json.dumps({**LLAMA, "rope_scaling": scaling}))
    sides = ("4.json", "2.json", "--tol", "0.495")
    status, told = words(call, *sides)
    assert status == 0
    said = "other lengths may have other frequencies; they were not compared"
    assert said in told
    assert report("compare", *sides)[1]["all_lengths"] is False
    assert call("compare", *sides, "--set", "seq_len=16777216")[0] == 1
    assert said not in words(call, "llama-2-7b", "llama-3-8b")[1]


def test_arrays_of_one_length_say_that_others_were_not_compared(call, dynamic):
    status, told = words(call, dynamic, "--as", "vllm", "--len", "64")
    assert status == 0
    assert "equal: all 4096 values (64 × 64)" in told
    assert "A was computed for a sequence of 64" in told
    assert "from 4097 on, and again with further positions" in told
    assert "was computed for" not in words(call, dynamic, dynamic, "--len", "64")[1]


def test_units_beside_zero_are_not_counted(call, report):
    np.save("a.npy", np.array([1.0, 0.0, -1.0]))
    np.save("b.npy", np.array([1.0, 0.5, -1.0]))
    _, found = report("compare", "a.npy", "b.npy")
    assert (found["max_abs"], found["max_ulp"], found["at"]) == (0.5, None, [1])
    out = call("compare", "a.npy", "b.npy")[1]
    assert "largest difference 0.5 at [1]" in out
    assert "ulp" not in out


def test_numbers_side_by_side_are_told_apart(call):
    base = float(np.nextafter(10_000.0, 2e4))
    _, out, _ = call("compare", "rope", "rope", "--set", f"b.base={base!r}", "--dim", "8")
    rows = [line.split() for line in out.splitlines() if re.match(r"\d+ ", line)]
    assert rows
    assert all(first != second and ratio != "1" for _, first, second, ratio in rows)
    assert "wavelength B/A 1)" not in out
    _, out, _ = call("compare", "rope-yarn", "rope-yarn", "--set", "factor=4.7")
    assert "attention factor 1.15476 " in out


SWITCHING = [
    *("rope-longrope", "rope-longrope", "--dim", "4"),
    *("--set", "a.short_factor=1,1", "--set", "b.short_factor=1.1,1"),
    *("--set", "a.long_factor=1,1", "--set", "b.long_factor=1,2"),
    *("--set", "original_max_position_embeddings=8", "--set", "max_position_embeddings=16"),
]
"""Pairs differ by 1/11 up to 8 positions; beyond, the other by half, of a frequency of 0.01."""


def test_the_largest_difference_is_that_of_all_lengths_and_decides(call, document):
    found = document("compare", *SWITCHING, status=1)
    assert found["max_abs"] == max(length["max_abs"] for length in found["lengths"])
    assert found["max_abs"] == pytest.approx(1 / 11)
    assert (found["seq_len"], found["at"]) == (9, [1])
    for tolerance, status in (("0.05", 1), ("0.3", 1), ("0.6", 0)):
        assert call("compare", *SWITCHING, "--tol", tolerance)[0] == status


def test_rows_that_follow_the_length_are_compared_at_one_and_it_is_said(report):
    sides = ("learned", "learned", "--set", "a.extend=interpolate", "--set", "b.extend=clamp")
    status, found = report("compare", *sides, "--len", "512", "--dim", "4")
    assert (status, found["differing"]) == (0, 0)
    assert len(found["not_compared"]) == 2
    assert report("compare", *sides, "--len", "600", "--dim", "4")[0] == 1
    assert report("compare", "sinusoidal", "rope", "--len", "8")[1]["not_compared"] == []


@pytest.mark.long
def test_files_that_differ_are_identified_where_that_is_asked(call, tmp_path, report):
    for name, base in (("a", 10_000.0), ("b", 500_000.0)):
        np.save(tmp_path / f"{name}.npy", matrix("rope", "0:64", dim=32, base=base))
    status, told = words(call, "a.npy", "b.npy", "--identify")
    assert status == 1
    assert "A is rope, dim 32, base 10000" in told
    assert "B is rope, dim 32, base 500000" in told
    assert "(all 64 rows compared; largest difference 0)" in told
    _, document = report("compare", "a.npy", "b.npy", "--identify")
    assert document["identities"]["b"].startswith("rope, dim 32, base 500000")
    assert document["differing_parameters"] == {"base": ["10000", "500000"]}
    assert told.index("DIFFERENT") < told.index("cause: base: 10000 in A, 500000 in B largest")
    assert "A is" not in words(call, "a.npy", "b.npy")[1]
    assert "A is" not in words(call, "a.npy", "a.npy", "--identify")[1]


@pytest.mark.long
def test_an_encoding_beside_a_file_says_which_parameter_is_another(call, tmp_path):
    np.save(tmp_path / "b.npy", matrix("sinusoidal", "0:64", dim=32))
    status, told = words(call, "sinusoidal", "b.npy", "-d", "32", "--set", "a.layout=concat")
    assert status == 1
    assert " cause: layout: concat in A, interleaved in B largest difference" in told
    np.save(tmp_path / "b.npy", np.random.default_rng(0).standard_normal((64, 32)))
    assert "cause:" not in words(call, "sinusoidal", "b.npy", "-d", "32")[1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({"layout": "interleaved"}, {"layout": "concat"}, ("layout interleaved", "layout concat")),
        ({"spacing": "vaswani"}, {"spacing": "tensor2tensor"}, ("vaswani", "tensor2tensor")),
        ({"at": "0:64"}, {"at": "7:71"}, ("positions 0:64", "positions 7:71")),
        (
            {"scheme": "rope", "table": "cos-full", "dim": 32},
            {"scheme": "rope", "table": "sin-full", "dim": 32},
            ("table cos-full", "table sin-full"),
        ),
    ],
)
def test_what_differs_stands_in_both_identities(tmp_path, first, second, told, report):
    for name, own in (("a", first), ("b", second)):
        given = {"scheme": "sinusoidal", "at": "0:64", "dim": 32, **own}
        table = matrix(given.pop("scheme"), given.pop("at"), **given)
        np.save(tmp_path / f"{name}.npy", table)
    identities = report("compare", "a.npy", "b.npy", "--identify")[1]["identities"]
    assert [words in identities[key] for key, words in zip("ab", told, strict=True)] == [True] * 2
    assert identities["a"] != identities["b"]


def plotted(call, *arguments):
    status, out, _ = call("compare", *arguments, "--plot", "--json")
    assert status in (0, 1)
    return json.loads(out)


def test_the_picture_of_a_difference_holds_every_difference(call):
    a, b = np.random.default_rng(0).standard_normal((2, 5, 7))
    a[1, 2] = b[1, 2] = np.nan
    b[2, 2] = np.inf
    np.save("a.npy", a)
    np.save("b.npy", b)
    document = plotted(call, "a.npy", "b.npy")
    expected = np.where(np.isfinite(a - b), a - b, np.nan)
    expected[1, 2] = 0
    np.testing.assert_array_equal(np.array(document["values"], float), expected)
    place = "largest difference NaN or infinity at row 2, column 2"
    assert document["title"] == f"{place}: 'a.npy' − 'b.npy'"
    assert document["notes"] == []


def test_a_difference_that_is_not_finite_is_told_apart_from_what_is_equal(call, tmp_path):
    values = np.random.default_rng(0).standard_normal((64, 32))
    np.save(tmp_path / "a.npy", values)
    values[3, 4] = np.nan
    np.save(tmp_path / "b.npy", values)
    for size in ((), ("--height", "90", "--width", "60")):
        _, out, err = call("compare", "a.npy", "b.npy", "--plot", *size)
        assert "0 elsewhere" in out
        assert "everywhere" not in out
        assert "?: not finite" in out
        assert ("each cell is the value farthest" in " ".join(out.split())) is not bool(size)
    assert "1 of 2048 values is not finite, shown as a gap" in err
    few = call("compare", "a.npy", "b.npy", "--plot", "--height", "20", "--width", "60")[2]
    assert re.search(r"1 of \d+ values drawn is not finite", few)


def test_of_more_cells_than_fit_the_farthest_is_drawn(call, tmp_path):
    values = np.random.default_rng(1).standard_normal((600, 50))
    values[431, 17] = -9
    np.save(tmp_path / "a.npy", values)
    np.save(tmp_path / "b.npy", np.zeros_like(values))
    document = plotted(call, "a.npy", "b.npy", "--height", "40", "--width", "10")
    drawn = np.array(document["values"])
    assert drawn.shape == (40, 10)
    down, across = [*document["rows"][1:], 600], [*document["columns"][1:], 50]
    for i, (top, bottom) in enumerate(zip(document["rows"], down, strict=True)):
        for j, (left, right) in enumerate(zip(document["columns"], across, strict=True)):
            part = values[top:bottom, left:right]
            assert drawn[i, j] == part.flat[abs(part).argmax()]
    assert drawn.min() == -9
    note = "each cell is the value farthest from 0 of up to 15 rows × 5 columns"
    assert document["notes"] == [note]
    assert document["title"].startswith("largest difference 9 at row 431, column 17: ")


def test_of_several_matrices_the_one_that_differs_most_is_drawn(call):
    document = plotted(call, "alibi", "alibi", "--set", "b.max_bias=4", "--heads", "4", "-l", "6")
    slopes = [2.0 ** -(8 * h / 4) - 2.0 ** -(4 * h / 4) for h in range(1, 5)]
    worst = int(np.argmax(np.abs(slopes)))
    distance = abs(np.subtract.outer(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(document["values"], -slopes[worst] * distance, atol=1e-15)
    assert f"matrix {worst} of 4, where they differ most" in document["title"]
    assert (document["row_label"], document["column_label"]) == ("query", "key")


def test_a_matrix_that_differs_most_need_not_be_the_first(call):
    values = np.zeros((3, 4, 5))
    values[2, 1, 3], values[0, 0, 0] = 7, 2
    np.save("a.npy", values)
    np.save("b.npy", np.zeros_like(values))
    document = plotted(call, "a.npy", "b.npy")
    assert document["values"] == values[2].tolist()
    place, which = "largest difference 7 at [2, 1, 3]", "matrix 2 of 3, where they differ most"
    assert document["title"] == f"{place}: 'a.npy' − 'b.npy', {which}"


def test_a_difference_of_complex_numbers_is_its_size(call):
    asked = ("--set", "b.base=100", "-l", "8", "-d", "8", "--table", "complex")
    document = plotted(call, "rope", "rope", *asked)
    a, b = (np.exp(1j * np.outer(np.arange(8), base ** (-np.arange(4) / 4))) for base in (1e4, 100))
    np.testing.assert_allclose(document["values"], abs(a - b), atol=1e-15)
    assert document["value_label"] == "|A − B|"


def test_frequencies_are_drawn_as_a_curve_and_rotations_by_their_wavelengths(call):
    asked = ("--set", "b.base=100", "-d", "8", "--table", "inv-freq")
    (curve,) = plotted(call, "rope", "rope", *asked)["curves"]
    expected = 1e4 ** (-np.arange(4) / 4) - 100 ** (-np.arange(4) / 4)
    np.testing.assert_allclose(curve["y"], expected, atol=1e-16)
    document = plotted(call, "llama-3.1-8b", "llama-3-8b")
    (curve,) = document["curves"]
    ratios = {pair["pair"]: pair["ratio"] for pair in document["pairs"]}
    assert curve["y"] == [ratios.get(pair, 1.0) for pair in range(64)]
    assert document["y_label"] == "wavelength of B / wavelength of A"
    assert curve["y"][35] == pytest.approx(1 / 8)
    title = "largest difference: pair 35, wavelength B/A 0.125: llama-3-8b ("
    assert document["title"].startswith(title)
    differing = "DIFFERENT: 35 of 64 frequency pairs differ"
    assert document["verdict"] == f"{differing}, pair 35 the most (wavelength B/A 0.125)"


@pytest.mark.long
def test_the_text_goes_with_the_picture_and_the_status_stays(call, tmp_path, printed):
    pair = ("compare", "rope", "rope", "--set", "b.base=100", "-l", "8", "-d", "8")
    out = printed(*pair, "--plot", status=1)
    assert out.index("A − B") < out.index("DIFFERENT: ") < out.rindex("at position")
    status, out, err = call(*pair, "--out", "difference.svg")
    assert status == 1
    assert "at position" in out
    assert err.startswith("wrote 'difference.svg': largest difference ")
    assert (tmp_path / "difference.svg").exists()
    assert call("compare", "rope", "rope", "-l", "8", "--plot")[0] == 0


def test_a_picture_that_cannot_be_drawn_takes_no_verdict_along(call, tmp_path):
    np.save(tmp_path / "ones.npy", np.ones((4, 4)))
    np.save(tmp_path / "nan.npy", np.full((4, 4), np.nan))
    asked = ("compare", "ones.npy", "nan.npy", "--out", "d.png")
    status, out, err = call(*asked)
    assert (status, out) == (1, call(*asked[:3])[1])
    assert err.startswith("posenc: warning: no picture: ")
    assert json.loads(call(*asked, "--json")[1])["ok"] is False
    assert not (tmp_path / "d.png").exists()


def test_what_multiplies_scores_beside_the_rotation_is_compared(report, printed):
    """mscale² of latent attention, which cancels in cosines and sines."""
    out = printed("compare", "deepseek-v3", "deepseek-v2-lite", status=1)
    assert "DIFFERENT: all 32 frequencies agree, but not the softmax scale" in out
    assert "× 1.87385 by the softmax scale" in " ".join(out.split())
    found = report("compare", "deepseek-v3", "deepseek-v2-lite")[1]
    factors = [found[side]["softmax_factor"] for side in "ab"]
    assert factors == pytest.approx([(1 + m * math.log(40)) ** 2 for m in (0.1, 0.0707)])
    assert report("compare", "deepseek-v3", "deepseek-v2-lite", "--tol", "0.2")[0] == 0
    assert report("compare", "deepseek-v3", "deepseek-v3")[0] == 0
    assert not posenc.compare("deepseek-v3", "deepseek-v2-lite").ok


def test_models_whose_layers_differ_are_compared_by_name(call, report):
    status, found = report("compare", "gemma-3-4b", "gemma-3-12b")
    losses = [loss["name"] for loss in found["losses"]]
    assert (status, found["kind"], losses) == (1, "models", ["layers"])
    assert report("compare", "gemma-3-4b", "gemma-3-4b")[0] == 0
    assert call("compare", "gemma-3-4b", "rope")[0] == 2
    status, found = report("compare", "gemma-3-4b", "gemma-3-12b", "--layer-type", "full_attention")
    assert (status, found["kind"]) == (0, "rotations")


@pytest.mark.parametrize(
    ("model", "change"),
    [("qwen3-vl-4b", "interleaved=false"), ("qwen2-vl-7b", "sections=24,24,16")],
)
def test_pairs_that_follow_other_axes_differ_though_text_does_not_show_it(
    call, model, change, printed
):
    out = printed("compare", model, model, "--set", f"b.{change}", status=1)
    assert "DIFFERENT: all 64 frequencies agree, but not the pairs or axes" in out
    assert "the axes they follow, differ" in out
    assert call("compare", model, model)[0] == 0
    assert call("compare", model, model, "--set", f"b.{change}", "--len", "64")[0] == 0


def test_what_turns_along_axes_is_compared_with_what_has_one_base(call, tmp_path):
    wan = {"_class_name": "WanTransformer3DModel", "attention_head_dim": 128, "num_layers": 30}
    wan |= {"num_attention_heads": 12, "patch_size": [1, 2, 2], "rope_max_seq_len": 1024}
    (tmp_path / "wan.json").write_text(json.dumps(wan))
    llama = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}
    (tmp_path / "llama.json").write_text(json.dumps(llama))
    for pair in (("wan.json", "llama.json"), ("llama.json", "wan.json")):
        status, out, _ = call("compare", *pair)
        assert (status, out[:11]) == (1, "DIFFERENT: ")


def test_without_a_length_schemes_that_are_not_rotary_are_compared_at_512_positions(call, report):
    status, document = report("compare", "sinusoidal", "rope", "--dim", "8")
    assert (status, document["shape"]) == (1, [512, 8])
    told = words(call, "sinusoidal", "rope", "--dim", "64", "--len", "128")[1]
    assert "largest difference 1.9995 at " in told  # rounded, and not to a whole number
    assert report("compare", "sinusoidal", "rope", "--dim", "8", "--len", "512")[1] == document


SMALL = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4}
SMALL |= {"rope_theta": 10000.0, "max_position_embeddings": 32768}
WINDOWED = {"model_type": "mistral", **SMALL, "sliding_window": 4096}
QWEN_2 = {"model_type": "qwen2", **SMALL, "use_sliding_window": True, "max_window_layers": 2}
QWEN_2 |= {"sliding_window": 64}


@pytest.mark.parametrize(
    ("first", "changed", "names"),
    [
        (WINDOWED, {"sliding_window": None}, ["window"]),
        (WINDOWED, {"sliding_window": 512}, ["window"]),
        (QWEN_2, {"sliding_window": 32}, ["window"]),
        (QWEN_2, {"use_sliding_window": False}, ["sliding-layers", "window"]),
        (QWEN_2, {"max_window_layers": 3}, ["sliding-layers", "window"]),
        (QWEN_2, {"num_key_value_heads": 4}, []),
    ],
)
def test_configs_that_differ_in_their_windows_differ(tmp_path, first, changed, names, report):
    (tmp_path / "a.json").write_text(json.dumps(first))
    (tmp_path / "b.json").write_text(json.dumps({**first, **changed}))
    status, found = report("compare", "a.json", "b.json")
    assert status == bool(names)
    assert list(dict.fromkeys(each["name"] for each in found.get("losses", []))) == names


@pytest.mark.parametrize("config", [WINDOWED, QWEN_2, {**SMALL, "model_type": "gemma2"}])
def test_windows_that_are_not_compared_with_an_engine_are_said(call, tmp_path, config):
    config = {"sliding_window": 64, **config}
    (tmp_path / "config.json").write_text(json.dumps(config))
    status, out, err = call("compare", "config.json", "--as", "vllm")
    assert status == 0
    assert "vllm's code for sliding windows was not checked" in " ".join((out + err).split())
    (tmp_path / "config.json").write_text(json.dumps({**WINDOWED, "sliding_window": None}))
    _, out, err = call("compare", "config.json", "--as", "vllm")
    assert "attention" not in err
    assert "not checked" not in out
