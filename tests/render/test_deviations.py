"""The picture of a check: error beside tolerance, and the pairs and positions that are wrong."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from posenc_cli.render.reports.deviations import check_figure, error_curve

ROWS, DIM = 256, 16
RATES = 10000.0 ** (-np.arange(0, DIM, 2) / DIM)  # (8,)


pytestmark = pytest.mark.long


@pytest.fixture
def figure_of(call, monkeypatch, tmp_path):
    """The curve and the map that rope-check draws of tables, and its title and notes."""

    def draw(cos: np.ndarray, sin: np.ndarray, *options: str):
        drawn = []

        def keep(report):
            drawn.append(check_figure(report))
            return drawn[-1]

        monkeypatch.setattr("posenc_cli.render.reports.deviations.check_figure", keep)
        np.save(tmp_path / "cos.npy", cos)
        np.save(tmp_path / "sin.npy", sin)
        base = ["rope-check", "-s", "rope", "--dim", str(DIM), "--layout", "half"]
        call(*base, "--tables", "cos.npy", "sin.npy", *options, "--out", "picture.html")
        return drawn[-1]

    return draw


def tables() -> tuple[np.ndarray, np.ndarray]:
    angles = np.arange(ROWS)[:, None] * RATES
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def above_of(figure) -> tuple[np.ndarray, np.ndarray]:
    """The values of the map, pairs down and positions across, and the positions."""
    panel = figure.panels[1]
    return np.asarray(panel.values), np.array(panel.columns.points)


def test_the_map_shows_the_pair_and_the_positions_that_are_wrong_and_no_other(figure_of):
    cos, sin = tables()
    sin[128:, 3] += 0.01
    figure = figure_of(cos, sin, "--tol", "0.001")
    above, positions = above_of(figure)
    assert above.shape[0] == DIM // 2
    wrong, behind = above > 0, np.append(positions[1:], ROWS) > 128  # of each point, some rows
    assert wrong[3].tolist() == behind.tolist()
    assert not np.delete(wrong, 3, axis=0).any()
    # Ten times what is allowed: one power of ten, up to the roundings of float32.
    np.testing.assert_allclose(above[3][behind], 1, atol=1e-4)
    (curve,) = figure.panels[0].curves
    np.testing.assert_allclose(np.array(curve.y)[behind], 10, rtol=1e-4)
    assert max(np.array(curve.y)[~behind]) < 2e-3
    assert figure.panels[0].levels == ((1.0, "tolerance"),)
    assert figure.title.startswith("FAILED: ")


def test_roundings_have_no_map_and_the_titles_say_that_all_is_within_and_what_is_cut(figure_of):
    plain = "the largest error at each position"
    cut = f"{plain}; errors below 0.001 are drawn at 0.001"
    for tolerance, title in (("1e-6", plain), ("0.1", cut)):
        (curve,) = (figure := figure_of(*tables(), "--tol", tolerance)).panels
        assert figure.title == "ok: every error is within the tolerance"
        assert curve.title == title
        assert 1e-3 <= max(curve.curves[0].y) <= 1


def test_a_title_names_the_cause_and_the_notes_the_subject(figure_of):
    angles = np.arange(ROWS)[:, None] * 500.0 ** (-np.arange(0, DIM, 2) / DIM)
    figure = figure_of(np.cos(angles).astype("f4"), np.sin(angles).astype("f4"))
    assert figure.title == "FAILED: base: the base is 500, not 10000"
    assert "cos.npy" in figure.notes[0]
    above, _ = above_of(figure)
    assert not above[0].any()  # pair 0 rotates by 1 whatever the base
    assert (above[1:].max(axis=1) > 0).all()


def test_what_is_no_number_is_a_gap_and_the_rest_is_drawn(figure_of):
    cos, sin = tables()
    cos[200, 2] = np.nan
    above, positions = above_of(figure_of(cos, sin))
    gaps = ~np.isfinite(above)
    assert gaps.sum() == 1
    assert gaps[2, np.searchsorted(positions, 200, side="right") - 1]


def test_where_nothing_is_allowed_there_is_no_share_to_draw(figure_of):
    assert figure_of(*tables(), "--tol", "0") is None


def test_more_pairs_than_have_room_are_shown_by_the_worst_of_neighbours(call, tmp_path):
    rates = 10000.0 ** (-np.arange(0, 1024, 2) / 1024)
    angles = np.arange(8)[:, None] * rates
    sin = np.sin(angles)
    sin[5, 301] += 0.5
    np.save(tmp_path / "cos.npy", np.cos(angles))
    np.save(tmp_path / "sin.npy", sin)
    call(
        *("rope-check", "-s", "rope", "--dim", "1024", "--layout", "half", "--tol", "0.05", "-q"),
        *("--tables", "cos.npy", "sin.npy", "--out", "picture.html"),
    )
    page = (tmp_path / "picture.html").read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    rows = data["panels"][1]["rows"]
    assert (rows["start"], rows["step"], rows["count"]) == (0, 4, 128)


@pytest.mark.parametrize(("of", "scale", "joined"), [(None, "linear", True), (65536, "log", False)])
def test_a_sample_of_positions_that_get_sparser_has_a_log_axis(of, scale, joined):
    """On a linear one all but the last few would lie over each other at its left end."""
    positions = [0, 1, 2, 3, 129, 2047, 65535]
    report = SimpleNamespace(
        shares=[[0.5, 2.0]] * 7, curve=[(place, 2.0) for place in positions], of=of
    )
    curves = error_curve(report)
    assert (curves.x_scale, curves.joined) == (scale, joined)
    assert curves.curves[0].x == tuple(positions)
