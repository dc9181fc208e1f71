"""Positions that are not whole, or not positive, at the command line."""

import numpy as np
import pytest


def test_labels_metadata_and_json_hold_the_positions_as_they_are(call, tmp_path, document, printed):
    arguments = ("-s", "rope", "-d", "2", "--positions", "-0.5:0.6:0.5,1/3", "--header")
    out = printed("generate", *arguments, "--out", "-", "--format", "csv", "-q")
    labels = [line.split(",")[0] for line in out.splitlines()]
    assert labels == ["position", "-0.5", "0", "0.5", "1/3"]
    stated = document("generate", *arguments[:-1], "--out", "t.npz")["positions"]
    assert stated == "-0.5:2/3:0.5,1/3"
    again = call("generate", "-s", "rope", "-d", "2", f"--positions={stated}", "--out", "u.npz")
    assert again[0] == 0
    first, second = (np.load(tmp_path / name) for name in ("t.npz", "u.npz"))
    assert np.array_equal(first["encoding"], second["encoding"])


def test_a_start_need_not_be_whole_or_positive(call):
    def rows(*arguments):
        given = ("-s", "integer", "-d", "1", "--format", "csv", "--out", "-", "-q")
        return call("generate", *given, *arguments)[1]

    assert rows("--start", "-1.5", "-l", "3") == "-1.5\n-0.5\n0.5\n"
    assert rows("--start", "1e3", "-l", "1_0") == "".join(f"{1000 + i}.0\n" for i in range(10))


def test_positions_come_from_a_file_of_numbers(call, tmp_path, refused):
    np.save(tmp_path / "steps.npy", np.array([0.1, 999.25], np.float32))
    given = ("-s", "integer", "-d", "1", "--format", "csv", "--out", "-", "-q", "--dtype")
    status, out, _ = call("generate", *given, "float64", "--positions", "steps.npy")
    assert (status, out) == (0, "0.10000000149011612\n999.25\n")
    np.save("wide.npy", np.zeros((2, 3)))
    np.save("nan.npy", np.array([np.nan]))
    for name, status, said in (
        ("wide.npy", 2, " holds an array of shape 2×3; it must be one row\n"),
        ("nan.npy", 2, ": must be finite numbers"),
        ("none.npy", 3, ""),
    ):
        err = refused("generate", *given, "float32", "--positions", name, status=status)
        assert f"{name}{said}" in err.replace("'", "")


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        ("heatmap -s rope -d 4 --positions -1:1:0.5", "-0.5┤"),
        ("curve -s rope -d 4 --positions -1:1:0.125", "across: position"),
        ("curve -s alibi --heads 1 --positions 0:1:0.25", "-0.5"),
        ("heatmap -s alibi --heads 1 --positions 0:2:0.25 --softmax", "0.5┤"),
        (
            "rotation -s rope -d 4 --positions 0.25,0.5,1/3",
            "faint line: position 0.25; full line: position 1/3",
        ),
        ("compare rope rope-linear --positions 0.5,2.5", "at position 2.5"),
        ("compare rope rope-linear --positions=-2,0.5", "at position -2, dimension"),
    ],
)
def test_pictures_name_positions_as_they_are(call, command, seen):
    status, out, err = call(*command.split())
    assert status in (0, 1), err
    assert seen in out


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        ("dot-similarity -s rope --positions 0:2:0.5", "position 0.5 is not whole: a similarity"),
        ("inspect -s rope --positions 0:2:0.5", "position 0.5 is not whole: an inspection"),
        ("spectrum -s rope --positions 0:2:0.5", "position 0.5 is not whole: a spectrum"),
        ("order-check -s rope --positions 0:2:0.5", "position 0.5 is not whole: order-check"),
        ("order-check -s rope --positions -2:2", "position -2 is negative: order-check"),
        ("rope-check -s rope --positions 0.5", "position 0.5 is not whole: rope-check"),
        ("rope-check -s rope --positions -2:2", "position -2 is negative: rope-check"),
    ],
)
def test_what_takes_whole_positions_says_so(command, refusal, refused):
    assert refused(*command.split()).startswith(f"posenc: error: {refusal}")


@pytest.mark.parametrize("command", ["dot-similarity", "inspect", "spectrum"])
def test_whole_positions_below_0_are_taken(call, command):
    assert call(command, "-s", "rope", "-d", "8", "--positions", "-20:4", "--json")[0] == 0


def test_a_curve_over_thirds_is_one_line():
    from posenc_cli.encoding.engine import Engine
    from posenc_cli.render.figures.columns import column_figure
    from tests.matrices import request

    asked = request("rope", "0:4:1/3,9", dim=4, dtype="float64")
    figure = column_figure(asked, lambda _plan: Engine())
    gaps = [int(np.isnan(np.asarray(curve.y, float)).sum()) for curve in figure.curves]
    assert gaps == [1] * len(gaps)  # before 9 alone
