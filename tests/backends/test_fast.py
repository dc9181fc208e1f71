"""The compiled kernel, judged by the NumPy core bit for bit, and by what its own cache does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_cli import catalogue
from posenc_cli.backends import fast, registry
from posenc_cli.backends.fast import FastBackend
from posenc_cli.backends.numpy import NumpyBackend
from posenc_cli.errors import InvalidInput, Unavailable
from posenc_cli.formulas.tables import ROTARY_TABLES
from posenc_cli.numerics import cells
from posenc_cli.numerics import exact as xp
from posenc_cli.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
)
from posenc_cli.numerics.placements import Placement
from posenc_cli.records import replace
from tests.contracts.test_schemes import SMALL
from tests.examples import examples

pytest.importorskip("numba", reason="the fast backend needs numba")

DTYPES = [FLOAT16, BFLOAT16, FLOAT32, FLOAT64]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
NARROW = pytest.mark.parametrize("dtype", DTYPES[:3], ids=lambda dtype: dtype.name)
ROOT = Path(__file__).parents[2]


def ladder(base, dim):
    return list(1 / xp.asarray(base) ** (xp.arange(0, dim, 2) / dim))


def halves(count):
    return [
        Placement("cos", slice(0, count), slice(None)),
        Placement("sin", slice(count, 2 * count), slice(None)),
    ]


def pair(frequencies, scale="1"):
    backends = FastBackend(), NumpyBackend()
    return [each.exact(frequencies, scale=Decimal(scale), device=None) for each in backends]


def bits(array):
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def filled(filler, positions, placements, dtype, width):
    out = np.full((len(positions), width), 7, dtype.numpy)
    filler.fill(out, np.asarray(positions), placements, dtype=dtype)
    return out


def assert_same_bytes(pair, positions, placements, dtype, width):
    found, expected = (filled(each, positions, placements, dtype, width) for each in pair)
    assert np.array_equal(bits(found), bits(expected))


@pytest.fixture
def kernel_calls(monkeypatch):
    """How many rows the kernel, not the NumPy core, has filled."""
    rows = []
    usual = fast.FusedWaves._fill

    def counted(self, out, *arguments):
        rows.append(out.shape[0])
        usual(self, out, *arguments)

    monkeypatch.setattr(fast.FusedWaves, "_fill", counted)
    return rows


@pytest.fixture(params=[1, 1 << 30], ids=["pairs", "columns"])
def kernel(request, monkeypatch):
    """Each kernel where it can serve, however few the pairs of a row."""
    monkeypatch.setattr(fast, "PAIRS_FROM", request.param)


every_kernel = pytest.mark.usefixtures("kernel")


def layouts():
    """Every layout of waves that a built-in scheme makes: (name, waves, placements, width)."""
    for scheme in catalogue.BUILT_IN.values():
        settings = [{"dim": "12", **SMALL.get(scheme.name, {})}]
        if scheme.name == "sinusoidal":
            settings = [
                {"dim": dim, "layout": layout, "order": order, "odd": odd}
                for layout in ("interleaved", "concat")
                for order in ("sin-first", "cos-first")
                for dim, odd in (
                    ("12", "error"),
                    ("11", "truncate"),
                    ("11", "pad"),
                    ("11", "split"),
                )
            ]
        for given_ in settings:
            if "dim" not in scheme.parameters:
                continue
            try:
                content = scheme.bind(given_, seq_len=5000).content
            except InvalidInput:  # needs more than a width; its columns are laid out like others'
                continue
            name = "-".join(map(str, [scheme.name, *given_.values()]))
            if content.waves is not None and scheme.kind != "rotary":
                yield name, content.waves, content.placements, content.width
            if scheme.kind == "rotary":
                for table in set(ROTARY_TABLES) - {"angles", "inv-freq"}:
                    for layout in ("interleaved", "half"):
                        columns = replace(content, layout=layout).columns(table)
                        key = f"{name}-{table}-{layout}"
                        yield key, content.waves, columns.placements, columns.width


LAYOUTS = sorted(layouts(), key=lambda each: each[0])


@pytest.mark.long
@pytest.mark.sweep(247)
@every_kernel
@NARROW
@pytest.mark.parametrize(
    ("waves", "placements", "width"),
    [each[1:] for each in LAYOUTS],
    ids=[each[0] for each in LAYOUTS],
)
def test_every_layout_of_the_catalogue_has_the_same_bytes(
    waves, placements, width, dtype, kernel_calls
):
    both = pair(list(waves.frequencies(xp)))
    assert_same_bytes(both, np.arange(2500), placements, dtype, width)
    assert sum(kernel_calls) >= 2500


@pytest.mark.long
@pytest.mark.sweep(35)
@every_kernel
@NARROW
@pytest.mark.parametrize("scale", ["1", "1.2079441541679836", "-0.1"])
@pytest.mark.parametrize(
    ("base", "dim"), [(10_000, 128), (1.5, 12), (Decimal("1e30"), 20), (100, 2), (10, 700)]
)
def test_runs_anywhere_have_the_same_bytes(base, dim, scale, dtype, kernel_calls):
    both = pair(ladder(base, dim), scale)
    for start, count in ((0, 3000), (1023, 1026), (2**31 - 700, 1500), (2**53 - 2000, 2001)):
        positions = np.arange(start, start + count)
        assert_same_bytes(both, positions, halves(dim // 2), dtype, dim)
    assert sum(kernel_calls) == 3000 + 1026 + 1500 + 2001


@every_kernel
@NARROW
def test_blocks_of_any_size_have_the_same_bytes(dtype, kernel_calls):
    ours, theirs = pair(ladder(10_000, 48), "1.07")
    start, count = 2**31 - 1500, 9000
    whole = bits(filled(theirs, np.arange(start, start + count), halves(24), dtype, 48))
    for size in (9000, 1024, 1000, 300, 7, 1):
        for begin in range(0, 9000 if size > 100 else 50, size):
            part = np.arange(start + begin, start + min(begin + size, count))
            found = bits(filled(ours, part, halves(24), dtype, 48))
            assert np.array_equal(found, whole[begin : begin + size])
    assert 1 in kernel_calls


@every_dtype
@given(
    st.lists(st.decimals("-20", "20", places=25), min_size=1, max_size=5),
    st.integers(0, 2**53 - 1200),
    st.sampled_from(["1", "1.1", "0.013", "-3"]),
)
@examples(25)
def test_any_frequencies_have_the_same_bytes(dtype, frequencies, start, scale):
    count = len(frequencies)
    positions = np.arange(start, start + 1200)
    assert_same_bytes(pair(frequencies, scale), positions, halves(count), dtype, 2 * count)


@pytest.mark.long
@pytest.mark.parametrize("width", [1, 2, 6, 30, 32, 128, 1400])
def test_what_is_computed_ahead_takes_little_memory_however_narrow_the_table(width):
    ours, _ = pair(ladder(10_000, 2 * width))
    filled(ours, np.arange(3000), halves(width)[:1], FLOAT32, width)
    (tables,) = ours._prepared.get(next(iter(ours._prepared._values)), list)
    batch = tables.batch(0, 1 << 30)
    assert sum(table.nbytes for table in batch) <= 8 * len(batch) * fast.BATCH_CELLS


@pytest.fixture
def wide_calls(monkeypatch):
    """How many rows of float64 the kernel, not the NumPy core, has filled."""
    rows = []
    usual = fast.FusedWaves._fill_pairs

    def counted(self, out, *arguments):
        rows.append(out.shape[0])
        usual(self, out, *arguments)

    monkeypatch.setattr(fast.FusedWaves, "_fill_pairs", counted)
    return rows


def alternate(count):
    return [
        Placement("sin", slice(0, 2 * count, 2), slice(None)),
        Placement("cos", slice(1, 2 * count, 2), slice(None)),
    ]


@pytest.mark.sweep(6)
@pytest.mark.parametrize("placed", [halves, alternate])
@pytest.mark.parametrize("scale", ["1", "1.2079441541679836", "-0.1"])
@pytest.mark.parametrize("dim", [128, 12, 2])
def test_float64_of_pairs_has_the_same_bytes(dim, scale, placed, wide_calls, monkeypatch):
    monkeypatch.setattr(fast, "UNDECIDED_KEPT", 8)  # at 0 more sines are in doubt
    both = pair(ladder(100, dim), scale)
    for start, count in ((0, 70_000 // dim), (1023, 1026), (2**53 - 2000, 2001)):
        positions = np.arange(start, start + count)
        assert_same_bytes(both, positions, placed(dim // 2), FLOAT64, dim)
        assert_same_bytes(both, positions, placed(dim // 2), FLOAT64, dim + 3)
    assert sum(wide_calls) == 2 * (70_000 // dim + 1026 + 2001)


def test_float64_of_other_columns_is_left_to_the_core(wide_calls, kernel_calls):
    slow = [*ladder(10_000, 14), Decimal("1e-30")]
    for frequencies, placements in (
        (ladder(10_000, 16), halves(8)[:1]),
        ([*ladder(10_000, 14), Decimal(0)], halves(8)),
        (slow, halves(8)),
    ):
        assert_same_bytes(pair(frequencies), np.arange(3000), placements, FLOAT64, 16)
    assert not wide_calls
    assert not kernel_calls


@every_dtype
def test_positions_that_do_not_rise_by_one_are_left_to_the_core(dtype, kernel_calls):
    both = pair(ladder(10_000, 16))
    random = np.random.default_rng(4)
    for positions in (
        np.arange(0),
        np.arange(-300, 600),
        np.arange(0, 3000, 3),
        np.arange(900)[::-1],
        random.integers(-(2**53), 2**53, 900),
        np.concatenate([np.arange(500), [501, 500], np.arange(502, 900)]),
    ):
        assert_same_bytes(both, positions, halves(8), dtype, 16)
    assert not kernel_calls


@pytest.mark.long
@pytest.mark.sweep(2)
@every_kernel
@every_dtype
def test_extremes_have_the_same_bytes(dtype):
    positions = np.arange(1500)
    tie = Decimal(1 + 2.0**-dtype.precision) if dtype is not FLOAT64 else Decimal("1.5")
    cases = [
        ([Decimal(0), Decimal(1)], tie),
        ([Decimal(0), Decimal(1), Decimal("-0.25")], Decimal("-1")),
        ([Decimal(0)], Decimal(1)),
        ([Decimal("1e-4000"), Decimal("-1e-320"), Decimal("1e-45"), Decimal("1e25")], Decimal(1)),
        ([Decimal("1e-45"), Decimal("-1e-190"), Decimal("-1e-30"), Decimal("3e-8")], Decimal(1)),
        ([Decimal("1e-12"), Decimal("3.5e-11"), Decimal("7e-6")], Decimal("0.001")),
        ([Decimal(1)], Decimal(0)),
        ([Decimal(1)], Decimal("1e6")),
        ([Decimal(1)], Decimal("1e-7")),
    ]
    for frequencies, scale in cases:
        count = len(frequencies)
        assert_same_bytes(pair(frequencies, str(scale)), positions, halves(count), dtype, 2 * count)


@pytest.mark.long
@NARROW
def test_every_rounding_of_tiny_cells_has_the_same_bytes(dtype):
    # sin(n · ω) ≈ n · ω steps through the subnormal numbers of the format, and half-way between.
    smallest = Decimal(2) ** (dtype.min_exponent - dtype.precision + 1)
    frequencies = [smallest / 2, smallest / 4, smallest / 3, -smallest / 2, smallest * 2**9]
    assert_same_bytes(pair(frequencies), np.arange(5000), halves(5), dtype, 10)


@pytest.mark.sweep(5)
@every_kernel
@NARROW
@pytest.mark.parametrize("share", ["some", "all"])
def test_undecided_cells_are_settled_by_the_core(dtype, share, monkeypatch):
    both = pair(ladder(10_000, 16), "1.1")
    runs = [np.arange(3000), np.arange(2**40 + 5, 2**40 + 1100)]
    expected = [filled(both[1], run, halves(8), dtype, 16) for run in runs]
    settled = []
    usual = fast.WaveTable.settle

    def counted(self, out, positions, columns, places, **settings):
        settled.append(places.size)
        out.reshape(-1)[places] = 0
        usual(self, out, positions, columns, places, **settings)

    monkeypatch.setattr(fast.WaveTable, "settle", counted)
    margin = 1e3 if share == "all" else 2.0 ** -(dtype.precision + 6)
    monkeypatch.setattr(cells, "MARGIN", margin)
    for run, right in zip(runs, expected, strict=True):
        assert np.array_equal(bits(filled(both[0], run, halves(8), dtype, 16)), bits(right))
    if share == "all":
        assert sum(settled) == 16 * sum(run.size for run in runs)
    else:
        assert 100 < sum(settled) < 16 * sum(run.size for run in runs)


@every_kernel
@NARROW
def test_the_signs_of_cells_at_zero_are_left_to_the_core(dtype, monkeypatch):
    settled = []
    usual = fast.WaveTable.settle

    def counted(self, *arguments, **settings):
        settled.extend(arguments[3].tolist())
        usual(self, *arguments, **settings)

    monkeypatch.setattr(fast.WaveTable, "settle", counted)
    filled(pair(ladder(10_000, 8))[0], np.arange(1500), halves(4), dtype, 8)
    assert set(settled) >= {4, 5, 6, 7}


@pytest.mark.long
@every_kernel
@NARROW
def test_almost_nothing_is_undecided(dtype, monkeypatch):
    settled = []
    usual = fast.WaveTable.settle

    def counted(self, *arguments, **settings):
        settled.append(arguments[3].size)
        usual(self, *arguments, **settings)

    monkeypatch.setattr(fast.WaveTable, "settle", counted)
    for base, dim in ((10_000, 64), (Decimal("1e30"), 512)):
        settled.clear()
        ours, _ = pair([*ladder(base, dim), Decimal(0)])
        filled(ours, np.arange(1, 20_000), halves(dim // 2 + 1), dtype, dim + 2)
        assert sum(settled) <= 3e-6 * 20_000 * dim


@every_kernel
@every_dtype
def test_the_output_may_have_any_strides_and_other_columns_are_left_alone(dtype):
    ours, theirs = pair(ladder(100, 8))
    positions = np.arange(3, 1100)
    plain = filled(theirs, positions, halves(4), dtype, 8)
    for out in (
        np.empty((8, positions.size), dtype.numpy).T,
        np.empty((positions.size, 20), dtype.numpy)[:, 3:19:2],
        np.empty((2 * positions.size, 8), dtype.numpy)[::-2],
    ):
        ours.fill(out, positions, halves(4), dtype=dtype)
        assert np.array_equal(bits(out), bits(plain))
    apart = [Placement("sin", slice(9, 1, -2)), Placement("cos", slice(11, 12), slice(0, 1))]
    assert_same_bytes((ours, theirs), positions, apart, dtype, 12)
    mixed = [
        Placement("cos", slice(0, 4)),
        Placement("zero", slice(4, 5)),
        Placement("sin", slice(5, 7), slice(3, 1, -1)),
    ]
    assert_same_bytes((ours, theirs), positions, mixed, dtype, 7)
    assert_same_bytes((ours, theirs), positions, [], dtype, 3)


@pytest.mark.parametrize("dtype", [COMPLEX64, COMPLEX128], ids=lambda dtype: dtype.name)
def test_complex_tables_have_the_same_bytes(dtype, kernel_calls):
    both = pair(ladder(100, 8))
    parts = [Placement("cos", slice(0, 8, 2)), Placement("sin", slice(1, 8, 2))]
    found, expected = (filled(each, np.arange(1500), parts, dtype, 4) for each in both)
    assert np.array_equal(found, expected)
    assert bool(kernel_calls) == (dtype is COMPLEX64)


@pytest.mark.long
@every_dtype
def test_threads_fill_one_array_with_the_same_bytes(dtype):
    ours, theirs = pair(ladder(10_000, 64))
    positions = np.arange(60_000)
    expected = filled(theirs, positions, halves(32), dtype, 64)
    out = np.empty_like(expected)

    def work(start):
        rows = slice(start, start + 700)
        ours.fill(out[rows], positions[rows], halves(32), dtype=dtype)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(0, 60_000, 700)))
    assert np.array_equal(bits(out), bits(expected))


def test_one_filler_serves_every_format():
    both = pair(ladder(10_000, 16))
    for dtype in [*DTYPES, *DTYPES]:
        assert_same_bytes(both, np.arange(1500), halves(8), dtype, 16)


@every_dtype
def test_angles_are_those_of_the_core(dtype):
    ours, theirs = pair(ladder(10_000, 16))
    positions = np.array([0, 5, -7, 2**53])
    found, expected = (each.angles(positions, dtype=dtype) for each in (ours, theirs))
    assert np.array_equal(bits(found), bits(expected))


def test_other_arithmetic_is_that_of_numpy():
    def rule(xp):
        return 1 / 10_000.0 ** (xp.arange(0, 8, 2) / 8)

    ours, theirs = FastBackend(), NumpyBackend()
    positions = np.arange(9)
    for arithmetic in ("float64", "float32", "bfloat16"):
        waves = [
            each.reduced(rule, scale=1.0, arithmetic=arithmetic, device=None)
            for each in (ours, theirs)
        ]
        assert_same_bytes(waves, positions, halves(4), FLOAT32, 8)
        found, expected = (
            each.frequencies(rule, arithmetic=arithmetic, device="cpu") for each in (ours, theirs)
        )
        assert np.array_equal(found, expected)


def test_other_devices_are_refused():
    with pytest.raises(Unavailable, match="--device cuda: the fast backend computes on the CPU"):
        FastBackend().exact([Decimal(1)], scale=Decimal(1), device="cuda")


@pytest.mark.long
def test_it_is_found_by_name_and_its_status_does_not_import_numba():
    status = registry.status("fast")
    assert status.available
    assert status.version is not None
    assert status.devices == ("cpu",)
    code = """
import sys
from posenc_cli.backends import registry
print(registry.status("fast").available, "numba" in sys.modules, "llvmlite" in sys.modules)
"""
    assert python(code).stdout.split() == ["True", "False", "False"]


FILL = """
import sys
from decimal import Decimal
import numpy as np
from posenc_cli.backends.fast import FastBackend
from posenc_cli.numerics.dtypes import FLOAT32
from posenc_cli.numerics.placements import Placement
waves = FastBackend().exact([Decimal(1)], scale=Decimal(1), device=None)
out = np.empty((2000, 1), np.float32)
waves.fill(out, np.arange(2000), [Placement("cos", slice(0, 1))], dtype=FLOAT32)
assert np.abs(out[:, 0] - np.cos(np.arange(2000))).max() < 1e-7
kernel = waves._kernels.of(np.dtype(np.float32), "columns")
assert kernel.targetoptions["nogil"]
print(sum(kernel.stats.cache_hits.values()), kernel.stats.cache_path)
"""


def python(code, *flags, root=ROOT, **environment):
    settings = {**os.environ, "PYTHONPATH": str(root), **environment}
    for name in ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT"):
        if name not in environment:
            settings.pop(name, None)
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        capture_output=True,
        text=True,
        env=settings,
        cwd="/",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done


@pytest.mark.slow
def test_compiled_code_is_kept_for_the_next_process(tmp_path):
    cache = str(tmp_path / "cache")
    first = python(FILL, "-W", "error", NUMBA_CACHE_DIR=cache).stdout.split()
    second = python(FILL, "-W", "error", NUMBA_CACHE_DIR=cache).stdout.split()
    assert (first[0], second[0]) == ("0", "1")
    assert first[1].startswith(cache)


def copied(tmp_path):
    package = tmp_path / "installed" / "posenc_cli"
    shutil.copytree(ROOT / "posenc_cli", package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


@pytest.mark.slow
def test_nowhere_to_keep_compiled_code_is_no_matter(tmp_path):
    package = copied(tmp_path)
    # A file where the cache folder would be stops even a superuser.
    (package / "backends" / "__pycache__").write_text("")
    nowhere = {"HOME": "/proc/nope", "XDG_CACHE_HOME": "/proc/nope", "LOCALAPPDATA": "/proc/nope"}
    found = python(FILL, "-W", "error", root=package.parent, **nowhere).stdout.split()
    assert found == ["0", "None"]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"nonsense", None], ids=["empty", "nonsense", "cut"])
def test_damaged_compiled_code_is_no_matter(damage, tmp_path):
    cache = tmp_path / "cache"
    python(FILL, NUMBA_CACHE_DIR=str(cache))
    kept = [path for path in cache.rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert kept
    for path in kept:
        path.write_bytes(path.read_bytes()[:-100] if damage is None else damage)
    python(FILL, NUMBA_CACHE_DIR=str(cache))


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("numba", "reason"),
    [
        (None, "numba is not installed"),
        (
            "raise ImportError('Numba needs NumPy 1.0\\nor less')",
            "numba cannot be used (ImportError: Numba needs NumPy 1.0)",
        ),
        (
            "import warnings; warnings.warn('old'); raise SystemError('initialization')",
            "numba cannot be used (SystemError: initialization)",
        ),
    ],
    ids=["missing", "unsuited", "noisy"],
)
def test_a_numba_that_cannot_be_used_is_reported_in_one_line(numba, reason, tmp_path):
    if numba is not None:
        (tmp_path / "numba.py").write_text(numba)
    code = f"""
import sys
from decimal import Decimal
from importlib.machinery import PathFinder
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "numba":
            raise ModuleNotFoundError("No module named 'numba'", name="numba")
if {numba is None}:
    sys.meta_path.insert(0, Hidden())
else:
    sys.path.insert(0, {str(tmp_path)!r})
from posenc_cli.backends.fast import FastBackend
from posenc_cli.errors import Unavailable
try:
    FastBackend().exact([Decimal(1)], scale=Decimal(1), device=None)
except Unavailable as error:
    print(error.message)
"""
    assert python(code).stdout == f"--backend fast: {reason}\n"


def test_a_missing_numba_is_the_status(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    status = FastBackend().status()
    assert not status.available
    assert status.reason == "numba is not installed"


@pytest.mark.slow
def test_a_numba_told_not_to_compile_is_not_used():
    code = """
from decimal import Decimal
from posenc_cli.backends.fast import FastBackend
from posenc_cli.errors import Unavailable
try:
    FastBackend().exact([Decimal(1)], scale=Decimal(1), device=None)
except Unavailable as error:
    print(error.message)
"""
    found = python(code, NUMBA_DISABLE_JIT="1").stdout
    assert found == "--backend fast: NUMBA_DISABLE_JIT switches numba off\n"
