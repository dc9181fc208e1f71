"""``posenc alibi-slopes``: the three forms of output, and the check that can fail."""

import json

import numpy as np
import pytest

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

TWELVE = [2.0**-h for h in range(1, 9)] + [2.0 ** -(h + 0.5) for h in range(4)]


@pytest.mark.parametrize("asked", [("--json",), ("--format", "json")])
def test_json_gives_the_slopes_exactly(asked, printed):
    out = printed("alibi-slopes", "--heads", "12", *asked, err="")
    document = {"schema": "posenc/alibi-slopes/1", "heads": 12, "convention": "press"}
    document |= {"max_bias": 8.0, "slopes": TWELVE}
    assert json.loads(out) == document
    assert next(iter(json.loads(out))) == "schema"


def test_table_shows_head_slope_and_power(call):
    _, out, _ = call("alibi-slopes", "--heads", "3", "--max-bias", "4")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["head", "slope", "power"]
    assert rows[2:] == [["0", "0.25", "2^-2"], ["1", "0.0625", "2^-4"], ["2", "0.5", "2^-1"]]


def test_csv_is_one_slope_a_line_and_out_writes_the_same_text(call, refused, tmp_path):
    asked = ("alibi-slopes", "--heads", "12", "--format", "csv")
    status, printed, _ = call(*asked)
    assert (status, [float(line) for line in printed.splitlines()]) == (0, TWELVE)
    assert call(*asked, "--out", "s.csv") == (0, "", "")
    assert (tmp_path / "s.csv").read_text() == printed
    assert "it exists" in refused(*asked, "--out", "s.csv", "--no-clobber", status=3)


def test_the_suffix_of_out_tells_the_form(call, tmp_path):
    for name, start in (("s.csv", "0.5\n"), ("s.json", "{"), ("s.txt", "head"), ("s", "head")):
        assert call("alibi-slopes", "--heads", "8", "--out", name)[0] == 0
        assert (tmp_path / name).read_text().startswith(start)
    for name in ("s.csv", "s.json"):
        assert call("alibi-slopes", "--heads", "8", "--check", name)[0] == 0


def test_json_says_of_a_check_the_worst_head_and_why(report, tmp_path):
    np.save(tmp_path / "s.npy", TWELVE[::-1])
    status, found = report("alibi-slopes", "--heads", "12", "--check", "s.npy")
    assert (status, found["ok"], found["slopes"]) == (1, False, TWELVE)
    assert list(found)[1:5] == ["ok", "verdict", "cause", "next"]
    assert found["worst"]["found"] == TWELVE[::-1][found["worst"]["at"]["head"]]


@pytest.mark.parametrize(
    ("asked", "heads", "said"),
    [
        ("--heads 16", 16, "16 heads (press, max_bias=8)"),
        ("--heads 1", 1, "ALiBi slopes, 1 head (press, max_bias=8)"),
        ("--heads 2 --max-bias 4 --height 12", 2, "2 heads (press, max_bias=4)"),
        ("--heads 8 --max-bias 1e-300", 8, "max_bias=1e-300"),  # slopes that are all alike
    ],
)
def test_a_plot_draws_every_head_within_the_terminal_and_counts_them(asked, heads, said, call):
    status, out, err = call("alibi-slopes", "--plot", *asked.split())
    assert (status, err, out.count("•")) == (0, "", heads)
    assert said in out
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= (12 if "--height" in asked else 24)
    assert "\x1b" not in out


@pytest.mark.sweep(2)
@pytest.mark.parametrize("heads", [1, 12, 71, 128])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "csv"])
def test_right_slopes_pass_in_every_format(heads, dtype, call, tmp_path, printed):
    from safetensors.numpy import save_file

    _, out, _ = call("alibi-slopes", "--heads", str(heads), "--json")
    slopes = np.array(json.loads(out)["slopes"])
    if dtype == "csv":
        (tmp_path / "s.csv").write_text("\n".join(f"{m:.8g}" for m in slopes))
    elif dtype == "bfloat16":
        save_file({"slopes": slopes.astype(ml_dtypes.bfloat16)}, tmp_path / "s.safetensors")
    else:
        np.save(tmp_path / "s.npy", slopes.astype(dtype))
    (file,) = tmp_path.iterdir()
    out = printed("alibi-slopes", "--heads", str(heads), "--check", file.name, err="")
    assert f"match alibi (heads={heads}" in " ".join(out.split())


def test_peers_slopes_pass(call, tmp_path, golden):
    case, arrays = golden("alibi_bloom")
    for heads in case["params"]["heads"]:
        np.save(tmp_path / "s.npy", arrays[f"slopes_h{heads}"])
        assert call("alibi-slopes", "--heads", str(heads), "--check", "s.npy")[0] == 0, heads


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        ([2.0 ** (-8 * h / 12) for h in range(1, 13)], "the slopes of the convention naive"),
        (TWELVE[::-1], "in reverse order"),
        ([-m for m in TWELVE], "have the sign of the bias"),
        (sorted(TWELVE, reverse=True), "sorted"),
        ([2.0 ** (-8 * h / 12) for h in range(12)], "the exponents start at 0"),
        ([m * 1.00001 for m in TWELVE], "unknown: no known bug"),
        ([*TWELVE[:11], float("nan")], "1 of 12 values is NaN or infinite"),
        ([*TWELVE[:11], float("inf")], "1 of 12 values is NaN or infinite"),
        ([0.0] * 12, "all values are 0"),
        ([1.0] * 3, "the subject has 3 slopes, not 12"),
    ],
)
def test_wrong_slopes_fail_with_status_1_and_the_cause(wrong, cause, tmp_path, printed):
    np.save(tmp_path / "s.npy", np.array(wrong))
    out = printed("alibi-slopes", "--heads", "12", "--check", "s.npy", err="", status=1)
    assert out.startswith("FAILED: ")
    assert cause in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("--heads 0", 2, "--heads 0: must be from 1"),
        ("--max-bias 0", 2, "--max-bias 0: must be above 0"),
        ("--convention pres", 2, "--convention 'pres': must be one of"),
        ("--format xml", 2, "--format 'xml': must be one of"),
        ("--plot --format csv", 2, "--plot cannot go with"),
        ("--plot --check three.npy", 2, "--plot cannot go with --check"),
        ("--plot --json --out s.json", 2, "--out 's.json': must end in .png"),
        ("--json --format csv", 2, "--json cannot go with --format csv"),
        ("--check three.npy --format csv", 2, "--check cannot go with --format csv"),
        ("--out s.npy", 2, "cannot go with --out 's.npy', the name of"),
        ("--check broken.json", 2, "broken.json"),
        ("--check huge.json", 2, "huge.json"),
        ("--check endless.json", 2, "is larger than 8 MiB"),
        ("--check missing.npy", 3, "missing.npy"),
        ("--check square.npy", 2, "error: 'square.npy' holds an array of shape 3×3"),
        ("--check complex.npy", 2, "complex"),
        ("--out nowhere/s.csv --format csv", 3, "nowhere/s.csv"),
        ("--width 300", 2, "--width '300' needs --plot"),
        ("--title x", 2, "--title 'x' needs --plot"),
        ("--out a.png", 2, "the name of a picture"),
    ],
)
def test_bad_input_is_one_line(arguments, status, message, refused, tmp_path):
    np.save(tmp_path / "three.npy", np.ones(3))
    np.save(tmp_path / "square.npy", np.ones((3, 3)))
    np.save(tmp_path / "complex.npy", np.ones(8, dtype=complex))
    (tmp_path / "broken.json").write_text('{"slopes": "none"}')
    (tmp_path / "huge.json").write_text(f"[1{'0' * 400}]")
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    assert message in refused("alibi-slopes", *arguments.split(), status=status).splitlines()[0]


def test_what_a_plot_draws_is_printed_as_json(document):
    drawn = document("alibi-slopes", "--heads", "4", "--plot")
    assert drawn["curves"][0]["y"] == drawn["slopes"] == [2.0**-e for e in (2, 4, 6, 8)]


def test_falcons_slopes_are_those_that_its_code_rounds_to_bfloat16(call, tmp_path):
    """build_alibi_tensor of transformers 5.24: the first four of 71 heads, and of 12."""
    for heads, first in ((71, [0.91796875, 0.83984375, 0.76953125, 0.70703125]), (12, [0.5, 0.25])):
        config = {"model_type": "falcon", "alibi": True, "num_attention_heads": heads}
        file = tmp_path / f"{heads}.json"
        file.write_text(json.dumps({**config, "hidden_size": 64 * heads}))
        document = json.loads(call("alibi-slopes", "--config", str(file), "--json")[1])
        assert document["slopes"][: len(first)] == first
        assert document["format"] == "bfloat16"
    rounded, exact = tmp_path / "rounded.csv", tmp_path / "exact.csv"
    rounded.write_text("\n".join(map(repr, document["slopes"])))
    call("alibi-slopes", "--heads", "12", "--out", str(exact))
    assert call("alibi-slopes", "--config", str(file), "--check", str(rounded))[0] == 0
    assert call("alibi-slopes", "--config", str(file), "--check", str(exact))[0] == 1
