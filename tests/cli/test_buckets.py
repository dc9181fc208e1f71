"""``posenc curve --table buckets``: what scripts read, what people see, and what is refused."""

import numpy as np
import pytest


@pytest.fixture
def buckets(document):
    """The JSON of a rule's buckets, of which the curve draws each at its position."""
    return lambda rule, *more: document("curve", "-s", *rule.split(), "--table", "buckets", *more)


@pytest.mark.parametrize(
    ("rule", "name", "peer"),
    [
        ("t5", "t5_bucket_bi_nb32_md128", "hf_t5"),
        ("t5 --set bidirectional=false", "t5_bucket_uni_nb32_md128", "hf_t5"),
        ("deberta", "deberta_log_bucket_b256_m512", "hf_deberta_v2"),
    ],
)
def test_the_buckets_are_the_peers(rule, name, peer, buckets, golden):
    _, arrays = golden(name)
    document = buckets(rule)
    assert document["positions"] == arrays["relative_position"].tolist() == list(range(-600, 601))
    assert document["buckets"] == arrays[peer].tolist()


@pytest.mark.parametrize("spelling", [("--positions", "-3:3"), ("--positions=-3:3",)])
def test_negative_positions_are_no_options(spelling, buckets):
    assert buckets("t5", *spelling)["buckets"] == [3, 2, 1, 0, 17, 18]


def test_json_says_what_was_asked_and_keeps_the_order_of_positions(buckets):
    document = buckets("deberta", "--set", "max-position=1024", "--positions", "0")
    assert document["rule"] == "deberta"
    assert document["params"] == {"bucket_size": 256, "max_position": 1024}
    document = buckets("t5", "--positions", "500,-1,-2,0:30:10")
    assert document["positions"] == [500, -1, -2, 0, 10, 20]
    assert document["buckets"] == [31, 1, 2, 0, 24, 26]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-s t6", "--scheme 't6': must be one of t5, deberta"),
        ("-s t5 -s deberta", "--table buckets: draws one scheme, t5 or deberta; name it once"),
        ("--in x.npy", "--table buckets: draws one scheme, t5 or deberta; name it once"),
        ("-s t5 --set bucket_size=4", "--set bucket_size: the buckets of t5 have no parameter"),
        ("-s t5 --set num_buckets=1", "--set num_buckets 1: must be from 2"),
        ("-s t5 --set max_distance=9 --set max-distance=9", "max_distance is given twice"),
        ("-s t5 --positions 0:99999999", "99999999 positions; at most 1048576 are allowed"),
        ("-s t5 --positions -9007199254740993", "is past 2^53"),
        ("-s deberta --set max_position=100", "max_position must be above 129"),
    ],
)
def test_bad_input_is_one_line(arguments, message, refused):
    assert message in refused("curve", "--table", "buckets", *arguments.split()).splitlines()[0]


def test_a_plot_has_each_bucket_at_its_position(buckets):
    document = buckets("t5", "--set", "num_buckets=8", "--positions", "-40:41")
    (curve,) = document["curves"]
    assert np.interp(document["positions"], curve["x"], curve["y"]).tolist() == document["buckets"]
    assert document["title"] == "t5: buckets of 81 relative positions (num_buckets=8)"
    assert (document["x_label"], document["y_label"]) == ("key − query, in positions", "bucket")


def test_a_plot_is_parted_where_positions_were_left_out(buckets):
    (curve,) = buckets("deberta", "--positions", "0:3,10:12,5")["curves"]
    gaps = [x for x, y in zip(curve["x"], curve["y"], strict=True) if y is None]
    assert gaps == [10, 5]


def test_a_plot_in_the_terminal_names_its_axes(printed):
    out = printed("curve", "-s", "deberta", "--table", "buckets", err="")
    assert "deberta: buckets of 1201 relative positions" in out
    assert "across: query − key, in positions   up: bucket" in out
    assert len(out.splitlines()) < 24
