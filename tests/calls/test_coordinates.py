"""Functions of coordinates on several axes are given these, in the shape that each takes."""

import numpy as np
import pytest

PORT = """
import numpy as np

SECTIONS = (8, 28, 28)


def ladder(pairs):
    return 1e4 ** (-np.arange(pairs) / pairs)


def angles(ids, sections=SECTIONS, order=(0, 1, 2)):
    ids = np.asarray(ids, float)
    parts = [np.multiply.outer(ids[..., i], ladder(n)) for i, n in zip(order, sections)]
    return np.concatenate(parts, -1)


def tables(a):
    a = np.repeat(a, 2, -1)
    return np.cos(a), np.sin(a)


def rotate(x, a, heads=None):
    cos, sin = tables(a)
    if heads is not None:
        cos, sin = np.expand_dims(cos, heads), np.expand_dims(sin, heads)
    other = np.stack([-x[..., 1::2], x[..., 0::2]], -1).reshape(x.shape)
    return x * cos + other * sin


def shaped(ids, axes):
    assert len(axes) == ids.ndim and ids.shape[axes.index("a")] == 3, "three axes"
    return np.moveaxis(ids, axes.index("a"), -1)


def an(x, position_ids):
    return rotate(x, angles(shaped(position_ids, "an")))


def abn(q, k, position_ids):
    a = angles(shaped(position_ids, "abn"))
    return rotate(q, a, 1), rotate(k, a, 1)


def na(x, coords):
    return rotate(x, angles(shaped(coords, "na")))


def bna(x, positions):
    return rotate(x, angles(shaped(positions, "bna")), 2)


def img_ids(img_ids):
    return tables(angles(shaped(img_ids, "na")))


def ids(ids):
    assert ids.dtype.kind == "f", "ids of Flux are real numbers"
    return tables(angles(shaped(ids, "bna")))


def thw(x, t, h, w):
    return rotate(x, angles(np.stack([t, h, w], -1)))


def thw_by_name(x, *, t, h, w):
    return thw(x, t, h, w)


def thw_swapped(x, t, h, w):
    return thw(x, t, w, h)


def coordinates_alone(t, h, w):
    return tables(angles(np.stack([t, h, w], -1)))


def swapped(x, position_ids):
    return rotate(x, angles(shaped(position_ids, "an"), order=(0, 2, 1)))


def key_swapped(q, k, position_ids):
    ids = shaped(position_ids, "abn")
    return rotate(q, angles(ids), 1), rotate(k, angles(ids, order=(0, 2, 1)), 1)


def one_axis(img_ids):
    return tables(angles(shaped(img_ids, "na"), order=(0, 1, 1)))


def shares(img_ids):
    return tables(angles(shaped(img_ids, "na"), (28, 8, 28)))


def blocks(img_ids):
    return tables(angles(shaped(img_ids, "na"), (28, 8, 28), order=(1, 0, 2)))


def off_by_one(img_ids):
    return tables(angles(shaped(img_ids, "na") + 1))


class Embed:
    def __init__(self, dim, theta, axes_dim):
        assert sum(axes_dim) == dim and theta == 10000
        self.sections = [columns // 2 for columns in axes_dim]

    def __call__(self, ids):
        return tables(angles(shaped(ids, "bna"), self.sections))
"""
VIDEO = ("-s", "rope-axial", "-d", "128", "--set", "convention=wan", "--set", "sections=8,28,28")
GRID = (*VIDEO, "--set", "grid=2x4x6")


def cause_of(document):
    return document["diagnosis"][0]["cause"] if document["diagnosis"] else None


@pytest.fixture
def checked(ran):
    return lambda name, *how: ran(PORT, name, "rope-check", *(how or GRID))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("an", "position_ids (3, n)"),
        ("abn", "position_ids (3, 1, n)"),
        ("na", "coords (n, 3), real numbers"),
        ("bna", "positions (1, n, 3)"),
        ("img_ids", "img_ids (n, 3), real numbers"),
        ("ids", "ids (1, n, 3), real numbers"),
        ("thw", "t, h, w (n,)"),
        ("thw_by_name", "t, h, w (n,)"),
        ("coordinates_alone", "t, h, w (n,)"),
        ("Embed", "ids (1, n, 3), real numbers"),
    ],
)
def test_coordinates_come_in_the_shape_that_a_function_takes(name, shape, checked):
    status, document = checked(name)
    assert status == 0
    assert document["not_checked"] is None
    assert f"with {shape}" in " ".join(document["notes"]).replace("; ", " with ")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("swapped", "pairs 8–63 of 64 follow axis 2 instead of axis 1, axis 1 instead of axis 2"),
        ("thw_swapped", "axis 2 instead of axis 1, axis 1 instead of axis 2"),
        ("key_swapped", "k: pairs 8–63 of 64 follow axis 2 instead of axis 1"),
        ("one_axis", "pairs 36–63 of 64 follow axis 1 instead of axis 2"),
        ("shares", "sections is 28,8,28, not 8,28,28"),
        ("blocks", "pairs follow axes in the order (1, 0, 2), not (0, 1, 2)"),
    ],
)
def test_axes_and_shares_that_change_places_are_named(name, message, checked):
    status, document = checked(name)
    assert status == 1
    assert [why["cause"] for why in document["diagnosis"]] == ["axis"]
    assert message in document["diagnosis"][0]["message"]


@pytest.mark.long
def test_coordinates_that_begin_at_one_are_named(checked):
    status, document = checked("off_by_one")
    assert (status, cause_of(document)) == (1, "position-offset")


@pytest.mark.long
def test_fractions_of_a_file_are_given_as_they_are(checked):
    np.save("axes.npy", np.stack([np.arange(48) * 0.25, np.arange(48) % 7, np.arange(48) // 7]))
    for name, status in (("an", 0), ("img_ids", 0), ("swapped", 1)):
        assert checked(name, *VIDEO, "--set", "axes=axes.npy")[0] == status


CENTRED = """
import numpy as np


def tables(coords, axes, base=100.0):
    frequencies = 2 * np.pi * base ** (-np.arange(16) / 16)
    a = np.concatenate([coords[..., axis, None] * frequencies for axis in axes], -1)
    a = np.tile(a, 2)
    return np.cos(a), np.sin(a)


def right(coords):
    assert np.abs(coords).max() < 1
    return tables(coords, (0, 1))


def swapped(coords):
    return tables(coords, (1, 0))


def with_base(coords, base=100.0):
    return tables(coords, (0, 1), base)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "status", "cause"),
    [("right", 0, None), ("swapped", 1, "axis"), ("with_base", 0, None)],
)
def test_coordinates_of_dinov3_are_the_centres_of_patches_from_minus_1_to_1(
    name, status, cause, ran
):
    how = ("-s", "rope-axial", "-d", "64", "--set", "convention=dinov3", "--set", "grid=6x10")
    found, document = ran(CENTRED, name, "rope-check", *how)
    assert (found, cause_of(document)) == (status, cause)


MULTIMODAL = """
import numpy as np


def tables(position_ids, dealt):
    p = np.asarray(position_ids, float)
    if p.ndim < 3:
        p = np.broadcast_to(np.atleast_2d(p), (3, *np.atleast_2d(p).shape))
    a = p[..., None] * 5e6 ** (-np.arange(0, 128, 2) / 128)
    pair = np.arange(64)
    axis = np.repeat((0, 1, 2), (24, 20, 20))
    if dealt:
        axis = np.where((pair % 3 > 0) & (pair < 60), pair % 3, 0)
    a = np.tile(np.take_along_axis(a, np.broadcast_to(axis, a.shape[1:])[None], 0)[0], 2)
    return np.cos(a), np.sin(a)


def right(x, position_ids):
    return tables(position_ids, True)


def in_blocks(x, position_ids):
    return tables(position_ids, False)


def swapped(x, position_ids):
    p = np.asarray(position_ids)
    return tables(p[[0, 2, 1]] if p.ndim == 3 else p, True)


def text(x, positions):
    assert np.ndim(positions) < 3 and 3 not in np.shape(positions)
    return tables(positions, True)


def coordinates(x, position_ids):
    assert np.ndim(position_ids) == 3
    return tables(position_ids, True)


def late(x, position_ids):
    return tables(np.minimum(position_ids, 20), True)
"""


@pytest.fixture
def multimodal(ran):
    def run(name, where=("-l", "96")):
        return ran(MULTIMODAL, name, "rope-check", "-m", "qwen3-vl-4b", *where)

    return run


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "message"),
    [("swapped", "follow axis 2 instead of axis 1"), ("in_blocks", "interleaved is false")],
)
def test_without_coordinates_those_of_a_video_are_given(name, message, multimodal):
    status, document = multimodal("right")
    assert (status, document["not_checked"]) == (0, None)
    assert any("coordinates differ by axis" in note for note in document["notes"])
    status, document = multimodal(name)
    assert (status, cause_of(document)) == (1, "axis")
    assert message in document["diagnosis"][0]["message"]


@pytest.mark.long
def test_a_function_of_text_positions_is_held_to_those(multimodal):
    status, document = multimodal("text")
    assert status == 0
    assert document["not_checked"].startswith("not checked beyond text positions")
    assert not any("coordinates differ by axis" in note for note in document["notes"])


@pytest.mark.long
def test_the_video_lies_within_the_positions_that_are_asked_for(multimodal):
    where = ("--positions", "100:164")
    status, document = multimodal("right", where)
    assert (status, document["not_checked"]) == (0, None)
    assert any("positions 105 to 152 are a video" in note for note in document["notes"])
    status, document = multimodal("swapped", where)
    assert (status, cause_of(document)) == (1, "axis")
    assert multimodal("swapped", ("--positions", "7:55"))[0] == 1


@pytest.mark.long
@pytest.mark.parametrize("where", [("-l", "47"), ("--positions", "0:400:2")])
@pytest.mark.parametrize("name", ["swapped", "coordinates"])
def test_where_a_video_has_no_room_coordinates_are_said_not_to_be_checked(name, where, multimodal):
    status, document = multimodal(name, where)
    assert status == 0
    assert "have no 48 in a row" in document["not_checked"]
    assert not any("coordinates differ by axis" in note for note in document["notes"])


@pytest.mark.long
def test_what_text_positions_alone_show_is_named_by_them(multimodal):
    status, document = multimodal("late")
    assert (status, cause_of(document)) == (1, "position-offset")


WHOLE = """
import numpy as np

RATES = 1e4 ** (-np.arange(16) / 16)


def tables(rows, columns, swapped=False, merged=1):
    places = np.indices((rows, columns))
    places = places.reshape(2, rows // merged, merged, columns // merged, merged)
    y, x = places.transpose(0, 1, 3, 2, 4).reshape(2, -1)
    y, x = (x, y) if swapped else (y, x)
    a = np.tile(np.concatenate([np.outer(y, RATES), np.outer(x, RATES)], 1), 2)
    return np.cos(a), np.sin(a)


def right(grid_thw):
    ((frames, rows, columns),) = grid_thw
    assert frames == 1
    return tables(rows, columns)


def swapped(image_grid_thw):
    return tables(*image_grid_thw[0, 1:], swapped=True)


def transposed(grid_hw):
    return tables(*grid_hw[0, ::-1])


def merged(grid_thw):
    return tables(*grid_thw[0, 1:], merged=2)


def applied(q, k, grid_hw):
    cos, sin = tables(*grid_hw[0])
    other = [np.concatenate([-x[..., 32:], x[..., :32]], -1) for x in (q, k)]
    return q * cos + other[0] * sin, k * cos + other[1] * sin
"""
PATCHES = ("-s", "rope-axial", "-d", "64", "--set", "convention=qwen2-vl")


@pytest.fixture
def whole(ran):
    return lambda name, given: ran(WHOLE, name, "rope-check", *PATCHES, "--set", given)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("right", None),
        ("applied", None),
        ("swapped", "axis"),
        ("transposed", "position-offset"),
        ("merged", "position-offset"),
    ],
)
def test_a_function_of_a_grid_is_given_its_sizes(name, cause, whole):
    status, document = whole(name, "grid=6x10")
    assert (status, cause_of(document)) == (int(cause is not None), cause)
    assert any("the sizes of the grid" in note for note in document["notes"])


WAN = """
import numpy as np


def turned(x, grid_sizes, freqs, order=(1, 2)):
    pairs = (x[..., ::2] + 1j * x[..., 1::2]).astype(complex)
    for one, sizes in zip(pairs, grid_sizes, strict=True):
        places = np.indices(tuple(sizes)).reshape(3, -1)[[0, *order]]
        one *= np.concatenate(
            [freqs[at][:, axis] for at, axis in zip(places, np.split(np.arange(32), (12, 22)))], 1
        )[:, None]
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape).astype("f4")


def padded(x, grid_sizes, freqs):
    results = np.array(x)
    for result, sizes in zip(results, grid_sizes, strict=True):
        result[: sizes.prod()] = turned(result[None, : sizes.prod()], [sizes], freqs)[0]
    return results


def by_sizes_of_the_first(x, grid_sizes, freqs):
    return padded(x, np.repeat(grid_sizes[:1], len(x), 0), freqs)


def rows_and_columns_exchanged(x, grid_sizes, freqs):
    return turned(x, grid_sizes, freqs, (2, 1))


def own_tables(x, grid_sizes, freqs):
    rates = np.concatenate([1e4 ** -(np.arange(n) / n) for n in (12, 10, 10)])
    return turned(x, grid_sizes, np.exp(1j * np.outer(np.arange(len(freqs)), rates)))
"""


@pytest.mark.parametrize(
    ("name", "cause", "words"),
    [
        ("turned", None, "not tested: order, grid_sizes of each sequence"),
        ("padded", None, "the sizes of the grid; freqs (n, 32), complex"),
        ("by_sizes_of_the_first", "position-offset", "called with 5 and 3 columns"),
        ("rows_and_columns_exchanged", "axis", "axis 2 instead of axis 1"),
        ("own_tables", "base", "freqs is ignored"),
    ],
)
def test_a_function_of_wan_is_given_sizes_and_tables_of_each_axis(name, cause, words, ran):
    how = ("-s", "rope-axial", "--set", "convention=wan", "--set", "grid=3x4x5")
    status, report = ran(WAN, name, "rope-check", *how)
    assert (status, cause_of(report)) == (int(cause is not None), cause)
    assert words in str(report)
    assert ("grid_sizes of each sequence" in report["verdict"]) == (name == "turned")


TABLES_OF_TOKENS = """
import numpy as np


def turned_by(x, cos, sin):
    beside = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    return (x * cos + beside * sin).astype(x.dtype)


def with_a_grid(q, k, cos, sin, grid_thw):
    return turned_by(q, cos, sin), turned_by(k, cos, sin)


def sines_first(x, emb):
    sin, cos = np.split(emb, 2, -1)
    return turned_by(x, cos, sin)


def cosines_first(x, emb):
    cos, sin = np.split(emb, 2, -1)
    return turned_by(x, cos, sin)
"""


@pytest.mark.parametrize(
    ("name", "convention", "cause"),
    [
        ("with_a_grid", "eva", None),
        ("sines_first", "eva-pixels", None),
        ("sines_first", "eva", None),
        ("cosines_first", "eva", "cos-sin-mispaired"),
    ],
)
def test_tables_of_tokens_are_those_of_the_whole_grid_in_the_order_of_timm(
    name, convention, cause, ran
):
    how = ("-s", "rope-axial", "--set", f"convention={convention}", "--set", "grid=4x6")
    status, report = ran(TABLES_OF_TOKENS, name, "rope-check", *how)
    assert (status, cause_of(report)) == (int(cause is not None), cause)


@pytest.mark.long
def test_the_sizes_of_a_grid_follow_from_the_coordinates_of_a_file(whole, tmp_path):
    places = np.indices((6, 10)).reshape(2, 3, 2, 5, 2).transpose(0, 1, 3, 2, 4).reshape(2, -1)
    np.save(tmp_path / "blocks.npy", places.astype("f4"))
    assert whole("merged", f"axes={tmp_path}/blocks.npy")[0] == 0
    np.save(tmp_path / "part.npy", places[:, :59].astype("f4"))  # which fill no grid
    status, error = whole("merged", f"axes={tmp_path}/part.npy")
    assert status == 2
    assert "not a known call form" in error


OF_A_GRID = """
import numpy as np

RATES = 100.0 ** (-np.arange(8) / 8)


def turned(x, along):
    a = (np.asarray(along)[:, None] * RATES).astype("f4")
    cos, sin = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
    u, v = x[..., :8], x[..., 8:]
    return np.concatenate([u * cos - v * sin, v * cos + u * sin], -1)


def right(x, grid_hw, sizes=None):
    sizes = grid_hw[0] if sizes is None else sizes
    rows, columns = np.unravel_index(np.arange(np.prod(sizes)), sizes)
    return np.concatenate([turned(x[..., :16], rows), turned(x[..., 16:], columns)], -1)


def one_size(x, grid_hw):
    return right(x, None, (4, 6))


def not_halves(x, grid_hw):
    return x if x.dtype == np.float16 else right(x, grid_hw)


def not_batches(x, grid_hw):
    return x if x.ndim == 4 and len(x) > 1 else right(x, grid_hw)


def not_views(x, grid_hw):
    return right(x, grid_hw) if x.flags.c_contiguous else x


def refuses(x, grid_hw):
    if tuple(grid_hw[0]) != (4, 6):
        raise ValueError("one grid alone")
    return right(x, grid_hw)


def tables(grid_hw, sizes=None):
    sizes = grid_hw[0] if sizes is None else sizes
    rows, columns = np.unravel_index(np.arange(np.prod(sizes)), sizes)
    a = np.concatenate([np.outer(rows, RATES), np.outer(columns, RATES)], 1)
    return np.cos(a), np.sin(a)


def tables_of_one_size(grid_hw):
    return tables(None, (4, 6))
"""


@pytest.fixture
def of_a_grid(ran):
    def run(name, grid="4x6"):
        how = ("-s", "rope-axial", "-d", "32", "--set", "convention=gemma4", "--layout", "half")
        return ran(OF_A_GRID, name, "rope-check", *how, "--set", f"grid={grid}")

    return run


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one_size", "grid_hw is ignored"),
        ("tables_of_one_size", "grid_hw is ignored"),
        ("not_halves", "vectors of float16 are rotated differently"),
        ("not_batches", "are returned unrotated in calls with several sequences"),
        ("not_views", "depends on more than the row"),
    ],
)
def test_a_function_of_a_grid_that_is_wrong_in_other_calls_fails(name, message, of_a_grid):
    status, document = of_a_grid(name)
    assert status == 1
    assert message in document["diagnosis"][0]["message"]


@pytest.mark.long
@pytest.mark.parametrize("grid", ["4x6", "6x6", "3x3", "5x1"])
def test_a_right_function_of_a_grid_holds_in_other_calls(grid, of_a_grid):
    status, document = of_a_grid("right", grid)
    assert status == 0
    tried = document["subject"]["call"]["patterns"]
    for text in ("another grid", "a batch of 3", "not contiguous", "vectors of float16"):
        assert any(text in one for one in tried)
    assert of_a_grid("tables", grid)[0] == 0


@pytest.mark.long
def test_a_grid_that_a_function_refuses_is_said_not_to_be_tried(of_a_grid):
    status, document = of_a_grid("refuses")
    assert status == 0
    assert any(
        "another grid (raised ValueError: one grid alone)" in text
        for text in document["subject"]["call"]["untried"]
    )
