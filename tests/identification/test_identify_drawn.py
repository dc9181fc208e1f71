"""identify recognizes what generate writes, and gives the same table back."""

import shlex
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from posenc_cli import encode
from posenc_cli.errors import InvalidInput
from posenc_cli.files.reading import read_array
from posenc_cli.identification.search import identify, identify_files
from posenc_cli.inference.evidence import Evidence
from posenc_cli.inference.trial import Hypothesis, try_hypothesis
from tests.examples import examples
from tests.identification.drawn_tables import KINDS, SCHEMES, any_tables

pytestmark = pytest.mark.filterwarnings("ignore:.*random (weights|angle|shift)")

GRID = {"grid": "1x8x8", "convention": "hunyuan-video"}
LINE = {"dim": 64, "layout": "half"}
YARN = {"original_max_position_embeddings": 8192, **LINE}
LINES = {
    "cosines, every tenth": ("rope", {**LINE, "base": 5e5}, "0:640:10", "cos-full"),
    "sines, every tenth": ("rope-ntk", {**LINE, "base": 1e3, "factor": 8.0}, "0:640:10", "sin"),
    "cosines, at halves": ("rope-yarn", {**YARN, "factor": 10.0}, "0:40:0.5", "cos-full"),
    "a base of seven digits, slowed": (
        "rope-yarn", {**YARN, "base": 31415.93, "factor": 8.0}, "218:282", "complex",
    ),
    "a base of seven digits, blended": (
        "rope-llama3", {**LINE, "base": 31415.93, "factor": 3.14159}, "369:433", "angles",
    ),
    "cosines that grow": ("xpos", {"dim": 64}, "0:256", "cos"),
    "sines that shrink, of another base": (
        "xpos", {"dim": 96, "base": 64321.0, "side": "key"}, "0:301", "sin-full"
    ),
    "sines less than a turn": ("rope-linear", {**LINE, "factor": 32.0}, "0:64", "sin-full"),
}  # fmt: skip
"""Rotations along one axis that were not recognized before."""
NAMED = {
    "Flux": ("rope-axial", {**GRID, "base": 1e4, "dim": 128}, "cos-sin"),
    "video, cosines": ("rope-axial", {**GRID, "dim": 64}, "cos-full"),
    "wan of another base": (
        "rope-axial",
        {"grid": "3x5x6", "convention": "wan", "base": 5e5, "dim": 96},
        "cos-sin",
    ),
    "wan in other shares": (
        "rope-axial",
        {"grid": "3x5x6", "convention": "wan", "sections": (8, 12, 12)},
        "interleaved",
    ),
    "cosines counted from elsewhere": (
        "rope-axial",
        {"grid": "8x10", "convention": "eva", "base": 1e6, "dim": 32, "origin": (16, -7)},
        "cos-full",
    ),
    "a square over a quarter": ("sinusoidal-nd", {"grid": "16x16", "base_size": "4x4"}, None),
    "three axes": ("sinusoidal-nd", {"grid": "3x5x6", "convention": "tensor2tensor"}, None),
}
"""What was not recognized before, as issues have it."""
OTHERS = {
    **{
        f"YaRN of {context}": (
            "rope-yarn", {"factor": 4.0, "original_max_position_embeddings": context}, 256, table
        )
        for context, table in ((64, "cos-sin"), (128, "cos"), (256, "inv-freq"))
    },
    "RoPE-Mixed, drawn": ("rope-mixed", {"dim": 48, "grid": "6x7", "seed": 2}, None, "cos-sin"),
    "RoPE-Mixed, cosines": ("rope-mixed", {"dim": 16, "grid": "5x8"}, None, "cos-full"),
    "RoPE-Mixed, sines": ("rope-mixed", {"dim": 32, "grid": "8x9", "base": 256.0}, None, "sin"),
    "RoPE-Mixed of another base": (
        "rope-mixed", {"dim": 64, "grid": "13x10", "seed": 1, "base": 64321.0}, None, "cos-sin"
    ),
    "Swin": ("swin", {"heads": 4, "window_size": "4x6", "seed": 1}, 24, None),
    "BEiT": ("swin", {"heads": 2, "class_token": True}, 50, None),
    "Swin V2": ("swin-v2", {"heads": 4, "pretrained_window_size": "6x6"}, 64, None),
    "FIRE": ("fire", {"heads": 12, "c": 0.5}, 40, None),
    "FIRE past its threshold": ("fire", {"heads": 2, "threshold": 64.0}, 100, None),
    "distances that are not reached": ("t5-clipped", {"heads": 4, "seed": 1}, 40, None),
    "KERPLE of heads alike": ("kerple-log", {"heads": 6, "r1": (0.3,)}, 64, None),
    "KERPLE of four digits": ("kerple-log", {"heads": 2, "r2": (1.663, 0.44)}, 64, None),
    "BLOOM from a later key": ("alibi", {"heads": 8, "form": "bloom"}, "780:844", None),
    "MPT of a longer context": ("alibi", {"heads": 6, "form": "mpt", "seq_len": 256}, 16, None),
    "learned, every third": ("learned", {"dim": 16}, "0:192:3", None),
    "counters, at halves": ("integer", {"dim": 16}, "0:40:0.5", None),
    "shares, every second": ("normalized", {"dim": 16}, "0:200:2", None),
    "two scales at once": (
        "sinusoidal-nd",
        {"grid": "6x12", "base_size": "18x18", "interpolation_scale": (4.0,), "origin": "3,31"},
        None,
        None,
    ),
    "rotations on both sides of 0": ("rope", {"dim": 64}, "-40:60", "complex"),
    **{
        f"{table} at {where}": ("rope", {"dim": 64}, where, table)
        for where in ("100:-1:-1", "300:200:-1", "-40:60") for table in ("cos", "sin", "cos-full")
    },
    "sines of scaled rotations, falling": ("rope-linear", {"dim": 64}, "112:-1:-1", "sin-full"),
    "few rotating pairs, falling": (
        "rope-proportional", {"dim": 80, "base": 1e7, "partial": 0.25}, "105:-1:-1", "angles"
    ),
    **{
        f"four axes, {table}": (
            "rope-axial", {"dim": 128, "convention": "flux2", "grid": "3x5x2x4"}, None, table
        )
        for table in ("cos-sin", "cos")
    },
    "cropped cosines": (
        "rope-axial",
        {"dim": 64, "convention": "cogvideox", "grid": "4x7x6", "base_size": "16x6", "base": 5e4},
        None,
        "cos-full",
    ),
    "shares, every ninth": ("normalized", {"dim": 16}, "0:900:9", None),
    "binary numbers, falling": ("binary", {"dim": 16}, "511:300:-1", None),
    "shares, falling": ("normalized", {"dim": 256}, "147:-1:-1", None),
}  # fmt: skip
"""What was not recognized before, of every kind."""
_ALIKE = 64
"""Units of a number format: what a fitted number of all the digits that cells show leaves."""


def table_of(scheme, params, where, table, dtype="float32"):
    """What generate writes; None where the parameters contradict each other."""
    try:
        return encode(scheme, where, table=table, dtype=dtype, **params)
    except ValueError:
        return None


def assert_given_back(array):
    match = identify(Evidence.of_arrays(array)).match
    assert match is not None
    assert match.commands
    params = {name: value for name, value in match.params.items() if value is not None}
    assert match.positions is not None
    where = str(match.positions)
    if match.scheme == "transformer-xl":  # offsets on both sides of 0
        where = (len(array) + 1) // 2
    again = match.multiplied * table_of(
        match.scheme, params, where, match.tables[0], array.real.dtype.name
    )
    apart = np.abs(again - array)
    if match.tables[0] == "angles":
        apart = np.minimum(apart, np.abs(2 * np.pi - apart))
    allowed = _ALIKE * np.finfo(array.dtype).eps
    if match.uncertainty:  # a fitted number is a float64, whose last bit turns the farthest row
        allowed += float(abs(max(match.positions))) / match.positions.denominator * 2.0**-52
    assert apart.max() <= allowed


@pytest.mark.long
@pytest.mark.parametrize("name", NAMED)
def test_a_grid_that_generate_writes_is_given_back(name):
    scheme, params, table = NAMED[name]
    assert_given_back(table_of(scheme, params, None, table))


@pytest.mark.long
@pytest.mark.parametrize("name", LINES)
def test_a_rotation_that_generate_writes_is_given_back(name):
    scheme, params, where, table = LINES[name]
    assert_given_back(table_of(scheme, params, where, table, "float64"))


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_what_generate_writes_is_given_back(name):
    assert_command_gives_back(table_of(*OTHERS[name]), "float32")


PLAIN = {
    "every third position": (
        "rope-proportional", {"dim": 64, "partial": 0.25, "factor": 1.0}, "0:273:3", "cos-full"
    ),
    "every third, of a base that no model uses": (
        "rope-proportional", {"dim": 32, "base": 1234.5, "partial": 0.25}, "0:273:3", "cos-full"
    ),
    "few pairs of a base that no model uses": (
        "rope-proportional", {"dim": 32, "base": 1234.5, "partial": 0.25}, 91, "cos-sin"
    ),
    "float16 angles": (
        "rope-linear", {"dim": 16, "base": 1234.5, "factor": 4.0}, 79, "angles", "float16"
    ),
    "spread by a scale, as float32 code does": (
        "sinusoidal-nd",
        {
            "dim": 64, "grid": (4, 6, 8), "convention": "cogvideox",
            "interpolation_scale": (2.0,), "arithmetic": "float32",
        },
        None, None,
    ),
}  # fmt: skip
"""Tables for which a rarer scheme, factor or position fitted as well."""


@pytest.mark.long
@pytest.mark.parametrize("name", PLAIN)
def test_the_plainest_parameters_are_named_and_give_every_value_back(name):
    scheme, params, where, table, *stored = PLAIN[name]
    array = table_of(scheme, params, where, table, *stored)
    match = identify(Evidence.of_arrays(array)).match
    assert match is not None
    assert (match.scheme, match.equal) == (scheme, 1)
    assert params.items() <= {**match.params, "arithmetic": match.arithmetic}.items()
    (command,) = match.commands
    assert np.array_equal(written_by(command), array)


@pytest.mark.long
def test_a_length_that_bfloat16_hides_gives_every_value_or_its_uncertainty():
    def found(where, **params):
        array = encode("normalized", where, dtype="float32", round_to="bfloat16", dim=8, **params)
        return identify(Evidence.of_arrays(array, dtype="bfloat16")).match

    to_the_end, before_it = found("4800:4883"), found("100:183", seq_len=6000)
    assert (to_the_end.equal, to_the_end.uncertainty) == (1, {})
    assert to_the_end.positions.length == to_the_end.params["seq_len"]
    assert abs(before_it.params["seq_len"] - 6000) <= before_it.uncertainty["seq_len"]


def test_positions_that_generate_refuses_are_not_tried():
    evidence = Evidence.of_arrays(encode("normalized", 83, dim=8))
    for first in (-1, 1):
        past = Hypothesis("normalized", {"dim": 8, "seq_len": 83}, (None,), evidence.rows + first)
        with pytest.raises(InvalidInput, match="no row"):
            try_hypothesis(past, evidence)


def assert_command_gives_back(array, dtype):
    """The command that identify prints writes the array; a learned table names its rule."""
    match = identify(Evidence.of_arrays(array)).match
    assert match is not None
    (command,) = match.commands
    if "weights=FILE" in command:
        return
    again = match.multiplied * written_by(command)
    apart = np.abs(again.reshape(array.shape) - array)
    if match.tables[0] == "angles":
        apart = np.minimum(apart, np.abs(2 * np.pi - apart))
    units = {"float16": 4 * 2.0**-10, "bfloat16": 4 * 2.0**-7}
    allowed = units.get(dtype, _ALIKE * np.finfo(array.real.dtype).eps)
    if match.uncertainty and match.positions is not None:  # the last bit of a fitted number
        allowed += float(abs(max(match.positions))) / match.positions.denominator * 2.0**-52
    assert apart.max() <= allowed * max(1, np.abs(array).max())


def written_by(command):
    """What a command of generate writes, by encode, which takes its options."""
    words = shlex.split(command)[2:]
    options = {"table": None, "head": None, "round-to": None, "arithmetic": "exact", "start": "0"}
    parameters = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option == "--set":
            parameters.update([value.split("=", 1)])
        else:
            options[option.removeprefix("--")] = value
    parameters |= {n: options[n] for n in ("dim", "base", "heads", "layout") if n in options}
    where = options.get("positions")
    if where is None and "len" in options:
        start = Fraction(options["start"])
        where = f"{options['start']}:{float(start + int(options['len']))}"
    return encode(
        options["scheme"],
        where,
        table=options["table"],
        head=None if options["head"] is None else int(options["head"]),
        dtype=options["dtype"],
        round_to=options["round-to"],
        arithmetic=options["arithmetic"],
        **parameters,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
@examples(4)
@given(data=st.data())
def test_a_drawn_table_of_every_scheme_is_given_back(name, data):
    params, where, table, dtype = data.draw(any_tables(name))
    stored = "float32" if dtype == "bfloat16" else dtype
    rounded = "bfloat16" if dtype == "bfloat16" else None
    try:
        array = encode(name, where, table=table, dtype=stored, round_to=rounded, **params)
    except ValueError:
        assume(False)
    assert_command_gives_back(array, dtype)


@pytest.mark.long
@pytest.mark.parametrize("steps", [127.0, 1e4])
def test_a_table_rounded_to_few_steps_is_recognized(tmp_path, steps):
    table = encode("sinusoidal", 128, dim=32, dtype="float64")
    if steps == 127.0:
        found = identify(Evidence.of_arrays(np.round(table * steps).astype(np.int8)))
    else:
        path = tmp_path / "table.txt"
        np.savetxt(path, table, fmt=f"%.{round(np.log10(steps))}f")
        found = identify_files([read_array(path)])
    assert found.match is not None
    assert (found.match.scheme, found.match.params["base"]) == ("sinusoidal", 1e4)
    assert not found.match.as_written


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("digits", ["%.8f", "%.9g", "%.15g"])
def test_a_table_printed_in_some_digits_is_recognized(tmp_path, digits, dtype):
    path = tmp_path / "table.txt"
    np.savetxt(path, encode("sinusoidal", 64, dim=16, dtype=dtype), fmt=digits)
    match = identify_files([read_array(path)]).match
    assert match is not None
    assert (match.scheme, match.params["base"]) == ("sinusoidal", 1e4)


@pytest.mark.long
def test_values_that_share_no_bucket_are_no_clipped_table():
    """Buckets of DeBERTa widen with the distance, and t5-clipped has one for each until its end."""
    offsets = np.subtract.outer(np.arange(96), np.arange(96))
    near, far = 16, 64
    sizes = np.maximum(np.abs(offsets), 1)
    wide = near + np.ceil(np.log(sizes / near) / np.log((far - 1) / near) * (near - 1))
    buckets = np.where(np.abs(offsets) <= near, offsets, np.sign(offsets) * wide).astype(int)
    rows = np.random.default_rng(0).normal(0, 1, (4, 2 * buckets.max() + 1)).astype(np.float32)
    assert identify(Evidence.of_arrays(rows[:, buckets + buckets.max()])).match is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@examples(6)
@given(data=st.data())
def test_a_drawn_table_is_given_back(kind, data):
    scheme, params, where, table = data.draw(KINDS[kind])
    array = table_of(
        scheme, params, where, table, data.draw(st.sampled_from(["float32", "float64"]))
    )
    assume(array is not None)
    assert_given_back(array)
