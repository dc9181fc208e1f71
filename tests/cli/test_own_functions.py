"""A plain function f(positions) → (n, d) wherever a scheme is taken: its rows, checked, as it is.

The oracle is the function itself, called with all positions at once.
"""

import json
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import posenc_cli as library

MINE = """
from __future__ import annotations

import threading
import time

import numpy as np


def waves(positions, dim: int = 6, base=10000.0, *, sign="plus", table=None):
    '''Sines of half the usual frequencies.

    More about them.
    '''
    angles = positions[:, None] * base ** (-np.arange(0, dim, 2) / dim) / 2
    values = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return values if sign == "plus" else -values


def required(positions, width: int):
    return np.ones((len(positions), width))


class Table:
    '''Rows that are looked up, of which there are 40.'''

    def __init__(self):
        self.rows = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)

    def __call__(self, positions):
        return self.rows[positions]


table = Table()
weights = np.random.default_rng(1).standard_normal((4096, 32)).astype(np.float32)


def product(positions):
    '''Whose last digits depend on how many rows are multiplied.'''
    hidden = np.cos(positions[:, None] * np.linspace(0, 3, 4096)).astype(np.float32)
    return hidden @ weights


def changes_its_positions(positions):
    positions += 1
    return positions[:, None] * np.ones(3)


def plain_lists(positions):
    return [[int(p) % 7, 1] for p in positions]


def loud(positions):
    print("loud")
    return np.zeros((len(positions), 2))


inside = threading.Lock()


def alone(positions):
    assert inside.acquire(blocking=False), "called by two threads at once"
    time.sleep(0.002)  # lets others run
    values = np.outer(positions, np.ones(64))
    inside.release()
    return values
"""

DIFFERENT = "different rows for positions 0 and"
WRONG = {
    # What the function returns, what is said of it, and what the hint says.
    "raises": ("raise KeyError('no')", "its code raised KeyError: 'no', for positions 0 to 1"),
    "exits": ("raise SystemExit(0)", "its code raised SystemExit: 0, for positions 0 to 1"),
    "nothing": ("pass", "returned None; expected an (n, d) array of real numbers"),
    "ragged": ("return [[1], [1, 2]]", "returned a list that cannot be read as an array (Value"),
    "texts": ("return [['a']] * len(p)", "returned a list of str; expected an (n, d) array"),
    "unreal": ("return np.ones((len(p), 2), complex)", "returned an array of complex128;"),
    "one_axis": ("return np.sin(p)", "returned the shape (2,) for 2 positions"),
    "batch": ("return np.ones((1, len(p), 4))", "returned the shape (1, 2, 4) for 2 positions"),
    "turned": ("return np.ones((4, len(p)))", "returned the shape (4, 2) for 2 positions"),
    "short": ("return np.ones((len(p[:8]), 4))", "returned the shape (8, 4) for 16 positions"),
    "infinite": (
        "return np.stack([p, np.where(p == 3, np.inf, p)], 1)",
        "is not finite at position 3, column 1",
    ),
    "no_columns": ("return np.ones((len(p), 0))", "returned the shape (2, 0) for 2 positions"),
    # Rows that depend on other positions.
    "share": ("return np.outer(p / p.max(), np.ones(4))", f"{DIFFERENT} 8 alone"),
    "counted": ("return np.outer(np.arange(len(p)), [1.0, 2.0])", DIFFERENT),
    "length": ("return np.outer(p / len(p), [1.0, 2.0])", f"{DIFFERENT} 8 alone"),
    "chance": ("return np.random.rand(len(p), 3)", DIFFERENT),
    "centred": ("return np.outer(p - p.mean(), [1.0])", DIFFERENT),
    "remembers": ("f.n = getattr(f, 'n', 0) + 1\n    return np.outer(p + f.n, [1.0])", DIFFERENT),
}
ROW_BY_ROW = "hint: a row may depend only on its own position"
CALLED = "hint: it is called as f(positions), an array of n numbers, and returns n rows: (n, d)"


@pytest.fixture
def mine(call, tmp_path, monkeypatch):
    """The user's module, imported here too; the current folder has it as a file."""
    monkeypatch.setattr(sys, "path", [str(tmp_path / "library"), *sys.path])
    monkeypatch.delitem(sys.modules, "own_functions", raising=False)
    for place in (tmp_path / "mine.py", tmp_path / "library" / "own_functions.py"):
        place.parent.mkdir(exist_ok=True)
        place.write_text(MINE)
    import own_functions

    yield own_functions
    del sys.modules["own_functions"]


def rows_of(call, *words):
    status, out, err = call("generate", *words, "--dtype", "float64", "-o", "rows.npy", "--json")
    assert status == 0, err
    assert err == ""
    return np.load("rows.npy"), json.loads(out)


@pytest.mark.parametrize("name", ["./mine.py", "own_functions"])
@pytest.mark.parametrize("function", ["waves", "table", "plain_lists", "changes_its_positions"])
def test_the_rows_are_those_that_the_function_returns(name, function, mine, call):
    rows, told = rows_of(call, "-s", f"{name}:{function}", "-l", "40")
    np.testing.assert_array_equal(rows, getattr(mine, function)(np.arange(40)))
    assert told["arithmetic"] == "as-given"
    assert call("generate", "-s", f"{name}:{function}", "-l", "9")[2].endswith(
        f"; values as {function.replace('_', '-')} gives them\n"
    )


def test_values_are_rounded_once_to_the_format_that_is_asked_for(mine, call):
    call("generate", "-s", "./mine.py:waves", "-l", "99", "--dtype", "float16", "-o", "half.npy")
    np.testing.assert_array_equal(np.load("half.npy"), mine.waves(np.arange(99)).astype("f2"))


def test_its_other_parameters_are_options(mine, call, refused):
    given = ("--dim", "10", "--base", "7.5", "--set", "sign=minus")
    rows, told = rows_of(call, "-s", "./mine.py:waves", "-l", "8", *given)
    np.testing.assert_array_equal(rows, mine.waves(np.arange(8), 10, 7.5, sign="minus"))
    assert told["params"] == {"dim": 10, "base": 7.5, "sign": "minus"}
    rows, _ = rows_of(call, "-s", "./mine.py:required", "-l", "3", "--set", "width=4")
    assert rows.shape == (3, 4)
    for wrong, said in (
        (("./mine.py:required",), "required needs --set width"),
        (("./mine.py:waves", "--set", "table=3"), "has no parameter 'table'"),
    ):
        assert said in refused("generate", "-l", "3", "-s", *wrong)


def test_positions_that_are_not_whole_are_given_as_float64(mine, call):
    rows, _ = rows_of(call, "-s", "./mine.py:waves", "--positions", "0.5,-3,1/3,1000000")
    places = np.array([0.5, -3, 1 / 3, 1_000_000])
    np.testing.assert_array_equal(rows, mine.waves(places))


@pytest.mark.long
@pytest.mark.usefixtures("mine")
def test_every_command_that_takes_an_absolute_scheme_takes_it(call):
    for command in ("heatmap", "curve", "dot-similarity", "order-check", "inspect"):
        assert call(command, "-s", "./mine.py:waves", "-l", "12")[0] == 0, command
    assert call("heads", "-s", "./mine.py:waves", "--train", "20", "--test", "20")[0] == 0
    assert call("apply", "-s", "./mine.py:waves", "-l", "9", "--seed", "0", "-o", "y.npy")[0] == 0
    assert call("emit", "-s", "./mine.py:waves", "-l", "9", "-o", "pack")[0] == 0
    told = Path("pack/pack.json").read_text()
    assert "correctly rounded" not in told
    assert told.count("as waves gives it, rounded once") == 2
    assert call("generate", "-s", "rope+./mine.py:waves", "-l", "9", "-o", "both.npz")[0] == 0
    assert call("schemes", "./mine.py:waves")[1].startswith(
        "waves (absolute): Sines of half the usual frequencies.\n\nMore about them.\n\nFormula: "
    )
    same = ("--set", "b.order=sin-first", "--set", "b.layout=concat", "--tol", "1e-15")
    half = call("compare", "./mine.py:waves", "sinusoidal", "-l", "9", "-d", "6", *same)
    assert half[0] == 1  # other frequencies
    rows_of(call, "-s", "./mine.py:waves", "-l", "40")
    assert call("compare", "./mine.py:waves", "rows.npy", "-l", "40")[0] == 0


FLOAT32 = ("--arithmetic", "float32")


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("rotation",), "is an absolute encoding; it does not rotate vectors"),
        (("rope-check", "--impl", "./mine.py:waves"), "waves is an absolute encoding; it"),
        (("generate", "-l", "4", "--table", "cos"), "is an absolute encoding, not rotary"),
        (("generate", "-l", "4", "--head", "0"), "is an absolute encoding without heads"),
        (("generate", "-l", "4", *FLOAT32), "--arithmetic float32: waves computes in its own"),
        (("apply", "-l", "4", "--seed", "0", "-o", "y.npy", *FLOAT32), "waves computes in its own"),
        (("identify", "rows.npy"), "are not known; identify needs a scheme with known frequencies"),
    ],
)
def test_what_cannot_use_it_says_so_in_a_line(words, refusal, refused):
    np.save("rows.npy", np.ones((4, 4)))
    assert refusal in refused(*words, "-s", "./mine.py:waves").splitlines()[0]


@pytest.mark.long
@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("-s", "./mine.py:waves"), 0, "waves: sees order; scores depend on position"),
        (("-s", "./mine.py:loud"), 0, "loud: blind to order; scores depend on distance"),
        (("-s", "nope+./mine.py:loud", "-d", "2"), 0, "nope+loud: blind to order"),
        (("-s", "./mine.py:waves", "--expect", "order"), 0, "ok: waves: sees order"),
        (("-s", "./mine.py:loud", "--expect", "order"), 1, "FAILED: loud: blind to order"),
        (("-s", "./mine.py:waves", "-s", "rope"), 0, "ok: rope behaves as declared"),
        (("-s", "rope+./mine.py:waves"), 0, "ok: rope+waves behaves as declared"),
    ],
)
def test_order_check_says_what_was_measured_of_a_function(words, status, said, call):
    found, out, _ = call("order-check", *words)
    assert found == status
    lines = out.splitlines()
    assert any(line.startswith(said) for line in lines), out
    assert ("declare" in out) == ("rope" in said)
    assert ("expected" in out) == (status == 1)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_row_for_each_position_is_refused_in_a_line(name, monkeypatch, refused):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    body, refusal = WRONG[name]
    Path("wrong.py").write_text(f"import numpy as np\ndef f(p):\n    {body}\n")
    line, *hint = refused("generate", "-s", "./wrong.py:f", "-l", "16").splitlines()
    assert line.startswith("posenc: error: --scheme ./wrong.py:f")
    assert refusal in line
    expected = ROW_BY_ROW if DIFFERENT in refusal else CALLED
    assert name == "infinite" or hint[0].startswith(expected)


def test_a_row_that_depends_on_the_first_position_is_seen_past_the_first_block(call, tmp_path):
    (tmp_path / "wrong.py").write_text(
        "import numpy as np\ndef f(p):\n    return np.outer(p - p.min(), [1.0])\n"
    )
    assert call("generate", "-s", "./wrong.py:f", "--start", "5", "-l", "9")[0] == 2


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        ("def f(): return 1", "takes no positions"),
        ("def f(*, p): return 1", "takes no positions"),
        ("def f(p, width): return 1", "requires width, which has neither a type nor a default"),
        ("def f(p, config: dict): return 1", "requires config, which has neither"),
        ("class f: pass", "is a class, not a scheme or a function"),
        ("f = 3", "is of the type int, not a scheme"),
    ],
)
def test_what_cannot_be_called_with_positions_alone_is_refused(code, refusal, refused):
    Path("wrong.py").write_text(code)
    for words in (("schemes", "./wrong.py:f"), ("generate", "-s", "./wrong.py:f", "-l", "4")):
        line, hint = refused(*words).splitlines()
        assert refusal in line
        assert hint.startswith("hint: ")


def test_a_matrix_product_of_another_number_of_rows_is_no_other_row(mine, call):
    alone = np.concatenate([mine.product(np.array([p])) for p in range(300)])
    together, _ = rows_of(call, "-s", "./mine.py:product", "-l", "300")
    np.testing.assert_allclose(together, alone, atol=1e-3)


@pytest.mark.usefixtures("mine")
def test_what_it_prints_is_no_part_of_the_result(call):
    asked = ("-l", "2", "-o", "-", "--format", "csv")
    status, out, err = call("generate", "-s", "./mine.py:loud", *asked)
    assert (status, out) == (0, "0.0,0.0\n0.0,0.0\n")
    assert "loud" in err


@pytest.mark.long
@pytest.mark.usefixtures("mine")
def test_one_thread_at_a_time_calls_it(call):
    assert call("generate", "-s", "./mine.py:alone", "-l", "60000", "--threads", "4")[0] == 0


@pytest.mark.usefixtures("mine")
def test_nothing_is_said_to_be_proved_of_it(document, refused):
    (only,) = document("inspect", "-s", "./mine.py:table", "-l", "40")["schemes"]
    assert {found["evidence"] for found in only["properties"]} == {"measured"}
    beyond = next(each for each in only["properties"] if each["name"] == "defined-beyond")
    assert beyond["holds"] is None
    past = refused("generate", "-s", "./mine.py:table", "-l", "41")
    assert ("IndexError" in past, "for positions 0 to 40" in past) == (True, True)


def test_the_library_takes_functions_and_objects(mine):
    where = np.array([[0, 5], [7, 2]])
    expected = mine.waves(where.reshape(-1), 8).reshape(2, 2, 8)
    np.testing.assert_array_equal(
        library.encode(mine.waves, where, dim=8, dtype="float64"), expected
    )
    np.testing.assert_array_equal(library.encode(mine.table, 40), mine.table.rows)
    x = np.ones((3, 6))
    np.testing.assert_array_equal(library.apply(x, mine.waves), 1 + mine.waves(np.arange(3)))
    assert library.compare(mine.waves, mine.waves(np.arange(9)), 9).ok
    assert library.inspect(mine.waves)["unique"].holds
    for wrong, words in (
        (lambda: library.frequencies(mine.waves), "has no frequencies"),
        (lambda: library.encode(mine.Table, 4), "encoding Table is a class, not a scheme"),
        (lambda: library.encode(lambda p: p, 4), "encoding <lambda> returned the shape"),
        (lambda: library.encode(mine.waves, 4, arithmetic="float32"), "in its own arithmetic"),
        (lambda: library.identify(x, schemes=["./mine.py:waves"]), "is a function of positions"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong()


TORCH = """
import torch


def waves(positions, dim: int = 8):
    angles = positions[:, None] * 10000 ** (-torch.arange(0, dim, 2) / dim)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def half(positions):
    return waves(positions).bfloat16()


torch.manual_seed(0)
table = torch.nn.Embedding(32, 8)
dropped = torch.nn.Sequential(table, torch.nn.Dropout())
"""


@pytest.mark.long
def test_functions_and_modules_of_torch_are_given_tensors(call, tmp_path, refused):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "mine.py").write_text(TORCH)
    places = torch.arange(32)
    made: dict = {}
    exec(TORCH, made)
    for name in ("waves", "half", "table"):
        rows, _ = rows_of(call, "-s", f"./mine.py:{name}", "-l", "32")
        expected = made[name](places).detach().double().numpy()
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(library.encode(made[name], 32, dtype="float64"), expected)
    assert DIFFERENT in refused("generate", "-s", "./mine.py:dropped", "-l", "32")


def test_a_function_that_calls_posenc_with_a_function_does_not_wait_for_itself(mine):
    def doubled(positions):
        return 2 * library.encode(mine.waves, positions, dtype="float64")

    done = []
    thread = threading.Thread(target=lambda: done.append(library.encode(doubled, 5)), daemon=True)
    thread.start()
    thread.join(20)
    np.testing.assert_array_equal(done[0], (2 * mine.waves(np.arange(5))).astype("f4"))


OTHERS = {
    "tinygrad": """
from tinygrad import Tensor
def rows(positions):
    angles = positions.reshape(-1, 1) * Tensor([1.0, 0.25, 0.125])
    return angles.float()
def made(positions):
    return rows(positions if isinstance(positions, Tensor) else Tensor(positions))
""",
    "mlx": """
import mlx.core as mx
def rows(positions):
    return (positions[:, None] * mx.array([1.0, 0.25, 0.125])).astype(mx.bfloat16)
def made(positions):
    return rows(mx.array(positions))
""",
    "jax": """
import jax.numpy as jnp
def rows(positions):
    return (positions[:, None] * jnp.array([1.0, 0.25, 0.125])).astype(jnp.bfloat16)
def made(positions):
    return rows(jnp.asarray(positions))
""",
}


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_functions_of_other_frameworks_are_given_their_arrays(name, call, tmp_path, monkeypatch):
    if name == "tinygrad" and shutil.which("clang") is None:
        monkeypatch.setenv("DEV", "PYTHON")  # which it reads when it is imported
    pytest.importorskip(name, reason=f"{name} is not installed")
    (tmp_path / "mine.py").write_text(OTHERS[name])
    for function in ("rows", "made"):
        rows, _ = rows_of(call, "-s", f"./mine.py:{function}", "-l", "9")
        np.testing.assert_array_equal(rows, np.outer(np.arange(9), [1, 0.25, 0.125]))


LIKELIEST = """
import numpy as np


def strict(positions):
    import torch
    assert isinstance(positions, torch.Tensor), "no tensor"
    raise RuntimeError("what is wrong")


def lazy(positions):
    import torch
    return torch.mul(positions[:, None], torch.ones(1, 3, dtype=torch.float64))


def embedded(positions):
    import torch
    return torch.nn.functional.embedding(positions, torch.ones(64, 4))


def width(positions):
    return np.ones((positions.size, 2 if positions.max() < 3 else 5))


def sparse(positions):
    import torch
    return torch.ones(len(positions), 3).to_sparse()


def meta(positions):
    import torch
    return torch.ones(len(positions), 3, device="meta")
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("strict", ": its code raised RuntimeError: what is wrong, for positions 0 to 1"),
        ("embedded", ": its code raised IndexError: index out of range in self, for positions 0"),
        ("width", " returned rows of 2 numbers for positions 0 to 1, and of 5 for 0 to 99"),
        ("sparse", " returned a Tensor that cannot be read as an array (TypeError: can't conv"),
        ("meta", " returned a Tensor that cannot be read as an array (NotImplementedError: Cannot"),
        ("lazy", None),
    ],
)
def test_the_error_is_that_of_the_framework_that_it_is_of(function, said, posenc, tmp_path):
    """In a process of its own, which has not loaded torch before the function does."""
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "mine.py").write_text(LIKELIEST)
    done = posenc("generate", "-s", f"./mine.py:{function}", "-l", "100", "-o", "rows.npy")
    if said is None:
        assert done.returncode == 0, done.stderr
        expected = np.outer(np.arange(100), np.ones(3))
        np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), expected)
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert f"posenc: error: --scheme ./mine.py:{function}{said}" in done.stderr


HALVES = """
import torch

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(16, 512), torch.nn.GELU(), torch.nn.Linear(512, 8))


def waves(positions):
    return torch.sin(positions[:, None] * torch.linspace(0.1, 1, 16))


def learned(positions, kind: str = "bfloat16"):
    dtype = getattr(torch, kind)
    with torch.no_grad():
        return network.to(dtype)(waves(positions).to(dtype))


def grows(positions, kind: str = "bfloat16", share: float = 0.0):
    return (waves(positions) * (1 + share / len(positions))).to(getattr(torch, kind))
"""


@pytest.mark.long
@pytest.mark.parametrize(("kind", "share"), [("bfloat16", 0.05), ("float16", 0.006)])
def test_a_row_in_half_precision_may_change_by_its_roundings_alone(
    kind, share, call, tmp_path, refused
):
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "mine.py").write_text(HALVES)
    asked = ("-l", "300", "--set", f"kind={kind}")
    for name in ("learned", "grows"):
        assert call("generate", "-s", f"./mine.py:{name}", *asked)[0] == 0
    # A rounding of float32 changes which of two neighbours is the nearest.
    assert call("generate", "-s", "./mine.py:grows", *asked, "--set", f"share={2**-19}")[0] == 0
    err = refused("generate", "-s", "./mine.py:grows", *asked, "--set", f"share={share}")
    assert "returned different rows for positions 0 and 150 alone" in err
