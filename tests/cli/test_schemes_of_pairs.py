"""A bias that goes by pairs of positions: Swin's, BEiT's and a user's own, in every command."""

import json

import pytest

MINE = '''
from posenc_cli.formulas.declare import BucketBias, PairRule, Weights, bias

def _of(number):
    def build(*, heads: int = 2, seed: int = 0) -> BucketBias:
        """A score for each product of positions."""
        pairs = PairRule(number, "products of positions")
        return BucketBias(heads, lambda xp, n: n % 7, Weights(7, heads, None, seed), pairs=pairs)
    return build

products = bias(source="here", formula="table[ij mod 7]")(_of(lambda xp, q, k: q * k))
broken = bias(source="here", formula="none")(_of(lambda xp, q, k: q + "x"))
'''
COMMANDS = (
    ("generate", "-o", "scores.npy"),
    ("heatmap", "--graphics", "none"),
    ("heatmap", "--graphics", "none", "--softmax", "--causal"),
    ("curve", "--graphics", "none"),
    ("dot-similarity", "--graphics", "none"),
    ("dot-similarity", "--graphics", "none", "--profile"),
    ("order-check",),
    ("inspect",),
)


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "of_pairs.py").write_text(MINE)
    return "./of_pairs.py"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_scheme_of_ones_own_goes_by_pairs_or_says_what_its_code_raised(
    command, own, call, refused
):
    name, *options = command
    status, _, err = call(name, "-s", f"{own}:products", "-l", "9", *options)
    assert (status, "error" in err) == (0, False)
    err = refused(name, "-s", f"{own}:broken", "-l", "9", *options)
    assert f"--scheme {own}:broken: its code raised" in err
    assert "bug" not in err


@pytest.mark.parametrize(
    ("scheme", "status", "said"),
    [
        ("swin", 0, "how many rows and columns lie between two places"),
        ("swin-v2", 0, "how many rows and columns lie between two places"),
        ("swin --set class_token=true", 1, "scores at one distance differ by"),
        ("./of_pairs.py:products", 1, "products of positions; scores at"),
    ],
)
def test_rope_check_says_what_scores_of_pairs_go_by(scheme, status, said, own, call):
    ended, out, _ = call("rope-check", "-s", *scheme.split(), "-l", "9", "--json")
    (finding,) = json.loads(out)["findings"]
    assert (ended, finding["ok"]) == (status, status == 0)
    assert said in finding["message"]

    assert call("rope-check", "-s", f"{own}:products", "-l", "1")[0] == 0


def test_a_curve_of_pairs_is_of_the_query_in_the_middle(printed):
    out = printed("curve", "-s", "swin", "-l", "9", "--graphics", "none")
    assert "score by key for query 4" in " ".join(out.split())


def test_positions_past_those_whose_pairs_are_compared_are_refused(refused):
    line = ("dot-similarity", "-s", "swin", "--set", "window_size=100", "-l", "5000")
    assert "--len 5000: 5000 positions of swin" in refused(*line)
