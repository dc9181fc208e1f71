"""Any array as a subject, of any scheme: a verdict or one line, never a bug or a warning."""

import io
import json
import math
import warnings
from contextlib import redirect_stderr, redirect_stdout
from itertools import product

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.cli.exits import main

pytestmark = pytest.mark.usefixtures("kept_applications")

SCHEMES = {
    **dict.fromkeys(catalogue.BUILT_IN, ()),
    "mrope": ("sections=2,1,1",),
    "rope-axial": ("grid=4x5",),
    "rope-axial gemma4": ("grid=4x5", "convention=gemma4"),
    "rope-axial dinov3": ("grid=4x5", "convention=dinov3"),
    "rope-axial llama4": ("grid=1x20", "convention=llama4"),
    "rope-mixed": ("grid=4x5",),
    "rope-proportional": ("partial=0.5",),
    "rope-resonance": ("factor=4",),
    "rope-clipped": ("clipped=2", "clip=hard"),
    "xpos": ("side=key",),
    "sinusoidal+t5": (),
    "rope+alibi": (),
}
ROTARY = [
    name for name in SCHEMES if name.startswith(("rope", "mrope", "xpos")) and "+" not in name
]
ROWS, DIM = 20, 8

NUMBERS = (math.nan, math.inf, -math.inf, 0.0, 5e-324, 1e-310, 1e-40, 1e20, 1e160, 1e308, -1e308)
VALUES = {
    "right": lambda a, _, __: a,
    "filled": lambda a, number, _: np.full_like(a, number),
    "one cell": lambda a, number, random: _put(a, number, random.integers(a.size)),
    "one row": lambda a, number, _: _put(a, number, slice(a.shape[-1])),
    "some cells": lambda a, _, random: np.where(
        random.random(a.shape) < 0.2, random.choice(NUMBERS, a.shape), a
    ),
    "all special": lambda a, _, random: random.choice(NUMBERS, a.shape),
    "scaled": lambda a, number, _: a * number,
    "noise": lambda a, _, random: random.standard_normal(a.shape),
}
SHAPES = {
    "as it is": lambda a: a,
    "transposed": lambda a: a.T,
    "flat": np.ravel,
    "batch of one": lambda a: a[None],
    "three axes": lambda a: a[:, :, None],
    "two of them": lambda a: np.stack([a, a]),
    "twice the columns": lambda a: np.concatenate([a, a], 1),
    "columns repeated": lambda a: np.repeat(a, 2, 1),
    "no row": lambda a: a[:0],
    "one row": lambda a: a[:1],
    "two rows": lambda a: a[:2],
    "no column": lambda a: a[:, :0],
    "one column": lambda a: a[:, :1],
    "three columns": lambda a: a[:, :3],
    "a number": lambda _: np.float64(1.5),
}
DTYPES = (
    *("float64", "float64", "float64", "float32", "float16", ">f4", "longdouble", "int64", "int8"),
    *("uint64", "bool", "complex64", "complex128", "S3", "U2"),
)
OPTIONS = (
    *((), (), ("--tol", "0"), ("--tol", "1e308"), ("--strict",), ("--len", "16"), ("--len", "1")),
    *(("--layout", "half"), ("--positions", "7,3,1"), ("--positions", "0:40:2")),
)
FORMS = ((), ("--json",), ("--format", "junit"), ("--format", "github"))
KINDS = ("tables", "rotated", "inv-freq")


def _put(values, number, where):
    changed = values.copy()
    changed.reshape(-1)[where] = number
    return changed


def written(path, function, shape, values, random, *, dtype="float64"):
    """An array as someone may give it, in a file."""
    angles = np.multiply.outer(np.arange(ROWS), 1e4 ** -(np.arange(4) / 4))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = VALUES[values](function(angles), random.choice(NUMBERS), random)
        np.save(path, np.asarray(SHAPES[shape](array)).astype(dtype))
    return str(path)


def arguments(folder, scheme, kind, random, *, shape=None, values=None):
    """A command line that asks for the check of files that are written here."""
    shape = shape or random.choice(list(SHAPES))
    values = values or random.choice(list(VALUES))
    dtype = random.choice(DTYPES)
    first = {"tables": np.cos, "rotated": lambda angles: 2 + np.cos(angles), "inv-freq": np.exp}
    paths = [written(folder / "a.npy", first[kind], shape, values, random, dtype=dtype)]
    if kind != "inv-freq":
        # As often as not both are alike, and get past the checks of shapes.
        other = (shape, values) if random.random() < 0.7 else ("as it is", "right")
        paths.append(written(folder / "b.npy", np.sin, *other, random, dtype=dtype))
    given = [part for each in SCHEMES[scheme] for part in ("--set", each)]
    more = [*OPTIONS[random.integers(len(OPTIONS))], *FORMS[random.integers(len(FORMS))]]
    return ["rope-check", "-s", scheme.split()[0], "--dim", str(DIM), *given, *more,
            f"--{kind}", *paths]  # fmt: skip


def ends_well(asked):
    """What is wrong with the end of a command, None if nothing is."""
    out, err = io.StringIO(), io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("error")
        status = main(asked)
    told = err.getvalue()
    if status in (0, 1):
        if "--json" in asked:
            json.loads(out.getvalue(), parse_constant=pytest.fail)
        return told or None
    wrong = status not in (2, 3) or not told.startswith("posenc: error: ") or "Warning" in told
    return told or "no word" if wrong else None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ROTARY)
def test_any_shape_and_any_numbers_end_in_a_verdict_or_one_line(scheme, kind, tmp_path):
    random = np.random.default_rng([len(scheme), KINDS.index(kind)])
    shapes = random.permutation(list(SHAPES))[:3]
    values = random.permutation(list(VALUES))[:3]
    for shape, value in [*((each, "right") for each in shapes), *(("as it is", v) for v in values)]:
        asked = arguments(tmp_path, scheme, kind, random, shape=shape, values=value)
        assert ends_well(asked) is None, (shape, value, asked)


@pytest.mark.long
@pytest.mark.sweep(5)
@pytest.mark.parametrize("numbers", ["5e-324 1e308", "1e308 5e-324", "1e308 1e308", "1e308 nan"])
@pytest.mark.parametrize("kind", ["tables", "rotated"])
def test_numbers_at_the_ends_of_the_range_give_no_warning(kind, numbers, tmp_path):
    paths = []
    for place, number in enumerate(numbers.split()):
        paths.append(str(tmp_path / f"{place}.npy"))
        np.save(paths[-1], np.full((ROWS, DIM), float(number)))
    assert ends_well(["rope-check", "-s", "rope", "--dim", str(DIM), f"--{kind}", *paths]) is None


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("number", ["1e300", "5e-324"])
def test_a_function_may_return_numbers_at_the_ends_of_the_range(number, tmp_path):
    (tmp_path / "f.py").write_text(f"def f(x, p): return x.astype(float) * {number}\n")
    asked = ["--len", "9", "--impl", f"{tmp_path / 'f.py'}:f"]
    assert ends_well(["rope-check", "-s", "rope", "--dim", str(DIM), *asked]) is None


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "kind"), list(product(SCHEMES, KINDS)))
def test_many_arrays_end_in_a_verdict_or_one_line(scheme, kind, tmp_path):
    random = np.random.default_rng([7, list(SCHEMES).index(scheme), KINDS.index(kind)])
    for _ in range(60):
        asked = arguments(tmp_path, scheme, kind, random)
        assert ends_well(asked) is None, asked


ENDS = (
    *("5e-324", "1e-300", "0.5", "1", "1.0000000000000002", "3", "1e10", "1e100", "1e308", "0"),
    *("-1", "4096", "9007199254740992", "true", "false", "1,1,1,1", "0.1,1e300,2,5e-324"),
)
"""Of the ranges of parameters, and past them."""


def asked_of_extremes(folder, scheme, given, random):
    kind = KINDS[random.integers(3)]
    asked = arguments(folder, scheme, kind, random, shape="as it is", values="right")
    return [*asked[:5], *(part for each in given for part in ("--set", each)), *asked[5:]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheme", "given"),
    [
        ("rope-proportional", ("factor=5e-324", "base=3")),
        ("rope-yarn", ("beta_fast=1e308", "beta_slow=3")),
        ("rope-yarn", ("attention_factor=5e-324",)),
        ("rope-linear", ("factor=1e308",)),
        ("rope-dynamic", ("factor=1e308",)),
        ("rope-llama3", ("factor=1e308", "base=1e308")),
    ],
)
def test_parameters_at_the_ends_of_their_ranges_end_in_a_verdict_or_one_line(
    scheme, given, tmp_path
):
    random = np.random.default_rng(1)
    for _ in range(4):
        asked = asked_of_extremes(tmp_path, scheme, given, random)
        assert ends_well(asked) is None, asked


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ROTARY)
def test_many_parameters_end_in_a_verdict_or_one_line(scheme, tmp_path):
    random = np.random.default_rng([8, ROTARY.index(scheme)])
    names = set(catalogue.find(scheme.split()[0]).parameters) - {
        "dim",
        "layout",
        "grid",
        "sections",
    }
    for _ in range(60):
        chosen = random.choice(sorted(names), size=2, replace=False)
        given = [f"{name}={random.choice(ENDS)}" for name in chosen]
        asked = asked_of_extremes(tmp_path, scheme, given, random)
        assert ends_well(asked) is None, asked


@pytest.mark.parametrize("factor", ["1e-6", "1e-5", "1e6"])  # the ends of what is taken
def test_tables_of_any_amplitude_are_right_in_the_numbers_their_format_has(factor, tmp_path, call):
    asked = ("rope-check", "-s", "rope-yarn", "--dim", "8", "--set", f"attention_factor={factor}")
    assert call(*asked)[0] == 0
