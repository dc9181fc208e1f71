"""Schemes that turn nothing: whether scores depend on m − n is judged as it truly is."""

import itertools

import numpy as np
import pytest

from posenc_cli.checks.additive import additive_report
from tests.matrices import matrix, request


def relative(scheme, positions="0:12", rule="auto", **given):
    asked = request(scheme, positions, dtype="float64", **given)
    return additive_report(asked, rule).findings[0]


def brute_force(rows):
    """The largest change of (q + p_m)·(k + p_n) over unit q and k and pairs of one distance."""
    worst = 0.0
    count = len(rows)
    for distance in range(count):
        for m, other in itertools.product(range(count - distance), repeat=2):
            n, n_other = m + distance, other + distance
            worst = max(
                worst,
                np.linalg.norm(rows[n] - rows[n_other])
                + np.linalg.norm(rows[m] - rows[other])
                + abs(rows[m] @ rows[n] - rows[other] @ rows[n_other]),
            )
    return worst


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned", "integer", "binary"])
def test_what_is_added_to_embeddings_fails_by_what_scores_change(scheme):
    given = {"dim": 8}
    found = relative(scheme, **given)
    worst = brute_force(matrix(scheme, "0:12", dtype="float64", **given))
    assert not found.ok
    assert found.worst <= worst * (1 + 1e-12)
    assert worst <= 2 * found.worst * (1 + 1e-12)


def test_sinusoids_alone_depend_on_the_distance_but_not_with_content():
    # p_m·p_n is a function of n − m, which is what is often tested; the whole score is none.
    rows = matrix("sinusoidal", "0:12", dtype="float64", dim=8)
    products = rows @ rows.T
    assert np.allclose(np.diag(products, 3), products[0, 3])
    found = relative("sinusoidal", dim=8)
    assert not found.ok
    assert found.at["m"] == found.at["n"]


def test_no_encoding_at_all_changes_nothing():
    found = relative("nope", dim=8)
    assert found.ok
    assert found.worst == 0


@pytest.mark.parametrize(("scheme", "given"), [("alibi", {}), ("t5", {}), ("t5-clipped", {})])
def test_biases_of_the_offset_pass(scheme, given):
    assert relative(scheme, heads=2, **given).ok


@pytest.mark.parametrize("last", [4096, 1_000_000])
def test_a_bias_whose_scale_grows_slowly_with_the_query_fails(last):
    """Its scores at neighbouring positions differ by less than the tolerance."""
    assert not relative("fire", f"0:{last}", heads=2).ok
    assert relative("fire", "0:500", heads=2).ok


@pytest.mark.parametrize("form", ["bloom", "mpt"])
def test_a_bias_of_the_key_passes_by_the_softmax(form):
    found = relative("alibi", heads=2, form=form)
    assert found.ok
    assert "softmax" in found.message


def test_a_given_tolerance_is_kept():
    assert relative("sinusoidal", dim=8, rule=100.0).ok
    assert not relative("sinusoidal", dim=8, rule=0.5).ok
