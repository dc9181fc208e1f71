"""``posenc buckets``: what scripts read, what people read, and what is refused."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import numpy as np
import pytest


def rows(text):
    lines = text.splitlines()
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in lines[2:]]


def expanded(text):
    """The table of runs, as a bucket for each position."""
    found = {}
    for positions, named in rows(text):
        first, last = (positions.split(" … ") * 2)[:2], (named.split(" … ") * 2)[:2]
        where = range(int(first[0]), int(first[-1]) + 1) if " … " in positions else [int(positions)]
        low, high = int(last[0]), int(last[1])
        step = 0 if low == high else (1 if high > low else -1)
        for index, position in enumerate(where):
            found[position] = low + step * index
        assert found[where[-1]] == high
    return found


@pytest.mark.parametrize(
    ("rule", "name", "peer"),
    [
        ("t5", "t5_bucket_bi_nb32_md128", "hf_t5"),
        ("t5 --set bidirectional=false", "t5_bucket_uni_nb32_md128", "hf_t5"),
        ("deberta", "deberta_log_bucket_b256_m512", "hf_deberta_v2"),
    ],
)
def test_json_and_table_are_the_peers_buckets(rule, name, peer, call, golden):
    _, arrays = golden(name)
    status, out, err = call("buckets", *rule.split(), "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    assert list(document)[:3] == ["schema", "positions", "buckets"]
    assert document["schema"] == "posenc/buckets/1"
    assert document["positions"] == arrays["relative_position"].tolist() == list(range(-600, 601))
    assert document["buckets"] == arrays[peer].tolist()
    status, out, _ = call("buckets", *rule.split())
    assert status == 0
    assert expanded(out) == dict(zip(document["positions"], document["buckets"], strict=True))
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("spelling", [("--positions", "-3:3"), ("--positions=-3:3",)])
def test_negative_positions_are_no_options(spelling, call):
    status, out, err = call("buckets", "t5", *spelling, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["buckets"] == [3, 2, 1, 0, 17, 18]


def test_json_says_what_was_asked(call):
    _, out, _ = call(
        "buckets", "deberta", "--set", "max-position=1024", "--positions", "0", "--json"
    )
    document = json.loads(out)
    assert document["rule"] == "deberta"
    assert document["params"] == {"bucket_size": 256, "max_position": 1024}


def test_positions_in_any_order_keep_it(call):
    _, out, _ = call("buckets", "t5", "--positions", "500,-1,-2,0:30:10", "--json")
    document = json.loads(out)
    assert document["positions"] == [500, -1, -2, 0, 10, 20]
    assert document["buckets"] == [31, 1, 2, 0, 24, 26]
    _, out, _ = call("buckets", "t5", "--positions", "500,-1,-2,0:30:10")
    assert [row[0] for row in rows(out)] == ["500", "-1", "-2", "0", "10", "20"]


def test_the_table_of_a_million_positions_is_short(call):
    status, out, _ = call("buckets", "t5", "--positions", "-500000:500000")
    assert status == 0
    assert len(out.splitlines()) == 20
    assert rows(out)[-1] == ["91 … 499999", "31"]


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(tmp_path):
    posenc = f"{shlex.quote(sys.executable)} -m posenc_cli"
    command = f"{posenc} buckets t5 --positions 0:300000 --json | head -1"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.stdout, done.stderr) == ("{\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("t6", "RULE 't6': must be one of t5, deberta"),
        ("t5 --set bucket_size=4", "--set bucket_size: the buckets of t5 have no parameter"),
        ("t5 --set num_buckets=1", "--set num_buckets 1: must be from 2"),
        ("t5 --set num_buckets", "--set 'num_buckets': must be NAME=VALUE"),
        ("t5 --set max_distance=9 --set max-distance=9", "max_distance is given twice"),
        ("t5 --positions 5:1", "--positions '5:1': '5:1' holds no position"),
        ("t5 --positions x", "--positions 'x'"),
        ("t5 --positions 0:99999999", "99999999 positions; at most 1048576 are taken"),
        ("t5 --positions -9007199254740993", "must lie within −2^53 and 2^53"),
        ("deberta --set max_position=100", "max_position must be above 129"),
        ("", "RULE"),
    ],
)
def test_bad_input_is_one_line(arguments, message, call):
    status, out, err = call("buckets", *arguments.split())
    assert (status, out) == (2, "")
    assert err.startswith("posenc: error: ")
    assert message in err.splitlines()[0]


def test_a_range_of_buckets_is_explained(call):
    _, out, err = call("buckets", "deberta", "--positions", "-3:3")
    assert "-3 … 2 -3 … 2" in " ".join(out.split())
    assert "each position has its own, in order" in err
    assert call("buckets", "t5", "--positions", "5000:5003")[2] == ""


def test_a_plot_has_each_bucket_at_its_position(call):
    asked = ("buckets", "t5", "--set", "num_buckets=8", "--positions", "-40:41")
    status, out, err = call(*asked, "--plot", "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    (curve,) = document["curves"]
    drawn = np.interp(document["positions"], curve["x"], curve["y"])
    assert drawn.tolist() == document["buckets"]
    assert document["title"] == "t5: buckets of 81 relative positions (num_buckets=8)"
    assert (document["x_label"], document["y_label"]) == ("key − query, in positions", "bucket")


def test_a_plot_is_parted_where_positions_were_left_out(call):
    _, out, _ = call("buckets", "deberta", "--positions", "0:3,10:12,5", "--plot", "--json")
    (curve,) = json.loads(out)["curves"]
    gaps = [x for x, y in zip(curve["x"], curve["y"], strict=True) if y is None]
    assert gaps == [10, 5]


def test_a_plot_in_the_terminal_names_its_axes(call):
    status, out, err = call("buckets", "deberta", "--plot")
    assert (status, err) == (0, "")
    assert "deberta: buckets of 1201 relative positions" in out
    assert "across: query − key, in positions   up: bucket" in out
    assert len(out.splitlines()) < 24
    assert call("buckets", "t5", "--width", "60")[0] == 2
