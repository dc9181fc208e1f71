"""A parameter with a role is supplied and varied by itself, and the result responds as it must."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.calls.roles import ROLES
from posenc_cli.checks.calling import implementation
from posenc_cli.positions import Positions
from posenc_cli.rotary.verdict import examine
from tests.calls import supplied
from tests.calls.supplied import UNTESTED, WRONG
from tests.checks import rope

FILE = Path(supplied.__file__)
ASKED = ("rope-check", "-s", "rope", "-d", "32", "--layout", "half", "--len", "256", "--json")
HELPERS = (
    "wrong",
    "untested",
    "rotated",
    "rows",
    "beside_heads",
    "turned_by",
    "tables_of",
    "Settings",
)
NAMES = [
    node.name
    for node in ast.parse(FILE.read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name not in HELPERS
]


def checked(name):
    """The report of a function, in a process of its own where it may end that."""
    supplied.calls.clear()
    own = {*getattr(supplied, name).__code__.co_names} if name.islower() else set()
    function = f"{FILE}:{name}" if own & {"_exit", "sleep"} else getattr(supplied, name)
    return posenc.rope_check("rope", impl=function, positions=256, dim=32, layout="half")


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NAMES if name not in WRONG])
def test_a_right_function_passes_and_line_one_says_what_was_not_tested(name):
    found = checked(name)
    assert found.ok
    said = found.as_json()["verdict"].partition("; not tested: ")[2]
    assert said == UNTESTED.get(name, "")


def test_a_number_of_dimensions_that_a_function_ignores_is_said_to_change_nothing():
    notes = checked("all_dimensions_it_gets").notes
    assert any("another partial (changing it changes nothing)" in note for note in notes)


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_its_wrong_twin_fails(name, monkeypatch):
    if name == "hangs_at_offsets":
        monkeypatch.setattr("posenc_cli.calls.function_process.SECONDS", 3)
    found = checked(name)
    assert not found.ok
    why, (cause, words) = found.diagnosis[0], WRONG[name]
    assert (why.cause, words in why.message) == (cause, True), why


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("offsets_subtracted", "called with offsets from 5 to 7"),
        ("turned_back_by_cosines_first", "its table holds cosines, then sines, not timm's order"),
    ],
)
def test_a_failed_report_says_how_a_function_was_called(name, words):
    found = checked(name)
    assert words in found.as_json()["verdict"] + found.diagnosis[0].evidence


def test_cosines_before_sines_are_recognized_beside_an_attention_factor():
    given = {"dim": 32, "factor": 4, "original_max_position_embeddings": 64, "layout": "half"}
    function = supplied.turned_by_cosines_first
    assert posenc.rope_check("rope-yarn", impl=function, positions=256, **given).ok


@pytest.mark.parametrize(
    ("base", "error", "cause"), [(1e4, 4e-7, None), (5e5, 4e-7, "base"), (1e4, 1e-5, "unknown")]
)
def test_single_rows_may_have_other_roundings_of_their_angles(base, error, cause):
    """XLA divides a position by a timescale otherwise in one row than in many."""

    def rotate(x, positions):
        rounded = np.asarray(positions) * (1 + error * (x.shape[-2] == 1))
        y = rounded[..., None] / base ** (np.arange(0, 32, 2) / 32)
        a, b = np.split(x, 2, -1)
        cos, sin = (turn(y).reshape(-1, *[1] * (x.ndim == 4), *y.shape[-2:]) for turn in TURNS)
        turned = np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
        return turned.reshape(x.shape).astype(x.dtype)

    found = posenc.rope_check("rope", impl=rotate, dim=32, layout="half")
    assert [why.cause for why in found.diagnosis] == [cause] * (cause is not None), str(found)


TURNS = (np.cos, np.sin)


def test_a_function_of_angles_with_other_pairs_than_the_reference_ends_in_a_verdict():
    """Megatron's rotates as many dimensions as its angles have; here half of the sines are
    negated.
    """

    def rotate(t, freqs):
        dim, angles = freqs.shape[-1], np.real(freqs)
        a, b = np.split(t[..., :dim], 2, axis=-1)
        sines = np.sin(angles) * np.repeat([1.0, -1.0], dim // 2)
        y = t[..., :dim] * np.cos(angles) + np.concatenate([-b, a], -1) * sines
        return np.concatenate([y, t[..., dim:]], -1).astype(t.dtype)

    assert not posenc.rope_check("rope", impl=rotate, positions=256, dim=32, layout="half").ok


@pytest.mark.long
def test_a_number_format_that_is_asked_for_is_that_of_results_alone(ran):
    code = """
        import numpy as np
        def f(positions, dtype=np.float32):
            places = np.asarray(positions).astype(dtype).astype(float)
            angles = np.multiply.outer(places, 1e4 ** -(np.arange(0, 32, 2) / 32))
            return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
        def g(positions, dtype=np.float32):
            return tuple(own.astype(dtype) for own in f(positions))
    """
    status, document = ran(code, "f", *ASKED[:-3], "--len", "3000")
    why = document["diagnosis"][0]
    words = "positions are rounded to float16, as results are"
    assert (status, why["cause"], why["message"]) == (1, "position-precision", words)
    status, document = ran(code, "g", *ASKED[:-3], "--len", "3000")
    assert (status, "not tested" in document["verdict"]) == (0, False)


@pytest.mark.long
@pytest.mark.parametrize("first", [256, 300, 450])
@pytest.mark.parametrize("made", ["vectors", "tables"])
def test_rows_that_begin_late_are_compared_with_the_reference(first, made, ran):
    """Not only with other calls that begin there."""
    code = f"""
        import numpy as np
        from tests.calls.supplied import rotated
        def vectors(x, start_pos=0):
            late = 0 if start_pos >= {first} else 1
            return rotated(x, late * (start_pos + np.arange(x.shape[-2])))
        def tables(length, start_pos):
            late = 0 if start_pos >= {first} else 1
            places = late * (start_pos + np.arange(length))
            angles = np.multiply.outer(places, 1e4 ** -(np.arange(0, 32, 2) / 32))
            return np.cos(angles), np.sin(angles)
    """
    status, document = ran(code, made, *ASKED[:-3], "--len", "512")
    why = document["diagnosis"][0]
    known = ("no-rotation", "position-offset")  # at position 0, so not at all
    assert (status, why["cause"] in known) == (1, True), why


@pytest.mark.long
@pytest.mark.parametrize("count", ["2", "6"])
@pytest.mark.parametrize(
    "name",
    ["places_by_mask", "bounded", "positions_or_offset", "TablesOfLength", "in_asked_format"],
)
def test_few_positions_leave_out_calls_and_end_in_a_verdict(count, name, call):
    asked = [count if given == "256" else given for given in ASKED]
    assert call(*asked, "--impl", f"{FILE}:{name}")[0] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("supplied.ids(x, position_ids)", "several sequences or heads in one call"),
        ("np.cos(angles), np.sin(angles)", "positions of several sequences in one call"),
    ],
    ids=["vectors", "tables"],
)
def test_line_one_says_that_no_batch_is_tried_of_few_positions(result, said, ran):
    code = f"""
        import numpy as np
        from tests.calls import supplied
        def f({"x, " * ("ids" in result)}position_ids):
            places = np.asarray(position_ids, float)
            angles = np.multiply.outer(places, 1e4 ** -(np.arange(0, 32, 2) / 32))
            return {result}
    """
    status, document = ran(code, "f", *ASKED[:-3], "--len", "16")
    assert status == 0, document
    assert document["verdict"].partition("; not tested: ")[2] == said


@pytest.mark.long
def test_line_one_says_that_no_batch_is_tried_where_frequencies_follow_the_length(ran):
    code = """
        import numpy as np
        def f(x, positions):
            places = np.asarray(positions)
            if places.ndim == 2:
                places = places[0]
            n = max(int(places.max()) + 1, 64)
            base = 1e4 * (2 * n / 64 - 1) ** (32 / 30)
            angles = np.multiply.outer(places, base ** -(np.arange(0, 32, 2) / 32))
            a, b = np.split(x, 2, -1)
            c, s = np.cos(angles), np.sin(angles)
            return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)
    """
    dynamic = "rope-check -s rope-dynamic --set factor=2 --set max_position_embeddings=64"
    status, document = ran(code, "f", *dynamic.split(), *ASKED[3:7], "--len", "128")
    assert status == 0, document
    assert "; not tested: several sequences or heads in one call" in document["verdict"]


@pytest.mark.long
def test_a_module_is_made_for_use_not_for_training(ran):
    code = """
        from tests.calls.supplied import ids
        class Rope:
            training = True
            def eval(self):
                self.training = False
            def __call__(self, x, positions):
                return x if self.training else ids(x, positions)
    """
    assert ran(code, "Rope", *ASKED[:-1])[0] == 0


FIRST = (
    ("x, positions", "x, positions"),
    ("x, positions=None", "x, positions"),
    ("q, k, *, position_ids", "q, position_ids"),
    ("x, offset=0", "x, offset + supplied.rows(x)"),
)
"""Parameters that a function rotates by, and those of the rotation."""

WIDTHS = ("heads", "key_heads", "dim")
"""Roles that say what stands side by side: a function must heed them."""

SEEN: dict[str, set[str]] = {}
"""What each parameter was given, in all calls of a function."""


def noted(given):
    for name, value in given.items():
        array = hasattr(value, "shape")
        SEEN.setdefault(name, set()).add(str((value.shape, value.sum()) if array else value))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_a_parameter_is_given_other_values_or_line_one_names_it(seed):
    """Also one that posenc knows nothing of, and several at once; only formats may be left out."""
    drawn = random.Random(seed)
    placed, rotated = FIRST[seed % len(FIRST)]
    may_be = [
        role
        for role in ROLES
        if role.response == "same" and role.kind != "vectors" and role.name not in WIDTHS
    ]
    names = [drawn.choice(role.names) for role in drawn.sample(may_be, 3)]
    names = [name for name in (*names, "eps", "training") if f"{name}=" not in f"{placed}="]
    text = f"def f({placed}, {'' if '*' in placed else '*, '}{'=None, '.join(names)}=None):\n"
    text += "    noted(locals())\n"
    first, second = rotated.split(", ", 1)
    text += f"    y = supplied.ids({first}, {second})\n"
    text += "    return (y, supplied.ids(k, position_ids))\n" if "q" in placed else "    return y\n"
    space = {"supplied": supplied, "noted": noted}
    exec(text, space)
    SEEN.clear()
    where = Positions.parse("0:64")
    reference = rope.reference("rope", dim=32, layout="half")
    subject = implementation(space["f"], reference, where)
    found = examine(subject, reference, "auto")
    at_fault = {one.message.split()[0] for one in subject.other_calls}
    assert found.ok or (at_fault and at_fault <= {*names}), text
    said = {name.split()[0] for name in subject.call["untested"]}
    fixed = {name for name in SEEN if len(SEEN[name]) < 2}
    assert fixed <= said | {"dtype", "torch_dtype", "device"} or not found.ok, text
    assert {"eps", "training"} <= said or not found.ok
