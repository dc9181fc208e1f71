"""``posenc identify``: what it says, to people and to scripts, and what it refuses."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.matrices import matrix


@pytest.fixture
def tables(tmp_path):
    for function in ("cos", "sin"):
        given = {"table": f"{function}-full", "layout": "half", "dim": 128, "base": 500_000.0}
        np.save(tmp_path / f"{function}.npy", matrix("rope-llama3", "0:300", **given))
    return "cos.npy", "sin.npy"


@pytest.mark.slow
def test_tables_of_a_model_are_named_with_all_that_matters(tables, document, printed):
    found = document("identify", *tables)
    assert found["next"] == f"write the same array: {' && '.join(found['commands'])}"
    assert list(found)[1:6] == ["ok", "verdict", "cause", "next", "scheme"]
    assert (found["scheme"], found["layout"], found["dtype"]) == ("rope-llama3", "half", "float32")
    assert (found["residual"], found["positions"]) == (0.0, "0:300")
    assert (found["params"]["base"], found["params"]["factor"]) == (500_000.0, 8.0)
    assert "llama-3.1-8b" in found["models"]
    assert found["candidates"][0]["fits"]
    out = printed("identify", *tables)
    assert out.startswith("identified: 'cos.npy' and 'sin.npy' (300×128, float32) is rope-llama3")
    assert "llama-3.1-8b" in out


@pytest.mark.slow
def test_the_commands_write_the_same_files_again(call, tables, tmp_path, report):
    _, found = report("identify", *tables)
    before = [(tmp_path / name).read_bytes() for name in tables]
    for name, command in zip(tables, found["commands"], strict=True):
        (tmp_path / name).unlink()
        assert call(*shlex.split(command)[1:])[0] == 0
    assert [(tmp_path / name).read_bytes() for name in tables] == before


@pytest.mark.sweep(9)
@pytest.mark.parametrize(
    "arguments",
    [
        ["--scheme", "sinusoidal", "--len", "50", "--start", "3"],
        ["--scheme", "alibi", "--heads", "12", "--len", "30"],
        ["--scheme", "sinusoidal-nd", "--set", "grid=5x7", "--set", "convention=timm"],
        ["--scheme", "rope", "--table", "inv-freq", "--dtype", "float64"],
        ["--scheme", "transformer-xl", "--len", "20"],
        ["--scheme", "rope", "--positions", "0:700:7", "--table", "complex"],
        ["--scheme", "rope-linear", "--len", "90", "--set", "factor=2", "--arithmetic", "float32"],
    ],
)
def test_a_command_of_one_file_is_ready_to_paste(arguments, call, tmp_path, report):
    assert call("generate", *arguments, "--out", "a.npy", "-q")[0] == 0
    _, found = report("identify", "a.npy")
    assert call(*shlex.split(found["commands"][0])[1:], "--out", "b.npy")[0] == 0
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


@pytest.mark.parametrize("name", ["it's $HOME.npz", 'two  "words".npz', "a\nb\\.npz"])
def test_a_shell_reads_the_name_of_a_file_in_the_next_command(name, printed):
    np.savez(name, inv_freq=1e4 ** (-np.arange(8) / 8), pe=np.zeros((4, 4)))
    (step,) = re.findall(r"next: run (posenc .*?) to\s", printed("identify", name), flags=re.S)
    words = subprocess.check_output(["bash", "-c", f"printf '%s\\0' {step}"], text=True)
    assert words.split("\0")[-2] == name


@pytest.mark.long
def test_text_files_are_the_float32_values_they_show(call, report):
    assert call("generate", "-s", "rope", "--len", "40", "--out", "a.csv", "-q")[0] == 0
    Path("b.dat").write_bytes(Path("a.csv").read_bytes())
    for path in ("a.csv", "b.dat"):
        _, found = report("identify", path)
        facts = found["scheme"], found["round_to"], found["arithmetic"]
        assert facts == ("rope", "float32", "exact")


@pytest.mark.slow
def test_bfloat16_tables_are_read(call, report):
    out = ["--out", "a.safetensors", "-q", "--dtype", "bfloat16"]
    assert call("generate", "-s", "rope", "--len", "80", *out)[0] == 0
    _, found = report("identify", "a.safetensors")
    assert (found["scheme"], found["dtype"], found["residual"]) == ("rope", "bfloat16", 0.0)


@pytest.mark.long
def test_what_nothing_fits_is_status_1_and_said_so(tmp_path, document, printed):
    table = np.random.default_rng(5).normal(0, 0.02, (64, 32)).astype(np.float32)
    np.save(tmp_path / "learned.npy", table)
    found = document("identify", "learned.npy", status=1)
    assert (found["scheme"], found["params"], found["layout"]) == (None, None, None)
    out = printed("identify", "learned.npy", status=1)
    assert out.startswith("not identified: 'learned.npy'")
    assert "no match found among" in " ".join(out.split())
    assert "next: compare it with the checkpoint's own table" in " ".join(out.split())


def test_runners_up_are_listed(call, report):
    assert call("generate", "-s", "rope", "--len", "40", "--out", "a.npy", "-q")[0] == 0
    _, found = report("identify", "a.npy")
    assert {"rope", "sinusoidal"} <= {each["scheme"] for each in found["candidates"]}
    _, out, _ = call("identify", "a.npy")
    assert "Others that fit:" in out
    assert max(map(len, out.split("write the same array:")[0].splitlines())) <= 80


def test_a_runner_up_of_other_positions_says_which(call, report):
    """Transformer-XL's offsets are sinusoids at positions that fall."""
    asked = ("-s", "transformer-xl", "--len", "40", "-d", "16", "-q")
    assert call("generate", *asked, "--out", "x.npy")[0] == 0
    best, *others = [each["positions"] for each in report("identify", "x.npy")[1]["candidates"]]
    _, out, _ = call("identify", "x.npy", "--verbose")
    shown = re.findall(r"positions=(\S+)", out.split("Others:")[1])
    assert [each[:9] for each in shown] == [each[:9] for each in others if each != best]
    assert shown


def test_a_command_is_broken_between_its_words(call, tmp_path):
    table = matrix("rope", "0:1024", table="cos-sin", layout="half", dim=64)
    np.save(tmp_path / "t.npy", table)
    lines = call("identify", "t.npy")[1].split(":\n  posenc ")[1].split("\n\n")[0].splitlines()
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ("a.npy b.npy", 2, "one shape, not 4×4 and 4×6"),
        ("b.npy complex.npy", 2, "'complex.npy' holds complex numbers"),
        ("complex.npy complex.npy", 2, "'complex.npy' holds complex numbers"),
        ("one.npy", 2, "one.npy"),
        ("missing.npy", 3, "missing.npy"),
    ],
)
def test_what_cannot_be_identified_is_refused(asked, status, said, refused):
    np.save("a.npy", np.zeros((4, 4)))
    np.save("b.npy", np.zeros((4, 6)))
    np.save("complex.npy", np.ones((4, 6), np.complex64))
    np.save("one.npy", np.ones(1))
    assert said in refused("identify", *asked.split(), status=status)


@pytest.mark.slow
def test_damage_is_status_1_and_said_with_what_the_rest_is(tables, tmp_path, report, printed):
    cos = np.load(tmp_path / "cos.npy")
    cos[120, 10] += 0.5
    np.save(tmp_path / "cos.npy", cos)
    status, found = report("identify", *tables)
    assert (status, found["exact"]) == (1, False)
    assert found["rows_differing"] == {"count": 1, "rows": "120", "all_listed": True}
    assert (found["largest"]["file"], found["largest"]["at"]) == (0, [120, 10])
    assert found["largest"]["difference"] == pytest.approx(0.5, abs=1e-6)
    assert found["candidates"][0]["scheme"] == "rope-llama3"
    assert "llama-3.1-8b" in found["candidates"][0]["models"]
    out = printed("identify", *tables, status=1)
    files = "identified in part: 'cos.npy' and 'sin.npy' (300×128, float32)"
    assert " ".join(out.split()).startswith(f"{files} is rope-llama3 in 299 of")
    assert "cause: 1 row does not fit: 120;" in out
    assert "at row 120, column 10 of 'cos.npy'" in " ".join(out.split())
    assert "other rows equal model" in out
    assert "write the same array, except 1 of 76800" in " ".join(out.split())


@pytest.mark.slow
def test_exact_is_said_only_where_every_cell_is(call, tables, tmp_path, report):
    assert report("identify", *tables)[1]["exact"]
    assert "every value is correctly rounded" in call("identify", *tables)[1]
    cos = np.load(tmp_path / "cos.npy")
    cos[120, 10] = np.nextafter(cos[120, 10], np.float32(0))
    np.save(tmp_path / "cos.npy", cos)
    status, found = report("identify", *tables)
    assert (status, found["exact"], found["models"]) == (0, False, [])
    assert found["rows_differing"]["count"] == 0
    _, out, _ = call("identify", *tables)
    assert "76799 of 76800 values are correctly rounded" in out
    assert "largest error" in out


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (1e-7, "write the same array within "),
        (0.0, "write the same array:"),
    ],
)
def test_a_table_most_of_whose_cells_differ_is_the_same_within_its_residual(
    call, tmp_path, noise, words
):
    angles = np.outer(np.arange(512.0), 10_000.0 ** (-np.arange(32) / 32))
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    table *= 1 + noise * np.random.default_rng(0).standard_normal(table.shape)
    np.save(tmp_path / "t.npy", table.astype(np.float32))
    assert f"\nnext: {words}" in call("identify", "t.npy")[1]


def test_frequencies_near_a_models_are_not_said_to_equal_them(call, tmp_path, report):
    np.save(tmp_path / "f.npy", 10_000.0 ** (-np.arange(32) / 32) * (1 + 9e-7))
    status, found = report("identify", "f.npy")
    assert (status, found["exact"], found["equal"], found["models"]) == (0, False, 0.0, [])
    _, out, _ = call("identify", "f.npy")
    assert "no value is correctly rounded" in out
    assert "equals" not in out


@pytest.mark.parametrize("second", ["a.npy", "b.npy"])
def test_two_rows_of_numbers_end_in_a_verdict(second, tmp_path, report):
    np.save(tmp_path / "a.npy", 10_000.0 ** (-np.arange(256) / 256))
    np.save(tmp_path / "b.npy", np.linspace(0, 1, 256))
    assert report("identify", "a.npy", second)[0] == 1
    assert report("identify", "a.npy")[0] == 0


def test_the_rows_of_a_bias_are_named_by_head_and_query(call, tmp_path, report):
    bias = matrix("alibi", "0:50", heads=12)
    bias[3, 17, 5] += 0.1
    bias[4, 2, 1] -= 0.2
    np.save(tmp_path / "a.npy", bias)
    status, found = report("identify", "a.npy")
    assert (status, found["rows_differing"]["rows"]) == (1, "head 3: 17; head 4: 2")
    assert found["largest"]["at"] == [4, 2, 1]
    assert "at head 4, query 2, key 1:" in " ".join(call("identify", "a.npy")[1].split())


def test_the_farthest_cell_shows_digits_that_tell_it_from_what_belongs_there(call, tmp_path):
    frequencies = 10_000.0 ** (-np.arange(256) / 256)
    frequencies[3] *= 1 + 2**-51
    np.save(tmp_path / "f.npy", frequencies)
    _, out, _ = call("identify", "f.npy")
    (line,) = (line for line in out.splitlines() if line.startswith("largest error "))
    value, expected = line.partition(": ")[2].split(", expected ")
    assert float(value) != float(expected)


@pytest.mark.long
def test_a_learned_table_is_said_to_be_one_value_for_all_offsets_of_a_bucket(call, tmp_path):
    np.save(tmp_path / "w.npy", np.random.default_rng(1).normal(size=(32, 4)).astype(np.float32))
    given = ("--scheme", "t5", "--set", "weights=w.npy", "--len", "200", "--out", "t5.npy", "-q")
    assert call("generate", *given)[0] == 0
    _, out, _ = call("identify", "t5.npy")
    assert "values of a learned table, one for all offsets of a bucket" in " ".join(out.split())


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ""),
        (("--round-to", "bfloat16"), "holding bfloat16 values"),
        (("--round-to", "float16", "--dtype", "float64"), "holding float16 values"),
        (("--dtype", "float64"), ""),
    ],
)
def test_values_of_a_coarser_format_than_the_file_has_are_named(options, words, call):
    assert call("generate", "-s", "rope", "--len", "64", *options, "--out", "a.npy", "-q")[0] == 0
    _, out, _ = call("identify", "a.npy")
    assert words in " ".join(out.split())
    assert out.count("holding") == bool(words)


@pytest.mark.parametrize(
    "words",
    [
        ("identify", ""),
        ("identify", "a.npy", ""),
        ("compare", "", "rope"),
        ("explain", ""),
        ("generate", "--config", ""),
        ("heatmap", "--in", ""),
        ("dot-similarity", "--in", ""),
        ("alibi-slopes", "--check", ""),
        ("rope-check", "-s", "rope", "--inv-freq", ""),
        ("rope-check", "-s", "rope", "--tables", "", ""),
        ("rope-check", "-s", "rope", "--rotated", "", ""),
        ("rope-check", "-s", "rope", "--impl", ""),
    ],
)
def test_no_command_takes_an_empty_name_for_this_folder_or_for_none(words, refused):
    np.save("a.npy", matrix("rope", "0:8"))
    err = refused(*words)
    assert "Is a directory" not in err
    assert words[-2] == "--impl" or "the name is empty" in err


def test_what_comes_within_a_tolerance_is_said_to_fit_loosely_beside_what_is_equal(call, tmp_path):
    table = matrix("rope", "0:100", dtype="float64", dim=64, base=10_000.001)
    table[7, 5] += 3e-15
    np.save(tmp_path / "q.npy", table)
    status, out, _ = call("identify", "q.npy")
    told = "identified in part: 'q.npy' (100×64, float64) is rope in 99 of 100 rows"
    assert (status, out.splitlines()[0]) == (1, told)
    assert re.search(r"base=10000 .* fits loosely", out)


def test_masked_cells_are_not_said_to_be_every_second_one(call, tmp_path):
    bias = matrix("alibi", "0:20", heads=4)
    bias[:, np.triu(np.ones((20, 20), bool), 1)] = -np.inf
    np.save(tmp_path / "a.npy", bias)
    assert "every value outside the mask is correctly rounded" in call("identify", "a.npy")[1]


def test_a_learned_table_of_no_file_is_not_written_again(call):
    given = ("--scheme", "t5", "--heads", "1", "--len", "60", "--set", "seed=99", "--head", "0")
    assert call("generate", *given, "--out", "t5.npy", "-q")[0] == 0
    _, out, _ = call("identify", "t5.npy")
    assert "for 1 head" in out
    assert "for 1 heads" not in out
    assert "weights=FILE" in out
    assert "The same" not in out


def test_one_number_throughout_is_said_to_show_nothing(tmp_path, printed):
    np.save(tmp_path / "a.npy", np.full((64, 64), 5e-324))
    out = printed("identify", "a.npy", status=1)
    assert "all values are equal, and a constant table identifies no encoding" in out
    np.save(tmp_path / "sin.npy", np.zeros((64, 64)))
    np.save(tmp_path / "cos.npy", np.ones((64, 64)))
    out = printed("identify", "cos.npy", "sin.npy", status=1)
    assert "cause: each table is constant, and a constant table identifies no encoding" in out
    out = printed("identify", "sin.npy")
    assert "is nope, dim 64: zeros, which hold no positions" in " ".join(out.split())


@pytest.mark.long
def test_a_cell_that_does_not_fit_is_told_with_its_file_where_there_are_two(call):
    tables = {table: matrix("rope", "0:256", dim=16, table=table) for table in ("cos", "sin")}
    tables["sin"][120, 3] += 0.5
    for table, values in tables.items():
        np.save(f"{table}.npy", values)
    for files, said in ((("cos.npy", "sin.npy"), " of 'sin.npy'"), (("sin.npy",), "")):
        status, out, _ = call("identify", *files)
        assert (status, f"row 120, column 3{said}: " in " ".join(out.split())) == (1, True)


@pytest.mark.long
def test_axes_of_length_1_that_the_commands_leave_out_are_said(call, tmp_path):
    table = tmp_path / "table.npy"
    angles = np.arange(32)[:, None] * 1e4 ** -(np.arange(8) / 8)
    np.save(table, np.cos(np.tile(angles, (1, 2)))[None, :, None].astype(np.float32))
    assert "write the same array, without the axes of length 1:" in call("identify", str(table))[1]


def test_scores_that_no_rule_gives_are_not_identified(tmp_path, printed):
    offsets = np.subtract.outer(np.arange(40), np.arange(40)) + 40
    scores = np.random.default_rng(0).normal(size=(4, 80))[:, offsets].astype(np.float32)
    np.save(tmp_path / "scores.npy", scores)
    out = printed("identify", "scores.npy", status=1)
    assert "schemes fits: the nearest is" in " ".join(out.split())
    assert "inf" not in out


def test_slopes_have_no_layout(call):
    slopes = 2.0 ** -np.arange(1, 9)
    np.save("slopes.npy", slopes)
    out = call("identify", "slopes.npy")[1]
    assert re.search("^table +slopes$", out, re.MULTILINE)
    assert "layout" not in out


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "values",
    [
        np.full((8, 8), np.nan),
        np.full((8, 8), np.inf),
        np.full((8, 8), 1e300),
        np.full((3, 4, 5, 6), 1.0),
        np.ones((1, 8)),
        np.ones((8, 1)),
        np.zeros((2, 2), np.complex64),
        np.arange(64.0).reshape(8, 8) * 1e-300,
        np.full((2, 3, 3), -np.inf),
        np.tile([1.0, 0.0], (9, 3)),
    ],
)
def test_strange_arrays_end_in_a_verdict(values, call):
    np.save("a.npy", values)
    status, out, err = call("identify", "a.npy", "--json")
    assert status in (0, 1), err
    json.loads(out, parse_constant=pytest.fail)
