"""Every mutant is killed and its cause named, whatever shows it; no right implementation fails."""

from typing import Any

import numpy as np
import pytest

from posenc_cli.diagnosis.diagnose import diagnose
from posenc_cli.inference.codes import Cause
from posenc_cli.records import replace
from tests.checks import rope
from tests.checks.rights import FURTHEST, RIGHTS
from tests.diagnosis.mutants import MUTANTS
from tests.diagnosis.mutants_table import NOT_NAMED, SHOWN, mutants_markdown
from tests.diagnosis.textbook import CASES, HALF, repeated, rotate

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

FEW = {
    "0:4096": (
        "0:64,100,200,255:259,511:514,699:702,998:1003,1023:1028,1899:1902,2046:2052,3071,4095"
    ),
    "0:1024": "0:70,255:259,300:310,511:514,1000:1024",
}
"""What a function is called with: d times as many rows."""


def examined(name: str, form: str, right: Any) -> Any:
    mutant = MUTANTS[name]
    wrong, positions = mutant.wrong, mutant.positions
    where = rope.positions_array(positions)
    if form == "tables":
        return rope.of_tables(*wrong.tables(where), right, positions)
    if form == "half":
        return rope.of_tables(*wrong.pair_tables(where), right, positions)
    if form == "rotated":
        x = rope.vectors(len(where), CASES[mutant.case].right.head)
        return rope.of_rotated(x, wrong(x, where), right, positions)
    if form == "impl":
        return rope.of_function(name, right, FEW.get(positions, positions))
    values = np.asarray(wrong.inv_freq, np.float32)
    if wrong.inv_in in HALF:
        values = values.astype(HALF[wrong.inv_in])
    return rope.of_frequencies(values, right, positions)


def test_there_are_as_many_as_promised():
    unnamed = {(name, form) for name, forms in NOT_NAMED.items() for form in forms.split()}
    assert unnamed <= {*SHOWN}
    assert len(MUTANTS) >= 140
    assert len(RIGHTS) >= 60
    assert sum("inv-freq" in mutant.subjects for mutant in MUTANTS.values()) >= 60
    assert sum(mutant.relative is True for mutant in MUTANTS.values()) >= 100
    assert len({mutant.what for mutant in MUTANTS.values()}) == len(MUTANTS)


@pytest.mark.sweep(1000, of=lambda name, form: (form, MUTANTS[name].causes[0]))
@pytest.mark.parametrize(("name", "form"), SHOWN)
def test_a_mutant_fails_and_its_cause_is_named_or_it_is_listed(name, form, reference):
    mutant = MUTANTS[name]
    found = examined(name, form, reference(mutant.case))
    assert not found.ok
    explanations = diagnose(found)
    causes = [explanation.cause for explanation in explanations]
    assert 1 <= len(causes) <= 3
    assert all(explanation.message for explanation in explanations)
    # What is named by now goes off the list.
    expected = "unknown" if form in NOT_NAMED.get(name, "").split() else "named"
    assert verdict(mutant, causes) == expected, explanations
    relative = [finding.ok for finding in found.findings if finding.check == "relative"]
    if mutant.relative is not None and relative and form != "inv-freq":
        assert relative == [mutant.relative]


def verdict(mutant: Any, causes: list[Cause]) -> str:
    """Whether the causes are the right ones, the first before others; a rest may be unknown."""
    if causes[0] in mutant.causes and {*causes} <= {*mutant.causes, *mutant.also, Cause.UNKNOWN}:
        return "named"
    return "unknown" if causes == [Cause.UNKNOWN] else "false"


POSITIONS = {
    16: "0:16",
    512: "0:512",
    4096: "0:4096",
    131072: "0:32,130560:131072",
    FURTHEST: "0:32,65536:65568,999488:1000000",
}
ASKED = [
    pytest.param(name, length, marks=[pytest.mark.slow] if length == FURTHEST else [])
    for name, right in RIGHTS.items()
    for length in POSITIONS
    if length <= right.up_to and (CASES[right.case].axes is None or length < 1024)
]


@pytest.mark.sweep(61)
@pytest.mark.parametrize(("name", "length"), ASKED)
def test_a_right_implementation_passes(name, length, reference):
    right, positions = RIGHTS[name], POSITIONS[length]
    layout = ("half", "interleaved")[[*RIGHTS].index(name) % 2]
    half = right.pair_tables(rope.positions_array(positions))
    full = tuple(repeated(each, layout) for each in half)
    for tables in (half, full):
        found = rope.of_tables(*tables, reference(right.case, layout), positions)
        assert found.ok, found.findings
        assert diagnose(found) == ()


def by_halves(x, cos, sin):
    a, b = np.split(x, 2, axis=1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=1)


def by_matrices(x, cos, sin):
    matrices = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
    return np.einsum("lpij,ljp->lip", matrices, x.reshape(len(x), 2, -1)).reshape(x.shape)


def by_complex_numbers(x, cos, sin):
    a, b = np.split(x, 2, axis=1)
    y = (a + 1j * b) * (cos + 1j * sin)
    return np.concatenate([y.real, y.imag], axis=1)


def by_full_tables(x, cos, sin):
    return x * repeated(cos, "half") + rotate(x, "half") * repeated(sin, "half")


APPLYING = (by_halves, by_matrices, by_complex_numbers, by_full_tables)


@pytest.mark.long
@pytest.mark.sweep(17)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("name", CASES)
def test_right_rotations_pass(name, dtype, reference):
    case = CASES[name]
    positions = "0:4096" if case.axes is None else "0:1024"
    where = rope.positions_array(positions)
    x = rope.vectors(len(where), case.right.head).astype(dtype)
    cos, sin = replace(case.right, compute=np.float32).pair_tables(where)
    rotated = 2 * cos.shape[1]
    for apply in APPLYING:
        wide = x.astype(np.float32)
        y = np.concatenate([apply(wide[:, :rotated], cos, sin), wide[:, rotated:]], axis=1)
        found = rope.of_rotated(x, y.astype(dtype), reference(name), positions)
        assert found.ok, found.findings


@pytest.mark.long
@pytest.mark.sweep(19)
@pytest.mark.parametrize("name", CASES)
def test_right_functions_pass(name, reference):
    found = rope.of_function(
        f"right_{name}",
        reference(name),
        FEW["0:4096" if CASES[name].axes is None else "0:1024"],
    )
    assert found.ok, found.findings
    assert diagnose(found) == ()


@pytest.mark.sweep(19)
@pytest.mark.parametrize("name", CASES)
def test_right_frequencies_pass(name, reference):
    values = np.asarray(CASES[name].right.inv_freq, np.float32)
    positions = "0:1024" if CASES[name].axes is not None else "0:4096,131000:131072"
    found = rope.of_frequencies(values, reference(name), positions)
    assert found.ok, found.findings


@pytest.mark.slow
def test_the_rates_of_noise_are_no_crash(reference):
    positions = "9007199254740000:9007199254740010"  # where float64 angles are noise
    values = CASES["plain"].right.inv_freq
    assert diagnose(rope.of_frequencies(values, reference("plain"), positions))


def test_the_table_of_mutants_counts_every_mutant_and_says_how_many_are_named():
    rows = [line.split(" | ") for line in mutants_markdown().splitlines() if "| `" in line]
    assert sum(int(row[1]) for row in rows) == len(MUTANTS)
    nameless = {name for name, mutant in MUTANTS.items() if mutant.causes[0] == Cause.UNKNOWN}
    named = len(MUTANTS) - len({*NOT_NAMED} | nameless)
    assert f"names the cause of {named}." in mutants_markdown()
    assert sum(int(row[2].strip(" |")) for row in rows[:-1]) == named
    assert rows[-1][0] == "| `unknown`"
