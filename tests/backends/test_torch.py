"""The torch backend: NumPy's bytes where exact, a torch module's values where not."""

import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import cache

import numpy as np
import pytest

from posenc_cli.backends.torch import TorchBackend
from posenc_cli.catalogue import BUILT_IN
from posenc_cli.encoding import arrays as blocks_module
from posenc_cli.encoding.engine import Engine
from posenc_cli.errors import InvalidInput, Unavailable
from posenc_cli.formulas.rotary import rope
from posenc_cli.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, REAL_DTYPES
from posenc_cli.numerics.placements import Placement
from posenc_cli.numerics.rounding import narrow, widen
from posenc_cli.numerics.waves import WaveTable
from tests.contracts.test_schemes import SMALL
from tests.matrices import request
from tests.processes import ran_code

torch = pytest.importorskip("torch", reason="torch is not installed")
from posenc_cli.backends import torch_waves  # noqa: E402

every_dtype = pytest.mark.parametrize("dtype", REAL_DTYPES.values(), ids=REAL_DTYPES)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
lacks_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")

POSITIONS = {
    "from 0": np.arange(3000),
    "a few": np.arange(1000, 1010),
    "across tables": np.arange(1020, 7000),
    "before 2^53": np.arange(2**53 - 700, 2**53 + 1),
    "both signs": np.arange(-600, 600),
    "evenly spaced": np.arange(0, 10**6, 1700),
    "any": np.random.default_rng(0).integers(-(2**53), 2**53, 500),
    "repeated": np.array([7, 3, 3, 0, -7, 2**53]),
    "out of order": np.array([0, *np.random.default_rng(1).permutation(range(1, 299)), 299]),
    "none": np.arange(0),
}


def frequencies(count):
    return [Decimal(10_000) ** (-Decimal(i) / count) for i in range(count)]


def interleaved(count):
    """Sines and cosines alternately, then a column of zeros and one that nobody fills."""
    return [
        Placement("sin", slice(0, 2 * count, 2)),
        Placement("cos", slice(1, 2 * count, 2)),
        Placement("zero", slice(2 * count, 2 * count + 1)),
    ], 2 * count + 2


def halves(count):
    return [
        Placement("cos", slice(0, count)),
        Placement("sin", slice(count, 2 * count)),
    ], 2 * count


def apart(count):
    """Columns with gaps, from some of the waves: no plain range."""
    return [
        Placement("cos", slice(0, 3 * count, 3)),
        Placement("sin", slice(1, 4, 3), slice(0, 1)),
    ], 3 * count + 1


def filled(waves, positions, layout, count, dtype):
    placements, width = layout(count)
    out = np.full((positions.size, width), 7, dtype.numpy)
    waves.fill(out, positions, placements, dtype=dtype)
    return out


def assert_same_bytes(found, expected):
    word = np.dtype(f"u{expected.itemsize}")
    differing = np.argwhere(found.view(word) != expected.view(word))
    assert differing.size == 0, differing[:5]


def exact_waves(some, *, scale=Decimal(1), device=None):
    return TorchBackend().exact(some, scale=scale, device=device)


@cache
def both_waves(count, scale):
    """NumPy's waves and torch's, kept: their tables take longer to make than to use."""
    some = frequencies(count)
    return WaveTable(some, scale=Decimal(scale)), exact_waves(some, scale=Decimal(scale))


# Exact values


@pytest.mark.long
@pytest.mark.sweep(5)
@every_dtype
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_scheme_is_numpys_bytes_with_torch_alone(name, dtype, monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_compat", None)  # importing it fails
    given = SMALL.get(name, {})
    scattered = () if BUILT_IN[name].kind == "relative" else ("5:590:123,7,7",)
    for positions in ("0:150", *scattered):
        plan = request(name, positions, dtype=dtype.name, **given).plan()
        found, expected = (
            list(plan.matrix(Engine(backend)).blocks())
            for backend in (TorchBackend(), Engine().backend)
        )
        assert b"".join(map(bytes, found)) == b"".join(map(bytes, expected))


@pytest.mark.long
@pytest.mark.sweep(21)
@every_dtype
@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
def test_any_positions_and_columns_are_numpys_bytes(positions, dtype):
    for count, scale in ((33, "1"), (3, "-0.0025"), (1, "1e6"), (300, "1.3465735902799727")):
        numpy_waves, waves = both_waves(count, scale)
        for layout in (interleaved, halves, apart):
            expected = filled(numpy_waves, positions, layout, count, dtype)
            assert_same_bytes(filled(waves, positions, layout, count, dtype), expected)


@every_dtype
def test_the_size_of_a_block_does_not_show(dtype, monkeypatch):
    plan = request("rope", "0:2500", dim=16, dtype=dtype.name).plan()
    whole = b"".join(map(bytes, plan.matrix(Engine()).blocks()))
    for values in (16, 1000):
        monkeypatch.setattr(blocks_module, "BLOCK_VALUES", values)
        matrix = plan.matrix(Engine(TorchBackend()))
        assert b"".join(map(bytes, matrix.blocks())) == whole


@every_dtype
def test_rows_may_lie_apart_and_run_backwards(dtype):
    expected = filled(WaveTable(frequencies(8)), np.arange(40), halves, 8, dtype)
    room = np.zeros((80, 16), dtype.numpy)
    exact_waves(frequencies(8)).fill(room[::-2], np.arange(40), halves(8)[0], dtype=dtype)
    assert_same_bytes(room[::-2].copy(), expected)
    assert not room[::2].any()


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        (FLOAT32, 1 + Decimal(2) ** -24),
        (BFLOAT16, 1 + Decimal(2) ** -8),
        (FLOAT16, 1 + Decimal(2) ** -11),
        (FLOAT16, Decimal(65520)),
        (BFLOAT16, 3 * Decimal(2) ** -134),
        (FLOAT16, 5 * Decimal(2) ** -25),
    ],
    ids=str,
)
def test_cells_beside_a_tie_are_settled_by_the_core(dtype, scale):
    """Cosines of tiny angles, times a tie: beside it at most by what float64 cannot hold."""
    some = [Decimal(0), Decimal("1e-12"), Decimal("1e-30"), Decimal("1e-5"), Decimal(-1)]
    for positions in (np.arange(200), np.array([-3, 1, 10**9])):
        expected = filled(WaveTable(some, scale=scale), positions, interleaved, 5, dtype)
        found = filled(exact_waves(some, scale=scale), positions, interleaved, 5, dtype)
        assert_same_bytes(found, expected)


@every_dtype
@pytest.mark.parametrize("scale", ["0", "1e-42", "1e-300", "1e39", "-1e300"])
def test_scales_that_leave_the_range_of_a_format(scale, dtype):
    some = frequencies(4)
    expected = filled(WaveTable(some, scale=Decimal(scale)), np.arange(50), interleaved, 4, dtype)
    found = filled(exact_waves(some, scale=Decimal(scale)), np.arange(50), interleaved, 4, dtype)
    assert_same_bytes(found, expected)


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=["float16", "bfloat16"])
def test_rounding_to_odd_first_makes_torchs_rounding_right(dtype):
    numbers = widen(np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy), dtype)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    middles = (numbers[1:] + numbers[:-1]) / 2
    values = np.concatenate(
        [numbers, middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)]
    )
    values = np.concatenate([values, [1e39, -1e39, 65519.999999, 65520.0, 3.4e38, 1e-300, -1e-300]])
    waves = exact_waves([Decimal(1)])
    rounded = waves._storage(waves._narrow(waves._odd(torch.tensor(values)), dtype), dtype)
    expected = narrow(values, None, dtype)
    assert_same_bytes(rounded[values != 0], expected[values != 0])
    plain = waves._storage(waves._narrow(torch.tensor(values), dtype), dtype)
    assert (plain != expected).any()  # what rounding twice would give


# Threads and global state


@pytest.fixture
def torch_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_threads_of_torch_and_of_python_do_not_show(torch_threads, monkeypatch):
    monkeypatch.setattr(torch_waves, "CPU_CELLS", 1 << 18)  # enough for torch to share
    expected = filled(WaveTable(frequencies(32)), np.arange(20_000), halves, 32, FLOAT32)
    for threads in (1, 2):
        torch_threads(threads)
        waves = exact_waves(frequencies(32))
        found = np.empty_like(expected)

        def fill(start, waves=waves, found=found):
            rows = slice(start, start + 500)
            waves.fill(found[rows], np.arange(20_000)[rows], halves(32)[0], dtype=FLOAT32)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(fill, range(0, 20_000, 500)))
        assert_same_bytes(found, expected)


def test_torchs_global_settings_stay_as_they_are():
    def settings():
        return (
            torch.get_num_threads(),
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
            torch.initial_seed(),
        )

    before = settings()
    filled(exact_waves(frequencies(4)), np.arange(5), halves, 4, BFLOAT16)
    filled(rotary_waves("bfloat16"), np.arange(5), halves, 32, FLOAT32)
    TorchBackend().status()
    assert settings() == before


def test_other_global_settings_do_not_show():
    expected = filled(WaveTable(frequencies(4)), np.arange(50), halves, 4, FLOAT16)
    reduced = filled(rotary_waves("float32"), np.arange(50), halves, 32, FLOAT32)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        found = filled(exact_waves(frequencies(4)), np.arange(50), halves, 4, FLOAT16)
        again = filled(rotary_waves("float32"), np.arange(50), halves, 32, FLOAT32)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    assert_same_bytes(found, expected)
    assert_same_bytes(again, reduced)


# Values of torch modules


def rotary_waves(arithmetic, *, scale=1.0, base=10_000.0):
    rule = rope.bind({"dim": 64, "base": base}).content.waves.frequencies
    return TorchBackend().reduced(rule, scale=scale, arithmetic=arithmetic, device=None)


class RotaryModule(torch.nn.Module):
    """A rotary embedding as models write it: a buffer made in float32, angles by a product."""

    def __init__(self, dim, base, scaling):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim))
        self.register_buffer("inv_freq", inv_freq)
        self.scaling = scaling

    def forward(self, positions):
        # (dim/2, 1) @ (1, P) in the precision of the buffer
        columns = self.inv_freq[None, :, None]
        rows = positions[None, None, :].to(self.inv_freq.dtype)
        angles = (columns @ rows).transpose(1, 2)
        both = torch.cat((angles, angles), dim=-1)
        return (both.cos() * self.scaling)[0], (both.sin() * self.scaling)[0]


@pytest.mark.parametrize("scaling", [1.0, 1.2079441541679836])
@pytest.mark.parametrize("arithmetic", ["float32", "bfloat16"])
def test_reduced_values_are_those_of_a_module(arithmetic, scaling):
    module = RotaryModule(64, 500_000.0, scaling).to(getattr(torch, arithmetic))
    waves = rotary_waves(arithmetic, scale=scaling, base=500_000.0)
    dtype = REAL_DTYPES[arithmetic]
    for positions in (np.arange(4096), np.array([2**24 + 1, 10**9, 131071])):
        cosines, sines = (part[:, :32] for part in module(torch.tensor(positions)))
        found = filled(waves, positions, halves, 32, dtype)
        expected = torch.cat((cosines, sines), dim=-1).double().numpy()
        assert_same_bytes(widen(found, dtype), expected)
        assert_same_bytes(filled(waves, positions, halves, 32, FLOAT64), expected)


def test_reduced_values_are_rounded_once_more_to_a_narrower_format():
    wide = filled(rotary_waves("float32"), np.arange(500), halves, 32, FLOAT64)
    half = filled(rotary_waves("float32"), np.arange(500), halves, 32, FLOAT16)
    assert_same_bytes(half, narrow(wide, None, FLOAT16))


def test_frequencies_are_those_of_a_module():
    rule = rope.bind({"dim": 64, "base": 500_000.0}).content.waves.frequencies
    for arithmetic in ("float32", "bfloat16"):
        module = RotaryModule(64, 500_000.0, 1.0).to(getattr(torch, arithmetic))
        found = TorchBackend().frequencies(rule, arithmetic=arithmetic, device=None)
        assert_same_bytes(found, module.inv_freq.double().numpy())


def test_float64_is_torchs_float64():
    steps = torch.arange(0, 64, 2, dtype=torch.float64) / 64
    angles = torch.outer(torch.arange(900, dtype=torch.float64), 1 / 10_000.0**steps)
    expected = torch.cat((angles.cos(), angles.sin()), dim=-1).numpy()
    assert_same_bytes(
        filled(rotary_waves("float64"), np.arange(900), halves, 32, FLOAT64), expected
    )


def test_reduced_angles_are_the_products_less_whole_turns():
    positions = np.array([1, 100, 10**6])
    found = rotary_waves("float32").angles(positions, dtype=FLOAT64)
    rates = RotaryModule(64, 10_000.0, 1.0).inv_freq
    products = torch.outer(torch.tensor(positions).float(), rates).double().numpy()
    assert (np.abs(found) <= np.pi).all()
    assert np.allclose(np.cos(found), np.cos(products), atol=1e-9, rtol=0)
    assert np.allclose(np.sin(found), np.sin(products), atol=1e-9, rtol=0)


# Devices


@pytest.mark.parametrize("name", ["", "foo", "cuda:x", "cuda:-1", "CPU", "cpu:0:0", "\udcff"])
def test_no_name_of_a_device(name):
    with pytest.raises(InvalidInput, match="torch has no device of this name"):
        exact_waves([Decimal(1)], device=name)


@lacks_cuda
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_cuda_where_there_is_none(name):
    backend = TorchBackend()
    rule = rope.bind({}).content.waves.frequencies
    for asked in (
        lambda: exact_waves([Decimal(1)], device=name),
        lambda: backend.reduced(rule, scale=1.0, arithmetic="float32", device=name),
        lambda: backend.frequencies(rule, arithmetic="float32", device=name),
    ):
        with pytest.raises(
            Unavailable, match=f"^--device {name}: torch cannot compute there"
        ) as raised:
            asked()
        assert "\n" not in raised.value.message


@pytest.mark.parametrize("name", ["meta", "vulkan", "xla", "mkldnn"])
def test_devices_without_values_or_without_support(name):
    with pytest.raises(Unavailable, match=f"^--device {name}: ") as raised:
        exact_waves([Decimal(1)], device=name)
    assert "\n" not in raised.value.message


def test_a_device_without_float64(monkeypatch):
    """Exact values and float64 are refused, float32 stays."""
    from posenc_cli.backends import torch as torch_device

    monkeypatch.setattr(torch_device, "has_float64", lambda _torch, place: place.index is None)
    rule = rope.bind({}).content.waves.frequencies
    backend = TorchBackend()
    with pytest.raises(Unavailable, match="^--device cpu:0 has no float64$"):
        exact_waves([Decimal(1)], device="cpu:0")
    with pytest.raises(Unavailable, match="has no float64"):
        backend.reduced(rule, scale=1.0, arithmetic="float64", device="cpu:0")
    with pytest.raises(Unavailable, match="has no float64"):
        backend.frequencies(rule, arithmetic="float64", device="cpu:0")
    waves = backend.reduced(rule, scale=1.0, arithmetic="float32", device="cpu:0")
    found = filled(waves, np.arange(9), halves, 32, FLOAT32)
    assert_same_bytes(found, filled(rotary_waves("float32"), np.arange(9), halves, 32, FLOAT32))


@needs_cuda
@every_dtype
@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
def test_a_cuda_device_gives_numpys_bytes(positions, dtype):
    for layout in (interleaved, halves, apart):
        expected = filled(WaveTable(frequencies(33)), positions, layout, 33, dtype)
        waves = exact_waves(frequencies(33), device="cuda")
        assert_same_bytes(filled(waves, positions, layout, 33, dtype), expected)


# Status and the command line


def test_status_names_version_and_devices():
    found = TorchBackend().status()
    assert found.available
    assert found.version == torch.__version__
    assert found.devices[0] == "cpu"
    assert ("cuda" in found.devices) == torch.cuda.is_available()


@pytest.mark.slow
def test_the_backend_is_imported_without_torch():
    code = (
        "import sys\n"
        "from posenc_cli.backends import registry\n"
        "registry.find('torch')\n"
        "assert registry.choose('auto', device=None, values=1 << 30).backend.name != 'torch'\n"
        "assert 'torch' not in sys.modules\n"
    )
    ran_code(code)


@pytest.mark.slow
def test_generate_writes_numpys_file(posenc, tmp_path):
    for name, *options in (
        ("numpy.npy", "--backend", "numpy"),
        ("torch.npy", "--backend", "torch"),
        ("device.npy", "--device", "cpu:0", "--backend", "torch"),
    ):
        done = posenc("generate", "-s", "rope", "-l", "1000", "-o", name, *options)
        assert done.returncode == 0, done.stderr
    files = [(tmp_path / f"{name}.npy").read_bytes() for name in ("numpy", "torch", "device")]
    assert files[0] == files[1] == files[2]


@pytest.mark.slow
@lacks_cuda
@pytest.mark.parametrize("options", [[], ["--backend", "torch"]])
def test_generate_on_a_missing_device(posenc, tmp_path, options):
    done = posenc("generate", "-s", "rope", "-l", "9", "--device", "cuda", *options)
    assert done.returncode == 3
    assert "--device cuda: " in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=["absent", "OSError", "ImportError", "SystemExit", "empty"])
def broken_torch(request, tmp_path_factory):
    """A Python path on which torch is missing or broken, and what is said of it."""
    folder = tmp_path_factory.mktemp("path")
    kind = request.param
    if kind == "absent":
        (folder / "sitecustomize.py").write_text(
            "from importlib.machinery import PathFinder\n"
            "find = PathFinder.find_spec\n"
            "def find_spec(name, path=None, target=None):\n"
            "    return None if name == 'torch' else find(name, path, target)\n"
            "PathFinder.find_spec = find_spec\n"
        )
        return folder, "torch is not installed"
    (folder / "torch").mkdir()
    message = "'libtorch.so: cannot open shared object file\\nsecond line'"
    body = "" if kind == "empty" else f"raise {kind}({message})\n"
    (folder / "torch" / "__init__.py").write_text(body)
    if kind == "empty":
        return folder, "torch cannot be used (AttributeError: "
    return folder, f"torch cannot be imported ({kind}: libtorch.so: cannot open shared object file)"


@pytest.mark.long
@pytest.mark.sweep(3)
def test_a_missing_or_broken_torch(broken_torch, posenc, tmp_path):
    folder, reason = broken_torch
    environment = {"PYTHONPATH": str(folder)}
    asked = posenc("generate", "-s", "rope", "-l", "9", "--backend", "torch", env=environment)
    assert asked.returncode == 3, asked.stderr
    assert reason in asked.stderr
    assert "hint: pip install torch\n" in asked.stderr
    assert "Traceback" not in asked.stderr
    assert "second line" not in asked.stderr
    rows = posenc("generate", "-s", "normalized", "-l", "9", "--backend", "torch", env=environment)
    assert (rows.returncode, reason in rows.stderr) == (3, True)
    assert posenc("--version", "--verbose", env=environment).returncode == 0
    silent = posenc("generate", "-s", "rope", "-l", "9", "-o", "auto.npy", env=environment)
    assert silent.returncode == 0
    assert reason not in silent.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["auto.npy"]
