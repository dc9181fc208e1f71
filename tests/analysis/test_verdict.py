"""Verdicts on more pairs than are looked at: against all pairs, and closed forms."""

import math

import numpy as np
import pytest

from posenc_cli.analysis import products, verdict
from posenc_cli.analysis.products import MatrixRows, diagonals, near_diagonals
from posenc_cli.analysis.similarity import similarity_of_array
from posenc_cli.render.figures.similarities import sentences, similarity_fields
from tests.analysis.test_similarity import judged

COUNT, WAVELENGTH = 4000, 1801


def turning(wavelength=WAVELENGTH):
    angles = 2 * np.pi * np.arange(COUNT) / wavelength
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def judged_rows(table, **given):
    return verdict.verdict(similarity_of_array(table, "float32", name="x", **given))


def assert_tells_of(found, expected):
    """That diagonals are those of lists of products by offset, NaN left out."""
    assert found.offsets.tolist() == list(expected)
    for place, values in enumerate(expected.values()):
        finite = np.array(values)[np.isfinite(values)]
        assert (found.examined[place], found.kept[place]) == (len(values), finite.size)
        told = found.least[place], found.mean[place], found.most[place]
        if finite.size:
            right = finite.min(), finite.mean(), finite.max()
            np.testing.assert_allclose(told, right, atol=1e-13)
        else:
            assert np.isnan(told[1])


@pytest.fixture
def spoiled():
    table = np.random.default_rng(5).standard_normal((90, 3))
    table[17, 1], table[40] = np.nan, np.inf
    return table


def test_no_row_is_left_out_of_the_nearest_diagonals(spoiled, monkeypatch):
    with np.errstate(all="ignore"):
        whole = spoiled @ spoiled.T
    for values in (1, 21, 3000):
        monkeypatch.setattr(products, "_SCANNED_VALUES", values)
        found = near_diagonals(MatrixRows.of(spoiled))
        assert_tells_of(found, {k: np.diagonal(whole, -k).tolist() for k in range(4)})
        assert found.reach == pytest.approx(diagonals(MatrixRows.of(spoiled)).reach, rel=1e-14)
    assert near_diagonals(MatrixRows.of(spoiled[:2])).offsets.tolist() == [0, 1]


def test_of_a_sample_half_distance_lies_past_the_offsets_that_are_all_there(monkeypatch):
    assert judged_rows(turning()).half_distance == WAVELENGTH // 6 + 1
    monkeypatch.setattr(verdict, "PRODUCTS", 100_000)
    found = judged_rows(turning())
    assert not found.measured_all
    assert found.toeplitz
    assert found.half_distance is None
    assert found.half_searched < WAVELENGTH // 6 + 1
    assert {*range(found.half_searched + 1)} <= {*found.offsets.tolist()}
    found = judged_rows(turning() + 3)  # which never halves
    assert found.half_distance is None
    assert 0 < found.half_searched < COUNT // 8
    # Where the first below half lies among them, it is the first.
    monkeypatch.setattr(verdict, "PRODUCTS", 40_000_000)
    found = judged_rows(turning(181))
    assert (found.measured_all, found.half_distance) == (False, 181 // 6 + 1)


def test_one_row_that_is_not_like_the_others_is_found(monkeypatch):
    table = turning()
    table[1000] *= 1.01
    monkeypatch.setattr(verdict, "PRODUCTS", 10_000)
    found = judged_rows(table)
    assert found.pairs < COUNT * COUNT // 20
    assert (found.toeplitz, found.spread >= 0.02) == (False, True)
    # Turned about, it has the length of the others, and differs from its neighbours.
    table[1000] = -turning()[1000]
    assert judged_rows(table).spread >= 1.9
    monkeypatch.setattr(verdict, "SCANNED", 0)
    unseen = judged_rows(table)
    assert (unseen.toeplitz, unseen.measured_all) == (True, False)


def test_of_very_many_offsets_of_a_formula_those_nearest_to_0_are_looked_at(monkeypatch):
    # The slope of the one head is 2^−8.
    expected = math.ceil(math.log(2) * 2**8)
    for most, step, half in ((50, 1, None), (180, 1, expected), (180, 3, -(-expected // 3) * 3)):
        monkeypatch.setattr(verdict, "ALL_OFFSETS", most)
        found = judged("alibi", f"0:{1000 * step}:{step}", head=0, heads=1)
        assert found.half_distance == half
        if half is None:
            assert found.half_searched == most - 1
        assert found.offsets.tolist() == [step * at for at in range(1 - most, most)]
        assert found.measured_all


def test_words_and_json_say_what_the_answer_rests_on(monkeypatch):
    of = similarity_of_array(turning(), "float32", name="x")

    def told():
        found = verdict.verdict(of)
        return sentences(of, found), similarity_fields(of, found)

    said, fields = told()
    assert said[0].startswith("depends only on m − n: yes; ")
    assert (fields["toeplitz"], fields["evidence"]) == (True, "measured")
    monkeypatch.setattr(verdict, "PRODUCTS", 100_000)
    said, fields = told()
    assert said[0].startswith("depends only on m − n: yes, in the pairs looked at; ")
    assert (fields["toeplitz"], fields["evidence"]) == (True, "sample")
    assert fields["half_distance"] is None
    assert said[-1].endswith(
        f"up to offset {fields['half_searched']}; of those beyond, some were checked"
    )
    # A wave that does not halve in its first offsets, of which a sample leaves some out.
    of = similarity_of_array(turning() + 3, "float32", name="x")
    said, fields = told()
    assert said[-1].endswith(
        f"up to offset {fields['half_searched']}; of those beyond, some were checked"
    )
