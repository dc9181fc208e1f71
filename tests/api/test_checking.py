"""Arrays, tensors and functions that are checked from Python, as the command checks files."""

import json
import re

import numpy as np
import pytest

import posenc_cli as posenc

ROPE = {"dim": 16, "base": 5e5}
ONES = np.ones((64, 16))


def right(count=128, **parameters):
    return posenc.tables("rope", count, **{**ROPE, **parameters})


@pytest.mark.long
def test_right_tables_pass_and_the_report_is_the_commands(call, tmp_path):
    cos, sin = right()
    np.save(tmp_path / "cos.npy", cos)
    np.save(tmp_path / "sin.npy", sin)
    asked = ("rope-check", "-s", "rope", "-d", "16", "--base", "5e5", "--tables")
    for tables, status in (((cos, sin), 0), ((sin, cos), 1)):
        np.save(tmp_path / "cos", tables[0])
        np.save(tmp_path / "sin", tables[1])
        report = posenc.rope_check("rope", tables=tables, **ROPE)
        found, out, _ = call(*asked, "cos.npy", "sin.npy")
        assert (found, report.ok) == (status, status == 0)
        assert str(report).split() == out.replace("'cos.npy' 'sin.npy'", "'cos' 'sin'").split()
        _, text, _ = call(*asked, "cos.npy", "sin.npy", "--format", "json")
        document = json.loads(text)
        document["subject"]["name"] = "'cos' 'sin'"
        document["verdict"] = document["verdict"].replace("'cos.npy' 'sin.npy'", "'cos' 'sin'")
        assert json.loads(json.dumps(report.as_json())) == document


@pytest.mark.long
@pytest.mark.parametrize(
    ("subject", "cause"),
    [
        ({"tables": right(base=1e4)}, "base"),
        ({"tables": right()}, None),
        ({"tables": tuple(table.astype(np.float16) for table in right())}, None),
        ({"inv_freq": posenc.frequencies("rope", dim=16, base=1e4)}, "base"),
        ({"inv_freq": posenc.frequencies("rope", **ROPE)}, None),
        ({"rotated": (ONES, ONES)}, "no-rotation"),
        ({"rotated": (ONES, posenc.rotate(ONES, None, 64, "rope", **ROPE))}, None),
    ],
)
def test_the_cause_is_typed(subject, cause):
    report = posenc.rope_check("rope", **subject, **ROPE)
    assert (report.ok, report.cause) == (cause is None, cause)
    assert {finding.ok for finding in report.findings} <= {True, report.ok}


@pytest.mark.long
def test_positions_of_the_rows_are_those_that_are_said():
    tables = posenc.tables("rope", [3, 900], **ROPE)
    assert posenc.rope_check("rope", tables=tables, positions=[3, 900], **ROPE).ok
    assert not posenc.rope_check("rope", tables=tables, **ROPE).ok


def test_posencs_own_tables_are_checked_where_nothing_is_given():
    assert posenc.rope_check("llama-3.1-8b").ok


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ({"tables": np.ones((4, 8))}, "tables: must be two arrays, (cos, sin)"),
        ({"tables": (np.ones((4, 8)), np.ones((3, 8)))}, "tables cos sin: must have one shape"),
        ({"tables": (np.ones((4, 8), complex),) * 2}, "complex numbers"),
        ({"inv_freq": np.ones((4, 8))}, "inv_freq array: must be one row of real numbers"),
        ({"inv_freq": "absent.npy"}, "cannot read 'absent.npy'"),
        ({"inv_freq": ["a"]}, "array holds no numbers"),
        ({"inv_freq": [1.0], "tables": right()}, "inv_freq cannot go with tables"),
        ({"tables": 5}, "tables: must be two arrays, (cos, sin)"),
        ({"tables": (None, None)}, "tables: must be two arrays, (cos, sin)"),
        ({"rotated": (None, None)}, "rotated: must be two arrays, (x, y)"),
        ({"tables": None}, "tables, inv_freq, rotated or impl: give the values to check"),
        ({"inv_freq": None, "impl": None}, "impl: give the values to check"),
        ({"impl": None, "invfreq": [1.0]}, "check (did you mean 'inv_freq='?)"),
        (
            {"impl": "json:dumpz"},
            "cannot be loaded (AttributeError: json has no attribute 'dumpz')",
        ),
        ({"tol": "loose"}, "tol 'loose': must be one of auto"),
        ({"tol": float("nan")}, "tol 'nan': must be a number of at least 0"),
        ({"call": ("x", "foo")}, "call 'foo': must be one of x"),
        ({"axes": "bhdn"}, "axes 'bhdn': must be one of bhnd"),
    ],
)
def test_what_cannot_be_checked_is_an_error_about_arguments(subject, words):
    with pytest.raises((ValueError, posenc.Unavailable)) as error:
        posenc.rope_check("rope", **subject, **ROPE)
    assert words in str(error.value)
    assert not re.search(r"--|\(\)$", str(error.value))


def rotated(x, angles):
    a, b = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def halves(x, positions):
    half = x.shape[-1] // 2
    return rotated(x, np.asarray(positions)[:, None] * 5e5 ** (-np.arange(half) / half))


class Rotary:
    """A function of an object that is made with what the reference is made with."""

    def __init__(self, dim, base):
        self.rates = base ** (-np.arange(dim // 2) / (dim // 2))

    def __call__(self, x, positions):
        return rotated(x, np.multiply.outer(positions, self.rates))


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (halves, None),
        (Rotary, None),
        (lambda x, positions: halves(x, positions + 1), "position-offset"),
        (lambda x, positions: halves(x[..., ::-1], positions)[..., ::-1], "direction"),
    ],
)
def test_a_function_of_this_process_is_checked(function, cause):
    report = posenc.rope_check("rope", impl=function, positions=64, layout="half", **ROPE)
    assert (report.ok, report.cause) == (cause is None, cause)


def test_what_a_function_raises_is_an_error_of_the_argument():
    def broken(x, positions):
        raise KeyError("cache")

    with pytest.raises(ValueError, match=r"impl '.*raised KeyError: 'cache'"):
        posenc.rope_check("rope", impl=broken, positions=8, **ROPE)
    with pytest.raises(ValueError, match="impl [0-9]+: must be a function, or its name"):
        posenc.rope_check("rope", impl=3, **ROPE)


def test_tensors_are_checked():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tables = tuple(map(torch.from_numpy, right()))
    report = posenc.rope_check("rope", tables=tables, **ROPE)
    assert report.ok
    half = tuple(table.bfloat16() for table in tables)
    assert posenc.rope_check("rope", tables=half, **ROPE).subject["dtype"] == "bfloat16"


@pytest.mark.long
def test_an_array_is_identified():
    cos, sin = posenc.tables("llama-3.1-8b", 256)
    match = posenc.identify(cos, sin).match
    assert (match.scheme, match.params["factor"], match.exact) == ("rope-llama3", 8.0, True)
    assert posenc.identify(np.random.default_rng(0).random((64, 8))).match is None
    with pytest.raises(ValueError, match="0 arrays"):
        posenc.identify()


def test_arrays_and_encodings_are_compared():
    table, other = (posenc.encode("rope", 32, dim=8, base=base) for base in (1e4, 2e4))
    assert posenc.compare(table, "rope", dim=8).ok
    found = posenc.compare(table, other)
    assert not found.ok
    assert found.difference.differing == int((table != other).sum())
    assert posenc.compare("llama-3-8b", "rope", dim=128, base=5e5, layout="half").ok


def test_reports_speak_of_arguments():
    wider = posenc.tables("rope", 64, dim=32)
    report = posenc.rope_check("rope", tables=wider, dim=16)
    assert "every value is right with dim 32" in str(report)
    assert "--" not in str(report)
    with pytest.raises(AssertionError) as error:
        posenc.assert_rope("rope", tables=wider, dim=16)
    assert "--" not in str(error.value)


def test_a_report_speaks_of_arguments_and_of_its_own_notes():
    report = posenc.rope_check("rope", impl=halves, layout="half", **ROPE)
    told = " ".join(str(report).split())
    assert "positions=N tries all N" in told
    assert "(report.notes lists them)" in told
    assert "verbose" not in told
    assert any(note.startswith("called as ") for note in report.notes)


def test_a_model_is_checked_up_to_the_context_of_its_config():
    """Llama 3.1 extends 8192 positions by 8, but its config states 131072."""
    cos, sin = posenc.tables("llama-3.1-8b", 65536)

    def clamped(x, positions):
        at = np.minimum(positions, 65535)
        a, b = x[..., :64], x[..., 64:]
        return np.concatenate([a * cos[at] - b * sin[at], b * cos[at] + a * sin[at]], -1)

    report = posenc.rope_check("llama-3.1-8b", impl=clamped)
    assert (report.ok, str(report.cause)) == (False, "position-offset")
