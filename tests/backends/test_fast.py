"""The compiled kernel, judged by the NumPy core bit for bit, and by what its own cache does."""

import hashlib
import importlib.util
import json
import math
import platform
import re
import shutil
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from posenc_cli import catalogue
from posenc_cli.backends import fast, native, registry
from posenc_cli.backends.fast import FastBackend
from posenc_cli.backends.numpy import NumpyBackend
from posenc_cli.errors import InvalidInput, Unavailable, quoted_name
from posenc_cli.formulas.tables import ROTARY_TABLES
from posenc_cli.numerics import cells
from posenc_cli.numerics import exact as xp
from posenc_cli.numerics import halves as rounding_of_halves
from posenc_cli.numerics.dtypes import COMPLEX64, COMPLEX128, FLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.placements import Placement
from posenc_cli.records import replace
from tests.contracts.test_schemes import SMALL
from tests.numerics.test_waves import (
    DTYPES,
    bits,
    every_dtype,
    filled,
    halves,
    interleaved,
    ladder,
)
from tests.processes import UNMEASURED, ran, ran_code

HERE = FastBackend().status()
if not HERE.available:
    pytest.skip(HERE.reason, allow_module_level=True)

ROOT = Path(__file__).parents[2]


def pair(frequencies, scale="1"):
    backends = FastBackend(), NumpyBackend()
    return [each.exact(frequencies, scale=Decimal(scale), device=None) for each in backends]


def assert_same_bytes(pair, positions, placements, dtype, width):
    found, expected = (filled(each, positions, placements, dtype, width) for each in pair)
    assert np.array_equal(bits(found), bits(expected))


@pytest.fixture
def kernel_calls(monkeypatch):
    """How many rows the kernel, not the NumPy core, has filled."""
    rows = []
    usual = fast.CompiledWaves.compute

    def counted(self, out, *arguments):
        rows.append(out.shape[0])
        usual(self, out, *arguments)

    monkeypatch.setattr(fast.CompiledWaves, "compute", counted)
    return rows


@pytest.fixture(params=range(len(native.INSTRUCTIONS)), ids=native.INSTRUCTIONS)
def kernel(request, monkeypatch):
    """The kernel for each set of instructions that is here."""
    library = native.loaded_library()
    if request.param > library.posenc_instructions():
        pytest.skip("this machine has no such instructions")
    usual = fast.CompiledWaves.__init__

    def of_these(self, core, given, instructions=request.param):
        usual(self, core, given, instructions)

    monkeypatch.setattr(fast.CompiledWaves, "__init__", of_these)


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


LAYOUTS = list(
    {  # one of those whose columns hold the same waves
        (width, waves.count, *(placement.key for placement in placements)): (
            name,
            waves,
            placements,
            width,
        )
        for name, waves, placements, width in sorted(layouts(), key=lambda each: each[0])
    }.values()
)


@pytest.mark.long
@pytest.mark.sweep(20)
@every_kernel
@every_dtype
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
@every_dtype
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
@every_dtype
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


@pytest.mark.sweep(29)
@every_kernel
@every_dtype
@pytest.mark.parametrize("placed", [halves, interleaved])
@pytest.mark.parametrize(("scale", "dim"), [("1", 128), ("1.2079441541679836", 12), ("-0.1", 2)])
def test_pairs_in_any_layout_have_the_same_bytes(scale, dim, placed, dtype, monkeypatch):
    monkeypatch.setattr(fast, "UNDECIDED_KEPT", 8)  # at 0 more sines are in doubt
    both = pair(ladder(100, dim), scale)
    for start, count in ((0, 70_000 // dim), (1023, 1026), (2**53 - 2000, 2001)):
        positions = np.arange(start, start + count)
        assert_same_bytes(both, positions, placed(dim // 2), dtype, dim)
        assert_same_bytes(both, positions, placed(dim // 2), dtype, dim + 3)


@every_kernel
@every_dtype
def test_positions_in_any_order_have_the_same_bytes(dtype, kernel_calls):
    both = pair(ladder(10_000, 16))
    random = np.random.default_rng(4)
    runs = (
        np.arange(0, 3000, 3),
        np.arange(900)[::-1],
        np.concatenate([np.arange(500), [501, 500], np.arange(502, 900)]),
        random.integers(0, 2**53, 900),
        np.full(300, 2**53),
    )
    for positions in runs:
        assert_same_bytes(both, positions, halves(8), dtype, 16)
    assert sum(kernel_calls) == sum(positions.size for positions in runs)


@every_dtype
def test_negative_positions_and_few_rows_are_left_to_the_core(dtype, kernel_calls):
    both = pair(ladder(10_000, 16))
    for positions in (np.arange(0), np.arange(5), np.arange(-300, 600)):
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
@every_dtype
def test_every_rounding_of_tiny_cells_has_the_same_bytes(dtype):
    # sin(n · ω) ≈ n · ω steps through the subnormal numbers of the format, and half-way between.
    smallest = Decimal(2) ** (dtype.min_exponent - dtype.precision + 1)
    frequencies = [smallest / 2, smallest / 4, smallest / 3, -smallest / 2, smallest * 2**9]
    assert_same_bytes(pair(frequencies), np.arange(5000), halves(5), dtype, 10)


@pytest.fixture
def settled(monkeypatch):
    """The places of the cells that the core settles, call by call: the kernel's are lost first."""
    places = []
    usual = fast.WaveTable.settle

    def counted(self, out, positions, columns, doubtful, **settings):
        places.append(doubtful.tolist())
        out.reshape(-1)[doubtful] = 0
        usual(self, out, positions, columns, doubtful, **settings)

    monkeypatch.setattr(fast.WaveTable, "settle", counted)
    return places


@pytest.mark.sweep(5)
@every_kernel
@every_dtype
@pytest.mark.parametrize("share", ["some", "all"])
def test_undecided_cells_are_settled_by_the_core(dtype, share, settled, monkeypatch):
    both = pair(ladder(10_000, 16), "1.1")
    runs = [np.arange(1, 3000), np.arange(2**40 + 5, 2**40 + 1100)]
    expected = [filled(both[1], run, halves(8), dtype, 16) for run in runs]
    settled.clear()
    margin = 1e3 if share == "all" else 2.0 ** -(dtype.precision + 6)
    monkeypatch.setattr(cells, "MARGIN", margin)
    monkeypatch.setattr(fast, "WIDE_MARGIN", margin)
    for run, right in zip(runs, expected, strict=True):
        assert np.array_equal(bits(filled(both[0], run, halves(8), dtype, 16)), bits(right))
    count, whole = sum(map(len, settled)), 16 * sum(run.size for run in runs)
    assert count == whole if share == "all" else 100 < count < whole


@every_kernel
@every_dtype
def test_cells_at_zero_are_those_of_the_core(dtype, settled):
    for run, left in ((np.arange(1500), set()), (np.r_[7, 0:1499], {12, 13, 14, 15})):
        for scale in ("1.1", "-1.1"):
            settled.clear()
            ours, theirs = (
                filled(one, run, halves(4), dtype, 8) for one in pair(ladder(10_000, 8), scale)
            )
            assert np.array_equal(bits(ours), bits(theirs))
            # The kernel proves no sine of 0: as a first row it is known, later it is settled.
            assert {place for each in settled for place in each if place < 16} >= left


@pytest.mark.long
@every_kernel
@every_dtype
def test_almost_nothing_is_undecided(dtype, settled):
    for base, dim in ((10_000, 64), (Decimal("1e30"), 512)):
        settled.clear()
        ours, _ = pair([*ladder(base, dim), Decimal(0)])
        filled(ours, np.arange(1, 20_000), halves(dim // 2 + 1), dtype, dim + 2)
        assert sum(map(len, settled)) <= 3e-6 * 20_000 * dim


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
    assert kernel_calls


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


def test_it_is_found_by_name_and_says_what_it_computes_with():
    status = registry.status("fast")
    assert (status.available, status.version, status.devices) == (True, native.DIGEST, ("cpu",))
    best = native.INSTRUCTIONS[native.loaded_library().posenc_instructions()]
    assert status.reason.startswith(f"compiled, with {best} instructions; the same bytes as numpy")


def test_the_library_is_named_after_its_source():
    """So that none of another source is taken: `make format` would not do, for C has no style."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in native.SOURCES)).hexdigest()
    assert digest[:12] == native.DIGEST, "change DIGEST in backends/native.py with the source"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="others have one set of instructions")
@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what the processor has")
def test_the_best_instructions_are_those_that_linux_says_the_processor_has():
    flags = re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)[
        1
    ].split()
    needed = [
        set(),
        {"avx2", "fma"},
        {"avx2", "fma", "avx512f", "avx512dq", "avx512bw", "avx512vl"},
    ]
    best = max(number for number, those in enumerate(needed) if those <= {*flags})
    assert native.loaded_library().posenc_instructions() == best


def test_the_library_is_named_after_its_machine_and_c_library(monkeypatch):
    assert f"-{sys.platform}-{platform.machine()}" in native.LIBRARY.name
    monkeypatch.setattr(sys.implementation, "_multiarch", "x86_64-linux-musl")
    spec = importlib.util.spec_from_file_location("native_on_musl", native.__file__)
    on_musl = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(on_musl)
    assert on_musl.LIBRARY.name.endswith(f"{platform.machine()}-musl.so")
    assert on_musl.LIBRARY != native.LIBRARY


def test_what_it_costs_to_have_no_kernel_is_what_was_measured():
    measured = json.loads((ROOT / "benchmarks" / "results" / "measured.json").read_text())
    found = {
        (each["name"], each["dtype"], each["threads"]): each["spread"]["median"]
        for section in ("speed", "streaming")
        for each in measured["sections"][section]["measurements"]
    }

    def ratio(what, *how):
        return found[f"posenc numpy{what}", *how] / found[f"posenc fast{what}", *how]

    ratios = [ratio("", dtype.name, 1) for dtype in DTYPES]
    to_file = ratio(" to npy", "float32", 1)
    assert (
        f"numpy takes {min(ratios):.0f} to {max(ratios):.0f} times as long for large arrays, "
        f"and {to_file:.1f} times as long for large files"
    ) == native.COST


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A copy of the library, in the place of the one of this process."""
    copy = tmp_path / native.LIBRARY.name
    shutil.copy(native.LIBRARY, copy)
    shutil.copy(native.checksum_of(native.LIBRARY), tmp_path)
    monkeypatch.setattr(native, "LIBRARY", copy)
    fast._library.cache_clear()
    yield copy
    fast._library.cache_clear()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (None, f"no compiled kernel for {native.PLATFORM} is installed (a C compiler builds it): "),
        (b"", "does not match its checksum"),
        (b"nonsense", "does not match its checksum"),
        (0.5, "does not match its checksum"),
        ("sealed", "cannot be loaded (OSError: "),
        ("unsealed", "has no checksum file beside it (.crc32)"),
    ],
    ids=["removed", "empty", "nonsense", "truncated", "no library", "no checksum"],
)
def test_without_a_whole_library_numpy_takes_over_with_a_word(damage, reason, library):
    if damage is None:
        library.unlink()
    elif isinstance(damage, float):
        whole = library.read_bytes()
        library.unlink()  # what this process may have mapped stays as it is
        library.write_bytes(whole[: int(len(whole) * damage)])
    elif damage == "unsealed":
        native.checksum_of(library).unlink()
    elif damage == "sealed":
        library.unlink()
        library.write_bytes(b"nonsense")
        native.seal(library)
    else:
        library.unlink()
        library.write_bytes(damage)
    status = registry.status("fast")
    assert not status.available
    if damage is not None:
        reason = f"the compiled kernel {quoted_name(library)} {reason}"
    assert status.reason.startswith(reason)
    chosen = registry.choose("auto", device=None, values=1 << 30)
    assert chosen.backend.name == "numpy"
    assert chosen.lost.startswith(reason)
    with pytest.raises(Unavailable, match=re.escape(f"--backend fast: {reason}")):
        registry.choose("fast", device=None, values=None)


@pytest.mark.long
def test_generate_says_what_it_costs_to_have_no_kernel_where_one_would_repay(
    library, call, tmp_path
):
    """Not with --backend numpy, which asks for none, nor for a table that is small."""
    words = ("generate", "-s", "rope", "--out", str(tmp_path / "x.npy"), "--len")
    assert "note: " not in call(*words, "16384")[2]
    library.unlink()
    fast._library.cache_clear()
    note = f"note: no compiled kernel for {native.PLATFORM} is installed (a C compiler builds it): "
    status, _, err = call(*words, "16384")
    assert (status, err.splitlines()[-1]) == (0, note + native.COST)
    for more in (["1000"], ["16384", "--backend", "numpy"], ["16384", "--quiet"]):
        status, _, err = call(*words, *more)
        assert (status, "note: " in err) == (0, False)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("int nothing;", "cannot be loaded (AttributeError: "),
        (
            "int posenc_instructions(void) { return 0; }\nlong posenc_fill(void) { return 0; }",
            "the compiled kernel computes wrong values here",
        ),
    ],
    ids=["another", "wrong"],
)
def test_a_library_that_does_not_compute_the_cells_is_not_used(code, reason, library, tmp_path):
    (tmp_path / "other.c").write_text(code)
    library.unlink()
    ran("cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "other.c"))
    native.seal(library)
    assert reason in registry.status("fast").reason


def test_cells_without_memory_for_the_kernel_are_settled_by_the_core(monkeypatch):
    both = pair(ladder(10_000, 16))

    class Full:
        posenc_instructions = staticmethod(lambda: 0)
        posenc_fill = staticmethod(lambda *_: -1)

    monkeypatch.setattr(both[0], "_library", Full)
    assert_same_bytes(both, np.arange(300), halves(8), FLOAT32, 16)


def on_lines(shape, dtype, shift=0):
    """An array whose first value is ``shift`` bytes past the start of a line of 64."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.full(size + 128, 7, np.uint8)
    begin = -memory.ctypes.data % 64 + shift
    return memory[begin : begin + size].view(dtype.numpy).reshape(shape)


def one_column(count):
    return halves(count)[:1]


@every_kernel
@every_dtype
@pytest.mark.parametrize("placed", [halves, interleaved, one_column])
def test_what_does_not_fit_the_caches_passes_them_by(placed, dtype, monkeypatch):
    monkeypatch.setattr(fast, "CACHED_BYTES", 0)
    margin = 2.0 ** -(dtype.precision + 6)  # leaves some cells undecided
    monkeypatch.setattr(cells, "MARGIN", margin)
    monkeypatch.setattr(fast, "WIDE_MARGIN", margin)
    # Of 32 and 64 pairs the halves of a row are whole lines, of 20 they are not.
    lines = ((32, 0, 0), (64, 32, 0), (32, 0, 16), (16, 0, 40), (64, 0, 4), (64, 32, 16))
    for count, beside, shift in (*lines, (20, 0, 0), (20, 3, 0)):
        both = pair(ladder(10_000, 2 * count))
        positions = np.r_[:1500, 2**40 + 5 : 2**40 + 300]
        found = on_lines((positions.size, 2 * count + beside), dtype, shift)
        right = found.copy()
        for filler, out in zip(both, (found, right), strict=True):
            filler.fill(out, positions, placed(count), dtype=dtype)
        assert np.array_equal(bits(found), bits(right))


@every_kernel
@pytest.mark.parametrize("placed", [halves, interleaved, one_column])
@pytest.mark.parametrize("shift", [8, 16, 48])
@pytest.mark.parametrize("rows", [1, 2, 17])  # of the first, at 0, the kernel computes nothing
def test_rows_that_begin_within_a_line_leave_the_memory_beside_them_alone(
    rows, shift, placed, monkeypatch
):
    monkeypatch.setattr(fast, "CACHED_BYTES", 0)
    memory = on_lines((rows + 2, 64), FLOAT32, shift)
    before = memory.copy()
    kernel, core = pair(ladder(10_000, 64))
    kernel.compute(memory[1 : rows + 1], np.arange(rows), placed(32), FLOAT32, rows)
    core.fill(before[1 : rows + 1], np.arange(rows), placed(32), dtype=FLOAT32)
    assert np.array_equal(bits(memory), bits(before))


DRIVER = """
import sys
from decimal import Decimal
import numpy as np
from posenc_cli.backends import fast, native
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from posenc_cli.numerics.memory import on_lines
from posenc_cli.numerics.placements import Placement
from posenc_cli.numerics.waves import WaveTable
library = native.loaded_library()
rates = [Decimal(1) / (n + 1) for n in range(37)]
for count in (1, 32, 37):
    core = WaveTable(rates[:count], scale=Decimal("1.1"))
    pairs = [Placement("cos", slice(0, count)), Placement("sin", slice(count, 2 * count))]
    turns = [Placement("sin", slice(0, 2 * count, 2)), Placement("cos", slice(1, 2 * count, 2))]
    for placed in (pairs, turns, pairs[:1]):
        for dtype in (FLOAT64, FLOAT32, BFLOAT16, FLOAT16):
            for start in (0, 2**53 - 70):
                positions = np.arange(start, start + 70)
                right = np.zeros((70, 2 * count), dtype.numpy)
                core.fill(right, positions, placed, dtype=dtype)
                for instructions in range(library.posenc_instructions() + 1):
                    within = np.zeros(right.nbytes + 16, np.uint8)[16:]
                    within = within.view(dtype.numpy).reshape(right.shape)
                    lines = on_lines(right.shape, dtype.numpy)
                    for large, out in ((0, lines), (0, within), (1 << 40, lines)):
                        fast.CACHED_BYTES = large
                        waves = fast.CompiledWaves(core, library, instructions)
                        out[...] = 0
                        waves.compute(out, positions, placed, dtype, start + 69)
                        assert out.tobytes() == right.tobytes()
print("sound")
"""


@pytest.mark.long
@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_the_kernel_reads_and_writes_what_is_its_own_and_does_nothing_undefined(tmp_path):
    """By the sanitizers of addresses and of undefined behaviour."""
    hatch_build = pytest.importorskip("hatch_build", reason="hatchling is not installed")
    library = tmp_path / native.LIBRARY.name
    flags = ("-Og", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    assert hatch_build.compiled(library, flags=flags)
    found = ran("gcc", "-print-file-name=libasan.so")
    code = DRIVER.replace(
        "library = native.loaded_library()",
        f"import pathlib; native.LIBRARY = pathlib.Path({str(library)!r}); "
        "library = native.loaded_library()",
    )
    settings = {"LD_PRELOAD": found.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    assert python(code, **settings).stdout == "sound\n"


def python(code, **environment):
    own = {**UNMEASURED, "PYTHONPATH": str(ROOT), **environment}
    done = ran_code(code, check=False, cwd="/", env=own)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.long
def test_a_damaged_library_is_compiled_anew(library, tmp_path, monkeypatch):
    hatch_build = pytest.importorskip("hatch_build", reason="hatchling is not installed")
    whole = tmp_path / "whole.so"
    library.rename(whole)
    library.write_bytes(whole.read_bytes()[:1000])
    compiler = tmp_path / "cc"  # compiling takes half a minute
    compiler.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ncp "{whole}" "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert hatch_build.compiled(library)
    assert native.is_whole(library)


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_the_library_needs_no_later_glibc_than_its_tag_says():
    versions = re.findall(rb"GLIBC_2\.(\d+)", native.LIBRARY.read_bytes())
    assert max(map(int, versions)) <= 17


def test_without_a_compiler_there_is_no_library_and_no_complaint(tmp_path, monkeypatch):
    hatch_build = pytest.importorskip("hatch_build", reason="hatchling is not installed")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(hatch_build.shutil, "which", lambda _: None)
    assert not hatch_build.compiled(tmp_path / "waves.so")
    assert not list(tmp_path.iterdir())


@every_dtype
def test_a_column_of_zeros_has_no_sign_whatever_the_scale(dtype):
    placements = [Placement("cos", slice(0, 1)), Placement("zero", slice(1, 2))]
    assert_same_bytes(pair([Decimal(1)], "-1"), np.arange(300) % 32, placements, dtype, 2)


def test_a_float64_is_split_into_halves_whose_products_are_exact():
    """By Veltkamp's constant, 2^27 + 1; where nothing is fused, exact products rest on it."""
    kernel = (ROOT / "posenc_cli" / "backends" / "waves_kernel.h").read_text()
    constants = re.findall(r"scaled = \w+ \* (0x[\w.]+)", kernel)
    assert [float.fromhex(each) for each in constants] == [2.0**27 + 1] * 2


@pytest.mark.parametrize("backend", [NumpyBackend(), FastBackend()], ids=lambda each: each.name)
def test_float16_is_refused_where_subnormal_numbers_are_flushed(backend, monkeypatch):
    waves = backend.exact([Decimal(1)], scale=Decimal(1), device=None)
    monkeypatch.setattr(rounding_of_halves, "SMALLEST", np.float32(0))
    out = np.empty((2 * fast.FEW_ROWS, 2), np.float16)
    with pytest.raises(Unavailable, match="flushes subnormal numbers"):
        waves.fill(out, np.arange(len(out)), halves(1), dtype=FLOAT16)
