"""Four vectors show a map that turns pairs of columns; whatever else it does is seen, too."""

import numpy as np
import pytest

from posenc_cli.checks.calling import implementation
from posenc_cli.inference.turning import ColumnPairing
from posenc_cli.positions import Positions
from posenc_cli.rotary.result_reader import Entries, PairProbes
from posenc_cli.rotary.verdict import examine
from tests.checks import rope

WIDTH = 12
PAIRINGS = {
    "half": ColumnPairing.named("half", 6),
    "interleaved": ColumnPairing.named("interleaved", 6),
    "reordered": ColumnPairing.named("half", 6, out_layout="interleaved"),
    "partial": ColumnPairing.named("interleaved", 4),
    "other order": ColumnPairing((0, 7), (5, 2), (0, 7), (5, 2), None, None),
}


def maps(pairing, rows=40, seed=1):
    """Matrices [k, j, o] that mix the two columns of each pair by any four numbers."""
    generator = np.random.default_rng(seed)
    matrices = np.zeros((rows, WIDTH, WIDTH), np.float32)
    for inside in (pairing.first, pairing.second):
        for outside in (pairing.out_first, pairing.out_second):
            shape = (rows, pairing.pairs)
            matrices[:, list(inside), list(outside)] = generator.uniform(-1, 1, shape)
    others = list(pairing.others(WIDTH))
    matrices[:, others, others] = 1
    return matrices


@pytest.mark.parametrize("name", PAIRINGS)
@pytest.mark.parametrize("other", PAIRINGS)
def test_what_four_vectors_show_is_what_all_unit_vectors_show(name, other):
    matrices, probes = maps(PAIRINGS[name]), PairProbes(PAIRINGS[name], WIDTH)
    entries, exact = probes.read(np.einsum("pj,kjo->kpo", probes.vectors, matrices))
    assert exact.all()
    for shown, whole in zip(
        entries.read_as(PAIRINGS[other]), Entries.of(matrices).read_as(PAIRINGS[other]), strict=True
    ):
        # The last of them is a difference of two norms in float64.
        np.testing.assert_allclose(shown, whole, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", PAIRINGS)
def test_any_other_entry_is_seen_at_its_row(name):
    matrices, probes = maps(PAIRINGS[name], rows=WIDTH * WIDTH), PairProbes(PAIRINGS[name], WIDTH)
    pairing = PAIRINGS[name]
    pairs = zip(pairing.first, pairing.second, strict=True)
    out_pairs = zip(pairing.out_first, pairing.out_second, strict=True)
    own = {(j, o) for ins, outs in zip(pairs, out_pairs, strict=True) for j in ins for o in outs}
    for row, (j, o) in enumerate(np.ndindex(WIDTH, WIDTH)):
        matrices[row, j, o] += 3e-6
    _, exact = probes.read(np.einsum("pj,kjo->kpo", probes.vectors, matrices))
    assert exact.tolist() == [place in own for place in np.ndindex(WIDTH, WIDTH)]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_seen(value):
    matrices, probes = maps(PAIRINGS["half"]), PairProbes(PAIRINGS["half"], WIDTH)
    results = np.einsum("pj,kjo->kpo", probes.vectors, matrices)
    for which in range(4):
        results[which, which, 5] = value
    assert probes.read(results)[1].tolist() == [False] * 4 + [True] * 36


class Counting:
    """A right rotation that counts the values that it is given."""

    def __init__(self, leak=0.0):
        self.given, self.leak = 0, leak

    def __call__(self, x, positions):
        self.given += x.size
        half = x.shape[1] // 2
        angles = positions[:, None] * 10_000.0 ** (-np.arange(half) / half)
        cos, sin = np.cos(angles), np.sin(angles)
        a, b = x[:, :half], x[:, half:]
        y = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=1)
        y[:, 1] += self.leak * x[:, 2] * (positions == 1501)
        return y.astype(np.float32)


def examined(function, length, dim=64):
    right = rope.reference("rope", dim=dim, layout="half")
    where = Positions.parse(f"0:{length}")
    return examine(implementation(function, right, where), right, "auto")


@pytest.mark.long
def test_what_a_function_is_given_grows_as_the_rows_and_the_columns():
    given = []
    for length in (2048, 4096):
        function = Counting()
        assert examined(function, length).ok
        given.append(function.given)
    # Of each row four vectors in one call, and one in two that look at patterns of calls.
    assert given[1] - given[0] <= 6.5 * 2048 * 64


@pytest.mark.long
@pytest.mark.parametrize(("leak", "right"), [(0.0, True), (1e-5, False)])
def test_a_column_that_leaks_at_one_position_is_found(leak, right):
    assert examined(Counting(leak), 2048).ok == right
