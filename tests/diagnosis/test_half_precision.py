"""Tables that a half precision rounds, and stores wider, have their other causes named as well."""

import re

import numpy as np
import pytest

import posenc_cli as posenc
from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.rotary.verdict import accepting_rule
from tests.checks import rope
from tests.diagnosis.textbook import ladder, to

ROWS = 512
RIGHT = rope.reference("rope", dim=64, layout="half")
YARN = rope.reference("rope-yarn", dim=64, layout="half", factor=16.0)


def tables(first=0, base=1e4, size=1.0, rates=None):
    at = np.arange(first, first + ROWS)
    angles = np.multiply.outer(at, ladder(64, base) if rates is None else rates)
    return size * np.cos(angles), size * np.sin(angles)


def backward():
    cos, sin = tables()
    return cos, -sin


def told(made, half, right=RIGHT, tol="auto"):
    cos, sin = (np.asarray(to(part, half), np.float32) for part in made)
    found = rope.of_tables(cos, sin, right, f"0:{ROWS}", tol)
    assert not found.ok
    return found, diagnose(found)


WRONG = {
    "direction": backward,
    "cos-sin-mispaired": lambda: tables()[::-1],
    "position-offset": lambda: tables(first=1),
    "base": lambda: tables(base=5e5),
    "attention-factor": lambda: tables(size=1.2),
}


@pytest.mark.long
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("cause", WRONG)
def test_the_cause_is_named_beside_the_rounding_without_an_option(cause, half):
    found, (first, second) = told(WRONG[cause](), half)
    assert (first.cause, second.cause, second.detail) == (cause, "table-precision", half)
    assert first.residual.whole
    assert accepting_rule(found, (first, second)) is None
    (alone,) = told(WRONG[cause](), half, tol=half)[1]
    assert (alone.cause, alone.message) == (first.cause, first.message)


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("tol", ["auto", "own"])
def test_a_factor_is_said_within_what_roundings_leave_of_it(half, tol):
    for size in (1.01, 1.2, 0.7):
        first, *_ = told(tables(size=size), half, tol=half if tol == "own" else tol)[1]
        assert first.cause == "attention-factor"
        number, within = re.search(r"is ([\d.]+) ± ([\d.e-]+), not 1", first.message).groups()
        assert abs(float(number) - size) <= float(within) <= 0.01


def test_a_factor_that_is_left_out_is_named_beside_the_rounding():
    for half in ("bfloat16", "float16"):
        _, (first, second) = told(tables(rates=YARN.frequencies), half, YARN)
        assert first.message == f"the attention factor {YARN.scale:.6g} is not applied"
        assert second.cause == "table-precision"


@pytest.mark.long
@pytest.mark.parametrize("factor", [4.0, 32.0])
def test_cut_values_are_said_to_have_no_other_attention_factor(factor):
    """Cut to 10 bits, all values are too small, by about as much as they scatter."""
    right = rope.reference("rope-yarn", dim=64, factor=factor, original_max_position_embeddings=512)
    angles = np.multiply.outer(np.minimum(np.arange(ROWS), 300), right.frequencies)
    made = right.scale * np.stack([np.cos(angles), np.sin(angles)])
    cut = (made.astype(np.float32).view(np.uint32) & 0xFFFFC000).view(np.float32)
    (cause,) = diagnose(rope.of_tables(*cut.astype(np.float16), right, f"0:{ROWS}"))
    assert (cause.cause, cause.message) == ("position-offset", "positions are clamped at 300")


def test_values_that_every_format_has_were_rounded_to_none():
    ones = np.ones((ROWS, 32), np.float32)
    causes = diagnose(rope.of_tables(ones, 0 * ones, RIGHT, f"0:{ROWS}"))
    assert [cause.cause for cause in causes] == ["no-rotation"]


def test_noise_of_a_half_precision_stays_unknown():
    noise = np.random.default_rng(0).uniform(-1, 1, (2, ROWS, 32))
    causes = told(tuple(noise), "bfloat16")[1]
    assert [cause.cause for cause in causes] == ["unknown"]


def test_what_is_unknown_is_placed_within_the_roundings():
    cos, sin = tables()
    cos[:, 5] += 0.1 * np.sin(np.arange(ROWS) ** 2)
    (cause,) = told((cos, sin), "bfloat16")[1]
    assert (cause.cause, cause.where.fields()["pairs"]) == ("unknown", "5")
    assert cause.evidence.endswith(
        "every value is a bfloat16 number; the tolerance allows for that rounding"
    )


@pytest.mark.parametrize("factor", [1.5, 2.0])
def test_a_factor_alone_is_no_rounding_to_half_precision(factor):
    """1.5 and 0 are numbers of any format: a function that only multiplies rounds nothing."""
    report = posenc.rope_check(
        "rope", impl=lambda x: factor * x, positions=64, dim=16, layout="half"
    )
    causes = {str(each.cause) for each in report.diagnosis}
    assert causes == {"no-rotation", "attention-factor"}


def test_what_was_not_measured_is_not_said_of_a_function_that_is_not_linear():
    def squared(x, positions):
        return x * x

    report = posenc.rope_check("rope", impl=squared, positions=64, dim=16, layout="half")
    assert not report.ok
    assert "m − n" not in str(report).split("\ncause")[0]
