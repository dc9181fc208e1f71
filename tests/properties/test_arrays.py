"""Whatever numbers a file holds, a command ends in a status, at most one error and no warning."""

import contextlib
import io
import json
import math
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli.cli.exits import main
from tests.examples import examples
from tests.files.test_reading import written

pytestmark = pytest.mark.usefixtures("kept_applications")

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml-dtypes is not installed")

CPU_SECONDS = 30
"""Of one command on some thousand numbers: a hundred times what it takes. An endless loop takes
more; other processes of the machine do not lengthen CPU time."""
MEMORY = 1 << 28
"""Bytes that a command may hold at once for arrays of at most 64 KiB, what it imports included."""

REAL = ("<f4", "<f8", "<f2", ">f4", ">f8", ">f2", "<i8", ">i2", "|u1", "|b1")
COMPLEX = ("<c8", "<c16", ">c16")
DTYPES = (*REAL, *COMPLEX, "bfloat16")
SPECIAL = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, math.pi, 1e-7, 10_000.0, 2.0**53, 2.0**63, 1e300),
    *(math.nan, math.inf, -math.inf, 5e-324, 2.2e-308, 1e-45, 1.7976931348623157e308, 65504.0),
)
SIDES = (1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 33, 64)
RANKS = (1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 4)
ORDERS = ("C", "F", "strided", "reversed", "transposed")
SUFFIXES = (".npy", ".npy", ".npz", ".csv", ".safetensors")


# Numbers that people store, each for a shape


def _ladder(shape: tuple[int, ...], random: np.random.Generator) -> Any:
    """Inverse frequencies along the last axis, from position 0 on along the one before."""
    pairs = max(1, shape[-1] // int(random.choice([1, 2])))
    base = float(random.choice([10_000.0, 500_000.0, 1e6, 2.0, 1.0001]))
    rates = base ** (-np.arange(pairs) / pairs)
    return np.resize(rates, shape[-1]), np.arange(shape[-2] if len(shape) > 1 else 1)


def _waves(shape: tuple[int, ...], random: np.random.Generator) -> Any:
    rates, positions = _ladder(shape, random)
    function = (np.cos, np.sin, np.exp, np.log1p)[random.integers(4)]
    angles = np.multiply.outer(positions, rates).reshape(shape[-2:])
    if random.integers(2):
        angles[..., 1::2] += math.pi / 2
    return np.broadcast_to(function(angles), shape)


def _slopes(shape: tuple[int, ...], random: np.random.Generator) -> Any:
    """Biases of ALiBi, or its slopes."""
    heads = 2.0 ** -np.arange(1, shape[0] + 1)
    if len(shape) == 1:
        return heads
    apart = np.abs(np.subtract.outer(np.arange(shape[-2]), np.arange(shape[-1])))
    return -heads.reshape(-1, *[1] * (len(shape) - 1)) * apart if len(shape) > 2 else -apart / 2


CONTENTS = {
    "normal": lambda shape, random: random.normal(0, float(10.0 ** random.integers(-3, 3)), shape),
    "waves": _waves,
    "frequencies": lambda shape, random: np.broadcast_to(_ladder(shape, random)[0], shape),
    "slopes": _slopes,
    "constant": lambda shape, random: np.full(shape, random.choice(SPECIAL)),
    "counting": lambda shape, _: np.arange(math.prod(shape)).reshape(shape),
    "axes": lambda shape, _: np.broadcast_to(np.arange(shape[-1]), shape),
    "two values": lambda shape, random: random.choice(random.choice(SPECIAL, 2), shape),
    "special": lambda shape, random: random.choice(SPECIAL, shape),
    "identity": lambda shape, _: (
        np.broadcast_to(np.eye(*shape[-2:])[: shape[-2]], shape)
        if len(shape) > 1
        else np.eye(1, *shape)[0]
    ),
    "unit": lambda shape, random: np.sign(random.normal(size=shape)),
}


@st.composite
def array(draw: Any, shape: tuple[int, ...]) -> Any:
    """An array of a shape: what people store, and now and then a special value in it."""
    random = np.random.default_rng(draw(st.integers(0, 999)))
    values = np.array(CONTENTS[draw(st.sampled_from(list(CONTENTS)))](shape, random), np.float64)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        values.flat[draw(st.integers(0, values.size - 1))] = draw(st.sampled_from(SPECIAL))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1]))):
        values[draw(st.integers(0, len(values) - 1))] = draw(st.sampled_from(SPECIAL))
    dtype = draw(st.sampled_from(DTYPES))
    with np.errstate(all="ignore"):
        if dtype in COMPLEX:
            return (values * np.exp(1j * np.roll(values, 1))).astype(dtype)
        return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _laid_out(values: Any, order: str) -> Any:
    """The same numbers in another order of memory, which formats may keep or undo."""
    if order == "strided":
        wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    if order == "reversed":
        return values[::-1].copy()[::-1]
    if order == "transposed":
        return values.T.copy().T
    return np.asarray(values, order=order)


def _write(path: Path, values: Any, order: str) -> Path:
    """The array in a file; a suffix that cannot hold it becomes one that can."""
    values = _laid_out(values, order)
    suffix = path.suffix
    if values.dtype == ml_dtypes.bfloat16 or (suffix == ".csv" and values.ndim > 2):
        suffix = ".safetensors"
    if suffix == ".safetensors" and (values.dtype.kind in "cb" or values.dtype.byteorder == ">"):
        suffix = ".npy"
    if suffix == ".csv" and values.dtype.kind in "cb":
        suffix = ".npz"
    path = path.with_suffix(suffix)
    written(path, suffix, values)
    return path


@st.composite
def files(draw: Any) -> list[tuple[Any, str, str]]:
    """Two arrays to store, of one shape as a rule, each with its order and format."""
    rank = draw(st.sampled_from(RANKS))
    sides = [draw(st.sampled_from(SIDES if i >= rank - 2 else SIDES[:8])) for i in range(rank)]
    first = second = tuple(sides)
    if draw(st.sampled_from([True, False, False, False])):
        second = draw(
            st.sampled_from([first[::-1], first[1:] or (1,), (1, *first), (*first[:-1], 2)])
        )
    formats = st.tuples(st.sampled_from(ORDERS), st.sampled_from(SUFFIXES))
    one = draw(array(first))
    other = one if draw(st.sampled_from([True, False, False])) else draw(array(second))
    return [(one, *draw(formats)), (other, *draw(formats))]


# The commands that read arrays: what to type. A and B stand for the two files, J for A's numbers as
# a list in JSON, L and W for A's rows and columns.


SCHEMES = (
    *("-s rope", "-s rope --layout half", "-s rope --set partial=0.5", "-s rope-linear"),
    *("-s rope-yarn", "-s rope-llama3", "-s rope-ntk", "-s rope-dynamic", "-s rope-proportional"),
    *("-s rope-axial --set grid=4x4", "-s mrope", "-s xpos", "-s sinusoidal"),
    *("-m llama-3.1-8b", "-m gemma-3-4b --layer-type sliding_attention", "-s alibi"),
)
WHERE = (
    "--len L",
    "",
    "--len 4",
    "--len 16",
    "--positions 0:32:2",
    "--start 3 --len 5",
    "--len 64",
)
PICTURE = (
    *("", "--json", "--width 40 --height 12", "--color always", "--out x.svg", "--head 0"),
    *("--head 1 --json", "--dims 0:2", "--unsplit", "--cmap gray", "--color always --cmap phase"),
)
SIMILARITY = (
    *("", "--json", "--normalize cosine", "--profile", "--profile --json", "--out x.npy"),
    *("--len 3", "--head 0", "--normalize cosine --json", "--out x.csv --dtype float16"),
)
SPECTRUM = ("", "--json", "--out x.svg", "--width 40 --height 12")
DIMS = ("", "--dim W", "--dim W", "--dim 2W", "--dim 2W", "--dim 4", "--dim 64")
CHECKED = ("--tables A B", "--tables A A", "--inv-freq A", "--rotated A B", "--rotated A A")
REPORT = ("", "--json", "--strict", "--tol 1e-3", "--format github", "--format junit", "--tol 0")
LEARNED = ("learned", "t5", "shaw", "t5-clipped", "learned --set extend=interpolate")
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "identify": (("A", "A", "A B"), ("", "--json")),
    "rope-check": (CHECKED, SCHEMES, DIMS, WHERE, REPORT),
    "compare": (
        ("A B", "A A", "A rope", "A sinusoidal", "A alibi", "rope A", "A llama-3.1-8b"),
        ("", "--json", "--tol 0.5", "--tol 1e300", "--dtype float16"),
        ("", "--dim W", "--dim 2W", "--head 0", "--table cos-full", "--table inv-freq"),
        (*WHERE, "--len L", "--len L"),
    ),
    "heatmap": (("--in A",), PICTURE),
    "dot-similarity": (("--in A",), SIMILARITY),
    "inspect": (
        ("--in A", "--in A --in B", "--in A -s rope"),
        ("", "--json", "--fit 3", "--require unique,norm<=1e-6,relative"),
    ),
    "alibi-slopes": (("--check A",), ("", "--heads 4", "--heads 1", "--json", "--max-bias 2")),
    "generate": (tuple(f"-s {name} --set weights=A" for name in LEARNED), WHERE, ("-q", "--json")),
    "generate -s mrope --set axes=A": (("", "--dim 8 --set sections=1,1,2"), WHERE, ("-q",)),
    "spectrum -s rope-longrope": (
        ("--set short_factor=J --set long_factor=J",),
        ("--dim 2W", "--dim 2W", "", "--dim 4"),
        ("--json", "--set factor=8", ""),
    ),
    "heatmap -s": (tuple(f"{name} --set weights=A" for name in LEARNED), WHERE, ("", "--json")),
    "dot-similarity -s": (tuple(f"{name} --set weights=A" for name in LEARNED), WHERE, ("",)),
    "order-check -s": (tuple(f"{name} --set weights=A" for name in LEARNED), ("", "--json")),
    "inspect -s": (tuple(f"{name} --set weights=A" for name in LEARNED), WHERE, ("", "--json")),
}
WEIGHTS = ("identify", "identify", "rope-check", "rope-check", *COMMANDS)


@st.composite
def commands(draw: Any) -> str:
    name = draw(st.sampled_from(WEIGHTS))
    return " ".join([name, *(draw(st.sampled_from(choices)) for choices in COMMANDS[name])])


def told(arguments: list[str]) -> tuple[int, str, str]:
    """What a command ends with and says."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        status = main(arguments)
    out, err = (_text(stream) for stream in streams)
    return status, out, err


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.detach()
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def check(command: str, stored: list[tuple[Any, str, str]]) -> None:
    """Run a command on two files, and hold what it ends with to the promises of every command."""
    words = {
        name: str(_write(Path(f"{name.lower()}{suffix}"), values, order))
        for name, (values, order, suffix) in zip("AB", stored, strict=True)
    }
    first = stored[0][0]
    Path("j.json").write_text(json.dumps(np.real(first).astype(float).reshape(-1).tolist()))
    words |= {"L": str(len(first)), "W": str(first.shape[-1]), "2W": str(2 * first.shape[-1])}
    arguments = [
        words.get(word) or word.replace("=A", f"={words['A']}").replace("=J", "=j.json")
        for word in command.split()
    ]
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        status, out, err = told(arguments)
    seconds = time.process_time() - begun
    lines = err.splitlines()
    errors = [line for line in lines if line.startswith("posenc: error: ")]
    shown = f"{arguments} {stored[0][0].dtype} {stored[0][0].shape}: {status} {err}"
    assert status in range(4), shown
    assert len(errors) == (status > 1), shown
    known = ("posenc: error: ", "posenc: warning: ", "hint: ", "wrote ")
    assert all(line.startswith(known) and line.isprintable() for line in lines), shown
    assert seconds < CPU_SECONDS, shown
    if status < 2 and "--json" in arguments and "--out" not in arguments:
        json.loads(out, parse_constant=pytest.fail)
    if status > 1 and not {"junit", "github"} & {*arguments}:  # whose reports tell of errors, too
        assert not out, shown


@pytest.fixture(scope="module", autouse=True)
def _in_a_folder_of_its_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("arrays"))
        patch.delenv("FORCE_COLOR", raising=False)
        yield


@given(commands(), files())
@examples(600)
def test_valid_arrays_end_in_a_status_and_at_most_one_error(command, stored):
    check(command, stored)


def test_products_whose_sum_is_beyond_float64_have_no_mean():
    """What the property above found once."""
    rows = np.array([[1e154, 0.0]] * 6)
    check("dot-similarity --in A --json", [(rows, "C", ".npy"), (rows, "C", ".npy")])
    said = " ".join(told(["dot-similarity", "--in", "a.npy"])[1].split())
    assert said.endswith("the mean at offset 0 is not a float64 number")


@pytest.mark.slow
@given(commands(), files())
@examples(100)
def test_valid_arrays_take_little_memory(command, stored):
    tracemalloc.start()
    try:
        check(command, stored)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MEMORY, f"{command}: {most} bytes"
