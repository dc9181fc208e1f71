"""Batches, heads and positions beside tables: what shows in some calls alone is seen."""

import ast
import importlib
import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.calls.patterns import SLOW
from tests.calls import supplied
from tests.diagnosis import mutants_calls
from tests.diagnosis.mutants_calls import HALVES, MUTANTS

WRONG = Path(mutants_calls.__file__)
RIGHT = Path(__file__).with_name("rights_calls.py")
HALF = ("rope-check", "-s", "rope", "-d", "32", "--layout", "half", "--json")
PAIRED_BESIDE = ("first_returned", "first_of_cache", "heads_of_q")
FAR = ("late_in_a_graph", "runs_without_a_minus")
"""Mistakes that only calls of few or many positions have, as those of a sample."""


def signature(name):
    """The class of a mutant: `make test` runs the first of each."""
    return [str(inspect.signature(getattr(mutants_calls, name)))]


@pytest.mark.sweep(len(MUTANTS), of=signature)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_that_some_calls_alone_show_is_named(name):
    cause, words = MUTANTS[name]
    layout = "interleaved" if name in PAIRED_BESIDE else "half"
    function, positions = getattr(mutants_calls, name), None if name in FAR else 4200
    found = posenc.rope_check("rope", impl=function, positions=positions, dim=32, layout=layout)
    assert not found.ok
    assert [each.cause for each in found.diagnosis] == [cause]
    assert words in f"{found.diagnosis[0].message}; {found.diagnosis[0].evidence}"


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "moving",
        "as_long_as_the_call",
        "in_two_parts",
        "GrowsRightly",
        "EndsWithItsLength",
        "EmptyAtFirst",
    ],
)
def test_what_follows_its_calls_in_a_right_way_passes(name, call):
    assert call(*HALF, "--impl", f"{WRONG}:{name}")[0] == 0


def conventions():
    """The functions of the file, which needs torch, and how each pairs columns."""
    for node in ast.parse(RIGHT.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            yield node.name, node.decorator_list[0].id == "half"
    for name in ("unreadable", "scripted", "scripted_module"):
        yield name, True


@pytest.mark.slow
@pytest.mark.parametrize(("name", "half"), [*conventions()])
def test_right_functions_of_every_convention_pass_and_what_is_not_tried_is_said(name, half):
    pytest.importorskip("torch", reason="torch is not installed")
    rights_calls = importlib.import_module("tests.calls.rights_calls")
    function, layout = getattr(rights_calls, name), "half" if half else "interleaved"
    found = posenc.rope_check("rope", impl=function, positions=4200, dim=32, layout=layout)
    assert found.ok
    untried = found.subject["call"]["untried"]
    assert any(note.startswith("not tried: ") for note in found.notes) == bool(untried)
    assert {"vectors of bfloat16", "vectors of float16"} <= {*found.subject["call"]["patterns"]}


@pytest.mark.long
def test_calls_that_would_take_long_are_said_not_to_be_tried(call, monkeypatch):
    monkeypatch.setattr("posenc_cli.calls.patterns.SLOW_SECONDS", 0)
    document = json.loads(call(*HALF, "--impl", f"{WRONG}:moving")[1])
    untried = document["subject"]["call"]["untried"]
    assert {f"65600 rows in one call ({SLOW})"} <= {*untried}


TWICE = """
from tests.diagnosis.mutants_calls import doubles, EXPONENTS, tables_of

def rotated(x, positions):
    return doubles.turned(x, *tables_of(positions, 5e5 ** -EXPONENTS))

def restarts(x, offset=0):
    return rotated(x, doubles.np.arange(x.shape[-2]))

def counts(x, positions):
    return rotated(x, doubles.np.arange(x.shape[-2]))
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ["restarts", "counts"])
def test_lost_positions_beside_a_wrong_base_are_given_no_false_cause(name, ran):
    document = ran(TWICE, name, *HALF[:-1], "--len", "600")[1]
    assert [why["cause"] for why in document["diagnosis"]] == ["unknown"]


DIES = """
import ctypes, os
from tests.diagnosis.mutants_calls import doubles

def of_many_heads(q, k, position_ids):
    if q.shape[1] > 100:
        os._exit(3)
    return doubles.placed_either_way(q, k, position_ids)

def of_many_rows(x, offset=0):
    if x.shape[-2] > 5000:
        ctypes.string_at(0)
    return doubles.mlx(x, offset)

def of_other_axes(x, positions):
    if x.ndim > 2:
        os._exit(3)
    return doubles.unsaid(x, positions)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "message", "evidence"),
    [
        (
            "of_many_rows",
            "the function crashed (SIGSEGV) in a call",
            ": of_many_rows(x, offset) with",
        ),
        ("of_many_heads", "the function ended its process with status 3 in a", "130 heads of q"),
        ("of_other_axes", "", ""),
    ],
)
def test_what_ends_its_process_in_a_call_that_callers_make_fails(name, message, evidence, ran):
    status, document = ran(DIES, name, *HALF[:-1], "--len", "66000")
    assert status == bool(message)
    for why in document["diagnosis"]:
        assert why["cause"] == "unknown"
        assert why["message"].startswith(message)
        assert evidence in why["evidence"]


DYNAMIC = ("rope-check", "-s", "rope-dynamic", *HALF[3:], "--set", "factor=4")


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("asked", "name"),
    [(DYNAMIC, "never_reset"), (DYNAMIC, "tables_never_reset"), (HALF, "left_once")],
)
def test_what_a_longer_call_leaves_behind_is_found(asked, name, call):
    status, out, _ = call(*asked, "--impl", f"{WRONG}:{name}")
    (why,) = json.loads(out)["diagnosis"]
    assert status == 1
    if name == "left_once":  # what it gives then is no call's
        assert (why["cause"], why["message"]) == (
            "unknown",
            "the function is not deterministic: a second call with the same arguments differs",
        )
    else:
        assert why["cause"] == "frequency-rule"
        assert "state leaks between calls: a short call after a longer one keeps" in why["message"]
        assert "they then equal a call up to 2048" in why["evidence"]
    assert "when called again after longer calls" in why["evidence"]


@pytest.mark.long
def test_what_goes_back_after_a_longer_call_passes(call):
    assert call(*DYNAMIC, "--impl", f"{WRONG}:always_reset")[0] == 0


@pytest.mark.slow
def test_a_longer_call_may_stretch_those_that_leave_the_original_context(call):
    status, out, _ = call(*DYNAMIC, "--len", "8192", "--impl", f"{WRONG}:kept_until_short")
    assert (status, json.loads(out)["diagnosis"]) == (0, [])


@pytest.mark.slow
def test_a_cache_that_is_cast_as_it_grows_is_no_rotation_left_behind(call):
    status, out, _ = call(*HALF, "--impl", f"{WRONG}:cast_as_it_grows")
    assert status == 1
    assert json.loads(out)["diagnosis"][0]["cause"] == "table-precision"


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("name", "length", "status"),
    [
        ("dies_after_a_far_call", (), 1),
        ("longer_than_before", ("--len", "2"), 1),
        ("dies_of_fifty_rows", ("--len", "51"), 1),
    ],
)
def test_a_short_call_again_is_tried_as_far_as_it_can_be(name, length, status, call):
    got, out, err = call(*HALF, *length, "--impl", f"{WRONG}:{name}")
    document = json.loads(out)
    assert (got, err) == (status, "")
    untried = [note for note in document["notes"] if note.startswith("not tried: ")]
    assert ("a short call again" in "".join(untried)) == (name == "dies_of_fifty_rows")


@pytest.mark.long
def test_what_goes_wrong_in_other_calls_besides_hides_no_cause(call):
    wrong = f"{WRONG}:another_base_and_left_once"
    document = json.loads(call(*HALF, "--impl", wrong)[1])
    assert [why["cause"] for why in document["diagnosis"]] == ["base"]
    (note,) = (note for note in document["notes"] if note.startswith("also wrong: "))
    assert "when called again after longer calls" in note


@pytest.mark.long
@pytest.mark.sweep(len(HALVES))
@pytest.mark.parametrize("name", HALVES)
def test_what_goes_wrong_in_half_precision_alone_is_found(name, call):
    pytest.importorskip("torch", reason="torch is not installed")
    status, out, err = call(*HALF, "--impl", f"{WRONG.with_name('mutants_halves.py')}:{name}")
    assert (status, err) == (1, "")
    (why,) = json.loads(out)["diagnosis"]
    assert why["cause"] == HALVES[name][0]
    assert HALVES[name][1] in why["message"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["rounded_frequencies", "rounded_angles"])
def test_the_last_positions_of_a_short_sequence_show_what_half_precision_does(name, call):
    """None of the positions that bfloat16 lacks is among them."""
    pytest.importorskip("torch", reason="torch is not installed")
    wrong = f"{WRONG.with_name('mutants_halves.py')}:{name}"
    status, out, _ = call(*HALF, "--len", "128", "--impl", wrong)
    (why,) = json.loads(out)["diagnosis"]
    assert (status, why["cause"]) == (1, HALVES[name][0])
    right = f"{WRONG.with_name('mutants_halves.py')}:rounded_positions"
    assert call(*HALF, "--len", "128", "--impl", right)[0] == 0  # bfloat16 has all of them


@pytest.mark.slow
@pytest.mark.parametrize("length", ["2050", "4096"])
def test_positions_that_float16_lacks_are_tried_up_to_any_length(length, call):
    pytest.importorskip("torch", reason="torch is not installed")
    wrong = f"{WRONG.with_name('mutants_halves.py')}:rounded_positions_in_float16"
    assert call(*HALF, "--len", length, "--impl", wrong)[0] == 1


PARTIAL = """
import numpy as np


def right(x, positions):
    angles = np.multiply.outer(np.asarray(positions), 1e4 ** (-np.arange(8) / 8))
    angles = angles[:, None] if angles.ndim == 3 and x.ndim == 4 else angles
    a, b, rest = np.split(x, [8, 16], axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1).astype(x.dtype)


def zeroed(x, positions):
    return np.concatenate([right(x, positions)[..., :16], (x.ndim < 4) * x[..., 16:]], -1)


def zeroed_without_heads(x, positions):
    return np.concatenate([right(x, positions)[..., :16], (x.ndim != 3) * x[..., 16:]], -1)


def doubled(x, positions):
    return right(x, positions) * np.float32(1 + (x.ndim == 4))


def weighted(x, positions):
    y = right(x, positions)
    return y * np.arange(2, 2 + len(y[0]), dtype=y.dtype)[:, None, None] if y.ndim == 4 else y


def reshaped(x, positions):
    y = right(x, positions)
    return np.swapaxes(y, 1, 2).reshape(y.shape) if y.ndim == 4 else y


def averaged(x, positions):
    y = right(x, positions)
    return (y + np.roll(y, 1, 1)) / 2 if y.ndim == 4 else y
"""
OF_HALF_A_HEAD = (*HALF[:-1], "--set", "partial=0.5", "-l", "256")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "calls"),
    [("zeroed", "several sequences"), ("zeroed_without_heads", "vectors (b, n, d)")],
)
def test_unrotated_dimensions_that_are_wrong_in_batches_alone_fail(name, calls, ran):
    """A function of rows (n, d) that takes batches too, as its rotated dimensions show."""
    status, document = ran(PARTIAL, name, *OF_HALF_A_HEAD)
    (why,) = document["diagnosis"]
    assert (status, why["cause"]) == (1, "rotary-dim"), why
    assert why["message"] == f"unrotated dimensions change in calls with {calls}"
    status, document = ran(PARTIAL, "right", *OF_HALF_A_HEAD)
    assert (status, "not tested" in document["verdict"]) == (0, False), document


@pytest.mark.long
@pytest.mark.parametrize("name", ["reshaped", "averaged", "doubled"])
def test_heads_that_are_mixed_or_multiplied_in_batches_fail(name, ran):
    status, document = ran(PARTIAL, name, *OF_HALF_A_HEAD)
    (why,) = document["diagnosis"]
    assert (status, why["cause"]) == (1, "unknown"), why
    assert "depends on more than the row and its position" in why["message"]


@pytest.mark.long
def test_line_one_names_a_batch_whose_results_are_put_aside(ran):
    status, document = ran(PARTIAL, "weighted", *OF_HALF_A_HEAD)
    assert status == 0
    assert "not tested: batches (results differ" in document["verdict"]


FIRST_ROWS = """
import numpy as np


def turned(x, positions):
    angles = np.multiply.outer(positions, 1e4 ** (-np.arange(16) / 16))
    cos, sin = np.cos(np.tile(angles, 2)), np.sin(np.tile(angles, 2))
    return x * cos + np.concatenate([-x[..., 16:], x[..., :16]], -1) * sin


def first_of_each(x, positions):
    y = turned(x, positions)
    if x.ndim == 3:
        y[1:] = turned(x[1:], positions[..., :1])
    return y
"""


@pytest.mark.long
def test_rows_at_the_position_of_the_first_are_not_said_to_follow_their_head(ran):
    status, document = ran(FIRST_ROWS, "first_of_each", *HALF[:-1])
    (why,) = document["diagnosis"]
    assert (status, why["cause"]) == (1, "position-offset")


def in_rows(positions, x):
    """As vLLM's functions, which count the rows of all sequences."""
    x_rows = x.reshape(np.size(positions), -1, x.shape[-1])
    return supplied.rotated(x_rows, np.reshape(positions, (-1, 1))).reshape(x.shape)


@pytest.mark.parametrize(
    "of_k",
    [lambda _, k: k, lambda positions, k: in_rows(np.minimum(positions, 255), k)],
    ids=["unrotated", "clamped"],
)
def test_a_fault_of_k_is_not_reported_of_q(of_k):
    def rotate(positions, q, k):
        return in_rows(positions, q), of_k(positions, k)

    found = posenc.rope_check("rope", impl=rotate, positions=512, dim=32, layout="half")
    assert [why.message[:3] for why in found.diagnosis] == ["k: "], str(found)
