"""What holds of every scheme in the catalogue, whatever it is."""

import itertools
import re

import numpy as np
import pytest

from posenc_cli.catalogue import BUILT_IN
from posenc_cli.cli.streams import ascii_spelling
from posenc_cli.encoding import arrays
from posenc_cli.errors import InvalidInput
from posenc_cli.files.formats import FORMATS
from posenc_cli.numerics.dtypes import REAL_DTYPES
from posenc_cli.numerics.rounding import narrow, widen
from tests.matrices import matrix, request

SMALL = {
    "learned": {"extend": "random"},
    "sinusoidal-nd": {"grid": "20x30"},
    "rope-axial": {"grid": "20x30"},
    "rope-mixed": {"grid": "20x30"},
    "swin": {"window_size": "20x30"},
    "swin-v2": {"window_size": "20x30", "hidden": 16},
    "fire": {"hidden": 4, "threshold": 100.0},
    "rope-longrope": {"dim": 8, "short_factor": "1,1,1.5,2", "long_factor": "1,2,3,4.5"},
}
"""What a scheme needs beside its defaults to serve the positions of these tests."""

FOLLOWS_LENGTH = {
    name
    for name, scheme in BUILT_IN.items()
    if any(each.rules.follows_length for each in scheme.parameters.values())
}

RELATIVE = [name for name, scheme in BUILT_IN.items() if scheme.kind == "relative"]

every_scheme = pytest.mark.parametrize("name", BUILT_IN)
every_scheme_of_positions = pytest.mark.parametrize(
    "name", [n for n in BUILT_IN if n not in RELATIVE]
)
every_dtype = pytest.mark.parametrize("dtype", REAL_DTYPES)


@every_scheme
def test_is_documented_in_full(name):
    scheme = BUILT_IN[name]
    assert scheme.name == name
    assert scheme.summary.endswith(".")
    assert scheme.formula
    assert scheme.source
    for parameter in scheme.parameters.values():
        assert parameter.rules.help, parameter.name


@every_scheme
def test_can_be_read_on_a_terminal_that_shows_ascii_alone(name):
    scheme = BUILT_IN[name]
    helps = [parameter.rules.help for parameter in scheme.parameters.values()]
    for text in (scheme.summary, scheme.formula, scheme.convention, scheme.source, *helps):
        assert "\\" not in ascii_spelling(text), text


@every_scheme
def test_every_default_keeps_its_own_rules(name):
    for parameter in BUILT_IN[name].parameters.values():
        if parameter.default_text and not parameter.rules.follows_length:
            assert parameter.value(parameter.default_text) == parameter.default


@every_scheme
def test_every_bound_is_enforced_on_both_sides(name):
    scheme = BUILT_IN[name]
    for parameter in scheme.parameters.values():
        rules = parameter.rules
        outside = [
            *([rules.minimum - 1] if rules.minimum is not None else []),
            *([rules.maximum + 1] if rules.maximum is not None else []),
            *([rules.above] if rules.above is not None else []),
        ]
        if parameter.type is float:
            outside += [float("nan"), float("inf"), -float("inf")]
        for value in outside:
            given = value if parameter.type is float else int(value)
            with pytest.raises(InvalidInput, match=re.escape(parameter.flag)):
                scheme.bind({parameter.name: given}, seq_len=1)


@pytest.mark.sweep(60)
@every_scheme
@every_dtype
def test_is_one_matrix_whatever_the_block_size(name, dtype, monkeypatch):
    given = SMALL.get(name, {})
    whole = matrix(name, "0:37", dtype=dtype, **given)
    for values in (1, 100, 1000):
        monkeypatch.setattr(arrays, "BLOCK_VALUES", values)
        assert matrix(name, "0:37", dtype=dtype, **given).tobytes() == whole.tobytes()


@pytest.mark.long
@pytest.mark.sweep(9)
@every_scheme_of_positions
@every_dtype
def test_any_positions_select_from_the_contiguous_matrix(name, dtype):
    given = dict(SMALL.get(name, {}))
    if name in FOLLOWS_LENGTH:
        given["seq_len"] = 2000
    whole = matrix(name, "0:600", dtype=dtype, **given)
    for spec, index in (
        ("5:9", range(5, 9)),
        ("3:600:7", range(3, 600, 7)),
        ("7,3,3,500:502", [7, 3, 3, 500, 501]),
    ):
        part = matrix(name, spec, dtype=dtype, **given)
        rows = np.asarray(index)
        expected = whole[:, rows][:, :, rows] if whole.ndim == 3 else whole[rows]
        assert part.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.long
@pytest.mark.sweep(6)
@every_scheme
@every_dtype
def test_rounding_to_a_format_is_rounding_the_same_real_values(name, dtype):
    """A float64 value decides its rounding unless it lies on a tie: none of these does."""
    given = SMALL.get(name, {})
    reals = matrix(name, "0:40", dtype="float64", **given)
    stored = matrix(name, "0:40", dtype=dtype, **given)
    decided = np.ones(reals.shape, bool)
    if name == "rope-resonance":  # sines of whole half turns are 0, which no digits of π decide
        decided = np.abs(reals) > 1e-30
        assert (np.abs(widen(stored, REAL_DTYPES[dtype])[~decided]) < 1e-30).all()
    expected = narrow(reals, None, REAL_DTYPES[dtype])
    assert stored[decided].tobytes() == expected[decided].tobytes()


@pytest.mark.long
@pytest.mark.sweep(6)
@pytest.mark.parametrize(("name", "form"), list(itertools.product(BUILT_IN, FORMATS)), ids="-".join)
def test_every_format_reads_back_what_was_computed(name, form, tmp_path):
    from posenc_cli.files.formats import save
    from posenc_cli.files.reading import read_array

    head = 1 if BUILT_IN[name].kind == "bias" else None
    asked = request(name, "0:9", head=head, **SMALL.get(name, {})).plan().matrix()
    path = tmp_path / f"file{FORMATS[form].suffix}"
    save(asked, str(path), format=FORMATS[form])
    back = np.asarray(read_array(path).values)
    expected = np.concatenate([b.reshape(-1) for b in asked.blocks()]).reshape(asked.shape)
    assert back.shape == expected.shape
    assert back.astype(np.float32).tobytes() == expected.tobytes()


@every_scheme
def test_posenc_schemes_shows_every_parameter(name, call):
    status, out, err = call("schemes", name)
    assert (status, err) == (0, "")
    for parameter in BUILT_IN[name].parameters.values():
        assert parameter.flag in out
