"""Tables that were rounded to a half precision: they fail, and the report says how to accept them.

Models in half precision compute cosines and sines in float32 and round them once; dumped as the
pages say, ``x.float().numpy()``, they are stored wider.
"""

import json

import numpy as np
import pytest

from tests.diagnosis.textbook import ladder, yarn, yarn_scale

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

HALVES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
PLAIN = ("rope-check", "-s", "rope", "--dim", "64", "--layout", "half")
YARN = (
    *("rope-check", "-s", "rope-yarn", "--dim", "128", "--layout", "half", "--set", "factor=16"),
    *("--set", "original_max_position_embeddings=4096"),
)
CASES = {"plain": (PLAIN, ladder(64, 1e4), 1.0), "yarn": (YARN, yarn(128, 1e4, 16), yarn_scale(16))}


def dumped(folder, frequencies, scale, half, *, rows=512, cut=False):
    """What float32 code makes of frequencies, rounded to a half precision and widened."""
    angles = np.arange(rows, dtype=np.float32)[:, None] * frequencies.astype(np.float32)
    for name, function in (("cos", np.cos), ("sin", np.sin)):
        table = np.tile(function(angles) * np.float32(scale), 2)
        if cut:
            table = (table.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        np.save(folder / f"{name}.npy", table.astype(HALVES[half]).astype(np.float32))
    return "--tables", str(folder / "cos.npy"), str(folder / "sin.npy")


@pytest.mark.long
@pytest.mark.parametrize("rows", [16, 512])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("half", HALVES)
def test_the_first_lines_name_the_rounding_and_the_option_that_accepts_it(
    half, case, rows, tmp_path, call
):
    command, frequencies, scale = CASES[case]
    tables = dumped(tmp_path, frequencies, scale, half, rows=rows)
    status, out, _ = call(*command, *tables)
    verdict = " ".join(out.split("\n\n", maxsplit=1)[0].split())
    assert status == 1
    assert verdict.startswith("FAILED: ")
    assert f"cos and sin are rounded to {half}" in verdict
    assert f"next: use --tol {half} to accept that rounding" in verdict
    document = json.loads(call(*command, *tables, "--json")[1])
    assert document["accepted_by"] == f"--tol {half}"
    assert document["diagnosis"][0]["cause"] == "table-precision"
    status, out, _ = call(*command, *tables, *document["accepted_by"].split())
    assert (status, out[:4]) == (0, "ok: ")
    assert f"one rounding to {half}" in " ".join(out.split()) or scale != 1
    assert "maximum absolute error" in out


WRONG = {
    "base": ladder(64, 5e5),
    "frequencies in bfloat16": ladder(64, 1e4).astype(ml_dtypes.bfloat16).astype(float),
    "exponents": ladder(64, 1e4, 62),
}


@pytest.mark.long
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("half", HALVES)
def test_no_option_accepts_tables_that_are_wrong_besides(half, wrong, tmp_path, call):
    tables = dumped(tmp_path, WRONG[wrong], 1.0, half)
    status, out, _ = call(*PLAIN, *tables, "--json")
    assert (status, json.loads(out)["accepted_by"]) == (1, None)
    assert "--tol" not in call(*PLAIN, *tables)[1]
    assert call(*PLAIN, *tables, "--tol", half)[0] == 1


@pytest.mark.long
def test_cells_that_were_cut_are_no_rounding(tmp_path, call):
    tables = dumped(tmp_path, CASES["plain"][1], 1.0, "bfloat16", rows=4096, cut=True)
    status, out, _ = call(*PLAIN, *tables, "--json")
    assert (status, json.loads(out)["accepted_by"]) == (1, None)


@pytest.mark.long
def test_a_function_that_rounds_what_it_returns_is_told_the_same(tmp_path, call):
    (tmp_path / "port.py").write_text(
        "import numpy as np\n"
        "def f(x, positions):\n"
        "    a = np.tile(np.outer(positions, 1e4 ** (-np.arange(0, 64, 2) / 64)), 2)\n"
        "    turned = np.concatenate([-x[..., 32:], x[..., :32]], -1)\n"
        "    y = x * np.cos(a) + turned * np.sin(a)\n"
        "    return y.astype(np.float16).astype(np.float32)\n"
    )
    status, out, _ = call(*PLAIN, "-l", "128", "--impl", f"{tmp_path}/port.py:f", "--json")
    assert (status, json.loads(out)["accepted_by"]) == (1, "--tol float16")
    assert call(*PLAIN, "-l", "128", "--impl", f"{tmp_path}/port.py:f", "--tol", "float16")[0] == 0


def test_reports_for_ci_name_the_option_too(tmp_path, call):
    tables = dumped(tmp_path, CASES["plain"][1], 1.0, "bfloat16", rows=64)
    for form in ("github", "junit"):
        assert "--tol bfloat16" in call(*PLAIN, *tables, "--format", form)[1]
