"""The signatures that people have: the form is found and said, and what is wrong is named by it."""

import json
from pathlib import Path

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.calls.call_form import forms
from posenc_cli.calls.serving import ServedFunction
from posenc_cli.calls.signature import NamedParameter, Signature
from tests.checks import rope
from tests.diagnosis import doubles

DOUBLES = Path(doubles.__file__)
HALF, NEIGHBOURS = ("-s", "rope", "-d", "32", "--layout", "half"), ("-s", "rope", "-d", "32")


def signature(text, library="numpy"):
    """The signature that a text declares."""
    parameters = []
    for part in text.split(", "):
        name, equals, default = part.partition("=")
        kind = "KEYWORD_ONLY" if name.startswith("!") else "POSITIONAL_OR_KEYWORD"
        parameters.append(NamedParameter(name.lstrip("!"), kind, default if equals else None))
    return Signature("f", False, tuple(parameters), (library,))


@pytest.mark.parametrize(
    ("declared", "roles", "axes"),
    [
        ("x, positions", "x, positions", "nd"),
        ("x, p", "x, positions", "nd"),
        ("a, b", "x, positions", "nd"),
        ("q, k, cos, sin, unsqueeze_dim=1", "q, k, cos, sin", "bhnd"),
        ("q, k, cos, sin, unsqueeze_dim=2", "q, k, cos, sin", "bnhd"),
        ("q, k, cos, sin, position_ids", "q, k, cos, sin, positions", "bhnd"),
        ("q, k, cos, sin, offset", "q, k, cos, sin, offset", "bhnd"),
        ("xq, xk, freqs_cis", "q, k, freqs_cis", "bnhd"),
        ("positions, query, key", "positions, q, k", "bhnd"),
        ("query, key, position_ids", "q, k, positions", "bhnd"),
        ("x, cos, sin, interleaved=False", "x, cos, sin, style", "bnhd"),
        ("x, !input_pos=None", "x, positions", "bnhd"),
        ("x, offset=0", "x, offset", "bhnd"),
        ("x, offset", "x, offset", "bhnd"),
        ("x", "x", "bhnd"),
        ("x, position_embeddings", "x, cos_sin", "bhnd"),
        ("position_ids", "positions", ""),
        ("dim, end, theta=10000.0", "dim, length, base", ""),
        ("a, b, c, d", "q, k, cos, sin", "bhnd"),
        ("q, k, v, positions", "q, k, v, positions", "bhnd"),
        ("positions, query, key, cos_sin_cache", "positions, q, k, freqs_cis", "bnhd"),
        ("freqs, t, start_index=0", "freqs_cis, x", "bnhd"),
    ],
)
def test_the_form_that_a_signature_names_comes_first(declared, roles, axes):
    first = forms(signature(declared), rope.reference("rope", dim=32))[0]
    assert (first.roles_text, first.axes) == (roles, axes)


def test_of_unknown_parameters_the_usual_form_of_each_number_comes_first():
    unknown = Signature("f", False, None, ("torch", "numpy"))
    found = forms(unknown, rope.reference("rope", dim=32))
    roles = {(form.roles_text, form.library) for form in found[:40]}
    for usual in ("x, positions", "x, freqs_cis", "q, k, cos, sin", "q, k, positions"):
        assert {(usual, "numpy"), (usual, "torch")} <= roles


def test_a_name_that_says_what_it_is_for_is_given_nothing_else():
    right = rope.reference("rope", dim=32)
    for declared in ("q, k, anything, positions", "x, cos, anything, offset"):
        assert forms(signature(declared), right) == []


def test_no_signature_is_tried_in_more_ways_than_tenths_of_a_second_take():
    right = rope.reference("rope", dim=32, partial=0.5)
    for declared in ("a, b", "a, b, c", "a, b, c, d", "a, b, c, d, e"):
        assert 0 < len(forms(signature(declared), right)) <= 480


RIGHT = {
    "transformers": (HALF, "q, k, cos, sin", "(1, n, 32), each value twice, in halves"),
    "transformers_4": (HALF, "q, k, cos, sin, positions", "float32, rows chosen by position_ids"),
    "transformers_2": (HALF, "q, k, cos, sin", "(1, n, heads, 32)"),
    "flash_attention": (HALF, "x, cos, sin, style", "(n, 16), a value for each pair"),
    "gpt_neox": (HALF, "q, k, cos, sin, offset", "float32, rows chosen by offset"),
    "mlx": (HALF, "x, offset", "x (1, heads, n, 32)"),
    "unnamed": (HALF, "x, offset", "t the first position"),
    "with_values": (HALF, "q, k, v, positions", "q, k, v (1, heads, n, 32)"),
    "keras": (HALF, "x, offset", "inputs (1, n, heads, 32)"),
    "whole": (HALF, "x", "x (1, n, heads, 32)"),
    "keras_layer": (HALF, "x, positions", "inputs (1, n, heads, 32)"),
    "one_sequence": (HALF, "x, offset", "x (n, 32)"),
    "one_sequence_from_zero": (HALF, "x", "x (n, 32)"),
    "first_position": (HALF, "x, offset", "pos the first position"),
    "with_dropout": (HALF, "q, k, offset", "offset the first position"),
    "llama_if_asked": (NEIGHBOURS, "x, freqs_cis", "freqs_cis (n, 16), complex"),
    "llama_tables": (HALF, "x, positions", "position_ids (1, n)"),
    "placed_either_way": (HALF, "q, k, positions", "positions (n,)"),
    "placed_one_way": (HALF, "q, k, positions", "positions (n,)"),
    "rows_from": (HALF, "x, length, offset", "seq_len how many rows the call has"),
    "rows_until": (HALF, "q, k, length, offset", "seq_len how many positions there are"),
    "tables_from": (HALF, "length, offset", "seq_len how many rows the call has"),
    "left_at_default": (HALF, "x, offset", "; not tested: index"),
    "tables_of_length": (HALF, "x, length", "seq_len how many positions"),
    "llama": (NEIGHBOURS, "q, k, freqs_cis", "xk (1, n, heads, 32); freqs_cis (n, 16), complex"),
    "gpt_fast": (NEIGHBOURS, "x, freqs_cis", "(n, 16, 2), cosine and sine"),
    "flux": (NEIGHBOURS, "x, cos_sin", "each value twice, side by side"),
    "torchtune": (NEIGHBOURS, "x, positions", "input_pos (1, n)"),
    "Torchtune": (NEIGHBOURS, "x, positions", "Torchtune(dim=32, max_seq_len=4096, base=10000)"),
    "precompute_freqs_cis": (NEIGHBOURS, "dim, length, base", "theta the reference's base"),
    "inv_freq": (NEIGHBOURS, "dim, base", "dim the rotary dimensions"),
    "flux_matrices": (NEIGHBOURS, "q, k, freqs_cis", "16, 2, 2), the 2 × 2 matrix of each pair"),
    "flux_rope": (NEIGHBOURS, "positions, dim, base", "dim the rotary dimensions"),
    "roformer": (NEIGHBOURS, "freqs_cis, q, k", "sines of all pairs, then cosines"),
    "sines_first": (HALF, "x, cos_sin", "each value twice, in halves"),
    "handed_on": (HALF, "q, k, cos, sin", "each value twice, in halves"),
    "given_frequencies": (HALF, "x, positions, inv_freq", "(16,), the reference's frequencies"),
    "unsaid": (HALF, "x, positions", "x (n, 32)"),
    "vllm": ((*HALF, "--in-place"), "positions, q, k", "left in place"),
    "sequence_first": (NEIGHBOURS, "q, k", "query_layer, key_layer (n, 1, heads, 32)"),
    "glm": (
        (*NEIGHBOURS, "--set", "partial=0.5"),
        "q, k, cos, sin",
        "cos, sin (1, n, 16), each value twice, in halves",
    ),
    "RotaryDim": (
        (*HALF, "--set", "partial=0.5"),
        "positions, q, k",
        (
            "RotaryDim(head_size=32, rotary_dim=16, max_position_embeddings=4096, base=10000, "
            "is_neox_style=True)"
        ),
    ),
    "Share": (
        (*HALF, "--set", "partial=0.5"),
        "positions, q, k",
        "Share(head_dim=32, rotary_pct=0.5, base=10000)",
    ),
    "share_of_head": ((*HALF, "--set", "partial=0.5"), "positions, dim, share", ""),
    "left_in_place": ((*HALF, "--in-place"), "x, positions", "left in place"),
}


@pytest.mark.sweep(len(RIGHT), of=lambda name: RIGHT[name][1:2])
@pytest.mark.parametrize("name", RIGHT)
def test_right_functions_of_every_shape_pass_and_their_form_is_said(name):
    given, form, words = RIGHT[name]
    found = posenc.rope_check(
        "rope",
        impl=getattr(doubles, name),
        positions=4096,
        dim=32,
        layout="half" if "half" in given else "interleaved",
        in_place="--in-place" in given,
        partial=0.5 if "partial=0.5" in given else 1,
    )
    assert found.ok
    assert found.subject["call"]["form"] == form
    assert words in " ".join([found.as_json()["verdict"], *found.notes])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scheme", "params", "made"),
    [
        ("LinearScaling", "rope-linear", ("factor=8",), "scaling_factor=8"),
        (
            "DynamicNTKScaling",
            "rope-dynamic",
            ("factor=2", "max_position_embeddings=300"),
            "max_position_embeddings=300, base=10000, scaling_factor=2",
        ),
        (
            "LongRopeScaling",
            "rope-longrope",
            (
                *("original_max_position_embeddings=300", "max_position_embeddings=9600"),
                "short_factor=" + ",".join(str(1 + 0.125 * i) for i in range(16)),
                "long_factor=" + ",".join(str(1 + 2.0 * i) for i in range(16)),
            ),
            "max_position_embeddings=9600, original_max_position_embeddings=300, base=10000",
        ),
        (
            "YarnScaling",
            "rope-yarn",
            (
                *("factor=16", "original_max_position_embeddings=512"),
                *("beta_slow=2", "attention_factor=1"),
            ),
            "beta_fast=32, beta_slow=2)",
        ),
    ],
)
def test_a_class_is_made_with_the_numbers_of_the_reference(name, scheme, params, made, call):
    asked = ["rope-check", "-s", scheme, "-d", "32", "--layout", "half", "--json"]
    for param in params:
        asked += ["--set", param]
    status, out, err = call(*asked, "--len", "1200", "--impl", f"{DOUBLES}:{name}")
    assert (status, err) == (0, ""), out
    assert made in " ".join(json.loads(out)["notes"])


@pytest.mark.slow
def test_tables_of_a_value_a_pair_are_found_where_half_of_a_head_turns(call):
    """Repeated ones turn twice as many columns, and keep lengths."""
    asked = ("rope-check", *HALF, "--set", "partial=0.5", "--json")
    status, out, _ = call(*asked, "--impl", f"{DOUBLES}:flash_attention")
    assert status == 0
    assert "(n, 8), a value for each pair" in json.loads(out)["subject"]["call"]["text"]


TURNS_V = """
from tests.diagnosis.doubles import *
def f(q, k, v, positions):
    return with_values(v, k, q, positions)
def g(q, k, v, positions):
    return with_values(q, k, v, positions)
"""


@pytest.mark.long
def test_v_is_not_taken_for_q_and_comes_back_as_it_was(ran):
    for name, expected in (("f", 1), ("g", 0)):
        status, document = ran(TURNS_V, name, "rope-check", *HALF, "--len", "40")
        assert status == expected
        assert ("v beside q and k" in document["subject"]["call"]["patterns"]) == (name == "g")


AXES = [
    ("transformers", "bhnd", 0, ""),
    ("transformers_2", "bhnd", 1, "vectors are read in the axes bnhd, not bhnd"),
    ("transformers", "bnhd", 1, "vectors are read in the axes bhnd, not bnhd"),
    ("mlx", "bhnd", 0, ""),
    ("keras", "bhnd", 1, "are not one rotation of all heads"),
    ("gpt_neox", "nbhd", 0, ""),
    ("one_sequence", "nd", 0, ""),
    ("one_sequence", "bhnd", 1, "vectors are read in the axes nd, not bhnd"),
    ("q_alone", "bnhd", 1, "nothing rotates"),
]


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize(("name", "axes", "status", "words"), AXES)
def test_a_function_takes_the_axes_that_are_required_or_fails(name, axes, status, words, call):
    asked = ("rope-check", *HALF, "--len", "40", "--json", "--axes", axes)
    found, out, err = call(*asked, "--impl", f"{DOUBLES}:{name}")
    document = json.loads(out)
    assert (found, err) == (status, "")
    told = " ".join(f"{why['message']}; {why['evidence']}" for why in document["diagnosis"])
    assert words in told
    causes = {why["cause"] for why in document["diagnosis"]}
    assert ("axis" in causes) == ("vectors are read" in told)
    assert document["subject"]["call"]["usual_axes"] is None


@pytest.mark.long
def test_axes_that_are_not_the_usual_are_said_where_a_function_passes(call):
    asked = ("rope-check", *HALF, "--len", "40", "--impl")
    said = "; its axes are bnhd, not the usual bhnd (--axes bhnd requires those)"
    for name, is_said in (("transformers_2", True), ("transformers", False), ("vllm", False)):
        in_place = ("--in-place",) if name == "vllm" else ()
        status, out, _ = call(*asked, f"{DOUBLES}:{name}", *in_place)
        assert (status, said in " ".join(out.split())) == (0, is_said)
    status, out, _ = call(*asked, f"{DOUBLES}:transformers_2", "--json")
    called = json.loads(out)["subject"]["call"]
    assert (called["axes"], called["usual_axes"]) == ("bnhd", "bhnd")


def test_an_order_of_axes_is_one_that_is_known(call):
    status, _, err = call("rope-check", *HALF, "--impl", f"{DOUBLES}:mlx", "--axes", "bhdn")
    assert status == 2
    assert "--axes 'bhdn': must be one of bhnd, bnhd, hnd, nhd, nd, nbhd" in err


def test_what_needs_more_than_positions_is_given_none_in_its_place(call):
    status, _, err = call("rope-check", *HALF, "--impl", f"{DOUBLES}:sections")
    assert status == 2
    assert "not a known call form" in err


@pytest.mark.long
def test_an_image_is_not_given_and_the_refusal_says_so(ran):
    """DINOv3's module takes pixel_values, whose size in patches is the grid."""
    status, err = ran("def f(pixel_values): return pixel_values", "f", "rope-check", *HALF)
    assert (status, "needs pixel_values, which posenc does not give" in err) == (2, True)


@pytest.mark.slow
def test_heads_side_by_side_in_rows_are_looked_at(call):
    status, out, _ = call("rope-check", *HALF, "--impl", f"{DOUBLES}:flattened", "--json")
    (why,) = json.loads(out)["diagnosis"]
    assert (status, why["cause"]) == (1, "no-rotation")
    assert "heads" in why["message"]


WRONG = {
    "q_alone": (
        "no-rotation",
        "k: nothing rotates",
        "q and k are rotated differently",
    ),
    "pairs_of_k": (
        "layout",
        "k: the code pairs dimensions 2i",
        "columns are paired or ordered differently",
    ),
    "exchanged": ("unknown", *["the results for q and k are exchanged"] * 2),
    "k_later": ("position-offset", "k: positions are shifted by +1", "holds for all q and k"),
    "offset_ignored": ("position-offset", "", "positions restart at 0 in "),
    "cache_ignored": ("position-offset", "are ignored: rows are numbered from 0", ""),
    "restarted": ("position-offset", "", "positions restart at 0 in "),
    "growing": ("unknown", "depends on more than the row", ""),
    "short_of_rows": (
        "no-rotation",
        "in some calls rows are returned unrotated",
        "in some calls rows are returned unrotated",
    ),
}


@pytest.mark.sweep(len(WRONG), of=lambda name: WRONG[name][:1])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_by_what_is_called(name, call):
    cause, message, relative = WRONG[name]
    asked = NEIGHBOURS if name == "cache_ignored" else HALF  # of torchtune
    status, out, _ = call("rope-check", *asked, "--impl", f"{DOUBLES}:{name}", "--json")
    document = json.loads(out)
    assert status == 1
    assert document["diagnosis"][0]["cause"] == cause
    assert message in document["diagnosis"][0]["message"]
    assert relative in document["findings"][0]["message"]


@pytest.mark.slow
def test_columns_of_q_and_k_come_out_in_one_order_or_scores_are_wrong(call):
    asked = ("rope-check", *HALF, "--len", "40", "--json", "--impl")
    status, out, _ = call(*asked, f"{DOUBLES}:q_reordered")
    document = json.loads(out)
    failed = [finding["check"] for finding in document["findings"] if not finding["ok"]]
    assert (status, failed) == (1, ["relative", "reference"])
    (why,) = document["diagnosis"]
    assert (why["cause"], why["message"]) == (
        "layout",
        "q and k are returned with their dimensions in different orders",
    )
    status, out, _ = call(*asked, f"{DOUBLES}:both_reordered")
    document = json.loads(out)
    assert status == 0
    assert "output dimensions are interleaved" in " ".join(document["notes"])
    subject = document["subject"]
    assert (subject["layout"], subject["out_layout"]) == ("half", "interleaved")
    _, out, _ = call(*(each for each in asked if each != "--json"), f"{DOUBLES}:both_reordered")
    verdict = " ".join(out.split("\n\n")[0].split())
    assert "; its input layout is half, its output layout interleaved" in verdict


@pytest.mark.slow
def test_tables_that_are_given_do_not_hide_how_columns_are_paired(call):
    status, out, _ = call("rope-check", *NEIGHBOURS, "--impl", f"{DOUBLES}:transformers", "--json")
    assert status == 1
    assert [why["cause"] for why in json.loads(out)["diagnosis"]] == ["layout"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "more", "status", "words"),
    [
        ("five", (), 2, "takes (a, b, c, d, e, f), not a known call form"),
        ("five", (), 2, "name the roles of its arguments, as --call q,k,cos,sin"),
        ("left_in_place", (), 2, "--in-place takes the result from its input"),
        ("transformers", ("--in-place",), 2, "without --in-place, the result is what it returns"),
        ("transformers", ("--call", "q,k,positions"), 2, "suggests --call q,k,cos,sin"),
        ("transformers", ("--call", "q,k,cos,sin"), 0, "q, k (1, heads, n, 32)"),
        ("transformers", ("--call", "q,k,cosine"), 2, "must be one of x, q, k"),
    ],
)
def test_a_call_that_does_not_fit_is_answered_by_the_one_that_does(name, more, status, words, call):
    found, out, err = call("rope-check", *HALF, "--verbose", "--impl", f"{DOUBLES}:{name}", *more)
    assert found == status
    assert words in " ".join((out + err).split())


def test_a_refusal_names_the_arguments_that_are_not_known(ran):
    code = "def apply(x, patches, freqs): ..."
    status, err = ran(code, "apply", "rope-check", *HALF)
    assert status == 2
    assert "not a known call form: posenc does not know the use of patches\n" in err
    assert "--tables cos.npy sin.npy" in err


def test_only_a_table_named_emb_is_in_the_order_of_timm(call, tmp_path):
    """Names such as ``rotary_emb`` say no order: cosines before sines are not called swapped."""
    (tmp_path / "tables.py").write_text(
        "import numpy as np\n"
        "def f(x, rotary_emb):\n"
        "    cos, sin = np.split(rotary_emb, 2, -1)\n"
        "    a, b = np.split(x, 2, -1)\n"
        "    return x * cos + np.concatenate([-b, a], -1) * sin\n"
    )
    status, out, err = call("rope-check", *HALF, "--impl", "./tables.py:f")
    assert (status, "swapped" in out + err) == (2, False)


@pytest.mark.parametrize(
    "flag", [("--in-place",), ("--call", "x"), ("--python", "python3"), ("--axes", "bhnd")]
)
def test_how_to_call_goes_with_a_function(flag, call):
    status, _, err = call("rope-check", *HALF, *flag)
    assert status == 2
    assert flag[0] in err
    assert "needs --impl" in err


@pytest.mark.long
def test_a_function_is_never_found_right_by_the_way_it_is_called(tmp_path):
    # Which form is taken does not depend on the reference.
    (tmp_path / "f.py").write_text("def f(x, positions): return x * 2\n")
    chosen = []
    for scheme in ("rope", "rope-linear"):
        right = rope.reference(scheme, dim=32)
        asked = ServedFunction(f"{tmp_path / 'f.py'}:f", right, _plain(), context=64)
        with asked as function:
            chosen.append(function.form)
    assert chosen[0] == chosen[1]


@pytest.mark.long
def test_what_a_function_keeps_of_a_call_in_another_form_is_not_held_against_it(call, tmp_path):
    """The first call says how long the table is, and one with other axes asks for a short one."""
    (tmp_path / "mine.py").write_text(f"""
import sys
import numpy as np
sys.path.insert(0, {str(DOUBLES.parent)!r})
from doubles import full, turned
last = 0
def f(inputs, start_index=0):
    global last
    last = last or (10**9 if inputs.shape[1] > inputs.shape[2] else 63)
    where = np.minimum(np.arange(inputs.shape[1]) + start_index, last)
    return turned(inputs, *(table[:, None] for table in full(where)))
""")
    assert call("rope-check", *HALF, "--impl", "./mine.py:f", "--len", "128")[0] == 0


@pytest.mark.long
def test_tables_that_end_before_the_positions_asked_for_are_refused(ran):
    own = f"import sys; sys.path.insert(0, {str(DOUBLES.parent)!r})\nfrom doubles import full\n"
    code = own + "def f(seq_len): return full(range(min(seq_len, 512)))"
    status, err = ran(code, "f", "rope-check", *HALF)
    assert status == 2
    assert "returned tables whose shape changes with the number of positions\n" in err


def _plain():
    from posenc_cli.calls.signature import CallRequest

    return CallRequest()


@pytest.mark.slow
@pytest.mark.parametrize(("power", "status"), [("1 / growth", 0), ("growth", 1)])
def test_amplitudes_grow_for_keys_as_they_fall_for_queries(ran, power, status):
    code = f"""
        import numpy as np
        def turned(x, angles, growth):
            z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles) * growth
            return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)
        def q_and_k(q, k, positions):
            pair = np.arange(0, 64, 2)
            angles = np.outer(positions, 10_000.0 ** (-pair / 64))
            share = (pair + 0.4 * 64) / (1.4 * 64)
            growth = share ** ((positions[:, None] - 32) / 512)
            return turned(q, angles, growth), turned(k, angles, {power})
    """
    assert ran(code, "q_and_k", "rope-check", "-s", "xpos", "-l", "64")[0] == status


@pytest.mark.slow
def test_tables_of_old_transformers_have_axes_before_their_rows(call, tmp_path):
    """Its caches were (1, 1, n, d), chosen from by position_ids (1, n)."""
    (tmp_path / "old.py").write_text(
        "import numpy as np\n"
        "def half(x):\n"
        "    return np.concatenate([-x[..., 32:], x[..., :32]], -1)\n"
        "def apply(q, k, cos, sin, position_ids):\n"
        "    cos, sin = (t.squeeze(1).squeeze(0)[position_ids][:, None] for t in (cos, sin))\n"
        "    return q * cos + half(q) * sin, k * cos + half(k) * sin\n"
    )
    asked = ("rope-check", "-s", "rope", "--layout", "half", "-l", "64", "--json")
    status, out, err = call(*asked, "--impl", "old.py:apply")
    assert (status, err) == (0, "")
    asked_for = json.loads(out)["subject"]["call"]
    other_shape, untried = asked_for["untried"]
    assert "position_ids (n,) (raised ValueError: " in other_shape
    assert untried.startswith("q shorter than k (raised ValueError: ")
    assert "position_ids (1, n)" in asked_for["text"]
    assert "cos, sin (1, 1, n, 64), each value twice, in halves" in asked_for["text"]


@pytest.mark.long
def test_a_function_without_positions_gets_no_longer_call_than_was_asked_for(ran):
    """Its tables end with the context, and later rows are rotated as its last."""
    code = """
        import numpy as np
        def rotate(x):
            positions = np.minimum(np.arange(x.shape[-2]), 4095)
            angles = np.outer(positions, 1e4 ** -(np.arange(16) / 16))
            cos, sin = (np.tile(f(angles), 2).astype(np.float32) for f in (np.cos, np.sin))
            return x * cos + np.concatenate([-x[..., 16:], x[..., :16]], -1) * sin
    """
    assert ran(code, "rotate", "rope-check", *HALF, "--len", "4096")[0] == 0
    status, document = ran(code, "rotate", "rope-check", *HALF)
    assert (status, "positions are clamped at 4095" in document["cause"]) == (1, True)


def test_an_offset_with_which_no_call_succeeds_is_said_not_to_be_tried(ran, tmp_path):
    code = """
        import doubles
        def rotate(x, offset=None):
            assert offset is None
            return doubles.mlx(x, 0)
    """
    (tmp_path / "doubles.py").write_text(DOUBLES.read_text("utf-8"), "utf-8")
    status, document = ran(code, "rotate", "rope-check", *HALF, "--len", "64")
    assert status == 0
    untried = document["subject"]["call"]["untried"]
    assert "offset, because each call with it raised an error" in untried


HALVES = """
import numpy as np


def table(num_pos, dim):
    angles = np.outer(np.arange(num_pos), 1e4 ** (-np.arange(0, dim, 2) / dim))
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def backward(num_pos, dim):
    sin, cos = np.split(table(num_pos, dim), 2, axis=1)
    return np.concatenate([-sin, cos], 1)


def twice(positions, dim=32):
    angles = np.outer(positions, 1e4 ** (-np.arange(0, dim, 2) / dim))
    return np.concatenate([angles, angles], 1)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "status", "cause"),
    [("table", 0, None), ("backward", 1, "direction"), ("twice", 0, None)],
)
def test_one_table_holds_sines_beside_cosines_or_angles_twice(name, status, cause, ran):
    """GPT-J's create_sinusoidal_positions, which transformers has."""
    found, document = ran(HALVES, name, "rope-check", *NEIGHBOURS, "-l", "4096")
    said = document["cause"]
    assert (found, said and said.partition(":")[0]) == (status, cause), document


def test_rows_on_the_first_axis_are_found_beside_an_attention_factor():
    """As in gpt-oss: nothing but the factor changes a batch of one sequence."""

    def rotate(query, key):
        def rotated(x):
            rows = x.reshape(len(x), -1, 8).swapaxes(0, 1).astype("f4")
            scaled = [posenc.rotate(head, None, len(x), "rope-yarn", **YARN) for head in rows]
            return np.stack(scaled, 1).reshape(x.shape).astype("f4")

        return rotated(query), rotated(key)

    found = posenc.rope_check("rope-yarn", impl=rotate, positions=64, **YARN)
    assert (found.ok, found.subject["call"]["axes"]) == (True, "nhd"), str(found)


YARN = {"dim": 8, "factor": 4, "original_max_position_embeddings": 64}
