"""Tables of pandas, polars and xarray are arrays wherever one is taken, whatever their labels."""

import numpy as np
import pytest

import posenc_cli as posenc


def of_pandas(array):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    labels = [f"row {number}" for number in range(len(array), 0, -1)]
    kind = pandas.DataFrame if array.ndim == 2 else pandas.Series
    return kind(array, index=labels)


def of_polars(array):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.DataFrame(array) if array.ndim == 2 else polars.Series("name", array)


def of_xarray(array):
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    names = ["position", "column", "more"][: array.ndim]
    last = {names[0]: np.arange(len(array), 0, -1)}
    return xarray.DataArray(array, dims=names, coords=last)


KINDS = {"pandas": of_pandas, "polars": of_polars, "xarray": of_xarray}
ROWS = posenc.encode("sinusoidal", 16, dim=8, dtype="float64")
COS, SIN = posenc.tables("rope", 16, dim=8, dtype="float64")
WHERE = np.array([5, 0, 7])
LONGROPE = {"long_factor": 2 * np.ones(2), "short_factor": np.ones(2)}


def called(of):
    """What functions give where ``of`` makes the arrays, by what they are asked."""
    return {
        "apply": posenc.apply(of(ROWS), "sinusoidal"),
        "rotate": posenc.rotate(of(ROWS), of(ROWS), 16, "rope", dim=8)[1],
        "resize": posenc.resize(of(ROWS), 32),
        "positions": posenc.encode("rope", of(WHERE), dim=8),
        "fractions": posenc.encode("rope", of(WHERE / 4), dim=8),
        "position_ids": posenc.encode("rope", of(np.stack([WHERE, WHERE])), dim=8),
        "parameters": posenc.encode(
            "rope-longrope", 4, dim=4, **{n: of(v) for n, v in LONGROPE.items()}
        ),
        "like": posenc.encode("rope", 4, like=of(ROWS)),
        "bias": posenc.bias("alibi", of(WHERE), of(WHERE)),
        "similarity": posenc.similarity(of(ROWS)).matrix(),
        "heatmap": posenc.heatmap(of(ROWS)).axes[0].images[0].get_array(),
        "curve": np.stack([line.get_ydata() for line in posenc.curve(of(ROWS)).axes[0].lines]),
    }


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_those_of_the_array(kind):
    labelled, plain = called(KINDS[kind]), called(np.asarray)
    for name, expected in plain.items():
        assert type(labelled[name]) is type(expected), name
        np.testing.assert_array_equal(labelled[name], expected, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_reports_are_those_of_the_array(kind):
    of = KINDS[kind]
    assert posenc.rope_check("rope", tables=(of(COS), of(SIN)), dim=8).ok
    wrong = of(posenc.frequencies("rope", dim=8, base=5e5))
    assert posenc.rope_check("rope", inv_freq=wrong, dim=8).cause == "base"
    assert posenc.identify(of(ROWS)).match.scheme == "sinusoidal"
    assert posenc.identify(of(COS), of(SIN)).match.scheme == "rope"
    assert posenc.compare(of(ROWS), "sinusoidal", 16, dim=8).ok
    assert posenc.compare("sinusoidal", of(ROWS), 16, dim=8).ok
    assert not posenc.compare(of(ROWS), of(2 * ROWS)).ok
    assert posenc.inspect(of(ROWS))["norm"].holds


@pytest.mark.parametrize("kind", KINDS)
def test_what_holds_no_numbers_or_is_to_be_filled_is_refused(kind):
    of = KINDS[kind]
    with pytest.raises(ValueError, match="out: must be a NumPy array, not a [a-z]+.Data"):
        posenc.encode("sinusoidal", 16, dim=8, dtype="float64", out=of(ROWS.copy()))
    with pytest.raises(ValueError, match="array holds no numbers"):
        posenc.identify(of(np.array([["a", "b"], ["c", "d"]])))
    with pytest.raises(ValueError, match="a ndarray is no encoding"):
        posenc.encode(of(ROWS), 16)


class Labelled:
    """What a table with labels has, in any library."""

    def __init__(self, values):
        self.shape = values.shape
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values

    def to_numpy(self):
        return self.values


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_a_labelled_table_is_not_filled(dtype):
    with pytest.raises(ValueError, match="^out: must be a NumPy array, not a tests.Labelled$"):
        posenc.encode("sinusoidal", 16, dim=8, dtype=dtype, out=Labelled(np.empty((16, 8), "f4")))


def test_schemes_to_try_are_names():
    with pytest.raises(ValueError, match="^schemes: must be a list of names"):
        posenc.identify(ROWS, schemes=[lambda positions: positions])


def test_numbers_in_an_array_of_objects_are_read():
    """As pandas gives its own formats, which may hold NA."""
    boxed = Labelled(ROWS.astype(object))
    assert posenc.identify(boxed).match.scheme == "sinusoidal"


def test_a_function_that_loses_rows_in_long_calls_ends_a_check_in_one_line():
    def rotate(x, positions):
        turned, _ = posenc.rotate(x, x, positions, "rope", dim=16)
        return turned[:-1] if len(x) > 1000 else turned

    with pytest.raises(ValueError, match=r"returned an array of shape \(\d+, 16\) for x of shape"):
        posenc.rope_check("rope", impl=rotate, dim=16)


def test_a_function_that_exits_ends_a_check_in_one_line():
    def rotate(x, positions):
        raise SystemExit(1)

    with pytest.raises(ValueError, match="^impl .*rotate'.* raised SystemExit: 1 "):
        posenc.rope_check("rope", impl=rotate, positions=16, dim=16)


def test_formats_of_eight_bits_are_refused():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.ones(4, 8).to(torch.float8_e4m3fn)
    with pytest.raises(
        ValueError, match="^q: must hold floats of 16 bits or more, not float8_e4m3fn$"
    ):
        posenc.rotate(x, None, 4, "rope", dim=8)
